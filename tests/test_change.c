/* Changes: amend, hide, rewind, redact, notes, facts, forks, streams, and the records
 * that they leave, over every kind of store. What a failed change leaves is compared with
 * a picture of everything that the store shows, record by record. With TEST_THREADS only
 * the tests in which threads meet.
 */

#define _GNU_SOURCE
#include "stores.h"
#include "json_equal.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

/* A text that occurs nowhere else: what is erased must not be found in any byte. */
#define SECRET "Xq7-secret-Zk9"

#define JOB MS_STR("job")
#define OTHER_JOB MS_STR("other job")

static int64_t now = SECONDS(1000);

static test_store open_store(void **state)
{
    store_options options;
    memset(&options, 0, sizeof options);
    options.clock = clock_at(&now);
    options.room = (size_t)8 << 20;
    now = SECONDS(1000);
    return store_open((const store_kind *)*state, &options);
}


/* ---- what a store shows, as text ---- */

static void draw_value(FILE *out, const char *name, ms_value value)
{
    if (value.text.ptr == NULL) return;
    fprintf(out, " %s%s=", name, value.json ? "(json)" : "");
    fwrite(value.text.ptr, 1, value.text.len, out);
}

static void draw_message(FILE *out, const ms_msg *msg)
{
    int64_t time = 0;
    bool has_time = ms_time(msg, &time);
    unsigned long long seq = (unsigned long long)ms_seq(msg);
    fprintf(out, "kind %d seq %llu type %d role %d flags %u", (int)ms_kind_of(msg), seq,
            (int)ms_type_of(msg), (int)ms_role_of(msg),
            (unsigned)ms_flags(msg) & ~(unsigned)MS_FLAG_SYNCED);
    if (has_time) fprintf(out, " time %lld", (long long)time);
    for (int i = 1; i < MS_FIELD_COUNT; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        draw_value(out, name, ms_get(msg, (ms_field)i));
    }
    fputc('\n', out);
}

static void draw_query(FILE *out, ms_store *store, const ms_query *q)
{
    ms_cursor it;
    ms_error err;
    const ms_msg *msg;
    if (ms_query_open(store, q, &it, &err) != MS_OK) fail_msg("query: %s", err.message);
    while ((msg = ms_next(&it)) != NULL) draw_message(out, msg);
    if (ms_cursor_close(&it, &err) != MS_OK) fail_msg("cursor: %s", err.message);
}

/* Everything that a store shows, from malloc: messages with their texts so far, records
 * as they stand, totals, facts. SYNCED, which a log sets by itself, is left out. */
static char *picture(ms_store *store)
{
    const ms_str places[] = {JOB, OTHER_JOB, MS_STR("branch")};
    char *text = NULL;
    size_t size = 0;
    ms_stat stat;
    ms_error err;
    ms_arena arena;
    FILE *out = open_memstream(&text, &size);
    ms_query q = query_of(no_str(), 0);
    if (out == NULL) abort();
    test_arena_init(&arena, NULL);
    q.arena = &arena;
    draw_query(out, store, &q);
    q.raw = MS_RAW_ALL;
    draw_query(out, store, &q);
    if (ms_store_stat(store, &stat, &err) != MS_OK) fail_msg("stat: %s", err.message);
    fprintf(out, "messages %llu last %llu bytes %llu hidden %llu changes %llu\n",
            (unsigned long long)stat.messages, (unsigned long long)stat.last_seq,
            (unsigned long long)stat.bytes, (unsigned long long)stat.hidden,
            (unsigned long long)stat.changes);
    for (size_t i = 0; i < 3; i++) {
        ms_str facts;
        if (ms_location_get(store, places[i], &arena, &facts, &err) != MS_OK)
            fail_msg("facts: %s", err.message);
        fprintf(out, "facts %.*s\n", (int)facts.len, facts.ptr);
    }
    if (ms_selfcheck(store, &err) != MS_OK) fail_msg("selfcheck: %s", err.message);
    ms_arena_deinit(&arena);
    fclose(out);
    return text;
}

/* Is the store as on the picture? Frees it. */
static void must_be_as(ms_store *store, char *before, const char *what)
{
    char *after = picture(store);
    if (strcmp(before, after) != 0)
        fail_msg("%s: was\n%s\nis\n%s", what, before, after);
    free(before);
    free(after);
}

/* A store that was closed and opened again, or attached again, shows the same. */
static void must_survive(test_store *s)
{
    char *before = picture(s->store);
    store_reopen(s);
    if (s->kind->fixed) {
        store_options none;
        ms_error err;
        memset(&none, 0, sizeof none);
        ms_mem_desc desc = store_desc(&none);
        desc.buffer = s->buffer;
        desc.buffer_size = s->size;
        desc.clock = clock_at(&now);
        ms_close(s->store);
        if (ms_mem_attach(&s->store, &desc, NULL, &err) != MS_OK)
            fail_msg("attach: %s", err.message);
    }
    must_be_as(s->store, before, "opened again");
}


/* ---- small helpers ---- */

static uint64_t say(ms_store *store, const char *text)
{
    ms_envelope m = ms_user_message(ms_text(text));
    return must_append(store, JOB, &m);
}

static uint64_t say_at(ms_store *store, ms_str location, const char *text)
{
    ms_envelope m = ms_user_message(ms_text(text));
    return must_append(store, location, &m);
}

static void must_ok(ms_result result, const ms_error *err, const char *what)
{
    if (result != MS_OK) fail_msg("%s: %s", what, err->message);
}

static void amend(ms_store *store, uint64_t seq, const char *text)
{
    ms_error err;
    ms_envelope m = ms_user_message(ms_text(text));
    must_ok(ms_amend(store, seq, &m, &err), &err, "amend");
}

static void hide(ms_store *store, uint64_t seq)
{
    ms_error err;
    must_ok(ms_hide(store, seq, &err), &err, "hide");
}

/* The contents of a query, each followed by '|'. */
static void must_give(ms_store *store, const ms_query *q, const char *want)
{
    char got[4096] = "";
    size_t used = 0;
    ms_cursor it;
    ms_error err;
    const ms_msg *msg;
    must_ok(ms_query_open(store, q, &it, &err), &err, "query");
    while ((msg = ms_next(&it)) != NULL && used < sizeof got - 300) {
        ms_str text = ms_content(msg).text;
        if (ms_type_of(msg) == MS_T_ACTION) text = ms_get(msg, MS_F_ARGS).text;
        used += (size_t)snprintf(got + used, sizeof got - used, "%.*s|",
                                 (int)(text.len < 200 ? text.len : 200), text.ptr);
    }
    must_ok(ms_cursor_close(&it, &err), &err, "cursor");
    assert_string_equal(got, want);
}

static void must_show(ms_store *store, ms_str location, const char *want)
{
    ms_arena arena;
    ms_query q = query_of(location, 0);
    test_arena_init(&arena, NULL);
    must_give(store, &q, want);
    q.arena = &arena;
    must_give(store, &q, want);
    q.by_time = true;
    must_give(store, &q, want);
    ms_arena_deinit(&arena);
}

static const ms_msg *must_get(ms_store *store, uint64_t seq)
{
    const ms_msg *msg = NULL;
    ms_error err;
    must_ok(ms_get_by_seq(store, seq, NULL, &msg, &err), &err, "by number");
    assert_int_equal(ms_seq(msg), seq);
    return msg;
}

static void must_have_text(const ms_msg *msg, const char *text)
{
    assert_true(ms_str_equal(ms_content(msg).text, ms_str_of(text)));
}

static size_t times_in(const void *bytes, size_t size, const char *text)
{
    size_t n = 0, len = strlen(text);
    const char *p = (const char *)bytes, *end = p + size;
    while ((p = (const char *)memmem(p, (size_t)(end - p), text, len)) != NULL) {
        n++;
        p++;
    }
    return n;
}

/* How often a text stands in a store's bytes, wherever it is: the whole file or buffer.
 * SIZE_MAX: it lies on the heap. */
static size_t times_stored(const test_store *s, const char *text)
{
    size_t size, n;
    if (s->kind->fixed) return times_in(s->buffer, s->size, text);
    if (!s->kind->log) return SIZE_MAX;
    char *bytes = read_file(s->path, &size);
    assert_non_null(bytes);
    n = times_in(bytes, size, text);
    free(bytes);
    return n;
}

static bool lies_open(const test_store *s)
{
    return s->kind->fixed || s->kind->log;
}

/* JSON that is equal, whatever its order. */
static void must_equal_json(ms_str got, const char *want)
{
    json_t *a = json_parse_n(got.ptr, got.len), *b = json_parse_n(want, strlen(want));
    json_where where;
    memset(&where, 0, sizeof where);
    assert_non_null(b);
    if (a == NULL || !json_same(a, b, 0, &where))
        fail_msg("JSON is %.*s, should be %s", (int)got.len, got.ptr, want);
    json_decref(a);
    json_decref(b);
}

static void must_have_facts(ms_store *store, ms_str location, const char *want)
{
    ms_arena arena;
    ms_str facts;
    ms_error err;
    test_arena_init(&arena, NULL);
    must_ok(ms_location_get(store, location, &arena, &facts, &err), &err, "facts");
    must_equal_json(facts, want);
    ms_arena_deinit(&arena);
}

static ms_stat stat_of(ms_store *store)
{
    ms_stat stat;
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    return stat;
}


/* ---- amend ---- */

/* Every field set, so that what goes and what stays can be told apart. */
static ms_envelope full_message(void)
{
    ms_envelope m = ms_user_message(ms_text("before"));
    m.has_time = true;
    m.time_ns = SECONDS(12.5);
    m.agent_key = MS_STR("manager");
    m.turn_id = MS_STR("turn");
    m.id = MS_STR("id-1");
    m.key = MS_STR("key-1");
    m.summary = MS_STR("short");
    m.extra = MS_STR("{\"a\":1}");
    m.call_id = MS_STR("call");
    m.role = MS_ROLE_SYSTEM;
    return m;
}

static void what_an_amend_leaves_unset(void **state)
{
    test_store s = open_store(state);
    ms_envelope m = full_message(), change = ms_user_message(ms_text("after"));
    int64_t time = 0;
    say(s.store, "first");
    uint64_t seq = must_append(s.store, JOB, &m);
    say(s.store, "last");
    assert_int_equal(ms_amend(s.store, seq, &change, NULL), MS_OK);
    for (int i = 0; i < 2; i++) {
        const ms_msg *msg = must_get(s.store, seq);
        must_have_text(msg, "after");
        assert_true(ms_time(msg, &time) && time == SECONDS(12.5));
        assert_true(ms_str_equal(test_location(msg), JOB));
        assert_true(ms_str_equal(test_agent_key(msg), MS_STR("manager")));
        assert_true(ms_str_equal(test_turn_id(msg), MS_STR("turn")));
        assert_true(ms_str_equal(ms_get(msg, MS_F_ID).text, MS_STR("id-1")));
        assert_true(ms_str_equal(ms_get(msg, MS_F_KEY).text, MS_STR("key-1")));
        assert_null(ms_get(msg, MS_F_SUMMARY).text.ptr);
        assert_null(ms_get(msg, MS_F_EXTRA).text.ptr);
        assert_null(ms_get(msg, MS_F_CALL_ID).text.ptr);
        assert_int_equal(ms_role_of(msg), MS_ROLE_USER);
        assert_int_equal(ms_type_of(msg), MS_T_USER_MESSAGE);
        assert_true(ms_flags(msg) & MS_FLAG_AMENDED);
        assert_false(ms_flags(msg) & (MS_FLAG_UNFINISHED | MS_FLAG_REDACTED));
        ms_query q = query_of(JOB, 0);
        must_give(s.store, &q, "first|after|last|");
        must_survive(&s);
    }
    store_close(&s);
}

static void what_an_amend_sets(void **state)
{
    test_store s = open_store(state);
    ms_envelope m = full_message();
    int64_t time = 0;
    uint64_t seq = must_append(s.store, JOB, &m);
    m.content = ms_json(MS_STR("[1,2]"));
    m.time_ns = SECONDS(99);
    m.turn_id = MS_STR("turn 2");
    m.id = MS_STR("id-2");
    m.summary = MS_STR("longer");
    m.flags = MS_FLAG_JOINED | MS_FLAG_UNFINISHED | MS_FLAG_REDACTED;
    m.location = JOB;
    assert_int_equal(ms_amend(s.store, seq, &m, NULL), MS_OK);
    const ms_msg *msg = must_get(s.store, seq);
    assert_true(ms_content(msg).json);
    assert_true(ms_time(msg, &time) && time == SECONDS(99));
    assert_true(ms_str_equal(test_turn_id(msg), MS_STR("turn 2")));
    assert_true(ms_str_equal(ms_get(msg, MS_F_ID).text, MS_STR("id-2")));
    assert_true(ms_str_equal(ms_get(msg, MS_F_SUMMARY).text, MS_STR("longer")));
    assert_int_equal(ms_role_of(msg), MS_ROLE_SYSTEM);
    assert_int_equal(ms_flags(msg) & (MS_FLAG_JOINED | MS_FLAG_AMENDED |
                                      MS_FLAG_UNFINISHED | MS_FLAG_REDACTED),
                     MS_FLAG_JOINED | MS_FLAG_AMENDED);
    ms_query q = query_of(JOB, 0);
    q.turn_id = MS_STR("turn");
    assert_int_equal(count_of(s.store, &q), 0);
    q.turn_id = MS_STR("turn 2");
    assert_int_equal(count_of(s.store, &q), 1);
    q.has_since = true;
    q.since_ns = SECONDS(99);
    assert_int_equal(count_of(s.store, &q), 1);
    q.since_ns = SECONDS(100);
    assert_int_equal(count_of(s.store, &q), 0);
    store_close(&s);
}

/* Nothing of the message's place changes: order, newest n, number. */
static void an_amended_message_keeps_its_place(void **state)
{
    test_store s = open_store(state);
    uint64_t seq[6];
    char text[2] = "a";
    for (int i = 0; i < 6; i++, text[0]++) seq[i] = say(s.store, text);
    amend(s.store, seq[1], "B");
    amend(s.store, seq[5], "F");
    amend(s.store, seq[1], "BB");
    ms_query q = query_of(JOB, MS_VIEW_CONVERSATION);
    must_give(s.store, &q, "a|BB|c|d|e|F|");
    q.limit = 2;
    must_give(s.store, &q, "e|F|");
    q.oldest = true;
    must_give(s.store, &q, "a|BB|");
    q.reverse = true;
    must_give(s.store, &q, "BB|a|");
    q.limit = 0;
    q.after_seq = seq[0];
    q.before_seq = seq[2];
    must_give(s.store, &q, "BB|");
    must_have_text(must_get(s.store, seq[1]), "BB");
    assert_int_equal(stat_of(s.store).messages, 6);
    assert_int_equal(stat_of(s.store).changes, 3);
    assert_int_equal(stat_of(s.store).last_seq, seq[5]);
    must_survive(&s);
    store_close(&s);
}

static void expect_amend(ms_store *store, uint64_t seq, const ms_envelope *m,
                         ms_result want, const char *path)
{
    ms_error err;
    memset(&err, 0, sizeof err);
    char *before = picture(store);
    ms_result got = ms_amend(store, seq, m, &err);
    if (got != want)
        fail_msg("amend of %llu: %s, should be %s", (unsigned long long)seq,
                 ms_result_text(got), ms_result_text(want));
    assert_int_equal(err.code, want);
    if (path != NULL) assert_string_equal(err.path, path);
    must_be_as(store, before, "a refused amend");
}

static void what_cannot_be_amended(void **state)
{
    test_store s = open_store(state);
    ms_envelope m = full_message(), change = ms_user_message(ms_text("after"));
    uint64_t seq = must_append(s.store, JOB, &m), hidden = say(s.store, "hidden");
    uint64_t erased = say(s.store, "erased");
    hide(s.store, hidden);
    assert_int_equal(ms_redact(s.store, erased, NULL), MS_OK);
    expect_amend(s.store, 0, &change, MS_E_NOT_FOUND, NULL);
    expect_amend(s.store, erased + 1, &change, MS_E_NOT_FOUND, NULL);
    expect_amend(s.store, UINT64_MAX, &change, MS_E_NOT_FOUND, NULL);
    expect_amend(s.store, hidden, &change, MS_E_HIDDEN, NULL);
    expect_amend(s.store, erased, &change, MS_E_CONFLICT, NULL);
    ms_envelope other = ms_assistant_message(ms_text("after"));
    expect_amend(s.store, seq, &other, MS_E_TYPE, NULL);
    other = change;
    other.location = OTHER_JOB;
    expect_amend(s.store, seq, &other, MS_E_ARGUMENT, "location");
    other = change;
    other.agent_key = MS_STR("worker");
    expect_amend(s.store, seq, &other, MS_E_ARGUMENT, "agent_key");
    other = change;
    other.key = MS_STR("key-2");
    expect_amend(s.store, seq, &other, MS_E_ARGUMENT, "key");
    other = change;
    other.content.text = no_str();
    expect_amend(s.store, seq, &other, MS_E_MISSING, "content");
    other = change;
    other.extra = MS_STR("{\"a\":}");
    expect_amend(s.store, seq, &other, MS_E_SYNTAX, "extra");
    other = change;
    other.type = (ms_type)77;
    expect_amend(s.store, seq, &other, MS_E_TYPE, NULL);
    assert_int_equal(ms_amend(NULL, seq, &change, NULL), MS_E_CLOSED);
    assert_int_equal(ms_amend(s.store, seq, NULL, NULL), MS_E_ARGUMENT);
    store_close(&s);
}

/* The key is compared with what was appended first, the amended text is unknown to it. */
static void a_key_belongs_to_what_was_appended(void **state)
{
    test_store s = open_store(state);
    ms_envelope m = full_message(), change = ms_user_message(ms_text("after"));
    uint64_t seq = must_append(s.store, JOB, &m), again = 0;
    assert_int_equal(ms_amend(s.store, seq, &change, NULL), MS_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ms_append(s.store, JOB, &m, &again, NULL), MS_OK);
        assert_int_equal(again, seq);
        ms_envelope other = full_message();
        other.content = ms_text("after");
        assert_int_equal(ms_append(s.store, JOB, &other, &again, NULL),
                         MS_E_KEY_REUSED);
        if (i == 0) hide(s.store, seq);
    }
    store_close(&s);
}

static void amended_ten_thousand_times(void **state)
{
    test_store s = open_store(state);
    uint64_t first = say(s.store, "first"), seq = say(s.store, "v0");
    char text[32];
    int times = (int)test_times(10000);
    say(s.store, "last");
    for (int i = 1; i <= times; i++) {
        snprintf(text, sizeof text, "v%d", i);
        amend(s.store, seq, text);
        if (i % 997 == 0) must_have_text(must_get(s.store, seq), text);
    }
    for (int i = 0; i < 2; i++) {
        char want[64];
        snprintf(want, sizeof want, "first|v%d|last|", times);
        ms_query q = query_of(JOB, 0);
        must_give(s.store, &q, want);
        must_have_text(must_get(s.store, seq), text);
        must_have_text(must_get(s.store, first), "first");
        assert_int_equal(stat_of(s.store).changes, times);
        store_reopen(&s);
    }
    ms_query raw = query_of(JOB, 0);
    raw.raw = MS_RAW_AMENDS;
    raw.about_seq = seq;
    assert_int_equal(count_of(s.store, &raw), times);
    raw.limit = 1;
    strcat(text, "|");
    must_give(s.store, &raw, text);
    store_close(&s);
}

