#!/usr/bin/env bash
# The tests on other machines: big-endian of 64 bits, little-endian of 32 bits with and
# without x86's leniency. Programs are compiled on this machine and run under qemu-user.
#
#   tests/cross.sh [s390x] [i386] [armhf]       all three by default
#   PROGRAMS='test_log_map test_mem' tests/cross.sh ...     only those programs
#
# Compilers and emulator come from tools/setup.sh; the libraries of the tests are fetched
# for each machine with apt-get into build/cross/MACHINE/root, nothing foreign is
# installed. A machine whose packages cannot be had is skipped with a line "skip MACHINE:
# reason".
#
# Each program of tests/test_*.c runs at MS_TEST_SCALE percent of its long loops (CROSS_SCALE,
# 1); one that leaves no result has failed. Then the foreign test_format writes the files
# of tests/golden, which must come out byte by byte, but for one newer word (see golden
# below). At the end "tally: foreign tests MACHINE N" each, and "N passed, N failed".
#
# JOBS=n programs at a time (2); CROSS_LIMIT=n seconds until one is stopped (300).
set -u
cd "$(dirname "$0")/.." || exit 1
here=$PWD
limit=${CROSS_LIMIT:-300}
jobs=${JOBS:-2}
scale=${CROSS_SCALE:-1}
flags="-std=c99 -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow"
flags="$flags -Wcast-qual -Wstrict-prototypes -Werror -g -pthread"

# What a machine is called by whom.
machine_is()
{
    machine=$1
    case $machine in
    s390x) cc=s390x-linux-gnu-gcc triplet=s390x-linux-gnu
        emulator=qemu-s390x loader=ld64.so.1 ;;
    i386) cc=i686-linux-gnu-gcc triplet=i386-linux-gnu
        emulator=qemu-i386 loader=ld-linux.so.2 ;;
    armhf) cc=arm-linux-gnueabihf-gcc triplet=arm-linux-gnueabihf
        emulator=qemu-arm loader=ld-linux-armhf.so.3 ;;
    *) return 1 ;;
    esac
    out=build/cross/$machine
    libc=/usr/${cc%-gcc}/lib
}

# known PROGRAM TEST: what fails for a reason that is not ours.
known()
{
    case $1:$2 in
    test_log_place:nested_sizes_cost_no_time*) echo "it bounds a time, and emulation is slow" ;;
    esac
}

# ---- libraries

# apt MACHINE COMMAND...: apt-get for another machine, with folders of its own.
apt()
{
    local state=$here/$out/apt
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
    : >"$state/status"
    apt-get -q -o APT::Architecture="$machine" -o APT::Architectures::="$machine" \
        -o APT::Sandbox::User=root -o Dir::State="$state" \
        -o Dir::State::status="$state/status" -o Dir::Cache="$state/cache" "$@"
}

