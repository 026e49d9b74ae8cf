#!/usr/bin/env bash
# The library on Windows: built with mingw-w64, run under wine.
#
#   tests/platform/windows.sh
#   PROGRAMS='test_mem test_record' tests/platform/windows.sh     of the test programs only those
#   BUILD_ONLY=1 tests/platform/windows.sh     builds all and runs nothing: needs no wine
#
#   - the header and the tool, compiled without a warning;
#   - those test programs that need no fork, no file replaced while it is open
#     and no other library than cmocka and jansson; the others are named in left_out, each
#     with its reason. The two libraries are built from Debian's sources, fetched with
#     apt-get into build/windows;
#   - the examples that run anywhere;
#   - the tool: golden files are read and verified, and a log that it makes on Windows is
#     byte by byte what it reads as here, when the tool of this machine is built.
#
# What POSIX has and mingw lacks is in tests/platform/windows/. Test programs run at MS_TEST_SCALE
# percent of their long loops (WINDOWS_SCALE, 5).
# Without the packages, or where wine does not run, one line "skip windows: reason". At the
# end "tally: tests on Windows N" and "N passed, N failed, N skipped". JOBS=n programs at
# a time (2).
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/platform/foreign.sh
machine=windows
out=build/windows
limit=${WINDOWS_LIMIT:-300}
scale=${WINDOWS_SCALE:-5}
emulator=wine
suffix=.exe
cc=x86_64-w64-mingw32-gcc
posix="-std=gnu99 -w -D__USE_MINGW_ANSI_STDIO=1 -include tests/platform/windows/posix.h"
posix="$posix -Itests/platform/windows -isystem $out/include"
path="-I. -Itests/support $stb"
libraries="-L$out -lcmocka -ljansson -lbcrypt -ladvapi32"
export WINEPREFIX=$here/$out/wine WINEDEBUG=-all
unset DISPLAY

left_out()
{
    case $1 in
    test_change_shared | test_crash | test_log_durable | test_log_lock | test_log_map | test_manager | test_os | \
    test_power | test_rewrite | test_shared | test_sync | test_threads)
        echo "it forks" ;;
    test_damage | test_fault_alloc | test_log_index | test_log_place)
        echo "it replaces and links files that are open, which Windows refuses" ;;
    test_silent) echo "it replaces pages of a map" ;;
    test_secrets) echo "it walks a folder with nftw" ;;
    test_fault_io) echo "it limits the size of files (setrlimit)" ;;
    test_memory | test_session | test_twin) echo "it needs SQLite" ;;
    esac
}

# What fails for a reason that is not ours.
known()
{
    case $1:$2 in
    test_numbers:powers_and_neighbours) echo "strtod of msvcrt does not round correctly" ;;
    test_numbers:dates_are_those_of_the_calendar) echo "gmtime_s of msvcrt begins in 1970" ;;
    test_project_hostile:time_grows_with_the_calls_when_they_are_hard_to_pair | \
    test_change:many_changes_stay_quick)
        echo "clock of msvcrt moves in steps of 15 ms" ;;
    test_change:copy/a_rewritten_log_has_only_the_result_of_changes | \
    test_error:error_stays_as_it_was_when_a_log_is_rewritten | \
    test_error:texts_of_a_replaced_log_name_the_rewrite | \
    test_ffi:call_is_refused_when_the_log_was_replaced | \
    test_ffi:log_is_rewritten_when_nobody_writes_to_it | \
    test_growth:rewrite | test_lifetimes:rewrites_keep_nothing_of_their_arguments | \
    test_file_format:the_bytes_are_as_the_essay_has_them | \
    test_file_format:the_bytes_are_those_of_the_kept_files)
        echo "a file that is open cannot be replaced" ;;
    test_compact:long_run_stays_within_its_context) echo "it forks" ;;
    test_team:requests_of_a_team_are_right_in_any_order)
        echo "printf of msvcrt knows no places (%3\$s)" ;;
    esac
}

# ---- libraries of the tests

