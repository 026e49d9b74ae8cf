#!/usr/bin/env bash
# Checks the tables of tests/SECTIONS.md and tests/README.md, which `make check` runs:
# every section of the implementation has a row, and every suite is in a row. No row names a
# section or a suite that does not exist. Each control is noticed by a suite in the rows of
# the sections that it edits, and SECTIONS.md is as sections.sh writes it. The same for the
# promises of tests/GUARANTEES.md: each names tests and controls that exist, and each number
# of README.md has a row. No option of the Makefile is a variable of the Makefiles, and no
# pattern rule has two targets. Then rows of a copy are broken, one fault each, and the
# checks must find that fault.
#
#   MS_HEADER=file   takes the sections from another header
#
# Prints "ok NAME" or "FAIL NAME: reason" for each check.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/run/suites.sh
header=${MS_HEADER:-msgstore.h}
tables="tests/SECTIONS.md tests/README.md"
promises=tests/GUARANTEES.md
makefiles="Makefile tests/Makefile bench/Makefile tools/Makefile"
out=build/suites
failed=0
rm -rf "$out"
mkdir -p "$out"

# result NAME PROBLEMS: prints one line; an empty text is a success.
result()
{
    if [ -z "$2" ]; then echo "ok $1"; return; fi
    echo "FAIL $1: $(tr '\n' ' ' <<<"$2")"
    failed=1
}

# sections: the tags of the implementation. Those of the interface begin with "api-".
sections()
{
    sed -n 's|^/\* ==== \[\([a-z-]*\)\].*|\1|p' "$header" | grep -v '^api-'
}

# missing_from A B TEXT: prints each word of the list A that B lacks, and the text.
missing_from()
{
    comm -23 <(sort -u <<<"$1") <(sort -u <<<"$2") | grep . | sed "s/\$/ $3,/"
}

# What is wrong in a table of suites.
rows_fit()
{
    local rows first files listed
    sed -n '/^| section |/,/^$/p' "$1" >"$out/first.md"
    first=$(bash tests/run/check.sh --rows "$out/first.md" | cut -d '|' -f 1)
    rows=$(bash tests/run/check.sh --rows "$1")
    files=$(suite_files | sed 's|.*/||; s/\.[a-z]*$//')
    listed=$(cut -d '|' -f 2- <<<"$rows" | tr '| ' '\n\n' | grep .)
    missing_from "$(sections)" "$first" 'has no row'
    missing_from "$first" "$(sections)" 'is no section'
    missing_from "$files" "$listed" 'has no row'
    missing_from "$listed" "$files" 'has no file'
    awk -F '|' '{
        if (seen[$1]++) print $1 " has two rows,"
        if ($2 == "") print $1 " has no suite,"
        n = split($2, suite, " ")
        for (i = 1; i <= n; i++)
            if (seen[$1 " " suite[i]]++) print $1 " has " suite[i] " twice,"
    }' <<<"$rows"
}

# What a stranger would miss who runs the rows of a table.
controls_fit()
{
    bash tests/run/sections.sh --escaped "$1" 2>&1
}

# What no run has measured.
reach_fit()
{
    bash tests/run/sections.sh --unrecorded "$1"
}

# What differs from the table that sections.sh would write.
written_fit()
{
    diff <(bash tests/run/sections.sh --print 2>&1) "$1" | grep '^[<>]' | cut -c 1-60
}

# Checks the tests of a row. A test is a suite, one test of it (SUITE/NAME), a script of
# tests/, or a target of the Makefile. The answer about each is kept: it stays the same.
declare -A answers
tests_exist()
{
    local word
    [ -n "${*// /}" ] || echo "a promise without a test,"
    for word in $*; do
        [ -n "${answers[$word]+kept}" ] || answers[$word]=$(test_exists "$word")
        [ -z "${answers[$word]}" ] || echo "${answers[$word]}"
    done
}

