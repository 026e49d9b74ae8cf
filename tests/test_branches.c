/* Answers that other tests never get: for what a whole file, a whole system and a caller
 * who keeps to the manual do not bring about, functions of [format], [log], [record] and
 * [json] are asked alone, with input made for it.
 *
 *   - Decoders: a part of a log (head, checkpoint, LEAF, SUMMARY, FILTER) is taken from a real
 *     file, one field of it is made wrong, and the decoder has to say no.
 *   - Logs of six shapes: for each operation, and for opening, each call to the system and
 *     each allocation fails, alone and with all after it; each record is damaged, before
 *     and after opening; words of index records are other ones, with checks that hold.
 *     Every operation answers, the handle goes on, the file is as whole as before.
 *   - Memory for names that ends at each byte, maps that reach as far as numbers go, names
 *     that share one number, segments of over 65536 records, a power cut that lost the
 *     slots.
 *
 * At MS_TEST_SCALE=1000 some 17,000 failures; at 100 one in 11 of them, below that one in
 * 61, with one error, of each operation in a third of the ways. Left out: the order of
 * what reaches the disk (test_crash). tests/coverage.txt lists branches that nothing can
 * take; `make coverage` counts.
 */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"
#include "support.h"
#include "logs.h"

enum { ROOM = 16 << 20 };

/* Of the failures that could be made one in so many is. Under sanitizers, which look for
 * other things than the answers, far fewer are. */
static size_t apart(void)
{
    return test_scale() >= 1000 ? 1 : test_scale() >= 100 ? 11 : 61;
}

/* One field that is made wrong, and how it is told of. */
typedef struct lie {
    const char *what;
    size_t at;
    unsigned size; /* bytes: 1, 4 or 8; 0: nothing is changed */
    uint64_t value;
} lie;

static void tell_lie(unsigned char *p, const lie *c)
{
    if (c->size == 1) p[c->at] = (unsigned char)c->value;
    if (c->size == 4) ms__put32(p + c->at, (uint32_t)c->value);
    if (c->size == 8) ms__put64(p + c->at, c->value);
}

static unsigned lies_told;

static void must(bool expected, bool got, const char *what)
{
    lies_told += !expected;
    if (expected != got)
        fail_msg("%s: %s", what, got ? "was believed" : "was not believed");
}


/* ---- a log that has everything: leaves, a summary, filters ---- */

static disk drive;

static ms_log_desc desc_of(ms_log_mode mode)
{
    ms_log_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.path = "log.msl";
    desc.mode = mode;
    desc.os = &drive.os;
    desc.segment_size = MS_LOG_SEGMENT_MIN;
    return desc;
}

static ms_store *must_open(const ms_log_desc *desc)
{
    ms_store *store;
    ms_error err;
    if (ms_log_open(&store, desc, &err) != MS_OK) fail_msg("open: %s", err.message);
    return store;
}

static void append_some(ms_store *store, size_t n)
{
    static size_t number;
    for (size_t i = 0; i < n; i++) {
        char place[32];
        ms_envelope m = ms_user_message(ms_text("some words that take a little room"));
        snprintf(place, sizeof place, "place_%u", (unsigned)(number++ % 7));
        m.agent_key = MS_STR("worker");
        m.has_time = number % 3 != 0;
        m.time_ns = SECONDS((double)number);
        assert_int_equal(ms_append(store, ms_str_of(place), &m, NULL, NULL), MS_OK);
    }
}

/* A fresh log; the handle is open for writing. */
static ms_store *make_log(size_t n)
{
    ms_log_desc desc = desc_of(MS_LOG_CREATE);
    disk_clear(&drive); /* also after a test that failed */
    ms_store *store = must_open(&desc);
    append_some(store, n);
    return store;
}

/* The first record of that kind and type (0: any), and where it stands. */
static const unsigned char *record_of(ms__log *log, unsigned kind, unsigned type,
                                      uint64_t *offset)
{
    ms__replay s;
    const unsigned char *r;
    memset(&s, 0, sizeof s);
    s.log = log;
    s.at = MS__SUPER_SIZE;
    s.limit = s.trusted = log->end;
    s.quiet = true;
    while (ms__replay_next(&s, &r, offset) == MS__FOUND_RECORD)
        if (r[4] == kind && (type == 0 || r[5] == type)) return r;
    fail_msg("the log has no record of kind %u, type %u", kind, type);
    return NULL;
}

/* A copy of it with room behind. */
static unsigned char *copy_of(const unsigned char *r)
{
    size_t size = ms__padded(ms__get32(r));
    unsigned char *copy = (unsigned char *)calloc(1, size + 64);
    if (copy == NULL) abort();
    memcpy(copy, r, size);
    return copy;
}


/* ---- the head ---- */

static void a_head_that_is_not_ours_is_refused(void **state)
{
    static const struct {
        lie lie;
        bool sealed; /* the check is made to hold */
        ms_result code;
    } cases[] = {
        {{"nothing", 0, 0, 0}, true, MS_OK},
        {{"another magic", 0, 1, 'x'}, true, MS_E_FOREIGN},
        {{"a newer version", 8, 4, 3}, true, MS_E_FOREIGN},
        {{"a version that a bit made", 8, 4, 3}, false, MS_E_DAMAGED},
        {{"a check that does not match", 24, 1, 9}, false, MS_E_DAMAGED},
        {{"an incompatible flag", 20, 4, 1}, true, MS_E_FOREIGN},
        {{"a larger head", 12, 4, 8192}, true, MS_E_FOREIGN},
        {{"another kind of check", 48, 4, 2}, true, MS_E_FOREIGN},
        {{"a compatible flag", 16, 4, 1}, true, MS_OK},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char head[MS__SUPER_SIZE], id[16] = {1, 2, 3};
        ms__file_id made, read;
        ms_error err;
        ms__file_id_set(&made, id, 5.0);
        ms__super_encode(&made, head);
        tell_lie(head, &cases[i].lie);
        if (cases[i].sealed) ms__put32(head + 52, ms__crc32c(0, head, 52));
        ms_result code = ms__super_decode(head, "x.msl", &read, &err);
        if (code != cases[i].code)
            fail_msg("%s: %s instead of %s", cases[i].lie.what, ms_result_text(code),
                     ms_result_text(cases[i].code));
    }
}

static void a_slot_that_lies_does_not_count(void **state)
{
    static const lie lies[] = {
        {"an end inside the head", 8, 8, 4088},
        {"an end off the grid", 8, 8, 8193},
        {"the number that nobody can have", 16, 8, UINT64_MAX},
    };
    ms__checkpoint good, read;
    unsigned char p[44];
    (void)state;
    memset(&good, 0, sizeof good);
    good.generation = 3;
    good.end = 8192;
    good.seq = 5;
    ms__checkpoint_encode(&good, p);
    must(true, ms__checkpoint_decode(&read, p), "a good slot");
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        ms__checkpoint_encode(&good, p);
        tell_lie(p, &lies[i]);
        must(false, ms__checkpoint_decode(&read, p), "a slot whose check does not match");
        ms__put32(p + 40, ms__crc32c(0, p, 40));
        must(false, ms__checkpoint_decode(&read, p), lies[i].what);
    }
}

/* Which of the two counts: 0 none, else its number. */
static void the_newest_whole_slot_counts(void **state)
{
    static const struct {
        uint64_t a, b; /* generations; 0: that slot is not whole */
        uint64_t newest;
    } cases[] = {{0, 0, 0}, {4, 0, 4}, {0, 4, 4}, {5, 4, 5}, {4, 5, 5}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static unsigned char head[MS__SUPER_SIZE];
        ms__checkpoint s;
        memset(head, 0, sizeof head);
        memset(&s, 0, sizeof s);
        s.end = 8192;
        s.generation = cases[i].a;
        if (s.generation) ms__checkpoint_encode(&s, head + MS__AT_CHECKPOINTS);
        s.generation = cases[i].b;
        if (s.generation) ms__checkpoint_encode(&s, head + MS__AT_CHECKPOINTS + MS__CHECKPOINT_STEP);
        assert_int_equal(ms__checkpoint_newest(head).generation, cases[i].newest);
    }
}


static void a_size_that_does_not_fit_is_refused(void **state)
{
    static const struct {
        uint32_t size;
        uint64_t left;
        bool fits;
    } cases[] = {
        {40, 40, true},   {40, 39, false},
        {32, 4096, false}, {4097, 4096, false},
        {(uint32_t)MS__RECORD_MAX, UINT64_MAX, true},
        {(uint32_t)MS__RECORD_MAX + 1, UINT64_MAX, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char r[8];
        ms__put32(r, cases[i].size);
        must(cases[i].fits, ms__size_fits(r, cases[i].left), "a size");
    }
}


/* ---- LEAF ---- */

static void a_leaf_that_lies_is_not_read(void **state)
{
    uint64_t offset;
    ms__segment l;
    ms_store *store = make_log(200);
    ms__log *log = ms__log_of(store);
    const unsigned char *r = record_of(log, MS__KIND_INDEX, MS__INDEX_SEGMENT, &offset);
    (void)state;
    assert_true(ms__segment_decode(&l, r, offset));
    const lie lies[] = {
        {"another kind", 4, 1, MS__KIND_NOTE},
        {"another type", 5, 1, MS__INDEX_SUMMARY},
        {"less than its fixed part", 0, 4, MS__SEGMENT_FIXED - 8},
        {"a summary that stands after it", 40, 8, offset},
        {"more summaries than there are segments for", 48, 4, 1},
        {"a number of a segment that cannot be", 128, 4, 0x40000000},
        {"the number that nobody can have", 88, 8, UINT64_MAX},
        {"a gap of such a number", 104, 8, UINT64_MAX},
        {"more leaves before it than there are", 96, 4, l.number + 1},
        {"too many buckets", 208, 4, 27},
        {"postings of three bytes", 212, 4, 3},
        {"a segment that begins behind it", 136, 8, offset + 8},
        {"a segment off the grid", 136, 8, MS__SUPER_SIZE + 4},
        {"a segment inside the head", 136, 8, MS__SUPER_SIZE - 8},
        {"a size that its counts do not give", 132, 4, l.n + 1},
    };
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        unsigned char *copy = copy_of(r);
        ms__segment read;
        tell_lie(copy, &lies[i]);
        must(false, ms__segment_decode(&read, copy, offset), lies[i].what);
        free(copy);
    }
    ms_close(store);
}

static void a_leaf_with_wide_postings_and_no_list_is_measured(void **state)
{
    ms__segment l;
    (void)state;
    memset(&l, 0, sizeof l);
    l.width = 4;
    uint64_t none = ms__segment_size(&l);
    l.n_changed = 3;
    assert_int_equal(ms__segment_size(&l), none + 6);
    l.n_changed = UINT32_MAX; /* every location counts: nothing is listed */
    assert_int_equal(ms__segment_size(&l), none);
}

