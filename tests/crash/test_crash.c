/* Processes that are killed.
 *
 * A child appends and makes changes of every kind from a sequence. It reports each step
 * after the call has returned, and is killed at a random moment. Every step that was
 * reported must be in force, for a new reader, for one that was there before, and for the
 * next writer. The step that was on its way is there as a whole, or not at all. Then the
 * next child goes on with the file.
 *
 * At MS_TEST_SCALE=100 140 kills with each engine, at 1000 ten times as many.
 *
 * Left out: power losses, and kills of changes inside of a call (test_power); kills at
 * each file operation (test_log_recover); readers beside writers that are killed, and
 * several writers (test_shared).
 */

#define _GNU_SOURCE
#include "change_sequence.h"

/* What a child reports, in memory that outlives it. */
typedef struct telling {
    uint64_t reported;        /* steps that have returned */
    bool failed;
    char message[300];
} telling;

/* A log, what was done with it, and what was found in it. */
typedef struct subject {
    char *path;
    ms_log_engine engine;
    ms_os os;                 /* the system's, without syncs */
    uint64_t damage;          /* events that must not come */
    uint64_t rng;
    telling *t;
    change_sequence d, state;           /* what was done; what was found */
    ms_store *reader;         /* from before a kill, or NULL */
} subject;

static void on_event(void *ctx, const ms_log_event *event)
{
    subject *c = (subject *)ctx;
    if (event->kind == MS_LOG_DAMAGE || event->kind == MS_LOG_INDEX_DAMAGE) c->damage++;
}

static ms_log_desc desc_of(subject *c, ms_log_mode mode)
{
    ms_log_desc desc = {.path = c->path, .mode = mode, .os = &c->os,
                        .events.event = on_event, .events.ctx = c};
    if (mode == MS_LOG_READ) return desc;
    desc.engine = c->engine;
    desc.segment_size = (size_t)MS_LOG_SEGMENT_MIN << test_below(&c->rng, 5);
    desc.sync = test_one_in(&c->rng, 3) ? MS_SYNC_EACH : MS_SYNC_NONE;
    return desc;
}


/* ---- the child ---- */

/* Waits to be killed, when a call has failed. */
static void child_must(subject *c, ms_result result, const ms_error *err)
{
    if (result == MS_OK) return;
    snprintf(c->t->message, sizeof c->t->message, "%s", err->message);
    __atomic_store_n(&c->t->failed, true, __ATOMIC_RELEASE);
    for (;;) pause();
}

/* Goes on with the sequence until it is killed. */
static void child_works(subject *c)
{
    ms_store *store;
    ms_error err;
    ms_log_desc desc = desc_of(c, MS_LOG_CREATE);
    uint64_t pace = test_one_in(&c->rng, 2) ? 0 : test_below(&c->rng, 200);
    child_must(c, ms_log_open(&store, &desc, &err), &err);
    while (c->d.h.count < SEQUENCE_MOST - 500) {
        child_must(c, sequence_step(&c->d, store, &err), &err);
        __atomic_store_n(&c->t->reported, (uint64_t)c->d.steps, __ATOMIC_RELEASE);
        if (test_one_in(&c->rng, 50)) child_must(c, ms_sync(store, NULL, &err), &err);
        if (test_one_in(&c->rng, 50)) child_must(c, ms_tick(store, 20, &err), &err);
        if (pace != 0) pause_us(pace);
    }
    for (;;) pause(); /* the parent is late: the sequence has no room for more */
}

/* How many steps the child has reported. */
static uint64_t reported_by(const subject *c)
{
    if (__atomic_load_n(&c->t->failed, __ATOMIC_ACQUIRE))
        fail_msg("the child: %s", c->t->message);
    return __atomic_load_n(&c->t->reported, __ATOMIC_ACQUIRE);
}

/* Lets a child live until it has reported some steps, or for two seconds, and kills it. */
static void live_and_die(subject *c)
{
    int status;
    double until = now_ms() + 2000;
    ms_log_desc desc = desc_of(c, MS_LOG_READ);
    uint64_t reading = (uint64_t)c->d.steps + 1, enough = reading;
    if (test_one_in(&c->rng, 4)) enough = 0; /* while it opens the log */
    else enough += test_below(&c->rng, 40);
    c->t->reported = (uint64_t)c->d.steps;
    c->rng++;
    pid_t child = fork_child();
    if (child == 0) child_works(c);
    for (uint64_t reported; (reported = reported_by(c)) < enough && now_ms() < until;
         pause_us(20))
        if (c->reader == NULL && reported == reading)
            c->reader = must_open_log(&desc, "a reader beside the child");
    pause_us(test_below(&c->rng, enough > 0 ? 100 : 1500));
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}


