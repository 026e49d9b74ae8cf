/* Random sequences of operations on a store and on its naive twin: after each step both
 * hold the same messages and give the same answers. A failure names the sequence and the
 * step; MS_TEST_SEED repeats it. The stores are all arena stores, logs, which are closed,
 * opened and rewritten between the steps, and the SQLite example.
 *
 * In three of four sequences about a third of the steps change what is there: amend,
 * hide, rewind, redact, note, set facts, fork, write by and by. SQLite has no changes
 * and returns a code. What is refused is in tests/scripts.
 */

#define _POSIX_C_SOURCE 200809L

#define MSGSTORE_EXAMPLE_NO_MAIN
#include "../examples/sqlite_store.c"

#include "stores.h"
#include "twin.h"

/* On SQLite a step costs a hundred times more: most sequences are short there, and below
 * MS_TEST_SCALE=1000 there are a third as many. On arena stores three of four have half as
 * many steps then. */
enum { SEQUENCES = 10000, LOGS = 1000, STEPS = 40, STEPS_HALF = 18, STEPS_SHORT = 6,
       STEPS_LONG = 600 };

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
    bool changing;            /* changes are among the steps */
    twin_stream writing;      /* seq 0: none */
    ms_store *other;          /* a second writer of a shared log, or NULL */
} run;

static struct progress {
    size_t sequence;
    int step;
    const char *doing;
    bool done;
    size_t in_segments, with_summaries; /* long sequences */
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

/* Does the twin know how large each record is, as it was appended and as it is now? */
static bool knows_sizes(const twin *t)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->items[i]->size == 0 || twin_first(t->items[i])->size == 0) return false;
    return true;
}

/* Learns them. */
static void learn_sizes(run *r)
{
    if (!knows_sizes(&r->t)) twin_must_equal(&r->t, r->s.store);
}

/* ms_query_match agrees with the twin on each message; order and limit aside. */
static void must_match_alike(run *r, const ms_query *q)
{
    for (size_t i = 0; i < r->t.count; i++) {
        const twin_msg *want = r->t.items[i];
        const ms_msg *msg;
        if (want->hidden) continue;
        assert_int_equal(ms_get_by_seq(r->s.store, want->seq, &r->arena, &msg, NULL),
                         MS_OK);
        assert_int_equal(ms_query_match(q, msg), twin_match(q, want));
    }
}

/* The number of a message that there is, hidden or not; 0: there are none. */
static uint64_t any_message(run *r)
{
    size_t count = r->t.count;
    return count != 0 ? r->t.items[test_below(&r->rng, count)]->seq : 0;
}

/* Records as they stand: some kinds, perhaps about one message, perhaps between two. */
static ms_query random_raw(run *r)
{
    uint64_t *rng = &r->rng;
    ms_query q = query_of(random_location(rng), 0);
    if (test_one_in(rng, 3)) q.location = no_str();
    if (test_one_in(rng, 2)) q.views = MS_VIEW_TIMELINE;
    q.raw = (unsigned)(1 + test_below(rng, 15));
    if (test_one_in(rng, 3)) q.limit = (size_t)test_below(rng, 8);
    q.oldest = test_one_in(rng, 3);
    q.reverse = test_one_in(rng, 3);
    if (test_one_in(rng, 4)) q.after_seq = any_message(r);
    if (test_one_in(rng, 4)) q.before_seq = any_message(r);
    if (test_one_in(rng, 4)) {
        q.turn_id = random_turn(rng);
        if (test_one_in(rng, 2)) q.types = random_types(rng);
    }
    if (test_one_in(rng, 3) && r->t.count != 0) {
        size_t i = (size_t)test_below(rng, r->t.count);
        q.about_seq = r->t.items[i]->seq;
        if (q.location.ptr == NULL || !test_one_in(rng, 4))
            q.location = r->t.items[i]->field[MS_F_LOCATION].text;
    }
    return q;
}

