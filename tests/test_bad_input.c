/* Bad input to the store half of the library, one row each: the code, the field or word
 * that the error names, and the store, which is as before.
 */

#define _POSIX_C_SOURCE 200809L
#include "stores.h"
#include "twin.h"

#define TEXT(literal) {literal, sizeof literal - 1}

static char overlong[MS_KEY_MAX + 1];
static char deep[1200];

/* A store with a few messages, beside its twin. */
typedef struct pair {
    test_store s;
    twin t;
} pair;

static pair open_pair(void **state)
{
    store_options options;
    pair p;
    uint64_t rng = 3;
    memset(&options, 0, sizeof options);
    memset(overlong, 'n', sizeof overlong);
    memset(deep, '[', 600);
    memset(deep + 600, ']', 600);
    options.keep_unset_times = true;
    options.max_message = 4096;
    p.s = store_open((store_kind *)*state, &options);
    twin_init(&p.t);
    p.t.keep_unset_times = true;
    for (int i = 0; i < 8; i++) {
        ms_append_opts opts;
        ms_envelope m = random_message(&rng);
        if (m.content.text.len > 1000) m.content = ms_text("x");
        memset(&opts, 0, sizeof opts);
        opts.location = MS_STR("job");
        if (i == 2) m = ms_observation(ms_text("first"), ms_str_of(NULL));
        if (i == 2) m.key = MS_STR("used");
        twin_append_both(&p.t, p.s.store, &m, 1, &opts, false);
    }
    twin_must_equal(&p.t, p.s.store);
    return p;
}

static void close_pair(pair *p)
{
    store_close(&p->s);
    twin_deinit(&p->t);
}

/* The code, and a path or a part of the text where the row names one. */
static void must_say(const char *name, ms_result got, ms_result want, const ms_error *err,
                     const char *path, const char *text)
{
    if (got != want)
        fail_msg("%s: %s (%s), not %s", name, ms_result_text(got),
                 got != MS_OK ? err->message : "", ms_result_text(want));
    if (got == MS_OK) return;
    if (err->code != got) fail_msg("%s: the error has another code", name);
    if (err->message[0] == '\0') fail_msg("%s: no message", name);
    if (path != NULL && strcmp(err->path, path) != 0)
        fail_msg("%s: path \"%s\", not \"%s\"", name, err->path, path);
    if (text != NULL && strstr(err->message, text) == NULL)
        fail_msg("%s: \"%s\" does not say \"%s\"", name, err->message, text);
}


/* ---- envelopes: a sound message with one field that is not ---- */

