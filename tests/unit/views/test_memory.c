/* The history that an agent reads: blocks, limits, duplicates, timelines, scopes, runtime
 * messages. Random histories are answered by a naive computation over the twins of their
 * stores, by the rules of the manual; small ones are in tests/scripts/memory.txt. All of it
 * runs over the library's stores, over the SQLite store of the examples and over a store of
 * a program's own that has no more than it must; what only reads runs over a union, too.
 */

#define _GNU_SOURCE

#include "sqlite_kind.h"
#include "own_store.h"
#include "script.h"
#include "twin.h"

#include <unistd.h>


/* ---- the least store that somebody could write: it appends and answers queries ---- */

static void close_least(ms_store *store)
{
    ms_close(((own_store *)store)->inside);
    free(store);
}

/* A message is gone when its cursor moves. */
static ms_result open_least(test_store *s, const store_options *options, ms_error *err)
{
    own_store *own = (own_store *)calloc(1, sizeof *own);
    test_store inside;
    assert_non_null(own);
    memset(&inside, 0, sizeof inside);
    assert_int_equal(store_kind_at(0)->open(&inside, options, err), MS_OK);
    own_open(own, inside.store);
    own->fleeting = true;
    own_only_query(own);
    own->backend.append = own_append;
    own->backend.close = close_least;
    s->store = &own->base;
    return MS_OK;
}

static store_kind least_kind = {"a store of its own", false, false, false, false,
                                open_least};

/* Is opened by book_open; it is for reading. */
static store_kind union_kind = {"a union", false, false, false, true, NULL};

