/* Reading JSON: what is accepted and what is refused (JSONTestSuite), the place of an
 * error, nesting, the getters at their edges, and decoding of strings. Texts stand between
 * two pages that may not be touched. Random texts are in test_json_twin. */
#define _GNU_SOURCE
#include "fence.h"
#include "json_twin.h"

#include <dirent.h>
#include <pthread.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* A text with NUL bytes inside. */
#define T(literal) {literal, sizeof(literal) - 1}

typedef struct span {
    const char *bytes;
    size_t len;
} span;


/* ---- positions ---- */

typedef struct broken {
    span json;
    ms_result code;
    unsigned offset, line, column;
} broken;

/* The offset is that of the first byte that cannot stand there; of a word, an escape or
 * a UTF-8 sequence that is wrong or cut off, its first byte. */
static const broken brokens[] = {
    /* nothing, or not all */
    {T(""),                     MS_E_SYNTAX, 0, 1, 1},
    {T("   "),                  MS_E_SYNTAX, 3, 1, 4},
    {T("\n\n"),                 MS_E_SYNTAX, 2, 3, 1},
    {T("["),                    MS_E_SYNTAX, 1, 1, 2},
    {T("[1"),                   MS_E_SYNTAX, 2, 1, 3},
    {T("[1,"),                  MS_E_SYNTAX, 3, 1, 4},
    {T("{"),                    MS_E_SYNTAX, 1, 1, 2},
    {T("{\"a\""),               MS_E_SYNTAX, 4, 1, 5},
    {T("{\"a\":"),              MS_E_SYNTAX, 5, 1, 6},
    {T("{\"a\":1,"),            MS_E_SYNTAX, 7, 1, 8},
    {T("\""),                   MS_E_SYNTAX, 1, 1, 2},
    {T("\"abc"),                MS_E_SYNTAX, 4, 1, 5},
    {T("\"\\"),                 MS_E_SYNTAX, 2, 1, 3},
    {T("\"\\u12"),              MS_E_SYNTAX, 1, 1, 2},
    {T("nul"),                  MS_E_SYNTAX, 0, 1, 1},
    {T("-"),                    MS_E_SYNTAX, 1, 1, 2},
    {T("1."),                   MS_E_SYNTAX, 2, 1, 3},
    {T("1e"),                   MS_E_SYNTAX, 2, 1, 3},
    {T("1e+"),                  MS_E_SYNTAX, 3, 1, 4},
    /* structure */
    {T("[1,]"),                 MS_E_SYNTAX, 3, 1, 4},
    {T("[,1]"),                 MS_E_SYNTAX, 1, 1, 2},
    {T("[1 2]"),                MS_E_SYNTAX, 3, 1, 4},
    {T("[1}"),                  MS_E_SYNTAX, 2, 1, 3},
    {T("[}"),                   MS_E_SYNTAX, 1, 1, 2},
    {T("]"),                    MS_E_SYNTAX, 0, 1, 1},
    {T("{]"),                   MS_E_SYNTAX, 1, 1, 2},
    {T("{\"a\":1]"),            MS_E_SYNTAX, 6, 1, 7},
    {T("{\"a\":1,}"),           MS_E_SYNTAX, 7, 1, 8},
    {T("{\"a\" 1}"),            MS_E_SYNTAX, 5, 1, 6},
    {T("{\"a\",1}"),            MS_E_SYNTAX, 4, 1, 5},
    {T("{\"a\":}"),             MS_E_SYNTAX, 5, 1, 6},
    {T("{a:1}"),                MS_E_SYNTAX, 1, 1, 2},
    {T("{1:1}"),                MS_E_SYNTAX, 1, 1, 2},
    {T("{\"a\":1 \"b\":2}"),    MS_E_SYNTAX, 7, 1, 8},
    {T("[\"a\":1]"),            MS_E_SYNTAX, 4, 1, 5},
    {T("[] []"),                MS_E_SYNTAX, 3, 1, 4},
    {T("[]\n x"),               MS_E_SYNTAX, 4, 2, 2},
    {T("1,"),                   MS_E_SYNTAX, 1, 1, 2},
    {T("[1]\0"),                MS_E_SYNTAX, 3, 1, 4},
    {T("\0"),                   MS_E_SYNTAX, 0, 1, 1},
    {T("[\f1]"),                MS_E_SYNTAX, 1, 1, 2},
    {T("[1 /* one */]"),        MS_E_SYNTAX, 3, 1, 4},
    {T("'a'"),                  MS_E_SYNTAX, 0, 1, 1},
    /* words */
    {T("nulL"),                 MS_E_SYNTAX, 0, 1, 1},
    {T("nullx"),                MS_E_SYNTAX, 4, 1, 5},
    {T("True"),                 MS_E_SYNTAX, 0, 1, 1},
    {T("falsy"),                MS_E_SYNTAX, 0, 1, 1},
    {T("NaN"),                  MS_E_SYNTAX, 0, 1, 1},
    {T("-Infinity"),            MS_E_SYNTAX, 1, 1, 2},
    /* numbers */
    {T("+1"),                   MS_E_SYNTAX, 0, 1, 1},
    {T("01"),                   MS_E_SYNTAX, 1, 1, 2},
    {T("-01"),                  MS_E_SYNTAX, 2, 1, 3},
    {T("00"),                   MS_E_SYNTAX, 1, 1, 2},
    {T(".5"),                   MS_E_SYNTAX, 0, 1, 1},
    {T("-.5"),                  MS_E_SYNTAX, 1, 1, 2},
    {T("1.e1"),                 MS_E_SYNTAX, 2, 1, 3},
    {T("1ex"),                  MS_E_SYNTAX, 2, 1, 3},
    {T("[1e+]"),                MS_E_SYNTAX, 4, 1, 5},
    {T("1.5.2"),                MS_E_SYNTAX, 3, 1, 4},
    {T("1e1.0"),                MS_E_SYNTAX, 3, 1, 4},
    {T("0x1"),                  MS_E_SYNTAX, 1, 1, 2},
    {T("1 000"),                MS_E_SYNTAX, 2, 1, 3},
    {T("--1"),                  MS_E_SYNTAX, 1, 1, 2},
    /* strings */
    {T("\"a\nb\""),             MS_E_SYNTAX, 2, 1, 3},
    {T("\"a\tb\""),             MS_E_SYNTAX, 2, 1, 3},
    {T("\"a\0b\""),             MS_E_SYNTAX, 2, 1, 3},
    {T("\"a\x1f\""),            MS_E_SYNTAX, 2, 1, 3},
    {T("\"\\x41\""),            MS_E_SYNTAX, 1, 1, 2},
    {T("\"\\'\""),              MS_E_SYNTAX, 1, 1, 2},
    {T("\"\\U0041\""),          MS_E_SYNTAX, 1, 1, 2},
    {T("\"\\u12g4\""),          MS_E_SYNTAX, 1, 1, 2},
    {T("\"\\u 123\""),          MS_E_SYNTAX, 1, 1, 2},
    {T("\"\\\n\""),             MS_E_SYNTAX, 1, 1, 2},
    /* UTF-8 */
    {T("\"\xff\""),             MS_E_UTF8,   1, 1, 2},
    {T("\"ab\xc3\""),           MS_E_UTF8,   3, 1, 4},
    {T("\"\xe2\x82\""),         MS_E_UTF8,   1, 1, 2},
    {T("\"\x80\""),             MS_E_UTF8,   1, 1, 2},
    {T("\"\xc0\xaf\""),         MS_E_UTF8,   1, 1, 2},
    {T("\"\xed\xa0\x80\""),     MS_E_UTF8,   1, 1, 2},
    {T("\"\xf4\x90\x80\x80\""), MS_E_UTF8,   1, 1, 2},
    {T("\"\xe2\x82\xac\xe2\""), MS_E_UTF8,   4, 1, 5},
    {T("{\"\xe9\":1}"),         MS_E_UTF8,   2, 1, 3},
    {T("[\"ok\",\n \"\xe9\"]"), MS_E_UTF8,   9, 2, 3},
    {T("\"\\ud800\""),          MS_E_UTF8,   1, 1, 2},
    {T("\"a\\udc00\""),         MS_E_UTF8,   2, 1, 3},
    {T("\"\\ud800\\u0041\""),   MS_E_UTF8,   1, 1, 2},
    {T("\"\\ud800\\ud800\\udc00\""), MS_E_UTF8, 1, 1, 2},
    {T("\xef\xbb\xbf[]"),       MS_E_SYNTAX, 0, 1, 1},
    {T("[\xe2\x80\x8b]"),       MS_E_SYNTAX, 1, 1, 2},
    /* lines */
    {T("{\n  \"a\": 1,\n  \"b\": tru\n}"), MS_E_SYNTAX, 19, 3, 8},
    {T("[\r\n1,\r\n]"),         MS_E_SYNTAX, 7, 3, 1},
    {T("\n\n\n  \"\\n\\n\\q\""), MS_E_SYNTAX, 10, 4, 8},
};

