/* See read.h. */

#define _GNU_SOURCE
#include "read.h"

#include <stdio.h>
#include <string.h>

ms_value value_of(reading *r, ms_str json)
{
    if (json.ptr == NULL || ms_json_kind_of(json) == MS_JSON_NULL) return ms_text("");
    if (is_kind(json, MS_JSON_STRING)) return ms_text_n(trace_text(r->t, json));
    return ms_json(json);
}

/* Returns the text of a part that is only text. */
static ms_str part_text(ms_str part)
{
    static const json_key keys[] = {KEY("type"), KEY("text"), KEY("content")};
    ms_str v[3], none = {NULL, 0};
    if (is_kind(part, MS_JSON_STRING)) return part;
    pick(part, keys, 3, v);
    bool plain = v[0].ptr == NULL || text_is(v[0], "text") ||
                 text_is(v[0], "input_text") || text_is(v[0], "output_text") ||
                 text_is(v[0], "summary_text") || text_is(v[0], "reasoning_text");
    ms_str text = v[1].ptr != NULL ? v[1] : v[2];
    return plain && is_kind(text, MS_JSON_STRING) ? text : none;
}

bool is_plain(ms_str content)
{
    if (!is_kind(content, MS_JSON_ARRAY)) return is_kind(content, MS_JSON_STRING);
    ms_json_iter it = ms_json_iterate(content);
    while (ms_json_next(&it)) {
        if (part_text(it.value).ptr == NULL) return false;
    }
    return true;
}

ms_value said_by(reading *r, ms_str content)
{
    if (!is_kind(content, MS_JSON_ARRAY)) return value_of(r, content);
    ms_json_iter it = ms_json_iterate(content);
    if (!ms_json_next(&it)) return ms_text("");
    ms_str part = it.value;
    if (ms_json_next(&it)) {
        return is_plain(content) ? ms_text_n(plain_text(r, content)) : ms_json(content);
    }
    ms_str text = part_text(part);
    return text.ptr != NULL ? ms_text_n(trace_text(r->t, text)) : ms_json(content);
}

ms_str plain_text(reading *r, ms_str content)
{
    ms_buf buf = {trace_arena(r->t), NULL, 0, 0};
    size_t n = 0;
    if (is_kind(content, MS_JSON_STRING)) return trace_text(r->t, content);
    ms_json_iter it = ms_json_iterate(content);
    while (is_kind(content, MS_JSON_ARRAY) && ms_json_next(&it)) {
        ms_str text = trace_text(r->t, part_text(it.value));
        if (text.ptr == NULL) continue;
        if (n++ > 0) json_piece(&buf, "\n\n");
        ms_buf_write(&buf, text.ptr, text.len);
    }
    return n > 0 ? ms_buf_text(&buf) : ms_str_n(NULL, 0);
}

ms_envelope text_message(ms_str role, ms_value said)
{
    ms_envelope m = ms_message(MS_T_TEXT, said);
    m.role = ms_role_of_word(role);
    if (m.role == MS_ROLE_OTHER) m.role_name = role;
    return m;
}

ms_envelope action_of(ms_str tool, ms_value args)
{
    return ms_action(tool.len > 0 ? tool : MS_STR("unknown"), args, ms_str_n(NULL, 0));
}

ms_envelope call_of(reading *r, ms_str tool, ms_str args, ms_str id)
{
    ms_envelope m = action_of(trace_text(r->t, tool), args_of(r, args));
    m.call_id = trace_text(r->t, id);
    return m;
}

bool has_more(ms_str object, const char *a, const char *b, const char *c)
{
    ms_json_iter it = ms_json_iterate(object);
    while (is_object(object) && ms_json_next(&it)) {
        bool named = text_is(it.key, a) || text_is(it.key, b) || text_is(it.key, c);
        if (!named && !is_kind(it.value, MS_JSON_NULL)) return true;
    }
    return false;
}

void put_piece(reading *r, ms_envelope *m, ms_str id, bool *first)
{
    bool result = m->type == MS_T_OBSERVATION || m->type == MS_T_ERROR;
    if (*first) m->id = trace_text(r->t, id);
    else if (!result) m->flags |= MS_FLAG_JOINED;
    *first = false;
    trace_put(r->t, m);
}

void put_use(reading *r, const use *u)
{
    trace_fact(r->t, "model", u->model);
    trace_use(r->t, u);
}

ms_envelope result_message(ms_value said, bool failed)
{
    ms_str none = {NULL, 0};
    return failed ? error_message(said, none) : ms_observation(said, none);
}

ms_value args_of(reading *r, ms_str json)
{
    ms_str value;
    if (json.ptr == NULL) return ms_json(MS_STR("{}"));
    if (!is_kind(json, MS_JSON_STRING)) return ms_json(json);
    ms_str text = trace_text(r->t, json);
    static const ms_json_opts field = {MS_FIELD_MAX_DEPTH, false};
    bool object = ms_json_check(text, &field, &value, NULL) == MS_OK && is_object(value);
    return object ? ms_json(value) : ms_text_n(text);
}

