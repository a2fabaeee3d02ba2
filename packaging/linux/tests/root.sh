#!/bin/sh
# Makes the bare root of a distribution with debootstrap, with systemd and the lists of its packages, and no server.
# What is fetched stays beside it, and is not fetched again. Needs root.
#
# usage: root.sh <suite> <folder>    bookworm, trixie or noble, below <folder>: <suite>/ and debs/<suite>/
set -eu

suite=$1
folder=$2
root=$folder/$suite
debs=$folder/debs/$suite
[ ! -e "$root/ready" ] || exit 0

rm -rf "$root"
mkdir -p "$debs"
if ! "$(dirname -- "$0")/../../../scripts/debootstrap.sh" "$suite" "$root" --cache-dir="$debs" \
    --include=systemd,systemd-sysv; then
    rm -rf "$root"
    exit 1
fi
cp /etc/resolv.conf "$root/etc/"
chroot "$root" apt-get -qq update
touch "$root/ready"
