#!/usr/bin/env bash
# Locks of redis-lock for shell scripts, on redis-cli. Copy this file. Bash 4.4 or later, Linux.
#
#     redis-lock.sh -l 30000 -w 10000 lock:orders:42 ./pay-order.sh 42      # as a command, like flock(1)
#
#     . redis-lock.sh                                                  # or as a function
#     pay() { token=$(lock_token) && psql -v t="$token" -f pay.sql; }  # claims, reads, writes
#     with_lock -l 30000 -w 10000 lock:orders:42 pay
#
# Times are in ms: -l the lease (30000), -w how long to wait in line (not at all). The exit status is
# that of the command; 75 when another owner has the lock still, 76 when the lock was lost, 69 when no
# server answers. The command finds its token in $LOCK_TOKEN.
#
# - The command is a process of its own, and the owner of the lock. What it starts may use the same
#   lock again: one more hold of the same grant; the holds may end in any order.
# - A wait is one call on a connection of its own, first come, first served. SIGINT, SIGTERM and SIGHUP
#   cancel it at once: neither a wait nor a hold stays.
# - The grant is renewed every third of its lease, by the process that called with_lock, and by one
#   process however many holds there are; not while the command is stopped (SIGSTOP).
# - When the lock is lost, or its lease, counted from the sending of the call that set it, has passed
#   without an answer, the command and what it started get SIGTERM; lock_token and lock_check fail.
# - Calls whose replies were lost are repeated, and do not add up.
# - SIGTERM ends the command and releases. After a kill -9 of both processes the lease ends by itself.
#
# What no lock can do: stop work that goes on after its lease. So what is written to has to look at the
# token. In SQL, claim the row, then read, then write under the claim:
#
#     UPDATE orders SET fence = :t WHERE id = 42 AND fence <= :t;         -- no row: stale, stop
#     SELECT state FROM orders WHERE id = 42;
#     UPDATE orders SET state = 'paid' WHERE id = 42 AND fence = :t;      -- no row: stale, not written
#
# docs/fencing.md of redis-lock says why, and has the other cases; programs.sh has them in a script. In
# Redis it is LOCK.FENCE in the script that writes.
#
# LOCK_CLI        how to reach the server (redis-cli); for a cluster: "redis-cli -c -h HOST -p PORT"
# LOCK_SENTINELS  "HOST:PORT ..." of Sentinels, and LOCK_SENTINEL_NAME what they call the primary
# LOCK_SERVICE    the first part of the owner's name (shell)

LOCK_BUSY=75 LOCK_LOST=76 LOCK_UNAVAILABLE=69
_lock_call_limit=2000 # ms until a call that does not wait is given up, to be repeated
_lock_patience=5000   # ms of repeating where neither a wait nor a lease sets an end

# Prints the token, for the process that has the lock. Fails once it is in doubt.
lock_token() { lock_check && printf '%s\n' "$LOCK_TOKEN"; }

# Fails unless the lock is still this owner's, as far as can be known.
lock_check() { _lock_is_trusted "${LOCK_FOLDER:-none}"; }

