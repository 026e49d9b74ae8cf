/* Several stores as one: whatever is asked of a union is compared with arrays in a row,
 * sorted where order is by time, or with one arena store that holds the same messages in
 * the same order.
 */

#define _GNU_SOURCE
#include "script.h"
#include "own_store.h"
#include "twin.h"
#include "arena.h"

#include <pthread.h>

enum { STORES_MAX = 6 };

#define NUMBER(which, own) ((uint64_t)(which) << 40 | (own))


/* ---- stores and their messages ---- */

enum { TIMES_RISE = 1, TIMES_ALL = 2 };      /* of the messages of one store */

typedef struct family {
    test_store s[STORES_MAX];
    ms_store *stores[STORES_MAX];
    size_t n;
    twin all;                 /* in order of numbers, which are the union's */
    int64_t clock;            /* time of the newest message */
    ms_store *u;
} family;

static ms_store *union_of(ms_store *const *stores, size_t n)
{
    ms_union_desc desc;
    ms_store *store;
    ms_error err;
    memset(&desc, 0, sizeof desc);
    desc.stores = stores;
    desc.n_stores = n;
    must_ok(ms_union_open(&store, &desc, &err), &err, "union");
    return store;
}

/* The message goes into the array by its number. */
static void family_insert(family *f, twin_msg *m)
{
    twin_push(&f->all, m);
    for (size_t i = f->all.count - 1; i > 0; i--) {
        if (f->all.items[i - 1]->seq < m->seq) break;
        f->all.items[i] = f->all.items[i - 1];
        f->all.items[i - 1] = m;
    }
}

static void family_append(family *f, size_t which, const ms_envelope *m)
{
    const ms_msg *msg;
    uint64_t own = must_append(f->stores[which], no_str(), m);
    twin_msg *copy = twin_msg_new(m, no_str());
    copy->seq = NUMBER(which, own);
    assert_int_equal(ms_get_by_seq(f->stores[which], own, &arena, &msg, NULL), MS_OK);
    twin_learn_size(copy, msg);
    family_insert(f, copy);
}

/* A random message into a random store; times: TIMES_*. */
static void family_grow(family *f, uint64_t *rng, unsigned times)
{
    ms_envelope m = random_message(rng);
    if (times & TIMES_ALL) m.has_time = true;
    if (times & TIMES_RISE) {
        f->clock += (int64_t)test_below(rng, 3) * SECONDS(0.5);
        if (m.has_time) m.time_ns = f->clock;
    }
    family_append(f, (size_t)test_below(rng, f->n), &m);
}

static void family_open(family *f, uint64_t *rng, size_t messages, unsigned times)
{
    store_options options;
    memset(f, 0, sizeof *f);
    memset(&options, 0, sizeof options);
    options.keep_unset_times = true;
    f->n = 1 + (size_t)test_below(rng, STORES_MAX);
    for (size_t i = 0; i < f->n; i++) {
        f->s[i] = store_open(store_kind_at((size_t)test_below(rng, STORE_KINDS)),
                             &options);
        f->stores[i] = f->s[i].store;
    }
    for (size_t i = 0; i < messages; i++) family_grow(f, rng, times);
    f->u = union_of(f->stores, f->n);
}

static void family_close(family *f)
{
    ms_close(f->u);
    for (size_t i = 0; i < f->n; i++) store_close(&f->s[i]);
    twin_deinit(&f->all);
}

static size_t which_of(const twin_msg *m)
{
    return (size_t)(m->seq >> 40);
}


/* ---- the naive union ---- */

typedef struct entry {
    const twin_msg *m;
    int64_t key;
} entry;

/* A message without time takes that of the one before it in its store. */
static void entry_keys(entry *e, size_t n, bool untimed_first)
{
    for (size_t i = 0; i < n; i++) {
        bool first = i == 0 || which_of(e[i - 1].m) != which_of(e[i].m);
        e[i].key = first ? MS_TIME_NONE : e[i - 1].key;
        if (e[i].m->has_time) e[i].key = e[i].m->time_ns;
    }
    for (size_t i = 0; i < n && untimed_first; i++)
        if (!e[i].m->has_time) e[i].key = MS_TIME_NONE;
}

/* Sorts by key; equal ones stay in their order. */
static void entry_sort(entry *e, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        for (size_t k = i; k > 0 && e[k - 1].key > e[k].key; k--) {
            entry hold = e[k];
            e[k] = e[k - 1];
            e[k - 1] = hold;
        }
    }
}

/* The answer of a union to a query; out has room for all. */
static size_t oracle(const twin *all, const ms_query *q, const twin_msg **out)
{
    entry *e = (entry *)twin_memory(NULL, (all->count + 1) * sizeof *e);
    size_t n = 0, from = 0, keep;
    for (size_t i = 0; i < all->count; i++)
        if (twin_match(q, all->items[i])) e[n++].m = all->items[i];
    if (q->by_time) {
        entry_keys(e, n, q->untimed_first);
        entry_sort(e, n);
    }
    keep = q->limit != 0 && q->limit < n ? q->limit : n;
    if (!q->oldest) from = n - keep;
    for (size_t i = 0; i < keep; i++)
        out[i] = e[q->reverse ? from + keep - 1 - i : from + i].m;
    free(e);
    return keep;
}

/* Every message that comes is one that stands by itself. */
static void must_answer(const family *f, const ms_query *q)
{
    const twin_msg **want =
        (const twin_msg **)twin_memory(NULL, (f->all.count + 1) * sizeof want[0]);
    size_t n = oracle(&f->all, q, want), i = 0;
    const ms_msg *again;
    ms_cursor it;
    ms_error err;
    EACH (msg, f->u, q, &it) {
        if (i == n) fail_msg("more than %zu messages", n);
        twin_must_match(want[i++], msg, "union");
        must_ok(ms_decode(msg, ms_size(msg), &again, &err), &err, "decode");
    }
    if (i != n) fail_msg("%zu messages where %zu were expected", i, n);
    free(want);
}

