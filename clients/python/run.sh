#!/bin/sh
# Tests the Python clients in the ignored folder .venv, with what requirements.txt pins.
set -eu
cd "$(dirname -- "$0")"

[ -x .venv/bin/python ] || python3 -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
exec .venv/bin/python -m pytest -q -p no:cacheprovider tests
