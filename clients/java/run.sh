#!/bin/sh
# Tests the Java helper and programs, on Jedis and on Spring Data Redis with Lettuce, with the
# versions that pom.xml names. Needs a built module (make build).
set -u
cd "$(dirname -- "$0")" || exit 1
log=$(mktemp)
trap 'rm -f "$log" "$log.now"' EXIT
status=0

# Runs a command, shows what it says and keeps it.
run() {
    "$@" >"$log.now" 2>&1 || status=1
    cat "$log.now"
    cat "$log.now" >>"$log"
}

run mvn -B -ntp test dependency:build-classpath -DincludeScope=runtime -Dmdep.outputFile=target/classpath
if [ -f target/classpath ]; then
    for client in jedis spring; do
        printf '\n==> programs on %s\n' "$client"
        export EXAMPLE_PROGRAM="clients/java/program $client"
        run cargo test --manifest-path ../../Cargo.toml -p examples-rust --test programs
    done
fi

# Maven says `Tests run: 2, Failures: 1, Errors: 0, Skipped: 0` for each class (`-- in`) and for all,
# cargo `test name ... ok`.
awk '/Tests run:/ && !/ -- in / {
        gsub(",", "")
        for (i = 1; i < NF; i++) {
            if ($i == "run:") passed += $(i + 1)
            if ($i ~ /^(Failures|Errors|Skipped):$/) { failed += $(i + 1); passed -= $(i + 1) }
        }
    }
    /^test .* \.\.\. ok/ { passed++ }
    /^test .* \.\.\. FAILED/ { failed++ }
    END { printf "%d passed, %d failed\n", passed, failed }' "$log"
exit "$status"
