/* Several stores as one: what a union answers is compared with the answers of its stores
 * in a row, sorted where order is by time. Histories that a union gives are compared in
 * test_memory.
 */

#define _GNU_SOURCE
#include "script.h"
#include "own_store.h"
#include "arena.h"

#include <pthread.h>

enum { STORES_MAX = 6, RECORDS_MAX = 1024 };

#define NUMBER(which, own) ((uint64_t)(which) << 40 | (own))


/* ---- stores, their messages and changes ---- */

enum { TIMES_RISE = 1, TIMES_ALL = 2 };      /* of the messages of one store */

typedef struct family {
    test_store s[STORES_MAX]; /* that are written */
    ms_store *stores[STORES_MAX]; /* that are read: these, or readers of logs */
    size_t n;
    ms_stream stream;         /* that is open in one of them, or none */
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

/* A random message into a random store; times: TIMES_*. */
static void family_grow(family *f, uint64_t *rng, unsigned times)
{
    ms_envelope m = random_message(rng);
    if (times & TIMES_ALL) m.has_time = true;
    if (times & TIMES_RISE) {
        f->clock += (int64_t)test_below(rng, 3) * SECONDS(0.5);
        if (m.has_time) m.time_ns = f->clock;
    }
    must_append(f->s[test_below(rng, f->n)].store, no_str(), &m);
}

/* A random change of a random message; what a store cannot do, it does not. */
static void family_change(family *f, uint64_t *rng, bool redact)
{
    ms_store *store = f->s[test_below(rng, f->n)].store;
    ms_str place = random_location(rng);
    ms_envelope m = message_of(MS_T_TASK, MS_STR("amended"));
    const ms_msg *msg;
    uint64_t seq = 1 + test_below(rng, stat_of(store).last_seq + 1);
    switch (test_below(rng, 8)) {
    case 0: ms_hide(store, seq, NULL); break;
    case 1:
        if (ms_get_by_seq(store, seq, &arena, &msg, NULL) != MS_OK) break;
        m = message_of(ms_type_of(msg), MS_STR("amended"));
        m.has_time = test_one_in(rng, 2);
        m.time_ns = random_time(rng);
        ms_amend(store, seq, &m, NULL);
        break;
    case 2: ms_note(store, seq, MS_STR("rating"), ms_json(MS_STR("5")), NULL); break;
    case 3:
        ms_location_set(store, place,
                        test_one_in(rng, 2) ? MS_STR("{\"title\":\"t\",\"a\":1}")
                                            : MS_STR("{\"a\":[2,3],\"cwd\":\"/x\"}"),
                        NULL);
        break;
    case 4:
        if (test_one_in(rng, 3)) ms_rewind(store, place, seq, NULL, NULL);
        break;
    case 5:
        if (redact) ms_redact(store, seq, NULL);
        break;
    case 6:
        m = ms_assistant_message(ms_text("began"));
        m.agent_key = asked_agent(rng);
        if (f->stream.store != NULL) ms_stream_end(&f->stream, NULL, NULL, NULL);
        ms_stream_begin(&f->stream, store, place, &m, NULL, NULL);
        break;
    default:
        if (f->stream.store == NULL) break;
        ms_stream_feed(&f->stream, MS_STR(", went on"), NULL);
        test_stream_flush(&f->stream, NULL);
    }
}

static void family_open(family *f, uint64_t *rng, size_t messages, size_t changes)
{
    store_options options;
    unsigned times = (unsigned)test_below(rng, 4);
    memset(f, 0, sizeof *f);
    memset(&options, 0, sizeof options);
    options.keep_unset_times = true;
    f->n = 1 + (size_t)test_below(rng, STORES_MAX);
    for (size_t i = 0; i < f->n; i++) {
        f->s[i] = store_open(store_kind_at((size_t)test_below(rng, STORE_KINDS)),
                             &options);
        bool reads = f->s[i].kind->log && test_one_in(rng, 2);
        f->stores[i] = reads ? log_reader(&f->s[i]) : f->s[i].store;
    }
    for (size_t i = 0; i < messages; i++) family_grow(f, rng, times);
    for (size_t i = 0; i < changes; i++) family_change(f, rng, true);
    f->u = union_of(f->stores, f->n);
}

static void family_close(family *f)
{
    ms_close(f->u);
    for (size_t i = 0; i < f->n; i++) {
        if (f->stores[i] != f->s[i].store) ms_close(f->stores[i]);
        store_close(&f->s[i]);
    }
    ms_arena_reset(&arena);
}


/* ---- records, copied as a cursor returns them ---- */

typedef struct record {
    const ms_msg *msg;
    uint64_t seq;             /* that it has in the union; 0: it has none */
    int64_t key;              /* sorts it by time */
} record;

typedef struct records {
    record items[RECORDS_MAX];
    size_t n;
} records;

/* Adds what a cursor returns, of store `which` or of the union itself (0). */
static void records_read(records *r, ms_cursor *it, uint64_t which)
{
    for (const ms_msg *msg; (msg = query_next(it)) != NULL;) {
        assert_true(r->n < RECORDS_MAX);
        void *copy = ms_arena_alloc(&arena, ms_size(msg));
        memcpy(copy, msg, ms_size(msg));
        record one = {(const ms_msg *)copy, ms_seq(msg), MS_TIME_NONE};
        if (one.seq != 0) one.seq |= which << 40;
        r->items[r->n++] = one;
    }
}

static void records_add(records *r, ms_store *store, const ms_query *q, uint64_t which)
{
    ms_cursor it;
    ms_error err;
    must_ok(ms_query_open(store, q, &it, &err), &err, "query");
    records_read(r, &it, which);
}

/* All that a store shows, with texts so far. */
static void records_of(records *r, ms_store *store)
{
    ms_query q = query_of(no_str(), MS_VIEW_TIMELINE);
    q.arena = &arena;
    r->n = 0;
    records_add(r, store, &q, 0);
}

/* The same record: all but the number and the check of the header is compared. */
static void must_be_record(const record *want, const ms_msg *got)
{
    const char *a = (const char *)want->msg, *b = (const char *)got;
    assert_int_equal(ms_seq(got), want->seq);
    assert_int_equal(ms_kind_of(got), ms_kind_of(want->msg));
    assert_int_equal(ms_size(got), ms_size(want->msg));
    assert_memory_equal(a, b, 8);
    assert_memory_equal(a + 16, b + 16, 12);
    assert_memory_equal(a + 32, b + 32, ms_size(got) - 32);
}

static void must_be_records(const records *want, const records *got)
{
    if (got->n != want->n) fail_msg("%zu records, should be %zu", got->n, want->n);
    for (size_t i = 0; i < want->n; i++)
        must_be_record(&want->items[i], got->items[i].msg);
}

/* Each message is sound by itself, as a union returns it. */
static void must_be_sound(const records *r)
{
    const ms_msg *again;
    ms_error err;
    for (size_t i = 0; i < r->n; i++) {
        const ms_msg *msg = r->items[i].msg;
        if (ms_kind_of(msg) == MS_KIND_MESSAGE)
            must_ok(ms_decode(msg, ms_size(msg), &again, &err), &err, "decode");
    }
}


/* ---- queries ---- */

/* The query as it is for store `which`: a number is that of one store, so that others
 * pass it or have nothing. False: nothing in that store is asked for. */
static bool part_of(const ms_query *q, uint64_t which, ms_query *part)
{
    *part = *q;
    part->limit = 0;
    part->oldest = part->reverse = part->by_time = false;
    part->after_seq = part->before_seq = 0;
    part->about_seq = MS_UNION_SEQ(q->about_seq);
    if (which == MS_UNION_STORE(q->after_seq))
        part->after_seq = MS_UNION_SEQ(q->after_seq);
    if (which == MS_UNION_STORE(q->before_seq))
        part->before_seq = MS_UNION_SEQ(q->before_seq);
    if (q->about_seq != 0 && which != MS_UNION_STORE(q->about_seq)) return false;
    if (which < MS_UNION_STORE(q->after_seq)) return false;
    return q->before_seq == 0 || which < MS_UNION_STORE(q->before_seq) ||
           part->before_seq != 0;
}

/* A message without time takes that of the one before it in its store. */
static void records_sort(records *r, bool untimed_first)
{
    int64_t last = MS_TIME_NONE, time;
    for (size_t i = 0; i < r->n; i++) {
        record *e = r->items + i;
        if (i == 0 || MS_UNION_STORE(e->seq) != MS_UNION_STORE(e[-1].seq))
            last = MS_TIME_NONE;
        e->key = untimed_first ? MS_TIME_NONE : last;
        if (ms_time(e->msg, &time)) e->key = last = time;
    }
    for (size_t i = 1; i < r->n; i++) {
        record hold = r->items[i];
        size_t k = i;
        for (; k > 0 && r->items[k - 1].key > hold.key; k--)
            r->items[k] = r->items[k - 1];
        r->items[k] = hold;
    }
}

/* What the stores answer, as the union should. */
static void expected(records *out, const family *f, const ms_query *q)
{
    static records all;
    ms_query part;
    all.n = 0;
    for (uint64_t which = 0; which < f->n; which++)
        if (part_of(q, which, &part)) records_add(&all, f->stores[which], &part, which);
    if (q->by_time) records_sort(&all, q->untimed_first);
    out->n = q->limit != 0 && q->limit < all.n ? q->limit : all.n;
    size_t from = q->oldest ? 0 : all.n - out->n;
    for (size_t i = 0; i < out->n; i++)
        out->items[i] = all.items[q->reverse ? from + out->n - 1 - i : from + i];
}

/* A number that bounds something: of a message, beside one, or between two stores. */
static uint64_t random_bound(const family *f, uint64_t *rng)
{
    uint64_t which = test_below(rng, f->n);
    if (test_one_in(rng, 4)) return NUMBER(test_below(rng, f->n + 1), test_below(rng, 3));
    return NUMBER(which, test_below(rng, stat_of(f->stores[which]).last_seq + 2));
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

/* Records of some kinds, perhaps about one message. */
static ms_query raw_query(const family *f, uint64_t *rng)
{
    ms_query q = query_of(random_location(rng), MS_VIEW_TIMELINE);
    q.raw = 1 + (unsigned)test_below(rng, MS_RAW_ALL);
    q.reverse = test_one_in(rng, 3);
    q.oldest = test_one_in(rng, 2);
    if (test_one_in(rng, 2)) q.limit = 1 + (size_t)test_below(rng, 20);
    if (test_one_in(rng, 3)) q.location = no_str();
    else if (test_one_in(rng, 2))
        q.about_seq = NUMBER(test_below(rng, f->n), 1 + test_below(rng, 20));
    return q;
}

/* Limits, orders and bounds, of messages and of records of every kind. */
static void a_query_equals_those_of_its_stores_in_a_row(void **state)
{
    static records want, got;
    uint64_t rng = test_seed();
    ms_str team[TEAM_MAX];
    family f;
    (void)state;
    for (size_t round = test_times(120); round > 0; round--) {
        family_open(&f, &rng, (size_t)test_below(&rng, 80), round % 2 * 60);
        for (int i = 0; i < 60; i++) {
            ms_query q = test_one_in(&rng, 4) ? raw_query(&f, &rng)
                                              : union_query(&f, &rng, team);
            got.n = 0;
            expected(&want, &f, &q);
            records_add(&got, f.u, &q, 0);
            must_be_records(&want, &got);
            must_be_sound(&got);
            if (test_one_in(&rng, 4)) family_grow(&f, &rng, 0);
        }
        family_close(&f);
    }
}

/* Changes, parts of streams and messages after the opening are not seen; what is redacted
 * is. */
static void cursors_stay_as_of_their_opening(void **state)
{
    static records early, late;
    uint64_t rng = test_seed() + 13;
    ms_str team[TEAM_MAX];
    (void)state;
    for (size_t round = test_times(60); round > 0; round--) {
        family f;
        ms_cursor it[2];
        family_open(&f, &rng, (size_t)test_below(&rng, 60), 30);
        for (int i = 0; i < 10; i++) {
            ms_query q = union_query(&f, &rng, team);
            for (int k = 0; k < 2; k++)
                assert_int_equal(ms_query_open(f.u, &q, &it[k], NULL), MS_OK);
            early.n = late.n = 0;
            records_read(&early, &it[0], 0);
            for (int k = 0; k < 10; k++) family_change(&f, &rng, false);
            for (int k = 0; k < 10; k++) family_grow(&f, &rng, 0);
            records_read(&late, &it[1], 0);
            must_be_records(&early, &late);
            must_be_sound(&late);
        }
        family_close(&f);
    }
}


/* ---- one message, totals ---- */

static void every_message_is_found_by_number(void **state)
{
    static records all;
    uint64_t rng = test_seed() + 2;
    const uint64_t none[] = {0, NUMBER(0, 199), NUMBER(1, 0), NUMBER(STORES_MAX, 1),
                             UINT64_MAX};
    const ms_msg *msg;
    family f;
    (void)state;
    for (size_t round = test_times(6); round > 0; round--) {
        family_open(&f, &rng, 60, round % 2 * 30);
        records_of(&all, f.u);
        for (size_t i = 0; i < all.n; i++) {
            uint64_t seq = all.items[i].seq;
            assert_int_equal(ms_get_by_seq(f.u, seq, &arena, &msg, NULL), MS_OK);
            must_be_record(&all.items[i], msg);
            assert_int_equal(ms_get_by_seq(f.u, seq, NULL, &msg, NULL), MS_E_ARENA);
        }
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
    family f;
    (void)state;
    for (size_t round = test_times(10); round > 0; round--) {
        ms_stat sum;
        memset(&sum, 0, sizeof sum);
        family_open(&f, &rng, (size_t)test_below(&rng, 60), round % 2 * 30);
        for (size_t i = 0; i < f.n; i++) {
            ms_stat one = stat_of(f.stores[i]);
            sum.messages += one.messages;
            sum.bytes += one.bytes;
            if (one.last_seq != 0) sum.last_seq = NUMBER(i, one.last_seq);
        }
        ms_stat stat = stat_of(f.u);
        assert_int_equal(stat.messages, sum.messages);
        assert_int_equal(stat.bytes, sum.bytes);
        assert_int_equal(stat.last_seq, sum.last_seq);
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

/* Adds the listing of one store; the last message of a name is that of the last store. */
static size_t add_infos(ms_info *out, size_t n, const ms_listing *more, uint64_t which)
{
    for (size_t i = 0; i < more->count; i++) {
        const ms_info *info = &more->items[i];
        size_t at = 0;
        while (at < n && (!ms_str_equal(out[at].location, info->location) ||
                          !ms_str_equal(out[at].agent_key, info->agent_key)))
            at++;
        uint64_t before = at < n ? out[at].messages : 0;
        out[at] = *info;
        out[at].messages += before;
        out[at].last_seq |= which << 40;
        if (at == n) n++;
    }
    return n;
}

/* The latest first. */
static int by_activity(const void *a, const void *b)
{
    const ms_info *x = (const ms_info *)a, *y = (const ms_info *)b;
    if (x->last_time_ns != y->last_time_ns)
        return x->last_time_ns < y->last_time_ns ? 1 : -1;
    return (x->last_seq < y->last_seq) - (x->last_seq > y->last_seq);
}

static void must_list_by_time(const family *f, const ms_list_query *q)
{
    ms_info want[400];
    ms_list_query all = *q;
    ms_listing got;
    size_t n = 0;
    all.limit = 0;
    for (uint64_t i = 0; i < f->n; i++) {
        assert_int_equal(ms_list(f->stores[i], &all, &arena, &got, NULL), MS_OK);
        n = add_infos(want, n, &got, i);
    }
    qsort(want, n, sizeof want[0], by_activity);
    if (q->limit != 0 && q->limit < n) n = q->limit;
    assert_int_equal(ms_list(f->u, q, &arena, &got, NULL), MS_OK);
    assert_int_equal(got.count, n);
    for (size_t i = 0; i < n; i++) {
        assert_true(ms_str_equal(got.items[i].location, want[i].location));
        assert_true(ms_str_equal(got.items[i].agent_key, want[i].agent_key));
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
        family_open(&f, &rng, (size_t)test_below(&rng, 90), round % 2 * 30);
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

/* ---- copies ---- */

static ms_copy_report must_copy(ms_store *to, ms_store *from, const ms_keep *keep)
{
    ms_copy_report report;
    ms_error err;
    must_ok(ms_copy(to, from, keep, NULL, &report, &err), &err, "copy");
    must_ok(ms_selfcheck(to, &err), &err, "selfcheck");
    return report;
}

static void must_have_facts_of(ms_store *to, ms_store *from)
{
    const ms_str names[] = {MS_STR("job_1"), MS_STR("job_2"), MS_STR("job_10"),
                            MS_STR("a/b"), MS_STR("\xe6\x97\xa5\xe6\x9c\xac")};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        ms_str a, b;
        assert_int_equal(ms_location_get(from, names[i], &arena, &a, NULL), MS_OK);
        assert_int_equal(ms_location_get(to, names[i], &arena, &b, NULL), MS_OK);
        if (!ms_str_equal(a, b))
            fail_msg("facts: %.*s, %.*s", (int)a.len, a.ptr, (int)b.len, b.ptr);
    }
}

/* A copy has texts, notes and facts, under the union's numbers; what is left out of it is
 * what is left out of a copy of that copy. */
static void a_copy_is_that_of_one_store(void **state)
{
    static records want, got;
    uint64_t rng = test_seed() + 7;
    ms_str only[] = {MS_STR("job_1"), MS_STR("a/b")};
    family f;
    (void)state;
    for (size_t round = test_times(24); round > 0; round--) {
        ms_keep keep;
        test_store s[3];
        for (size_t i = 0; i < 3; i++) s[i] = store_open(store_kind_at(round), NULL);
        family_open(&f, &rng, 80, round % 2 * 60);
        memset(&keep, 0, sizeof keep);
        if (test_one_in(&rng, 3)) keep.newest = 1 + (size_t)test_below(&rng, 5);
        if (test_one_in(&rng, 3)) keep.n_locations = 2;
        if (keep.n_locations != 0) keep.locations = only;
        keep.has_since = test_one_in(&rng, 3);
        keep.since_ns = SECONDS(3);
        must_copy(s[0].store, f.u, NULL);
        store_reopen(&s[0]);
        records_of(&want, f.u);
        records_of(&got, s[0].store);
        assert_int_equal(got.n, want.n);
        for (size_t i = 0; i < got.n; i++) {
            ms_value a = ms_content(want.items[i].msg), b = ms_content(got.items[i].msg);
            assert_int_equal(got.items[i].seq, want.items[i].seq);
            assert_true(a.json == b.json && ms_str_equal(a.text, b.text));
        }
        must_have_facts_of(s[0].store, f.u);
        ms_copy_report one = must_copy(s[1].store, f.u, &keep);
        ms_copy_report two = must_copy(s[2].store, s[0].store, &keep);
        assert_int_equal(one.copied, two.copied);
        records_of(&want, s[2].store);
        records_of(&got, s[1].store);
        must_be_records(&want, &got);
        for (size_t i = 0; i < 3; i++) store_close(&s[i]);
        family_close(&f);
    }
}

static void a_union_is_rewritten_into_one_log(void **state)
{
    static records want, got;
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
    records_of(&want, f.u);
    records_of(&got, log);
    must_be_records(&want, &got);
    assert_int_equal(ms_selfcheck(log, NULL), MS_OK);
    uint64_t next = append_text(log, "goes on after that");
    assert_int_equal(next, stat_of(f.u).last_seq + 1);
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

static void a_union_of_no_stores_is_empty(void **state)
{
    ms_store *u = union_of(NULL, 0);
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
    uint64_t seq;
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
    close_mixed(m);
}

/* A record that is damaged costs itself. */
static void damage_is_counted_in_every_order(void **state)
{
    (void)state;
    for (unsigned way = 0; way < 8; way++) {
        mixed *m = open_mixed();
        ms_query q = ordered(way, 8);
        ms_cursor it;
        size_t n = 0;
        m->own.damaged_each = 7;
        assert_int_equal(ms_query_open(m->u, &q, &it, NULL), MS_OK);
        while (ms_next(&it) != NULL) n++;
        assert_int_equal(n, way & 4 ? 8 : 19);
        assert_true(it.damaged == 1);
        assert_int_equal(ms_cursor_close(&it, NULL), MS_E_DAMAGED);
        close_mixed(m);
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


/* ---- many stores, other threads ---- */

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

#define T(test) cmocka_unit_test_setup(test, reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_query_equals_those_of_its_stores_in_a_row),
        T(cursors_stay_as_of_their_opening),
        T(every_message_is_found_by_number),
        T(totals_are_sums),
        T(a_listing_adds_up_the_stores),
        T(a_copy_is_that_of_one_store),
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
        T(a_lookup_sees_changes),
        T(eight_thousand_stores),
        T(threads_read_while_others_append),
    };
    return cmocka_run_group_tests(tests, NULL, release);
}
