/* Search: that a scan finds what a slow one finds, at every alignment and
 * at the very end of a page; that escapes in JSON hide nothing and make nothing up; that
 * a search over a store returns the messages of its query in order, with all matches,
 * field by field; that bad questions are refused and damage is reported.
 */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"

#include "own_store.h"
#include "twin.h"
#include "guard_pages.h"

#include <jansson.h>

/* Returns the first match in a value at byte `from` or later, or SIZE_MAX. */
static inline size_t find_in_value(ms_value value, ms_str needle, bool exact, size_t from,
                                   size_t *length)
{
    ms__needle n;
    size_t at = SIZE_MAX, len = 0;
    if (needle.len > 0) {
        ms__needle_make(&n, needle, exact);
        at = ms__find_value(&n, value.text, value.json, from, &len);
    }
    if (length != NULL) *length = at == SIZE_MAX ? 0 : len;
    return at;
}


/* ---- slow answers to compare with ---- */

static unsigned char slow_lower(unsigned char c)
{
    return c >= 'A' && c <= 'Z' ? (unsigned char)(c + 32) : c;
}

static bool slow_same(char a, char b, bool exact)
{
    if (exact) return a == b;
    return slow_lower((unsigned char)a) == slow_lower((unsigned char)b);
}

static size_t slow_find(ms_str text, ms_str needle, bool exact, size_t from)
{
    if (needle.len == 0) return SIZE_MAX;
    for (size_t s = from; s <= text.len && needle.len <= text.len - s; s++) {
        size_t i = 0;
        while (i < needle.len && slow_same(text.ptr[s + i], needle.ptr[i], exact)) i++;
        if (i == needle.len) return s;
    }
    return SIZE_MAX;
}

/* JSON text as escapes and single bytes, with the characters that each stands for. */
typedef struct token {
    size_t at, len;
    char read[4];
    size_t n_read;
} token;

static unsigned slow_hex(const char *p)
{
    char digits[5] = {p[0], p[1], p[2], p[3], '\0'};
    return (unsigned)strtoul(digits, NULL, 16);
}

static size_t slow_utf8(unsigned c, char *out)
{
    static const unsigned from[] = {0x80, 0x800, 0x10000, 0x110000};
    static const unsigned char lead[] = {0, 0xC0, 0xE0, 0xF0};
    size_t n = 0;
    while (c >= from[n]) n++;
    for (size_t i = n; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 63));
    out[0] = (char)(lead[n] | c);
    return n + 1;
}

static token slow_escape(ms_str json, size_t at)
{
    static const char names[] = "\"\\/bfnrt", reads[] = "\"\\/\b\f\n\r\t";
    const char *p = json.ptr + at;
    token t = {at, 2, {0}, 1};
    if (p[1] != 'u') {
        t.read[0] = reads[strchr(names, p[1]) - names];
        return t;
    }
    unsigned c = slow_hex(p + 2);
    t.len = 6;
    if (c >= 0xD800 && c < 0xDC00 && at + 12 <= json.len && p[6] == '\\' && p[7] == 'u') {
        unsigned low = slow_hex(p + 8);
        if (low >= 0xDC00 && low < 0xE000) {
            t.len = 12;
            c = 0x10000 + (c - 0xD800) * 0x400 + (low - 0xDC00);
        }
    }
    if (c >= 0xD800 && c < 0xE000) c = 0xFFFD;
    t.n_read = slow_utf8(c, t.read);
    return t;
}

static size_t slow_tokens(ms_str json, token *out)
{
    size_t n = 0;
    for (size_t at = 0; at < json.len; at += out[n++].len) {
        token byte = {at, 1, {json.ptr[at]}, 1};
        out[n] = json.ptr[at] == '\\' ? slow_escape(json, at) : byte;
    }
    return n;
}

/* How many tokens the needle takes from t on, as they read, or as they are spelled; 0: it
 * is not there. */
