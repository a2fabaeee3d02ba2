# Losses, servers that are away, and clients that are gone.

# work: a command under the lock of $KEY with the options given, whose output is in out and err. Sets work.
start_work() {
    become_lock "$@" $KEY sleep 60 2>"$folder/err" &
    work=$!
    eventually 5 pgrep -P $work -f '^sleep 60' >/dev/null
    eventually 5 is 1 at "$port" EXISTS $KEY
}

test_a_server_that_comes_back_without_its_data_is_a_loss() {
    start_work -l 20s
    order "\"do\": \"kill\", \"port\": $port"
    order "\"do\": \"restart\", \"port\": $port"
    ends_with $work 76
    says 'lost: NOTHELD'
}

test_a_hung_server_is_a_loss_after_the_lease() {
    local began
    began=$(ms)
    start_work -l 2s --reply 1s
    order "\"do\": \"pause\", \"port\": $port"
    ends_with $work 76
    check 'not before the lease' [ "$(since "$began")" -gt 1900 ]
    check 'soon after' [ "$(since "$began")" -lt 5500 ]
    says 'no answer for a whole lease'
    order "\"do\": \"resume\", \"port\": $port"
}

test_a_silent_network_is_a_loss_after_the_lease() {
    start_proxy
    at() { redis-cli -p "$1" "${@:2}"; }
    start_work -p "$proxy" -l 2s
    order "\"do\": \"silence\", \"port\": $proxy"
    ends_with $work 76
    says 'no answer'
    eventually 5 is_free
}

test_another_type_in_its_place_is_told_at_once() {
    local began
    start_work -l 20s
    began=$(ms)
    at "$port" SET $KEY other >/dev/null
    ends_with $work 76
    check 'at once' [ "$(since "$began")" -lt 2500 ]
    says 'lost: WRONGTYPE'
}

test_a_loss_just_before_the_release_is_told() {
    redis_lock $KEY redis-cli -p "$port" DEL $KEY >/dev/null 2>"$folder/err"
    equal $? 76
    says 'lost: NOTHELD'
    redis_lock $KEY sh -c "redis-cli -p $port DEL $KEY; exit 5" >/dev/null 2>"$folder/err"
    equal $? 5 # of the command: an error of the work is never replaced
    says 'lost: NOTHELD'
}

test_a_lock_that_is_deleted_at_once_is_lost() {
    local round began
    # Until the test has been cleared away: kill would leave the loop behind.
    (while [ -d "$folder" ]; do echo "DEL $KEY"; done | redis-cli -p "$port" >/dev/null 2>&1) &
    for round in 1 2 3 4 5; do
        began=$(ms)
        redis_lock $KEY sleep 30 2>"$folder/err"
        equal "$round: $?" "$round: 76"
        check "told at once: $(since "$began")" [ "$(since "$began")" -lt 10000 ]
    done
}

test_what_ignores_sigterm_is_killed_after_the_grace() {
    local began told
    become_lock --grace 1s $KEY sh -c 'trap "" TERM; sleep 60; sleep 60' 2>"$folder/err" &
    work=$!
    eventually 5 is 1 at "$port" EXISTS $KEY
    began=$(ms)
    at "$port" DEL $KEY >/dev/null
    eventually 2 grep -q 'the lock is lost' "$folder/err"
    told=$(ms)
    ends_with $work 76
    check 'after the grace' [ "$(since "$began")" -gt 900 ]
    check 'soon after it' [ "$(since "$told")" -lt 4000 ]
}

test_without_a_grace_it_is_killed_and_nobody_else() {
    sleep 60 &
    local other=$!
    # A time limit, for what was left of it was once taken for the number of a process.
    command $shell "$program" -p "$port" --reply $other --grace 0 $KEY sh -c "trap '' TERM; redis-cli -p $port DEL $KEY
        sleep 60; sleep 60" >/dev/null 2>"$folder/err" &
    work=$!
    ends_with $work 76
    check 'the other process lives' kill -0 $other
}

test_at_most_so_long() {
    local began
    began=$(ms)
    redis_lock -l 1s --at-most 3s $KEY sleep 30 2>"$folder/err"
    equal $? 76
    check 'not before' [ "$(since "$began")" -gt 2900 ]
    check 'nor long after' [ "$(since "$began")" -lt 4500 ]
    is_free
}

