/* Processes that are killed and power that is cut.
 *
 * A child appends numbered messages and tells each number after the append has returned;
 * it is killed at a random moment, or ends itself at every single file operation. What it
 * told must be there, in order, without a hole, and nothing that was never written; then
 * the file is appended to and the next child is killed. A cut of the power is built from
 * what the last sync has seen, with a random choice of the sectors that differ from it;
 * after it only what was durable must be there.
 *
 * The same with changes of every kind: a diary knows what a store shows after each step,
 * so every step that returned must be in force, and the one that was on its way wholly or
 * not at all.
 *
 * At MS_TEST_SCALE=100: 200 kills and 2,000 images of a cut; every file operation of the
 * scripts, the end before and inside it (behind it: every third); every eleventh length
 * of a new file. At 1000 ten times as many, and all of the latter.
 */

#define _GNU_SOURCE
#include "diary.h"

#include <sys/resource.h>

enum { MOST = 20000 };        /* numbers in one file */


/* ---- one file through many lives ---- */

typedef struct history {
    char folder[300], path[320];
    scribe s;
    uint64_t told;            /* highest number that an append has returned for */
    uint64_t last;            /* highest number that was read */
    uint64_t *seqs;           /* by number; 0: not known */
    ms_log_engine engine;
    uint64_t damage;          /* events that must not come */
    const ms_os *os;          /* NULL: the system's */
} history;

static void on_event(void *ctx, const ms_log_event *event)
{
    history *h = (history *)ctx;
    if (event->kind == MS_LOG_DAMAGE || event->kind == MS_LOG_INDEX_DAMAGE) h->damage++;
}

static ms_log_desc desc_of(history *h, ms_log_mode mode)
{
    ms_log_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.path = h->path;
    desc.mode = mode;
    desc.engine = mode == MS_LOG_READ ? MS_ENGINE_AUTO : h->engine;
    desc.segment_size = MS_LOG_SEGMENT_MIN;
    desc.keep_unset_times = true;
    desc.os = h->os;
    desc.events.event = on_event;
    desc.events.ctx = h;
    return desc;
}

static void history_begin(history *h, const char *folder, size_t longest)
{
    memset(h, 0, sizeof *h);
    h->s.salt = test_seed();
    h->s.longest = longest;
    snprintf(h->folder, sizeof h->folder, "%s", folder);
    snprintf(h->path, sizeof h->path, "%s/log.msl", folder);
    h->seqs = (uint64_t *)calloc(MOST + SCRIBE_BATCH, sizeof h->seqs[0]);
    if (h->seqs == NULL) abort();
}

static void history_end(history *h)
{
    free(h->seqs);
    h->seqs = NULL;
}

/* The same, but for another file under the same path. */
static void history_anew(history *h, uint64_t salt)
{
    folder_empty(h->folder);
    memset(h->seqs, 0, (MOST + SCRIBE_BATCH) * sizeof h->seqs[0]);
    h->told = h->last = 0;
    h->s.salt = salt;
}

/* Opens, or fails the test. */
static ms_store *must_open(const ms_log_desc *desc, const char *when)
{
    ms_store *store;
    ms_error err;
    ms_result result = ms_log_open(&store, desc, &err);
    if (result != MS_OK)
        fail_msg("%s: %s: %s", when, ms_result_text(result), err.message);
    return store;
}

/* O1 and O2: a prefix without holes that has at least the messages up to `least`, at most
 * those of one append beyond `most`. */
static void must_read(history *h, ms_store *store, uint64_t least, uint64_t most,
                      const char *when)
{
    tally t;
    uint64_t first;
    if (!scribe_read(&h->s, store, false, h->seqs, &t)) fail_msg("%s: %s", when, t.wrong);
    if (t.result != MS_OK) fail_msg("%s: cursor: %s", when, ms_result_text(t.result));
    if (t.last < least)
        fail_msg("%s: %llu messages are there, %llu were promised", when,
                 (unsigned long long)t.last, (unsigned long long)least);
    size_t next = scribe_group(&h->s, most + 1, &first);
    if (t.last > most + next)
        fail_msg("%s: %llu messages are there, only %llu were written", when,
                 (unsigned long long)t.last, (unsigned long long)most + next);
    if (h->damage != 0) fail_msg("%s: damage was reported", when);
    h->last = t.last;
}

static void must_append(history *h, ms_store *store, const char *when)
{
    size_t count;
    ms_error err;
    if (scribe_append(&h->s, store, h->last + 1, h->seqs, &count, &err) != MS_OK)
        fail_msg("%s: append: %s", when, err.message);
    h->last += count;
    h->told = h->last;
}

static void must_verify(history *h, const char *when)
{
    ms_log_desc desc;
    ms_log_report report;
    ms_error err;
    memset(&desc, 0, sizeof desc);
    desc.path = h->path;
    if (ms_log_verify(&desc, &report, &err) != MS_OK)
        fail_msg("%s: verify: %s", when, err.message);
    assert_int_equal(report.messages, h->last);
    assert_int_equal(report.damaged + report.index_damaged, 0);
}


/* ---- kill -9 at random times ---- */

typedef struct ack {
    uint64_t number, seq;     /* number 0: the child failed, seq is the result */
} ack;

static void tell(int to, const ack *acks, size_t n)
{
    if (write(to, acks, n * sizeof acks[0]) < 0) _exit(4);
}

static void pause_us(uint64_t us)
{
    struct timespec t;
    t.tv_sec = 0;
    t.tv_nsec = (long)us * 1000;
    nanosleep(&t, NULL);
}

