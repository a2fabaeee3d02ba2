#!/bin/sh
# Tests redis-lock.sh and the programs. Needs a built module (make build).
set -eu
cd "$(dirname -- "$0")"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
{
    status=0
    tests/run.sh || status=1
    export EXAMPLE_PROGRAM="bash clients/shell/programs.sh"
    (cd ../.. && cargo test -p examples-rust --test programs) || status=1
    echo "$status" >"$log.status"
} 2>&1 | tee "$log"
status=$(cat "$log.status")
rm -f "$log.status"
# The tests say `shell: 2 passed; 1 failed`, cargo `test result: ok. 2 passed; 1 failed; ...`.
awk '/^shell: / { passed += $2; failed += $4 }
    /^test result/ { passed += $4; failed += $6 }
    END { printf "%d passed, %d failed\n", passed, failed }' "$log"
exit "$status"
