/* Fuzzes JSON: the input is the text.
 *
 * Checked, read and written, strictly and with repair, against jansson: what is accepted
 * and refused, the place of an error, every value, and what the writer makes of them (as
 * they are spelled, and built anew from what the getters say). Where jansson has a rule
 * of its own it is not asked: numbers beyond its types, \u0000 in names, NUL bytes outside
 * of strings, nesting beyond our limit.
 * Every reading function is called on the text as it is too, checked or not, on numbers
 * and times, and must stay in its view.
 * Left out: lists of deltas and messages, see fuzz_format.c.
 */

#define _POSIX_C_SOURCE 200809L
#define FUZZ_MOST 4096
#include "fuzz.h"
#include "json_twin.h"


static ms_arena arena;

static void must(bool holds, const char *what, ms_str text)
{
    if (holds) return;
    fuzz_show("text", text);
    fuzz_fail("%s", what);
}

static void must_not(const char *why, ms_str text)
{
    if (why != NULL) must(false, why, text);
}


/* ---- one input ---- */

static void strictly(ms_str text, ms_result got, ms_str v)
{
    bool judges;
    if (memchr(text.ptr, '\0', text.len) != NULL) {
        must(got != MS_OK, "a NUL byte is accepted", text);
        return;
    }
    json_t *tree = jansson_reads(text.ptr, text.len, &judges);
    if (tree == NULL) {
        must(!judges || got != MS_OK, "only jansson refuses", text);
        if (got == MS_OK) must_not(written_differs(v, NULL, &arena), text);
        return;
    }
    if (nesting(text.ptr, text.len) > MS_JSON_MAX_DEPTH) {
        must(got == MS_E_DEPTH, "too deep, but not said so", text);
        return;
    }
    must(got == MS_OK, "only jansson accepts", text);
    json_twin twin = {text, &arena};
    must_not(differs(&twin, v, tree), text);
    must_not(written_differs(v, tree, &arena), text);
}

static void fuzz_one(const unsigned char *bytes, size_t size)
{
    ms_str text = ms_str_n((const char *)bytes, size), v = {NULL, 0}, mended;
    ms_json_opts repair = {0, true};
    ms_error err;
    if (size == 0) return;
    ms_result got = ms_json_check(text, NULL, &v, &err);
    if (got != MS_OK) must_not(error_is_odd(text, NULL, &err), text);
    must_not(visit(text, 200, &arena), text);
    strictly(text, got, v);
    ms_result mild = ms_json_check(text, &repair, &mended, &err);
    must(got != MS_OK || (mild == MS_OK && ms_str_equal(mended, v)),
         "repair refuses what is good", text);
    if (mild == MS_OK && got != MS_OK) {
        must_not(visit(mended, 200, &arena), text);
        must(means(built(mended, &arena), NULL), "written anew with repair", text);
    }
    ms_arena_reset(&arena);
}
