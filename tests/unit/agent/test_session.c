/* Sessions: users that cannot reach each other whatever they are called; keys that find the
 * full text after windows, reopening and copies. */

#define _POSIX_C_SOURCE 200809L

#include "sqlite_kind.h"
#include "stores.h"
#include "format_calls.h"
#include "low_memory.h"

static ms_envelope row_of(ms_str json)
{
    ms_envelopes all = reads("session", json, STRICT);
    assert_int_equal(all.count, 1);
    return all.items[0];
}

/* The row; places are written, too. */
static ms_str row_text(const ms_envelope *m)
{
    ms_envelope copy = *m;
    ms_envelopes list = {&copy, 1};
    return written("session", &list, PLACES);
}

static ms_str times(const char *unit, size_t n)
{
    size_t len = strlen(unit);
    char *text = (char *)ms_arena_alloc(&arena, len * n);
    for (size_t i = 0; i < n; i++) memcpy(text + i * len, unit, len);
    return ms_str_n(text, len * n);
}


/* ---- rows: what they become is in tests/formats/session.jsonl ---- */

/* A field that was changed since wins over what the stored form still says. */
TEST(field_wins_over_the_stored_form_when_it_was_changed)
{
    ms_envelope m = row_of(MS_STR(
        "{\"role\":\"tool\",\"content\":\"{}\",\"created_at\":"
        "\"2024-01-15T10:30:00+00:00\",\"metadata\":{\"timestamp\":\"x\","
        "\"tool_call_id\":\"c\",\"tool_name\":\"n\",\"tool_arguments\":{\"a\":[]}}}"));
    m.tool = MS_STR("renamed");
    m.time_ns = SECONDS(5);
    m.args = ms_json(MS_STR("{\"b\":1}"));
    ms_envelope again = row_of(row_text(&m));
    same_text(again.tool, MS_STR("renamed"));
    same_text(again.call_id, MS_STR("c"));
    same_text(again.args.text, MS_STR("{\"b\":1}"));
    assert_true(again.time_ns == SECONDS(5));
}


/* ---- sessions ---- */

static ms_session session_of(ms_store *store, ms_str user, ms_str id)
{
    ms_session session;
    ms_error err;
    must_ok(ms_session_init(&session, store, user, id, &arena, &err), &err, "init");
    return session;
}

static void must_store(const ms_session *session, const ms_envelope *rows, size_t n)
{
    ms_error err;
    must_ok(ms_session_store(session, rows, n, &arena, &err), &err, "store");
}

static ms_envelopes loaded(const ms_session *session, const ms_session_load_opts *opts)
{
    ms_envelopes rows;
    ms_error err;
    must_ok(ms_session_load(session, opts, &arena, &rows, &err), &err, "load");
    return rows;
}

static ms_session_load_opts compressing(size_t newest)
{
    ms_session_load_opts opts = {.compress_on_load = true, .newest = newest};
    return opts;
}

/* The i-th row of a long session; every third is a long answer of its own. */
static ms_envelope numbered_row(size_t i)
{
    char *text = (char *)ms_arena_alloc(&arena, 2000);
    size_t len = i % 3 == 2 ? 1400 + i % 100 : 500;
    for (size_t k = 0; k < len; k++) text[k] = (char)('a' + (i * 7 + k) % 26);
    len += (size_t)snprintf(text + len, 32, " %zu", i);
    ms_value said = ms_text_n(ms_str_n(text, len));
    if (i % 3 == 2) return ms_assistant_message(said);
    if (i % 3 == 0) return ms_user_message(said);
    ms_envelope m = ms_observation(said, ms_str_of(NULL));
    m.tool = MS_STR("search");
    m.args = ms_json(MS_STR("{}"));
    return m;
}

/* The key that a loaded row shows; absent: none. */
static ms_str key_of(const ms_envelope *row)
{
    ms_str value, key = no_str();
    if (row->extra.ptr && ms_json_member(row->extra, MS_STR("_entity_key"), &value))
        assert_int_equal(ms_json_string(value, &arena, &key), MS_OK);
    return key;
}

/* The number that a full text of numbered_row ends with. */
static size_t number_of(ms_str text)
{
    size_t n = 0, at = text.len;
    while (text.ptr[at - 1] != ' ') at--;
    for (; at < text.len; at++) n = n * 10 + (size_t)(text.ptr[at] - '0');
    return n;
}

