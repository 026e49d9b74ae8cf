/* Queries, the four views by name and listings beside a twin; cursors that are copied or at
 * their end; many keys, locations and agents, the last number. On every kind of store, of
 * the smallest builds, too. Stores that change are in test_twin.
 */

#define _POSIX_C_SOURCE 200809L
#include "twin.h"

#define CONV MS_VIEW_CONVERSATION
#define AGENT MS_VIEW_AGENT
#define TEAM MS_VIEW_TEAM
#define GLOBAL MS_VIEW_GLOBAL


/* ---- random queries ---- */

/* A cursor that was opened returns what the twin has for the query. */
static void must_read_query(const twin *t, ms_result code, ms_cursor *it,
                            const ms_query *q)
{
    const twin_msg **want = twin_answers(t);
    assert_int_equal(code, MS_OK);
    twin_must_read_as(want, twin_query(t, q, want), it, false, "a view");
    free(want);
}

/* The views of a location by their names are queries of these views. */
static void must_view(const twin *t, ms_store *store, const ms_query *q)
{
    ms_str team[2] = {q->agent_key, MS_STR("w1")};
    ms_query view = query_of(q->location, CONV);
    ms_cursor it;
    view.limit = q->limit;
    view.agent_key = q->agent_key;
    view.agent_keys = team;
    view.n_agent_keys = q->limit % 3;
    must_read_query(t, ms_get_conversation_messages(store, q->location, q->limit, &it,
                                                    NULL), &it, &view);
    view.views = AGENT;
    must_read_query(t, ms_get_agent_messages(store, q->location, q->agent_key, q->limit,
                                             &it, NULL), &it, &view);
    view.views = GLOBAL;
    must_read_query(t, ms_get_global_messages(store, q->location, q->limit, &it, NULL),
                    &it, &view);
    view.views = TEAM;
    must_read_query(t, ms_get_team_messages(store, q->location, team, view.n_agent_keys,
                                            q->limit, &it, NULL), &it, &view);
}

TEST_WITH(ON_EVERY_STORE, queries_views_and_listings_equal_those_of_a_twin)
{
    const store_kind *kind = (const store_kind *)*state;
    const store_options options = {.keep_unset_times = true, .room = (size_t)4 << 20};
    const ms_append_opts opts = {.keep_seq = false};
    test_store s = store_open(kind, &options);
    uint64_t rng = test_seed();
    ms_arena arena;
    twin t;
    twin_init(&t);
    t.keep_unset_times = true;
    t.no_commit = s.store->backend->change == NULL;
    test_arena_init(&arena, NULL);
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < 40; i++) {
            ms_envelope m = random_message(&rng);
            twin_append_both(&t, s.store, &m, 1, &opts, false);
        }
        for (size_t i = 0; i < test_times(800); i++) {
            ms_str team[TEAM_MAX];
            ms_query q = random_query(&rng, twin_last_seq(&t), team, &arena);
            ms_list_query list = {test_one_in(&rng, 2), q.location, no_str(), q.limit,
                                  false};
            if (!list.agents) list.location = no_str();
            if (test_one_in(&rng, 2)) list.prefix = MS_STR("job_1");
            if (test_one_in(&rng, 4)) q.after_seq = t.items[test_below(&rng, t.count)]->seq;
            twin_must_query(&t, s.store, &q);
            if (i % 8 == 0) must_view(&t, s.store, &q);
            if (i % 8 == 0) twin_must_list(&t, s.store, &list);
            ms_arena_reset(&arena);
        }
        store_reopen(&s);
    }
    ms_arena_deinit(&arena);
    twin_deinit(&t);
    store_close(&s);
}


/* ---- cursors ---- */

