#!/bin/sh
# Builds the site in target/site/html: the documents as a book, with the API references of the installed languages.
# Checks its links, and names what was skipped.
#
# usage: [FORM=short] [LANGUAGES="rust python ..."] [REQUIRE_ALL=1] [REF=main] site.sh
#        short: without the API references, which need the tools of all languages, and without the browser
#        REF: the branch or tag for links to files of the repository
set -eu
. "$(dirname -- "$0")/lib.sh"
cd "$root"
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"

work=$root/target/site
book=$work/src
api=$work/api
kept=$root/target/tools/site
rm -rf "$work"
mkdir -p "$book" "$api" "$kept"
repository=https://github.com/redis-lock/redis-lock/blob/${REF:-main}

row() { printf '| %s | [%s](%s) |\n' "$@" >>"$book/api.md"; }
cat >"$book/api.md" <<'END'
# API references

| language | reference |
| --- | --- |
END

rust() {
    # Build only the documentation, from what was built before.
    CARGO_BUILD_BUILD_DIR=$(target_path) cargo doc --quiet --no-deps --package redis-lock-client --features opentelemetry \
        --target-dir "$work/rust"
    mv "$work/rust/doc" "$api/rust"
    row Rust redis_lock_client api/rust/redis_lock_client/index.html
}

python() {
    [ -x "$kept/venv/bin/pdoc" ] || python3 -m venv "$kept/venv"
    pip="$kept/venv/bin/pip --quiet --disable-pip-version-check"
    $pip install --require-hashes --requirement clients/python/requirements.txt
    $pip install pdoc==16.0.0
    # Modules without a leading underscore are public. Skip those that __init__.py exports already.
    modules=$(cd clients/python/src && grep -l '^__all__' redis_lock_client/[a-z]*.py redis_lock_client/*/__init__.py \
        redis_lock_client/lock_class/asyncio.py |
        sed 's/\/__init__//; s/\.py$//; y/\//./' | grep -vE '\.(errors|observer|threads|state)$')
    # shellcheck disable=SC2086 # a list of words
    (cd clients/python/src && "$kept/venv/bin/pdoc" --template-directory "$root/site/pdoc" --output-directory "$api/python" \
        redis_lock_client $modules)
    row Python redis_lock_client api/python/redis_lock_client.html
}

npm_tools() {
    npm install --prefix "$kept" --silent --no-audit --no-fund \
        typedoc@0.28.20 typescript@5.9.3 playwright-core@1.65.1 axe-core@4.14.1
}

node() {
    npm_tools
    npm ci --prefix clients/node --silent --no-audit --no-fund
    "$kept/node_modules/.bin/typedoc" --logLevel Warn --treatWarningsAsErrors --excludeInternal --readme none \
        --out "$api/node" --name redis-lock-client --tsconfig clients/node/tsconfig.json \
        clients/node/src/index.ts clients/node/src/testing.ts clients/node/src/*/index.ts
    row 'Node, TypeScript' redis-lock-client api/node/index.html
}

java() {
    mvn -B -ntp -q -Dstyle.color=never -f clients/java/pom.xml javadoc:javadoc
    cp -R clients/java/target/reports/apidocs "$api/java"
    row Java io.github.redislock api/java/index.html
}

# Pages of the book for Go, which has no generator for static pages.
go() {
    mkdir -p "$book/api/go"
    for package in '' /redislocktest /redsync /gocron /otel /rueidis; do
        page=api/go${package:-/redislock}.md
        command go run site/godoc.go "clients/go$package" "github.com/redis-lock/redis-lock/clients/go$package" >"$book/$page"
        row Go "clients/go$package" "$page"
        echo "  - [Go: clients/go$package]($page)" >>"$work/go"
    done
}

all=true
for needs in rust:cargo python:python3 node:npm java:mvn go:go; do
    language=${needs%:*}
    case " ${LANGUAGES:-$language} " in *" $language "*) ;; *) continue ;; esac
    if [ "${FORM:-}" = short ]; then
        say "site: the reference of $language is left out in the short form"
    elif has "${needs#*:}"; then
        say "==> $language"
        "$language"
    else
        say "site: the reference of $language is left out, for want of ${needs#*:}"
        all=false
    fi
done
for language in PHP Ruby shell; do
    folder=clients/$(echo "$language" | tr '[:upper:]' '[:lower:]')
    row "$language" "$folder" "$folder/README.md"
done
row 'any other' 'the commands' docs/commands/README.md

# Writes the pages with links to the other pages or to the repository.
git ls-files --cached --others --exclude-standard '*.md' | grep -vx docs/README.md >"$work/documents"
# shellcheck disable=SC2046 # a list of words
awk -f site/paths.awk -f site/summary.awk docs/README.md $(cat "$work/documents") >"$book/SUMMARY.md"
sed -n 's/.*(\(.*\))$/\1/p' "$book/SUMMARY.md" >"$work/pages"
git ls-files --cached --others --exclude-standard '*.svg' >"$work/pictures"
cat "$work/pages" "$work/pictures" >"$work/list"
while read -r page; do
    mkdir -p "$book/$(dirname "$page")"
    from=$page
    [ "$page" != index.md ] || from=site/index.md
    awk -v page="$from" -v to="$page" -v repository="$repository" -f site/paths.awk -f site/links.awk \
        "$work/list" "$from" >"$book/$page"
done <"$work/pages"
while read -r picture; do
    mkdir -p "$book/$(dirname "$picture")"
    cp "$picture" "$book/$picture"
done <"$work/pictures"
{
    printf '\n# API references\n\n- [API references](api.md)\n'
    [ ! -e "$work/go" ] || cat "$work/go"
} >>"$book/SUMMARY.md"

cp site/book.toml site/site.css site/site.js "$work/"
mdbook build "$work"
cp -R "$api" "$work/html/"
cd "$work/html"
find . -type f | sed 's/^\.\///' >"$work/files"
# Rustdoc checks its own links, and some of them are created only by its script.
find . -name '*.html' ! -path './api/rust/*' | sed 's/^\.\///' | sort >"$work/htmls"
# shellcheck disable=SC2046
awk -f "$root/site/paths.awk" -f "$root/site/check.awk" "$work/files" $(cat "$work/htmls")

if [ "${FORM:-}" != short ]; then
    browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || :)
    if [ -n "$browser" ] && has npm; then
        say "==> browser"
        npm_tools
        mkdir "$work/screenshots"
        (cd "$kept" && command node "$root/site/check.mjs" "$browser" "$work/html" "$work/screenshots")
    else
        say "site: the browser's look is left out, for want of Chromium or of npm"
        all=false
    fi
fi
say "the site: target/site/html/index.html"
$all || [ "${REQUIRE_ALL:-0}" != 1 ]
