/* [log-sync]: threads that share syncs, and what a tick takes. When a handle syncs by itself,
 * what a sync covers and what follows one that failed is in test_log_writers. */

#define _GNU_SOURCE
#include "open_logs.h"

#include <pthread.h>


/* ---- several that append and sync ---- */

static unsigned sync_calls;

static int slow_sync(void *ctx, ms_file file)
{
    __atomic_fetch_add(&sync_calls, 1, __ATOMIC_ACQ_REL);
    usleep(1000);
    return ms_os_default()->sync(ctx, file);
}

enum { COMMITTERS = 4, COMMITS = 60 };

static void *commit(void *store)
{
    for (int i = 0; i < COMMITS; i++) {
        ms_envelope m = ms_user_message(ms_text("x"));
        ms_log_info info;
        uint64_t seq;
        if (ms_append((ms_store *)store, MS_STR("job"), &m, &seq, NULL) != MS_OK)
            return "append failed";
        if (ms_log_stat((ms_store *)store, &info, NULL) != MS_OK) return "stat failed";
        if (info.durable_seq < seq) return "returned and not durable";
    }
    return NULL;
}

TEST(threads_share_their_syncs)
{
    ms_os os = *ms_os_default();
    test_store s = log_at(4096, MS_ENGINE_AUTO);
    pthread_t threads[COMMITTERS];
    void *wrong[COMMITTERS];
    os.sync = slow_sync;
    s.log.os = &os;
    s.log.sync = MS_SYNC_EACH;
    log_open(&s);
    sync_calls = 0;
    for (size_t i = 0; i < COMMITTERS; i++)
        if (pthread_create(&threads[i], NULL, commit, s.store) != 0) abort();
    for (size_t i = 0; i < COMMITTERS; i++) pthread_join(threads[i], &wrong[i]);
    for (size_t i = 0; i < COMMITTERS; i++)
        if (wrong[i] != NULL) fail_msg("thread %zu: %s", i, (const char *)wrong[i]);
    printf("%d appends of %d threads used %u syncs\n", COMMITTERS * COMMITS, COMMITTERS,
           sync_calls);
    assert_true(sync_calls < COMMITTERS * COMMITS * 3 / 5);
    must_have(s.store, COMMITTERS * COMMITS);
    store_close(&s);
}

/* The kernel reports a failed write to one of two syncs, so a first append, which syncs
 * what a killed writer has left, waits for a sync that runs. */
static struct { ms_store *store; int running, most; bool begun; } pair;

static void *append_beside(void *unused)
{
    ms_envelope m = ms_user_message(ms_text("beside a sync"));
    (void)unused;
    return ms_append(pair.store, MS_STR("job"), &m, NULL, NULL) == MS_OK ? NULL : "failed";
}

static pthread_t beside;

static int sync_in_pair(void *ctx, ms_file file)
{
    int running = __atomic_add_fetch(&pair.running, 1, __ATOMIC_ACQ_REL);
    if (running > pair.most) pair.most = running;
    if (pair.store != NULL && !pair.begun) {
        pair.begun = true;
        if (pthread_create(&beside, NULL, append_beside, NULL) != 0) abort();
        for (int i = 0; i < 200 && __atomic_load_n(&pair.running, __ATOMIC_ACQUIRE) < 2;
             i++)
            usleep(1000);
    }
    int code = ms_os_default()->sync(ctx, file);
    __atomic_fetch_sub(&pair.running, 1, __ATOMIC_ACQ_REL);
    return code;
}

TEST(a_first_append_waits_when_another_thread_syncs)
{
    ms_os os = *ms_os_default();
    test_store s = closed_log();
    void *wrong;
    pid_t child = fork_child();
    if (child == 0) {
        log_open(&s);
        append_text(s.store, "of a killed writer");
        _exit(0);
    }
    child_must_end(child);
    memset(&pair, 0, sizeof pair);
    os.sync = sync_in_pair;
    s.log.os = &os;
    s.log.sync = MS_SYNC_EVERY;
    log_open(&s);
    pair.store = s.store;
    must_give(MS_OK, ms_sync(s.store, NULL, NULL));
    pthread_join(beside, &wrong);
    assert_null(wrong);
    assert_int_equal(pair.most, 1);
    must_have(s.store, 102);
    store_close(&s);
}

