#!/bin/sh
# Tests the Rust client, and then the packed crate as a project outside of this repository has it.
cd "$(dirname -- "$0")" || exit
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-4}" # they wait more than they work
cargo test --locked --no-fail-fast --package redis-lock-client || failed=1
cargo clippy --quiet --locked --package redis-lock-client --all-targets -- -D warnings || failed=1
cargo test --locked --package redis-lock-client --test package -- --ignored || failed=1
exit "${failed:-0}"
