/* A session as a trace, by OpenTelemetry's conventions for generative AI (schema 1.44.0,
 * status Development):
 *
 *   invoke_agent NAME        the session, with all its messages and the sum of its usage
 *     invoke_agent AGENT     one for each agent, where there are several
 *       chat MODEL           an answer of a model, with what is new of its input
 *       execute_tool TOOL    a call with its arguments and its result
 *
 * A chat span of the conventions repeats the whole history, which grows with the square
 * of a session's length; here only the root has all of it. Ids of spans and traces are
 * hashes of location and message, so that a second export gives the same trace. A message
 * without a time takes that of the message before. */

#define _GNU_SOURCE
#include "otlp.h"
#include "secrets.h"

#include <inttypes.h>
#include <string.h>

#define SCHEMA "https://opentelemetry.io/schemas/1.44.0"

enum { KIND_INTERNAL = 1, KIND_CLIENT = 3, STATUS_ERROR = 2 };
enum { NO_PARENT = 0, NO_ENTRY = -1 };

typedef struct tokens {
    bool any;
    uint64_t input, output, cached, written;
    ms_str model;
} tokens;

/* A message of the session. */
typedef struct entry {
    ms_envelope m;            /* its views are in the session's arena */
    int64_t ns;
    ptrdiff_t other;          /* of a call its result, of a result its call */
    tokens used;
} entry;

typedef struct session {
    job *job;
    output *out;
    ms_json_writer w;
    ms_arena arena;
    entry *entries;           /* an stb_ds array */
    ms_str location, agent, model, provider;
    tally agents;
    tally answers;            /* count: of the entry that has the last report, plus 1 */
    uint64_t trace[2];
    uint64_t opaque, early;   /* messages: left out; with a time before 1970 */
    bool failed;
} session;


/* ---- What is written --------------------------------------------------------------- */

static uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Returns the number of a span, never 0: of a message, or with seq 0 of an agent. */
static uint64_t span_id(const session *s, uint64_t seq, unsigned what)
{
    uint64_t id = mixed(s->trace[0] ^ mixed(seq * 4 + what));
    return id != 0 ? id : 1;
}

static void put_text(session *s, const char *name, ms_str text)
{
    if (text.ptr != NULL && text.len > 0) json_text(&s->w, name, text);
}

/* Writes a 64-bit number, which is a string in OTLP JSON. */
static void put_number(session *s, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    json_text(&s->w, name, ms_str_of(text));
}

static void put_id(session *s, const char *name, uint64_t id)
{
    char text[24];
    snprintf(text, sizeof text, "%016" PRIx64, id);
    json_text(&s->w, name, ms_str_of(text));
}

static void put_trace_id(session *s)
{
    char text[40];
    snprintf(text, sizeof text, "%016" PRIx64 "%016" PRIx64, s->trace[0], s->trace[1]);
    json_text(&s->w, "traceId", ms_str_of(text));
}

static void attribute_begin(session *s, const char *key)
{
    ms_json_begin(&s->w, MS_JSON_OBJECT);
    json_text(&s->w, "key", ms_str_of(key));
    ms_json_key(&s->w, MS_STR("value"));
    ms_json_begin(&s->w, MS_JSON_OBJECT);
}

static void attribute_end(session *s)
{
    ms_json_end(&s->w);
    ms_json_end(&s->w);
}

static void attribute(session *s, const char *key, ms_str text)
{
    if (text.ptr == NULL || text.len == 0) return;
    attribute_begin(s, key);
    json_text(&s->w, "stringValue", text);
    attribute_end(s);
}

static void attribute_count(session *s, const char *key, uint64_t value)
{
    attribute_begin(s, key);
    put_number(s, "intValue", value);
    attribute_end(s);
}

static void attribute_usage(session *s, const tokens *used)
{
    if (!used->any) return;
    attribute_count(s, "gen_ai.usage.input_tokens", used->input);
    attribute_count(s, "gen_ai.usage.output_tokens", used->output);
    if (used->cached > 0) {
        attribute_count(s, "gen_ai.usage.cache_read.input_tokens", used->cached);
    }
    if (used->written > 0) {
        attribute_count(s, "gen_ai.usage.cache_creation.input_tokens", used->written);
    }
}

