#!/bin/sh
# The .deb and the .rpm of each architecture, of the tarballs for glibc. usage: linux.sh <folder of the tarballs> <folder>
set -eu
. "$(dirname -- "$0")/../lib.sh"

[ $# = 2 ] || die "usage: linux.sh <folder of the tarballs> <folder for the packages>"
version=$("$root/scripts/release/version.sh")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for machine in ${MACHINES:-x86_64 aarch64}; do
    case $machine in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; *) die "linux.sh: no such machine: $machine" ;; esac
    mkdir "$work/$arch"
    tar -xzf "$1/redis-lock-$version-$machine-unknown-linux-gnu.tar.gz" -C "$work/$arch"
    built=$(find "$work/$arch" -name libredis_lock.so)
    [ -n "$built" ] || die "linux.sh: no module for $machine in $1"
    ARCH=$arch "$root/scripts/packages.sh" "${built%/*}" "$2"
done