/* What the arrays of a LEAF say is checked where it is used. */
static void arrays_of_a_leaf_that_lie_lead_nowhere(void **state)
{
    uint64_t offset;
    ms__segment l;
    ms__run run;
    uint32_t all = UINT32_MAX;
    ms_store *store = make_log(200);
    ms__log *log = ms__log_of(store);
    (void)state;
    unsigned char *copy =
        copy_of(record_of(log, MS__KIND_INDEX, MS__INDEX_SEGMENT, &offset));
    assert_true(ms__segment_decode(&l, copy, offset));
    uint64_t list = ms__segment_list(&l, 0);
    l.sound = &all; /* as if its checks were right */
    l.placed = 1;
    assert_true(ms__segment_find(log, &l, list, &run) && run.n > 0 && !run.mixed);
    assert_true(ms__segment_find(log, &l, list ^ 8, &run) && run.n == 0);
    ms__put(l.begin, 0, 2);
    ms__put(l.begin, 1, 1);
    assert_false(ms__segment_find(log, &l, list, &run));
    ms__put(l.begin, 1, l.postings + 1);
    assert_false(ms__segment_find(log, &l, list, &run));
    for (uint32_t b = 0; b <= (uint32_t)1 << l.bits; b++)
        ms__put(l.bucket, b, b == 0 ? 0 : l.lists + 1);
    assert_false(ms__segment_find(log, &l, list & UINT64_MAX >> l.bits, &run));
    assert_int_equal(ms__segment_offset(&l, 0), l.base + 8 * ms__get32(l.record));
    assert_int_equal(ms__segment_offset(&l, l.n), 0);
    ms__put(l.record, 0, (uint32_t)(offset / 8)); /* behind the leaf */
    assert_int_equal(ms__segment_offset(&l, 0), 0);
    free(copy);
    ms_close(store);
}

/* ---- SUMMARY and FILTER ---- */

static void a_summary_that_lies_is_not_read(void **state)
{
    uint64_t offset;
    ms__summary s;
    ms_store *store = make_log(2000);
    const unsigned char *r =
        record_of(ms__log_of(store), MS__KIND_INDEX, MS__INDEX_SUMMARY, &offset);
    (void)state;
    assert_true(ms__summary_decode(&s, r, offset));
    const lie lies[] = {
        {"another kind", 4, 1, MS__KIND_NOTE},
        {"another type", 5, 1, MS__INDEX_FILTER},
        {"less than its fixed part", 0, 4, MS__SUM_FIXED - 8},
        {"a number that its size does not give", 32, 4, s.number + 1},
        {"more filters than its size gives", 36, 4, s.bits + 1},
        {"more filters than there can be", 36, 4, 27},
    };
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        unsigned char *copy = copy_of(r);
        ms__summary read;
        tell_lie(copy, &lies[i]);
        must(false, ms__summary_decode(&read, copy, offset), lies[i].what);
        free(copy);
    }
    ms_close(store);
}

static void a_filter_of_something_else_is_none(void **state)
{
    uint64_t at;
    ms_store *store = make_log(2000);
    const unsigned char *r =
        record_of(ms__log_of(store), MS__KIND_INDEX, MS__INDEX_FILTER, &at);
    static const lie lies[] = {
        {"another type", 5, 1, MS__INDEX_SUMMARY},
        {"another size", 0, 4, MS__FILTER_SIZE - 8},
        {"another summary", 32, 4, 77},
        {"another place", 36, 4, 1},
    };
    (void)state;
    must(true, ms__filter_holds(r, 0, 0), "the first filter");
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        unsigned char *copy = copy_of(r);
        tell_lie(copy, &lies[i]);
        must(false, ms__filter_holds(copy, 0, 0), lies[i].what);
        free(copy);
    }
    ms_close(store);
}

/* 24 lists in each of 32 segments: what went in is found, of others 1 in 100 seems so. */
static void a_filter_knows_what_went_in_and_little_else(void **state)
{
    unsigned char r[MS__FILTER_SIZE];
    uint64_t rng = 7;
    size_t wrong = 0, asks = 0;
    (void)state;
    memset(r, 0, sizeof r);
    for (unsigned c = 0; c < MS__FAN; c++)
        for (unsigned i = 0; i < MS__ROW_LISTS; i++)
            ms__filter_put(r, ms__list_number(test_random(&rng), i % 8), c);
    rng = 7;
    for (unsigned c = 0; c < MS__FAN; c++)
        for (unsigned i = 0; i < MS__ROW_LISTS; i++, asks++) {
            uint64_t h = test_random(&rng);
            assert_true(ms__filter_get(r, ms__list_number(h, i % 8)) >> c & 1);
            /* another kind of the same name is another list */
            wrong += ms__filter_get(r, ms__list_number(h, (i + 1) % 8)) >> c & 1;
        }
    assert_true(wrong <= asks / 33);
}

static void an_index_record_holds_only_where_it_was_written(void **state)
{
    static const unsigned types[] = {MS__INDEX_SEGMENT, MS__INDEX_FILTER, MS__INDEX_SUMMARY};
    ms_store *store = make_log(2000);
    ms__log *log = ms__log_of(store);
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        uint64_t offset;
        const unsigned char *r = record_of(log, MS__KIND_INDEX, types[i], &offset);
        unsigned char *copy = copy_of(r);
        must(true, ms__index_holds(&log->id, offset, copy), "an index record");
        must(false, ms__index_holds(&log->id, offset + 8, copy), "another place");
        copy[ms__get32(r) - 1] ^= 1;
        must(false, ms__index_holds(&log->id, offset, copy), "another body");
        copy[4] = MS__KIND_NOTE;
        must(false, ms__index_holds(&log->id, offset, copy), "another kind");
        copy[4] = MS__KIND_INDEX;
        ms__put32(copy, MS__SUM_FIXED - 8);
        must(false, ms__index_holds(&log->id, offset, copy), "a short one");
        free(copy);
    }
    ms_close(store);
}


/* ---- [json] ---- */

static ms_result to_nowhere(void *ctx, const char *bytes, size_t len)
{
    (void)ctx;
    (void)bytes;
    (void)len;
    return MS_OK;
}

static ms_json_writer writer_to_nowhere(void)
{
    ms_json_writer w;
    ms_json_init(&w, to_nowhere, NULL, false);
    return w;
}

static void a_writer_that_is_misused_says_so_once(void **state)
{
    ms_json_writer w = writer_to_nowhere();
    (void)state;
    ms_json_begin(&w, MS_JSON_ARRAY);
    ms_json_key(&w, MS_STR("a name in an array"));
    ms_json_end(&w); /* the name has no value yet */
    assert_int_equal(ms_json_finish(&w), MS_E_ARGUMENT);
    w = writer_to_nowhere();
    test_json_put_null(&w);
    test_json_put_null(&w); /* a second value, without a separator */
    assert_int_equal(ms_json_finish(&w), MS_E_ARGUMENT);
    w = writer_to_nowhere();
    ms_json_begin(&w, MS_JSON_NUMBER);
    ms_json_end(&w);
    assert_int_equal(ms_json_finish(&w), MS_E_ARGUMENT);
    w = writer_to_nowhere();
    ms_json_put_raw(&w, MS_STR("[}"));
    assert_int_equal(ms_json_finish(&w), MS_E_ARGUMENT);
    w = writer_to_nowhere();
    ms_json_put_raw(&w, MS_STR("?"));
    assert_int_equal(ms_json_finish(&w), MS_E_ARGUMENT);
    w = writer_to_nowhere();
    ms_json_put_raw(&w, ms_str_n(NULL, 0));
    assert_int_equal(ms_json_finish(&w), MS_E_ARGUMENT);
    w = writer_to_nowhere();
    size_t room = 32 * sizeof w.object / sizeof w.object[0];
    for (size_t i = 0; i <= room; i++) ms_json_begin(&w, MS_JSON_ARRAY);
    assert_int_equal(ms_json_finish(&w), MS_E_DEPTH); /* the first misuse counts */
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

/* A string that is no string: what can be read of it is written, and it ends. */
static void a_raw_string_that_is_damaged_is_mended(void **state)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"\"a\\\\b\\x\"", "\"a\\\\b\\x\""},
        {"\"\\uD800 \\u20ac\"", "\"\xEF\xBF\xBD \\u20ac\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ms_arena arena;
        ms_buf buf;
        ms_json_writer w;
        test_arena_init(&arena, NULL);
        memset(&buf, 0, sizeof buf);
        buf.arena = &arena;
        ms_json_init(&w, ms_buf_write, &buf, false);
        ms_json_put_raw(&w, ms_str_of(cases[i].in));
        assert_int_equal(ms_json_finish(&w), MS_OK);
        if (!ms_str_equal(ms_buf_text(&buf), ms_str_of(cases[i].out)))
            fail_msg("'%s' became '%.*s'", cases[i].in, (int)buf.len, buf.ptr);
        ms_arena_deinit(&arena);
    }
}


/* ---- [record] ---- */

static void a_record_over_the_limit_is_refused(void **state)
{
    ms__layout l;
    ms_error err;
    (void)state;
    memset(&l, 0, sizeof l);
    l.dir = 1;
    l.values = MS__RECORD_MAX - MS__HEADER - l.dir;
    assert_int_equal(ms__layout_end(&l, &err), MS_OK);
    l.values++;
    assert_int_equal(ms__layout_end(&l, &err), MS_E_TOO_LARGE);
}

static void nothing_is_encoded_from_or_to_nothing(void **state)
{
    ms_envelope m = ms_user_message(ms_text("hello"));
    const ms_msg *msg;
    (void)state;
    assert_int_equal(test_envelope_check(NULL, NULL), MS_E_ARGUMENT);
    assert_int_equal(ms_encode(&m, NULL, &msg, NULL), MS_E_ARENA);
    assert_null(msg);
}

static void a_time_may_be_asked_for_without_a_place_to_put_it(void **state)
{
    ms_arena arena;
    ms_envelope m = ms_user_message(ms_text("hello"));
    const ms_msg *msg;
    (void)state;
    test_arena_init(&arena, NULL);
    assert_int_equal(ms_encode(&m, &arena, &msg, NULL), MS_OK);
    assert_false(ms_time(msg, NULL));
    m.has_time = true;
    m.time_ns = SECONDS(12.5);
    assert_int_equal(ms_encode(&m, &arena, &msg, NULL), MS_OK);
    assert_true(ms_time(msg, NULL));
    ms_arena_deinit(&arena);
}

/* The 4 bytes at p that give the body of r the check `wanted`: a CRC is linear, so each
 * bit of them changes it in its own way, and 32 equations say which are set. */
static void force_check(unsigned char *r, unsigned char *p, uint32_t wanted)
{
    size_t size = ms__padded(ms__get32(r)) - MS__HEADER;
    uint32_t row[32], bit[32], set = 0;
    ms__put32(p, 0);
    uint32_t none = ms__crc32c(0, r + MS__HEADER, size), rest = none ^ wanted;
    for (unsigned i = 0; i < 32; i++) {
        ms__put32(p, (uint32_t)1 << i);
        row[i] = ms__crc32c(0, r + MS__HEADER, size) ^ none;
        bit[i] = (uint32_t)1 << i;
    }
    for (unsigned i = 0; i < 32; i++) { /* the i-th row's highest bit leaves the others */
        if (row[i] == 0) fail_msg("a bit does not change the check");
        unsigned high = 31;
        while (!(row[i] >> high & 1)) high--;
        for (unsigned k = 0; k < 32; k++)
            if (k != i && (row[k] >> high & 1)) row[k] ^= row[i], bit[k] ^= bit[i];
        if (rest >> high & 1) rest ^= row[i], set ^= bit[i];
    }
    ms__put32(p, set);
}

static void a_body_whose_check_is_the_mark_of_erasing_is_not_erased(void **state)
{
    ms_arena arena;
    ms_envelope m = ms_user_message(ms_text("0123456789abcdef"));
    const ms_msg *msg, *again;
    (void)state;
    test_arena_init(&arena, NULL);
    assert_int_equal(ms_encode(&m, &arena, &msg, NULL), MS_OK);
    unsigned char *r = (unsigned char *)(uintptr_t)ms__bytes(msg);
    unsigned char *text = (unsigned char *)(uintptr_t)ms_content(msg).text.ptr;
    force_check(r, text + 4, MS__ERASED);
    assert_int_equal(ms__crc32c(0, r + MS__HEADER, ms_size(msg) - MS__HEADER),
                     MS__ERASED);
    ms__seal(r, 0);
    assert_false(ms_flags(msg) & MS_FLAG_REDACTED);
    assert_int_equal(ms_decode(r, ms_size(msg), &again, NULL), MS_OK);
    text[0] ^= 1; /* and its check is one that is looked at */
    assert_int_equal(ms_decode(r, ms_size(msg), &again, NULL), MS_E_DAMAGED);
    ms_arena_deinit(&arena);
}