void prompt_note(reading *r, unsigned kind, ms_str text)
{
    arrput(r->prompts, hash_bytes(text) + kind);
}

bool prompt_forget(reading *r, unsigned kind, ms_str text)
{
    uint64_t hash = hash_bytes(text) + kind;
    for (size_t i = 0; i < arrlenu(r->prompts); i++) {
        if (r->prompts[i] != hash) continue;
        arrdel(r->prompts, i);
        return true;
    }
    return false;
}


/* ---- Names ------------------------------------------------------------------------- */

/* Names the session after its file, or after the folder if the file has a common name. */
void session_of_path(reading *r)
{
    static const char *const common[] = {"api_conversation_history", "events", "session",
                                         "messages", "trajectory", ".aider.chat.history",
                                         "conversation", "log"};
    ms_str stem = stem_text(r->path);
    bool same = false;
    for (size_t i = 0; i < COUNT_OF(common); i++) {
        same = same || ms_str_equal(stem, ms_str_of(common[i]));
    }
    const char *begin = r->path, *end = stem.ptr - 1;
    if (same && stem.ptr > begin + 1) {
        const char *from = end;
        while (from > begin && from[-1] != '/') from--;
        ms_str folder = ms_str_n(from, (size_t)(end - from));
        if (folder.len > 0 && ms_utf8_check(folder, NULL)) stem = folder;
    }
    trace_session(r->t, stem);
}

bool is_scaffold(ms_str text)
{
    static const char *const begins[] = {"<", "# AGENTS.md", "Caveat:", "[Request inter"};
    for (size_t i = 0; i < COUNT_OF(begins); i++) {
        if (text_begins(text, ms_str_of(begins[i]))) return true;
    }
    return false;
}

void note_prompt_text(reading *r, ms_str text)
{
    if (trace_has_prompt(r->t)) return;
    while (text.len > 0 && (unsigned char)text.ptr[0] <= ' ') {
        text = ms_str_n(text.ptr + 1, text.len - 1);
    }
    if (text.len > 0 && !is_scaffold(text)) trace_first_prompt(r->t);
}

void note_prompt(reading *r, ms_str content)
{
    if (!trace_has_prompt(r->t)) note_prompt_text(r, plain_text(r, content));
}


/* ---- Blocks as Anthropic has them -------------------------------------------------- */

ms_str object_text(reading *r, const char *before, ms_str json, const char *after)
{
    ms_buf buf = {trace_arena(r->t), NULL, 0, 0};
    if (json.ptr == NULL) json = MS_STR("null");
    json_piece(&buf, before);
    ms_buf_write(&buf, json.ptr, json.len);
    json_piece(&buf, after);
    return ms_buf_text(&buf);
}

/* Sets the fields that all messages of a line share. */
static void put_like(reading *r, ms_envelope *m, const ms_envelope *like, ms_str extra,
                     bool joined)
{
    m->has_time = like->has_time;
    m->time_ns = like->time_ns;
    m->agent_key = like->agent_key;
    m->turn_id = like->turn_id;
    if (m->id.ptr == NULL && !joined) m->id = like->id;
    if (m->extra.ptr == NULL) m->extra = extra;
    if (joined) m->flags |= MS_FLAG_JOINED;
    trace_put(r->t, m);
}

void put_compaction(reading *r, const compaction *c, const ms_envelope *like,
                    ms_str extra)
{
    ms_json_writer w;
    ms_buf buf = {trace_arena(r->t), NULL, 0, 0};
    ms_envelope m = *like;
    leftover all;
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    ms_json_key(&w, MS_STR("keep"));
    ms_json_put_u64(&w, c->keep);
    if (c->cause.len > 0) ms_json_key(&w, MS_STR("cause"));
    if (c->cause.len > 0) ms_json_put_string(&w, c->cause);
    if (c->before > 0) ms_json_key(&w, MS_STR("tokens_before"));
    if (c->before > 0) ms_json_put_u64(&w, c->before);
    if (!c->bare) ms_json_key(&w, MS_STR("plain"));
    if (!c->bare) ms_json_put_raw(&w, MS_STR("true"));
    if (c->items.ptr != NULL) ms_json_key(&w, MS_STR("items"));
    if (c->items.ptr != NULL) ms_json_put_raw(&w, c->items);
    ms_json_end(&w);
    if (ms_json_finish(&w) != MS_OK) exit(no_memory());
    ms_str of = ms_buf_text(&buf);
    rest_begin(&all, trace_arena(r->t));
    rest_put(&all, "compaction", of);
    if (c->items.ptr != NULL) {
        ms_buf maker = {trace_arena(r->t), NULL, 0, 0};
        json_piece(&maker, "{\"provider\":\"openai-responses\"");
        if (c->model.len > 0) json_piece(&maker, ",\"model\":");
        if (c->model.len > 0) json_quoted(&maker, c->model);
        json_piece(&maker, "}");
        rest_put(&all, "signed", ms_buf_text(&maker));
    }
    if (extra.ptr != NULL) rest_add(&all, extra, NULL, 0);
    m.type = MS_T_COMPACTION;
    m.content = ms_text_n(c->text.ptr != NULL ? c->text : MS_STR(""));
    m.extra = rest_end(&all);
    trace_put(r->t, &m);
}

