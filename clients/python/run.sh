#!/bin/sh
# Checks and tests the Python client in the ignored folder .venv, with what requirements.txt pins. LONG=1: the long
# forms of the tests, too. FORM=short: a part of them, without pyright. PYTHON: another Python than python3.
set -eu
cd "$(dirname -- "$0")"

[ -x .venv/bin/python ] || "${PYTHON:-python3}" -m venv .venv
../../scripts/building.sh .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
.venv/bin/mypy
if [ "${FORM:-}" = short ]; then
    set -- tests/test_state_*.py tests/test_threads.py tests/test_asyncio.py tests/test_readme.py tests/test_testing.py tests/test_examples.py
elif command -v node >/dev/null; then
    .venv/bin/pyright
else
    echo 'pyright left out, for want of node'
fi
exec .venv/bin/python -m pytest -q -n 4 --dist worksteal -p no:cacheprovider -o faulthandler_timeout=120 "$@"
