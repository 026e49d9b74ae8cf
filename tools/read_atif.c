/* ATIF, the trajectory.json of harbor: {schema_version: "ATIF-...", session_id, agent,
 * steps}. A step of the agent has a message, calls and what was observed. Embedded
 * subagents are other agents; references to continuations become facts. */

#define _GNU_SOURCE
#include "read.h"

#include <string.h>

enum { S_SOURCE, S_MESSAGE, S_REASONING, S_CALLS, S_OBSERVED, S_METRICS, S_TIME, S_MODEL,
       S_ID, S_KEYS };
static const json_key keys[] = {
    KEY("source"), KEY("message"), KEY("reasoning_content"), KEY("tool_calls"),
    KEY("observation"), KEY("metrics"), KEY("timestamp"), KEY("model_name"),
    KEY("step_id"),
};

static bool atif_shows(ms_str doc)
{
    ms_str version = member(doc, "schema_version");
    return is_kind(version, MS_JSON_STRING) && version.len > 6 &&
           memcmp(version.ptr, "\"ATIF-", 6) == 0;
}

/* Reads the header. An id without a digit is a placeholder, and the session is named
 * after its file. */
static void take_header(reading *r, ms_str doc)
{
    static const char *const facts[][2] = {
        {"agent.name", "agent"}, {"agent.version", "version"},
        {"agent.model_name", "model"}, {"continued_trajectory_ref", "continued"},
        {"schema_version", "format"}, {"extra.cwd", "cwd"}, {"extra.title", "title"},
    };
    char name[512];
    ms_str id = trace_text(r->t, member(doc, "session_id")), stem = stem_text(r->path);
    bool digit = false;
    for (size_t i = 0; i < id.len; i++) {
        digit = digit || (id.ptr[i] >= '0' && id.ptr[i] <= '9');
    }
    ms_str word = clip(id, 200), file = clip(stem, 200);
    int n = snprintf(name, sizeof name, "%.*s/%.*s", (int)word.len,
                     word.ptr != NULL ? word.ptr : "", (int)file.len, file.ptr);
    if (id.len == 0) session_of_path(r);
    else trace_session(r->t, digit ? id : ms_str_n(name, (size_t)n));
    for (size_t i = 0; i < COUNT_OF(facts); i++) {
        trace_fact(r->t, facts[i][1], trace_text(r->t, member_at(doc, facts[i][0])));
    }
    r->model = member_at(doc, "agent.model_name");
}

static void put(reading *r, ms_envelope *m, ms_str time, ms_str extra, bool *first)
{
    ms_str none = {NULL, 0};
    trace_time_iso(r->t, m, time);
    m->agent_key = trace_text(r->t, r->agent);
    m->extra = extra;
    put_piece(r, m, none, first);
}

static void put_calls(reading *r, const ms_str *v, bool *first)
{
    ms_str none = {NULL, 0};
    ms_json_iter it = ms_json_iterate(v[S_CALLS]);
    while (is_kind(v[S_CALLS], MS_JSON_ARRAY) && ms_json_next(&it)) {
        ms_envelope m = call_of(r, member(it.value, "function_name"),
                                member(it.value, "arguments"),
                                member(it.value, "tool_call_id"));
        put(r, &m, v[S_TIME], none, first);
    }
}

/* Adds observations. Each answers a call; one without a call is the agent's next
 * input. */
static void put_results(reading *r, const ms_str *v, bool *first)
{
    static const json_key known[] = {KEY("source_call_id"), KEY("content")};
    ms_str call, other, results = member(v[S_OBSERVED], "results");
    bool any = is_kind(v[S_CALLS], MS_JSON_ARRAY) &&
               ms_json_element(v[S_CALLS], 0, &call);
    bool one = any && !ms_json_element(v[S_CALLS], 1, &other);
    ms_json_iter it = ms_json_iterate(results);
    while (is_kind(results, MS_JSON_ARRAY) && ms_json_next(&it)) {
        leftover all;
        ms_str inner = member(it.value, "extra");
        ms_str id = trace_text(r->t, member(it.value, "source_call_id"));
        if (id.len == 0) id = trace_text(r->t, member(inner, "source_call_id"));
        if (id.len == 0 && one) id = trace_text(r->t, member(call, "tool_call_id"));
        ms_value said = said_by(r, member(it.value, "content"));
        bool bad = is_kind(member(inner, "is_error"), MS_JSON_TRUE);
        ms_envelope m = id.len > 0 ? result_message(said, bad) : ms_user_message(said);
        m.call_id = id;
        rest_begin(&all, trace_arena(r->t));
        rest_nest(&all, "atif", it.value, known, 2);
        if (id.len == 0 && said.text.len == 0 && all.buf.len == 0) continue;
        *first = id.len == 0 ? true : *first;
        ms_str time = member(inner, "timestamp");
        if (!is_kind(time, MS_JSON_STRING)) time = v[S_TIME];
        put(r, &m, time, rest_end(&all), first);
    }
}

