/* Processes that are killed.
 *
 * A child appends numbered messages, or makes changes of every kind from a diary. It
 * reports each step after the call has returned. It is killed at a random moment, or ends
 * at one file operation: before it, inside of a write, or after it. Every step that was
 * reported must be in force. The step that was on its way is there as a whole, or not at
 * all. Then the next child goes on with the file.
 *
 * At MS_TEST_SCALE=100: 140 kills with each engine; every file operation of the scripts
 * (after it: every third; of changes every tenth); every eleventh length of a new file.
 * At 1000 ten times as many kills, and each of the others.
 *
 * Left out: power losses (test_power).
 */

#define _GNU_SOURCE
#include "diary.h"

#include <sys/resource.h>

enum { MOST = 20000 };        /* numbers in one file */

/* What a child reports, in memory that outlives it. */
typedef struct telling {
    uint64_t told;            /* numbers or steps that have returned */
    uint64_t calls;
    int step;
    int failed;               /* a result that is not MS_OK */
    char message[300];
} telling;

/* A log, what was done with it, and what was found in it. */
typedef struct subject {
    char folder[300], path[320];
    ms_log_engine engine;
    ms_os os;                 /* the system's, without syncs */
    uint64_t damage;          /* events that must not come */
    telling *t;
    scribe s;                 /* numbered messages: */
    uint64_t told;            /* highest number that an append has returned for */
    uint64_t last;            /* highest number that was read */
    uint64_t *seqs;           /* by number; 0: not known */
    diary d, state;           /* changes: what was done; what was found */
} subject;

static void on_event(void *ctx, const ms_log_event *event)
{
    subject *c = (subject *)ctx;
    if (event->kind == MS_LOG_DAMAGE || event->kind == MS_LOG_INDEX_DAMAGE) c->damage++;
}

static ms_log_desc desc_of(subject *c, ms_log_mode mode)
{
    ms_log_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.path = c->path;
    desc.mode = mode;
    desc.engine = mode == MS_LOG_READ ? MS_ENGINE_AUTO : c->engine;
    desc.segment_size = MS_LOG_SEGMENT_MIN;
    desc.keep_unset_times = true;
    desc.os = &c->os;
    desc.events.event = on_event;
    desc.events.ctx = c;
    return desc;
}

