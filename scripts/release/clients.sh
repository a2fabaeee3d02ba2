#!/bin/sh
# Builds the packages of the clients for their registries, and checks their contents. make clients runs their tests.
#
# usage: clients.sh <folder> [python] [node] [java] [rust] [go]     all five, if none is named
#
# python  a wheel and an sdist            node  a .tgz             rust  a .crate
# java    a bundle for Maven Central: each jar with its sources, its documentation and its pom; unsigned
# go      nothing to keep: that the module is whole, and the tags that make it a release
set -eu
. "$(dirname -- "$0")/../lib.sh"

[ $# -gt 0 ] || die "usage: clients.sh <folder> [language ...]"
mkdir -p "$1"
folder=$(CDPATH='' cd -- "$1" && pwd)
shift
[ $# -gt 0 ] || set -- python node java rust go
version=$("$root/scripts/release/version.sh")
# Make two runs on one commit give the same files.
SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 1767225600)
export SOURCE_DATE_EPOCH

python() {
    # By its real path, which the tools name: in a rehearsal's clone, which is removed, this is a link.
    mkdir -p "$root/target/tools"
    tools=$(CDPATH='' cd -- "$root/target/tools" && pwd -P)/python
    [ -x "$tools/bin/twine" ] || {
        python3 -m venv "$tools"
        "$tools/bin/pip" install --quiet --disable-pip-version-check build==1.3.0 twine==6.2.0
    }
    # A builder newer than what checks it, and what takes it, writes metadata that they do not know.
    echo 'hatchling==1.27.0' >"$tools/constraints"
    PIP_CONSTRAINT=$tools/constraints "$tools/bin/python" -m build --outdir "$folder" "$root/clients/python" >"$folder/.log" || die "$(cat "$folder/.log")"
    "$tools/bin/twine" check --strict "$folder/redis_lock_client-$version"*
}

node() {
    cd "$root/clients/node"
    npm ci --silent --no-audit --no-fund
    npm pack --silent --pack-destination "$folder"
}

rust() {
    cd "$root"
    cargo package --quiet --locked --no-verify --allow-dirty --package redis-lock-client
    cp "${CARGO_TARGET_DIR:-target}/package/redis-lock-client-$version.crate" "$folder/"
}

# Files that Maven Central requires besides each jar.
java() {
    bundle=$folder/.maven
    rm -rf "$bundle"
    # The adapters are built together with the client.
    pom=$root/clients/java/pom.xml
    [ ! -e "$root/clients/java/adapters/pom.xml" ] || pom=$root/clients/java/adapters/pom.xml
    mvn -B -ntp -q -f "$pom" -Dadapters -DskipTests package \
        org.apache.maven.plugins:maven-source-plugin:3.3.1:jar-no-fork \
        org.apache.maven.plugins:maven-javadoc-plugin:3.12.0:jar -Ddoclint=none
    for pom in "$root/clients/java/pom.xml" "$root"/clients/java/adapters/pom.xml "$root"/clients/java/adapters/*/pom.xml; do
        [ -e "$pom" ] || continue
        artifact=$(sed '/<parent>/,/<\/parent>/d' "$pom" | sed -n 's/.*<artifactId>\(.*\)<\/artifactId>.*/\1/p' | head -n 1)
        # A demonstration is not published.
        case $artifact in redis-lock-demo) continue ;; redis-lock-*) ;; *) continue ;; esac
        for element in name description url licenses scm developers; do
            grep -q "<$element>" "$pom" || grep -q '<parent>' "$pom" || die "$pom: Maven Central asks for <$element>"
        done
        to=$bundle/io/github/redis-lock/$artifact/$version
        mkdir -p "$to"
        cp "$pom" "$to/$artifact-$version.pom"
        ! grep -q '<packaging>pom<' "$pom" || continue
        for kind in '' -sources -javadoc; do
            cp "${pom%/*}/target/$artifact-$version$kind.jar" "$to/" || die "$artifact: no jar$kind"
        done
    done
    rm -f "$folder/maven-$version.zip"
    find "$bundle" -exec touch -d "@$SOURCE_DATE_EPOCH" {} +
    (cd "$bundle" && find io -type f | LC_ALL=C sort | zip -q -X -@ "$folder/maven-$version.zip")
    rm -rf "$bundle"
    unzip -l "$folder/maven-$version.zip" | sed -n 's/.* \(io.*[a-z]\)$/  \1/p'
}

go() {
    for manifest in "$root"/clients/go/go.mod "$root"/clients/go/*/go.mod "$root"/clients/go/*/*/go.mod; do
        [ -e "$manifest" ] || continue
        module=${manifest%/go.mod}
        cd "$module"
        command go mod verify >/dev/null
        command go mod tidy -diff
        command go vet ./...
        # A module that is replaced by a folder here is not what users would get.
        ! grep -q '^replace' go.mod || case $module in */clients/go) die "$manifest: replace" ;; esac
        echo "${module#"$root"/}/v$version"
    done
}

for language; do
    case $language in python | node | java | rust | go) ;; *) die "clients.sh: no such language: $language" ;; esac
    say "==> $language"
    "$language"
done
rm -f "$folder/.log"
ls -l "$folder"
