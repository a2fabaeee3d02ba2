#!/bin/sh
# Builds a program of this workspace and runs it. The whole workspace is named, because cargo compiles the libraries
# again for each other choice of packages: what one run has built, all others use.
#
# With --release it is built as users get it, alone.
#
# usage: program.sh [--release] NAME [words for the program...]
set -eu
. "$(dirname -- "$0")/lib.sh"

if [ "$1" = --release ]; then
    name=$2
    shift 2
    "$tools/building.sh" cargo build --quiet --release --manifest-path "$root/Cargo.toml" --package "$name" >&2
    exec "$(target_path)/release/$name" "$@"
fi
name=$1
shift
"$tools/building.sh" cargo build --quiet --manifest-path "$root/Cargo.toml" --workspace --bin "$name" >&2
exec "$(program_path "$name")" "$@"
