#!/bin/sh
# Checks the workflows in .github with actionlint: the one in the search path, else one that Go fetches
# and builds. Where neither can be had, they are left out, which is said.
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
