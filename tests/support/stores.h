/* The kinds of stores that tests run over, one row each, and messages to fill them with.
 * A test written against the rows holds for every kind. Define _POSIX_C_SOURCE 200809L
 * before any include.
 */

#ifndef STORES_H
#define STORES_H

#include "scratch.h"


/* ---- stores ---- */

typedef struct store_options {
    size_t room;              /* bytes of a fixed buffer; 0: 1 MiB */
    size_t max_message;
    bool keep_unset_times;
    ms_alloc alloc;           /* for kinds that allocate */
    ms_clock clock;
    ms_entropy entropy;
} store_options;

typedef struct test_store {
    ms_store *store;
    const struct store_kind *kind;
    void *buffer;             /* of a fixed store, from malloc */
    size_t size;
    char *folder, *path;      /* of a log, from malloc */
#ifndef MSGSTORE_NO_LOG
    ms_log_desc log;          /* opens the log again */
#endif
} test_store;

typedef struct store_kind {
    const char *name;
    bool arena;               /* an arena store: can be reset */
    bool fixed;               /* lives in one buffer: has an image, can be full */
    bool log;                 /* lives in a file: can be opened again */
    bool remote;              /* copies its records, and batches stay on one server */
    ms_result (*open)(test_store *s, const store_options *options, ms_error *err);
} store_kind;

static inline ms_mem_desc store_desc(const store_options *options)
{
    const ms_mem_desc desc = {.max_message = options->max_message,
                              .keep_unset_times = options->keep_unset_times,
                              .alloc = options->alloc,
                              .clock = options->clock,
                              .entropy = options->entropy};
    return desc;
}

static inline ms_result open_heap(test_store *s, const store_options *options,
                                  ms_error *err)
{
    ms_mem_desc desc = store_desc(options);
    return ms_mem_open(&s->store, &desc, err);
}

static inline ms_result open_tiny_chunks(test_store *s, const store_options *options,
                                         ms_error *err)
{
    ms_mem_desc desc = store_desc(options);
    desc.chunk_size = 4096;
    return ms_mem_open(&s->store, &desc, err);
}

static inline ms_result open_fixed(test_store *s, const store_options *options,
                                   ms_error *err)
{
    ms_mem_desc desc = store_desc(options);
    s->size = options->room != 0 ? options->room : (size_t)1 << 20;
    s->buffer = malloc(s->size);
    if (s->buffer == NULL) abort();
    memset(s->buffer, 0xA5, s->size);
    desc.buffer = s->buffer;
    desc.buffer_size = s->size;
    return ms_mem_open(&s->store, &desc, err);
}

#ifndef MSGSTORE_NO_LOG
/* Nothing is damaged in the logs that this file opens. */
static inline void log_is_damaged(void *ctx, const ms_log_event *event)
{
    fprintf(stderr, "log: event %d at %llu, %llu bytes\n", (int)event->kind,
            (unsigned long long)event->offset, (unsigned long long)event->length);
    abort();
}

static inline ms_log_desc log_desc(const char *path, const store_options *options)
{
    ms_log_desc desc = {.path = path, .max_message = options->max_message,
                        .keep_unset_times = options->keep_unset_times,
                        .alloc = options->alloc, .clock = options->clock,
                        .entropy = options->entropy, .events.event = log_is_damaged};
    return desc;
}

/* A log in a fresh folder, described, not opened. */
static inline void log_describe(test_store *s, const store_options *options,
                                ms_log_engine engine, size_t segment)
{
    s->folder = scratch_folder();
    s->path = scratch_file(s->folder, "test.msl");
    s->log = log_desc(s->path, options);
    s->log.engine = engine;
    s->log.segment_size = segment;
}

/* The smallest segments, so that a few messages cross every kind of boundary. */
static inline ms_result open_log(test_store *s, const store_options *options,
                                 ms_log_engine engine, size_t segment, ms_error *err)
{
    log_describe(s, options, engine, segment);
    return ms_log_open(&s->store, &s->log, err);
}

static inline ms_result open_log_map(test_store *s, const store_options *options,
                                     ms_error *err)
{
    return open_log(s, options, MS_ENGINE_MAP, MS_LOG_SEGMENT_MIN, err);
}

static inline ms_result open_log_write(test_store *s, const store_options *options,
                                       ms_error *err)
{
    return open_log(s, options, MS_ENGINE_WRITE, MS_LOG_SEGMENT_MIN, err);
}

static inline ms_result open_log_plain(test_store *s, const store_options *options,
                                       ms_error *err)
{
    return open_log(s, options, MS_ENGINE_AUTO, 0, err);
}

