#!/bin/sh
# Tests the Java client, on Jedis and on Spring Data Redis with Lettuce, with the versions that pom.xml names.
set -eu
cd "$(dirname -- "$0")"

exec mvn -B -ntp test
