#!/usr/bin/env bash
# What the pages promise can be tried: each measured figure has a command (figures.awk says
# what counts as one), each command is a target, a script or a program that make can build,
# each named file and suite exists, each link leads to a file and a heading, and each row of
# a table has the columns of its head. SECURITY.md names fuzz targets that exist, GUARANTEES.md
# jobs of torture.sh (its promises: test_suites), the table of bindings/README.md functions
# that the sources of that language have, and no language lacks what the table denies it.
#
# Then each kind of fault is put into a copy of a page, and must be found.
#
# Prints "ok NAME" or "FAIL NAME: reason" for each check.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/run/suites.sh
pages=$(git ls-files '*.md' 2>/dev/null || ls ./*.md docs/*.md tests/*.md ./*/README.md)
pages=$(grep -vE '^\.github/|^CHANGELOG' <<<"$pages")
makefiles="Makefile tests/Makefile bench/Makefile tools/Makefile"
languages=bindings/README.md
out=build/figures
failed=0
rm -rf $out
mkdir -p $out/docs
bash tests/run/check.sh --rows >$out/rows
{ echo help; sed -n 's/^    "\([a-z-]*\)", ".*/\1/p' tools/cmd_*.c; } >$out/tool

result()
{
    if [ -z "$2" ]; then echo "ok $1"; return; fi
    echo "FAIL $1: $(tr '\n' ' ' <<<"$2")"
    failed=1
}

# facts KIND: the lines of figures.awk of this kind: PAGE LINE TEXT.
facts()
{
    sed -n "s/^$1	//p" $out/facts
}

# The tables of options (docs/defaults.md, docs/flat.md) have bounds and defaults alone.
figures_have_commands()
{
    facts figure | grep -vE '^docs/(defaults|flat)\.md' |
        sed -E 's/^([^\t]*)\t([0-9]*)\t/\1:\2 has no command for /; s/$/;/'
}

rows_have_columns()
{
    facts columns | sed -E 's/^([^\t]*)\t([0-9]*)\t/\1:\2 has /; s/$/;/'
}

# one_command TEXT: what in it does not exist. Words in capitals are placeholders; what
# make is to build goes to a list.
one_command()
{
    local word kind=
    for word in $(sed "s/ *#.*//; s/'[^']*'//g" <<<"$1"); do
        case $kind:$word in
        *:'&&') kind= ;;
        *:*=* | *:-* | *:*[A-Z]* | done:*) ;;
        :make | :bash | :sh) kind=$word ;;
        :msgstore) kind=tool ;;
        tool:*) kind=done
            grep -qx "$word" $out/tool || echo "the tool has no $word" ;;
        :build/msgstore) kind=tool ;;
        :build/* | make:build/*)
            [[ $word =~ ^build/(check|o2|san|tsan|os|arena)$ ]] || echo "$word" >>$out/built
            [ "$kind" ] || kind=done
            ;;
        make:*) grep -q "^$word:" $makefiles || echo "no target $word" ;;
        *) [ -f "$word" ] || echo "no script $word"; kind=done ;;
        esac
    done
    case $1 in
    *SECTION=name*) ;;
    *SECTION=*) word=${1#*SECTION=}
        grep -q "^${word%% *}|" $out/rows || echo "no row ${word%% *}" ;;
    *torture*--only\ [a-z]*) missing_jobs "$(only "$1")" ;;
    *make\ bench*--only\ [A-Z]*) for word in $(only "$1"); do
        grep -q "(\"$word\"" bench/goals/table.c || echo "no group $word"; done ;;
    esac
}

# only COMMAND: the names of its option --only.
only()
{
    sed "s/.*--only \([A-Za-z0-9_,]*\).*/\1/; s/,/ /g" <<<"$1"
}

missing_jobs()
{
    local job
    for job in $1; do
        grep -qE "^$job +(o2|san|tsan|sh) " tests/run/torture.sh || echo "no job $job"
    done
}

commands_exist()
{
    local page line text found
    : >$out/built
    while IFS='	' read -r page line text; do
        found=$(set -f; one_command "$text")
        [ -z "$found" ] || echo "$page:$line: $found;"
    done < <(facts command)
    [ -s $out/built ] || return
    # shellcheck disable=SC2046
    MAKEFLAGS='' make -n -k -f tests/Makefile SETUP=0 $(sort -u $out/built) 2>&1 >/dev/null |
        sed -n "s/.*No rule to make target '\([^']*\)'.*/no rule for \1;/p"
}