static subject *subject_new(const void *engine, size_t longest)
{
    subject *c = (subject *)calloc(1, sizeof *c);
    void *shared = mmap(NULL, sizeof(telling), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (c == NULL || shared == MAP_FAILED) abort();
    c->t = (telling *)shared;
    c->engine = *(const ms_log_engine *)engine;
    c->os = os_without_sync();
    c->s.salt = test_seed();
    c->s.longest = longest;
    c->seqs = (uint64_t *)calloc(MOST + SCRIBE_BATCH, sizeof c->seqs[0]);
    if (c->seqs == NULL) abort();
    folder_make(c->folder, sizeof c->folder - 10);
    snprintf(c->path, sizeof c->path, "%s/log.msl", c->folder);
    return c;
}

static void subject_free(subject *c)
{
    folder_remove(c->folder);
    munmap(c->t, sizeof *c->t);
    free(c->seqs);
    free(c);
}

/* The same, but for another file under the same path. */
static void begin_numbered(subject *c, uint64_t salt)
{
    folder_empty(c->folder);
    memset(c->seqs, 0, (MOST + SCRIBE_BATCH) * sizeof c->seqs[0]);
    c->told = c->last = 0;
    c->s.salt = salt;
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
static void must_read(subject *c, ms_store *store, uint64_t least, uint64_t most,
                      const char *when)
{
    tally t;
    uint64_t first;
    if (!scribe_read(&c->s, store, false, c->seqs, &t)) fail_msg("%s: %s", when, t.wrong);
    if (t.result != MS_OK) fail_msg("%s: cursor: %s", when, ms_result_text(t.result));
    if (t.last < least)
        fail_msg("%s: %llu messages are there, %llu were promised", when,
                 (unsigned long long)t.last, (unsigned long long)least);
    size_t next = scribe_group(&c->s, most + 1, &first);
    if (t.last > most + next)
        fail_msg("%s: %llu messages are there, only %llu were written", when,
                 (unsigned long long)t.last, (unsigned long long)most + next);
    if (c->damage != 0) fail_msg("%s: damage was reported", when);
    c->last = t.last;
}

static void must_append(subject *c, ms_store *store, const char *when)
{
    size_t count;
    ms_error err;
    if (scribe_append(&c->s, store, c->last + 1, c->seqs, &count, &err) != MS_OK)
        fail_msg("%s: append: %s", when, err.message);
    c->last += count;
    c->told = c->last;
}

static void must_verify(subject *c, const char *when)
{
    ms_log_desc desc;
    ms_log_report report;
    ms_error err;
    memset(&desc, 0, sizeof desc);
    desc.path = c->path;
    if (ms_log_verify(&desc, &report, &err) != MS_OK)
        fail_msg("%s: verify: %s", when, err.message);
    assert_int_equal(report.messages, c->last);
    assert_int_equal(report.damaged + report.index_damaged, 0);
}

/* Reads, recovers, appends, verifies. */
static void must_stand(subject *c, const char *when)
{
    struct stat st;
    uint64_t told = c->told;
    if (stat(c->path, &st) == 0 && st.st_size > 0) {
        ms_log_desc desc = desc_of(c, MS_LOG_READ);
        ms_store *reader = must_open(&desc, when);
        must_read(c, reader, told, told, when);
        ms_close(reader);
    }
    ms_log_desc desc = desc_of(c, MS_LOG_CREATE);
    ms_store *store = must_open(&desc, when);
    must_read(c, store, told > c->last ? told : c->last, told, when);
    assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
    must_append(c, store, when);
    ms_close(store);
    must_verify(c, when);
}

/* Is the step that was on its way a redaction? It consists of several parts. */
static bool was_redacting(const subject *c, int told)
{
    static diary next;
    diary_replay(&c->d, told + 1, &next);
    return next.redacting;
}

/* Repeats a redaction that had not returned: it is shown, but its bytes may be there. */
static void finish_redaction(subject *c, ms_store *store, const char *when)
{
    ms_error err;
    const char *what;
    if (diary_learn(&c->state, store) == MS_OK &&
        ms_redact(store, c->state.items[c->state.redacted].seq, &err) != MS_OK)
        fail_msg("%s: redact again: %s", when, err.message);
    if ((what = diary_differs(&c->state, store)) != NULL)
        fail_msg("%s: redacted again: %s", when, what);
}

/* Opened for reading and for writing: all `told` steps are in force, perhaps the next one
 * too. Goes on with what was found. */
static void must_be_told(subject *c, int told, const char *when)
{
    const char *what = "";
    bool redacting = was_redacting(c, told);
    for (int writing = 0; writing < 2; writing++) {
        ms_log_desc desc = desc_of(c, writing ? MS_LOG_CREATE : MS_LOG_READ);
        ms_store *store;
        ms_error err;
        size_t size;
        c->damage = 0;
        ms_result result = ms_log_open(&store, &desc, &err);
        if (result != MS_OK && !writing && told == 0) continue;
        if (result != MS_OK) fail_msg("%s: open: %s", when, err.message);
        int found = diary_find(&c->d, store, told, told + 1, &c->state, &what);
        if (found < 0 && !redacting) fail_msg("%s: after %d steps: %s", when, told, what);
        if (found < 0) { /* shown so, but not all of it is erased */
            found = told + 1;
            diary_replay(&c->d, found, &c->state);
        }
        if (ms_selfcheck(store, &err) != MS_OK && !redacting)
            fail_msg("%s: %s", when, err.message);
        bool half = redacting && found > told;
        if (half && writing) finish_redaction(c, store, when);
        ms_close(store);
        if (c->damage != 0 && !redacting) fail_msg("%s: damage is reported", when);
        char *bytes = read_file(c->path, &size);
        diary_forget_dead((unsigned char *)bytes, size);
        if ((!half || writing) && diary_leaks(&c->state, bytes, size))
            fail_msg("%s: what was erased is in the file", when);
        free(bytes);
    }
}


/* ---- SIGKILL at random times ---- */

typedef struct ack {
    uint64_t number, seq;     /* number 0: the child failed, seq is the result */
} ack;

static void report(int to, const ack *acks, size_t n)
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

static void must_be_killed(pid_t child)
{
    int status;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Appends until it is killed. */
static void child_appends(subject *c, const ms_log_desc *desc, int to, uint64_t rng)
{
    ms_store *store;
    uint64_t pace = test_one_in(&rng, 2) ? 0 : test_below(&rng, 200);
    uint64_t n = c->last + 1;
    ack acks[SCRIBE_BATCH];
    memset(acks, 0, sizeof acks);
    ms_result result = ms_log_open(&store, desc, NULL);
    while (result == MS_OK && n < MOST) {
        size_t count;
        result = scribe_append(&c->s, store, n, c->seqs, &count, NULL);
        for (size_t i = 0; i < count; i++) {
            acks[i].number = n + i;
            acks[i].seq = c->seqs[n + i];
        }
        if (result == MS_OK) report(to, acks, count);
        n += count;
        if (test_one_in(&rng, 50)) ms_sync(store, NULL, NULL);
        if (test_one_in(&rng, 50)) ms_tick(store, 20, NULL);
        if (pace != 0) pause_us(pace);
    }
    acks[0].number = 0;
    acks[0].seq = (uint64_t)result;
    if (result != MS_OK) report(to, acks, 1);
    for (;;) pause();
}

/* Takes in what the child has reported; wait: until there is something, or its end. */
static void listen_to(subject *c, int from, bool wait)
{
    ack acks[64];
    for (;;) {
        fcntl(from, F_SETFL, wait ? 0 : O_NONBLOCK);
        ssize_t got = read(from, acks, sizeof acks);
        if (got <= 0) return;
        for (size_t i = 0; i < (size_t)got / sizeof acks[0]; i++) {
            if (acks[i].number == 0)
                fail_msg("the child: %s", ms_result_text((ms_result)acks[i].seq));
            c->seqs[acks[i].number] = acks[i].seq;
            c->told = acks[i].number;
        }
        wait = false;
    }
}

/* Reads on after what was read before; everything reported before must be seen. */
static void watch(subject *c, ms_store *reader, tally *t, int from)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    listen_to(c, from, false);
    memset(&q, 0, sizeof q);
    q.after_seq = t->last_seq;
    if (ms_query_open(reader, &q, &it, NULL) != MS_OK) fail_msg("a live reader: query");
    while ((msg = ms_next(&it)) != NULL)
        if (!tally_add(t, &c->s, msg, false, NULL))
            fail_msg("a live reader: %s", t->wrong);
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    if (t->last < c->told)
        fail_msg("a live reader sees %llu messages, %llu were appended",
                 (unsigned long long)t->last, (unsigned long long)c->told);
    if (t->last != 0 && !scribe_ends(&c->s, t->last))
        fail_msg("a live reader sees a torn batch");
}

/* Lets the child live for a while and reads meanwhile. */
static ms_store *live_beside(subject *c, int from, uint64_t *rng, tally *seen)
{
    ms_log_desc desc = desc_of(c, MS_LOG_READ);
    ms_store *reader = NULL;
    if (test_one_in(rng, 2)) listen_to(c, from, true);
    double until = now_ms() + 0.2 + (double)test_below(rng, 2800) / 1000;
    memset(seen, 0, sizeof *seen);
    do {
        if (reader != NULL) watch(c, reader, seen, from);
        else if (ms_log_open(&reader, &desc, NULL) != MS_OK) pause_us(50);
    } while (now_ms() < until);
    return reader;
}

/* What stands after the kill. Once in three times only the next child recovers. */
static void look_after(subject *c, ms_store *reader, tally *seen, uint64_t *rng)
{
    uint64_t told = c->told;
    ms_log_desc desc = desc_of(c, MS_LOG_READ);
    ms_store *store = must_open(&desc, "reading after a kill");
    must_read(c, store, told, told, "reading after a kill");
    ms_close(store);
    c->told = c->last;        /* what was seen once stays */
    must_verify(c, "after a kill");
    if (seen->last > c->last) fail_msg("a reader saw what is not there any more");
    if (test_one_in(rng, 3)) return;
    uint64_t last = c->last;
    desc = desc_of(c, MS_LOG_CREATE);
    store = must_open(&desc, "writing after a kill");
    must_read(c, store, last, told, "writing after a kill");
    assert_int_equal(c->last, last);
    assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
    const char *fault = scribe_keys(&c->s, store, c->last, c->seqs, 10, rng);
    if (fault != NULL) fail_msg("after a kill: %s", fault);
    must_append(c, store, "after a kill");
    if (reader != NULL) {
        uint64_t seq = 0;
        assert_int_equal(test_refresh(reader, &seq, NULL), MS_OK);
        assert_int_equal(seq, c->seqs[c->last]);
    }
    ms_close(store);
    must_verify(c, "after a kill and an append");
}

static void one_kill(subject *c, uint64_t *rng)
{
    int ends[2];
    tally seen;
    ms_log_desc desc = desc_of(c, MS_LOG_CREATE);
    desc.segment_size = (size_t)MS_LOG_SEGMENT_MIN << test_below(rng, 5);
    desc.sync = test_one_in(rng, 3) ? MS_SYNC_EACH : MS_SYNC_NONE;
    uint64_t seed = test_random(rng);
    if (pipe(ends) != 0) abort();
    pid_t child = fork_child();
    if (child == 0) {
        close(ends[0]);
        child_appends(c, &desc, ends[1], seed);
    }
    close(ends[1]);
    ms_store *reader = live_beside(c, ends[0], rng, &seen);
    must_be_killed(child);
    listen_to(c, ends[0], false);
    close(ends[0]);
    struct stat st;
    bool there = stat(c->path, &st) == 0;
    if (there) look_after(c, reader, &seen, rng);
    else assert_int_equal(c->told, 0);
    ms_close(reader);
    if (there && (st.st_size > 3 << 20 || c->last > MOST / 2 || test_one_in(rng, 40)))
        begin_numbered(c, test_random(rng));
}

static void appends_stay_when_the_writer_is_killed_at_random_times(void **state)
{
    subject *c = subject_new(*state, 8192);
    uint64_t rng = test_seed() + (uint64_t)c->engine, files = 0, messages = 0;
    for (size_t i = 0; i < test_times(100); i++) {
        uint64_t before = c->last;
        one_kill(c, &rng);
        files += c->last == 0;
        messages += c->last > before ? c->last - before : 0;
    }
    printf("%llu messages between the kills, %llu times a new file\n",
           (unsigned long long)messages, (unsigned long long)files);
    test_tally("kills at random times", test_times(100));
    subject_free(c);
}


/* ---- the end at every file operation ---- */

typedef void (*script)(subject *c, const ms_os *os);

static void script_must(telling *t, ms_result result, const ms_error *err)
{
    if (result == MS_OK) return;
    t->failed = (int)result;
    snprintf(t->message, sizeof t->message, "step %d: %s", t->step, err->message);
    _exit(3);
}

static ms_store *script_open(subject *c, const ms_os *os, ms_log_mode mode)
{
    ms_log_desc desc = desc_of(c, mode);
    ms_store *store;
    ms_error err;
    c->t->step++;
    desc.os = os;
    script_must(c->t, ms_log_open(&store, &desc, &err), &err);
    return store;
}

static void script_append(subject *c, ms_store *store, int groups)
{
    ms_error err;
    telling *t = c->t;
    t->step++;
    for (int i = 0; i < groups; i++) {
        size_t n;
        script_must(t, scribe_append(&c->s, store, t->told + 1, NULL, &n, &err), &err);
        __atomic_store_n(&t->told, t->told + n, __ATOMIC_RELEASE);
    }
}

static void script_change(subject *c, ms_store *store, int steps)
{
    ms_error err;
    c->t->step++;
    for (int i = 0; i < steps; i++) {
        script_must(c->t, diary_step(&c->d, store, &err), &err);
        __atomic_store_n(&c->t->told, (uint64_t)c->d.steps, __ATOMIC_RELEASE);
    }
}

static void script_sync(subject *c, ms_store *store)
{
    ms_error err;
    c->t->step++;
    script_must(c->t, ms_sync(store, NULL, &err), &err);
}

static void script_rewrite(subject *c, ms_store *store, const ms_os *os)
{
    ms_log_desc desc = desc_of(c, MS_LOG_CREATE);
    ms_error err;
    c->t->step++;
    desc.os = os;
    script_must(c->t, ms_log_rewrite(store, &desc, true, NULL, NULL, &err), &err);
}

/* Everything that touches the file, once or more. */
static void appends(subject *c, const ms_os *os)
{
    ms_store *store = script_open(c, os, MS_LOG_CREATE);
    script_append(c, store, 30);
    script_sync(c, store);
    script_append(c, store, 20);
    ms_close(store);
    store = script_open(c, os, MS_LOG_WRITE);
    script_append(c, store, 40);
    script_sync(c, store);
    script_rewrite(c, store, os);
    ms_close(store);
    store = script_open(c, os, MS_LOG_WRITE);
    script_append(c, store, 10);
    ms_close(store);
}

/* Opens what a crash has left, and appends once. */
static void recovers(subject *c, const ms_os *os)
{
    ms_store *store = script_open(c, os, MS_LOG_WRITE);
    script_append(c, store, 1);
    ms_close(store);
}

static void changes(subject *c, const ms_os *os)
{
    ms_store *store = script_open(c, os, MS_LOG_CREATE);
    script_change(c, store, 60);
    script_sync(c, store);
    script_change(c, store, 30);
    ms_close(store);
    store = script_open(c, os, MS_LOG_CREATE);
    script_change(c, store, 60);
    ms_close(store);
}

/* Runs a script in a child. True when it came to its end. */
static bool run_in_child(subject *c, trip *os, script run)
{
    int status;
    pid_t child = fork_child();
    if (child == 0) {
        run(c, &os->os);
        c->t->calls = os->calls;
        _exit(0);
    }
    waitpid(child, &status, 0);
    if (c->t->failed != 0) fail_msg("%s", c->t->message);
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 9))
        fail_msg("call %llu, step %d: the child ended with status %d",
                 (unsigned long long)os->at, c->t->step, status);
    return WEXITSTATUS(status) == 0;
}

