# Reads a library in one header and checks the order of its sections. tests/test_order.sh
# runs it. mawk, gawk and the original awk will do.
#
#   awk -v name=NAME -v max_lines=1500 -v ends=FILE -v alone=FILE -f order.awk HEADER
#
# A section begins at a line "/* ==== [tag] title". Tags that begin with "api-" belong to
# the interface, all others to the implementation. The CONTENTS comment at the head of the
# file lists all tags, and names the part that each group of them belongs to.
#
# The program prints "ok CHECK", or lines "FAIL CHECK: reason", for each check. It writes:
#
# ends     a line "TAG LINE DEPTH" for each section of the implementation: its last line,
#          and how many #if are open there.
# alone    the header without the code of the store part. Line numbers stay the same.
#
# Comments and literals are dropped first. The rest is split into tokens. A small parser
# finds what they define at file level: functions, objects, macros, types, tags and
# enumerators. Every other name is a use. All branches of an #if are read, and each begins
# in the state that the parser had at the #if.


# ---- Complaints. Of each check the first `most` are printed, then their number.

function complain(check, line, reason)
{
    bad[check]++
    if (bad[check] <= most)
        print "FAIL " check ": " (line ? name ":" line ": " : "") reason
}

function conclude(check, note)
{
    if (bad[check] > most)
        print "FAIL " check ": " bad[check] - most " more"
    if (!bad[check]) print "ok " check (note ? " (" note ")" : "")
}


# ---- CONTENTS: all tags in order. The words to the left of a group name its part.

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


# ---- What is defined where. A key is a name. The tag of a struct, union or enum, which C
# keeps apart from other names, has "struct " in front of it.

function define(key, kind, line)
{
    n_defined[key]++
    defined_in[key, n_defined[key]] = section
    defined_line[key, n_defined[key]] = line
    defined_kind[key, n_defined[key]] = kind
    n_names++
}

function use(key, line)
{
    if (!((section, key) in used_line)) {
        used[++n_used] = key
        used_in[n_used] = section
        used_line[section, key] = line
    }
}


