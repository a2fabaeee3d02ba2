#!/bin/sh
# Tests the packages like a user would, on minimal machines: the base system of a distribution with its own systemd and
# server. Installs, locks, upgrades under load, switches over, downgrades and removes. Prints the time of each step.
# Needs root and debootstrap. Without arguments it tests everything; RPM=0 skips the .rpm.
#
# usage: [BUILT=folder] [LATER=folder] packages-test.sh [<suite>:<server>...]    bookworm:redis trixie:valkey ...
#        BUILT, LATER: where the library and the two programs are, of this version and of the next patch
set -eu
. "$(dirname -- "$0")/lib.sh"
work=$root/target/packages-test
. "$root/packaging/linux/tests/machine.sh"
cd "$root"

version=$(project_version)
later=${version%.*}.$((${version##*.} + 1))
module=/usr/lib/redis/modules/libredis_lock.so
[ $# != 0 ] || set -- bookworm:redis trixie:redis trixie:valkey noble:redis

[ "$(id -u)" = 0 ] || die "packages-test.sh: only root can make the machines"
for program in debootstrap nsenter unshare python3; do has "$program" || die "missing: $program"; done
[ -n "$cgroups" ] || die "packages-test.sh: no cgroup2 is mounted here, which systemd needs"

# --- Steps and their times.

now() { awk '{ printf "%d\n", $1 * 1000 }' /proc/uptime; }
step() { began=$(now) title=$*; }
done_in() { printf '  %6d ms  %s%s\n' "$(($(now) - began))" "$title" "${1:+: $1}"; }

failed() {
    say "failed at: ${title:-}: $*"
    for name in $machines; do
        on "$name" sh -c 'tail -n 8 /var/log/redis/*.log /var/log/valkey/*.log 2>/dev/null' >&2 || :
    done
    exit 1
}

# Fails the test unless the text contains the words.
tells() {
    case $2 in *"$1"*) ;; *) failed "expected '$1' in: $2" ;; esac
}

# --- What a user types.

install() {
    machine=$1
    shift
    online "$machine" apt-get -q -y -o Dpkg::Use-Pty=0 -o APT::Sandbox::User=root install "$@" 2>&1 || failed "apt-get install $*"
}

cli() { # <machine> <words>: to its server
    name=$1
    shift
    on "$name" "$server-cli" -p "$(port_of "$name")" "$@"
}

port_of() { case $1 in first) echo 6379 ;; second) echo 6380 ;; esac }
restarted() { on "$1" systemctl restart "$server-server" 2>/dev/null; }
restart() { restarted "$1" || failed "the unit does not start"; }
answers() { [ "$(cli "$1" PING 2>/dev/null)" = PONG ]; }
loaded() { cli "$1" INFO modules | sed -n 's/.*name=lock,ver=\([0-9]*\).*/\1/p'; }
number() { echo "$1" | awk -F . '{ print $1 * 10000 + $2 * 100 + $3 }'; }
role() { cli "$1" ROLE | head -n 1; }
token() { cli "$1" LOCK.FENCE "$2"; }
in_step() { cli "$1" INFO replication | grep -q '^master_link_status:up'; }
has_module_of() { [ "$(loaded "$1")" = "$(number "$2")" ] || failed "version $(loaded "$1"), not $2"; }
package() { echo "/packages/redis-lock_$1-1_$arch.deb"; }

begin_load() {
    mkfifo "$work/load.in"
    nsenter --net="/proc/$(pid_of first)/ns/net" python3 "$here/load.py" "$@" <"$work/load.in" >"$work/load.out" 2>&1 &
    load=$!
    exec 9>"$work/load.in"
    rm "$work/load.in"
    sleep 1 # of its own: there is load before anything happens
}

end_load() {
    sleep 1
    exec 9>&-
    wait "$load" || failed "$(cat "$work/load.out")"
    done_in "$(cat "$work/load.out")"
}

# --- The test of one distribution and server.

