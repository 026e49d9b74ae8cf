/* Changes while others look or change, too: readers that are open, threads, processes, a
 * child of fork, a writer that is killed. With TEST_THREADS only the tests in which
 * threads meet.
 */

#define _GNU_SOURCE
#include "script.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

static script open_script(void **state)
{
    script p;
    script_open(&p, (const store_kind *)*state);
    return p;
}

static void call_of(script *p, const char *form, ...)
{
    char call[200];
    va_list args;
    va_start(args, form);
    vsnprintf(call, sizeof call, form, args);
    va_end(args);
    if (script_try(p, call) != MS_OK) fail_msg("%s: %s", call, p->err.message);
}


/* ---- threads ---- */

typedef struct pair {
    ms_store *store, *reader; /* of a log another handle, else the same */
    uint64_t amended, stream;
    bool stop;
    int rounds;               /* -1: trouble */
    char trouble[160];
} pair;

#define TROUBLE(p, ...) snprintf((p)->trouble, sizeof (p)->trouble, __VA_ARGS__)

static int pair_rounds(pair *p) { return __atomic_load_n(&p->rounds, __ATOMIC_ACQUIRE); }
static bool pair_stops(pair *p) { return __atomic_load_n(&p->stop, __ATOMIC_ACQUIRE); }

/* Versions only rise, texts only grow, numbers are in order. */
static void look_at(pair *p, const ms_msg *msg, long *version, size_t *length)
{
    ms_str text = ms_content(msg).text;
    if (ms_seq(msg) == p->amended) {
        long is = strtol(text.ptr + 1, NULL, 10);
        if (text.len < 2 || text.ptr[0] != 'v' || is < *version)
            TROUBLE(p, "version %ld after %ld", is, *version);
        *version = is;
    } else if (ms_seq(msg) == p->stream) {
        if (text.len < *length) TROUBLE(p, "text shrinks to %zu", text.len);
        *length = text.len;
    } else if (!is_word(text, "kept") && !is_word(text, "gone soon")) {
        TROUBLE(p, "a text that nobody wrote");
    }
}

static void *reads_meanwhile(void *ctx)
{
    pair *p = (pair *)ctx;
    long version = 0;
    size_t length = 0;
    ms_arena arena;
    test_arena_init(&arena, NULL);
    while (!pair_stops(p) && p->trouble[0] == '\0') {
        ms_query q = query_of(JOB, 0);
        ms_cursor it;
        const ms_msg *msg;
        uint64_t last = 0;
        q.arena = &arena;
        ms_result got = ms_query_open(p->reader, &q, &it, NULL);
        if (got != MS_OK) TROUBLE(p, "query: %d", (int)got);
        for (; (msg = ms_next(&it)) != NULL; last = ms_seq(msg)) {
            if (ms_seq(msg) <= last) TROUBLE(p, "order");
            look_at(p, msg, &version, &length);
        }
        got = ms_cursor_close(&it, NULL);
        if (got != MS_OK) TROUBLE(p, "cursor: %d", (int)got);
        ms_arena_reset(&arena);
        __atomic_store_n(&p->rounds, p->trouble[0] == '\0' ? p->rounds + 1 : -1,
                         __ATOMIC_RELEASE);
    }
    ms_arena_deinit(&arena);
    return NULL;
}