/* Threads sync together; another process holds the lock that a sync needs, and it is busy
 * for longer than they wait. */
static unsigned returned;

static void *sync_once(void *store)
{
    (void)ms_sync((ms_store *)store, NULL, NULL);
    __atomic_fetch_add(&returned, 1, __ATOMIC_ACQ_REL);
    return NULL;
}

static bool two_sync(ms_store *store)
{
    pthread_t threads[2];
    returned = 0;
    for (size_t i = 0; i < 2; i++) {
        if (pthread_create(&threads[i], NULL, sync_once, store) != 0) abort();
        pthread_detach(threads[i]);
    }
    for (int i = 0; i < 5000 && __atomic_load_n(&returned, __ATOMIC_ACQUIRE) < 2; i++)
        usleep(1000);
    return __atomic_load_n(&returned, __ATOMIC_ACQUIRE) == 2;
}

enum { AT_WRITER = 1152, AT_UNCONFIRMED = 1232 };

TEST(threads_that_wait_are_woken_when_a_sync_is_given_up)
{
    static const uint64_t none;
    uint64_t boot;
    ms_file other;
    ms_os os = *ms_os_default();
    test_store s = log_at(4096, MS_ENGINE_AUTO);
    os.sync = slow_sync;
    s.log.os = &os;
    s.log.shared = true;
    s.log.lock_wait_ms = 20;
    log_open(&s);
    append_text(s.store, "first");
    assert_int_equal(os.open(os.ctx, s.path, MS_OS_READ | MS_OS_WRITE, &other), 0);
    int file = open(s.path, O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 20; i++) {
        append_text(s.store, "x");
        assert_true(two_sync(s.store)); /* from now on they wait for each other */
        append_text(s.store, "y");
        assert_int_equal(pread(file, &boot, sizeof boot, AT_WRITER), sizeof boot);
        assert_int_equal(os.lock(os.ctx, other), 0);
        assert_int_equal(pwrite(file, &boot, sizeof boot, AT_UNCONFIRMED), sizeof boot);
        bool both = two_sync(s.store);
        assert_int_equal(pwrite(file, &none, sizeof none, AT_UNCONFIRMED), sizeof none);
        assert_int_equal(os.unlock(os.ctx, other), 0);
        assert_true(both);
    }
    assert_int_equal(close(file), 0);
    assert_int_equal(os.close(os.ctx, other), 0);
    store_close(&s);
}

/* An append that another thread does while a sync works. */
static struct comer {
    test_store s;             /* store NULL: not begun */
    pthread_t thread;
    ms_result result;
    bool begun;
    int unlocks;              /* since then; atomic */
    int syncs;
    uint64_t seen[2];         /* messages that a reader saw in the first two syncs */
    bool sync_fails;          /* the first; */
    int lock_fails;           /* from the second on; 1: then; 2: now; atomic */
} come;

static void *comes(void *arg)
{
    ms_envelope m = ms_assistant_message(ms_text("late"));
    come.result = ms_append(come.s.store, MS_STR("place"), &m, NULL, NULL);
    return arg;
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
    if (come.s.store == NULL || come.syncs >= 2) return 0;
    if (!come.begun) {
        come.begun = true;
        __atomic_store_n(&come.unlocks, 0, __ATOMIC_RELEASE);
        assert_int_equal(pthread_create(&come.thread, NULL, comes, NULL), 0);
        for (int i = 0; i < 5000 && !__atomic_load_n(&come.unlocks, __ATOMIC_ACQUIRE); i++)
            usleep(1000); /* it has appended, and waits for the next sync */
    }
    ms_store *reader = log_reader(&come.s);
    must_give(MS_OK, ms_store_stat(reader, &is, NULL));
    ms_close(reader);
    come.seen[come.syncs++] = is.messages;
    if (come.syncs == 2 && come.lock_fails == 1)
        __atomic_store_n(&come.lock_fails, 2, __ATOMIC_RELEASE);
    return come.sync_fails ? EIO : 0;
}

