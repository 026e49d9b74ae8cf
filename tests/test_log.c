/* An open log against the words of the interface: when a message is visible and when it
 * is durable, what is remembered over closing, opening and rewriting, who else sees it,
 * how long pointers and cursors hold, and that many segments answer like a plain array.
 */

#define _POSIX_C_SOURCE 200809L
#include "stores.h"
#include "twin.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>


/* ---- filling, and time ---- */

/* Appends random messages to a store and its twin, alone and in small batches. */
static void fill(twin *t, ms_store *store, uint64_t *rng, size_t n)
{
    size_t end = t->count + n;
    while (t->count < end) {
        ms_envelope batch[4];
        ms_append_opts opts;
        size_t size = 1 + (test_one_in(rng, 4) ? (size_t)test_below(rng, 4) : 0);
        memset(&opts, 0, sizeof opts);
        for (size_t i = 0; i < size; i++) batch[i] = random_message(rng);
        twin_append_both(t, store, batch, size, &opts, false);
    }
}

static void pause_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}


/* ---- file operations that are counted, and a clock that is told ---- */

static unsigned sync_calls;
static long sync_takes_ms;
static uint64_t told_micros;

static unsigned syncs(void)
{
    return __atomic_load_n(&sync_calls, __ATOMIC_ACQUIRE);
}

static int counted_sync(void *ctx, ms_file file)
{
    __atomic_fetch_add(&sync_calls, 1, __ATOMIC_ACQ_REL);
    if (sync_takes_ms != 0) pause_ms(sync_takes_ms);
    return ms_os_default()->sync(ctx, file);
}

static uint64_t micros_as_told(void *ctx)
{
    (void)ctx;
    return told_micros;
}

static uint64_t always_seven(void *ctx)
{
    (void)ctx;
    return 7;
}

static ms_os counted_os(void)
{
    ms_os os = *ms_os_default();
    os.sync = counted_sync;
    sync_calls = 0;
    sync_takes_ms = 0;
    return os;
}


/* ---- visible and durable ---- */

static void visible_at_once_durable_after_a_sync(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_store *reader = log_reader(&s);
    ms_query all = query_of(no_str(), 0);
    uint64_t durable = 77;
    for (size_t i = 1; i <= 100; i++) {
        append_text(s.store, "x");
        assert_int_equal(count_of(s.store, &all), i);
        assert_int_equal(count_of(reader, &all), i);
    }
    ms_log_info info = log_info_of(s.store);
    assert_int_equal(info.durable_seq, 0);
    assert_true(info.durable_end < info.end);
    assert_int_equal(ms_sync(s.store, &durable, NULL), MS_OK);
    assert_int_equal(durable, 100);
    info = log_info_of(s.store);
    assert_int_equal(info.durable_seq, 100);
    assert_true(info.durable_end <= info.end && info.end <= info.size);
    append_text(s.store, "not synced");
    assert_int_equal(log_info_of(s.store).durable_seq, 100);
    assert_int_equal(ms_sync(s.store, NULL, NULL), MS_OK);
    assert_int_equal(log_info_of(s.store).durable_seq, 101);
    assert_false(log_info_of(s.store).poisoned);
    ms_close(reader);
    store_reopen(&s);
    assert_int_equal(log_info_of(s.store).durable_seq, 101);
    assert_int_equal(ms_sync(s.store, &durable, NULL), MS_OK);
    assert_int_equal(durable, 101);
    store_close(&s);
}

/* What ms_log_stat tells fits to what was appended and to the file. */
static void a_log_tells_about_itself(void **state)
{
    static int64_t now = SECONDS(1700000000.5);
    store_options options;
    struct stat about;
    uint64_t end = 0;
    memset(&options, 0, sizeof options);
    options.clock = clock_at(&now);
    options.entropy = constant_entropy();
    test_store s = store_open((store_kind *)*state, &options);
    ms_store *reader = log_reader(&s);
    for (int i = 0; i < 600; i++) {
        append_text(s.store, "a text of some length, so that segments get full");
        ms_log_info info = log_info_of(s.store), same = log_info_of(reader);
        assert_true(info.end > end);
        end = info.end;
        assert_int_equal(same.end, i % 2 == 0 ? same.end : end);
        assert_memory_equal(info.id, same.id, sizeof info.id);
    }
    test_refresh(reader, NULL, NULL);
    ms_log_info info = log_info_of(s.store), same = log_info_of(reader);
    unsigned char id[16];
    memset(id, 0x5a, sizeof id);
    assert_memory_equal(info.id, id, sizeof id);
    assert_true(info.created_ns == now);
    assert_int_equal(info.pid, getpid());
    assert_int_equal(same.end, info.end);
    assert_int_equal(same.engine, MS_ENGINE_AUTO);
    assert_true(info.engine == MS_ENGINE_MAP || info.engine == MS_ENGINE_WRITE);
    if (s.log.engine != MS_ENGINE_AUTO) assert_int_equal(info.engine, s.log.engine);
    if (s.log.segment_size != 0) assert_true(info.segments >= 8 && info.summaries >= 1);
    if (s.log.segment_size == 0) assert_int_equal(info.segments, 0);
    assert_int_equal(info.damaged, 0);
    assert_int_equal(info.damaged_bytes, 0);
    assert_int_equal(info.zeroed_bytes, 0);
    assert_int_equal(info.lost_end, 0);
    assert_true(info.memory > 0);
    assert_int_equal(stat(s.path, &about), 0);
    assert_int_equal(info.size, about.st_size);
    ms_close(reader);
    store_close(&s);
}


/* ---- sync modes ---- */

static void each_append_syncs_in_mode_each(void **state)
{
    test_store s = log_at(4096, MS_ENGINE_AUTO);
    ms_os os = counted_os();
    ms_envelope batch[5];
    ms_append_opts opts;
    (void)state;
    memset(&opts, 0, sizeof opts);
    opts.location = MS_STR("job");
    for (size_t i = 0; i < 5; i++) batch[i] = ms_observation(ms_text("of a batch"),
                                                             ms_str_of(NULL));
    s.log.os = &os;
    for (int ticked = 0; ticked < 2; ticked++) {
        s.log.sync = MS_SYNC_EACH;
        s.log.ticked = ticked;
        log_open(&s);
        for (int i = 0; i < 100; i++) {
            unsigned before = syncs();
            uint64_t seq = append_text(s.store, "x");
            assert_true(syncs() > before);
            assert_int_equal(log_info_of(s.store).durable_seq, seq);
            before = syncs();
            assert_int_equal(ms_append_batch(s.store, batch, 5, &opts, NULL), MS_OK);
            assert_int_equal(log_info_of(s.store).durable_seq, seq + 5);
            assert_true(syncs() > before && syncs() <= before + 3);
        }
        ms_close(s.store);
        s.store = NULL;
    }
    store_close(&s);
}