static size_t slow_take(const token *t, size_t n, ms_str json, ms_str needle, bool exact,
                        bool spelled)
{
    size_t i = 0, used = 0;
    for (; i < needle.len && used < n; used++) {
        const char *p = spelled ? json.ptr + t[used].at : t[used].read;
        size_t len = spelled ? t[used].len : t[used].n_read;
        if (!spelled && t[used].len == 1 && p[0] == '"') return 0;
        if (len > needle.len - i) return 0;
        for (size_t k = 0; k < len; k++)
            if (!slow_same(p[k], needle.ptr[i++], exact)) return 0;
    }
    return i == needle.len ? used : 0;
}

static size_t slow_find_json(ms_str json, ms_str needle, bool exact, size_t from,
                             size_t *length)
{
    token *t = (token *)twin_memory(NULL, (json.len + 1) * sizeof *t);
    size_t n = slow_tokens(json, t), at = SIZE_MAX;
    for (size_t i = 0; i < n && at == SIZE_MAX && needle.len > 0; i++) {
        if (t[i].at < from) continue;
        size_t used = slow_take(t + i, n - i, json, needle, exact, false);
        if (used == 0) used = slow_take(t + i, n - i, json, needle, exact, true);
        if (used == 0) continue;
        at = t[i].at;
        *length = t[i + used - 1].at + t[i + used - 1].len - at;
    }
    free(t);
    return at;
}

static size_t slow_find_value(ms_value v, ms_str needle, bool exact, size_t from,
                              size_t *length)
{
    *length = needle.len;
    if (v.json) return slow_find_json(v.text, needle, exact, from, length);
    return slow_find(v.text, needle, exact, from);
}


/* ---- scanning ---- */

static size_t find_in(ms_str text, ms_str needle, bool exact, size_t from)
{
    return find_in_value(ms_text_n(text), needle, exact, from, NULL);
}

static void must_agree(ms_str text, ms_str needle, bool exact, size_t from)
{
    size_t want = slow_find(text, needle, exact, from);
    size_t got = find_in(text, needle, exact, from);
    if (got != want) fail_msg("'%.*s' at %zd, not %zd", (int)needle.len, needle.ptr,
                              (ssize_t)got, (ssize_t)want);
}

/* Few different bytes, so that much is nearly there. */
static void random_bytes(uint64_t *rng, char *out, size_t len)
{
    static const char *const sets[] = {"ab", "aAbB", "a", "aB@`[{",
                                       "etaoin shrdlu,.ZzQq"};
    const char *set = sets[test_below(rng, 5)];
    bool any = test_one_in(rng, 6);
    for (size_t i = 0; i < len; i++)
        out[i] = any ? (char)test_random(rng) : set[test_below(rng, strlen(set))];
}

/* A part of the text, perhaps with one byte changed, or anything; now and then nothing. */
static ms_str random_needle(uint64_t *rng, ms_str text, char *out, size_t most)
{
    size_t len = 1 + (size_t)test_below(rng, test_one_in(rng, 3) ? most : 6);
    if (test_one_in(rng, 50)) return ms_str_of(test_one_in(rng, 2) ? "" : NULL);
    random_bytes(rng, out, len);
    if (text.len >= len && !test_one_in(rng, 3))
        memcpy(out, text.ptr + test_below(rng, text.len - len + 1), len);
    if (test_one_in(rng, 3)) out[test_below(rng, len)] ^= 0x20;
    if (test_one_in(rng, 4)) out[test_below(rng, len)] = 'x';
    return ms_str_n(out, len);
}

/* At every alignment, and at both ends of a page: nothing is read beyond a text, which
 * may be absent, and letters of ASCII alone have two cases. */
