/* [log-list]: listings and figures of a log. */

#define _GNU_SOURCE
#include "open_logs.h"

/* What ms_log_stat returns fits to what was appended and to the file. */
TEST_WITH(ON_LOGS, the_figures_of_a_log_fit_to_its_file)
{
    static int64_t now = SECONDS(1700000000.5);
    struct stat about;
    unsigned char id[16];
    uint64_t end = 0;
    store_options options = {.clock = clock_at(&now), .entropy = constant_entropy()};
    memset(id, 0x5a, sizeof id);
    test_store s = store_open((store_kind *)*state, &options);
    ms_store *reader = log_reader(&s);
    for (int i = 0; i < 600; i++) {
        append_text(s.store, "a text of some length, so that segments get full");
        ms_log_info info = log_info_of(s.store);
        assert_true(info.end > end);
        end = info.end;
        assert_memory_equal(info.id, id, sizeof id);
        assert_memory_equal(log_info_of(reader).id, id, sizeof id);
    }
    test_refresh(reader, NULL, NULL);
    ms_log_info info = log_info_of(s.store), same = log_info_of(reader);
    assert_true(info.created_ns == now);
    assert_int_equal(info.pid, getpid());
    assert_int_equal(same.end, info.end);
    assert_int_equal(same.engine, MS_ENGINE_AUTO);
    assert_true(info.engine == MS_ENGINE_MAP || info.engine == MS_ENGINE_WRITE);
#ifndef _WIN32 /* where a log is never written through a map */
    if (s.log.engine != MS_ENGINE_AUTO) assert_int_equal(info.engine, s.log.engine);
#endif
    if (s.log.segment_size != 0) assert_true(info.segments >= 8 && info.summaries >= 1);
    else assert_int_equal(info.segments, 0);
    assert_int_equal(info.damaged + info.damaged_bytes, 0);
    assert_int_equal(info.zeroed_bytes + info.lost_end, 0);
    assert_true(info.memory > 0);
    assert_int_equal(stat(s.path, &about), 0);
    assert_int_equal(info.size, about.st_size);
    ms_close(reader);
    store_close(&s);
}

/* The listing of so many locations, each once: newest first, none twice, none missing. */
static void must_list_all(ms_store *store, const uint32_t *order, size_t n)
{
    ms_arena arena;
    ms_listing got;
    test_arena_init(&arena, NULL);
    must_give(MS_OK, ms_list(store, NULL, &arena, &got, NULL));
    assert_int_equal(got.count, n);
    for (size_t i = 0; i < n; i++) {
        char name[24];
        const ms_info *info = &got.items[i];
        snprintf(name, sizeof name, "loc_%u", order[n - 1 - i]);
        if (!ms_str_equal(info->location, ms_str_of(name))) fail_msg("entry %zu", i);
        assert_int_equal(info->messages, 1);
        assert_int_equal(info->first_seq, n - i);
        assert_int_equal(info->last_seq, n - i);
        assert_true(info->last_time_ns == SECONDS(n - i));
    }
    ms_arena_deinit(&arena);
}

/* In the log that is opened by default; in the others a fifth of them. */
TEST_WITH(ON_LOGS, a_hundred_thousand_locations_are_listed)
{
    const char *kind = ((store_kind *)*state)->name;
    size_t n = test_times(strcmp(kind, "log") == 0 ? 100000 : 20000);
    uint32_t *order = (uint32_t *)twin_memory(NULL, n * sizeof order[0]);
    uint64_t rng = test_seed();
    test_store s = store_open((store_kind *)*state, NULL);
    char name[24];
    for (size_t i = 0; i < n; i++) {
        size_t other = (size_t)test_below(&rng, i + 1);
        order[i] = order[other];
        order[other] = (uint32_t)i;
    }
    for (size_t i = 0; i < n; i++) {
        ms_envelope m = ms_user_message(ms_text("x"));
        snprintf(name, sizeof name, "loc_%u", order[i]);
        m.has_time = true;
        m.time_ns = SECONDS((double)(i + 1));
        must_append(s.store, ms_str_of(name), &m);
    }
    must_list_all(s.store, order, n);
    store_reopen(&s);
    must_list_all(s.store, order, n);
    free(order);
    store_close(&s);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