static void no_append_syncs_in_mode_none(void **state)
{
    test_store s = log_at(4096, (ms_log_engine)(1 + (*state != NULL)));
    ms_os os = counted_os();
    s.log.os = &os;
    log_open(&s);
    unsigned before = syncs();
    for (int i = 0; i < 1000; i++) append_text(s.store, "a text");
    assert_int_equal(syncs(), before);
    assert_int_equal(ms_sync(s.store, NULL, NULL), MS_OK);
    assert_true(syncs() > before);
    store_close(&s);
}

/* Never more than sync_bytes and the append itself are at stake. */
static void many_bytes_are_synced_in_mode_every(void **state)
{
    enum { BYTES = 20000 };
    test_store s = log_at(0, MS_ENGINE_AUTO);
    ms_os os = counted_os();
    ms_stat stat;
    (void)state;
    s.log.os = &os;
    s.log.sync = MS_SYNC_EVERY;
    s.log.sync_bytes = BYTES;
    s.log.sync_ms = UINT32_MAX;
    log_open(&s);
    unsigned before = syncs();
    for (int i = 0; i < 2000; i++) {
        append_text(s.store, "one hundred messages or so, of about this length, are due");
        ms_log_info info = log_info_of(s.store);
        uint64_t synced = info.durable_end != 0 ? info.durable_end : 4096;
        assert_true(info.end - synced <= BYTES + 500);
    }
    assert_int_equal(ms_store_stat(s.store, &stat, NULL), MS_OK);
    uint64_t due = stat.bytes / BYTES;
    assert_true(due >= 5);
    assert_in_range(syncs() - before, due - 1, 3 * due);
    store_close(&s);
}

static void time_is_due_in_mode_every(void **state)
{
    static const struct { uint64_t passes_ms; unsigned syncs; } rows[] = {
        {200, 1}, {0, 0}, {49, 0}, {2, 1}, {30, 0}, {19, 0}, {10, 1}, {1000, 1}, {49, 0},
        {0, 0},   {51, 1},
    };
    (void)state;
    for (int ticked = 0; ticked < 2; ticked++) {
        test_store s = log_at(0, MS_ENGINE_AUTO);
        ms_os os = counted_os();
        os.micros = micros_as_told;
        told_micros = 5000000;
        s.log.os = &os;
        s.log.ticked = ticked;
        s.log.sync = MS_SYNC_EVERY;
        s.log.sync_ms = 50;
        log_open(&s);
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            unsigned before = syncs();
            told_micros += rows[i].passes_ms * 1000;
            uint64_t seq = append_text(s.store, "x");
            if (ticked) assert_int_equal(syncs(), before);
            if (ticked) assert_int_equal(ms_tick(s.store, 100, NULL), MS_OK);
            if ((syncs() > before) != (rows[i].syncs > 0))
                fail_msg("row %zu: %u syncs", i, syncs() - before);
            if (rows[i].syncs) assert_int_equal(log_info_of(s.store).durable_seq, seq);
        }
        store_close(&s);
    }
}

/* A clock of the system that goes back neither stops syncs for ever nor the appends. */
static void a_clock_that_goes_back_is_survived(void **state)
{
    test_store s = log_at(0, MS_ENGINE_AUTO);
    ms_os os = counted_os();
    int64_t wall = SECONDS(1e9);
    (void)state;
    os.micros = micros_as_told;
    s.log.os = &os;
    s.log.sync = MS_SYNC_EVERY;
    s.log.sync_ms = 50;
    s.log.clock = clock_at(&wall);
    told_micros = UINT64_C(1) << 40;
    log_open(&s);
    append_text(s.store, "late");
    told_micros = 1000;
    wall = -5;
    append_text(s.store, "early");
    assert_int_equal(ms_tick(s.store, 100, NULL), MS_OK);
    unsigned before = syncs();
    for (int i = 0; i < 5; i++) {
        told_micros += 60000;
        wall -= 100;
        append_text(s.store, "x");
    }
    assert_true(syncs() > before);
    ms_query q = query_of(no_str(), 0);
    assert_int_equal(count_of(s.store, &q), 7);
    q.has_until = true;
    q.until_ns = SECONDS(0);
    assert_int_equal(count_of(s.store, &q), 6);
    store_close(&s);
}


/* ---- group commit ---- */

enum { COMMITTERS = 4, COMMITS = 60 };

typedef struct committer {
    pthread_t thread;
    ms_store *store;
    const char *wrong;
} committer;

static void *commit(void *arg)
{
    committer *c = (committer *)arg;
    for (int i = 0; i < COMMITS; i++) {
        ms_envelope m = ms_observation(ms_text("x"), ms_str_of(NULL));
        ms_log_info info;
        uint64_t seq;
        if (ms_append(c->store, MS_STR("job"), &m, &seq, NULL) != MS_OK)
            return c->wrong = "append failed", NULL;
        if (ms_log_stat(c->store, &info, NULL) != MS_OK)
            return c->wrong = "stat failed", NULL;
        if (info.durable_seq < seq) return c->wrong = "returned and not durable", NULL;
    }
    return NULL;
}

static void threads_share_their_syncs(void **state)
{
    test_store s = log_at(4096, MS_ENGINE_AUTO);
    ms_os os = counted_os();
    committer c[COMMITTERS];
    (void)state;
    s.log.os = &os;
    s.log.sync = MS_SYNC_EACH;
    log_open(&s);
    sync_takes_ms = 1;
    unsigned before = syncs();
    for (size_t i = 0; i < COMMITTERS; i++) {
        c[i].store = s.store;
        c[i].wrong = NULL;
        if (pthread_create(&c[i].thread, NULL, commit, &c[i]) != 0) abort();
    }
    for (size_t i = 0; i < COMMITTERS; i++) pthread_join(c[i].thread, NULL);
    for (size_t i = 0; i < COMMITTERS; i++)
        if (c[i].wrong != NULL) fail_msg("thread %zu: %s", i, c[i].wrong);
    unsigned used = syncs() - before;
    printf("%d appends of %d threads used %u syncs\n", COMMITTERS * COMMITS, COMMITTERS,
           used);
    assert_true(used < COMMITTERS * COMMITS * 3 / 5);
    sync_takes_ms = 0;
    ms_query all = query_of(no_str(), 0);
    assert_int_equal(count_of(s.store, &all), COMMITTERS * COMMITS);
    store_close(&s);
}


/* ---- housekeeping ---- */

/* Whoever promises to tick and never does, or does at any time, loses nothing. */
static void ticks_change_nothing_that_is_read(void **state)
{
    static const unsigned each[] = {0, 1, 50, 1000};
    uint64_t rng = test_seed();
    for (size_t k = 0; k < sizeof each / sizeof each[0]; k++) {
        test_store s = log_at(4096, (ms_log_engine)(1 + k % 2));
        twin t;
        (void)state;
        twin_init(&t);
        t.keep_unset_times = s.log.keep_unset_times = true;
        s.log.ticked = true;
        log_open(&s);
        for (unsigned i = 0; i < 300; i++) {
            fill(&t, s.store, &rng, 2);
            if (each[k] != 0 && i % each[k] == 0)
                assert_int_equal(ms_tick(s.store, 20, NULL), MS_OK);
        }
        twin_must_equal(&t, s.store);
        uint64_t segments = log_info_of(s.store).segments;
        for (int i = 0; i < 500; i++)
            assert_int_equal(ms_tick(s.store, 1000, NULL), MS_OK);
        assert_true(log_info_of(s.store).segments >= segments);
        assert_true(log_info_of(s.store).segments > 10);
        twin_must_equal(&t, s.store);
        store_reopen(&s);
        twin_must_equal(&t, s.store);
        store_close(&s);
        twin_deinit(&t);
    }
}

