/* Several stores as one: a union answers as the twins of its stores do; what it refuses,
 * what it does when one of its stores fails, and stores that have no more than a query.
 * Histories of a union are compared in test_memory.
 */

#define _GNU_SOURCE
#include "script.h"
#include "own_store.h"
#include "twin_steps.h"
#include "arena.h"
#include "low_memory.h"

#include <pthread.h>

#define NUMBER(which, own) ((uint64_t)(which) << 40 | (own))


/* ---- random steps in some stores ---- */

enum { PARTS_MAX = 4, STEPS = 160 };

typedef struct parts {
    run part[PARTS_MAX];
    size_t n;
    ms_store *stores[PARTS_MAX]; /* those of the parts, or readers of their logs */
} parts;

static store_kind union_kind = {"union", false, false, false, false, NULL};

/* A step of a random part; kept: none that a cursor over all of them would notice. */
static void step_of_part(parts *p, uint64_t *rng, bool kept)
{
    run *r = &p->part[test_below(rng, p->n)];
    const struct step *step = random_step(r);
    while (kept && (makes_anew(step) || step->take == step_image ||
                    step->take == step_reopen || step->take == step_redact))
        step = random_step(r);
    take_step(r, step);
    ms_arena_reset(&r->arena);
}

/* A message as a union returns it is sound by itself, and no other number has one. */
static void must_be_sound(run *whole, size_t n)
{
    const uint64_t none[] = {0, 1 + twin_last_seq(&whole->t), (uint64_t)n << 40 | 1,
                             (uint64_t)(n - 1) << 40, UINT64_MAX};
    const ms_query all = query_of(no_str(), 0);
    const ms_msg *again;
    ms_cursor it;
    ms_error err;
    EACH (msg, whole->s.store, &all, &it)
        must_ok(ms_decode(msg, ms_size(msg), &again, &err), &err, "decode");
    for (size_t i = 0; i < whole->t.count; i++) {
        const twin_msg *m = whole->t.items[i];
        if (!m->hidden && !m->redacted && !m->folded && m->type == MS_T_ASSISTANT_MESSAGE)
            twin_must_follow(whole->s.store, m->seq, twin_text_so_far(m), !m->open);
    }
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_int_equal(ms_get_by_seq(whole->s.store, none[i], &whole->arena, &again,
                                       NULL), MS_E_NOT_FOUND);
        assert_null(again);
    }
}

static void union_open(run *whole, parts *p, uint64_t seed)
{
    memset(whole, 0, sizeof *whole);
    whole->rng = seed;
    whole->s.kind = &union_kind;
    for (size_t i = 0; i < p->n; i++) {
        run *r = &p->part[i];
        bool reads = r->s.kind->log && test_one_in(&whole->rng, 2);
        learn_sizes(r);
        p->stores[i] = reads ? log_reader(&r->s) : r->s.store;
        twin_join(&whole->t, &r->t, i);
    }
    whole->s.store = union_of(p->stores, p->n);
    test_arena_init(&whole->arena, NULL);
    test_arena_init(&whole->held_arena, NULL);
}

static void union_close(run *whole, parts *p)
{
    run_close(whole);
    for (size_t i = 0; i < p->n; i++)
        if (p->stores[i] != p->part[i].s.store) ms_close(p->stores[i]);
}

/* The union of the parts answers as their twins do, one after the other; what is done to
 * them meanwhile is not seen. */
static void check_union(parts *p, uint64_t seed)
{
    run whole;
    union_open(&whole, p, seed);
    must_be_sound(&whole, p->n);
    step_housekeeping(&whole);
    for (int i = 0; i < 8; i++) check(&whole);
    if (test_one_in(&whole.rng, 2)) step_copy(&whole);
    held_open(&whole);
    for (int i = 0; i < 4; i++) {
        step_of_part(p, &whole.rng, true);
        held_next(&whole);
    }
    held_close(&whole);
    union_close(&whole, p);
}

