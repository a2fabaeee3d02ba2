#!/usr/bin/env bash
# Runs the commands of README.md and docs/install.md in an empty Debian or Ubuntu system, and prints how long it took to
# get the first lock. Creating the empty system does not count. Needs root, podman and debootstrap.
#
# usage: install-test.sh debian <.deb> [suite]          suite: bookworm, trixie, noble
#        install-test.sh tarball <.tar.gz> [suite]
#        install-test.sh source [suite]
#        install-test.sh container <image>              on this machine; docker is podman
#        KEEP=1: keeps the empty system for the next run
#
# Substitutes: files of a release are the given ones; git fetches what is committed here; rustup's script
# is taken from static.rust-lang.org, where sh.rustup.rs has it from; sudo is left out; and instead of systemd a
# few lines start the server as its unit does, as its user and with its configuration.
set -euo pipefail
cd "$(dirname "$0")/.."
usage() { sed -n 's/^# usage: /usage: /p; s/^#        install/       install/p' "$0" >&2; exit 2; }

# The n-th block of commands below a heading of a page.
block() { # page, heading, n
    awk -v heading="$2" -v wanted="$3" '
        $0 == heading { inside = 1; next }
        inside && /^## / { exit }
        inside && /^```sh$/ { number++; printing = number == wanted; next }
        /^```$/ { printing = 0 }
        printing { print }' "$1"
}

way=${1:-}
given=''
case $way in
    debian) commands=$(block README.md '## Install' 1) given=${2:?"the .deb"} suite=${3:-bookworm} ;;
    container) commands=$(block README.md '## Install' 2) image=${2:?"the image"} ;;
    source) commands=$(block README.md '## Install' 3) suite=${2:-bookworm} ;;
    tarball) commands=$(block docs/install.md '## Tarball' 1) given=${2:?"the tarball"} suite=${3:-bookworm} ;;
    *) usage ;;
esac
[[ -n $commands ]] || { echo "no commands for $way in the pages" >&2; exit 1; }

work=$(mktemp -d)
finish() {
    rm -rf "$work"
    if [[ $way == container ]]; then podman rm --force --volumes locks >/dev/null 2>&1 || true; fi
    if [[ ${KEEP:-} != 1 && -n ${suite:-} ]]; then podman rmi --force "localhost/empty:$suite" >/dev/null 2>&1 || true; fi
}
trap finish EXIT

# Prints how many commands it took and how long. The reply to the last command must be a grant.
cat >"$work/type.sh" <<'END'
set -e
began=$(date +%s.%N)
. /given/commands >/tmp/said 2>&1 || { tail -n 20 /tmp/said; exit 1; }
ended=$(date +%s.%N)
tail -n 4 /tmp/said
tail -n 3 /tmp/said | head -n 1 | grep -qx worker-1 || { echo 'no lock'; exit 1; }
tail -n 4 /tmp/said | head -n 1 | grep -qE '^[0-9]{13,}$' || { echo 'no token'; exit 1; }
printf '%s commands, %.1f s\n' "$(grep -c . /given/commands)" "$(awk "BEGIN { print $ended - $began }")"
END

if [[ $way == container ]]; then
    mkdir "$work/bin"
    printf '#!/bin/sh\nexec podman "$@"\n' >"$work/bin/docker"
    chmod +x "$work/bin/docker"
    # The release's name for what is given; the port of this machine may be taken.
    sed "s|ghcr.io/redis-lock/redis-lock:[^ ]*|$image|; s|127.0.0.1:6379:|127.0.0.1:16379:|" <<<"$commands" >"$work/commands"
    sed -i "s|/given|$work|g; s|/tmp/said|$work/said|g" "$work/type.sh"
    PATH=$work/bin:$PATH bash "$work/type.sh"
    exit
fi

if ! podman image exists "localhost/empty:$suite"; then
    scripts/debootstrap.sh "$suite" "$work/root" --include=ca-certificates
    tar -C "$work/root" -c . | podman import --quiet - "localhost/empty:$suite" >/dev/null
    rm -rf "$work/root"
fi

mkdir -p "$work/given/bin"
printf '%s\n' "$commands" >"$work/given/commands"
[[ -z $given ]] || cp "$given" "$work/given/"
[[ $way != source ]] || git clone --quiet --bare --depth 1 "file://$PWD" "$work/given/redis-lock"
mv "$work/type.sh" "$work/given/"
cat >"$work/given/bin/sudo" <<'END'
#!/bin/sh
exec "$@"
END
cat >"$work/given/bin/systemctl" <<'END'
#!/bin/sh
# restart redis-server
! redis-cli PING >/dev/null 2>&1 || redis-cli SHUTDOWN
mkdir -p /run/redis && chown redis:redis /run/redis
runuser -u redis -- redis-server /etc/redis/redis.conf --daemonize yes
until redis-cli PING >/dev/null 2>&1; do sleep 0.1; done
END
cat >"$work/given/bin/curl" <<'END'
#!/bin/sh
for word; do last=$word; done
case $last in
    https://github.com/*/releases/download/*) exec cp "/given/${last##*/}" . ;;
    https://sh.rustup.rs) exec /usr/bin/curl -sSf https://static.rust-lang.org/rustup/rustup-init.sh ;;
esac
exec /usr/bin/curl "$@"
END
chmod 755 "$work/given/bin/"*
# No service starts when it is installed. A tarball is for somebody who has a server already.
# shellcheck disable=SC2016 # for the shell in the empty system
prepare='printf "exit 101\n" >/usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d; export PATH=/given/bin:$PATH HOME=/root
    export DEBIAN_FRONTEND=noninteractive; cd /root; apt-get -qq update'
case $way in
    tarball) prepare+='; apt-get -qq install -y --no-install-recommends redis-server >/dev/null 2>&1' ;;
    source) prepare+='; mkdir -p /root/.config/git; printf "[url \"file:///given/redis-lock\"]\n insteadOf = https://github.com/redis-lock/redis-lock\n[safe]\n directory = *\n" >/root/.config/git/config' ;;
esac
certificates=()
[[ ! -e /etc/ssl/certs/ca-certificates.crt ]] ||
    certificates=(--volume /etc/ssl/certs/ca-certificates.crt:/etc/ssl/certs/ca-certificates.crt:ro
        --env SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt --env CURL_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt)
podman run --rm --volume "$work/given:/given:ro" "${certificates[@]}" "localhost/empty:$suite" \
    bash -c "$prepare; bash /given/type.sh"
