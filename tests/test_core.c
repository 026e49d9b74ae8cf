/* [core] and [mem]: what an arena store and a log share: long hidden ranges, teams. */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"
#include "inside.h"

/* A log, or (1) an arena store. */
static ms_store *store_of(int kind)
{
    ms_store *store;
    begin();
    ms_log_desc desc = desc_of(MS_LOG_CREATE);
    desc.segment_size = 1 << 20;
    if (kind == 0) return open_with(&desc);
    assert_int_equal(ms_mem_open(&store, NULL, NULL), MS_OK);
    return store;
}

static void hidden_range_is_passed_over_when_it_is_long(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        ms_store *store = store_of(kind);
        ms_query q = query_at("room");
        uint64_t n;
        for (int i = 0; i < 600; i++) say(store, i % 3 ? "room" : "hall", NULL);
        assert_int_equal(ms_hide_range(store, q.location, 31, 570, &n, NULL), MS_OK);
        assert_int_equal(n, 360);
        assert_int_equal(count_all(store, q, MS_OK), 40);
        q.reverse = true;
        assert_int_equal(count_all(store, q, MS_OK), 40);
        q.limit = 25; /* 20 after the range, 5 before it */
        assert_int_equal(count_all(store, q, MS_OK), 25);
        q = query_at("room");
        assert_int_equal(ms_hide_range(store, q.location, 31, 600, &n, NULL), MS_OK);
        assert_int_equal(count_all(store, q, MS_OK), 20);
        say(store, "room", NULL);
        assert_int_equal(count_all(store, q, MS_OK), 21);
        finish(store);
    }
}

/* More streams than a cursor has room for, and no arena; an absent name in a team. */
static void query_needs_an_arena_when_a_team_is_large(void **state)
{
    enum { TEAM = 60 };
    char names[TEAM][16];
    ms_str team[TEAM];
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        ms_store *store = store_of(kind);
        ms_cursor it;
        ms_query q = query_at("room");
        for (size_t i = 0; i < TEAM; i++) {
            snprintf(names[i], sizeof names[i], "agent_%u", (unsigned)i);
            team[i] = ms_str_of(names[i]);
            say(store, "room", names[i]);
        }
        q.views = MS_VIEW_TEAM;
        q.agent_keys = team;
        q.n_agent_keys = TEAM;
        assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_E_ARENA);
        q.n_agent_keys = 3;
        team[1] = ms_str_n(NULL, 0);
        assert_int_equal(count_all(store, q, MS_OK), 2);
        finish(store);
    }
}

static void arena_store_is_refused_when_its_sizes_cannot_be(void **state)
{
    static const struct {
        size_t buffer_size, chunk_size;
        ms_result result;
    } rows[] = {{4096, 0, MS_E_ARGUMENT},
                {0, SIZE_MAX / 2 + 1, MS_E_ARGUMENT},
                {0, 1 << 20, MS_OK}};
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_mem_desc desc;
        ms_store *store;
        memset(&desc, 0, sizeof desc);
        desc.buffer_size = rows[i].buffer_size;
        desc.chunk_size = rows[i].chunk_size;
        assert_int_equal(ms_mem_open(&store, &desc, NULL), rows[i].result);
        if (store != NULL) assert_null(ms_mem_image(store).ptr);
        ms_close(store);
    }
}

/* Records of an arena store whose header is damaged, among messages that are changed. */
static void damaged_record_is_passed_over_when_its_place_is_changed(void **state)
{
    static const uint32_t which[] = {9, 20, 59};
    ms_store *store = store_of(1);
    ms__mem *m = ms__mem_of(store);
    uint64_t n;
    (void)state;
    for (int i = 0; i < 60; i++) say(store, "room", "ann");
    assert_int_equal(ms_hide(store, 2, NULL), MS_OK);
    for (size_t i = 0; i < 3; i++) {
        uint32_t unit = ms__chunk_entry(ms__postings_chunk(&m->tail.live.all, which[i]),
                                        which[i]);
        const void *r = ms__mem_at(&m->core, (uint64_t)unit * 8);
        ((unsigned char *)(uintptr_t)r)[9] ^= 1;
    }
    assert_int_equal(count_all(store, query_at("room"), MS_E_DAMAGED), 56);
    assert_int_equal(look_up(store, 60), MS_E_DAMAGED);
    ms_envelope better = ms_user_message(ms_text("better"));
    assert_int_equal(ms_amend(store, 60, &better, NULL), MS_E_DAMAGED);
    assert_int_equal(ms_hide_range(store, MS_STR("room"), 8, 25, &n, NULL), MS_OK);
    assert_int_equal(n, 16);
    ms_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hidden_range_is_passed_over_when_it_is_long),
        cmocka_unit_test(query_needs_an_arena_when_a_team_is_large),
        cmocka_unit_test(arena_store_is_refused_when_its_sizes_cannot_be),
        cmocka_unit_test(damaged_record_is_passed_over_when_its_place_is_changed),
    };
    return run_inside(tests);
}
