/* JSON beside jansson and naive twins.
 *
 *   - Random and broken texts, strict and with repair, at any limit of depth: verdict,
 *     place of an error, every value, and what the writer makes of them. No function
 *     looks outside its view, checked or not: texts stand between two pages that may not
 *     be touched.
 *   - UTF-8, and any bytes as a string, beside a table of Unicode's and a naive writer.
 *   - What is accepted and refused (JSONTestSuite), errors and calls of a writer as
 *     tables list them, nesting, sinks that fail and memory that ends.
 *
 * Numbers are in test_numbers. */
#define _GNU_SOURCE
#include "guard_pages.h"
#include "json_maker.h"
#include "json_twin.h"
#include "low_memory.h"
#include "arena.h"

#include <dirent.h>
#include <pthread.h>



/* ---- UTF-8 and strings ---- */

/* Writes a JSON string naively: the short escapes, \u00XX for the other control
 * characters, all else as it is. */
static size_t naive_string(const char *text, size_t len, char *to)
{
    static const char shorts[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
    size_t n = 0;
    to[n++] = '"';
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        const char *found = c != '\0' ? strchr(shorts, c) : NULL;
        if (found != NULL) n += (size_t)sprintf(to + n, "\\%c", names[found - shorts]);
        else if ((unsigned char)c < 0x20) n += (size_t)sprintf(to + n, "\\u%04x", c);
        else to[n++] = c;
    }
    to[n++] = '"';
    return n;
}

/* Any bytes become a JSON string, and the same name of a member; the library and jansson
 * decode it to what went in, repaired. */
