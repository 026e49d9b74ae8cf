/* Lists of UIMessage of the Vercel AI SDK, as applications keep them: {id, role, parts}.
 * An assistant's message has all steps of a turn; a part step-start begins a step. A part
 * tool-NAME is a call with its result. There are no times and no usage. */

#define _GNU_SOURCE
#include "read.h"

#include <string.h>

static const char tool_word[] = "\"tool-";
enum { TOOL_WORD = sizeof tool_word - 1 };

static bool ui_shows(ms_str list)
{
    ms_str message, part;
    return is_kind(list, MS_JSON_ARRAY) && ms_json_element(list, 0, &message) &&
           is_kind(member(message, "role"), MS_JSON_STRING) &&
           member(message, "content").ptr == NULL &&
           ms_json_element(member(message, "parts"), 0, &part) &&
           is_kind(member(part, "type"), MS_JSON_STRING);
}

static bool is_tool(ms_str type)
{
    return type.len > TOOL_WORD + 1 && memcmp(type.ptr, tool_word, TOOL_WORD) == 0;
}

/* Adds the results of calls among the next n parts. */
static void put_results(reading *r, ms_json_iter it, size_t n)
{
    for (; n > 0 && ms_json_next(&it); n--) {
        ms_str said = member(it.value, "output"), state = member(it.value, "state");
        bool failed = text_is(state, "output-error");
        if (!is_tool(member(it.value, "type"))) continue;
        if (!failed && !text_is(state, "output-available")) continue;
        if (failed) said = member(it.value, "errorText");
        ms_str type = trace_text(r->t, member(it.value, "type"));
        ms_envelope m = result_message(value_of(r, said), failed);
        m.call_id = trace_text(r->t, member(it.value, "toolCallId"));
        m.tool = ms_str_n(type.ptr + TOOL_WORD - 1, type.len - TOOL_WORD + 1);
        trace_put(r->t, &m);
    }
}

/* Reads a part that is no step; false: its type is not known. */
static bool part_of(reading *r, ms_str role, ms_str part, ms_envelope *m)
{
    ms_str type = member(part, "type"), text = trace_text(r->t, member(part, "text"));
    if (is_tool(type)) {
        ms_str name = trace_text(r->t, type);
        name = ms_str_n(name.ptr + TOOL_WORD - 1, name.len - TOOL_WORD + 1);
        ms_str input = member(part, "input");
        *m = action_of(name, args_of(r, input.ptr != NULL ? input : MS_STR("{}")));
        m->call_id = trace_text(r->t, member(part, "toolCallId"));
    } else if (text_is(type, "reasoning")) {
        *m = ms_message(MS_T_REASONING, ms_text_n(text));
    } else if (!text_is(type, "text")) {
        return false;
    } else if (text_is(role, "user")) {
        *m = ms_user_message(ms_text_n(text));
    } else if (text_is(role, "assistant")) {
        *m = ms_assistant_message(ms_text_n(text));
    } else {
        *m = text_message(trace_text(r->t, role), ms_text_n(text));
    }
    return true;
}

static void take_message(reading *r, ms_str message)
{
    ms_str id = member(message, "id"), role = member(message, "role"), none = {NULL, 0};
    ms_str parts = member(message, "parts");
    bool user = text_is(role, "user"), first = true, any = false;
    ms_envelope m;
    size_t n = 0;
    trace_entry(r->t, id, none, user ? ENTRY_PROMPT : 0);
    if (!is_kind(parts, MS_JSON_ARRAY)) {
        trace_unknown(r->t, MS_STR("message without parts"), message);
        return;
    }
    if (user) note_prompt(r, parts);
    ms_json_iter it = ms_json_iterate(parts), step = it;
    while (ms_json_next(&it)) {
        ms_str type = member(it.value, "type");
        n++;
        any = any || !text_is(type, "step-start");
        if (text_is(type, "step-start")) {
            put_results(r, step, n);
            if (!first) id = none; /* the id is that of the first step */
            first = true;
            step = it;
            n = 0;
        } else if (part_of(r, role, it.value, &m)) {
            put_piece(r, &m, id, &first);
        } else {
            trace_unknown(r->t, trace_text(r->t, type), it.value);
        }
    }
    put_results(r, step, n);
    if (!any) trace_incomplete(r->t, MS_STR("empty message"));
}

static void ui_read(reading *r, ms_str list)
{
    session_of_path(r);
    trace_fact(r->t, "agent", MS_STR("vercel-ai"));
    ms_json_iter it = ms_json_iterate(list);
    while (ms_json_next(&it)) take_message(r, it.value);
}

const fileformat ui_format = {
    "ui-message", "Vercel AI SDK", "6.0 (UIMessage)", "", FILE_WHOLE, TREE_NONE, ui_shows,
    ui_read, NULL,
};