/* Every key that a load shows finds the message that was stored, and no other user. */
static size_t must_find_all(ms_store *store, ms_str user, ms_str id, size_t newest)
{
    ms_session session = session_of(store, user, id);
    ms_session_load_opts opts = compressing(newest);
    ms_envelopes rows = loaded(&session, &opts);
    size_t keys = 0;
    for (size_t i = 0; i < rows.count; i++) {
        ms_str key = key_of(&rows.items[i]);
        const ms_msg *full;
        char expected[MS_ENTITY_KEY_MAX];
        ms_error err;
        ms_envelope want = numbered_row(number_of(rows.items[i].content.text));
        assert_int_equal(key.ptr != NULL, want.type == MS_T_ASSISTANT_MESSAGE);
        if (key.ptr == NULL) {
            same_text(rows.items[i].content.text, want.content.text);
            continue;
        }
        keys++;
        same_text(key, ms_str_n(expected,
                              test_entity_key(id, rows.items[i].seq, expected)));
        if (ms_session_lookup(store, user, key, &arena, &full, &err) != MS_OK)
            fail_msg("%.*s: %s", (int)key.len, key.ptr, err.message);
        same_text(ms_content(full).text, want.content.text);
        assert_int_equal(ms_session_lookup(store, MS_STR("mallory"), key, &arena, &full,
                                           &err), MS_E_NOT_FOUND);
        assert_null(full);
    }
    return keys;
}

static void fill_session(ms_store *store, ms_str user, ms_str id, size_t n)
{
    ms_session session = session_of(store, user, id);
    ms_session other = session_of(store, MS_STR("noise"), id);
    for (size_t i = 0; i < n; i++) {
        ms_envelope m = numbered_row(i), noise = ms_user_message(ms_text("noise"));
        must_store(&session, &m, 1);
        if (i % 2 == 0) must_store(&other, &noise, 1);
    }
}

TEST_WITH(ON_EVERY_STORE, key_finds_row_when_window_moves_or_store_reopens)
{
    test_store s = store_open(*state, NULL);
    ms_str user = MS_STR("user-123"), id = MS_STR("sess-1");
    fill_session(s.store, user, id, 60);
    assert_int_equal(must_find_all(s.store, user, id, 0), 20);
    for (size_t newest = 1; newest < 62; newest += 7)
        must_find_all(s.store, user, id, newest);
    store_reopen(&s);
    assert_int_equal(must_find_all(s.store, user, id, 0), 20);
    assert_int_equal(must_find_all(s.store, user, id, 10), 4);
    store_close(&s);
}

/* A copy leaves old rows and hidden ones out: the others keep their keys. */
TEST_WITH(ON_EVERY_STORE, key_finds_row_when_rows_before_it_are_left_out)
{
    test_store s = store_open(*state, NULL), to = store_open(*state, NULL);
    ms_str user = MS_STR("user-123"), id = MS_STR("sess-1");
    char name[MS_ENTITY_KEY_MAX];
    const ms_msg *msg;
    ms_error err;
    ms_keep keep = {.newest = 25};
    fill_session(s.store, user, id, 40);
    ms_session session = session_of(s.store, user, id);
    ms_envelopes before = loaded(&session, NULL);
    for (size_t i = 16; i < 40; i += 5)
        assert_int_equal(ms_hide(s.store, before.items[i].seq, &err), MS_OK);
    assert_int_equal(must_find_all(s.store, user, id, 0), 12);
    assert_int_equal(ms_copy(to.store, s.store, &keep, NULL, NULL, &err), MS_OK);
    must_find_all(to.store, user, id, 0);
    session = session_of(to.store, user, id);
    for (size_t i = 40; i < 50; i++) {
        ms_envelope m = numbered_row(i);
        must_store(&session, &m, 1);
    }
    store_reopen(&to);
    must_find_all(to.store, user, id, 0);
    must_find_all(to.store, user, id, 7);
    for (size_t i = 2; i < 40; i += 24) { /* one left out, one hidden */
        ms_str key = ms_str_n(name, test_entity_key(id, before.items[i].seq, name));
        assert_int_equal(ms_session_lookup(to.store, user, key, &arena, &msg, &err),
                         MS_E_NOT_FOUND);
    }
    store_close(&to);
    store_close(&s);
}

