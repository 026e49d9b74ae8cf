/* Sessions: rows that come back as they were, also by way of another format; users that
 * cannot reach each other whatever they are called; keys that find the full text after
 * windows, reopening and compaction; what a model is shown. */

#define _POSIX_C_SOURCE 200809L

#define MSGSTORE_EXAMPLE_NO_MAIN
#include "../examples/sqlite_store.c"

#include "stores.h"
#include "arena.h"
#include "json_equal.h"

#include <pthread.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const ms_dialect *dialect(const char *name)
{
    const ms_dialect *d = ms_dialect_find(ms_str_of(name));
    assert_non_null(d);
    return d;
}

static ms_envelope row_of(const char *json)
{
    ms_envelopes all;
    ms_error err;
    if (ms_read(dialect("session"), ms_str_of(json), NULL, &arena, &all, &err) != MS_OK)
        fail_msg("%s: %s", json, err.message);
    assert_int_equal(all.count, 1);
    return all.items[0];
}

/* As text in the arena; places are written too. */
static ms_str written(const char *name, const ms_envelope *m)
{
    ms_writer_opts opts;
    ms_writer w;
    ms_buf buf;
    ms_error err;
    memset(&opts, 0, sizeof opts);
    memset(&buf, 0, sizeof buf);
    buf.arena = &arena;
    opts.with_location = true;
    ms_writer_init(&w, dialect(name), &opts, &arena, ms_buf_write, &buf);
    if (ms_writer_put(&w, m, &err) != MS_OK || ms_writer_finish(&w, &err) != MS_OK)
        fail_msg("%s: %s", name, err.message);
    return ms_buf_text(&buf);
}

static void must_be_json(ms_str got, ms_str want, const char *what)
{
    json_where where;
    json_t *a = json_parse_n(got.ptr, got.len), *b = json_parse_n(want.ptr, want.len);
    if (a == NULL || b == NULL || !json_same(a, b, 0, &where))
        fail_msg("%s: %.*s instead of %.*s", what, (int)got.len, got.ptr, (int)want.len,
                 want.ptr);
    json_decref(a);
    json_decref(b);
}

static void must_be(ms_str got, ms_str want)
{
    if (!ms_str_equal(got, want))
        fail_msg("'%.*s' instead of '%.*s'", (int)got.len, got.ptr, (int)want.len,
                 want.ptr);
}

static ms_str times(const char *unit, size_t n)
{
    size_t len = strlen(unit);
    char *text = (char *)ms_arena_alloc(&arena, len * n);
    for (size_t i = 0; i < n; i++) memcpy(text + i * len, unit, len);
    return ms_str_n(text, len * n);
}


/* ---- rows ---- */

static const struct {
    const char *row;
    ms_type type;
} good_rows[] = {
    {"{\"role\":\"user\",\"content\":\"Find\",\"timestamp\":\"2024-01-15T10:30:00Z\"}",
     MS_T_USER_MESSAGE},
    {"{\"role\":\"assistant\",\"content\":\"\","
     "\"timestamp\":\"2024-01-15 10:30:00+01:00\"}",
     MS_T_ASSISTANT_MESSAGE},
    {"{\"role\":\"tool\",\"content\":\"{\\\"results\\\": []}\",\"tool_name\":\"search\","
     "\"tool_call_id\":\"call_abc\",\"tool_arguments\":{\"q\":\"x\"}}",
     MS_T_OBSERVATION},
    {"{\"role\":\"tool\",\"content\":\"\",\"tool_name\":\"\",\"tool_arguments\":{}}",
     MS_T_OBSERVATION},
    {"{\"role\":\"tool\",\"content\":null,\"tool_name\":null,\"tool_call_id\":null,"
     "\"tool_arguments\":null}",
     MS_T_OBSERVATION},
    {"{\"role\":\"tool\",\"content\":[1,{\"a\":1.50}],\"tool_arguments\":\"not json\"}",
     MS_T_OBSERVATION},
    {"{\"role\":\"tool\"}", MS_T_OBSERVATION},
    {"{\"content\":\"no role\"}", MS_T_ASSISTANT_MESSAGE},
    {"{\"content\":null}", MS_T_ASSISTANT_MESSAGE},
    {"{\"role\":\"system\",\"content\":\"be good\"}", MS_T_TEXT},
    {"{\"role\":\"developer\",\"content\":\"be\"}", MS_T_TEXT},
    {"{\"role\":\"tool_result\",\"content\":\"x\",\"tool_name\":5}", MS_T_TEXT},
    {"{\"role\":\"user\",\"content\":\"x\",\"timestamp\":1700000000.50}",
     MS_T_USER_MESSAGE},
    {"{\"role\":\"user\",\"content\":\"x\",\"timestamp\":null,\"id\":null}",
     MS_T_USER_MESSAGE},
    {"{\"role\":\"user\",\"content\":\"x\",\"timestamp\":\"\",\"created_at\":1e9}",
     MS_T_USER_MESSAGE},
    {"{\"id\":\"7\",\"session_id\":\"s\",\"user_id\":\"u\",\"tenant_id\":\"t\","
     "\"role\":\"tool\",\"content\":\"{}\",\"created_at\":\"2024-01-15T10:30:00+00:00\","
     "\"updated_at\":null,\"metadata\":{\"message_index\":0,\"timestamp\":\"x\","
     "\"tool_call_id\":\"c\",\"tool_name\":\"n\",\"tool_arguments\":{\"a\":[]},"
     "\"model\":\"m\"},\"tool_calls\":null,\"deleted_at\":null}",
     MS_T_OBSERVATION},
    {"{\"id\":7,\"role\":\"tool\",\"content\":\"\",\"tool_name\":\"own\","
     "\"metadata\":{\"tool_name\":\"other\",\"tool_call_id\":\"\","
     "\"tool_arguments\":null}}",
     MS_T_OBSERVATION},
    {"{\"role\":\"tool\",\"content\":\"\",\"metadata\":"
     "\"{\\\"tool_name\\\":\\\"in text\\\","
     "\\\"timestamp\\\":\\\"2024-01-01T00:00:00Z\\\"}\"}",
     MS_T_OBSERVATION},
    {"{\"role\":\"tool\",\"content\":\"\",\"metadata\":\"no json\"}", MS_T_OBSERVATION},
    {"{\"role\":\"assistant\",\"content\":\"x\",\"metadata\":{\"tool_name\":\"n\"},"
     "\"tool_name\":{},\"tool_arguments\":7}",
     MS_T_ASSISTANT_MESSAGE},
    {"{\"role\":\"assistant\",\"tool_calls\":{\"items\":[{\"tool_name\":\"t\","
     "\"tool_arguments\":{},\"more\":null}]}}",
     MS_T_ACTION},
    {"{\"role\":\"assistant\",\"content\":\"I call\",\"tool_calls\":{\"items\":[{"
     "\"tool_name\":\"t\",\"tool_call_id\":\"c\",\"tool_arguments\":\"broken {\"}]}}",
     MS_T_ACTION},
    {"{\"role\":\"assistant\",\"content\":null,\"tool_calls\":{\"items\":[{"
     "\"tool_name\":\"t\",\"tool_arguments\":null}]}}",
     MS_T_ACTION},
    {"{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":{\"items\":[{"
     "\"tool_name\":\"t\",\"tool_arguments\":{}},{\"tool_name\":\"u\"}]}}",
     MS_T_ASSISTANT_MESSAGE},
    {"{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":1}]}",
     MS_T_ASSISTANT_MESSAGE},
    {"{\"role\":\"user\",\"content\":\"x\",\"_compressed\":true,\"extra\":{\"role\":1},"
     "\"type\":\"task\",\"call\":{},\"args\":7,\"\":[]}",
     MS_T_USER_MESSAGE},
};

static void test_rows_come_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(good_rows); i++) {
        ms_envelope m = row_of(good_rows[i].row);
        if (m.type != good_rows[i].type)
            fail_msg("%s: type %d", good_rows[i].row, m.type);
        must_be_json(written("session", &m), ms_str_of(good_rows[i].row),
                     good_rows[i].row);
    }
}

static void test_row_fields(void **state)
{
    ms_envelope m = row_of(good_rows[2].row);
    (void)state;
    must_be(m.tool, MS_STR("search"));
    must_be(m.call_id, MS_STR("call_abc"));
    must_be(m.args.text, MS_STR("{\"q\":\"x\"}"));
    assert_true(m.args.json);
    m = row_of(good_rows[1].row);
    assert_true(m.has_time && m.time == 1705311000.0);
    must_be(m.time_text, MS_STR("2024-01-15 10:30:00+01:00"));
    m = row_of(good_rows[15].row);
    must_be(m.tool, MS_STR("n"));
    must_be(m.call_id, MS_STR("c"));
    must_be(m.args.text, MS_STR("{\"a\":[]}"));
    must_be(m.id, MS_STR("7"));
    assert_true(m.has_time && m.time == 1705314600.0);
    m = row_of(good_rows[17].row);
    must_be(m.tool, MS_STR("in text"));
    assert_true(m.has_time && m.time == 1704067200.0);
    m = row_of(good_rows[19].row);
    assert_null(m.tool.ptr);
}

/* A field that was changed since wins over what the stored form still says. */
static void test_changed_rows(void **state)
{
    ms_envelope m = row_of(good_rows[15].row), again;
    (void)state;
    m.tool = MS_STR("renamed");
    m.time = 5;
    m.args = ms_json(MS_STR("{\"b\":1}"));
    ms_str text = written("session", &m);
    char *copy = (char *)ms_arena_alloc(&arena, text.len + 1);
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    again = row_of(copy);
    must_be(again.tool, MS_STR("renamed"));
    must_be(again.call_id, MS_STR("c"));
    must_be(again.args.text, MS_STR("{\"b\":1}"));
    assert_true(again.time == 5);
}

