# Sourced by the other scripts: common paths and functions.

root=$(CDPATH='' cd -- "$(dirname -- "$0")" && while [ ! -e Cargo.lock ] && [ "$PWD" != / ]; do cd ..; done && pwd)
tools=$root/scripts

has() { command -v "$1" >/dev/null 2>&1; }
say() { printf '%s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# The programs that are delivered with the module.
shipped='redis-lock-top redis-lock-doctor'

# Prints the programs that this file lists, one per line, and that are not installed.
missing_of() {
    while read -r program; do
        has "$program" || printf ' %s' "$program"
    done <"$1"
}

# The version of all packages.
project_version() { sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml"; }

# Creates the temporary folder $work, in the given folder if there is one, and deletes it when the script ends.
work_folder() {
    work=$(mktemp -d "${1:-${TMPDIR:-/tmp}}/work.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT TERM
}

# The folder that cargo builds in.
target_path() {
    case ${CARGO_TARGET_DIR:-target} in
        /*) printf '%s\n' "$CARGO_TARGET_DIR" ;;
        *) printf '%s\n' "$root/${CARGO_TARGET_DIR:-target}" ;;
    esac
}

# The program of this name that `cargo build` leaves.
program_path() { printf '%s/debug/%s\n' "$(target_path)" "$1"; }

# The module that `cargo build --release` leaves.
module_path() {
    target=$(target_path)
    case $(uname -s) in
        Darwin) printf '%s\n' "$target/release/libredis_lock.dylib" ;;
        *) printf '%s\n' "$target/release/libredis_lock.so" ;;
    esac
}

# The version of a server binary, as `redis 7.0.15` or `valkey 9.1.2`; nothing if it does not run.
server_version() {
    "$1" --version 2>/dev/null |
        sed -n 's/^\([A-Za-z]*\) server v=\([0-9.]*\) .*/\1 \2/p' | tr '[:upper:]' '[:lower:]'
}
