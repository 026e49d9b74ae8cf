/* See transcripts.h. */

#define _GNU_SOURCE
#include "transcripts.h"

#include <stdio.h>
#include <string.h>

/* Says what is wrong with which member. */
static ms_result transcript_wrong(ms_reader *r, ms_result code, const char *path,
                                  const char *expected)
{
    char text[400];
    snprintf(text, sizeof text, "%.95s: %.300s", path, expected);
    ms_error_set(r->err, code, text);
    if (r->err != NULL) snprintf(r->err->path, sizeof r->err->path, "%s", path);
    return code;
}

static ms_result transcript_no_memory(ms_reader *r)
{
    return ms_error_set(r->err, MS_E_NO_MEMORY, "no memory for this message");
}

/* A member that is a text, decoded; absent when there is none or it is something else. */
static ms_str transcript_text(ms_reader *r, ms_str object, const char *name)
{
    ms_str value, text = {NULL, 0};
    if (ms_json_member(object, ms_str_of(name), &value)) {
        ms_json_string(value, r->arena, &text);
    }
    return text;
}

static bool transcript_is(ms_str object, const char *name, const char *word)
{
    ms_str value;
    return ms_json_member(object, ms_str_of(name), &value) &&
           ms_json_string_is(value, ms_str_of(word));
}


/* ---- What no field stands for ------------------------------------------------------ */

/* An object that is being put together. */
typedef struct transcript_rest {
    ms_buf buf;
    ms_json_writer json;
    ms_arena *arena;
    size_t members;
} transcript_rest;

static void transcript_rest_begin(transcript_rest *rest, ms_arena *arena)
{
    memset(rest, 0, sizeof *rest);
    rest->arena = rest->buf.arena = arena;
    ms_json_init(&rest->json, ms_buf_write, &rest->buf, false);
    ms_json_begin_object(&rest->json);
}

/* Is it one of the names, which end with NULL? */
static bool transcript_named(ms_str key, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (ms_json_string_is(key, ms_str_of(*names))) return true;
    }
    return false;
}

/* Adds the members of an object, but for those named. */
static void transcript_rest_add(transcript_rest *rest, ms_str object,
                                const char *const *but)
{
    ms_str name;
    ms_json_iter it = ms_json_iterate(object);
    while (ms_json_next(&it)) {
        if (transcript_named(it.key, but)) continue;
        if (ms_json_string(it.key, rest->arena, &name) != MS_OK) continue;
        ms_json_key(&rest->json, name);
        ms_json_put_raw(&rest->json, it.value);
        rest->members++;
    }
}

/* Adds the same as one member of that name; nothing when none is left. */
static void transcript_rest_nest(transcript_rest *rest, const char *name, ms_str object,
                                 const char *const *but)
{
    size_t before = rest->members;
    bool any = false;
    ms_json_iter it = ms_json_iterate(object);
    while (!any && ms_json_next(&it)) any = !transcript_named(it.key, but);
    if (!any) return;
    ms_json_key(&rest->json, ms_str_of(name));
    ms_json_begin_object(&rest->json);
    transcript_rest_add(rest, object, but);
    ms_json_end_object(&rest->json);
    rest->members = before + 1;
}

/* The object; absent when it has no member. */
static ms_result transcript_rest_end(ms_reader *r, transcript_rest *rest, ms_str *out)
{
    ms_json_end_object(&rest->json);
    *out = ms_str_n(NULL, 0);
    if (ms_json_finish(&rest->json) != MS_OK) return transcript_no_memory(r);
    if (rest->members > 0) *out = ms_buf_text(&rest->buf);
    return MS_OK;
}

/* A JSON value as it is; with repair, cleaned of bad UTF-8. */
static ms_result transcript_json(ms_reader *r, ms_str value, ms_value *out)
{
    ms_json_writer w;
    ms_buf buf = {r->arena, NULL, 0, 0};
    *out = ms_json(value);
    if (!r->repair) return MS_OK;
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_json_put_raw(&w, value);
    if (ms_json_finish(&w) != MS_OK) return transcript_no_memory(r);
    *out = ms_json(ms_buf_text(&buf));
    return MS_OK;
}


