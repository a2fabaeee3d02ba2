#!/bin/sh
# Runs staticcheck on all packages of the module here, in a version that checks Go 1.26 and later. It is fetched once.
set -eu

version=v0.8.2 # https://github.com/dominikh/go-tools/releases
kept=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)/target/tools/staticcheck-$version
[ -x "$kept/staticcheck" ] || GOBIN=$kept go install "honnef.co/go/tools/cmd/staticcheck@$version" || :
if [ -x "$kept/staticcheck" ]; then
    exec "$kept/staticcheck" ./...
fi
echo "staticcheck left out, for want of a network to fetch it"
