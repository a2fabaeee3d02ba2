# Real servers with the module on free loopback ports; each test has its own, in its own folder.

root=$(cd "$here/../../.." && pwd)
module=${REDIS_LOCK_MODULE:-$root/target/release/libredis_lock.so}
server_program=${REDIS_SERVER:-redis-server}
started=() # processes that end with the test

# eventually seconds command...: until it succeeds
eventually() {
    local end=$((SECONDS + $1 + 1))
    until "${@:2}"; do
        ((SECONDS < end)) || { echo "waited in vain for: ${*:2}"; exit 1; }
        sleep 0.02
    done
}

is() { [[ $("${@:2}" 2>/dev/null) == "$1" ]]; }
at() { redis-cli -p "$1" "${@:2}"; }

# start_server port [setting...]; the Sentinel's settings begin with `sentinel`
start_server() {
    local port=$1 conf="$folder/$1.conf" mode=()
    shift
    mkdir "$folder/$port"
    printf '%s\n' "port $port" 'bind 127.0.0.1' "dir $folder/$port" "$@" >"$conf"
    if [[ ${1:-} == sentinel* ]]; then
        mode=(--sentinel)
    else
        printf '%s\n' 'save ""' "loadmodule $module" 'repl-diskless-sync-delay 0' >>"$conf"
    fi
    "$server_program" "$conf" "${mode[@]}" >"$folder/$port.log" 2>&1 &
    started+=($!)
    eventually 20 is PONG at "$port" PING
}

free_port() { # below 55536, because a cluster node also listens on its port + 10000
    python3 -c '
import socket
while True:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        if probe.getsockname()[1] < 55536:
            print(probe.getsockname()[1])
            break'
}

start_cluster() { # sets nodes
    local number node
    nodes=()
    for number in 0 1 2; do
        nodes+=("$(free_port)")
        start_server "${nodes[number]}" 'cluster-enabled yes' 'cluster-node-timeout 3000'
        at "${nodes[number]}" CLUSTER ADDSLOTSRANGE $((16384 * number / 3)) $((16384 * (number + 1) / 3 - 1))
        at "${nodes[number]}" CLUSTER SET-CONFIG-EPOCH $((number + 1))
        at "${nodes[number]}" CLUSTER MEET 127.0.0.1 "${nodes[0]}"
    done >/dev/null
    for node in "${nodes[@]}"; do
        eventually 30 info_has "$node" 'CLUSTER INFO' cluster_known_nodes:3
        eventually 30 info_has "$node" 'CLUSTER INFO' cluster_state:ok
    done
}

info_has() {
    # shellcheck disable=SC2086 # a command in words
    at "$1" $2 | grep -q "$3"
}

start_sentinel() { # sets replica and sentinel
    replica=$(free_port) sentinel=$(free_port)
    start_server "$replica" "replicaof 127.0.0.1 $port"
    eventually 20 info_has "$replica" 'INFO replication' master_link_status:up
    start_server "$sentinel" "sentinel monitor lock 127.0.0.1 $port 1" \
        'sentinel down-after-milliseconds lock 1000' 'sentinel failover-timeout lock 5000'
    eventually 20 info_has "$sentinel" 'SENTINEL REPLICAS lock' "$replica"
}

start_proxy() { # cut|silent word count; sets proxy
    python3 "$here/proxy.py" "$port" "$@" >"$folder/proxy" &
    started+=($!)
    eventually 10 test -s "$folder/proxy"
    proxy=$(<"$folder/proxy")
}
