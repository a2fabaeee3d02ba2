#!/bin/sh
# The version, which stands in Cargo.toml, and the files that repeat it (versions.txt).
#
# usage: version.sh             prints it
#        version.sh check       each of those files has it
#        version.sh set x.y.z   changes it in all of them, and in the lock files; changelogs are for people to write
set -eu
. "$(dirname -- "$0")/../lib.sh"
cd "$root"

version=$(project_version)

# Calls a function with each file, and the words before and after the version in it.
each_place() {
    grep -v '^#' scripts/release/versions.txt | while read -r pattern words; do
        for file in $pattern; do
            case $file in *'['* | *'*'*) continue ;; esac
            "$1" "$file" "${words%@*}" "${words#*@}"
        done || exit 1
    done
}

has_it() {
    # By a pattern comes what may have a version or not; what is named has one.
    grep -qF -- "$2$version$3" "$1" && return
    case $pattern in *'['* | *'*'*) return 0 ;; esac
    die "$1 has no $2$version$3"
}

# Not in place: the file's mode stays, and no sed of another system is in the way. Where a version stands alone
# in its line, the line or two before say whose it is.
change() {
    case $2 in '<version>' | '"version": "') whose=redis-lock ;; *) whose='' ;; esac
    OLD=$2$version$3 NEW=$2$new$3 awk -v whose="$whose" '
        {
            line = $0
            changed = ""
            if (whose == "" || index(before[1] before[2], whose))
                while (at = index(line, ENVIRON["OLD"])) {
                    changed = changed substr(line, 1, at - 1) ENVIRON["NEW"]
                    line = substr(line, at + length(ENVIRON["OLD"]))
                }
            print changed line
            before[2] = before[1]
            before[1] = $0
        }' "$1" >"$work"
    cmp -s "$work" "$1" || cat "$work" >"$1"
}

# Packages of this project have no source in a lock file.
change_lock() {
    awk -v old="version = \"$version\"" -v new="version = \"$new\"" '
        held != "" { print ($0 ~ /^source = / ? held : new); held = "" }
        $0 == old { held = $0; next }
        { print }
        END { if (held != "") print new }' "$1" >"$work"
    cat "$work" >"$1"
}

case ${1:-}-$# in
    -0) printf '%s\n' "$version" ;;
    check-1) each_place has_it ;;
    set-2)
        new=$2
        printf '%s\n' "$new" | grep -qE '^[0-9]+\.[0-9]+\.[0-9]+$' || die "$new is not a version: x.y.z"
        each_place has_it
        work=$(mktemp)
        trap 'rm -f "$work"' EXIT
        each_place change
        for lock in Cargo.lock fuzz/Cargo.lock; do change_lock "$lock"; done
        ;;
    *) die "usage: version.sh [check | set x.y.z]" ;;
esac