/* ---- A list of envelopes that one line becomes ------------------------------------- */

/* Read leniently, a line that does not fit is kept whole. */
static ms_result transcript_whole(ms_reader *r, ms_result code, ms_envelopes *out)
{
    ms_value line;
    if (code == MS_OK || !r->lenient || code == MS_E_NO_MEMORY) return code;
    out->items = ms_arena_alloc(r->arena, sizeof *out->items);
    if (out->items == NULL || transcript_json(r, r->json, &line) != MS_OK) {
        out->count = 0;
        return transcript_no_memory(r);
    }
    out->count = 1;
    out->items[0] = ms_other(MS_STR("transcript_line"), line);
    return MS_OK;
}

/* "2025-11-20T23:33:50.805Z" in a member of the line. */
static bool transcript_time(ms_reader *r, const char *name, int64_t *ns)
{
    ms_str text = transcript_text(r, r->json, name);
    return text.ptr != NULL && ms_iso_read(text, ns) == MS_OK;
}

/* All of one line have its time; all but the first are joined to it. */
static void transcript_join(ms_envelopes *list, bool timed, int64_t ns)
{
    for (size_t i = 0; i < list->count; i++) {
        list->items[i].has_time = timed;
        list->items[i].time_ns = timed ? ns : 0;
        if (i > 0) list->items[i].flags |= MS_FLAG_JOINED;
    }
}


/* ---- pi ---------------------------------------------------------------------------- */

/* A list of one plain text part says that text; else it stays as it is. */
static ms_result pi_said(ms_reader *r, ms_str content, ms_value *out)
{
    static const char *const plain[] = {"type", "text", NULL};
    ms_str part = content, other;
    ms_json_kind kind = ms_json_kind_of(content);
    bool list = kind == MS_JSON_ARRAY;
    if (!list && kind != MS_JSON_STRING) {
        return transcript_wrong(r, MS_E_KIND, "message.content",
                                "a text or a list of parts was expected");
    }
    *out = ms_text("");
    if (list && !ms_json_element(content, 0, &part)) return MS_OK;
    bool one = list && !ms_json_element(content, 1, &other) &&
               transcript_is(part, "type", "text");
    ms_json_iter it = ms_json_iterate(part);
    while (one && ms_json_next(&it)) one = transcript_named(it.key, plain);
    ms_str text = one ? transcript_text(r, part, "text") : ms_str_n(NULL, 0);
    if (!list) ms_json_string(content, r->arena, &text);
    *out = ms_text_n(text);
    return text.ptr != NULL ? MS_OK : transcript_json(r, content, out);
}

/* {"type": "toolCall", "id": s, "name": s, "arguments": {}} */
static ms_result pi_call(ms_reader *r, ms_str part, ms_envelope *m)
{
    static const char *const known[] = {"type", "id", "name", "arguments", NULL};
    transcript_rest rest;
    ms_str args;
    *m = ms_action(transcript_text(r, part, "name"), ms_json(MS_STR("{}")),
                   ms_str_of(NULL));
    m->call_id = transcript_text(r, part, "id");
    if (m->tool.ptr == NULL || m->call_id.ptr == NULL) {
        return transcript_wrong(r, MS_E_MISSING, "message.content",
                                "a toolCall without a text id or name");
    }
    if (ms_json_member(part, MS_STR("arguments"), &args)) {
        ms_result code = transcript_json(r, args, &m->args);
        if (code != MS_OK) return code;
        if (ms_json_kind_of(args) == MS_JSON_STRING) {
            m->args = ms_text_n(transcript_text(r, part, "arguments"));
        }
    }
    transcript_rest_begin(&rest, r->arena);
    transcript_rest_add(&rest, part, known);
    return transcript_rest_end(r, &rest, &m->call_extra);
}