static void error_is_at_the_first_byte_that_cannot_stand_there(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(brokens); i++) {
        const broken *b = &brokens[i];
        ms_str json = at_end(b->json.bytes, b->json.len), value = MS_STR("untouched");
        ms_error err;
        memset(&err, 0, sizeof err);
        ms_result got = ms_json_check(json, NULL, &value, &err);
        bool right = got == b->code && err.code == b->code && err.offset == b->offset &&
                     err.line == b->line && err.column == b->column;
        if (!right) {
            show("text", b->json.bytes, b->json.len);
            fail_msg("%s: code %d at %llu, line %u, column %u", err.message, (int)got,
                     (unsigned long long)err.offset, err.line, err.column);
        }
        assert_null(error_is_odd(json, NULL, &err));
        assert_int_equal(ms_json_check(json, NULL, NULL, NULL), b->code);
    }
}

/* A check that succeeds writes no error, and its value is the text without the white
 * space around it. */
static void error_is_untouched_when_a_text_is_good(void **state)
{
    ms_str value, json = at_end(" \t\r\n[ 1 ] \n", 11);
    ms_error err;
    (void)state;
    memset(&err, 0x5a, sizeof err);
    assert_int_equal(ms_json_check(json, NULL, &value, &err), MS_OK);
    assert_ptr_equal(value.ptr, json.ptr + 4);
    assert_int_equal(value.len, 5);
    for (size_t i = 0; i < sizeof err; i++)
        assert_int_equal(((const unsigned char *)&err)[i], 0x5a);
    assert_int_equal(ms_json_check(ms_str_of(NULL), NULL, NULL, &err), MS_E_SYNTAX);
}


/* ---- depth ---- */

static void brackets(char *to, size_t n)
{
    memset(to, '[', n);
    memset(to + n, ']', n);
}

/* {"a":{"a": ... 1 ... }} */
static size_t braces(char *to, size_t n)
{
    for (size_t i = 0; i < n; i++) memcpy(to + 5 * i, "{\"a\":", 5);
    to[5 * n] = '1';
    memset(to + 5 * n + 1, '}', n);
    return 6 * n + 1;
}

static void depth_is_refused_beyond_its_limit(void **state)
{
    static const struct {
        unsigned max_depth, limit;
    } cases[] = {{0, 512}, {1, 1}, {2, 2}, {10, 10}, {511, 511}, {512, 512}};
    static char text[8192];
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        ms_json_opts opts = {cases[i].max_depth, false};
        size_t limit = cases[i].limit;
        ms_error err;
        ms_str json;
        brackets(text, limit);
        json = at_end(text, 2 * limit);
        assert_int_equal(ms_json_check(json, &opts, NULL, &err), MS_OK);
        brackets(text, limit + 1);
        json = at_end(text, 2 * limit + 2);
        assert_int_equal(ms_json_check(json, &opts, NULL, &err), MS_E_DEPTH);
        assert_int_equal(err.offset, limit);
        assert_null(error_is_odd(json, &opts, &err));
        json = at_end(text, braces(text, limit));
        assert_int_equal(ms_json_check(json, &opts, NULL, &err), MS_OK);
        json = at_end(text, braces(text, limit + 1));
        assert_int_equal(ms_json_check(json, &opts, NULL, &err), MS_E_DEPTH);
        assert_int_equal(err.offset, 5 * limit);
        assert_null(error_is_odd(json, &opts, &err));
    }
}