/* Ends a script before, inside of or after call k, for k from 1 on. */
static void end_at_every_call(subject *c, script run, trip_how how, size_t stride)
{
    static const char *const words[] = {"before", "inside", "after"};
    uint64_t ends = 0;
    bool done = false;
    for (uint64_t k = 1 + test_seed() % stride; !done; k += stride) {
        char when[80];
        trip os;
        trip_init(&os, &c->os);
        if (how == TRIP_EXIT_HALF) os.kinds = TRIP_BIT(WRITE);
        if (run == changes) os.whole = 8; /* the mark of an erasure, in one sector */
        os.how = how;
        os.at = k;
        begin_numbered(c, test_seed() + k);
        diary_begin(&c->d, test_seed() + k / 100);
        c->d.lost[c->d.n_lost++] = 90;    /* the script closes after 90 steps */
        memset(c->t, 0, sizeof *c->t);
        done = run_in_child(c, &os, run);
        ends += !done;
        snprintf(when, sizeof when, "the end %s call %llu, in step %d",
                 words[how - TRIP_EXIT_BEFORE], (unsigned long long)k, c->t->step);
        c->told = c->t->told;
        if (run == changes) must_be_told(c, (int)c->t->told, when);
        else must_stand(c, when);
    }
    if (how == TRIP_EXIT_BEFORE) {
        printf("%llu file operations in the script\n", (unsigned long long)c->t->calls);
        assert_true(c->t->calls > 20);
    }
    test_tally("ends at a file operation", ends);
}