TEST(a_scan_finds_the_same_at_every_alignment)
{
    enum { MOST = 300, NEEDLE = 80 };
    static char needle[NEEDLE];
    uint64_t rng = test_seed();
    size_t size = 64 + MOST;
    char *page = guarded_room(&size);
    for (size_t round = 0; round < test_times(100000); round++) {
        size_t len = (size_t)test_below(&rng, test_one_in(&rng, 2) ? MOST + 1 : 50);
        char *text = test_one_in(&rng, 3) ? page + size - len : page + round % 64;
        random_bytes(&rng, text, len);
        ms_str t = ms_str_n(len > 0 || test_one_in(&rng, 2) ? text : NULL, len);
        ms_str n = random_needle(&rng, t, needle, NEEDLE);
        size_t from = test_one_in(&rng, 2) ? 0 : (size_t)test_below(&rng, len + 3);
        if (test_one_in(&rng, 100)) from = SIZE_MAX - (size_t)test_below(&rng, 2);
        must_agree(t, n, test_one_in(&rng, 2), from);
    }
}


/* ---- JSON ---- */

TEST(escapes_hide_nothing_and_make_nothing_up)
{
    enum { NO = -1 };
    static const struct {
        const char *json, *needle;
        int at, length;
        bool exact;
    } t[] = {
        {"\"say \\\"hi\\\" now\"", "say \"hi\"", 1, 10, true},
        {"\"say \\\"hi\"", "say \"hi\"", NO, 0, true}, /* a quote ends the string */
        {"{\"limit\":10}", "\"limit\":10", 1, 10, true},
        {"{\"limit\":10}", "LIMIT", 2, 5, false},
        {"\"a\\/b\"", "a/b", 1, 4, true},
        {"\"a/b\"", "a\\/b", NO, 0, true},
        {"\"caf\\u00e9\"", "\\u00e9", 4, 6, true},
        {"\"caf\\u00e9\"", "\\u00E9", NO, 0, true},
        {"\"caf\\u00e9\"", "\\u00E9", 4, 6, false},
        {"\"\\uD83D\\uDE42 ok\"", "\xf0\x9f\x99\x82", 1, 12, true},
        {"\"\\uD83D\\uDE42\"", "\\uDE42", NO, 0, true}, /* half a pair */
        {"\"\\uD83D\\uDE42\"", "\\uD83D\\uDE42", 1, 12, true},
        {"\"\\u0022q\\\"\"", "\"q\"", 1, 9, true},
        {"[\"ab\",\"cd\"]", "ab\",\"cd", 2, 7, true},
        {"[\"a\\nb\",\"cd\"]", "a\nb\",\"cd", NO, 0, true}, /* neither way as a whole */
        {"\"aa\\\"a\\\"\"", "a\"", 2, 3, true},
    };
    for (size_t i = 0; i < COUNT(t); i++) {
        size_t length = 99, slow_length = 0;
        ms_str json = ms_str_of(t[i].json), needle = ms_str_of(t[i].needle);
        size_t at = find_in_value(ms_json(json), needle, t[i].exact, 0, &length);
        size_t want = t[i].at < 0 ? SIZE_MAX : (size_t)t[i].at;
        if (at != want || length != (size_t)t[i].length)
            fail_msg("%s in %s: %zu bytes at %zd, not %d at %d", t[i].needle, t[i].json,
                     length, (ssize_t)at, t[i].length, t[i].at);
        assert_int_equal(slow_find_json(json, needle, t[i].exact, 0, &slow_length), want);
        assert_int_equal(slow_length, (size_t)t[i].length);
    }
}

/* One character in a random spelling; returns bytes. */
static size_t spell(uint64_t *rng, unsigned c, char *out)
{
    static const char names[] = "\"\\/bfnrt", reads[] = "\"\\/\b\f\n\r\t";
    const char *at = c < 128 ? strchr(reads, (int)c) : NULL;
    const char *form = test_one_in(rng, 2) ? "\\u%04x" : "\\u%04X";
    bool must = c < 0x20 || c == '"' || c == '\\';
    if (!must && !test_one_in(rng, 4)) return slow_utf8(c, out);
    if (at != NULL && !test_one_in(rng, 3)) {
        out[0] = '\\';
        out[1] = names[at - reads];
        return 2;
    }
    if (c < 0x10000) return (size_t)sprintf(out, form, c);
    size_t n = (size_t)sprintf(out, form, 0xD800 + ((c - 0x10000) >> 10));
    return n + (size_t)sprintf(out + n, form, 0xDC00 + (c & 0x3FF));
}