/* Of each engine in turn, for several writers. */
static inline ms_result open_log_shared(test_store *s, const store_options *options,
                                        ms_error *err)
{
    static unsigned count;
    log_describe(s, options, count++ % 2 ? MS_ENGINE_MAP : MS_ENGINE_WRITE,
                 MS_LOG_SEGMENT_MIN);
    s->log.shared = true;
    return ms_log_open(&s->store, &s->log, err);
}
#endif

static store_kind store_kinds[] = {
    {"heap", true, false, false, false, open_heap},
    {"tiny chunks", true, false, false, false, open_tiny_chunks},
    {"fixed buffer", true, true, false, false, open_fixed},
#ifndef MSGSTORE_NO_LOG
    {"log, map engine, tiny segments", false, false, true, false, open_log_map},
    {"log, write engine, tiny segments", false, false, true, false, open_log_write},
    {"log", false, false, true, false, open_log_plain},
    {"shared log", false, false, true, false, open_log_shared}, /* where it is asked for */
#endif
};

enum {
    ARENA_KINDS = 3,          /* stand first */
#ifdef MSGSTORE_NO_LOG
    STORE_KINDS = ARENA_KINDS,
#else
    STORE_KINDS = sizeof store_kinds / sizeof store_kinds[0] - 1,
#endif
    LOG_KINDS = STORE_KINDS - ARENA_KINDS
};

static inline const store_kind *store_kind_at(size_t i)
{
    return &store_kinds[i % STORE_KINDS];
}