test_held_is_asked_in_the_command() {
    redis_lock $KEY $shell -c "$shell '$program' --held && redis-cli -p $port DEL $KEY; trap 'trapped=yes' TERM
        trapped=; until [ \$trapped ]; do sleep 0.1; done; $shell '$program' --held; echo \$?" >"$folder/out" 2>/dev/null
    equal "$(tail -n 1 "$folder/out")" 76
    $shell "$program" --held
    equal $? 76
}

# The folder is on a disk that is full: nothing is known.
test_held_ends_where_nothing_is_noted() {
    local status=0
    mkdir "$folder/empty"
    : >"$folder/empty/known"
    REDIS_LOCK_FOLDER="$folder/empty" timeout 5 $shell "$program" --held || status=$?
    equal $status 76
}

test_after_a_kill_of_both_the_lock_is_free() {
    start_work -l 3s
    kill -9 $work "$(pgrep -P $work -f '^sleep 60')"
    eventually 6 is_free
}

test_a_kill_of_the_program_alone_keeps_the_lock_for_the_command() {
    become_lock -l 1s $KEY sh -c 'sleep 3.5; :' 2>"$folder/err" &
    work=$!
    eventually 5 pgrep -P $work -x sh >/dev/null
    kill -9 $work
    sleep 2
    equal "$(at "$port" EXISTS $KEY)" 1
    eventually 4 is_free
}

test_a_stopped_command_is_silent_and_loses_the_lock() {
    start_work -l 1s -k 1s
    local sleeper
    sleeper=$(pgrep -P $work -f '^sleep 60')
    kill -STOP "$sleeper"
    eventually 8 is_free
    kill -CONT "$sleeper"
    ends_with $work 76
}

test_signals_at_any_moment_leave_nothing() {
    local round
    for ((round = 0; round < ${LONG:+480} + 20; round++)); do
        become_lock -l 20s -w 9s $KEY sleep 0.1 2>/dev/null &
        work=$!
        sleep "0.$(printf %03d $((RANDOM % 160)))"
        kill $work 2>/dev/null
        wait $work
        eventually 1 is_free
    done
}

test_now_or_not_at_all_fails_within_its_second() {
    local began
    order "\"do\": \"pause\", \"port\": $port"
    began=$(ms)
    redis_lock --reply 1s $KEY true 2>"$folder/err"
    equal $? 69
    check "hung: $(since "$began")" [ "$(since "$began")" -lt 2500 ]
    says 'unavailable: no answer'
    order "\"do\": \"kill\", \"port\": $port"
    began=$(ms)
    redis_lock --reply 1s $KEY true 2>"$folder/err"
    equal $? 69
    check "down: $(since "$began")" [ "$(since "$began")" -lt 1800 ]
    says 'Connection refused'
    eventually 4 is '' ls "$TMPDIR"
}

test_a_release_ends_within_its_time() {
    local began
    start_work -l 20s --reply 1s
    order "\"do\": \"pause\", \"port\": $port"
    began=$(ms)
    kill $work
    ends_with $work 143
    check "$(since "$began")" [ "$(since "$began")" -lt 4500 ]
    says 'not released'
    order "\"do\": \"resume\", \"port\": $port"
}

test_where_sigterm_is_ignored_everything_ends_all_the_same() {
    cat >"$folder/script" <<END
trap '' TERM
REDIS_LOCK=functions; . "$program"
lock -p $port $KEY && unlock && echo unlocked
END
    equal "$(timeout 20 $shell "$folder/script")" unlocked
    (trap '' TERM; exec $shell "$program" -p "$port" -l 2s --grace 1s $KEY sleep 60) 2>"$folder/err" &
    work=$!
    eventually 5 pgrep -P $work -f '^sleep 60' >/dev/null
    order "\"do\": \"pause\", \"port\": $port"
    ends_with $work 76
    order "\"do\": \"resume\", \"port\": $port"
}