/* Depth counts what is open at a time, not what was opened in all. */
static void depth_counts_what_is_open_at_a_time(void **state)
{
    ms_json_opts opts = {2, false};
    (void)state;
    assert_int_equal(ms_json_check(MS_STR("[[],[],[],{},{},[1],[2]]"), &opts, NULL, NULL),
                     MS_OK);
    assert_int_equal(ms_json_check(MS_STR("[\"[[[[\",{\"{{{\":1}]"), &opts, NULL, NULL),
                     MS_OK);
    assert_int_equal(ms_json_check(MS_STR("[[],[{}]]"), &opts, NULL, NULL), MS_E_DEPTH);
}

static void brackets_are_refused_when_there_are_100000(void **state)
{
    size_t n = 100000;
    char *text = (char *)malloc(2 * n);
    ms_arena arena;
    ms_error err;
    (void)state;
    memset(&arena, 0, sizeof arena);
    assert_non_null(text);
    brackets(text, n);
    assert_int_equal(ms_json_check(at_end(text, n), NULL, NULL, &err), MS_E_DEPTH);
    assert_int_equal(err.offset, 512);
    assert_int_equal(ms_json_check(at_end(text, 2 * n), NULL, NULL, &err), MS_E_DEPTH);
    assert_null(touch(at_end(text, n), &arena));
    assert_null(touch(at_end(text, 2 * n), &arena));
    ms_arena_deinit(&arena);
    free(text);
}

/* Options beyond what the library can count are refused, not obeyed. */
static void depth_is_an_error_when_it_is_beyond_the_library(void **state)
{
    static const unsigned depths[] = {MS_JSON_MAX_DEPTH + 1, 1024, UINT32_MAX};
    static char text[2 * (MS_JSON_MAX_DEPTH + 1)];
    (void)state;
    brackets(text, MS_JSON_MAX_DEPTH + 1);
    for (size_t i = 0; i < 3; i++) {
        ms_json_opts opts = {depths[i], false};
        ms_str json = ms_str_n(text, sizeof text);
        assert_int_not_equal(ms_json_check(json, &opts, NULL, NULL), MS_OK);
    }
}


/* ---- getters ---- */

typedef struct number_case {
    const char *text;
    ms_result i_result;
    int64_t i;
    ms_result u_result;
    uint64_t u;
    ms_result f_result;
    double f;
} number_case;

#define R   MS_E_RANGE
#define I63 ((uint64_t)1 << 63)
#define I53 9007199254740993
#define E18 1000000000000000000
static const number_case numbers[] = {
    {"0",                    MS_OK, 0,             MS_OK, 0,          MS_OK, 0.0},
    {"-0",                   MS_OK, 0,             MS_OK, 0,          MS_OK, -0.0},
    {"-0.0",                 MS_OK, 0,             MS_OK, 0,          MS_OK, -0.0},
    {"-0e7",                 MS_OK, 0,             MS_OK, 0,          MS_OK, -0.0},
    {"0e999999999999999999", MS_OK, 0,             MS_OK, 0,          MS_OK, 0.0},
    {"1",                    MS_OK, 1,             MS_OK, 1,          MS_OK, 1.0},
    {"-1",                   MS_OK, -1,            R,     0,          MS_OK, -1.0},
    {"9223372036854775806",  MS_OK, INT64_MAX - 1, MS_OK, INT64_MAX - 1, MS_OK, 0x1p63},
    {"9223372036854775807",  MS_OK, INT64_MAX,     MS_OK, INT64_MAX,  MS_OK, 0x1p63},
    {"9223372036854775808",  R,     0,             MS_OK, I63,        MS_OK, 0x1p63},
    {"-9223372036854775807", MS_OK, -INT64_MAX,    R,     0,          MS_OK, -0x1p63},
    {"-9223372036854775808", MS_OK, INT64_MIN,     R,     0,          MS_OK, -0x1p63},
    {"-9223372036854775809", R,     0,             R,     0,          MS_OK, -0x1p63},
    {"18446744073709551614", R,     0,             MS_OK, UINT64_MAX - 1, MS_OK, 0x1p64},
    {"18446744073709551615", R,     0,             MS_OK, UINT64_MAX, MS_OK, 0x1p64},
    {"18446744073709551616", R,     0,             R,     0,          MS_OK, 0x1p64},
    {"18446744073709551625", R,     0,             R,     0,          MS_OK, 0x1p64},
    {"99999999999999999999", R,     0,             R,     0,          MS_OK, 1e20},
    {"184467440737095516150", R,    0,             R,     0,          MS_OK, 0x1.4p67},
    {"1.0",                  MS_OK, 1,             MS_OK, 1,          MS_OK, 1.0},
    {"1.000000000000000000000000000", MS_OK, 1,    MS_OK, 1,          MS_OK, 1.0},
    {"1e3",                  MS_OK, 1000,          MS_OK, 1000,       MS_OK, 1000.0},
    {"1E+3",                 MS_OK, 1000,          MS_OK, 1000,       MS_OK, 1000.0},
    {"-1e3",                 MS_OK, -1000,         R,     0,          MS_OK, -1000.0},
    {"1000e-3",              MS_OK, 1,             MS_OK, 1,          MS_OK, 1.0},
    {"1.5e1",                MS_OK, 15,            MS_OK, 15,         MS_OK, 15.0},
    {"0.001e3",              MS_OK, 1,             MS_OK, 1,          MS_OK, 1.0},
    {"1e18",                 MS_OK, E18,           MS_OK, E18,        MS_OK, 1e18},
    {"1e19",                 R,     0,             MS_OK, 10ull * E18, MS_OK, 1e19},
    {"1e20",                 R,     0,             R,     0,          MS_OK, 1e20},
    {"9.223372036854775807e18", MS_OK, INT64_MAX,  MS_OK, INT64_MAX,  MS_OK, 0x1p63},
    {"9.223372036854775808e18", R,  0,             MS_OK, I63,        MS_OK, 0x1p63},
    {"-922337203685477580.8e1", MS_OK, INT64_MIN,  R,     0,          MS_OK, -0x1p63},
    {"1.8446744073709551615e19", R, 0,             MS_OK, UINT64_MAX, MS_OK, 0x1p64},
    {"1.000000000000000005", R,      0,             R,     0,          MS_OK, 1.0},
    {"10000000000000000999", R,      0,             MS_OK, 10000000000000000999u, MS_OK, 1e19},
    {"1E-999",               R,     0,             R,     0,          MS_OK, 0.0},
    {"1E6",                  MS_OK, 1000000,       MS_OK, 1000000,    MS_OK, 1e6},
    {"1000000000000000",     MS_OK, 1000000000000000, MS_OK, 1000000000000000, MS_OK, 1e15},
    {"9007199254740993.0",   MS_OK, I53,           MS_OK, I53,        MS_OK, 0x1p53},
    {"1.5",                  R,     0,             R,     0,          MS_OK, 1.5},
    {"-0.1",                 R,     0,             R,     0,          MS_OK, -0.1},
    {"1e-1",                 R,     0,             R,     0,          MS_OK, 0.1},
    {"1e-400",               R,     0,             R,     0,          MS_OK, 0.0},
    {"-1e-400",              R,     0,             R,     0,          MS_OK, -0.0},
    {"1e400",                R,     0,             R,     0,          R,     0.0},
    {"-1e400",               R,     0,             R,     0,          R,     0.0},
    {"1e99999999999999999999", R,   0,             R,     0,          R,     0.0},
    {"1e-99999999999999999999", R,  0,             R,     0,          MS_OK, 0.0},
    {"1e18446744073709551616", R,   0,             R,     0,          R,     0.0},
    {"1e4294967296",         R,     0,             R,     0,          R,     0.0},
    {"1e-4294967296",        R,     0,             R,     0,          MS_OK, 0.0},
    {"0.0000000000000000000000000000000000000001e41",
                             MS_OK, 10,            MS_OK, 10,         MS_OK, 10.0},
};
#undef R
#undef I63
#undef I53
#undef E18

