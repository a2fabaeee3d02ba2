#!/bin/sh
# Prints the path of a server that can load the module of a target. On first use it prepares the server in the ignored
# folder .servers/. For arm64 it is the distribution's server, in qemu on other machines. For musl it is a Redis that
# Zig builds from the distribution's source, with the distribution's musl.
#
# usage: server.sh <target>
set -eu
. "$(dirname -- "$0")/common.sh"
. "$tools/apt.sh"

triple=$1
architecture=${triple%%-*}
case $architecture in
    x86_64) debian=amd64 ;;
    aarch64) debian=arm64 ;;
    *) die "server.sh: no server for $triple" ;;
esac
native=false
[ "$architecture" != "$(uname -m)" ] || native=true

if $native && [ "${triple##*-}" = gnu ]; then
    "$tools/setup.sh" server || exit 1
    command -v "${REDIS_SERVER:-redis-server}"
    exit
fi

folder=$root/.servers/redis-$triple
server=$folder/redis-server
if [ -n "$(server_version "$server")" ]; then
    echo "$server"
    exit
fi

"$tools/setup.sh" dist dist-test || die "$triple: no server"
has apt-get || die "$triple: the server is fetched by apt-get, which is not here"
mkdir -p "$root/.servers"
work_folder "$root/.servers"
export ZIG_GLOBAL_CACHE_DIR="$zig/cache/zig"
failed() { die "$triple: $(grep -m 1 '^E: ' "$work/log" || tail -n 3 "$work/log")"; }

# Packages of the target's architecture with all that they need, unpacked, of which the libraries are kept.
unpacked() {
    own_apt "$work" deb "$debian" >>"$work/log" 2>&1 &&
        in_apt "$work" install --yes --no-install-recommends --download-only "$@" >>"$work/log" 2>&1 || failed
    for package in "$work"/cache/archives/*.deb; do dpkg-deb --extract "$package" "$work/unpacked"; done
    mkdir -p "$folder/root/usr"
    # Where /lib is a link to usr/lib, the packages of one distribution still hold files of both.
    for part in lib lib64 usr/lib; do
        [ ! -d "$work/unpacked/$part" ] || cp -a "$work/unpacked/$part" "$folder/root/${part%lib*}"
    done
}

# The same version as the distribution has for glibc.
redis_for_musl() {
    source_of_redis "$work/source" >>"$work/log" 2>&1 || failed
    cc="$zig/ziglang/zig cc -target $architecture-linux-musl -dynamic -fno-sanitize=undefined"
    make -C "$work/source/redis/src" -j "$(nproc)" redis-server CC="$cc" AR="$zig/ziglang/zig ar" \
        RANLIB="$zig/ziglang/zig ranlib" MALLOC=libc BUILD_TLS=no USE_SYSTEMD=no uname_M="$architecture" \
        ARFLAGS=rcs >>"$work/log" 2>&1 || failed
    cp "$work/source/redis/src/redis-server" "$folder/root/"
}

mkdir -p "$folder/root"
say "fetching a server for $triple"
case $triple in
    *-gnu)
        unpacked redis-server
        cp -L "$work"/unpacked/usr/bin/redis-check-rdb "$folder/root/redis-server"
        loader=
        ;;
    *-musl)
        unpacked musl
        say "building Redis for it"
        redis_for_musl
        loader=$folder/root/lib/ld-musl-$architecture.so.1
        ;;
esac
if $native; then
    run="exec '$loader' '$folder/root/redis-server'"
else
    run="exec qemu-$architecture-static -L '$folder/root' '$folder/root/redis-server'"
fi
printf '#!/bin/sh\n%s "$@"\n' "$run" >"$server"
chmod +x "$server"
[ -n "$(server_version "$server")" ] || die "$triple: the server does not run: $("$server" --version 2>&1 | tail -n 3)"
echo "$server"
