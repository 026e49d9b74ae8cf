/* OpenAI Codex: ~/.codex/sessions/Y/M/D/rollout-*.jsonl, also compressed with zstd, and
 * archived_sessions. A line is {timestamp, type, payload}. Where both repeat an entry,
 * response_item counts; event_msg has usage and rollbacks. Usage is written as running
 * totals, whose differences count. The file of a subagent, or of a fork, begins with
 * its parent's entries, all written in its first moment. A prompt can stand in an event
 * alone. */

#define _GNU_SOURCE
#include "read.h"

#include <string.h>

enum { X_TIME, X_TYPE, X_PAYLOAD, X_KEYS };
static const json_key keys[] = {KEY("timestamp"), KEY("type"), KEY("payload")};

enum { P_TYPE, P_ROLE, P_CONTENT, P_NAME, P_ARGS, P_CALL, P_OUTPUT, P_INPUT, P_ACTION,
       P_SUMMARY, P_FUNCTION, P_RESULT, P_ID, P_MESSAGE, P_KEYS };
static const json_key item_keys[] = {
    KEY("type"), KEY("role"), KEY("content"), KEY("name"), KEY("arguments"),
    KEY("call_id"), KEY("output"), KEY("input"), KEY("action"), KEY("summary"),
    KEY("function"), KEY("result"), KEY("id"), KEY("message"),
};

/* What prompt_note is called for: a response_item with a prompt. */
enum { ITEM };

static const char *const line_types[] = {"session_meta", "response_item", "event_msg",
                                         "turn_context", "compacted"};

static bool codex_shows(ms_str line)
{
    ms_str v[X_KEYS];
    pick(line, keys, X_KEYS, v);
    if (v[X_TIME].ptr == NULL || !is_object(v[X_PAYLOAD])) return false;
    for (size_t i = 0; i < COUNT_OF(line_types); i++) {
        if (text_is(v[X_TYPE], line_types[i])) return true;
    }
    return false;
}

static void take_meta(reading *r, ms_str meta)
{
    static const char *const facts[][2] = {
        {"cwd", "cwd"}, {"cli_version", "version"}, {"git.branch", "branch"},
        {"forked_from_id", "parent"},
        {"source.subagent.thread_spawn.parent_thread_id", "parent"},
    };
    trace_session(r->t, trace_text(r->t, member(meta, "id")));
    trace_fact(r->t, "agent", MS_STR("codex"));
    for (size_t i = 0; i < COUNT_OF(facts); i++) {
        ms_str text = trace_text(r->t, member_at(meta, facts[i][0]));
        trace_fact(r->t, facts[i][1], text);
        if (i >= 3 && text.len > 0) r->replays = true;
    }
    if (is_kind(member_at(meta, "source.subagent"), MS_JSON_STRING)) r->replays = true;
}

static use totals_of(reading *r, ms_str usage)
{
    static const char *const names[USE_COUNTS] = {
        "input_tokens", "output_tokens", "cached_input_tokens", NULL,
        "reasoning_output_tokens"};
    return tokens_in(r->t, usage, names);
}

/* Adds the prompt of an event that no item has repeated. */
static void put_waiting(reading *r)
{
    ms_str none = {NULL, 0}, prompt = r->waiting;
    if (prompt.ptr == NULL) return;
    r->waiting = none;
    trace_entry(r->t, none, none, ENTRY_PROMPT);
    ms_envelope m = ms_user_message(ms_text_n(trace_text(r->t, prompt)));
    note_prompt_text(r, m.content.text);
    trace_time_iso(r->t, &m, r->waited);
    m.turn_id = trace_text(r->t, r->turn);
    trace_put(r->t, &m);
}

/* Takes the prompt of an event, unless an item before has it. An item that follows can
 * have it, too, with its pictures: so it waits. */
