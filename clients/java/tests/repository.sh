#!/bin/sh
# Prints a Maven repository for what is installed from this checkout, so that the user's has nothing of it. What the
# user's has is linked or copied into it, so that little is downloaded again.
set -eu
cd "$(dirname -- "$0")/.."
repository=$PWD/target/repository
if [ ! -d "$repository" ]; then
    mkdir -p target
    rm -rf "$repository.new"
    if [ -d "$HOME/.m2/repository" ]; then
        cp -al "$HOME/.m2/repository" "$repository.new" 2>/dev/null || {
            rm -rf "$repository.new"
            cp -a "$HOME/.m2/repository" "$repository.new"
        }
    fi
    rm -rf "$repository.new/io/github/redis-lock"
    mkdir -p "$repository.new"
    mv "$repository.new" "$repository"
fi
echo "$repository"
