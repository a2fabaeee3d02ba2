#!/bin/sh
# Tests the example in Ruby.
set -eu
cd "$(dirname -- "$0")"

exec ../run.sh "ruby examples/ruby/{}.rb" submit
