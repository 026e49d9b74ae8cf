/* Processes that are killed.
 *
 * A child appends numbered messages, or makes changes of every kind from a diary. It
 * reports each step after the call has returned, and is killed at a random moment. Every
 * step that was reported must be in force. The step that was on its way is there as a
 * whole, or not at all. Then the next child goes on with the file.
 *
 * At MS_TEST_SCALE=100 140 kills with each engine, at 1000 ten times as many.
 *
 * Left out: power losses, and kills of changes inside of a call (test_power); kills at
 * each file operation (test_log_recover).
 */

#define _GNU_SOURCE
#include "diary.h"

#include <sys/resource.h>

enum { MOST = 20000 };        /* numbers in one file */

/* What a child reports, in memory that outlives it. */
typedef struct telling {
    uint64_t told;            /* numbers or steps that have returned */
    uint64_t seqs[MOST + SCRIBE_BATCH]; /* by number; 0: not known */
    bool failed;
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
    folder_make(c->folder, sizeof c->folder - 10);
    snprintf(c->path, sizeof c->path, "%s/log.msl", c->folder);
    return c;
}

static void subject_free(subject *c)
{
    folder_remove(c->folder);
    munmap(c->t, sizeof *c->t);
    free(c);
}

/* The same, but for another file under the same path. */
static void begin_numbered(subject *c, uint64_t salt)
{
    folder_empty(c->folder);
    memset(c->t->seqs, 0, sizeof c->t->seqs);
    c->told = c->last = 0;
    c->s.salt = salt;
}

/* O1 and O2: a prefix without holes that has at least the messages up to `least`, at most
 * those of one append beyond `most`. */
