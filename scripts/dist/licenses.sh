#!/bin/sh
# Prints the licenses of the crates in bills of material, taken from the crates themselves: the license of each crate,
# then each text once below the names of the crates that contain it. deny.toml lists the allowed licenses.
#
# usage: licenses.sh <bill of material> ...
set -eu
. "$(dirname -- "$0")/common.sh"

work_folder
texts=$work

# The project's own crates have a place behind their version.
sed -n 's|^ *"purl": "pkg:cargo/\([^@]*\)@\([^?"]*\)".*|\1 \2|p' "$@" | LC_ALL=C sort -u >"$texts/crates"
[ -s "$texts/crates" ] || die "licenses.sh: no crates in $*"
printf 'The crates inside, and what each is under:\n\n'
while read -r crate number; do
    set -- "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$crate-$number"
    folder=$1
    [ -d "$folder" ] || die "licenses.sh: no source of $crate $number: cargo fetch"
    license=$(sed -n 's/^license = "\(.*\)"/\1/p; s/^license-file = "\(.*\)"/as in \1/p' "$folder/Cargo.toml" | head -n 1)
    [ -n "$license" ] || die "licenses.sh: $crate $number names no license"
    printf '    %s %s: %s\n' "$crate" "$number" "$license"
    find "$folder" -maxdepth 1 -type f | LC_ALL=C sort |
        grep -iE '/(un)?(licen[cs]es?|copying|copyright|notice)([-._][^/]*)?$' | while read -r file; do
        hash=$(sha256sum <"$file" | cut -d ' ' -f 1)
        [ -e "$texts/$hash.text" ] || cp "$file" "$texts/$hash.text"
        printf '%s %s, %s\n' "$crate" "$number" "${file##*/}" >>"$texts/$hash.names"
    done || : # one without a file has named its license
done <"$texts/crates"
for names in "$texts"/*.names; do
    printf '\n%s\n\n' "--------------------------------------------------------------------------------"
    cat "$names"
    echo
    cat "${names%.names}.text"
done
