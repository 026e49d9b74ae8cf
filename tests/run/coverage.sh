#!/usr/bin/env bash
# Which lines and branches of msgstore.h the tests reach, section by section.
#
#   tests/run/coverage.sh               build, run every test, print the table
#     --missing SECTION   then also the branches that nothing took; may be given several
#                         times, "all": of all sections
#     --only "test_log_map test_fault_io"   run these; what others did last stays
#     --report            run nothing: what is there
#
# MS_TEST_SCALE  percent of the long loops to run (10)
# JOBS           how many programs to build and run at a time (2)
# MS_TEST_TIMEOUT  processor time after which a program is stopped (600 seconds); one that
#                waits is stopped after ten times as long
#
# A branch is one side of one condition: `if (a && b)` has four. clang counts them in the
# source, before anything is optimised, each by its line and column, those of a macro where
# it is used; those that are decided when compiling are none, and MS_ASSERT has none:
# assert() is the system's. A branch counts as taken when any program took it: all tests
# share one object, but for those that take in the implementation themselves; the tool and
# its tests count, too, and the kept inputs of the fuzz targets. What no program compiles
# here (Windows, NEON) is not seen at all, and what a child process did counts only when it
# ended with _exit(0).
#
# tests/run/coverage.txt lists the branches that nothing can take, each with its reason;
# an entry that fits no branch, or one that was taken, is an error. Fails when a test
# failed, when that list is wrong, when a branch of [file-format], [log-*], [record] or [json]
# is neither taken nor listed, or when less than 95 percent of the branches of the header
# are taken; so with those of bindings/msgstore_ffi.h, which have a table of their own.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/run/suites.sh
out=build/cov
scale=${MS_TEST_SCALE:-10}
jobs=${JOBS:-2}
limit=${MS_TEST_TIMEOUT:-600}
clang=${CLANG:-clang}

skip()
{
    echo "skip coverage: $1"
    exit 0
}

# llvm NAME: the tool that fits the compiler; empty: there is none.
llvm()
{
    command -v "llvm-$1-$version" || command -v "llvm-$1"
}

# stale TARGET SOURCE...: is the target missing, or older than a source?
stale()
{
    local target=$1 source
    shift
    [ -e "$target" ] || return 0
    for source in "$@"; do
        [ ! "$source" -nt "$target" ] || return 0
    done
    return 1
}

# counted OBJECT SOURCE FLAG...: compile with counters. Beside the object stands what the
# compiler maps to which counter: it alone tells conditions that are no branches. Optimised
# is what runs long: compiling takes four times as long then.
counted()
{
    local object=$1 source=$2
    shift 2
    stale "$object" "$source" msgstore.h bindings/*.h tests/support/*.h tools/*.[ch] || return 0
    echo "build $object"
    # shellcheck disable=SC2086
    $clang $flags $counters -Xclang -dump-coverage-mapping "$@" -c "$source" \
        -o "$object" >"${object%.o}.map" || rm -f "$object"
}

# makefile VARIABLE: what the Makefiles have in it.
makefile()
{
    # shellcheck disable=SC2016
    ${MAKE:-make} -f tests/Makefile -s --eval='shown:;@echo $('"$1"')' shown
}

# source_of NAME: where that program is; the fuzz targets have a folder of their own.
source_of()
{
    case $1 in
    fuzz_*) echo "tests/fuzz/$1.c" ;;
    *) suite_file "$1" ;;
    esac
}

# build NAME: one test program, as $out/NAME. A fuzz target runs kept inputs once.
build()
{
    local name=$1 source objects= more= fast=
    source=$(source_of "$1")
    if takes_in "$source"; then
        case $name in
        test_fault_* | test_damage) fast=-O1 ;;
        esac
        # shellcheck disable=SC2046,SC2086
        counted "$out/$name.o" "$source" $fast $(steps_flag "$source")
        objects=$out/$name.o
    else
        objects="$out/$name.obj $out/msgstore.o"
    fi
    case $name in
    test_fast) objects="$objects $out/fast_wide.o $out/fast_plain.o" ;;
    esac
    case $name in
    fuzz_*) flags="$flags -DFUZZ_REPLAY" ;;
    esac
    case $name in
    test_doctor | test_sync | fuzz_readers)
        parts=
        [ "$name" != test_sync ] || parts='intake past sync'
        for source in base json files database secrets identity trace formats doctor \
            input $parts \
            $(basename -s .c -a tools/read*.c); do
            objects="$objects $out/tool_$source.o"
        done
        more=$tool_libs
        source=$(source_of "$name") ;;
    esac
    # shellcheck disable=SC2086
    stale "$out/$name" "$source" tests/run/coverage_exit.c msgstore.h bindings/*.h \
        tests/support/*.h tools/*.[ch] tests/fuzz/*.h || return 0
    echo "build $out/$name"
    rm -f "$out/$name"
    # shellcheck disable=SC2086
    case $objects in
    *.obj*) $clang $flags -c "$source" -o "$out/$name.obj" || return 1 ;;
    esac
    # shellcheck disable=SC2086
    $clang $flags -o "$out/$name" $objects tests/run/coverage_exit.c \
        -fprofile-instr-generate -Wl,--wrap=_exit $libs $more -lm
}

# run NAME: the program, or the script NAME.sh, with profiles of its own.
run()
{
    local name=$1 status=0 file
    file=$(source_of "$name")
    rm -f "$out/prof/$name"-*.profraw
    export MS_TEST_SCALE=$scale
    # These let each call fail: all of them; of allocations some are enough.
    case $name in
    test_fault_alloc) MS_TEST_SCALE=100 ;;
    test_fault_* | test_damage) MS_TEST_SCALE=1000 ;;
    esac
    export LLVM_PROFILE_FILE=$PWD/$out/prof/$name-%m.profraw
    (
        ulimit -S -t "$limit"
        if [ "${file%.sh}" != "$file" ]; then
            export MSGSTORE=$out/msgstore
            set -- bash "$file"
        elif [ -f "tests/fuzz/${name#fuzz_}.inputs" ]; then
            set -- "$out/$name" "tests/fuzz/${name#fuzz_}.inputs"
        else
            set -- "$out/$name"
        fi
        exec timeout -k 5 $((limit * 10)) "$@"
    ) >"$out/log/$name.log" 2>&1 </dev/null || status=$?
    if grep -qa '^FAIL ' "$out/log/$name.log"; then status=1; fi
    times >"$out/log/$name.times"
    echo "ran $name: status $status, processor time $(tail -n 1 "$out/log/$name.times")"
    [ "$status" -eq 0 ] || echo "FAIL $name: see $out/log/$name.log" >>"$out/failed"
}

only= report= missing=
if [ "${1:-}" != --one ]; then
    while [ $# -gt 0 ]; do
        case $1 in
        --only) only=$2 && shift ;;
        --missing) missing="$missing --missing $2" && shift ;;
        --report) report=yes ;;
        *) echo "tests/run/coverage.sh: no option $1; see the beginning of the file" >&2
           exit 2 ;;
        esac
        shift
    done
fi

command -v "$clang" >/dev/null || skip "no clang"
version=$($clang -dumpversion | sed 's/\..*//')
profdata=$(llvm profdata) || skip "no llvm-profdata of clang $version (package llvm)"
cov=$(llvm cov) || skip "no llvm-cov of clang $version (package llvm)"
command -v python3 >/dev/null || skip "no python3"
packages="cmocka jansson libcjson sqlite3"
# shellcheck disable=SC2086
libs=$(pkg-config --libs $packages 2>/dev/null || echo -lcmocka -ljansson -lcjson -lsqlite3)
# shellcheck disable=SC2086
include=$(pkg-config --cflags-only-I $packages 2>/dev/null | sed 's/-I/-isystem /g')
flags="-std=c99 -g -pthread -I. -Itests/support $include $(sh tools/setup.sh stb)"
counters="-fprofile-instr-generate -fcoverage-mapping -fprofile-update=atomic"

if [ "${1:-}" = --one ]; then
    "$2" "$3"
    exit
fi

mkdir -p "$out/prof" "$out/log"
rm -f "$out/failed"
tests=$(basename -s .c -a $(suite_files | grep '\.c$') tests/fuzz/fuzz_*.c)
scripts=$(basename -s .sh -a tests/tool/test_tool*.sh)
programs=$tests
names="$tests $scripts"
if [ -n "$only" ]; then
    names=$only
    programs=$(for name in $only; do
        case $(source_of "$name") in *.c) echo "$name" ;; esac
    done)
