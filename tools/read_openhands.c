/* OpenHands: events with kind and source: a line each, in a list, or a file each in a
 * folder events. Usage is written as running totals for each of the conversation's
 * models. */

#define _GNU_SOURCE
#include "read.h"

#include <string.h>

enum { O_KIND, O_SOURCE, O_ID, O_TIME, O_MESSAGE, O_THOUGHT, O_REASONING, O_ACTION,
       O_TOOL, O_CALL, O_TOOL_CALL, O_OBSERVATION, O_ERROR, O_KEY, O_VALUE, O_SYSTEM,
       O_REASON, O_SUMMARY, O_ANSWER, O_KEYS };
static const json_key keys[] = {
    KEY("kind"), KEY("source"), KEY("id"), KEY("timestamp"), KEY("llm_message"),
    KEY("thought"), KEY("reasoning_content"), KEY("action"), KEY("tool_name"),
    KEY("tool_call_id"), KEY("tool_call"), KEY("observation"), KEY("error"), KEY("key"),
    KEY("value"), KEY("system_prompt"), KEY("rejection_reason"), KEY("summary"),
    KEY("llm_response_id"),
};

static const char *const others[] = {
    "ConversationStateUpdateEvent", "PauseEvent", "CondensationRequest", "TokenEvent",
    "ConversationErrorEvent", "LLMCompletionLogEvent", "HookExecutionEvent",
    "StreamingDeltaEvent", "InterruptEvent", "ServerErrorEvent",
};

static bool openhands_shows(ms_str line)
{
    ms_str v[O_KEYS];
    pick(line, keys, O_KEYS, v);
    ms_str kind = v[O_KIND];
    bool event = is_kind(kind, MS_JSON_STRING) && kind.len > 7 &&
                 (memcmp(kind.ptr + kind.len - 6, "Event\"", 6) == 0 ||
                  text_is(kind, "Condensation") || text_is(kind, "CondensationRequest") ||
                  text_is(kind, "UserRejectObservation"));
    return event && is_kind(v[O_SOURCE], MS_JSON_STRING);
}

static bool list_shows(ms_str doc)
{
    ms_str first;
    return is_kind(doc, MS_JSON_ARRAY) && ms_json_element(doc, 0, &first) &&
           openhands_shows(first);
}

/* Adds usage since the last event, from totals over all models of the conversation. */
static void take_stats(reading *r, ms_str value)
{
    static const char *const names[USE_COUNTS] = {
        "prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens",
        "reasoning_tokens"};
    ms_str models = member(value, "usage_to_metrics");
    use now, added, *old = &r->total;
    memset(&now, 0, sizeof now);
    ms_json_iter it = ms_json_iterate(models);
    while (is_object(models) && ms_json_next(&it)) {
        use u = tokens_in(r->t, member(it.value, "accumulated_token_usage"), names);
        now.input += u.input;
        now.output += u.output;
        now.cached += u.cached;
        now.written += u.written;
        now.reasoning += u.reasoning;
        now.cost += number_of(member(it.value, "accumulated_cost"));
        ms_str model = trace_text(r->t, member(it.value, "model_name"));
        if (now.model.len == 0) now.model = model;
    }
    trace_fact(r->t, "model", now.model);
    if (now.input < old->input || now.output < old->output) memset(old, 0, sizeof *old);
    added = now;
    added.input -= old->input;
    added.output -= old->output;
    added.cached = now.cached > old->cached ? now.cached - old->cached : 0;
    added.written = now.written > old->written ? now.written - old->written : 0;
    added.reasoning = now.reasoning > old->reasoning ? now.reasoning - old->reasoning : 0;
    added.cost = now.cost > old->cost ? now.cost - old->cost : 0;
    /* Without a message there is nothing to note usage on yet. */
    if (r->said > 0) *old = now;
    if (r->said > 0) trace_use(r->t, &added);
}

static void put(reading *r, ms_envelope *m, const ms_str *v, bool *first)
{
    trace_time_iso(r->t, m, v[O_TIME]);
    r->said++;
    put_piece(r, m, v[O_ID], first);
}

static void take_message(reading *r, const ms_str *v)
{
    bool first = true;
    ms_str content = member(v[O_MESSAGE], "content"), role = member(v[O_MESSAGE], "role");
    ms_value said = said_by(r, content);
    ms_envelope m = ms_user_message(said);
    if (text_is(role, "assistant")) m = ms_assistant_message(said);
    else if (text_is(role, "system")) m = ms_message(MS_T_TEXT, said);
    else note_prompt(r, content);
    put(r, &m, v, &first);
}

/* Adds the call as the model made it: a chat call {function: {name, arguments}}, or an
 * item {name, arguments}; else the action without its kind. */
