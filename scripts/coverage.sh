#!/bin/sh
# Runs the tests with an instrumented build of the module, the core and the tools, and prints the coverage of each
# folder. Files that contain only test code are not counted. The counters are mapped to files (`%c`), so that a server
# that a test kills does not lose its counts.
#
# usage: coverage.sh [words for tests.sh...]
set -eu
. "$(dirname -- "$0")/lib.sh"
cd "$root"

"$tools/setup.sh" coverage
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$root/target}/coverage"
environment=$(cargo llvm-cov show-env --sh --no-cfg-coverage)
eval "$environment"
export LLVM_PROFILE_FILE="$CARGO_TARGET_DIR/%m%c.profraw"
export RUSTFLAGS="${RUSTFLAGS:-} -Cllvm-args=-runtime-counter-relocation" # which `%c` needs on Linux
rm -f "$CARGO_TARGET_DIR"/*.profraw

cargo build --package redis-lock --lib
export REDIS_LOCK_MODULE="$CARGO_TARGET_DIR/debug/libredis_lock.so"
passed=true
"$tools/tests.sh" "$@" || passed=false

report=$CARGO_TARGET_DIR/lcov
cargo llvm-cov report --workspace --lcov --summary-only --ignore-filename-regex '_tests/|properties/|core/src/model/|_checks\.rs$' \
    --output-path "$report"
awk -F : -v root="$root/" '
    function row(name) {
        printf "%-24s %6d lines, %6.2f %% reached %6d functions, %6.2f %%\n", name,
            lines[name], 100 * reached[name] / lines[name], functions[name], 100 * called[name] / functions[name]
    }
    function add(name) {
        lines[name] += found["LF"]; reached[name] += found["LH"]
        functions[name] += found["FNF"]; called[name] += found["FNH"]
    }
    { found[$1] = $2 }
    $1 == "SF" { folder = substr($2, length(root) + 1) }
    $1 == "end_of_record" {
        # A folder of the module, or a package.
        sub(folder ~ /^src/ ? "/[^/]*$" : "/src/.*", "", folder)
        add(folder)
        if (folder ~ /^src/ || folder == "crates/core") add("the module")
        add("all")
    }
    END { for (name in lines) row(name) }' "$report" | sort
$passed