/* ---- [log]: every operation, with trouble at each of its calls ----
 *
 * Logs of five shapes are made once, as images of the disk. For each operation and each
 * shape: the image is loaded and opened, then the k-th call to the system, or for memory,
 * fails, alone or with all after it, until the operation has no k-th call. Whatever it
 * answers, afterwards the handle appends, what was acknowledged is in the file, and the
 * file is as whole as it was. */

enum { SHAPES = 6 };

/* DUE: there are leaves for a summary that is not there yet. */
typedef enum shape { SMALL, RICH, TALL, NO_LEAF, NO_SUMMARY, DUE } shape;

static struct image {
    unsigned char *bytes;
    size_t size;
    uint64_t messages;
    bool whole;
} images[SHAPES];

static trip traps;
static test_alloc heap;

static ms_log_desc trapped(ms_log_mode mode)
{
    ms_log_desc desc = desc_of(mode);
    desc.os = &traps.os;
    desc.alloc = heap.alloc;
    return desc;
}

/* Changes of every kind, gaps, keys, agents that speak and think. */
static void append_rich(ms_store *store, int round)
{
    ms_envelope m = ms_assistant_message(ms_text("an answer")), amended, batch[12];
    ms_stream stream;
    uint64_t seq = 0, n;
    char key[32];
    m.agent_key = MS_STR("worker");
    snprintf(key, sizeof key, "key_%d", round);
    m.key = ms_str_of(key);
    assert_int_equal(ms_append(store, MS_STR("place_1"), &m, &seq, NULL), MS_OK);
    memset(&amended, 0, sizeof amended);
    amended = ms_assistant_message(ms_text("a better answer"));
    assert_int_equal(ms_amend(store, seq, &amended, NULL), MS_OK);
    assert_int_equal(ms_note(store, seq, MS_STR("rating"), ms_text("5"), NULL), MS_OK);
    assert_int_equal(ms_hide(store, seq - 1, NULL), MS_OK);
    assert_int_equal(ms_hide_range(store, MS_STR("place_2"), 1, seq / 2, &n, NULL),
                     MS_OK);
    assert_int_equal(ms_location_set(store, MS_STR("place_1"), MS_STR("{\"a\":1}"), NULL),
                     MS_OK);
    m.key = ms_str_n(NULL, 0);
    assert_int_equal(ms_stream_begin(&stream, store, MS_STR("place_1"), &m, NULL, NULL),
                     MS_OK);
    assert_int_equal(ms_stream_feed(&stream, MS_STR("some text"), NULL), MS_OK);
    if (round % 2) assert_int_equal(ms_stream_end(&stream, NULL, NULL, NULL), MS_OK);
    m.type = MS_T_REASONING;
    for (int i = 0; i < 12; i++) batch[i] = m;
    ms_append_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.location = MS_STR("place_3");
    assert_int_equal(ms_append_batch(store, batch, 12, &opts, NULL), MS_OK);
    ms_stat now;
    assert_int_equal(ms_store_stat(store, &now, NULL), MS_OK);
    assert_int_equal(
        store->backend->leave_out(store, now.last_seq + 2, NULL),
        MS_OK);
}

static void damage_index(ms__log *log, unsigned type)
{
    uint64_t offset;
    const unsigned char *r = record_of(log, MS__KIND_INDEX, type, &offset);
    drive.rw[offset + ms__get32(r) - 1] ^= 1;
}

static void make_image(shape which)
{
    struct image *image = &images[which];
    ms_stat stat;
    static const size_t sizes[SHAPES] = {3, 100, 1, 400, 1, 1};
    ms_store *store = make_log(sizes[which]);
    ms__log_of(store)->opts.ticked = which == DUE; /* appends leave that to a tick */
    while (which == DUE && ms__log_of(store)->index.segments.n < MS__FAN) append_some(store, 1);
    if (which == TALL || which == NO_SUMMARY)
        while (ms__log_of(store)->index.summaries.n < 2) append_some(store, 10);
    if (which != SMALL && which != DUE)
        for (int i = 0; i < 10; i++) {
            append_rich(store, i);
            append_some(store, 20);
        }
    assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    if (which == NO_LEAF) damage_index(ms__log_of(store), MS__INDEX_SEGMENT);
    if (which == NO_SUMMARY) damage_index(ms__log_of(store), MS__INDEX_SUMMARY);
    ms__log_free(ms__log_of(store)); /* as if killed: nothing is written at the end */
    image->messages = stat.messages;
    image->whole = which != NO_LEAF && which != NO_SUMMARY;
    image->size = (size_t)drive.size;
    image->bytes = (unsigned char *)malloc(image->size);
    if (image->bytes == NULL) abort();
    memcpy(image->bytes, drive.ro, image->size);
}

static int make_images(void **state)
{
    (void)state;
    for (int which = SMALL; which < SHAPES; which++) make_image((shape)which);
    return 0;
}

static void load_image(shape which)
{
    drive.locked = false;
    disk_load(&drive, images[which].bytes, images[which].size);
}

/* ---- the operations; each gives what it was answered first that is not MS_OK ---- */

static ms_result read_all(ms_store *store, const ms_query *q)
{
    ms_cursor it;
    ms_result code = ms_query_open(store, q, &it, NULL);
    while (ms_next(&it) != NULL) {}
    ms_result closed = ms_cursor_close(&it, NULL);
    return code != MS_OK ? code : closed;
}

static ms_query query_at(const char *place, unsigned views)
{
    static const ms_str team[] = {{"worker", 6}, {"nobody", 6}};
    ms_query q;
    memset(&q, 0, sizeof q);
    q.location = place ? ms_str_of(place) : ms_str_n(NULL, 0);
    q.views = views;
    q.agent_key = MS_STR("worker");
    q.agent_keys = team;
    q.n_agent_keys = 2;
    return q;
}

static ms_result op_everything(ms_store *store)
{
    ms_query q = query_at(NULL, 0);
    return read_all(store, &q);
}

static ms_result op_backward(ms_store *store)
{
    ms_query q = query_at("place_2", 0);
    q.reverse = true;
    return read_all(store, &q);
}

static ms_result op_newest(ms_store *store)
{
    ms_query q = query_at("place_1", MS_VIEW_CONVERSATION);
    q.limit = 20;
    return read_all(store, &q);
}

static ms_result op_agent(ms_store *store)
{
    ms_query q = query_at("place_1", MS_VIEW_AGENT);
    q.agent_types = MS_TYPES_ALL;
    return read_all(store, &q);
}

static ms_result op_global(ms_store *store)
{
    ms_query q = query_at("place_1", MS_VIEW_GLOBAL);
    return read_all(store, &q);
}

static ms_result op_views(ms_store *store)
{
    ms_query q = query_at("place_3", MS_VIEW_CONVERSATION | MS_VIEW_AGENT | MS_VIEW_TEAM |
                                         MS_VIEW_GLOBAL);
    return read_all(store, &q);
}

static ms_result op_bounds(ms_store *store)
{
    ms_query q = query_at("place_1", 0);
    q.after_seq = 30;
    q.before_seq = 150;
    ms_result code = read_all(store, &q);
    q.after_seq = UINT64_MAX;
    ms_result none = read_all(store, &q);
    return code != MS_OK ? code : none;
}

static ms_result op_raw(ms_store *store)
{
    ms_query q = query_at("place_1", 0);
    q.raw = MS_RAW_AMENDS | MS_RAW_HIDES | MS_RAW_MESSAGES;
    return read_all(store, &q);
}

static ms_result op_raw_bounds(ms_store *store)
{
    ms_query q = query_at("place_1", 0);
    q.raw = MS_RAW_ALL;
    q.about_seq = 104;
    q.after_seq = 20;
    q.before_seq = 400;
    return read_all(store, &q);
}

static ms_result op_facts(ms_store *store)
{
    ms_query q = query_at("place_1", 0);
    q.raw = MS_RAW_NOTES | MS_RAW_LOCATIONS;
    return read_all(store, &q);
}

static ms_result op_raw_everything(ms_store *store)
{
    ms_query q = query_at(NULL, 0);
    q.raw = MS_RAW_ALL;
    return read_all(store, &q);
}

static ms_result list(ms_store *store, bool agents)
{
    ms_arena arena;
    ms_list_query q;
    ms_listing got;
    memset(&q, 0, sizeof q);
    q.agents = agents;
    test_arena_init(&arena, NULL);
    ms_result code = ms_list(store, &q, &arena, &got, NULL);
    ms_arena_deinit(&arena);
    return code;
}

static ms_result op_list(ms_store *store) { return list(store, false); }
static ms_result op_list_agents(ms_store *store) { return list(store, true); }

static ms_result op_get(ms_store *store)
{
    const ms_msg *msg;
    ms_result code = ms_get_by_seq(store, 3, NULL, &msg, NULL);
    return code == MS_E_HIDDEN || code == MS_E_DAMAGED ? MS_OK : code;
}

static ms_result op_stat(ms_store *store)
{
    ms_log_info info;
    ms_stat stat;
    ms_result code = ms_log_stat(store, &info, NULL);
    ms_result all = ms_store_stat(store, &stat, NULL);
    return code != MS_OK ? code : all;
}

static ms_result append_as(ms_store *store, const char *place, const char *agent,
                           const char *key)
{
    ms_envelope m = ms_user_message(ms_text("new"));
    if (agent) m.agent_key = ms_str_of(agent);
    if (key) m.key = ms_str_of(key);
    return ms_append(store, ms_str_of(place), &m, NULL, NULL);
}

static ms_result op_append(ms_store *store)
{
    return append_as(store, "a new place", "a new agent", "a new key");
}

static ms_result op_repeat(ms_store *store)
{
    ms_result code = append_as(store, "place_1", "worker", "key_0");
    return code == MS_E_KEY_REUSED ? MS_OK : code;
}

static ms_result op_expect(ms_store *store)
{
    ms_envelope m = ms_user_message(ms_text("new"));
    ms_append_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.location = MS_STR("place_2");
    opts.expect = true;
    ms_result code = ms_append_batch(store, &m, 1, &opts, NULL);
    return code == MS_E_CONFLICT ? MS_OK : code;
}

static ms_result op_batch(ms_store *store)
{
    static char text[3000];
    ms_envelope batch[40];
    memset(text, 'x', sizeof text);
    for (int i = 0; i < 40; i++) {
        batch[i] = ms_user_message(ms_text_n(ms_str_n(text, sizeof text)));
        batch[i].location = MS_STR("place_2");
        batch[i].agent_key = i % 2 ? MS_STR("worker") : MS_STR("helper");
    }
    return ms_append_batch(store, batch, 40, NULL, NULL);
}

static ms_result op_large(ms_store *store)
{
    static char text[1 << 18];
    memset(text, 'x', sizeof text);
    ms_envelope m = ms_user_message(ms_text_n(ms_str_n(text, sizeof text)));
    return ms_append(store, MS_STR("place_1"), &m, NULL, NULL);
}

static ms_result op_amend(ms_store *store)
{
    ms_envelope m = ms_user_message(ms_text("amended"));
    ms_result code = ms_amend(store, 2, &m, NULL);
    return code == MS_E_HIDDEN || code == MS_E_DAMAGED ? MS_OK : code;
}

static ms_result op_hide(ms_store *store)
{
    uint64_t n;
    return ms_hide_range(store, MS_STR("place_1"), 1, 200, &n, NULL);
}

