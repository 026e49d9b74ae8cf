/* The tables of formats, tests/formats/NAME.jsonl: an object a line, as the README there
 * has it. */

#ifndef FORMAT_TABLES_H
#define FORMAT_TABLES_H

#include "format_calls.h"
#include "table.h"

typedef struct format_row {
    table_row row;
    const char *format, *from;
    ms_str input;           /* JSON as it is spelled, or any bytes */
    bool body, bytes;
} format_row;

static inline const char *row_says(const format_row *r, const char *name)
{
    return row_text(&r->row, name);
}

static inline json_t *row_has(const format_row *r, const char *name)
{
    return row_get(&r->row, name);
}

/* Reads a table after the *count rows that are there; its text stays until the program
 * ends. */
static inline void load_format_rows(const char *format, format_row *rows, size_t room,
                                    size_t *count)
{
    static table_row lines[400];
    char path[256], prefix[64];
    snprintf(path, sizeof path, "tests/formats/%s.jsonl", format);
    snprintf(prefix, sizeof prefix, "%s/", format);
    size_t n = load_table(path, prefix, lines, COUNT(lines));
    if (*count + n > room) print_error("%s has too many rows\n", path);
    if (*count + n > room) exit(1);
    for (size_t i = 0; i < n; i++) {
        format_row *r = &rows[(*count)++];
        r->row = lines[i];
        r->format = format;
        r->from = row_says(r, "from") != NULL ? row_says(r, "from") : format;
        r->body = row_has(r, "body") != NULL;
        r->bytes = row_has(r, "bytes") != NULL;
        r->input = row_spelled(&r->row, r->body ? "body" : "input");
        if (r->bytes) r->input = bytes_of(row_has(r, "bytes"));
    }
}

/* Returns whether a row is read strictly, as a message of its own format. */
static inline bool is_good_row(const format_row *r)
{
    return row_has(r, "error") == NULL && !r->bytes && !r->body &&
           row_has(r, "deepest") == NULL && r->from == r->format;
}


/* ---- what a format reads comes back ---- */

#define FW "framework"

/* Is all that the source has in what came back? pydantic-ai gives ids to calls. */
static inline bool contains(json_t *got, json_t *source)
{
    const char *key;
    json_t *value;
    size_t i;
    json_array_foreach (source, i, value)
        if (!contains(json_array_get(got, i), value)) return false;
    if (json_is_array(source)) return json_array_size(got) == json_array_size(source);
    if (!json_is_object(source)) return json_same(got, source, 0, NULL);
    json_object_foreach (source, key, value)
        if (!contains(json_object_get(got, key), value)) return false;
    return true;
}

/* Refused, or it comes back: equal, with ids, or in the one form of an envelope. */
static inline bool is_refused_or_comes_back(const char *format, ms_str json, unsigned how)
{
    ms_envelopes list;
    ms_error err;
    unsigned opts = (is_list(json) ? ARRAY : LINES) |
                    (strcmp(format, FW) == 0 ? PLACES : 0); /* else it adds a member */
    if (try_read(format, json, how, &list, &err) != MS_OK) return false;
    for (size_t i = 0; i < list.count; i++)
        must(test_envelope_check(&list.items[i], &err), &err);
    ms_str text = written(format, &list, opts);
    same_text(written(format, &list, opts | ENCODED), text);
    json_t *got = json_parse_n(text.ptr, text.len);
    json_t *source = json_parse_n(json.ptr, json.len);
    /* jansson takes no number over 10^308; the input has it then, too */
    if (got == NULL && (source != NULL || ms_json_check(text, NULL, NULL, &err) != MS_OK))
        fail_msg("%s writes no JSON: %.*s", format, (int)text.len, text.ptr);
    if (strcmp(format, "envelope") == 0) {
        list = reads("envelope-rows", json, how); /* which are read alike */
        same_text(written(format, &list, opts), text);
        list = reads(format, text, how & LENIENT);
        same_text(written(format, &list, opts), text);
    } else if (source != NULL && !contains(got, source)) {
        fail_msg("%s\n   got %.*s\nsource %.*s", format, (int)text.len, text.ptr,
                 (int)json.len, json.ptr);
    } else if (source != NULL && strcmp(format, "pydantic-ai") != 0) {
        same_json(format, text, json);
    }
    json_decref(got);
    json_decref(source);
    return true;
}


