#!/bin/sh
# Checks that a release may have this tag: the version, all files that repeat it, the changelog and the changelogs of
# the clients must agree. usage: check.sh <tag>
set -eu
. "$(dirname -- "$0")/../lib.sh"
here=$root/scripts/release

tag=${1:?"usage: check.sh <tag>"}
version=$("$here/version.sh")
[ "$tag" = "v$version" ] || die "the tag is $tag, and the version in Cargo.toml $version"
"$here/version.sh" check
[ -n "$("$here/notes.sh" "$tag")" ] || die "CHANGELOG.md has no section '## [$version] - <date>' with notes"
for changelog in "$root"/clients/*/CHANGELOG.md; do
    grep -qE "^## \[?$version\]?( |$)" "$changelog" || die "$changelog has no section '## $version'"
done
