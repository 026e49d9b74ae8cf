/* Crush's database, as rows that database.c makes of its tables, or sqlite3 prints:
 *
 *     sqlite3 -json crush.db 'select m.*, s.title, s.parent_session_id,
 *         s.summary_message_id from messages m left join sessions s
 *         on s.id = m.session_id order by m.session_id, m.created_at, m.rowid'
 *
 * One array; a row is a message with its parts, [{type, data}], as text. Times are
 * seconds. Requests begin with the summary that the session names. No answer has its
 * usage: the counters of a session are those of its last answer, and its cost includes
 * that of its agents. */

#define _GNU_SOURCE
#include "read.h"

#include <string.h>

enum { R_ID, R_SESSION, R_ROLE, R_PARTS, R_MODEL, R_CREATED, R_SUMMARY, R_TITLE, R_PARENT,
       R_SUMMARIZED, R_KEYS };
static const json_key keys[] = {
    KEY("id"), KEY("session_id"), KEY("role"), KEY("parts"), KEY("model"),
    KEY("created_at"), KEY("is_summary_message"), KEY("title"), KEY("parent_session_id"),
    KEY("summary_message_id"),
};

static bool crush_shows(ms_str rows)
{
    enum { FIRST = 64 };      /* one of these has its parts as text */
    ms_json_iter it = ms_json_iterate(rows);
    if (!is_kind(rows, MS_JSON_ARRAY)) return false;
    for (int i = 0; i < FIRST && ms_json_next(&it); i++) {
        ms_str row = it.value;
        bool session = is_kind(member(row, "session_id"), MS_JSON_STRING);
        bool role = is_kind(member(row, "role"), MS_JSON_STRING);
        if ((session || role) && is_kind(member(row, "parts"), MS_JSON_STRING)) {
            return true;
        }
    }
    return false;
}

/* The row that is being read. */
typedef struct crush_row {
    ms_str v[R_KEYS];
    bool user, first;
} crush_row;

static void set_time(reading *r, const crush_row *row, ms_envelope *m)
{
    trace_time_s(r->t, m, row->v[R_CREATED]);
}

static void put_unknown(reading *r, const crush_row *row, ms_str type, ms_str json)
{
    ms_envelope when;
    memset(&when, 0, sizeof when);
    set_time(r, row, &when);
    trace_unknown_at(r->t, &when, type, json);
}

static void put(reading *r, crush_row *row, ms_envelope *m)
{
    set_time(r, row, m);
    put_piece(r, m, row->v[R_ID], &row->first);
}

/* Adds a part that the library has no word for, as an element of a content. */
static void put_raw(reading *r, crush_row *row, ms_str json)
{
    ms_value list = ms_json(object_text(r, "[", json, "]"));
    ms_envelope m = row->user ? ms_user_message(list) : ms_assistant_message(list);
    put(r, row, &m);
}

/* Adds a picture in Anthropic's form; other files stay as they are. */
static void put_file(reading *r, crush_row *row, ms_str part, ms_str data)
{
    ms_buf buf = {trace_arena(r->t), NULL, 0, 0};
    ms_str kind = member(data, "MIMEType"), bytes = member(data, "Data");
    if (!text_begins(trace_text(r->t, kind), MS_STR("image/")) ||
        !is_kind(bytes, MS_JSON_STRING)) {
        put_raw(r, row, part);
        return;
    }
    json_piece(&buf, "{\"type\":\"image\",\"source\":{\"type\":\"base64\",");
    json_piece(&buf, "\"media_type\":");
    ms_buf_write(&buf, kind.ptr, kind.len);
    json_piece(&buf, ",\"data\":");
    ms_buf_write(&buf, bytes.ptr, bytes.len);
    json_piece(&buf, "}}");
    put_raw(r, row, ms_buf_text(&buf));
}

