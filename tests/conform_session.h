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

static bool is_compressed(const ms_envelope *m)
{
    ms_str flag;
    return m->extra.ptr != NULL &&
           ms_json_member(m->extra, MS_STR("_compressed"), &flag) &&
           ms_json_kind_of(flag) == MS_JSON_TRUE;
}

static json_t *op_compress(json_t *input)
{
    ms_shorten_opts opts;
    ms_envelope before, m;
    ms_error err;
    ms_str text = {NULL, 0};
    memset(&opts, 0, sizeof opts);
    opts.keep = (size_t)json_integer_value(json_object_get(input, "truncate_length"));
    opts.as_origin = true;
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
                     "is_compressed", is_compressed(&m), "content_chars",
                     count_chars(text), "content_bytes_utf8", (json_int_t)text.len,
                     "input_unchanged", same);
}

/* The library keeps the full text and looks it up; putting it back into a shortened row
 * is three members less. */
static json_t *op_decompress(json_t *input)
{
    ms_envelope m;
    ms_error err;
    if (read_row(json_object_get(input, "message"), &m, &err) != MS_OK) {
        return failure(&err);
    }
    json_t *row = write_row(&m);
    json_object_set(row, "content", json_object_get(input, "full_content"));
    json_object_del(row, "_compressed");
    json_object_del(row, "_original_length");
    json_object_del(row, "_entity_key");
    return json_pack("{s:o}", "equals", row);
}

/* Keys of the library are never made shorter, so that each can be looked up. */
static json_t *op_entity_key(json_t *input)
{
    ms_str key = text_of(json_object_get(input, "key"));
    json_int_t max = json_integer_value(json_object_get(input, "max_length"));
    char *out = (char *)ms_arena_alloc(&arena, key.len + 9);
    size_t len = 0, chars = 0;
    bool whole = count_chars(key) <= max;
    while (len < key.len && (whole || chars < (size_t)max - 9 ||
                             ((unsigned char)key.ptr[len] & 0xC0) == 0x80)) {
        out[len] = key.ptr[len];
        len++;
        if (len < key.len) chars += ((unsigned char)key.ptr[len] & 0xC0) != 0x80;
    }
    if (!whole) len += origin_key_end(key, out + len);
    return json_pack("{s:o, s:I}", "equals", json_stringn(out, len), "chars",
                     count_chars(ms_str_n(out, len)));
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
    json_t *user = json_object_get(stored, "tenant"), *row = stored_row(stored, i);
    ms_session session;
    ms_envelope m;
    if (user == NULL) user = json_object_get(input, "user_id");
    ms_result result =
        ms_session_init(&session, store, text_of(user),
                        text_of(json_object_get(input, "session_id")), &arena, err);
    if (result == MS_OK) result = read_row(row, &m, err);
    if (result == MS_OK) result = ms_append(store, session.location, &m, NULL, err);
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

/* The members that the origin loads. */
static ms_envelope loaded_row(const ms_envelope *m)
{
    ms_envelope row;
    memset(&row, 0, sizeof row);
    row.type = m->type;
    row.role = m->role;
    row.role_name = m->role_name;
    row.has_time = m->has_time;
    row.time_ns = m->time_ns;
    row.content = m->content;
    row.tool = m->tool;
    row.args = m->args;
    row.call_id = m->call_id;
    return row;
}

/* Writes a row whose key has been looked up, with the key as the origin counts it. */
static json_t *write_loaded(ms_store *store, const ms_session *session, json_t *input,
                            const ms_envelope *row, size_t index)
{
    char ours[MS_ENTITY_KEY_MAX], theirs[MS_ENTITY_KEY_MAX];
    const ms_msg *msg;
    ms_error err;
    ms_envelope plain = loaded_row(row);
    json_t *out = write_row(&plain);
    if (!is_compressed(row)) return out;
    ms_str is = ms_str_n(ours, test_entity_key(session->id, row->seq, ours));
    ms_str key = ms_str_n(theirs, test_entity_key(session->id, index, theirs));
    if (ms_session_lookup(store, text_of(json_object_get(input, "user_id")), is, &arena,
                          &msg, &err) != MS_OK || ms_seq(msg) != row->seq) {
        return failure(&err);
    }
    ms_str text = text_of(json_object_get(out, "content"));
    char *at = strstr((char *)(uintptr_t)text.ptr, "REM LOOKUP ");
    size_t head = (size_t)(at - text.ptr) + 11;
    json_t *extra = json_parse_n(row->extra.ptr, row->extra.len);
    json_object_set_new(out, "_compressed", json_true());
    json_object_set(out, "_original_length", json_object_get(extra, "_original_length"));
    json_object_set_new(out, "_entity_key", json_stringn(key.ptr, key.len));
    json_decref(extra);
    json_object_set_new(out, "content",
                        json_pack("s%+%+%", text.ptr, head, key.ptr, key.len,
                                  text.ptr + head + is.len, text.len - head - is.len));
    return out;
}

static json_t *load_rows(ms_store *store, json_t *input, ms_error *err)
{
    ms_session session;
    ms_session_load_opts opts;
    ms_envelopes rows;
    json_t *list = json_array();
    memset(&opts, 0, sizeof opts);
    opts.compress_on_load = json_is_true(json_object_get(input, "compress_on_load"));
    opts.shorten.as_origin = true;
    if (ms_session_init(&session, store, text_of(json_object_get(input, "user_id")),
                        text_of(json_object_get(input, "session_id")), &arena, err) !=
            MS_OK ||
        ms_session_load(&session, &opts, &arena, &rows, err) != MS_OK) {
        return failure(err);
    }
    for (size_t i = 0; i < rows.count; i++) {
        json_array_append_new(list,
                              write_loaded(store, &session, input, &rows.items[i], i));
    }
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

/* The origin's replay, read and written by the library's format. */
static json_t *op_to_model_messages(json_t *input)
{
    json_t *value, *part, *made = origin_model_messages(input);
    size_t i, k;
    const ms_dialect *dialect = ms_dialect_find(MS_STR("pydantic-ai"));
    ms_envelopes list;
    ms_error err;
    ms_result result = ms_read_list(dialect, json_of(made), NULL, &arena, &list, &err);
    json_decref(made);
    if (result != MS_OK) return failure(&err);
    json_t *messages = write_rows(dialect, list.items, list.count);
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
        if (s.len > 0) s = sent_tool_name(s);
        json_array_append_new(out, json_stringn(s.ptr, s.len));
    }
    return json_pack("{s:o}", "equals", out);
}

#endif
