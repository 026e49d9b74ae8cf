/* Writing JSON: random values written and read back by jansson, compact and pretty, what
 * strings look like, raw values with their spelling, a sink that fails at each call. */
#include "support.h"

#include "json_equal.h"

#include <math.h>


/* ---- a sink ---- */

typedef struct sink {
    char *bytes;          /* NUL-terminated when the writing is over */
    size_t len, cap;
    size_t calls;
    size_t fail_at;       /* this call fails, from 1; 0: none */
    ms_result code;       /* with this */
} sink;

static ms_result sink_write(void *ctx, const char *bytes, size_t len)
{
    sink *s = (sink *)ctx;
    s->calls++;
    if (s->calls == s->fail_at) return s->code;
    if (s->len + len + 1 > s->cap) {
        s->cap = 2 * (s->len + len + 1);
        s->bytes = (char *)realloc(s->bytes, s->cap);
        if (s->bytes == NULL) abort();
    }
    if (len > 0) memcpy(s->bytes + s->len, bytes, len);
    s->len += len;
    s->bytes[s->len] = '\0';
    return MS_OK;
}

static void sink_start(sink *s, ms_json_writer *w, bool pretty)
{
    free(s->bytes);
    memset(s, 0, sizeof *s);
    ms_json_init(w, sink_write, s, pretty);
}

/* Ends the writing and expects this text. */
static void sink_expect(sink *s, ms_json_writer *w, const char *want, size_t len)
{
    assert_int_equal(ms_json_finish(w), MS_OK);
    if (s->len != len || memcmp(s->bytes, want, len) != 0)
        fail_msg("written: %s\nexpected: %s", s->len > 0 ? s->bytes : "", want);
}


/* ---- random values ---- */

static size_t put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6) to[i] = (char)(0x80 | (c & 0x3F));
    to[0] = (char)((n == 2 ? 0xC0u : n == 3 ? 0xE0u : 0xF0u) | c);
    return n;
}

/* Random text of up to 4 * n bytes; NUL bytes only when asked for. */
static size_t make_text(uint64_t *random, char *text, size_t n, bool nul)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t c = (uint32_t)test_below(random, 0x10F800);
        if (c >= 0xD800) c += 0x800;
        switch (test_below(random, 8)) {
        case 0: c %= 0x20; break;
        case 1: c = (unsigned char)"\"\\/\x7f"[c % 4]; break;
        case 2: c %= 0x800; break;
        case 3: c = 0x2028 + c % 2; break;
        case 4: break;
        default: c = 'a' + c % 26;
        }
        if (c == 0 && !nul) c = 1;
        len += put_utf8(text + len, c);
    }
    return len;
}

static json_t *make_string(uint64_t *random)
{
    static char text[4 * 1000];
    size_t n = (size_t)test_below(random, test_one_in(random, 20) ? 1000 : 12);
    return json_stringn(text, make_text(random, text, n, true));
}

/* Reals from 2^53 to 1e21 are written as integers with as few digits as tell the double;
 * jansson reads those as other integers or not at all. There are none of them. */
static json_t *make_number(uint64_t *random)
{
    double d;
    uint64_t bits = test_random(random);
    if (test_one_in(random, 3)) return json_integer((json_int_t)bits);
    if (test_one_in(random, 2)) return json_integer((json_int_t)(bits % 2001) - 1000);
    memcpy(&d, &bits, sizeof d);
    if (fabs(d) > 9e15 && fabs(d) < 1e22) d /= 1e10;
    return json_real(isfinite(d) ? d : 0.5);
}

