/* Claude Code: ~/.claude/projects/FOLDER/SESSION.jsonl and
 * SESSION/subagents/agent-ID.jsonl. A line is an entry of a tree by uuid and
 * parentUuid. One answer of the model is several lines of one message.id, one a block,
 * each with the usage so far. Side chains are the work of other agents. A compaction
 * begins a new chain, whose logicalParentUuid is the end of the old chain: a line of
 * subtype compact_boundary, then the summary. What the user types while the agent works
 * is an attachment, or an operation of a queue.
 *
 * `claude -p --output-format stream-json` prints the same messages, with session_id.
 * There parent_tool_use_id is the call that began a subagent, and the usage of an answer
 * has its output as of its beginning; the result of a turn has the sum. */

#define _GNU_SOURCE
#include "read.h"

#include <string.h>

enum { C_TYPE, C_UUID, C_PARENT, C_LOGICAL, C_SESSION, C_SIDE, C_AGENT, C_TIME, C_MESSAGE,
       C_META, C_SUMMARY, C_SUBTYPE, C_COMPACT, C_CWD, C_VERSION, C_BRANCH,
       C_TITLE, C_CUSTOM, C_AI, C_LEAF, C_ATTACHMENT, C_OPERATION, C_CONTENT,
       C_COST, C_TOTAL, C_STREAM, C_CALL, C_KEYS };

static const json_key keys[] = {
    KEY("type"), KEY("uuid"), KEY("parentUuid"), KEY("logicalParentUuid"),
    KEY("sessionId"), KEY("isSidechain"), KEY("agentId"), KEY("timestamp"),
    KEY("message"), KEY("isMeta"), KEY("isCompactSummary"), KEY("subtype"),
    KEY("compactMetadata"), KEY("cwd"), KEY("version"),
    KEY("gitBranch"), KEY("summary"), KEY("customTitle"), KEY("aiTitle"),
    KEY("leafUuid"), KEY("attachment"), KEY("operation"), KEY("content"),
    KEY("costUSD"), KEY("total_cost_usd"), KEY("session_id"), KEY("parent_tool_use_id"),
};

/* Lines that are not messages. */
static const char *const others[] = {
    "progress", "file-history-snapshot", "queue-operation", "system", "attachment",
    "mode",
    "permission-mode", "last-prompt", "summary", "custom-title", "ai-title", "agent-name",
    "agent-color", "agent-setting", "pr-link", "tag", "task-summary", "worktree-state",
    "content-replacement", "started", "result", "speculation-accept",
    "file-history-delta", "bridge-session", "frame-link", "stream_event",
};

static bool claude_shows(ms_str line)
{
    ms_str v[C_KEYS];
    pick(line, keys, C_KEYS, v);
    if (!is_kind(v[C_TYPE], MS_JSON_STRING)) return false;
    if (qwen_format.shows(line)) return false; /* it has uuid and sessionId, too */
    if (text_is(v[C_TYPE], "summary")) return v[C_LEAF].ptr != NULL;
    if (text_is(v[C_TYPE], "file-history-snapshot")) return true;
    if (text_is(v[C_TYPE], "queue-operation")) return true;
    bool speaks = text_is(v[C_TYPE], "user") || text_is(v[C_TYPE], "assistant");
    bool named = v[C_SESSION].ptr != NULL || v[C_STREAM].ptr != NULL;
    return (v[C_UUID].ptr != NULL && named) ||
           (speaks && member(v[C_MESSAGE], "content").ptr != NULL);
}

static bool is_other(ms_str type)
{
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        if (text_is(type, others[i])) return true;
    }
    return false;
}

/* Returns whether a text is "0e1f...-....", the name of a session's file. */
static bool is_uuid(ms_str text)
{
    return text.len == 36 && text.ptr[8] == '-' && text.ptr[13] == '-' &&
           text.ptr[23] == '-';
}