static void number_is_read_at_the_edge_of_each_type(void **state)
{
    (void)state;
    for (size_t n = 0; n < COUNT(numbers); n++) {
        const number_case *c = &numbers[n];
        ms_str v = at_end(c->text, strlen(c->text));
        int64_t i = 77;
        uint64_t u = 77;
        double f = 77;
        bool right = ms_json_kind_of(v) == MS_JSON_NUMBER &&
                     ms_json_i64(v, &i) == c->i_result &&
                     i == (c->i_result == MS_OK ? c->i : 77) &&
                     ms_json_u64(v, &u) == c->u_result &&
                     u == (c->u_result == MS_OK ? c->u : 77) &&
                     ms_json_f64(v, &f) == c->f_result;
        if (c->f_result == MS_OK)
            right = right && memcmp(&f, &c->f, sizeof f) == 0;
        else
            right = right && memcmp(&f, &(double){77}, sizeof f) == 0;
        if (!right) fail_msg("%s: %lld %llu %.17g", c->text, (long long)i,
                             (unsigned long long)u, f);
    }
}

/* A digit counts however far behind it is: 1.000...0001 is no integer, 1.000...000 is. */
static void number_is_no_integer_when_a_late_digit_counts(void **state)
{
    static char text[4096];
    (void)state;
    for (size_t zeros = 1; zeros < 4000; zeros += zeros < 900 ? 1 : 499) {
        int64_t i = 77;
        uint64_t u = 77;
        memset(text, '0', sizeof text);
        memcpy(text, "1.", 2);
        text[2 + zeros] = '1';
        ms_str v = at_end(text, 3 + zeros);
        assert_int_equal(ms_json_i64(v, &i), MS_E_RANGE);
        assert_int_equal(ms_json_u64(v, &u), MS_E_RANGE);
        v.len--;
        assert_int_equal(ms_json_i64(v, &i), MS_OK);
        assert_int_equal(ms_json_u64(v, &u), MS_OK);
        assert_true(i == 1 && u == 1);
    }
}