static void ask(run *r)
{
    ms_str team[TEAM_MAX];
    uint64_t *rng = &r->rng;
    ms_query q = random_query(rng, twin_last_seq(&r->t), team, &r->arena);
    twin_must_query(&r->t, r->s.store, &q);
    if (r->t.raw && test_one_in(rng, 2)) {
        ms_query raw = random_raw(r);
        twin_must_query(&r->t, r->s.store, &raw);
    }
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
    learn_sizes(r);
    twin_must_list(&r->t, r->s.store, &list);
}


/* ---- a cursor held over other steps sees the store as of its opening ---- */

static void held_close(run *r)
{
    if (r->held_want == NULL) return;
    progress.doing = "draining a held cursor";
    twin_must_read_as(r->held_want + r->held_at, r->held_n - r->held_at, &r->held,
                      r->held_query.raw != 0, "held");
    free(r->held_want);
    r->held_want = NULL;
    ms_arena_reset(&r->held_arena);
}

static void held_open(run *r)
{
    held_close(r);
    r->held_query =
        random_query(&r->rng, twin_last_seq(&r->t), r->held_team, &r->held_arena);
    if (r->t.raw && test_one_in(&r->rng, 5)) r->held_query = random_raw(r);
    r->held_want = twin_answers(&r->t);
    r->held_n = twin_query(&r->t, &r->held_query, r->held_want);
    r->held_at = 0;
    assert_int_equal(ms_query_open(r->s.store, &r->held_query, &r->held, NULL), MS_OK);
}

static void held_next(run *r)
{
    if (r->held_want == NULL || r->held_at == r->held_n) return;
    const ms_msg *msg = ms_next(&r->held);
    assert_non_null(msg);
    twin_must_match_as(r->held_want[r->held_at++], msg, r->held_query.raw != 0, "held");
}


/* ---- a second writer of the same log ---- */

static void other_close(run *r)
{
    if (r->other == NULL) return;
    r->writing.seq = 0;
    held_close(r);
    ms_close(r->other);
    r->other = NULL;
}

/* The other one goes on; it takes in what this one has done. */
static void other_writes(run *r)
{
    ms_store *mine = r->s.store;
    ms_error err;
    if (!r->s.log.shared || r->s.kind->arena) return;
    if (r->other == NULL) {
        ms_log_desc desc = r->s.log;
        desc.mode = MS_LOG_WRITE;
        if (ms_log_open(&r->other, &desc, &err) != MS_OK)
            fail_msg("a second writer: %s", err.message);
    }
    r->s.store = r->other;
    r->other = mine;
}


/* ---- steps ---- */

static void random_key(run *r, ms_envelope *m)
{
    const ms_str keys[] = {MS_STR("k1"), MS_STR("k2"), MS_STR("k"), MS_STR("call-77")};
    m->key = random_of(&r->rng, keys, 4);
}

/* The end of a log, which an append that fails leaves where it is; 0 of other stores. */
static uint64_t end_of(const run *r)
{
    return r->s.kind->log ? log_info_of(r->s.store).end : 0;
}

static void append(run *r, const ms_envelope *messages, size_t n, ms_append_opts *opts)
{
    /* over several servers a batch is of one location */
    if (r->s.kind->remote && n > 1 && opts->location.ptr == NULL)
        opts->location = messages[0].location;
    uint64_t end = end_of(r);
    ms_result result =
        twin_append_both(&r->t, r->s.store, messages, n, opts, r->s.kind->fixed);
    if (result != MS_OK && r->other == NULL) assert_int_equal(end_of(r), end);
}

