#!/bin/sh
# Runs a command that builds or fetches something. In .ci/run its milliseconds are added to the file BUILDING, so that
# the time of a build is told apart from the time of the tests.
#
# usage: [BUILDING=file] building.sh command...
[ -n "${BUILDING:-}" ] || exec "$@"
began=$(date +%s%3N)
status=0
"$@" || status=$?
echo $(($(date +%s%3N) - began)) >>"$BUILDING"
exit $status
