#!/bin/sh
# Builds the images of a release with podman, for each architecture, from the tarballs of make dist, and pushes them.
#
# usage: images.sh <folder of the tarballs> <file for the digests> [push]
#        images.sh names      those of the list, for a workflow
#        REPOSITORY=ghcr.io/redis-lock/redis-lock   ARCHES="amd64 arm64"   BASES=packaging/container/bases.txt
#        ONLY=redis8: one of the list
#        PUSH_OPTIONS="--tls-verify=false"
# The digests are what a signature is made for: name, tag and digest, one image a line. Without push there are none.
set -eu
. "$(dirname -- "$0")/../lib.sh"

bases=${BASES:-$root/packaging/container/bases.txt}
if [ "${1:-}" = names ]; then
    sed -n 's/^\([^# ]*\) .*/"\1"/p' "$bases" | paste -s -d , - | sed 's/.*/[&]/'
    exit
fi
[ $# -ge 2 ] || die "usage: images.sh <folder of the tarballs> <file for the digests> [push]"
dist=$1 digests=$2 push=${3:-}
repository=${REPOSITORY:-ghcr.io/redis-lock/redis-lock}
version=$("$root/scripts/release/version.sh")
digest=$(mktemp)
trap 'rm -f "$digest"' EXIT
: >"$digests"

# The tarball for an architecture and a C library.
tarball() {
    case $1 in amd64) machine=x86_64 ;; arm64) machine=aarch64 ;; *) die "images.sh: no such architecture: $1" ;; esac
    file=$dist/redis-lock-$version-$machine-unknown-linux-$2.tar.gz
    [ -e "$file" ] || die "images.sh: no $file"
    printf '%s\n' "$file"
}

latest=latest
grep -v '^#' "$bases" | {
    while read -r name base; do
        if [ "${ONLY:-$name}" != "$name" ]; then
            latest=''
            continue
        fi
        case $name in *-alpine) library=musl ;; *) library=gnu ;; esac
        all=$repository:$version-$name
        podman manifest rm "$all" >/dev/null 2>&1 || :
        podman manifest create "$all" >/dev/null
        for arch in ${ARCHES:-amd64 arm64}; do
            file=$(tarball "$arch" "$library")
            ENGINE=podman BUILD_OPTIONS="--platform linux/$arch" \
                "$root/packaging/container/build.sh" "$file" "$base" "$all-$arch" >/dev/null
            podman manifest add "$all" "containers-storage:$all-$arch" >/dev/null
        done
        if [ "$push" = push ]; then
            # A tag that says the version stays; the others go with the releases.
            for tag in "$version-$name" "$name" $latest; do
                # shellcheck disable=SC2086 # a list of options
                podman manifest push --all ${PUSH_OPTIONS:-} --digestfile "$digest" "$all" "docker://$repository:$tag" >&2
            done
            printf '%s %s %s\n' "$repository" "$version-$name" "$(cat "$digest")" >>"$digests"
        fi
        latest=''
        say "$all: ${ARCHES:-amd64 arm64}"
    done
}
