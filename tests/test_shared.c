/* Several writers on one log: processes, handles, and what happens to the others when one
 * is killed, stopped or in trouble. Where handles take turns with changes, test_twin has
 * the oracle; power losses are in test_power.
 *
 * At MS_TEST_SCALE=100: 4 x 1,500 appends with each engine, 60 random kills, the end at
 * every third file operation. At 1000 ten times as many, and every file operation.
 */

#define _GNU_SOURCE
#include "crowd.h"

static ms_log_engine engines[] = {MS_ENGINE_MAP, MS_ENGINE_WRITE};

#define WITH_EACH_ENGINE(test)                                    \
    {#test " (map)", test, NULL, NULL, &engines[0]},              \
    {#test " (write)", test, NULL, NULL, &engines[1]}

/* How many times a writer had to make the place for records clean. */
static unsigned epoch_of(const crowd *c) { return (unsigned)file_word(&c->at, 1184); }


/* ---- many processes ---- */

/* A reader follows until the last child has ended. */
static void follow(crowd *c, board *b, const pid_t *children, size_t n)
{
    ms_store *reader = NULL;
    ms_log_desc desc = desc_of(c, MS_LOG_READ);
    roll r;
    memset(&r, 0, sizeof r);
    for (size_t ended = 0; ended < n;) {
        uint64_t acked[CROWD];
        siginfo_t info;
        memcpy(acked, b->acked, sizeof acked);
        if (reader == NULL && ms_log_open(&reader, &desc, NULL) != MS_OK) reader = NULL;
        if (reader != NULL && !roll_read(&r, &c->s, reader, NULL)) fail_msg("%s", r.wrong);
        for (size_t w = 0; w < n && reader != NULL; w++)
            if (r.last[w] < acked[w]) fail_msg("a reader does not see what was acked");
        info.si_pid = 0;
        waitid(P_PID, (id_t)children[ended], &info, WEXITED | WNOHANG | WNOWAIT);
        if (info.si_pid != 0) ended++;
        pause_us(500);
    }
    ms_close(reader);
}

static void many_processes_lose_and_tear_nothing(void **state)
{
    enum { MANY = 4 };
    crowd c;
    board *b = board_new();
    pid_t children[MANY];
    uint64_t most = 0;
    crowd_begin(&c, *(const ms_log_engine *)*state, 800);
    for (size_t w = 0; w < MANY; w++)
        children[w] = start(&c, b, w, appends, numbers(1500));
    set(&b->go); /* all of them create the file */
    follow(&c, b, children, MANY);
    for (size_t w = 0; w < MANY; w++) {
        wait_for(children[w], b);
        if (b->longest_us[w] > most) most = b->longest_us[w];
    }
    must_stand(&c, b, true);
    ms_store *store = must_open(&c, MS_LOG_READ);
    ms_log_info info = log_info_of(store);
    ms_close(store);
    printf("%d writers: %llu segments, %llu summaries, slowest append %llu us\n", MANY,
           (unsigned long long)info.segments, (unsigned long long)info.summaries,
           (unsigned long long)most);
    if (test_scale() >= 100) assert_true(info.summaries >= 2);
    crowd_end(&c, b);
}

/* A writer that waits for the lock gets it now and then, whatever the others do. */
static void each_writer_gets_its_share(void **state)
{
    enum { MANY = 3 };
    crowd c;
    board *b = board_new();
    pid_t children[MANY];
    uint64_t sum = 0, least = UINT64_MAX;
    (void)state;
    crowd_begin(&c, MS_ENGINE_AUTO, 100);
    c.at.log.segment_size = 1 << 20;
    for (size_t w = 0; w < MANY; w++) children[w] = start(&c, b, w, appends, 0);
    set(&b->go);
    pause_us(200000);
    set(&b->stop);
    for (size_t w = 0; w < MANY; w++) {
        wait_for(children[w], b);
        sum += b->acked[w];
        if (b->acked[w] < least) least = b->acked[w];
    }
    printf("%llu appends, the slowest writer %llu of them\n", (unsigned long long)sum,
           (unsigned long long)least);
    assert_true(least * MANY * 50 >= sum);
    must_stand(&c, b, true);
    crowd_end(&c, b);
}

static void a_key_is_stored_once_when_processes_repeat_it(void **state)
{
    enum { KEYS = 150 };
    crowd c;
    board *b = board_new();
    (void)state;
    crowd_begin(&c, MS_ENGINE_AUTO, 100);
    in_processes(&c, b, 3, repeats_keys, KEYS);
    ms_store *store = must_open(&c, MS_LOG_READ);
    must_have(store, KEYS);
    ms_close(store);
    must_verify(&c, KEYS);
    crowd_end(&c, b);
}

static void compare_and_append_loses_no_step(void **state)
{
    crowd c;
    board *b = board_new();
    uint64_t goal = test_times(400);
    (void)state;
    crowd_begin(&c, MS_ENGINE_AUTO, 100);
    in_processes(&c, b, 3, counts_up, goal);
    printf("%d conflicts\n", b->step);
    if (test_scale() >= 100) assert_true(b->step > 0);
    ms_store *store = must_open(&c, MS_LOG_READ);
    must_have_counted(store, 3 * goal);
    ms_close(store);
    crowd_end(&c, b);
}


/* ---- writers that are killed ---- */

/* One is killed again and again, the others go on. */
static uint64_t some_kills(crowd *c, board *b, uint64_t *rng)
{
    enum { MANY = 3 };
    pid_t children[MANY];
    uint64_t sum = 0;
    memset(b, 0, sizeof *b);
    unlink(c->at.path);
    set(&b->go);
    for (size_t w = 0; w < MANY; w++) children[w] = start(c, b, w, appends, 0);
    for (size_t i = 0; i < 10; i++) {
        size_t w = (size_t)test_below(rng, MANY), other = (w + 1) % MANY;
        int status;
        pause_us(300 + test_below(rng, 1500));
        kill(children[w], SIGKILL);
        waitpid(children[w], &status, 0);
        uint64_t acked = acked_by(b, other);
        for (int k = 0; k < 20000 && !b->failed; k++, pause_us(500))
            if (acked_by(b, other) != acked) break;
        nothing_wrong(b);
        if (acked_by(b, other) == acked) fail_msg("after a kill the others stand still");
        children[w] = start(c, b, w, appends, 0);
    }
    set(&b->stop);
    for (size_t w = 0; w < MANY; w++) wait_for(children[w], b);
    must_stand(c, b, true);
    for (size_t w = 0; w < MANY; w++) sum += b->acked[w];
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
    crowd_end(&c, b);
}

/* What a child does that ends at call k, with the trip set. */
typedef void life(const crowd *c, board *b, ms_store *store);

static void must_do(board *b, const char *what, ms_result result)
{
    b->step++;
    if (result != MS_OK) complain(b, 1, what, ms_result_text(result));
}

/* Everything that touches the file. */
static void whole_life(const crowd *c, board *b, ms_store *store)
{
    static char large[100000];
    memset(large, 'y', sizeof large - 1);
    for (int i = 0; i < 10; i++) must_do(b, "append", append_next(c, b, store, 1, NULL));
    uint64_t seq = b->seqs[(1 << SHIFT) + 1];
    must_do(b, "sync", ms_sync(store, NULL, NULL));
    must_do(b, "note", ms_note(store, seq, MS_STR("large"), ms_text(large), NULL));
    must_do(b, "facts", ms_location_set(store, MS_STR("job_9"), MS_STR("{\"a\":1}"), NULL));
    for (int i = 0; i < 20; i++) must_do(b, "append", append_next(c, b, store, 1, NULL));
    ms_close(store);
}

static void short_life(const crowd *c, board *b, ms_store *store)
{
    for (int i = 0; i < 6; i++) must_do(b, "append", append_next(c, b, store, 1, NULL));
}

/* Lets a child live that ends at call k; true when it came to its end. */
static bool live_and_end(const crowd *c, board *b, const ms_log_desc *desc, life *lives,
                         trip_how how, uint64_t k)
{
    int status;
    pid_t child = fork_child();
    if (child == 0) {
        ms_log_desc own = *desc;
        ms_store *store;
        trip t;
        trip_init(&t, &c->os);
        t.how = how;
        t.at = k;
        if (how == TRIP_EXIT_HALF && desc->shared) t.kinds = TRIP_BIT(WRITE);
        own.os = &t.os;
        if (ms_log_open(&store, &own, NULL) != MS_OK) _exit(3);
        lives(c, b, store);
        _exit(0);
    }
    waitpid(child, &status, 0);
    nothing_wrong(b);
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 9))
        fail_msg("call %d, step %d: status %d", (int)k, b->step, status);
    return WEXITSTATUS(status) == 0;
}