installs() {
    step "apt-get install $server-server and the package"
    said=$(install first "$server-server" "$(package "$version")")
    tells "loadmodule $module" "$said"
    done_in
    step "two lines in $conf, restart"
    printf 'loadmodule %s\ninclude /etc/redis-lock/redis-lock.conf\n' "$module" | on first tee -a "$conf" >/dev/null
    restart first
    until_true 10 answers first
    has_module_of first "$version"
    [ "$(cli first CONFIG GET tcp-keepalive | tail -n 1)" = 10 ] || failed "the included settings are not in force"
    done_in "$(on first "$server-server" --version | cut -d ' ' -f 1-3)"
    step "a lock from $server-cli, a command under a lock, the live view, the doctor"
    cli first LOCK.ACQUIRE lock:orders:42 worker-1 EX 600 >/dev/null
    tells worker-1 "$(cli first LOCK.INFO lock:orders:42)"
    [ -z "$(cli first LOCK.ACQUIRE lock:orders:42 worker-2)" ] || failed "two holders"
    tells LOCK_KEY=lock:job "$(on first redis-lock lock:job -- env)"
    tells lock:orders:42 "$(on first sh -c '(sleep 2; printf q) | timeout 20 script -qec "stty rows 40 cols 120; redis-lock-top" /dev/null')"
    tells '127.0.0.1:6379: primary' "$(on first redis-lock-doctor || :)"
    tells worker-1 "$(on first redis-lock-top locks)"
    for file in lock.lua alerts.yml redis-lock.conf; do
        on first test -r "/etc/redis-lock/$file" || failed "no /etc/redis-lock/$file"
    done
    for page in man1/redis-lock.1 man1/redis-lock-top.1 man1/redis-lock-doctor.1 man7/redis-lock.7; do
        on first test -s "/usr/share/man/$page.gz" || failed "no $page"
    done
    [ "$(cli first LOCK.RELEASE lock:orders:42 worker-1)" = 0 ]
    done_in
}

