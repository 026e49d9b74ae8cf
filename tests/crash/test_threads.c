/* Many threads on one store: writers beside readers, keys and compare-and-append from
 * several sides. On logs readers have handles of their own, too, in threads and in
 * processes. A shared log is written to from two handles and from processes.
 *
 * At MS_TEST_SCALE=100 two rounds of ten writers and one of one writer for each store: 4,000
 * messages in memory, 20,000 in a log. At 1000 seven times as many.
 */

#define _GNU_SOURCE
#include "many_writers.h"

#include <sched.h>

static bool is_shared(const many_writers *c) { return c->at.kind == SHARED_LOG; }

/* Many writers of an open store of that kind. */
static many_writers writers_open(void **state, uint64_t salt, size_t longest)
{
    store_options options;
    many_writers c;
    memset(&options, 0, sizeof options);
    memset(&c, 0, sizeof c);
    options.room = (size_t)8 << 20;
    options.keep_unset_times = true;
    c.s.salt = test_seed() + salt;
    c.s.longest = longest;
    c.at = store_open((store_kind *)*state, &options);
    c.at.log.lock_wait_ms = PATIENCE;
    if (is_shared(&c)) store_reopen(&c.at);
    return c;
}


/* ---- readers: what they do is false when something is wrong ---- */

typedef struct reader {
    const many_writers *c;
    board *b;
    ms_store *store;
    size_t w;                 /* its number in complaints */
    uint64_t rng, checked;    /* messages */
    roll tail;                /* how far reading on has come */
    size_t history;           /* messages of the last one */
} reader;

static bool wrong(reader *r, const char *where, const char *what)
{
    return complain(r->b, r->w, where, what);
}

/* What is acked by now; result: how many messages. */
static uint64_t acked_now(const board *b, uint64_t acked[MOST_WRITERS])
{
    uint64_t sum = 0;
    for (size_t w = 0; w < MOST_WRITERS; w++) sum += acked[w] = acked_by(b, w);
    return sum;
}

static bool has_acked(reader *r, const roll *got, const uint64_t *acked, const char *where)
{
    for (size_t w = 0; w < MOST_WRITERS; w++)
        if (got->last[w] < acked[w]) return wrong(r, where, "a message is late");
    return true;
}

/* Goes on after what it has read: no gap, whole batches, nothing late. */
static bool read_on(reader *r)
{
    uint64_t acked[MOST_WRITERS], before = r->tail.count;
    acked_now(r->b, acked);
    if (!roll_read(&r->tail, &r->c->s, r->store, NULL))
        return wrong(r, "reading on", r->tail.wrong);
    r->checked += r->tail.count - before;
    return has_acked(r, &r->tail, acked, "reading on");
}

static uint64_t total(ms_store *store)
{
    ms_stat stat;
    return ms_store_stat(store, &stat, NULL) == MS_OK ? stat.messages : 0;
}

/* Opens, lets others write on, reads: what came after the opening is not seen. */
static bool read_everything(reader *r)
{
    uint64_t acked[MOST_WRITERS];
    ms_query all = query_of(no_str(), 0);
    ms_cursor it;
    roll got;
    memset(&got, 0, sizeof got);
    acked_now(r->b, acked);
    if (ms_query_open(r->store, &all, &it, NULL) != MS_OK)
        return wrong(r, "everything", "the query failed");
    uint64_t after = total(r->store);
    for (int i = 0; i < 50 && total(r->store) == after && !is_set(&r->b->stop); i++)
        sched_yield();
    if (!roll_drain(&got, &r->c->s, &it, NULL)) return wrong(r, "everything", got.wrong);
    if (got.count > after) return wrong(r, "everything", "the snapshot grew");
    r->checked += got.count;
    return has_acked(r, &got, acked, "everything");
}