static void append_some(const crowd *c, board *b, ms_store *store, size_t w, int n,
                        uint64_t k)
{
    ms_error err;
    while (n-- > 0)
        if (append_next(c, b, store, w, &err) != MS_OK)
            fail_msg("writer %zu, call %d, step %d: %s", w, (int)k, b->step, err.message);
}

/* Ends the child before, inside or after call k; a writer that was there before, and one
 * that comes later, go on at once. */
static bool one_end(crowd *c, board *b, trip_how how, uint64_t k)
{
    roll r;
    ms_log_desc desc = desc_of(c, MS_LOG_CREATE);
    board_reset(b);
    c->s.salt = test_seed() + k;
    unlink(c->at.path);
    ms_store *store = must_open(c, MS_LOG_CREATE);
    append_some(c, b, store, 0, 3, k);
    bool whole = live_and_end(c, b, &desc, whole_life, how, k);
    double begin = now_ms();
    append_some(c, b, store, 0, 3, k);
    must_hold(c, b, store, false, &r);
    b->acked[1] = r.last[1]; /* what was seen once stays */
    ms_store *later = must_open(c, MS_LOG_WRITE);
    append_some(c, b, later, 1, 1, k);
    append_some(c, b, store, 0, 1, k);
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
    uint64_t ends = 0;
    crowd_begin(&c, *(const ms_log_engine *)*state, 600);
    bool mapped = c.at.log.engine == MS_ENGINE_MAP;
    for (int how = TRIP_EXIT_BEFORE; how <= TRIP_EXIT_AFTER; how++)
        for (k = 1 + (uint64_t)how % stride; !one_end(&c, b, (trip_how)how, k); ends++)
            k += how == TRIP_EXIT_HALF && mapped ? 1 : stride;
    printf("about %d file operations\n", (int)k);
    test_tally("ends at a file operation", ends);
    assert_true(k > 60);
    crowd_end(&c, b);
}

