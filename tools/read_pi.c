/* pi (~/.pi/agent/sessions) and the session traces of the Hugging Face hub (STS). They
 * differ in the header: pi's has cwd, that of STS a harness. Lines are {"type":
 * "message", "message": {"role", ...}}. pi's entries are a tree by id and parentId;
 * only the path to the newest entry is alive. */

#define _GNU_SOURCE
#include "read.h"

#include <string.h>

enum { L_TYPE, L_ID, L_PARENT, L_TIME, L_MESSAGE, L_CWD, L_HARNESS, L_SUMMARY, L_NAME,
       L_CONTENT, L_CUSTOM, L_KEPT, L_TOKENS, L_KEYS };
static const json_key keys[] = {
    KEY("type"), KEY("id"), KEY("parentId"), KEY("timestamp"), KEY("message"), KEY("cwd"),
    KEY("harness"), KEY("summary"), KEY("name"), KEY("content"), KEY("customType"),
    KEY("firstKeptEntryId"), KEY("tokensBefore"),
};

enum { M_ROLE, M_CONTENT, M_TIME, M_CALL, M_TOOL, M_ERROR, M_USAGE, M_MODEL, M_REASONING,
       M_CALLS, M_OUTPUT, M_COMMAND, M_EXIT, M_SUMMARY, M_KEYS };
static const json_key message_keys[] = {
    KEY("role"), KEY("content"), KEY("timestamp"), KEY("toolCallId"), KEY("toolName"),
    KEY("isError"), KEY("usage"), KEY("model"), KEY("reasoningContent"), KEY("toolCalls"),
    KEY("output"), KEY("command"), KEY("exitCode"), KEY("summary"),
};

static bool pi_shows(ms_str line)
{
    ms_str v[L_KEYS];
    pick(line, keys, L_KEYS, v);
    if (text_is(v[L_TYPE], "session")) return v[L_HARNESS].ptr == NULL &&
                                              v[L_CWD].ptr != NULL;
    return text_is(v[L_TYPE], "message") && is_object(v[L_MESSAGE]);
}

static bool sts_shows(ms_str line)
{
    ms_str v[L_KEYS];
    pick(line, keys, L_KEYS, v);
    return text_is(v[L_TYPE], "session") && v[L_HARNESS].ptr != NULL;
}

static void set_time(reading *r, ms_envelope *m, const ms_str *line, const ms_str *v)
{
    if (is_kind(v[M_TIME], MS_JSON_NUMBER)) trace_time_ms(r->t, m, v[M_TIME]);
    else trace_time_iso(r->t, m, v[M_TIME].ptr != NULL ? v[M_TIME] : line[L_TIME]);
}

static void put(reading *r, ms_envelope *m, const ms_str *line, const ms_str *v,
                ms_str extra, bool *first)
{
    set_time(r, m, line, v);
    m->extra = extra;
    put_piece(r, m, line[L_ID], first);
}

/* The members of a line and of the message in it. */
typedef struct pi_line {
    ms_str line, v[L_KEYS], of[M_KEYS];
    spans rest, message_rest;
} pi_line;

/* Returns the members without a field: of the message, of the line, of the part. */
static ms_str extra_of(reading *r, const pi_line *p, const spans *part, bool first)
{
    static const int of_line[] = {L_TIME, L_CWD, L_HARNESS, L_SUMMARY, L_NAME, L_CONTENT,
                                  L_CUSTOM};
    static const int of_message[] = {M_USAGE, M_MODEL, M_REASONING, M_CALLS, M_OUTPUT,
                                     M_COMMAND, M_EXIT, M_SUMMARY};
    ms_str none = {NULL, 0};
    leftover all, own;
    rest_begin(&all, trace_arena(r->t));
    for (size_t i = 0; first && i < COUNT_OF(of_message); i++) {
        rest_put(&all, message_keys[of_message[i]].name, p->of[of_message[i]]);
    }
    if (first) {
        rest_spans(&all, &p->message_rest, p->v[L_MESSAGE], message_keys, M_KEYS);
        rest_begin(&own, trace_arena(r->t));
        for (size_t i = 0; i < COUNT_OF(of_line); i++) {
            rest_put(&own, keys[of_line[i]].name, p->v[of_line[i]]);
        }
        rest_spans(&own, &p->rest, p->line, keys, L_KEYS);
        rest_put(&all, "pi", rest_end(&own));
    }
    if (part != NULL && part->count > 0) {
        rest_begin(&own, trace_arena(r->t));
        rest_spans(&own, part, none, NULL, 0);
        rest_put(&all, "part", rest_end(&own));
    }
    return rest_end(&all);
}

