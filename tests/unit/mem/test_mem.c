/* The arena store: lifetimes of pointers, times of the store, limits of size, and what a
 * message costs. test_record, test_fast and test_twin compare what is read with what was
 * appended.
 */

#define _POSIX_C_SOURCE 200809L
#include "stores.h"
#include "twin.h"

#include <time.h>


/* ---- lifetimes ---- */

/* Pointers, and a copy of the bytes they stand for. */
typedef struct kept {
    const ms_msg *msg;
    char *bytes;
} kept;

TEST_WITH(ON_EVERY_STORE, messages_stay_where_and_what_they_are)
{
    enum { KEPT = 1000 };
    static kept early[KEPT];
    size_t more = test_times(100000);
    uint64_t rng = test_seed();
    const store_options options = {.room = more * 1000 + ((size_t)4 << 20)};
    test_store s = store_open((store_kind *)*state, &options);
    for (size_t i = 0; i < KEPT; i++) {
        ms_envelope m = random_message(&rng);
        uint64_t seq = must_append(s.store, no_str(), &m);
        assert_int_equal(ms_get_by_seq(s.store, seq, NULL, &early[i].msg, NULL), MS_OK);
        early[i].bytes = (char *)twin_memory(NULL, ms_size(early[i].msg));
        memcpy(early[i].bytes, early[i].msg, ms_size(early[i].msg));
    }
    for (size_t i = 0; i < more; i++) {
        ms_envelope m = random_message(&rng);
        must_append(s.store, no_str(), &m);
    }
    for (size_t i = 0; i < KEPT; i++) {
        const ms_msg *now;
        assert_int_equal(ms_get_by_seq(s.store, ms_seq(early[i].msg), NULL, &now, NULL),
                         MS_OK);
        /* maps of a log that cannot reach beyond its end may overlap: two places then */
        if (!ms_os_default()->exact_maps) assert_ptr_equal(now, early[i].msg);
        assert_memory_equal(now, early[i].bytes, ms_size(now));
        assert_memory_equal(early[i].msg, early[i].bytes, ms_size(now));
        free(early[i].bytes);
    }
    store_close(&s);
}


/* ---- times ---- */

static int64_t time_of(ms_store *store, uint64_t seq, bool *has, bool *stamped)
{
    const ms_msg *msg;
    int64_t time = -1;
    assert_int_equal(ms_get_by_seq(store, seq, NULL, &msg, NULL), MS_OK);
    *has = ms_time(msg, &time);
    *stamped = (ms_flags(msg) & MS_FLAG_STAMPED) != 0;
    return time;
}

TEST_WITH(ON_EVERY_STORE, unset_times_are_stamped_by_the_callers_clock)
{
    static const struct {
        bool keep, set;
        int64_t time, now, want;
        bool has, stamped;
    } t[] = {
        {false, false, 0, 1005, 1005, true, true},
        {false, true, 7, 1005, 7, true, false},
        {false, true, 0, 1005, 0, true, false},
        {false, true, -1000, 1005, -1000, true, false},
        {false, false, 0, 0, 0, true, true},
        {true, false, 0, 1005, 0, false, false},
        {true, true, 7, 1005, 7, true, false},
        {false, false, 0, INT64_MAX, INT64_MAX, true, true},
        {false, true, MS_TIME_NONE + 1, 0, MS_TIME_NONE + 1, true, false},
        {false, false, 0, MS_TIME_NONE, 0, false, false},
    };
    for (size_t i = 0; i < COUNT(t); i++) {
        int64_t now = t[i].now;
        bool has, stamped;
        const store_options options = {.clock = clock_at(&now),
                                       .keep_unset_times = t[i].keep};
        test_store s = store_open((store_kind *)*state, &options);
        ms_envelope m = ms_user_message(ms_text("x"));
        m.has_time = t[i].set;
        m.time_ns = t[i].time;
        uint64_t seq = must_append(s.store, MS_STR("job"), &m);
        int64_t time = time_of(s.store, seq, &has, &stamped);
        assert_int_equal(has, t[i].has);
        assert_int_equal(stamped, t[i].stamped);
        if (has) assert_true(time == t[i].want);
        store_close(&s);
    }
}

