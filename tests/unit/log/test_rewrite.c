/* Rewriting a log while it takes appends (ms_rewrite_run, ms_rewrite_end).
 *
 *   - Changes of every kind between the portions of the copy: the new file shows what the
 *     sequence (change_sequence.h) has, and each field and time of the old one.
 *   - Threads append, read and copy; the file is replaced again and again. All that was
 *     acknowledged is there, in order.
 *   - Each call of the system fails in its turn; a full disk; a process that ends before,
 *     in or after each call, and at random moments. The path has the old file or the new
 *     one, with all that was acknowledged.
 *
 * Power losses are in test_power, rules for what is kept in test_twin, what the calls refuse
 * in test_log_sync. Left out: Windows.
 */

#define _GNU_SOURCE
#include "store_text.h"
#include "change_sequence.h"

#include <pthread.h>

/* ---- changes meanwhile ---- */

/* Without the flags of batches, which a rewrite divides anew, and the times of facts. */
static void draw_records(ms_buf *out, ms_store *store, const ms_query *q)
{
    ms_cursor it;
    EACH (msg, store, q, &it) {
        int64_t time = -1;
        if (ms_kind_of(msg) != MS_KIND_LOCATION) (void)ms_time(msg, &time);
        store_text_put(out, "\n%llu %u %d %lld ", (unsigned long long)ms_seq(msg),
                       (unsigned)ms_flags(msg) & ~3u, (int)ms_kind_of(msg),
                       (long long)time);
        for (int f = 1; f < MS_FIELD_COUNT; f++) {
            ms_str text = ms_get(msg, (ms_field)f).text;
            ms_buf_write(out, text.ptr, text.len);
            store_text_put(out, text.ptr == NULL ? "-" : "|");
        }
    }
}

/* Messages, notes and facts, as a copy of the store has them. */
static ms_str drawn(ms_store *store, ms_arena *arena)
{
    ms_store *copy;
    ms_error err;
    ms_buf out = {arena, NULL, 0, 0};
    ms_query q = query_of(no_str(), 0);
    q.arena = arena;
    assert_int_equal(ms_mem_open(&copy, NULL, NULL), MS_OK);
    must_ok(ms_copy(copy, store, NULL, NULL, NULL, &err), &err, "copy");
    draw_records(&out, copy, &q);
    q.raw = MS_RAW_NOTES | MS_RAW_LOCATIONS;
    draw_records(&out, copy, &q);
    ms_close(copy);
    return ms_buf_text(&out);
}

static void must_show_the_same(ms_store *a, ms_store *b, const char *when)
{
    ms_arena arena;
    size_t i = 0;
    test_arena_init(&arena, NULL);
    ms_str x = drawn(a, &arena), y = drawn(b, &arena);
    while (i < x.len && i < y.len && x.ptr[i] == y.ptr[i]) i++;
    size_t from = i > 80 ? i - 80 : 0;
    if (!ms_str_equal(x, y))
        fail_msg("%s:\nold: %.160s\nnew: %.160s", when, x.ptr + from, y.ptr + from);
    ms_arena_deinit(&arena);
}

static ms_rewrite rewrite_of(test_store *s, const ms_keep *keep)
{
    ms_rewrite w = {.source = s->store, .to = &s->log, .replace = true, .keep = keep};
    return w;
}

/* A rewrite that has copied its first records. */
static ms_rewrite begun(test_store *s, const ms_keep *keep)
{
    ms_error err;
    bool more;
    ms_rewrite w = rewrite_of(s, keep);
    must_ok(ms_rewrite_run(&w, 1, &more, &err), &err, "begin");
    return w;
}

static bool run(ms_rewrite *w, uint32_t budget, bool *more)
{
    ms_error err;
    ms_result result = ms_rewrite_run(w, budget, more, &err);
    if (result == MS_E_CONFLICT) return false;
    must_ok(result, &err, "run");
    return true;
}

