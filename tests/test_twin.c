/* Random sequences of operations on a store and on its naive twin: after each step both
 * hold the same messages and give the same answers. A failure names the sequence and the
 * step; MS_TEST_SEED repeats it. The stores are all arena stores, logs, which are closed,
 * opened and rewritten between the steps, and the SQLite example.
 */

#define _POSIX_C_SOURCE 200809L

#define MSGSTORE_EXAMPLE_NO_MAIN
#include "../examples/sqlite_store.c"

#include "stores.h"
#include "twin.h"

/* On SQLite a step costs a hundred times more: most sequences are short there. */
enum { SEQUENCES = 10000, LOGS = 1000, STEPS = 40, STEPS_SHORT = 6 };

typedef struct run {
    uint64_t rng;
    test_store s;
    store_options options;
    twin t;
    ms_arena arena;           /* of one step */
    ms_cursor held;           /* a cursor that stays open over several steps */
    ms_arena held_arena;
    ms_query held_query;
    ms_str held_team[TEAM_MAX];
    const twin_msg **held_want;
    size_t held_n, held_at;
} run;

static struct progress {
    size_t sequence;
    int step;
    const char *doing;
    bool done;
} progress;

static int tell_where(void **state)
{
    (void)state;
    if (!progress.done)
        printf("at sequence %zu, step %d: %s\n", progress.sequence, progress.step,
               progress.doing);
    return 0;
}


/* ---- questions ---- */

/* ms_query_match says of each message what the twin says; order and limit aside. */
static void must_match_alike(run *r, const ms_query *q)
{
    for (size_t i = 0; i < r->t.count; i++) {
        const twin_msg *want = r->t.items[i];
        const ms_msg *msg;
        assert_int_equal(ms_get_by_seq(r->s.store, want->seq, &r->arena, &msg, NULL),
                         MS_OK);
        assert_int_equal(ms_query_match(q, msg), twin_match(q, want));
    }
}

static void ask(run *r)
{
    ms_str team[TEAM_MAX];
    uint64_t *rng = &r->rng;
    ms_query q = random_query(rng, twin_last_seq(&r->t), team, &r->arena);
    twin_must_query(&r->t, r->s.store, &q);
    if (test_one_in(rng, 4)) must_match_alike(r, &q);
    if (test_one_in(rng, 4) && r->t.count != 0)
        twin_must_place(&r->t, r->s.store, (size_t)test_below(rng, r->t.count));
    if (!test_one_in(rng, 4)) return;
    const ms_str prefixes[] = {no_str(), MS_STR(""), MS_STR("job"), MS_STR("job_1"),
                               MS_STR("w"), MS_STR("w1"), MS_STR("zzz")};
    ms_list_query list;
    memset(&list, 0, sizeof list);
    list.agents = test_one_in(rng, 2);
    if (list.agents && !test_one_in(rng, 4)) list.location = random_location(rng);
    if (test_one_in(rng, 2)) list.prefix = random_of(rng, prefixes, 7);
    if (test_one_in(rng, 3)) list.limit = (size_t)test_below(rng, 4);
    twin_must_list(&r->t, r->s.store, &list);
}


/* ---- a cursor held over other steps sees the store as of its opening ---- */

static void held_close(run *r)
{
    if (r->held_want == NULL) return;
    progress.doing = "draining a held cursor";
    twin_must_read(r->held_want + r->held_at, r->held_n - r->held_at, &r->held, "held");
    free(r->held_want);
    r->held_want = NULL;
    ms_arena_reset(&r->held_arena);
}

static void held_open(run *r)
{
    held_close(r);
    r->held_query =
        random_query(&r->rng, twin_last_seq(&r->t), r->held_team, &r->held_arena);
    size_t room = (r->t.count + 1) * sizeof r->held_want[0];
    r->held_want = (const twin_msg **)twin_memory(NULL, room);
    r->held_n = twin_query(&r->t, &r->held_query, r->held_want);
    r->held_at = 0;
    assert_int_equal(ms_query_open(r->s.store, &r->held_query, &r->held, NULL), MS_OK);
}

