#!/usr/bin/env bash
# Writes what follows from bindings/flat.table, which has the signature of each C function of
# the flat interface, and from the tables of bindings/msgstore_ffi.h, which have the
# arguments of each function that is called by its name:
#
#   docs/flat.md                        both, with the result of each function
#   bindings/python/msgstore/words.py   the words that arguments take, as types
#   bindings/python/msgstore/_flat.py   the C functions for ctypes; the names of arguments
#   bindings/js/msgstore.d.ts           the words, between its two marks
#   bindings/js/flat.d.ts               the exports of msgstore.wasm; arguments, with types
#   bindings/rust/msgstore-sys/src/lib.rs    the C functions, between two marks
#   tests/platform/compile/ffi_prototypes.h  the C functions
#
#   tools/flat.sh             writes them
#   tools/flat.sh --check     writes nothing; names those that differ, and ends with 1
#   tools/flat.sh --exports   prints the names of the C functions
#
# The first two also compare the table with the headers: each ms_ffi_ function is in it, with
# the types that a compiler sees.
#
# MS_FLAT=folder: the files are in another tree, with bindings/flat.table and
# bindings/msgstore_ffi.h.
set -u
cd "$(dirname "$0")/.." || exit 1
out=build/flat
root=${MS_FLAT:-.}
mkdir -p "$out"

# The rows of flat.table in columns: name, result, what it does, each argument as NAME:TYPE.
functions()
{
    awk -F ' [|] ' '!/^#/ && NF {
        n = split($1, part, " ")
        printf "%s\t%s\t%s", part[1], part[2], $2
        for (i = 3; i <= n; i++) printf "\t%s", part[i]
        print ""
    }' "$root/bindings/flat.table"
}
if [ "${1:-}" = --exports ]; then
    functions | cut -f 1
    exit
fi

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

# declarations LANGUAGE: of the C functions, in lines of at most 88 columns.
declarations()
{
    functions | awk -F '\t' -v language="$1" '
        function types(of, list,    i, n, part) {
            n = split(list, part, "|")
            for (i = 1; i <= n; i++) type[of, kind[i]] = part[i]
        }
        # Prints HEAD and the items, wrapped under the first one.
        function wrapped(head, n, tail,    i, used, text) {
            printf "%s", head
            used = length(head)
            for (i = 1; i <= n; i++) {
                text = item[i] (i < n ? "," : tail)
                if (i > 1 && used + 1 + length(text) > 88) {
                    printf "\n%*s", length(head), ""
                    used = length(head)
                } else if (i > 1) {
                    printf " "
                    used++
                }
                printf "%s", text
                used += length(text)
            }
            print ""
        }
        BEGIN {
            split("code none store to-store stores text size out to-out to-size", kind, " ")
            types("c", "int |void |ms_store *|ms_store **|ms_store *const *|const char *|" \
                "size_t |char *|char **|size_t *")
            types("python", "ctypes.c_int|None|STORE|OUT|OUT|ctypes.c_char_p|" \
                "ctypes.c_size_t|ctypes.c_void_p|OUT|SIZE")
            types("rust", "c_int||*mut ms_store|*mut *mut ms_store|*const *mut ms_store|" \
                "*const c_char|usize|*mut c_char|*mut *mut c_char|*mut usize")
            types("typescript", "number|void|number|number|number|number|number|number|" \
                "number|number")
        }
        {
            for (i = 1; i <= NF - 3; i++) {
                split($(i + 3), part, ":")
                if (!((language, part[2]) in type)) {
                    print "flat.table: there is no type " part[2] | "cat >&2"
                    exit 1
                }
                item[i] = type[language, part[2]]
                if (language == "c") item[i] = item[i] part[1]
                else if (language != "python") item[i] = part[1] ": " item[i]
            }
            result = type[language, $2]
            if (language == "c") {
                wrapped("MS_API " result $1 "(", NF - 3, ");")
            } else if (language == "python") {
                wrapped("    \"" $1 "\": (" result ", [", NF - 3, "]),")
            } else if (language == "rust") {
                print "    /// " $3
                wrapped("    pub fn " $1 "(", NF - 3, ")" (result ? " -> " result : "") ";")
            } else {
                print "  /** " $3 " */"
                wrapped("  " $1 "(", NF - 3, "): " result ";")
            }
        }'
}

prototypes()
{
    cat <<'END'
/* The C functions of the flat interface again, for a compiler to compare with the headers.
 * Written by tools/flat.sh from bindings/flat.table. */
END
    declarations c
}

# between BEGIN END LINES FILE: FILE with LINES between the lines with the two marks.
between()
{
    awk -v begin="$1" -v end="$2" -v lines="$3" '
        index($0, end) { skip = 0 }
        !skip
        index($0, begin) {
            while ((getline line <lines) > 0) print line
            skip = 1
        }' "$root/$4"
}

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