static const struct field_row {
    const char *name;
    ms_type type;
    ms_field field;
    ms_str value;
    bool json;
    ms_result want;           /* the error names the field */
} field_rows[] = {
    {"empty agent key", MS_T_TASK, MS_F_AGENT_KEY, TEXT(""), false, MS_E_ARGUMENT},
    {"overlong agent key", MS_T_TASK, MS_F_AGENT_KEY, {overlong, MS_KEY_MAX + 1}, false,
     MS_E_TOO_LARGE},
    {"NUL in agent key", MS_T_TASK, MS_F_AGENT_KEY, TEXT("a\0b"), false, MS_E_ARGUMENT},
    {"bytes in agent key", MS_T_TASK, MS_F_AGENT_KEY, TEXT("a\xff"), false, MS_E_UTF8},
    {"overlong turn", MS_T_TASK, MS_F_TURN_ID, {overlong, MS_KEY_MAX + 1}, false,
     MS_E_TOO_LARGE},
    {"NUL in turn", MS_T_TASK, MS_F_TURN_ID, TEXT("\0"), false, MS_E_ARGUMENT},
    {"bad UTF-8 in turn", MS_T_TASK, MS_F_TURN_ID, TEXT("\xc3"), false, MS_E_UTF8},
    {"surrogate turn", MS_T_TASK, MS_F_TURN_ID, TEXT("\xed\xa0\x80"), false, MS_E_UTF8},
    {"empty key", MS_T_TASK, MS_F_KEY, TEXT(""), false, MS_E_ARGUMENT},
    {"overlong key", MS_T_TASK, MS_F_KEY, {overlong, MS_KEY_MAX + 1}, false,
     MS_E_TOO_LARGE},
    {"NUL in key", MS_T_TASK, MS_F_KEY, TEXT("k\0"), false, MS_E_ARGUMENT},
    {"overlong form in key", MS_T_TASK, MS_F_KEY, TEXT("\xc0\xaf"), false, MS_E_UTF8},
    {"key used before", MS_T_OBSERVATION, MS_F_KEY, TEXT("used"), false, MS_E_KEY_REUSED},
    {"content is half an object", MS_T_TASK, MS_F_CONTENT, TEXT("{\"a\":1"), true,
     MS_E_SYNTAX},
    {"content is no JSON at all", MS_T_TASK, MS_F_CONTENT, TEXT(""), true, MS_E_SYNTAX},
    {"content has two values", MS_T_TASK, MS_F_CONTENT, TEXT("1 2"), true, MS_E_SYNTAX},
    {"content has bad UTF-8 in JSON", MS_T_TASK, MS_F_CONTENT, TEXT("\"\xff\""), true,
     MS_E_UTF8},
    {"content is too deep", MS_T_TASK, MS_F_CONTENT, {deep, sizeof deep}, true,
     MS_E_DEPTH},
    {"content is one too deep", MS_T_TASK, MS_F_CONTENT,
     {deep + 600 - (MS_FIELD_MAX_DEPTH + 1), 2 * (MS_FIELD_MAX_DEPTH + 1)}, true,
     MS_E_DEPTH},
    {"args are no JSON", MS_T_ACTION, MS_F_ARGS, TEXT("{a:1}"), true, MS_E_SYNTAX},
    {"args have a comma too many", MS_T_ACTION, MS_F_ARGS, TEXT("{\"a\":1,}"), true,
     MS_E_SYNTAX},
    {"phase is no JSON", MS_T_SYNTHESIS, MS_F_PHASE_ID, TEXT("01"), true, MS_E_SYNTAX},
    {"extra is no JSON", MS_T_TASK, MS_F_EXTRA, TEXT("{\"a\":}"), false, MS_E_SYNTAX},
    {"extra is empty", MS_T_TASK, MS_F_EXTRA, TEXT(""), false, MS_E_SYNTAX},
    {"extra is an array", MS_T_TASK, MS_F_EXTRA, TEXT("[]"), false, MS_E_KIND},
    {"extra is null", MS_T_TASK, MS_F_EXTRA, TEXT("null"), false, MS_E_KIND},
};

/* Alone, and as number 2 of a batch whose others are sound: the path has its number, and
 * nothing of the batch is stored. */
static void must_refuse(pair *p, const char *name, const ms_envelope *bad, ms_result want,
                        const char *path)
{
    ms_envelope batch[4];
    ms_append_opts opts;
    ms_error err;
    char in_batch[64];
    uint64_t seq = 77;
    ms_result got = ms_append(p->s.store, MS_STR("job"), bad, &seq, &err);
    must_say(name, got, want, &err, path, NULL);
    memset(&opts, 0, sizeof opts);
    for (int i = 0; i < 4; i++) batch[i] = ms_user_message(ms_text("sound"));
    for (int i = 0; i < 4; i++) batch[i].location = MS_STR("fresh");
    batch[2] = *bad;
    batch[2].location = MS_STR("job");
    got = ms_append_batch(p->s.store, batch, 4, &opts, &err);
    snprintf(in_batch, sizeof in_batch, "messages[2].%s", path);
    must_say(name, got, want, &err, path[0] != '\0' ? in_batch : "messages[2]", NULL);
    twin_must_equal(&p->t, p->s.store);
}

