/* [log-sync], what is durable: when a handle syncs by itself, what a sync covers, and what
 * follows a sync that failed. */

#define _GNU_SOURCE
#include "open_logs.h"

#include <pthread.h>

enum { UNSURE = 1232 };   /* the word of an unconfirmed end in the superblock */


/* ---- syncs are counted, and a clock is set ---- */

static unsigned sync_calls;
static useconds_t sync_takes_us;
static uint64_t micros_now;

/* How many since the last time that it was asked. */
static unsigned syncs(void)
{
    return __atomic_exchange_n(&sync_calls, 0, __ATOMIC_ACQ_REL);
}

static int counted_sync(void *ctx, ms_file file)
{
    __atomic_fetch_add(&sync_calls, 1, __ATOMIC_ACQ_REL);
    if (sync_takes_us != 0) usleep(sync_takes_us);
    return ms_os_default()->sync(ctx, file);
}

static uint64_t micros_set(void *ctx)
{
    (void)ctx;
    return micros_now;
}

/* A log whose syncs are counted; `os` must outlive it. */
static test_store counted_log(ms_os *os, size_t segment, ms_log_engine engine)
{
    test_store s = log_at(segment, engine);
    *os = *ms_os_default();
    os->sync = counted_sync;
    s.log.os = os;
    sync_calls = 0;
    sync_takes_us = 0;
    return s;
}


/* ---- visible and durable ---- */

static void an_append_is_visible_at_once_and_durable_after_a_sync(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_store *reader = log_reader(&s);
    uint64_t durable = 77;
    for (size_t i = 1; i <= 100; i++) {
        append_text(s.store, "x");
        must_have(s.store, i);
        must_have(reader, i);
    }
    ms_log_info info = log_info_of(s.store);
    assert_int_equal(info.durable_seq, 0);
    assert_true(info.durable_end < info.end);
    must_give(MS_OK, ms_sync(s.store, &durable, NULL));
    assert_int_equal(durable, 100);
    info = log_info_of(s.store);
    assert_int_equal(info.durable_seq, 100);
    assert_true(info.durable_end <= info.end && info.end <= info.size);
    append_text(s.store, "not synced");
    assert_int_equal(log_info_of(s.store).durable_seq, 100);
    must_give(MS_OK, ms_sync(s.store, NULL, NULL));
    assert_int_equal(log_info_of(s.store).durable_seq, 101);
    assert_false(log_info_of(s.store).poisoned);
    ms_close(reader);
    store_reopen(&s);
    assert_int_equal(log_info_of(s.store).durable_seq, 101);
    must_give(MS_OK, ms_sync(s.store, &durable, NULL));
    assert_int_equal(durable, 101);
    store_close(&s);
}

/* An explicit sync and a close sync their checkpoint, too. */
static void a_checkpoint_is_synced_when_a_caller_syncs_or_closes(void **state)
{
    ms_os os;
    test_store s = counted_log(&os, 4096, MS_ENGINE_WRITE);
    (void)state;
    for (unsigned each = 0; each < 2; each++) {
        log_close(&s);
        s.log.sync = each ? MS_SYNC_EACH : MS_SYNC_NONE;
        log_open(&s);
        syncs();
        append_text(s.store, "first");
        assert_int_equal(syncs(), each);
        append_text(s.store, "second");
        assert_int_equal(syncs(), each);
        for (unsigned i = 0; i < 2; i++) { /* the second one has nothing to do */
            must_give(MS_OK, ms_sync(s.store, NULL, NULL));
            assert_int_equal(syncs(), i == 0 ? 2 : 0);
            assert_int_equal(log_info_of(s.store).durable_end, log_info_of(s.store).end);
        }
        append_text(s.store, "third");
        syncs();
        log_close(&s);
        assert_int_equal(syncs(), 2);
        log_open(&s);
        must_give(MS_OK, ms_sync(s.store, NULL, NULL));
    }
    store_close(&s);
}


/* ---- sync modes ---- */

