#!/bin/sh
# Types the first program of each adapter's README.md into an empty project, as a user would, and runs it there, with the
# files that ../adapters.sh has built. Usage: adapters.sh BOOT_3 BOOT_4, the versions of Spring Boot.
set -eu
cd "$(dirname -- "$0")/.."
folder=$(mktemp -d)
trap 'kill "${program:-}" "$bed" 2>/dev/null || true; rm -rf "$folder"' EXIT

mkfifo "$folder/orders"
${TESTBED:-cargo run --quiet --package testbed --} serve <"$folder/orders" >"$folder/answers" &
bed=$!
exec 3>"$folder/orders"
echo '{"do":"server"}' >&3

# Waits until a file has a line with this pattern.
wait_for() {
    tries=0
    until grep -q "$1" "$2" 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || { echo "$2 has no line $1:" >&2; cat "$2" >&2; exit 1; }
        sleep 0.1
    done
}

wait_for port "$folder/answers"
port=$(sed 's/.*"port":\([0-9]*\).*/\1/' "$folder/answers")
repository=$(tests/repository.sh)
install() {
    to=$repository/io/github/redis-lock/$1/0.3.0
    mkdir -p "$to"
    cp "$2/pom.xml" "$to/$1-0.3.0.pom"
    [ "$1" = redis-lock-adapters ] || cp "$2/target/$1-0.3.0.jar" "$to/"
}
install redis-lock-adapters adapters
install redis-lock-client .
for name in micrometer shedlock spring-integration spring-boot-starter; do
    install "redis-lock-$name" "adapters/$name"
done

block() {
    sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/p" "$2" | sed '1d;/^```$/,$d' | sed "s/6379/$port/"
}

# The program of an adapter, with this parent: it compiles, starts, and prints a line.
types() {
    readme=adapters/$1/README.md class=$2 line=$3 boot=${4:-}
    project=$folder/$1$boot
    source=$project/src/main/java/$(echo "$class" | tr . /).java
    mkdir -p "${source%/*}" "$project/src/main/resources"
    block java "$readme" >"$source"
    block properties "$readme" >"$project/src/main/resources/application.properties"
    echo server.port=0 >>"$project/src/main/resources/application.properties"
    {
        echo '<project><modelVersion>4.0.0</modelVersion>'
        [ -z "$boot" ] || echo '<parent><groupId>org.springframework.boot</groupId>' \
            "<artifactId>spring-boot-starter-parent</artifactId><version>$boot</version></parent>"
        echo '<groupId>shop</groupId><artifactId>shop</artifactId><version>1</version>'
        echo '<properties><maven.compiler.release>17</maven.compiler.release></properties><dependencies>'
        block xml "$readme"
        echo '</dependencies>'
        [ -n "$boot" ] || echo '<build><plugins><plugin><artifactId>maven-resources-plugin</artifactId><version>3.3.1</version>' \
            '</plugin><plugin><artifactId>maven-compiler-plugin</artifactId><version>3.15.0</version></plugin></plugins></build>'
        echo '</project>'
    } >"$project/pom.xml"
    mvn -q -B -ntp -Dmaven.repo.local="$repository" -f "$project/pom.xml" compile \
        org.apache.maven.plugins:maven-dependency-plugin:3.10.0:build-classpath -Dmdep.outputFile="$project/classpath"
    java -cp "$project/target/classes:$(cat "$project/classpath")" "$class" >"$project/printed" 2>&1 &
    program=$!
    wait_for "$line" "$project/printed"
    if [ "$class" = shop.Shop ]; then
        at=$(sed -n 's/.*Tomcat started on port \([0-9]*\).*/\1/p' "$project/printed")
        curl -sS -X POST "http://127.0.0.1:$at/orders/42/pay" | grep '^paid, fenced with [0-9]\{16\}$'
        ! grep -E 'WARN|ERROR' "$project/printed"
    fi
    kill "$program" 2>/dev/null || true
    wait "$program" 2>/dev/null || true
    echo "the program of $readme runs${boot:+ with Spring Boot $boot}"
}

types micrometer Measured '1 acquire was measured'
for boot; do
    types spring-boot-starter shop.Shop 'Started Shop' "$boot"
    types shedlock Jobs 'one node writes the report' "$boot"
    types spring-integration Flows 'a pair, by one node' "$boot"
done