/* Adds the tokens of an answer, which is known by its entry's id. */
static void take_usage(reading *r, ms_str id, const ms_str *v)
{
    static const char *const names[USE_COUNTS] = {"input", "output", "cacheRead",
                                                  "cacheWrite", NULL};
    if (!is_object(v[M_USAGE])) return;
    use u = tokens_in(r->t, v[M_USAGE], names);
    u.input += u.cached + u.written;
    u.cost_text = member_at(v[M_USAGE], "cost.total");
    u.model = trace_text(r->t, v[M_MODEL]);
    u.answer = trace_text(r->t, id);
    put_use(r, &u);
}

enum { PART_TYPE, PART_TEXT, PART_THINKING, PART_ID, PART_NAME, PART_ARGS, PART_KEYS };
static const json_key part_keys[] = {KEY("type"), KEY("text"), KEY("thinking"), KEY("id"),
                                     KEY("name"), KEY("arguments")};

/* Reads a part of the assistant's message: text, thinking, a call, or another. */
static bool pi_part(reading *r, ms_str part, ms_envelope *m, spans *beside)
{
    ms_str v[PART_KEYS];
    pick_spans(part, part_keys, PART_KEYS, v, beside);
    if (text_is(v[PART_TYPE], "toolCall")) {
        ms_str tool = trace_text(r->t, v[PART_NAME]);
        if (tool.len == 0) return false;
        *m = action_of(tool, args_of(r, v[PART_ARGS]));
        m->call_id = trace_text(r->t, v[PART_ID]);
    } else if (text_is(v[PART_TYPE], "thinking")) {
        *m = ms_message(MS_T_REASONING, value_of(r, v[PART_THINKING]));
    } else if (text_is(v[PART_TYPE], "text")) {
        *m = ms_assistant_message(value_of(r, v[PART_TEXT]));
    } else if (is_object(part)) {
        beside->count = 0;
        *m = ms_assistant_message(ms_json(object_text(r, "[", part, "]")));
    } else {
        return false;
    }
    return true;
}

static void take_assistant(reading *r, const pi_line *p)
{
    ms_envelope m;
    spans beside;
    bool first = true;
    ms_str content = p->of[M_CONTENT];
    ms_json_iter it = ms_json_iterate(content);
    while (is_kind(content, MS_JSON_ARRAY) && ms_json_next(&it)) {
        if (!pi_part(r, it.value, &m, &beside)) {
            memset(&m, 0, sizeof m);
            set_time(r, &m, p->v, p->of);
            trace_unknown_at(r->t, &m, MS_STR("part"), it.value);
            continue;
        }
        put(r, &m, p->v, p->of, extra_of(r, p, &beside, first), &first);
    }
    if (first) { /* an aborted turn: no text, but an error */
        m = ms_assistant_message(is_kind(content, MS_JSON_STRING) ? value_of(r, content)
                                                                 : ms_text(""));
        put(r, &m, p->v, p->of, extra_of(r, p, NULL, true), &first);
    }
    take_usage(r, p->v[L_ID], p->of);
}

/* Reads a message of the user or of a tool, or a command that the user ran. */
static bool single_of(reading *r, const ms_str *of, ms_envelope *m)
{
    if (text_is(of[M_ROLE], "user")) {
        *m = ms_user_message(said_by(r, of[M_CONTENT]));
        note_prompt(r, of[M_CONTENT]);
    } else if (text_is(of[M_ROLE], "toolResult")) {
        ms_value said = said_by(r, of[M_CONTENT]);
        bool bad = is_kind(of[M_ERROR], MS_JSON_TRUE);
        *m = result_message(said, bad);
        m->call_id = trace_text(r->t, of[M_CALL]);
        m->tool = trace_text(r->t, of[M_TOOL]);
    } else if (text_is(of[M_ROLE], "bashExecution")) {
        ms_buf buf = {trace_arena(r->t), NULL, 0, 0};
        ms_str command = trace_text(r->t, of[M_COMMAND]);
        ms_str printed = trace_text(r->t, of[M_OUTPUT]);
        json_piece(&buf, "$ ");
        ms_buf_write(&buf, command.ptr, command.len);
        json_piece(&buf, "\n");
        ms_buf_write(&buf, printed.ptr, printed.len);
        *m = ms_user_message(ms_text_n(ms_buf_text(&buf)));
    } else if (text_is(of[M_ROLE], "branchSummary") ||
               text_is(of[M_ROLE], "compactionSummary")) {
        *m = ms_user_message(value_of(r, of[M_SUMMARY]));
    } else if (text_is(of[M_ROLE], "custom")) {
        *m = ms_user_message(said_by(r, of[M_CONTENT]));
    } else {
        return false;
    }
    return true;
}