/* A part of what the assistant said: a text, a thought, a call, or something else, which
 * stays as it is. *known: members that fields stand for; NULL: all of them. */
static ms_result pi_part(ms_reader *r, ms_str part, ms_envelope *m,
                         const char *const **known)
{
    static const char *const of_text[] = {"type", "text", NULL};
    static const char *const of_thought[] = {"type", "thinking", NULL};
    bool thought = transcript_is(part, "type", "thinking");
    *known = NULL;
    if (transcript_is(part, "type", "toolCall")) return pi_call(r, part, m);
    ms_str text = transcript_text(r, part, thought ? "thinking" : "text");
    if (text.ptr != NULL && (thought || transcript_is(part, "type", "text"))) {
        *known = thought ? of_thought : of_text;
        ms_value said = ms_text_n(text);
        *m = thought ? ms_message(MS_T_REASONING, said) : ms_assistant_message(said);
        return MS_OK;
    }
    if (ms_json_kind_of(part) != MS_JSON_OBJECT) {
        return transcript_wrong(r, MS_E_KIND, "message.content",
                                "a part that is no object");
    }
    *m = ms_assistant_message(ms_text(NULL));
    return transcript_json(r, part, &m->content);
}

/* The members of an object that fields stand for: always the first two, the others when
 * they are what they should be. `names` has room for all, and NULL behind them. */
static void pi_fields(ms_str object, bool result, const char **names)
{
    static const struct {
        const char *name;
        ms_json_kind kind;
        bool of_result;
    } fields[] = {
        {"timestamp", MS_JSON_NUMBER, false}, {"isError", MS_JSON_TRUE, true},
        {"isError", MS_JSON_FALSE, true},     {"toolName", MS_JSON_STRING, true},
        {"toolCallId", MS_JSON_STRING, true},
    };
    ms_str value;
    *names++ = "role";
    *names++ = "content";
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (fields[i].of_result && !result) continue;
        if (!ms_json_member(object, ms_str_of(fields[i].name), &value)) continue;
        if (ms_json_kind_of(value) == fields[i].kind) *names++ = fields[i].name;
    }
    *names = NULL;
}

/* What else the line and the message have (in the first envelope of a line), and the
 * part: all but its members `known`, of which NULL means all. */
static ms_result pi_extra(ms_reader *r, ms_str message, bool first, ms_str part,
                          const char *const *known, ms_str *out)
{
    static const char *const of_line[] = {"type", "message", NULL, NULL};
    const char *fields[8], *line[4];
    ms_str id;
    transcript_rest rest;
    bool named = ms_json_member(r->json, MS_STR("id"), &id) &&
                 ms_json_kind_of(id) == MS_JSON_STRING;
    memcpy(line, of_line, sizeof line);
    if (named) line[2] = "id";
    pi_fields(message, transcript_is(message, "role", "toolResult"), fields);
    transcript_rest_begin(&rest, r->arena);
    if (first) transcript_rest_add(&rest, message, fields);
    if (first) transcript_rest_nest(&rest, "pi", r->json, line);
    if (known != NULL) transcript_rest_nest(&rest, "part", part, known);
    return transcript_rest_end(r, &rest, out);
}

/* Parts become messages, a call each, so that calls can be paired with their results. */
static ms_result pi_assistant(ms_reader *r, ms_str message, ms_str content,
                              ms_envelopes *out)
{
    const char *const *known;
    ms_json_iter it = ms_json_iterate(content);
    size_t n = 0;
    ms_result code = MS_OK;
    while (ms_json_next(&it)) n++;
    out->items = ms_arena_alloc(r->arena, (n + 1) * sizeof *out->items);
    if (out->items == NULL) return transcript_no_memory(r);
    it = ms_json_iterate(content);
    while (code == MS_OK && ms_json_next(&it)) {
        ms_envelope *m = &out->items[out->count];
        code = pi_part(r, it.value, m, &known);
        if (code == MS_OK)
            code = pi_extra(r, message, out->count == 0, it.value, known, &m->extra);
        out->count++;
    }
    if (code != MS_OK || n > 0) return code;
    out->count = 1;     /* an aborted turn: nothing was said, but there is an error */
    out->items[0] = ms_assistant_message(ms_text(""));
    if (ms_json_kind_of(content) == MS_JSON_STRING)
        code = pi_said(r, content, &out->items[0].content);
    if (code != MS_OK) return code;
    return pi_extra(r, message, true, content, NULL, &out->items[0].extra);
}

