# An owner that comes back.

test_a_late_release_of_all_does_not_meet_the_next_call() {
    order "\"do\": \"stop\", \"port\": $port"
    redis_lock --owner job $KEY true 2>"$folder/err"
    equal $? 69
    order "\"do\": \"restart\", \"port\": $port"
    equal "$(redis_lock --owner job $KEY $shell -c "sleep 2.5; redis-cli -p $port EXISTS $KEY" 2>&1)" 1
}

test_what_another_connection_keeps_is_not_taken_back() {
    local first kept
    start_work --owner job -l 3s
    first=$work
    kept=$(field kept-by)
    become_lock --owner job $KEY sleep 60 2>"$folder/second" &
    work=$!
    ends_with $first 76
    says 'another connection keeps it now'
    check 'the other keeps it' [ "$(field kept-by)" -gt "$kept" ]
    kept=$(field kept-by)
    sleep 1.5
    equal "$(field kept-by)" "$kept"
    kill $work
    ends_with $work 143
    check "nothing is told: $(cat "$folder/second")" [ ! -s "$folder/second" ]
    is_free
}

test_a_release_in_its_name_is_a_loss() {
    start_work --owner job -l 20s
    at "$port" LOCK.RELEASE $KEY job >/dev/null
    hold # somebody else
    ends_with $work 76
    says 'lost: FENCED'
    equal "$(field holds)" 1
}

# The second begins, and the first ends before it has looked.
test_the_release_of_one_that_was_taken_over_leaves_the_lock() {
    become_lock --owner job $KEY $shell -c "env -u REDIS_LOCK_FOLDER $shell '$program' --reply 3s -p $port --owner job $KEY \
        $shell -c 'echo in >\"$folder/in\"; until [ -e \"$folder/go\" ]; do sleep 0.1; done' 2>'$folder/second' &
        until [ -s '$folder/in' ]; do sleep 0.001; done" 2>"$folder/err" &
    ends_with $! 76
    says 'another connection keeps it now'
    equal "$(field holds)" 1
    : >"$folder/go"
    eventually 5 is_free
    check "nothing is told: $(cat "$folder/second")" [ ! -s "$folder/second" ]
}

test_after_a_silence_what_another_keeps_is_not_taken_back() {
    start_proxy
    local first kept
    start_work -p "$proxy" --reply 1s --owner job -l 20s
    first=$work
    order "\"do\": \"swallow\", \"port\": $proxy"
    sleep 4 # it has tried in vain more than once
    start_work --owner job -l 20s
    kept=$(field kept-by)
    order "\"do\": \"speak\", \"port\": $proxy"
    wait $first
    equal $? 76
    equal "$(field kept-by)" "$kept"
    kill $work
    ends_with $work 143
}

test_a_connection_of_its_own_is_no_other() {
    start_proxy
    local kept
    start_work -p "$proxy" --reply 1s --owner job -l 20s
    kept=$(field kept-by)
    order "\"do\": \"inject\", \"port\": $proxy, \"fault\": \"keep\", \"words\": \"LOCK.RENEW\", \"times\": 2"
    at "$port" CLIENT KILL ID "$kept" >/dev/null
    kept_anew() { order "\"do\": \"lost\", \"port\": $proxy"; [[ $answer == *'"pending":0'* && $(field kept-by) -gt $kept ]]; }
    eventually 9 kept_anew
    sleep 2 # what was sent unheard, and once more
    kill $work
    ends_with $work 143
    check "nothing is told: $(cat "$folder/err")" [ ! -s "$folder/err" ]
}

# What it asks before the call, which connection is its own, is a part of that.
test_a_named_owner_keeps_the_time_of_a_call() {
    local began
    start_proxy
    order "\"do\": \"inject\", \"port\": $proxy, \"fault\": {\"delay\": 900}, \"words\": \"CLIENT\", \"times\": 9"
    began=$(ms)
    redis_lock -p "$proxy" --reply 1s --owner job $KEY true 2>"$folder/err"
    equal $? 69
    check "took $(since "$began")" [ "$(since "$began")" -lt 1700 ]
    says 'does not serve: no answer'
}

# After a restart the server counts its connections anew: what was an own one is another's.
test_an_id_of_before_a_restart_is_anybody_s() {
    start_server '"appendonly": "yes"'
    local first own
    spend() { while [ "$(at "$port" CLIENT ID)" -lt "$1" ]; do :; done; }
    spend 300
    start_work --owner job -l 30s
    first=$work
    own=$(field kept-by)
    order "\"do\": \"stop\", \"port\": $port"
    order "\"do\": \"restart\", \"port\": $port"
    kept_again() { [[ $(field kept-by) -gt 0 ]]; }
    eventually 8 kept_again
    check 'it counts anew' [ "$(field kept-by)" -lt $((own - 1)) ]
    spend $((own - 1))
    become_lock --owner job -l 30s $KEY sleep 60 2>"$folder/second" &
    work=$!
    ends_with $first 76
    says 'another connection keeps it now'
    equal "$(field kept-by)" "$own"
    kill $work
    ends_with $work 143
    check "nothing is told: $(cat "$folder/second")" [ ! -s "$folder/second" ]
}

