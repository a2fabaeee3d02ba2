#!/bin/sh
# Tests the Go helper and programs, with the versions that go.mod and go.sum pin. Needs a built
# module (make build).
set -u
cd "$(dirname -- "$0")" || exit 1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0

# `go test` takes a result of before for one of now, unless it is told a count.
if go build -mod=readonly -o bin/program ./program && go vet ./...; then
    go test -mod=readonly -count=1 -timeout 5m -v ./redislock >"$log" 2>&1 || status=1
    grep -E '^(--- |ok|FAIL|panic)|_test.go:' "$log"
    EXAMPLE_PROGRAM=clients/go/bin/program cargo test --manifest-path ../../Cargo.toml \
        -p examples-rust --test programs >"$log.programs" 2>&1 || status=1
    cat "$log.programs"
    cat "$log.programs" >>"$log"
    rm -f "$log.programs"
else
    status=1
fi

# Go says `--- PASS: Name`, cargo `test name ... ok`.
passed=$(grep -cE '^--- PASS|^test .* \.\.\. ok' "$log")
failed=$(grep -cE '^--- FAIL|^test .* \.\.\. FAILED' "$log")
echo "$passed passed, $failed failed"
exit "$status"
