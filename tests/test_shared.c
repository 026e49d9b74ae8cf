/* Several writers on one log: processes, handles, threads.
 *
 * Writer w of a crowd appends the numbers from (w << SHIFT) + 1 on (see logs.h), so that
 * a reading tells of each writer what is lost, torn, doubled or out of order, without
 * being told what was written. Writers note in memory that they share what an append has
 * returned for: that must be there, under that sequence number, whoever was killed. Where
 * handles take turns in one process, an arena store that is told the same is the oracle;
 * a disk in memory is cut as in test_crash.
 *
 * At MS_TEST_SCALE=100: 4 x 1,500 appends with each engine, 60 random kills, the end at
 * every third file operation, 120 images of a power cut. At 1000 ten times as many, and
 * every file operation.
 */

#define _GNU_SOURCE
#include "logs.h"

#include <pthread.h>

enum { CROWD = 6, SHIFT = 16, SEQS = (CROWD << SHIFT) + 64, PATIENCE = 20000 };

/* A log that several write to. */
typedef struct crowd {
    scribe s;
    char folder[300], path[340];
    ms_os os;
    ms_log_engine engine;
    ms_sync_mode sync;
    size_t segment;
    uint32_t wait_ms;
    uint64_t damage;          /* events that must not come */
} crowd;

/* What writers tell, in memory that outlives them. */
typedef struct board {
    uint64_t told[CROWD];     /* the last number that an append has returned for */
    uint64_t longest_us[CROWD];
    uint64_t calls;           /* file operations of a child that came to its end */
    int step, go, stop;
    int pace;                 /* microseconds between two appends; 0: at once */
    int failed;
    char wrong[300];          /* empty: nothing */
    uint64_t seqs[SEQS];      /* sequence number of each number; 0: not told */
} board;

static board *board_new(void)
{
    void *memory = mmap(NULL, sizeof(board), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) abort();
    return (board *)memory;
}

static void board_free(board *b) { munmap(b, sizeof *b); }

/* As new, where only two writers have appended a little. */
static void board_reset(board *b)
{
    memset(b, 0, offsetof(board, seqs));
    memset(b->seqs, 0, 200 * sizeof b->seqs[0]);
    memset(&b->seqs[1 << SHIFT], 0, 200 * sizeof b->seqs[0]);
}

/* Notes the first thing that is wrong. Of writers; asserts nothing. */
static bool complain(board *b, size_t who, const char *what, const char *why)
{
    if (!__atomic_exchange_n(&b->failed, 1, __ATOMIC_ACQ_REL))
        snprintf(b->wrong, sizeof b->wrong, "writer %zu: %s: %s", who, what, why);
    return false;
}

static void nothing_wrong(const board *b)
{
    if (b->failed) fail_msg("%s", b->wrong);
}

static bool is_set(const int *flag) { return __atomic_load_n(flag, __ATOMIC_ACQUIRE); }
static void set(int *flag) { __atomic_store_n(flag, 1, __ATOMIC_RELEASE); }

static void pause_us(uint64_t us)
{
    struct timespec t;
    t.tv_sec = (time_t)(us / 1000000);
    t.tv_nsec = (long)(us % 1000000) * 1000;
    nanosleep(&t, NULL);
}

static void on_event(void *ctx, const ms_log_event *event)
{
    crowd *c = (crowd *)ctx;
    if (event->kind == MS_LOG_DAMAGE || event->kind == MS_LOG_INDEX_DAMAGE) c->damage++;
}

static int64_t fixed_time(void *ctx)
{
    (void)ctx;
    return SECONDS(1700000000);
}

static ms_log_desc desc_of(crowd *c, ms_log_mode mode)
{
    ms_log_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.path = c->path;
    desc.mode = mode;
    desc.shared = mode != MS_LOG_READ;
    desc.lock_wait_ms = c->wait_ms;
    desc.engine = mode == MS_LOG_READ ? MS_ENGINE_AUTO : c->engine;
    desc.sync = mode == MS_LOG_READ ? MS_SYNC_NONE : c->sync;
    desc.segment_size = c->segment;
    desc.keep_unset_times = true;
    desc.os = &c->os;
    desc.clock.now = fixed_time;
    desc.events.event = on_event;
    desc.events.ctx = c;
    return desc;
}

static void crowd_begin(crowd *c, ms_log_engine engine, size_t longest)
{
    memset(c, 0, sizeof *c);
    c->s.salt = test_seed();
    c->s.longest = longest;
    folder_make(c->folder, sizeof c->folder);
    snprintf(c->path, sizeof c->path, "%s/log.msl", c->folder);
    c->os = os_without_sync();
    c->engine = engine;
    c->segment = MS_LOG_SEGMENT_MIN;
    c->wait_ms = PATIENCE;
}

static void crowd_end(crowd *c) { folder_remove(c->folder); }

static ms_store *must_open(crowd *c, ms_log_mode mode)
{
    ms_log_desc desc = desc_of(c, mode);
    ms_store *store;
    ms_error err;
    ms_result result = ms_log_open(&store, &desc, &err);
    if (result != MS_OK) fail_msg("open: %s: %s", ms_result_text(result), err.message);
    return store;
}

/* Not shared: alone, or not at all. */
static ms_result open_alone(crowd *c, ms_store **store, ms_error *err)
{
    ms_log_desc desc = desc_of(c, MS_LOG_WRITE);
    desc.shared = false;
    desc.lock_wait_ms = 0;
    return ms_log_open(store, &desc, err);
}


/* ---- reading what a crowd has written ---- */

typedef struct roll {
    uint64_t last[CROWD];     /* number of each writer's last message; from 1 */
    uint64_t count, last_seq, last_number;
    char wrong[200];
} roll;

static bool roll_wrong(roll *r, const char *what, uint64_t n)
{
    snprintf(r->wrong, sizeof r->wrong, "%s (writer %llu, number %llu)", what,
             (unsigned long long)(n >> SHIFT), (unsigned long long)(n & 0xffff));
    return false;
}

static bool roll_add(roll *r, const crowd *c, const ms_msg *msg, const uint64_t *seqs)
{
    const char *fault;
    uint64_t first, n = scribe_number(&c->s, msg, &fault), w = n >> SHIFT;
    if (n == 0 || w >= CROWD) return roll_wrong(r, n == 0 ? fault : "who?", n);
    if ((n & 0xffff) != r->last[w] + 1) return roll_wrong(r, "a hole, or twice", n);
    if (ms_seq(msg) <= r->last_seq) return roll_wrong(r, "order of sequence", n);
    if (seqs != NULL && seqs[n] != 0 && seqs[n] != ms_seq(msg))
        return roll_wrong(r, "another sequence number than told", n);
    scribe_group(&c->s, n, &first);
    if (n != first && (r->last_number != n - 1 || r->last_seq + 1 != ms_seq(msg)))
        return roll_wrong(r, "a batch with something in it", n);
    r->last[w]++;
    r->count++;
    r->last_number = n;
    r->last_seq = ms_seq(msg);
    return true;
}

/* Reads on behind what was read before, to a place where no batch is torn. */
static bool roll_read(roll *r, const crowd *c, ms_store *store, const uint64_t *seqs)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    bool fine = true;
    memset(&q, 0, sizeof q);
    q.after_seq = r->last_seq;
    if (ms_query_open(store, &q, &it, NULL) != MS_OK)
        return roll_wrong(r, "the query failed", 0);
    while (fine && (msg = ms_next(&it)) != NULL) fine = roll_add(r, c, msg, seqs);
    ms_result result = ms_cursor_close(&it, NULL);
    if (!fine) return false;
    if (result != MS_OK) return roll_wrong(r, ms_result_text(result), 0);
    for (uint64_t w = 0; w < CROWD; w++)
        if (r->last[w] > 0 && !scribe_ends(&c->s, (w << SHIFT) + r->last[w]))
            return roll_wrong(r, "a torn batch", (w << SHIFT) + r->last[w]);
    return true;
}

/* Everything told is there, and of each writer at most one append more. */
static void must_hold(crowd *c, board *b, ms_store *store, bool exact, roll *r)
{
    memset(r, 0, sizeof *r);
    if (!roll_read(r, c, store, b->seqs)) fail_msg("%s", r->wrong);
    for (uint64_t w = 0; w < CROWD; w++) {
        uint64_t first, told = b->told[w];
        size_t more = scribe_group(&c->s, (w << SHIFT) + told + 1, &first);
        if (r->last[w] < told || r->last[w] > told + (exact ? 0 : more))
            fail_msg("writer %d has %d messages, %d were told", (int)w, (int)r->last[w],
                     (int)told);
    }
    if (c->damage != 0) fail_msg("damage was reported");
}

static ms_log_report must_verify(crowd *c, uint64_t messages)
{
    ms_log_desc desc = desc_of(c, MS_LOG_READ);
    ms_log_report report;
    ms_error err;
    if (ms_log_verify(&desc, &report, &err) != MS_OK) fail_msg("verify: %s", err.message);
    assert_int_equal(report.messages, messages);
    assert_int_equal(report.damaged + report.index_damaged, 0);
    return report;
}

/* How many times a writer had to make the place for records clean: the epoch in the head. */
static unsigned epoch_of(const crowd *c)
{
    unsigned char word[4];
    FILE *f = fopen(c->path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 1184, SEEK_SET), 0);
    assert_int_equal(fread(word, 1, 4, f), 4);
    assert_int_equal(fclose(f), 0);
    return word[0] | (unsigned)word[1] << 8;
}

/* By a fresh reader, by a fresh shared writer, by the walk over the file. */
static void must_stand(crowd *c, board *b, bool exact)
{
    roll r;
    ms_store *store = must_open(c, MS_LOG_READ);
    must_hold(c, b, store, exact, &r);
    ms_close(store);
    store = must_open(c, MS_LOG_WRITE);
    must_hold(c, b, store, exact, &r);
    assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
    ms_close(store);
    must_verify(c, r.count);
}


/* ---- writing ---- */

/* So many numbers, scaled; as many as a writer has at most. */
static uint64_t numbers(size_t n)
{
    uint64_t times = test_times(n);
    return times < 60000 ? times : 60000;
}

/* Writer w appends what comes next. */
static ms_result append_next(const crowd *c, board *b, ms_store *store, size_t w,
                             ms_error *err)
{
    size_t count;
    double begin = now_ms();
    uint64_t n = ((uint64_t)w << SHIFT) + b->told[w] + 1;
    ms_result result = scribe_append(&c->s, store, n, b->seqs, &count, err);
    uint64_t us = (uint64_t)((now_ms() - begin) * 1000);
    if (us > b->longest_us[w]) b->longest_us[w] = us;
    if (result == MS_OK)
        __atomic_store_n(&b->told[w], b->told[w] + count, __ATOMIC_RELEASE);
    return result;
}

/* Until so many are there (0: until it is stopped). */
static bool append_until(const crowd *c, board *b, ms_store *store, size_t w,
                         uint64_t goal)
{
    ms_error err;
    while (goal != 0 ? b->told[w] < goal : !is_set(&b->stop) && b->told[w] < 60000) {
        if (append_next(c, b, store, w, &err) != MS_OK)
            return complain(b, w, "append", err.message);
        if (b->told[w] % 32 == 0 && ms_tick(store, 20, &err) != MS_OK)
            return complain(b, w, "tick", err.message);
        if (b->pace != 0) pause_us((uint64_t)b->pace);
    }
    return true;
}

/* A writer that was killed before goes on behind what the log has of it. */
static bool take_up(crowd *c, board *b, ms_store *store, size_t w)
{
    roll r;
    uint64_t first, told = b->told[w];
    memset(&r, 0, sizeof r);
    if (!roll_read(&r, c, store, b->seqs)) return complain(b, w, "take up", r.wrong);
    size_t more = scribe_group(&c->s, ((uint64_t)w << SHIFT) + told + 1, &first);
    if (r.last[w] < told) return complain(b, w, "take up", "what was told is lost");
    if (r.last[w] > told + more) return complain(b, w, "take up", "nobody wrote that");
    b->told[w] = r.last[w];
    return true;
}

