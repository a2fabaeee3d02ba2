# What holds in every shell.

test_basic_the_command_has_the_lock_and_its_status_comes_back() {
    redis_lock $KEY -- sh -c "redis-cli -p $port LOCK.FENCE \$LOCK_KEY \$LOCK_TOKEN; redis-cli -p $port LOCK.HOLDERS $KEY; exit 3" >"$folder/out"
    equal $? 3
    equal "$(head -n 1 "$folder/out")" OK
    equal "$(sed -n '/^lease-ms$/{n;p;}' "$folder/out")" 10000
    check 'it is in a session' [ "$(sed -n '/^session$/{n;p;}' "$folder/out")" -gt 0 ]
    equal "$(at "$port" LOCK.SESSION LIST)" ''
    check 'its owner says who' grep -Eq '^shell:[^:]+:[0-9]+:[0-9a-f-]{32,36}$' "$folder/out"
    is_free || exit 1
    equal "$(echo text | redis_lock $KEY cat)" text
    equal "$(redis_lock $KEY true <&-; echo $?)" 0
}

test_basic_any_key_and_any_argument_arrive_as_they_are() {
    local key
    for key in 'two words' "it's \"so\" \\x41 \$HOME *" $'line\nline' 'schlüssel' '-w'; do
        equal "$(redis_lock -l 5s -- "$key" redis-cli -p "$port" EXISTS "$key" 2>&1)" 1
        equal "$(redis_lock -- "$key" -- printf '%s|' 'a  b' "$key" '' 2>&1)" "a  b|$key||"
        equal "$(redis_lock --owner "$key" k -- redis-cli -p "$port" LOCK.RENEW k "$key" | tail -n 2 | head -n 1)" 1
    done
}

test_basic_a_wait_is_one_call_and_gets_the_lock() {
    hold
    become_lock -w 9s $KEY true &
    local waiter=$! first
    eventually 5 is 1 waiters
    first=$(at "$port" LOCK.WAITERS $KEY | grep -A 1 client-id)
    check 'it is the wait of the caller' [ "$(at "$port" LOCK.WAITERS $KEY | sed -n '/^left-ms$/{n;p;}')" -gt 7500 ]
    sleep 1.5 # longer than the time limit of a reply
    equal "$(at "$port" LOCK.WAITERS $KEY | grep -A 1 client-id)" "$first"
    kill $holder
    ends_with $waiter 0
    ends_with $holder 143
    is_free
}

test_basic_busy_is_told_and_leaves_nothing() {
    local began
    hold
    for wait in 0 300; do
        began=$(ms)
        redis_lock -w $wait $KEY true 2>"$folder/err"
        equal $? 75
        says "$KEY: busy"
        check "at its time" [ "$(since "$began")" -lt 1800 ]
    done
    equal "$(redis_lock -q $KEY true 2>&1)" ''
    equal "$(waiters)" 0
    equal "$(at "$port" LOCK.HOLDERS $KEY | grep -c ^owner)" 1
}

test_basic_a_deleted_lock_ends_the_command_and_what_it_started() {
    local began
    become_lock --grace 2s $KEY sh -c "trap 'echo told' TERM; echo ready; sleep 60; sleep 61.$port" >"$folder/out" 2>"$folder/err" &
    local work=$!
    eventually 5 grep -q ready "$folder/out"
    sleeps() { pgrep -P "$(pgrep -P $work -f '^sh -c')" -x sleep; }
    eventually 5 sleeps # the trap of a sh waits for what runs in its foreground
    began=$(ms)
    at "$port" DEL $KEY >/dev/null
    eventually 4 grep -q told "$folder/out"
    check 'soon' [ "$(since "$began")" -lt 4000 ]
    ends_with $work 76
    says 'the lock is lost: NOTHELD'
    check 'what it started since is ended, too' is '' pgrep -f "^sleep 61.$port"
}

test_basic_a_signal_ends_the_command_and_releases() {
    local signal
    for signal in TERM HUP; do
        hold
        kill -s $signal $holder
        ends_with $holder $((128 + $(kill -l $signal)))
        is_free || exit 1
    done
}

test_basic_a_signal_ends_a_wait_at_once() {
    hold
    become_lock -w forever $KEY true &
    local waiter=$!
    eventually 5 is 1 waiters
    kill $waiter
    eventually 1 is 0 waiters
    ends_with $waiter 143
    equal "$(at "$port" LOCK.HOLDERS $KEY | grep -c ^owner)" 1
}

test_basic_durations() {
    local given lease
    while read -r given lease; do
        equal "$(redis_lock -l "$given" $KEY redis-cli -p "$port" LOCK.INFO $KEY | sed -n '/^lease-ms$/{n;p;}')" "$lease"
    done <<<'2s 2000
1500 1500
1500ms 1500
1.5s 1500
1.05s 1050
08s 8000
2m 120000
1h 3600000'
    for given in 10q s '' -1 1.5m 1.2345s '$(id)' 99999999999h; do
        redis_lock -l "$given" $KEY true 2>"$folder/err"
        equal $? 64
        says "takes a time\|not an option"
    done
}

