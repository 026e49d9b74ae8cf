/* Inspect AI logs: {version: 2, eval, samples: [{id, epoch, messages}]}. Files .eval
 * are ZIPs whose samples/ID_epoch_N.json have one sample each. The member function of a
 * call is its name. A string "attachment://HASH" refers to the sample's attachments. */

#define _GNU_SOURCE
#include "read.h"

#include <stdio.h>
#include <string.h>

enum { I_ROLE, I_CONTENT, I_CALLS, I_CALL, I_FUNCTION, I_ERROR, I_ID, I_MODEL, I_KEYS };
static const json_key keys[] = {KEY("role"), KEY("content"), KEY("tool_calls"),
                           KEY("tool_call_id"), KEY("function"), KEY("error"), KEY("id"),
                           KEY("model")};

static const char scheme[] = "\"attachment://";

static bool inspect_shows(ms_str doc)
{
    static const json_key names[] = {KEY("version"), KEY("eval"), KEY("samples"),
                                KEY("status")};
    ms_str v[4];
    pick(doc, names, 4, v);
    return v[0].ptr != NULL && is_object(v[1]) &&
           (is_kind(v[2], MS_JSON_ARRAY) || v[3].ptr != NULL);
}

static bool sample_shows(ms_str doc)
{
    static const json_key names[] = {KEY("epoch"), KEY("messages"), KEY("target"),
                                     KEY("id")};
    ms_str v[4];
    pick(doc, names, 4, v);
    return v[0].ptr != NULL && is_kind(v[1], MS_JSON_ARRAY) && v[2].ptr != NULL &&
           v[3].ptr != NULL;
}

/* Returns the end of the string token that begins there. */
static size_t token_end(ms_str json, size_t at)
{
    for (at++; json.ptr[at] != '"'; at++) at += json.ptr[at] == '\\';
    return at + 1;
}

/* Returns the attachment that a string "attachment://HASH" names, else the string. */
static ms_str attachment_of(reading *r, ms_str all, ms_str token)
{
    ms_str value;
    if (token.len < sizeof scheme || memcmp(token.ptr, scheme, sizeof scheme - 1) != 0) {
        return token;
    }
    ms_str name = trace_text(r->t, token);
    name = ms_str_n(name.ptr + sizeof scheme - 2, name.len - sizeof scheme + 2);
    return is_object(all) && ms_json_member(all, name, &value) ? value : token;
}

/* Returns a message with the sample's attachments in the places of their names. */
static ms_str attached(reading *r, ms_str all, ms_str json)
{
    ms_buf buf = {trace_arena(r->t), NULL, 0, 0};
    if (find_bytes(json.ptr, json.len, scheme, sizeof scheme - 1) == NULL) return json;
    for (size_t at = 0, end; at < json.len; at = end) {
        bool string = json.ptr[at] == '"';
        if (string) {
            end = token_end(json, at);
        } else {
            const char *quote = memchr(json.ptr + at, '"', json.len - at);
            end = quote != NULL ? (size_t)(quote - json.ptr) : json.len;
        }
        ms_str piece = ms_str_n(json.ptr + at, end - at);
        bool name = string && end < json.len && json.ptr[end] == ':';
        if (string && !name) piece = attachment_of(r, all, piece);
        ms_buf_write(&buf, piece.ptr, piece.len);
    }
    return ms_buf_text(&buf);
}

/* Returns a list without its thoughts. */
static ms_str without_thoughts(reading *r, ms_str list)
{
    ms_buf buf = {trace_arena(r->t), NULL, 0, 0};
    ms_json_iter it = ms_json_iterate(list);
    json_piece(&buf, "[");
    while (ms_json_next(&it)) {
        if (text_is(member(it.value, "type"), "reasoning")) continue;
        if (buf.len > 1) json_piece(&buf, ",");
        ms_buf_write(&buf, it.value.ptr, it.value.len);
    }
    json_piece(&buf, "]");
    return ms_buf_text(&buf);
}

/* Adds the parts of an assistant: text and thoughts apart. */
static void put_assistant(reading *r, const ms_str *v, ms_str content, bool *first)
{
    ms_envelope m;
    ms_json_iter it = ms_json_iterate(content);
    while (is_kind(content, MS_JSON_ARRAY) && ms_json_next(&it)) {
        if (!text_is(member(it.value, "type"), "reasoning")) continue;
        m = ms_message(MS_T_REASONING, value_of(r, member(it.value, "reasoning")));
        put_piece(r, &m, v[I_ID], first);
    }
    if (!*first) content = without_thoughts(r, content);
    ms_value said = said_by(r, content);
    bool calls = is_kind(v[I_CALLS], MS_JSON_ARRAY) && v[I_CALLS].len > 2;
    m = ms_assistant_message(said);
    if (said.text.len > 0 || (*first && !calls)) put_piece(r, &m, v[I_ID], first);
    it = ms_json_iterate(v[I_CALLS]);
    while (calls && ms_json_next(&it)) {
        ms_str name = member(it.value, "function");
        if (is_object(name)) name = member(name, "name");
        m = call_of(r, name, member(it.value, "arguments"),
                    member(it.value, "id"));
        put_piece(r, &m, v[I_ID], first);
    }
    if (*first) trace_incomplete(r->t, MS_STR("empty message"));
}

