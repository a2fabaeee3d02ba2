# What is around it: signals to all at once, other users, the folder, descriptors, settings of the script.

# The command takes SIGTERM, as from systemd or timeout to all at once, and works on until the file go is there.
test_basic_a_signal_to_all_at_once_leaves_the_lock_to_what_works_on() {
    setsid $shell "$program" --reply 3s -p "$port" $KEY $shell -c \
        "trap 'echo told; until [ -e '$folder/go' ]; do sleep 0.1; done; exit 0' TERM
        echo ready; while :; do sleep 0.1; done" >"$folder/out" 2>"$folder/err" &
    local work=$!
    eventually 5 grep -q ready "$folder/out"
    kill -TERM -- -$work
    eventually 5 grep -q told "$folder/out"
    sleep 1 # two looks of what keeps it
    equal "$(at "$port" EXISTS $KEY)" 1
    : >"$folder/go"
    ends_with $work 143
    is_free
}

test_basic_a_script_that_traps_a_signal_to_all_has_its_lock_still() {
    cat >"$folder/script" <<END
REDIS_LOCK=functions; . "$program"
trap 'told=yes' TERM
lock -p $port $KEY; echo ready
told=; until [ \$told ]; do sleep 0.1; done
sleep 1
held && redis-cli -p $port EXISTS $KEY
unlock; echo "unlock \$?"
END
    setsid $shell "$folder/script" >"$folder/out" 2>"$folder/err" &
    local script=$!
    eventually 5 grep -q ready "$folder/out"
    kill -TERM -- -$script
    ends_with $script 0
    equal "$(tr '\n' , <"$folder/out")" 'ready,1,unlock 0,'
}

# As by sudo: the command is root's. With the /proc of many machines, others do not see it there.
test_a_command_of_another_user_has_the_lock_until_it_ends() {
    [ "$(id -u)" = 0 ] && command -v setpriv unshare >/dev/null || { echo 'left out: it takes root'; return; }
    local to_nobody='setpriv --reuid 65534 --regid 65534 --clear-groups' proc seen
    chmod 755 "$folder"
    chmod 777 "$TMPDIR"
    cp "$(command -v setpriv)" "$folder/sudo"
    chmod 4755 "$folder/sudo"
    cp "$program" "$folder/redis-lock"
    for proc in : 'mount -t proc -o hidepid=2 proc /proc'; do
        unshare -m sh -c "$proc && exec $to_nobody $shell '$folder/redis-lock' --reply 3s -p $port $KEY \
            '$folder/sudo' --reuid 0 --clear-groups sh -c 'echo \$\$ >\"$folder/pid\"; exec sleep 60'" 2>"$folder/err" &
        work=$!
        eventually 5 test -s "$folder/pid"
        sleep 1 # two looks of what keeps it
        kill $work
        sleep 1
        seen=$(at "$port" EXISTS $KEY)
        kill "$(cat "$folder/pid")"
        rm "$folder/pid"
        equal "$seen" 1
        ends_with $work 143
        is_free || exit 1
    done
}

# "Strict mode" of bash: the trap is inherited by functions and by what is in the background.
test_a_trap_of_errors_in_bash_does_not_end_what_keeps_the_lock() {
    cat >"$folder/script" <<END
set -EeuTo pipefail
trap 'echo "trapped: \$BASH_COMMAND"; exit 9' ERR
trap 'n=\$((\${n:-0} + 1))' DEBUG
REDIS_LOCK=functions; . "$program"
lock -p $port -w 1s $KEY
sleep 2
held && redis-cli -p $port EXISTS $KEY
unlock && echo unlocked
case \$- in *E*T*) echo kept ;; esac
lock -p $port -w 1s -l 10 $KEY 2>/dev/null
END
    bash "$folder/script" >"$folder/out" 2>&1
    equal $? 9
    equal "$(head -n 3 "$folder/out" | tr '\n' ,)" '1,unlocked,kept,'
    check 'an error that is told is trapped' grep -q trapped "$folder/out"
}