/* Appends until it is killed. */
static void child_appends(history *h, const ms_log_desc *desc, int to, uint64_t rng)
{
    ms_store *store;
    uint64_t pace = test_one_in(&rng, 2) ? 0 : test_below(&rng, 200);
    uint64_t n = h->last + 1;
    ack acks[SCRIBE_BATCH];
    memset(acks, 0, sizeof acks);
    ms_result result = ms_log_open(&store, desc, NULL);
    while (result == MS_OK && n < MOST) {
        size_t count;
        result = scribe_append(&h->s, store, n, h->seqs, &count, NULL);
        for (size_t i = 0; i < count; i++) {
            acks[i].number = n + i;
            acks[i].seq = h->seqs[n + i];
        }
        if (result == MS_OK) tell(to, acks, count);
        n += count;
        if (test_one_in(&rng, 50)) ms_sync(store, NULL, NULL);
        if (test_one_in(&rng, 50)) ms_tick(store, 20, NULL);
        if (pace != 0) pause_us(pace);
    }
    acks[0].number = 0;
    acks[0].seq = (uint64_t)result;
    if (result != MS_OK) tell(to, acks, 1);
    for (;;) pause();
}

/* Takes in what the child has told so far; wait: until there is something or its end. */
static void listen_to(history *h, int from, bool wait)
{
    ack acks[64];
    for (;;) {
        fcntl(from, F_SETFL, wait ? 0 : O_NONBLOCK);
        ssize_t got = read(from, acks, sizeof acks);
        if (got <= 0) return;
        for (size_t i = 0; i < (size_t)got / sizeof acks[0]; i++) {
            if (acks[i].number == 0)
                fail_msg("the child: %s", ms_result_text((ms_result)acks[i].seq));
            h->seqs[acks[i].number] = acks[i].seq;
            h->told = acks[i].number;
        }
        wait = false;
    }
}

/* Reads on behind what was read before; everything told before must be seen. */
static void watch(history *h, ms_store *reader, tally *t, int from)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    listen_to(h, from, false);
    memset(&q, 0, sizeof q);
    q.after_seq = t->last_seq;
    if (ms_query_open(reader, &q, &it, NULL) != MS_OK) fail_msg("a live reader: query");
    while ((msg = ms_next(&it)) != NULL)
        if (!tally_add(t, &h->s, msg, false, NULL))
            fail_msg("a live reader: %s", t->wrong);
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    if (t->last < h->told)
        fail_msg("a live reader sees %llu messages, %llu were appended",
                 (unsigned long long)t->last, (unsigned long long)h->told);
    if (t->last != 0 && !scribe_ends(&h->s, t->last))
        fail_msg("a live reader sees a torn batch");
}

/* Lets the child live for a while and reads meanwhile. */
static ms_store *live_beside(history *h, int from, uint64_t *rng, tally *seen)
{
    ms_log_desc desc = desc_of(h, MS_LOG_READ);
    ms_store *reader = NULL;
    if (test_one_in(rng, 2)) listen_to(h, from, true);
    double until = now_ms() + 0.2 + (double)test_below(rng, 2800) / 1000;
    memset(seen, 0, sizeof *seen);
    do {
        if (reader != NULL) watch(h, reader, seen, from);
        else if (ms_log_open(&reader, &desc, NULL) != MS_OK) pause_us(50);
    } while (now_ms() < until);
    return reader;
}

/* What stands after the kill. Once in three times nobody but the next child recovers. */
static void look_after(history *h, ms_store *reader, tally *seen, uint64_t *rng)
{
    uint64_t told = h->told;
    ms_log_desc desc = desc_of(h, MS_LOG_READ);
    ms_store *store = must_open(&desc, "reading after a kill");
    must_read(h, store, told, told, "reading after a kill");
    ms_close(store);
    h->told = h->last;        /* what was seen once stays */
    must_verify(h, "after a kill");
    if (seen->last > h->last) fail_msg("a reader saw what is not there any more");
    if (test_one_in(rng, 3)) return;
    uint64_t last = h->last;
    desc = desc_of(h, MS_LOG_CREATE);
    store = must_open(&desc, "writing after a kill");
    must_read(h, store, last, told, "writing after a kill");
    assert_int_equal(h->last, last);
    assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
    const char *fault = scribe_keys(&h->s, store, h->last, h->seqs, 10, rng);
    if (fault != NULL) fail_msg("after a kill: %s", fault);
    must_append(h, store, "after a kill");
    if (reader != NULL) {
        uint64_t seq = 0;
        assert_int_equal(test_refresh(reader, &seq, NULL), MS_OK);
        assert_int_equal(seq, h->seqs[h->last]);
    }
    ms_close(store);
    must_verify(h, "after a kill and an append");
}

static void one_kill(history *h, uint64_t *rng)
{
    int ends[2], status;
    tally seen;
    ms_log_desc desc = desc_of(h, MS_LOG_CREATE);
    desc.segment_size = (size_t)MS_LOG_SEGMENT_MIN << test_below(rng, 5);
    desc.sync = test_one_in(rng, 3) ? MS_SYNC_EACH : MS_SYNC_NONE;
    uint64_t seed = test_random(rng);
    if (pipe(ends) != 0) abort();
    pid_t child = fork_child();
    if (child == 0) {
        close(ends[0]);
        child_appends(h, &desc, ends[1], seed);
    }
    close(ends[1]);
    ms_store *reader = live_beside(h, ends[0], rng, &seen);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    listen_to(h, ends[0], false);
    close(ends[0]);
    struct stat st;
    bool there = stat(h->path, &st) == 0;
    if (there) look_after(h, reader, &seen, rng);
    else assert_int_equal(h->told, 0);
    ms_close(reader);
    if (there && (st.st_size > 3 << 20 || h->last > MOST / 2 || test_one_in(rng, 40)))
        history_anew(h, test_random(rng));
}

