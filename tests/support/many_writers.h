/* Several writers of one store: threads, processes, handles.
 *
 * Writer w appends the numbers from (w << SHIFT) + 1 on (see numbered_messages.h), so
 * that a reading shows of each writer what is lost, torn, doubled or out of order.
 * Writers share memory, and note there what an append has returned for (acked): that must
 * be there, under that sequence number, whichever writer was killed.
 *
 *     many_writers c;
 *     board *b = board_new();
 *     writers_begin(&c, MS_ENGINE_MAP, 800);
 *     for (size_t w = 0; w < 4; w++) children[w] = start(&c, b, w, appends, 1500);
 *     set(&b->go);
 *     for (size_t w = 0; w < 4; w++) wait_for(children[w], b);
 *     must_stand(&c, b, true);
 *     writers_end(&c, b);
 *
 * What children and threads do asserts nothing: they complain, and the test asserts.
 */

#ifndef MANY_WRITERS_H
#define MANY_WRITERS_H

#include "open_logs.h"

#include <pthread.h>

enum { MOST_WRITERS = 10, SHIFT = 16, SEQS = (MOST_WRITERS << SHIFT) + 64,
       PATIENCE = 20000 };

/* A store with several writers, and the description of its log. */
typedef struct many_writers {
    scribe s;
    test_store at;
    ms_os os;
    uint64_t damage;          /* events that must not come */
} many_writers;

/* Notes of the writers, in memory that outlives them. */
typedef struct board {
    uint64_t acked[MOST_WRITERS]; /* the last number that an append has returned for */
    uint64_t longest_us[MOST_WRITERS];
    uint64_t read;            /* messages, by readers; atomic */
    int step, go, stop;
    int pace;                 /* microseconds between two appends; 0: at once */
    int failed;
    char wrong[300];          /* empty: nothing */
    uint64_t seqs[SEQS];      /* sequence number of each number; 0: not acked */
} board;

/* The work of a writer, in a thread or a process; reports what is wrong. */
typedef void work(const many_writers *c, board *b, ms_store *store, size_t w,
                  uint64_t goal);

static inline board *board_new(void)
{
    void *memory = mmap(NULL, sizeof(board), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) abort();
    return (board *)memory;
}

static inline void board_free(board *b) { munmap(b, sizeof *b); }

/* As new, where only two writers have appended a little. */
static inline void board_reset(board *b)
{
    memset(b, 0, offsetof(board, seqs));
    memset(b->seqs, 0, 200 * sizeof b->seqs[0]);
    memset(&b->seqs[1 << SHIFT], 0, 200 * sizeof b->seqs[0]);
}

/* Notes the first thing that is wrong. */
static inline bool complain(board *b, size_t w, const char *what, const char *why)
{
    if (!__atomic_exchange_n(&b->failed, 1, __ATOMIC_ACQ_REL))
        snprintf(b->wrong, sizeof b->wrong, "writer %zu: %s: %s", w, what, why);
    return false;
}

static inline void nothing_wrong(const board *b)
{
    if (b->failed) fail_msg("%s", b->wrong);
}

static inline bool is_set(const int *flag) { return __atomic_load_n(flag, __ATOMIC_ACQUIRE); }
static inline void set(int *flag) { __atomic_store_n(flag, 1, __ATOMIC_RELEASE); }

static inline uint64_t acked_by(const board *b, size_t w)
{
    return __atomic_load_n(&b->acked[w], __ATOMIC_ACQUIRE);
}

static inline void count_damage(void *ctx, const ms_log_event *event)
{
    uint64_t *damage = (uint64_t *)ctx;
    *damage += event->kind == MS_LOG_DAMAGE || event->kind == MS_LOG_INDEX_DAMAGE;
}

static inline int64_t fixed_time(void *ctx)
{
    return SECONDS(1700000000);
}

/* Makes a shared log in a new folder; longest: bytes of a content. */
static inline void writers_begin(many_writers *c, ms_log_engine engine, size_t longest)
{
    memset(c, 0, sizeof *c);
    c->s.salt = test_seed();
    c->s.longest = longest;
    c->os = os_without_sync();
    c->at = log_at(MS_LOG_SEGMENT_MIN, engine);
    c->at.log.shared = c->at.log.keep_unset_times = true;
    c->at.log.lock_wait_ms = PATIENCE;
    c->at.log.os = &c->os;
    c->at.log.clock.now = fixed_time;
    c->at.log.events.event = count_damage;
    c->at.log.events.ctx = &c->damage;
}

/* b may be NULL. */
static inline void writers_end(many_writers *c, board *b)
{
    if (b != NULL) board_free(b);
    assert_int_equal(c->damage, 0);
    store_close(&c->at);
}

