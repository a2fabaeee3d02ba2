# Prints the form and the first sentences of each page of docs/commands, in mdoc. A page of subcommands has a part
# for each, after its own first sentences.
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
/^## LOCK\./ {
    if (!block && summary != "") {
        print ".Pp"
        print plain(summary)
    }
    block = 0
    summary = ""
    next
}
FNR > 2 && !block && !/^```/ && !/^(- |  )/ && NF { summary = summary (summary == "" ? "" : " ") $0 }
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
