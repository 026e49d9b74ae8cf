/* The kinds of stores that tests run over, one row each, and messages to fill them with.
 * A test written against the rows holds for every kind.
 */

#ifndef STORES_H
#define STORES_H

#include "support.h"

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
} test_store;

typedef struct store_kind {
    const char *name;
    bool arena;               /* an arena store: can be reset */
    bool fixed;               /* lives in one buffer: has an image, can be full */
    ms_result (*open)(test_store *s, const store_options *options, ms_error *err);
} store_kind;

static inline ms_mem_desc store_desc(const store_options *options)
{
    ms_mem_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.max_message = options->max_message;
    desc.keep_unset_times = options->keep_unset_times;
    desc.alloc = options->alloc;
    desc.clock = options->clock;
    desc.entropy = options->entropy;
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

static store_kind store_kinds[] = {
    {"heap", true, false, open_heap},
    {"tiny chunks", true, false, open_tiny_chunks},
    {"fixed buffer", true, true, open_fixed},
};

#define STORE_KINDS (sizeof store_kinds / sizeof store_kinds[0])

static inline const store_kind *store_kind_at(size_t i)
{
    return &store_kinds[i % STORE_KINDS];
}

/* A cmocka row for each kind; the test's state is the kind. */
#define ON_EVERY_STORE(test)                                        \
    {#test " on heap", test, NULL, NULL, &store_kinds[0]},          \
    {#test " in tiny chunks", test, NULL, NULL, &store_kinds[1]},   \
    {#test " in a buffer", test, NULL, NULL, &store_kinds[2]}

/* Opens a store of that kind; options NULL: all defaults. */
static inline test_store store_open(const store_kind *kind, const store_options *options)
{
    store_options none;
    test_store s;
    ms_error err;
    memset(&none, 0, sizeof none);
    memset(&s, 0, sizeof s);
    s.kind = kind;
    if (kind->open(&s, options != NULL ? options : &none, &err) != MS_OK)
        fail_msg("%s: %s", kind->name, err.message);
    return s;
}

static inline void store_close(test_store *s)
{
    ms_close(s->store);
    free(s->buffer);
    memset(s, 0, sizeof *s);
}


/* ---- small helpers ---- */

/* A clock that says what a test sets. */
static inline double clock_says(void *ctx)
{
    return *(const double *)ctx;
}

static inline ms_clock clock_at(double *now)
{
    ms_clock clock = {clock_says, NULL};
    clock.ctx = now;
    return clock;
}

/* Entropy that is the same in every run. */
static inline void entropy_constant(void *ctx, void *out, size_t len)
{
    (void)ctx;
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
    ms_query q;
    memset(&q, 0, sizeof q);
    q.location = location;
    q.views = views;
    return q;
}

/* A message of any type with all that its type requires. */
static inline ms_envelope message_of(ms_type type, ms_str text)
{
    ms_envelope m;
    memset(&m, 0, sizeof m);
    m.type = type;
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

/* How many messages a query gives. */
static inline size_t count_of(ms_store *store, const ms_query *q)
{
    ms_cursor it;
    ms_error err;
    size_t n = 0;
    if (ms_query_open(store, q, &it, &err) != MS_OK) fail_msg("query: %s", err.message);
    while (ms_next(&it) != NULL) n++;
    if (ms_cursor_close(&it, &err) != MS_OK) fail_msg("cursor: %s", err.message);
    return n;
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
static inline double random_time(uint64_t *rng)
{
    double time = (double)test_below(rng, 12) - 3.0;
    return test_one_in(rng, 4) ? time + 0.25 : time;
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
                             &m->id,      &m->time_text,   &m->tool,    &m->worker,
                             &m->task,    &m->from_manager};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (test_one_in(rng, rare)) *texts[i] = random_text(rng);
    if (test_one_in(rng, rare)) m->content = random_value(rng);
    if (test_one_in(rng, rare)) m->args = ms_json(random_object(rng));
    if (test_one_in(rng, rare)) m->args = ms_text_n(random_text(rng));
    if (test_one_in(rng, rare)) m->phase_id = ms_json(random_of(rng, phases, 3));
    if (test_one_in(rng, rare)) m->phase_id = ms_text("first");
    if (test_one_in(rng, rare)) m->extra = random_object(rng);
    if (test_one_in(rng, rare)) m->call_extra = random_object(rng);
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
    if (m.has_time) m.time = random_time(rng);
    m.location = random_location(rng);
    m.agent_key = random_agent(rng);
    m.turn_id = random_turn(rng);
    return m;
}

#endif /* STORES_H */
