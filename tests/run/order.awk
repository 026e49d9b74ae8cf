# Reads a library in one header and checks the order of its sections.
# tests/run/test_order.sh runs it. mawk, gawk and the original awk will do.
#
#   awk -v name=NAME -v max_lines=1500 -v alone=FILE -f order.awk HEADER
#
# A section begins at a line "/* ==== [tag] title". Tags that begin with "api-" belong to
# the interface, all others to the implementation. The CONTENTS comment at the head of the
# file lists all tags, and names the part that each group of them belongs to.
#
# The program prints "ok CHECK", or lines "FAIL CHECK: reason", for each check. It writes to
# the file alone the header without the code of the store part; line numbers stay the same.
#
# A compiler refuses a type or an enumerator that is used above its definition. It accepts
# what is declared twice, what a macro names and what the interface declares: this program
# looks for those. It relies on the layout of the header: functions, objects and structs
# begin in the first column, and nothing else does. All branches of an #if are read.

function complain(check, line, reason)
{
    bad[check]++
    if (bad[check] <= 20)
        print "FAIL " check ": " (line ? name ":" line ": " : "") reason
}

function conclude(check, note)
{
    if (!bad[check]) print "ok " check (note ? " (" note ")" : "")
}

# CONTENTS: all tags in order. The words to the left of a group name its part.
function read_contents(line,    words, tag)
{
    words = line
    sub(/^ \* */, "", words)
    sub(/ *\[.*/, "", words)
    if (words != "") contents_part = words
    while (match(line, /\[[a-z0-9-]+\]/)) {
        tag = substr(line, RSTART + 1, RLENGTH - 2)
        line = substr(line, RSTART + RLENGTH)
        listed[++n_listed] = tag
        part_of[tag] = contents_part
        parts[contents_part]++
    }
}

# Returns a line without comments and literals. A string becomes "", a character 0.
function code_of(line,    out, at, token)
{
    out = ""
    for (;;) {
        if (in_comment) {
            at = index(line, "*/")
            if (!at) return out
            line = substr(line, at + 2)
            in_comment = 0
            out = out " "
        }
        if (!match(line, /"|'|\/\*|\/\//)) return out line
        token = substr(line, RSTART, RLENGTH)
        out = out substr(line, 1, RSTART - 1)
        line = substr(line, RSTART + RLENGTH)
        if (token == "//") return out
        if (token == "/*") { in_comment = 1; continue }
        out = out (token == "'" ? " 0 " : "\"\"")
        if (token == "'") match(line, /^([^'\\]|\\.)*'/)
        else match(line, /^([^"\\]|\\.)*"/)
        line = RLENGTH > 0 ? substr(line, RLENGTH + 1) : ""
    }
}

# The last definition of a function or an object counts, as each branch of an #if may have
# one; of a macro the first, as it may be defined again further down.
function define(key, is_macro)
{
    if (is_macro && key in defined_in) return
    defined_in[key] = section
    defined_line[key] = FNR
}

# Collects the names of the library in a line of the implementation. A struct, union or
# enum has the key "struct NAME".
function use_names(code,    key, is_tag)
{
    if (!section || api[section]) return
    while (match(code, /(struct |union |enum )?[A-Za-z_][A-Za-z_0-9]*/)) {
        key = substr(code, RSTART, RLENGTH)
        code = substr(code, RSTART + RLENGTH)
        is_tag = sub(/^(struct|union|enum) /, "struct ", key)
        if (key !~ /^(struct )?(ms|MS)_/) continue
        if (!((section, key) in used_line)) {
            used[++n_used] = key
            used_in[n_used] = section
            used_line[section, key] = FNR
        }
        if (!is_tag && code ~ /^\(/) called[key] = FNR
    }
}

# A whole line of the preprocessor.
function directive(text)
{
    sub(/^[ \t]*#[ \t]*/, "", text)
    if (text !~ /^define/) {
        if (text ~ /^(el|if|undef)/) use_names(text)
        return
    }
    sub(/^define[ \t]+/, "", text)
    match(text, /^[A-Za-z_0-9]+/)
    define(substr(text, 1, RLENGTH), 1)
    use_names(substr(text, RLENGTH + 1))
}

function first_name(code)
{
    match(code, /ms_[a-z_0-9]+/)
    return substr(code, RSTART, RLENGTH)
}

# Defines what begins in the first column: all until the first ";" or "{".
function statement(text,    head, stop, is_type)
{
    match(text, /[;{=]/)
    stop = substr(text, RSTART, 1)
    head = substr(text, 1, RSTART - 1)
    if (head ~ /^(typedef |static const )?(struct|union|enum) [a-zA-Z_0-9]+ *$/) {
        sub(/^(typedef|static const) /, "", head)
        sub(/^(struct|union|enum) /, "struct ", head)
        sub(/ *$/, "", head)
        if (stop == "{") define(head)
    } else if (head ~ /^(MS__|enum|extern "")/) {
        return
    } else if (match(head, /ms_[a-z_0-9]+\(/)) {
        is_type = head ~ /^typedef/
        head = first_name(substr(head, RSTART))
        if (stop != ";" || is_type) define(head)
        else if (api[section]) { promised[++n_promised] = head; promised_line[head] = FNR }
    } else if (head !~ /^typedef/) {
        sub(/[[)].*/, "", head)
        sub(/ *$/, "", head)
        if (match(head, /ms_[a-z_0-9]+$/)) define(substr(head, RSTART))
    }
}

function end_section(last)
{
    if (!section) return
    lines_of[section] = last - begins[section] + 1
    if (in_body || waiting)
        complain("the_header_is_understood", last, "the section ends within a definition")
}

/^ \* ---- / { in_contents = /---- CONTENTS/ }
in_contents && /^ \*  +[a-z ]*(\[[a-z0-9-]+\] *)+$/ { read_contents($0) }

match($0, /^\/\* ==== \[[a-z0-9-]+\]/) {
    end_section(FNR - 1)
    section = ++n_sections
    tag_of[section] = substr($0, 10, RLENGTH - 10)
    begins[section] = FNR
    if (tag_of[section] in section_of)
        complain("contents_names_every_section", FNR,
                 "[" tag_of[section] "] begins a second time")
    section_of[tag_of[section]] = section
    api[section] = tag_of[section] ~ /^api-/
    # A tag that CONTENTS does not list belongs to the part of the section above it.
    if (tag_of[section] in part_of) part[section] = part_of[tag_of[section]]
    else part[section] = part[section - 1]
}

{
    code = code_of($0)
    if (in_directive || code ~ /^[ \t]*#/) {
        text = (in_directive ? text " " : "") code
        in_directive = sub(/\\$/, "", text)
        if (!in_directive) directive(text)
        is_condition = text ~ /# *(if|el|endif)/
    } else {
        is_condition = 0
        use_names(code)
        if (code ~ /^\{/) in_body = 1
        if (code ~ /^\}/) in_body = 0
        if (code ~ /^MS__[A-Z]+\(ms_/) { # a macro makes a function
            define(first_name(code))
        } else if (code ~ /^\} ms_[a-z_0-9]*(\[.*)? = /) { # an object of a struct without a name
            define(first_name(code))
        } else if (code ~ /^[A-Za-z_]/ || waiting) {
            waiting = (waiting ? waiting " " : "") code
            if (code ~ /[;{]/) { statement(waiting); waiting = "" }
        }
    }
    if (alone) print part[section] == "store part" && !is_condition ? "" : $0 >alone
}

END {
    end_section(FNR)
    understood = "the_header_is_understood"
    for (i = 1; i <= n_promised; i++)
        if (!(promised[i] in defined_in))
            complain(understood, promised_line[promised[i]],
                     "no definition found: " promised[i])
    # The names that [calls] gives to stb_ds are defined in stb_ds.h.
    for (key in called)
        if (key ~ /^(ms__|MS__)/ && !(key in defined_in) && key !~ /^(ms__stb_|MS__STB_)/)
            complain(understood, called[key], "no definition found: " key)
    for (key in defined_in) n_names++
    check_uses()
    check_contents()
    check_lines()
}

# Only these sections of the formats part may call public functions of stores.
function may_call_stores(s) { return tag_of[s] ~ /^(request|answer-parts|answer|compact|task|session)$/ }

function check_uses(    i, key, s, d, where, upward, crosses)
{
    upward = "no_section_calls_upward"
    crosses = "no_name_crosses_between_store_and_formats"
    for (i = 1; i <= n_used; i++) {
        key = used[i]
        s = used_in[i]
        if (!(key in defined_in)) continue
        d = defined_in[key]
        where = key " is used in [" tag_of[s] "] of the " part[s] ", but defined in [" \
            tag_of[d] "] of the " part[d] ", line " defined_line[key]
        if (d > s) complain(upward, used_line[s, key], where)
        if ((part[d] == "formats part" && part[s] == "store part") ||
            (part[d] == "store part" && part[s] == "formats part" &&
             !(key ~ /^ms_[^_]/ && may_call_stores(s))))
            complain(crosses, used_line[s, key], where)
    }
    if (!parts["store part"] || !parts["formats part"] || !parts["foundation"])
        complain(crosses, 0, "CONTENTS lists no foundation, no store part or no formats part")
    conclude(understood, n_names " definitions")
    conclude(upward, n_used " uses")
    conclude(crosses)
}

function check_contents(    i, check)
{
    check = "contents_names_every_section"
    for (i = 1; i <= n_listed || i <= n_sections; i++) {
        if (listed[i] == tag_of[i]) continue
        complain(check, begins[i], "section " i " is [" tag_of[i] "], CONTENTS lists [" \
                 listed[i] "]")
        break # all that follow would differ, too
    }
    if (!n_sections) complain(check, 0, "there is no section")
    conclude(check, n_sections " sections")
}

function check_lines(    i, check, longest)
{
    check = "sections_have_at_most_" max_lines "_lines"
    for (i = 1; i <= n_sections; i++) {
        if (lines_of[i] > max_lines)
            complain(check, begins[i], "[" tag_of[i] "] has " lines_of[i] " lines")
        if (lines_of[i] > lines_of[longest]) longest = i
    }
    conclude(check, "longest: " tag_of[longest] " " lines_of[longest])
}
