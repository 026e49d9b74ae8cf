/* Memory that runs out: a script of the public operations is run once for each allocation
 * in it, and that allocation fails, alone or with all after it. What failed must say so,
 * leave the store as before and nothing behind, and work when memory is there again.
 */

#define _POSIX_C_SOURCE 200809L
#include "stores.h"
#include "twin.h"

enum { APPENDS = 160, LONG = 12000 };

typedef struct script {
    test_alloc heap;
    ms_store *store;
    ms_store *second;         /* copies, and what an agent adds while it runs */
    twin t, t2;
    size_t chunk_size;
    int repeat;               /* number of the append that runs */
} script;

static ms_arena arena_over(script *s)
{
    ms_arena arena;
    test_arena_init(&arena, &s->heap.alloc);
    return arena;
}

static ms_mem_desc desc_of(script *s)
{
    ms_mem_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.alloc = s->heap.alloc;
    desc.chunk_size = s->chunk_size;
    desc.keep_unset_times = true;
    desc.entropy = constant_entropy();
    return desc;
}


/* ---- the operations; each gives the result and keeps the twin up to date ---- */

static ms_result open_store(script *s)
{
    ms_mem_desc desc = desc_of(s);
    ms_error err;
    memset(&err, 0, sizeof err);
    ms_result result = ms_mem_open(&s->store, &desc, &err);
    if (result != MS_OK) assert_null(s->store);
    if (result != MS_OK) assert_int_equal(err.code, result);
    return result;
}

static ms_result open_second(script *s)
{
    ms_mem_desc desc = desc_of(s);
    return ms_mem_open(&s->second, &desc, NULL);
}

static ms_result append(script *s, const ms_envelope *messages, size_t n)
{
    ms_append_opts opts;
    uint64_t seqs[12];
    memset(&opts, 0, sizeof opts);
    opts.seqs = seqs;
    assert_int_equal(twin_expect(&s->t, messages, n, &opts), MS_OK);
    ms_result result = ms_append_batch(s->store, messages, n, &opts, NULL);
    if (result == MS_OK) twin_add(&s->t, messages, n, &opts, seqs);
    return result;
}

/* A message of its own location, agent, turn and key now and then: everything that a
 * store looks up grows. */
static ms_result append_one(script *s)
{
    static char page[LONG];
    uint64_t rng = (uint64_t)s->repeat;
    char location[16], agent[16], key[16];
    ms_envelope m = random_message(&rng);
    snprintf(location, sizeof location, "job_%d", s->repeat % 50);
    snprintf(agent, sizeof agent, "agent_%d", s->repeat % 70);
    snprintf(key, sizeof key, "key_%d", s->repeat);
    m.location = ms_str_of(location);
    m.agent_key = ms_str_of(agent);
    if (s->repeat % 2) m.key = ms_str_of(key);
    memset(page, 'p', sizeof page);
    if (s->repeat % 20 == 7) m.summary = ms_str_n(page, sizeof page);
    return append(s, &m, 1);
}

/* Five messages, or twelve. */
static ms_result append_batch(script *s)
{
    uint64_t rng = (uint64_t)s->repeat + 1000;
    ms_envelope batch[12];
    char names[12][24];
    size_t n = s->repeat % 4 == 3 ? 12 : 5;
    for (size_t i = 0; i < n; i++) {
        batch[i] = random_message(&rng);
        snprintf(names[i], sizeof names[i], "batch_%d_%zu", s->repeat, i);
        batch[i].location = ms_str_of(names[i]);
        batch[i].key = ms_str_of(names[i]);
    }
    return append(s, batch, n);
}

static ms_result query(script *s, const ms_query *q)
{
    const twin_msg **want =
        (const twin_msg **)twin_memory(NULL, (s->t.count + 1) * sizeof want[0]);
    size_t n = twin_query(&s->t, q, want);
    ms_cursor it;
    ms_result result = ms_query_open(s->store, q, &it, NULL);
    if (result == MS_OK) twin_must_read(want, n, &it, "query");
    else assert_null(ms_next(&it));
    ms_cursor_close(&it, NULL);
    free(want);
    return result;
}

static ms_result query_by_time(script *s)
{
    ms_arena arena = arena_over(s);
    ms_query q = query_of(no_str(), MS_VIEW_TIMELINE);
    q.by_time = true;
    q.arena = &arena;
    ms_result result = query(s, &q);
    ms_arena_deinit(&arena);
    return result;
}

static ms_result query_many_agents(script *s)
{
    static char names[60][16];
    ms_str team[60];
    ms_arena arena = arena_over(s);
    ms_query q = query_of(MS_STR("job_7"), MS_VIEW_TEAM);
    for (size_t i = 0; i < 60; i++) {
        snprintf(names[i], sizeof names[i], "agent_%zu", i);
        team[i] = ms_str_of(names[i]);
    }
    q.agent_keys = team;
    q.n_agent_keys = 60;
    q.arena = &arena;
    ms_result result = query(s, &q);
    ms_arena_deinit(&arena);
    return result;
}