static void held_next(run *r)
{
    if (r->held_want == NULL || r->held_at == r->held_n) return;
    const ms_msg *msg = ms_next(&r->held);
    assert_non_null(msg);
    twin_must_match(r->held_want[r->held_at++], msg, "held");
}


/* ---- steps ---- */

static void random_key(run *r, ms_envelope *m)
{
    const ms_str keys[] = {MS_STR("k1"), MS_STR("k2"), MS_STR("k"), MS_STR("call-77")};
    m->key = random_of(&r->rng, keys, 4);
}

static void append(run *r, const ms_envelope *messages, size_t n, ms_append_opts *opts)
{
    twin_append_both(&r->t, r->s.store, messages, n, opts, r->s.kind->fixed);
}

static void step_append(run *r)
{
    ms_envelope m = random_message(&r->rng);
    ms_append_opts opts;
    memset(&opts, 0, sizeof opts);
    if (test_one_in(&r->rng, 2)) opts.location = random_location(&r->rng);
    if (test_one_in(&r->rng, 8)) random_key(r, &m);
    append(r, &m, 1, &opts);
}

static void step_batch(run *r)
{
    ms_envelope batch[24];
    ms_append_opts opts;
    size_t n = (size_t)test_below(&r->rng, test_one_in(&r->rng, 6) ? 25 : 9);
    memset(&opts, 0, sizeof opts);
    if (test_one_in(&r->rng, 2)) opts.location = random_location(&r->rng);
    for (size_t i = 0; i < n; i++) {
        batch[i] = random_message(&r->rng);
        if (test_one_in(&r->rng, 12)) random_key(r, &batch[i]);
        if (i != 0 && test_one_in(&r->rng, 12)) batch[i] = batch[i - 1];
    }
    append(r, batch, n, &opts);
}

/* Sends a message with a key once more: as it was, or changed in one thing. */
static void step_repeat(run *r)
{
    size_t from = (size_t)test_below(&r->rng, r->t.count);
    for (size_t i = 0; i < r->t.count; i++) {
        const twin_msg *old = r->t.items[(from + i) % r->t.count];
        if (old->field[MS_F_KEY].text.ptr == NULL) continue;
        ms_envelope m = twin_envelope(old);
        ms_append_opts opts;
        memset(&opts, 0, sizeof opts);
        m.has_time = test_one_in(&r->rng, 2);
        m.time = m.has_time ? random_time(&r->rng) : 0;
        if (test_one_in(&r->rng, 4)) m.turn_id = random_turn(&r->rng);
        if (test_one_in(&r->rng, 4)) m.summary = random_text(&r->rng);
        if (test_one_in(&r->rng, 4)) opts.location = random_location(&r->rng);
        append(r, &m, 1, &opts);
        return;
    }
}

static void step_expect(run *r)
{
    ms_envelope batch[3];
    ms_append_opts opts;
    size_t n = 1 + (size_t)test_below(&r->rng, 3);
    memset(&opts, 0, sizeof opts);
    opts.location = random_location(&r->rng);
    opts.expect = true;
    opts.expect_seq = twin_last_of(&r->t, opts.location);
    if (test_one_in(&r->rng, 2))
        opts.expect_seq = test_below(&r->rng, twin_last_seq(&r->t) + 3);
    for (size_t i = 0; i < n; i++) batch[i] = random_message(&r->rng);
    append(r, batch, n, &opts);
}

static void step_keep_seq(run *r)
{
    ms_envelope batch[3];
    ms_append_opts opts;
    uint64_t seq = r->t.given;
    size_t n = 1 + (size_t)test_below(&r->rng, 3);
    memset(&opts, 0, sizeof opts);
    opts.keep_seq = true;
    for (size_t i = 0; i < n; i++) {
        seq += test_below(&r->rng, test_one_in(&r->rng, 10) ? 1 : 5) + 1;
        batch[i] = random_message(&r->rng);
        batch[i].seq = seq;
    }
    if (test_one_in(&r->rng, 4)) batch[n - 1].seq = test_below(&r->rng, seq + 1);
    append(r, batch, n, &opts);
}