TEST(changes_follow_to_the_new_file)
{
    size_t rounds = test_times(60), ends = 0, conflicts = 0;
    ms_os os = os_without_sync();
    for (size_t round = 0; round < rounds; round++) {
        static change_sequence d;
        ms_error err;
        char when[60];
        uint64_t rng = test_seed() + round;
        test_store s = log_at((size_t)1024 << test_below(&rng, 6),
                              test_one_in(&rng, 2) ? MS_ENGINE_MAP : MS_ENGINE_WRITE);
        s.log.os = &os;
        sequence_begin(&d, test_random(&rng));
        log_open(&s);
        for (int k = 0; k < 4; k++) {
            bool more = true;
            uint64_t before = test_below(&rng, 300), after = test_below(&rng, 4) * 40;
            snprintf(when, sizeof when, "round %zu.%d", round, k);
            while (before-- > 0) must_ok(sequence_step(&d, s.store, &err), &err, when);
            ms_rewrite w = begun(&s, NULL);
            for (uint64_t left = after + 1; left > 0 || more;) {
                bool fine = true;
                if (left > 0) left--;
                if (left > 0) must_ok(sequence_step(&d, s.store, &err), &err, when);
                if (test_one_in(&rng, 3) || left == 0)
                    fine = run(&w, test_one_in(&rng, 3) ? 0 : 1, &more);
                if (fine) continue;
                conflicts++; /* a redaction */
                (void)ms_rewrite_end(&w, NULL, NULL);
                w = begun(&s, NULL);
                more = true;
            }
            for (uint64_t i = test_below(&rng, 3); i > 0; i--)
                if (!d.redacting) must_ok(sequence_step(&d, s.store, &err), &err, when);
            ms_store *old = s.store;
            sequence_rewritten(&d, 0);
            ms_result result = ms_rewrite_end(&w, &s.store, &err);
            if (result == MS_E_CONFLICT) { /* a redaction after the last run */
                s.store = old;
                continue;
            }
            if (result == MS_E_BUSY) { /* its sync */
                (void)ms_rewrite_end(&w, NULL, NULL);
                s.store = old;
                continue;
            }
            must_ok(result, &err, when);
            ends++;
            const char *wrong = sequence_differs(&d, s.store);
            if (wrong != NULL) fail_msg("%s: %s", when, wrong);
            must_show_the_same(old, s.store, when);
            if (ms_selfcheck(s.store, &err) != MS_OK) fail_msg("%s: %s", when, err.message);
            ms_envelope m = ms_user_message(ms_text("late"));
            assert_int_equal(ms_append(old, MS_STR("x"), &m, NULL, NULL), MS_E_CONFLICT);
            bool durable = log_info_of(old).durable_end == log_info_of(old).end;
            assert_int_equal(ms_sync(old, NULL, NULL), durable ? MS_OK : MS_E_CONFLICT);
            assert_int_equal(ms_tick(old, 1, NULL), MS_E_CONFLICT);
            ms_close(old);
            if (d.w.store != NULL) d.w.store = s.store;
            assert_int_equal(files_in(s.folder), 1);
        }
        ms_close(s.store);
        log_open(&s);
        store_close(&s);
    }
    printf("%zu files replaced, %zu redactions met\n", ends, conflicts);
    assert_true(ends > 2 * rounds);
}

/* A copy at another path, of a writer's handle and of a reader's, while the writer goes
 * on: it has all that came before the end, and nothing that a redaction erased before. */
TEST(changes_follow_to_a_file_at_another_path)
{
    size_t rounds = test_times(60), ends = 0, conflicts = 0;
    ms_os os = os_without_sync();
    for (size_t round = 0; round < rounds; round++) {
        static change_sequence d;
        ms_error err;
        uint64_t rng = test_seed() + round;
        test_store s = log_at((size_t)1024 << test_below(&rng, 6), MS_ENGINE_AUTO);
        bool reads = round % 2 != 0, more = true;
        char *other = scratch_file(s.folder, "other.msl");
        s.log.os = &os;
        sequence_begin(&d, test_random(&rng));
        log_open(&s);
        for (uint64_t i = test_below(&rng, 300); i > 0; i--)
            must_ok(sequence_step(&d, s.store, &err), &err, "before");
        ms_store *fresh = NULL, *source = reads ? log_reader(&s) : s.store;
        ms_log_desc to = s.log;
        to.path = other;
        ms_rewrite w = {.source = source, .to = &to};
        for (uint64_t left = test_below(&rng, 100); left > 0 || more;) {
            if (left > 0) must_ok(sequence_step(&d, s.store, &err), &err, "meanwhile");
            if (left > 0) left--;
            if (!test_one_in(&rng, 3) && left > 0) continue;
            if (run(&w, test_one_in(&rng, 3) ? 0 : 1, &more)) continue;
            conflicts++;
            (void)ms_rewrite_end(&w, NULL, NULL);
            more = true;
        }
        for (uint64_t i = test_below(&rng, 3); i > 0; i--)
            must_ok(sequence_step(&d, s.store, &err), &err, "after the last run");
        ms_result result = ms_rewrite_end(&w, &fresh, &err);
        if (result == MS_E_CONFLICT) conflicts++;
        else must_ok(result, &err, "end");
        if (fresh != NULL) ends++;
        if (fresh != NULL) must_show_the_same(s.store, fresh, reads ? "reader" : "writer");
        if (fresh != NULL) must_ok(ms_selfcheck(fresh, &err), &err, "selfcheck");
        ms_close(fresh);
        if (reads) ms_close(source);
        free(other);
        store_close(&s);
    }
    printf("%zu copies, %zu redactions met\n", ends, conflicts);
    assert_true(ends > rounds / 2 && conflicts > 0);
}

/* A redaction by another handle, which the source reads of. */
TEST(a_redaction_during_a_copy_to_another_path_is_a_conflict)
{
    for (int of_reader = 0; of_reader < 2; of_reader++) {
        test_store s = log_at(MS_LOG_SEGMENT_MIN, MS_ENGINE_AUTO);
        char *other = scratch_file(s.folder, "other.msl");
        ms_error err;
        bool more = true;
        log_open(&s);
        for (int i = 0; i < 100; i++) append_text(s.store, "a secret");
        ms_store *source = of_reader ? log_reader(&s) : s.store;
        ms_log_desc to = s.log;
        to.path = other;
        ms_rewrite w = {.source = source, .to = &to};
        while (more) assert_true(run(&w, 0, &more));
        must_ok(ms_redact(s.store, 1, &err), &err, "redact");
        assert_int_equal(ms_rewrite_run(&w, 0, &more, &err), MS_E_CONFLICT);
        assert_non_null(strstr(err.message, "message 1 was redacted during the copy"));
        (void)ms_rewrite_end(&w, NULL, NULL);
        assert_int_equal(files_in(s.folder), 1);
        if (of_reader) ms_close(source);
        free(other);
        store_close(&s);
    }
}

