#!/bin/sh
# Tests the example in PHP.
set -eu
cd "$(dirname -- "$0")"

exec ../run.sh "php examples/php/{}.php" cron
