/* See input.h. */

#define _GNU_SOURCE
#include "input.h"
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>


/* ---- Input: a splitter over blocks of 64 KiB --------------------------------------- */

#define BLOCK_SIZE ((size_t)64 << 10)

#define ELEMENT_MAX ((size_t)256 << 20)

#define PROGRESS_STEP ((uint64_t)16 << 20)

int source_open(source *s, const char *path, const ms_str *head, int rest)
{
    bool standard = strcmp(path, "-") == 0;
    memset(s, 0, sizeof *s);
    s->name = standard ? "standard input" : path;
    s->line = 1;
    s->progress = isatty(STDERR_FILENO) != 0;
    s->began = clock_seconds();
    s->eof = rest < 0;
    s->fd = rest > 0             ? rest
            : standard || s->eof ? STDIN_FILENO
                                 : file_open(path);
    if (s->fd >= 0 && head != NULL && head->len > 0) {
        s->buf = malloc(head->len + 2 * BLOCK_SIZE);
        if (s->buf == NULL) return no_memory();
        memcpy(s->buf, head->ptr, head->len);
        s->cap = head->len + 2 * BLOCK_SIZE;
        s->len = head->len;
    }
    if (s->fd >= 0) return FINE;
    return errno == ENOENT ? NOT_FOUND : FAILED;
}

void source_close(source *s)
{
    if (s->reported > 0) fputs("\r\033[K", stderr);
    if (s->fd != STDIN_FILENO) close(s->fd);
    free(s->buf);
}

/* Counts the lines in the first `len` bytes after the start. */
static void count_lines(const source *s, size_t len, uint64_t *line, uint64_t *line_base)
{
    const char *from = s->buf + s->start, *end = from + len, *newline;
    while (from < end && (newline = memchr(from, '\n', (size_t)(end - from))) != NULL) {
        ++*line;
        from = newline + 1;
        *line_base = s->base + (uint64_t)(from - s->buf);
    }
}

int complain_at(const source *s, size_t at, const char *what, const char *text)
{
    fault f;
    uint64_t line_base = s->line_base;
    f.line = s->line;
    f.offset = s->base + s->start + at;
    count_lines(s, at, &f.line, &line_base);
    f.column = f.offset - line_base + 1;
    snprintf(f.text, sizeof f.text, "%s%s", what, text);
    if (s->fault != NULL) {
        *s->fault = f;
        return SKIPPED;
    }
    complain("%s: line %" PRIu64 ", column %" PRIu64 " (byte %" PRIu64 "): %s", s->name,
             f.line, f.column, f.offset, f.text);
    return FAILED;
}

/* Removes the first `len` bytes, which have been used. */
static void source_take(source *s, size_t len)
{
    count_lines(s, len, &s->line, &s->line_base);
    s->start += len;
}

/* Makes room for one more block. */
static int source_room(source *s)
{
    if (s->start > 0) {
        s->len -= s->start;
        memmove(s->buf, s->buf + s->start, s->len);
        s->base += s->start;
        s->start = 0;
    }
    if (s->cap - s->len >= BLOCK_SIZE) return FINE;
    size_t cap = s->cap > 0 ? s->cap * 2 : 2 * BLOCK_SIZE;
    if (cap > ELEMENT_MAX) cap = ELEMENT_MAX + 2 * BLOCK_SIZE;
    char *buf = realloc(s->buf, cap);
    if (buf == NULL) return no_memory();
    s->buf = buf;
    s->cap = cap;
    return FINE;
}

/* Reads one more block; sets eof at the end of the file. */
static int source_read(source *s)
{
    ssize_t n;
    int code = s->eof ? FINE : source_room(s);
    if (code != FINE || s->eof) return code;
    do {
        n = read(s->fd, s->buf + s->len, BLOCK_SIZE);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        complain("%s: cannot read: %s", s->name, strerror(errno));
        return FAILED;
    }
    s->eof = n == 0;
    s->len += (size_t)n;
    uint64_t offset = s->base + s->len;
    if (!s->progress || offset - s->reported < PROGRESS_STEP) return FINE;
    s->reported = offset;
    double seconds = clock_seconds() - s->began;
    fprintf(stderr, "\r%" PRIu64 " MB read, %" PRIu64 " messages, %.0f MB/s\033[K",
            offset / 1000000, s->messages, (double)offset / 1e6 / (seconds + 1e-9));
    return FINE;
}

bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Sets *c to the next byte that is not white space, or to -1 at the end of the file. */
static int source_peek(source *s, int *c)
{
    int code = FINE;
    *c = -1;
    while (code == FINE) {
        size_t len = 0;
        while (s->start + len < s->len && is_space(s->buf[s->start + len])) len++;
        if (len > 0) source_take(s, len);
        if (s->start < s->len) *c = (unsigned char)s->buf[s->start];
        if (s->start < s->len || s->eof) break;
        code = source_read(s);
    }
    return code;
}

static int source_skip_byte_order_mark(source *s)
{
    int code = FINE;
    while (code == FINE && s->len < 3 && !s->eof) code = source_read(s);
    if (code != FINE || s->len < 3 || memcmp(s->buf, "\xef\xbb\xbf", 3) != 0) return code;
    s->start = 3;
    s->line_base = 3;
    return FINE;
}

typedef struct splitter {
    unsigned depth;
    bool string, escape;
} splitter;

typedef enum split { SPLIT_MORE, SPLIT_BEFORE, SPLIT_AFTER } split;

/* Returns whether the value ends before or after this byte. */
static split splitter_step(splitter *p, char c)
{
    if (p->string) {
        bool end = c == '"' && !p->escape;
        p->escape = !p->escape && c == '\\';
        p->string = !end;
        return end && p->depth == 0 ? SPLIT_AFTER : SPLIT_MORE;
    }
    switch (c) {
    case '"': p->string = true; return SPLIT_MORE;
    case '{':
    case '[': p->depth++; return SPLIT_MORE;
    case '}':
    case ']':
        if (p->depth == 0) return SPLIT_BEFORE;
        return --p->depth == 0 ? SPLIT_AFTER : SPLIT_MORE;
    default:
        return p->depth == 0 && (c == ',' || is_space(c)) ? SPLIT_BEFORE : SPLIT_MORE;
    }
}

