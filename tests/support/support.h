/* What the test programs share: cmocka, test data, random numbers, a failing allocator.
 *
 * A program that wants the library's internals defines MSGSTORE_IMPLEMENTATION and
 * includes msgstore.h before this file. Environment: MS_TEST_SCALE, percent of the long
 * loops to run; MS_TEST_SEED, another seed; MS_TEST_ONLY, a pattern that the names of
 * tests must match ('killed*'); MS_SHARED, the folder of test data (default ../shared).
 */

#ifndef SUPPORT_H
#define SUPPORT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef MSGSTORE_VERSION
#include "msgstore.h"
#endif

/* A test of cmocka has a parameter that most do not use; so do functions of tables. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* A time; exact for halves and quarters. */
#define SECONDS(s) ((int64_t)((double)(s) * 1e9))


/* ---- tests ----
 * A test is declared where it stands, once or for each row that a macro makes of its name:
 *
 *     TEST(message_is_found_when_it_is_the_last)
 *     {
 *         assert_...
 *     }
 *
 *     TEST_WITH(ON_EVERY_STORE, message_is_found_when_it_is_the_first)
 *     {
 *         test_store s = store_open((store_kind *)*state, NULL);
 *
 *     int main(void) { return run_all_tests(NULL, NULL); }
 */

static struct CMUnitTest *all_tests;
static size_t n_tests;

static inline void add_tests(const struct CMUnitTest *rows, size_t n)
{
    size_t size = (n_tests + n) * sizeof *rows;
    all_tests = (struct CMUnitTest *)realloc(all_tests, size + (size == 0));
    if (all_tests == NULL) abort();
    memcpy(all_tests + n_tests, rows, n * sizeof *rows);
    n_tests += n;
}

/* Adds one test that finds its row in *state. */
static inline void add_row_test(const char *name, CMUnitTestFunction test, void *row)
{
    const struct CMUnitTest one = {name, test, NULL, NULL, row};
    add_tests(&one, 1);
}

/* Runs all tests. `before` and `after` are done around those that have neither. */
static inline int run_all_tests(CMFixtureFunction before, CMFixtureFunction after)
{
    for (size_t i = 0; i < n_tests; i++) {
        struct CMUnitTest *t = &all_tests[i];
        if (t->setup_func != NULL || t->teardown_func != NULL) continue;
        t->setup_func = before;
        t->teardown_func = after;
    }
    int failed = _cmocka_run_group_tests("tests", all_tests, n_tests, NULL, NULL);
    free(all_tests);
    return failed;
}

#define TEST_WITH(ROWS, test)                                                \
    static void test(void **state);                                          \
    __attribute__((constructor)) static void test##_is_added(void)           \
    {                                                                        \
        const struct CMUnitTest rows_of_test[] = {ROWS(test)};               \
        add_tests(rows_of_test, COUNT(rows_of_test));                        \
    }                                                                        \
    static void test(void **state)

#define TEST(test) TEST_WITH(cmocka_unit_test, test)


/* ---- messages and arenas, in fewer words ---- */

static inline void test_arena_init(ms_arena *a, const ms_alloc *alloc)
{
    memset(a, 0, sizeof *a);
    if (alloc != NULL) a->alloc = *alloc;
}

static inline void test_arena_init_fixed(ms_arena *a, void *buffer, size_t size)
{
    memset(a, 0, sizeof *a);
    a->buffer = buffer;
    a->buffer_size = size;
}

/* Would a store take the message? */
static inline ms_result test_envelope_check(const ms_envelope *m, ms_error *err)
{
    const ms_msg *msg = (const ms_msg *)(size_t)8;
    ms_arena arena;
    test_arena_init(&arena, NULL);
    ms_result code = ms_encode(m, &arena, &msg, err);
    assert_true((msg == NULL) == (code != MS_OK));
    ms_arena_deinit(&arena);
    return code;
}