static void appends_stay_when_the_writer_ends_at_any_file_operation(void **state)
{
    subject *c = subject_new(*state, 600);
    size_t stride = test_scale() < 100 ? 100 / test_scale() : 1;
    end_at_every_call(c, appends, TRIP_EXIT_BEFORE, stride);
    end_at_every_call(c, appends, TRIP_EXIT_HALF, stride);
    end_at_every_call(c, appends, TRIP_EXIT_AFTER, test_scale() < 1000 ? 3 * stride : 1);
    subject_free(c);
}

static void changes_stay_when_the_writer_ends_at_any_file_operation(void **state)
{
    subject *c = subject_new(*state, 600);
    size_t stride = test_scale() < 1000 ? 1000 / test_scale() : 1;
    for (int how = TRIP_EXIT_BEFORE; how <= TRIP_EXIT_AFTER; how++)
        end_at_every_call(c, changes, (trip_how)how, stride);
    subject_free(c);
}

/* Fills the file with messages and leaves a torn record after the last of them. */
static void make_torn(subject *c, uint64_t rng)
{
    unsigned char junk[100];
    ms_log_desc desc = desc_of(c, MS_LOG_READ);
    ms_log_report report;
    memset(c->t, 0, sizeof *c->t);
    ms_store *store = script_open(c, &c->os, MS_LOG_CREATE);
    script_append(c, store, 30);
    ms_close(store);
    c->told = c->last = c->t->told;
    assert_int_equal(ms_log_verify(&desc, &report, NULL), MS_OK);
    FILE *file = fopen(c->path, "r+b");
    if (file == NULL) abort();
    test_fill(&rng, junk, sizeof junk);
    junk[0] = 96;
    junk[1] = junk[2] = junk[3] = 0;
    fseek(file, (long)report.end, SEEK_SET);
    assert_int_equal(fwrite(junk, 1, sizeof junk, file), sizeof junk);
    fclose(file);
}