/* A number that bounds something: of a message, beside one, or between two stores. */
static uint64_t random_bound(const family *f, uint64_t *rng)
{
    if (test_one_in(rng, 4) || f->all.count == 0)
        return NUMBER(test_below(rng, f->n + 1), test_below(rng, 3));
    return f->all.items[test_below(rng, f->all.count)]->seq + test_below(rng, 3) - 1;
}

static ms_query union_query(const family *f, uint64_t *rng, ms_str team[TEAM_MAX])
{
    ms_query q = random_query(rng, 1, team, &arena);
    if (test_one_in(rng, 2)) q.location = no_str();
    if (test_one_in(rng, 2)) q.views = MS_VIEW_TIMELINE;
    q.after_seq = test_one_in(rng, 4) ? random_bound(f, rng) : 0;
    q.before_seq = test_one_in(rng, 4) ? random_bound(f, rng) : 0;
    if (test_one_in(rng, 3)) q.limit = (size_t)test_below(rng, 40);
    if (test_one_in(rng, 12)) q.limit = SIZE_MAX;
    return q;
}

static void any_query_equals_arrays_in_a_row(void **state)
{
    uint64_t rng = test_seed();
    ms_str team[TEAM_MAX];
    family f;
    (void)state;
    for (size_t round = test_times(60); round > 0; round--) {
        family_open(&f, &rng, (size_t)test_below(&rng, 80),
                    (unsigned)test_below(&rng, 4));
        for (int i = 0; i < 60; i++) {
            ms_query q = union_query(&f, &rng, team);
            must_answer(&f, &q);
            if (test_one_in(&rng, 4)) family_grow(&f, &rng, 0);
        }
        family_close(&f);
        ms_arena_reset(&arena);
    }
}


/* ---- one message, totals ---- */

static void must_find(ms_store *store, const family *f)
{
    const ms_msg *msg;
    for (size_t i = 0; i < f->all.count; i++) {
        const twin_msg *want = f->all.items[i];
        assert_int_equal(ms_get_by_seq(store, want->seq, &arena, &msg, NULL), MS_OK);
        twin_must_match(want, msg, "by number");
        assert_int_equal(ms_get_by_seq(store, want->seq, NULL, &msg, NULL), MS_E_ARENA);
        assert_true(MS_UNION_STORE(want->seq) < f->n);
        assert_int_equal(NUMBER(MS_UNION_STORE(want->seq), MS_UNION_SEQ(want->seq)),
                         want->seq);
    }
}

static void every_message_is_found_by_number(void **state)
{
    uint64_t rng = test_seed() + 2;
    const uint64_t none[] = {0, NUMBER(0, 199), NUMBER(1, 0), NUMBER(STORES_MAX, 1),
                             UINT64_MAX};
    const ms_msg *msg;
    family f;
    (void)state;
    for (size_t round = test_times(6); round > 0; round--) {
        family_open(&f, &rng, 60, (unsigned)test_below(&rng, 4));
        must_find(f.u, &f);
        for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
            assert_int_equal(ms_get_by_seq(f.u, none[i], &arena, &msg, NULL),
                             MS_E_NOT_FOUND);
            assert_null(msg);
        }
        family_close(&f);
    }
}

static void totals_are_sums(void **state)
{
    uint64_t rng = test_seed() + 3, last, durable = 7;
    ms_stat stat;
    family f;
    (void)state;
    for (size_t round = test_times(10); round > 0; round--) {
        uint64_t bytes = 0;
        family_open(&f, &rng, (size_t)test_below(&rng, 60), 0);
        for (size_t i = 0; i < f.all.count; i++) bytes += f.all.items[i]->size;
        assert_int_equal(ms_store_stat(f.u, &stat, NULL), MS_OK);
        assert_int_equal(stat.messages, f.all.count);
        assert_int_equal(stat.bytes, bytes);
        assert_int_equal(stat.last_seq, twin_last_seq(&f.all));
        assert_int_equal(test_refresh(f.u, &last, NULL), MS_OK);
        assert_int_equal(last, stat.last_seq);
        assert_int_equal(ms_wait(f.u, last, 1, &last, NULL), MS_OK);
        assert_int_equal(last, stat.last_seq);
        assert_int_equal(ms_sync(f.u, &durable, NULL), MS_OK);
        assert_int_equal(durable, 0);
        assert_int_equal(ms_tick(f.u, 10, NULL), MS_OK);
        assert_int_equal(ms_selfcheck(f.u, NULL), MS_OK);
        family_close(&f);
    }
}


/* ---- listings ---- */

/* In order of the union; out is the answer of twin_list without a limit. */
static void order_infos(ms_info *out, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        for (size_t k = i; k > 0; k--) {
            ms_info *a = &out[k - 1], *b = &out[k], hold = *a;
            bool later = b->last_time_ns != a->last_time_ns
                             ? b->last_time_ns > a->last_time_ns
                             : b->last_seq > a->last_seq;
            if (!later) break;
            *a = *b;
            *b = hold;
        }
    }
}

static void must_list_by_time(const family *f, const ms_list_query *q)
{
    ms_info want[400];
    ms_list_query all = *q;
    ms_listing got;
    all.limit = 0;
    size_t n = twin_list(&f->all, &all, want);
    order_infos(want, n);
    if (q->limit != 0 && q->limit < n) n = q->limit;
    assert_int_equal(ms_list(f->u, q, &arena, &got, NULL), MS_OK);
    assert_int_equal(got.count, n);
    for (size_t i = 0; i < n; i++) {
        assert_true(ms_str_equal(got.items[i].location, want[i].location));
        assert_true(twin_str_equal(got.items[i].agent_key, want[i].agent_key));
        assert_int_equal(got.items[i].messages, want[i].messages);
        assert_int_equal(got.items[i].last_seq, want[i].last_seq);
        assert_true(got.items[i].last_time_ns == want[i].last_time_ns);
    }
}