static void a_bad_field_is_named(void **state)
{
    pair p = open_pair(state);
    for (size_t i = 0; i < sizeof field_rows / sizeof field_rows[0]; i++) {
        const struct field_row *row = &field_rows[i];
        ms_envelope m = message_of(row->type, MS_STR("x"));
        ms_value value = {row->value, row->json};
        message_set(&m, row->field, value);
        must_refuse(&p, row->name, &m, row->want, twin_field_name((int)row->field));
    }
    close_pair(&p);
}

/* The fields that the type needs, as the guide has them. */
static bool is_required(ms_type type, ms_field field)
{
    switch (type) {
    case MS_T_ACTION: return field == MS_F_TOOL || field == MS_F_ARGS;
    case MS_T_DELEGATION: return field == MS_F_WORKER || field == MS_F_TASK;
    case MS_T_SYNTHESIS: return field == MS_F_CONTENT || field == MS_F_FROM_MANAGER;
    case MS_T_OTHER: return field == MS_F_CONTENT || field == MS_F_TYPE_NAME;
    default: return field == MS_F_CONTENT;
    }
}

static void a_missing_field_is_named_for_each_type(void **state)
{
    pair p = open_pair(state);
    for (int type = 1; type < MS_TYPE_COUNT; type++) {
        for (int field = 1; field < MS_FIELD_COUNT; field++) {
            if (!is_required((ms_type)type, (ms_field)field)) continue;
            ms_envelope m = message_of((ms_type)type, MS_STR("x"));
            message_set(&m, (ms_field)field, ms_text(NULL));
            must_refuse(&p, ms_type_word((ms_type)type), &m, MS_E_MISSING,
                        twin_field_name(field));
        }
    }
    close_pair(&p);
}

static void types_and_times_and_roles_are_checked(void **state)
{
    static const int types[] = {0, -1, MS_TYPE_COUNT, 25, 63, 64, 65, 255, 1000000};
    static const int roles[] = {-1, 7, 14, 16, 1000};
    pair p = open_pair(state);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        ms_envelope m = ms_user_message(ms_text("x"));
        m.type = (ms_type)types[i];
        must_refuse(&p, "unknown type", &m, MS_E_TYPE, "type");
    }
    ms_envelope timed = ms_user_message(ms_text("x"));
    timed.has_time = true;
    timed.time_ns = MS_TIME_NONE;
    must_refuse(&p, "no time", &timed, MS_E_RANGE, "time_ns");
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        ms_envelope m = ms_user_message(ms_text("x"));
        m.role = (ms_role)roles[i];
        must_refuse(&p, "unknown role", &m, MS_E_ARGUMENT, "role");
    }
    close_pair(&p);
}

static void a_message_over_the_limit_is_refused(void **state)
{
    static char text[8192];
    pair p = open_pair(state);
    memset(text, 't', sizeof text);
    for (size_t len = 4096; len <= sizeof text; len += 512) {
        ms_envelope m = ms_user_message(ms_text_n(ms_str_n(text, len)));
        must_refuse(&p, "over max_message", &m, MS_E_TOO_LARGE, "");
    }
    close_pair(&p);
}


/* ---- locations ---- */

static const struct location_row {
    const char *name;
    ms_str location;
    ms_result want;
} location_rows[] = {
    {"no location", {NULL, 0}, MS_E_ARGUMENT},
    {"empty location", TEXT(""), MS_E_ARGUMENT},
    {"overlong location", {overlong, MS_KEY_MAX + 1}, MS_E_TOO_LARGE},
    {"NUL in location", TEXT("a\0b"), MS_E_ARGUMENT},
    {"bad UTF-8 in location", TEXT("\x80"), MS_E_UTF8},
};