static void child_writes(crowd *c, board *b, size_t w, uint64_t goal)
{
    ms_log_desc desc = desc_of(c, MS_LOG_CREATE);
    ms_store *store;
    ms_error err;
    desc.segment_size = c->segment << w % 3;
    desc.ticked = w % 2 == 1;
    while (!is_set(&b->go)) continue;
    if (ms_log_open(&store, &desc, &err) != MS_OK) {
        complain(b, w, "open", err.message);
        _exit(1);
    }
    if (take_up(c, b, store, w)) append_until(c, b, store, w, goal);
    ms_close(store);
    _exit(0);
}

static pid_t start(crowd *c, board *b, size_t w, uint64_t goal)
{
    pid_t child = fork_child();
    if (child == 0) child_writes(c, b, w, goal);
    return child;
}

static void wait_for(pid_t child, const board *b)
{
    int status;
    waitpid(child, &status, 0);
    nothing_wrong(b);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("a child ended with status %d", status);
}

/* ---- many processes ---- */

/* A reader follows until the last child has ended. */
static void follow(crowd *c, board *b, const pid_t *children, size_t n)
{
    ms_store *reader = NULL;
    ms_log_desc desc = desc_of(c, MS_LOG_READ);
    roll r;
    size_t looks = 0;
    memset(&r, 0, sizeof r);
    for (size_t ended = 0; ended < n;) {
        uint64_t told[CROWD];
        memcpy(told, b->told, sizeof told);
        if (reader == NULL && ms_log_open(&reader, &desc, NULL) != MS_OK) reader = NULL;
        if (reader != NULL && !roll_read(&r, c, reader, NULL)) fail_msg("%s", r.wrong);
        for (size_t w = 0; w < n && reader != NULL; w++)
            if (r.last[w] < told[w]) fail_msg("a reader does not see what was told");
        looks++;
        siginfo_t info;
        info.si_pid = 0;
        waitid(P_PID, (id_t)children[ended], &info, WEXITED | WNOHANG | WNOWAIT);
        if (info.si_pid != 0) ended++;
        pause_us(500);
    }
    assert_true(looks > 0);
    ms_close(reader);
}

static void many_processes(void **state)
{
    enum { MANY = 4 };
    crowd c;
    board *b = board_new();
    pid_t children[MANY];
    uint64_t goal = numbers(1500), most = 0;
    crowd_begin(&c, *(const ms_log_engine *)*state, 800);
    for (size_t w = 0; w < MANY; w++) children[w] = start(&c, b, w, goal);
    set(&b->go); /* all of them create the file */
    follow(&c, b, children, MANY);
    for (size_t w = 0; w < MANY; w++) {
        wait_for(children[w], b);
        if (b->longest_us[w] > most) most = b->longest_us[w];
    }
    must_stand(&c, b, true);
    ms_store *store = must_open(&c, MS_LOG_READ);
    ms_log_info info;
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    ms_close(store);
    printf("%d writers: %llu segments, %llu summaries, slowest append %llu us\n", MANY,
           (unsigned long long)info.segments, (unsigned long long)info.summaries,
           (unsigned long long)most);
    if (test_scale() >= 100) assert_true(info.summaries >= 2);
    board_free(b);
    crowd_end(&c);
}

/* Whoever asks for it gets the lock now and then, whatever the others do. */
static void each_gets_its_share(void **state)
{
    enum { MANY = 3 };
    crowd c;
    board *b = board_new();
    pid_t children[MANY];
    uint64_t sum = 0, least = UINT64_MAX;
    (void)state;
    crowd_begin(&c, MS_ENGINE_AUTO, 100);
    c.segment = 1 << 20;
    for (size_t w = 0; w < MANY; w++) children[w] = start(&c, b, w, 0);
    set(&b->go);
    pause_us(200000);
    set(&b->stop);
    for (size_t w = 0; w < MANY; w++) {
        wait_for(children[w], b);
        sum += b->told[w];
        if (b->told[w] < least) least = b->told[w];
    }
    printf("%llu appends, the slowest writer %llu of them\n", (unsigned long long)sum,
           (unsigned long long)least);
    assert_true(least * MANY * 50 >= sum);
    must_stand(&c, b, true);
    board_free(b);
    crowd_end(&c);
}


/* ---- keys, compare and append ---- */

enum { KEYS = 150 };

/* Each of several processes appends messages of the same keys, in its own order. */
static void child_repeats(crowd *c, board *b, size_t w)
{
    ms_log_desc desc = desc_of(c, MS_LOG_CREATE);
    ms_store *store;
    ms_error err;
    uint64_t seq, rng = test_seed() + w, none = 0;
    while (!is_set(&b->go)) continue;
    if (ms_log_open(&store, &desc, &err) != MS_OK) complain(b, w, "open", err.message);
    else
        for (size_t i = 0; i < 4 * KEYS; i++) {
            char key[32];
            uint64_t k = i < 3 * KEYS ? test_below(&rng, KEYS) : i % KEYS;
            snprintf(key, sizeof key, "key-%llu", (unsigned long long)k);
            ms_envelope m = ms_observation(ms_text(key), ms_str_of(NULL));
            m.key = ms_str_of(key);
            if (ms_append(store, MS_STR("job"), &m, &seq, &err) != MS_OK) {
                complain(b, w, "a repeated key", err.message);
                break;
            }
            none = 0;
            if (!__atomic_compare_exchange_n(&b->seqs[k], &none, seq, false,
                                             __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) &&
                none != seq)
                complain(b, w, "a repeated key", "two numbers");
            m.content = ms_text("other");
            if (i % 8 == 0 &&
                ms_append(store, MS_STR("job"), &m, NULL, NULL) != MS_E_KEY_REUSED)
                complain(b, w, "a key with other content", "accepted");
        }
    if (store != NULL) ms_close(store);
    _exit(0);
}

static void keys_of_all(void **state)
{
    enum { MANY = 3 };
    crowd c;
    board *b = board_new();
    pid_t children[MANY];
    ms_stat stat;
    (void)state;
    crowd_begin(&c, MS_ENGINE_AUTO, 100);
    for (size_t w = 0; w < MANY; w++) {
        children[w] = fork_child();
        if (children[w] == 0) child_repeats(&c, b, w);
    }
    set(&b->go);
    for (size_t w = 0; w < MANY; w++) wait_for(children[w], b);
    ms_store *store = must_open(&c, MS_LOG_READ);
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    assert_int_equal(stat.messages, KEYS);
    ms_close(store);
    must_verify(&c, KEYS);
    board_free(b);
    crowd_end(&c);
}

/* The number in the last message, and its sequence number. */
static bool last_number(ms_store *store, uint64_t *number, uint64_t *seq)
{
    ms_query q;
    ms_cursor it;
    char text[24] = "0";
    memset(&q, 0, sizeof q);
    q.location = MS_STR("job");
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

/* Adds one to the number in the last message, compare and append. */
static void child_counts(crowd *c, board *b, size_t w, uint64_t goal)
{
    ms_log_desc desc = desc_of(c, MS_LOG_CREATE);
    ms_store *store;
    ms_error err;
    ms_append_opts opts;
    while (!is_set(&b->go)) continue;
    if (ms_log_open(&store, &desc, &err) != MS_OK) {
        complain(b, w, "open", err.message);
        _exit(1);
    }
    memset(&opts, 0, sizeof opts);
    opts.location = MS_STR("job");
    opts.expect = true;
    for (uint64_t done = 0; done < goal && !b->failed;) {
        char text[24];
        uint64_t number = 0;
        if (!last_number(store, &number, &opts.expect_seq)) complain(b, w, "reading", "");
        snprintf(text, sizeof text, "%llu", (unsigned long long)number + 1);
        ms_envelope m = ms_observation(ms_text(text), ms_str_of(NULL));
        if (done % 16 == w) pause_us(20); /* somebody comes between */
        ms_result result = ms_append_batch(store, &m, 1, &opts, &err);
        if (result == MS_OK) b->told[w] = ++done;
        else if (result != MS_E_CONFLICT) complain(b, w, "counting", err.message);
        else b->longest_us[w]++;
    }
    ms_close(store);
    _exit(0);
}

static void compare_and_append(void **state)
{
    enum { MANY = 3 };
    crowd c;
    board *b = board_new();
    pid_t children[MANY];
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    uint64_t goal = test_times(400), n = 0;
    (void)state;
    crowd_begin(&c, MS_ENGINE_AUTO, 100);
    for (size_t w = 0; w < MANY; w++) {
        children[w] = fork_child();
        if (children[w] == 0) child_counts(&c, b, w, goal);
    }
    set(&b->go);
    for (size_t w = 0; w < MANY; w++) wait_for(children[w], b);
    uint64_t conflicts = b->longest_us[0] + b->longest_us[1] + b->longest_us[2];
    printf("%llu conflicts\n", (unsigned long long)conflicts);
    if (test_scale() >= 100) assert_true(conflicts > 0);
    ms_store *store = must_open(&c, MS_LOG_READ);
    memset(&q, 0, sizeof q);
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL) {
        char text[24];
        snprintf(text, sizeof text, "%llu", (unsigned long long)++n);
        assert_true(ms_str_equal(ms_content(msg).text, ms_str_of(text)));
    }
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    assert_int_equal(n, MANY * goal);
    ms_close(store);
    board_free(b);
    crowd_end(&c);
}


/* ---- changes by one, seen by the others: an arena store is told the same ---- */

enum { HANDLES = 3, PLACES = 3, SHOWN = 192 };

static const char *const places[PLACES] = {"job_0", "job_1", "job_2"};

typedef struct pair {
    crowd c;
    ms_store *logs[HANDLES];
    ms_store *oracle;
    ms_stream written, mirrored; /* store NULL: none open */
    ms_arena arena;
    uint64_t rng, count;
} pair;

static ms_envelope some_message(pair *p, char *text, size_t size, char *key)
{
    ms_envelope m;
    size_t used = (size_t)snprintf(text, size, "message %d ", (int)p->count);
    for (uint64_t more = test_below(&p->rng, 200); used < size - 1 && more > 0; more--)
        text[used++] = 'x';
    m = ms_observation(ms_text_n(ms_str_n(text, used)), ms_str_of(NULL));
    m.agent_key = test_one_in(&p->rng, 2) ? MS_STR("a") : MS_STR("b");
    if (test_one_in(&p->rng, 4)) {
        snprintf(key, 24, "key-%llu", (unsigned long long)test_below(&p->rng, 40));
        m.key = ms_str_of(key);
    }
    p->count++;
    return m;
}

static void same_result(const char *what, ms_result got, ms_result want)
{
    if (got != want)
        fail_msg("%s: %s, expected %s", what, ms_result_text(got), ms_result_text(want));
}

static void pair_append(pair *p, ms_store *log, ms_str at)
{
    char text[4][256], keys[4][24];
    ms_envelope batch[4];
    uint64_t got[4] = {0}, want[4] = {0};
    ms_append_opts opts;
    size_t n = test_one_in(&p->rng, 4) ? 1 + (size_t)test_below(&p->rng, 4) : 1;
    memset(&opts, 0, sizeof opts);
    opts.location = at;
    for (size_t i = 0; i < n; i++)
        batch[i] = some_message(p, text[i], sizeof text[i], keys[i]);
    opts.seqs = got;
    ms_result result = ms_append_batch(log, batch, n, &opts, NULL);
    opts.seqs = want;
    same_result("append", result, ms_append_batch(p->oracle, batch, n, &opts, NULL));
    for (size_t i = 0; i < n && result == MS_OK; i++) assert_int_equal(got[i], want[i]);
}

static void pair_hide(pair *p, ms_store *log, ms_str at, uint64_t seq)
{
    uint64_t got = 0, want = 0, last = seq + test_below(&p->rng, 4);
    ms_result result = ms_hide_range(log, at, seq, last, &got, NULL);
    same_result("hide_range", result,
                ms_hide_range(p->oracle, at, seq, last, &want, NULL));
    assert_int_equal(got, want);
}

static void pair_rewind(pair *p, ms_store *log, ms_str at, uint64_t seq)
{
    uint64_t got = 0, want = 0;
    ms_result result = ms_rewind(log, at, seq, &got, NULL);
    same_result("rewind", result, ms_rewind(p->oracle, at, seq, &want, NULL));
    assert_int_equal(got, want);
}

/* The stream belongs to the handle that began it; the others change what lies around it,
 * and at times its message. */