/* Each getter on a value of each other kind: MS_E_KIND, and *out as it was. */
static void getter_returns_kind_when_the_value_is_of_another(void **state)
{
    static const char *const values[] = {NULL, "null", "false", "true", "1", "\"1\"",
                                         "[1]", "{\"a\":1}", ""};
    static const ms_json_kind kinds[] = {
        MS_JSON_NONE,   MS_JSON_NULL,   MS_JSON_FALSE, MS_JSON_TRUE,  MS_JSON_NUMBER,
        MS_JSON_STRING, MS_JSON_ARRAY, MS_JSON_OBJECT, MS_JSON_NONE};
    (void)state;
    for (size_t n = 0; n < COUNT(values); n++) {
        ms_str v = ms_str_of(values[n]), s = MS_STR("untouched"), part = s;
        ms_json_kind kind = kinds[n];
        bool flag = true, is_bool = kind == MS_JSON_TRUE || kind == MS_JSON_FALSE;
        int64_t i = 77;
        uint64_t u = 77;
        double f = 77;
        bool is_number = kind == MS_JSON_NUMBER;
        if (v.ptr != NULL) v = at_end(v.ptr, v.len);
        assert_int_equal(ms_json_kind_of(v), kind);
        assert_int_equal(test_json_bool(v, &flag), is_bool ? MS_OK : MS_E_KIND);
        assert_int_equal(flag, kind != MS_JSON_FALSE);
        assert_int_equal(ms_json_i64(v, &i), is_number ? MS_OK : MS_E_KIND);
        assert_int_equal(ms_json_u64(v, &u), is_number ? MS_OK : MS_E_KIND);
        assert_int_equal(ms_json_f64(v, &f), is_number ? MS_OK : MS_E_KIND);
        assert_int_equal(i, is_number ? 1 : 77);
        assert_int_equal(u, is_number ? 1 : 77);
        assert_true(f > 0 && (f < 2) == is_number);
        assert_int_equal(ms_json_string(v, NULL, &s),
                         kind == MS_JSON_STRING ? MS_OK : MS_E_KIND);
        assert_true(ms_str_equal(s, kind == MS_JSON_STRING ? MS_STR("1")
                                                           : MS_STR("untouched")));
        assert_int_equal(ms_json_string_is(v, MS_STR("1")), kind == MS_JSON_STRING);
        assert_int_equal(ms_json_member(v, MS_STR("a"), &part), kind == MS_JSON_OBJECT);
        assert_int_equal(ms_json_element(v, 0, &part), kind == MS_JSON_ARRAY);
        ms_json_iter it = ms_json_iterate(v);
        assert_int_equal(ms_json_next(&it), kind >= MS_JSON_ARRAY);
    }
}


/* ---- members, elements, iterators ---- */

static void member_is_found_by_its_decoded_name(void **state)
{
    const char *text = "{ \"a\" : 1 , \"b\\u0062\":[ 2 , {\"x\":[]} ,3 ], "
                       "\"a\":{ \"a\" : 7 } , \"\" : \"e\", \"c\\\"\\\\\":null, "
                       "\"\xc3\xa9\": 5 }";
    ms_str json = at_end(text, strlen(text));
    ms_str object, v, w;
    (void)state;
    assert_int_equal(ms_json_check(json, NULL, &object, NULL), MS_OK);
    assert_true(ms_json_member(object, MS_STR("a"), &v)); /* the last counts */
    assert_true(same(v, "{ \"a\" : 7 }", 11));
    assert_true(ms_json_member(v, MS_STR("a"), &w) && same(w, "7", 1));
    assert_true(ms_json_member(object, MS_STR("bb"), &v));
    assert_true(same(v, "[ 2 , {\"x\":[]} ,3 ]", 19));
    assert_true(ms_json_element(v, 0, &w) && same(w, "2", 1));
    assert_true(ms_json_element(v, 1, &w) && same(w, "{\"x\":[]}", 8));
    assert_true(ms_json_element(v, 2, &w) && same(w, "3", 1));
    assert_false(ms_json_element(v, 3, &w));
    assert_false(ms_json_element(v, SIZE_MAX, &w));
    assert_true(ms_json_member(object, MS_STR(""), &v) && same(v, "\"e\"", 3));
    assert_true(ms_json_member(object, MS_STR("c\"\\"), &v) && same(v, "null", 4));
    assert_true(ms_json_member(object, MS_STR("\xc3\xa9"), &v) && same(v, "5", 1));
    assert_false(ms_json_member(object, MS_STR("b"), &v));
    assert_false(ms_json_member(object, MS_STR("b\\u0062"), &v));
    assert_false(ms_json_member(object, MS_STR("x"), &v)); /* not from further inside */
    assert_false(ms_json_member(object, ms_str_of(NULL), &v));
}

static void iterator_returns_every_item_in_order(void **state)
{
    static const struct {
        const char *key, *value;
    } want[] = {{"\"a\"", "1"}, {"\"a\"", "[ ]"}, {"\"\\u0061\"", "{\"b\":[1,2]}"},
                {"\"s\"", "\"]}\\\"\""}, {"\"n\"", "-1.5e+3"}, {"\"t\"", "true"}};
    const char *text = " {\"a\":1,\"a\" : [ ] ,\n\"\\u0061\":{\"b\":[1,2]}, "
                       "\"s\":\"]}\\\"\",\"n\":-1.5e+3,\"t\":true } ";
    ms_str json = at_end(text, strlen(text));
    ms_str object;
    size_t n = 0;
    (void)state;
    assert_int_equal(ms_json_check(json, NULL, &object, NULL), MS_OK);
    ms_json_iter it = ms_json_iterate(object);
    while (ms_json_next(&it)) {
        assert_true(n < COUNT(want));
        assert_true(same(it.key, want[n].key, strlen(want[n].key)));
        assert_true(same(it.value, want[n].value, strlen(want[n].value)));
        n++;
    }
    assert_int_equal(n, COUNT(want));
    assert_false(ms_json_next(&it)); /* and stays at the end */
    it = ms_json_iterate(MS_STR("[ ]"));
    assert_false(ms_json_next(&it));
    it = ms_json_iterate(MS_STR("{}"));
    assert_false(ms_json_next(&it));
}


/* ---- strings ---- */

#define FFFD "\xef\xbf\xbd"
#define THREE FFFD FFFD FFFD

typedef struct decoding {
    span json;            /* a string */
    span decoded;
    ms_result check;      /* without repair; with it always accepted */
    bool view;            /* decoded without an arena */
} decoding;