static uint64_t another_boot(void *ctx)
{
    (void)ctx;
    return 4711;
}

/* The recovery ends at call k, the next two at other calls; then it succeeds. */
static void appends_stay_when_a_recovery_ends_at_any_file_operation(void **state)
{
    static const trip_how hows[] = {TRIP_EXIT_BEFORE, TRIP_EXIT_HALF, TRIP_EXIT_AFTER};
    subject *c = subject_new(*state, 600);
    uint64_t rng = test_seed(), ends = 0;
    bool done = false;
    ms_os below = c->os;
    below.boot = another_boot;
    for (uint64_t k = 1; !done; k++, ends += 3) {
        char when[80];
        begin_numbered(c, test_seed() + k);
        make_torn(c, rng + k);
        memset(c->t, 0, sizeof *c->t);
        c->t->told = c->told;
        for (int depth = 0; depth < 3; depth++) {
            trip calls;
            trip_init(&calls, &below);
            calls.at = depth == 0 ? k : 1 + test_below(&rng, k);
            calls.how = hows[test_below(&rng, 3)];
            bool whole = run_in_child(c, &calls, recovers);
            if (depth == 0) done = whole;
            /* An append that was not reported may be there: the next child goes on
             * after it. */
            ms_log_desc desc = desc_of(c, MS_LOG_READ);
            desc.os = &below;
            snprintf(when, sizeof when, "recovery ended at call %llu, depth %d",
                     (unsigned long long)calls.at, depth);
            ms_store *reader = must_open(&desc, when);
            must_read(c, reader, c->t->told, c->t->told, when);
            ms_close(reader);
            c->t->told = c->told = c->last;
        }
        must_stand(c, when);
    }
    test_tally("recoveries that were ended", ends);
    subject_free(c);
}


