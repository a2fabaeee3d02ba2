#!/bin/sh
# Renders the values with their charts and looks for the module in what comes out; needs helm. A chart that cannot
# be had is left out, which is said, and of its values only the form is checked, where yamllint is there.
#
# usage: [CHARTS=<folder>] test.sh    CHARTS has unpacked charts: valkey, redis (Bitnami's), redis-replication
set -eu
cd "$(dirname -- "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

if command -v yamllint >/dev/null; then
    yamllint -d '{extends: default, rules: {line-length: {max: 120}, document-start: disable, brackets: disable}}' \
        ./*.yaml ../container/compose.yaml || failed=1
else
    echo 'the form of the files: left out, for want of yamllint'
fi
command -v helm >/dev/null || { echo 'the charts: left out, for want of helm'; exit "$failed"; }

# Values, chart, where the chart is fetched from, and what must be in the result, one a line.
check() {
    values=$1 chart=$2 from=$3
    folder=${CHARTS:-$work}/$chart
    # shellcheck disable=SC2086 # a name, or a name and an option
    [ -d "$folder" ] || helm pull $from --untar --untardir "$work" >"$work/log" 2>&1 || {
        echo "$values: left out, its chart cannot be had: $(tail -n 1 "$work/log" | cut -c 1-100)"
        return
    }
    if ! helm template locks "$folder" --values "$values" >"$work/out"; then
        failed=1
        return
    fi
    while read -r wanted; do
        grep -qF -- "$wanted" "$work/out" || { echo "$values: no $wanted"; failed=1; }
    done
    echo "$values: as it should be, $(grep -c '^kind:' "$work/out") objects"
}

check valkey.yaml valkey 'valkey --repo https://valkey.io/valkey-helm/' <<'END'
image: ghcr.io/redis-lock/redis-lock:
loadmodule /usr/lib/redis/modules/libredis_lock.so
appendfsync always
min-replicas-to-write 1
- redis-lock-health
END
check bitnami-redis.yaml redis oci://registry-1.docker.io/bitnamicharts/redis <<'END'
image: ghcr.io/redis-lock/redis-lock:
loadmodule /redis-lock/libredis_lock.so
- mountPath: /redis-lock
sentinel monitor locks
END
check redis-operator.yaml redis-replication \
    'redis-replication --repo https://ot-container-kit.github.io/helm-charts/' <<'END'
additionalRedisConfig: "locks-ext-config"
loadmodule /usr/lib/redis/modules/libredis_lock.so
END
exit "$failed"