static void test_refused_rows(void **state)
{
    static const struct {
        const char *row;
        ms_result code;
        const char *path;
    } bad[] = {
        {"{}", MS_E_MISSING, "role"},
        {"{\"timestamp\":\"2024-01-15T10:30:00Z\"}", MS_E_MISSING, "role"},
        {"{\"role\":\"\",\"content\":\"x\"}", MS_E_KIND, "role"},
        {"{\"role\":7,\"content\":\"x\"}", MS_E_KIND, "role"},
        {"{\"role\":null,\"content\":\"x\"}", MS_E_KIND, "role"},
        {"{\"role\":\"user\",\"content\":\"x\",\"timestamp\":\"soon\"}", MS_E_KIND,
         "timestamp"},
        {"{\"role\":\"user\",\"content\":\"x\",\"timestamp\":\"2024-02-30T10:30:00Z\"}",
         MS_E_KIND, "timestamp"},
        {"{\"role\":\"user\",\"content\":\"x\",\"timestamp\":{}}", MS_E_KIND,
         "timestamp"},
        {"{\"role\":\"user\",\"content\":\"x\",\"timestamp\":1e999}", MS_E_KIND,
         "timestamp"},
        {"{\"role\":\"tool\",\"content\":\"x\",\"tool_name\":7}", MS_E_KIND, "tool_name"},
        {"{\"role\":\"tool\",\"content\":\"x\",\"tool_call_id\":[]}", MS_E_KIND,
         "tool_call_id"},
        {"{\"role\":\"user\",\"content\":\"x\",\"msgstore\":[]}", MS_E_KIND, "msgstore"},
        {"{\"role\":\"user\",\"content\":\"x\",\"msgstore\":{\"type\":\"?\"}}", MS_E_TYPE,
         "msgstore"},
        {"[]", MS_E_KIND, ""},
        {"{\"role\":\"user\",\"content\":\"x\"", MS_E_SYNTAX, ""},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        ms_envelopes all;
        ms_error err;
        ms_read_opts lenient = {true, false};
        ms_result code = ms_read(dialect("session"), ms_str_of(bad[i].row), NULL, &arena,
                                 &all, &err);
        if (code != bad[i].code || strcmp(err.path, bad[i].path) != 0)
            fail_msg("%s: %d at '%s': %s", bad[i].row, code, err.path, err.message);
        assert_int_equal(all.count, 0);
        if (i < 2 || i > 12 || i == 8) continue; /* the oracle reads no 1e999 */
        if (ms_read(dialect("session"), ms_str_of(bad[i].row), &lenient, &arena, &all,
                    &err) != MS_OK)
            fail_msg("%s, lenient: %s", bad[i].row, err.message);
        must_be_json(written("session", &all.items[0]), ms_str_of(bad[i].row), "lenient");
    }
}

/* Rows put together from what may stand in each member. */
static void random_row(uint64_t *rng, char *out, size_t size)
{
    static const char *const members[][8] = {
        {"role", "\"user\"", "\"tool\"", "\"assistant\"", "\"tool\"", "null",
         "\"critic\"", "5"},
        {"content", "\"\"", "\"x\\ny\"", "null", "{\"a\":{}}", "\"5\"", "[]", "false"},
        {"timestamp", "null", "\"2024-01-15T10:30:00.123456Z\"", "\"bad\"", "0", "1.50e3",
         "\"\"", "{}"},
        {"created_at", "null", "\"2024-01-15T10:30:00.5+02:00\"", "\"bad\"", "17", "[]",
         "\"\"", "\"\\u0032024-01-15T10:30:00Z\""},
        {"id", "null", "\"i\"", "7", "\"\"", "{}", "\"\\u00e9\"", "[]"},
        {"tool_name", "null", "\"t\"", "\"\"", "7", "\"\\u0074\"", "{}", "\"a b\""},
        {"tool_call_id", "null", "\"c\"", "\"\"", "7", "\"d\"", "[]", "\"c\""},
        {"tool_arguments", "null", "{}", "{\"a\": 1.0}", "\"{}\"", "[]", "7", "\"\""},
        {"tool_calls", "null", "{\"items\":[]}", "[]",
         "{\"items\":[{\"tool_name\":\"t\",\"tool_arguments\":{\"x\":1}}]}",
         "{\"items\":[{\"tool_name\":\"t\",\"tool_arguments\":\"\",\"tool_call_id\":\"\","
         "\"y\":[]}]}",
         "{\"items\":[{\"tool_name\":\"t\"}],\"n\":1}", "{\"items\":[7]}"},
        {"metadata", "null", "{}",
         "{\"tool_name\":\"t\",\"tool_arguments\":{\"a\": 1.0}}",
         "{\"timestamp\":17,\"tool_call_id\":\"c\"}", "\"{\\\"tool_name\\\":\\\"m\\\"}\"",
         "{\"tool_name\":null,\"tool_arguments\":null}", "\"\""},
        {"extra", "null", "{}", "{\"role\":1}", "7", "[]", "\"\"", "{\"extra\":{}}"},
        {"seen", "null", "{}", "[]", "7", "1.50", "\"\"", "{\"a\":[{}]}"},
    };
    size_t len = 0;
    const char *comma = "";
    len += (size_t)snprintf(out, size, "{");
    for (size_t i = 0; i < COUNT(members); i++) {
        if (test_one_in(rng, i < 2 ? 12 : 2)) continue;
        len += (size_t)snprintf(out + len, size - len, "%s\"%s\":%s", comma,
                                members[i][0], members[i][1 + test_below(rng, 7)]);
        comma = ",";
    }
    snprintf(out + len, size - len, "}");
}

static void test_random_rows(void **state)
{
    uint64_t rng = test_seed();
    size_t read = 0, strict = 0, n = test_times(60000);
    (void)state;
    for (size_t i = 0; i < n; i++) {
        char row[2000];
        ms_envelopes all;
        ms_error err;
        ms_read_opts opts = {false, false};
        random_row(&rng, row, sizeof row);
        opts.lenient = test_one_in(&rng, 2);
        ms_result code =
            ms_read(dialect("session"), ms_str_of(row), &opts, &arena, &all, &err);
        if (code == MS_OK) {
            read++;
            strict += !opts.lenient;
            must_be_json(written("session", &all.items[0]), ms_str_of(row), row);
        } else if (opts.lenient && code != MS_E_MISSING) {
            fail_msg("%s: %s", row, err.message);
        }
        ms_arena_reset(&arena);
    }
    assert_true(strict > n / 20 && read > n / 2);
}

/* Every member by way of the framework format. */
static void test_rows_by_framework(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(good_rows); i++) {
        ms_envelopes all;
        ms_error err;
        ms_read_opts lenient = {true, false};
        ms_envelope m = row_of(good_rows[i].row);
        ms_str text = written("framework", &m);
        bool stands_in = (m.flags & MS_FLAG_LENIENT) != 0;
        if (ms_read(dialect("framework"), text, &lenient, &arena, &all, &err) != MS_OK)
            fail_msg("%.*s: %s", (int)text.len, text.ptr, err.message);
        /* Not so: what was not there, what the framework has no word or name for. */
        if (stands_in || m.type == MS_T_TEXT || i == 3 || i == 14 ||
            i == COUNT(good_rows) - 1)
            continue;
        json_t *a = json_parse_n(good_rows[i].row, strlen(good_rows[i].row));
        ms_str back = written("session", &all.items[0]);
        json_t *b = json_parse_n(back.ptr, back.len);
        if (strstr(good_rows[i].row, "timestamp") != NULL) { /* another spelling */
            assert_int_equal(all.items[0].has_time, m.has_time);
            assert_true(all.items[0].time == m.time);
            json_object_del(a, "timestamp");
            json_object_del(b, "timestamp");
        }
        if (!json_same(a, b, 0, NULL))
            fail_msg("%s became %.*s by %.*s", good_rows[i].row, (int)back.len, back.ptr,
                     (int)text.len, text.ptr);
        json_decref(a);
        json_decref(b);
    }
}

static bool sound_text(const ms_envelope *m)
{
    const ms_str all[] = {m->content.text, m->tool,       m->args.text, m->call_id,
                          m->worker,       m->task,       m->summary,   m->from_worker,
                          m->from_manager, m->error_type, m->id};
    for (size_t i = 0; i < COUNT(all); i++)
        if (all[i].ptr != NULL && !ms_utf8_check(all[i], NULL)) return false;
    return true;
}

/* A message of any type, written as a row and read again, is the message: seen through
 * the framework format, which has a place for everything. */
static void test_messages_by_rows(void **state)
{
    uint64_t rng = test_seed();
    (void)state;
    for (size_t i = 0; i < test_times(40000); i++) {
        ms_envelope m = random_message(&rng);
        ms_envelopes all;
        ms_error err;
        if (!sound_text(&m)) continue;
        m.flags &= MS_FLAG_JOINED;
        m.time_text = no_str();
        ms_envelope usual = m;
        usual.role = MS_ROLE_NONE;
        const ms_msg *a, *b;
        assert_int_equal(ms_encode(&m, &arena, &a, NULL), MS_OK);
        assert_int_equal(ms_encode(&usual, &arena, &b, NULL), MS_OK);
        if (ms_role_of(a) == ms_role_of(b)) m.role = MS_ROLE_NONE; /* says no more */
        if (m.role != MS_ROLE_OTHER) m.role_name = no_str();
        ms_str want = written("framework", &m), row = written("session", &m);
        if (ms_read(dialect("session"), row, NULL, &arena, &all, &err) != MS_OK)
            fail_msg("%.*s: %s", (int)row.len, row.ptr, err.message);
        char *text = (char *)ms_arena_alloc(&arena, row.len + 1);
        memcpy(text, row.ptr, row.len);
        text[row.len] = '\0';
        assert_int_equal(all.items[0].type, m.type);
        must_be_json(written("framework", &all.items[0]), want, text);
        ms_arena_reset(&arena);
    }
}


/* ---- sessions ---- */