static void pair_stream(pair *p, ms_store *log, ms_str at)
{
    char text[256], key[24];
    ms_stream_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.every_part = true;
    opts.clock.now = fixed_time;
    ms_envelope m = some_message(p, text, sizeof text, key);
    if (p->written.store == NULL) {
        m.type = MS_T_ASSISTANT_MESSAGE;
        m.agent_key = m.key = ms_str_n(NULL, 0);
        ms_result result = ms_stream_begin(&p->written, log, at, &m, &opts, NULL);
        same_result("begin", result,
                    ms_stream_begin(&p->mirrored, p->oracle, at, &m, &opts, NULL));
        if (result != MS_OK) p->written.store = NULL;
        return;
    }
    if (!test_one_in(&p->rng, 4)) {
        ms_result result = ms_stream_feed(&p->written, m.content.text, NULL);
        same_result("feed", result, ms_stream_feed(&p->mirrored, m.content.text, NULL));
        return;
    }
    ms_result result = ms_stream_end(&p->written, NULL, NULL, NULL);
    same_result("end", result, ms_stream_end(&p->mirrored, NULL, NULL, NULL));
    p->written.store = p->mirrored.store = NULL;
}

static void pair_step(pair *p)
{
    char text[256], key[24], facts[80];
    ms_store *log = p->logs[test_below(&p->rng, HANDLES)];
    ms_str at = ms_str_of(places[test_below(&p->rng, PLACES)]);
    ms_stat stat;
    ms_result result;
    assert_int_equal(ms_store_stat(p->oracle, &stat, NULL), MS_OK);
    uint64_t seq = 1 + test_below(&p->rng, stat.last_seq + 1);
    if (test_one_in(&p->rng, 2) && stat.last_seq > 8)
        seq = stat.last_seq - test_below(&p->rng, 8);
    ms_envelope m = some_message(p, text, sizeof text, key);
    switch (test_below(&p->rng, 24)) {
    default: pair_append(p, log, at); return;
    case 0: case 1: case 2:
        m.agent_key = m.key = ms_str_n(NULL, 0);
        result = ms_amend(log, seq, &m, NULL);
        same_result("amend", result, ms_amend(p->oracle, seq, &m, NULL));
        return;
    case 3: case 4:
        result = ms_hide(log, seq, NULL);
        same_result("hide", result, ms_hide(p->oracle, seq, NULL));
        return;
    case 5: pair_hide(p, log, at, seq); return;
    case 6: pair_rewind(p, log, at, seq); return;
    case 7: case 8:
        result = ms_note(log, seq, MS_STR("rating"), m.content, NULL);
        same_result("note", result,
                    ms_note(p->oracle, seq, MS_STR("rating"), m.content, NULL));
        return;
    case 9:
        snprintf(facts, sizeof facts, "{\"count\":%d,\"f%d\":1}", (int)p->count,
                 (int)test_below(&p->rng, 5));
        result = ms_location_set(log, at, ms_str_of(facts), NULL);
        same_result("facts", result,
                    ms_location_set(p->oracle, at, ms_str_of(facts), NULL));
        return;
    case 10:
        result = ms_redact(log, seq, NULL);
        same_result("redact", result, ms_redact(p->oracle, seq, NULL));
        return;
    case 11: case 12: case 13: case 14: pair_stream(p, log, at); return;
    }
}

/* One query on both; every message the same. */
static void same_view(pair *p, ms_store *log, const ms_query *asked)
{
    const uint32_t flags = MS_FLAG_AMENDED | MS_FLAG_REDACTED | MS_FLAG_UNFINISHED;
    ms_query q = *asked;
    ms_cursor got, want;
    const ms_msg *a, *b;
    ms_arena_reset(&p->arena);
    q.arena = q.raw ? NULL : &p->arena;
    assert_int_equal(ms_query_open(log, &q, &got, NULL), MS_OK);
    assert_int_equal(ms_query_open(p->oracle, &q, &want, NULL), MS_OK);
    do {
        a = ms_next(&got);
        b = ms_next(&want);
        assert_true((a == NULL) == (b == NULL));
        if (a == NULL) break;
        assert_int_equal(ms_seq(a), ms_seq(b));
        assert_int_equal(ms_kind_of(a), ms_kind_of(b));
        if (!q.raw) assert_int_equal(ms_flags(a) & flags, ms_flags(b) & flags);
        assert_true(ms_str_equal(ms_content(a).text, ms_content(b).text));
        assert_true(ms_str_equal(test_agent_key(a), test_agent_key(b)));
    } while (a != NULL);
    assert_int_equal(ms_cursor_close(&got, NULL), MS_OK);
    assert_int_equal(ms_cursor_close(&want, NULL), MS_OK);
}

static void same_stores(pair *p, ms_store *log)
{
    ms_query q;
    ms_stat got, want;
    for (size_t i = 0; i <= PLACES; i++) {
        ms_str a, b;
        memset(&q, 0, sizeof q);
        if (i < PLACES) q.location = ms_str_of(places[i]);
        q.reverse = test_one_in(&p->rng, 2);
        if (test_one_in(&p->rng, 2)) q.limit = 10;
        same_view(p, log, &q);
        memset(&q, 0, sizeof q);
        if (i < PLACES) q.location = ms_str_of(places[i]);
        q.raw = i < PLACES ? MS_RAW_ALL & ~(unsigned)MS_RAW_PIECES : MS_RAW_ALL;
        same_view(p, log, &q);
        if (i == PLACES) break;
        ms_result one = ms_location_get(log, q.location, &p->arena, &a, NULL);
        ms_result two = ms_location_get(p->oracle, q.location, &p->arena, &b, NULL);
        assert_true(one == MS_OK && two == MS_OK && ms_str_equal(a, b));
    }
    assert_int_equal(ms_store_stat(log, &got, NULL), MS_OK);
    assert_int_equal(ms_store_stat(p->oracle, &want, NULL), MS_OK);
    assert_int_equal(got.messages, want.messages);
    assert_int_equal(got.hidden, want.hidden);
    assert_int_equal(got.changes, want.changes);
    assert_int_equal(got.last_seq, want.last_seq);
}

static void handles_take_turns(void **state)
{
    pair *p = (pair *)calloc(1, sizeof *p);
    ms_mem_desc desc;
    if (p == NULL) abort();
    crowd_begin(&p->c, *(const ms_log_engine *)*state, 300);
    p->rng = test_seed() + (uint64_t)p->c.engine;
    memset(&desc, 0, sizeof desc);
    desc.keep_unset_times = true;
    desc.clock.now = fixed_time;
    test_arena_init(&p->arena, NULL);
    assert_int_equal(ms_mem_open(&p->oracle, &desc, NULL), MS_OK);
    for (size_t i = 0; i < HANDLES; i++) p->logs[i] = must_open(&p->c, MS_LOG_CREATE);
    size_t steps = test_times(1500);
    for (size_t i = 0; i < steps; i++) {
        size_t who = (size_t)test_below(&p->rng, HANDLES);
        pair_step(p);
        if (i % 75 == 0) same_stores(p, p->logs[who]);
        if (i % 150 == 99 && p->logs[who] != p->written.store) { /* one goes, one comes */
            ms_close(p->logs[who]);
            p->logs[who] = must_open(&p->c, MS_LOG_WRITE);
        }
    }
    for (size_t i = 0; i < HANDLES; i++) {
        same_stores(p, p->logs[i]);
        assert_int_equal(ms_selfcheck(p->logs[i], NULL), MS_OK);
        ms_close(p->logs[i]);
    }
    ms_stat stat;
    assert_int_equal(ms_store_stat(p->oracle, &stat, NULL), MS_OK);
    must_verify(&p->c, stat.messages + stat.hidden);
    assert_int_equal(p->c.damage, 0);
    ms_close(p->oracle);
    ms_arena_deinit(&p->arena);
    crowd_end(&p->c);
    free(p);
}

/* A process that changes whatever there is; nobody takes turns. */
static void child_changes(crowd *c, board *b, size_t w, size_t rounds)
{
    ms_log_desc desc = desc_of(c, MS_LOG_CREATE);
    ms_store *store;
    ms_error err;
    uint64_t rng = test_seed() + 31 * w, last = 0, hidden;
    while (!is_set(&b->go)) continue;
    if (ms_log_open(&store, &desc, &err) != MS_OK) {
        complain(b, w, "open", err.message);
        _exit(1);
    }
    for (size_t i = 0; i < rounds && !b->failed; i++) {
        char text[64];
        ms_str at = ms_str_of(places[test_below(&rng, PLACES)]);
        uint64_t seq = last - test_below(&rng, last < 40 ? last + 1 : 40);
        ms_result result = MS_OK;
        snprintf(text, sizeof text, "%zu says %zu", w, i);
        ms_envelope m = ms_observation(ms_text(text), ms_str_of(NULL));
        switch (test_below(&rng, 10)) {
        default: result = ms_append(store, at, &m, &last, &err); break;
        case 0: result = ms_amend(store, seq, &m, &err); break;
        case 1: result = ms_hide(store, seq, &err); break;
        case 2: result = ms_hide_range(store, at, seq, seq + 1, &hidden, &err); break;
        case 3: result = ms_note(store, seq, MS_STR("by"), m.content, &err); break;
        case 4: result = ms_location_set(store, at, MS_STR("{\"a\":1}"), &err); break;
        }
        if (result != MS_OK && result != MS_E_HIDDEN && result != MS_E_NOT_FOUND)
            complain(b, w, "a change", err.message);
        if (result == MS_OK) b->told[w]++;
    }
    ms_close(store);
    _exit(0);
}

/* What handles show that were open all the while is what a fresh one shows. */
static void same_messages(ms_store *x, ms_store *y)
{
    for (unsigned raw = 0; raw <= MS_RAW_ALL; raw += MS_RAW_ALL) {
        ms_query q;
        ms_cursor i, k;
        const ms_msg *a, *b;
        memset(&q, 0, sizeof q);
        q.raw = raw;
        assert_int_equal(ms_query_open(x, &q, &i, NULL), MS_OK);
        assert_int_equal(ms_query_open(y, &q, &k, NULL), MS_OK);
        do {
            a = ms_next(&i);
            b = ms_next(&k);
            assert_true((a == NULL) == (b == NULL));
            if (a != NULL) assert_int_equal(ms_size(a), ms_size(b));
            if (a != NULL) assert_memory_equal(a, b, ms_size(a));
        } while (a != NULL);
        assert_int_equal(ms_cursor_close(&i, NULL), MS_OK);
        assert_int_equal(ms_cursor_close(&k, NULL), MS_OK);
    }
}

static void changes_of_all(void **state)
{
    enum { MANY = 3 };
    crowd c;
    board *b = board_new();
    pid_t children[MANY];
    ms_stat one, two;
    (void)state;
    crowd_begin(&c, MS_ENGINE_AUTO, 300);
    ms_store *old = must_open(&c, MS_LOG_CREATE);
    for (size_t w = 0; w < MANY; w++) {
        children[w] = fork_child();
        if (children[w] == 0) child_changes(&c, b, w, test_times(600));
    }
    set(&b->go);
    for (size_t i = 0; i < 20; i++) {
        assert_int_equal(ms_store_stat(old, &one, NULL), MS_OK);
        pause_us(500);
    }
    for (size_t w = 0; w < MANY; w++) wait_for(children[w], b);
    ms_store *fresh = must_open(&c, MS_LOG_READ);
    same_messages(old, fresh);
    assert_int_equal(ms_store_stat(old, &one, NULL), MS_OK);
    assert_int_equal(ms_store_stat(fresh, &two, NULL), MS_OK);
    assert_true(one.messages == two.messages && one.hidden == two.hidden &&
                one.changes == two.changes && one.hidden > 0);
    assert_int_equal(ms_selfcheck(old, NULL), MS_OK);
    assert_int_equal(ms_selfcheck(fresh, NULL), MS_OK);
    ms_close(old);
    ms_close(fresh);
    must_verify(&c, one.messages + one.hidden);
    board_free(b);
    crowd_end(&c);
}

