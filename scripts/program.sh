#!/bin/sh
# Builds a program of this workspace and runs it. Builds with the features of the whole workspace, because cargo would
# compile the libraries again for each selection of packages. So all runs share one build.
#
# With --release the program is built alone, as users get it.
#
# usage: program.sh [--release] NAME [words for the program...]
set -eu
. "$(dirname -- "$0")/lib.sh"

choice='--workspace --bin'
if [ "$1" = --release ]; then
    choice='--release --package'
    shift
fi
name=$1
shift
# shellcheck disable=SC2086 # words
"$tools/building.sh" cargo build --quiet --manifest-path "$root/Cargo.toml" $choice "$name" >&2
case $choice in
    --release*) exec "$(target_path)/release/$name" "$@" ;;
    *) exec "$(program_path "$name")" "$@" ;;
esac
