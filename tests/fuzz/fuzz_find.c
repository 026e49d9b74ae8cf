/* Fuzzes the search in texts, the shortening of long ones, and their keys.
 *
 *   byte 0    bits: exact case, JSON, from somewhere inside; 60 to 7F: see below
 *   byte 1    bytes of what is looked for, which follow; the rest is the text
 *
 * In plain text each match is compared with that of a naive search, forwards to the end;
 * in JSON each match lies inside, in order, does not overlap, and reads or is spelled as
 * what is looked for; one that a search of the spelled text or of a plain string finds
 * is found. A snippet is whole characters around its match.
 *
 *   60 to 6F  shorten: bits: as the origin, in a message; byte 1: characters that are
 *             kept; byte 2: bytes of the key, which follows; then the text
 *   70 to 7F  keys: bits: the key of a session of that name, asked for by another user;
 *             byte 1: which row; then the key or the name
 *
 * A shortened text is its beginning, the hint, its end, and is not shortened again. A key
 * finds what a naive search through the sessions finds.
 */

#define _POSIX_C_SOURCE 200809L
#define FUZZ_MOST 1024
#define MSGSTORE_STATIC /* the private functions, beside the object */
#define MSGSTORE_IMPLEMENTATION
#include "../../msgstore.h"
#include "store.h"
#include "../find.h"

enum { EXACT = 1, IS_JSON = 2, INSIDE = 4 };
enum { AS_ORIGIN = 1, MESSAGE = 4 };
enum { MADE = 1, OTHER_USER = 2, KEYS = 16 };

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


/* ---- long texts ---- */

static bool is_lead(char c) { return ((unsigned char)c & 0xC0) != 0x80; }

static size_t chars_of(ms_str text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++) n += is_lead(text.ptr[i]);
    return n;
}

/* The byte at which character n begins, or the end. */
static size_t char_at(ms_str text, size_t n)
{
    size_t at = 0;
    for (n++; at < text.len && (n -= is_lead(text.ptr[at])) > 0; at++) {}
    return at;
}

static void must(bool holds, const char *what, ms_str text)
{
    if (holds) return;
    fuzz_show("text", text);
    fuzz_fail("%s", what);
}

static bool begins(ms_str text, ms_str with)
{
    return text.len >= with.len && memcmp(text.ptr, with.ptr, with.len) == 0;
}

static bool ends(ms_str text, ms_str with)
{
    size_t more = text.len - with.len;
    return text.len >= with.len && begins(ms_str_n(text.ptr + more, with.len), with);
}

/* Is it what is said: the beginning, the hint, the end? */
static void as_said(ms_str text, ms_str out, size_t keep, ms_str key)
{
    char hint[512];
    int n;
    size_t chars = chars_of(text), head = char_at(text, keep);
    size_t tail = char_at(text, chars - keep);
    if (key.len > 0)
        n = snprintf(hint, sizeof hint, "\n\n... [Message truncated - REM LOOKUP %.*s to "
                     "recover full content] ...\n\n", (int)key.len, key.ptr);
    else
        n = snprintf(hint, sizeof hint, "\n\n... [Message truncated - %lu characters "
                     "omitted] ...\n\n", (unsigned long)(chars - 2 * keep));
    must(out.len == head + (size_t)n + text.len - tail, "another length", out);
    must(begins(out, ms_str_n(text.ptr, head)) &&
             ends(out, ms_str_n(text.ptr + tail, text.len - tail)) &&
             memcmp(out.ptr + head, hint, (size_t)n) == 0,
         "not the beginning, the hint, the end", out);
}

static void in_order(ms_str text, ms_str out, const ms_shorten_opts *opts, ms_str key)
{
    ms_str again;
    size_t chars = chars_of(text);
    if (!ms_utf8_check(text, NULL)) return;
    must(chars > 2 * opts->keep, "a short text is shortened", text);
    must(!ms_utf8_check(key, NULL) || ms_utf8_check(out, NULL), "a divided character",
         out);
    if (opts->as_origin && memchr(key.ptr, '\0', key.len) == NULL)
        as_said(text, out, opts->keep, key);
    if (opts->as_origin) return;
    must(test_shorten(out, opts, key, &arena, &again, NULL) == MS_OK &&
             again.ptr == out.ptr, "shortened once more", out);
}

static void shorten_message(ms_str text, const ms_shorten_opts *opts, ms_str key,
                            ms_str want)
{
    ms_envelope m = ms_assistant_message(ms_text_n(text));
    ms_envelope system = ms_message(MS_T_TEXT, ms_text_n(text));
    must(ms_shorten_message(&system, opts, key, &arena, NULL) == MS_OK &&
             system.content.text.ptr == text.ptr && system.extra.ptr == NULL,
         "a system message is shortened", text);
    must(ms_shorten_message(&m, opts, key, &arena, NULL) == MS_OK &&
             ms_str_equal(m.content.text, want),
         "a message is shortened to something else", text);
    must((m.extra.ptr != NULL) == (want.ptr != text.ptr), "shortened or not", text);
}

