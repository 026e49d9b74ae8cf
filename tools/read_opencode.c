/* OpenCode: the output of `opencode export`, {info, messages: [{info, parts}]}.
 * formats.c brings two other sources to that form: the tree of files before 1.2
 * (storage/session, message, part), and rows of its database, as `sqlite3 -json` prints
 * them. A part of the type tool is a call with its result. A part of the type compaction
 * announces a summary, the answer that follows it. */

#define _GNU_SOURCE
#include "read.h"

#include <string.h>

static bool opencode_shows(ms_str doc)
{
    static const json_key names[] = {KEY("info"), KEY("messages")};
    ms_str v[2], first;
    pick(doc, names, 2, v);
    if (!is_object(v[0]) || !is_kind(v[1], MS_JSON_ARRAY)) return false;
    if (!ms_json_element(v[1], 0, &first)) return member(v[0], "id").ptr != NULL;
    return member(first, "info").ptr != NULL && member(first, "parts").ptr != NULL;
}

static void take_info(reading *r, ms_str info)
{
    static const char *const facts[][2] = {
        {"title", "title"}, {"directory", "cwd"}, {"version", "version"},
        {"parentID", "parent"},
    };
    trace_session(r->t, trace_text(r->t, member(info, "id")));
    trace_fact(r->t, "agent", MS_STR("opencode"));
    for (size_t i = 0; i < COUNT_OF(facts); i++) {
        trace_fact(r->t, facts[i][1], trace_text(r->t, member(info, facts[i][0])));
    }
}

/* Reads the tokens of a message, or of the end of a step; input excludes cached
 * tokens. */
static bool take_tokens(reading *r, ms_str info, ms_str from)
{
    use u;
    memset(&u, 0, sizeof u);
    ms_str tokens = member(from, "tokens"), cost = member(from, "cost");
    if (!is_object(tokens)) return false;
    u.cached = count_of(member_at(tokens, "cache.read"));
    u.written = count_of(member_at(tokens, "cache.write"));
    u.input = count_of(member(tokens, "input")) + u.cached + u.written;
    u.reasoning = count_of(member(tokens, "reasoning"));
    u.output = count_of(member(tokens, "output")) + u.reasoning;
    u.cost = number_of(cost);
    u.model = trace_text(r->t, member(info, "modelID"));
    if (u.model.len == 0) u.model = trace_text(r->t, member_at(info, "model.modelID"));
    u.answer = trace_text(r->t, member(info, "id"));
    if (r->said > 0) put_use(r, &u);
    else if (!is_no_use(&u)) trace_incomplete(r->t, MS_STR("usage without an answer"));
    return u.input + u.output > 0;
}

static void set_time(reading *r, ms_envelope *m, ms_str info, ms_str when)
{
    trace_time_ms(r->t, m, when.ptr != NULL ? when : member_at(info, "time.created"));
}

static void put(reading *r, ms_envelope *m, ms_str info, ms_str when, bool *first)
{
    set_time(r, m, info, when);
    r->said++;
    put_piece(r, m, member(info, "id"), first);
}

static void put_tool(reading *r, ms_str part, ms_str info, bool *first)
{
    ms_str state = member(part, "state"), status = member(state, "status");
    ms_envelope m = call_of(r, member(part, "tool"), member(state, "input"),
                            member(part, "callID"));
    ms_str id = m.call_id, tool = m.tool;
    put(r, &m, info, member_at(state, "time.start"), first);
    bool bad = text_is(status, "error");
    ms_str said = member(state, bad ? "error" : "output"), file;
    ms_str files = member(state, "attachments");
    bool attached = is_kind(files, MS_JSON_ARRAY) && ms_json_element(files, 0, &file);
    if (said.ptr == NULL && !attached) return; /* it was running */
    m = result_message(value_of(r, said), bad);
    if (attached) m.extra = object_text(r, "{\"attachments\":", files, "}");
    m.call_id = id;
    m.tool = tool;
    put(r, &m, info, member_at(state, "time.end"), first);
}

/* Returns whether a part is not a message. */
static bool is_step(ms_str type)
{
    static const char *const steps[] = {"step-start", "step-finish", "snapshot", "patch",
                                        "compaction", "retry", "agent", "subtask"};
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        if (text_is(type, steps[i])) return true;
    }
    return false;
}