# Checks that the unit's protections are active, and that the module is in a folder that they allow.
sandboxed() {
    step "the unit's protections"
    main=$(on first systemctl show --property MainPID --value "$server-server")
    status=$(on first cat "/proc/$main/status" | tr '\t' ' ')
    tells 'NoNewPrivs: 1' "$status"
    tells 'Seccomp: 2' "$status"
    tells 'CapEff: 0000000000000000' "$status"
    tells 'Umask: 0007' "$status"
    [ "$(on first stat -c %U "/proc/$main")" = "$server" ] || failed "not the user $server"
    unit=$(on first systemctl show "$server-server" \
        --property ProtectSystem,MemoryDenyWriteExecute,LimitNOFILE,PrivateUsers,NoExecPaths | sort | tr '\n' ' ')
    tells MemoryDenyWriteExecute=yes "$unit"
    # Where the unit lets nothing be executed, it loads no module: so it is no luck that it does from /usr/lib.
    case $unit in
        *NoExecPaths=/*)
            on first cp "$module" /usr/local/lib/
            on first sed -i.before 's|^loadmodule .*|loadmodule /usr/local/lib/libredis_lock.so|' "$conf"
            refuses first 'failed to map segment'
            ;;
    esac
    done_in "$unit"
}

# Checks that the server does not start and that its log says why. Then restores the configuration (sed -i.before).
refuses() {
    ! restarted "$1" || failed "it starts"
    on "$1" tail -n 20 "/var/log/$server/$server-server.log" | grep -q "$2" || failed "the log does not say: $2"
    on "$1" mv "$conf.before" "$conf"
    on "$1" systemctl reset-failed "$server-server"
    restart "$1"
    until_true 20 answers "$1"
}

# Sentinel sends this at each failover.
rewritten() {
    step "CONFIG REWRITE, restart"
    [ "$(cli first CONFIG SET lock.default-lease-ms 45000)" = OK ]
    [ "$(cli first CONFIG REWRITE)" = OK ] || failed "CONFIG REWRITE"
    restart first
    until_true 10 answers first
    [ "$(cli first CONFIG GET lock.default-lease-ms | tail -n 1)" = 45000 ] || failed "a setting is gone"
    [ "$(on first grep -c "^loadmodule $module" "$conf")" = 1 ] || failed "two loadmodule lines"
    # As redis-lock(7) says: a line that loads in an included file is there twice after a CONFIG REWRITE.
    on first sed -i.before '/^loadmodule .*libredis_lock/d' "$conf"
    on first sh -c "echo loadmodule $module >/etc/redis-lock/load.conf; echo include /etc/redis-lock/load.conf >>$conf"
    restart first
    until_true 20 answers first
    [ "$(cli first CONFIG REWRITE)" = OK ] || failed "CONFIG REWRITE"
    refuses first "Can't load module"
    on first rm /etc/redis-lock/load.conf
    done_in
}

# Upgrades one server to the other version, with its default persistence (RDB) or with an AOF.
moves() {
    step "$1 to $2 under load, on one server, $3"
    cli first LOCK.ACQUIRE lock:long "$3" EX 600 >/dev/null
    before=$(token first lock:long)
    begin_load 6379
    on first redis-lock lock:job -- sh -c 'until [ -e /run/done ]; do sleep 0.1; done' &
    job=$!
    until_true 10 held lock:job
    before_of_job=$(token first lock:job)
    said=$(install first --allow-downgrades "$(package "$2")")
    has_module_of first "$1" # what is loaded stays loaded
    restart first
    until_true 30 answers first
    has_module_of first "$2"
    [ "$(token first lock:long)" = "$before" ] || failed "a held lock is gone"
    [ "$(token first lock:job)" = "$before_of_job" ] || failed "the lock of a running command is gone"
    on first touch /run/done
    wait "$job" || failed "the lock of a running command was lost: $?"
    on first rm /run/done
    end_load
    [ "$(cli first LOCK.RELEASE lock:long "$3" TOKEN "$before")" = 0 ]
}

held() { [ -n "$(cli first LOCK.INFO "$1")" ]; }

killed() {
    step "kill -9 of the server, AOF"
    cli first LOCK.ACQUIRE lock:long killed EX 600 >/dev/null
    before=$(token first lock:long)
    on first systemctl kill --signal KILL "$server-server"
    until_true 20 answers first # its unit starts it again
    [ "$(token first lock:long)" = "$before" ] || failed "a held lock is gone"
    [ "$(cli first LOCK.RELEASE lock:long killed TOKEN "$before")" = 0 ]
    done_in
}

with_aof() {
    [ "$(cli first CONFIG SET appendonly yes)" = OK ]
    [ "$(cli first CONFIG SET save '')" = OK ]
    [ "$(cli first CONFIG REWRITE)" = OK ]
    until_true 20 aof_is_written
}

aof_is_written() { cli first INFO persistence | tr -d '\r' | grep -q -x aof_rewrite_in_progress:0; }

joins() {
    step "a second machine, as a replica"
    boot second "$suite"
    install second "$server-server" "$(package "$version")" >/dev/null
    printf 'loadmodule %s\ninclude /etc/redis-lock/redis-lock.conf\nport 6380\nreplicaof 127.0.0.1 6379\n' "$module" |
        on second tee -a "$conf" >/dev/null
    restart second
    until_true 20 answers second
    until_true 30 in_step second
    done_in
}

# Follows docs/upgrade.md exactly: upgrade the replica, switch over, upgrade the old primary.
upgrades_both() { # <from> <to> <primary> <replica>
    step "$1 to $2 under load, $4 first, then FAILOVER, then $3"
    cli "$3" LOCK.ACQUIRE lock:long holder EX 600 >/dev/null
    before=$(token "$3" lock:long)
    begin_load 6379 6380
    install "$4" --allow-downgrades "$(package "$2")" >/dev/null
    restart "$4"
    until_true 30 in_step "$4"
    has_module_of "$4" "$2"
    has_module_of "$3" "$1"
    [ "$(cli "$3" FAILOVER TO 127.0.0.1 "$(port_of "$4")" TIMEOUT 5000)" = OK ] || failed FAILOVER
    until_true 20 switched "$3" "$4"
    [ "$(token "$4" lock:long)" = "$before" ] || failed "a held lock is gone after the switch"
    cli "$3" CONFIG REWRITE >/dev/null
    cli "$4" CONFIG REWRITE >/dev/null
    install "$3" --allow-downgrades "$(package "$2")" >/dev/null
    restart "$3"
    until_true 30 in_step "$3"
    has_module_of "$3" "$2"
    tells holder "$(cli "$3" LOCK.INFO lock:long)"
    end_load
    [ "$(cli "$4" LOCK.RELEASE lock:long holder TOKEN "$before")" = 0 ]
}

switched() { [ "$(role "$1") $(role "$2")" = "slave master" ]; }

removes() {
    step "remove and purge"
    said=$(online second apt-get -q -y remove redis-lock 2>&1) || failed "$said"
    tells "$conf still names" "$said"
    answers second || failed "the running server does not go on"
    on second test -e /etc/redis-lock/redis-lock.conf || failed "remove took the settings"
    online second apt-get -q -y purge redis-lock >/dev/null 2>&1 || failed purge
    left=$(on second sh -c 'ls -d /etc/redis-lock /usr/lib/redis /usr/share/doc/redis-lock /usr/bin/redis-lock* 2>/dev/null' || :)
    [ -z "$left" ] || failed "left behind: $left"
    ! restarted second || failed "it starts without the module"
    done_in "with the lines left in, the server does not start, as was said"
}

meets() { suite=${1%:*} server=${1#*:} conf=/etc/${1#*:}/${1#*:}.conf; }

tries() {
    meets "$1"
    say "$suite, $server-server"
    step "the bare root"
    "$here/root.sh" "$suite" "$work/roots" || failed debootstrap
    done_in
    step "a machine boots"
    boot first "$suite"
    done_in
    installs
    sandboxed
    rewritten
    moves "$version" "$later" RDB
    with_aof
    moves "$later" "$version" AOF
    killed
    joins
    upgrades_both "$version" "$later" first second
    upgrades_both "$later" "$version" second first
    removes
    halt
}

# --- The packages.

# The same source with the next number, and so another file that says another version of itself.
build_later() {
    LATER=$work/later
    [ -z "$(find "$LATER/libredis_lock.so" -newer "$BUILT/libredis_lock.so" 2>/dev/null)" ] || return 0
    rm -rf "$work/source"
    mkdir -p "$work/source" "$LATER"
    git ls-files -z | xargs -0 cp --parents -t "$work/source"
    sed -i "/^\[workspace.package\]/,/^$/s/^version = .*/version = \"$later\"/" "$work/source/Cargo.toml"
    (cd "$work/source" && CARGO_TARGET_DIR=$work/later-target cargo build --quiet --release --package redis-lock --lib)
    cp "$work/later-target/release/libredis_lock.so" "$LATER/"
    for program in $shipped; do cp "$BUILT/$program" "$LATER/"; done
    rm -rf "$work/source" "$work/later-target"
}

