/* Cursors of logs that run ahead of what they give: the newest and the oldest n of every
 * view, both directions, over logs of tiny segments whose messages lie in leaves, in the
 * tail, and in both; with records damaged in between, with appends while the cursor is
 * open, and closed early. A naive twin says what comes, and how much damage was met. */
#define _GNU_SOURCE
#include "stores.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum { ROWS = 2000, LIMITS = 60, JOBS = 3, AGENTS = 4, SEGMENT = 4096 };


/* ---- the log, and the array of what was appended to it ---- */

typedef struct row {
    uint64_t seq;
    unsigned job, agent, number;
    ms_type type;
    size_t content; /* bytes */
    bool damaged;
} row;

typedef struct diary {
    test_store s;
    ms_store *reader; /* another handle, or NULL */
    uint64_t rng;
    size_t n;
    row rows[ROWS];
} diary;

static const char *const jobs[JOBS] = {"job", "job of another name", "third"};
static const char *const agents[AGENTS] = {NULL, "worker_1", "worker_2", "a reviewer"};

static void damage_is_told(void *ctx, const ms_log_event *event)
{
    (void)event;
    ++*(size_t *)ctx;
}

static diary *diary_open(ms_log_engine engine)
{
    diary *d = (diary *)calloc(1, sizeof *d);
    if (d == NULL) abort();
    d->rng = test_seed();
    d->s = log_at(SEGMENT, engine);
    log_open(&d->s);
    return d;
}

static void diary_close(diary *d)
{
    ms_close(d->reader);
    store_close(&d->s);
    free(d);
}

/* The content of a message: its number, between marks that occur nowhere else. */
static size_t content_of(const row *r, char *out, size_t size)
{
    int n = snprintf(out, size, "<#%06u#>", r->number);
    memset(out + n, '.', size - (size_t)n);
    return r->content;
}

/* Most are of the first location. */
static void append_one(diary *d)
{
    static const ms_type types[] = {MS_T_USER_MESSAGE, MS_T_ASSISTANT_MESSAGE,
                                    MS_T_OBSERVATION,  MS_T_GLOBAL_OBSERVATION,
                                    MS_T_FINAL,        MS_T_TEXT};
    char text[1200];
    row *r = &d->rows[d->n];
    if (d->n == ROWS) abort();
    r->number = (unsigned)d->n++;
    r->job = test_one_in(&d->rng, 3) ? (unsigned)test_below(&d->rng, JOBS) : 0;
    r->agent = (unsigned)test_below(&d->rng, AGENTS);
    r->type = types[test_below(&d->rng, COUNT(types))];
    r->content = 10 + (size_t)test_below(&d->rng, test_one_in(&d->rng, 20) ? 1000 : 60);
    size_t len = content_of(r, text, sizeof text);
    ms_envelope m = message_of(r->type, ms_str_n(text, len));
    m.agent_key = ms_str_of(agents[r->agent]);
    if (agents[r->agent] == NULL) m.agent_key = no_str();
    r->seq = must_append(d->s.store, ms_str_of(jobs[r->job]), &m);
}

static void append_some(diary *d, size_t n)
{
    while (n-- > 0) append_one(d);
}


/* ---- questions ---- */

typedef struct view {
    unsigned views;
    bool everywhere;      /* all locations */
    size_t team;          /* of so many agents */
} view;

static const view asked[] = {
    {0, true, 0},
    {MS_VIEW_TIMELINE, false, 0},
    {MS_VIEW_CONVERSATION, false, 0},
    {MS_VIEW_GLOBAL, false, 0},
    {MS_VIEW_AGENT, false, 0},
    {MS_VIEW_TEAM, false, 2},
    {MS_VIEW_CONVERSATION | MS_VIEW_GLOBAL, false, 0},
    {MS_VIEW_CONVERSATION | MS_VIEW_AGENT, false, 0},
};

typedef struct question {
    const view *v;
    ms_query q;
    ms_str team[2];
    unsigned job, agent;
} question;

