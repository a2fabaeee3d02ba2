#!/bin/sh
# Checks and tests what is built on the Go client: redsync's API (a package of the client's module), and gocron's
# Locker and Elector (a module of its own), each on real servers, with the versions that its go.mod and go.sum pin.
set -eu
cd "$(dirname -- "$0")"

if ! command -v go >/dev/null; then
    echo "Go's adapters left out, for want of go"
    exit
fi
for folder in redsync gocron; do
    printf '%s\n' "$folder"
    (
        cd "$folder"
        unformatted=$(gofmt -l .)
        [ -z "$unformatted" ] || { echo "gofmt: $unformatted" >&2; exit 1; }
        go vet -mod=readonly ./...
        ../staticcheck.sh
        go test -mod=readonly -race -count=1 -parallel 4 -timeout 5m -v ./...
    )
done
