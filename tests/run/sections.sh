#!/usr/bin/env bash
# Which suites belong to a section of the header: tests/SECTIONS.md.
#
#   tests/run/sections.sh            writes tests/SECTIONS.md
#   tests/run/sections.sh --print    prints what it would write
#   tests/run/sections.sh --escaped FILE   prints each control whose suite is not in a row
#                                    of its section in that table
#   tests/run/sections.sh --record   writes tests/run/reach.txt from what `make coverage` left
#
# A row has the suites of the controls that take something out of the section, those with the
# most controls first; then the suites that are named after it; then those of its line in
# reach.txt, which together call nearly all of its functions three times: a suite that calls
# a function need not notice its faults. A section without functions has test_compile.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/run/suites.sh
table=tests/SECTIONS.md
reach=tests/run/reach.txt
slow=15     # seconds of processor: a slower suite is in a row only for its controls
fraction=95 # percent of the calls that are to be covered
suites=3    # that have to call a function

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

# reached SUITE: "TAG FUNCTION" for each function that it called.
reached()
{
    local profiles=(build/cov/prof/"$1"-*.profraw)
    [ -e "${profiles[0]}" ] || return 0
    "$profdata" merge -sparse -o build/cov/one.profdata "${profiles[@]}" &&
        "$profdata" show --all-functions build/cov/one.profdata |
        awk 'NR == FNR { tag_of[$1] = $2; next }
            /^  [^ ].*:$/ { name = $1; sub(/:$/, "", name); sub(/.*:/, "", name) }
            /Function count: [1-9]/ && name in tag_of { print tag_of[name], name }' \
            build/cov/functions - | sort -u
}

record()
{
    local version suite seconds
    version=$("${CLANG:-clang}" -dumpversion | sed 's/\..*//')
    profdata=$(command -v "llvm-profdata-$version" || command -v llvm-profdata) || exit 1
    functions >build/cov/functions
    : >build/cov/reached
    while read -r suite; do
        seconds=$(tail -n 1 "build/cov/log/$suite.times" | awk -F '[ms ]' '
            { print int($1 * 60 + $2 + $4 * 60 + $5) }')
        reached "$suite" | sed "s/^/$suite ${seconds:-0} /" >>build/cov/reached
    done < <(programs)
    LC_ALL=C awk -v slow="$slow" -v fraction="$fraction" -v suites="$suites" '
        NR == FNR { total[$2]++; next }
        {
            if (known[$3, $4]++ == 0) called[$3]++
            if ($2 > slow) next
            if (callers[$3, $4]++ < suites) wanted[$3]++
            calls[$3, $1] = calls[$3, $1] " " $4
            size[$3, $1]++
            if (!($1 in order)) { order[$1] = ++n; suite[n] = $1 }
        }
        # Returns how many functions of a section a suite would add.
        function adds(tag, s,    list, k, i, sum)
        {
            k = split(calls[tag, s], list, " ")
            sum = 0
            for (i = 1; i <= k; i++) if (has[tag, list[i]] < suites) sum++
            return sum
        }
        function choose(tag,    line, best, most, got, i, m, k, list, taken)
        {
            line = ""
            got = 0
            split("", taken)
            while (got * 100 < wanted[tag] * fraction) {
                most = 0
                for (i = 1; i <= n; i++)
                    if (!(suite[i] in taken) && (m = adds(tag, suite[i])) > most) {
                        most = m
                        best = suite[i]
                    }
                if (most == 0) break
                k = split(calls[tag, best], list, " ")
                for (i = 1; i <= k; i++) has[tag, list[i]]++
                got += most
                line = line " " best "+" most
                taken[best] = chosen[best] = 1
            }
            return called[tag] "/" total[tag] line
        }
        # Adds a suite that no section needs, and that is named after none, to the one of
        # which it calls the largest share.
        function place(s,    tag, name, best, most)
        {
            for (tag in total) {
                name = tag
                gsub(/-/, "_", name)
                if ((s "_") ~ "^test_" name "_") return
            }
            for (tag in total)
                if (size[tag, s] > most * called[tag]) {
                    most = size[tag, s] / called[tag]
                    best = tag
                }
            row[best] = row[best] " " s "+0"
        }
        END {
            for (tag in total) row[tag] = choose(tag)
            for (i = 1; i <= n; i++) if (!(suite[i] in chosen)) place(suite[i])
            for (tag in total) print tag, row[tag]
        }' \
        build/cov/functions build/cov/reached | sort >"$reach"
    echo "$reach: $(wc -l <"$reach") sections"
}

case ${1:-} in
'') print >"$table.new" && mv "$table.new" "$table" ;;
--print) print ;;
--escaped) escaped "${2:-$table}" ;;
--record) record ;;
*) echo "sections.sh: unknown option '$1'; see the beginning of the file" >&2 && exit 2 ;;
esac
