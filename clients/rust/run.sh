#!/bin/sh
# Tests the Rust client, and then the packed crate as a project outside of this repository has it. FORM=short: nothing,
# because `make test` and `make lint` go through all of it but the packed crate.
[ "${FORM:-}" != short ] || { echo 'in make test and make lint'; exit; }
cd "$(dirname -- "$0")" || exit
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-4}" # they wait more than they work
cargo test --locked --no-fail-fast --package redis-lock-client --features opentelemetry || failed=1
for features in "" opentelemetry; do
    cargo clippy --quiet --locked --package redis-lock-client --features "$features" --all-targets -- -D warnings || failed=1
done
cargo test --locked --package redis-lock-client --test package -- --ignored || failed=1
exit "${failed:-0}"
