#!/usr/bin/env bash
# The tests on other machines: big-endian of 64 bits, little-endian of 32 bits with and
# without x86's leniency. Programs are compiled on this machine and run under qemu-user,
# those of i386 without it where the kernel runs them.
#
#   tests/platform/cross.sh [s390x] [i386] [armhf]       all three by default
#   PROGRAMS='test_log_map test_mem' tests/platform/cross.sh ...     only those programs
#   BUILD_ONLY=1 tests/platform/cross.sh ...     builds all, runs only what writes the golden files
#
# Compilers and emulator come from tools/setup.sh; the libraries of the tests are fetched
# for each machine with apt-get into build/cross/MACHINE/root. A machine whose packages
# cannot be had is skipped with a line "skip MACHINE: reason".
#
# Each test program runs at MS_TEST_SCALE percent of its long loops (CROSS_SCALE,
# 1). Then the foreign test_file_format writes the files of tests/golden, which must come out byte
# by byte. At the end "tally: foreign tests MACHINE N" each, and "N passed, N failed, N
# skipped" (machines).
#
# JOBS=n programs at a time (2); CROSS_LIMIT=n seconds until one is stopped (900).
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/platform/foreign.sh
limit=${CROSS_LIMIT:-900}
scale=${CROSS_SCALE:-1}
suffix=
flags="-std=c99 $warnings -Wstrict-prototypes -Werror -g -pthread"

# What a machine is called by whom. Option -R bounds the addresses by 64 GiB: without it
# the emulator takes 6 MiB for each map of 1 GiB that was ever made.
machine_is()
{
    machine=$1
    case $machine in
    s390x) cc=s390x-linux-gnu-gcc triplet=s390x-linux-gnu
        emulator="qemu-s390x -R 0x1000000000" loader=ld64.so.1 ;;
    i386) cc=i686-linux-gnu-gcc triplet=i386-linux-gnu
        emulator=qemu-i386 loader=ld-linux.so.2 ;;
    armhf) cc=arm-linux-gnueabihf-gcc triplet=arm-linux-gnueabihf
        emulator=qemu-arm loader=ld-linux-armhf.so.3 ;;
    *) return 1 ;;
    esac
    out=build/cross/$machine
    libc=/usr/${cc%-gcc}/lib
    if "$libc/$loader" --help >/dev/null 2>&1; then emulator=; fi # this kernel runs it
    apt_options=(-o APT::Architecture="$machine" -o APT::Architectures::="$machine")
}

left_out() { :; }

# What fails under an emulator for a reason that is not ours.
known()
{
    [ -n "$emulator" ] || return
    case $1:$2 in
    test_log_place:nested_sizes_cost_no_time* | test_log_place:parts_of_a_message_cost_no_time*) echo "it bounds a time, and emulation is slow" ;;
    test_log_index:few_pages_are_read_when_a_cold_log_is_opened)
        echo "the emulator keeps advice about maps from the system" ;;
    esac
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

# compile OPTIMISATION SOURCE OUTPUT MORE...
# shellcheck disable=SC2086
compile()
{
    local source=$2 output=$3 optimisation=$1
    shift 3
    $cc $flags $optimisation -I. -Itests/support $stb -isystem "$out/root/usr/include" \
        -isystem "$out/root/usr/include/$triplet" -o "$output" "$source" "$@"
}

# A program finds loader and libraries where they are on this machine.
link_flags()
{
    echo "-L$out/root/usr/lib/$triplet -Wl,-rpath,$here/$out/root/usr/lib/$triplet" \
        "-Wl,-rpath,$here/$out/root/lib/$triplet" \
        "-Wl,-rpath-link,$here/$out/root/lib/$triplet" \
        "-Wl,-rpath,$libc -Wl,--disable-new-dtags -Wl,--dynamic-linker=$libc/$loader"
}

# shellcheck disable=SC2046
build()
{
    local object=$out/msgstore.o optimisation=-O0 source
    source=$(suite_file "$1")
    if takes_in "$source"; then object=; fi
    # Compiling is quicker than emulating.
    if takes_in "$source" && [ "$build_only" = 0 ]; then optimisation=-O1; fi
    if [ "$1" = test_fast ]; then
        compile -O1 tests/support/fast_impl.c "$out/fast_wide.o" -c &&
            compile -O1 tests/support/fast_impl.c "$out/fast_plain.o" -c \
                -DMS__SIMD=0 || return 1
        object="$object $out/fast_wide.o $out/fast_plain.o"
    fi
    if [ "$1" = test_doctor ]; then object="$object $readers"; fi
    if [ "$1" = test_sync ]; then object="$object $readers $syncing"; fi
    # shellcheck disable=SC2086
    compile $optimisation "$source" "$out/$1" $(steps_flag "$source") -D_FILE_OFFSET_BITS=64 \
        -D_TIME_BITS=64 -Wno-conversion $object $(link_flags) \
        -lcmocka -ljansson -lcjson -lsqlite3 -lm
}

# The files of tests/golden that this version writes, written there.
# shellcheck disable=SC2086
golden()
{
    local file other
    rm -rf "$out/golden" && mkdir -p "$out/golden"
    $emulator "$out/test_file_format" --write "$out/golden" >"$out/log/golden" 2>&1
    for file in plain segments torn gaps; do
        other=$(cmp "tests/golden/$file.msl" "$out/golden/$file.msl" 2>&1)
        if [ -z "$other" ]; then ok "$machine writes $file.msl byte by byte"
        else fail "$machine $file.msl" "first difference: $other"; fi
    done
}

skip()
{
    echo "skip $machine: $1"
    all_skipped=$((all_skipped + 1))
}

on_machine()
{
    mkdir -p "$out/log"
    rm -f "$out"/log/*.count
    if ! sh tools/setup.sh cross "$machine" 2>"$out/log/setup"; then
        skip "$(tail -n 1 "$out/log/setup")"
        return
    elif ! libraries; then
        skip "its libraries cannot be had: $(tail -n 1 "$out/log/apt")"
        return
    elif ! compile -O1 tests/support/msgstore_impl.c "$out/msgstore.o" -c \
        >"$out/log/build" 2>&1; then
        fail "$machine" "the header: $(why "$out/log/build")"
        return
    fi
    run_programs
    if programs | grep -qx test_file_format; then golden
    else echo "skip $machine golden files: test_file_format, which writes them, is not chosen"; fi
}

if [ "${1:-}" = --program ]; then
    machine_is "$2" && program "$3"
    exit 0
fi
[ $# -gt 0 ] || set -- s390x i386 armhf
for name in "$@"; do
    if machine_is "$name"; then on_machine
    else fail "$name" "no such machine"; fi
    tally "foreign tests $name"
done
finish
