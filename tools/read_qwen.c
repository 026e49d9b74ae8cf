/* Qwen Code: ~/.qwen/projects/FOLDER/chats/SESSION.jsonl. A line is an entry of a tree by
 * uuid and parentUuid, in which entries of type system stand, too; the newest entry ends
 * the branch that goes on. A message has the parts of Gemini's API. Entries of subtype
 * ui_telemetry come before the message of their answer, and stand alone for answers that
 * the program asked for itself. */

#define _GNU_SOURCE
#include "read.h"

#include <string.h>

enum { Q_UUID, Q_PARENT, Q_SESSION, Q_TIME, Q_TYPE, Q_SUBTYPE, Q_MESSAGE, Q_PAYLOAD,
       Q_USAGE, Q_MODEL, Q_CWD, Q_VERSION, Q_BRANCH, Q_AGENT, Q_SIDE, Q_RESULT, Q_KEYS };
static const json_key keys[] = {
    KEY("uuid"), KEY("parentUuid"), KEY("sessionId"), KEY("timestamp"), KEY("type"),
    KEY("subtype"), KEY("message"), KEY("systemPayload"), KEY("usageMetadata"),
    KEY("model"), KEY("cwd"), KEY("version"), KEY("gitBranch"), KEY("agentId"),
    KEY("isSidechain"), KEY("toolCallResult"),
};

/* Subtypes of entries without a message, as the program lists them. */
static const char *const others[] = {
    "ui_telemetry", "attribution_snapshot", "custom_title", "rewind", "slash_command",
    "at_command", "parent_session", "session_source", "session_model",
    "session_execution_engine", "session_approval_mode", "session_notes",
    "agent_bootstrap", "agent_retry", "agent_session_ready", "file_history_snapshot",
    "user_text_elements", "session_artifact_event", "session_artifact_snapshot",
    "session_sources_snapshot", "branch_checkpoint", "goal_state", "goal_turn_end",
    "turn_result", "background_task_completed",
};

static bool qwen_shows(ms_str line)
{
    ms_str v[Q_KEYS];
    pick(line, keys, Q_KEYS, v);
    return v[Q_UUID].ptr != NULL && v[Q_SESSION].ptr != NULL &&
           (is_kind(member(v[Q_MESSAGE], "parts"), MS_JSON_ARRAY) ||
            (text_is(v[Q_TYPE], "system") && v[Q_PAYLOAD].ptr != NULL));
}

static bool is_side(const ms_str *v)
{
    return is_kind(v[Q_SIDE], MS_JSON_TRUE) || is_kind(v[Q_AGENT], MS_JSON_STRING);
}

static void put(reading *r, ms_envelope *m, const ms_str *v, bool *first)
{
    trace_time_iso(r->t, m, v[Q_TIME]);
    if (is_side(v)) m->agent_key = trace_text(r->t, v[Q_AGENT]);
    put_piece(r, m, v[Q_UUID], first);
}

/* Returns the tokens that an object counts. The output of a provider can be without its
 * thoughts: then the total has them. */
static use tokens_of(reading *r, ms_str object, const char *const names[USE_COUNTS],
                     const char *all)
{
    use u = tokens_in(r->t, object, names);
    if (count_of(member(object, all)) >= u.input + u.output + u.reasoning) {
        u.output += u.reasoning;
    }
    return u;
}

/* Adds the usage of an answer of which only its telemetry was read. */
static void put_waiting(reading *r)
{
    if (r->turn.ptr == NULL) return;
    r->total.answer = trace_text(r->t, r->turn);
    r->total.model = trace_text(r->t, r->model);
    trace_use(r->t, &r->total);
    r->turn = ms_str_n(NULL, 0);
}

/* id: of the entry, for an answer without one. */
static void take_telemetry(reading *r, ms_str event, ms_str id)
{
    static const char *const names[USE_COUNTS] = {
        "input_token_count", "output_token_count", "cached_content_token_count", NULL,
        "thoughts_token_count"};
    if (!text_is(member(event, "event.name"), "qwen-code.api_response")) return;
    put_waiting(r);
    r->total = tokens_of(r, event, names, "total_token_count");
    r->turn = member(event, "response_id");
    if (!is_kind(r->turn, MS_JSON_STRING) || r->turn.len <= 2) r->turn = id;
    r->model = member(event, "model");
}