/* Of a store that is no log the copy has the state at the first run. */
TEST(a_store_in_memory_that_is_written_to_during_a_copy_is_a_conflict)
{
    for (int row = 0; row < 4; row++) {
        bool written = row % 2 != 0, of_union = row > 1;
        test_store s = log_at(MS_LOG_SEGMENT_MIN, MS_ENGINE_AUTO);
        ms_store *source, *fresh = NULL;
        ms_error err;
        bool more = true;
        assert_int_equal(ms_mem_open(&source, NULL, NULL), MS_OK);
        for (int i = 0; i < 100; i++) append_text(source, "one of many");
        ms_store *read = source; /* or a union of it */
        ms_union_desc desc = {.stores = &source, .n_stores = 1};
        if (of_union) must_ok(ms_union_open(&read, &desc, &err), &err, "union");
        ms_rewrite w = {.source = read, .to = &s.log};
        while (more) assert_true(run(&w, 1, &more));
        if (written) append_text(source, "late");
        ms_result result = ms_rewrite_end(&w, &fresh, &err);
        assert_int_equal(result, written ? MS_E_CONFLICT : MS_OK);
        if (written) assert_non_null(strstr(err.message, "is no log, was written to"));
        assert_int_equal(files_in(s.folder), written ? 0 : 1);
        ms_close(fresh);
        if (of_union) ms_close(read);
        ms_close(source);
        store_close(&s);
    }
}

/* A range is hidden while the new file is written; numbers have 64 bits. */
TEST(hidden_ranges_of_any_number_follow_to_the_new_file)
{
    const uint64_t firsts[] = {1, ((uint64_t)1 << 63) - 30, ((uint64_t)1 << 63) + 5};
    for (size_t k = 0; k < COUNT(firsts); k++) {
        ms_error err;
        bool more = true;
        uint64_t hidden;
        const ms_msg *msg;
        ms_append_opts opts = {.keep_seq = true};
        test_store s = log_at(MS_LOG_SEGMENT_MIN, MS_ENGINE_MAP);
        log_open(&s);
        for (uint64_t i = 0; i < 60; i++) {
            ms_envelope m = ms_user_message(ms_text("one of many"));
            m.seq = firsts[k] + i;
            m.location = MS_STR("room");
            must_ok(ms_append_batch(s.store, &m, 1, &opts, &err), &err, "append");
        }
        ms_rewrite w = begun(&s, NULL);
        must_ok(ms_hide_range(s.store, MS_STR("room"), firsts[k] + 20, firsts[k] + 39,
                              &hidden, &err), &err, "hide");
        assert_int_equal(hidden, 20);
        while (more) assert_true(run(&w, 0, &more));
        ms_store *old = s.store;
        must_ok(ms_rewrite_end(&w, &s.store, &err), &err, "end");
        ms_close(old);
        assert_int_equal(w.report.left_out, 0);
        for (uint64_t i = 0; i < 60; i++)
            assert_int_equal(ms_get_by_seq(s.store, firsts[k] + i, NULL, &msg, &err),
                             i < 20 || i >= 40 ? MS_OK : MS_E_NOT_FOUND);
        store_close(&s);
    }
}

TEST(a_new_file_has_the_newest_messages_with_their_notes_and_facts)
{
    test_store s = log_at(4096, MS_ENGINE_AUTO);
    ms_error err;
    ms_log_info info;
    ms_stat is;
    bool more = true;
    ms_keep keep = {.newest = 10};
    log_open(&s);
    ms_str facts = MS_STR("{\"title\":\"a\",\"user\":\"u\"}");
    must_ok(ms_location_set(s.store, MS_STR("place"), facts, &err), &err, "facts");
    for (int i = 0; i < 100; i++) {
        uint64_t seq;
        ms_envelope m = ms_assistant_message(ms_text("hello"));
        must_ok(ms_append(s.store, MS_STR("place"), &m, &seq, &err), &err, "append");
        must_ok(ms_note(s.store, seq, MS_STR("n"), ms_text("note"), &err), &err, "note");
    }
    s.log.sync = MS_SYNC_EVERY;
    ms_rewrite w = begun(&s, &keep);
    assert_true(run(&w, 0, &more));
    assert_false(more);
    uint64_t seq;
    ms_envelope m = ms_assistant_message(ms_text("after"));
    must_ok(ms_append(s.store, MS_STR("place"), &m, &seq, &err), &err, "append");
    must_ok(ms_note(s.store, seq, MS_STR("n"), ms_text("note"), &err), &err, "note");
    must_ok(ms_note(s.store, 5, MS_STR("n"), ms_text("gone"), &err), &err, "note");
    facts = MS_STR("{\"user\":null}");
    must_ok(ms_location_set(s.store, MS_STR("place"), facts, &err), &err, "facts");
    ms_store *old = s.store;
    must_ok(ms_rewrite_end(&w, &s.store, &err), &err, "end");
    ms_close(old);
    must_ok(ms_log_stat(s.store, &info, &err), &err, "stat");
    assert_int_equal(info.engine, MS_ENGINE_WRITE); /* as a log with syncs has */
    assert_int_equal(w.report.copied, 11);
    assert_int_equal(w.report.dropped, 90);
    assert_int_equal(w.report.notes, 11);
    must_ok(ms_store_stat(s.store, &is, &err), &err, "stat");
    assert_int_equal(is.messages, 11);
    assert_int_equal(is.last_seq, 101);
    must_have_facts(s.store, MS_STR("place"), "{\"title\":\"a\"}");
    store_close(&s);
}

