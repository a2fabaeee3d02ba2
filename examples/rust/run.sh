#!/bin/sh
# Tests the Rust programs, and what an outdated token is refused by.
cd "$(dirname -- "$0")" || exit
exec cargo test --locked --no-fail-fast --workspace --test programs --test fencing
