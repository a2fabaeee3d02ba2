# Errors of the server, and logins.

status_of() { redis_lock "$@" true 2>"$folder/err"; echo $?; }

test_the_table_of_errors_is_that_of_all_clients() {
    (
        sed '/^if .*ZSH_VERSION/,$d' "$program"
        cat <<'END'
while IFS='|' read -r begins acquire move release; do
    for given in "acquire $acquire" "move $move" "release $release"; do
        _rl_class "${given% *}" "$begins and more"
        [ "$_rl_is" = "${given#* }" ] || echo "$begins: $given"
        seen=yes
    done
done
[ "$seen" ] && echo done
END
    ) >"$folder/script"
    equal "$(sed -n 's/.*"begins": "\(.*\)", "acquire": "\(.*\)", "move": "\(.*\)", "release": "\(.*\)" }.*/\1|\2|\3|\4/p' \
        "$here/../../protocol/errors.json" | command $shell "$folder/script")" 'done'
}

test_no_right_no_module_and_a_wrong_password_are_told_at_once() {
    local began
    began=$(ms)
    at "$port" ACL SETUSER poor on '>secret' '~*' '+@connection' >/dev/null
    equal "$(status_of -w 9s --user poor -a secret $KEY)" 77
    says NOPERM
    at "$port" CONFIG SET requirepass secret >/dev/null
    equal "$(status_of -w 9s $KEY)" 77
    says NOAUTH
    equal "$(status_of -w 9s --permit 2 $KEY)" 77 # before a login, a call of so many words gets another error
    equal "$(status_of -w 9s -a wrong $KEY)" 77
    says WRONGPASS
    redis-server --port 0 --unixsocket "$folder/plain" --save '' --dir "$folder" >/dev/null &
    local plain=$!
    eventually 5 is PONG redis-cli -s "$folder/plain" PING
    command $shell "$program" -s "$folder/plain" -w 9s $KEY true 2>"$folder/err"
    equal $? 77
    says 'is the module redis-lock loaded?'
    kill $plain
    check 'at once' [ "$(since "$began")" -lt 5000 ]
}

test_any_login() {
    at "$port" ACL SETUSER rich on '>p w' '~*' +@all >/dev/null
    at "$port" CONFIG SET requirepass secret >/dev/null
    equal "$(status_of -a secret $KEY)" 0
    equal "$(status_of --pass=secret $KEY)" 0
    equal "$(status_of --user rich --pass 'p w' $KEY)" 0
    equal "$(REDISCLI_AUTH=secret status_of $KEY)" 0
    equal "$(status_of -u "redis://default:secret@127.0.0.1:$port/3" $KEY)" 0
    equal "$(REDIS_LOCK_CLI="redis-cli -a 'secret' -n 2" status_of $KEY)" 0
    check 'no warning of redis-cli is told' [ ! -s "$folder/err" ]
    equal "$(redis_lock -a secret -n 5 $KEY redis-cli -p "$port" -a secret --no-auth-warning -n 5 EXISTS $KEY)" 1
    at "$port" --no-auth-warning -a secret CONFIG SET requirepass '' >/dev/null
    equal "$(redis_lock -a needless $KEY redis-cli -p "$port" EXISTS $KEY)" 1 # a warning on stderr is no reply
}

test_tls() {
    local tls=$((port + 1)) files="$folder/tls"
    mkdir "$files"
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 \
        -keyout "$files/key" -out "$files/cert" 2>/dev/null
    tls=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    start_server "\"tls-port\": \"$tls\", \"tls-cert-file\": \"$files/cert\", \"tls-key-file\": \"$files/key\", \
        \"tls-ca-cert-file\": \"$files/cert\", \"tls-auth-clients\": \"no\""
    equal "$(redis_lock -p "$tls" --tls --cacert "$files/cert" $KEY redis-cli -p "$port" EXISTS $KEY)" 1
    equal "$(redis_lock -p "$tls" --tls --insecure $KEY redis-cli -p "$port" EXISTS $KEY)" 1
    equal "$(status_of -p "$tls" --tls $KEY)" 69
    says 'the server is unavailable: Could not connect'
    is_free
}

