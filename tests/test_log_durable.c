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

int main(void)
{
    return run_all_tests(NULL, NULL);
}
