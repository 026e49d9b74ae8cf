#!/usr/bin/env bash
# What it takes to compile msgstore.h, and how large the smallest program is.
#
#   bash bench/compile.sh [--json] [--runs R]
#
# Goal X1: processor seconds of one core to compile the implementation
# (tests/platform/compile/implementation.c, everything in it) with -O2 and with -O0; and
# milliseconds that including the interface alone adds to the compiling of an empty file.
# Goal X2: the code of tests/platform/compile/small.c, arena store and histories alone,
# with -Os, as size(1) counts it; tests/platform/test_compile.sh builds the same program
# and runs it.
#
# A line for each of R runs (3). --json prints JSON objects, as bench_goals does;
# goals/table.c has the goals. CC is the compiler. Left out: linking, other compilers, the
# time that waiting for the disk takes.
set -u
cd "$(dirname "$0")/.." || exit 1
cc=${CC:-gcc}
runs=3
line='%s %-10s %10.4g %s\n'
die()
{
    echo "bench/compile.sh: $1" >&2
    exit "${2:-1}"
}
while [ $# -gt 0 ]; do
    case $1 in
    --json) line='{"goal":"%s","case":"%s","n":1,"value":%s,"unit":"%s"}\n' ;;
    --runs)
        runs=${2:-}
        shift
        ;;
    *) die 'usage: bench/compile.sh [--json] [--runs R]' 2 ;;
    esac
    shift
done
case $runs in '' | *[!0-9]* | 0) die '--runs takes a number from 1 on' 2 ;; esac
stb=$(sh tools/setup.sh stb)
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

# cpu COMMAND...: processor milliseconds of it and what it starts.
cpu()
{
    local TIMEFORMAT='%3U %3S' spent
    spent=$({ time "$@" >"$tmp/out" 2>&1 || echo failed; } 2>&1)
    case $spent in *failed*)
        cat "$tmp/out" >&2
        die "this failed: $*"
        ;;
    esac
    awk '{ print ($1 + $2) * 1000 }' <<<"$spent"
}

# shellcheck disable=SC2086
compile()
{
    cpu "$cc" -std=c99 $1 -I. $stb -c "$2" -o "$tmp/out.o" || exit 1
}

# Twenty files at a time: one takes little more than the clock's step.
twenty()
{
    local i
    for i in {1..20}; do "$cc" -std=c99 -I. -c "$1" -o "$tmp/out.o" || return 1; done
}

# tell GOAL CASE NUMBER UNIT
tell()
{
    # shellcheck disable=SC2059
    printf "$line" "$1" "$2" "$(awk "BEGIN { print $3 }")" "$4"
}

echo '#include "msgstore.h"' >"$tmp/interface.c"
echo 'typedef int nothing;' >"$tmp/empty.c"
compile -O0 "$tmp/empty.c" >/dev/null || exit 1 # the compiler is in the page cache then
for ((i = 0; i < runs; i++)); do
    for level in -O2 -O0; do
        spent=$(compile "$level" tests/platform/compile/implementation.c) || exit 1
        tell X1 "$level" "$spent / 1000" s
    done
    with=$(cpu twenty "$tmp/interface.c") || exit 1
    without=$(cpu twenty "$tmp/empty.c") || exit 1
    tell X1 interface "($with - $without) / 20" ms
done
"$cc" -std=c99 -I. -Os -ffunction-sections -fdata-sections -Wl,--gc-sections \
    tests/platform/compile/small.c -o "$tmp/small" ||
    die 'the smallest program is not built'
"$tmp/small" || die 'the smallest program does not work'
size "$tmp/small" >"$tmp/size" || die 'no size(1)'
tell X2 text "$(awk 'NR == 2 { print $1 }' "$tmp/size") / 1024" KiB
