/* Writing JSON: random values written and read back by jansson, compact and pretty, what
 * strings look like, raw values with their spelling, a sink that fails at each call. */
#include "json_equal.h"
#include "json_twin.h"


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

static sink out;                  /* of the test that runs */
static ms_json_writer writer;     /* to it */

static int discard(void **state)
{
    (void)state;
    free(out.bytes);
    memset(&out, 0, sizeof out);
    return 0;
}

static void begin(bool pretty)
{
    (void)discard(NULL);
    ms_json_init(&writer, sink_write, &out, pretty);
}

/* Ends the writing and expects this text. */
static void expect(const char *want, size_t len)
{
    assert_int_equal(ms_json_finish(&writer), MS_OK);
    if (out.len != len || (len > 0 && memcmp(out.bytes, want, len) != 0))
        fail_msg("   got %s\nexpect %s", out.len > 0 ? out.bytes : "", want);
}


/* ---- random values ---- */

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

static void values_are_read_by_jansson_as_they_were(void **state)
{
    uint64_t random = test_seed();
    (void)state;
    for (size_t i = test_times(10000); i > 0; i--) {
        json_t *v = make_value(&random, 0);
        begin(false);
        put(&writer, v);
        assert_int_equal(ms_json_finish(&writer), MS_OK);
        assert_true(is_compact(out.bytes, out.len));
        assert_int_equal(ms_json_check(ms_str_n(out.bytes, out.len), NULL, NULL, NULL), MS_OK);
        expect_same(v, out.bytes, out.len);
        char *want = (char *)malloc(PRETTY * out.len + 64);
        assert_non_null(want);
        size_t len = prettify(out.bytes, out.len, want);
        begin(true);
        put(&writer, v);
        expect(want, len);
        expect_same(v, out.bytes, out.len);
        free(want);
        json_decref(v);
    }
}


/* ---- strings ---- */

#define T(literal) {literal, sizeof(literal) - 1}
#define FFFD "\xef\xbf\xbd"

typedef struct span {
    const char *bytes;
    size_t len;
} span;

/* The short escapes, \u00XX for the other control characters, all else as it is. */
static void character_is_escaped_only_when_it_must_be(void **state)
{
    static const char shorts[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
    (void)state;
    for (uint32_t c = 0; c <= 0x10FFFF; c += c < 0x3000 ? 1 : 97) {
        char text[4], want[16];
        size_t len = put_utf8(text, c), n;
        const char *found = c != 0 && c < 0x80 ? strchr(shorts, (int)c) : NULL;
        if (c >= 0xD800 && c < 0xE000) continue;
        if (found != NULL) n = (size_t)sprintf(want, "\"\\%c\"", names[found - shorts]);
        else if (c < 0x20) n = (size_t)sprintf(want, "\"\\u%04x\"", (unsigned)c);
        else n = (size_t)sprintf(want, "\"%.*s\"", (int)len, text);
        begin(false);
        ms_json_put_string(&writer, ms_str_n(text, len));
        expect(want, n);
        json_t *back = json_parse_n(out.bytes, out.len);
        assert_non_null(back);
        assert_int_equal(json_string_length(back), len);
        assert_memory_equal(json_string_value(back), text, len);
        json_decref(back);
    }
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
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(false);
        ms_json_put_string(&writer, ms_str_n(cases[i].text.bytes, cases[i].text.len));
        expect(cases[i].want.bytes, cases[i].want.len);
        begin(false);
        ms_json_begin(&writer, MS_JSON_OBJECT);
        ms_json_key(&writer, ms_str_n(cases[i].text.bytes, cases[i].text.len));
        test_json_put_null(&writer);
        ms_json_end(&writer);
        assert_int_equal(ms_json_finish(&writer), MS_OK);
        assert_memory_equal(out.bytes + 1, cases[i].want.bytes, cases[i].want.len);
        assert_true(ms_utf8_check(ms_str_n(out.bytes, out.len), NULL));
    }
}