static void take_facts(reading *r, const ms_str *v)
{
    ms_str stem = stem_text(r->path);
    if (r->entries == 0) {
        bool iflow = strstr(r->path, "/.iflow/") != NULL; /* the same format */
        trace_fact(r->t, "agent", iflow ? MS_STR("iflow") : MS_STR("claude-code"));
        if (is_uuid(stem)) trace_session(r->t, stem);
    }
    ms_str session = v[C_SESSION].ptr != NULL ? v[C_SESSION] : v[C_STREAM];
    if (!is_uuid(stem)) trace_session(r->t, trace_text(r->t, session));
    if (v[C_CWD].ptr != NULL) trace_fact(r->t, "cwd", trace_text(r->t, v[C_CWD]));
    if (v[C_VERSION].ptr != NULL) {
        trace_fact(r->t, "version", trace_text(r->t, v[C_VERSION]));
    }
    if (v[C_BRANCH].ptr != NULL) {
        trace_fact(r->t, "branch", trace_text(r->t, v[C_BRANCH]));
    }
    if (v[C_AI].ptr != NULL) trace_fact(r->t, "title", trace_text(r->t, v[C_AI]));
    if (v[C_CUSTOM].ptr != NULL) trace_fact(r->t, "title", trace_text(r->t, v[C_CUSTOM]));
    if (text_is(v[C_TYPE], "summary")) {
        trace_fact_first(r->t, "title", trace_text(r->t, v[C_TITLE]));
    }
}

static bool is_side(const ms_str *v)
{
    return is_kind(v[C_SIDE], MS_JSON_TRUE) || is_kind(v[C_CALL], MS_JSON_STRING);
}

/* Returns the marks of a user's entry. Results of calls, echoes of commands and
 * summaries are not typed by users. */
static unsigned marks_of(const ms_str *v, ms_str content)
{
    unsigned marks = 0;
    if (is_side(v)) marks |= ENTRY_SIDE;
    if (is_kind(v[C_SUMMARY], MS_JSON_TRUE)) return marks;
    if (!text_is(v[C_TYPE], "user") || is_kind(v[C_META], MS_JSON_TRUE)) return marks;
    if (text_is(peek_first(content, "type"), "tool_result")) return marks;
    return marks | ENTRY_PROMPT;
}

enum { M_ROLE, M_CONTENT, M_TYPE, M_USAGE, M_MODEL, M_ID, M_KEYS };
static const json_key message_keys[] = {KEY("role"), KEY("content"), KEY("type"),
                                        KEY("usage"), KEY("model"), KEY("id")};

/* The members of a line and of the message in it. */
typedef struct claude_line {
    ms_str line, v[C_KEYS], m[M_KEYS];
    spans rest, message_rest;
} claude_line;

/* Notes the last answer of a turn, and what the answers before it put out. */
static void note_answer(reading *r, const ms_str *m, const use *u)
{
    bool same = r->turn.ptr != NULL && ms_str_equal(r->turn, m[M_ID]);
    if (!same) r->said += r->total.output;
    r->turn = m[M_ID];
    r->model = m[M_MODEL];
    r->total = *u;
}

/* Reads the end of a turn. The output that no answer of a stream has is counted with the
 * last one. */
static void take_result(reading *r, const claude_line *c)
{
    uint64_t all = count_of(member_at(c->line, "usage.output_tokens"));
    use u = r->total;
    if (r->turn.ptr != NULL && all > r->said + u.output) {
        u.output = all - r->said;
        u.model = trace_text(r->t, r->model);
        u.answer = trace_text(r->t, r->turn);
        trace_use(r->t, &u);
    }
    memset(&r->total, 0, sizeof r->total);
    r->turn = ms_str_n(NULL, 0);
    r->said = 0;
    trace_total(r->t, c->v[C_TOTAL]);
}

static void take_usage(reading *r, const claude_line *c)
{
    static const char *const names[USE_COUNTS] = {
        "input_tokens", "output_tokens", "cache_read_input_tokens",
        "cache_creation_input_tokens", NULL};
    if (!is_object(c->m[M_USAGE]) || text_is(c->m[M_MODEL], "<synthetic>")) return;
    use u = tokens_in(r->t, c->m[M_USAGE], names);
    ms_str hour = member_at(c->m[M_USAGE], "cache_creation.ephemeral_1h_input_tokens");
    u.input += u.cached + u.written;
    u.written_1h = count_of(hour);
    u.cost_text = c->v[C_COST];
    u.model = trace_text(r->t, c->m[M_MODEL]);
    u.answer = trace_text(r->t, c->m[M_ID]);
    if (u.answer.len == 0) u.answer = trace_text(r->t, c->v[C_UUID]);
    put_use(r, &u);
    if (c->v[C_STREAM].ptr != NULL && !is_side(c->v)) note_answer(r, c->m, &u);
}

