/* The real conversations of the test data, each as a list of OpenAI chat messages over
 * jansson: tau-bench airline as it is, SWE-agent trajectories without the members that
 * chat messages do not have, and the pi session translated. They are what happened, not
 * what a provider takes: ids come again, calls stay unanswered. Define _POSIX_C_SOURCE
 * 200809L before any include.
 *
 *     trace traces[TRACES_MOST];
 *     size_t n = traces_load(traces, TRACES_MOST);
 *     ... traces[i].name, traces[i].messages ...
 *     traces_free(traces, n);
 */

#ifndef TRACES_H
#define TRACES_H

#include "support.h"

#include <dirent.h>
#include <jansson.h>

#define TRACES_MOST 256

typedef struct trace {
    char name[64];        /* "tau-bench[17]", "pi-session", the end of a file's name */
    json_t *messages;
} trace;

typedef struct trace_list {
    trace *items;
    size_t count, cap;
} trace_list;

/* Takes over the messages; drops them when there is no room. */
static inline void trace_add(trace_list *out, const char *name, json_t *messages)
{
    size_t len = strlen(name), most = sizeof out->items->name - 1;
    if (out->count == out->cap || messages == NULL) {
        json_decref(messages);
        return;
    }
    trace *t = &out->items[out->count++];
    snprintf(t->name, sizeof t->name, "%s", name + (len > most ? len - most : 0));
    t->messages = messages;
}

/* The JSON of a file; a file that is there and is no JSON fails the test. */
static inline json_t *trace_file(const char *path)
{
    json_error_t err;
    size_t size;
    char *text = read_file(path, &size);
    if (text == NULL) return NULL;
    json_t *value = json_loadb(text, size, JSON_ALLOW_NUL, &err);
    free(text);
    if (value == NULL) fail_msg("%s: %s at line %d", path, err.text, err.line);
    return value;
}


/* ---- tau-bench: as it is ---- */

static inline void traces_tau_bench(trace_list *out)
{
    char path[512], name[64];
    json_t *record;
    size_t i;
    if (!shared_path(path, sizeof path, "data/tau-bench-airline/gpt-4o-airline.json"))
        return;
    json_t *records = trace_file(path);
    json_array_foreach (records, i, record) {
        snprintf(name, sizeof name, "tau-bench[%lu]", (unsigned long)i);
        trace_add(out, name, json_incref(json_object_get(record, "traj")));
    }
    json_decref(records);
}


/* ---- SWE-agent: known members only ---- */

/* A member unless it is null. */
static inline json_t *trace_get(json_t *from, const char *key)
{
    json_t *value = json_object_get(from, key);
    return json_is_null(value) ? NULL : value;
}

/* One message of a history; the result's id is the first of its list of ids. */
static inline json_t *trace_swe_message(json_t *from)
{
    json_t *ids = json_object_get(from, "tool_call_ids"), *calls = json_array(), *call;
    size_t i;
    json_array_foreach (json_object_get(from, "tool_calls"), i, call)
        json_array_append_new(calls, json_pack("{s:O*, s:O*, s:O*}", "id",
                                               trace_get(call, "id"), "type",
                                               trace_get(call, "type"), "function",
                                               trace_get(call, "function")));
    json_t *message = json_pack("{s:O*, s:O*, s:O*, s:O*}", "role", trace_get(from, "role"),
                                "content", trace_get(from, "content"), "tool_calls",
                                i > 0 ? calls : NULL, "tool_call_id",
                                json_array_get(ids, 0));
    json_decref(calls);
    return message;
}

static inline void traces_swe_file(trace_list *out, const char *path, const char *name)
{
    json_t *file = trace_file(path), *messages = json_array(), *message;
    size_t i;
    json_array_foreach (json_object_get(file, "history"), i, message) {
        json_array_append_new(messages, trace_swe_message(message));
    }
    json_decref(file);
    trace_add(out, name, messages);
}

static inline int trace_names_order(const void *a, const void *b)
{
    return strcmp((const char *)a, (const char *)b);
}