/* A record that repeats all facts while the new file is written is not a change there. */
TEST(repeated_facts_do_not_become_changes_of_the_new_file)
{
    enum { SETS = 12 };
    test_store s = log_at(4096, MS_ENGINE_AUTO);
    ms_error err;
    ms_cursor it;
    const ms_msg *msg;
    bool more = true;
    char text[700];
    size_t old_records = 0, records = 0;
    ms_query q = {.location = MS_STR("place"), .raw = MS_RAW_LOCATIONS};
    log_open(&s);
    ms_str facts = MS_STR("{\"title\":\"a\"}");
    must_ok(ms_location_set(s.store, MS_STR("place"), facts, &err), &err, "facts");
    ms_rewrite w = begun(&s, NULL);
    while (more) assert_true(run(&w, 0, &more));
    for (int i = 0; i < SETS; i++) {
        snprintf(text, sizeof text, "{\"k\":\"%d%0600d\"}", i, 0);
        must_ok(ms_location_set(s.store, MS_STR("place"), ms_str_of(text), &err), &err,
                "facts");
    }
    must_ok(ms_query_open(s.store, &q, &it, &err), &err, "query");
    while ((msg = ms_next(&it)) != NULL) old_records += ms_repeats_facts(msg);
    ms_cursor_close(&it, NULL);
    assert_true(old_records > 0);
    ms_store *old = s.store;
    must_ok(ms_rewrite_end(&w, &s.store, &err), &err, "end");
    ms_close(old);
    must_ok(ms_query_open(s.store, &q, &it, &err), &err, "query");
    while ((msg = ms_next(&it)) != NULL) records += !ms_repeats_facts(msg);
    ms_cursor_close(&it, NULL);
    assert_int_equal(records, 1 + SETS);
    assert_int_equal(w.report.left_out, 0);
    snprintf(text, sizeof text, "{\"title\":\"a\",\"k\":\"%d%0600d\"}", SETS - 1, 0);
    must_have_facts(s.store, MS_STR("place"), text);
    store_close(&s);
}


/* ---- threads ---- */

enum { HANDS = 2 };

typedef struct stage {
    test_store s;
    pthread_rwlock_t lock;    /* the name of the store; written when it is another one */
    bool stop;
    uint64_t done[HANDS];     /* acknowledged numbers of each hand */
    const char *wrong;
} stage;

typedef struct hand {
    stage *t;
    int number;
    pthread_t thread;
} hand;

static bool stopped(const stage *t) { return __atomic_load_n(&t->stop, __ATOMIC_ACQUIRE); }

/* Syncs that run, of each open file: the kernel reports a failure to one of two. */
static int syncs[64];
static bool syncs_met;

static int sync_alone(void *ctx, ms_file file)
{
    int *running = &syncs[(size_t)file % 64];
    if (__atomic_add_fetch(running, 1, __ATOMIC_ACQ_REL) > 1)
        __atomic_store_n(&syncs_met, true, __ATOMIC_RELEASE);
    usleep(20);
    __atomic_sub_fetch(running, 1, __ATOMIC_ACQ_REL);
    return 0;
}

static void *hand_appends(void *arg)
{
    hand *h = (hand *)arg;
    stage *t = h->t;
    char location[24], text[24];
    snprintf(location, sizeof location, "hand_%d", h->number);
    for (uint64_t n = 1; !stopped(t);) {
        snprintf(text, sizeof text, "%llu", (unsigned long long)n);
        ms_envelope m = ms_assistant_message(ms_text(text));
        pthread_rwlock_rdlock(&t->lock);
        ms_result result = ms_append(t->s.store, ms_str_of(location), &m, NULL, NULL);
        pthread_rwlock_unlock(&t->lock);
        if (result == MS_OK) h->t->done[h->number] = n++;
        else if (result != MS_E_CONFLICT) t->wrong = "an append failed";
        if (result != MS_OK || n % 64 == 0) usleep(200); /* the lock is for readers first */
    }
    return NULL;
}

/* The newest messages of a hand: in order, without a hole. */
static const char *hand_reads(ms_store *store, int number, size_t limit, uint64_t *last)
{
    char location[24];
    ms_cursor it;
    const ms_msg *msg;
    int64_t before = 0;
    const char *wrong = NULL;
    snprintf(location, sizeof location, "hand_%d", number);
    if (ms_get_conversation_messages(store, ms_str_of(location), limit, &it, NULL) != MS_OK)
        return "a query failed";
    while ((msg = ms_next(&it)) != NULL) {
        int64_t n = 0;
        (void)ms_json_i64(ms_content(msg).text, &n);
        if (before != 0 && n != before + 1) wrong = "a hole";
        before = n;
    }
    if (ms_cursor_close(&it, NULL) != MS_OK) wrong = "a cursor failed";
    *last = (uint64_t)before;
    return wrong;
}

static void *stage_reads(void *arg)
{
    stage *t = (stage *)arg;
    uint64_t last, seen[HANDS] = {0};
    while (!stopped(t)) {
        for (int i = 0; i < HANDS; i++) {
            pthread_rwlock_rdlock(&t->lock);
            const char *wrong = hand_reads(t->s.store, i, 30, &last);
            pthread_rwlock_unlock(&t->lock);
            if (wrong == NULL && last < seen[i]) wrong = "a message is gone";
            if (wrong != NULL) t->wrong = wrong;
            seen[i] = last;
            usleep(50);
        }
    }
    return NULL;
}

