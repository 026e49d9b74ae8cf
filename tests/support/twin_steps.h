/* Random steps on a store and on its twin, for test_twin and test_union: each step is
 * taken on both, and check() compares what they answer. In three of four runs about a
 * third of the steps change what is there: amend, hide, rewind, redact, note, set facts,
 * fork, write by and by. What is refused is in tests/scripts. The sums of usage that the
 * tool makes are compared, too. */

#ifndef TWIN_STEPS_H
#define TWIN_STEPS_H

#include "twin.h"
#include "tools/usage_sum.h"

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
    size_t part;              /* of a union, from 1, with a key of its own; or 0 */
} run;

static struct progress {
    size_t sequence;
    int step;
    const char *doing;
    bool done;
} progress;

static int tell_where(void **state)
{
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

/* Adds up the usage notes about visible messages, item by item in order of the first
 * note. Returns how many items there are; `out` has room for one a record. */
static size_t naive_usage(const twin *t, usage_by by, usage_item *out, usage_item *total)
{
    size_t n = 0;
    memset(total, 0, sizeof *total);
    for (size_t i = 0; i < t->records.count; i++) {
        const twin_msg *note = t->records.items[i], *about = twin_get(t, note->seq);
        if (note->kind != MS_KIND_NOTE || about == NULL || about->hidden) continue;
        if (!is_word(note->field[MS_F_TYPE_NAME].text, "usage")) continue;
        usage_item item, *at = out;
        ms_value says = note->field[MS_F_CONTENT];
        json_t *json = !says.json ? NULL : json_loadb(says.text.ptr, says.text.len,
                                                      JSON_DECODE_ANY, NULL);
        memset(&item, 0, sizeof item);
        item.location = note->field[MS_F_LOCATION].text;
        if (by == USAGE_BY_AGENT) item.part = note->field[MS_F_AGENT_KEY].text;
        if (by == USAGE_BY_TURN) item.part = note->field[MS_F_TURN_ID].text;
        const ms_usage u = {
            (uint64_t)json_integer_value(json_object_get(json, "input_tokens")),
            (uint64_t)json_integer_value(json_object_get(json, "output_tokens")),
            (uint64_t)json_integer_value(json_object_get(json, "cached_tokens")),
            (uint64_t)json_integer_value(json_object_get(json, "reasoning_tokens")),
            SECONDS(json_number_value(json_object_get(json, "seconds")))};
        json_decref(json);
        while (at < out + n && !(ms_str_equal(at->location, item.location) &&
                                 ms_str_equal(at->part, item.part)))
            at++;
        if (at == out + n) out[n++] = item;
        usage_add(at, &u);
        usage_add(total, &u);
    }
    return n;
}

/* What the tool adds up is what the twin does. */
static void must_cost_alike(run *r)
{
    usage_by by = (usage_by)test_below(&r->rng, 3);
    usage_item *want = (usage_item *)twin_memory(NULL, (r->t.records.count + 1) *
                                                           sizeof want[0]);
    usage_item total;
    usage_list got;
    ms_error err;
    size_t n = naive_usage(&r->t, by, want, &total);
    must_ok(usage_sum(r->s.store, by, &r->arena, &got, &err), &err, "usage");
    assert_int_equal(got.count, n);
    assert_memory_equal(&got.total.usage, &total.usage, sizeof total.usage);
    assert_int_equal(got.total.notes, total.notes);
    for (size_t i = 0; i < n; i++) {
        assert_true(ms_str_equal(got.items[i].location, want[i].location));
        assert_true(ms_str_equal(got.items[i].part, want[i].part));
        assert_int_equal(got.items[i].notes, want[i].notes);
        assert_memory_equal(&got.items[i].usage, &want[i].usage, sizeof want[i].usage);
    }
    free(want);
}

static void ask(run *r)
{
    ms_str team[TEAM_MAX];
    uint64_t *rng = &r->rng;
    ms_query q = random_query(rng, twin_last_seq(&r->t), team, &r->arena);
    if (test_one_in(rng, 8)) q.after_seq = any_message(r);
    if (test_one_in(rng, 8)) q.before_seq = any_message(r);
    if (test_one_in(rng, 12)) q.limit = test_one_in(rng, 2) ? 40 : SIZE_MAX;
    if (r->t.raw && test_one_in(rng, 8)) must_cost_alike(r);
    twin_must_query(&r->t, r->s.store, &q);
    if (test_one_in(rng, 2)) {
        ms_query raw = random_raw(r);
        if (!r->t.raw) raw.raw = MS_RAW_MESSAGES; /* which need no changes */
        twin_must_query(&r->t, r->s.store, &raw);
    }
    if (test_one_in(rng, 4)) must_match_alike(r, &q);
    if (test_one_in(rng, 4) && r->t.count != 0)
        twin_must_place(&r->t, r->s.store, (size_t)test_below(rng, r->t.count));
    if (!test_one_in(rng, 4)) return;
    const ms_str prefixes[] = {no_str(), MS_STR(""), MS_STR("job"), MS_STR("job_1"),
                               MS_STR("w"), MS_STR("w1"), MS_STR("zzz")};
    ms_list_query list = {.agents = test_one_in(rng, 2)};
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


/* ---- steps ---- */

static void random_key(run *r, ms_envelope *m)
{
    const ms_str keys[] = {MS_STR("k1"), MS_STR("k2"), MS_STR("k"), MS_STR("call-77")};
    m->key = r->part != 0 ? keys[r->part - 1] : random_of(&r->rng, keys, 4);
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
    size_t n = 1 + (size_t)test_below(&r->rng, 3);
    ms_append_opts opts = {.location = random_location(&r->rng), .expect = true};
    opts.expect_seq = twin_last_of(&r->t, opts.location);
    if (test_one_in(&r->rng, 2))
        opts.expect_seq = test_below(&r->rng, twin_last_seq(&r->t) + 3);
    for (size_t i = 0; i < n; i++) batch[i] = random_message(&r->rng);
    append(r, batch, n, &opts);
}

static void step_keep_seq(run *r)
{
    ms_envelope batch[3];
    uint64_t seq = r->t.given;
    size_t n = 1 + (size_t)test_below(&r->rng, 3);
    ms_append_opts opts = {.keep_seq = true};
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
    must_ok(ms_mem_attach(&moved.store, &desc, &damaged, &err), &err, "attach");
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

#ifdef _WIN32 /* where ms_log_rewrite replaces no file */
enum { REPLACES = false };
#else
enum { REPLACES = true };
#endif

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
    bool rewrites = s.kind->log && REPLACES && test_one_in(&r->rng, 2);
    bool anew = rewrites && !keep.dry_run;
    if (anew) ms_close(s.store);
    ms_result result = rewrites
                           ? ms_log_rewrite(r->s.store, &s.log, true, &keep, &got, &err)
                           : ms_copy(s.store, r->s.store, &keep, NULL, &got, &err);
    must_ok(result, &err, "copy");
    if (anew) log_open(&s);
    assert_int_equal(got.copied, want.copied);
    assert_int_equal(got.dropped, want.dropped);
    if (has_pieces(r)) want.bytes = got.bytes;
    assert_int_equal(got.bytes, want.bytes);
    assert_int_equal(got.damaged, 0);
    assert_int_equal(got.notes, want.notes);
    assert_int_equal(got.left_out, want.left_out);
    assert_int_equal(got.unplaced, 0);
    twin_must_equal(&second, s.store);
    if (!r->t.joined && test_one_in(&r->rng, 2)) {
        replace_store(r, s);
        twin_deinit(&r->t);
        r->t = second;
        r->t.may_be_full = r->s.kind->fixed;
    } else {
        if (!keep.dry_run && !s.kind->fixed)
            assert_true(append_text(s.store, "goes on") > r->t.given);
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
    if (!r->s.kind->log || !REPLACES) return;
    held_close(r);
    other_close(r);
    r->writing.seq = 0;
    want = copied_twin(r, &second, &keep, names);
    if (ms_log_rewrite(r->s.store, &r->s.log, true, &keep, &got, &err) != MS_OK)
        fail_msg("rewrite: %s", err.message);
    if (has_pieces(r)) want.bytes = got.bytes;
    assert_memory_equal(&got, &want, sizeof got);
    if (r->s.log.shared && !keep.dry_run)
        assert_int_equal(ms_wait(r->s.store, 0, 0, NULL, NULL), MS_E_CONFLICT);
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
    must_ok(ms_log_open(&other.store, &other.log, &err), &err, "for reading");
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

/* Small numbers, 0 among them; quarters of a second. */
static void step_usage(run *r)
{
    uint64_t *rng = &r->rng;
    ms_usage u;
    memset(&u, 0, sizeof u);
    u.input_tokens = test_below(rng, 1000);
    u.output_tokens = test_below(rng, 3);
    if (test_one_in(rng, 2)) u.cached_tokens = test_below(rng, 100);
    if (test_one_in(rng, 2)) u.reasoning_tokens = test_below(rng, 100);
    u.duration_ns = (int64_t)test_below(rng, 40) * SECONDS(0.25);
    twin_usage_both(&r->t, r->s.store, random_target(r), &u);
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
    {"redact", 4, step_redact},       {"note", 5, step_note},
    {"usage", 4, step_usage},
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

/* A store without changes stamps no times and sets no flags. */
static void run_open(run *r, const store_kind *kind, uint64_t seed)
{
    static const size_t rooms[] = {MS_MEM_MIN, 4096, 20000, 65536, 300000};
    memset(r, 0, sizeof *r);
    r->rng = seed;
    twin_init(&r->t);
    r->options.keep_unset_times = test_one_in(&r->rng, 2);
    r->options.room = rooms[test_below(&r->rng, 5)] + 8 * (size_t)test_below(&r->rng, 64);
    r->options.clock = clock_at(&r->t.now);
    r->s = store_open(kind, &r->options);
    r->t.raw = r->s.store->backend->change != NULL;
    if (!r->t.raw) r->options.keep_unset_times = true;
    r->t.keep_unset_times = r->options.keep_unset_times;
    r->t.no_commit = !r->t.raw;
    r->t.may_be_full = kind->fixed;
    r->t.copies = kind->remote;
    r->changing = r->t.raw && !test_one_in(&r->rng, 4);
    test_arena_init(&r->arena, NULL);
    test_arena_init(&r->held_arena, NULL);
}

static void run_close(run *r)
{
    other_close(r);
    ms_arena_deinit(&r->arena);
    ms_arena_deinit(&r->held_arena);
    store_close(&r->s);
    twin_deinit(&r->t);
}

static void take_step(run *r, const struct step *step)
{
    progress.doing = step->name;
    step->take(r);
    progress.doing = step->name;
}

#endif /* TWIN_STEPS_H */
