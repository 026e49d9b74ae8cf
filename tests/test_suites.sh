#!/usr/bin/env bash
# Checks the tables of tests/README.md, which `make check` runs: every section of the
# implementation has a row, and every suite is in a row. No row names a section or a suite
# that does not exist. The same for the promises of tests/GUARANTEES.md: each names tests
# and controls that exist, and each number of README.md has a row. Then rows of a copy are
# broken, one fault each, and the checks must find that fault.
#
#   MS_HEADER=file   takes the sections from another header
#
# Prints "ok NAME" or "FAIL NAME: reason" for each check.
# shellcheck disable=SC2317 # the checks are called by their names
set -u
cd "$(dirname "$0")/.." || exit 1
header=${MS_HEADER:-msgstore.h}
table=tests/README.md
out=build/suites
failed=0
rm -rf "$out"
mkdir -p "$out"

# result NAME PROBLEMS: prints one line; an empty text is a success.
result()
{
    if [ -z "$2" ]; then
        echo "ok $1"
    else
        echo "FAIL $1: $(tr '\n' ' ' <<<"$2")"
        failed=1
    fi
}

# sections: the tags of the implementation. Those of the interface begin with "api-".
sections()
{
    sed -n 's|^/\* ==== \[\([a-z-]*\)\].*|\1|p' "$header" | grep -v '^api-'
}

# files: the name of every suite.
files()
{
    local file
    for file in tests/test_*.c tests/test_*.sh; do
        file=${file##*/}
        echo "${file%.*}"
    done
}

# first_table FILE: the names of its rows, in the order of the file.
first_table()
{
    sed -n '/^| section |/,/^$/p' "$1" >"$out/first.md"
    bash tests/check.sh --rows "$out/first.md" | cut -d '|' -f 1
}

# listed FILE: the suites of all rows.
listed()
{
    bash tests/check.sh --rows "$1" |
        awk -F '[| ]+' '{ for (i = 2; i <= NF; i++) if ($i) print $i }'
}

# missing_from A B TEXT: prints each word of the list A that B lacks, and the text.
missing_from()
{
    comm -23 <(sort -u <<<"$1") <(sort -u <<<"$2") | grep . | sed "s/\$/ $3/"
}

# The checks. Each prints what is wrong in a table.
every_section_has_a_row()
{
    missing_from "$(sections)" "$(first_table "$1")" 'has no row,'
}

every_row_is_a_section()
{
    missing_from "$(first_table "$1")" "$(sections)" 'is no section,'
}

every_suite_has_a_row()
{
    missing_from "$(files)" "$(listed "$1")" 'has no row,'
}

every_suite_of_a_row_exists()
{
    missing_from "$(listed "$1")" "$(files)" \
        'has no file,'
}

every_row_names_suites()
{
    bash tests/check.sh --rows "$1" |
        awk -F '|' '$2 == "" { print $1 " has none," }'
}

nothing_is_listed_twice()
{
    bash tests/check.sh --rows "$1" | cut -d '|' -f 1 | sort | uniq -d |
        sed 's/$/ has two rows,/'
    bash tests/check.sh --rows "$1" | awk -F '|' '{
        split("", seen)
        n = split($2 " " $3, suite, " ")
        for (i = 1; i <= n; i++) if (seen[suite[i]]++) print $1 " has " suite[i] " twice,"
    }'
}