static void killed_at_random_times(void **state)
{
    ms_log_engine engine = *(const ms_log_engine *)*state;
    char folder[300];
    uint64_t rng = test_seed() + (uint64_t)engine, files = 0, messages = 0;
    history h;
    ms_os os = os_without_sync();
    folder_make(folder, sizeof folder);
    history_begin(&h, folder, 8192);
    h.os = &os;
    h.engine = engine;
    for (size_t i = 0; i < test_times(100); i++) {
        uint64_t before = h.last;
        one_kill(&h, &rng);
        files += h.last == 0;
        messages += h.last > before ? h.last - before : 0;
    }
    printf("%llu messages between the kills, %llu times a new file\n",
           (unsigned long long)messages, (unsigned long long)files);
    test_tally("kills at random times", test_times(100));
    history_end(&h);
    folder_remove(folder);
}


/* ---- the end at every file operation ---- */

/* What the child tells, in memory that outlives it. */
typedef struct telling {
    uint64_t told;
    uint64_t calls;
    int step;
    int failed;               /* a result that is not MS_OK */
    char message[300];
} telling;

static uint64_t another_boot(void *ctx)
{
    (void)ctx;
    return 4711;
}

static void script_fails(telling *t, ms_result result, const ms_error *err)
{
    t->failed = (int)result;
    snprintf(t->message, sizeof t->message, "step %d: %s", t->step, err->message);
    _exit(3);
}

static ms_store *script_open(history *h, telling *t, const ms_os *os, ms_log_mode mode)
{
    ms_log_desc desc = desc_of(h, mode);
    ms_store *store;
    ms_error err;
    t->step++;
    desc.os = os;
    ms_result result = ms_log_open(&store, &desc, &err);
    if (result != MS_OK) script_fails(t, result, &err);
    return store;
}

static void script_append(history *h, telling *t, ms_store *store, int groups)
{
    ms_error err;
    t->step++;
    for (int i = 0; i < groups; i++) {
        size_t count;
        ms_result result = scribe_append(&h->s, store, t->told + 1, NULL, &count, &err);
        if (result != MS_OK) script_fails(t, result, &err);
        __atomic_store_n(&t->told, t->told + count, __ATOMIC_RELEASE);
    }
}

static void script_sync(telling *t, ms_store *store)
{
    ms_error err;
    t->step++;
    ms_result result = ms_sync(store, NULL, &err);
    if (result != MS_OK) script_fails(t, result, &err);
}

static void script_rewrite(history *h, telling *t, ms_store *store, const ms_os *os)
{
    ms_log_desc desc = desc_of(h, MS_LOG_CREATE);
    ms_error err;
    t->step++;
    desc.os = os;
    ms_result result = ms_log_rewrite(store, &desc, true, NULL, NULL, &err);
    if (result != MS_OK) script_fails(t, result, &err);
}

/* Everything that touches the file, once or more. */
static void script(history *h, telling *t, const ms_os *os)
{
    ms_store *store = script_open(h, t, os, MS_LOG_CREATE);
    script_append(h, t, store, 30);
    script_sync(t, store);
    script_append(h, t, store, 20);
    ms_close(store);
    store = script_open(h, t, os, MS_LOG_WRITE);
    script_append(h, t, store, 40);
    script_sync(t, store);
    script_rewrite(h, t, store, os);
    ms_close(store);
    store = script_open(h, t, os, MS_LOG_WRITE);
    script_append(h, t, store, 10);
    ms_close(store);
}

/* Only an opening of what a crash has left, and one append. */
static void short_script(history *h, telling *t, const ms_os *os)
{
    ms_store *store = script_open(h, t, os, MS_LOG_WRITE);
    script_append(h, t, store, 1);
    ms_close(store);
}

static telling *telling_new(void)
{
    void *shared = mmap(NULL, sizeof(telling), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) abort();
    return (telling *)shared;
}

/* Runs a script in a child with trouble at call k. True when it came to its end. */
static bool run_in_child(history *h, telling *t, trip *os, trip_how how, uint64_t k,
                         void (*run)(history *, telling *, const ms_os *))
{
    int status;
    pid_t child = fork_child();
    if (child == 0) {
        os->how = how;
        os->at = k;
        run(h, t, &os->os);
        t->calls = os->calls;
        _exit(0);
    }
    waitpid(child, &status, 0);
    if (t->failed != 0) fail_msg("%s", t->message);
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 9))
        fail_msg("call %llu, step %d: the child ended with status %d",
                 (unsigned long long)k, t->step, status);
    return WEXITSTATUS(status) == 0;
}

/* Reads, recovers, appends, verifies. */
static void must_stand(history *h, const char *when)
{
    struct stat st;
    uint64_t told = h->told;
    if (stat(h->path, &st) == 0 && st.st_size > 0) {
        ms_log_desc desc = desc_of(h, MS_LOG_READ);
        ms_store *reader = must_open(&desc, when);
        must_read(h, reader, told, told, when);
        ms_close(reader);
    }
    ms_log_desc desc = desc_of(h, MS_LOG_CREATE);
    ms_store *store = must_open(&desc, when);
    must_read(h, store, told > h->last ? told : h->last, told, when);
    assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
    must_append(h, store, when);
    ms_close(store);
    must_verify(h, when);
}

/* Ends the script before, inside or after call k, for every k. */
static uint64_t end_at_every_call(history *h, trip_how how)
{
    static const char *const words[] = {"before", "inside", "after"};
    telling *t = telling_new();
    ms_os below = os_without_sync();
    size_t stride = test_scale() < 100 ? 100 / test_scale() : 1;
    if (how == TRIP_EXIT_AFTER && test_scale() < 1000) stride *= 3;
    uint64_t k = 1 + test_seed() % stride, ends = 0;
    bool done = false;
    for (; !done; k += stride) {
        char when[80];
        trip os;
        trip_init(&os, &below);
        if (how == TRIP_EXIT_HALF) os.kinds = TRIP_BIT(WRITE);
        history_anew(h, test_seed() + k);
        memset(t, 0, sizeof *t);
        done = run_in_child(h, t, &os, how, k, script);
        ends += !done;
        snprintf(when, sizeof when, "the end %s call %llu, in step %d",
                 words[how - TRIP_EXIT_BEFORE], (unsigned long long)k, t->step);
        h->told = t->told;
        must_stand(h, when);
    }
    uint64_t calls = t->calls;
    test_tally("ends at a file operation", ends);
    munmap(t, sizeof *t);
    return calls;
}

