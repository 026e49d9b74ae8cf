/* Kimi Code: ~/.kimi-code/sessions/FOLDER/SESSION/agents/AGENT/wire.jsonl. Lines of type
 * context.append_message have a message, those of context.append_loop_event a piece of an
 * answer: a part of its content, a call, a result, or the end of a step with its usage.
 * Other lines repeat these, or report what the program did; usage.record comes before
 * what was answered, and stands alone for answers that are no step. A line that the file
 * has twice, with its time, is read once. */

#define _GNU_SOURCE
#include "read.h"

#include <stdio.h>
#include <string.h>

static bool kimi_shows(ms_str line)
{
    ms_str type = member(line, "type");
    return (text_is(type, "context.append_message") &&
            is_object(member(line, "message"))) ||
           (text_is(type, "context.append_loop_event") &&
            is_object(member(line, "event")));
}

/* Names the session, and the agent if it is not the main one, by the path. */
static void take_place(reading *r)
{
    const char *at = strstr(r->path, "/agents/"), *begin = at;
    while (begin != NULL && begin > r->path && begin[-1] != '/') begin--;
    if (at == NULL || at == begin) session_of_path(r);
    else trace_session(r->t, ms_str_n(begin, (size_t)(at - begin)));
    trace_fact(r->t, "agent", MS_STR("kimi-code"));
}

static bool is_side(reading *r)
{
    return r->agent.ptr != NULL && !text_is(r->agent, "main");
}

static void put_unknown(reading *r, ms_str line, ms_str type, ms_str json)
{
    ms_envelope when;
    memset(&when, 0, sizeof when);
    trace_time_ms(r->t, &when, member(line, "time"));
    trace_unknown_at(r->t, &when, type, json);
}

static void put(reading *r, ms_envelope *m, ms_str line, ms_str id, bool *first)
{
    trace_time_ms(r->t, m, member(line, "time"));
    if (is_side(r)) m->agent_key = trace_text(r->t, r->agent);
    put_piece(r, m, id, first);
}

static use usage_of(reading *r, ms_str object)
{
    static const char *const names[USE_COUNTS] = {
        "inputOther", "output", "inputCacheRead", "inputCacheCreation", NULL};
    use u = tokens_in(r->t, object, names);
    u.input += u.cached + u.written;
    u.model = trace_text(r->t, r->model);
    return u;
}

/* Returns the name of the answer whose usage.record waits: a hash of its line. The same
 * answer has it whether the end of its step is read, too, or not yet. */
static ms_str waiting_name(reading *r)
{
    char name[32];
    ms_buf buf = {trace_arena(r->t), NULL, 0, 0};
    unsigned long long hash = hash_bytes(r->turn);
    snprintf(name, sizeof name, "record-%016llx", hash);
    json_piece(&buf, name);
    return ms_buf_text(&buf);
}

/* Adds the usage of an answer that was no step, or whose step has not ended. */
static void put_waiting(reading *r)
{
    if (r->turn.ptr == NULL) return;
    use u = usage_of(r, member(r->turn, "usage"));
    u.answer = waiting_name(r);
    trace_use(r->t, &u);
    r->turn = ms_str_n(NULL, 0);
}

static void put_call(reading *r, ms_str line, ms_str name, ms_str args, ms_str call,
                     ms_str id, bool *first)
{
    ms_envelope m = call_of(r, name, args, call);
    put(r, &m, line, id, first);
}

/* Adds the calls of a message: {id, name, arguments}, or those two in `function`. */
static void put_calls(reading *r, ms_str line, ms_str calls, bool *first)
{
    ms_str none = {NULL, 0};
    bool list = is_kind(calls, MS_JSON_ARRAY);
    ms_json_iter it = ms_json_iterate(calls);
    if (!list && calls.ptr != NULL && !is_kind(calls, MS_JSON_NULL)) {
        put_unknown(r, line, MS_STR("toolCalls"), calls);
    }
    while (list && ms_json_next(&it)) {
        ms_str inner = member(it.value, "function");
        ms_str of = member(it.value, "name").ptr == NULL && is_object(inner) ? inner
                                                                             : it.value;
        if (is_object(it.value)) {
            put_call(r, line, member(of, "name"), member(of, "arguments"),
                     member(it.value, "id"), none, first);
        } else {
            put_unknown(r, line, MS_STR("call"), it.value);
        }
    }
}

/* rest: further members; absent: none. */
static void put_result(reading *r, ms_str line, ms_str said, ms_str error, ms_str call,
                       ms_str rest)
{
    ms_str none = {NULL, 0};
    bool first = true;
    ms_envelope m = result_message(said_by(r, said), is_kind(error, MS_JSON_TRUE));
    m.call_id = trace_text(r->t, call);
    m.extra = rest;
    put(r, &m, line, none, &first);
}

