#!/usr/bin/env bash
# Which suites belong to a section of the header: tests/SECTIONS.md.
#
#   tests/run/sections.sh            writes tests/SECTIONS.md
#   tests/run/sections.sh --print    prints what it would write
#   tests/run/sections.sh --escaped FILE   prints each control whose suite is not in a row
#                                    of its section in that table
#   tests/run/sections.sh --unrecorded [FILE]   prints each section with functions that has no
#                                    suite in reach.txt, or in that file
#   tests/run/sections.sh --record   writes tests/run/reach.txt from what `make coverage` left
#
# A row has the suites of the controls that take something out of the section, those with the
# most controls first; then the suites that are named after it; then those of its line in
# reach.txt, which together run each of its lines three times, as far as suites do: one that runs a
# line need not notice its faults. Slow suites are there for what no other one runs. A section
# without functions has test_compile.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/run/suites.sh
table=tests/SECTIONS.md
reach=tests/run/reach.txt
slow=15  # seconds of processor: a slower suite has to run lines that no other one runs
suites=3 # that have to run a line
least=3  # lines that a further suite has to add, unless no other one runs them

# sections: "TAG FILE TITLE" for each file of the implementation.
sections()
{
    local file
    while read -r file; do
        sed -n "s|^/\* ==== \[\([a-z0-9-]*\)\] \(.*\)|\1 $file \2|p" "$file"
    done < <(bash tools/join.sh --files) | sed 's/ *=*\( \*\/\)\{0,1\}$//' | grep -v '^api-'
}

# programs: the suites that are programs, without those of the tool.
programs()
{
    suite_files | grep -v '^tests/tool/' | sed -n 's|.*/\(test_.*\)\.c$|\1|p' | sort
}