/* The newest few: in a row, and the last of them the end of a batch. */
static bool read_newest(reader *r)
{
    uint64_t acked[MOST_WRITERS], sum = acked_now(r->b, acked), newest = 0, number = 0;
    uint64_t before = 0, count = 0;
    ms_query q = query_of(no_str(), 0);
    ms_cursor it;
    const ms_msg *msg;
    const char *fault = NULL;
    q.limit = 1 + (size_t)test_below(&r->rng, 30);
    q.reverse = test_one_in(&r->rng, 3);
    if (ms_query_open(r->store, &q, &it, NULL) != MS_OK)
        return wrong(r, "the newest", "the query failed");
    for (; (msg = ms_next(&it)) != NULL; before = ms_seq(msg), count++) {
        uint64_t n = scribe_number(&r->c->s, msg, &fault), seq = ms_seq(msg);
        if (n == 0) return wrong(r, "the newest", fault);
        if (before != 0 && seq != (q.reverse ? before - 1 : before + 1))
            return wrong(r, "the newest", "not in a row");
        if (seq < newest) continue;
        newest = seq;
        number = n;
    }
    if (ms_cursor_close(&it, NULL) != MS_OK) return wrong(r, "the newest", "the cursor");
    if (newest < sum) return wrong(r, "the newest", "a message is late");
    if (count != (newest < q.limit ? newest : q.limit))
        return wrong(r, "the newest", "too few or too many");
    r->checked += count;
    return newest == 0 || scribe_ends(&r->c->s, number) ||
           wrong(r, "the newest", "a torn batch");
}

/* Is a message of the query's location, or of its team? */
static bool belongs(const ms_query *q, const ms_envelope *m)
{
    if (q->n_agent_keys == 0) return ms_str_equal(m->location, q->location);
    return ms_str_equal(m->location, q->location) &&
           (ms_str_equal(m->agent_key, q->agent_keys[0]) ||
            ms_str_equal(m->agent_key, q->agent_keys[1]));
}

/* The newest of a location, or of a team in it: of each writer nothing that belongs to it
 * is left out between two messages. */
static bool read_part(reader *r)
{
    const ms_str team[] = {MS_STR("worker_1"), MS_STR("worker_3")};
    uint64_t last[MOST_WRITERS];
    char location[16];
    ms_cursor it;
    const ms_msg *msg;
    const char *fault = NULL;
    snprintf(location, sizeof location, "job_%u", (unsigned)test_below(&r->rng, 5));
    ms_query q = query_of(ms_str_of(location), 0);
    q.limit = 1 + (size_t)test_below(&r->rng, 100);
    q.agent_keys = team;
    if (test_one_in(&r->rng, 3)) q.n_agent_keys = 2;
    if (q.n_agent_keys != 0) q.views = MS_VIEW_TEAM;
    memset(last, 0, sizeof last);
    if (ms_query_open(r->store, &q, &it, NULL) != MS_OK)
        return wrong(r, "a part", "the query failed");
    for (; (msg = ms_next(&it)) != NULL; r->checked++) {
        uint64_t n = scribe_number(&r->c->s, msg, &fault), w = n >> SHIFT;
        ms_envelope m = ms_envelope_of(msg);
        if (n == 0 || w >= MOST_WRITERS)
            return wrong(r, "a part", n == 0 ? fault : "no writer");
        if (!belongs(&q, &m)) return wrong(r, "a part", "a message of another one");
        if (n <= last[w]) return wrong(r, "a part", "order");
        for (uint64_t i = last[w] + 1; last[w] != 0 && i < n; i++) {
            numbered other;
            scribe_write(&r->c->s, i, &other);
            if (belongs(&q, &other.m)) return wrong(r, "a part", "one is missing");
        }
        last[w] = n;
    }
    return ms_cursor_close(&it, NULL) == MS_OK || wrong(r, "a part", "the cursor");
}

/* Locations and agents: never fewer messages than were acked before. */
static bool read_listing(reader *r)
{
    ms_list_query q;
    ms_listing listing;
    ms_arena arena;
    uint64_t acked[MOST_WRITERS], least = acked_now(r->b, acked), sum = 0;
    bool fine = true;
    memset(&q, 0, sizeof q);
    test_arena_init(&arena, NULL);
    if (ms_list(r->store, &q, &arena, &listing, NULL) != MS_OK)
        return wrong(r, "a listing", "it failed");
    for (size_t i = 0; i < listing.count; i++) sum += listing.items[i].messages;
    if (listing.count > 5) fine = wrong(r, "a listing", "a location of no writer");
    if (sum < least) fine = wrong(r, "a listing", "messages are missing");
    ms_arena_reset(&arena);
    q.agents = true;
    if (ms_list(r->store, &q, &arena, &listing, NULL) != MS_OK)
        fine = wrong(r, "a listing of agents", "it failed");
    ms_arena_deinit(&arena);
    return fine;
}

