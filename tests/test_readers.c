/* Readers beside a writer: threads that share the writer's handle, threads with a handle
 * of their own, other processes; and copies of the file that are made while it grows.
 * Every message that is read is compared with what its number says; numbers have no gap,
 * batches are whole, and what was appended before a query began is in its answer.
 *
 * One writer at a time, so that numbers are the order of appending. Readers note what is
 * wrong; the test asserts when they are done. At MS_TEST_SCALE=100 the writer and its
 * readers run for 2 seconds, in rounds of a quarter of a second with a file each.
 */

#define _GNU_SOURCE
#include "logs.h"

#include <pthread.h>
#include <sched.h>

enum { SHARING = 4, OWN = 2, PROCESSES = 2, MOST_BYTES = 24 << 20 };

/* What writer and readers share, also across processes. */
typedef struct board {
    uint64_t told;            /* highest number whose append has returned */
    uint32_t round;           /* of the file; 0: not yet */
    uint32_t stop;            /* this round is over */
    uint32_t end;             /* processes end */
    uint32_t waiting[PROCESSES]; /* the round that a process has finished */
    uint64_t checked[PROCESSES]; /* messages */
    char wrong[PROCESSES][320];
} board;

static uint64_t get64(const uint64_t *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static uint32_t get32(const uint32_t *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static void set64(uint64_t *at, uint64_t v) { __atomic_store_n(at, v, __ATOMIC_RELEASE); }
static void set32(uint32_t *at, uint32_t v) { __atomic_store_n(at, v, __ATOMIC_RELEASE); }

static board *board_new(void)
{
    void *shared = mmap(NULL, sizeof(board), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) abort();
    return (board *)shared;
}

typedef struct reader {
    pthread_t thread;
    board *b;
    ms_store *store;
    scribe s;
    uint64_t rng;
    uint64_t checked;         /* messages */
    tally tail;               /* how far reading on has come */
    char wrong[320];          /* empty: nothing */
} reader;

static bool wrong(reader *r, const char *where, const char *what)
{
    snprintf(r->wrong, sizeof r->wrong, "%s: %s", where, what);
    return false;
}


/* ---- what a reader does; each false when something is wrong ---- */

/* Goes on behind what it has read: no gap, whole batches, nothing late. */
static bool read_on(reader *r)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    uint64_t told = get64(&r->b->told);
    tally *t = &r->tail;
    memset(&q, 0, sizeof q);
    q.after_seq = t->last_seq;
    if (ms_query_open(r->store, &q, &it, NULL) != MS_OK)
        return wrong(r, "reading on", "the query failed");
    while ((msg = ms_next(&it)) != NULL) {
        if (!tally_add(t, &r->s, msg, false, NULL))
            return wrong(r, "reading on", t->wrong);
        r->checked++;
    }
    if (ms_cursor_close(&it, NULL) != MS_OK) return wrong(r, "reading on", "the cursor");
    if (t->last < told) return wrong(r, "reading on", "a message is late");
    if (t->last != 0 && !scribe_ends(&r->s, t->last))
        return wrong(r, "reading on", "a torn batch");
    return true;
}

/* Everything from the beginning. */
static bool read_everything(reader *r)
{
    tally t;
    uint64_t told = get64(&r->b->told);
    if (told > 20000) return true;
    if (!scribe_read(&r->s, r->store, false, NULL, &t))
        return wrong(r, "everything", t.wrong);
    if (t.result != MS_OK) return wrong(r, "everything", "the cursor");
    if (t.last < told) return wrong(r, "everything", "a message is late");
    r->checked += t.count;
    return true;
}

/* The newest few: in a row, and the last of them the end of a batch. */
static bool read_newest(reader *r)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    tally t;
    uint64_t told = get64(&r->b->told);
    memset(&q, 0, sizeof q);
    memset(&t, 0, sizeof t);
    q.limit = 1 + (size_t)test_below(&r->rng, 30);
    q.reverse = test_one_in(&r->rng, 3);
    if (ms_query_open(r->store, &q, &it, NULL) != MS_OK)
        return wrong(r, "the newest", "the query failed");
    uint64_t newest = 0, before = 0;
    while ((msg = ms_next(&it)) != NULL) {
        const char *fault;
        uint64_t n = scribe_number(&r->s, msg, &fault);
        if (n == 0) return wrong(r, "the newest", fault);
        if (before != 0 && n != (q.reverse ? before - 1 : before + 1))
            return wrong(r, "the newest", "not in a row");
        if (n > newest) newest = n;
        before = n;
        t.count++;
    }
    if (ms_cursor_close(&it, NULL) != MS_OK) return wrong(r, "the newest", "the cursor");
    if (newest < told) return wrong(r, "the newest", "a message is late");
    if (t.count != (newest < q.limit ? newest : q.limit))
        return wrong(r, "the newest", "too few or too many");
    r->checked += t.count;
    if (newest != 0 && !scribe_ends(&r->s, newest))
        return wrong(r, "the newest", "a torn batch");
    return true;
}

