#!/bin/sh
# Installs what is missing with apt-get. Without apt-get it says what to install and how. It installs nothing if nothing
# is missing.
#
# usage: setup.sh build|server|cli|nextest|coverage|mutants|lint|deny|fuzz|address|valgrind|faketime|pip|make|
#                 mdbook|exporter|promtool|postgres|php|ruby|dist|dist-test ...
set -eu
. "$(dirname -- "$0")/lib.sh"

any() {
    for path; do [ -e "$path" ] && return 0; done
    return 1
}

rust_is_recent() {
    want=$(sed -n 's/^rust-version = "1\.\([0-9]*\).*/\1/p' "$root/Cargo.toml")
    have=$(rustc --version 2>/dev/null | sed -n 's/^rustc 1\.\([0-9]*\).*/\1/p')
    [ -n "$have" ] && [ "$have" -ge "$want" ]
}

# The bindings need libclang and also clang's own headers (stddef.h). If LIBCLANG_PATH is set, assume that the user has
# taken care of both.
has_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] && return 0
    tools_of_apple=/Library/Developer/CommandLineTools/usr
    any /usr/lib*/llvm*/lib*/libclang.so* /usr/lib*/llvm*/lib*/libclang-[0-9]*.so* \
        /usr/lib*/libclang.so* /usr/lib*/libclang-[0-9]*.so* \
        /usr/lib/*/libclang.so* /usr/lib/*/libclang-[0-9]*.so* \
        /usr/local/lib*/libclang.so* /usr/local/llvm*/lib*/libclang.so* \
        /opt/homebrew/opt/llvm/lib/libclang.dylib $tools_of_apple/lib/libclang.dylib || return 1
    any /usr/lib*/llvm*/lib*/clang/*/include/stddef.h /usr/lib*/clang/*/include/stddef.h \
        /usr/local/lib*/clang/*/include/stddef.h /usr/local/llvm*/lib*/clang/*/include/stddef.h \
        /opt/homebrew/opt/llvm/lib/clang/*/include/stddef.h $tools_of_apple/lib/clang/*/include/stddef.h
}

# Redis before 7.0 lacks a part of the module API.
server_is_recent() {
    major=$(server_version "$1" | sed 's/.* \([0-9]*\).*/\1/')
    [ -n "$major" ] && [ "$major" -ge 7 ]
}