static void a_thread_reads_while_another_changes(void **state)
{
    script s = open_script(state);
    pthread_t thread;
    pair p;
    memset(&p, 0, sizeof p);
    p.store = p.reader = s.s.store;
    if (s.s.kind->log) p.reader = log_reader(&s.s);
    script_is(&s, "append m v0\nbegin w ''");
    p.store = s.s.store;
    if (!s.s.kind->log) p.reader = p.store;
    p.amended = s.names[0].seq;
    p.stream = s.names[1].seq;
    assert_int_equal(pthread_create(&thread, NULL, reads_meanwhile, &p), 0);
    while (pair_rounds(&p) == 0) sched_yield();
    for (int i = 1; i <= 400 && pair_rounds(&p) > 0; i++) {
        call_of(&s, "amend m v%d", i);
        call_of(&s, "feed w x");
        if (i % 4 == 0) call_of(&s, "say kept");
        call_of(&s, "append g 'gone soon'");
        call_of(&s, i % 2 ? "hide g" : "range g g");
        if (i % 10 == 0) call_of(&s, "facts {\"n\":1}");
    }
    __atomic_store_n(&p.stop, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    if (p.trouble[0] != '\0') fail_msg("a reader beside changes: %s", p.trouble);
    assert_true(p.rounds > 0);
    must_be_as(p.reader, picture(s.s.store), "both handles");
    if (p.reader != s.s.store) ms_close(p.reader);
    store_close(&s.s);
}

static void *amends_beside(void *ctx)
{
    pair *p = (pair *)ctx;
    for (int i = 0; i < 300; i++) {
        ms_envelope m = ms_user_message(ms_text("by the other"));
        p->rounds += ms_amend(p->store, p->amended, &m, NULL) != MS_OK;
        p->rounds +=
            ms_note(p->store, p->amended, MS_STR("k"), ms_text("n"), NULL) != MS_OK;
    }
    return NULL;
}

/* One of them is the last, none is lost. */
static void two_threads_change_a_message(void **state)
{
    script s = open_script(state);
    pthread_t thread;
    pair p;
    memset(&p, 0, sizeof p);
    script_is(&s, "append m v0\nsay hidden");
    p.store = s.s.store;
    p.amended = s.names[0].seq;
    assert_int_equal(pthread_create(&thread, NULL, amends_beside, &p), 0);
    for (int i = 0; i < 300; i++) call_of(&s, "amend m 'by the one'");
    call_of(&s, "hide hidden");
    pthread_join(thread, NULL);
    assert_int_equal(p.rounds, 0);
    script_is(&s, "stat changes=901\nquery raw=amend count => 600");
    store_close(&s.s);
}

static void *note_late(void *arg)
{
    pair *p = (pair *)arg;
    struct timespec pause = {0, 30000000};
    nanosleep(&pause, NULL);
    p->rounds = (int)ms_note(p->store, p->amended, MS_STR("k"), ms_text("v"), NULL);
    return NULL;
}

static void a_change_wakes_a_thread_that_waits(void **state)
{
    script s = open_script(state);
    pthread_t thread;
    struct timespec from, to;
    pair p;
    memset(&p, 0, sizeof p);
    script_is(&s, "say first");
    p.store = s.s.store;
    p.amended = s.names[0].seq;
    uint64_t seq = 0;
    clock_gettime(CLOCK_MONOTONIC, &from);
    if (pthread_create(&thread, NULL, note_late, &p) != 0) abort();
    assert_int_equal(ms_wait(p.store, p.amended, 20000, &seq, NULL), MS_OK);
    pthread_join(thread, NULL);
    clock_gettime(CLOCK_MONOTONIC, &to);
    assert_int_equal(p.rounds, MS_OK);
    assert_int_equal(seq, p.amended);
    assert_true(to.tv_sec - from.tv_sec < 15);
    store_close(&s.s);
}


#ifndef TEST_THREADS

/* ---- other handles ---- */

/* A reader of a log that is open sees each change at once, its cursor does not. */
static void a_reader_sees_changes_and_its_cursor_does_not(void **state)
{
    script p = open_script(state);
    ms_cursor it;
    uint64_t seq = 0;
    script_is(&p, scene);
    ms_store *reader = log_reader(&p.s), *writer = p.s.store;
    must_show_scene(reader, unchanged);
    char *before = picture(writer);
    p.s.store = reader; /* it changes nothing itself */
    for (size_t i = 0; i < CHANGES; i++)
        if (!is_of_stream(each_change[i].call))
            assert_int_equal(script_try(&p, each_change[i].call), MS_E_READ_ONLY);
    p.s.store = writer;
    must_be_as(writer, before, "a reader that changes");
    ms_query q = query_of(JOB, 0);
    assert_int_equal(ms_query_open(reader, &q, &it, NULL), MS_OK);
    assert_non_null(ms_next(&it));
    call_of(&p, "amend second new");
    call_of(&p, "hide third");
    must_show_scene(reader, "FIRST|new|begun so far|{\"q\":1|");
    call_of(&p, "feed w ' and on'");
    must_show_scene(reader, "FIRST|new|begun so far and on|{\"q\":1|");
    must_have_text(ms_next(&it), "second");
    must_have_text(ms_next(&it), "third");
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    call_of(&p, "facts {\"title\":\"changed\"}");
    must_have_facts(reader, JOB, "{\"title\":\"changed\"}");
    assert_int_equal(test_refresh(reader, &seq, NULL), MS_OK);
    assert_int_equal(seq, script_find(&p, MS_STR("c"))->seq);
    call_of(&p, "redact first");
    must_show_scene(reader, "[redacted]|new|begun so far and on|{\"q\":1|");
    must_be_as(reader, picture(writer), "a reader");
    ms_close(reader);
    store_close(&p.s);
}

static void a_child_of_fork_changes_nothing(void **state)
{
    script p = open_script(state);
    int status = 0;
    script_is(&p, scene);
    char *before = picture(p.s.store);
    fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    for (size_t i = 0; child == 0 && i < CHANGES; i++)
        if (script_try(&p, each_change[i].call) != MS_E_FORKED) _exit((int)i + 1);
    if (child == 0) _exit(0);
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) != 0)
        fail_msg("%s in a child", each_change[WEXITSTATUS(status) - 1].call);
    must_be_as(p.s.store, before, "a child of fork");
    store_close(&p.s);
}