elif [ -z "$report" ]; then
    rm -f "$out"/prof/*.profraw
fi
if [ -z "$report" ]; then
    counted "$out/msgstore.o" tests/support/msgstore_impl.c -O1
    counted "$out/fast_wide.o" tests/support/fast_impl.c
    counted "$out/fast_plain.o" tests/support/fast_impl.c -DMS__SIMD=0
    tool=
    ${MAKE:-make} -s build/report_page.h build/serve_page.h || exit 1
    tool_with=$(makefile TOOL_WITH) && tool_libs=$(makefile TOOL_LIBS) || exit 1
    export tool_libs
    for source in tools/*.c; do
        taken=
        [ "$source" = tools/library.c ] || taken=-DMSGSTORE_IMPLEMENTED
        # shellcheck disable=SC2086
        counted "$out/tool_$(basename "$source" .c).o" "$source" $taken $tool_with
        tool="$tool $out/tool_$(basename "$source" .c).o"
    done
    # shellcheck disable=SC2086
    $clang $flags -o "$out/msgstore" $tool -fprofile-instr-generate $tool_libs
    # shellcheck disable=SC2086
    printf '%s\n' $programs | xargs -P "$jobs" -I '{}' bash "$0" --one build '{}'
    # shellcheck disable=SC2086
    printf '%s\n' $names | xargs -P "$jobs" -I '{}' bash "$0" --one run '{}'
fi

"$profdata" merge -sparse -o "$out/all.profdata" "$out"/prof/*.profraw || exit 1
objects=
for object in "$out"/*.o; do
    name=${object%.o}
    "$cov" export "$object" -instr-profile "$out/all.profdata" >"$name.json" \
        2>"$name.notes" || exit 1
    "$cov" export "$object" -instr-profile "$out/all.profdata" -format=lcov \
        >"$name.lcov" 2>/dev/null || exit 1
    objects="$objects $name"
done
status=0
# shellcheck disable=SC2086
python3 tests/run/coverage.py msgstore.h tests/run/coverage.txt $missing $objects ||
    status=1
# The file for other languages, which test_ffi takes in; no branch of it is listed.
[ ! -f "$out/test_ffi.json" ] || python3 tests/run/coverage.py bindings/msgstore_ffi.h \
    /dev/null "$out/test_ffi" || status=1
if [ -f "$out/failed" ]; then
    cat "$out/failed"
    status=1
fi
exit $status