/* A batch in which one message is not sound leaves nothing behind. */
static void step_bad(run *r)
{
    ms_envelope batch[4];
    ms_append_opts opts;
    ms_error err;
    size_t n = 1 + (size_t)test_below(&r->rng, 4), bad = (size_t)test_below(&r->rng, n);
    char path[32];
    memset(&opts, 0, sizeof opts);
    for (size_t i = 0; i < n; i++) batch[i] = random_message(&r->rng);
    switch (test_below(&r->rng, 5)) {
    case 0: batch[bad].type = (ms_type)(MS_TYPE_COUNT + 3); break;
    case 1:
        batch[bad].has_time = true;
        batch[bad].time = (double)NAN;
        break;
    case 2: batch[bad].agent_key = MS_STR("a\0b"); break;
    case 3: batch[bad].extra = MS_STR("{\"a\":}"); break;
    default: batch[bad].location = no_str(); break;
    }
    assert_int_not_equal(ms_append_batch(r->s.store, batch, n, &opts, &err), MS_OK);
    snprintf(path, sizeof path, "messages[%zu]", bad);
    assert_memory_equal(err.path, path, strlen(path));
}

static void replace_store(run *r, test_store s)
{
    held_close(r);
    store_close(&r->s);
    r->s = s;
}

/* Copies the image to another buffer and goes on there. */
static void step_image(run *r)
{
    if (!r->s.kind->fixed) return;
    ms_str image = ms_mem_image(r->s.store);
    ms_mem_desc desc = store_desc(&r->options);
    test_store moved = r->s;
    uint64_t damaged = 7;
    ms_error err;
    assert_ptr_equal(image.ptr, r->s.buffer);
    if (test_one_in(&r->rng, 4)) moved.size += 8 * (size_t)test_below(&r->rng, 1000);
    moved.store = NULL;
    moved.buffer = twin_memory(NULL, moved.size);
    memset(moved.buffer, 0x5a, moved.size);
    memcpy(moved.buffer, image.ptr, image.len);
    desc.buffer = moved.buffer;
    desc.buffer_size = moved.size;
    desc.salvage = test_one_in(&r->rng, 2);
    if (ms_mem_attach(&moved.store, &desc, &damaged, &err) != MS_OK)
        fail_msg("attach: %s", err.message);
    assert_int_equal(damaged, 0);
    replace_store(r, moved);
}

static void random_keep(run *r, ms_keep *keep, ms_str names[2])
{
    memset(keep, 0, sizeof *keep);
    if (test_one_in(&r->rng, 3)) keep->newest = 1 + (size_t)test_below(&r->rng, 5);
    keep->has_since = keep->newest == 0 && test_one_in(&r->rng, 3);
    if (keep->has_since) keep->since = random_time(&r->rng);
    names[0] = random_location(&r->rng);
    names[1] = random_location(&r->rng);
    keep->locations = names;
    if (test_one_in(&r->rng, 4)) keep->n_locations = 1 + (size_t)test_below(&r->rng, 2);
}