static void killed_at_every_file_operation(void **state)
{
    char folder[300];
    history h;
    ms_os os = os_without_sync();
    folder_make(folder, sizeof folder);
    history_begin(&h, folder, 600);
    h.os = &os;
    h.engine = *(const ms_log_engine *)*state;
    uint64_t calls = end_at_every_call(&h, TRIP_EXIT_BEFORE);
    printf("%llu file operations in the script\n", (unsigned long long)calls);
    assert_true(calls > 20);
    end_at_every_call(&h, TRIP_EXIT_HALF);
    end_at_every_call(&h, TRIP_EXIT_AFTER);
    history_end(&h);
    folder_remove(folder);
}

/* Fills the file with messages and leaves a torn record behind the last of them, as after
 * a cut of the power. */
static void make_torn(history *h, uint64_t rng)
{
    telling t;
    ms_os os = os_without_sync();
    unsigned char junk[100];
    ms_log_desc desc = desc_of(h, MS_LOG_READ);
    ms_log_report report;
    memset(&t, 0, sizeof t);
    ms_store *store = script_open(h, &t, &os, MS_LOG_CREATE);
    script_append(h, &t, store, 30);
    ms_close(store);
    h->told = h->last = t.told;
    assert_int_equal(ms_log_verify(&desc, &report, NULL), MS_OK);
    FILE *file = fopen(h->path, "r+b");
    if (file == NULL) abort();
    test_fill(&rng, junk, sizeof junk);
    junk[0] = 96;
    junk[1] = junk[2] = junk[3] = 0;
    fseek(file, (long)report.end, SEEK_SET);
    assert_int_equal(fwrite(junk, 1, sizeof junk, file), sizeof junk);
    fclose(file);
}

/* Recovery is ended at call k, again at another, then at a third; then it must work. */
static void killed_while_recovering(void **state)
{
    char folder[300];
    history h;
    ms_os os = os_without_sync();
    telling *t = telling_new();
    uint64_t rng = test_seed(), ends = 0;
    bool done = false;
    ms_os below = os_without_sync();
    below.boot = another_boot;
    folder_make(folder, sizeof folder);
    history_begin(&h, folder, 600);
    h.os = &os;
    h.engine = *(const ms_log_engine *)*state;
    for (uint64_t k = 1; !done; k++) {
        char when[80];
        history_anew(&h, test_seed() + k);
        make_torn(&h, rng + k);
        memset(t, 0, sizeof *t);
        t->told = h.told;
        for (int depth = 0; depth < 3; depth++) {
            trip calls;
            static const trip_how hows[] = {TRIP_EXIT_BEFORE, TRIP_EXIT_HALF,
                                            TRIP_EXIT_AFTER};
            uint64_t at = depth == 0 ? k : 1 + test_below(&rng, k);
            trip_init(&calls, &below);
            bool whole = run_in_child(&h, t, &calls, hows[test_below(&rng, 3)], at,
                                      short_script);
            if (depth == 0) done = whole;
            /* What was appended but not told may be there: the next child goes on
             * behind it. */
            ms_log_desc desc = desc_of(&h, MS_LOG_READ);
            desc.os = &below;
            snprintf(when, sizeof when, "recovery ended at call %llu, depth %d",
                     (unsigned long long)at, depth);
            ms_store *reader = must_open(&desc, when);
            must_read(&h, reader, t->told, t->told, when);
            ms_close(reader);
            t->told = h.told = h.last;
        }
        must_stand(&h, when);
        ends += 3;
    }
    test_tally("recoveries that were ended", ends);
    munmap(t, sizeof *t);
    history_end(&h);
    folder_remove(folder);
}


/* ---- creation interrupted ---- */

/* Opens it in both ways; reading changes nothing. must: it has to be taken for new. */
static void look_at_beginning(history *h, const char *whole, size_t n, bool must,
                              const char *when)
{
    size_t after;
    ms_store *store;
    tally t;
    assert_true(write_file(h->path, whole, n));
    h->told = h->last = h->damage = 0;
    memset(h->seqs, 0, 100 * sizeof h->seqs[0]);
    ms_log_desc desc = desc_of(h, MS_LOG_READ);
    if (ms_log_open(&store, &desc, NULL) == MS_OK) {
        if (!scribe_read(&h->s, store, false, NULL, &t))
            fail_msg("%s: %s", when, t.wrong);
        ms_close(store);
    } else if (must) {
        fail_msg("%s: a reader is refused", when);
    }
    char *bytes = read_file(h->path, &after);
    assert_int_equal(after, n);
    assert_memory_equal(bytes, whole, n);
    free(bytes);
    h->damage = 0;
    if (must) must_stand(h, when);
}

/* A new file with one message is cut to every length; then its head alone, as creation
 * has written it. */
static void a_new_file_of_every_length(void **state)
{
    char folder[300], when[60];
    history h;
    ms_os os = os_without_sync();
    size_t size, stride = test_scale() < 100 ? 101 : test_scale() < 1000 ? 11 : 1;
    (void)state;
    folder_make(folder, sizeof folder);
    history_begin(&h, folder, 100);
    h.os = &os;
    ms_log_desc desc = desc_of(&h, MS_LOG_CREATE);
    ms_store *store = must_open(&desc, "a new file");
    must_append(&h, store, "a new file");
    ms_log_info info;
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    ms_close(store);
    char *whole = read_file(h.path, &size);
    assert_true(whole != NULL && info.end <= size);
    for (size_t n = 0; n < info.end; n += stride) {
        snprintf(when, sizeof when, "a new log cut to %zu bytes", n);
        look_at_beginning(&h, whole, n, n == 0, when);
    }
    memset(whole + 1024, 0, size - 1024);
    whole[1025] = 0x10; /* the watermark is 4096 */
    for (size_t n = 0; n <= 4096; n += stride) {
        snprintf(when, sizeof when, "a new head cut to %zu bytes", n);
        look_at_beginning(&h, whole, n, true, when);
    }
    test_tally("files cut", (uint64_t)info.end / stride + 4096 / stride);
    free(whole);
    history_end(&h);
    folder_remove(folder);
}


