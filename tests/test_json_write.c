/* Writing JSON: layout, what strings look like, raw values that are mended, a sink that
 * fails at each call. Random values and strings are in test_json_twin. */
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


/* ---- numbers, layout, several values ---- */

static void put_numbers(ms_json_writer *w)
{
    ms_json_begin(w, MS_JSON_ARRAY);
    ms_json_put_u64(w, 0);
    ms_json_put_u64(w, UINT64_MAX);
    ms_json_put_u64(w, 10);
    ms_json_put_seconds(w, MS_TIME_NONE);
    ms_json_put_seconds(w, INT64_MAX);
    ms_json_put_seconds(w, -500000000);
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
    ms_json_put_raw(w, MS_STR(" [ 2 ]"));
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
         "{\"a\":[1,{},[],\"x\",[2]],\"\":{\"r\":[],\"s\":[1,2]},\"n\\n\":null}"},
        {put_sample, true,
         "{\n  \"a\": [\n    1,\n    {},\n    [],\n    \"x\",\n    [\n      2\n    ]\n  ],\n"
         "  \"\": {\n    \"r\": [],\n"
         "    \"s\": [\n      1,\n      2\n    ]\n  },\n  \"n\\n\": null\n}"},
        {put_numbers, false,
         "[0,18446744073709551615,10,null,9223372036.854775807,-0.5]"},
        {put_several, false, "{}\n[1,2]\n\"x\"\n3 4\n"},
        {put_nothing, true, ""},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        begin(rows[i].pretty);
        rows[i].put(&writer);
        expect(rows[i].want, strlen(rows[i].want));
    }
}


/* ---- raw values ---- */

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
        {T("\"\\uD800 \\u20ac\""), T("\"" FFFD " \\u20ac\"")},
    };
    ms_json_opts repair = {0, true};
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        ms_str json = ms_str_n(cases[i].raw.bytes, cases[i].raw.len);
        assert_int_equal(ms_json_check(json, NULL, NULL, NULL), MS_E_UTF8);
        assert_int_equal(ms_json_check(json, &repair, NULL, NULL), MS_OK);
        begin(false);
        ms_json_put_raw(&writer, json);
        expect(cases[i].want.bytes, cases[i].want.len);
        assert_int_equal(ms_json_check(ms_str_n(out.bytes, out.len), NULL, NULL, NULL), MS_OK);
    }
    begin(false); /* an escape that is none stays, as nobody has checked it */
    ms_json_put_raw(&writer, MS_STR("\"a\\\\b\\x\""));
    expect("\"a\\\\b\\x\"", 8);
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

/* ---- ms_buf ---- */

/* An arena that is full, and one whose memory fails at each call in turn. */
static void buffer_grows_with_its_text_unless_memory_ends(void **state)
{
    static char room[1000];
    ms_arena arena;
    test_alloc heap;
    (void)state;
    begin(false);
    for (int i = 0; i < 20; i++) put_much(&writer);
    assert_int_equal(ms_json_finish(&writer), MS_OK);
    for (size_t k = 0; k < 2 || heap.failed > 0; k++) {
        ms_buf buf = {&arena, NULL, 0, 0};
        test_alloc_init(&heap);
        heap.fail_at = k;
        if (k == 0) test_arena_init_fixed(&arena, room, sizeof room);
        else test_arena_init(&arena, &heap.alloc);
        assert_int_equal(ms_buf_text(&buf).len, 0);
        ms_json_init(&writer, ms_buf_write, &buf, false);
        for (int i = 0; i < 20; i++) put_much(&writer);
        ms_result result = ms_json_finish(&writer);
        if (k == 0) assert_int_equal(result, MS_E_ARENA);
        else assert_int_equal(result, heap.failed > 0 ? MS_E_NO_MEMORY : MS_OK);
        if (result == MS_OK)
            assert_true(ms_str_equal(ms_buf_text(&buf), ms_str_n(out.bytes, out.len)));
        ms_arena_deinit(&arena);
        test_alloc_done(&heap);
    }
}


/* ---- a writer that is used wrongly ---- */

static void writing_fails_when_calls_do_not_make_a_value(void **state)
{
    size_t room = 32 * sizeof writer.object / sizeof writer.object[0];
    (void)state;
    for (int row = 0; row < 8; row++) {
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
        if (row == 7) ms_json_put_raw(&writer, MS_STR("[}"));
        if (row == 5 || row == 6) ms_json_begin(&writer, MS_JSON_OBJECT);
        for (int i = 0; row == 6 && i < 2; i++) ms_json_end(&writer);
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

#define TEST(name) cmocka_unit_test_teardown(name, discard)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(values_are_laid_out_as_the_table_has_it),
        TEST(character_is_escaped_only_when_it_must_be),
        TEST(raw_value_is_written_at_the_limit_of_depth),
        TEST(raw_value_is_mended_when_it_is_not_utf8),
        TEST(error_stays_when_a_sink_fails),
        TEST(buffer_grows_with_its_text_unless_memory_ends),
        TEST(writing_fails_when_calls_do_not_make_a_value),
        TEST(absent_text_is_written_as_empty),
    };
    return cmocka_run_group_tests_name("json_write", tests, NULL, NULL);
}
