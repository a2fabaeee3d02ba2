# Prints the form and the first sentences of each page of docs/commands, in mdoc.
#
# usage: awk -f manual.awk docs/commands/lock.*.md

function plain(text) {
    while (match(text, /\[[^]]*\]\([^)]*\)/)) {
        link = substr(text, RSTART, RLENGTH)
        words = substr(link, 2, index(link, "](") - 2)
        text = substr(text, 1, RSTART - 1) words substr(text, RSTART + RLENGTH)
    }
    gsub(/[`*]/, "", text)
    gsub(/\\/, "\\e", text)
    gsub(/\. /, ".\n", text)
    return text
}

FNR == 1 { block = 0; summary = "" }
FNR > 2 && !block && !/^```/ && NF { summary = summary (summary == "" ? "" : " ") $0 }
/^```/ {
    block++
    if (block == 1) print ".Bd -literal -offset indent"
    if (block == 2) {
        print ".Ed"
        print ".Pp"
        print plain(summary)
    }
    next
}
block == 1 { print }
