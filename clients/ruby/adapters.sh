#!/bin/sh
# Tests the class for Ruby on real servers, with Ruby and redis-rb as they are here (scripts/setup.sh ruby).
set -eu
cd "$(dirname -- "$0")"

for file in *.rb tests/*.rb; do
    ruby -wc "$file" >/dev/null
done
exec ruby tests/redis_lock.rb "$@"