static ms_result list(script *s)
{
    ms_arena arena = arena_over(s);
    ms_list_query q;
    ms_listing got;
    ms_info want[APPENDS * 2];
    memset(&q, 0, sizeof q);
    q.agents = s->repeat % 2 == 1;
    size_t n = twin_list(&s->t, &q, want);
    ms_result result = ms_list(s->store, &q, &arena, &got, NULL);
    if (result == MS_OK) assert_int_equal(got.count, n);
    if (result != MS_OK) assert_int_equal(got.count, 0);
    ms_arena_deinit(&arena);
    return result;
}

/* What was copied before memory ran out may stay; it is forgotten before the next try. */
static ms_result copy(script *s)
{
    ms_arena arena = arena_over(s);
    ms_keep keep;
    ms_copy_report report;
    memset(&keep, 0, sizeof keep);
    keep.newest = s->repeat % 2 ? 2 : 0;
    assert_int_equal(ms_mem_reset(s->second, NULL), MS_OK);
    twin_reset(&s->t2);
    ms_result result = ms_copy(s->second, s->store, &keep, &arena, &report, NULL);
    ms_arena_deinit(&arena);
    if (result == MS_OK) {
        twin_copy(&s->t2, &s->t, &keep);
        twin_must_equal(&s->t2, s->second);
    } else {
        assert_int_equal(ms_selfcheck(s->second, NULL), MS_OK);
        assert_int_equal(ms_mem_reset(s->second, NULL), MS_OK);
        twin_reset(&s->t2);
    }
    return result;
}

static ms_result encode(script *s)
{
    ms_arena arena = arena_over(s);
    uint64_t rng = 7;
    ms_envelope m = random_message(&rng);
    const ms_msg *msg;
    ms_result result = ms_encode(&m, &arena, &msg, NULL);
    if (result == MS_OK) assert_int_equal(ms_type_of(msg), m.type);
    ms_arena_deinit(&arena);
    return result;
}

static ms_result copy_envelope(script *s)
{
    ms_arena arena = arena_over(s);
    uint64_t rng = 8;
    ms_envelope m = random_message(&rng), out;
    ms_result result = ms_envelope_copy(&m, &arena, &out);
    if (result == MS_OK) assert_int_equal(out.type, m.type);
    ms_arena_deinit(&arena);
    return result;
}

static ms_result decode_string(script *s)
{
    ms_arena arena = arena_over(s);
    ms_str out;
    ms_result result = ms_json_string(MS_STR("\"a\\u00e9\\n\""), &arena, &out);
    if (result == MS_OK) assert_true(ms_str_equal(out, MS_STR("a\xc3\xa9\n")));
    ms_arena_deinit(&arena);
    return result;
}

static ms_result write_text(script *s)
{
    ms_arena arena = arena_over(s);
    ms_buf buf;
    ms_result result = MS_OK;
    memset(&buf, 0, sizeof buf);
    buf.arena = &arena;
    for (int i = 0; i < 200 && result == MS_OK; i++)
        result = ms_buf_write(&buf, "0123456789012345678901234567890123456789", 40);
    if (result == MS_OK) assert_int_equal(ms_buf_text(&buf).len, 8000);
    ms_arena_deinit(&arena);
    return result;
}

static ms_result history(script *s)
{
    ms_arena arena = arena_over(s);
    ms_str team[] = {MS_STR("agent_1"), MS_STR("agent_2")};
    ms_memory memory;
    ms_cursor it;
    ms_memory_init(&memory, s->store, MS_STR("job_1"), MS_STR("agent_1"));
    memory.subordinates = team;
    memory.n_subordinates = 2;
    memory.by_time = true;
    memory.timeline = s->repeat % 2 == 1;
    memory.arena = &arena;
    ms_result result = ms_get_history(&memory, &it, NULL);
    while (ms_next(&it) != NULL) {}
    ms_result closed = ms_cursor_close(&it, NULL);
    ms_arena_deinit(&arena);
    return result != MS_OK ? result : closed;
}

/* Kept beside the store, then read with it. */
static ms_result add_to_memory(script *s)
{
    ms_memory memory;
    uint64_t rng = 9;
    ms_envelope m = random_message(&rng);
    ms_memory_init(&memory, s->store, MS_STR("job_1"), MS_STR("agent_1"));
    memory.runtime_mode = MS_RUNTIME_MERGE;
    memory.runtime = s->second;
    return ms_memory_add(&memory, &m, NULL, NULL);
}

static ms_result reset(script *s)
{
    twin_reset(&s->t);
    return ms_mem_reset(s->store, NULL);
}

