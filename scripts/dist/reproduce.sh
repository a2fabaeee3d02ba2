#!/bin/sh
# Builds again from a copy of the sources in another folder, with the tools in another folder and empty caches. The
# result must be byte for byte what build.sh left in target/dist.
#
# usage: reproduce.sh [target ...]    without one all that were built
set -eu
. "$(dirname -- "$0")/common.sh"
cd "$root"

[ $# -gt 0 ] || eval "set -- $(built | tr '\n' ' ')"
[ $# -gt 0 ] || die "nothing is in $dist: make dist"

again=$target/again/elsewhere
trap 'rm -rf "$target/again"' EXIT
trap 'exit 130' INT TERM
rm -rf "$target/again"
mkdir -p "$again/target/tools"
git ls-files -z | xargs -0 cp --parents --target-directory "$again"
cp -al "$zig" "$again/target/tools/"
rm -rf "$again/target/tools/zig/cache"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)} env -u CARGO_TARGET_DIR \
    "$again/scripts/dist/build.sh" "$@" >/dev/null
cd "$again/target/dist"
for name; do
    name=$(name_of "$name")
    for archive in "$name" "$name-debug"; do
        cmp "$archive.tar.gz" "$dist/$archive.tar.gz" || die "$archive.tar.gz is not reproduced"
        say "reproduced: $(sha256sum "$archive.tar.gz")"
    done
done