static ms_session session_of(ms_store *store, ms_str user, ms_str id)
{
    ms_session session;
    ms_error err;
    if (ms_session_init(&session, store, user, id, &err) != MS_OK)
        fail_msg("init: %s", err.message);
    return session;
}

static void must_store(const ms_session *session, const ms_envelope *rows, size_t n)
{
    ms_error err;
    if (ms_session_store(session, rows, n, NULL, NULL, &err) != MS_OK)
        fail_msg("store: %s", err.message);
}

static ms_envelopes loaded(const ms_session *session, const ms_session_load_opts *opts)
{
    ms_envelopes rows;
    ms_error err;
    if (ms_session_load(session, opts, &arena, &rows, &err) != MS_OK)
        fail_msg("load: %s", err.message);
    return rows;
}

static ms_session_load_opts compressing(size_t newest)
{
    ms_session_load_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.compress_on_load = true;
    opts.newest = newest;
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
    ms_envelope m = ms_observation(said);
    m.tool = MS_STR("search");
    m.args = ms_json(MS_STR("{}"));
    return m;
}

/* Every key that a load shows finds the message that was stored, and no other user. */
static size_t must_find_all(ms_store *store, ms_str user, ms_str id, size_t newest,
                            size_t total)
{
    ms_session session = session_of(store, user, id);
    ms_session_load_opts opts = compressing(newest);
    ms_envelopes rows = loaded(&session, &opts);
    size_t keys = 0;
    for (size_t i = 0; i < rows.count; i++) {
        ms_str key;
        ms_envelope full, want = numbered_row(total - rows.count + i);
        char expected[MS_ENTITY_KEY_MAX];
        ms_error err;
        assert_int_equal(ms_shortened_key(&rows.items[i], &arena, &key), MS_OK);
        assert_int_equal(key.ptr != NULL, want.type == MS_T_ASSISTANT_MESSAGE);
        if (key.ptr == NULL) {
            must_be(rows.items[i].content.text, want.content.text);
            continue;
        }
        keys++;
        must_be(key, ms_str_n(expected, ms_entity_key(id, total - rows.count + i,
                                                      expected)));
        if (ms_session_lookup(store, user, key, &arena, &full, &err) != MS_OK)
            fail_msg("%.*s: %s", (int)key.len, key.ptr, err.message);
        must_be(full.content.text, want.content.text);
        assert_int_equal(ms_session_lookup(store, MS_STR("mallory"), key, &arena, &full,
                                           &err), MS_E_NOT_FOUND);
        assert_int_equal(full.type, MS_T_NONE);
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

static void test_every_key_is_found(void **state)
{
    test_store s = store_open(*state, NULL);
    ms_str user = MS_STR("user-123"), id = MS_STR("sess-1");
    fill_session(s.store, user, id, 60);
    assert_int_equal(must_find_all(s.store, user, id, 0, 60), 20);
    for (size_t newest = 1; newest < 62; newest += 7)
        must_find_all(s.store, user, id, newest, 60);
    store_reopen(&s);
    assert_int_equal(must_find_all(s.store, user, id, 0, 60), 20);
    assert_int_equal(must_find_all(s.store, user, id, 10, 60), 4);
    store_close(&s);
}

/* Compaction leaves the old ones out: the others keep their keys. */
static void test_keys_after_compaction(void **state)
{
    test_store s = store_open(*state, NULL), to = store_open(*state, NULL);
    ms_str user = MS_STR("user-123"), id = MS_STR("sess-1");
    ms_keep keep;
    ms_envelope full;
    ms_error err;
    memset(&keep, 0, sizeof keep);
    keep.newest = 25;
    fill_session(s.store, user, id, 40);
    assert_int_equal(ms_copy(to.store, s.store, &keep, NULL, NULL, &err), MS_OK);
    assert_int_equal(must_find_all(to.store, user, id, 0, 40), 8);
    fill_session(to.store, user, id, 0);
    ms_session session = session_of(to.store, user, id);
    for (size_t i = 40; i < 50; i++) {
        ms_envelope m = numbered_row(i);
        must_store(&session, &m, 1);
    }
    store_reopen(&to);
    must_find_all(to.store, user, id, 0, 50);
    must_find_all(to.store, user, id, 7, 50);
    assert_int_equal(ms_session_lookup(to.store, user, MS_STR("session-sess-1-msg-2"),
                                       &arena, &full, &err), MS_E_NOT_FOUND);
    store_close(&to);
    store_close(&s);
}

/* Some from between are left out: keys count them still. */
static void test_keys_across_gaps(void **state)
{
    test_store s = store_open(*state, NULL), to = store_open(*state, NULL);
    ms_session session = session_of(s.store, MS_STR("u"), MS_STR("s"));
    ms_session_load_opts opts = compressing(0);
    ms_keep keep;
    ms_error err;
    memset(&keep, 0, sizeof keep);
    keep.has_since = true;
    keep.since = 50;
    for (size_t i = 2; i < 62; i += 3) {
        ms_envelope m = numbered_row(i);
        m.has_time = true;
        m.time = i % 2 == 0 ? 100 : 1;
        must_store(&session, &m, 1);
    }
    assert_int_equal(ms_copy(to.store, s.store, &keep, NULL, NULL, &err), MS_OK);
    session = session_of(to.store, MS_STR("u"), MS_STR("s"));
    for (opts.newest = 0; opts.newest < 10; opts.newest += 3) {
        ms_envelopes rows = loaded(&session, &opts);
        assert_int_equal(rows.count, opts.newest ? opts.newest : 10);
        for (size_t i = 0; i < rows.count; i++) {
            size_t index = 2 * (10 - rows.count + i);
            char want[MS_ENTITY_KEY_MAX];
            ms_str key;
            ms_envelope full, row = numbered_row(2 + 3 * index);
            assert_int_equal(ms_shortened_key(&rows.items[i], &arena, &key), MS_OK);
            must_be(key, ms_str_n(want, ms_entity_key(MS_STR("s"), index, want)));
            assert_int_equal(ms_session_lookup(to.store, MS_STR("u"), key, &arena, &full,
                                               &err), MS_OK);
            must_be(full.content.text, row.content.text);
        }
    }
    store_close(&to);
    store_close(&s);
}

static void test_long_keys(void **state)
{
    test_store s = store_open(*state, NULL);
    ms_str user = MS_STR("u");
    const ms_str ids[] = {times("x", 233), times("x", 241), times("x", 242),
                          times("x", 600), times("\xe4\xb8\x96", 300)};
    for (size_t i = 0; i < COUNT(ids); i++) fill_session(s.store, user, ids[i], 12);
    store_reopen(&s);
    for (size_t i = 0; i < COUNT(ids); i++)
        assert_int_equal(must_find_all(s.store, user, ids[i], 0, 12), 4);
    store_close(&s);
}

/* Names that look like each other's places. */
static void test_hostile_names(void **state)
{
    static const struct {
        const char *user, *id;
    } names[] = {
        {"a", "b"},       {"a/b", "c"},     {"a", "b/c"},     {"1:a", "b"},
        {"a/", "b"},      {"a", "/b"},      {"3:a/b", "c"},   {"1:a/b", "c"},
        {"a", "1:a/b"},   {"A", "b"},       {"a", "b-msg-0"}, {"a", "b-msg-0-msg-0"},
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
        ms_str whole = ms_str_n(key, ms_entity_key(id, 0, key));
        ms_envelope found;
        ms_listing list;
        size_t mine = 0;
        snprintf(text, sizeof text, "secret %zu", i);
        assert_int_equal(rows.count, 1);
        must_be(rows.items[0].content.text, ms_str_of(text));
        assert_int_equal(ms_session_lookup(s.store, user, whole, &arena, &found, &err),
                         MS_OK);
        must_be(found.content.text, ms_str_of(text));
        for (size_t k = 0; k < COUNT(names); k++)
            mine += strcmp(names[k].user, names[i].user) == 0;
        assert_int_equal(ms_session_list(s.store, user, 0, &arena, &list, &err), MS_OK);
        assert_int_equal(list.count, mine);
        for (size_t k = 0; k < list.count; k++) {
            ms_session each = session_of(s.store, user, list.items[k].location);
            assert_int_equal(loaded(&each, NULL).count, list.items[k].messages);
        }
    }
    store_close(&s);
}

/* A damaged message keeps its place: the keys behind it find what they did. */
static void test_keys_behind_damage(void **state)
{
    test_store s = store_open(store_kind_at(2), NULL); /* the one in a buffer of ours */
    ms_session session = session_of(s.store, MS_STR("u"), MS_STR("s"));
    const ms_msg *msg;
    uint64_t at = 0;
    ms_error err;
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        ms_envelope m = numbered_row(2 + 3 * i);
        must_store(&session, &m, 1);
    }
    assert_int_equal(ms_get_by_seq(s.store, 3, &arena, &msg, &err), MS_OK);
    char *damaged = (char *)s.buffer + ((const char *)msg - (const char *)s.buffer);
    damaged[20] ^= 1;
    assert_int_equal(ms_get_by_seq(s.store, 3, &arena, &msg, &err), MS_E_DAMAGED);
    for (uint64_t i = 4; i <= 6; i++) {
        char name[MS_ENTITY_KEY_MAX];
        ms_envelope full, row = numbered_row((size_t)(3 * i - 1));
        assert_int_equal(ms_position(s.store, i, &at, &err), MS_OK);
        assert_int_equal(at, i);
        ms_str key = ms_str_n(name, ms_entity_key(MS_STR("s"), i - 1, name));
        assert_int_equal(ms_session_lookup(s.store, MS_STR("u"), key, &arena, &full,
                                           &err), MS_OK);
        must_be(full.content.text, row.content.text);
    }
    store_close(&s);
}

static void test_no_rows(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_session session = session_of(s.store, MS_STR("u"), MS_STR("s"));
    ms_query all = query_of(no_str(), 0);
    ms_error err;
    assert_int_equal(ms_session_store(&session, NULL, 1, &arena, NULL, &err),
                     MS_E_ARGUMENT);
    assert_int_equal(err.code, MS_E_ARGUMENT);
    assert_int_equal(count_of(s.store, &all), 0);
    store_close(&s);
}

static void test_refused_names(void **state)
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
        {times("u", 1023), ok, MS_E_TOO_LARGE, "user_id"},
        {ok, times("s", 1023), MS_E_TOO_LARGE, "session_id"},
        {times("u", 500), times("s", 519), MS_E_TOO_LARGE, "session_id"},
        {times("u", 1024), times("s", 2000), MS_E_TOO_LARGE, "session_id"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        ms_session session;
        ms_error err;
        ms_envelope m = ms_user_message(ms_text("x"));
        ms_envelopes rows;
        ms_result code = ms_session_init(&session, s.store, names[i].user, names[i].id,
                                         &err);
        if (code != names[i].code || strcmp(err.path, names[i].path) != 0)
            fail_msg("%zu: %d at '%s': %s", i, code, err.path, err.message);
        /* Refused: it must not mean "everything". */
        assert_int_equal(ms_session_store(&session, &m, 1, NULL, NULL, &err),
                         MS_E_ARGUMENT);
        assert_int_equal(ms_session_load(&session, NULL, &arena, &rows, &err),
                         MS_E_ARGUMENT);
        code = ms_session_store_json(&session, MS_STR("[]"), NULL, &arena, &err);
        assert_int_equal(code, MS_E_ARGUMENT);
    }
    ms_session largest = session_of(s.store, times("u", 500), times("s", 518));
    ms_envelope m = ms_user_message(ms_text("x"));
    must_store(&largest, &m, 1);
    assert_int_equal(loaded(&largest, NULL).count, 1);
    ms_session none;
    ms_error err;
    assert_int_equal(ms_session_init(&none, NULL, ok, ok, &err), MS_E_ARGUMENT);
    store_close(&s);
}