static ms_result get_and_stat(script *s)
{
    const ms_msg *msg;
    ms_stat stat;
    ms_result result = ms_get_by_seq(s->store, 1, NULL, &msg, NULL);
    return result != MS_OK ? result : ms_store_stat(s->store, &stat, NULL);
}

static const struct operation {
    const char *name;
    int times;
    ms_result (*run)(script *s);
} operations[] = {
    {"open", 1, open_store},
    {"open a second", 1, open_second},
    {"append", APPENDS, append_one},
    {"append a batch", 20, append_batch},
    {"query by time", 1, query_by_time},
    {"query many agents", 1, query_many_agents},
    {"list", 2, list},
    {"copy", 2, copy},
    {"encode", 1, encode},
    {"copy an envelope", 1, copy_envelope},
    {"decode a string", 1, decode_string},
    {"write a text", 1, write_text},
    {"history", 2, history},
    {"add to memory", 1, add_to_memory},
    {"get and stat", 1, get_and_stat},
    {"reset", 1, reset},
    {"append after reset", APPENDS, append_one},
};

/* An operation that fails for memory is as if it had not been; then it works. */
static void run_operation(script *s, const struct operation *op, size_t k)
{
    size_t failed = s->heap.failed;
    ms_result result = op->run(s);
    if (result == MS_OK) return;
    if (result != MS_E_NO_MEMORY && result != MS_E_ARENA)
        fail_msg("%s, allocation %zu: %s", op->name, k, ms_result_text(result));
    if (s->heap.failed == failed)
        fail_msg("%s, allocation %zu: none failed", op->name, k);
    s->heap.fail_at = 0;
    if (s->store != NULL) twin_must_equal(&s->t, s->store);
    result = op->run(s);
    if (result != MS_OK)
        fail_msg("%s, after allocation %zu: %s", op->name, k, ms_result_text(result));
    twin_must_equal(&s->t, s->store);
}

/* True when the script has fewer than k allocations. */
static bool run_script(size_t k, bool from, size_t chunk_size)
{
    script s;
    memset(&s, 0, sizeof s);
    test_alloc_init(&s.heap);
    s.heap.fail_at = k;
    s.heap.fail_from = from;
    s.chunk_size = chunk_size;
    twin_init(&s.t);
    twin_init(&s.t2);
    s.t.keep_unset_times = s.t2.keep_unset_times = true;
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++)
        for (s.repeat = 0; s.repeat < operations[i].times; s.repeat++)
            run_operation(&s, &operations[i], k);
    s.heap.fail_at = 0;
    twin_must_equal(&s.t, s.store);
    ms_close(s.store);
    ms_close(s.second);
    test_alloc_done(&s.heap);
    twin_deinit(&s.t);
    twin_deinit(&s.t2);
    return s.heap.failed == 0;
}

/* One allocation in `stride` is tried when not all of the loop is to run; few with a
 * sanitizer, under which a script is slow. */
static void fail_each(bool from, size_t chunk_size)
{
    size_t stride = test_scale() < 100 ? 300 / test_scale() : 1;
    size_t k = 1 + (size_t)(test_seed() % stride), tried = 0;
    for (; !run_script(k, from, chunk_size); k += stride) tried++;
    assert_true(tried > 0);
    printf("the last allocation was number %zu\n", k - stride);
    test_tally("fault points (allocations)", tried);
}

static void each_allocation_fails_once(void **state)
{
    (void)state;
    fail_each(false, 4096);
    fail_each(false, 0);
}

static void each_allocation_fails_with_all_after_it(void **state)
{
    (void)state;
    fail_each(true, 4096);
    fail_each(true, 0);
}

/* A limit on the bytes in use: appends go on until it is reached, and after a reset. */
static void a_store_under_a_limit_of_memory_stays_whole(void **state)
{
    (void)state;
    for (size_t limit = 16384; limit < 400000; limit += 30001) {
        uint64_t rng = test_seed() + limit;
        script s;
        memset(&s, 0, sizeof s);
        test_alloc_init(&s.heap);
        s.heap.limit_bytes = limit;
        s.chunk_size = 4096;
        s.t.keep_unset_times = true;
        if (open_store(&s) != MS_OK) continue;
        for (int round = 0; round < 3; round++) {
            size_t refused = 0;
            while (refused < 50) {
                ms_envelope m = random_message(&rng);
                ms_result result = append(&s, &m, 1);
                if (result != MS_OK) assert_int_equal(result, MS_E_NO_MEMORY);
                refused += result != MS_OK;
            }
            twin_must_equal(&s.t, s.store);
            assert_true(s.heap.live_bytes <= limit);
            reset(&s);
        }
        ms_close(s.store);
        test_alloc_done(&s.heap);
        twin_deinit(&s.t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_allocation_fails_once),
        cmocka_unit_test(each_allocation_fails_with_all_after_it),
        cmocka_unit_test(a_store_under_a_limit_of_memory_stays_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