/* A tick with a small budget comes back soon, however much is due. */
static void a_tick_keeps_to_its_budget(void **state)
{
    test_store s = log_at(65536, MS_ENGINE_MAP);
    uint64_t rng = test_seed();
    double worst = 0;
    twin t;
    (void)state;
    twin_init(&t);
    s.log.ticked = true;
    log_open(&s);
    t.keep_unset_times = true;
    for (int i = 0; i < 3000; i++) {
        ms_envelope m = random_message(&rng);
        must_append(s.store, no_str(), &m);
        double start = now_ms();
        assert_int_equal(ms_tick(s.store, 200, NULL), MS_OK);
        double took = now_ms() - start;
        if (took > worst) worst = took;
    }
    printf("longest tick of 200 us: %.0f us\n", worst * 1000);
    assert_true(worst < 200);
    store_close(&s);
    twin_deinit(&t);
}


/* ---- what fails leaves nothing behind ---- */

static void a_failed_append_changes_nothing(void **state)
{
    store_options options;
    char *text = large_text(5000);
    memset(&options, 0, sizeof options);
    options.max_message = 4096;
    test_store s = store_open((store_kind *)*state, &options);
    ms_store *reader = log_reader(&s);
    ms_query all = query_of(no_str(), 0);
    ms_envelope batch[3];
    ms_append_opts opts;
    ms_error err;
    for (size_t i = 0; i < 3; i++) batch[i] = ms_observation(ms_text("of a batch"),
                                                             ms_str_of(NULL));
    batch[0].key = MS_STR("used");
    must_append(s.store, MS_STR("job"), &batch[0]);
    uint64_t end = log_info_of(s.store).end;
    for (int round = 0; round < 8; round++) {
        static const ms_result want[] = {MS_E_TOO_LARGE, MS_E_CONFLICT, MS_E_KEY_REUSED,
                                         MS_E_TYPE};
        memset(&opts, 0, sizeof opts);
        opts.location = MS_STR("job");
        batch[0].key = batch[1].key = no_str();
        batch[1].content = batch[2].content = ms_text("of a batch");
        batch[2].type = MS_T_OBSERVATION;
        if (round % 4 == 0) batch[2].content = ms_text_n(ms_str_n(text, 5000));
        if (round % 4 == 1) opts.expect = true;
        if (round % 4 == 2) batch[1].key = MS_STR("used");
        if (round % 4 == 2) batch[1].content = ms_text("other");
        if (round % 4 == 3) batch[2].type = (ms_type)77;
        assert_int_equal(ms_append_batch(s.store, batch, 3, &opts, &err),
                         want[round % 4]);
        assert_int_equal(log_info_of(s.store).end, end);
        assert_int_equal(count_of(s.store, &all), 1);
        assert_int_equal(count_of(reader, &all), 1);
    }
    ms_close(reader);
    assert_int_equal(append_text(s.store, "next"), 2);
    store_reopen(&s);
    assert_int_equal(count_of(s.store, &all), 2);
    free(text);
    store_close(&s);
}

static void a_handle_for_reading_does_not_write(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_store *reader = log_reader(&s);
    ms_envelope m = ms_observation(ms_text("x"), ms_str_of(NULL));
    ms_error err;
    append_text(s.store, "x");
    memset(&err, 0, sizeof err);
    m.location = MS_STR("job");
    assert_int_equal(ms_append(reader, no_str(), &m, NULL, &err), MS_E_READ_ONLY);
    assert_int_equal(err.code, MS_E_READ_ONLY);
    assert_int_equal(ms_append_batch(reader, &m, 1, NULL, NULL), MS_E_READ_ONLY);
    assert_int_equal(ms_copy(reader, s.store, NULL, NULL, NULL, NULL), MS_E_READ_ONLY);
    assert_int_equal(ms_tick(reader, 1000, NULL), MS_OK);
    ms_query all = query_of(no_str(), 0);
    assert_int_equal(count_of(reader, &all), 1);
    ms_close(reader);
    store_close(&s);
}


/* ---- what is remembered over reopening and rewriting ---- */

static ms_str name_of(char *text, size_t size, const char *what, size_t n)
{
    snprintf(text, size, "%s %zu", what, n);
    return ms_str_of(text);
}

/* Every key gives the first number; with another content it is refused. */
static void must_know_keys(ms_store *store, size_t n, size_t step)
{
    char location[24], key[24], text[24];
    for (size_t i = 0; i < n; i += step) {
        uint64_t seq = 0;
        ms_envelope m = ms_observation(ms_text_n(name_of(text, 24, "text", i)),
                                       ms_str_of(NULL));
        m.key = name_of(key, 24, "key", i / 3);
        m.location = name_of(location, 24, "job", i % 3);
        assert_int_equal(ms_append(store, no_str(), &m, &seq, NULL), MS_OK);
        assert_int_equal(seq, i + 1);
        m.content = ms_text("other");
        assert_int_equal(ms_append(store, no_str(), &m, NULL, NULL), MS_E_KEY_REUSED);
    }
}

static void keys_and_numbers_survive_reopening(void **state)
{
    enum { KEYS = 3000 };
    test_store s = store_open((store_kind *)*state, NULL);
    char location[24], key[24], text[24];
    for (size_t i = 0; i < KEYS; i++) {
        ms_envelope m = ms_observation(ms_text_n(name_of(text, 24, "text", i)),
                                       ms_str_of(NULL));
        m.key = name_of(key, 24, "key", i / 3);
        m.location = name_of(location, 24, "job", i % 3);
        assert_int_equal(must_append(s.store, no_str(), &m), i + 1);
        if (i % 700 == 699) store_reopen(&s);
    }
    must_know_keys(s.store, KEYS, 17);
    store_reopen(&s);
    must_know_keys(s.store, KEYS, 1);
    ms_query all = query_of(no_str(), 0);
    assert_int_equal(count_of(s.store, &all), KEYS);
    for (size_t i = 0; i < 3; i++) {
        ms_envelope m = ms_observation(ms_text("next"), ms_str_of(NULL));
        ms_append_opts opts;
        memset(&opts, 0, sizeof opts);
        opts.location = name_of(location, 24, "job", i);
        opts.expect = true;
        opts.expect_seq = KEYS - 3 + i;
        assert_int_equal(ms_append_batch(s.store, &m, 1, &opts, NULL), MS_E_CONFLICT);
        opts.expect_seq = KEYS - 2 + i;
        assert_int_equal(ms_append_batch(s.store, &m, 1, &opts, NULL), MS_OK);
        store_reopen(&s);
    }
    ms_envelope m = ms_observation(ms_text("first"), ms_str_of(NULL));
    ms_append_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.location = MS_STR("a new job");
    opts.expect = true;
    assert_int_equal(ms_append_batch(s.store, &m, 1, &opts, NULL), MS_OK);
    assert_int_equal(ms_append_batch(s.store, &m, 1, &opts, NULL), MS_E_CONFLICT);
    store_close(&s);
}