static void span_begin(session *s, uint64_t id, uint64_t parent, const char *verb,
                       ms_str of, int kind)
{
    char name[256];
    of = clip(of, 200);
    snprintf(name, sizeof name, "%s%s%.*s", verb, of.len > 0 ? " " : "", (int)of.len,
             of.len > 0 ? of.ptr : "");
    ms_json_begin(&s->w, MS_JSON_OBJECT);
    put_trace_id(s);
    put_id(s, "spanId", id);
    if (parent != NO_PARENT) put_id(s, "parentSpanId", parent);
    json_text(&s->w, "name", ms_str_of(name));
    json_u64(&s->w, "kind", (uint64_t)kind);
}

/* Begins the attributes: times, then those that every span has. Others may follow. */
static void span_attributes(session *s, const char *operation, int64_t from, int64_t to,
                            ms_str agent)
{
    if (to < from) to = from;
    put_number(s, "startTimeUnixNano", (uint64_t)(from > 0 ? from : 0));
    put_number(s, "endTimeUnixNano", (uint64_t)(to > 0 ? to : 0));
    ms_json_key(&s->w, MS_STR("attributes"));
    ms_json_begin(&s->w, MS_JSON_ARRAY);
    attribute(s, "gen_ai.operation.name", ms_str_of(operation));
    attribute(s, "gen_ai.provider.name", s->provider);
    attribute(s, "gen_ai.conversation.id", s->location);
    attribute(s, "gen_ai.agent.name", agent.len > 0 ? agent : s->agent);
}

/* Ends a span. error: the text of a failure; absent if there was no failure. */
static void span_end(session *s, ms_str error)
{
    if (error.ptr != NULL) attribute(s, "error.type", error);
    ms_json_end(&s->w);
    if (error.ptr != NULL) {
        ms_json_key(&s->w, MS_STR("status"));
        ms_json_begin(&s->w, MS_JSON_OBJECT);
        json_u64(&s->w, "code", STATUS_ERROR);
        ms_json_end(&s->w);
    }
    ms_json_end(&s->w);
}


/* ---- Messages, as the conventions write them --------------------------------------- */

static bool is_call(const entry *e)
{
    return e->m.type == MS_T_ACTION || e->m.type == MS_T_DELEGATION;
}

static bool is_result(const entry *e)
{
    return e->m.type == MS_T_OBSERVATION ||
           (e->m.type == MS_T_ERROR && e->m.call_id.ptr != NULL);
}

static ms_role role_of(const entry *e)
{
    static const ms_role roles[MS_TYPE_COUNT] = {
#define MS__X(n, name, role, req, cls, proj, fw, env, task) [n] = MS_ROLE_##role,
        MS_TYPES(MS__X)
#undef MS__X
    };
    return e->m.role != MS_ROLE_NONE ? e->m.role : roles[e->m.type];
}

/* Returns whether a model writes such a message. */
static bool is_answer(const entry *e)
{
    return is_call(e) || (role_of(e) == MS_ROLE_ASSISTANT && !is_result(e));
}

static const char *role_word(const entry *e)
{
    if (is_result(e)) return "tool";
    if (is_answer(e)) return "assistant";
    ms_role role = role_of(e);
    return role == MS_ROLE_SYSTEM || role == MS_ROLE_DEVELOPER ? "system" : "user";
}

/* Writes a value: JSON as it is, text as a string. */
static void put_value(ms_json_writer *w, const char *name, ms_value value)
{
    ms_json_key(w, ms_str_of(name));
    if (value.text.ptr == NULL) ms_json_put_raw(w, MS_STR("null"));
    else if (value.json) ms_json_put_raw(w, value.text);
    else ms_json_put_string(w, value.text);
}

static void put_part(ms_json_writer *w, const char *type, ms_str text)
{
    ms_json_begin(w, MS_JSON_OBJECT);
    json_text(w, "type", ms_str_of(type));
    json_text(w, "content", text.ptr != NULL ? text : MS_STR(""));
    ms_json_end(w);
}