static void union_sequence(uint64_t seed)
{
    parts p;
    uint64_t rng = seed;
    p.n = 1 + (size_t)test_below(&rng, PARTS_MAX);
    for (size_t i = 0; i < p.n; i++) {
        run_open(&p.part[i], store_kind_at((size_t)test_below(&rng, STORE_KINDS)),
                 test_random(&rng));
        p.part[i].part = i + 1;
    }
    for (progress.step = 0; progress.step < STEPS; progress.step++) {
        step_of_part(&p, &rng, false);
        if (progress.step % 10 == 9) check_union(&p, test_random(&rng));
    }
    for (size_t i = 0; i < p.n; i++) {
        held_close(&p.part[i]);
        run_close(&p.part[i]);
    }
}

#define TELLING(test) cmocka_unit_test_teardown(test, tell_where)

TEST_WITH(TELLING, unions_and_twins_agree)
{
    progress.done = false;
    for (progress.sequence = 0; progress.sequence < test_times(200); progress.sequence++)
        union_sequence(test_seed() + progress.sequence);
    progress.done = true;
}


/* ---- a small union: a store on the heap and one in a mapped log ---- */

typedef struct duo {
    test_store s[2];
    ms_store *stores[2], *u;
} duo;

static duo open_duo(void)
{
    duo d;
    for (size_t i = 0; i < 2; i++) {
        d.s[i] = store_open(store_kind_at(i * 3), NULL);
        d.stores[i] = d.s[i].store;
    }
    d.u = union_of(d.stores, 2);
    return d;
}

static void close_duo(duo *d)
{
    ms_close(d->u);
    store_close(&d->s[0]);
    store_close(&d->s[1]);
}

static uint64_t append_at(ms_store *store, ms_type type, const char *agent, int64_t time)
{
    ms_envelope m = message_of(type, MS_STR("text"));
    m.has_time = true;
    m.time_ns = SECONDS(time);
    if (agent != NULL) m.agent_key = ms_str_of(agent);
    return must_append(store, JOB, &m);
}


/* ---- what a union refuses ---- */

/* Numbers of a copy have no room for another index. */
TEST(a_copy_of_a_union_is_refused_by_another_union)
{
    duo d = open_duo();
    test_store copy = store_open(store_kind_at(0), NULL);
    ms_cursor it;
    ms_stat stat;
    ms_error err;
    ms_memory memory;
    uint64_t seq;
    ms_query q = query_of(no_str(), 0);
    append_at(d.stores[1], MS_T_TASK, "w", 1);
    assert_int_equal(ms_copy(copy.store, d.u, NULL, NULL, NULL, NULL), MS_OK);
    ms_store *v = union_of(&copy.store, 1);
    for (q.limit = 0; q.limit < 2; q.limit++) {
        assert_int_equal(ms_query_open(v, &q, &it, &err), MS_E_RANGE);
        assert_string_equal(err.path, "stores[0].seq");
        assert_null(ms_next(&it));
    }
    assert_int_equal(ms_store_stat(v, &stat, &err), MS_E_RANGE);
    assert_string_equal(err.path, "stores[0].seq");
    assert_int_equal(test_refresh(v, &seq, &err), MS_E_RANGE);
    ms_memory_init(&memory, v, JOB, MS_STR("w"));
    assert_int_equal(ms_get_history(&memory, &it, NULL), MS_E_RANGE);
    ms_close(v);
    close_duo(&d);
    store_close(&copy);
}

