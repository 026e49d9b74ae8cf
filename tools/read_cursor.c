/* Cursor's database, as rows that database.c makes of the table cursorDiskKV of
 * User/globalStorage/state.vscdb. Only rows of conversations are read. One array:
 *
 *     {"session": ID, "key": "composerData:ID", "value": JSON as text}
 *     {"session": ID, "key": "bubbleId:ID:BUBBLE", "value": JSON as text} ...
 *
 * A composer lists its bubbles in their order, or has them itself (conversation). One of
 * type 1 is of the user, of type 2 of the model: thinking, text, or a tool
 * (toolFormerData: the call, and its result once it has one). What a bubble counts as
 * tokens is not the usage of an answer. */

#define _GNU_SOURCE
#include "read.h"

#include <string.h>

static bool cursor_shows(ms_str rows)
{
    ms_str row;
    if (!is_kind(rows, MS_JSON_ARRAY) || !ms_json_element(rows, 0, &row)) return false;
    ms_str key = member(row, "key");
    return is_kind(member(row, "session"), MS_JSON_STRING) &&
           (text_begins(key, MS_STR("\"composerData:")) ||
            text_begins(key, MS_STR("\"bubbleId:")));
}

typedef struct bubble_at {
    uint64_t key;             /* hash of a bubble's id */
    size_t value;             /* its row, plus one; 0: it was read */
} bubble_at;

typedef struct cursor_session {
    reading *r;
    ms_arena arena;           /* texts of its rows */
    ms_str *rows;             /* values as text: an stb_ds array */
    bubble_at *of_bubble;     /* an stb_ds map */
} cursor_session;

/* Older bubbles have no time. The first message of a session has then that of its
 * composer, which r->waited has until a message is added. */
static void set_time(reading *r, ms_envelope *m, ms_str bubble)
{
    ms_str when = member(bubble, "createdAt");
    if (is_no_time(when)) when = r->waited;
    if (is_kind(when, MS_JSON_STRING)) trace_time_iso(r->t, m, when);
    else trace_time_ms(r->t, m, when);
    r->waited = ms_str_n(NULL, 0);
}

static void put_unknown(reading *r, ms_str bubble, const char *word, ms_str json)
{
    ms_envelope when;
    memset(&when, 0, sizeof when);
    set_time(r, &when, bubble);
    trace_unknown_at(r->t, &when, ms_str_of(word), json);
}

static void put(reading *r, ms_envelope *m, ms_str bubble, ms_str id, bool *first)
{
    set_time(r, m, bubble);
    put_piece(r, m, id, first);
}

static bool has_text(ms_str value)
{
    return is_kind(value, MS_JSON_STRING) && value.len > 2;
}

/* Returns whether a member has a value: no empty text or list, no null. */
static bool has_value(ms_str value)
{
    ms_str first;
    if (value.ptr == NULL || is_kind(value, MS_JSON_NULL)) return false;
    if (is_kind(value, MS_JSON_STRING)) return value.len > 2;
    return !is_kind(value, MS_JSON_ARRAY) || ms_json_element(value, 0, &first);
}

static bool has_args(ms_str args)
{
    return has_text(args) || is_object(args);
}

static void put_tool(reading *r, ms_str bubble, ms_str id, bool *first)
{
    ms_str tool = member(bubble, "toolFormerData"), args = member(tool, "rawArgs");
    ms_str call = member(tool, "toolCallId"), said = member(tool, "result");
    ms_str error = member(tool, "error");
    ms_str status = member_at(tool, "additionalData.status"), none = {NULL, 0};
    bool bad = text_is(status, "error") || text_is(member(tool, "status"), "error") ||
               text_is(member(tool, "status"), "cancelled");
    bool none_raw = !has_args(args) || text_is(args, "{}");
    if (none_raw) args = member(tool, "params");
    if (!has_text(call)) call = id;
    ms_envelope m = call_of(r, member(tool, "name"),
                            args.ptr == NULL || args.len == 2 ? none : args, call);
    ms_str call_id = m.call_id, name = m.tool, blocks = member(bubble, "codeBlocks");
    if (!has_text(member(bubble, "text")) && has_value(blocks)) {
        m.extra = object_text(r, "{\"codeBlocks\":", blocks, "}");
    }
    put(r, &m, bubble, id, first);
    bool both = has_value(said) && has_value(error);
    if (!has_value(said)) said = error;
    if (!has_value(said) && !bad) return; /* it was running */
    m = result_message(value_of(r, said), bad);
    if (both) m.extra = object_text(r, "{\"error\":", error, "}");
    m.call_id = call_id;
    m.tool = name;
    put(r, &m, bubble, id, first);
}

