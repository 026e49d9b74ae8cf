#!/usr/bin/env bash
# Our store and its peers as they grow: from 1000 to 10,000,000 messages.
#
#   bash bench/scale.sh [--most N] [--only NAME,NAME] [--bound S] [--runs R]
#                       [--results FOLDER] [--plot]
#
# For each store and each power of ten up to N (10000000) it runs the store's program
# (build/bench_NAME of bench/compare/NAME.c, see compare/driver.c; the peer in
# Python as it is) and collects
#   append   appending one message, no sync, visible to other processes     ns/message
#   tail     the newest 20 of a conversation, half of the queries within    ns/query
#   view     a whole conversation, every field's first byte read            ns/message
#   open     from opening after a clean close to the newest 20              ns
#   bytes    blocks of all files after a clean close                        bytes/message
# with a warm page cache. Each is the median of R runs (3), but for what takes longer than
# a third of the bound: that is run once. A store that took longer than the bound (S
# seconds, 10) to append, to be filled or to open is not asked for the next size; a line
# reports that, also in the results. --only names stores as their programs do, such as
# 'msgstore,sqlite tuned'; in BENCH: --only msgstore,sqlite\ tuned. A mode that a program
# lacks has no line.
#
# Results: scale.jsonl in FOLDER (bench/results), one JSON object a line, first one with
# date, machine, compiler and command; and a plot of each as NAME.svg, which
# bench/plots.gp draws of some of the stores: see `plotted` below. --plot draws them anew
# from the results that are there. Files are in a folder of their own inside $BENCH_DIR,
# else build; the largest need about 16 GB.
#
# Left out: what is measured in turn, message by message, so that small differences can be
# trusted: that is `make bench`.
set -u
command="make bench-scale${*:+ BENCH='$(printf '%q ' "$@" | sed 's/\\,/,/g; s/ $//')'}"
cd "$(dirname "$0")/.." || exit 1

most=10000000
only=
bound=10
runs=3
results=bench/results
plot=

die()
{
    echo "bench/scale.sh: $1" >&2
    exit 1
}

number()
{
    case $2 in '' | *[!0-9]* | 0) die "$1 takes a number from 1 on" ;; esac
}

while [ $# -gt 0 ]; do
    case $1 in
    --most | --bound | --runs) number "$1" "${2:-}" ;;
    --only | --results) [ -n "${2:-}" ] || die "$1 takes a value" ;;
    --plot) ;;
    *) die "no option $1; see the beginning of the file" ;;
    esac
    case $1 in
    --most) most=$2 ;;
    --bound) bound=$2 ;;
    --runs) runs=$2 ;;
    --only) only=$2 ;;
    --results) results=$2 ;;
    --plot) plot=yes ;;
    esac
    [ "$1" = --plot ] || shift
    shift
done

tmp=
cleanup() { [ -z "$tmp" ] || rm -rf "$tmp"; }
trap cleanup EXIT
trap 'exit 130' INT TERM
mkdir -p "${BENCH_DIR:-build}" "$results" || exit 1
tmp=$(mktemp -d "${BENCH_DIR:-build}/scale_XXXXXX") || exit 1
lines=$tmp/lines


# ---- measuring

# quoted TEXT: as it stands in a JSON string.
quoted()
{
    sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' <<<"$1"
}

machine()
{
    local model
    model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)
    echo "${model:-$(uname -m)}, $(getconf _NPROCESSORS_ONLN) processors, $(uname -sr)," \
        "$(df --output=fstype "$tmp" 2>/dev/null | tail -n 1)"
}

# One JSON object: what all results are about.
head_line()
{
    local compiler
    compiler=$("${CC:-cc}" --version 2>/dev/null | head -n 1)
    printf '{"date":"%s","machine":"%s","compiler":"%s","command":"%s"}\n' \
        "$(date +%Y-%m-%d)" "$(quoted "$(machine)")" "$(quoted "$compiler")" \
        "$(quoted "$command")"
}