# What cmocka's and jansson's own configuration would find.
write_configurations()
{
    local name
    for name in ASSERT INTTYPES IO MALLOC MEMORY SETJMP SIGNAL STDARG STDDEF STDINT STDIO \
        STDLIB STRING TIME; do
        echo "#define HAVE_${name}_H 1"
    done >"$out/include/config.h"
    echo '#define HAVE_SNPRINTF 1
#define HAVE_VSNPRINTF 1
#define HAVE_GCC_THREAD_LOCAL_STORAGE 1' >>"$out/include/config.h"
    for name in STDINT SYS_TYPES SYS_STAT FCNTL UNISTD; do
        echo "#define HAVE_${name}_H 1"
    done >"$out/include/jansson_private_config.h"
    echo '#define USE_WINDOWS_CRYPTOAPI 1
#define INITIAL_HASHTABLE_ORDER 3' >>"$out/include/jansson_private_config.h"
}

# Fetches the sources, once.
sources()
{
    local code list=$here/$out/sources.list
    [ -z "$(ls "$out"/source/jansson-*/src/jansson.h 2>/dev/null)" ] || return 0
    mkdir -p "$out/source"
    # shellcheck disable=SC1091
    code=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    echo "deb-src http://deb.debian.org/debian $code main" >"$list"
    apt_options=(-o Dir::Etc::sourcelist="$list" -o Dir::Etc::sourceparts=/dev/null)
    apt update && (cd "$out/source" && apt --download-only source cmocka jansson) || return 1
    for archive in "$out"/source/*.orig.tar.*z; do
        tar -xf "$archive" -C "$out/source" || return 1
    done
}

# shellcheck disable=SC2086
build_libraries()
{
    [ ! -f "$out/libjansson.a" ] || return 0
    local flags="-O1 -w -DHAVE_CONFIG_H -DHAVE_STDINT_H -I$out/include" file
    local cmocka jansson
    cmocka=$(echo "$out"/source/cmocka-*) jansson=$(echo "$out"/source/jansson-*)
    write_configurations
    cp "$cmocka/include/cmocka.h" "$jansson/src/jansson.h" \
        "$jansson/android/jansson_config.h" "$out/include/" || return 1
    $cc $flags -I"$cmocka/include" -c -o "$out/cmocka.o" "$cmocka/src/cmocka.c" || return 1
    for file in "$jansson"/src/*.c; do
        $cc $flags -I"$jansson/src" -c -o "$out/jansson-$(basename "$file" .c).o" "$file" ||
            return 1
    done
    x86_64-w64-mingw32-ar rcs "$out/libcmocka.a" "$out/cmocka.o" &&
        x86_64-w64-mingw32-ar rcs "$out/libjansson.a" "$out"/jansson-*.o
}

# ---- test programs

# shellcheck disable=SC2086
build()
{
    local object=$out/msgstore.o source
    source=$(suite_file "$1")
    if takes_in "$source"; then object=-DWINDOWS_NAMES; fi
    if [ "$1" = test_fast ]; then object="$object $out/fast_wide.o $out/fast_plain.o"; fi
    if [ "$1" = test_doctor ]; then object="-DWINDOWS_NAMES $object $readers"; fi
    $cc $posix $(steps_flag "$source") -O0 -pthread -static $path -o "$out/$1.exe" \
        "$source" $object $out/posix.o $libraries
}

if [ "${1:-}" = --program ]; then
    program "$3"
    exit 0
fi

# ---- examples and tool

skip()
{
    echo "skip windows: $1"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}

# Examples in a folder of their own each.
# shellcheck disable=SC2086
examples()
{
    local name
    for name in quickstart agent_loop edit_rewind fixed_buffer frame_loop import manager providers \
        replay streaming; do
        rm -rf "$out/run/$name" && mkdir -p "$out/run/$name"
        if ! $cc -std=c99 $warnings -Werror -O0 -pthread -static -I. $stb \
            -o "$out/$name.exe" "examples/$name.c" >"$out/log/$name" 2>&1; then
            fail "example_$name" "$(why "$out/log/$name")"
        elif [ "$build_only" = 1 ]; then
            ok "example_$name is built"
        elif (cd "$out/run/$name" && timeout 60 wine "$here/$out/$name.exe" \
            >"$here/$out/log/$name" 2>&1 </dev/null); then
            ok "example_$name"
        else
            fail "example_$name" "it ended with status $?, see $out/log/$name"
        fi
    done
}

# on_windows ARGUMENTS: the tool there.
on_windows()
{
    timeout 60 wine "$out/msgstore.exe" "$@" </dev/null 2>>"$out/log/tool"
}

tool_checks()
{
    local file native=${MSGSTORE:-build/msgstore} log=$out/run/tool.msl
    mkdir -p "$out/run"
    for file in tests/golden/*.msl; do
        case $file in *version[12].msl) continue ;; esac # what this version refuses
        if on_windows verify "$file" >"$out/log/verify"; then ok "verify_${file##*/}"
        else fail "verify_${file##*/}" "$(tail -n 1 "$out/log/verify")"; fi
        [ -x "$native" ] || continue
        on_windows export "$file" >"$out/run/there"
        "$native" export "$file" >"$out/run/here"
        if cmp -s "$out/run/there" "$out/run/here"; then ok "export_${file##*/}"
        else fail "export_${file##*/}" "it reads otherwise than here"; fi
    done
    rm -f "$log"
    if on_windows import "$log" tools/demo.jsonl >"$out/log/import"; then ok tool_import
    else fail tool_import "$(tail -n 1 "$out/log/tool")"; fi
    if on_windows verify "$log" >"$out/log/verify"; then ok tool_verify
    else fail tool_verify "$(tail -n 1 "$out/log/verify")"; fi
    if [ ! -x "$native" ]; then
        echo "skip tool_same: $native is not built, nothing to compare with"
        return
    fi
    on_windows export "$log" >"$out/run/there"
    "$native" export "$log" >"$out/run/here" 2>>"$out/log/tool"
    if [ -s "$out/run/here" ] && cmp -s "$out/run/there" "$out/run/here"; then ok tool_same
    else fail tool_same "a log made there reads otherwise here"; fi
    if "$native" verify "$log" >"$out/log/verify"; then ok tool_verified_here
    else fail tool_verified_here "$(tail -n 1 "$out/log/verify")"; fi
}

