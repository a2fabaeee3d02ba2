#!/bin/sh
# Starts a server with the built module, a replica, and the usual exporter beside them as the user that
# the manual gives it, lets things happen to locks, and scrapes. Every metric that the alert rules and
# the dashboard name must be in the scrape, and have moved where it should, and the user must have been
# refused nothing. The alerts that the manuals list must be those of the rules, and each must have its
# tests; then promtool checks and runs these. Says what it leaves out, and why.
set -eu
. "$(dirname -- "$0")/lib.sh"

docs=$root/docs/monitoring
"$tools/setup.sh" exporter promtool || true # what is missing is left out below

folder=$(mktemp -d)
server_pid=
replica_pid=
exporter_pid=
finish() {
    [ -z "$exporter_pid" ] || kill "$exporter_pid" 2>/dev/null || true
    [ -z "$replica_pid" ] || kill "$replica_pid" 2>/dev/null || true
    [ -z "$server_pid" ] || kill "$server_pid" 2>/dev/null || true
    wait
    rm -rf "$folder"
}
trap finish EXIT
trap 'exit 1' INT TERM

# Tries for half a minute.
eventually() {
    what=$1
    shift
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || die "monitoring: waited in vain for $what"
        sleep 0.1
    done
}

client() { redis-cli -p "$port" "$@"; }
answers() { [ "$(redis-cli -p "$1" PING 2>/dev/null)" = PONG ]; }
scrape() {
    {
        curl -fsS "http://127.0.0.1:$web/metrics" &&
            curl -fsS "http://127.0.0.1:$web/scrape?target=redis://127.0.0.1:$replica" |
            grep '^redis_master_link_up'
    } 2>/dev/null >"$folder/raw" || return 1
    # Newer exporters also tell the script's name.
    sed 's/script_values{filename="[^"]*",/script_values{/' "$folder/raw" >"$folder/scrape"
}
# The value of a field of INFO lock in the last scrape.
field() { sed -n "s/^redis_script_values{key=\"$1\"} //p" "$folder/scrape"; }
has_moved() {
    scrape && awk -v value="$(field "$1")" 'BEGIN { exit !(value > 0) }'
}
waits() { [ "$(client LOCK.WAITERS "$1" | grep -c client-id)" = "$2" ]; }

# Every metric that a file names, one a line: with the key where that is what tells them apart.
metrics_in() {
    sed 's/\\"/"/g' "$1" |
        grep -oE 'redis_script_values\{key="[a-z0-9_]+"|redis_[a-z_]+' |
        grep -vx redis_script_values | sort -u
}