/* Over several rewrites, with rules that drop something each time. */
static void numbers_survive_rewriting(void **state)
{
    uint64_t rng = test_seed();
    store_options options;
    twin t;
    memset(&options, 0, sizeof options);
    options.keep_unset_times = true;
    test_store s = store_open((store_kind *)*state, &options);
    twin_init(&t);
    t.keep_unset_times = true;
    for (int round = 0; round < 6; round++) {
        ms_copy_report got, want;
        ms_keep keep;
        twin next;
        ms_error err;
        ms_str one = MS_STR("job_1");
        twin_init(&next);
        next.keep_unset_times = true;
        fill(&t, s.store, &rng, 150);
        twin_must_equal(&t, s.store);
        for (size_t i = 0; i < t.count; i += 3) twin_must_place(&t, s.store, i);
        memset(&keep, 0, sizeof keep);
        if (round % 3 == 0) keep.newest = 20;
        keep.has_since = round % 3 == 1;
        keep.since_ns = SECONDS(3);
        if (round % 3 == 2) keep.locations = &one;
        keep.n_locations = round % 3 == 2;
        want = twin_copy(&next, &t, &keep);
        if (ms_log_rewrite(s.store, &s.log, true, &keep, &got, &err) != MS_OK)
            fail_msg("rewrite: %s", err.message);
        assert_memory_equal(&got, &want, sizeof got);
        assert_true(got.dropped > 0 && got.copied > 0);
        store_reopen(&s);
        twin_deinit(&t);
        t = next;
        twin_must_equal(&t, s.store);
        for (size_t i = 0; i < t.count; i++) twin_must_place(&t, s.store, i);
    }
    twin_deinit(&t);
    store_close(&s);
}

/* What notes the messages left out is no message: the newest n are n, from either end. */
static void the_newest_are_counted_without_gaps(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_keep keep;
    memset(&keep, 0, sizeof keep);
    keep.newest = 3;
    for (size_t i = 0; i < 60; i++) {
        char name[24];
        ms_envelope m = ms_observation(ms_text("x"), ms_str_of(NULL));
        must_append(s.store, name_of(name, 24, "job", i % 4), &m);
    }
    assert_int_equal(ms_log_rewrite(s.store, &s.log, true, &keep, NULL, NULL), MS_OK);
    store_reopen(&s);
    for (size_t limit = 1; limit <= 14; limit++) {
        for (int i = 0; i < 4; i++) {
            ms_query q = query_of(no_str(), i & 2 ? 15 : 0);
            q.limit = limit;
            q.reverse = i & 1;
            q.agent_key = MS_STR("nobody");
            size_t want = i & 2 ? 0 : limit < 12 ? limit : 12;
            assert_int_equal(count_of(s.store, &q), want);
        }
    }
    store_close(&s);
}

/* Where a rewrite may go to, and that it leaves one file there. */
static void a_rewrite_replaces_only_when_told(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    test_store to = log_at(4096, MS_ENGINE_AUTO);
    ms_copy_report report;
    ms_query all = query_of(no_str(), 0);
    ms_keep keep;
    ms_error err;
    memset(&keep, 0, sizeof keep);
    for (int i = 0; i < 200; i++) append_text(s.store, "x");
    keep.dry_run = true;
    assert_int_equal(ms_log_rewrite(s.store, NULL, false, &keep, &report, NULL), MS_OK);
    assert_int_equal(report.copied, 200);
    assert_int_equal(files_in(to.folder), 0);
    keep.dry_run = false;
    if (ms_log_rewrite(s.store, &to.log, false, NULL, &report, &err) != MS_OK)
        fail_msg("rewrite: %s", err.message);
    assert_int_equal(report.copied, 200);
    assert_int_equal(files_in(to.folder), 1);
    keep.newest = 5;
    assert_int_equal(ms_log_rewrite(s.store, &to.log, false, &keep, &report, &err),
                     MS_E_CONFLICT);
    assert_int_equal(files_in(to.folder), 1);
    to.log.mode = MS_LOG_WRITE;
    log_open(&to);
    ms_store *reader = log_reader(&to);
    assert_int_equal(count_of(to.store, &all), 200);
    assert_int_equal(ms_log_rewrite(s.store, &to.log, true, &keep, &report, &err),
                     MS_E_BUSY);
    assert_int_equal(files_in(to.folder), 1);
    ms_close(to.store);
    assert_int_equal(ms_log_rewrite(s.store, &to.log, true, &keep, &report, &err), MS_OK);
    assert_int_equal(files_in(to.folder), 1);
    assert_int_equal(count_of(reader, &all), 200);
    ms_close(reader);
    log_open(&to);
    assert_int_equal(count_of(to.store, &all), 5);
    assert_int_equal(append_text(to.store, "next"), 201);
    store_close(&to);
    store_close(&s);
}

/* An arena store goes into a file, and back. */
static void an_arena_store_goes_to_a_file_and_back(void **state)
{
    uint64_t rng = test_seed();
    store_options options;
    twin t, copied;
    ms_keep all;
    ms_error err;
    memset(&options, 0, sizeof options);
    memset(&all, 0, sizeof all);
    options.keep_unset_times = true;
    test_store s = store_open((store_kind *)*state, &options);
    test_store to = log_at(4096, MS_ENGINE_AUTO);
    test_store back = store_open(store_kind_at(0), &options);
    twin_init(&t);
    t.keep_unset_times = to.log.keep_unset_times = true;
    fill(&t, s.store, &rng, 400);
    twin_must_equal(&t, s.store);
    if (ms_log_rewrite(s.store, &to.log, false, NULL, NULL, &err) != MS_OK)
        fail_msg("rewrite: %s", err.message);
    log_open(&to);
    twin_init(&copied);
    twin_copy(&copied, &t, &all);
    twin_must_equal(&copied, to.store);
    assert_int_equal(ms_copy(back.store, to.store, NULL, NULL, NULL, NULL), MS_OK);
    twin_must_equal(&copied, back.store);
    twin_deinit(&copied);
    twin_deinit(&t);
    store_close(&back);
    store_close(&to);
    store_close(&s);
}


/* ---- other processes ---- */

/* What is asked of the child: so many messages must be there. 0: end. */
typedef struct follower {
    const ms_log_desc *log;
    int questions[2], answers[2];
} follower;

static bool sees(ms_store *store, uint64_t n)
{
    ms_query all;
    ms_cursor it;
    const ms_msg *msg;
    char want[24];
    uint64_t count = 0;
    memset(&all, 0, sizeof all);
    if (ms_query_open(store, &all, &it, NULL) != MS_OK) return false;
    while ((msg = ms_next(&it)) != NULL) {
        snprintf(want, sizeof want, "%llu", (unsigned long long)++count);
        if (ms_seq(msg) != count) return false;
        if (!ms_str_equal(ms_content(msg).text, ms_str_of(want))) return false;
    }
    return ms_cursor_close(&it, NULL) == MS_OK && count == n;
}