/* A stream is fed by one process and followed by another. */
static void a_stream_is_followed(void **state)
{
    crowd c;
    board *b = board_new();
    ms_stream_text text;
    ms_arena arena;
    size_t size = 0;
    (void)state;
    crowd_begin(&c, MS_ENGINE_AUTO, 300);
    ms_store *store = must_open(&c, MS_LOG_CREATE);
    ms_envelope m = ms_user_message(ms_text("ask"));
    uint64_t seq = 0, next = 0, again = 0;
    assert_int_equal(ms_append(store, MS_STR("job"), &m, &seq, NULL), MS_OK);
    pid_t child = fork_child();
    if (child == 0) {
        ms_stream stream;
        ms_stream_opts opts;
        ms_store *own;
        ms_log_desc desc = desc_of(&c, MS_LOG_WRITE);
        memset(&opts, 0, sizeof opts);
        opts.every_part = true;
        m = ms_assistant_message(ms_text(""));
        if (ms_log_open(&own, &desc, NULL) != MS_OK ||
            ms_stream_begin(&stream, own, MS_STR("job"), &m, &opts, NULL) != MS_OK)
            _exit(1);
        for (int i = 0; i < 500; i++) {
            if (ms_stream_feed(&stream, MS_STR("0123456789"), NULL) != MS_OK) _exit(2);
            if (i % 50 == 0) pause_us(200);
        }
        if (ms_stream_end(&stream, NULL, NULL, NULL) != MS_OK) _exit(3);
        ms_close(own);
        _exit(0);
    }
    assert_int_equal(ms_wait(store, seq, PATIENCE, &again, NULL), MS_OK);
    assert_int_equal(again, seq + 1);
    test_arena_init(&arena, NULL);
    double begin = now_ms();
    do { /* and writes beside it */
        if (now_ms() - begin > PATIENCE) fail_msg("the stream does not end");
        ms_arena_reset(&arena);
        assert_int_equal(ms_append(store, MS_STR("job"), &m, NULL, NULL), MS_OK);
        ms_result result = ms_stream_read(store, seq + 1, next, &arena, &text, NULL);
        assert_int_equal(result, MS_OK);
        for (size_t i = 0; i < text.text.len; i++)
            assert_int_equal(text.text.ptr[i], '0' + (int)((size + i) % 10));
        size += text.text.len;
        next = text.next;
    } while (!text.ended);
    assert_int_equal(size, 5000);
    wait_for(child, b);
    ms_arena_deinit(&arena);
    ms_close(store);
    board_free(b);
    crowd_end(&c);
}


/* ---- writers that are killed ---- */

/* Somebody is killed again and again, the others go on. */
static uint64_t some_kills(crowd *c, board *b, uint64_t *rng)
{
    enum { MANY = 3 };
    pid_t children[MANY];
    uint64_t sum = 0;
    memset(b, 0, sizeof *b);
    unlink(c->path);
    set(&b->go);
    for (size_t w = 0; w < MANY; w++) children[w] = start(c, b, w, 0);
    for (size_t i = 0; i < 10; i++) {
        size_t w = (size_t)test_below(rng, MANY), other = (w + 1) % MANY;
        int status;
        pause_us(300 + test_below(rng, 1500));
        kill(children[w], SIGKILL);
        waitpid(children[w], &status, 0);
        uint64_t told = __atomic_load_n(&b->told[other], __ATOMIC_ACQUIRE);
        for (int k = 0; k < 20000 && !b->failed; k++, pause_us(500))
            if (__atomic_load_n(&b->told[other], __ATOMIC_ACQUIRE) != told) break;
        nothing_wrong(b);
        if (b->told[other] == told) fail_msg("after a kill the others stand still");
        children[w] = start(c, b, w, 0);
    }
    set(&b->stop);
    for (size_t w = 0; w < MANY; w++) wait_for(children[w], b);
    must_stand(c, b, true);
    for (size_t w = 0; w < MANY; w++) sum += b->told[w];
    return sum;
}

static void killed_at_random_times(void **state)
{
    crowd c;
    board *b = board_new();
    uint64_t rng = test_seed(), sum = 0;
    crowd_begin(&c, *(const ms_log_engine *)*state, 2000);
    for (size_t i = 0; i < test_times(3); i++) {
        c.s.salt = test_random(&rng);
        sum += some_kills(&c, b, &rng);
    }
    printf("%llu messages between the kills\n", (unsigned long long)sum);
    test_tally("kills at random times", 10 * test_times(3));
    board_free(b);
    crowd_end(&c);
}

/* What the killed one does: everything that touches the file. */
static void short_life(crowd *c, board *b, const ms_os *os)
{
    static char large[100000];
    ms_log_desc desc = desc_of(c, MS_LOG_CREATE);
    ms_store *store;
    ms_error err;
    desc.os = os;
    memset(large, 'y', sizeof large - 1);
    b->step = 1;
    if (ms_log_open(&store, &desc, &err) != MS_OK) {
        complain(b, 1, "open", err.message);
        _exit(3);
    }
    for (b->step = 2; b->step < 12; b->step++)
        if (append_next(c, b, store, 1, &err) != MS_OK) complain(b, 1, "", err.message);
    uint64_t seq = b->seqs[(1 << SHIFT) + 1];
    if (ms_sync(store, NULL, &err) != MS_OK) complain(b, 1, "sync", err.message);
    b->step++;
    if (ms_note(store, seq, MS_STR("large"), ms_text(large), &err) != MS_OK)
        complain(b, 1, "note", err.message);
    b->step++;
    if (ms_location_set(store, MS_STR("job_9"), MS_STR("{\"a\":1}"), &err) != MS_OK)
        complain(b, 1, "facts", err.message);
    for (int i = 0; i < 20; i++, b->step++)
        if (append_next(c, b, store, 1, &err) != MS_OK) complain(b, 1, "", err.message);
    ms_close(store);
    _exit(0);
}

/* Lets a child live that ends at call k; true when it came to its end. */
static bool live_and_end(crowd *c, board *b, trip_how how, uint64_t k)
{
    trip t;
    int status;
    pid_t child = fork_child();
    if (child == 0) {
        trip_init(&t, &c->os);
        t.how = how;
        t.at = k;
        if (how == TRIP_EXIT_HALF) t.kinds = TRIP_BIT(WRITE);
        short_life(c, b, &t.os);
    }
    waitpid(child, &status, 0);
    nothing_wrong(b);
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 9))
        fail_msg("call %d, step %d: status %d", (int)k, b->step, status);
    return WEXITSTATUS(status) == 0;
}

/* Ends the child before, inside or after call k; a writer that was there before, and one
 * that comes later, go on at once. */
static bool one_end(crowd *c, board *b, trip_how how, uint64_t k)
{
    ms_error err;
    roll r;
    board_reset(b);
    c->s.salt = test_seed() + k;
    unlink(c->path);
    ms_store *store = must_open(c, MS_LOG_CREATE);
    for (int i = 0; i < 3; i++) append_next(c, b, store, 0, NULL);
    bool whole = live_and_end(c, b, how, k);
    double begin = now_ms();
    for (int i = 0; i < 3; i++)
        if (append_next(c, b, store, 0, &err) != MS_OK)
            fail_msg("the other one, call %d, step %d: %s", (int)k, b->step, err.message);
    must_hold(c, b, store, false, &r);
    b->told[1] = r.last[1]; /* what was seen once stays */
    ms_store *later = must_open(c, MS_LOG_WRITE);
    if (append_next(c, b, later, 1, &err) != MS_OK ||
        append_next(c, b, store, 0, &err) != MS_OK)
        fail_msg("call %d, step %d: %s", (int)k, b->step, err.message);
    if (now_ms() - begin > PATIENCE / 2) fail_msg("the others had to wait");
    must_hold(c, b, store, true, &r);
    ms_close(store);
    must_hold(c, b, later, true, &r);
    ms_close(later);
    must_verify(c, r.count);
    if (k % 16 == 0) must_stand(c, b, true);
    return whole;
}

static void killed_at_every_file_operation(void **state)
{
    crowd c;
    board *b = board_new();
    uint64_t stride = test_scale() >= 1000 ? 1 : test_scale() >= 100 ? 3 : 20, k = 1;
    crowd_begin(&c, *(const ms_log_engine *)*state, 600);
    uint64_t ends = 0;
    for (int how = TRIP_EXIT_BEFORE; how <= TRIP_EXIT_AFTER; how++)
        for (k = 1 + (uint64_t)how % stride; !one_end(&c, b, (trip_how)how, k); ends++)
            k += how == TRIP_EXIT_HALF && c.engine == MS_ENGINE_MAP ? 1 : stride;
    printf("about %d file operations\n", (int)k);
    test_tally("ends at a file operation", ends);
    assert_true(k > 60);
    board_free(b);
    crowd_end(&c);
}

/* The content of a message cannot be read from its middle on, once the lock is had. */
static char *trap;
static size_t trap_at, trap_size;

static int lock_and_trap(void *ctx, ms_file file)
{
    int code = ms_os_default()->lock(ctx, file);
    if (code == 0 && trap != NULL)
        mprotect(trap + trap_at, trap_size - trap_at, PROT_NONE);
    return code;
}

static void child_is_trapped(crowd *c, bool batch)
{
    ms_store *store;
    ms_os os = c->os;
    ms_log_desc desc = desc_of(c, MS_LOG_WRITE);
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    os.lock = lock_and_trap;
    desc.os = &os;
    void *memory = mmap(NULL, trap_size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || ms_log_open(&store, &desc, NULL) != MS_OK) _exit(1);
    memset(memory, 'z', trap_size);
    ms_envelope m[2];
    m[0] = m[1] = ms_observation(ms_text_n(ms_str_n((char *)memory, trap_size)),
                                 ms_str_of(NULL));
    m[0].location = m[1].location = MS_STR("job_1");
    if (ms_append(store, m[0].location, &m[0], NULL, NULL) != MS_OK) _exit(2);
    trap = (char *)memory;
    if (batch) ms_append_batch(store, m, 2, NULL, NULL);
    else ms_append(store, m[0].location, &m[0], NULL, NULL);
    _exit(3);
}

/* Killed by the system in the middle of storing bytes, holding the lock. */
static void killed_while_storing(void **state)
{
    crowd c;
    ms_stat stat;
    (void)state;
    crowd_begin(&c, MS_ENGINE_MAP, 600);
    ms_store *store = must_open(&c, MS_LOG_CREATE);
    ms_envelope m = ms_user_message(ms_text("here"));
    for (uint64_t i = 0; i < 4; i++) {
        int status;
        trap_size = i < 2 ? 65536 : 1 << 20;
        trap_at = trap_size / 2;
        assert_int_equal(ms_append(store, MS_STR("job_1"), &m, NULL, NULL), MS_OK);
        pid_t child = fork_child();
        if (child == 0) child_is_trapped(&c, i % 2 == 1);
        waitpid(child, &status, 0);
        if (!WIFSIGNALED(status)) fail_msg("it was not trapped: status %d", status);
        double begin = now_ms();
        assert_int_equal(ms_append(store, MS_STR("job_1"), &m, NULL, NULL), MS_OK);
        assert_true(now_ms() - begin < PATIENCE / 2);
        assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
        assert_int_equal(stat.messages, 3 * (i + 1));
    }
    assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
    ms_close(store);
    /* each of the four ends, and each opening after the first */
    (void)must_verify(&c, 12);
    assert_true(epoch_of(&c) <= 10);
    assert_int_equal(c.damage, 0);
    crowd_end(&c);
}

/* After a large append that ended before its bytes were there the place is made clean once,
 * not before each append up to where it would have reached. */
static void a_large_append_that_failed(void **state)
{
    crowd c;
    trip t;
    static char large[1 << 20];
    (void)state;
    crowd_begin(&c, MS_ENGINE_WRITE, 600);
    trip_init(&t, &c.os);
    ms_log_desc desc = desc_of(&c, MS_LOG_CREATE);
    desc.os = &t.os;
    ms_store *one, *two;
    assert_int_equal(ms_log_open(&one, &desc, NULL), MS_OK);
    two = must_open(&c, MS_LOG_WRITE);
    ms_envelope m = ms_user_message(ms_text("here"));
    assert_int_equal(ms_append(one, MS_STR("job"), &m, NULL, NULL), MS_OK);
    memset(large, 'x', sizeof large - 1);
    m.content = ms_text(large);
    t.how = TRIP_FAIL;
    t.kinds = TRIP_BIT(WRITE);
    t.calls = 0;
    t.at = 1;
    t.code = EIO;
    assert_int_equal(ms_append(one, MS_STR("job"), &m, NULL, NULL), MS_E_IO);
    t.how = TRIP_NONE;
    m.content = ms_text("again");
    for (int i = 0; i < 50; i++) {
        assert_int_equal(ms_append(one, MS_STR("job"), &m, NULL, NULL), MS_OK);
        assert_int_equal(ms_append(two, MS_STR("job"), &m, NULL, NULL), MS_OK);
    }
    ms_close(one);
    ms_close(two);
    (void)must_verify(&c, 101);
    assert_true(epoch_of(&c) <= 4);
    crowd_end(&c);
}


