#!/bin/sh
# A server is healthy if it answers and has the commands of redis-lock. What redis-cli needs besides (a port, TLS)
# is in REDIS_LOCK_CLI, a password in REDISCLI_AUTH; a server that asks for one and gets none is healthy too,
# because it does not start without the module.
set -eu
cli=$(command -v valkey-cli || command -v redis-cli)
# shellcheck disable=SC2086 # a list of words
answer=$("$cli" ${REDIS_LOCK_CLI:-} LOCK.INFO redis-lock:health 2>&1) || {
    echo "$answer"
    exit 1
}
case $answer in
    'LOADING '* | *'unknown command'* | 'ERR '*) echo "$answer"; exit 1 ;;
esac