static void a_listing_adds_up_the_stores(void **state)
{
    uint64_t rng = test_seed() + 4;
    family f;
    (void)state;
    for (size_t round = test_times(30); round > 0; round--) {
        family_open(&f, &rng, (size_t)test_below(&rng, 90),
                    (unsigned)test_below(&rng, 4));
        for (int i = 0; i < 12; i++) {
            ms_list_query q;
            memset(&q, 0, sizeof q);
            q.agents = test_one_in(&rng, 2);
            if (q.agents && test_one_in(&rng, 2)) q.location = random_location(&rng);
            if (test_one_in(&rng, 3)) q.prefix = MS_STR("job_1");
            if (test_one_in(&rng, 3) && q.agents) q.prefix = MS_STR("w");
            if (test_one_in(&rng, 3)) q.limit = 1 + (size_t)test_below(&rng, 4);
            must_list_by_time(&f, &q);
        }
        family_close(&f);
    }
}


/* ---- histories ---- */

/* One arena store with everything, in the order of the union; real[i] is the union's
 * number of its message i + 1. */
static test_store one_store(const family *f, bool by_time, uint64_t *real)
{
    store_options options;
    const twin_msg *want[400];
    ms_query q = query_of(no_str(), MS_VIEW_TIMELINE);
    memset(&options, 0, sizeof options);
    options.keep_unset_times = true;
    test_store s = store_open(store_kind_at(0), &options);
    q.by_time = by_time;
    size_t n = oracle(&f->all, &q, want);
    for (size_t i = 0; i < n; i++) {
        ms_envelope m = twin_envelope(want[i]);
        real[i] = want[i]->seq;
        must_append(s.store, no_str(), &m);
    }
    return s;
}

static ms_memory random_memory(uint64_t *rng, ms_str team[TEAM_MAX])
{
    ms_memory m;
    ms_memory_init(&m, NULL, random_location(rng), asked_agent(rng));
    m.subordinates = team;
    m.n_subordinates = test_one_in(rng, 3) ? 0 : random_team(rng, team);
    m.timeline = test_one_in(rng, 3);
    m.keep_duplicates = test_one_in(rng, 4);
    m.by_time = test_one_in(rng, 5);
    m.untimed_first = true;
    m.no_conversation = test_one_in(rng, 5);
    m.team_by_agent = test_one_in(rng, 3);
    if (test_one_in(rng, 3)) m.agent_types = MS_TYPES_ALL;
    if (test_one_in(rng, 2)) m.conversation_limit = (size_t)test_below(rng, 6);
    if (test_one_in(rng, 2)) m.agent_limit = (size_t)test_below(rng, 6);
    if (test_one_in(rng, 2)) m.team_limit = (size_t)test_below(rng, 6);
    if (test_one_in(rng, 2)) m.global_limit = (size_t)test_below(rng, 6);
    if (test_one_in(rng, 3)) m.limit = (size_t)test_below(rng, 9);
    m.scope.kind = (ms_scope_kind)test_below(rng, (uint64_t)MS_SCOPE_SINCE_TASK + 1);
    m.scope.turns = (size_t)test_below(rng, 5);
    m.scope.has_previous_phase = test_one_in(rng, 2);
    m.scope.previous_phase = test_one_in(rng, 2) ? 7 : 0;
    if (m.by_time || m.team_by_agent || m.n_subordinates > MS_CURSOR_AGENTS)
        m.arena = &arena;
    return m;
}

/* The same history from the union and from the one store. */
static void must_remember(const ms_memory *plain, const ms_memory *joined,
                          const uint64_t *real)
{
    ms_cursor a, b;
    const ms_msg *x, *y;
    ms_error err;
    must_ok(ms_get_history(plain, &a, &err), &err, "plain");
    must_ok(ms_get_history(joined, &b, &err), &err, "union");
    while ((x = query_next(&a)) != NULL) {
        y = ms_next(&b);
        if (y == NULL) fail_msg("the union's history ends at %zu", (size_t)b.returned);
        uint64_t seq = ms_seq(y) & ((uint64_t)1 << 63) ? ms_seq(y) : ms_seq(x);
        if (ms_seq(y) != real[seq - 1])
            fail_msg("message %llx where %llx was expected",
                     (unsigned long long)ms_seq(y), (unsigned long long)real[seq - 1]);
    }
    assert_null(query_next(&b));
}

static void a_history_is_that_of_one_store(void **state)
{
    uint64_t rng = test_seed() + 5, real[400];
    ms_str team[TEAM_MAX];
    family f;
    (void)state;
    for (size_t round = test_times(50); round > 0; round--) {
        bool by_time = test_one_in(&rng, 2);
        unsigned times = (unsigned)test_below(&rng, 4);
        if (by_time) times |= TIMES_ALL;
        family_open(&f, &rng, 20 + (size_t)test_below(&rng, 120), times);
        test_store s = one_store(&f, by_time, real);
        for (int i = 0; i < 60; i++) {
            ms_memory plain = random_memory(&rng, team), joined = plain;
            plain.store = s.store;
            joined.store = f.u;
            if (by_time) joined.by_time = true;
            if (by_time) joined.arena = &arena;
            if (joined.by_time && plain.scope.kind >= MS_SCOPE_WORKER) /* by number */
                plain.scope.kind = joined.scope.kind = MS_SCOPE_ALL;
            must_remember(&plain, &joined, real);
        }
        store_close(&s);
        family_close(&f);
        ms_arena_reset(&arena);
    }
}

/* The numbers of a history. */
static size_t history_seqs(const ms_memory *m, uint64_t *seqs)
{
    ms_cursor it;
    ms_error err;
    size_t n = 0;
    must_ok(ms_get_history(m, &it, &err), &err, "history");
    for (const ms_msg *x; (x = query_next(&it)) != NULL;) seqs[n++] = ms_seq(x);
    return n;
}

/* What runs now is merged block by block; it may be a union, too. */
static void a_union_may_be_what_runs_now(void **state)
{
    uint64_t rng = test_seed() + 6, real[400], want[400], got[400];
    family f;
    (void)state;
    for (size_t round = test_times(10); round > 0; round--) {
        family_open(&f, &rng, 100, TIMES_RISE | TIMES_ALL);
        test_store one = one_store(&f, false, real), old = store_open(one.kind, NULL);
        for (int i = 0; i < 30; i++) {
            ms_envelope m = random_message(&rng);
            must_append(old.store, no_str(), &m);
        }
        for (int i = 0; i < 20; i++) {
            ms_str team[TEAM_MAX];
            ms_memory m = random_memory(&rng, team);
            m.store = old.store;
            m.runtime = one.store;
            m.runtime_mode = MS_RUNTIME_MERGE;
            size_t n = history_seqs(&m, want);
            m.runtime = f.u;
            assert_int_equal(history_seqs(&m, got), n);
            for (size_t k = 0; k < n; k++)
                assert_true(got[k] == want[k] || got[k] == real[want[k] - 1]);
            ms_arena_reset(&arena);
        }
        store_close(&old);
        store_close(&one);
        family_close(&f);
    }
}

