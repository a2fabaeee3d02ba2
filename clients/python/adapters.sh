#!/bin/sh
# Tests the adapters of the Python client through their frameworks, as they are installed from the built wheel, in the
# ignored folder .venv, with what requirements.txt pins. PYTHON: another Python than python3.
set -eu
cd "$(dirname -- "$0")"

[ -x .venv/bin/python ] || "${PYTHON:-python3}" -m venv .venv
pip='.venv/bin/python -m pip --quiet --disable-pip-version-check'
$pip install --require-hashes -r requirements.txt
.venv/bin/mypy

built=$(mktemp -d)
trap 'rm -rf "$built"; $pip uninstall --yes redis-lock-client' EXIT
.venv/bin/python -m build --no-isolation --outdir "$built" >/dev/null
$pip install --no-deps --force-reinstall "$built"/*.whl
INSTALLED=1 .venv/bin/python -m pytest -q -n 3 --dist worksteal -p no:cacheprovider -o faulthandler_timeout=120 \
    tests/adapters