/* Returns whether a text cannot be the beginning of a JSON value. It may end inside a
 * string, a number or an escape, so only errors well before its end count. */
static bool hopeless(const source *s, size_t len)
{
    ms_json_opts opts = {0, s->rescuing};
    ms_error err;
    ms_str text = ms_str_n(s->buf + s->start, len);
    return ms_json_check(text, &opts, NULL, &err) != MS_OK && err.offset < len - 64;
}

const char *reason_of(const ms_error *err)
{
    const char *place = err->line > 0 ? strstr(err->message, "): ") : NULL;
    return place != NULL ? place + 3 : err->message;
}

/* Returns the next value, from the start on; valid until the source moves. */
static int next_value(source *s, ms_str *value)
{
    splitter p = {0, false, false};
    ms_json_opts opts = {0, s->rescuing};
    ms_error err;
    size_t len = 0, look = s->rescuing ? BLOCK_SIZE / 64 : BLOCK_SIZE;
    for (split found = SPLIT_MORE; found != SPLIT_AFTER; len++) {
        int code = s->start + len == s->len ? source_read(s) : FINE;
        if (code != FINE) return code;
        if (s->start + len == s->len) break;
        if (len == look && hopeless(s, len)) break;
        if (len == look) look *= 2;
        if (len >= ELEMENT_MAX) return complain_at(s, 0, "a value of over 256 MiB", "");
        if (s->lines && s->buf[s->start + len] == '\n') break;
        found = splitter_step(&p, s->buf[s->start + len]);
        if (found == SPLIT_BEFORE && len > 0) break;
    }
    ms_str text = ms_str_n(s->buf + s->start, len);
    if (ms_json_check(text, &opts, value, &err) == MS_OK) return FINE;
    size_t at = err.offset < len ? (size_t)err.offset : len;
    return complain_at(s, at, reason_of(&err), "");
}


/* ---- Messages in the input --------------------------------------------------------- */

/* "dir/trace.jsonl" -> "trace". */
static ms_str stem_of(const char *path)
{
    if (strcmp(path, "-") == 0) return MS_STR("stdin");
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    ms_str stem = ms_str_of(name);
    if (dot != NULL && dot > name) stem.len = (size_t)(dot - name);
    return stem.len > 0 && ms_utf8_check(stem, NULL) ? stem : MS_STR("input");
}

/* Sets the location of a conversation: "3", and if that is used "3.2", "3.3", ... The
 * name of --location is one for all files. */
static int name_conversation(reader *r, conversation *talk)
{
    const sink *to = r->sink;
    bool given = talk->name.ptr == NULL && r->options->location != NULL;
    ms_str name = talk->name.ptr != NULL ? talk->name : r->stem;
    tally *names = to->names != NULL && !given ? to->names : &r->names;
    tally_row *row = tally_row_of(names, name);
    char *text = ms_arena_alloc(&r->names.arena, name.len + 24);
    if (row == NULL || text == NULL) return no_memory();
    memcpy(text, name.ptr, name.len);
    talk->location = ms_str_n(text, name.len);
    uint64_t number = row->count > 0 ? row->count : 1;
    bool used = row->count++ > 0, asks = to->is_taken != NULL && !given;
    while (used || (asks && to->is_taken(to->ctx, talk->location))) {
        int n = snprintf(text + name.len, 24, ".%" PRIu64, ++number);
        talk->location.len = name.len + (size_t)n;
        row = tally_row_of(names, talk->location);
        if (row == NULL) return no_memory();
        used = row->count++ > 0;
    }
    return FINE;
}

#define CHAT_TRACES (MS_BIT(MS_T_ACTION) | MS_BIT(MS_T_OBSERVATION) | MS_BIT(MS_T_ERROR))

#define TRACES (MS_TYPES_AGENT_WIDE & ~MS_TYPES_GLOBAL)

#define FRAMEWORK_TYPES (MS_TYPES_AGENT_WIDE | MS_TYPES_CONVERSATION | MS_TYPES_GLOBAL)

void complete_agent(const options *o, ms_envelope *m)
{
    if (m->agent_key.ptr != NULL || o->agent == NULL) return;
    if ((MS_BIT(m->type) & TRACES) != 0) m->agent_key = ms_str_of(o->agent);
}

/* Sets the fields that the input lacks. */
static int complete(reader *r, bool chat, conversation *talk, ms_envelope *m)
{
    bool guess = chat && r->sink->guess_agent && r->options->agent == NULL;
    complete_agent(r->options, m);
    if (m->agent_key.ptr == NULL && guess) {
        if ((MS_BIT(m->type) & CHAT_TRACES) != 0) m->agent_key = MS_STR("assistant");
    }
    if (m->location.ptr != NULL || !r->sink->needs_location) return FINE;
    int code = talk->location.ptr == NULL ? name_conversation(r, talk) : FINE;
    m->location = talk->location;
    return code;
}

static conversation next_conversation(reader *r)
{
    conversation talk;
    memset(&talk, 0, sizeof talk);
    talk.number = r->talks++;
    return talk;
}

/* Returns whether messages of unknown formats are kept: always without --strict, for
 * append only with --lenient. */
static bool keeps_unknown(const reader *r)
{
    bool keeps = r->sink->rescue != NULL && !GIVEN(r->options, REFUSE);
    return keeps || GIVEN(r->options, LENIENT);
}

static size_t offset_of(const reader *r, ms_str part)
{
    return (size_t)(part.ptr - (r->source.buf + r->source.start));
}

