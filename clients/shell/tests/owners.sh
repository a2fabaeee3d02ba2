# An owner that is named: one task with several locks.

test_a_release_in_its_name_is_a_loss() {
    start_work --owner job -l 20s
    at "$port" LOCK.RELEASE $KEY job >/dev/null
    hold # somebody else
    ends_with $work 76
    says 'lost: it was released'
    equal "$(field holds)" 1
}

test_another_run_of_the_owner_takes_the_lock_over() {
    local first token
    start_work --owner job -l 3s
    first=$work
    token=$(field token)
    become_lock --owner job $KEY sleep 60 2>"$folder/second" &
    work=$!
    ends_with $first 76
    says 'another run of its owner has it'
    sleep 1.5
    equal "$(field token)" "$token"
    kill $work
    ends_with $work 143
    check "nothing is told: $(cat "$folder/second")" [ ! -s "$folder/second" ]
    is_free
}

test_a_late_release_of_all_does_not_meet_the_next_call() {
    order "\"do\": \"stop\", \"port\": $port"
    redis_lock --owner job $KEY true 2>"$folder/err"
    equal $? 69
    order "\"do\": \"restart\", \"port\": $port"
    equal "$(redis_lock --owner job $KEY $shell -c "sleep 2.5; redis-cli -p $port EXISTS $KEY" 2>&1)" 1
}

test_an_owner_of_a_task_finds_a_circle() {
    become_lock --owner one a sleep 60 &
    become_lock --owner two b sleep 60 &
    eventually 5 is 2 at "$port" EXISTS a b
    become_lock --owner one -w 9s b true &
    eventually 5 is 1 eval "at $port LOCK.WAITERS b | grep -c client-id"
    redis_lock --owner two -w 9s a true 2>"$folder/err"
    equal $? 73
    says DEADLOCK
}
