#!/bin/sh
# Tests the Java client with the newest of its libraries, then the oldest in short form; and the package, installed
# from the built file into an empty project.
set -eu
cd "$(dirname -- "$0")"

mvn -B -ntp package
mvn -B -ntp -Djedis.version=4.0.0 -Dlettuce.version=6.3.0.RELEASE -Dtest=HoldingTest,WaitingTest surefire:test
exec tests/package.sh