/* Returns those members of the data that have a value, as further members. */
static ms_str rest_of(reading *r, ms_str data, const char *const *names, size_t n)
{
    leftover extra;
    rest_begin(&extra, trace_arena(r->t));
    for (size_t i = 0; i < n; i++) {
        ms_str value = member(data, names[i]);
        bool text = is_kind(value, MS_JSON_STRING) && value.len > 2;
        bool list = is_kind(value, MS_JSON_ARRAY);
        if (text || list || is_object(value)) rest_put(&extra, names[i], value);
    }
    return rest_end(&extra);
}

static void put_reasoning(reading *r, crush_row *row, ms_str data)
{
    static const char *const kept[] = {"signature", "thought_signature",
                                       "responses_data"};
    ms_envelope m = ms_message(MS_T_REASONING, value_of(r, member(data, "thinking")));
    m.extra = rest_of(r, data, kept, COUNT_OF(kept));
    if (m.content.text.len > 0 || m.extra.ptr != NULL) put(r, row, &m);
    else trace_incomplete(r->t, MS_STR("empty part"));
}

static void put_result(reading *r, crush_row *row, ms_str data)
{
    static const char *const kept[] = {"metadata", "data", "mime_type"};
    ms_envelope m = result_message(value_of(r, member(data, "content")),
                                   is_kind(member(data, "is_error"), MS_JSON_TRUE));
    m.call_id = trace_text(r->t, member(data, "tool_call_id"));
    m.tool = trace_text(r->t, member(data, "name"));
    m.extra = rest_of(r, data, kept, COUNT_OF(kept));
    put(r, row, &m);
}

/* The end of a message: a word of its own if nothing came before it, or if it says what
 * went wrong. */
static void put_finish(reading *r, crush_row *row, ms_str data)
{
    ms_str reason = member(data, "reason");
    bool bad = text_is(reason, "error");
    ms_str message = member(data, "message"), details = member(data, "details");
    bool says = bad && (message.len > 2 || details.len > 2);
    if ((!row->first && !says) || row->user || (!bad && !text_is(reason, "canceled"))) {
        trace_left_out(r->t, MS_STR("finish"));
        return;
    }
    ms_envelope m = ms_assistant_message(ms_text(""));
    m.extra = object_text(r, "{\"finish\":", data, "}");
    put(r, row, &m);
}

static void put_part(reading *r, crush_row *row, ms_str part)
{
    ms_str type = member(part, "type"), data = member(part, "data");
    ms_str text = member(data, "text");
    if (!is_object(data)) {
        put_unknown(r, row, MS_STR("part"), part);
    } else if (text_is(type, "text") && is_kind(text, MS_JSON_STRING)) {
        ms_value said = ms_text_n(trace_text(r->t, text));
        ms_envelope m = row->user ? ms_user_message(said) : ms_assistant_message(said);
        if (row->user) note_prompt_text(r, said.text);
        if (said.text.len > 0) put(r, row, &m);
        else trace_incomplete(r->t, MS_STR("empty part"));
    } else if (text_is(type, "reasoning")) {
        put_reasoning(r, row, data);
    } else if (text_is(type, "tool_call") && is_kind(member(data, "name"),
                                                     MS_JSON_STRING)) {
        ms_envelope m = call_of(r, member(data, "name"), member(data, "input"),
                                member(data, "id"));
        put(r, row, &m);
    } else if (text_is(type, "tool_result")) {
        put_result(r, row, data);
    } else if (text_is(type, "binary")) {
        put_file(r, row, part, data);
    } else if (text_is(type, "image_url")) {
        put_raw(r, row, part);
    } else if (text_is(type, "finish")) {
        put_finish(r, row, data);
    } else {
        put_unknown(r, row, trace_text(r->t, type), part);
    }
}