files_exist()
{
    local page line text
    while IFS='	' read -r page line text; do
        case $text in build/*) continue ;; esac
        [ -e "$text" ] || [ -e "$(dirname "$page")/$text" ] || echo "$page:$line: no $text;"
    done < <(facts path)
    while IFS='	' read -r page line text; do
        [ -n "$(suite_file "${text%%/*}")" ] || echo "$page:$line: no suite $text;"
    done < <(facts test | sort -u -k 3)
}

links_lead_somewhere()
{
    local page line to file
    while IFS='	' read -r page line to; do
        case $to in *:*) continue ;; esac
        file=$(dirname "$page")/${to%%#*}
        file=$(realpath -m --relative-to . "$file")
        [ -n "${to%%#*}" ] || file=$page
        [ -z "${to%%#*}" ] || [ -e "$file" ] || { echo "$page:$line: no file $to;" && continue; }
        [ "$to" = "${to#*#}" ] || facts anchor | cut -f 1,3 | grep -qxF "$file	${to#*#}" ||
            echo "$page:$line: no heading $to;"
    done < <(facts link)
}

jobs_and_targets_exist()
{
    local name
    for name in $(grep -o 'fuzz targets* `[^|]*' "$1" | grep -o '`[a-z]*`' | tr -d '`'); do
        [ -f "tests/fuzz/fuzz_$name.c" ] || echo "no fuzz target $name;"
    done
    missing_jobs "$(sed -n '/^| tried /,/^$/s/.*| `\([a-z0-9_,]*\)` |$/\1/p' "$2" | tr , ' ')"
}

# ---- The table of languages

# names LANGUAGE: what a program of that language can call, one a line.
names()
{
    local js='s/^ *\(export \)\{0,1\}\(async \)\{0,1\}\(function\)\{0,1\} *\*\{0,1\}\([a-zA-Z]*\)(.*{$/\4/p'
    cd bindings || return
    case $1 in
    C) grep -ohE '\<ms_[a-z0-9_]+ ?\(' ../msgstore.h msgstore_ffi.h ;;
    C++17) sed 's|/\*.*||; s|//.*||' cpp/msgstore.hpp | grep -oE '\<[a-z_]+\(' ;;
    Python) sed -n 's/^ *\(async \)\{0,1\}\(def\|class\) \([A-Za-z][A-Za-z_]*\).*/\3/p' \
        python/msgstore/*.py python/msgstore/adapters/*.py ;;
    WebAssembly) sed -n "$js; s/^export class \([A-Za-z]*\).*/\1/p" js/msgstore.js js/node.js ;;
    Node) sed -n "$js; s/^export const \([a-z]*\) .*/\1/p" js/native.js
        sed -n '/^export class Store/,$p' js/msgstore.js | sed -n "$js" ;;
    Rust) sed -n 's/^ *pub \(fn\|struct\|enum\) \([A-Za-z_]*\).*/\2/p' rust/msgstore/src/*.rs ;;
    Go) sed -n 's/^func \(([a-z]* [*A-Z][A-Za-z]*) \)\{0,1\}\([A-Z][A-Za-z]*\)[([].*/\2/p' go/*.go |
        grep -v '^Test' ;;
    esac | tr -d '( ' | sort -u
}

# The oldest version that each package takes, as its own file has it.
oldest()
{
    cd bindings || return
    case $1 in
    C) echo C99 ;;
    C++17) sed -n '1s/.* for \(C++[0-9]*\) .*/\1/p' cpp/msgstore.hpp ;;
    Python) sed -n 's/^requires-python = ">=\(.*\)"/\1/p' python/pyproject.toml ;;
    WebAssembly | Node) sed -n 's/.*"node": ">=\([0-9.]*\)".*/\1/p' js/package.json ;;
    Rust) sed -n 's/^rust-version = "\(.*\)"/\1/p' rust/msgstore/Cargo.toml ;;
    Go) sed -n 's/^go \([0-9.]*\).*/\1/p' go/go.mod ;;
    esac
}

# languages_fit PAGE: what its table claims or denies wrongly. A cell has names in code
# marks, "no", or words.
languages_fit()
{
    local column language name thing
    sed -n '/^| | C |/,/^$/p' "$1" >$out/table
    [ -s $out/table ] || echo 'no table;'
    for column in 3 4 5 6 7 8 9; do
        language=$(head -n 1 $out/table | cut -d '|' -f $column | tr -d ' ')
        (names "$language") >$out/names
        [ -s $out/names ] || echo "no names of '$language';"
        tr -d _ <$out/names | tr '[:upper:]' '[:lower:]' | sed 's/^ms//' >$out/plain
        name=$(sed -n '/^| oldest version/p' $out/table | cut -d '|' -f $column | xargs)
        [ "$name" = "$(oldest "$language")" ] || echo "$language takes no '$name';"
        for name in $(cut -d '|' -f $column $out/table | grep -o '`[^`]*`' | tr -d '`()'); do
            grep -qxF -- "$name" $out/names || echo "$language has no $name;"
        done
        while IFS='|' read -r thing name; do
            grep -qxiF -- "$name" $out/plain && echo "$language has $name of '$thing';"
        done < <(awk -F '|' -v c=$column '$c ~ /^ *no *$/ {
            for (i = 3; i <= NF; i++) { n = split($i, part, "`")
                for (k = 2; k <= n; k += 2) { name = part[k]; gsub(/_|\(\)|^ms_/, "", name)
                    if (name != "handle") print $2 "|" name } } }' $out/table | sort -u)
    done
}

