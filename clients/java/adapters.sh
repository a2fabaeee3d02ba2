#!/bin/sh
# Builds the client and its adapters against Spring Boot 3, and tests the adapters with it, and the same files with Spring
# Boot 4 and with the oldest frameworks. FORM=short: a part of the tests, with Spring Boot 3 and 4. Then types the first
# program of each README.md into an empty project. Nothing is installed: what is built is in the folders target.
set -eu
cd "$(dirname -- "$0")/adapters"

boot3=3.5.16
boot4=4.1.2
tests='*Test'
[ "${FORM:-}" != short ] || tests='ProviderTest,RegistryTest,ConfigurationTest,HealthAndMetricsTest'
verify() {
    mvn -B -ntp -Dadapters -Dtest="$tests" -Dsurefire.failIfNoSpecifiedTests=false "$@" verify
}

verify -Dspring-boot.version=$boot3
verify -Dmaven.main.skip -Dspring-boot.version=$boot4 -Dspring-boot-4.version=$boot4 -Dabsent=none:none
if [ "${FORM:-}" != short ]; then
    verify -Dmaven.main.skip -Dspring-boot.version=4.0.7 -Dspring-boot-4.version=4.0.7 -Dabsent=none:none
    verify -Dmaven.main.skip -Dspring-boot.version=3.4.0 -Dshedlock.version=6.0.1
fi
exec ../tests/adapters.sh $boot3 $boot4