/* A cmocka row for each kind; the test's state is the kind. */
#define ON_ARENA_STORES(test)                                       \
    {#test " on heap", test, NULL, NULL, &store_kinds[0]},          \
    {#test " in tiny chunks", test, NULL, NULL, &store_kinds[1]},   \
    {#test " in a buffer", test, NULL, NULL, &store_kinds[2]}

#define IN_A_BUFFER(test) {#test " in a buffer", test, NULL, NULL, &store_kinds[2]}

#ifdef TEST_POSTGRES
#include "tests/platform/postgres/kind.h"
static store_kind postgres_kind = {"postgres", false, false, false, true, open_postgres};
#define ON_EVERY_STORE(test) {#test " in postgres", test, NULL, NULL, &postgres_kind}
#elif defined(MSGSTORE_NO_LOG)
#define ON_EVERY_STORE(test) ON_ARENA_STORES(test)
#endif

#ifndef MSGSTORE_NO_LOG
#define ON_LOGS(test)                                                  \
    {#test " in a mapped log", test, NULL, NULL, &store_kinds[3]},     \
    {#test " in a written log", test, NULL, NULL, &store_kinds[4]},    \
    {#test " in a log", test, NULL, NULL, &store_kinds[5]}

#define SHARED_LOG (&store_kinds[STORE_KINDS])
#define IN_A_SHARED_LOG(test) {#test " in a shared log", test, NULL, NULL, SHARED_LOG}
#endif

#ifndef ON_EVERY_STORE
#define ON_EVERY_STORE(test) ON_ARENA_STORES(test), ON_LOGS(test)
#endif

/* Leaves a test out, and prints why it cannot hold on a server. */
static inline void skip_on_a_server(void **state, const char *why)
{
    if (!((const store_kind *)*state)->remote) return;
    printf("skip: %s\n", why);
    skip();
}

/* Opens a store of that kind; options NULL: all defaults. */
static inline test_store store_open(const store_kind *kind, const store_options *options)
{
    static const store_options none;
    test_store s = {.kind = kind};
    ms_error err;
    must_ok(kind->open(&s, options != NULL ? options : &none, &err), &err, kind->name);
    return s;
}

static inline void store_close(test_store *s)
{
    ms_close(s->store);
    free(s->buffer);
    if (s->folder != NULL) scratch_remove(s->folder);
    free(s->folder);
    free(s->path);
    memset(s, 0, sizeof *s);
}

/* Closes a log and opens its file again; any other store stays as it is. */
static inline void store_reopen(test_store *s)
{
    if (!s->kind->log) return;
#ifndef MSGSTORE_NO_LOG
    ms_error err;
    ms_close(s->store);
    s->log.mode = MS_LOG_WRITE;
    if (ms_log_open(&s->store, &s->log, &err) != MS_OK)
        fail_msg("%s, again: %s", s->kind->name, err.message);
#endif
}


/* ---- a log by itself, and others beside it ---- */

#ifndef MSGSTORE_NO_LOG
/* A log in a fresh folder, described, not opened. */
static inline test_store log_at(size_t segment, ms_log_engine engine)
{
    static const store_options none;
    test_store s = {.kind = store_kind_at(STORE_KINDS - 1)};
    log_describe(&s, &none, engine, segment);
    return s;
}

static inline void log_open(test_store *s)
{
    ms_error err;
    if (ms_log_open(&s->store, &s->log, &err) != MS_OK) fail_msg("open: %s", err.message);
}

/* A second handle, for reading. */
static inline ms_store *log_reader(const test_store *s)
{
    ms_log_desc desc = s->log;
    ms_store *store;
    ms_error err;
    desc.mode = MS_LOG_READ;
    if (ms_log_open(&store, &desc, &err) != MS_OK) fail_msg("read: %s", err.message);
    return store;
}

static inline ms_log_info log_info_of(ms_store *store)
{
    ms_log_info info;
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    return info;
}

/* For ms_os: the same device and inode for every file, so that equal runs give equal
 * bytes. */
static inline int stat_without_name(void *ctx, ms_file file, ms_os_stat *out)
{
    int code = ms_os_default()->stat(ctx, file, out);
    out->device = out->inode = 7;
    return code;
}
#endif


/* A union, whose stores the caller closes after it. */
static inline ms_store *union_of(ms_store *const *stores, size_t n)
{
    const ms_union_desc desc = {.stores = stores, .n_stores = n};
    ms_store *all;
    ms_error err;
    must_ok(ms_union_open(&all, &desc, &err), &err, "union");
    return all;
}


/* ---- small helpers ---- */

/* A clock that stands where a test sets it. */
static inline int64_t clock_says(void *ctx)
{
    return *(const int64_t *)ctx;
}

static inline ms_clock clock_at(int64_t *now)
{
    ms_clock clock = {clock_says, NULL};
    clock.ctx = now;
    return clock;
}

/* Entropy that is the same in every run. */
static inline void entropy_constant(void *ctx, void *out, size_t len)
{
    memset(out, 0x5a, len);
}

static inline ms_entropy constant_entropy(void)
{
    ms_entropy entropy = {entropy_constant, NULL};
    return entropy;
}

static inline ms_str no_str(void)
{
    return ms_str_n(NULL, 0);
}

static inline ms_query query_of(ms_str location, unsigned views)
{
    ms_query q = {.location = location, .views = views};
    return q;
}

/* A message of any type with all that its type requires. */
static inline ms_envelope message_of(ms_type type, ms_str text)
{
    ms_envelope m = {.type = type};
    switch (type) {
    case MS_T_ACTION:
        m.tool = text;
        m.args = ms_json(MS_STR("{\"n\":1}"));
        break;
    case MS_T_DELEGATION:
        m.worker = MS_STR("worker");
        m.task = text;
        break;
    case MS_T_SYNTHESIS:
        m.from_manager = MS_STR("manager");
        m.content = ms_text_n(text);
        break;
    case MS_T_OTHER:
        m.type_name = MS_STR("custom_word");
        m.content = ms_text_n(text);
        break;
    default: m.content = ms_text_n(text); break;
    }
    return m;
}

static inline uint64_t must_append(ms_store *store, ms_str location, const ms_envelope *m)
{
    uint64_t seq = 0;
    ms_error err;
    if (ms_append(store, location, m, &seq, &err) != MS_OK)
        fail_msg("append: %s", err.message);
    return seq;
}

static inline uint64_t append_text(ms_store *store, const char *text)
{
    ms_envelope m = ms_observation(ms_text(text), ms_str_of(NULL));
    return must_append(store, MS_STR("job"), &m);
}

/* The next message of a cursor; at the end NULL, and the cursor is closed. */
static inline const ms_msg *query_next(ms_cursor *it)
{
    ms_error err;
    const ms_msg *msg = ms_next(it);
    if (msg == NULL && ms_cursor_close(it, &err) != MS_OK)
        fail_msg("cursor: %s", err.message);
    return msg;
}

static inline const ms_msg *query_first(ms_store *store, const ms_query *q, ms_cursor *it)
{
    ms_error err;
    if (ms_query_open(store, q, it, &err) != MS_OK) fail_msg("query: %s", err.message);
    return query_next(it);
}

/* Each message that a query returns; both calls have to succeed. */
#define EACH(msg, store, q, it)                                                      \
    for (const ms_msg *msg = query_first(store, q, it); msg != NULL; msg = query_next(it))

/* How many messages a query returns. */
static inline size_t count_of(ms_store *store, const ms_query *q)
{
    ms_cursor it;
    size_t n = 0;
    EACH (m, store, q, &it) n += m != NULL;
    return n;
}

/* The same of a store that salvage left: the cursor ends with that code. */
static inline size_t count_left(ms_store *store, const ms_query *q, ms_result end)
{
    ms_cursor it;
    size_t n = 0;
    ms_error err;
    must_ok(ms_query_open(store, q, &it, &err), &err, "query");
    while (ms_next(&it) != NULL) n++;
    assert_int_equal(ms_cursor_close(&it, NULL), end);
    return n;
}

/* A text of so many bytes, from malloc. */
static inline char *large_text(size_t len)
{
    char *text = (char *)malloc(len);
    if (text == NULL) abort();
    for (size_t i = 0; i < len; i++) text[i] = (char)('a' + i % 26);
    return text;
}


/* ---- random messages ---- */

static inline ms_str random_of(uint64_t *rng, const ms_str *list, size_t n)
{
    return list[test_below(rng, n)];
}

static inline ms_str random_location(uint64_t *rng)
{
    const ms_str list[] = {MS_STR("job_1"), MS_STR("job_2"), MS_STR("job_10"),
                           MS_STR("a/b"), MS_STR("\xe6\x97\xa5\xe6\x9c\xac")};
    return random_of(rng, list, sizeof list / sizeof list[0]);
}

/* Absent once in six times. */
static inline ms_str random_agent(uint64_t *rng)
{
    const ms_str list[] = {no_str(),      MS_STR("manager"), MS_STR("w1"),
                           MS_STR("w2"),  MS_STR("w10"),     MS_STR("\xc3\x9cn\xc3\xaf")};
    return random_of(rng, list, sizeof list / sizeof list[0]);
}

static inline ms_str random_turn(uint64_t *rng)
{
    const ms_str list[] = {no_str(), MS_STR("turn_1"), MS_STR("turn_2"), MS_STR("t")};
    return random_of(rng, list, sizeof list / sizeof list[0]);
}

/* Small whole numbers, so that many are equal; 0 and negative ones among them. */
static inline int64_t random_time(uint64_t *rng)
{
    int64_t time = SECONDS((int64_t)test_below(rng, 12) - 3);
    return test_one_in(rng, 4) ? time + SECONDS(0.25) : time;
}

/* Never absent: empty, plain, with NUL, with a byte that is not UTF-8, long. */
static inline ms_str random_text(uint64_t *rng)
{
    static char page[6000];
    const ms_str list[] = {MS_STR(""),
                           MS_STR("x"),
                           MS_STR("a\0b"),
                           MS_STR("\xff|\xc3\xa9"),
                           MS_STR("\xf0\x9f\x99\x82 and more"),
                           MS_STR("two\nlines \"q\""),
                           MS_STR("12345678"),
                           MS_STR("123456789012345")};
    if (page[0] == '\0')
        for (size_t i = 0; i < sizeof page; i++) page[i] = (char)('!' + i % 90);
    size_t pick = (size_t)test_below(rng, 12);
    if (pick < 8) return list[pick];
    size_t from = (size_t)test_below(rng, 500);
    return ms_str_n(page + from, (size_t)test_below(rng, pick == 11 ? 5000 : 200));
}

static inline ms_str random_object(uint64_t *rng)
{
    const ms_str list[] = {MS_STR("{}"), MS_STR("{\"a\":1}"),
                           MS_STR("{\"b\":[null,true,1e5]}"),
                           MS_STR("{\"z\":{\"y\":\"\\u00e9\"},\"a\":-0.0}")};
    return random_of(rng, list, sizeof list / sizeof list[0]);
}

static inline ms_value random_value(uint64_t *rng)
{
    const ms_str list[] = {MS_STR("null"), MS_STR("false"), MS_STR("[]"), MS_STR("{}"),
                           MS_STR("\"\""), MS_STR("1.50"), MS_STR("[1,{\"a\":\"b\"}]")};
    if (test_one_in(rng, 2)) return ms_text_n(random_text(rng));
    return ms_json(random_of(rng, list, sizeof list / sizeof list[0]));
}

/* Fills about one in `rare` of the fields that no type requires. */
static inline void random_fields(uint64_t *rng, ms_envelope *m, uint64_t rare)
{
    const ms_str phases[] = {MS_STR("0"), MS_STR("7"), MS_STR("-1")};
    ms_str *const texts[] = {&m->call_id, &m->from_worker, &m->summary, &m->error_type,
                             &m->id,      &m->source,      &m->tool,    &m->worker,
                             &m->task,    &m->from_manager};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (test_one_in(rng, rare)) *texts[i] = random_text(rng);
    if (test_one_in(rng, rare)) m->content = random_value(rng);
    if (test_one_in(rng, rare)) m->args = ms_json(random_object(rng));
    if (test_one_in(rng, rare)) m->args = ms_text_n(random_text(rng));
    if (test_one_in(rng, rare)) m->phase_id = ms_json(random_of(rng, phases, 3));
    if (test_one_in(rng, rare)) m->phase_id = ms_text("first");
    if (test_one_in(rng, rare)) m->extra = random_object(rng);
}

/* A sound envelope without key; its views are static. */
static inline ms_envelope random_message(uint64_t *rng)
{
    const ms_role roles[] = {MS_ROLE_USER,      MS_ROLE_ASSISTANT, MS_ROLE_SYSTEM,
                             MS_ROLE_DEVELOPER, MS_ROLE_TOOL,      MS_ROLE_FUNCTION};
    ms_type type = (ms_type)(1 + test_below(rng, (uint64_t)MS_TYPE_COUNT - 1));
    ms_envelope m = message_of(type, random_text(rng));
    if (m.content.text.ptr != NULL) m.content = random_value(rng);
    if (test_one_in(rng, 4)) random_fields(rng, &m, 2);
    else random_fields(rng, &m, 12);
    if (test_one_in(rng, 6)) m.role = roles[test_below(rng, 6)];
    if (test_one_in(rng, 30)) {
        m.role = MS_ROLE_OTHER;
        m.role_name = MS_STR("critic");
    }
    if (test_one_in(rng, 4)) m.flags = (uint32_t)test_below(rng, 64);
    m.has_time = !test_one_in(rng, 3);
    if (m.has_time) m.time_ns = random_time(rng);
    m.location = random_location(rng);
    m.agent_key = random_agent(rng);
    m.turn_id = random_turn(rng);
    return m;
}


/* ---- random questions ---- */

enum { TEAM_MAX = 24 };

static inline ms_str asked_agent(uint64_t *rng)
{
    ms_str agent = random_agent(rng);
    return agent.ptr != NULL ? agent : MS_STR("nobody");
}

static inline size_t random_team(uint64_t *rng, ms_str team[TEAM_MAX])
{
    size_t n = (size_t)test_below(rng, test_one_in(rng, 8) ? TEAM_MAX + 1 : 5);
    for (size_t i = 0; i < n; i++) team[i] = asked_agent(rng);
    return n;
}

static inline ms_type_set random_types(uint64_t *rng)
{
    ms_type_set set = test_random(rng) & test_random(rng) & MS_TYPES_ALL;
    return set != 0 ? set : MS_TYPES_GLOBAL;
}

static inline void random_bounds(uint64_t *rng, uint64_t last, ms_query *q)
{
    if (test_one_in(rng, 4)) q->turn_id = random_turn(rng);
    q->has_since = test_one_in(rng, 5);
    if (q->has_since) q->since_ns = random_time(rng);
    q->has_until = test_one_in(rng, 5);
    if (q->has_until) q->until_ns = random_time(rng);
    if (test_one_in(rng, 5)) q->after_seq = test_below(rng, last + 2);
    if (test_one_in(rng, 5)) q->before_seq = test_below(rng, last + 3);
    if (test_one_in(rng, 3)) q->limit = (size_t)test_below(rng, 8);
    q->oldest = test_one_in(rng, 3);
    q->reverse = test_one_in(rng, 3);
    q->by_time = test_one_in(rng, 4);
    q->untimed_first = test_one_in(rng, 2);
}

/* last: the largest sequence number; team has to outlive the cursor. */
static inline ms_query random_query(uint64_t *rng, uint64_t last, ms_str team[TEAM_MAX],
                                    ms_arena *arena)
{
    ms_query q = query_of(random_location(rng), (unsigned)test_below(rng, 32));
    if (test_one_in(rng, 2)) q.views = 1u << test_below(rng, 5);
    if (test_one_in(rng, 4)) q.location = test_one_in(rng, 2) ? no_str() : MS_STR("");
    if (test_one_in(rng, 20)) q.location = MS_STR("nowhere");
    q.agent_key = asked_agent(rng);
    q.agent_keys = team;
    q.n_agent_keys = random_team(rng, team);
    if (test_one_in(rng, 4)) q.types = random_types(rng);
    if (test_one_in(rng, 4)) q.agent_types = random_types(rng);
    if (test_one_in(rng, 4)) q.agent_types = MS_TYPES_AGENT_WIDE;
    random_bounds(rng, last, &q);
    if (q.by_time || q.n_agent_keys > MS_CURSOR_AGENTS || test_one_in(rng, 4))
        q.arena = arena;
    return q;
}

#endif /* STORES_H */