/* Copies into a second store and, now and then, goes on with that. */
static void step_copy(run *r)
{
    store_options options = r->options;
    ms_copy_report got, want;
    ms_keep keep;
    ms_str names[2];
    ms_error err;
    twin second;
    options.room = 0;
    bool to_log = r->s.kind->log || test_one_in(&r->rng, 8);
    size_t kind = (size_t)test_below(&r->rng, to_log ? STORE_KINDS : ARENA_KINDS);
    test_store s = store_open(store_kind_at(kind), &options);
    twin_init(&second);
    second.keep_unset_times = r->t.keep_unset_times;
    second.no_commit = false;
    random_keep(r, &keep, names);
    keep.dry_run = test_one_in(&r->rng, 5);
    want = twin_copy(&second, &r->t, &keep);
    if (ms_copy(s.store, r->s.store, &keep, NULL, &got, &err) != MS_OK)
        fail_msg("copy: %s", err.message);
    assert_int_equal(got.copied, want.copied);
    assert_int_equal(got.dropped, want.dropped);
    assert_int_equal(got.bytes, want.bytes);
    assert_int_equal(got.damaged, 0);
    twin_must_equal(&second, s.store);
    if (test_one_in(&r->rng, 2)) {
        replace_store(r, s);
        second.now = r->t.now;
        twin_deinit(&r->t);
        r->t = second;
    } else {
        store_close(&s);
        twin_deinit(&second);
    }
}

static void step_reset(run *r)
{
    if (!r->s.kind->arena) return;
    held_close(r);
    assert_int_equal(ms_mem_reset(r->s.store, NULL), MS_OK);
    twin_reset(&r->t);
}

/* Closes the log and opens it again. */
static void step_reopen(run *r)
{
    if (!r->s.kind->log) return;
    held_close(r);
    store_reopen(&r->s);
}

/* Puts a copy of the log in its own place; the handle goes on with the old file until it
 * is closed. */
static void step_rewrite(run *r)
{
    ms_copy_report got, want;
    ms_keep keep;
    ms_str names[2];
    ms_error err;
    twin second;
    if (!r->s.kind->log) return;
    held_close(r);
    twin_init(&second);
    second.keep_unset_times = r->t.keep_unset_times;
    second.now = r->t.now;
    random_keep(r, &keep, names);
    keep.dry_run = test_one_in(&r->rng, 5);
    want = twin_copy(&second, &r->t, &keep);
    if (ms_log_rewrite(r->s.store, &r->s.log, true, &keep, &got, &err) != MS_OK)
        fail_msg("rewrite: %s", err.message);
    assert_memory_equal(&got, &want, sizeof got);
    twin_must_equal(&r->t, r->s.store);
    if (!keep.dry_run) {
        twin old = r->t;
        r->t = second;
        second = old;
    }
    twin_deinit(&second);
    store_reopen(&r->s);
}

/* A second handle on the same file sees the same. */
static void step_beside(run *r)
{
    test_store mine = r->s, other = r->s;
    ms_error err;
    if (!r->s.kind->log) return;
    other.log.mode = MS_LOG_READ;
    if (ms_log_open(&other.store, &other.log, &err) != MS_OK)
        fail_msg("for reading: %s", err.message);
    twin_must_equal(&r->t, other.store);
    r->s = other;
    ask(r);
    r->s = mine;
    ms_close(other.store);
}

/* None of these changes what a store holds. */
static void step_housekeeping(run *r)
{
    uint64_t seq = 1, last = twin_last_seq(&r->t);
    uint32_t budget = (uint32_t)test_below(&r->rng, 200);
    assert_int_equal(ms_tick(r->s.store, budget, NULL), MS_OK);
    assert_int_equal(ms_refresh(r->s.store, &seq, NULL), MS_OK);
    assert_int_equal(seq, last);
    assert_int_equal(ms_wait(r->s.store, last, 0, &seq, NULL), MS_OK);
    assert_int_equal(seq, last);
    assert_int_equal(ms_sync(r->s.store, &seq, NULL), MS_OK);
    assert_int_equal(seq, r->s.kind->log ? last : 0);
}

static void step_clock(run *r)
{
    r->t.now = random_time(&r->rng);
}