/* Adds a message that is there as a whole. Only what has the origin "user" was typed. */
static void take_message(reading *r, ms_str line)
{
    ms_str message = member(line, "message"), content = member(message, "content");
    ms_str role = member(message, "role"), id = member(message, "id"), none = {NULL, 0};
    ms_str origin = member(message, "origin"), kind = member(origin, "kind");
    bool first = true, user = text_is(role, "user");
    bool typed = user && (kind.ptr == NULL || text_is(kind, "user")) && !is_side(r);
    trace_entry(r->t, id, none,
                (typed ? ENTRY_PROMPT : 0) | (is_side(r) ? ENTRY_SIDE : 0));
    if (text_is(role, "tool")) {
        put_result(r, line, content, member(message, "isError"),
                   member(message, "toolCallId"), none);
        return;
    }
    if (!user && !text_is(role, "assistant") && !text_is(role, "system")) {
        put_unknown(r, line, MS_STR("message"), line);
        return;
    }
    ms_value said = said_by(r, content);
    ms_envelope m = user ? ms_user_message(said) : ms_assistant_message(said);
    if (text_is(role, "system")) m = text_message(MS_STR("system"), said);
    if (typed) note_prompt(r, content);
    if (!typed && origin.ptr != NULL) {
        m.extra = object_text(r, "{\"origin\":", origin, "}");
    }
    put(r, &m, line, id, &first);
    put_calls(r, line, member(message, "toolCalls"), &first);
}

/* Returns what a result has beside what the model gets, as further members. */
static ms_str rest_of_result(reading *r, ms_str result)
{
    leftover rest;
    ms_str message = member(result, "message");
    rest_begin(&rest, trace_arena(r->t));
    if (message.ptr != NULL) rest_put(&rest, "message", message);
    if (has_more(result, "output", "isError", "message")) {
        rest_put(&rest, "result", result);
    }
    return rest_end(&rest);
}

static void take_event(reading *r, ms_str line)
{
    ms_str event = member(line, "event"), type = member(event, "type"), none = {NULL, 0};
    ms_str id = member(event, "uuid"), step = member(event, "stepUuid");
    ms_str part = member(event, "part"), result = member(event, "result");
    bool first = step.ptr == NULL || r->talk.ptr == NULL || !ms_str_equal(step, r->talk);
    trace_entry(r->t, id, none, is_side(r) ? ENTRY_SIDE : 0);
    if (text_is(type, "content.part")) {
        bool think = text_is(member(part, "type"), "think");
        bool text = text_is(member(part, "type"), "text");
        ms_value said = text ? value_of(r, member(part, "text"))
                             : ms_json(object_text(r, "[", part, "]"));
        ms_envelope m = ms_assistant_message(said);
        if (think) {
            ms_str sealed = member(part, "encrypted");
            m = ms_message(MS_T_REASONING, value_of(r, member(part, "think")));
            if (sealed.ptr != NULL) {
                m.extra = object_text(r, "{\"encrypted\":", sealed, "}");
            }
        } else if (!is_object(part)) {
            put_unknown(r, line, MS_STR("part"), line);
            return;
        }
        put(r, &m, line, id, &first);
    } else if (text_is(type, "tool.call")) {
        put_call(r, line, member(event, "name"), member(event, "args"),
                 member(event, "toolCallId"), id, &first);
    } else if (text_is(type, "tool.result")) {
        ms_str output_of = is_object(result) ? member(result, "output") : result;
        put_result(r, line, output_of, member(result, "isError"),
                   member(event, "toolCallId"), rest_of_result(r, result));
    } else if (text_is(type, "step.end") && is_object(member(event, "usage"))) {
        use u = usage_of(r, member(event, "usage"));
        u.answer = r->turn.ptr != NULL ? waiting_name(r) : trace_text(r->t, id);
        r->turn = none;
        put_use(r, &u);
    } else if (text_is(type, "step.begin") || text_is(type, "step.end")) {
        trace_left_out(r->t, trace_text(r->t, type));
    } else {
        put_unknown(r, line, trace_text(r->t, type), line);
    }
    r->talk = step;
}

static void kimi_read(reading *r, ms_str line)
{
    ms_str type = member(line, "type"), none = {NULL, 0};
    if (r->entries == 0) take_place(r);
    if (member(line, "agentId").ptr != NULL) r->agent = member(line, "agentId");
    ms_str word = trace_text(r->t, type);
    bool taken = text_begins(word, MS_STR("context.")) || text_is(type, "usage.record");
    if (taken && member(line, "time").ptr != NULL && trace_had_line(r->t, line)) {
        trace_left_out(r->t, MS_STR("repeated entry"));
        return;
    }
    if (text_is(type, "context.append_message")) {
        take_message(r, line);
    } else if (text_is(type, "context.append_loop_event")) {
        take_event(r, line);
    } else if (text_is(type, "context.undo") && count_of(member(line, "count")) > 0) {
        trace_take_back_prompts(r->t, count_of(member(line, "count")));
        trace_left_out(r->t, word);
    } else if (word.len == 0 || text_begins(word, MS_STR("context."))) {
        trace_entry(r->t, none, none, 0);
        put_unknown(r, line, word.len > 0 ? word : MS_STR("line"), line);
    } else {
        if (text_is(type, "usage.record")) put_waiting(r);
        if (text_is(type, "usage.record")) r->turn = line;
        if (text_is(type, "llm.request")) r->model = member(line, "model");
        trace_left_out(r->t, word);
    }
}

const fileformat kimi_format = {
    "kimi-code", "Kimi Code", "2.1", ".kimi-code/sessions", FILE_LINES, TREE_NONE,
    kimi_shows, kimi_read, put_waiting,
};