/* A small union: a store on the heap and one in a mapped log. */
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

/* A larger number is later, also by time: all of the next store follows a task. */
static void the_last_task_divides_every_store(void **state)
{
    duo d = open_duo();
    ms_memory memory;
    uint64_t got[8];
    (void)state;
    append_at(d.stores[0], MS_T_GLOBAL_OBSERVATION, NULL, 4);
    append_at(d.stores[0], MS_T_TASK, "w", 2);
    append_at(d.stores[0], MS_T_ACTION, "w", 3);
    append_at(d.stores[1], MS_T_GLOBAL_OBSERVATION, NULL, 1);
    ms_memory_init(&memory, d.u, JOB, MS_STR("w"));
    memory.arena = &arena;
    memory.agent_types = MS_TYPES_AGENT;
    for (int way = 0; way < 8; way++) {
        const uint64_t want[2][3] = {{NUMBER(0, 2), NUMBER(0, 3), NUMBER(1, 1)},
                                     {NUMBER(1, 1), NUMBER(0, 2), NUMBER(0, 3)}};
        size_t n = 0;
        memory.timeline = way & 1;
        memory.by_time = way & 4;
        memory.scope.kind = way & 2 ? MS_SCOPE_WORKER : MS_SCOPE_SINCE_TASK;
        assert_int_equal(history_seqs(&memory, got), way & 2 ? 2 : 3);
        for (size_t i = 0; i < 3; i++) {
            uint64_t seq = want[(way & 5) == 5][i];
            if (way & 2 && seq == NUMBER(0, 2)) continue;
            assert_int_equal(got[n++], seq);
        }
    }
    close_duo(&d);
}


/* ---- copies ---- */

static void must_copy(const family *f, ms_store *from, size_t kind, const ms_keep *keep)
{
    test_store to = store_open(store_kind_at(kind), NULL);
    twin copy;
    ms_copy_report got, want;
    ms_error err;
    twin_init(&copy);
    must_ok(ms_copy(to.store, from, keep, NULL, &got, &err), &err, "copy");
    want = twin_copy(&copy, &f->all, keep);
    assert_int_equal(got.copied, want.copied);
    assert_int_equal(got.dropped, want.dropped);
    ms_query q = query_of(no_str(), MS_VIEW_TIMELINE);
    twin_must_query(&copy, to.store, &q);
    store_reopen(&to);
    twin_must_query(&copy, to.store, &q);
    q.location = MS_STR("job_1");
    q.views = MS_VIEW_CONVERSATION | MS_VIEW_GLOBAL;
    q.limit = 5;
    twin_must_query(&copy, to.store, &q);
    must_ok(ms_selfcheck(to.store, &err), &err, "selfcheck");
    twin_deinit(&copy);
    store_close(&to);
}

/* Numbers are kept, so they go over in their order, whatever the order of the union. */
static void a_copy_keeps_the_numbers(void **state)
{
    uint64_t rng = test_seed() + 7;
    ms_str only[] = {MS_STR("job_1"), MS_STR("a/b")};
    family f;
    (void)state;
    for (size_t round = test_times(12); round > 0; round--) {
        ms_keep keep;
        family_open(&f, &rng, 80, (unsigned)test_below(&rng, 4));
        memset(&keep, 0, sizeof keep);
        if (test_one_in(&rng, 3)) keep.newest = 1 + (size_t)test_below(&rng, 5);
        if (test_one_in(&rng, 3)) keep.n_locations = 2;
        if (keep.n_locations != 0) keep.locations = only;
        keep.has_since = test_one_in(&rng, 3);
        keep.since_ns = SECONDS(3);
        must_copy(&f, f.u, round, &keep);
        family_close(&f);
    }
}

static void a_union_is_rewritten_into_one_log(void **state)
{
    uint64_t rng = test_seed() + 8;
    family f;
    ms_log_desc desc;
    ms_store *log;
    ms_error err;
    char *folder = scratch_folder(), *path = scratch_file(folder, "all.msl");
    (void)state;
    family_open(&f, &rng, 120, 0);
    memset(&desc, 0, sizeof desc);
    desc.path = path;
    must_ok(ms_log_rewrite(f.u, &desc, false, NULL, NULL, &err), &err, "rewrite");
    assert_int_equal(ms_log_open(&log, &desc, NULL), MS_OK);
    ms_query q = query_of(no_str(), MS_VIEW_TIMELINE);
    twin_must_query(&f.all, log, &q);
    assert_int_equal(ms_selfcheck(log, NULL), MS_OK);
    uint64_t next = append_text(log, "goes on behind");
    assert_int_equal(next, twin_last_seq(&f.all) + 1);
    ms_close(log);
    family_close(&f);
    scratch_remove(folder);
    free(path);
    free(folder);
}

/* Numbers of a copy have no room for another index. */
static void a_copy_of_a_union_is_refused_by_another_union(void **state)
{
    duo d = open_duo();
    test_store copy = store_open(store_kind_at(0), NULL);
    ms_cursor it;
    ms_stat stat;
    ms_error err;
    ms_memory memory;
    uint64_t seq;
    ms_query q = query_of(no_str(), 0);
    (void)state;
    append_at(d.stores[1], MS_T_TASK, "w", 1);
    assert_int_equal(ms_copy(copy.store, d.u, NULL, NULL, NULL, NULL), MS_OK);
    ms_store *v = union_of(&copy.store, 1);
    for (q.limit = 0; q.limit < 2; q.limit++) {
        assert_int_equal(ms_query_open(v, &q, &it, &err), MS_E_RANGE);
        assert_string_equal(err.path, "stores[0]");
        assert_null(ms_next(&it));
    }
    assert_int_equal(ms_store_stat(v, &stat, &err), MS_E_RANGE);
    assert_string_equal(err.path, "stores[0]");
    assert_int_equal(test_refresh(v, &seq, &err), MS_E_RANGE);
    ms_memory_init(&memory, v, JOB, MS_STR("w"));
    assert_int_equal(ms_get_history(&memory, &it, NULL), MS_E_RANGE);
    ms_close(v);
    close_duo(&d);
    store_close(&copy);
}


