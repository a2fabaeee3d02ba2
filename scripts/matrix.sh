#!/bin/sh
# Runs a command once for each server, with REDIS_SERVER set to that server, and prints a summary at the end.
# A server that is not available counts as failed.
#
# usage: [SERVERS="redis-7.0 ..."] matrix.sh command...
set -eu
. "$(dirname -- "$0")/lib.sh"

: "${SERVERS:=$("$tools/servers.sh" names)}"
logs=$root/.servers
mkdir -p "$logs"
table=$logs/summary
: >"$table"
not_passed=

row() { printf '%-12s %-14s %-16s %s\n' "$@" >>"$table"; }

row server version result tests
for name in $SERVERS; do
    printf '\n==> %s: %s\n' "$name" "$*"
    log=$logs/$name.log
    if ! server=$("$tools/servers.sh" "$name"); then
        row "$name" - "NOT PASSED" "the server could not be had"
        echo 'error: the server could not be had' >"$log"
        not_passed="$not_passed $name"
        continue
    fi
    began=$(date +%s)
    # The pipe to tee would hide the command's status.
    { REDIS_SERVER=$server "$@" 2>&1 && echo yes >"$log.passed" || echo no >"$log.passed"; } | tee "$log"
    if [ "$(cat "$log.passed")" = yes ]; then
        result=passed
    else
        result="NOT PASSED"
        not_passed="$not_passed $name"
    fi
    # The summary lines of nextest, `cargo test` and the fault runs.
    counts=$(awk '/^test result:/ || /^ *Summary \[/ {
            for (i = 1; i < NF; i++) {
                gsub(/[(,;)]/, "", $(i + 1))
                sums[$(i + 1)] += $i
            }
        }
        END {
            printf "%d passed, %d failed", sums["passed"], sums["failed"] + sums["timed"]
        }' "$log")
    row "$name" "$(server_version "$server")" "$result" "$counts, $(($(date +%s) - began)) s"
done

# Repeat the reasons at the end, where they are visible after the long logs.
for name in $not_passed; do
    printf '\n%s:\n' "$name"
    grep -E 'seed [0-9]+: |^did not happen|panicked at|\.\.\. FAILED$|^ *(FAIL|TMT|SIG[A-Z]+) +\[|^error' "$logs/$name.log" |
        cut -c -1000 | tail -n 20 || :
done
printf '\n'
cat "$table"
[ -z "$not_passed" ]