static void an_amend_over_the_limit(void **state)
{
    store_options options;
    char *text = large_text(5000);
    memset(&options, 0, sizeof options);
    options.max_message = 4096;
    test_store s = store_open((const store_kind *)*state, &options);
    uint64_t seq = say(s.store, "small");
    ms_envelope m = ms_user_message(ms_text_n(ms_str_n(text, 5000)));
    expect_amend(s.store, seq, &m, MS_E_TOO_LARGE, NULL);
    ms_value note = ms_text_n(ms_str_n(text, 5000));
    char *before = picture(s.store);
    assert_int_equal(ms_note(s.store, seq, MS_STR("k"), note, NULL), MS_E_TOO_LARGE);
    must_be_as(s.store, before, "a large note");
    free(text);
    store_close(&s);
}

/* Bad UTF-8 is replaced, as in an append. */
static void an_amend_is_repaired(void **state)
{
    test_store s = open_store(state);
    uint64_t seq = say(s.store, "x");
    ms_envelope m = ms_user_message(ms_text_n(MS_STR("a\xff")));
    assert_int_equal(ms_amend(s.store, seq, &m, NULL), MS_OK);
    must_have_text(must_get(s.store, seq), "a\xef\xbf\xbd");
    assert_true(ms_flags(must_get(s.store, seq)) & MS_FLAG_REPAIRED);
    store_close(&s);
}


/* ---- hide, rewind ---- */

static void a_hidden_message_is_in_no_view(void **state)
{
    test_store s = open_store(state);
    static const ms_type types[] = {MS_T_USER_MESSAGE, MS_T_OBSERVATION,
                                    MS_T_GLOBAL_OBSERVATION, MS_T_TASK, MS_T_REASONING};
    const ms_str team[] = {MS_STR("w1"), MS_STR("w2")};
    ms_arena arena;
    test_arena_init(&arena, NULL);
    for (size_t i = 0; i < 5; i++) {
        ms_envelope m = message_of(types[i], MS_STR("x"));
        m.agent_key = MS_STR("w1");
        m.turn_id = MS_STR("t");
        ms_envelope kept = m;
        kept.content = ms_text("kept");
        uint64_t seq = must_append(s.store, JOB, &m);
        must_append(s.store, JOB, &kept);
        hide(s.store, seq);
    }
    for (int round = 0; round < 2; round++) {
        for (unsigned views = 0; views < 32; views++) {
            ms_query q = query_of(JOB, views);
            ms_cursor it;
            const ms_msg *msg;
            q.agent_key = MS_STR("w1");
            q.agent_keys = team;
            q.n_agent_keys = 2;
            assert_int_equal(ms_query_open(s.store, &q, &it, NULL), MS_OK);
            while ((msg = ms_next(&it)) != NULL) must_have_text(msg, "kept");
            assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
        }
        ms_query turn = query_of(JOB, 0);
        turn.turn_id = MS_STR("t");
        must_give(s.store, &turn, "kept|kept|kept|kept|kept|");
        turn.limit = 3;
        must_give(s.store, &turn, "kept|kept|kept|");
        must_survive(&s);
    }
    ms_list_query list;
    ms_listing listing;
    memset(&list, 0, sizeof list);
    for (int agents = 0; agents < 2; agents++) {
        list.agents = agents == 1;
        assert_int_equal(ms_list(s.store, &list, &arena, &listing, NULL), MS_OK);
        assert_int_equal(listing.count, 1);
        assert_int_equal(listing.items[0].messages, 5);
    }
    assert_int_equal(stat_of(s.store).messages, 5);
    assert_int_equal(stat_of(s.store).hidden, 5);
    assert_int_equal(stat_of(s.store).changes, 5);
    ms_arena_deinit(&arena);
    store_close(&s);
}

static void a_hidden_message_is_not_found(void **state)
{
    test_store s = open_store(state);
    uint64_t one = say(s.store, "one"), two = say(s.store, "two");
    uint64_t three = say(s.store, "three");
    const ms_msg *msg;
    ms_error err;
    hide(s.store, two);
    assert_int_equal(ms_get_by_seq(s.store, two, NULL, &msg, NULL), MS_E_NOT_FOUND);
    assert_int_equal(ms_seq(must_get(s.store, one)), one);
    char *before = picture(s.store);
    assert_int_equal(ms_hide(s.store, two, &err), MS_E_HIDDEN);
    assert_int_equal(err.code, MS_E_HIDDEN);
    assert_int_equal(ms_hide(s.store, three + 1, NULL), MS_E_NOT_FOUND);
    assert_int_equal(ms_hide(s.store, 0, NULL), MS_E_NOT_FOUND);
    assert_int_equal(ms_hide(NULL, one, NULL), MS_E_CLOSED);
    must_be_as(s.store, before, "refused hides");
    store_close(&s);
}

/* The history that an agent reads shows what there is now, too. */
static void a_history_of_what_is_there(void **state)
{
    test_store s = open_store(state);
    ms_memory memory;
    ms_cursor it;
    ms_error err;
    const ms_msg *msg;
    char got[200] = "";
    const char *texts[] = {"a", "b", "c", "d"};
    uint64_t seq[8];
    for (size_t i = 0; i < 8; i++) {
        ms_envelope m = i < 4 ? ms_user_message(ms_text(texts[i]))
                              : ms_observation(ms_text(texts[i - 4]), ms_str_of(NULL));
        if (i >= 4) m.agent_key = MS_STR("agent");
        seq[i] = must_append(s.store, JOB, &m);
    }
    amend(s.store, seq[1], "B");
    hide(s.store, seq[3]);
    hide(s.store, seq[4]);
    assert_int_equal(ms_redact(s.store, seq[6], NULL), MS_OK);
    ms_memory_init(&memory, s.store, JOB, MS_STR("agent"));
    memory.conversation_limit = 2;
    must_ok(ms_get_history(&memory, &it, &err), &err, "history");
    while ((msg = ms_next(&it)) != NULL) {
        ms_str text = ms_content(msg).text;
        snprintf(got + strlen(got), 20, "%.*s|", (int)text.len, text.ptr);
    }
    must_ok(ms_cursor_close(&it, &err), &err, "history");
    assert_string_equal(got, "B|c|b|[redacted]|d|");
    store_close(&s);
}

/* Compare and append goes by what is visible; numbers and last_seq by what ever was. */
static void what_is_expected_is_visible(void **state)
{
    test_store s = open_store(state);
    ms_append_opts opts;
    ms_envelope m = ms_user_message(ms_text("next"));
    uint64_t one = say(s.store, "one"), two = say(s.store, "two"), seq = 0;
    memset(&opts, 0, sizeof opts);
    hide(s.store, two);
    assert_int_equal(stat_of(s.store).last_seq, two);
    assert_int_equal(test_refresh(s.store, &seq, NULL), MS_OK);
    assert_int_equal(seq, two);
    opts.location = JOB;
    opts.expect = true;
    opts.expect_seq = two;
    assert_int_equal(ms_append_batch(s.store, &m, 1, &opts, NULL), MS_E_CONFLICT);
    opts.expect_seq = one;
    opts.seqs = &seq;
    assert_int_equal(ms_append_batch(s.store, &m, 1, &opts, NULL), MS_OK);
    assert_true(seq > two);
    hide(s.store, one);
    hide(s.store, seq);
    opts.expect_seq = 0;
    assert_int_equal(ms_append_batch(s.store, &m, 1, &opts, NULL), MS_OK);
    must_show(s.store, JOB, "next|");
    store_close(&s);
}

static void must_rewind(ms_store *store, uint64_t seq, uint64_t want)
{
    uint64_t hidden = 99;
    ms_error err;
    must_ok(ms_rewind(store, JOB, seq, &hidden, &err), &err, "rewind");
    assert_int_equal(hidden, want);
}

static void rewinds_inside_rewinds(void **state)
{
    test_store s = open_store(state);
    uint64_t a = say(s.store, "a"), b = say(s.store, "b"), other;
    other = say_at(s.store, OTHER_JOB, "elsewhere");
    say(s.store, "c");
    must_rewind(s.store, b, 1);
    uint64_t d = say(s.store, "d");
    say(s.store, "e");
    must_show(s.store, JOB, "a|b|d|e|");
    must_rewind(s.store, d, 1);
    must_rewind(s.store, d, 0);
    say(s.store, "f");
    must_rewind(s.store, a, 3);
    must_show(s.store, JOB, "a|");
    must_show(s.store, OTHER_JOB, "elsewhere|");
    say(s.store, "g");
    must_show(s.store, JOB, "a|g|");
    must_survive(&s);
    must_rewind(s.store, 0, 2);
    must_show(s.store, JOB, "");
    must_rewind(s.store, 0, 0);
    say(s.store, "after");
    must_show(s.store, JOB, "after|");
    must_survive(&s);
    assert_int_equal(stat_of(s.store).hidden, 7);
    hide(s.store, other);
    store_close(&s);
}

/* A rewind that hides nothing writes nothing, and what is appended later is seen. */
static void a_rewind_of_nothing_is_no_record(void **state)
{
    test_store s = open_store(state);
    uint64_t a = say(s.store, "a"), hidden = 7;
    char *before = picture(s.store);
    must_rewind(s.store, a, 0);
    assert_int_equal(ms_rewind(s.store, MS_STR("nowhere"), 0, &hidden, NULL), MS_OK);
    assert_int_equal(hidden, 0);
    hidden = 7;
    assert_int_equal(
        ms_hide_range(s.store, JOB, a + 1, UINT64_MAX, &hidden, NULL), MS_OK);
    assert_int_equal(hidden, 0);
    must_be_as(s.store, before, "nothing hidden");
    say(s.store, "b");
    must_show(s.store, JOB, "a|b|");
    store_close(&s);
}

static void ranges_of_one_location(void **state)
{
    test_store s = open_store(state);
    uint64_t seq[8], hidden = 0;
    char text[2] = "a";
    for (int i = 0; i < 8; i++, text[0]++)
        seq[i] = say_at(s.store, i % 2 ? OTHER_JOB : JOB, text);
    assert_int_equal(ms_hide_range(s.store, JOB, seq[1], seq[5], &hidden, NULL), MS_OK);
    assert_int_equal(hidden, 2);
    must_show(s.store, JOB, "a|g|");
    must_show(s.store, OTHER_JOB, "b|d|f|h|");
    assert_int_equal(ms_hide_range(s.store, JOB, seq[4], seq[6], &hidden, NULL), MS_OK);
    assert_int_equal(hidden, 1);
    assert_int_equal(ms_hide_range(s.store, OTHER_JOB, seq[3], seq[3], NULL, NULL),
                     MS_OK);
    assert_int_equal(ms_hide_range(s.store, OTHER_JOB, seq[7], UINT64_MAX, NULL, NULL),
                     MS_OK);
    say_at(s.store, OTHER_JOB, "i");
    must_show(s.store, JOB, "a|");
    must_show(s.store, OTHER_JOB, "b|f|i|");
    char *before = picture(s.store);
    assert_int_equal(ms_hide_range(s.store, JOB, 5, 4, &hidden, NULL), MS_E_RANGE);
    assert_int_not_equal(ms_hide_range(s.store, no_str(), 1, 4, &hidden, NULL), MS_OK);
    assert_int_equal(ms_rewind(s.store, JOB, seq[1], NULL, NULL), MS_E_ARGUMENT);
    assert_int_equal(ms_rewind(s.store, JOB, 999, NULL, NULL), MS_E_NOT_FOUND);
    assert_int_equal(ms_rewind(s.store, JOB, seq[2], NULL, NULL), MS_E_HIDDEN);
    assert_int_not_equal(ms_rewind(s.store, no_str(), 0, NULL, NULL), MS_OK);
    must_be_as(s.store, before, "refused ranges");
    must_survive(&s);
    store_close(&s);
}


/* ---- redact ---- */

/* A message with the secret in every field that redaction takes, JSON and text. */
static ms_envelope secret_message(ms_type type)
{
    ms_envelope m = message_of(type, MS_STR(SECRET));
    m.content = ms_text("more than that: " SECRET);
    if (type == MS_T_OTHER) m.type_name = MS_STR("word");
    if (type == MS_T_ACTION) m.tool = MS_STR("search");
    m.args = ms_json(MS_STR("{\"q\":\"" SECRET "\"}"));
    m.worker = m.task = m.from_manager = m.from_worker = MS_STR(SECRET);
    m.summary = m.error_type = MS_STR(SECRET " and more " SECRET);
    m.phase_id = ms_text(SECRET);
    m.extra = MS_STR("{\"s\":[\"" SECRET "\"]}");
    m.agent_key = MS_STR("agent");
    m.turn_id = MS_STR("turn");
    m.id = MS_STR("id");
    m.key = MS_STR("key");
    m.call_id = MS_STR("call");
    m.has_time = true;
    m.time_ns = SECONDS(5);
    return m;
}

static void must_be_redacted(const ms_msg *msg, ms_type type)
{
    int64_t time = 0;
    assert_true(ms_flags(msg) & MS_FLAG_REDACTED);
    assert_int_equal(ms_type_of(msg), type);
    assert_true(ms_time(msg, &time) && time == SECONDS(5));
    assert_true(ms_str_equal(test_location(msg), JOB));
    assert_true(ms_str_equal(test_agent_key(msg), MS_STR("agent")));
    assert_true(ms_str_equal(test_turn_id(msg), MS_STR("turn")));
    assert_true(ms_str_equal(ms_get(msg, MS_F_ID).text, MS_STR("id")));
    assert_true(ms_str_equal(ms_get(msg, MS_F_CALL_ID).text, MS_STR("call")));
    assert_true(ms_str_equal(ms_get(msg, MS_F_KEY).text, MS_STR("key")));
    assert_true(ms_str_equal(ms_content(msg).text, MS_STR("[redacted]")));
    assert_false(ms_content(msg).json);
    assert_true(ms_str_equal(ms_get(msg, MS_F_ARGS).text, MS_STR("{}")));
    for (int i = 1; i < MS_FIELD_COUNT; i++) {
        ms_str text = ms_get(msg, (ms_field)i).text;
        if (text.ptr != NULL) assert_int_equal(times_in(text.ptr, text.len, SECRET), 0);
    }
}

/* In the record, in amends, in notes, and nowhere else in the bytes of the store. */
static void redaction_leaves_no_byte(void **state)
{
    static const ms_type types[] = {MS_T_USER_MESSAGE, MS_T_ACTION, MS_T_DELEGATION,
                                    MS_T_SYNTHESIS, MS_T_OTHER, MS_T_ERROR};
    for (size_t i = 0; i < 6; i++) {
        test_store s = open_store(state);
        ms_envelope m = secret_message(types[i]);
        ms_error err;
        say(s.store, "before");
        uint64_t seq = must_append(s.store, JOB, &m);
        m.content = ms_json(MS_STR("{\"again\":\"" SECRET "\"}"));
        must_ok(ms_amend(s.store, seq, &m, &err), &err, "amend");
        m.content = ms_text("third " SECRET);
        must_ok(ms_amend(s.store, seq, &m, &err), &err, "amend");
        must_ok(ms_note(s.store, seq, MS_STR("k"), ms_text(SECRET), &err), &err, "note");
        must_ok(ms_note(s.store, seq, MS_STR("k"), ms_json(MS_STR("[\"" SECRET "\"]")),
                        &err), &err, "note");
        say(s.store, "behind");
        if (lies_open(&s)) assert_true(times_stored(&s, SECRET) >= 10);
        if (i == 3) hide(s.store, seq);
        must_ok(ms_redact(s.store, seq, &err), &err, "redact");
        if (lies_open(&s)) assert_int_equal(times_stored(&s, SECRET), 0);
        if (i != 3) must_be_redacted(must_get(s.store, seq), types[i]);
        must_survive(&s);
        if (i != 3) must_be_redacted(must_get(s.store, seq), types[i]);
        assert_int_equal(stat_of(s.store).changes, 5); /* a hide, or what is shown now */
        must_ok(ms_redact(s.store, seq, &err), &err, "redact again");
        if (s.kind->log) {
            ms_log_report report;
            must_ok(ms_log_verify(&s.log, &report, &err), &err, "verify");
            assert_int_equal(report.damaged, 0);
            assert_int_equal(report.messages, 3);
        }
        char *all = picture(s.store);
        assert_null(strstr(all, SECRET));
        assert_non_null(strstr(all, "before"));
        assert_non_null(strstr(all, "behind"));
        free(all);
        store_close(&s);
    }
}

#ifndef MSGSTORE_NO_DIALECTS
/* A template keeps the members of the source that no field stands for, also in an element
 * of its list, and of a value that did not fit all of it. */
static void redaction_takes_the_template(void **state)
{
    static const char json[] =
        "[{\"role\":\"assistant\",\"content\":\"x\",\"note\":\"" SECRET "\",\"tool_calls\":"
        "[{\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\",\"" SECRET "\":1}}]},"
        "{\"role\":\"assistant\",\"content\":7,\"tool_calls\":[\"" SECRET "\"]}]";
    static const char *const names[] = {"openai", "framework"};
    test_store s = open_store(state);
    ms_arena arena;
    ms_envelopes list;
    ms_error err;
    ms_str value;
    uint64_t seqs[8];
    ms_read_opts how = {true, false};
    ms_append_opts opts;
    memset(&arena, 0, sizeof arena);
    memset(&opts, 0, sizeof opts);
    opts.location = JOB;
    opts.seqs = seqs;
    must_ok(ms_read_list(ms_dialect_find(MS_STR("openai")), ms_str_of(json), &how, &arena,
                         &list, &err), &err, "read");
    assert_int_equal(list.count, 3);
    must_ok(ms_append_batch(s.store, list.items, list.count, &opts, &err), &err, "append");
    assert_true(ms_member(&list.items[0], MS_STR("note"), &value));
    if (lies_open(&s)) assert_int_equal(times_stored(&s, SECRET), 3);
    for (size_t i = 0; i < list.count; i++)
        must_ok(ms_redact(s.store, seqs[i], &err), &err, "redact");
    if (lies_open(&s)) assert_int_equal(times_stored(&s, SECRET), 0);
    must_survive(&s);
    for (size_t n = 0; n < 2; n++) {
        ms_buf buf = {&arena, NULL, 0, 0};
        ms_writer w;
        ms_writer_init(&w, ms_dialect_find(ms_str_of(names[n])), NULL, &arena,
                       ms_buf_write, &buf);
        for (size_t i = 0; i < list.count; i++) {
            ms_envelope m = ms_envelope_of(must_get(s.store, seqs[i]));
            assert_false(ms_member(&m, MS_STR("note"), &value));
            must_ok(ms_writer_put(&w, &m, &err), &err, "write");
        }
        must_ok(ms_writer_finish(&w, &err), &err, "write");
        assert_int_equal(times_in(buf.ptr, buf.len, SECRET), 0);
    }
    ms_arena_deinit(&arena);
    store_close(&s);
}
#endif

/* What it cost is told on: notes of the kind "usage" are numbers. */
static void redaction_leaves_the_cost(void **state)
{
    test_store s = open_store(state);
    ms_error err;
    uint64_t seq = say(s.store, SECRET);
    ms_value cost = ms_json(MS_STR("{\"seconds\":1}"));
    must_ok(ms_note(s.store, seq, MS_STR("usage"), cost, &err), &err, "note");
    must_ok(ms_note(s.store, seq, MS_STR("other"), ms_text("{\"seconds\":1}"), &err),
            &err, "note");
    must_ok(ms_redact(s.store, seq, &err), &err, "redact");
    ms_query q = query_of(JOB, 0);
    q.raw = MS_RAW_NOTES;
    must_give(s.store, &q, "{\"seconds\":1}|[redacted]   |");
    store_close(&s);
}

