#!/bin/sh
# Rehearses a release on this machine as far as it goes without sending anything: in a clone, whose changelog gets a
# date if it has none, with a tag. What it takes besides the clients' tools are tarballs in target/dist (make dist),
# for the packages and for the list of files; without them these are left out, which is said.
#
# usage: [LANGUAGES="python node ..."] rehearse.sh
set -eu
. "$(dirname -- "$0")/../lib.sh"

version=$("$root/scripts/release/version.sh")
tag=v$version
work_folder
step() { printf '\n==> %s\n' "$*"; }

step "a clone of what is committed, tagged $tag"
git clone --quiet --depth 1 "file://$root" "$work/clone"
cd "$work/clone"
if ! grep -q "^## \[$version\] - " CHANGELOG.md; then
    sed -i.before "s/^## \[Unreleased\]\$/## [$version] - $(date +%Y-%m-%d)/" CHANGELOG.md
    rm CHANGELOG.md.before
    git -c user.name=rehearsal -c user.email=rehearsal@example.com commit --quiet --all --message "Release $version"
fi
git tag "$tag"
# What is fetched for building is not fetched again.
mkdir -p target
[ ! -d "$root/target/tools" ] || ln -s "$root/target/tools" target/tools
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$root/target}"

step 'check.sh'
scripts/release/check.sh "$tag"
! scripts/release/check.sh v999.0.0 2>/dev/null || die "a wrong tag has passed"
step 'notes.sh'
scripts/release/notes.sh "$tag" >"$work/notes.md"
wc "$work/notes.md"
step 'clients.sh, twice: the same files'
# shellcheck disable=SC2086 # a list of words
scripts/release/clients.sh "$work/clients" ${LANGUAGES:-} >/dev/null
# shellcheck disable=SC2086
scripts/release/clients.sh "$work/again" ${LANGUAGES:-} >/dev/null
diff -r "$work/clients" "$work/again" && echo 'the same'
step 'linux.sh'
from=$work/clients
if ls "$root"/target/dist/redis-lock-"$version"-*-unknown-linux-gnu.tar.gz >/dev/null 2>&1; then
    machines=$(cd "$root/target/dist" && printf "%s\n" redis-lock-"$version"-*-unknown-linux-gnu.tar.gz |
        sed "s/^redis-lock-$version-\(.*\)-unknown.*/\1/" | tr '\n' ' ')
    MACHINES=$machines scripts/release/linux.sh "$root/target/dist" "$work/packages"
    cp "$root"/target/dist/redis-lock-"$version"-*.tar.gz "$work/packages/"
    from="$from $work/packages"
else
    echo "left out: no tarballs in target/dist (make dist)"
fi
step 'files.sh'
# shellcheck disable=SC2086 # folders
PARTIAL=1 scripts/release/files.sh "$work/files" $from
for registry in ${LANGUAGES:-node rust java go}; do
    [ "$registry" != python ] || continue
    step "publish.sh, dry, $registry"
    DRY_RUN=1 scripts/release/publish.sh "$work/files" "$registry" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    tail -n 2 "$work/log"
done
printf x >>"$work/files/redis-lock-client-$version.tgz"
if DRY_RUN=1 scripts/release/publish.sh "$work/files" node >"$work/log" 2>&1; then die "a changed file has passed"; fi
tail -n 1 "$work/log"
printf '\nall of it went well; not rehearsed: what is signed and sent\n'
