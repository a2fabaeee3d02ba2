#!/usr/bin/env bash
# The example programs with redis-cli: see examples/README.md for what each does.

cd "$(dirname -- "${BASH_SOURCE[0]}")" || exit
. ./redis-lock.sh
LOCK_SERVICE=examples

BUY="
redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
redis.call('SET', KEYS[2], ARGV[2])
redis.call('RPUSH', KEYS[3], ARGV[3])"
WRITE="
redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
redis.call('SET', KEYS[2], ARGV[2])"
STEP="
redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
redis.call('SET', KEYS[2], ARGV[2])
redis.call('RPUSH', KEYS[3], ARGV[2] .. ' ' .. ARGV[3])
if ARGV[4] == '1' then redis.call('SET', KEYS[4], ARGV[3]) end"

fail() { printf '%s\n' "$*" >&2; exit 1; }
misused() { printf '%s\n' "$*" >&2; exit 2; }

# Prints what the server answers, and fails when that is an error.
ask() { redis-cli -e -p "$port" "$@" 2>&1 </dev/null; }

# Runs a script that writes. Fails when the token is not that of the current grant.
written() {
    local answer
    answer=$(ask EVAL "$@") && return
    [[ $answer == FENCED* ]] || fail "$answer"
    return 1
}

pause() { sleep "$(($1 / 1000)).$(printf %03d "$(($1 % 1000))")"; }

# The outcome of an attempt to buy, as exit status.
sold=10 refused=11 stale=12

attempt() {
    local left token
    left=$(ask GET '{stock}:left') || fail "$left"
    [[ $left != 0 ]] || return $refused
    pause 2
    token=$(lock_token) || return
    written "$BUY" 3 'lock:{stock}' '{stock}:left' '{stock}:sold' "$token" "$((left - 1))" "$1" || return $stale
    return $sold
}

buy() {
    local outcome
    while :; do
        with_lock -l 10000 -w 60000 'lock:{stock}' attempt "$1"
        outcome=$?
        [[ $outcome == "$LOCK_LOST" ]] || echo $outcome >>"$outcomes"
        [[ $outcome == "$LOCK_LOST" || $outcome == "$stale" ]] || break
    done
}

stock() {
    local number outcomes
    outcomes=$(mktemp) || exit 1
    # shellcheck disable=SC2046 # a list of processes
    trap 'kill -TERM $(jobs -p); wait; rm -f "$outcomes"; exit 143' TERM
    for ((number = 1; number <= buyers; number++)); do buy "$name-$number" & done
    wait
    count() { grep -cx "$1" "$outcomes"; }
    local counted="{\"sold\": $(count $sold), \"refused\": $(count $refused), \"stale_refused\": $(count $stale)}"
    number=$(grep -cvxE "$sold|$refused|$stale" "$outcomes")
    rm -f "$outcomes"
    ((number == 0)) || fail "$number buyers failed"
    echo "$counted"
}

seat() {
    local lock='lock:{seat}' paid='{seat}:paid' owner="seat:$user" answer
    case $what in
        hold)
            local block=() answers
            ((wait_ms == 0)) || block=(BLOCK "$wait_ms")
            answers=$(mktemp) || exit 1
            # A connection of its own, which reads for longer than the wait.
            timeout --foreground "$((wait_ms / 1000 + 5))" redis-cli -e -p "$port" LOCK.ACQUIRE "$lock" "$owner" \
                HOLDS 1 PX "$lease_ms" "${block[@]}" >"$answers" 2>&1 </dev/null &
            trap 'kill $!; rm -f "$answers"; exit 143' TERM
            wait $!
            local status=$?
            trap - TERM
            answer=$(head -n 1 "$answers")
            rm -f "$answers"
            ((status == 0)) || fail "$answer"
            if [[ ! $answer ]]; then
                echo '{"seat": "taken"}'
            elif [[ $(ask EXISTS "$paid") == 1 ]]; then
                ask LOCK.RELEASE "$lock" "$owner" ALL TOKEN "$answer" >/dev/null || fail 'not released'
                echo '{"seat": "sold"}'
            else
                echo "{\"seat\": \"held\", \"token\": $answer}"
            fi
            ;;
        extend)
            if answer=$(ask LOCK.RENEW "$lock" "$owner" PX "$lease_ms" TOKEN "$token"); then
                echo '{"seat": "extended"}'
            else
                case $answer in NOTHELD* | NOTOWNER* | FENCED*) echo '{"seat": "lapsed"}' ;; *) fail "$answer" ;; esac
            fi
            ;;
        pay)
            if written "$WRITE" 2 "$lock" "$paid" "$token" "$user"; then
                ask LOCK.RELEASE "$lock" "$owner" ALL TOKEN "$token" >/dev/null || fail 'not released'
                echo '{"seat": "paid"}'
            else
                echo '{"seat": "lapsed"}'
            fi
            ;;
    esac
}

