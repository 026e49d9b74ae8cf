/* The database of SQLiteSession of OpenAI's Agents SDK, as rows that database.c makes of
 * its table agent_messages, or sqlite3 prints:
 *
 *     sqlite3 -json sessions.db 'select * from agent_messages order by session_id, id'
 *
 * One array; a row has an item of the Responses API as text in message_data. The database
 * has no usage. */

#define _GNU_SOURCE
#include "read.h"

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
    ms_str text = trace_text(r->t, member(row, "message_data"));
    bool whole = ms_json_check(text, NULL, &item, NULL) == MS_OK && is_object(item);
    bool user = whole && text_is(member(item, "role"), "user");
    trace_entry(r->t, none, none, user ? ENTRY_PROMPT : 0);
    if (user) note_prompt(r, member(item, "content"));
    trace_time_iso(r->t, &like, member(row, "created_at"));
    ms_str type = member(item, "type");
    if (!whole) trace_unknown(r->t, MS_STR("row"), row);
    else if (!is_item(type)) trace_unknown(r->t, trace_text(r->t, type), item);
    else put_by_library(r, "openai-responses", item, &like, none);
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