# The programs that can be run, one a line; of what cannot be built it says so.
programs()
{
    local name
    for name in floor jsonl leveldb lmdb msgstore sqlite; do
        name=build/bench_$name
        if make --no-print-directory "$name" >"$tmp/make" 2>&1 && [ -x "$name" ]; then
            echo "$name"
        else
            echo "skipped: $name cannot be built" >&2
            tail -n 3 "$tmp/make" >&2
        fi
    done
    if command -v python3 >/dev/null; then echo "python3 bench/compare/python.py"
    else echo "skipped: bench/compare/python.py, there is no python3" >&2; fi
}

# value FILE WHAT: of the line about it.
value()
{
    sed -n "s/.*\"what\":\"$2\",\"value\":\([-+0-9.e]*\).*/\1/p" "$1" | head -n 1
}

# step PROGRAM VARIANT N MODE [OPTIONS]: the program's lines are then in $tmp/out, the
# milliseconds that it took in $took.
# shellcheck disable=SC2086
step()
{
    local program=$1 variant=$2 n=$3 begin
    shift 3
    begin=$(date +%s%N)
    timeout $((bound * 40)) $program "$@" --n "$n" --dir "$tmp/files" \
        --variant "$variant" >"$tmp/out" 2>"$tmp/errors" </dev/null ||
        die "$program $* of $variant, $n messages, failed: $(tail -n 2 "$tmp/errors")"
    took=$((($(date +%s%N) - begin) / 1000000))
    # Reading takes the time that it is given.
    if [ "$1" != read ] && [ "$took" -gt "$longest" ]; then
        longest=$took
        longest_mode=$1
    fi
}

# collect WHAT FACTOR NAME UNIT: notes the program's value of WHAT, times FACTOR.
collect()
{
    local v
    v=$(value "$tmp/out" "$1")
    if [ -n "$v" ]; then
        awk "BEGIN { printf \"%.6g\\n\", $v * $2 }" >>"$tmp/$3.values"
        echo "$4" >"$tmp/$3.unit"
    fi
}

# tell STORE N NAME: median, least and most of what was noted.
tell()
{
    [ -f "$tmp/$3.values" ] || return 0
    sort -g "$tmp/$3.values" | awk -v store="$1" -v n="$2" -v what="$3" \
        -v unit="$(cat "$tmp/$3.unit")" '
        { v[NR] = $1 }
        END {
            printf "{\"store\":\"%s\",\"n\":%d,\"what\":\"%s\",", store, n, what
            printf "\"value\":%s,\"unit\":\"%s\",", v[int(NR / 2) + 1], unit
            printf "\"least\":%s,\"most\":%s,\"runs\":%d}\n", v[1], v[NR], NR
        }' >>"$lines"
    rm -f "$tmp/$3.values"
}

# repeated COMMAND...: once, and then, when that was quick, R - 1 times more.
repeated()
{
    local i
    "$@"
    [ "$took" -lt $((bound * 333)) ] || return 0
    for ((i = 1; i < runs; i++)); do "$@"; done
}

append_step()
{
    step "$1" "$2" "$3" append --seconds $((bound * 20))
    collect append 1 append ns/message
}

read_step()
{
    step "$1" "$2" "$3" read --seconds 0.1
    collect 'tail p50' 1 tail ns/query
    collect 'conversation shallow' 1 view ns/message
}

open_step()
{
    step "$1" "$2" "$3" open
    collect 'open warm' 1000000 open ns
}

# size PROGRAM VARIANT N: one store at one size.
size()
{
    rm -rf "$tmp/files"
    mkdir "$tmp/files"
    repeated append_step "$@"
    step "$@" fill
    collect disk 1 bytes bytes/message
    repeated read_step "$@"
    repeated open_step "$@"
    rm -rf "$tmp/files"
    for what in append tail view open bytes; do tell "$2" "$3" "$what"; done
}

# grow PROGRAM VARIANT
grow()
{
    local n took=0 longest longest_mode=
    for ((n = 1000; n <= most; n *= 10)); do
        longest=0
        echo "$2, $n messages" >&2
        size "$1" "$2" "$n"
        if [ "$longest" -le $((bound * 1000)) ] || [ $((n * 10)) -gt "$most" ]; then
            continue
        fi
        echo "$2: not asked for $((n * 10)), $longest_mode of $n took $longest ms" >&2
        {
            printf '{"store":"%s","n":%d,"what":"not asked",' "$2" $((n * 10))
            printf '"reason":"%s of %d took %d ms"}\n' "$longest_mode" "$n" "$longest"
        } >>"$lines"
        return
    done
}