static void step_append(run *r)
{
    ms_envelope m = random_message(&r->rng);
    ms_append_opts opts;
    memset(&opts, 0, sizeof opts);
    if (test_one_in(&r->rng, 2)) opts.location = random_location(&r->rng);
    if (test_one_in(&r->rng, 8)) random_key(r, &m);
    if (r->t.raw) m.flags |= (uint32_t)test_below(&r->rng, 8) << 6; /* the store's own */
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
        if (old->field[MS_F_KEY].text.ptr == NULL || old->redacted) continue;
        ms_envelope m = twin_envelope(test_one_in(&r->rng, 4) ? old : twin_first(old));
        ms_append_opts opts;
        memset(&opts, 0, sizeof opts);
        m.has_time = test_one_in(&r->rng, 2);
        m.time_ns = m.has_time ? random_time(&r->rng) : 0;
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
    /* not one between the last number and those that a copy left out after it */
    if (test_one_in(&r->rng, 4))
        batch[n - 1].seq = test_below(&r->rng, twin_last_seq(&r->t) + 1);
    append(r, batch, n, &opts);
}

static void replace_store(run *r, test_store s)
{
    held_close(r);
    other_close(r);
    r->writing.seq = 0;
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
    size_t last = test_one_in(&r->rng, 4) ? r->t.count : 0;
    for (size_t i = last - test_below(&r->rng, last < 9 ? last : 9); i < last; i++)
        keep->newest_bytes += r->t.items[i]->size; /* just so many */
    keep->has_since = test_one_in(&r->rng, 3);
    if (keep->has_since) keep->since_ns = random_time(&r->rng);
    keep->whole_turns = test_one_in(&r->rng, 3);
    names[0] = random_location(&r->rng);
    names[1] = random_location(&r->rng);
    keep->locations = names;
    if (test_one_in(&r->rng, 4)) keep->n_locations = 1 + (size_t)test_below(&r->rng, 2);
}

/* Makes the twin of a copy by a random rule. */
static ms_copy_report copied_twin(run *r, twin *second, ms_keep *keep, ms_str names[2])
{
    twin_init(second);
    second->raw = true;
    second->keep_unset_times = r->t.keep_unset_times;
    second->now = r->t.now;
    learn_sizes(r);
    random_keep(r, keep, names);
    keep->dry_run = test_one_in(&r->rng, 5);
    return twin_copy(second, &r->t, keep);
}

/* Is there a message whose text so far stands in pieces? What its copy counts as bytes of
 * the source is the store's business. */
static bool has_pieces(const run *r)
{
    for (size_t i = 0; i < r->t.count; i++)
        if (!r->t.items[i]->hidden && r->t.items[i]->so_far != NULL) return true;
    return false;
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
    want = copied_twin(r, &second, &keep, names);
    bool rewrites = s.kind->log && !keep.dry_run && test_one_in(&r->rng, 2);
    if (rewrites) ms_close(s.store);
    ms_result result = rewrites
                           ? ms_log_rewrite(r->s.store, &s.log, true, &keep, &got, &err)
                           : ms_copy(s.store, r->s.store, &keep, NULL, &got, &err);
    if (result != MS_OK) fail_msg("copy: %s", err.message);
    if (rewrites) log_open(&s);
    assert_int_equal(got.copied, want.copied);
    assert_int_equal(got.dropped, want.dropped);
    if (has_pieces(r)) want.bytes = got.bytes;
    assert_int_equal(got.bytes, want.bytes);
    assert_int_equal(got.damaged, 0);
    assert_int_equal(got.notes, want.notes);
    assert_int_equal(got.unplaced, 0);
    twin_must_equal(&second, s.store);
    if (test_one_in(&r->rng, 2)) {
        replace_store(r, s);
        twin_deinit(&r->t);
        r->t = second;
        r->t.may_be_full = r->s.kind->fixed;
    } else {
        store_close(&s);
        twin_deinit(&second);
    }
}

static void step_reset(run *r)
{
    if (!r->s.kind->arena) return;
    held_close(r);
    other_close(r);
    r->writing.seq = 0;
    assert_int_equal(ms_mem_reset(r->s.store, NULL), MS_OK);
    twin_reset(&r->t);
}