/* Texts of every short length: cut, filled, empty. */
static void redaction_of_every_length(void **state)
{
    test_store s = open_store(state);
    char text[40];
    uint64_t seq[40];
    for (size_t i = 0; i < sizeof text; i++) text[i] = "#%~"[i % 3];
    for (size_t n = 0; n < 40; n++) {
        ms_envelope m = ms_observation(ms_text_n(ms_str_n(text, n)), ms_str_of(NULL));
        if (n % 3 == 0) m.summary = ms_str_n(text, n);
        seq[n] = must_append(s.store, JOB, &m);
    }
    for (size_t n = 0; n < 40; n++) {
        assert_int_equal(ms_redact(s.store, seq[n], NULL), MS_OK);
        must_have_text(must_get(s.store, seq[n]), "[redacted]");
        if (n == 39) break;
        assert_int_equal(ms_content(must_get(s.store, seq[n + 1])).text.len, n + 1);
    }
    if (lies_open(&s)) assert_int_equal(times_stored(&s, "#%~#"), 0);
    must_survive(&s);
    store_close(&s);
}

static void what_is_redacted_can_do_little(void **state)
{
    test_store s = open_store(state);
    uint64_t seq = say(s.store, SECRET), other = say(s.store, "other");
    ms_error err;
    assert_int_equal(ms_redact(s.store, 0, NULL), MS_E_NOT_FOUND);
    assert_int_equal(ms_redact(s.store, other + 1, NULL), MS_E_NOT_FOUND);
    assert_int_equal(ms_redact(NULL, seq, NULL), MS_E_CLOSED);
    must_ok(ms_redact(s.store, seq, &err), &err, "redact");
    must_ok(ms_note(s.store, seq, MS_STR("why"), ms_text("asked"), &err), &err, "note");
    ms_query q = query_of(JOB, 0);
    q.raw = MS_RAW_NOTES;
    must_give(s.store, &q, "asked|");
    must_show(s.store, JOB, "[redacted]|other|");
    hide(s.store, seq);
    must_ok(ms_redact(s.store, seq, &err), &err, "redact a hidden one");
    must_show(s.store, JOB, "other|");
    store_close(&s);
}

/* The pieces of what is being written. */
static void redaction_takes_pieces(void **state)
{
    test_store s = open_store(state);
    ms_stream w;
    ms_stream_opts opts;
    ms_envelope m = ms_assistant_message(ms_text(SECRET "0"));
    ms_error err;
    memset(&opts, 0, sizeof opts);
    opts.every_part = true;
    must_ok(ms_stream_begin(&w, s.store, JOB, &m, &opts, &err), &err, "begin");
    must_ok(ms_stream_feed(&w, MS_STR(" 1" SECRET), &err), &err, "feed");
    must_ok(ms_stream_feed(&w, MS_STR(" 2" SECRET), &err), &err, "feed");
    must_ok(ms_stream_end(&w, NULL, NULL, &err), &err, "end");
    uint64_t seq = stat_of(s.store).last_seq;
    must_have_text(must_get(s.store, seq), SECRET "0 1" SECRET " 2" SECRET);
    must_ok(ms_redact(s.store, seq, &err), &err, "redact");
    if (lies_open(&s)) assert_int_equal(times_stored(&s, SECRET), 0);
    must_have_text(must_get(s.store, seq), "[redacted]");
    must_survive(&s);
    store_close(&s);
}


/* ---- notes ---- */

static void notes_carry_where_they_belong(void **state)
{
    test_store s = open_store(state);
    ms_envelope m = full_message();
    uint64_t other = say(s.store, "other"), seq = must_append(s.store, JOB, &m);
    ms_error err;
    now = SECONDS(2000);
    must_ok(ms_note(s.store, seq, MS_STR("rating"), ms_json(MS_STR("5")), &err), &err,
            "note");
    now = SECONDS(2001.5);
    must_ok(ms_note(s.store, seq, MS_STR("why"), ms_text("good"), &err), &err, "note");
    must_ok(ms_note(s.store, other, MS_STR("why"), ms_text("bad"), &err), &err, "note");
    must_survive(&s);
    ms_query q = query_of(JOB, 0);
    ms_cursor it;
    int64_t time = 0;
    q.raw = MS_RAW_NOTES;
    q.about_seq = seq;
    must_give(s.store, &q, "5|good|");
    assert_int_equal(ms_query_open(s.store, &q, &it, NULL), MS_OK);
    const ms_msg *note = ms_next(&it);
    assert_non_null(note);
    assert_int_equal(ms_kind_of(note), MS_KIND_NOTE);
    assert_int_equal(ms_type_of(note), MS_T_NONE);
    assert_int_equal(ms_seq(note), seq);
    assert_true(ms_time(note, &time) && time == SECONDS(2000));
    assert_true(ms_str_equal(test_location(note), JOB));
    assert_true(ms_str_equal(test_agent_key(note), MS_STR("manager")));
    assert_true(ms_str_equal(test_turn_id(note), MS_STR("turn")));
    assert_true(ms_str_equal(ms_get(note, MS_F_TYPE_NAME).text, MS_STR("rating")));
    assert_true(ms_content(note).json);
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    q.about_seq = 0;
    must_give(s.store, &q, "5|good|bad|");
    ms_query all = query_of(JOB, 0);
    must_give(s.store, &all, "other|before|");
    assert_int_equal(stat_of(s.store).messages, 2);
    assert_int_equal(stat_of(s.store).changes, 3);
    store_close(&s);
}

static void notes_that_are_refused(void **state)
{
    test_store s = open_store(state);
    char *kind = large_text(MS_KEY_MAX + 1);
    uint64_t seq = say(s.store, "x"), hidden = say(s.store, "y");
    ms_value value = ms_text("v");
    ms_error err;
    must_ok(ms_note(s.store, hidden, MS_STR("k"), ms_text("kept"), &err), &err, "note");
    hide(s.store, hidden);
    must_ok(ms_note(s.store, seq, ms_str_n(kind, MS_KEY_MAX), value, &err), &err, "note");
    char *before = picture(s.store);
    assert_int_equal(ms_note(s.store, 0, MS_STR("k"), value, NULL), MS_E_NOT_FOUND);
    assert_int_equal(ms_note(s.store, 77, MS_STR("k"), value, NULL), MS_E_NOT_FOUND);
    assert_int_equal(ms_note(s.store, hidden, MS_STR("k"), value, NULL), MS_E_HIDDEN);
    assert_int_not_equal(ms_note(s.store, seq, no_str(), value, NULL), MS_OK);
    assert_int_not_equal(ms_note(s.store, seq, MS_STR(""), value, NULL), MS_OK);
    assert_int_not_equal(
        ms_note(s.store, seq, ms_str_n(kind, MS_KEY_MAX + 1), value, NULL), MS_OK);
    assert_int_equal(ms_note(s.store, seq, MS_STR("k"), ms_json(MS_STR("{")), NULL),
                     MS_E_SYNTAX);
    assert_int_equal(ms_note(NULL, seq, MS_STR("k"), value, NULL), MS_E_CLOSED);
    must_be_as(s.store, before, "refused notes");
    ms_query q = query_of(JOB, 0);
    q.raw = MS_RAW_NOTES;
    q.about_seq = hidden;
    must_give(s.store, &q, "kept|");
    free(kind);
    store_close(&s);
}


/* ---- facts ---- */

static void set_facts(ms_store *store, ms_str location, const char *facts)
{
    ms_error err;
    must_ok(ms_location_set(store, location, ms_str_of(facts), &err), &err, "facts");
}

static void the_last_word_about_a_location_counts(void **state)
{
    test_store s = open_store(state);
    ms_list_query list;
    ms_listing listing;
    ms_arena arena;
    test_arena_init(&arena, NULL);
    memset(&list, 0, sizeof list);
    must_have_facts(s.store, JOB, "{}");
    set_facts(s.store, JOB, "{\"title\":\"one\",\"cwd\":\"/a\"}");
    assert_int_equal(ms_list(s.store, &list, &arena, &listing, NULL), MS_OK);
    assert_int_equal(listing.count, 0);
    ms_query all = query_of(JOB, 0);
    assert_int_equal(count_of(s.store, &all), 0);
    say(s.store, "x");
    set_facts(s.store, JOB, "{\"title\":\"two\",\"x\":{\"deep\":null,\"n\":[1]}}");
    set_facts(s.store, OTHER_JOB, "{\"title\":\"other\"}");
    must_have_facts(s.store, JOB,
                    "{\"title\":\"two\",\"cwd\":\"/a\",\"x\":{\"deep\":null,\"n\":[1]}}");
    set_facts(s.store, JOB, "{\"cwd\":null,\"never\":null,\"x\":{\"m\":2}}");
    must_have_facts(s.store, JOB, "{\"title\":\"two\",\"x\":{\"m\":2}}");
    must_survive(&s);
    must_have_facts(s.store, JOB, "{\"title\":\"two\",\"x\":{\"m\":2}}");
    must_have_facts(s.store, OTHER_JOB, "{\"title\":\"other\"}");
    must_have_facts(s.store, MS_STR("nowhere"), "{}");
    set_facts(s.store, JOB, "{\"title\":null,\"x\":null}");
    must_have_facts(s.store, JOB, "{}");
    must_show(s.store, JOB, "x|");
    /* names that need escapes are names */
    set_facts(s.store, JOB, "{\"a\\\"b\":1,\"\\u00e9\":2}");
    set_facts(s.store, JOB, "{\"\xc3\xa9\":3,\"a\\u0022b\":null}");
    must_have_facts(s.store, JOB, "{\"\xc3\xa9\":3}");
    ms_arena_deinit(&arena);
    store_close(&s);
}

static void facts_that_are_refused(void **state)
{
    test_store s = open_store(state);
    ms_str facts;
    ms_arena arena;
    static char bytes[4];
    say(s.store, "x");
    set_facts(s.store, JOB, "{\"a\":1}");
    char *before = picture(s.store);
    assert_int_equal(ms_location_set(s.store, JOB, MS_STR("{\"a\":"), NULL), MS_E_SYNTAX);
    assert_int_equal(ms_location_set(s.store, JOB, MS_STR("[1]"), NULL), MS_E_KIND);
    assert_int_equal(ms_location_set(s.store, JOB, MS_STR("null"), NULL), MS_E_KIND);
    assert_int_not_equal(ms_location_set(s.store, JOB, no_str(), NULL), MS_OK);
    assert_int_not_equal(ms_location_set(s.store, no_str(), MS_STR("{}"), NULL), MS_OK);
    assert_int_not_equal(ms_location_set(s.store, MS_STR("a\0b"), MS_STR("{}"), NULL),
                         MS_OK);
    assert_int_equal(ms_location_set(NULL, JOB, MS_STR("{}"), NULL), MS_E_CLOSED);
    test_arena_init_fixed(&arena, bytes, sizeof bytes);
    assert_int_not_equal(ms_location_get(s.store, JOB, &arena, &facts, NULL), MS_OK);
    must_be_as(s.store, before, "refused facts");
    store_close(&s);
}


/* ---- forks ---- */

static void fork_to(ms_store *store, ms_str from, uint64_t seq, ms_str to)
{
    ms_error err;
    must_ok(ms_fork(store, from, seq, to, NULL, &err), &err, "fork");
}

static void forks_stay_apart(void **state)
{
    test_store s = open_store(state);
    ms_envelope keyed = full_message();
    uint64_t a = say(s.store, "a"), b = say(s.store, "b"), again = 0, fork_key = 0;
    uint64_t k = must_append(s.store, JOB, &keyed), c;
    amend(s.store, a, "A");
    hide(s.store, b);
    set_facts(s.store, JOB, "{\"title\":\"t\",\"parent\":\"grandparent\"}");
    c = say(s.store, "c");
    say(s.store, "d");
    fork_to(s.store, JOB, c, MS_STR("branch"));
    ms_query q = query_of(MS_STR("branch"), 0);
    must_give(s.store, &q, "A|before|c|");
    char want[120];
    snprintf(want, sizeof want,
             "{\"title\":\"t\",\"parent\":\"job\",\"parent_seq\":%llu}",
             (unsigned long long)c);
    must_have_facts(s.store, MS_STR("branch"), want);
    must_have_facts(s.store, JOB, "{\"title\":\"t\",\"parent\":\"grandparent\"}");
    assert_int_equal(ms_append(s.store, MS_STR("branch"), &keyed, &fork_key, NULL),
                     MS_OK);
    assert_true(fork_key > c);
    assert_int_equal(ms_append(s.store, JOB, &keyed, &again, NULL), MS_OK);
    assert_int_equal(again, k);
    must_rewind(s.store, 0, 4);
    must_give(s.store, &q, "A|before|c|");
    say_at(s.store, MS_STR("branch"), "e");
    amend(s.store, fork_key, "AMENDED");
    must_show(s.store, JOB, "");
    must_give(s.store, &q, "A|AMENDED|c|e|");
    must_survive(&s);
    fork_to(s.store, MS_STR("branch"), fork_key, OTHER_JOB);
    ms_query q2 = query_of(OTHER_JOB, 0);
    must_give(s.store, &q2, "A|AMENDED|");
    snprintf(want, sizeof want,
             "{\"title\":\"t\",\"parent\":\"branch\",\"parent_seq\":%llu}",
             (unsigned long long)fork_key);
    must_have_facts(s.store, OTHER_JOB, want);
    store_close(&s);
}

/* Times, keys and all else are kept; what is erased in the one stays in the other. */
static void a_fork_keeps_times_and_texts(void **state)
{
    test_store s = open_store(state);
    ms_envelope m = secret_message(MS_T_ERROR);
    ms_cursor it;
    int64_t time = 0;
    uint64_t seq = must_append(s.store, JOB, &m);
    now = SECONDS(7777);
    fork_to(s.store, JOB, seq, MS_STR("branch"));
    assert_int_equal(ms_redact(s.store, seq, NULL), MS_OK);
    ms_query q = query_of(MS_STR("branch"), 0);
    assert_int_equal(ms_query_open(s.store, &q, &it, NULL), MS_OK);
    const ms_msg *msg = ms_next(&it);
    assert_non_null(msg);
    assert_true(ms_time(msg, &time) && time == SECONDS(5));
    must_have_text(msg, "more than that: " SECRET);
    assert_true(ms_str_equal(ms_get(msg, MS_F_KEY).text, MS_STR("key")));
    assert_true(ms_str_equal(ms_get(msg, MS_F_EXTRA).text, m.extra));
    assert_true(ms_str_equal(test_turn_id(msg), MS_STR("turn")));
    assert_null(ms_next(&it));
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    store_close(&s);
}

static void forks_that_are_refused(void **state)
{
    test_store s = open_store(state);
    uint64_t a = say(s.store, "a"), hidden = say(s.store, "h");
    uint64_t other = say_at(s.store, OTHER_JOB, "o");
    ms_str to = MS_STR("branch");
    static char bytes[8];
    ms_arena arena;
    uint64_t gone = say_at(s.store, MS_STR("cleared"), "g");
    hide(s.store, hidden);
    hide(s.store, gone);
    char *before = picture(s.store);
    assert_int_equal(ms_fork(s.store, JOB, a, MS_STR("cleared"), NULL, NULL),
                     MS_E_CONFLICT);
    assert_int_equal(ms_fork(s.store, JOB, a, OTHER_JOB, NULL, NULL), MS_E_CONFLICT);
    assert_int_equal(ms_fork(s.store, JOB, a, JOB, NULL, NULL), MS_E_CONFLICT);
    assert_int_equal(ms_fork(s.store, JOB, hidden, to, NULL, NULL), MS_E_HIDDEN);
    assert_int_equal(ms_fork(s.store, JOB, 99, to, NULL, NULL), MS_E_NOT_FOUND);
    assert_int_equal(ms_fork(s.store, JOB, other, to, NULL, NULL), MS_E_ARGUMENT);
    assert_int_not_equal(ms_fork(s.store, JOB, a, no_str(), NULL, NULL), MS_OK);
    assert_int_not_equal(ms_fork(s.store, no_str(), a, to, NULL, NULL), MS_OK);
    assert_int_equal(ms_fork(NULL, JOB, a, to, NULL, NULL), MS_E_CLOSED);
    test_arena_init_fixed(&arena, bytes, sizeof bytes);
    assert_int_not_equal(ms_fork(s.store, JOB, a, to, &arena, NULL), MS_OK);
    must_be_as(s.store, before, "refused forks");
    fork_to(s.store, JOB, 0, to);
    must_show(s.store, to, "");
    must_have_facts(s.store, to, "{\"parent\":\"job\",\"parent_seq\":0}");
    store_close(&s);
}


/* ---- streams ---- */

static ms_stream begin(ms_store *store, const ms_envelope *m, const ms_stream_opts *opts)
{
    ms_stream w;
    ms_error err;
    memset(&w, 0x5a, sizeof w);
    must_ok(ms_stream_begin(&w, store, JOB, m, opts, &err), &err, "begin");
    assert_ptr_equal(w.store, store);
    return w;
}

static ms_stream begin_each(ms_store *store, const ms_envelope *m)
{
    ms_stream_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.every_part = true;
    return begin(store, m, &opts);
}

static void feed(ms_stream *w, const char *text)
{
    ms_error err;
    must_ok(ms_stream_feed(w, ms_str_of(text), &err), &err, "feed");
}

/* The text so far, by view with an arena, by number, and as a follower reads it. */
static void must_read_so_far(ms_store *store, uint64_t seq, const char *want)
{
    ms_arena arena;
    ms_stream_text text;
    ms_error err;
    const ms_msg *msg;
    char all[300];
    ms_query q = query_of(JOB, 0);
    test_arena_init(&arena, NULL);
    q.arena = &arena;
    q.after_seq = seq - 1;
    q.before_seq = seq + 1;
    snprintf(all, sizeof all, "%s|", want);
    must_give(store, &q, all);
    must_ok(ms_get_by_seq(store, seq, &arena, &msg, &err), &err, "by number");
    must_have_text(msg, want);
    must_ok(ms_stream_read(store, seq, 0, &arena, &text, &err), &err, "follow");
    assert_true(ms_str_equal(text.text, ms_str_of(want)));
    assert_int_equal(text.next, strlen(want));
    ms_arena_deinit(&arena);
}

static void a_stream_is_seen_from_its_beginning(void **state)
{
    test_store s = open_store(state);
    ms_envelope m = ms_assistant_message(ms_text("Well"));
    ms_query q = query_of(JOB, MS_VIEW_CONVERSATION);
    say(s.store, "before");
    ms_stream w = begin_each(s.store, &m);
    uint64_t seq = w.seq;
    say(s.store, "meanwhile");
    must_give(s.store, &q, "before|Well|meanwhile|");
    assert_true(ms_flags(must_get(s.store, seq)) & MS_FLAG_UNFINISHED);
    feed(&w, ", it");
    feed(&w, " works");
    must_give(s.store, &q, "before|Well|meanwhile|");
    must_read_so_far(s.store, seq, "Well, it works");
    assert_true(ms_flags(must_get(s.store, seq)) & MS_FLAG_UNFINISHED);
    must_survive(&s);
    must_read_so_far(s.store, seq, "Well, it works");
    assert_int_equal(ms_stream_recover(s.store, seq, NULL, NULL), MS_OK);
    must_give(s.store, &q, "before|Well, it works|meanwhile|");
    assert_true(ms_flags(must_get(s.store, seq)) & MS_FLAG_UNFINISHED);
    assert_int_equal(ms_stream_recover(s.store, seq, NULL, NULL), MS_E_CLOSED);
    must_survive(&s);
    store_close(&s);
}

