#!/bin/sh
# Tests the Node client in the ignored folder node_modules, with what package-lock.json pins.
set -eu
cd "$(dirname -- "$0")"

npm ci --silent --no-audit --no-fund
rm -rf dist
npm run --silent build
exec npm test --silent
