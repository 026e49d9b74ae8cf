/* See mcp.h. */

#define _GNU_SOURCE
#include "mcp.h"
#include "near.h"
#include "secrets.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Protocol versions, newest first. Since 2026-07-28 each request names its version; with
 * older ones the client begins with initialize. */
static const char *const versions[] = {"2026-07-28", "2025-11-25", "2025-06-18",
                                       "2025-03-26", "2024-11-05"};
enum { FIRST_SESSION = 1 }; /* of versions: from here on there is initialize */

enum {
    BAD_JSON = -32700, BAD_REQUEST = -32600, NO_METHOD = -32601, BAD_PARAMS = -32602,
    INTERNAL = -32603, BAD_VERSION = -32022,
};

#define META "io.modelcontextprotocol/"

typedef struct server {
    const mcp_server *desc;
    output *out;
    ms_arena arena;           /* of one request */
    const char *version;      /* that initialize agreed on; NULL: it was not called */
    ms_str id;                /* of the request, as JSON; absent: a notification, or not
                                 known */
    bool modern;              /* the request names its version */
    bool batch, answered;     /* in an array of requests, of which one was answered */
} server;


/* ---- Answers ----------------------------------------------------------------------- */

static void put_text(ms_json_writer *w, const char *name, const char *text)
{
    ms_json_key(w, ms_str_of(name));
    ms_json_put_string(w, ms_str_of(text));
}

static void put_raw(ms_json_writer *w, const char *name, const char *json)
{
    ms_json_key(w, ms_str_of(name));
    ms_json_put_raw(w, ms_str_of(json));
}

static void put_number(ms_json_writer *w, const char *name, uint64_t number)
{
    ms_json_key(w, ms_str_of(name));
    ms_json_put_u64(w, number);
}

static void begin_object(ms_json_writer *w, const char *name)
{
    if (name != NULL) ms_json_key(w, ms_str_of(name));
    ms_json_begin(w, MS_JSON_OBJECT);
}

static void begin_array(ms_json_writer *w, const char *name)
{
    ms_json_key(w, ms_str_of(name));
    ms_json_begin(w, MS_JSON_ARRAY);
}

static void message_begin(server *s, ms_json_writer *w)
{
    if (s->batch) emit_text(s->out, s->answered ? "," : "[");
    s->answered = true;
    ms_json_init(w, emit, s->out, false);
    begin_object(w, NULL);
    put_text(w, "jsonrpc", "2.0");
}

static void message_end(server *s, ms_json_writer *w)
{
    ms_json_end(w);
    ms_json_finish(w);
    if (!s->batch) emit_text(s->out, "\n");
}

static void answer_begin(server *s, ms_json_writer *w)
{
    message_begin(s, w);
    ms_json_key(w, MS_STR("id"));
    ms_json_put_raw(w, s->id.ptr != NULL ? s->id : MS_STR("null"));
}

static void put_versions(ms_json_writer *w, const char *name, size_t n)
{
    begin_array(w, name);
    for (size_t i = 0; i < n; i++) ms_json_put_string(w, ms_str_of(versions[i]));
    ms_json_end(w);
}

/* Answers with an error. text may have a word that the client sent. */
static void refuse(server *s, int code, const char *text, ms_str word)
{
    ms_json_writer w;
    char number[16], full[400];
    int len = (int)(word.len < 200 ? word.len : 200);
    snprintf(full, sizeof full, "%s%.*s", text, len, len > 0 ? word.ptr : "");
    snprintf(number, sizeof number, "%d", code);
    answer_begin(s, &w);
    begin_object(&w, "error");
    put_raw(&w, "code", number);
    put_text(&w, "message", full);
    if (code == BAD_VERSION) {
        begin_object(&w, "data");
        put_versions(&w, "supported", COUNT_OF(versions));
        ms_json_key(&w, MS_STR("requested"));
        ms_json_put_string(&w, ms_str_n(word.ptr, (size_t)len));
        ms_json_end(&w);
    }
    ms_json_end(&w);
    message_end(s, &w);
}