# with_lock [-l lease-ms] [-w wait-ms] key command [argument...]
with_lock() {
    local - flags=${-//[^eu]/} # a script's `set -eu` is for its command, not for what is here
    set +eu
    local lease=30000 wait=0 option OPTIND=1
    while getopts l:w: option; do
        case $option in l) lease=$OPTARG ;; w) wait=$OPTARG ;; *) return 64 ;; esac
    done
    shift $((OPTIND - 1))
    (($# >= 2)) || { echo 'usage: redis-lock.sh [-l lease-ms] [-w wait-ms] key command...' >&2; return 64; }
    local key=$1 folder='' again='' held uuid work caught='' traps status now sent reply
    shift
    for held in $LOCK_HELD; do
        [[ $(cat "$held/key" 2>/dev/null) != "$key" ]] || folder=$held again=yes
    done
    [[ $folder ]] || folder=$(mktemp -d) || return
    [[ $again ]] || printf '%s' "$key" >"$folder/key"
    read -r uuid </proc/sys/kernel/random/uuid
    traps=$(trap -p INT TERM HUP)
    trap 'caught=INT' INT
    trap 'caught=TERM' TERM
    trap 'caught=HUP' HUP
    set -m # the command is a process group of its own: what it starts can be ended with it
    _lock_work "$@" <&0 &
    work=$!
    set +m
    _lock_keep
    status=$?
    trap - INT TERM HUP
    eval "$traps"
    [[ ! $caught ]] || kill -s "$caught" "$BASHPID"
    return "$status"
}

# The process that is to have the lock: takes it and becomes the command.
_lock_work() {
    trap - INT TERM HUP
    if [[ $again ]]; then _lock_in_turn _lock_enter_again; else _lock_first_hold; fi || exit
    export LOCK_FOLDER=$folder LOCK_HELD="$folder $LOCK_HELD" LOCK_TOKEN
    LOCK_TOKEN=$(<"$folder/token")
    : >"$folder/holds.$BASHPID" # from here on with_lock keeps the lock for it
    [[ $(type -t -- "$1") != file ]] || exec "$@"
    [[ ! $flags ]] || set "-$flags"
    "$@"
}

_lock_first_hold() {
    local until left owner self=$BASHPID
    owner=$(_lock_owner "$self")
    local acquire=(LOCK.ACQUIRE "$key" "$owner" PX "$lease" HOLDS 1)
    _lock_now
    until=$((now + wait))
    while :; do
        _lock_now
        _lock_repeat $((until > now + _lock_patience ? until : now + _lock_patience)) "${acquire[@]}" || return
        [[ ! ${reply[0]} ]] || break
        _lock_now
        left=$((until - now))
        ((left > 0)) || return $LOCK_BUSY
        # One waiting call, whose connection reads for longer than the wait.
        _lock_send $((left + _lock_patience)) "${acquire[@]}" BLOCK "$left"
        case $? in 0) ;; "$LOCK_UNAVAILABLE") sleep 0.1; continue ;; *) return ;; esac
        [[ ${reply[0]} ]] || return $LOCK_BUSY
        # When the grant was made cannot be known, so the lease is counted from a renewal.
        _lock_now
        ! _lock_repeat $((now + lease)) LOCK.RENEW "$key" "$owner" TOKEN "${reply[0]}" || break
    done
    printf '%s' "${reply[0]}" >"$folder/token"
    printf '%s' "$owner" >"$folder/owner"
    printf 1 >"$folder/count"
    _lock_lengthen "${reply[3]}"
}

_lock_enter_again() {
    local count deadline
    _lock_is_trusted "$folder" || return
    read -r deadline _ <"$folder/times"
    count=$(($(<"$folder/count") + 1))
    _lock_repeat "$deadline" LOCK.ACQUIRE "$key" "$(<"$folder/owner")" PX "$lease" \
        HOLDS "$count" TOKEN "$(<"$folder/token")" || return
    printf '%s' "$count" >"$folder/count"
    _lock_lengthen "${reply[3]}"
}

# What with_lock does while the command waits for the lock or has it: until it has ended.
_lock_keep() {
    local never told='' status holds=$folder/holds.$work
    exec {never}<> <(:)
    while kill -0 "$work" 2>/dev/null && [[ ! $caught ]]; do
        if [[ ! $told && -e $holds ]] && ! _lock_renew_when_due; then
            told=yes
            kill -s TERM -- "-$work" 2>/dev/null
        fi
        read -rt 0.02 -u "$never"
    done
    exec {never}>&-
    if [[ $caught ]]; then
        [[ -e $holds ]] || _lock_cancel
        kill -s "$caught" -- "-$work" 2>/dev/null
    fi
    until wait "$work"; status=$?; ! kill -0 "$work" 2>/dev/null; do :; done # a signal ends `wait`, too
    if [[ -e $holds ]]; then
        _lock_in_turn _lock_release || status=$LOCK_LOST
    elif [[ ! $again ]]; then
        ((status == LOCK_BUSY)) && [[ ! $caught ]] || _lock_cancel # a grant that crossed the signal
        rm -rf "$folder"
    fi
    return "$status"
}

# Renews every third of the lease; of those that keep the same grant, one. Fails when it is lost.
_lock_renew_when_due() {
    local deadline renew_at renewer
    _lock_is_trusted "$folder" 2>/dev/null || return
    renewer=$(cat "$folder/renewer" 2>/dev/null)
    if [[ $renewer != "$BASHPID" ]]; then
        kill -0 "${renewer:-none}" 2>/dev/null || printf '%s' "$BASHPID" >"$folder/renewer"
        return 0
    fi
    read -r deadline renew_at <"$folder/times"
    _lock_now
    ((now >= renew_at)) && ! grep -q ') T' "/proc/$work/stat" 2>/dev/null || return 0
    ((deadline - now < _lock_call_limit)) || deadline=$((now + _lock_call_limit))
    _lock_send $((deadline - now)) LOCK.RENEW "$key" "$(<"$folder/owner")" TOKEN "$(<"$folder/token")"
    case $? in
        0) _lock_in_turn _lock_lengthen "${reply[3]}" ;;
        "$LOCK_LOST") echo "a renewal was answered ${reply[0]}" >"$folder/lost"; return $LOCK_LOST ;;
    esac
    return 0
}

