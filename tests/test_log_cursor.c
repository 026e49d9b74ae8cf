/* [log-cursor]: cursors over segments and the tail answer like a plain array, while more
 * is appended, and step over damaged records, which they count. */

#define _GNU_SOURCE
#include "log_bytes.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum { LIMITS = 60, SEGMENT = 4096 };

static ms_log_engine engines[] = {MS_ENGINE_MAP, MS_ENGINE_WRITE};

#define WITH_EACH_ENGINE(test) {#test " in a mapped log", test, NULL, NULL, &engines[0]}, \
                               {#test " in a written log", test, NULL, NULL, &engines[1]}


/* ---- small messages of few names, and queries for them ---- */

static const char *const jobs[] = {"job", "job of another name", "third"};
static const char *const agents[] = {NULL, "worker_1", "worker_2", "a reviewer"};

static const struct view {
    unsigned views;
    bool everywhere;      /* all locations */
    size_t team;          /* of so many agents */
} views[] = {
    {0, true, 0},
    {MS_VIEW_TIMELINE, false, 0},
    {MS_VIEW_CONVERSATION, false, 0},
    {MS_VIEW_GLOBAL, false, 0},
    {MS_VIEW_AGENT, false, 0},
    {MS_VIEW_TEAM, false, 2},
    {MS_VIEW_CONVERSATION | MS_VIEW_GLOBAL, false, 0},
    {MS_VIEW_CONVERSATION | MS_VIEW_AGENT, false, 0},
};

static twinned small_log(void **state)
{
    twinned x = twinned_of(log_at(SEGMENT, *(const ms_log_engine *)*state));
    x.s.log.keep_unset_times = true;
    log_open(&x.s);
    return x;
}

/* Most are of the first location. */
static void append_small(twinned *x, size_t n)
{
    static const ms_type types[] = {MS_T_USER_MESSAGE, MS_T_ASSISTANT_MESSAGE,
                                    MS_T_OBSERVATION,  MS_T_GLOBAL_OBSERVATION,
                                    MS_T_FINAL,        MS_T_TEXT};
    static char text[1100];
    ms_append_opts opts;
    memset(&opts, 0, sizeof opts);
    while (n-- > 0) {
        size_t most = test_one_in(&x->rng, 20) ? 1000 : 60;
        memset(text, '.', sizeof text);
        snprintf(text, 12, "<#%06zu#>", x->t.count);
        ms_str said = ms_str_n(text, 10 + (size_t)test_below(&x->rng, most));
        ms_envelope m = message_of(types[test_below(&x->rng, COUNT(types))], said);
        bool other = test_one_in(&x->rng, 3);
        m.location = ms_str_of(jobs[other ? test_below(&x->rng, COUNT(jobs)) : 0]);
        m.agent_key = ms_str_of(agents[test_below(&x->rng, COUNT(agents))]);
        twin_append_both(&x->t, x->s.store, &m, 1, &opts, false);
    }
}

/* A view of a location and an agent (from 1), with the next agent in the team. */
static ms_query view_of(const struct view *v, size_t job, size_t agent, ms_str team[2])
{
    ms_query q = query_of(v->everywhere ? no_str() : ms_str_of(jobs[job]), v->views);
    team[0] = q.agent_key = ms_str_of(agents[agent]);
    team[1] = ms_str_of(agents[agent % (COUNT(agents) - 1) + 1]);
    q.agent_keys = team;
    q.n_agent_keys = v->team;
    return q;
}

static ms_query any_view(twinned *x, ms_str team[2], bool bounds)
{
    const struct view *v = &views[test_below(&x->rng, COUNT(views))];
    ms_query q = view_of(v, (size_t)test_below(&x->rng, COUNT(jobs)),
                         1 + (size_t)test_below(&x->rng, COUNT(agents) - 1), team);
    q.limit = test_one_in(&x->rng, 5) ? 0 : (size_t)test_below(&x->rng, LIMITS);
    q.reverse = test_one_in(&x->rng, 2);
    q.oldest = test_one_in(&x->rng, 3);
    if (bounds && test_one_in(&x->rng, 3))
        q.after_seq = test_below(&x->rng, x->t.count + 2);
    if (bounds && test_one_in(&x->rng, 3))
        q.before_seq = test_below(&x->rng, x->t.count + 3);
    return q;
}

/* Calls `ask` with every view, direction and limit; with every `stride`th of these. */
static void with_every_view(const twinned *x, ms_store *store, size_t stride,
                            void (*ask)(const twinned *x, ms_store *store,
                                        const ms_query *q))
{
    ms_str team[2];
    for (size_t v = 0; v < COUNT(views); v++)
        for (unsigned how = 0; how < 4; how++)
            for (size_t limit = (v + how) % stride; limit <= LIMITS; limit += stride) {
                ms_query q = view_of(&views[v], 0, 1 + limit % (COUNT(agents) - 1), team);
                q.limit = limit;
                q.reverse = how & 1;
                q.oldest = (how & 2) != 0;
                ask(x, store, &q);
            }
}


/* ---- whole files: a twin has the answers ---- */

static void ask_twin(const twinned *x, ms_store *store, const ms_query *q)
{
    twin_must_query(&x->t, store, q);
}

/* From the empty log on: every number of messages in segments and in the tail. */
static void the_newest_n_of_every_view_are_found_at_every_size(void **state)
{
    twinned x = small_log(state);
    ms_store *reader = log_reader(&x.s);
    with_every_view(&x, x.s.store, 1, ask_twin);
    for (size_t i = 0; i < 330; i++) {
        append_small(&x, 1);
        if (i % 37 == 0) with_every_view(&x, x.s.store, 1, ask_twin);
        for (int k = 0; k < 6; k++) {
            ms_str team[2];
            ms_query q = any_view(&x, team, true);
            twin_must_query(&x.t, x.s.store, &q);
        }
        if (i % 40 == 39) with_every_view(&x, reader, 7, ask_twin);
    }
    ms_close(reader);
    twinned_close(&x);
}

enum { HELD = 40 };

/* A cursor that is open, and what it has to return. */
typedef struct held {
    ms_query query;
    ms_str team[TEAM_MAX];
    ms_arena arena;
    ms_cursor it;
    const twin_msg **want;    /* NULL: not open */
    size_t n, at;
} held;

static void held_open(held *h, twinned *x, ms_store *store)
{
    test_arena_init(&h->arena, NULL);
    h->query = random_query(&x->rng, twin_last_seq(&x->t), h->team, &h->arena);
    if (test_one_in(&x->rng, 4)) h->query = query_of(no_str(), 0);
    h->want = (const twin_msg **)twin_memory(NULL, (x->t.count + 1) * sizeof h->want[0]);
    h->n = twin_query(&x->t, &h->query, h->want);
    h->at = 0;
    must_give(MS_OK, ms_query_open(store, &h->query, &h->it, NULL));
}

static void held_next(held *h)
{
    const ms_msg *msg = ms_next(&h->it);
    assert_int_equal(msg != NULL, h->at < h->n);
    if (msg != NULL) twin_must_match(h->want[h->at++], msg, "held");
}

/* whole: reads to the end before. */
static void held_close(held *h, bool whole)
{
    if (whole) twin_must_read(h->want + h->at, h->n - h->at, &h->it, "held");
    else must_give(MS_OK, ms_cursor_close(&h->it, NULL));
    ms_arena_deinit(&h->arena);
    free(h->want);
    h->want = NULL;
}

/* Each cursor returns what was there at its opening: cursors of a writer and a reader are
 * opened, read, and closed early or at the end, in any order, between appends. */
static void cursors_stand_still_while_segments_are_sealed(void **state)
{
    static held cursors[HELD];
    twinned x = twinned_open((store_kind *)*state);
    memset(cursors, 0, sizeof cursors);
    if (x.s.log.segment_size != 0) { /* some messages in each tail that is held */
        x.s.log.segment_size = SEGMENT;
        store_reopen(&x.s);
    }
    ms_store *reader = log_reader(&x.s);
    for (int i = 0; i < 4000; i++) {
        held *h = &cursors[test_below(&x.rng, HELD)];
        if (test_one_in(&x.rng, 3)) twinned_fill(&x, 1 + test_below(&x.rng, 4));
        else if (h->want == NULL)
            held_open(h, &x, test_one_in(&x.rng, 2) ? reader : x.s.store);
        else if (!test_one_in(&x.rng, 8)) held_next(h);
        else held_close(h, test_one_in(&x.rng, 2));
    }
    twinned_fill(&x, 1000);
    for (size_t i = 0; i < HELD; i++)
        if (cursors[i].want != NULL) held_close(&cursors[i], true);
    twinned_equal(&x);
    ms_close(reader);
    twinned_close(&x);
}

/* Ten of the messages 1 to 40: newest or oldest, either way, of an agent, before one. */
static void must_find_cold(ms_store *store, int how)
{
    enum { COLD = 40 };
    uint64_t step = how & 8 ? 2 : 1, n = 0;
    ms_query q = query_of(MS_STR("cold"), how & 8 ? MS_VIEW_AGENT : 0);
    ms_cursor it;
    q.agent_key = MS_STR("odd");
    q.limit = 10;
    q.oldest = how & 1;
    q.reverse = how & 2;
    if (how & 4) q.before_seq = COLD - 1;
    uint64_t first = q.oldest ? step : (how & 4 ? COLD - 2 : COLD) - 9 * step;
    if (q.reverse) first += 9 * step;
    EACH (msg, store, &q, &it) {
        assert_int_equal(ms_seq(msg), q.reverse ? first - n * step : first + n * step);
        n++;
    }
    assert_int_equal(n, 10);
}

static void a_location_that_went_cold_is_found(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    size_t others = test_times(40000);
    for (int i = 0; i < 40; i++) {
        ms_envelope m = ms_observation(ms_text("cold"), ms_str_of(NULL));
        m.agent_key = i % 2 ? MS_STR("odd") : MS_STR("even");
        must_append(s.store, MS_STR("cold"), &m);
    }
    for (size_t i = 0; i < others; i++) {
        char name[24];
        ms_envelope m = ms_observation(ms_text("warm"), ms_str_of(NULL));
        snprintf(name, sizeof name, "warm %zu", i % 37);
        must_append(s.store, ms_str_of(name), &m);
    }
    for (int again = 0; again < 2; again++) {
        ms_query none = query_of(MS_STR("never"), 0);
        for (int how = 0; how < 16; how++) must_find_cold(s.store, how);
        assert_int_equal(count_of(s.store, &none), 0);
        store_reopen(&s);
    }
    store_close(&s);
}


/* ---- damaged records ---- */

enum { ROWS = 2000 };

static bool damaged[ROWS]; /* by the place in the twin */

/* The posting lists that a message is read from for a query, by bits. */
static unsigned lists_of(const ms_query *q, const twin_msg *m)
{
    bool trace = twin_in_set(MS_TYPES_AGENT, m->type);
    ms_str agent = m->field[MS_F_AGENT_KEY].text;
    unsigned lists = 0, own = 0;
    for (size_t i = 1; i < COUNT(agents); i++)
        if (ms_str_equal(agent, ms_str_of(agents[i]))) own = 4u << 2 * i;
    if (q->views == 0 || (q->views & MS_VIEW_TIMELINE)) return 1;
    if ((q->views & MS_VIEW_CONVERSATION) && twin_in_set(MS_TYPES_CONVERSATION, m->type))
        lists |= 1;
    if ((q->views & MS_VIEW_GLOBAL) && twin_in_set(MS_TYPES_GLOBAL, m->type)) lists |= 2;
    if ((q->views & MS_VIEW_AGENT) && ms_str_equal(agent, q->agent_key) && trace)
        lists |= own;
    if (q->views & MS_VIEW_TEAM) lists |= trace ? own : 2 * own;
    return lists;
}

/* What a cursor has to return. The newest few, oldest first, are found and checked at its
 * opening (kept). More of one posting list (plain) are n records, whole or not. */
typedef struct answer {
    size_t entries[ROWS];     /* places in the twin */
    size_t n, at, left;
    bool back, plain, kept;
    uint64_t damaged;
} answer;

/* The entry next to `at` in a direction; SIZE_MAX at the end. */
static size_t answer_step(answer *w, bool back)
{
    if (back ? w->at == 0 : w->at == w->n) return SIZE_MAX;
    return w->entries[back ? --w->at : w->at++];
}

/* Goes over `n` whole ones. */
static void answer_walk(answer *w, bool back, size_t n)
{
    w->at = back ? w->n : 0;
    for (size_t i; n > 0 && (i = answer_step(w, back)) != SIZE_MAX;)
        if (!damaged[i]) n--;
}

/* All damage among the newest few is counted at the opening. */
static void answer_keep(answer *w, size_t limit)
{
    size_t n = 0;
    answer_walk(w, true, limit);
    for (size_t i = w->at; i < w->n; i++) {
        if (damaged[w->entries[i]]) w->damaged++;
        else w->entries[n++] = w->entries[i];
    }
    w->at = 0;
    w->n = n;
}

static void answer_make(const twin *t, const ms_query *q, answer *w)
{
    unsigned lists = 0;
    memset(w, 0, sizeof *w);
    for (size_t i = 0; i < t->count; i++) {
        if (!twin_match(q, t->items[i])) continue;
        w->entries[w->n++] = i;
        lists |= lists_of(q, t->items[i]);
    }
    w->plain = q->location.ptr != NULL && (lists & (lists - 1)) == 0;
    w->kept = q->limit != 0 && q->limit <= MS__KEPT && !q->oldest && !q->reverse;
    w->back = q->reverse;
    w->left = q->limit != 0 ? q->limit : SIZE_MAX;
    w->at = q->reverse ? w->n : 0;
    if (q->limit == 0 || q->oldest != q->reverse) return; /* it begins where it counts */
    if (w->kept) answer_keep(w, q->limit);
    else if (w->plain && !q->oldest) w->at = w->n - (q->limit < w->n ? q->limit : w->n);
    else answer_walk(w, !q->oldest, q->limit);
}

/* The place in the twin of what comes next; SIZE_MAX: nothing. */
static size_t answer_next(answer *w)
{
    size_t i;
    while (w->left > 0 && (i = answer_step(w, w->back)) != SIZE_MAX) {
        if (w->kept || !damaged[i]) {
            w->left--;
            return i;
        }
        w->damaged++;
    }
    return SIZE_MAX;
}

/* Reads at most so many, then closes: the messages, and how much damage was met. */
static void must_answer(const twinned *x, ms_store *store, const ms_query *q, size_t most)
{
    static answer w;
    char what[120];
    ms_cursor it;
    bool more = true;
    snprintf(what, sizeof what, "views %u, limit %zu%s%s, after %llu, before %llu",
             q->views, q->limit, q->oldest ? ", oldest" : "", q->reverse ? ", reverse" : "",
             (unsigned long long)q->after_seq, (unsigned long long)q->before_seq);
    answer_make(&x->t, q, &w);
    must_give(MS_OK, ms_query_open(store, q, &it, NULL));
    while (more && most-- > 0) {
        size_t want = answer_next(&w);
        const ms_msg *msg = ms_next(&it);
        if (it.damaged != w.damaged) fail_msg("%s: other damage", what);
        if (msg == NULL && want != SIZE_MAX) fail_msg("%s: a message is missing", what);
        if (msg != NULL && want == SIZE_MAX) fail_msg("%s: a message too much", what);
        more = msg != NULL;
        if (more) twin_must_match(x->t.items[want], msg, what);
    }
    if (ms_cursor_close(&it, NULL) != (w.damaged != 0 ? MS_E_DAMAGED : MS_OK))
        fail_msg("%s: another result", what);
}

static void ask_damaged(const twinned *x, ms_store *store, const ms_query *q)
{
    must_answer(x, store, q, SIZE_MAX);
}

/* The offset of each message of the file, by its place in the twin; from malloc. */
static size_t *offsets_of(const twinned *x)
{
    size_t size;
    size_t *offsets = (size_t *)twin_memory(NULL, x->t.count * sizeof offsets[0]);
    char *bytes = bytes_of(&x->s, &size);
    walk w = walk_of(bytes, size, false);
    assert_int_equal(w.n_records, x->t.count);
    for (size_t i = 0; i < w.n_records; i++) offsets[i] = (size_t)w.records[i].offset;
    walk_free(&w);
    free(bytes);
    return offsets;
}

static void count_events(void *ctx, const ms_log_event *event)
{
    (void)event;
    ++*(size_t *)ctx;
}

/* Closes the log, flips a bit of one in `rare` messages but the newest ones, which no
 * index knows of, and opens it again. */
static void harm_some(twinned *x, uint64_t rare, size_t *events)
{
    /* of the size, the kind, the sequence number, the header's check, the body */
    static const size_t places[] = {0, 4, 9, 29, 40};
    size_t size, *offsets;
    log_close(&x->s);
    offsets = offsets_of(x);
    char *bytes = bytes_of(&x->s, &size);
    for (size_t i = 0; i + 20 < x->t.count; i++) {
        if (!test_one_in(&x->rng, rare)) continue;
        size_t at = offsets[i] + places[test_below(&x->rng, COUNT(places))];
        bytes[at] = (char)(bytes[at] ^ 1 << test_below(&x->rng, 8));
        damaged[i] = true;
    }
    file_patch(&x->s, 0, bytes, size);
    free(bytes);
    free(offsets);
    x->s.log.events.event = count_events;
    x->s.log.events.ctx = events;
    log_open_as(&x->s, MS_LOG_WRITE);
}

static void damaged_records_are_skipped_and_counted(void **state)
{
    for (unsigned round = 0; round < 6; round++) {
        twinned x = small_log(state);
        size_t events = 0;
        memset(damaged, 0, sizeof damaged);
        x.rng += round;
        append_small(&x, 60 + 40 * round);
        harm_some(&x, round < 3 ? 20 : 4, &events);
        with_every_view(&x, x.s.store, 5, ask_damaged);
        append_small(&x, 10 + 20 * round);
        with_every_view(&x, x.s.store, 2, ask_damaged);
        for (size_t i = 0; i < 300; i++) {
            ms_str team[2];
            ms_query q = any_view(&x, team, false);
            must_answer(&x, x.s.store, &q, (size_t)test_below(&x.rng, 40));
        }
        twinned_close(&x);
    }
}

/* All answers while a record is harmed under the open log, and when it is whole again. */
static void answers_without(twinned *x, size_t i, size_t at, const void *bytes, size_t n)
{
    size_t size;
    char *whole = bytes_of(&x->s, &size);
    file_patch(&x->s, at, bytes, n);
    damaged[i] = true;
    with_every_view(x, x->s.store, 3, ask_damaged);
    file_patch(&x->s, at, whole + at, n);
    damaged[i] = false;
    with_every_view(x, x->s.store, 9, ask_damaged);
    free(whole);
}

/* Is the newest record the last one, with no index record after it? */
static bool ends_in_the_tail(const twinned *x)
{
    size_t size, *offsets = offsets_of(x), at = offsets[x->t.count - 1];
    unsigned char *bytes = (unsigned char *)bytes_of(&x->s, &size);
    at += file_padded(file_get32(bytes + at));
    bool ends = at + 4 > size || file_get32(bytes + at) == 0;
    free(offsets);
    free(bytes);
    return ends;
}

/* A record that was verified is longer than its segment later, or than the file; one in
 * the tail has another header. */
static void records_that_change_while_the_log_is_open_are_skipped(void **state)
{
    static const unsigned char longer[] = {0x00, 0x28, 0, 0}, longest[] = {0, 0, 0, 0x0f};
    twinned x = small_log(state);
    memset(damaged, 0, sizeof damaged);
    append_small(&x, 220);
    do append_small(&x, 1);
    while (!ms_str_equal(x.t.items[x.t.count - 1]->field[MS_F_LOCATION].text,
                         ms_str_of(jobs[0])) ||
           !ends_in_the_tail(&x));
    with_every_view(&x, x.s.store, 1, ask_damaged);
    size_t *offsets = offsets_of(&x), newest = x.t.count - 1;
    for (size_t i = newest - 69; i < newest - 59; i++) {
        answers_without(&x, i, offsets[i], longer, sizeof longer);
        answers_without(&x, i, offsets[i], longest, sizeof longest);
    }
    for (size_t at = 0; at < 24; at += 5)
        answers_without(&x, newest, offsets[newest] + at, "\x5b", 1);
    free(offsets);
    twinned_close(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_EACH_ENGINE(the_newest_n_of_every_view_are_found_at_every_size),
        ON_LOGS(cursors_stand_still_while_segments_are_sealed),
        ON_LOGS(a_location_that_went_cold_is_found),
        WITH_EACH_ENGINE(damaged_records_are_skipped_and_counted),
        WITH_EACH_ENGINE(records_that_change_while_the_log_is_open_are_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
