#!/usr/bin/env bash
# Checks how msgstore.h is ordered: that a section uses only names of the sections above
# it, that the store part and the formats part share no private name, that each struct of a
# log's handle is written by its own section, and that CONTENTS lists the sections.
# tests/order.awk and tests/state.awk read the header, a compiler checks its prefixes.
#
#   MS_HEADER=file   checks another header
#   MAX_BYTES=n      the most bytes that the header may have; 0: any number
#
# Then the checks run on small headers with one fault each, and must find that fault.
#
# Prints "ok NAME" or "FAIL NAME: reason" for each check, and the size as "tally: WHAT N".
set -u
cd "$(dirname "$0")/.." || exit 1
header=${MS_HEADER:-msgstore.h}
out=build/order${MS_HEADER:+_of_another}
max_lines=1500
# From version 0.2.0 on this is 1000000: code hosts and editors do not show larger files.
# Until then there is no limit.
max_bytes=${MAX_BYTES:-0}

rm -rf "$out"
mkdir -p "$out"
if [ ! -s "$header" ]; then
    echo "FAIL header: there is no $header"
    exit 1
fi

# gcc spends most of its time on the one warning that is off; test_compile.sh has it on.
# A function that is used but not defined is an error with these flags. One that is only
# declared is not, but no_section_calls_upward finds it.
compiler="${CC:-cc} -std=c99 -Wall -Wextra -Werror -Wno-unused"
compiler="$compiler -Wno-misleading-indentation -DMSGSTORE_IMPLEMENTATION"
compiler="$compiler $(sh tools/setup.sh stb) -fsyntax-only -x c -"

# compiles LOG: compiles standard input. The log gets the first error, if there is one.
compiles()
{
    if $compiler >"$1.all" 2>&1; then return 0; fi
    grep -m 1 error "$1.all" >"$1" || tail -n 1 "$1.all" >"$1"
    return 1
}

# prefix HEADER DIR TAG LINE DEPTH: compiles all up to LINE, where DEPTH #if are open.
prefix()
{
    {
        echo "#line 1 \"${1##*/}\""
        head -n "$4" "$1"
        for ((i = 0; i < $5; i++)); do echo '#endif'; done
    } | compiles "$2/$3.log" || echo "$3" >>"$2/failed"
}
export compiler
export -f compiles prefix

every_prefix_compiles()
{
    local n
    n=$(wc -l <"$2/ends")
    if [ "$n" -eq 0 ]; then
        echo "FAIL every_prefix_compiles: no section of the implementation"
        return
    fi
    # A quick look, as in `make check`, takes every fourth of many.
    if [ "$n" -gt 12 ] && [ "${MS_TEST_SCALE:-100}" -lt 100 ]; then
        awk 'NR % 4 == 0' "$2/ends" >"$2/few" && mv "$2/few" "$2/ends"
        n=$(wc -l <"$2/ends")
    fi
    xargs -P "${MS_TEST_JOBS:-2}" -L 1 bash -c 'prefix "$@"' _ "$1" "$2" <"$2/ends"
    if [ ! -f "$2/failed" ]; then
        echo "ok every_prefix_compiles ($n sections)"
        return
    fi
    # Each error once, with the first section where it is found.
    awk 'NR == FNR { failed[$1]; next } $1 in failed { print $1 }' "$2/failed" "$2/ends" |
        while read -r tag; do echo "[$tag] and all above it: $(cat "$2/$tag.log")"; done |
        awk '{ error = $0; sub(/^[^:]*: /, "", error) }
            !seen[error]++ { print "FAIL every_prefix_compiles: " $0 }' | head -n 5
}

formats_part_compiles_alone()
{
    if [ ! -s "$2/alone.h" ]; then
        echo "FAIL formats_part_compiles_alone: there is no formats part"
    elif { echo "#line 1 \"${1##*/}\""; cat "$2/alone.h"; } | compiles "$2/alone.log"
    then echo "ok formats_part_compiles_alone"
    else echo "FAIL formats_part_compiles_alone: $(cat "$2/alone.log")"; fi
}

size()
{
    local bytes
    bytes=$(wc -c <"$1")
    echo "tally: lines of ${1##*/} $(wc -l <"$1")"
    echo "tally: bytes of ${1##*/} $bytes"
    [ "$max_bytes" -gt 0 ] || return 0
    if [ "$bytes" -le "$max_bytes" ]
    then echo "ok the_header_has_at_most_${max_bytes}_bytes ($bytes)"
    else echo "FAIL the_header_has_at_most_${max_bytes}_bytes: it has $bytes"; fi
}