# Debian keeps the programs that start a server out of the search path.
has_postgres() {
    { has initdb && has postgres; } || any /usr/lib/postgresql/*/bin/initdb
}

has_php() {
    php -r 'exit(extension_loaded("redis") && stream_resolve_include_path("Symfony/Component/Lock/autoload.php") ? 0 : 1);' \
        2>/dev/null
}

python_with_pip() {
    for python in python3 /usr/bin/python3; do
        "$python" -m pip --version >/dev/null 2>&1 && return 0
    done
    return 1
}

# The parts of Rust for the targets of a release.
has_targets() {
    awk '/^[^#]/ { print $1 }' "$tools/dist/targets.txt" | while read -r name; do
        any "$(rustc --print sysroot)/lib/rustlib/$name/lib/"libstd-* || return 1
    done
}

# Prints what is missing from the given groups, one word for each item.
survey() {
    for group; do
        case $group in
            build)
                if ! has cargo; then echo cargo; elif ! rust_is_recent; then echo rust; fi
                has cc || echo cc
                has_libclang || echo libclang
                ;;
            server)
                if [ -n "${REDIS_SERVER:-}" ]; then
                    server_is_recent "$REDIS_SERVER" || echo given-server
                elif ! has redis-server; then
                    echo server
                else
                    server_is_recent redis-server || echo newer-server
                fi
                ;;
            cli) has redis-cli || echo redis-cli ;;
            coverage)
                cargo llvm-cov --version >/dev/null 2>&1 || echo cargo-llvm-cov
                any "$(rustc --print target-libdir)"/../bin/llvm-profdata* || echo llvm-tools
                ;;
            lint)
                cargo fmt --version >/dev/null 2>&1 || echo rustfmt
                cargo clippy --version >/dev/null 2>&1 || echo clippy
                ;;
            nextest | mutants | deny) cargo "$group" --version >/dev/null 2>&1 || echo "cargo-$group" ;;
            mdbook) has mdbook || any "${CARGO_HOME:-$HOME/.cargo}/bin/mdbook" || echo mdbook ;;
            dist)
                cmp -s "$tools/dist/tools.txt" "$root/target/tools/zig/tools.txt" || { echo zig; python_with_pip || echo pip; }
                has_targets || echo targets
                any "$(rustc --print target-libdir)"/../bin/llvm-objcopy* || echo llvm-tools
                cargo cyclonedx --version >/dev/null 2>&1 || echo cargo-cyclonedx
                ;;
            dist-test)
                has qemu-aarch64-static || echo qemu
                has dpkg-source || echo dpkg-source
                has readelf || echo readelf
                ;;
            fuzz) has "${CXX:-c++}" || echo cxx ;;
            address)
                has cc || echo cc
                has dpkg-source || echo dpkg-source
                has make || echo make
                ;;
            valgrind) has valgrind || echo valgrind ;;
            pip) python_with_pip || echo pip ;;
            make) has make || echo make ;;
            faketime) any /usr/lib*/faketime/libfaketimeMT.so* /usr/lib/*/faketime/libfaketimeMT.so* \
                /usr/local/lib/faketime/libfaketimeMT.so* || echo faketime ;;
            exporter)
                has prometheus-redis-exporter || echo exporter
                has curl || echo curl
                ;;
            promtool) has promtool || echo promtool ;;
            postgres)
                [ -n "${EXAMPLES_POSTGRES_URL:-}" ] || has_postgres || echo postgres
                has psql || echo psql
                ;;
            php) has_php || echo php ;;
            ruby) ruby -e 'require "redis"' 2>/dev/null || echo ruby ;;
            *) die "setup.sh: no such group: $group" ;;
        esac
    done
}

# For each item: the Debian packages that contain it, and advice if it is still missing afterwards.
things() {
    cat <<'END'
cargo||cargo - get Rust from https://rustup.rs
rust||a Rust as new as the rust-version in Cargo.toml - run: rustup update
cc|gcc libc6-dev|a C compiler - install gcc or clang (Debian: gcc libc6-dev; Fedora, Arch: gcc; Alpine: build-base; macOS: xcode-select --install)
cxx|g++|a C++ compiler, which libFuzzer is built with - install g++ or clang (Debian: g++; Fedora: gcc-c++; Arch: gcc; Alpine: build-base; macOS: xcode-select --install)
libclang|libclang-dev|libclang with its headers - install it (Debian: libclang-dev; Fedora: clang-devel; Arch: clang; Alpine: clang-dev; macOS: xcode-select --install), or set LIBCLANG_PATH to the folder it is in
server|redis-server|redis-server - install Redis 7.0 or later (Debian: redis-server; Fedora, Arch, Alpine: redis; macOS: brew install redis), or set REDIS_SERVER to the path of a Redis or Valkey server
redis-cli|redis-tools|redis-cli, by which tests type what operators type - install it (Debian: redis-tools; Fedora, Arch, Alpine: redis; macOS: brew install redis)
rustfmt||rustfmt - run: rustup component add rustfmt (or install it as Rust was installed)
clippy||clippy - run: rustup component add clippy (or install it as Rust was installed)
llvm-tools||llvm-tools - run: rustup component add llvm-tools (or install it as Rust was installed)
targets||Rust's standard library for the targets in scripts/dist/targets.txt - get rustup from https://rustup.rs, and run: rustup target add <target>
zig||Zig and cargo-zigbuild of the versions in scripts/dist/tools.txt - install python3 with pip (Debian: python3-pip), which fetches them
dpkg-source|dpkg-dev|dpkg-source, for the source of Redis, which is built - only on Debian and derivatives (dpkg-dev)
qemu|qemu-user-static|qemu-aarch64-static, in which servers for arm64 run - install it (Debian: qemu-user-static)
readelf|binutils|readelf - install binutils
valgrind|valgrind|valgrind - install it (Debian, Fedora, Arch, Alpine: valgrind)
pip|python3-pip|python3 with pip, which fetches the servers - install it (Debian, Fedora: python3-pip; Arch: python-pip; Alpine: py3-pip)
faketime|faketime|libfaketime, by which a server's clock is stepped - install it (Debian, Fedora: faketime or libfaketime)
exporter|prometheus-redis-exporter|prometheus-redis-exporter - install it (Debian: prometheus-redis-exporter)
curl|curl|curl - install it
promtool|prometheus|promtool - install it (Debian: prometheus)
postgres|postgresql|PostgreSQL, with initdb - install it (Debian: postgresql; Fedora: postgresql-server; Arch, Alpine, macOS: postgresql), or set EXAMPLES_POSTGRES_URL to a server that is there for tests
psql|postgresql-client|psql - install it (Debian: postgresql-client; Fedora, Arch: postgresql; Alpine: postgresql-client; macOS: brew install libpq)
php|php-cli php-redis php-symfony-lock|PHP with phpredis and Symfony Lock - install them (Debian: php-cli php-redis php-symfony-lock)
ruby|ruby ruby-redis|Ruby with the gem redis - install them (Debian: ruby ruby-redis)
make|make|make - install it (Debian, Fedora, Arch, Alpine: make; macOS: xcode-select --install)
END
}

# Prints the field with this number for each of the items.
part_of() {
    number=$1
    shift
    for thing; do things | awk -F '|' -v thing="$thing" -v number="$number" '$1 == thing { print $number }'; done
}

# Keeps the server packages from starting services, because nobody has asked for that (RUNLEVEL is for sysvinit,
# SYSTEMD_OFFLINE for systemd).
apt() {
    set -- env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 SYSTEMD_OFFLINE=1 \
        apt-get -qq -o DPkg::Lock::Timeout=300 "$@"
    if [ "$(id -u)" != 0 ]; then set -- sudo "$@"; fi
    "$@" </dev/null >"$log" 2>&1
}

install_packages() {
    say "installing with apt-get: $*"
    log=$(mktemp)
    apt update || true # an older list may still do
    if ! apt install -y --no-install-recommends "$@"; then
        # The first error names the cause; offline there is one for each file.
        say "apt-get failed: $(grep -m 1 '^E: ' "$log" || tail -n 1 "$log")"
    fi
    rm -f "$log"
}

# Installs a version that the declared Rust can build. Without optimisation the build takes half the time, and the
# program mostly waits for others anyway.
install_program() {
    say "installing with cargo: $1"
    env -u CARGO_TARGET_DIR CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug "$@" >&2 || true
}

# Installs into a folder of its own. The copy of tools.txt shows that the folder is complete.
install_zig() {
    say "installing with pip: Zig and cargo-zigbuild"
    kept=$root/target/tools/zig
    rm -rf "$kept"
    if python_with_pip && "$python" -m pip install --quiet --no-deps --target "$kept" \
        --requirement "$tools/dist/tools.txt" >&2; then
        cp "$tools/dist/tools.txt" "$kept/"
    fi
}

provide() {
    packages=$(part_of 2 "$@" | tr '\n' ' ')
    if [ -n "$packages" ] && has apt-get && { [ "$(id -u)" = 0 ] || has sudo; }; then
        # shellcheck disable=SC2086 # a list of words
        install_packages $packages
    fi
    for thing; do
        case $thing in
            rustfmt | clippy | llvm-tools) if has rustup; then rustup component add "$thing" >&2 || true; fi ;;
            cargo-nextest) install_program "$thing@0.9.128" ;;
            cargo-deny) install_program "$thing" ;;
            cargo-llvm-cov) install_program "$thing@0.9.1" ;;
            targets)
                # shellcheck disable=SC2046 # a list of words
                if has rustup; then rustup target add $(awk '/^[^#]/ { print $1 }' "$tools/dist/targets.txt") >&2 || true; fi
                ;;
            zig) install_zig ;;
            cargo-cyclonedx) install_program "$thing@0.5.9" ;;
            mdbook) install_program mdbook@0.5.4 --no-default-features --features search ;;
            cargo-mutants) install_program "$thing@27.1.0" ;;
        esac
    done
}

advice() {
    case $1 in
        newer-server) say "missing: a redis-server of 7.0 or later (here: $(server_version redis-server)) - set REDIS_SERVER to the path of one" ;;
        given-server) say "missing: a server at REDIS_SERVER=$REDIS_SERVER - it must be an executable Redis or Valkey of 7.0 or later" ;;
        cargo-* | mdbook) say "missing: $1 - run: cargo install --locked $1" ;;
        *) say "missing: $(part_of 3 "$1")" ;;
    esac
}

missing=$(survey "$@")
[ -n "$missing" ] || exit 0
# shellcheck disable=SC2086 # a list of words
provide $missing
missing=$(survey "$@")
for thing in $missing; do advice "$thing"; done
[ -z "$missing" ]
