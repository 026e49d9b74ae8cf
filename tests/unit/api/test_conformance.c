/* The conformance vectors of ../shared/conformance, each a test: an operation, its input,
 * and what the origin of the format made of it. An operation gives the members that a
 * vector expects ("equals", "message_ids", "key_order"), or NULL and an error. It has to
 * do so on every kind of store. Operations that the library lacks are in `lacking`.
 */

#define _POSIX_C_SOURCE 200809L

#include "stores.h"
#include "arena.h"
#include "json_equal.h"
#include "table.h"

static const store_kind *kind; /* of the stores that a vector opens */
static ms_error err;           /* of an operation that fails */


/* ---- between jansson and the library ---- */

static ms_str text_of(json_t *value)
{
    if (!json_is_string(value)) return ms_str_n(NULL, 0);
    return ms_str_n(json_string_value(value), json_string_length(value));
}

static ms_str text_in(json_t *object, const char *member)
{
    return text_of(json_object_get(object, member));
}

/* A JSON value as text in the arena. */
static ms_str json_of(json_t *value)
{
    size_t len = json_dumpb(value, NULL, 0, JSON_ENCODE_ANY | JSON_COMPACT);
    char *text = (char *)ms_arena_alloc(&arena, len);
    json_dumpb(value, text, len, JSON_ENCODE_ANY | JSON_COMPACT);
    return ms_str_n(text, len);
}

static bool read_all(const char *format, json_t *value, ms_envelopes *out)
{
    const ms_format *by = ms_format_find(ms_str_of(format));
    ms_read_opts opts = {false, false};
    ms_str json = json_of(value);
    opts.lenient = strcmp(format, "session") == 0;
    return MS_OK == (json_is_array(value)
                         ? ms_read_list(by, json, &opts, &arena, out, &err)
                         : ms_read(by, json, &opts, &arena, out, &err));
}

static bool read_one(const char *format, json_t *value, ms_envelope *out)
{
    ms_envelopes all;
    bool good = read_all(format, value, &all);
    if (good) *out = all.items[0];
    return good;
}

/* Writes an array of messages, from a list or else from a cursor; closes the cursor. */
static json_t *written(const char *format, const ms_envelope *list, size_t n,
                       ms_cursor *it)
{
    ms_writer_opts opts = {false, false, false};
    ms_buf buf = {&arena, NULL, 0, 0};
    ms_result result = MS_OK, end;
    ms_writer w;
    opts.array = true;
    ms_writer_init(&w, ms_format_find(ms_str_of(format)), &opts, &arena, ms_buf_write,
                   &buf);
    for (size_t i = 0; result == MS_OK && i < n; i++)
        result = ms_writer_put(&w, &list[i], &err);
    for (const ms_msg *m; it != NULL && result == MS_OK && (m = ms_next(it)) != NULL;)
        result = test_writer_put_msg(&w, m, &err);
    end = it != NULL ? ms_cursor_close(it, result == MS_OK ? &err : NULL) : MS_OK;
    if (result == MS_OK) result = end;
    if (result == MS_OK) result = ms_writer_finish(&w, &err);
    ms_str text = ms_buf_text(&buf);
    return result == MS_OK ? json_parse_n(text.ptr, text.len) : NULL;
}

static json_t *written_one(const char *format, const ms_envelope *m)
{
    json_t *list = written(format, m, 1, NULL);
    json_t *one = json_incref(json_array_get(list, 0));
    json_decref(list);
    return one;
}

static json_t *equals(json_t *value)
{
    return value != NULL ? json_pack("{s:o}", "equals", value) : NULL;
}

/* Opens a store with messages. A log is read after it was closed and opened again. */
static bool open_with(test_store *s, const ms_envelope *list, size_t n)
{
    ms_result result = MS_OK;
    store_options options = {.keep_unset_times = true};
    *s = store_open(kind, &options);
    for (size_t i = 0; result == MS_OK && i < n; i++)
        result = ms_append(s->store, list[i].location, &list[i], NULL, &err);
    store_reopen(s);
    return result == MS_OK;
}


/* ---- the framework: builders, histories, views ---- */

/* A member of the arguments of a builder as a field of a message. */
static void set_argument(ms_envelope *m, const char *name, json_t *value)
{
    static const char *const names[][2] = {
        {"plan", "content"}, {"tool_name", "tool"}, {"tool_args", "args"}};
    if (strcmp(name, "timestamp") == 0) {
        m->has_time = json_is_number(value);
        m->time_ns = SECONDS(json_number_value(value));
        return;
    }
    for (size_t i = 0; i < COUNT(names); i++)
        if (strcmp(name, names[i][0]) == 0) name = names[i][1];
    ms_value set = json_is_string(value) ? ms_text_n(text_of(value))
                                         : ms_json(json_of(value));
    message_set(m, message_field(ms_str_of(name)), set);
}