# functions: "FUNCTION TAG" for each definition. The file for other languages is the row ffi
# of tests/README.md.
functions()
{
    local tag file _
    while read -r tag file _; do
        awk -v tag="$tag" '
            /^[A-Za-z].*\(/ && !/;$/ && match($0, /ms_[a-z_0-9]*\(/) {
                print substr($0, RSTART, RLENGTH - 1), tag
            }' "$file"
    done < <(sections && echo ffi bindings/msgstore_ffi.h)
}

# controls: "TAG SUITE CONTROL" for each control and each section that it edits.
controls()
{
    awk 'NR == FNR { tag_of[$1] = $2; next }
        {
            split("", seen)
            for (i = 3; i <= NF; i++) {
                if (!($i in tag_of)) {
                    print "sections.sh: " $1 " edits " $i ", which is in no file" >"/dev/stderr"
                    exit 1
                }
                if (!seen[tag_of[$i]]++) print tag_of[$i], $2, $1
            }
        }' <(functions) <(bash tests/run/controls.sh --edits)
}

# named TAG: the suites named after the section, and after no other one with a longer name.
named()
{
    awk -v tag="${1//-/_}" -v tags="$tags" '
        BEGIN { n = split(tags, other, " ") }
        {
            for (i = 1; i <= n; i++) {
                name = other[i]
                gsub(/-/, "_", name)
                if (($0 "_") ~ "^test_" name "_" && length(name) > length(tag)) next
            }
            if (($0 "_") ~ "^test_" tag "_") print
        }' <<<"$programs"
}

# suites_of TAG: the suites of its row, in their order.
suites_of()
{
    {
        awk -v tag="$1" '$1 == tag { n[$2]++ } END { for (s in n) print n[s], s }' \
            <<<"$edited" | sort -k1,1nr -k2 | cut -d ' ' -f 2
        named "$1"
        sed -n "s/^$1 [0-9/]* *//p" "$reach" | tr ' ' '\n' | sed 's/+.*//'
    } | awk 'NF && !seen[$0]++ { print } END { if (NR == 0) print "test_compile" }' | xargs
}

print()
{
    local tag title _ edited tags programs
    edited=$(controls) || exit 1
    tags=$(sections | cut -d ' ' -f 1 | xargs)
    programs=$(programs)
    cat <<'END'
# Sections and their suites

`make check SECTION=name` runs a row, the suites with the most controls first.
`tests/run/sections.sh` writes this table from the controls and from [run/reach.txt](run/reach.txt);
test_suites fails where it is not what would be written.

| section | what it is | suites |
| --- | --- | --- |
END
    while read -r tag _ title; do
        echo "| $tag | $title | $(suites_of "$tag") |"
    done < <(sections)
}

# escaped FILE: what a stranger would miss who trusts the rows of that table.
escaped()
{
    awk -F '[| ]+' 'NR == FNR { for (i = 3; i <= NF; i++) has[$2 " " $i] = 1; next }
        !(($1 " " $2) in has) { print $3 " of [" $1 "] is noticed by " $2 "," }' \
        "$1" <(controls)
}

# unrecorded FILE: sections whose reach nobody measured. A line "TAG 0 SUITE+0" by hand will
# do for a new one until make coverage has run.
unrecorded()
{
    comm -23 <(functions | cut -d ' ' -f 2 | grep -vx ffi | sort -u) \
        <(awk 'NF > 2 { print $1 }' "$1" | sort -u) | sed 's/$/ has no suite in reach.txt,/'
}

# lines: "FIRST TAG" for each section of msgstore.h.
lines()
{
    sed -n '/^\/\* ==== \[/{=;p;}' msgstore.h |
        sed 'N; s|^\([0-9]*\)\n/\* ==== \[\([a-z0-9-]*\)\].*|\1 \2|'
}

# reached SUITE: "TAG LINE" for each line of the implementation that it ran.
reached()
{
    local profiles=(build/cov/prof/"$1"-*.profraw) object=build/cov/$1.o
    [ -e "${profiles[0]}" ] || return 0
    [ -f "$object" ] || object=build/cov/msgstore.o
    "$profdata" merge -sparse -o build/cov/one.profdata "${profiles[@]}" &&
        "$cov" export "$object" -instr-profile build/cov/one.profdata -format=lcov 2>/dev/null |
        awk -F '[:,]' 'NR == FNR { split($0, a, " "); first[++n] = a[1]; tag[n] = a[2]; next }
            /^SF:/ { header = /\/msgstore\.h$/; at = 1 }
            header && /^DA:/ && $3 > 0 {
                while (at < n && first[at + 1] <= $2) at++
                if (tag[at] !~ /^api-/) print tag[at], $2
            }' build/cov/lines -
}

record()
{
    local version suite seconds
    version=$("${CLANG:-clang}" -dumpversion | sed 's/\..*//')
    profdata=$(command -v "llvm-profdata-$version" || command -v llvm-profdata) || exit 1
    cov=$(command -v "llvm-cov-$version" || command -v llvm-cov) || exit 1
    lines >build/cov/lines
    : >build/cov/reached
    while read -r suite; do
        seconds=$(tail -n 1 "build/cov/log/$suite.times" | awk -F '[ms ]' '
            { print int($1 * 60 + $2 + $4 * 60 + $5) }')
        reached "$suite" | sed "s/^/$suite ${seconds:-0} /" >>build/cov/reached
    done < <(programs)
    LC_ALL=C awk -v slow="$slow" -v suites="$suites" -v least="$least" '
        {
            if (runs[$3, $4]++ == 0) total[$3]++
            if ($2 <= slow) quick[$3, $4] = 1
            ran[$3, $1] = ran[$3, $1] " " $4
            if (!($1 in order)) { order[$1] = ++n; suite[n] = $1; late[n] = $2 > slow }
        }
        # Returns how many runs of lines a suite would add: of a slow one only those that no
        # quick suite has. only[1]: lines that no suite of the row runs yet.
        function adds(tag, i,    list, k, m, sum)
        {
            k = split(ran[tag, suite[i]], list, " ")
            sum = only[1] = 0
            for (m = 1; m <= k; m++) {
                if (late[i] && ((tag, list[m]) in quick)) continue
                if (has[tag, list[m]] < suites) sum++
                if (!((tag, list[m]) in has)) only[1]++
            }
            return sum
        }
        function choose(tag,    line, best, most, i, m, k, list, alone)
        {
            line = ""
            split("", taken)
            for (;;) {
                most = 0
                for (i = 1; i <= n; i++) {
                    if (suite[i] in taken) continue
                    m = adds(tag, i)
                    if (m < least && only[1] == 0) continue
                    if (m > most) { most = m; best = suite[i] }
                }
                if (most == 0) break
                k = split(ran[tag, best], list, " ")
                for (i = 1; i <= k; i++) has[tag, list[i]]++
                line = line " " best "+" most
                taken[best] = chosen[best] = 1
            }
            return total[tag] line
        }
        # Adds a suite that no section needs, and that is named after none, to the one of
        # which it runs the largest share.
        function place(s,    tag, name, best, most, list)
        {
            for (tag in total) {
                name = tag
                gsub(/-/, "_", name)
                if ((s "_") ~ "^test_" name "_") return
            }
            for (tag in total)
                if (split(ran[tag, s], list, " ") > most * total[tag]) {
                    most = split(ran[tag, s], list, " ") / total[tag]
                    best = tag
                }
            row[best] = row[best] " " s "+0"
        }
        END {
            for (tag in total) row[tag] = choose(tag)
            for (i = 1; i <= n; i++) if (!(suite[i] in chosen)) place(suite[i])
            for (tag in total) print tag, row[tag]
        }' build/cov/reached | sort >"$reach"
    echo "$reach: $(wc -l <"$reach") sections"
}

case ${1:-} in
'') print >"$table.new" && mv "$table.new" "$table" ;;
--print) print ;;
--escaped) escaped "${2:-$table}" ;;
--unrecorded) unrecorded "${2:-$reach}" ;;
--record) record ;;
*) echo "sections.sh: unknown option '$1'; see the beginning of the file" >&2 && exit 2 ;;
esac
