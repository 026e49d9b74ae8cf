/* Reading JSON: what is accepted and what is refused (JSONTestSuite), the place of an
 * error, nesting, and strings without an end or memory. Texts stand between two pages that may not be
 * touched. Random texts, members and items, and how strings are decoded, are in
 * test_json_twin, numbers in test_numbers. */
#define _GNU_SOURCE
#include "fence.h"
#include "json_twin.h"

#include <dirent.h>
#include <pthread.h>

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
    unsigned offset;
} broken;

/* The offset is that of the first byte that cannot stand there; of a word, an escape or
 * a UTF-8 sequence that is wrong or cut off, its first byte. The rest of that rule, with
 * line and column, is in error_is_odd, which judges random texts, too. */
static const broken brokens[] = {
    {T(""),                     MS_E_SYNTAX, 0},
    {T("\n\n"),                 MS_E_SYNTAX, 2},
    {T("[1"),                   MS_E_SYNTAX, 2},
    {T("{\"a\":1,"),            MS_E_SYNTAX, 7},
    {T("\"abc"),                MS_E_SYNTAX, 4},
    {T("\"\\"),                 MS_E_SYNTAX, 2},
    {T("\"\\u12"),              MS_E_SYNTAX, 1},
    {T("nul"),                  MS_E_SYNTAX, 0},
    {T("1e+"),                  MS_E_SYNTAX, 3},
    {T("[1,]"),                 MS_E_SYNTAX, 3},
    {T("[1}"),                  MS_E_SYNTAX, 2},
    {T("{\"a\" 1}"),            MS_E_SYNTAX, 5},
    {T("{1:1}"),                MS_E_SYNTAX, 1},
    {T("{\"a\":1,}"),           MS_E_SYNTAX, 7},
    {T("{\"a\":1 \"b\":2}"),    MS_E_SYNTAX, 7},
    {T("[1 2]"),                MS_E_SYNTAX, 3},
    {T("]"),                    MS_E_SYNTAX, 0},
    {T("[]\n x"),               MS_E_SYNTAX, 4},
    {T("[1]\0"),                MS_E_SYNTAX, 3},
    {T("\0"),                   MS_E_SYNTAX, 0},
    {T("[1 /* one */]"),        MS_E_SYNTAX, 3},
    {T("nulL"),                 MS_E_SYNTAX, 0},
    {T("nullx"),                MS_E_SYNTAX, 4},
    {T("falsy"),                MS_E_SYNTAX, 0},
    {T("-Infinity"),            MS_E_SYNTAX, 1},
    {T("01"),                   MS_E_SYNTAX, 1},
    {T("1.e1"),                 MS_E_SYNTAX, 2},
    {T("\"a\nb\""),             MS_E_SYNTAX, 2},
    {T("\"a\0b\""),             MS_E_SYNTAX, 2},
    {T("\"\\x41\""),            MS_E_SYNTAX, 1},
    {T("\"\\U0041\""),          MS_E_SYNTAX, 1},
    {T("\"\\u12g4\""),          MS_E_SYNTAX, 1},
    {T("\"\\\n\""),             MS_E_SYNTAX, 1},
    {T("\"ab\xc3\""),           MS_E_UTF8,   3},
    {T("\"\xe2\x82\""),         MS_E_UTF8,   1},
    {T("\"\xe2\x82\xac\xe2\""), MS_E_UTF8,   4},
    {T("{\"\xe9\":1}"),         MS_E_UTF8,   2},
    {T("[\"ok\",\n \"\xe9\"]"), MS_E_UTF8,   9},
    {T("\"a\\udc00\""),         MS_E_UTF8,   2},
    {T("\"\\ud800\\u0041\""),   MS_E_UTF8,   1},
    {T("\xef\xbb\xbf[]"),       MS_E_SYNTAX, 0},
    {T("\n\n\n  \"\\n\\n\\q\""), MS_E_SYNTAX, 10},
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
        if (got != b->code || err.code != b->code || err.offset != b->offset) {
            show("text", b->json.bytes, b->json.len);
            fail_msg("%s: code %d at %llu", err.message, (int)got,
                     (unsigned long long)err.offset);
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

/* Of n arrays, and of n objects, in each other. */
static void must_end_at(size_t limit, size_t n, const ms_json_opts *opts)
{
    static char text[200000];
    ms_result want = n > limit ? MS_E_DEPTH : MS_OK;
    ms_arena arena;
    ms_error err;
    memset(&arena, 0, sizeof arena);
    for (int objects = 0; objects < 2; objects++) {
        size_t len = objects ? 6 * n + 1 : 2 * n;
        if (len > sizeof text) return;
        if (objects) (void)braces(text, n);
        else brackets(text, n);
        ms_str json = at_end(text, len);
        assert_int_equal(ms_json_check(json, opts, NULL, &err), want);
        assert_null(touch(ms_str_n(json.ptr, len / 2), &arena));
        assert_null(touch(json, &arena));
        if (want == MS_OK) continue;
        assert_int_equal(err.offset, (objects ? 5 : 1) * limit);
        assert_null(error_is_odd(json, opts, &err));
    }
}

static void depth_is_refused_beyond_its_limit(void **state)
{
    static const struct {
        unsigned max_depth, limit;
    } cases[] = {{0, 512}, {1, 1}, {2, 2}, {10, 10}, {511, 511}, {512, 512}};
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        ms_json_opts opts = {cases[i].max_depth, false};
        must_end_at(cases[i].limit, cases[i].limit, &opts);
        must_end_at(cases[i].limit, cases[i].limit + 1, &opts);
        must_end_at(cases[i].limit, 100000, &opts);
    }
    static const unsigned beyond[] = {MS_JSON_MAX_DEPTH + 1, 1024, UINT32_MAX};
    for (size_t i = 0; i < COUNT(beyond); i++) {
        ms_json_opts opts = {beyond[i], false};
        assert_int_equal(ms_json_check(MS_STR("[]"), &opts, NULL, NULL), MS_E_ARGUMENT);
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


/* ---- getters ---- */

/* What is no value is of no kind, and no getter takes it. */
static void getter_returns_kind_when_there_is_no_value(void **state)
{
    bool flag = true;
    (void)state;
    assert_null(kind_differs(ms_str_of(NULL), MS_JSON_NONE));
    assert_null(kind_differs(at_end("", 0), MS_JSON_NONE));
    assert_int_equal(test_json_bool(MS_STR("1"), &flag), MS_E_KIND);
}


/* ---- strings ---- */

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
    for (size_t len = 0; len < 4; len++) { /* the text may end anywhere, too */
        ms_str end = at_end("a\xe2\x82\xac", len);
        assert_false(ms_json_string_is(MS_STR("\"a\xe2\x82\xac\""), end));
        assert_false(ms_json_string_is(MS_STR("\"\\u0061\\u20ac\""), end));
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
    assert_int_equal(ms_json_string(v, NULL, &s), MS_E_ARENA);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_is_at_the_first_byte_that_cannot_stand_there),
        cmocka_unit_test(error_is_untouched_when_a_text_is_good),
        cmocka_unit_test(depth_is_refused_beyond_its_limit),
        cmocka_unit_test(depth_counts_what_is_open_at_a_time),
        cmocka_unit_test(getter_returns_kind_when_there_is_no_value),
        cmocka_unit_test(string_is_refused_when_it_has_no_end),
        cmocka_unit_test(string_is_untouched_when_memory_ends),
        cmocka_unit_test(suite_is_read_on_a_small_stack),
    };
    return cmocka_run_group_tests_name("json_read", tests, fence_up, NULL);
}
