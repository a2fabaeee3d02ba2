#!/bin/sh
# Tests the Node programs in the ignored folder node_modules, with what package-lock.json pins.
# FORM=short: modules that are here are kept.
set -eu
cd "$(dirname -- "$0")"

install() {
    [ "${FORM:-}" = short ] && [ -d node_modules ] || "$building" npm ci --silent --no-audit --no-fund
}
building=$PWD/../../scripts/building.sh

# The client is a dependency by its folder, which has to be built.
for folder in ../../clients/node .; do
    (cd "$folder" && install && rm -rf dist && npm run --silent build)
done
export EXAMPLE_PROGRAM="node examples/node/dist/programs.js"
exec cargo test --quiet --workspace --test programs
