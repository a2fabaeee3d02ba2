#!/bin/sh
# Checks and tests redis-lock. FORM=short: the basics, in one shell.
set -eu
cd "$(dirname -- "$0")"
if command -v shellcheck >/dev/null; then
    shellcheck redis-lock run.sh trial/start
else
    echo 'shellcheck is not installed: left out'
fi
if command -v mandoc >/dev/null; then
    mandoc -T lint -W warning redis-lock.1
else
    echo 'mandoc is not installed: left out'
fi
if [ "${FORM:-}" = short ]; then
    SHELLS=${SHELLS:-sh}
    export SHELLS
    exec tests/run.sh basic
fi
exec tests/run.sh "$@"
