# The installed file, the first screen of the README, and what the page says.

# The first block of code in the README is run in an empty home, from a copy of the package.
test_the_first_screen_works_from_an_installed_file() {
    local package="$folder/package"
    cp -r "$here/.." "$package"
    mkdir "$folder/home"
    sed -n '/^```sh$/,/^```$/{/^```/d;p;}' "$package/README.md" | sed '/^REDIS_LOCK=functions/,$d' >"$folder/screen"
    grep -q redis-lock "$folder/screen" || exit 1
    (cd "$package" && HOME="$folder/home" REDIS_LOCK_CLI="redis-cli -p $port" sh "$folder/screen") >"$folder/out" 2>&1
    equal $? 0
    check "$(cat "$folder/out")" grep -Eq '^paid, with token [0-9]{16}$' "$folder/out"
    rm -r "$package" # what is installed stands alone
    equal "$(HOME="$folder/home" "$folder/home/.local/bin/redis-lock" -p "$port" $KEY echo in)" in
    check 'the page' [ -s "$folder/home/.local/share/man/man1/redis-lock.1" ]
}

test_the_script_of_the_readme_works_from_the_path() {
    ln -s "$program" "$folder/redis-lock"
    sed -n '/^REDIS_LOCK=functions/,/^```$/{/^```/d;p;}' "$here/../README.md" >"$folder/script"
    PATH="$folder:$PATH" REDIS_LOCK_CLI="redis-cli -p $port" $shell -eu "$folder/script" >"$folder/out" 2>&1
    equal $? 0
    check "$(cat "$folder/out")" grep -Eqx '[0-9]{16}' "$folder/out"
    is_free
}

test_every_option_is_in_the_page() {
    local option
    for option in $(grep -o -- '--[a-z][a-z-]*' "$program" | sort -u); do
        case $option in --no-raw | --no-auth-warning) continue ;; esac
        grep -Eq -- "Fl( Fl)? ([a-z0-9 ,|]*Fl Fl )?${option#--}|Fl Fl ${option#--}" "$here/../redis-lock.1" ||
            { echo "$option is not in the page"; exit 1; }
    done
}

test_a_shell_that_cannot_is_refused_clearly() {
    local other
    for other in mksh ksh yash posh zsh; do
        command -v $other >/dev/null || continue
        $other "$program" $KEY true 2>"$folder/err"
        equal $? 64
        says 'this shell is not supported'
    done
}