/* Each store has given the key. The first message keeps it. */
TEST(a_copy_of_a_union_has_the_messages_of_one_key)
{
    static const char *const texts[] = {"same", "same", "other"};
    ms_store *stores[3], *joined, *copy;
    ms_union_desc desc = {.stores = stores, .n_stores = 3};
    ms_copy_report report;
    ms_cursor it;
    ms_query all = query_of(MS_STR("x"), MS_VIEW_TIMELINE);
    uint64_t seq;
    size_t n = 0;
    for (size_t i = 0; i < 3; i++) {
        ms_envelope m = ms_user_message(ms_text(texts[i]));
        m.key = MS_STR("key");
        assert_int_equal(ms_mem_open(&stores[i], NULL, NULL), MS_OK);
        assert_int_equal(ms_append(stores[i], MS_STR("x"), &m, &seq, NULL), MS_OK);
        assert_int_equal(ms_note(stores[i], seq, MS_STR("mark"), ms_text("1"), NULL),
                         MS_OK);
    }
    assert_int_equal(ms_union_open(&joined, &desc, NULL), MS_OK);
    assert_int_equal(ms_mem_open(&copy, NULL, NULL), MS_OK);
    assert_int_equal(ms_copy(copy, joined, NULL, NULL, &report, NULL), MS_OK);
    assert_int_equal(report.copied, 3);
    assert_int_equal(report.notes, 3);
    EACH (msg, copy, &all, &it) {
        assert_int_equal(ms_seq(msg), NUMBER(n, 1));
        assert_true(ms_str_equal(ms_content(msg).text, ms_str_of(texts[n])));
        assert_true((ms_get(msg, MS_F_KEY).text.ptr != NULL) == (n == 0));
        n++;
    }
    assert_int_equal(n, 3);
    ms_close(copy);
    ms_close(joined);
    for (size_t i = 0; i < 3; i++) ms_close(stores[i]);
}

TEST(a_refused_store_is_named_when_a_union_opens)
{
    test_store s[3];
    ms_store *stores[4], *u, *opened;
    ms_store closed;
    ms_error err;
    memset(&closed, 0, sizeof closed);
    for (size_t i = 0; i < 3; i++) s[i] = store_open(store_kind_at(i), NULL);
    for (size_t i = 0; i < 3; i++) stores[i] = s[i].store;
    u = union_of(stores, 3);
    const struct {
        ms_store *store;
        ms_result code;
        const char *path;
    } cases[] = {
        {NULL, MS_E_ARGUMENT, "stores[3]"},
        {&closed, MS_E_CLOSED, "stores[3]"},
        {s[1].store, MS_E_ARGUMENT, "stores[3]"},
        {u, MS_E_UNSUPPORTED, "stores[3]"},
    };
    ms_union_desc desc = {.stores = stores, .n_stores = 4};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        stores[3] = cases[i].store;
        assert_int_equal(ms_union_open(&opened, &desc, &err), cases[i].code);
        assert_null(opened);
        assert_string_equal(err.path, cases[i].path);
    }
    stores[0] = stores[2];
    desc.n_stores = 3;
    assert_int_equal(ms_union_open(&opened, &desc, &err), MS_E_ARGUMENT);
    assert_string_equal(err.path, "stores[2]");
    desc.n_stores = MS_UNION_MAX + 1;
    assert_int_equal(ms_union_open(&opened, &desc, &err), MS_E_RANGE);
    assert_string_equal(err.path, "n_stores");
    desc.stores = NULL;
    desc.n_stores = 1;
    assert_int_equal(ms_union_open(&opened, &desc, &err), MS_E_ARGUMENT);
    assert_int_equal(ms_union_open(&opened, NULL, &err), MS_E_ARGUMENT);
    assert_null(opened);
    ms_close(u);
    for (size_t i = 0; i < 3; i++) store_close(&s[i]);
}

/* It is for reading: no change of any kind, no append, and it is no destination. */
TEST(a_union_changes_nothing)
{
    duo d = open_duo();
    ms_envelope m = ms_user_message(ms_text("hi"));
    ms_memory memory;
    uint64_t seq = 7;
    script p;
    script_open(&p, store_kind_at(0));
    script_is(&p, scene);
    test_store inside = p.s;
    p.s.store = union_of(&inside.store, 1);
    for (size_t i = 0; i < CHANGES; i++)
        if (!is_of_stream(each_change[i].call))
            if (script_try(&p, each_change[i].call) != MS_E_READ_ONLY)
                fail_msg("%s in a union", each_change[i].call);
    assert_int_equal(ms_redact(inside.store, p.names[0].seq, NULL), MS_OK);
    assert_int_equal(script_try(&p, "redact first"), MS_E_READ_ONLY);
    assert_int_equal(ms_hide(inside.store, p.names[0].seq, NULL), MS_OK);
    assert_int_equal(script_try(&p, "redact first"), MS_E_READ_ONLY);
    assert_int_equal(script_try(&p, "note first k v"), MS_E_HIDDEN);
    ms_close(p.s.store);
    store_close(&inside);
    append_at(d.stores[0], MS_T_TASK, "w", 1);
    assert_int_equal(ms_append(d.u, JOB, &m, &seq, NULL), MS_E_READ_ONLY);
    assert_int_equal(seq, 0);
    assert_int_equal(ms_append_batch(d.u, &m, 1, NULL, NULL), MS_E_ARGUMENT);
    ms_memory_init(&memory, d.u, JOB, MS_STR("w"));
    memory.runtime_mode = MS_RUNTIME_STORE;
    assert_int_equal(ms_memory_add(&memory, &m, NULL, NULL), MS_E_READ_ONLY);
    assert_int_equal(ms_copy(d.u, d.stores[0], NULL, NULL, NULL, NULL), MS_E_READ_ONLY);
    assert_int_equal(MS_UNION_STORE(NUMBER(1, 9)), 1);
    assert_int_equal(MS_UNION_SEQ(NUMBER(1, 9)), 9);
    close_duo(&d);
}

