/* [log-map]: pointers into the map, messages of every size at every place, and what other
 * handles and processes see. */

#define _GNU_SOURCE
#include "open_logs.h"

#include <pthread.h>


/* ---- other processes ---- */

/* Are there just the messages 1 to n, each of that text? */
static bool has_numbers(ms_store *store, uint64_t n)
{
    ms_query all = query_of(no_str(), 0);
    ms_cursor it;
    const ms_msg *msg;
    char want[24];
    uint64_t count = 0;
    if (ms_query_open(store, &all, &it, NULL) != MS_OK) return false;
    while ((msg = ms_next(&it)) != NULL) {
        snprintf(want, sizeof want, "%llu", (unsigned long long)++count);
        if (ms_seq(msg) != count) return false;
        if (!ms_str_equal(ms_content(msg).text, ms_str_of(want))) return false;
    }
    return ms_cursor_close(&it, NULL) == MS_OK && count == n;
}

/* Reads numbers from a pipe: so many messages must be there, then it answers; 0: end. */
static void follow(ms_log_desc desc, int questions, int answers)
{
    ms_store *store;
    uint64_t n, last;
    desc.mode = MS_LOG_READ;
    if (ms_log_open(&store, &desc, NULL) != MS_OK) _exit(2);
    while (read(questions, &n, sizeof n) == (ssize_t)sizeof n && n != 0) {
        if (!has_numbers(store, n)) _exit(3);
        if (test_refresh(store, &last, NULL) != MS_OK || last != n) _exit(4);
        if (write(answers, &n, sizeof n) != (ssize_t)sizeof n) _exit(5);
    }
    ms_close(store);
    _exit(0);
}

static void another_process_sees_each_append(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    int questions[2], answers[2];
    uint64_t n = 0, end = 0, answer = 0;
    assert_int_equal(pipe(questions), 0);
    assert_int_equal(pipe(answers), 0);
    pid_t child = fork_child();
    if (child == 0) {
        close(questions[1]);
        follow(s.log, questions[0], answers[1]);
    }
    close(answers[1]);
    while (n < 300) {
        ms_envelope batch[4];
        char text[4][24];
        ms_append_opts opts;
        size_t size = 1 + (size_t)n % 4;
        memset(&opts, 0, sizeof opts);
        opts.location = MS_STR("job");
        for (size_t i = 0; i < size; i++) {
            snprintf(text[i], sizeof text[i], "%llu", (unsigned long long)++n);
            batch[i] = ms_user_message(ms_text(text[i]));
        }
        must_give(MS_OK, ms_append_batch(s.store, batch, size, &opts, NULL));
        assert_int_equal(write(questions[1], &n, sizeof n), sizeof n);
        if (read(answers[0], &answer, sizeof answer) != (ssize_t)sizeof answer) break;
        assert_int_equal(answer, n);
    }
    assert_int_equal(write(questions[1], &end, sizeof end), sizeof end);
    child_must_end(child);
    close(questions[0]);
    close(questions[1]);
    close(answers[0]);
    store_close(&s);
}


/* ---- waiting ---- */

static void *append_late(void *store)
{
    ms_envelope m = ms_user_message(ms_text("late"));
    usleep(30000);
    ms_result result = ms_append((ms_store *)store, MS_STR("job"), &m, NULL, NULL);
    return result == MS_OK ? NULL : store;
}