static ms_result op_note(ms_store *store)
{
    ms_result code = ms_note(store, 2, MS_STR("rating"), ms_text("4"), NULL);
    return code == MS_E_HIDDEN || code == MS_E_DAMAGED ? MS_OK : code;
}

static ms_result op_facts_set(ms_store *store)
{
    return ms_location_set(store, MS_STR("somewhere"), MS_STR("{\"b\":2}"), NULL);
}

static ms_result op_stream(ms_store *store)
{
    ms_stream stream;
    ms_envelope m = ms_assistant_message(ms_text(""));
    ms_result code = ms_stream_begin(&stream, store, MS_STR("place_1"), &m, NULL, NULL);
    if (code == MS_OK) code = ms_stream_feed(&stream, MS_STR("text"), NULL);
    if (code == MS_OK) code = ms_stream_end(&stream, NULL, NULL, NULL);
    return code;
}

static ms_result op_redact(ms_store *store)
{
    ms_result code = ms_redact(store, 3, NULL);
    return code == MS_E_HIDDEN || code == MS_E_DAMAGED ? MS_OK : code;
}

static ms_result op_leave_out(ms_store *store)
{
    ms_stat stat;
    ms_result code = ms_store_stat(store, &stat, NULL);
    if (code != MS_OK) return code;
    return store->backend->leave_out(store, stat.last_seq + 9, NULL);
}

static ms_result op_sync(ms_store *store)
{
    ms_result code = append_as(store, "place_1", NULL, NULL);
    ms_result synced = ms_sync(store, NULL, NULL);
    return code != MS_OK ? code : synced;
}

static ms_result op_tick(ms_store *store)
{
    ms_result code = append_as(store, "place_1", NULL, NULL);
    ms_result ticked = ms_tick(store, 100000, NULL);
    return code != MS_OK ? code : ticked;
}

static ms_result op_refresh(ms_store *store)
{
    uint64_t last;
    return test_refresh(store, &last, NULL);
}

typedef struct operation {
    const char *name;
    ms_result (*run)(ms_store *store);
    bool reads; /* also for handles that read */
} operation;

static const operation operations[] = {
    {"everything", op_everything, true},
    {"backward", op_backward, true},
    {"the newest", op_newest, true},
    {"an agent", op_agent, true},
    {"global", op_global, true},
    {"views", op_views, true},
    {"bounds", op_bounds, true},
    {"raw", op_raw, true},
    {"raw, bounded", op_raw_bounds, true},
    {"facts", op_facts, true},
    {"raw everything", op_raw_everything, true},
    {"list", op_list, true},
    {"list agents", op_list_agents, true},
    {"get", op_get, true},
    {"stat", op_stat, true},
    {"append", op_append, false},
    {"repeat", op_repeat, false},
    {"expect", op_expect, false},
    {"batch", op_batch, false},
    {"large", op_large, false},
    {"amend", op_amend, false},
    {"hide", op_hide, false},
    {"note", op_note, false},
    {"set facts", op_facts_set, false},
    {"stream", op_stream, false},
    {"redact", op_redact, false},
    {"leave out", op_leave_out, false},
    {"sync", op_sync, false},
    {"tick", op_tick, false},
    {"refresh", op_refresh, true},
};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

/* How a handle is opened. */
typedef enum way { ALONE, WRITES, SHARED, SYNCS, READS, WAYS } way;

static ms_log_desc desc_for(way how)
{
    ms_log_desc desc = trapped(how == READS ? MS_LOG_READ : MS_LOG_WRITE);
    if (how == WRITES) desc.engine = MS_ENGINE_WRITE;
    desc.shared = how == SHARED;
    if (how == SYNCS) desc.sync = MS_SYNC_EACH;
    return desc;
}

/* What is made to fail at the k-th call. */
typedef enum trouble { MEMORY, MEMORY_FROM, CALL, CALL_FROM, TROUBLES } trouble;

static void arm(trouble what, size_t k, int code)
{
    heap.calls = heap.failed = 0;
    traps.calls = traps.hits = 0;
    heap.fail_at = what == MEMORY || what == MEMORY_FROM ? k : 0;
    heap.fail_from = what == MEMORY_FROM;
    traps.at = what == CALL || what == CALL_FROM ? k : 0;
    traps.from = what == CALL_FROM;
    traps.how = TRIP_FAIL;
    traps.kinds = TRIP_ALL & ~(TRIP_BIT(UNLOCK) | TRIP_BIT(UNMAP) | TRIP_BIT(CLOSE));
    traps.code = code; /* what gives something back always does */
}

static void disarm(void)
{
    heap.fail_at = 0;
    traps.at = 0;
}

static unsigned troubles_made;

/* After trouble: the handle works, or says that a sync failed; the file is whole. */
static void must_be_whole(ms_store *store, shape which, const char *what)
{
    ms_log_info info;
    ms_log_report report;
    ms_log_desc desc = desc_of(MS_LOG_READ);
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    if (ms__log_of(store)->writer) {
        ms_result code = append_as(store, "place_1", "worker", NULL);
        if (code != MS_OK && !(code == MS_E_POISONED && info.poisoned))
            fail_msg("%s: an append after it: %s", what, ms_result_text(code));
    }
    ms_close(store);
    ms_result code = ms_log_verify(&desc, &report, NULL);
    if (code != (images[which].whole ? MS_OK : MS_E_DAMAGED))
        fail_msg("%s: verify says %s", what, ms_result_text(code));
    if (report.messages < images[which].messages)
        fail_msg("%s: messages are lost", what);
    test_alloc_done(&heap);
    disk_is_idle(&drive);
}

/* False: there is no k-th call. */
static bool trouble_at(const operation *op, shape which, way how, trouble what, size_t k,
                       int code)
{
    char name[120];
    ms_error err;
    ms_store *store;
    load_image(which);
    test_alloc_init(&heap);
    trip_init(&traps, &drive.os);
    ms_log_desc desc = desc_for(how);
    snprintf(name, sizeof name, "%s, log %d, opened %d: trouble %d (%d) at call %zu",
             op->name, (int)which, (int)how, (int)what, code, k);
    if (ms_log_open(&store, &desc, &err) != MS_OK) fail_msg("%s: %s", name, err.message);
    if (how == READS || how == SHARED) { /* there is something to catch up with */
        ms_log_desc other = desc_of(MS_LOG_WRITE);
        other.shared = true;
        ms_store *writer = must_open(&other);
        append_some(writer, 45);
        if (which == RICH) append_rich(writer, 77);
        ms_close(writer);
    }
    arm(what, k, code);
    ms_result result = op->run(store);
    bool made = heap.failed + traps.hits > 0;
    disarm();
    if (!made && result != MS_OK && result != MS_E_DAMAGED && result != MS_E_NOT_FOUND)
        fail_msg("%s: without it: %s", name, ms_result_text(result));
    troubles_made += made;
    must_be_whole(store, which, name);
    return made;
}

static void walk(const operation *op, shape which, way how)
{
    static const int codes[] = {EIO, EINTR, ENOSPC, ENOMEM, EAGAIN, EOPNOTSUPP};
    bool all = which == RICH && how != READS && test_scale() >= 100;
    size_t most = all ? sizeof codes / sizeof codes[0] : 1;
    for (int what = MEMORY; what < TROUBLES; what++)
        for (size_t i = 0; i < (what == CALL ? most : 1); i++)
            for (size_t k = 1; trouble_at(op, which, how, (trouble)what, k, codes[i]);
                 k += apart())
                if (k > 20000) fail_msg("%s has no end", op->name);
}

static void each_call_of_each_operation_fails(void **state)
{
    (void)state;
    for (size_t i = 0; i < OPERATIONS; i++)
        for (int which = SMALL; which < SHAPES; which++)
            for (int how = ALONE; how < WAYS; how++) {
                if (how == READS && !operations[i].reads) continue;
                if (which != RICH && how != ALONE && how != READS) continue;
                if (test_scale() < 100 && (i + (size_t)(which + how)) % 3 != 0) continue;
                walk(&operations[i], (shape)which, (way)how);
            }
}

/* The same of opening, in each way: what fails leaves nothing behind. */
static bool opening_fails_at(shape which, const ms_log_desc *with, trouble what, size_t k)
{
    ms_store *store;
    ms_log_report report;
    load_image(which);
    test_alloc_init(&heap);
    trip_init(&traps, &drive.os);
    ms_log_desc desc = *with;
    desc.alloc = heap.alloc;
    arm(what, k, EIO);
    ms_result code = ms_log_open(&store, &desc, NULL);
    bool made = heap.failed + traps.hits > 0;
    disarm();
    if (code == MS_OK) {
        (void)op_everything(store);
        ms_close(store);
    } else {
        assert_null(store);
        assert_true(made || desc.opening == MS_OPEN_STRICT);
    }
    arm(what, k, EIO);
    (void)ms_log_verify(&desc, &report, NULL);
    made = made || heap.failed + traps.hits > 0;
    disarm();
    test_alloc_done(&heap);
    drive.locked = false;
    disk_is_idle(&drive);
    troubles_made += made;
    return made;
}

static void each_call_of_opening_fails(void **state)
{
    (void)state;
    for (int which = SMALL; which < SHAPES; which++)
        for (int how = 0; how < 5; how++) {
            ms_log_desc desc = trapped(how < 3 ? MS_LOG_READ : MS_LOG_WRITE);
            desc.shared = how == 4;
            desc.opening = how == 1 ? MS_OPEN_STRICT : how == 2 ? MS_OPEN_SALVAGE
                                                               : MS_OPEN_NORMAL;
            for (int what = MEMORY; what < TROUBLES; what++)
                for (size_t k = 1;
                     opening_fails_at((shape)which, &desc, (trouble)what, k);
                     k += apart()) {}
        }
}

/* ---- memory for names and lists that ends at each byte ---- */

static union {
    uint64_t align;
    unsigned char bytes[1 << 16];
} narrow[2];

/* The tail, and what is known of changes, have `left` bytes; false: that was enough. */
static bool starved_at(const operation *op, size_t left, int which)
{
    ms_store *store;
    load_image(SMALL);
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    desc.segment_size = (size_t)1 << 20;
    store = must_open(&desc);
    ms__log *log = ms__log_of(store);
    assert_int_equal(append_as(store, "place_1", "worker", "key_0"), MS_OK);
    ms_arena *arena = which ? &log->edits.live.nodes : &ms__tail_of(log)->live.nodes;
    ms_arena whole = *arena;
    test_arena_init_fixed(arena, narrow[which].bytes, left);
    ms_result code = op->run(store);
    if (code != MS_OK) *arena = whole;
    if (code != MS_OK && code != MS_E_NO_MEMORY && code != MS_E_NOT_FOUND)
        fail_msg("%s with %zu bytes: %s", op->name, left, ms_result_text(code));
    if (code != MS_OK) assert_int_equal(op->run(store), MS_OK);
    ms_close(store);
    memset(&whole.alloc, 0, sizeof whole.alloc); /* it went through the log, to malloc */
    if (code == MS_OK) ms_arena_deinit(&whole);  /* names were in both */
    return code == MS_E_NO_MEMORY;
}

static void names_that_have_no_room_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < OPERATIONS; i++)
        for (int which = 0; which < 2; which++)
            for (size_t left = 0; starved_at(&operations[i], left, which); left += 8)
                if (left > 1 << 15) fail_msg("%s has no end", operations[i].name);
}

