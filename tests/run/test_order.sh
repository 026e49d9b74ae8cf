#!/usr/bin/env bash
# Checks how msgstore.h is ordered: that a section uses only names of the sections above
# it, that the store part and the formats part share no private name, that each struct of
# a log's handle is written by its own section, and that CONTENTS lists the sections.
# tests/run/order.awk and tests/run/state.awk read the header; a compiler takes the
# formats part.
#
#   MS_HEADER=file   checks another header
#
# A section has at most 1,500 lines. The header has no bound: what earns its lines stays.
#
# The files beside the header, on its interface alone (bindings/msgstore_ffi.h,
# backends/msgstore_postgres.h), use no private name of it, and list their own sections.
#
# Then the checks run on small headers with one fault each, and must find that fault.
#
# Prints "ok NAME" or "FAIL NAME: reason" for each check, and the size as "tally: WHAT N".
set -u
cd "$(dirname "$0")/../.." || exit 1
header=${MS_HEADER:-msgstore.h}
out=build/order${MS_HEADER:+_of_another}
rm -rf "$out"
mkdir -p "$out"
if [ ! -s "$header" ]; then
    echo "FAIL header: there is no $header"
    exit 1
fi

# A function that is used but not defined is an error with these flags.
compiler="${CC:-cc} -std=c99 -Wall -Wextra -Werror -Wno-unused -Wno-misleading-indentation"
compiler="$compiler -DMSGSTORE_IMPLEMENTATION $(sh tools/setup.sh stb) -fsyntax-only -x c -"

# check HEADER DIR: all checks of a header. Files go to the folder.
check()
{
    local alone=formats_part_compiles_alone
    mkdir -p "$2"
    awk -v name="${1##*/}" -v max_lines=1500 -v alone="$2/alone.h" \
        -f tests/run/order.awk "$1" ||
        echo "FAIL order.awk: it ended with status $?"
    awk -v name="${1##*/}" -f tests/run/state.awk "$1"
    if { echo "#line 1 \"${1##*/}\"" && cat "$2/alone.h"; } | $compiler >"$2/log" 2>&1
    then echo "ok $alone"
    else echo "FAIL $alone: $(grep -m 1 error "$2/log")"; fi
    echo "tally: lines of ${1##*/} $(wc -l <"$1")"
    echo "tally: bytes of ${1##*/} $(wc -c <"$1")"
}

check "$header" "$out/header" | tee "$out/result"
failed=0
if grep -q '^FAIL ' "$out/result"; then failed=1; fi
if [ -n "${MS_HEADER:-}" ]; then exit $failed; fi