read_pages()
{
    # shellcheck disable=SC2086
    awk -f tests/run/figures.awk "$@" >$out/facts
}

checks="figures_have_commands rows_have_columns commands_exist files_exist links_lead_somewhere"
# shellcheck disable=SC2086
read_pages $pages
for name in $checks; do result "$name" "$($name)"; done
result jobs_and_targets_exist "$(jobs_and_targets_exist SECURITY.md tests/GUARANTEES.md)"
result languages_fit "$(languages_fit $languages)"

# fault NAME CHECK WANTED TEXT: the check must find this in a page of this text, no other check
# anything.
fault()
{
    local name found problem=
    printf '# Head\n\n%b\n' "$4" >$out/docs/page.md
    (cd $out && awk -f ../../tests/run/figures.awk docs/page.md) >$out/facts
    for name in $checks; do
        found=$($name)
        case $name:$found in
        "$2:"*"$3"*) ;;
        "$2:"* | *:?*) problem="$problem $name finds '$found'" ;;
        esac
    done
    result "self_$1" "$problem"
}

table='| what | figure |\n| --- | --- |\n'
fault figure_in_a_table figures_have_commands 'docs/page.md:5 has no command for Head: 3.2 us' \
    "$table| append | 3.2 us |"
fault unit_at_the_head_of_a_column figures_have_commands 'for Head: 3,200' \
    '| what | bytes |\n| --- | --- |\n| a message | 3,200 |'
fault ratio_in_a_sentence figures_have_commands 'A read is 2.5 times faster' \
    'A read is 2.5 times faster than\nthat of others.'
fault time_in_a_list figures_have_commands 'an append takes 12 ms' \
    '- See `make bench`.\n\n## Other\n\n- Here an append takes 12 ms.'
fault command_of_another_table figures_have_commands 'for Head: 1 s' \
    "\`make bench\`\n\n${table}| a | 7 s |\n\nA text.\n\n${table}| a | 1 s |"
fault nothing_beside_its_command '' '' \
    "\`make bench\`: an append takes 12 ms.\n\n${table}| append | 3.2 us |\n\nAt most 30 s."
fault target commands_exist 'docs/page.md:3: no target bnech;' '`QUICK=1 make bnech` prints it.'
fault target_in_a_block commands_exist 'no target bnech' '```sh\nmake bench && make bnech # it\n```'
fault script commands_exist 'no script tests/run/gone.sh' '`bash tests/run/gone.sh -x`'
fault program commands_exist 'no rule for build/o2/test_gone' '`build/o2/test_gone`'
fault group commands_exist 'no group Q7' "\`make bench BENCH='--n 9 --only R8,Q7'\`"
fault job commands_exist 'no job pwoer' "\`make torture TORTURE='--only pwoer'\`"
fault section commands_exist 'no row log-snyc' '`make check SECTION=log-snyc`'
fault tool commands_exist 'the tool has no sesions' '`msgstore sesions a.log`'
fault file files_exist 'docs/page.md:3: no tests/run/gone.sh' 'See `tests/run/gone.sh`.'
fault suite files_exist 'no suite test_gone/x' 'See `test_gone/x`.'
fault link links_lead_somewhere 'docs/page.md:3: no file gone.md;' 'See [it](gone.md).'
fault heading links_lead_somewhere 'no heading #the-hat' 'See [it](#the-head), [it](#the-hat).\n\n## The head'
fault column rows_have_columns 'docs/page.md:5 has 3 columns, its head has 2' "$table| a | b | c |"

# changed NAME PAGE SED WANTED COMMAND: the command must find this in a copy of the page.
changed()
{
    local found
    sed "$3" "$2" >$out/copy.md
    found=$($5)
    case $found in *"$4"*) found= ;; *) found="finds '$found'" ;; esac
    result "self_$1" "$found"
}

changed fuzz_target SECURITY.md 's/`image`/`imgae`/' 'no fuzz target imgae' \
    "jobs_and_targets_exist $out/copy.md tests/GUARANTEES.md"
changed torture_job tests/GUARANTEES.md 's/`power,small`/`power,smal`/' 'no job smal' \
    "jobs_and_targets_exist SECURITY.md $out/copy.md"
table_fit="languages_fit $out/copy.md"
changed claimed_function $languages 's/| `search` |/| `seek` |/' 'Python has no seek' "$table_fit"
changed denied_function $languages '/^| backup /s/`Backup`/no/' "Go has backup of ' backup '" "$table_fit"
changed oldest_version $languages '/^| oldest/s/3\.9/3.8/' "Python takes no '3.8'" "$table_fit"
exit $failed