static void take_metrics(reading *r, const ms_str *v)
{
    static const char *const names[USE_COUNTS] = {"prompt_tokens", "completion_tokens",
                                                  "cached_tokens", NULL, NULL};
    if (!is_object(v[S_METRICS])) return;
    use u = tokens_in(r->t, v[S_METRICS], names);
    u.cost = number_of(member(v[S_METRICS], "cost_usd"));
    ms_str extra = member(v[S_METRICS], "extra");
    u.reasoning = count_of(member(extra, "reasoning_tokens"));
    u.written = count_of(member(extra, "cache_creation_input_tokens"));
    u.written_1h = count_of(member(extra, "ephemeral_1h_input_tokens"));
    u.model = trace_text(r->t, v[S_MODEL].ptr != NULL ? v[S_MODEL] : r->model);
    put_use(r, &u);
}

static void take_step(reading *r, ms_str step)
{
    ms_str v[S_KEYS], none = {NULL, 0}, extra;
    bool first = true;
    leftover all;
    pick(step, keys, S_KEYS, v);
    trace_entry(r->t, none, none, r->agent.len > 0 ? ENTRY_SIDE : 0);
    rest_begin(&all, trace_arena(r->t));
    rest_nest(&all, "atif", step, keys, S_ID);
    extra = rest_end(&all);
    ms_value said = said_by(r, v[S_MESSAGE]);
    ms_envelope m = ms_user_message(said);
    if (text_is(v[S_SOURCE], "user")) {
        if (r->agent.len == 0) note_prompt(r, v[S_MESSAGE]);
        put(r, &m, v[S_TIME], extra, &first);
    } else if (text_is(v[S_SOURCE], "system")) {
        m = ms_message(MS_T_TEXT, said);
        bool alone = said.text.len == 0 && is_object(v[S_OBSERVED]);
        if (!alone) put(r, &m, v[S_TIME], extra, &first);
    } else if (text_is(v[S_SOURCE], "agent")) {
        ms_str thought = plain_text(r, v[S_REASONING]);
        m = ms_message(MS_T_REASONING, ms_text_n(thought));
        if (thought.len > 0) put(r, &m, v[S_TIME], none, &first);
        m = ms_assistant_message(said);
        if (said.text.len > 0 || v[S_CALLS].len <= 2) {
            put(r, &m, v[S_TIME], extra, &first);
        }
        put_calls(r, v, &first);
        take_metrics(r, v);
    } else {
        trace_unknown(r->t, trace_text(r->t, v[S_SOURCE]), step);
        return;
    }
    put_results(r, v, &first);
    if (first) trace_incomplete(r->t, MS_STR("empty step"));
}

static void take_steps(reading *r, ms_str doc)
{
    ms_str steps = member(doc, "steps"), none = {NULL, 0};
    bool list = is_kind(steps, MS_JSON_ARRAY);
    ms_json_iter it = ms_json_iterate(steps);
    while (list && ms_json_next(&it)) take_step(r, it.value);
    if (list) return;
    trace_entry(r->t, none, none, r->agent.len > 0 ? ENTRY_SIDE : 0);
    trace_unknown(r->t, MS_STR("trajectory without steps"), doc);
}

/* Reads an embedded subagent; its own subagents are kept as JSON. */
static void take_subagent(reading *r, ms_str doc)
{
    ms_str inner = member(doc, "subagent_trajectories"), none = {NULL, 0};
    ms_str model = member_at(doc, "agent.model_name");
    r->agent = member(doc, "trajectory_id");
    if (!is_kind(r->agent, MS_JSON_STRING)) r->agent = MS_STR("\"subagent\"");
    if (model.ptr != NULL) r->model = model;
    take_steps(r, doc);
    if (inner.len <= 2) return;
    trace_entry(r->t, none, none, ENTRY_SIDE);
    trace_unknown(r->t, MS_STR("subagents of a subagent"), inner);
}

static void atif_read(reading *r, ms_str doc)
{
    ms_str subagents = member(doc, "subagent_trajectories");
    take_header(r, doc);
    take_steps(r, doc);
    ms_json_iter it = ms_json_iterate(subagents);
    while (is_kind(subagents, MS_JSON_ARRAY) && ms_json_next(&it)) {
        take_subagent(r, it.value);
    }
}

const fileformat atif_format = {
    "atif", "ATIF trajectories (harbor)", "1.5, 1.7", "", FILE_WHOLE, TREE_NONE,
    atif_shows, atif_read, NULL,
};