/* Writes the texts of a content; a list of parts has several. Other parts are written
 * as text. */
static void put_content(session *s, ms_json_writer *w, const char *type, ms_value content)
{
    ms_str text;
    bool list = content.json && ms_json_kind_of(content.text) == MS_JSON_ARRAY;
    ms_json_iter it = ms_json_iterate(content.text);
    if (!list) {
        bool string = content.json &&
                      ms_json_string(content.text, &s->arena, &text) == MS_OK;
        put_part(w, type, string ? text : content.text);
        return;
    }
    while (ms_json_next(&it)) {
        ms_str value;
        bool plain = ms_json_member(it.value, MS_STR("text"), &value) &&
                     ms_json_string(value, &s->arena, &text) == MS_OK;
        put_part(w, type, plain ? text : it.value);
    }
}

static void put_call(ms_json_writer *w, const entry *e)
{
    bool delegation = e->m.type == MS_T_DELEGATION;
    ms_json_begin(w, MS_JSON_OBJECT);
    json_text(w, "type", MS_STR("tool_call"));
    if (e->m.call_id.ptr != NULL) json_text(w, "id", e->m.call_id);
    json_text(w, "name", delegation ? MS_STR("delegate") : e->m.tool);
    if (delegation) {
        ms_json_key(w, MS_STR("arguments"));
        ms_json_begin(w, MS_JSON_OBJECT);
        json_text(w, "worker", e->m.worker);
        json_text(w, "task", e->m.task);
        ms_json_end(w);
    } else {
        put_value(w, "arguments", e->m.args);
    }
    ms_json_end(w);
}

static void put_parts(session *s, ms_json_writer *w, const entry *e)
{
    if (is_result(e)) {
        ms_json_begin(w, MS_JSON_OBJECT);
        json_text(w, "type", MS_STR("tool_call_response"));
        if (e->m.call_id.ptr != NULL) json_text(w, "id", e->m.call_id);
        put_value(w, "response", e->m.content);
        ms_json_end(w);
        return;
    }
    const char *type = e->m.type == MS_T_REASONING ? "reasoning" : "text";
    if (e->m.content.text.ptr != NULL) put_content(s, w, type, e->m.content);
    if (is_call(e)) put_call(w, e);
}

/* Returns whether two messages form one message of the conventions. */
static bool goes_on(const entry *a, const entry *b)
{
    return strcmp(role_word(a), role_word(b)) == 0 &&
           ms_str_equal(a->m.agent_key, b->m.agent_key);
}

/* Returns messages [from, to) as JSON text. finished: outputs, which have a finish
 * reason. */
static ms_str messages_text(session *s, size_t from, size_t to, bool finished)
{
    ms_json_writer w;
    ms_buf buf = {&s->arena, NULL, 0, 0};
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_json_begin(&w, MS_JSON_ARRAY);
    for (size_t i = from; i < to;) {
        bool calls = false;
        size_t first = i;
        ms_json_begin(&w, MS_JSON_OBJECT);
        json_text(&w, "role", ms_str_of(role_word(&s->entries[i])));
        ms_json_key(&w, MS_STR("parts"));
        ms_json_begin(&w, MS_JSON_ARRAY);
        for (; i < to && goes_on(&s->entries[first], &s->entries[i]); i++) {
            calls = calls || is_call(&s->entries[i]);
            put_parts(s, &w, &s->entries[i]);
        }
        ms_json_end(&w);
        const char *reason = calls ? "tool_call" : "stop";
        if (finished) json_text(&w, "finish_reason", ms_str_of(reason));
        ms_json_end(&w);
    }
    ms_json_end(&w);
    if (ms_json_finish(&w) != MS_OK) s->failed = true;
    return ms_buf_text(&buf);
}


/* ---- Reading a session ------------------------------------------------------------- */

static void add_tokens(tokens *to, const tokens *from)
{
    to->any = to->any || from->any;
    to->input += from->input;
    to->output += from->output;
    to->cached += from->cached;
    to->written += from->written;
    if (from->model.ptr != NULL) to->model = from->model;
}