# promises FILE: NUMBER|TESTS|CONTROLS of each row, words separated by blanks.
promises()
{
    awk -F '|' '
        function words(text) {
            gsub(/[,`]/, " ", text)
            gsub(/ +/, " ", text)
            gsub(/^ | $/, "", text)
            return text
        }
        NF == 6 && $2 ~ /^ *[0-9]* *$/ && $3 !~ /^ promise / {
            print words($2) "|" words($4) "|" words($5)
        }' "$1"
}

# A test is a suite, a script of tests/, or a target of the Makefile.
every_promise_has_tests_that_exist()
{
    local tests word target=
    while IFS='|' read -r _ tests _; do
        [ -n "$tests" ] || echo "a promise without a test,"
        for word in $tests; do
            if [ -n "$target" ]; then
                grep -q "^$word:" Makefile || echo "$word is no target,"
                target=
            elif [ "$word" = make ]; then
                target=yes
            elif [ ! -f "$word" ] && [ ! -f "tests/$word.c" ] && [ ! -f "tests/$word.sh" ]
            then
                echo "$word is no test,"
            fi
        done
    done < <(promises "$1")
}

every_control_of_a_promise_exists()
{
    missing_from "$(promises "$1" | cut -d '|' -f 3 | tr ' ' '\n' | grep .)" \
        "$(sed -n 's/^    control \([a-z0-9_]*\) .*/\1/p' tests/controls.sh)" \
        'is no control,'
}

every_promise_of_the_readme_has_a_row()
{
    missing_from "$(sed -n '/^## What is promised/,/^Each has/s/^\([0-9]*\)\. .*/\1/p' \
        README.md)" "$(promises "$1" | cut -d '|' -f 1)" 'of README.md has no row,'
}

promise_checks="every_promise_has_tests_that_exist every_control_of_a_promise_exists
    every_promise_of_the_readme_has_a_row"
checks="every_section_has_a_row every_row_is_a_section every_suite_has_a_row
    every_suite_of_a_row_exists every_row_names_suites nothing_is_listed_twice"

for check in $checks; do
    result "$check" "$($check "$table")"
done
for check in $promise_checks; do
    result "$check" "$($check tests/GUARANTEES.md)"
done

# an_unknown_section_is_refused: the answer lists the sections, and nothing is built.
said=$(bash tests/check.sh no-such-section 2>&1)
status=$?
problem=
[ "$status" -eq 2 ] || problem="it ends with $status"
for section in no-such-section $(sections); do
    grep -qwF -e "$section" <<<"$said" || problem="$problem, without $section"
done
result an_unknown_section_is_refused "$problem"

# fault NAME CHECK PATTERN SCRIPT [FILE]: that check must find what the sed script does to
# a copy of FILE, the table of suites unless given.
fault()
{
    local file=${5:-$table} found problem=
    sed "$4" "$file" >"$out/$1.md"
    found=$($2 "$out/$1.md" | tr '\n' ' ')
    if cmp -s "$file" "$out/$1.md"; then
        problem="the edit changes nothing"
    elif ! grep -qE -e "$3" <<<"$found"; then
        problem="$2 finds '$found'"
    fi
    result "self_$1" "$problem"
}

fault row_lost every_section_has_a_row '^log-sync has no row, $' '/^| log-sync |/d'
fault row_misspelled every_section_has_a_row '^json has no row, $' 's/^| json |/| jsno |/'
fault row_of_no_section every_row_is_a_section '^jsno is no section' 's/^| json |/| jsno |/'
fault suite_lost every_suite_has_a_row '^test_numbers has no row' 's/test_numbers//g'
fault suite_misspelled every_suite_of_a_row_exists 'test_nubmers has no file' \
    's/test_numbers/test_nubmers/'
fault suite_alone every_row_names_suites '^find has none' 's/^\(| find |[^|]*|\)[^|]*/\1 /'
fault row_twice nothing_is_listed_twice '^find has two rows' \
    's/^| find |.*/&\
&/'
fault suite_twice nothing_is_listed_twice '^find has test_find twice' \
    '/^| find |/s/test_find/test_find test_find/'
fault test_of_a_promise_lost every_promise_has_tests_that_exist 'a promise without a test' \
    's/`test_corrupt`//' tests/GUARANTEES.md
fault test_of_a_promise_misspelled every_promise_has_tests_that_exist \
    'test_corupt is no test' 's/test_corrupt/test_corupt/' tests/GUARANTEES.md
fault target_of_a_promise_misspelled every_promise_has_tests_that_exist \
    'modle is no target' 's/`make model`/`make modle`/' tests/GUARANTEES.md
fault control_of_a_promise_misspelled every_control_of_a_promise_exists \
    'hed_not_synced is no control' 's/head_not_synced/hed_not_synced/' tests/GUARANTEES.md
fault promise_lost every_promise_of_the_readme_has_a_row '^7 of README.md has no row' \
    '/^| 7 |/d' tests/GUARANTEES.md
exit $failed
