/* OpenTelemetry traces as OTLP JSON, a document or a line each, with spans of the GenAI
 * conventions: chat spans have messages, execute_tool spans a call and its result.
 * Arguments and results are JSON text or text. A chat span repeats earlier messages of
 * its conversation: only the new part of its input counts. */

#define _GNU_SOURCE
#include "read.h"

#include <string.h>

static bool otel_shows(ms_str entry)
{
    return is_kind(member(entry, "resourceSpans"), MS_JSON_ARRAY);
}

enum { A_OPERATION, A_CONVERSATION, A_AGENT, A_MODEL, A_ANSWERED, A_TOOL, A_CALL, A_ARGS,
       A_RESULT, A_IN, A_OUT, A_SYSTEM, A_INPUT, A_OUTPUT, A_READ, A_WRITE, A_ANSWER,
       A_KEYS };
static const json_key attributes[] = {
    KEY("gen_ai.operation.name"), KEY("gen_ai.conversation.id"), KEY("gen_ai.agent.name"),
    KEY("gen_ai.request.model"), KEY("gen_ai.response.model"), KEY("gen_ai.tool.name"),
    KEY("gen_ai.tool.call.id"), KEY("gen_ai.tool.call.arguments"),
    KEY("gen_ai.tool.call.result"), KEY("gen_ai.input.messages"),
    KEY("gen_ai.output.messages"), KEY("gen_ai.system_instructions"),
    KEY("gen_ai.usage.input_tokens"), KEY("gen_ai.usage.output_tokens"),
    KEY("gen_ai.usage.cache_read.input_tokens"),
    KEY("gen_ai.usage.cache_creation.input_tokens"), KEY("gen_ai.response.id"),
};

/* Sets v to the values of {key, value: {stringValue | intValue | ...}}. */
static void pick_attributes(ms_str list, ms_str *v)
{
    memset(v, 0, A_KEYS * sizeof *v);
    ms_json_iter it = ms_json_iterate(list), in;
    while (is_kind(list, MS_JSON_ARRAY) && ms_json_next(&it)) {
        ms_str name = member(it.value, "key"), value = member(it.value, "value");
        in = ms_json_iterate(value);
        if (!is_object(value) || !ms_json_next(&in)) continue;
        for (size_t i = 0; i < A_KEYS; i++) {
            if (name.ptr != NULL && text_is(name, attributes[i].name)) v[i] = in.value;
        }
    }
}

/* Returns an int64, which is a string in OTLP JSON. */
static uint64_t number_text(reading *r, ms_str value)
{
    uint64_t number = 0;
    if (!is_kind(value, MS_JSON_STRING)) return count_of(value);
    return ms_json_u64(trace_text(r->t, value), &number) == MS_OK ? number : 0;
}

static void span_time(reading *r, ms_envelope *m, ms_str span, const char *name)
{
    uint64_t nanos = number_text(r, member(span, name));
    if (nanos == 0 || nanos > INT64_MAX) return;
    m->has_time = true;
    m->time_ns = (int64_t)nanos;
}

static void put(reading *r, ms_envelope *m, ms_str span, const char *when, ms_str agent)
{
    span_time(r, m, span, when);
    m->agent_key = agent;
    r->said++;
    trace_put(r->t, m);
}

static void take_usage(reading *r, const ms_str *v)
{
    use u;
    memset(&u, 0, sizeof u);
    u.input = number_text(r, v[A_INPUT]);
    u.output = number_text(r, v[A_OUTPUT]);
    u.cached = number_text(r, v[A_READ]);
    u.written = number_text(r, v[A_WRITE]);
    u.model = trace_text(r->t, v[A_ANSWERED].ptr != NULL ? v[A_ANSWERED] : v[A_MODEL]);
    u.answer = trace_text(r->t, v[A_ANSWER]);
    trace_use(r->t, &u);
}

static void take_tool(reading *r, ms_str span, const ms_str *v, ms_str agent)
{
    ms_str tool = trace_text(r->t, v[A_TOOL]), result = v[A_RESULT];
    bool bad = text_is(member_at(span, "status.code"), "STATUS_CODE_ERROR") ||
               count_of(member_at(span, "status.code")) == 2;
    ms_envelope m = action_of(tool, args_of(r, v[A_ARGS]));
    m.call_id = trace_text(r->t, v[A_CALL]);
    ms_str id = m.call_id;
    put(r, &m, span, "startTimeUnixNano", agent);
    if (result.ptr == NULL) result = member_at(span, "status.message");
    if (result.ptr == NULL && !bad) return;
    ms_value said = value_of(r, result);
    m = result_message(said, bad);
    m.call_id = id;
    m.tool = tool;
    put(r, &m, span, "endTimeUnixNano", agent);
}

/* Adds a part of a message: {type: "text", content}, {type: "tool_call", id, name,
 * arguments}, {type: "tool_call_response", id, response}, {type: "reasoning",
 * content}. */
static void put_part(reading *r, ms_str role, ms_str part, ms_str span, const char *when)
{
    ms_str none = {NULL, 0}, type = member(part, "type");
    ms_str content = member(part, "content"), id = trace_text(r->t, member(part, "id"));
    ms_envelope m;
    if (text_is(type, "text")) {
        ms_value said = value_of(r, content);
        m = text_is(role, "assistant") ? ms_assistant_message(said)
            : text_is(role, "user")    ? ms_user_message(said)
                                       : ms_message(MS_T_TEXT, said);
        if (text_is(role, "user") && !r->prompted) note_prompt_text(r, said.text);
    } else if (text_is(type, "tool_call")) {
        ms_str tool = trace_text(r->t, member(part, "name"));
        m = action_of(tool, args_of(r, member(part, "arguments")));
        m.call_id = id;
    } else if (text_is(type, "tool_call_response")) {
        ms_str said = member(part, "response");
        if (said.ptr == NULL) said = member(part, "result");
        m = result_message(value_of(r, said), false);
        m.call_id = id;
    } else if (text_is(type, "reasoning")) {
        m = ms_message(MS_T_REASONING, value_of(r, content));
    } else {
        memset(&m, 0, sizeof m);
        span_time(r, &m, span, when);
        trace_unknown_at(r->t, &m, trace_text(r->t, type), part);
        return;
    }
    put(r, &m, span, when, none);
}