static void each_append_syncs_in_mode_each(void **state)
{
    ms_os os;
    test_store s = counted_log(&os, 4096, MS_ENGINE_AUTO);
    ms_envelope batch[5];
    ms_append_opts opts;
    (void)state;
    memset(&opts, 0, sizeof opts);
    opts.location = MS_STR("job");
    for (size_t i = 0; i < 5; i++) batch[i] = ms_user_message(ms_text("of a batch"));
    s.log.sync = MS_SYNC_EACH;
    for (int ticked = 0; ticked < 2; ticked++) {
        s.log.ticked = ticked;
        log_open(&s);
        for (int i = 0; i < 100; i++) {
            syncs();
            uint64_t seq = append_text(s.store, "x");
            assert_true(syncs() > 0);
            assert_int_equal(log_info_of(s.store).durable_seq, seq);
            must_give(MS_OK, ms_append_batch(s.store, batch, 5, &opts, NULL));
            assert_int_equal(log_info_of(s.store).durable_seq, seq + 5);
            assert_in_range(syncs(), 1, 3);
        }
        log_close(&s);
    }
    store_close(&s);
}

static void no_append_syncs_in_mode_none(void **state)
{
    (void)state;
    for (int engine = MS_ENGINE_MAP; engine <= MS_ENGINE_WRITE; engine++) {
        ms_os os;
        test_store s = counted_log(&os, 4096, (ms_log_engine)engine);
        log_open(&s);
        syncs();
        for (int i = 0; i < 1000; i++) append_text(s.store, "a text");
        assert_int_equal(syncs(), 0);
        must_give(MS_OK, ms_sync(s.store, NULL, NULL));
        assert_true(syncs() > 0);
        store_close(&s);
    }
}

/* Never more than sync_bytes and the append itself are at stake. */
static void many_bytes_are_synced_in_mode_every(void **state)
{
    enum { BYTES = 20000 };
    ms_os os;
    test_store s = counted_log(&os, 0, MS_ENGINE_AUTO);
    ms_stat stat;
    (void)state;
    s.log.sync = MS_SYNC_EVERY;
    s.log.sync_bytes = BYTES;
    s.log.sync_ms = UINT32_MAX;
    log_open(&s);
    syncs();
    for (int i = 0; i < 2000; i++) {
        append_text(s.store, "one hundred messages or so, of about this length, are due");
        ms_log_info info = log_info_of(s.store);
        uint64_t synced = info.durable_end != 0 ? info.durable_end : 4096;
        assert_true(info.end - synced <= BYTES + 500);
    }
    must_give(MS_OK, ms_store_stat(s.store, &stat, NULL));
    uint64_t due = stat.bytes / BYTES;
    assert_true(due >= 5);
    assert_in_range(syncs(), due - 1, 3 * due);
    store_close(&s);
}

static void a_sync_is_due_after_sync_ms_in_mode_every(void **state)
{
    static const struct { uint64_t passes_ms; bool syncs; } rows[] = {
        {200, true}, {0, false},  {49, false},  {2, true},   {30, false}, {19, false},
        {10, true},  {1000, true}, {49, false}, {0, false},  {51, true},
    };
    (void)state;
    for (int ticked = 0; ticked < 2; ticked++) {
        ms_os os;
        test_store s = counted_log(&os, 0, MS_ENGINE_AUTO);
        os.micros = micros_set;
        micros_now = 5000000;
        s.log.ticked = ticked;
        s.log.sync = MS_SYNC_EVERY;
        s.log.sync_ms = 50;
        log_open(&s);
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            syncs();
            micros_now += rows[i].passes_ms * 1000;
            uint64_t seq = append_text(s.store, "x");
            if (ticked) assert_int_equal(sync_calls, 0);
            if (ticked) must_give(MS_OK, ms_tick(s.store, 100, NULL));
            if ((syncs() > 0) != rows[i].syncs) fail_msg("row %zu", i);
            if (rows[i].syncs) assert_int_equal(log_info_of(s.store).durable_seq, seq);
        }
        store_close(&s);
    }
}

/* It stops neither the syncs nor the appends. */
static void a_clock_that_goes_back_is_survived(void **state)
{
    ms_os os;
    test_store s = counted_log(&os, 0, MS_ENGINE_AUTO);
    int64_t wall = SECONDS(1e9);
    (void)state;
    os.micros = micros_set;
    s.log.sync = MS_SYNC_EVERY;
    s.log.sync_ms = 50;
    s.log.clock = clock_at(&wall);
    micros_now = UINT64_C(1) << 40;
    log_open(&s);
    append_text(s.store, "late");
    micros_now = 1000;
    wall = -5;
    append_text(s.store, "early");
    must_give(MS_OK, ms_tick(s.store, 100, NULL));
    syncs();
    for (int i = 0; i < 5; i++) {
        micros_now += 60000;
        wall -= 100;
        append_text(s.store, "x");
    }
    assert_true(syncs() > 0);
    must_have(s.store, 7);
    ms_query q = query_of(no_str(), 0);
    q.has_until = true;
    q.until_ns = SECONDS(0);
    assert_int_equal(count_of(s.store, &q), 6);
    store_close(&s);
}


