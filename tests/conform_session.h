/* Operations of the conformance vectors on sessions and long texts, for
 * test_conformance.c, which includes this behind its own helpers. Its rows in
 * `operations`:
 *
 *     {"compress", op_compress},
 *     {"decompress", op_decompress},
 *     {"entity_key", op_entity_key},
 *     {"load_session", op_load_session},
 *     {"to_model_messages", op_to_model_messages},
 *     {"sanitize_tool_name", op_sanitize_tool_name},
 */

#ifndef CONFORM_SESSION_H
#define CONFORM_SESSION_H

static const ms_dialect *session_dialect(void)
{
    return ms_dialect_find(MS_STR("session"));
}

/* A row of any kind, also of what a strict reader refuses. */
static ms_result read_row(json_t *value, ms_envelope *out, ms_error *err)
{
    ms_read_opts opts = {false, false};
    ms_envelopes all = {NULL, 0};
    opts.lenient = true;
    ms_result result =
        ms_read(session_dialect(), json_of(value), &opts, &arena, &all, err);
    if (result == MS_OK) *out = all.items[0];
    return result;
}

static json_t *write_rows(const ms_dialect *dialect, const ms_envelope *rows, size_t n)
{
    ms_writer_opts opts;
    ms_result result = MS_OK;
    ms_writer w;
    ms_buf buf;
    ms_error err;
    memset(&opts, 0, sizeof opts);
    memset(&buf, 0, sizeof buf);
    buf.arena = &arena;
    opts.array = true;
    ms_writer_init(&w, dialect, &opts, &arena, ms_buf_write, &buf);
    for (size_t i = 0; result == MS_OK && i < n; i++)
        result = ms_writer_put(&w, &rows[i], &err);
    return end_writing(&w, &buf, result, &err);
}

static json_t *write_row(const ms_envelope *row)
{
    json_t *rows = write_rows(session_dialect(), row, 1);
    json_t *one = json_is_array(rows) ? json_incref(json_array_get(rows, 0)) : rows;
    if (json_is_array(rows)) json_decref(rows);
    return one;
}

/* Code points, as bytes that do not continue one. */
static json_int_t count_chars(ms_str s)
{
    json_int_t n = 0;
    for (size_t i = 0; i < s.len; i++) n += ((unsigned char)s.ptr[i] & 0xC0) != 0x80;
    return n;
}

static json_t *op_compress(json_t *input)
{
    ms_shorten_opts opts;
    ms_envelope before, m;
    ms_error err;
    ms_str text = {NULL, 0};
    memset(&opts, 0, sizeof opts);
    opts.keep = (size_t)json_integer_value(json_object_get(input, "truncate_length"));
    opts.may_grow = true;
    if (read_row(json_object_get(input, "message"), &m, &err) != MS_OK) {
        return failure(&err);
    }
    before = m;
    if (ms_shorten_message(&m, &opts, text_of(json_object_get(input, "entity_key")),
                           &arena, &err) != MS_OK) {
        return failure(&err);
    }
    if (!m.content.json) text = m.content.text;
    json_t *unchanged = write_row(&before);
    bool same = json_same(unchanged, json_object_get(input, "message"),
                          JSON_MISSING_IS_NULL, NULL);
    json_decref(unchanged);
    return json_pack("{s:o, s:b, s:I, s:I, s:b}", "equals", write_row(&m),
                     "is_compressed", ms_is_shortened(&m), "content_chars",
                     count_chars(text), "content_bytes_utf8", (json_int_t)text.len,
                     "input_unchanged", same);
}

static json_t *op_decompress(json_t *input)
{
    ms_envelope m;
    ms_error err;
    if (read_row(json_object_get(input, "message"), &m, &err) != MS_OK ||
        ms_restore_message(&m, text_of(json_object_get(input, "full_content")), &arena,
                           &err) != MS_OK) {
        return failure(&err);
    }
    return json_pack("{s:o}", "equals", write_row(&m));
}

static json_t *op_entity_key(json_t *input)
{
    ms_str key = text_of(json_object_get(input, "key"));
    size_t max = (size_t)json_integer_value(json_object_get(input, "max_length"));
    key = ms_shorten_key(key, max, (char *)ms_arena_alloc(&arena, key.len));
    return json_pack("{s:o, s:I}", "equals", json_stringn(key.ptr, key.len), "chars",
                     count_chars(key));
}

/* A stored row of the vector as one of the format; its time is the i-th second. */
static json_t *stored_row(json_t *stored, size_t i)
{
    char created[64];
    json_t *row = json_object(), *meta = json_object_get(stored, "meta");
    snprintf(created, sizeof created, "2024-01-15T10:%02u:%02uZ",
             (unsigned)(30 + i / 60), (unsigned)(i % 60));
    json_object_set(row, "role", json_object_get(stored, "role"));
    json_object_set(row, "content", json_object_get(stored, "content"));
    json_object_set_new(row, "created_at", json_string(created));
    if (meta != NULL) json_object_set(row, "metadata", meta);
    return row;
}

