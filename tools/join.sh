#!/usr/bin/env bash
# Keeps msgstore.h and src/ equal: `make header`.
#
# src/msgstore.h is the spine: guards and include lines. msgstore.h is the spine with each
# include line replaced by the bytes of that file, so both can be edited. A file of src/
# begins with an empty line and its tag, "/* ==== [tag] title"; the first one is the manual.
#
#   tools/join.sh             carries an edit of one side to the other; writes nothing if
#                             both sides were edited
#   tools/join.sh --check     writes nothing; ends with 1 where the sides differ
#   tools/join.sh --from src  msgstore.h is written whatever it holds (after a merge)
#   tools/join.sh --from msgstore.h   the same for the files of src/
#   tools/join.sh --files     prints the files of src/ in their order
#
# Which side was edited: the one that differs from the last state in which both were equal.
# That is build/joined.h, or the last commit if its sides are equal. MS_ROOT=folder works on
# another tree.
set -u
cd "${MS_ROOT:-$(dirname "$0")/..}" || exit 1
spine=src/msgstore.h
last=build/joined.h

fail()
{
    echo "make header: $1" >&2
    exit 1
}

# files: the paths that the spine includes, each of which must end with a line feed.
files()
{
    sed -n 's/^#include "\([A-Za-z0-9_/-]*\.h\)"$/src\/\1/p' "$spine"
}

# sound: refuses a spine or a file that could not be taken apart again.
sound()
{
    local file line
    line=$(grep -nE $'^[ \t]*#[ \t]*include|\r' "$spine" |
        grep -vE '^[0-9]+:#include "[A-Za-z0-9_/-]*\.h"$' | head -n 1)
    [ -z "$line" ] ||
        fail "$spine:$line: expected #include \"FOLDER/NAME.h\" and a line feed"
    while read -r file; do
        [ -f "$file" ] || fail "$spine includes $file, which is missing"
        [ -z "$(tail -c 1 "$file")" ] || fail "$file does not end with a line feed"
    done < <(files)
    # shellcheck disable=SC2046
    line=$(grep -nE '^/\* ==== \[[a-z0-9-]+\]' $(files) | grep -v ':2:/' | head -n 1)
    [ -z "$line" ] || fail "$line: a file has one tag, in its second line"
    line=$(comm -13 <(files | sort) <(find src -mindepth 2 -name '*.h' | sort) | head -n 1)
    [ -z "$line" ] || fail "$spine does not include $line"
}

# join: prints the spine with its files.
join()
{
    LC_ALL=C awk '
        match($0, /^#include "[A-Za-z0-9_\/-]*\.h"$/) {
            file = "src/" substr($0, 11, length($0) - 11)
            while ((getline line < file) > 0) print line
            close(file)
            next
        }
        { print }' "$spine"
}

