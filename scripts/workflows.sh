#!/bin/sh
# Checks the workflows in .github with actionlint, from the search path or else built by Go. If neither is available,
# says that the check is skipped.
set -eu
. "$(dirname -- "$0")/lib.sh"
cd "$root"

version=v1.7.12
if has actionlint; then
    exec actionlint
fi
kept=$root/target/tools
if has go; then
    [ -x "$kept/actionlint" ] ||
        GOBIN=$kept go install "github.com/rhysd/actionlint/cmd/actionlint@$version" >&2 || :
fi
if [ -x "$kept/actionlint" ]; then
    exec "$kept/actionlint"
fi
say "workflows: left out, for want of actionlint, or of Go and a network to fetch it"