/* Sets a time that is too far off for seconds, the unit of the formats, and one of this
 * century in milliseconds, microseconds or nanoseconds, which some programs write. */
static void mend_time(ms_envelope *m, ms_str object)
{
    static const char *const names[] = {"timestamp", "created_at", "time"};
    if (!m->has_time || m->time_ns < INT64_MAX) return;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        ms_str value = member(object, names[i]);
        double time = is_kind(value, MS_JSON_NUMBER) ? number_of(value) : 0;
        double unit = time < 1e14 ? 1e3 : time < 1e17 ? 1e6 : 1e9;
        if (time / unit < 946684800.0 || time / unit >= 4102444800.0) continue;
        int64_t us = (int64_t)(time / unit * 1e6 + 0.5);
        m->time_ns = us * 1000;
        return;
    }
}

/* Passes the messages of an object to the sink. */
static int deliver(reader *r, const ms_format *format, conversation *talk, taken *t)
{
    bool chat = strcmp(format->name, "framework") != 0;
    for (size_t i = 0; i < t->list.count; i++) {
        int code = complete(r, chat, talk, &t->list.items[i]);
        if (code != FINE) return code;
        mend_time(&t->list.items[i], t->json);
    }
    r->source.messages += t->list.count;
    return r->sink->take(r->sink->ctx, t);
}

/* Returns the string in a member of an object, or an absent view. */
static ms_str string_member(reader *r, ms_str object, const char *name)
{
    ms_str value, text = {NULL, 0};
    if (ms_json_member(object, ms_str_of(name), &value)) {
        ms_json_string(value, &r->arena, &text);
    }
    return text;
}

/* Counts an entry of a transcript that is not a message. A session begins a
 * conversation that is named after its id. */
static int note_other(reader *r, ms_str object, conversation *talk)
{
    ms_str type = string_member(r, object, "type"), id = string_member(r, object, "id");
    tally_row *row = tally_row_of(&r->others, type);
    if (row == NULL) return no_memory();
    row->count++;
    if (!ms_str_equal(type, MS_STR("session")) || id.len == 0) return FINE;
    if (!r->sink->needs_location || r->options->location != NULL) return FINE;
    *talk = next_conversation(r);
    return copy_text(&r->names.arena, id, &talk->name) ? FINE : no_memory();
}

static int take_message(reader *r, ms_str object, const ms_format *format,
                        conversation *talk)
{
    ms_error err;
    char what[64];
    ms_read_opts opts = {keeps_unknown(r), r->source.rescuing};
    size_t at = offset_of(r, object);
    taken t = {&r->source, at, object, ++r->objects, talk->number, {NULL, 0}};
    ms_arena_reset(&r->arena);
    if (ms_read(format, object, &opts, &r->arena, &t.list, &err) != MS_OK) {
        if (err.offset < object.len) at += (size_t)err.offset;
        snprintf(what, sizeof what, "%s message: ", format->name);
        return complain_at(&r->source, at, what, err.message);
    }
    if (t.list.count == 0) return note_other(r, object, talk);
    return deliver(r, format, talk, &t);
}

/* Finds the system text of a request body. Google takes its member under two names. */
static bool find_system(const ms_format *d, ms_str body, ms_str *value)
{
    if (d == NULL || d->system == NULL) return false;
    return ms_json_member(body, ms_str_of(d->system), value) ||
           (strcmp(d->system, "systemInstruction") == 0 &&
            ms_json_member(body, MS_STR("system_instruction"), value));
}

/* Reads the system text of a request body, as a body without messages. */
static int take_system(reader *r, const ms_format *d, ms_str body, conversation *talk)
{
    static const char form[] = "{\"%s\":%.*s,\"%s\":[]}";
    ms_error err;
    ms_str value;
    ms_read_opts opts = {keeps_unknown(r), r->source.rescuing};
    if (!find_system(d, body, &value)) return FINE;
    taken t = {&r->source, offset_of(r, value), value, ++r->objects, talk->number,
               {NULL, 0}};
    ms_arena_reset(&r->arena);
    size_t cap = value.len + strlen(d->system) + sizeof form + 64;
    char *text = ms_arena_alloc(&r->arena, cap);
    if (text == NULL) return no_memory();
    int n = snprintf(text, cap, form, d->system, (int)value.len, value.ptr,
                     d->list != NULL ? d->list : "messages");
    ms_str json = ms_str_n(text, (size_t)n);
    if (ms_read_list(d, json, &opts, &r->arena, &t.list, &err) != MS_OK) {
        return complain_at(&r->source, t.at, "the system text: ", err.message);
    }
    return t.list.count > 0 ? deliver(r, d, talk, &t) : FINE;
}


/* ---- Which format a message is in -------------------------------------------------- */

static shape shape_of(reader *r, ms_str object)
{
    shape s;
    ms_str word = {NULL, 0};
    memset(&s, 0, sizeof s);
    ms_json_iter it = ms_json_iterate(object);
    while (ms_json_next(&it)) {
#define X(name) if (key_is(it.key, MS_STR(#name))) s.name = it.value;
        MEMBERS(X)
#undef X
    }
    ms_arena_reset(&r->arena);
    ms_json_string(s.type, &r->arena, &word);
    s.framework = ms_type_of_word(word);
    return s;
}

/* Returns whether a value is a JSON string with one of these words, which are between
 * spaces. */
static bool is_word(ms_str value, const char *words)
{
    char text[40];
    if (!is_kind(value, MS_JSON_STRING) || value.len < 3 || value.len > 32) return false;
    snprintf(text, sizeof text, " %.*s ", (int)value.len - 2, value.ptr + 1);
    return strstr(words, text) != NULL;
}

#define ENVELOPE_WORDS                                                                   \
    " text tool_call tool_result input_required approval_required error delta "         \
    "final_result multimodal_part "

