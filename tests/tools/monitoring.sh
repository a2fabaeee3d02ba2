#!/bin/sh
# Starts a server with the built module and the usual exporter beside it, lets things happen to locks,
# and scrapes. Every metric that the alert rules and the dashboard name must be in the scrape, and have
# moved where it should; then promtool checks and tests the rules. Says what it leaves out, and why.
set -eu
. "$(dirname -- "$0")/lib.sh"

docs=$root/docs/monitoring
"$tools/setup.sh" exporter promtool || true # what is missing is left out below

folder=$(mktemp -d)
server_pid=
exporter_pid=
finish() {
    [ -z "$exporter_pid" ] || kill "$exporter_pid" 2>/dev/null || true
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
answers() { [ "$(client PING 2>/dev/null)" = PONG ]; }
scrape() {
    curl -fsS "http://127.0.0.1:$web/metrics" 2>/dev/null >"$folder/raw" || return 1
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
    port=$((20000 + $$ % 10000))
    web=$((port + 1))
    "${REDIS_SERVER:-redis-server}" --port "$port" --bind 127.0.0.1 --save '' --dir "$folder" \
        --loadmodule "$(module_path)" >"$folder/log" 2>&1 &
    server_pid=$!
    eventually "the server" answers
    client CONFIG SET lock.max-waiters 1 >"$folder/out"
    prometheus-redis-exporter -redis.addr "redis://127.0.0.1:$port" -script "$docs/lock.lua" \
        -web.listen-address "127.0.0.1:$web" >"$folder/exporter" 2>&1 &
    exporter_pid=$!
    eventually "a scrape" scrape
    for moving in expirations max_waiters_rejections wait_timeouts; do
        [ "$(field $moving)" = 0 ] || die "monitoring: $moving is '$(field $moving)' before anything happened"
    done

    # An expiration, a refusal, a wait that times out, a full queue, a hand-off.
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
        max_waiters_rejections last_token wait_ms_max; do
        eventually "$moving to move" has_moved "$moving"
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
