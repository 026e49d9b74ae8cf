/* The history that an agent reads: blocks, limits, duplicates, timelines, scopes, runtime
 * messages, shared memory. Random histories are answered by a naive computation that
 * collects from a plain array by the rules of the manual, small ones by hand. All of it runs
 * over the library's stores, over the SQLite store of the examples and over a store of a
 * program's own that has no more than it must; what only reads runs over a union, too.
 */

#define _POSIX_C_SOURCE 200809L

#include "sqlite_kind.h"
#include "own_store.h"

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

/* Is opened by tape_open; it is for reading. */
static store_kind union_kind = {"a union", false, false, false, true, NULL};

#define ON_ALL_STORES(test)                                       \
    ON_EVERY_STORE(test),                                         \
    {#test " in sqlite", test, NULL, NULL, &sqlite_kind},         \
    {#test " in a store of its own", test, NULL, NULL, &least_kind}

#define READING(test) \
    ON_ALL_STORES(test), {#test " in a union", test, NULL, NULL, &union_kind}


/* ---- a store and the plain array of what was appended to it ---- */

typedef struct row {
    unsigned id;          /* unique over all stores of a test; kept in the field id */
    uint64_t seq;
    int job;              /* number of the location */
    int agent;            /* number of the agent; NOBODY: no agent key */
    ms_type type;
    bool timed;
    int64_t time;
    int phase;            /* NO_PHASE: none */
} row;

enum { NOBODY = -1, NO_PHASE = -1, MANAGER = 0, MAX_AGENTS = 64, MAX_ROWS = 4000,
       PARTS = 5 };

typedef struct tape {
    test_store s;
    test_store parts[PARTS];  /* of a union: of several kinds, filled one by one */
    row rows[MAX_ROWS];
    size_t n;
} tape;

/* The agent's key: manager, w1, w2, ... */
static ms_str agent_name(int agent)
{
    static char names[MAX_AGENTS][8];
    if (agent == NOBODY) return no_str();
    if (agent == MANAGER) return MS_STR("manager");
    snprintf(names[agent], sizeof names[agent], "w%d", agent);
    return ms_str_of(names[agent]);
}

static ms_str job_name(int job)
{
    static const char *const names[] = {"job_0", "job_1", "job_10", "job"};
    return ms_str_of(names[job]);
}

static void union_open(tape *t, const store_options *options)
{
    ms_store *stores[PARTS];
    for (size_t i = 0; i < PARTS; i++) {
        t->parts[i] = store_open(store_kind_at(i), options);
        stores[i] = t->parts[i].store;
    }
    t->s.store = union_of(stores, PARTS);
    t->s.kind = &union_kind;
}

static tape *tape_open(const store_kind *kind)
{
    store_options options;
    tape *t = (tape *)calloc(1, sizeof *t);
    if (t == NULL) abort();
    memset(&options, 0, sizeof options);
    options.keep_unset_times = true;
    options.room = (size_t)1 << 21;
    if (kind == &union_kind) union_open(t, &options);
    else t->s = store_open(kind, &options);
    return t;
}

static void tape_close(tape *t)
{
    if (t == NULL) return;
    if (t->s.kind == &union_kind) ms_close(t->s.store);
    else store_close(&t->s);
    for (size_t i = 0; i < PARTS && t->parts[i].store != NULL; i++)
        store_close(&t->parts[i]);
    free(t);
}

static void tape_add(tape *t, row r)
{
    static char id[16], phase[16];
    ms_envelope m = message_of(r.type, MS_STR("text"));
    assert_true(t->n < MAX_ROWS);
    snprintf(id, sizeof id, "%u", r.id);
    m.id = ms_str_of(id);
    m.agent_key = agent_name(r.agent);
    m.has_time = r.timed;
    m.time_ns = r.time;
    snprintf(phase, sizeof phase, "%d", r.phase);
    if (r.phase != NO_PHASE) m.phase_id = ms_json(ms_str_of(phase));
    uint64_t part = t->n / 13 < PARTS ? t->n / 13 : PARTS - 1;
    if (t->s.kind == &union_kind)
        r.seq = must_append(t->parts[part].store, job_name(r.job), &m) | part << 40;
    else
        r.seq = must_append(t->s.store, job_name(r.job), &m);
    t->rows[t->n++] = r;
}

static unsigned id_of(const ms_msg *msg)
{
    ms_str id = ms_get(msg, MS_F_ID).text;
    unsigned n = 0;
    for (size_t i = 0; i < id.len; i++) n = 10 * n + (unsigned)(id.ptr[i] - '0');
    return n;
}

/* Reads a history; returns how many ids were written. */
static size_t read_ids(const ms_memory *memory, unsigned *ids)
{
    ms_cursor it;
    ms_error err;
    size_t n = 0;
    if (ms_get_history(memory, &it, &err) != MS_OK) fail_msg("history: %s", err.message);
    for (const ms_msg *msg; (msg = query_next(&it)) != NULL;) ids[n++] = id_of(msg);
    return n;
}

/* Ids as text, "1 4 7"; the first ones when there are too many. */
static const char *ids_text(const unsigned *ids, size_t n, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < n && used + 16 < size; i++)
        used += (size_t)snprintf(out + used, size - used, i != 0 ? " %u" : "%u", ids[i]);
    return out;
}

static void must_read(const ms_memory *memory, const char *what, const char *want)
{
    unsigned ids[256];
    char got[1024];
    size_t n = read_ids(memory, ids);
    ids_text(ids, n, got, sizeof got);
    if (strcmp(got, want) != 0) fail_msg("%s: \"%s\", should be \"%s\"", what, got, want);
}


/* ---- small histories, answered by hand ---- */

#define W1 1
#define W2 2

static const struct { int job, agent; ms_type type; int time; int phase; } script[] = {
    {1, NOBODY, MS_T_USER_MESSAGE, 10, -1},          /* 1 */
    {1, MANAGER, MS_T_TASK, 20, -1},                 /* 2 */
    {1, MANAGER, MS_T_STRATEGIC_PLAN, 30, -1},       /* 3: in no view but the team's */
    {1, MANAGER, MS_T_DELEGATION, 40, -1},           /* 4 */
    {1, W1, MS_T_TASK, 90, -1},                      /* 5 */
    {1, W1, MS_T_ACTION, 60, -1},                    /* 6 */
    {1, W1, MS_T_OBSERVATION, 70, -1},               /* 7 */
    {1, NOBODY, MS_T_GLOBAL_OBSERVATION, 80, -1},    /* 8 */
    {1, W2, MS_T_TASK, 50, -1},                      /* 9 */
    {1, W2, MS_T_GLOBAL_OBSERVATION, 100, -1},       /* 10: with an agent key */
    {1, W2, MS_T_FINAL, 110, -1},                    /* 11 */
    {1, W1, MS_T_FINAL, 120, -1},                    /* 12 */
    {1, MANAGER, MS_T_SYNTHESIS, 130, 0},            /* 13 */
    {1, MANAGER, MS_T_FINAL, 140, -1},               /* 14 */
    {1, NOBODY, MS_T_ASSISTANT_MESSAGE, 150, -1},    /* 15 */
    {1, W1, MS_T_USER_MESSAGE, 5, -1},               /* 16: with an agent key */
    {2, MANAGER, MS_T_TASK, 170, -1},                /* 17: of another location */
    {2, NOBODY, MS_T_USER_MESSAGE, 180, -1},         /* 18 */
    {1, MANAGER, MS_T_ERROR, 15, -1},                /* 19 */
    {1, MANAGER, MS_T_SYNTHESIS, 200, 1},            /* 20 */
};

#define SCRIPT (sizeof script / sizeof script[0])

static tape *script_open(const store_kind *kind)
{
    tape *t = tape_open(kind);
    for (size_t i = 0; i < SCRIPT; i++) {
        row r = {(unsigned)i + 1, 0, script[i].job, script[i].agent, script[i].type, true,
                 SECONDS(script[i].time), script[i].phase};
        tape_add(t, r);
    }
    return t;
}

static ms_memory memory_of(ms_store *store, int job, int agent)
{
    ms_memory memory;
    ms_memory_init(&memory, store, job_name(job), agent_name(agent));
    return memory;
}

/* Numbers as digits to keys; out has room for all. */
static size_t team_of(const char *digits, ms_str *out)
{
    size_t n = 0;
    for (; digits[n] != '\0'; n++) out[n] = agent_name(digits[n] - '0');
    return n;
}


/* ---- the naive computation ---- */

/* Who reads what, in plain numbers beside the ms_memory. */
typedef struct reader {
    int job, agent;
    int team[MAX_AGENTS];
    size_t n_team;
    ms_str keys[MAX_AGENTS];      /* the team's, for the memory */
    ms_memory memory;
    const tape *tapes[2];         /* the store's; the runtime store's or NULL */
    unsigned task_in;             /* where the reader's last task is: 0 or 1 */
    uint64_t task;                /* its sequence there; 0: none */
} reader;

typedef struct picked {
    const row *row;
    unsigned from;                /* index in tapes */
    int64_t time;                 /* that sorts it */
} picked;

enum { CONVERSATION, OWN, TEAM, GLOBAL, BLOCKS };

static void find_last_task(reader *r)
{
    r->task = 0;
    for (unsigned from = 0; from < 2 && r->tapes[from] != NULL; from++) {
        for (size_t i = 0; i < r->tapes[from]->n; i++) {
            const row *m = &r->tapes[from]->rows[i];
            if (m->job == r->job && m->agent == r->agent && m->type == MS_T_TASK) {
                r->task_in = from;
                r->task = m->seq;
            }
        }
    }
}

/* -1, 0, 1: before the last task, that task, after it; without a task: 0. */
static int beside_task(const reader *r, picked p)
{
    if (r->task == 0) return 0;
    if (p.from != r->task_in) return p.from < r->task_in ? -1 : 1;
    return (p.row->seq > r->task) - (p.row->seq < r->task);
}

static bool is_conversation(const row *m)
{
    return m->type == MS_T_USER_MESSAGE || m->type == MS_T_ASSISTANT_MESSAGE;
}

static bool in_block(const reader *r, const row *m, int block)
{
    ms_type_set own = r->memory.agent_types != 0 ? r->memory.agent_types : MS_TYPES_AGENT;
    if (m->job != r->job) return false;
    switch (block) {
    case CONVERSATION: return !r->memory.no_conversation && is_conversation(m);
    case OWN: return m->agent == r->agent && ((own >> m->type) & 1) != 0;
    case TEAM:
        for (size_t i = 0; i < r->n_team; i++)
            if (m->agent == r->team[i]) return true;
        return false;
    default: return m->type == MS_T_GLOBAL_OBSERVATION || m->type == MS_T_SYNTHESIS;
    }
}

/* Does the scope leave this message in its block? */
static bool in_scope(const reader *r, picked p, int block)
{
    const ms_scope *s = &r->memory.scope;
    const row *m = p.row;
    int64_t phase = s->has_previous_phase ? s->previous_phase : s->phase - 1;
    bool any_phase = s->has_previous_phase || (s->has_phase && s->phase > 0);
    switch (s->kind) {
    case MS_SCOPE_ORCHESTRATOR: return block == CONVERSATION;
    case MS_SCOPE_MANAGER:
        return block == GLOBAL && m->type == MS_T_SYNTHESIS && any_phase &&
               m->phase != NO_PHASE && m->phase == phase;
    case MS_SCOPE_WORKER:
        if (beside_task(r, p) <= 0) return false;
        if (block == GLOBAL) return m->type == MS_T_GLOBAL_OBSERVATION;
        return block == OWN && (m->type == MS_T_ACTION || m->type == MS_T_OBSERVATION ||
                                m->type == MS_T_ERROR);
    case MS_SCOPE_SINCE_TASK: return block == CONVERSATION || beside_task(r, p) >= 0;
    case MS_SCOPE_ALL:
    default: return true;
    }
}

/* Stable, by time; what has none takes that of the one before it in its store, or stands
 * first. */
static void sort_by_time(picked *list, size_t n, bool untimed_first)
{
    for (size_t i = 0; i < n; i++) {
        bool after = i != 0 && MS_UNION_STORE(list[i].row->seq) ==
                                   MS_UNION_STORE(list[i - 1].row->seq);
        list[i].time = after && !untimed_first ? list[i - 1].time : MS_TIME_NONE;
        if (list[i].row->timed) list[i].time = list[i].row->time;
    }
    for (size_t i = 1; i < n; i++)
        for (size_t at = i; at > 0 && list[at - 1].time > list[at].time; at--) {
            picked later = list[at - 1];
            list[at - 1] = list[at];
            list[at] = later;
        }
}

/* Is the message in one of the blocks from first to last? scoped: and in scope there. */
static bool in_blocks(const reader *r, picked p, int first, int last, bool scoped)
{
    for (int block = first; block <= last; block++)
        if (in_block(r, p.row, block) && (!scoped || in_scope(r, p, block))) return true;
    return false;
}

/* A phase, and in a timeline the last task, take out messages only after they are sorted:
 * one without time can have the time of one that is then taken out. */
static bool is_late(const ms_memory *m)
{
    return m->scope.kind == MS_SCOPE_MANAGER ||
           (m->scope.kind == MS_SCOPE_SINCE_TASK && m->timeline);
}

/* One store's messages of the blocks, ordered and scoped. agent: of the team only this
 * one, or NOBODY. */
static size_t naive_store(const reader *r, unsigned from, int first, int last, int agent,
                          picked *list)
{
    const ms_memory *m = &r->memory;
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < r->tapes[from]->n; i++) {
        picked p = {&r->tapes[from]->rows[i], from, 0};
        if (agent != NOBODY && p.row->agent != agent) continue;
        if (m->scope.kind == MS_SCOPE_MANAGER && p.row->type != MS_T_SYNTHESIS) continue;
        if (in_blocks(r, p, first, last, !is_late(m))) list[n++] = p;
    }
    if (m->by_time) sort_by_time(list, n, m->untimed_first);
    for (size_t i = 0; i < n; i++)
        if (in_blocks(r, list[i], first, last, true)) list[kept++] = list[i];
    return kept;
}

/* The messages of the blocks from first to last, the store's before the runtime's; the
 * newest `limit` of them. */
static size_t naive_part(const reader *r, int first, int last, int agent, size_t limit,
                         picked *list)
{
    size_t n = 0;
    for (unsigned from = 0; from < 2 && r->tapes[from] != NULL; from++)
        n += naive_store(r, from, first, last, agent, list + n);
    if (limit == 0 || n <= limit) return n;
    memmove(list, list + n - limit, limit * sizeof list[0]);
    return limit;
}

static size_t limit_of(const ms_memory *m, int block)
{
    size_t turns = m->scope.turns != 0 ? m->scope.turns : 8;
    const size_t limits[] = {m->conversation_limit, m->agent_limit, m->team_limit,
                             m->global_limit};
    if (m->scope.kind == MS_SCOPE_ORCHESTRATOR) return turns;
    return limits[block];
}

/* Fills ids with the history; returns how many. */
static size_t naive_history(reader *r, unsigned *ids)
{
    static picked list[2 * MAX_ROWS];
    static int shown[2][MAX_ROWS];    /* in which block, from 1; a part repeats freely */
    const ms_memory *m = &r->memory;
    size_t n = 0;
    memset(shown, 0, sizeof shown);
    find_last_task(r);
    if (m->timeline) {
        bool turns = m->scope.kind == MS_SCOPE_ORCHESTRATOR;
        n = naive_part(r, CONVERSATION, GLOBAL, NOBODY,
                       turns ? limit_of(m, CONVERSATION) : m->limit, list);
        for (size_t i = 0; i < n; i++) ids[i] = list[i].row->id;
        return n;
    }
    for (int block = CONVERSATION; block < BLOCKS; block++) {
        bool by_agent = block == TEAM && m->team_by_agent;
        for (size_t part = 0; part < (by_agent ? r->n_team : 1); part++) {
            size_t count = naive_part(r, block, block, by_agent ? r->team[part] : NOBODY,
                                      limit_of(m, block), list);
            for (size_t i = 0; i < count; i++) {
                size_t at = (size_t)(list[i].row - r->tapes[list[i].from]->rows);
                int *in = &shown[list[i].from][at];
                if (*in != 0 && *in != block + 1 && !m->keep_duplicates) continue;
                ids[n++] = list[i].row->id;
                *in = block + 1;
            }
        }
    }
    return n;
}

static row random_row(uint64_t *rng, unsigned id)
{
    row r;
    r.id = id;
    r.seq = 0;
    r.job = (int)test_below(rng, 3);
    r.agent = (int)test_below(rng, test_one_in(rng, 4) ? 50 : 6) - 1;
    r.type = (ms_type)(1 + test_below(rng, (uint64_t)MS_TYPE_COUNT - 1));
    if (test_one_in(rng, 3)) r.type = (ms_type)(1 + test_below(rng, 8));
    r.timed = !test_one_in(rng, 4);
    r.time = SECONDS((double)test_below(rng, 20) - 2);
    r.phase = r.type == MS_T_SYNTHESIS ? (int)test_below(rng, 4) - 1 : NO_PHASE;
    return r;
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

/* A random reader of a tape, merged with a runtime tape or NULL; small limits, so that
 * they matter. Some teams are larger than a cursor has room for. */
static void random_reader(uint64_t *rng, const tape *t, const tape *runtime,
                          ms_arena *arena, reader *r)
{
    ms_memory *m = &r->memory;
    size_t *const limits[] = {&m->conversation_limit, &m->agent_limit, &m->team_limit,
                              &m->global_limit, &m->limit};
    bool large = test_one_in(rng, 10);
    r->job = (int)test_below(rng, 4);
    r->agent = (int)test_below(rng, 6);
    r->n_team = (size_t)test_below(rng, large ? 40 : 5);
    r->tapes[0] = t;
    r->tapes[1] = runtime;
    *m = memory_of(t->s.store, r->job, r->agent);
    for (size_t i = 0; i < r->n_team; i++) {
        r->team[i] = (int)test_below(rng, large ? 50 : 6);
        r->keys[i] = agent_name(r->team[i]);
    }
    m->subordinates = r->keys;
    m->n_subordinates = r->n_team;
    m->keep_duplicates = test_one_in(rng, 2);
    m->by_time = test_one_in(rng, 2);
    m->timeline = test_one_in(rng, 2);
    m->no_conversation = test_one_in(rng, 2);
    m->team_by_agent = test_one_in(rng, 2);
    m->untimed_first = test_one_in(rng, 2);
    m->agent_types = test_one_in(rng, 3) ? MS_TYPES_AGENT_WIDE : 0;
    if (test_one_in(rng, 8)) m->agent_types = MS_TYPES_ALL;
    for (size_t i = 0; i < 5; i++)
        *limits[i] = test_one_in(rng, 2) ? 0 : (size_t)test_below(rng, 12);
    m->scope = random_scope(rng);
    m->arena = arena;
    if (runtime == NULL) return;
    m->runtime_mode = MS_RUNTIME_MERGE;
    m->runtime = runtime->s.store;
}

static void must_equal(const reader *r, const unsigned *want, size_t n_want,
                       const unsigned *got, size_t n_got)
{
    const ms_memory *m = &r->memory;
    char a[600], b[600];
    if (n_want == n_got && memcmp(want, got, n_got * sizeof got[0]) == 0) return;
    fail_msg("agent %d, team of %zu, timeline %d, duplicates %d, by agent %d, by time %d "
             "(untimed first %d), limits %zu %zu %zu %zu, %zu, scope %d (%zu turns, "
             "phase %d %d, previous %d %d): got %s, should be %s",
             r->agent, r->n_team, m->timeline, m->keep_duplicates, m->team_by_agent,
             m->by_time, m->untimed_first, m->conversation_limit, m->agent_limit,
             m->team_limit, m->global_limit, m->limit, (int)m->scope.kind, m->scope.turns,
             m->scope.has_phase, (int)m->scope.phase, m->scope.has_previous_phase,
             (int)m->scope.previous_phase, ids_text(got, n_got, a, sizeof a),
             ids_text(want, n_want, b, sizeof b));
}

/* Many messages of a random store and its runtime store, if it has one. */
static void grow(uint64_t *rng, tape *t, tape *runtime, size_t n)
{
    for (; n > 0; n--) {
        tape *to = runtime != NULL && test_one_in(rng, 4) ? runtime : t;
        unsigned id = (unsigned)(t->n + 1);
        if (to != t) id = (unsigned)(MAX_ROWS + runtime->n);
        tape_add(to, random_row(rng, id));
    }
}

/* Reads a history to its end; in its midst many messages are appended, when `grows`. */
static size_t read_growing(uint64_t *rng, const reader *r, tape *t, tape *runtime,
                           bool grows, unsigned *ids)
{
    size_t n = 0, pause = (size_t)test_below(rng, 40);
    const ms_msg *msg;
    ms_cursor it;
    if (!grows) return read_ids(&r->memory, ids);
    assert_int_equal(ms_get_history(&r->memory, &it, NULL), MS_OK);
    while (n < pause && (msg = ms_next(&it)) != NULL) ids[n++] = id_of(msg);
    grow(rng, t, runtime, 60);
    while ((msg = ms_next(&it)) != NULL) ids[n++] = id_of(msg);
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    return n;
}

/* Many readers of random stores, with scopes and large teams; messages that come while
 * a history is read do not appear in it. */
static void random_histories_equal_the_naive_ones(void **state)
{
    static unsigned want[4 * MAX_ROWS], got[4 * MAX_ROWS];
    const store_kind *kind = (const store_kind *)*state;
    uint64_t rng = test_seed();
    size_t rounds = test_times(kind == &sqlite_kind ? 120 : 400); /* that one is slow */
    for (size_t round = 0; round < rounds; round++) {
        const store_kind *now = test_one_in(&rng, 4) ? &union_kind : store_kind_at(0);
        tape *t = tape_open(kind), *runtime = round % 2 ? tape_open(now) : NULL;
        ms_arena arena;
        test_arena_init(&arena, NULL);
        grow(&rng, t, runtime, (size_t)test_below(&rng, 240));
        for (int k = 0; k < 50; k++) {
            reader r;
            random_reader(&rng, t, runtime, &arena, &r);
            size_t n_want = naive_history(&r, want);
            must_equal(&r, want, n_want, got,
                       read_growing(&rng, &r, t, runtime, k % 20 == 0, got));
            ms_arena_reset(&arena);
        }
        ms_arena_deinit(&arena);
        tape_close(runtime);
        tape_close(t);
    }
}


/* ---- runtime messages: the guide's options A, B and C ---- */

static uint64_t messages_in(ms_store *store)
{
    ms_query all = query_of(no_str(), MS_VIEW_TIMELINE);
    return count_of(store, &all);
}

/* An agent adds a message of a type; its number. */
static uint64_t must_add(const ms_memory *memory, ms_type type, const char *id)
{
    uint64_t seq = 77;
    ms_error err;
    ms_envelope m = message_of(type, MS_STR("x"));
    m.id = ms_str_of(id);
    if (ms_memory_add(memory, &m, &seq, &err) != MS_OK) fail_msg("add: %s", err.message);
    return seq;
}

static void added_messages_are_ignored_by_default(void **state)
{
    tape *t = script_open((const store_kind *)*state);
    ms_memory memory = memory_of(t->s.store, 1, MANAGER);
    assert_int_equal(must_add(&memory, MS_T_TASK, "99"), 0);
    assert_int_equal(messages_in(t->s.store), SCRIPT);
    must_read(&memory, "ignored", "1 15 16 2 4 14 19 8 10 13 20");
    assert_int_not_equal(ms_memory_add(&memory, NULL, NULL, NULL), MS_OK);
    tape_close(t);
}

static void added_messages_are_written_through(void **state)
{
    tape *t = script_open((const store_kind *)*state);
    ms_memory memory = memory_of(t->s.store, 1, MANAGER);
    uint64_t seqs[3] = {0, 0, 0};
    memory.runtime_mode = MS_RUNTIME_STORE;
    for (size_t i = 0; i < 3; i++) { /* its own, of another agent, of another location */
        char id[3] = {'2', (char)('1' + i), '\0'};
        ms_envelope m = message_of(i == 2 ? MS_T_FINAL : MS_T_TASK, MS_STR("x"));
        m.id = ms_str_of(id);
        if (i == 1) m.agent_key = agent_name(W1);
        if (i == 2) m.location = job_name(2);
        assert_int_equal(ms_memory_add(&memory, &m, &seqs[i], NULL), MS_OK);
        if (!t->s.kind->remote) assert_int_equal(seqs[i], SCRIPT + 1 + i);
    }
    must_read(&memory, "written through", "1 15 16 2 4 14 19 21 23 8 10 13 20");
    memory = memory_of(t->s.store, 1, W1);
    must_read(&memory, "of the other agent", "1 15 16 5 6 7 12 22 8 10 13 20");
    memory = memory_of(t->s.store, 2, MANAGER);
    must_read(&memory, "of the other location", "18 17");
    tape_close(t);
}

static void an_invalid_message_is_not_added(void **state)
{
    static const ms_runtime modes[] = {MS_RUNTIME_STORE, MS_RUNTIME_MERGE};
    tape *t = script_open((const store_kind *)*state);
    ms_store *runtime;
    ms_envelope no_tool = ms_action(no_str(), ms_json(MS_STR("{}")), ms_str_of(NULL));
    assert_int_equal(ms_mem_open(&runtime, NULL, NULL), MS_OK);
    for (size_t i = 0; i < 2; i++) {
        ms_memory memory = memory_of(t->s.store, 1, MANAGER);
        uint64_t seq = 77;
        ms_error err;
        memory.runtime_mode = modes[i];
        memory.runtime = runtime;
        assert_int_equal(ms_memory_add(&memory, &no_tool, &seq, &err), MS_E_MISSING);
        assert_int_equal(err.code, MS_E_MISSING);
        assert_non_null(strstr(err.path, "tool"));
        assert_int_equal(messages_in(t->s.store), SCRIPT);
        assert_int_equal(messages_in(runtime), 0);
    }
    ms_close(runtime);
    tape_close(t);
}

/* The random histories merge the two; here the runtime store is filled by the memory. */
static void added_messages_join_each_block_until_they_are_forgotten(void **state)
{
    tape *t = script_open((const store_kind *)*state);
    tape *runtime = tape_open(&store_kinds[0]);
    ms_memory memory = memory_of(t->s.store, 1, MANAGER);
    memory.runtime_mode = MS_RUNTIME_MERGE;
    memory.runtime = runtime->s.store;
    must_add(&memory, MS_T_TASK, "31");
    must_add(&memory, MS_T_USER_MESSAGE, "32");
    assert_int_equal(must_add(&memory, MS_T_GLOBAL_OBSERVATION, "33"), 3);
    assert_int_equal(messages_in(t->s.store), SCRIPT);
    must_read(&memory, "merged", "1 15 16 32 2 4 14 19 31 8 10 13 20 33");
    assert_int_equal(ms_mem_reset(runtime->s.store, NULL), MS_OK);
    must_read(&memory, "forgotten", "1 15 16 2 4 14 19 8 10 13 20");
    tape_close(runtime);
    tape_close(t);
}


/* ---- shared in-memory memory ---- */

static ms_memory shared_of(ms_store *store, const char *space, int agent,
                           const ms_str *team, size_t n_team)
{
    ms_memory memory;
    ms_error err;
    if (ms_shared_memory_init(&memory, store, ms_str_of(space), agent_name(agent), team,
                              n_team, &err) != MS_OK)
        fail_msg("shared memory: %s", err.message);
    return memory;
}

/* What agents add, and two broadcasts (7, 9). */
static tape *shared_open(const store_kind *kind)
{
    static const struct { int agent; ms_type type; } rows[] = {
        {MANAGER, MS_T_TASK}, {W2, MS_T_TASK}, {W1, MS_T_ACTION}, {W2, MS_T_FINAL},
        {W1, MS_T_GLOBAL_OBSERVATION}, {W1, MS_T_STRATEGIC_PLAN},
        {MANAGER, MS_T_SYNTHESIS}, {W2, MS_T_DATA}};
    tape *t = tape_open(kind);
    for (size_t i = 0; i < 8; i++) {
        ms_memory memory = shared_of(t->s.store, "space", rows[i].agent, NULL, 0);
        ms_envelope m = message_of(rows[i].type, MS_STR("x"));
        char id[8];
        snprintf(id, sizeof id, "%zu", i + 3);
        m.id = ms_str_of(id);
        assert_int_equal(i == 4 || i == 6 ? ms_memory_broadcast(&memory, &m, NULL, NULL)
                                          : ms_memory_add(&memory, &m, NULL, NULL),
                         MS_OK);
    }
    return t;
}

static void a_shared_worker_sees_conversation_own_stream_and_broadcasts(void **state)
{
    tape *t = shared_open((const store_kind *)*state);
    ms_memory w1 = shared_of(t->s.store, "space", W1, NULL, 0);
    ms_memory w2 = shared_of(t->s.store, "space", W2, NULL, 0);
    ms_memory stranger = shared_of(t->s.store, "space", 5, NULL, 0);
    must_read(&w1, "w1", "5 8 7 9");
    must_read(&w2, "w2", "4 6 10 7 9");
    must_read(&stranger, "a stranger", "7 9");
    uint64_t seq = 0, next = 0;
    assert_int_equal(test_memory_turn(&w1, MS_ROLE_USER, ms_text("hi"), &seq, NULL),
                     MS_OK);
    assert_int_equal(test_memory_turn(&w2, MS_ROLE_ASSISTANT, ms_text("ho"), &next, NULL),
                     MS_OK);
    assert_true(next > seq && (t->s.kind->remote || (seq == 9 && next == 10)));
    must_read(&w1, "w1 with a conversation", "0 0 5 8 7 9");
    must_read(&stranger, "a stranger with a conversation", "0 0 7 9");
    tape_close(t);
}

static void a_shared_manager_sees_its_team_agent_after_agent(void **state)
{
    tape *t = shared_open((const store_kind *)*state);
    const struct { const char *team, *want; } teams[] = {
        {"12", "3 5 8 4 6 10 7 9"},   {"21", "3 4 6 10 5 8 7 9"},
        {"1", "3 5 8 7 9"},           {"9", "3 7 9"},
        {"192", "3 5 8 4 6 10 7 9"},  {"121", "3 5 8 4 6 10 5 8 7 9"},
        {"22", "3 4 6 10 4 6 10 7 9"},
    };
    for (size_t i = 0; i < sizeof teams / sizeof teams[0]; i++) {
        ms_str team[4];
        size_t n = team_of(teams[i].team, team);
        ms_memory manager = shared_of(t->s.store, "space", MANAGER, team, n);
        assert_int_equal(
            test_memory_turn(&manager, MS_ROLE_USER, ms_text("x"), NULL, NULL), MS_OK);
        must_read(&manager, teams[i].team, teams[i].want);
    }
    tape_close(t);
}

static void a_broadcast_has_its_sender(void **state)
{
    tape *t = tape_open((const store_kind *)*state);
    ms_memory w1 = shared_of(t->s.store, "space", W1, NULL, 0);
    ms_envelope plain = ms_message(MS_T_GLOBAL_OBSERVATION, ms_text("a"));
    ms_envelope named = ms_message(MS_T_GLOBAL_OBSERVATION, ms_text("b"));
    ms_envelope synthesis = ms_message(MS_T_SYNTHESIS, ms_text("c"));
    synthesis.from_manager = MS_STR("boss");
    ms_envelope wrong = ms_observation(ms_text("d"), ms_str_of(NULL));
    ms_cursor it;
    const ms_msg *msg;
    named.from_worker = MS_STR("somebody");
    named.agent_key = MS_STR("w2");
    assert_int_equal(ms_memory_broadcast(&w1, &plain, NULL, NULL), MS_OK);
    assert_int_equal(ms_memory_broadcast(&w1, &named, NULL, NULL), MS_OK);
    assert_int_equal(ms_memory_broadcast(&w1, &synthesis, NULL, NULL), MS_OK);
    assert_int_not_equal(ms_memory_broadcast(&w1, &wrong, NULL, NULL), MS_OK);
    assert_int_equal(messages_in(t->s.store), 3);
    assert_int_equal(ms_get_history(&w1, &it, NULL), MS_OK);
    for (int i = 0; i < 3; i++) {
        static const char *const from[] = {"w1", "somebody", NULL};
        msg = ms_next(&it);
        assert_non_null(msg);
        assert_null(test_agent_key(msg).ptr);
        assert_true(ms_str_equal(ms_get(msg, MS_F_FROM_WORKER).text, ms_str_of(from[i])));
        assert_true(ms_str_equal(test_location(msg), MS_STR("space")));
    }
    assert_null(ms_next(&it));
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    tape_close(t);
}

static void a_turn_is_of_user_or_assistant(void **state)
{
    tape *t = tape_open((const store_kind *)*state);
    ms_memory w1 = shared_of(t->s.store, "space", W1, NULL, 0);
    ms_cursor it;
    const ms_msg *msg;
    for (int role = 0; role < MS_ROLE_LIMIT; role++) {
        bool fine = role == MS_ROLE_USER || role == MS_ROLE_ASSISTANT;
        ms_result result = test_memory_turn(&w1, (ms_role)role, ms_text("x"), NULL, NULL);
        assert_int_equal(result == MS_OK, fine);
    }
    assert_int_equal(test_memory_turn(&w1, MS_ROLE_USER, ms_text(NULL), NULL, NULL),
                     MS_E_MISSING);
    assert_int_equal(ms_get_history(&w1, &it, NULL), MS_OK);
    msg = ms_next(&it);
    assert_int_equal(ms_type_of(msg), MS_T_USER_MESSAGE);
    assert_null(test_agent_key(msg).ptr);
    msg = ms_next(&it);
    assert_int_equal(ms_type_of(msg), MS_T_ASSISTANT_MESSAGE);
    assert_null(ms_next(&it));
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    tape_close(t);
}

/* ---- refusals ---- */

static void a_memory_without_store_location_or_agent_is_refused(void **state)
{
    tape *t = tape_open((const store_kind *)*state);
    static char long_key[MS_KEY_MAX + 1];
    memset(long_key, 'k', sizeof long_key);
    const struct { bool store; ms_str location, agent; ms_result want; } cases[] = {
        {true, MS_STR("job"), MS_STR("m"), MS_OK},
        {true, ms_str_n(long_key, MS_KEY_MAX), ms_str_n(long_key, MS_KEY_MAX), MS_OK},
        {false, MS_STR("job"), MS_STR("m"), MS_E_ARGUMENT},
        {true, MS_STR(""), MS_STR("m"), MS_E_ARGUMENT},
        {true, no_str(), MS_STR("m"), MS_E_ARGUMENT},
        {true, MS_STR("job"), MS_STR(""), MS_E_ARGUMENT},
        {true, MS_STR("job"), no_str(), MS_E_ARGUMENT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ms_store *store = cases[i].store ? t->s.store : NULL;
        ms_envelope m = ms_message(MS_T_TASK, ms_text("x"));
        ms_memory memory, shared;
        ms_cursor it;
        ms_error err;
        ms_memory_init(&memory, store, cases[i].location, cases[i].agent);
        assert_int_equal(ms_get_history(&memory, &it, NULL), cases[i].want);
        assert_null(ms_next(&it));
        ms_cursor_close(&it, NULL);
        memory.runtime_mode = MS_RUNTIME_STORE;
        assert_int_equal(ms_memory_add(&memory, &m, NULL, NULL), cases[i].want);
        ms_result result = ms_shared_memory_init(&shared, store, cases[i].location,
                                                 cases[i].agent, NULL, 0, &err);
        assert_int_equal(result, cases[i].want);
        assert_int_equal(shared.store != NULL, result == MS_OK);
        assert_int_equal(shared.agent_key.ptr != NULL, result == MS_OK);
    }
    assert_int_equal(messages_in(t->s.store), 2);
    tape_close(t);
}

static void merging_needs_a_runtime_store(void **state)
{
    tape *t = script_open((const store_kind *)*state);
    ms_memory memory = memory_of(t->s.store, 1, MANAGER);
    ms_envelope m = ms_message(MS_T_TASK, ms_text("x"));
    ms_cursor it;
    memory.runtime_mode = MS_RUNTIME_MERGE;
    assert_int_not_equal(ms_memory_add(&memory, &m, NULL, NULL), MS_OK);
    assert_int_not_equal(ms_get_history(&memory, &it, NULL), MS_OK);
    assert_null(ms_next(&it));
    assert_int_equal(messages_in(t->s.store), SCRIPT);
    tape_close(t);
}


static void histories_that_need_an_arena_are_refused_without_one(void **state)
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
    tape *t = script_open((const store_kind *)*state);
    ms_str team[MOST + 1];
    for (int i = 0; i <= MOST; i++) team[i] = agent_name(1 + i);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ms_memory memory = memory_of(t->s.store, 1, MANAGER);
        ms_cursor it;
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
        ms_cursor_close(&it, NULL);
    }
    tape_close(t);
}


/* ---- the SQLite store's own: a file, and bytes that somebody changed ---- */

static bool temporary_path(char *path, size_t size)
{
    const char *folder = getenv("TMPDIR");
    snprintf(path, size, "%s/test_memory_XXXXXX", folder != NULL ? folder : "/tmp");
    int file = mkstemp(path);
    return file >= 0 && close(file) == 0;
}

static void a_sqlite_file_keeps_its_messages(void **state)
{
    static unsigned want[MAX_ROWS], got[MAX_ROWS];
    char path[200];
    ms_store *store;
    uint64_t seq;
    ms_envelope m = ms_message(MS_T_TASK, ms_text("after reopening"));
    (void)state;
    assert_true(temporary_path(path, sizeof path));
    assert_int_equal(sqlite_store_open(&store, path, NULL), MS_OK);
    tape *t = script_open(&store_kinds[0]);
    assert_int_equal(ms_copy(store, t->s.store, NULL, NULL, NULL, NULL), MS_OK);
    ms_close(store);

    assert_int_equal(sqlite_store_open(&store, path, NULL), MS_OK);
    ms_memory memory = memory_of(t->s.store, 1, MANAGER);
    size_t n = read_ids(&memory, want);
    memory.store = store;
    assert_int_equal(read_ids(&memory, got), n);
    assert_memory_equal(got, want, n * sizeof got[0]);
    assert_int_equal(ms_append(store, job_name(1), &m, &seq, NULL), MS_OK);
    assert_int_equal(seq, SCRIPT + 1);
    assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
    ms_close(store);
    tape_close(t);
    assert_int_equal(remove(path), 0);
}

static void a_damaged_row_is_skipped_and_reported(void **state)
{
    tape *t = script_open(&sqlite_kind);
    ms_memory memory = memory_of(t->s.store, 1, MANAGER);
    sqlite_store *sqlite = (sqlite_store *)t->s.store;
    unsigned ids[64];
    char text[200];
    size_t n = 0;
    ms_cursor it;
    ms_error err;
    const ms_msg *msg;
    (void)state;
    const char *change = "UPDATE messages SET body = "
                         "substr(body, 1, 40) || x'ff' || substr(body, 42) "
                         "WHERE seq IN (4, 10)";
    assert_int_equal(sqlite3_exec(sqlite->db, change, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(ms_get_history(&memory, &it, &err), MS_OK);
    while ((msg = ms_next(&it)) != NULL) ids[n++] = id_of(msg);
    assert_string_equal(ids_text(ids, n, text, sizeof text), "1 15 16 2 14 19 8 13 20");
    assert_int_equal(it.damaged, 2);
    assert_int_equal(ms_cursor_close(&it, &err), MS_E_DAMAGED);
    assert_int_equal(ms_get_by_seq(t->s.store, 4, NULL, &msg, &err), MS_E_ARENA);
    tape_close(t);
}

/* Messages are all that such a store has; other records are asked in vain. */
static void a_raw_query_is_of_messages_when_a_store_has_no_changes(void **state)
{
    test_store s = store_open(&least_kind, NULL);
    ms_query q = query_of(MS_STR("job"), 0);
    ms_cursor it;
    (void)state;
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
    const struct CMUnitTest tests[] = {
        READING(random_histories_equal_the_naive_ones),
        ON_ALL_STORES(added_messages_are_ignored_by_default),
        ON_ALL_STORES(added_messages_are_written_through),
        ON_ALL_STORES(an_invalid_message_is_not_added),
        ON_ALL_STORES(added_messages_join_each_block_until_they_are_forgotten),
        ON_ALL_STORES(a_shared_worker_sees_conversation_own_stream_and_broadcasts),
        ON_ALL_STORES(a_shared_manager_sees_its_team_agent_after_agent),
        ON_ALL_STORES(a_broadcast_has_its_sender),
        ON_ALL_STORES(a_turn_is_of_user_or_assistant),
        ON_ALL_STORES(a_memory_without_store_location_or_agent_is_refused),
        ON_ALL_STORES(merging_needs_a_runtime_store),
        READING(histories_that_need_an_arena_are_refused_without_one),
        cmocka_unit_test(a_raw_query_is_of_messages_when_a_store_has_no_changes),
        cmocka_unit_test(a_sqlite_file_keeps_its_messages),
        cmocka_unit_test(a_damaged_row_is_skipped_and_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