static ms_str text_member(session *s, ms_str object, const char *name)
{
    ms_str value, text = {NULL, 0}, copy = {NULL, 0};
    if (ms_json_member(object, ms_str_of(name), &value) &&
        ms_json_string(value, &s->arena, &text) == MS_OK &&
        !copy_text(&s->arena, text, &copy)) s->failed = true;
    return copy;
}

static uint64_t count_member(ms_str object, const char *name)
{
    ms_str value;
    uint64_t n = 0;
    if (ms_json_member(object, ms_str_of(name), &value)) ms_json_u64(value, &n);
    return n;
}

/* Adds the tokens of an answer to an entry. An answer counts once, with its last report:
 * a program may note it with each part that comes. */
static void take_tokens(session *s, size_t i, const tokens *t, ms_str answer)
{
    tally_row *row = answer.len > 0 ? tally_row_of(&s->answers, answer) : NULL;
    if (answer.len > 0 && row == NULL) s->failed = true;
    if (row != NULL && row->count > 0) {
        memset(&s->entries[row->count - 1].used, 0, sizeof(tokens));
    }
    if (row != NULL) row->count = i + 1;
    add_tokens(&s->entries[i].used, t);
}

static void read_note(session *s, const ms_msg *note)
{
    ms_usage usage;
    tokens t = {false, 0, 0, 0, 0, {NULL, 0}};
    ms_str object = ms_content(note).text;
    if (!ms_usage_of(note, &usage)) return;
    t.any = true;
    t.input = usage.input_tokens;
    t.output = usage.output_tokens;
    t.cached = usage.cached_tokens;
    t.written = count_member(object, "cache_write_tokens");
    t.model = text_member(s, object, "model");
    for (size_t i = arrlenu(s->entries); i > 0; i--) {
        if (s->entries[i - 1].m.seq != ms_seq(note)) continue;
        take_tokens(s, i - 1, &t, text_member(s, object, "answer"));
        return;
    }
}

static void read_message(session *s, const ms_msg *msg)
{
    entry e;
    memset(&e, 0, sizeof e);
    ms_envelope m = ms_envelope_of(msg);
    if (is_opaque(&m)) {
        s->opaque++;
        return;
    }
    s->early += m.has_time && m.time_ns < 0;
    if (GIVEN(s->job->options, MASK_SECRETS) &&
        !secrets_mask_message(&m, SECRETS_KEYS, &s->arena, NULL, NULL)) s->failed = true;
    if (ms_envelope_copy(&m, &s->arena, &e.m) != MS_OK) s->failed = true;
    size_t n = arrlenu(s->entries);
    int64_t before = n > 0 ? s->entries[n - 1].ns : 0;
    e.ns = m.has_time ? m.time_ns : before;
    e.other = NO_ENTRY;
    arrput(s->entries, e);
    if (m.agent_key.len > 0 && tally_row_of(&s->agents, m.agent_key) == NULL) {
        s->failed = true;
    }
}

static int read_records(session *s, unsigned raw, void (*take)(session *, const ms_msg *))
{
    ms_cursor it;
    ms_query q = {0};
    const ms_msg *msg;
    listing l = {s->job->store, &q, NULL, NULL, NULL};
    q.location = s->location;
    q.raw = raw;
    if (raw == 0) q.arena = &s->arena;
    int code = listing_open(&l, &it);
    if (code != FINE) return code;
    while (!s->failed && (msg = ms_next(&it)) != NULL) take(s, msg);
    return listing_close(&it);
}

/* Pairs results with their calls, by id. A result without an id answers the oldest open
 * call of the same tool. */
static void pair_up(session *s)
{
    for (size_t i = 0; i < arrlenu(s->entries); i++) {
        entry *e = &s->entries[i];
        size_t k = i > 4096 ? i - 4096 : 0;
        if (!is_result(e)) continue;
        for (; k < i; k++) {
            const entry *c = &s->entries[k];
            if (c->m.type != MS_T_ACTION || c->other != NO_ENTRY) continue;
            bool same = e->m.call_id.ptr != NULL
                            ? ms_str_equal(c->m.call_id, e->m.call_id)
                            : c->m.call_id.ptr == NULL &&
                                  (e->m.tool.ptr == NULL ||
                                   ms_str_equal(c->m.tool, e->m.tool));
            if (same) break;
        }
        if (k == i) continue;
        e->other = (ptrdiff_t)k;
        s->entries[k].other = (ptrdiff_t)i;
    }
}