static void a_bad_location_is_refused(void **state)
{
    pair p = open_pair(state);
    for (size_t i = 0; i < sizeof location_rows / sizeof location_rows[0]; i++) {
        const struct location_row *row = &location_rows[i];
        ms_envelope m = ms_user_message(ms_text("x")), batch[3];
        ms_append_opts opts;
        ms_error err;
        ms_result got = ms_append(p.s.store, row->location, &m, NULL, &err);
        must_say(row->name, got, row->want, &err, "location", NULL);
        m.location = row->location;
        got = ms_append(p.s.store, no_str(), &m, NULL, &err);
        must_say(row->name, got, row->want, &err, "location", NULL);
        if (row->location.ptr != NULL) { /* also where the call has another one */
            got = ms_append(p.s.store, MS_STR("job"), &m, NULL, &err);
            must_say(row->name, got, row->want, &err, "location", NULL);
        }
        memset(&opts, 0, sizeof opts);
        batch[0] = batch[1] = batch[2] = m;
        batch[0].location = batch[1].location = MS_STR("fresh");
        got = ms_append_batch(p.s.store, batch, 3, &opts, &err);
        must_say(row->name, got, row->want, &err, "messages[2].location", NULL);
        opts.location = row->location;
        batch[2].location = MS_STR("fresh");
        if (row->location.ptr != NULL) {
            got = ms_append_batch(p.s.store, batch, 3, &opts, &err);
            must_say(row->name, got, row->want, &err, "location", NULL);
        }
        twin_must_equal(&p.t, p.s.store);
    }
    close_pair(&p);
}


/* ---- queries ---- */

static ms_str many[MS_CURSOR_AGENTS + 1];

static const struct query_row {
    const char *name;
    ms_query q;               /* the team is set by its size */
    ms_result want;
    const char *text;
} query_rows[] = {
    {"agent view without key", {.location = TEXT("job"), .views = MS_VIEW_AGENT},
     MS_E_ARGUMENT, "agent"},
    {"union with agent view without key",
     {.location = TEXT("job"), .views = MS_VIEW_AGENT | MS_VIEW_CONVERSATION},
     MS_E_ARGUMENT, "agent"},
    {"unknown view", {.location = TEXT("job"), .views = 32}, MS_E_ARGUMENT, "view"},
    {"unknown view beside a known one",
     {.location = TEXT("job"), .views = 0x80000001u}, MS_E_ARGUMENT, "view"},
    {"large team without arena",
     {.location = TEXT("job"), .views = MS_VIEW_TEAM,
      .n_agent_keys = MS_CURSOR_AGENTS + 1},
     MS_E_ARENA, "arena"},
    {"by time without arena", {.location = TEXT("job"), .by_time = true}, MS_E_ARENA,
     "arena"},
};

static void a_bad_query_opens_nothing(void **state)
{
    pair p = open_pair(state);
    ms_cursor it;
    ms_error err;
    for (size_t i = 0; i < MS_CURSOR_AGENTS + 1; i++) {
        static char names[MS_CURSOR_AGENTS + 1][8];
        ms_append_opts opts;
        snprintf(names[i], sizeof names[i], "a%zu", i);
        many[i] = ms_str_of(names[i]);
        ms_envelope m = ms_message(MS_T_TASK, ms_text("x"));
        m.agent_key = many[i];
        memset(&opts, 0, sizeof opts);
        opts.location = MS_STR("job");
        twin_append_both(&p.t, p.s.store, &m, 1, &opts, false);
    }
    for (size_t i = 0; i < sizeof query_rows / sizeof query_rows[0]; i++) {
        ms_query q = query_rows[i].q;
        if (q.n_agent_keys != 0) q.agent_keys = many;
        memset(&it, 0xA5, sizeof it);
        ms_result got = ms_query_open(p.s.store, &q, &it, &err);
        must_say(query_rows[i].name, got, query_rows[i].want, &err, NULL,
                 query_rows[i].text);
        assert_null(it.store);
        assert_null(ms_next(&it));
        assert_int_equal(ms_cursor_close(&it, NULL), got);
    }
    twin_must_equal(&p.t, p.s.store);
    close_pair(&p);
}

