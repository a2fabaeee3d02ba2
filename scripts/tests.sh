#!/bin/sh
# cargo test with these words, all of it even when something fails. With AGAIN=1 what failed is run once
# more by itself, for a busy machine may be too slow for a test: what fails twice has failed, and what
# passes then is named as shaky, to be looked at.
#
# usage: [AGAIN=1] tests.sh [words for cargo test...]
set -eu
. "$(dirname -- "$0")/lib.sh"

log=$(mktemp)
trap 'rm -f "$log" "$log.failed"' EXIT

# The pipe to tee would hide the status.
{ cargo test --no-fail-fast "$@" 2>&1 || : >"$log.failed"; } | tee "$log"
[ -e "$log.failed" ] || exit 0
[ "${AGAIN:-0}" = 1 ] || exit 1

# Cargo names the targets in which tests failed, or nothing if it did not come to that.
targets=$(sed -n 's/^    `\(-p .*\)`$/\1/p' "$log")
tests=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$log")
if [ -z "$targets" ] || [ -z "$tests" ]; then
    exit 1
fi
printf '\n==> what failed, once more\n'
set --
while IFS= read -r test; do
    set -- "$@" "$test"
done <<EOF
$tests
EOF
printf '%s\n' "$targets" | while IFS= read -r target; do
    # One word a part: `-p package --test name`.
    # shellcheck disable=SC2086
    cargo test $target -- --exact "$@" </dev/null || exit 1
done
printf '\nshaky: %s\n' "$@"