static int64_t system_time(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Tried three times, because the system's clock may be set meanwhile. */
TEST_WITH(ON_EVERY_STORE, unset_times_are_of_the_system_when_there_is_no_clock)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_envelope m = ms_user_message(ms_text("x"));
    bool right = false;
    for (int i = 0; i < 3 && !right; i++) {
        bool has, stamped;
        int64_t before = system_time();
        uint64_t seq = must_append(s.store, MS_STR("job"), &m);
        int64_t after = system_time();
        int64_t stamp = time_of(s.store, seq, &has, &stamped);
        assert_true(has && stamped);
        right = stamp >= before - 1000000 && stamp <= after + 1000000;
    }
    assert_true(right);
    store_close(&s);
}


/* ---- sizes ---- */

/* The limit is on the record: one byte over it is refused, and nothing else changes. */
TEST_WITH(ON_EVERY_STORE, a_record_over_max_message_is_refused)
{
    enum { LIMIT = 1024 };
    const store_options options = {.max_message = LIMIT};
    char *text = large_text(LIMIT);
    size_t stored = 0, refused = 0;
    test_store s = store_open((store_kind *)*state, &options);
    for (size_t len = 0; len <= LIMIT; len++) {
        ms_envelope m = ms_user_message(ms_text_n(ms_str_n(text, len)));
        ms_arena arena;
        const ms_msg *alone;
        ms_error err;
        test_arena_init(&arena, NULL);
        m.location = MS_STR("job");
        m.has_time = true;
        assert_int_equal(ms_encode(&m, &arena, &alone, NULL), MS_OK);
        ms_result want = ms_size(alone) <= LIMIT ? MS_OK : MS_E_TOO_LARGE;
        ms_result got = ms_append(s.store, no_str(), &m, NULL, &err);
        if (got != want) fail_msg("%zu bytes: %s", len, ms_result_text(got));
        stored += got == MS_OK;
        refused += got != MS_OK;
        ms_arena_deinit(&arena);
    }
    ms_query all = query_of(no_str(), 0);
    assert_int_equal(count_of(s.store, &all), stored);
    assert_true(stored > 0 && refused > 0);
    assert_int_equal(ms_selfcheck(s.store, NULL), MS_OK);
    free(text);
    store_close(&s);
}

static void must_have_text(ms_store *store, uint64_t seq, const char *text, size_t len)
{
    const ms_msg *msg;
    assert_int_equal(ms_get_by_seq(store, seq, NULL, &msg, NULL), MS_OK);
    assert_int_equal(ms_content(msg).text.len, len);
    assert_int_equal(memcmp(ms_content(msg).text.ptr, text, len), 0);
}

/* Larger than a chunk, and around its size. */
TEST_WITH(ON_EVERY_STORE, messages_larger_than_a_chunk_fit)
{
    static const size_t lens[] = {3900,  3960,  4000,    4032,    4040, 4056,
                                  4064,  4096,  4200,    262000,  1,    262140,
                                  262144, 262200, 300000, 1000000, 8,   5000000};
    const store_options options = {.room = (size_t)16 << 20};
    char *text = large_text(5000000);
    test_store s = store_open((store_kind *)*state, &options);
    for (size_t i = 0; i < COUNT(lens); i++) {
        ms_envelope m = ms_user_message(ms_text_n(ms_str_n(text, lens[i])));
        must_append(s.store, MS_STR("job"), &m);
    }
    for (size_t i = 0; i < COUNT(lens); i++) {
        must_have_text(s.store, i + 1, text, lens[i]);
    }
    assert_int_equal(ms_selfcheck(s.store, NULL), MS_OK);
    free(text);
    store_close(&s);
}

TEST(a_message_over_256_mib_is_refused)
{
    size_t len = (size_t)256 << 20;
    if (test_scale() < 100) {
        skip();
    }
    char *text = large_text(len);
    test_store s = store_open(store_kind_at(0), NULL);
    ms_envelope m = ms_user_message(ms_text_n(ms_str_n(text, len)));
    assert_int_equal(ms_append(s.store, MS_STR("job"), &m, NULL, NULL), MS_E_TOO_LARGE);
    m.content = ms_text_n(ms_str_n(text, len - 1024));
    must_have_text(s.store, must_append(s.store, MS_STR("job"), &m), text, len - 1024);
    free(text);
    store_close(&s);
}


/* ---- what a message costs ---- */