/* ---- what a union refuses ---- */

static void a_refused_store_is_named_when_a_union_opens(void **state)
{
    test_store s[3];
    ms_store *stores[4], *u, *opened;
    ms_store closed;
    ms_union_desc desc;
    ms_error err;
    (void)state;
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
    memset(&desc, 0, sizeof desc);
    desc.stores = stores;
    desc.n_stores = 4;
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
static void a_union_changes_nothing(void **state)
{
    duo d = open_duo();
    ms_envelope m = ms_user_message(ms_text("hi"));
    ms_memory memory;
    uint64_t seq = 7;
    script p;
    (void)state;
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

static void a_union_of_no_stores_is_empty(void **state)
{
    ms_store *u = union_of(NULL, 0);
    uint64_t seqs[1];
    ms_listing list;
    ms_memory memory;
    const ms_msg *msg;
    (void)state;
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
    assert_int_equal(history_seqs(&memory, seqs), 0);
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

/* Its code is returned, its damage counted once, and no cursor stays open. */
static void trouble_in_one_store_is_reported(void **state)
{
    ms_error err;
    (void)state;
    for (unsigned way = 0; way < 32; way++) {
        mixed *m = open_mixed();
        ms_query q = ordered(way, 18);
        ms_cursor it;
        m->own.stops_at = way & 16 ? 1 : 6;
        m->own.with = way & 8 ? MS_E_IO : MS_E_DAMAGED;
        ms_result code = ms_query_open(m->u, &q, &it, &err);
        while (ms_next(&it) != NULL) assert_int_equal(code, MS_OK);
        if (code != MS_OK) assert_int_equal(err.code, code);
        uint64_t damaged = it.damaged;
        ms_result end = ms_cursor_close(&it, NULL);
        assert_int_equal(code != MS_OK ? code : end, m->own.with);
        if (m->own.with == MS_E_DAMAGED) assert_int_equal(damaged, 3);
        close_mixed(m);
    }
}

/* A store of one's own may overwrite a message when its cursor moves. */
static void a_sort_keeps_messages_that_a_store_overwrites(void **state)
{
    (void)state;
    for (unsigned way = 0; way < 8; way++) {
        mixed *m = open_mixed();
        ms_query q = ordered(way, 7);
        ms_cursor it;
        size_t n = 0;
        m->own.fleeting = true;
        EACH (msg, m->u, &q, &it) {
            size_t at = q.reverse ? 19 - n : (q.limit != 0 ? 20 - q.limit : 0) + n;
            assert_int_equal(ms_seq(msg), q.by_time ? NUMBER(at % 2, at / 2 + 1)
                                                    : NUMBER(at / 10, at % 10 + 1));
            n++;
        }
        assert_int_equal(n, way & 4 ? 7 : 20);
        close_mixed(m);
    }
}

static void a_store_that_was_closed_meanwhile_is_named(void **state)
{
    mixed *m = open_mixed();
    ms_cursor it, late;
    ms_listing list;
    ms_memory memory;
    const ms_msg *msg;
    ms_stat stat;
    ms_error err;
    (void)state;
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

static void a_window_is_of_one_moment(void **state)
{
    (void)state;
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

/* Stores of one's own that have neither lookup nor statistics. */
static void a_store_may_have_only_a_query(void **state)
{
    mixed *m = open_mixed();
    ms_memory memory;
    const ms_msg *msg;
    ms_stat stat;
    ms_listing list;
    uint64_t seq, seqs[30];
    (void)state;
    m->own.backend.get = NULL;
    m->own.backend.list = NULL;
    m->own.backend.stat = NULL;
    m->own.backend.change = NULL;
    assert_int_equal(ms_get_by_seq(m->u, NUMBER(1, 4), &arena, &msg, NULL), MS_OK);
    assert_int_equal(ms_seq(msg), NUMBER(1, 4));
    assert_int_equal(test_refresh(m->u, &seq, NULL), MS_OK);
    assert_int_equal(seq, NUMBER(1, 10));
    ms_memory_init(&memory, m->u, JOB, MS_STR("w"));
    memory.agent_types = MS_TYPES_ALL;
    memory.scope.kind = MS_SCOPE_SINCE_TASK;
    assert_int_equal(history_seqs(&memory, seqs), 1);
    assert_int_equal(ms_store_stat(m->u, &stat, NULL), MS_E_UNSUPPORTED);
    assert_int_equal(ms_list(m->u, NULL, &arena, &list, NULL), MS_E_UNSUPPORTED);
    ms_query q = query_of(JOB, MS_VIEW_TIMELINE);
    assert_int_equal(ms_note(m->d.stores[0], 1, MS_STR("k"), ms_text("v"), NULL), MS_OK);
    for (unsigned way = 0; way < 4; way++) { /* it has no notes, and is not asked */
        q.raw = way & 1 ? MS_RAW_ALL : MS_RAW_NOTES;
        q.about_seq = way & 2 ? NUMBER(1, 0) : 0;
        assert_int_equal(count_of(m->u, &q), way & 2 ? 0 : way & 1 ? 21 : 1);
    }
    close_mixed(m);
}

/* A record that is damaged costs itself. */
static void damage_is_counted_in_every_order(void **state)
{
    (void)state;
    for (unsigned way = 0; way < 8; way++) {
        test_store s[2] = {store_open(store_kind_at(2), NULL),
                           store_open(store_kind_at(2), NULL)};
        ms_store *stores[] = {s[0].store, s[1].store};
        ms_query q = ordered(way, 8);
        ms_cursor it;
        size_t n = 0;
        for (int i = 0; i < 10; i++) append_at(stores[i % 2], MS_T_TASK, "w", i);
        const char *msg = (const char *)must_get(stores[1], 3);
        ((char *)s[1].buffer)[msg - (const char *)s[1].buffer + 20] ^= 1;
        ms_store *u = union_of(stores, 2);
        assert_int_equal(ms_query_open(u, &q, &it, NULL), MS_OK);
        while (ms_next(&it) != NULL) n++;
        assert_int_equal(n, way & 4 ? 8 : 9);
        assert_true(it.damaged == 1);
        assert_int_equal(ms_cursor_close(&it, NULL), MS_E_DAMAGED);
        ms_close(u);
        store_close(&s[0]);
        store_close(&s[1]);
    }
}



/* ---- changes in the stores ---- */

/* Records as a cursor gave them, with the numbers that they should have. */
typedef struct given {
    char *bytes[1024];
    size_t n;
} given;

static void given_free(given *g)
{
    for (size_t i = 0; i < g->n; i++) free(g->bytes[i]);
    g->n = 0;
}

static const ms_msg *given_at(const given *g, size_t i)
{
    return (const ms_msg *)(const void *)g->bytes[i];
}

/* Copies what a cursor returns; `sealed`: each message has to be sound by itself. */
static void given_read(given *g, ms_cursor *it, bool sealed)
{
    const ms_msg *again;
    ms_error err;
    memset(g, 0, sizeof *g);
    for (const ms_msg *msg; (msg = query_next(it)) != NULL;) {
        assert_true(g->n < sizeof g->bytes / sizeof g->bytes[0]);
        char *copy = (char *)twin_memory(NULL, ms_size(msg));
        memcpy(copy, msg, ms_size(msg));
        g->bytes[g->n++] = copy;
        if (sealed && ms_kind_of(msg) == MS_KIND_MESSAGE)
            must_ok(ms_decode(copy, ms_size(msg), &again, &err), &err, "decode");
    }
}

static void given_query(given *g, ms_store *store, const ms_query *q, bool sealed)
{
    ms_cursor it;
    ms_error err;
    must_ok(ms_query_open(store, q, &it, &err), &err, "query");
    given_read(g, &it, sealed);
}

/* The same records: all but the number and the check of the header is compared. */
static void must_be_given(const given *want, size_t from, const given *got, size_t at,
                          size_t n, uint64_t which)
{
    for (size_t i = 0; i < n; i++) {
        const ms_msg *a = given_at(want, from + i), *b = given_at(got, at + i);
        uint64_t seq = ms_seq(a) != 0 ? ms_seq(a) | which << 40 : 0;
        assert_int_equal(ms_seq(b), seq);
        assert_int_equal(ms_kind_of(b), ms_kind_of(a));
        assert_int_equal(ms_size(b), ms_size(a));
        assert_memory_equal(want->bytes[from + i], got->bytes[at + i], 8);
        assert_memory_equal(want->bytes[from + i] + 16, got->bytes[at + i] + 16, 12);
        assert_memory_equal(want->bytes[from + i] + 32, got->bytes[at + i] + 32,
                            ms_size(a) - 32);
    }
}

/* A random change of a random message; what a store cannot do, it does not. */
static void family_change(family *f, uint64_t *rng, bool redact, ms_stream *stream)
{
    size_t which = (size_t)test_below(rng, f->n);
    ms_store *store = f->stores[which];
    ms_stat stat;
    ms_envelope m = random_message(rng);
    const ms_msg *msg;
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    uint64_t seq = 1 + test_below(rng, stat.last_seq + 1);
    switch (test_below(rng, 8)) {
    case 0:
        ms_hide(store, seq, NULL);
        break;
    case 1:
        if (ms_get_by_seq(store, seq, &arena, &msg, NULL) != MS_OK) break;
        m.type = ms_type_of(msg);
        m = message_of(m.type, MS_STR("amended"));
        m.has_time = test_one_in(rng, 2);
        m.time_ns = random_time(rng);
        ms_amend(store, seq, &m, NULL);
        break;
    case 2:
        ms_note(store, seq, MS_STR("rating"), ms_json(MS_STR("5")), NULL);
        break;
    case 3:
        ms_location_set(store, random_location(rng),
                        test_one_in(rng, 2) ? MS_STR("{\"title\":\"t\",\"a\":1}")
                                            : MS_STR("{\"a\":[2,3],\"cwd\":\"/x\"}"),
                        NULL);
        break;
    case 4:
        if (test_one_in(rng, 3)) ms_rewind(store, random_location(rng), seq, NULL, NULL);
        break;
    case 5:
        if (redact) ms_redact(store, seq, NULL);
        break;
    case 6:
        m = ms_assistant_message(ms_text("began"));
        m.agent_key = asked_agent(rng);
        if (stream->store != NULL) ms_stream_end(stream, NULL, NULL, NULL);
        ms_stream_begin(stream, store, random_location(rng), &m, NULL, NULL);
        break;
    default:
        if (stream->store == NULL) break;
        ms_stream_feed(stream, MS_STR(", went on"), NULL);
        test_stream_flush(stream, NULL);
    }
}

/* What is shown, and records of every kind, come store after store; and those about one
 * message from its store. A window is a part of that. */
static void records_come_from_store_after_store(void **state)
{
    uint64_t rng = test_seed() + 12;
    (void)state;
    for (size_t round = test_times(60); round > 0; round--) {
        family f;
        ms_stream stream;
        memset(&stream, 0, sizeof stream);
        family_open(&f, &rng, (size_t)test_below(&rng, 60), 0);
        for (int i = 0; i < 60; i++) family_change(&f, &rng, true, &stream);
        for (int i = 0; i < 20; i++) {
            given one, all;
            ms_query q = query_of(random_location(&rng), MS_VIEW_TIMELINE);
            size_t at = 0, about = (size_t)test_below(&rng, f.n);
            uint64_t own = 1 + test_below(&rng, 20);
            if (test_one_in(&rng, 2)) q.raw = 1 + (unsigned)test_below(&rng, MS_RAW_ALL);
            if (q.raw == 0 && test_one_in(&rng, 2)) q.arena = &arena;
            if (test_one_in(&rng, 2)) q.location = no_str();
            else if (q.raw != 0 && test_one_in(&rng, 2)) q.about_seq = NUMBER(about, own);
            q.reverse = test_one_in(&rng, 3);
            given_query(&all, f.u, &q, true);
            for (size_t k = 0; k < f.n; k++) {
                size_t which = q.reverse ? f.n - 1 - k : k;
                ms_query part = q;
                if (q.about_seq != 0) part.about_seq = own;
                if (q.about_seq != 0 && which != about) continue;
                given_query(&one, f.stores[which], &part, false);
                assert_true(at + one.n <= all.n);
                must_be_given(&one, 0, &all, at, one.n, which);
                at += one.n;
                given_free(&one);
            }
            assert_int_equal(at, all.n);
            q.limit = 1 + (size_t)test_below(&rng, 20);
            q.oldest = test_one_in(&rng, 2);
            given_query(&one, f.u, &q, true);
            assert_int_equal(one.n, q.limit < all.n ? q.limit : all.n);
            size_t skip = q.oldest == q.reverse ? all.n - one.n : 0;
            must_be_given(&all, skip, &one, 0, one.n, 0);
            given_free(&one);
            given_free(&all);
        }
        ms_arena_reset(&arena);
        family_close(&f);
    }
}

/* Changes, parts of streams and messages after the opening are not seen; what is redacted
 * is. */
static void cursors_stay_as_of_their_opening(void **state)
{
    uint64_t rng = test_seed() + 13;
    (void)state;
    for (size_t round = test_times(60); round > 0; round--) {
        family f;
        ms_stream stream;
        ms_str team[TEAM_MAX];
        ms_cursor it[2];
        memset(&stream, 0, sizeof stream);
        family_open(&f, &rng, (size_t)test_below(&rng, 60), 0);
        for (int i = 0; i < 30; i++) family_change(&f, &rng, true, &stream);
        for (int i = 0; i < 10; i++) {
            given early, late;
            bool history = test_one_in(&rng, 2);
            ms_query q = union_query(&f, &rng, team);
            ms_memory m = random_memory(&rng, team);
            m.store = f.u;
            for (int k = 0; k < 2; k++)
                assert_int_equal(history ? ms_get_history(&m, &it[k], NULL)
                                         : ms_query_open(m.store, &q, &it[k], NULL),
                                 MS_OK);
            given_read(&early, &it[0], true);
            for (int k = 0; k < 10; k++) family_change(&f, &rng, false, &stream);
            for (int k = 0; k < 10; k++) {
                ms_envelope e = random_message(&rng);
                must_append(f.stores[test_below(&rng, f.n)], no_str(), &e);
            }
            given_read(&late, &it[1], true);
            assert_int_equal(late.n, early.n);
            must_be_given(&early, 0, &late, 0, late.n, 0);
            given_free(&early);
            given_free(&late);
        }
        ms_arena_reset(&arena);
        family_close(&f);
    }
}

/* Texts, notes and facts; hidden messages are left out. */
static void a_copy_has_the_changes(void **state)
{
    const ms_str names[] = {MS_STR("job_1"), MS_STR("job_2"), MS_STR("job_10"),
                            MS_STR("a/b"), MS_STR("\xe6\x97\xa5\xe6\x9c\xac")};
    uint64_t rng = test_seed() + 14;
    (void)state;
    for (size_t round = test_times(20); round > 0; round--) {
        family f;
        ms_stream stream;
        given want, got;
        ms_error err;
        ms_query q = query_of(no_str(), MS_VIEW_TIMELINE);
        memset(&stream, 0, sizeof stream);
        family_open(&f, &rng, (size_t)test_below(&rng, 60), 0);
        for (int i = 0; i < 60; i++) family_change(&f, &rng, true, &stream);
        test_store to = store_open(store_kind_at((size_t)test_below(&rng, 3)), NULL);
        must_ok(ms_copy(to.store, f.u, NULL, NULL, NULL, &err), &err, "copy");
        q.arena = &arena;
        given_query(&want, f.u, &q, true);
        given_query(&got, to.store, &q, false);
        assert_int_equal(got.n, want.n);
        for (size_t i = 0; i < got.n; i++) {
            const ms_msg *a = given_at(&want, i), *b = given_at(&got, i);
            assert_int_equal(ms_seq(b), ms_seq(a));
            assert_true(twin_value_equal(ms_content(a), ms_content(b)));
        }
        for (size_t i = 0; i < 5; i++) {
            ms_str a, b;
            must_ok(ms_location_get(f.u, names[i], &arena, &a, &err), &err, "facts");
            must_ok(ms_location_get(to.store, names[i], &arena, &b, &err), &err, "facts");
            if (!ms_str_equal(a, b))
                fail_msg("facts: %.*s, %.*s", (int)a.len, a.ptr, (int)b.len, b.ptr);
        }
        must_ok(ms_selfcheck(to.store, &err), &err, "copy");
        must_ok(ms_selfcheck(f.u, &err), &err, "union");
        given_free(&want);
        given_free(&got);
        store_close(&to);
        ms_arena_reset(&arena);
        family_close(&f);
    }
}

/* A hidden message is not found; an unfinished one has its text so far. */
static void a_lookup_sees_changes(void **state)
{
    duo d = open_duo();
    script p;
    ms_stream_text text;
    const ms_msg *msg;
    (void)state;
    script_open(&p, store_kind_at(0));
    store_close(&p.s);
    p.s = d.s[1];
    for (const char *call = "say a\0say b\0hide a\0begin w a\0feed w bc\0"; *call != '\0';
         call += strlen(call) + 1)
        assert_int_equal(script_try(&p, call), MS_OK);
    assert_int_equal(ms_get_by_seq(d.u, NUMBER(1, 1), &arena, &msg, NULL),
                     MS_E_NOT_FOUND);
    assert_null(msg);
    for (int ended = 0; ended < 2; ended++) {
        assert_int_equal(ms_get_by_seq(d.u, NUMBER(1, 3), &arena, &msg, NULL), MS_OK);
        must_have_text(msg, "abc");
        assert_int_equal(ms_stream_read(d.u, NUMBER(1, 3), 1, &arena, &text, NULL),
                         MS_OK);
        assert_true(is_word(text.text, "bc") && text.ended == ended);
        for (unsigned way = 0; way < 8; way++) {
            ms_query q = ordered(way, 2);
            q.location = JOB;
            q.types = MS_BIT(MS_T_ASSISTANT_MESSAGE);
            must_give(d.u, &q, "abc|");
        }
        assert_int_equal(script_try(&p, "end w"), ended ? MS_E_CLOSED : MS_OK);
    }
    close_duo(&d);
}


/* ---- many stores, other threads, no memory ---- */

static void eight_thousand_stores(void **state)
{
    enum { MANY = 8000, ROOM = 4096 };
    char *room = (char *)malloc((size_t)MANY * ROOM);
    ms_store **stores = (ms_store **)calloc(MANY, sizeof *stores);
    ms_mem_desc desc;
    ms_cursor it;
    ms_listing list;
    uint64_t rng = test_seed() + 9;
    (void)state;
    if (room == NULL || stores == NULL) abort();
    memset(&desc, 0, sizeof desc);
    desc.buffer_size = ROOM;
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

/* A union of readers sees what the writers append, at the next query. */
static void a_union_of_readers_sees_what_writers_append(void **state)
{
    test_store s[2];
    ms_store *readers[2];
    ms_query q = query_of(JOB, MS_VIEW_TIMELINE);
    uint64_t last;
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        s[i] = log_at(MS_LOG_SEGMENT_MIN, MS_ENGINE_MAP);
        log_open(&s[i]);
        append_at(s[i].store, MS_T_TASK, "w", 1);
        readers[i] = log_reader(&s[i]);
    }
    ms_store *u = union_of(readers, 2);
    for (size_t n = 0; n < 50; n++) {
        append_at(s[n % 2].store, MS_T_TASK, "w", (int64_t)n);
        assert_int_equal(count_of(u, &q), n + 3);
    }
    assert_int_equal(test_refresh(u, &last, NULL), MS_OK);
    assert_int_equal(last, NUMBER(1, 26));
    ms_close(u);
    for (size_t i = 0; i < 2; i++) ms_close(readers[i]);
    for (size_t i = 0; i < 2; i++) store_close(&s[i]);
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
static void threads_read_while_others_append(void **state)
{
    duo d = open_duo();
    busy work[2];
    pthread_t threads[2];
    (void)state;
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

static ms_result read_on(ms_result code, ms_cursor *it)
{
    while (ms_next(it) != NULL) {}
    ms_result end = ms_cursor_close(it, NULL);
    return code != MS_OK ? code : end;
}

/* Everything that allocates, through one allocator. */
static ms_result all_once(const family *f, test_alloc *heap)
{
    ms_union_desc desc;
    ms_store *u;
    ms_arena work;
    ms_memory memory;
    ms_listing list;
    ms_cursor it;
    const ms_msg *msg;
    memset(&desc, 0, sizeof desc);
    test_arena_init(&work, &heap->alloc);
    desc.stores = f->stores;
    desc.n_stores = f->n;
    desc.alloc = heap->alloc;
    ms_result code = ms_union_open(&u, &desc, NULL);
    if (code != MS_OK) return code;
    for (unsigned way = 0; code == MS_OK && way < 8; way++) {
        ms_query q = ordered(way, 90);
        q.arena = &work;
        code = read_on(ms_query_open(u, &q, &it, NULL), &it);
    }
    ms_memory_init(&memory, u, MS_STR("job_1"), MS_STR("w1"));
    memory.scope.kind = MS_SCOPE_SINCE_TASK;
    memory.conversation_limit = 3;
    if (code == MS_OK) code = read_on(ms_get_history(&memory, &it, NULL), &it);
    if (code == MS_OK) code = ms_list(u, NULL, &work, &list, NULL);
    if (code == MS_OK)
        code = ms_get_by_seq(u, f->all.items[3]->seq, &work, &msg, NULL);
    ms_arena_deinit(&work);
    ms_close(u);
    return code;
}

static void each_allocation_may_fail(void **state)
{
    uint64_t rng = test_seed() + 10;
    test_alloc heap;
    family f;
    size_t k = 0;
    (void)state;
    family_open(&f, &rng, 140, 0);
    do {
        test_alloc_init(&heap);
        heap.fail_at = ++k;
        ms_result code = all_once(&f, &heap);
        test_alloc_done(&heap);
        if (heap.failed == 0) assert_int_equal(code, MS_OK);
        else assert_true(code == MS_E_NO_MEMORY || code == MS_E_ARENA);
    } while (heap.failed != 0);
    assert_true(k > 20);
    family_close(&f);
}

#define T(test) cmocka_unit_test_setup(test, reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(any_query_equals_arrays_in_a_row),
        T(every_message_is_found_by_number),
        T(totals_are_sums),
        T(a_listing_adds_up_the_stores),
        T(a_history_is_that_of_one_store),
        T(a_union_may_be_what_runs_now),
        T(the_last_task_divides_every_store),
        T(a_copy_keeps_the_numbers),
        T(a_union_is_rewritten_into_one_log),
        T(a_copy_of_a_union_is_refused_by_another_union),
        T(a_refused_store_is_named_when_a_union_opens),
        T(a_union_changes_nothing),
        T(a_union_of_no_stores_is_empty),
        T(trouble_in_one_store_is_reported),
        T(a_sort_keeps_messages_that_a_store_overwrites),
        T(a_store_that_was_closed_meanwhile_is_named),
        T(a_window_is_of_one_moment),
        T(a_store_may_have_only_a_query),
        T(damage_is_counted_in_every_order),
        T(records_come_from_store_after_store),
        T(cursors_stay_as_of_their_opening),
        T(a_copy_has_the_changes),
        T(a_lookup_sees_changes),
        T(eight_thousand_stores),
        T(a_union_of_readers_sees_what_writers_append),
        T(threads_read_while_others_append),
        T(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, release);
}
