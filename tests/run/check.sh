#!/usr/bin/env bash
# Builds and runs test suites quickly: `make check`, from the top folder.
#
#   tests/run/check.sh                every suite in the tables of tests/README.md, once
#   tests/run/check.sh SECTION ...    the column "suites" of these rows, in that order
#   tests/run/check.sh --rows [FILE]  runs nothing, prints the rows: SECTION|SUITES|ALSO
#
# For a section the implementation is compiled at -O0, into build/check, so that the first
# result comes soon. For all suites that is slower: their programs are those of `make test`.
# No suite runs under a sanitizer or valgrind.
#
# MS_TEST_SCALE (percent) is 10 here. JOBS=n is how many programs are built and how many
# suites run at a time (2). MAKE is the command that builds.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/run/suites.sh
table=tests/README.md
jobs=${JOBS:-2}
make="${MAKE:-make -j$jobs} -f tests/Makefile"

# rows FILE: a row for each line of a table with four columns, but for its head.
rows()
{
    awk -F '|' '
        function trim(text) {
            gsub(/^[ \t]+|[ \t]+$/, "", text)
            return text
        }
        BEGIN { head = 1 }
        NF != 6 || !/^\|/ { head = 1; next }
        head == 1 { head = 2; next } # names of the columns
        head == 2 { head = 0; next } # the line below them
        { print trim($2) "|" trim($4) "|" trim($5) }' "$1"
}

# names: the first column.
names()
{
    rows "$table" | cut -d '|' -f 1
}

# suites_of SECTION: the suites of that row.
suites_of()
{
    rows "$table" | awk -F '|' -v name="$1" '$1 == name { print $2 }'
}

# every_suite: each suite once. Scripts come first: they take longest.
every_suite()
{
    rows "$table" |
        awk -F '[| ]+' '{ for (i = 2; i <= NF; i++) if ($i && !seen[$i]++) print $i }' |
        while read -r name; do
            case $(suite_file "$name") in
            *.sh) echo "1 $name" ;;
            *) echo "2 $name" ;;
            esac
        done | sort -s -n -k 1,1 | cut -d ' ' -f 2
}

# add_script NAME FILE: the suite, and the programs that it runs.
add_script()
{
    local script=$2 fuzz
    runs+=("sh:$script")
    case $1 in
    test_corpus)
        for fuzz in tests/fuzz/fuzz_*.c; do
            fuzz=${fuzz##*/}
            builds+=("build/check/${fuzz%.c}")
        done
        ;;
    # It reads what the compiler wrote beside this object.
    test_stack) builds+=(build/o2/msgstore.o) ;;
    *) if grep -q 'tool_checks\.sh' "$script"; then builds+=("$tool"); fi ;;
    esac
}

# add SUITE
add()
{
    local program=build/check/$1 file
    file=$(suite_file "$1")
    if [ "${file%.sh}" != "$file" ]; then
        add_script "$1" "$file"
        return
    fi
    [ -n "$sections" ] || program=build/o2/$1
    builds+=("$program")
    runs+=("check:$program")
}

if [ "${1:-}" = --rows ]; then
    rows "${2:-$table}"
    exit
fi

sections=$*
suites=
for section in "$@"; do
    found=$(suites_of "$section")
    if [ -z "$found" ]; then
        echo "make check: msgstore.h has no section '$section' in $table. Known are:" >&2
        names | tr '\n' ' ' | fold -s -w 78 | sed 's/^/    /' >&2
        echo >&2
        exit 2
    fi
    suites="$suites $found"
done
if [ -n "$sections" ]; then
    tool=build/check/msgstore
else
    tool=build/msgstore
    suites=$(every_suite)
fi

builds=() runs=() added=' '
for suite in $suites; do
    case $added in *" $suite "*) continue ;; esac
    added="$added$suite "
    add "$suite"
done
export MS_TEST_SCALE=${MS_TEST_SCALE:-10} MS_TEST_JOBS=$jobs
export MSGSTORE=$tool MS_FUZZ_BUILD=build/check
echo "${sections:-all}: ${#runs[@]} suites, MS_TEST_SCALE=$MS_TEST_SCALE"

# The line of each program that is built is left out, what compilers report is not. Of a
# section nothing runs then; else whatever could be built.
unbuilt=
# shellcheck disable=SC2086
$make -s --no-print-directory -k "${builds[@]}" | grep -v '^build '
if [ "${PIPESTATUS[0]}" -ne 0 ]; then unbuilt=--unbuilt; fi
if [ -n "$unbuilt" ] && [ -n "$sections" ]; then
    echo "building failed: see the messages above"
    echo "0 passed, 1 failed"
    exit 1
fi
exec bash tests/run/run.sh $unbuilt "${runs[@]}"