/* ---- creation interrupted ---- */

/* Opens it in both ways; reading changes nothing. must: it is taken for a new log. */
static void look_at_beginning(subject *c, const char *whole, size_t n, bool must)
{
    char when[60];
    size_t after;
    ms_store *store;
    tally t;
    snprintf(when, sizeof when, "the first %zu bytes of a new log", n);
    assert_true(write_file(c->path, whole, n));
    c->told = c->last = c->damage = 0;
    memset(c->seqs, 0, 100 * sizeof c->seqs[0]);
    ms_log_desc desc = desc_of(c, MS_LOG_READ);
    if (ms_log_open(&store, &desc, NULL) == MS_OK) {
        if (!scribe_read(&c->s, store, false, NULL, &t))
            fail_msg("%s: %s", when, t.wrong);
        ms_close(store);
    } else if (must) {
        fail_msg("%s: a reader is refused", when);
    }
    char *bytes = read_file(c->path, &after);
    assert_int_equal(after, n);
    assert_memory_equal(bytes, whole, n);
    free(bytes);
    c->damage = 0;
    if (must) must_stand(c, when);
}

/* A new file with one message ends at every length; then its superblock, as creation
 * has written it. */
static void a_log_opens_when_its_creation_ended_at_any_byte(void **state)
{
    subject *c = subject_new(*state, 100);
    size_t size, stride = test_scale() < 100 ? 101 : test_scale() < 1000 ? 11 : 1;
    ms_log_desc desc = desc_of(c, MS_LOG_CREATE);
    ms_store *store = must_open(&desc, "a new file");
    must_append(c, store, "a new file");
    ms_log_info info;
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    ms_close(store);
    char *whole = read_file(c->path, &size);
    assert_true(whole != NULL && info.end <= size);
    for (size_t n = 0; n < info.end; n += stride) look_at_beginning(c, whole, n, n == 0);
    memset(whole + 1024, 0, size - 1024);
    whole[1025] = 0x10; /* the watermark is 4096 */
    for (size_t n = 0; n <= 4096; n += stride) look_at_beginning(c, whole, n, true);
    test_tally("files cut", (uint64_t)info.end / stride + 4096 / stride);
    free(whole);
    subject_free(c);
}