/* Closes the log and opens it again. */
static void step_reopen(run *r)
{
    if (!r->s.kind->log) return;
    held_close(r);
    other_close(r);
    r->writing.seq = 0;
    r->s.log.ticked = test_one_in(&r->rng, 2);
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
    other_close(r);
    r->writing.seq = 0;
    want = copied_twin(r, &second, &keep, names);
    if (ms_log_rewrite(r->s.store, &r->s.log, true, &keep, &got, &err) != MS_OK)
        fail_msg("rewrite: %s", err.message);
    if (has_pieces(r)) want.bytes = got.bytes;
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
    assert_int_equal(test_refresh(r->s.store, &seq, NULL), MS_OK);
    assert_int_equal(seq, last);
    assert_int_equal(ms_wait(r->s.store, last, 0, &seq, NULL), MS_OK);
    assert_int_equal(seq, last);
    assert_int_equal(ms_sync(r->s.store, &seq, NULL), MS_OK);
    assert_int_equal(seq, r->s.kind->log || r->s.kind->remote ? last : 0);
}

static void step_clock(run *r)
{
    r->t.now = random_time(&r->rng);
}

/* ---- steps that change what is there ---- */

/* A number for a change: mostly of a message, now and then of none. */
static uint64_t random_target(run *r)
{
    if (r->t.count == 0 || test_one_in(&r->rng, 12))
        return test_below(&r->rng, twin_last_seq(&r->t) + 3);
    if (!test_one_in(&r->rng, 4)) return any_message(r);
    return r->t.items[r->t.count - 1]->seq;
}

/* An envelope that may replace a message: most of what it leaves unset stays. */
static ms_envelope random_amend(run *r, uint64_t seq)
{
    uint64_t *rng = &r->rng;
    const twin_msg *old = twin_get(&r->t, seq);
    ms_envelope m = random_message(rng);
    while (old != NULL && m.type != old->type && !test_one_in(rng, 200))
        m = random_message(rng);
    if (!test_one_in(rng, 12)) m.location = no_str();
    if (!test_one_in(rng, 12)) m.agent_key = no_str();
    if (test_one_in(rng, 3)) m.turn_id = no_str();
    if (test_one_in(rng, 16)) random_key(r, &m);
    if (old == NULL || !test_one_in(rng, 6)) return m;
    m.location = old->field[MS_F_LOCATION].text;
    m.agent_key = old->field[MS_F_AGENT_KEY].text;
    m.key = old->field[MS_F_KEY].text;
    return m;
}

static void step_amend(run *r)
{
    uint64_t seq = random_target(r);
    ms_envelope m = random_amend(r, seq);
    twin_amend_both(&r->t, r->s.store, seq, &m);
}

static void step_hide(run *r)
{
    twin_hide_both(&r->t, r->s.store, random_target(r));
}

static void step_hide_range(run *r)
{
    uint64_t first = random_target(r), last = random_target(r);
    if (first > last && !test_one_in(&r->rng, 8)) {
        uint64_t swap = first;
        first = last;
        last = swap;
    }
    if (test_one_in(&r->rng, 2) && last > first + 3) last = first + 3;
    if (test_one_in(&r->rng, 12)) last = UINT64_MAX;
    if (test_one_in(&r->rng, 12)) first = 0;
    twin_hide_range_both(&r->t, r->s.store, random_location(&r->rng), first, last);
}

static void step_rewind(run *r)
{
    uint64_t seq = random_target(r);
    const twin_msg *m = twin_get(&r->t, seq);
    ms_str location = random_location(&r->rng);
    if (m != NULL && !test_one_in(&r->rng, 8)) location = m->field[MS_F_LOCATION].text;
    if (test_one_in(&r->rng, 10)) seq = 0;
    twin_rewind_both(&r->t, r->s.store, location, seq);
}

