#!/bin/sh
# Builds the module, and checks the rest of the workspace, with the oldest Rust version that Cargo.toml declares.
set -eu
. "$(dirname -- "$0")/lib.sh"
cd "$root"

declared=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
has rustup || die "missing: rustup, which fetches Rust $declared - get it from https://rustup.rs"
rustup toolchain install "$declared" --profile minimal >&2
rustup run "$declared" rustc --version
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/msrv"
rustup run "$declared" cargo build --locked --release --package redis-lock --lib
rustup run "$declared" cargo check --locked --workspace --all-targets --keep-going