/* ---- power cuts ---- */

typedef struct cutter {
    history h;
    uint64_t rng;
    disk from;                /* where the writer writes */
    disk to[3];               /* images, each made from the one before */
    unsigned char *image, *before;
    uint64_t *seqs;           /* the writer's, while images go their own ways */
    uint64_t images, durable; /* durable: highest number that a sync has covered */
    uint64_t torn;            /* images with something to give up */
    ms_sync_mode sync;
} cutter;

enum { DISK_ROOM = 4 << 20 };

static ms_log_desc cut_desc(cutter *c, disk *d, ms_log_mode mode)
{
    ms_log_desc desc = desc_of(&c->h, mode);
    desc.os = &d->os;
    desc.sync = mode == MS_LOG_READ ? MS_SYNC_NONE : c->sync;
    return desc;
}

static void cut_power(cutter *c, const disk *from, disk *to)
{
    disk_cut(to, from, &c->rng);
    c->images++;
}

/* O4: a reader changes nothing, and opening twice leaves the same bytes. */
static void recover_twice(cutter *c, disk *d, uint64_t least, uint64_t most)
{
    history *h = &c->h;
    size_t size = (size_t)d->size;
    memcpy(c->before, d->ro, size);
    ms_log_desc desc = cut_desc(c, d, MS_LOG_READ);
    ms_store *store;
    uint64_t last = least;
    ms_result result = ms_log_open(&store, &desc, NULL);
    if (result == MS_OK) {
        must_read(h, store, least, most, "reading after a power cut");
        last = h->last;
        ms_close(store);
    } else if (least != 0) {
        fail_msg("reading after a power cut: %s", ms_result_text(result));
    }
    if (d->size != size || memcmp(c->before, d->ro, size) != 0)
        fail_msg("reading after a power cut changed the file");
    ms_log_info info;
    ms_log_report report;
    ms_error err;
    if (result == MS_OK && ms_log_verify(&desc, &report, &err) != MS_OK)
        fail_msg("verifying after a power cut: %s", err.message);
    c->torn += result == MS_OK && report.torn_bytes != 0;
    desc = cut_desc(c, d, MS_LOG_CREATE);
    store = must_open(&desc, "opening after a power cut");
    must_read(h, store, last, most, "opening after a power cut");
    if (result == MS_OK && h->last != last) fail_msg("reader and writer do not agree");
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    assert_int_equal(info.lost_end, 0);
    assert_int_equal(info.damaged, 0);
    ms_close(store);
    size_t end = (size_t)info.end;
    memcpy(c->before, d->ro, end);
    store = must_open(&desc, "opening again after a power cut");
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    ms_close(store);
    if (info.end != end || memcmp(c->before + 4096, d->ro + 4096, end - 4096) != 0)
        fail_msg("opening twice after a power cut does not leave the same bytes");
    disk_is_idle(d);
}

/* O5: what was recovered is appended to, synced, and cut again, three deep. */
static void cut_and_recover(cutter *c, const disk *from, uint64_t least, uint64_t most,
                            int depth)
{
    history *h = &c->h;
    disk *d = &c->to[depth];
    cut_power(c, from, d);
    recover_twice(c, d, least, most);
    if (depth + 1 == 3 || !test_one_in(&c->rng, 4)) return;
    ms_log_desc desc = cut_desc(c, d, MS_LOG_WRITE);
    ms_store *store = must_open(&desc, "after a power cut");
    uint64_t groups = 1 + test_below(&c->rng, 20), synced = test_below(&c->rng, groups);
    uint64_t durable = h->last;
    for (uint64_t i = 0; i < groups; i++) {
        must_append(h, store, "after a power cut");
        if (i == synced) assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
        if (i == synced || c->sync == MS_SYNC_EACH) durable = h->last;
    }
    most = h->last;
    cut_and_recover(c, d, durable, most, depth + 1);
    ms_close(store);
}

/* One writer; every now and then images of a cut. */
static void writer_under_cuts(cutter *c, uint64_t images)
{
    history *h = &c->h;
    uint64_t wanted = c->images + images;
    disk_clear(&c->from);
    c->from.boot = test_random(&c->rng) | 1;
    c->from.inode++;
    c->durable = 0;
    memset(h->seqs, 0, (MOST + SCRIBE_BATCH) * sizeof h->seqs[0]);
    h->told = h->last = 0;
    h->s.salt = test_random(&c->rng);
    ms_log_desc desc = cut_desc(c, &c->from, MS_LOG_CREATE);
    desc.segment_size = (size_t)MS_LOG_SEGMENT_MIN << test_below(&c->rng, 3);
    uint64_t sync_rate = 2 + test_below(&c->rng, 60);
    bool never = c->sync == MS_SYNC_NONE && test_one_in(&c->rng, 4);
    ms_store *store = must_open(&desc, "a new file");
    uint64_t last = 0;
    while (c->images < wanted && c->from.size < DISK_ROOM / 2) {
        h->last = last;
        must_append(h, store, "under cuts");
        last = h->last;
        if (c->sync == MS_SYNC_EACH) c->durable = last;
        if (!never && test_one_in(&c->rng, sync_rate)) {
            uint64_t seq = 0;
            assert_int_equal(ms_sync(store, &seq, NULL), MS_OK);
            assert_int_equal(seq, h->seqs[last]);
            c->durable = last;
        }
        if (test_one_in(&c->rng, 40)) {
            ms_close(store);
            desc.mode = MS_LOG_WRITE;
            store = must_open(&desc, "under cuts");
            if (!never && ms_sync(store, NULL, NULL) == MS_OK) c->durable = last;
        }
        for (uint64_t i = test_below(&c->rng, 4); i > 0; i--) {
            memcpy(c->seqs, h->seqs, (MOST + SCRIBE_BATCH) * sizeof h->seqs[0]);
            cut_and_recover(c, &c->from, c->durable, last, 0);
            memcpy(h->seqs, c->seqs, (MOST + SCRIBE_BATCH) * sizeof h->seqs[0]);
        }
    }
    ms_close(store);
    disk_is_idle(&c->from);
}