static void take_prompt(reading *r, ms_str event, ms_str time)
{
    ms_str prompt = member(event, "message"), kind = member(event, "kind");
    put_waiting(r);
    ms_str text = trace_text(r->t, prompt);
    bool typed = !is_kind(kind, MS_JSON_STRING) || text_is(kind, "plain");
    if (text.len == 0 || !typed || is_scaffold(text)) return;
    if (prompt_forget(r, ITEM, text)) return;
    ms_str item = r->typed.ptr != NULL ? plain_text(r, r->typed) : r->typed;
    r->typed = ms_str_n(NULL, 0);
    if (item.len > 0 && find_bytes(item.ptr, item.len, text.ptr, text.len)) return;
    r->waiting = prompt;
    r->waited = time;
}

/* Compares the prompt of an item with that of the event before. */
static void note_item(reading *r, ms_str content, ms_str text)
{
    ms_str waits = r->waiting.ptr != NULL ? trace_text(r->t, r->waiting) : r->waiting;
    bool same = waits.len > 0 &&
                find_bytes(text.ptr, text.len, waits.ptr, waits.len) != NULL;
    if (same) r->waiting = ms_str_n(NULL, 0);
    else prompt_note(r, ITEM, text);
    r->typed = same ? r->waiting : content;
}

/* Adds usage. Totals that fall have started again, so then the last call's own usage
 * counts. */
static void take_totals(reading *r, ms_str info, double when)
{
    ms_str all = member(info, "total_token_usage");
    ms_str last = member(info, "last_token_usage");
    if (!is_object(all)) return;
    use now = totals_of(r, all), added = now, *old = &r->total;
    bool falls = now.input < old->input || now.output < old->output;
    if (falls && is_object(last)) added = totals_of(r, last);
    if (!falls) {
        added.input -= old->input;
        added.output -= old->output;
        added.cached = now.cached > old->cached ? now.cached - old->cached : 0;
        added.reasoning = now.reasoning > old->reasoning ? now.reasoning - old->reasoning
                                                         : 0;
    }
    *old = now;
    if (r->replays && when > 0 && when - r->began < 1.0) return;
    added.model = trace_text(r->t, r->model);
    trace_use(r->t, &added);
}

static void take_event(reading *r, ms_str event, ms_str time, double when)
{
    ms_str type = member(event, "type");
    if (text_is(type, "token_count")) take_totals(r, member(event, "info"), when);
    else if (text_is(type, "thread_rolled_back")) {
        trace_take_back_prompts(r->t, count_of(member(event, "num_turns")));
    } else if (text_is(type, "user_message")) {
        take_prompt(r, event, time);
    } else if (text_is(type, "task_started")) {
        r->turn = member(event, "turn_id");
    } else if (text_is(type, "thread_name_updated")) {
        trace_fact(r->t, "title", trace_text(r->t, member(event, "thread_name")));
    }
    trace_left_out(r->t, MS_STR("event_msg"));
}

/* Reads an output: {"output": text}, {"output": {"content", "success"}}, {"output":
 * [parts]}, or JSON text of {"output", "metadata": {"exit_code"}}. */
static ms_envelope output_of(reading *r, ms_str given)
{
    bool failed = is_kind(member(given, "success"), MS_JSON_FALSE);
    ms_str inner = is_object(given) ? member(given, "content") : given, value;
    ms_value said = said_by(r, inner.ptr != NULL ? inner : given);
    if (!said.json && said.text.len > 10 && said.text.ptr[0] == '{' &&
        ms_json_check(said.text, NULL, &value, NULL) == MS_OK) {
        ms_str text = member(value, "output");
        failed = failed || number_of(member_at(value, "metadata.exit_code")) > 0;
        if (is_kind(text, MS_JSON_STRING)) said = ms_text_n(trace_text(r->t, text));
    }
    return result_message(said, failed);
}