/* A rewrite, with appends of others at each moment but the change of the store's name;
 * even then an append may be on its way: the rest is copied under the lock. */
static void stage_rewrites(stage *t, const ms_keep *keep)
{
    ms_error err;
    ms_store *old, *fresh;
    bool more = true;
    ms_rewrite w = begun(&t->s, keep);
    for (int i = 0; i < 100 && more; i++) assert_true(run(&w, 200, &more));
    assert_true(run(&w, 0, &more));
    must_ok(ms_rewrite_end(&w, &fresh, &err), &err, "end");
    pthread_rwlock_wrlock(&t->lock);
    old = t->s.store;
    t->s.store = fresh;
    pthread_rwlock_unlock(&t->lock);
    ms_close(old);
}

TEST(threads_append_and_read_while_the_file_is_replaced)
{
    stage t;
    hand hands[HANDS];
    pthread_t reader;
    ms_keep keep;
    ms_os os = os_without_sync();
    memset(&t, 0, sizeof t);
    memset(&keep, 0, sizeof keep);
    t.s = log_at(8192, MS_ENGINE_MAP);
    os.sync = sync_alone;
    t.s.log.os = &os;
    t.s.log.sync = MS_SYNC_EACH;
    log_open(&t.s);
    pthread_rwlock_init(&t.lock, NULL);
    for (int i = 0; i < HANDS; i++) {
        hands[i].t = &t;
        hands[i].number = i;
        pthread_create(&hands[i].thread, NULL, hand_appends, &hands[i]);
    }
    pthread_create(&reader, NULL, stage_reads, &t);
    size_t rounds = test_times(100);
    for (size_t i = 0; i < rounds; i++) {
        keep.newest = i % 4 == 3 ? 0 : 100 + 50 * (i % 5);
        stage_rewrites(&t, &keep);
    }
    __atomic_store_n(&t.stop, true, __ATOMIC_RELEASE);
    for (int i = 0; i < HANDS; i++) pthread_join(hands[i].thread, NULL);
    pthread_join(reader, NULL);
    if (t.wrong != NULL) fail_msg("%s", t.wrong);
    if (syncs_met) fail_msg("two syncs of a file ran at a time");
    for (int i = 0; i < HANDS; i++) {
        uint64_t last;
        const char *wrong = hand_reads(t.s.store, i, 0, &last);
        if (wrong != NULL) fail_msg("%s", wrong);
        assert_int_equal(last, t.done[i]);
    }
    pthread_rwlock_destroy(&t.lock);
    store_close(&t.s);
}


/* ---- trouble ---- */

/* Appends, copies, appends, copies, ends, appends; fine: until the first failure. The
 * source is used as long as there is no new one. */
static bool scripted(test_store *s, uint64_t *told)
{
    static const scribe writes = {77, 900};
    size_t count;
    bool more = true, fine = true;
    ms_store *fresh = NULL;
    if (ms_log_open(&s->store, &s->log, NULL) != MS_OK) return false;
    ms_rewrite w = rewrite_of(s, NULL);
    for (int step = 0; step < 90; step++) {
        ms_result result =
            scribe_append(&writes, s->store, *told + 1, NULL, &count, NULL);
        if (result == MS_OK) __atomic_store_n(told, *told + count, __ATOMIC_RELEASE);
        else fine = false;
        bool begins = step == 30 || w.state != NULL;
        if (step >= 30 && step < 60 && begins && step % 5 == 0) {
            result = ms_rewrite_run(&w, step < 50 ? 1 : 0, &more, NULL);
            if (result == MS_OK) continue;
            fine = false;
            (void)ms_rewrite_end(&w, NULL, NULL);
        }
        if (step == 60 && w.state != NULL) {
            result = ms_rewrite_end(&w, &fresh, NULL);
            if (result == MS_OK) {
                ms_close(s->store);
                s->store = fresh;
            } else {
                fine = false;
            }
        }
    }
    ms_close(s->store);
    s->store = NULL;
    return fine;
}

/* A log without events, as damage is no news in trouble; its calls may fail. */
static test_store troubled(os_faults *t, const ms_os *below, os_fault_how how,
                           uint64_t at, ms_log_engine engine)
{
    test_store s = log_at(4096, engine);
    os_fault_init(t, below);
    t->how = how;
    t->at = at;
    t->bytes = 50;
    s.log.os = &t->os;
    s.log.keep_unset_times = true;
    s.log.events.event = NULL;
    return s;
}

/* All that was acknowledged is there; one append may be there that was not. */
static void must_be_there(test_store *s, uint64_t told, const char *when)
{
    static const scribe writes = {77, 900};
    ms_error err;
    ms_stat is;
    tally t;
    s->log.os = NULL;
    if (ms_log_open(&s->store, &s->log, &err) != MS_OK) fail_msg("%s: %s", when, err.message);
    memset(&t, 0, sizeof t);
    if (!scribe_read(&writes, s->store, false, NULL, &t)) fail_msg("%s: %s", when, t.wrong);
    assert_int_equal(ms_store_stat(s->store, &is, NULL), MS_OK);
    if (is.messages < told || is.messages > told + SCRIBE_BATCH)
        fail_msg("%s: %llu messages, %llu were told", when, (unsigned long long)is.messages,
                 (unsigned long long)told);
    if (ms_selfcheck(s->store, &err) != MS_OK) fail_msg("%s: %s", when, err.message);
    ms_close(s->store);
    s->store = NULL;
}

