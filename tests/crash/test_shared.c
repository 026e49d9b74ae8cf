/* Several writers on one log: what happens to the others when one is killed or stopped, or
 * rewrites the log. Writers beside readers are in test_threads, calls that fail in
 * test_log_writers and test_fault_io, power losses in test_power. Where handles take turns
 * with changes, test_twin has the oracle.
 *
 * At MS_TEST_SCALE=100 60 random kills, the end at every third file operation. At 1000 ten
 * times as many, and every file operation.
 */

#define _GNU_SOURCE
#include "many_writers.h"

/* How many times a writer had to make the place for records clean. */
static unsigned epoch_of(const many_writers *c)
{
    return (unsigned)file_word(&c->at, 1184);
}


/* ---- many processes ---- */

/* A writer that waits for the lock gets it now and then, whatever the others do. */
TEST(each_writer_gets_its_share)
{
    enum { MANY = 3 };
    many_writers c;
    board *b = board_new();
    pid_t children[MANY];
    uint64_t sum = 1, least = 0;
    writers_begin(&c, MS_ENGINE_AUTO, 100);
    c.at.log.segment_size = 1 << 20;
    for (size_t w = 0; w < MANY; w++) children[w] = start(&c, b, w, appends, 0);
    set(&b->go);
    for (int i = 0; i < 100 && least * MANY * 50 < sum; i++) { /* while others work, too */
        pause_us(200000);
        sum = 0;
        least = UINT64_MAX;
        for (size_t w = 0; w < MANY; w++) {
            uint64_t acked = acked_by(b, w);
            sum += acked;
            if (acked < least) least = acked;
        }
    }
    set(&b->stop);
    for (size_t w = 0; w < MANY; w++) wait_for(children[w], b);
    printf("%llu appends, the slowest writer %llu of them\n", (unsigned long long)sum,
           (unsigned long long)least);
    assert_true(least * MANY * 50 >= sum);
    must_stand(&c, b, true);
    writers_end(&c, b);
}

/* ---- writers that are killed ---- */

/* What all but one have appended. One of them may wait for long: see the test above. */
static uint64_t acked_beside(const board *b, size_t writers, size_t w)
{
    uint64_t sum = 0;
    for (size_t v = 0; v < writers; v++) sum += v != w ? acked_by(b, v) : 0;
    return sum;
}

/* One is killed again and again, the others go on. */
static uint64_t some_kills(many_writers *c, board *b, uint64_t *rng)
{
    enum { MANY = 3 };
    pid_t children[MANY];
    uint64_t sum = 0;
    memset(b, 0, sizeof *b);
    unlink(c->at.path);
    set(&b->go);
    for (size_t w = 0; w < MANY; w++) children[w] = start(c, b, w, appends, 0);
    for (size_t i = 0; i < 10; i++) {
        size_t w = (size_t)test_below(rng, MANY);
        int status;
        pause_us(300 + test_below(rng, 1500));
        kill(children[w], SIGKILL);
        waitpid(children[w], &status, 0);
        uint64_t acked = acked_beside(b, MANY, w);
        for (int k = 0; k < 20000 && !b->failed; k++, pause_us(500))
            if (acked_beside(b, MANY, w) != acked) break;
        nothing_wrong(b);
        if (acked_beside(b, MANY, w) == acked) fail_msg("after a kill the others stand still");
        children[w] = start(c, b, w, appends, 0);
    }
    set(&b->stop);
    for (size_t w = 0; w < MANY; w++) wait_for(children[w], b);
    must_stand(c, b, true);
    for (size_t w = 0; w < MANY; w++) sum += b->acked[w];
    return sum;
}

TEST_WITH(WITH_EACH_ENGINE, others_go_on_when_a_writer_is_killed_at_random_times)
{
    many_writers c;
    board *b = board_new();
    uint64_t rng = test_seed(), sum = 0;
    writers_begin(&c, *(const ms_log_engine *)*state, 2000);
    for (size_t i = 0; i < test_times(3); i++) {
        c.s.salt = test_random(&rng);
        sum += some_kills(&c, b, &rng);
    }
    printf("%llu messages between the kills\n", (unsigned long long)sum);
    test_tally("kills at random times", 10 * test_times(3));
    writers_end(&c, b);
}

static void must_do(board *b, const char *what, ms_result result)
{
    b->step++;
    if (result != MS_OK) complain(b, 1, what, ms_result_text(result));
}

/* Everything that touches the file. */
static void whole_life(const many_writers *c, board *b, ms_store *store)
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

/* Lets a child live that ends at call k; true when it came to its end. */
static bool live_and_end(const many_writers *c, board *b, const ms_log_desc *desc,
                         os_fault_how how, uint64_t k)
{
    int status;
    pid_t child = fork_child();
    if (child == 0) {
        ms_log_desc own = *desc;
        ms_store *store;
        os_faults t;
        os_fault_init(&t, &c->os);
        t.how = how;
        t.at = k;
        if (how == OS_FAULT_EXIT_HALF && desc->shared) t.kinds = OS_FAULT_BIT(WRITE);
        own.os = &t.os;
        if (ms_log_open(&store, &own, NULL) != MS_OK) _exit(3);
        whole_life(c, b, store);
        _exit(0);
    }
    waitpid(child, &status, 0);
    nothing_wrong(b);
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 9))
        fail_msg("call %d, step %d: status %d", (int)k, b->step, status);
    return WEXITSTATUS(status) == 0;
}

static void append_some(const many_writers *c, board *b, ms_store *store, size_t w, int n,
                        uint64_t k)
{
    ms_error err;
    while (n-- > 0)
        if (append_next(c, b, store, w, &err) != MS_OK)
            fail_msg("writer %zu, call %d, step %d: %s", w, (int)k, b->step, err.message);
}