static void a_stream_ends_with_its_text(void **state)
{
    test_store s = open_store(state);
    ms_envelope m = ms_assistant_message(ms_text(""));
    ms_stream_text text;
    ms_arena arena;
    ms_error err;
    m.turn_id = MS_STR("turn");
    m.content.text = no_str();
    m.has_time = true;
    m.time_ns = SECONDS(3);
    ms_stream w = begin(s.store, &m, NULL);
    uint64_t seq = w.seq;
    must_have_text(must_get(s.store, seq), "");
    feed(&w, "one ");
    feed(&w, "two");
    must_ok(ms_stream_end(&w, NULL, NULL, &err), &err, "end");
    assert_null(w.store);
    for (int i = 0; i < 2; i++) {
        const ms_msg *msg = must_get(s.store, seq);
        int64_t time = 0;
        must_have_text(msg, "one two");
        assert_true(ms_flags(msg) & MS_FLAG_AMENDED);
        assert_false(ms_flags(msg) & MS_FLAG_UNFINISHED);
        assert_true(ms_str_equal(test_turn_id(msg), MS_STR("turn")));
        assert_true(ms_time(msg, &time) && time == SECONDS(3));
        must_show(s.store, JOB, "one two|");
        test_arena_init(&arena, NULL);
        must_ok(ms_stream_read(s.store, seq, 4, &arena, &text, &err), &err, "follow");
        assert_true(text.ended);
        assert_true(ms_str_equal(text.text, MS_STR("two")));
        ms_arena_deinit(&arena);
        must_survive(&s);
    }
    char *before = picture(s.store);
    assert_int_equal(ms_stream_feed(&w, MS_STR("x"), NULL), MS_E_CLOSED);
    assert_int_equal(test_stream_flush(&w, NULL), MS_E_CLOSED);
    assert_int_equal(ms_stream_end(&w, NULL, NULL, NULL), MS_E_CLOSED);
    assert_int_equal(ms_stream_recover(s.store, seq, NULL, NULL), MS_E_CLOSED);
    assert_int_equal(ms_stream_recover(s.store, 99, NULL, NULL), MS_E_NOT_FOUND);
    must_be_as(s.store, before, "an ended stream");
    store_close(&s);
}

static void a_stream_ends_as_said(void **state)
{
    test_store s = open_store(state);
    ms_envelope m = ms_assistant_message(ms_text("Hm")), final = m;
    ms_stream_text text;
    ms_arena arena;
    ms_error err;
    test_arena_init(&arena, NULL);
    ms_stream w = begin_each(s.store, &m);
    uint64_t seq = w.seq;
    feed(&w, " hm");
    ms_envelope wrong = ms_user_message(ms_text("x"));
    char *before = picture(s.store);
    assert_int_equal(ms_stream_end(&w, &wrong, NULL, NULL), MS_E_TYPE);
    must_be_as(s.store, before, "an end of another type");
    assert_non_null(w.store);
    feed(&w, " hm");
    must_read_so_far(s.store, seq, "Hm hm hm");
    final.content = ms_text("Yes.");
    final.summary = MS_STR("agreed");
    must_ok(ms_stream_end(&w, &final, NULL, &err), &err, "end");
    must_show(s.store, JOB, "Yes.|");
    assert_false(ms_flags(must_get(s.store, seq)) & MS_FLAG_UNFINISHED);
    assert_true(ms_str_equal(ms_get(must_get(s.store, seq), MS_F_SUMMARY).text,
                             MS_STR("agreed")));
    must_ok(ms_stream_read(s.store, seq, 8, &arena, &text, &err), &err, "follow");
    assert_true(text.ended);
    assert_int_equal(text.text.len, 0);     /* the final one is shorter */
    assert_int_equal(ms_stream_feed(&w, MS_STR("x"), NULL), MS_E_CLOSED);
    /* one whose end begins with what was fed */
    w = begin_each(s.store, &m);
    seq = w.seq;
    feed(&w, "m");
    final.content = ms_text("Hmm, right");
    must_ok(ms_stream_end(&w, &final, NULL, &err), &err, "end");
    must_ok(ms_stream_read(s.store, seq, 3, &arena, &text, &err), &err, "follow");
    assert_true(text.ended);
    assert_true(ms_str_equal(text.text, MS_STR(", right")));
    ms_arena_deinit(&arena);
    store_close(&s);
}

/* Coalescing: the first at once, then by characters or by time. */
static void pieces_are_put_together(void **state)
{
    test_store s = open_store(state);
    ms_envelope m = ms_assistant_message(ms_text(""));
    ms_stream_opts opts;
    ms_query raw = query_of(JOB, 0);
    ms_error err;
    memset(&opts, 0, sizeof opts);
    opts.flush_ms = 500;
    opts.flush_chars = 10;
    opts.clock = clock_at(&now);
    ms_stream w = begin(s.store, &m, &opts);
    raw.raw = MS_RAW_PIECES;
    raw.about_seq = w.seq;
    feed(&w, "a");
    must_read_so_far(s.store, w.seq, "a");
    feed(&w, "b");
    feed(&w, "c");
    must_read_so_far(s.store, w.seq, "a");
    feed(&w, "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9");
    must_read_so_far(s.store, w.seq, "a");
    feed(&w, "d");
    must_read_so_far(s.store, w.seq,
                     "abc\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9" "d");
    feed(&w, "e");
    now += SECONDS(0.6);
    feed(&w, "f");
    must_give(s.store, &raw,
              "a|bc\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9" "d|ef|");
    feed(&w, "g");
    feed(&w, "");
    must_ok(test_stream_flush(&w, &err), &err, "flush");
    must_ok(test_stream_flush(&w, &err), &err, "flush");
    assert_int_equal(count_of(s.store, &raw), 4);
    feed(&w, "h");
    must_ok(ms_stream_end(&w, NULL, NULL, &err), &err, "end");
    must_show(s.store, JOB,
              "abc\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9" "defgh|");
    store_close(&s);
}

/* A text fed byte by byte: never half a character is seen. */
static void characters_that_are_cut(void **state)
{
    static const char text[] = "a\xc3\xa9\xe6\x97\xa5\xf0\x9f\x99\x82z\xf0\x9f\x99\x82";
    test_store s = open_store(state);
    ms_envelope m = ms_assistant_message(ms_text(""));
    ms_arena arena;
    ms_stream_text got;
    ms_error err;
    ms_stream w = begin_each(s.store, &m);
    uint64_t seq = w.seq;
    test_arena_init(&arena, NULL);
    for (size_t i = 0; i < sizeof text - 1; i++) {
        must_ok(ms_stream_feed(&w, ms_str_n(text + i, 1), &err), &err, "feed");
        must_ok(ms_stream_read(s.store, seq, 0, &arena, &got, &err), &err, "follow");
        assert_true(ms_utf8_check(got.text, NULL));
        assert_true(got.text.len <= i + 1 && i + 1 - got.text.len < 4);
        assert_memory_equal(got.text.ptr, text, got.text.len);
    }
    assert_int_equal(got.text.len, sizeof text - 1);
    assert_int_equal(ms_stream_read(s.store, seq, sizeof text, &arena, &got, NULL),
                     MS_E_RANGE);
    must_ok(ms_stream_feed(&w, MS_STR("\xff!\xe6\x97"), &err), &err, "bad bytes");
    must_ok(ms_stream_end(&w, NULL, &arena, &err), &err, "end");
    const ms_msg *msg = must_get(s.store, seq);
    assert_true(ms_utf8_check(ms_content(msg).text, NULL));
    assert_memory_equal(ms_content(msg).text.ptr, text, sizeof text - 1);
    ms_arena_deinit(&arena);
    store_close(&s);
}

/* A tool call: its arguments come piece by piece and are JSON only in the end. */
static void a_call_that_is_being_written(void **state)
{
    test_store s = open_store(state);
    ms_envelope m = ms_action(MS_STR("search"), ms_text(""), ms_str_of(NULL));
    ms_error err;
    m.args.text = no_str();
    m.call_id = MS_STR("call-1");
    ms_stream w = begin_each(s.store, &m);
    uint64_t seq = w.seq;
    feed(&w, "{\"q\":");
    ms_query q = query_of(JOB, 0);
    ms_arena arena;
    test_arena_init(&arena, NULL);
    q.arena = &arena;
    must_give(s.store, &q, "{\"q\":|");
    feed(&w, "\"x\"}");
    must_give(s.store, &q, "{\"q\":\"x\"}|");
    must_ok(ms_stream_end(&w, NULL, NULL, &err), &err, "end");
    const ms_msg *msg = must_get(s.store, seq);
    assert_true(ms_get(msg, MS_F_ARGS).json);
    assert_true(ms_str_equal(ms_get(msg, MS_F_ARGS).text, MS_STR("{\"q\":\"x\"}")));
    assert_true(ms_str_equal(ms_get(msg, MS_F_CALL_ID).text, MS_STR("call-1")));
    assert_true(ms_str_equal(ms_get(msg, MS_F_TOOL).text, MS_STR("search")));
    w = begin_each(s.store, &m);
    seq = w.seq;
    feed(&w, "{\"q\":");
    must_ok(ms_stream_end(&w, NULL, NULL, &err), &err, "end");
    msg = must_get(s.store, seq);
    assert_false(ms_get(msg, MS_F_ARGS).json);
    assert_true(ms_str_equal(ms_get(msg, MS_F_ARGS).text, MS_STR("{\"q\":")));
    ms_arena_deinit(&arena);
    must_survive(&s);
    store_close(&s);
}

static void a_writer_is_told_that_it_is_over(void **state)
{
    test_store s = open_store(state);
    ms_envelope m = ms_assistant_message(ms_text(""));
    ms_stream w = begin_each(s.store, &m);
    feed(&w, "text");
    uint64_t seq = w.seq;
    assert_int_equal(ms_stream_recover(s.store, seq, NULL, NULL), MS_OK);
    char *before = picture(s.store);
    assert_int_equal(ms_stream_feed(&w, MS_STR("more"), NULL), MS_E_CLOSED);
    must_be_as(s.store, before, "a feed behind the end");
    must_show(s.store, JOB, "text|");
    w = begin_each(s.store, &m);
    feed(&w, "text");
    hide(s.store, w.seq);
    before = picture(s.store);
    assert_int_equal(ms_stream_feed(&w, MS_STR("more"), NULL), MS_E_HIDDEN);
    assert_int_equal(ms_stream_end(&w, NULL, NULL, NULL), MS_E_HIDDEN);
    assert_int_equal(ms_stream_recover(s.store, w.seq, NULL, NULL), MS_E_HIDDEN);
    must_be_as(s.store, before, "a feed of what is hidden");
    w = begin_each(s.store, &m);
    seq = w.seq;
    feed(&w, "text");
    must_rewind(s.store, 0, 2);
    assert_int_equal(ms_stream_feed(&w, MS_STR("more"), NULL), MS_E_HIDDEN);
    must_show(s.store, JOB, "");
    ms_stream zero;
    memset(&zero, 0, sizeof zero);
    assert_int_equal(ms_stream_feed(&zero, MS_STR("more"), NULL), MS_E_CLOSED);
    assert_int_equal(ms_stream_end(&zero, NULL, NULL, NULL), MS_E_CLOSED);
    store_close(&s);
}

static void streams_that_do_not_begin(void **state)
{
    test_store s = open_store(state);
    ms_stream w;
    ms_envelope m = ms_assistant_message(ms_text("")), none = m;
    none.type = MS_T_NONE;
    say(s.store, "x");
    char *before = picture(s.store);
    memset(&w, 0x5a, sizeof w);
    assert_int_equal(ms_stream_begin(&w, s.store, JOB, &none, NULL, NULL), MS_E_TYPE);
    assert_null(w.store);
    memset(&w, 0x5a, sizeof w);
    assert_int_not_equal(ms_stream_begin(&w, s.store, no_str(), &m, NULL, NULL), MS_OK);
    assert_null(w.store);
    ms_envelope action = ms_action(no_str(), ms_text(""), ms_str_of(NULL));
    assert_int_equal(ms_stream_begin(&w, s.store, JOB, &action, NULL, NULL),
                     MS_E_MISSING);
    assert_int_equal(ms_stream_begin(&w, NULL, JOB, &m, NULL, NULL), MS_E_CLOSED);
    must_be_as(s.store, before, "streams that did not begin");
    store_close(&s);
}

/* A fork takes the text so far, and stays as it is when the stream goes on. */
static void a_fork_of_what_is_being_written(void **state)
{
    test_store s = open_store(state);
    ms_envelope m = ms_assistant_message(ms_text("one"));
    ms_stream w = begin_each(s.store, &m);
    ms_error err;
    feed(&w, " two");
    fork_to(s.store, JOB, w.seq, MS_STR("branch"));
    feed(&w, " three");
    uint64_t seq = w.seq;
    must_ok(ms_stream_end(&w, NULL, NULL, &err), &err, "end");
    must_show(s.store, MS_STR("branch"), "one two|");
    must_show(s.store, JOB, "one two three|");
    assert_false(ms_flags(must_get(s.store, seq)) & MS_FLAG_UNFINISHED);
    must_survive(&s);
    must_show(s.store, MS_STR("branch"), "one two|");
    store_close(&s);
}

/* Many long pieces, two streams at once, and a text longer than a piece may be held. */
static void long_streams_side_by_side(void **state)
{
    test_store s = open_store(state);
    ms_envelope m = ms_assistant_message(ms_text(""));
    char *text = large_text(20000);
    ms_arena arena;
    ms_error err;
    const ms_msg *msg;
    test_arena_init(&arena, NULL);
    ms_stream a = begin(s.store, &m, NULL), b = begin_each(s.store, &m);
    uint64_t one = a.seq, two = b.seq;
    for (size_t at = 0; at < 20000; at += 400)
        must_ok(ms_stream_feed(&a, ms_str_n(text + at, 400), &err), &err, "feed");
    must_ok(ms_stream_feed(&b, ms_str_n(text, 20000), &err), &err, "feed");
    must_ok(test_stream_flush(&a, &err), &err, "flush");
    for (int i = 0; i < 2; i++) {
        must_ok(ms_get_by_seq(s.store, i ? two : one, &arena, &msg, &err), &err, "get");
        assert_int_equal(ms_content(msg).text.len, 20000);
        assert_memory_equal(ms_content(msg).text.ptr, text, 20000);
    }
    must_ok(ms_stream_end(&b, NULL, &arena, &err), &err, "end");
    must_ok(ms_stream_end(&a, NULL, NULL, &err), &err, "end");
    for (int i = 0; i < 2; i++) {
        msg = must_get(s.store, i ? two : one);
        assert_int_equal(ms_content(msg).text.len, 20000);
        assert_memory_equal(ms_content(msg).text.ptr, text, 20000);
    }
    must_survive(&s);
    ms_arena_deinit(&arena);
    free(text);
    store_close(&s);
}


/* ---- raw queries ---- */

static void records_stand_in_their_order(void **state)
{
    static const ms_kind kinds[] = {MS_KIND_MESSAGE, MS_KIND_MESSAGE, MS_KIND_AMEND,
                                    MS_KIND_NOTE, MS_KIND_LOCATION, MS_KIND_HIDE,
                                    MS_KIND_MESSAGE, MS_KIND_PIECE, MS_KIND_AMEND};
    test_store s = open_store(state);
    ms_envelope m = ms_assistant_message(ms_text("w"));
    ms_error err;
    ms_cursor it;
    const ms_msg *msg;
    uint64_t a = say(s.store, "a"), b = say(s.store, "b");
    amend(s.store, a, "A");
    must_ok(ms_note(s.store, a, MS_STR("k"), ms_text("n"), &err), &err, "note");
    set_facts(s.store, JOB, "{\"f\":1}");
    hide(s.store, b);
    ms_stream w = begin_each(s.store, &m);
    uint64_t seq = w.seq;
    feed(&w, "x");
    must_ok(ms_stream_end(&w, NULL, NULL, &err), &err, "end");
    say_at(s.store, OTHER_JOB, "other");
    ms_query q = query_of(JOB, 0);
    q.raw = MS_RAW_ALL;
    for (int round = 0; round < 4; round++) {
        size_t i = 0;
        q.reverse = round % 2 == 1;
        assert_int_equal(ms_query_open(s.store, &q, &it, NULL), MS_OK);
        while ((msg = ms_next(&it)) != NULL) {
            assert_int_equal(ms_kind_of(msg), kinds[q.reverse ? 8 - i : i]);
            assert_true(ms_str_equal(test_location(msg), JOB));
            bool message = ms_kind_of(msg) == MS_KIND_MESSAGE ||
                           ms_kind_of(msg) == MS_KIND_AMEND;
            assert_int_equal(ms_type_of(msg) != MS_T_NONE, message);
            if (ms_kind_of(msg) == MS_KIND_LOCATION) assert_int_equal(ms_seq(msg), 0);
            if (ms_kind_of(msg) == MS_KIND_HIDE) {
                char want[100];
                snprintf(want, sizeof want,
                         "{\"first\":%llu,\"last\":%llu,\"messages\":1}",
                         (unsigned long long)b, (unsigned long long)b);
                must_equal_json(ms_content(msg).text, want);
            }
            i++;
        }
        assert_int_equal(i, 9);
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
        must_survive(&s);
    }
    q.reverse = false;
    q.raw = MS_RAW_MESSAGES;
    must_give(s.store, &q, "a|b|w|");
    q.raw = MS_RAW_MESSAGES | MS_RAW_AMENDS;
    must_give(s.store, &q, "a|b|A|w|wx|");
    q.about_seq = seq;
    must_give(s.store, &q, "w|wx|");
    q.raw = MS_RAW_ALL & ~(unsigned)MS_RAW_HIDES;
    must_give(s.store, &q, "w|x|wx|");
    q.about_seq = a;
    must_give(s.store, &q, "a|A|n|");
    q.about_seq = 0;
    q.after_seq = b;
    q.before_seq = seq;
    q.raw = MS_RAW_AMENDS | MS_RAW_NOTES | MS_RAW_MESSAGES;
    must_give(s.store, &q, "A|n|");
    q.limit = 1;
    must_give(s.store, &q, "n|");
    q.oldest = true;
    must_give(s.store, &q, "A|");
    store_close(&s);
}

static void raw_queries_that_are_refused(void **state)
{
    test_store s = open_store(state);
    ms_arena arena;
    ms_cursor it;
    say(s.store, "x");
    test_arena_init(&arena, NULL);
    ms_query q = query_of(JOB, MS_VIEW_CONVERSATION);
    q.raw = MS_RAW_ALL;
    q.arena = &arena;
    assert_int_not_equal(ms_query_open(s.store, &q, &it, NULL), MS_OK);
    assert_null(ms_next(&it));
    q.views = MS_VIEW_TIMELINE;
    q.by_time = true;
    assert_int_not_equal(ms_query_open(s.store, &q, &it, NULL), MS_OK);
    q.by_time = false;
    q.location = no_str();
    q.about_seq = 1;
    assert_int_not_equal(ms_query_open(s.store, &q, &it, NULL), MS_OK);
    q.about_seq = 0;
    assert_int_equal(ms_query_open(s.store, &q, &it, NULL), MS_OK);
    assert_non_null(ms_next(&it));
    ms_cursor_close(&it, NULL);
    q.raw = 0;
    q.location = JOB;
    q.about_seq = 1;                  /* says nothing without raw */
    if (ms_query_open(s.store, &q, &it, NULL) == MS_OK) ms_cursor_close(&it, NULL);
    ms_arena_deinit(&arena);
    store_close(&s);
}


/* ---- each change, by number ---- */

/* What every change is tried on. */
typedef struct stage {
    uint64_t first, second, third, unfinished, call;
    ms_stream w, c;
} stage;

static ms_stream_opts stream_opts(void)
{
    ms_stream_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.every_part = true;
    return opts;
}

static void scene_make(ms_store *store, stage *scene)
{
    ms_envelope m = ms_assistant_message(ms_text("begun"));
    ms_envelope call = ms_action(MS_STR("tool"), ms_text("{\"q\":"), ms_str_of(NULL));
    scene->first = say(store, "first");
    scene->second = say(store, "second");
    scene->third = say(store, "third");
    scene->w = begin_each(store, &m);
    scene->c = begin_each(store, &call);
    scene->unfinished = scene->w.seq;
    scene->call = scene->c.seq;
    feed(&scene->w, " so far");
    feed(&scene->c, "1");
    amend(store, scene->first, "FIRST");
    set_facts(store, JOB, "{\"title\":\"scene\"}");
}