static void power_is_cut(void **state)
{
    cutter *c = (cutter *)calloc(1, sizeof *c);
    if (c == NULL) abort();
    history_begin(&c->h, "nowhere", 3000);
    c->h.engine = *(const ms_log_engine *)*state;
    c->rng = test_seed() + (uint64_t)c->h.engine;
    disk_init(&c->from, DISK_ROOM);
    c->from.keep_synced = true;
    for (int i = 0; i < 3; i++) {
        disk_init(&c->to[i], DISK_ROOM);
        c->to[i].keep_synced = true;
    }
    c->before = (unsigned char *)malloc(DISK_ROOM);
    c->seqs = (uint64_t *)calloc(MOST + SCRIBE_BATCH, sizeof c->seqs[0]);
    if (c->before == NULL || c->seqs == NULL) abort();
    uint64_t wanted = test_times(1000);
    while (c->images < wanted) {
        c->sync = test_one_in(&c->rng, 3) ? MS_SYNC_EACH : MS_SYNC_NONE;
        writer_under_cuts(c, wanted / 10 + 1);
    }
    printf("%llu images with a torn end\n", (unsigned long long)c->torn);
    test_tally("power-cut images", c->images);
    if (wanted > 100) assert_true(c->torn > wanted / 50);
    free(c->before);
    free(c->seqs);
    disk_deinit(&c->from);
    for (int i = 0; i < 3; i++) disk_deinit(&c->to[i]);
    history_end(&c->h);
    free(c);
}


/* ---- changes of every kind ---- */

typedef struct diary_run {
    char folder[300], path[320];
    diary d, state;           /* what was done; what was found */
    ms_log_engine engine;
    const ms_os *os;
    uint64_t damage;
} diary_run;

/* An erasure that was on its way may leave a record that cannot be read. */
static void on_diary_event(void *ctx, const ms_log_event *event)
{
    diary_run *r = (diary_run *)ctx;
    if (event->kind == MS_LOG_DAMAGE || event->kind == MS_LOG_INDEX_DAMAGE) r->damage++;
}

static ms_log_desc diary_desc(diary_run *r, ms_log_mode mode)
{
    ms_log_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.path = r->path;
    desc.mode = mode;
    desc.engine = mode == MS_LOG_READ ? MS_ENGINE_AUTO : r->engine;
    desc.segment_size = MS_LOG_SEGMENT_MIN;
    desc.os = r->os;
    desc.events.event = on_diary_event;
    desc.events.ctx = r;
    return desc;
}

static diary_run *diary_run_new(ms_log_engine engine, const ms_os *os, const char *folder)
{
    diary_run *r = (diary_run *)calloc(1, sizeof *r);
    if (r == NULL) abort();
    snprintf(r->folder, sizeof r->folder, "%s", folder);
    snprintf(r->path, sizeof r->path, "%s/log.msl", folder);
    r->engine = engine;
    r->os = os;
    return r;
}

/* Was the step on its way a redaction? That is not done in one piece. */
static bool was_redacting(const diary_run *r, int told)
{
    static diary next;
    diary_replay(&r->d, told + 1, &next);
    return next.redacting;
}

/* A redaction that had not returned is shown, but its bytes may be there: once more. */
static void finish_redaction(diary_run *r, ms_store *store, const char *when)
{
    ms_error err;
    if (diary_learn(&r->state, store) != MS_OK) return;
    if (ms_redact(store, r->state.items[r->state.redacted].seq, &err) != MS_OK)
        fail_msg("%s: redact again: %s", when, err.message);
}

/* Opened for reading and for writing: all `told` steps are in force, perhaps the next one
 * too. Goes on with what was found. */
static void must_be_told(diary_run *r, int told, const char *when)
{
    const char *what = "";
    bool redacting = was_redacting(r, told);
    for (int writing = 0; writing < 2; writing++) {
        ms_log_desc desc = diary_desc(r, writing ? MS_LOG_CREATE : MS_LOG_READ);
        ms_store *store;
        ms_error err;
        size_t size;
        r->damage = 0;
        ms_result result = ms_log_open(&store, &desc, &err);
        if (result != MS_OK && !writing && told == 0) continue;
        if (result != MS_OK) fail_msg("%s: open: %s", when, err.message);
        int found = diary_find(&r->d, store, told, told + 1, &r->state, &what);
        if (found < 0 && redacting) { /* shown so, but not all of it is erased */
            found = told + 1;
            diary_replay(&r->d, found, &r->state);
        } else if (found < 0) {
            fail_msg("%s: after %d steps: %s", when, told, what);
        }
        if (ms_selfcheck(store, &err) != MS_OK && !redacting)
            fail_msg("%s: %s", when, err.message);
        bool half = redacting && found > told;
        if (half && writing) finish_redaction(r, store, when);
        if (half && writing && (what = diary_differs(&r->state, store)) != NULL)
            fail_msg("%s: redacted again: %s", when, what);
        ms_close(store);
        if (r->damage != 0 && !redacting) fail_msg("%s: damage is reported", when);
        char *bytes = read_file(r->path, &size);
        diary_forget_dead((unsigned char *)bytes, size);
        if (found >= 0 && (!half || writing) && diary_leaks(&r->state, bytes, size))
            fail_msg("%s: what was erased is in the file", when);
        free(bytes);
    }
}