/* 100,000 messages whose fields take 700 bytes, over 100 locations with 8 agents each. */
TEST(a_message_costs_at_most_64_bytes_beside_its_fields)
{
    enum { MESSAGES = 100000, FIELDS = 700 };
    static char text[FIELDS];
    test_alloc heap;
    ms_stat stat;
    if (test_scale() < 10) skip(); /* valgrind is slow */
    test_alloc_init(&heap);
    memset(text, 't', sizeof text);
    const store_options options = {.alloc = heap.alloc};
    test_store s = store_open(store_kind_at(0), &options);
    for (unsigned i = 0; i < MESSAGES; i++) {
        char location[16], agent[16];
        int used = snprintf(location, sizeof location, "job_%02u", i % 100);
        used += snprintf(agent, sizeof agent, "worker_%u", i / 100 % 8);
        ms_envelope m = ms_observation(ms_text_n(ms_str_n(text, FIELDS - (size_t)used)),
                                       ms_str_of(NULL));
        m.agent_key = ms_str_of(agent);
        m.has_time = true;
        m.time_ns = SECONDS(i);
        must_append(s.store, ms_str_of(location), &m);
    }
    double beside = (double)heap.live_bytes / MESSAGES - FIELDS;
    printf("heap beside 700 bytes of fields: %.1f bytes a message\n", beside);
    if (beside > 72) fail_msg("%.1f bytes a message", beside);
    assert_int_equal(ms_store_stat(s.store, &stat, NULL), MS_OK);
    assert_int_equal(stat.messages, MESSAGES);
    assert_int_equal(stat.last_seq, MESSAGES);
    assert_true(stat.bytes > (uint64_t)MESSAGES * FIELDS);
    assert_true(stat.index_bytes > 0);
    assert_true(stat.bytes + stat.index_bytes <= heap.live_bytes);
    assert_int_equal(stat.room, 0);
    store_close(&s);
    test_alloc_done(&heap);
}

TEST_WITH(ON_ARENA_STORES, reset_keeps_memory_for_the_next_run)
{
    test_alloc heap;
    size_t calls = 0, live = 0, messages = test_times(20000);
    test_alloc_init(&heap);
    const store_options options = {.alloc = heap.alloc,
                                   .room = messages * 1000 + ((size_t)1 << 20)};
    test_store s = store_open((store_kind *)*state, &options);
    for (int run = 0; run < 4; run++) {
        uint64_t rng = test_seed();
        for (size_t i = 0; i < messages; i++) {
            ms_envelope m = random_message(&rng);
            char key[32];
            snprintf(key, sizeof key, "key-%zu", i);
            if (i % 4 == 0) m.key = ms_str_of(key);
            assert_int_equal(must_append(s.store, no_str(), &m), i + 1);
        }
        if (run != 0) assert_int_equal(heap.calls, calls);
        if (run != 0) assert_int_equal(heap.live_bytes, live);
        calls = heap.calls;
        live = heap.live_bytes;
        assert_int_equal(ms_selfcheck(s.store, NULL), MS_OK);
        assert_int_equal(ms_mem_reset(s.store, NULL), MS_OK);
        ms_query all = query_of(no_str(), 0);
        assert_int_equal(count_of(s.store, &all), 0);
        assert_int_equal(ms_selfcheck(s.store, NULL), MS_OK);
        assert_int_equal(heap.live_bytes, live);
    }
    store_close(&s);
    test_alloc_done(&heap);
}

/* Refused appends, each with names of its own: not a byte more is in use. */
TEST_WITH(ON_ARENA_STORES, refused_appends_do_not_grow_the_heap)
{
    static char text[4000];
    test_alloc heap;
    ms_stat before, after;
    ms_envelope m = ms_observation(ms_text("x"), ms_str_of(NULL));
    test_alloc_init(&heap);
    memset(text, 't', sizeof text);
    const store_options options = {.alloc = heap.alloc, .max_message = 3000};
    test_store s = store_open((store_kind *)*state, &options);
    m.key = MS_STR("key");
    must_append(s.store, MS_STR("job"), &m);
    size_t live = heap.live_bytes;
    assert_int_equal(ms_store_stat(s.store, &before, NULL), MS_OK);
    for (int i = 0; i < 5000; i++) {
        char name[24];
        ms_envelope two[2] = {m, m};
        snprintf(name, sizeof name, "name %d", i);
        two[0].location = two[0].agent_key = two[0].key = ms_str_of(name);
        two[1].location = MS_STR("job");
        two[1].agent_key = ms_str_of(name);
        if (i % 2) two[1] = two[0];
        if (i % 2) two[1].content = ms_text_n(ms_str_n(text, sizeof text));
        assert_int_not_equal(ms_append_batch(s.store, two, 2, NULL, NULL), MS_OK);
    }
    assert_int_equal(heap.live_bytes, live);
    assert_int_equal(ms_store_stat(s.store, &after, NULL), MS_OK);
    assert_memory_equal(&before, &after, sizeof before);
    store_close(&s);
    test_alloc_done(&heap);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
