#!/bin/sh
# Runs the tests of the client of every installed language and of the examples that use it, or the tests of its adapters
# for frameworks. Names the languages that were skipped. clients/LANGUAGE/needs lists the programs that a language
# needs, one per line. Writes in SQL are tested on SQLite, and on PostgreSQL if it is installed or can be installed.
#
# usage: [REQUIRE_ALL=1] [LANGUAGES="python node ..."] [FORM=short] [JOBS=1] clients.sh [clients|adapters [LANGUAGE]]
#        short: only the most useful tests of each language
#        JOBS: how many languages to run at once; each prints its output when it ends
#        LANGUAGE: only this language, with its results in the folder ROWS; this is how the script calls itself
set -eu
. "$(dirname -- "$0")/lib.sh"

cd "$root"
what=${1:-clients}

# Counts passed and failed tests in the output of cargo, pytest, Node, Go, Maven and the tests in shell, PHP and Ruby.
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

run() {
    log=$ROWS/$1.log
    result=passed
    for script in $(scripts_of "$1"); do
        printf '\n==> %s\n' "$script"
        # The pipe to tee would hide the script's status.
        { "$script" 2>&1 || touch "$log.failed"; } | tee -a "$log"
    done
    [ ! -e "$log.failed" ] || result='NOT PASSED'
    printf '%-8s %-11s %s\n' "$1" "$result" "$(count "$log")" >"$ROWS/$1"
    [ "$result" = passed ]
}

if [ $# = 2 ]; then
    [ "$JOBS" != 1 ] || { run "$2"; exit; }
    run "$2" >"$ROWS/$2.out" || failed=1
    cat "$ROWS/$2.out"
    exit ${failed:-0}
fi

export ROWS JOBS="${JOBS:-1}"
ROWS=$(mktemp -d)
trap 'rm -rf "$ROWS"' EXIT
passed_all=true
leave_out() {
    printf '%-8s left out, for want of %s\n' "$1" "$2" >"$ROWS/$1"
    [ "${REQUIRE_ALL:-0}" != 1 ] || passed_all=false
}

"$tools/setup.sh" postgres || leave_out postgres 'what is named above: SQLite alone'

# Exported, so that the scripts of the languages do not build them again.
REDIS_LOCK_MODULE=${REDIS_LOCK_MODULE:-$(module_path)}
if [ -z "${TESTBED:-}" ]; then
    "$tools/building.sh" cargo build --quiet --workspace --bin testbed
    TESTBED=$(program_path testbed)
fi
export REDIS_LOCK_MODULE TESTBED
# Run four tests of the examples at once, because they mostly wait.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-4}"

languages=
for needs in clients/*/needs; do
    language=${needs#clients/}
    language=${language%/needs}
    [ -n "$(scripts_of "$language")" ] || continue
    case " ${LANGUAGES:-$language} " in *" $language "*) ;; *) continue ;; esac
    missing=$(missing_of "$needs")
    # Debian has packages for the needs of these languages.
    case $language in php | ruby) "$tools/setup.sh" "$language" || missing="$missing what is named above" ;; esac
    if [ -n "$missing" ]; then leave_out "$language" "${missing# }"; else languages="$languages $language"; fi
done
# shellcheck disable=SC2086 # words
[ -z "$languages" ] || printf '%s\n' $languages | xargs -n 1 -P "$JOBS" "$tools/clients.sh" "$what" || passed_all=false

printf '\n'
for row in "$ROWS"/*; do
    case ${row##*/} in *.*) ;; *) cat "$row" ;; esac
done
$passed_all
