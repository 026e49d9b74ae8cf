# Checks the labels of invariants: (LS3) is rule 3 of [log-sync]. Two letters name the
# section. A line of an essay that begins with the label in brackets defines it.
#
#   awk -f labels.awk FILE ...
#
# Prints "ok NAME" or "FAIL NAME: reason" for each check; ends with 1 if one failed.
function fail(name, text)
{
    print "FAIL " name ": " text
    failed = 1
}

/^ \* \([A-Z][A-Z][1-9][0-9]?\) / || /Invariants: \([A-Z][A-Z][1-9]\)/ {
    match($0, /\([A-Z][A-Z][1-9][0-9]?\)/)
    label = substr($0, RSTART + 1, RLENGTH - 2)
    if (label in defined)
        fail("each_label_is_defined_once", label " is defined in " defined[label] \
             " and in " FILENAME ":" FNR)
    defined[label] = FILENAME ":" FNR
    prefix[substr(label, 1, 2)] = 1
}

{
    rest = $0
    while (match(rest, /(^|[^A-Za-z0-9_."'%\/$+-])[A-Z][A-Z][1-9][0-9]?/)) {
        label = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        if (rest ~ /^[A-Za-z0-9_]/) continue
        sub(/^[^A-Z]*/, "", label)
        if (!(label in cited)) cited[label] = FILENAME ":" FNR
    }
}

END {
    for (label in cited) {
        if (!(substr(label, 1, 2) in prefix) || label in defined) continue
        fail("each_cited_label_is_defined", label " of " cited[label] " is not")
    }
    if (!failed) print "ok labels_of_invariants_are_unique_and_defined"
    exit failed
}