/* A reader takes in what another one has written. */
static bool following_starved_at(size_t left, int which, bool known)
{
    ms_store *store, *reader;
    uint64_t last;
    load_image(SMALL);
    ms_log_desc desc = desc_of(MS_LOG_WRITE), read = desc_of(MS_LOG_READ);
    store = must_open(&desc);
    append_rich(store, 0);
    reader = must_open(&read);
    ms__log *log = ms__log_of(reader);
    if (known) assert_int_equal(op_newest(reader), MS_OK);
    append_some(store, 8);
    append_rich(store, 1);
    ms_arena *arena = which ? &log->edits.live.nodes : &ms__tail_of(log)->live.nodes;
    ms_arena whole = *arena;
    test_arena_init_fixed(arena, narrow[which].bytes, left);
    ms_result code = test_refresh(reader, &last, NULL);
    if (code != MS_OK) *arena = whole;
    ms_close(store);
    ms_close(reader);
    memset(&whole.alloc, 0, sizeof whole.alloc); /* it went through the log, to malloc */
    if (code == MS_OK) ms_arena_deinit(&whole);  /* names were in both */
    return code == MS_E_NO_MEMORY;
}

static void a_reader_that_has_no_room_says_so(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++)
        for (int known = 0; known < 2; known++)
            for (size_t left = 0; following_starved_at(left, which, known != 0);
                 left += 8)
                if (left > 1 << 15) fail_msg("following has no end");
}

/* ---- maps ---- */

static int map_code;

static int map_nothing(void *ctx, ms_file file, uint64_t offset, size_t size,
                       unsigned how, void **out)
{
    static unsigned char nothing[1];
    (void)ctx;
    (void)file;
    (void)offset;
    (void)size;
    (void)how;
    *out = nothing;
    return map_code;
}

static void maps_reach_as_far_as_numbers_go(void **state)
{
    ms_store *store = make_log(1);
    ms__log *log = ms__log_of(store);
    uint32_t pieces = log->map.n_pieces;
    ms_os os = drive.os;
    uint64_t far = SIZE_MAX / 8 - 8;
    (void)state;
    os.map = map_nothing;
    log->os = &os;
    map_code = ENODEV;
    assert_int_equal(ms__log_reach(log, far / 2, far, far, NULL), MS_E_UNSUPPORTED);
    map_code = 0;
    assert_int_equal(ms__log_reach(log, 4096, far, far, NULL), MS_OK);
    assert_true(ms__log_mapped(log) >= far);
    log->map.pieces[log->map.n_pieces - 1].size = SIZE_MAX / 8 + 4096;
    uint64_t from = ms__log_mapped(log);
    assert_int_equal(ms__log_reach(log, from, from + 4096, from, NULL), MS_OK);
    assert_int_equal(ms__log_reach(log, 0, UINT64_MAX - 7, 0, NULL), MS_E_FULL);
    log->map.n_pieces = MS__PIECES;
    log->map.pieces[MS__PIECES - 1] = log->map.pieces[0];
    uint64_t more = ms__log_mapped(log) + 4096;
    assert_int_equal(ms__log_reach(log, 0, more, 0, NULL), MS_E_NO_MEMORY);
    log->map.n_pieces = pieces;
    log->os = &drive.os;
    ms_close(store);
}

/* Maps that end where the file ends: a piece for each step that it grows. */
static void a_log_of_many_pieces_is_read(void **state)
{
    enum { TEXT = 4000, MESSAGES = 700 };
    static char text[TEXT];
    ms_os os = drive.os;
    ms_query all = query_at(NULL, 0);
    ms_cursor it;
    size_t n = 0;
    (void)state;
    memset(text, 'p', sizeof text);
    ms_close(make_log(1));
    os.exact_maps = true;
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    desc.os = &os;
    desc.engine = MS_ENGINE_MAP;
    ms_store *store = must_open(&desc);
    for (int i = 0; i < MESSAGES; i++) {
        ms_envelope m = ms_user_message(ms_text_n(ms_str_n(text, TEXT)));
        assert_int_equal(ms_append(store, MS_STR("here"), &m, NULL, NULL), MS_OK);
    }
    assert_true(ms__log_of(store)->map.n_pieces > 2);
    assert_int_equal(ms_query_open(store, &all, &it, NULL), MS_OK);
    while (ms_next(&it) != NULL) n++;
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    assert_int_equal(n, MESSAGES + 1);
    assert_int_equal(ms_redact(store, 3, NULL), MS_OK);
    assert_int_equal(ms_redact(store, MESSAGES, NULL), MS_OK);
    ms_close(store);
}

/* ---- segments that are unusual ---- */

static void more_than_65536_records_in_a_segment_are_found(void **state)
{
    enum { MANY = 66000 };
    ms_envelope *batch = (ms_envelope *)calloc(MANY, sizeof *batch);
    const ms_msg *msg;
    ms_query q = query_at("b", 0);
    (void)state;
    assert_non_null(batch);
    ms_close(make_log(1));
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    desc.segment_size = (size_t)1 << 30;
    ms_store *store = must_open(&desc);
    for (size_t i = 0; i < MANY; i++) {
        batch[i] = ms_user_message(ms_text("x"));
        batch[i].location = i % 3 ? MS_STR("a") : MS_STR("b");
    }
    assert_int_equal(ms_append_batch(store, batch, MANY, NULL, NULL), MS_OK);
    free(batch);
    assert_int_equal(ms__log_of(store)->index.segments.n, 1);
    ms_close(store);
    desc.mode = MS_LOG_READ;
    store = must_open(&desc);
    assert_int_equal(read_all(store, &q), MS_OK);
    assert_int_equal(ms_get_by_seq(store, MANY, NULL, &msg, NULL), MS_OK);
    assert_int_equal(ms_seq(msg), MANY);
    ms_close(store);
}

static void more_changed_locations_than_are_listed_are_all_looked_at(void **state)
{
    ms_store *store = make_log(20);
    ms__log *log = ms__log_of(store);
    (void)state;
    for (uint32_t i = 0; i <= MS__TOUCHED_MOST; i++) assert_true(ms__touch(log, i * 7));
    append_some(store, 300); /* leaves that list none: every location counts */
    assert_int_equal(ms_hide(store, 5, NULL), MS_OK);
    append_some(store, 300);
    assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
    ms_close(store);
    ms_log_desc desc = desc_of(MS_LOG_READ);
    store = must_open(&desc);
    assert_int_equal(ms__log_of(store)->edits.n_touched, MS__TOUCHED);
    const ms_msg *msg;
    assert_int_equal(ms_get_by_seq(store, 4, NULL, &msg, NULL), MS_OK);
    assert_int_equal(ms_get_by_seq(store, 5, NULL, &msg, NULL), MS_E_NOT_FOUND);
    ms_close(store);
}

/* Two locations, two agents and two keys whose numbers are made the same. */
static void names_with_one_number_are_told_apart(void **state)
{
    static const char *const places[] = {"first", "second"};
    ms_store *store = make_log(1);
    ms__log *log = ms__log_of(store);
    (void)state;
    log->opts.segment_size = MS__SEGMENT_DEFAULT; /* all of it in one */
    assert_int_equal(ms__segment_write(log, NULL), MS_OK);
    for (int i = 0; i < 20; i++) {
        ms_envelope m = ms_user_message(ms_text(i % 2 ? "2" : "1"));
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        m.key = ms_str_of(key);
        m.agent_key = i % 4 < 2 ? MS_STR("x") : MS_STR("y");
        m.has_time = i > 3;
        m.time_ns = SECONDS(100 - i);
        assert_int_equal(ms_append(store, ms_str_of(places[i % 2]), &m, NULL, NULL),
                         MS_OK);
    }
    ms__tail *t = ms__tail_of(log);
    ms__node *loc = t->live.names[MS__LOCS].first;
    loc->hash = ms__hash_location(&log->id, MS_STR("first"));
    ((ms__node *)loc->next)->hash = loc->hash;
    for (ms__node *n = t->live.names[MS__AGENTS].first; n; n = (ms__node *)n->next)
        n->hash = ms__name_hash(&t->live, MS__AGENTS, loc->hash, MS_STR("x"));
    for (ms__node *n = t->live.names[MS__KEYS].first; n; n = (ms__node *)n->next)
        n->hash = ms__name_hash(&t->live, MS__KEYS, loc->hash, MS_STR("k0"));
    assert_int_equal(ms__segment_write(log, NULL), MS_OK);
    ms_query q = query_at("first", 0);
    ms_cursor it;
    const ms_msg *msg;
    size_t n = 0;
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    for (; (msg = ms_next(&it)) != NULL; n++)
        assert_true(ms_str_equal(ms_content(msg).text, MS_STR("1")));
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    assert_int_equal(n, 10);
    q.views = MS_VIEW_AGENT;
    q.agent_key = MS_STR("x");
    q.agent_types = MS_TYPES_ALL;
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    for (n = 0; (msg = ms_next(&it)) != NULL; n++)
        assert_true(ms_str_equal(test_agent_key(msg), MS_STR("x")));
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    assert_int_equal(n, 5);
    assert_int_equal(list(store, false), MS_OK);
    assert_int_equal(list(store, true), MS_OK);
    uint64_t seq = 0;
    ms_envelope m = ms_user_message(ms_text("1"));
    m.key = MS_STR("k0");
    m.agent_key = MS_STR("x");
    assert_int_equal(ms_append(store, MS_STR("first"), &m, &seq, NULL), MS_OK);
    assert_int_equal(seq, 2); /* the key is known */
    ms_append_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.location = MS_STR("first");
    opts.expect = true;
    opts.expect_seq = 20; /* the last of the two is of the other one */
    assert_int_equal(ms_append_batch(store, &m, 1, &opts, NULL), MS_OK);
    uint64_t hidden;
    assert_int_equal(ms_hide_range(store, MS_STR("first"), 1, 100, &hidden, NULL), MS_OK);
    assert_int_equal(hidden, 10);
    assert_int_equal(list(store, false), MS_OK);
    ms_close(store);
}

/* ---- a power cut that lost what the slots say ---- */

typedef enum loss { LOST_ONE, LOST_IN_BATCH, LOSSES } loss;

/* Where message i of the tail stands in the file. */
static uint64_t tail_record_at(const ms__log *log, uint32_t i)
{
    const ms__tail *t = log->core.tail;
    return ms__tail_offset(t, ms__postings_entry(&t->live.all, i));
}

/* Appends that are synced each, then one of them is damaged and no slot tells how far the
 * disk had all: that a later record says so is what keeps those behind it. */
static uint64_t lose(loss which)
{
    ms_log_desc desc = desc_of(MS_LOG_CREATE);
    ms_envelope batch[3];
    uint64_t offset = 0;
    disk_clear(&drive);
    desc.sync = MS_SYNC_EACH;
    ms_store *store = must_open(&desc);
    append_some(store, 4);
    for (int i = 0; i < 3; i++) {
        batch[i] = ms_user_message(ms_text("one of three"));
        batch[i].location = MS_STR("here");
    }
    assert_int_equal(ms_append_batch(store, batch, 3, NULL, NULL), MS_OK);
    append_some(store, 4);
    ms__log *log = ms__log_of(store);
    uint32_t record = which == LOST_ONE ? 2 : 5;
    offset = tail_record_at(log, record);
    drive.rw[offset + MS__HEADER + 4] ^= 1;
    memset(drive.rw + MS__AT_CHECKPOINTS, 0, 2 * MS__CHECKPOINT_STEP);
    ms__log_free(log);
    drive.boot++;
    return offset;
}

static void what_a_later_record_calls_synced_is_not_cut(void **state)
{
    (void)state;
    for (int which = LOST_ONE; which < LOSSES; which++)
        for (int mode = MS_LOG_CREATE; mode <= MS_LOG_READ; mode++) {
            if (mode == MS_LOG_NEW) continue;
            ms_log_info info;
            ms_stat stat;
            (void)lose((loss)which);
            ms_log_desc desc = desc_of((ms_log_mode)mode);
            ms_store *store = must_open(&desc);
            assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
            assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
            assert_int_equal(info.damaged, 1);
            assert_int_equal(stat.messages, 10);
            assert_int_equal(stat.last_seq, 11);
            ms_close(store);
        }
}