static void shorten(unsigned how, size_t keep, ms_str key, ms_str text)
{
    ms_shorten_opts opts = {1 + keep % 64, (how & AS_ORIGIN) != 0};
    ms_str out;
    must(test_shorten(text, &opts, key, &arena, &out, NULL) == MS_OK, "refused", text);
    bool is = out.ptr != text.ptr;
    if (is) in_order(text, out, &opts, key);
    if (opts.as_origin && ms_utf8_check(text, NULL))
        must(is == (chars_of(text) > 2 * opts.keep), "it may grow, but", text);
    if (!opts.as_origin) must(!is || out.len < text.len, "it has grown", text);
    if (how & MESSAGE) shorten_message(text, &opts, key, out);
}


/* ---- keys ---- */

#define X50 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define X250 X50 X50 X50 X50 X50
enum { ROWS = 12 };

/* The sessions in the store: two rows each, one of which is hidden; the last session is
 * another user's. */
static const char *const sessions[] = {"s", "s-msg-1", X250, X250 "y", "\xC3\xA9", "s"};

static ms_str user_of(size_t row) { return row < ROWS - 2 ? MS_STR("u") : MS_STR("v"); }

static ms_store *session_store(void)
{
    static uint64_t room[1 << 13];
    static ms_store *store;
    uint64_t seq = 0;
    if (store != NULL) return store;
    store = fuzz_store_in(room, sizeof room, false);
    for (size_t i = 0; i < ROWS; i++) {
        ms_session s;
        char digit = (char)('a' + i);
        ms_envelope m = ms_user_message(ms_text_n(ms_str_n(&digit, 1)));
        if (ms_session_init(&s, store, user_of(i), ms_str_of(sessions[i / 2]), &arena,
                            NULL) != MS_OK ||
            ms_append(store, s.location, &m, &seq, NULL) != MS_OK || seq != i + 1)
            fuzz_fail("no session");
    }
    if (ms_hide(store, 2, NULL) != MS_OK) fuzz_fail("nothing is hidden");
    return store;
}

/* The row of that key, naively; ROWS: there is none. */
static size_t row_of(ms_str user, ms_str key)
{
    static char own[ROWS][MS_ENTITY_KEY_MAX];
    static size_t len[ROWS];
    for (size_t i = 0; i < ROWS; i++) {
        if (len[i] == 0)
            len[i] = test_entity_key(ms_str_of(sessions[i / 2]), i + 1, own[i]);
        if (i != 1 && ms_str_equal(user, user_of(i)) &&
            ms_str_equal(key, ms_str_n(own[i], len[i])))
            return i;
    }
    return ROWS;
}

static void look_up(ms_str user, ms_str key)
{
    const ms_msg *msg;
    ms_error err;
    size_t row = row_of(user, key);
    memset(&err, 0, sizeof err);
    ms_result code = ms_session_lookup(session_store(), user, key, &arena, &msg, &err);
    if (row == ROWS) {
        must(code == MS_E_NOT_FOUND && err.code == code && err.message[0] != '\0',
             "a key of nothing, not said so", key);
        must(msg == NULL, "not empty", key);
    } else {
        must(code == MS_OK && ms_content(msg).text.len == 1 &&
                 ms_content(msg).text.ptr[0] == (char)('a' + row),
             "a message is not found", key);
    }
}

/* A byte 1 of the input is many x. */
static ms_str spread(ms_str text, char *out, size_t room)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len && n + 250 <= room; i++) {
        if (text.ptr[i] == 1) memset(out + n, 'x', 250);
        else out[n] = text.ptr[i];
        n += text.ptr[i] == 1 ? 250 : 1;
    }
    return ms_str_n(out, n);
}

static void keys(unsigned how, unsigned n, ms_str text)
{
    char wide[FUZZ_MOST], made[MS_ENTITY_KEY_MAX];
    ms_str key = spread(text, wide, sizeof wide);
    if (how & MADE) key = ms_str_n(made, test_entity_key(key, n % 16, made));
    look_up(how & OTHER_USER ? MS_STR("v") : MS_STR("u"), key);
}

static void fuzz_one(const unsigned char *bytes, size_t size)
{
    fuzz_input in = {bytes, bytes + size};
    unsigned how = fuzz_u8(&in);
    bool is_search = (how & 0xE0) != 0x60;
    size_t n = is_search ? 0 : fuzz_u8(&in);
    ms_str needle = how & KEYS && !is_search ? MS_STR("") : fuzz_text(&in);
    ms_str text = fuzz_bytes(&in, FUZZ_MOST);
    if (is_search) search(how, needle, text);
    else if (how & KEYS) keys(how, (unsigned)n, text);
    else shorten(how, n, needle, text);
    ms_arena_reset(&arena);
}