static json_t *make_value(uint64_t *random, unsigned depth)
{
    char key[64];
    uint64_t kind = test_below(random, depth < 7 ? 9 : 5);
    size_t n = (size_t)test_below(random, 6);
    json_t *v;
    if (kind == 0) return json_null();
    if (kind == 1) return json_boolean(test_one_in(random, 2));
    if (kind == 2) return make_number(random);
    if (kind < 5) return make_string(random);
    v = kind < 7 ? json_object() : json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *item = make_value(random, depth + 1);
        key[make_text(random, key, (size_t)test_below(random, 10), false)] = '\0';
        if (json_is_object(v)) json_object_set_new(v, key, item);
        else json_array_append_new(v, item);
    }
    return v;
}

/* Writes a value of jansson's with our writer. */
static void put(ms_json_writer *w, json_t *v)
{
    const char *key;
    json_t *item;
    size_t i;
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        ms_json_begin(w, MS_JSON_OBJECT);
        json_object_foreach (v, key, item) {
            ms_json_key(w, ms_str_of(key));
            put(w, item);
        }
        ms_json_end(w);
        return;
    case JSON_ARRAY:
        ms_json_begin(w, MS_JSON_ARRAY);
        json_array_foreach (v, i, item) put(w, item);
        ms_json_end(w);
        return;
    case JSON_STRING:
        ms_json_put_string(w, ms_str_n(json_string_value(v), json_string_length(v)));
        return;
    case JSON_INTEGER: test_json_put_i64(w, json_integer_value(v)); return;
    case JSON_REAL: {
        char text[40];
        int len = snprintf(text, sizeof text, "%.17g", json_real_value(v));
        if (strpbrk(text, ".e") == NULL) len += snprintf(text + len, 4, ".0");
        ms_json_put_raw(w, ms_str_n(text, (size_t)len));
        return;
    }
    case JSON_NULL: test_json_put_null(w); return;
    default: test_json_put_bool(w, json_is_true(v)); return;
    }
}

/* Is a JSON text without white space between its tokens? */
static bool is_compact(const char *json, size_t len)
{
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        if (json[i] == '"') in_string = !in_string;
        else if (in_string) i += json[i] == '\\';
        else if (strchr(" \t\r\n", json[i]) != NULL) return false;
    }
    return !in_string;
}

enum { PRETTY = 24 }; /* times as long a pretty text is at most, ten levels deep */

/* Writes a compact JSON text with line ends and two blanks a level, as the manual has it;
 * an empty array or object stays as it is. */
static size_t prettify(const char *json, size_t len, char *to)
{
    size_t n = 0, depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = json[i];
        bool open = !in_string && (c == '[' || c == '{');
        bool close = !in_string && (c == ']' || c == '}');
        bool empty = close && (json[i - 1] == '[' || json[i - 1] == '{');
        if (close) depth--;
        if (open) depth++;
        if (close && !empty) n += (size_t)sprintf(to + n, "\n%*s", (int)(2 * depth), "");
        to[n++] = c;
        if (in_string && c == '\\') to[n++] = json[++i];
        else if (c == '"') in_string = !in_string;
        if ((open && strchr("]}", json[i + 1]) == NULL) || (!in_string && c == ','))
            n += (size_t)sprintf(to + n, "\n%*s", (int)(2 * depth), "");
        if (!in_string && c == ':') to[n++] = ' ';
    }
    to[n] = '\0';
    return n;
}

/* Do equal values have their members in the same order? */
static bool same_order(json_t *a, json_t *b)
{
    size_t i;
    json_t *item;
    json_array_foreach (a, i, item) {
        if (!same_order(item, json_array_get(b, i))) return false;
    }
    void *x = json_object_iter(a), *y = json_object_iter(b);
    for (; x != NULL; x = json_object_iter_next(a, x), y = json_object_iter_next(b, y)) {
        if (strcmp(json_object_iter_key(x), json_object_iter_key(y)) != 0) return false;
        if (!same_order(json_object_iter_value(x), json_object_iter_value(y)))
            return false;
    }
    return true;
}