/* Adds the summary that takes the place of all messages before it; false: it is empty. */
static bool put_summary(reading *r, crush_row *row, ms_str parts)
{
    compaction c;
    ms_envelope like;
    ms_str none = {NULL, 0};
    ms_buf buf = {trace_arena(r->t), NULL, 0, 0};
    memset(&c, 0, sizeof c);
    memset(&like, 0, sizeof like);
    ms_json_iter it = ms_json_iterate(parts);
    while (ms_json_next(&it)) {
        if (!text_is(member(it.value, "type"), "text")) continue;
        ms_str text = trace_text(r->t, member_at(it.value, "data.text"));
        if (text.len > 0 && buf.len > 0) json_piece(&buf, "\n\n");
        if (text.len > 0) ms_buf_write(&buf, text.ptr, text.len);
    }
    if (buf.len == 0) return false;
    c.text = ms_buf_text(&buf);
    set_time(r, row, &like);
    like.id = trace_text(r->t, row->v[R_ID]);
    put_compaction(r, &c, &like, none);
    row->first = false;
    return true;
}

static void begin_session(reading *r, const crush_row *row)
{
    const char *folder = strstr(r->path, "/.crush/");
    ms_str session = row->v[R_SESSION], none = {NULL, 0};
    bool named = is_kind(session, MS_JSON_STRING) && session.len > 2;
    if (!named) session = MS_STR("null");
    if (r->talk.ptr != NULL && !ms_str_equal(r->talk, session)) {
        trace_new_session(r->t, none);
    }
    if (named) trace_session(r->t, trace_text(r->t, session));
    else session_of_path(r);
    r->talk = session;
    trace_fact(r->t, "agent", MS_STR("crush"));
    trace_fact(r->t, "title", trace_text(r->t, row->v[R_TITLE]));
    trace_fact(r->t, "parent", trace_text(r->t, row->v[R_PARENT]));
    trace_fact(r->t, "model", trace_text(r->t, row->v[R_MODEL]));
    if (folder != NULL) {
        trace_fact(r->t, "cwd", ms_str_n(r->path, (size_t)(folder - r->path)));
    }
}

static void take_row(reading *r, ms_str object)
{
    crush_row row;
    ms_str parts = {NULL, 0}, none = {NULL, 0};
    row.first = true;
    pick(object, keys, R_KEYS, row.v);
    row.user = text_is(row.v[R_ROLE], "user");
    begin_session(r, &row);
    trace_entry(r->t, row.v[R_ID], none, row.user ? ENTRY_PROMPT : 0);
    if (!row.user && !text_is(row.v[R_ROLE], "assistant") &&
        !text_is(row.v[R_ROLE], "tool")) {
        put_unknown(r, &row, MS_STR("role"), object);
        return;
    }
    ms_str text = trace_text(r->t, row.v[R_PARTS]);
    if (ms_json_check(text, NULL, &parts, NULL) != MS_OK ||
        !is_kind(parts, MS_JSON_ARRAY)) {
        trace_unknown(r->t, MS_STR("row"), object);
        return;
    }
    bool summary = count_of(row.v[R_SUMMARY]) > 0 ||
                   (row.v[R_SUMMARIZED].ptr != NULL &&
                    ms_str_equal(row.v[R_SUMMARIZED], row.v[R_ID]));
    summary = summary && put_summary(r, &row, parts);
    ms_json_iter it = ms_json_iterate(parts);
    size_t n = 0;
    for (; ms_json_next(&it); n++) {
        bool text_part = text_is(member(it.value, "type"), "text");
        if (summary && text_part && is_kind(member_at(it.value, "data.text"),
                                            MS_JSON_STRING)) {
            continue;
        }
        put_part(r, &row, it.value);
    }
    if (n == 0) trace_incomplete(r->t, MS_STR("empty message"));
}

static void crush_read(reading *r, ms_str rows)
{
    ms_json_iter it = ms_json_iterate(rows);
    while (ms_json_next(&it)) take_row(r, it.value);
}

const fileformat crush_format = {
    "crush", "Crush", "0.9 to 0.96 (crush.db)", ".crush/crush.db", FILE_WHOLE, TREE_NONE,
    crush_shows, crush_read, NULL,
};