/* Ends the child before, inside or after call k; a writer that was there before, and one
 * that comes later, go on at once. alone: the child has the log to itself. */
static bool one_end(many_writers *c, board *b, os_fault_how how, uint64_t k, bool alone)
{
    roll r;
    ms_log_desc desc = desc_of(c, MS_LOG_CREATE);
    desc.shared = !alone;
    board_reset(b);
    c->s.salt = test_seed() + k;
    unlink(c->at.path);
    ms_store *store = must_open(c, MS_LOG_CREATE);
    append_some(c, b, store, 0, 3, k);
    bool whole = live_and_end(c, b, &desc, how, k);
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

TEST_WITH(WITH_EACH_ENGINE, others_go_on_when_a_writer_ends_at_every_file_operation)
{
    many_writers c;
    board *b = board_new();
    uint64_t stride = test_scale() >= 1000 ? 1 : test_scale() >= 100 ? 3 : 20, k = 1;
    uint64_t ends = 0;
    writers_begin(&c, *(const ms_log_engine *)*state, 600);
    bool mapped = c.at.log.engine == MS_ENGINE_MAP;
    for (int how = 2 * OS_FAULT_EXIT_BEFORE; how <= 2 * OS_FAULT_EXIT_AFTER + 1; how++) {
        bool half = how / 2 == OS_FAULT_EXIT_HALF && mapped;
        for (k = 1 + (uint64_t)how % stride;
             !one_end(&c, b, (os_fault_how)(how / 2), k, how % 2 == 1); ends++)
            k += half ? 1 : stride;
    }
    printf("about %d file operations\n", (int)k);
    test_tally("ends at a file operation", ends);
    assert_true(k > 30);
    writers_end(&c, b);
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

static void child_is_trapped(const many_writers *c, bool batch)
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
TEST(others_go_on_when_a_writer_is_killed_while_it_stores_bytes)
{
    many_writers c;
    writers_begin(&c, MS_ENGINE_MAP, 600);
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
    writers_end(&c, NULL);
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

TEST(a_writer_stopped_with_the_lock_delays_the_others_as_long_as_asked)
{
    many_writers c;
    board *b = board_new();
    int status;
    writers_begin(&c, MS_ENGINE_AUTO, 300);
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
    writers_end(&c, b);
}


/* ---- rewrites and copies beside writers ---- */

/* Appends; when a rewrite has put a new file in the place of its log, opens that. */
static void child_moves_on(const many_writers *c, board *b, size_t w)
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

TEST(rewrites_beside_writers_lose_nothing)
{
    enum { MANY = 2, TIMES = 4 };
    many_writers c;
    board *b = board_new();
    pid_t children[MANY];
    writers_begin(&c, MS_ENGINE_AUTO, 300);
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
    writers_end(&c, b);
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
static bool copy_is_whole(many_writers *copy, const board *b, const uint64_t *acked)
{
    ms_store *one = must_open(copy, MS_LOG_READ), *two;
    ms_query job = query_of(MS_STR("job"), 0);
    roll r;
    memset(&r, 0, sizeof r);
    bool whole = roll_read(&r, &copy->s, one, b->seqs);
    ms_close(one);
    if (!whole && r.result != MS_E_DAMAGED) fail_msg("in the copy: %s", r.wrong);
    for (size_t w = 0; w < MOST_WRITERS; w++)
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
static void bursts(const many_writers *c, board *b, ms_store *store, size_t w,
                   uint64_t goal)
{
    uint64_t rng = c->s.salt + w;
    while (!is_set(&b->stop) && !is_set(&b->failed) && b->acked[w] < 60000) {
        if (append_next(c, b, store, w, NULL) != MS_OK) complain(b, w, "append", "failed");
        if (b->pace != 0) pause_us((uint64_t)b->pace);
        if (test_one_in(&rng, 200)) pause_us(test_below(&rng, 2000));
        if (test_one_in(&rng, 300) && ms_sync(store, NULL, NULL) != MS_OK)
            complain(b, w, "sync", "failed");
    }
}

/* Of one writer that is alone, and of two that share the file. */
TEST_WITH(WITH_EACH_ENGINE, copies_of_a_growing_file_are_whole)
{
    size_t copies = 0, holes = 0, each = test_scale() < 100 ? 10 : 30;
    double until = now_ms() + 5.0 * test_scale();
    uint64_t rng = test_seed();
    for (uint64_t round = 0; round < 2 || now_ms() < until; round++) {
        many_writers c, copy;
        board *b = board_new();
        pid_t children[2];
        size_t many = 1 + round % 2;
        writers_begin(&c, *(const ms_log_engine *)*state, round % 3 == 0 ? 8192 : 600);
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
            uint64_t acked[MOST_WRITERS];
            pause_us(test_below(&rng, 1500));
            for (size_t w = 0; w < MOST_WRITERS; w++) acked[w] = acked_by(b, w);
            copy_file(c.at.path, copy.at.path, &rng);
            copy.damage = 0;
            holes += !copy_is_whole(&copy, b, acked);
        }
        set(&b->stop);
        for (size_t w = 0; w < many; w++) wait_for(children[w], b);
        must_stand(&c, b, true);
        free(copy.at.path);
        writers_end(&c, b);
    }
    printf("%zu of %zu copies have a hole\n", holes, copies);
    assert_true(holes * 20 <= copies);
    test_tally("copies of a growing file", copies);
}


int main(void)
{
    scribe_page();
    return run_all_tests(NULL, NULL);
}