static ms_result store_row(ms_store *store, json_t *input, json_t *stored, size_t i,
                           ms_error *err)
{
    json_t *user = json_object_get(stored, "tenant");
    if (user == NULL) user = json_object_get(input, "user_id");
    json_t *row = stored_row(stored, i), *list = json_pack("[O]", row);
    ms_session session;
    ms_result result =
        ms_session_init(&session, store, text_of(user),
                        text_of(json_object_get(input, "session_id")), err);
    session.keep_system = true;
    if (result == MS_OK) {
        result = ms_session_store_json(&session, json_of(list), NULL, &arena, err);
    }
    json_decref(list);
    json_decref(row);
    return result;
}

/* Times as the origin spells them: "+00:00" for the Z. */
static void spell_times(json_t *rows)
{
    json_t *row;
    size_t i;
    json_array_foreach (rows, i, row) {
        const char *time = json_string_value(json_object_get(row, "timestamp"));
        char spelled[64];
        if (time == NULL || strlen(time) < 2) continue;
        snprintf(spelled, sizeof spelled, "%.*s+00:00", (int)strlen(time) - 1, time);
        if (time[strlen(time) - 1] == 'Z') {
            json_object_set_new(row, "timestamp", json_string(spelled));
        }
    }
}

static json_t *load_rows(ms_store *store, json_t *input, ms_error *err)
{
    ms_session session;
    ms_session_load_opts opts;
    ms_envelopes rows;
    memset(&opts, 0, sizeof opts);
    opts.compress_on_load = json_is_true(json_object_get(input, "compress_on_load"));
    opts.shorten.may_grow = true;
    opts.plain = true;
    if (ms_session_init(&session, store, text_of(json_object_get(input, "user_id")),
                        text_of(json_object_get(input, "session_id")), err) != MS_OK ||
        ms_session_load(&session, &opts, &arena, &rows, err) != MS_OK) {
        return failure(err);
    }
    json_t *list = write_rows(session_dialect(), rows.items, rows.count);
    spell_times(list);
    return json_pack("{s:o}", "equals", list);
}

static json_t *op_load_session(json_t *input)
{
    json_t *stored, *actual;
    size_t i;
    ms_error err;
    ms_result result = MS_OK;
    test_store s = store_open(kind, NULL);
    json_array_foreach (json_object_get(input, "stored"), i, stored) {
        if (result == MS_OK) result = store_row(s.store, input, stored, i, &err);
    }
    store_reopen(&s);
    actual = result == MS_OK ? load_rows(s.store, input, &err) : failure(&err);
    store_close(&s);
    return actual;
}

/* The words of the format, as the vectors have them. */
static void rename_word(json_t *object, const char *member, const char *to)
{
    static const char *const words[][2] = {
        {"request", "ModelRequest"},        {"response", "ModelResponse"},
        {"text", "TextPart"},               {"tool-call", "ToolCallPart"},
        {"tool-return", "ToolReturnPart"},  {"user-prompt", "UserPromptPart"},
        {"system-prompt", "SystemPromptPart"}};
    const char *word = json_string_value(json_object_get(object, member));
    for (size_t i = 0; word != NULL && i < COUNT(words); i++) {
        if (strcmp(word, words[i][0]) != 0) continue;
        json_object_del(object, member);
        json_object_set_new(object, to, json_string(words[i][1]));
        return;
    }
}

static json_t *op_to_model_messages(json_t *input)
{
    json_t *history = json_object_get(input, "history"), *value, *part;
    size_t n = json_array_size(history), i, k;
    ms_envelope *rows = (ms_envelope *)ms_arena_alloc(&arena, (n + 1) * sizeof *rows);
    const ms_dialect *dialect = ms_dialect_find(MS_STR("pydantic-ai"));
    ms_model_opts opts;
    ms_envelopes out;
    ms_error err;
    memset(&opts, 0, sizeof opts);
    opts.system_prompt = text_of(json_object_get(input, "system_prompt"));
    json_array_foreach (history, i, value) {
        if (read_row(value, &rows[i], &err) != MS_OK) return failure(&err);
    }
    if (ms_session_model_messages(rows, n, &opts, &arena, &out, &err) != MS_OK) {
        return failure(&err);
    }
    json_t *messages = write_rows(dialect, out.items, out.count);
    json_array_foreach (messages, i, value) {
        rename_word(value, "kind", "kind");
        json_array_foreach (json_object_get(value, "parts"), k, part) {
            rename_word(part, "part_kind", "part");
        }
    }
    return json_pack("{s:o}", "equals", messages);
}

static json_t *op_sanitize_tool_name(json_t *input)
{
    json_t *name, *out = json_array();
    size_t i;
    json_array_foreach (json_object_get(input, "names"), i, name) {
        ms_str s = text_of(name);
        s = ms_sanitize_tool_name(s, (char *)ms_arena_alloc(&arena, s.len));
        json_array_append_new(out, json_stringn(s.ptr, s.len));
    }
    return json_pack("{s:o}", "equals", out);
}

#endif
