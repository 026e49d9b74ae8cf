#!/usr/bin/env bash
# Builds and runs test suites quickly: `make check`, from the top folder.
#
#   tests/run/check.sh                every suite, once
#   tests/run/check.sh SECTION ...    the suites of these rows of tests/SECTIONS.md or of
#                                     the table of tests/README.md, in that order
#   tests/run/check.sh --changed      the rows and suites of what git reports as changed since
#                                     the last commit, or since BASE
#   tests/run/check.sh --rows [FILE]  runs nothing, prints the rows: SECTION|SUITES
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
tables="tests/SECTIONS.md tests/README.md"
jobs=${JOBS:-2}
make="${MAKE:-make -j$jobs} -f tests/Makefile"

# rows FILE ...: a row for each line of a table with three columns, but for its head.
rows()
{
    awk -F '|' '
        function trim(text) {
            gsub(/^[ \t]+|[ \t]+$/, "", text)
            return text
        }
        FNR == 1 { head = 1 }
        NF != 5 || !/^\|/ { head = 1; next }
        head == 1 { head = trim($4) == "suites" ? 2 : 3; next } # names of the columns
        head == 2 { head = 0; next } # the line below them
        head == 0 { print trim($2) "|" trim($4) }' "$@"
}

# all_rows: those of both tables.
all_rows()
{
    # shellcheck disable=SC2086
    rows $tables
}

# suites_of SECTION: the suites of that row.
suites_of()
{
    all_rows | awk -F '|' -v name="$1" '$1 == name { print $2 }'
}

# users_of HEADER: the suites that take in a helper, also through another one.
users_of()
{
    local name=${1##*/} user
    grep -rlE "^#include \"(tests/support/)?${name//./\\.}\"" tests/unit tests/*/test_*.c \
        tests/support | while read -r user; do
        case $user in
        tests/support/*) [ "$user" = "$1" ] || users_of "$user" ;;
        *) basename "${user%.*}" ;;
        esac
    done | sort -u
}

# rows_of FILE: the rows that a changed file belongs to, or suites, or ":TARGET" where only
# that target tests it; "all": every suite; nothing: there is none.
rows_of()
{
    local tag name=${1##*/}
    case $1 in
    src/msgstore.h) echo tree ;;
    src/api/*) # a call is tested with the section of its name, and shown by snippets
        echo tree
        case ${name%.h} in
        log | rewrite | verify) echo log-open ;;
        os) echo os ;;
        stream) echo change ;;
        image) echo mem-open ;;
        *) tag=${name%.h}
            if [ -n "$(suites_of "$tag")" ]; then echo "$tag"; fi ;;
        esac
        ;;
    src/*)
        tag=$(git show "${BASE:-HEAD}:$1" 2>/dev/null | cat - "$1" 2>/dev/null |
            sed -n 's|^/\* ==== \[\([a-z0-9-]*\)\].*|\1|p' | sort -u)
        for name in $tag; do
            if [ -n "$(suites_of "$name")" ]; then echo "$name"; else echo tree; fi
        done
        ;;
    tests/support/msgstore_impl.c) echo all ;;
    tests/support/fast_impl.c) echo test_fast ;;
    tests/support/linted_request.c) echo test_snippets ;;
    tests/support/*) users_of "$1" ;;
    tests/tool/site/*) echo :test-site ;;
    tests/tool/*) echo tool secrets providers ;;
    tests/*/test_*) if [ -f "$1" ]; then echo "${name%.*}"; else echo tree; fi ;;
    tests/formats/*) echo test_formats ;;
    tests/golden/*) echo test_file_format test_file_format_index ;;
    tests/fuzz/*) echo corpus ;;
    tests/scripts/log/*) echo test_log_recover test_log_sync test_log_writers test_log_lost ;;
    tests/scripts/*) echo test_change test_copy test_bad_input test_memory test_task ;;
    tests/tables/*) echo test_project test_answer test_lint test_ffi ;;
    tests/model/*) echo :model ;;
    tests/platform/postgres*) echo :test-postgres ;;
    tests/platform/citus*) echo :test-citus ;;
    tests/platform/pgbouncer*) echo :test-pgbouncer ;;
    tests/platform/board*) echo :test-board ;;
    tests/platform/compile/*) echo test_compile ;;
    bindings/cpp/* | tests/platform/cpp/*) echo cpp ;;
    tests/platform/*) echo ":test-${name%%.*}" ;;
    tests/run/* | tests/*.md | *Makefile | *.md | .ci/* | .gitattributes) echo tree ;;
    tools/join.sh | tools/setup.sh) echo tree ;;
    tools/site.sh | tools/site/*) echo tree :test-site ;;
    tools/lint.*) echo providers tool ;;
    tools/secrets.*) echo secrets tool ;;
    tools/*) echo tool ;;
    bindings/msgstore_ffi.h) echo ffi tree ;;
    bindings/python/*) echo :test-python ;;
    bindings/js/*) echo :test-js ;;
    bindings/rust/*) echo :test-rust ;;
    bindings/go/*) echo :test-go ;;
    bindings/vendor.sh) echo :test-rust :test-go :test-js ;;
    backends/*) echo tree :test-postgres ;;
    examples/manager.c) echo tree test_manager ;;
    examples/* | docs/*) echo tree ;;
    bench/*) echo :bench ;;
    packaging/* | CMakeLists.txt | meson* | build.zig* | clib.json | xmake.lua)
        echo :test-packaging ;;
    esac
}

# changed: prints what to run for each changed file. Reports those without a suite, and
# those that a target of their own tests.
changed()
{
    local file found files
    files=$(git diff --name-only "${BASE:-HEAD}") || return 1
    files=$(printf '%s\n' "$files"; git ls-files --others --exclude-standard)
    sort -u <<<"$files" | grep -v '^msgstore\.h$' | grep . | while read -r file; do
        found=$(rows_of "$file" | tr ' ' '\n')
        case $found in
        '') echo "make check: no suite belongs to $file" >&2 ;;
        *:*) echo "make check: for $file run also: make $(grep '^:' <<<"$found" |
            tr -d : | xargs)" >&2 ;;
        esac
        grep -v '^:' <<<"$found"
    done
    return 0
}

# every_suite: each suite once. Scripts come first: they take longest.
every_suite()
{
    all_rows |
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
    if [ -n "${2:-}" ]; then rows "$2"; else all_rows; fi
    exit
fi
if [ "${1:-}" = --changed ]; then
    found=$(changed) || { echo "make check: git does not report what changed" >&2 && exit 2; }
    # shellcheck disable=SC2046
    set -- $(awk 'NF && !seen[$0]++' <<<"$found")
    case " $* " in
    *' all '*) set -- ;;
    '  ')
        echo "make check: git reports no change of a file that has a suite; nothing ran" >&2
        exit 2
        ;;
    esac
fi

sections=$*
suites=
for section in "$@"; do
    found=$(suites_of "$section")
    if [ -z "$found" ] && [ -n "$(suite_file "$section")" ]; then found=$section; fi
    if [ -z "$found" ]; then
        echo "make check: no section '$section' in $tables. Known are:" >&2
        all_rows | cut -d '|' -f 1 | tr '\n' ' ' | fold -s -w 78 | sed 's/^/    /' >&2
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
