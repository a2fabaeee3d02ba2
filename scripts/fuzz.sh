#!/bin/sh
# Runs each coverage-guided fuzz target for FUZZ_SECONDS, starting from the inputs in fuzz/corpus/. New inputs stay in
# the ignored folder fuzz/target/found/, and the next run starts from them too. A stable compiler is enough, because
# this script sets the flags that `cargo fuzz` would set.
#
# usage: [FUZZ_SECONDS=30] [SEED=0] [FUZZ_TARGETS="arguments ..."] fuzz.sh
#        fuzz.sh lint    clippy, in the same build as the runs
#        fuzz.sh keep    rebuilds fuzz/corpus/ from the fewest inputs that reach the same code
set -eu
. "$(dirname -- "$0")/lib.sh"
cd "$root"

: "${FUZZ_SECONDS:=30}"
: "${FUZZ_TARGETS:=$(sed -n 's/^name = "\([a-z_]*\)"$/\1/p' fuzz/Cargo.toml | tr '\n' ' ')}"
# Short inputs find as much and are readable.
longest=400
kept=fuzz/corpus
found=fuzz/target/found
logs=fuzz/target/logs
artifacts=fuzz/artifacts

host=$(rustc --version --verbose | sed -n 's/^host: //p')
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares"
programs=fuzz/target/$host/release

# With --target the flags apply only to the targets, not to build scripts.
build() {
    verb=$1
    shift
    # shellcheck disable=SC2086 # words
    RUSTFLAGS=$(echo --cfg fuzzing -Cdebug-assertions -Ccodegen-units=1 $coverage) \
        cargo "$verb" --release --manifest-path fuzz/Cargo.toml --target "$host" --target-dir fuzz/target "$@"
}

# The options of every run of a target.
run() {
    target=$1
    shift
    if [ -e "fuzz/$target.dict" ]; then set -- "-dict=fuzz/$target.dict" "$@"; fi
    "$programs/$target" -max_len=$longest -timeout=10 "-artifact_prefix=$artifacts/$target/" "$@"
}

fuzz() {
    target=$1
    log=$logs/$target
    mkdir -p "$found/$target" "$kept/$target" "$artifacts/$target"
    status=0
    run "$target" "-max_total_time=$FUZZ_SECONDS" "-seed=${SEED:-0}" -print_final_stats=1 \
        "$found/$target" "$kept/$target" >"$log" 2>&1 || status=$?
    reached=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    if [ $status = 0 ] && [ -n "$reached" ]; then
        stat() { sed -n "s/^stat::$1: *//p" "$log"; }
        printf '%-18s %12s inputs, %8s a second, %5s places reached\n' "$target" \
            "$(stat number_of_executed_units)" "$(stat average_exec_per_sec)" "$reached"
        return 0
    fi
    printf '%-18s NOT PASSED\n' "$target"
    # Leave out libFuzzer's messages about itself.
    grep -vE '^(#[0-9]|INFO:|stat::|WARNING: Failed to find)' "$log" | tail -n 60
    [ -n "$reached" ] || echo "no place was reached: the program has no counters in it"
    input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
    [ -z "$input" ] || printf '\nto repeat: %s\n' "$programs/$target $input"
    return 1
}

keep() {
    target=$1
    new=fuzz/target/kept/$target
    rm -rf "$new"
    mkdir -p "$new" "$found/$target" "$kept/$target" "$artifacts/$target"
    run "$target" -set_cover_merge=1 -use_counters=0 "$new" "$kept/$target" "$found/$target" >"$logs/$target" 2>&1 ||
        die "$target: see $logs/$target"
    rm -rf "${kept:?}/$target"
    mv "$new" "$kept/$target"
    printf '%-18s %4s inputs\n' "$target" "$(find "$kept/$target" -type f | wc -l)"
}

mode=${1:-fuzz}
case $mode in
    fuzz | keep) build build --quiet ;;
    lint)
        build clippy -- -D warnings
        exit
        ;;
    *) die "usage: fuzz.sh [lint | keep]" ;;
esac
mkdir -p "$logs"
passed=true
for name in $FUZZ_TARGETS; do
    "$mode" "$name" || passed=false
done
$passed
