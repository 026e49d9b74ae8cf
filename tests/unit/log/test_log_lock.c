/* [log-sync], the lock: one writer at a time; processes that are killed, and that fork. */

#define _GNU_SOURCE
#include "open_logs.h"

#include <pthread.h>

/* Opening that path for writing returns MS_E_BUSY and names the process. */
static void must_be_busy(const test_store *s, const char *path, pid_t holder)
{
    test_store tried = *s;
    char number[24];
    ms_error err;
    tried.log.path = path;
    must_give(MS_E_BUSY, log_try(&tried, MS_LOG_WRITE, &err));
    snprintf(number, sizeof number, "%ld", (long)holder);
    if (strstr(err.message, number) == NULL)
        fail_msg("no %s in \"%s\"", number, err.message);
    must_give(MS_E_BUSY, log_try(&tried, MS_LOG_CREATE, NULL));
}

TEST(a_second_writer_reports_the_first_when_the_log_is_busy)
{
    test_store s = closed_log();
    char *soft = scratch_file(s.folder, "soft"), *hard = scratch_file(s.folder, "hard");
    char *round = scratch_file(s.folder, "./test.msl");
    const char *const paths[] = {s.path, soft, hard, round};
    log_open(&s);
    assert_int_equal(symlink(s.path, soft), 0);
    assert_int_equal(link(s.path, hard), 0);
    for (size_t i = 0; i < 4; i++) must_be_busy(&s, paths[i], getpid());
    append_text(s.store, "still the writer");
    must_have(s.store, 101);
    log_close(&s);
    s.log.path = soft;
    log_open(&s);
    must_be_busy(&s, s.path, getpid());
    must_have(s.store, 101);
    free(soft);
    free(hard);
    free(round);
    store_close(&s);
}

/* Opened elsewhere in the process and closed. */
TEST(the_lock_outlives_another_open_and_close)
{
    test_store s = closed_log();
    log_open(&s);
    for (int i = 0; i < 3; i++) {
        int file = open(s.path, O_RDWR | O_CLOEXEC);
        assert_true(file >= 0);
        assert_int_equal(close(file), 0);
        ms_store *reader = log_reader(&s);
        must_have(reader, 100);
        ms_close(reader);
    }
    pid_t child = fork_child();
    if (child == 0) {
        ms_store *store;
        _exit(ms_log_open(&store, &s.log, NULL) == MS_E_BUSY ? 0 : 1);
    }
    child_must_end(child);
    store_close(&s);
}

static void *close_soon(void *store)
{
    usleep(60000);
    ms_close((ms_store *)store);
    return NULL;
}

TEST(a_writer_waits_for_the_one_before)
{
    test_store s = closed_log(), second = s;
    pthread_t closer;
    log_open(&s);
    append_text(s.store, "the last of the first");
    second.log.lock_wait_ms = 40;
    double start = now_ms();
    must_give(MS_E_BUSY, log_try(&second, MS_LOG_WRITE, NULL));
    assert_true(now_ms() - start >= 39);
    second.log.lock_wait_ms = 20000;
    if (pthread_create(&closer, NULL, close_soon, s.store) != 0) abort();
    start = now_ms();
    ms_result got = log_try(&second, MS_LOG_WRITE, NULL);
    double took = now_ms() - start;
    pthread_join(closer, NULL);
    s.store = NULL;
    must_give(MS_OK, got);
    assert_true(took >= 30 && took < 10000);
    must_have(second.store, 101);
    assert_int_equal(append_text(second.store, "the first of the second"), 102);
    ms_close(second.store);
    store_close(&s);
}


/* ---- processes ---- */

/* The lock belongs to the open file, which a forked child shares: while that lives, the
 * log stays locked, and the error names the dead writer. */
TEST(a_child_of_a_dead_writer_keeps_the_lock)
{
    test_store s = closed_log();
    int stop;
    pid_t child = start_holder(&s, 5, true, &stop);
    kill_holder(child);
    must_be_busy(&s, s.path, child);
    ms_store *reader = log_reader(&s);
    must_have(reader, 105);
    ms_close(reader);
    close(stop);
    s.log.lock_wait_ms = 20000;
    log_open(&s);
    must_have(s.store, 105);
    store_close(&s);
}

/* Every call on a handle of the parent, in the child; a cursor of the parent may go on or
 * end. Returns 0, or the number of the first call that is not refused, from 1. */
