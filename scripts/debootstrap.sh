#!/bin/sh
# Creates a minimal Debian or Ubuntu system in a folder, for a test that deletes it afterwards. Needs root and
# debootstrap.
#
# usage: [MIRROR=url] debootstrap.sh <suite> <folder> [option of debootstrap ...]     suite: bookworm, trixie, noble
set -eu

suite=$1
folder=$2
shift 2
mirror=http://deb.debian.org/debian
script=$suite
if [ "$suite" = noble ]; then
    mirror=http://archive.ubuntu.com/ubuntu
    set -- --components=main,universe "$@"
    # A Debian does not have Ubuntu's keys.
    [ -e /usr/share/keyrings/ubuntu-archive-keyring.gpg ] || set -- --no-check-gpg "$@"
    [ -e "/usr/share/debootstrap/scripts/$suite" ] || script=gutsy # which all of Ubuntu are
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
debootstrap --variant=minbase "$@" "$suite" "$folder" "${MIRROR:-$mirror}" "$script" >"$log" 2>&1 || {
    tail -n 5 "$log" >&2
    exit 1
}
