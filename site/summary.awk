# The table of contents: what docs/README.md links to, in parts by its tables, and below a page what the tables of that
# page link to. A page is listed once, by its heading. What lies in docs is below none but its own folder's page.
#
# usage: awk -f paths.awk -f summary.awk page ...     the first is docs/README.md, the others may be listed

FNR == 1 { page = FILENAME; pages[page] }
/^ *```/ { code = !code }
code { next }
/^# / && !(page in heading) { heading[page] = substr($0, 3) }
page == ARGV[1] && / \| \|$/ && !/\]\(/ { links[page, ++count[page]] = $0 }
page == ARGV[1] || /^\|/ {
    while (match($0, /\]\([^)#:]*\.md[)#]/)) {
        links[page, ++count[page]] = resolve(page, substr($0, RSTART + 2, RLENGTH - 3))
        $0 = substr($0, RSTART + RLENGTH)
    }
}
END {
    top = ARGV[1]
    print "[redis-lock](index.md)\n[Overview](README.md)\n[All documents](" top ")"
    listed["README.md"]
    for (i = 1; i <= count[top]; i++) first[links[top, i]]
    for (i = 1; i <= count[top]; i++) {
        path = links[top, i]
        if (path ~ /^\|/) {
            gsub(/[ |]*\|[ |]*/, "", path)
            print "\n# " toupper(substr(path, 1, 1)) substr(path, 2) "\n"
            continue
        }
        list("", path)
        folder = path
        sub(/(\/README)?\.md$/, "/", folder)
        for (j = 1; j <= count[path]; j++) {
            inner = links[path, j]
            if (!(inner in first) && (inner !~ /^docs\// || index(inner, folder) == 1)) list("  ", inner)
        }
    }
}

function list(indent, path) {
    if (!(path in pages) || path in listed) return
    listed[path]
    print indent "- [" heading[path] "](" path ")"
}
