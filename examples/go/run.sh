#!/bin/sh
# Tests the Go examples with the versions that go.mod and go.sum pin.
set -eu
cd "$(dirname -- "$0")"

go vet -mod=readonly ./...
../../scripts/building.sh go build -mod=readonly -o bin/ ./...
exec ../run.sh "examples/go/bin/{}" stock leader semaphore fenced
