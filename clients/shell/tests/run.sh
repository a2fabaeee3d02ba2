#!/usr/bin/env bash
# Tests of redis-lock. usage: run.sh [part of a test's name]
# Each test is a function in a process of its own, with a server of its own at $port; six run at a time.
# SHELLS="dash bash busybox_sh" names the shells; the first is that of all tests, the others have those of the basics.

# A signal that is ignored from the start, such as SIGHUP under nohup, can be trapped in no test.
if [[ -z ${SIGNALS_AS_USUAL:-} ]] && env --default-signal true 2>/dev/null; then
    SIGNALS_AS_USUAL=yes exec env --default-signal "$BASH" "${BASH_SOURCE[0]}" "$@"
fi

here=$(cd "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
program="$here/../redis-lock"
KEY='lock:orders:42'
. "$here/servers.sh"
. "$here/basics.sh"
. "$here/losses.sh"
. "$here/errors.sh"
. "$here/owners.sh"
. "$here/surroundings.sh"
. "$here/package.sh"

# What tests say. check what command...
check() { "${@:2}" || { echo "not so: $1"; exit 1; }; }
equal() { [[ $1 == "$2" ]] || { echo "not the same: '$1' and '$2' (line ${BASH_LINENO[0]})"; exit 1; }; }
says() { grep -q -- "$1" "$folder/err" || { echo "'$1' is not said:"; cat "$folder/err"; exit 1; }; }
field() { at "${2:-$port}" LOCK.HOLDERS "${3:-$KEY}" | sed -n "/^$1\$/{n;p;}"; }
waiters() { at "${1:-$port}" LOCK.WAITERS "$KEY" | grep -c '^client-id$'; }
is_free() { is 0 at "${1:-$port}" EXISTS "$KEY"; }
ms() { echo $(($(date +%s%N) / 1000000)); }
since() { echo $(($(ms) - $1)); }
ends_with() { local status; wait "$1"; status=$?; equal "$status" "$2"; }
# On a busy machine a redis-cli takes its time. What is about time limits has its own.
become_lock() { exec $shell "$program" --reply 3s -p "$port" "$@"; } # for the background
redis_lock() { command $shell "$program" --reply 3s -p "$port" "$@"; }
hold() { # in the background: sets holder
    command $shell "$program" -p "$port" "$@" "$KEY" sleep 60 2>>"$folder/holder" &
    holder=$!
    eventually 10 is 1 eval "at $port LOCK.HOLDERS $KEY | grep -c ^owner"
}

run_test() {
    local began=$SECONDS
    folder=$(mktemp -d)
    (
        trap end EXIT
        start_testbed
        start_server
        export TMPDIR=$folder/tmp
        mkdir "$TMPDIR"
        "$1" || { echo "its last check failed"; exit 1; }
        # shellcheck disable=SC2046 # processes
        kill $(jobs -p | grep -vx "$testbed_PID") 2>/dev/null
        left() { ls "$TMPDIR"; }
        eventually 4 is '' left
    ) >"$folder/output" 2>&1
    local status=$?
    if ((status == 0)); then
        echo "ok      ${1//_/ } ($shell, $((SECONDS - began)) s)"
        sed -n 's/^left out/        &/p' "$folder/output"
    else
        echo "FAILED  ${1//_/ } ($shell)"
        sed 's/^/        /' "$folder/output"
    fi
    rm -rf "$folder"
    return $status
}

shells=(${SHELLS:-$(for name in dash bash busybox; do
    command -v "$name" >/dev/null && echo "${name/busybox/busybox_sh}"
done)})
failed=0 number=0
results=$(mktemp)
for shell in "${shells[@]}"; do
    prefix=test_basic
    [[ $shell != "${shells[0]}" ]] || prefix=test_
    shell=${shell/_/ }
    for test in $(compgen -A function "$prefix" | grep -- "${1:-}"); do
        run_test "$test" && echo passed >>"$results" || echo failed >>"$results" &
        ((++number < 6)) || wait -n
    done
done
wait
passed=$(grep -c passed "$results")
failed=$(grep -c failed "$results")
rm "$results"
echo "shell: $passed passed; $failed failed"
((failed == 0 && passed == number))