/* With as many streams as a cursor holds without an arena. */
/* Without views a query has what its agents wrote, of every type. */
TEST_WITH(ON_EVERY_STORE, agents_select_by_writer_when_a_query_has_no_views)
{
    static const struct {
        const char *agent;
        size_t team;                /* w1, w2 */
        unsigned views;
        ms_type_set agent_types;
        size_t want;
    } rows[] = {{NULL, 0, 0, 0, 7},         {"nobody", 0, 0, 0, 0}, {"w1", 0, 0, 0, 3},
                {"w1", 0, AGENT, 0, 1},     {NULL, 1, 0, 0, 3},     {NULL, 2, 0, 0, 5},
                {"m", 1, 0, 0, 4},          {"w1", 2, 0, 0, 5},     {"w1", 2, CONV, 0, 3},
                {"w1", 0, MS_VIEW_TIMELINE, 0, 7},
                {"w1", 0, 0, MS_BIT(MS_T_FINAL), 1}};
    static const struct { ms_type type; const char *agent; } all[] = {
        {MS_T_USER_MESSAGE, NULL},      {MS_T_ASSISTANT_MESSAGE, "w1"},
        {MS_T_REASONING, "w1"},         {MS_T_FINAL, "w1"},
        {MS_T_ASSISTANT_MESSAGE, "w2"}, {MS_T_GLOBAL_OBSERVATION, "w2"},
        {MS_T_TASK, "m"}};
    const ms_str team[2] = {MS_STR("w1"), MS_STR("w2")};
    test_store s = store_open((store_kind *)*state, NULL);
    for (size_t i = 0; i < COUNT(all); i++) {
        ms_envelope m = message_of(all[i].type, MS_STR("x"));
        m.agent_key = ms_str_of(all[i].agent);
        must_append(s.store, MS_STR("job"), &m);
    }
    for (size_t i = 0; i < COUNT(rows); i++)
        for (int everywhere = 0; everywhere < 2; everywhere++) {
            ms_query q = query_of(everywhere ? no_str() : MS_STR("job"), rows[i].views);
            q.agent_key = ms_str_of(rows[i].agent);
            q.agent_keys = team;
            q.n_agent_keys = rows[i].team;
            q.agent_types = rows[i].agent_types;
            if (count_of(s.store, &q) != rows[i].want) fail_msg("row %zu", i);
        }
    store_close(&s);
}

TEST_WITH(ON_ARENA_STORES, copies_of_a_cursor_go_on_on_their_own)
{
    enum { AGENTS = MS_CURSOR_AGENTS, MESSAGES = 20 * AGENTS };
    static char names[AGENTS][8];
    test_store s = store_open((store_kind *)*state, NULL);
    ms_str team[AGENTS];
    for (size_t i = 0; i < MESSAGES; i++) {
        ms_envelope m = message_of(i % 3 ? MS_T_TASK : MS_T_DATA, MS_STR("x"));
        snprintf(names[i % AGENTS], sizeof names[0], "a%zu", i % AGENTS);
        team[i % AGENTS] = m.agent_key = ms_str_of(names[i % AGENTS]);
        must_append(s.store, MS_STR("job"), &m);
    }
    for (int backwards = 0; backwards < 2; backwards++) {
        ms_query q = query_of(MS_STR("job"), TEAM | CONV | GLOBAL | AGENT);
        ms_cursor it[3];
        q.agent_key = MS_STR("a1");
        q.agent_keys = team;
        q.n_agent_keys = AGENTS;
        q.reverse = backwards;
        assert_int_equal(ms_query_open(s.store, &q, &it[0], NULL), MS_OK);
        for (uint64_t n = 0; n < MESSAGES; n++) {
            uint64_t want = q.reverse ? MESSAGES - n : n + 1;
            if (n == 5) it[1] = it[0];
            if (n == 50) it[2] = it[1];
            for (int i = 0; i < (n < 5 ? 1 : n < 50 ? 2 : 3); i++)
                assert_int_equal(ms_seq(ms_next(&it[i])), want);
        }
        for (int i = 0; i < 3; i++) assert_null(ms_next(&it[i]));
        for (int i = 0; i < 3; i++)
            assert_int_equal(ms_cursor_close(&it[i], NULL), MS_OK);
    }
    store_close(&s);
}

