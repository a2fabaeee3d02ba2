#!/bin/sh
# Tests the adapters of the Python client through their frameworks, as they are installed from the built wheel, in the
# ignored folder .venv, with what requirements.txt pins. FORM=short: those of Django and of redis-py's Lock. PYTHON:
# another Python than python3.
set -eu
cd "$(dirname -- "$0")"

[ -x .venv/bin/python ] || "${PYTHON:-python3}" -m venv .venv
pip='.venv/bin/python -m pip --quiet --disable-pip-version-check'
../../scripts/building.sh $pip install --require-hashes -r requirements.txt
.venv/bin/mypy

if [ "${FORM:-}" = short ]; then
    set -- tests/adapters/test_django.py tests/adapters/test_lock_class.py
else
    set -- tests/adapters
fi

built=$(mktemp -d)
trap 'rm -rf "$built"; $pip uninstall --yes redis-lock-client' EXIT
.venv/bin/python -m build --no-isolation --outdir "$built" >/dev/null
$pip install --no-deps --force-reinstall "$built"/*.whl
INSTALLED=1 .venv/bin/python -m pytest -q -n 3 --dist worksteal -p no:cacheprovider -o faulthandler_timeout=120 \
    "$@"