/* Returns the provider of a model, by the beginning of its name. */
static ms_str provider_of(ms_str model)
{
    static const struct {
        const char *begin, *provider;
    } known[] = {
        {"claude", "anthropic"}, {"gpt", "openai"},        {"o1", "openai"},
        {"o3", "openai"},        {"o4", "openai"},         {"codex", "openai"},
        {"gemini", "gcp.gemini"}, {"mistral", "mistral_ai"}, {"deepseek", "deepseek"},
        {"grok", "x_ai"},        {"command", "cohere"},
    };
    for (size_t i = 0; i < COUNT_OF(known) && model.ptr != NULL; i++) {
        if (text_begins(model, ms_str_of(known[i].begin))) {
            return ms_str_of(known[i].provider);
        }
    }
    return ms_str_n(NULL, 0);
}

static int read_session(session *s)
{
    ms_error err;
    ms_str facts;
    ms_store *store = s->job->store;
    ms_result result = ms_location_get(store, s->location, &s->arena, &facts, &err);
    int known = result == MS_OK ? FINE : complain_of("reading facts", result, &err);
    if (!is_read(known)) return known;
    s->agent = text_member(s, facts, "agent");
    s->model = text_member(s, facts, "model");
    s->provider = text_member(s, facts, "provider");
    s->trace[0] = mixed(hash_text(s->location));
    s->trace[1] = mixed(s->trace[0] + 1);
    int code = read_records(s, 0, read_message);
    if (code == FINE) code = read_records(s, MS_RAW_NOTES, read_note);
    pair_up(s);
    for (size_t i = 0; i < arrlenu(s->entries) && s->model.ptr == NULL; i++) {
        s->model = s->entries[i].used.model;
    }
    if (s->provider.ptr == NULL) s->provider = provider_of(s->model);
    return s->failed ? no_memory() : code != FINE ? code : known;
}


/* ---- The spans of a session -------------------------------------------------------- */

static uint64_t parent_of(session *s, ms_str agent)
{
    if (agent.len == 0 || arrlenu(s->agents.rows) < 2) return span_id(s, 0, 0);
    return mixed(span_id(s, 0, 1) ^ hash_text(agent)) | 1;
}

static void put_system(session *s)
{
    ms_json_writer w;
    ms_buf buf = {&s->arena, NULL, 0, 0};
    size_t n = 0;
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_json_begin(&w, MS_JSON_ARRAY);
    for (; n < arrlenu(s->entries); n++) {
        if (strcmp(role_word(&s->entries[n]), "system") != 0) break;
        put_parts(s, &w, &s->entries[n]);
    }
    ms_json_end(&w);
    if (ms_json_finish(&w) != MS_OK) s->failed = true;
    if (n > 0) attribute(s, "gen_ai.system_instructions", ms_buf_text(&buf));
}

static void put_root(session *s)
{
    size_t n = arrlenu(s->entries), begin = 0, end = n;
    tokens sum = {false, 0, 0, 0, 0, {NULL, 0}};
    while (begin < n && strcmp(role_word(&s->entries[begin]), "system") == 0) begin++;
    while (end > begin && is_answer(&s->entries[end - 1])) end--;
    for (size_t i = 0; i < n; i++) add_tokens(&sum, &s->entries[i].used);
    span_begin(s, span_id(s, 0, 0), NO_PARENT, "invoke_agent", s->agent, KIND_INTERNAL);
    span_attributes(s, "invoke_agent", s->entries[0].ns, s->entries[n - 1].ns, s->agent);
    attribute(s, "gen_ai.request.model", s->model);
    put_system(s);
    if (end > begin) {
        attribute(s, "gen_ai.input.messages", messages_text(s, begin, end, false));
    }
    if (end < n) attribute(s, "gen_ai.output.messages", messages_text(s, end, n, true));
    attribute_usage(s, &sum);
    span_end(s, ms_str_n(NULL, 0));
}