static const decoding decodings[] = {
    {T("\"\""),                       T(""),                  MS_OK, true},
    {T("\"plain\""),                  T("plain"),             MS_OK, true},
    {T("\"\xc3\xa9\xe2\x82\xac\""), T("\xc3\xa9\xe2\x82\xac"), MS_OK, true},
    {T("\"\xf0\x9d\x84\x9e\""),     T("\xf0\x9d\x84\x9e"),  MS_OK, true},
    {T("\"\x7f\""),                   T("\x7f"),              MS_OK, true},
    {T("\"\xef\xbf\xbe\""),         T("\xef\xbf\xbe"),      MS_OK, true},
    {T("\"\xf4\x8f\xbf\xbf\""),     T("\xf4\x8f\xbf\xbf"),  MS_OK, true},
    {T("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""), T("\"\\/\b\f\n\r\t"), MS_OK, false},
    {T("\"\\u0000\""),                T("\0"),                MS_OK, false},
    {T("\"a\\u0000b\""),              T("a\0b"),              MS_OK, false},
    {T("\"\\u0041\\u007f\\u0080\""),  T("A\x7f\xc2\x80"),     MS_OK, false},
    {T("\"\\u07ff\\u0800\""),        T("\xdf\xbf\xe0\xa0\x80"), MS_OK, false},
    {T("\"\\uffff\""),               T("\xef\xbf\xbf"),      MS_OK, false},
    {T("\"\\uD7FF\\uE000\""),         T("\xed\x9f\xbf\xee\x80\x80"), MS_OK, false},
    {T("\"\\uaBcD\""),                T("\xea\xaf\x8d"),      MS_OK, false},
    {T("\"\\ud800\\udc00\""),         T("\xf0\x90\x80\x80"),  MS_OK, false},
    {T("\"\\uDBFF\\uDFFF\""),         T("\xf4\x8f\xbf\xbf"),  MS_OK, false},
    {T("\"\\ud834\\udd1e\""),         T("\xf0\x9d\x84\x9e"),  MS_OK, false},
    {T("\"\\\\u0041\""),              T("\\u0041"),           MS_OK, false},
    /* lone surrogates, one U+FFFD an escape */
    {T("\"\\ud800\""),                T(FFFD),                MS_E_UTF8, false},
    {T("\"\\udfff\""),                T(FFFD),                MS_E_UTF8, false},
    {T("\"\\ud800x\""),               T(FFFD "x"),            MS_E_UTF8, false},
    {T("\"\\ud800\\n\""),             T(FFFD "\n"),           MS_E_UTF8, false},
    {T("\"\\ud800\\u0041\""),         T(FFFD "A"),            MS_E_UTF8, false},
    {T("\"\\udc00\\ud800\""),         T(FFFD FFFD),           MS_E_UTF8, false},
    {T("\"\\ud800\\ue000\""),         T(FFFD "\xee\x80\x80"), MS_E_UTF8, false},
    {T("\"\\ud800\\udbff\""),         T(FFFD FFFD),           MS_E_UTF8, false},
    {T("\"\\ud800\\ud834\\udd1e\""),  T(FFFD "\xf0\x9d\x84\x9e"), MS_E_UTF8, false},
    {T("\"\\ud834\\udd1e\\udd1e\""),  T("\xf0\x9d\x84\x9e" FFFD), MS_E_UTF8, false},
    {T("\"\\ud800\\\\udc00\""),       T(FFFD "\\udc00"),      MS_E_UTF8, false},
    /* bad UTF-8, one U+FFFD for the beginning of a character that does not go on */
    {T("\"\xff\""),                   T(FFFD),                MS_E_UTF8, false},
    {T("\"\xe2\x82\""),               T(FFFD),                MS_E_UTF8, false},
    {T("\"\xf0\x9d\x84z\""),          T(FFFD "z"),            MS_E_UTF8, false},
    {T("\"\xf0\x80\x80\""),           T(FFFD FFFD FFFD),      MS_E_UTF8, false},
    {T("\"a\x80z\""),                 T("a" FFFD "z"),        MS_E_UTF8, false},
    {T("\"\xe9\""),                   T(FFFD),                MS_E_UTF8, false},
    {T("\"\xc3\xa9\xe9 \xc3\xa9\""),  T("\xc3\xa9" FFFD " \xc3\xa9"), MS_E_UTF8, false},
    {T("\"\xe9\\n\""),                T(FFFD "\n"),           MS_E_UTF8, false},
};

static void string_is_decoded_as_the_table_has_it(void **state)
{
    ms_json_opts repair = {0, true};
    ms_arena arena;
    (void)state;
    memset(&arena, 0, sizeof arena);
    for (size_t i = 0; i < COUNT(decodings); i++) {
        const decoding *d = &decodings[i];
        ms_str v = at_end(d->json.bytes, d->json.len), view = MS_STR("untouched"), s;
        bool right = ms_json_check(v, NULL, NULL, NULL) == d->check &&
                     ms_json_check(v, &repair, NULL, NULL) == MS_OK;
        ms_result none = ms_json_string(v, NULL, &view);
        if (d->view) right = right && none == MS_OK && view.ptr == v.ptr + 1;
        else right = right && none == MS_E_ARENA && same(view, "untouched", 9);
        right = right && ms_json_string(v, &arena, &s) == MS_OK &&
                same(s, d->decoded.bytes, d->decoded.len) &&
                s.ptr != NULL && /* empty is not absent */
                inside(s, v) == d->view && ms_json_string_is(v, s) &&
                d->view == ms_json_string_is(v, ms_str_n(v.ptr + 1, v.len - 2)) &&
                !ms_json_string_is(v, MS_STR("another"));
        if (!right) {
            show("string", v.ptr, v.len);
            fail();
        }
    }
    ms_arena_deinit(&arena);
}

static void string_is_equal_only_to_its_end(void **state)
{
    static const char *const spelled[] = {"\"abc\"", "\"a\\u0062c\"", "\"\\u0061bc\"",
                                          "\"ab\\u0063\""};
    (void)state;
    for (size_t i = 0; i < COUNT(spelled); i++) {
        ms_str v = at_end(spelled[i], strlen(spelled[i]));
        assert_true(ms_json_string_is(v, MS_STR("abc")));
        assert_false(ms_json_string_is(v, MS_STR("ab")));
        assert_false(ms_json_string_is(v, MS_STR("abcd")));
        assert_false(ms_json_string_is(v, MS_STR("abd")));
        assert_false(ms_json_string_is(v, MS_STR("xbc")));
        assert_false(ms_json_string_is(v, MS_STR("")));
        assert_false(ms_json_string_is(v, ms_str_of(NULL)));
    }
    for (size_t len = 0; len < 4; len++) { /* the text may end anywhere, too */
        ms_str cut = at_end("a\xe2\x82\xac", len);
        assert_false(ms_json_string_is(MS_STR("\"a\xe2\x82\xac\""), cut));
        assert_false(ms_json_string_is(MS_STR("\"\\u0061\\u20ac\""), cut));
    }
    assert_true(ms_json_string_is(MS_STR("\"\""), MS_STR("")));
    assert_false(ms_json_string_is(MS_STR("\"\""), MS_STR("a")));
    assert_false(ms_json_string_is(MS_STR("\"a\\u0000b\""), MS_STR("a")));
}