static void put_part(reading *r, ms_str part, ms_str info, bool user, bool *first)
{
    ms_str type = member(part, "type"), text = member(part, "text");
    ms_str when = member_at(part, "time.start");
    if (text_is(type, "text") && is_kind(text, MS_JSON_STRING)) {
        ms_value said = ms_text_n(trace_text(r->t, text));
        ms_envelope m = user ? ms_user_message(said) : ms_assistant_message(said);
        if (user && !is_kind(member(part, "synthetic"), MS_JSON_TRUE)) {
            note_prompt_text(r, said.text);
        }
        put(r, &m, info, when, first);
    } else if (text_is(type, "reasoning")) {
        ms_envelope m = ms_message(MS_T_REASONING, value_of(r, text));
        put(r, &m, info, when, first);
    } else if (text_is(type, "tool")) {
        put_tool(r, part, info, first);
    } else if (text_is(type, "file")) {
        ms_value list = ms_json(object_text(r, "[", part, "]"));
        ms_envelope m = user ? ms_user_message(list) : ms_assistant_message(list);
        put(r, &m, info, when, first);
    } else if (is_step(type)) {
        trace_left_out(r->t, trace_text(r->t, type));
    } else {
        ms_envelope m;
        memset(&m, 0, sizeof m);
        set_time(r, &m, info, when);
        trace_unknown_at(r->t, &m, trace_text(r->t, type), part);
    }
}

/* Reads a summary, in the place of all messages before the first of the tail. */
static void put_summary(reading *r, ms_str info, ms_str parts, bool *first)
{
    compaction c;
    ms_envelope like;
    ms_buf buf = {trace_arena(r->t), NULL, 0, 0};
    ms_str none = {NULL, 0}, tail = member(r->compaction, "tail_start_id");
    memset(&c, 0, sizeof c);
    memset(&like, 0, sizeof like);
    ms_json_iter it = ms_json_iterate(parts);
    while (is_kind(parts, MS_JSON_ARRAY) && ms_json_next(&it)) {
        if (!text_is(member(it.value, "type"), "text")) continue;
        ms_str text = trace_text(r->t, member(it.value, "text"));
        if (text.len > 0 && buf.len > 0) json_piece(&buf, "\n\n");
        if (text.len > 0) ms_buf_write(&buf, text.ptr, text.len);
    }
    if (buf.len == 0) return; /* it failed, or was stopped */
    c.text = ms_buf_text(&buf);
    if (is_kind(tail, MS_JSON_STRING)) c.keep = trace_since(r->t, tail, true);
    ms_str cause = member(r->compaction, "auto");
    if (cause.ptr != NULL) {
        c.cause = is_kind(cause, MS_JSON_TRUE) ? MS_STR("auto") : MS_STR("manual");
    }
    r->compaction = none;
    trace_time_ms(r->t, &like, member_at(info, "time.created"));
    like.id = trace_text(r->t, member(info, "id"));
    put_compaction(r, &c, &like, none);
    r->said++;
    *first = false;
}

static void take_message(reading *r, ms_str message)
{
    ms_str info = member(message, "info"), parts = member(message, "parts");
    ms_str none = {NULL, 0};
    bool first = true, user = text_is(member(info, "role"), "user");
    unsigned marks = user ? ENTRY_PROMPT : 0;
    trace_entry(r->t, member(info, "id"), none, marks);
    bool summary = !user && is_kind(member(info, "summary"), MS_JSON_TRUE);
    if (summary) put_summary(r, info, parts, &first);
    summary = summary && !first;
    ms_json_iter it = ms_json_iterate(parts);
    size_t n = 0;
    for (; is_kind(parts, MS_JSON_ARRAY) && ms_json_next(&it); n++) {
        ms_str type = member(it.value, "type");
        if (text_is(type, "compaction")) r->compaction = it.value;
        if (summary && text_is(type, "text")) continue;
        put_part(r, it.value, info, user, &first);
    }
    ms_str error = member(info, "error");
    if (first && is_object(error)) {
        ms_envelope m = ms_assistant_message(ms_text(""));
        m.extra = object_text(r, "{\"error\":", error, "}");
        put(r, &m, info, none, &first);
    }
    if (first && n == 0) trace_incomplete(r->t, MS_STR("empty message"));
    if (user || take_tokens(r, info, info)) return;
    it = ms_json_iterate(parts);
    while (is_kind(parts, MS_JSON_ARRAY) && ms_json_next(&it)) {
        if (text_is(member(it.value, "type"), "step-finish")) {
            take_tokens(r, info, it.value);
        }
    }
}

static void opencode_read(reading *r, ms_str doc)
{
    ms_str info = member(doc, "info"), list = member(doc, "messages");
    take_info(r, info);
    r->compaction = ms_str_n(NULL, 0); /* of another session: its text may be gone */
    r->said = 0;
    ms_json_iter it = ms_json_iterate(list);
    while (ms_json_next(&it)) take_message(r, it.value);
    ms_str revert = member_at(info, "revert.messageID");
    if (is_kind(revert, MS_JSON_STRING)) trace_take_back(r->t, revert);
}

const fileformat opencode_format = {
    "opencode", "OpenCode", "1.1, 1.3", ".local/share/opencode/storage", FILE_WHOLE,
    TREE_NONE, opencode_shows, opencode_read, NULL,
};