static bool is_written_like_the_twin(ms_str text)
{
    static char want[3 * TEXT_MAX], naive[6 * TEXT_MAX];
    ms_json_writer w;
    ms_buf out = {&arena, NULL, 0, 0};
    ms_str s;
    size_t len = naive_repair(text, want), n = naive_string(want, len, naive);
    ms_json_init(&w, ms_buf_write, &out, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    ms_json_key(&w, text);
    ms_json_put_string(&w, text);
    ms_json_end(&w);
    if (ms_json_finish(&w) != MS_OK || out.len != 2 * n + 3) return false;
    ms_str json = ms_str_n(out.ptr + 1, n);
    if (!same(json, naive, n) || !same(json, out.ptr + n + 2, n)) return false;
    if (ms_json_check(ms_buf_text(&out), NULL, NULL, NULL) != MS_OK) return false;
    json_t *back = json_parse_n(json.ptr, json.len);
    bool right = back != NULL && same(ms_str_n(want, len), json_string_value(back),
                                      json_string_length(back));
    json_decref(back);
    return right && ms_json_string(json, &arena, &s) == MS_OK && same(s, want, len);
}

/* All sequences of up to three bytes, and all that begin a sequence of four; some of
 * them are written, too. */
TEST(utf8_is_checked_like_the_twin)
{
    size_t stride = test_scale() >= 100 ? 1 : 251;
    for (uint32_t n = 0; n < (1u << 24); n += (uint32_t)stride) {
        unsigned char b[4] = {(unsigned char)(n >> 16), (unsigned char)(n >> 8),
                              (unsigned char)n, 0x80};
        size_t len = b[0] >= 0xF0 ? 4 : 3, want, bad = 77;
        bool fine = naive_utf8(b, len, &want);
        ms_str text = ms_str_n((const char *)b, len);
        bool good = ms_utf8_check(text, &bad);
        if (good != fine || bad != (good ? 77 : want))
            fail_msg("%02x %02x %02x: %lu", b[0], b[1], b[2], (unsigned long)bad);
        if (n / stride % 64 != 0) continue;
        if (!is_written_like_the_twin(text))
            fail_msg("%02x %02x %02x: written otherwise", b[0], b[1], b[2]);
        ms_arena_reset(&arena);
    }
    for (uint32_t c = 0; c <= 0x10FFFF; c += c < 0x3000 ? 1 : 97) {
        char text[4];
        if (!is_written_like_the_twin(ms_str_n(text, put_utf8(text, c))))
            fail_msg("U+%04X: written otherwise", (unsigned)c);
        ms_arena_reset(&arena);
    }
    assert_true(ms_utf8_check(ms_str_of(NULL), NULL));
    assert_true(ms_utf8_check(MS_STR(""), NULL));
}

/* The text that a string is compared with may end anywhere, too. */
TEST(string_is_compared_between_guard_pages)
{
    for (size_t len = 0; len < 4; len++) {
        ms_str end = at_end("a\xe2\x82\xac", len);
        assert_false(ms_json_string_is(MS_STR("\"a\xe2\x82\xac\""), end));
        assert_false(ms_json_string_is(MS_STR("\"\\u0061\\u20ac\""), end));
    }
    assert_null(kind_differs(ms_str_of(NULL), MS_JSON_NONE));
    assert_null(kind_differs(at_end("", 0), MS_JSON_NONE));
}

/* Spells a number as a string of up to six tokens; returns its length. */
static size_t token_string(unsigned n, char to[32])
{
    static const char *const tokens[] = {"\\", "u", "\"", "\xc3\xa9", "0",
                                         "D",  "8", "\x80", "\n"};
    size_t len = 1;
    to[0] = '"';
    for (; n > 0; n = (n - 1) / 9)
        len += (size_t)sprintf(to + len, "%s", tokens[(n - 1) % 9]);
    to[len++] = '"';
    return len;
}

/* All strings of up to six tokens, most of them malformed. An arena has given all the
 * bytes that the decoded text takes, and the writer makes JSON of it. */
TEST(string_stays_in_its_room_when_malformed)
{
    char text[32], room[128];
    unsigned step = test_scale() >= 100 ? 1 : 7;
    for (unsigned n = 0; n <= 9 + 81 + 729 + 6561 + 59049 + 531441; n += step) {
        ms_arena in;
        ms_json_writer w;
        ms_buf out = {&arena, NULL, 0, 0};
        ms_str s, json = at_end(text, token_string(n, text));
        memset(&in, 0, sizeof in);
        in.buffer = room;
        in.buffer_size = sizeof room;
        if (ms_json_string(json, &in, &s) != MS_OK) continue;
        if (s.len > (s.ptr == json.ptr + 1 ? json.len - 2 : in.buffer_used)) {
            show("longer than its room", json.ptr, json.len);
            fail();
        }
        if (n % 16 != 0) continue;
        ms_json_init(&w, ms_buf_write, &out, false);
        ms_json_put_raw(&w, json);
        (void)ms_json_finish(&w);
        if (memchr(text + 1, '"', json.len - 2) == NULL) /* else more than one value */
            assert_int_equal(ms_json_check(ms_buf_text(&out), NULL, NULL, NULL), MS_OK);
        ms_arena_reset(&arena);
    }
}

/* A code, and out as it was. */
static ms_result decoding_low_memory(void *view, ms_arena *in)
{
    const ms_str v = *(const ms_str *)view;
    ms_str s = MS_STR("untouched");
    ms_result code = ms_json_string(v, in, &s);
    if (code == MS_OK) assert_int_equal(s.len, v.len - 3);
    else assert_true(ms_str_equal(s, MS_STR("untouched")));
    return code;
}

TEST(string_is_untouched_when_memory_ends)
{
    char text[512];
    memset(text, 'x', sizeof text);
    memcpy(text, "\"\\n", 3);
    text[sizeof text - 1] = '"';
    ms_str v = at_end(text, sizeof text);
    assert_int_equal(decoding_low_memory(&v, NULL), MS_E_ARENA);
    assert_true(low_memory(decoding_low_memory, &v, 64) > 1);
}


/* ---- generated and broken texts against jansson ---- */

/* Returns a text with U+FFFD for each sequence of bytes that is not UTF-8, and for each
 * half of a pair of surrogates. */
static ms_str mended(ms_str text)
{
    char *to = (char *)ms_arena_alloc(&arena, 3 * text.len + 1);
    size_t n = 0, step;
    bool in_string = false;
    assert_non_null(to);
    for (size_t i = 0; i < text.len; i += step) {
        const char *at = text.ptr + i;
        size_t left = text.len - i, bad;
        uint32_t unit = in_string ? escaped_unit(at, left) : 0, low = 0;
        step = naive_character((const unsigned char *)at, left, &bad);
        if (step == 0) step = bad;
        if (*at == '"') in_string = !in_string;
        if (in_string && *at == '\\' && left > 1) step = unit != 0 ? 6 : 2;
        if (unit >= 0xD800 && unit < 0xDC00 && left >= 12)
            low = escaped_unit(at + 6, left - 6);
        if (low >= 0xDC00 && low < 0xE000) step = 12;
        bool lone = unit >= 0xD800 && unit < 0xE000 && step != 12;
        if (lone) memcpy(to + n, "\xef\xbf\xbd", 3);
        n += lone ? 3 : naive_repair(ms_str_n(at, step), to + n);
    }
    to[n] = '\0';
    return ms_str_n(to, n);
}

/* Beside the text without white space around it: what a good check sets, and that it sets
 * nothing else. */
static const char *good_differs(ms_str json, ms_str v, const ms_error *err)
{
    while (json.len > 0 && strchr(" \t\r\n", json.ptr[json.len - 1]) != NULL) json.len--;
    while (json.len > 0 && strchr(" \t\r\n", *json.ptr) != NULL)
        json = ms_str_n(json.ptr + 1, json.len - 1);
    if (v.ptr != json.ptr || v.len != json.len) return "the value is not the text";
    for (size_t i = 0; i < sizeof *err; i++)
        if (((const unsigned char *)err)[i] != 0x5a) return "an error is set";
    return NULL;
}

/* Beside jansson's tree of the text, or of the one that repair makes of it. */
static const char *tree_differs(ms_str json, ms_str v, ms_result got,
                                const ms_json_opts *opts)
{
    ms_str good = opts->repair ? mended(json) : json;
    unsigned most = opts->max_depth != 0 ? opts->max_depth : MS_JSON_MAX_DEPTH;
    bool judges, deep;
    const char *why = NULL;
    json_t *tree = jansson_reads(good.ptr, good.len, &judges);
    if (tree == NULL && judges) return got == MS_OK ? "only jansson refuses" : NULL;
    deep = tree != NULL && nesting(good.ptr, good.len) > most;
    if (deep && got != MS_E_DEPTH) why = "too deep, but not said so";
    if (tree != NULL && !deep && got != MS_OK) why = "only jansson accepts";
    if (why == NULL && got == MS_OK) {
        json_twin twin = {json, &arena};
        if (tree != NULL) why = differs(&twin, v, tree);
        /* the repair of a string spells U+FFFD without an escape */
        bool escaped = opts->repair && strcasestr(good.ptr, "\\ufffd") != NULL;
        if (why == NULL && !escaped) why = written_differs_from(good, v, tree, &arena);
    }
    json_decref(tree);
    return why;
}

/* The same verdict as jansson's, the same values; else what is wrong. A NUL byte outside
 * strings is sometimes skipped by jansson, and never JSON: it is not asked then. */
static const char *disagrees(const char *bytes, size_t len, const ms_json_opts *opts)
{
    ms_str json = at_end(bytes, len), v;
    ms_error err;
    memset(&err, 0x5a, sizeof err);
    ms_result got = ms_json_check(json, opts, &v, &err);
    const char *why = got == MS_OK ? good_differs(json, v, &err)
                      : err.code == got ? error_is_odd(json, opts, &err)
                                        : "another code in the error";
    if (why == NULL && got == MS_OK) why = visit(v, SIZE_MAX, &arena);
    if (why == NULL) why = visit(json, SIZE_MAX, &arena);
    if (why != NULL) return why;
    if (len > 0 && memchr(bytes, '\0', len) != NULL)
        return got == MS_OK ? "a NUL byte is accepted" : NULL;
    return tree_differs(json, v, got, opts);
}

static void must_agree(const char *bytes, size_t len, const ms_json_opts *opts)
{
    const char *why = disagrees(bytes, len, opts);
    if (why != NULL) show(why, bytes, len);
    if (why != NULL)
        fail_msg("depth %u, repair %d: %s", opts->max_depth, opts->repair, why);
}

/* Puts bytes that are not UTF-8, or halves of pairs, into a text. */
static void spoil(maker *m)
{
    for (uint64_t n = below(m, 5); n > 0 && m->len > 2; n--) {
        size_t at = 1 + (size_t)below(m, m->len - 2);
        const char *lone = below(m, 2) ? "\\uDbFf" : "\\udfF\\udC00";
        if (below(m, 3)) m->bytes[at] = (char)(0x80 + below(m, 0x80));
        else if (m->len - at > 13) memcpy(m->bytes + at, lone, strlen(lone));
    }
}

TEST(text_is_read_like_jansson)
{
    static const ms_json_opts strict = {0, false};
    static maker m;
    size_t accepted = 0, times = test_times(100000);
    m.random = test_seed();
    for (size_t i = 0; i < times; i++) {
        ms_json_opts opts = {0, true};
        make_text(&m);
        uint64_t most = below(&m, 8) ? 4 : 12;
        for (uint64_t n = below(&m, 2) ? 1 + below(&m, most) : 0; n > 0; n--) mutate(&m);
        const char *why = visit(at_start(m.bytes, m.len), SIZE_MAX, &arena);
        if (why != NULL) show(why, m.bytes, m.len);
        assert_null(why);
        must_agree(m.bytes, m.len, &strict);
        accepted += ms_json_check(ms_str_n(m.bytes, m.len), NULL, NULL, NULL) == MS_OK;
        if (below(&m, 2)) m.len = 0;
        if (m.len == 0) make_string(&m);
        spoil(&m);
        if (below(&m, 4) == 0)
            opts.max_depth = 1 + (unsigned)below(&m, MS_JSON_MAX_DEPTH);
        if (below(&m, 8) == 0) opts.max_depth = 1 + (unsigned)below(&m, 6);
        must_agree(m.bytes, m.len, &opts);
        if (!is_written_like_the_twin(ms_str_n(m.bytes, m.len)))
            fail_msg("text %lu is written otherwise", (unsigned long)i);
        ms_arena_reset(&arena);
    }
    printf("%lu of %lu texts accepted\n", (unsigned long)accepted, (unsigned long)times);
    assert_true(accepted > times / 3 && accepted < times - times / 10);
}

/* n arrays, or objects, in each other. */
static size_t nested(char *to, size_t n, bool objects)
{
    size_t step = objects ? 5 : 1;
    for (size_t i = 0; i < n; i++) memcpy(to + step * i, objects ? "{\"a\":" : "[", step);
    to[step * n] = '1';
    memset(to + step * n + 1, objects ? '}' : ']', n);
    return step * n + 1 + n;
}

TEST(depth_is_refused_beyond_its_limit)
{
    static const unsigned beyond[] = {MS_JSON_MAX_DEPTH + 1, 1024, UINT32_MAX};
    static char text[240001];
    for (unsigned limit = 0; limit <= MS_JSON_MAX_DEPTH; limit += limit < 2 ? 1 : 255) {
        ms_json_opts opts = {limit, false};
        for (int objects = 0; objects < 2; objects++) {
            size_t most = limit != 0 ? limit : MS_JSON_MAX_DEPTH;
            must_agree(text, nested(text, most, objects), &opts);
            must_agree(text, nested(text, most + 1, objects), &opts);
            ms_str json = at_end(text, nested(text, 40000, objects));
            assert_int_equal(ms_json_check(json, &opts, NULL, NULL), MS_E_DEPTH);
            assert_null(touch(ms_str_n(json.ptr, json.len / 2), &arena));
            assert_null(touch(json, &arena));
            ms_arena_reset(&arena);
        }
    }
    for (size_t i = 0; i < COUNT(beyond); i++) {
        ms_json_opts opts = {beyond[i], false};
        assert_int_equal(ms_json_check(MS_STR("[]"), &opts, NULL, NULL), MS_E_ARGUMENT);
    }
    assert_int_equal(ms_json_check(ms_str_of(NULL), NULL, NULL, NULL), MS_E_SYNTAX);
}


/* ---- positions ---- */

/* A text with NUL bytes inside. */
#define T(literal) literal, sizeof(literal) - 1

/* The offset is that of the first byte that cannot stand there; of a word, an escape or
 * a UTF-8 sequence that is wrong or cut off, its first byte. Random texts have few of
 * these. */
static const struct {
    const char *bytes;
    size_t len;
    ms_result code;
    unsigned offset;
} brokens[] = {
    {T("[1]\0"),                MS_E_SYNTAX, 3},
    {T("nul"),                  MS_E_SYNTAX, 0},
    {T("\"\\"),                 MS_E_SYNTAX, 2},
    {T("\"\\u12"),              MS_E_SYNTAX, 1},
    {T("\"\\u12g4\""),          MS_E_SYNTAX, 1},
    {T("\"a\0b\""),             MS_E_SYNTAX, 2},
    {T("\xef\xbb\xbf[]"),       MS_E_SYNTAX, 0},
    {T("\n\n\n  \"\\n\\n\\q\""), MS_E_SYNTAX, 10},
};

TEST(error_is_at_the_first_byte_that_cannot_stand_there)
{
    static const ms_json_opts strict = {0, false};
    for (size_t i = 0; i < COUNT(brokens); i++) {
        ms_error err;
        ms_str json = ms_str_n(brokens[i].bytes, brokens[i].len);
        ms_result got = ms_json_check(json, NULL, NULL, &err);
        if (got != brokens[i].code || err.offset != brokens[i].offset) {
            show("text", json.ptr, json.len);
            fail_msg("%s at %llu", err.message, (unsigned long long)err.offset);
        }
        must_agree(json.ptr, json.len, &strict);
    }
}


/* ---- writers ---- */

/* Calls of a writer, a letter each. */
static void write_as(ms_json_writer *w, const char *calls)
{
    for (; *calls != '\0'; calls++) {
        switch (*calls) {
        case '[': ms_json_begin(w, MS_JSON_ARRAY); break;
        case '{': ms_json_begin(w, MS_JSON_OBJECT); break;
        case '/': ms_json_end(w); break;
        case 'k': ms_json_key(w, MS_STR("k\n")); break;
        case 's': ms_json_put_string(w, ms_str_n(NULL, 0)); break;
        case 'u': ms_json_put_u64(w, 0); break;
        case 'U': ms_json_put_u64(w, UINT64_MAX); break;
        case 't': ms_json_put_seconds(w, -500000000); break;
        case 'T': ms_json_put_seconds(w, INT64_MAX); break;
        case 'n': ms_json_put_seconds(w, MS_TIME_NONE); break;
        case '4': ms_json_put_raw(w, MS_STR(" 4 ")); break;
        case 'e': ms_json_put_raw(w, MS_STR("\"a\\\\b\\x\"")); break;
        case 'r': ms_json_put_raw(w, MS_STR(" { \"r\":[ ] , \"s\":[1, 2]}")); break;
        case '?': ms_json_put_raw(w, MS_STR("?")); break;
        case '}': ms_json_put_raw(w, MS_STR("[}")); break;
        case '0': ms_json_put_raw(w, ms_str_n(NULL, 0)); break;
        case 'f':
            ms_json_value_follows(w);
            assert_int_equal(w->write(w->ctx, "false", 5), MS_OK);
            break;
        default: ms_json_separator(w, *calls);
        }
    }
}

TEST(writer_does_as_the_table_has_it)
{
    static const struct {
        const char *calls;
        bool pretty;
        const char *want;     /* NULL: a wrong use, of which the first error stays */
    } rows[] = {
        {"", true, ""},
        {"[uU4tTn/", false, "[0,18446744073709551615,4,-0.5,9223372036.854775807,null]"},
        {"{/\n[4n/\ns\nu 4\n", false, "{}\n[4,null]\n\"\"\n0 4\n"},
        {"[s /", false, "[\"\" ]"}, /* inside no new value begins */
        {"{kr/", true, "{\n  \"k\\n\": {\n    \"r\": [],\n    \"s\": [\n      1,\n"
                       "      2\n    ]\n  }\n}"},
        {"f", true, "false"},
        {"{kfkf/", false, "{\"k\\n\":false,\"k\\n\":false}"},
        {"[4ff4/", true, "[\n  4,\n  false,\n  false,\n  4\n]"},
        {"e", false, "\"a\\\\b\\\\x\""}, /* a backslash that begins no escape */
        {"{f/", false, NULL}, {"ff", false, NULL},
        {"[k/", false, NULL}, {"nn", false, NULL}, {"?", false, NULL}, {"0", false, NULL},
        {"}", false, NULL}, {"{", false, NULL}, {"{//", false, NULL},
    };
    ms_json_writer w;
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_buf out = {&arena, NULL, 0, 0};
        ms_json_init(&w, ms_buf_write, &out, rows[i].pretty);
        write_as(&w, rows[i].calls);
        ms_result code = ms_json_finish(&w);
        if (code != (rows[i].want != NULL ? MS_OK : MS_E_ARGUMENT) ||
            (code == MS_OK && !ms_str_equal(ms_buf_text(&out), ms_str_of(rows[i].want))))
            fail_msg("%s: %.*s", rows[i].calls, (int)out.len, out.ptr);
    }
    ms_buf none = {&arena, NULL, 0, 0};
    ms_json_init(&w, ms_buf_write, &none, false);
    ms_json_begin(&w, MS_JSON_STRING);
    assert_int_equal(ms_json_finish(&w), MS_E_ARGUMENT);
    ms_json_init(&w, ms_buf_write, &none, false);
    for (size_t i = 0; i <= 8 * sizeof w.object; i++) ms_json_begin(&w, MS_JSON_ARRAY);
    assert_int_equal(ms_json_finish(&w), MS_E_DEPTH);
}

