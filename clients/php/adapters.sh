#!/bin/sh
# Tests the store of Symfony Lock on real servers. Installs PHP, phpredis and Symfony Lock from Debian's packages where
# they are missing and that can be done.
set -eu
cd "$(dirname -- "$0")"

there() {
    command -v php >/dev/null &&
        php -r 'exit(extension_loaded("redis") && stream_resolve_include_path("Symfony/Component/Lock/autoload.php") ? 0 : 1);'
}
if ! there && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq || true
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends php-cli php-redis php-symfony-lock \
        >/dev/null || true
fi
if ! there; then
    echo 'php: left out, for want of php-cli, php-redis and php-symfony-lock (not root, or no apt-get)'
    exit 0
fi
for program in redis-server ${TESTBED:-cargo}; do
    command -v "$program" >/dev/null || { echo "php: left out, for want of $program"; exit 0; }
done
for file in *.php tests/*.php; do
    php -l "$file" >/dev/null
done
exec php tests/store.php "$@"