/* How many messages a history has. */
static size_t history_of(const ms_memory *m)
{
    ms_cursor it;
    size_t n = 0;
    assert_int_equal(ms_get_history(m, &it, NULL), MS_OK);
    while (query_next(&it) != NULL) n++;
    return n;
}

/* Orders of a query, by bits: by time, reverse, with a limit. */
static ms_query ordered(unsigned way, size_t limit)
{
    ms_query q = query_of(no_str(), 0);
    q.by_time = way & 1;
    q.reverse = way & 2;
    q.limit = way & 4 ? limit : 0;
    q.arena = &arena;
    return q;
}

TEST(a_union_of_no_stores_is_empty)
{
    ms_store *u = union_of(NULL, 0);
    ms_listing list;
    ms_memory memory;
    const ms_msg *msg;
    for (unsigned way = 0; way < 8; way++) {
        ms_query q = ordered(way, 4);
        assert_int_equal(count_of(u, &q), 0);
    }
    assert_int_equal(stat_of(u).last_seq, 0);
    assert_int_equal(ms_list(u, NULL, &arena, &list, NULL), MS_OK);
    assert_int_equal(list.count, 0);
    assert_int_equal(ms_get_by_seq(u, 1, &arena, &msg, NULL), MS_E_NOT_FOUND);
    assert_int_equal(ms_selfcheck(u, NULL), MS_OK);
    ms_memory_init(&memory, u, JOB, MS_STR("w"));
    memory.scope.kind = MS_SCOPE_WORKER;
    assert_int_equal(history_of(&memory), 0);
    ms_close(u);
}


/* ---- trouble in one of the stores ---- */

/* Twenty messages in two stores, at the seconds 0 to 19 in turns; the second one is a
 * store of the program's own. */
typedef struct mixed {
    duo d;
    own_store own;
    ms_store *u;
} mixed;

static mixed *open_mixed(void)
{
    mixed *m = (mixed *)calloc(1, sizeof *m);
    if (m == NULL) abort();
    m->d = open_duo();
    own_open(&m->own, m->d.stores[1]);
    for (int i = 0; i < 20; i++) append_at(m->d.stores[i % 2], MS_T_TASK, "w", i);
    ms_store *const stores[] = {m->d.stores[0], &m->own.base};
    m->u = union_of(stores, 2);
    return m;
}

static void close_mixed(mixed *m)
{
    assert_int_equal(m->own.open, 0);
    ms_close(m->u);
    close_duo(&m->d);
    free(m);
}

/* The second store stops at its n-th message with a code, or has damaged messages: each
 * costs itself. Without trouble it overwrites a message when its cursor moves. */
static const struct trouble {
    size_t stops_at;
    uint64_t damaged_each;
    ms_result code;
    uint64_t damaged;
} troubles[] = {
    {0, 0, MS_OK, 0},          {0, 7, MS_E_DAMAGED, 1}, {1, 0, MS_E_IO, 0},
    {6, 0, MS_E_IO, 0},        {1, 0, MS_E_DAMAGED, 3}, {6, 0, MS_E_DAMAGED, 3},
};

