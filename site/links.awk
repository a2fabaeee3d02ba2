# Copies a document for the site. A link to a page of the site, or to a picture, leads there; a link to any other file of
# the repository leads to the repository, at the wanted tag.
#
# usage: awk -v page=docs/faq.md -v to=docs/faq.md -v repository=https://... -f paths.awk -f links.awk list docs/faq.md
#        list: what is on the site, a path on a line; to: where the copy lies

BEGIN { gsub(/[^\/]+\//, "../", to); sub(/[^\/]*$/, "", to) }
FNR == NR { on_site[$0]; next }
/^ *```/ { code = !code }
{
    while (!code && match($0, /\]\([^)]*\)/)) {
        target = substr($0, RSTART + 2, RLENGTH - 3)
        printf "%s", substr($0, 1, RSTART + 1)
        $0 = substr($0, RSTART + RLENGTH - 1)
        printf "%s", link(target)
    }
    print
}

function link(target, path, anchor) {
    if (sub(/^https:\/\/github\.com\/redis-lock\/redis-lock\/blob\/main\//, "", target)) path = resolve("", target)
    else if (target ~ /^(#|[a-z]+:)/) return target
    else path = resolve(page, target)
    anchor = match(target, /#/) ? substr(target, RSTART) : ""
    return (path in on_site ? to : repository "/") path anchor
}