/* ["...","..."]; the characters of the strings go to `say`, one after the other, with
 * first and last byte of each in `ends`. */
typedef struct spelled {
    char json[2000], say[600];
    size_t len, said, strings, ends[5][2];
} spelled;

static void random_json(uint64_t *rng, spelled *s)
{
    static const unsigned list[] = {'a', 'A', 'b', 'n', 'u', '0', '9', ' ', '"', '\\',
                                    '/', '\n', '\t', 0xE9, 0xC9, 0x65E5, 0x1F642, 0xFFFD};
    size_t kinds = 2 + (size_t)test_below(rng, 17);
    memset(s, 0, sizeof *s);
    s->json[s->len++] = '[';
    s->strings = 1 + (size_t)test_below(rng, 4);
    for (size_t i = 0; i < s->strings; i++) {
        if (i > 0) s->json[s->len++] = ',';
        s->json[s->len++] = '"';
        s->ends[i][0] = s->said;
        for (size_t n = (size_t)test_below(rng, 30); n > 0; n--) {
            unsigned c = list[test_below(rng, kinds)];
            s->len += spell(rng, c, s->json + s->len);
            s->said += slow_utf8(c, s->say + s->said);
        }
        s->ends[i][1] = s->said;
        s->json[s->len++] = '"';
    }
    s->json[s->len++] = ']';
}

/* A part of the characters of a string, or of its spelling; whole characters. */
static ms_str json_needle(uint64_t *rng, const spelled *s, char *out)
{
    bool said = !test_one_in(rng, 4);
    const char *from = said ? s->say : s->json;
    size_t len = said ? s->said : s->len, at = (size_t)test_below(rng, len + 1);
    size_t n = 1 + (size_t)test_below(rng, test_one_in(rng, 4) ? 30 : 5);
    if (len == 0) return MS_STR("a");
    if (n > len - at) n = len - at;
    while (at > 0 && ((unsigned char)from[at] & 0xC0) == 0x80) at--, n++;
    while (at + n < len && ((unsigned char)from[at + n] & 0xC0) == 0x80) n++;
    memcpy(out, from + at, n);
    if (n > 0 && test_one_in(rng, 5) && (unsigned char)out[0] < 128)
        out[0] = test_one_in(rng, 2) ? 'A' : '\\';
    return n > 0 ? ms_str_n(out, n) : MS_STR("\\");
}

/* Another reader of JSON: is the needle in one of its strings? */
static bool jansson_has(const spelled *s, ms_str needle)
{
    json_t *list = json_loadb(s->json, s->len, JSON_ALLOW_NUL, NULL);
    bool there = false;
    assert_int_equal(json_array_size(list), s->strings);
    for (size_t i = 0; i < s->strings; i++) {
        json_t *one = json_array_get(list, i);
        ms_str said = ms_str_n(json_string_value(one), json_string_length(one));
        assert_int_equal(said.len, s->ends[i][1] - s->ends[i][0]);
        there = there || slow_find(said, needle, true, 0) != SIZE_MAX;
    }
    json_decref(list);
    return there;
}

/* In JSON that ends anywhere, before a page that may not be touched. */
static void find_in_truncated(const spelled *s, ms_str needle, char *end, size_t len)
{
    size_t length, from = 0, at;
    ms_value v = ms_json(ms_str_n(end - len, len));
    memcpy(end - len, s->json, len);
    while ((at = find_in_value(v, needle, false, from, &length)) != SIZE_MAX) {
        assert_true(at >= from && length > 0 && at + length <= len);
        from = at + length;
    }
}