static void take_message(reading *r, pi_line *p)
{
    ms_str message = p->v[L_MESSAGE], *of = p->of;
    ms_envelope m;
    bool first = true;
    pick_spans(message, message_keys, M_KEYS, of, &p->message_rest);
    trace_entry(r->t, p->v[L_ID], p->v[L_PARENT], 0);
    bool content = is_kind(of[M_CONTENT], MS_JSON_ARRAY) ||
                   is_kind(of[M_CONTENT], MS_JSON_STRING) ||
                   text_is(of[M_ROLE], "bashExecution") || of[M_SUMMARY].ptr != NULL;
    if (!is_object(message) || !content) {
        trace_unknown(r->t, MS_STR("message without content"), p->line);
    } else if (text_is(of[M_ROLE], "assistant")) {
        take_assistant(r, p);
    } else if (single_of(r, of, &m)) {
        put(r, &m, p->v, of, extra_of(r, p, NULL, true), &first);
    } else {
        trace_unknown(r->t, trace_text(r->t, of[M_ROLE]), p->line);
    }
}

/* Adds a message for a line with a text of its own. */
static void put_line(reading *r, const ms_str *v, ms_str text)
{
    trace_entry(r->t, v[L_ID], v[L_PARENT], 0);
    ms_envelope m = ms_user_message(said_by(r, text));
    trace_time_iso(r->t, &m, v[L_TIME]);
    m.id = trace_text(r->t, v[L_ID]);
    trace_put(r->t, &m);
}

/* Reads a compaction. */
static void put_summary(reading *r, const ms_str *v)
{
    compaction c;
    ms_envelope like;
    ms_str none = {NULL, 0};
    memset(&c, 0, sizeof c);
    memset(&like, 0, sizeof like);
    trace_entry(r->t, v[L_ID], v[L_PARENT], 0);
    c.text = trace_text(r->t, v[L_SUMMARY]);
    c.bare = true;
    c.before = count_of(v[L_TOKENS]);
    if (v[L_KEPT].ptr != NULL) c.keep = trace_since(r->t, v[L_KEPT], true);
    trace_time_iso(r->t, &like, v[L_TIME]);
    like.id = trace_text(r->t, v[L_ID]);
    put_compaction(r, &c, &like, none);
}

static void pi_read(reading *r, ms_str line)
{
    static const char *const others[] = {"session", "model_change", "label", "custom",
                                         "thinking_level_change", "session_info"};
    pi_line p;
    const ms_str *v = p.v;
    bool known = false;
    p.line = line;
    pick_spans(line, keys, L_KEYS, p.v, &p.rest);
    if (text_is(v[L_TYPE], "message") && v[L_MESSAGE].ptr != NULL) {
        take_message(r, &p);
        return;
    }
    if (text_is(v[L_TYPE], "compaction") && is_kind(v[L_SUMMARY], MS_JSON_STRING)) {
        put_summary(r, v);
        return;
    }
    if ((text_is(v[L_TYPE], "branch_summary") && v[L_SUMMARY].ptr != NULL) ||
        (text_is(v[L_TYPE], "custom_message") && v[L_CONTENT].ptr != NULL)) {
        put_line(r, v, v[L_SUMMARY].ptr != NULL ? v[L_SUMMARY] : v[L_CONTENT]);
        return;
    }
    if (text_is(v[L_TYPE], "session")) {
        trace_new_session(r->t, trace_text(r->t, v[L_ID]));
        bool claw = strstr(r->path, "/.openclaw/") != NULL;
        trace_fact(r->t, "agent", claw ? MS_STR("openclaw") : MS_STR("pi"));
        trace_fact(r->t, "cwd", trace_text(r->t, v[L_CWD]));
        trace_fact(r->t, "parent", trace_text(r->t, member(line, "parentSession")));
    } else {
        trace_entry(r->t, v[L_ID], v[L_PARENT], 0);
    }
    if (text_is(v[L_TYPE], "session_info")) {
        trace_fact(r->t, "title", trace_text(r->t, v[L_NAME]));
    }
    if (text_begins(trace_text(r->t, v[L_CUSTOM]), MS_STR("openclaw"))) {
        trace_fact(r->t, "agent", MS_STR("openclaw")); /* the same format */
    }
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        known = known || text_is(v[L_TYPE], others[i]);
    }
    if (known) trace_left_out(r->t, trace_text(r->t, v[L_TYPE]));
    else trace_unknown(r->t, trace_text(r->t, v[L_TYPE]), line);
}

