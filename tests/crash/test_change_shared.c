/* Changes while others look or change, too: readers that are open, threads, processes. With
 * TEST_THREADS only the tests in which threads meet.
 */

#define _GNU_SOURCE
#include "script.h"

#include <pthread.h>
#include <sched.h>
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

/* The store of a script after these lines, its first message, and its second one: a
 * stream. */
static pair pair_begin(script *s, const char *lines)
{
    pair p;
    memset(&p, 0, sizeof p);
    script_is(s, lines);
    p.store = p.reader = s->s.store;
    p.amended = s->names[0].seq;
    p.stream = s->names[1].seq;
    return p;
}

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

TEST_WITH(ON_EVERY_STORE, a_thread_reads_while_another_changes)
{
    script s = open_script(state);
    pthread_t thread;
    ms_store *reader = s.s.kind->log ? log_reader(&s.s) : NULL; /* of an empty log */
    pair p = pair_begin(&s, "append m v0\nbegin w ''");
    if (reader != NULL) p.reader = reader;
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
    must_be_as(p.reader, store_text(s.s.store), "both handles");
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
TEST_WITH(ON_EVERY_STORE, two_threads_change_a_message)
{
    script s = open_script(state);
    pthread_t thread;
    pair p = pair_begin(&s, "append m v0\nsay hidden");
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

TEST_WITH(ON_EVERY_STORE, a_change_wakes_a_thread_that_waits)
{
    script s = open_script(state);
    pthread_t thread;
    struct timespec from, to;
    uint64_t seq = 0;
    pair p = pair_begin(&s, "say first");
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


#if !defined(TEST_THREADS) && !defined(TEST_POSTGRES)

/* ---- other handles ---- */

/* A reader of a log that is open sees each change at once, its cursor does not. */
TEST_WITH(ON_LOGS, a_reader_sees_changes_and_its_cursor_does_not)
{
    script p = open_script(state);
    ms_cursor it;
    uint64_t seq = 0;
    script_is(&p, scene);
    ms_store *reader = log_reader(&p.s), *writer = p.s.store;
    must_show_scene(reader, unchanged);
    char *before = store_text(writer);
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
    must_be_as(reader, store_text(writer), "a reader");
    ms_close(reader);
    store_close(&p.s);
}


/* ---- processes that share a log ---- */

enum { WRITERS = 3, TURNS = 60 };

/* Writes a message part by part, amends another one, takes notes and hides a third. */
static void write_shared(script *p, int number)
{
    static const char *const calls[] = {"amend m %d.%d;", "feed w %d.%d;",
                                        "note m k %d.%d;", "append g gone", "hide g"};
    char call[60];
    bool fine = ms_log_open(&p->s.store, &p->s.log, NULL) == MS_OK &&
                script_try(p, "append m 0") == MS_OK && script_try(p, "begin w ''") == MS_OK;
    for (int i = 0; fine && i < 5 * TURNS; i++) {
        snprintf(call, sizeof call, calls[i % 5], number, 1 + i / 5);
        fine = script_try(p, call) == MS_OK;
    }
    fine = fine && script_try(p, "end w") == MS_OK;
    ms_close(p->s.store);
    _exit(!fine);
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
TEST_WITH(ON_LOGS, processes_change_a_shared_log)
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
    return run_all_tests(NULL, NULL);
}