static void ask(question *a, const view *v, unsigned job, unsigned agent)
{
    memset(a, 0, sizeof *a);
    a->v = v;
    a->job = job;
    a->agent = agent;
    a->q = query_of(v->everywhere ? no_str() : ms_str_of(jobs[job]), v->views);
    a->team[0] = a->q.agent_key = ms_str_of(agents[agent]);
    a->team[1] = ms_str_of(agents[agent % (AGENTS - 1) + 1]);
    a->q.agent_keys = a->team;
    a->q.n_agent_keys = v->team;
}

static bool is_asked(const question *a, const row *r)
{
    unsigned views = a->v->views, other = a->agent % (AGENTS - 1) + 1;
    ms_type_set type = MS_BIT(r->type);
    if (r->seq <= a->q.after_seq) return false;
    if (a->q.before_seq != 0 && r->seq >= a->q.before_seq) return false;
    if (a->v->everywhere) return true;
    if (r->job != a->job) return false;
    if (views & MS_VIEW_TIMELINE) return true;
    if ((views & MS_VIEW_CONVERSATION) && (type & MS_TYPES_CONVERSATION)) return true;
    if ((views & MS_VIEW_GLOBAL) && (type & MS_TYPES_GLOBAL)) return true;
    if ((views & MS_VIEW_AGENT) && r->agent == a->agent && (type & MS_TYPES_AGENT))
        return true;
    return (views & MS_VIEW_TEAM) && (r->agent == a->agent || r->agent == other);
}

/* The streams of the log that a row is read from for a question, by bits. */
static unsigned streams_of(const question *a, const row *r)
{
    unsigned views = a->v->views, agent = 4u << 2 * r->agent, streams = 0;
    bool trace = (MS_BIT(r->type) & MS_TYPES_AGENT) != 0;
    if (!is_asked(a, r)) return 0;
    if (views == 0 || (views & MS_VIEW_TIMELINE)) return 1;
    if ((views & MS_VIEW_CONVERSATION) && (MS_BIT(r->type) & MS_TYPES_CONVERSATION))
        streams |= 1;
    if ((views & MS_VIEW_GLOBAL) && (MS_BIT(r->type) & MS_TYPES_GLOBAL)) streams |= 2;
    if ((views & MS_VIEW_AGENT) && r->agent == a->agent && trace) streams |= agent;
    if (views & MS_VIEW_TEAM) streams |= trace ? agent : 2 * agent;
    return streams;
}

/* What a cursor has to give, as it stood at its opening. The newest few, oldest first, are
 * found and checked there (kept). More of one posting list (plain) are n records, whole or
 * not. */
typedef struct answer {
    const row *entries[ROWS];
    size_t n, at, lo, hi, left;
    bool back, plain, kept;
    uint64_t damaged;
} answer;

/* The entry next to `at` in a direction, NULL at the end. */
static const row *answer_step(answer *w, bool back)
{
    if (back ? w->at <= w->lo : w->at >= w->hi) return NULL;
    return w->entries[back ? --w->at : w->at++];
}

/* Goes over `n` whole ones. */
static void answer_walk(answer *w, bool back, size_t n)
{
    w->at = back ? w->hi : w->lo;
    for (const row *r; n > 0 && (r = answer_step(w, back)) != NULL;)
        if (!r->damaged) n--;
}

static void answer_make(const diary *d, const question *a, answer *w)
{
    const ms_query *q = &a->q;
    unsigned streams = 0;
    w->n = w->lo = 0;
    w->damaged = 0;
    for (size_t i = 0; i < d->n; i++) {
        if (is_asked(a, &d->rows[i])) w->entries[w->n++] = &d->rows[i];
        streams |= streams_of(a, &d->rows[i]);
    }
    w->plain = !a->v->everywhere && (streams == 0 || (streams & (streams - 1)) == 0);
    w->kept = q->limit != 0 && q->limit <= MS__KEPT && !q->oldest && !q->reverse;
    w->hi = w->n;
    w->back = q->reverse;
    w->left = q->limit != 0 ? q->limit : SIZE_MAX;
    w->at = q->reverse ? w->n : 0;
    if (q->limit == 0 || q->oldest != q->reverse) return; /* it begins where it counts */
    if (w->kept) return;
    if (w->plain && !q->oldest) w->at = w->n - (q->limit < w->n ? q->limit : w->n);
    else answer_walk(w, !q->oldest, q->limit);
}