test_the_users_of_the_manual_suffice_and_so_does_less() {
    order "\"do\": \"user\", \"port\": $port, \"name\": \"application\""
    at "$port" ACL SETUSER least on '>secret' '~lock:*' '-@all' +lock.acquire +lock.renew +lock.release +lock.session >/dev/null
    local user
    for user in application least; do
        redis_lock -l 1s --user "$user" -a secret $KEY sleep 2.5 2>"$folder/err"
        equal $? 0
        check 'nothing is told' [ ! -s "$folder/err" ]
    done
    # redis-cli itself asks for the names of commands.
    equal "$(at "$port" ACL LOG | grep -A 1 ^object | grep -cv '^object\|^--\|^command')" 0
}

test_what_passes_is_tried_again_while_there_is_time() {
    at "$port" CONFIG SET min-replicas-to-write 1 >/dev/null
    equal "$(status_of $KEY)" 69
    says 'NOREPLICAS'
    # The last try is not answered: the error before it is the reason.
    at "$port" CONFIG RESETSTAT >/dev/null
    become_lock $KEY true 2>"$folder/err" &
    work=$!
    eventually 1 info_has "$port" 'INFO commandstats' '^cmdstat_lock.acquire:.*_calls=[1-9]'
    order "\"do\": \"pause\", \"port\": $port"
    ends_with $work 69
    says 'NOREPLICAS'
    order "\"do\": \"resume\", \"port\": $port"
    become_lock -w 20s $KEY true &
    work=$!
    sleep 1
    at "$port" CONFIG SET min-replicas-to-write 0 >/dev/null
    ends_with $work 0
    # A script that goes on for long.
    start_busy() { at "$port" CONFIG SET busy-reply-threshold 50 >/dev/null; at "$port" EVAL 'while true do end' 0 >/dev/null 2>&1 & }
    start_busy
    busy() { at "$port" PING 2>&1 | grep -q BUSY; }
    eventually 5 busy
    become_lock -w 20s $KEY true &
    work=$!
    sleep 1
    at "$port" SCRIPT KILL >/dev/null
    ends_with $work 0
}

test_a_full_server_passes_and_is_told() {
    at "$port" CONFIG SET maxclients 1 >/dev/null
    exec 5<>"/dev/tcp/127.0.0.1/$port"
    eventually 5 refuses
    equal "$(status_of $KEY)" 69
    says 'max number of clients'
    exec 5>&-
}
refuses() { at "$port" PING 2>&1 | grep -q 'max number'; }

test_while_it_is_held_a_short_lack_of_rights_is_no_loss() {
    at "$port" ACL SETUSER user on '>secret' '~*' +@all >/dev/null
    become_lock -l 10s --user user -a secret $KEY sleep 60 2>"$folder/err" &
    work=$!
    eventually 5 is 1 at "$port" EXISTS $KEY
    at "$port" ACL SETUSER user '-lock.renew' >/dev/null
    kill_polling
    sleep 2.5
    at "$port" ACL SETUSER user '+lock.renew' >/dev/null
    eventually 4 polled
    kill $work
    ends_with $work 143
}

test_another_type_is_misuse() {
    at "$port" SET $KEY text >/dev/null
    equal "$(status_of $KEY)" 64
    says WRONGTYPE
}

test_misuse_is_told() {
    local words
    for words in '--nonsense k true' 'k' '' '--shared' '-l 10 k true' '--at-least 2s --at-most 1s k true' '--permit x k true' '--permit 0 k true' \
        '--permit 2 --owner job k true' '--sentinels a:1 k true' '-w'; do
        command $shell "$program" $words 2>"$folder/err"
        equal $? 64
        check 'something is said' [ -s "$folder/err" ]
    done
    redis_lock $KEY no-such-command 2>"$folder/err"
    equal $? 127
    equal "$(command $shell "$program" --help | head -c 6)" usage:
}