static ms_result do_amend(ms_store *store, stage *scene, ms_arena *arena)
{
    ms_envelope m = ms_user_message(ms_text("amended"));
    (void)arena;
    return ms_amend(store, scene->second, &m, NULL);
}

static ms_result do_hide(ms_store *store, stage *scene, ms_arena *arena)
{
    (void)arena;
    return ms_hide(store, scene->second, NULL);
}

static ms_result do_range(ms_store *store, stage *scene, ms_arena *arena)
{
    (void)arena;
    return ms_hide_range(store, JOB, scene->first, scene->third, NULL, NULL);
}

static ms_result do_rewind(ms_store *store, stage *scene, ms_arena *arena)
{
    (void)arena;
    return ms_rewind(store, JOB, scene->first, NULL, NULL);
}

static ms_result do_redact(ms_store *store, stage *scene, ms_arena *arena)
{
    (void)arena;
    return ms_redact(store, scene->first, NULL);
}

static ms_result do_note(ms_store *store, stage *scene, ms_arena *arena)
{
    (void)arena;
    return ms_note(store, scene->second, MS_STR("kind"), ms_text("noted"), NULL);
}

static ms_result do_facts(ms_store *store, stage *scene, ms_arena *arena)
{
    (void)scene;
    (void)arena;
    return ms_location_set(store, JOB, MS_STR("{\"title\":null,\"n\":1}"), NULL);
}

static ms_result do_fork(ms_store *store, stage *scene, ms_arena *arena)
{
    return ms_fork(store, JOB, scene->third, MS_STR("branch"), arena, NULL);
}

static ms_result do_begin(ms_store *store, stage *scene, ms_arena *arena)
{
    ms_envelope m = ms_assistant_message(ms_text("begins"));
    ms_stream w;
    ms_stream_opts opts = stream_opts();
    (void)scene;
    (void)arena;
    return ms_stream_begin(&w, store, JOB, &m, &opts, NULL);
}

static ms_result do_feed(ms_store *store, stage *scene, ms_arena *arena)
{
    (void)store;
    (void)arena;
    return ms_stream_feed(&scene->w, MS_STR(" fed"), NULL);
}

static ms_result do_end(ms_store *store, stage *scene, ms_arena *arena)
{
    (void)store;
    return ms_stream_end(&scene->w, NULL, arena, NULL);
}

static ms_result do_end_as(ms_store *store, stage *scene, ms_arena *arena)
{
    ms_envelope m = ms_action(MS_STR("tool"), ms_json(MS_STR("{}")), ms_str_of(NULL));
    (void)store;
    return ms_stream_end(&scene->c, &m, arena, NULL);
}

static ms_result do_recover(ms_store *store, stage *scene, ms_arena *arena)
{
    return ms_stream_recover(store, scene->call, arena, NULL);
}

static const struct change {
    const char *name;
    ms_result (*run)(ms_store *store, stage *scene, ms_arena *arena);
    const char *shows;        /* JOB with an arena, afterwards */
} changes[] = {
    {"amend", do_amend, "FIRST|amended|third|begun so far|{\"q\":1|"},
    {"hide", do_hide, "FIRST|third|begun so far|{\"q\":1|"},
    {"hide a range", do_range, "begun so far|{\"q\":1|"},
    {"rewind", do_rewind, "FIRST|"},
    {"redact", do_redact, "[redacted]|second|third|begun so far|{\"q\":1|"},
    {"note", do_note, "FIRST|second|third|begun so far|{\"q\":1|"},
    {"facts", do_facts, "FIRST|second|third|begun so far|{\"q\":1|"},
    {"fork", do_fork, "FIRST|second|third|begun so far|{\"q\":1|"},
    {"begin", do_begin, "FIRST|second|third|begun so far|{\"q\":1|begins|"},
    {"feed", do_feed, "FIRST|second|third|begun so far fed|{\"q\":1|"},
    {"end", do_end, "FIRST|second|third|begun so far|{\"q\":1|"},
    {"end as said", do_end_as, "FIRST|second|third|begun so far|{}|"},
    {"recover", do_recover, "FIRST|second|third|begun so far|{\"q\":1|"},
};

enum { CHANGES = sizeof changes / sizeof changes[0] };
static const char unchanged[] = "FIRST|second|third|begun so far|{\"q\":1|";

static void must_show_scene(ms_store *store, const char *want)
{
    ms_arena arena;
    ms_query q = query_of(JOB, 0);
    test_arena_init(&arena, NULL);
    q.arena = &arena;
    must_give(store, &q, want);
    ms_arena_deinit(&arena);
}

/* A cursor that was open before goes on as if nothing had happened. */
static void an_open_cursor_sees_nothing_of_it(void **state)
{
    for (size_t i = 0; i < CHANGES; i++) {
        for (size_t read = 0; read < 3; read++) {
            test_store s = open_store(state);
            stage scene;
            ms_cursor it;
            ms_arena arena, work;
            char got[300] = "";
            size_t used = 0;
            const ms_msg *msg;
            ms_query q = query_of(read == 1 ? no_str() : JOB, 0);
            if (changes[i].run == do_redact) { /* nobody may hold it */
                store_close(&s);
                continue;
            }
            test_arena_init(&arena, NULL);
            test_arena_init(&work, NULL);
            q.arena = &arena;
            q.by_time = read == 2;
            scene_make(s.store, &scene);
            assert_int_equal(ms_query_open(s.store, &q, &it, NULL), MS_OK);
            for (size_t k = 0; k < 6; k++) {
                if (k == read)
                    assert_int_equal(changes[i].run(s.store, &scene, &work), MS_OK);
                if ((msg = ms_next(&it)) == NULL) break;
                ms_str text = ms_type_of(msg) == MS_T_ACTION
                                  ? ms_get(msg, MS_F_ARGS).text
                                  : ms_content(msg).text;
                used += (size_t)snprintf(got + used, sizeof got - used, "%.*s|",
                                         (int)text.len, text.ptr);
            }
            assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
            if (strcmp(got, unchanged) != 0)
                fail_msg("%s: an open cursor sees %s", changes[i].name, got);
            must_show_scene(s.store, changes[i].shows);
            ms_arena_deinit(&arena);
            ms_arena_deinit(&work);
            store_close(&s);
        }
    }
}

/* Each change again after the store was opened again. */
static void changes_survive(void **state)
{
    for (size_t i = 0; i < CHANGES; i++) {
        test_store s = open_store(state);
        stage scene;
        scene_make(s.store, &scene);
        must_show_scene(s.store, unchanged);
        assert_int_equal(changes[i].run(s.store, &scene, NULL), MS_OK);
        must_show_scene(s.store, changes[i].shows);
        must_survive(&s);
        must_show_scene(s.store, changes[i].shows);
        say(s.store, "goes on");
        must_survive(&s);
        store_close(&s);
    }
}

static bool shows_redacted(ms_store *store, uint64_t seq)
{
    return (ms_flags(must_get(store, seq)) & MS_FLAG_REDACTED) != 0;
}

/* Each allocation fails once, then memory is there again. */
static void memory_that_runs_out(void **state)
{
    const store_kind *kind = (const store_kind *)*state;
    if (kind->fixed) return;          /* never allocates */
    for (size_t i = 0; i < CHANGES; i++) {
        for (size_t k = 1;; k++) {
            test_alloc heap;
            store_options options;
            stage scene;
            ms_arena arena;
            test_alloc_init(&heap);
            memset(&options, 0, sizeof options);
            options.alloc = heap.alloc;
            options.clock = clock_at(&now);
            test_store s = store_open(kind, &options);
            scene_make(s.store, &scene);
            /* names and postings fill up differently each time */
            for (size_t n = 0; n < k % 5; n++) say_at(s.store, OTHER_JOB, "more");
            char *before = picture(s.store);
            test_arena_init(&arena, &heap.alloc);
            size_t failed = heap.failed;
            heap.fail_at = heap.calls + k;
            heap.fail_from = k % 2 == 0;
            ms_result got = changes[i].run(s.store, &scene, &arena);
            heap.fail_at = 0;
            failed = heap.failed - failed;
            ms_arena_deinit(&arena);
            if (got != MS_OK) {
                if (got != MS_E_NO_MEMORY && got != MS_E_ARENA)
                    fail_msg("%s: no memory: %s", changes[i].name, ms_result_text(got));
                /* what is not erased may be shown as redacted: see ms_redact */
                if (changes[i].run != do_redact ||
                    !shows_redacted(s.store, scene.first)) {
                    must_be_as(s.store, before, changes[i].name);
                    before = NULL;
                }
                assert_int_equal(changes[i].run(s.store, &scene, NULL), MS_OK);
            }
            free(before);
            must_show_scene(s.store, changes[i].shows);
            store_close(&s);
            test_alloc_done(&heap);
            if (failed == 0) break;
            if (k > 200) fail_msg("%s: allocates without end", changes[i].name);
        }
    }
}

/* Reading what was changed while allocations fail: a code, or what there is; never less
 * in silence. */
static ms_result read_scene(ms_store *store, const stage *scene, ms_arena *arena)
{
    ms_query q = query_of(JOB, 0);
    ms_cursor it;
    const ms_msg *msg;
    ms_str facts;
    ms_stream_text text;
    size_t n = 0;
    q.arena = arena;
    ms_result got = ms_query_open(store, &q, &it, NULL);
    if (got != MS_OK) return got;
    while ((msg = ms_next(&it)) != NULL) {
        if (ms_seq(msg) == scene->first) must_have_text(msg, "FIRST");
        if (ms_seq(msg) == scene->unfinished) must_have_text(msg, "begun so far");
        n++;
    }
    got = ms_cursor_close(&it, NULL);
    if (got == MS_OK) assert_int_equal(n, 5);
    if (got == MS_OK) got = ms_get_by_seq(store, scene->unfinished, arena, &msg, NULL);
    if (got == MS_OK) must_have_text(msg, "begun so far");
    if (got == MS_OK) got = ms_location_get(store, JOB, arena, &facts, NULL);
    if (got == MS_OK) must_equal_json(facts, "{\"title\":\"scene\"}");
    if (got == MS_OK) got = ms_stream_read(store, scene->call, 0, arena, &text, NULL);
    if (got == MS_OK) assert_true(ms_str_equal(text.text, MS_STR("{\"q\":1")));
    return got;
}

static void reading_without_memory(void **state)
{
    const store_kind *kind = (const store_kind *)*state;
    size_t refused = 0;
    if (kind->fixed) return;
    for (size_t k = 1;; k++) {
        test_alloc heap;
        store_options options;
        stage scene;
        ms_arena arena;
        test_alloc_init(&heap);
        memset(&options, 0, sizeof options);
        options.alloc = heap.alloc;
        options.clock = clock_at(&now);
        test_store s = store_open(kind, &options);
        scene_make(s.store, &scene);
        for (int i = 0; i < 40; i++) say_at(s.store, OTHER_JOB, "more than a few words");
        store_reopen(&s);
        test_arena_init(&arena, &heap.alloc);
        size_t failed = heap.failed;
        heap.fail_at = heap.calls + k;
        heap.fail_from = k % 2 == 0;
        ms_result got = read_scene(s.store, &scene, &arena);
        heap.fail_at = 0;
        failed = heap.failed - failed;
        refused += got != MS_OK;
        if (got != MS_OK && got != MS_E_NO_MEMORY && got != MS_E_ARENA)
            fail_msg("reading without memory: %s", ms_result_text(got));
        ms_arena_reset(&arena);
        assert_int_equal(read_scene(s.store, &scene, &arena), MS_OK);
        ms_arena_deinit(&arena);
        store_close(&s);
        test_alloc_done(&heap);
        if (failed == 0) break;
    }
    assert_true(refused > 0);
}

/* Fills a buffer up to about so many bytes left. */
static void fill_up(ms_store *store, size_t left)
{
    ms_envelope m = ms_user_message(ms_text("x"));
    while (stat_of(store).room > left)
        if (ms_append(store, OTHER_JOB, &m, NULL, NULL) != MS_OK) break;
}

/* With every number of bytes left: too few for the change leave the store as it was. */
static void a_full_buffer(void **state)
{
    const store_kind *kind = (const store_kind *)*state;
    size_t full = 0, stride = 8 * (1 + 300 / (test_scale() < 10 ? 10 : test_scale()));
    if (!kind->fixed) return;
    for (size_t i = 0; i < CHANGES; i++) {
        for (size_t left = 0; left < 700; left += stride) {
            store_options options;
            stage scene;
            memset(&options, 0, sizeof options);
            options.room = 9000 + left;
            options.clock = clock_at(&now);
            test_store s = store_open(kind, &options);
            scene_make(s.store, &scene);
            fill_up(s.store, left);
            char *before = picture(s.store);
            ms_result got = changes[i].run(s.store, &scene, NULL);
            if (got == MS_E_FULL) {
                full++;
                must_be_as(s.store, before, changes[i].name);
                must_survive(&s);
            } else {
                if (got != MS_OK)
                    fail_msg("%s: full: %s", changes[i].name, ms_result_text(got));
                free(before);
                must_survive(&s);
                must_show_scene(s.store, changes[i].shows);
            }
            store_close(&s);
        }
    }
    assert_true(full > CHANGES);
}

/* A buffer is filled by one kind of change to the last byte. */
static void filled_up_by_changes(void **state)
{
    const store_kind *kind = (const store_kind *)*state;
    if (!kind->fixed) return;
    for (size_t i = 0; i < 4; i++) {
        store_options options;
        memset(&options, 0, sizeof options);
        options.room = 9000 + 40 * i;
        options.clock = clock_at(&now);
        test_store s = store_open(kind, &options);
        uint64_t seq = say(s.store, "x");
        ms_envelope m = ms_user_message(ms_text("y"));
        ms_result got = MS_OK;
        size_t n = 0;
        for (; got == MS_OK; n++) {
            char *before = picture(s.store);
            if (i == 0) got = ms_amend(s.store, seq, &m, NULL);
            if (i == 1) got = ms_note(s.store, seq, MS_STR("k"), ms_text("v"), NULL);
            if (i == 2) got = ms_location_set(s.store, JOB, MS_STR("{\"a\":1}"), NULL);
            if (i == 3) {
                got = ms_append(s.store, JOB, &m, NULL, NULL);
                if (got == MS_OK) got = ms_rewind(s.store, JOB, seq, NULL, NULL);
                if (got == MS_E_FULL) {
                    free(before);
                    break;
                }
            }
            if (got == MS_OK) free(before);
            else must_be_as(s.store, before, "full");
            if (i == 2 && n > 1000) break;
        }
        if (i != 2) assert_int_equal(got, MS_E_FULL);
        assert_true(n > 20);
        char *before = picture(s.store);
        got = ms_redact(s.store, seq, NULL);
        if (got == MS_E_FULL) must_be_as(s.store, before, "full, redact");
        else assert_int_equal(got, MS_OK);
        if (got == MS_OK) free(before);
        must_survive(&s);
        store_close(&s);
    }
}


/* ---- copies ---- */

/* Everything that must not be in a copy stands in the source. */
static void make_traces(ms_store *store)
{
    ms_envelope m = ms_assistant_message(ms_text("begin"));
    ms_error err;
    uint64_t a = say(store, "amended " SECRET "-away");
    uint64_t h = say(store, "h " SECRET "-hid");
    uint64_t r = say(store, "r " SECRET "-red"), k = say(store, "kept");
    amend(store, a, "between " SECRET "-twice");
    amend(store, a, "amended");
    must_ok(ms_note(store, h, MS_STR("k"), ms_text(SECRET "-note"), &err), &err, "note");
    must_ok(ms_note(store, k, MS_STR("k"), ms_text("note"), &err), &err, "note");
    hide(store, h);
    must_ok(ms_redact(store, r, &err), &err, "redact");
    set_facts(store, JOB, "{\"title\":\"" SECRET "-title\",\"n\":1}");
    set_facts(store, JOB, "{\"title\":\"title\"}");
    ms_stream w = begin_each(store, &m);
    feed(&w, " Xq7-sec");
    feed(&w, "ret-Zk9 piece");
    ms_envelope final = ms_assistant_message(ms_text("end"));
    must_ok(ms_stream_end(&w, &final, NULL, &err), &err, "end");
    m.content = ms_text("open");
    w = begin_each(store, &m);
    feed(&w, " st");
    feed(&w, "ream");
    say_at(store, OTHER_JOB, "o " SECRET "-clear");
    must_ok(ms_rewind(store, OTHER_JOB, 0, NULL, &err), &err, "clear");
    set_facts(store, OTHER_JOB, "{\"x\":1}");
}

static const char traces_shown[] = "amended|[redacted]|kept|end|open stream|";

static void must_be_folded(ms_store *store, const ms_stat *source)
{
    ms_query q = query_of(JOB, 0);
    must_give(store, &q, traces_shown);
    q.raw = MS_RAW_NOTES;
    must_give(store, &q, "note|");
    q.raw = MS_RAW_AMENDS | MS_RAW_HIDES | MS_RAW_PIECES;
    assert_int_equal(count_of(store, &q), 0);
    must_have_facts(store, JOB, "{\"title\":\"title\",\"n\":1}");
    must_have_facts(store, OTHER_JOB, "{\"x\":1}");
    must_show(store, OTHER_JOB, "");
    assert_int_equal(stat_of(store).hidden, 0);
    assert_int_equal(stat_of(store).messages, source->messages);
    ms_cursor it;
    q = query_of(JOB, 0);
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    assert_non_null(ms_next(&it));
    uint64_t second = ms_seq(ms_next(&it));
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    assert_true(ms_flags(must_get(store, second)) & MS_FLAG_REDACTED);
    assert_true(say(store, "next") > source->last_seq);
}

static void a_copy_has_only_the_result(void **state)
{
    for (size_t k = 0; k < STORE_KINDS; k++) {
        test_store from = open_store(state), to = store_open(store_kind_at(k), NULL);
        ms_copy_report report;
        ms_error err;
        make_traces(from.store);
        ms_stat stat = stat_of(from.store);
        if (lies_open(&from)) assert_true(times_stored(&from, SECRET) > 0);
        must_ok(ms_copy(to.store, from.store, NULL, NULL, &report, &err), &err, "copy");
        assert_int_equal(report.copied, 5);
        assert_int_equal(report.notes, 1);
        assert_int_equal(report.unplaced, 0);
        if (lies_open(&to)) assert_int_equal(times_stored(&to, SECRET), 0);
        must_be_folded(to.store, &stat);
        if (lies_open(&to)) assert_int_equal(times_stored(&to, SECRET), 0);
        must_survive(&to);
        store_close(&from);
        store_close(&to);
    }
}

static void a_rewrite_leaves_no_trace(void **state)
{
    test_store s = open_store(state);
    ms_error err;
    if (!s.kind->log) {
        store_close(&s);
        return;
    }
    make_traces(s.store);
    ms_stat stat = stat_of(s.store);
    must_ok(ms_log_rewrite(s.store, &s.log, true, NULL, NULL, &err), &err, "rewrite");
    assert_int_equal(times_stored(&s, SECRET), 0);
    assert_int_equal(times_stored(&s, "Xq7-sec"), 0);
    assert_int_equal(files_in(s.folder), 1);
    store_reopen(&s);
    must_be_folded(s.store, &stat);
    must_survive(&s);
    ms_log_report report;
    must_ok(ms_log_verify(&s.log, &report, &err), &err, "verify");
    store_close(&s);
}

