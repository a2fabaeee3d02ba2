#!/bin/sh
# Tests the Python examples in the ignored folder .venv, with what requirements.txt pins.
set -eu
cd "$(dirname -- "$0")"

[ -x .venv/bin/python ] || python3 -m venv .venv
../../scripts/building.sh .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
export PYTHONPATH="$PWD/../../clients/python/src"
exec ../run.sh "examples/python/.venv/bin/python examples/python/{}.py" stock submit cron leader semaphore