# The .rpm, on a machine of Debian, with a database of rpm's own. What it asks for is left out: rpm knows nothing there.
tries_rpm() {
    has rpm || { say "rpm is not installed: the .rpm is left out"; return; }
    meets "$1"
    say "rpm on $suite"
    "$here/root.sh" "$suite" "$work/roots" || failed debootstrap
    boot first "$suite"
    install first "$server-server" >/dev/null
    elsewhere=/usr/lib64/redis/modules/libredis_lock.so
    step "rpm --install, --verify"
    tells "loadmodule $elsewhere" "$(with_rpm --install --nodeps "$(rpm_package "$version")")"
    with_rpm --verify --nodeps redis-lock
    on first setpriv --reuid "$server" --regid "$server" --clear-groups \
        "$server-server" --port 6390 --dir "/var/lib/$server" --loadmodule "$elsewhere" --daemonize yes >/dev/null
    until_true 10 on first redis-lock -p 6390 lock:job -- true
    done_in
    step "rpm --upgrade, --oldpackage, --erase"
    tells 'until they are restarted' "$(with_rpm --upgrade --nodeps "$(rpm_package "$later")")"
    tells "redis-lock-$later-1" "$(with_rpm --query redis-lock)"
    with_rpm --upgrade --oldpackage --nodeps "$(rpm_package "$version")" >/dev/null
    tells "redis-lock-$version-1" "$(with_rpm --query redis-lock)"
    echo "loadmodule $elsewhere" | on first tee -a "$conf" >/dev/null
    tells "$conf still names" "$(with_rpm --erase redis-lock)"
    left=$(on first sh -c 'ls -d /etc/redis-lock /usr/lib64/redis /usr/share/doc/redis-lock /usr/bin/redis-lock* 2>/dev/null' || :)
    [ -z "$left" ] || failed "left behind: $left"
    done_in
    halt
}

with_rpm() { rpm --root "/proc/$(pid_of first)/root" "$@" 2>&1 || failed "rpm $*"; }
rpm_package() { echo "$work"/packages/redis-lock-"$1"-1.*.rpm; }

BUILT=${BUILT:-$(dirname -- "$(module_path)")}
mkdir -p "$work/roots"
case $(uname -m) in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; esac
trap 'halt; [ "${KEEP:-0}" = 1 ] || rm -rf "$work/roots"' EXIT
trap 'exit 130' INT TERM
step "two versions, $version and $later, packed"
[ -n "${LATER:-}" ] || build_later
for packed in "$version $BUILT" "$later $LATER"; do
    VERSION=${packed%% *} scripts/packages.sh "${packed#* }" "$work/packages" >"$work/packed.log" 2>&1 ||
        failed "$(cat "$work/packed.log")"
done
done_in
[ "${RPM:-1}" = 0 ] || tries_rpm "$1"
for pair; do tries "$pair"; done
