#!/bin/sh
# After the files are there. Debian says "configure" and the version before, if any; Fedora how many versions there are.
set -e

case ${1:-}-${2:-} in
    configure- | 1-)
        cat <<'END'
redis-lock: to load the module, add these lines to the server's configuration (/etc/redis/redis.conf,
/etc/valkey/valkey.conf) and restart it. redis-lock(7) tells more.
    loadmodule @MODULE@
    include /etc/redis-lock/redis-lock.conf
END
        ;;
    configure-* | 2-)
        cat <<'END'
redis-lock: servers go on with the version that they have loaded until they are restarted: replicas first.
See /usr/share/doc/redis-lock/docs/upgrade.md.
END
        ;;
esac