/* One location, newest n: no message of that location is left out between them. */
static bool read_location(reader *r)
{
    char location[16];
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    uint64_t before = 0;
    snprintf(location, sizeof location, "job_%u", (unsigned)test_below(&r->rng, 5));
    memset(&q, 0, sizeof q);
    q.location = ms_str_of(location);
    q.limit = 1 + (size_t)test_below(&r->rng, 100);
    if (ms_query_open(r->store, &q, &it, NULL) != MS_OK)
        return wrong(r, "a location", "the query failed");
    while ((msg = ms_next(&it)) != NULL) {
        const char *fault;
        uint64_t n = scribe_number(&r->s, msg, &fault);
        if (n == 0) return wrong(r, "a location", fault);
        if (!ms_str_equal(test_location(msg), q.location))
            return wrong(r, "a location", "a message of another one");
        if (n <= before) return wrong(r, "a location", "order");
        for (uint64_t i = before + 1; before != 0 && i < n; i++) {
            numbered other;
            scribe_write(&r->s, i, &other);
            if (ms_str_equal(other.m.location, q.location))
                return wrong(r, "a location", "one is missing");
        }
        before = n;
        r->checked++;
    }
    if (ms_cursor_close(&it, NULL) != MS_OK) return wrong(r, "a location", "the cursor");
    return true;
}

/* Locations and agents: never fewer messages than were told before. */
static bool read_listing(reader *r)
{
    ms_list_query q;
    ms_listing listing;
    ms_arena arena;
    uint64_t told = get64(&r->b->told), sum = 0;
    memset(&q, 0, sizeof q);
    memset(&arena, 0, sizeof arena);
    if (ms_list(r->store, &q, &arena, &listing, NULL) != MS_OK)
        return wrong(r, "a listing", "it failed");
    for (size_t i = 0; i < listing.count; i++) sum += listing.items[i].messages;
    if (listing.count > 5) wrong(r, "a listing", "a location nobody wrote to");
    else if (sum < told) wrong(r, "a listing", "messages are missing");
    ms_arena_reset(&arena);
    q.agents = true;
    if (ms_list(r->store, &q, &arena, &listing, NULL) != MS_OK)
        wrong(r, "a listing of agents", "it failed");
    ms_arena_deinit(&arena);
    return r->wrong[0] == '\0';
}

static bool read_some(reader *r)
{
    switch (test_below(&r->rng, 12)) {
    case 0: return read_everything(r);
    case 1: return read_listing(r);
    case 2:
    case 3: return read_location(r);
    case 4:
    case 5:
    case 6: return read_newest(r);
    default: return read_on(r);
    }
}

/* Reads until the round is over, and once more after the last append. */
static void read_a_round(reader *r)
{
    bool more = true;
    memset(&r->tail, 0, sizeof r->tail);
    while (more && r->wrong[0] == '\0') {
        more = get32(&r->b->stop) == 0;
        if (read_some(r) && !more) read_on(r);
        usleep((useconds_t)test_below(&r->rng, 300)); /* the writer wants to work, too */
    }
}

static void *thread_reads(void *arg)
{
    read_a_round((reader *)arg);
    return NULL;
}


/* ---- other processes ---- */