/* ---- bounded waiting ---- */

/* An append that has to wait gives up in time, and nothing was appended. */
static void must_be_busy(ms_store *store, uint32_t wait_ms, const char *text)
{
    ms_envelope m = ms_user_message(ms_text("does not get in"));
    ms_error err;
    uint64_t seq = 77, last;
    double begin = now_ms();
    assert_int_equal(ms_append(store, MS_STR("job"), &m, &seq, &err), MS_E_BUSY);
    double spent = now_ms() - begin;
    if (spent < wait_ms - 1 || spent > wait_ms + 2000)
        fail_msg("waited %.1f ms, lock_wait_ms is %u", spent, wait_ms);
    if (strstr(err.message, text) == NULL) fail_msg("the text: %s", err.message);
    m.content = ms_text("nor this");
    assert_int_equal(ms_amend(store, 1, &m, NULL), MS_E_BUSY);
    assert_int_equal(ms_hide(store, 1, NULL), MS_E_BUSY);
    assert_int_equal(test_refresh(store, &last, NULL), MS_OK);
}

static void say(ms_store *store, const char *text)
{
    ms_envelope m = ms_user_message(ms_text(text));
    ms_error err;
    if (ms_append(store, MS_STR("job"), &m, NULL, &err) != MS_OK)
        fail_msg("'%s': %s", text, err.message);
}

/* The contents of "job", one behind the other. */
static void must_say(ms_store *store, const char *want)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    char all[300] = "";
    size_t used = 0;
    memset(&q, 0, sizeof q);
    q.location = MS_STR("job");
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL) {
        ms_str text = ms_content(msg).text;
        if (used + text.len + 2 > sizeof all) fail_msg("more than expected: %s", all);
        memcpy(all + used, text.ptr, text.len);
        used += text.len;
        all[used++] = ' ';
    }
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    assert_string_equal(all, want);
}

/* One opens the log for itself while others have it open, shared. */
static void alone_between_shared(void **state)
{
    crowd c;
    ms_store *one, *two, *alone, *refused;
    ms_error err;
    char number[24];
    (void)state;
    crowd_begin(&c, MS_ENGINE_AUTO, 300);
    c.wait_ms = 30;
    snprintf(number, sizeof number, "%d", (int)getpid());
    one = must_open(&c, MS_LOG_CREATE);
    two = must_open(&c, MS_LOG_WRITE);
    say(one, "a");
    say(two, "b");
    assert_int_equal(open_alone(&c, &alone, &err), MS_OK);
    must_be_busy(one, 30, number);
    say(alone, "c");
    must_say(one, "a b c ");
    must_be_busy(two, 30, number);
    ms_log_desc desc = desc_of(&c, MS_LOG_WRITE);
    assert_int_equal(ms_log_open(&refused, &desc, &err), MS_E_BUSY);
    assert_null(refused);
    assert_int_equal(ms_hide(alone, 1, NULL), MS_OK);
    ms_str facts = MS_STR("{\"x\":1}");
    assert_int_equal(ms_location_set(alone, MS_STR("job"), facts, NULL), MS_OK);
    ms_close(alone);
    must_say(two, "b c ");
    say(two, "d");
    say(one, "e");
    assert_int_equal(open_alone(&c, &alone, &err), MS_OK); /* and writes nothing */
    ms_close(alone);
    say(two, "f");
    must_say(one, "b c d e f ");
    must_say(two, "b c d e f ");
    assert_int_equal(ms_selfcheck(one, NULL), MS_OK);
    ms_close(one);
    ms_close(two);
    /* the first, the one alone, the shared ones after it */
    (void)must_verify(&c, 6);
    assert_true(epoch_of(&c) <= 3);
    crowd_end(&c);
}

/* Alone, and ends at call k. */
static void child_alone(crowd *c, board *b, uint64_t k)
{
    static const trip_how hows[] = {TRIP_EXIT_BEFORE, TRIP_EXIT_AFTER, TRIP_EXIT_HALF};
    trip t;
    ms_store *alone;
    ms_log_desc desc = desc_of(c, MS_LOG_WRITE);
    trip_init(&t, &c->os);
    t.how = hows[k % 3];
    t.at = k;
    desc.shared = false;
    desc.os = &t.os;
    if (ms_log_open(&alone, &desc, NULL) != MS_OK) _exit(1);
    for (int i = 0; i < 6; i++)
        if (append_next(c, b, alone, 1, NULL) != MS_OK) _exit(2);
    _exit(0);
}

/* Who was alone was killed: in the middle of what it stored, or before it began. */
static void alone_and_killed(void **state)
{
    crowd c;
    board *b = board_new();
    bool done = false;
    roll r;
    ms_error err;
    crowd_begin(&c, *(const ms_log_engine *)*state, 600);
    uint64_t stride = test_scale() >= 100 ? 1 : 5;
    for (uint64_t k = 1; !done; k += stride) {
        int status;
        board_reset(b);
        unlink(c.path);
        ms_store *store = must_open(&c, MS_LOG_CREATE);
        append_next(&c, b, store, 0, NULL);
        pid_t child = fork_child();
        if (child == 0) child_alone(&c, b, k);
        waitpid(child, &status, 0);
        assert_true(WIFEXITED(status));
        done = WEXITSTATUS(status) == 0;
        if (!done) assert_int_equal(WEXITSTATUS(status), 9);
        if (append_next(&c, b, store, 0, &err) != MS_OK)
            fail_msg("call %d: %s", (int)k, err.message);
        must_hold(&c, b, store, false, &r);
        ms_close(store);
        must_verify(&c, r.count);
    }
    board_free(b);
    crowd_end(&c);
}

static uint64_t another_boot(void *ctx)
{
    (void)ctx;
    return 4711;
}

/* Stores a batch whole, and is killed before it can be seen. */
static void child_nearly_appends(crowd *c, bool shared)
{
    trip t;
    ms_store *own;
    ms_envelope batch[2];
    ms_log_desc desc = desc_of(c, MS_LOG_WRITE);
    ms_append_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.location = MS_STR("job");
    trip_init(&t, &c->os);
    desc.shared = shared;
    desc.os = &t.os;
    batch[0] = ms_user_message(ms_text("b"));
    if (ms_log_open(&own, &desc, NULL) != MS_OK ||
        ms_append(own, opts.location, &batch[0], NULL, NULL) != MS_OK)
        _exit(1);
    batch[0].content = ms_text("dead one");
    batch[1] = ms_user_message(ms_text("dead two"));
    t.how = TRIP_EXIT_AFTER;
    t.kinds = TRIP_BIT(WRITE);
    t.at = t.calls + 1;
    ms_append_batch(own, batch, 2, &opts, NULL);
    _exit(2);
}

/* What takes the place of a dead batch has just the size of its first message: the second
 * one must not become valid with it, also when the machine is started again. */
static void a_dead_batch_stays_dead(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        crowd c;
        int status;
        crowd_begin(&c, MS_ENGINE_WRITE, 300);
        ms_store *store = must_open(&c, MS_LOG_CREATE);
        say(store, "a");
        pid_t child = fork_child();
        if (child == 0) child_nearly_appends(&c, shared);
        waitpid(child, &status, 0);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 9);
        say(store, "in place");
        must_say(store, "a b in place ");
        c.os.boot = another_boot;
        ms_store *reader = must_open(&c, MS_LOG_READ);
        must_say(reader, "a b in place ");
        ms_close(reader);
        c.os.boot = ms_os_default()->boot;
        ms_close(store);
        c.os.boot = another_boot;
        store = must_open(&c, MS_LOG_WRITE);
        say(store, "c");
        must_say(store, "a b in place c ");
        ms_close(store);
        must_verify(&c, 4);
        assert_int_equal(c.damage, 0);
        crowd_end(&c);
    }
}

/* ---- a writer that is stopped while it has the lock ---- */

static board *stopping;

static int lock_and_stop(void *ctx, ms_file file)
{
    int code = ms_os_default()->lock(ctx, file);
    if (code == 0 && stopping != NULL && is_set(&stopping->go)) {
        stopping->go = 0;
        raise(SIGSTOP);
    }
    return code;
}

static void stopped_with_the_lock(void **state)
{
    crowd c;
    board *b = board_new();
    int status;
    (void)state;
    crowd_begin(&c, MS_ENGINE_AUTO, 300);
    ms_store *store = NULL;
    c.wait_ms = 40;
    store = must_open(&c, MS_LOG_CREATE);
    say(store, "a");
    pid_t child = fork_child();
    if (child == 0) {
        ms_store *own;
        ms_log_desc desc = desc_of(&c, MS_LOG_WRITE);
        ms_os os = c.os;
        ms_envelope m = ms_user_message(ms_text("b"));
        os.lock = lock_and_stop;
        desc.os = &os;
        stopping = b;
        if (ms_log_open(&own, &desc, NULL) != MS_OK) _exit(1);
        set(&b->go);
        if (ms_append(own, MS_STR("job"), &m, NULL, NULL) != MS_OK) _exit(2);
        ms_close(own);
        _exit(0);
    }
    waitpid(child, &status, WUNTRACED);
    assert_true(WIFSTOPPED(status));
    must_be_busy(store, 40, "is being written by");
    must_say(store, "a ");
    ms_log_desc desc = desc_of(&c, MS_LOG_WRITE);
    ms_store *refused;
    assert_int_equal(ms_log_open(&refused, &desc, NULL), MS_E_BUSY);
    kill(child, SIGCONT);
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    say(store, "c");
    must_say(store, "a b c ");
    ms_close(store);
    (void)must_verify(&c, 3);
    assert_int_equal(epoch_of(&c), 1);
    board_free(b);
    crowd_end(&c);
}

/* Over 30 cursors that each keep another tail: what others write cannot be followed, and
 * nothing is appended over it. */
static void cursors_held_open(void **state)
{
    enum { HELD = 40 };
    static ms_cursor held[HELD];
    crowd c;
    board *b = board_new();
    ms_query q;
    ms_error err;
    size_t n = 0, busy = 0;
    roll r;
    (void)state;
    crowd_begin(&c, MS_ENGINE_AUTO, 900);
    c.wait_ms = 200;
    ms_store *one = must_open(&c, MS_LOG_CREATE), *two = must_open(&c, MS_LOG_WRITE);
    memset(&q, 0, sizeof q);
    q.limit = 1;
    for (; n < HELD && busy == 0; n++) {
        for (int i = 0; i < 20; i++)
            assert_int_equal(append_next(&c, b, two, 1, NULL), MS_OK);
        ms_result opened = ms_query_open(one, &q, &held[n], &err);
        if (opened == MS_E_BUSY) { /* told, instead of showing what is old */
            assert_non_null(strstr(err.message, "cursors are open"));
            busy++;
            break;
        }
        assert_int_equal(opened, MS_OK);
        for (int i = 0; i < 20 && busy == 0; i++) {
            ms_result result = append_next(&c, b, one, 0, &err);
            if (result == MS_OK) continue;
            assert_int_equal(result, MS_E_BUSY);
            assert_non_null(strstr(err.message, "cursors are open"));
            busy++;
        }
    }
    if (busy == 0) fail_msg("nothing was ever busy");
    for (int i = 0; i < 100; i++)
        assert_int_equal(append_next(&c, b, two, 1, NULL), MS_OK);
    assert_int_equal(append_next(&c, b, one, 0, &err), MS_E_BUSY);
    for (size_t i = 0; i < n; i++) {
        assert_non_null(ms_next(&held[i]));
        assert_int_equal(ms_cursor_close(&held[i], NULL), MS_OK);
    }
    for (int i = 0; i < 20; i++) {
        assert_int_equal(append_next(&c, b, one, 0, NULL), MS_OK);
        assert_int_equal(append_next(&c, b, two, 1, NULL), MS_OK);
    }
    must_hold(&c, b, one, true, &r);
    must_hold(&c, b, two, true, &r);
    assert_int_equal(ms_selfcheck(one, NULL), MS_OK);
    ms_close(one);
    ms_close(two);
    must_stand(&c, b, true);
    board_free(b);
    crowd_end(&c);
}