_lock_release() {
    local owner token deadline count status=0
    owner=$(<"$folder/owner") token=$(<"$folder/token") count=$(($(<"$folder/count") - 1))
    printf '%s' "$count" >"$folder/count"
    if _lock_is_trusted "$folder"; then
        read -r deadline _ <"$folder/times"
        _lock_now
        ((deadline < now + _lock_patience)) || deadline=$((now + _lock_patience))
        # redis-cli itself repeats a call whose reply was lost, so NOTHELD to a release does not tell
        # whether the lock was lost before. To a renewal it does.
        _lock_repeat "$deadline" LOCK.RENEW "$key" "$owner" TOKEN "$token"
        case $? in
            0) _lock_lengthen "${reply[3]}"
                _lock_repeat "$deadline" LOCK.RELEASE "$key" "$owner" HOLDS "$count" TOKEN "$token" ;;
            "$LOCK_LOST") printf 'the lock is lost: %s\n' "${reply[0]}" >&2; status=$LOCK_LOST ;;
        esac # no answer: the lease will end
    else
        status=$LOCK_LOST
    fi
    ((count)) || rm -rf "$folder"
    return "$status"
}

# Sees to it that the owner neither holds nor waits.
_lock_cancel() { _lock_send $_lock_call_limit LOCK.RELEASE "$key" "$(_lock_owner "$work")" ALL; }

_lock_owner() { printf '%s:%s:%s:%s' "${LOCK_SERVICE:-shell}" "$HOSTNAME" "$1" "$uuid"; }

# Sets `now`, in ms. Nobody sets this clock, and it is rounded down.
_lock_now() {
    local up
    read -r up _ </proc/uptime
    now=$((10#${up/./} * 10))
}

# From the call that was answered last, with this lease.
_lock_lengthen() {
    local deadline=0
    [[ ! -e $folder/times ]] || read -r deadline _ <"$folder/times"
    ((deadline > sent + $1)) || deadline=$((sent + $1))
    echo "$deadline $((sent + $1 / 3))" >"$folder/times.$BASHPID"
    mv "$folder/times.$BASHPID" "$folder/times" # at once, for those that read it
}

_lock_is_trusted() {
    local now deadline=0 why='the lease has passed'
    _lock_now
    { read -r deadline _ <"$1/times"; } 2>/dev/null
    ((now + 10 < deadline)) && [[ ! -e $1/lost ]] && return
    { read -r why <"$1/lost"; } 2>/dev/null
    printf 'the lock is lost: %s\n' "$why" >&2
    return $LOCK_LOST
}

# One process at a time changes the count or the times of a grant.
_lock_in_turn() {
    local turn status
    exec {turn}>"$folder/turn"
    flock "$turn"
    "$@"
    status=$?
    exec {turn}>&-
    return $status
}

# Sends a call until it is answered or refused, or the time is up.
_lock_repeat() {
    local until=$1 status
    shift
    while :; do
        _lock_send $_lock_call_limit "$@" && return
        status=$?
        _lock_now
        ((status == LOCK_UNAVAILABLE && now + 100 < until)) || return $status
        sleep 0.1
    done
}

# Sends a call, sets `reply` to the lines of the answer and `sent` to when. LOCK_LOST when it was
# refused, LOCK_UNAVAILABLE when there was no answer, or that of a server which cannot serve now.
_lock_send() {
    local limit=$1 answer where sentinel found
    shift
    read -ra where <<<"${LOCK_CLI:-redis-cli}"
    for sentinel in $LOCK_SENTINELS; do
        mapfile -t found < <(timeout --foreground 1 "${where[@]}" -h "${sentinel%:*}" -p "${sentinel##*:}" \
            SENTINEL GET-MASTER-ADDR-BY-NAME "$LOCK_SENTINEL_NAME" 2>/dev/null </dev/null)
        [[ ${#found[@]} != 2 ]] || { where+=(-h "${found[0]}" -p "${found[1]}"); break; }
    done
    _lock_now
    sent=$now
    answer=$(exec timeout --foreground "$((limit / 1000)).$(printf %03d $((limit % 1000)))" \
        "${where[@]}" "$@" 2>&1 </dev/null) || return $LOCK_UNAVAILABLE
    mapfile -t reply <<<"$answer"
    case ${reply[0]} in
        '' | [0-9]*) return 0 ;;
        NOTHELD* | NOTOWNER* | FENCED*) return $LOCK_LOST ;;
        UNBLOCKED* | READONLY* | LOADING* | MASTERDOWN* | CLUSTERDOWN* | TRYAGAIN* | NOREPLICAS* | MISCONF*)
            return $LOCK_UNAVAILABLE ;;
    esac
    printf '%s\n' "$answer" >&2
    return 70
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    with_lock "$@"
fi