# split: cuts msgstore.h at its tags. The lines between two files must be those of the
# spine. The parts are joined again before any file is written. A file that is as before is
# not written. Prints the files that it writes.
split()
{
    local number file
    [ -z "$(tail -c 1 msgstore.h)" ] || fail "msgstore.h does not end with a line feed"
    rm -rf build/split && mkdir -p build/split
    LC_ALL=C awk -v spine="$spine" '
        function complain(text)
        {
            print "make header: " text >"/dev/stderr"
            bad = 1
            exit 1
        }
        # Writes the lines of file i, all but the last `n`, which the spine has.
        function cut(i, n,    k)
        {
            for (k = 1; k <= n; k++)
                if (line[n_lines - n + k] != between[i, k])
                    complain("msgstore.h:" FNR - n + k ": found \"" line[n_lines - n + k] \
                        "\", " spine " has \"" between[i, k] \
                        "\" here: edit guards and add sections in src/")
            printf "" >"build/split/" i
            for (k = 1; k <= n_lines - n; k++) print line[k] >"build/split/" i
            close("build/split/" i)
        }
        BEGIN {
            while ((getline text < spine) > 0) {
                if (text ~ /^#include "[A-Za-z0-9_\/-]*\.h"$/) {
                    name[++n_files] = "src/" substr(text, 11, length(text) - 11)
                    n_between[n_files] = 0
                } else if (n_files) between[n_files, ++n_between[n_files]] = text
                else complain(spine " begins with a guard")
            }
            for (i = 2; i <= n_files; i++) {
                getline text < name[i]
                getline text < name[i]
                close(name[i])
                if (!match(text, /^\/\* ==== \[[a-z0-9-]+\]/))
                    complain(name[i] ":2: a file begins with an empty line and its tag")
                tag[i] = substr(text, 1, RLENGTH)
            }
            at = 1
        }
        match($0, /^\/\* ==== \[[a-z0-9-]+\]/) {
            if (at == n_files || substr($0, 1, RLENGTH) != tag[at + 1])
                complain("msgstore.h:" FNR ": found \"" substr($0, 1, RLENGTH) \
                    "\", expected \"" (at < n_files ? tag[at + 1] : "the end") \
                    "\": sections are added and moved in src/")
            if (line[n_lines] != "") complain("msgstore.h:" FNR - 1 ": expected an empty line")
            n_lines--
            FNR--
            cut(at, n_between[at])
            FNR++
            at++
            line[1] = ""
            n_lines = 1
        }
        { line[++n_lines] = $0 }
        END {
            if (bad) exit 1
            if (at < n_files) complain("msgstore.h ends before " tag[at + 1])
            FNR++
            cut(n_files, n_between[n_files])
            for (i = 1; i <= n_files; i++) print i, name[i]
        }' msgstore.h >build/split/names || exit 1
    while read -r number file; do
        mkdir -p "build/split/tree/${file%/*}"
        cp "build/split/$number" "build/split/tree/$file"
    done <build/split/names
    cp "$spine" build/split/tree/src/
    (cd build/split/tree && join) | cmp -s - msgstore.h ||
        fail "the parts of msgstore.h do not join to it again; nothing is written"
    while read -r number file; do
        cmp -s "build/split/$number" "$file" && continue
        cp "build/split/$number" "$file"
        echo "$file"
    done <build/split/names
}

case ${1:-} in
--files)
    files
    exit
    ;;
'' | --check | --from) ;;
*) fail "unknown option '$1'" ;;
esac

mkdir -p build || exit 1
[ -f "$spine" ] || fail "there is no $spine"
sound
join >build/join.new || exit 1
if cmp -s build/join.new msgstore.h; then
    mv build/join.new "$last"
    exit 0
fi

# committed: writes the last commit's msgstore.h to build/join.head, if that commit has equal
# sides: else it does not show which side was edited since.
committed()
{
    rm -rf build/head && mkdir -p build/head
    git archive HEAD src msgstore.h 2>/dev/null | tar -x -C build/head 2>/dev/null &&
        (cd build/head && join) >build/join.head 2>/dev/null &&
        cmp -s build/join.head build/head/msgstore.h
}

# edited BASE: prints src or msgstore.h, the side that differs from that file.
edited()
{
    if cmp -s "$1" msgstore.h; then echo src
    elif cmp -s "$1" build/join.new; then echo msgstore.h; fi
}

side=${2:-}
if [ "${1:-}" != --from ]; then
    side=
    if [ -f "$last" ]; then side=$(edited "$last"); fi
    if [ -z "$side" ] && committed; then side=$(edited build/join.head); fi
fi
if [ "${1:-}" = --check ]; then
    echo "make header: msgstore.h and src/ differ${side:+; edited was $side}:" >&2
    diff build/join.new msgstore.h | sed -n '1,6p' >&2
    if [ -n "$side" ]; then echo "Run: make header" >&2
    else echo "Run make header with the side that counts: FROM=src or FROM=msgstore.h" >&2; fi
    exit 1
fi
case $side in
src)
    cp build/join.new msgstore.h
    echo "msgstore.h is written from src/"
    ;;
msgstore.h)
    split || exit 1
    ;;
*)
    echo "make header: both edited, or the last commit has sides that differ; nothing is" >&2
    echo "written." >&2
    echo "First lines that differ (< src, > msgstore.h):" >&2
    diff build/join.new msgstore.h | sed -n '1,8p' >&2
    echo "Undo one of them, or name the side that counts; the other one is lost:" >&2
    echo "    make header FROM=src        or    make header FROM=msgstore.h" >&2
    exit 1
    ;;
esac
cp msgstore.h "$last"