static bool shows_envelope(const shape *s)
{
    ms_str type;
    if (ms_json_string_is(s->schema, MS_STR("agents-api.message"))) return true;
    if (s->version.ptr != NULL && is_word(s->type, ENVELOPE_WORDS) &&
        (s->payload.ptr != NULL || s->data.ptr != NULL)) {
        return true;
    }
    return is_kind(s->role, MS_JSON_STRING) && is_kind(s->metadata, MS_JSON_OBJECT) &&
           ms_json_member(s->metadata, MS_STR("type"), &type) &&
           is_word(type, ENVELOPE_WORDS);
}

static bool shows_task(const shape *s)
{
    static const char words[] = " text data tool_request tool_response reasoning ";
    ms_str type = s->type, author = s->author;
    if (is_kind(s->content, MS_JSON_OBJECT) && type.ptr == NULL && author.ptr == NULL) {
        if (!ms_json_member(s->content, MS_STR("type"), &type)) return false;
        if (!ms_json_member(s->content, MS_STR("author"), &author)) return false;
    }
    return is_word(type, words) && is_kind(author, MS_JSON_STRING);
}

static bool shows_pydantic(const shape *s)
{
    return is_word(s->kind, " request response ") && is_kind(s->parts, MS_JSON_ARRAY);
}

static bool shows_gemini(const shape *s)
{
    return is_kind(s->parts, MS_JSON_ARRAY) && s->kind.ptr == NULL;
}

static bool shows_framework(const shape *s)
{
    return (MS_BIT(s->framework) & FRAMEWORK_TYPES) != 0;
}

/* Returns whether a shape has blocks of this format only, or is a response of the
 * provider. */
static bool shows_anthropic(const shape *s)
{
    ms_str type;
    if (!is_kind(s->role, MS_JSON_STRING) || !is_kind(s->content, MS_JSON_ARRAY)) {
        return false;
    }
    if (ms_json_string_is(s->type, MS_STR("message"))) return true;
    ms_json_iter it = ms_json_iterate(s->content);
    while (ms_json_next(&it)) {
        if (ms_json_member(it.value, MS_STR("type"), &type) &&
            is_word(type, " tool_use tool_result thinking redacted_thinking image "
                          "document ")) {
            return true;
        }
    }
    return false;
}

/* Returns whether a value is a list that begins with a part of a message item. */
static bool has_item_parts(ms_str content)
{
    ms_str first, type;
    return is_kind(content, MS_JSON_ARRAY) && ms_json_element(content, 0, &first) &&
           ms_json_member(first, MS_STR("type"), &type) &&
           is_word(type, " input_text input_image input_file output_text refusal ");
}

/* Returns whether a shape is an item of responses: a message with their parts, reasoning
 * with a summary, a call or its output, or what the provider has done. */
static bool shows_responses(const shape *s)
{
    if (is_kind(s->role, MS_JSON_STRING)) return has_item_parts(s->content);
    if (ms_json_string_is(s->type, MS_STR("reasoning"))) {
        return is_kind(s->summary, MS_JSON_ARRAY) || s->encrypted_content.ptr != NULL;
    }
    if (is_word(s->type, " web_search_call file_search_call code_interpreter_call "
                         "image_generation_call mcp_call mcp_list_tools "
                         "item_reference ")) {
        return true;
    }
    return is_word(s->type, " function_call function_call_output custom_tool_call "
                            "custom_tool_call_output shell_call shell_call_output "
                            "local_shell_call apply_patch_call apply_patch_call_output "
                            "computer_call computer_call_output tool_search_call "
                            "tool_search_output ") &&
           s->call_id.ptr != NULL;
}

/* Returns whether a list begins with a block of bedrock: an object with one member that
 * names its kind. */
static bool is_bedrock(ms_str list)
{
    static const char names[] = " text image document video audio toolUse toolResult "
                                "reasoningContent cachePoint guardContent "
                                "citationsContent searchResult ";
    ms_str first;
    if (!is_kind(list, MS_JSON_ARRAY) || !ms_json_element(list, 0, &first)) return false;
    ms_json_iter it = ms_json_iterate(first);
    return it.object && ms_json_next(&it) && is_word(it.key, names) && !ms_json_next(&it);
}

static bool shows_bedrock(const shape *s)
{
    return is_kind(s->role, MS_JSON_STRING) && is_bedrock(s->content);
}

/* Returns whether a shape is a step of gemini-interactions. Others have a function_call,
 * too: that of a step has no call_id, and an object of arguments. */
static bool shows_interactions(const shape *s)
{
    if (is_word(s->type, " user_input model_output thought ")) return true;
    if (is_word(s->type, " function_result ")) {
        return is_kind(s->call_id, MS_JSON_STRING) && s->result.ptr != NULL;
    }
    return is_word(s->type, " function_call ") && s->call_id.ptr == NULL &&
           is_kind(s->arguments, MS_JSON_OBJECT);
}

/* Returns whether a value is the JSON text of a time such as "2026-03-02T09:00:00Z". */
static bool is_time(ms_str value)
{
    int64_t ns;
    return is_kind(value, MS_JSON_STRING) &&
           ms_iso_read(ms_str_n(value.ptr + 1, value.len - 2), &ns) == MS_OK;
}

/* Returns whether a shape is a session row: it has a time, and no list of calls. */
static bool shows_session(const shape *s)
{
    if (!is_kind(s->role, MS_JSON_STRING) || is_kind(s->tool_calls, MS_JSON_ARRAY)) {
        return false;
    }
    return s->tool_name.ptr != NULL || s->tool_arguments.ptr != NULL ||
           is_kind(s->tool_calls, MS_JSON_OBJECT) ||
           is_kind(s->msgstore, MS_JSON_OBJECT) || is_time(s->timestamp) ||
           is_time(s->created_at);
}