/* What an agent reads, or one with a team: it never shrinks, and all in it is theirs. */
static bool read_history(reader *r)
{
    const ms_str team[] = {MS_STR("worker_2"), MS_STR("worker_3")};
    ms_query q = query_of(MS_STR("job_1"), 0);
    ms_memory memory;
    ms_cursor it;
    const ms_msg *msg;
    size_t n = 0;
    bool fine = true;
    ms_memory_init(&memory, r->store, q.location, MS_STR("worker_1"));
    memory.subordinates = team;
    memory.n_subordinates = r->w % 2 * 2;
    if (ms_get_history(&memory, &it, NULL) != MS_OK)
        return wrong(r, "a history", "the query failed");
    for (; fine && (msg = ms_next(&it)) != NULL; n++) {
        ms_str agent = test_agent_key(msg);
        bool own = ms_str_equal(agent, MS_STR("worker_1")) || r->w % 2 == 1;
        if (!ms_str_equal(test_location(msg), q.location) ||
            (!own && (MS_TYPES_AGENT & MS_BIT(ms_type_of(msg))) != 0))
            fine = wrong(r, "a history", "a message of another one");
    }
    if (ms_cursor_close(&it, NULL) != MS_OK) return wrong(r, "a history", "the cursor");
    if (n < r->history) return wrong(r, "a history", "it shrank");
    r->history = n;
    r->checked += n;
    return fine;
}

static bool read_some(reader *r)
{
    switch (test_below(&r->rng, 13)) {
    case 0: return read_everything(r);
    case 1: return read_listing(r);
    case 12: return read_history(r);
    case 2: case 3: return read_part(r);
    case 4: case 5: case 6: return read_newest(r);
    default: return read_on(r);
    }
}

/* A work: reads until the round is over, and once more after the last append. */
static void reads(const many_writers *c, board *b, ms_store *store, size_t w,
                  uint64_t seed)
{
    bool more = true;
    reader r = {.c = c, .b = b, .store = store, .w = w, .rng = seed + w};
    while (more && !is_set(&b->failed)) {
        more = !is_set(&b->stop);
        if (read_some(&r) && !more) read_on(&r);
        usleep((useconds_t)test_below(&r.rng, 300)); /* the writers want to work, too */
    }
    if (r.checked == 0) wrong(&r, "at the end", "it has read nothing");
    __atomic_add_fetch(&b->read, r.checked, __ATOMIC_ACQ_REL);
}

/* Writers that append `goal` messages each, and readers of every kind beside them: threads on
 * one handle; of a log also threads and processes with handles of their own. A shared log
 * is made by whoever comes first; threads on a second handle and processes write to it. */
static uint64_t one_round(board *b, many_writers *c, size_t writers, uint64_t goal)
{
    enum { SHARING = 4, OWN = 2, PROCESSES = 2, SECOND = 6, CHILD = 8 };
    worker w[MOST_WRITERS], w2[OWN], r[SHARING + OWN];
    pid_t children[PROCESSES], reading[PROCESSES];
    ms_store *own[OWN];
    uint64_t seed = c->s.salt, sum = 0;
    roll all;
    bool log = c->at.kind->log, shared = is_shared(c);
    size_t handles = log ? OWN : 0;
    for (size_t i = 0; i < PROCESSES && shared; i++)
        children[i] = start(c, b, CHILD + i, appends, goal);
    set(&b->go);
    if (log) c->at.store = must_open(c, MS_LOG_CREATE);
    for (size_t i = 0; i < PROCESSES && log; i++)
        reading[i] = start_as(c, b, 40 + i, MS_LOG_READ, reads, seed);
    workers_start(r, SHARING, c, b, c->at.store, 20, reads, seed);
    for (size_t i = 0; i < handles; i++) {
        own[i] = must_open(c, shared && i == 0 ? MS_LOG_WRITE : MS_LOG_READ);
        workers_start(&r[SHARING + i], 1, c, b, own[i], 30 + i, reads, seed);
    }
    if (shared) workers_start(w2, 2, c, b, own[0], SECOND, appends, goal);
    workers_start(w, writers, c, b, c->at.store, 0, appends, goal);
    workers_join(w, writers);
    if (shared) workers_join(w2, 2);
    for (size_t i = 0; i < PROCESSES && shared; i++) wait_for(children[i], b);
    set(&b->stop);
    workers_join(r, SHARING + handles);
    for (size_t i = 0; i < PROCESSES && log; i++) wait_for(reading[i], b);
    nothing_wrong(b);
    must_hold(c, b, c->at.store, true, &all);
    must_give(MS_OK, ms_selfcheck(c->at.store, NULL));
    for (size_t i = 0; i < handles; i++) ms_close(own[i]);
    for (size_t i = 0; i < MOST_WRITERS; i++) sum += b->acked[i];
    assert_int_equal(total(c->at.store), sum);
    if (log) log_close(&c->at);
    if (log) must_stand(c, b, true);
    return sum;
}

