#!/bin/sh
# Checks and tests the Go client with the versions that go.mod and go.sum pin, by the two latest Go. LONG=1: the long
# forms of the tests too, and all of them by both; else the other Go runs the shortest. FORM=short: only the shortest,
# by the Go that is here. adapters.sh tests what is built on the client.
set -eu
cd "$(dirname -- "$0")"

# The two latest. One that is not here is fetched.
go126=go1.26.8
go127=go1.27.4

unformatted=$(gofmt -l .)
[ -z "$unformatted" ] || { echo "gofmt: $unformatted" >&2; exit 1; }
go vet -mod=readonly ./...
shortest='TestTakes|TestWaits|TestALoss|Example'
if [ "${FORM:-}" = short ]; then
    exec go test -mod=readonly -count=1 -parallel 6 -timeout 5m -v -run "$shortest" .
fi
./staticcheck.sh

# `go test` takes a result of before for one of now, unless it is told a count.
check() { go test -mod=readonly -race -count=1 -parallel 6 -timeout 5m -v "$@" . ./internal/... ./redislocktest ./trial; }
check

case $(go env GOVERSION) in go1.26*) other=$go127 ;; *) other=$go126 ;; esac
export GOTOOLCHAIN=$other
if ! go version >/dev/null 2>&1; then
    echo "$other left out, for want of a network to fetch it"
    exit
fi
if [ "${LONG:-0}" = 1 ]; then
    check
else
    check -run "$shortest"
fi
echo "also tested with $other"