/* The type of a message that a builder makes: of "create_task_entry" it is "task". */
static ms_type type_built(const char *builder)
{
    static const char *const names[] = {
#define MS__X(number, name, role, needs, group, form, word, envelope, task) word,
        MS_TYPES(MS__X)
#undef MS__X
    };
    const char *name = builder + strlen("create_"), *end = strstr(name, "_entry");
    ms_str word = end != NULL ? ms_str_n(name, (size_t)(end - name)) : ms_str_of(name);
    for (size_t i = 0; i < COUNT(names); i++)
        if (is_word(word, names[i])) return (ms_type)(i + 1);
    return MS_T_OTHER;
}

static json_t *op_build(json_t *input)
{
    json_t *args = json_object_get(input, "args"), *keys, *value;
    const char *builder = json_string_value(json_object_get(input, "builder")), *key;
    ms_envelope m = ms_message(type_built(builder), ms_text(NULL));
    json_object_foreach (args, key, value) set_argument(&m, key, value);
    if (test_envelope_check(&m, &err) != MS_OK) return NULL;
    json_t *message = written_one("framework", &m);
    keys = json_array();
    json_object_foreach (message, key, value)
        json_array_append_new(keys, json_string(key));
    return json_pack("{s:o, s:o}", "equals", message, "key_order", keys);
}

/* Opens a store with rows: {"location", "agent_key", "msg"}. */
static bool open_rows(test_store *s, json_t *rows)
{
    size_t n = json_array_size(rows);
    ms_envelope *list = (ms_envelope *)ms_arena_alloc(&arena, (n + 1) * sizeof *list);
    bool good = true;
    for (size_t i = 0; good && i < n; i++) {
        json_t *row = json_array_get(rows, i);
        good = read_one("framework", json_object_get(row, "msg"), &list[i]);
        list[i].agent_key = text_in(row, "agent_key");
        list[i].location = text_in(row, "location");
    }
    return open_with(s, list, good ? n : 0) && good;
}

static ms_str *list_of(json_t *names, size_t *n)
{
    *n = json_array_size(names);
    ms_str *list = (ms_str *)ms_arena_alloc(&arena, (*n + 1) * sizeof *list);
    for (size_t i = 0; i < *n; i++) list[i] = text_of(json_array_get(names, i));
    return list;
}

/* Closes a store after its cursor was read; the members "mid" of its messages. */
static json_t *message_ids(test_store *s, bool good, ms_cursor *it)
{
    json_t *messages = good ? written("framework", NULL, 0, it) : NULL, *message;
    json_t *ids = json_array();
    size_t i;
    json_array_foreach (messages, i, message)
        json_array_append(ids, json_object_get(message, "mid"));
    store_close(s);
    if (messages == NULL) json_decref(ids);
    if (messages == NULL) return NULL;
    json_decref(messages);
    return json_pack("{s:o}", "message_ids", ids);
}

static json_t *op_history(json_t *input)
{
    json_t *args = json_object_get(input, "args");
    test_store s;
    ms_memory memory;
    ms_cursor it;
    bool good = open_rows(&s, json_object_get(input, "rows"));
    ms_memory_init(&memory, s.store, text_in(args, "location"),
                   text_in(args, "agent_key"));
    memory.subordinates =
        list_of(json_object_get(args, "subordinates"), &memory.n_subordinates);
    memory.keep_duplicates = memory.by_time = memory.untimed_first = true;
    memory.arena = &arena;
    return message_ids(&s, good && ms_get_history(&memory, &it, &err) == MS_OK, &it);
}

static unsigned view_of(const char *name)
{
    if (strcmp(name, "conversation") == 0) return MS_VIEW_CONVERSATION;
    if (strcmp(name, "agent") == 0) return MS_VIEW_AGENT;
    return strcmp(name, "team") == 0 ? MS_VIEW_TEAM : MS_VIEW_GLOBAL;
}

