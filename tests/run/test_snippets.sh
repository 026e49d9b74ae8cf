#!/usr/bin/env bash
# Compiles and runs the C code that the manual (the comment at the top of msgstore.h),
# [api-ten], bindings/msgstore_ffi.h, README.md and docs/*.md show, and compares what it
# prints with what the text beside it promises:
#
#   It prints "1 user_message" and "2 action".    or    prints `1 user_message` ...
#   ... prints:                                   and then a fenced block that is not C
#
# A snippet with "int main" is a program and must compile without a warning. Any other is
# the body of a function behind the usual declarations (see prologue below), or, where it
# cannot be that, declarations at file scope, which are only compiled.
#
# Each request that a snippet of README.md, docs/ or [api-ten], or examples/providers.c writes
# is judged by the linter (tests/support/linted_request.c), and a snippet that calls ms_request must write one.
#
# The manual's program has the implementation in itself, in C and, with MS_TEST_SCALE from
# 100 on, in C++. The snippets of the others are linked to one object, with the
# implementation left out, and with what MSGSTORE_FLASH adds; that of [api-ten] in C and in
# C++. Below 100 the quicker compiler takes the manual's program.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=build/snippets
cc=${CC:-cc}
cxx=${CXX:-g++}
quick=$(command -v clang || echo "$cc")
manual_cc=$cc
[ "${MS_TEST_SCALE:-100}" -ge 100 ] || manual_cc=$quick
stb=$(STB_INC="${STB_INC:-}" sh tools/setup.sh stb)
warn="-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wcast-qual"
warn="$warn -Werror -Wno-misleading-indentation" # which makes gcc three times as slow
c99="-std=c99 $warn -Wstrict-prototypes"
linked='-DMSGSTORE_IMPLEMENTED -DMSGSTORE_FLASH -Dms_request=linted_request'
loose="-std=c99 -Wall -Wno-unused -Wno-maybe-uninitialized -Wno-uninitialized -Werror"
loose="$loose -Wno-misleading-indentation"
failed=0
rm -rf "$out"
mkdir -p "$out"

ok()
{
    echo "ok $1"
}

bad()
{
    echo "FAIL $1: $2"
    failed=1
}

# why FILE: the first error in a compiler's output, on one line.
why()
{
    grep -m 1 -E 'error|undefined' "$1" || head -n 1 "$1"
}

# compile NAME COMMAND...
compile()
{
    local name=$1
    shift
    "$@" >"$out/$name.log" 2>&1
}

# run NAME: runs build/snippets/NAME in a folder of its own and compares its output with
# NAME.want, where that is there.
run()
{
    local name=$1 status=0
    rm -rf "$out/$name.dir"
    mkdir -p "$out/$name.dir"
    (cd "$out/$name.dir" && "../$name") >"$out/$name.got" 2>"$out/$name.log" </dev/null ||
        status=$?
    if [ "$status" -ne 0 ]; then
        bad "$name" "it ends with status $status: $(head -n 1 "$out/$name.log")"
    elif [ -n "$object" ] && grep -q 'ms_request(' "$out/$name.code" 2>/dev/null &&
        [ ! -s "$out/$name.dir/requests" ]; then
        bad "$name" "it writes no request that could be judged"
    elif [ -f "$out/$name.want" ] && ! cmp -s "$out/$name.got" "$out/$name.want"; then
        bad "$name" "it prints '$(paste -sd '|' "$out/$name.got")', the text says \
'$(paste -sd '|' "$out/$name.want")'"
    elif [ -f "$out/$name.want" ]; then
        ok "$name (prints what the text says)"
    else
        ok "$name"
    fi
}

# promised: standard input is text; prints what stands quoted or in backticks behind the
# word "prints" of it, to the end of the sentence, a line each.
promised()
{
    tr '\n' ' ' | awk '{
        at = match($0, /prints[ ]/)
        if (!at) exit
        rest = substr($0, at)
        while (match(rest, /^[^"`.]*("[^"]*"|`[^`]*`)/)) {
            part = substr(rest, 1, RLENGTH)
            rest = substr(rest, RLENGTH + 1)
            sub(/^[^"`]*/, "", part)
            print substr(part, 2, length(part) - 2)
        }
    }'
}