static inline ms_log_desc desc_of(const many_writers *c, ms_log_mode mode)
{
    ms_log_desc desc = c->at.log;
    desc.mode = mode;
    if (mode != MS_LOG_READ) return desc;
    desc.shared = false;
    desc.engine = MS_ENGINE_AUTO;
    desc.sync = MS_SYNC_NONE;
    return desc;
}

static inline ms_store *must_open(const many_writers *c, ms_log_mode mode)
{
    test_store s = c->at;
    s.log = desc_of(c, mode);
    log_open(&s);
    return s.store;
}


/* ---- reading what the writers have written ---- */

typedef struct roll {
    uint64_t last[MOST_WRITERS];     /* number of each writer's last message; from 1 */
    uint64_t count, last_seq, last_number;
    ms_result result;         /* of the cursor */
    char wrong[200];
} roll;

static inline bool roll_wrong(roll *r, const char *what, uint64_t n)
{
    snprintf(r->wrong, sizeof r->wrong, "%s (writer %llu, number %llu)", what,
             (unsigned long long)(n >> SHIFT), (unsigned long long)(n & 0xffff));
    return false;
}

static inline bool roll_add(roll *r, const scribe *s, const ms_msg *msg,
                            const uint64_t *seqs)
{
    const char *fault;
    uint64_t first, n = scribe_number(s, msg, &fault), w = n >> SHIFT;
    if (n == 0 || w >= MOST_WRITERS)
        return roll_wrong(r, n == 0 ? fault : "no writer", n);
    if ((n & 0xffff) != r->last[w] + 1) return roll_wrong(r, "a hole, or twice", n);
    if (ms_seq(msg) <= r->last_seq) return roll_wrong(r, "order of sequence", n);
    if (seqs != NULL && seqs[n] != 0 && seqs[n] != ms_seq(msg))
        return roll_wrong(r, "another sequence number than acked", n);
    scribe_group(s, n, &first);
    if (n != first && (r->last_number != n - 1 || r->last_seq + 1 != ms_seq(msg)))
        return roll_wrong(r, "a batch with something in it", n);
    r->last[w]++;
    r->count++;
    r->last_number = n;
    r->last_seq = ms_seq(msg);
    return true;
}

/* Reads a cursor to its end, which is no place inside of a batch. */
static inline bool roll_drain(roll *r, const scribe *s, ms_cursor *it,
                              const uint64_t *seqs)
{
    const ms_msg *msg;
    bool fine = true;
    while (fine && (msg = ms_next(it)) != NULL) fine = roll_add(r, s, msg, seqs);
    r->result = ms_cursor_close(it, NULL);
    if (!fine) return false;
    if (r->result != MS_OK) return roll_wrong(r, ms_result_text(r->result), 0);
    for (uint64_t w = 0; w < MOST_WRITERS; w++)
        if (r->last[w] > 0 && !scribe_ends(s, (w << SHIFT) + r->last[w]))
            return roll_wrong(r, "a torn batch", (w << SHIFT) + r->last[w]);
    return true;
}

/* Reads on after what was read before. */
static inline bool roll_read(roll *r, const scribe *s, ms_store *store,
                             const uint64_t *seqs)
{
    ms_cursor it;
    ms_query q = query_of(no_str(), 0);
    q.after_seq = r->last_seq;
    r->result = ms_query_open(store, &q, &it, NULL);
    if (r->result != MS_OK) return roll_wrong(r, "the query failed", 0);
    return roll_drain(r, s, &it, seqs);
}

/* Returns whether the log has all acknowledged appends. exact: and no more; else at most
 * one append more of each writer. */
static inline bool roll_holds(roll *r, const scribe *s, const uint64_t *acked, bool exact)
{
    for (uint64_t w = 0; w < MOST_WRITERS; w++) {
        uint64_t first, n = (w << SHIFT) + acked[w];
        uint64_t more = exact ? 0 : scribe_group(s, n + 1, &first);
        if (r->last[w] < acked[w]) return roll_wrong(r, "what was acked is not there", n);
        if (r->last[w] > acked[w] + more) return roll_wrong(r, "more than was written", n);
    }
    return true;
}

static inline void must_hold(const many_writers *c, const board *b, ms_store *store,
                             bool exact, roll *r)
{
    memset(r, 0, sizeof *r);
    if (!roll_read(r, &c->s, store, b->seqs) || !roll_holds(r, &c->s, b->acked, exact))
        fail_msg("%s", r->wrong);
    assert_int_equal(c->damage, 0);
}