static void a_child_of_fork(void **state)
{
    crowd c;
    int status;
    (void)state;
    crowd_begin(&c, MS_ENGINE_AUTO, 300);
    ms_store *store = must_open(&c, MS_LOG_CREATE);
    say(store, "a");
    pid_t child = fork_child();
    if (child == 0) {
        ms_envelope m = ms_user_message(ms_text("b"));
        uint64_t last;
        ms_cursor it;
        ms_query q;
        memset(&q, 0, sizeof q);
        int wrong = ms_append(store, MS_STR("job"), &m, NULL, NULL) != MS_E_FORKED;
        wrong |= (ms_hide(store, 1, NULL) != MS_E_FORKED) << 1;
        wrong |= (ms_query_open(store, &q, &it, NULL) != MS_E_FORKED) << 2;
        wrong |= (test_refresh(store, &last, NULL) != MS_E_FORKED) << 3;
        wrong |= (ms_sync(store, NULL, NULL) != MS_E_FORKED) << 4;
        ms_close(store);
        store = must_open(&c, MS_LOG_WRITE);
        wrong |= (ms_append(store, MS_STR("job"), &m, NULL, NULL) != MS_OK) << 5;
        ms_close(store);
        _exit(wrong);
    }
    ms_str job = MS_STR("job"), facts = MS_STR("{\"a\":2}");
    for (int i = 0; i < 50; i++)
        assert_int_equal(ms_location_set(store, job, facts, NULL), MS_OK);
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    say(store, "c");
    must_say(store, "a b c ");
    ms_close(store);
    must_verify(&c, 3);
    crowd_end(&c);
}


/* ---- compaction and copies beside writers ---- */

/* Appends; when a compaction has put a new file in the place of its log, opens that. */
static void child_moves_on(crowd *c, board *b, size_t w)
{
    ms_log_desc desc = desc_of(c, MS_LOG_WRITE);
    ms_store *store;
    ms_error err;
    ms_result result = ms_log_open(&store, &desc, &err);
    while (result == MS_OK && !is_set(&b->stop)) {
        result = append_next(c, b, store, w, &err);
        if (b->told[w] % 64 == 0) pause_us(100);
        if (result != MS_E_CONFLICT) continue;
        __atomic_add_fetch(&b->step, 1, __ATOMIC_ACQ_REL);
        ms_close(store);
        result = ms_log_open(&store, &desc, &err);
    }
    if (result != MS_OK) complain(b, w, "moving on", err.message);
    ms_close(store);
    _exit(0);
}

static void compacted_beside_writers(void **state)
{
    enum { MANY = 2, TIMES = 4 };
    crowd c;
    board *b = board_new();
    pid_t children[MANY];
    ms_error err;
    (void)state;
    crowd_begin(&c, MS_ENGINE_AUTO, 300);
    ms_close(must_open(&c, MS_LOG_CREATE));
    for (size_t w = 0; w < MANY; w++) {
        children[w] = fork_child();
        if (children[w] == 0) child_moves_on(&c, b, w);
    }
    for (int i = 0; i < TIMES; i++) {
        ms_log_desc to = desc_of(&c, MS_LOG_WRITE);
        pause_us(3000);
        ms_store *source = must_open(&c, i % 2 ? MS_LOG_READ : MS_LOG_WRITE);
        if (ms_log_rewrite(source, &to, true, NULL, NULL, &err) != MS_OK)
            fail_msg("rewrite: %s", err.message);
        ms_close(source);
    }
    pause_us(2000);
    set(&b->stop);
    for (size_t w = 0; w < MANY; w++) wait_for(children[w], b);
    printf("%d times a writer had to move on, %d messages\n", b->step,
           (int)(b->told[0] + b->told[1]));
    assert_true(b->step > 0);
    must_stand(&c, b, true);
    board_free(b);
    crowd_end(&c);
}

static void compacted_under_handles(void **state)
{
    crowd c;
    ms_error err;
    ms_copy_report report;
    ms_log_report verified;
    ms_envelope m = ms_user_message(ms_text("late"));
    (void)state;
    crowd_begin(&c, MS_ENGINE_AUTO, 300);
    ms_store *one = must_open(&c, MS_LOG_CREATE), *two = must_open(&c, MS_LOG_WRITE);
    say(one, "a");
    say(two, "b");
    ms_log_desc to = desc_of(&c, MS_LOG_WRITE);
    assert_int_equal(ms_log_rewrite(one, &to, true, NULL, &report, &err), MS_OK);
    assert_int_equal(report.copied, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ms_append(two, MS_STR("job"), &m, NULL, &err), MS_E_CONFLICT);
        assert_non_null(strstr(err.message, "open it anew"));
        assert_int_equal(ms_append(one, MS_STR("job"), &m, NULL, NULL), MS_E_CONFLICT);
        assert_int_equal(ms_hide(one, 1, NULL), MS_E_CONFLICT);
    }
    must_say(one, "a b ");
    must_say(two, "a b ");
    ms_store *fresh = must_open(&c, MS_LOG_WRITE);
    say(fresh, "c");
    must_say(fresh, "a b c ");
    must_say(one, "a b "); /* of the old file */
    ms_close(one);
    ms_close(two);
    say(fresh, "d");
    /* a rewrite that is refused, or fails, stops nobody */
    assert_int_equal(ms_log_rewrite(fresh, &to, false, NULL, NULL, NULL), MS_E_CONFLICT);
    trip t;
    trip_init(&t, &c.os);
    t.how = TRIP_FAIL;
    t.kinds = TRIP_BIT(RENAME);
    t.at = 1;
    t.code = EACCES;
    to.os = &t.os;
    assert_int_equal(ms_log_rewrite(fresh, &to, true, NULL, NULL, NULL), MS_E_IO);
    say(fresh, "e");
    must_say(fresh, "a b c d e ");
    ms_close(fresh);
    assert_int_equal(ms_log_verify(&to, &verified, NULL), MS_OK);
    assert_int_equal(verified.messages, 5);
    crowd_end(&c);
}

/* As cp does: from the beginning to the end, while all write. */
static void copy_file(const char *from, const char *to)
{
    static char piece[8192];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    size_t got;
    if (in == NULL || out == NULL) abort();
    while ((got = fread(piece, 1, sizeof piece, in)) > 0)
        if (fwrite(piece, 1, got, out) != got) abort();
    fclose(in);
    fclose(out);
}

static void copied_beside_writers(void **state)
{
    enum { MANY = 2 };
    crowd c, copy;
    board *b = board_new();
    pid_t children[MANY];
    crowd_begin(&c, *(const ms_log_engine *)*state, 600);
    b->pace = 20;
    for (size_t w = 0; w < MANY; w++) children[w] = start(&c, b, w, 0);
    set(&b->go);
    for (int i = 0; i < 8; i++) {
        uint64_t told[CROWD];
        roll r;
        copy = c;
        snprintf(copy.path, sizeof copy.path, "%s/copy.msl", c.folder);
        pause_us(1500);
        memcpy(told, b->told, sizeof told);
        if (told[0] + told[1] == 0) continue; /* it is still being made */
        copy_file(c.path, copy.path);
        ms_store *one = must_open(&copy, MS_LOG_WRITE);
        ms_store *two = must_open(&copy, MS_LOG_WRITE);
        memset(&r, 0, sizeof r);
        if (!roll_read(&r, &copy, one, b->seqs)) fail_msg("in the copy: %s", r.wrong);
        for (size_t w = 0; w < MANY; w++)
            if (r.last[w] < told[w]) fail_msg("the copy lacks what was told before");
        say(two, "to the copy");
        say(one, "alone");
        must_say(two, "to the copy alone ");
        ms_close(one);
        ms_close(two);
        must_verify(&copy, r.count + 2);
        assert_int_equal(copy.damage, 0);
    }
    set(&b->stop);
    for (size_t w = 0; w < MANY; w++) wait_for(children[w], b);
    must_stand(&c, b, true);
    board_free(b);
    crowd_end(&c);
}


/* ---- threads on shared handles ---- */

typedef struct worker {
    pthread_t thread;
    crowd *c;
    board *b;
    ms_store *store;
    size_t w;
    uint64_t goal;
} worker;

static void *thread_writes(void *arg)
{
    worker *t = (worker *)arg;
    append_until(t->c, t->b, t->store, t->w, t->goal);
    return NULL;
}

static void *thread_reads(void *arg)
{
    worker *t = (worker *)arg;
    while (!is_set(&t->b->stop) && !t->b->failed) {
        roll r;
        memset(&r, 0, sizeof r);
        if (!roll_read(&r, t->c, t->store, NULL))
            complain(t->b, t->w, "reading", r.wrong);
        pause_us(300);
    }
    return NULL;
}

/* Two handles, two threads that write on each, one that reads on each; another
 * process. */
static void threads_on_handles(void **state)
{
    static const ms_sync_mode modes[] = {MS_SYNC_NONE, MS_SYNC_EACH, MS_SYNC_EVERY};
    crowd c;
    board *b = board_new();
    worker t[6];
    ms_store *stores[2];
    for (size_t k = 0; k < 3; k++) {
        uint64_t goal = numbers(modes[k] == MS_SYNC_EACH ? 150 : 400);
        memset(b, 0, sizeof *b);
        crowd_begin(&c, *(const ms_log_engine *)*state, 600);
        c.sync = modes[k];
        set(&b->go);
        pid_t child = start(&c, b, 5, goal);
        for (size_t i = 0; i < 2; i++) stores[i] = must_open(&c, MS_LOG_CREATE);
        memset(t, 0, sizeof t);
        for (size_t i = 0; i < 6; i++) {
            t[i].c = &c;
            t[i].b = b;
            t[i].store = stores[i % 2];
            t[i].w = i;
            t[i].goal = goal;
            if (pthread_create(&t[i].thread, NULL, i < 4 ? thread_writes : thread_reads,
                               &t[i]) != 0)
                abort();
        }
        for (size_t i = 0; i < 4; i++) pthread_join(t[i].thread, NULL);
        wait_for(child, b);
        set(&b->stop);
        for (size_t i = 4; i < 6; i++) pthread_join(t[i].thread, NULL);
        nothing_wrong(b);
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(ms_selfcheck(stores[i], NULL), MS_OK);
            ms_close(stores[i]);
        }
        must_stand(&c, b, true);
        crowd_end(&c);
    }
    board_free(b);
}


/* ---- what is durable ---- */

static int n_syncs;

static int counted_sync(void *ctx, ms_file file)
{
    (void)ctx;
    (void)file;
    n_syncs++;
    return 0;
}

static uint64_t durable_for_readers(crowd *c)
{
    ms_log_info info;
    ms_store *reader = must_open(c, MS_LOG_READ);
    assert_int_equal(ms_log_stat(reader, &info, NULL), MS_OK);
    ms_close(reader);
    return info.durable_seq;
}

