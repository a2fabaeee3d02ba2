#!/bin/sh
# Builds the files of a release into target/dist: for each target an archive with the module, the live view and the
# doctor, another archive with their debug symbols, and checksums. The same source, Rust and tools give the same bytes
# in any folder (reproduce.sh).
#
# usage: build.sh [target ...]    without arguments: all targets of targets.txt
set -eu
. "$(dirname -- "$0")/common.sh"
cd "$root"

[ $# -gt 0 ] || eval "set -- $(targets | tr '\n' ' ')"
for name; do targets | grep -qx "$name" || die "build.sh: no such target: $name"; done
"$tools/setup.sh" build dist

# The time in the archives and the bills of material is that of the commit.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1767225600)}
export SOURCE_DATE_EPOCH CARGO_INCREMENTAL=0
export CARGO_ZIGBUILD_ZIG_PATH="$zig/ziglang/zig" PATH="$zig/bin:$PATH"
export XDG_CACHE_HOME="$zig/cache" ZIG_GLOBAL_CACHE_DIR="$zig/cache/zig"
objcopy=$(rustc --print target-libdir)/../bin/llvm-objcopy
crates=${CARGO_HOME:-$HOME/.cargo}
cross=$target/cross
work=$target/dist-work
case $root$target$crates in *' '*) die "build.sh: a path with a space in it: $root, $target or $crates" ;; esac

# Remove the paths of this machine from the files. If several prefixes match, the last one counts.
paths() {
    set -- "$root=/usr/src/redis-lock" "$cross=/usr/src/build" "$crates=/usr/src/cargo" "$zig=/usr/src/zig"
    for sources in "$crates"/registry/src/*; do set -- "$@" "$sources=/usr/src/crates"; done
    printf '%s\n' "$@"
}

# Generate the bindings from the headers that the C code is compiled with.
headers() {
    case $1 in
        *-gnu) set -- "${1%%-*}" gnu glibc ;;
        *-musl) set -- "${1%%-*}" musl musl ;;
    esac
    libraries=$zig/ziglang/lib
    printf -- '-isystem %s ' "$libraries/include" "$libraries/libc/include/$1-linux-$2"
    set -- "${1%_64}" "$2" "$3"
    printf -- '-isystem %s ' "$libraries/libc/include/$1-linux-$2" "$libraries/libc/include/generic-$3" \
        "$libraries/libc/include/$1-linux-any" "$libraries/libc/include/any-linux-any"
}

# Runs cargo for a target with these words, and the flags of rustc in $flags. On level 2 the library is smaller
# than on level 3 (on x86-64 1188152 bytes in the place of 1235720); what that costs in time was not measured.
release_of() {
    triple=$1
    shift
    CFLAGS=$(paths | sed 's/^/-ffile-prefix-map=/' | tr '\n' ' ') BINDGEN_EXTRA_CLANG_ARGS=$(headers "$triple") \
        RUSTFLAGS="$(paths | sed 's/^/--remap-path-prefix=/' | tr '\n' ' ')$flags" \
        cargo "$@" --locked --release --target-dir "$cross" \
        --config 'profile.release.package.redis-lock.opt-level=2' \
        --config 'profile.release.package.redis-lock-core.opt-level=2'
}

# Zig compiles parts of its own and notes the folder that it is in: PWD is a name for that which is the same
# everywhere.
module() {
    flags=
    [ -n "$2" ] || flags=-Ctarget-feature=-crt-static
    PWD=/proc/self/cwd release_of "$1" zigbuild --package redis-lock --lib --target "$1${2:+.$2}"
}

# Links statically, because Rust brings everything that is needed. The doctor's TLS library contains C code, which Zig
# compiles.
program() {
    flags=-Clinker=rust-lld
    PWD=/proc/self/cwd release_of "$2" zigbuild --package "$1" --target "$2"
}

# Strips a program or library into the archive's folder; its symbols become a file in the one for them.
place() {
    cp "$1" "$work/built"
    "$objcopy" --only-keep-debug "$work/built" "$3/${1##*/}.debug"
    "$objcopy" --strip-all "--add-gnu-debuglink=$3/${1##*/}.debug" "$work/built" "$2/${1##*/}"
    rm "$work/built"
    chmod 755 "$2/${1##*/}"
    chmod 644 "$3/${1##*/}.debug"
}

# The parts of a package for a target, in the CycloneDX format.
bill() {
    package=$1 manifest=$2 triple=$3
    cargo cyclonedx --quiet --manifest-path "$manifest" --target "$triple" --no-build-deps --format json \
        --spec-version 1.5 --override-filename dist-bill
    find . -name dist-bill.json -not -path './target/*' >"$work/bills"
    sed "s|$root|/usr/src/redis-lock|g" "${manifest%Cargo.toml}dist-bill.json" >"$work/$name/$package.cdx.json"
    xargs rm <"$work/bills"
}

# The licenses of the contents: of the crates, then of what Rust and Zig link in addition.
licenses() {
    "$here/licenses.sh" "$@"
    cat "$here/runtimes.txt" "$zig/ziglang/lib/libunwind/LICENSE.TXT" "$zig/ziglang/lib/libc/musl/COPYRIGHT"
}

pack() {
    tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rw,go-w,a+rX --format=gnu \
        --mtime="@$SOURCE_DATE_EPOCH" -cf - "$1" | gzip -9n >"$dist/$1.tar.gz"
}

build() {
    architecture=${1%%-*}
    glibc=$(glibc_of "$1")
    name=$(name_of "$1")
    mkdir -p "$work/$name" "$work/$name-debug"
    say "building for $1${glibc:+ with glibc $glibc}"
    module "$1" "$glibc"
    place "$cross/$1/release/libredis_lock.so" "$work/$name" "$work/$name-debug"
    # One of these programs does for both C libraries of an architecture.
    static=$architecture-unknown-linux-musl
    for program in $shipped; do
        program "$program" "$static"
        place "$cross/$static/release/$program" "$work/$name" "$work/$name-debug"
    done
    cp README.md LICENSE CHANGELOG.md "$work/$name/"
    cp scripts/install.sh "$work/$name/"
    # The path in the configuration is that of the archive.
    sed "s|target/release/|./|" redis.conf >"$work/$name/redis.conf"
    bill libredis_lock Cargo.toml "$1"
    bill redis-lock-top crates/top/Cargo.toml "$static"
    bill redis-lock-doctor crates/doctor/Cargo.toml "$static"
    licenses "$work/$name"/*.cdx.json >"$work/$name/LICENSES-THIRD-PARTY.txt"
    pack "$name"
    pack "$name-debug"
    rm -rf "${work:?}/$name" "${work:?}/$name-debug"
}

rm -rf "$dist" "$work"
mkdir -p "$dist" "$work"
for name; do build "$name"; done
rm -rf "$work" "$cross"
(cd "$dist" && sha256sum -- *.tar.gz >SHA256SUMS)
(cd "$dist" && wc -c -- *.tar.gz && cat SHA256SUMS)
