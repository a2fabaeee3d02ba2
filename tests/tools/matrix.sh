#!/bin/sh
# Runs a command once for each server, with REDIS_SERVER set to it, and sums up at the end.
# A server that could not be had has not passed.
#
# usage: [SERVERS="redis-7.0 ..."] matrix.sh command...
set -eu
. "$(dirname -- "$0")/lib.sh"

: "${SERVERS:=redis-7.0 redis-8.2 valkey-8.1 valkey-9.1}"
logs=$root/.servers
mkdir -p "$logs"
table=$logs/summary
: >"$table"
passed_all=true

row() { printf '%-12s %-14s %-16s %s\n' "$@" >>"$table"; }

row server version result tests
for name in $SERVERS; do
    printf '\n==> %s: %s\n' "$name" "$*"
    if ! server=$("$tools/servers.sh" "$name"); then
        row "$name" - "NOT PASSED" "the server could not be had"
        passed_all=false
        continue
    fi
    log=$logs/$name.log
    began=$(date +%s)
    # The pipe to tee would hide the command's status.
    { REDIS_SERVER=$server "$@" 2>&1 && echo yes >"$log.passed" || echo no >"$log.passed"; } | tee "$log"
    if [ "$(cat "$log.passed")" = yes ]; then
        result=passed
    else
        result="NOT PASSED"
        passed_all=false
    fi
    counts=$(awk '/^test result:/ { passed += $4; failed += $6 } 
        /^shaky:/ { shaky++ }
        END { printf "%d passed, %d failed", passed, failed; if (shaky) printf " (%d shaky)", shaky }' "$log")
    row "$name" "$(server_version "$server")" "$result" "$counts, $(($(date +%s) - began)) s"
done

printf '\n'
cat "$table"
$passed_all
