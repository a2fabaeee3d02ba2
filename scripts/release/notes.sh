#!/bin/sh
# Prints what the changelog says of a version, as the notes of a release: what it links to is that of the tag.
# usage: [CHANGELOG=<file>] notes.sh <tag>
set -eu
. "$(dirname -- "$0")/../lib.sh"

tag=${1:?"usage: notes.sh <tag>"}
# The section without its heading and the empty lines around it.
awk -v heading="## [${tag#v}] - " '
    index($0, heading) == 1 { inside = 1; next }
    /^## / { inside = 0 }
    inside && (found || NF) { lines[++found] = $0; if (NF) last = found }
    END { for (i = 1; i <= last; i++) print lines[i] }' "${CHANGELOG:-$root/CHANGELOG.md}" |
    sed "s#](\([^):\#][^):]*\))#](https://github.com/redis-lock/redis-lock/blob/$tag/\1)#g"