static void take_usage(reading *r, const ms_str *v)
{
    static const char *const names[USE_COUNTS] = {
        "promptTokenCount", "candidatesTokenCount", "cachedContentTokenCount", NULL,
        "thoughtsTokenCount"};
    use u = tokens_of(r, v[Q_USAGE], names, "totalTokenCount");
    u.input += count_of(member(v[Q_USAGE], "toolUsePromptTokenCount"));
    bool told = r->turn.ptr != NULL && r->total.output == u.output;
    u.answer = trace_text(r->t, told ? r->turn : v[Q_UUID]);
    u.model = trace_text(r->t, v[Q_MODEL]);
    if (told) r->turn = ms_str_n(NULL, 0);
    if (!is_side(v)) put_use(r, &u);
    else if (!is_no_use(&u)) trace_incomplete(r->t, MS_STR("usage of a subagent"));
}

/* What the response has beside the text that the model gets stays in "extra". */
static void put_result(reading *r, ms_str result, const ms_str *v, bool *first)
{
    ms_str response = member(result, "response"), error = member(response, "error");
    bool failed = error.ptr != NULL && !is_kind(error, MS_JSON_NULL);
    ms_str said = failed ? error : member(response, "output");
    bool text = is_kind(said, MS_JSON_STRING);
    bool bad = failed || text_is(member(v[Q_RESULT], "status"), "error");
    ms_envelope m = result_message(value_of(r, text ? said : response), bad);
    m.call_id = trace_text(r->t, member(result, "id"));
    m.tool = trace_text(r->t, member(result, "name"));
    const char *word = failed ? "error" : "output";
    if (text && has_more(response, word, word, word)) {
        m.extra = object_text(r, "{\"response\":", response, "}");
    }
    put(r, &m, v, first);
}

/* Adds the text of a part. */
static void put_text(reading *r, ms_str part, bool user, const ms_str *v, bool *first)
{
    ms_value said = ms_text_n(trace_text(r->t, member(part, "text")));
    bool thought = is_kind(member(part, "thought"), MS_JSON_TRUE);
    ms_envelope m = thought ? ms_message(MS_T_REASONING, said)
                    : user  ? ms_user_message(said)
                            : ms_assistant_message(said);
    if (user && !is_side(v)) note_prompt_text(r, said.text);
    put(r, &m, v, first);
}

/* Returns whether a part has data beside a call or a result of which a message has the
 * text. */
static bool acts_more(ms_str part)
{
    static const char *const data[] = {"inlineData", "fileData", "executableCode",
                                       "codeExecutionResult"};
    bool more = has_more(member(part, "functionResponse"), "id", "name", "response") ||
                has_more(member(part, "functionCall"), "id", "name", "args");
    for (size_t i = 0; i < COUNT_OF(data); i++) {
        more = more || member(part, data[i]).ptr != NULL;
    }
    return more;
}

static void put_part(reading *r, ms_str part, bool user, const ms_str *v, bool *first)
{
    ms_str call = member(part, "functionCall"), result = member(part, "functionResponse");
    bool text = is_kind(member(part, "text"), MS_JSON_STRING);
    bool acts = is_object(call) || is_object(result);
    bool more = !acts && has_more(part, "text", "thought", "thoughtSignature");
    if (text && !more) put_text(r, part, user, v, first);
    if (is_object(result)) put_result(r, result, v, first);
    if (is_object(call)) {
        ms_envelope m = call_of(r, member(call, "name"), member(call, "args"),
                                member(call, "id"));
        put(r, &m, v, first);
    }
    if (!is_object(part) || (acts && acts_more(part))) {
        ms_envelope when;
        memset(&when, 0, sizeof when);
        trace_time_iso(r->t, &when, v[Q_TIME]);
        trace_unknown_at(r->t, &when, MS_STR("part"), part);
        return;
    }
    if (acts || (text && !more)) return;
    ms_value list = ms_json(object_text(r, "[", part, "]"));
    ms_envelope m = user ? ms_user_message(list) : ms_assistant_message(list);
    if (text && user && !is_side(v)) {
        note_prompt_text(r, trace_text(r->t, member(part, "text")));
    }
    put(r, &m, v, first);
}

