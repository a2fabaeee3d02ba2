#!/bin/sh
# Runs before the image's own entrypoint: a server loads redis-lock, whatever its arguments are.
#
#   (nothing)              the server with /etc/redis-lock/server.conf
#   --option value ...     the same, and these settings
#   file.conf ...          the server with a configuration of yours; the module is added, unless the file loads it
#   redis-server ...       any of these three, spelled out; valkey-server likewise
#   anything else          is left alone: redis-cli, a shell, Sentinel
set -eu
own=/etc/redis-lock/server.conf
module=/usr/lib/redis/modules/libredis_lock.so

case ${1:-} in
    '' | -* | *.conf)
        server=$(command -v valkey-server || command -v redis-server)
        set -- "${server##*/}" "$@"
        ;;
esac
case " $* " in *' --sentinel '*) exec docker-entrypoint.sh "$@" ;; esac
case $1 in
    redis-server | valkey-server) ;;
    *) exec docker-entrypoint.sh "$@" ;;
esac

server=$1
shift
case ${1:-} in
    # Nobody wants a server for these.
    -h | --help | -v | --version) exec "$server" "$@" ;;
    '' | -*) exec docker-entrypoint.sh "$server" "$own" "$@" ;;
esac
conf=$1
shift
# A server that has written its configuration (CONFIG REWRITE) has a loadmodule line in it; loaded twice it ends.
if ! grep -qs '^[[:space:]]*loadmodule .*libredis_lock\.so' "$conf"; then
    set -- --loadmodule "$module" "$@"
fi
exec docker-entrypoint.sh "$server" "$conf" "$@"