/* What a user said, or a tool. */
static ms_result pi_single(ms_reader *r, ms_str message, ms_str content, bool result,
                           ms_envelopes *out)
{
    ms_str error;
    ms_value said;
    bool bad = ms_json_member(message, MS_STR("isError"), &error) &&
               ms_json_kind_of(error) == MS_JSON_TRUE;
    ms_result code = pi_said(r, content, &said);
    if (code != MS_OK) return code;
    out->items = ms_arena_alloc(r->arena, sizeof *out->items);
    if (out->items == NULL) return transcript_no_memory(r);
    out->count = 1;
    ms_envelope *m = out->items;
    *m = result ? ms_observation(said, ms_str_of(NULL)) : ms_user_message(said);
    if (result && bad) *m = ms_error_message(said, ms_str_n(NULL, 0));
    if (result) {
        m->call_id = transcript_text(r, message, "toolCallId");
        m->tool = transcript_text(r, message, "toolName");
        if (m->call_id.ptr == NULL)
            return transcript_wrong(r, MS_E_MISSING, "message.toolCallId",
                                    "a text was expected");
    }
    return pi_extra(r, message, true, content, NULL, &m->extra);
}

static ms_result pi_message(ms_reader *r, ms_str message, ms_envelopes *out)
{
    int64_t milliseconds, ns = 0;
    ms_str content, stamp;
    if (ms_json_kind_of(message) != MS_JSON_OBJECT)
        return transcript_wrong(r, MS_E_KIND, "message", "an object was expected");
    if (!ms_json_member(message, MS_STR("content"), &content))
        return transcript_wrong(r, MS_E_MISSING, "message.content", "it is missing");
    ms_result code =
        transcript_is(message, "role", "assistant")
            ? pi_assistant(r, message, content, out)
        : transcript_is(message, "role", "user")
            ? pi_single(r, message, content, false, out)
        : transcript_is(message, "role", "toolResult")
            ? pi_single(r, message, content, true, out)
            : transcript_wrong(r, MS_E_TYPE, "message.role",
                               "user, assistant or toolResult was expected");
    if (code != MS_OK) return code;
    bool timed = ms_json_member(message, MS_STR("timestamp"), &stamp) &&
                 ms_json_i64(stamp, &milliseconds) == MS_OK &&
                 milliseconds > 0 && milliseconds <= INT64_MAX / 1000000;
    if (timed) ns = milliseconds * 1000000;
    else timed = transcript_time(r, "timestamp", &ns);
    transcript_join(out, timed, ns);
    out->items[0].id = transcript_text(r, r->json, "id");
    return MS_OK;
}

static ms_result pi_read(ms_reader *r, ms_envelopes *out)
{
    ms_str message;
    memset(out, 0, sizeof *out);
    ms_result code = MS_OK;
    if (transcript_text(r, r->json, "type").ptr == NULL)
        code = transcript_wrong(r, MS_E_MISSING, "type", "a text was expected");
    else if (!transcript_is(r->json, "type", "message")) return MS_OK;
    else if (!ms_json_member(r->json, MS_STR("message"), &message))
        code = transcript_wrong(r, MS_E_MISSING, "message", "it is missing");
    else code = pi_message(r, message, out);
    return transcript_whole(r, code, out);
}


/* ---- claude-code ------------------------------------------------------------------- */