/* The same value, and its members in the same order. */
static void expect_same(json_t *v, const char *json, size_t len)
{
    json_where where;
    json_t *back = json_parse_n(json, len);
    if (back == NULL) fail_msg("jansson refuses %s", json);
    if (!json_same(v, back, 0, &where)) fail_msg("%s differs in %s", where.path, json);
    if (!same_order(v, back)) fail_msg("another order in %s", json);
    json_decref(back);
}

static void random_values(void **state)
{
    uint64_t random = test_seed();
    sink compact = {0}, pretty = {0};
    ms_json_writer w;
    (void)state;
    for (size_t i = test_times(10000); i > 0; i--) {
        json_t *v = make_value(&random, 0);
        sink_start(&compact, &w, false);
        put(&w, v);
        assert_int_equal(ms_json_finish(&w), MS_OK);
        assert_true(is_compact(compact.bytes, compact.len));
        assert_int_equal(
            ms_json_check(ms_str_n(compact.bytes, compact.len), NULL, NULL, NULL), MS_OK);
        expect_same(v, compact.bytes, compact.len);
        sink_start(&pretty, &w, true);
        put(&w, v);
        char *want = (char *)malloc(PRETTY * compact.len + 64);
        assert_non_null(want);
        sink_expect(&pretty, &w, want, prettify(compact.bytes, compact.len, want));
        expect_same(v, pretty.bytes, pretty.len);
        free(want);
        json_decref(v);
    }
    free(compact.bytes);
    free(pretty.bytes);
}


/* ---- strings ---- */

#define T(literal) {literal, sizeof(literal) - 1}
#define FFFD "\xef\xbf\xbd"

typedef struct span {
    const char *bytes;
    size_t len;
} span;

/* The short escapes, \u00XX for the other control characters, all else as it is. */
static void characters(void **state)
{
    static const char shorts[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
    sink s = {0};
    ms_json_writer w;
    (void)state;
    for (uint32_t c = 0; c <= 0x10FFFF; c += c < 0x3000 ? 1 : 97) {
        char text[4], want[16];
        size_t len = put_utf8(text, c), n;
        const char *found = c != 0 && c < 0x80 ? strchr(shorts, (int)c) : NULL;
        if (c >= 0xD800 && c < 0xE000) continue;
        if (found != NULL) n = (size_t)sprintf(want, "\"\\%c\"", names[found - shorts]);
        else if (c < 0x20) n = (size_t)sprintf(want, "\"\\u%04x\"", (unsigned)c);
        else n = (size_t)sprintf(want, "\"%.*s\"", (int)len, text);
        sink_start(&s, &w, false);
        ms_json_put_string(&w, ms_str_n(text, len));
        sink_expect(&s, &w, want, n);
        json_t *back = json_parse_n(s.bytes, s.len);
        assert_non_null(back);
        assert_int_equal(json_string_length(back), len);
        assert_memory_equal(json_string_value(back), text, len);
        json_decref(back);
    }
    free(s.bytes);
}

static void bad_utf8_is_replaced(void **state)
{
    static const struct {
        span text, want;
    } cases[] = {
        {T("\xff"), T("\"" FFFD "\"")},
        {T("a\x80z"), T("\"a" FFFD "z\"")},
        {T("\xc3"), T("\"" FFFD "\"")},
        {T("\xc3\n"), T("\"" FFFD "\\n\"")},
        {T("\xc3\xa9\xc3"), T("\"\xc3\xa9" FFFD "\"")},
        {T("\xed\xa0\x80"), T("\"" FFFD FFFD FFFD "\"")},
        {T("\xc0\xaf"), T("\"" FFFD FFFD "\"")},
        {T("\xf5\x80"), T("\"" FFFD FFFD "\"")},
        {T("\xe9t\xe9"), T("\"" FFFD "t" FFFD "\"")},
        {T("\xe2\x82"), T("\"" FFFD "\"")},
        {T("\xf0\x9f\x98z"), T("\"" FFFD "z\"")},
    };
    sink s = {0};
    ms_json_writer w;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sink_start(&s, &w, false);
        ms_json_put_string(&w, ms_str_n(cases[i].text.bytes, cases[i].text.len));
        sink_expect(&s, &w, cases[i].want.bytes, cases[i].want.len);
        sink_start(&s, &w, false);
        ms_json_begin(&w, MS_JSON_OBJECT);
        ms_json_key(&w, ms_str_n(cases[i].text.bytes, cases[i].text.len));
        test_json_put_null(&w);
        ms_json_end(&w);
        assert_int_equal(ms_json_finish(&w), MS_OK);
        assert_memory_equal(s.bytes + 1, cases[i].want.bytes, cases[i].want.len);
        assert_true(ms_utf8_check(ms_str_n(s.bytes, s.len), NULL));
    }
    free(s.bytes);
}

