# shellcheck shell=sh disable=SC2154 # $root and $work are the sourcing script's
# Sourced by packages-test.sh: machines that share a network of their own, each with a systemd that has booted from
# the bare root of a distribution. $work is the folder for them.

machines=''
cgroups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
here=$root/packaging/linux/tests

# Starts a machine with the root of a suite.
boot() {
    name=$1 suite=$2
    mkdir -p "$work/$name" "$cgroups/redis-lock-$name"
    set -- unshare --mount --pid --cgroup --uts --ipc --fork --kill-child \
        sh "$here/boot.sh" "$work/roots/$suite" "$work/$name" "$work/roots/debs/$suite" "$work/packages"
    first=${machines%% *}
    if [ -z "$first" ]; then
        set -- unshare --net "$@"
    else
        set -- nsenter --net="/proc/$(pid_of "$first")/ns/net" "$@"
    fi
    (
        sh -c 'echo $$ >"$1/cgroup.procs"' sh "$cgroups/redis-lock-$name"
        exec sh -c 'echo $$ >"$0/cgroup.procs"; exec setsid "$@"' "$cgroups/redis-lock-$name" "$@"
    ) </dev/null >"$work/$name.log" 2>&1 &
    echo $! >"$work/$name.pid"
    machines="${machines:+$machines }$name"
    until_true 60 booted "$name"
}

booted() {
    pid_of "$1" >/dev/null && on "$1" systemctl is-system-running 2>/dev/null | grep -q -x -e running -e degraded
}

# Of a machine's systemd.
pid_of() {
    below=$(cat "$work/$1.pid")
    while child=$(cat "/proc/$below/task/$below/children" 2>/dev/null) && [ -n "$child" ]; do
        below=${child%% *}
        case $(cat "/proc/$below/comm" 2>/dev/null) in
            systemd)
                echo "$below"
                return
                ;;
        esac
    done
    return 1
}

# Types a command on a machine.
on() {
    machine=$(pid_of "$1")
    shift
    nsenter --target "$machine" --all env -i HOME=/root TERM=xterm PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

# The same, with the network of the one that runs the tests: the machines' own leads nowhere.
online() {
    machine=$(pid_of "$1")
    shift
    nsenter --target "$machine" --mount --pid --ipc --uts \
        env -i HOME=/root DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

# Ends all machines; nothing of them is left.
halt() {
    for name in $machines; do
        machine=$(pid_of "$name") && kill -9 "$machine"
        wait "$(cat "$work/$name.pid")" 2>/dev/null || :
        rm -rf "${work:?}/$name" "$work/$name.pid" "$work/$name.log"
        find "$cgroups/redis-lock-$name" -depth -type d -exec rmdir {} + 2>/dev/null || :
    done
    machines=''
}

# Tries a command until it succeeds, for at most so many seconds.
until_true() {
    end=$(($(date +%s) + $1))
    shift
    until "$@"; do
        [ "$(date +%s)" -lt "$end" ] || { say "in vain: $*"; return 1; }
        sleep 0.1
    done
}