static void put_server_info(ms_json_writer *w, const char *name)
{
    begin_object(w, name);
    put_text(w, "name", "msgstore");
    put_text(w, "version", MSGSTORE_VERSION);
    ms_json_end(w);
}

static void result_begin(server *s, ms_json_writer *w)
{
    answer_begin(s, w);
    begin_object(w, "result");
    if (!s->modern) return;
    put_text(w, "resultType", "complete");
    begin_object(w, "_meta");
    put_server_info(w, META "serverInfo");
    ms_json_end(w);
}

static void result_end(server *s, ms_json_writer *w)
{
    ms_json_end(w);
    message_end(s, w);
}

/* Writes how long a client may keep the result: there is one list of tools. */
static void put_caching(server *s, ms_json_writer *w)
{
    if (!s->modern) return;
    put_raw(w, "ttlMs", "3600000");
    put_text(w, "cacheScope", "private");
}


/* ---- Tools and their arguments ----------------------------------------------------- */

static void put_words(ms_json_writer *w, const char *words)
{
    begin_array(w, "enum");
    while (*words != '\0') {
        size_t len = strcspn(words, " ");
        ms_json_put_string(w, ms_str_n(words, len));
        words += len + (words[len] == ' ');
    }
    ms_json_end(w);
}

static void put_arg(ms_json_writer *w, const mcp_arg *arg)
{
    begin_object(w, arg->name);
    put_text(w, "type", arg->kind == MCP_INTEGER ? "integer" : "string");
    put_text(w, "description", arg->text);
    if (arg->kind == MCP_WORD) {
        put_words(w, arg->words);
        ms_json_key(w, MS_STR("default"));
        ms_json_put_string(w, ms_str_n(arg->words, strcspn(arg->words, " ")));
    } else if (arg->kind == MCP_INTEGER) {
        put_number(w, "minimum", arg->least);
        put_number(w, "maximum", arg->most);
        if (arg->usual >= arg->least) put_number(w, "default", arg->usual);
    } else {
        put_number(w, "minLength", arg->least);
        put_number(w, "maxLength", arg->most);
    }
    ms_json_end(w);
}

static void put_tool(ms_json_writer *w, const mcp_tool *tool)
{
    begin_object(w, NULL);
    put_text(w, "name", tool->name);
    put_text(w, "title", tool->title);
    put_text(w, "description", tool->text);
    begin_object(w, "inputSchema");
    put_text(w, "type", "object");
    begin_object(w, "properties");
    for (size_t i = 0; i < tool->n_args; i++) put_arg(w, &tool->args[i]);
    ms_json_end(w);
    begin_array(w, "required");
    for (size_t i = 0; i < tool->n_args; i++) {
        if (tool->args[i].needed) ms_json_put_string(w, ms_str_of(tool->args[i].name));
    }
    ms_json_end(w);
    put_raw(w, "additionalProperties", "false");
    ms_json_end(w);
    begin_object(w, "annotations");
    put_text(w, "title", tool->title);
    put_raw(w, "readOnlyHint", "true");
    put_raw(w, "destructiveHint", "false");
    put_raw(w, "idempotentHint", "true");
    put_raw(w, "openWorldHint", "false");
    ms_json_end(w);
    ms_json_end(w);
}

static size_t characters(ms_str text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        n += ((unsigned char)text.ptr[i] & 0xC0) != 0x80;
    }
    return n;
}

static bool is_word_of(const char *words, ms_str word)
{
    while (*words != '\0') {
        size_t len = strcspn(words, " ");
        if (ms_str_equal(ms_str_n(words, len), word)) return true;
        words += len + (words[len] == ' ');
    }
    return false;
}

/* Reads an integer of JSON: 20 and 20.0 are equal. */
static bool integer_of(ms_str json, uint64_t *number)
{
    if (!is_kind(json, MS_JSON_NUMBER)) return false;
    if (ms_json_u64(json, number) == MS_OK) return true;
    double value = 0;
    if (ms_json_f64(json, &value) != MS_OK || value < 0 || value > 9e15) return false;
    *number = (uint64_t)value;
    return (double)*number == value;
}