static const struct trouble {
    os_fault_how how;
    int code;
    bool from;                /* that call and all after it */
    ms_log_engine engine;
} troubles[] = {
    {OS_FAULT_FAIL, EIO, false, MS_ENGINE_WRITE},
    {OS_FAULT_FAIL, ENOSPC, true, MS_ENGINE_MAP},
    {OS_FAULT_FAIL_HALF, ENOSPC, false, MS_ENGINE_MAP},
    {OS_FAULT_EXIT_BEFORE, 0, false, MS_ENGINE_AUTO},
    {OS_FAULT_EXIT_HALF, 0, false, MS_ENGINE_WRITE},
    {OS_FAULT_EXIT_AFTER, 0, false, MS_ENGINE_AUTO},
};

/* A numbered call of the script fails, or the process ends with it; told[1] counts scripts
 * of which a call returned a code. Returns whether the script has so many calls. */
static bool one_trouble(const struct trouble *k, uint64_t at, uint64_t *told)
{
    bool ends = k->how >= OS_FAULT_EXIT_BEFORE;
    int status = 0;
    char when[80];
    ms_os below = os_without_sync();
    os_faults t;
    test_store s = troubled(&t, &below, k->how, at, k->engine);
    t.code = k->code;
    t.from = k->from;
    *told = 0;
    pid_t child = ends ? fork_child() : -1;
    if (child <= 0 && !scripted(&s, told)) told[1]++;
    if (child == 0) _exit(0);
    if (ends) waitpid(child, &status, 0);
    bool hit = ends ? !WIFEXITED(status) || WEXITSTATUS(status) != 0 : t.hits > 0;
    snprintf(when, sizeof when, "trouble %d, call %llu (%s)", (int)(k - troubles),
             (unsigned long long)at, os_fault_word((int)t.last_hit));
    assert_int_equal(t.files, 0);
    assert_int_equal(t.maps, 0);
    s.log.engine = MS_ENGINE_AUTO;
    must_be_there(&s, *told, when);
    bool may_be_left = ends || (hit && (t.from || t.last_hit == CALL_REMOVE));
    if (!may_be_left && files_in(s.folder) != 1) fail_msg("%s: a file is left over", when);
    store_close(&s);
    return hit;
}

static uint64_t *shared_numbers(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    return (uint64_t *)page;
}

TEST(trouble_leaves_the_old_file_or_the_new_one)
{
    uint64_t *told = shared_numbers(), step = test_scale() >= 100 ? 1 : 8;
    size_t runs = 0;
    for (size_t k = 0; k < sizeof troubles / sizeof troubles[0]; k++)
        for (uint64_t at = 1 + k % 3; one_trouble(&troubles[k], at, told); at += step) runs++;
    printf("%zu scripts in trouble, %llu of them return codes\n", runs,
           (unsigned long long)told[1]);
    assert_true(runs > 50 && told[1] > runs / 8);
    munmap(told, 4096);
}

/* A process that rewrites again and again is killed at a random moment. */
TEST(a_killed_process_loses_nothing)
{
    static const scribe writes = {77, 900};
    ms_os below = os_without_sync();
    size_t rounds = test_times(200);
    uint64_t rng = test_seed(), rewrites = 0;
    uint64_t *told = shared_numbers();
    for (size_t round = 0; round < rounds; round++) {
        test_store s = log_at(8192, MS_ENGINE_MAP);
        told[0] = told[1] = 0;
        s.log.os = &below;
        s.log.keep_unset_times = true;
        s.log.events.event = NULL;
        pid_t child = fork_child();
        if (child == 0) {
            ms_store *fresh;
            size_t count;
            bool more = true;
            if (ms_log_open(&s.store, &s.log, NULL) != MS_OK) _exit(1);
            ms_rewrite w = rewrite_of(&s, NULL);
            for (uint64_t i = 1;; i++) {
                if (scribe_append(&writes, s.store, told[0] + 1, NULL, &count, NULL) !=
                    MS_OK)
                    _exit(2);
                __atomic_store_n(&told[0], told[0] + count, __ATOMIC_RELEASE);
                if (w.state == NULL && i % 7 != 0) continue;
                if (ms_rewrite_run(&w, 20, &more, NULL) != MS_OK) _exit(4);
                if (more) continue;
                if (ms_rewrite_end(&w, &fresh, NULL) != MS_OK) _exit(5);
                ms_close(s.store);
                s.store = w.source = fresh;
                told[1]++;
            }
        }
        usleep((useconds_t)test_below(&rng, 12000));
        int status = 0;
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        assert_true(WIFSIGNALED(status));
        rewrites += told[1];
        must_be_there(&s, told[0], "killed");
        store_close(&s);
    }
    printf("%zu kills, %llu rewrites\n", rounds, (unsigned long long)rewrites);
    munmap(told, 4096);
}