static void take_message(reading *r, ms_str attachments, ms_str message)
{
    ms_str v[I_KEYS], none = {NULL, 0};
    bool first = true;
    trace_entry(r->t, member(message, "id"), none, 0);
    pick(attached(r, attachments, message), keys, I_KEYS, v);
    ms_str content = v[I_CONTENT];
    if (text_is(v[I_ROLE], "assistant")) {
        put_assistant(r, v, content, &first);
        return;
    }
    ms_value said = said_by(r, content);
    ms_envelope m = ms_user_message(said);
    if (text_is(v[I_ROLE], "user")) {
        note_prompt(r, content);
    } else if (text_is(v[I_ROLE], "system")) {
        m = ms_message(MS_T_TEXT, said);
    } else if (text_is(v[I_ROLE], "tool")) {
        bool bad = is_object(v[I_ERROR]);
        if (bad && said.text.len == 0) said = value_of(r, member(v[I_ERROR], "message"));
        m = bad ? error_message(said, trace_text(r->t, member(v[I_ERROR], "type")))
                : ms_observation(said, ms_str_n(NULL, 0));
        m.call_id = trace_text(r->t, v[I_CALL]);
        m.tool = trace_text(r->t, v[I_FUNCTION]);
    } else {
        trace_unknown(r->t, trace_text(r->t, v[I_ROLE]), message);
        return;
    }
    put_piece(r, &m, v[I_ID], &first);
}

/* Adds usage. Input includes cached tokens if the total is input plus output alone. */
static void put_usage(reading *r, ms_str usage, ms_str model)
{
    static const char *const names[USE_COUNTS] = {
        "input_tokens", "output_tokens", "input_tokens_cache_read",
        "input_tokens_cache_write", "reasoning_tokens"};
    use u = tokens_in(r->t, usage, names);
    uint64_t total = count_of(member(usage, "total_tokens"));
    if (total != u.input + u.output) u.input += u.cached + u.written;
    u.model = trace_text(r->t, model);
    if (r->said > 0) put_use(r, &u);
    else if (!is_no_use(&u)) trace_incomplete(r->t, MS_STR("usage without an answer"));
}

/* Adds the cost of the sample, by model; in an older log the cost of the last answer. */
static void take_usage(reading *r, ms_str sample)
{
    ms_str models = member(sample, "model_usage"), last = member_at(sample,
                                                                    "output.usage");
    ms_json_iter it = ms_json_iterate(models);
    bool any = false;
    while (is_object(models) && ms_json_next(&it)) {
        put_usage(r, it.value, it.key);
        any = true;
    }
    if (!any && is_object(last)) put_usage(r, last, member_at(sample, "output.model"));
}

/* Names the session "popularity-hj8C8q8g/1.1": task and run, sample and epoch. */
static void name_sample(reading *r, ms_str eval, ms_str sample)
{
    char name[256];
    ms_str id = member(sample, "id"), epoch = member(sample, "epoch");
    ms_str task = clip(trace_text(r->t, member(eval, "task")), 80);
    ms_str run = clip(trace_text(r->t, member(eval, "eval_id")), 8);
    if (task.len == 0) task = clip(stem_text(r->path), 80);
    if (is_kind(id, MS_JSON_STRING)) id = trace_text(r->t, id);
    id = clip(id, 80);
    epoch = clip(epoch, 20);
    int n = snprintf(name, sizeof name, "%.*s%s%.*s/%.*s.%.*s", (int)task.len, task.ptr,
                     run.len > 0 ? "-" : "", (int)run.len, run.ptr != NULL ? run.ptr : "",
                     (int)id.len, id.ptr != NULL ? id.ptr : "", (int)epoch.len,
                     epoch.ptr != NULL ? epoch.ptr : "");
    trace_new_session(r->t, ms_str_n(name, (size_t)n));
    trace_fact(r->t, "agent", MS_STR("inspect"));
    trace_fact(r->t, "task", task);
    trace_fact(r->t, "model", trace_text(r->t, member(eval, "model")));
}

static void take_sample(reading *r, ms_str eval, ms_str sample)
{
    ms_str list = member(sample, "messages"), all = member(sample, "attachments");
    ms_str none = {NULL, 0};
    name_sample(r, eval, sample);
    ms_json_iter it = ms_json_iterate(list);
    for (r->said = 0; is_kind(list, MS_JSON_ARRAY) && ms_json_next(&it); r->said++) {
        take_message(r, all, it.value);
    }
    if (!is_kind(list, MS_JSON_ARRAY)) {
        trace_entry(r->t, none, none, 0);
        trace_unknown(r->t, MS_STR("sample without messages"), sample);
    }
    take_usage(r, sample);
}

static void inspect_read(reading *r, ms_str doc)
{
    ms_str eval = member(doc, "eval"), samples = member(doc, "samples");
    ms_json_iter it = ms_json_iterate(samples);
    while (is_kind(samples, MS_JSON_ARRAY) && ms_json_next(&it)) {
        take_sample(r, eval, it.value);
    }
}

static void sample_read(reading *r, ms_str doc)
{
    ms_str none = {NULL, 0};
    take_sample(r, none, doc);
}

const fileformat inspect_format = {
    "inspect", "Inspect AI", "2", "", FILE_WHOLE, TREE_NONE, inspect_shows, inspect_read,
    NULL,
};
const fileformat inspect_sample_format = {
    "inspect", "Inspect AI", "2 (a sample, .eval)", "", FILE_WHOLE, TREE_NONE,
    sample_shows, sample_read, NULL,
};
