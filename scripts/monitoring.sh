#!/bin/sh
# Starts a server with the built module, a replica, the usual exporter as the user that the manual gives it, and Prometheus
# with the scrape of the manual and the rules, and lets things happen to locks. Every metric of the server that the rules and
# the dashboard name must be there, and have moved where it should; the alerts must fire for a lost lock, not for one that
# its holder left to expire; and the user must have been refused nothing. The metrics of clients must be those that each
# client names. Each alert must have its instructions and its tests, which promtool runs. Says what it leaves out, and why.
set -eu
. "$(dirname -- "$0")/lib.sh"

docs=$root/docs/monitoring
"$tools/setup.sh" exporter promtool || true # what is missing is left out below

folder=$(mktemp -d)
pids=
finish() {
    # shellcheck disable=SC2086 # a list of numbers
    [ -z "$pids" ] || kill $pids 2>/dev/null || true
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
waits() { [ "$(client LOCK.WAITERS "$1" | grep -c client-id)" = "$2" ]; }

# What Prometheus answers to an expression, as JSON.
query() { curl -fsS --data-urlencode "query=$1" "http://127.0.0.1:$prometheus/api/v1/query" 2>/dev/null; }
has_series() { query "$1" | grep -q '"result":\[{'; }
has_none() { query "$1" | grep -q '"result":\[\]'; }

# The server's metrics that a file names, one a line.
metrics_in() {
    grep -oE 'redis_[a-z0-9_]+' "$1" | grep -vE '^redis_lock_client_|^redis_lock_(waits|wait_timeouts)$' | sort -u
}

# The dashboard's expressions, with Grafana's variables filled in.
expressions() {
    grep -oE '"expr": "(\\.|[^"\])*"' "$docs/dashboard.json" | sed -e 's/^"expr": "//' -e 's/"$//' -e 's/\\"/"/g' \
        -e 's/\$__rate_interval/10s/' -e 's/\$instance/.*/g' -e 's/\$job/.*/g'
}

start_prometheus() {
    # The manual's scrape, more often than it says, of this exporter; and its replica.
    sed -n '/^```yaml$/,/^```$/p' "$docs/README.md" | sed -e '/^```/d' -e "s/127\.0\.0\.1:9121/127.0.0.1:$web/" \
        -e "s,/etc/redis-lock/,$docs/," >"$folder/manual.yml"
    {
        printf 'global: { scrape_interval: 1s, evaluation_interval: 1s }\n'
        sed '/^rule_files:/,$d' "$folder/manual.yml"
        printf '  - job_name: replica\n    metrics_path: /scrape\n    params: { target: ["redis://127.0.0.1:%s"] }\n' "$replica"
        printf '    static_configs: [{ targets: ["127.0.0.1:%s"] }]\n' "$web"
        sed -n '/^rule_files:/,$p' "$folder/manual.yml"
    } >"$folder/prometheus.yml"
    promtool check config "$folder/prometheus.yml" >"$folder/out" || die "monitoring: $(cat "$folder/out")"
    prometheus --config.file "$folder/prometheus.yml" --storage.tsdb.path "$folder/prometheus" \
        --web.listen-address "127.0.0.1:$prometheus" >"$folder/log" 2>&1 &
    pids="$pids $!"
}

check_scrape() {
    # Neither of a test bed (crates/testing/testbed) nor of what goes out from here.
    port=$((31000 + $$ % 400 * 4))
    web=$((port + 1))
    replica=$((port + 2))
    prometheus=$((port + 3))
    mkdir "$folder/replica"
    "${REDIS_SERVER:-redis-server}" --port "$port" --bind 127.0.0.1 --save '' --dir "$folder" \
        --loadmodule "$(module_path)" >"$folder/primary" 2>&1 &
    pids="$pids $!"
    "${REDIS_SERVER:-redis-server}" --port "$replica" --bind 127.0.0.1 --save '' --dir "$folder/replica" \
        --replicaof 127.0.0.1 "$port" --loadmodule "$(module_path)" >"$folder/replica/log" 2>&1 &
    pids="$pids $!"
    rule=$(grep '^ACL SETUSER exporter ' "$docs/README.md")
    for server in "$port" "$replica"; do
        eventually "the server" answers "$server"
        # shellcheck disable=SC2086 # a list of words
        redis-cli -p "$server" $rule >"$folder/out"
    done
    client CONFIG SET lock.max-waiters 1 >"$folder/out"
    prometheus-redis-exporter -redis.addr "redis://127.0.0.1:$port" -script "$docs/lock.lua" \
        -redis.user exporter -redis.password secret -web.listen-address "127.0.0.1:$web" >"$folder/exporter" 2>&1 &
    pids="$pids $!"
    start_prometheus
    for still in session_losses expirations max_waiters_rejections wait_timeouts forced_removals; do
        eventually "$still" has_series "redis_lock_${still}_total == 0"
    done

    # A lock that is left for an at-least time, a refusal, a wait that times out, a full queue, a hand-off.
    mkfifo "$folder/commands"
    client <"$folder/commands" >"$folder/session" &
    pids="$pids $!"
    exec 3>"$folder/commands" # a session ends some time after its connection
    echo LOCK.SESSION OPEN NAME shop >&3
    eventually "a session" test -s "$folder/session"
    session=$(cat "$folder/session")
    client LOCK.ACQUIRE job shop:host-1:7:a EX 60 SESSION "$session" >"$folder/out"
    client LOCK.RENEW job shop:host-1:7:a PX 50 SESSION 0 >"$folder/out"
    client LOCK.ACQUIRE busy shop:host-1:7:a EX 60 >"$folder/out"
    client LOCK.ACQUIRE busy shop:host-2:8:b >"$folder/out"
    client LOCK.ACQUIRE busy shop:host-2:8:b BLOCK 20 >"$folder/out"
    client LOCK.ACQUIRE busy shop:host-2:8:b EX 60 BLOCK 0 >"$folder/granted" &
    granted=$!
    eventually "a waiter" waits busy 1
    client LOCK.ACQUIRE busy shop:host-3:9:c BLOCK 0 >"$folder/out"
    client LOCK.RELEASE busy shop:host-1:7:a >"$folder/out"
    wait "$granted"
    for moving in held last_token wait_max_seconds grants_total releases_total refusals_total hand_offs_total \
        wait_timeouts_total expirations_total max_waiters_rejections_total; do
        eventually "$moving to move" has_series "redis_lock_$moving > 0"
    done
    eventually "the alert of what was refused" has_series 'ALERTS{alertname="LockWaitersRejected"}'
    for alert in LockLost LockRemovedByForce LockSessionsSilent LockWaitsLong LockWaitsTimedOut; do
        has_none "ALERTS{alertname=\"$alert\"}" || die "monitoring: $alert fires, but every job is healthy"
    done

    # A removal.
    client LOCK.ACQUIRE gone shop:host-1:7:a EX 60 SESSION "$session" >"$folder/out"
    client DEL gone >"$folder/out"
    for alert in LockLost LockRemovedByForce; do
        eventually "$alert" has_series "ALERTS{alertname=\"$alert\"}"
    done
    for server in "$port" "$replica"; do
        refused=$(redis-cli -p "$server" ACL LOG)
        [ -z "$refused" ] || die "monitoring: the exporter was refused: $refused"
    done

    for file in alerts.yml dashboard.json; do
        metrics_in "$docs/$file" >"$folder/named"
        [ -s "$folder/named" ] || die "monitoring: $file names no metric"
        while read -r metric; do
            eventually "$metric, which $file names" has_series "$metric"
        done <"$folder/named"
        say "$file: all $(wc -l <"$folder/named") metrics of the server are there"
    done
    expressions >"$folder/expressions"
    while read -r expression; do
        query "$expression" >"$folder/out" || die "monitoring: dashboard.json: not an expression: $expression"
    done <"$folder/expressions"
    say "dashboard.json: $(wc -l <"$folder/expressions") expressions are valid"

    # Only the gauges of the manual are without _total.
    sed -n '/^## Gauges/,/^## Counters/s/^| `\(lock_[a-z_]*\)` .*/redis_\1/p' "$root/docs/operations/info.md" | sort >"$folder/gauges"
    query '{__name__=~"redis_lock_.*", job="redis-lock"}' | grep -oE '"__name__":"[a-z0-9_]+"' | cut -d '"' -f 4 |
        grep -vE '_(total|seconds)$' | sort >"$folder/named"
    diff "$folder/gauges" "$folder/named" || die "monitoring: the gauges of info.md are not those of lock.lua"
}

# The metrics of the manual are those of each client, and the rules and the dashboard name no others.
check_clients() {
    sed -n 's/^| `\(redis_lock[.]client[a-z.]*\)` .*/\1/p' "$docs/README.md" | sort >"$folder/named"
    for file in clients/go/otel/otel.go clients/node/src/otel/index.ts clients/python/src/redis_lock_client/otel.py \
        clients/rust/src/otel.rs \
        clients/java/adapters/micrometer/src/main/java/io/github/redislock/micrometer/MicrometerObserver.java; do
        grep -oE '"redis_lock[.][a-z.]+"' "$root/$file" | tr -d '"' | sort -u | diff "$folder/named" - ||
            die "monitoring: $file does not have the metrics of docs/monitoring/README.md"
    done
    grep -ohE 'redis_lock_client_[a-z_]+' "$docs/alerts.yml" "$docs/dashboard.json" | sort -u | while read -r metric; do
        name=$(printf '%s\n' "$metric" | sed -E -e 's/_(bucket|count|sum)$//' -e 's/_(seconds|total)$//')
        [ "$name" = redis_lock_client_acquires ] || tr . _ <"$folder/named" | grep -qx "$name" ||
            die "monitoring: no client has $metric"
    done
    say "the clients: $(wc -l <"$folder/named") metrics, the same in each"
}

check_lists() {
    sed -n 's/^ *- alert: \(.*\)$/\1/p' "$docs/alerts.yml" | sort >"$folder/rules"
    sed -n 's/^## \(Lock[A-Za-z]*\)$/\1/p' "$docs/alerts.md" | sort >"$folder/explained"
    diff "$folder/rules" "$folder/explained" || die "monitoring: the alerts of alerts.md are not those of alerts.yml"
    page=https://github.com/redis-lock/redis-lock/blob/main/docs/monitoring/alerts.md
    while read -r alert; do
        anchor=$(printf '%s\n' "$alert" | tr '[:upper:]' '[:lower:]')
        sed -n "/- alert: $alert\$/,/^\$/p" "$docs/alerts.yml" | grep -qx " *runbook_url: $page#$anchor" ||
            die "monitoring: the runbook_url of $alert is not $page#$anchor"
        grep -q "alertname: $alert, exp_alerts: \[\] }" "$docs/alerts_test.yml" ||
            die "monitoring: no test that $alert is quiet"
        grep -A 1 "^ *alertname: $alert\$" "$docs/alerts_test.yml" | grep -q 'exp_alerts:$' ||
            die "monitoring: no test that $alert fires"
    done <"$folder/rules"
    say "alerts.yml: $(wc -l <"$folder/rules") alerts, each explained and tested"
}

check_lists
check_clients
if has promtool; then
    promtool check rules "$docs/alerts.yml"
    (cd "$docs" && promtool test rules alerts_test.yml)
    ! has python3 || python3 -m json.tool "$docs/dashboard.json" >"$folder/out"
else
    say "left out: the check of the rules, for lack of promtool (Debian: prometheus)"
fi
if has prometheus && has prometheus-redis-exporter && has curl && has redis-cli; then
    check_scrape
else
    say "left out: the scrape, for lack of prometheus, prometheus-redis-exporter, curl or redis-cli"
fi
