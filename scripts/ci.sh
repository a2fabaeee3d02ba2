#!/bin/sh
# Runs .ci/run in a fresh clone of HEAD, target/ci/clone, as CI does. If everything passes, target/ci/passed names the
# commit. Refuses to run with uncommitted changes, because the clone would not contain them.
set -eu
. "$(dirname -- "$0")/lib.sh"
cd "$root"

kept=$root/target/ci
clone=$kept/clone
changed=$(git status --porcelain)
[ -z "$changed" ] || die "make ci runs what is committed, and this is not:
$changed"
commit=$(git rev-parse HEAD)
rm -rf "$clone" "$kept/passed"
mkdir -p "$kept"
git clone --quiet "$root" "$clone"
git -C "$clone" checkout --quiet --detach "$commit"
say "running .ci/run of $commit in target/ci/clone"
# Nothing of this folder, nor of the make that runs this, is in the way.
env -u CARGO_TARGET_DIR -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u REDIS_LOCK_MODULE -u REDIS_SERVER -u TESTBED \
    CI=true bash "$clone/.ci/run"
printf '%s\n' "$commit" >"$kept/passed"
rm -rf "$clone"
say "passed: $commit"
