#!/bin/sh
# Tests the Python programs in the ignored folder .venv, with what requirements.txt pins.
set -eu
cd "$(dirname -- "$0")"

[ -x .venv/bin/python ] || python3 -m venv .venv
../../scripts/building.sh .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
export PYTHONPATH="$PWD/../../clients/python/src"
export EXAMPLE_PROGRAM="examples/python/.venv/bin/python examples/python/programs.py"
exec cargo test --quiet --workspace --test programs
