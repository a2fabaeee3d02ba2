#!/usr/bin/env bash
# Tests the Rust client and the Rust programs, and prints how many tests passed and failed.
set -u
cd "$(dirname "$0")/../.." || exit 1

output=$(mktemp)
trap 'rm -f "$output"' EXIT
cargo test --locked --no-fail-fast -p redis-lock-client -p examples-rust 2>&1 | tee "$output"
status=${PIPESTATUS[0]}

sum() {
    sed -n "s/^test result: .* \([0-9]*\) $1;.*/\1/p" "$output" | awk '{ n += $1 } END { print n + 0 }'
}
printf '%s passed, %s failed\n' "$(sum passed)" "$(sum failed)"
exit "$status"
