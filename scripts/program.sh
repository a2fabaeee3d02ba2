#!/bin/sh
# Builds a program of this workspace and runs it. The whole workspace is named, because cargo compiles the libraries
# again for each other choice of packages: what one run has built, all others use.
#
# With --release it is built as users get it, alone.
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
