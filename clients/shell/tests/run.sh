#!/usr/bin/env bash
# Tests of redis-lock.sh. usage: run.sh [part of a test's name]
# Each test is a function in a process of its own, with a server of its own at $port.

here=$(cd "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
. "$here/servers.sh"
. "$here/../redis-lock.sh"
lock="$here/../redis-lock.sh"
KEY=lock:orders:42

# check what command...
check() { "${@:2}" || { echo "not so: $1"; exit 1; }; }
equal() { [[ $1 == "$2" ]] || { echo "not the same: '$1' and '$2'"; exit 1; }; }
field() { at "${2:-$port}" LOCK.INFO "${3:-$KEY}" | sed -n "/^$1\$/{n;p;}"; }
holds_are() { equal "$(field holds)" "$1"; }
waiters() { at "${1:-$port}" LOCK.WAITERS $KEY | grep -c '^client-id$'; }
calls() { at "$port" INFO commandstats | sed -n "s/^cmdstat_lock\\.$1:calls=\\([0-9]*\\).*/\\1/p"; }
is_free() { is '' at "${1:-$port}" LOCK.INFO $KEY; }
hold() { "$lock" "$@" $KEY sleep 60 & holder=$!; eventually 10 is 1 field holds; } # sets holder
ms() { local now; _lock_now; echo $now; }
ends_with() { local status; wait "$1"; status=$?; equal "$status" "$2"; }

test_the_command_has_the_lock_and_its_status_comes_back() {
    local token
    token=$("$lock" $KEY bash -c 'echo "$LOCK_TOKEN"; redis-cli -p '"$port"' LOCK.FENCE '$KEY' "$LOCK_TOKEN" >&2')
    check 'a token above 2^31' [ "$token" -gt 2147483648 ]
    is_free || exit 1
    "$lock" $KEY bash -c 'exit 3'
    equal $? 3
    equal "$(echo text | "$lock" $KEY cat)" text
    "$lock" $KEY 2>/dev/null
    equal $? 64
}

test_it_works_in_a_script_with_errexit_and_nounset() {
    is 'one two' bash -euc ". '$lock'; work() { echo -n 'one '; lock_check; }; with_lock $KEY work; with_lock $KEY echo two"
    check 'a failure ends the work' is '' bash -euc ". '$lock'; work() { false; echo on; }; with_lock $KEY work"
    is_free
}

test_the_wait_is_one_call_on_its_own_connection() {
    local first
    hold
    "$lock" -w 9000 $KEY true &
    local waiter=$!
    eventually 5 is 1 waiters
    first=$(at "$port" LOCK.WAITERS $KEY)
    check 'the wait is that of the caller' [ "$(sed -n '/^left-ms$/{n;p;}' <<<"$first")" -gt 7500 ]
    sleep 2.5 # longer than the time-out of other calls
    check 'it is the same call' is "$(grep -A 1 client-id <<<"$first")" eval "at $port LOCK.WAITERS $KEY | grep -A 1 client-id"
    kill $holder
    ends_with $waiter 0
    equal "$(calls acquire)" 3 # one attempt each, and one wait
    is_free
}

test_a_wait_that_is_over_leaves_nothing() {
    hold
    "$lock" -w 300 $KEY true
    equal $? 75
    equal "$(waiters)" 0
}

test_an_interrupted_wait_leaves_the_line_at_once() {
    local signal
    hold
    for signal in INT TERM HUP; do
        # Bash lets what it starts in the background ignore SIGINT, and nohup SIGHUP.
        python3 -c 'import os, signal, sys
for name in signal.SIGINT, signal.SIGHUP: signal.signal(name, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$lock" -w 60000 $KEY true &
        local waiter=$!
        eventually 5 is 1 waiters
        kill -s $signal $waiter
        eventually 1 is 0 waiters
        ends_with $waiter $((128 + $(kill -l $signal)))
    done
    kill $holder
    wait $holder
    is_free
}

test_a_grant_that_crosses_the_signal_is_released() {
    hold
    start_proxy keep BLOCK
    LOCK_CLI="redis-cli -p $proxy" "$lock" -w 60000 $KEY true &
    local waiter=$! first
    eventually 5 is 1 waiters
    first=$(field owner)
    kill $holder
    wait $holder
    eventually 5 is 1 field holds # the reply to the waiter does not come
    check 'it is the waiter' [ "$(field owner)" != "$first" ]
    kill $waiter
    ends_with $waiter 143
    is_free
}

test_the_lease_is_counted_from_the_sending_by_a_clock_that_nobody_sets() {
    local folder now sent reply
    folder=$(mktemp -d)
    _lock_now
    sent=$((now - 500)) # the call was sent half a second ago
    _lock_lengthen 400
    check 'the lease has passed' is '' eval '_lock_is_trusted "$folder" && echo trusted'
    _lock_lengthen 5000
    check 'it is trusted' _lock_is_trusted "$folder"
    equal "$(<"$folder/times")" "$((sent + 5000)) $((sent + 1666))"
    rm -r "$folder"
}

test_after_a_wait_the_lease_is_counted_from_one_renewal() {
    local left
    hold
    "$lock" -l 4000 -w 60000 $KEY bash -c 'read -r deadline _ <"$LOCK_FOLDER/times"; read -r up _ </proc/uptime
        echo $((deadline - 10#${up/./} * 10))' >"$folder/left" &
    local waiter=$! before
    eventually 5 is 1 waiters
    sleep 2
    before=$(calls renew)
    kill $holder
    ends_with $waiter 0
    check 'of the lease from the sending of the wait, 2000 are left' [ "$(<"$folder/left")" -gt 3000 ]
    check 'a renewal after the wait' [ "$(calls renew)" -gt "${before:-0}" ]
}

test_each_use_is_an_owner_of_its_own() {
    LOCK_SERVICE=test hold
    local owner
    owner=$(field owner)
    check "$owner" eval '[[ $owner =~ ^test:[^:]+:[0-9]+:[0-9a-f-]{36}$ ]]'
    check 'its process is the command' is sleep cat "/proc/$(cut -d: -f3 <<<"$owner")/comm"
    "$lock" $KEY true
    equal $? 75
}

test_nested_use_counts_and_ends_in_any_order() {
    cat >"$folder/outer" <<END
        "$lock" -l 30000 $KEY bash -c 'echo \$LOCK_TOKEN >"$folder/inner"; until [[ -e "$folder/end-inner" ]]; do sleep 0.02; done' &
        echo \$LOCK_TOKEN >"$folder/token"
        until [[ -e "$folder/end-outer" ]]; do sleep 0.02; done
END
    local first second pids
    for first in inner outer; do
        rm -f "$folder"/end-* "$folder"/inner
        "$lock" -l 5000 $KEY bash "$folder/outer" &
        pids=$!
        eventually 10 is 2 field holds
        eventually 10 test -s "$folder/inner"
        equal "$(<"$folder/inner")" "$(<"$folder/token")"
        equal "$(field lease-ms)" 30000
        [[ $first == inner ]] && second=outer || second=inner
        touch "$folder/end-$first"
        eventually 10 is 1 field holds
        touch "$folder/end-$second"
        eventually 10 is_free
        ends_with $pids 0
    done
}

test_one_process_renews_however_many_holds_and_goes_on_when_the_outer_one_has_ended() {
    cat >"$folder/outer" <<END
        "$lock" -l 3000 $KEY sleep 12 &
        until [[ -e "$folder/end-outer" ]]; do sleep 0.02; done
END
    "$lock" -l 3000 $KEY bash "$folder/outer" &
    eventually 10 is 2 field holds
    local before
    before=$(calls renew)
    sleep 5
    local renewals=$(($(calls renew) - ${before:-0}))
    check "every third of the lease, not $renewals times" [ $renewals -ge 3 -a $renewals -le 6 ]
    touch "$folder/end-outer"
    wait $!
    sleep 3.5 # longer than the lease
    holds_are 1
    eventually 20 is_free
}

test_calls_whose_replies_are_lost_do_not_add_up() {
    local word count
    for word in LOCK.ACQUIRE 'LOCK.ACQUIRE TOKEN' LOCK.RENEW LOCK.RELEASE; do # the second: a re-entry
        for count in 1 2; do # redis-cli repeats once; from the second on it is the helper
            start_proxy cut "$word" $count
            LOCK_CLI="redis-cli -p $proxy" "$lock" -l 4500 $KEY bash -c "
                '$lock' $KEY redis-cli -p $port LOCK.INFO $KEY | grep -A 1 holds
                sleep 2; redis-cli -p $port LOCK.INFO $KEY | grep -A 1 holds" >"$folder/seen"
            equal $? 0
            equal "$(echo $(<"$folder/seen"))" 'holds 2 holds 1'
            check "free after lost replies to $word" is_free
        done
    done
}

test_a_refused_renewal_ends_the_work_at_once() {
    local answer owner began
    for answer in NOTHELD NOTOWNER FENCED; do
        "$lock" -l 3000 $KEY bash -c 'sleep 60; echo on' >"$folder/out" 2>"$folder/err" &
        local holder=$!
        eventually 5 is 1 field holds
        owner=$(field owner)
        began=$(ms)
        { echo MULTI; echo DEL $KEY
            [[ $answer == NOTHELD ]] || echo LOCK.ACQUIRE $KEY "$([[ $answer == FENCED ]] && echo "$owner" || echo other)"
            echo EXEC; } | at "$port" >/dev/null
        ends_with $holder 76
        check 'within a third of the lease' [ $(($(ms) - began)) -lt 2500 ]
        grep -q "$answer" "$folder/err" || { cat "$folder/err"; exit 1; }
        equal "$(<"$folder/out")" ''
        [[ $answer == NOTHELD ]] || holds_are 1 # another's grant is not touched
        at "$port" DEL $KEY >/dev/null
    done
}

test_silence_past_the_lease_ends_the_work_and_refuses_the_token() {
    start_proxy silence LOCK.RENEW
    local began
    began=$(ms)
    LOCK_CLI="redis-cli -p $proxy" "$lock" -l 1500 $KEY bash -c ". '$lock'; trap : TERM; sleep 10; lock_token" \
        >"$folder/out" 2>"$folder/err"
    equal $? 76
    check 'at the end of the lease' [ $(($(ms) - began)) -lt 4000 ]
    equal "$(<"$folder/out")" ''
    grep -q 'without an answer\|has passed' "$folder/err"
}

test_a_lock_lost_before_its_release_is_told() {
    "$lock" $KEY redis-cli -p "$port" DEL $KEY >/dev/null 2>"$folder/err"
    equal $? 76
    grep -q NOTHELD "$folder/err"
}

test_sigterm_releases() {
    hold
    kill $holder
    ends_with $holder 143
    is_free || exit 1
    hold
    kill "$(field owner | cut -d: -f3)" # the command itself
    ends_with $holder 143
    is_free
}

test_after_a_kill_the_lease_ends_and_the_next_waiter_goes_on() {
    hold -l 1500
    "$lock" -w 60000 $KEY true &
    local waiter=$! killed work
    eventually 5 is 1 waiters
    sleep 2 # longer than the lease: it is renewed
    equal "$(waiters)" 1
    work=$(field owner | cut -d: -f3)
    kill -9 $holder "$work"
    killed=$(ms)
    ends_with $waiter 0
    check 'soon after the lease' [ $(($(ms) - killed)) -lt 3500 ]
}

test_a_stopped_command_is_not_renewed() {
    hold -l 1000
    local work
    work=$(field owner | cut -d: -f3)
    kill -STOP "$work"
    eventually 5 is_free
    kill -CONT "$work"
    ends_with $holder 76
}

test_through_a_failover_the_grant_is_renewed_and_the_wait_goes_on() {
    start_sentinel
    export LOCK_CLI=redis-cli LOCK_SENTINELS="127.0.0.1:1 127.0.0.1:$sentinel" LOCK_SENTINEL_NAME=lock
    "$lock" -l 20000 $KEY sh -c "until [ -e $folder/end ]; do sleep 0.1; done" &
    local holder=$! token waiter
    eventually 10 is 1 field holds
    token=$(field token)
    "$lock" -w 60000 $KEY true &
    waiter=$!
    eventually 10 is 1 waiters
    eventually 20 is "$token" field token "$replica" # it has got there
    order "\"do\": \"kill\", \"port\": $port"
    eventually 60 is 1 waiters "$replica"
    eventually 20 info_has "$replica" 'INFO commandstats' cmdstat_lock.renew
    equal "$(field token "$replica")" "$token"
    touch "$folder/end"
    ends_with $holder 0
    ends_with $waiter 0
    is_free "$replica"
}

test_in_a_cluster_each_call_goes_to_the_node_of_its_key() {
    start_cluster
    export LOCK_CLI="redis-cli -c -p ${nodes[0]}"
    local number node seen
    for number in 1 2 3 4; do
        seen=$("$lock" "lock:orders:$number" "$lock" "lock:orders:$number" redis-cli -c -p "${nodes[1]}" LOCK.INFO "lock:orders:$number")
        grep -q '^2$' <<<"$(grep -A 1 '^holds$' <<<"$seen")" || { echo "$seen"; exit 1; }
        equal "$(redis-cli -c -p "${nodes[1]}" EXISTS "lock:orders:$number")" 0
    done
    for node in "${nodes[@]}"; do
        is_free_at() { redis-cli -c -p "$node" LOCK.INFO $KEY | grep -q holds; }
    done
    "$lock" $KEY sleep 60 &
    local holder=$! waiter
    eventually 10 is_free_at
    "$lock" -w 60000 $KEY true &
    waiter=$!
    one_waits() { redis-cli -c -p "${nodes[1]}" LOCK.WAITERS $KEY | grep -q client-id; }
    eventually 10 one_waits
    kill $holder
    ends_with $waiter 0
    equal "$(redis-cli -c -p "${nodes[1]}" EXISTS $KEY)" 0
}

passed=0 failed=0
for test in $(compgen -A function test_ | grep -- "${1:-}"); do
    folder=$(mktemp -d)
    (
        trap end EXIT
        start_testbed
        start_server
        export LOCK_CLI="redis-cli -p $port" TMPDIR=$folder
        "$test" || { echo "its last check failed"; exit 1; }
    ) >"$folder/output" 2>&1
    if (($? == 0)); then
        passed=$((passed + 1))
        echo "ok      ${test//_/ }"
    else
        failed=$((failed + 1))
        echo "FAILED  ${test//_/ }"
        sed 's/^/        /' "$folder/output"
    fi
    rm -rf "$folder"
done
echo "shell: $passed passed; $failed failed"
((failed == 0))