test_exists()
{
    local name=${1#*/} suite=${1%%/*}
    case $1 in
    make:*) grep -q "^${1#make:}:" $makefiles || echo "${1#make:} is no target," ;;
    test_*/*) grep -hvE '^ *(/?\*|//|# )' "$(suite_file "$suite")" |
        grep -qE "(^static void |^ok |[^a-z_])$name([^a-z_]|\$)" ||
        echo "$suite has no $name," ;;
    *) [ -e "$1" ] || [ -n "$(suite_file "$1")" ] || echo "$1 is no test," ;;
    esac
}

# points: the first words of each point in the manual's GUARANTEES AND LIMITS.
points()
{
    sed -n '/^ \* ---- GUARANTEES AND LIMITS/,/^ \* ---- CONTENTS/s/^ \*   - //p' "$header"
}

# What is wrong in the table of the manual's points: first words | TESTS. Each point of
# the manual begins with the words of one row, and each row has a point.
points_fit()
{
    local rows words tests point found
    mapfile -t points < <(points)
    rows=$(sed -n '/^| begins with |/,/^$/p' "$1" | sed '1,2d; s/^| *//; s/ *| */|/g; s/[,`]/ /g')
    while IFS='|' read -r words tests _; do
        [ -n "$words" ] || continue
        tests_exist "$(sed 's/make /make:/g' <<<"$tests")"
        found=0
        for point in "${points[@]}"; do
            case $point in *"$words"*) found=$((found + 1)) ;; esac
        done
        [ "$found" -eq 1 ] || echo "'$words' begins no point,"
    done <<<"$rows"
    for point in "${points[@]}"; do
        found=
        while IFS='|' read -r words _; do
            [ -z "$words" ] || [ "${point#"$words"}" = "$point" ] || found=yes
        done <<<"$rows"
        [ -n "$found" ] || echo "'$point' has no row,"
    done
}

# control_names: of the header, of the tool and of the bindings.
control_names()
{
    sed -n 's/^    control \([a-z0-9_]*\) .*/\1/p' tests/run/controls.sh \
        tests/run/controls_tool.sh
}

# names_fit: the result of a control is in a file of its name.
names_fit()
{
    control_names | sort | uniq -d | sed 's/$/ names two controls,/'
}

# What is wrong in a table of promises: NUMBER | promise | TESTS | CONTROLS.
promises_fit()
{
    local rows number tests more numbers= controls=
    rows=$(awk -F '|' 'NF == 6 && $2 ~ /^ *[0-9]* *$/ && $3 !~ /^ promise / {
        gsub(/[,` ]+/, " ")
        gsub(/make /, "make:", $4)
        print $2 "|" $4 "|" $5 }' "$1")
    while IFS='|' read -r number tests more; do
        numbers="$numbers $number"
        controls="$controls $more"
        tests_exist "$tests"
    done <<<"$rows"
    missing_from "$(tr ' ' '\n' <<<"$controls")" \
        "$(control_names)" 'is no control'
    missing_from "$(sed -n '/^## What is promised/,/^Each has/s/^\([0-9]*\)\. .*/\1/p' \
        README.md)" "$(tr ' ' '\n' <<<"$numbers")" 'of README.md has no row'
}

# What is wrong in Makefiles: an option that the head of the first one explains, and that
# one of them sets itself, not by default.
options_fit()
{
    local option
    for option in $(sed -n '1,/^$/s/^#//p' Makefile | grep -o '\<[A-Z_]*=' | tr -d =); do
        ! grep -q "^$option *:\{0,1\}=" "$@" || echo "$option is set,"
    done
}

# patterns_fit FILE...: no pattern rule has two targets, as make takes all of them for made
# when the recipe has run once. (A static pattern rule, with a second colon, may.)
patterns_fit()
{
    sed -e ':join' -e '/\\$/N; s/\\\n//; t join' "$@" |
        sed -n 's/^\([^#:=[:space:]]*%[^:=]*[[:space:]][^:=[:space:]]*%[^:=]*\):[^:=]*$/\1 are made together,/p'
}

# torture_has_programs: `make torture` can build what each job of its table runs.
torture_has_programs()
{
    local program
    for program in $(bash tests/run/torture.sh --programs); do
        "${MAKE:-make}" -n -f tests/Makefile "$program" >/dev/null 2>&1 ||
            echo "no rule makes $program,"
    done
}

# setup_runs TARGET [VARIABLE=VALUE]: prints what tools/setup.sh asks apt-get for where stb_ds.h
# does not compile.
setup_runs()
{
    local folder=$PWD/$out/setup target=$1
    shift
    mkdir -p "$folder"
    echo '#error' >"$folder/stb_ds.h"
    # shellcheck disable=SC2016
    printf '#!/bin/sh\nwhile [ "$1" != "${1#-}" ]; do shift; done\nexec "$@"\n' >"$folder/sudo"
    printf '#!/bin/sh\necho "$@" >>%s/asked\nexit 1\n' "$folder" >"$folder/apt-get"
    chmod +x "$folder/sudo" "$folder/apt-get"
    : >"$folder/asked"
    env PATH="$folder:$PATH" STB_INC="$folder" "$@" sh tools/setup.sh "$target" >/dev/null 2>&1
    cat "$folder/asked"
}