/* A string that does not end is none, checked or not. */
static void string_is_refused_when_it_has_no_end(void **state)
{
    static const char *const cut[] = {"\"", "\"abc", "\"abc\\", "\"\\u0061"};
    ms_arena arena;
    (void)state;
    memset(&arena, 0, sizeof arena);
    for (size_t i = 0; i < COUNT(cut); i++) {
        ms_str v = at_end(cut[i], strlen(cut[i])), s = MS_STR("untouched");
        assert_int_not_equal(ms_json_string(v, &arena, &s), MS_OK);
        assert_true(ms_str_equal(s, MS_STR("untouched")));
        assert_false(ms_json_string_is(v, MS_STR("abc")));
        assert_false(ms_json_string_is(v, MS_STR("ab")));
    }
    ms_arena_deinit(&arena);
}

/* An arena that is full or cannot grow: a code, and out as it was. */
static void string_is_untouched_when_memory_ends(void **state)
{
    static char room[64];
    char text[512];
    ms_str v, s = MS_STR("untouched");
    ms_arena arena;
    test_alloc heap;
    (void)state;
    memset(text, 'x', sizeof text);
    memcpy(text, "\"\\n", 3);
    text[sizeof text - 1] = '"';
    v = at_end(text, sizeof text);
    test_arena_init_fixed(&arena, room, sizeof room);
    assert_int_equal(ms_json_string(v, &arena, &s), MS_E_ARENA);
    assert_true(ms_str_equal(s, MS_STR("untouched")));
    ms_arena_deinit(&arena);
    test_alloc_init(&heap);
    heap.fail_at = 1;
    test_arena_init(&arena, &heap.alloc);
    assert_int_not_equal(ms_json_string(v, &arena, &s), MS_OK);
    assert_true(ms_str_equal(s, MS_STR("untouched")));
    assert_int_equal(ms_json_string(v, &arena, &s), MS_OK);
    assert_int_equal(s.len, sizeof text - 3);
    ms_arena_deinit(&arena);
    test_alloc_done(&heap);
}


/* ---- JSONTestSuite ---- */

/* What RFC 8259 leaves open, as tests/JSON.md lists it. */
typedef struct decision {
    char name[128];
    ms_result code;
} decision;

static decision decisions[64];
static size_t decision_count;

static void read_decisions(void)
{
    char *page = read_file("tests/JSON.md", NULL);
    assert_non_null(page);
    for (char *line = strtok(page, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char word[32], code[32];
        decision *d = &decisions[decision_count];
        if (sscanf(line, "| `%127[^`]` | %31s `%31[^`]` |", d->name, word, code) != 3)
            continue;
        d->code = strcmp(code, "MS_OK") == 0       ? MS_OK
                  : strcmp(code, "MS_E_UTF8") == 0 ? MS_E_UTF8
                                                   : MS_E_SYNTAX;
        assert_string_equal(word, d->code == MS_OK ? "accepted" : "refused");
        decision_count++;
    }
    free(page);
}

static const decision *decision_of(const char *name)
{
    for (size_t i = 0; i < decision_count; i++)
        if (strcmp(decisions[i].name, name) == 0) return &decisions[i];
    return NULL;
}

#define PARSING "data/json-test-suite/test_parsing"

typedef struct suite {
    char folder[512];
    unsigned y, n, i, wrong; /* files of each kind; those that came out otherwise */
} suite;

/* Is the file dealt with as its name asks? Runs in the small thread: no assertions. */
static bool suite_file(suite *s, const char *name, const ms_json_opts *opts)
{
    char path[1024];
    size_t len = 0;
    const decision *d = decision_of(name);
    ms_arena arena;
    ms_error err;
    snprintf(path, sizeof path, "%s/%s", s->folder, name);
    char *bytes = read_file(path, &len);
    if (bytes == NULL || (name[0] == 'i' && d == NULL)) return false;
    memset(&arena, 0, sizeof arena);
    ms_str json = at_end(bytes, len), value;
    ms_result got = ms_json_check(json, opts, &value, &err);
    bool right = name[0] == 'y' ? got == MS_OK : name[0] == 'n' ? got != MS_OK
                                                                : got == d->code;
    if (right && got != MS_OK) right = error_is_odd(json, opts, &err) == NULL;
    if (right && got == MS_OK) right = visit(value, SIZE_MAX, &arena) == NULL;
    if (right && len < 4096) right = visit(json, SIZE_MAX, &arena) == NULL;
    ms_arena_deinit(&arena);
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
        if (name[0] == 'y') s->y++;
        if (name[0] == 'n') s->n++;
        if (name[0] == 'i') s->i++;
        if (!suite_file(s, name, NULL)) {
            fprintf(stderr, "wrong: %s\n", name);
            s->wrong++;
        }
    }
    if (dir != NULL) closedir(dir);
    return NULL;
}

/* All of it on a stack of 64 KiB, or the least that the system allows. */
static void suite_is_read_on_a_small_stack(void **state)
{
    suite s;
    pthread_attr_t attr;
    pthread_t thread;
    long least = sysconf(_SC_THREAD_STACK_MIN);
    (void)state;
    memset(&s, 0, sizeof s);
    if (!shared_path(s.folder, sizeof s.folder, PARSING)) skip();
    read_decisions();
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(
        pthread_attr_setstacksize(&attr, least > 65536 ? (size_t)least : 65536), 0);
    assert_int_equal(pthread_create(&thread, &attr, suite_run, &s), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attr);
    assert_int_equal(s.y, 95);
    assert_int_equal(s.n, 188);
    assert_int_equal(decision_count, 35);
    assert_int_equal(s.i, decision_count);
    assert_int_equal(s.wrong, 0);
}

