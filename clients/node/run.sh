#!/bin/sh
# Checks, builds and tests the Node client in the ignored folder node_modules, with what package-lock.json pins.
# FORM=short: a part of the tests; modules that are here are kept.
set -eu
cd "$(dirname -- "$0")"

if [ "${FORM:-}" != short ] || [ ! -d node_modules ]; then
    ../../scripts/building.sh npm ci --silent --no-audit --no-fund
fi
rm -rf build
../../scripts/building.sh npx --no-install tsc
if [ "${FORM:-}" = short ]; then
    cd build/tests
    exec node --expose-gc --test --test-concurrency=3 --test-reporter=spec \
        state/*.test.js layers.test.js testing.test.js examples.test.js locks.test.js
fi
exec npm test --silent