/* The error of an arena that is too small names it. */
static void an_arena_that_is_too_small_is_reported(void **state)
{
    pair p = open_pair(state);
    char bytes[16];
    for (int i = 0; i < 2; i++) {
        ms_arena arena;
        ms_listing listing;
        ms_list_query list;
        ms_cursor it;
        ms_error err;
        ms_query q = query_of(MS_STR("job"), 0);
        memset(&list, 0, sizeof list);
        test_arena_init_fixed(&arena, bytes, i == 0 ? 0 : sizeof bytes);
        q.by_time = true;
        q.arena = &arena;
        ms_result got = ms_query_open(p.s.store, &q, &it, &err);
        must_say("by time", got, MS_E_ARENA, &err, NULL, "arena");
        assert_null(ms_next(&it));
        got = ms_list(p.s.store, &list, &arena, &listing, &err);
        must_say("list", got, MS_E_ARENA, &err, NULL, NULL);
        assert_int_equal(listing.count, 0);
    }
    ms_error err;
    ms_list_query list;
    ms_listing listing;
    memset(&list, 0, sizeof list);
    ms_result got = ms_list(p.s.store, &list, NULL, &listing, &err);
    must_say("list without arena", got, MS_E_ARENA, &err, NULL, "arena");
    close_pair(&p);
}


/* ---- options of an append ---- */

static void options_are_refused_when_they_cannot_be_met(void **state)
{
    pair p = open_pair(state);
    ms_envelope two[2] = {ms_user_message(ms_text("x")), ms_user_message(ms_text("y"))};
    ms_append_opts opts;
    ms_error err;
    uint64_t last = twin_last_seq(&p.t);
    for (uint64_t wrong = 0; wrong < last + 3; wrong++) {
        if (wrong == last) continue;
        memset(&opts, 0, sizeof opts);
        opts.location = MS_STR("job");
        opts.expect = true;
        opts.expect_seq = wrong;
        ms_result got = ms_append_batch(p.s.store, two, 2, &opts, &err);
        must_say("expect_seq", got, MS_E_CONFLICT, &err, NULL, NULL);
    }
    opts.location = no_str();
    two[0].location = two[1].location = MS_STR("job");
    opts.expect_seq = last;
    ms_result got = ms_append_batch(p.s.store, two, 2, &opts, &err);
    must_say("expect without location", got, MS_E_ARGUMENT, &err, NULL, "location");
    memset(&opts, 0, sizeof opts);
    opts.location = MS_STR("job");
    opts.keep_seq = true;
    two[0].seq = last + 5;
    two[1].seq = last + 5;
    got = ms_append_batch(p.s.store, two, 2, &opts, &err);
    must_say("the same number twice", got, MS_E_ARGUMENT, &err, "messages[1].seq", NULL);
    two[0].seq = last;
    two[1].seq = last + 1;
    got = ms_append_batch(p.s.store, two, 2, &opts, &err);
    must_say("a number of before", got, MS_E_ARGUMENT, &err, "messages[0].seq", NULL);
    two[0].seq = 0;
    got = ms_append_batch(p.s.store, two, 2, &opts, &err);
    must_say("number 0", got, MS_E_ARGUMENT, &err, "messages[0].seq", NULL);
    twin_must_equal(&p.t, p.s.store);
    close_pair(&p);
}

/* The same key twice in one batch, with other content: nothing of it is stored. */
static void a_batch_is_refused_when_it_reuses_a_key(void **state)
{
    pair p = open_pair(state);
    ms_envelope batch[3];
    ms_append_opts opts;
    ms_error err;
    memset(&opts, 0, sizeof opts);
    opts.location = MS_STR("job");
    for (int i = 0; i < 3; i++) batch[i] = ms_observation(ms_text(i < 2 ? "a" : "b"),
                                                          ms_str_of(NULL));
    for (int i = 0; i < 3; i++) batch[i].key = MS_STR("fresh key");
    ms_result got = ms_append_batch(p.s.store, batch, 3, &opts, &err);
    must_say("reused in a batch", got, MS_E_KEY_REUSED, &err, "messages[2].key", NULL);
    twin_must_equal(&p.t, p.s.store);
    batch[2].content = ms_text("a");
    assert_int_equal(ms_append_batch(p.s.store, batch, 3, &opts, &err), MS_OK);
    close_pair(&p);
}


