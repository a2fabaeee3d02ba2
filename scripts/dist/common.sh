# Sourced by the scripts of this folder, in the place of ../lib.sh.

. "$(dirname -- "$0")/../lib.sh"
root=${root%/scripts}
tools=$root/scripts
here=$tools/dist

version=$(project_version)
target=$(module_path)
target=${target%/release/*}
dist=$target/dist
zig=$root/target/tools/zig

# The name of an archive and of the folder in it.
name_of() { printf 'redis-lock-%s-%s\n' "$version" "$1"; }

targets() { awk '/^[^#]/ { print $1 }' "$here/targets.txt"; }

# The glibc of a target, nothing for musl.
glibc_of() { awk -v target="$1" '$1 == target { print $2 }' "$here/targets.txt"; }

# The targets whose archives are there.
built() {
    targets | while read -r triple; do
        [ ! -e "$dist/$(name_of "$triple").tar.gz" ] || printf '%s\n' "$triple"
    done
}