# ---- all of it

mkdir -p "$out/log" "$out/include"
rm -f "$out"/log/*
sh tools/setup.sh windows 2>"$out/log/setup" || skip "$(tail -n 1 "$out/log/setup")"
[ "$build_only" = 1 ] || timeout 120 wine cmd /c ver >"$out/log/wine" 2>&1 ||
    skip "wine does not run: $(tail -n 1 "$out/log/wine")"
# shellcheck disable=SC2015
sources >"$out/log/sources" 2>&1 && build_libraries >>"$out/log/sources" 2>&1 ||
    skip "cmocka and jansson cannot be built: $(tail -n 1 "$out/log/sources")"
# shellcheck disable=SC2086
if $cc -std=c99 $warnings -Wstrict-prototypes -Werror -O1 -pthread $path -c \
    -o "$out/msgstore.o" tests/support/msgstore_impl.c >"$out/log/header" 2>&1; then
    ok header
else
    fail header "$(why "$out/log/header")"
fi
# shellcheck disable=SC2015,SC2086
$cc $posix -O1 -c -o "$out/posix.o" tests/platform/windows/posix.c \
    >"$out/log/posix" 2>&1 &&
    $cc $posix -O1 $path -c -o "$out/fast_wide.o" tests/support/fast_impl.c \
        >>"$out/log/posix" 2>&1 &&
    $cc $posix -O1 $path -c -DMS__SIMD=0 -o "$out/fast_plain.o" \
        tests/support/fast_impl.c >>"$out/log/posix" 2>&1 ||
    fail posix "$(why "$out/log/posix")"
run_programs
# shellcheck disable=SC2086
if ${MAKE:-make} -s build/report_page.h build/serve_page.h >"$out/log/msgstore" 2>&1 &&
    $cc $posix -DWINDOWS_NAMES -O0 -pthread -static -I. -Ibuild $stb -o "$out/msgstore.exe" \
        tools/*.c >"$out/log/msgstore" 2>&1; then
    ok tool
    [ "$build_only" = 1 ] || tool_checks
else
    fail tool "$(why "$out/log/msgstore")"
fi
examples
[ "$build_only" = 1 ] || timeout 20 wineserver -k >/dev/null 2>&1
tally 'tests on Windows'
finish
