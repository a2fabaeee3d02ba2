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

case $suite in
    noble)
        mirror=http://archive.ubuntu.com/ubuntu
        components=main,universe
        ;;
    *)
        mirror=http://deb.debian.org/debian
        components=main
        ;;
esac
rm -rf "$root"
mkdir -p "$debs"
set -- --variant=minbase --components="$components" --cache-dir="$debs" --include=systemd,systemd-sysv
# A Debian does not have Ubuntu's keys, and the root is thrown away.
[ "$suite" != noble ] || [ -e /usr/share/keyrings/ubuntu-archive-keyring.gpg ] || set -- "$@" --no-check-gpg
script=$suite
[ -e "/usr/share/debootstrap/scripts/$suite" ] || script=gutsy # which all of Ubuntu are
if ! debootstrap "$@" "$suite" "$root" "$mirror" "$script" >"$folder/$suite.log" 2>&1; then
    tail -n 3 "$folder/$suite.log" >&2
    rm -rf "$root"
    exit 1
fi
cp /etc/resolv.conf "$root/etc/"
chroot "$root" apt-get -qq update
touch "$root/ready"
