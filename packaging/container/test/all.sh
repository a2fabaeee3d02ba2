#!/bin/sh
# Tests the image on each base of bases.txt, as far as its registry can be reached, on this machine's architecture.
# usage: [BASES="localhost/base:7.0 ..."] test/all.sh <folder of the tarballs>
#   BASES: images to test on in the place of bases.txt; test/base.sh makes one where no registry can be reached
set -eu
cd "$(dirname -- "$0")/.."
dist=$(CDPATH='' cd -- "${1:?"usage: test/all.sh <folder of the tarballs>"}" && pwd)
machine=$(uname -m)
failed=0

# Of an image that was made here there is no newer one.
has() {
    case $1 in
        localhost/*) podman image exists "$1" ;;
        *) podman pull --quiet "$1" </dev/null ;;
    esac
}

trap 'rm -f .bases' EXIT
if [ -n "${BASES:-}" ]; then
    for base in $BASES; do printf '%s %s\n' "${base##*/}" "$base"; done >.bases
else
    grep -v '^#' bases.txt >.bases
fi
while read -r name base; do
    case $name in *-alpine) library=musl ;; *) library=gnu ;; esac
    file=$(find "$dist" -name "redis-lock-*-$machine-unknown-linux-$library.tar.gz" | head -n 1)
    printf '\n==> %s, %s\n' "$name" "${file##*/}"
    if [ -z "$file" ]; then
        echo 'no tarball for it'
        failed=1
    elif ! has "$base"; then
        echo "$base cannot be had"
        failed=1
    elif ! test/run.sh "$file" "$base" </dev/null; then
        failed=1
    fi
done <.bases
exit "$failed"