void put_by_library(reading *r, const char *name, ms_str json, const ms_envelope *like,
                    ms_str extra)
{
    ms_envelopes list;
    ms_read_opts opts = {true, false};
    const ms_format *format = ms_format_find(ms_str_of(name));
    if (ms_read(format, json, &opts, trace_arena(r->t), &list, NULL) != MS_OK) {
        trace_unknown_at(r->t, like, MS_STR("message"), json);
        return;
    }
    for (size_t i = 0; i < list.count; i++) {
        bool joined = i > 0 || (like->flags & MS_FLAG_JOINED) != 0;
        put_like(r, &list.items[i], like, i == 0 ? extra : ms_str_n(NULL, 0), joined);
    }
}

enum { BLOCK_TYPE, BLOCK_TEXT, BLOCK_ID, BLOCK_NAME, BLOCK_INPUT, BLOCK_CALL,
       BLOCK_CONTENT, BLOCK_ERROR, BLOCK_KEYS };

static const json_key block_keys[] = {KEY("type"), KEY("text"), KEY("id"), KEY("name"),
                                      KEY("input"), KEY("tool_use_id"), KEY("content"),
                                      KEY("is_error")};

/* Returns the result of a call. */
static ms_envelope block_result(reading *r, const ms_str *v)
{
    ms_value said = said_by(r, v[BLOCK_CONTENT]);
    ms_envelope m = result_message(said, is_kind(v[BLOCK_ERROR], MS_JSON_TRUE));
    m.call_id = trace_text(r->t, v[BLOCK_CALL]);
    m.tool = trace_text(r->t, v[BLOCK_NAME]);
    return m;
}

/* Leaves blocks that need no special treatment to the library's format. */
static void put_block(reading *r, bool user, ms_str block, const ms_envelope *like,
                      ms_str extra)
{
    ms_str v[BLOCK_KEYS];
    ms_envelope m;
    bool joined = (like->flags & MS_FLAG_JOINED) != 0;
    pick(block, block_keys, BLOCK_KEYS, v);
    if (text_is(v[BLOCK_TYPE], "text") && is_kind(v[BLOCK_TEXT], MS_JSON_STRING)) {
        ms_value text = ms_text_n(trace_text(r->t, v[BLOCK_TEXT]));
        m = user ? ms_user_message(text) : ms_assistant_message(text);
    } else if (text_is(v[BLOCK_TYPE], "tool_use") && v[BLOCK_NAME].ptr != NULL) {
        m = action_of(trace_text(r->t, v[BLOCK_NAME]), args_of(r, v[BLOCK_INPUT]));
        m.call_id = trace_text(r->t, v[BLOCK_ID]);
    } else if (text_is(v[BLOCK_TYPE], "tool_result")) {
        m = block_result(r, v);
        joined = false;
    } else if (is_object(block) && (text_is(v[BLOCK_TYPE], "thinking") ||
                                    text_is(v[BLOCK_TYPE], "redacted_thinking"))) {
        static const char begin[] = "{\"role\":\"assistant\",\"content\":[";
        ms_str json = object_text(r, begin, block, "]}");
        put_by_library(r, "anthropic", json, like, extra);
        return;
    } else if (is_object(block)) {
        ms_value list = ms_json(object_text(r, "[", block, "]"));
        m = user ? ms_user_message(list) : ms_assistant_message(list);
    } else {
        trace_unknown_at(r->t, like, MS_STR("block"), block);
        return;
    }
    put_like(r, &m, like, extra, joined);
}

/* Results of calls come first in a message. */
static bool has_result(ms_str content)
{
    return text_is(peek_first(content, "type"), "tool_result");
}

void put_blocks(reading *r, bool user, ms_str content, const ms_envelope *like,
                ms_str extra)
{
    ms_envelope next = *like;
    ms_str first = extra;
    bool list = is_kind(content, MS_JSON_ARRAY);
    if (!list || (user && !has_result(content))) {
        ms_value said = said_by(r, content);
        ms_envelope m = user ? ms_user_message(said) : ms_assistant_message(said);
        put_like(r, &m, like, extra, (like->flags & MS_FLAG_JOINED) != 0);
        return;
    }
    ms_json_iter it = ms_json_iterate(content);
    size_t n = 0;
    while (ms_json_next(&it)) {
        put_block(r, user, it.value, &next, first);
        first = ms_str_n(NULL, 0);
        if (!user) next.flags |= MS_FLAG_JOINED;
        n++;
    }
    if (n > 0) return;
    ms_envelope empty = ms_assistant_message(ms_text(""));
    put_like(r, &empty, like, extra, false);
}
