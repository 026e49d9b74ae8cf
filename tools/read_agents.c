/* What OpenAI's Agents SDK keeps: a RunState, and the database of SQLiteSession, as rows
 * that database.c makes of its table agent_messages, or sqlite3 prints:
 *
 *     sqlite3 -json sessions.db 'select * from agent_messages order by session_id, id'
 *
 * One array; a row has an item of the Responses API as text in message_data. The database
 * has no usage. */

#define _GNU_SOURCE
#include "read.h"

#include <stdio.h>
#include <string.h>

static bool agents_show(ms_str rows)
{
    ms_str row;
    return is_kind(rows, MS_JSON_ARRAY) && ms_json_element(rows, 0, &row) &&
           is_kind(member(row, "session_id"), MS_JSON_STRING) &&
           is_kind(member(row, "message_data"), MS_JSON_STRING);
}

/* Returns whether the library reads items of that type: messages, which can lack it,
 * reasoning, and calls with their outputs. */
static bool is_item(ms_str type)
{
    static const char *const words[] = {"message", "reasoning", "compaction"};
    static const char *const ends[] = {"_call\"", "_output\""};
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (text_is(type, words[i])) return true;
    }
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        size_t len = strlen(ends[i]);
        bool is = type.len > len && memcmp(type.ptr + type.len - len, ends[i], len) == 0;
        if (is) return true;
    }
    return type.ptr == NULL;
}

/* Adds an item of the Responses API; `extra` has further members. */
static void take_item(reading *r, ms_str item, const ms_envelope *like, ms_str extra)
{
    ms_str type = member(item, "type"), none = {NULL, 0};
    bool user = text_is(member(item, "role"), "user");
    trace_entry(r->t, none, none, user ? ENTRY_PROMPT : 0);
    if (user) note_prompt(r, member(item, "content"));
    if (!is_object(item)) trace_unknown_at(r->t, like, MS_STR("item"), item);
    else if (!is_item(type)) {
        trace_unknown_at(r->t, like, trace_text(r->t, type), item);
    } else put_by_library(r, "openai-responses", item, like, extra);
}


/* ---- SQLiteSession ----------------------------------------------------------------- */

static void take_row(reading *r, ms_str row)
{
    ms_str item = {NULL, 0}, none = {NULL, 0}, session = member(row, "session_id");
    ms_envelope like;
    memset(&like, 0, sizeof like);
    bool next = r->talk.ptr != NULL && !ms_str_equal(r->talk, session);
    if (next) trace_new_session(r->t, trace_text(r->t, session));
    else trace_session(r->t, trace_text(r->t, session));
    r->talk = session;
    trace_fact(r->t, "agent", MS_STR("openai-agents"));
    ms_str text = text_of(trace_arena(r->t), member(row, "message_data"));
    trace_time_iso(r->t, &like, member(row, "created_at"));
    bool whole = ms_json_check(text, NULL, &item, NULL) == MS_OK && is_object(item);
    if (whole) {
        take_item(r, item, &like, none);
    } else {
        trace_entry(r->t, none, none, 0);
        trace_unknown_at(r->t, &like, MS_STR("row"), row);
    }
}

static void agents_read(reading *r, ms_str rows)
{
    ms_json_iter it = ms_json_iterate(rows);
    while (ms_json_next(&it)) take_row(r, it.value);
}

const fileformat agents_format = {
    "openai-agents", "OpenAI Agents SDK", "0.24 (SQLiteSession)", "", FILE_WHOLE,
    TREE_NONE, agents_show, agents_read, NULL,
};


/* ---- RunState ----------------------------------------------------------------------
 * A run as `to_json` and `to_string` write it, so that another process goes on with it:
 * original_input, a text or a list of items; session_items, objects with the item in
 * raw_item; pending_input, items of the next turn; and the usage of each response, whose
 * output repeats items. Without session_items they are those of generated_items, else the
 * output of the responses. A run has no id: that of its first response names it, or a
 * hash of its input and that response. */

static bool state_shows(ms_str v)
{
    return is_kind(member(v, "$schemaVersion"), MS_JSON_STRING) &&
           member(v, "original_input").ptr != NULL &&
           is_kind(member(v, "model_responses"), MS_JSON_ARRAY);
}

/* The responses whose usage is not noted yet. */
typedef struct responses {
    ms_json_iter next;
    uint64_t count;           /* of those that are noted */
} responses;

static void note_response(reading *r, ms_str response, uint64_t number)
{
    char text[32];
    ms_str used = member(response, "usage"), detail, more, one;
    use u;
    if (!is_object(response)) {
        trace_entry(r->t, ms_str_n(NULL, 0), ms_str_n(NULL, 0), 0);
        trace_unknown(r->t, MS_STR("response"), response);
        return;
    }
    memset(&u, 0, sizeof u);
    detail = member(used, "input_tokens_details"); /* an object, or a list of one */
    if (ms_json_element(detail, 0, &one)) detail = one;
    more = member(used, "output_tokens_details");
    if (ms_json_element(more, 0, &one)) more = one;
    u.input = count_of(member(used, "input_tokens"));
    u.output = count_of(member(used, "output_tokens"));
    u.cached = count_of(member(detail, "cached_tokens"));
    u.written = count_of(member(detail, "cache_write_tokens"));
    u.reasoning = count_of(member(more, "reasoning_tokens"));
    u.answer = trace_text(r->t, member(response, "response_id"));
    snprintf(text, sizeof text, "response %llu", (unsigned long long)number);
    if (u.answer.len == 0) u.answer = ms_str_of(text); /* of a server without ids */
    put_use(r, &u);
}

