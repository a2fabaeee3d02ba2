#!/bin/sh
# Downloads the files of a release and checks that this project's workflow has built them from the tag. Anybody can run
# it: it needs gh, but no rights. usage: download.sh <tag> <folder>
set -eu
. "$(dirname -- "$0")/../lib.sh"

[ $# = 2 ] || die "usage: download.sh <tag> <folder>"
repository=redis-lock/redis-lock
mkdir -p "$2"
cd "$2"
gh release download "$1" --repo $repository --clobber
sha256sum --quiet --check SHA256SUMS
# The checksums are of all files, so one signature speaks for all; each is in the statement besides.
while read -r _ file; do
    gh attestation verify "$file" --repo $repository --bundle provenance.sigstore.json \
        --signer-workflow $repository/.github/workflows/release.yml --source-ref "refs/tags/$1" >/dev/null
    echo "$file: made by the release workflow of $1"
done <SHA256SUMS
