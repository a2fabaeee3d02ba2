#!/bin/sh
# Tests the Go programs with the versions that go.mod and go.sum pin.
set -eu
cd "$(dirname -- "$0")"

go vet -mod=readonly .
go build -mod=readonly -o bin/programs .
export EXAMPLE_PROGRAM=examples/go/bin/programs
exec cargo test --quiet --workspace --test programs
