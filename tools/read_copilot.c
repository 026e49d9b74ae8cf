/* GitHub Copilot CLI: ~/.copilot/session-state/ID/events.jsonl. A line is {type, data,
 * id, parentId}; events form a tree by parentId. Events of a subagent name the call
 * that began it. */

#define _GNU_SOURCE
#include "read.h"

#include <string.h>

enum { E_TYPE, E_DATA, E_ID, E_TIME, E_PARENT, E_KEYS };
static const json_key keys[] = {KEY("type"), KEY("data"), KEY("id"), KEY("timestamp"),
                           KEY("parentId")};

enum { D_CONTENT, D_REQUESTS, D_CALL, D_TOOL, D_SUCCESS, D_RESULT, D_ERROR, D_UPON,
       D_MODEL, D_OUTPUT, D_MESSAGE, D_TURN, D_REASONING, D_INPUT, D_READ, D_WRITE,
       D_KEYS };
static const json_key data_keys[] = {
    KEY("content"), KEY("toolRequests"), KEY("toolCallId"), KEY("toolName"),
    KEY("success"), KEY("result"), KEY("error"), KEY("parentToolCallId"), KEY("model"),
    KEY("outputTokens"), KEY("messageId"), KEY("turnId"), KEY("reasoningText"),
    KEY("inputTokens"), KEY("cacheReadTokens"), KEY("cacheWriteTokens"),
};

/* Events that are not messages, by the beginning of their types. */
static const char *const others[] = {
    "session.", "hook.", "tool.", "subagent.", "assistant.turn_", "assistant.usage",
    "assistant.intent", "assistant.streaming", "system.notification", "abort",
    "permission.", "user_input.", "elicitation.", "skill.", "command.", "external_tool.",
    "pending_messages.", "exit_plan_mode.", "mcp.", "commands.", "sampling.",
    "capabilities.",
};

static bool copilot_shows(ms_str line)
{
    ms_str v[E_KEYS];
    pick(line, keys, E_KEYS, v);
    return text_is(v[E_TYPE], "session.start") && is_object(v[E_DATA]);
}

static void take_start(reading *r, ms_str data)
{
    static const char *const facts[][2] = {
        {"context.cwd", "cwd"}, {"copilotVersion", "version"}, {"selectedModel", "model"},
        {"context.branch", "branch"}, {"context.repository", "repository"},
    };
    trace_session(r->t, trace_text(r->t, member(data, "sessionId")));
    trace_fact(r->t, "agent", MS_STR("copilot-cli"));
    for (size_t i = 0; i < COUNT_OF(facts); i++) {
        trace_fact(r->t, facts[i][1], trace_text(r->t, member_at(data, facts[i][0])));
    }
}

static void put(reading *r, ms_envelope *m, const ms_str *v, const ms_str *d, bool *first)
{
    trace_time_iso(r->t, m, v[E_TIME]);
    m->agent_key = trace_text(r->t, d[D_UPON]);
    m->turn_id = trace_text(r->t, d[D_TURN]);
    put_piece(r, m, v[E_ID], first);
}

/* Reads output tokens. An answer has only these; the end of the session has the input. */
static void take_output(reading *r, const ms_str *d)
{
    use u;
    memset(&u, 0, sizeof u);
    u.output = count_of(d[D_OUTPUT]);
    u.cached = count_of(d[D_READ]);
    u.written = count_of(d[D_WRITE]);
    u.input = count_of(d[D_INPUT]);
    u.model = trace_text(r->t, d[D_MODEL]);
    u.answer = trace_text(r->t, d[D_MESSAGE]);
    put_use(r, &u);
}

static void take_shutdown(reading *r, ms_str data)
{
    use u;
    memset(&u, 0, sizeof u);
    ms_str details = member(data, "tokenDetails");
    u.cached = count_of(member_at(details, "cacheRead.tokenCount"));
    if (u.cached == 0) u.cached = count_of(member_at(details, "cache_read.tokenCount"));
    u.written = count_of(member_at(details, "cacheWrite.tokenCount"));
    u.input = count_of(member_at(details, "input.tokenCount")) + u.cached + u.written;
    u.model = trace_text(r->t, member(data, "currentModel"));
    if (u.input > 0) trace_use(r->t, &u);
}