static scribe scribe_of_round(uint32_t round)
{
    scribe s;
    s.salt = test_seed() + round;
    s.longest = round % 3 == 0 ? 8192 : 1000;
    return s;
}

static ms_store *open_reader(const char *path, ms_error *err)
{
    ms_log_desc desc;
    ms_store *store = NULL;
    memset(&desc, 0, sizeof desc);
    desc.path = path;
    desc.mode = MS_LOG_READ;
    return ms_log_open(&store, &desc, err) == MS_OK ? store : NULL;
}

/* Reads each round's file with a handle of its own until there are no more rounds. */
static void process_reads(board *b, size_t me, const char *path)
{
    uint32_t done = 0;
    reader *r = (reader *)calloc(1, sizeof *r);
    if (r == NULL) _exit(2);
    r->b = b;
    r->rng = test_seed() + 1000 + me;
    while (get32(&b->end) == 0) {
        ms_error err;
        uint32_t round = get32(&b->round);
        if (round == done) {
            sched_yield();
            continue;
        }
        r->s = scribe_of_round(round);
        r->store = open_reader(path, &err);
        if (r->store == NULL) wrong(r, "opening", err.message);
        else read_a_round(r);
        ms_close(r->store);
        if (r->wrong[0] != '\0') memcpy(b->wrong[me], r->wrong, sizeof r->wrong);
        set64(&b->checked[me], r->checked);
        set32(&b->waiting[me], round);
        done = round;
    }
    free(r);
    _exit(0);
}

static void start_processes(board *b, const char *path, pid_t *pids)
{
    for (size_t i = 0; i < PROCESSES; i++) {
        pids[i] = fork_child();
        if (pids[i] == 0) process_reads(b, i, path);
    }
}

static void end_processes(board *b, const pid_t *pids)
{
    set32(&b->end, 1);
    for (size_t i = 0; i < PROCESSES; i++) {
        int status = 0;
        waitpid(pids[i], &status, 0);
        if (b->wrong[i][0] != '\0') fail_msg("process %zu: %s", i, b->wrong[i]);
        assert_int_equal(status, 0);
        assert_true(b->checked[i] > 0);
    }
}


/* ---- the writer ---- */

static ms_store *open_writer(const char *path, uint64_t *rng, ms_log_engine engine)
{
    ms_log_desc desc;
    ms_store *store;
    ms_error err;
    memset(&desc, 0, sizeof desc);
    desc.path = path;
    desc.mode = MS_LOG_NEW;
    desc.engine = engine;
    desc.keep_unset_times = true;
    desc.segment_size = (size_t)MS_LOG_SEGMENT_MIN << test_below(rng, 5);
    if (ms_log_open(&store, &desc, &err) != MS_OK) fail_msg("open: %s", err.message);
    return store;
}

/* Appends until the time is over or the file is large. NULL: all is well. */
static const char *write_until(board *b, const scribe *s, ms_store *store, double until,
                               uint64_t *rng)
{
    uint64_t bytes = 0, n = 1;
    while (now_ms() < until) {
        size_t count;
        if (bytes < MOST_BYTES) {
            if (scribe_append(s, store, n, NULL, &count, NULL) != MS_OK)
                return "append failed";
            n += count;
            bytes += count * s->longest / 8;
            set64(&b->told, n - 1);
        }
        if (bytes >= MOST_BYTES || test_one_in(rng, 8)) sched_yield();
        if (test_one_in(rng, 2000) && ms_sync(store, NULL, NULL) != MS_OK)
            return "sync failed";
    }
    return NULL;
}

static void start(reader *readers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (pthread_create(&readers[i].thread, NULL, thread_reads, &readers[i]) != 0)
            abort();
}

static void join(reader *readers, size_t n, uint64_t *checked)
{
    for (size_t i = 0; i < n; i++) {
        pthread_join(readers[i].thread, NULL);
        if (readers[i].wrong[0] != '\0') fail_msg("reader %zu: %s", i, readers[i].wrong);
        *checked += readers[i].checked;
    }
}