/* A writer that begins while a reader opens: what the reader took for damage may be what
 * that one writes. */
static int stat_beside_a_writer(void *ctx, ms_file file, ms_os_stat *out)
{
    static int looks;
    if (++looks % 3 == 0) {
        ms__writer_line w;
        memset(&w, 0, sizeof w);
        w.boot = drive.boot;
        w.device = 7;
        w.inode = drive.inode;
        ms__writer_encode(&w, drive.rw + MS__AT_WRITER);
    }
    return disk_stat(ctx, file, out);
}

static void a_reader_beside_a_new_writer_calls_nothing_damaged(void **state)
{
    ms_os os = drive.os;
    (void)state;
    (void)lose(LOST_ONE);
    os.stat = stat_beside_a_writer;
    ms_log_desc desc = desc_of(MS_LOG_READ);
    desc.os = &os;
    ms_store *store = must_open(&desc);
    assert_int_equal(ms__log_of(store)->sum.damaged, 0); /* until it looks again */
    ms_close(store);
}


/* ---- each record damaged, each word of the index wrong: every operation answers ---- */

static void every_operation_answers(ms_store *store, const char *what)
{
    for (size_t i = 0; i < OPERATIONS; i++) {
        if (!operations[i].reads && !ms__log_of(store)->writer) continue;
        ms_result code = operations[i].run(store);
        if (code != MS_OK && code != MS_E_DAMAGED && code != MS_E_NOT_FOUND)
            fail_msg("%s, %s: %s", what, operations[i].name, ms_result_text(code));
    }
}

/* Where the records of a shape stand. */
static size_t places_of(shape which, uint64_t *at, size_t most, unsigned kind)
{
    ms__replay s;
    const unsigned char *r;
    size_t n = 0;
    load_image(which);
    ms_log_desc desc = desc_of(MS_LOG_READ);
    ms_store *store = must_open(&desc);
    memset(&s, 0, sizeof s);
    s.log = ms__log_of(store);
    s.at = MS__SUPER_SIZE;
    s.limit = s.trusted = s.log->end;
    s.quiet = true;
    while (n < most && ms__replay_next(&s, &r, &at[n]) == MS__FOUND_RECORD)
        if (kind == 0 || r[4] == kind) n++;
    ms_close(store);
    return n;
}

static void each_record_damaged_leaves_every_operation_working(void **state)
{
    static uint64_t at[2000];
    static const struct {
        size_t byte;
        bool open; /* it happens while the store is open, and knows the record whole */
    } cases[] = {{40, false}, {9, false}, {3, true}, {9, true}, {40, true}};
    size_t n = places_of(RICH, at, 2000, 0);
    (void)state;
    for (size_t i = 0; i < n; i += apart())
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
            ms_log_desc desc = desc_of(c % 2 ? MS_LOG_READ : MS_LOG_WRITE);
            char what[80];
            snprintf(what, sizeof what, "record at %u, case %zu", (unsigned)at[i], c);
            load_image(RICH);
            if (!cases[c].open) drive.rw[at[i] + cases[c].byte] ^= 0x41;
            ms_store *store = must_open(&desc);
            if (cases[c].open) (void)op_everything(store);
            if (cases[c].open) drive.rw[at[i] + cases[c].byte] ^= 0x41;
            every_operation_answers(store, what);
            ms_close(store);
        }
}

/* One word of an index record is another one, and its checks hold. */
static void lie_in_index(shape which, uint64_t at, size_t word, uint32_t value)
{
    char what[80];
    ms_log_desc desc = desc_of(MS_LOG_READ);
    snprintf(what, sizeof what, "index record at %u, byte %zu is %u", (unsigned)at, word,
             value);
    load_image(which);
    unsigned char *r = drive.rw + at;
    ms_store *store = must_open(&desc);
    ms__file_id id = ms__log_of(store)->id;
    ms_close(store);
    ms__put32(r + word, value);
    ms__seal_at(id.crc, at, r);
    store = must_open(&desc);
    every_operation_answers(store, what);
    ms_close(store);
}

/* Below scale 100 one word in five is made wrong. */
static void lies_in(shape which, unsigned type, size_t records, size_t stride)
{
    static uint64_t at[4000];
    size_t n = places_of(which, at, 4000, MS__KIND_INDEX), seen = 0, words = 0;
    for (size_t i = n; i-- > 0 && seen < records;) {
        load_image(which);
        if (drive.ro[at[i] + 5] != type) continue;
        seen++;
        size_t size = ms__get32(drive.ro + at[i]) & ~(size_t)3;
        for (size_t word = 32; word + 4 <= size; word += word < 320 ? 4 : 4 * stride) {
            if (test_scale() < 100 && words++ % 5 != 0) continue;
            uint32_t now = ms__get32(drive.ro + at[i] + word);
            lie_in_index(which, at[i], word, 0);
            lie_in_index(which, at[i], word, now + 1);
            lie_in_index(which, at[i], word, UINT32_MAX);
            load_image(which);
        }
    }
}

static void each_word_of_an_index_wrong_leaves_every_operation_working(void **state)
{
    (void)state;
    lies_in(RICH, MS__INDEX_SEGMENT, 2, 5);
    lies_in(TALL, MS__INDEX_SUMMARY, 2, 1);
    lies_in(TALL, MS__INDEX_FILTER, 1, 9);
}

/* ---- making summaries ---- */

static void a_summary_that_somebody_else_has_made_is_given_up(void **state)
{
    bool more;
    ms_store *store;
    load_image(DUE);
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    store = must_open(&desc);
    ms__log *log = ms__log_of(store);
    ms__job *j = &log->index.job;
    (void)state;
    assert_int_equal(ms__log_begin(log, NULL), MS_OK);
    for (unsigned i = 0; i < MS__FAN; i++)
        assert_int_equal(ms__job_step(log, &more, NULL), MS_OK);
    assert_true(j->segments > 0 && more && j->record != NULL);
    j->sum.number = 5;
    assert_int_equal(ms__job_step(log, &more, NULL), MS_OK);
    assert_true(j->segments > 0 && more && j->record == NULL); /* begun anew */
    assert_int_equal(j->sum.number, 0);
    assert_int_equal(j->segments, 1);
    while (more) assert_int_equal(ms__job_step(log, &more, NULL), MS_OK);
    assert_int_equal(log->index.summaries.n, 1);
    assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
    ms_close(store);
}

/* ---- numbers, and places in memory ---- */

static void a_slot_that_a_reader_looks_at_is_left_alone(void **state)
{
    uint32_t now;
    ms_store *store = make_log(1);
    ms__log *log = ms__log_of(store);
    (void)state;
    log->map.pins[(log->map.now + 1) % MS__PINS] = 1; /* as when it pins, and looks again */
    assert_true(ms__tail_slot(log, &now));
    assert_int_equal(now, log->map.now + 2);
    log->map.pins[(log->map.now + 1) % MS__PINS] = 0;
    ms_close(store);
}

static void what_is_only_a_head_at_the_end_is_no_record(void **state)
{
    ms_store *store = make_log(1);
    ms__log *log = ms__log_of(store);
    unsigned char r[40] = {40};
    (void)state;
    assert_false(ms__log_holds(log, r, 8192, 39, true));
    ms_close(store);
}

/* ---- calls that the manual does not allow, and some that it does ---- */

static void what_is_asked_of_the_wrong_store_is_refused(void **state)
{
    ms_store *store = make_log(5), *reader, *other;
    ms_log_desc desc = desc_of(MS_LOG_READ);
    ms_log_info info;
    ms_mem_desc mem;
    const ms_msg *msg;
    ms_arena arena;
    ms_envelope m = ms_user_message(ms_text("loose"));
    (void)state;
    test_arena_init(&arena, NULL);
    memset(&mem, 0, sizeof mem);
    assert_int_equal(ms_mem_open(&other, &mem, NULL), MS_OK);
    assert_int_equal(ms_log_stat(other, &info, NULL), MS_E_UNSUPPORTED);
    ms_close(other);
    assert_int_equal(ms_log_stat(NULL, &info, NULL), MS_E_CLOSED);
    assert_int_equal(ms_log_rewrite(NULL, &desc, true, NULL, NULL, NULL), MS_E_CLOSED);
    ms_log_desc none = desc;
    none.path = "";
    assert_int_equal(ms_log_rewrite(store, &none, true, NULL, NULL, NULL), MS_E_ARGUMENT);
    none = desc;
    none.segment_size = ((size_t)1 << 30) + 1;
    assert_int_equal(ms_log_open(&reader, &none, NULL), MS_E_ARGUMENT);
    reader = must_open(&desc);
    assert_int_equal(ms_encode(&m, &arena, &msg, NULL), MS_OK);
    assert_int_equal(store->backend->erase(store, msg, 0, NULL), MS_E_ARGUMENT);
    assert_int_equal(reader->backend->erase(reader, msg, 0, NULL), MS_E_READ_ONLY);
    assert_int_equal(reader->backend->leave_out(reader, 9, NULL),
                     MS_E_READ_ONLY);
    ms_append_opts opts;
    memset(&opts, 0, sizeof opts);
    assert_int_equal(store->backend->append(store, MS_STR("x"), &m, SIZE_MAX / 2, &opts,
                                            NULL), MS_E_NO_MEMORY);
    uint64_t seq;
    assert_int_equal(ms_sync(reader, &seq, NULL), MS_OK);
    ms_arena_deinit(&arena);
    ms_close(reader);
    ms_close(store);
}

static void an_empty_file_is_asked_everything(void **state)
{
    ms_log_desc desc = desc_of(MS_LOG_READ);
    ms_log_info info;
    ms_log_report report;
    ms_stat stat;
    ms_store *store;
    uint64_t seq = 7;
    (void)state;
    disk_resize(&drive, 0);
    drive.there = true;
    drive.locked = false;
    store = must_open(&desc);
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    assert_int_equal(stat.index_bytes, 0);
    assert_int_equal(ms_sync(store, &seq, NULL), MS_OK);
    assert_int_equal(seq, 0);
    every_operation_answers(store, "an empty file");
    ms_close(store);
    assert_int_equal(ms_log_verify(&desc, &report, NULL), MS_OK);
    desc.opening = MS_OPEN_STRICT;
    store = must_open(&desc);
    ms_close(store);
    disk_resize(&drive, 4096);
    assert_int_equal(ms_log_open(&store, &desc, NULL), MS_E_DAMAGED);
    desc.opening = MS_OPEN_NORMAL;
    for (int how = TRIP_FAIL; how <= TRIP_SHORT; how++)
        for (uint64_t k = 1; k < 8; k++) { /* zeros that cannot be read */
            disk_resize(&drive, 0);
            disk_resize(&drive, 70000);
            trip_init(&traps, &drive.os);
            traps.kinds = TRIP_BIT(READ);
            traps.how = (trip_how)how;
            traps.code = EIO;
            traps.at = k;
            desc.os = &traps.os;
            if (ms_log_open(&store, &desc, NULL) == MS_OK) ms_close(store);
        }
    desc.os = &drive.os;
    disk_resize(&drive, 300000); /* more than a creation allocates */
    assert_int_not_equal(ms_log_open(&store, &desc, NULL), MS_OK);
    disk_resize(&drive, 0);
}

static int stat_without_room(void *ctx, ms_file file, ms_os_stat *out)
{
    int code = disk_stat(ctx, file, out);
    out->keeps_room = false;
    return code;
}

static int allocate_code;