/* One writer had the log alone, and was killed while it stored, or before it began. */
static void a_killed_writer_that_was_alone_stops_no_other(void **state)
{
    static const trip_how hows[] = {TRIP_EXIT_BEFORE, TRIP_EXIT_AFTER, TRIP_EXIT_HALF};
    crowd c;
    board *b = board_new();
    bool done = false;
    roll r;
    crowd_begin(&c, *(const ms_log_engine *)*state, 600);
    uint64_t stride = test_scale() >= 100 ? 1 : 5;
    for (uint64_t k = 1; !done; k += stride) {
        ms_log_desc desc = desc_of(&c, MS_LOG_WRITE);
        desc.shared = false;
        board_reset(b);
        unlink(c.at.path);
        ms_store *store = must_open(&c, MS_LOG_CREATE);
        append_some(&c, b, store, 0, 1, k);
        done = live_and_end(&c, b, &desc, short_life, hows[k % 3], k);
        append_some(&c, b, store, 0, 1, k);
        must_hold(&c, b, store, false, &r);
        ms_close(store);
        must_verify(&c, r.count);
    }
    crowd_end(&c, b);
}

/* The content of a message cannot be read from its middle on, once the lock is had. */
static char *trap;
static size_t trap_size;

static int lock_and_trap(void *ctx, ms_file file)
{
    int code = ms_os_default()->lock(ctx, file);
    if (code == 0 && trap != NULL)
        mprotect(trap + trap_size / 2, trap_size / 2, PROT_NONE);
    return code;
}

static void child_is_trapped(const crowd *c, bool batch)
{
    ms_store *store;
    ms_os os = c->os;
    ms_envelope m[2];
    ms_log_desc desc = desc_of(c, MS_LOG_WRITE);
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    os.lock = lock_and_trap;
    desc.os = &os;
    void *memory = mmap(NULL, trap_size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || ms_log_open(&store, &desc, NULL) != MS_OK) _exit(1);
    memset(memory, 'z', trap_size);
    m[0] = m[1] = ms_user_message(ms_text_n(ms_str_n((char *)memory, trap_size)));
    m[0].location = m[1].location = MS_STR("job_1");
    if (ms_append(store, no_str(), &m[0], NULL, NULL) != MS_OK) _exit(2);
    trap = (char *)memory;
    ms_append_batch(store, m, batch ? 2 : 1, NULL, NULL);
    _exit(3);
}

