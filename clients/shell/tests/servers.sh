# Real servers with the module, and proxies: by `testbed serve` (crates/testing/testbed/src/bin/testbed/serve.rs).
# Each test has a test bed of its own, which ends with it.

start_testbed() {
    coproc testbed { cd "$here/../../.." && exec ${TESTBED:-cargo run --quiet --package testbed --} serve 2>/dev/null; }
}

end() { # the processes of the test, then the servers
    kill -9 $(jobs -p | grep -vx "$testbed_PID")
    exec {testbed[1]}>&-
    wait
} 2>/dev/null

# order '"do": "..."...': sets answer
order() {
    echo "{$1}" >&"${testbed[1]}"
    read -r answer <&"${testbed[0]}"
    [[ $answer != *'Failed finding TLS support'* ]] || { echo 'left out: this server has no TLS'; exit 0; }
    [[ $answer != '{"error"'* ]] || { echo "{$1}: $answer"; exit 1; }
}

# ports of an answer, in the order of their names: sets ports
ports() {
    mapfile -t ports < <(grep -o '"port":[0-9]*' <<<"$answer" | cut -d: -f2)
}

start_server() { # with settings, as JSON: sets port
    order "\"do\": \"server\"${1:+, \"config\": {$1\}}"
    ports
    port=${ports[0]}
}

start_cluster() { # sets nodes
    order '"do": "cluster"'
    ports
    nodes=("${ports[@]}")
}

start_sentinel() { # sets sentinel, port and replica
    order '"do": "sentinels"'
    master=$(grep -o '"name":"[^"]*' <<<"$answer" | cut -d\" -f4)
    ports # "sentinels" is before "servers"
    sentinel=${ports[0]} port=${ports[1]} replica=${ports[2]}
}

# start_proxy [fault words [times]]: sets proxy
start_proxy() {
    order "\"do\": \"proxy\", \"port\": $port"
    ports
    proxy=${ports[0]}
    [[ ! ${1:-} ]] || order "\"do\": \"inject\", \"port\": $proxy, \"fault\": \"$1\", \"words\": \"$2\", \"times\": ${3:-1}"
}

# eventually seconds command...: until it succeeds
eventually() {
    local end=$((SECONDS + 3 * $1 + 1)) # a busy machine is slow
    until "${@:2}"; do
        ((SECONDS < end)) || { echo "waited in vain for: ${*:2}"; exit 1; }
        sleep 0.02
    done
}

# The connection that polls the one session, and its end.
polling() { at "$port" LOCK.SESSION LIST | sed -n '/^client-id$/{n;p;}'; }
polled() { [[ $(polling) -gt ${cut:-0} ]]; }
kill_polling() {
    cut=$(polling)
    at "$port" CLIENT KILL ID "$cut" >/dev/null
}

is() { [[ $("${@:2}" 2>/dev/null) == "$1" ]]; }
at() { redis-cli -p "$1" "${@:2}"; }

info_has() {
    # shellcheck disable=SC2086 # a command in words
    at "$1" $2 | grep -q "$3"
}