/* Writes a message part by part, amends another one between, and writes each letter to a
 * pipe once both are stored. */
static void write_until_killed(script *p, int pipe_end)
{
    p->s.log.mode = MS_LOG_WRITE;
    if (ms_log_open(&p->s.store, &p->s.log, NULL) != MS_OK) _exit(1);
    if (script_try(p, "append m 0") != MS_OK) _exit(2);
    if (script_try(p, "begin w ''") != MS_OK) _exit(3);
    for (unsigned i = 0;; i++) {
        char part = (char)('a' + i % 26), call[40];
        snprintf(call, sizeof call, "feed w %c", part);
        if (script_try(p, call) != MS_OK) _exit(4);
        snprintf(call, sizeof call, "amend m %u", i + 1);
        if (script_try(p, call) != MS_OK) _exit(5);
        if (write(pipe_end, &part, 1) != 1) _exit(6);
    }
}

/* How many letters came from the child until it was killed, after at least `enough`. */
static size_t kill_when_enough(pid_t child, int pipe_end, size_t enough)
{
    char letters[64];
    size_t n = 0;
    int status = 0;
    for (ssize_t got; (got = read(pipe_end, letters, sizeof letters)) > 0;) {
        n += (size_t)got;
        if (n >= enough) kill(child, SIGKILL);
    }
    waitpid(child, &status, 0);
    close(pipe_end);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return n;
}

/* What it reported is there; somebody else can end the message. */
static void a_stream_survives_when_its_writer_is_killed(void **state)
{
    uint64_t rng = test_seed();
    for (size_t round = 0; round < test_times(10); round++) {
        script p = open_script(state);
        int pipe_ends[2];
        ms_arena arena;
        ms_error err;
        ms_stream_text text;
        ms_close(p.s.store);
        memset(&p.s.log.events, 0, sizeof p.s.log.events); /* a torn end is no damage */
        assert_int_equal(pipe(pipe_ends), 0);
        fflush(stdout);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) write_until_killed(&p, pipe_ends[1]);
        close(pipe_ends[1]);
        size_t fed = kill_when_enough(child, pipe_ends[0], 1 + test_below(&rng, 300));
        p.s.log.mode = MS_LOG_WRITE;
        log_open(&p.s);
        test_arena_init(&arena, NULL);
        must_ok(ms_stream_read(p.s.store, 2, 0, &arena, &text, &err), &err, "follow");
        assert_false(text.ended);
        assert_true(text.text.len >= fed && text.text.len <= fed + 1);
        for (size_t i = 0; i < text.text.len; i++)
            assert_int_equal(text.text.ptr[i], 'a' + i % 26);
        ms_str newest = ms_content(must_get(p.s.store, 1)).text;
        unsigned long version = strtoul(newest.ptr, NULL, 10);
        assert_true(version >= fed && version <= text.text.len);
        must_ok(ms_stream_recover(p.s.store, 2, &arena, &err), &err, "recover");
        const ms_msg *msg = must_get(p.s.store, 2);
        assert_true(ms_str_equal(ms_content(msg).text, text.text));
        assert_true(ms_flags(msg) & MS_FLAG_UNFINISHED);
        ms_log_report report;
        must_ok(ms_log_verify(&p.s.log, &report, &err), &err, "verify");
        ms_arena_deinit(&arena);
        store_close(&p.s);
    }
}