/* Killed by the system in the middle of storing bytes, with the lock. */
static void killed_while_storing(void **state)
{
    crowd c;
    (void)state;
    crowd_begin(&c, MS_ENGINE_MAP, 600);
    ms_store *store = must_open(&c, MS_LOG_CREATE);
    for (uint64_t i = 0; i < 4; i++) {
        int status;
        trap_size = i < 2 ? 65536 : 1 << 20;
        append_text(store, "here");
        pid_t child = fork_child();
        if (child == 0) child_is_trapped(&c, i % 2 == 1);
        waitpid(child, &status, 0);
        if (!WIFSIGNALED(status)) fail_msg("it was not trapped: status %d", status);
        double begin = now_ms();
        append_text(store, "here");
        assert_true(now_ms() - begin < PATIENCE / 2);
        must_have(store, 3 * (i + 1));
    }
    must_give(MS_OK, ms_selfcheck(store, NULL));
    ms_close(store);
    /* each of the four ends, and each opening after the first */
    must_verify(&c, 12);
    assert_true(epoch_of(&c) <= 10);
    crowd_end(&c, NULL);
}

static uint64_t another_boot(void *ctx)
{
    (void)ctx;
    return 4711;
}

/* Stores a batch whole, and is killed before it can be seen. */
static void child_nearly_appends(const crowd *c, bool shared)
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
    trip_at(&t, TRIP_BIT(WRITE), 0, false);
    t.how = TRIP_EXIT_AFTER;
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
        append_text(store, "a");
        pid_t child = fork_child();
        if (child == 0) child_nearly_appends(&c, shared);
        waitpid(child, &status, 0);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 9);
        append_text(store, "in place");
        must_tell(store, "1 a, 2 b, 3 in place");
        c.os.boot = another_boot;
        ms_store *reader = must_open(&c, MS_LOG_READ);
        must_tell(reader, "1 a, 2 b, 3 in place");
        ms_close(reader);
        c.os.boot = ms_os_default()->boot;
        ms_close(store);
        c.os.boot = another_boot;
        store = must_open(&c, MS_LOG_WRITE);
        append_text(store, "c");
        must_tell(store, "1 a, 2 b, 3 in place, 4 c");
        ms_close(store);
        must_verify(&c, 4);
        crowd_end(&c, NULL);
    }
}


/* ---- bounded waiting ---- */

/* An append that has to wait gives up in time, and nothing was appended. */
static void must_be_busy(ms_store *store, uint32_t wait_ms, const char *text)
{
    ms_envelope m = ms_user_message(ms_text("does not get in"));
    ms_error err;
    uint64_t seq = 77, last;
    double begin = now_ms();
    must_give(MS_E_BUSY, ms_append(store, MS_STR("job"), &m, &seq, &err));
    double spent = now_ms() - begin;
    if (spent < wait_ms - 1 || spent > wait_ms + 2000)
        fail_msg("waited %.1f ms, lock_wait_ms is %u", spent, wait_ms);
    if (strstr(err.message, text) == NULL) fail_msg("the text: %s", err.message);
    must_give(MS_E_BUSY, ms_amend(store, 1, &m, NULL));
    must_give(MS_E_BUSY, ms_hide(store, 1, NULL));
    must_give(MS_OK, test_refresh(store, &last, NULL));
}

static board *stopping;

static int lock_and_stop(void *ctx, ms_file file)
{
    int code = ms_os_default()->lock(ctx, file);
    if (code == 0 && is_set(&stopping->go)) {
        stopping->go = 0;
        raise(SIGSTOP);
    }
    return code;
}

