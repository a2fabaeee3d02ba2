#!/bin/sh
# Tests the Java examples with the versions that pom.xml names. They take the client from a Maven repository of this
# checkout.
set -eu
cd "$(dirname -- "$0")"

repository=$(../../clients/java/tests/repository.sh)
../../scripts/building.sh mvn -B -ntp -Dmaven.repo.local="$repository" -DskipTests -f ../../clients/java/pom.xml install
../../scripts/building.sh mvn -B -ntp -Dmaven.repo.local="$repository" compile dependency:build-classpath -DincludeScope=runtime -Dmdep.outputFile=target/classpath
# They live for seconds: to optimise them would cost more than it saves.
JAVA_TOOL_OPTIONS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
CLASSPATH="examples/java/target/classes:$(cat target/classpath)"
export JAVA_TOOL_OPTIONS CLASSPATH
exec ../run.sh "java examples.{Job}" stock leader read_write fenced