/* Whatever bytes come in, valid JSON comes out; what was UTF-8 comes out as it was. */
static void any_bytes_become_valid_json(void **state)
{
    uint64_t random = test_seed() + 1;
    (void)state;
    for (size_t i = test_times(20000); i > 0; i--) {
        char text[700];
        size_t len = (size_t)test_below(&random, sizeof text);
        bool bad = test_one_in(&random, 2);
        if (bad) test_fill(&random, text, len);
        else len = make_text(&random, text, len / 4, true);
        begin(false);
        ms_json_put_string(&writer, ms_str_n(text, len));
        assert_int_equal(ms_json_finish(&writer), MS_OK);
        json_t *back = json_parse_n(out.bytes, out.len);
        assert_non_null(back);
        if (!bad && (json_string_length(back) != len ||
                     (len > 0 && memcmp(json_string_value(back), text, len) != 0)))
            fail_msg("%s", out.bytes);
        json_decref(back);
    }
}

/* Strings of every length around the writer's own room, with a wide character or an
 * escape at its edge. */
static void string_is_whole_when_it_crosses_the_stage(void **state)
{
    static const char *const tails[] = {"", "\xe2\x82\xac", "\n", "\xf0\x9d\x84\x9e",
                                        "\x01"};
    static char text[1100], want[1200];
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
            begin(false);
            ms_json_put_string(&writer, ms_str_n(text, len + strlen(tail)));
            expect(want, n);
            memset(text + len, 'x', strlen(tail));
        }
    }
}


/* ---- numbers, layout, several values ---- */

static void put_numbers(ms_json_writer *w)
{
    ms_json_begin(w, MS_JSON_ARRAY);
    test_json_put_i64(w, INT64_MIN);
    test_json_put_i64(w, INT64_MAX);
    test_json_put_i64(w, 0);
    test_json_put_i64(w, -1);
    ms_json_put_u64(w, 0);
    ms_json_put_u64(w, UINT64_MAX);
    ms_json_put_u64(w, 10);
    ms_json_put_seconds(w, MS_TIME_NONE);
    ms_json_put_seconds(w, INT64_MAX);
    ms_json_put_seconds(w, -500000000);
    test_json_put_bool(w, true);
    test_json_put_bool(w, false);
    test_json_put_null(w);
    ms_json_end(w);
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

static void put_several(ms_json_writer *w)
{
    ms_json_begin(w, MS_JSON_OBJECT);
    ms_json_end(w);
    ms_json_separator(w, '\n');
    ms_json_begin(w, MS_JSON_ARRAY);
    test_json_put_i64(w, 1);
    test_json_put_i64(w, 2);
    ms_json_end(w);
    ms_json_separator(w, '\n');
    ms_json_put_string(w, MS_STR("x"));
    ms_json_separator(w, '\n');
    test_json_put_i64(w, 3);
    ms_json_separator(w, ' ');
    ms_json_put_raw(w, MS_STR(" 4 "));
    ms_json_separator(w, '\n');
}

static void put_nothing(ms_json_writer *w)
{
    (void)w;
}

static void values_are_laid_out_as_the_table_has_it(void **state)
{
    static const struct {
        void (*put)(ms_json_writer *w);
        bool pretty;
        const char *want;
    } rows[] = {
        {put_sample, false,
         "{\"a\":[1,{},[],\"x\"],\"\":{\"r\":[],\"s\":[1,2]},\"n\\n\":null}"},
        {put_sample, true,
         "{\n  \"a\": [\n    1,\n    {},\n    [],\n    \"x\"\n  ],\n  \"\": {\n    \"r\": [],\n"
         "    \"s\": [\n      1,\n      2\n    ]\n  },\n  \"n\\n\": null\n}"},
        {put_numbers, false,
         "[-9223372036854775808,9223372036854775807,0,-1,0,18446744073709551615,10,null,"
         "9223372036.854775807,-0.5,true,false,null]"},
        {put_several, false, "{}\n[1,2]\n\"x\"\n3 4\n"},
        {put_nothing, true, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        begin(rows[i].pretty);
        rows[i].put(&writer);
        expect(rows[i].want, strlen(rows[i].want));
    }
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

static void raw_value_keeps_its_spelling(void **state)
{
    static raw r;
    static char compact[32768], pretty[PRETTY * sizeof compact];
    uint64_t random = test_seed() + 2;
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
        begin(false);
        put_raw_thrice(&writer, json);
        expect(compact, n);
        begin(true);
        put_raw_thrice(&writer, json);
        expect(pretty, prettify(compact, n, pretty));
    }
}

static void raw_value_is_written_at_the_limit_of_depth(void **state)
{
    static char text[2 * MS_JSON_MAX_DEPTH];
    (void)state;
    memset(text, '[', MS_JSON_MAX_DEPTH);
    memset(text + MS_JSON_MAX_DEPTH, ']', MS_JSON_MAX_DEPTH);
    begin(false);
    ms_json_put_raw(&writer, ms_str_n(text, sizeof text));
    expect(text, sizeof text);
}

/* A text that only a check with repair accepts comes out as valid JSON, with U+FFFD where
 * decoding gives it and all else as spelled. */
static void raw_value_is_mended_when_it_is_not_utf8(void **state)
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
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ms_str json = ms_str_n(cases[i].raw.bytes, cases[i].raw.len);
        assert_int_equal(ms_json_check(json, NULL, NULL, NULL), MS_E_UTF8);
        assert_int_equal(ms_json_check(json, &repair, NULL, NULL), MS_OK);
        begin(false);
        ms_json_put_raw(&writer, json);
        expect(cases[i].want.bytes, cases[i].want.len);
        json_t *back = json_parse_n(out.bytes, out.len);
        assert_non_null(back);
        json_decref(back);
    }
}