/* One file: a writer, readers in threads, and whatever processes wait for the round. */
static uint64_t one_round(board *b, const char *path, uint32_t round, uint64_t *rng,
                          double ms)
{
    reader *readers = (reader *)calloc(SHARING + OWN, sizeof readers[0]);
    scribe s = scribe_of_round(round);
    uint64_t checked = 0;
    ms_error err;
    if (readers == NULL) abort();
    unlink(path);
    set64(&b->told, 0);
    set32(&b->stop, 0);
    ms_log_engine engine = round % 2 ? MS_ENGINE_MAP : MS_ENGINE_WRITE;
    ms_store *store = open_writer(path, rng, engine);
    set32(&b->round, round);
    for (size_t i = 0; i < SHARING + OWN; i++) {
        readers[i].b = b;
        readers[i].s = s;
        readers[i].rng = test_random(rng);
        readers[i].store = i < SHARING ? store : open_reader(path, &err);
        if (readers[i].store == NULL) fail_msg("a reader: %s", err.message);
    }
    start(readers, SHARING + OWN);
    const char *fault = write_until(b, &s, store, now_ms() + ms, rng);
    set32(&b->stop, 1);
    join(readers, SHARING + OWN, &checked);
    for (size_t i = 0; i < PROCESSES; i++)
        while (b->end == 0 && get32(&b->waiting[i]) != round) sched_yield();
    if (fault != NULL) fail_msg("the writer: %s", fault);
    for (size_t i = SHARING; i < SHARING + OWN; i++) ms_close(readers[i].store);
    assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
    ms_close(store);
    ms_log_desc desc;
    ms_log_report report;
    memset(&desc, 0, sizeof desc);
    desc.path = path;
    if (ms_log_verify(&desc, &report, &err) != MS_OK) fail_msg("verify: %s", err.message);
    assert_int_equal(report.messages, b->told);
    free(readers);
    return checked;
}