/* A limit of messages, as ordered() sets it, is met or not. */
static void must_have_trouble(mixed *m, const struct trouble *t, const ms_query *q)
{
    ms_error err;
    ms_cursor it;
    size_t n = 0;
    m->own.fleeting = true;
    m->own.stops_at = t->stops_at;
    m->own.damaged_each = t->damaged_each;
    m->own.with = t->code;
    ms_result code = ms_query_open(m->u, q, &it, &err);
    for (const ms_msg *msg; (msg = ms_next(&it)) != NULL; n++) {
        size_t at = q->reverse ? 19 - n : (q->limit != 0 ? 20 - q->limit : 0) + n;
        assert_int_equal(code, MS_OK);
        if (t->code == MS_OK)
            assert_int_equal(ms_seq(msg), q->by_time ? NUMBER(at % 2, at / 2 + 1)
                                                     : NUMBER(at / 10, at % 10 + 1));
    }
    if (code != MS_OK) assert_int_equal(err.code, code);
    uint64_t damaged = it.damaged;
    ms_result end = ms_cursor_close(&it, NULL);
    assert_int_equal(code != MS_OK ? code : end, t->code);
    if (t->code == MS_E_DAMAGED) assert_int_equal(damaged, t->damaged);
    if (t->stops_at == 0)
        assert_int_equal(n, q->limit != 0 ? q->limit : 20 - t->damaged);
}

/* Its code is returned, its damage counted once, and no cursor stays open. */
TEST(trouble_in_one_store_is_reported)
{
    for (size_t i = 0; i < COUNT(troubles); i++)
        for (unsigned way = 0; way < 8; way++) {
            mixed *m = open_mixed();
            ms_query q = ordered(way, troubles[i].stops_at != 0 ? 18 : 8);
            must_have_trouble(m, &troubles[i], &q);
            close_mixed(m);
        }
}

TEST(a_store_that_was_closed_meanwhile_is_named)
{
    mixed *m = open_mixed();
    ms_cursor it, late;
    ms_listing list;
    ms_memory memory;
    const ms_msg *msg;
    ms_stat stat;
    ms_error err;
    ms_memory_init(&memory, m->u, JOB, MS_STR("w"));
    memory.agent_types = MS_TYPES_ALL;
    assert_int_equal(ms_get_history(&memory, &late, NULL), MS_OK);
    m->own.base.open = 0;
    for (unsigned way = 0; way < 8; way++) {
        ms_query q = ordered(way, 3);
        assert_int_equal(ms_query_open(m->u, &q, &it, &err), MS_E_CLOSED);
        assert_string_equal(err.path, "stores[1]");
    }
    assert_int_equal(ms_get_by_seq(m->u, NUMBER(1, 1), &arena, &msg, &err), MS_E_CLOSED);
    assert_string_equal(err.path, "stores[1]");
    assert_int_equal(ms_store_stat(m->u, &stat, &err), MS_E_CLOSED);
    assert_string_equal(err.path, "stores[1]");
    assert_int_equal(test_refresh(m->u, NULL, &err), MS_E_CLOSED);
    assert_int_equal(ms_list(m->u, NULL, &arena, &list, &err), MS_E_CLOSED);
    assert_int_equal(list.count, 0);
    assert_int_equal(ms_get_history(&memory, &it, &err), MS_E_CLOSED);
    assert_null(ms_next(&it));
    assert_null(ms_next(&late));
    assert_int_equal(ms_cursor_close(&late, NULL), MS_E_CLOSED);
    assert_int_equal(ms_get_by_seq(m->u, NUMBER(0, 1), &arena, &msg, &err), MS_OK);
    close_mixed(m);
}

static ms_store *spoiled;

/* When the first cursor is closed, messages go and come in the other store. */
static void spoil(own_store *own)
{
    for (uint64_t seq = 6; seq < 11; seq += 2) ms_hide(spoiled, seq, NULL);
    append_at(spoiled, MS_T_TASK, "w", 100);
    own->closes = NULL;
}