static json_t *op_store_view(json_t *input)
{
    test_store s;
    ms_cursor it;
    ms_query q = {.location = text_in(input, "location"),
                  .views = view_of(json_string_value(json_object_get(input, "view"))),
                  .agent_key = text_in(input, "agent_key")};
    q.agent_keys = list_of(json_object_get(input, "agent_keys"), &q.n_agent_keys);
    q.limit = (size_t)json_integer_value(json_object_get(input, "limit"));
    q.oldest = q.by_time = q.untimed_first = true;
    q.arena = &arena;
    bool good = open_rows(&s, json_object_get(input, "rows"));
    return message_ids(&s, good && ms_query_open(s.store, &q, &it, &err) == MS_OK, &it);
}

static json_t *op_normalize_agent_key(json_t *input)
{
    json_t *name, *out = json_array();
    size_t i;
    json_array_foreach (json_object_get(input, "names"), i, name) {
        ms_str s = text_of(name);
        s = ms_normalize_agent_key(s, (char *)ms_arena_alloc(&arena, s.len));
        json_array_append_new(out, json_stringn(s.ptr, s.len));
    }
    return equals(out);
}


/* ---- the envelope: what is read goes through a store before it is written ---- */

static json_t *through_a_store(json_t *input, const char *format)
{
    test_store s;
    ms_envelopes list;
    ms_cursor it;
    ms_query all = query_of(MS_STR("place"), 0);
    json_t *out = NULL;
    if (!read_all("envelope", input, &list)) return NULL;
    ms_envelope *items = (ms_envelope *)(uintptr_t)list.items;
    for (size_t i = 0; i < list.count; i++) items[i].location = all.location;
    if (open_with(&s, items, list.count) &&
        ms_query_open(s.store, &all, &it, &err) == MS_OK)
        out = written(format, NULL, 0, &it);
    store_close(&s);
    if (out == NULL || json_is_array(input)) return equals(out);
    json_t *one = json_incref(json_array_get(out, 0));
    json_decref(out);
    return equals(one);
}

static json_t *op_normalize(json_t *input) { return through_a_store(input, "envelope"); }

static json_t *op_to_provider(json_t *input)
{
    return through_a_store(input, "envelope-rows");
}


/* ---- sessions: long texts, loading ---- */

/* Code points, as bytes that do not continue one. */
static json_int_t count_chars(ms_str s)
{
    json_int_t n = 0;
    for (size_t i = 0; i < s.len; i++) n += ((unsigned char)s.ptr[i] & 0xC0) != 0x80;
    return n;
}

static bool is_compressed(const ms_envelope *m)
{
    ms_str flag;
    return m->extra.ptr != NULL &&
           ms_json_member(m->extra, MS_STR("_compressed"), &flag) &&
           ms_json_kind_of(flag) == MS_JSON_TRUE;
}

static json_t *op_compress(json_t *input)
{
    json_t *message = json_object_get(input, "message");
    ms_shorten_opts opts;
    ms_envelope before, m;
    memset(&opts, 0, sizeof opts);
    opts.keep = (size_t)json_integer_value(json_object_get(input, "truncate_length"));
    opts.as_origin = true;
    if (!read_one("session", message, &m)) return NULL;
    before = m;
    if (ms_shorten_message(&m, &opts, text_in(input, "entity_key"), &arena, &err) !=
        MS_OK)
        return NULL;
    ms_str text = m.content.json ? ms_str_n(NULL, 0) : m.content.text;
    json_t *unchanged = written_one("session", &before);
    bool same = json_same(unchanged, message, JSON_MISSING_IS_NULL, NULL);
    json_decref(unchanged);
    return json_pack("{s:o, s:b, s:I, s:I, s:b}", "equals", written_one("session", &m),
                     "is_compressed", is_compressed(&m), "content_chars",
                     count_chars(text), "content_bytes_utf8", (json_int_t)text.len,
                     "input_unchanged", same);
}

/* Stores a row of the vector; its time is the i-th second. */
static bool store_row(ms_store *store, json_t *input, json_t *stored, unsigned i)
{
    char created[64];
    ms_session session;
    ms_envelope m;
    json_t *user = json_object_get(stored, "tenant");
    snprintf(created, sizeof created, "2024-01-15T10:%02u:%02uZ", 30 + i / 60, i % 60);
    json_t *row = json_pack("{s:O, s:O, s:s, s:O*}", "role",
                            json_object_get(stored, "role"), "content",
                            json_object_get(stored, "content"), "created_at", created,
                            "metadata", json_object_get(stored, "meta"));
    bool good = read_one("session", row, &m);
    json_decref(row);
    if (user == NULL) user = json_object_get(input, "user_id");
    return good &&
           ms_session_init(&session, store, text_of(user), text_in(input, "session_id"),
                           &arena, &err) == MS_OK &&
           ms_append(store, session.location, &m, NULL, &err) == MS_OK;
}

