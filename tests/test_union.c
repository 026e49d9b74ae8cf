/* Several stores as one: whatever is asked of a union is compared with arrays in a row,
 * sorted where order is by time, or with one arena store that holds the same messages in
 * the same order.
 */

#define _POSIX_C_SOURCE 200809L
#include "stores.h"
#include "twin.h"

#include <pthread.h>

enum { STORES_MAX = 6 };

#define NUMBER(which, own) ((uint64_t)(which) << 40 | (own))


/* ---- stores, and what is in them ---- */

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
    if (ms_union_open(&store, &desc, &err) != MS_OK) fail_msg("union: %s", err.message);
    return store;
}

/* The message goes into the array where its number says. */
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
    ms_arena arena;
    test_arena_init(&arena, NULL);
    uint64_t own = must_append(f->stores[which], no_str(), m);
    twin_msg *copy = twin_msg_new(m, no_str());
    copy->seq = NUMBER(which, own);
    assert_int_equal(ms_get_by_seq(f->stores[which], own, &arena, &msg, NULL), MS_OK);
    twin_learn_size(copy, msg);
    ms_arena_deinit(&arena);
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

/* Reads a cursor to its end; every message is one that stands by itself. */
static void must_read(ms_cursor *it, const twin_msg *const *want, size_t n)
{
    const ms_msg *msg, *again;
    ms_error err;
    for (size_t i = 0; (msg = ms_next(it)) != NULL; i++) {
        if (i == n) fail_msg("more than %zu messages", n);
        twin_must_match(want[i], msg, "union");
        if (ms_decode(msg, ms_size(msg), &again, &err) != MS_OK)
            fail_msg("decode: %s", err.message);
    }
    if (it->returned != n)
        fail_msg("%zu messages where %zu were expected", (size_t)it->returned, n);
    if (ms_cursor_close(it, &err) != MS_OK) fail_msg("close: %s", err.message);
}

static void must_answer(const family *f, const ms_query *q)
{
    const twin_msg **want =
        (const twin_msg **)twin_memory(NULL, (f->all.count + 1) * sizeof want[0]);
    size_t n = oracle(&f->all, q, want);
    ms_cursor it;
    ms_error err;
    if (ms_query_open(f->u, q, &it, &err) != MS_OK) fail_msg("query: %s", err.message);
    must_read(&it, want, n);
    free(want);
}

/* A number that bounds something: of a message, beside one, or between two stores. */
static uint64_t random_bound(const family *f, uint64_t *rng)
{
    if (test_one_in(rng, 4) || f->all.count == 0)
        return NUMBER(test_below(rng, f->n + 1), test_below(rng, 3));
    return f->all.items[test_below(rng, f->all.count)]->seq + test_below(rng, 3) - 1;
}

static ms_query union_query(const family *f, uint64_t *rng, ms_str team[TEAM_MAX],
                            ms_arena *arena)
{
    ms_query q = random_query(rng, 1, team, arena);
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
    ms_arena arena;
    family f;
    (void)state;
    test_arena_init(&arena, NULL);
    for (size_t round = test_times(60); round > 0; round--) {
        family_open(&f, &rng, (size_t)test_below(&rng, 80),
                    (unsigned)test_below(&rng, 4));
        for (int i = 0; i < 60; i++) {
            ms_query q = union_query(&f, &rng, team, &arena);
            must_answer(&f, &q);
            if (test_one_in(&rng, 4)) family_grow(&f, &rng, 0);
        }
        family_close(&f);
        ms_arena_reset(&arena);
    }
    ms_arena_deinit(&arena);
}

/* Backwards is the reverse, and a limit cuts it, whatever the times. */
static void backwards_is_the_reverse(void **state)
{
    uint64_t rng = test_seed() + 1;
    ms_arena arena;
    family f;
    (void)state;
    for (size_t round = test_times(10); round > 0; round--) {
        uint64_t seqs[100];
        family_open(&f, &rng, 100, (unsigned)test_below(&rng, 4));
        ms_query q = query_of(no_str(), MS_VIEW_TIMELINE);
        test_arena_init(&arena, NULL);
        q.arena = &arena;
        for (unsigned way = 0; way < 16; way++) {
            ms_cursor it;
            size_t n = 0, keep = way % 8 < 2 ? 100 : 33;
            q.by_time = way & 8;
            q.reverse = way & 1;
            q.oldest = way & 4;
            q.limit = way % 8 < 2 ? 0 : keep;
            assert_int_equal(ms_query_open(f.u, &q, &it, NULL), MS_OK);
            for (const ms_msg *m; (m = ms_next(&it)) != NULL; n++) {
                if (way % 8 == 0) seqs[n] = ms_seq(m);
                size_t at = (q.oldest ? 0 : 100 - keep) + (q.reverse ? keep - 1 - n : n);
                assert_int_equal(ms_seq(m), seqs[at]);
            }
            assert_int_equal(n, keep);
            assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
        }
        ms_arena_deinit(&arena);
        family_close(&f);
    }
}


/* ---- one message, totals ---- */

static void must_find(ms_store *store, const family *f)
{
    const ms_msg *msg;
    ms_arena arena;
    test_arena_init(&arena, NULL);
    for (size_t i = 0; i < f->all.count; i++) {
        const twin_msg *want = f->all.items[i];
        assert_int_equal(ms_get_by_seq(store, want->seq, &arena, &msg, NULL), MS_OK);
        twin_must_match(want, msg, "by number");
        assert_int_equal(ms_get_by_seq(store, want->seq, NULL, &msg, NULL), MS_E_ARENA);
        assert_true(MS_UNION_STORE(want->seq) < f->n);
        assert_int_equal(NUMBER(MS_UNION_STORE(want->seq), MS_UNION_SEQ(want->seq)),
                         want->seq);
    }
    ms_arena_deinit(&arena);
}

static void every_message_is_found_by_number(void **state)
{
    uint64_t rng = test_seed() + 2;
    const uint64_t none[] = {0, NUMBER(0, 199), NUMBER(1, 0), NUMBER(STORES_MAX, 1),
                             UINT64_MAX};
    ms_arena arena;
    const ms_msg *msg;
    family f;
    (void)state;
    test_arena_init(&arena, NULL);
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
    ms_arena_deinit(&arena);
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

/* In order of the union; out holds what twin_list gives without a limit. */
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
    ms_arena arena;
    test_arena_init(&arena, NULL);
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
    ms_arena_deinit(&arena);
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

static ms_memory random_memory(uint64_t *rng, ms_str team[TEAM_MAX], ms_arena *arena)
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
        m.arena = arena;
    return m;
}

/* The same history from the union and from the one store. */
static void must_remember(const ms_memory *plain, const ms_memory *joined,
                          const uint64_t *real)
{
    ms_cursor a, b;
    const ms_msg *x, *y;
    ms_error err;
    if (ms_get_history(plain, &a, &err) != MS_OK) fail_msg("plain: %s", err.message);
    if (ms_get_history(joined, &b, &err) != MS_OK) fail_msg("union: %s", err.message);
    while ((x = ms_next(&a)) != NULL) {
        y = ms_next(&b);
        if (y == NULL) fail_msg("the union's history ends at %zu", (size_t)b.returned);
        uint64_t seq = ms_seq(y) & ((uint64_t)1 << 63) ? ms_seq(y) : ms_seq(x);
        if (ms_seq(y) != real[seq - 1])
            fail_msg("message %llx where %llx was expected",
                     (unsigned long long)ms_seq(y), (unsigned long long)real[seq - 1]);
    }
    assert_null(ms_next(&b));
    assert_int_equal(ms_cursor_close(&a, NULL), MS_OK);
    if (ms_cursor_close(&b, &err) != MS_OK) fail_msg("close: %s", err.message);
}