/* Whatever bytes come in, valid JSON comes out; what was UTF-8 comes out as it was. */
static void random_bytes(void **state)
{
    uint64_t random = test_seed() + 1;
    sink s = {0};
    ms_json_writer w;
    (void)state;
    for (size_t i = test_times(20000); i > 0; i--) {
        char text[700];
        size_t len = (size_t)test_below(&random, sizeof text);
        bool bad = test_one_in(&random, 2);
        if (bad) test_fill(&random, text, len);
        else len = make_text(&random, text, len / 4, true);
        sink_start(&s, &w, false);
        ms_json_put_string(&w, ms_str_n(text, len));
        assert_int_equal(ms_json_finish(&w), MS_OK);
        json_t *back = json_parse_n(s.bytes, s.len);
        assert_non_null(back);
        if (!bad && (json_string_length(back) != len ||
                     (len > 0 && memcmp(json_string_value(back), text, len) != 0)))
            fail_msg("%s", s.bytes);
        json_decref(back);
    }
    free(s.bytes);
}

/* Strings of every length around the writer's own room, with a wide character or an
 * escape at its edge. */
static void strings_across_the_stage(void **state)
{
    static const char *const tails[] = {"", "\xe2\x82\xac", "\n", "\xf0\x9d\x84\x9e",
                                        "\x01"};
    static char text[1100], want[1200];
    sink s = {0};
    ms_json_writer w;
    (void)state;
    memset(text, 'x', sizeof text);
    for (size_t len = 0; len < 1000; len++) {
        for (size_t t = 0; t < sizeof tails / sizeof *tails; t++) {
            const char *tail = tails[t];
            const char *escaped = tail[0] == '\n' ? "\\n"
                                  : tail[0] == 1  ? "\\u0001"
                                                  : tail;
            memcpy(text + len, tail, strlen(tail));
            size_t n = (size_t)sprintf(want, "\"%.*s%s\"", (int)len, text, escaped);
            sink_start(&s, &w, false);
            ms_json_put_string(&w, ms_str_n(text, len + strlen(tail)));
            sink_expect(&s, &w, want, n);
            memset(text + len, 'x', strlen(tail));
        }
    }
    free(s.bytes);
}


/* ---- numbers, layout, several values ---- */

static void integers(void **state)
{
    static const char want[] = "[-9223372036854775808,9223372036854775807,0,-1,0,"
                               "18446744073709551615,10,null,9223372036.854775807,-0.5,"
                               "true,false,null]";
    sink s = {0};
    ms_json_writer w;
    (void)state;
    sink_start(&s, &w, false);
    ms_json_begin(&w, MS_JSON_ARRAY);
    test_json_put_i64(&w, INT64_MIN);
    test_json_put_i64(&w, INT64_MAX);
    test_json_put_i64(&w, 0);
    test_json_put_i64(&w, -1);
    ms_json_put_u64(&w, 0);
    ms_json_put_u64(&w, UINT64_MAX);
    ms_json_put_u64(&w, 10);
    ms_json_put_seconds(&w, MS_TIME_NONE);
    ms_json_put_seconds(&w, INT64_MAX);
    ms_json_put_seconds(&w, -500000000);
    test_json_put_bool(&w, true);
    test_json_put_bool(&w, false);
    test_json_put_null(&w);
    ms_json_end(&w);
    sink_expect(&s, &w, want, sizeof want - 1);
    free(s.bytes);
}