static inline void must_verify(const many_writers *c, uint64_t messages)
{
    ms_log_desc desc = desc_of(c, MS_LOG_READ);
    ms_log_report report;
    must_give(MS_OK, ms_log_verify(&desc, &report, NULL));
    assert_int_equal(report.messages, messages);
    assert_int_equal(report.damaged + report.index_damaged, 0);
}

/* By a fresh reader, by a fresh shared writer, by the walk over the file. */
static inline void must_stand(const many_writers *c, const board *b, bool exact)
{
    roll r;
    ms_store *store = must_open(c, MS_LOG_READ);
    must_hold(c, b, store, exact, &r);
    ms_close(store);
    store = must_open(c, MS_LOG_WRITE);
    must_hold(c, b, store, exact, &r);
    must_give(MS_OK, ms_selfcheck(store, NULL));
    ms_close(store);
    must_verify(c, r.count);
}


/* ---- writing ---- */

/* Writer w appends what comes next. */
static inline ms_result append_next(const many_writers *c, board *b, ms_store *store,
                                    size_t w, ms_error *err)
{
    size_t count;
    double begin = now_ms();
    uint64_t n = ((uint64_t)w << SHIFT) + b->acked[w] + 1;
    ms_result result = scribe_append(&c->s, store, n, b->seqs, &count, err);
    uint64_t us = (uint64_t)((now_ms() - begin) * 1000);
    if (us > b->longest_us[w]) b->longest_us[w] = us;
    if (result == MS_OK)
        __atomic_store_n(&b->acked[w], b->acked[w] + count, __ATOMIC_RELEASE);
    return result;
}

/* Returns whether writer w itself reads each message whose append has returned. */
static inline bool has_own(const many_writers *c, board *b, ms_store *store, size_t w)
{
    const ms_msg *msg;
    const char *fault = "another message";
    uint64_t n = ((uint64_t)w << SHIFT) + b->acked[w];
    ms_result result = ms_get_by_seq(store, b->seqs[n], NULL, &msg, NULL);
    if (result != MS_OK) return complain(b, w, "its own message", ms_result_text(result));
    return scribe_number(&c->s, msg, &fault) == n ||
           complain(b, w, "its own message", fault);
}

/* A work: appends until there are so many (0: until it is stopped). A writer that was
 * killed continues after its messages in the log. */
static inline void appends(const many_writers *c, board *b, ms_store *store, size_t w,
                           uint64_t goal)
{
    ms_error err;
    roll r;
    uint64_t first, n = ((uint64_t)w << SHIFT) + b->acked[w] + 1;
    memset(&r, 0, sizeof r);
    if (!roll_read(&r, &c->s, store, NULL)) complain(b, w, "going on", r.wrong);
    uint64_t most = b->acked[w] + scribe_group(&c->s, n, &first);
    if (r.last[w] < b->acked[w]) complain(b, w, "going on", "what was acked is lost");
    if (r.last[w] > most) complain(b, w, "going on", "more than was written");
    __atomic_store_n(&b->acked[w], r.last[w], __ATOMIC_RELEASE);
    while (goal != 0 ? b->acked[w] < goal : !is_set(&b->stop) && b->acked[w] < 60000) {
        if (is_set(&b->failed)) return;
        if (append_next(c, b, store, w, &err) != MS_OK)
            complain(b, w, "append", err.message);
        else if (b->acked[w] % 8 == 0) has_own(c, b, store, w);
        if (b->acked[w] % 32 == 0 && ms_tick(store, 20, &err) != MS_OK)
            complain(b, w, "tick", err.message);
        if (b->pace != 0) pause_us((uint64_t)b->pace);
    }
}

/* A work: appends messages of the same keys as the others, in an order of its own. */
static inline void repeats_keys(const many_writers *c, board *b, ms_store *store,
                                size_t w, uint64_t keys)
{
    ms_error err;
    uint64_t seq, rng = c->s.salt + w;
    for (uint64_t i = 0; i < 4 * keys && !is_set(&b->failed); i++) {
        char key[32];
        uint64_t none = 0, k = i < 3 * keys ? test_below(&rng, keys) : i % keys;
        snprintf(key, sizeof key, "key-%llu", (unsigned long long)k);
        ms_envelope m = ms_observation(ms_text(key), ms_str_of(NULL));
        m.key = ms_str_of(key);
        if (ms_append(store, MS_STR("job"), &m, &seq, &err) != MS_OK)
            complain(b, w, "a repeated key", err.message);
        else if (!__atomic_compare_exchange_n(&b->seqs[k], &none, seq, false,
                                              __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) &&
                 none != seq)
            complain(b, w, "a repeated key", "two sequence numbers");
        m.content = ms_text("other");
        if (i % 8 == 0 &&
            ms_append(store, MS_STR("job"), &m, NULL, NULL) != MS_E_KEY_REUSED)
            complain(b, w, "a key with other content", "accepted");
    }
}