/* In the order of the files' names. */
static inline void traces_swe_agent(trace_list *out)
{
    char folder[512], path[800], names[32][256];
    struct dirent *entry;
    size_t count = 0;
    if (!shared_path(folder, sizeof folder, "data/swe-agent-traj")) return;
    DIR *dir = opendir(folder);
    while (dir != NULL && count < 32 && (entry = readdir(dir)) != NULL) {
        const char *end = strrchr(entry->d_name, '.');
        if (end == NULL || strcmp(end, ".traj") != 0) continue;
        snprintf(names[count++], sizeof names[0], "%.255s", entry->d_name);
    }
    if (dir != NULL) closedir(dir);
    qsort(names, count, sizeof names[0], trace_names_order);
    for (size_t i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%.500s/%.255s", folder, names[i]);
        traces_swe_file(out, path, names[i]);
    }
}


/* ---- the pi session: translated ---- */

/* Is it a part of this type? */
static inline bool trace_pi_is(json_t *part, const char *type)
{
    const char *word = json_string_value(json_object_get(part, "type"));
    return word != NULL && strcmp(word, type) == 0;
}

/* The text parts of a list: "" for none, a string for one, a list of parts for more. */
static inline json_t *trace_pi_text(json_t *parts)
{
    json_t *texts = json_array(), *part, *only = NULL;
    size_t i;
    json_array_foreach (parts, i, part) {
        if (!trace_pi_is(part, "text")) continue;
        only = json_object_get(part, "text");
        json_array_append_new(texts, json_pack("{s:s, s:O*}", "type", "text", "text",
                                               trace_get(part, "text")));
    }
    if (json_array_size(texts) > 1) return texts;
    json_decref(texts);
    return only != NULL ? json_incref(only) : json_string("");
}

/* The calls of an assistant message, or NULL. */
static inline json_t *trace_pi_calls(json_t *parts)
{
    json_t *calls = json_array(), *part;
    size_t i;
    json_array_foreach (parts, i, part) {
        if (!trace_pi_is(part, "toolCall")) continue;
        char *args = json_dumps(json_object_get(part, "arguments"), JSON_COMPACT);
        json_array_append_new(
            calls, json_pack("{s:O*, s:s, s:{s:O*, s:s}}", "id", trace_get(part, "id"),
                             "type", "function", "function", "name",
                             trace_get(part, "name"), "arguments",
                             args != NULL ? args : "{}"));
        free(args);
    }
    if (json_array_size(calls) > 0) return calls;
    json_decref(calls);
    return NULL;
}

/* Thinking is left out; a message with nothing in it stays, with content "". */
static inline json_t *trace_pi_message(json_t *from)
{
    json_t *parts = json_object_get(from, "content");
    const char *role = json_string_value(json_object_get(from, "role"));
    bool result = role != NULL && strcmp(role, "toolResult") == 0;
    return json_pack("{s:s, s:o, s:o*, s:O*, s:O*}", "role", result ? "tool" : role,
                     "content", trace_pi_text(parts), "tool_calls", trace_pi_calls(parts),
                     "tool_call_id", result ? json_object_get(from, "toolCallId") : NULL,
                     "name", result ? json_object_get(from, "toolName") : NULL);
}

/* One conversation: the lines that hold a message, in the order of the file. */
static inline void traces_pi_session(trace_list *out)
{
    char path[512], *next;
    size_t size;
    if (!shared_path(path, sizeof path, "data/pi-session/large-session.jsonl")) return;
    char *text = read_file(path, &size);
    json_t *messages = json_array();
    for (char *line = text; line != NULL && *line != '\0'; line = next) {
        size_t len = strcspn(line, "\n");
        json_t *entry = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
        json_t *message = json_object_get(entry, "message");
        next = line + len + (line[len] == '\n');
        if (entry == NULL && len > 0) fail_msg("%s: a line is no JSON", path);
        if (message != NULL)
            json_array_append_new(messages, trace_pi_message(message));
        json_decref(entry);
    }
    free(text);
    trace_add(out, "pi-session", messages);
}


/* ---- all of them ---- */

/* Loads at most cap traces and tells how many: 0, with a line, when no data is there. */
static inline size_t traces_load(trace *out, size_t cap)
{
    trace_list list = {out, 0, cap};
    traces_tau_bench(&list);
    traces_swe_agent(&list);
    traces_pi_session(&list);
    return list.count;
}

static inline void traces_free(trace *t, size_t n)
{
    for (size_t i = 0; i < n; i++) json_decref(t[i].messages);
}

#endif /* TRACES_H */