static void must_wait(ms_store *writer, ms_store *waiter)
{
    uint64_t before = 0, seq = 77;
    pthread_t late;
    void *wrong;
    must_give(MS_OK, test_refresh(waiter, &before, NULL));
    double start = now_ms();
    must_give(MS_OK, ms_wait(waiter, before, 40, &seq, NULL));
    assert_int_equal(seq, before);
    assert_true(now_ms() - start >= 39);
    if (pthread_create(&late, NULL, append_late, writer) != 0) abort();
    start = now_ms();
    ms_result result = ms_wait(waiter, before, 20000, &seq, NULL);
    double took = now_ms() - start;
    pthread_join(late, &wrong);
    assert_null(wrong);
    must_give(MS_OK, result);
    assert_int_equal(seq, before + 1);
    assert_true(took < 10000);
    start = now_ms();
    must_give(MS_OK, ms_wait(waiter, before, 20000, NULL, NULL));
    assert_true(now_ms() - start < 10000);
    must_give(MS_OK, ms_wait(waiter, UINT64_MAX, 0, &seq, NULL));
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


/* ---- pointers ---- */

/* Also those of a reader, and those into a file that was replaced. */
static void pointers_hold_until_close(void **state)
{
    enum { KEPT = 500, TEXT = 4000 };
    static const ms_msg *kept[2][KEPT];
    static char *bytes[KEPT];
    test_store s = store_open((store_kind *)*state, NULL);
    ms_store *const stores[2] = {s.store, log_reader(&s)};
    char *text = large_text(TEXT);
    uint64_t rng = test_seed();
    ms_keep keep;
    for (size_t i = 0; i < KEPT; i++) {
        ms_envelope m = random_message(&rng);
        uint64_t seq = must_append(s.store, no_str(), &m);
        for (size_t k = 0; k < 2; k++)
            must_give(MS_OK, ms_get_by_seq(stores[k], seq, NULL, &kept[k][i], NULL));
        bytes[i] = (char *)twin_memory(NULL, ms_size(kept[0][i]));
        memcpy(bytes[i], kept[0][i], ms_size(kept[0][i]));
    }
    size_t more = test_times(((size_t)64 << 20) / TEXT);
    ms_envelope m = ms_user_message(ms_text_n(ms_str_n(text, TEXT)));
    for (size_t i = 0; i < more; i++) must_append(s.store, MS_STR("job"), &m);
    memset(&keep, 0, sizeof keep);
    keep.newest = 1;
    must_give(MS_OK, ms_log_rewrite(s.store, &s.log, true, &keep, NULL, NULL));
    for (size_t i = 0; i < KEPT; i++) {
        for (size_t k = 0; k < 2; k++) {
            const ms_msg *now;
            assert_memory_equal(kept[k][i], bytes[i], ms_size(kept[0][i]));
            must_give(MS_OK, ms_get_by_seq(stores[k], ms_seq(kept[0][i]), NULL, &now, NULL));
            assert_ptr_equal(now, kept[k][i]);
        }
        free(bytes[i]);
    }
    free(text);
    ms_close(stores[1]);
    store_close(&s);
}


/* ---- sizes ---- */

static void a_large_message_fits(void **state)
{
    size_t len = (size_t)20 << 20;
    test_store s = store_open((store_kind *)*state, NULL);
    ms_store *reader = log_reader(&s);
    char *text = large_text(len);
    ms_envelope m = ms_user_message(ms_text_n(ms_str_n(text, len)));
    for (int i = 0; i < 3; i++) {
        append_text(s.store, "before");
        if (i != 1) must_append(s.store, MS_STR("large"), &m);
        append_text(s.store, "after");
    }
    for (int round = 0; round < 3; round++) {
        ms_store *store = round == 0 ? reader : s.store;
        ms_query q = query_of(MS_STR("large"), 0);
        ms_cursor it;
        const ms_msg *msg;
        size_t n = 0;
        must_give(MS_OK, ms_query_open(store, &q, &it, NULL));
        for (; (msg = ms_next(&it)) != NULL; n++) {
            assert_int_equal(ms_content(msg).text.len, len);
            assert_int_equal(memcmp(ms_content(msg).text.ptr, text, len), 0);
        }
        must_give(MS_OK, ms_cursor_close(&it, NULL));
        assert_int_equal(n, 2);
        must_have(store, 8);
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
        ms_envelope m = ms_user_message(ms_text_n(ms_str_n(text, len)));
        must_append(s.store, MS_STR("job"), &m);
        if (n % 100 == 99) store_reopen(&s);
    }
    store_reopen(&s);
    for (size_t i = 0; i < n; i++) {
        const ms_msg *msg;
        must_give(MS_OK, ms_get_by_seq(s.store, i + 1, NULL, &msg, NULL));
        assert_int_equal(ms_content(msg).text.len, i * 8);
        assert_memory_equal(ms_content(msg).text.ptr, text, i * 8);
    }
    must_have(s.store, n);
    free(text);
    store_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_LOGS(another_process_sees_each_append),
        ON_EVERY_STORE(waiting_ends_with_a_message_or_the_time),
        ON_LOGS(pointers_hold_until_close),
        ON_LOGS(a_large_message_fits),
        ON_LOGS(every_distance_to_a_boundary_works),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