/* All matches, one after the other; the text stands at either end of a page. */
TEST(any_spelling_in_json_is_found)
{
    static spelled s;
    static char room[2000];
    uint64_t rng = test_seed();
    size_t size = 1, found = 0;
    char *page = guarded_room(&size);
    for (size_t round = 0; round < test_times(30000); round++) {
        random_json(&rng, &s);
        ms_str needle = json_needle(&rng, &s, room);
        char *text = test_one_in(&rng, 2) ? page : page + size - s.len;
        memcpy(text, s.json, s.len);
        ms_value v = ms_json(ms_str_n(text, s.len));
        bool exact = test_one_in(&rng, 2), there = exact && jansson_has(&s, needle);
        for (size_t from = 0, n = 0;; n++) {
            size_t got_len = 0, want_len = 0;
            size_t want = slow_find_json(v.text, needle, exact, from, &want_len);
            size_t got = find_in_value(v, needle, exact, from, &got_len);
            if (got != want || got_len != want_len || (n == 0 && there && got == SIZE_MAX))
                fail_msg("'%.*s' in %s from %zu: %zu at %zd, not %zu at %zd, jansson: %d",
                         (int)needle.len, needle.ptr, s.json, from, got_len, (ssize_t)got,
                         want_len, (ssize_t)want, there);
            if (got == SIZE_MAX) break;
            from = got + got_len;
        }
        found += there;
        find_in_truncated(&s, needle, page + size, (size_t)test_below(&rng, s.len + 1));
    }
    assert_true(found > test_times(30000) / 16);
}


/* ---- snippets ---- */

TEST(snippets_are_whole_characters)
{
    uint64_t rng = test_seed();
    for (size_t round = 0; round < test_times(20000); round++) {
        static const unsigned list[] = {'a', ' ', 0xE9, 0x65E5, 0x1F642};
        char text[400];
        size_t start[101], n = 1 + (size_t)test_below(&rng, 99), len = 0;
        for (size_t i = 0; i < n; i++) {
            start[i] = len;
            len += slow_utf8(list[test_below(&rng, 5)], text + len);
        }
        start[n] = len;
        size_t from = (size_t)test_below(&rng, n + 1);
        size_t to = from + (size_t)test_below(&rng, n - from + 1);
        size_t around = (size_t)test_below(&rng, test_one_in(&rng, 3) ? 200 : 10);
        size_t first = from > around ? from - around : 0;
        size_t last = n - to > around ? to + around : n;
        ms_str got = ms_find_snippet(ms_str_n(text, len), start[from],
                                     start[to] - start[from], around);
        assert_ptr_equal(got.ptr, text + start[first]);
        assert_int_equal(got.len, start[last] - start[first]);
        assert_true(ms_utf8_check(got, NULL));
    }
}

TEST(snippets_of_nothing_are_absent)
{
    ms_str text = MS_STR("x\xc3\xa9y");
    static const struct { size_t at, length, around, want; } t[] = {
        {5, 0, 3, 0}, {1, 4, 3, 0}, {1, SIZE_MAX, 3, 0}, {SIZE_MAX, 1, 3, 0},
        {0, 4, SIZE_MAX, 4}, {4, 0, SIZE_MAX, 4},
        {2, 1, 0, 2}, {1, 1, 0, 2}}; /* the whole of the e */
    for (size_t i = 0; i < COUNT(t); i++) {
        ms_str got = ms_find_snippet(text, t[i].at, t[i].length, t[i].around);
        if (got.len != t[i].want || (got.ptr == NULL) != (t[i].want == 0))
            fail_msg("row %zu: %zu bytes", i, got.len);
    }
    assert_null(ms_find_snippet(no_str(), 0, 0, 3).ptr);
}


/* ---- over stores ---- */

static ms_find_query ask(const char *text)
{
    const ms_find_query q = {.text = ms_str_of(text)};
    return q;
}

static void must_open(ms_store *store, const ms_find_query *q, ms_finder *f)
{
    ms_error err;
    must_ok(ms_find_open(store, q, f, &err), &err, "find");
}