TEST_WITH(ON_EVERY_STORE, key_finds_row_when_session_id_is_long)
{
    test_store s = store_open(*state, NULL);
    ms_str user = MS_STR("u");
    const ms_str ids[] = {times("x", 233), times("x", 241), times("x", 300),
                          times("\xe4\xb8\x96", 100)};
    for (size_t i = 0; i < COUNT(ids); i++) fill_session(s.store, user, ids[i], 12);
    store_reopen(&s);
    for (size_t i = 0; i < COUNT(ids); i++)
        assert_int_equal(must_find_all(s.store, user, ids[i], 0), 4);
    store_close(&s);
}

/* Names that look like each other's places. */
TEST_WITH(ON_EVERY_STORE, user_reaches_own_sessions_only_when_names_look_alike)
{
    skip_on_a_server(state, "its keys are made of numbers from 1");
    static const struct {
        const char *user, *id;
    } names[] = {
        {"a", "b"},       {"a/b", "c"},     {"a", "b/c"},     {"1:a", "b"},
        {"a/", "b"},      {"a", "/b"},      {"3:a/b", "c"},   {"1:a/b", "c"},
        {"a", "1:a/b"},   {"A", "b"},       {"a", "b-msg-1"}, {"a", "b-msg-1-msg-1"},
        {"%", "\"q\"\n"}, {"\xc3\xa9", "-"},
    };
    test_store s = store_open(*state, NULL);
    char text[32];
    ms_error err;
    for (size_t i = 0; i < COUNT(names); i++) {
        ms_session session = session_of(s.store, ms_str_of(names[i].user),
                                        ms_str_of(names[i].id));
        snprintf(text, sizeof text, "secret %zu", i);
        ms_envelope m = ms_user_message(ms_text(text));
        must_store(&session, &m, 1);
    }
    store_reopen(&s);
    for (size_t i = 0; i < COUNT(names); i++) {
        ms_str user = ms_str_of(names[i].user), id = ms_str_of(names[i].id);
        ms_session session = session_of(s.store, user, id);
        ms_envelopes rows = loaded(&session, NULL);
        char key[MS_ENTITY_KEY_MAX];
        const ms_msg *found;
        ms_listing list;
        size_t mine = 0;
        snprintf(text, sizeof text, "secret %zu", i);
        assert_int_equal(rows.count, 1);
        same_text(rows.items[0].content.text, ms_str_of(text));
        for (size_t k = 0; k < COUNT(names); k++) { /* with the numbers of all others */
            ms_str whole = ms_str_n(key, test_entity_key(id, k + 1, key));
            assert_int_equal(ms_session_lookup(s.store, user, whole, &arena, &found,
                                               &err), k == i ? MS_OK : MS_E_NOT_FOUND);
            if (k == i) same_text(ms_content(found).text, ms_str_of(text));
            mine += strcmp(names[k].user, names[i].user) == 0;
        }
        assert_int_equal(ms_session_list(s.store, user, 0, &arena, &list, &err), MS_OK);
        assert_int_equal(list.count, mine);
        for (size_t k = 0; k < list.count; k++) {
            ms_session each = session_of(s.store, user, list.items[k].location);
            assert_int_equal(loaded(&each, NULL).count, list.items[k].messages);
        }
    }
    store_close(&s);
}

