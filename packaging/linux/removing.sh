#!/bin/sh
# Before the files go. Debian says "remove"; Fedora how many versions will be left.
set -e

case ${1:-} in
    remove | 0) ;;
    *) exit 0 ;;
esac
for file in /etc/redis/*.conf /etc/redis.conf /etc/valkey/*.conf /etc/valkey.conf; do
    [ -e "$file" ] || continue
    if grep -q -e '^[[:space:]]*loadmodule.*libredis_lock' -e '^[[:space:]]*include.*/etc/redis-lock/' "$file"; then
        echo "redis-lock: $file still names the module or its settings: without them the server will not start again." >&2
    fi
done