/* Newest n of a copy are the newest visible ones. */
static void a_copy_counts_what_is_visible(void **state)
{
    test_store from = open_store(state), to = store_open(store_kind_at(0), NULL);
    ms_keep keep;
    ms_copy_report report, dry;
    char text[2] = "a";
    uint64_t seq[6];
    for (int i = 0; i < 6; i++, text[0]++) seq[i] = say(from.store, text);
    hide(from.store, seq[5]);
    hide(from.store, seq[3]);
    amend(from.store, seq[4], "E");
    memset(&keep, 0, sizeof keep);
    keep.newest = 2;
    keep.dry_run = true;
    assert_int_equal(ms_copy(NULL, from.store, &keep, NULL, &dry, NULL), MS_OK);
    keep.dry_run = false;
    assert_int_equal(ms_copy(to.store, from.store, &keep, NULL, &report, NULL), MS_OK);
    assert_memory_equal(&dry, &report, sizeof dry);
    assert_int_equal(report.copied, 2);
    must_show(to.store, JOB, "c|E|");
    assert_true(say(to.store, "next") > seq[5]);
    store_close(&from);
    store_close(&to);
}

/* A key of a hidden message is free in the copy that leaves it out. */
static void a_hidden_key_is_free_in_a_copy(void **state)
{
    test_store from = open_store(state), to = store_open(store_kind_at(0), NULL);
    ms_envelope m = full_message(), other = m;
    uint64_t seq = must_append(from.store, JOB, &m), again = 0;
    say(from.store, "x");
    hide(from.store, seq);
    other.content = ms_text("new");
    assert_int_equal(ms_append(from.store, JOB, &other, &again, NULL), MS_E_KEY_REUSED);
    assert_int_equal(ms_append(from.store, JOB, &m, &again, NULL), MS_OK);
    assert_int_equal(again, seq);
    assert_int_equal(ms_copy(to.store, from.store, NULL, NULL, NULL, NULL), MS_OK);
    assert_int_equal(ms_append(to.store, JOB, &other, &again, NULL), MS_OK);
    assert_true(again > seq);
    store_close(&from);
    store_close(&to);
}

/* An amended key message in a copy answers for its new content. */
static void a_copied_key_has_the_amended_content(void **state)
{
    test_store from = open_store(state), to = store_open(store_kind_at(0), NULL);
    ms_envelope m = full_message(), change = m;
    uint64_t seq = must_append(from.store, JOB, &m), again = 0;
    change.content = ms_text("changed");
    assert_int_equal(ms_amend(from.store, seq, &change, NULL), MS_OK);
    assert_int_equal(ms_copy(to.store, from.store, NULL, NULL, NULL, NULL), MS_OK);
    assert_int_equal(ms_append(to.store, JOB, &change, &again, NULL), MS_OK);
    assert_int_equal(again, seq);
    assert_int_equal(ms_append(to.store, JOB, &m, &again, NULL), MS_E_KEY_REUSED);
    store_close(&from);
    store_close(&to);
}


/* ---- a buffer that is attached again ---- */

/* One flipped bit of the image: attach says so, salvage loses at most what it hit. */
static void one_bit_of_an_image(void **state)
{
    const store_kind *kind = (const store_kind *)*state;
    store_options options;
    stage scene;
    if (!kind->fixed) return;
    memset(&options, 0, sizeof options);
    options.room = 30000;
    options.clock = clock_at(&now);
    test_store s = store_open(kind, &options);
    scene_make(s.store, &scene);
    assert_int_equal(ms_hide(s.store, scene.second, NULL), MS_OK);
    assert_int_equal(ms_note(s.store, scene.first, MS_STR("k"), ms_text("n"), NULL),
                     MS_OK);
    ms_query raw = query_of(no_str(), 0);
    raw.raw = MS_RAW_ALL;
    size_t records = count_of(s.store, &raw);
    ms_str image = ms_mem_image(s.store);
    char *buffer = (char *)malloc(s.size);
    if (buffer == NULL) abort();
    size_t stride = 1 + 700 / test_scale();
    for (size_t bit = 64 * 8; bit < image.len * 8; bit += stride) {
        ms_mem_desc desc = store_desc(&options);
        ms_store *store;
        uint64_t damaged = 0;
        memset(buffer, 0, s.size);
        memcpy(buffer, image.ptr, image.len);
        buffer[bit / 8] = (char)(buffer[bit / 8] ^ 1 << bit % 8);
        desc.buffer = buffer;
        desc.buffer_size = s.size;
        ms_result got = ms_mem_attach(&store, &desc, NULL, NULL);
        if (got != MS_E_DAMAGED && got != MS_E_FOREIGN)
            fail_msg("bit %zu is not found: %s", bit, ms_result_text(got));
        desc.salvage = true;
        memcpy(buffer, image.ptr, image.len);
        buffer[bit / 8] = (char)(buffer[bit / 8] ^ 1 << bit % 8);
        if (ms_mem_attach(&store, &desc, &damaged, NULL) != MS_OK) continue;
        size_t left = count_of(store, &raw);
        if (left + 1 < records || (left < records && damaged == 0))
            fail_msg("bit %zu costs %zu of %zu records, %llu are reported", bit,
                     records - left, records, (unsigned long long)damaged);
        ms_error err;
        if (ms_selfcheck(store, &err) != MS_OK) fail_msg("bit %zu: %s", bit, err.message);
        ms_close(store);
    }
    free(buffer);
    store_close(&s);
}


/* ---- logs: old segments, other handles, other processes ---- */

enum { MANY = 3000 };

/* What each of many messages is now: -1 hidden, else how often it was amended. */
typedef struct ledger {
    uint64_t seq[MANY];
    int state[MANY];
    uint64_t changes;
} ledger;

static void many_messages(ms_store *store, ledger *book)
{
    char text[32];
    memset(book, 0, sizeof *book);
    for (int i = 0; i < MANY; i++) {
        snprintf(text, sizeof text, "message %d", i);
        book->seq[i] = say_at(store, i % 3 == 0 ? OTHER_JOB : JOB, text);
    }
}

static void change_many(ms_store *store, ledger *book, uint64_t *rng, int times)
{
    char text[48];
    for (int n = 0; n < times; n++) {
        int i = (int)test_below(rng, MANY);
        if (book->state[i] < 0) continue;
        if (test_one_in(rng, 3)) {
            hide(store, book->seq[i]);
            book->state[i] = -1;
        } else {
            snprintf(text, sizeof text, "message %d, version %d", i, ++book->state[i]);
            amend(store, book->seq[i], text);
        }
        book->changes++;
    }
}

/* Is message i to be seen in JOB (place 0) or in OTHER_JOB? */
static bool is_shown(const ledger *book, int i, int place)
{
    return (i % 3 == 0) == (place == 1) && book->state[i] >= 0;
}

/* Each location, newest first; and single messages by number. */
static void must_be_in_force(ms_store *store, const ledger *book, uint64_t *rng)
{
    for (int place = 0; place < 2; place++) {
        ms_query q = query_of(place ? OTHER_JOB : JOB, 0);
        ms_cursor it;
        const ms_msg *msg;
        int next = MANY - 1;
        q.reverse = true;
        assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
        while ((msg = ms_next(&it)) != NULL) {
            char text[48];
            while (next >= 0 && !is_shown(book, next, place)) next--;
            assert_true(next >= 0);
            if (book->state[next] == 0) snprintf(text, sizeof text, "message %d", next);
            else
                snprintf(text, sizeof text, "message %d, version %d", next,
                         book->state[next]);
            assert_int_equal(ms_seq(msg), book->seq[next]);
            must_have_text(msg, text);
            next--;
        }
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
        while (next >= 0 && !is_shown(book, next, place)) next--;
        assert_int_equal(next, -1);
    }
    for (int n = 0; n < 50; n++) {
        int i = (int)test_below(rng, MANY);
        const ms_msg *msg;
        assert_int_equal(ms_get_by_seq(store, book->seq[i], NULL, &msg, NULL),
                         book->state[i] < 0 ? MS_E_NOT_FOUND : MS_OK);
    }
    ms_stat stat = stat_of(store);
    assert_int_equal(stat.changes, book->changes);
    assert_int_equal(stat.messages + stat.hidden, MANY);
}

/* Changes of messages in segments long behind, with levels of index records above. */
static void changes_of_old_segments(void **state)
{
    static ledger book;
    test_store s = open_store(state);
    uint64_t rng = test_seed();
    ms_error err;
    many_messages(s.store, &book);
    for (int round = 0; round < 4; round++) {
        change_many(s.store, &book, &rng, 150);
        must_be_in_force(s.store, &book, &rng);
        if (s.kind->log) {
            ms_store *reader = log_reader(&s);
            must_be_in_force(reader, &book, &rng);
            ms_close(reader);
        }
        if (round != 1) store_reopen(&s);
        must_be_in_force(s.store, &book, &rng);
        if (ms_selfcheck(s.store, &err) != MS_OK) fail_msg("%s", err.message);
    }
    if (s.kind->log && s.log.segment_size != 0)
        assert_true(log_info_of(s.store).summaries > 0);
    store_close(&s);
}

/* A time that was amended counts, wherever the message lies. */
static void amended_times_in_old_segments(void **state)
{
    test_store s = open_store(state);
    char *text = large_text(3000);
    ms_envelope m = ms_user_message(ms_text("x"));
    ms_envelope large = ms_user_message(ms_text_n(ms_str_n(text, 3000)));
    m.has_time = large.has_time = true;
    m.time_ns = large.time_ns = SECONDS(10);
    uint64_t early = must_append(s.store, JOB, &m), late = must_append(s.store, JOB, &m);
    for (int i = 0; i < 8; i++) must_append(s.store, JOB, &large);
    m.time_ns = SECONDS(1);
    assert_int_equal(ms_amend(s.store, early, &m, NULL), MS_OK);
    m.time_ns = SECONDS(100);
    assert_int_equal(ms_amend(s.store, late, &m, NULL), MS_OK);
    for (int round = 0; round < 3; round++) {
        for (int place = 0; place < 2; place++) {
            ms_query q = query_of(place ? JOB : no_str(), 0);
            q.has_since = true;
            q.since_ns = SECONDS(50);
            assert_int_equal(count_of(s.store, &q), 1);
            q.has_since = false;
            q.has_until = true;
            q.until_ns = SECONDS(5);
            assert_int_equal(count_of(s.store, &q), 1);
            q.has_since = true;
            q.since_ns = SECONDS(9);
            q.until_ns = SECONDS(11);
            assert_int_equal(count_of(s.store, &q), 8 + 8 * round);
        }
        ms_list_query list;
        ms_listing listing;
        ms_arena arena;
        memset(&list, 0, sizeof list);
        test_arena_init(&arena, NULL);
        assert_int_equal(ms_list(s.store, &list, &arena, &listing, NULL), MS_OK);
        assert_int_equal(listing.count, 1);
        assert_int_equal(listing.items[0].messages, 10 + 8 * round);
        ms_arena_deinit(&arena);
        for (int i = 0; i < 8; i++) must_append(s.store, JOB, &large);
        store_reopen(&s);
    }
    free(text);
    store_close(&s);
}

/* A reader that is open sees each change at once, its cursor does not. */
static void a_reader_that_is_open(void **state)
{
    test_store s = open_store(state);
    stage scene;
    ms_cursor it;
    ms_error err;
    uint64_t seq = 0;
    if (!s.kind->log) {
        store_close(&s);
        return;
    }
    ms_store *reader = log_reader(&s);
    scene_make(s.store, &scene);
    must_show_scene(reader, unchanged);
    /* it changes nothing itself */
    char *before = picture(s.store);
    for (size_t i = 0; i < CHANGES; i++) {
        if (changes[i].run == do_feed || changes[i].run == do_end ||
            changes[i].run == do_end_as)
            continue;
        ms_result got = changes[i].run(reader, &scene, NULL);
        if (got != MS_E_READ_ONLY)
            fail_msg("%s by a reader: %s", changes[i].name, ms_result_text(got));
    }
    must_be_as(s.store, before, "a reader that changes");
    ms_query q = query_of(JOB, 0);
    assert_int_equal(ms_query_open(reader, &q, &it, NULL), MS_OK);
    assert_non_null(ms_next(&it));
    amend(s.store, scene.second, "new");
    hide(s.store, scene.third);
    must_show_scene(reader, "FIRST|new|begun so far|{\"q\":1|");
    must_ok(ms_stream_feed(&scene.w, MS_STR(" and on"), &err), &err, "feed");
    must_show_scene(reader, "FIRST|new|begun so far and on|{\"q\":1|");
    must_have_text(ms_next(&it), "second");
    must_have_text(ms_next(&it), "third");
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    set_facts(s.store, JOB, "{\"title\":\"changed\"}");
    must_have_facts(reader, JOB, "{\"title\":\"changed\"}");
    assert_int_equal(test_refresh(reader, &seq, NULL), MS_OK);
    assert_int_equal(seq, scene.call);
    assert_int_equal(ms_redact(s.store, scene.first, NULL), MS_OK);
    must_show_scene(reader, "[redacted]|new|begun so far and on|{\"q\":1|");
    must_have_text(must_get(reader, scene.first), "[redacted]");
    before = picture(s.store);
    must_be_as(reader, before, "a reader");
    ms_close(reader);
    store_close(&s);
}

/* A child of fork has no business with its parent's log. */
static void a_child_changes_nothing(void **state)
{
    test_store s = open_store(state);
    stage scene;
    int status = 0;
    scene_make(s.store, &scene);
    if (!s.kind->log) {
        store_close(&s);
        return;
    }
    char *before = picture(s.store);
    fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        for (size_t i = 0; i < CHANGES; i++)
            if (changes[i].run(s.store, &scene, NULL) != MS_E_FORKED) _exit((int)i + 1);
        _exit(0);
    }
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) != 0)
        fail_msg("%s in a child", changes[WEXITSTATUS(status) - 1].name);
    must_be_as(s.store, before, "a child of fork");
    store_close(&s);
}

/* A child writes a message piece by piece, with amends between, until it is killed. What
 * it told of is there; the message can be ended by somebody else. */
static void a_writer_that_is_killed(void **state)
{
    const store_kind *kind = (const store_kind *)*state;
    if (!kind->log) return;
    uint64_t rng = test_seed();
    for (size_t round = 0; round < test_times(10); round++) {
        test_store s = open_store(state);
        int pipe_ends[2], status = 0;
        ms_arena arena;
        ms_error err;
        ms_stream_text text;
        unsigned char told[64];
        size_t fed = 0;
        ms_close(s.store);
        s.log.mode = MS_LOG_WRITE;
        memset(&s.log.events, 0, sizeof s.log.events); /* a torn end is no damage */
        assert_int_equal(pipe(pipe_ends), 0);
        fflush(stdout);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            ms_envelope m = ms_assistant_message(ms_text(""));
            ms_stream_opts opts = stream_opts();
            ms_stream w;
            char part[2] = "a";
            if (ms_log_open(&s.store, &s.log, NULL) != MS_OK) _exit(1);
            uint64_t seq = say(s.store, "0");
            if (ms_stream_begin(&w, s.store, JOB, &m, &opts, NULL) != MS_OK) _exit(2);
            for (unsigned i = 0;; i++) {
                char number[16];
                part[0] = (char)('a' + i % 26);
                if (ms_stream_feed(&w, ms_str_of(part), NULL) != MS_OK) _exit(3);
                snprintf(number, sizeof number, "%u", i + 1);
                ms_envelope change = ms_user_message(ms_text(number));
                if (ms_amend(s.store, seq, &change, NULL) != MS_OK) _exit(4);
                if (write(pipe_ends[1], part, 1) != 1) _exit(5);
            }
        }
        close(pipe_ends[1]);
        s.store = NULL;
        size_t enough = 1 + (size_t)test_below(&rng, 300);
        while (fed < enough) {
            ssize_t n = read(pipe_ends[0], told, sizeof told);
            if (n <= 0) break;
            fed += (size_t)n;
        }
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        for (ssize_t n; (n = read(pipe_ends[0], told, sizeof told)) > 0;)
            fed += (size_t)n;
        close(pipe_ends[0]);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        log_open(&s);
        test_arena_init(&arena, NULL);
        must_ok(ms_stream_read(s.store, 2, 0, &arena, &text, &err), &err, "follow");
        assert_false(text.ended);
        assert_true(text.text.len >= fed && text.text.len <= fed + 1);
        for (size_t i = 0; i < text.text.len; i++)
            assert_int_equal(text.text.ptr[i], 'a' + i % 26);
        ms_str newest = ms_content(must_get(s.store, 1)).text;
        unsigned long version = strtoul(newest.ptr, NULL, 10);
        assert_true(version >= fed && version <= text.text.len);
        must_ok(ms_stream_recover(s.store, 2, &arena, &err), &err, "recover");
        const ms_msg *msg = must_get(s.store, 2);
        assert_true(ms_str_equal(ms_content(msg).text, text.text));
        assert_true(ms_flags(msg) & MS_FLAG_UNFINISHED);
        ms_log_report report;
        must_ok(ms_log_verify(&s.log, &report, &err), &err, "verify");
        ms_arena_deinit(&arena);
        store_close(&s);
    }
}


/* Processes that share a log: each writes a message piece by piece, amends another one
 * and takes notes, all at once. Nothing of any is lost, and nothing is mixed up. */
static void shared_writer(const ms_log_desc *desc, int number)
{
    ms_store *store;
    ms_stream w;
    ms_stream_opts opts = stream_opts();
    ms_envelope m = ms_assistant_message(ms_text(""));
    ms_envelope mine = ms_user_message(ms_text("0"));
    char text[24];
    uint64_t seq;
    if (ms_log_open(&store, desc, NULL) != MS_OK) _exit(1);
    if (ms_append(store, JOB, &mine, &seq, NULL) != MS_OK) _exit(2);
    if (ms_stream_begin(&w, store, JOB, &m, &opts, NULL) != MS_OK) _exit(3);
    for (int i = 1; i <= 60; i++) {
        snprintf(text, sizeof text, "%d.%d;", number, i);
        mine.content = ms_text(text);
        if (ms_amend(store, seq, &mine, NULL) != MS_OK) _exit(4);
        if (ms_stream_feed(&w, ms_str_of(text), NULL) != MS_OK) _exit(5);
        if (ms_note(store, seq, MS_STR("k"), ms_text(text), NULL) != MS_OK) _exit(6);
        mine.content = ms_text("gone");
        uint64_t gone;
        if (ms_append(store, JOB, &mine, &gone, NULL) != MS_OK) _exit(7);
        if (ms_hide(store, gone, NULL) != MS_OK) _exit(8);
    }
    if (ms_stream_end(&w, NULL, NULL, NULL) != MS_OK) _exit(9);
    ms_close(store);
    _exit(0);
}

static void must_have_all_of(ms_store *store, int number)
{
    ms_query q = query_of(JOB, 0);
    ms_cursor it;
    const ms_msg *msg;
    char last[24], whole[1000] = "";
    bool amended = false, streamed = false;
    snprintf(last, sizeof last, "%d.60;", number);
    for (int i = 1; i <= 60; i++)
        snprintf(whole + strlen(whole), 24, "%d.%d;", number, i);
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL) {
        amended = amended || ms_str_equal(ms_content(msg).text, ms_str_of(last));
        streamed = streamed || ms_str_equal(ms_content(msg).text, ms_str_of(whole));
    }
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    assert_true(amended && streamed);
}

