#!/bin/sh
# Tests the Java programs, on Jedis and on Lettuce, with the versions that pom.xml names.
# They take the client from a Maven repository of this checkout.
set -eu
cd "$(dirname -- "$0")"

repository=$(../../clients/java/tests/repository.sh)
mvn -B -ntp -Dmaven.repo.local="$repository" -DskipTests -f ../../clients/java/pom.xml install
mvn -B -ntp -Dmaven.repo.local="$repository" compile dependency:build-classpath -DincludeScope=runtime -Dmdep.outputFile=target/classpath
for client in jedis lettuce; do
    printf '\n==> programs on %s\n' "$client"
    EXAMPLE_PROGRAM="examples/java/program $client" cargo test --quiet --workspace --test programs || failed=true
done
! ${failed:-false}
