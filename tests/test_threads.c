/* Many threads on one store: writers beside readers, keys and compare-and-append from
 * several sides, agents that share a memory. On logs readers have handles of their own, too,
 * in threads and in processes; and writers share a file from two handles and a process.
 *
 * At MS_TEST_SCALE=100 two rounds of ten writers and one of one writer for each store: 4,000
 * messages in memory, 20,000 in a log. At 1000 seven times as many.
 */

#define _GNU_SOURCE
#include "crowd.h"

#include <sched.h>

static test_store open_large(void **state)
{
    store_options options;
    memset(&options, 0, sizeof options);
    options.room = (size_t)8 << 20;
    options.keep_unset_times = true;
    return store_open((store_kind *)*state, &options);
}

/* A crowd around a store that is open; its log may have any description. */
static crowd crowd_of(const test_store *s, uint64_t salt, size_t longest)
{
    crowd c;
    memset(&c, 0, sizeof c);
    c.s.salt = test_seed() + salt;
    c.s.longest = longest;
    c.at = *s;
    return c;
}


/* ---- readers: what they do is false when something is wrong ---- */

typedef struct reader {
    const crowd *c;
    board *b;
    ms_store *store;
    size_t w;                 /* its number in complaints */
    uint64_t rng, checked;    /* messages */
    roll tail;                /* how far reading on has come */
} reader;

static bool wrong(reader *r, const char *where, const char *what)
{
    return complain(r->b, r->w, where, what);
}

/* What is acked by now; result: how many messages. */
static uint64_t acked_now(const board *b, uint64_t acked[CROWD])
{
    uint64_t sum = 0;
    for (size_t w = 0; w < CROWD; w++) sum += acked[w] = acked_by(b, w);
    return sum;
}

static bool has_acked(reader *r, const roll *got, const uint64_t *acked, const char *where)
{
    for (size_t w = 0; w < CROWD; w++)
        if (got->last[w] < acked[w]) return wrong(r, where, "a message is late");
    return true;
}

