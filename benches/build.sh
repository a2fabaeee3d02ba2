#!/bin/sh
# Builds the contenders in another language, as a program "contenders" in a folder, and prints the versions of the
# language and of the libraries. When it fails, the last line of its errors says why.
#
# usage: build.sh java|python|go|node folder
set -eu
cd "$(dirname -- "$0")"
here=$PWD
mkdir -p "$2"
cd "$2"
built=$PWD

needs() {
    command -v "$1" >/dev/null || {
        echo "no $1" >&2
        exit 1
    }
}

# Writes the program: a shell script of the lines of the input, of which the last ends in "$@".
program() {
    printf '#!/bin/sh\n' >contenders
    cat >>contenders
    chmod +x contenders
}

# Prints the version of the language, and the libraries, which are the lines of the input.
versions() {
    printf '%s: ' "$1"
    paste -sd, - | sed 's/,/, /g'
}

case $1 in
java)
    needs javac
    needs mvn
    (cd "$here/java" && mvn -q -B "-Dbuilt=$built" compile dependency:copy-dependencies >&2)
    program <<EOF
exec java -cp '$built/classes:$built/libraries/*' Main "\$@"
EOF
    (cd libraries && printf '%s\n' jedis-*.jar redisson-*.jar) | sed 's/\.jar$//' |
        versions "$(java --version | head -n 1)"
    ;;
python)
    python=python3
    $python -m pip --version >/dev/null 2>&1 || python=/usr/bin/python3
    $python -m pip --version >/dev/null || exit 1
    wanted=$(versions "$($python --version)" <"$here/python/requirements.txt")
    # Packages installed for one version of Python may not fit another.
    if [ "$(cat installed 2>/dev/null)" != "$wanted" ]; then
        rm -rf packages
        $python -m pip install --quiet --target packages -r "$here/python/requirements.txt" >&2
        echo "$wanted" >installed
    fi
    program <<EOF
PYTHONPATH='$built/packages:$here/../clients/python/src' exec $python '$here/python/contenders.py' "\$@"
EOF
    echo "$wanted"
    ;;
node)
    needs node
    needs npm
    rm -f redis-lock-client-*.tgz
    cp "$here/node/package.json" "$here/node/package-lock.json" "$here/node/contenders.js" .
    # As its users do: the client is a package, built and installed.
    (
        cd "$here/../clients/node"
        npm ci --silent --no-audit --no-fund
        npm pack --silent --pack-destination "$built"
    ) >&2
    npm ci --silent --no-audit --no-fund >&2
    npm install --silent --no-audit --no-fund --no-save ./redis-lock-client-*.tgz >&2
    program <<EOF
exec node '$built/contenders.js' "\$@"
EOF
    sed -nE 's/^ *"(ioredis|redlock)": "([^"]*)".*/\1@\2/p' package.json |
        versions "Node $(node --version)"
    ;;
go)
    needs go
    (cd "$here/go" && go build -trimpath -o "$built/contenders" .) >&2
    grep -oE '[^[:blank:]]*(redis/go-redis|redsync)/.* .*' "$here/go/go.mod" | versions "$(go version)"
    ;;
esac