/* Keeps what is attached to a bubble, and of a user's what only the model's have as a
 * rule. */
static void put_attached(reading *r, ms_str bubble, bool user)
{
    static const char *const names[] = {"images", "attachedCodeChunks", "thinking",
                                        "toolFormerData", "errorDetails"};
    for (size_t i = 0; i < (user ? COUNT_OF(names) : 2); i++) {
        ms_str value = member(bubble, names[i]);
        bool empty = is_object(value) && !has_more(value, "", "", "");
        if (has_value(value) && !empty) put_unknown(r, bubble, names[i], value);
    }
}

/* Adds what a bubble of the model has. */
static void put_answer(reading *r, ms_str bubble, ms_str id, bool *first)
{
    ms_str thinking = member(bubble, "thinking"), text = member(bubble, "text");
    ms_str tool = member(bubble, "toolFormerData");
    ms_str error = member(bubble, "errorDetails"), blocks = member(bubble, "codeBlocks");
    ms_str thought = is_object(thinking) ? member(thinking, "text") : thinking;
    bool said = has_text(text) && (!is_blank(trace_text(r->t, text)) ||
                                   has_value(blocks));
    if (has_text(thought)) {
        ms_envelope m = ms_message(MS_T_REASONING, value_of(r, thought));
        put(r, &m, bubble, id, first);
    } else if (has_value(thinking) && !is_kind(thought, MS_JSON_STRING)) {
        put_unknown(r, bubble, "thinking", thinking);
    }
    if (said) {
        leftover extra;
        ms_envelope m = ms_assistant_message(value_of(r, text));
        rest_begin(&extra, trace_arena(r->t));
        if (has_value(error)) rest_put(&extra, "error", error);
        if (has_value(blocks)) rest_put(&extra, "codeBlocks", blocks);
        m.extra = rest_end(&extra);
        put(r, &m, bubble, id, first);
    }
    if (has_text(member(tool, "name"))) {
        put_tool(r, bubble, id, first);
    } else if (has_args(member(tool, "rawArgs")) || has_args(member(tool, "params"))) {
        put_unknown(r, bubble, "tool without a name", bubble);
    } else if (is_object(tool) && !has_value(member(tool, "result"))) {
        trace_incomplete(r->t, MS_STR("tool that never began"));
    } else if (has_value(tool)) {
        put_unknown(r, bubble, "tool without a name", tool);
    }
    if (has_value(error) && !said) {
        ms_envelope m = ms_assistant_message(ms_text(""));
        m.extra = object_text(r, "{\"error\":", error, "}");
        put(r, &m, bubble, id, first);
    }
}

static void take_bubble(reading *r, ms_str bubble, ms_str id)
{
    ms_str type = member(bubble, "type"), none = {NULL, 0}, blocks, text;
    bool first = true, user = count_of(type) == 1;
    trace_entry(r->t, id, none, user ? ENTRY_PROMPT : 0);
    blocks = member(bubble, "codeBlocks");
    text = member(bubble, "text");
    if (!is_object(bubble) || (!user && count_of(type) != 2)) {
        put_unknown(r, bubble, "bubble", bubble);
        return;
    }
    if (user && has_text(text)) {
        ms_envelope m = ms_user_message(value_of(r, text));
        note_prompt_text(r, m.content.text);
        put(r, &m, bubble, id, &first);
    } else if (!user) {
        put_answer(r, bubble, id, &first);
    }
    put_attached(r, bubble, user);
    bool kept = !user && (has_text(text) || has_text(member_at(bubble,
                                                              "toolFormerData.name")));
    if (has_value(blocks) && !kept) put_unknown(r, bubble, "code blocks", blocks);
    else if (has_value(text) && !is_kind(text, MS_JSON_STRING)) {
        put_unknown(r, bubble, "text", text);
    } else if (first) trace_incomplete(r->t, MS_STR("empty bubble"));
}

/* Keeps a value that is no JSON, as a string. */
static void keep_text(reading *r, const char *word, ms_str text)
{
    ms_buf buf = {trace_arena(r->t), NULL, 0, 0};
    json_quoted(&buf, text);
    trace_unknown(r->t, ms_str_of(word), ms_buf_text(&buf));
}

