#!/bin/sh
# Tests the Go client with the versions that go.mod and go.sum pin.
set -eu
cd "$(dirname -- "$0")"

go vet -mod=readonly ./...
# `go test` takes a result of before for one of now, unless it is told a count.
exec go test -mod=readonly -count=1 -timeout 5m -v ./redislock