static void test_keys_that_are_none(void **state)
{
    test_store s = store_open(*state, NULL);
    const ms_str keys[] = {
        no_str(), MS_STR(""), MS_STR("session-"), MS_STR("session-s"),
        MS_STR("session-s-msg-"), MS_STR("session-s-msg-2"), MS_STR("session-s-msg-00"),
        MS_STR("session-s-msg-+0"), MS_STR("session-s-msg--1"),
        MS_STR("session-s-msg-0 "),
        MS_STR("session-s-msg-18446744073709551615"),
        MS_STR("session-s-msg-18446744073709551616"),
        MS_STR("session-s-msg-99999999999999999999999"), MS_STR("session--msg-0"),
        MS_STR("session-t-msg-0"), MS_STR("Session-s-msg-0"), MS_STR("session-s-msg-1.0"),
        MS_STR("-msg-0"), MS_STR("session-msg-0"), times("session-s-msg-0", 100),
        MS_STR("session-\xff-msg-0"), MS_STR("session-s\0-msg-0")};
    ms_envelope m = ms_user_message(ms_text("x")), found;
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
    assert_int_equal(ms_session_lookup(s.store, MS_STR("u"), MS_STR("session-s-msg-1"),
                                       &arena, &found, &err), MS_OK);
    assert_int_equal(found.seq, 2);
    assert_int_equal(ms_session_lookup(s.store, MS_STR(""), MS_STR("session-s-msg-1"),
                                       &arena, &found, &err), MS_E_ARGUMENT);
    assert_int_equal(ms_session_lookup(s.store, MS_STR("u"), MS_STR("session-s-msg-1"),
                                       NULL, &found, &err), MS_E_ARENA);
    store_close(&s);
}

static void test_system_rows(void **state)
{
    test_store s = store_open(*state, NULL);
    ms_session session = session_of(s.store, MS_STR("u"), MS_STR("s"));
    ms_envelope rows[] = {ms_text_message(MS_ROLE_NONE, ms_text("sys")),
                          ms_user_message(ms_text("a")),
                          ms_text_message(MS_ROLE_SYSTEM, ms_text("sys")),
                          ms_text_message(MS_ROLE_DEVELOPER, ms_text("dev"))};
    uint64_t seqs[4];
    ms_error err;
    assert_int_equal(ms_session_store(&session, rows, 4, &arena, seqs, &err), MS_OK);
    assert_true(seqs[0] == 0 && seqs[1] == 1 && seqs[2] == 0 && seqs[3] == 2);
    assert_int_equal(ms_session_store(&session, rows, 1, NULL, seqs, &err), MS_OK);
    assert_int_equal(loaded(&session, NULL).count, 2);
    session.keep_system = true;
    assert_int_equal(ms_session_store(&session, rows, 4, NULL, seqs, &err), MS_OK);
    assert_true(seqs[0] == 3 && seqs[3] == 6);
    assert_int_equal(loaded(&session, NULL).count, 6);
    assert_int_equal(ms_session_store(&session, NULL, 0, NULL, NULL, &err), MS_OK);
    store_close(&s);
}

/* All rows or none, whatever is wrong with one. */
static void test_all_or_none(void **state)
{
    test_store s = store_open(*state, NULL);
    ms_session session = session_of(s.store, MS_STR("u"), MS_STR("s"));
    ms_envelope rows[] = {ms_user_message(ms_text("a")),
                          ms_text_message(MS_ROLE_SYSTEM, ms_text("sys")),
                          ms_user_message(ms_text(NULL))};
    ms_error err;
    assert_int_equal(ms_session_store(&session, rows, 3, NULL, NULL, &err), MS_E_MISSING);
    assert_int_equal(loaded(&session, NULL).count, 0);
    assert_int_equal(
        ms_session_store_json(&session, MS_STR("[{\"role\":\"user\",\"content\":\"a\"},"
                                               "{\"role\":\"user\",\"timestamp\":{}}]"),
                              NULL, &arena, &err), MS_E_KIND);
    assert_string_equal(err.path, "messages[1].timestamp");
    assert_int_equal(loaded(&session, NULL).count, 0);
    assert_int_equal(
        ms_session_store_json(&session, MS_STR("{\"messages\":[{\"role\":\"user\","
                                               "\"content\":\"a\",\"location\":\"z\"}]}"),
                              NULL, &arena, &err), MS_OK);
    assert_int_equal(loaded(&session, NULL).count, 1);
    store_close(&s);
}

/* Stored rows come back whole, or plain when asked for. */
static void test_plain_rows(void **state)
{
    test_store s = store_open(*state, NULL);
    ms_session session = session_of(s.store, MS_STR("u"), MS_STR("s"));
    ms_session_load_opts opts;
    ms_envelope m = row_of(good_rows[15].row);
    memset(&opts, 0, sizeof opts);
    must_store(&session, &m, 1);
    ms_envelopes rows = loaded(&session, NULL);
    rows.items[0].location = no_str();
    must_be_json(written("session", &rows.items[0]), ms_str_of(good_rows[15].row), "all");
    opts.plain = true;
    rows = loaded(&session, &opts);
    must_be_json(written("session", &rows.items[0]),
                 MS_STR("{\"role\":\"tool\",\"content\":\"{}\",\"tool_name\":\"n\","
                        "\"timestamp\":\"2024-01-15T10:30:00Z\",\"tool_call_id\":\"c\","
                        "\"tool_arguments\":{\"a\":[]}}"), "plain");
    store_close(&s);
}