static void processes_that_change_at_once(void **state)
{
    enum { WRITERS = 3 };
    test_store s = open_store(state);
    pid_t child[WRITERS];
    if (!s.kind->log) {
        store_close(&s);
        return;
    }
    ms_close(s.store);
    s.log.mode = MS_LOG_WRITE;
    s.log.shared = true;
    s.log.lock_wait_ms = 20000;
    fflush(stdout);
    for (int i = 0; i < WRITERS; i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (child[i] == 0) shared_writer(&s.log, i);
    }
    for (int i = 0; i < WRITERS; i++) {
        int status = 0;
        waitpid(child[i], &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("a writer ends with status %x", (unsigned)status);
    }
    log_open(&s);
    ms_query all = query_of(JOB, 0);
    assert_int_equal(count_of(s.store, &all), 2 * WRITERS);
    for (int i = 0; i < WRITERS; i++) must_have_all_of(s.store, i);
    assert_int_equal(stat_of(s.store).hidden, 60 * WRITERS);
    assert_int_equal(stat_of(s.store).changes, (60 * 4 + 1) * WRITERS);
    must_survive(&s);
    store_close(&s);
}


/* ---- two threads ---- */

typedef struct pair {
    ms_store *store, *reader; /* of a log another handle, else the same */
    uint64_t amended, stream;
    bool stop;
    int rounds;
    char trouble[160];
} pair;

static int pair_rounds(pair *p) { return __atomic_load_n(&p->rounds, __ATOMIC_ACQUIRE); }
static bool pair_stops(pair *p) { return __atomic_load_n(&p->stop, __ATOMIC_ACQUIRE); }

/* Looks again and again: versions only rise, texts only grow. */
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
        if (got != MS_OK) snprintf(p->trouble, sizeof p->trouble, "query: %d", (int)got);
        while ((msg = ms_next(&it)) != NULL) {
            ms_str text = ms_content(msg).text;
            if (ms_seq(msg) <= last) snprintf(p->trouble, sizeof p->trouble, "order");
            last = ms_seq(msg);
            if (ms_seq(msg) == p->amended) {
                long now_at = strtol(text.ptr + 1, NULL, 10);
                if (text.len < 2 || text.ptr[0] != 'v' || now_at < version)
                    snprintf(p->trouble, sizeof p->trouble, "version %ld after %ld",
                             now_at, version);
                version = now_at;
            } else if (ms_seq(msg) == p->stream) {
                if (text.len < length)
                    snprintf(p->trouble, sizeof p->trouble, "text shrinks to %zu",
                             text.len);
                length = text.len;
            } else if (!ms_str_equal(text, MS_STR("kept")) &&
                       !ms_str_equal(text, MS_STR("gone soon"))) {
                snprintf(p->trouble, sizeof p->trouble, "a text that nobody wrote");
            }
        }
        got = ms_cursor_close(&it, NULL);
        if (got != MS_OK) snprintf(p->trouble, sizeof p->trouble, "cursor: %d", (int)got);
        ms_arena_reset(&arena);
        __atomic_store_n(&p->rounds, p->trouble[0] == '\0' ? p->rounds + 1 : -1,
                         __ATOMIC_RELEASE);
    }
    ms_arena_deinit(&arena);
    return NULL;
}

static void one_changes_one_reads(void **state)
{
    test_store s = open_store(state);
    pthread_t thread;
    pair p;
    ms_envelope m = ms_assistant_message(ms_text(""));
    memset(&p, 0, sizeof p);
    p.store = p.reader = s.store;
    if (s.kind->log) p.reader = log_reader(&s);
    p.amended = say(s.store, "v0");
    ms_stream w = begin_each(s.store, &m);
    p.stream = w.seq;
    assert_int_equal(pthread_create(&thread, NULL, reads_meanwhile, &p), 0);
    while (pair_rounds(&p) == 0) sched_yield();
    for (int i = 1; i <= 400 && pair_rounds(&p) > 0; i++) {
        char text[16];
        snprintf(text, sizeof text, "v%d", i);
        amend(s.store, p.amended, text);
        feed(&w, "x");
        if (i % 4 == 0) say(s.store, "kept");
        uint64_t gone = say(s.store, "gone soon");
        if (i % 2) hide(s.store, gone);
        else assert_int_equal(ms_hide_range(s.store, JOB, gone, gone, NULL, NULL), MS_OK);
        if (i % 10 == 0) set_facts(s.store, JOB, "{\"n\":1}");
    }
    __atomic_store_n(&p.stop, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    if (p.trouble[0] != '\0') fail_msg("a reader beside changes: %s", p.trouble);
    assert_true(p.rounds > 0);
    char *before = picture(s.store);
    must_be_as(p.reader, before, "both handles");
    if (p.reader != s.store) ms_close(p.reader);
    store_close(&s);
}

/* Two threads change the same message: one of them is the last, none is lost. */
static void *amends_beside(void *ctx)
{
    pair *p = (pair *)ctx;
    for (int i = 0; i < 300; i++) {
        ms_envelope m = ms_user_message(ms_text("by the other"));
        if (ms_amend(p->store, p->amended, &m, NULL) != MS_OK) p->rounds++;
        if (ms_note(p->store, p->amended, MS_STR("k"), ms_text("n"), NULL) != MS_OK)
            p->rounds++;
    }
    return NULL;
}

static void two_that_change(void **state)
{
    test_store s = open_store(state);
    pthread_t thread;
    pair p;
    memset(&p, 0, sizeof p);
    p.store = s.store;
    p.amended = say(s.store, "v0");
    uint64_t hidden = say(s.store, "to be hidden");
    assert_int_equal(pthread_create(&thread, NULL, amends_beside, &p), 0);
    for (int i = 0; i < 300; i++) amend(s.store, p.amended, "by the one");
    hide(s.store, hidden);
    pthread_join(thread, NULL);
    assert_int_equal(p.rounds, 0);
    assert_int_equal(stat_of(s.store).changes, 901);
    ms_query q = query_of(JOB, 0);
    q.raw = MS_RAW_AMENDS;
    assert_int_equal(count_of(s.store, &q), 600);
    must_survive(&s);
    store_close(&s);
}


/* ---- what went wrong once ---- */

/* A character whose first byte alone was fed counts, wherever the piece before it went
 * out: with flush_chars 20 the twentieth character goes out, not the one behind it. */
static void a_cut_character_counts(void **state)
{
    static const char rest[] = "\x97\xa5" "aaaaaaaaaaaaaaaaaa";
    test_store s = open_store(state);
    ms_envelope m = ms_assistant_message(ms_text(""));
    ms_stream_opts opts;
    ms_error err;
    char *text = large_text(9000);
    text[8999] = '\xe6';
    memset(&opts, 0, sizeof opts);
    opts.flush_chars = 20;
    opts.flush_ms = 1000000;
    opts.clock = clock_at(&now);
    for (int large = 0; large < 2; large++) {
        ms_stream w = begin(s.store, &m, &opts);
        ms_query raw = query_of(JOB, 0);
        raw.raw = MS_RAW_PIECES;
        raw.about_seq = w.seq;
        if (large)
            must_ok(ms_stream_feed(&w, ms_str_n(text, 9000), &err), &err, "feed");
        else feed(&w, "x\xe6");
        size_t pieces = count_of(s.store, &raw);
        assert_true(pieces > 0);
        feed(&w, rest);               /* 19 characters */
        assert_int_equal(count_of(s.store, &raw), pieces);
        feed(&w, "b");
        assert_int_equal(count_of(s.store, &raw), pieces + 1);
        raw.limit = 1;
        must_give(s.store, &raw, "\xe6\x97\xa5" "aaaaaaaaaaaaaaaaaab|");
    }
    free(text);
    store_close(&s);
}

/* Behind that message, before that one: where records stand, not their numbers. */
static void raw_bounds_go_by_place(void **state)
{
    test_store s = open_store(state);
    ms_error err;
    ms_query q = query_of(JOB, 0);
    uint64_t a = say(s.store, "a"), b = say(s.store, "b");
    amend(s.store, a, "A");
    must_ok(ms_note(s.store, a, MS_STR("k"), ms_text("n"), &err), &err, "note");
    uint64_t c = say(s.store, "c");
    amend(s.store, c, "C");
    amend(s.store, b, "B");
    uint64_t d = say(s.store, "d");
    for (int i = 0; i < 150; i++) amend(s.store, d, "over the ends of segments");
    uint64_t e = say(s.store, "e");
    q.raw = MS_RAW_ALL;
    for (int round = 0; round < 3; round++) {
        q.after_seq = b;
        q.before_seq = c;
        must_give(s.store, &q, "A|n|");
        q.after_seq = a;
        must_give(s.store, &q, "b|A|n|");
        q.before_seq = 0;
        q.raw = MS_RAW_AMENDS;
        assert_int_equal(count_of(s.store, &q), 153);
        q.after_seq = d;
        assert_int_equal(count_of(s.store, &q), 150);
        q.before_seq = e;
        assert_int_equal(count_of(s.store, &q), 150);
        q.after_seq = c;
        q.before_seq = d;
        must_give(s.store, &q, "C|B|");
        q.after_seq = 0;
        q.before_seq = c;
        q.raw = MS_RAW_ALL;
        must_give(s.store, &q, "a|b|A|n|");
        for (int i = 0; i < 40; i++) say_at(s.store, OTHER_JOB, "many more");
        must_survive(&s);
    }
    store_close(&s);
}


/* Writes that stop at the n-th: of a long one half is done, of a short one nothing. */
typedef struct breaking_os {
    ms_os os;
    uint64_t writes, breaks_at;   /* 0: never */
} breaking_os;

static int breaking_write(void *ctx, ms_file file, uint64_t offset, const void *from,
                          size_t size, size_t *done)
{
    breaking_os *b = (breaking_os *)ctx;
    const ms_os *below = ms_os_default();
    *done = 0;
    if (b->breaks_at == 0 || ++b->writes < b->breaks_at)
        return below->write(below->ctx, file, offset, from, size, done);
    if (b->writes == b->breaks_at && size > 64)
        below->write(below->ctx, file, offset, from, size / 2, done);
    *done = 0;
    return EIO;
}

/* Whatever write is the last one: the message is shown, as it was or as redacted, and
 * called again ms_redact erases what is left. */
static void a_redaction_is_cut_off(void **state)
{
    const store_kind *kind = (const store_kind *)*state;
    char secret[20 * sizeof SECRET] = "";
    if (!kind->log) return;
    for (int i = 0; i < 20; i++) strcat(secret, SECRET);
    for (uint64_t k = 1;; k++) {
        test_store s = open_store(state);
        breaking_os b;
        ms_error err;
        memset(&b, 0, sizeof b);
        b.os = *ms_os_default();
        b.os.ctx = &b;
        b.os.write = breaking_write;
        uint64_t seq = say(s.store, secret);
        must_ok(ms_note(s.store, seq, MS_STR("k"), ms_text(secret), &err), &err, "note");
        say(s.store, "behind");
        ms_close(s.store);
        memset(&s.log.events, 0, sizeof s.log.events); /* a torn end is no damage */
        s.log.mode = MS_LOG_WRITE;
        s.log.os = &b.os;
        log_open(&s);
        b.breaks_at = k;
        ms_result got = ms_redact(s.store, seq, &err);
        bool broken = b.writes >= k;
        b.breaks_at = 0;
        assert_int_equal(got != MS_OK, broken);
        s.log.os = NULL;
        store_reopen(&s);
        ms_query q = query_of(JOB, 0);
        assert_int_equal(count_of(s.store, &q), 2);
        if (!shows_redacted(s.store, seq)) must_have_text(must_get(s.store, seq), secret);
        must_ok(ms_redact(s.store, seq, &err), &err, "redact again");
        must_show(s.store, JOB, "[redacted]|behind|");
        assert_int_equal(times_stored(&s, SECRET), 0);
        store_close(&s);
        if (!broken) break;
        if (k > 100) fail_msg("writes without end");
    }
}


/* ---- work that grows too fast ---- */

/* Seconds of this thread. */
static double processor_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Four times as much takes less than eight times as long, in the best of some tries: what
 * grows with the square takes sixteen times as long in each. */
static void must_grow_slowly(void **state, double (*work)(test_store *s, int n), int n)
{
    double best = 1e9;
    for (int i = 0; i < 5 && best >= 8; i++) {
        double took[2];
        for (int k = 0; k < 2; k++) {
            test_store s = open_store(state);
            took[k] = work(&s, k ? 4 * n : n);
            store_close(&s);
        }
        double ratio = took[1] / (took[0] > 1e-4 ? took[0] : 1e-4);
        if (ratio < best) best = ratio;
    }
    if (best >= 8) fail_msg("four times as much takes %.1f times as long", best);
}

static double amends_of_one(test_store *s, int n)
{
    uint64_t seq = say(s->store, "v0");
    const ms_msg *msg;
    double start = processor_time();
    for (int i = 0; i < n; i++) {
        amend(s->store, seq, "v");
        assert_int_equal(ms_get_by_seq(s->store, seq, NULL, &msg, NULL), MS_OK);
    }
    return processor_time() - start;
}

static double appends_and_rewinds(test_store *s, int n)
{
    uint64_t seq = say(s->store, "first");
    double start = processor_time();
    for (int i = 0; i < n; i++) {
        say(s->store, "x");
        must_rewind(s->store, seq, 1);
    }
    return processor_time() - start;
}

/* Of 3 n messages the first two of each three. */
static double hide_pairs(test_store *s, int n, bool newest_first)
{
    uint64_t first = say(s->store, "x"), hidden;
    for (int i = 1; i < 3 * n; i++) say(s->store, "x");
    double start = processor_time();
    for (int i = 0; i < n; i++) {
        uint64_t from = first + 3 * (uint64_t)(newest_first ? n - 1 - i : i);
        assert_int_equal(
            ms_hide_range(s->store, JOB, from, from + 1, &hidden, NULL), MS_OK);
        assert_int_equal(hidden, 2);
    }
    return processor_time() - start;
}

static double pairs_newest_first(test_store *s, int n) { return hide_pairs(s, n, true); }
static double pairs_oldest_first(test_store *s, int n) { return hide_pairs(s, n, false); }

static double views_of_pairs(test_store *s, int n)
{
    ms_query q = query_of(JOB, 0);
    double start, took;
    hide_pairs(s, n, true);
    start = processor_time();
    assert_int_equal(count_of(s->store, &q), n);
    took = processor_time() - start;
    return took;
}

static void changes_of_one_message_stay_quick(void **state)
{
    must_grow_slowly(state, amends_of_one, 700);
    must_grow_slowly(state, appends_and_rewinds, 700);
}

static void hidden_pairs_stay_quick(void **state)
{
    skip_on_a_server(state);
    must_grow_slowly(state, pairs_newest_first, 200);
    must_grow_slowly(state, pairs_oldest_first, 200);
    must_grow_slowly(state, views_of_pairs, 500);
}


/* ---- memory that is gone once, and messages far behind ---- */

typedef struct far_away {
    ms_store *store;
    uint64_t seq, stream;     /* of a message, of one that is being written */
    int round;
} far_away;

static ms_result far_amend(far_away *f, ms_error *err)
{
    ms_envelope m = ms_user_message(ms_text("amended"));
    return ms_amend(f->store, f->seq, &m, err);
}

static ms_result far_hide(far_away *f, ms_error *err)
{
    return ms_hide(f->store, f->seq, err);
}

static ms_result far_note(far_away *f, ms_error *err)
{
    return ms_note(f->store, f->seq, MS_STR("k"), ms_text("n"), err);
}

static ms_result far_fork(far_away *f, ms_error *err)
{
    char to[20];
    snprintf(to, sizeof to, "branch %d", f->round);
    return ms_fork(f->store, JOB, f->seq, ms_str_of(to), NULL, err);
}

static ms_result far_rewind(far_away *f, ms_error *err)
{
    return ms_rewind(f->store, OTHER_JOB, 1, NULL, err);
}

static ms_result far_get(far_away *f, ms_error *err)
{
    const ms_msg *msg;
    return ms_get_by_seq(f->store, f->seq, NULL, &msg, err);
}

static ms_result far_read(far_away *f, ms_error *err)
{
    ms_stream_text text;
    ms_arena arena;
    test_arena_init(&arena, NULL);
    ms_result got = ms_stream_read(f->store, f->stream, 0, &arena, &text, err);
    ms_arena_deinit(&arena);
    return got;
}

static ms_result far_recover(far_away *f, ms_error *err)
{
    return ms_stream_recover(f->store, f->stream, NULL, err);
}

static ms_result far_redact(far_away *f, ms_error *err)
{
    return ms_redact(f->store, f->seq, err);
}

enum { FAR = 250, FAR_STREAMS = 30 };

/* Messages "m31;" and so on behind the streams, all in JOB but for the first three. */
static test_store far_store(const store_kind *kind, test_alloc *heap)
{
    store_options options;
    ms_envelope m = ms_assistant_message(ms_text("begun"));
    test_alloc_init(heap);
    memset(&options, 0, sizeof options);
    options.alloc = heap->alloc;
    options.clock = clock_at(&now);
    options.room = (size_t)1 << 20;
    test_store s = store_open(kind, &options);
    for (int i = 0; i < 3; i++) say_at(s.store, OTHER_JOB, "other");
    for (int i = 3; i < FAR_STREAMS; i++) (void)begin_each(s.store, &m);
    for (int i = FAR_STREAMS; i < FAR; i++) {
        char text[60];
        snprintf(text, sizeof text, "m%d; and words, so that there are segments", i + 1);
        say(s.store, text);
    }
    return s;
}

/* Each allocation of a call fails once, on a log that was just opened: the code says so,
 * and the same call does it then. Of a message of its own each time. */
static void far_without_memory(test_store *s, test_alloc *heap, far_away *f,
                               ms_result (*run)(far_away *f, ms_error *err), bool hidden)
{
    for (size_t k = 1; k < 20; k++) {
        ms_error err;
        char text[20];
        if (hidden) hide(s->store, f->seq);
        store_reopen(s);
        f->store = s->store;
        size_t failed = heap->failed;
        heap->fail_at = heap->calls + k;
        ms_result got = run(f, &err);
        heap->fail_at = 0;
        failed = heap->failed - failed;
        if (got != MS_OK && got != MS_E_NO_MEMORY && got != MS_E_ARENA)
            fail_msg("allocation %zu fails: %s", k, err.message);
        if (got != MS_OK) must_ok(run(f, &err), &err, "with memory");
        snprintf(text, sizeof text, "m%d;", (int)f->seq);
        if (run == far_redact && lies_open(s))
            assert_int_equal(times_stored(s, text), 0);
        f->seq++;
        f->stream++;
        f->round++;
        if (failed == 0) break;
    }
}

static void no_memory_is_not_no_message(void **state)
{
    skip_on_a_server(state);
    static const struct {
        ms_result (*run)(far_away *f, ms_error *err);
    } calls[] = {{far_get}, {far_amend}, {far_hide}, {far_note},
                 {far_rewind}, {far_read}, {far_recover}, {far_fork}};
    test_alloc heap;
    test_store s = far_store((const store_kind *)*state, &heap);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        far_away f = {NULL, FAR_STREAMS + 1 + 20 * i, 4, 0};
        far_without_memory(&s, &heap, &f, calls[i].run, false);
    }
    store_close(&s);
    test_alloc_done(&heap);
}

/* Hidden or not: called again it erases. */
static void a_redaction_without_memory(void **state)
{
    skip_on_a_server(state);
    test_alloc heap;
    test_store s = far_store((const store_kind *)*state, &heap);
    for (int hidden = 0; hidden < 2; hidden++) {
        far_away f = {NULL, FAR_STREAMS + 1 + 40 * (uint64_t)hidden, 4, 0};
        far_without_memory(&s, &heap, &f, far_redact, hidden == 1);
    }
    store_close(&s);
    test_alloc_done(&heap);
}


/* The location that is named is checked as that of an append. */
static void a_stream_is_of_a_location(void **state)
{
    test_store s = open_store(state);
    ms_envelope m = ms_assistant_message(ms_text("x"));
    char *text = large_text(70000);
    const ms_str places[] = {MS_STR("a\xff"), MS_STR("a\0b"), ms_str_n(text, 2000),
                             ms_str_n(text, 70000)};
    char *before = picture(s.store);
    for (size_t i = 0; i < 4; i++) {
        ms_stream w;
        ms_result want = ms_append(s.store, places[i], &m, NULL, NULL);
        assert_int_not_equal(want, MS_OK);
        assert_int_equal(ms_stream_begin(&w, s.store, places[i], &m, NULL, NULL), want);
        assert_null(w.store);
    }
    must_be_as(s.store, before, "locations that are none");
    free(text);
    store_close(&s);
}