TEST(reader_hears_of_a_new_file_after_a_change_that_it_may_not_make)
{
    test_store s = log_at(8192, MS_ENGINE_MAP);
    ms_store *reader;
    ms_error err;
    ms_str facts;
    ms_arena arena = {0};
    ms_log_desc desc = s.log;
    log_open(&s);
    must_ok(ms_location_set(s.store, MS_STR("job"), MS_STR("{\"x\":1}"), &err), &err, "1");
    desc.mode = MS_LOG_READ;
    must_ok(ms_log_open(&reader, &desc, &err), &err, "reader");
    must_ok(ms_log_rewrite(s.store, &s.log, true, NULL, NULL, &err), &err, "rewrite");
    assert_int_equal(ms_location_set(reader, MS_STR("job"), MS_STR("{\"x\":2}"), &err),
                     MS_E_READ_ONLY);
    assert_int_equal(ms_location_get(reader, MS_STR("job"), &arena, &facts, &err),
                     MS_E_CONFLICT);
    must_ok(ms_location_get(reader, MS_STR("job"), &arena, &facts, &err), &err, "once");
    ms_arena_deinit(&arena);
    ms_close(reader);
    store_close(&s);
}

/* What the new file has got since is not in the copy. Another path may be replaced. */
TEST(a_source_that_was_replaced_replaces_no_file_of_its_path)
{
    static const struct { ms_log_mode mode; ms_log_opening opening; bool shared; } rows[] = {
        {MS_LOG_READ, MS_OPEN_SALVAGE, false}, {MS_LOG_READ, MS_OPEN_NORMAL, false},
        {MS_LOG_CREATE, MS_OPEN_NORMAL, true}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        test_store s = log_at(8192, MS_ENGINE_MAP);
        ms_store *source;
        ms_error err;
        ms_stat stat;
        ms_envelope m = ms_user_message(ms_text("later"));
        log_open(&s);
        must_ok(ms_append(s.store, MS_STR("job"), &m, NULL, &err), &err, "first");
        ms_close(s.store);
        ms_log_desc desc = s.log, other = s.log;
        desc.mode = rows[i].mode;
        desc.opening = rows[i].opening;
        desc.shared = rows[i].shared;
        must_ok(ms_log_open(&source, &desc, &err), &err, "source");
        log_open(&s);
        must_ok(ms_log_rewrite(s.store, &s.log, true, NULL, NULL, &err), &err, "rewrite");
        ms_close(s.store);
        log_open(&s);
        must_ok(ms_append(s.store, MS_STR("job"), &m, NULL, &err), &err, "later");
        ms_close(s.store);
        assert_int_equal(ms_store_stat(source, &stat, &err), MS_E_CONFLICT);
        for (int k = 0; k < 2; k++)
            assert_int_equal(ms_log_rewrite(source, &s.log, true, NULL, NULL, &err),
                             MS_E_CONFLICT);
        char path[300];
        snprintf(path, sizeof path, "%s.other", s.log.path);
        other.path = path;
        for (int k = 0; k < 2; k++)
            must_ok(ms_log_rewrite(source, &other, true, NULL, NULL, &err), &err, "other");
        (void)remove(path);
        ms_close(source);
        log_open(&s);
        must_ok(ms_store_stat(s.store, &stat, &err), &err, "stat");
        assert_int_equal(stat.messages, 2);
        store_close(&s);
    }
}

/* ---- the lineage ---- */

static void must_have_lineage(test_store *s, const unsigned char id[16], const char *when)
{
    ms_log_info info = log_info_of(s->store);
    if (memcmp(info.lineage, id, 16) != 0) fail_msg("%s: another lineage", when);
}

/* Opened to read, to write (which mends), and to read again. */
static void must_keep_lineage(test_store *s, const unsigned char id[16], const char *when)
{
    for (int i = 0; i < 3; i++) {
        ms_close(s->store);
        s->log.mode = i == 1 ? MS_LOG_CREATE : MS_LOG_READ;
        log_open(s);
        must_have_lineage(s, id, when);
    }
    ms_close(s->store);
    s->log.mode = MS_LOG_CREATE;
    log_open(s);
}

/* Rewrites the log in place. */
static void rewrite_again(test_store *s, ms_result expected)
{
    ms_error err;
    ms_envelope m = ms_user_message(ms_text("one more"));
    must_ok(ms_append(s->store, MS_STR("job"), &m, NULL, &err), &err, "append");
    assert_int_equal(ms_log_rewrite(s->store, &s->log, true, NULL, NULL, &err), expected);
    ms_close(s->store);
    log_open(s);
}

/* A log that was rewritten twice. id: gets that of the first file. */
static test_store rewritten(unsigned char id[16])
{
    test_store s = log_at(8192, MS_ENGINE_MAP);
    s.log.events.event = NULL;
    log_open(&s);
    ms_log_info first = log_info_of(s.store), info;
    memcpy(id, first.id, 16);
    assert_memory_equal(first.lineage, id, 16);
    for (int i = 0; i < 2; i++) {
        rewrite_again(&s, MS_OK);
        info = log_info_of(s.store);
        assert_memory_not_equal(info.id, id, 16);
        must_have_lineage(&s, id, "rewritten");
    }
    return s;
}

/* Flips a bit of each of the n bytes while the log is closed. */
static void flip(test_store *s, const long *at, size_t n)
{
    ms_close(s->store);
    FILE *f = fopen(s->log.path, "r+b");
    assert_non_null(f);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(fseek(f, at[i], SEEK_SET), 0);
        char byte = (char)(fgetc(f) ^ 1);
        assert_true(fseek(f, at[i], SEEK_SET) == 0 && fputc(byte, f) != EOF);
    }
    assert_int_equal(fclose(f), 0);
}

