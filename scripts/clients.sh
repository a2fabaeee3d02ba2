#!/bin/sh
# Runs the tests of the client of every language that is installed, and of the programs that use it; or those of
# its adapters for frameworks. Names what was left out. clients/LANGUAGE/needs says which programs that takes, one a
# line. Writes in SQL are tested on SQLite, and on PostgreSQL where that is there or can be installed.
#
# usage: [REQUIRE_ALL=1] [LANGUAGES="python node ..."] [FORM=short] clients.sh [adapters]
#        short: of each language the tests that say most in little time
set -eu
. "$(dirname -- "$0")/lib.sh"

cd "$root"
what=${1:-clients}
table=$(mktemp)
trap 'rm -f "$table" "$table".*' EXIT
passed_all=true

if ! "$tools/setup.sh" postgres; then
    printf '%-8s left out, for want of what is named above: SQLite alone\n' postgres >>"$table"
    [ "${REQUIRE_ALL:-0}" != 1 ] || passed_all=false
fi

# For all that would build them again.
REDIS_LOCK_MODULE=${REDIS_LOCK_MODULE:-$(module_path)}
if [ -z "${TESTBED:-}" ]; then
    "$tools/building.sh" cargo build --quiet --workspace --bin testbed
    TESTBED=$(program_path testbed)
fi
export REDIS_LOCK_MODULE TESTBED

# How many tests passed and failed, by what cargo, pytest, Node, Go, Maven and the tests in shell, PHP and Ruby print.
count() {
    awk '
        /^test result: / || /^(shell|php|ruby): / { for (i = 2; i <= NF; i++) add($i, $(i - 1)) }
        / in [0-9.]+s/ && !/^test result: / { for (i = 2; i <= NF; i++) add($i, $(i - 1)) } # pytest
        $2 == "pass" && NF == 3 { passed += $3 }
        $2 == "fail" && NF == 3 { failed += $3 }
        /^--- PASS/ { passed++ }
        /^--- FAIL/ { failed++ }
        /Tests run:/ && !/ -- in / {
            gsub(",", "")
            passed += $(NF - 6) - $(NF - 4) - $(NF - 2) - $NF
            failed += $(NF - 4) + $(NF - 2)
        }
        function add(what, number) {
            if (what ~ /^passed/) passed += number
            if (what ~ /^(failed|error)/) failed += number
        }
        END { printf "%d passed, %d failed\n", passed, failed }' "$1"
}

# The scripts that test a language.
scripts_of() {
    case $what in
        clients) set -- "clients/$1/run.sh" "examples/$1/run.sh" ;;
        adapters) set -- "clients/$1/adapters.sh" ;;
    esac
    for script; do [ ! -x "$script" ] || echo "$script"; done
}

for needs in clients/*/needs; do
    language=${needs#clients/}
    language=${language%/needs}
    scripts=$(scripts_of "$language")
    [ -n "$scripts" ] || continue
    case " ${LANGUAGES:-$language} " in *" $language "*) ;; *) continue ;; esac
    missing=$(missing_of "$needs")
    # What these take are packages of Debian.
    case $language in php | ruby) "$tools/setup.sh" "$language" || missing="$missing what is named above" ;; esac
    if [ -n "$missing" ]; then
        printf '%-8s left out, for want of%s\n' "$language" "$missing" >>"$table"
        [ "${REQUIRE_ALL:-0}" != 1 ] || passed_all=false
        continue
    fi
    result=passed
    for script in $scripts; do
        printf '\n==> %s\n' "$script"
        # The pipe to tee would hide the script's status.
        rm -f "$table.bad"
        { "$script" 2>&1 || touch "$table.bad"; } | tee "$table.run"
        cat "$table.run" >>"$table.log"
        [ ! -e "$table.bad" ] || touch "$table.failed"
    done
    if [ -e "$table.failed" ]; then
        result='NOT PASSED'
        passed_all=false
    fi
    printf '%-8s %-11s %s\n' "$language" "$result" "$(count "$table.log")" >>"$table"
    rm -f "$table.log" "$table.run" "$table.failed"
done

printf '\n'
cat "$table"
$passed_all
