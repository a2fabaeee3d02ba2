#!/bin/sh
# Runs the common trial (docs/faults.md) with the client of each installed language that has a worker, and names the
# languages that were skipped. The words are options of the trial: --scenario deleted, --long, ...
#
# usage: [REQUIRE_ALL=1] [LANGUAGES="python node ..."] trial.sh [words for the trial...]
set -eu
. "$(dirname -- "$0")/lib.sh"

cd "$root"
left_out=
for start in clients/*/trial/start; do
    [ -e "$start" ] || continue
    language=${start#clients/}
    language=${language%/trial/start}
    case " ${LANGUAGES:-$language} " in *" $language "*) ;; *) continue ;; esac
    missing=$(missing_of "clients/$language/needs")
    if [ -n "$missing" ]; then
        say "$language is left out, for want of$missing"
        left_out="$left_out $language"
    else
        set -- --language "$language" "$@"
    fi
done
case " $* " in *' --language '*) ;; *) die 'no client can be tried' ;; esac
[ "${REQUIRE_ALL:-0}" != 1 ] || [ -z "$left_out" ] || die "not all were tried:$left_out"

export REDIS_LOCK_MODULE="${REDIS_LOCK_MODULE:-$(module_path)}"
exec "$tools/program.sh" trial "$@"