TEST(session_is_refused_when_a_name_is_bad)
{
    test_store s = store_open(store_kind_at(0), NULL);
    ms_str ok = MS_STR("x"), nul = MS_STR("a\0b"), bad = MS_STR("\xff");
    const struct {
        ms_str user, id;
        ms_result code;
        const char *path;
    } names[] = {
        {MS_STR(""), ok, MS_E_ARGUMENT, "user_id"},
        {no_str(), ok, MS_E_ARGUMENT, "user_id"},
        {ok, MS_STR(""), MS_E_ARGUMENT, "session_id"},
        {ok, no_str(), MS_E_ARGUMENT, "session_id"},
        {nul, ok, MS_E_ARGUMENT, "user_id"},
        {ok, nul, MS_E_ARGUMENT, "session_id"},
        {bad, ok, MS_E_UTF8, "user_id"},
        {ok, bad, MS_E_UTF8, "session_id"},
        {times("u", 1024), ok, MS_E_TOO_LARGE, "user_id"},
        {ok, times("s", 1024), MS_E_TOO_LARGE, "session_id"},
        {times("u", 1023), ok, MS_E_TOO_LARGE, ""},
        {times("u", 500), times("s", 519), MS_E_TOO_LARGE, ""},
    };
    for (size_t i = 0; i < COUNT(names); i++) {
        ms_session session;
        ms_error err;
        ms_envelope m = ms_user_message(ms_text("x"));
        ms_envelopes rows;
        ms_result code = ms_session_init(&session, s.store, names[i].user, names[i].id,
                                         &arena, &err);
        if (code != names[i].code || strcmp(err.path, names[i].path) != 0)
            fail_msg("%zu: %d at '%s': %s", i, code, err.path, err.message);
        /* Refused: it must not mean "everything". */
        assert_int_equal(ms_session_store(&session, &m, 1, &arena, &err), MS_E_ARGUMENT);
        assert_int_equal(ms_session_load(&session, NULL, &arena, &rows, &err),
                         MS_E_ARGUMENT);
    }
    ms_session largest = session_of(s.store, times("u", 500), times("s", 518));
    ms_envelope m = ms_user_message(ms_text("x"));
    must_store(&largest, &m, 1);
    assert_int_equal(loaded(&largest, NULL).count, 1);
    ms_session none;
    ms_error err;
    assert_int_equal(ms_session_init(&none, NULL, ok, ok, &arena, &err), MS_E_ARGUMENT);
    assert_int_equal(ms_session_init(&none, s.store, ok, ok, NULL, &err), MS_E_ARENA);
    store_close(&s);
}

TEST_WITH(ON_EVERY_STORE, lookup_finds_nothing_when_text_is_no_key)
{
    skip_on_a_server(state, "its keys are made of numbers from 1");
    test_store s = store_open(*state, NULL);
    const ms_str keys[] = {
        no_str(), MS_STR(""), MS_STR("session-"), MS_STR("session-s"),
        MS_STR("session-s-msg-"), MS_STR("session-s-msg-3"), MS_STR("session-s-msg-01"),
        MS_STR("session-s-msg-0"), MS_STR("session-s-msg-+1"), MS_STR("session-s-msg--1"),
        MS_STR("session-s-msg-1 "),
        MS_STR("session-s-msg-18446744073709551615"),
        MS_STR("session-s-msg-18446744073709551617"),
        MS_STR("session-s-msg-99999999999999999999999"), MS_STR("session--msg-1"),
        MS_STR("session-t-msg-1"), MS_STR("Session-s-msg-1"), MS_STR("session-s-msg-1.0"),
        MS_STR("-msg-1"), MS_STR("session-msg-1"), times("session-s-msg-1", 100),
        MS_STR("session-\xff-msg-1"), MS_STR("session-s\0-msg-1")};
    ms_envelope m = ms_user_message(ms_text("x"));
    const ms_msg *found;
    ms_error err;
    ms_session session = session_of(s.store, MS_STR("u"), MS_STR("s"));
    must_store(&session, &m, 1);
    must_store(&session, &m, 1);
    for (size_t i = 0; i < COUNT(keys); i++) {
        ms_result code = ms_session_lookup(s.store, MS_STR("u"), keys[i], &arena, &found,
                                           &err);
        if (code != MS_E_NOT_FOUND) fail_msg("key %zu: %d", i, code);
        assert_int_equal(err.code, MS_E_NOT_FOUND);
    }
    assert_int_equal(ms_session_lookup(s.store, MS_STR("u"), MS_STR("session-s-msg-2"),
                                       &arena, &found, &err), MS_OK);
    assert_int_equal(ms_seq(found), 2);
    assert_int_equal(ms_session_lookup(s.store, MS_STR(""), MS_STR("session-s-msg-1"),
                                       &arena, &found, &err), MS_E_ARGUMENT);
    assert_int_equal(ms_session_lookup(s.store, MS_STR("u"), MS_STR("session-s-msg-1"),
                                       NULL, &found, &err), MS_E_ARENA);
    store_close(&s);
}