/* In the order of detection: the first that fits is used. */
static const struct {
    const char *format;
    bool (*shows)(const shape *s);
} formats[] = {
    {"envelope", shows_envelope},       {"task", shows_task},
    {"pydantic-ai", shows_pydantic},    {"gemini", shows_gemini},
    {"openai-responses", shows_responses}, {"framework", shows_framework},
    {"anthropic", shows_anthropic},     {"bedrock", shows_bedrock},
    {"gemini-interactions", shows_interactions}, {"session", shows_session},
};

/* Returns the format of a message object, or NULL. An object with a role and no other
 * member that identifies a format has the format `otherwise` (NULL: openai). */
static const ms_format *format_of_message(reader *r, ms_str object,
                                          const ms_format *otherwise)
{
    shape s = shape_of(r, object);
    for (size_t i = 0; i < COUNT_OF(formats); i++) {
        if (formats[i].shows(&s)) return ms_format_find(ms_str_of(formats[i].format));
    }
    if (!is_kind(s.role, MS_JSON_STRING)) return NULL;
    return otherwise != NULL ? otherwise : ms_format_find(MS_STR("openai"));
}

/* Finds the list of messages in an object. Of several lists the first in this order
 * counts. An empty list counts if there is no other. So does a list of objects without
 * a known format, if the options name the format. */
static bool find_list(reader *r, ms_str object, ms_str *list)
{
    static const char *const names[] = {"messages", "contents", "traj", "history",
                                        "trajectory", "input"};
    ms_str value, first;
    bool any = r->options->from != NULL;
    list->ptr = NULL;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (!ms_json_member(object, ms_str_of(names[i]), &value)) continue;
        if (ms_json_kind_of(value) != MS_JSON_ARRAY) continue;
        bool empty = !ms_json_element(value, 0, &first);
        bool shown = !empty && is_object(first) &&
                     format_of_message(r, first, NULL) != NULL;
        if ((empty || (any && is_object(first))) && list->ptr == NULL) *list = value;
        if (!shown) continue;
        *list = value;
        break;
    }
    return list->ptr != NULL;
}

/* Returns the format of a request by its list `input`, whose items are steps or items of
 * responses: the first that shows which counts. A role alone shows it only if it is that
 * of the model in turns. If none shows it, `otherwise` is the name. */
static const ms_format *format_of_input(reader *r, ms_str list, const char *otherwise)
{
    ms_json_iter it = ms_json_iterate(list);
    while (ms_json_next(&it)) {
        if (!is_object(it.value)) continue;
        shape s = shape_of(r, it.value);
        if (shows_interactions(&s) || is_word(s.role, " model ")) {
            return ms_format_find(MS_STR("gemini-interactions"));
        }
        if (shows_responses(&s) || is_word(s.type, " message reasoning ")) {
            return ms_format_find(MS_STR("openai-responses"));
        }
    }
    return ms_format_find(ms_str_of(otherwise));
}

/* Returns the format of a request by its list, and by its system text beside it. */
static const ms_format *format_of_body(reader *r, ms_str object, ms_str list)
{
    ms_str value, system;
    if (r->options->from != NULL) return r->options->from;
    if (ms_json_member(object, MS_STR("contents"), &value)) {
        return ms_format_find(MS_STR("gemini"));
    }
    if (ms_json_member(object, MS_STR("input"), &value) && value.ptr == list.ptr) {
        bool steps = ms_json_member(object, MS_STR("system_instruction"), &system);
        return format_of_input(r, value, steps ? "gemini-interactions"
                                               : "openai-responses");
    }
    if (ms_json_member(object, MS_STR("system"), &value) && is_bedrock(value)) {
        return ms_format_find(MS_STR("bedrock"));
    }
    bool apart = ms_json_member(object, MS_STR("system"), &value) &&
                 (is_kind(value, MS_JSON_STRING) || is_kind(value, MS_JSON_ARRAY));
    return apart ? ms_format_find(MS_STR("anthropic")) : NULL;
}

/* Returns a number as it is spelled, or the text of a string; else an absent view. */
static ms_str find_name(reader *r, ms_str object)
{
    static const char *const names[] = {"task_id", "instance_id"};
    ms_str value, name;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (!ms_json_member(object, ms_str_of(names[i]), &value)) continue;
        if (ms_json_kind_of(value) == MS_JSON_NUMBER) return value;
        if (ms_json_string(value, &r->names.arena, &name) == MS_OK && name.len > 0) {
            return name;
        }
    }
    return ms_str_n(NULL, 0);
}

/* Reports that `n` bytes from `offset` on were skipped, and the fault. */
static int note_skipped(const source *s, rescue *to, uint64_t offset, uint64_t bytes)
{
    const fault *f = &to->fault;
    char skipped[64] = "";
    if (f->offset < to->known) {
        to->lines_before += f->line != to->line;
        to->line = f->line;
        return FINE;
    }
    if (bytes > 0) {
        snprintf(skipped, sizeof skipped, "; skipped bytes %" PRIu64 " to %" PRIu64,
                 offset,
                 offset + bytes - 1);
    }
    if (to->reported++ < REPORTED_PLACES) {
        complain("%s: line %" PRIu64 ", column %" PRIu64 " (byte %" PRIu64 "): %s%s",
                 s->name, f->line, f->column, f->offset, f->text, skipped);
    } else if (to->reported == REPORTED_PLACES + 1) {
        complain("%s: more places are damaged; msgstore doctor counts them", s->name);
    }
    if (to->places < FIRST_PLACES) to->first[to->places] = f->line;
    to->places++;
    to->bytes += bytes;
    if (f->line != to->line) to->lines++;
    to->line = f->line;
    return FINE;
}

/* Returns the format of a message; NULL: unknown. *odd: no format has the word in "type",
 * so that the message is one of framework with a type of its own. */