/* ---- several that append and sync ---- */

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

static void threads_share_their_syncs(void **state)
{
    ms_os os;
    test_store s = counted_log(&os, 4096, MS_ENGINE_AUTO);
    pthread_t threads[COMMITTERS];
    void *wrong[COMMITTERS];
    (void)state;
    s.log.sync = MS_SYNC_EACH;
    log_open(&s);
    sync_takes_us = 1000;
    syncs();
    for (size_t i = 0; i < COMMITTERS; i++)
        if (pthread_create(&threads[i], NULL, commit, s.store) != 0) abort();
    for (size_t i = 0; i < COMMITTERS; i++) pthread_join(threads[i], &wrong[i]);
    for (size_t i = 0; i < COMMITTERS; i++)
        if (wrong[i] != NULL) fail_msg("thread %zu: %s", i, (const char *)wrong[i]);
    unsigned used = syncs();
    printf("%d appends of %d threads used %u syncs\n", COMMITTERS * COMMITS, COMMITTERS,
           used);
    assert_true(used < COMMITTERS * COMMITS * 3 / 5);
    sync_takes_us = 0;
    must_have(s.store, COMMITTERS * COMMITS);
    store_close(&s);
}

static uint64_t durable_for_readers(const test_store *s)
{
    ms_store *reader = log_reader(s);
    uint64_t seq = log_info_of(reader).durable_seq;
    ms_close(reader);
    return seq;
}

/* A sync covers what other shared writers have appended before it, and each mode keeps its
 * word. */
static void a_sync_covers_the_appends_of_other_writers(void **state)
{
    ms_os os;
    test_store s = counted_log(&os, 4096, MS_ENGINE_AUTO);
    uint64_t durable = 0;
    char *large = large_text(1 << 20);
    (void)state;
    s.log.shared = true;
    log_open(&s);
    ms_store *one = s.store, *two = log_writer(&s);
    s.log.sync = MS_SYNC_EACH;
    ms_store *each = log_writer(&s);
    s.log.sync = MS_SYNC_EVERY;
    ms_store *every = log_writer(&s);
    append_text(one, "a");
    must_give(MS_OK, ms_sync(one, &durable, NULL));
    assert_int_equal(durable, 1);
    append_text(two, "b");
    syncs();
    must_give(MS_OK, ms_sync(one, &durable, NULL)); /* has not seen b yet */
    assert_int_equal(durable, 2);
    assert_true(syncs() > 0);
    append_text(one, "c");
    syncs();
    append_text(each, "d");
    assert_int_equal(syncs(), 1);
    assert_int_equal(durable_for_readers(&s), 4);
    append_text(one, "e");
    syncs();
    append_text(each, "f");
    append_text(each, "g");
    assert_int_equal(syncs(), 2);
    append_text(every, "h");
    assert_int_equal(syncs(), 0);
    ms_envelope m = ms_user_message(ms_text_n(ms_str_n(large, 1 << 20)));
    must_append(every, MS_STR("large"), &m);
    assert_int_equal(syncs(), 1); /* over sync_bytes */
    assert_int_equal(durable_for_readers(&s), 9);
    ms_close(every);
    ms_close(each);
    ms_close(two);
    must_have(one, 9);
    free(large);
    store_close(&s);
}

static ms_store *meanwhile;

static int sync_meanwhile(void *ctx, ms_file file)
{
    uint64_t durable = 0;
    ms_store *store = meanwhile;
    (void)ctx, (void)file;
    meanwhile = NULL;
    if (store == NULL) return 0;
    append_text(store, "b");
    must_give(MS_OK, ms_sync(store, &durable, NULL));
    assert_int_equal(durable, 2);
    return 0;
}

