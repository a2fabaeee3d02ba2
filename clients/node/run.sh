#!/bin/sh
# Checks, builds and tests the Node client in the ignored folder node_modules, with what package-lock.json pins.
# LONG=1 in the environment tests more rounds.
set -eu
cd "$(dirname -- "$0")"

npm ci --silent --no-audit --no-fund
rm -rf build
npx --no-install tsc
exec npm test --silent