/* The members that the origin loads. */
static ms_envelope loaded_row(const ms_envelope *m)
{
    static const ms_field loaded[] = {MS_F_CONTENT, MS_F_TOOL, MS_F_ARGS, MS_F_CALL_ID,
                                      MS_F_ROLE_NAME};
    ms_value all[MS_FIELD_COUNT];
    ms_envelope row = ms_message(m->type, ms_text(NULL));
    message_fields(m, all);
    for (size_t i = 0; i < COUNT(loaded); i++)
        message_set(&row, loaded[i], all[loaded[i]]);
    row.role = m->role;
    row.has_time = m->has_time;
    row.time_ns = m->time_ns;
    return row;
}

/* The key of a shortened text, which a lookup finds, becomes the one that the origin
 * counts. */
static void spell_key(ms_store *store, const ms_session *session, json_t *input,
                      const ms_envelope *row, size_t index, json_t *out)
{
    char ours[MS_ENTITY_KEY_MAX], theirs[MS_ENTITY_KEY_MAX];
    const ms_msg *msg;
    ms_str is = ms_str_n(ours, test_entity_key(session->id, row->seq, ours));
    ms_str key = ms_str_n(theirs, test_entity_key(session->id, index, theirs));
    assert_int_equal(ms_session_lookup(store, text_in(input, "user_id"), is, &arena, &msg,
                                       &err), MS_OK);
    assert_int_equal(ms_seq(msg), row->seq);
    ms_str text = text_in(out, "content");
    size_t head = (size_t)(strstr(text.ptr, "REM LOOKUP ") - text.ptr) + 11;
    json_t *extra = json_parse_n(row->extra.ptr, row->extra.len);
    json_object_set_new(out, "_compressed", json_true());
    json_object_set(out, "_original_length", json_object_get(extra, "_original_length"));
    json_object_set_new(out, "_entity_key", json_stringn(key.ptr, key.len));
    json_object_set_new(out, "content",
                        json_pack("s%+%+%", text.ptr, head, key.ptr, key.len,
                                  text.ptr + head + is.len, text.len - head - is.len));
    json_decref(extra);
}

/* A time as the origin spells it: "+00:00" for the Z. */
static void spell_time(json_t *row)
{
    ms_str time = text_in(row, "timestamp");
    if (time.len < 2 || time.ptr[time.len - 1] != 'Z') return;
    json_object_set_new(row, "timestamp",
                        json_pack("s%+", time.ptr, time.len - 1, "+00:00"));
}

static json_t *load_rows(ms_store *store, json_t *input)
{
    ms_session session;
    ms_session_load_opts opts;
    ms_envelopes rows;
    json_t *list = json_array();
    memset(&opts, 0, sizeof opts);
    opts.compress_on_load = json_is_true(json_object_get(input, "compress_on_load"));
    opts.shorten.as_origin = true;
    assert_int_equal(ms_session_init(&session, store, text_in(input, "user_id"),
                                     text_in(input, "session_id"), &arena, &err), MS_OK);
    assert_int_equal(ms_session_load(&session, &opts, &arena, &rows, &err), MS_OK);
    for (size_t i = 0; i < rows.count; i++) {
        ms_envelope plain = loaded_row(&rows.items[i]);
        json_t *row = written_one("session", &plain);
        if (is_compressed(&rows.items[i]))
            spell_key(store, &session, input, &rows.items[i], i, row);
        spell_time(row);
        json_array_append_new(list, row);
    }
    return equals(list);
}

static json_t *op_load_session(json_t *input)
{
    json_t *stored;
    size_t i;
    test_store s = store_open(kind, NULL);
    json_array_foreach (json_object_get(input, "stored"), i, stored)
        assert_true(store_row(s.store, input, stored, (unsigned)i));
    store_reopen(&s);
    json_t *actual = load_rows(s.store, input);
    store_close(&s);
    return actual;
}


/* ---- messages of a task ---- */

/* What is written has the defaults of the origin. */
static json_t *op_validate_content(json_t *input)
{
    ms_envelope m;
    if (!read_one("task", json_object_get(input, "content"), &m)) return NULL;
    json_t *out = written_one("task", &m), *defaults = json_pack("{s:s}", "style",
                                                                 "static");
    if (ms_str_equal(text_in(out, "type"), MS_STR("text")))
        json_object_set_new(defaults, "format", json_string("plain"));
    json_object_update_missing(out, defaults);
    json_decref(defaults);
    return equals(out);
}

