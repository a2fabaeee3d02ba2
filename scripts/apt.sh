# Sourced: a private apt in a folder. It uses the system's package sources but does not change the system.

# own_apt <folder> <deb|deb-src> [architecture]: makes it and fetches the lists; then `apt-get` of it is
# run by `in_apt <folder> <words...>`, in the folder.
own_apt() {
    mkdir -p "$1/sources" "$1/lists/partial" "$1/cache/archives/partial"
    for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        if [ -e "$list" ]; then sed -n "s/^deb /$2 /p" "$list" >"$1/sources/$(basename "$list" .list).list"; fi
    done
    for list in /etc/apt/sources.list.d/*.sources; do
        if [ -e "$list" ]; then sed "s/^Types:.*/Types: $2/" "$list" >"$1/sources/$(basename "$list")"; fi
    done
    : >"$1/installed"
    cat >"$1/apt.conf" <<END
Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts "$1/sources";
Dir::State::Lists "$1/lists";
Dir::State::status "$1/installed";
Dir::Cache "$1/cache";
APT::Sandbox::User "root";
${3:+APT::Architecture "$3"; APT::Architectures "$3";}
END
    in_apt "$1" update
}

# source_of_redis <folder>: the distribution's, in the folder redis of that.
source_of_redis() {
    own_apt "$1" deb-src && in_apt "$1" --download-only source redis &&
        (cd "$1" && dpkg-source -x redis_*.dsc redis)
}

in_apt() (
    cd "$1" || exit
    export APT_CONFIG="$1/apt.conf"
    shift
    apt-get -qq "$@"
)