test_where_sigterm_is_ignored_a_wait_ends_with_its_grant() {
    hold
    (trap '' TERM; become_lock -w 60s $KEY true) 2>"$folder/err" &
    work=$!
    eventually 5 is 1 waiters
    kill $holder
    eventually 2 is_free # of both
    ends_with $work 0
}

test_through_a_failover_the_lock_is_kept_and_the_wait_goes_on() {
    start_sentinel
    local login=(--sentinels "127.0.0.1:1,127.0.0.1:$sentinel" --master "$master") token
    command $shell "$program" "${login[@]}" -l 30s $KEY sleep 60 2>"$folder/err" &
    work=$!
    eventually 10 is 1 at "$port" EXISTS $KEY
    token=$(field token)
    command $shell "$program" "${login[@]}" -w 60s $KEY true 2>"$folder/waiter" &
    local waiter=$!
    eventually 10 is 1 waiters
    eventually 20 is "$token" field token "$replica" # it has got there
    order "\"do\": \"kill\", \"port\": $port"
    eventually 60 is 1 waiters "$replica"
    kept_there() { [[ $(field session "$replica") -gt 0 ]]; }
    eventually 20 kept_there
    equal "$(field token "$replica")" "$token"
    kill $work
    ends_with $work 143
    ends_with $waiter 0
}

test_in_a_cluster_each_lock_is_on_the_node_of_its_key() {
    start_cluster
    local key moved
    for key in lock:1 lock:2 lock:3 lock:4; do
        equal "$(command $shell "$program" -p "${nodes[0]}" "$key" redis-cli -c -p "${nodes[1]}" LOCK.HOLDERS "$key" |
            grep -c ^session)" 1
    done
    # A hung node holds up no call to another.
    at0() { redis-cli -c -p "${nodes[0]}" "$@"; }
    key='{a}' moved='{b}' # the first is on the last node, the second on the first
    command $shell "$program" -p "${nodes[0]}" -l 2s "$moved" sleep 60 2>"$folder/err" &
    work=$!
    eventually 5 is 1 at0 EXISTS "$moved"
    order "\"do\": \"pause\", \"port\": ${nodes[2]}"
    sleep 3
    equal "$(at "${nodes[0]}" EXISTS "$moved")" 1
    kill $work
    ends_with $work 143
    order "\"do\": \"resume\", \"port\": ${nodes[2]}"
}

test_at_least_so_long_the_lock_is_held() {
    redis_lock --at-least 60s -w 1s $KEY true
    equal $? 0
    check 'it is held' [ "$(at "$port" PTTL $KEY)" -gt 55000 ]
    equal "$(field session)" 0
    equal "$(at "$port" LOCK.SESSION LIST)" ''
    redis_lock $KEY true 2>"$folder/err" # the other machine's tick
    equal $? 75
    at "$port" DEL $KEY >/dev/null
    redis_lock --at-least 200 $KEY sleep 0.5
    equal $? 0
    is_free
}

test_a_wait_for_a_fixed_lease() {
    hold
    become_lock --fixed -l 800 -w 9s $KEY sleep 30 2>"$folder/err" &
    local waiter=$!
    eventually 5 is 1 waiters
    kill $holder
    ends_with $waiter 76
    says 'its time is over'
}

# Its command is killed, too: else the lock would be renewed until that has ended.
test_after_a_kill_of_all_processes_nothing_is_left() {
    local all
    setsid $shell "$program" --reply 3s -p "$port" -l 1s $KEY sleep 62.$port &
    work=$!
    eventually 5 pgrep -f "^sleep 62.$port" >/dev/null
    all=$(pgrep -g $work -f 'redis-lock|^sleep 62')
    kill -9 $all
    ends_with $work 137
    eventually 4 is '' pgrep -g $work
    eventually 4 is_free
    rm -r "$TMPDIR/"* # nobody was left who would
}

test_basic_a_kill_of_what_keeps_the_lock_ends_the_command() {
    start_work -l 20s
    local child
    for child in $(pgrep -P $work -f "$program"); do pgrep -P "$child" -f "$program"; done >"$folder/keeper"
    kill -9 "$(cat "$folder/keeper")"
    ends_with $work 76
    says 'lost: the process that renews it was killed'
}