static const ms_format *format_for(reader *r, ms_str value, const conversation *talk,
                                   bool *odd)
{
    *odd = false;
    if (r->options->from != NULL) return r->options->from;
    const ms_format *format = format_of_message(r, value, talk->format);
    if (format != NULL) return format;
    ms_str type = string_member(r, value, "type");
    bool own = ms_str_equal(type, MS_STR("reasoning")); /* a word of the library */
    *odd = type.ptr != NULL && !own;
    return type.ptr != NULL ? ms_format_find(MS_STR("framework")) : NULL;
}

/* Counts a message whose type no format has. */
static int note_odd(reader *r, ms_str value)
{
    tally_row *row = tally_row_of(&r->unknown, string_member(r, value, "type"));
    if (row == NULL) return no_memory();
    row->count++;
    return FINE;
}

/* Reads an object as a message. */
static int read_element(reader *r, ms_str value, conversation *talk)
{
    size_t at = offset_of(r, value);
    if (!is_object(value)) return complain_at(&r->source, at, "no message object", "");
    bool odd;
    const ms_format *format = format_for(r, value, talk, &odd);
    if (format != NULL) {
        int code = take_message(r, value, format, talk);
        return code == FINE && odd ? note_odd(r, value) : code;
    }
    return complain_at(&r->source, at, "this message shows no format: ",
                       "\"type\" or \"role\" was expected; --from names a format");
}

static int skip_element(reader *r, ms_str value)
{
    uint64_t offset = r->source.base + r->source.start + offset_of(r, value);
    return note_skipped(&r->source, r->sink->rescue, offset, value.len);
}

/* Returns a value of a damaged file with its bytes that are not UTF-8 replaced. */
static ms_str cleaned_value(reader *r, ms_str value)
{
    ms_json_writer w;
    ms_buf buf = {&r->arena, NULL, 0, 0};
    if (!r->source.rescuing) return value;
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_json_put_raw(&w, value);
    return ms_json_finish(&w) == MS_OK ? ms_buf_text(&buf) : value;
}

/* Keeps an object that fits no format, and counts it. */
static int keep_element(reader *r, ms_str value, conversation *talk)
{
    taken t = {&r->source, offset_of(r, value), value, ++r->objects, talk->number,
               {NULL, 0}};
    ms_str type = string_member(r, value, "type");
    if (type.ptr == NULL) type = string_member(r, value, "role");
    if (type.ptr == NULL) type = is_object(value) ? MS_STR("object") : MS_STR("value");
    tally_row *row = tally_row_of(&r->unknown, type);
    ms_arena_reset(&r->arena);
    t.list.items = ms_arena_alloc(&r->arena, sizeof *t.list.items);
    if (row == NULL || t.list.items == NULL) return no_memory();
    row->count++;
    ms_str json = cleaned_value(r, value);
    t.list.items[0] = other_message(MS_STR("unknown:message"), ms_json(json));
    t.list.count = 1;
    int code = deliver(r, ms_format_find(MS_STR("framework")), talk, &t);
    return code == UNSTORED ? skip_element(r, value) : code;
}

/* Reads a message; keeps one that fits no format, if the options allow it. */
static int take_element(reader *r, ms_str value, conversation *talk)
{
    int code = read_element(r, value, talk);
    bool skips = code == SKIPPED && GIVEN(r->options, REFUSE); /* and --keep-going */
    if (code == UNSTORED || skips) return skip_element(r, value);
    return code == SKIPPED ? keep_element(r, value, talk) : code;
}

static int take_list(reader *r, ms_str list, conversation *talk)
{
    int code = FINE;
    ms_json_iter it = ms_json_iterate(list);
    while (code == FINE && ms_json_next(&it)) code = take_element(r, it.value, talk);
    return code;
}

/* Reads a message of `talk`, or a conversation. */
static int take_value(reader *r, ms_str value, conversation *talk)
{
    conversation own = next_conversation(r);
    ms_str list;
    if (ms_json_kind_of(value) == MS_JSON_ARRAY) return take_list(r, value, &own);
    bool object = is_object(value) && format_of_message(r, value, NULL) == NULL;
    if (!object || !find_list(r, value, &list)) return take_element(r, value, talk);
    if (r->sink->needs_location) own.name = find_name(r, value);
    own.format = format_of_body(r, value, list);
    int code = take_system(r, own.format, value, &own);
    if (code == SKIPPED && GIVEN(r->options, REFUSE)) code = skip_element(r, value);
    if (code == SKIPPED) code = keep_element(r, value, &own);
    if (code == FINE) code = take_list(r, list, &own);
    ms_str choices = member_at(value, "response.choices"), first;
    if (code != FINE || !is_kind(choices, MS_JSON_ARRAY)) return code;
    if (!ms_json_element(choices, 0, &first)) return FINE;
    ms_str answer = member(first, "message"); /* of a log of LiteLLM */
    code = is_object(answer) ? take_element(r, answer, &own) : FINE;
    if (code == FINE && r->sink->answered != NULL) {
        r->sink->answered(r->sink->ctx, member(value, "response"));
    }
    return code;
}

static int read_value(reader *r, conversation *talk)
{
    ms_str value;
    int code = next_value(&r->source, &value);
    if (code == FINE) code = take_value(r, value, talk);
    if (code == FINE) source_take(&r->source, offset_of(r, value) + value.len);
    return code;
}

/* Reads an array at the top level, element by element; its messages are one
 * conversation. */
static int read_array(reader *r, conversation *talk)
{
    source *s = &r->source;
    *talk = next_conversation(r);
    int c, code;
    source_take(s, 1);
    if ((code = source_peek(s, &c)) != FINE) return code;
    while (c != ']') {
        if ((code = read_value(r, talk)) != FINE) return code;
        if ((code = source_peek(s, &c)) != FINE) return code;
        if (c == ']') break;
        if (c != ',') {
            return complain_at(s, 0, c < 0 ? "the file ends in an array: " : "",
                               "',' or ']' was expected");
        }
        source_take(s, 1);
        if ((code = source_peek(s, &c)) != FINE) return code;
        if (c == ']') return complain_at(s, 0, "a value was expected after ','", "");
    }
    source_take(s, 1);
    return FINE;
}


