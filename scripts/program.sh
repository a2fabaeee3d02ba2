#!/bin/sh
# Builds a program of this workspace and runs it. The whole workspace is named, because cargo compiles the libraries
# again for each other choice of packages: what one run has built, all others use.
#
# usage: program.sh NAME [words for the program...]
set -eu
. "$(dirname -- "$0")/lib.sh"

name=$1
shift
"$tools/building.sh" cargo build --quiet --manifest-path "$root/Cargo.toml" --workspace --bin "$name" >&2
exec "$(program_path "$name")" "$@"