/* Returns the members of the line that are kept beside the message. */
static ms_str extra_of(reading *r, const claude_line *c)
{
    static const int of_line[] = {C_PARENT, C_LOGICAL, C_SIDE, C_AGENT, C_TIME, C_META,
                                  C_SUMMARY, C_SUBTYPE, C_COMPACT, C_CWD, C_VERSION,
                                  C_BRANCH, C_COST, C_TOTAL, C_STREAM, C_CALL};
    static const int of_message[] = {M_ID, M_MODEL, M_USAGE};
    leftover all, own, inner;
    rest_begin(&all, trace_arena(r->t));
    rest_begin(&own, trace_arena(r->t));
    rest_begin(&inner, trace_arena(r->t));
    for (size_t i = 0; i < COUNT_OF(of_line); i++) {
        rest_put(&own, keys[of_line[i]].name, c->v[of_line[i]]);
    }
    rest_spans(&own, &c->rest, c->line, keys, C_KEYS);
    for (size_t i = 0; i < COUNT_OF(of_message); i++) {
        rest_put(&inner, message_keys[of_message[i]].name, c->m[of_message[i]]);
    }
    rest_spans(&inner, &c->message_rest, c->v[C_MESSAGE], message_keys, M_KEYS);
    rest_put(&own, "message", rest_end(&inner));
    rest_put(&all, "claude-code", rest_end(&own));
    return rest_end(&all);
}

/* Returns the agent of a line: a side chain is the work of another agent. */
static ms_str agent_of(reading *r, const ms_str *v)
{
    ms_str agent = {NULL, 0};
    if (!is_side(v)) return agent;
    agent = trace_text(r->t, v[C_AGENT].ptr != NULL ? v[C_AGENT] : v[C_CALL]);
    return agent.len > 0 ? agent : MS_STR("sidechain");
}

/* Reads a summary: all lines before the boundary are out of the context, but for a
 * segment that is preserved. */
static void put_summary(reading *r, const claude_line *c, ms_str text,
                        const ms_envelope *like)
{
    compaction of;
    memset(&of, 0, sizeof of);
    ms_str head = member_at(r->compaction, "preservedSegment.headUuid");
    of.text = text;
    of.cause = trace_text(r->t, member(r->compaction, "trigger"));
    of.before = count_of(member(r->compaction, "preTokens"));
    if (is_kind(head, MS_JSON_STRING)) of.keep = trace_since(r->t, head, true);
    r->compaction = ms_str_n(NULL, 0);
    put_compaction(r, &of, like, extra_of(r, c));
}

static void take_message(reading *r, claude_line *c)
{
    const ms_str *v = c->v;
    ms_envelope like;
    memset(&like, 0, sizeof like);
    bool user = text_is(v[C_TYPE], "user");
    pick_spans(v[C_MESSAGE], message_keys, M_KEYS, c->m, &c->message_rest);
    ms_str content = c->m[M_CONTENT];
    unsigned marks = marks_of(v, content);
    bool linked = is_kind(v[C_PARENT], MS_JSON_STRING);
    if (trace_is_repeated(r->t, v[C_UUID], content)) {
        trace_left_out(r->t, MS_STR("repeated entry"));
        return;
    }
    trace_entry(r->t, v[C_UUID], linked ? v[C_PARENT] : v[C_LOGICAL], marks);
    trace_entry_text(r->t, content);
    bool fits = is_kind(content, MS_JSON_STRING) || is_kind(content, MS_JSON_ARRAY);
    if (!is_object(v[C_MESSAGE]) || !fits) {
        trace_unknown(r->t, user ? MS_STR("user without content")
                                 : MS_STR("assistant without content"), c->line);
        return;
    }
    trace_time_iso(r->t, &like, v[C_TIME]);
    like.agent_key = agent_of(r, v);
    like.id = trace_text(r->t, v[C_UUID]);
    if ((marks & (ENTRY_PROMPT | ENTRY_SIDE)) == ENTRY_PROMPT) {
        note_prompt(r, content);
    }
    ms_str summary = {NULL, 0};
    if (is_kind(v[C_SUMMARY], MS_JSON_TRUE)) summary = plain_text(r, content);
    if (summary.len > 0) put_summary(r, c, summary, &like);
    else put_blocks(r, user, content, &like, extra_of(r, c));
    if (!user) take_usage(r, c);
}

/* Where a prompt that waits stands. */
enum { ATTACHMENT, QUEUE };

/* Returns whether a prompt was typed for the model: not a command of the program, and
 * not a notice of it. */
static bool is_typed(ms_str text)
{
    size_t word = 0;
    while (word < text.len && (unsigned char)text.ptr[word] > ' ') word++;
    bool command = text.len > 0 && text.ptr[0] == '/' && word > 1 &&
                   memchr(text.ptr + 1, '/', word - 1) == NULL;
    return text.len > 0 && !command && !is_scaffold(text);
}

