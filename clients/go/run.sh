#!/bin/sh
# Checks and tests the Go client with the versions that go.mod and go.sum pin.
set -eu
cd "$(dirname -- "$0")"

unformatted=$(gofmt -l .)
[ -z "$unformatted" ] || { echo "gofmt: $unformatted" >&2; exit 1; }
go vet -mod=readonly ./...
# Linters, where they are there: go install honnef.co/go/tools/cmd/staticcheck, golang.org/x/vuln/cmd/govulncheck.
bin=$(go env GOPATH)/bin
! [ -x "$bin/staticcheck" ] || "$bin/staticcheck" ./...
! [ -x "$bin/govulncheck" ] || "$bin/govulncheck" ./... || echo "govulncheck: see above" >&2
# `go test` takes a result of before for one of now, unless it is told a count.
exec go test -mod=readonly -race -count=1 -parallel 6 -timeout 5m -v ./...