TEST(lineage_is_kept_by_rewrites_and_beside_damage)
{
    unsigned char id[16];
    ms_error err;
    ms_log_info info;
    test_store s = rewritten(id);
    static const long damaged[][2] = {
        {60}, {4096 + 60}, {20}, {4096 + 20}, {20, 4096 + 4}, {60, 4096 + 4}};
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        if (damaged[i][1] != 0 && damaged[i][0] == 20) continue; /* both ids are lost */
        flip(&s, damaged[i], damaged[i][1] != 0 ? 2 : 1);
        log_open(&s);
        must_keep_lineage(&s, id, "a byte is damaged");
    }
    ms_store *copy;
    test_store to = log_at(8192, MS_ENGINE_MAP);
    log_open(&to);
    copy = to.store;
    must_ok(ms_copy(copy, s.store, NULL, NULL, NULL, &err), &err, "copy");
    info = log_info_of(copy);
    assert_memory_equal(info.lineage, info.id, 16);
    store_close(&to);
    store_close(&s);
}

typedef struct lineage_events {
    int n;
    uint64_t offset, length;
} lineage_events;

static void note_event(void *ctx, const ms_log_event *event)
{
    lineage_events *l = ctx;
    if (event->kind != MS_LOG_INDEX_DAMAGE) return;
    l->n++;
    l->offset = event->offset;
    l->length = event->length;
}

/* Opens the log, which reports its lineage once. */
static void must_report_lineage(test_store *s, ms_log_mode mode)
{
    static const unsigned char none[16];
    lineage_events events = {0};
    s->log.mode = mode;
    s->log.events.event = note_event;
    s->log.events.ctx = &events;
    log_open(s);
    must_have_lineage(s, none, "both are damaged");
    assert_int_equal(events.n, 1);
    assert_int_equal(events.offset, 56);
    assert_int_equal(events.length, 20);
    s->log.events.event = NULL;
    s->log.mode = MS_LOG_CREATE;
}

TEST(lineage_that_is_damaged_in_both_places_is_reported_until_a_rewrite)
{
    /* the second: the parts differ elsewhere, too, so a writer mends one of them */
    static const long damaged[][3] = {{60, 4096 + 60, 0}, {72, 4096 + 61, 4096 + 20}};
    for (size_t i = 0; i < 2; i++) {
        unsigned char id[16];
        ms_error err;
        ms_log_report report;
        test_store s = rewritten(id);
        flip(&s, damaged[i], i == 0 ? 2 : 3);
        for (int again = 0; again < 2; again++) {
            lineage_events events = {0};
            ms_log_desc desc = {.path = s.log.path};
            desc.events.event = note_event;
            desc.events.ctx = &events;
            assert_int_equal(ms_log_verify(&desc, &report, &err), MS_E_DAMAGED);
            assert_int_equal(report.lineage_damaged, 1);
            assert_int_equal(report.damaged, 0);
            assert_int_equal(report.index_damaged, 0);
            assert_int_equal(report.messages, 2);
            assert_int_equal(events.n, 1);
            assert_non_null(strstr(err.message, "bytes 56 to 75"));
            must_report_lineage(&s, MS_LOG_READ);
            ms_close(s.store);
            must_report_lineage(&s, MS_LOG_CREATE);
            if (again == 0) ms_close(s.store);
        }
        rewrite_again(&s, MS_E_DAMAGED);
        ms_log_info info = log_info_of(s.store);
        must_ok(ms_log_verify(&(ms_log_desc){.path = s.log.path}, &report, &err), &err,
                "verify");
        assert_int_equal(report.messages, 3);
        must_have_lineage(&s, info.id, "the rewritten log begins one");
        memcpy(id, info.id, 16);
        must_keep_lineage(&s, id, "the new one");
        rewrite_again(&s, MS_OK);
        must_have_lineage(&s, id, "the new one, rewritten");
        assert_int_equal(report.lineage_damaged, 0);
        store_close(&s);
    }
}

TEST(log_without_a_byte_is_rewritten_to_one_with_a_lineage)
{
    test_store s = log_at(8192, MS_ENGINE_MAP), to = log_at(8192, MS_ENGINE_MAP);
    ms_error err;
    FILE *f = fopen(s.log.path, "wb");
    assert_true(f != NULL && fclose(f) == 0);
    s.log.mode = MS_LOG_READ;
    log_open(&s);
    must_ok(ms_log_rewrite(s.store, &to.log, false, NULL, NULL, &err), &err, "rewrite");
    log_open(&to);
    ms_log_info info = log_info_of(to.store);
    must_have_lineage(&to, info.id, "its own");
    store_close(&to);
    store_close(&s);
}

TEST(lineage_of_a_first_file_stands_beside_damage)
{
    /* in zeros; with its id on the other page */
    static const long damaged[] = {60, 4096 + 72};
    test_store s = log_at(8192, MS_ENGINE_MAP);
    unsigned char id[16];
    s.log.events.event = NULL;
    log_open(&s);
    memcpy(id, log_info_of(s.store).id, 16);
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        flip(&s, &damaged[i], 1);
        log_open(&s);
        must_keep_lineage(&s, id, "a byte of the zeros is damaged");
    }
    store_close(&s);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