/* What went well says nothing of an error. */
/* The kind of a record stands in flags on its way into a store: a caller cannot set it. */
static void flags_of_a_caller_make_no_change(void **state)
{
    test_store s = open_store(state);
    uint64_t seq = say(s.store, "stays"), hidden = 0;
    ms_stat before, after;
    ms_error err;
    assert_int_equal(ms_store_stat(s.store, &before, NULL), MS_OK);
    for (unsigned bit = 16; bit < 32; bit++) {
        ms_envelope m = ms_user_message(ms_text("another"));
        m.flags = (uint32_t)1 << bit;
        m.seq = seq;
        assert_int_equal(ms_append(s.store, MS_STR("job"), &m, &hidden, &err),
                         MS_E_ARGUMENT);
        assert_string_equal(err.path, "flags");
        assert_int_equal(ms_append_batch(s.store, &m, 1, NULL, NULL), MS_E_ARGUMENT);
    }
    assert_int_equal(ms_store_stat(s.store, &after, NULL), MS_OK);
    assert_memory_equal(&before, &after, sizeof before);
    store_close(&s);
}

typedef struct late_note {
    ms_store *store;
    uint64_t seq;
    ms_result result;
} late_note;

static void *note_late(void *arg)
{
    late_note *l = (late_note *)arg;
    struct timespec pause = {0, 30000000};
    nanosleep(&pause, NULL);
    l->result = ms_note(l->store, l->seq, MS_STR("k"), ms_text("v"), NULL);
    return NULL;
}

static void a_change_wakes_who_waits(void **state)
{
    test_store s = open_store(state);
    pthread_t thread;
    struct timespec from, to;
    late_note l = {NULL, 0, MS_E_IO};
    l.store = s.store;
    l.seq = say(s.store, "first");
    uint64_t seq = 0;
    clock_gettime(CLOCK_MONOTONIC, &from);
    if (pthread_create(&thread, NULL, note_late, &l) != 0) abort();
    assert_int_equal(ms_wait(s.store, l.seq, 20000, &seq, NULL), MS_OK);
    pthread_join(thread, NULL);
    clock_gettime(CLOCK_MONOTONIC, &to);
    assert_int_equal(l.result, MS_OK);
    assert_int_equal(seq, l.seq);
    assert_true(to.tv_sec - from.tv_sec < 15);
    store_close(&s);
}

static void a_success_tells_no_error(void **state)
{
    test_store s = open_store(state);
    ms_error err, untouched;
    memset(&err, 0x5a, sizeof err);
    untouched = err;
    uint64_t seq = say(s.store, "shown"), hidden = say(s.store, "hidden");
    hide(s.store, hidden);
    assert_int_equal(ms_redact(s.store, hidden, &err), MS_OK);
    assert_memory_equal(&err, &untouched, sizeof err);
    assert_int_equal(ms_redact(s.store, seq, &err), MS_OK);
    assert_int_equal(ms_redact(s.store, seq, &err), MS_OK);
    assert_memory_equal(&err, &untouched, sizeof err);
    assert_int_equal(ms_redact(s.store, hidden + 1, &err), MS_E_NOT_FOUND);
    assert_int_equal(err.code, MS_E_NOT_FOUND);
    store_close(&s);
}


/* ---- a store that lends what it reads ---- */

/* A store over another one. What its cursors give is gone when they move: overwritten,
 * and no memory of the program any more. It can change what it gives. */
typedef struct lender {
    ms_store base;
    ms_store *inside;
    void (*forge)(unsigned char *record, const ms_msg *msg);
} lender;

typedef struct loan {
    ms_cursor it;
    unsigned char *record;
    size_t size;
} loan;

static void loan_ends(loan *l)
{
    if (l->record != NULL) memset(l->record, 0xDD, l->size);
    free(l->record);
    l->record = NULL;
}

static ms_result lender_query(ms_store *store, ms_cursor *it, ms_error *err)
{
    loan *l = (loan *)calloc(1, sizeof *l);
    ms_query q = it->query;
    if (l == NULL) abort();
    it->ctx = l;
    if (!q.by_time) q.arena = NULL;  /* texts so far are put together outside */
    ms_result got = ms_query_open(((lender *)store)->inside, &q, &l->it, err);
    if (got != MS_OK) free(l);
    return got;
}

static const ms_msg *lender_next(ms_store *store, ms_cursor *it)
{
    loan *l = (loan *)it->ctx;
    void (*forge)(unsigned char *record, const ms_msg *msg) = ((lender *)store)->forge;
    loan_ends(l);
    const ms_msg *msg = ms_next(&l->it);
    it->result = l->it.result;
    it->damaged = l->it.damaged;
    if (msg == NULL) return NULL;
    l->size = (ms_size(msg) + 7) / 8 * 8;
    l->record = (unsigned char *)malloc(l->size);
    if (l->record == NULL) abort();
    memcpy(l->record, msg, l->size);
    if (forge != NULL) forge(l->record, (const ms_msg *)(void *)l->record);
    return (const ms_msg *)(void *)l->record;
}

static void lender_cursor_close(ms_store *store, ms_cursor *it)
{
    loan *l = (loan *)it->ctx;
    (void)store;
    loan_ends(l);
    ms_cursor_close(&l->it, NULL);
    free(l);
}

static ms_result lender_get(ms_store *store, uint64_t seq, ms_arena *arena,
                            const ms_msg **msg, ms_error *err)
{
    ms_store *inside = ((lender *)store)->inside;
    return inside->backend->get(inside, seq, arena, msg, err);
}

static ms_result lender_list(ms_store *store, const ms_list_query *q, ms_arena *arena,
                             ms_listing *out, ms_error *err)
{
    return ms_list(((lender *)store)->inside, q, arena, out, err);
}

static ms_result lender_stat(ms_store *store, ms_stat *out, ms_error *err)
{
    return ms_store_stat(((lender *)store)->inside, out, err);
}

static void lender_close(ms_store *store)
{
    (void)store;
}

static ms_result lender_change(ms_store *store, ms_str location,
                               const ms_envelope *records, size_t n,
                               const ms_append_opts *opts, ms_error *err)
{
    ms_store *inside = ((lender *)store)->inside;
    return inside->backend->change(inside, location, records, n, opts, err);
}

static const ms_backend lender_backend = {NULL, lender_query, lender_next,
                                          lender_cursor_close, lender_get, lender_list,
                                          lender_stat, NULL, lender_close, NULL, NULL,
                                          lender_change, NULL, NULL, NULL};

static lender lender_over(ms_store *inside)
{
    lender l;
    memset(&l, 0, sizeof l);
    l.base.backend = &lender_backend;
    l.base.open = MS_STORE_OPEN;
    l.inside = inside;
    return l;
}

static void redacting_is_refused_when_a_store_cannot_erase(void **state)
{
    test_store s = open_store(state);
    lender l = lender_over(s.store);
    uint64_t seq = say(s.store, "secret");
    assert_int_equal(ms_redact(&l.base, seq, NULL), MS_E_UNSUPPORTED);
    must_show(s.store, JOB, "secret|");
    assert_int_equal(ms_hide(s.store, seq, NULL), MS_OK);
    assert_int_equal(ms_redact(&l.base, seq, NULL), MS_E_UNSUPPORTED);
    store_close(&s);
}

/* Facts, copies, forks and streams read with a cursor and use what it gave later. */
static void what_is_lent_is_not_kept(void **state)
{
    skip_on_a_server(state);
    static const char want[] = "{\"title\":\"two\",\"long\":[1,2,3],\"n\":5}";
    test_store s = open_store(state), to = store_open(store_kind_at(0), NULL);
    lender l = lender_over(s.store);
    ms_envelope m = ms_assistant_message(ms_text("begun"));
    ms_error err;
    ms_stream_text text;
    ms_arena arena;
    test_arena_init(&arena, NULL);
    uint64_t seq = say(s.store, "one");
    set_facts(s.store, JOB, "{\"title\":\"one\",\"long\":[1,2,3]}");
    set_facts(s.store, OTHER_JOB, "{\"other\":\"facts\"}");
    set_facts(s.store, JOB, "{\"title\":\"two\",\"n\":5}");
    must_ok(ms_note(s.store, seq, MS_STR("k"), ms_text("noted"), &err), &err, "note");
    ms_stream w = begin_each(s.store, &m);
    feed(&w, " so");
    feed(&w, " far");
    must_have_facts(&l.base, JOB, want);
    must_have_facts(&l.base, OTHER_JOB, "{\"other\":\"facts\"}");
    must_show_scene(&l.base, "one|begun so far|");
    must_ok(ms_stream_read(&l.base, w.seq, 0, &arena, &text, &err), &err, "follow");
    assert_true(ms_str_equal(text.text, MS_STR("begun so far")));
    must_ok(ms_copy(to.store, &l.base, NULL, NULL, NULL, &err), &err, "copy");
    must_have_facts(to.store, JOB, want);
    must_have_facts(to.store, OTHER_JOB, "{\"other\":\"facts\"}");
    must_show(to.store, JOB, "one|begun so far|");
    ms_query notes = query_of(JOB, 0);
    notes.raw = MS_RAW_NOTES;
    must_give(to.store, &notes, "noted|");
    fork_to(&l.base, JOB, w.seq, MS_STR("branch"));
    must_show(s.store, MS_STR("branch"), "one|begun so far|");
    must_have_facts(s.store, MS_STR("branch"), "{\"title\":\"two\",\"long\":[1,2,3],"
                    "\"n\":5,\"parent\":\"job\",\"parent_seq\":2}");
    must_ok(ms_stream_recover(&l.base, w.seq, NULL, &err), &err, "recover");
    must_show(s.store, JOB, "one|begun so far|");
    ms_arena_deinit(&arena);
    store_close(&s);
    store_close(&to);
}


/* ---- records that no function here writes ---- */

static void write_record(ms_store *store, ms_kind kind, ms_envelope *e)
{
    ms_append_opts opts;
    ms_error err;
    memset(&opts, 0, sizeof opts);
    e->location = JOB;
    e->flags = (e->flags & 0xFFFFu) | (uint32_t)kind << 16;
    must_ok(store->backend->change(store, JOB, e, 1, &opts, &err), &err, "write");
}

/* A note of another location than its message. */
static void forge_location(unsigned char *record, const ms_msg *msg)
{
    ms_str location = test_location(msg);
    if (ms_kind_of(msg) != MS_KIND_NOTE ||
        !ms_str_equal(ms_content(msg).text, MS_STR("forged")))
        return;
    record[location.ptr - (const char *)record] = 'x';
}

/* What cannot stand in a copy is left out and told; all else is copied. */
static void a_copy_without_what_is_none(void **state)
{
    skip_on_a_server(state);
    for (int trouble = 0; trouble < 4; trouble++) {
        test_store s = open_store(state), to = store_open(store_kind_at(0), NULL);
        lender l = lender_over(s.store);
        ms_copy_report report;
        ms_envelope e;
        ms_error err;
        memset(&e, 0, sizeof e);
        say(s.store, "a");
        e.seq = say(s.store, "b");
        uint64_t c = say(s.store, "c");
        if (trouble == 0) e.content = ms_text("no kind");
        if (trouble == 0) write_record(s.store, MS_KIND_NOTE, &e);
        if (trouble == 1)
            must_ok(ms_note(s.store, e.seq, MS_STR("k"), ms_text("forged"), &err), &err,
                    "note");
        e.type = MS_T_USER_MESSAGE;
        e.flags = MS_FLAG_AMENDED;
        if (trouble == 2) write_record(s.store, MS_KIND_AMEND, &e); /* no content */
        e.seq = 0;
        e.type = MS_T_NONE;
        e.flags = 0;
        e.content = ms_json(MS_STR("{\"a\":1,\"c\":2}"));
        write_record(s.store, MS_KIND_LOCATION, &e);
        e.content = ms_json(MS_STR("[3,{\"a\":4}]")); /* facts have names */
        write_record(s.store, MS_KIND_LOCATION, &e);
        e.content = ms_text("none");
        write_record(s.store, MS_KIND_LOCATION, &e);
        must_ok(ms_note(s.store, c, MS_STR("k"), ms_text("noted"), &err), &err, "note");
        must_have_facts(s.store, JOB, "{\"a\":1,\"c\":2}");
        l.forge = forge_location;
        ms_result got = ms_copy(to.store, &l.base, NULL, NULL, &report, &err);
        if (got != (trouble < 3 ? MS_E_DAMAGED : MS_OK))
            fail_msg("trouble %d: %s", trouble, ms_result_text(got));
        assert_int_equal(report.damaged, trouble < 3);
        assert_int_equal(report.copied, trouble == 2 ? 2 : 3);
        assert_int_equal(report.notes, 1);
        must_show(to.store, JOB, trouble == 2 ? "a|c|" : "a|b|c|");
        must_have_facts(to.store, JOB, "{\"a\":1,\"c\":2}");
        ms_query notes = query_of(JOB, 0);
        notes.raw = MS_RAW_NOTES;
        must_give(to.store, &notes, "noted|");
        fork_to(s.store, JOB, 1, MS_STR("branch"));
        must_have_facts(s.store, MS_STR("branch"),
                        "{\"a\":1,\"c\":2,\"parent\":\"job\",\"parent_seq\":1}");
        store_close(&s);
        store_close(&to);
    }
}

/* A copy of a copy that names another location: numbers that the first copy noted as left
 * out are not given again. */
static void a_copy_of_a_copy_gives_no_number_again(void **state)
{
    for (int kept = 0; kept < 2; kept++) {
        test_store from = open_store(state), to = open_store(state);
        test_store last = open_store(state);
        const ms_str names[] = {OTHER_JOB};
        ms_keep keep;
        uint64_t seq = 0;
        say_at(from.store, OTHER_JOB, "other");
        if (kept) say(from.store, "kept");
        for (int i = 0; i < 5; i++) hide(from.store, seq = say(from.store, "hidden"));
        assert_int_equal(ms_copy(to.store, from.store, NULL, NULL, NULL, NULL), MS_OK);
        memset(&keep, 0, sizeof keep);
        keep.locations = names;
        keep.n_locations = 1;
        assert_int_equal(ms_copy(last.store, to.store, &keep, NULL, NULL, NULL), MS_OK);
        must_show(last.store, OTHER_JOB, "other|");
        must_show(last.store, JOB, "");
        assert_true(say(last.store, "next") > seq);
        store_close(&from);
        store_close(&to);
        store_close(&last);
    }
}


int main(void)
{
    const struct CMUnitTest threaded[] = {
        ON_EVERY_STORE(a_change_wakes_who_waits),
        ON_EVERY_STORE(one_changes_one_reads),
        ON_EVERY_STORE(two_that_change),
    };
    const struct CMUnitTest tests[] = {
        ON_EVERY_STORE(what_an_amend_leaves_unset),
        ON_EVERY_STORE(flags_of_a_caller_make_no_change),
        ON_EVERY_STORE(what_an_amend_sets),
        ON_EVERY_STORE(an_amended_message_keeps_its_place),
        ON_EVERY_STORE(what_cannot_be_amended),
        ON_EVERY_STORE(a_key_belongs_to_what_was_appended),
        ON_EVERY_STORE(amended_ten_thousand_times),
        ON_EVERY_STORE(an_amend_over_the_limit),
        ON_EVERY_STORE(an_amend_is_repaired),
        ON_EVERY_STORE(a_hidden_message_is_in_no_view),
        ON_EVERY_STORE(a_hidden_message_is_not_found),
        ON_EVERY_STORE(a_history_of_what_is_there),
        ON_EVERY_STORE(what_is_expected_is_visible),
        ON_EVERY_STORE(rewinds_inside_rewinds),
        ON_EVERY_STORE(a_rewind_of_nothing_is_no_record),
        ON_EVERY_STORE(ranges_of_one_location),
        ON_EVERY_STORE(redaction_leaves_no_byte),
#ifndef MSGSTORE_NO_DIALECTS
        ON_EVERY_STORE(redaction_takes_the_template),
#endif
        ON_EVERY_STORE(redaction_leaves_the_cost),
        ON_EVERY_STORE(redaction_of_every_length),
        ON_EVERY_STORE(what_is_redacted_can_do_little),
        ON_EVERY_STORE(redaction_takes_pieces),
        ON_EVERY_STORE(notes_carry_where_they_belong),
        ON_EVERY_STORE(notes_that_are_refused),
        ON_EVERY_STORE(the_last_word_about_a_location_counts),
        ON_EVERY_STORE(facts_that_are_refused),
        ON_EVERY_STORE(forks_stay_apart),
        ON_EVERY_STORE(a_fork_keeps_times_and_texts),
        ON_EVERY_STORE(forks_that_are_refused),
        ON_EVERY_STORE(a_stream_is_seen_from_its_beginning),
        ON_EVERY_STORE(a_stream_ends_with_its_text),
        ON_EVERY_STORE(a_stream_ends_as_said),
        ON_EVERY_STORE(pieces_are_put_together),
        ON_EVERY_STORE(characters_that_are_cut),
        ON_EVERY_STORE(a_call_that_is_being_written),
        ON_EVERY_STORE(a_writer_is_told_that_it_is_over),
        ON_EVERY_STORE(streams_that_do_not_begin),
        ON_EVERY_STORE(a_fork_of_what_is_being_written),
        ON_EVERY_STORE(long_streams_side_by_side),
        ON_EVERY_STORE(records_stand_in_their_order),
        ON_EVERY_STORE(raw_queries_that_are_refused),
        ON_EVERY_STORE(an_open_cursor_sees_nothing_of_it),
        ON_EVERY_STORE(changes_survive),
        ON_EVERY_STORE(memory_that_runs_out),
        ON_EVERY_STORE(reading_without_memory),
        ON_EVERY_STORE(a_full_buffer),
        ON_EVERY_STORE(filled_up_by_changes),
        ON_EVERY_STORE(a_copy_has_only_the_result),
        ON_EVERY_STORE(a_rewrite_leaves_no_trace),
        ON_EVERY_STORE(a_copy_counts_what_is_visible),
        ON_EVERY_STORE(a_hidden_key_is_free_in_a_copy),
        ON_EVERY_STORE(a_copied_key_has_the_amended_content),
        ON_EVERY_STORE(one_bit_of_an_image),
        ON_EVERY_STORE(changes_of_old_segments),
        ON_EVERY_STORE(amended_times_in_old_segments),
        ON_EVERY_STORE(a_reader_that_is_open),
        ON_EVERY_STORE(a_child_changes_nothing),
        ON_EVERY_STORE(a_writer_that_is_killed),
        ON_EVERY_STORE(processes_that_change_at_once),
        ON_EVERY_STORE(a_cut_character_counts),
        ON_EVERY_STORE(raw_bounds_go_by_place),
        ON_LOGS(a_redaction_is_cut_off),
        ON_EVERY_STORE(changes_of_one_message_stay_quick),
        ON_EVERY_STORE(hidden_pairs_stay_quick),
        ON_EVERY_STORE(no_memory_is_not_no_message),
        ON_EVERY_STORE(a_redaction_without_memory),
        ON_EVERY_STORE(a_stream_is_of_a_location),
        ON_EVERY_STORE(a_success_tells_no_error),
        ON_EVERY_STORE(what_is_lent_is_not_kept),
        ON_EVERY_STORE(redacting_is_refused_when_a_store_cannot_erase),
        ON_EVERY_STORE(a_copy_without_what_is_none),
        ON_EVERY_STORE(a_copy_of_a_copy_gives_no_number_again),
    };
    int failed = cmocka_run_group_tests(threaded, NULL, NULL);
#ifdef TEST_THREADS
    (void)tests;
#else
    failed += cmocka_run_group_tests(tests, NULL, NULL);
#endif
    return failed;
}