/* Returns the text of a reasoning: its content, or if empty its summary. */
static ms_envelope reasoning_of(reading *r, const ms_str *p)
{
    ms_str text = plain_text(r, p[P_CONTENT]);
    if (text.ptr == NULL) text = plain_text(r, p[P_SUMMARY]);
    return ms_message(MS_T_REASONING, ms_text_n(text.ptr != NULL ? text : MS_STR("")));
}

static ms_envelope message_of(reading *r, const ms_str *p)
{
    ms_value said = said_by(r, p[P_CONTENT]);
    if (text_is(p[P_ROLE], "assistant")) return ms_assistant_message(said);
    if (text_is(p[P_ROLE], "user")) return ms_user_message(said);
    return text_message(trace_text(r->t, p[P_ROLE]), said);
}

/* Reads a call in any form of Codex's versions; false: the entry is no call. */
static bool item_call(reading *r, const ms_str *p, ms_envelope *m)
{
    ms_str name = p[P_NAME], args = p[P_ARGS];
    if (text_is(p[P_TYPE], "local_shell_call")) {
        name = MS_STR("\"local_shell\"");
        args = p[P_ACTION];
    } else if (text_is(p[P_TYPE], "custom_tool_call")) {
        args = p[P_INPUT];
    } else if (text_is(p[P_TYPE], "web_search_call")) {
        name = MS_STR("\"web_search\"");
        args = p[P_ACTION];
    } else if (text_is(p[P_TYPE], "tool_search_call")) {
        name = MS_STR("\"tool_search\"");
    } else if (text_is(p[P_TYPE], "tool_call")) {
        if (name.ptr == NULL) name = member(p[P_FUNCTION], "name");
        if (args.ptr == NULL) args = member(p[P_FUNCTION], "arguments");
    } else if (!text_is(p[P_TYPE], "function_call")) {
        return false;
    }
    ms_str tool = trace_text(r->t, name);
    *m = action_of(tool, args_of(r, args));
    m->call_id = trace_text(r->t, p[P_CALL].ptr != NULL ? p[P_CALL] : p[P_ID]);
    return true;
}

static bool result_of(reading *r, const ms_str *p, ms_envelope *m)
{
    if (text_is(p[P_TYPE], "tool_result")) {
        *m = output_of(r, p[P_RESULT].ptr != NULL ? p[P_RESULT] : p[P_OUTPUT]);
        m->tool = trace_text(r->t, p[P_NAME]);
    } else if (text_is(p[P_TYPE], "function_call_output") ||
               text_is(p[P_TYPE], "custom_tool_call_output") ||
               text_is(p[P_TYPE], "local_shell_call_output") ||
               text_is(p[P_TYPE], "tool_search_output")) {
        *m = output_of(r, p[P_OUTPUT]);
    } else {
        return false;
    }
    m->call_id = trace_text(r->t, p[P_CALL]);
    return true;
}

static ms_str extra_of(reading *r, ms_str item)
{
    static const json_key known[] = {KEY("type"), KEY("role"), KEY("content"),
                                     KEY("name"),
                                KEY("arguments"), KEY("call_id"), KEY("output"),
                                KEY("input"), KEY("function"), KEY("result")};
    leftover all;
    rest_begin(&all, trace_arena(r->t));
    rest_nest(&all, "codex", item, known, COUNT_OF(known));
    return rest_end(&all);
}

/* Returns what another agent wrote to this one. */
static ms_envelope agent_message_of(reading *r, ms_str item, const ms_str *p)
{
    ms_str content = p[P_CONTENT].ptr != NULL ? p[P_CONTENT] : member(item, "text");
    if (content.ptr == NULL) content = p[P_MESSAGE];
    return ms_user_message(said_by(r, content));
}