/* Goes on after what it has read: no gap, whole batches, nothing late. */
static bool read_on(reader *r)
{
    uint64_t acked[CROWD], before = r->tail.count;
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
    uint64_t acked[CROWD];
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
    uint64_t acked[CROWD], sum = acked_now(r->b, acked), newest = 0, number = 0;
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
    uint64_t last[CROWD];
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
        if (n == 0 || w >= CROWD) return wrong(r, "a part", n == 0 ? fault : "no writer");
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
    uint64_t acked[CROWD], least = acked_now(r->b, acked), sum = 0;
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

static bool read_some(reader *r)
{
    switch (test_below(&r->rng, 12)) {
    case 0: return read_everything(r);
    case 1: return read_listing(r);
    case 2: case 3: return read_part(r);
    case 4: case 5: case 6: return read_newest(r);
    default: return read_on(r);
    }
}

/* A work: reads until the round is over, and once more after the last append. */
static void reads(const crowd *c, board *b, ms_store *store, size_t w, uint64_t seed)
{
    reader r;
    bool more = true;
    memset(&r, 0, sizeof r);
    r.c = c;
    r.b = b;
    r.store = store;
    r.w = w;
    r.rng = seed + w;
    while (more && !is_set(&b->failed)) {
        more = !is_set(&b->stop);
        if (read_some(&r) && !more) read_on(&r);
        usleep((useconds_t)test_below(&r.rng, 300)); /* the writers want to work, too */
    }
    if (r.checked == 0) wrong(&r, "at the end", "it has read nothing");
    __atomic_add_fetch(&b->read, r.checked, __ATOMIC_ACQ_REL);
}

enum { SHARING = 4, OWN = 2, PROCESSES = 2 };

/* A process that reads with a handle of its own. */
static pid_t start_reader(const crowd *c, board *b, size_t w, uint64_t seed)
{
    pid_t child = fork_child();
    if (child != 0) return child;
    ms_log_desc desc = c->at.log;
    ms_store *store;
    ms_error err;
    desc.mode = MS_LOG_READ;
    desc.shared = false;
    while (!is_set(&b->go)) sched_yield();
    if (ms_log_open(&store, &desc, &err) != MS_OK) {
        complain(b, w, "opening", err.message);
        _exit(1);
    }
    reads(c, b, store, w, seed);
    ms_close(store);
    _exit(0);
}

/* Writers that append `goal` messages each, and readers of every kind beside them. */
static void one_round(board *b, const crowd *c, size_t writers, uint64_t goal)
{
    worker w[CROWD], sharing[SHARING], own[OWN];
    pid_t pids[PROCESSES];
    ms_store *stores[OWN];
    ms_store *store = c->at.store;
    bool log = c->at.kind->log;
    uint64_t seed = c->s.salt, sum = 0;
    roll r;
    for (size_t i = 0; i < PROCESSES && log; i++)
        pids[i] = start_reader(c, b, 40 + i, seed);
    set(&b->go);
    for (size_t i = 0; i < OWN && log; i++) {
        stores[i] = log_reader(&c->at);
        workers_start(&own[i], 1, c, b, stores[i], 30 + i, reads, seed);
    }
    workers_start(sharing, SHARING, c, b, store, 20, reads, seed);
    workers_start(w, writers, c, b, store, 0, appends, goal);
    workers_join(w, writers);
    set(&b->stop);
    workers_join(sharing, SHARING);
    for (size_t i = 0; i < OWN && log; i++) {
        workers_join(&own[i], 1);
        ms_close(stores[i]);
    }
    for (size_t i = 0; i < PROCESSES && log; i++) wait_for(pids[i], b);
    nothing_wrong(b);
    memset(&r, 0, sizeof r);
    if (!roll_read(&r, &c->s, store, b->seqs) || !roll_holds(&r, &c->s, b->acked, true))
        fail_msg("%s", r.wrong);
    for (size_t i = 0; i < writers; i++) sum += b->acked[i];
    assert_int_equal(total(store), sum);
    must_give(MS_OK, ms_selfcheck(store, NULL));
}

static void readers_see_order_whole_batches_and_their_snapshot(void **state)
{
    bool log = ((store_kind *)*state)->log;
    size_t rounds = 1 + test_scale() / 50;
    uint64_t read = 0, written = 0, all = log ? 20000 : 4000;
    if (test_scale() < 100) all /= 4;
    for (size_t i = 0; i < rounds; i++) {
        board *b = board_new();
        test_store s = open_large(state);
        size_t writers = i % 2 ? 1 : CROWD;
        if (log) { /* segments of several sizes */
            log_close(&s);
            s.log.segment_size = (size_t)MS_LOG_SEGMENT_MIN << i % 5;
            assert_int_equal(remove(s.path), 0);
            log_open_as(&s, MS_LOG_NEW);
        }
        crowd c = crowd_of(&s, i, log && i % 3 == 2 ? 8192 : 1000);
        one_round(b, &c, writers, all / writers);
        written += total(s.store);
        read += b->read;
        if (log) must_verify(&c, total(s.store));
        store_close(&s);
        board_free(b);
    }
    printf("%llu messages written\n", (unsigned long long)written);
    test_tally("messages read beside a writer", read);
}

/* Two handles, two threads that write on each, one that reads on each; another process. */
static void shared_writers_are_seen_by_readers_of_each_handle(void **state)
{
    static const ms_sync_mode modes[] = {MS_SYNC_NONE, MS_SYNC_EACH, MS_SYNC_EVERY};
    (void)state;
    for (size_t k = 0; k < 6; k++) {
        crowd c;
        board *b = board_new();
        worker w[4], r[2];
        ms_store *stores[2];
        uint64_t goal = numbers(modes[k / 2] == MS_SYNC_EACH ? 150 : 400);
        crowd_begin(&c, k % 2 ? MS_ENGINE_MAP : MS_ENGINE_WRITE, 600);
        c.at.log.sync = modes[k / 2];
        pid_t child = start(&c, b, 5, appends, goal);
        set(&b->go);
        for (size_t i = 0; i < 2; i++) {
            stores[i] = must_open(&c, MS_LOG_CREATE);
            workers_start(&w[2 * i], 2, &c, b, stores[i], 2 * i, appends, goal);
            workers_start(&r[i], 1, &c, b, stores[i], 20 + i, reads, c.s.salt);
        }
        workers_join(w, 4);
        wait_for(child, b);
        set(&b->stop);
        workers_join(r, 2);
        nothing_wrong(b);
        for (size_t i = 0; i < 2; i++) {
            must_give(MS_OK, ms_selfcheck(stores[i], NULL));
            ms_close(stores[i]);
        }
        must_stand(&c, b, true);
        crowd_end(&c, b);
    }
}


/* ---- keys, compare and append, from several threads ---- */

static void a_key_is_stored_once_whoever_comes_first(void **state)
{
    enum { KEYS = 200 };
    test_store s = open_large(state);
    crowd c = crowd_of(&s, 0, 100);
    board *b = board_new();
    in_threads(&c, b, 8, s.store, repeats_keys, KEYS);
    assert_int_equal(total(s.store), KEYS);
    must_give(MS_OK, ms_selfcheck(s.store, NULL));
    board_free(b);
    store_close(&s);
}

static void compare_and_append_loses_no_step(void **state)
{
    test_store s = open_large(state);
    crowd c = crowd_of(&s, 0, 100);
    board *b = board_new();
    in_threads(&c, b, 4, s.store, counts_up, 100);
    must_have_counted(s.store, 400);
    board_free(b);
    store_close(&s);
}


/* ---- agents that share a memory ---- */

enum { AGENTS = 10, ADDS = 50, MEMORY_READERS = 20, READS = 100 };

static const char *const agents[] = {"w0", "w1", "w2", "w3", "w4",
                                     "w5", "w6", "w7", "w8", "w9"};

/* Half of the agents are in one namespace, half in another. A manager sees all. */
static bool memory_of(ms_memory *memory, board *b, ms_store *store, size_t w, bool manager)
{
    static ms_str list[AGENTS];
    for (size_t i = 0; list[AGENTS - 1].ptr == NULL && i < AGENTS; i++)
        list[i] = ms_str_of(agents[i]);
    ms_str space = w % 2 ? MS_STR("odd") : MS_STR("even");
    ms_result result =
        ms_shared_memory_init(memory, store, space, ms_str_of(agents[w % AGENTS]), list,
                              manager ? AGENTS : 0, NULL);
    return result == MS_OK || complain(b, w, "a memory", ms_result_text(result));
}

static void adds_to_memory(const crowd *c, board *b, ms_store *store, size_t w,
                           uint64_t goal)
{
    ms_str space = w % 2 ? MS_STR("odd") : MS_STR("even");
    ms_memory memory;
    (void)c;
    if (!memory_of(&memory, b, store, w, false)) return;
    for (uint64_t i = 0; i < goal; i++) {
        ms_envelope m = ms_observation(ms_text_n(space), ms_str_of(NULL));
        ms_result result;
        if (i % 10 == 9) {
            m = ms_message(MS_T_GLOBAL_OBSERVATION, ms_text_n(space));
            result = ms_memory_broadcast(&memory, &m, NULL, NULL);
        } else if (i % 10 == 8) {
            result = test_memory_turn(&memory, MS_ROLE_USER, ms_text_n(space), NULL, NULL);
        } else {
            result = ms_memory_add(&memory, &m, NULL, NULL);
        }
        if (result != MS_OK) complain(b, w, "adding", ms_result_text(result));
    }
}

/* A manager or a worker; a history never shrinks, nor shows another namespace. */
static void reads_memory(const crowd *c, board *b, ms_store *store, size_t w,
                         uint64_t goal)
{
    ms_str space = w % 2 ? MS_STR("odd") : MS_STR("even");
    size_t before = 0;
    ms_memory memory;
    (void)c;
    if (!memory_of(&memory, b, store, w, w % 3 == 0)) return;
    for (uint64_t i = 0; i < goal; i++) {
        ms_cursor it;
        const ms_msg *msg;
        size_t n = 0;
        if (ms_get_history(&memory, &it, NULL) != MS_OK) {
            complain(b, w, "a history", "it failed");
            return;
        }
        for (; (msg = ms_next(&it)) != NULL; n++)
            if (!ms_str_equal(ms_content(msg).text, space))
                complain(b, w, "a history", "a message of another namespace");
        if (ms_cursor_close(&it, NULL) != MS_OK) complain(b, w, "a history", "the cursor");
        if (n < before) complain(b, w, "a history", "it shrank");
        before = n;
    }
}

static void agents_share_a_memory(void **state)
{
    test_store s = open_large(state);
    crowd c = crowd_of(&s, 0, 100);
    board *b = board_new();
    worker adders[AGENTS], readers[MEMORY_READERS];
    ms_memory first;
    memory_of(&first, b, s.store, 0, false); /* its names are made before the threads */
    workers_start(adders, AGENTS, &c, b, s.store, 0, adds_to_memory, ADDS);
    workers_start(readers, MEMORY_READERS, &c, b, s.store, 0, reads_memory, READS);
    workers_join(adders, AGENTS);
    workers_join(readers, MEMORY_READERS);
    nothing_wrong(b);
    assert_int_equal(total(s.store), AGENTS * ADDS);
    ms_query odd = query_of(MS_STR("odd"), 0);
    assert_int_equal(count_of(s.store, &odd), AGENTS * ADDS / 2);
    odd.views = MS_VIEW_CONVERSATION;
    assert_int_equal(count_of(s.store, &odd), AGENTS / 2 * ADDS / 10);
    odd.views = MS_VIEW_GLOBAL;
    assert_int_equal(count_of(s.store, &odd), AGENTS / 2 * ADDS / 10);
    board_free(b);
    store_close(&s);
}


/* ---- edits, read while others append ---- */

enum { EDITED = 200 };

static void appends_beside(const crowd *c, board *b, ms_store *store, size_t w,
                           uint64_t goal)
{
    ms_envelope m = ms_user_message(ms_text("beside"));
    (void)c;
    for (uint64_t i = 0; i < goal; i++)
        if (ms_append(store, MS_STR("elsewhere"), &m, NULL, NULL) != MS_OK)
            complain(b, w, "append", "failed");
}

/* Each second message is hidden, each third has another text. */
static void reads_edited(const crowd *c, board *b, ms_store *store, size_t w,
                         uint64_t goal)
{
    (void)c;
    for (uint64_t i = 0; i < goal; i++) {
        ms_cursor it;
        const ms_msg *msg;
        size_t n = 0;
        ms_query q = query_of(MS_STR("edited"), 0);
        if (ms_query_open(store, &q, &it, NULL) != MS_OK) {
            complain(b, w, "edited messages", "the query failed");
            return;
        }
        for (; (msg = ms_next(&it)) != NULL; n++) {
            ms_str want = ms_seq(msg) % 3 == 0 ? MS_STR("new") : MS_STR("old");
            if (!ms_str_equal(ms_content(msg).text, want))
                complain(b, w, "edited messages", "another text");
        }
        if (ms_cursor_close(&it, NULL) != MS_OK || n != EDITED / 2)
            complain(b, w, "edited messages", "not all that is visible");
    }
}

static void edits_are_read_while_others_append(void **state)
{
    test_store s = open_large(state);
    crowd c = crowd_of(&s, 0, 100);
    board *b = board_new();
    ms_envelope old = ms_user_message(ms_text("old"));
    ms_envelope new_text = ms_user_message(ms_text("new"));
    worker beside, readers[4];
    for (uint64_t i = 1; i <= EDITED; i++) {
        assert_int_equal(must_append(s.store, MS_STR("edited"), &old), i);
        if (i % 3 == 0) must_give(MS_OK, ms_amend(s.store, i, &new_text, NULL));
        if (i % 2 == 0) must_give(MS_OK, ms_hide(s.store, i, NULL));
    }
    workers_start(&beside, 1, &c, b, s.store, 0, appends_beside, EDITED * 4);
    workers_start(readers, 4, &c, b, s.store, 1, reads_edited, 20);
    workers_join(&beside, 1);
    workers_join(readers, 4);
    nothing_wrong(b);
    board_free(b);
    store_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EVERY_STORE(readers_see_order_whole_batches_and_their_snapshot),
        cmocka_unit_test(shared_writers_are_seen_by_readers_of_each_handle),
        ON_EVERY_STORE(a_key_is_stored_once_whoever_comes_first),
        ON_EVERY_STORE(compare_and_append_loses_no_step),
        ON_EVERY_STORE(agents_share_a_memory),
        ON_EVERY_STORE(edits_are_read_while_others_append),
    };
    scribe_page();
    test_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
