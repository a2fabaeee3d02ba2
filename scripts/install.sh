#!/bin/sh
# Copies the built module to where servers look for modules, and says how to load it.
# DESTDIR is for packagers: it is in the path of the copy, not in the line printed.
set -eu
. "$(dirname -- "$0")/lib.sh"

module=$(module_path)
folder=${PREFIX:-/usr/local}/lib/redis/modules
mkdir -p "${DESTDIR:-}$folder"
# Not over the old file in place: a server may have it mapped.
rm -f "${DESTDIR:-}$folder/${module##*/}"
cp "$module" "${DESTDIR:-}$folder/"
chmod 755 "${DESTDIR:-}$folder/${module##*/}"
echo "installed; load it with this line in redis.conf:"
echo "loadmodule $folder/${module##*/}"