TEST(a_window_is_of_one_moment)
{
    for (unsigned way = 0; way < 8; way++) {
        mixed *m = open_mixed();
        ms_query q = ordered((way & 5) == 1, 0);
        ms_cursor it;
        size_t n[2] = {0, 0};
        spoiled = m->d.stores[0];
        m->own.closes = spoil;
        q.limit = 14;
        q.oldest = q.reverse = way & 2;
        q.raw = way & 4 ? MS_RAW_MESSAGES : 0;
        EACH (msg, m->u, &q, &it) {
            assert_true(MS_UNION_SEQ(ms_seq(msg)) <= 10);
            n[MS_UNION_STORE(ms_seq(msg))]++;
        }
        assert_int_equal(n[0] + n[1], 14);
        if (q.by_time) assert_int_equal(n[0], 7);
        close_mixed(m);
    }
}

static ms_result get_low_memory(void *store, ms_arena *in)
{
    const ms_msg *msg;
    ms_result code = ms_get_by_seq((ms_store *)store, NUMBER(0, 3), in, &msg, NULL);
    if (code == MS_OK) assert_int_equal(ms_seq(msg), NUMBER(0, 3));
    else assert_null(msg);
    return code;
}

TEST(lookup_returns_no_message_when_memory_ends)
{
    mixed *m = open_mixed();
    assert_true(low_memory(get_low_memory, m->u, 8) > 1);
    close_mixed(m);
}

/* Stores of one's own that have neither lookup nor statistics. */
TEST(a_store_may_have_only_a_query)
{
    mixed *m = open_mixed();
    ms_cursor it;
    ms_memory memory;
    const ms_msg *msg;
    ms_stat stat;
    ms_listing list;
    uint64_t seq;
    own_only_query(&m->own);
    assert_int_equal(ms_get_by_seq(m->u, NUMBER(1, 4), &arena, &msg, NULL), MS_OK);
    assert_int_equal(ms_seq(msg), NUMBER(1, 4));
    assert_int_equal(test_refresh(m->u, &seq, NULL), MS_OK);
    assert_int_equal(seq, NUMBER(1, 10));
    ms_memory_init(&memory, m->u, JOB, MS_STR("w"));
    memory.agent_types = MS_TYPES_ALL;
    memory.scope.kind = MS_SCOPE_SINCE_TASK;
    assert_int_equal(history_of(&memory), 1);
    assert_int_equal(ms_store_stat(m->u, &stat, NULL), MS_E_UNSUPPORTED);
    assert_int_equal(ms_list(m->u, NULL, &arena, &list, NULL), MS_E_UNSUPPORTED);
    ms_query q = query_of(JOB, MS_VIEW_TIMELINE);
    assert_int_equal(ms_note(m->d.stores[0], 1, MS_STR("k"), ms_text("v"), NULL), MS_OK);
    for (unsigned way = 0; way < 4; way++) { /* it has no notes, and is not asked */
        q.raw = way & 1 ? MS_RAW_ALL : MS_RAW_NOTES;
        q.about_seq = way & 2 ? NUMBER(1, 0) : 0;
        assert_int_equal(count_of(m->u, &q), way & 2 ? 0 : way & 1 ? 21 : 1);
    }
    q = query_of(JOB, MS_VIEW_TIMELINE); /* of the moment of its opening, too */
    q.before_seq = NUMBER(1, 99);
    assert_int_equal(ms_query_open(m->u, &q, &it, NULL), MS_OK);
    append_at(m->d.stores[1], MS_T_TASK, "w", 100);
    for (seq = 0; query_next(&it) != NULL; seq++) {}
    assert_int_equal(seq, 20);
    close_mixed(m);
}


/* ---- many stores, other threads ---- */

