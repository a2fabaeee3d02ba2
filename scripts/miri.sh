#!/bin/sh
# Runs the unit tests of the core and of the module in Miri, which finds undefined behaviour. Miri cannot run a server,
# so sanitize.sh covers the code that calls one. `cfg(miri)` shortens or skips tests with thousands of steps. The core's
# property tests are skipped, because the core has no unsafe code and they take longest.
#
# usage: miri.sh                   run them
#        FORM=short miri.sh        only those of the module: all unsafe code is there
#        miri.sh here              only report by the exit status whether Miri is installed
set -eu
. "$(dirname -- "$0")/lib.sh"
cd "$root"

is_here() { cargo +nightly miri --version >/dev/null 2>&1; }

case ${1:-} in
    here) is_here && exit || exit 1 ;;
    '') is_here || die "missing: a nightly Rust with Miri - run: rustup toolchain install nightly --component miri,rust-src" ;;
    *) die "usage: miri.sh [here]" ;;
esac

core='--package redis-lock-core'
[ "${FORM:-}" != short ] || core=

# Allows proptest to look for its file of earlier failures.
# shellcheck disable=SC2086 # two words or none
MIRIFLAGS="-Zmiri-disable-isolation ${MIRIFLAGS:-}" \
    cargo +nightly miri test --lib --package redis-lock $core --features system-allocator \
    --target-dir "${CARGO_TARGET_DIR:-target}/miri" -- --skip properties -Z unstable-options --report-time