static void a_writer_stopped_with_the_lock_delays_the_others_as_long_as_asked(void **state)
{
    crowd c;
    board *b = board_new();
    int status;
    (void)state;
    crowd_begin(&c, MS_ENGINE_AUTO, 300);
    c.at.log.lock_wait_ms = 40;
    ms_store *store = must_open(&c, MS_LOG_CREATE);
    append_text(store, "a");
    pid_t child = fork_child();
    if (child == 0) {
        ms_store *own;
        ms_log_desc desc = desc_of(&c, MS_LOG_WRITE);
        ms_envelope m = ms_user_message(ms_text("b"));
        c.os.lock = lock_and_stop;
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
    must_tell(store, "1 a");
    test_store refused = c.at;
    must_give(MS_E_BUSY, log_try(&refused, MS_LOG_WRITE, NULL));
    kill(child, SIGCONT);
    wait_for(child, b);
    append_text(store, "c");
    must_tell(store, "1 a, 2 b, 3 c");
    ms_close(store);
    must_verify(&c, 3);
    assert_int_equal(epoch_of(&c), 1);
    crowd_end(&c, b);
}

/* Each of over 30 cursors keeps another tail: what others write cannot be followed, and
 * nothing is appended over it. */
static void a_handle_is_busy_when_too_many_cursors_keep_a_tail(void **state)
{
    enum { HELD = 40 };
    static ms_cursor held[HELD];
    crowd c;
    board *b = board_new();
    ms_query q = query_of(no_str(), 0);
    ms_error err;
    size_t n = 0;
    roll r;
    (void)state;
    crowd_begin(&c, MS_ENGINE_AUTO, 900);
    c.at.log.lock_wait_ms = 200;
    ms_store *one = must_open(&c, MS_LOG_CREATE), *two = must_open(&c, MS_LOG_WRITE);
    q.limit = 1;
    ms_result result = MS_OK;
    while (result == MS_OK) {
        if (n == HELD) fail_msg("it was never busy");
        append_some(&c, b, two, 1, 20, 0);
        result = ms_query_open(one, &q, &held[n], &err);
        if (result != MS_OK) break;
        n++;
        for (int i = 0; i < 20 && result == MS_OK; i++)
            result = append_next(&c, b, one, 0, &err);
    }
    must_give(MS_E_BUSY, result);
    assert_non_null(strstr(err.message, "cursors are open"));
    append_some(&c, b, two, 1, 100, 0);
    must_give(MS_E_BUSY, append_next(&c, b, one, 0, &err));
    for (size_t i = 0; i < n; i++) {
        assert_non_null(ms_next(&held[i]));
        must_give(MS_OK, ms_cursor_close(&held[i], NULL));
    }
    append_some(&c, b, one, 0, 20, 0);
    append_some(&c, b, two, 1, 20, 0);
    must_hold(&c, b, one, true, &r);
    must_hold(&c, b, two, true, &r);
    must_give(MS_OK, ms_selfcheck(one, NULL));
    ms_close(one);
    ms_close(two);
    must_stand(&c, b, true);
    crowd_end(&c, b);
}


/* ---- rewrites and copies beside writers ---- */

/* Appends; when a rewrite has put a new file in the place of its log, opens that. */
static void child_moves_on(const crowd *c, board *b, size_t w)
{
    ms_log_desc desc = desc_of(c, MS_LOG_WRITE);
    ms_store *store;
    ms_error err;
    ms_result result = ms_log_open(&store, &desc, &err);
    while (result == MS_OK && !is_set(&b->stop)) {
        result = append_next(c, b, store, w, &err);
        if (b->acked[w] % 64 == 0) pause_us(100);
        if (result != MS_E_CONFLICT) continue;
        __atomic_add_fetch(&b->step, 1, __ATOMIC_ACQ_REL);
        ms_close(store);
        result = ms_log_open(&store, &desc, &err);
    }
    if (result != MS_OK) complain(b, w, "moving on", err.message);
    ms_close(store);
    _exit(0);
}

static void rewrites_beside_writers_lose_nothing(void **state)
{
    enum { MANY = 2, TIMES = 4 };
    crowd c;
    board *b = board_new();
    pid_t children[MANY];
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
        must_give(MS_OK, ms_log_rewrite(source, &to, true, NULL, NULL, NULL));
        ms_close(source);
    }
    pause_us(2000);
    set(&b->stop);
    for (size_t w = 0; w < MANY; w++) wait_for(children[w], b);
    printf("%d times a writer had to move on, %d messages\n", b->step,
           (int)(b->acked[0] + b->acked[1]));
    assert_true(b->step > 0);
    must_stand(&c, b, true);
    crowd_end(&c, b);
}