TEST_WITH(ON_EVERY_STORE, a_cursor_stays_at_its_end)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_query q = query_of(MS_STR("job"), CONV);
    ms_cursor it;
    memset(&it, 0, sizeof it);
    assert_null(ms_next(&it));
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    for (int i = 0; i < 3; i++) {
        ms_envelope m = ms_user_message(ms_text("x"));
        must_append(s.store, q.location, &m);
    }
    assert_int_equal(ms_query_open(s.store, &q, &it, NULL), MS_OK);
    for (int i = 0; i < 3; i++) assert_non_null(ms_next(&it));
    for (int i = 0; i < 3; i++) assert_null(ms_next(&it));
    assert_int_equal(it.returned, 3);
    assert_int_equal(it.damaged, 0);
    for (int i = 0; i < 3; i++) assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    assert_null(ms_next(&it));
    assert_int_equal(ms_query_open(s.store, &q, &it, NULL), MS_OK);
    assert_non_null(ms_next(&it));
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    assert_null(ms_next(&it));
    store_close(&s);
}

/* Thousands of locations, some of whose names differ in their last byte only. */
TEST_WITH(ON_EVERY_STORE, many_locations_are_kept_apart)
{
    enum { LOCATIONS = 2000, LEN = 1000 };
    static char name[LEN + 8];
    static uint64_t seqs[4][LOCATIONS];
    store_options options = {.room = (size_t)16 << 20};
    test_store s = store_open((store_kind *)*state, &options);
    memset(name, 'l', sizeof name);
    for (int round = 0; round < 4; round++) {
        for (unsigned i = 0; i < LOCATIONS; i++) {
            size_t from = i % 10 ? LEN - 2 : 0;     /* each tenth is a long one */
            snprintf(name + LEN, sizeof name - LEN, "%u", i);
            ms_envelope m = ms_observation(ms_text(name + LEN), ms_str_of(NULL));
            m.agent_key = round % 2 ? MS_STR("w1") : MS_STR("w2");
            seqs[round][i] = must_append(s.store, ms_str_of(name + from), &m);
        }
    }
    for (unsigned i = 0; i < LOCATIONS; i++) {
        snprintf(name + LEN, sizeof name - LEN, "%u", i);
        ms_query q = query_of(ms_str_of(name + (i % 10 ? LEN - 2 : 0)), AGENT);
        ms_cursor it;
        q.agent_key = MS_STR("w2");
        assert_int_equal(ms_query_open(s.store, &q, &it, NULL), MS_OK);
        for (uint64_t round = 0; round < 4; round += 2) {
            const ms_msg *msg = ms_next(&it);
            assert_non_null(msg);
            assert_int_equal(ms_seq(msg), seqs[round][i]);
            assert_true(ms_str_equal(ms_content(msg).text, ms_str_of(name + LEN)));
        }
        assert_null(ms_next(&it));
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    }
    assert_int_equal(ms_selfcheck(s.store, NULL), MS_OK);
    store_close(&s);
}


/* ---- listings ---- */

enum { CROWD = 300 }; /* more agents than a walk over messages finds */

/* Lists the agents of "a" by their newest activity: w299 comes first, or last after its
 * second message was hidden. */
static void must_list(ms_store *store, uint64_t seqs[2][CROWD], bool hidden,
                      const char *prefix, size_t limit)
{
    const ms_list_query q = {true, MS_STR("a"), ms_str_of(prefix), limit, false};
    ms_arena arena;
    ms_listing got;
    size_t n = 0;
    test_arena_init(&arena, NULL);
    assert_int_equal(ms_list(store, &q, &arena, &got, NULL), MS_OK);
    for (unsigned i = 0; i < CROWD && (limit == 0 || n < limit); i++) {
        unsigned at = (2 * CROWD - 1 - i - hidden) % CROWD;
        bool once = hidden && at == CROWD - 1;
        char name[16];
        snprintf(name, sizeof name, "w%u", at);
        if (strncmp(name, prefix, strlen(prefix)) != 0) continue;
        assert_true(n < got.count);
        const ms_info *info = &got.items[n++];
        assert_true(ms_str_equal(info->location, MS_STR("a")));
        assert_true(ms_str_equal(info->agent_key, ms_str_of(name)));
        assert_int_equal(info->messages, once ? 1 : 2);
        assert_int_equal(info->first_seq, seqs[0][at]);
        assert_int_equal(info->last_seq, seqs[once ? 0 : 1][at]);
    }
    assert_int_equal(got.count, n);
    ms_arena_deinit(&arena);
}