/* A value with each thing that has a layout. */
static void put_sample(ms_json_writer *w)
{
    ms_json_begin(w, MS_JSON_OBJECT);
    ms_json_key(w, MS_STR("a"));
    ms_json_begin(w, MS_JSON_ARRAY);
    test_json_put_i64(w, 1);
    ms_json_begin(w, MS_JSON_OBJECT);
    ms_json_end(w);
    ms_json_begin(w, MS_JSON_ARRAY);
    ms_json_end(w);
    ms_json_put_string(w, MS_STR("x"));
    ms_json_end(w);
    ms_json_key(w, MS_STR(""));
    ms_json_put_raw(w, MS_STR("{ \"r\" :[ ] , \"s\":[1, 2]}"));
    ms_json_key(w, MS_STR("n\n"));
    test_json_put_null(w);
    ms_json_end(w);
}

static const char sample_compact[] =
    "{\"a\":[1,{},[],\"x\"],\"\":{\"r\":[],\"s\":[1,2]},\"n\\n\":null}";
static const char sample_pretty[] = "{\n"
                                    "  \"a\": [\n"
                                    "    1,\n"
                                    "    {},\n"
                                    "    [],\n"
                                    "    \"x\"\n"
                                    "  ],\n"
                                    "  \"\": {\n"
                                    "    \"r\": [],\n"
                                    "    \"s\": [\n"
                                    "      1,\n"
                                    "      2\n"
                                    "    ]\n"
                                    "  },\n"
                                    "  \"n\\n\": null\n"
                                    "}";

static void layout(void **state)
{
    sink s = {0};
    ms_json_writer w;
    (void)state;
    sink_start(&s, &w, false);
    put_sample(&w);
    sink_expect(&s, &w, sample_compact, sizeof sample_compact - 1);
    sink_start(&s, &w, true);
    put_sample(&w);
    sink_expect(&s, &w, sample_pretty, sizeof sample_pretty - 1);
    free(s.bytes);
}

