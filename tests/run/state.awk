# Reads msgstore.h and checks that each struct of a log's handle is written by its own
# section. tests/run/test_order.sh runs it.
#
#   awk -v name=NAME -f state.awk HEADER
#
# A struct has an owner where a comment that begins with a tag stands over its typedef:
#
#   /* [log-sync] What is on the disk ... */
#   typedef struct ms__log_durable {
#
# Its member in the handle is that of "typedef struct ms__log". A write is an assignment to
# log->MEMBER.something, ++ or --, or an atomic store to it. The functions named in `first`
# set first values, and may write what they want.

BEGIN {
    check = "state_is_written_by_its_section"
    split("ms__log_attach ms__log_attach_file ms__log_file_once ms__log_defaults ms_log_open", names, " ")
    for (i in names) first[names[i]] = 1
}

/^\/\* ==== \[/ {
    section = $3
    gsub(/[][]/, "", section)
}
/^\/\* \[[a-z-]+\] / {
    tag = $2
    gsub(/[][]/, "", tag)
}
/^typedef struct / && tag != "" {
    owner_of[$3] = tag
    tag = ""
}
/^typedef struct ms__log \{/ { in_handle = 1 }
in_handle && $1 in owner_of {
    member = $2
    sub(/;.*/, "", member)
    owner[member] = owner_of[$1]
    n_owned++
}
/^}/ { in_handle = 0 }

# The function that a line belongs to: the last name before a ( in the first column.
/^[A-Za-z]/ && match($0, /[A-Za-z_0-9]+\(/) { fn = substr($0, RSTART, RLENGTH - 1) }

{
    rest = $0
    while (match(rest, /log->[a-z]+\.[A-Za-z_0-9.]+(\[[^]]*\])?/)) {
        before = substr(rest, 1, RSTART - 1)
        word = substr(rest, RSTART + 5, RLENGTH - 5)
        rest = substr(rest, RSTART + RLENGTH)
        member = word
        sub(/\..*/, "", member)
        if (!(member in owner) || owner[member] == section || fn in first) continue
        writes = rest ~ /^ *([-+|&]?=[^=]|\+\+|--)/ || before ~ /(\+\+|--)$/ ||
            before ~ /ms__(store|or)[a-z0-9_]*\(&$/
        if (writes) {
            print "FAIL " check ": " name ":" NR ": [" section "] writes " word \
                ", which is of [" owner[member] "]"
            bad++
        }
    }
}

END { if (!bad) print "ok " check " (" n_owned + 0 " structs)" }
