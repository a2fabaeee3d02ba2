#!/bin/sh
# Runs the test suite of a server's release with the module loaded. Runs failed tests again, with and without the
# module. A test that fails both times with the module, but passes without it, is a failure.
#
# usage: [UNITS="unit/expire ..."] server-suite.sh folder
#   folder: the source of a Redis or a Valkey; the server is built there, unless it is already
set -eu
. "$(dirname -- "$0")/lib.sh"

[ $# -eq 1 ] || die 'usage: [UNITS="unit/expire ..."] server-suite.sh folder'
module=${REDIS_LOCK_MODULE:-$(module_path)}
[ -e "$module" ] || die "no module at $module: make build"
has tclsh || has tclsh8.6 || die 'the suite needs Tcl (Debian: apt-get install tcl)'
cd "$1" || die "no folder $1"
[ -x runtest ] || die "$1 is not the source of a server: it has no runtest"
cores=$(getconf _NPROCESSORS_ONLN)
if ! [ -x src/redis-server ] && ! [ -x src/valkey-server ]; then
    make -j "$cores" >build.log 2>&1 || die "the server does not build: $PWD/build.log"
fi

# run log with|without [units...]: the names of the tests that fail, one a line
run() {
    log=$PWD/$1.log
    how=$2
    shift 2
    words=
    for unit in "$@"; do words="$words --single $unit"; done
    [ "$how" = without ] || words="$words --config loadmodule $module"
    # shellcheck disable=SC2086 # words
    if ./runtest --clients "$cores" $words >"$log" 2>&1; then return; fi
    # At its end the suite repeats each name, in colours.
    escape=$(printf '\033')
    failed=$(sed "s/$escape\[[0-9;]*m//g" "$log" | sed -n 's/^\*\*\* *//p' | sort -u)
    [ -n "$failed" ] || die "the suite was not run to its end: $log"
    printf '%s\n' "$failed"
}

# shellcheck disable=SC2086 # names of units
run suite with ${UNITS:-} >failed
if ! [ -s failed ]; then
    say 'all tests passed with the module'
    exit
fi
say 'failed with the module:'
sed 's/^/  /' failed >&2
units=$(sed -n 's|.* in tests/\(.*\)\.tcl.*|\1|p' failed | sort -u)
[ -n "$units" ] || die "no unit is named: $PWD/suite.log"
# shellcheck disable=SC2086 # as above
run again with $units >failed-again
# shellcheck disable=SC2086 # as above
run without without $units >failed-without
faults=$(grep -Fx -f failed failed-again | grep -Fvx -f failed-without || :)
[ -z "$faults" ] || die "failed again with the module, and not without it:
$faults"
say 'passed once more, or failed without the module too'
