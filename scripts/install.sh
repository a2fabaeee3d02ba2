#!/bin/sh
# Copies the module, the live view and the doctor to where servers and shells look for them, and says what to do next.
# Installs the files that were built here, or those beside this script in an unpacked archive. It builds nothing and
# needs no Rust, so it runs under sudo.
#
# usage: [PREFIX=/usr/local] [DESTDIR=path] install.sh
#   DESTDIR is for packagers: it is a prefix for the copies, but does not appear in the output.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
die() { printf '%s\n' "$*" >&2; exit 1; }

case $(uname -s) in
    Darwin) library=libredis_lock.dylib ;;
    *) library=libredis_lock.so ;;
esac
if [ -e "$here/lib.sh" ]; then
    . "$here/lib.sh"
    built=$(module_path)
    built=${built%/*}
    [ -e "$built/$library" ] || die "nothing was built yet: there is no $built/$library
run this first, as yourself: make build"
else
    built=$here
    [ -e "$built/$library" ] || die "there is no $library beside $0: unpack the whole archive"
fi

prefix=${PREFIX:-/usr/local}
modules=$prefix/lib/redis/modules

put() { # <mode> <file> <folder>
    # Do not overwrite the old file in place, because a server may have it mapped.
    mkdir -p "${DESTDIR:-}$3" 2>/dev/null && rm -f "${DESTDIR:-}$3/${2##*/}" 2>/dev/null &&
        cp "$2" "${DESTDIR:-}$3/" && chmod "$1" "${DESTDIR:-}$3/${2##*/}" ||
        die "cannot write to ${DESTDIR:-}$3: run this with sudo, or set PREFIX to a folder of yours"
    echo "installed ${DESTDIR:-}$3/${2##*/}"
}

put 755 "$built/$library" "$modules"
for program in redis-lock-top redis-lock-doctor; do
    [ ! -e "$built/$program" ] || put 755 "$built/$program" "$prefix/bin"
done
cat <<END

To try it, on a server of its own:

  redis-server --port 6390 --save '' --loadmodule $modules/$library
  redis-cli -p 6390 LOCK.ACQUIRE lock:orders:42 me PX 60000

To use it, put this line into the configuration of your server, of its replicas too, and restart them:

  loadmodule $modules/$library
END
