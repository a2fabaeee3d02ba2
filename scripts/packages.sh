#!/bin/sh
# Builds the packages for Debian, Fedora and derivatives (.deb, .rpm) from the files of an earlier build: the module,
# redis-lock-top and redis-lock-doctor. Checks them with lintian and rpmlint if these are installed.
#
# usage: [VERSION=x.y.z] packages.sh [<archive of make dist, or a folder> [<folder for the packages>]]
#        Without one, that of make dist for this machine, else what cargo has built for release.
set -eu
. "$(dirname -- "$0")/lib.sh"
cd "$root"

nfpm_version=v2.45.2 # the last whose parts all come from where Go's own do
linux=packaging/linux
files="libredis_lock.so $shipped"
version=${VERSION:-$(project_version)}
built=${1:-$(dirname -- "$(module_path)")}
archive=$root/target/dist/redis-lock-$version-$(uname -m)-unknown-linux-gnu.tar.gz
if [ $# = 0 ] && [ -e "$archive" ]; then built=$archive; fi
mkdir -p "${2:-target/packages}"
packages=$(cd "${2:-target/packages}" && pwd)
work_folder "$packages"

case $built in
    *.tar.gz)
        mkdir "$work/built"
        tar -C "$work/built" --strip-components 1 -xzf "$built"
        built=$work/built
        ;;
esac
for file in $files; do
    [ -e "$built/$file" ] ||
        die "packages.sh: no $built/$file: make dist, or cargo build --release --package redis-lock --package redis-lock-top --package redis-lock-doctor"
done
machine=$(readelf --file-header "$built/libredis_lock.so" | sed -n 's/^ *Machine: *//p')
case $machine in
    *X86-64*) arch=amd64 rpm_arch=x86_64 ;;
    AArch64) arch=arm64 rpm_arch=aarch64 ;;
    *) die "packages.sh: no packages for $machine" ;;
esac

nfpm=$(command -v nfpm || echo "$root/target/tools/nfpm")
if [ ! -x "$nfpm" ]; then
    has go || die "missing: nfpm, or Go to fetch it with (https://nfpm.goreleaser.com)"
    GOBIN=${nfpm%/*} go install "github.com/goreleaser/nfpm/v2/cmd/nfpm@$nfpm_version" >&2
fi

# The same files give the same packages.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
date=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)

# The newest glibc symbol version that a file needs; nothing for a static file.
glibc() {
    for file; do readelf --version-info --wide "$file"; done |
        sed -n 's/.*Name: GLIBC_\([0-9.]*\) .*/\1/p' | sort -V | tail -n 1
}

needs_libgcc() {
    for file; do readelf --dynamic --wide "$file"; done | grep -q 'libgcc_s'
}

pressed() { gzip -9 -n >"$1"; }

# Fills in the path of the module, which differs between the package formats.
filled() { sed "s|@MODULE@|$MODULE|g" "$1"; }

# The overview of the commands is made of their pages.
manual() {
    awk -f $linux/manual.awk docs/commands/lock.*.md >"$TREE/commands"
    awk -f $linux/errors.awk docs/commands/README.md >"$TREE/errors"
    filled $linux/redis-lock.7 | sed -e "/^@COMMANDS@/{r $TREE/commands
        d
        }" -e "/^@ERRORS@/{r $TREE/errors
        d
        }"
}

# Puts the files that nfpm.yaml names into $TREE.
lay_out() {
    doc=$TREE/doc man=$TREE/man
    mkdir -p "$doc/docs" "$man"
    for file in $files; do
        cp "$built/$file" "$TREE/"
        if readelf --sections --wide "$built/$file" | grep -q '[.]symtab'; then # not from make dist
            strip --strip-unneeded --remove-section=.comment "$TREE/$file"
        fi
    done
    # The loadmodule line is the user's: redis-lock(7) says why.
    {
        echo "# Settings for a server with redis-lock, to be included in its configuration after this line:"
        echo "#"
        echo "#   loadmodule $MODULE"
        sed '1,/^loadmodule/d' redis.conf
    } >"$TREE/redis-lock.conf"
    cp docs/monitoring/lock.lua docs/monitoring/alerts.yml "$TREE/"
    manual | pressed "$man/redis-lock.7.gz"
    for program in $shipped; do pressed "$man/$program.1.gz" <"$linux/$program.1"; done
    pressed "$man/redis-lock.1.gz" <clients/shell/redis-lock.1
    cp clients/shell/redis-lock "$TREE/"
    for file in installed.sh removing.sh; do filled "$linux/$file" >"$TREE/$file"; done
    printf -- '- semver: %s-1\n  date: %s\n  packager: The redis-lock authors <redis-lock@users.noreply.github.com>\n  deb: { urgency: medium, distributions: [unstable] }\n  changes:\n    - note: "Version %s: changelog.gz tells what is new."\n' \
        "$version" "$date" "$version" >"$TREE/changelog.yaml"

    cp README.md SECURITY.md "$doc/"
    cp -R docs/. "$doc/docs/"
    pressed "$doc/changelog.gz" <CHANGELOG.md
    cp $linux/copyright "$doc/copyright"
    # What is inside, and under which licenses, as make dist tells it.
    for file in "$built"/*.cdx.json "$built"/LICENSES-THIRD-PARTY.txt; do
        [ -e "$file" ] || continue
        name=$(basename "$file" | tr '[:upper:]' '[:lower:]')
        pressed "$doc/${name#licenses-}.gz" <"$file"
    done
    chmod -R u=rwX,go=rX "$TREE"
}

VERSION=$version ARCH=$arch
# shellcheck disable=SC2086 # a list of words
GLIBC=$(cd "$built" && glibc $files)
[ -n "$GLIBC" ] || die "packages.sh: $built is not for glibc"
export VERSION ARCH GLIBC TREE MODULE LIBGCC_DEB LIBGCC_RPM
LIBGCC_DEB='' LIBGCC_RPM=''
# shellcheck disable=SC2086
if (cd "$built" && needs_libgcc $files); then LIBGCC_DEB=libgcc-s1 LIBGCC_RPM='libgcc_s.so.1()(64bit)'; fi

for form in deb rpm; do
    # Debian's units let servers execute from /usr/lib alone; Fedora's have their modules in /usr/lib64.
    case $form in deb) MODULE=/usr/lib ;; rpm) MODULE=/usr/lib64 ;; esac
    MODULE=$MODULE/redis/modules/libredis_lock.so
    TREE=$work/$form
    lay_out
    (cd "$TREE" && "$nfpm" package --config "$root/$linux/nfpm.yaml" --packager $form --target "$packages" >&2)
done

deb=$packages/redis-lock_$version-1_$arch.deb
rpm=$packages/redis-lock-$version-1.$rpm_arch.rpm
if has lintian; then
    # Errors and warnings fail, but for two: this is no upload to Debian, which would close a bug, and the programs
    # link to no library (lintian takes a static program that may lie anywhere for a library).
    lintian --allow-root --fail-on error,warning \
        --suppress-tags initial-upload-closes-no-bugs,shared-library-lacks-prerequisites "$deb" >&2
else
    say "lintian is not installed: left out"
fi
if has rpmlint; then
    rpmlint --config $linux/rpmlint.toml "$rpm" >&2
else
    say "rpmlint is not installed: left out"
fi
(cd "$packages" && sha256sum "${deb##*/}" "${rpm##*/}")
