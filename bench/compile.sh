#!/usr/bin/env bash
# What it takes to compile msgstore.h, and how large the smallest program is.
#
#   bash bench/compile.sh [--json] [--runs R]
#
# Goal X1: processor seconds of one core to compile the implementation
# (tests/compile/implementation.c, everything in it) with -O2 and with -O0; and
# milliseconds that including the interface alone adds to the compiling of an empty file.
# Goal X2: the code of tests/compile/small.c, arena store and histories alone, with -Os,
# as size(1) counts it; tests/test_compile.sh builds the same program and runs it.
#
# Medians of R times (3), with the least and the most. --json prints one JSON object a
# line, as bench_goals does; goals/table.h says what must be reached. CC is the compiler.
# Left out: linking, other compilers, the time that waiting for the disk takes.
set -u
cd "$(dirname "$0")/.." || exit 1
cc=${CC:-gcc}
runs=3
json=
while [ $# -gt 0 ]; do
    case $1 in
    --json) json=yes ;;
    --runs)
        runs=${2:-}
        shift
        ;;
    *)
        echo "usage: bench/compile.sh [--json] [--runs R]" >&2
        exit 2
        ;;
    esac
    shift
done
case $runs in
'' | *[!0-9]* | 0)
    echo "bench/compile.sh: --runs takes a number from 1 on" >&2
    exit 2
    ;;
esac
stb=$(sh tools/setup.sh stb)
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

die()
{
    echo "bench/compile.sh: $1" >&2
    exit 1
}

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

# Of the numbers on standard input: median, least, most.
# shellcheck disable=SC2120
spread()
{
    sort -n | awk '{ v[NR] = $1 } END { print v[int(NR / 2) + 1], v[1], v[NR] }'
}

# tell GOAL CASE UNIT DIGITS: the numbers of standard input as a figure.
tell()
{
    local middle least most
    read -r middle least most <<<"$(spread)"
    if [ -n "$json" ]; then
        printf '{"goal":"%s","case":"%s","n":1,"value":%s,"unit":"%s",' \
            "$1" "$2" "$middle" "$3"
        printf '"least":%s,"most":%s}\n' "$least" "$most"
    else
        printf '%s %-44s %10.*f %-6s (%.*f .. %.*f)\n' \
            "$1" "$5" "$4" "$middle" "$3" "$4" "$least" "$4" "$most"
    fi
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
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        "$cc" -std=c99 -I. -c "$1" -o "$tmp/out.o" || return 1
    done
}

repeat()
{
    local i
    for ((i = 0; i < runs; i++)); do "$@" || exit 1; done
}

seconds()
{
    local spent
    spent=$(compile "$1" tests/compile/implementation.c) || exit 1
    awk "BEGIN { print $spent / 1000 }"
}

included()
{
    local with without
    with=$(cpu twenty "$tmp/interface.c") || exit 1
    without=$(cpu twenty "$tmp/empty.c") || exit 1
    awk "BEGIN { print ($with - $without) / 20 }"
}

text_size()
{
    "$cc" -std=c99 -Os -ffunction-sections -fdata-sections -Wl,--gc-sections \
        tests/compile/small.c -o "$tmp/small" || die 'the smallest program is not built'
    "$tmp/small" || die 'the smallest program does not work'
    size "$tmp/small" >"$tmp/size" || die 'no size(1)'
    awk 'NR == 2 { print $1 / 1024 }' "$tmp/size"
}

echo '#include "msgstore.h"' >"$tmp/interface.c"
echo 'typedef int nothing;' >"$tmp/empty.c"
compile -O0 "$tmp/empty.c" >/dev/null || exit 1 # the compiler is in the page cache then
for level in -O2 -O0; do
    figures=$(repeat seconds "$level") || exit 1
    tell X1 "$level" s 2 "compile the implementation, $level" <<<"$figures"
done
figures=$(repeat included) || exit 1
tell X1 interface ms 1 'include the interface alone' <<<"$figures"
figures=$(text_size) || exit 1
tell X2 text KiB 1 'code of the smallest program, -Os' <<<"$figures"