# shellcheck disable=SC2086
cat $tables >"$out/tables.md"
# dry_runs: prints what `make -n` runs although it is to print the lines alone.
dry_runs()
{
    local target said
    for target in test check fuzz test-sdk; do
        said=$(MAKEFLAGS='' make -n "$target" SETUP=0 2>&1)
        grep -q "^bash tests/[a-z/]*\.sh\|=.*bash tests/[a-z/]*\.sh\|^ *bash tests" \
            <<<"$said" || echo "make -n $target does not print its script"
        grep -m 1 'passed, [0-9]* failed\|^ran \|^FAIL\|^build ' <<<"$said"
    done
}

result rows_fit "$(rows_fit "$out/tables.md")"
result controls_fit "$(controls_fit "$out/tables.md")"
result reach_fit "$(reach_fit tests/run/reach.txt)"
result written_fit "$(written_fit tests/SECTIONS.md)"
result options_fit "$(options_fit $makefiles)"
result patterns_fit "$(patterns_fit $makefiles)"
result torture_has_programs "$(torture_has_programs)"
result names_of_controls_fit "$(names_fit)"
promises_fit $promises >"$out/problems"
result check_installs_nothing "$(setup_runs check)"
result setup_0_installs_nothing "$(setup_runs test SETUP=0; setup_runs demo SETUP=0)"
[[ $(setup_runs demo SETUP=1) == *install*libstb-dev* ]] && found= || found='it is not asked'
result setup_installs_when_asked "$found"
result dry_runs_run_nothing "$(dry_runs)"
result promises_fit "$(<"$out/problems")"
points_fit $promises >"$out/problems"
result points_fit "$(<"$out/problems")"

# an_unknown_section_is_refused: the answer lists the sections, and nothing is built.
said=$(bash tests/run/check.sh no-such-section 2>&1)
status=$?
problem=
[ "$status" -eq 2 ] || problem="it ends with $status"
for section in no-such-section $(sections); do
    grep -qwF -e "$section" <<<"$said" || problem="$problem, without $section"
done
result an_unknown_section_is_refused "$problem"

# fault CHECK PROBLEM SCRIPT: the check must find this in a copy that sed has changed.
fault()
{
    local file=$promises found problem=
    case $1 in
    rows_fit | controls_fit) file=$out/tables.md ;;
    reach_fit) file=tests/run/reach.txt ;;
    esac
    [ "$1" != options_fit ] || file=tools/Makefile
    [ "$1" != patterns_fit ] || file=tests/Makefile
    sed "$3" "$file" >"$out/copy.md"
    found=$($1 "$out/copy.md")
    grep -qxF -e "$2," <<<"$found" || problem="$1 finds '$found'"
    result "self_${2// /_}" "$problem"
}

fault rows_fit 'log-sync has no row' '/^| log-sync |/d'
fault rows_fit 'json has no row' 's/^| json |/| jsno |/'
fault rows_fit 'jsno is no section' 's/^| json |/| jsno |/'
fault rows_fit 'test_numbers has no row' 's/test_numbers//g'
fault rows_fit 'test_nubmers has no file' 's/test_numbers/test_nubmers/'
fault rows_fit 'find has no suite' 's/^\(| find |[^|]*|\)[^|]*/\1 /'
fault rows_fit 'find has two rows' 's/^| find |.*/&\
&/'
fault rows_fit 'find has test_find twice' '/^| find |/s/test_find/test_find test_find/'
fault controls_fit \
    'sync_beside_a_first_append of [log-recover] is noticed by test_log_durable' \
    '/^| log-recover |/s/ test_log_durable//'
fault reach_fit 'emit has no suite in reach.txt' '/^emit /d'
fault promises_fit 'a promise without a test' 's/`test_corrupt`//'
fault promises_fit 'test_corupt is no test' 's/test_corrupt/test_corupt/'
fault promises_fit 'modle is no target' 's/`make model`/`make modle`/'
fault promises_fit 'suprblock_not_synced is no control' 's/superblock_not_synced/suprblock_not_synced/'
fault promises_fit 'any_tokne_is_right is no control' 's/any_token_is_right/any_tokne_is_right/'
fault promises_fit '7 of README.md has no row' '/^| 7 |/d'
fault promises_fit 'test_os has no reading_writes_nought' \
    's/reading_writes_nothing`/reading_writes_nought`/'
fault points_fit 'test_log_lock has no a_spooned_child_is_refused' \
    's/a_forked_child_is_refused/a_spooned_child_is_refused/'
fault points_fit "'Log: two processes write' begins no point" \
    's/^| Log: one process writes/| Log: two processes write/'
fault points_fit "'$(points | grep '^Limits: ')' has no row" '/^| Limits: /d'
fault patterns_fit 'build/fuzz/tool/%.o build/o2/tool/%.o are made together' \
    's|^build/fuzz/tool/%.o:|build/fuzz/tool/%.o build/o2/tool/%.o:|'
fault options_fit 'QUICK is set' 's/^QUICKER = /QUICK := /'
exit $failed