TEST_WITH(ON_EVERY_STORE, system_rows_are_left_out_when_rows_are_stored)
{
    test_store s = store_open(*state, NULL);
    ms_session session = session_of(s.store, MS_STR("u"), MS_STR("s"));
    ms_envelope rows[] = {ms_message(MS_T_TEXT, ms_text("sys")),
                          ms_user_message(ms_text("a")),
                          ms_message(MS_T_TEXT, ms_text("sys")),
                          ms_message(MS_T_TEXT, ms_text("dev"))};
    rows[2].role = MS_ROLE_SYSTEM;
    rows[3].role = MS_ROLE_DEVELOPER;
    ms_error err;
    must_store(&session, rows, 4);
    must_store(&session, rows, 1);
    must_store(&session, NULL, 0);
    ms_envelopes list = loaded(&session, NULL);
    assert_int_equal(list.count, 2);
    same_text(list.items[1].content.text, MS_STR("dev"));
    assert_int_equal(ms_append(s.store, session.location, &rows[0], NULL, &err), MS_OK);
    assert_int_equal(loaded(&session, NULL).count, 3);
    assert_int_equal(ms_session_store(&session, NULL, 1, &arena, &err), MS_E_ARGUMENT);
    assert_int_equal(ms_session_store(&session, rows, 1, NULL, &err), MS_E_ARENA);
    store_close(&s);
}

TEST_WITH(ON_EVERY_STORE, no_row_is_stored_when_one_is_wrong)
{
    test_store s = store_open(*state, NULL);
    ms_session session = session_of(s.store, MS_STR("u"), MS_STR("s"));
    ms_envelope rows[] = {ms_user_message(ms_text("a")),
                          ms_message(MS_T_TEXT, ms_text("sys")),
                          ms_user_message(ms_text(NULL))};
    ms_error err;
    assert_int_equal(ms_session_store(&session, rows, 3, &arena, &err), MS_E_MISSING);
    assert_int_equal(loaded(&session, NULL).count, 0);
    rows[0].location = MS_STR("elsewhere");
    must_store(&session, rows, 1);
    same_text(loaded(&session, NULL).items[0].location, session.location);
    store_close(&s);
}

/* Only what the assistant says is shortened, only once, and never to more. */
TEST_WITH(ON_EVERY_STORE, only_long_answers_are_shortened_when_loaded)
{
    test_store s = store_open(*state, NULL);
    ms_session session = session_of(s.store, MS_STR("u"), MS_STR("s"));
    ms_value text = ms_text_n(times("x", 600)), edge = ms_text_n(times("x", 401));
    ms_envelope rows[] = {ms_user_message(text), ms_observation(text, ms_str_of(NULL)),
                          ms_assistant_message(edge), ms_message(MS_T_FINAL, text),
                          ms_message(MS_T_TASK, text),
                          ms_assistant_message(ms_json(MS_STR("[1]"))),
                          ms_assistant_message(text)};
    ms_session_load_opts opts = compressing(0);
    rows[6].extra = MS_STR("{\"_compressed\":true}");
    must_store(&session, rows, COUNT(rows));
    ms_envelopes all = loaded(&session, &opts);
    for (size_t i = 0; i < COUNT(rows); i++) {
        bool is = all.items[i].content.text.len != rows[i].content.text.len;
        assert_int_equal(is, i == 3);
    }
    opts.shorten.as_origin = true;
    all = loaded(&session, &opts);
    assert_true(all.items[2].content.text.len > 401);
    ms_envelope said = row_of(MS_STR("{\"role\":\"assistant\",\"content\":\"\",\"_compressed\":true}"));
    said.content = text;
    must_store(&session, &said, 1);
    opts.shorten.as_origin = false;
    all = loaded(&session, &opts);
    assert_int_equal(all.items[all.count - 1].content.text.len, text.text.len);
    store_close(&s);
}

/* One room for keys serves all rows of a load. */
TEST_WITH(ON_EVERY_STORE, load_takes_one_key_when_answers_are_many)
{
    static uint64_t room[10000]; /* of 1,600 bytes more a row 80,000 */
    test_store s = store_open(*state, NULL);
    ms_session session = session_of(s.store, MS_STR("u"), MS_STR("s"));
    ms_session_load_opts opts = compressing(0);
    ms_envelope rows[100];
    ms_envelopes all;
    ms_arena own;
    for (size_t i = 0; i < COUNT(rows); i++)
        rows[i] = ms_assistant_message(ms_text("short"));
    must_store(&session, rows, COUNT(rows));
    test_arena_init_fixed(&own, room, sizeof room);
    opts.newest = 50;
    assert_int_equal(ms_session_load(&session, &opts, &own, &all, NULL), MS_OK);
    assert_int_equal(all.count, 50);
    store_close(&s);
}

