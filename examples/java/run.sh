#!/bin/sh
# Tests the Java programs, on Jedis and on Lettuce, with the versions that pom.xml names.
# FORM=short: on Lettuce alone. They take the client from a Maven repository of this checkout.
set -eu
cd "$(dirname -- "$0")"

repository=$(../../clients/java/tests/repository.sh)
../../scripts/building.sh mvn -B -ntp -Dmaven.repo.local="$repository" -DskipTests -f ../../clients/java/pom.xml install
../../scripts/building.sh mvn -B -ntp -Dmaven.repo.local="$repository" compile dependency:build-classpath -DincludeScope=runtime -Dmdep.outputFile=target/classpath
clients='jedis lettuce'
[ "${FORM:-}" != short ] || clients=lettuce
for client in $clients; do
    printf '\n==> programs on %s\n' "$client"
    EXAMPLE_PROGRAM="examples/java/program $client" cargo test --quiet --workspace --test programs || failed=true
done
! ${failed:-false}
