#!/bin/sh
# Tests redis-lock.sh.
exec "$(dirname -- "$0")/tests/run.sh"
