#!/bin/sh
# Tests the Python helpers and programs: installs what requirements.txt pins into the ignored folder
# .venv, and needs a built module (make build).
set -eu
cd "$(dirname -- "$0")"

[ -x .venv/bin/python ] || python3 -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{
    status=0
    .venv/bin/python -m pytest -q -p no:cacheprovider tests || status=1
    export EXAMPLE_PROGRAM="clients/python/.venv/bin/python clients/python/programs.py"
    (cd ../.. && cargo test -p examples-rust --test programs) || status=1
    echo "$status" >"$log.status"
} 2>&1 | tee "$log"
status=$(cat "$log.status")
rm -f "$log.status"
# pytest says `1 failed, 2 passed in 3.4s`, cargo `test result: ok. 2 passed; 1 failed; ...`.
awk '/passed|failed/ && (/ in [0-9.]+s/ || /^test result/) {
        for (i = 2; i <= NF; i++) {
            if ($i ~ /^passed/) passed += $(i - 1)
            if ($i ~ /^(failed|error)/) failed += $(i - 1)
        }
    }
    END { printf "%d passed, %d failed\n", passed, failed }' "$log"
exit "$status"