static void must_read(subject *c, ms_store *store, uint64_t least, uint64_t most,
                      const char *when)
{
    tally t;
    uint64_t first;
    if (!scribe_read(&c->s, store, false, c->t->seqs, &t))
        fail_msg("%s: %s", when, t.wrong);
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
    if (scribe_append(&c->s, store, c->last + 1, c->t->seqs, &count, &err) != MS_OK)
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
    if (history_learn(&c->state.h, store) == MS_OK &&
        ms_redact(store, c->state.h.items[c->state.redacted].seq, &err) != MS_OK)
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

/* In the child: waits to be killed, since a call has failed. */
static void child_must(subject *c, ms_result result, const ms_error *err)
{
    if (result == MS_OK) return;
    snprintf(c->t->message, sizeof c->t->message, "%s", err->message);
    __atomic_store_n(&c->t->failed, true, __ATOMIC_RELEASE);
    for (;;) pause();
}

static ms_store *child_open(subject *c, const ms_log_desc *desc)
{
    ms_store *store;
    ms_error err;
    child_must(c, ms_log_open(&store, desc, &err), &err);
    return store;
}

static void child_reports(subject *c, uint64_t told)
{
    __atomic_store_n(&c->t->told, told, __ATOMIC_RELEASE);
}

/* Appends until it is killed. */
static void child_appends(subject *c, const ms_log_desc *desc, uint64_t rng)
{
    ms_error err;
    uint64_t pace = test_one_in(&rng, 2) ? 0 : test_below(&rng, 200);
    ms_store *store = child_open(c, desc);
    for (uint64_t n = c->last + 1; n < MOST;) {
        size_t count;
        child_must(c, scribe_append(&c->s, store, n, c->t->seqs, &count, &err), &err);
        n += count;
        child_reports(c, n - 1);
        if (test_one_in(&rng, 50)) ms_sync(store, NULL, NULL);
        if (test_one_in(&rng, 50)) ms_tick(store, 20, NULL);
        if (pace != 0) pause_us(pace);
    }
    for (;;) pause();
}

/* Takes in what the child has reported. */
static void listen_to(subject *c)
{
    c->told = __atomic_load_n(&c->t->told, __ATOMIC_ACQUIRE);
    if (__atomic_load_n(&c->t->failed, __ATOMIC_ACQUIRE))
        fail_msg("the child: %s", c->t->message);
}

/* Waits until the child has reported so much, or for two seconds. */
static void wait_for(subject *c, uint64_t enough)
{
    double until = now_ms() + 2000;
    for (listen_to(c); c->told < enough && now_ms() < until; listen_to(c)) pause_us(20);
}

/* Reads on after what was read before; everything reported before must be seen. */
static void watch(subject *c, ms_store *reader, tally *t)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    listen_to(c);
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
static ms_store *live_beside(subject *c, uint64_t *rng, tally *seen)
{
    ms_log_desc desc = desc_of(c, MS_LOG_READ);
    ms_store *reader = NULL;
    if (test_one_in(rng, 2)) wait_for(c, c->told + 1);
    double until = now_ms() + 0.2 + (double)test_below(rng, 2800) / 1000;
    memset(seen, 0, sizeof *seen);
    do {
        if (reader != NULL) watch(c, reader, seen);
        else if (ms_log_open(&reader, &desc, NULL) != MS_OK) pause_us(50);
    } while (now_ms() < until);
    return reader;
}

/* What stands after the kill. Once in three times only the next child recovers. */
static void look_after(subject *c, ms_store *reader, tally *seen, uint64_t *rng)
{
    uint64_t told = c->told;
    ms_log_desc desc = desc_of(c, MS_LOG_READ);
    ms_store *store = must_open_log(&desc, "reading after a kill");
    must_read(c, store, told, told, "reading after a kill");
    ms_close(store);
    c->told = c->last;        /* what was seen once stays */
    must_verify(c, "after a kill");
    if (seen->last > c->last) fail_msg("a reader saw what is not there any more");
    if (test_one_in(rng, 3)) return;
    uint64_t last = c->last;
    desc = desc_of(c, MS_LOG_CREATE);
    store = must_open_log(&desc, "writing after a kill");
    must_read(c, store, last, told, "writing after a kill");
    assert_int_equal(c->last, last);
    assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
    const char *fault = scribe_keys(&c->s, store, c->last, c->t->seqs, 10, rng);
    if (fault != NULL) fail_msg("after a kill: %s", fault);
    must_append(c, store, "after a kill");
    if (reader != NULL) {
        uint64_t seq = 0;
        assert_int_equal(test_refresh(reader, &seq, NULL), MS_OK);
        assert_int_equal(seq, c->t->seqs[c->last]);
    }
    ms_close(store);
    must_verify(c, "after a kill and an append");
}

static void one_kill(subject *c, uint64_t *rng)
{
    tally seen;
    ms_log_desc desc = desc_of(c, MS_LOG_CREATE);
    desc.segment_size = (size_t)MS_LOG_SEGMENT_MIN << test_below(rng, 5);
    desc.sync = test_one_in(rng, 3) ? MS_SYNC_EACH : MS_SYNC_NONE;
    uint64_t seed = test_random(rng);
    c->t->told = c->told;
    pid_t child = fork_child();
    if (child == 0) child_appends(c, &desc, seed);
    ms_store *reader = live_beside(c, rng, &seen);
    must_be_killed(child);
    listen_to(c);
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


/* ---- changes of every kind ---- */

/* A child goes on with the diary until it is killed. */
static void one_kill_of_changes(subject *c, uint64_t *rng)
{
    ms_error err;
    ms_log_desc desc = desc_of(c, MS_LOG_CREATE);
    c->t->told = (uint64_t)c->d.steps;
    uint64_t enough = c->t->told + 1 + test_below(rng, 25);
    pid_t child = fork_child();
    if (child == 0) {
        ms_store *store = child_open(c, &desc);
        while (c->d.h.count < DIARY_MOST - 500) {
            child_must(c, diary_step(&c->d, store, &err), &err);
            child_reports(c, (uint64_t)c->d.steps);
        }
        for (;;) pause(); /* the parent is late: the diary has no room for more */
    }
    wait_for(c, enough);
    pause_us(test_below(rng, 100));
    must_be_killed(child);
    listen_to(c);
    must_be_told(c, (int)c->told, "changes, killed");
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
        if (c->state.h.count > 600 || c->state.n_lost > DIARY_LOST - 2) {
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

static ms_log_engine engines[] = {MS_ENGINE_MAP, MS_ENGINE_WRITE};

#define WITH_EACH_ENGINE(test)                                    \
    {#test " (map)", test, NULL, NULL, &engines[0]},              \
    {#test " (write)", test, NULL, NULL, &engines[1]}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_EACH_ENGINE(appends_stay_when_the_writer_is_killed_at_random_times),
        WITH_EACH_ENGINE(changes_stay_when_the_writer_is_killed_at_random_times),
    };
    scribe_page();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