static int bad_arg(const mcp_arg *arg)
{
    if (arg->kind == MCP_WORD) complain("%s: expected one of %s", arg->name, arg->words);
    else complain("%s: expected %s from %" PRIu64 " to %" PRIu64 "%s", arg->name,
                  arg->kind == MCP_INTEGER ? "an integer" : "a text", arg->least,
                  arg->most, arg->kind == MCP_INTEGER ? "" : " characters");
    return USAGE;
}

static int take_integer(const mcp_arg *arg, bool good, mcp_value *value)
{
    bool fits = good && value->number >= arg->least && value->number <= arg->most;
    return fits ? FINE : bad_arg(arg);
}

static int take_text(const mcp_arg *arg, ms_str text, ms_arena *arena, mcp_value *value)
{
    bool word = arg->kind == MCP_WORD;
    if (text.ptr == NULL || memchr(text.ptr, '\0', text.len) != NULL) return bad_arg(arg);
    size_t n = characters(text);
    if (word ? !is_word_of(arg->words, text) : n < arg->least || n > arg->most) {
        return bad_arg(arg);
    }
    char *copy = ms_arena_alloc(arena, text.len + 1);
    if (copy == NULL) return no_memory();
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    value->text = copy;
    return FINE;
}

static int take_arg(const mcp_arg *arg, ms_str json, ms_arena *arena, mcp_value *value)
{
    value->given = true;
    if (arg->kind == MCP_INTEGER) {
        bool good = integer_of(json, &value->number);
        return take_integer(arg, good, value);
    }
    return take_text(arg, text_of(arena, json), arena, value);
}

int mcp_take(const mcp_arg *arg, const char *text, ms_arena *arena, mcp_value *value)
{
    memset(value, 0, sizeof *value);
    value->number = arg->usual;
    value->given = text != NULL;
    if (text == NULL && !arg->needed) return FINE;
    if (text == NULL) {
        complain("the argument %s is needed", arg->name);
        return USAGE;
    }
    if (arg->kind == MCP_INTEGER) {
        bool good = parse_number(text, &value->number);
        return take_integer(arg, good, value);
    }
    return take_text(arg, ms_str_of(text), arena, value);
}

static int unknown_arg(const mcp_tool *tool, ms_str name)
{
    char meant[128];
    near_word n = near_begin(name);
    for (size_t i = 0; i < tool->n_args; i++) near_try(&n, ms_str_of(tool->args[i].name));
    complain("%s takes no argument %.*s%s", tool->name,
             (int)(name.len < 100 ? name.len : 100), name.ptr, near_text(&n, meant));
    return USAGE;
}

static int take_args(const mcp_tool *tool, ms_str object, ms_arena *arena,
                     mcp_value *values)
{
    int code = FINE;
    memset(values, 0, MCP_ARGS * sizeof *values);
    for (size_t i = 0; i < tool->n_args; i++) values[i].number = tool->args[i].usual;
    ms_json_iter it = ms_json_iterate(object);
    while (code == FINE && object.ptr != NULL && ms_json_next(&it)) {
        size_t i = 0;
        ms_str name = text_of(arena, it.key);
        while (i < tool->n_args && !ms_str_equal(name, ms_str_of(tool->args[i].name))) {
            i++;
        }
        code = i < tool->n_args ? take_arg(&tool->args[i], it.value, arena, &values[i])
                                : unknown_arg(tool, name);
    }
    for (size_t i = 0; i < tool->n_args && code == FINE; i++) {
        if (!tool->args[i].needed || values[i].given) continue;
        complain("%s needs the argument %s", tool->name, tool->args[i].name);
        code = USAGE;
    }
    return code;
}

