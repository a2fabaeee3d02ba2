#!/bin/sh
# Starts a server with the built module in the foreground, on PORT or on the first free port from 6379. It uses the
# settings of redis.conf and keeps its data in the ignored folder .run/.
set -eu
. "$(dirname -- "$0")/lib.sh"

# Succeeds if a process on this machine listens on the port.
taken() {
    if [ -r /proc/net/tcp ]; then
        grep -qs "$(printf ':%04X 0*:0000 0A ' "$1")" /proc/net/tcp /proc/net/tcp6
    else
        netstat -an | grep -q "[.:]$1 .*LISTEN"
    fi
}

port=${PORT:-}
case $port in *[!0-9]*) die "PORT=$port is not a port number" ;; esac
if [ -z "$port" ]; then
    port=6379
    while taken "$port"; do port=$((port + 1)); done
elif taken "$port"; then
    die "port $port is taken: give another PORT, or none for the first free one"
fi

server=${REDIS_SERVER:-redis-server}
version=$(server_version "$server")
# Each version has its own folder, because a server cannot read the files of every other version.
data=.run/$(echo "$version" | sed 's/ \([0-9]*\.[0-9]*\).*/-\1/')
mkdir -p "$root/$data"
conf=$root/$data/redis.conf
{
    # Written again at each start, so that it follows redis.conf. Changes by CONFIG REWRITE last only for this run.
    # The server goes to its data folder before it loads modules, so the path must be a full one.
    grep -v '^loadmodule ' "$root/redis.conf"
    printf 'loadmodule "%s"\n' "$(module_path)"
    printf 'dir "%s"\n' "$root/$data"
    printf 'bind 127.0.0.1 -::1\nport %s\nsave ""\nappendonly yes\nloglevel warning\n' "$port"
} >"$conf"

cat <<END
redis-lock on $version, port $port, data in $data/ (Ctrl-C stops it)

  connect:  redis-cli -p $port
  and try:  LOCK.ACQUIRE lock:orders:42 worker-1 EX 60

END
exec "$server" "$conf"