/* Ends the process: 0 when all was as asked. */
static void follow(follower *f)
{
    ms_log_desc desc = *f->log;
    ms_store *store;
    uint64_t n, last;
    desc.mode = MS_LOG_READ;
    if (ms_log_open(&store, &desc, NULL) != MS_OK) _exit(2);
    while (read(f->questions[0], &n, sizeof n) == (ssize_t)sizeof n && n != 0) {
        if (!sees(store, n)) _exit(3);
        if (test_refresh(store, &last, NULL) != MS_OK || last != n) _exit(4);
        if (write(f->answers[1], &n, sizeof n) != (ssize_t)sizeof n) _exit(5);
    }
    ms_close(store);
    _exit(0);
}

static void another_process_sees_each_append(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    follower f;
    int status;
    uint64_t n = 0, end = 0, answer = 0;
    f.log = &s.log;
    assert_int_equal(pipe(f.questions), 0);
    assert_int_equal(pipe(f.answers), 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(f.questions[1]);
        follow(&f);
    }
    close(f.answers[1]);
    while (n < 300) {
        ms_envelope batch[4];
        char text[4][24];
        ms_append_opts opts;
        size_t size = 1 + (size_t)n % 4;
        memset(&opts, 0, sizeof opts);
        opts.location = MS_STR("job");
        for (size_t i = 0; i < size; i++) {
            snprintf(text[i], sizeof text[i], "%llu", (unsigned long long)(n + i + 1));
            batch[i] = ms_observation(ms_text(text[i]), ms_str_of(NULL));
        }
        assert_int_equal(ms_append_batch(s.store, batch, size, &opts, NULL), MS_OK);
        n += size;
        assert_int_equal(write(f.questions[1], &n, sizeof n), sizeof n);
        if (read(f.answers[0], &answer, sizeof answer) != (ssize_t)sizeof answer) break;
        assert_int_equal(answer, n);
    }
    assert_int_equal(write(f.questions[1], &end, sizeof end), sizeof end);
    assert_int_equal(waitpid(child, &status, 0), child);
    close(f.questions[0]);
    close(f.questions[1]);
    close(f.answers[0]);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    store_close(&s);
}


/* ---- waiting ---- */

typedef struct late {
    pthread_t thread;
    ms_store *store;
    ms_result result;
} late;

static void *append_late(void *arg)
{
    late *l = (late *)arg;
    ms_envelope m = ms_observation(ms_text("late"), ms_str_of(NULL));
    pause_ms(30);
    l->result = ms_append(l->store, MS_STR("job"), &m, NULL, NULL);
    return NULL;
}

static void must_wait(ms_store *writer, ms_store *waiter)
{
    uint64_t before = 0, seq = 77;
    late l = {0, NULL, MS_E_IO};
    l.store = writer;
    assert_int_equal(test_refresh(waiter, &before, NULL), MS_OK);
    double start = now_ms();
    assert_int_equal(ms_wait(waiter, before, 40, &seq, NULL), MS_OK);
    assert_int_equal(seq, before);
    assert_true(now_ms() - start >= 39);
    if (pthread_create(&l.thread, NULL, append_late, &l) != 0) abort();
    start = now_ms();
    ms_result result = ms_wait(waiter, before, 20000, &seq, NULL);
    double took = now_ms() - start;
    pthread_join(l.thread, NULL);
    assert_int_equal(result, MS_OK);
    assert_int_equal(l.result, MS_OK);
    assert_int_equal(seq, before + 1);
    assert_true(took < 10000);
    start = now_ms();
    assert_int_equal(ms_wait(waiter, before, 20000, NULL, NULL), MS_OK);
    assert_true(now_ms() - start < 10000);
    assert_int_equal(ms_wait(waiter, UINT64_MAX, 0, &seq, NULL), MS_OK);
    assert_int_equal(seq, before + 1);
}

static void waiting_ends_with_a_message_or_the_time(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    must_wait(s.store, s.store);
    if (s.kind->log) {
        ms_store *reader = log_reader(&s);
        must_wait(s.store, reader);
        ms_close(reader);
    }
    store_close(&s);
}


/* ---- cursors and pointers ---- */

enum { HELD = 40 };

typedef struct held {
    ms_query query;
    ms_str team[TEAM_MAX];
    ms_arena arena;
    ms_cursor it;
    const twin_msg **want;
    size_t n;
} held;

/* Each cursor gives what was there at its opening, however much is sealed meanwhile. */
static void cursors_stand_still_while_segments_are_sealed(void **state)
{
    static held cursors[HELD];
    uint64_t rng = test_seed();
    store_options options;
    twin t;
    memset(&options, 0, sizeof options);
    options.keep_unset_times = true;
    test_store s = store_open((store_kind *)*state, &options);
    if (s.log.segment_size != 0) { /* some messages in each tail that is held */
        s.log.segment_size = 4096;
        store_reopen(&s);
    }
    ms_store *reader = log_reader(&s);
    twin_init(&t);
    t.keep_unset_times = true;
    for (size_t i = 0; i < HELD; i++) {
        held *h = &cursors[i];
        ms_error err;
        fill(&t, s.store, &rng, 60);
        test_arena_init(&h->arena, NULL);
        h->query = random_query(&rng, twin_last_seq(&t), h->team, &h->arena);
        if (i % 4 == 0) h->query = query_of(no_str(), 0);
        h->want = (const twin_msg **)twin_memory(NULL, (t.count + 1) * sizeof h->want[0]);
        h->n = twin_query(&t, &h->query, h->want);
        if (ms_query_open(i % 2 ? reader : s.store, &h->query, &h->it, &err) != MS_OK)
            fail_msg("query: %s", err.message);
    }
    fill(&t, s.store, &rng, 1000);
    for (size_t i = 0; i < HELD; i++) {
        twin_must_read(cursors[i].want, cursors[i].n, &cursors[i].it, "held");
        ms_arena_deinit(&cursors[i].arena);
        free(cursors[i].want);
    }
    twin_must_equal(&t, s.store);
    twin_deinit(&t);
    ms_close(reader);
    store_close(&s);
}