static void put_content(ms_json_writer *w, ms_str text)
{
    begin_object(w, NULL);
    put_text(w, "type", "text");
    ms_json_key(w, MS_STR("text"));
    ms_json_put_string(w, text);
    ms_json_end(w);
}

static void call_tool(server *s, const mcp_tool *tool, ms_str arguments)
{
    ms_json_writer w;
    mcp_value values[MCP_ARGS];
    ms_buf answer = {&s->arena, NULL, 0, 0}, said = {&s->arena, NULL, 0, 0};
    complain_into(&said);
    int code = take_args(tool, arguments, &s->arena, values);
    if (code == FINE) code = tool->run(s->desc->ctx, values, &answer);
    complain_into(NULL);
    bool good = is_read(code);
    ms_value text = {ms_buf_text(&answer), true}, words = {ms_buf_text(&said), false};
    if (!good && said.len == 0) words.text = MS_STR("the tool failed");
    if (!secrets_mask(text, s->desc->masked, &s->arena, NULL, NULL, &text) ||
        !secrets_mask(words, s->desc->masked, &s->arena, NULL, NULL, &words)) {
        refuse(s, INTERNAL, "no memory", MS_STR(""));
        return;
    }
    result_begin(s, &w);
    begin_array(&w, "content");
    if (good) put_content(&w, text.text);
    if (words.text.len > 0) put_content(&w, words.text);
    ms_json_end(&w);
    put_raw(&w, "isError", good ? "false" : "true");
    result_end(s, &w);
}


/* ---- Methods ----------------------------------------------------------------------- */

static void put_capabilities(const server *s, ms_json_writer *w)
{
    put_raw(w, "capabilities", "{\"tools\":{}}");
    put_text(w, "instructions", s->desc->instructions);
}

static void do_initialize(server *s, ms_str params)
{
    ms_json_writer w;
    ms_str asked = text_of(&s->arena, member(params, "protocolVersion"));
    if (asked.ptr == NULL) {
        refuse(s, BAD_PARAMS, "initialize needs params.protocolVersion", MS_STR(""));
        return;
    }
    s->version = versions[FIRST_SESSION];
    for (size_t i = FIRST_SESSION; i < COUNT_OF(versions); i++) {
        if (ms_str_equal(asked, ms_str_of(versions[i]))) s->version = versions[i];
    }
    result_begin(s, &w);
    put_text(&w, "protocolVersion", s->version);
    put_server_info(&w, "serverInfo");
    put_capabilities(s, &w);
    result_end(s, &w);
}

static void do_discover(server *s, ms_str params)
{
    ms_json_writer w;
    (void)params;
    result_begin(s, &w);
    put_versions(&w, "supportedVersions", FIRST_SESSION);
    put_capabilities(s, &w);
    put_caching(s, &w);
    result_end(s, &w);
}

static void do_ping(server *s, ms_str params)
{
    ms_json_writer w;
    (void)params;
    result_begin(s, &w);
    result_end(s, &w);
}

/* Agrees to a stream of notifications, of which this server has none. */
static void do_listen(server *s, ms_str params)
{
    ms_json_writer w;
    (void)params;
    message_begin(s, &w);
    put_text(&w, "method", "notifications/subscriptions/acknowledged");
    begin_object(&w, "params");
    begin_object(&w, "_meta");
    ms_json_key(&w, MS_STR(META "subscriptionId"));
    ms_json_put_raw(&w, s->id);
    ms_json_end(&w);
    put_raw(&w, "notifications", "{}");
    ms_json_end(&w);
    message_end(s, &w);
}

static void do_list(server *s, ms_str params)
{
    ms_json_writer w;
    if (member(params, "cursor").ptr != NULL) {
        refuse(s, BAD_PARAMS, "tools/list has one page, and no cursor", MS_STR(""));
        return;
    }
    result_begin(s, &w);
    begin_array(&w, "tools");
    for (size_t i = 0; i < s->desc->n_tools; i++) put_tool(&w, &s->desc->tools[i]);
    ms_json_end(&w);
    put_caching(s, &w);
    result_end(s, &w);
}