/* How many matches a finder has still to return. */
static size_t rest_of(ms_finder *f)
{
    ms_found found;
    size_t n = 0;
    while (ms_find_next(f, &found)) n++;
    assert_null(found.msg);
    return n;
}

/* How many matches there are. */
static size_t matches_of(ms_store *store, const ms_find_query *q)
{
    static ms_finder f;
    ms_find_query every = *q;
    ms_error err;
    every.every_match = true;
    must_open(store, &every, &f);
    size_t n = rest_of(&f);
    assert_int_equal(rest_of(&f), 0);
    must_ok(ms_find_close(&f, &err), &err, "find");
    return n;
}

/* All matches in one message, or the first one, as the twin has it. */
static void must_find_all_in(const twin_msg *m, const ms_find_query *q, ms_finder *f,
                             bool *begun)
{
    uint32_t fields = q->fields != 0 ? q->fields : MS_FIND_TEXT;
    for (int i = 1; i < MS_FIELD_COUNT; i++) {
        if ((fields >> i & 1) == 0 || m->field[i].text.ptr == NULL) continue;
        for (size_t from = 0;;) {
            ms_found found;
            size_t length;
            size_t at = slow_find_value(m->field[i], q->text, q->exact_case, from,
                                        &length);
            if (at == SIZE_MAX) break;
            if (*begun && !q->every_match) return;
            assert_true(ms_find_next(f, &found));
            assert_int_equal(ms_seq(found.msg), m->seq);
            assert_int_equal(found.field, i);
            assert_int_equal(found.at, at);
            assert_int_equal(found.length, length);
            *begun = true;
            from = at + length;
        }
    }
}

static size_t must_find(const twin *t, ms_store *store, const ms_find_query *q)
{
    static ms_finder f;
    const twin_msg **want =
        (const twin_msg **)twin_memory(NULL, (t->count + 1) * sizeof want[0]);
    ms_query plain = q->query;
    ms_found found;
    ms_error err;
    size_t with = 0;
    plain.reverse = !q->oldest_first;
    size_t n = twin_query(t, &plain, want);
    must_open(store, q, &f);
    for (size_t i = 0; i < n; i++) {
        bool begun = false;
        must_find_all_in(want[i], q, &f, &begun);
        with += begun;
    }
    assert_false(ms_find_next(&f, &found));
    assert_int_equal(f.it.returned, n);
    must_ok(ms_find_close(&f, &err), &err, "find");
    free(want);
    return with;
}

/* Bytes of some record, as far as they are UTF-8: a part of a field, the end of one and the
 * beginning of the next, or no text at all; else "job". */
static ms_str needle_of_record(uint64_t *rng, const twin *t, ms_store *store)
{
    const ms_msg *msg;
    uint64_t seq = t->items[test_below(rng, t->count)]->seq;
    assert_int_equal(ms_get_by_seq(store, seq, NULL, &msg, NULL), MS_OK);
    size_t body = ms_size(msg) - 32, len = 1 + (size_t)test_below(rng, 12);
    size_t at = 32 + (size_t)test_below(rng, body - (len < body ? len : 1));
    ms_str text = ms_str_n((const char *)msg + at, len < body ? len : 1);
    return ms_utf8_check(text, NULL) ? text : MS_STR("job");
}