const fileformat pi_format = {
    "pi", "pi", "1, 3", ".pi/agent/sessions", FILE_LINES, TREE_CHAIN, pi_shows, pi_read,
    NULL,
};


/* ---- Session traces of the hub ----------------------------------------------------- */

static void sts_calls(reading *r, const ms_str *v, const ms_str *of, bool *first)
{
    ms_json_iter it = ms_json_iterate(of[M_CALLS]);
    while (is_kind(of[M_CALLS], MS_JSON_ARRAY) && ms_json_next(&it)) {
        ms_str call = it.value, inner = member(call, "function");
        if (is_object(inner)) call = inner;
        ms_str args = member(call, "arguments");
        if (args.ptr == NULL) args = member(call, "input");
        ms_envelope m = call_of(r, member(call, "name"), args,
                                member(it.value, "id"));
        put(r, &m, v, of, ms_str_n(NULL, 0), first);
    }
}

static void sts_message(reading *r, ms_str line, const ms_str *v)
{
    ms_str of[M_KEYS], none = {NULL, 0};
    bool first = true;
    pick(v[L_MESSAGE], message_keys, M_KEYS, of);
    trace_entry(r->t, v[L_ID], none, 0);
    ms_value said = said_by(r, of[M_CONTENT]);
    ms_envelope m = ms_user_message(said);
    if (text_is(of[M_ROLE], "user")) {
        note_prompt(r, of[M_CONTENT]);
        put(r, &m, v, of, none, &first);
    } else if (text_is(of[M_ROLE], "system")) {
        m = ms_message(MS_T_TEXT, said);
        put(r, &m, v, of, none, &first);
    } else if (text_is(of[M_ROLE], "tool")) {
        m = result_message(said, is_kind(of[M_ERROR], MS_JSON_TRUE));
        m.call_id = trace_text(r->t, of[M_CALL]);
        m.tool = trace_text(r->t, of[M_TOOL]);
        put(r, &m, v, of, none, &first);
    } else if (text_is(of[M_ROLE], "assistant")) {
        ms_str thought = plain_text(r, of[M_REASONING]);
        bool calls = is_kind(of[M_CALLS], MS_JSON_ARRAY) && of[M_CALLS].len > 2;
        m = ms_message(MS_T_REASONING, ms_text_n(thought));
        if (thought.len > 0) put(r, &m, v, of, none, &first);
        m = ms_assistant_message(said);
        if (said.text.len > 0 || (first && !calls)) put(r, &m, v, of, none, &first);
        sts_calls(r, v, of, &first);
        if (first) trace_incomplete(r->t, MS_STR("empty message"));
        take_usage(r, v[L_ID], of);
    } else {
        trace_unknown(r->t, trace_text(r->t, of[M_ROLE]), line);
    }
}

static void sts_read(reading *r, ms_str line)
{
    ms_str v[L_KEYS];
    pick(line, keys, L_KEYS, v);
    if (text_is(v[L_TYPE], "message")) {
        sts_message(r, line, v);
    } else if (text_is(v[L_TYPE], "session")) {
        trace_new_session(r->t, trace_text(r->t, v[L_ID]));
        trace_fact(r->t, "agent", trace_text(r->t, v[L_HARNESS]));
        trace_fact(r->t, "title", trace_text(r->t, v[L_NAME]));
        trace_fact(r->t, "cwd", trace_text(r->t, v[L_CWD]));
        trace_left_out(r->t, MS_STR("session"));
    } else {
        trace_entry(r->t, v[L_ID], v[L_PARENT], 0);
        trace_unknown(r->t, trace_text(r->t, v[L_TYPE]), line);
    }
}

const fileformat sts_format = {
    "sts", "session traces of the Hugging Face hub", "-", "", FILE_LINES, TREE_NONE,
    sts_shows, sts_read, NULL,
};
