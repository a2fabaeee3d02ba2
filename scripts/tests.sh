#!/bin/sh
# Runs the given tests with cargo-nextest (.config/nextest.toml) on the module that was built. SEED=n repeats the random
# choices of an earlier run.
#
# usage: tests.sh [words for cargo nextest run...]
set -eu
. "$(dirname -- "$0")/lib.sh"

"$tools/setup.sh" nextest
# Run five tests for each core, because a test mostly waits for a server.
export NEXTEST_TEST_THREADS="${NEXTEST_TEST_THREADS:-$((5 * $(getconf _NPROCESSORS_ONLN)))}"
# Set the module here, because otherwise each test process would check by itself whether the module is built.
export REDIS_LOCK_MODULE="${REDIS_LOCK_MODULE:-$(module_path)}"
[ -z "${SEED:-}" ] || export PROPTEST_RNG_SEED="$SEED"
[ -z "${BUILD_TIMES:-}" ] || "$tools/building.sh" cargo nextest run --no-run "$@"
exec cargo nextest run "$@"
