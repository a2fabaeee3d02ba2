#!/bin/sh
# Puts the files of a release into one folder, with their checksums in SHA256SUMS. Fails if one is missing.
#
# usage: [PARTIAL=1] files.sh <folder> <folder with some of them> ...     PARTIAL: what is missing is only named
set -eu
. "$(dirname -- "$0")/../lib.sh"

[ $# -ge 2 ] || die "usage: files.sh <folder> <folder with some of them> ..."
folder=$1
shift
version=$("$root/scripts/release/version.sh")
mkdir -p "$folder"
missing=''
for pattern in \
    "redis-lock-$version-x86_64-unknown-linux-gnu.tar.gz" "redis-lock-$version-aarch64-unknown-linux-gnu.tar.gz" \
    "redis-lock-$version-x86_64-unknown-linux-musl.tar.gz" "redis-lock-$version-aarch64-unknown-linux-musl.tar.gz" \
    "redis-lock_$version-1_amd64.deb" "redis-lock_$version-1_arm64.deb" \
    "redis-lock-$version-1.x86_64.rpm" "redis-lock-$version-1.aarch64.rpm" \
    "redis_lock_client-$version-py3-none-any.whl" "redis_lock_client-$version.tar.gz" \
    "redis-lock-client-$version.tgz" "redis-lock-client-$version.crate" "maven-$version.zip"; do
    found=$(find "$@" -type f -name "$pattern" | head -n 1)
    if [ -n "$found" ]; then cp "$found" "$folder/"; else missing="$missing $pattern"; fi
done
find "$@" -type f -name "redis-lock-$version-*-debug.tar.gz" -exec cp {} "$folder/" \;
if [ -n "$missing" ]; then
    [ "${PARTIAL:-}" = 1 ] || die "missing:$missing"
    say "missing:$missing"
fi
cd "$folder"
rm -f SHA256SUMS
# shellcheck disable=SC2035 # no name begins with a dash
sha256sum * >.sums
mv .sums SHA256SUMS
cat SHA256SUMS
