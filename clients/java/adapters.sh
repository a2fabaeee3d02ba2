#!/bin/sh
# Builds the client and its adapters, and tests the adapters with the newest of their frameworks, then with the oldest
# (LONG=1: all tests). FORM=short: only those, with the newest. Nothing is installed: what is built is in the folders target.
set -eu
cd "$(dirname -- "$0")/adapters"

oldest='ProviderTest,RegistryTest,ConfigurationTest,HealthAndMetricsTest'
if [ "${FORM:-}" = short ]; then
    exec mvn -B -ntp -Dadapters -Dtest="$oldest" -Dsurefire.failIfNoSpecifiedTests=false verify
fi
[ -z "${LONG:-}" ] || oldest='*Test'
mvn -B -ntp -Dadapters verify
exec mvn -B -ntp -Dadapters -Dmaven.main.skip -Dspring-boot.version=3.2.0 -Dshedlock.version=6.0.1 \
    -Dtest="$oldest" -Dsurefire.failIfNoSpecifiedTests=false verify