/* Adds messages from number `from` on. Returns the number of all. */
static uint64_t put_messages(reading *r, ms_str value, uint64_t from, ms_str span,
                             const char *when)
{
    ms_str list = value, text = trace_text(r->t, value);
    uint64_t n = 0;
    if (text.ptr != NULL && ms_json_check(text, NULL, &list, NULL) != MS_OK) {
        list = ms_str_n(NULL, 0);
    }
    if (value.ptr != NULL && !is_kind(list, MS_JSON_ARRAY)) {
        trace_incomplete(r->t, MS_STR("messages that are no list"));
    }
    ms_json_iter it = ms_json_iterate(list), in;
    while (is_kind(list, MS_JSON_ARRAY) && ms_json_next(&it)) {
        ms_str parts = member(it.value, "parts");
        if (n++ < from) continue;
        if (!is_kind(parts, MS_JSON_ARRAY)) {
            trace_incomplete(r->t, MS_STR("message without parts"));
        }
        in = ms_json_iterate(parts);
        while (is_kind(parts, MS_JSON_ARRAY) && ms_json_next(&in)) {
            put_part(r, member(it.value, "role"), in.value, span, when);
        }
    }
    return n;
}

static void take_chat(reading *r, ms_str span, const ms_str *v, tally_row *talk)
{
    uint64_t had = talk->count, said = r->said;
    uint64_t n = put_messages(r, v[A_IN], had, span, "startTimeUnixNano");
    uint64_t out = put_messages(r, v[A_OUT], 0, span, "endTimeUnixNano");
    talk->count = (n > had ? n : had) + out;
    if (trace_has_prompt(r->t)) talk->bytes = 1;
    if (r->said == said) trace_left_out(r->t, MS_STR("chat without a new message"));
    take_usage(r, v);
}

/* Begins the session of a span, unless it goes on: spans of several conversations may
 * alternate. Returns its row: count is of messages, bytes is 1 after its first prompt. */
static tally_row *take_session(reading *r, ms_str session)
{
    tally_row *talk = tally_row_of(&r->talks, trace_text(r->t, session));
    if (talk == NULL) exit(no_memory());
    if (!ms_str_equal(session, r->talk)) trace_new_session(r->t, talk->text);
    r->talk = session;
    r->prompted = talk->bytes > 0;
    return talk;
}

static void take_span(reading *r, ms_str span)
{
    ms_str v[A_KEYS], none = {NULL, 0};
    pick_attributes(member(span, "attributes"), v);
    ms_str session = v[A_CONVERSATION];
    if (session.ptr == NULL) session = member(span, "traceId");
    tally_row *talk = take_session(r, session);
    trace_entry(r->t, member(span, "spanId"), none, 0);
    ms_str model = v[A_ANSWERED].ptr != NULL ? v[A_ANSWERED] : v[A_MODEL];
    if (model.ptr != NULL) trace_fact(r->t, "model", trace_text(r->t, model));
    if (v[A_AGENT].ptr != NULL) trace_fact(r->t, "agent", trace_text(r->t, v[A_AGENT]));
    if (v[A_SYSTEM].ptr != NULL) trace_left_out(r->t, MS_STR("system instructions"));
    if (text_is(v[A_OPERATION], "execute_tool")) {
        take_tool(r, span, v, none);
    } else if (v[A_IN].ptr != NULL || v[A_OUT].ptr != NULL) {
        take_chat(r, span, v, talk);
    } else {
        if (text_is(v[A_OPERATION], "chat")) take_usage(r, v);
        ms_str name = trace_text(r->t, v[A_OPERATION]);
        trace_left_out(r->t, name.len > 0 ? name : MS_STR("span"));
    }
}

static void otel_read(reading *r, ms_str entry)
{
    ms_str resources = member(entry, "resourceSpans");
    ms_json_iter a = ms_json_iterate(resources), b, c;
    bool any = false;
    while (is_kind(resources, MS_JSON_ARRAY) && ms_json_next(&a)) {
        ms_str scopes = member(a.value, "scopeSpans");
        b = ms_json_iterate(scopes);
        while (is_kind(scopes, MS_JSON_ARRAY) && ms_json_next(&b)) {
            ms_str list = member(b.value, "spans");
            c = ms_json_iterate(list);
            while (is_kind(list, MS_JSON_ARRAY) && ms_json_next(&c)) {
                take_span(r, c.value);
                any = true;
            }
        }
    }
    if (!any) trace_left_out(r->t, MS_STR("entry without spans"));
}

const fileformat otel_format = {
    "otel", "OpenTelemetry GenAI spans (OTLP JSON)", "Visual Studio Copilot 18.6", "",
    FILE_LINES, TREE_NONE, otel_shows, otel_read, NULL,
};
const fileformat otel_whole_format = {
    "otel", "OpenTelemetry GenAI spans (OTLP JSON)", "(one document)", "", FILE_WHOLE,
    TREE_NONE, otel_shows, otel_read, NULL,
};