/* Reads the number in the last message of "job", and its sequence number. */
static inline bool last_number(ms_store *store, uint64_t *number, uint64_t *seq)
{
    ms_query q = query_of(MS_STR("job"), 0);
    ms_cursor it;
    char text[24] = "0";
    q.limit = 1;
    *seq = 0;
    if (ms_query_open(store, &q, &it, NULL) != MS_OK) return false;
    const ms_msg *msg = ms_next(&it);
    if (msg != NULL) {
        ms_str content = ms_content(msg).text;
        *seq = ms_seq(msg);
        memcpy(text, content.ptr, content.len < 23 ? content.len : 23);
    }
    *number = strtoull(text, NULL, 10);
    return ms_cursor_close(&it, NULL) == MS_OK;
}

/* A work: adds one to the number in the last message, compare and append. Conflicts are
 * counted in b->step. */
static inline void counts_up(const many_writers *c, board *b, ms_store *store, size_t w,
                             uint64_t goal)
{
    ms_error err;
    ms_append_opts opts = {.location = MS_STR("job"), .expect = true};
    for (uint64_t done = 0; done < goal && !is_set(&b->failed);) {
        char text[24];
        uint64_t number = 0;
        if (!last_number(store, &number, &opts.expect_seq)) complain(b, w, "reading", "");
        snprintf(text, sizeof text, "%llu", (unsigned long long)number + 1);
        ms_envelope m = ms_observation(ms_text(text), ms_str_of(NULL));
        if (done % 16 == w) pause_us(20); /* somebody comes between */
        ms_result result = ms_append_batch(store, &m, 1, &opts, &err);
        done += result == MS_OK;
        if (result == MS_E_CONFLICT) __atomic_add_fetch(&b->step, 1, __ATOMIC_ACQ_REL);
        else if (result != MS_OK) complain(b, w, "counting", err.message);
        (void)ms_append(store, MS_STR("elsewhere"), &m, NULL, NULL);
    }
}

/* Checks that the messages of "job" are the numbers 1 to n. */
static inline void must_have_counted(ms_store *store, uint64_t n)
{
    ms_query q = query_of(MS_STR("job"), 0);
    ms_cursor it;
    uint64_t found = 0;
    EACH (msg, store, &q, &it) {
        char text[24];
        snprintf(text, sizeof text, "%llu", (unsigned long long)++found);
        assert_true(ms_str_equal(ms_content(msg).text, ms_str_of(text)));
    }
    assert_int_equal(found, n);
}


/* ---- processes ---- */

/* A child opens the log when the board has `go`, does its work, closes. */
static inline pid_t start_as(const many_writers *c, board *b, size_t w, ms_log_mode mode,
                             work *does, uint64_t goal)
{
    pid_t child = fork_child();
    if (child != 0) return child;
    ms_log_desc desc = desc_of(c, mode);
    ms_store *store;
    ms_error err;
    desc.segment_size <<= w % 3;
    desc.ticked = w % 2 == 1;
    while (!is_set(&b->go)) continue;
    if (ms_log_open(&store, &desc, &err) != MS_OK) {
        complain(b, w, "open", err.message);
        _exit(1);
    }
    does(c, b, store, w, goal);
    ms_close(store);
    _exit(0);
}

static inline pid_t start(const many_writers *c, board *b, size_t w, work *does,
                          uint64_t goal)
{
    return start_as(c, b, w, MS_LOG_CREATE, does, goal);
}

static inline void wait_for(pid_t child, const board *b)
{
    int status;
    waitpid(child, &status, 0);
    nothing_wrong(b);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("a child ended with status %d", status);
}


/* ---- threads ---- */

typedef struct worker {
    pthread_t thread;
    const many_writers *c;
    board *b;
    ms_store *store;
    size_t w;
    work *does;
    uint64_t goal;
} worker;

static inline void *worker_run(void *arg)
{
    const worker *k = (const worker *)arg;
    k->does(k->c, k->b, k->store, k->w, k->goal);
    return NULL;
}

/* n threads do the same work on one store, as the writers from w on. */
static inline void workers_start(worker *k, size_t n, const many_writers *c, board *b,
                                 ms_store *store, size_t w, work *does, uint64_t goal)
{
    for (size_t i = 0; i < n; i++) {
        worker one = {0, c, b, store, w + i, does, goal};
        k[i] = one;
        if (pthread_create(&k[i].thread, NULL, worker_run, &k[i]) != 0) abort();
    }
}

static inline void workers_join(worker *k, size_t n)
{
    for (size_t i = 0; i < n; i++) pthread_join(k[i].thread, NULL);
}

#endif /* MANY_WRITERS_H */