# take_over options...: another one asks for it in that name. Sets work, and kept, the connection that has it then.
take_over() {
    local before
    before=$(field kept-by)
    become_lock --owner job "$@" $KEY sleep 60 2>"$folder/second" &
    work=$!
    taken_over() { [[ $(field kept-by) -gt $before ]]; }
    eventually 2 taken_over
    kept=$(field kept-by)
}

# slow: the program of redis-cli, which stops before the lines that match $1. Sets what runs it.
slow() {
    cat >"$folder/cli" <<EOF
case "\$*" in *HOLDERS*) exec redis-cli "\$@" ;; esac
while IFS= read -r line; do
    case \$line in $1) : >"$folder/reached"; until [ -e "$folder/go" ]; do sleep 0.01; done ;; esac
    printf '%s\\n' "\$line"
done | redis-cli "\$@"
EOF
    slow="$shell $folder/cli"
}

# The second begins in the moment of the first one's release.
test_what_is_taken_over_before_a_release_arrives_is_not_released() {
    local first kept
    slow '*LOCK.RELEASE*'
    REDIS_LOCK_CLI=$slow become_lock --owner job -l 20s $KEY true 2>"$folder/err" &
    first=$!
    eventually 5 test -e "$folder/reached"
    take_over
    : >"$folder/go"
    ends_with $first 76
    says 'another connection keeps it now'
    equal "$(field kept-by)" "$kept"
    kill $work
    ends_with $work 143
    is_free
}

test_without_the_right_to_scripts_a_named_owner_is_released() {
    at "$port" ACL SETUSER default -eval >/dev/null
    redis_lock --owner job $KEY true 2>"$folder/err"
    equal $? 0
    is_free
    check "nothing is told: $(cat "$folder/err")" [ ! -s "$folder/err" ]
}

test_what_is_taken_over_after_the_end_of_at_most_is_not_released() {
    local first
    become_lock --owner job -l 2s --at-most 3s $KEY sleep 2.2 2>"$folder/err" &
    first=$!
    eventually 4 is 0 field kept-by
    take_over
    ends_with $first 76
    equal "$(at "$port" EXISTS $KEY)" 1
    kill $work
    ends_with $work 143
}

test_what_is_taken_over_in_a_silence_is_kept_at_its_last_lease() {
    start_proxy
    local first kept=0
    start_work -p "$proxy" --reply 1s --owner job -l 7s --at-most 9s
    first=$work
    order "\"do\": \"swallow\", \"port\": $proxy"
    take_over -l 20s
    sleep 3.6 # its last lease has begun
    kept=$(field kept-by)
    order "\"do\": \"speak\", \"port\": $proxy"
    ends_with $first 76
    equal "$(field kept-by)" "$kept"
    kill $work
    ends_with $work 143
}

test_what_a_wait_got_late_is_not_taken_over() {
    cat >"$folder/cli" <<'EOF'
case "$*" in
    *BLOCK*) redis-cli "$@" >"$folder/got"; : >"$folder/reached"; until [ -e "$folder/go" ]; do sleep 0.01; done; cat "$folder/got" ;;
    *) exec redis-cli "$@" ;;
esac
EOF
    export folder
    local first kept
    at "$port" LOCK.ACQUIRE $KEY other EX 60 >/dev/null
    REDIS_LOCK_CLI="$shell $folder/cli" become_lock --owner job -w 30s -l 20s $KEY sleep 60 2>"$folder/err" &
    first=$!
    eventually 5 is 1 waiters
    at "$port" LOCK.RELEASE $KEY other >/dev/null
    eventually 5 test -e "$folder/reached"
    take_over -l 20s
    : >"$folder/go"
    ends_with $first 76
    says 'another connection keeps it now'
    equal "$(field kept-by)" "$kept"
    kill $work
    ends_with $work 143
}

test_a_wait_that_is_called_off_late_takes_nothing() {
    local first
    at "$port" LOCK.ACQUIRE $KEY other EX 60 >/dev/null
    become_lock --owner job -w 30s $KEY sleep 60 2>"$folder/err" &
    first=$!
    eventually 5 is 1 waiters
    kill -STOP $first # it does not hear of its grant
    at "$port" LOCK.RELEASE $KEY other >/dev/null
    take_over -l 20s
    kill -TERM $first
    kill -CONT $first
    ends_with $first 143
    equal "$(at "$port" EXISTS $KEY)" 1
    kill $work
    ends_with $work 143
}

test_without_the_right_to_scripts_a_second_try_looks() {
    at "$port" ACL SETUSER default -eval >/dev/null
    local first kept
    slow 'LOCK.RELEASE*'
    REDIS_LOCK_CLI=$slow become_lock --owner job -l 20s $KEY true 2>"$folder/err" &
    first=$!
    eventually 5 test -e "$folder/reached"
    take_over
    : >"$folder/go"
    ends_with $first 76
    equal "$(field kept-by)" "$kept"
    kill $work
    ends_with $work 143
}
