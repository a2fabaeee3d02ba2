#!/bin/sh
# Sends the files of a release to the registries that their users take them from. What is there already is left as it
# is, so a step that broke off can be repeated. Who sends them is proved by the environment (RELEASING.md).
#
# usage: [DRY_RUN=1] publish.sh <folder of the release> node|rust|java|go    DRY_RUN: all but the sending
set -eu
. "$(dirname -- "$0")/../lib.sh"

[ $# = 2 ] || die "usage: publish.sh <folder of the release> node|rust|java|go"
folder=$(CDPATH='' cd -- "$1" && pwd)
version=$("$root/scripts/release/version.sh")
dry() { [ "${DRY_RUN:-}" = 1 ]; }
(cd "$folder" && sha256sum --quiet --check SHA256SUMS) || die "the files are not those of SHA256SUMS"

node() {
    file=$folder/redis-lock-client-$version.tgz
    if dry; then
        npm publish --dry-run "$file"
    elif npm view "redis-lock-client@$version" version >/dev/null 2>&1; then
        say "npm has redis-lock-client $version already"
    else
        npm publish --provenance --access public "$file"
    fi
}

# cargo packs once more: it must come to the file of the release.
rust() {
    cd "$root"
    cargo package --quiet --locked --no-verify --allow-dirty --package redis-lock-client
    cmp "${CARGO_TARGET_DIR:-target}/package/redis-lock-client-$version.crate" "$folder/redis-lock-client-$version.crate"
    if dry; then
        cargo publish --quiet --locked --no-verify --allow-dirty --package redis-lock-client --dry-run
    elif cargo info --quiet "redis-lock-client@$version" --registry crates-io >/dev/null 2>&1; then
        say "crates.io has redis-lock-client $version already"
    else
        cargo publish --locked --no-verify --package redis-lock-client
    fi
}

# Maven Central wants a signature and checksums beside each file.
java() {
    work_folder
    unzip -q "$folder/maven-$version.zip" -d "$work"
    cd "$work"
    export GNUPGHOME="$work/.gnupg"
    mkdir -m 700 "$GNUPGHOME"
    if dry; then
        gpg --batch --quiet --passphrase '' --quick-generate-key 'nobody <nobody@example.com>' ed25519 sign 1d
    else
        printf '%s\n' "${MAVEN_GPG_KEY:?"the key, in ASCII armour"}" | gpg --batch --quiet --import
    fi
    find io -type f | while read -r file; do
        gpg --batch --quiet --armor --detach-sign "$file"
        gpg --batch --quiet --verify "$file.asc" "$file" 2>/dev/null || die "$file: the signature is not good"
        md5sum <"$file" | cut -c 1-32 >"$file.md5"
        sha1sum <"$file" | cut -c 1-40 >"$file.sha1"
    done
    gpgconf --kill all
    zip -q -r bundle.zip io
    if dry; then
        unzip -l bundle.zip | tail -n 1
        return
    fi
    first=$(find io -name '*.pom' | head -n 1)
    if curl -sfI "https://repo1.maven.org/maven2/$first" >/dev/null; then
        say "Maven Central has version $version already"
        return
    fi
    curl -sSf --request POST --header "Authorization: Bearer ${MAVEN_TOKEN:?"user:password of a token, in base64"}" \
        --form bundle=@bundle.zip \
        "https://central.sonatype.com/api/v1/publisher/upload?name=redis-lock-$version&publishingType=AUTOMATIC"
}

# Go takes a module from the tags of the repository: one for each module, at the commit of the release.
go() {
    cd "$root"
    for manifest in clients/go/go.mod clients/go/*/go.mod clients/go/*/*/go.mod; do
        [ -e "$manifest" ] || continue
        tag=${manifest%/go.mod}/v$version
        if dry; then
            echo "git tag $tag"
        elif [ -n "$(git ls-remote --tags origin "refs/tags/$tag")" ]; then
            say "the tag $tag is there already"
        else
            git tag "$tag"
            git push origin "refs/tags/$tag"
        fi
    done
}

case $2 in
    node | rust | java | go) "$2" ;;
    *) die "publish.sh: no such registry: $2" ;;
esac