# What a snippet that is no program may use without declaring it. They stand one scope
# outside of it, so that it may also declare them itself.
prologue()
{
    cat <<'END'
#include "msgstore.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int snippet(void);

static int report(const ms_error *err)
{
    fprintf(stderr, "%s\n", err->message);
    return 1;
}

/* A made-up provider: first a call, then a text. */
static ms_str post(ms_str body)
{
    static int n;
    (void)body;
    return n++ == 0
        ? MS_STR("{\"role\":\"assistant\",\"stop_reason\":\"tool_use\",\"content\":["
                 "{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"weather\","
                 "\"input\":{}}]}")
        : MS_STR("{\"role\":\"assistant\",\"stop_reason\":\"end_turn\",\"content\":["
                 "{\"type\":\"text\",\"text\":\"It will.\"}]}");
}

int snippet(void)
{
    ms_store *store = NULL, *other = NULL;
    ms_error err;
    ms_arena arena = {0};
    ms_memory memory;
    ms_cursor it = {0};
    ms_query query = {0};
    ms_envelope m = {0};
    const ms_msg *msg = NULL;
    uint64_t seq = 0;
    ms_str job = MS_STR("job_123"), location = job;
    ms_str workers[2];
    workers[0] = MS_STR("worker-1");
    workers[1] = MS_STR("worker-2");
    (void)report, (void)post;
    if (ms_mem_open(&store, NULL, &err) != MS_OK) return report(&err);
    if (ms_mem_open(&other, NULL, &err) != MS_OK) return report(&err);
    ms_memory_init(&memory, store, job, MS_STR("manager"));
    {
END
}

# Takes a document apart. The pieces are named after it, here README.md: readme_N.code for
# each ```c block, readme_N.text for the text after it up to the next block or heading,
# readme_N.before for the paragraph before it, and readme_N.block for the next block, where
# the text after it ends with a colon.
cut_document()
{
    awk -v out="$out" -v doc="$doc" '
        function path(kind) { return out "/" doc "_" n "." kind }
        /^```/ && inside {
            inside = 0
            if (!is_c) n_after = 0
            next
        }
        /^```/ {
            inside = 1
            is_c = $0 ~ /^```(c|C)[ \t]*$/
            if (is_c) {
                n++
                printf "%s", paragraph >path("before")
                printf "" >path("code")
                n_after = 1
            } else if (n && n_after && last ~ /:[ \t]*$/) {
                printf "" >path("block")
                in_block = 1
            } else {
                in_block = 0
            }
            paragraph = ""
            last = ""
            next
        }
        inside && is_c { print >path("code"); next }
        inside && in_block { print >path("block"); next }
        inside { next }
        /^#/ { n_after = 0; paragraph = ""; next }
        /^[ \t]*$/ { paragraph = ""; next }
        {
            paragraph = paragraph $0 "\n"
            last = $0
            if (n && n_after) print >path("text")
        }' "$1"
}

# expected N: writes the document's N.want when the text around the snippet says what is printed.
expected()
{
    local base=$out/${doc}_$1 text
    for text in "$base.text" "$base.before"; do
        [ -f "$text" ] || continue
        grep -q 'prints' "$text" || continue
        if [ "$text" = "$base.text" ] && [ -f "$base.block" ] &&
            grep -qE 'prints.*:[[:space:]]*$' "$text"; then
            cp "$base.block" "$base.want"
            return
        fi
        promised <"$text" >"$base.want"
        [ ! -s "$base.want" ] || return
        rm -f "$base.want"
    done
}

# as_body N: the snippet as the body of a function, with a main behind it. Its lines for
# the preprocessor go first.
as_body()
{
    local code=$out/${doc}_$1.code
    grep -E '^[[:space:]]*#' "$code"
    prologue
    grep -vE '^[[:space:]]*#' "$code"
    printf '    }\n    ms_arena_deinit(&arena);\n    return 0;\n}\n\n'
    printf 'int main(void)\n{\n    return snippet();\n}\n'
}

# program NAME COMPILER...: compiles and runs it.
# shellcheck disable=SC2086
program()
{
    local name=$1
    shift
    if compile "$name" "$@" -I. $stb -pthread -o "$out/$name"; then run "$name"
    else bad "$name" "$(why "$out/$name.log")"; fi
}

# shellcheck disable=SC2046,SC2086
snippet()
{
    local name=${doc}_$1 base=$out/${doc}_$1
    expected "$1"
    if grep -q 'int main' "$base.code"; then
        cp "$base.code" "$base.c"
        program "$name" $cc $c99 $linked "$base.c" $object
        return
    fi
    as_body "$1" >"$base.c"
    if compile "$name" $cc $loose $linked -I. $stb -pthread -o "$base" "$base.c" $object; then
        run "$name"
        return
    fi
    cp "$base.log" "$base.body.log"
    { echo '#include "msgstore.h"'; cat "$base.code"; } >"$base.c"
    if compile "$name" $cc $loose $linked -I. $stb -c -o "$base.o" "$base.c"; then
        ok "$name (declarations, compiled only)"
    else
        bad "$name" "$(why "$base.body.log")"
    fi
}

# document FILE FROM TO: prints the lines between two lines of a comment as a document:
# what is indented by four columns is a block of C.
document()
{
    sed -n "/$2/,/$3/p" "$1" | sed '1d;$d' | sed 's/^ \*$//; s/^ \* //' | awk '
        /^    / && !inside { inside = 1; print "```c" }
        /^[^ ]/ && inside { inside = 0; print "```" }
        { print inside ? substr($0, 5) : $0 }'
}

# The linter sees a request that its provider would refuse: this one begins with the
# assistant's words.
notices_a_wrong_request()
{
    doc=wrong
    cat >"$out/wrong_1.code" <<'END'
ms_request_desc ask = {0};
ms_buf body = {&arena, NULL, 0, 0};
ms_profile loose = *ms_profile_find(MS_STR("anthropic"));
loose.start_user = false;
ask.profile = &loose;
ask.store = store;
ask.location = job;
ask.opts.model = MS_STR("claude-sonnet-4-5");
m = ms_assistant_message(ms_text("Good morning."));
if (ms_append(store, job, &m, &seq, &err) != MS_OK) return 0;
if (ms_request(&ask, ms_buf_write, &body, NULL, &err) != MS_OK) return 0;
END
    as_body 1 >"$out/wrong_1.c"
    # shellcheck disable=SC2086
    if ! compile wrong_1 $cc $loose $linked -I. $stb -pthread -o "$out/wrong_1" \
        "$out/wrong_1.c" $object; then
        bad wrong_request "$(why "$out/wrong_1.log")"
    elif (cd "$out" && ./wrong_1) >"$out/wrong_1.got" 2>&1; then
        bad wrong_request "the linter does not notice it"
    elif grep -q 'anthropic refuses: messages\[0\]' "$out/wrong_1.got"; then
        ok wrong_request
    else
        bad wrong_request "$(head -n 1 "$out/wrong_1.got")"
    fi
}

# README.md's agent, killed amid a call, goes on from its log, and repeats nothing.
resumes()
{
    local folder=$out/resumed status=0 n
    rm -rf "$folder"
    mkdir -p "$folder"
    {
        (cd "$folder" && ulimit -c 0 && exec ../readme_1 kill) || status=$?
    } >/dev/null 2>&1
    [ "$status" -eq 134 ] || bad readme_resumes "'kill' ends it with $status, not by SIGABRT"
    for n in second third; do
        (cd "$folder" && ../readme_1) >"$folder/$n" 2>&1
        cmp -s "$folder/$n" "$out/readme_1.want" ||
            bad readme_resumes "its $n run prints '$(head -n 1 "$folder/$n")'"
    done
    [ "$failed" -ne 0 ] || ok readme_resumes
}

# examples/providers.c writes the request of each profile but pydantic-ai, which has none.
providers()
{
    local wanted
    # shellcheck disable=SC2086
    program providers $cc $c99 $linked examples/providers.c $object
    wanted=$(grep -c '^    {"[a-z-]*", MS_WIRE_' src/agent/wire.h)
    [ "$(wc -l <"$out/providers.dir/requests")" -eq "$((wanted - 1))" ] ||
        bad providers "it writes no request for one of $wanted profiles"
}

# The manual's program has the implementation in itself, so nothing is linked to it.
document msgstore.h '^ \* ---- A COMPLETE PROGRAM' '^ \* ---- GUARANTEES' >"$out/manual.md"
doc=manual object=
cut_document "$out/manual.md"
cc=$manual_cc linked='' snippet 1
cp "$out/manual_1.want" "$out/manual_cpp.want" ||
    bad manual "the text does not say what the program prints"
# shellcheck disable=SC2086
if [ "${MS_TEST_SCALE:-100}" -lt 100 ]; then
    echo "skip manual_cpp: MS_TEST_SCALE is below 100"
else
    program manual_cpp $cxx -x c++ -std=c++11 $warn "$out/manual_1.c"
fi

# Guides may lack C code (docs/python.md); README.md may not.
object=$out/msgstore.o
# shellcheck disable=SC2086
if ! compile library $quick -std=c99 -O0 -DMSGSTORE_FLASH -I. $stb -pthread -c -o "$object" \
    tests/support/msgstore_impl.c; then
    bad library "$(why "$out/library.log")"
elif ! compile lint $cc -std=gnu99 -w -O0 -DMSGSTORE_IMPLEMENTED -I. -Itests/support $stb \
    $(pkg-config --cflags cmocka jansson 2>/dev/null) -c -o "$out/lint.o" \
    tests/support/linted_request.c; then
    bad lint "$(why "$out/lint.log")"
else
    object="$object $out/lint.o $(pkg-config --libs cmocka jansson 2>/dev/null ||
        echo -lcmocka -ljansson) -lm"
    document msgstore.h '^\/\* ==== \[api-ten\]' '^\/\* ==== \[api-options\]' >"$out/ten.md"
    doc=ten
    cut_document "$out/ten.md"
    snippet 1
    cp "$out/ten_1.want" "$out/ten_cpp.want" ||
        bad ten "the text does not say what the program prints"
    # shellcheck disable=SC2086
    program ten_cpp $cxx -std=c++11 $warn $linked -x c++ "$out/ten_1.c" -x none $object
    notices_a_wrong_request
    providers
    document bindings/msgstore_ffi.h '^ \* ---- A COMPLETE PROGRAM' \
        '^ \* ---- GUARANTEES' >"$out/ffi.md"
    doc=ffi
    cut_document "$out/ffi.md"
    cc="$cc -Ibindings" snippet 1
    [ -s "$out/ffi_1.want" ] || bad ffi "the text does not say what the program prints"
    for file in README.md docs/*.md; do
        doc=$(basename "$file" .md | tr 'A-Z-' 'a-z_')
        cut_document "$file"
        count=0
        while [ -f "$out/${doc}_$((count + 1)).code" ]; do
            count=$((count + 1))
            snippet "$count"
        done
        [ "$count" -gt 0 ] || [ "$doc" != readme ] || bad readme "it shows no C code"
        [ "$doc" != readme ] || resumes
        words=$(wc -w <"$file")
        limit=800
        [ "$doc" != readme ] || limit=1000
        [ "$doc" != defaults ] || limit=2200 # a table of every option, no guide
        [ "$doc" != flat ] || limit=$words # written from a table, to look things up
        [ "$words" -le "$limit" ] || bad "$doc" "it has $words words, at most $limit"
    done
fi
exit "$failed"
