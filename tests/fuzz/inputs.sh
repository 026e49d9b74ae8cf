#!/bin/sh
# The kept inputs of a fuzz target: tests/fuzz/TARGET.inputs, a text with one input a line,
# in the order of names.
#
#   sh tests/fuzz/inputs.sh add TARGET FILE...       takes inputs in, named after their files
#   sh tests/fuzz/inputs.sh unpack TARGET FOLDER     writes each input to a file of its name
#   sh tests/fuzz/inputs.sh print TARGET NAME        writes one input to standard output
#   sh tests/fuzz/inputs.sh minimise TARGET          drops inputs that reach no more edges
#
# A line is the name, a space, and the bytes; the name alone where there are no bytes. A
# byte that is no printable ASCII, a space and a backslash are a backslash and two digits
# of hex. The C reader is inputs.h.
#
# An input whose name has 40 digits, as libFuzzer names it, is kept for what it reaches, and
# minimise may drop it (it takes build/fuzz/fuzz_TARGET, see `make fuzz`). Give every other
# input a name in words: it once found a fault, and stays.
set -eu
export LC_ALL=C

# encode FILE: its line.
encode()
{
    od -An -v -tu1 "$1" | awk -v name="${1##*/}" '
        BEGIN { printf "%s", name }
        {
            if (NR == 1) printf " "
            for (i = 1; i <= NF; i++)
                if ($i > 32 && $i < 127 && $i != 92) printf "%c", $i + 0
                else printf "\\%02x", $i
        }
        END { print "" }'
}

# decode FOLDER: writes the inputs of standard input to files there.
decode()
{
    awk -v folder="$1" '
        BEGIN { for (i = 0; i < 256; i++) byte[sprintf("%02x", i)] = i }
        {
            file = folder "/" $1
            printf "" >file
            text = substr($0, length($1) + 2)
            while ((at = index(text, "\\")) > 0) {
                printf "%s%c", substr(text, 1, at - 1), byte[substr(text, at + 1, 2)] >file
                text = substr(text, at + 3)
            }
            printf "%s", text >file
            close(file)
        }'
}

# pack FILE...: their lines, in order.
pack()
{
    for file in "$@"; do encode "$file"; done | sort
}

usage()
{
    sed -n '5,8s/^#  *//p' "$0" >&2
    exit 2
}

[ $# -ge 2 ] || usage
inputs=tests/fuzz/$2.inputs
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case $1:$# in
add:2) usage ;;
add:*)
    target=$2
    shift 2
    touch "$inputs"
    pack "$@" >"$work/new"
    sort -u -k 1,1 "$work/new" "$inputs" >"$work/all"
    cat "$work/all" >"$inputs"
    echo "$target has $(grep -c . "$inputs") inputs"
    ;;
unpack:3)
    mkdir -p "$3"
    decode "$3" <"$inputs"
    ;;
print:3)
    awk -v name="$3" '$1 == name' "$inputs" | decode "$work"
    cat "$work/$3"
    ;;
minimise:2)
    mkdir "$work/all" "$work/kept"
    decode "$work/all" <"$inputs"
    grep -Ev '^[0-9a-f]{40} ' "$inputs" | decode "$work/kept"
    "build/fuzz/fuzz_$2" -set_cover_merge=1 -use_counters=0 -entropic=0 -detect_leaks=0 \
        "$work/kept" "$work/all"
    before=$(grep -c . "$inputs")
    pack "$work/kept"/* >"$work/text"
    cat "$work/text" >"$inputs"
    echo "$2 had $before inputs, has $(grep -c . "$inputs")"
    ;;
*) usage ;;
esac
