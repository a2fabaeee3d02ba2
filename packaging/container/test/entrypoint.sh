#!/bin/sh
# What the entrypoint and the health check make of their words, without a container, in the shells of the bases: dash
# (Debian) and BusyBox's (Alpine), those of them that are here.
set -eu
cd "$(dirname -- "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

stub() { printf '#!/bin/sh\n%s\n' "$2" >"$work/$1" && chmod 755 "$work/$1"; }
# shellcheck disable=SC2016 # for the stubs
{
    stub docker-entrypoint.sh 'echo "$@"'
    stub redis-server 'echo itself "$@"'
    stub redis-cli 'echo "$ANSWER"; exit "${STATUS:-0}"'
}
printf 'port 1\n' >"$work/mine.conf"
printf '\tloadmodule /somewhere/libredis_lock.so\n' >"$work/loads.conf"
printf '# loadmodule libredis_lock.so\n' >"$work/comment.conf"

expect() { # words that come out, words that go in
    wanted=$1
    shift
    # shellcheck disable=SC2086 # a shell, or a program and its first word
    got=$(PATH=$work:$PATH $shell ./entrypoint.sh "$@" 2>&1) || :
    if [ "$got" = "$wanted" ]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        printf '%s: %s\n  expected %s\n  got      %s\n' "$shell" "$*" "$wanted" "$got"
    fi
}
healthy() { # 0 or 1, answer, status of redis-cli
    status=0
    # shellcheck disable=SC2086
    ANSWER=$2 STATUS=${3:-0} PATH=$work:$PATH $shell ./health.sh >"$work/said" 2>&1 || status=$?
    if [ "$status" = "$1" ]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        printf '%s: "%s" is %s, not %s\n' "$shell" "$2" "$status" "$1"
    fi
}

own=/etc/redis-lock/server.conf
load='--loadmodule /usr/lib/redis/modules/libredis_lock.so'
for shell in dash 'busybox sh'; do
    command -v "${shell%% *}" >/dev/null || { echo "$shell: left out, it is not here"; continue; }
    rm -f "$work/valkey-server"
    expect "redis-server $own"
    expect "redis-server $own --maxclients 5" --maxclients 5
    expect "redis-server $own" redis-server
    expect "redis-server $own --port 7" redis-server --port 7
    expect "redis-server $work/mine.conf $load" "$work/mine.conf"
    expect "redis-server $work/mine.conf $load --port 7" redis-server "$work/mine.conf" --port 7
    expect "redis-server $work/loads.conf --port 7" "$work/loads.conf" --port 7
    expect "redis-server $work/comment.conf $load" "$work/comment.conf"
    expect "redis-server $work/none.conf $load" "$work/none.conf"
    expect "redis-server $work/mine.conf --sentinel" redis-server "$work/mine.conf" --sentinel
    expect "redis-sentinel $work/mine.conf" redis-sentinel "$work/mine.conf"
    expect 'redis-cli PING' redis-cli PING
    expect 'itself --version' --version
    expect 'itself -v' redis-server -v
    # shellcheck disable=SC2016
    stub valkey-server 'echo itself "$@"'
    expect "valkey-server $own --maxclients 5" --maxclients 5
    expect "valkey-server $own" valkey-server
    healthy 0 ''
    healthy 0 owner
    healthy 0 'NOAUTH Authentication required.'
    healthy 0 'MOVED 1 127.0.0.1:7000'
    healthy 1 "ERR unknown command 'LOCK.INFO'"
    healthy 1 'LOADING Redis is loading the dataset in memory'
    healthy 1 'Could not connect to Redis' 1
done
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