static void values_with_separators(void **state)
{
    static const char want[] = "{}\n[1,2]\n\"x\"\n3 4\n";
    sink s = {0};
    ms_json_writer w;
    (void)state;
    sink_start(&s, &w, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    ms_json_end(&w);
    ms_json_separator(&w, '\n');
    ms_json_begin(&w, MS_JSON_ARRAY);
    test_json_put_i64(&w, 1);
    test_json_put_i64(&w, 2);
    ms_json_end(&w);
    ms_json_separator(&w, '\n');
    ms_json_put_string(&w, MS_STR("x"));
    ms_json_separator(&w, '\n');
    test_json_put_i64(&w, 3);
    ms_json_separator(&w, ' ');
    ms_json_put_raw(&w, MS_STR(" 4 "));
    ms_json_separator(&w, '\n');
    sink_expect(&s, &w, want, sizeof want - 1);
    free(s.bytes);
}

/* Nothing written: nothing in the sink. */
static void empty_text(void **state)
{
    sink s = {0};
    ms_json_writer w;
    (void)state;
    sink_start(&s, &w, true);
    assert_int_equal(ms_json_finish(&w), MS_OK);
    assert_int_equal(s.len, 0);
    free(s.bytes);
}


/* ---- raw values ---- */

typedef struct raw {
    char spaced[8192], compact[8192];
    size_t n_spaced, n_compact;
} raw;

static void raw_token(raw *r, uint64_t *random, const char *token)
{
    size_t len = strlen(token);
    memcpy(r->compact + r->n_compact, token, len);
    memcpy(r->spaced + r->n_spaced, token, len);
    r->n_compact += len;
    r->n_spaced += len;
    for (uint64_t n = test_one_in(random, 3) ? test_below(random, 5) : 0; n > 0; n--)
        r->spaced[r->n_spaced++] = " \t\n\r"[test_below(random, 4)];
}

/* A random value in odd spelling, once with and once without white space. */
static void raw_value(raw *r, uint64_t *random, unsigned depth)
{
    static const char *const tokens[] = {
        "1E+05", "-0", "-0.0", "1.50", "1e400", "123456789012345678901234567890", "0e-0",
        "true", "false", "null", "\"\"", "\"\\u0041\\/\\u00e9\"",
        "\" { [ \\\" , : ] } \"", "\"\\\\\"",
        "\"\xe2\x80\xa8 \xf0\x9d\x84\x9e\"", "\"\\ud834\\uDD1E\""};
    static const char *const names[] = {"\"a\"", "\"\\u0061\"", "\"\"", "\" : \"",
                                        "\"\\\"\""};
    bool object = test_one_in(random, 2);
    if (depth > 4 || test_one_in(random, 3)) {
        raw_token(r, random, tokens[test_below(random, sizeof tokens / sizeof *tokens)]);
        return;
    }
    raw_token(r, random, object ? "{" : "[");
    for (uint64_t n = test_below(random, 4), i = 0; i < n && r->n_spaced < 4000; i++) {
        if (i > 0) raw_token(r, random, ",");
        if (object) {
            raw_token(r, random, names[test_below(random, 5)]);
            raw_token(r, random, ":");
        }
        raw_value(r, random, depth + 1);
    }
    raw_token(r, random, object ? "}" : "]");
}

/* Two members and an element, all the same raw value, around it the writer's own text. */
static void put_raw_thrice(ms_json_writer *w, ms_str json)
{
    ms_json_begin(w, MS_JSON_OBJECT);
    ms_json_key(w, MS_STR("k"));
    ms_json_put_raw(w, json);
    ms_json_key(w, MS_STR("l"));
    ms_json_begin(w, MS_JSON_ARRAY);
    ms_json_put_raw(w, json);
    ms_json_put_raw(w, json);
    ms_json_end(w);
    ms_json_end(w);
}

static void raw_keeps_spelling(void **state)
{
    static raw r;
    static char compact[32768], pretty[PRETTY * sizeof compact];
    uint64_t random = test_seed() + 2;
    sink s = {0};
    ms_json_writer w;
    (void)state;
    for (size_t i = test_times(20000); i > 0; i--) {
        r.n_spaced = r.n_compact = 0;
        if (test_one_in(&random, 2)) r.spaced[r.n_spaced++] = ' ';
        raw_value(&r, &random, 0);
        r.compact[r.n_compact] = '\0';
        ms_str json = ms_str_n(r.spaced, r.n_spaced);
        assert_int_equal(ms_json_check(json, NULL, NULL, NULL), MS_OK);
        const char *c = r.compact;
        size_t n = (size_t)sprintf(compact, "{\"k\":%s,\"l\":[%s,%s]}", c, c, c);
        sink_start(&s, &w, false);
        put_raw_thrice(&w, json);
        sink_expect(&s, &w, compact, n);
        sink_start(&s, &w, true);
        put_raw_thrice(&w, json);
        sink_expect(&s, &w, pretty, prettify(compact, n, pretty));
    }
    free(s.bytes);
}

static void raw_at_the_limit_of_depth(void **state)
{
    static char text[2 * MS_JSON_MAX_DEPTH];
    sink s = {0};
    ms_json_writer w;
    (void)state;
    memset(text, '[', MS_JSON_MAX_DEPTH);
    memset(text + MS_JSON_MAX_DEPTH, ']', MS_JSON_MAX_DEPTH);
    sink_start(&s, &w, false);
    ms_json_put_raw(&w, ms_str_n(text, sizeof text));
    sink_expect(&s, &w, text, sizeof text);
    free(s.bytes);
}

/* A text that only a check with repair accepts comes out as valid JSON, with U+FFFD where
 * decoding gives it and all else as spelled. */
static void raw_of_repaired_text(void **state)
{
    static const struct {
        span raw, want;
    } cases[] = {
        {T("[\"a\\u0041\xff\"]"), T("[\"a\\u0041" FFFD "\"]")},
        {T("{\"\xe9\\n\":\"\\/\"}"), T("{\"" FFFD "\\n\":\"\\/\"}")},
        {T("\"\xe2\x82\\\"\x80\""), T("\"" FFFD "\\\"" FFFD "\"")},
        {T("\"x\\ud800\""), T("\"x" FFFD "\"")},
        {T("\"\\udc00\\ud834\\udd1e\""), T("\"" FFFD "\\ud834\\udd1e\"")},
    };
    ms_json_opts repair = {0, true};
    sink s = {0};
    ms_json_writer w;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ms_str json = ms_str_n(cases[i].raw.bytes, cases[i].raw.len);
        assert_int_equal(ms_json_check(json, NULL, NULL, NULL), MS_E_UTF8);
        assert_int_equal(ms_json_check(json, &repair, NULL, NULL), MS_OK);
        sink_start(&s, &w, false);
        ms_json_put_raw(&w, json);
        sink_expect(&s, &w, cases[i].want.bytes, cases[i].want.len);
        json_t *back = json_parse_n(s.bytes, s.len);
        assert_non_null(back);
        json_decref(back);
    }
    free(s.bytes);
}