/* ---- what the texts of test_transform mean ---- */

/* Each is [ ] around a number or a string, or an object: a strict answer, and what is
 * written of all values with repair. Three bytes of a surrogate in UTF-8 are three mistakes:
 * nothing begins with ED A0. */
static const struct {
    const char *name;
    ms_result code;
    span built;
} transforms[] = {
    {"number_-9223372036854775808.json", MS_OK, T("[-9223372036854775808]")},
    {"number_-9223372036854775809.json", MS_OK, T("[-9223372036854775809]")},
    {"number_1.0.json", MS_OK, T("[1.0]")},
    {"number_1.000000000000000005.json", MS_OK, T("[1.000000000000000005]")},
    {"number_1000000000000000.json", MS_OK, T("[1000000000000000]")},
    {"number_10000000000000000999.json", MS_OK, T("[10000000000000000999]")},
    {"number_1e-999.json", MS_OK, T("[1E-999]")},
    {"number_1e6.json", MS_OK, T("[1E6]")},
    {"number_9223372036854775807.json", MS_OK, T("[9223372036854775807]")},
    {"number_9223372036854775808.json", MS_OK, T("[9223372036854775808]")},
    {"object_key_nfc_nfd.json", MS_OK, T("{\"\xc3\xa9\":\"NFC\",\"e\xcc\x81\":\"NFD\"}")},
    {"object_key_nfd_nfc.json", MS_OK, T("{\"e\xcc\x81\":\"NFD\",\"\xc3\xa9\":\"NFC\"}")},
    {"object_same_key_different_values.json", MS_OK, T("{\"a\":1,\"a\":2}")},
    {"object_same_key_same_value.json", MS_OK, T("{\"a\":1,\"a\":1}")},
    {"object_same_key_unclear_values.json", MS_OK, T("{\"a\":0,\"a\":-0}")},
    {"string_1_escaped_invalid_codepoint.json", MS_E_UTF8, T("[\"" FFFD "\"]")},
    {"string_1_invalid_codepoint.json", MS_E_UTF8, T("[\"" THREE "\"]")},
    {"string_2_escaped_invalid_codepoints.json", MS_E_UTF8, T("[\"" FFFD FFFD "\"]")},
    {"string_2_invalid_codepoints.json", MS_E_UTF8, T("[\"" THREE THREE "\"]")},
    {"string_3_escaped_invalid_codepoints.json", MS_E_UTF8, T("[\"" THREE "\"]")},
    {"string_3_invalid_codepoints.json", MS_E_UTF8, T("[\"" THREE THREE THREE "\"]")},
    {"string_with_escaped_NULL.json", MS_OK, T("[\"A\\u0000B\"]")},
};

#define TRANSFORM "data/json-test-suite/test_transform"

static void text_of_the_suite_is_read_as_the_table_has_it(void **state)
{
    const ms_json_opts repair = {0, true};
    ms_arena arena;
    (void)state;
    memset(&arena, 0, sizeof arena);
    for (size_t n = 0; n < COUNT(transforms); n++) {
        char path[512], in_shared[256];
        size_t len;
        ms_str v, last;
        snprintf(in_shared, sizeof in_shared, TRANSFORM "/%s", transforms[n].name);
        if (!shared_path(path, sizeof path, in_shared)) skip();
        char *bytes = read_file(path, &len);
        assert_non_null(bytes);
        ms_str json = at_end(bytes, len);
        assert_int_equal(ms_json_check(json, NULL, NULL, NULL), transforms[n].code);
        assert_int_equal(ms_json_check(json, &repair, &v, NULL), MS_OK);
        ms_str text = built(v, &arena);
        if (!same(text, transforms[n].built.bytes, transforms[n].built.len))
            fail_msg("%s: %.*s", transforms[n].name, (int)text.len, text.ptr);
        if (strstr(transforms[n].name, "same_key") != NULL) {
            assert_true(ms_json_member(v, MS_STR("a"), &last));
            assert_ptr_equal(last.ptr + last.len + 1, v.ptr + v.len);
        }
        json_t *tree = json_loadb(bytes, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        json_twin twin = {json, json.ptr, &arena};
        if (tree != NULL) assert_null(differs(&twin, v, tree));
        json_decref(tree);
        free(bytes);
    }
    ms_arena_deinit(&arena);
}


int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_is_at_the_first_byte_that_cannot_stand_there),
        cmocka_unit_test(error_is_untouched_when_a_text_is_good),
        cmocka_unit_test(depth_is_refused_beyond_its_limit),
        cmocka_unit_test(depth_counts_what_is_open_at_a_time),
        cmocka_unit_test(brackets_are_refused_when_there_are_100000),
        cmocka_unit_test(depth_is_an_error_when_it_is_beyond_the_library),
        cmocka_unit_test(number_is_read_at_the_edge_of_each_type),
        cmocka_unit_test(number_is_no_integer_when_a_late_digit_counts),
        cmocka_unit_test(getter_returns_kind_when_the_value_is_of_another),
        cmocka_unit_test(member_is_found_by_its_decoded_name),
        cmocka_unit_test(iterator_returns_every_item_in_order),
        cmocka_unit_test(string_is_decoded_as_the_table_has_it),
        cmocka_unit_test(string_is_equal_only_to_its_end),
        cmocka_unit_test(string_is_refused_when_it_has_no_end),
        cmocka_unit_test(string_is_untouched_when_memory_ends),
        cmocka_unit_test(suite_is_read_on_a_small_stack),
        cmocka_unit_test(text_of_the_suite_is_read_as_the_table_has_it),
    };
    return cmocka_run_group_tests_name("json_read", tests, fence_up, NULL);
}