static void do_call(server *s, ms_str params)
{
    ms_str name = text_of(&s->arena, member(params, "name"));
    ms_str arguments = member(params, "arguments");
    if (arguments.ptr != NULL && !is_object(arguments)) {
        refuse(s, BAD_PARAMS, "params.arguments has to be an object", MS_STR(""));
        return;
    }
    for (size_t i = 0; i < s->desc->n_tools; i++) {
        if (!ms_str_equal(name, ms_str_of(s->desc->tools[i].name))) continue;
        call_tool(s, &s->desc->tools[i], arguments);
        return;
    }
    refuse(s, BAD_PARAMS, "unknown tool: ", name);
}

static const struct {
    const char *name;
    void (*run)(server *s, ms_str params);
    bool session, modern;     /* with initialize; with a version in each request */
} methods[] = {
    {"initialize", do_initialize, true, false},
    {"ping", do_ping, true, false},
    {"server/discover", do_discover, false, true},
    {"subscriptions/listen", do_listen, false, true},
    {"tools/list", do_list, true, true},
    {"tools/call", do_call, true, true},
};

/* Returns whether the request names a version that is spoken so, or none. */
static bool check_version(server *s, ms_str params)
{
    ms_str meta = member(params, "_meta");
    ms_str version = member(meta, META "protocolVersion");
    s->modern = version.ptr != NULL;
    if (!s->modern) return true;
    ms_str asked = text_of(&s->arena, version);
    if (asked.ptr == NULL) {
        refuse(s, BAD_PARAMS, "the protocol version has to be a string", MS_STR(""));
    } else if (!ms_str_equal(asked, ms_str_of(versions[0]))) {
        refuse(s, BAD_VERSION, "unsupported protocol version: ", asked);
    } else if (!is_object(member(meta, META "clientCapabilities"))) {
        refuse(s, BAD_PARAMS, "params._meta needs " META "clientCapabilities",
               MS_STR(""));
    } else {
        return true;
    }
    return false;
}

static void call_method(server *s, ms_str method, ms_str params)
{
    size_t i = 0;
    while (i < COUNT_OF(methods) && !ms_str_equal(method, ms_str_of(methods[i].name))) {
        i++;
    }
    bool begun = s->modern || s->version != NULL;
    bool known = i < COUNT_OF(methods) &&
                 (s->modern ? methods[i].modern : methods[i].session || !begun);
    if (!known) {
        refuse(s, NO_METHOD, "no method ", method);
    } else if (!begun && i > 1) { /* initialize and ping may come first */
        refuse(s, BAD_PARAMS, "initialize comes first, or params._meta names "
               META "protocolVersion", MS_STR(""));
    } else if (i == 0 && s->batch) {
        refuse(s, BAD_REQUEST, "initialize is no part of a batch", MS_STR(""));
    } else {
        methods[i].run(s, params);
    }
}


/* ---- Messages ---------------------------------------------------------------------- */

static void take_message(server *s, ms_str message)
{
    ms_str id = member(message, "id"), method = member(message, "method");
    ms_str params = member(message, "params"), none = {NULL, 0};
    bool named = is_kind(id, MS_JSON_STRING) || is_kind(id, MS_JSON_NUMBER);
    s->id = named ? id : none;
    s->modern = false;
    ms_str name = text_of(&s->arena, method);
    bool answer = is_object(message) && method.ptr == NULL && id.ptr != NULL &&
                  (member(message, "result").ptr != NULL ||
                   member(message, "error").ptr != NULL);
    if (answer) return; /* of a request that this server never sends */
    if (name.ptr == NULL || !text_is(member(message, "jsonrpc"), "2.0")) {
        refuse(s, BAD_REQUEST, "no request of JSON-RPC 2.0", MS_STR(""));
    } else if (id.ptr != NULL && !named) {
        refuse(s, BAD_REQUEST, "an id has to be a string or a number", MS_STR(""));
    } else if (named && params.ptr != NULL && !is_object(params)) {
        refuse(s, BAD_PARAMS, "params has to be an object", MS_STR(""));
    } else if (named && check_version(s, params)) {
        call_method(s, name, params);
    }
}