TEST_WITH(ON_EVERY_STORE, a_search_is_its_query_filtered)
{
    static const char *const texts[] = {
        "x", "12345678", "\"q\"", "b", "MORE", "lines \"", "\xc3\xa9", "null", "abcdef",
        "0123456789:;<=>?@ab", "\\u00e9", "a\":", "job", "w1", "\n", "\xf0\x9f\x99\x82",
        "aa"}; /* matches do not overlap */
    uint64_t rng = test_seed();
    test_alloc heap;
    test_alloc_init(&heap);
    const store_options options = {.alloc = heap.alloc};
    test_store s = store_open((store_kind *)*state, &options);
    ms_arena arena;
    twin t;
    size_t with = 0;
    twin_init(&t);
    t.keep_unset_times = true;
    test_arena_init(&arena, NULL);
    for (size_t round = 0; round < test_times(30); round++) {
        for (size_t i = 0; i < 20; i++) {
            const ms_append_opts opts = {.keep_seq = false};
            ms_envelope m = random_message(&rng);
            if (!m.has_time) m.has_time = true, m.time_ns = SECONDS(5);
            if (test_one_in(&rng, 4)) m.summary = MS_STR("aaaaaaa");
            assert_int_equal(twin_append_both(&t, s.store, &m, 1, &opts, NULL), MS_OK);
        }
        for (size_t i = 0; i < 30; i++) {
            ms_str team[TEAM_MAX];
            ms_find_query q = ask(texts[test_below(&rng, COUNT(texts))]);
            q.query = random_query(&rng, twin_last_seq(&t), team, &arena);
            q.oldest_first = test_one_in(&rng, 3);
            q.exact_case = test_one_in(&rng, 3);
            q.every_match = !test_one_in(&rng, 3);
            if (test_one_in(&rng, 3)) q.fields = MS_FIND_ALL;
            if (test_one_in(&rng, 4))
                q.fields = (uint32_t)test_random(&rng) & MS_FIND_ALL;
            size_t calls = heap.calls;
            if (test_one_in(&rng, 2)) q.text = needle_of_record(&rng, &t, s.store);
            with += must_find(&t, s.store, &q);
            if (s.kind->arena) assert_int_equal(heap.calls, calls);
            ms_arena_reset(&arena);
        }
        if (round % 8 == 7) store_reopen(&s);
    }
    assert_true(with >= test_times(30)); /* it was not all in vain */
    ms_arena_deinit(&arena);
    twin_deinit(&t);
    store_close(&s);
    test_alloc_done(&heap);
}

/* The finder sees the store as of its opening, and messages stay as in any cursor. */
TEST_WITH(ON_EVERY_STORE, a_search_does_not_see_later_messages)
{
    static ms_finder f;
    test_store s = store_open((store_kind *)*state, NULL);
    ms_find_query q = ask("word");
    ms_found found;
    uint64_t first = append_text(s.store, "a word");
    uint64_t second = append_text(s.store, "a word more");
    must_open(s.store, &q, &f);
    assert_true(ms_find_next(&f, &found));
    assert_int_equal(ms_seq(found.msg), second);
    append_text(s.store, "one more word");
    assert_true(ms_find_next(&f, &found));
    assert_int_equal(ms_seq(found.msg), first);
    assert_false(ms_find_next(&f, &found));
    assert_int_equal(ms_find_close(&f, NULL), MS_OK);
    assert_int_equal(ms_find_close(&f, NULL), MS_OK);
    assert_false(ms_find_next(&f, &found));
    assert_int_equal(matches_of(s.store, &q), 3);
    store_close(&s);
}

/* Amended, hidden, redacted, still being written: as views show it; raw, as it stands. */
TEST_WITH(ON_EVERY_STORE, changed_messages_are_searched_as_views_show_them)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_find_query before = ask("before"), after = ask("after"), part = ask("be written");
    ms_arena arena;
    ms_stream stream;
    uint64_t first = append_text(s.store, "as it was before");
    uint64_t second = append_text(s.store, "also before");
    uint64_t third = append_text(s.store, "a third one before");
    ms_envelope m = ms_observation(ms_text("as it is after"), ms_str_of(NULL));
    assert_int_equal(ms_amend(s.store, first, &m, NULL), MS_OK);
    assert_int_equal(ms_hide(s.store, second, NULL), MS_OK);
    assert_int_equal(matches_of(s.store, &before), 1);
    assert_int_equal(matches_of(s.store, &after), 1);
    before.query.raw = MS_RAW_MESSAGES;
    assert_int_equal(matches_of(s.store, &before), 3);
    assert_int_equal(ms_redact(s.store, third, NULL), MS_OK);
    assert_int_equal(matches_of(s.store, &before), 2);
    before.query.raw = 0;
    assert_int_equal(matches_of(s.store, &before), 0);

    m = ms_assistant_message(ms_text("to be "));
    test_arena_init(&arena, NULL);
    assert_int_equal(ms_stream_begin(&stream, s.store, MS_STR("job"), &m, NULL, NULL),
                     MS_OK);
    assert_int_equal(ms_stream_feed(&stream, MS_STR("written"), NULL), MS_OK);
    assert_int_equal(test_stream_flush(&stream, NULL), MS_OK);
    assert_int_equal(matches_of(s.store, &part), 0);
    part.query.arena = &arena;
    assert_int_equal(matches_of(s.store, &part), 1);
    part.query.arena = NULL;
    assert_int_equal(ms_stream_end(&stream, NULL, NULL, NULL), MS_OK);
    assert_int_equal(matches_of(s.store, &part), 1);
    ms_arena_deinit(&arena);
    store_close(&s);
}