/* A sink that refuses a call. */
typedef struct sink {
    ms_buf out;
    size_t calls, fail_at;    /* from 1; 0: none */
    ms_result code;
} sink;

static ms_result sink_write(void *ctx, const char *bytes, size_t len)
{
    sink *s = (sink *)ctx;
    return ++s->calls == s->fail_at ? s->code : ms_buf_write(&s->out, bytes, len);
}

/* Makes a text that is long enough for many calls of a sink. */
static ms_str long_text(void)
{
    static maker m;
    char plain[600] = ""; /* more than a writer holds back */
    memset(plain, 'p', sizeof plain - 1);
    m.random = test_seed() + 2;
    do {
        m.len = 0;
        add_text(&m, "[\"");
        add_text(&m, plain);
        for (add_text(&m, "\","); m.len < 9000; add_text(&m, ",")) make_value(&m, 2);
        m.bytes[m.len - 1] = ']';
    } while (ms_json_check(ms_str_n(m.bytes, m.len), NULL, NULL, NULL) != MS_OK);
    return ms_str_n(m.bytes, m.len);
}

/* The first error is kept, the sink is not called again, what it got is a beginning. */
TEST(error_stays_when_a_sink_fails)
{
    static const ms_result codes[] = {MS_E_IO, MS_E_FULL, MS_E_ARENA};
    ms_str text = long_text();
    for (int pretty = 0; pretty < 2; pretty++) {
        sink whole = {{&arena, NULL, 0, 0}, 0, 0, MS_OK};
        for (size_t k = 0; k <= whole.calls; k++) {
            ms_json_writer w;
            sink s = {{&arena, NULL, 0, 0}, 0, k, codes[k % 3]};
            ms_json_init(&w, sink_write, &s, pretty);
            assert_true(build(&w, text, &arena));
            for (int i = 0; i < 2; i++)
                assert_int_equal(ms_json_finish(&w), k > 0 ? s.code : MS_OK);
            if (k == 0) whole = s;
            assert_true(whole.calls > 5 && s.calls == (k > 0 ? k : whole.calls));
            assert_true(k == 0 || s.out.len < whole.out.len);
            if (s.out.len > 0) assert_memory_equal(s.out.ptr, whole.out.ptr, s.out.len);
        }
    }
}