test_basic_a_command_may_be_called_lock() {
    mkdir "$folder/bin"
    printf '#!/bin/sh\necho "mine $1"\n' | tee "$folder/bin/lock" "$folder/bin/unlock" >"$folder/bin/held"
    chmod +x "$folder/bin/"*
    for name in lock unlock held; do
        equal "$(PATH="$folder/bin:$PATH" redis_lock $KEY $name it 2>&1)" 'mine it'
    done
}

test_a_folder_that_somebody_has_removed_is_made_anew() {
    local token
    start_work -l 2s
    token=$(field token)
    rm -r "$TMPDIR/"*
    sleep 3.5
    equal "$(field token)" "$token"
    check "nothing is told: $(cat "$folder/err")" [ ! -s "$folder/err" ]
    kill $work
    ends_with $work 143
    is_free || exit 1
    # While it waits, and at the end of a script's lock.
    hold
    become_lock -w 60s $KEY true 2>"$folder/err" &
    work=$!
    eventually 5 is 1 waiters
    rm -r "$TMPDIR/"*
    kill $holder
    ends_with $work 0
    cat >"$folder/script" <<END
REDIS_LOCK=functions; . "$program"
lock -p $port -w 5s $KEY && rm -r "$TMPDIR/"*
unlock; echo "unlock \$?"
lock -p $port $KEY && unlock && rmdir "$TMPDIR" && touch "$TMPDIR"
lock -p $port $KEY 2>/dev/null || echo "no folder \$?"
END
    equal "$($shell "$folder/script" 2>&1 | tr '\n' ,)" 'unlock 0,no folder 69,'
    is_free
    rm "$TMPDIR"
    mkdir "$TMPDIR"
}

test_unlock_returns_when_it_does_not_make_the_removed_folder_itself() {
    # The process that keeps the lock makes the folder first, so the script's mkdir fails.
    cat >"$folder/script" <<END
REDIS_LOCK=functions; . "$program"
lock -p $port -w 5s --reply 3s $KEY && rm -r "$TMPDIR/"*
mkdir() { command mkdir "\$@" && command mkdir "\$@"; }
unlock; echo "unlock \$?"
END
    equal "$(timeout 60 $shell "$folder/script" 2>&1)" 'unlock 0'
    is_free || exit 1
    # Nobody can make it.
    cat >"$folder/script" <<END
REDIS_LOCK=functions; . "$program"
lock -p $port -w 5s --reply 3s $KEY && { until rm -r "$TMPDIR"; do :; done; } 2>/dev/null
unlock; echo "unlock \$?"
END
    equal "$(timeout 60 $shell "$folder/script" 2>"$folder/err")" 'unlock 69'
    says 'cannot be made'
    eventually 10 is_free
    mkdir "$TMPDIR"
}

test_basic_a_script_may_change_its_folder() {
    mkdir "$folder/relative"
    cat >"$folder/script" <<END
REDIS_LOCK=functions; . "$program"
lock -p $port $KEY
cd /
held && unlock && echo unlocked
END
    equal "$(cd "$folder" && TMPDIR=relative command $shell "$folder/script" 2>&1)" unlocked
    equal "$(ls "$folder/relative")" ''
}

test_basic_descriptors_are_the_command_s_and_the_script_s() {
    redis_lock $KEY sh -c 'cat <&3; echo nine >&9' 3<<<three 9>"$folder/9" >"$folder/out"
    equal "$(cat "$folder/out" "$folder/9" | tr '\n' ,)" three,nine,
    cat >"$folder/script" <<END
REDIS_LOCK=functions; . "$program"
exec 9>"$folder/file"
flock -n 9 && lock -p $port $KEY && exec 9>&-
flock -w 9 "$folder/file" echo closed # by what was just begun, too
unlock
END
    equal "$(command $shell "$folder/script" 2>&1)" closed
}

# As after a script's set -a.
test_a_folder_of_the_environment_is_left_alone() {
    mkdir "$folder/precious"
    _rl_dir="$folder/precious" REDIS_LOCK_CLI=no-such-program redis_lock $KEY true 2>"$folder/err"
    equal $? 64
    says 'not installed'
    check 'it is there' [ -d "$folder/precious" ]
}