# Fetches and unpacks the libraries of the tests, once.
libraries()
{
    [ ! -f "$out/root/usr/include/sqlite3.h" ] || return 0
    local packages="libcmocka0 libcmocka-dev libjansson4 libjansson-dev libcjson1"
    packages="$packages libcjson-dev libsqlite3-0 libsqlite3-dev zlib1g"
    mkdir -p "$out/root" "$out/packages"
    apt update >"$out/log/apt" 2>&1 # what it could not renew may do as it is
    # shellcheck disable=SC2086
    (cd "$out/packages" && apt download $packages) >>"$out/log/apt" 2>&1 || return 1
    for package in "$out"/packages/*.deb; do
        dpkg -x "$package" "$out/root" >>"$out/log/apt" 2>&1 || return 1
    done
}

# ---- building and running

# compile OPTIMISATION SOURCE OUTPUT MORE...
# shellcheck disable=SC2086
compile()
{
    local source=$2 output=$3 optimisation=$1
    shift 3
    $cc $flags $optimisation -I. $stb -isystem "$out/root/usr/include" \
        -isystem "$out/root/usr/include/$triplet" -o "$output" "$source" "$@"
}

# link PROGRAM OBJECT...: it finds loader and libraries where they are on this machine.
link_flags()
{
    echo "-L$out/root/usr/lib/$triplet -Wl,-rpath,$here/$out/root/usr/lib/$triplet" \
        "-Wl,-rpath,$here/$out/root/lib/$triplet" \
        "-Wl,-rpath-link,$here/$out/root/lib/$triplet" \
        "-Wl,-rpath,$libc -Wl,--disable-new-dtags -Wl,--dynamic-linker=$libc/$loader"
}

takes_in()
{
    grep -q '^ *# *define  *MSGSTORE_IMPLEMENTATION' "tests/$1.c"
}

# build PROGRAM
# shellcheck disable=SC2046
build()
{
    local object=$out/msgstore.o optimisation=-O0
    if takes_in "$1"; then object='' optimisation=-O1; fi # compiling is quicker than emulating
    if [ "$1" = test_fast ]; then
        compile -O1 tests/fast_impl.c "$out/fast_wide.o" -c &&
            compile -O1 tests/fast_impl.c "$out/fast_plain.o" -c -DMSGSTORE_NO_SIMD ||
            return 1
        object="$object $out/fast_wide.o $out/fast_plain.o"
    fi
    # shellcheck disable=SC2086
    compile $optimisation "tests/$1.c" "$out/$1" -D_FILE_OFFSET_BITS=64 -Wno-conversion $object $(link_flags) \
        -lcmocka -ljansson -lcjson -lsqlite3 -lm
}

# One program: a line with what came out, and the counts to PROGRAM.count.
program()
{
    local name=$1 log=$out/log/$1 status=0 passed failed=0 skipped why start=$SECONDS test
    if ! build "$name" >"$log" 2>&1; then
        echo "FAIL $machine $name: cannot be built: $(grep -m 1 error "$log")"
        echo "0 1" >"$out/log/$name.count"
        return
    fi
    MS_TEST_SCALE=$scale timeout -k 5 "$limit" "$emulator" "$out/$name" >"$log" 2>&1 \
        </dev/null || status=$?
    passed=$(awk '/^\[  PASSED  \] [0-9]/ { n += $4 } END { print n + 0 }' "$log")
    skipped=$(grep -acE '^\[  SKIPPED \] [^0-9]|^skipped' "$log")
    if [ "$status" -eq 124 ]; then
        echo "FAIL $machine $name: stopped after $limit s in" \
            "$(grep -a '^\[ RUN ' "$log" | tail -n 1)"
        failed=1
    elif [ "$passed" -eq 0 ] || ! grep -qaE '^\[==========\] .* run\.' "$log"; then
        echo "FAIL $machine $name: it did not come to its end, status $status, see $log"
        failed=1
    elif [ "$status" -gt 0 ] && ! grep -qaE '^\[  FAILED  \] ' "$log"; then
        echo "FAIL $machine $name: it ended with status $status, see $log"
        failed=1
    fi
    # shellcheck disable=SC2013
    for test in $(grep -aE '^\[  FAILED  \] [^0-9]' "$log" | awk '{ print $4 }' | sort -u); do
        why=$(known "$name" "$test")
        if [ -n "$why" ]; then
            echo "skip $machine $name $test: $why"
        else
            echo "FAIL $machine $name: $test, see $log"
            failed=$((failed + 1))
        fi
    done
    printf '%-6s %-22s %4d passed %3d failed %3d skipped %4d s\n' "$machine" "$name" \
        "$passed" "$failed" "$skipped" "$((SECONDS - start))"
    echo "$passed $failed" >"$out/log/$name.count"
}

# The files of tests/golden that this version writes, written there.
golden()
{
    local passed=0 failed=0 file other
    rm -rf "$out/golden" && mkdir -p "$out/golden"
    "$emulator" "$out/test_format" --write "$out/golden" >"$out/log/golden" 2>&1
    for file in plain segments torn gaps; do
        other=$(cmp "tests/golden/$file.msl" "$out/golden/$file.msl" 2>&1)
        if [ -z "$other" ]; then
            echo "ok $machine writes $file.msl byte by byte"
            passed=$((passed + 1))
        else
            echo "FAIL $machine $file.msl: first difference: $other"
            failed=$((failed + 1))
        fi
    done
    echo "$passed $failed" >"$out/log/golden.count"
}

stb=$(sh tools/setup.sh stb)
if [ "${1:-}" = --program ]; then
    machine_is "$2" && program "$3"
    exit 0
fi

# ---- all of a machine

# shellcheck disable=SC2086
programs() { basename -s .c -a ${PROGRAMS:-tests/test_*.c}; }

on_machine()
{
    machine_is "$1" || { echo "FAIL $1: no such machine" && return 1; }
    mkdir -p "$out/log"
    rm -f "$out"/log/*.count
    if ! sh tools/setup.sh cross "$machine" 2>"$out/log/setup"; then
        echo "skip $machine: $(tail -n 1 "$out/log/setup")"
        return 0
    elif ! libraries; then
        echo "skip $machine: its libraries cannot be had: $(tail -n 1 "$out/log/apt")"
        return 0
    elif ! compile -O1 tests/msgstore_impl.c "$out/msgstore.o" -c >"$out/log/build" 2>&1; then
        echo "FAIL $machine: the header: $(grep -m 1 error "$out/log/build")"
        return 1
    fi
    programs | xargs -P "$jobs" -I '{}' bash tests/cross.sh --program "$machine" '{}'
    for program in $(programs); do
        [ ! -s "$out/log/$program.count" ] || continue
        echo "FAIL $machine $program: it left no result"
        echo "0 1" >"$out/log/$program.count"
    done
    if programs | grep -qx test_format; then golden
    else echo "skip $machine golden files: test_format, which writes them, is not chosen"; fi
}

total_passed=0
total_failed=0
[ $# -gt 0 ] || set -- s390x i386 armhf
for name in "$@"; do
    on_machine "$name" || total_failed=$((total_failed + 1))
    machine_is "$name" || continue
    counts=$(cat "$out"/log/*.count 2>/dev/null |
        awk '{ p += $1; f += $2 } END { print p + 0, f + 0 }')
    echo "tally: foreign tests $name ${counts% *}"
    total_passed=$((total_passed + ${counts% *}))
    total_failed=$((total_failed + ${counts#* }))
done
echo "$total_passed passed, $total_failed failed"
[ "$total_failed" -eq 0 ]