static ms_result writing_low_memory(void *text, ms_arena *in)
{
    ms_json_writer w;
    ms_buf buf = {in, NULL, 0, 0};
    assert_int_equal(ms_buf_text(&buf).len, 0);
    ms_json_init(&w, ms_buf_write, &buf, true);
    ms_json_put_raw(&w, *(const ms_str *)text);
    ms_result code = ms_json_finish(&w);
    if (code != MS_OK) return code;
    assert_true(ms_str_equal(ms_buf_text(&buf),
                             written_raw(*(const ms_str *)text, true, &arena)));
    return MS_OK;
}

TEST(buffer_grows_with_its_text_unless_memory_ends)
{
    ms_str text = long_text();
    assert_true(low_memory(writing_low_memory, &text, 4096) > 3);
    ms_buf buf = {&arena, NULL, 0, 0};
    assert_int_equal(ms_buf_write(&buf, NULL, 0), MS_OK);
    assert_int_equal(ms_buf_write(&buf, "a", 1), MS_OK);
    assert_int_equal(ms_buf_write(&buf, "", SIZE_MAX), MS_E_TOO_LARGE);
    assert_int_equal(ms_buf_text(&buf).len, 1);
}


/* ---- JSONTestSuite ---- */

typedef struct suite {
    char folder[512], *page;      /* tests/JSON.md */
    unsigned y, n, i, wrong;      /* files of each kind; those that came out otherwise */
} suite;

