#!/bin/sh
# Tests the programs in shell.
cd "$(dirname -- "$0")" || exit
export EXAMPLE_PROGRAM="bash examples/shell/programs.sh"
exec cargo test --quiet --workspace --test programs