/* ---- what it leaves ---- */

/* The steps in force for a store; the sequence of them is c->state. */
static void must_show(subject *c, ms_store *store, bool writing, sequence_crash *is,
                      const char *who)
{
    ms_error err;
    size_t size;
    sequence_find(&c->d, store, writing, is, &c->state);
    if (is->wrong != NULL)
        fail_msg("%s, after %d to %d steps: %s", who, is->least, is->most, is->wrong);
    is->least = is->found; /* what was seen once stays */
    if (!is->redacting && ms_selfcheck(store, &err) != MS_OK)
        fail_msg("%s: %s", who, err.message);
    if (!is->redacting && c->damage != 0) fail_msg("%s: damage is reported", who);
    char *bytes = read_file(c->path, &size);
    if (!is->leaky && sequence_leaks_in(&c->state, (unsigned char *)bytes, size))
        fail_msg("%s: what was erased is in the file", who);
    free(bytes);
}

/* The next writer finds what readers found, and what it does the old reader sees. */
static void must_go_on(subject *c, sequence_crash *is)
{
    ms_error err;
    ms_log_desc desc = desc_of(c, MS_LOG_CREATE);
    ms_store *store = must_open_log(&desc, "writing after a kill");
    must_show(c, store, true, is, "a writer after a kill");
    sequence_writer_gone(&c->state);
    if (sequence_step(&c->state, store, &err) != MS_OK)
        fail_msg("a step: %s", err.message);
    const char *what = c->reader != NULL ? sequence_differs(&c->state, c->reader) : NULL;
    if (what != NULL) fail_msg("a reader does not see what the next writer did: %s", what);
    ms_close(store);
}

/* Once in three times only the next child recovers. */
static void must_stand(subject *c, int reported)
{
    sequence_crash is = {reported, reported + 1, false, 0, false, NULL};
    ms_log_desc desc = desc_of(c, MS_LOG_READ);
    ms_log_report report;
    ms_error err;
    sequence_replay(&c->d, reported + 1, &c->state);
    is.redacting = c->state.redacting; /* it consists of several parts */
    sequence_replay(&c->d, reported, &c->state);
    c->damage = 0;
    ms_store *store;
    ms_result result = ms_log_open(&store, &desc, &err);
    if (result != MS_OK && reported == 0) return; /* there is no log yet */
    if (result != MS_OK) fail_msg("reading after a kill: %s", err.message);
    must_show(c, store, false, &is, "a reader after a kill");
    ms_close(store);
    if (!is.redacting && ms_log_verify(&desc, &report, &err) != MS_OK)
        fail_msg("verify: %s", err.message);
    if (c->reader != NULL) must_show(c, c->reader, false, &is, "a reader from before it");
    if (is.leaky || !test_one_in(&c->rng, 3)) must_go_on(c, &is);
}

TEST_WITH(WITH_EACH_ENGINE, steps_stay_when_the_writer_is_killed_at_random_times)
{
    subject *c = (subject *)calloc(1, sizeof *c);
    void *shared = mmap(NULL, sizeof(telling), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t steps = 0, files = 1;
    if (c == NULL || shared == MAP_FAILED) abort();
    c->t = (telling *)shared;
    c->engine = *(const ms_log_engine *)*state;
    c->os = os_without_sync();
    c->rng = test_seed() + (uint64_t)c->engine;
    char *folder = scratch_folder();
    c->path = scratch_file(folder, "log.msl");
    sequence_begin(&c->d, test_random(&c->rng));
    for (size_t i = 0; i < test_times(140); i++) {
        int before = c->d.steps;
        live_and_die(c);
        must_stand(c, (int)reported_by(c));
        ms_close(c->reader);
        c->reader = NULL;
        steps += (uint64_t)(c->state.steps - before);
        c->d = c->state;
        sequence_writer_gone(&c->d);
        if (c->d.h.count <= 600 && c->d.n_lost <= SEQUENCE_LOST - 3) continue;
        scratch_empty(folder);
        sequence_begin(&c->d, test_random(&c->rng));
        files++;
    }
    printf("%llu steps between the kills, %llu files\n", (unsigned long long)steps,
           (unsigned long long)files);
    test_tally("kills at random times", test_times(140));
    scratch_remove(folder);
    free(folder);
    free(c->path);
    munmap(shared, sizeof(telling));
    free(c);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