/* The newest few: all damage among them is counted at the opening. */
static void answer_keep(const question *a, answer *w)
{
    size_t n = 0;
    answer_walk(w, true, a->q.limit);
    for (size_t i = w->at; i < w->hi; i++) {
        if (w->entries[i]->damaged) w->damaged++;
        else w->entries[n++] = w->entries[i];
    }
    w->at = w->lo = 0;
    w->hi = n;
}

static const row *answer_next(answer *w)
{
    const row *r;
    while (w->left > 0 && (r = answer_step(w, w->back)) != NULL) {
        if (w->kept || !r->damaged) {
            w->left--;
            return r;
        }
        w->damaged++;
    }
    return NULL;
}

static void other_answer(const question *a, const char *what)
{
    fail_msg("%s: views %u, limit %zu%s%s, after %llu, before %llu", what, a->v->views,
             a->q.limit, a->q.oldest ? ", oldest" : "", a->q.reverse ? ", reverse" : "",
             (unsigned long long)a->q.after_seq, (unsigned long long)a->q.before_seq);
}

/* One step of both; false at the end. */
static bool same_step(const question *a, answer *w, ms_cursor *it)
{
    char text[1200];
    const row *want = answer_next(w);
    const ms_msg *msg = ms_next(it);
    if (it->damaged != w->damaged) other_answer(a, "other damage");
    if (msg == NULL && want != NULL) other_answer(a, "a message is missing");
    if (msg != NULL && want == NULL) other_answer(a, "a message too much");
    if (msg == NULL) return false;
    size_t len = content_of(want, text, sizeof text);
    ms_str said = ms_get(msg, want->type == MS_T_ACTION ? MS_F_TOOL : MS_F_CONTENT).text;
    if (ms_seq(msg) != want->seq || !ms_str_equal(said, ms_str_n(text, len)))
        other_answer(a, "another message");
    return true;
}

static void same_end(const question *a, const answer *w, ms_cursor *it)
{
    ms_result want = w->damaged != 0 ? MS_E_DAMAGED : MS_OK;
    if (ms_cursor_close(it, NULL) != want) other_answer(a, "another result");
}

static void must_open(ms_store *store, const question *a, ms_cursor *it)
{
    ms_error err;
    if (ms_query_open(store, &a->q, it, &err) != MS_OK)
        fail_msg("query: %s", err.message);
}

/* Reads at most so many, then closes. */
static void same_answer(diary *d, ms_store *store, const question *a, size_t most)
{
    static answer w;
    ms_cursor it;
    answer_make(d, a, &w);
    if (w.kept) answer_keep(a, &w);
    must_open(store, a, &it);
    while (most-- > 0 && same_step(a, &w, &it)) continue;
    same_end(a, &w, &it);
}

/* Every view and direction, and every limit; every `stride`th. */
static void same_answers(diary *d, ms_store *store, size_t stride)
{
    question a;
    for (size_t v = 0; v < COUNT(asked); v++)
        for (unsigned how = 0; how < 4; how++)
            for (size_t limit = (v + how) % stride; limit <= LIMITS; limit += stride) {
                ask(&a, &asked[v], 0, 1 + (unsigned)limit % (AGENTS - 1));
                a.q.limit = limit;
                a.q.reverse = how & 1;
                a.q.oldest = (how & 2) != 0;
                same_answer(d, store, &a, SIZE_MAX);
            }
}

static void ask_anything(diary *d, question *a, bool bounds)
{
    ask(a, &asked[test_below(&d->rng, COUNT(asked))], (unsigned)test_below(&d->rng, JOBS),
        1 + (unsigned)test_below(&d->rng, AGENTS - 1));
    a->q.limit = (size_t)test_below(&d->rng, LIMITS);
    if (test_one_in(&d->rng, 5)) a->q.limit = 0;
    a->q.reverse = test_one_in(&d->rng, 2);
    a->q.oldest = test_one_in(&d->rng, 3);
    if (!bounds) return;
    if (test_one_in(&d->rng, 3)) a->q.after_seq = test_below(&d->rng, d->n + 2);
    if (test_one_in(&d->rng, 3)) a->q.before_seq = test_below(&d->rng, d->n + 3);
}


