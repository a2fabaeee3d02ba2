#!/bin/sh
# Checks and tests what is built on the Go client, on real servers: redsync's API (a package of the client's module),
# gocron's Locker and Elector, OpenTelemetry, and rueidis (modules of their own, with what their go.mod and go.sum pin). FORM=short: without staticcheck and the race detector.
set -eu
cd "$(dirname -- "$0")"

for folder in redsync gocron otel rueidis; do
    printf '%s\n' "$folder"
    (
        cd "$folder"
        unformatted=$(gofmt -l .)
        [ -z "$unformatted" ] || { echo "gofmt: $unformatted" >&2; exit 1; }
        go vet -mod=readonly ./...
        race=
        [ "${FORM:-}" = short ] || { ../staticcheck.sh && race=-race; }
        go test -mod=readonly $race -count=1 -parallel 4 -timeout 5m -v ./...
    )
done