static int first_not_refused(ms_store *store, ms_cursor *it)
{
    ms_envelope m = ms_observation(ms_text("of the child"), ms_str_of(NULL));
    ms_query q = query_of(MS_STR("job"), 0);
    ms_cursor other;
    const ms_msg *msg;
    uint64_t number;
    ms_stat stat;
    ms_log_info info;
    ms_listing listing;
    ms_list_query list;
    ms_str facts;
    ms_arena arena;
    ms_store *arena_store;
    ms_error err;
    int first = 0;
    memset(&list, 0, sizeof list);
    m.location = MS_STR("job");
    test_arena_init(&arena, NULL);
    if (ms_mem_open(&arena_store, NULL, NULL) != MS_OK) return 100;
    const ms_result got[] = {
        ms_append(store, MS_STR("job"), &m, &number, &err),
        ms_append_batch(store, &m, 1, NULL, NULL),
        ms_hide(store, 1, NULL),
        ms_query_open(store, &q, &other, NULL),
        ms_get_by_seq(store, 1, &arena, &msg, NULL),
        ms_store_stat(store, &stat, NULL),
        ms_list(store, &list, &arena, &listing, NULL),
        ms_sync(store, &number, NULL),
        ms_tick(store, 1000, NULL),
        test_refresh(store, &number, NULL),
        ms_wait(store, 0, 10, &number, NULL),
        ms_selfcheck(store, NULL),
        ms_log_stat(store, &info, NULL),
        ms_copy(arena_store, store, NULL, NULL, NULL, NULL),
        ms_location_set(store, MS_STR("job"), MS_STR("{\"open\":true}"), NULL),
        ms_location_get(store, MS_STR("job"), &arena, &facts, NULL),
    };
    while (ms_next(it) != NULL) continue;
    ms_cursor_close(it, NULL);
    for (int i = (int)(sizeof got / sizeof got[0]); i > 0; i--)
        if (got[i - 1] != MS_E_FORKED) first = i;
    ms_arena_deinit(&arena);
    ms_close(arena_store);
    return first;
}

/* The handle is a writer's, a reader's, a shared writer's. */
TEST_WITH(ON_LOGS, a_forked_child_is_refused)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_query all = query_of(no_str(), 0);
    size_t n = 500;
    for (size_t i = 0; i < n; i++) append_text(s.store, "of the parent");
    for (int kind = 0; kind < 3; kind++) {
        ms_cursor it;
        s.log.shared = kind == 2;
        if (kind == 2) store_reopen(&s);
        ms_store *handle = kind == 1 ? log_reader(&s) : s.store;
        must_give(MS_OK, ms_query_open(handle, &all, &it, NULL));
        assert_non_null(ms_next(&it));
        snapshot before = take(&s);
        pid_t child = fork_child();
        if (child == 0) {
            int first = first_not_refused(handle, &it);
            ms_close(handle);
            _exit(first);
        }
        child_must_end(child);
        nothing_changed("a file of a parent", &s, &before);
        size_t seen = 1;
        while (ms_next(&it) != NULL) seen++;
        must_give(MS_OK, ms_cursor_close(&it, NULL));
        assert_int_equal(seen, n);
        if (kind < 2) must_be_busy(&s, s.path, getpid());
        append_text(s.store, "of the parent, after");
        must_have(handle, ++n);
        if (kind == 1) ms_close(handle);
    }
    must_give(MS_OK, ms_selfcheck(s.store, NULL));
    store_reopen(&s);
    must_have(s.store, n);
    store_close(&s);
}

/* When the parent has closed its own; shared, also while the parent writes. */
TEST(a_child_opens_its_own_handle)
{
    for (int shared = 0; shared < 2; shared++) {
        test_store s = closed_log();
        s.log.shared = shared;
        s.log.lock_wait_ms = 20000;
        log_open(&s);
        if (!shared) log_close(&s);
        pid_t child = fork_child();
        if (child == 0) {
            ms_store *store;
            ms_envelope m = ms_observation(ms_text("of the child"), ms_str_of(NULL));
            ms_close(s.store);
            if (ms_log_open(&store, &s.log, NULL) != MS_OK) _exit(1);
            if (ms_append(store, MS_STR("job"), &m, NULL, NULL) != MS_OK) _exit(2);
            ms_close(store);
            _exit(0);
        }
        for (int i = 0; i < 50 && shared; i++)
            must_give(MS_OK, ms_location_set(s.store, MS_STR("job"), MS_STR("{\"a\":2}"),
                                             NULL));
        child_must_end(child);
        if (!shared) log_open(&s);
        must_have(s.store, 101);
        assert_int_equal(append_text(s.store, "of the parent"), 102);
        store_close(&s);
    }
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