/* Reads the value of a row that a list names; false: it is not there. */
static bool take_row(cursor_session *s, ms_str id)
{
    ms_str value, none = {NULL, 0};
    bool named = is_kind(id, MS_JSON_STRING);
    uint64_t hash = named ? hash_text(ms_str_n(id.ptr + 1, id.len - 2)) : 0;
    bubble_at *at = named ? hmgetp_null(s->of_bubble, hash) : NULL;
    if (at == NULL || at->value == 0) return false;
    ms_str text = s->rows[at->value - 1];
    at->value = 0;
    if (ms_json_check(text, NULL, &value, NULL) == MS_OK) {
        take_bubble(s->r, value, id);
    } else {
        trace_entry(s->r->t, id, none, 0);
        keep_text(s->r, "row", text);
    }
    return true;
}

static void take_list(cursor_session *s, ms_str list, bool whole)
{
    ms_json_iter it = ms_json_iterate(list);
    while (is_kind(list, MS_JSON_ARRAY) && ms_json_next(&it)) {
        ms_str id = member(it.value, "bubbleId");
        if (take_row(s, id)) continue;
        if (whole) take_bubble(s->r, it.value, id);
        else trace_incomplete(s->r->t, MS_STR("bubble without its row"));
    }
}

static void take_composer(cursor_session *s, ms_str text)
{
    reading *r = s->r;
    ms_str value, first, model, none = {NULL, 0};
    if (ms_json_check(text, NULL, &value, NULL) != MS_OK || !is_object(value)) {
        trace_entry(r->t, none, none, 0);
        keep_text(r, "composer", text);
        return;
    }
    trace_fact(r->t, "title", trace_text(r->t, member(value, "name")));
    trace_fact(r->t, "cwd",
               trace_text(r->t, member_at(value, "workspaceIdentifier.uri.fsPath")));
    model = trace_text(r->t, member_at(value, "modelConfig.modelName"));
    if (!ms_str_equal(model, MS_STR("default"))) trace_fact(r->t, "model", model);
    r->waited = member(value, "createdAt");
    ms_str list = member(value, "fullConversationHeadersOnly");
    bool listed = is_kind(list, MS_JSON_ARRAY) && ms_json_element(list, 0, &first);
    take_list(s, listed ? list : member(value, "conversation"), !listed);
}

/* Reads the rows of a session, which begin with its composer. */
static void take_session(cursor_session *s, ms_str composer)
{
    take_composer(s, composer);
    for (size_t i = 0; i < hmlenu(s->of_bubble); i++) {
        if (s->of_bubble[i].value > 0) {
            trace_incomplete(s->r->t, MS_STR("bubble that no list has"));
        }
    }
    trace_flush(s->r->t); /* messages view the texts */
    arrfree(s->rows);
    hmfree(s->of_bubble);
    ms_arena_deinit(&s->arena);
    memset(&s->arena, 0, sizeof s->arena);
}

static void begin_session(reading *r, ms_str session)
{
    if (r->talk.ptr == NULL) trace_session(r->t, trace_text(r->t, session));
    else trace_new_session(r->t, trace_text(r->t, session));
    r->talk = session;
    trace_fact(r->t, "agent", MS_STR("cursor"));
}

static void cursor_read(reading *r, ms_str rows)
{
    cursor_session s;
    ms_str composer = {NULL, 0};
    memset(&s, 0, sizeof s);
    s.r = r;
    ms_json_iter it = ms_json_iterate(rows);
    while (ms_json_next(&it) && trace_code(r->t) == FINE) {
        ms_str key = member(it.value, "key"), session = member(it.value, "session");
        bool begins = text_begins(key, MS_STR("\"composerData:"));
        if (!begins && (r->talk.ptr == NULL || !ms_str_equal(r->talk, session))) {
            trace_incomplete(r->t, MS_STR("bubble of no composer"));
            continue;
        }
        if (begins && composer.ptr != NULL) take_session(&s, composer);
        if (begins) begin_session(r, session);
        ms_str text = text_of(&s.arena, member(it.value, "value"));
        if (begins) {
            composer = text.ptr != NULL ? text : MS_STR("");
            continue;
        }
        size_t prefix = sizeof "\"bubbleId:" - 1 + session.len - 1;
        ms_str id = key.len > prefix ? ms_str_n(key.ptr + prefix, key.len - prefix - 1)
                                     : ms_str_n(NULL, 0);
        bubble_at *same = hmgetp_null(s.of_bubble, hash_text(id));
        if (same != NULL) trace_incomplete(r->t, MS_STR("bubble that comes again"));
        arrput(s.rows, text);
        hmput(s.of_bubble, hash_text(id), arrlenu(s.rows));
    }
    if (composer.ptr != NULL) take_session(&s, composer);
}

const fileformat cursor_format = {
    "cursor", "Cursor", "_v 3 to 17 (state.vscdb)", "", FILE_WHOLE, TREE_NONE,
    cursor_shows, cursor_read, NULL,
};