/* ---- changes of every kind ---- */

/* A child goes on with the diary until it is killed. */
static void one_kill_of_changes(subject *c, uint64_t *rng)
{
    memset(c->t, 0, sizeof *c->t);
    c->t->told = (uint64_t)c->d.steps;
    uint64_t enough = c->t->told + 1 + test_below(rng, 25);
    pid_t child = fork_child();
    if (child == 0) {
        ms_store *store = script_open(c, &c->os, MS_LOG_CREATE);
        while (c->d.count < DIARY_MOST - 500) script_change(c, store, 1);
        for (;;) pause(); /* the parent is late: the diary has no room for more */
    }
    double until = now_ms() + 2000;
    while (__atomic_load_n(&c->t->told, __ATOMIC_ACQUIRE) < enough && now_ms() < until)
        pause_us(20);
    pause_us(test_below(rng, 100));
    must_be_killed(child);
    if (c->t->failed != 0) fail_msg("%s", c->t->message);
    must_be_told(c, (int)c->t->told, "changes, killed");
}

static void changes_stay_when_the_writer_is_killed_at_random_times(void **state)
{
    subject *c = subject_new(*state, 600);
    uint64_t rng = test_seed() + 5, steps = 0;
    diary_begin(&c->d, test_seed());
    for (size_t i = 0; i < test_times(40); i++) {
        int before = c->d.steps;
        one_kill_of_changes(c, &rng);
        steps += (uint64_t)(c->state.steps - before);
        if (c->state.count > 600 || c->state.n_lost > DIARY_LOST - 2) {
            folder_empty(c->folder);
            diary_begin(&c->d, test_random(&rng));
        } else {
            c->d = c->state;
            diary_writer_gone(&c->d);
        }
    }
    printf("%llu steps between the kills\n", (unsigned long long)steps);
    test_tally("kills at random times", test_times(40));
    subject_free(c);
}

static ms_log_engine engines[] = {MS_ENGINE_MAP, MS_ENGINE_WRITE, MS_ENGINE_AUTO};

#define WITH_EACH_ENGINE(test)                                    \
    {#test " (map)", test, NULL, NULL, &engines[0]},              \
    {#test " (write)", test, NULL, NULL, &engines[1]}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_EACH_ENGINE(appends_stay_when_the_writer_is_killed_at_random_times),
        WITH_EACH_ENGINE(appends_stay_when_the_writer_ends_at_any_file_operation),
        WITH_EACH_ENGINE(appends_stay_when_a_recovery_ends_at_any_file_operation),
        {"a_log_opens_when_its_creation_ended_at_any_byte",
         a_log_opens_when_its_creation_ended_at_any_byte, NULL, NULL, &engines[2]},
        WITH_EACH_ENGINE(changes_stay_when_the_writer_ends_at_any_file_operation),
        WITH_EACH_ENGINE(changes_stay_when_the_writer_is_killed_at_random_times),
    };
    scribe_page();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