/* ---- processes that share a log ---- */

enum { WRITERS = 3, TURNS = 60 };

/* Writes a message part by part, amends another one, takes notes and hides a third. */
static void write_shared(script *p, int number)
{
    char call[4][60];
    if (ms_log_open(&p->s.store, &p->s.log, NULL) != MS_OK) _exit(1);
    if (script_try(p, "append m 0") != MS_OK) _exit(2);
    if (script_try(p, "begin w ''") != MS_OK) _exit(3);
    for (int i = 1; i <= TURNS; i++) {
        snprintf(call[0], sizeof call[0], "amend m %d.%d;", number, i);
        snprintf(call[1], sizeof call[1], "feed w %d.%d;", number, i);
        snprintf(call[2], sizeof call[2], "note m k %d.%d;", number, i);
        for (int k = 0; k < 3; k++)
            if (script_try(p, call[k]) != MS_OK) _exit(4 + k);
        if (script_try(p, "append g gone") != MS_OK) _exit(7);
        if (script_try(p, "hide g") != MS_OK) _exit(8);
    }
    if (script_try(p, "end w") != MS_OK) _exit(9);
    ms_close(p->s.store);
    _exit(0);
}

static void must_have_all_of(ms_store *store, int number)
{
    ms_query q = query_of(JOB, 0);
    ms_cursor it;
    char last[24], whole[1000] = "";
    bool amended = false, streamed = false;
    snprintf(last, sizeof last, "%d.%d;", number, TURNS);
    for (int i = 1; i <= TURNS; i++)
        snprintf(whole + strlen(whole), 24, "%d.%d;", number, i);
    EACH (msg, store, &q, &it) {
        amended = amended || is_word(ms_content(msg).text, last);
        streamed = streamed || is_word(ms_content(msg).text, whole);
    }
    assert_true(amended && streamed);
}

/* Nothing of any is lost, and nothing is mixed up. */
static void processes_change_a_shared_log(void **state)
{
    script p = open_script(state);
    pid_t child[WRITERS];
    ms_close(p.s.store);
    p.s.log.mode = MS_LOG_WRITE;
    p.s.log.shared = true;
    p.s.log.lock_wait_ms = 20000;
    fflush(stdout);
    for (int i = 0; i < WRITERS; i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (child[i] == 0) write_shared(&p, i);
    }
    for (int i = 0; i < WRITERS; i++) {
        int status = 0;
        waitpid(child[i], &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("a writer ends with status %x", (unsigned)status);
    }
    log_open(&p.s);
    script_is(&p, "query count => 6\nstat hidden=180 changes=723");
    for (int i = 0; i < WRITERS; i++) must_have_all_of(p.s.store, i);
    store_close(&p.s);
}
#endif

int main(void)
{
    const struct CMUnitTest threaded[] = {
        ON_EVERY_STORE(a_change_wakes_a_thread_that_waits),
        ON_EVERY_STORE(a_thread_reads_while_another_changes),
        ON_EVERY_STORE(two_threads_change_a_message),
    };
#if !defined(TEST_THREADS) && !defined(TEST_POSTGRES)
    const struct CMUnitTest tests[] = {
        ON_LOGS(a_reader_sees_changes_and_its_cursor_does_not),
        ON_LOGS(a_child_of_fork_changes_nothing),
        ON_LOGS(a_stream_survives_when_its_writer_is_killed),
        ON_LOGS(processes_change_a_shared_log),
    };
    if (cmocka_run_group_tests(tests, NULL, NULL) != 0) return 1;
#endif
    return cmocka_run_group_tests(threaded, NULL, NULL);
}
