#!/bin/sh
# Tests the Go programs with the versions that go.mod and go.sum pin. FORM=short: SQLite is compiled in a sixth of the
# time, without optimisation.
set -eu
cd "$(dirname -- "$0")"

[ "${FORM:-}" != short ] || export CGO_CFLAGS=-O0
go vet -mod=readonly .
../../scripts/building.sh go build -mod=readonly -o bin/programs .
export EXAMPLE_PROGRAM=examples/go/bin/programs
exec cargo test --quiet --workspace --test programs