/* ---- Recovery from damage in JSON Lines, for --keep-going -----------------------------
 * The reader skips unreadable text: to the end of the line, to a NUL, or to an object
 * inside the line. A crash leaves pages of NULs, and torn lines that the next writer
 * continued. */

/* Finds the end of the line: a newline, a NUL, or the end of the file. */
static int line_length(source *s, size_t *len)
{
    for (*len = 0; *len < ELEMENT_MAX; ++*len) {
        int code = s->start + *len == s->len ? source_read(s) : FINE;
        if (code != FINE) return code;
        if (s->start + *len == s->len) break;
        char c = s->buf[s->start + *len];
        if (c == '\n' || c == '\0') break;
    }
    return FINE;
}

/* Returns whether a text is a whole object in its line: only another object may follow.
 * A comma or a bracket follows an object inside another. *last: it ends the line. */
static bool stands_alone(ms_str text, bool *last)
{
    ms_json_opts repair = {0, true};
    ms_error err;
    *last = ms_json_check(text, &repair, NULL, &err) == MS_OK;
    if (*last) return true;
    if (err.offset >= text.len || text.ptr[err.offset] != '{') return false;
    text.len = (size_t)err.offset;
    return ms_json_check(text, &repair, NULL, NULL) == MS_OK;
}

/* Returns where the next object begins in a line whose byte `bad` is wrong, or the
 * line's end. Before the bad byte the object may seem to be in a string; a quoted
 * object would have its quotes escaped. It may also stand in the place of a value. Then
 * the newline after it shows that a second process wrote it, after the first died
 * inside the line. */
static size_t next_object(reader *r, ms_str line, size_t bad, bool newline)
{
    splitter p = {0, false, false};
    bool last;
    for (size_t i = 0; i < line.len; i++) {
        ms_str left = ms_str_n(line.ptr + i, line.len - i);
        if (i > 0 && line.ptr[i] == '{' && stands_alone(left, &last)) {
            bool apart = i >= bad || p.string;
            if (apart || (newline && last && format_of_message(r, left, NULL) != NULL))
                return i;
        }
        if (i < bad) splitter_step(&p, line.ptr[i]);
    }
    return line.len;
}

static int skip_line(reader *r)
{
    source *s = &r->source;
    ms_json_opts repair = {0, true};
    ms_error err;
    size_t len, bad = 0;
    uint64_t offset = s->base + s->start;
    if (offset >= r->line_end) {
        int code = line_length(s, &len);
        if (code != FINE) return code;
        r->line_end = offset + len;
    }
    len = (size_t)(r->line_end - offset);
    ms_str line = ms_str_n(s->buf + s->start, len);
    if (ms_json_check(line, &repair, NULL, &err) != MS_OK) {
        bad = err.offset < len ? (size_t)err.offset : len;
        complain_at(s, bad, reason_of(&err), "");
    } else {
        complain_at(s, 0, "no message object", "");
    }
    bool newline = s->start + len < s->len && s->buf[s->start + len] == '\n';
    len = next_object(r, line, bad, newline);
    source_take(s, len);
    return note_skipped(s, r->sink->rescue, offset, len);
}

static int skip_nuls(reader *r)
{
    source *s = &r->source;
    uint64_t offset = s->base + s->start;
    int code = FINE;
    complain_at(s, 0, "NUL bytes", "");
    while (code == FINE) {
        size_t len = 0;
        while (s->start + len < s->len && s->buf[s->start + len] == '\0') len++;
        source_take(s, len);
        if (s->start < s->len || s->eof) break;
        code = source_read(s);
    }
    note_skipped(s, r->sink->rescue, offset, s->base + s->start - offset);
    return code;
}

/* Reports that bytes of this value were not UTF-8 and are replaced. */
static void note_repaired(reader *r, ms_str value)
{
    ms_error err;
    if (ms_json_check(value, NULL, NULL, &err) == MS_OK) return;
    complain_at(&r->source, offset_of(r, value) + (size_t)err.offset, "", "");
    rescue *to = r->sink->rescue;
    const fault *f = &to->fault;
    if (f->offset < to->known) {
        to->repaired_before++;
        return;
    }
    complain("%s: line %" PRIu64 ", column %" PRIu64 " (byte %" PRIu64
             "): bad UTF-8 was replaced by U+FFFD", r->source.name, f->line, f->column,
             f->offset);
    if (to->repaired < FIRST_PLACES) to->first_repaired[to->repaired] = f->line;
    to->repaired++;
}

/* Returns whether an array of objects begins here. */
static bool begins_list(const source *s)
{
    size_t at = s->start + 1;
    while (at < s->len && is_space(s->buf[at])) at++;
    return s->buf[s->start] == '[' && at < s->len && s->buf[at] == '{';
}

/* Skips the bracket of a damaged array, so that its elements are read one by one.
 * Commas between them and the closing bracket are skipped, too. */
static int skip_bracket(reader *r)
{
    source *s = &r->source;
    source_take(s, 1);
    return note_skipped(s, r->sink->rescue, s->base + s->start - 1, 1);
}

/* Returns whether a value is the rest of an object whose beginning is lost. Such a
 * value does not begin the line, and more of the object follows. */
static bool is_rest(const source *s, ms_str value)
{
    const char *at = value.ptr + value.len, *end = s->buf + s->len;
    const char *line = s->buf + s->start;
    while (line > s->buf && (line[-1] == ' ' || line[-1] == '\t')) line--;
    if (s->base + (uint64_t)(line - s->buf) <= s->line_base) return false;
    while (at < end && (*at == ' ' || *at == '\t' || *at == ',' || *at == ']')) at++;
    return at < end && (*at == '}' || *at == '"');
}