/* Finds what RFC 8259 leaves open in the table of the page, of which a row begins with
 * "| `NAME` | refused `MS_E_UTF8` |". Returns MS_E_ARGUMENT if the file is not there. */
static ms_result decision_of(const suite *s, const char *name)
{
    char begin[160], word[32], code[32];
    snprintf(begin, sizeof begin, "| `%s` | ", name);
    const char *row = strstr(s->page, begin);
    if (row == NULL || sscanf(row + strlen(begin), "%31s `MS_%31[^`]`", word, code) != 2)
        return MS_E_ARGUMENT;
    ms_result result = strcmp(code, "OK") == 0       ? MS_OK
                       : strcmp(code, "E_UTF8") == 0 ? MS_E_UTF8
                                                     : MS_E_SYNTAX;
    bool fits = strcmp(word, result == MS_OK ? "accepted" : "refused") == 0;
    return fits ? result : MS_E_ARGUMENT;
}

/* Is the file dealt with as its name asks? Runs in the small thread: no assertions. */
static bool suite_file(suite *s, const char *name)
{
    char path[1024];
    size_t len = 0;
    ms_error err;
    snprintf(path, sizeof path, "%s/%s", s->folder, name);
    char *bytes = read_file(path, &len);
    if (bytes == NULL) return false;
    ms_str json = at_end(bytes, len), value;
    ms_result got = ms_json_check(json, NULL, &value, &err);
    bool right = name[0] == 'y'   ? got == MS_OK
                 : name[0] == 'n' ? got != MS_OK
                                  : got == decision_of(s, name);
    if (right && got != MS_OK) right = error_is_odd(json, NULL, &err) == NULL;
    if (right && got == MS_OK) right = visit(value, SIZE_MAX, &arena) == NULL;
    if (right && len < 4096) right = visit(json, SIZE_MAX, &arena) == NULL;
    ms_arena_reset(&arena);
    free(bytes);
    return right;
}

