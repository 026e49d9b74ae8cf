#!/usr/bin/env bash
# Writes what follows from the tables of bindings/msgstore_ffi.h:
#
#   docs/flat.md                        each function, with its arguments and its result
#   bindings/python/msgstore/words.py   the words that arguments take, as types
#   bindings/js/msgstore.d.ts           the same, between its two marks
#
#   tools/flat.sh             writes them
#   tools/flat.sh --check     writes nothing; names those that differ, and ends with 1
#
# MS_FLAT=folder: they are in another tree.
set -u
cd "$(dirname "$0")/.." || exit 1
out=build/flat
root=${MS_FLAT:-.}
mkdir -p "$out"
table=$out/table
fresh=1
for file in msgstore.h bindings/msgstore_ffi.h tests/support/flat.c; do
    [ "$table" -nt "$file" ] || fresh=
done
if [ -z "$fresh" ]; then
    stb=$(STB_INC="${STB_INC:-}" sh tools/setup.sh stb)
    # shellcheck disable=SC2086
    ${CC:-cc} -std=c99 -O0 -w -I. $stb -pthread -o "$out/flat" tests/support/flat.c || exit 1
    "$out/flat" >"$table.new" && mv "$table.new" "$table" || exit 1
fi

# words SET SEPARATOR INDENT USED LEAD: the words of a set, quoted, in lines. USED: columns
# of the first line that are taken; LEAD: a line begins with "| ".
words()
{
    awk -F '\t' -v set="$1" -v separator="$2" -v indent="$3" -v used="$4" -v lead="$5" '
        $1 == "words" && $2 == set {
            n = split($3, word, " ")
            for (i = 1; i <= n; i++) {
                item = "\"" word[i] "\""
                if (i > 1 && used + length(separator) + length(item) > 86) {
                    printf "%s\n%s%s", (lead ? "" : ","), indent, item_lead(item)
                    used = length(indent) + length(item) + 2
                } else {
                    printf "%s%s", (i > 1 ? separator : ""), item
                    used += length(separator) + length(item)
                }
            }
        }
        function item_lead(item) { return lead ? "| " item : item }' "$out/table"
}

python_words()
{
    cat <<'END'
"""The words that arguments take, for type checkers. The library checks them, too.

Written by tools/flat.sh from bindings/msgstore_ffi.h.
"""

from typing import Literal

END
    local set name
    while read -r set name; do
        printf '%s = Literal[' "$name"
        words "$set" ', ' "$(printf '%*s' $((${#name} + 11)) '')" $((${#name} + 11)) ''
        echo ']'
    done <<'END'
mode Mode
sync Sync
views View
formats Format
providers Provider
cache Cache
thinking Thinking
END
}

typescript_words()
{
    local set name
    while read -r set name; do
        printf 'export type %s = ' "$name"
        words "$set" ' | ' '  ' $((${#name} + 15)) 1
        echo ';'
    done <<'END'
formats Format
providers Provider
views View
END
}

typescript()
{
    typescript_words >"$out/words.ts"
    awk -v words="$out/words.ts" '
        /^\/\* Written by tools\/flat.sh/ {
            print
            while ((getline line <words) > 0) print line
            skip = 1
        }
        /^\/\* End of what is written/ { skip = 0 }
        !skip' "$root/bindings/js/msgstore.d.ts"
}

# The text about each function in the comment of [api-ffi].
texts()
{
    awk '
        /^\/\* Calls a function by its name/ { on = 1; next }
        !on { next }
        /^ \*   [a-z_]+ / {
            sub(/^ \*   /, "")
            name = $1
            sub(/^[a-z_]+ +/, "")
            print "text\t" name "\t" $0
            next
        }
        /^ \*\// { exit }
        name { sub(/^ \* +/, ""); print "text\t" name "\t" $0 }' bindings/msgstore_ffi.h
}

page()
{
    cat <<'END'
# The flat interface

`ms_ffi_open(&store, args, ...)` and `ms_ffi_call(store, name, args, body, ...)` of
[msgstore_ffi.h](../bindings/msgstore_ffi.h), for languages that call C: arguments and results are JSON. The text of a
function names what it returns after the arrow. This page is written by `tools/flat.sh` from the tables of that file.

END
    texts | cat - "$out/table" | awk -F '\t' '
        $1 == "text" { text[$2] = text[$2] (text[$2] ? " " : "") $3; next }
        $1 == "function" {
            printf "%s## %s\n\n", (n++ ? "\n" : ""), $2
            about = text[$2]
            gsub(/\*/, "", about)
            gsub(/ -> /, " → ", about)
            if (about) print about
            rows = 0
            next
        }
        $1 == "argument" {
            if (!rows++) print (about ? "\n" : "") "| argument | value |\n|---|---|"
            value = $4
            if ($5 == "formats") value = "a [format](#words)"
            else if ($5 == "providers") value = "a [provider](#words)"
            else if ($5 != "-") value = $4 ": `" $5 "`"
            print "| `" $2 "`" ($3 == "required" ? " (required)" : "") " | " value " |"
            next
        }
        $1 == "words" && ($2 == "formats" || $2 == "providers") {
            if (!ended++) print "\n## Words\n"
            print "- " $2 ": `" $3 "`"
        }'
}

failed=0
# put FILE: the standard input becomes the file, or is compared with it.
put()
{
    cat >"$out/new"
    cmp -s "$out/new" "$root/$1" && return
    if [ "$check" ]; then
        echo "$1 differs from the tables of bindings/msgstore_ffi.h: bash tools/flat.sh"
        failed=1
    else
        cp "$out/new" "$root/$1"
        echo "$1 is written"
    fi
}
check=
[ "${1:-}" != --check ] || check=1
page | put docs/flat.md
python_words | put bindings/python/msgstore/words.py
typescript | put bindings/js/msgstore.d.ts
exit "$failed"