/* Also those of a reader, and those into a file that was replaced. */
static void pointers_hold_until_close(void **state)
{
    enum { KEPT = 500, TEXT = 4000 };
    static const ms_msg *kept[2][KEPT];
    static char *bytes[KEPT];
    test_store s = store_open((store_kind *)*state, NULL);
    ms_store *reader = log_reader(&s);
    char *text = large_text(TEXT);
    uint64_t rng = test_seed();
    for (size_t i = 0; i < KEPT; i++) {
        ms_envelope m = random_message(&rng);
        uint64_t seq = must_append(s.store, no_str(), &m);
        assert_int_equal(ms_get_by_seq(s.store, seq, NULL, &kept[0][i], NULL), MS_OK);
        assert_int_equal(ms_get_by_seq(reader, seq, NULL, &kept[1][i], NULL), MS_OK);
        bytes[i] = (char *)twin_memory(NULL, ms_size(kept[0][i]));
        memcpy(bytes[i], kept[0][i], ms_size(kept[0][i]));
    }
    size_t more = test_times(((size_t)64 << 20) / TEXT);
    for (size_t i = 0; i < more; i++) {
        ms_envelope m = ms_observation(ms_text_n(ms_str_n(text, TEXT)), ms_str_of(NULL));
        must_append(s.store, MS_STR("job"), &m);
    }
    ms_keep keep;
    memset(&keep, 0, sizeof keep);
    keep.newest = 1;
    assert_int_equal(ms_log_rewrite(s.store, &s.log, true, &keep, NULL, NULL), MS_OK);
    for (size_t i = 0; i < KEPT; i++) {
        const ms_msg *now;
        uint64_t seq = ms_seq(kept[0][i]);
        assert_memory_equal(kept[0][i], bytes[i], ms_size(kept[0][i]));
        assert_memory_equal(kept[1][i], bytes[i], ms_size(kept[0][i]));
        assert_int_equal(ms_get_by_seq(s.store, seq, NULL, &now, NULL), MS_OK);
        assert_ptr_equal(now, kept[0][i]);
        assert_int_equal(ms_get_by_seq(reader, seq, NULL, &now, NULL), MS_OK);
        assert_ptr_equal(now, kept[1][i]);
        free(bytes[i]);
    }
    free(text);
    ms_close(reader);
    store_close(&s);
}


/* ---- many segments answer like an array ---- */

/* Random questions of all kinds to a writer, to a reader, and after reopening. */
static void many_segments_answer_like_an_array(void **state)
{
    uint64_t rng = test_seed();
    store_options options;
    twin t;
    ms_arena arena;
    memset(&options, 0, sizeof options);
    options.keep_unset_times = true;
    test_store s = store_open((store_kind *)*state, &options);
    ms_store *reader = log_reader(&s);
    twin_init(&t);
    t.keep_unset_times = true;
    test_arena_init(&arena, NULL);
    for (int part = 0; part < 4; part++) {
        fill(&t, s.store, &rng, 1000);
        if (part == 2) store_reopen(&s);
        for (size_t i = 0; i < test_times(400); i++) {
            ms_str team[TEAM_MAX];
            ms_query q = random_query(&rng, twin_last_seq(&t), team, &arena);
            if (test_one_in(&rng, 3)) q.limit = 1 + (size_t)test_below(&rng, 300);
            if (test_one_in(&rng, 8)) q.after_seq = twin_last_seq(&t) - 20;
            twin_must_query(&t, i % 3 ? s.store : reader, &q);
            ms_arena_reset(&arena);
        }
        twin_must_equal(&t, part % 2 ? s.store : reader);
        for (int i = 0; i < 4; i++) {
            ms_list_query list;
            memset(&list, 0, sizeof list);
            list.agents = i % 2;
            if (i == 3) list.location = MS_STR("job_1");
            twin_must_list(&t, i % 2 ? s.store : reader, &list);
        }
    }
    if (s.log.segment_size != 0) {
        assert_true(log_info_of(s.store).segments > 100);
        assert_true(log_info_of(s.store).summaries >= 2);
    }
    ms_arena_deinit(&arena);
    twin_deinit(&t);
    ms_close(reader);
    store_close(&s);
}

/* A location that was busy long ago: its newest, its oldest, from both ends. */
static void a_location_that_went_cold_is_found(void **state)
{
    enum { COLD = 40 };
    test_store s = store_open((store_kind *)*state, NULL);
    size_t others = test_times(40000);
    for (int i = 0; i < COLD; i++) {
        ms_envelope m = ms_observation(ms_text("cold"), ms_str_of(NULL));
        m.agent_key = i % 2 ? MS_STR("odd") : MS_STR("even");
        must_append(s.store, MS_STR("cold"), &m);
    }
    for (size_t i = 0; i < others; i++) {
        char name[24];
        ms_envelope m = ms_observation(ms_text("warm"), ms_str_of(NULL));
        must_append(s.store, name_of(name, 24, "warm", i % 37), &m);
    }
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < 16; i++) {
            ms_query q = query_of(MS_STR("cold"), 0);
            ms_cursor it;
            uint64_t step = 1, first;
            if (i & 8) q.views = MS_VIEW_AGENT;
            q.agent_key = MS_STR("odd");
            if (i & 8) step = 2;
            q.limit = 10;
            q.oldest = i & 1;
            q.reverse = i & 2;
            if (i & 4) q.before_seq = COLD - 1;
            first = q.oldest ? step : (i & 4 ? COLD - 2 : COLD) - 9 * step;
            if (q.reverse) first += 9 * step;
            assert_int_equal(ms_query_open(s.store, &q, &it, NULL), MS_OK);
            for (uint64_t n = 0; n < 10; n++) {
                const ms_msg *msg = ms_next(&it);
                assert_non_null(msg);
                assert_int_equal(ms_seq(msg),
                                 q.reverse ? first - n * step : first + n * step);
            }
            assert_null(ms_next(&it));
            assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
        }
        ms_query none = query_of(MS_STR("never"), 0);
        assert_int_equal(count_of(s.store, &none), 0);
        store_reopen(&s);
    }
    store_close(&s);
}

/* The listing of so many locations, each once: newest first, none twice, none missing. */
static void must_list_all(ms_store *store, const uint32_t *order, size_t n)
{
    ms_arena arena;
    ms_listing got;
    ms_list_query q;
    ms_error err;
    size_t with_prefix = 0;
    memset(&q, 0, sizeof q);
    test_arena_init(&arena, NULL);
    if (ms_list(store, &q, &arena, &got, &err) != MS_OK)
        fail_msg("list: %s", err.message);
    assert_int_equal(got.count, n);
    for (size_t i = 0; i < n; i++) {
        char name[24];
        const ms_info *info = &got.items[i];
        snprintf(name, sizeof name, "loc_%u", order[n - 1 - i]);
        with_prefix += strncmp(name, "loc_77", 6) == 0;
        if (!ms_str_equal(info->location, ms_str_of(name))) fail_msg("entry %zu", i);
        assert_int_equal(info->messages, 1);
        assert_int_equal(info->first_seq, n - i);
        assert_int_equal(info->last_seq, n - i);
        assert_true(info->last_time_ns == SECONDS(n - i));
    }
    q.prefix = MS_STR("loc_77");
    assert_int_equal(ms_list(store, &q, &arena, &got, NULL), MS_OK);
    assert_int_equal(got.count, with_prefix);
    q.prefix = no_str();
    q.limit = 5;
    assert_int_equal(ms_list(store, &q, &arena, &got, NULL), MS_OK);
    assert_int_equal(got.count, n < 5 ? n : 5);
    assert_int_equal(got.items[0].last_seq, n);
    ms_arena_deinit(&arena);
}

