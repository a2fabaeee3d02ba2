#!/bin/sh
# Tests the Rust examples, and what an outdated token is refused by.
set -eu
cd "$(dirname -- "$0")"

cargo test --locked --workspace --test fencing
exec ../run.sh "" stock leader read_write fenced
