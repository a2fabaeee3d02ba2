#!/bin/sh
# Tests the image on each base of bases.txt, as far as its registry can be reached, on this machine's architecture.
# usage: test/all.sh <folder of the tarballs>
set -eu
cd "$(dirname -- "$0")/.."
dist=$(CDPATH='' cd -- "${1:?"usage: test/all.sh <folder of the tarballs>"}" && pwd)
machine=$(uname -m)
failed=0
grep -v '^#' bases.txt >.bases
trap 'rm -f .bases' EXIT
while read -r name base; do
    case $name in *-alpine) library=musl ;; *) library=gnu ;; esac
    file=$(find "$dist" -name "redis-lock-*-$machine-unknown-linux-$library.tar.gz" | head -n 1)
    printf '\n==> %s, %s\n' "$name" "${file##*/}"
    if [ -z "$file" ]; then
        echo 'no tarball for it'
        failed=1
    elif ! podman pull --quiet "$base" </dev/null; then
        echo "$base cannot be had"
        failed=1
    elif ! test/run.sh "$file" "$base" </dev/null; then
        failed=1
    fi
done <.bases
exit "$failed"