static void a_history_is_that_of_one_store(void **state)
{
    uint64_t rng = test_seed() + 5, real[400];
    ms_str team[TEAM_MAX];
    ms_arena arena;
    family f;
    (void)state;
    test_arena_init(&arena, NULL);
    for (size_t round = test_times(50); round > 0; round--) {
        bool by_time = test_one_in(&rng, 2);
        unsigned times = (unsigned)test_below(&rng, 4);
        if (by_time) times |= TIMES_ALL;
        family_open(&f, &rng, 20 + (size_t)test_below(&rng, 120), times);
        test_store s = one_store(&f, by_time, real);
        for (int i = 0; i < 60; i++) {
            ms_memory plain = random_memory(&rng, team, &arena), joined = plain;
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
    ms_arena_deinit(&arena);
}

/* What runs now is merged block by block; it may be a union, too. */
static void a_union_may_be_what_runs_now(void **state)
{
    uint64_t rng = test_seed() + 6, real[400], seqs[400];
    family f;
    (void)state;
    for (size_t round = test_times(10); round > 0; round--) {
        family_open(&f, &rng, 100, TIMES_RISE | TIMES_ALL);
        test_store one = one_store(&f, false, real);
        test_store old = store_open(store_kind_at(0), NULL);
        for (int i = 0; i < 30; i++) {
            ms_envelope m = random_message(&rng);
            must_append(old.store, no_str(), &m);
        }
        for (int i = 0; i < 20; i++) {
            ms_str team[TEAM_MAX];
            ms_arena arena;
            ms_cursor it;
            size_t n = 0, at = 0;
            test_arena_init(&arena, NULL);
            ms_memory m = random_memory(&rng, team, &arena);
            m.store = old.store;
            m.runtime = one.store;
            m.runtime_mode = MS_RUNTIME_MERGE;
            assert_int_equal(ms_get_history(&m, &it, NULL), MS_OK);
            for (const ms_msg *x; (x = ms_next(&it)) != NULL;) seqs[n++] = ms_seq(x);
            assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
            m.runtime = f.u;
            assert_int_equal(ms_get_history(&m, &it, NULL), MS_OK);
            for (const ms_msg *x; (x = ms_next(&it)) != NULL; at++)
                assert_true(at < n && (ms_seq(x) == seqs[at] ||
                                       ms_seq(x) == real[seqs[at] - 1]));
            assert_int_equal(at, n);
            assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
            ms_arena_deinit(&arena);
        }
        store_close(&old);
        store_close(&one);
        family_close(&f);
    }
}

/* A small union: store 0 and store 1, messages at whole seconds. */
static void two_stores(test_store s[2], ms_store *stores[2], ms_store **u)
{
    for (size_t i = 0; i < 2; i++) {
        s[i] = store_open(store_kind_at(i * 3), NULL);
        stores[i] = s[i].store;
    }
    *u = union_of(stores, 2);
}

static uint64_t append_at(ms_store *store, ms_type type, const char *agent, int64_t time)
{
    ms_envelope m = message_of(type, MS_STR("text"));
    m.has_time = true;
    m.time_ns = SECONDS(time);
    if (agent != NULL) m.agent_key = ms_str_of(agent);
    return must_append(store, MS_STR("job"), &m);
}

/* Also where the appended message has a smaller number than the newest there was. */
static void a_history_stays_as_of_its_opening(void **state)
{
    test_store s[2];
    ms_store *stores[2], *u;
    ms_memory memory;
    ms_cursor it;
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        ms_arena arena;
        test_arena_init(&arena, NULL);
        two_stores(s, stores, &u);
        append_at(stores[0], MS_T_USER_MESSAGE, NULL, 10);
        append_at(stores[1], MS_T_USER_MESSAGE, NULL, 20);
        append_at(stores[1], MS_T_ACTION, "w", 30);
        ms_memory_init(&memory, u, MS_STR("job"), MS_STR("w"));
        memory.by_time = i == 1;
        memory.arena = &arena;
        assert_int_equal(ms_get_history(&memory, &it, NULL), MS_OK);
        append_at(stores[0], MS_T_USER_MESSAGE, NULL, 15);
        assert_int_equal(ms_seq(ms_next(&it)), NUMBER(0, 1));
        append_at(stores[0], MS_T_ACTION, "w", 25);
        assert_int_equal(ms_seq(ms_next(&it)), NUMBER(1, 1));
        append_at(stores[0], MS_T_GLOBAL_OBSERVATION, "w", 40);
        append_at(stores[1], MS_T_GLOBAL_OBSERVATION, "w", 50);
        assert_int_equal(ms_seq(ms_next(&it)), NUMBER(1, 2));
        assert_null(ms_next(&it));
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
        assert_int_equal(ms_get_history(&memory, &it, NULL), MS_OK);
        for (int n = 0; n < 7; n++) assert_non_null(ms_next(&it));
        assert_null(ms_next(&it));
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
        ms_arena_deinit(&arena);
        ms_close(u);
        store_close(&s[0]);
        store_close(&s[1]);
    }
}

/* A larger number is later, also by time: all of the next store follows a task. */
static void the_last_task_divides_every_store(void **state)
{
    test_store s[2];
    ms_store *stores[2], *u;
    ms_memory memory;
    ms_arena arena;
    ms_cursor it;
    (void)state;
    test_arena_init(&arena, NULL);
    two_stores(s, stores, &u);
    append_at(stores[0], MS_T_GLOBAL_OBSERVATION, NULL, 4);
    append_at(stores[0], MS_T_TASK, "w", 2);
    append_at(stores[0], MS_T_ACTION, "w", 3);
    append_at(stores[1], MS_T_GLOBAL_OBSERVATION, NULL, 1);
    ms_memory_init(&memory, u, MS_STR("job"), MS_STR("w"));
    memory.arena = &arena;
    for (int way = 0; way < 8; way++) {
        const uint64_t want[2][3] = {{NUMBER(0, 2), NUMBER(0, 3), NUMBER(1, 1)},
                                     {NUMBER(1, 1), NUMBER(0, 2), NUMBER(0, 3)}};
        memory.timeline = way & 1;
        memory.by_time = way & 4;
        memory.scope.kind = way & 2 ? MS_SCOPE_WORKER : MS_SCOPE_SINCE_TASK;
        memory.agent_types = MS_TYPES_AGENT;
        assert_int_equal(ms_get_history(&memory, &it, NULL), MS_OK);
        for (size_t i = 0; i < 3; i++) {
            uint64_t seq = want[(way & 5) == 5][i];
            if (way & 2 && seq == NUMBER(0, 2)) continue;
            assert_int_equal(ms_seq(ms_next(&it)), seq);
        }
        assert_null(ms_next(&it));
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    }
    ms_arena_deinit(&arena);
    ms_close(u);
    store_close(&s[0]);
    store_close(&s[1]);
}

static void a_query_stays_as_of_its_opening(void **state)
{
    test_store s[2];
    ms_store *stores[2], *u;
    ms_arena arena;
    ms_cursor it;
    (void)state;
    test_arena_init(&arena, NULL);
    for (size_t i = 0; i < 8; i++) {
        size_t n = 0;
        two_stores(s, stores, &u);
        for (int k = 0; k < 10; k++) append_at(stores[k % 2], MS_T_TASK, "w", k);
        ms_query q = query_of(MS_STR("job"), MS_VIEW_TIMELINE);
        q.by_time = i & 1;
        q.arena = &arena;
        q.reverse = i & 2;
        q.limit = i & 4 ? 8 : 0;
        assert_int_equal(ms_query_open(u, &q, &it, NULL), MS_OK);
        for (; ms_next(&it) != NULL; n++)
            for (int k = 0; k < 2; k++)
                append_at(stores[k], MS_T_TASK, "w", (int64_t)(n % 5) * 3);
        assert_int_equal(n, i & 4 ? 8 : 10);
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
        ms_close(u);
        store_close(&s[0]);
        store_close(&s[1]);
    }
    ms_arena_deinit(&arena);
}


/* ---- copies ---- */

static void must_copy(const family *f, ms_store *from, size_t kind, const ms_keep *keep)
{
    test_store to = store_open(store_kind_at(kind), NULL);
    twin copy;
    ms_copy_report got, want;
    ms_error err;
    twin_init(&copy);
    if (ms_copy(to.store, from, keep, NULL, &got, &err) != MS_OK)
        fail_msg("copy: %s", err.message);
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
    if (ms_selfcheck(to.store, &err) != MS_OK) fail_msg("selfcheck: %s", err.message);
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
    if (ms_log_rewrite(f.u, &desc, false, NULL, NULL, &err) != MS_OK)
        fail_msg("rewrite: %s", err.message);
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
static void a_copy_of_a_union_fits_in_no_other(void **state)
{
    test_store s[2];
    ms_store *stores[2], *u, *v;
    test_store copy = store_open(store_kind_at(0), NULL);
    ms_cursor it;
    ms_stat stat;
    ms_error err;
    ms_memory memory;
    uint64_t seq;
    ms_query q = query_of(no_str(), 0);
    (void)state;
    two_stores(s, stores, &u);
    append_at(stores[1], MS_T_TASK, "w", 1);
    assert_int_equal(ms_copy(copy.store, u, NULL, NULL, NULL, NULL), MS_OK);
    v = union_of(&copy.store, 1);
    for (unsigned way = 0; way < 2; way++) {
        q.limit = way;
        assert_int_equal(ms_query_open(v, &q, &it, &err), MS_E_RANGE);
        assert_string_equal(err.path, "stores[0]");
        assert_null(ms_next(&it));
    }
    assert_int_equal(ms_store_stat(v, &stat, &err), MS_E_RANGE);
    assert_string_equal(err.path, "stores[0]");
    assert_int_equal(test_refresh(v, &seq, &err), MS_E_RANGE);
    ms_memory_init(&memory, v, MS_STR("job"), MS_STR("w"));
    assert_int_equal(ms_get_history(&memory, &it, NULL), MS_E_RANGE);
    ms_close(v);
    ms_close(u);
    store_close(&s[0]);
    store_close(&s[1]);
    store_close(&copy);
}


/* ---- what a union refuses ---- */

static void opening_names_the_store_that_will_not_do(void **state)
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

static void a_union_is_for_reading(void **state)
{
    test_store s[2];
    ms_store *stores[2], *u;
    ms_envelope m = ms_user_message(ms_text("hi"));
    ms_memory memory;
    uint64_t seq = 7;
    ms_error err;
    (void)state;
    two_stores(s, stores, &u);
    append_at(stores[0], MS_T_TASK, "w", 1);
    assert_int_equal(ms_append(u, MS_STR("job"), &m, &seq, &err), MS_E_READ_ONLY);
    assert_int_equal(seq, 0);
    assert_int_equal(ms_append_batch(u, &m, 1, NULL, NULL), MS_E_ARGUMENT);
    ms_memory_init(&memory, u, MS_STR("job"), MS_STR("w"));
    memory.runtime_mode = MS_RUNTIME_STORE;
    assert_int_equal(ms_memory_add(&memory, &m, NULL, NULL), MS_E_READ_ONLY);
    assert_int_equal(ms_copy(u, stores[0], NULL, NULL, NULL, NULL), MS_E_READ_ONLY);
    assert_int_equal(MS_UNION_STORE(NUMBER(1, 9)), 1);
    assert_int_equal(MS_UNION_SEQ(NUMBER(1, 9)), 9);
    ms_close(u);
    store_close(&s[0]);
    store_close(&s[1]);
}

static void a_union_of_nothing_is_empty(void **state)
{
    ms_store *u = union_of(NULL, 0);
    ms_query q = query_of(no_str(), 0);
    ms_arena arena;
    ms_cursor it;
    ms_stat stat;
    ms_listing list;
    ms_memory memory;
    const ms_msg *msg;
    (void)state;
    test_arena_init(&arena, NULL);
    q.arena = &arena;
    for (unsigned way = 0; way < 8; way++) {
        q.by_time = way & 1;
        q.reverse = way & 2;
        q.limit = way & 4;
        assert_int_equal(ms_query_open(u, &q, &it, NULL), MS_OK);
        assert_null(ms_next(&it));
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    }
    assert_int_equal(ms_store_stat(u, &stat, NULL), MS_OK);
    assert_int_equal(stat.last_seq, 0);
    assert_int_equal(ms_list(u, NULL, &arena, &list, NULL), MS_OK);
    assert_int_equal(list.count, 0);
    assert_int_equal(ms_get_by_seq(u, 1, &arena, &msg, NULL), MS_E_NOT_FOUND);
    assert_int_equal(ms_selfcheck(u, NULL), MS_OK);
    ms_memory_init(&memory, u, MS_STR("job"), MS_STR("w"));
    memory.scope.kind = MS_SCOPE_WORKER;
    assert_int_equal(ms_get_history(&memory, &it, NULL), MS_OK);
    assert_null(ms_next(&it));
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    ms_arena_deinit(&arena);
    ms_close(u);
}


/* ---- trouble in one of the stores ---- */

/* A store over another one that stops after so many messages, or is closed. */
typedef struct lame_store {
    ms_store base;
    ms_store *inside;
    size_t stop_after;
    ms_result with;
    ms_cursor it[64];
    size_t open;              /* cursors */
    ms_store *spoiled;        /* is changed when the first cursor is closed */
    bool fleeting;            /* each message is written over by the next one */
    char message[1024];
} lame_store;

static ms_result lame_query(ms_store *store, ms_cursor *it, ms_error *err)
{
    lame_store *l = (lame_store *)store;
    size_t at = 0;
    while (l->it[at].store != NULL) at++;
    it->words[0] = at;
    ms_result code = ms_query_open(l->inside, &it->query, &l->it[at], err);
    if (code == MS_OK) l->open++;
    return code;
}

static const ms_msg *lame_next(ms_store *store, ms_cursor *it)
{
    lame_store *l = (lame_store *)store;
    if (it->returned < l->stop_after) {
        const ms_msg *msg = ms_next(&l->it[it->words[0]]);
        if (msg == NULL || !l->fleeting) return msg;
        assert_true(ms_size(msg) <= sizeof l->message);
        memcpy(l->message, msg, ms_size(msg));
        return (const ms_msg *)(const void *)l->message;
    }
    if (l->with == MS_E_DAMAGED) it->damaged = 3;
    else it->result = l->with;
    return NULL;
}

static void lame_cursor_close(ms_store *store, ms_cursor *it)
{
    lame_store *l = (lame_store *)store;
    ms_cursor_close(&l->it[it->words[0]], NULL);
    l->open--;
    if (l->spoiled == NULL) return;
    for (uint64_t seq = 6; seq < 11; seq += 2) ms_hide(l->spoiled, seq, NULL);
    append_at(l->spoiled, MS_T_TASK, "w", 100);
    l->spoiled = NULL;
}

static void lame_over(lame_store *l, ms_store *inside)
{
    static ms_backend backend;
    backend.query = lame_query;
    backend.next = lame_next;
    backend.cursor_close = lame_cursor_close;
    memset(l, 0, sizeof *l);
    l->base.backend = &backend;
    l->base.open = MS_STORE_OPEN;
    l->inside = inside;
    l->stop_after = SIZE_MAX;
}

typedef struct lame_union {
    test_store s[2];
    lame_store lame;
    ms_store *stores[2], *u;
} lame_union;

static void lame_open(lame_union *l)
{
    two_stores(l->s, l->stores, &l->u);
    ms_close(l->u);
    lame_over(&l->lame, l->stores[1]);
    for (int i = 0; i < 20; i++) append_at(l->stores[i % 2], MS_T_TASK, "w", i);
    l->stores[1] = &l->lame.base;
    l->u = union_of(l->stores, 2);
}

static void lame_close(lame_union *l)
{
    assert_int_equal(l->lame.open, 0);
    ms_close(l->u);
    store_close(&l->s[0]);
    store_close(&l->s[1]);
}

/* Its code comes out, its damage is counted once, and no cursor stays open. */
static void trouble_in_one_store_comes_out(void **state)
{
    ms_arena arena;
    ms_error err;
    (void)state;
    test_arena_init(&arena, NULL);
    for (unsigned way = 0; way < 64; way += 2) {
        lame_union *l = (lame_union *)calloc(1, sizeof *l);
        ms_query q = query_of(no_str(), 0);
        ms_cursor it;
        uint64_t damaged;
        if (l == NULL) abort();
        lame_open(l);
        l->lame.stop_after = way & 32 ? 0 : 5;
        l->lame.with = way & 2 ? MS_E_IO : MS_E_DAMAGED;
        q.reverse = way & 4;
        q.limit = way & 8 ? 18 : 0;
        q.by_time = way & 16;
        q.arena = &arena;
        ms_result code = ms_query_open(l->u, &q, &it, &err);
        if (code == MS_OK)
            while (ms_next(&it) != NULL) {}
        if (code != MS_OK) assert_null(ms_next(&it));
        if (code != MS_OK) assert_int_equal(err.code, code);
        damaged = it.damaged;
        ms_result end = ms_cursor_close(&it, NULL);
        assert_int_equal(code != MS_OK ? code : end, l->lame.with);
        if (l->lame.with == MS_E_DAMAGED) assert_int_equal(damaged, 3);
        lame_close(l);
        free(l);
    }
    ms_arena_deinit(&arena);
}

/* A store of one's own may write over a message when its cursor moves. */
static void a_sort_keeps_what_a_store_writes_over(void **state)
{
    ms_arena arena;
    (void)state;
    test_arena_init(&arena, NULL);
    for (unsigned way = 0; way < 8; way++) {
        lame_union *l = (lame_union *)calloc(1, sizeof *l);
        ms_query q = query_of(no_str(), 0);
        ms_cursor it;
        size_t n = 0;
        if (l == NULL) abort();
        lame_open(l);
        l->lame.fleeting = true;
        q.by_time = way & 1;
        q.reverse = way & 2;
        q.limit = way & 4 ? 7 : 0;
        q.arena = &arena;
        assert_int_equal(ms_query_open(l->u, &q, &it, NULL), MS_OK);
        for (const ms_msg *m; (m = ms_next(&it)) != NULL; n++) {
            size_t first = q.limit != 0 ? 20 - q.limit : 0;
            size_t at = q.reverse ? 19 - n : first + n;
            assert_int_equal(ms_seq(m), q.by_time ? NUMBER(at % 2, at / 2 + 1)
                                                  : NUMBER(at / 10, at % 10 + 1));
        }
        assert_int_equal(n, way & 4 ? 7 : 20);
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
        lame_close(l);
        free(l);
    }
    ms_arena_deinit(&arena);
}

static void a_store_that_is_closed_meanwhile_is_named(void **state)
{
    lame_union *l = (lame_union *)calloc(1, sizeof *l);
    ms_query q = query_of(no_str(), 0);
    ms_cursor it, late;
    ms_arena arena;
    ms_listing list;
    ms_memory memory;
    const ms_msg *msg;
    ms_stat stat;
    ms_error err;
    (void)state;
    if (l == NULL) abort();
    test_arena_init(&arena, NULL);
    lame_open(l);
    ms_memory_init(&memory, l->u, MS_STR("job"), MS_STR("w"));
    memory.agent_types = MS_TYPES_ALL;
    assert_int_equal(ms_get_history(&memory, &late, NULL), MS_OK);
    l->lame.base.open = 0;
    assert_int_equal(ms_query_open(l->u, &q, &it, &err), MS_E_CLOSED);
    assert_string_equal(err.path, "stores[1]");
    q.limit = 3;
    assert_int_equal(ms_query_open(l->u, &q, &it, &err), MS_E_CLOSED);
    q.by_time = true;
    q.arena = &arena;
    assert_int_equal(ms_query_open(l->u, &q, &it, &err), MS_E_CLOSED);
    assert_string_equal(err.path, "stores[1]");
    assert_int_equal(ms_get_by_seq(l->u, NUMBER(1, 1), &arena, &msg, &err), MS_E_CLOSED);
    assert_string_equal(err.path, "stores[1]");
    assert_int_equal(ms_store_stat(l->u, &stat, &err), MS_E_CLOSED);
    assert_string_equal(err.path, "stores[1]");
    assert_int_equal(test_refresh(l->u, NULL, &err), MS_E_CLOSED);
    assert_int_equal(ms_list(l->u, NULL, &arena, &list, &err), MS_E_CLOSED);
    assert_int_equal(list.count, 0);
    assert_int_equal(ms_get_history(&memory, &it, &err), MS_E_CLOSED);
    assert_null(ms_next(&it));
    assert_null(ms_next(&late));
    assert_int_equal(ms_cursor_close(&late, NULL), MS_E_CLOSED);
    assert_int_equal(ms_get_by_seq(l->u, NUMBER(0, 1), &arena, &msg, &err), MS_OK);
    ms_arena_deinit(&arena);
    lame_close(l);
    free(l);
}

/* What happens while a window is collected has not happened. */
static void a_window_is_of_one_moment(void **state)
{
    (void)state;
    for (unsigned way = 0; way < 8; way++) {
        lame_union *l = (lame_union *)calloc(1, sizeof *l);
        ms_query q = query_of(no_str(), 0);
        ms_cursor it;
        size_t n[2] = {0, 0};
        if (l == NULL) abort();
        lame_open(l);
        l->lame.spoiled = l->stores[0];
        ms_arena arena;
        test_arena_init(&arena, NULL);
        q.limit = 14;
        q.oldest = q.reverse = way & 2;
        q.raw = way & 4 ? MS_RAW_MESSAGES : 0;
        q.by_time = (way & 5) == 1;
        q.arena = &arena;
        assert_int_equal(ms_query_open(l->u, &q, &it, NULL), MS_OK);
        for (const ms_msg *m; (m = ms_next(&it)) != NULL;) {
            uint64_t own = ms_seq(m) & 0xff;
            assert_true(own <= 10);
            n[ms_seq(m) >> 40]++;
        }
        assert_int_equal(n[0] + n[1], 14);
        if (q.by_time) assert_int_equal(n[0], 7);
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
        ms_arena_deinit(&arena);
        lame_close(l);
        free(l);
    }
}

/* Stores of one's own that have neither lookup nor statistics. */
static void a_store_with_only_a_query_will_do(void **state)
{
    lame_union *l = (lame_union *)calloc(1, sizeof *l);
    ms_arena arena;
    ms_memory memory;
    ms_cursor it;
    const ms_msg *msg;
    ms_stat stat;
    ms_listing list;
    uint64_t seq;
    size_t n = 0;
    (void)state;
    if (l == NULL) abort();
    test_arena_init(&arena, NULL);
    lame_open(l);
    assert_int_equal(ms_get_by_seq(l->u, NUMBER(1, 4), &arena, &msg, NULL), MS_OK);
    assert_int_equal(ms_seq(msg), NUMBER(1, 4));
    assert_int_equal(test_refresh(l->u, &seq, NULL), MS_OK);
    assert_int_equal(seq, NUMBER(1, 10));
    ms_memory_init(&memory, l->u, MS_STR("job"), MS_STR("w"));
    memory.agent_types = MS_TYPES_ALL;
    memory.scope.kind = MS_SCOPE_SINCE_TASK;
    assert_int_equal(ms_get_history(&memory, &it, NULL), MS_OK);
    while (ms_next(&it) != NULL) n++;
    assert_int_equal(n, 1);
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    assert_int_equal(ms_store_stat(l->u, &stat, NULL), MS_E_UNSUPPORTED);
    assert_int_equal(ms_list(l->u, NULL, &arena, &list, NULL), MS_E_UNSUPPORTED);
    ms_query q = query_of(MS_STR("job"), MS_VIEW_TIMELINE);
    assert_int_equal(ms_note(l->stores[0], 1, MS_STR("k"), ms_text("v"), NULL), MS_OK);
    for (unsigned way = 0; way < 4; way++) { /* it has no notes, and is not asked */
        q.raw = way & 1 ? MS_RAW_ALL : MS_RAW_NOTES;
        q.about_seq = way & 2 ? NUMBER(1, 0) : 0;
        assert_int_equal(ms_query_open(l->u, &q, &it, NULL), MS_OK);
        for (n = 0; ms_next(&it) != NULL;) n++;
        assert_int_equal(n, way & 2 ? 0 : way & 1 ? 21 : 1);
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    }
    ms_arena_deinit(&arena);
    lame_close(l);
    free(l);
}

/* A record that is damaged costs itself. */
static void damage_is_counted_in_every_order(void **state)
{
    ms_arena arena;
    (void)state;
    test_arena_init(&arena, NULL);
    for (size_t way = 0; way < 16; way++) {
        test_store s[2];
        ms_store *stores[2], *u;
        ms_cursor it;
        size_t n = 0;
        ms_query q = query_of(no_str(), 0);
        for (size_t i = 0; i < 2; i++) s[i] = store_open(store_kind_at(2), NULL);
        for (size_t i = 0; i < 2; i++) stores[i] = s[i].store;
        for (int i = 0; i < 10; i++) append_at(stores[i % 2], MS_T_TASK, "w", i);
        const ms_msg *msg;
        assert_int_equal(ms_get_by_seq(stores[1], 3, NULL, &msg, NULL), MS_OK);
        ((unsigned char *)s[1].buffer)[(const char *)(const void *)msg -
                                       (const char *)s[1].buffer + 20] ^= 1;
        u = union_of(stores, 2);
        q.reverse = way & 2;
        q.limit = way & 4 ? 8 : 0;
        q.by_time = way & 8;
        q.arena = &arena;
        assert_int_equal(ms_query_open(u, &q, &it, NULL), MS_OK);
        while (ms_next(&it) != NULL) n++;
        assert_int_equal(n, way & 4 ? 8 : 9);
        assert_true(it.damaged == 1);
        assert_int_equal(ms_cursor_close(&it, NULL), MS_E_DAMAGED);
        ms_close(u);
        store_close(&s[0]);
        store_close(&s[1]);
    }
    ms_arena_deinit(&arena);
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

static bool is_union(const ms_store *store)
{
    ms_store *u = union_of(NULL, 0);
    bool is = store->backend == u->backend;
    ms_close(u);
    return is;
}

/* Takes in what a cursor gives. */
static void given_read(given *g, ms_cursor *it)
{
    const ms_msg *msg, *again;
    ms_error err;
    while ((msg = ms_next(it)) != NULL) {
        assert_true(g->n < sizeof g->bytes / sizeof g->bytes[0]);
        char *copy = (char *)malloc(ms_size(msg));
        if (copy == NULL) abort();
        memcpy(copy, msg, ms_size(msg));
        g->bytes[g->n++] = copy;
        if (ms_kind_of(msg) == MS_KIND_MESSAGE && is_union(it->store) &&
            ms_decode(copy, ms_size(msg), &again, &err) != MS_OK)
            fail_msg("decode: %s", err.message);
    }
    if (ms_cursor_close(it, &err) != MS_OK) fail_msg("close: %s", err.message);
}

static void given_query(given *g, ms_store *store, const ms_query *q)
{
    ms_cursor it;
    ms_error err;
    memset(g, 0, sizeof *g);
    if (ms_query_open(store, q, &it, &err) != MS_OK) fail_msg("query: %s", err.message);
    given_read(g, &it);
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

static void must_all_be_given(const given *want, const given *got)
{
    assert_int_equal(got->n, want->n);
    must_be_given(want, 0, got, 0, want->n, 0);
}

/* A random change of a random message; what a store cannot do, it does not. */
static void family_change(family *f, uint64_t *rng, bool redact, ms_stream *stream)
{
    size_t which = (size_t)test_below(rng, f->n);
    ms_store *store = f->stores[which];
    ms_stat stat;
    ms_envelope m = random_message(rng);
    const ms_msg *msg;
    ms_arena arena;
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    uint64_t seq = 1 + test_below(rng, stat.last_seq + 1);
    test_arena_init(&arena, NULL);
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
    ms_arena_deinit(&arena);
}

static void what_stores_show_the_union_shows(void **state)
{
    uint64_t rng = test_seed() + 11;
    (void)state;
    for (size_t round = test_times(40); round > 0; round--) {
        family f;
        ms_stream stream;
        ms_arena arena;
        memset(&stream, 0, sizeof stream);
        test_arena_init(&arena, NULL);
        family_open(&f, &rng, (size_t)test_below(&rng, 60), 0);
        for (int i = 0; i < 60; i++) family_change(&f, &rng, true, &stream);
        for (int i = 0; i < 20; i++) {
            given one, all, wants;
            size_t limit = test_one_in(&rng, 2) ? 1 + (size_t)test_below(&rng, 30) : 0;
            ms_query q = query_of(random_location(&rng), MS_VIEW_TIMELINE);
            if (test_one_in(&rng, 2)) q.location = no_str();
            if (test_one_in(&rng, 2)) q.arena = &arena;
            if (test_one_in(&rng, 2)) q.raw = MS_RAW_MESSAGES;
            memset(&wants, 0, sizeof wants);
            for (size_t k = 0; k < f.n; k++) {
                given_query(&one, f.stores[k], &q);
                for (size_t j = 0; j < one.n; j++) {
                    uint64_t seq = ms_seq(given_at(&one, j)) | (uint64_t)k << 40;
                    for (int b = 0; b < 8; b++) one.bytes[j][8 + b] = (char)(seq >> 8 * b);
                    wants.bytes[wants.n++] = one.bytes[j];
                }
            }
            q.limit = limit;
            q.oldest = test_one_in(&rng, 2);
            q.reverse = test_one_in(&rng, 2);
            size_t n = limit != 0 && limit < wants.n ? limit : wants.n;
            size_t from = q.oldest ? 0 : wants.n - n;
            given_query(&all, f.u, &q);
            assert_int_equal(all.n, n);
            for (size_t k = 0; k < n; k++)
                must_be_given(&wants, q.reverse ? from + n - 1 - k : from + k, &all, k, 1,
                              0);
            given_free(&wants);
            given_free(&all);
        }
        ms_arena_deinit(&arena);
        family_close(&f);
    }
}

/* Records of every kind, store after store; and those about one message. */
static void raw_records_go_from_store_to_store(void **state)
{
    uint64_t rng = test_seed() + 12;
    (void)state;
    for (size_t round = test_times(40); round > 0; round--) {
        family f;
        ms_stream stream;
        given one, all;
        memset(&stream, 0, sizeof stream);
        memset(&f, 0, sizeof f);
        f.n = 3;
        for (size_t i = 0; i < 3; i++) {
            f.s[i] = store_open(store_kind_at((size_t)test_below(&rng, STORE_KINDS)),
                                NULL);
            f.stores[i] = f.s[i].store;
        }
        for (int i = 0; i < 40; i++) {
            ms_envelope m = random_message(&rng);
            must_append(f.stores[test_below(&rng, 3)], no_str(), &m);
        }
        f.u = union_of(f.stores, 3);
        for (int i = 0; i < 60; i++) family_change(&f, &rng, true, &stream);
        for (int i = 0; i < 20; i++) {
            ms_query q = query_of(random_location(&rng), MS_VIEW_TIMELINE);
            size_t at = 0, about = (size_t)test_below(&rng, 6);
            uint64_t own = 1 + test_below(&rng, 20);
            q.raw = 1 + (unsigned)test_below(&rng, MS_RAW_ALL);
            if (test_one_in(&rng, 2)) q.location = no_str();
            else q.about_seq = about < 3 ? NUMBER(about, own) : 0;
            q.reverse = test_one_in(&rng, 3);
            given_query(&all, f.u, &q);
            ms_query own_q = q;
            if (q.about_seq != 0) own_q.about_seq = own;
            for (size_t k = 0; k < 3; k++) {
                size_t which = q.reverse ? 2 - k : k;
                if (q.about_seq != 0 && which != about) continue;
                given_query(&one, f.stores[which], &own_q);
                assert_true(at + one.n <= all.n);
                must_be_given(&one, 0, &all, at, one.n, which);
                at += one.n;
                given_free(&one);
            }
            assert_int_equal(at, all.n);
            q.limit = 1 + (size_t)test_below(&rng, 20);
            q.oldest = test_one_in(&rng, 2);
            given_query(&one, f.u, &q);
            assert_int_equal(one.n, q.limit < all.n ? q.limit : all.n);
            size_t skip = q.oldest == q.reverse ? all.n - one.n : 0;
            must_be_given(&all, skip, &one, 0, one.n, 0);
            given_free(&one);
            given_free(&all);
        }
        family_close(&f);
    }
}

/* Changes, pieces and messages after the opening are not seen; what is redacted is. */
static void cursors_stay_as_of_their_opening(void **state)
{
    uint64_t rng = test_seed() + 13;
    (void)state;
    for (size_t round = test_times(60); round > 0; round--) {
        family f;
        ms_stream stream;
        ms_str team[TEAM_MAX];
        ms_arena arena;
        ms_cursor it[2];
        given early, late;
        memset(&stream, 0, sizeof stream);
        test_arena_init(&arena, NULL);
        family_open(&f, &rng, (size_t)test_below(&rng, 60), 0);
        for (int i = 0; i < 30; i++) family_change(&f, &rng, true, &stream);
        for (int i = 0; i < 10; i++) {
            bool history = test_one_in(&rng, 2);
            ms_query q = union_query(&f, &rng, team, &arena);
            ms_memory m = random_memory(&rng, team, &arena);
            m.store = f.u;
            for (int k = 0; k < 2; k++)
                assert_int_equal(history ? ms_get_history(&m, &it[k], NULL)
                                         : ms_query_open(m.store, &q, &it[k], NULL),
                                 MS_OK);
            memset(&early, 0, sizeof early);
            memset(&late, 0, sizeof late);
            given_read(&early, &it[0]);
            for (int k = 0; k < 10; k++) family_change(&f, &rng, false, &stream);
            for (int k = 0; k < 10; k++) {
                ms_envelope e = random_message(&rng);
                must_append(f.stores[test_below(&rng, f.n)], no_str(), &e);
            }
            given_read(&late, &it[1]);
            must_all_be_given(&early, &late);
            given_free(&early);
            given_free(&late);
        }
        ms_arena_deinit(&arena);
        family_close(&f);
    }
}

/* Numbers, notes and facts; hidden messages stay behind. */
static void a_copy_takes_changes_along(void **state)
{
    uint64_t rng = test_seed() + 14;
    (void)state;
    for (size_t round = test_times(20); round > 0; round--) {
        family f;
        ms_stream stream;
        ms_arena arena;
        given want, got;
        ms_error err;
        ms_query q = query_of(no_str(), MS_VIEW_TIMELINE);
        memset(&stream, 0, sizeof stream);
        test_arena_init(&arena, NULL);
        family_open(&f, &rng, (size_t)test_below(&rng, 60), 0);
        for (int i = 0; i < 60; i++) family_change(&f, &rng, true, &stream);
        test_store to = store_open(store_kind_at((size_t)test_below(&rng, 3)), NULL);
        if (ms_copy(to.store, f.u, NULL, NULL, NULL, &err) != MS_OK)
            fail_msg("copy: %s", err.message);
        q.arena = &arena;
        given_query(&want, f.u, &q);
        given_query(&got, to.store, &q);
        assert_int_equal(got.n, want.n);
        for (size_t i = 0; i < got.n; i++) {
            ms_value a = ms_content(given_at(&want, i));
            ms_value b = ms_content(given_at(&got, i));
            assert_int_equal(ms_seq(given_at(&got, i)), ms_seq(given_at(&want, i)));
            assert_true(twin_value_equal(a, b));
        }
        for (size_t i = 0; i < 5; i++) {
            const ms_str names[] = {MS_STR("job_1"), MS_STR("job_2"), MS_STR("job_10"),
                                    MS_STR("a/b"), MS_STR("\xe6\x97\xa5\xe6\x9c\xac")};
            ms_str a, b;
            assert_int_equal(ms_location_get(f.u, names[i], &arena, &a, NULL),
                             MS_OK);
            assert_int_equal(ms_location_get(to.store, names[i], &arena, &b, NULL),
                             MS_OK);
            if (!ms_str_equal(a, b))
                fail_msg("facts: %.*s, %.*s", (int)a.len, a.ptr, (int)b.len, b.ptr);
        }
        if (ms_selfcheck(to.store, &err) != MS_OK) fail_msg("%s", err.message);
        if (ms_selfcheck(f.u, &err) != MS_OK) fail_msg("%s", err.message);
        given_free(&want);
        given_free(&got);
        store_close(&to);
        ms_arena_deinit(&arena);
        family_close(&f);
    }
}

/* Lookup: a hidden message is not there; an unfinished one comes with its text. */
static void lookup_sees_changes(void **state)
{
    test_store s[2];
    ms_store *stores[2], *u;
    ms_arena arena;
    ms_stream stream;
    ms_stream_text text;
    const ms_msg *msg;
    ms_envelope m = ms_assistant_message(ms_text("a"));
    (void)state;
    test_arena_init(&arena, NULL);
    for (size_t i = 0; i < 2; i++) s[i] = store_open(store_kind_at(i), NULL);
    for (size_t i = 0; i < 2; i++) stores[i] = s[i].store;
    u = union_of(stores, 2);
    append_at(stores[1], MS_T_TASK, "w", 1);
    append_at(stores[1], MS_T_TASK, "w", 2);
    assert_int_equal(ms_hide(stores[1], 1, NULL), MS_OK);
    assert_int_equal(ms_stream_begin(&stream, stores[1], MS_STR("job"), &m, NULL, NULL),
                     MS_OK);
    assert_int_equal(ms_stream_feed(&stream, MS_STR("bc"), NULL), MS_OK);
    assert_int_equal(test_stream_flush(&stream, NULL), MS_OK);
    assert_int_equal(ms_get_by_seq(u, NUMBER(1, 1), &arena, &msg, NULL), MS_E_NOT_FOUND);
    assert_null(msg);
    assert_int_equal(ms_get_by_seq(u, NUMBER(1, 3), &arena, &msg, NULL), MS_OK);
    assert_true(ms_str_equal(ms_content(msg).text, MS_STR("abc")));
    assert_int_equal(ms_stream_read(u, NUMBER(1, 3), 1, &arena, &text, NULL), MS_OK);
    assert_true(ms_str_equal(text.text, MS_STR("bc")) && !text.ended);
    for (unsigned way = 0; way < 4; way++) {
        ms_cursor it;
        ms_query q = query_of(MS_STR("job"), MS_VIEW_CONVERSATION);
        q.arena = &arena;
        q.by_time = way & 1;
        q.limit = way & 2;
        assert_int_equal(ms_query_open(u, &q, &it, NULL), MS_OK);
        msg = ms_next(&it);
        assert_true(ms_str_equal(ms_content(msg).text, MS_STR("abc")));
        assert_int_equal(ms_seq(msg), NUMBER(1, 3));
        assert_null(ms_next(&it));
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    }
    assert_int_equal(ms_stream_end(&stream, NULL, NULL, NULL), MS_OK);
    assert_int_equal(ms_get_by_seq(u, NUMBER(1, 3), &arena, &msg, NULL), MS_OK);
    assert_true(ms_str_equal(ms_content(msg).text, MS_STR("abc")));
    ms_arena_deinit(&arena);
    ms_close(u);
    store_close(&s[0]);
    store_close(&s[1]);
}

/* Pages by number lose no message between them. */
static void pages_by_number_lose_nothing(void **state)
{
    uint64_t rng = test_seed() + 15;
    family f;
    ms_arena arena;
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    size_t n = 0, before, want = 0;
    ms_error err;
    (void)state;
    test_arena_init(&arena, NULL);
    memset(&q, 0, sizeof q);
    family_open(&f, &rng, 100, 0);
    q.location = MS_STR("job_1");
    q.limit = 7;
    q.reverse = true;
    q.arena = &arena;
    do {
        before = n;
        if (ms_query_open(f.u, &q, &it, &err) != MS_OK)
            fail_msg("page: %s", err.message);
        for (; (msg = ms_next(&it)) != NULL; n++) {
            assert_true(q.before_seq == 0 || ms_seq(msg) < q.before_seq);
            q.before_seq = ms_seq(msg);
        }
        assert_int_equal(ms_cursor_close(&it, &err), MS_OK);
    } while (n > before);
    for (size_t i = 0; i < f.all.count; i++)
        want += twin_str_equal(f.all.items[i]->field[MS_F_LOCATION].text, q.location);
    assert_int_equal(n, want);
    ms_arena_deinit(&arena);
    family_close(&f);
}

static void a_union_changes_nothing(void **state)
{
    test_store s[2];
    ms_store *stores[2], *u;
    ms_stream stream;
    ms_envelope m = ms_user_message(ms_text("hi"));
    uint64_t hidden;
    ms_error err;
    (void)state;
    two_stores(s, stores, &u);
    uint64_t seq = append_at(stores[0], MS_T_USER_MESSAGE, NULL, 1);
    assert_int_equal(ms_amend(u, seq, &m, &err), MS_E_READ_ONLY);
    assert_int_equal(err.code, MS_E_READ_ONLY);
    assert_int_equal(ms_hide(u, seq, NULL), MS_E_READ_ONLY);
    assert_int_equal(ms_rewind(u, MS_STR("job"), 0, &hidden, NULL), MS_E_READ_ONLY);
    assert_int_equal(ms_redact(u, seq, NULL), MS_E_READ_ONLY);
    assert_int_equal(ms_note(u, seq, MS_STR("k"), ms_text("v"), NULL), MS_E_READ_ONLY);
    assert_int_equal(ms_location_set(u, MS_STR("job"), MS_STR("{\"a\":1}"), NULL),
                     MS_E_READ_ONLY);
    assert_int_equal(ms_fork(u, MS_STR("job"), seq, MS_STR("b"), NULL, NULL),
                     MS_E_READ_ONLY);
    assert_int_equal(ms_stream_begin(&stream, u, MS_STR("job"), &m, NULL, NULL),
                     MS_E_READ_ONLY);
    assert_int_equal(ms_redact(stores[0], seq, NULL), MS_OK);
    assert_int_equal(ms_redact(u, seq, NULL), MS_E_READ_ONLY);
    assert_int_equal(ms_hide(stores[0], seq, NULL), MS_OK);
    assert_int_equal(ms_redact(u, seq, NULL), MS_E_READ_ONLY);
    assert_int_equal(ms_note(u, seq, MS_STR("k"), ms_text("v"), NULL), MS_E_HIDDEN);
    ms_close(u);
    store_close(&s[0]);
    store_close(&s[1]);
}


/* ---- many stores, other processes, no memory ---- */

static void eight_thousand_stores(void **state)
{
    enum { MANY = 8000, ROOM = 4096 };
    char *room = (char *)malloc((size_t)MANY * ROOM);
    ms_store **stores = (ms_store **)calloc(MANY, sizeof *stores);
    ms_mem_desc desc;
    ms_cursor it;
    ms_stat stat;
    ms_arena arena;
    ms_listing list;
    uint64_t rng = test_seed() + 9;
    (void)state;
    if (room == NULL || stores == NULL) abort();
    memset(&desc, 0, sizeof desc);
    test_arena_init(&arena, NULL);
    desc.buffer_size = ROOM;
    for (size_t i = 0; i < MANY; i++) {
        desc.buffer = room + i * ROOM;
        assert_int_equal(ms_mem_open(&stores[i], &desc, NULL), MS_OK);
        append_at(stores[i], MS_T_TASK, "w", (int64_t)test_below(&rng, 5000));
    }
    ms_store *u = union_of(stores, MANY);
    ms_query q = query_of(MS_STR("job"), MS_VIEW_TIMELINE);
    for (unsigned way = 0; way < 4; way++) {
        int64_t last = way & 1 ? INT64_MAX : -1, time;
        size_t n = 0;
        q.by_time = true;
        q.reverse = way & 1;
        q.limit = way & 2 ? 100 : 0;
        assert_int_equal(ms_query_open(u, &q, &it, NULL), MS_OK);
        for (const ms_msg *m; (m = ms_next(&it)) != NULL; n++, last = time) {
            assert_true(ms_time(m, &time));
            assert_true(q.reverse ? time <= last : time >= last);
        }
        assert_int_equal(n, way & 2 ? 100 : MANY);
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    }
    assert_int_equal(ms_store_stat(u, &stat, NULL), MS_OK);
    assert_int_equal(stat.messages, MANY);
    assert_int_equal(stat.last_seq, NUMBER(MANY - 1, 1));
    assert_int_equal(ms_list(u, NULL, &arena, &list, NULL), MS_OK);
    assert_int_equal(list.count, 1);
    assert_int_equal(list.items[0].messages, MANY);
    assert_int_equal(ms_selfcheck(u, NULL), MS_OK);
    ms_arena_deinit(&arena);
    ms_close(u);
    for (size_t i = 0; i < MANY; i++) ms_close(stores[i]);
    free(stores);
    free(room);
}

/* A union of readers sees what the writers append, at the next query. */
static void readers_of_logs_see_what_writers_append(void **state)
{
    test_store s[2];
    ms_store *readers[2], *u;
    ms_query q = query_of(MS_STR("job"), MS_VIEW_TIMELINE);
    uint64_t last;
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        s[i] = log_at(MS_LOG_SEGMENT_MIN, MS_ENGINE_MAP);
        log_open(&s[i]);
        append_at(s[i].store, MS_T_TASK, "w", 1);
        readers[i] = log_reader(&s[i]);
    }
    u = union_of(readers, 2);
    for (size_t n = 0; n < 50; n++) {
        ms_cursor it;
        size_t count = 0;
        append_at(s[n % 2].store, MS_T_TASK, "w", (int64_t)n);
        assert_int_equal(ms_query_open(u, &q, &it, NULL), MS_OK);
        while (ms_next(&it) != NULL) count++;
        assert_int_equal(count, n + 3);
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
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
        if (ms_append(b->store, MS_STR("job"), &m, &seq, NULL) != MS_OK) b->failed = true;
        if (seq % 10 == 1 && seq > 10) ms_hide(b->store, seq - 1, NULL);
    }
    return NULL;
}

/* The numbers of each store rise by one, but for what is hidden. */
static void must_be_whole(ms_store *u, const ms_query *q)
{
    uint64_t last[2] = {0, 0}, lowest[2] = {UINT64_MAX, UINT64_MAX};
    ms_cursor it;
    ms_error err;
    size_t n = 0;
    if (ms_query_open(u, q, &it, &err) != MS_OK) fail_msg("query: %s", err.message);
    for (const ms_msg *m; (m = ms_next(&it)) != NULL; n++) {
        uint64_t own = ms_seq(m) & 0xffffffffff, which = ms_seq(m) >> 40;
        bool first = last[which] == 0;
        uint64_t step = first ? 1 : q->reverse ? last[which] - own : own - last[which];
        if (step != 1 && step != 2)
            fail_msg("%llu after %llu", (unsigned long long)own,
                     (unsigned long long)last[which]);
        last[which] = own;
        if (own < lowest[which]) lowest[which] = own;
    }
    if (ms_cursor_close(&it, &err) != MS_OK) fail_msg("close: %s", err.message);
    if (q->limit == 0)
        for (int i = 0; i < 2; i++) assert_true(last[i] == 0 || lowest[i] == 1);
    if (q->limit != 0 && n != q->limit && (lowest[0] > 1 || lowest[1] > 1))
        assert_true(n <= q->limit);
}

/* Any thread may read while others append to the stores. */
static void readers_and_writers_at_once(void **state)
{
    const size_t kinds[] = {0, 3};
    test_store s[2];
    ms_store *stores[2], *u;
    busy work[2];
    pthread_t threads[2];
    ms_arena arena;
    (void)state;
    test_arena_init(&arena, NULL);
    for (size_t i = 0; i < 2; i++) s[i] = store_open(store_kind_at(kinds[i]), NULL);
    for (size_t i = 0; i < 2; i++) stores[i] = s[i].store;
    u = union_of(stores, 2);
    for (size_t i = 0; i < 2; i++) {
        work[i].store = stores[i];
        work[i].appends = test_times(2000);
        work[i].failed = false;
        assert_int_equal(pthread_create(&threads[i], NULL, keep_busy, &work[i]), 0);
    }
    for (size_t round = 0; round < test_times(200); round++) {
        ms_query q = query_of(MS_STR("job"), MS_VIEW_TIMELINE);
        q.reverse = round & 1;
        q.limit = round & 2 ? 30 : 0;
        q.oldest = (round & 6) == 6;
        q.by_time = round % 5 == 4 && q.limit == 0 && !q.reverse;
        q.arena = &arena;
        must_be_whole(u, &q);
        ms_arena_reset(&arena);
    }
    for (size_t i = 0; i < 2; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (size_t i = 0; i < 2; i++) assert_false(work[i].failed);
    assert_int_equal(ms_selfcheck(u, NULL), MS_OK);
    ms_close(u);
    ms_arena_deinit(&arena);
    store_close(&s[0]);
    store_close(&s[1]);
}

/* Everything that allocates, through one allocator. */
static ms_result all_once(const family *f, test_alloc *heap)
{
    ms_union_desc desc;
    ms_store *u;
    ms_arena arena;
    ms_memory memory;
    ms_listing list;
    ms_cursor it;
    const ms_msg *msg;
    ms_query q = query_of(no_str(), 0);
    memset(&desc, 0, sizeof desc);
    test_arena_init(&arena, &heap->alloc);
    desc.stores = f->stores;
    desc.n_stores = f->n;
    desc.alloc = heap->alloc;
    q.arena = &arena;
    ms_result code = ms_union_open(&u, &desc, NULL);
    if (code != MS_OK) return code;
    for (unsigned way = 0; code == MS_OK && way < 8; way++) {
        q.by_time = way & 1;
        q.reverse = way & 2;
        q.limit = way & 4 ? 90 : 0;
        code = ms_query_open(u, &q, &it, NULL);
        while (ms_next(&it) != NULL) {}
        ms_result end = ms_cursor_close(&it, NULL);
        if (code == MS_OK) code = end;
    }
    ms_memory_init(&memory, u, MS_STR("job_1"), MS_STR("w1"));
    memory.scope.kind = MS_SCOPE_SINCE_TASK;
    memory.conversation_limit = 3;
    if (code == MS_OK) code = ms_get_history(&memory, &it, NULL);
    while (ms_next(&it) != NULL) {}
    ms_result end = ms_cursor_close(&it, NULL);
    if (code == MS_OK) code = end;
    if (code == MS_OK) code = ms_list(u, NULL, &arena, &list, NULL);
    if (code == MS_OK)
        code = ms_get_by_seq(u, f->all.items[3]->seq, &arena, &msg, NULL);
    ms_arena_deinit(&arena);
    ms_close(u);
    return code;
}

static void no_memory_leaves_nothing_behind(void **state)
{
    uint64_t rng = test_seed() + 10;
    test_alloc heap;
    family f;
    size_t k = 1;
    (void)state;
    family_open(&f, &rng, 140, 0);
    for (;; k++) {
        test_alloc_init(&heap);
        heap.fail_at = k;
        ms_result code = all_once(&f, &heap);
        test_alloc_done(&heap);
        if (heap.failed == 0) assert_int_equal(code, MS_OK);
        if (heap.failed == 0) break;
        assert_true(code == MS_E_NO_MEMORY || code == MS_E_ARENA);
    }
    assert_true(k > 20);
    family_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_query_equals_arrays_in_a_row),
        cmocka_unit_test(backwards_is_the_reverse),
        cmocka_unit_test(every_message_is_found_by_number),
        cmocka_unit_test(totals_are_sums),
        cmocka_unit_test(a_listing_adds_up_the_stores),
        cmocka_unit_test(a_history_is_that_of_one_store),
        cmocka_unit_test(a_union_may_be_what_runs_now),
        cmocka_unit_test(a_history_stays_as_of_its_opening),
        cmocka_unit_test(the_last_task_divides_every_store),
        cmocka_unit_test(a_query_stays_as_of_its_opening),
        cmocka_unit_test(a_copy_keeps_the_numbers),
        cmocka_unit_test(a_union_is_rewritten_into_one_log),
        cmocka_unit_test(a_copy_of_a_union_fits_in_no_other),
        cmocka_unit_test(opening_names_the_store_that_will_not_do),
        cmocka_unit_test(a_union_is_for_reading),
        cmocka_unit_test(a_union_of_nothing_is_empty),
        cmocka_unit_test(trouble_in_one_store_comes_out),
        cmocka_unit_test(a_sort_keeps_what_a_store_writes_over),
        cmocka_unit_test(a_store_that_is_closed_meanwhile_is_named),
        cmocka_unit_test(a_window_is_of_one_moment),
        cmocka_unit_test(a_store_with_only_a_query_will_do),
        cmocka_unit_test(damage_is_counted_in_every_order),
        cmocka_unit_test(what_stores_show_the_union_shows),
        cmocka_unit_test(raw_records_go_from_store_to_store),
        cmocka_unit_test(cursors_stay_as_of_their_opening),
        cmocka_unit_test(a_copy_takes_changes_along),
        cmocka_unit_test(lookup_sees_changes),
        cmocka_unit_test(pages_by_number_lose_nothing),
        cmocka_unit_test(a_union_changes_nothing),
        cmocka_unit_test(eight_thousand_stores),
        cmocka_unit_test(readers_of_logs_see_what_writers_append),
        cmocka_unit_test(readers_and_writers_at_once),
        cmocka_unit_test(no_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