static void readers_see_order_whole_batches_and_their_snapshot(void **state)
{
    static const ms_sync_mode modes[] = {MS_SYNC_NONE, MS_SYNC_EACH, MS_SYNC_EVERY};
    size_t rounds = 1 + test_scale() / 50;
    uint64_t read = 0, written = 0;
    if (*state == SHARED_LOG) rounds *= 2;
    for (size_t i = 0; i < rounds; i++) {
        board *b = board_new();
        many_writers c = writers_open(state, i, i % 3 == 2 ? 8192 : 1000);
        size_t writers = i % 2 ? 1 : MOST_WRITERS;
        uint64_t goal = (c.at.kind->log ? 20000u : 4000u) / (test_scale() < 100 ? 4 : 1);
        if (c.at.kind->log) { /* segments of several sizes */
            log_close(&c.at);
            assert_int_equal(remove(c.at.path), 0);
            c.at.log.segment_size = (size_t)MS_LOG_SEGMENT_MIN << i % 5;
            c.os = os_without_sync();
            c.at.log.os = &c.os;
        } else {
            c.s.longest = 1000;
        }
        if (is_shared(&c)) c.at.log.sync = modes[i % 3];
        if (is_shared(&c)) writers = 4;
        written += one_round(b, &c, writers, goal / (is_shared(&c) ? 20 : writers));
        read += b->read;
        writers_end(&c, b);
    }
    printf("%llu messages written\n", (unsigned long long)written);
    test_tally("messages read beside a writer", read);
}


/* ---- keys, compare and append, from several sides ---- */

/* n threads do the same work on the store; on a shared log as many processes, too. */
static many_writers writers_work(void **state, board *b, size_t n, work *does,
                                 uint64_t goal)
{
    many_writers c = writers_open(state, 0, 100);
    worker k[MOST_WRITERS];
    pid_t children[MOST_WRITERS];
    size_t processes = is_shared(&c) ? n : 0;
    for (size_t i = 0; i < processes; i++) children[i] = start(&c, b, n + i, does, goal);
    set(&b->go);
    workers_start(k, n, &c, b, c.at.store, 0, does, goal);
    workers_join(k, n);
    for (size_t i = 0; i < processes; i++) wait_for(children[i], b);
    nothing_wrong(b);
    must_give(MS_OK, ms_selfcheck(c.at.store, NULL));
    return c;
}

static void a_key_is_stored_once_whoever_comes_first(void **state)
{
    enum { KEYS = 200 };
    board *b = board_new();
    many_writers c = writers_work(state, b, 4, repeats_keys, KEYS);
    must_have(c.at.store, KEYS);
    writers_end(&c, b);
}

static void compare_and_append_loses_no_step(void **state)
{
    board *b = board_new();
    many_writers c = writers_work(state, b, 4, counts_up, 100);
    must_have_counted(c.at.store, is_shared(&c) ? 800 : 400);
    writers_end(&c, b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EVERY_STORE(readers_see_order_whole_batches_and_their_snapshot),
        IN_A_SHARED_LOG(readers_see_order_whole_batches_and_their_snapshot),
        ON_EVERY_STORE(a_key_is_stored_once_whoever_comes_first),
        IN_A_SHARED_LOG(a_key_is_stored_once_whoever_comes_first),
        ON_EVERY_STORE(compare_and_append_loses_no_step),
        IN_A_SHARED_LOG(compare_and_append_loses_no_step),
    };
    scribe_page();
    test_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
