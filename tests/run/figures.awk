# Reads pages of Markdown. Prints, with the file and the line, divided by tabs:
#
#   figure     a measured figure without a command, after the heading of its section
#   command    a command that the page names
#   path       a file of the tree, test: a suite, that it names in code marks
#   link       a link; anchor: that of a heading, as code hosts make it
#   columns    a row of a table that has not as many columns as its head
#
# A figure is a number with a unit of time, rate or size, or a ratio. In a table it counts
# where a cell begins with it (the unit may stand at the head of the column); elsewhere in a
# cell or sentence that says what something takes, or what it is compared with. Defaults, limits
# and bounds are no figures. A command stands in the same block (a paragraph, a fenced block,
# a point of a list; of a table the row or the head) or in the block before or after it,
# below the same heading.
#
# A command stands in code marks or in a line of a fenced block, and begins with "make",
# "bash", "sh" or "build/", with variables before that or not. One of the tool counts for no
# figure.

function say(kind, what) { printf "%s\t%s\t%d\t%s\n", kind, FILENAME, FNR, what }
function trim(text) { gsub(/^[ \t]+|[ \t]+$/, "", text); return text }

# block KIND: ends the current block of the section and begins another one.
function block(kind) {
    sentences(paragraph)
    paragraph = ""
    if (filled || !blocks) blocks++
    kinds[blocks] = kind
    filled = 0
}

function sentences(text,    n, i, part) {
    n = split(text, part, /[.;] +/)
    for (i = 1; i <= n; i++)
        if (part[i] ~ unit && part[i] ~ verb) add_figure(trim(part[i]))
}

function add_figure(what) {
    figure[blocks] = figure[blocks] "figure\t" page "\t" FNR "\t" title ": " what "\n"
}

function end_of_section(    i) {
    block("text")
    for (i = 1; i <= blocks; i++) {
        if (!(i in figure)) continue
        if (i in named || i - 1 in near || i + 1 in near) continue
        printf "%s", figure[i]
    }
    split("", figure)
    split("", named)
    split("", near)
    blocks = 0
}

function row(line,    n, i, text) {
    gsub(/\\\|/, "", line)
    n = split(line, cell, "|")
    if (!rows++) {
        columns = n
        for (i = 2; i < n; i++) head[i] = trim(cell[i])
        if (has_command) named[blocks] = 1
        return
    }
    if (n != columns) say("columns", n - 2 " columns, its head has " columns - 2)
    for (i = 2; i < n && !has_command; i++) {
        text = trim(cell[i])
        if (text !~ /^[0-9]/) sentences(text)
        else if (text ~ unit || "1 " head[i] ~ unit) add_figure(text)
    }
}

function command(text) {
    if (text ~ /^(build\/)?msgstore [a-z][a-z-]*( |$)/) {
        say("command", text)
        return 1
    }
    if (text !~ /^([A-Z_]+=[^ ]* )*(make|bash|sh) [^ ]|^build\/[a-z0-9_\/]+( |$)/) return 0
    has_command = near[blocks] = 1
    if (kinds[blocks] != "table") named[blocks] = 1
    say("command", text)
    return 1
}

function mark(text) {
    if (command(text)) return
    if (text ~ /^[a-z_.]+\/[A-Za-z0-9_\/.-]+\.(awk|c|h|hpp|jsonl|md|mjs|py|sh|sql|svg|txt)$/)
        say("path", text)
    else if (text ~ /^test_[a-z0-9_]+(\/[a-z0-9_]+)?$/)
        say("test", text)
}

BEGIN {
    unit = "[Ii]n (micro|milli)seconds|[0-9] ?(ns|us|ms|s|min|h|x|%|[KMG]i?B|kB|[KMG]B/s|seconds?|minutes?|hours?|days|" \
        "bytes|instructions|times (as|faster|slower)|(appends |messages )?a second)([^a-zA-Z_]|$)"
    verb = "(^| )(takes?|took|costs?|reach(ed|es)?|faster|slower|as (fast|long|slow)|" \
        "measured|reads?)( |,|$)"
}

FNR == 1 { end_of_section(); title = page = FILENAME; fence = rows = 0 }
!/^\|/ && rows { rows = 0; block("text") }
/^ *```/ {
    if (fence = !fence) block("fence"); else block("text")
    next
}
fence { filled = 1; command(trim($0)); next }
/^#/ {
    end_of_section()
    title = $0
    sub(/^#+ /, "", title)
    anchor = tolower(title)
    gsub(/\]\([^)]*\)|[^a-z0-9 _-]/, "", anchor)
    gsub(/ /, "-", anchor)
    say("anchor", anchor)
    next
}
/^\|/ && !rows { block("table") }
/^[ \t]*$/ || /^(-|[0-9]+\.) / { block("text") }
/[^ \t]/ {
    filled = 1
    has_command = 0
    rest = $0
    while (match(rest, /`[^`]+`/)) {
        mark(substr(rest, RSTART + 1, RLENGTH - 2))
        rest = substr(rest, 1, RSTART - 1) "\001" substr(rest, RSTART + RLENGTH)
    }
    plain = rest
    while (match(rest, /\]\([^)]+\)/)) {
        say("link", substr(rest, RSTART + 2, RLENGTH - 3))
        rest = substr(rest, RSTART + RLENGTH)
    }
    if (rows || /^\|/) row($0 ~ /\\\|/ ? $0 : plain)
    else paragraph = paragraph " " plain
}
END { end_of_section() }
