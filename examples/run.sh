#!/bin/sh
# Tests the examples of a language: run.sh COMMAND JOB... In the command, {} stands for the job, and {Job} for the job as
# the name of a class. Without a command: those in Rust.
set -eu
cd "$(dirname -- "$0")/.."

[ -z "$1" ] || export EXAMPLE="$1"
shift
exec cargo test --quiet --workspace --test jobs -- --exact "$@"
