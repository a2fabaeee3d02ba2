#!/bin/sh
# Fails if the subject of a commit is longer than 72 characters. Checks the commits after <base>. Without a known base
# it checks the commits that are not on the main branch yet, and the last commit.
#
# usage: subjects.sh [base]
set -eu
. "$(dirname -- "$0")/lib.sh"
cd "${SUBJECTS_OF:-$root}"

longest=72
has git && git rev-parse --quiet --verify HEAD >/dev/null 2>&1 || {
    say "subjects: left out, for want of git and a history"
    exit
}
known() { git rev-parse --quiet --verify "$1^{commit}" >/dev/null; }

if [ -n "${1:-}" ] && known "$1"; then
    set -- "$1..HEAD"
else
    set -- -1
    for main in origin/main main; do
        if known "$main" && [ "$(git rev-list --count "$main..HEAD")" != 0 ]; then
            set -- "$main..HEAD"
            break
        fi
    done
fi
# Do not depend on the locale, which may be C, to count characters.
git log --no-merges --format=%s "$@" | LC_ALL=C awk -v longest=$longest '
    {
        text = $0
        gsub(/[\200-\277]/, "", text) # what goes on a character in UTF-8
        if (length(text) > longest) {
            print "a subject of " length(text) " characters, " longest " at most: " $0
            failed = 1
        }
    }
    END { exit failed }' >&2