/* The sync fails; or the lock does, after it: a plain sync does without a checkpoint. */
TEST(an_append_is_visible_at_once_when_a_sync_works)
{
    for (int row = 0; row < 3; row++) {
        ms_os os = *ms_os_default();
        ms_log_report report;
        ms_result want = row == 1 ? MS_E_POISONED : MS_OK;
        memset(&come, 0, sizeof come);
        test_store s = closed_log();
        os.sync = sync_while_one_comes;
        os.unlock = unlock_counted;
        os.lock = lock_that_fails;
        s.log.os = &os;
        s.log.shared = true;
        s.log.sync = MS_SYNC_EACH;
        s.log.events.event = NULL;
        come.sync_fails = row == 1;
        come.lock_fails = row == 2;
        log_open(&s);
        come.s = s;
        must_give(want, ms_sync(s.store, NULL, NULL));
        assert_int_equal(come.syncs, row == 1 ? 1 : 2);
        assert_int_equal(pthread_join(come.thread, NULL), 0);
        must_give(want, come.result);
        assert_true(come.unlocks > 0);
        for (int i = 0; i < come.syncs; i++) assert_int_equal(come.seen[i], 101);
        come.s.store = NULL;
        come.lock_fails = 0;
        log_close(&s);
        must_give(MS_OK, ms_log_verify(&s.log, &report, NULL));
        assert_int_equal(report.messages, 101);
        store_close(&s);
    }
}


/* ---- ticks ---- */

TEST(a_tick_keeps_to_its_budget)
{
    test_store s = log_at(65536, MS_ENGINE_MAP);
    uint64_t rng = test_seed();
    double worst = 0;
    s.log.ticked = true;
    log_open(&s);
    for (int i = 0; i < 3000; i++) {
        ms_envelope m = random_message(&rng);
        must_append(s.store, no_str(), &m);
        double start = now_ms();
        must_give(MS_OK, ms_tick(s.store, 200, NULL));
        double took = now_ms() - start;
        if (took > worst) worst = took;
    }
    printf("longest tick of 200 us: %.0f us\n", worst * 1000);
    assert_true(worst < 200);
    store_close(&s);
}

/* ---- a redaction beside readers ---- */

enum { REDACTED = 400, REDACTED_BYTES = 60000 };

static void append_and_redact(test_store *s)
{
    static char text[REDACTED_BYTES];
    memset(text, 'x', sizeof text);
    log_open_as(s, MS_LOG_WRITE);
    for (int i = 0; i < REDACTED; i++) {
        uint64_t seq;
        ms_envelope m = ms_user_message(ms_text_n(ms_str_n(text, sizeof text)));
        must_give(MS_OK, ms_append(s->store, MS_STR("job"), &m, &seq, NULL));
        must_give(MS_OK, ms_redact(s->store, seq, NULL));
    }
}

/* It overwrites a message and its checks while the reader looks at them. */
TEST(a_reader_finds_no_damage_when_another_process_redacts)
{
    int status;
    size_t looks = 0;
    ms_os os = os_without_sync();
    test_store s = log_at(1 << 20, MS_ENGINE_AUTO);
    s.log.os = &os;
    log_open(&s);
    log_close(&s);
    pid_t child = fork_child();
    if (child == 0) {
        append_and_redact(&s);
        _exit(0);
    }
    while (waitpid(child, &status, WNOHANG) == 0) {
        ms_log_info info;
        ms_store *reader = log_reader(&s);
        must_give(MS_OK, ms_log_stat(reader, &info, NULL));
        ms_close(reader);
        if (info.damaged != 0) {
            kill(child, SIGKILL);
            fail_msg("damage is reported after %zu looks", looks);
        }
        looks++;
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    printf("a reader looked %zu times beside %d redactions\n", looks, REDACTED);
    store_close(&s);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
