#!/bin/sh
# Runs a command that builds or fetches something. In .ci/run its time in milliseconds is appended to the file
# BUILD_TIMES, so that the time of builds can be reported separately from the time of tests.
#
# usage: [BUILD_TIMES=file] building.sh command...
[ -n "${BUILD_TIMES:-}" ] || exec "$@"
began=$(date +%s%3N)
status=0
"$@" || status=$?
echo $(($(date +%s%3N) - began)) >>"$BUILD_TIMES"
exit $status
170189
