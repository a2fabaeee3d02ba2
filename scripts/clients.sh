#!/bin/sh
# Runs the tests of the client of every language that is installed, and names what was left out.
# A folder of a language has run.sh, and in `needs` the programs that it takes, one a line. Writes in SQL
# are tested on SQLite, and on PostgreSQL where that is there or can be installed.
#
# usage: [REQUIRE_ALL=1] [LANGUAGES="python node ..."] clients.sh
set -eu
. "$(dirname -- "$0")/lib.sh"

cd "$root/clients"
table=$(mktemp)
trap 'rm -f "$table"' EXIT
passed_all=true

if ! "$tools/setup.sh" postgres; then
    printf '%-8s left out, for want of what is named above: SQLite alone\n' postgres >>"$table"
    [ "${REQUIRE_ALL:-0}" != 1 ] || passed_all=false
fi

missing_of() {
    while read -r program; do
        has "$program" || printf ' %s' "$program"
    done <"$1/needs"
}

for script in */run.sh; do
    language=${script%/run.sh}
    case " ${LANGUAGES:-$language} " in *" $language "*) ;; *) continue ;; esac
    missing=$(missing_of "$language")
    if [ -n "$missing" ]; then
        printf '%-8s left out, for want of%s\n' "$language" "$missing" >>"$table"
        [ "${REQUIRE_ALL:-0}" != 1 ] || passed_all=false
        continue
    fi
    printf '\n==> clients/%s\n' "$language"
    log=$table.log
    # The pipe to tee would hide the script's status.
    { "$script" 2>&1 && echo passed >"$log.result" || echo "NOT PASSED" >"$log.result"; } | tee "$log"
    printf '%-8s %-11s %s\n' "$language" "$(cat "$log.result")" "$(tail -n 1 "$log")" >>"$table"
    grep -qx passed "$log.result" || passed_all=false
    rm -f "$log" "$log.result"
done

printf '\n'
cat "$table"
$passed_all
