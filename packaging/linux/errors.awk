# Prints the first table of errors of docs/commands/README.md as a list, in mdoc.

/^## Errors/ { inside = 1 }
inside && /^\| `/ {
    split($0, cells, " *\\| *")
    gsub(/`/, "", cells[2])
    gsub(/`/, "", cells[3])
    if (!rows++) print ".Bl -tag -width MAXWAITERS"
    printf ".It Li %s\n%s\n", cells[2], cells[3]
}
inside && rows && !/^\|/ { print ".El"; exit }