/* The message inside is one of the anthropic format. */
static ms_result claude_inner(ms_reader *r, ms_str message, ms_envelopes *out)
{
    char path[sizeof r->err->path];
    ms_error err;
    ms_read_opts opts = {r->lenient, r->repair};
    const ms_dialect *anthropic = ms_dialect_find(MS_STR("anthropic"));
    if (ms_json_kind_of(message) != MS_JSON_OBJECT)
        return transcript_wrong(r, MS_E_KIND, "message", "an object was expected");
    ms_result code = ms_read(anthropic, message, &opts, r->arena, out, &err);
    if (code == MS_OK) return MS_OK;
    transcript_wrong(r, code, "message", err.message);
    if (r->err == NULL) return code;
    const char *dot = err.path[0] != '\0' ? "." : "";
    snprintf(path, sizeof path, "message%s%.80s", dot, err.path);
    memcpy(r->err->path, path, sizeof path);
    if (err.offset < message.len)
        r->err->offset = err.offset + (uint64_t)(message.ptr - r->json.ptr);
    return code;
}

/* A side chain is the work of another agent. */
static ms_str claude_agent(ms_reader *r)
{
    ms_str value, agent = {NULL, 0};
    bool side = ms_json_member(r->json, MS_STR("isSidechain"), &value) &&
                ms_json_kind_of(value) == MS_JSON_TRUE;
    if (side) agent = transcript_text(r, r->json, "agentId");
    return side && agent.len == 0 ? MS_STR("sidechain") : agent;
}

/* What the line says of where and when its message belongs, and all else. */
static ms_result claude_place(ms_reader *r, ms_envelopes *out)
{
    static const char *const fields[] = {"type", "message", "uuid", "sessionId", NULL};
    static const char *const none[] = {NULL};
    int64_t ns = 0;
    transcript_rest rest;
    bool timed = transcript_time(r, "timestamp", &ns);
    ms_str place = transcript_text(r, r->json, "sessionId"), agent = claude_agent(r);
    transcript_join(out, timed, ns);
    for (size_t i = 0; i < out->count; i++) {
        if (place.len > 0) out->items[i].location = place;
        if (agent.len > 0) out->items[i].agent_key = agent;
    }
    ms_str uuid = transcript_text(r, r->json, "uuid");
    if (uuid.ptr != NULL) out->items[0].id = uuid;
    transcript_rest_begin(&rest, r->arena);
    transcript_rest_add(&rest, out->items[0].extra, none);
    transcript_rest_nest(&rest, "claude-code", r->json, fields);
    return transcript_rest_end(r, &rest, &out->items[0].extra);
}

static ms_result claude_read(ms_reader *r, ms_envelopes *out)
{
    ms_str message;
    memset(out, 0, sizeof *out);
    bool speaks = transcript_is(r->json, "type", "user") ||
                  transcript_is(r->json, "type", "assistant");
    ms_result code = MS_OK;
    if (transcript_text(r, r->json, "type").ptr == NULL)
        code = transcript_wrong(r, MS_E_MISSING, "type", "a text was expected");
    else if (!speaks) return MS_OK;
    else if (!ms_json_member(r->json, MS_STR("message"), &message))
        code = transcript_wrong(r, MS_E_MISSING, "message", "it is missing");
    else code = claude_inner(r, message, out);
    if (code == MS_OK && out->count > 0) code = claude_place(r, out);
    return transcript_whole(r, code, out);
}

const ms_dialect transcripts[TRANSCRIPTS] = {
    {"pi", NULL, NULL, false, false, pi_read, NULL},
    {"claude-code", NULL, NULL, false, false, claude_read, NULL},
};

const ms_dialect *transcript_find(ms_str name)
{
    for (size_t i = 0; i < sizeof transcripts / sizeof transcripts[0]; i++) {
        if (ms_str_equal(ms_str_of(transcripts[i].name), name)) return &transcripts[i];
    }
    return NULL;
}
