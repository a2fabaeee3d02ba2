#!/bin/sh
# Tests the examples in shell.
set -eu
cd "$(dirname -- "$0")"

PATH=$PWD/../../clients/shell:$PATH
export PATH
exec ../run.sh "sh examples/shell/{}.sh" cron leader