static const struct step {
    const char *name;
    unsigned weight;
    void (*take)(run *r);
} steps[] = {
    {"append", 30, step_append},      {"batch", 14, step_batch},
    {"repeat a key", 8, step_repeat}, {"expect a sequence", 7, step_expect},
    {"keep sequence", 3, step_keep_seq}, {"a bad batch", 5, step_bad},
    {"move the image", 3, step_image}, {"copy", 2, step_copy},
    {"reset", 1, step_reset},         {"set the clock", 7, step_clock},
    {"open again", 4, step_reopen},   {"rewrite", 2, step_rewrite},
    {"a second handle", 2, step_beside}, {"housekeeping", 2, step_housekeeping},
    {"hold a cursor", 5, held_open},  {"move the held cursor", 10, held_next},
    {"drain the held cursor", 3, held_close},
};

static const struct step *random_step(uint64_t *rng)
{
    unsigned all = 0;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) all += steps[i].weight;
    unsigned pick = (unsigned)test_below(rng, all);
    size_t at = 0;
    while (pick >= steps[at].weight) pick -= steps[at++].weight;
    return &steps[at];
}

static ms_result open_sqlite(test_store *s, const store_options *options, ms_error *err)
{
    (void)options;
    return sqlite_store_open(&s->store, ":memory:", err);
}

static store_kind sqlite_kind = {"sqlite", false, false, false, open_sqlite};

/* The SQLite example stamps no times and sets no flags. */
static void one_sequence(const store_kind *kind, uint64_t seed, int length)
{
    static const size_t rooms[] = {MS_MEM_MIN, 4096, 20000, 65536, 300000};
    run r;
    memset(&r, 0, sizeof r);
    r.rng = seed;
    twin_init(&r.t);
    r.options.keep_unset_times = kind == &sqlite_kind || test_one_in(&r.rng, 2);
    r.t.no_commit = kind == &sqlite_kind;
    r.options.room = rooms[test_below(&r.rng, 5)] + 8 * (size_t)test_below(&r.rng, 64);
    r.options.clock = clock_at(&r.t.now);
    r.t.keep_unset_times = r.options.keep_unset_times;
    r.s = store_open(kind, &r.options);
    ms_arena_init(&r.arena, NULL);
    ms_arena_init(&r.held_arena, NULL);
    for (progress.step = 0; progress.step < length; progress.step++) {
        const struct step *step = random_step(&r.rng);
        progress.doing = step->name;
        step->take(&r);
        progress.doing = step->name;
        twin_must_equal(&r.t, r.s.store);
        ask(&r);
        ms_arena_reset(&r.arena);
    }
    held_close(&r);
    ms_arena_deinit(&r.arena);
    ms_arena_deinit(&r.held_arena);
    store_close(&r.s);
    twin_deinit(&r.t);
}

static void arena_stores_and_twin_agree(void **state)
{
    size_t times = test_times(SEQUENCES);
    uint64_t seed = test_seed();
    (void)state;
    progress.done = false;
    for (size_t i = 0; i < times; i++) {
        progress.sequence = i;
        one_sequence(store_kind_at(i % ARENA_KINDS), seed + i, STEPS);
    }
    progress.done = true;
}

static void logs_and_twin_agree(void **state)
{
    size_t times = test_times(LOGS);
    uint64_t seed = test_seed();
    (void)state;
    progress.done = false;
    for (size_t i = 0; i < times; i++) {
        progress.sequence = i;
        one_sequence(store_kind_at(ARENA_KINDS + i % LOG_KINDS), seed + i, STEPS);
    }
    progress.done = true;
}

static void sqlite_and_twin_agree(void **state)
{
    size_t times = test_times(SEQUENCES);
    uint64_t seed = test_seed();
    (void)state;
    progress.done = false;
    for (size_t i = 0; i < times; i++) {
        progress.sequence = i;
        one_sequence(&sqlite_kind, seed + i, i % 20 ? STEPS_SHORT : STEPS);
    }
    progress.done = true;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(arena_stores_and_twin_agree, tell_where),
        cmocka_unit_test_teardown(logs_and_twin_agree, tell_where),
        cmocka_unit_test_teardown(sqlite_and_twin_agree, tell_where),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