static int allocate_nothing(void *ctx, ms_file file, uint64_t offset, uint64_t size)
{
    (void)ctx;
    (void)file;
    (void)offset;
    (void)size;
    return allocate_code;
}

static void a_disk_that_cannot_make_room_is_written_to(void **state)
{
    static const int codes[] = {EOPNOTSUPP, ENOSYS, EINVAL};
    (void)state;
    for (size_t i = 0; i < 5; i++) {
        ms_os os = drive.os;
        ms_log_info info;
        ms_log_desc desc = desc_of(MS_LOG_CREATE);
        disk_clear(&drive);
        if (i < 3) os.allocate = allocate_nothing;
        else os.stat = stat_without_room;
        if (i < 3) allocate_code = codes[i];
        desc.os = &os;
        desc.engine = i == 3 ? MS_ENGINE_AUTO : MS_ENGINE_MAP;
        desc.max_message = i < 3 ? SIZE_MAX : 0;
        ms_store *store = must_open(&desc);
        append_some(store, 20);
        assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
        assert_int_equal(info.engine, MS_ENGINE_WRITE);
        ms_close(store);
    }
}

/* ---- what happens while the disk syncs ---- */

static ms_store *syncing;
static int while_syncing;

static int sync_and_more(void *ctx, ms_file file)
{
    ms__log *log = ms__log_of(syncing);
    if (while_syncing == 0) return disk_sync(ctx, file);
    ms__lock_take(&log->lock);
    if (while_syncing == 1) assert_int_equal(ms__segment_write(log, NULL), MS_OK);
    if (while_syncing == 2) ms__durable_below(log, MS__SUPER_SIZE + 64);
    ms__lock_give(&log->lock);
    while_syncing = 0;
    return disk_sync(ctx, file);
}

/* 1: another thread writes a segment index; 2: it erases. */
static void a_sync_tells_what_was_there_when_it_began(void **state)
{
    (void)state;
    for (int what = 1; what <= 2; what++) {
        ms_os os = drive.os;
        ms_log_desc desc = desc_of(MS_LOG_WRITE);
        ms_log_info info;
        ms_close(make_log(20));
        os.sync = sync_and_more;
        desc.os = &os;
        syncing = must_open(&desc);
        append_some(syncing, 5);
        while_syncing = what;
        uint64_t end = ms__log_of(syncing)->end;
        ms__lock_take(&ms__log_of(syncing)->lock);
        assert_int_equal(ms__log_sync_now(ms__log_of(syncing), true, false, NULL), MS_OK);
        ms__lock_give(&ms__log_of(syncing)->lock);
        while_syncing = 0;
        assert_int_equal(ms_log_stat(syncing, &info, NULL), MS_OK);
        assert_int_equal(info.durable_end, what == 2 ? MS__SUPER_SIZE + 64 : end);
        ms_close(syncing);
    }
}

/* ---- what a watermark is worth ---- */

static void a_watermark_of_another_machine_or_file_is_not_believed(void **state)
{
    ms__writer_line w;
    ms_store *store = make_log(3);
    ms__log *log = ms__log_of(store);
    (void)state;
    assert_true(ms__mark_trusted(log));
    assert_true(ms__writer_decode(&w, log->map.super));
    ms__writer_line other = w;
    other.device++;
    ms__writer_encode(&other, log->map.super + MS__AT_WRITER);
    assert_false(ms__mark_trusted(log));
    ms__writer_encode(&w, log->map.super + MS__AT_WRITER);
    log->file.boot = 0;
    assert_false(ms__mark_trusted(log));
    log->file.boot = w.boot;
    /* nor does a writer go on where a sync of another one has failed */
    ms__store_mark(log->map.super + MS__AT_BUSY, log->end);
    assert_int_equal(ms__log_join(log, NULL), MS_OK);
    assert_true(log->append.begun);
    assert_int_equal(ms__unconfirmed_set(log, true), 0);
    assert_int_equal(ms__log_join(log, NULL), MS_OK);
    assert_false(log->append.begun);
    assert_int_equal(ms__unconfirmed_set(log, false), 0);
    ms_close(store);
}

static void a_watermark_that_went_back_takes_nothing_away(void **state)
{
    uint64_t last;
    ms_store *store = make_log(9);
    ms_log_desc desc = desc_of(MS_LOG_READ);
    ms_store *reader = must_open(&desc);
    (void)state;
    ms__store_mark(ms__log_of(store)->map.super + MS__AT_MARK, MS__SUPER_SIZE + 64);
    assert_int_equal(test_refresh(reader, &last, NULL), MS_OK);
    assert_int_equal(last, 9);
    ms__store_mark(ms__log_of(store)->map.super + MS__AT_MARK, ms__log_of(store)->end);
    ms_close(reader);
    ms_close(store);
}

static void a_reader_stops_at_what_it_must_understand(void **state)
{
    uint64_t last;
    unsigned char r[48] = {0};
    ms_store *store = make_log(9);
    ms_log_desc desc = desc_of(MS_LOG_READ);
    ms_store *reader = must_open(&desc);
    (void)state;
    ms__own_header(r, 40, MS__KIND_INDEX, 0, 9);
    r[4] = 200;
    assert_int_equal(ms__record_put(ms__log_of(store), r, NULL), MS_OK);
    assert_int_equal(test_refresh(reader, &last, NULL), MS_E_FOREIGN);
    ms_close(reader);
    ms_close(store);
}


/* ---- more of [record] and [json] ---- */

static void bytes_that_lie_askew_are_no_message(void **state)
{
    static uint64_t room[16];
    const ms_msg *msg;
    (void)state;
    assert_int_equal(ms_decode((const char *)room + 4, 64, &msg, NULL), MS_E_ARGUMENT);
    assert_int_equal(ms_decode(NULL, 64, &msg, NULL), MS_E_ARGUMENT);
}

static void a_value_over_the_limit_is_refused_before_it_is_read(void **state)
{
    ms_envelope m = ms_user_message(ms_text_n(ms_str_n("x", MS__VALUE_MAX + (size_t)1)));
    (void)state;
    assert_int_equal(test_envelope_check(&m, NULL), MS_E_TOO_LARGE);
}

/* A record of a store that has valid checks, and no location or a codec. */
static void a_record_without_a_place_is_damaged(void **state)
{
    ms_arena arena;
    ms_envelope m = ms_user_message(ms_text("hello"));
    const ms_msg *msg;
    (void)state;
    test_arena_init(&arena, NULL);
    assert_int_equal(ms_encode(&m, &arena, &msg, NULL), MS_OK);
    unsigned char *r = (unsigned char *)(uintptr_t)ms__bytes(msg);
    assert_int_equal(ms__check_record(r, 0, NULL), MS_E_DAMAGED);
    m.location = MS_STR("here");
    assert_int_equal(ms_encode(&m, &arena, &msg, NULL), MS_OK);
    r = (unsigned char *)(uintptr_t)ms__bytes(msg);
    assert_int_equal(ms__check_record(r, 0, NULL), MS_OK);
    r[4] = MS__KIND_NOTE;
    r[5] = 0;
    r[6] = 0x10;
    assert_int_equal(ms__check_record(r, 0, NULL), MS_E_DAMAGED);
    ms_arena_deinit(&arena);
}

/* ---- sessions and what is left of them ---- */

/* A record of kind 0 whose checks hold: nothing that a writer has made. */
static void a_record_of_kind_0_ends_a_walk(void **state)
{
    unsigned char r[48] = {0};
    ms_log_report report;
    ms_store *store = make_log(3);
    (void)state;
    ms__own_header(r, 40, MS__KIND_INDEX, 0, 3);
    r[4] = 0;
    assert_int_equal(ms__record_put(ms__log_of(store), r, NULL), MS_OK);
    append_some(store, 2);
    ms_close(store);
    ms_log_desc desc = desc_of(MS_LOG_READ);
    assert_int_equal(ms_log_verify(&desc, &report, NULL), MS_E_DAMAGED);
    assert_int_equal(report.messages, 5);
}

/* Damage up to some bytes before the end: too few for a record. */
static void damage_that_leaves_too_little_is_the_last(void **state)
{
    ms_log_info info;
    ms_store *store = make_log(4);
    ms__log *log = ms__log_of(store);
    uint64_t at = tail_record_at(log, 3), end = log->end;
    (void)state;
    assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
    ms__store_mark(log->map.super + MS__AT_MARK, end + 16);
    drive.rw[at + 40] ^= 1;
    ms__log_free(log);
    ms_log_desc desc = desc_of(MS_LOG_READ);
    store = must_open(&desc);
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    assert_true(info.damaged > 0);
    assert_int_equal(op_everything(store), MS_E_DAMAGED);
    ms_close(store);
}

/* The durable end that a slot tells lies inside of the last record, which is damaged. */
static void a_durable_end_inside_of_a_record_is_survived(void **state)
{
    (void)state;
    for (int room = 0; room < 2; room++) {
        ms_stat stat;
        ms_store *store = make_log(4);
        ms__log *log = ms__log_of(store);
        uint64_t at = tail_record_at(log, 3), end = log->end;
        assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
        ms__checkpoint slot = ms__checkpoint_newest(log->map.super);
        slot.end = at + 16;
        slot.generation += 2;
        ms__checkpoint_encode(&slot, log->map.super + MS__AT_CHECKPOINTS);
        memset(log->map.super + MS__AT_CHECKPOINTS + MS__CHECKPOINT_STEP, 0, 44);
        drive.rw[at + 40] ^= 1;
        ms__log_free(log);
        drive.boot++;
        disk_resize(&drive, room ? end + 4096 : end);
        ms_log_desc desc = desc_of(MS_LOG_READ);
        store = must_open(&desc);
        assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
        assert_int_equal(stat.messages, 3);
        ms_close(store);
    }
}

static void strict_opening_after_a_restart_looks_behind_the_end(void **state)
{
    ms_store *store;
    ms_log_desc desc = desc_of(MS_LOG_READ);
    (void)state;
    desc.opening = MS_OPEN_STRICT;
    for (int dead = 0; dead < 2; dead++)
        for (int mode = MS_LOG_WRITE; mode <= MS_LOG_READ;
             mode += MS_LOG_READ - MS_LOG_WRITE)
            for (int restart = 0; restart < 2; restart++) {
                ms_close(make_log(4));
                uint64_t end = ms__get64(drive.ro + MS__AT_MARK);
                drive.rw[end + 100] = (unsigned char)(dead ? 7 : 0);
                drive.boot += (uint64_t)restart;
                desc.mode = (ms_log_mode)mode;
                ms_result code = ms_log_open(&store, &desc, NULL);
                bool beside = !restart && mode == MS_LOG_READ;
                assert_int_equal(code, dead && !beside ? MS_E_DAMAGED : MS_OK);
                ms_close(store);
            }
}

/* ---- opening beside others ---- */

static int opens_left;

static int open_once(void *ctx, const char *name, unsigned how, ms_file *file)
{
    if (opens_left > 0 && --opens_left == 0) return ENOENT;
    return disk_open(ctx, name, how, file);
}

static int stat_of_another(void *ctx, ms_file file, ms_os_stat *out)
{
    int code = disk_stat(ctx, file, out);
    if (opens_left > 0 && --opens_left == 0) out->device++;
    return code;
}

/* Between opening and locking, the file is taken away, or another disk is mounted. */
static void a_file_that_went_away_before_the_lock_is_opened_again(void **state)
{
    (void)state;
    for (int how = 0; how < 2; how++) {
        ms_os os = drive.os;
        ms_log_desc desc = desc_of(MS_LOG_WRITE);
        ms_close(make_log(3));
        if (how) os.stat = stat_of_another;
        else os.open = open_once;
        opens_left = 2;
        desc.os = &os;
        ms_store *store = must_open(&desc);
        assert_int_equal(opens_left, 0);
        append_some(store, 1);
        ms_close(store);
    }
}

