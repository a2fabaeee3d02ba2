#!/bin/sh
# Checks each archive that build.sh left in target/dist: its checksum, contents and sizes, what the library needs from
# the system, the live view and the installation. Then checks that the module loads and acquires a lock on a server of
# its architecture and C library, and passes the tests of the commands there (tests/contract).
#
# usage: [CONTRACT="words"] test.sh [target ...]    without one all that were built
#   CONTRACT names fewer tests (acquire:: scripts:: ...); none: no Rust is needed
set -eu
. "$(dirname -- "$0")/common.sh"
cd "$root"

tests=${CONTRACT:-}
largest=1300000
[ $# -gt 0 ] || eval "set -- $(built | tr '\n' ' ')"
[ $# -gt 0 ] || die "nothing is in $dist: make dist"
has readelf || die "missing: readelf (binutils)"

work=$(mktemp -d)
running=
trap '[ -z "$running" ] || kill "$running" 2>/dev/null || :; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

fail() { die "$name: $*"; }
same() { [ "$2" = "$3" ] || fail "$1: $2, not $3"; }

contents() {
    same contents "$(LC_ALL=C ls "$folder" | tr '\n' ' ')" "CHANGELOG.md LICENSE LICENSES-THIRD-PARTY.txt README.md \
install.sh libredis_lock.cdx.json libredis_lock.so redis-lock-doctor redis-lock-doctor.cdx.json redis-lock-top \
redis-lock-top.cdx.json redis.conf "
    for bill in "$folder"/*.cdx.json; do
        grep -q '"specVersion": "1.5"' "$bill" && grep -q "\"version\": \"$version\"" "$bill" || fail "$bill"
    done
    grep -q 'pkg:cargo/redis-module@' "$folder/libredis_lock.cdx.json" || fail "no redis-module in its bill"
    for part in redis-module ratatui libunwind musl; do
        grep -q "$part" "$folder/LICENSES-THIRD-PARTY.txt" || fail "no license of $part"
    done
    for path in "$root" "$HOME/"; do
        ! grep -rlF -e "$path" "$folder" "$folder-debug" || fail "the path $path is in what is built"
    done
}

# Checks the library: its size, the symbols that it exports, the libraries that it needs, and its debug files.
library() {
    file=$folder/libredis_lock.so
    size=$(wc -c <"$file")
    [ "$size" -lt "$largest" ] || fail "the library has $size bytes"
    case $triple in x86_64*) machine='Advanced Micro Devices X86-64' ;; *) machine=AArch64 ;; esac
    same machine "$(readelf -hW "$file" | sed -n 's/^ *Machine: *//p')" "$machine"
    same symbols "$(readelf --dyn-syms -W "$file" | awk '$5 != "LOCAL" && $7 != "UND" && $8 { print $8 }' | grep -v Name)" \
        RedisModule_OnLoad
    needed=$(readelf -dW "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p')
    for other in $needed; do
        case $triple-$other in
            *-gnu-libc.so.6 | *-gnu-libm.so.6 | *-gnu-libdl.so.2 | *-gnu-libpthread.so.0 | *-gnu-ld-linux-*) ;;
            *-musl-libc.so) ;;
            *) fail "the library needs $other" ;;
        esac
    done
    asked=$(readelf -VW "$file" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
    glibc=$(glibc_of "$triple")
    newest=$(printf '%s\n' "$asked" "GLIBC_$glibc" | sort -V | tail -n 1)
    same 'the C library' "$newest" "GLIBC_$glibc"
    say "$name: the library has $size bytes, and needs ${asked:-musl}"
    for file in "$folder-debug"/*.debug; do
        readelf -SW "$file" | grep -q '\.debug_line' || fail "no lines in ${file##*/}"
        readelf --string-dump=.gnu_debuglink "$folder/$(basename "$file" .debug)" | grep -q "${file##*/}" ||
            fail "nothing leads to ${file##*/}"
    done
}

# A program, and an option that its help tells of.
static_program() {
    file=$folder/$1 option=$2
    ! readelf -lW "$file" | grep -q INTERP || fail "$1 is no static program"
    if [ "${triple%%-*}" = "$(uname -m)" ]; then set --; else set -- "qemu-${triple%%-*}-static"; fi
    [ $# = 0 ] || has "$1" || return 0
    "$@" "$file" --help | grep -q -e "$option" || fail "$file does not run"
    say "$name: ${file##*/} has $(wc -c <"$file") bytes, and runs"
}

# Install like root would, with a search path without Rust.
installation() {
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DESTDIR="$work/installed" PREFIX=/usr sh "$folder/install.sh" |
        grep -qx '  loadmodule /usr/lib/redis/modules/libredis_lock.so' || fail "install.sh names no loadmodule line"
    cmp "$folder/libredis_lock.so" "$work/installed/usr/lib/redis/modules/libredis_lock.so" || fail "the copy differs"
    for program in $shipped; do
        cmp "$folder/$program" "$work/installed/usr/bin/$program" || fail "the copy differs"
    done
    rm -rf "$work/installed"
}

# With the configuration of the archive, from its folder, as its text says.
lock() {
    "$tools/setup.sh" cli
    socket=$work/socket
    (cd "$folder" && exec "$server" redis.conf --port 0 --unixsocket "$socket" --save '' --dir .) >"$work/log" 2>&1 &
    running=$!
    tries=0
    until redis-cli -s "$socket" PING >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] && kill -0 "$running" || fail "the server does not start: $(tail -n 5 "$work/log")"
        sleep 0.2
    done
    redis-cli -s "$socket" LOCK.ACQUIRE lock:a me PX 60000 | sed -n 2p | grep -qx me || fail "no lock is to be had"
    same 'a second owner' "$(redis-cli -s "$socket" LOCK.ACQUIRE lock:a other)" ''
    same release "$(redis-cli -s "$socket" LOCK.RELEASE lock:a me)" 0
    redis-cli -s "$socket" INFO lock | grep -q '^lock_' || fail "INFO lock says nothing"
    redis-cli -s "$socket" SHUTDOWN NOSAVE >/dev/null 2>&1 || :
    wait "$running" || :
    running=
    say "$name: a lock was taken on $(server_version "$server")"
}

contract() {
    [ "$tests" != none ] || return 0
    slowness=1
    [ "${triple%%-*}" = "$(uname -m)" ] || slowness=${SERVER_SLOWNESS:-5}
    # shellcheck disable=SC2086 # a list of words
    REDIS_SERVER=$server REDIS_LOCK_MODULE=$folder/libredis_lock.so SERVER_SLOWNESS=$slowness \
        "$tools/tests.sh" --package redis-lock --test contract -- $tests || fail "tests of the commands"
}

check() {
    triple=$1
    name=$(name_of "$triple")
    folder=$work/$name
    (cd "$dist" && grep -F " $name" SHA256SUMS | sha256sum --check --quiet) || fail "another checksum"
    tar -C "$work" -xzf "$dist/$name.tar.gz"
    tar -C "$work" -xzf "$dist/$name-debug.tar.gz"
    contents
    library
    static_program redis-lock-top --every
    static_program redis-lock-doctor --json
    installation
    if server=$("$here/server.sh" "$triple"); then
        lock
        contract
    else
        left_out="${left_out:-} $triple"
    fi
    rm -rf "$folder" "$folder-debug"
}

for triple; do check "$triple"; done
[ -z "${left_out:-}" ] || die "not run, for want of a server:$left_out"