/* In the log that is opened by default; in the others a fifth of them. */
static void a_hundred_thousand_locations_are_listed(void **state)
{
    const char *name_of_kind = ((store_kind *)*state)->name;
    size_t n = test_times(strcmp(name_of_kind, "log") == 0 ? 100000 : 20000);
    uint32_t *order = (uint32_t *)twin_memory(NULL, n * sizeof order[0]);
    uint64_t rng = test_seed();
    test_store s = store_open((store_kind *)*state, NULL);
    for (size_t i = 0; i < n; i++) order[i] = (uint32_t)i;
    for (size_t i = n; i > 1; i--) {
        size_t other = (size_t)test_below(&rng, i);
        uint32_t swap = order[i - 1];
        order[i - 1] = order[other];
        order[other] = swap;
    }
    for (size_t i = 0; i < n; i++) {
        char name[24];
        ms_envelope m = ms_observation(ms_text("x"), ms_str_of(NULL));
        snprintf(name, sizeof name, "loc_%u", order[i]);
        m.has_time = true;
        m.time_ns = SECONDS((double)(i + 1));
        must_append(s.store, ms_str_of(name), &m);
    }
    must_list_all(s.store, order, n);
    store_reopen(&s);
    must_list_all(s.store, order, n);
    for (size_t i = 0; i < n; i += 1 + n / 500) {
        char name[24];
        ms_cursor it;
        snprintf(name, sizeof name, "loc_%u", order[i]);
        ms_query q = query_of(ms_str_of(name), 0);
        q.limit = 3;
        assert_int_equal(ms_query_open(s.store, &q, &it, NULL), MS_OK);
        const ms_msg *msg = ms_next(&it);
        assert_non_null(msg);
        assert_int_equal(ms_seq(msg), i + 1);
        assert_null(ms_next(&it));
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    }
    free(order);
    store_close(&s);
}


/* ---- sizes ---- */

static void a_large_message_fits(void **state)
{
    size_t len = (size_t)20 << 20;
    test_store s = store_open((store_kind *)*state, NULL);
    ms_store *reader = log_reader(&s);
    char *text = large_text(len);
    for (int i = 0; i < 3; i++) {
        ms_envelope m = ms_observation(ms_text_n(ms_str_n(text, len)), ms_str_of(NULL));
        append_text(s.store, "before");
        if (i != 1) must_append(s.store, MS_STR("large"), &m);
        append_text(s.store, "after");
    }
    for (int round = 0; round < 3; round++) {
        ms_store *store = round == 0 ? reader : s.store;
        ms_query q = query_of(MS_STR("large"), 0), all = query_of(no_str(), 0);
        ms_cursor it;
        const ms_msg *msg;
        assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
        for (int i = 0; i < 2; i++) {
            msg = ms_next(&it);
            assert_non_null(msg);
            assert_int_equal(ms_content(msg).text.len, len);
            assert_int_equal(memcmp(ms_content(msg).text.ptr, text, len), 0);
        }
        assert_null(ms_next(&it));
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
        assert_int_equal(count_of(store, &all), 8);
        if (round == 0) ms_close(reader);
        if (round == 1) store_reopen(&s);
    }
    free(text);
    store_close(&s);
}

/* Messages of every size from small to over a segment, so that each distance to a
 * boundary occurs. */
static void every_distance_to_a_boundary_works(void **state)
{
    enum { MOST = 4600 };
    test_store s = store_open((store_kind *)*state, NULL);
    char *text = large_text(MOST);
    size_t n = 0;
    for (size_t len = 0; len < MOST; len += 8, n++) {
        ms_envelope m = ms_observation(ms_text_n(ms_str_n(text, len)), ms_str_of(NULL));
        must_append(s.store, MS_STR("job"), &m);
        if (n % 100 == 99) store_reopen(&s);
    }
    store_reopen(&s);
    for (size_t i = 0; i < n; i++) {
        const ms_msg *msg;
        assert_int_equal(ms_get_by_seq(s.store, i + 1, NULL, &msg, NULL), MS_OK);
        assert_int_equal(ms_content(msg).text.len, i * 8);
        assert_memory_equal(ms_content(msg).text.ptr, text, i * 8);
    }
    ms_query all = query_of(no_str(), 0);
    assert_int_equal(count_of(s.store, &all), n);
    free(text);
    store_close(&s);
}


/* ---- the file ---- */

/* Returns to the folder that it came from, whatever happens in between. */
static void a_relative_path_outlives_a_change_of_folder(void **state)
{
    test_store s = log_at(4096, MS_ENGINE_AUTO);
    int here = open(".", O_RDONLY);
    ms_store *store = NULL, *reader = NULL;
    ms_result result[5];
    (void)state;
    assert_true(here >= 0);
    s.log.path = "test.msl";
    assert_int_equal(chdir(s.folder), 0);
    result[0] = ms_log_open(&store, &s.log, NULL);
    s.log.mode = MS_LOG_READ;
    result[1] = ms_log_open(&reader, &s.log, NULL);
    result[2] = chdir("/") == 0 ? MS_OK : MS_E_IO;
    ms_envelope m = ms_observation(ms_text("x"), ms_str_of(NULL));
    for (int i = 0; i < 3000 && result[0] == MS_OK; i++)
        result[0] = ms_append(store, MS_STR("job"), &m, NULL, NULL);
    ms_query all = query_of(no_str(), 0);
    ms_cursor it;
    size_t n = 0;
    result[3] = ms_query_open(reader, &all, &it, NULL);
    while (ms_next(&it) != NULL) n++;
    ms_cursor_close(&it, NULL);
    ms_close(reader);
    result[4] = ms_sync(store, NULL, NULL);
    ms_close(store);
    if (fchdir(here) != 0) abort();
    close(here);
    for (size_t i = 0; i < 5; i++) assert_int_equal(result[i], MS_OK);
    assert_int_equal(n, 3000);
    s.log.path = s.path;
    s.log.mode = MS_LOG_WRITE;
    log_open(&s);
    assert_int_equal(count_of(s.store, &all), 3000);
    store_close(&s);
}

/* The bytes of the file after a run that depends on nothing but the seed. */
static char *run_once(const store_kind *kind, uint64_t seed, size_t *size)
{
    static int64_t now = SECONDS(5);
    store_options options;
    uint64_t rng = seed;
    twin t;
    ms_os os = *ms_os_default();
    os.micros = os.process = always_seven;
    os.stat = stat_without_name;
    memset(&options, 0, sizeof options);
    options.clock = clock_at(&now);
    options.entropy = constant_entropy();
    test_store s = store_open(kind, &options);
    ms_close(s.store);
    assert_int_equal(remove(s.path), 0);
    s.log.os = &os;
    log_open(&s);
    twin_init(&t);
    t.now = now;
    fill(&t, s.store, &rng, 150);
    assert_int_equal(ms_sync(s.store, NULL, NULL), MS_OK);
    fill(&t, s.store, &rng, 150);
    store_reopen(&s);
    fill(&t, s.store, &rng, 100);
    ms_close(s.store);
    s.store = NULL;
    char *bytes = read_file(s.path, size);
    assert_non_null(bytes);
    store_close(&s);
    twin_deinit(&t);
    return bytes;
}