test_basic_shared_and_permits() {
    hold --shared
    equal "$(redis_lock --shared $KEY echo in)" in
    redis_lock $KEY true 2>/dev/null
    equal $? 75
    kill $holder; wait $holder
    hold --permit 2
    equal "$(redis_lock --permit 2 $KEY $shell "$program" -p "$port" --permit 2 $KEY echo third 2>/dev/null; echo $?)" 75
    equal "$(redis_lock --permit 2 $KEY echo second)" second
}

test_basic_in_a_script_lock_held_unlock() {
    cat >"$folder/script" <<END
set -eu
REDIS_LOCK=functions; . "$program"
lock -p $port -w 1s $KEY || exit
held && echo "\$LOCK_TOKEN" "\$(redis-cli -p $port LOCK.FENCE $KEY "\$LOCK_TOKEN")"
unlock
redis-cli -p $port EXISTS $KEY
lock -p $port --shared $KEY
lock -p $port other 2>/dev/null || echo "one \$?"
unlock
unlock 2>/dev/null || echo "none \$?"
lock -p $port $KEY
trap 'told=yes' TERM
told=
redis-cli -p $port DEL $KEY >/dev/null
n=0; while [ -z "\$told" ] && [ \$n -lt 60 ]; do sleep 0.1 || :; n=\$((n + 1)); done
held || echo "lost \$? \$told"
unlock 2>/dev/null || echo "lost \$?"
END
    command $shell "$folder/script" >"$folder/out" 2>"$folder/err"
    check "$(cat "$folder/out" "$folder/err")" [ $? = 0 ]
    equal "$(tail -n +2 "$folder/out" | tr '\n' ,)" '0,one 64,none 64,lost 76 yes,lost 76,'
    check 'the token' grep -Eq '^[0-9]{16} OK$' "$folder/out"
}

# A script's own IFS and options are as they were afterwards, and nothing of theirs gets into what locks.
test_basic_a_script_with_an_ifs_and_noclobber() {
    cat >"$folder/script" <<END
set -euCf
IFS=,
REDIS_LOCK=functions; . "$program"
lock -p $port -w 1s $KEY || exit
held && redis-cli -p $port EXISTS $KEY
unlock
redis-cli -p $port EXISTS $KEY
case \$- in *C*) echo "kept '\$IFS'" ;; esac
END
    command $shell "$folder/script" >"$folder/out" 2>"$folder/err"
    check "$(cat "$folder/out" "$folder/err")" [ $? = 0 ]
    equal "$(cat "$folder/out" "$folder/err" | tr '\n' ';')" "1;0;kept ',';"
}

# A lock that a subshell takes is the subshell's.
test_basic_a_subshell_that_ends_frees_its_lock() {
    cat >"$folder/script" <<END
REDIS_LOCK=functions; . "$program"
lock -p $port outer
(lock -p $port -l 1s $KEY) 2>/dev/null || echo "one \$?"
(unlock) 2>/dev/null || echo "elsewhere \$?"
unlock && echo unlocked
(lock -p $port -l 1s $KEY && echo taken)
n=0; while [ "\$(redis-cli -p $port EXISTS $KEY)" = 1 ] && [ \$n -lt 60 ]; do sleep 0.1; n=\$((n + 1)); done
lock -p $port $KEY && unlock && echo again
END
    command $shell "$folder/script" >"$folder/out" 2>"$folder/err"
    equal "$(cat "$folder/out" "$folder/err" | tr '\n' ,)" 'one 64,elsewhere 64,unlocked,taken,again,'
}

# Where the variable of scripts is exported, the program is a program still.
test_basic_the_program_with_the_variable_of_scripts() {
    equal "$(REDIS_LOCK=functions command $shell "$program" -p "$port" $KEY echo in)" in
}

# The command is started, and its number is not known yet: for long, in this copy.
test_basic_a_signal_at_the_start_of_the_command() {
    sed 's/_rl_work=\$!/sleep 0.5; &/' "$program" >"$folder/slow"
    check 'it is another' eval "! cmp -s '$program' '$folder/slow'"
    timeout 20 $shell -c "exec $shell '$folder/slow' --reply 3s -p $port $KEY eval 'kill -TERM \$\$; exec sleep 60'" 2>/dev/null
    equal $? 143
    is_free
}

test_basic_a_script_that_is_killed_frees_the_lock() {
    cat >"$folder/script" <<END
REDIS_LOCK=functions; . "$program"
lock -p $port -l 2s $KEY; echo ready; sleep 60
END
    command $shell "$folder/script" >"$folder/out" &
    local script=$!
    eventually 5 grep -q ready "$folder/out"
    kill -9 $script
    eventually 6 is_free
}