/* The field with that member name ("agent_key"); MS_FIELD_COUNT if there is none. */
static inline ms_field message_field(ms_str name)
{
#define MS__X(number, field, member, kind) \
    if (ms_str_equal(name, MS_STR(#member))) return MS_F_##field;
    MS_FIELDS(MS__X)
#undef MS__X
    return MS_FIELD_COUNT;
}

/* Sets one field by its number. */
static inline void message_set(ms_envelope *m, ms_field field, ms_value value)
{
    switch (field) {
#define SET_TEXT(member) m->member = value.text
#define SET_OBJECT(member) m->member = value.text
#define SET_VALUE(member) m->member = value
#define MS__X(number, name, member, kind) \
    case MS_F_##name: SET_##kind(member); break;
        MS_FIELDS(MS__X)
#undef MS__X
    case MS_FIELD_COUNT:
    default: break;
    }
}

/* The fields of an envelope by number. */
static inline void message_fields(const ms_envelope *m, ms_value out[MS_FIELD_COUNT])
{
    memset(out, 0, MS_FIELD_COUNT * sizeof out[0]);
#define OF_TEXT(member) ms_text_n(m->member)
#define OF_OBJECT(member) ms_json(m->member)
#define OF_VALUE(member) m->member
#define MS__X(number, name, member, kind) out[number] = OF_##kind(member);
    MS_FIELDS(MS__X)
#undef MS__X
}

static inline bool is_key_field(int field)
{
    return field == MS_F_LOCATION || field == MS_F_AGENT_KEY || field == MS_F_TURN_ID ||
           field == MS_F_KEY;
}

static inline ms_str test_location(const ms_msg *msg)
{
    return ms_get(msg, MS_F_LOCATION).text;
}

static inline ms_str test_agent_key(const ms_msg *msg)
{
    return ms_get(msg, MS_F_AGENT_KEY).text;
}

static inline ms_str test_turn_id(const ms_msg *msg)
{
    return ms_get(msg, MS_F_TURN_ID).text;
}

/* Counts the messages that a search finds, up to `most`. */
static inline ms_result test_find_all(ms_store *store, const ms_find_query *q, size_t most,
                                      size_t *n, ms_error *err)
{
    ms_finder finder;
    ms_found found;
    *n = 0;
    ms_result result = ms_find_open(store, q, &finder, err);
    if (result != MS_OK) return result;
    while (*n < most && ms_find_next(&finder, &found)) ++*n;
    return ms_find_close(&finder, err);
}

static inline const ms_msg *test_next_of(void *cursor)
{
    return ms_next((ms_cursor *)cursor);
}

static inline ms_result test_refresh(ms_store *store, uint64_t *last_seq, ms_error *err)
{
    return ms_wait(store, 0, 0, last_seq, err);
}

static inline ms_result test_stream_flush(ms_stream *stream, ms_error *err)
{
    return ms_stream_feed(stream, ms_str_of(NULL), err);
}

/* The word of a code ("E_IO"), and back. */
static inline const char *test_code_word(ms_result code)
{
    static const char *const words[] = {
#define X(name, text) #name,
        MS_RESULTS(X)
#undef X
    };
    return words[code];
}

static inline ms_result test_code_of(const char *word)
{
    int code = 0;
    while (code < MS_RESULT_COUNT && strcmp(test_code_word((ms_result)code), word) != 0)
        code++;
    if (code == MS_RESULT_COUNT) fail_msg("no code %s", word);
    return (ms_result)code;
}

static inline bool is_word(ms_str word, const char *text)
{
    return ms_str_equal(word, ms_str_of(text));
}

static inline bool has_text(ms_str s, const char *text)
{
    size_t len = strlen(text);
    for (size_t i = 0; i + len <= s.len; i++)
        if (memcmp(s.ptr + i, text, len) == 0) return true;
    return false;
}

static inline void must_ok(ms_result result, const ms_error *err, const char *what)
{
    if (result != MS_OK) fail_msg("%s: %s", what, err->message);
}

static inline bool test_str_starts_with(ms_str s, ms_str prefix)
{
    return s.len >= prefix.len &&
           (prefix.len == 0 || memcmp(s.ptr, prefix.ptr, prefix.len) == 0);
}

static inline ms_result test_json_bool(ms_str value, bool *out)
{
    ms_json_kind kind = ms_json_kind_of(value);
    if (kind != MS_JSON_TRUE && kind != MS_JSON_FALSE) return MS_E_KIND;
    *out = kind == MS_JSON_TRUE;
    return MS_OK;
}

static inline void test_json_put_bool(ms_json_writer *w, bool value)
{
    ms_json_put_raw(w, value ? MS_STR("true") : MS_STR("false"));
}

static inline void test_json_put_null(ms_json_writer *w)
{
    ms_json_put_raw(w, MS_STR("null"));
}

#define TEST_SECONDS_MAX 24

/* The text that ms_json_put_seconds writes; empty for none. */
static inline size_t test_seconds_write(int64_t ns, char out[TEST_SECONDS_MAX])
{
    ms_arena arena;
    ms_json_writer w;
    ms_buf buf = {NULL, NULL, 0, 0};
    test_arena_init(&arena, NULL);
    buf.arena = &arena;
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_json_put_seconds(&w, ns);
    (void)ms_json_finish(&w);
    size_t len = ns == MS_TIME_NONE ? 0 : buf.len;
    if (len > 0) memcpy(out, buf.ptr, len);
    ms_arena_deinit(&arena);
    return len;
}

#ifndef MSGSTORE_NO_FORMATS
static inline ms_result test_writer_put_msg(ms_writer *w, const ms_msg *msg,
                                            ms_error *err)
{
    ms_envelope m = ms_envelope_of(msg);
    return ms_writer_put(w, &m, err);
}

static inline size_t test_entity_key(ms_str session_id, uint64_t seq,
                                     char out[MS_ENTITY_KEY_MAX])
{
    char number[32];
    size_t most = session_id.len < MS_KEY_MAX ? session_id.len : MS_KEY_MAX;
    int n = snprintf(number, sizeof number, "-msg-%llu", (unsigned long long)seq);
    memcpy(out, "session-", 8);
    if (most > 0) memcpy(out + 8, session_id.ptr, most);
    memcpy(out + 8 + most, number, (size_t)n);
    return 8 + most + (size_t)n;
}

/* A text alone, shortened as the content of a message is. */
static inline ms_result test_shorten(ms_str text, const ms_shorten_opts *opts, ms_str key,
                                     ms_arena *arena, ms_str *out, ms_error *err)
{
    ms_envelope m = ms_assistant_message(ms_text_n(text));
    ms_result code = ms_shorten_message(&m, opts, key, arena, err);
    *out = code == MS_OK ? m.content.text : ms_str_of(NULL);
    return code;
}
#endif


/* ---- how long, and with which seed ---- */

/* Percent of the long loops to run, at least 1. */
static inline unsigned test_scale(void)
{
    const char *text = getenv("MS_TEST_SCALE");
    unsigned long scale = text != NULL ? strtoul(text, NULL, 10) : 100;
    return scale < 1 ? 1 : scale > 100000 ? 100000 : (unsigned)scale;
}

/* n repetitions scaled, at least 1. */
static inline size_t test_times(size_t n)
{
    size_t times = n * test_scale() / 100;
    return times < 1 ? 1 : times;
}

/* Prints how many of something were tried; tests/run/torture.sh adds such lines up. */
static inline void test_tally(const char *what, uint64_t n)
{
    printf("tally: %s %llu\n", what, (unsigned long long)n);
    fflush(stdout);
}

/* Runs before main: only the tests that MS_TEST_ONLY names. */
__attribute__((constructor)) static void test_choose(void)
{
    const char *only = getenv("MS_TEST_ONLY");
    if (only != NULL && only[0] != '\0') cmocka_set_test_filter(only);
}

/* The seed of this run; printed at the first call, so that a failure can be repeated. */
static inline uint64_t test_seed(void)
{
    static bool known;
    static uint64_t seed;
    if (!known) {
        const char *text = getenv("MS_TEST_SEED");
        seed = text != NULL ? strtoull(text, NULL, 0) : 20260101;
        known = true;
        printf("MS_TEST_SEED=%llu\n", (unsigned long long)seed);
        fflush(stdout);
    }
    return seed;
}


/* ---- random numbers: splitmix64, the state is one number ---- */

static inline uint64_t test_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* 0 to n - 1; 0 for n = 0. */
static inline uint64_t test_below(uint64_t *state, uint64_t n)
{
    return n == 0 ? 0 : test_random(state) % n;
}

/* True once in n times. */
static inline bool test_one_in(uint64_t *state, uint64_t n)
{
    return test_below(state, n) == 0;
}

static inline void test_fill(uint64_t *state, void *out, size_t size)
{
    unsigned char *bytes = (unsigned char *)out;
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(test_random(state) >> 32);
}


/* ---- an allocator that counts, checks and fails; for one thread ----
 *
 *     test_alloc heap;
 *     for (size_t k = 1;; k++) {
 *         test_alloc_init(&heap);
 *         heap.fail_at = k;
 *         ... work with heap.alloc: it succeeds or returns MS_E_NO_MEMORY ...
 *         test_alloc_done(&heap);           every block is back, every size was right
 *         if (heap.failed == 0) break;      k is beyond the last allocation
 *     }
 *
 * A block always moves when it is resized, fresh bytes are 0xA5 and freed ones 0xDD, so
 * that stale pointers and unset bytes show. */

typedef struct test_alloc {
    ms_alloc alloc;       /* give this to the library; ctx is the test_alloc */
    size_t fail_at;       /* the k-th call that asks for memory fails, from 1; 0: none */
    bool fail_from;       /* ... and all after it */
    size_t limit_bytes;   /* no more live bytes than this; 0: no limit */
    size_t calls;         /* that asked for memory */
    size_t failed;        /* of them refused */
    size_t live_blocks;
    size_t live_bytes;
    size_t peak_bytes;
    size_t wrong;         /* blocks that are not ours, or whose old size was wrong */
} test_alloc;

#define TEST_BLOCK_HEAD 32
#define TEST_BLOCK_MAGIC UINT64_C(0x6b636f6c62207467)

/* The size of a block; counts a promise as broken when the size is another one than that
 * of the call. Ends the program when the block is not ours. */
static inline size_t test_alloc_size(test_alloc *a, const void *ptr, size_t told)
{
    uint64_t head[2];
    memcpy(head, (const char *)ptr - TEST_BLOCK_HEAD, sizeof head);
    if (head[0] != TEST_BLOCK_MAGIC) {
        fprintf(stderr, "allocator: a block that it never gave, or gave back before\n");
        abort();
    }
    if (head[1] != told) {
        fprintf(stderr, "allocator: old size told %llu, is %llu\n",
                (unsigned long long)told, (unsigned long long)head[1]);
        a->wrong++;
    }
    return (size_t)head[1];
}

static inline void *test_alloc_new(test_alloc *a, size_t size)
{
    uint64_t head[2] = {TEST_BLOCK_MAGIC, size};
    if (size > SIZE_MAX - TEST_BLOCK_HEAD) return NULL;
    char *block = (char *)malloc(TEST_BLOCK_HEAD + size);
    if (block == NULL) return NULL;
    memcpy(block, head, sizeof head);
    memset(block + TEST_BLOCK_HEAD, 0xA5, size);
    a->live_blocks++;
    a->live_bytes += size;
    if (a->live_bytes > a->peak_bytes) a->peak_bytes = a->live_bytes;
    return block + TEST_BLOCK_HEAD;
}

static inline void test_alloc_free(test_alloc *a, void *ptr, size_t size)
{
    char *block = (char *)ptr - TEST_BLOCK_HEAD;
    memset(block, 0xDD, TEST_BLOCK_HEAD + size);
    a->live_blocks--;
    a->live_bytes -= size;
    free(block);
}

/* The resize function of ms_alloc. */
static inline void *test_alloc_resize(void *ctx, void *ptr, size_t old_size,
                                      size_t new_size)
{
    test_alloc *a = (test_alloc *)ctx;
    size_t size = ptr != NULL ? test_alloc_size(a, ptr, old_size) : 0;
    if (ptr == NULL && old_size != 0) a->wrong++;
    if (new_size == 0) {
        if (ptr != NULL) test_alloc_free(a, ptr, size);
        return NULL;
    }
    a->calls++;
    bool fail = a->fail_at != 0 &&
                (a->calls == a->fail_at || (a->fail_from && a->calls > a->fail_at));
    size_t others = a->live_bytes - size;
    if (a->limit_bytes != 0)
        fail = fail || others > a->limit_bytes || new_size > a->limit_bytes - others;
    void *fresh = fail ? NULL : test_alloc_new(a, new_size);
    if (fresh == NULL) {
        a->failed++;
        return NULL;
    }
    if (ptr != NULL) {
        memcpy(fresh, ptr, size < new_size ? size : new_size);
        test_alloc_free(a, ptr, size);
    }
    return fresh;
}

static inline void test_alloc_init(test_alloc *a)
{
    memset(a, 0, sizeof *a);
    a->alloc.resize = test_alloc_resize;
    a->alloc.ctx = a;
}

/* An arena over such memory, whose first allocation fails. */
static inline void test_arena_fails_first(ms_arena *a, test_alloc *heap)
{
    test_alloc_init(heap);
    heap->fail_at = 1;
    test_arena_init(a, &heap->alloc);
}

/* Asserts that all came back and that every old size was right. */
static inline void test_alloc_done(const test_alloc *a)
{
    assert_int_equal(a->live_blocks, 0);
    assert_int_equal(a->live_bytes, 0);
    assert_int_equal(a->wrong, 0);
}


/* ---- files ---- */

/* The bytes of a file, with a NUL after them that *size does not count (size may be
 * NULL); free() gives them back. NULL, and *size 0, when the file cannot be read. */
static inline char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    size_t used = 0, cap = 1 << 16;
    char *bytes = (char *)malloc(cap);
    if (size != NULL) *size = 0;
    if (file == NULL || bytes == NULL) goto fail;
    for (;;) {
        used += fread(bytes + used, 1, cap - used - 1, file);
        if (used < cap - 1) break;
        cap *= 2;
        char *more = (char *)realloc(bytes, cap);
        if (more == NULL) goto fail;
        bytes = more;
    }
    if (ferror(file)) goto fail;
    fclose(file);
    bytes[used] = '\0';
    if (size != NULL) *size = used;
    return bytes;
fail:
    if (file != NULL) fclose(file);
    free(bytes);
    return NULL;
}

/* Writes the path of a file or folder of the test data ("data/x.json") to buf. False, and
 * one line printed, when it is not there: skip the test then. */
static inline bool shared_path(char *buf, size_t size, const char *name)
{
    const char *root = getenv("MS_SHARED");
    if (root == NULL || root[0] == '\0') root = "../shared";
    int len = snprintf(buf, size, "%s/%s", root, name);
    if (len > 0 && (size_t)len < size && access(buf, R_OK) == 0) return true;
    printf("skipped: no %s/%s\n", root, name);
    fflush(stdout);
    return false;
}

#endif /* SUPPORT_H */