static int folder_code;

static int sync_no_folder(void *ctx, const char *of)
{
    (void)ctx;
    (void)of;
    return folder_code;
}

static void a_folder_that_cannot_be_synced_is_told_apart(void **state)
{
    static const struct {
        int code;
        ms_result result;
    } cases[] = {{ENFILE, MS_E_IO}, {ENOMEM, MS_E_NO_MEMORY}, {EPERM, MS_OK},
                 {EACCES, MS_OK},   {EIO, MS_E_POISONED}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ms_os os = drive.os;
        ms_log_desc desc = desc_of(MS_LOG_WRITE);
        ms_close(make_log(3));
        os.sync_folder = sync_no_folder;
        desc.os = &os;
        folder_code = cases[i].code;
        ms_store *store = must_open(&desc);
        append_some(store, 1);
        assert_int_equal(ms_sync(store, NULL, NULL), cases[i].result);
        ms_close(store);
    }
}

static void a_poisoned_handle_erases_and_leaves_out_nothing(void **state)
{
    ms_store *store = make_log(3);
    const ms_msg *msg;
    (void)state;
    assert_int_equal(ms_get_by_seq(store, 2, NULL, &msg, NULL), MS_OK);
    ms__log_of(store)->durable.poisoned = true;
    assert_int_equal(store->backend->erase(store, msg, 0, NULL), MS_E_POISONED);
    assert_int_equal(store->backend->leave_out(store, 9, NULL),
                     MS_E_POISONED);
    ms_close(store);
}

/* ---- messages that were looked for and are damaged ---- */

static void a_change_of_a_damaged_message_says_so(void **state)
{
    ms_store *store = make_log(9);
    ms__log *log = ms__log_of(store);
    ms_envelope m = ms_user_message(ms_text("new words"));
    ms_append_opts opts;
    ms__sought f;
    ms_result result = MS_OK;
    (void)state;
    drive.rw[tail_record_at(log, 4) + 9] ^= 1;
    assert_null(ms__own(&log->core, log->core.tail, log->core.tail->end, 5, false, &f,
                        &result));
    memset(&opts, 0, sizeof opts);
    m.flags = (uint32_t)MS_KIND_AMEND << MS__KIND_SHIFT;
    m.location = MS_STR("place_1");
    m.seq = 5;
    ms_result code = store->backend->change(store, ms_str_n(NULL, 0), &m, 1, &opts, NULL);
    assert_true(code == MS_E_DAMAGED || code == MS_E_NOT_FOUND);
    m.seq = 77;
    code = store->backend->change(store, MS_STR("place_1"), &m, 1, &opts, NULL);
    assert_int_equal(code, MS_E_NOT_FOUND);
    ms_close(store);
}

/* An agent of whom nothing is visible any more is in no listing. */
static void agents_without_visible_messages_are_not_listed(void **state)
{
    ms_arena arena;
    ms_list_query q;
    ms_listing got;
    uint64_t hidden;
    ms_store *store = make_log(20);
    (void)state;
    for (int i = 0; i < 7; i++) {
        char place[16];
        snprintf(place, sizeof place, "place_%d", i);
        assert_int_equal(ms_hide_range(store, ms_str_of(place), 1, 20, &hidden, NULL),
                         MS_OK);
    }
    memset(&q, 0, sizeof q);
    q.agents = true;
    test_arena_init(&arena, NULL);
    assert_int_equal(ms_list(store, &q, &arena, &got, NULL), MS_OK);
    assert_int_equal(got.count, 0);
    q.agents = false;
    assert_int_equal(ms_list(store, &q, &arena, &got, NULL), MS_OK);
    assert_int_equal(got.count, 0);
    ms_arena_deinit(&arena);
    ms_close(store);
}


/* A posting in the middle of a location's run names a record that is no message. */
static void a_posting_of_another_kind_of_record_is_damage(void **state)
{
    uint64_t offset;
    ms__segment l;
    ms__run run;
    uint32_t note = 0, all = UINT32_MAX;
    ms_store *store = make_log(0);
    ms__log *log = ms__log_of(store);
    ms__file_id id = log->id;
    (void)state;
    log->opts.segment_size = MS__SEGMENT_DEFAULT; /* all of it in one */
    append_some(store, 10);
    assert_int_equal(ms_note(store, 3, MS_STR("k"), ms_text("v"), NULL), MS_OK);
    append_some(store, 15);
    ms_query q = query_at("place_1", 0);
    ms_cursor it;
    size_t before = 0, after = 0;
    assert_int_equal(ms__segment_write(log, NULL), MS_OK);
    unsigned char *r =
        drive.rw + (record_of(log, MS__KIND_INDEX, MS__INDEX_SEGMENT, &offset) - drive.ro);
    assert_true(ms__segment_decode(&l, r, offset));
    while (drive.ro[ms__segment_offset(&l, note) + 4] != MS__KIND_NOTE) note++;
    uint64_t h = ms__hash_location(&id, q.location);
    l.sound = &all; /* as if its checks were right */
    uint64_t list = ms__list_number(h, MS__P_LOCATION);
    assert_true(ms__segment_find(log, &l, list, &run) && run.n > 2);
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while (ms_next(&it) != NULL) before++;
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    unsigned char *p = (unsigned char *)(uintptr_t)run.at + l.width;
    p[0] = (unsigned char)note;
    p[1] = 0;
    ms__seal_at(id.crc, offset, r);
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while (ms_next(&it) != NULL) after++;
    assert_int_equal(ms_cursor_close(&it, NULL), MS_E_DAMAGED);
    assert_int_equal(after, before - 1);
    ms_close(store);
}


/* [change] always asks for the number; another caller of the table need not. */
static void a_range_is_hidden_without_being_counted_for_anybody(void **state)
{
    ms_store *store = make_log(9);
    ms_envelope m;
    ms_append_opts opts;
    (void)state;
    memset(&m, 0, sizeof m);
    memset(&opts, 0, sizeof opts);
    m.flags = (uint32_t)MS_KIND_HIDE << MS__KIND_SHIFT;
    m.seq = 1;
    opts.expect_seq = 9;
    assert_int_equal(store->backend->change(store, MS_STR("place_1"), &m, 1, &opts, NULL),
                     MS_OK); /* nobody wants to know how many */
    ms_close(store);
}

static void a_segment_that_cannot_begin_is_not_sealed(void **state)
{
    ms_os os = drive.os;
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    ms_store *store;
    (void)state;
    load_image(SMALL);
    drive.boot++; /* a restart: what is there has room, and no more */
    disk_resize(&drive, ms__get64(drive.ro + MS__AT_MARK));
    os.allocate = allocate_nothing;
    allocate_code = ENOSPC;
    desc.os = &os;
    store = must_open(&desc);
    assert_int_equal(ms__segment_write(ms__log_of(store), NULL), MS_E_FULL);
    ms_close(store);
    drive.boot--;
}


int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_that_is_not_ours_is_refused),
        cmocka_unit_test(a_slot_that_lies_does_not_count),
        cmocka_unit_test(the_newest_whole_slot_counts),
        cmocka_unit_test(a_size_that_does_not_fit_is_refused),
        cmocka_unit_test(a_leaf_that_lies_is_not_read),
        cmocka_unit_test(a_leaf_with_wide_postings_and_no_list_is_measured),
        cmocka_unit_test(arrays_of_a_leaf_that_lie_lead_nowhere),
        cmocka_unit_test(a_summary_that_lies_is_not_read),
        cmocka_unit_test(a_filter_of_something_else_is_none),
        cmocka_unit_test(a_filter_knows_what_went_in_and_little_else),
        cmocka_unit_test(an_index_record_holds_only_where_it_was_written),
        cmocka_unit_test(a_writer_that_is_misused_says_so_once),
        cmocka_unit_test(absent_text_is_written_as_empty),
        cmocka_unit_test(a_raw_string_that_is_damaged_is_mended),
        cmocka_unit_test(a_record_over_the_limit_is_refused),
        cmocka_unit_test(nothing_is_encoded_from_or_to_nothing),
        cmocka_unit_test(a_time_may_be_asked_for_without_a_place_to_put_it),
        cmocka_unit_test(a_body_whose_check_is_the_mark_of_erasing_is_not_erased),
        cmocka_unit_test(each_call_of_each_operation_fails),
        cmocka_unit_test(each_call_of_opening_fails),
        cmocka_unit_test(names_that_have_no_room_are_refused),
        cmocka_unit_test(a_reader_that_has_no_room_says_so),
        cmocka_unit_test(maps_reach_as_far_as_numbers_go),
        cmocka_unit_test(a_log_of_many_pieces_is_read),
        cmocka_unit_test(more_than_65536_records_in_a_segment_are_found),
        cmocka_unit_test(more_changed_locations_than_are_listed_are_all_looked_at),
        cmocka_unit_test(names_with_one_number_are_told_apart),
        cmocka_unit_test(what_a_later_record_calls_synced_is_not_cut),
        cmocka_unit_test(a_reader_beside_a_new_writer_calls_nothing_damaged),
        cmocka_unit_test(each_record_damaged_leaves_every_operation_working),
        cmocka_unit_test(each_word_of_an_index_wrong_leaves_every_operation_working),
        cmocka_unit_test(a_summary_that_somebody_else_has_made_is_given_up),
        cmocka_unit_test(a_slot_that_a_reader_looks_at_is_left_alone),
        cmocka_unit_test(what_is_only_a_head_at_the_end_is_no_record),
        cmocka_unit_test(what_is_asked_of_the_wrong_store_is_refused),
        cmocka_unit_test(an_empty_file_is_asked_everything),
        cmocka_unit_test(a_disk_that_cannot_make_room_is_written_to),
        cmocka_unit_test(a_sync_tells_what_was_there_when_it_began),
        cmocka_unit_test(a_watermark_of_another_machine_or_file_is_not_believed),
        cmocka_unit_test(a_watermark_that_went_back_takes_nothing_away),
        cmocka_unit_test(a_reader_stops_at_what_it_must_understand),
        cmocka_unit_test(bytes_that_lie_askew_are_no_message),
        cmocka_unit_test(a_value_over_the_limit_is_refused_before_it_is_read),
        cmocka_unit_test(a_record_without_a_place_is_damaged),
        cmocka_unit_test(a_record_of_kind_0_ends_a_walk),
        cmocka_unit_test(damage_that_leaves_too_little_is_the_last),
        cmocka_unit_test(a_durable_end_inside_of_a_record_is_survived),
        cmocka_unit_test(strict_opening_after_a_restart_looks_behind_the_end),
        cmocka_unit_test(a_file_that_went_away_before_the_lock_is_opened_again),
        cmocka_unit_test(a_folder_that_cannot_be_synced_is_told_apart),
        cmocka_unit_test(a_poisoned_handle_erases_and_leaves_out_nothing),
        cmocka_unit_test(a_change_of_a_damaged_message_says_so),
        cmocka_unit_test(agents_without_visible_messages_are_not_listed),
        cmocka_unit_test(a_posting_of_another_kind_of_record_is_damage),
        cmocka_unit_test(a_range_is_hidden_without_being_counted_for_anybody),
        cmocka_unit_test(a_segment_that_cannot_begin_is_not_sealed),
    };
    disk_init(&drive, ROOM);
    int failed = cmocka_run_group_tests(tests, make_images, NULL);
    disk_deinit(&drive);
    for (int which = SMALL; which < SHAPES; which++) free(images[which].bytes);
    printf("tally: lies that no decoder believed %u\n", lies_told);
    printf("tally: calls that failed inside of an operation %u\n", troubles_made);
    return failed;
}