/* Nobody may hold what is redacted. */
static void step_redact(run *r)
{
    uint64_t seq = random_target(r);
    for (size_t i = 0; r->held_want != NULL && i < r->held_n; i++)
        if (r->held_want[i]->seq == seq) held_close(r);
    twin_redact_both(&r->t, r->s.store, seq);
}

static void step_note(run *r)
{
    const ms_str kinds[] = {MS_STR("rating"), MS_STR("verdict"), MS_STR("usage"),
                            MS_STR("\xc3\xa9")};
    ms_str kind = random_of(&r->rng, kinds, 4);
    twin_note_both(&r->t, r->s.store, random_target(r), kind, random_value(&r->rng));
}

static void step_facts(run *r)
{
    const ms_str facts[] = {
        MS_STR("{}"), MS_STR("{\"title\":\"A \\\"day\\\"\"}"),
        MS_STR("{\"cwd\":\"/tmp\",\"title\":null}"),
        MS_STR("{\"model\":{\"x\":[1,null]}}"),
        MS_STR("{\"cwd\":null,\"model\":7,\"user\":true}"),
        MS_STR("{\"\xc3\xa9\":\"\xe6\x97\xa5\",\"user\":null}")};
    ms_str location = test_one_in(&r->rng, 12) ? MS_STR("facts only")
                                               : random_location(&r->rng);
    twin_facts_both(&r->t, r->s.store, location, random_of(&r->rng, facts, 6));
}

/* Mostly to a place where nothing is. */
static void step_fork(run *r)
{
    const ms_str fresh[] = {MS_STR("branch 1"), MS_STR("branch 2"), MS_STR("branch 3")};
    uint64_t seq = random_target(r);
    const twin_msg *m = twin_get(&r->t, seq);
    ms_str from = random_location(&r->rng), to = random_of(&r->rng, fresh, 3);
    ms_arena *arena = test_one_in(&r->rng, 2) ? &r->arena : NULL;
    if (m != NULL && !test_one_in(&r->rng, 8)) from = m->field[MS_F_LOCATION].text;
    if (test_one_in(&r->rng, 8)) to = random_location(&r->rng);
    if (test_one_in(&r->rng, 12)) seq = 0;
    if (twin_str_equal(from, to)) return;
    twin_fork_both(&r->t, r->s.store, from, seq, to, arena);
}

/* Begins to write a message; the one that was being written is left as it is. */
static void step_begin(run *r)
{
    static const ms_type types[] = {MS_T_ASSISTANT_MESSAGE, MS_T_FINAL, MS_T_REASONING,
                                    MS_T_ACTION, MS_T_OBSERVATION, MS_T_DELTA};
    uint64_t *rng = &r->rng;
    ms_stream_opts opts;
    ms_envelope m;
    memset(&opts, 0, sizeof opts);
    memset(&m, 0, sizeof m);
    opts.every_part = r->t.may_be_full || test_one_in(rng, 3);
    opts.flush_ms = (uint32_t)test_below(rng, 3) * 1000;
    opts.flush_chars = (uint32_t)test_below(rng, 3) * 20;
    opts.clock = clock_at(&r->t.now);
    m.type = types[test_below(rng, 6)];
    if (m.type == MS_T_ACTION) m.tool = MS_STR("search");
    if (m.type == MS_T_ACTION && test_one_in(rng, 2)) m.args = ms_text("{\"q\":");
    if (m.type != MS_T_ACTION && test_one_in(rng, 2)) m.content = ms_text("Well, ");
    m.agent_key = random_agent(rng);
    m.turn_id = random_turn(rng);
    m.has_time = test_one_in(rng, 2);
    if (m.has_time) m.time_ns = random_time(rng);
    if (test_one_in(rng, 2)) m.call_id = MS_STR("call-1");
    twin_begin_both(&r->t, r->s.store, &r->writing, random_location(rng), &m, &opts);
}

