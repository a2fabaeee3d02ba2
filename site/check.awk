# Checks the links of a built site: each leads to a file of it, and to an anchor where it names one.
#
# usage: awk -f paths.awk -f check.awk list page.html ...     list: all files of the site, a path on a line

# An anchor, as a page or a link writes it, without its escapes.
function plain(anchor) {
    gsub(/&lt;|%3C/, "<", anchor)
    gsub(/&gt;|%3E/, ">", anchor)
    gsub(/%5B/, "[", anchor)
    gsub(/%5D/, "]", anchor)
    return anchor
}

FILENAME == ARGV[1] { files[$0]; next }
FNR == 1 { page = FILENAME; RS = "<" }
{
    if (/^base /) next
    while (match($0, /[ \n](id|name|href|src)="[^"]*"/)) {
        tag = substr($0, RSTART + 1, RLENGTH - 2)
        $0 = substr($0, RSTART + RLENGTH)
        value = tag
        sub(/^[a-z]*="/, "", value)
        if (tag ~ /^(id|name)/) anchors[page "#" plain(value)]
        else if (value !~ /^([a-z]+:|\/\/|\$)/) links[page SUBSEP value]
    }
}
END {
    for (link in links) {
        checked++
        split(link, at, SUBSEP)
        path = resolve(at[1], at[2])
        if (path ~ /\/$/) path = path "index.html"
        anchor = match(at[2], /#./) ? plain(substr(at[2], RSTART)) : ""
        if (!(path in files) || (path ~ /\.html$/ && anchor != "" && !(path anchor in anchors))) {
            broken++
            print at[1] ": " at[2] | "sort >&2"
        }
    }
    close("sort >&2")
    printf "%d links, %d broken\n", checked, broken
    exit broken > 0
}