static void *suite_run(void *arg)
{
    suite *s = (suite *)arg;
    DIR *dir = opendir(s->folder);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        const char *name = entry->d_name;
        if (name[0] == '\0' || name[1] != '_') continue;
        s->y += name[0] == 'y';
        s->n += name[0] == 'n';
        s->i += name[0] == 'i';
        if (suite_file(s, name)) continue;
        fprintf(stderr, "wrong: %s\n", name);
        s->wrong++;
    }
    if (dir != NULL) closedir(dir);
    return NULL;
}

/* All of it on a stack of 64 KiB, or the least that the system allows. */
TEST(buffer_without_an_arena_takes_no_text)
{
    ms_buf none = {NULL, NULL, 0, 0};
    assert_int_equal(ms_buf_write(&none, "", 0), MS_OK);
    assert_int_equal(ms_buf_write(&none, "x", 1), MS_E_ARENA);
    assert_int_equal(ms_buf_text(&none).len, 0);
}

TEST(suite_is_read_on_a_small_stack)
{
    suite s;
    pthread_attr_t attr;
    pthread_t thread;
    long least = sysconf(_SC_THREAD_STACK_MIN);
    memset(&s, 0, sizeof s);
    if (!shared_path(s.folder, sizeof s.folder, "data/json-test-suite/test_parsing"))
        skip();
    s.page = read_file("tests/JSON.md", NULL);
    assert_non_null(s.page);
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(
        pthread_attr_setstacksize(&attr, least > 65536 ? (size_t)least : 65536), 0);
    assert_int_equal(pthread_create(&thread, &attr, suite_run, &s), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attr);
    free(s.page);
    assert_int_equal(s.y, 95);
    assert_int_equal(s.n, 188);
    assert_int_equal(s.i, 35);
    assert_int_equal(s.wrong, 0);
}

int main(void)
{
    if (guard_pages_up(NULL) != 0) return 1;
    return run_all_tests(reset, release);
}
