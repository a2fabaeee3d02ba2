# A link's target as a path from the root, without its anchor.
function resolve(page, target) {
    sub(/[#?].*/, "", target)
    if (target == "") return page
    sub(/[^\/]*$/, "", page)
    target = "/" page target
    gsub(/\/(\.\/)+/, "/", target)
    while (sub(/\/[^\/]+\/\.\.\//, "/", target)) { }
    return substr(target, 2)
}
