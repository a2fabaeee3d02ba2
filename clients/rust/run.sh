#!/bin/sh
# Tests the Rust client.
cd "$(dirname -- "$0")" || exit
exec cargo test --locked --no-fail-fast --package redis-lock-client