static void equal_runs_give_equal_files(void **state)
{
    size_t sizes[3];
    char *runs[3];
    for (size_t i = 0; i < 3; i++)
        runs[i] = run_once((store_kind *)*state, 1 + i / 2, &sizes[i]);
    assert_int_equal(sizes[0], sizes[1]);
    for (size_t i = 0; i < sizes[0]; i++)
        if (runs[0][i] != runs[1][i]) fail_msg("they differ at byte %zu", i);
    assert_true(sizes[2] != sizes[0] || memcmp(runs[2], runs[0], sizes[0]) != 0);
    for (size_t i = 0; i < 3; i++) free(runs[i]);
}

static size_t find_text(const char *bytes, size_t size, const char *text)
{
    size_t found = 0, len = strlen(text);
    for (size_t i = 0; i + len <= size; i++) found += memcmp(bytes + i, text, len) == 0;
    return found;
}

/* What was written can be found by a plain search in the file. */
static void texts_stand_in_the_file_as_they_are(void **state)
{
    static const char *const texts[] = {"The quick brown fox", "{\"tool\": [1, 2.50]}",
                                        "caf\xc3\xa9 \xe2\x98\x95 at nine"};
    test_store s = store_open((store_kind *)*state, NULL);
    size_t size;
    append_text(s.store, texts[0]);
    ms_envelope m = ms_action(MS_STR("search_the_web"), ms_json(ms_str_of(texts[1])),
                              ms_str_of(NULL));
    must_append(s.store, MS_STR("job number nine"), &m);
    append_text(s.store, texts[2]);
    char *bytes = read_file(s.path, &size);
    assert_non_null(bytes);
    for (size_t i = 0; i < 3; i++) assert_int_equal(find_text(bytes, size, texts[i]), 1);
    assert_true(find_text(bytes, size, "search_the_web") >= 1);
    assert_true(find_text(bytes, size, "job number nine") >= 1);
    free(bytes);
    store_close(&s);
}

static void a_whole_file_verifies(void **state)
{
    uint64_t rng = test_seed();
    store_options options;
    ms_log_report report;
    ms_error err;
    twin t;
    memset(&options, 0, sizeof options);
    options.keep_unset_times = true;
    test_store s = store_open((store_kind *)*state, &options);
    twin_init(&t);
    t.keep_unset_times = true;
    for (int round = 0; round < 8; round++) {
        memset(&report, 0xA5, sizeof report);
        if (ms_log_verify(&s.log, &report, &err) != MS_OK)
            fail_msg("verify: %s", err.message);
        assert_int_equal(report.messages, t.count);
        assert_int_equal(report.last_seq, twin_last_seq(&t));
        assert_int_equal(report.damaged, 0);
        assert_int_equal(report.damaged_bytes, 0);
        assert_int_equal(report.index_damaged, 0);
        assert_int_equal(report.torn_bytes, 0);
        assert_int_equal(report.end, log_info_of(s.store).end);
        assert_true(report.bytes <= log_info_of(s.store).size);
        if (round != 0 && s.log.segment_size != 0) assert_true(report.index_records > 5);
        fill(&t, s.store, &rng, 100);
        if (round % 2) store_reopen(&s);
    }
    twin_deinit(&t);
    store_close(&s);
}

/* Opened and closed without a message, any number of times. */
static void an_empty_log_stays_empty(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    twin t;
    twin_init(&t);
    for (int i = 0; i < 5; i++) {
        twin_must_equal(&t, s.store);
        assert_int_equal(ms_sync(s.store, NULL, NULL), MS_OK);
        ms_store *reader = log_reader(&s);
        twin_must_equal(&t, reader);
        ms_close(reader);
        store_reopen(&s);
    }
    assert_int_equal(append_text(s.store, "first"), 1);
    twin_deinit(&t);
    store_close(&s);
}

/* Every block that a log took is given back at close, whatever was done with it. */
static void a_closed_log_gives_its_memory_back(void **state)
{
    store_options options;
    test_alloc heap;
    uint64_t rng = test_seed();
    test_alloc_init(&heap);
    memset(&options, 0, sizeof options);
    options.alloc = heap.alloc;
    test_store s = store_open((store_kind *)*state, &options);
    ms_store *reader = log_reader(&s);
    for (int i = 0; i < 2000; i++) {
        ms_envelope m = random_message(&rng);
        char key[24];
        if (i % 3 == 0) m.key = name_of(key, 24, "key", (size_t)i);
        must_append(s.store, no_str(), &m);
    }
    ms_query all = query_of(no_str(), 0);
    assert_int_equal(count_of(reader, &all), 2000);
    ms_close(reader);
    assert_true(log_info_of(s.store).memory <= heap.live_bytes);
    assert_true(log_info_of(s.store).memory > 0);
    store_close(&s);
    test_alloc_done(&heap);
}

#define ON_ENGINES(test)                                   \
    {#test " (map)", test, NULL, NULL, NULL},              \
    {#test " (write)", test, NULL, NULL, &sync_calls}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_LOGS(visible_at_once_durable_after_a_sync),
        ON_LOGS(a_log_tells_about_itself),
        cmocka_unit_test(each_append_syncs_in_mode_each),
        ON_ENGINES(no_append_syncs_in_mode_none),
        cmocka_unit_test(many_bytes_are_synced_in_mode_every),
        cmocka_unit_test(time_is_due_in_mode_every),
        cmocka_unit_test(a_clock_that_goes_back_is_survived),
        cmocka_unit_test(threads_share_their_syncs),
        cmocka_unit_test(ticks_change_nothing_that_is_read),
        cmocka_unit_test(a_tick_keeps_to_its_budget),
        ON_LOGS(a_failed_append_changes_nothing),
        ON_LOGS(a_handle_for_reading_does_not_write),
        ON_LOGS(keys_and_numbers_survive_reopening),
        ON_LOGS(numbers_survive_rewriting),
        ON_LOGS(the_newest_are_counted_without_gaps),
        ON_LOGS(a_rewrite_replaces_only_when_told),
        ON_EVERY_STORE(an_arena_store_goes_to_a_file_and_back),
        ON_LOGS(another_process_sees_each_append),
        ON_EVERY_STORE(waiting_ends_with_a_message_or_the_time),
        ON_LOGS(cursors_stand_still_while_segments_are_sealed),
        ON_LOGS(pointers_hold_until_close),
        ON_LOGS(many_segments_answer_like_an_array),
        ON_LOGS(a_location_that_went_cold_is_found),
        ON_LOGS(a_hundred_thousand_locations_are_listed),
        ON_LOGS(a_large_message_fits),
        ON_LOGS(every_distance_to_a_boundary_works),
        cmocka_unit_test(a_relative_path_outlives_a_change_of_folder),
        ON_LOGS(equal_runs_give_equal_files),
        ON_LOGS(texts_stand_in_the_file_as_they_are),
        ON_LOGS(a_whole_file_verifies),
        ON_LOGS(an_empty_log_stays_empty),
        ON_LOGS(a_closed_log_gives_its_memory_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
