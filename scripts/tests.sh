#!/bin/sh
# Runs the tests that these words name by cargo-nextest, as .config/nextest.toml says, on the module that
# was built. SEED=n repeats the random choices of an earlier run.
#
# usage: tests.sh [words for cargo nextest run...]
set -eu
. "$(dirname -- "$0")/lib.sh"

"$tools/setup.sh" nextest
# Most of a test's time it waits for a server: five for each core.
export NEXTEST_TEST_THREADS="${NEXTEST_TEST_THREADS:-$((5 * $(getconf _NPROCESSORS_ONLN)))}"
# Each test is a process, and would look after the module's build by itself.
export REDIS_LOCK_MODULE="${REDIS_LOCK_MODULE:-$(module_path)}"
[ -z "${SEED:-}" ] || export PROPTEST_RNG_SEED="$SEED"
[ -z "${BUILD_TIMES:-}" ] || "$tools/building.sh" cargo nextest run --no-run "$@"
exec cargo nextest run "$@"
