/* Queries of a small history, with the answers beside them; cursors that are copied or at
 * their end; many keys, locations and agents, the last number. On every kind of store.
 * Queries and listings of random histories are in test_twin.
 */

#define _POSIX_C_SOURCE 200809L
#include "stores.h"


/* ---- one small history, and what each query returns of it ---- */

#define UNSET (-1)

static const struct row {
    const char *location, *agent;
    ms_type type;
    const char *turn;
    int time;                 /* seconds */
} rows[] = {
    {"job", NULL, MS_T_USER_MESSAGE, "t1", 100},              /* 1 */
    {"job", "manager", MS_T_TASK, "t1", 101},                 /* 2 */
    {"job", "manager", MS_T_DELEGATION, "t1", 102},           /* 3 */
    {"job", "w1", MS_T_TASK, "t1", 103},                      /* 4 */
    {"job", "w1", MS_T_ACTION, "t1", 104},                    /* 5 */
    {"job", "w1", MS_T_OBSERVATION, "t1", UNSET},             /* 6 */
    {"other", NULL, MS_T_USER_MESSAGE, "t1", 50},             /* 7 */
    {"job", "manager", MS_T_STRATEGIC_PLAN, "t1", UNSET},     /* 8 */
    {"job", "w1", MS_T_GLOBAL_OBSERVATION, "t1", 106},        /* 9 */
    {"job", "w2", MS_T_ERROR, "t1", 90},                      /* 10: clock jumped back */
    {"job", "w1", MS_T_FINAL, "t1", 107},                     /* 11 */
    {"job", "manager", MS_T_SYNTHESIS, "t1", 108},            /* 12 */
    {"job", "manager", MS_T_ASSISTANT_MESSAGE, "t1", 109},    /* 13 */
    {"job", NULL, MS_T_USER_MESSAGE, "t2", UNSET},            /* 14 */
    {"other", "w1", MS_T_ACTION, "t1", 51},                   /* 15 */
    {"job", "w2", MS_T_INJECTED_CONTEXT, "t2", 90},           /* 16 */
    {"job", "w1", MS_T_DATA, "t2", 111},                      /* 17 */
    {"job", "w2", MS_T_OTHER, "t2", 112},                     /* 18 */
    {"job", NULL, MS_T_GLOBAL_OBSERVATION, NULL, UNSET},      /* 19 */
    {"other", "w2", MS_T_GLOBAL_OBSERVATION, "t2", 52},       /* 20 */
};

#define ROWS (sizeof rows / sizeof rows[0])
#define JOB "1 2 3 4 5 6 8 9 10 11 12 13 14 16 17 18 19"
#define CONV MS_VIEW_CONVERSATION
#define AGENT MS_VIEW_AGENT
#define TEAM MS_VIEW_TEAM
#define GLOBAL MS_VIEW_GLOBAL