/* Only what the assistant says is shortened, only once, and never to more. */
static void test_what_is_shortened(void **state)
{
    test_store s = store_open(*state, NULL);
    ms_session session = session_of(s.store, MS_STR("u"), MS_STR("s"));
    ms_value text = ms_text_n(times("x", 600)), edge = ms_text_n(times("x", 401));
    ms_envelope rows[] = {ms_user_message(text), ms_observation(text),
                          ms_assistant_message(edge), ms_final(text), ms_task(text),
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
    opts.shorten.may_grow = true;
    all = loaded(&session, &opts);
    assert_true(all.items[2].content.text.len > 401);
    store_close(&s);
}

/* An answer that is too short to be shortened costs no memory for a key. */
static void test_short_answers_take_no_keys(void **state)
{
    static uint64_t room[18000]; /* of which keys would take 12,800 */
    test_store s = store_open(*state, NULL);
    ms_session session = session_of(s.store, MS_STR("u"), MS_STR("s"));
    ms_session_load_opts opts = compressing(0);
    ms_envelope rows[100];
    ms_envelopes all;
    ms_arena own;
    for (size_t i = 0; i < COUNT(rows); i++)
        rows[i] = ms_assistant_message(ms_text("short"));
    must_store(&session, rows, COUNT(rows));
    ms_arena_init_fixed(&own, room, sizeof room);
    assert_int_equal(ms_session_load(&session, &opts, &own, &all, NULL), MS_OK);
    assert_int_equal(all.count, COUNT(rows));
    store_close(&s);
}

static void test_no_memory(void **state)
{
    test_store s = store_open(store_kind_at(0), NULL);
    ms_str id = times("x", 300);
    char key[MS_ENTITY_KEY_MAX];
    ms_str whole = ms_str_n(key, ms_entity_key(id, 8, key));
    fill_session(s.store, MS_STR("u"), id, 30);
    (void)state;
    for (size_t k = 1;; k++) {
        test_alloc heap;
        ms_arena a;
        ms_error err;
        ms_envelopes rows;
        ms_envelope found;
        ms_session session = session_of(s.store, MS_STR("u"), id);
        ms_session_load_opts opts = compressing(0);
        test_alloc_init(&heap);
        heap.fail_at = k;
        ms_arena_init(&a, &heap.alloc);
        ms_result code = ms_session_load(&session, &opts, &a, &rows, &err);
        if (code == MS_OK) code = ms_session_lookup(s.store, MS_STR("u"), whole, &a,
                                                    &found, &err);
        if (code == MS_OK)
            code = ms_session_model_messages(rows.items, rows.count, NULL, &a, &rows,
                                             &err);
        if (code != (heap.failed > 0 ? MS_E_NO_MEMORY : MS_OK))
            fail_msg("%zu: %d %s", k, code, err.message);
        ms_arena_deinit(&a);
        test_alloc_done(&heap);
        if (heap.failed == 0) break;
    }
    store_close(&s);
}


/* ---- sessions that change ---- */

static ms_result open_sqlite(test_store *s, const store_options *options, ms_error *err)
{
    (void)options;
    return sqlite_store_open(&s->store, ":memory:", err);
}

static store_kind sqlite_kind = {"sqlite", false, false, false, open_sqlite};

/* What a session has shown, row after row; the place in it is the index. */
typedef struct kept_session {
    size_t n;
    struct kept_row {
        uint64_t seq;
        bool gone;
    } rows[200];
} kept_session;

static void kept_store(const ms_session *session, kept_session *k)
{
    ms_envelope m = numbered_row(k->n);
    ms_error err;
    assert_true(k->n < COUNT(k->rows));
    k->rows[k->n].gone = false;
    if (ms_session_store(session, &m, 1, NULL, &k->rows[k->n].seq, &err) != MS_OK)
        fail_msg("store: %s", err.message);
    k->n++;
}

static void kept_pop(const ms_session *session, kept_session *k)
{
    ms_envelope out;
    ms_error err;
    size_t at = k->n;
    while (at > 0 && k->rows[at - 1].gone) at--;
    ms_result code = ms_session_pop(session, &arena, &out, &err);
    assert_int_equal(code, at > 0 ? MS_OK : MS_E_NOT_FOUND);
    assert_int_equal(out.seq, at > 0 ? k->rows[at - 1].seq : 0);
    if (at == 0) return;
    must_be(out.content.text, numbered_row(at - 1).content.text);
    k->rows[at - 1].gone = true;
}

/* Hides one in the middle: a message that somebody took out of the conversation. */
static void kept_hide(uint64_t *rng, const ms_session *session, kept_session *k)
{
    ms_error err;
    size_t at = (size_t)test_below(rng, k->n + 1);
    if (at >= k->n || k->rows[at].gone) return;
    assert_int_equal(ms_hide(session->store, k->rows[at].seq, &err), MS_OK);
    k->rows[at].gone = true;
}

static void kept_clear(const ms_session *session, kept_session *k)
{
    uint64_t cleared, expected = 0;
    ms_error err;
    for (size_t i = 0; i < k->n; i++) {
        expected += !k->rows[i].gone;
        k->rows[i].gone = true;
    }
    assert_int_equal(ms_session_clear(session, &cleared, &err), MS_OK);
    assert_int_equal(cleared, expected);
}

/* The newest n (0: all), each with the key of its place; gone ones have none. */
static void must_be_kept(const ms_session *session, const kept_session *k, size_t newest)
{
    ms_session_load_opts opts = compressing(newest);
    ms_envelopes rows = loaded(session, &opts);
    size_t there = 0, at = 0;
    for (size_t i = 0; i < k->n; i++) there += !k->rows[i].gone;
    size_t skip = newest > 0 && newest < there ? there - newest : 0;
    assert_int_equal(rows.count, there - skip);
    for (size_t i = 0; i < k->n; i++) {
        char name[MS_ENTITY_KEY_MAX];
        ms_envelope full, want = numbered_row(i);
        ms_error err;
        ms_str shown, key = ms_str_n(name, ms_entity_key(MS_STR("s"), i, name));
        ms_result code = ms_session_lookup(session->store, MS_STR("u"), key, &arena,
                                           &full, &err);
        assert_int_equal(code, k->rows[i].gone ? MS_E_NOT_FOUND : MS_OK);
        if (k->rows[i].gone) continue;
        must_be(full.content.text, want.content.text);
        if (skip > 0) {
            skip--;
            continue;
        }
        assert_int_equal(rows.items[at].seq, k->rows[i].seq);
        assert_int_equal(ms_shortened_key(&rows.items[at++], &arena, &shown), MS_OK);
        if (want.type == MS_T_ASSISTANT_MESSAGE) must_be(shown, key);
    }
    assert_int_equal(at, rows.count);
}

/* Rows come and go in any order: what is left keeps its keys. */
static void test_keys_while_rows_go(void **state)
{
    static kept_session k;
    uint64_t rng = test_seed() + 2;
    test_store s = store_open(*state, NULL);
    ms_session session = session_of(s.store, MS_STR("u"), MS_STR("s"));
    ms_session other = session_of(s.store, MS_STR("v"), MS_STR("s"));
    ms_envelope noise = ms_user_message(ms_text("noise"));
    k.n = 0;
    for (size_t i = 0, n = 40 + test_times(60); i < n; i++) {
        uint64_t what = test_below(&rng, 20);
        if (what < 11) kept_store(&session, &k);
        else if (what < 14) kept_pop(&session, &k);
        else if (what < 17) kept_hide(&rng, &session, &k);
        else if (what < 19) must_store(&other, &noise, 1);
        else if (test_one_in(&rng, 3)) kept_clear(&session, &k);
        if (i == n / 2) {
            store_reopen(&s);
            session = session_of(s.store, MS_STR("u"), MS_STR("s"));
            other = session_of(s.store, MS_STR("v"), MS_STR("s"));
        }
        if (i % 7 == 0) must_be_kept(&session, &k, (size_t)test_below(&rng, 12));
        ms_arena_reset(&arena);
    }
    must_be_kept(&session, &k, 0);
    kept_clear(&session, &k);
    kept_pop(&session, &k);
    kept_store(&session, &k);
    must_be_kept(&session, &k, 0);
    store_close(&s);
}

/* A copy counts hidden rows as left out: keys are the same there. */
static void test_keys_after_a_copy_of_holes(void **state)
{
    static kept_session k;
    uint64_t rng = test_seed() + 3;
    ms_error err;
    test_store s = store_open(*state, NULL), to = store_open(*state, NULL);
    ms_session session = session_of(s.store, MS_STR("u"), MS_STR("s"));
    k.n = 0;
    for (int i = 0; i < 30; i++) kept_store(&session, &k);
    for (int i = 0; i < 12; i++) kept_hide(&rng, &session, &k);
    kept_pop(&session, &k);
    if (ms_copy(to.store, s.store, NULL, NULL, NULL, &err) != MS_OK)
        fail_msg("copy: %s", err.message);
    session = session_of(to.store, MS_STR("u"), MS_STR("s"));
    must_be_kept(&session, &k, 0);
    kept_store(&session, &k);
    store_reopen(&to);
    session = session_of(to.store, MS_STR("u"), MS_STR("s"));
    must_be_kept(&session, &k, 0);
    store_close(&to);
    store_close(&s);
}

typedef struct popper {
    ms_session session;
    ms_arena arena;
    unsigned char seen[400];
    ms_result end;
} popper;

static void *pop_all(void *ctx)
{
    popper *p = (popper *)ctx;
    ms_envelope out;
    while ((p->end = ms_session_pop(&p->session, &p->arena, &out, NULL)) == MS_OK) {
        p->seen[out.seq]++;
        ms_arena_reset(&p->arena);
    }
    return NULL;
}

/* Two threads take rows away: each row once. */
static void test_rows_are_taken_once(void **state)
{
    static popper poppers[2];
    test_store s = store_open(*state, NULL);
    pthread_t threads[2];
    memset(poppers, 0, sizeof poppers);
    for (int i = 1; i < 400; i++) {
        ms_session session = session_of(s.store, MS_STR("u"), MS_STR("s"));
        ms_envelope m = ms_user_message(ms_text("x"));
        must_store(&session, &m, 1);
    }
    for (int i = 0; i < 2; i++) {
        poppers[i].session = session_of(s.store, MS_STR("u"), MS_STR("s"));
        assert_int_equal(pthread_create(&threads[i], NULL, pop_all, &poppers[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(poppers[i].end, MS_E_NOT_FOUND);
        ms_arena_deinit(&poppers[i].arena);
    }
    for (int i = 1; i < 400; i++)
        assert_int_equal(poppers[0].seen[i] + poppers[1].seen[i], 1);
    store_close(&s);
}

static ms_session_facts about(const ms_session *session)
{
    ms_session_facts facts;
    ms_error err;
    if (ms_session_about(session, &arena, &facts, &err) != MS_OK)
        fail_msg("about: %s", err.message);
    return facts;
}

static uint64_t unread_of(const ms_session *session)
{
    uint64_t n = 0;
    ms_error err;
    if (ms_session_unread(session, &arena, &n, &err) != MS_OK)
        fail_msg("unread: %s", err.message);
    return n;
}

static void test_titles(void **state)
{
    test_store s = store_open(*state, NULL);
    const ms_str names[] = {MS_STR("plain"), MS_STR("\"q\"\\\n\0x"), MS_STR(""),
                            MS_STR("\xe6\x97\xa5"), times("long ", 2000)};
    ms_session session = session_of(s.store, MS_STR("u"), MS_STR("s"));
    ms_session other = session_of(s.store, MS_STR("v"), MS_STR("s"));
    ms_error err;
    assert_null(about(&session).title.ptr);
    must_be(about(&session).all, MS_STR("{}"));
    assert_int_equal(ms_session_rename(&other, MS_STR("of v"), NULL, &err), MS_OK);
    for (size_t i = 0; i < COUNT(names); i++) {
        if (ms_session_rename(&session, names[i], i % 2 ? &arena : NULL, &err) != MS_OK)
            fail_msg("rename: %s", err.message);
        must_be(about(&session).title, names[i]);
    }
    store_reopen(&s);
    session = session_of(s.store, MS_STR("u"), MS_STR("s"));
    other = session_of(s.store, MS_STR("v"), MS_STR("s"));
    must_be(about(&session).title, names[COUNT(names) - 1]);
    assert_int_equal(ms_session_rename(&session, MS_STR("a\xff"), NULL, &err), MS_OK);
    must_be(about(&session).title, MS_STR("a\xef\xbf\xbd"));
    assert_int_equal(ms_session_mark_read(&session, 7, &err), MS_OK);
    assert_int_equal(ms_session_rename(&session, no_str(), NULL, &err), MS_OK);
    assert_null(about(&session).title.ptr);
    assert_int_equal(about(&session).read_seq, 7);
    must_be(about(&other).title, MS_STR("of v"));
    /* A fact that is no text is no title. */
    assert_int_equal(ms_location_set(s.store, ms_session_location(&session),
                                     MS_STR("{\"title\":[1],\"read_seq\":\"x\","
                                            "\"deleted_at\":\"never\",\"own\":2}"), &err),
                     MS_OK);
    ms_session_facts facts = about(&session);
    assert_true(!facts.title.ptr && facts.read_seq == 0 && !facts.has_deleted_at);
    must_be_json(facts.all, MS_STR("{\"title\":[1],\"read_seq\":\"x\",\"own\":2,"
                                   "\"deleted_at\":\"never\"}"), "all facts");
    store_close(&s);
}

/* Titles belong to the sessions of the list, whoever else has one of that name. */
static void test_titles_of_a_list(void **state)
{
    test_store s = store_open(*state, NULL);
    ms_listing list;
    ms_str titles[40];
    ms_error err;
    for (int i = 0; i < 40; i++) {
        char id[16], title[32];
        snprintf(id, sizeof id, "s%d", i / 2);
        snprintf(title, sizeof title, "%s of %s", id, i % 2 ? "u" : "v");
        ms_session session = session_of(s.store, i % 2 ? MS_STR("u") : MS_STR("v"),
                                        ms_str_of(id));
        ms_envelope m = ms_user_message(ms_text("x"));
        must_store(&session, &m, 1);
        if (i % 5 > 0)
            assert_int_equal(ms_session_rename(&session, ms_str_of(title), NULL, &err),
                             MS_OK);
    }
    store_reopen(&s);
    assert_int_equal(ms_session_list(s.store, MS_STR("u"), 0, &arena, &list, &err),
                     MS_OK);
    assert_int_equal(list.count, 20);
    if (ms_session_titles(s.store, MS_STR("u"), &list, &arena, titles, &err) != MS_OK)
        fail_msg("titles: %s", err.message);
    for (size_t i = 0; i < list.count; i++) {
        char id[16], want[32];
        ms_str at = list.items[i].location;
        snprintf(id, sizeof id, "%.*s", (int)at.len, at.ptr);
        snprintf(want, sizeof want, "%s of u", id);
        if ((atoi(id + 1) * 2 + 1) % 5 > 0) must_be(titles[i], ms_str_of(want));
        else assert_null(titles[i].ptr);
    }
    list.items[0].location = times("x", 1022);
    assert_int_equal(ms_session_titles(s.store, MS_STR("u"), &list, &arena, titles, &err),
                     MS_E_ARGUMENT);
    assert_int_equal(ms_session_titles(s.store, MS_STR("u"), &list, NULL, titles, &err),
                     MS_E_ARENA);
    store_close(&s);
}

#define CALL_ROW                                                              \
    "{\"role\":\"assistant\",\"tool_calls\":{\"items\":[{\"tool_name\":\"t\"," \
    "\"tool_arguments\":{}}]}}"

/* What counts as unread, against a loop over all rows. */
static void test_unread(void **state)
{
    uint64_t rng = test_seed() + 4, seqs[60], mark = 0;
    bool said[60];
    test_store s = store_open(*state, NULL);
    ms_session session = session_of(s.store, MS_STR("u"), MS_STR("s"));
    ms_error err;
    assert_int_equal(unread_of(&session), 0);
    for (size_t i = 0; i < 60; i++) {
        static const char *const rows[] = {
            "{\"role\":\"user\",\"content\":\"u\"}",
            "{\"role\":\"assistant\",\"content\":\"a\"}",
            "{\"role\":\"tool\",\"content\":\"{}\",\"tool_name\":\"t\"}",
            CALL_ROW};
        size_t what = (size_t)test_below(&rng, 4), expected = 0;
        ms_envelope m = row_of(rows[what]);
        said[i] = what == 1;
        assert_int_equal(ms_session_store(&session, &m, 1, NULL, &seqs[i], &err), MS_OK);
        if (test_one_in(&rng, 6)) {
            mark = test_one_in(&rng, 3) ? 0 : seqs[test_below(&rng, i + 1)];
            assert_int_equal(ms_session_mark_read(&session, mark, &err), MS_OK);
            if (mark == 0) mark = seqs[i];
            assert_int_equal(about(&session).read_seq, mark);
        }
        if (test_one_in(&rng, 8) && ms_hide(s.store, seqs[i / 2], &err) == MS_OK)
            said[i / 2] = false;
        for (size_t k = 0; k <= i; k++) expected += said[k] && seqs[k] > mark;
        assert_int_equal(unread_of(&session), expected);
    }
    assert_int_equal(ms_session_mark_read(&session, UINT64_MAX, &err), MS_OK);
    store_reopen(&s);
    session = session_of(s.store, MS_STR("u"), MS_STR("s"));
    assert_int_equal(unread_of(&session), 0);
    assert_int_equal(about(&session).read_seq, UINT64_MAX);
    store_close(&s);
}

static void test_deleted_sessions(void **state)
{
    test_store s = store_open(*state, NULL);
    ms_session mine = session_of(s.store, MS_STR("u"), MS_STR("s"));
    ms_session other = session_of(s.store, MS_STR("u"), MS_STR("t"));
    ms_query all = query_of(no_str(), 0);
    double now = 1700000000.5;
    ms_clock clock = clock_at(&now);
    ms_envelope m = ms_assistant_message(ms_text("x")), found;
    ms_listing list;
    uint64_t hidden;
    ms_error err;
    for (int i = 0; i < 3; i++) must_store(&mine, &m, 1);
    must_store(&other, &m, 1);
    assert_int_equal(ms_session_rename(&mine, MS_STR("secret"), NULL, &err), MS_OK);
    assert_int_equal(ms_session_mark_read(&mine, 2, &err), MS_OK);
    if (ms_session_delete(&mine, &clock, &hidden, &err) != MS_OK)
        fail_msg("delete: %s", err.message);
    assert_int_equal(hidden, 3);
    store_reopen(&s);
    mine = session_of(s.store, MS_STR("u"), MS_STR("s"));
    assert_int_equal(count_of(s.store, &all), 1);
    assert_int_equal(loaded(&mine, NULL).count, 0);
    assert_int_equal(ms_session_lookup(s.store, MS_STR("u"), MS_STR("session-s-msg-0"),
                                       &arena, &found, &err), MS_E_NOT_FOUND);
    assert_int_equal(ms_session_list(s.store, MS_STR("u"), 0, &arena, &list, &err),
                     MS_OK);
    assert_int_equal(list.count, 1);
    must_be(list.items[0].location, MS_STR("t"));
    ms_session_facts facts = about(&mine);
    assert_true(!facts.title.ptr && facts.read_seq == 0);
    assert_true(facts.has_deleted_at && facts.deleted_at == now);
    assert_int_equal(ms_session_delete(&mine, NULL, &hidden, &err), MS_OK);
    assert_int_equal(hidden, 0);
    assert_true(about(&mine).deleted_at > now);
    must_store(&mine, &m, 1); /* again: keys go on */
    assert_int_equal(ms_session_lookup(s.store, MS_STR("u"), MS_STR("session-s-msg-3"),
                                       &arena, &found, &err), MS_OK);
    assert_int_equal(unread_of(&mine), 1);
    now = 1e300;
    assert_int_equal(ms_session_delete(&mine, &clock, &hidden, &err), MS_E_RANGE);
    assert_int_equal(loaded(&mine, NULL).count, 1);
    store_close(&s);
}

/* A row that is being written is there with its text so far; popped, it is gone. */
static void test_rows_being_written(void **state)
{
    test_store s = store_open(*state, NULL);
    ms_session session = session_of(s.store, MS_STR("u"), MS_STR("s"));
    ms_envelope m = ms_assistant_message(ms_text("")), out;
    ms_stream stream;
    ms_error err;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ms_stream_begin(&stream, s.store, ms_session_location(&session),
                                         &m, NULL, &err), MS_OK);
        assert_int_equal(ms_stream_feed(&stream, MS_STR("so far"), &err), MS_OK);
        assert_int_equal(ms_stream_flush(&stream, &err), MS_OK);
        ms_envelopes rows = loaded(&session, NULL);
        assert_int_equal(rows.count, 1);
        must_be(rows.items[0].content.text, MS_STR("so far"));
        assert_int_equal(ms_session_pop(&session, &arena, &out, &err), MS_OK);
        must_be(out.content.text, MS_STR("so far"));
        assert_int_equal(ms_stream_feed(&stream, MS_STR("!"), &err), MS_OK + 0);
        assert_int_equal(ms_stream_end(&stream, NULL, NULL, &err), MS_E_HIDDEN);
        assert_int_equal(loaded(&session, NULL).count, 0);
    }
    store_close(&s);
}

static void test_changes_refused(void **state)
{
    test_store s = store_open(*state, NULL);
    ms_session none, session = session_of(s.store, MS_STR("u"), MS_STR("s"));
    ms_session_facts facts;
    ms_envelope m = ms_user_message(ms_text("x")), out;
    uint64_t n;
    ms_error err;
    must_store(&session, &m, 1);
    memset(&none, 0, sizeof none);
    assert_int_equal(ms_session_pop(&none, &arena, &out, &err), MS_E_ARGUMENT);
    assert_int_equal(ms_session_clear(&none, &n, &err), MS_E_ARGUMENT);
    assert_int_equal(ms_session_delete(&none, NULL, &n, &err), MS_E_ARGUMENT);
    assert_int_equal(ms_session_rename(&none, MS_STR("x"), NULL, &err), MS_E_ARGUMENT);
    assert_int_equal(ms_session_mark_read(&none, 0, &err), MS_E_ARGUMENT);
    assert_int_equal(ms_session_about(&none, &arena, &facts, &err), MS_E_ARGUMENT);
    assert_int_equal(ms_session_unread(&none, &arena, &n, &err), MS_E_ARGUMENT);
    assert_int_equal(ms_session_pop(&session, NULL, &out, &err), MS_E_ARENA);
    assert_int_equal(ms_session_about(&session, NULL, &facts, &err), MS_E_ARENA);
    assert_int_equal(ms_session_unread(&session, NULL, &n, &err), MS_E_ARENA);
    assert_int_equal(loaded(&session, NULL).count, 1);
    store_close(&s);
}

/* The newest row cannot be read: an older one is not taken in its place. */
static void test_damaged_rows_stay(void **state)
{
    test_store s = store_open(store_kind_at(2), NULL); /* the one in a buffer of ours */
    ms_session session = session_of(s.store, MS_STR("u"), MS_STR("s"));
    ms_envelope m = ms_assistant_message(ms_text("x")), out;
    const ms_msg *msg;
    uint64_t n;
    ms_error err;
    (void)state;
    for (int i = 0; i < 3; i++) must_store(&session, &m, 1);
    assert_int_equal(ms_get_by_seq(s.store, 3, &arena, &msg, &err), MS_OK);
    char *damaged = (char *)s.buffer + ((const char *)msg - (const char *)s.buffer);
    damaged[20] ^= 1;
    memset(&err, 0, sizeof err);
    assert_int_equal(ms_session_pop(&session, &arena, &out, &err), MS_E_DAMAGED);
    assert_int_equal(err.code, MS_E_DAMAGED);
    assert_int_equal(out.seq, 0);
    assert_int_equal(ms_session_unread(&session, &arena, &n, &err), MS_E_DAMAGED);
    assert_int_equal(n, 2);
    damaged[20] ^= 1;
    for (uint64_t i = 3; i > 0; i--) {
        assert_int_equal(ms_session_pop(&session, &arena, &out, &err), MS_OK);
        assert_int_equal(out.seq, i);
    }
    store_close(&s);
}

/* A store of somebody's own that cannot change anything says so; all else works there. */
static void test_a_store_without_changes(void **state)
{
    test_store s = store_open(&sqlite_kind, NULL);
    ms_session session = session_of(s.store, MS_STR("u"), MS_STR("s"));
    ms_session_facts facts;
    ms_envelope out;
    ms_task_change change;
    ms_usage usage;
    ms_usage_list sums;
    ms_str location = ms_session_location(&session), id = MS_STR("1");
    size_t n;
    ms_error err;
    (void)state;
    fill_session(s.store, MS_STR("u"), MS_STR("s"), 30);
    assert_int_equal(must_find_all(s.store, MS_STR("u"), MS_STR("s"), 7, 30), 3);
    memset(&change, 0, sizeof change);
    memset(&usage, 0, sizeof usage);
    change.id = id;
    assert_int_equal(ms_session_pop(&session, &arena, &out, &err), MS_E_UNSUPPORTED);
    assert_int_equal(out.seq, 0);
    assert_int_equal(ms_session_clear(&session, NULL, &err), MS_E_UNSUPPORTED);
    assert_int_equal(ms_session_delete(&session, NULL, NULL, &err), MS_E_UNSUPPORTED);
    assert_int_equal(ms_session_rename(&session, id, NULL, &err), MS_E_UNSUPPORTED);
    assert_int_equal(ms_session_mark_read(&session, 0, &err), MS_E_UNSUPPORTED);
    assert_int_equal(ms_session_about(&session, &arena, &facts, &err), MS_E_UNSUPPORTED);
    assert_int_equal(ms_task_update(s.store, location, &change, &arena, NULL, &err),
                     MS_E_UNSUPPORTED);
    assert_int_equal(ms_task_delete(s.store, location, &id, 1, &arena, &n, &err),
                     MS_E_UNSUPPORTED);
    assert_int_equal(ms_task_delete_all(s.store, location, NULL, &err), MS_E_UNSUPPORTED);
    assert_int_equal(ms_note_usage(s.store, 1, &usage, &err), MS_E_UNSUPPORTED);
    assert_int_equal(ms_usage_sum(s.store, NULL, &arena, &sums, &err), MS_E_UNSUPPORTED);
    assert_int_equal(loaded(&session, NULL).count, 30);
    store_close(&s);
}

/* Whatever fails for memory has done nothing that it does not say. */
static void test_no_memory_for_changes(void **state)
{
    (void)state;
    for (size_t k = 1;; k++) {
        test_store s = store_open(store_kind_at(0), NULL);
        ms_session session = session_of(s.store, MS_STR("u"), MS_STR("s"));
        ms_envelope m = ms_user_message(ms_text("x")), out;
        ms_session_facts facts;
        ms_listing list;
        ms_str title = times("t", 3000), titles[1];
        uint64_t n;
        test_alloc heap;
        ms_arena a;
        ms_error err;
        must_store(&session, &m, 1);
        must_store(&session, &m, 1);
        test_alloc_init(&heap);
        heap.fail_at = k;
        ms_arena_init(&a, &heap.alloc);
        ms_result code = ms_session_pop(&session, &a, &out, &err);
        size_t left = code == MS_OK ? 1 : 2;
        if (code == MS_OK) code = ms_session_rename(&session, title, &a, &err);
        if (code == MS_OK) code = ms_session_about(&session, &a, &facts, &err);
        if (code == MS_OK) code = ms_session_unread(&session, &a, &n, &err);
        if (code == MS_OK)
            code = ms_session_list(s.store, MS_STR("u"), 0, &a, &list, &err);
        if (code == MS_OK)
            code = ms_session_titles(s.store, MS_STR("u"), &list, &a, titles, &err);
        assert_int_equal(code, heap.failed > 0 ? MS_E_NO_MEMORY : MS_OK);
        if (code == MS_OK) must_be(titles[0], title);
        ms_arena_deinit(&a);
        test_alloc_done(&heap);
        assert_int_equal(loaded(&session, NULL).count, left);
        store_close(&s);
        ms_arena_reset(&arena);
        if (heap.failed == 0) break;
        assert_true(k < 100);
    }
}


/* ---- what a model is shown ---- */

/* The rows as pydantic-ai messages, compared with what is expected. */
static void must_model(const char *rows, const char *want)
{
    ms_envelopes in, out;
    ms_error err;
    ms_writer w;
    ms_buf buf;
    ms_writer_opts opts;
    memset(&opts, 0, sizeof opts);
    memset(&buf, 0, sizeof buf);
    buf.arena = &arena;
    opts.array = true;
    if (ms_read_list(dialect("session"), ms_str_of(rows), NULL, &arena, &in, &err) !=
        MS_OK)
        fail_msg("%s: %s", rows, err.message);
    if (ms_session_model_messages(in.items, in.count, NULL, &arena, &out, &err) != MS_OK)
        fail_msg("%s: %s", rows, err.message);
    ms_writer_init(&w, dialect("pydantic-ai"), &opts, &arena, ms_buf_write, &buf);
    for (size_t i = 0; i < out.count; i++) {
        assert_int_equal(ms_envelope_check(&out.items[i], &err), MS_OK);
        assert_int_equal(ms_writer_put(&w, &out.items[i], &err), MS_OK);
    }
    assert_int_equal(ms_writer_finish(&w, &err), MS_OK);
    must_be_json(ms_buf_text(&buf), ms_str_of(want), rows);
}

#define CALL(name, args, id)                                                   \
    "{\"part_kind\":\"tool-call\",\"tool_name\":\"" name "\",\"args\":" args \
    ",\"tool_call_id\":\"" id "\"}"
#define RESULT(name, content, id)                                                     \
    "{\"part_kind\":\"tool-return\",\"tool_name\":\"" name "\",\"content\":" content \
    ",\"tool_call_id\":\"" id "\"}"
#define SAID(text) "{\"part_kind\":\"text\",\"content\":\"" text "\"}"
#define RESPONSE(parts) \
    "{\"kind\":\"response\",\"parts\":[" parts "],\"model_name\":\"recovered\"}"
#define REQUEST(parts) "{\"kind\":\"request\",\"parts\":[" parts "]}"
#define ACTION_ROW(id, joined)                                                    \
    "{\"role\":\"assistant\",\"tool_calls\":{\"items\":[{\"tool_name\":\"t\"," id \
    "\"tool_arguments\":{\"n\":1}}]}" joined "}"
#define JOINED ",\"msgstore\":{\"joined\":true}"
#define TOOL_ROW(id) "{\"role\":\"tool\",\"content\":\"5\",\"tool_name\":\"t\"" id "}"

static void test_model_actions(void **state)
{
    (void)state;
    /* A call that nobody answers stays; the next answer is not its. */
    must_model("[" ACTION_ROW("\"tool_call_id\":\"a\",", "") "]",
               "[" RESPONSE(CALL("t", "{\"n\":1}", "a")) "]");
    must_model("[" ACTION_ROW("\"tool_call_id\":\"a\",", "") ","
                   TOOL_ROW(",\"tool_call_id\":\"a\"") "]",
               "[" RESPONSE(CALL("t", "{\"n\":1}", "a")) ","
                   REQUEST(RESULT("t", "5", "a")) "]");
    must_model("[" ACTION_ROW("", "") "," TOOL_ROW("") "]",
               "[" RESPONSE(CALL("t", "{\"n\":1}", "call_0")) ","
                   REQUEST(RESULT("t", "5", "call_0")) "]");
    must_model("[" ACTION_ROW("\"tool_call_id\":\"a\",", "") ","
                   TOOL_ROW(",\"tool_call_id\":\"b\"") "]",
               "[" RESPONSE(CALL("t", "{\"n\":1}", "a") "," CALL("t", "{}", "b")) ","
                   REQUEST(RESULT("t", "5", "b")) "]");
    /* A text, two calls of the same turn, results in the other order. */
    must_model("[{\"role\":\"assistant\",\"content\":\"x\"},"
               ACTION_ROW("\"tool_call_id\":\"a\",", JOINED) ","
               ACTION_ROW("\"tool_call_id\":\"b\",", JOINED) ","
               TOOL_ROW(",\"tool_call_id\":\"b\"") "," TOOL_ROW("") "]",
               "[" RESPONSE(CALL("t", "{\"n\":1}", "a") ","
                            CALL("t", "{\"n\":1}", "b") "," SAID("x")) ","
                   REQUEST(RESULT("t", "5", "b") "," RESULT("t", "5", "a")) "]");
    /* Results without ids, in order. */
    must_model("[" ACTION_ROW("\"tool_call_id\":\"a\",", "") ","
               ACTION_ROW("\"tool_call_id\":\"b\",", JOINED) ","
               TOOL_ROW("") "," TOOL_ROW("") "]",
               "[" RESPONSE(CALL("t", "{\"n\":1}", "a") ","
                            CALL("t", "{\"n\":1}", "b")) ","
                   REQUEST(RESULT("t", "5", "a") "," RESULT("t", "5", "b")) "]");
    /* Two calls that do not belong together. */
    must_model("[" ACTION_ROW("\"tool_call_id\":\"a\",", "") ","
                   ACTION_ROW("\"tool_call_id\":\"b\",", "") ","
                   TOOL_ROW(",\"tool_call_id\":\"b\"") "]",
               "[" RESPONSE(CALL("t", "{\"n\":1}", "a")) ","
                   RESPONSE(CALL("t", "{\"n\":1}", "b")) ","
                   REQUEST(RESULT("t", "5", "b")) "]");
}

/* Arguments are an object, whatever stands there. */
static void test_model_arguments(void **state)
{
    static const char *const rows[][2] = {
        {"\"tool_arguments\":{},\"content\":\"{\\\"a\\\":1}\"", "{}"},
        {"\"tool_arguments\":null,\"content\":\"{\\\"a\\\":1}\"", "{\"a\":1}"},
        {"\"content\":\"[1,2]\"", "{}"},
        {"\"content\":\"0\"", "{}"},
        {"\"content\":{\"a\":1}", "{}"},
        {"\"tool_arguments\":\"{\\\"b\\\":2}\",\"content\":\"x\"", "{\"b\":2}"},
        {"\"tool_arguments\":\"broken {\",\"content\":\"x\"", "{}"},
        {"\"tool_arguments\":[1],\"content\":\"x\"", "{}"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char row[300];
        ms_envelopes out;
        ms_error err;
        snprintf(row, sizeof row, "{\"role\":\"tool\",%s}", rows[i][0]);
        ms_envelope m = row_of(row);
        assert_int_equal(ms_session_model_messages(&m, 1, NULL, &arena, &out, &err),
                         MS_OK);
        assert_int_equal(out.count, 2);
        must_be(out.items[0].args.text, ms_str_of(rows[i][1]));
    }
}

static void test_model_results(void **state)
{
    (void)state;
    must_model("[{\"role\":\"tool\",\"content\":\"null\"}]",
               "[" RESPONSE(CALL("unknown_tool", "{}", "call_0")) ","
                   REQUEST(RESULT("unknown_tool", "null", "call_0")) "]");
    must_model("[{\"role\":\"tool\",\"content\":[1]},"
               "{\"role\":\"user\",\"content\":null}]",
               "[" RESPONSE(CALL("unknown_tool", "{}", "call_0")) ","
                   REQUEST(RESULT("unknown_tool", "[1]", "call_0")) ","
                   REQUEST("{\"part_kind\":\"user-prompt\",\"content\":\"\"}") "]");
}

static void test_model_options(void **state)
{
    ms_model_opts opts;
    ms_envelopes out;
    ms_envelope m = ms_assistant_message(ms_text("x"));
    (void)state;
    memset(&opts, 0, sizeof opts);
    opts.system_prompt = MS_STR("be");
    opts.model_name = MS_STR("a \"model\"");
    assert_int_equal(ms_session_model_messages(&m, 1, &opts, &arena, &out, NULL), MS_OK);
    assert_int_equal(out.count, 2);
    assert_int_equal(out.items[0].type, MS_T_TEXT);
    must_be(out.items[1].extra, MS_STR("{\"model_name\":\"a \\\"model\\\"\"}"));
    assert_int_equal(ms_session_model_messages(NULL, 0, NULL, &arena, &out, NULL), MS_OK);
    assert_int_equal(out.count, 0);
    assert_int_equal(ms_session_model_messages(&m, 1, NULL, NULL, &out, NULL),
                     MS_E_ARENA);
}

/* Rows in any order: every call has one result or none, every result one call, the sides
 * take turns where they must, and nothing that was said is lost. */
static void test_model_any_rows(void **state)
{
    uint64_t rng = test_seed();
    static const char *const rows[] = {
        "{\"role\":\"user\",\"content\":\"u\"}",
        "{\"role\":\"assistant\",\"content\":\"a\"}",
        "{\"role\":\"assistant\",\"content\":\"\"}",
        "{\"role\":\"system\",\"content\":\"s\"}",
        TOOL_ROW(""), TOOL_ROW(",\"tool_call_id\":\"a\""),
        TOOL_ROW(",\"tool_call_id\":\"b\""), ACTION_ROW("", ""),
        ACTION_ROW("\"tool_call_id\":\"a\",", JOINED),
        ACTION_ROW("\"tool_call_id\":\"b\",", JOINED)};
    (void)state;
    for (size_t i = 0; i < test_times(8000); i++) {
        ms_envelope in[12];
        size_t n = (size_t)test_below(&rng, 12);
        size_t results = 0, calls = 0, open = 0, got = 0;
        ms_envelopes out;
        for (size_t k = 0; k < n; k++) {
            in[k] = row_of(rows[test_below(&rng, COUNT(rows))]);
            results += in[k].type == MS_T_OBSERVATION;
            calls += in[k].type == MS_T_ACTION;
        }
        assert_int_equal(ms_session_model_messages(in, n, NULL, &arena, &out, NULL),
                         MS_OK);
        for (size_t k = 0; k < out.count; k++) {
            const ms_envelope *m = &out.items[k];
            assert_int_equal(ms_envelope_check(m, NULL), MS_OK);
            if (m->type == MS_T_ACTION) open++;
            if (m->type != MS_T_OBSERVATION) continue;
            bool answers = false;
            got++;
            for (size_t c = 0; c < k; c++)
                answers = answers || (out.items[c].type == MS_T_ACTION &&
                                      ms_str_equal(out.items[c].call_id, m->call_id));
            assert_true(answers);
        }
        assert_int_equal(got, results);
        assert_true(open >= calls && open <= calls + results);
        ms_arena_reset(&arena);
    }
}

static void test_tool_names(void **state)
{
    char out[32];
    (void)state;
    must_be(ms_sanitize_tool_name(MS_STR("\xc3\xbc" "ber.tool"), out),
            MS_STR("_ber_tool"));
    must_be(ms_sanitize_tool_name(MS_STR("a\xff\xe4\xb8z"), out), MS_STR("a__z"));
    must_be(ms_sanitize_tool_name(MS_STR(""), out), MS_STR(""));
    assert_null(ms_sanitize_tool_name(no_str(), out).ptr);
    memcpy(out, "my tool!", 8);
    must_be(ms_sanitize_tool_name(ms_str_n(out, 8), out), MS_STR("my_tool_"));
}

#define WITH_RESET(test) cmocka_unit_test_setup(test, reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_RESET(test_rows_come_back),
        WITH_RESET(test_row_fields),
        WITH_RESET(test_changed_rows),
        WITH_RESET(test_refused_rows),
        WITH_RESET(test_random_rows),
        WITH_RESET(test_rows_by_framework),
        WITH_RESET(test_messages_by_rows),
        ON_EVERY_STORE(test_every_key_is_found),
        ON_EVERY_STORE(test_keys_after_compaction),
        ON_EVERY_STORE(test_keys_across_gaps),
        ON_EVERY_STORE(test_long_keys),
        ON_EVERY_STORE(test_hostile_names),
        ON_EVERY_STORE(test_keys_that_are_none),
        ON_EVERY_STORE(test_system_rows),
        ON_EVERY_STORE(test_all_or_none),
        ON_EVERY_STORE(test_plain_rows),
        ON_EVERY_STORE(test_what_is_shortened),
        ON_EVERY_STORE(test_short_answers_take_no_keys),
        WITH_RESET(test_keys_behind_damage),
        ON_EVERY_STORE(test_no_rows),
        WITH_RESET(test_refused_names),
        WITH_RESET(test_no_memory),
        WITH_RESET(test_model_actions),
        WITH_RESET(test_model_arguments),
        WITH_RESET(test_model_results),
        WITH_RESET(test_model_options),
        WITH_RESET(test_model_any_rows),
        WITH_RESET(test_tool_names),
        ON_EVERY_STORE(test_keys_while_rows_go),
        ON_EVERY_STORE(test_keys_after_a_copy_of_holes),
        ON_EVERY_STORE(test_rows_are_taken_once),
        ON_EVERY_STORE(test_titles),
        ON_EVERY_STORE(test_titles_of_a_list),
        ON_EVERY_STORE(test_unread),
        ON_EVERY_STORE(test_deleted_sessions),
        ON_EVERY_STORE(test_rows_being_written),
        ON_EVERY_STORE(test_changes_refused),
        WITH_RESET(test_damaged_rows_stay),
        WITH_RESET(test_a_store_without_changes),
        WITH_RESET(test_no_memory_for_changes),
    };
    return cmocka_run_group_tests_name("session", tests, NULL, release);
}