job_steps() {
    local keys=('lock:{job}' "{job}:$run:step" "{job}:$run:log" "{job}:$run:done") done=0 step last token
    trap 'lost; exit 143' TERM
    # SIGTERM says that the lock is lost, or that the program is to end.
    lost() { lock_check 2>/dev/null || { echo "{\"job\": \"lost\", \"steps\": $done}"; exit 0; }; }
    [[ $(ask EXISTS "${keys[3]}") == 0 ]] || { echo '{"job": "skipped"}'; return; }
    step=$(ask GET "${keys[1]}") || fail "$step"
    for ((step = ${step:-0} + 1; step <= steps; step++)); do
        pause "$step_ms" # works
        lost
        token=$LOCK_TOKEN last=$((step == steps))
        written "$STEP" 4 "${keys[@]}" "$token" "$step" "$token $name" "$last" ||
            { echo "{\"job\": \"lost\", \"steps\": $done}"; return; }
        done=$((done + 1))
    done
    echo "{\"job\": \"completed\", \"steps\": $done}"
}

job() {
    with_lock -l "$lease_ms" -w 60000 'lock:{job}' job_steps
    local status=$?
    [[ $status != "$LOCK_LOST" ]] || return 0 # told by the steps
    return $status
}

fence_writes() {
    local token redis=refused in_sql=refused
    token=$(lock_token) || return
    echo "{\"event\": \"held\", \"token\": $token}"
    # Goes on when the lock is lost: the writes are to be late, and to be refused.
    trap '! lock_check 2>/dev/null || exit 143' TERM
    pause "$work_ms"
    ! written "$WRITE" 2 'lock:{order}' '{order}:state' "$token" "$name" || redis=written
    ! written_in_sql "$token" || in_sql=written
    echo "{\"redis\": \"$redis\", \"sql\": \"$in_sql\"}"
}

written_in_sql() {
    local changed update="UPDATE orders SET state = :'name', fence = :token WHERE id = 42 AND fence <= :token"
    case $sql in
        sqlite:*)
            update=${update//":'name'"/"'${name//"'"/"''"}'"}
            changed=$(sqlite3 -cmd '.timeout 30000' "${sql#sqlite:}" "${update//":token"/$1}; SELECT changes()") ;;
        *) changed=$(psql -X -v ON_ERROR_STOP=1 -v name="$name" -v token="$1" "$sql" <<<"$update") ;;
    esac || fail 'the database has not answered'
    [[ ${changed##* } == 1 ]]
}

fence() {
    [[ $sql == sqlite:* ]] || command -v psql >/dev/null || misused "psql is not installed"
    with_lock -l "$lease_ms" -w 60000 'lock:{order}' fence_writes
    local status=$?
    [[ $status != "$LOCK_LOST" ]] || return 0 # as it should be where the writes were refused
    return $status
}

program=$1
shift
while (($#)); do
    (($# >= 2)) && [[ $1 == --* ]] || misused "not an option with a value: $1"
    case ${1#--} in
        port | name | buyers | user | token | run | steps | sql) declare "${1#--}=$2" ;;
        step-ms | lease-ms | wait-ms | work-ms) option=${1#--}; declare "${option//-/_}=$2" ;;
        do) what=$2 ;;
        *) misused "not an option: $1" ;;
    esac
    shift 2
done
case $program${what:+ $what} in
    stock) needs='port buyers' texts=name ;;
    'seat hold') needs='port lease_ms wait_ms' texts=user ;;
    'seat extend') needs='port token lease_ms' texts=user ;;
    'seat pay') needs='port token' texts=user ;;
    job) needs='port steps step_ms lease_ms' texts='name run' ;;
    fence) needs='port lease_ms work_ms' texts='name sql' ;;
    *) misused 'usage: programs.sh stock|seat|job|fence --port P ...' ;;
esac
for option in $needs; do [[ ${!option} =~ ^[0-9]+$ ]] || misused "--${option//_/-} takes a number"; done
for option in $texts; do [[ ${!option} ]] || misused "--$option is missing"; done
LOCK_CLI="redis-cli -p $port"
"$program"
