#!/bin/sh
# The steps of a release (RELEASING.md).
#
# usage: release.sh check <tag>       the tag, the version and the changelog fit each other
#        release.sh notes <tag>       prints what the changelog says of the version
#        release.sh files <folder>    packs the module that was built last, with its checksum
set -eu
. "$(dirname -- "$0")/lib.sh"

version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml")
changelog=${CHANGELOG:-$root/CHANGELOG.md}

# The section of a version, without its heading and the empty lines around it.
notes() {
    awk -v heading="## [${1#v}] - " '
        index($0, heading) == 1 { inside = 1; next }
        /^## / { inside = 0 }
        inside && (found || NF) { lines[++found] = $0; if (NF) last = found }
        END { for (i = 1; i <= last; i++) print lines[i] }' "$changelog"
}

check() {
    [ "$1" = "v$version" ] || die "the tag is $1, and the version in Cargo.toml $version"
    [ -n "$(notes "$1")" ] || die "CHANGELOG.md has no section '## [$version] - <date>' with notes"
}

files() {
    module=$(module_path)
    [ -e "$module" ] || die "no module at $module: make build"
    name=redis-lock-$version-$(uname -s | tr '[:upper:]' '[:lower:]')-$(uname -m)
    folder=$1/$name
    rm -rf "$folder"
    mkdir -p "$folder"
    cp "$module" "$root/redis.conf" "$root/LICENSE" "$folder/"
    strip --strip-debug "$folder/${module##*/}"
    # The path in the configuration is that of the archive.
    sed -i.before "s|target/release/|./|" "$folder/redis.conf"
    rm "$folder/redis.conf.before"
    tar -C "$1" -czf "$1/$name.tar.gz" "$name"
    rm -rf "$folder"
    (cd "$1" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
    ls -l "$1"
}

case ${1:-}-$# in
    check-2) check "$2" ;;
    notes-2) check "$2" && notes "$2" ;;
    files-2) files "$2" ;;
    *) die "usage: release.sh check <tag> | notes <tag> | files <folder>" ;;
esac