# check HEADER DIR: all checks of a header. Files go to the folder.
check()
{
    mkdir -p "$2"
    : >"$2/ends"
    awk -v name="${1##*/}" -v max_lines=$max_lines -v ends="$2/ends" \
        -v alone="$2/alone.h" -f tests/order.awk "$1" ||
        echo "FAIL order.awk: it ended with status $?"
    awk -v name="${1##*/}" -f tests/state.awk "$1"
    every_prefix_compiles "$1" "$2"
    formats_part_compiles_alone "$1" "$2"
    size "$1"
}

check "$header" "$out/header" | tee "$out/result"
failed=0
if grep -q '^FAIL ' "$out/result"; then failed=1; fi
if [ -n "${MS_HEADER:-}" ]; then exit $failed; fi


# ---- Do the checks find what they look for? A small header passes them all. Copies of it
# have one fault each. Code within ELSEWHERE is for other systems, so compilers skip it.

cat >"$out/good.h" <<'END'
/* good.h - a header for tests/test_order.sh
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
typedef struct ms_memory { const struct ms_query *query; int (*next)(void); } ms_memory;
#define MS_API extern
/* more of [api-types] */
/* ==== [api-store] calls === */
typedef struct ms_query { ms_store *store; } ms_query;
#define MS_RESULTS(X) X(OK, "ok, fine") X(E_FULL, "full (of ms__last)")
#define MS__X(name, text) MS_##name,
enum { MS_RESULTS(MS__X) MS_RESULT_COUNT };
#undef MS__X
MS_API int ms_bits(int n);
MS_API int ms_count(const ms_store *store);
MS_API int ms_made(int n);
MS_API int ms_log(ms_store *store);
MS_API int ms_write(int n);
static inline int ms_inline(int n) { return ms_write(n) + ms_bits(n); }
#endif
#ifdef MSGSTORE_IMPLEMENTATION
#ifndef GOOD_IMPLEMENTED
#define GOOD_IMPLEMENTED
/* ==== [bits] === uses ms__last only in comments */
#define MS__TRY(call) do { int ms__try = (call); if (ms__try) return ms__try; } while (0)
#define MS__TWICE(ms__last) ((ms__last) + (ms__last))
static const char ms__text[] = "ms__last is \"no\" use /*", ms__quote = '"'; // ms__last
MS_API int ms_bits(int n) { MS__TRY(n); return ms__text[0] + ms__quote + MS__TWICE(n); }
/* more of [bits] */
/* ==== [str] === */
#define MS__MAKE(name, value) MS_API int name(int n) { return n + (value); }
#define MS__JOIN(name) ms__join_##name
#define MS__JOIN_BEFORE(name) name##ms__joined
typedef int ms__aligned __attribute__((aligned(16)));
MS__MAKE(ms_made, 2)
typedef struct ms__pair { int a, b; struct ms__pair *next; } ms__pair;
typedef int ms__join_x;
static ms__pair ms__pairs[2] = {{.a = 1, .b = 2, .next = NULL}};
#ifdef ELSEWHERE
static int ms__str(ms__pair *p) {
#else
static int ms__str(ms__pair *p)
{
#endif
    MS__JOIN(x) x = MS_OK;
    ms__aligned a = x;
    return a + p->b + ms__pairs[0].b;
}
/* more of [str] */
/* ==== [mem] === */
#ifndef MSGSTORE_NO_STORE
enum ms__kind { MS__KIND_NONE, MS__KIND_ONE = 1 << (2 + 1), MS__KIND_TWO };
struct ms_store { enum ms__kind kind; };
static int ms__mem(void) { return MS__KIND_ONE; }
MS_API int ms_count(const ms_store *store)
{
    ms__pair p = {0};
    return (int)store->kind + ms__mem() + ms__str(&p);
}
/* more of [mem] */
/* ==== [log] === */
MS_API int ms_log(ms_store *store) { return ms_count(store) + ms__mem(); }
/* more of [log] */
#endif
#ifndef MSGSTORE_NO_FORMATS
/* ==== [fmt] === */
static int ms__fmt(int n) { return n + ms_bits(n); }
MS_API int ms_write(int n) { return ms__fmt(n); }
/* more of [fmt] */
/* ==== [task] === */
#define MS__LAST 1
typedef int (*ms__last_call)(const ms_store *store);
typedef struct ms__last_type { int n; } ms__last_type;
enum { MS__LAST_ONE, MS__LAST_TWO };
#define MS__LASTS(X) X(three, 3) X(four, 4)
#define MS__X(name, number) MS__LAST_##name = number,
enum { MS__LASTS(MS__X) };
static int ms__last_object[2];
static int (*ms__last_pointer)(void);
static __attribute__((unused)) ms__last_type *ms__last(ms_store *store)
{
    static ms__last_type t;
    ms__last_call call = ms_count;
    t.n = call(store) + ms_log(store) + ms__fmt(MS__LAST_four);
    return &t;
}
/* more of [task] */
#endif
#endif
#endif
END

# verdict NAME CHECKS PATTERN...: checks the header $out/NAME.h. These checks must fail, and
# no others. The output must match all patterns.
verdict()
{
    local name=$1 checks=$2 found pattern wrong=
    shift 2
    check "$out/$name.h" "$out/$name" >"$out/$name.result"
    found=$(sed -n 's/^FAIL \([^:]*\):.*/\1/p' "$out/$name.result" | sort -u | xargs)
    [ "$found" = "$checks" ] || wrong="${found:-nothing} failed, not ${checks:-nothing}"
    for pattern in "$@"; do
        grep -Eq -- "$pattern" "$out/$name.result" || wrong="$wrong; no line: $pattern"
    done
    if [ -z "$wrong" ]; then echo "ok self_$name"; return; fi
    failed=1
    echo "FAIL self_$name: ${wrong#; }; see $out/$name.result"
}

# fault NAME CHECKS PATTERN...: the same for the good header with a fault. Standard input
# has lines "[tag] code": the code is put into that section.
fault()
{
    awk 'NR == FNR { tag = $1; sub(/^[^ ]* /, ""); code[tag] = code[tag] $0 "\n"; next }
        /^\/\* more of / && $4 in code { printf "%s", code[$4]; next }
        { print }' - "$out/good.h" >"$out/$1.h"
    verdict "$@"
}

# edited NAME EDIT CHECKS PATTERN...: the same for the good header edited by sed.
edited()
{
    local name=$1
    sed -e "$2" "$out/good.h" >"$out/$1.h"
    shift 2
    verdict "$name" "$@"
}

# Three writes, of which the second and the third are by a stranger.
fault state_of_another state_is_written_by_its_section \
    '\[log\] writes room.n, which is of \[mem\]' '\[log\] writes room.at, which' <<'END'
[mem] /* [mem] What there is. */
[mem] typedef struct ms__room { int n, at, *p; } ms__room;
[mem] typedef struct ms__log {
[mem]     ms__room room;
[mem] } ms__log;
[mem] static void ms__own(ms__log *log) { log->room.n = log->room.at == 1; }
[log] static void ms__late(ms__log *log) { log->room.n += log->room.at; }
[log] static void ms__atomic(ms__log *log) { ms__own(log); --log->room.at; }
END

upward=no_section_calls_upward
crosses=no_name_crosses_between_store_and_formats
contents=contents_names_every_section
verdict good '' 'ok the_header_is_understood \([1-9]' "ok $upward \([1-9]" "ok $crosses" \
    "ok $contents \(8 sections" 'ok sections_have_at_most_1500_lines' \
    'ok every_prefix_compiles \(6 sections' 'ok formats_part_compiles_alone' \
    'tally: bytes of good.h [1-9]'

# Every kind of name, used in the first section and defined in the last one.
kinds='ms__last MS__LAST ms__last_call ms__last_type MS__LAST_TWO MS__LAST_three
    ms__last_object ms__last_pointer'
{
    echo '[bits] #ifdef ELSEWHERE'
    for name in $kinds; do echo "[bits] static int ms__early = sizeof($name);"; done
    echo '[bits] static struct ms__last_type *ms__early;'
    echo '[bits] #endif'
} | fault kinds_of_names $upward \
    $(for name in $kinds struct.ms__last_type; do
        echo "\.h:[0-9]+:.$name.is.used.in.\[bits\],.but.defined.in.\[task\],.line.[0-9]"
    done)

fault call_of_a_public_function $upward 'ms_count is used in \[bits\]' \
    'ms_made is used in \[bits\]' <<'END'
[bits] static int ms__early(const ms_store *s) { return ms_count(s) + ms_made(1); }
END
fault use_in_a_macro $upward 'ms__str is used in \[bits\]' <<'END'
[bits] #define MS__EARLY(n) \
[bits]     ms__str(n)
END
fault use_in_a_condition $upward 'MS__LAST is used in \[bits\]' <<'END'
[bits] #if MS__LAST > 2
[bits] #endif
END
fault declared_above $upward 'ms__mem is used in \[str\]' <<'END'
[str] static int ms__mem(void);
END
fault declared_and_called_above "every_prefix_compiles $upward" \
    'ms__late is used in \[mem\]' '\[mem\] and all above it: .*ms__late' <<'END'
[mem] static int ms__late(void);
[mem] static int ms__early(void) { return ms__late(); }
[log] static int ms__late(void) { return 1; }
END
fault struct_declared_above $upward 'struct ms__node is used in \[bits\]' <<'END'
[bits] typedef struct ms__node ms__node;
[str] struct ms__node { int n; };
END
fault object_declared_above $upward 'ms__table is used in \[bits\]' <<'END'
[bits] static int ms__table[2];
[str] static int ms__table[2] = {1, 2};
END
fault one_of_two_definitions_below $upward 'ms__two is used in \[str\]' <<'END'
[bits] static int ms__two(void) { return 1; }
[str] static int ms__early(void) { return ms__two(); }
[mem] #ifdef ELSEWHERE
[mem] static int ms__two(void) { return 2; }
[mem] #endif
END
fault type_of_a_later_interface $upward 'ms_query is used in \[api-types\]' <<'END'
[api-types] #ifdef ELSEWHERE
[api-types] typedef ms_query *ms_early;
[api-types] #endif
END

fault private_name_of_stores "formats_part_compiles_alone $crosses" \
    'ms__mem is used in \[task\] of the formats part' 'alone: .*ms__mem' <<'END'
[task] static int ms__cross(void) { return ms__mem(); }
END
fault private_names_of_stores_elsewhere $crosses 'MS__KIND_TWO is used in \[fmt\]' \
    'struct ms_store is used in \[fmt\]' <<'END'
[fmt] #ifdef ELSEWHERE
[fmt] static struct ms_store ms__cross = {MS__KIND_TWO};
[fmt] #endif
END
fault public_call_of_stores $crosses 'ms_count is used in \[fmt\]' <<'END'
[fmt] static int ms__cross(const ms_store *store) { return ms_count(store); }
END
fault member_of_a_store formats_part_compiles_alone 'alone: .*h:[0-9]+:' <<'END'
[fmt] static int ms__cross(const ms_store *store) { return (int)store->kind; }
END
fault store_calls_a_format "$crosses $upward" 'used in \[mem\] of the store part' <<'END'
[mem] static int ms__cross(void) { return ms_write(1); }
END
edited contents_without_parts 's/store part/stores    /' $crosses 'CONTENTS lists no'

for n in 1496 1497; do # with the other lines of [log] 1500 and 1501
    for ((i = 0; i < n; i++)); do echo '[log] '; done >"$out/lines"
    if [ $n -eq 1496 ]; then fault lines_at_the_limit '' <"$out/lines"
    else
        fault lines_over_the_limit sections_have_at_most_1500_lines \
            '\[log\] has 1501 lines' <"$out/lines"
    fi
done

edited tag_misspelled '/==== \[log\]/s/log/lgo/' $contents \
    'is \[lgo\], CONTENTS lists \[log\]'
edited tag_twice '/==== \[log\]/s/log/mem/' $contents '\[mem\] begins a second time'
edited tag_not_listed 's/ \[log\]$//' $contents 'is \[log\], CONTENTS lists \[fmt\]'
edited tag_of_the_interface_not_listed '/^ \*  *\[api-store\]$/d' $contents \
    'is \[api-store\], CONTENTS lists \[bits\]'
edited tags_in_another_order 's/\[mem\] \[log\]/[log] [mem]/' $contents 'lists \[log\]'
edited tag_without_section 's/^\( \*  *\[task\]\)$/\1 [more]/' $contents \
    'is missing, CONTENTS lists \[more\]'

edited function_in_two_sections '/==== \[log\]/d
/ms__pair p = /a\
/* ==== [log] === */' every_prefix_compiles '\[mem\] and all above it: .*h:[0-9]+:'

fault name_without_definition the_header_is_understood 'found: ms__never' <<'END'
[bits] #ifdef ELSEWHERE
[bits] static int ms__lost(void) { return ms__never(); }
[bits] #endif
END
fault function_without_definition the_header_is_understood 'found: ms_never' <<'END'
[api-types] MS_API int ms_never(int n);
END
fault braces_without_a_partner the_header_is_understood "'}' without '{'" <<'END'
[bits] #ifdef ELSEWHERE
[bits] }
[bits] #endif
END

cp "$out/good.h" "$out/too_large.h"
max_bytes=1000 verdict too_large the_header_has_at_most_1000_bytes ': it has [1-9]'
cp "$out/good.h" "$out/not_too_large.h"
max_bytes=10000 verdict not_too_large '' 'ok the_header_has_at_most_10000_bytes'
exit $failed
