/* Random sequences of operations on a store and on its naive twin: after each step both
 * hold the same messages and give the same answers. A failure names the sequence and the
 * step; MS_TEST_SEED repeats it. The stores are all arena stores, logs, which are closed,
 * opened and rewritten between the steps, and the SQLite example, which has no changes
 * and returns a code. Unions of stores: test_union.
 */

#define _POSIX_C_SOURCE 200809L

#include "sqlite_kind.h"
#include "twin_steps.h"

/* On SQLite a step costs a hundred times more: most sequences are short there, and below
 * MS_TEST_SCALE=1000 there are a third as many. On arena stores three of four have half as
 * many steps then. Two handles that take turns need more of them for a summary. */
enum { SEQUENCES = 10000, LOGS = 1000, STEPS = 40, STEPS_HALF = 18, STEPS_SHORT = 6,
       STEPS_LONG = 600, STEPS_TWO = 900 };

static size_t in_segments, with_summaries; /* long sequences */

/* The other one goes on; it takes in what this one has done. */
static void other_writes(run *r)
{
    ms_store *mine = r->s.store;
    ms_error err;
    if (!r->s.log.shared || r->s.kind->arena) return;
    if (r->other == NULL) {
        ms_log_desc desc = r->s.log;
        desc.mode = MS_LOG_WRITE;
        must_ok(ms_log_open(&r->other, &desc, &err), &err, "a second writer");
    }
    r->s.store = r->other;
    r->other = mine;
}

/* A store without `change` returns a code and does nothing. */
static void must_not_change(run *r)
{
    ms_store *store = r->s.store;
    ms_envelope m = message_of(MS_T_USER_MESSAGE, MS_STR("x"));
    uint64_t seq = random_target(r);
    ms_str facts, place = MS_STR("job_1");
    ms_stream s;
    ms_cursor it;
    ms_query raw = query_of(no_str(), 0);
    raw.raw = MS_RAW_ALL;
    const ms_result results[] = {
        ms_amend(store, seq, &m, NULL),
        ms_hide(store, seq, NULL),
        ms_hide_range(store, place, 1, 9, NULL, NULL),
        ms_rewind(store, place, 0, NULL, NULL),
        ms_redact(store, seq, NULL),
        ms_note(store, seq, MS_STR("k"), ms_text("x"), NULL),
        ms_location_set(store, place, MS_STR("{\"a\":1}"), NULL),
        ms_location_get(store, place, &r->arena, &facts, NULL),
        ms_fork(store, place, 0, MS_STR("new"), NULL, NULL),
        ms_stream_begin(&s, store, place, &m, NULL, NULL),
        ms_query_open(store, &raw, &it, NULL),
    };
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
        if (results[i] != MS_E_UNSUPPORTED)
            fail_msg("change %zu: %s", i, ms_result_text(results[i]));
}

/* The file of a log is whole. */
static void must_verify(run *r)
{
    ms_log_report report;
    ms_error err;
    must_ok(ms_log_verify(&r->s.log, &report, &err), &err, "verify");
    assert_int_equal(report.messages, r->t.count);
    assert_int_equal(report.last_seq, twin_last_seq(&r->t));
    assert_int_equal(report.damaged + report.damaged_bytes + report.index_damaged, 0);
    assert_int_equal(report.torn_bytes, 0);
    assert_int_equal(report.end, end_of(r));
    assert_true(report.bytes <= log_info_of(r->s.store).size);
    if (r->s.log.segment_size != 0 && r->t.count > 100)
        assert_true(report.index_records > 5);
}

static void one_sequence(const store_kind *kind, uint64_t seed, int length)
{
    run r;
    run_open(&r, kind, seed);
    for (progress.step = 0; progress.step < length; progress.step++) {
        if (test_one_in(&r.rng, 2)) other_writes(&r);
        const struct step *step = random_step(&r);
        while (length >= STEPS_LONG && makes_anew(step)) step = random_step(&r);
        take_step(&r, step);
        check(&r);
        if (!r.t.raw && test_one_in(&r.rng, 8)) must_not_change(&r);
        ms_arena_reset(&r.arena);
    }
    held_close(&r);
    twin_must_equal(&r.t, r.s.store);
    if (r.s.kind->log) must_verify(&r);
    if (length >= STEPS_LONG && r.s.log.segment_size != 0) {
        in_segments++;
        with_summaries += log_info_of(r.s.store).summaries > 0;
    }
    run_close(&r);
}

/* Sequence i of a test: on which kind of store, and how many steps. */
typedef struct plan {
    size_t sequences;
    const store_kind *kind;   /* NULL: of store_kinds, `kinds` from `first` on in turn */
    size_t first, kinds;
} plan;

static plan plans[] = {
    {SEQUENCES, NULL, 0, ARENA_KINDS},
    {LOGS, NULL, ARENA_KINDS, LOG_KINDS},
    {LOGS / 3, SHARED_LOG, 0, 1}, /* two handles, turn by turn */
    {SEQUENCES, &sqlite_kind, 0, 1},
#ifdef TEST_POSTGRES
    {SEQUENCES, &postgres_kind, 0, 1},
#endif
};

static int steps_of(const plan *p, size_t i)
{
    if (p->kind == &sqlite_kind) return i % 100 ? STEPS_SHORT : STEPS;
    if (p->kind == SHARED_LOG) return i % 50 < 2 ? STEPS_TWO : STEPS;
    if (p->kind != NULL) return i % 50 ? STEPS_SHORT : STEPS;
    if (p->first == ARENA_KINDS) return i % 100 < LOG_KINDS ? STEPS_LONG : STEPS;
    return i / ARENA_KINDS % 4 && test_scale() < 1000 ? STEPS_HALF : STEPS;
}

static void store_and_twin_agree(void **state)
{
    const plan *p = (const plan *)*state;
    size_t times = test_times(p->sequences);
    uint64_t seed = test_seed() + (p->kind == SHARED_LOG ? 99 : 0);
    if (p->kind == &sqlite_kind && test_scale() < 1000) times = (times + 2) / 3;
    progress.done = false;
    for (size_t i = 0; i < times; i++) {
        const store_kind *kind = p->kind;
        if (kind == NULL) kind = store_kind_at(p->first + i % p->kinds);
        progress.sequence = i;
        one_sequence(kind, seed + i, steps_of(p, i));
    }
    progress.done = true;
    if (in_segments >= 4)
        assert_true(with_summaries > in_segments / 2);
    in_segments = with_summaries = 0;
    test_tally("histories compared with the twin", times);
}

/* One plan a test, named after its stores. */
static void add_plan(size_t i, const char *name)
{
    const struct CMUnitTest one = {name, store_and_twin_agree, NULL, tell_where, &plans[i]};
    add_tests(&one, 1);
}

int main(void)
{
#ifdef TEST_POSTGRES
    add_plan(4, "postgres_and_twin_agree");
#else
    add_plan(0, "arena_stores_and_twin_agree");
    add_plan(1, "logs_and_twin_agree");
    add_plan(2, "shared_logs_and_twin_agree");
    add_plan(3, "sqlite_and_twin_agree");
#endif
    return run_all_tests(NULL, NULL);
}