/* ---- tests; their state is the engine ---- */

static ms_log_engine engines[] = {MS_ENGINE_MAP, MS_ENGINE_WRITE};

static void one_message_more(diary *d, bool dense)
{
    question a;
    append_one(d);
    if (dense) same_answers(d, d->s.store, 1);
    for (int i = 0; i < 6; i++) {
        ask_anything(d, &a, true);
        same_answer(d, d->s.store, &a, SIZE_MAX);
    }
    if (d->n % 40 != 0) return;
    if (test_refresh(d->reader, NULL, NULL) != MS_OK) fail_msg("refresh");
    same_answers(d, d->reader, 7);
}

/* From the empty log on: every number of messages in leaves and in the tail. */
static void the_newest_n_of_every_view(void **state)
{
    diary *d = diary_open(*(const ms_log_engine *)*state);
    d->reader = log_reader(&d->s);
    same_answers(d, d->s.store, 1);
    for (size_t i = 0; i < 330; i++) one_message_more(d, i % 37 == 0);
    diary_close(d);
}

/* A cursor is opened, read so far, and more is appended: it goes on as it began. */
static void appends_while_a_cursor_is_open(void **state)
{
    static answer w;
    diary *d = diary_open(*(const ms_log_engine *)*state);
    question a;
    ms_cursor it;
    for (size_t round = 0; round < 120; round++) {
        size_t before = (size_t)test_below(&d->rng, LIMITS);
        bool more = true;
        ask_anything(d, &a, true);
        answer_make(d, &a, &w);
        if (w.kept) answer_keep(&a, &w);
        must_open(d->s.store, &a, &it);
        while (more && before-- > 0) more = same_step(&a, &w, &it);
        if (round % 2 == 0) append_some(d, (size_t)test_below(&d->rng, 30));
        while (more && (more = same_step(&a, &w, &it)))
            if (test_one_in(&d->rng, 12) && d->n + 40 < ROWS) append_one(d);
        same_end(&a, &w, &it);
    }
    assert_true(d->n > 400);
    diary_close(d);
}

static void cursors_closed_in_the_middle(void **state)
{
    diary *d = diary_open(*(const ms_log_engine *)*state);
    question a;
    append_some(d, 300);
    for (size_t i = 0; i < 3000; i++) {
        ask_anything(d, &a, true);
        same_answer(d, d->s.store, &a, (size_t)test_below(&d->rng, 24));
    }
    diary_close(d);
}


/* ---- damage ---- */

/* Where the record of a row begins in the file. */
static size_t record_of(const diary *d, const row *r, const char *bytes, size_t size)
{
    char mark[16];
    ms_str job = ms_str_of(jobs[r->job]);
    size_t fields = d->rows[r->number].agent != 0 ? 3 : 2;
    size_t before = 32 + 1 + 2 * fields + (r->content > 255) + job.len;
    if (fields == 3) before += strlen(agents[r->agent]);
    int len = snprintf(mark, sizeof mark, "<#%06u#>", r->number);
    const char *at = (const char *)memmem(bytes, size, mark, (size_t)len);
    if (at == NULL) fail_msg("no record of message %u", r->number);
    assert_int_equal((size_t)(at - bytes - (ptrdiff_t)before) % 8, 0);
    return (size_t)(at - bytes) - before;
}

/* Flips a bit: of the size, the kind, the sequence, the header's check or the content. */
static void row_harm(diary *d, row *r, char *bytes, size_t size)
{
    static const size_t at[] = {0, 4, 9, 29, 40};
    size_t i = record_of(d, r, bytes, size) + at[test_below(&d->rng, COUNT(at))];
    bytes[i] = (char)(bytes[i] ^ 1 << test_below(&d->rng, 8));
    r->damaged = true;
}

/* Closes the log, harms one of `rare` of the messages but the newest ones, which no index
 * knows of, and opens it again. */