/* Each message by itself, as the chat format writes it. */
static json_t *op_to_llm_messages(json_t *input)
{
    ms_envelopes list;
    json_t *out = json_array();
    if (!read_all("task", json_object_get(input, "contents"), &list)) return NULL;
    for (size_t i = 0; i < list.count; i++) {
        ms_envelope m = list.items[i];
        m.extra = ms_str_n(NULL, 0);
        json_array_append_new(out, written_one("openai", &m));
    }
    return equals(out);
}


/* ---- the vectors ---- */

static const struct {
    const char *name;
    json_t *(*run)(json_t *input);
} operations[] = {
    {"build", op_build},
    {"history", op_history},
    {"history_open", op_history},
    {"store_view", op_store_view},
    {"normalize_agent_key", op_normalize_agent_key},
    {"normalize", op_normalize},
    {"normalize_many", op_normalize},
    {"to_provider", op_to_provider},
    {"to_provider_many", op_to_provider},
    {"compress", op_compress},
    {"load_session", op_load_session},
    {"validate_content", op_validate_content},
    {"to_llm_messages", op_to_llm_messages},
};

static const char *const lacking[] = {
    "history_filter", "decompress", "entity_key", "to_model_messages",
    "sanitize_tool_name", "accumulate_deltas", "merge_consecutive_deltas", "text",
    "tool_call", "tool_result", "coalesce", "pairs", "prune"};

/* The error of an operation, with the field that it names; the origin has a word of its
 * own for a content without a type. */
static json_t *failure(void)
{
    bool untagged = err.code == MS_E_MISSING && strcmp(err.path, "type") == 0;
    return json_pack("{s:s, s:[s]}", "error", err.message, "fields",
                     untagged ? "union_tag_not_found" : err.path);
}

static json_t *run(const table_row *r)
{
    for (size_t i = 0; i < COUNT(operations); i++) {
        if (strcmp(row_text(r, "op"), operations[i].name) != 0) continue;
        json_t *out = operations[i].run(row_get(r, "input"));
        return out != NULL ? out : failure();
    }
    fail_msg("no operation %s", row_text(r, "op"));
    return NULL;
}

/* Every member expected is there and the same; of an error only that it is one. */
static void must_meet(const table_row *r, json_t *actual)
{
    unsigned options = JSON_MISSING_IS_NULL | JSON_ARGUMENTS;
    json_t *expect = row_get(r, "expect"), *value;
    json_where where = {{0}, 0};
    const char *key;
    bool good = json_object_size(expect) > 0 &&
                (json_object_get(expect, "error") != NULL) ==
                    (json_object_get(actual, "error") != NULL);
    json_object_foreach (expect, key, value)
        good = good && (strcmp(key, "error") == 0 ||
                        json_same(json_object_get(actual, key), value, options, &where));
    if (!good)
        fail_msg("%s (%s) differs at %s:\n%s\nshould be\n%s", row_text(r, "case"),
                 kind->name, where.path, json_dumps(actual, 0), json_dumps(expect, 0));
}

static void vector_is_met(void **state)
{
    const table_row *r = (const table_row *)*state;
    for (size_t i = 0; i < STORE_KINDS; i++) {
        kind = store_kind_at(i);
        json_t *actual = run(r);
        must_meet(r, actual);
        json_decref(actual);
        ms_arena_reset(&arena);
    }
}

static bool is_lacking(const table_row *r)
{
    for (size_t i = 0; i < COUNT(lacking); i++)
        if (strcmp(row_text(r, "op"), lacking[i]) == 0) return true;
    return false;
}

/* Takes the folder of the vectors; without it, that of the test data. */
int main(int argc, char **argv)
{
    static const char *const files[] = {"envelope", "framework", "session", "task"};
    static table_row rows[300];
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < COUNT(files); i++) {
        char path[512], name[64];
        snprintf(name, sizeof name, "conformance/%s.jsonl", files[i]);
        if (argc > 1) snprintf(path, sizeof path, "%s/%s.jsonl", argv[1], files[i]);
        else if (!shared_path(path, sizeof path, name)) return 0;
        n += load_table(path, "", rows + n, COUNT(rows) - n);
    }
    for (size_t i = 0; i < n; i++) {
        if (is_lacking(&rows[i])) json_decref(rows[i].says);
        else rows[kept++] = rows[i];
    }
    add_table(rows, kept, vector_is_met);
    int failed = run_all_tests(reset, release);
    for (size_t i = 0; i < kept; i++) json_decref(rows[i].says);
    return failed;
}
