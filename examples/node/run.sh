#!/bin/sh
# Tests the Node examples in the ignored folder node_modules, with what package-lock.json pins.
# FORM=short: modules that are here are kept.
set -eu
cd "$(dirname -- "$0")"

install() {
    [ "${FORM:-}" = short ] && [ -d node_modules ] || "$building" npm ci --silent --no-audit --no-fund
}
building=$PWD/../../scripts/building.sh

install
# The client is a dependency by its folder, which has to be built.
(cd ../../clients/node && install && rm -rf dist && npm run --silent build)
exec ../run.sh "node examples/node/{}.mjs" submit cron semaphore fenced