TEST_WITH(ON_EVERY_STORE, a_search_is_refused_when_its_question_is_bad)
{
    static ms_finder f;
    test_store s = store_open((store_kind *)*state, NULL);
    ms_found found;
    ms_error err;
    append_text(s.store, "word");
    static const struct {
        ms_str text;
        uint32_t fields;
        unsigned views;
        ms_result want;
        const char *path;
    } t[] = {
        {{"", 0}, 0, 0, MS_E_ARGUMENT, "text"},
        {{NULL, 0}, 0, 0, MS_E_ARGUMENT, "text"},
        {{"\xc3", 1}, 0, 0, MS_E_UTF8, "text"},
        {{"\xa9", 1}, 0, 0, MS_E_UTF8, "text"},
        {{"word\xff", 5}, 0, 0, MS_E_UTF8, "text"},
        {{"word", 4}, 1, 0, MS_E_ARGUMENT, "fields"},
        {{"word", 4}, (uint32_t)1 << MS_FIELD_COUNT, 0, MS_E_ARGUMENT, "fields"},
        {{"word", 4}, 0, MS_VIEW_AGENT, MS_E_ARGUMENT, "agent_key"},
        {{"word", 4}, 0, 64, MS_E_ARGUMENT, "views"},
    };
    for (size_t i = 0; i < COUNT(t); i++) {
        ms_find_query q = ask("");
        q.text = t[i].text;
        q.fields = t[i].fields;
        q.query.views = t[i].views;
        memset(&f, 0x5A, sizeof f);
        assert_int_equal(ms_find_open(s.store, &q, &f, &err), t[i].want);
        assert_string_equal(err.path, t[i].path);
        assert_false(ms_find_next(&f, &found));
        assert_int_equal(ms_find_close(&f, NULL), t[i].want);
    }
    ms_find_query q = ask("word");
    assert_int_equal(ms_find_open(s.store, NULL, &f, &err), MS_E_ARGUMENT);
    assert_int_equal(ms_find_open(NULL, &q, &f, &err), MS_E_CLOSED);
    assert_false(ms_find_next(&f, &found));
    assert_int_equal(ms_find_close(NULL, NULL), MS_OK);
    memset(&f, 0, sizeof f);
    assert_int_equal(ms_find_close(&f, NULL), MS_OK);
    store_close(&s);
}

TEST_WITH(IN_A_BUFFER, damage_costs_one_message_and_is_reported)
{
    static ms_finder f;
    test_store s = store_open((store_kind *)*state, NULL);
    own_store own;
    for (int i = 0; i < 100; i++) append_text(s.store, "a Needle, and so on");
    const ms_find_query q = ask("needle");
    assert_int_equal(matches_of(s.store, &q), 100);
    own_open(&own, s.store);
    own.damaged_each = 77;
    must_open(&own.base, &q, &f);
    assert_int_equal(rest_of(&f), 99);
    assert_int_equal(ms_find_close(&f, NULL), MS_E_DAMAGED);
    store_close(&s);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