/* A message was ended, hidden or redacted by somebody else: the writer gives up. */
static bool writes(run *r)
{
    return r->writing.seq != 0;
}

static void give_up_when_lost(run *r)
{
    if (writes(r) && twin_unfit_stream(&r->t, &r->writing) != 0)
        r->writing.seq = 0;
}

static void step_feed(run *r)
{
    const ms_str parts[] = {MS_STR(""), MS_STR("a"), MS_STR("word "),
                            MS_STR("\xe6\x97\xa5\xe6\x9c\xac"),
                            MS_STR("two\nlines \"quoted\" "), MS_STR("{\"n\":1}"),
                            MS_STR("1}")};
    ms_str part = random_of(&r->rng, parts, 7);
    char *large = NULL;
    if (!writes(r)) return;
    if (test_one_in(&r->rng, 10)) {
        large = large_text(3000);
        part = ms_str_n(large, 3000);
    }
    twin_feed_both(&r->t, r->s.store, &r->writing, part);
    free(large);
    give_up_when_lost(r);
}

/* With the text so far, or with other content; sometimes with one of another type. */
static void step_end(run *r)
{
    if (!writes(r)) return;
    ms_envelope final = random_amend(r, r->writing.seq);
    twin_end_both(&r->t, r->s.store, &r->writing,
                  test_one_in(&r->rng, 2) ? &final : NULL);
    give_up_when_lost(r);
}