static const struct question {
    const char *name, *location;
    unsigned views;
    const char *agent, *team;     /* team: keys with blanks between */
    ms_type_set types, agent_types;
    const char *turn;
    int since, until;             /* 0: not asked */
    unsigned after, before;       /* row numbers */
    size_t limit;
    bool oldest, reverse, by_time, untimed_first;
    const char *answer;           /* row numbers */
} questions[] = {
    {.name = "conversation", .location = "job", .views = CONV, .answer = "1 13 14"},
    {.name = "agent", .location = "job", .views = AGENT, .agent = "w1",
     .answer = "4 5 6 11"},
    {.name = "agent has no plans, synthesis, answers", .location = "job", .views = AGENT,
     .agent = "manager", .answer = "2 3"},
    {.name = "agent, wide", .location = "job", .views = AGENT, .agent = "manager",
     .agent_types = MS_TYPES_AGENT_WIDE, .answer = "2 3 8 12"},
    {.name = "agent, own set", .location = "job", .views = AGENT, .agent = "w1",
     .agent_types = MS_BIT(MS_T_ERROR) | MS_BIT(MS_T_FINAL) | MS_BIT(MS_T_DATA),
     .answer = "11 17"},
    {.name = "half an agent's name", .location = "job", .views = AGENT, .agent = "w",
     .answer = ""},
    {.name = "global", .location = "job", .views = GLOBAL, .answer = "9 12 19"},
    {.name = "team, repeated and unknown", .location = "job", .views = TEAM,
     .team = "w2 w1 nobody w2 w1", .answer = "4 5 6 9 10 11 16 17 18"},
    {.name = "empty team", .location = "job", .views = TEAM, .answer = ""},
    {.name = "no view is timeline", .location = "job", .answer = JOB},
    {.name = "timeline and more", .location = "job",
     .views = MS_VIEW_TIMELINE | CONV | TEAM, .answer = JOB},
    {.name = "agent whose set is the conversation", .location = "job",
     .views = AGENT | CONV, .agent = "manager", .agent_types = MS_TYPES_ALL,
     .answer = "1 2 3 8 12 13 14"},
    {.name = "four views", .location = "job", .views = CONV | AGENT | TEAM | GLOBAL,
     .agent = "manager", .team = "w1 w2",
     .answer = "1 2 3 4 5 6 9 10 11 12 13 14 16 17 18 19"},
    {.name = "types of a team", .location = "job", .views = TEAM, .team = "w1",
     .types = MS_BIT(MS_T_ACTION) | MS_BIT(MS_T_FINAL), .answer = "5 11"},
    {.name = "types that a view lacks", .location = "job", .views = CONV,
     .types = MS_BIT(MS_T_TASK), .answer = ""},
    {.name = "types and agent types", .location = "job", .views = AGENT, .agent = "w1",
     .types = MS_BIT(MS_T_TASK) | MS_BIT(MS_T_DATA), .answer = "4"},
    {.name = "newest of a turn", .location = "job", .turn = "t1", .limit = 2,
     .answer = "12 13"},
    {.name = "since and until", .location = "job", .since = 102, .until = 107,
     .answer = "3 4 5 9"},
    {.name = "oldest until", .location = "job", .until = 102, .limit = 2, .oldest = true,
     .answer = "1 2"},
    {.name = "after one of another location", .location = "job", .views = CONV,
     .after = 7, .answer = "13 14"},
    {.name = "nothing between", .location = "job", .after = 13, .before = 14,
     .answer = ""},
    {.name = "before the first", .location = "job", .before = 1, .answer = ""},
    {.name = "after behind before", .location = "job", .after = 17, .before = 13,
     .answer = ""},
    {.name = "limit beyond all", .location = "job", .views = CONV, .limit = 100,
     .answer = "1 13 14"},
    {.name = "newest of a union", .location = "job", .views = CONV | GLOBAL, .limit = 3,
     .answer = "13 14 19"},
    {.name = "oldest reversed", .location = "job", .views = TEAM, .team = "w1 w2",
     .limit = 3, .oldest = true, .reverse = true, .answer = "6 5 4"},
    {.name = "half a location's name", .location = "jo", .answer = ""},
    {.name = "everything",
     .answer = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20"},
    {.name = "empty location is everything", .location = "", .types = MS_BIT(MS_T_ACTION),
     .answer = "5 15"},
    {.name = "team everywhere", .views = TEAM, .team = "w2", .answer = "10 16 18 20"},
    {.name = "newest everywhere reversed", .limit = 3, .reverse = true,
     .answer = "20 19 18"},
    {.name = "by time", .location = "job", .by_time = true,
     .answer = "10 16 1 2 3 4 5 6 8 9 11 12 13 14 17 18 19"},
    {.name = "by time, untimed first", .location = "job", .by_time = true,
     .untimed_first = true, .answer = "6 8 14 19 10 16 1 2 3 4 5 9 11 12 13 17 18"},
    {.name = "by time, reversed", .location = "job", .by_time = true, .reverse = true,
     .answer = "19 18 17 14 13 12 11 9 8 6 5 4 3 2 1 16 10"},
    {.name = "by time, a team", .location = "job", .views = TEAM, .team = "w2 manager",
     .by_time = true, .answer = "10 16 2 3 8 12 13 18"},
    {.name = "by time since", .location = "job", .by_time = true, .until = 104,
     .answer = "10 16 1 2 3 4"},
};

#define QUESTIONS (sizeof questions / sizeof questions[0])

typedef struct history {
    test_store s;
    uint64_t seq[ROWS + 1];   /* of each row, from 1 */
} history;

static history open_history(void **state)
{
    store_options options;
    history h;
    memset(&options, 0, sizeof options);
    memset(&h, 0, sizeof h);
    options.keep_unset_times = true;
    h.s = store_open((store_kind *)*state, &options);
    for (size_t i = 0; i < ROWS; i++) {
        ms_envelope m = message_of(rows[i].type, MS_STR("text"));
        m.agent_key = ms_str_of(rows[i].agent);
        m.turn_id = ms_str_of(rows[i].turn);
        m.has_time = rows[i].time >= 0;
        m.time_ns = m.has_time ? SECONDS(rows[i].time) : 0;
        h.seq[i + 1] = must_append(h.s.store, ms_str_of(rows[i].location), &m);
    }
    return h;
}

/* Splits at blanks. */
static size_t split(const char *text, ms_str out[8])
{
    size_t n = 0;
    for (const char *p = text; p != NULL && *p != '\0';) {
        size_t len = strcspn(p, " ");
        out[n++] = ms_str_n(p, len);
        p += len + (p[len] == ' ');
    }
    return n;
}

static ms_query query_for(const history *h, const struct question *ask, ms_str team[8],
                          ms_arena *arena)
{
    ms_query q = query_of(ms_str_of(ask->location), ask->views);
    q.types = ask->types;
    q.agent_types = ask->agent_types;
    q.agent_key = ms_str_of(ask->agent);
    q.n_agent_keys = split(ask->team, team);
    q.agent_keys = q.n_agent_keys != 0 ? team : NULL;
    q.turn_id = ms_str_of(ask->turn);
    q.has_since = ask->since > 0;
    q.since_ns = SECONDS(ask->since);
    q.has_until = ask->until > 0;
    q.until_ns = SECONDS(ask->until);
    q.after_seq = h->seq[ask->after];
    q.before_seq = h->seq[ask->before];
    q.limit = ask->limit;
    q.oldest = ask->oldest;
    q.reverse = ask->reverse;
    q.by_time = ask->by_time;
    q.untimed_first = ask->untimed_first;
    q.arena = arena;
    return q;
}

/* The row of a sequence number. */
static unsigned row_of(const history *h, uint64_t seq)
{
    for (unsigned i = 1; i <= ROWS; i++)
        if (h->seq[i] == seq) return i;
    fail_msg("no row has the sequence %llu", (unsigned long long)seq);
    return 0;
}

/* Runs a cursor to its end and writes row numbers with blanks between. */
static void rows_of(const history *h, ms_cursor *it, char out[128])
{
    size_t used = 0;
    out[0] = '\0';
    for (const ms_msg *msg; (msg = query_next(it)) != NULL;)
        used += (size_t)snprintf(out + used, 128 - used, "%s%u", used != 0 ? " " : "",
                                 row_of(h, ms_seq(msg)));
}

static void queries_return_the_rows_beside_them(void **state)
{
    history h = open_history(state);
    for (size_t i = 0; i < QUESTIONS; i++) {
        ms_str team[8];
        ms_arena arena;
        ms_cursor it;
        ms_error err;
        char rows_got[128];
        test_arena_init(&arena, NULL);
        ms_query q = query_for(&h, &questions[i], team, &arena);
        if (ms_query_open(h.s.store, &q, &it, &err) != MS_OK)
            fail_msg("%s: %s", questions[i].name, err.message);
        rows_of(&h, &it, rows_got);
        if (strcmp(rows_got, questions[i].answer) != 0)
            fail_msg("%s: \"%s\", not \"%s\"", questions[i].name, rows_got,
                     questions[i].answer);
        ms_arena_deinit(&arena);
    }
    store_close(&h.s);
}

static void must_be(const history *h, ms_result code, ms_cursor *it, const char *want)
{
    char got[128];
    assert_int_equal(code, MS_OK);
    rows_of(h, it, got);
    assert_string_equal(got, want);
}

static void the_four_views_by_name(void **state)
{
    history h = open_history(state);
    ms_store *store = h.s.store;
    ms_str team[] = {MS_STR("w2"), MS_STR("w1")}, job = MS_STR("job"), w1 = team[1];
    ms_cursor it;
    must_be(&h, ms_get_conversation_messages(store, job, 0, &it, NULL), &it, "1 13 14");
    must_be(&h, ms_get_conversation_messages(store, job, 2, &it, NULL), &it, "13 14");
    must_be(&h, ms_get_agent_messages(store, job, w1, 0, &it, NULL), &it, "4 5 6 11");
    must_be(&h, ms_get_agent_messages(store, job, w1, 3, &it, NULL), &it, "5 6 11");
    must_be(&h, ms_get_global_messages(store, job, 0, &it, NULL), &it, "9 12 19");
    must_be(&h, ms_get_team_messages(store, job, team, 2, 0, &it, NULL), &it,
                 "4 5 6 9 10 11 16 17 18");
    must_be(&h, ms_get_team_messages(store, job, team, 2, 4, &it, NULL), &it,
                 "11 16 17 18");
    must_be(&h, ms_get_team_messages(store, job, NULL, 0, 0, &it, NULL), &it, "");
    store_close(&h.s);
}


/* ---- cursors ---- */

/* With as many streams as a cursor holds without an arena. */
static void copies_of_a_cursor_go_on_on_their_own(void **state)
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

static void a_cursor_stays_at_its_end(void **state)
{
    history h = open_history(state);
    ms_query q = query_of(MS_STR("job"), CONV);
    ms_cursor it;
    memset(&it, 0, sizeof it);
    assert_null(ms_next(&it));
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    assert_int_equal(ms_query_open(h.s.store, &q, &it, NULL), MS_OK);
    for (int i = 0; i < 3; i++) assert_non_null(ms_next(&it));
    for (int i = 0; i < 3; i++) assert_null(ms_next(&it));
    assert_int_equal(it.returned, 3);
    assert_int_equal(it.damaged, 0);
    for (int i = 0; i < 3; i++) assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    assert_null(ms_next(&it));
    assert_int_equal(ms_query_open(h.s.store, &q, &it, NULL), MS_OK);
    assert_non_null(ms_next(&it));
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    assert_null(ms_next(&it));
    store_close(&h.s);
}

/* Thousands of locations, some of whose names differ in their last byte only. */
static void many_locations_are_kept_apart(void **state)
{
    enum { LOCATIONS = 2000, LEN = 1000 };
    static char name[LEN + 8];
    static uint64_t seqs[4][LOCATIONS];
    store_options options;
    memset(&options, 0, sizeof options);
    options.room = (size_t)16 << 20;
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

static void agents_are_listed_by_newest_activity_when_they_are_many(void **state)
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

static void ten_thousand_keys_are_remembered(void **state)
{
    enum { KEYS = 10000 };
    static uint64_t seqs[KEYS];
    store_options options;
    memset(&options, 0, sizeof options);
    options.room = (size_t)8 << 20;
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
static void the_last_sequence_number_is_the_end(void **state)
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
    const struct CMUnitTest tests[] = {
        ON_EVERY_STORE(queries_return_the_rows_beside_them),
        ON_EVERY_STORE(the_four_views_by_name),
        ON_ARENA_STORES(copies_of_a_cursor_go_on_on_their_own),
        ON_EVERY_STORE(a_cursor_stays_at_its_end),
        ON_EVERY_STORE(many_locations_are_kept_apart),
        ON_EVERY_STORE(agents_are_listed_by_newest_activity_when_they_are_many),
        ON_EVERY_STORE(ten_thousand_keys_are_remembered),
        ON_EVERY_STORE(the_last_sequence_number_is_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