TEST(order_holds_when_a_union_has_eight_thousand_stores)
{
    enum { MANY = 8000, ROOM = 4096 };
    char *room = (char *)malloc((size_t)MANY * ROOM);
    ms_store **stores = (ms_store **)calloc(MANY, sizeof *stores);
    ms_cursor it;
    ms_listing list;
    uint64_t rng = test_seed() + 9;
    if (room == NULL || stores == NULL) abort();
    ms_mem_desc desc = {.buffer_size = ROOM};
    for (size_t i = 0; i < MANY; i++) {
        desc.buffer = room + i * ROOM;
        assert_int_equal(ms_mem_open(&stores[i], &desc, NULL), MS_OK);
        append_at(stores[i], MS_T_TASK, "w", (int64_t)test_below(&rng, 5000));
    }
    ms_store *u = union_of(stores, MANY);
    for (unsigned way = 1; way < 8; way += 2) {
        ms_query q = ordered(way, 100);
        int64_t last = q.reverse ? INT64_MAX : -1, time;
        size_t n = 0;
        q.location = JOB;
        q.arena = NULL;
        EACH (m, u, &q, &it) {
            assert_true(ms_time(m, &time));
            assert_true(q.reverse ? time <= last : time >= last);
            last = time;
            n++;
        }
        assert_int_equal(n, q.limit != 0 ? 100 : MANY);
    }
    assert_int_equal(stat_of(u).messages, MANY);
    assert_int_equal(stat_of(u).last_seq, NUMBER(MANY - 1, 1));
    assert_int_equal(ms_list(u, NULL, &arena, &list, NULL), MS_OK);
    assert_int_equal(list.count, 1);
    assert_int_equal(list.items[0].messages, MANY);
    assert_int_equal(ms_selfcheck(u, NULL), MS_OK);
    ms_close(u);
    for (size_t i = 0; i < MANY; i++) ms_close(stores[i]);
    free(stores);
    free(room);
}

typedef struct busy {
    ms_store *store;
    size_t appends;
    bool failed;
} busy;

/* Appends, and hides every tenth message once the next one is there. */
static void *keep_busy(void *state)
{
    busy *b = (busy *)state;
    ms_envelope m = ms_observation(ms_text("at work"), ms_str_of(NULL));
    uint64_t seq;
    m.agent_key = MS_STR("w");
    for (size_t i = 0; i < b->appends; i++) {
        if (ms_append(b->store, JOB, &m, &seq, NULL) != MS_OK) b->failed = true;
        if (seq % 10 == 1 && seq > 10) ms_hide(b->store, seq - 1, NULL);
    }
    return NULL;
}

/* The numbers of each store rise by one, but for what is hidden. */
static void must_be_whole(ms_store *u, const ms_query *q)
{
    uint64_t last[2] = {0, 0}, lowest[2] = {UINT64_MAX, UINT64_MAX};
    ms_cursor it;
    size_t n = 0;
    EACH (m, u, q, &it) {
        uint64_t own = MS_UNION_SEQ(ms_seq(m)), which = MS_UNION_STORE(ms_seq(m));
        bool first = last[which] == 0;
        uint64_t step = first ? 1 : q->reverse ? last[which] - own : own - last[which];
        if (step != 1 && step != 2)
            fail_msg("%llu after %llu", (unsigned long long)own,
                     (unsigned long long)last[which]);
        last[which] = own;
        if (own < lowest[which]) lowest[which] = own;
        n++;
    }
    for (int i = 0; i < 2 && q->limit == 0; i++)
        assert_true(last[i] == 0 || lowest[i] == 1);
    if (q->limit != 0 && n != q->limit && (lowest[0] > 1 || lowest[1] > 1))
        assert_true(n <= q->limit);
}

/* Any thread may read while others append to the stores. */
TEST(threads_read_while_others_append)
{
    duo d = open_duo();
    busy work[2];
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++) {
        busy b = {d.stores[i], test_times(2000), false};
        work[i] = b;
        assert_int_equal(pthread_create(&threads[i], NULL, keep_busy, &work[i]), 0);
    }
    for (size_t round = 0; round < test_times(200); round++) {
        ms_query q = query_of(JOB, MS_VIEW_TIMELINE);
        q.reverse = round & 1;
        q.limit = round & 2 ? 30 : 0;
        q.oldest = (round & 6) == 6;
        q.by_time = round % 5 == 4 && q.limit == 0 && !q.reverse;
        q.arena = &arena;
        must_be_whole(d.u, &q);
        ms_arena_reset(&arena);
    }
    for (size_t i = 0; i < 2; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (size_t i = 0; i < 2; i++) assert_false(work[i].failed);
    assert_int_equal(ms_selfcheck(d.u, NULL), MS_OK);
    close_duo(&d);
}

int main(void)
{
    return run_all_tests(reset, release);
}
