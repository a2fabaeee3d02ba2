#!/bin/sh
# Checks and tests the Go client with the versions that go.mod and go.sum pin.
set -eu
cd "$(dirname -- "$0")"

unformatted=$(gofmt -l .)
[ -z "$unformatted" ] || { echo "gofmt: $unformatted" >&2; exit 1; }
go vet -mod=readonly ./...
# Where it is there: go install honnef.co/go/tools/cmd/staticcheck@latest
staticcheck=$(go env GOPATH)/bin/staticcheck
! [ -x "$staticcheck" ] || "$staticcheck" ./...
# `go test` takes a result of before for one of now, unless it is told a count.
exec go test -mod=readonly -race -count=1 -parallel 6 -timeout 5m -v ./...
