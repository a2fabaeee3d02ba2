#!/bin/sh
# Packs the client and tests its adapters as users get them: the NestJS module, metrics, and the API of node-redlock.
# usage: [KEEP_MODULES=1] [FORM=short] adapters.sh [TEST ...]
#        TEST, such as redlock, for tests/adapters/redlock.test.ts; by default all, with FORM=short those without faults
#        KEEP_MODULES=1: modules that are here are kept, as in the short form
set -eu
cd "$(dirname -- "$0")"

if [ "${FORM:-}" = short ]; then
    [ ! -d node_modules ] || KEEP_MODULES=1
    [ $# -gt 0 ] || set -- nestjs otel redlock
fi
[ "${KEEP_MODULES:-0}" = 1 ] || ../../scripts/building.sh npm ci --silent --no-audit --no-fund
packed=build/packed
rm -rf "$packed"
mkdir -p "$packed/node_modules/redis-lock-client"
npm pack --silent --pack-destination "$packed" >/dev/null
tar xzf "$packed"/redis-lock-client-*.tgz -C "$packed/node_modules/redis-lock-client" --strip-components 1
printf '{ "private": true, "type": "module" }\n' >"$packed/package.json"
mkdir "$packed/tests"
cp -r tests/adapters "$packed/tests/"
cp tests/servers.ts "$packed/tests/"
cp tests/adapters/tsconfig.json "$packed/"
npx --no-install tsc --project "$packed"

for name; do
    shift
    set -- "$@" "$packed/out/adapters/$name.test.js"
done
[ $# -gt 0 ] || set -- "$packed"/out/adapters/
exec node --test --test-timeout=120000 --test-concurrency=2 --test-reporter=spec "$@"
