#!/bin/sh
# The .deb and the .rpm of each architecture, of the tarballs for glibc. usage: linux.sh <folder of the tarballs> <folder>
set -eu
. "$(dirname -- "$0")/../lib.sh"

[ $# = 2 ] || die "usage: linux.sh <folder of the tarballs> <folder for the packages>"
version=$("$root/scripts/release/version.sh")
for machine in ${MACHINES:-x86_64 aarch64}; do
    "$root/scripts/packages.sh" "$1/redis-lock-$version-$machine-unknown-linux-gnu.tar.gz" "$2"
done
