#!/bin/sh
# Makes a base image for the tests where no registry can be reached: Debian with its redis-server, laid out as the
# official images are - the user redis with the number 999, /data, docker-entrypoint.sh in front of the server.
# Takes root, debootstrap and podman. usage: [MIRROR=url] base.sh <image> [suite]
set -eu
image=${1:?"usage: [MIRROR=url] base.sh <image> [suite]"}
suite=${2:-bookworm}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
"$(dirname -- "$0")/../../../scripts/debootstrap.sh" "$suite" "$root" --include=redis-server,redis-tools
chroot "$root" sh -c 'groupmod -g 999 redis && usermod -u 999 -d /data redis'
install -d -o 999 -g 999 "$root/data"
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/doc "$root"/usr/share/man \
    "$root"/usr/share/locale "$root"/etc/redis/redis.conf
cat >"$root/usr/local/bin/docker-entrypoint.sh" <<'END'
#!/bin/sh
# What the official ones have in common: the server is the default, and root gives itself up for the user redis.
set -e
case ${1:-} in -* | *.conf) set -- redis-server "$@" ;; esac
if [ "$1" = redis-server ] && [ "$(id -u)" = 0 ]; then
    chown -R redis .
    exec setpriv --reuid=redis --regid=redis --clear-groups "$0" "$@"
fi
# As the official images of Redis 8: each module of this folder is loaded.
if [ "$1" = redis-server ]; then
    for module in /usr/local/lib/redis/modules/*.so; do
        [ ! -x "$module" ] || set -- "$@" --loadmodule "$module"
    done
fi
exec "$@"
END
chmod 755 "$root/usr/local/bin/docker-entrypoint.sh"
tar -C "$root" -c . | podman import --change 'WORKDIR /data' --change 'VOLUME /data' --change 'EXPOSE 6379' \
    --change 'ENTRYPOINT ["docker-entrypoint.sh"]' --change 'CMD ["redis-server"]' - "$image" >&2