static void diary_harm(diary *d, uint64_t rare, size_t *told)
{
    size_t size;
    ms_close(d->s.store);
    char *bytes = read_file(d->s.path, &size);
    assert_non_null(bytes);
    for (size_t i = 0; i + 20 < d->n; i++)
        if (!d->rows[i].damaged && test_one_in(&d->rng, rare))
            row_harm(d, &d->rows[i], bytes, size);
    FILE *file = fopen(d->s.path, "r+b");
    assert_true(file != NULL && fwrite(bytes, 1, size, file) == size);
    assert_int_equal(fclose(file), 0);
    free(bytes);
    d->s.log.mode = MS_LOG_WRITE;
    d->s.log.events.event = damage_is_told;
    d->s.log.events.ctx = told;
    log_open(&d->s);
}

static void damaged_records_are_skipped_and_counted(void **state)
{
    question a;
    for (unsigned round = 0; round < 6; round++) {
        diary *d = diary_open(*(const ms_log_engine *)*state);
        size_t told = 0;
        d->rng += round;
        append_some(d, 60 + 40 * round);
        diary_harm(d, round < 3 ? 20 : 4, &told);
        same_answers(d, d->s.store, 5);
        append_some(d, 10 + 20 * round);
        same_answers(d, d->s.store, 2);
        for (size_t i = 0; i < 300; i++) {
            ask_anything(d, &a, false);
            same_answer(d, d->s.store, &a, (size_t)test_below(&d->rng, 40));
        }
        diary_close(d);
    }
}

/* ---- damage while the log is open: a disk, a cable, another program ---- */

static void file_put(const diary *d, size_t at, const void *bytes, size_t n)
{
    FILE *file = fopen(d->s.path, "r+b");
    assert_true(file != NULL && fseek(file, (long)at, SEEK_SET) == 0);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

/* All answers while the record of a row is harmed, and when it is whole again. */
static void same_answers_without(diary *d, row *r, size_t from, const void *bytes,
                                 size_t n)
{
    size_t size;
    char *file = read_file(d->s.path, &size);
    assert_non_null(file);
    size_t at = record_of(d, r, file, size) + from;
    file_put(d, at, bytes, n);
    r->damaged = true;
    same_answers(d, d->s.store, 3);
    file_put(d, at, file + at, n);
    r->damaged = false;
    same_answers(d, d->s.store, 9);
    free(file);
}

/* Is nothing behind the newest record, no index either? */
static bool ends_in_the_tail(const diary *d)
{
    size_t size, len = 0;
    char *file = read_file(d->s.path, &size);
    assert_non_null(file);
    size_t at = record_of(d, &d->rows[d->n - 1], file, size);
    for (size_t i = 4; i-- > 0;) len = len << 8 | (unsigned char)file[at + i];
    at += (len + 7) / 8 * 8;
    bool ends = at + 4 > size || memcmp(file + at, "\0\0\0", 4) == 0;
    free(file);
    return ends;
}

/* A record that was found whole says later that it is longer than its segment, or than
 * the file; one in the tail has another header. */
static void records_that_change_while_the_log_is_open(void **state)
{
    static const unsigned char longer[] = {0x00, 0x28, 0, 0}, longest[] = {0, 0, 0, 0x0f};
    diary *d = diary_open(*(const ms_log_engine *)*state);
    append_some(d, 220);
    do append_one(d);
    while (d->rows[d->n - 1].job != 0 || !ends_in_the_tail(d));
    same_answers(d, d->s.store, 1);
    for (size_t i = d->n - 70; i < d->n - 60; i++) {
        same_answers_without(d, &d->rows[i], 0, longer, sizeof longer);
        same_answers_without(d, &d->rows[i], 0, longest, sizeof longest);
    }
    row *newest = &d->rows[d->n - 1];
    for (size_t at = 0; at < 24; at += 5)
        same_answers_without(d, newest, at, "\x5b", 1);
    diary_close(d);
}

#define ON(test) {#test " in a mapped log", test, NULL, NULL, &engines[0]}, \
                 {#test " in a written log", test, NULL, NULL, &engines[1]}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON(the_newest_n_of_every_view),
        ON(appends_while_a_cursor_is_open),
        ON(cursors_closed_in_the_middle),
        ON(damaged_records_are_skipped_and_counted),
        ON(records_that_change_while_the_log_is_open),
    };
    return cmocka_run_group_tests_name("cursors that run ahead", tests, NULL, NULL);
}