/* As cp does: from the beginning, until there is no more. */
static void copy_file(const char *from, const char *to, uint64_t *rng)
{
    static char piece[1 << 16];
    size_t got, size = (size_t)512 << test_below(rng, 8);
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    if (in == NULL || out == NULL) abort();
    setvbuf(in, NULL, _IONBF, 0);
    while ((got = fread(piece, 1, size, in)) > 0)
        if (fwrite(piece, 1, got, out) != got) abort();
    fclose(in);
    fclose(out);
}

/* The copy is what was written, up to somewhere after what was acked before, and takes
 * appends. False: a hole is reported. The copy was read before a record in it was whole,
 * and a sync came before it had read on: it shows that more had been durable. */
static bool copy_is_whole(crowd *copy, const board *b, const uint64_t *acked)
{
    ms_store *one = must_open(copy, MS_LOG_READ), *two;
    ms_query job = query_of(MS_STR("job"), 0);
    roll r;
    memset(&r, 0, sizeof r);
    bool whole = roll_read(&r, &copy->s, one, b->seqs);
    ms_close(one);
    if (!whole && r.result != MS_E_DAMAGED) fail_msg("in the copy: %s", r.wrong);
    for (size_t w = 0; w < CROWD; w++)
        if (r.last[w] < acked[w]) fail_msg("the copy lacks what was acked before");
    if (!whole) return false;
    assert_int_equal(copy->damage, 0);
    must_verify(copy, r.count);
    one = must_open(copy, MS_LOG_WRITE);
    two = must_open(copy, MS_LOG_WRITE);
    append_text(two, "to the copy");
    append_text(one, "alone");
    assert_int_equal(count_of(two, &job), 2);
    must_give(MS_OK, ms_selfcheck(one, NULL));
    ms_close(one);
    ms_close(two);
    must_verify(copy, r.count + 2);
    return true;
}

/* A work: appends in bursts, with a sync now and then, so that a copy meets a resting and a
 * growing file. */
static void bursts(const crowd *c, board *b, ms_store *store, size_t w, uint64_t goal)
{
    uint64_t rng = c->s.salt + w;
    (void)goal;
    while (!is_set(&b->stop) && !is_set(&b->failed) && b->acked[w] < 60000) {
        if (append_next(c, b, store, w, NULL) != MS_OK) complain(b, w, "append", "failed");
        if (b->pace != 0) pause_us((uint64_t)b->pace);
        if (test_one_in(&rng, 200)) pause_us(test_below(&rng, 2000));
        if (test_one_in(&rng, 300) && ms_sync(store, NULL, NULL) != MS_OK)
            complain(b, w, "sync", "failed");
    }
}

/* Of one writer that is alone, and of two that share the file. */
static void copies_of_a_growing_file_are_whole(void **state)
{
    size_t copies = 0, holes = 0, each = test_scale() < 100 ? 10 : 30;
    double until = now_ms() + 5.0 * test_scale();
    uint64_t rng = test_seed();
    for (uint64_t round = 0; round < 2 || now_ms() < until; round++) {
        crowd c, copy;
        board *b = board_new();
        pid_t children[2];
        size_t many = 1 + round % 2;
        crowd_begin(&c, *(const ms_log_engine *)*state, round % 3 == 0 ? 8192 : 600);
        c.s.salt += round;
        c.at.log.shared = many == 2;
        c.at.log.segment_size <<= test_below(&rng, 5);
        b->pace = 20;
        for (size_t w = 0; w < many; w++) children[w] = start(&c, b, w, bursts, 0);
        set(&b->go);
        while (acked_by(b, 0) == 0 && !b->failed) pause_us(100); /* it is being made */
        copy = c;
        copy.at.path = scratch_file(c.at.folder, "copy.msl");
        copy.at.log.path = copy.at.path;
        copy.at.log.shared = true;
        copy.at.log.events.ctx = &copy.damage;
        for (size_t i = 0; i < each; i++, copies++) {
            uint64_t acked[CROWD];
            pause_us(test_below(&rng, 1500));
            for (size_t w = 0; w < CROWD; w++) acked[w] = acked_by(b, w);
            copy_file(c.at.path, copy.at.path, &rng);
            copy.damage = 0;
            holes += !copy_is_whole(&copy, b, acked);
        }
        set(&b->stop);
        for (size_t w = 0; w < many; w++) wait_for(children[w], b);
        must_stand(&c, b, true);
        free(copy.at.path);
        crowd_end(&c, b);
    }
    printf("%zu of %zu copies have a hole\n", holes, copies);
    assert_true(holes * 20 <= copies);
    test_tally("copies of a growing file", copies);
}