static void take_assistant(reading *r, const ms_str *v, const ms_str *d)
{
    bool first = true;
    ms_str thought = trace_text(r->t, d[D_REASONING]);
    ms_value said = said_by(r, d[D_CONTENT]);
    bool calls = is_kind(d[D_REQUESTS], MS_JSON_ARRAY) && d[D_REQUESTS].len > 2;
    ms_envelope m = ms_message(MS_T_REASONING, ms_text_n(thought));
    if (thought.len > 0) put(r, &m, v, d, &first);
    m = ms_assistant_message(said);
    if (said.text.len > 0 || (first && !calls)) put(r, &m, v, d, &first);
    ms_json_iter it = ms_json_iterate(d[D_REQUESTS]);
    while (calls && ms_json_next(&it)) {
        m = call_of(r, member(it.value, "name"), member(it.value, "arguments"),
                    member(it.value, "toolCallId"));
        put(r, &m, v, d, &first);
    }
    if (first) trace_incomplete(r->t, MS_STR("empty message"));
    take_output(r, d);
}

static void take_result(reading *r, const ms_str *v, const ms_str *d)
{
    bool first = true, bad = is_kind(d[D_SUCCESS], MS_JSON_FALSE);
    ms_str said = member(d[D_RESULT], "content");
    if (said.ptr == NULL) said = member(d[D_ERROR], "message");
    if (said.ptr == NULL) said = d[D_RESULT].ptr != NULL ? d[D_RESULT] : d[D_ERROR];
    ms_value value = said_by(r, said);
    ms_envelope m = result_message(value, bad);
    m.call_id = trace_text(r->t, d[D_CALL]);
    m.tool = trace_text(r->t, d[D_TOOL]);
    put(r, &m, v, d, &first);
}

static void take_said(reading *r, const ms_str *v, const ms_str *d)
{
    bool first = true;
    ms_value said = said_by(r, d[D_CONTENT]);
    ms_envelope m = ms_user_message(said);
    bool thought = text_is(v[E_TYPE], "assistant.reasoning");
    if (text_is(v[E_TYPE], "system.message")) m = ms_message(MS_T_TEXT, said);
    else if (thought) m = ms_message(MS_T_REASONING, said);
    else note_prompt_text(r, said.text);
    put(r, &m, v, d, &first);
}

static bool is_other(reading *r, ms_str type)
{
    ms_str word = trace_text(r->t, type);
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        if (text_begins(word, ms_str_of(others[i]))) return true;
    }
    return false;
}

static void copilot_read(reading *r, ms_str line)
{
    ms_str v[E_KEYS], d[D_KEYS];
    pick(line, keys, E_KEYS, v);
    pick(v[E_DATA], data_keys, D_KEYS, d);
    bool user = text_is(v[E_TYPE], "user.message");
    unsigned marks = user ? ENTRY_PROMPT : 0;
    if (d[D_UPON].ptr != NULL) marks = ENTRY_SIDE;
    trace_entry(r->t, v[E_ID], v[E_PARENT], marks);
    if (user || text_is(v[E_TYPE], "system.message") ||
        text_is(v[E_TYPE], "assistant.reasoning")) {
        take_said(r, v, d);
    } else if (text_is(v[E_TYPE], "assistant.message")) {
        take_assistant(r, v, d);
    } else if (text_is(v[E_TYPE], "tool.execution_complete")) {
        take_result(r, v, d);
    } else {
        if (text_is(v[E_TYPE], "session.start")) take_start(r, v[E_DATA]);
        if (text_is(v[E_TYPE], "session.shutdown")) take_shutdown(r, v[E_DATA]);
        if (text_is(v[E_TYPE], "session.title_changed")) {
            trace_fact(r->t, "title", trace_text(r->t, member(v[E_DATA], "title")));
        }
        if (text_is(v[E_TYPE], "session.snapshot_rewind")) {
            ms_str id = member(v[E_DATA], "upToEventId");
            if (id.ptr != NULL) trace_take_back(r->t, id);
        }
        if (is_other(r, v[E_TYPE])) trace_left_out(r->t, trace_text(r->t, v[E_TYPE]));
        else trace_unknown(r->t, trace_text(r->t, v[E_TYPE]), line);
    }
}

const fileformat copilot_format = {
    "copilot-cli", "GitHub Copilot CLI", "1.0.77", ".copilot/session-state", FILE_LINES,
    TREE_PROMPTS, copilot_shows, copilot_read, NULL,
};