/* Takes an array of messages, which one version has. */
static void take_batch(server *s, ms_str array)
{
    ms_str none = {NULL, 0};
    ms_json_iter it = ms_json_iterate(array);
    bool spoken = s->version != NULL && strcmp(s->version, "2025-03-26") == 0;
    bool any = false;
    s->id = none;
    s->batch = spoken;
    s->answered = false;
    while (spoken && s->out->error == 0 && ms_json_next(&it)) {
        any = true;
        take_message(s, it.value);
    }
    s->batch = false;
    if (s->answered) emit_text(s->out, "]\n");
    s->id = none;
    if (spoken && any) return;
    refuse(s, BAD_REQUEST, spoken ? "an empty batch"
                                  : "only version 2025-03-26 has batches", MS_STR(""));
}

static void take_line(server *s, ms_str line)
{
    ms_str value, none = {NULL, 0};
    ms_error err;
    s->id = none;
    if (is_blank(line)) return;
    if (ms_json_check(line, NULL, &value, &err) != MS_OK) {
        refuse(s, BAD_JSON, "no JSON: ", ms_str_of(err.message));
    } else if (is_kind(value, MS_JSON_ARRAY)) {
        take_batch(s, value);
    } else {
        take_message(s, value);
    }
}


/* ---- Lines ------------------------------------------------------------------------- */

typedef struct reader {
    int file;
    char *buf;                /* of MCP_LINE + 1 bytes */
    size_t at, len;           /* of the bytes that were not used yet */
    bool over;                /* the beginning of the line was dropped */
    bool ended;
} reader;

/* Reads more bytes; false at the end. */
static bool read_more(reader *r)
{
    ssize_t n;
    memmove(r->buf, r->buf + r->at, r->len);
    r->at = 0;
    if (r->len > MCP_LINE) {
        r->over = true;
        r->len = 0;
    }
    do {
        n = read(r->file, r->buf + r->len, MCP_LINE + 1 - r->len);
    } while (n < 0 && errno == EINTR);
    if (n > 0) r->len += (size_t)n;
    return n > 0;
}

/* Returns the next line. *over: it is too long, and not here. The last one may lack its
 * end. False: there is none. */
static bool read_line(reader *r, ms_str *line, bool *over)
{
    size_t seen = 0;
    for (;;) {
        const char *begin = r->buf + r->at;
        const char *end = memchr(begin + seen, '\n', r->len - seen);
        bool last = end == NULL && r->ended && (r->len > 0 || r->over);
        if (end != NULL || last) {
            size_t n = end != NULL ? (size_t)(end - begin) : r->len;
            *line = ms_str_n(begin, n);
            *over = r->over || n > MCP_LINE;
            r->over = false;
            r->at += n + (end != NULL);
            r->len -= n + (end != NULL);
            return true;
        }
        if (r->ended) return false;
        seen = r->len;
        r->ended = !read_more(r);
        if (seen > r->len || r->over) seen = 0;
    }
}

int mcp_serve(const mcp_server *desc, int input, output *out)
{
    server s;
    reader r;
    ms_str line;
    bool over;
    memset(&s, 0, sizeof s);
    memset(&r, 0, sizeof r);
    s.desc = desc;
    s.out = out;
    r.file = input;
    r.buf = malloc(MCP_LINE + 1);
    if (r.buf == NULL) return no_memory();
    while (out->error == 0 && read_line(&r, &line, &over)) {
        ms_str none = {NULL, 0};
        s.id = none;
        if (over) refuse(&s, BAD_REQUEST, "the line has over 1048576 bytes", MS_STR(""));
        else take_line(&s, line);
        if (output_end(out, FINE) != FINE) break;
        ms_arena_reset(&s.arena);
    }
    free(r.buf);
    ms_arena_deinit(&s.arena);
    return FINE;
}