TEST_WITH(ON_EVERY_STORE, agents_are_listed_by_newest_activity_when_they_are_many)
{
    static const struct {
        const char *prefix;
        size_t limit;
    } asks[] = {{"", 0}, {"", CROWD - 10}, {"", 3}, {"w29", 0}, {"w1", 105}, {"x", 0}};
    static uint64_t seqs[2][CROWD];
    const store_options options = {.room = (size_t)4 << 20};
    test_store s = store_open((store_kind *)*state, &options);
    for (int round = 0; round < 2; round++)
        for (unsigned i = 0; i < CROWD; i++) {
            ms_type type = round == 0 ? MS_T_SYNTHESIS : MS_T_OBSERVATION;
            ms_envelope m = message_of(type, MS_STR("x"));
            char name[16];
            snprintf(name, sizeof name, "w%u", i);
            m.agent_key = ms_str_of(name);
            seqs[round][i] = must_append(s.store, MS_STR("a"), &m);
            must_append(s.store, MS_STR("b"), &m);
        }
    for (size_t i = 0; i < COUNT(asks); i++)
        must_list(s.store, seqs, false, asks[i].prefix, asks[i].limit);
#ifndef MSGSTORE_NO_CHANGES
    assert_int_equal(ms_hide(s.store, seqs[1][CROWD - 1], NULL), MS_OK);
    for (size_t i = 0; i < COUNT(asks); i++)
        must_list(s.store, seqs, true, asks[i].prefix, asks[i].limit);
#endif
    store_close(&s);
}


/* ---- keys and numbers ---- */

TEST_WITH(ON_EVERY_STORE, ten_thousand_keys_are_remembered)
{
    enum { KEYS = 10000 };
    static uint64_t seqs[KEYS];
    store_options options = {.room = (size_t)8 << 20};
    test_store s = store_open((store_kind *)*state, &options);
    for (int round = 0; round < 2; round++) {
        for (unsigned i = 0; i < KEYS; i++) {
            char key[16];
            snprintf(key, sizeof key, "key-%u", i);
            ms_envelope m = ms_observation(ms_text("x"), ms_str_of(NULL));
            m.key = ms_str_of(key);
            uint64_t seq = must_append(s.store, i % 2 ? MS_STR("a") : MS_STR("b"), &m);
            if (round == 0) seqs[i] = seq;
            assert_int_equal(seq, seqs[i]);
            assert_true(i == 0 || seq > seqs[i - 1]);
        }
    }
    ms_query all = query_of(no_str(), 0);
    assert_int_equal(count_of(s.store, &all), KEYS);
    assert_int_equal(ms_selfcheck(s.store, NULL), MS_OK);
    store_close(&s);
}

/* After the largest number comes an error, not a number of before. */
TEST_WITH(ON_EVERY_STORE, the_last_sequence_number_is_the_end)
{
    skip_on_a_server(state, "the largest number of a server is 2^63");
    test_store s = store_open((store_kind *)*state, NULL);
    ms_envelope m = ms_user_message(ms_text("x"));
    const ms_append_opts opts = {.location = MS_STR("job"), .keep_seq = true};
    uint64_t last;
    size_t stored = 1;
    m.seq = UINT64_MAX;
    assert_int_equal(ms_append_batch(s.store, &m, 1, &opts, NULL), MS_E_ARGUMENT);
    m.seq = last = UINT64_MAX - 3;
    assert_int_equal(ms_append_batch(s.store, &m, 1, &opts, NULL), MS_OK);
    for (int i = 0; i < 6; i++) {
        uint64_t seq = 0;
        if (ms_append(s.store, MS_STR("job"), &m, &seq, NULL) != MS_OK) continue;
        if (seq <= last) fail_msg("after %llu comes %llu", (unsigned long long)last,
                                  (unsigned long long)seq);
        last = seq;
        stored++;
    }
    ms_query all = query_of(no_str(), 0);
    assert_int_equal(count_of(s.store, &all), stored);
    assert_int_equal(ms_selfcheck(s.store, NULL), MS_OK);
    store_close(&s);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