/* ---- handles and pointers ---- */

static const char *const calls[] = {"append", "append_batch", "query_open", "four views",
                                    "get_by_seq", "store_stat", "list", "sync",
                                    "mem_reset", "selfcheck", "copy to", "copy from"};

/* The four views by their own functions: all return one code, or MS_OK. */
static ms_result call_views(ms_store *store, ms_error *err)
{
    ms_str job = MS_STR("job"), agent = MS_STR("w1");
    ms_cursor it[4];
    ms_result a = ms_get_conversation_messages(store, job, 0, &it[0], NULL);
    ms_result b = ms_get_agent_messages(store, job, agent, 0, &it[1], NULL);
    ms_result c = ms_get_global_messages(store, job, 0, &it[2], NULL);
    ms_result d = ms_get_team_messages(store, job, &agent, 1, 0, &it[3], err);
    return a == d && b == d && c == d ? d : MS_OK;
}

static ms_result call(size_t number, ms_store *store, ms_store *other, ms_error *err)
{
    ms_envelope m = ms_user_message(ms_text("x"));
    ms_query q = query_of(MS_STR("job"), 0);
    ms_cursor it;
    ms_arena arena;
    ms_listing listing;
    ms_stat stat;
    const ms_msg *msg;
    uint64_t seq;
    ms_result code;
    m.location = MS_STR("job");
    switch (number) {
    case 0: return ms_append(store, MS_STR("job"), &m, &seq, err);
    case 1: return ms_append_batch(store, &m, 1, NULL, err);
    case 2:
        memset(&it, 0xA5, sizeof it);
        code = ms_query_open(store, &q, &it, err);
        return ms_next(&it) == NULL ? code : MS_OK;
    case 3: return call_views(store, err);
    case 4: return ms_get_by_seq(store, 1, NULL, &msg, err);
    case 5: return ms_store_stat(store, &stat, err);
    case 6:
        test_arena_init(&arena, NULL);
        code = ms_list(store, NULL, &arena, &listing, err);
        ms_arena_deinit(&arena);
        return code;
    case 7: return ms_sync(store, &seq, err);
    case 8: return ms_mem_reset(store, err);
    case 9: return ms_selfcheck(store, err);
    case 10: return ms_copy(store, other, NULL, NULL, NULL, err);
    default: return ms_copy(other, store, NULL, NULL, NULL, err);
    }
}

static void a_handle_that_is_not_open_is_refused(void **state)
{
    test_store s = store_open(store_kind_at(2), NULL), other;
    struct ms_store zeroed;
    ms_store *const handles[] = {NULL, &zeroed, s.store};
    (void)state;
    other = store_open(store_kind_at(0), NULL);
    memset(&zeroed, 0, sizeof zeroed);
    append_text(s.store, "x");
    ms_close(s.store);
    for (size_t h = 0; h < 3; h++) {
        for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
            ms_error err;
            memset(&err, 0, sizeof err);
            ms_result got = call(i, handles[h], other.store, &err);
            must_say(calls[i], got, MS_E_CLOSED, &err, NULL, NULL);
            assert_int_equal(call(i, handles[h], other.store, NULL), MS_E_CLOSED);
        }
        assert_null(ms_mem_image(handles[h]).ptr);
        ms_close(handles[h]);
    }
    s.store = NULL;
    store_close(&s);
    store_close(&other);
}