measure()
{
    local program variant
    head_line >"$lines"
    programs >"$tmp/programs"
    while read -r program <&3; do
        # The floors are prototypes, of which one is enough.
        # shellcheck disable=SC2086
        $program names | sed -n 's/.*"store":"\([^"]*\)".*/\1/p' |
            grep -v -x -e 'floor write' -e 'floor prefaulted' -e 'floor index' \
                >"$tmp/names"
        while read -r variant <&4; do
            case ,$only, in ,, | *",$variant,"*) grow "$program" "$variant" ;; esac
        done 4<"$tmp/names"
    done 3<"$tmp/programs"
    [ "$(wc -l <"$lines")" -gt 1 ] || die 'no store was measured'
    mv "$lines" "$results/scale.jsonl"
}


# ---- plotting

# What the plots show, and in which order of colours: one store of each kind.
plotted=('msgstore' 'lmdb clustered' 'leveldb' 'jsonl' 'sqlite tuned' 'python'
    'floor map')

# points WHAT STORE: "n value" a line.
points()
{
    local line="{\"store\":\"$2\",\"n\":\([0-9]*\),\"what\":\"$1\",\"value\":\([^,]*\)"
    sed -n "s/^$line,.*/\1 \2/p" "$results/scale.jsonl" | sort -g
}

# labels WHAT: where in the margin each line's name stands, so that none covers another:
# "ends" has lines of number, n and value of a line's end.
labels()
{
    sort -g -k 3 "$tmp/ends" | awk -v all="${#plotted[@]}" '
        function log10(x) { return log(x) / log(10) }
        FNR == NR {
            v = log10($2)
            if (NR == 1) low = high = v
            if (v < low) low = v
            if (v > high) high = v
            if ($1 > largest) largest = $1
            next
        }
        { k++; number[k] = $1; x[k] = $2; y[k] = at[k] = log10($3) }
        END {
            if (high - low < 0.5) { middle = (high + low) / 2; high = middle + 0.25
                                    low = middle - 0.25 }
            pad = (high - low) * 0.06; high += pad; low -= pad
            gap = (high - low) / 17 # the height of a name
            for (pass = 0; pass < 200; pass++)
                for (i = 1; i < k; i++) if (at[i + 1] - at[i] < gap) {
                    move = (gap - (at[i + 1] - at[i])) / 2
                    at[i] -= move; at[i + 1] += move
                }
            printf "low = %.6g\nhigh = %.6g\n", 10 ^ low, 10 ^ high
            printf "largest = %d\n", largest
            printf "array X[%d]\narray Y[%d]\narray L[%d]\n", all, all, all
            for (i = 1; i <= all; i++) printf "X[%d] = 0\n", i # those without a line
            for (i = 1; i <= k; i++)
                printf "X[%d] = %s\nY[%d] = %.6g\nL[%d] = %.6g\n", number[i], x[i],
                    number[i], 10 ^ y[i], number[i], 10 ^ at[i]
        }' "$tmp/all" -
}

draw()
{
    local what i
    [ -f "$results/scale.jsonl" ] || die "there is no $results/scale.jsonl"
    if ! command -v gnuplot >/dev/null; then
        echo 'skipped: the plots, there is no gnuplot (package gnuplot-nox)' >&2
        return
    fi
    for what in append tail view open bytes; do
        : >"$tmp/ends"
        : >"$tmp/all"
        for i in "${!plotted[@]}"; do
            points "$what" "${plotted[$i]}" >"$tmp/$((i + 1)).points"
            cat "$tmp/$((i + 1)).points" >>"$tmp/all"
            tail -n 1 "$tmp/$((i + 1)).points" | sed "s/^/$((i + 1)) /" >>"$tmp/ends"
        done
        [ -s "$tmp/all" ] || die "the results have nothing about $what"
        labels >"$tmp/labels"
        gnuplot -e "what='$what'; dir='$tmp'; out='$results/$what.${FORMAT:-svg}'" \
            bench/plots.gp || die "gnuplot failed at $what"
    done
}

[ -n "$plot" ] || measure
draw
echo "results: $results/scale.jsonl and a plot of each figure beside it"
