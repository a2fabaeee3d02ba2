#!/usr/bin/env bash
# Tests the image as a user has it, with podman: that it locks, who it runs as, what it loads, whether it keeps what
# it answered, its health, and the compose file through the loss of its primary.
#
# usage: test/run.sh <tarball or module> <base>    base: an image that is here, as test/base.sh makes one
#        without podman-compose in the search path the compose file is left out, which is said
set -euo pipefail
from=$(realpath "$1")
cd "$(dirname "$0")/.."
base=$2
image=localhost/redis-lock-test:latest
name=redis-lock-test-$$
port=$((20000 + $$ % 20000))
failed=0
passed=0
project=rlt$$
export ENGINE=podman REDIS_LOCK_IMAGE=$image REDIS_LOCK_PORT=$port COMPOSE_PROJECT_NAME=$project

finish() {
    podman rm --force --volumes "$name" >/dev/null 2>&1 || true
    podman volume rm --force "$name" >/dev/null 2>&1 || true
    ! command -v podman-compose >/dev/null || podman-compose down --volumes >/dev/null 2>&1 || true
    podman rmi --force "$image" >/dev/null 2>&1 || true
}
trap finish EXIT

# Whether what a command prints is, or has, what is expected.
expect() { # what, pattern, command ...
    local what=$1 pattern=$2 said
    shift 2
    said=$("$@" 2>&1 | sed '/^time="/d') || true # podman of a machine without systemd complains
    # shellcheck disable=SC2053 # a pattern
    if [[ $said == $pattern ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'NOT SO: %s\n  expected %s\n  got      %s\n' "$what" "$pattern" "$said"
    fi
}

# Until a command succeeds, two minutes at most: Sentinels that could not agree try again after 20 s.
until_so() {
    local end=$((SECONDS + 120))
    until "$@" >/dev/null 2>&1; do
        if ((SECONDS > end)); then
            printf 'never: %s\n' "$*"
            podman logs "$name" 2>&1 | tail -n 5
            return 1
        fi
        sleep 0.2
    done
}
cli() { podman exec "$name" redis-cli "$@"; }
serve() { podman run --detach --name "$name" "$@" >/dev/null; }
healthy() { podman healthcheck run "$name"; }
gone() { podman rm --force --volumes "$name" >/dev/null; }
size() { podman image inspect --format '{{.Size}}' "$1"; }

said=$(./build.sh "$from" "$base" "$image" 2>&1) || { printf '%s\n' "$said"; exit 1; }
printf 'the image adds %d kB to its base\n' $((($(size "$image") - $(size "$base")) / 1024))

began=$EPOCHREALTIME
serve --volume "$name:/data" "$image"
until_so healthy
printf 'healthy after %.1f s\n' "$(bc <<<"$EPOCHREALTIME - $began" 2>/dev/null || echo 0)"
expect 'a lock is granted' '*worker-1*' cli LOCK.ACQUIRE lock:orders:42 worker-1 EX 600
token=$(cli LOCK.ACQUIRE lock:orders:42 worker-1 EX 600 | head -n 1)
if [[ $from == *.tar.gz ]]; then
    expect 'the live view is there' 'redis-lock-top *' podman exec "$name" redis-lock-top --version
    expect 'the doctor finds no error' '*locks held: 1*errors: 0*' podman exec "$name" redis-lock-doctor
fi
expect 'not to another' '' cli LOCK.ACQUIRE lock:orders:42 worker-2 EX 600
expect 'the process is not root' '999 999 999 999' podman exec "$name" sh -c "awk '/^Uid/ { print \$2, \$3, \$4, \$5 }' /proc/1/status"
expect 'the first process is the server' '*-server*' podman exec "$name" cat /proc/1/comm
expect 'the image names a user by number' 999 podman image inspect --format '{{.User}}' "$image"
expect 'what is answered is on disk' '*always' cli CONFIG GET appendfsync
expect 'nothing is evicted' '*noeviction' cli CONFIG GET maxmemory-policy
expect 'files of the image are not for the server to write' '*denied*' podman exec "$name" sh -c 'echo x >>/etc/redis-lock/server.conf'

podman stop "$name" >/dev/null
expect 'it stops when it is told to' 0 podman inspect --format '{{.State.ExitCode}}' "$name"
podman start "$name" >/dev/null
until_so healthy
expect 'the lock is there after stop and start' '*worker-1*' cli LOCK.INFO lock:orders:42
podman kill "$name" >/dev/null
gone
serve --volume "$name:/data" "$image"
until_so healthy
expect 'and in another container on the same volume, after a kill' "$token*" cli LOCK.ACQUIRE lock:orders:42 worker-1 TOKEN "$token"
gone

serve --read-only --cap-drop all --security-opt no-new-privileges --tmpfs /tmp --volume "$name:/data" "$image"
until_so healthy
expect 'it runs on a read-only root without capabilities' '*token*' cli LOCK.INFO lock:orders:42
gone

serve "$image" --appendonly no --lock.max-waiters 7
until_so healthy
expect 'settings on the command line' '*7' cli CONFIG GET lock.max-waiters
expect 'and they override' '*no' cli CONFIG GET appendonly
gone
serve "$image" redis-server --port 6400
until_so cli -p 6400 PING
expect 'the server by its name' '*a*' cli -p 6400 LOCK.ACQUIRE k a
expect 'the health check knows of another port' '' podman exec --env 'REDIS_LOCK_CLI=-p 6400' "$name" redis-lock-health
expect 'and is ill without' '*refused*' podman exec "$name" redis-lock-health
gone
serve --user 0 "$image"
until_so healthy
expect 'as root, which the base gives up' 999 podman exec "$name" sh -c "awk '/^Uid/ { print \$2 }' /proc/1/status"
gone

own=$(mktemp -d)
chmod 755 "$own"
printf 'maxclients 77\n' >"$own/mine.conf"
printf 'loadmodule /usr/lib/redis/modules/libredis_lock.so\n' >"$own/loads.conf"
for conf in mine loads; do
    serve --volume "$own:/own:ro" "$image" "/own/$conf.conf"
    until_so healthy
    expect "a configuration of the user's, $conf.conf" '*a*' cli LOCK.ACQUIRE k a
    gone
done
serve --volume "$name:/data" "$image" sh -c 'cp -n /etc/redis-lock/server.conf /data/; exec redis-lock-entrypoint /data/server.conf'
until_so healthy
expect 'the configuration is written anew' OK cli CONFIG REWRITE
podman restart "$name" >/dev/null
until_so healthy
expect 'and the server starts with it' '*a*' cli LOCK.ACQUIRE k a
gone
rm -r "$own"

serve "$image" --requirepass secret
until_so healthy
expect 'healthy with a password that it is not told' '' podman exec "$name" redis-lock-health
expect 'and with one that it is' '' podman exec --env REDISCLI_AUTH=secret "$name" redis-lock-health
gone
serve --entrypoint docker-entrypoint.sh "$image" redis-server
until_so cli PING
expect 'a server without the module is ill' '*unknown command*' podman exec "$name" redis-lock-health
gone
expect 'other programs are left alone' 'redis-cli *' podman run --rm "$image" redis-cli --version
expect 'the version of the server' '*server v=*' podman run --rm "$image" --version

if command -v podman-compose >/dev/null; then
    expect 'the compose file is read' '*sentinel-3*' podman-compose config
    podman-compose up --detach >/dev/null 2>&1
    container() { podman ps --quiet --filter "label=com.docker.compose.project=$project" --filter "label=com.docker.compose.service=$1"; }
    of() { podman exec "$(container "$1")" "${@:2}"; }
    for service in primary replica; do name=$service until_so of "$service" redis-lock-health; done
    for n in 1 2 3; do until_so of "sentinel-$n" sh -c 'redis-cli -p 26379 SENTINEL ckquorum locks | grep "^OK 3"'; done
    until_so of replica sh -c 'redis-cli INFO replication | grep master_link_status:up'
    for n in 1 2 3; do until_so of "sentinel-$n" sh -c 'redis-cli -p 26379 SENTINEL replicas locks | grep -x replica'; done
    expect 'a lock on the primary' '*w1*' of primary redis-cli LOCK.ACQUIRE lock:a w1 EX 600
    expect 'reaches the replica' 1 of primary redis-cli WAIT 1 5000
    expect 'which tells of it' '*w1*' of replica redis-cli LOCK.INFO lock:a
    expect 'the port is published' '*w1*' redis-cli -p "$port" LOCK.INFO lock:a
    podman stop --time 0 "$(container primary)" >/dev/null
    until_so of sentinel-2 sh -c 'redis-cli -p 26379 SENTINEL get-master-addr-by-name locks | grep -x replica'
    until_so of replica sh -c 'redis-cli ROLE | grep -x master'
    expect 'the lock is on the new primary' '*w1*' of replica redis-cli LOCK.INFO lock:a
    expect 'which grants' '*w2*' of replica redis-cli LOCK.ACQUIRE lock:b w2 EX 600
    podman-compose start primary >/dev/null 2>&1
    until_so of primary sh -c 'redis-cli ROLE | grep -x slave'
    until_so of primary sh -c 'redis-cli LOCK.INFO lock:b | grep w2'
    expect 'the old primary follows, with the new lock' '*w2*' of primary redis-cli LOCK.INFO lock:b
else
    echo 'the compose file is left out, for want of podman-compose'
fi

printf '%d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