/* Reads the next value, or skips damage. */
static int rescue_value(reader *r, int c, conversation *talk)
{
    source *s = &r->source;
    ms_str value;
    if (c == '\0') return skip_nuls(r);
    if (c == ',' || c == ']') {
        source_take(s, 1);
        return FINE;
    }
    int code = next_value(s, &value);
    if (code == SKIPPED && begins_list(s)) return skip_bracket(r);
    bool scalar = code == FINE && !is_object(value) && !is_kind(value, MS_JSON_ARRAY);
    if (code == SKIPPED || scalar || (code == FINE && is_rest(s, value))) {
        return skip_line(r);
    }
    if (code == FINE) note_repaired(r, value);
    if (code == FINE) code = take_value(r, value, talk);
    if (code == FINE) source_take(s, offset_of(r, value) + value.len);
    return code;
}


/* ---- A whole file ------------------------------------------------------------------ */

/* Reads all values. Until damage is found, an array is read element by element. */
static int read_values(reader *r)
{
    source *s = &r->source;
    conversation lines = next_conversation(r), list = lines;
    int c, code = source_skip_byte_order_mark(s);
    while (code == FINE) {
        code = source_peek(s, &c);
        if (code != FINE || c < 0) break;
        bool array = c == '[' && !s->lines;
        code = s->rescuing ? rescue_value(r, c, &lines)
               : array     ? read_array(r, &list)
                           : read_value(r, &lines);
        if (code != SKIPPED || s->rescuing) continue;
        s->rescuing = true;
        if (array) lines = list;
        r->first = *s->fault;
        code = FINE;
    }
    return code;
}

/* Prints "FILE: WHAT: 3 a, 1 b". */
static void complain_of_tally(const reader *r, const char *what, const tally *t)
{
    char text[1024];
    size_t len = 0;
    for (size_t i = 0; i < arrlenu(t->rows) && len < sizeof text; i++) {
        const tally_row *row = &t->rows[i];
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%" PRIu64 " %.*s",
                                len > 0 ? ", " : "", row->count,
                                row->text.len < 60 ? (int)row->text.len : 60,
                                row->text.ptr);
    }
    if (len > 0) complain("%s: %s: %s", r->source.name, what, text);
}

/* Returns whether a text has messages, by its first value: a line or all of it. */
bool shows_messages(ms_str text)
{
    reader r;
    options o;
    ms_str value, list, first;
    const char *end = text.len > 0 ? memchr(text.ptr, '\n', text.len) : NULL;
    size_t len = end != NULL ? (size_t)(end - text.ptr) : text.len;
    memset(&r, 0, sizeof r);
    memset(&o, 0, sizeof o);
    r.options = &o;
    bool shown = false;
    if (ms_json_check(ms_str_n(text.ptr, len), NULL, &value, NULL) == MS_OK ||
        ms_json_check(text, NULL, &value, NULL) == MS_OK) {
        bool array = is_kind(value, MS_JSON_ARRAY);
        if (array && ms_json_element(value, 0, &first)) value = first;
        shown = is_object(value) && (format_of_message(&r, value, NULL) != NULL ||
                                     find_list(&r, value, &list));
    }
    ms_arena_deinit(&r.arena);
    return shown;
}

/* Opens a file of messages. A compressed one is loaded; DAMAGED: it ends early. */
static int open_input(source *s, const char *path, const ms_str *head, int rest)
{
    file_text f = {{NULL, 0}, NULL, 0, NULL, 0, false, 0};
    bool packed = head == NULL && ends_with(path, ".zst") && !is_pipe(path);
    if (!packed) return source_open(s, path, head, rest);
    int loaded = file_load(&f, path);
    int code = is_read(loaded) ? source_open(s, path, &f.text, -1) : loaded;
    file_free(&f);
    return code == FINE ? loaded : code;
}

/* Returns how much damage was met: what is new, and with `known` what was known. */
static uint64_t damage_met(const rescue *to, bool known)
{
    uint64_t met = to != NULL ? to->places + to->repaired : 0;
    return met + (to != NULL && known ? to->lines_before + to->repaired_before : 0);
}

int read_input(const options *o, const char *path, const ms_str *head, int rest,
               const sink *to)
{
    reader r;
    memset(&r, 0, sizeof r);
    r.options = o;
    r.sink = to;
    r.stem = o->location != NULL ? ms_str_of(o->location) : stem_of(path);
    uint64_t all = damage_met(to->rescue, true), fresh = damage_met(to->rescue, false);
    int code = open_input(&r.source, path, head, rest), loaded = code;
    if (!is_read(code)) return code;
    r.source.lines = to->lines;
    if (to->rescue != NULL) {
        r.source.fault = &to->rescue->fault;
        r.source.rescuing = GIVEN(o, KEEP_GOING);
        to->rescue->line = to->rescue->reported = 0;
    }
    code = read_values(&r);
    source_close(&r.source);
    bool none = code == FINE && r.source.messages == 0;
    if (none) complain("%s: no messages in it", r.source.name);
    complain_of_tally(&r, "left out what is not a message", &r.others);
    complain_of_tally(&r, "unknown, kept whole", &r.unknown);
    if (r.first.line > 0 && damage_met(to->rescue, true) == all) {
        to->rescue->fault = r.first; /* the file is damaged, but nothing was skipped */
        note_skipped(&r.source, to->rescue, r.first.offset, 0);
    }
    bool lost = damage_met(to->rescue, false) > fresh;
    ms_arena_deinit(&r.arena);
    tally_free(&r.others);
    tally_free(&r.unknown);
    tally_free(&r.names);
    if (code == FINE && lost) code = DAMAGED;
    return code == FINE ? loaded : code;
}

int read_whole(source *s)
{
    int code = source_skip_byte_order_mark(s);
    while (code == FINE && !s->eof) {
        if (s->len - s->start >= ELEMENT_MAX) {
            return complain_at(s, 0, "a file of over 256 MiB", "");
        }
        code = source_read(s);
    }
    return code;
}
