#!/bin/sh
# Builds the image from what `make dist` has made (a tarball, or the module by itself), with docker, podman or buildah.
#
# usage: [ENGINE=docker|podman|buildah] build.sh <redis-lock-...tar.gz | libredis_lock.so> [base [image]]
#        base: docker.io/library/redis:8, or another that Containerfile names; -alpine ones take the musl module
#        image: the name, redis-lock:<version>-<base> without one; it is the last line printed
# Options for the engine's build command can be given in BUILD_OPTIONS, as in BUILD_OPTIONS='--platform linux/arm64'.
set -eu
umask 022
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
. "$here/../../scripts/lib.sh"

from=${1:?"usage: build.sh <tarball or module> [base [image]]"}
base=${2:-docker.io/library/redis:8}
version=$(project_version)
image=${3:-redis-lock:$version-$(basename "$base" | tr -d ':')}
engine=${ENGINE:-}
for name in docker podman buildah; do
    [ -z "$engine" ] || break
    if command -v "$name" >/dev/null && "$name" info >/dev/null 2>&1; then engine=$name; fi
done
[ -n "$engine" ] || die "install docker, podman or buildah"

work_folder
context=$work
modules=$context/files/usr/lib/redis/modules
documents=$context/files/usr/share/doc/redis-lock
mkdir -p "$modules" "$documents" "$context/files/usr/local/bin" "$context/files/etc/redis-lock" "$context/dist"
case $from in
    *.tar.gz) tar -xzf "$from" -C "$context/dist" ;;
    *) cp "$from" "$context/dist/libredis_lock.so" && strip --strip-unneeded "$context/dist/libredis_lock.so" ;;
esac
find "$context/dist" -name libredis_lock.so -exec cp {} "$modules/" \;
for program in $shipped; do
    find "$context/dist" -name "$program" -exec cp {} "$context/files/usr/local/bin/" \;
done
find "$context/dist" \( -iname '*license*' -o -name '*.cdx.json' -o -name '*.spdx.json' \) -type f -exec cp {} "$documents/" \;
rm -rf "$context/dist"
[ -e "$modules/libredis_lock.so" ] || die "no libredis_lock.so in $from"
case $base in
    *alpine*) ! grep -qa 'libc\.so\.6' "$modules/libredis_lock.so" || die "$base takes the module for musl" ;;
    *) grep -qa 'libc\.so\.6' "$modules/libredis_lock.so" || die "$base takes the module for glibc" ;;
esac

cp "$here/entrypoint.sh" "$context/files/usr/local/bin/redis-lock-entrypoint"
cp "$here/health.sh" "$context/files/usr/local/bin/redis-lock-health"
cp "$here/server.conf" "$context/files/etc/redis-lock/"
cp "$root/LICENSE" "$documents/"
chmod -R u=rwX,go=rX "$context/files"
chmod 755 "$modules/libredis_lock.so" "$context/files/usr/local/bin/"*

# The health check is no part of an image in the OCI form.
case $engine in
    docker) set -- docker build ;;
    *) set -- "$engine" build --format docker ;;
esac
# shellcheck disable=SC2086 # a list of options
"$@" ${BUILD_OPTIONS:-} --build-arg BASE="$base" --tag "$image" \
    --label org.opencontainers.image.title=redis-lock \
    --label org.opencontainers.image.version="$version" \
    --label org.opencontainers.image.licenses=MIT \
    --label org.opencontainers.image.base.name="$base" \
    --file "$here/Containerfile" "$context" >&2
printf '%s\n' "$image"