check_scrape() {
    # Neither of a test bed (crates/testing/testbed) nor of what goes out from here.
    port=$((31000 + $$ % 500 * 3))
    web=$((port + 1))
    replica=$((port + 2))
    mkdir "$folder/replica"
    "${REDIS_SERVER:-redis-server}" --port "$port" --bind 127.0.0.1 --save '' --dir "$folder" \
        --loadmodule "$(module_path)" >"$folder/log" 2>&1 &
    server_pid=$!
    "${REDIS_SERVER:-redis-server}" --port "$replica" --bind 127.0.0.1 --save '' --dir "$folder/replica" \
        --replicaof 127.0.0.1 "$port" --loadmodule "$(module_path)" >"$folder/replica/log" 2>&1 &
    replica_pid=$!
    rule=$(grep '^ACL SETUSER exporter ' "$docs/README.md")
    for server in "$port" "$replica"; do
        eventually "the server" answers "$server"
        # shellcheck disable=SC2086 # a list of words
        redis-cli -p "$server" $rule >"$folder/out"
    done
    client CONFIG SET lock.max-waiters 1 >"$folder/out"
    prometheus-redis-exporter -redis.addr "redis://127.0.0.1:$port" -script "$docs/lock.lua" \
        -redis.user exporter -redis.password secret -web.listen-address "127.0.0.1:$web" >"$folder/exporter" 2>&1 &
    exporter_pid=$!
    eventually "a scrape" scrape
    for moving in expirations max_waiters_rejections wait_timeouts forced_removals; do
        [ "$(field $moving)" = 0 ] || die "monitoring: $moving is '$(field $moving)' before anything happened"
    done

    # An expiration, a removal, a refusal, a wait that times out, a full queue, a hand-off.
    client LOCK.ACQUIRE gone shop:host-1:7:a EX 60 >"$folder/out"
    client DEL gone >"$folder/out"
    client LOCK.ACQUIRE short shop:host-1:7:a PX 50 >"$folder/out"
    client LOCK.ACQUIRE busy shop:host-1:7:a EX 60 >"$folder/out"
    client LOCK.ACQUIRE busy shop:host-2:8:b >"$folder/out"
    client LOCK.ACQUIRE busy shop:host-2:8:b BLOCK 20 >"$folder/out"
    client LOCK.ACQUIRE busy shop:host-2:8:b EX 60 BLOCK 0 >"$folder/granted" &
    granted=$!
    eventually "a waiter" waits busy 1
    client LOCK.ACQUIRE busy shop:host-3:9:c BLOCK 0 >"$folder/out"
    client LOCK.RELEASE busy shop:host-1:7:a >"$folder/out"
    wait "$granted"
    for moving in held grants releases refusals hand_offs wait_timeouts expirations \
        max_waiters_rejections forced_removals last_token wait_ms_max; do
        eventually "$moving to move" has_moved "$moving"
    done
    for server in "$port" "$replica"; do
        refused=$(redis-cli -p "$server" ACL LOG)
        [ -z "$refused" ] || die "monitoring: the exporter was refused: $refused"
    done

    for file in alerts.yml dashboard.json; do
        metrics_in "$docs/$file" >"$folder/named"
        [ -s "$folder/named" ] || die "monitoring: $file names no metric"
        while read -r metric; do
            grep -q "^$metric[ {,}]" "$folder/scrape" ||
                die "monitoring: $file names $metric, which the scrape does not have"
        done <"$folder/named"
        say "$file: all $(wc -l <"$folder/named") metrics are in the scrape"
    done
}

# The alerts that a file names where a line matches, sorted.
alerts_in() { sed -n "s/$2/\1/p" "$1" | sort; }

check_lists() {
    alerts_in "$docs/alerts.yml" '^ *- alert: \(.*\)$' >"$folder/rules"
    alerts_in "$docs/README.md" '^| `\(Lock[A-Za-z]*\)` |.*' >"$folder/explained"
    diff "$folder/rules" "$folder/explained" ||
        die "monitoring: the alerts explained are not those of alerts.yml"
    while read -r alert; do
        grep -q "alertname: $alert, exp_alerts: \[\] }" "$docs/alerts_test.yml" ||
            die "monitoring: no test that $alert is quiet"
        grep -A 1 "^ *alertname: $alert\$" "$docs/alerts_test.yml" | grep -q 'exp_alerts:$' ||
            die "monitoring: no test that $alert fires"
    done <"$folder/rules"
    say "alerts.yml: $(wc -l <"$folder/rules") alerts, each explained and tested"
}

check_rules() {
    promtool check rules "$docs/alerts.yml"
    (cd "$docs" && promtool test rules alerts_test.yml)
    # The dashboard's expressions, with Grafana's variables filled in, as rules.
    {
        printf 'groups:\n  - name: dashboard\n    rules:\n'
        sed -n 's/^ *"expr": "\(.*\)",\{0,1\}$/\1/p' "$docs/dashboard.json" |
            sed -e 's/\\"/"/g' -e 's/\$__rate_interval/1m/' -e "s/.*/'&'/" |
            awk '{ printf "      - record: dashboard:expression%d\n        expr: %s\n", NR, $0 }'
    } >"$folder/dashboard.yml"
    promtool check rules "$folder/dashboard.yml"
    if has python3; then
        python3 -m json.tool "$docs/dashboard.json" >"$folder/out"
    fi
}

check_lists
if has prometheus-redis-exporter && has curl && has redis-cli; then
    check_scrape
else
    say "left out: the scrape, for lack of prometheus-redis-exporter, curl or redis-cli"
fi
if has promtool; then
    check_rules
else
    say "left out: the check of the rules, for lack of promtool (Debian: prometheus)"
fi
