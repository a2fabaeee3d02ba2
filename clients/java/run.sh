#!/bin/sh
# Tests the Java client with the newest of its libraries, then with the oldest (LONG=1: all tests); and the package,
# installed from the built file into an empty project. FORM=short: a part of the tests, with the newest libraries.
set -eu
cd "$(dirname -- "$0")"

if [ "${FORM:-}" = short ]; then
    ../../scripts/building.sh mvn -B -ntp -DskipTests package
    exec mvn -B -ntp -Dtest='WaitsTest,GrantsTest,ReleasesTest,ErrorsTest,JavadocTest,LocksTest,StandInTest' surefire:test
fi
oldest=LocksTest
[ -z "${LONG:-}" ] || oldest='*Test'
mvn -B -ntp package
mvn -B -ntp -Djedis.version=4.0.0 -Dlettuce.version=6.3.0.RELEASE -Dtest="$oldest" surefire:test
exec tests/package.sh
