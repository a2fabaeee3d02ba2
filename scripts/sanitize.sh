#!/bin/sh
# Runs hostile and racing tests on servers that check every memory access. Fails if they report an invalid access or a
# leak in the module.
#
#   address    a Redis that gcc builds with AddressSanitizer from the distribution's source (Debian and derivatives),
#              with a module that is built the same way
#   valgrind   the installed server, or REDIS_SERVER, in valgrind, with a module that uses the system's allocator, which
#              valgrind knows; runs fewer tests, because it is many times slower
#
# usage: [HOSTILE_COMMANDS=n] [HOSTILE_PAYLOADS=n] [HOSTILE_CASES=n] sanitize.sh address|valgrind ...
set -eu
. "$(dirname -- "$0")/lib.sh"
. "$tools/apt.sh"
cd "$root"

reports=$root/.servers/reports
[ "$(uname -s)" = Linux ] || die "sanitize.sh: only on Linux"
host=$(rustc --version --verbose | sed -n 's/^host: //p')
builds=${CARGO_TARGET_DIR:-target}/checked

address_server() {
    kept=$root/.servers/redis-address/redis-server
    if [ -z "$(server_version "$kept")" ]; then
        "$tools/setup.sh" address || return 1
        has apt-get || die "address: the source of Redis is fetched by apt-get, which is not here"
        work_folder "$root/.servers"
        say "fetching the source of Redis"
        source_of_redis "$work" >"$work/log" 2>&1 || die "address: $(grep -m 1 '^E: ' "$work/log" || tail -n 1 "$work/log")"
        say "building it with -fsanitize=address"
        make -C "$work/redis/src" -j "$(nproc)" redis-server SANITIZER=address MALLOC=libc BUILD_TLS=no \
            USE_SYSTEMD=no >"$work/log" 2>&1 || die "address: $(tail -n 3 "$work/log")"
        mkdir -p "${kept%/*}"
        mv "$work/redis/src/redis-server" "$kept"
    fi
    echo "$kept"
}

check_address() {
    server=$(address_server) || return 1
    # Uses an option of the compiler that is still unstable. The server provides the run time library.
    RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address \
        cargo build --quiet --release --lib --package redis-lock --target "$host" --target-dir "$builds" ||
        return 1
    # The server asks for as much as a forged length says, and must survive not getting it.
    REDIS_SERVER=$server REDIS_LOCK_MODULE=$builds/$host/release/libredis_lock.so SERVER_SLOWNESS=3 \
        HOSTILE_COMMANDS=${HOSTILE_COMMANDS:-10000} HOSTILE_PAYLOADS=${HOSTILE_PAYLOADS:-6000} \
        ASAN_OPTIONS="log_path=$reports/address:allocator_may_return_null=1:handle_segv=2:handle_abort=2" \
        "$tools/tests.sh" --profile checked \
        --test hostile --test waiting --test races --test persistence --test neighbours
}

check_valgrind() {
    "$tools/setup.sh" server valgrind || return 1
    real=$(command -v "${REDIS_SERVER:-redis-server}")
    server=$root/.servers/valgrind-server
    # Do not check the server when it only prints its version, which happens often.
    cat >"$server" <<END
#!/bin/sh
[ "\$1" != --version ] || exec "$real" --version
exec valgrind --quiet --log-file="$reports/valgrind.%p" --leak-check=full --show-leak-kinds=definite \
    --suppressions="$tools/valgrind.supp" --num-callers=40 "$real" "\$@"
END
    chmod +x "$server"
    cargo build --quiet --release --lib --package redis-lock --features system-allocator --target "$host" \
        --target-dir "$builds/valgrind" || return 1
    export REDIS_SERVER="$server" REDIS_LOCK_MODULE="$builds/valgrind/$host/release/libredis_lock.so"
    export SERVER_SLOWNESS=20 HOSTILE_COMMANDS="${HOSTILE_COMMANDS:-2000}" HOSTILE_PAYLOADS="${HOSTILE_PAYLOADS:-1000}"
    export HOSTILE_CASES="${HOSTILE_CASES:-500}"
    "$tools/tests.sh" --profile checked --test hostile || return 1
    # Only tests whose leases and waits are long enough for a slow server.
    "$tools/tests.sh" --profile checked --test-threads 2 --test waiting --test races --test neighbours -- \
        order:: owners:: siblings:: chains:: closing:: calls:: killed:: refused:: threads::
}

# Prints the reports that mention the module, one paragraph each, and whatever stopped a server.
of_the_module() {
    for report in "$reports"/*; do
        [ -e "$report" ] || continue
        sed 's/^==[0-9]*== \{0,1\}//' "$report" |
            awk -v RS= -v file="${report##*/}" '/redis_lock|ERROR: AddressSanitizer/ { print file ":\n" $0 "\n" }'
    done
}

[ $# -gt 0 ] || die "usage: sanitize.sh address|valgrind ..."
passed=true
for checker; do
    case $checker in address | valgrind) ;; *) die "sanitize.sh: no such checker: $checker" ;; esac
    printf '\n==> %s\n' "$checker"
    rm -rf "$reports"
    mkdir -p "$reports"
    # In a subshell, so that its exports stay local.
    if ("check_$checker"); then ended=well; else ended=badly; fi
    told=$(of_the_module)
    if [ -n "$told" ]; then printf '\n%s\n' "$told"; fi
    if [ $ended = well ] && [ -z "$told" ]; then
        echo "$checker: passed"
    else
        echo "$checker: NOT PASSED (reports in .servers/reports)"
        passed=false
    fi
done
$passed
