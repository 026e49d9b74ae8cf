/* Gemini CLI: ~/.gemini/tmp/HASH/chats/session-*.json, one object with its messages, and
 * since 0.40 session-*.jsonl: a header line, then messages. There an id that comes again
 * replaces the message, {"$set": ...} changes the header or all messages, and
 * {"$rewindTo": id} takes back from that message on. A gemini message carries its calls
 * with their results. */

#define _GNU_SOURCE
#include "read.h"

#include <string.h>

enum { G_ID, G_TIME, G_TYPE, G_CONTENT, G_THOUGHTS, G_TOKENS, G_MODEL, G_CALLS, G_SET,
       G_REWIND, G_SESSION, G_PROJECT, G_MESSAGES, G_KIND, G_SUMMARY, G_KEYS };

static const json_key keys[] = {
    KEY("id"), KEY("timestamp"), KEY("type"), KEY("content"), KEY("thoughts"),
    KEY("tokens"), KEY("model"), KEY("toolCalls"), KEY("$set"), KEY("$rewindTo"),
    KEY("sessionId"), KEY("projectHash"), KEY("messages"), KEY("kind"), KEY("summary"),
};

static bool gemini_shows(ms_str entry)
{
    ms_str v[G_KEYS];
    pick(entry, keys, G_KEYS, v);
    return v[G_SESSION].ptr != NULL && v[G_PROJECT].ptr != NULL;
}

static void take_header(reading *r, const ms_str *v)
{
    trace_session(r->t, trace_text(r->t, v[G_SESSION]));
    trace_fact(r->t, "agent", MS_STR("gemini-cli"));
    trace_fact(r->t, "project", trace_text(r->t, v[G_PROJECT]));
    trace_fact(r->t, "title", trace_text(r->t, v[G_SUMMARY]));
    if (text_is(v[G_KIND], "subagent")) trace_fact(r->t, "kind", MS_STR("subagent"));
}

/* Adds tokens. The output here excludes thoughts, and the input excludes tool results. */
static void take_tokens(reading *r, const ms_str *v)
{
    static const char *const names[USE_COUNTS] = {"input", "output", "cached", NULL,
                                                  "thoughts"};
    if (!is_object(v[G_TOKENS])) return;
    use u = tokens_in(r->t, v[G_TOKENS], names);
    u.input += count_of(member(v[G_TOKENS], "tool"));
    u.output += u.reasoning;
    u.model = trace_text(r->t, v[G_MODEL]);
    u.answer = trace_text(r->t, v[G_ID]);
    put_use(r, &u);
}

/* Adds a message; all messages of an entry are joined to the first one. */
static void put(reading *r, ms_envelope *m, const ms_str *v, bool *first)
{
    trace_time_iso(r->t, m, v[G_TIME]);
    put_piece(r, m, v[G_ID], first);
}

static void put_thoughts(reading *r, const ms_str *v, bool *first)
{
    ms_json_iter it = ms_json_iterate(v[G_THOUGHTS]);
    while (is_kind(v[G_THOUGHTS], MS_JSON_ARRAY) && ms_json_next(&it)) {
        ms_buf buf = {trace_arena(r->t), NULL, 0, 0};
        ms_str subject = trace_text(r->t, member(it.value, "subject"));
        ms_str text = trace_text(r->t, member(it.value, "description"));
        if (subject.len > 0) ms_buf_write(&buf, subject.ptr, subject.len);
        if (subject.len > 0 && text.len > 0) json_piece(&buf, "\n\n");
        if (text.len > 0) ms_buf_write(&buf, text.ptr, text.len);
        ms_envelope m = ms_message(MS_T_REASONING, ms_text_n(ms_buf_text(&buf)));
        if (buf.len > 0) put(r, &m, v, first);
    }
}

/* Returns the result: of a list of one functionResponse part its output, else the
 * list. */
static ms_value result_of(reading *r, ms_str result)
{
    ms_str part, other;
    bool one = is_kind(result, MS_JSON_ARRAY) && ms_json_element(result, 0, &part) &&
               !ms_json_element(result, 1, &other);
    if (!one) return said_by(r, result);
    ms_str response = member_at(part, "functionResponse.response");
    ms_str said = member(response, "output");
    if (said.ptr == NULL) said = member(response, "error");
    if (is_kind(said, MS_JSON_STRING)) return ms_text_n(trace_text(r->t, said));
    return response.ptr != NULL ? value_of(r, response) : said_by(r, result);
}