#define ON_ALL_STORES(test)                                       \
    ON_EVERY_STORE(test),                                         \
    {#test " in sqlite", test, NULL, NULL, &sqlite_kind},         \
    {#test " in a store of its own", test, NULL, NULL, &least_kind}

#define READING(test) \
    ON_ALL_STORES(test), {#test " in a union", test, NULL, NULL, &union_kind}

/* The newest message is damaged, and the store cannot tell its number. */
TEST(a_history_has_what_is_readable_when_the_newest_message_is_damaged)
{
    test_store s;
    ms_error err;
    ms_cursor it;
    ms_memory memory;
    ms_envelope m = ms_user_message(ms_text("x"));
    uint64_t last = 0, n = 0;
    assert_int_equal(open_least(&s, &(store_options){.room = 0}, &err), MS_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(ms_append(s.store, MS_STR("l"), &m, NULL, NULL), MS_OK);
    ((own_store *)s.store)->damaged_each = 4;
    ms_memory_init(&memory, s.store, MS_STR("l"), MS_STR("a"));
    assert_int_equal(ms_get_history(&memory, &it, &err), MS_OK);
    while (ms_next(&it) != NULL) n++;
    assert_int_equal(ms_cursor_close(&it, NULL), MS_E_DAMAGED);
    assert_int_equal(n, 3);
    assert_int_equal(ms_wait(s.store, 0, 0, &last, &err), MS_OK);
    assert_int_equal(last, 3);
    ms_store *u;
    const ms_query q = {.location = MS_STR("l")};
    const ms_union_desc joined = {.stores = &s.store, .n_stores = 1};
    assert_int_equal(ms_union_open(&u, &joined, &err), MS_OK);
    assert_int_equal(ms_query_open(u, &q, &it, &err), MS_OK);
    for (n = 0; ms_next(&it) != NULL; n++) continue;
    assert_int_equal(ms_cursor_close(&it, NULL), MS_E_DAMAGED);
    assert_int_equal(n, 3);
    assert_int_equal(ms_append(((own_store *)s.store)->inside, MS_STR("l"), &m, NULL, NULL),
                     MS_OK);
    ms_query before = q;
    before.before_seq = 4;
    assert_int_equal(ms_query_open(u, &before, &it, &err), MS_OK);
    for (n = 0; ms_next(&it) != NULL; n++) continue;
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    assert_int_equal(n, 3);
    ms_close(u);
    ms_close(s.store);
}


/* ---- a store, or several as a union, beside twins ---- */

enum { PARTS = 5, TEAM_MOST = 40, MESSAGES_MOST = 2000 };

typedef struct book {
    test_store s[PARTS];
    twin part[PARTS], joined;
    twin *all;                /* of what is read: the only part, or all of them */
    ms_store *store;
    size_t n;                 /* parts: of a union of several kinds */
} book;

/* Takes into the twin of a union what its parts have by now. */
static void book_join(book *b)
{
    if (b->all != &b->joined) return;
    twin_deinit(&b->joined);
    for (size_t i = 0; i < b->n; i++) twin_join(&b->joined, &b->part[i], i);
}

static void book_open(book *b, const store_kind *kind)
{
    const store_options options = {.room = (size_t)1 << 21, .keep_unset_times = true};
    ms_store *stores[PARTS];
    memset(b, 0, sizeof *b);
    b->n = kind == &union_kind ? PARTS : 1;
    for (size_t i = 0; i < b->n; i++) {
        b->s[i] = store_open(b->n > 1 ? store_kind_at(i) : kind, &options);
        b->part[i].keep_unset_times = true;
        b->part[i].no_commit = b->s[i].store->backend->change == NULL;
        stores[i] = b->s[i].store;
    }
    b->all = b->n > 1 ? &b->joined : &b->part[0];
    b->store = b->n > 1 ? union_of(stores, PARTS) : stores[0];
}

static void book_close(book *b)
{
    if (b->n > 1) ms_close(b->store);
    twin_deinit(&b->joined);
    for (size_t i = 0; i < b->n; i++) {
        store_close(&b->s[i]);
        twin_deinit(&b->part[i]);
    }
}

/* One of many agents, "a0" the first. */
static ms_str agent_name(uint64_t agent)
{
    static char names[64][8];
    snprintf(names[agent], sizeof names[agent], "a%u", (unsigned)agent);
    return ms_str_of(names[agent]);
}

static ms_str job_name(uint64_t job)
{
    static const char *const names[] = {"job_0", "job_1", "job_10", "job"};
    return ms_str_of(names[job]);
}

static ms_envelope random_row(uint64_t *rng)
{
    const ms_str phases[] = {MS_STR("0"), MS_STR("1"), MS_STR("2")};
    ms_type type = (ms_type)(1 + test_below(rng, (uint64_t)MS_TYPE_COUNT - 1));
    if (test_one_in(rng, 3)) type = (ms_type)(1 + test_below(rng, 8));
    ms_envelope m = message_of(type, MS_STR("text"));
    m.location = job_name(test_below(rng, 3));
    if (!test_one_in(rng, 6))
        m.agent_key = agent_name(test_below(rng, test_one_in(rng, 4) ? 50 : 6));
    m.has_time = !test_one_in(rng, 4);
    m.time_ns = m.has_time ? SECONDS((double)test_below(rng, 20) - 2) : 0;
    if (type == MS_T_SYNTHESIS && !test_one_in(rng, 4))
        m.phase_id = ms_json(random_of(rng, phases, 3));
    return m;
}

/* Appends messages to the parts in turn, of a union: the first ones to the first part; or
 * to the runtime store, if there is one. */
static void grow(uint64_t *rng, book *b, book *runtime, size_t n)
{
    const ms_append_opts opts = {.keep_seq = false};
    for (size_t i = 0; i < n; i++) {
        bool aside = runtime != NULL && test_one_in(rng, 4);
        book *to = aside ? runtime : b;
        size_t part = to->n > 1 ? i * to->n / n : 0;
        ms_envelope m = random_row(rng);
        m.id = aside ? MS_STR("of the runtime") : no_str();
        twin_append_both(&to->part[part], to->s[part].store, &m, 1, &opts, false);
    }
}


/* ---- the naive computation ---- */

enum { CONVERSATION, OWN, TEAM, GLOBAL, BLOCKS };

/* Who reads what, beside the ms_memory. */
typedef struct reader {
    ms_memory memory;
    ms_str team[TEAM_MOST];
    twin *twins[2];           /* the store's; the runtime store's or NULL */
    unsigned task_in;         /* where the reader's last task is: 0 or 1 */
    uint64_t task;            /* its sequence there; 0: none */
} reader;

/* The query of a block; of the team only agent `part`, if they are read one by one. */
static ms_query query_of_block(const reader *r, int block, size_t part)
{
    static const unsigned views[] = {MS_VIEW_CONVERSATION, MS_VIEW_AGENT, MS_VIEW_TEAM,
                                     MS_VIEW_GLOBAL};
    const ms_memory *m = &r->memory;
    ms_query q = query_of(m->location, views[block]);
    bool by_agent = m->team_by_agent && !m->timeline;
    q.agent_key = m->agent_key;
    q.agent_types = m->agent_types;
    q.agent_keys = r->team + part;
    q.n_agent_keys = by_agent ? 1 : m->n_subordinates;
    return q;
}

static void find_last_task(reader *r)
{
    ms_query q = query_of_block(r, OWN, 0);
    q.types = q.agent_types = MS_BIT(MS_T_TASK);
    r->task = 0;
    for (unsigned from = 0; from < 2 && r->twins[from] != NULL; from++) {
        const twin *t = r->twins[from];
        for (size_t i = 0; i < t->count; i++) {
            if (!twin_match(&q, t->items[i])) continue;
            r->task_in = from;
            r->task = t->items[i]->seq;
        }
    }
}

/* -1, 0, 1: before the last task, that task, after it; without a task: 0. */
static int beside_task(const reader *r, const twin_msg *m, unsigned from)
{
    if (r->task == 0) return 0;
    if (from != r->task_in) return from < r->task_in ? -1 : 1;
    return (m->seq > r->task) - (m->seq < r->task);
}

static bool in_phase(const ms_scope *s, const twin_msg *m)
{
    int64_t phase = s->has_previous_phase ? s->previous_phase : s->phase - 1;
    bool any = s->has_previous_phase || (s->has_phase && s->phase > 0);
    ms_value is = m->field[MS_F_PHASE_ID];
    return any && is.text.ptr != NULL && is.text.ptr[0] - '0' == phase;
}

/* Does the scope leave this message in its block? */
static bool in_scope(const reader *r, const twin_msg *m, unsigned from, int block)
{
    switch (r->memory.scope.kind) {
    case MS_SCOPE_ORCHESTRATOR: return block == CONVERSATION;
    case MS_SCOPE_MANAGER:
        return block == GLOBAL && m->type == MS_T_SYNTHESIS &&
               in_phase(&r->memory.scope, m);
    case MS_SCOPE_WORKER:
        if (beside_task(r, m, from) <= 0) return false;
        if (block == GLOBAL) return m->type == MS_T_GLOBAL_OBSERVATION;
        return block == OWN && (m->type == MS_T_ACTION || m->type == MS_T_OBSERVATION ||
                                m->type == MS_T_ERROR);
    case MS_SCOPE_SINCE_TASK:
        return block == CONVERSATION || beside_task(r, m, from) >= 0;
    case MS_SCOPE_ALL:
    default: return true;
    }
}

/* What a step of the history reads: some blocks, and of the team perhaps one agent. */
typedef struct step {
    int first, last;
    size_t part, limit;
} step;

/* Is the message in one of the blocks? scoped: and in scope there. */
static bool in_blocks(const reader *r, const step *s, const twin_msg *m, unsigned from,
                      bool scoped)
{
    for (int block = s->first; block <= s->last; block++) {
        ms_query q = query_of_block(r, block, s->part);
        if (block == CONVERSATION && r->memory.no_conversation) continue;
        if (block == OWN && r->memory.scope.kind == MS_SCOPE_WORKER)
            q.agent_types = MS_TYPES_ALL;
        if (twin_match(&q, m) && (!scoped || in_scope(r, m, from, block))) return true;
    }
    return false;
}

/* A phase, and in a timeline the last task, take out messages only after they are sorted:
 * one without time can have the time of one that is then taken out. */
static bool is_late(const ms_memory *m)
{
    return m->scope.kind == MS_SCOPE_MANAGER ||
           (m->scope.kind == MS_SCOPE_SINCE_TASK && m->timeline);
}

/* One store's messages of a step, ordered and scoped. */
static size_t naive_store(const reader *r, const step *s, unsigned from,
                          const twin_msg **list)
{
    const ms_memory *m = &r->memory;
    const twin *t = r->twins[from];
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < t->count; i++) {
        bool late = is_late(m), other = t->items[i]->type != MS_T_SYNTHESIS;
        if (m->scope.kind == MS_SCOPE_MANAGER && other) continue;
        if (in_blocks(r, s, t->items[i], from, !late)) list[n++] = t->items[i];
    }
    if (m->by_time) twin_sort_by_time(t, list, n, m->untimed_first);
    for (size_t i = 0; i < n; i++)
        if (in_blocks(r, s, list[i], from, true)) list[kept++] = list[i];
    return kept;
}

/* The messages of a step, the store's before the runtime's; the newest so many of them. */
static size_t naive_step(const reader *r, const step *s, const twin_msg **list)
{
    size_t n = 0;
    for (unsigned from = 0; from < 2 && r->twins[from] != NULL; from++)
        n += naive_store(r, s, from, list + n);
    if (s->limit == 0 || n <= s->limit) return n;
    memmove(list, list + n - s->limit, s->limit * sizeof list[0]);
    return s->limit;
}

static size_t limit_of(const ms_memory *m, int block)
{
    size_t turns = m->scope.turns != 0 ? m->scope.turns : 8;
    const size_t limits[] = {m->conversation_limit, m->agent_limit, m->team_limit,
                             m->global_limit};
    if (m->scope.kind == MS_SCOPE_ORCHESTRATOR) return turns;
    return m->timeline ? m->limit : limits[block];
}

/* Takes out what another block has shown. Each part of a block may repeat another one. */
static size_t not_shown(const twin_msg **all, size_t shown, size_t n)
{
    size_t kept = shown;
    for (size_t i = shown; i < n; i++) {
        size_t at = 0;
        while (at < shown && all[at] != all[i]) at++;
        if (at == shown) all[kept++] = all[i];
    }
    return kept;
}

/* Fills `all` with the history; returns how many. */
static size_t naive_history(reader *r, const twin_msg **all)
{
    const ms_memory *m = &r->memory;
    size_t n = 0;
    find_last_task(r);
    if (m->timeline) {
        const step every = {CONVERSATION, GLOBAL, 0, limit_of(m, CONVERSATION)};
        return naive_step(r, &every, all);
    }
    for (int block = CONVERSATION; block < BLOCKS; block++) {
        bool by_agent = block == TEAM && m->team_by_agent;
        size_t shown = n;
        for (size_t part = 0; part < (by_agent ? m->n_subordinates : 1); part++) {
            const step s = {block, block, part, limit_of(m, block)};
            n += naive_step(r, &s, all + n);
        }
        if (!m->keep_duplicates) n = not_shown(all, shown, n);
    }
    return n;
}

static ms_scope random_scope(uint64_t *rng)
{
    ms_scope scope;
    memset(&scope, 0, sizeof scope);
    if (test_one_in(rng, 2)) return scope;
    scope.kind = (ms_scope_kind)test_below(rng, (uint64_t)MS_SCOPE_SINCE_TASK + 1);
    scope.turns = (size_t)test_below(rng, 6);
    scope.has_phase = !test_one_in(rng, 4);
    scope.phase = (int64_t)test_below(rng, 4);
    scope.has_previous_phase = test_one_in(rng, 3);
    scope.previous_phase = (int64_t)test_below(rng, 4);
    return scope;
}

/* A random reader of a store, merged with a runtime store or NULL; small limits, so that
 * they matter. Some teams are larger than a cursor has room for. */
static void random_reader(uint64_t *rng, book *b, book *runtime, ms_arena *arena,
                          reader *r)
{
    ms_memory *m = &r->memory;
    size_t *const limits[] = {&m->conversation_limit, &m->agent_limit, &m->team_limit,
                              &m->global_limit, &m->limit};
    bool large = test_one_in(rng, 10);
    ms_memory_init(m, b->store, job_name(test_below(rng, 4)),
                   agent_name(test_below(rng, 6)));
    r->twins[0] = b->all;
    r->twins[1] = runtime != NULL ? runtime->all : NULL;
    m->subordinates = r->team;
    m->n_subordinates = (size_t)test_below(rng, large ? TEAM_MOST : 5);
    for (size_t i = 0; i < m->n_subordinates; i++)
        r->team[i] = agent_name(test_below(rng, large ? 50 : 6));
    m->keep_duplicates = test_one_in(rng, 2);
    m->by_time = test_one_in(rng, 2);
    m->timeline = test_one_in(rng, 2);
    m->no_conversation = test_one_in(rng, 2);
    m->team_by_agent = test_one_in(rng, 2);
    m->untimed_first = test_one_in(rng, 2);
    m->agent_types = test_one_in(rng, 3) ? MS_TYPES_AGENT_WIDE : 0;
    if (test_one_in(rng, 8)) m->agent_types = MS_TYPES_ALL;
    for (size_t i = 0; i < COUNT(limits); i++)
        *limits[i] = test_one_in(rng, 2) ? 0 : (size_t)test_below(rng, 12);
    m->scope = random_scope(rng);
    m->arena = arena;
    if (runtime == NULL) return;
    m->runtime_mode = MS_RUNTIME_MERGE;
    m->runtime = runtime->store;
}

/* Reads a history beside the naive one; in its midst many messages are appended, when it
 * `grows`, and do not appear. */
static void must_read_alike(uint64_t *rng, reader *r, book *b, book *runtime, bool grows)
{
    static const twin_msg *want[TEAM_MOST * MESSAGES_MOST];
    size_t n = naive_history(r, want), at = 0, pause = grows ? test_below(rng, 40) : 0;
    ms_cursor it;
    ms_error err;
    must_ok(ms_get_history(&r->memory, &it, &err), &err, "history");
    for (; at < n && at < pause; at++) {
        const ms_msg *msg = ms_next(&it);
        assert_non_null(msg);
        twin_must_match(want[at], msg, "history");
    }
    if (grows) grow(rng, b, runtime, 60);
    twin_must_read_as(want + at, n - at, &it, false, "history");
    book_join(b);
    if (runtime != NULL) book_join(runtime);
}

/* Many readers of random stores, with scopes and large teams; messages that come while
 * a history is read do not appear in it. */
TEST_WITH(READING, random_histories_equal_the_naive_ones)
{
    static book b, beside;
    const store_kind *kind = (const store_kind *)*state;
    uint64_t rng = test_seed();
    size_t rounds = test_times(kind == &sqlite_kind ? 120 : 400); /* that one is slow */
    for (size_t round = 0; round < rounds; round++) {
        book *runtime = round % 2 ? &beside : NULL;
        ms_arena arena;
        test_arena_init(&arena, NULL);
        book_open(&b, kind);
        if (runtime != NULL)
            book_open(runtime, test_one_in(&rng, 4) ? &union_kind : store_kind_at(0));
        grow(&rng, &b, runtime, (size_t)test_below(&rng, 240));
        book_join(&b);
        if (runtime != NULL) book_join(runtime);
        for (int k = 0; k < 50; k++) {
            reader r;
            random_reader(&rng, &b, runtime, &arena, &r);
            must_read_alike(&rng, &r, &b, runtime, k % 20 == 0);
            ms_arena_reset(&arena);
        }
        ms_arena_deinit(&arena);
        if (runtime != NULL) book_close(runtime);
        book_close(&b);
    }
}


/* ---- words of tests/scripts/memory.txt ---- */

/* "add AGENT HOW NAME MESSAGE", HOW as of a history, "ignored", or "zeroed". */
static ms_result call_add(script *p, const script_line *l)
{
    ms_memory memory = script_memory(p, l);
    ms_envelope m = script_message(p, l, 3, MS_T_USER_MESSAGE);
    uint64_t seq = 77;
    ms_result code = ms_memory_add(&memory, &m, &seq, &p->err);
    bool stored = code == MS_OK && memory.runtime_mode != MS_RUNTIME_IGNORE;
    assert_int_equal(seq != 0, stored);
    script_entry(p, l->word[2])->seq = seq;
    return code;
}

/* "broadcast AGENT shared NAME MESSAGE". */
static ms_result call_broadcast(script *p, const script_line *l)
{
    ms_memory memory = script_memory(p, l);
    ms_envelope m = script_message(p, l, 3, MS_T_GLOBAL_OBSERVATION);
    return ms_memory_broadcast(&memory, &m, &script_entry(p, l->word[2])->seq, &p->err);
}

static ms_result call_forget(script *p, const script_line *l)
{
    return ms_mem_reset(p->runtime, &p->err);
}

static const script_verb memory_verbs[] = {
    {"add", CALL, call_add}, {"broadcast", CALL, call_broadcast},
    {"forget", CALL, call_forget}, {NULL, SET, NULL},
};


/* ---- refusals ---- */

static uint64_t messages_in(ms_store *store)
{
    ms_query all = query_of(no_str(), MS_VIEW_TIMELINE);
    return count_of(store, &all);
}

TEST_WITH(ON_ALL_STORES, memory_is_refused_without_store_location_agent_or_runtime)
{
    test_store s = store_open((store_kind *)*state, NULL);
    static char long_key[MS_KEY_MAX + 1];
    memset(long_key, 'k', sizeof long_key);
    ms_str key = ms_str_n(long_key, MS_KEY_MAX);
    const struct { bool store; ms_str location, agent; ms_result want; } cases[] = {
        {true, MS_STR("job"), MS_STR("m"), MS_OK}, {true, key, key, MS_OK},
        {false, MS_STR("job"), MS_STR("m"), MS_E_ARGUMENT},
        {true, MS_STR(""), MS_STR("m"), MS_E_ARGUMENT},
        {true, no_str(), MS_STR("m"), MS_E_ARGUMENT},
        {true, MS_STR("job"), MS_STR(""), MS_E_ARGUMENT},
        {true, MS_STR("job"), no_str(), MS_E_ARGUMENT},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        ms_store *store = cases[i].store ? s.store : NULL;
        ms_envelope m = ms_message(MS_T_TASK, ms_text("x"));
        ms_memory memory, shared;
        ms_cursor it;
        ms_error err;
        ms_memory_init(&memory, store, cases[i].location, cases[i].agent);
        assert_int_equal(ms_get_history(&memory, &it, NULL), cases[i].want);
        assert_null(ms_next(&it));
        assert_int_equal(ms_cursor_close(&it, NULL), cases[i].want);
        memory.runtime_mode = MS_RUNTIME_STORE;
        assert_int_equal(ms_memory_add(&memory, &m, NULL, NULL), cases[i].want);
        assert_int_equal(ms_memory_add(&memory, NULL, NULL, NULL), MS_E_ARGUMENT);
        memory.runtime_mode = MS_RUNTIME_MERGE; /* there is none */
        assert_int_not_equal(ms_memory_add(&memory, &m, NULL, NULL), MS_OK);
        assert_int_not_equal(ms_get_history(&memory, &it, NULL), MS_OK);
        assert_null(ms_next(&it));
        ms_result result = ms_shared_memory_init(&shared, store, cases[i].location,
                                                 cases[i].agent, NULL, 0, &err);
        assert_int_equal(result, cases[i].want);
        assert_int_equal(shared.store != NULL, result == MS_OK);
        assert_int_equal(shared.agent_key.ptr != NULL, result == MS_OK);
    }
    assert_int_equal(messages_in(s.store), 2);
    store_close(&s);
}

TEST_WITH(READING, histories_that_need_an_arena_are_refused_without_one)
{
    enum { MOST = MS_CURSOR_AGENTS };
    static const struct {
        bool by_time, timeline, repeats, by_agent;
        size_t limit, team;
        ms_result want;
    } cases[] = {
        {true, false, true, true, 0, 2, MS_E_ARENA},
        {true, true, false, true, 0, 2, MS_E_ARENA},
        {false, false, false, true, 1, 2, MS_E_ARENA},
        {false, false, false, true, 0, 2, MS_OK},
        {false, true, false, true, 1, 2, MS_OK},
        {false, false, true, true, 1, 2, MS_OK},
        {false, false, false, false, 0, MOST, MS_OK},
        {false, false, false, false, 0, MOST + 1, MS_E_ARENA},
        {false, true, false, false, 0, MOST, MS_OK},
        {false, true, false, true, 0, MOST + 1, MS_E_ARENA},
        {false, false, false, true, 0, MOST + 1, MS_OK},
    };
    static book b;
    ms_str team[MOST + 1];
    uint64_t rng = test_seed();
    book_open(&b, (const store_kind *)*state);
    grow(&rng, &b, NULL, 100);
    for (size_t i = 0; i <= MOST; i++) team[i] = agent_name(1 + i);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ms_memory memory;
        ms_cursor it;
        ms_memory_init(&memory, b.store, job_name(1), agent_name(0));
        memory.n_subordinates = cases[i].team;
        memory.subordinates = team;
        memory.team_by_agent = cases[i].by_agent;
        memory.by_time = cases[i].by_time;
        memory.timeline = cases[i].timeline;
        memory.keep_duplicates = cases[i].repeats;
        memory.team_limit = cases[i].limit;
        ms_result code = ms_get_history(&memory, &it, NULL);
        if (code != cases[i].want) fail_msg("case %zu: %s", i, ms_result_text(code));
        assert_int_equal(ms_next(&it) != NULL, code == MS_OK);
        assert_int_equal(ms_cursor_close(&it, NULL), code);
    }
    book_close(&b);
}


/* ---- the SQLite store's own: a file, and bytes that somebody changed ---- */

static bool temporary_path(char *path, size_t size)
{
    const char *folder = getenv("TMPDIR");
    snprintf(path, size, "%s/test_memory_XXXXXX", folder != NULL ? folder : "/tmp");
    int file = mkstemp(path);
    return file >= 0 && close(file) == 0;
}

TEST(a_sqlite_file_keeps_its_messages)
{
    char path[200];
    ms_store *store;
    twin t;
    uint64_t rng = test_seed();
    const ms_append_opts opts = {.keep_seq = false};
    assert_true(temporary_path(path, sizeof path));
    twin_init(&t);
    t.keep_unset_times = t.no_commit = true;
    for (int round = 0; round < 3; round++) {
        assert_int_equal(sqlite_store_open(&store, path, NULL), MS_OK);
        twin_must_equal(&t, store);
        for (int i = 0; i < 20; i++) {
            ms_envelope m = random_row(&rng);
            twin_append_both(&t, store, &m, 1, &opts, false);
        }
        ms_close(store);
    }
    twin_deinit(&t);
    assert_int_equal(remove(path), 0);
}

TEST(a_damaged_row_is_skipped_and_reported)
{
    test_store s = store_open(&sqlite_kind, NULL);
    sqlite_store *sqlite = (sqlite_store *)s.store;
    ms_memory memory;
    ms_cursor it;
    ms_error err;
    const ms_msg *msg;
    size_t n = 0;
    for (int i = 0; i < 6; i++) {
        ms_envelope m = ms_user_message(ms_text("some words"));
        must_append(s.store, MS_STR("job"), &m);
    }
    const char *change = "UPDATE messages SET body = "
                         "substr(body, 1, 40) || x'ff' || substr(body, 42) "
                         "WHERE seq IN (2, 5)";
    assert_int_equal(sqlite3_exec(sqlite->db, change, NULL, NULL, NULL), SQLITE_OK);
    ms_memory_init(&memory, s.store, MS_STR("job"), MS_STR("m"));
    assert_int_equal(ms_get_history(&memory, &it, &err), MS_OK);
    while ((msg = ms_next(&it)) != NULL) n += ms_seq(msg) != 2 && ms_seq(msg) != 5;
    assert_int_equal(n, 4);
    assert_int_equal(it.damaged, 2);
    assert_int_equal(ms_cursor_close(&it, &err), MS_E_DAMAGED);
    assert_int_equal(ms_get_by_seq(s.store, 4, NULL, &msg, &err), MS_E_ARENA);
    store_close(&s);
}

/* Messages are all that such a store has; other records are asked in vain. */
TEST(a_raw_query_is_of_messages_when_a_store_has_no_changes)
{
    test_store s = store_open(&least_kind, NULL);
    ms_query q = query_of(MS_STR("job"), 0);
    ms_cursor it;
    for (int i = 0; i < 3; i++) append_text(s.store, "hello");
    q.raw = MS_RAW_MESSAGES;
    for (; q.about_seq < 5; q.about_seq++)
        assert_int_equal(count_of(s.store, &q), q.about_seq == 0 ? 3 : q.about_seq < 4);
    q.raw = MS_RAW_ALL;
    assert_int_equal(ms_query_open(s.store, &q, &it, NULL), MS_E_UNSUPPORTED);
    store_close(&s);
}

int main(void)
{
    static const char *const files[] = {"memory", NULL};
    const struct CMUnitTest kinds[] = {ON_ALL_STORES(script_test_runs)};
    script_more = memory_verbs;
    script_kinds = kinds;
    n_script_kinds = COUNT(kinds);
    add_scripts(files);
    return run_all_tests(NULL, NULL);
}