/* Acknowledged steps are told in memory that outlives the child. */
static void diary_script_steps(diary_run *r, telling *t, ms_store *store, int steps)
{
    ms_error err;
    t->step++;
    for (int i = 0; i < steps; i++) {
        ms_result result = diary_step(&r->d, store, &err);
        if (result != MS_OK) script_fails(t, result, &err);
        __atomic_store_n(&t->told, (uint64_t)r->d.steps, __ATOMIC_RELEASE);
    }
}

static ms_store *diary_script_open(diary_run *r, telling *t, const ms_os *os)
{
    ms_log_desc desc = diary_desc(r, MS_LOG_CREATE);
    ms_store *store;
    ms_error err;
    t->step++;
    desc.os = os;
    ms_result result = ms_log_open(&store, &desc, &err);
    if (result != MS_OK) script_fails(t, result, &err);
    return store;
}

static void diary_script(diary_run *r, telling *t, const ms_os *os)
{
    ms_store *store = diary_script_open(r, t, os);
    diary_script_steps(r, t, store, 60);
    script_sync(t, store);
    diary_script_steps(r, t, store, 30);
    ms_close(store);
    store = diary_script_open(r, t, os);
    diary_script_steps(r, t, store, 60);
    ms_close(store);
}

/* The child's diary dies with it: the lost writer is put down before. */
static bool diary_in_child(diary_run *r, telling *t, trip *os)
{
    int status;
    pid_t child = fork_child();
    if (child == 0) {
        diary_script(r, t, &os->os);
        t->calls = os->calls;
        _exit(0);
    }
    waitpid(child, &status, 0);
    if (t->failed != 0) fail_msg("%s", t->message);
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 9))
        fail_msg("step %d: the child ended with status %d", t->step, status);
    return WEXITSTATUS(status) == 0;
}

static void changes_end_at_every_call(diary_run *r, trip_how how, uint64_t *calls)
{
    telling *t = telling_new();
    ms_os below = os_without_sync();
    uint64_t stride = test_scale() < 1000 ? 1000 / test_scale() : 1;
    bool done = false;
    uint64_t ends = 0;
    for (uint64_t k = 1 + test_seed() % stride; !done; k += stride) {
        char when[80];
        trip os;
        folder_empty(r->folder);
        memset(t, 0, sizeof *t);
        trip_init(&os, &below);
        if (how == TRIP_EXIT_HALF) os.kinds = TRIP_BIT(WRITE);
        os.how = how;
        os.at = k;
        os.whole = 8;                   /* a mark of erasing, in one sector */
        diary_begin(&r->d, test_seed() + k / 100);
        r->d.lost[r->d.n_lost++] = 90;  /* the script closes after 90 steps */
        done = diary_in_child(r, t, &os);
        ends += !done;
        *calls = t->calls;
        snprintf(when, sizeof when, "changes, the end (%d) at call %llu, in step %d",
                 (int)how, (unsigned long long)k, t->step);
        must_be_told(r, (int)t->told, when);
    }
    test_tally("ends at a file operation", ends);
    munmap(t, sizeof *t);
}

static void changes_killed_at_every_file_operation(void **state)
{
    char folder[300];
    ms_os os = os_without_sync();
    uint64_t calls = 0;
    folder_make(folder, sizeof folder);
    diary_run *r = diary_run_new(*(const ms_log_engine *)*state, &os, folder);
    changes_end_at_every_call(r, TRIP_EXIT_BEFORE, &calls);
    printf("%llu file operations in the script of changes\n", (unsigned long long)calls);
    changes_end_at_every_call(r, TRIP_EXIT_HALF, &calls);
    changes_end_at_every_call(r, TRIP_EXIT_AFTER, &calls);
    free(r);
    folder_remove(folder);
}

/* A child goes on with the diary until it is killed, then the next one. */
static void changes_killed_at_random_times(void **state)
{
    char folder[300];
    ms_os os = os_without_sync();
    uint64_t rng = test_seed() + 5, steps = 0;
    telling *t = telling_new();
    folder_make(folder, sizeof folder);
    diary_run *r = diary_run_new(*(const ms_log_engine *)*state, &os, folder);
    diary_begin(&r->d, test_seed());
    for (size_t i = 0; i < test_times(40); i++) {
        int status;
        memset(t, 0, sizeof *t);
        t->told = (uint64_t)r->d.steps;
        pid_t child = fork_child();
        if (child == 0) {
            ms_store *store = diary_script_open(r, t, &os);
            while (r->d.count < DIARY_MOST - 500) diary_script_steps(r, t, store, 1);
            for (;;) pause(); /* the parent is late: the diary has no room for more */
        }
        int before = r->d.steps;
        uint64_t enough = (uint64_t)before + 1 + test_below(&rng, 25);
        double until = now_ms() + 2000;
        while (__atomic_load_n(&t->told, __ATOMIC_ACQUIRE) < enough && now_ms() < until)
            pause_us(20);
        pause_us(test_below(&rng, 100));
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        if (t->failed != 0) fail_msg("%s", t->message);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        must_be_told(r, (int)t->told, "changes, killed");
        steps += (uint64_t)(r->state.steps - before);
        if (r->state.count > 600 || r->state.n_lost > DIARY_LOST - 2) {
            folder_empty(r->folder);
            diary_begin(&r->d, test_random(&rng));
        } else {
            r->d = r->state;
            diary_writer_gone(&r->d);
        }
    }
    printf("%llu steps between the kills\n", (unsigned long long)steps);
    test_tally("kills at random times", test_times(40));
    munmap(t, sizeof *t);
    free(r);
    folder_remove(folder);
}