python_flat()
{
    cat <<'END'
"""The C functions of the flat interface for ctypes, each with its result and its arguments;
and the arguments of the functions that are called by their names.

Written by tools/flat.sh from bindings/flat.table and bindings/msgstore_ffi.h.
"""

import ctypes
from typing import Any, Dict, List, Tuple

STORE = ctypes.c_void_p
OUT = ctypes.POINTER(ctypes.c_void_p)
SIZE = ctypes.POINTER(ctypes.c_size_t)

FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {
END
    declarations python
    printf '}\n\nARGUMENTS: Dict[str, Tuple[str, ...]] = {\n'
    awk -F '\t' '
        function end() { if (name) print line "),"; name = "" }
        $1 == "function" { end(); name = $2; line = "    \"" name "\": ("; n = 0; next }
        $1 == "argument" {
            item = "\"" $2 "\","
            if (length(line) + length(item) > 86) { print line; line = "        " item }
            else line = line (n ? " " : "") item
            n++
        }
        $1 == "words" { end() }' "$out/table"
    echo '}'
}

rust()
{
    declarations rust >"$out/functions.rs"
    between 'Written by tools/flat.sh' 'End of what is written' "$out/functions.rs" \
        bindings/rust/msgstore-sys/src/lib.rs
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
    between '/* Written by tools/flat.sh' '/* End of what is written' "$out/words.ts" \
        bindings/js/msgstore.d.ts
}

typescript_flat()
{
    cat <<'END'
/* The flat interface: what msgstore.wasm exports, and the arguments of each function that is
 * called by its name. Programs need none of it; test/types.ts compares it with the other
 * declarations. Written by tools/flat.sh from bindings/flat.table and
 * bindings/msgstore_ffi.h. */

import type { Format, Provider } from "./msgstore.js";

/** Pointers and sizes are numbers. */
export interface WasmExports {
  memory: WebAssembly.Memory;
  malloc(size: number): number;
  free(at: number): void;
END
    declarations typescript
    printf '}\n\nexport interface Arguments {\n'
    awk -F '\t' '
        function union(words,    n, part, i, text) {
            n = split(words, part, " ")
            for (i = 1; i <= n; i++) text = text (i > 1 ? " | " : "") "\"" part[i] "\""
            return text
        }
        BEGIN {
            type["a string"] = type["a path"] = type["sent of a report"] = "string"
            type["a message type"] = "string"
            type["a list of strings"] = type["a list of message types"] = "string[]"
            type["a whole number"] = type["a whole number from 0 on"] = "number"
            type["a number of seconds"] = "number"
            type["true or false"] = "boolean"
            type["JSON"] = "unknown"
            type["formats"] = "Format"
            type["providers"] = "Provider"
        }
        function typed(what, words) {
            if (words in type) return type[words]
            if (what in type) return type[what]
            if (what == "one of these words") return union(words)
            if (what == "a list of these words") return "(" union(words) ")[]"
            if (what == "true, false or one of these words") return "boolean | " union(words)
            print "flat.sh knows no type for: " what | "cat >&2"
            return "never"
        }
        $1 == "function" { if (n++) print "  };"; print "  " $2 ": {" }
        $1 == "argument" { print "    " $2 ($3 == "required" ? "" : "?") ": " typed($4, $5) ";" }
        END { print "  };" }' "$out/table"
    echo '}'
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

The functions of [msgstore_ffi.h](../bindings/msgstore_ffi.h), for languages that call C: arguments and results are JSON.
This page is written by `tools/flat.sh` from the tables of that file and from [flat.table](../bindings/flat.table).

```c
END
    declarations c | sed 's/^MS_API //; s/^ \{7\}//'
    cat <<'END'
```

`ms_ffi_open` takes the arguments of [open](#open), `ms_ffi_call` the name of another function below and its arguments;
its text names the members of the result after the arrow. `ms_ffi_union` opens several stores as one, for reading:
message n of stores[k] has the number k * 2^40 + n. They must outlive it.

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
        echo "$1 differs from the tables of the flat interface: bash tools/flat.sh"
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
python_flat | put bindings/python/msgstore/_flat.py
typescript | put bindings/js/msgstore.d.ts
typescript_flat | put bindings/js/flat.d.ts
rust | put bindings/rust/msgstore-sys/src/lib.rs
prototypes | put tests/platform/compile/ffi_prototypes.h

# The headers have the functions of the table, with its types, and no others.
header=$(cd "$root" && pwd)/bindings/msgstore_ffi.h
functions | cut -f 1 | sort >"$out/listed"
odd=$(sed -n 's/^MS_API .*\(ms_ffi_[a-z]*\)(.*/\1/p' "$header" | sort -u |
    comm -3 - "$out/listed" | tr -d '\t' | grep -vx ms_close)
if [ "$odd" ]; then
    echo "either bindings/msgstore_ffi.h or bindings/flat.table lacks: $odd"
    failed=1
fi
prototypes >"$out/prototypes.h"
if ! printf '#include "%s"\n' msgstore.h "$header" "$PWD/$out/prototypes.h" |
    ${CC:-cc} -std=c99 -fsyntax-only -I. -x c - 2>"$out/errors"; then
    echo "bindings/flat.table has other types than the headers:" \
        "$(grep -m 1 -o 'error: .*' "$out/errors")"
    failed=1
fi
exit "$failed"