/* Adds a picture that the provider made, as a call and its result. */
static void put_picture(reading *r, ms_str time, ms_str item, const ms_str *p)
{
    ms_str prompt = member(item, "revised_prompt");
    ms_str picture = text_of(trace_arena(r->t), p[P_RESULT]);
    ms_buf buf = {trace_arena(r->t), NULL, 0, 0};
    json_piece(&buf, "{\"prompt\":");
    json_quoted(&buf, trace_text(r->t, prompt));
    json_piece(&buf, "}");
    ms_envelope m = action_of(MS_STR("image_generation"), ms_json(ms_buf_text(&buf)));
    m.call_id = trace_text(r->t, p[P_ID].ptr != NULL ? p[P_ID] : p[P_CALL]);
    trace_time_iso(r->t, &m, time);
    m.turn_id = trace_text(r->t, r->turn);
    trace_put(r->t, &m);
    ms_str call = m.call_id;
    memset(&buf, 0, sizeof buf);
    buf.arena = trace_arena(r->t);
    json_piece(&buf, "[{\"type\":\"input_image\",\"image_url\":\"data:image/png;base64,");
    ms_buf_write(&buf, picture.ptr, picture.len);
    json_piece(&buf, "\"}]");
    ms_str status = trace_text(r->t, member(item, "status"));
    m = result_message(picture.len > 0 ? ms_json(ms_buf_text(&buf)) : ms_text_n(status),
                       text_is(member(item, "status"), "failed"));
    m.call_id = call;
    m.tool = MS_STR("image_generation");
    trace_time_iso(r->t, &m, time);
    m.turn_id = trace_text(r->t, r->turn);
    trace_put(r->t, &m);
}

static void take_item(reading *r, ms_str time, ms_str item)
{
    ms_str p[P_KEYS], none = {NULL, 0};
    ms_envelope m;
    pick(item, item_keys, P_KEYS, p);
    bool message = text_is(p[P_TYPE], "message") ||
                   (p[P_TYPE].ptr == NULL && p[P_ROLE].ptr != NULL);
    bool user = message && text_is(p[P_ROLE], "user");
    ms_str text = user ? plain_text(r, p[P_CONTENT]) : none;
    bool typed = user && text.len > 0 && !is_scaffold(text);
    if (typed) note_item(r, p[P_CONTENT], text);
    if (!user || typed) put_waiting(r);
    trace_entry(r->t, none, none, typed ? ENTRY_PROMPT : 0);
    if (typed) note_prompt_text(r, text);
    if (text_is(p[P_TYPE], "image_generation_call")) {
        put_picture(r, time, item, p);
        return;
    }
    if (message) m = message_of(r, p);
    else if (text_is(p[P_TYPE], "agent_message")) m = agent_message_of(r, item, p);
    else if (text_is(p[P_TYPE], "reasoning")) m = reasoning_of(r, p);
    else if (!item_call(r, p, &m) && !result_of(r, p, &m)) {
        if (text_is(p[P_TYPE], "ghost_snapshot") || text_is(p[P_TYPE], "compaction") ||
            text_is(p[P_TYPE], "context_compaction")) {
            trace_left_out(r->t, trace_text(r->t, p[P_TYPE]));
        } else {
            memset(&m, 0, sizeof m);
            trace_time_iso(r->t, &m, time);
            trace_unknown_at(r->t, &m, trace_text(r->t, p[P_TYPE]), item);
        }
        return;
    }
    trace_time_iso(r->t, &m, time);
    m.turn_id = trace_text(r->t, r->turn);
    m.extra = extra_of(r, item);
    trace_put(r->t, &m);
}

/* Returns the text of a compaction for readers that do not take its items: the texts of
 * users and assistants among them, and the summary. Absent if the summary is not
 * readable: then the earlier messages say more. */