/* ---- trouble of one of two handles ---- */

/* Two handles that append the numbers 1, 2, 3 ... in turns. */
typedef struct pair {
    crowd c;
    ms_store *one, *two;
    uint64_t last;
} pair;

static ms_result pair_append(pair *p, ms_store *store, ms_error *err)
{
    size_t count;
    ms_result result = scribe_append(&p->c.s, store, p->last + 1, NULL, &count, err);
    if (result == MS_OK) p->last += count;
    return result;
}

static void pair_must_have(pair *p, ms_store *store, const char *when)
{
    tally t;
    if (!scribe_read(&p->c.s, store, false, NULL, &t)) fail_msg("%s: %s", when, t.wrong);
    must_give(MS_OK, t.result);
    assert_int_equal(t.last, p->last);
    must_give(MS_OK, ms_selfcheck(store, NULL));
}

/* The disk gets full under both, gets room again, and full again. */
static void handles_go_on_when_the_disk_was_full(void **state)
{
    pair p;
    disk d;
    uint64_t rng = test_seed(), refused = 0;
    memset(&p, 0, sizeof p);
    crowd_begin(&p.c, *(const ms_log_engine *)*state, 3000);
    disk_init(&d, 2 << 20);
    p.c.at.log.os = &d.os;
    p.one = must_open(&p.c, MS_LOG_CREATE);
    p.c.at.log.sync = MS_SYNC_EACH;
    p.two = must_open(&p.c, MS_LOG_CREATE);
    d.room = 150000;
    for (int rounds = 0; rounds < 4; rounds++, d.room += 150000) {
        for (int failed = 0; failed < 20;) {
            ms_result result = pair_append(&p, test_one_in(&rng, 2) ? p.one : p.two, NULL);
            if (result == MS_OK) continue;
            must_give(MS_E_FULL, result);
            failed++;
            refused++;
        }
        pair_must_have(&p, rounds % 2 ? p.one : p.two, "full");
    }
    assert_true(refused == 80 && p.last > 200);
    ms_close(p.one);
    ms_close(p.two);
    ms_store *reader = must_open(&p.c, MS_LOG_READ);
    pair_must_have(&p, reader, "read again");
    ms_close(reader);
    disk_is_idle(&d);
    disk_deinit(&d);
    crowd_end(&p.c, NULL);
}

/* The k-th file operation of one fails. What failed was not appended: the other one appends
 * the same number. True when there was none. */
static bool trouble_at(pair *p, trip_how how, uint64_t at)
{
    trip t;
    ms_error err;
    bool poisoned = false;
    ms_log_desc desc = desc_of(&p->c, MS_LOG_WRITE);
    trip_init(&t, &p->c.os);
    t.how = how;
    t.at = at;
    t.code = EIO;
    t.bytes = 20;
    t.kinds = TRIP_ALL & ~(TRIP_BIT(CLOSE) | TRIP_BIT(UNMAP));
    unlink(p->c.at.path);
    p->last = 0;
    p->two = must_open(&p->c, MS_LOG_CREATE);
    desc.os = &t.os;
    if (ms_log_open(&p->one, &desc, &err) != MS_OK) p->one = NULL;
    for (int i = 0; i < 60; i++) {
        bool other = i % 3 == 0 || p->one == NULL || poisoned;
        ms_result result = pair_append(p, other ? p->two : p->one, &err);
        if (result == MS_E_POISONED) poisoned = true;
        /* how an unlock that failed shows: the lock stays until that handle goes on */
        if (result == MS_E_BUSY) assert_true(t.last_hit == CALL_UNLOCK && other);
        else if (other && result != MS_OK)
            fail_msg("%s %d: the other one: %s", trip_word((int)t.last_hit), (int)at,
                     err.message);
        if (i % 20 == 10 && p->one != NULL && ms_sync(p->one, NULL, NULL) != MS_OK)
            poisoned = poisoned || t.last_hit == CALL_SYNC;
    }
    ms_close(p->one);
    pair_must_have(p, p->two, trip_word((int)t.last_hit));
    ms_close(p->two);
    must_verify(&p->c, p->last);
    return t.hits == 0;
}