static ms_result load_low_memory(void *session, ms_arena *in)
{
    ms_session_load_opts opts = compressing(0);
    ms_envelopes rows;
    ms_result code =
        ms_session_load((const ms_session *)session, &opts, in, &rows, NULL);
    assert_int_equal(rows.count, code == MS_OK ? 6 : 0);
    if (code != MS_OK) assert_null(rows.items);
    return code;
}

TEST_WITH(ON_EVERY_STORE, load_returns_no_rows_when_memory_ends)
{
    test_store s = store_open(*state, NULL);
    ms_session session = session_of(s.store, MS_STR("u"), MS_STR("s"));
    ms_envelope rows[6];
    for (size_t i = 0; i < COUNT(rows); i++) rows[i] = numbered_row(i);
    must_store(&session, rows, COUNT(rows));
    assert_true(low_memory(load_low_memory, &session, 8) > 10);
    store_close(&s);
}

/* A row that is being written is there with its text so far. */
TEST_WITH(ON_EVERY_STORE, row_has_its_text_so_far_when_a_stream_writes_it)
{
    test_store s = store_open(*state, NULL);
    ms_session session = session_of(s.store, MS_STR("u"), MS_STR("s"));
    ms_envelope m = ms_assistant_message(ms_text(""));
    ms_stream stream;
    ms_error err;
    assert_int_equal(ms_stream_begin(&stream, s.store, session.location, &m, NULL, &err),
                     MS_OK);
    assert_int_equal(ms_stream_feed(&stream, MS_STR("so far"), &err), MS_OK);
    assert_int_equal(test_stream_flush(&stream, &err), MS_OK);
    same_text(loaded(&session, NULL).items[0].content.text, MS_STR("so far"));
    store_close(&s);
}

/* A store of somebody's own that has no changes keeps sessions as well. */
TEST(session_works_when_store_has_no_changes)
{
    test_store s = store_open(&sqlite_kind, NULL);
    ms_usage usage;
    ms_error err;
    fill_session(s.store, MS_STR("u"), MS_STR("s"), 30);
    assert_int_equal(must_find_all(s.store, MS_STR("u"), MS_STR("s"), 7), 3);
    memset(&usage, 0, sizeof usage);
    assert_int_equal(ms_note_usage(s.store, 1, &usage, &err), MS_E_UNSUPPORTED);
    store_close(&s);
}

TEST(damaged_row_is_skipped_when_others_are_loaded)
{
    test_store s = store_open(store_kind_at(2), NULL); /* the one in a buffer of ours */
    ms_session session = session_of(s.store, MS_STR("u"), MS_STR("s"));
    ms_session_load_opts opts = compressing(0);
    ms_envelopes rows;
    const ms_msg *msg;
    char name[MS_ENTITY_KEY_MAX];
    ms_error err;
    for (size_t i = 0; i < 6; i++) {
        ms_envelope m = numbered_row(2 + 3 * i);
        must_store(&session, &m, 1);
    }
    assert_int_equal(ms_get_by_seq(s.store, 3, &arena, &msg, &err), MS_OK);
    char *damaged = (char *)s.buffer + ((const char *)msg - (const char *)s.buffer);
    damaged[20] ^= 1;
    assert_int_equal(ms_session_load(&session, &opts, &arena, &rows, &err), MS_E_DAMAGED);
    assert_int_equal(rows.count, 5);
    for (uint64_t i = 3; i <= 6; i++) {
        ms_envelope row = numbered_row((size_t)(3 * i - 1));
        ms_str key = ms_str_n(name, test_entity_key(MS_STR("s"), i, name));
        ms_result code = ms_session_lookup(s.store, MS_STR("u"), key, &arena, &msg, &err);
        assert_int_equal(code, i == 3 ? MS_E_DAMAGED : MS_OK);
        if (code == MS_OK) same_text(ms_content(msg).text, row.content.text);
        code = ms_session_lookup(s.store, MS_STR("mallory"), key, &arena, &msg, &err);
        assert_int_equal(code, i == 3 ? MS_E_DAMAGED : MS_E_NOT_FOUND);
        assert_null(msg); /* whose it was is unknown */
    }
    store_close(&s);
}

int main(void)
{
    return run_all_tests(open_arena, close_arena);
}
