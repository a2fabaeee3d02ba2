#!/bin/sh
# Tests the Java programs, on Jedis and on Lettuce, with the versions that pom.xml names.
# They take the client from the local Maven repository.
set -eu
cd "$(dirname -- "$0")"

mvn -B -ntp -DskipTests -f ../../clients/java/pom.xml install
mvn -B -ntp compile dependency:build-classpath -DincludeScope=runtime -Dmdep.outputFile=target/classpath
for client in jedis lettuce; do
    printf '\n==> programs on %s\n' "$client"
    EXAMPLE_PROGRAM="examples/java/program $client" cargo test --package examples-rust --test programs || failed=true
done
! ${failed:-false}