# beside FILE PREFIX: checks a file beside the header. Its own private names begin with
# the prefix. Those of the header, ms__ and MS__, may not even stand in comments.
beside()
{
    local name=${1##*/} foreign listed begun
    foreign=$(grep -nowE '(ms|MS)__[A-Za-z0-9_]+' "$1" | grep -viE ":$2(_|\$)" |
        head -n 1)
    if [ -z "$foreign" ]; then echo "ok ${name}_uses_the_interface_alone"
    else echo "FAIL ${name}_uses_the_interface_alone: $name:$foreign is private"; fi
    listed=$(sed -n '/^ \* ---- CONTENTS/,/^ \*\//p' "$1" | grep -o '\[[a-z-]*\]' | xargs)
    begun=$(sed -n 's|^/\* ==== \(\[[a-z-]*\]\).*|\1|p' "$1" | xargs)
    if [ -n "$begun" ] && [ "$listed" = "$begun" ]
    then echo "ok ${name}_lists_its_sections"
    else echo "FAIL ${name}_lists_its_sections: $listed, but $begun begin"; fi
}

# Outside of the rows of [wire] and [answer-events] nothing asks which provider or wire it
# serves. rows_decide FILE ...: counts the places that do.
rows_decide()
{
    local asks
    asks=$(grep -nE 'wire *[!=]=|switch *\(.*wire\)|MS_WIRE_[A-Z]|profile->name *[!=]=|"(openai|anthropic|gemini|ollama|chat-strict)"' "$@" |
        grep -vE 'src/agent/(wire|answer-events)\.h:')
    if [ -z "$asks" ]; then echo "ok no_provider_is_compared_outside_its_row"
    else echo "FAIL no_provider_is_compared_outside_its_row: $asks"; fi
}

{
    rows_decide src/agent/*.h
    echo 'if (p->profile->wire == MS_WIRE_CHAT) return;' >"$out/compared.h"
    if rows_decide "$out/compared.h" | grep -q '^FAIL'
    then echo "ok a_compared_provider_is_found"
    else echo "FAIL a_compared_provider_is_found"; fi
    beside bindings/msgstore_ffi.h ms_ffi_
    beside backends/msgstore_postgres.h ms__pg
} | tee "$out/beside"
if grep -q '^FAIL ' "$out/beside"; then failed=1; fi

# stranger NAME CHECK CODE: a copy of a file beside the header with a line more must fail.
stranger()
{
    local found
    { cat backends/msgstore_postgres.h && echo "$3"; } >"$out/$1.h"
    found=$(beside "$out/$1.h" ms__pg | sed -n 's/^FAIL \([^:]*\):.*/\1/p')
    if [ "$found" = "$1.h_$2" ]; then echo "ok self_$1"
    else echo "FAIL self_$1: $2 did not fail alone" && failed=1; fi
}

stranger private_name_beside uses_the_interface_alone 'static int n = ms__fail(NULL);'
stranger private_macro_beside uses_the_interface_alone '#define X(call) MS__TRY(call)'
stranger section_beside lists_its_sections '/* ==== [pg-more] === */'


# ---- Labels. Each label of an invariant, such as (LS3) of [log-sync], is defined once in
# the repository, and a cited one is defined somewhere.

labelled=$(git ls-files 'src/*.h' 'backends/*.h' 'bindings/*.h' 'tools/*.[ch]' 'tests/*.[ch]' \
    'tests/*.sh' 'tests/*.pml' 'tests/*.md' '*.md' 2>/dev/null | grep -vE '^CHANGELOG|/sdk/')
# shellcheck disable=SC2086
[ -z "$labelled" ] || awk -f tests/run/labels.awk $labelled || failed=1
if printf ' * (LS1) one.\n * (LS1) two, see (LS2).\n' | awk -f tests/run/labels.awk | \
    grep -c '^FAIL ' | grep -qx 2
then echo "ok labels_defined_twice_or_not_at_all_are_found"
else
    echo "FAIL labels_defined_twice_or_not_at_all_are_found: they are not"
    failed=1
fi

# ---- Do the checks find what they look for? A small header passes them all. Copies of it
# have one fault each. Code within ELSEWHERE is for other systems, so compilers skip it.

cat >"$out/good.h" <<'END'
/* good.h - a header for tests/run/test_order.sh
 *
 * ---- CONTENTS (search for the tag) ----
 *
 *   interface       [api-types]
 *                   [api-store]
 *   foundation      [bits] [str]
 *   store part      [mem] [log]
 *   formats part    [fmt]
 *                   [task]
 *
 * Only [task] calls [mem], through the interface. The name ms__last is of [task].
 *
 * ---- MORE ----
 */
#ifndef GOOD_H
#define GOOD_H
/* ==== [api-types] types === */
#include <stddef.h>
typedef struct ms_store ms_store;
#define MS_API extern
/* more of [api-types] */
/* ==== [api-store] calls === */
MS_API int ms_bits(int n);
MS_API int ms_count(const ms_store *store);
MS_API int ms_made(int n);
MS_API int ms_write(int n);
static inline int ms_inline(int n) { return ms_write(n) + ms_bits(n); }
#endif
#ifdef MSGSTORE_IMPLEMENTATION
/* ==== [bits] === uses ms__last only in comments */
#define MS__TWICE(n) ((n) + (n))
static const char ms__text[] = "ms__last() is \"no\" use /*", ms__quote = '"'; // ms__last()
MS_API int ms_bits(int n) { return ms__text[0] + ms__quote + n; }
/* more of [bits] */
/* ==== [str] === */
#define MS__MAKE(name, value) MS_API int name(int n) { return n + (value); }
MS__MAKE(ms_made, 2)
typedef struct ms__pair { int a, b; } ms__pair;
#ifdef ELSEWHERE
static int ms__str(ms__pair *p) {
#else
static int ms__str(ms__pair *p)
{
#endif
    return MS__TWICE(p->b);
}
/* more of [str] */
/* ==== [mem] === */
#ifndef MSGSTORE_NO_STORE
struct ms_store { int kind; };
static int ms__mem(void) { return 1; }
MS_API int ms_count(const ms_store *store)
{
    ms__pair p = {0, 0};
    return store->kind + ms__mem() + ms__str(&p);
}
/* more of [mem] */
/* ==== [log] === */
/* more of [log] */
#endif
/* ==== [fmt] === */
static int ms__fmt(int n) { return n + ms_bits(n); }
MS_API int ms_write(int n) { return ms__fmt(n); }
/* more of [fmt] */
/* ==== [task] === */
#define MS__LAST 1
struct ms__last_type { int n; };
static const struct {
    int n;
} ms__last_rows[] = {{1}};
static int ms__last_object[2];
static int (*ms__last_pointer)(void) = NULL;
static __attribute__((unused)) int ms__last(const ms_store *store,
                                            int n)
{
    return ms_count(store) + ms__fmt(n) + ms__last_rows[0].n;
}
/* more of [task] */
#endif
END

# verdict NAME CHECKS PATTERN: checks the header $out/NAME.h. These checks must fail, and
# no others. The output must match the pattern.
verdict()
{
    local found
    check "$out/$1.h" "$out/$1" >"$out/$1.result"
    found=$(sed -n 's/^FAIL \([^:]*\):.*/\1/p' "$out/$1.result" | sort -u | xargs)
    if [ "$found" = "$2" ] && grep -Eq -- "$3" "$out/$1.result"; then
        echo "ok self_$1"
        return
    fi
    failed=1
    echo "FAIL self_$1: $found failed, not $2, or no line: $3; see $out/$1.result"
}

# fault NAME CHECKS PATTERN [TAG CODE]...: the same for the good header with lines of code at
# the ends of sections. A tag with "!" puts them within ELSEWHERE.
fault()
{
    local file=$out/$1.h name=$1 checks=$2 pattern=$3 code
    shift 3
    cp "$out/good.h" "$file"
    while [ $# -gt 0 ]; do
        code=$2
        [ "${1%!}" = "$1" ] || code="#ifdef ELSEWHERE
$code
#endif"
        code=$code awk -v end="/* more of [${1%!}] */" '$0 == end { print ENVIRON["code"] }
            { print }' "$file" >"$file.new"
        mv "$file.new" "$file"
        shift 2
    done
    verdict "$name" "$checks" "$pattern"
}

# edited NAME EDIT CHECKS PATTERN: the same for the good header edited by sed.
edited()
{
    sed -e "$2" "$out/good.h" >"$out/$1.h"
    verdict "$1" "$3" "$4"
}

understood=the_header_is_understood
upward=no_section_calls_upward
crosses=no_name_crosses_between_store_and_formats
contents=contents_names_every_section
verdict good '' "ok $contents \(8 sections"

# Three writes, of which the second and the third are by a stranger.
fault state_of_another state_is_written_by_its_section '\[log\] writes room.at, which' \
    mem '/* [mem] What there is. */
typedef struct ms__room { int n, at, *p; } ms__room;
typedef struct ms__log {
    ms__room room;
} ms__log;
static void ms__record_by_seq(ms__log *log) { log->room.n = log->room.at == 1; }' \
    log 'static void ms__late(ms__log *log) { log->room.n += log->room.at; }' \
    log 'static void ms__atomic(ms__log *log) { ms__record_by_seq(log); --log->room.at; }'

# Every kind of name, used in the first section and defined in the last one.
for name in ms__last MS__LAST 'struct ms__last_type' ms__last_object ms__last_pointer \
    ms__last_rows; do
    fault "use_of_${name#* }" $upward "$name is used in \[bits\].*defined in \[task\]" \
        'bits!' "static int ms__early = sizeof($name);"
done
n=0
for use in 'static int ms__early(ms_store *s) { return ms_count(s); }' \
    'static int ms__early(ms_store *s) { return ms_made(1); }' '#define MS__EARLY ms__str(1)' \
    'static int ms__str(ms__pair *p);' $'#define MS__EARLY(n) \\\n    ms__str(n)' \
    $'#if MS__LAST > 2\n#endif'; do
    n=$((n + 1))
    fault "use_$n" $upward 'is used in \[bits\]' 'bits!' "$use"
done
fault one_of_two_definitions_below $upward 'ms__two is used in \[str\]' \
    bits 'static int ms__two(void) { return 1; }' \
    str 'static int ms__early(void) { return ms__two(); }' \
    'mem!' 'static int ms__two(void) { return 2; }'
fault private_name_of_stores "formats_part_compiles_alone $crosses" \
    'ms__mem is used in \[task\] of the formats part' \
    task 'static int ms__cross(void) { return ms__mem(); }'
fault private_name_of_stores_elsewhere $crosses 'struct ms_store is used in \[fmt\]' \
    'fmt!' 'static struct ms_store ms__cross = {1};'
fault public_call_of_stores $crosses 'ms_count is used in \[fmt\]' \
    fmt 'static int ms__cross(const ms_store *store) { return ms_count(store); }'
fault member_of_a_store formats_part_compiles_alone 'alone: .*h:[0-9]+:' \
    fmt 'static int ms__cross(const ms_store *store) { return (int)store->kind; }'
fault store_calls_a_format "$crosses $upward" 'used in \[mem\] of the store part' \
    mem 'static int ms__cross(void) { return ms_write(1); }'
edited contents_without_parts 's/store part/stores    /' $crosses 'CONTENTS lists no'


# With the other lines of [log] these are 1500, and 1501.
fault lines_at_the_limit '' . log "$(printf '\n%.0s' {1..1496}; echo .)"
fault lines_over_the_limit sections_have_at_most_1500_lines '\[log\] has 1501 lines' \
    log "$(printf '\n%.0s' {1..1497}; echo .)"
edited tag_misspelled '/==== \[log\]/s/log/lgo/' $contents \
    'is \[lgo\], CONTENTS lists \[log\]'
edited tag_twice '/==== \[log\]/s/log/mem/' $contents '\[mem\] begins a second time'
edited tag_not_listed 's/ \[log\]$//' $contents 'is \[log\], CONTENTS lists \[fmt\]'
edited tag_without_section 's/^\( \*  *\[task\]\)$/\1 [more]/' $contents \
    'is \[\], CONTENTS lists \[more\]'
edited function_in_two_sections '/==== \[log\]/d
/ms__pair p = /a\
/* ==== [log] === */' $understood 'the section ends within a definition'
fault name_without_definition $understood 'found: ms__never' \
    'bits!' 'static int ms__lost(void) { return ms__never(); }'
fault function_without_definition $understood 'found: ms_never' \
    api-types 'MS_API int ms_never(int n);'
exit $failed