/* A sync covers what others have appended before it, and each mode keeps its word. */
static void syncs_of_several(void **state)
{
    crowd c;
    uint64_t durable = 0;
    (void)state;
    crowd_begin(&c, MS_ENGINE_AUTO, 300);
    c.os.sync = counted_sync;
    ms_store *one = must_open(&c, MS_LOG_CREATE), *two = must_open(&c, MS_LOG_WRITE);
    c.sync = MS_SYNC_EACH;
    ms_store *each = must_open(&c, MS_LOG_WRITE);
    c.sync = MS_SYNC_EVERY;
    ms_store *every = must_open(&c, MS_LOG_WRITE);
    say(one, "a");
    assert_int_equal(ms_sync(one, &durable, NULL), MS_OK);
    assert_int_equal(durable, 1);
    say(two, "b");
    n_syncs = 0;
    assert_int_equal(ms_sync(one, &durable, NULL), MS_OK); /* has not seen b yet */
    assert_int_equal(durable, 2);
    assert_true(n_syncs > 0);
    say(one, "c");
    n_syncs = 0;
    say(each, "d");
    assert_int_equal(n_syncs, 1);
    assert_int_equal(durable_for_readers(&c), 4);
    say(one, "e");
    n_syncs = 0;
    say(each, "f");
    say(each, "g");
    assert_int_equal(n_syncs, 2);
    static char large[1 << 20];
    memset(large, 'x', sizeof large - 1);
    ms_envelope m = ms_user_message(ms_text(large));
    n_syncs = 0;
    say(every, "h");
    assert_int_equal(n_syncs, 0);
    assert_int_equal(ms_append(every, MS_STR("large"), &m, NULL, NULL), MS_OK);
    assert_int_equal(n_syncs, 1); /* over sync_bytes */
    assert_int_equal(durable_for_readers(&c), 9);
    ms_close(every);
    ms_close(each);
    ms_close(two);
    must_say(one, "a b c d e f g h ");
    ms_close(one);
    must_verify(&c, 9);
    crowd_end(&c);
}

static ms_store *meanwhile;

static int sync_meanwhile(void *ctx, ms_file file)
{
    (void)ctx;
    (void)file;
    if (meanwhile == NULL) return 0;
    ms_store *store = meanwhile;
    uint64_t durable = 0;
    meanwhile = NULL;
    say(store, "b");
    assert_int_equal(ms_sync(store, &durable, NULL), MS_OK);
    assert_int_equal(durable, 2);
    return 0;
}

/* While one waits for the disk another one appends and syncs: what the file says is
 * durable does not go back. */
static void a_sync_during_a_sync(void **state)
{
    crowd c;
    uint64_t durable = 0;
    (void)state;
    crowd_begin(&c, MS_ENGINE_AUTO, 300);
    ms_store *other = must_open(&c, MS_LOG_CREATE);
    c.os.sync = sync_meanwhile;
    ms_store *one = must_open(&c, MS_LOG_WRITE);
    say(one, "a");
    meanwhile = other;
    assert_int_equal(ms_sync(one, &durable, NULL), MS_OK);
    assert_true(durable >= 1);
    assert_int_equal(durable_for_readers(&c), 2);
    ms_close(one);
    ms_close(other);
    assert_int_equal(durable_for_readers(&c), 2);
    crowd_end(&c);
}

/* An append that another thread does while a sync works. */
typedef struct comer {
    crowd c;
    ms_store *store;
    pthread_t thread;
    ms_result result;
    int begun, unlocks;       /* unlocks: since then; atomic */
    int syncs;
    uint64_t seen[2];         /* messages that a reader saw in the first two syncs */
    bool sync_fails;          /* the first; */
    int lock_fails;           /* from the second on; 1: then; 2: now; atomic */
} comer;

static comer come;

static void *comes(void *arg)
{
    comer *k = (comer *)arg;
    ms_envelope m = ms_assistant_message(ms_text("late"));
    k->result = ms_append(k->store, MS_STR("place"), &m, NULL, NULL);
    return NULL;
}

static int unlock_counted(void *ctx, ms_file file)
{
    int code = ms_os_default()->unlock(ctx, file);
    __atomic_fetch_add(&come.unlocks, 1, __ATOMIC_ACQ_REL);
    return code;
}

static int lock_that_fails(void *ctx, ms_file file)
{
    return __atomic_load_n(&come.lock_fails, __ATOMIC_ACQUIRE) == 2
               ? EIO
               : ms_os_default()->lock(ctx, file);
}

static int sync_while_one_comes(void *ctx, ms_file file)
{
    ms_stat is;
    (void)ctx, (void)file;
    if (come.store == NULL || come.syncs >= 2) return 0;
    if (!come.begun) {
        come.begun = 1;
        __atomic_store_n(&come.unlocks, 0, __ATOMIC_RELEASE);
        assert_int_equal(pthread_create(&come.thread, NULL, comes, &come), 0);
        for (int i = 0; i < 5000 && __atomic_load_n(&come.unlocks, __ATOMIC_ACQUIRE) == 0; i++)
            pause_us(1000); /* it has appended, and waits for the next sync */
    }
    ms_store *reader = must_open(&come.c, MS_LOG_READ);
    assert_int_equal(ms_store_stat(reader, &is, NULL), MS_OK);
    ms_close(reader);
    come.seen[come.syncs++] = is.messages;
    if (come.syncs == 2 && come.lock_fails == 1)
        __atomic_store_n(&come.lock_fails, 2, __ATOMIC_RELEASE);
    return come.sync_fails ? EIO : 0;
}

/* The sync, and the append that came. */
static void one_comes(ms_result synced, ms_result appended)
{
    crowd_begin(&come.c, MS_ENGINE_AUTO, 300);
    ms_store *store = must_open(&come.c, MS_LOG_CREATE);
    for (int i = 0; i < 100; i++) say(store, "early"); /* index records, too */
    ms_close(store);
    come.c.os.sync = sync_while_one_comes;
    come.c.os.unlock = unlock_counted;
    come.c.os.lock = lock_that_fails;
    come.c.sync = MS_SYNC_EACH;
    store = must_open(&come.c, MS_LOG_WRITE);
    come.store = store;
    assert_int_equal(ms_sync(store, NULL, NULL), synced);
    assert_int_equal(come.syncs, synced == MS_OK ? 2 : 1);
    assert_int_equal(pthread_join(come.thread, NULL), 0);
    assert_int_equal(come.result, appended);
    assert_true(come.unlocks > 0);
    for (int i = 0; i < come.syncs; i++) assert_int_equal(come.seen[i], 101);
    come.store = NULL;
    come.lock_fails = 0;
    ms_close(store);
    must_verify(&come.c, 101);
    crowd_end(&come.c);
}

static void an_append_is_visible_at_once_when_a_sync_works(void **state)
{
    (void)state;
    memset(&come, 0, sizeof come);
    one_comes(MS_OK, MS_OK);
    memset(&come, 0, sizeof come);
    come.sync_fails = true;
    one_comes(MS_E_POISONED, MS_E_POISONED);
    memset(&come, 0, sizeof come);
    come.lock_fails = 1; /* a plain sync does without a checkpoint */
    one_comes(MS_OK, MS_OK);
}

/* ---- one disk, two handles that take turns: numbers 1, 2, 3 ... over both ---- */

enum { DISK_ROOM = 2 << 20, IMAGE_MESSAGES = 400 };

typedef struct cutter {
    crowd c;
    disk from, to[2];
    uint64_t rng, images, torn;
    uint64_t last, durable;   /* numbers: appended, covered by a sync */
    bool lost;                /* the file was truncated: every handle reports that */
} cutter;

static ms_log_desc cut_desc(cutter *k, disk *d, ms_log_mode mode, ms_sync_mode sync)
{
    ms_log_desc desc = desc_of(&k->c, mode);
    desc.sync = sync;
    desc.os = &d->os;
    return desc;
}

static ms_store *cut_open(cutter *k, disk *d, ms_log_mode mode, ms_sync_mode sync)
{
    ms_log_desc desc = cut_desc(k, d, mode, sync);
    ms_store *store;
    ms_error err;
    if (ms_log_open(&store, &desc, &err) != MS_OK) fail_msg("open: %s", err.message);
    return store;
}

static void cut_power(cutter *k, const disk *from, disk *to)
{
    disk_cut(to, from, &k->rng);
    k->images++;
}

/* A prefix that has at least what was durable; *last: how long it is. */
static void must_be_prefix(cutter *k, ms_store *store, uint64_t *last)
{
    tally t;
    if (!scribe_read(&k->c.s, store, false, NULL, &t)) fail_msg("%s", t.wrong);
    if (t.result != (k->lost ? MS_E_DAMAGED : MS_OK))
        fail_msg("reading: %s", ms_result_text(t.result));
    if (t.last < k->durable || t.last > k->last)
        fail_msg("%d messages are there of %d, %d were durable", (int)t.last,
                 (int)k->last, (int)k->durable);
    *last = t.last;
}

/* Appends the next number by one of two handles; a handle that syncs each covers all. */
static void turn(cutter *k, ms_store *const *stores)
{
    ms_error err;
    size_t count, who = (size_t)test_below(&k->rng, 2);
    if (scribe_append(&k->c.s, stores[who], k->last + 1, NULL, &count, &err) != MS_OK)
        fail_msg("append: %s", err.message);
    k->last += count;
    bool sync = who != 0 && test_one_in(&k->rng, 8);
    if (sync) assert_int_equal(ms_sync(stores[who], NULL, NULL), MS_OK);
    if (sync || who == 0) k->durable = k->last;
    if (who == 0 && test_one_in(&k->rng, 2)) turn(k, stores);
}

/* What the cut has left is read, then written to by two that are shared again. */
static void recover_shared(cutter *k, disk *d, bool again)
{
    uint64_t last = k->last, durable = k->durable, first, second;
    ms_log_report report;
    ms_log_desc desc = cut_desc(k, d, MS_LOG_READ, MS_SYNC_NONE);
    ms_store *stores[2];
    assert_int_equal(ms_log_verify(&desc, &report, NULL), MS_OK);
    k->torn += report.torn_bytes != 0;
    ms_store *reader = cut_open(k, d, MS_LOG_READ, MS_SYNC_NONE);
    must_be_prefix(k, reader, &first);
    ms_close(reader);
    stores[0] = cut_open(k, d, MS_LOG_WRITE, MS_SYNC_EACH);
    stores[1] = cut_open(k, d, MS_LOG_WRITE, MS_SYNC_NONE);
    must_be_prefix(k, stores[1], &second);
    assert_int_equal(first, second);
    k->last = first;
    for (int i = 0; i < 6; i++) turn(k, stores);
    k->durable = k->last;
    must_be_prefix(k, stores[0], &second);
    must_be_prefix(k, stores[1], &second);
    k->durable = first;
    if (again) {
        assert_int_equal(ms_sync(stores[1], NULL, NULL), MS_OK);
        k->durable = k->last;
        turn(k, stores);
        cut_power(k, d, &k->to[1]);
        recover_shared(k, &k->to[1], false);
    }
    ms_close(stores[0]);
    ms_close(stores[1]);
    assert_int_equal(ms_log_verify(&desc, &report, NULL), MS_OK);
    disk_is_idle(d);
    k->last = last;
    k->durable = durable;
}

static void power_is_cut(void **state)
{
    cutter *k = (cutter *)calloc(1, sizeof *k);
    if (k == NULL) abort();
    crowd_begin(&k->c, *(const ms_log_engine *)*state, 1500);
    k->rng = test_seed() + (uint64_t)k->c.engine;
    disk_init(&k->from, DISK_ROOM);
    disk_init(&k->to[0], DISK_ROOM);
    disk_init(&k->to[1], DISK_ROOM);
    k->from.keep_synced = k->to[0].keep_synced = k->to[1].keep_synced = true;
    while (k->images < test_times(60)) {
        ms_store *stores[2];
        disk_clear(&k->from);
        k->c.s.salt = test_random(&k->rng);
        k->last = k->durable = 0;
        stores[0] = cut_open(k, &k->from, MS_LOG_CREATE, MS_SYNC_EACH);
        stores[1] = cut_open(k, &k->from, MS_LOG_CREATE, MS_SYNC_NONE);
        while (k->last < IMAGE_MESSAGES) {
            turn(k, stores);
            if (!test_one_in(&k->rng, 20)) continue;
            cut_power(k, &k->from, &k->to[0]);
            recover_shared(k, &k->to[0], test_one_in(&k->rng, 3));
        }
        ms_close(stores[0]);
        ms_close(stores[1]);
        disk_is_idle(&k->from);
    }
    printf("%d images with a torn end\n", (int)k->torn);
    test_tally("power-cut images", k->images);
    if (test_scale() >= 100) assert_true(k->torn > 0);
    disk_deinit(&k->from);
    disk_deinit(&k->to[0]);
    disk_deinit(&k->to[1]);
    assert_int_equal(k->c.damage, 0);
    crowd_end(&k->c);
    free(k);
}

/* The file lost its end, though that was durable: it is told once, not again after others
 * have appended and synced. */