static void pointers_are_checked(void **state)
{
    pair p = open_pair(state);
    ms_store *store = p.s.store;
    ms_envelope m = ms_user_message(ms_text("x"));
    ms_query q = query_of(MS_STR("job"), 0);
    ms_cursor it;
    ms_arena arena;
    ms_listing listing;
    test_arena_init(&arena, NULL);
    assert_int_equal(ms_append(store, MS_STR("job"), NULL, NULL, NULL), MS_E_ARGUMENT);
    assert_int_equal(ms_query_open(store, NULL, &it, NULL), MS_E_ARGUMENT);
    q.n_agent_keys = 2;
    q.views = MS_VIEW_TEAM;
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_E_ARGUMENT);
    assert_int_equal(ms_list(store, NULL, &arena, &listing, NULL), MS_OK);
    assert_int_equal(listing.count, 1);
    assert_int_equal(ms_copy(NULL, store, NULL, NULL, NULL, NULL), MS_E_CLOSED);
    assert_int_equal(ms_copy(store, store, NULL, NULL, NULL, NULL), MS_E_ARGUMENT);
    assert_int_equal(ms_cursor_close(NULL, NULL), MS_OK);
    ms_close(NULL);
    assert_int_equal(ms_append(store, MS_STR("job"), &m, NULL, NULL), MS_OK);
    ms_arena_deinit(&arena);
    close_pair(&p);
}


/* A memory with a number of subordinates and no list; a broadcast of no type. */
static void a_bad_memory_or_broadcast_is_refused(void **state)
{
    static const int types[] = {-1, 0, 25, 36, 64 + MS_T_SYNTHESIS, 100, 1000000};
    pair p = open_pair(state);
    ms_envelope m = ms_message(MS_T_GLOBAL_OBSERVATION, ms_text("x"));
    ms_memory memory;
    ms_cursor it;
    ms_error err;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        ms_memory_init(&memory, p.s.store, MS_STR("job"), MS_STR("w1"));
        m.type = (ms_type)types[i];
        ms_result got = ms_memory_broadcast(&memory, &m, NULL, &err);
        must_say("broadcast of no type", got, MS_E_TYPE, &err, "type", NULL);
    }
    memory.n_subordinates = 1;
    for (int by_time = 0; by_time < 2; by_time++) {
        memory.by_time = by_time;
        memory.conversation_limit = (size_t)by_time;
        ms_result got = ms_get_history(&memory, &it, &err);
        must_say("no subordinates", got, MS_E_ARGUMENT, &err, NULL, "subordinates");
        assert_null(ms_next(&it));
    }
    twin_must_equal(&p.t, p.s.store);
    close_pair(&p);
}


/* ---- descriptions ---- */

static void a_bad_description_opens_nothing(void **state)
{
    static const size_t chunks[] = {1, 100, 4097, 5000, 262143, SIZE_MAX};
    (void)state;
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        ms_mem_desc desc;
        ms_store *store = (ms_store *)overlong;
        ms_error err;
        memset(&desc, 0, sizeof desc);
        desc.chunk_size = chunks[i];
        ms_result got = ms_mem_open(&store, &desc, &err);
        must_say("chunk size", got, MS_E_ARGUMENT, &err, NULL, "chunk_size");
        assert_null(store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EVERY_STORE(a_bad_field_is_named),
        ON_EVERY_STORE(a_missing_field_is_named_for_each_type),
        ON_EVERY_STORE(types_and_times_and_roles_are_checked),
        ON_EVERY_STORE(a_message_over_the_limit_is_refused),
        ON_EVERY_STORE(a_bad_location_is_refused),
        ON_EVERY_STORE(a_bad_query_opens_nothing),
        ON_EVERY_STORE(an_arena_that_is_too_small_is_reported),
        ON_EVERY_STORE(options_are_refused_when_they_cannot_be_met),
        ON_EVERY_STORE(a_batch_is_refused_when_it_reuses_a_key),
        cmocka_unit_test(a_handle_that_is_not_open_is_refused),
        ON_EVERY_STORE(pointers_are_checked),
        ON_EVERY_STORE(a_bad_memory_or_broadcast_is_refused),
        cmocka_unit_test(a_bad_description_opens_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
