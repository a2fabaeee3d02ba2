#!/bin/sh
# Tests the Node helper and programs: installs what package-lock.json pins into the ignored folder
# node_modules, and needs a built module (make build).
set -eu
cd "$(dirname -- "$0")"

npm ci --silent --no-audit --no-fund
rm -rf dist
npm run --silent build
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{
    status=0
    node --test --test-reporter=spec dist/tests/ || status=1
    export EXAMPLE_PROGRAM="node clients/node/dist/src/programs.js"
    (cd ../.. && cargo test -p examples-rust --test programs) || status=1
    echo "$status" >"$log.status"
} 2>&1 | tee "$log"
status=$(cat "$log.status")
rm -f "$log.status"
# Node says `ℹ pass 2` and `ℹ fail 1`, cargo `test result: ok. 2 passed; 1 failed; ...`.
awk '$1 != "#" && $2 == "pass" { passed += $3 }
    $1 != "#" && $2 == "fail" { failed += $3 }
    /^test result/ { passed += $4; failed += $6 }
    END { printf "%d passed, %d failed\n", passed, failed }' "$log"
exit "$status"