static void readers_see_order_whole_batches_and_all_that_was_told(void **state)
{
    char folder[300], path[320];
    pid_t pids[PROCESSES];
    board *b = board_new();
    uint64_t rng = test_seed(), checked = 0, written = 0;
    double ms = 20.0 * test_scale();
    uint32_t rounds = ms < 500 ? 2 : (uint32_t)(ms / 250);
    (void)state;
    folder_make(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/log.msl", folder);
    start_processes(b, path, pids);
    for (uint32_t round = 1; round <= rounds; round++) {
        checked += one_round(b, path, round, &rng, ms / rounds);
        written += b->told;
    }
    end_processes(b, pids);
    for (size_t i = 0; i < PROCESSES; i++) checked += b->checked[i];
    printf("%llu messages written\n", (unsigned long long)written);
    test_tally("messages read beside a writer", checked);
    munmap(b, sizeof *b);
    folder_remove(folder);
}


/* ---- copies of a file that grows ---- */

typedef struct writing {
    pthread_t thread;
    board *b;
    ms_store *store;
    scribe s;
    uint64_t rng;
    const char *fault;
} writing;

/* Appends in bursts, so that a copy meets both a resting and a growing file. */
static void *thread_writes(void *arg)
{
    writing *w = (writing *)arg;
    uint64_t n = 1, bytes = 0;
    while (get32(&w->b->stop) == 0 && w->fault == NULL && bytes < MOST_BYTES / 8) {
        size_t count;
        if (scribe_append(&w->s, w->store, n, NULL, &count, NULL) != MS_OK) {
            w->fault = "append failed";
            break;
        }
        n += count;
        bytes += count * w->s.longest / 8;
        set64(&w->b->told, n - 1);
        if (test_one_in(&w->rng, 200)) usleep((useconds_t)test_below(&w->rng, 2000));
        if (test_one_in(&w->rng, 300) && ms_sync(w->store, NULL, NULL) != MS_OK)
            w->fault = "sync failed";
    }
    return NULL;
}

/* Copies as cp does: from the beginning, until there is no more. */
static void copy_file(const char *from, const char *to, uint64_t *rng)
{
    static char piece[1 << 16];
    size_t size = (size_t)512 << test_below(rng, 8);
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (in < 0 || out < 0) abort();
    for (;;) {
        ssize_t got = read(in, piece, size);
        if (got <= 0) break;
        if (write(out, piece, (size_t)got) != got) abort();
    }
    close(in);
    close(out);
}

/* The copy is a prefix of what was written, and has `least` messages. False: behind these a
 * hole is reported. It was read before a record in it was complete, and a sync of the
 * writer came before the copy had read on: what is behind shows that more had been
 * durable. */
static bool must_be_prefix(const scribe *s, const char *path, ms_log_mode mode,
                           uint64_t least, uint64_t *last)
{
    ms_log_desc desc;
    ms_store *store;
    ms_error err;
    tally t;
    memset(&desc, 0, sizeof desc);
    desc.path = path;
    desc.mode = mode;
    desc.keep_unset_times = true;
    if (ms_log_open(&store, &desc, &err) != MS_OK) fail_msg("a copy: %s", err.message);
    bool whole = scribe_read(s, store, false, NULL, &t);
    uint64_t before = t.last;
    if (!whole && (!scribe_read(s, store, true, NULL, &t) || t.result != MS_E_DAMAGED))
        fail_msg("a copy: %s", t.wrong);
    if (whole) assert_int_equal(t.result, MS_OK);
    t.last = before;
    if (t.last < least)
        fail_msg("a copy has %llu messages, %llu were there when it began",
                 (unsigned long long)t.last, (unsigned long long)least);
    if (whole && mode == MS_LOG_WRITE) {
        size_t count;
        assert_int_equal(scribe_append(s, store, t.last + 1, NULL, &count, NULL), MS_OK);
        assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
        t.last += count;
    }
    *last = t.last;
    ms_close(store);
    return whole;
}

static size_t holes;

static void one_copy(writing *w, const char *from, const char *to, uint64_t *rng)
{
    uint64_t told = get64(&w->b->told), last, after;
    copy_file(from, to, rng);
    if (!must_be_prefix(&w->s, to, MS_LOG_READ, told, &last)) {
        holes++;
        return;
    }
    ms_log_desc desc;
    ms_log_report report;
    ms_error err;
    memset(&desc, 0, sizeof desc);
    desc.path = to;
    if (ms_log_verify(&desc, &report, &err) != MS_OK)
        fail_msg("a copy, verify: %s", err.message);
    assert_int_equal(report.messages, last);
    if (test_one_in(rng, 2)) return;
    assert_true(must_be_prefix(&w->s, to, MS_LOG_WRITE, last, &after));
    assert_true(must_be_prefix(&w->s, to, MS_LOG_READ, after, &last));
}

static void copies_of_a_growing_file_are_whole(void **state)
{
    char folder[300], path[320], copy[320];
    uint64_t rng = test_seed();
    size_t copies = 0;
    double until = now_ms() + 10.0 * test_scale();
    size_t each = test_scale() < 100 ? 10 : 30;
    board *b = board_new();
    (void)state;
    folder_make(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/log.msl", folder);
    snprintf(copy, sizeof copy, "%s/copy.msl", folder);
    for (uint32_t round = 0; round < 2 || now_ms() < until; round++) {
        writing w;
        memset(&w, 0, sizeof w);
        unlink(path);
        set64(&b->told, 0);
        set32(&b->stop, 0);
        w.b = b;
        w.s = scribe_of_round(round);
        w.rng = test_random(&rng);
        w.store = open_writer(path, &rng, round % 2 ? MS_ENGINE_MAP : MS_ENGINE_WRITE);
        if (pthread_create(&w.thread, NULL, thread_writes, &w) != 0) abort();
        for (size_t i = 0; i < each; i++, copies++) one_copy(&w, path, copy, &rng);
        set32(&b->stop, 1);
        pthread_join(w.thread, NULL);
        if (w.fault != NULL) fail_msg("the writer: %s", w.fault);
        ms_close(w.store);
    }
    printf("%zu of %zu copies have a hole\n", holes, copies);
    assert_true(holes * 20 <= copies);
    test_tally("copies of a growing file", copies);
    munmap(b, sizeof *b);
    folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_see_order_whole_batches_and_all_that_was_told),
        cmocka_unit_test(copies_of_a_growing_file_are_whole),
    };
    scribe_page();
    test_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