/* Notes the usage of responses up to the one whose last item this is; absent: of all. */
static void note_responses(reading *r, responses *of, ms_str item)
{
    ms_json_iter it = of->next;
    uint64_t n = 0;
    bool found = item.ptr == NULL;
    while ((item.ptr == NULL || !found) && ms_json_next(&it)) {
        ms_str last = {NULL, 0};
        ms_json_iter out = ms_json_iterate(member(it.value, "output"));
        while (ms_json_next(&out)) last = out.value;
        found = item.ptr == NULL || ms_str_equal(last, item);
        n++;
    }
    for (; found && n > 0 && ms_json_next(&of->next); n--) {
        note_response(r, of->next.value, ++of->count);
    }
}

static void take_run_item(reading *r, ms_str item, responses *of)
{
    ms_envelope like;
    ms_str raw = member(item, "raw_item"), name = member_at(item, "agent.name");
    leftover extra;
    memset(&like, 0, sizeof like);
    if (text_is(member(item, "type"), "tool_approval_item") &&
        member(raw, "call_id").ptr != NULL) {
        trace_left_out(r->t, MS_STR("tool_approval_item")); /* repeats a call */
        return;
    }
    rest_begin(&extra, trace_arena(r->t));
    if (is_kind(name, MS_JSON_STRING)) rest_put(&extra, "agent", name);
    take_item(r, raw.ptr != NULL ? raw : item, &like, rest_end(&extra));
    if (raw.ptr != NULL) note_responses(r, of, raw);
}

/* Adds a text, or a list of items. */
static void take_input(reading *r, ms_str input)
{
    ms_envelope like;
    ms_str none = {NULL, 0};
    memset(&like, 0, sizeof like);
    if (is_kind(input, MS_JSON_STRING)) {
        ms_envelope m = ms_user_message(ms_text_n(trace_text(r->t, input)));
        trace_entry(r->t, none, none, ENTRY_PROMPT);
        note_prompt(r, input);
        trace_put(r->t, &m);
        return;
    }
    if (!is_kind(input, MS_JSON_ARRAY)) take_item(r, input, &like, none);
    ms_json_iter it = ms_json_iterate(input);
    while (is_kind(input, MS_JSON_ARRAY) && ms_json_next(&it)) {
        take_item(r, it.value, &like, none);
    }
}

/* Appends a JSON value without the white space between its tokens. */
static void put_compact(ms_buf *buf, ms_str json)
{
    bool text = false;
    for (size_t i = 0; i < json.len; i++) {
        char c = json.ptr[i];
        size_t len = text && c == '\\' && i + 1 < json.len ? 2 : 1;
        if (c == '"') text = !text;
        if (text || (unsigned char)c > ' ') ms_buf_write(buf, json.ptr + i, len);
        i += len - 1;
    }
}

/* Names the session. */
static void take_name(reading *r, ms_str state, ms_str items)
{
    char name[32];
    ms_buf buf = {trace_arena(r->t), NULL, 0, 0};
    ms_str list = member(state, "model_responses"), first = {NULL, 0};
    if (!ms_json_element(list, 0, &first)) ms_json_element(items, 0, &first);
    ms_str id = member(first, "response_id");
    put_compact(&buf, member(state, "original_input"));
    put_compact(&buf, first);
    uint64_t hash = hash_bytes(ms_buf_text(&buf));
    snprintf(name, sizeof name, "run-%016llx", (unsigned long long)hash);
    bool named = is_kind(id, MS_JSON_STRING) && id.len > 2;
    trace_session(r->t, named ? trace_text(r->t, id) : ms_str_of(name));
}

/* Returns the first list of items that is not empty. What is no list is kept whole. */
static ms_str items_of(reading *r, ms_str state)
{
    static const char *const names[] = {"session_items", "generated_items"};
    ms_str none = {NULL, 0}, first;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        ms_str items = member(state, names[i]);
        if (ms_json_element(items, 0, &first)) return items;
        if (items.ptr == NULL || is_kind(items, MS_JSON_NULL) ||
            is_kind(items, MS_JSON_ARRAY)) {
            continue;
        }
        trace_entry(r->t, none, none, 0);
        trace_unknown(r->t, ms_str_of(names[i]), items);
    }
    return none;
}

/* Adds the output of the responses. */
static void take_outputs(reading *r, ms_str list, responses *of)
{
    ms_envelope like;
    ms_str none = {NULL, 0};
    memset(&like, 0, sizeof like);
    ms_json_iter it = ms_json_iterate(list);
    while (ms_json_next(&it)) {
        ms_str items = member(it.value, "output");
        ms_json_iter item = ms_json_iterate(items);
        while (is_kind(items, MS_JSON_ARRAY) && ms_json_next(&item)) {
            take_item(r, item.value, &like, none);
        }
        if (ms_json_next(&of->next)) note_response(r, of->next.value, ++of->count);
    }
}

static void state_read(reading *r, ms_str state)
{
    ms_str list = member(state, "model_responses");
    ms_str pending = member(state, "pending_input"), none = {NULL, 0};
    take_name(r, state, member(state, "session_items"));
    trace_fact(r->t, "agent", MS_STR("openai-agents"));
    take_input(r, member(state, "original_input"));
    responses of = {ms_json_iterate(list), 0};
    ms_str items = items_of(r, state);
    ms_json_iter it = ms_json_iterate(items);
    while (items.ptr != NULL && ms_json_next(&it)) take_run_item(r, it.value, &of);
    if (items.ptr == NULL) take_outputs(r, list, &of);
    note_responses(r, &of, none);
    bool waits = pending.ptr != NULL && !is_kind(pending, MS_JSON_NULL);
    if (waits) take_input(r, pending);
}

const fileformat agents_state_format = {
    "openai-agents", "OpenAI Agents SDK", "0.24 (RunState 1.21)", "", FILE_WHOLE,
    TREE_NONE, state_shows, state_read, NULL,
};
