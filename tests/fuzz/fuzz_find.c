/* Fuzzes the search in texts.
 *
 *   byte 0    bits: exact case, JSON, from somewhere inside
 *   byte 1    bytes of what is looked for, which follow; the rest is the text
 *
 * In plain text each match is compared with that of a naive search, forwards to the end;
 * in JSON each match lies inside, in order, does not overlap, and reads or is spelled as
 * what is looked for; one that a search of the spelled text or of a plain string finds
 * is found. A snippet is whole characters around its match.
 */

#define _POSIX_C_SOURCE 200809L
#define FUZZ_MOST 1024
#define MSGSTORE_STATIC /* the private functions, beside the object */
#define MSGSTORE_IMPLEMENTATION
#include "../../msgstore.h"
#include "fuzz.h"
#include "../find.h"

enum { EXACT = 1, IS_JSON = 2, INSIDE = 4 };

static ms_arena arena;

static unsigned char lower(char c)
{
    unsigned char u = (unsigned char)c;
    return u >= 'A' && u <= 'Z' ? (unsigned char)(u + 32) : u;
}

static bool same_bytes(const char *a, const char *b, size_t len, bool exact)
{
    for (size_t i = 0; i < len; i++)
        if (exact ? a[i] != b[i] : lower(a[i]) != lower(b[i])) return false;
    return true;
}

static size_t naive(ms_str text, ms_str needle, bool exact, size_t from)
{
    if (needle.len == 0 || text.len < needle.len) return SIZE_MAX;
    for (size_t at = from; at <= text.len - needle.len; at++)
        if (same_bytes(text.ptr + at, needle.ptr, needle.len, exact)) return at;
    return SIZE_MAX;
}

static void snippet(ms_str text, size_t at, size_t length)
{
    ms_str s = ms_find_snippet(text, at, length, 5);
    if (s.ptr == NULL) fuzz_fail("no snippet of a match");
    if (s.ptr < text.ptr || s.ptr + s.len > text.ptr + text.len)
        fuzz_fail("a snippet outside");
    if (s.ptr > text.ptr + at || s.ptr + s.len < text.ptr + at + length)
        fuzz_fail("a snippet without its match");
    if (ms_utf8_check(text, NULL) && !ms_utf8_check(s, NULL))
        fuzz_fail("a snippet that cuts a character");
}

static void plain(ms_str text, ms_str needle, bool exact, size_t from)
{
    for (size_t n = 0; n < 40; n++) {
        size_t at = find_in_value(ms_text_n(text), needle, exact, from, NULL);
        if (at != naive(text, needle, exact, from)) {
            fuzz_show("text", text);
            fuzz_show("needle", needle);
            fuzz_fail("found at %ld, naively at %ld", (long)at,
                      (long)naive(text, needle, exact, from));
        }
        if (at == SIZE_MAX) return;
        if (ms_utf8_check(needle, NULL)) snippet(text, at, needle.len);
        from = at + 1;
    }
}

/* The match as a JSON string reads. */
static bool reads_as(ms_str part, ms_str needle, bool exact)
{
    char quoted[FUZZ_MOST + 2];
    ms_str decoded;
    quoted[0] = '"';
    memcpy(quoted + 1, part.ptr, part.len);
    quoted[part.len + 1] = '"';
    return ms_json_check(ms_str_n(quoted, part.len + 2), NULL, NULL, NULL) == MS_OK &&
           ms_json_string(ms_str_n(quoted, part.len + 2), &arena, &decoded) == MS_OK &&
           decoded.len == needle.len &&
           same_bytes(decoded.ptr, needle.ptr, needle.len, exact);
}

static void json(ms_str text, ms_str needle, bool exact)
{
    ms_value value = {text, true};
    ms_str decoded;
    size_t end = 0, first = SIZE_MAX;
    for (size_t n = 0; n < 40; n++) {
        size_t length = 0, at = find_in_value(value, needle, exact, end, &length);
        if (at == SIZE_MAX) break;
        if (first == SIZE_MAX) first = at;
        if (at < end || length == 0 || length > text.len - at)
            fuzz_fail("a match outside, or before the last one");
        ms_str part = ms_str_n(text.ptr + at, length);
        bool spelled = length == needle.len &&
                       same_bytes(part.ptr, needle.ptr, length, exact);
        if (!spelled && !reads_as(part, needle, exact)) {
            fuzz_show("text", text);
            fuzz_show("needle", needle);
            fuzz_show("match", part);
            fuzz_fail("a match that neither is spelled so nor reads so");
        }
        end = at + length;
    }
    if (ms_json_string(text, &arena, &decoded) == MS_OK && first == SIZE_MAX &&
        naive(decoded, needle, exact, 0) != SIZE_MAX) {
        fuzz_show("text", text);
        fuzz_show("needle", needle);
        fuzz_fail("what the string reads is not found");
    }
}

static void search(unsigned how, ms_str needle, ms_str text)
{
    bool exact = (how & EXACT) != 0;
    plain(text, needle, exact, how & INSIDE ? text.len / 2 : 0);
    if ((how & IS_JSON) && ms_utf8_check(needle, NULL) &&
        ms_json_check(text, NULL, NULL, NULL) == MS_OK)
        json(text, needle, exact);
}

static void fuzz_one(const unsigned char *bytes, size_t size)
{
    fuzz_input in = {bytes, bytes + size};
    unsigned how = fuzz_u8(&in);
    ms_str needle = fuzz_text(&in);
    search(how, needle, fuzz_bytes(&in, FUZZ_MOST));
    ms_arena_reset(&arena);
}