/* Writes the span of an agent: from its first message to its last. */
static void put_agent(session *s, ms_str agent)
{
    const entry *first = NULL, *last = NULL;
    for (size_t i = 0; i < arrlenu(s->entries); i++) {
        if (!ms_str_equal(s->entries[i].m.agent_key, agent)) continue;
        if (first == NULL) first = &s->entries[i];
        last = &s->entries[i];
    }
    if (first == NULL) return;
    span_begin(s, parent_of(s, agent), span_id(s, 0, 0), "invoke_agent", agent,
               KIND_INTERNAL);
    span_attributes(s, "invoke_agent", first->ns, last->ns, agent);
    span_end(s, ms_str_n(NULL, 0));
}

static void put_tool(session *s, const entry *call)
{
    const entry *result = call->other != NO_ENTRY ? &s->entries[call->other] : NULL;
    ms_str error = {NULL, 0};
    if (result != NULL && result->m.type == MS_T_ERROR) {
        error = result->m.error_type.len > 0 ? result->m.error_type : MS_STR("_OTHER");
    }
    span_begin(s, span_id(s, call->m.seq, 2), parent_of(s, call->m.agent_key),
               "execute_tool", call->m.tool, KIND_INTERNAL);
    span_attributes(s, "execute_tool", call->ns, result != NULL ? result->ns : call->ns,
                    call->m.agent_key);
    attribute(s, "gen_ai.tool.name", call->m.tool);
    attribute(s, "gen_ai.tool.type", MS_STR("function"));
    attribute(s, "gen_ai.tool.call.id", call->m.call_id);
    attribute(s, "gen_ai.tool.call.arguments", call->m.args.text);
    if (result != NULL) attribute(s, "gen_ai.tool.call.result", result->m.content.text);
    span_end(s, error);
}

/* Returns whether the message at i belongs to the answer that began at first. */
static bool continues(const session *s, size_t first, size_t i, bool counted)
{
    const entry *a = &s->entries[first], *b = &s->entries[i];
    if (!is_answer(b) || !ms_str_equal(a->m.agent_key, b->m.agent_key)) return false;
    return (b->m.flags & MS_FLAG_JOINED) != 0 || !(counted && b->used.any);
}

/* Returns the tokens of an answer. Some programs note them with the results that
 * follow. */
static tokens tokens_of(const session *s, size_t input, size_t first, size_t end)
{
    tokens used = {false, 0, 0, 0, 0, {NULL, 0}};
    size_t from = input == 0 ? 0 : first, to = end;
    while (to < arrlenu(s->entries) && !is_answer(&s->entries[to])) to++;
    for (size_t i = from; i < to; i++) add_tokens(&used, &s->entries[i].used);
    return used;
}

/* Writes an answer, entries [first, end). Its input is everything after the previous
 * answer. */
static void put_chat(session *s, size_t input, size_t first, size_t end)
{
    const entry *begin = &s->entries[first];
    tokens used = tokens_of(s, input, first, end);
    ms_str model = used.model.ptr != NULL ? used.model : s->model;
    span_begin(s, span_id(s, begin->m.seq, 1), parent_of(s, begin->m.agent_key), "chat",
               model, KIND_CLIENT);
    span_attributes(s, "chat", first > 0 ? s->entries[first - 1].ns : begin->ns,
                    s->entries[end - 1].ns, begin->m.agent_key);
    attribute(s, "gen_ai.request.model", model);
    if (input < first) {
        attribute(s, "gen_ai.input.messages", messages_text(s, input, first, false));
    }
    attribute(s, "gen_ai.output.messages", messages_text(s, first, end, true));
    attribute_usage(s, &used);
    span_end(s, ms_str_n(NULL, 0));
}

