#!/usr/bin/env bash
# The example programs with redis-cli: see examples/README.md for what each does.

cd "$(dirname -- "${BASH_SOURCE[0]}")" || exit
# shellcheck disable=SC2034 # read by redis-lock
REDIS_LOCK=functions REDIS_LOCK_SERVICE=examples
. ../../clients/shell/redis-lock
export REDIS_LOCK_SERVICE
lost=76

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
    local left
    left=$(ask GET '{stock}:left') || fail "$left"
    [[ $left != 0 ]] || exit $refused
    pause 2
    written "$BUY" 3 'lock:{stock}' '{stock}:left' '{stock}:sold' "$LOCK_TOKEN" "$((left - 1))" "$name" || exit $stale
    exit $sold
}

buy() {
    local outcome
    while :; do
        ../../clients/shell/redis-lock -p "$port" -l 10s -w 60s 'lock:{stock}' -- \
            bash programs.sh attempt --port "$port" --name "$1" &
        trap 'kill $!; wait $!; exit 143' TERM
        wait $!
        outcome=$?
        [[ $outcome == "$lost" ]] || echo $outcome >>"$outcomes"
        [[ $outcome == "$lost" || $outcome == "$stale" ]] || break
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

job() {
    local keys=('lock:{job}' "{job}:$run:step" "{job}:$run:log" "{job}:$run:done") done=0 step last status
    begin -l "$lease_ms" 'lock:{job}'
    # SIGTERM says that the lock is lost, or that the program is to end.
    trap 'stop_when_lost; unlock; exit 143' TERM
    stop_when_lost() { held || { echo "{\"job\": \"lost\", \"steps\": $done}"; exit 0; }; }
    if [[ $(ask EXISTS "${keys[3]}") != 0 ]]; then
        unlock || exit
        echo '{"job": "skipped"}'
        return
    fi
    step=$(ask GET "${keys[1]}") || fail "$step"
    for ((step = ${step:-0} + 1; step <= steps; step++)); do
        pause "$step_ms" # works
        stop_when_lost
        last=$((step == steps))
        written "$STEP" 4 "${keys[@]}" "$LOCK_TOKEN" "$step" "$LOCK_TOKEN $name" "$last" ||
            { echo "{\"job\": \"lost\", \"steps\": $done}"; exit; }
        done=$((done + 1))
    done
    unlock
    status=$?
    [[ $status == 0 || $status == "$lost" ]] || exit 1
    echo "{\"job\": \"completed\", \"steps\": $done}"
}

# Takes a lock for this process.
begin() { lock -p "$port" -w 60s "$@" || fail 'not locked'; }

# The last seat, kept in one row that is there, in one that is not there yet, and in several tables: see
# docs/fencing.md. To sell it, each way has a claim, which changes no row for a stale token;
ways=(row new_row tables)
declare -A claims=(
    [row]="UPDATE seats SET fence = :token WHERE id = 42 AND fence <= :token"
    [new_row]="INSERT INTO bookings (id, fence) VALUES (42, :token) ON CONFLICT (id)
        DO UPDATE SET fence = excluded.fence WHERE bookings.fence <= excluded.fence"
    [tables]="INSERT INTO fences (name, fence) VALUES ('lock:{order}', :token) ON CONFLICT (name)
        DO UPDATE SET fence = excluded.fence WHERE fences.fence <= excluded.fence"
)
# what tells how many are free;
declare -A free_seats=(
    [row]="SELECT count(*) FROM seats WHERE id = 42 AND buyer IS NULL"
    [new_row]="SELECT count(*) FROM bookings WHERE id = 42 AND buyer IS NULL"
    [tables]="SELECT free FROM stock WHERE id = 42"
)
# and the sale, whose last statement changes no row when the claim does not stand any more. The first
# of several keeps the claim from being taken over until all are done.
still_claimed="EXISTS (SELECT 1 FROM fences WHERE name = 'lock:{order}' AND fence = :token)"
declare -A sales=(
    [row]="UPDATE seats SET buyer = :'name' WHERE id = 42 AND fence = :token"
    [new_row]="UPDATE bookings SET buyer = :'name' WHERE id = 42 AND fence = :token"
    [tables]="UPDATE fences SET fence = :token WHERE name = 'lock:{order}' AND fence = :token;
        UPDATE stock SET free = free - 1 WHERE id = 42 AND $still_claimed;
        INSERT INTO sales (buyer, token) SELECT :'name', :token WHERE $still_claimed"
)

# Executes statements in one transaction. Prints the value that the last one selected, or how many rows
# it has changed.
in_sql() {
    local text=$1 answer
    case $sql in
        sqlite:*)
            text=${text//":'name'"/"'${name//"'"/"''"}'"}
            text=${text//":token"/$token}
            [[ $text == SELECT* ]] || text="BEGIN IMMEDIATE; $text; SELECT changes(); COMMIT"
            answer=$(sqlite3 -bail -cmd '.timeout 30000' "${sql#sqlite:}" "$text") ;;
        *) answer=$(psql -XAt -v ON_ERROR_STOP=1 -v name="$name" -v token="$token" -1 -f - "$sql" <<<"$text") ;;
    esac || fail 'the database has not answered'
    echo "${answer##*[ $'\n']}" # psql says `INSERT 0 1`
}

fence() {
    local token way told
    local -A free outcome=([redis]=refused)
    [[ $sql == sqlite:* ]] || command -v psql >/dev/null || misused "psql is not installed"
    begin -l "$lease_ms" -k 1s --grace forever 'lock:{order}'
    # Goes on when the lock is lost: the writes are to be late, and to be refused.
    trap 'if held; then unlock; exit 143; fi' TERM
    token=$LOCK_TOKEN
    for way in "${ways[@]}"; do
        free[$way]=$(in_sql "${claims[$way]}") || exit
        [[ ${free[$way]} == 0 ]] && free[$way]=stale && continue
        free[$way]=$(in_sql "${free_seats[$way]}") || exit
    done
    echo "{\"event\": \"held\", \"token\": $token}"
    pause "$work_ms"
    trap '' TERM # which a loss sends to what writes, too
    ! written "$WRITE" 2 'lock:{order}' '{order}:state' "$token" "$name" || outcome[redis]=written
    told="{\"redis\": \"${outcome[redis]}\""
    for way in "${ways[@]}"; do
        case ${free[$way]} in
            stale) outcome[$way]=0 ;;
            0) outcome[$way]=sold ;;
            *) outcome[$way]=$(in_sql "${sales[$way]}") || exit ;;
        esac
        case ${outcome[$way]} in 0) outcome[$way]=refused ;; 1) outcome[$way]=written ;; esac
        told+=", \"$way\": \"${outcome[$way]}\""
    done
    unlock 2>/dev/null # where it is lost, that is as it should be
    echo "$told}"
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
    attempt) needs=port texts=name ;;
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
"$program"