static void one_handle_goes_on_when_a_file_operation_of_the_other_fails(void **state)
{
    pair p;
    uint64_t at, stride = test_scale() >= 1000 ? 1 : test_scale() >= 100 ? 2 : 15, n = 0;
    memset(&p, 0, sizeof p);
    crowd_begin(&p.c, *(const ms_log_engine *)*state, 600);
    p.c.at.log.lock_wait_ms = 2;
    for (int how = TRIP_FAIL; how <= TRIP_FAIL_HALF; how++)
        for (at = 1 + (uint64_t)how % stride; !trouble_at(&p, (trip_how)how, at); n++)
            at += stride;
    printf("%d times trouble\n", (int)n);
    crowd_end(&p.c, NULL);
}

/* The k-th allocation of one fails while it takes in what the other has appended; false:
 * it made fewer. */
static bool no_memory_at(pair *p, size_t k)
{
    test_alloc heap;
    size_t refused = 0;
    test_alloc_init(&heap);
    unlink(p->c.at.path);
    p->last = 0;
    p->c.at.log.alloc = heap.alloc;
    p->one = must_open(&p->c, MS_LOG_CREATE);
    memset(&p->c.at.log.alloc, 0, sizeof p->c.at.log.alloc);
    p->two = must_open(&p->c, MS_LOG_WRITE);
    for (int i = 0; i < 65; i++)
        must_give(MS_OK, pair_append(p, i < 5 ? p->one : p->two, NULL));
    heap.fail_at = heap.calls + k;
    for (int i = 0; i < 20; i++) {
        ms_result result = pair_append(p, p->one, NULL);
        if (result != MS_OK) must_give(MS_E_NO_MEMORY, result);
        refused += result != MS_OK;
        assert_true(refused <= 1);
    }
    bool failed = heap.failed > 0;
    heap.fail_at = 0;
    pair_must_have(p, p->one, "without memory");
    ms_close(p->one);
    ms_close(p->two);
    test_alloc_done(&heap);
    must_verify(&p->c, p->last);
    return failed;
}

static void a_handle_without_memory_goes_on_later(void **state)
{
    pair p;
    size_t k = 1;
    memset(&p, 0, sizeof p);
    crowd_begin(&p.c, *(const ms_log_engine *)*state, 900);
    while (no_memory_at(&p, k)) k += test_scale() >= 100 ? 1 : 5;
    printf("%zu allocations\n", k - 1);
    assert_true(k > 5);
    crowd_end(&p.c, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_EACH_ENGINE(many_processes_lose_and_tear_nothing),
        cmocka_unit_test(each_writer_gets_its_share),
        cmocka_unit_test(a_key_is_stored_once_when_processes_repeat_it),
        cmocka_unit_test(compare_and_append_loses_no_step),
        WITH_EACH_ENGINE(killed_at_random_times),
        WITH_EACH_ENGINE(killed_at_every_file_operation),
        WITH_EACH_ENGINE(a_killed_writer_that_was_alone_stops_no_other),
        cmocka_unit_test(killed_while_storing),
        cmocka_unit_test(a_dead_batch_stays_dead),
        cmocka_unit_test(
            a_writer_stopped_with_the_lock_delays_the_others_as_long_as_asked),
        cmocka_unit_test(a_handle_is_busy_when_too_many_cursors_keep_a_tail),
        cmocka_unit_test(rewrites_beside_writers_lose_nothing),
        WITH_EACH_ENGINE(copies_of_a_growing_file_are_whole),
        WITH_EACH_ENGINE(handles_go_on_when_the_disk_was_full),
        WITH_EACH_ENGINE(one_handle_goes_on_when_a_file_operation_of_the_other_fails),
        WITH_EACH_ENGINE(a_handle_without_memory_goes_on_later),
    };
    scribe_page();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