# ---- Text without comments and literals. A string becomes "", a character 0.

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
        if (token == "\"") {
            out = out "\"\""
            match(line, /^([^"\\]|\\.)*"/)
        } else {
            out = out " 0 "
            match(line, /^([^'\\]|\\.)*'/)
        }
        line = RLENGTH > 0 ? substr(line, RLENGTH + 1) : ""
    }
}

# Moves the next token from `rest` to `token`. Returns 0 at the end.
function next_token()
{
    if (!match(rest, /[A-Za-z_][A-Za-z_0-9]*|[0-9][A-Za-z_0-9.]*|##|""|[^ \t]/)) return 0
    token = substr(rest, RSTART, RLENGTH)
    rest = substr(rest, RSTART + RLENGTH)
    return 1
}

function is_name(word) { return word ~ /^[A-Za-z_]/ }
function is_tag_word(word) { return word ~ /^(struct|union|enum)$/ }


# ---- Preprocessor lines. Continued lines are joined before.

function directive(text, line,    word, macro, params, depth)
{
    rest = text
    sub(/^[ \t]*#[ \t]*/, "", rest)
    if (!next_token()) return
    word = token
    if (word ~ /^(if|ifdef|ifndef)$/) {
        depth = ++if_depth
        if_braces[depth] = braces
        if_function[depth] = in_function
        if_statement[depth] = n_statement
    } else if (word ~ /^(elif|else)$/) {
        braces = if_braces[if_depth]
        in_function = if_function[if_depth]
        n_statement = if_statement[if_depth]
    } else if (word == "endif") {
        if_depth--
    }
    if (word == "define") {
        next_token()
        macro = token
        define(macro, "macro", line)
        params = " "
        if (rest ~ /^\(/) {
            while (next_token() && token != ")")
                if (is_name(token)) params = params token " "
            macro_params[macro] = params
        } else {
            delete macro_params[macro]
        }
        macro_body[macro] = rest
        uses_in_macro(params, line)
    } else if (word ~ /^(if|ifdef|ifndef|elif|undef)$/) {
        uses_in_macro(" ", line)
    }
}

# A parameter is no use, and neither is a part of a name that ## joins. A name between a
# type and "=" is a variable of the macro.
function uses_in_macro(params, line,    before, held, held_before)
{
    before = held = ""
    while (next_token()) {
        if (held != "" && token == "=" && is_name(held_before))
            define(held, "local", line)
        else if (held != "" && token != "##")
            macro_use(held, held_before, params, line)
        held = ""
        if (is_name(token) && before != "##") { held = token; held_before = before }
        before = token
    }
    if (held != "") macro_use(held, held_before, params, line)
}

function macro_use(word, before, params, line)
{
    if (index(params, " " word " ")) return
    use(is_tag_word(before) ? "struct " word : word, line)
}

# Defines the enumerators of "enum { LIST(EACH) }". The body of the macro LIST applies its
# parameter to each entry. The body of the macro EACH begins with an enumerator.
function define_list(list, each, line,    body, apply, param, depth, args, i, c)
{
    body = macro_body[list]
    split(macro_params[list], apply, " ")
    while (match(body, "(^|[^A-Za-z_0-9])" apply[1] "\\(")) {
        body = substr(body, RSTART + RLENGTH)
        split("", args)
        args[depth = 1] = ""
        param = 1
        for (i = 1; i <= length(body); i++) {
            c = substr(body, i, 1)
            if (c == "(") depth++
            if (c == ")" && --depth == 0) break
            if (c == "," && depth == 1) args[++param] = ""
            else args[param] = args[param] c
        }
        body = substr(body, i + 1)
        define(joined(each, args), "enumerator", line)
    }
}

# Returns the name that a macro makes of its arguments: all before the first "=" or ",".
function joined(macro, args,    params, n, at, piece, made, i)
{
    n = split(macro_params[macro], params, " ")
    made = macro_body[macro]
    sub(/[=,].*/, "", made)
    at = split(made, piece, "##")
    made = ""
    for (i = 1; i <= at; i++) {
        gsub(/[ \t]/, "", piece[i])
        made = made argument(piece[i], params, n, args)
    }
    return made
}

function argument(word, params, n, args,    i, value)
{
    for (i = 1; i <= n; i++) {
        if (params[i] != word) continue
        value = args[i]
        gsub(/[ \t]/, "", value)
        return value
    }
    return word
}


# ---- Declarations at file level. statement[] holds the tokens since the last declaration
# ended: "{}" for all that is in braces, and no attributes.

function parse(line)
{
    while (next_token()) {
        if (token == "{") opened(line)
        else if (token == "}") closed()
        else if (braces == 0) at_file_level(line)
        else if (braces == enum_braces) in_enum(line)
        if (is_name(token))
            use(is_tag_word(before) ? "struct " token : token, line)
        before_that = before
        before = token
    }
}

function at_file_level(line)
{
    if (token == ";") {
        declared(line)
        n_statement = 0
        return
    }
    if (token == "__attribute__" || token == "__declspec") {
        in_attribute = 1
        attribute_parens = 0
        return
    }
    if (in_attribute) {
        if (token == "(") attribute_parens++
        if (token == ")" && --attribute_parens == 0) in_attribute = 0
        return
    }
    statement[++n_statement] = token
    statement_line[n_statement] = line
    # A macro with braces makes a function that has the name of its first argument.
    if (n_statement == 1) {
        made_by = (token in macro_params) && index(macro_body[token], "{")
        made_parens = 0
    }
    if (made_by && token == "(") made_parens++
    if (made_by && token == ")" && --made_parens == 0) {
        define(statement[3], "function", line)
        n_statement = 0
    }
}

function opened(line)
{
    if (braces == 0 && before == "\"\"" && statement[n_statement - 1] == "extern") {
        linkage++ # extern "C" {
        n_statement = 0
        return
    }
    if (in_function) { braces++; return }
    if (is_tag_word(before) || (is_name(before) && is_tag_word(before_that))) {
        if (!is_tag_word(before)) define("struct " before, "tag", line)
        if (before == "enum" || before_that == "enum") {
            enum_braces = braces + 1
            enum_list = ""
            enum_parens = 0
            enum_next = 1
        }
    } else if (braces == 0 && before != "=") {
        in_function = 1
        if (before == ")") define_function(line)
        else trouble(line, "'{' after '" before "'")
    }
    braces++
}

function closed()
{
    if (braces == 0) {
        if (linkage) linkage--
        else trouble(FNR, "'}' without '{'")
        n_statement = 0
        return
    }
    if (braces == enum_braces) enum_braces = 0
    if (--braces > 0) return
    if (in_function) { in_function = n_statement = 0; return }
    statement[++n_statement] = "{}"
    statement_line[n_statement] = FNR
}

function in_enum(line)
{
    if (enum_list != "" && is_name(token)) {
        if (token in macro_params) define_list(enum_list, token, line)
        else trouble(line, "the list " enum_list " of an enum is not understood")
        enum_list = ""
        enum_next = 1
        return
    }
    if (token == "(") enum_parens++
    else if (token == ")") enum_parens--
    else if (token == "," && enum_parens == 0) enum_next = 1
    else if (enum_next && is_name(token)) {
        if (token in macro_params) {
            enum_list = token
        } else {
            define(token, "enumerator", line)
            enum_next = 0
        }
    }
}

function trouble(line, what) { complain("the_header_is_understood", line, what) }

# Returns where in statement[] the name of a function is, 0 if there is none. The name
# precedes the parameters, or is within parentheses before them: (*name)(...).
function function_name(    i, depth, group, at)
{
    depth = group = 0
    for (i = 1; i <= n_statement; i++) {
        if (statement[i] == "(") {
            if (depth++ == 0 && (!group || statement[i - 1] != ")")) group = i
        } else if (statement[i] == ")") {
            depth--
        }
    }
    if (!group) return 0
    for (at = group + 1; statement[at] == "*"; at++) { }
    if (at > group + 1) return is_name(statement[at]) ? at : 0
    return is_name(statement[group - 1]) ? group - 1 : 0
}

function define_function(line,    at)
{
    at = function_name()
    if (at) define(statement[at], "function", statement_line[at])
    else trouble(line, "a function without a name")
}

# Defines what a statement at file level declares, once its ";" is read.
function declared(line,    i, depth, at, is_typedef, is_extern, equal)
{
    if (n_statement == 0) return
    is_typedef = is_extern = equal = 0
    for (i = 1; i <= n_statement && !equal; i++) {
        if (statement[i] == "typedef") is_typedef = 1
        if (statement[i] == "extern" || statement[i] == "MS_API") is_extern = 1
        if (statement[i] == "=") equal = i
    }
    at = function_name()
    if (at && (!equal || at < equal)) {
        if (is_typedef) define(statement[at], "type", statement_line[at])
        else if (statement[at - 1] == "*" && statement[at - 2] == "(")
            define(statement[at], "object", statement_line[at])
        else if (is_api && !((statement[at]) in declared_in)) {
            promised[++n_promised] = statement[at]
            declared_in[statement[at]] = section
            declared_line[statement[at]] = statement_line[at]
        }
        return
    }
    if (is_extern) return
    # Names before "=", "[", "," and the end, outside of braces and initializers.
    depth = equal = 0
    for (i = 1; i <= n_statement + 1; i++) {
        token = i > n_statement ? "," : statement[i]
        if (token == "(" || token == "[") depth++
        if (!equal && depth <= (token == "[") && token ~ /^[=[,]$/ &&
            is_name(statement[i - 1]) && !is_tag_word(statement[i - 2]))
            define(statement[i - 1], is_typedef ? "type" : "object",
                   statement_line[i - 1])
        if (token == ")" || token == "]") depth--
        if (depth == 0 && token == "=") equal = 1
        if (depth == 0 && token == ",") equal = 0
    }
    token = ";"
}


# ---- Reading.

BEGIN {
    if (!most) most = 20
    section = n_sections = 0 # 0: the head of the file
    tag_of[0] = "head"
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

function end_section(last)
{
    if (!section) return
    lines_of[section] = last - begins[section] + 1
    if (!api[section] && ends) print tag_of[section], last, if_depth >ends
}

{
    is_api = api[section]
    code = code_of($0)
    if (in_directive || code ~ /^[ \t]*#/) {
        if (!in_directive) { text = ""; text_line = FNR }
        in_directive = code ~ /\\$/
        sub(/\\$/, "", code)
        text = text " " code
        if (!in_directive) directive(text, text_line)
        is_directive = 1
    } else {
        rest = code
        parse(FNR)
        is_directive = 0
    }
    if (alone) {
        skipped = part[section] == "store part"
        print skipped && !(is_directive && text ~ /# *(if|el|endif)/) ? "" : $0 >alone
    }
}

END {
    end_section(FNR)
    if (if_depth) trouble(FNR, if_depth " #if without #endif")
    if (braces) trouble(FNR, braces " braces are open at the end")
    if (linkage) trouble(FNR, linkage " extern \"C\" are open at the end")
    check_uses()
    check_contents()
    check_lines()
}


# ---- The checks.

function is_public(key) { return key ~ /^ms_[^_]/ }

# Only these sections of the formats part may call public functions of stores.
function may_call_stores(s)
{
    return tag_of[s] ~ /^(request|answer|task|session|ffi)$/
}

# Returns the definition of key that counts. A function or an object may have one in each
# branch of an #if: the last one counts. Of anything else the first one counts, because a
# macro may be defined again further down.
function meant(key,    i, first, last)
{
    first = last = 0
    for (i = 1; i <= n_defined[key]; i++) {
        if (!first) first = i
        if (defined_kind[key, i] ~ /^(function|object)$/) last = i
    }
    return last ? last : first
}

function check_uses(    i, key, s, line, m, d, kind)
{
    for (i = 1; i <= n_promised; i++)
        if (!(promised[i] in n_defined))
            trouble(declared_line[promised[i]], "no definition found: " promised[i])
    for (i = 1; i <= n_used; i++) {
        key = used[i]
        s = used_in[i]
        line = used_line[s, key]
        if (!(key in n_defined)) {
            # The names that [calls] gives to stb_ds are defined in stb_ds.h.
            if (key ~ /^(struct )?(ms__|MS__)/ && key !~ /^(ms__stb_|MS__STB_SH_)/)
                trouble(line, "no definition found: " key)
            continue
        }
        m = meant(key)
        d = defined_in[key, m]
        kind = defined_kind[key, m]
        if (api[s]) { # it declares what the implementation defines, and points to structs
            if (key ~ /^struct / || (!api[d] && !(key in declared_in))) continue
            if (key in declared_in) d = declared_in[key]
        }
        checked++
        if (d > s)
            complain("no_section_calls_upward", line,
                     key " is used in [" tag_of[s] "], but defined in [" tag_of[d] \
                     "], line " (api[s] && key in declared_in ? declared_line[key] : \
                                 defined_line[key, m]))
        if (part[d] == "formats part" && part[s] == "store part")
            crossing(line, key, s, d, defined_line[key, m])
        if (part[d] == "store part" && part[s] == "formats part" &&
            !(kind == "function" && is_public(key) && may_call_stores(s)))
            crossing(line, key, s, d, defined_line[key, m])
    }
    if (!parts["store part"] || !parts["formats part"] || !parts["foundation"])
        complain("no_name_crosses_between_store_and_formats", 0,
                 "CONTENTS lists no foundation, no store part or no formats part")
    conclude("the_header_is_understood", n_names " definitions")
    conclude("no_section_calls_upward", checked " uses")
    conclude("no_name_crosses_between_store_and_formats")
}

function crossing(line, key, s, d, where)
{
    complain("no_name_crosses_between_store_and_formats", line,
             key " is used in [" tag_of[s] "] of the " part[s] ", but defined in [" \
             tag_of[d] "] of the " part[d] ", line " where)
}

function check_contents(    i, n)
{
    n = n_listed > n_sections ? n_listed : n_sections
    for (i = 1; i <= n; i++) {
        if (listed[i] == tag_of[i] && i <= n_sections) continue
        complain("contents_names_every_section", i <= n_sections ? begins[i] : 0,
                 "section " i " is " (i <= n_sections ? "[" tag_of[i] "]" : "missing") \
                 ", CONTENTS lists " (i <= n_listed ? "[" listed[i] "]" : "nothing"))
        break # all that follow would differ, too
    }
    if (!n) complain("contents_names_every_section", 0, "there is no section")
    conclude("contents_names_every_section", n_sections " sections")
}

function check_lines(    i, j, best, note)
{
    for (i = 1; i <= n_sections; i++)
        if (lines_of[i] > max_lines)
            complain("sections_have_at_most_" max_lines "_lines", begins[i],
                     "[" tag_of[i] "] has " lines_of[i] " lines")
    for (j = 1; j <= 5 && j <= n_sections; j++) {
        best = 0
        for (i = 1; i <= n_sections; i++)
            if (!(i in printed) && (!best || lines_of[i] > lines_of[best])) best = i
        printed[best] = 1
        note = note (j > 1 ? ", " : "longest: ") tag_of[best] " " lines_of[best]
    }
    conclude("sections_have_at_most_" max_lines "_lines", note)
}
