#!/bin/sh
# Tests the class and the store of Symfony Lock on real servers, with PHP, phpredis and Symfony Lock as they are here
# (scripts/setup.sh php).
set -eu
cd "$(dirname -- "$0")"

for file in *.php tests/*.php; do
    php -l "$file" >/dev/null
done
php tests/locks.php "$@"
exec php tests/store.php "$@"
