#!/bin/sh
# Tests the class for Ruby on real servers. Installs Ruby and redis-rb from Debian's packages where they are missing and
# that can be done.
set -eu
cd "$(dirname -- "$0")"

there() {
    command -v ruby >/dev/null && ruby -e 'require "redis"' 2>/dev/null
}
if ! there && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq || true
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ruby ruby-redis >/dev/null || true
fi
if ! there; then
    echo 'ruby: left out, for want of ruby and ruby-redis (not root, or no apt-get)'
    exit 0
fi
for program in redis-server ${TESTBED:-cargo}; do
    command -v "$program" >/dev/null || { echo "ruby: left out, for want of $program"; exit 0; }
done
for file in *.rb tests/*.rb; do
    ruby -wc "$file" >/dev/null
done
exec ruby tests/redis_lock.rb "$@"