static ms_str summary_of(reading *r, ms_str summary, ms_str items)
{
    ms_buf buf = {trace_arena(r->t), NULL, 0, 0};
    bool summed = false;
    ms_json_iter it = ms_json_iterate(items);
    if (summary.len == 0) return ms_str_n(NULL, 0);
    while (is_kind(items, MS_JSON_ARRAY) && ms_json_next(&it)) {
        ms_str role = member(it.value, "role");
        if (!text_is(role, "user") && !text_is(role, "assistant")) continue;
        ms_str text = plain_text(r, member(it.value, "content"));
        if (text.len == 0) continue;
        summed = summed || find_bytes(text.ptr, text.len, summary.ptr, summary.len);
        if (buf.len > 0) json_piece(&buf, "\n\n");
        ms_buf_write(&buf, text.ptr, text.len);
    }
    if (!summed && buf.len > 0) json_piece(&buf, "\n\n");
    if (!summed) ms_buf_write(&buf, summary.ptr, summary.len);
    return ms_buf_text(&buf);
}

/* Returns whether only the model that made an item reads it. */
static bool is_sealed(ms_str items)
{
    ms_json_iter it = ms_json_iterate(items);
    while (is_kind(items, MS_JSON_ARRAY) && ms_json_next(&it)) {
        if (member(it.value, "encrypted_content").ptr != NULL) return true;
    }
    return false;
}

/* Reads a compaction: replacement_history is the context from then on; older files have
 * the summary alone. */
static void take_compacted(reading *r, ms_str time, ms_str payload)
{
    compaction c;
    ms_envelope like;
    ms_str none = {NULL, 0}, items = member(payload, "replacement_history");
    memset(&c, 0, sizeof c);
    memset(&like, 0, sizeof like);
    put_waiting(r);
    trace_entry(r->t, none, none, 0);
    if (is_kind(items, MS_JSON_ARRAY) && items.len > 2) c.items = items;
    c.text = summary_of(r, trace_text(r->t, member(payload, "message")), c.items);
    if (is_sealed(c.items)) c.model = trace_text(r->t, r->model);
    if (c.text.len == 0 && c.items.ptr == NULL) {
        trace_left_out(r->t, MS_STR("compacted"));
        return;
    }
    trace_time_iso(r->t, &like, time);
    put_compaction(r, &c, &like, none);
}

static void codex_read(reading *r, ms_str line)
{
    ms_str v[X_KEYS], none = {NULL, 0};
    ms_envelope when;
    memset(&when, 0, sizeof when);
    pick(line, keys, X_KEYS, v);
    trace_time_iso(r->t, &when, v[X_TIME]);
    if (r->began <= 0 && when.has_time) r->began = (double)when.time_ns / 1e9;
    if (text_is(v[X_TYPE], "session_meta")) {
        if (r->entries == 0 || !r->replays) take_meta(r, v[X_PAYLOAD]);
    } else if (text_is(v[X_TYPE], "response_item")) {
        take_item(r, v[X_TIME], v[X_PAYLOAD]);
        return;
    } else if (text_is(v[X_TYPE], "event_msg")) {
        double seconds = when.has_time ? (double)when.time_ns / 1e9 : 0;
        take_event(r, v[X_PAYLOAD], v[X_TIME], seconds);
        return;
    } else if (text_is(v[X_TYPE], "compacted")) {
        take_compacted(r, v[X_TIME], v[X_PAYLOAD]);
        return;
    } else if (text_is(v[X_TYPE], "turn_context")) {
        r->model = member(v[X_PAYLOAD], "model");
        trace_fact(r->t, "model", trace_text(r->t, r->model));
        ms_str turn = member(v[X_PAYLOAD], "turn_id");
        if (turn.ptr != NULL) r->turn = turn;
    } else if (!text_is(v[X_TYPE], "world_state") &&
               !text_is(v[X_TYPE], "inter_agent_communication_metadata")) {
        trace_entry(r->t, none, none, 0);
        trace_unknown(r->t, trace_text(r->t, v[X_TYPE]), line);
        return;
    }
    trace_left_out(r->t, trace_text(r->t, v[X_TYPE]));
}

const fileformat codex_format = {
    "codex", "OpenAI Codex", "0.50, 0.106, 0.125",
    ".codex/sessions,.codex/archived_sessions",
    FILE_LINES, TREE_NONE, codex_shows, codex_read, put_waiting,
};