static void put_spans(session *s)
{
    size_t n = arrlenu(s->entries), input = 0;
    put_root(s);
    for (size_t i = 0; i < arrlenu(s->agents.rows) && arrlenu(s->agents.rows) > 1; i++) {
        put_agent(s, s->agents.rows[i].text);
    }
    for (size_t i = 0; i < n && !s->failed;) {
        if (!is_answer(&s->entries[i])) {
            i++;
            continue;
        }
        size_t end = i + 1;
        bool counted = s->entries[i].used.any;
        for (; end < n && continues(s, i, end, counted); end++) {
            counted = counted || s->entries[end].used.any;
        }
        put_chat(s, input, i, end);
        for (size_t k = i; k < end; k++) {
            if (s->entries[k].m.type == MS_T_ACTION) put_tool(s, &s->entries[k]);
        }
        input = i = end;
    }
}

static int put_trace(session *s)
{
    ms_json_writer *w = &s->w;
    ms_json_begin(w, MS_JSON_OBJECT);
    ms_json_key(w, MS_STR("resourceSpans"));
    ms_json_begin(w, MS_JSON_ARRAY);
    ms_json_begin(w, MS_JSON_OBJECT);
    ms_json_key(w, MS_STR("resource"));
    ms_json_begin(w, MS_JSON_OBJECT);
    ms_json_key(w, MS_STR("attributes"));
    ms_json_begin(w, MS_JSON_ARRAY);
    attribute(s, "service.name", s->agent.len > 0 ? s->agent : MS_STR("msgstore"));
    ms_json_end(w);
    ms_json_end(w);
    ms_json_key(w, MS_STR("scopeSpans"));
    ms_json_begin(w, MS_JSON_ARRAY);
    ms_json_begin(w, MS_JSON_OBJECT);
    ms_json_key(w, MS_STR("scope"));
    ms_json_begin(w, MS_JSON_OBJECT);
    put_text(s, "name", MS_STR("msgstore"));
    put_text(s, "version", MS_STR(MSGSTORE_VERSION));
    ms_json_end(w);
    ms_json_key(w, MS_STR("spans"));
    ms_json_begin(w, MS_JSON_ARRAY);
    put_spans(s);
    ms_json_end(w);
    put_text(s, "schemaUrl", MS_STR(SCHEMA));
    ms_json_end(w);
    ms_json_end(w);
    ms_json_end(w);
    ms_json_end(w);
    ms_json_end(w);
    ms_json_separator(w, '\n');
    return s->failed ? no_memory() : FINE;
}

static int export_session(job *j, output *out, ms_str location)
{
    session s;
    memset(&s, 0, sizeof s);
    s.job = j;
    s.out = out;
    s.location = location;
    ms_json_init(&s.w, emit, out, false);
    int code = read_session(&s);
    if ((code == FINE || code == DAMAGED) && arrlenu(s.entries) > 0) {
        int written = put_trace(&s);
        if (written != FINE) code = written;
        if (ms_json_finish(&s.w) != MS_OK && out->error == 0) code = no_memory();
    }
    complain_of_opaque(location, s.opaque);
    if (s.early > 0) {
        complain("%.*s: %" PRIu64 " time%s before 1970 became 1970", (int)location.len,
                 location.ptr, s.early, plural(s.early));
    }
    arrfree(s.entries);
    tally_free(&s.agents);
    tally_free(&s.answers);
    ms_arena_deinit(&s.arena);
    return code;
}

int export_otlp(job *j)
{
    ms_listing list;
    output out = {stdout, 0};
    const options *o = j->options;
    ms_str all = {NULL, 0}, name;
    int code = look_up(j, false, all, all, &list), worst = FINE;
    for (size_t i = 0; i < o->n_locations && code == FINE; i++) {
        code = resolve(j, &list, o->locations[i], &name);
        if (code == FINE) o->locations[i] = name;
    }
    if (code != FINE) return code;
    for (size_t i = list.count; i > 0 && out.error == 0; i--) { /* the oldest first */
        if (!is_wanted(o, list.items[i - 1].location)) continue;
        code = export_session(j, &out, list.items[i - 1].location);
        if (code != FINE) worst = code;
        if (code != FINE && code != DAMAGED) break;
    }
    return output_end(&out, worst);
}