/* Brackets that do not pair are an error in the end. */
static void brackets_must_pair(void **state)
{
    sink s = {0};
    ms_json_writer w;
    (void)state;
    sink_start(&s, &w, false);
    ms_json_begin(&w, MS_JSON_ARRAY);
    ms_json_begin(&w, MS_JSON_OBJECT);
    ms_json_end(&w);
    assert_int_not_equal(ms_json_finish(&w), MS_OK);
    sink_start(&s, &w, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    ms_json_end(&w);
    ms_json_end(&w);
    assert_int_not_equal(ms_json_finish(&w), MS_OK);
    free(s.bytes);
}


/* ---- sinks that fail ---- */

/* Enough of everything that the sink is called often. */
static void put_much(ms_json_writer *w)
{
    static char text[600];
    memset(text, 'y', sizeof text);
    ms_json_begin(w, MS_JSON_ARRAY);
    for (size_t i = 0; i < 12; i++) {
        put_sample(w);
        ms_json_put_string(w, ms_str_n(text, 50 * i));
        ms_json_put_seconds(w, (int64_t)(i + 3));
        ms_json_put_raw(w, MS_STR("[ \"raw\" , { \"a\" : 1e5 } ]"));
        test_json_put_bool(w, true);
        ms_json_put_u64(w, UINT64_MAX);
        test_json_put_i64(w, INT64_MIN);
    }
    ms_json_end(w);
    ms_json_separator(w, '\n');
}

/* The first error is kept, the sink is not called again, what it got is a beginning. */
static void error_is_sticky(void **state)
{
    static const ms_result codes[] = {MS_E_IO, MS_E_FULL, MS_E_ARENA};
    sink whole = {0}, s = {0};
    ms_json_writer w;
    (void)state;
    for (int pretty = 0; pretty < 2; pretty++) {
        sink_start(&whole, &w, pretty);
        put_much(&w);
        assert_int_equal(ms_json_finish(&w), MS_OK);
        assert_true(whole.calls > 5);
        for (size_t k = 1; k <= whole.calls; k++) {
            sink_start(&s, &w, pretty);
            s.fail_at = k;
            s.code = codes[k % 3];
            put_much(&w);
            assert_int_equal(ms_json_finish(&w), codes[k % 3]);
            assert_int_equal(ms_json_finish(&w), codes[k % 3]);
            assert_int_equal(s.calls, k);
            assert_true(s.len < whole.len);
            if (s.len > 0) assert_memory_equal(s.bytes, whole.bytes, s.len);
        }
    }
    free(whole.bytes);
    free(s.bytes);
}

/* After an error, init makes the writer new. */
static void init_begins_anew(void **state)
{
    sink s = {0};
    ms_json_writer w;
    (void)state;
    sink_start(&s, &w, false);
    s.fail_at = 1;
    s.code = MS_E_IO;
    put_much(&w);
    assert_int_equal(ms_json_finish(&w), MS_E_IO);
    sink_start(&s, &w, false);
    test_json_put_i64(&w, 7);
    sink_expect(&s, &w, "7", 1);
    free(s.bytes);
}


/* ---- ms_buf ---- */

static void buf_grows(void **state)
{
    ms_arena arena;
    ms_buf buf;
    sink s = {0};
    ms_json_writer w;
    (void)state;
    memset(&arena, 0, sizeof arena);
    memset(&buf, 0, sizeof buf);
    buf.arena = &arena;
    assert_int_equal(ms_buf_text(&buf).len, 0);
    sink_start(&s, &w, false);
    for (int i = 0; i < 100; i++) put_much(&w);
    assert_int_equal(ms_json_finish(&w), MS_OK);
    ms_json_init(&w, ms_buf_write, &buf, false);
    for (int i = 0; i < 100; i++) put_much(&w);
    assert_int_equal(ms_json_finish(&w), MS_OK);
    assert_int_equal(ms_buf_text(&buf).len, s.len);
    assert_memory_equal(ms_buf_text(&buf).ptr, s.bytes, s.len);
    ms_arena_deinit(&arena);
    free(s.bytes);
}

/* An arena that is full, and one whose memory fails at each call in turn. */
static void buf_without_room(void **state)
{
    static char room[1000];
    ms_arena arena;
    ms_buf buf;
    test_alloc heap;
    ms_json_writer w;
    (void)state;
    memset(&buf, 0, sizeof buf);
    test_arena_init_fixed(&arena, room, sizeof room);
    buf.arena = &arena;
    ms_json_init(&w, ms_buf_write, &buf, false);
    put_much(&w);
    assert_int_equal(ms_json_finish(&w), MS_E_ARENA);
    for (size_t k = 1;; k++) {
        test_alloc_init(&heap);
        heap.fail_at = k;
        test_arena_init(&arena, &heap.alloc);
        memset(&buf, 0, sizeof buf);
        buf.arena = &arena;
        ms_json_init(&w, ms_buf_write, &buf, false);
        for (int i = 0; i < 20; i++) put_much(&w);
        ms_result result = ms_json_finish(&w);
        if (heap.failed > 0) assert_int_not_equal(result, MS_OK);
        else assert_int_equal(result, MS_OK);
        ms_arena_deinit(&arena);
        test_alloc_done(&heap);
        if (heap.failed == 0) break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout),
        cmocka_unit_test(integers),
        cmocka_unit_test(empty_text),
        cmocka_unit_test(values_with_separators),
        cmocka_unit_test(characters),
        cmocka_unit_test(bad_utf8_is_replaced),
        cmocka_unit_test(random_bytes),
        cmocka_unit_test(strings_across_the_stage),
        cmocka_unit_test(random_values),
        cmocka_unit_test(raw_keeps_spelling),
        cmocka_unit_test(raw_at_the_limit_of_depth),
        cmocka_unit_test(raw_of_repaired_text),
        cmocka_unit_test(brackets_must_pair),
        cmocka_unit_test(error_is_sticky),
        cmocka_unit_test(init_begins_anew),
        cmocka_unit_test(buf_grows),
        cmocka_unit_test(buf_without_room),
    };
    return cmocka_run_group_tests_name("json_write", tests, NULL, NULL);
}
