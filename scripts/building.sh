#!/bin/sh
# Runs a command that builds or fetches something. In .ci/run its milliseconds are added to the file BUILD_TIMES, so that
# the time of a build is told apart from the time of the tests.
#
# usage: [BUILD_TIMES=file] building.sh command...
[ -n "${BUILD_TIMES:-}" ] || exec "$@"
began=$(date +%s%3N)
status=0
"$@" || status=$?
echo $(($(date +%s%3N) - began)) >>"$BUILD_TIMES"
exit $status
170189