/* The power is cut between two steps, or at a write or sync in the middle of one. */
static struct moment {
    cutter *c;
    bool armed;               /* the next call that is drawn makes an image */
    bool taken;
} moment;

static void perhaps_cut(void)
{
    if (!moment.armed || moment.taken || !test_one_in(&moment.c->rng, 4)) return;
    cut_power(moment.c, &moment.c->from, &moment.c->to[0]);
    moment.taken = true;
}

static int cut_write(void *ctx, ms_file file, uint64_t offset, const void *from,
                     size_t size, size_t *done)
{
    perhaps_cut();
    return disk_write(ctx, file, offset, from, size, done);
}

static int cut_sync(void *ctx, ms_file file)
{
    perhaps_cut();
    int code = disk_sync(ctx, file);
    perhaps_cut();
    return code;
}

/* One image: a prefix of the steps is there, all that were durable among them. */
static bool must_be_a_prefix(diary_run *r, cutter *c, int durable, bool middle)
{
    bool lost = false, redacting = middle && r->d.redacting;
    int steps = r->d.steps;
    for (int writing = 0; writing < 2; writing++) {
        const char *what = "";
        ms_store *after;
        ms_error err;
        ms_log_desc desc = diary_desc(r, writing ? MS_LOG_CREATE : MS_LOG_READ);
        desc.os = &c->to[0].os;
        r->damage = 0;
        ms_result result = ms_log_open(&after, &desc, &err);
        if (result != MS_OK && durable == 0 && !writing) continue;
        if (result != MS_OK) fail_msg("after a cut: %s", err.message);
        int found = diary_find(&r->d, after, durable, steps, &r->state, &what);
        if (found < 0 && redacting) {
            found = steps;
            diary_replay(&r->d, steps, &r->state);
            r->state.redacting = true;
        }
        if (found < 0)
            fail_msg("a cut after %d steps, %d durable: %s", steps, durable, what);
        bool half = redacting && found == steps;
        if (half && writing) finish_redaction(r, after, "after a cut");
        if (half && writing && (what = diary_differs(&r->state, after)) != NULL)
            fail_msg("redacted again after a cut: %s", what);
        lost = lost || found < steps;
        memcpy(c->image, c->to[0].ro, (size_t)c->to[0].size);
        diary_forget_dead(c->image, (size_t)c->to[0].size);
        if ((!half || writing) && diary_leaks(&r->state, c->image, (size_t)c->to[0].size))
            fail_msg("a cut brings back what was erased");
        ms_close(after);
        if (r->damage != 0) fail_msg("a cut: damage is reported");
    }
    return lost;
}

static uint64_t changes_under_cuts(diary_run *r, cutter *c, const ms_os *os)
{
    ms_error err;
    ms_log_desc desc = diary_desc(r, MS_LOG_CREATE);
    uint64_t lost = 0;
    int durable = 0;
    disk_clear(&c->from);
    c->from.boot = test_random(&c->rng) | 1;
    c->from.inode++;
    desc.os = os;
    ms_store *store = must_open(&desc, "changes under cuts");
    diary_begin(&r->d, test_random(&c->rng));
    for (int i = 0; i < 150; i++) {
        moment.taken = false;
        moment.armed = test_one_in(&c->rng, 4);
        if (diary_step(&r->d, store, &err) != MS_OK)
            fail_msg("changes under cuts, step %d: %s", i, err.message);
        moment.armed = false;
        if (moment.taken) lost += must_be_a_prefix(r, c, durable, true);
        if (r->d.redacting) durable = r->d.steps;
        if (test_one_in(&c->rng, 30)) {
            assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
            durable = r->d.steps;
        }
        if (!test_one_in(&c->rng, 8)) continue;
        cut_power(c, &c->from, &c->to[0]);
        lost += must_be_a_prefix(r, c, durable, false);
    }
    ms_close(store);
    return lost;
}

static void power_is_cut_among_changes(void **state)
{
    cutter *c = (cutter *)calloc(1, sizeof *c);
    diary_run *r = diary_run_new(*(const ms_log_engine *)*state, NULL, "nowhere");
    uint64_t wanted = test_times(300), lost = 0;
    if (c == NULL) abort();
    c->rng = test_seed() + 11;
    disk_init(&c->from, DISK_ROOM);
    disk_init(&c->to[0], DISK_ROOM);
    c->from.keep_synced = c->to[0].keep_synced = true;
    c->image = (unsigned char *)malloc(DISK_ROOM);
    if (c->image == NULL) abort();
    ms_os os = c->from.os;
    os.write = cut_write;
    os.sync = cut_sync;
    moment.c = c;
    while (c->images < wanted) lost += changes_under_cuts(r, c, &os);
    printf("%llu images lost steps\n", (unsigned long long)lost);
    test_tally("power-cut images", c->images);
    if (wanted > 100) assert_true(lost > wanted / 20);
    free(c->image);
    disk_deinit(&c->from);
    disk_deinit(&c->to[0]);
    free(r);
    free(c);
}

static ms_log_engine engines[] = {MS_ENGINE_MAP, MS_ENGINE_WRITE};

#define WITH_EACH_ENGINE(test)                                    \
    {#test " (map)", test, NULL, NULL, &engines[0]},              \
    {#test " (write)", test, NULL, NULL, &engines[1]}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_EACH_ENGINE(killed_at_random_times),
        WITH_EACH_ENGINE(killed_at_every_file_operation),
        WITH_EACH_ENGINE(killed_while_recovering),
        cmocka_unit_test(a_new_file_of_every_length),
        WITH_EACH_ENGINE(power_is_cut),
        WITH_EACH_ENGINE(changes_killed_at_every_file_operation),
        WITH_EACH_ENGINE(changes_killed_at_random_times),
        WITH_EACH_ENGINE(power_is_cut_among_changes),
    };
    scribe_page();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