/* ---- random texts and objects ---- */

#define PICK(rng, list) (list)[test_below(rng, COUNT(list))]

/* Values, and names of members, that mean something in some format. */
static const char *const special_values[] = {
    "null", "true", "7", "\"\"", "\"x\"", "\"\\u0041\"", "[]", "{}", "[\"a\"]",
    "[{\"type\":\"text\"}]", "{\"items\":[{}]}", "\"2024-01-01T00:00:00Z\"", "\"{}\"",
    "-0.125", "1e300", "9223372036854775807", "false", "[[],{\"a b\":null}]",
    "{\"type\":7,\"content\":{\"text\":[\"a\",true]}}",
    "[{\"type\":\"summary_text\",\"text\":\"a\"}]", "\"reasoning\"", "\"shell_call\"",
    "[{\"text\":\"a\",\"type\":\"output_text\"},{\"text\":\"\",\"x\":1}]",
};

static const char *const special_names[] = {
    "type", "role", "content", "tool", "args", "call", "id", "timestamp", "joined",
    "tool_calls", "tool_call_id", "name", "function_call", "metadata", "msgstore",
    "created_at", "tool_name", "tool_arguments", "task_id", "author", "is_error",
    "summary", "parameters", "extra", "parts", "updated_at", "streaming_status", "q",
    "location", "idempotency_key", "schema", "payload", "items", "text", "kind", "input",
    "functionCall", "functionResponse", "response", "result", "error", "thinking",
    "thought", "part_kind", "outcome", "tool_use_id", "cache_control", "agent_key",
    "turn_id", "call_id", "arguments", "output", "action", "phase", "", "a b", "\xc3\xa9", "\"", "a.b",
};

/* Returns a text, most often of parts that mean something somewhere. */
static inline json_t *json_random_text(uint64_t *rng)
{
    static const char *const parts[] = {
        "", "a", "word ", "\n", "\"", "\\", "{\"a\":1}", "[", "null", "\t\r\b\f", "\x01",
        "\x7f", "\xc3\xa9", "\xe2\x80\xa8", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf",
        "\xef\xbf\xbd", "Error: ", "c1", "2026-04-28 12:00:00", "{}", "call_1", "</x>",
    };
    char text[256];
    size_t n = 0;
    for (size_t left = (size_t)test_below(rng, 5); left > 0; left--) {
        const char *part = PICK(rng, parts);
        memcpy(text + n, part, strlen(part));
        n += strlen(part);
        if (test_one_in(rng, 40)) text[n++] = '\0';
    }
    return json_stringn(text, n);
}

static inline json_t *json_random_value(uint64_t *rng)
{
    const char *special = PICK(rng, special_values);
    return test_one_in(rng, 3) ? json_random_text(rng)
                               : json_parse_n(special, strlen(special));
}

/* Returns an object of up to three members, one of which may be such an object. */
static inline json_t *json_random_object(uint64_t *rng)
{
    json_t *object = json_object();
    for (size_t left = (size_t)test_below(rng, 4); left > 0; left--)
        json_object_set_new(object, PICK(rng, special_names),
                            test_one_in(rng, 5) ? json_random_object(rng)
                                                : json_random_value(rng));
    return object;
}

/* Returns the characters of a string, in the test's arena. Gives the string back. */
static inline ms_str text_in(json_t *string)
{
    ms_str text = ms_str_n(json_string_value(string), json_string_length(string));
    text = joined("", text, "");
    json_decref(string);
    return text;
}

/* Returns the JSON text of a value, in the test's arena; a value that is NULL has none.
 * Gives the value back. */
static inline ms_str text_of_json(json_t *value, size_t flags)
{
    char *text = json_dumps(value, flags | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    ms_str copy = text != NULL ? joined("", ms_str_of(text), "") : ms_str_n(NULL, 0);
    free(text);
    json_decref(value);
    return copy;
}

#endif /* FORMAT_TABLES_H */