static void step_recover(run *r)
{
    uint64_t seq = random_target(r);
    for (size_t i = 0; i < r->t.count && !test_one_in(&r->rng, 4); i++)
        if (r->t.items[i]->open) seq = r->t.items[i]->seq;
    twin_recover_both(&r->t, r->s.store, seq);
    if (test_one_in(&r->rng, 2)) step_feed(r);
    give_up_when_lost(r);
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

static const struct step {
    const char *name;
    unsigned weight;
    void (*take)(run *r);
} steps[] = {
    {"append", 30, step_append},      {"batch", 14, step_batch},
    {"repeat a key", 8, step_repeat}, {"expect a sequence", 7, step_expect},
    {"keep sequence", 3, step_keep_seq},
    {"move the image", 3, step_image}, {"copy", 2, step_copy},
    {"reset", 1, step_reset},         {"set the clock", 7, step_clock},
    {"open again", 4, step_reopen},   {"rewrite", 2, step_rewrite},
    {"a second handle", 2, step_beside}, {"housekeeping", 2, step_housekeeping},
    {"hold a cursor", 5, held_open},  {"move the held cursor", 10, held_next},
    {"drain the held cursor", 3, held_close},
}, changes[] = {
    {"amend", 12, step_amend},        {"hide", 8, step_hide},
    {"hide a range", 3, step_hide_range}, {"rewind", 3, step_rewind},
    {"redact", 4, step_redact},       {"note", 8, step_note},
    {"facts", 5, step_facts},         {"fork", 4, step_fork},
    {"begin a stream", 5, step_begin}, {"feed a stream", 14, step_feed},
    {"end a stream", 4, step_end},
    {"recover a stream", 3, step_recover},
};

static const struct step *random_of_steps(uint64_t *rng, const struct step *list,
                                          size_t n)
{
    unsigned all = 0;
    for (size_t i = 0; i < n; i++) all += list[i].weight;
    unsigned pick = (unsigned)test_below(rng, all);
    size_t at = 0;
    while (pick >= list[at].weight) pick -= list[at++].weight;
    return &list[at];
}

static const struct step *random_step(run *r)
{
    if (r->changing && test_one_in(&r->rng, 3))
        return random_of_steps(&r->rng, changes, sizeof changes / sizeof changes[0]);
    return random_of_steps(&r->rng, steps, sizeof steps / sizeof steps[0]);
}

/* Steps after which most messages are gone: a long sequence is to have many segments. */
static bool makes_anew(const struct step *step)
{
    return step->take == step_copy || step->take == step_reset ||
           step->take == step_rewrite;
}

static ms_result open_sqlite(test_store *s, const store_options *options, ms_error *err)
{
    (void)options;
    return sqlite_store_open(&s->store, ":memory:", err);
}

/* The file of a log is whole. */
static void must_verify(run *r)
{
    ms_log_report report;
    ms_error err;
    if (ms_log_verify(&r->s.log, &report, &err) != MS_OK)
        fail_msg("verify: %s", err.message);
    assert_int_equal(report.messages, r->t.count);
    assert_int_equal(report.last_seq, twin_last_seq(&r->t));
    assert_int_equal(report.damaged + report.damaged_bytes + report.index_damaged, 0);
    assert_int_equal(report.torn_bytes, 0);
    assert_int_equal(report.end, end_of(r));
    assert_true(report.bytes <= log_info_of(r->s.store).size);
    if (r->s.log.segment_size != 0 && r->t.count > 100)
        assert_true(report.index_records > 5);
}

/* After each step one or two looks from different sides; everything now and then. */
static void check(run *r)
{
    uint64_t how = test_below(&r->rng, 8);
    const ms_query all = query_of(no_str(), 0);
    if (how == 0) twin_must_equal(&r->t, r->s.store);
    else if (how < 4) twin_must_query(&r->t, r->s.store, &all);
    else ask(r);
    if (how < 4 && knows_sizes(&r->t)) twin_must_count(&r->t, r->s.store, NULL);
    if (how == 1) ask(r);
}

static store_kind sqlite_kind = {"sqlite", false, false, false, false, open_sqlite};

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
    r.t.raw = kind != &sqlite_kind;
    r.t.may_be_full = kind->fixed;
    r.t.copies = kind->remote;
    r.changing = r.t.raw && !test_one_in(&r.rng, 4);
    r.s = store_open(kind, &r.options);
    test_arena_init(&r.arena, NULL);
    test_arena_init(&r.held_arena, NULL);
    for (progress.step = 0; progress.step < length; progress.step++) {
        if (test_one_in(&r.rng, 2)) other_writes(&r);
        const struct step *step = random_step(&r);
        while (length == STEPS_LONG && makes_anew(step)) step = random_step(&r);
        progress.doing = step->name;
        step->take(&r);
        progress.doing = step->name;
        check(&r);
        if (!r.t.raw && test_one_in(&r.rng, 8)) must_not_change(&r);
        ms_arena_reset(&r.arena);
    }
    held_close(&r);
    twin_must_equal(&r.t, r.s.store);
    if (r.s.kind->log) must_verify(&r);
    if (length == STEPS_LONG && r.s.log.segment_size != 0) {
        progress.in_segments++;
        progress.with_summaries += log_info_of(r.s.store).summaries > 0;
    }
    other_close(&r);
    ms_arena_deinit(&r.arena);
    ms_arena_deinit(&r.held_arena);
    store_close(&r.s);
    twin_deinit(&r.t);
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
    if (p->kind == SHARED_LOG) return i % 50 < 2 ? STEPS_LONG : STEPS;
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
    if (progress.in_segments >= 4)
        assert_true(progress.with_summaries > progress.in_segments / 2);
    progress.in_segments = progress.with_summaries = 0;
    test_tally("histories compared with the twin", times);
}

#define TWIN_OF(i, name) \
    {name "_and_twin_agree", store_and_twin_agree, NULL, tell_where, &plans[i]}

int main(void)
{
#ifdef TEST_POSTGRES
    const struct CMUnitTest tests[] = {TWIN_OF(4, "postgres")};
#else
    const struct CMUnitTest tests[] = {
        TWIN_OF(0, "arena_stores"),
        TWIN_OF(1, "logs"),
        TWIN_OF(2, "shared_logs"),
        TWIN_OF(3, "sqlite"),
    };
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
