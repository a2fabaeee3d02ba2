#!/bin/sh
# Installs the built file into an empty project, and runs the first screen of README.md there.
set -eu
cd "$(dirname -- "$0")/.."
folder=$(mktemp -d)
trap 'kill "$bed" 2>/dev/null || true; rm -rf "$folder"' EXIT

mkfifo "$folder/orders"
${TESTBED:-cargo run --quiet --package testbed --} serve <"$folder/orders" >"$folder/answers" &
bed=$!
exec 3>"$folder/orders"
echo '{"do":"server"}' >&3
tries=0
until grep -q port "$folder/answers"; do
    tries=$((tries + 1))
    [ $tries -lt 1200 ] || { echo 'no server' >&2; exit 1; }
    sleep 0.1
done
port=$(sed 's/.*"port":\([0-9]*\).*/\1/' "$folder/answers")

repository=$(tests/repository.sh)
mvn -q -B -ntp -Dmaven.repo.local="$repository" org.apache.maven.plugins:maven-install-plugin:3.1.4:install-file \
    -Dfile=target/redis-lock-client-0.3.0.jar -DpomFile=pom.xml
project=$folder/project
mkdir -p "$project/src/main/java"
sed -n '/^```java$/,/^```$/p' README.md | sed '1d;/^```$/,$d' | sed "s/6379/$port/" >"$project/src/main/java/Shop.java"
sed -n '/^<dependency>$/,/^<\/dependency>$/p' README.md >"$folder/dependency"
{
    echo '<project><modelVersion>4.0.0</modelVersion><groupId>shop</groupId><artifactId>shop</artifactId>'
    echo '<version>1</version><properties><maven.compiler.release>17</maven.compiler.release></properties><dependencies>'
    cat "$folder/dependency"
    echo '<dependency><groupId>redis.clients</groupId><artifactId>jedis</artifactId><version>8.0.2</version></dependency>'
    echo '</dependencies><build><plugins>'
    echo '<plugin><artifactId>maven-resources-plugin</artifactId><version>3.3.1</version></plugin>'
    echo '<plugin><artifactId>maven-compiler-plugin</artifactId><version>3.15.0</version></plugin>'
    echo '<plugin><artifactId>maven-dependency-plugin</artifactId><version>3.10.0</version></plugin>'
    echo '</plugins></build></project>'
} >"$project/pom.xml"
mvn -q -B -ntp -Dmaven.repo.local="$repository" -f "$project/pom.xml" compile dependency:build-classpath -DincludeScope=runtime \
    -Dmdep.outputFile="$folder/classpath"
java -cp "$project/target/classes:$(cat "$folder/classpath")" Shop 2>"$folder/errors" | tee "$folder/printed"
grep -q '^fence writes with [0-9]\{16\}$' "$folder/printed" || { cat "$folder/errors" >&2; exit 1; }
echo 'the package installs, and its first screen runs'