static void take_facts(reading *r, const ms_str *v)
{
    trace_session(r->t, trace_text(r->t, v[Q_SESSION]));
    trace_fact(r->t, "agent", MS_STR("qwen-code"));
    if (v[Q_CWD].ptr != NULL) trace_fact(r->t, "cwd", trace_text(r->t, v[Q_CWD]));
    if (v[Q_VERSION].ptr != NULL) {
        trace_fact(r->t, "version", trace_text(r->t, v[Q_VERSION]));
    }
    if (v[Q_BRANCH].ptr != NULL) {
        trace_fact(r->t, "branch", trace_text(r->t, v[Q_BRANCH]));
    }
    ms_str title = member(v[Q_PAYLOAD], "customTitle");
    if (title.ptr != NULL) trace_fact(r->t, "title", trace_text(r->t, title));
}

/* Adds the summary that takes the place of all messages before it but those which follow
 * it in the list: the summary, what the model answered, and the last ones. False: there
 * is none. */
static bool put_summary(reading *r, const ms_str *v)
{
    compaction c;
    ms_envelope like;
    ms_str none = {NULL, 0}, part, list = member(v[Q_PAYLOAD], "compressedHistory");
    memset(&c, 0, sizeof c);
    memset(&like, 0, sizeof like);
    ms_json_iter it = ms_json_iterate(list);
    for (size_t n = 0; is_kind(list, MS_JSON_ARRAY) && ms_json_next(&it); n++) {
        ms_str parts = member(it.value, "parts");
        if (!is_kind(parts, MS_JSON_ARRAY)) continue;
        if (n == 0 && ms_json_element(parts, 0, &part)) {
            c.text = trace_text(r->t, member(part, "text"));
        }
        ms_json_iter kept = ms_json_iterate(parts);
        while (n > 1 && ms_json_next(&kept)) c.keep++;
    }
    if (c.text.len == 0) return false;
    c.before = count_of(member_at(v[Q_PAYLOAD], "info.originalTokenCount"));
    c.cause = trace_text(r->t, member_at(v[Q_PAYLOAD], "info.triggerReason"));
    trace_time_iso(r->t, &like, v[Q_TIME]);
    like.id = trace_text(r->t, v[Q_UUID]);
    put_compaction(r, &c, &like, none);
    return true;
}

static bool is_other(ms_str subtype)
{
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        if (text_is(subtype, others[i])) return true;
    }
    return false;
}

static void qwen_read(reading *r, ms_str line)
{
    ms_str v[Q_KEYS];
    pick(line, keys, Q_KEYS, v);
    ms_str parts = member(v[Q_MESSAGE], "parts");
    bool first = true, user = !text_is(member(v[Q_MESSAGE], "role"), "model");
    bool typed = text_is(v[Q_TYPE], "user") && !is_side(v);
    if (v[Q_UUID].ptr != NULL && trace_is_repeated(r->t, v[Q_UUID], line)) {
        trace_left_out(r->t, MS_STR("repeated entry"));
        return;
    }
    take_facts(r, v);
    trace_entry(r->t, v[Q_UUID], v[Q_PARENT],
                (typed ? ENTRY_PROMPT : 0) | (is_side(v) ? ENTRY_SIDE : 0));
    trace_entry_text(r->t, line);
    take_telemetry(r, member(v[Q_PAYLOAD], "uiEvent"), v[Q_UUID]);
    if (!is_kind(parts, MS_JSON_ARRAY)) {
        bool sums = text_is(v[Q_SUBTYPE], "chat_compression");
        if (sums && put_summary(r, v)) return;
        ms_str word = v[Q_SUBTYPE].ptr != NULL ? v[Q_SUBTYPE] : v[Q_TYPE];
        if (is_other(v[Q_SUBTYPE])) trace_left_out(r->t, trace_text(r->t, word));
        else trace_unknown(r->t, trace_text(r->t, word), line);
        return;
    }
    ms_json_iter it = ms_json_iterate(parts);
    size_t n = 0;
    for (; ms_json_next(&it); n++) put_part(r, it.value, user, v, &first);
    if (n == 0) trace_incomplete(r->t, MS_STR("empty message"));
    if (text_is(v[Q_TYPE], "assistant")) take_usage(r, v);
}

const fileformat qwen_format = {
    "qwen-code", "Qwen Code", "0.15, 0.24", ".qwen/projects", FILE_LINES, TREE_CHAIN,
    qwen_shows, qwen_read, put_waiting,
};