static void put_calls(reading *r, const ms_str *v, bool *first)
{
    static const json_key names[] = {KEY("id"), KEY("name"), KEY("args"), KEY("result"),
                                KEY("status")};
    ms_str c[5];
    ms_json_iter it = ms_json_iterate(v[G_CALLS]);
    while (is_kind(v[G_CALLS], MS_JSON_ARRAY) && ms_json_next(&it)) {
        pick(it.value, names, 5, c);
        ms_str name = trace_text(r->t, c[1]);
        ms_envelope m = action_of(name, args_of(r, c[2]));
        m.call_id = trace_text(r->t, c[0]);
        put(r, &m, v, first);
    }
    it = ms_json_iterate(v[G_CALLS]);
    while (is_kind(v[G_CALLS], MS_JSON_ARRAY) && ms_json_next(&it)) {
        pick(it.value, names, 5, c);
        if (c[3].ptr == NULL && !text_is(c[4], "error")) continue;
        ms_value said = result_of(r, c[3]);
        bool bad = text_is(c[4], "error") || text_is(c[4], "cancelled");
        ms_envelope m = result_message(said, bad);
        m.call_id = trace_text(r->t, c[0]);
        m.tool = trace_text(r->t, c[1]);
        put(r, &m, v, first);
    }
}

static void take_message(reading *r, ms_str entry, const ms_str *v)
{
    bool same, first = true, user = text_is(v[G_TYPE], "user");
    ms_str none = {NULL, 0};
    bool again = v[G_ID].ptr != NULL && trace_replace(r->t, v[G_ID], entry, &same);
    if (again && same) trace_left_out(r->t, MS_STR("repeated entry"));
    if (again && same) return;
    trace_entry(r->t, v[G_ID], none, user ? ENTRY_PROMPT : 0);
    trace_entry_text(r->t, entry);
    ms_str said_text = user ? plain_text(r, v[G_CONTENT]) : none;
    if (text_begins(said_text, MS_STR("<state_snapshot>"))) {
        compaction c;
        ms_envelope like;
        memset(&c, 0, sizeof c);
        memset(&like, 0, sizeof like);
        c.text = said_text;
        if (r->relisted) c.keep = trace_since(r->t, none, true);
        trace_time_iso(r->t, &like, v[G_TIME]);
        like.id = trace_text(r->t, v[G_ID]);
        put_compaction(r, &c, &like, none);
    } else if (user) {
        ms_envelope m = ms_user_message(said_by(r, v[G_CONTENT]));
        note_prompt(r, v[G_CONTENT]);
        put(r, &m, v, &first);
    } else if (text_is(v[G_TYPE], "gemini") || text_is(v[G_TYPE], "model")) {
        put_thoughts(r, v, &first);
        ms_value said = said_by(r, v[G_CONTENT]);
        ms_envelope m = ms_assistant_message(said);
        bool calls = is_kind(v[G_CALLS], MS_JSON_ARRAY) && v[G_CALLS].len > 2;
        if (said.text.len > 0 || (!calls && first)) put(r, &m, v, &first);
        put_calls(r, v, &first);
        if (first) trace_incomplete(r->t, MS_STR("empty message"));
        take_tokens(r, v);
    } else if (text_is(v[G_TYPE], "info") || text_is(v[G_TYPE], "error") ||
               text_is(v[G_TYPE], "warning")) {
        trace_left_out(r->t, trace_text(r->t, v[G_TYPE]));
    } else {
        trace_unknown(r->t, trace_text(r->t, v[G_TYPE]), entry);
    }
}

static void take_list(reading *r, ms_str list)
{
    ms_str v[G_KEYS];
    ms_json_iter it = ms_json_iterate(list);
    while (is_kind(list, MS_JSON_ARRAY) && ms_json_next(&it)) {
        pick(it.value, keys, G_KEYS, v);
        take_message(r, it.value, v);
    }
}

/* Replaces all messages by a new list, even those that are in it again. */
static void take_set(reading *r, ms_str set)
{
    ms_str v[G_KEYS];
    pick(set, keys, G_KEYS, v);
    take_header(r, v);
    if (is_kind(v[G_MESSAGES], MS_JSON_ARRAY)) {
        trace_take_back_others(r->t, v[G_MESSAGES]);
        r->relisted = true;
        take_list(r, v[G_MESSAGES]);
        r->relisted = false;
    }
    trace_left_out(r->t, MS_STR("$set"));
}

static void gemini_read(reading *r, ms_str entry)
{
    ms_str v[G_KEYS];
    pick(entry, keys, G_KEYS, v);
    bool header = v[G_SESSION].ptr != NULL, set = v[G_SET].ptr != NULL;
    if (header) {
        take_header(r, v);
        take_list(r, v[G_MESSAGES]);
    }
    if (set) take_set(r, v[G_SET]);
    if (v[G_REWIND].ptr != NULL) {
        trace_take_back(r->t, v[G_REWIND]);
        trace_left_out(r->t, MS_STR("$rewindTo"));
    } else if (!header && !set) {
        take_message(r, entry, v);
    }
}

const fileformat gemini_format = {
    "gemini-cli", "Gemini CLI", "0.40 (lines)", ".gemini/tmp", FILE_LINES, TREE_NONE,
    gemini_shows, gemini_read, NULL,
};
const fileformat gemini_whole_format = {
    "gemini-cli", "Gemini CLI", "before 0.40 (one object)", ".gemini/tmp", FILE_WHOLE,
    TREE_NONE, gemini_shows, gemini_read, NULL,
};