static void the_file_was_cut(void **state)
{
    cutter *k = (cutter *)calloc(1, sizeof *k);
    ms_store *stores[2];
    ms_log_info info;
    uint64_t last;
    if (k == NULL) abort();
    crowd_begin(&k->c, *(const ms_log_engine *)*state, 600);
    k->rng = test_seed();
    disk_init(&k->from, DISK_ROOM);
    stores[0] = cut_open(k, &k->from, MS_LOG_CREATE, MS_SYNC_EACH);
    stores[1] = cut_open(k, &k->from, MS_LOG_CREATE, MS_SYNC_NONE);
    for (int i = 0; i < 100; i++) turn(k, stores);
    assert_int_equal(ms_log_stat(stores[0], &info, NULL), MS_OK);
    for (int i = 0; i < 100; i++) turn(k, stores);
    ms_close(stores[0]);
    ms_close(stores[1]);
    disk_resize(&k->from, info.end);
    k->from.boot++;
    k->durable = 0;
    stores[0] = cut_open(k, &k->from, MS_LOG_WRITE, MS_SYNC_EACH);
    stores[1] = cut_open(k, &k->from, MS_LOG_WRITE, MS_SYNC_NONE);
    assert_int_equal(ms_log_stat(stores[1], &info, NULL), MS_OK);
    assert_true(info.lost_end > 0 && k->c.damage > 0);
    k->lost = true;
    must_be_prefix(k, stores[0], &last);
    k->last = last;
    for (int i = 0; i < 6; i++) turn(k, stores);
    assert_int_equal(ms_sync(stores[1], NULL, NULL), MS_OK);
    ms_close(stores[0]);
    ms_close(stores[1]);
    k->c.damage = 0;
    k->durable = k->last;
    stores[0] = cut_open(k, &k->from, MS_LOG_WRITE, MS_SYNC_EACH);
    assert_int_equal(ms_log_stat(stores[0], &info, NULL), MS_OK);
    assert_int_equal(info.lost_end, 0); /* what there was is in a record now */
    assert_true(info.damaged > 0);
    must_be_prefix(k, stores[0], &last);
    ms_close(stores[0]);
    disk_deinit(&k->from);
    crowd_end(&k->c);
    free(k);
}

/* The disk gets full under two handles, gets room again, and full again. */
static void the_disk_is_full(void **state)
{
    cutter *k = (cutter *)calloc(1, sizeof *k);
    ms_store *stores[2];
    ms_error err;
    tally t;
    uint64_t refused = 0;
    if (k == NULL) abort();
    crowd_begin(&k->c, *(const ms_log_engine *)*state, 3000);
    k->rng = test_seed();
    disk_init(&k->from, DISK_ROOM);
    stores[0] = cut_open(k, &k->from, MS_LOG_CREATE, MS_SYNC_EACH);
    stores[1] = cut_open(k, &k->from, MS_LOG_CREATE, MS_SYNC_NONE);
    k->from.room = 150000;
    for (int rounds = 0; rounds < 4; rounds++, k->from.room += 150000) {
        for (int failed = 0; failed < 20;) {
            size_t count, who = (size_t)test_below(&k->rng, 2);
            ms_result result =
                scribe_append(&k->c.s, stores[who], k->last + 1, NULL, &count, &err);
            if (result == MS_OK) k->last += count;
            else assert_int_equal(result, MS_E_FULL);
            failed += result != MS_OK;
            refused += result != MS_OK;
        }
        k->durable = k->last;
        must_be_prefix(k, stores[rounds % 2], &k->last);
    }
    assert_true(refused == 80 && k->last > 200);
    for (int i = 0; i < 2; i++) assert_int_equal(ms_selfcheck(stores[i], NULL), MS_OK);
    ms_close(stores[0]);
    ms_close(stores[1]);
    ms_store *reader = cut_open(k, &k->from, MS_LOG_READ, MS_SYNC_NONE);
    if (!scribe_read(&k->c.s, reader, false, NULL, &t)) fail_msg("%s", t.wrong);
    assert_int_equal(t.last, k->last);
    ms_close(reader);
    disk_is_idle(&k->from);
    disk_deinit(&k->from);
    crowd_end(&k->c);
    free(k);
}

/* One of two handles has trouble with its k-th file operation. What failed was not
 * appended: the other one appends the same number. */
static bool trouble_at(crowd *c, trip_how how, uint64_t at)
{
    trip t;
    ms_store *one, *two;
    ms_error err;
    tally all;
    uint64_t last = 0;
    bool poisoned = false;
    trip_init(&t, &c->os);
    t.how = how;
    t.at = at;
    t.code = EIO;
    t.bytes = 20;
    t.kinds = TRIP_ALL & ~(TRIP_BIT(CLOSE) | TRIP_BIT(UNMAP));
    unlink(c->path);
    two = must_open(c, MS_LOG_CREATE);
    ms_log_desc desc = desc_of(c, MS_LOG_WRITE);
    desc.os = &t.os;
    if (ms_log_open(&one, &desc, &err) != MS_OK) one = NULL;
    for (int i = 0; i < 60; i++) {
        size_t count;
        ms_result result = MS_E_IO;
        ms_store *store = i % 3 != 0 && one != NULL && !poisoned ? one : two;
        result = scribe_append(&c->s, store, last + 1, NULL, &count, &err);
        if (result == MS_E_POISONED) poisoned = true;
        /* how an unlock that failed shows: the lock stays until that handle goes on */
        if (result == MS_E_BUSY) assert_true(t.last_hit == CALL_UNLOCK && store == two);
        if (store == two && result != MS_OK && result != MS_E_BUSY)
            fail_msg("%s %d: the other one: %s", trip_word((int)t.last_hit), (int)at,
                     err.message);
        if (result == MS_OK) last += count;
        if (i % 20 == 10 && one != NULL && ms_sync(one, NULL, NULL) != MS_OK)
            poisoned = poisoned || t.last_hit == CALL_SYNC;
    }
    ms_close(one);
    if (!scribe_read(&c->s, two, false, NULL, &all))
        fail_msg("%s %d: %s", trip_word((int)t.last_hit), (int)at, all.wrong);
    assert_int_equal(all.last, last);
    assert_int_equal(ms_selfcheck(two, NULL), MS_OK);
    ms_close(two);
    must_verify(c, last);
    return t.hits == 0;
}

static void failed_file_operations(void **state)
{
    crowd c;
    uint64_t at, stride = test_scale() >= 1000 ? 1 : test_scale() >= 100 ? 2 : 15, n = 0;
    crowd_begin(&c, *(const ms_log_engine *)*state, 600);
    c.wait_ms = 2;
    for (int how = TRIP_FAIL; how <= TRIP_FAIL_HALF; how++)
        for (at = 1 + (uint64_t)how % stride; !trouble_at(&c, (trip_how)how, at); n++)
            at += stride;
    printf("%d times trouble\n", (int)n);
    crowd_end(&c);
}

/* ---- no memory while it takes in what others have appended ---- */

/* The k-th allocation of one handle fails; false: it made fewer. */
static bool no_memory_at(crowd *c, size_t k)
{
    test_alloc heap;
    ms_store *one, *two;
    tally t;
    uint64_t last = 0;
    size_t count, refused = 0;
    test_alloc_init(&heap);
    unlink(c->path);
    ms_log_desc desc = desc_of(c, MS_LOG_CREATE);
    desc.alloc = heap.alloc;
    assert_int_equal(ms_log_open(&one, &desc, NULL), MS_OK);
    two = must_open(c, MS_LOG_WRITE);
    for (int i = 0; i < 5; i++, last += count)
        assert_int_equal(scribe_append(&c->s, one, last + 1, NULL, &count, NULL), MS_OK);
    for (int i = 0; i < 60; i++, last += count)
        assert_int_equal(scribe_append(&c->s, two, last + 1, NULL, &count, NULL), MS_OK);
    heap.fail_at = heap.calls + k;
    for (int i = 0; i < 20; i++) {
        ms_result result = scribe_append(&c->s, one, last + 1, NULL, &count, NULL);
        if (result == MS_OK) last += count;
        else assert_int_equal(result, MS_E_NO_MEMORY);
        refused += result != MS_OK;
        assert_true(refused <= 1);
    }
    bool failed = heap.failed > 0;
    heap.fail_at = 0;
    if (!scribe_read(&c->s, one, false, NULL, &t)) fail_msg("%d: %s", (int)k, t.wrong);
    assert_int_equal(t.result, MS_OK);
    assert_int_equal(t.last, last);
    assert_int_equal(ms_selfcheck(one, NULL), MS_OK);
    ms_close(one);
    ms_close(two);
    test_alloc_done(&heap);
    must_verify(c, last);
    return failed;
}

static void no_memory(void **state)
{
    crowd c;
    size_t k = 1;
    crowd_begin(&c, *(const ms_log_engine *)*state, 900);
    while (no_memory_at(&c, k)) k += test_scale() >= 100 ? 1 : 5;
    printf("%zu allocations\n", k - 1);
    assert_true(k > 5);
    crowd_end(&c);
}

/* ---- a machine that does not tell when it was started ---- */

static uint64_t no_boot(void *ctx)
{
    (void)ctx;
    return 0;
}

/* Either refused at opening, or nothing is lost. */
static void boot_unknown(void **state)
{
    crowd c;
    board *b = board_new();
    ms_store *stores[2] = {NULL, NULL};
    (void)state;
    crowd_begin(&c, MS_ENGINE_AUTO, 600);
    ms_close(must_open(&c, MS_LOG_CREATE));
    c.os.boot = no_boot;
    ms_log_desc desc = desc_of(&c, MS_LOG_WRITE);
    ms_result result = ms_log_open(&stores[0], &desc, NULL);
    if (result == MS_OK) result = ms_log_open(&stores[1], &desc, NULL);
    if (result != MS_OK) assert_int_equal(result, MS_E_UNSUPPORTED);
    for (size_t i = 0; i < 20 && result == MS_OK; i++)
        assert_int_equal(append_next(&c, b, stores[i % 2], i % 2, NULL), MS_OK);
    ms_close(stores[0]);
    ms_close(stores[1]);
    c.os = os_without_sync();
    must_stand(&c, b, true);
    board_free(b);
    crowd_end(&c);
}

static ms_log_engine engines[] = {MS_ENGINE_MAP, MS_ENGINE_WRITE};

#define WITH_EACH_ENGINE(test)                                    \
    {#test " (map)", test, NULL, NULL, &engines[0]},              \
    {#test " (write)", test, NULL, NULL, &engines[1]}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_EACH_ENGINE(many_processes),
        cmocka_unit_test(each_gets_its_share),
        cmocka_unit_test(keys_of_all),
        cmocka_unit_test(compare_and_append),
        WITH_EACH_ENGINE(handles_take_turns),
        cmocka_unit_test(changes_of_all),
        cmocka_unit_test(a_stream_is_followed),
        WITH_EACH_ENGINE(killed_at_random_times),
        WITH_EACH_ENGINE(killed_at_every_file_operation),
        cmocka_unit_test(killed_while_storing),
        cmocka_unit_test(a_large_append_that_failed),
        cmocka_unit_test(alone_between_shared),
        WITH_EACH_ENGINE(alone_and_killed),
        cmocka_unit_test(a_dead_batch_stays_dead),
        cmocka_unit_test(stopped_with_the_lock),
        cmocka_unit_test(cursors_held_open),
        cmocka_unit_test(a_child_of_fork),
        cmocka_unit_test(compacted_beside_writers),
        cmocka_unit_test(compacted_under_handles),
        WITH_EACH_ENGINE(copied_beside_writers),
        WITH_EACH_ENGINE(threads_on_handles),
        cmocka_unit_test(syncs_of_several),
        cmocka_unit_test(a_sync_during_a_sync),
        cmocka_unit_test(an_append_is_visible_at_once_when_a_sync_works),
        WITH_EACH_ENGINE(power_is_cut),
        WITH_EACH_ENGINE(the_file_was_cut),
        WITH_EACH_ENGINE(the_disk_is_full),
        WITH_EACH_ENGINE(failed_file_operations),
        WITH_EACH_ENGINE(no_memory),
        cmocka_unit_test(boot_unknown),
    };
    scribe_page();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