/* Another writer appends and syncs while a sync works. */
static void what_is_durable_does_not_go_back_when_syncs_overlap(void **state)
{
    test_store s = log_at(4096, MS_ENGINE_AUTO);
    ms_os os = *ms_os_default();
    uint64_t durable = 0;
    (void)state;
    s.log.shared = true;
    log_open(&s);
    ms_store *other = s.store;
    os.sync = sync_meanwhile;
    s.log.os = &os;
    s.store = log_writer(&s);
    append_text(s.store, "a");
    meanwhile = other;
    must_give(MS_OK, ms_sync(s.store, &durable, NULL));
    assert_true(durable >= 1);
    assert_int_equal(durable_for_readers(&s), 2);
    log_close(&s);
    ms_close(other);
    assert_int_equal(durable_for_readers(&s), 2);
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
    (void)ctx, (void)file;
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
static void an_append_is_visible_at_once_when_a_sync_works(void **state)
{
    (void)state;
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


/* ---- after a sync that failed ---- */

/* A log with 100 messages that are durable, and 5 after which a sync has failed. */
static test_store unconfirmed_log(trip *t)
{
    test_store s = closed_log();
    trip_init(t, ms_os_default());
    s.log.os = &t->os;
    s.log.events.event = NULL; /* the failed sync is reported */
    log_open(&s);
    for (int i = 0; i < 5; i++) append_text(s.store, "unconfirmed");
    trip_at(t, TRIP_BIT(SYNC), EIO, false);
    must_give(MS_E_POISONED, ms_sync(s.store, NULL, NULL));
    log_close(&s);
    trip_off(t);
    return s;
}

static void unconfirmed_end(test_store *s, trip *t)
{
    log_close(s);
    assert_int_equal(t->files + t->maps, 0);
    store_close(s);
}

static uint64_t this_boot(void) { return ms_os_default()->boot(ms_os_default()->ctx); }

static ms_result append_one(ms_store *store)
{
    ms_envelope m = ms_user_message(ms_text("one more"));
    return ms_append(store, MS_STR("job"), &m, NULL, NULL);
}

/* What makes a handle of this mode sync. */
static ms_result sync_by(ms_store *store, ms_sync_mode mode)
{
    if (mode == MS_SYNC_EACH) return append_one(store);
    return mode == MS_SYNC_EVERY ? ms_tick(store, 1000, NULL) : ms_sync(store, NULL, NULL);
}

/* Before the next sync. Where they cannot be written the call fails, nothing becomes
 * durable, and nothing was appended. */
static void bytes_of_a_failed_sync_are_written_again_when_a_handle_syncs(void **state)
{
    static const struct { ms_sync_mode sync; unsigned calls; int code; ms_result result; }
    rows[] = {{MS_SYNC_NONE, TRIP_BIT(READ), EIO, MS_E_IO},
              {MS_SYNC_NONE, TRIP_BIT(WRITE), ENOSPC, MS_E_FULL},
              {MS_SYNC_NONE, TRIP_BIT(SYNC), EIO, MS_E_POISONED},
              {MS_SYNC_EACH, TRIP_BIT(WRITE), EIO, MS_E_IO},
              {MS_SYNC_EVERY, TRIP_BIT(READ), EIO, MS_E_IO}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        trip t;
        test_store s = unconfirmed_log(&t);
        s.log.sync = rows[i].sync;
        s.log.sync_ms = 1;
        s.log.ticked = rows[i].sync == MS_SYNC_EVERY;
        log_open(&s);
        must_have(s.store, 105);
        usleep(3000); /* sync_ms */
        assert_int_equal(file_word(&s, UNSURE), this_boot());
        trip_at(&t, rows[i].calls, rows[i].code, false);
        must_give(rows[i].result, sync_by(s.store, rows[i].sync));
        assert_int_equal(t.hits, 1);
        trip_off(&t);
        must_have(s.store, 105);
        assert_true(log_info_of(s.store).durable_seq <= 100);
        if (rows[i].result == MS_E_POISONED) {
            log_close(&s);
            log_open(&s);
        }
        assert_int_equal(file_word(&s, UNSURE), this_boot());
        usleep(3000);
        t.kinds = TRIP_BIT(WRITE);
        must_give(MS_OK, sync_by(s.store, rows[i].sync));
        assert_true(t.calls > 0);
        trip_off(&t);
        must_have(s.store, rows[i].sync == MS_SYNC_EACH ? 106 : 105);
        assert_true(log_info_of(s.store).durable_seq >= 105);
        assert_int_equal(file_word(&s, UNSURE), 0);
        unconfirmed_end(&s, &t);
    }
}

/* Without memory, beside a writer that keeps the lock, at closing, and where the file was
 * truncated meanwhile. */
static void bytes_of_a_failed_sync_stay_unconfirmed_when_they_cannot_be_written(void **state)
{
    test_alloc heap;
    trip t;
    test_store s = unconfirmed_log(&t);
    (void)state;
    test_alloc_init(&heap);
    s.log.alloc = heap.alloc;
    s.log.shared = true;
    s.log.lock_wait_ms = 1;
    log_open(&s);
    trip_at(&t, TRIP_BIT(LOCK), EAGAIN, true);
    must_give(MS_E_BUSY, ms_sync(s.store, NULL, NULL));
    trip_off(&t);
    heap.fail_at = heap.calls + 1;
    must_give(MS_E_NO_MEMORY, ms_sync(s.store, NULL, NULL));
    heap.fail_at = 0;
    trip_at(&t, TRIP_BIT(READ), EIO, true);
    must_give(MS_E_IO, append_one(s.store));
    log_close(&s); /* durable is what was */
    trip_off(&t);
    log_open(&s);
    ms_log_info info = log_info_of(s.store);
    assert_true(info.durable_seq <= 100);
    must_have(s.store, 105);
    assert_int_equal(file_word(&s, UNSURE), this_boot());
    assert_int_equal(truncate(s.path, (off_t)info.end - 300), 0);
    must_give(MS_OK, ms_sync(s.store, NULL, NULL));
    unconfirmed_end(&s, &t);
    test_alloc_done(&heap);
}

/* The other one, when it closes, stores no checkpoint over what is unconfirmed; before its
 * next append it writes that again. */
static void a_shared_writer_stores_no_checkpoint_when_a_sync_of_another_failed(void **state)
{
    (void)state;
    for (int goes_on = 0; goes_on < 2; goes_on++) {
        trip t;
        test_store s = closed_log(), desc;
        trip_init(&t, ms_os_default());
        s.log.events.event = NULL;
        s.log.shared = true;
        log_open(&s);
        append_text(s.store, "of the one");
        desc = s;
        desc.log.os = &t.os;
        ms_store *other = log_writer(&desc);
        append_text(other, "of the other");
        trip_at(&t, TRIP_BIT(SYNC), EIO, false);
        must_give(MS_E_POISONED, ms_sync(other, NULL, NULL));
        ms_close(other);
        assert_int_equal(file_word(&s, UNSURE), this_boot());
        must_have(s.store, 102);
        if (goes_on) append_text(s.store, "of the one, again");
        assert_int_equal(file_word(&s, UNSURE), goes_on ? 0 : this_boot());
        log_close(&s);
        log_open_as(&s, MS_LOG_READ);
        assert_int_equal(log_info_of(s.store).durable_seq, goes_on ? 103 : 100);
        must_have(s.store, goes_on ? 103 : 102);
        store_close(&s);
    }
}


/* ---- ticks ---- */

static void a_tick_keeps_to_its_budget(void **state)
{
    test_store s = log_at(65536, MS_ENGINE_MAP);
    uint64_t rng = test_seed();
    double worst = 0;
    (void)state;
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
    const struct CMUnitTest tests[] = {
        ON_LOGS(an_append_is_visible_at_once_and_durable_after_a_sync),
        cmocka_unit_test(a_checkpoint_is_synced_when_a_caller_syncs_or_closes),
        cmocka_unit_test(each_append_syncs_in_mode_each),
        cmocka_unit_test(no_append_syncs_in_mode_none),
        cmocka_unit_test(many_bytes_are_synced_in_mode_every),
        cmocka_unit_test(a_sync_is_due_after_sync_ms_in_mode_every),
        cmocka_unit_test(a_clock_that_goes_back_is_survived),
        cmocka_unit_test(threads_share_their_syncs),
        cmocka_unit_test(a_sync_covers_the_appends_of_other_writers),
        cmocka_unit_test(what_is_durable_does_not_go_back_when_syncs_overlap),
        cmocka_unit_test(an_append_is_visible_at_once_when_a_sync_works),
        cmocka_unit_test(bytes_of_a_failed_sync_are_written_again_when_a_handle_syncs),
        cmocka_unit_test(
            bytes_of_a_failed_sync_stay_unconfirmed_when_they_cannot_be_written),
        cmocka_unit_test(
            a_shared_writer_stores_no_checkpoint_when_a_sync_of_another_failed),
        cmocka_unit_test(a_tick_keeps_to_its_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
