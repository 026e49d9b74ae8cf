/* [log-map]: waiting, pointers into the map, messages of every size at every place. What
 * other handles and processes see is in test_threads. */

#define _GNU_SOURCE
#include "open_logs.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>


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

TEST_WITH(ON_EVERY_STORE, waiting_ends_with_a_message_or_the_time)
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
TEST_WITH(ON_LOGS, pointers_hold_until_close)
{
    enum { KEPT = 500, TEXT = 4000 };
    static const ms_msg *kept[2][KEPT];
    static char *bytes[KEPT];
    test_store s = store_open((store_kind *)*state, NULL);
    ms_store *const stores[2] = {s.store, log_reader(&s)};
    char *text = large_text(TEXT);
    uint64_t rng = test_seed();
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
    ms_keep keep = {.newest = 1};
    must_give(MS_OK, ms_log_rewrite(s.store, &s.log, true, &keep, NULL, NULL));
    must_give(MS_E_CONFLICT, ms_tick(stores[1], 0, NULL)); /* the reader is told */
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

TEST_WITH(ON_LOGS, a_large_message_fits)
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
        size_t n = 0;
        EACH (msg, store, &q, &it) {
            assert_int_equal(ms_content(msg).text.len, len);
            assert_int_equal(memcmp(ms_content(msg).text.ptr, text, len), 0);
            n++;
        }
        assert_int_equal(n, 2);
        must_have(store, 8);
        if (round == 0) ms_close(reader);
        if (round == 1) store_reopen(&s);
    }
    free(text);
    store_close(&s);
}

/* A system that maps at most 1 MiB at a time, with something else between two parts. */
static int map_apart(void *ctx, ms_file file, uint64_t offset, size_t size, unsigned how,
                     void **out)
{
    const size_t most = (size_t)1 << 20;
    if (size > most) return ENOMEM;
    char *room = (char *)mmap(NULL, most * 2, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) return errno;
    int code = ms_os_default()->map(ctx, file, offset, size, how, out);
    if (munmap(room, most / 2) != 0) abort(); /* no part is beside another one */
    return code;
}

TEST_WITH(ON_LOGS, messages_are_whole_when_the_file_is_mapped_in_parts)
{
    enum { N = 300, TEXT = 16000 };
    test_store s = store_open((store_kind *)*state, NULL);
    ms_os os = *ms_os_default();
    os.map = map_apart;
    s.log.os = &os;
    store_reopen(&s);
    char *text = large_text(TEXT);
    for (size_t i = 0; i < N; i++) {
        ms_envelope m = ms_user_message(ms_text_n(ms_str_n(text, TEXT - i)));
        must_append(s.store, MS_STR("job"), &m);
    }
    for (size_t i = 0; i < N; i++) {
        const ms_msg *msg;
        must_give(MS_OK, ms_get_by_seq(s.store, i + 1, NULL, &msg, NULL));
        assert_int_equal(ms_content(msg).text.len, TEXT - i);
        assert_memory_equal(ms_content(msg).text.ptr, text, TEXT - i);
    }
    must_have(s.store, N);
    free(text);
    store_close(&s);
}

/* Messages of every size from small to over a segment, so that each distance to a
 * boundary occurs. */
TEST_WITH(ON_LOGS, every_distance_to_a_boundary_works)
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
    free(text);
    must_have(s.store, n);
    store_close(&s);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