static void take_action(reading *r, const ms_str *v)
{
    bool first = true;
    ms_str thought = plain_text(r, v[O_REASONING]), said = plain_text(r, v[O_THOUGHT]);
    ms_str call = v[O_TOOL_CALL], inner = member(call, "function");
    if (is_object(inner)) call = inner;
    ms_envelope m = ms_message(MS_T_REASONING, ms_text_n(thought));
    if (thought.len > 0) put(r, &m, v, &first);
    m = ms_assistant_message(ms_text_n(said));
    if (said.len > 0) put(r, &m, v, &first);
    ms_str args = member(call, "arguments"), tool = trace_text(r->t, v[O_TOOL]);
    if (args.ptr == NULL) args = v[O_ACTION];
    m = action_of(tool, args_of(r, args));
    m.call_id = trace_text(r->t, v[O_CALL]);
    put(r, &m, v, &first);
}

static void take_result(reading *r, const ms_str *v, ms_str said, bool bad)
{
    bool first = true;
    ms_value value = said_by(r, said);
    ms_envelope m = result_message(value, bad);
    m.call_id = trace_text(r->t, v[O_CALL]);
    m.tool = trace_text(r->t, v[O_TOOL]);
    put(r, &m, v, &first);
}

static void take_observation(reading *r, const ms_str *v)
{
    ms_str o = v[O_OBSERVATION], said = member(o, "content");
    if (said.ptr == NULL) said = member(o, "output");
    bool bad = is_kind(member(o, "is_error"), MS_JSON_TRUE);
    take_result(r, v, said.ptr != NULL ? said : o, bad);
}

/* Reads a summary of forgotten events. What came after the last of them stays; so do the
 * first events, which a compaction has no form for. */
static void take_condensation(reading *r, ms_str line, const ms_str *v)
{
    compaction c;
    ms_envelope like;
    ms_str none = {NULL, 0}, last = {NULL, 0};
    ms_str forgotten = member(line, "forgotten_event_ids");
    memset(&c, 0, sizeof c);
    memset(&like, 0, sizeof like);
    ms_json_iter it = ms_json_iterate(forgotten);
    while (is_kind(forgotten, MS_JSON_ARRAY) && ms_json_next(&it)) last = it.value;
    c.text = trace_text(r->t, v[O_SUMMARY]);
    if (is_kind(last, MS_JSON_STRING)) c.keep = trace_since(r->t, last, false);
    trace_time_iso(r->t, &like, v[O_TIME]);
    like.id = trace_text(r->t, v[O_ID]);
    put_compaction(r, &c, &like, none);
}

static void openhands_read(reading *r, ms_str line)
{
    ms_str v[O_KEYS], none = {NULL, 0};
    bool first = true, known = false;
    pick(line, keys, O_KEYS, v);
    if (r->entries == 0) {
        session_of_path(r);
        trace_fact(r->t, "agent", MS_STR("openhands"));
    }
    bool summary = text_is(v[O_KIND], "Condensation") ||
                   text_is(v[O_KIND], "CondensationSummaryEvent");
    bool text = summary && is_kind(v[O_SUMMARY], MS_JSON_STRING);
    trace_entry(r->t, v[O_ID], none, 0);
    if (text_is(v[O_KIND], "MessageEvent")) take_message(r, v);
    else if (text_is(v[O_KIND], "ActionEvent")) take_action(r, v);
    else if (text_is(v[O_KIND], "ObservationEvent")) take_observation(r, v);
    else if (text_is(v[O_KIND], "AgentErrorEvent")) take_result(r, v, v[O_ERROR], true);
    else if (text_is(v[O_KIND], "UserRejectObservation")) {
        take_result(r, v, v[O_REASON], true);
    } else if (text_is(v[O_KIND], "SystemPromptEvent")) {
        ms_str prompt = member(v[O_SYSTEM], "text");
        ms_envelope m = ms_message(MS_T_TEXT, value_of(r, prompt));
        put(r, &m, v, &first);
    } else if (text) {
        take_condensation(r, line, v);
    } else {
        if (text_is(v[O_KEY], "stats")) take_stats(r, v[O_VALUE]);
        for (size_t i = 0; i < COUNT_OF(others); i++) {
            known = known || text_is(v[O_KIND], others[i]);
        }
        if (known || summary) trace_left_out(r->t, trace_text(r->t, v[O_KIND]));
        else trace_unknown(r->t, trace_text(r->t, v[O_KIND]), line);
    }
}

static void list_read(reading *r, ms_str doc)
{
    ms_json_iter it = ms_json_iterate(doc);
    while (ms_json_next(&it)) {
        openhands_read(r, it.value);
        r->entries++;
    }
}

const fileformat openhands_format = {
    "openhands", "OpenHands", "1.0 (events)", ".openhands/conversations", FILE_LINES,
    TREE_NONE, openhands_shows, openhands_read, NULL,
};
const fileformat openhands_list_format = {
    "openhands", "OpenHands", "1.0 (a list)", "", FILE_WHOLE, TREE_NONE, list_shows,
    list_read, NULL,
};