/* Brackets that do not pair are an error in the end. */
static void writing_fails_when_brackets_do_not_pair(void **state)
{
    (void)state;
    begin(false);
    ms_json_begin(&writer, MS_JSON_ARRAY);
    ms_json_begin(&writer, MS_JSON_OBJECT);
    ms_json_end(&writer);
    assert_int_not_equal(ms_json_finish(&writer), MS_OK);
    begin(false);
    ms_json_begin(&writer, MS_JSON_OBJECT);
    ms_json_end(&writer);
    ms_json_end(&writer);
    assert_int_not_equal(ms_json_finish(&writer), MS_OK);
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
static void error_stays_when_a_sink_fails(void **state)
{
    static const ms_result codes[] = {MS_E_IO, MS_E_FULL, MS_E_ARENA};
    (void)state;
    for (int pretty = 0; pretty < 2; pretty++) {
        begin(pretty);
        put_much(&writer);
        assert_int_equal(ms_json_finish(&writer), MS_OK);
        sink whole = out;
        out.bytes = NULL;
        assert_true(whole.calls > 5);
        for (size_t k = 1; k <= whole.calls; k++) {
            begin(pretty);
            out.fail_at = k;
            out.code = codes[k % 3];
            put_much(&writer);
            assert_int_equal(ms_json_finish(&writer), codes[k % 3]);
            assert_int_equal(ms_json_finish(&writer), codes[k % 3]);
            assert_int_equal(out.calls, k);
            assert_true(out.len < whole.len);
            if (out.len > 0) assert_memory_equal(out.bytes, whole.bytes, out.len);
        }
        free(whole.bytes);
    }
}

/* After an error, init makes the writer new. */
static void init_begins_anew_after_an_error(void **state)
{
    (void)state;
    begin(false);
    out.fail_at = 1;
    out.code = MS_E_IO;
    put_much(&writer);
    assert_int_equal(ms_json_finish(&writer), MS_E_IO);
    begin(false);
    test_json_put_i64(&writer, 7);
    expect("7", 1);
}


/* ---- ms_buf ---- */

static void buffer_grows_with_its_text(void **state)
{
    ms_arena arena;
    ms_buf buf;
    (void)state;
    memset(&arena, 0, sizeof arena);
    memset(&buf, 0, sizeof buf);
    buf.arena = &arena;
    assert_int_equal(ms_buf_text(&buf).len, 0);
    begin(false);
    for (int i = 0; i < 100; i++) put_much(&writer);
    assert_int_equal(ms_json_finish(&writer), MS_OK);
    ms_json_init(&writer, ms_buf_write, &buf, false);
    for (int i = 0; i < 100; i++) put_much(&writer);
    assert_int_equal(ms_json_finish(&writer), MS_OK);
    assert_int_equal(ms_buf_text(&buf).len, out.len);
    assert_memory_equal(ms_buf_text(&buf).ptr, out.bytes, out.len);
    ms_arena_deinit(&arena);
}

/* An arena that is full, and one whose memory fails at each call in turn. */
static void writing_fails_when_the_buffer_cannot_grow(void **state)
{
    static char room[1000];
    ms_arena arena;
    ms_buf buf;
    test_alloc heap;
    (void)state;
    memset(&buf, 0, sizeof buf);
    test_arena_init_fixed(&arena, room, sizeof room);
    buf.arena = &arena;
    ms_json_init(&writer, ms_buf_write, &buf, false);
    put_much(&writer);
    assert_int_equal(ms_json_finish(&writer), MS_E_ARENA);
    for (size_t k = 1;; k++) {
        test_alloc_init(&heap);
        heap.fail_at = k;
        test_arena_init(&arena, &heap.alloc);
        memset(&buf, 0, sizeof buf);
        buf.arena = &arena;
        ms_json_init(&writer, ms_buf_write, &buf, false);
        for (int i = 0; i < 20; i++) put_much(&writer);
        ms_result result = ms_json_finish(&writer);
        if (heap.failed > 0) assert_int_not_equal(result, MS_OK);
        else assert_int_equal(result, MS_OK);
        ms_arena_deinit(&arena);
        test_alloc_done(&heap);
        if (heap.failed == 0) break;
    }
}

/* ---- a writer that is used wrongly ---- */

static void writing_fails_when_calls_do_not_make_a_value(void **state)
{
    size_t room = 32 * sizeof writer.object / sizeof writer.object[0];
    (void)state;
    for (int row = 0; row < 5; row++) {
        begin(false);
        if (row == 0) { /* a name in an array, which has no value yet */
            ms_json_begin(&writer, MS_JSON_ARRAY);
            ms_json_key(&writer, MS_STR("a name in an array"));
            ms_json_end(&writer);
        }
        for (int i = 0; row == 1 && i < 2; i++) test_json_put_null(&writer);
        if (row == 2) ms_json_put_raw(&writer, MS_STR("?"));
        if (row == 3) ms_json_put_raw(&writer, ms_str_n(NULL, 0));
        for (size_t i = 0; row == 4 && i <= room; i++)
            ms_json_begin(&writer, MS_JSON_ARRAY);
        ms_result want = row == 4 ? MS_E_DEPTH : MS_E_ARGUMENT; /* the first one counts */
        if (ms_json_finish(&writer) != want) fail_msg("row %d", row);
    }
}

static void absent_text_is_written_as_empty(void **state)
{
    ms_arena arena;
    ms_buf buf;
    ms_json_writer w;
    (void)state;
    test_arena_init(&arena, NULL);
    memset(&buf, 0, sizeof buf);
    buf.arena = &arena;
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_json_begin(&w, MS_JSON_ARRAY);
    ms_json_put_string(&w, ms_str_n(NULL, 0));
    ms_json_separator(&w, ' '); /* inside: no new value begins */
    ms_json_end(&w);
    assert_int_equal(ms_json_finish(&w), MS_OK);
    assert_true(ms_str_equal(ms_buf_text(&buf), MS_STR("[\"\" ]")));
    assert_int_equal(ms_buf_write(&buf, NULL, 0), MS_OK);
    assert_int_equal(ms_buf_write(&buf, "", SIZE_MAX), MS_E_TOO_LARGE);
    assert_int_equal(ms_buf_text(&buf).len, 5);
    ms_arena_deinit(&arena);
}

static void raw_string_is_mended_when_its_escapes_are_wrong(void **state)
{
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"\"a\\\\b\\x\"", "\"a\\\\b\\x\""},
        {"\"\\uD800 \\u20ac\"", "\"\xEF\xBF\xBD \\u20ac\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        begin(false);
        ms_json_put_raw(&writer, ms_str_of(rows[i].in));
        expect(rows[i].out, strlen(rows[i].out));
    }
}

#define TEST(name) cmocka_unit_test_teardown(name, discard)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(values_are_laid_out_as_the_table_has_it),
        TEST(character_is_escaped_only_when_it_must_be),
        TEST(bad_utf8_is_replaced),
        TEST(any_bytes_become_valid_json),
        TEST(string_is_whole_when_it_crosses_the_stage),
        TEST(values_are_read_by_jansson_as_they_were),
        TEST(raw_value_keeps_its_spelling),
        TEST(raw_value_is_written_at_the_limit_of_depth),
        TEST(raw_value_is_mended_when_it_is_not_utf8),
        TEST(writing_fails_when_brackets_do_not_pair),
        TEST(error_stays_when_a_sink_fails),
        TEST(init_begins_anew_after_an_error),
        TEST(buffer_grows_with_its_text),
        TEST(writing_fails_when_the_buffer_cannot_grow),
        TEST(writing_fails_when_calls_do_not_make_a_value),
        TEST(absent_text_is_written_as_empty),
        TEST(raw_string_is_mended_when_its_escapes_are_wrong),
    };
    return cmocka_run_group_tests_name("json_write", tests, NULL, NULL);
}