/* Adds a prompt that the user typed while the agent worked. */
static void put_queued(reading *r, const claude_line *c, ms_str prompt)
{
    ms_envelope m = ms_user_message(said_by(r, prompt));
    trace_time_iso(r->t, &m, c->v[C_TIME]);
    m.agent_key = agent_of(r, c->v);
    m.id = trace_text(r->t, c->v[C_UUID]);
    static const char mark[] = "{\"claude-code\":{\"queued\":true,\"entry\":";
    m.extra = object_text(r, mark, c->line, "}}");
    note_prompt(r, prompt);
    trace_put(r->t, &m);
}

/* Reads a prompt that waited, and reached the model with results of calls. If the queue's
 * own entry came before, it is there already. */
static bool take_attachment(reading *r, const claude_line *c)
{
    ms_str attachment = c->v[C_ATTACHMENT], prompt = member(attachment, "prompt");
    ms_str mode = member(attachment, "commandMode");
    if (!text_is(member(attachment, "type"), "queued_command")) return false;
    if (mode.ptr != NULL && !text_is(mode, "prompt")) return false;
    ms_str text = plain_text(r, prompt);
    if (prompt_forget(r, QUEUE, text) || (text.len > 0 && !is_typed(text))) return false;
    if (text.len == 0 && !is_kind(prompt, MS_JSON_ARRAY)) return false;
    prompt_note(r, ATTACHMENT, text);
    put_queued(r, c, prompt);
    return true;
}

/* Follows the queue of prompts. One that is removed goes to the model in the running
 * turn; versions before 2.1.97 wrote no other entry of it. */
static bool take_queue(reading *r, const claude_line *c)
{
    const ms_str *v = c->v;
    bool removes = text_is(v[C_OPERATION], "remove");
    if (text_is(v[C_OPERATION], "enqueue")) arrput(r->queued, v[C_CONTENT]);
    if (text_is(v[C_OPERATION], "popAll")) arrsetlen(r->queued, 0);
    if (!removes && !text_is(v[C_OPERATION], "dequeue")) return false;
    if (arrlenu(r->queued) == 0) return false;
    ms_str prompt = r->queued[0];
    arrdel(r->queued, 0);
    ms_str text = plain_text(r, prompt);
    if (!removes || !is_typed(text) || prompt_forget(r, ATTACHMENT, text)) {
        return false;
    }
    prompt_note(r, QUEUE, text);
    put_queued(r, c, prompt);
    return true;
}

static void claude_read(reading *r, ms_str line)
{
    claude_line c;
    c.line = line;
    pick_spans(line, keys, C_KEYS, c.v, &c.rest);
    if (!is_object(line)) {
        session_of_path(r);
        trace_entry(r->t, c.v[C_UUID], c.v[C_PARENT], 0);
        trace_unknown(r->t, MS_STR("line that is no object"), line);
        return;
    }
    take_facts(r, c.v);
    if (text_is(c.v[C_TYPE], "user") || text_is(c.v[C_TYPE], "assistant")) {
        take_message(r, &c);
        return;
    }
    bool linked = is_kind(c.v[C_PARENT], MS_JSON_STRING);
    unsigned marks = is_side(c.v) ? ENTRY_SIDE : 0;
    if (!trace_is_repeated(r->t, c.v[C_UUID], ms_str_n(NULL, 0))) {
        trace_entry(r->t, c.v[C_UUID], linked ? c.v[C_PARENT] : c.v[C_LOGICAL], marks);
    }
    bool taken = text_is(c.v[C_TYPE], "attachment")        ? take_attachment(r, &c)
                 : text_is(c.v[C_TYPE], "queue-operation") ? take_queue(r, &c)
                                                           : false;
    if (taken) return;
    if (text_is(c.v[C_TYPE], "result")) take_result(r, &c);
    ms_str version = text_is(c.v[C_SUBTYPE], "init") ? member(line, "claude_code_version")
                                                     : ms_str_n(NULL, 0);
    trace_fact(r->t, "version", trace_text(r->t, version));
    if (text_is(c.v[C_SUBTYPE], "compact_boundary")) r->compaction = c.v[C_COMPACT];
    bool failed = text_is(c.v[C_TYPE], "result") &&
                  ms_json_kind_of(member(line, "is_error")) == MS_JSON_TRUE;
    if (is_other(c.v[C_TYPE]) && !failed)
        trace_left_out(r->t, trace_text(r->t, c.v[C_TYPE]));
    else trace_unknown(r->t, trace_text(r->t, c.v[C_TYPE]), line);
}

const fileformat claude_format = {
    "claude-code", "Claude Code", "1.0, 2.1", ".claude/projects", FILE_LINES,
    TREE_PROMPTS, claude_shows, claude_read, NULL,
};
