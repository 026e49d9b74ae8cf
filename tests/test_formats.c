/* Messages as no program of ours writes them, in every format: each value of a message
 * is another one in turn, members of other formats are added, envelopes have fields that
 * no reader gives, and memory ends at every place.
 *
 *   - A message is refused with a reason, or what is read of it fits a store, and every
 *     format writes it: JSON that jansson parses and that the same format reads.
 *   - An arena that is too small gives that very result, or says that it is too small.
 *     So it is with each allocation failing.
 *
 * Left out: what each type becomes (test_dialect, test_blocks), equality with the source
 * (there too). At MS_TEST_SCALE=100 one in 22 of some 90,000 bent messages, 1,000
 * lists of envelopes; every bent message from 1100 on.
 */

#define _POSIX_C_SOURCE 200809L

#include "dialects.h"
#include <jansson.h>

#define FW "framework"
#define OA "openai"
#define SE "session"
#define TA "task"
#define EN "envelope"
#define RO "envelope-rows"
#define AN "anthropic"
#define GE "gemini"
#define PY "pydantic-ai"
#define PICK(rng, list) (list)[test_below(rng, COUNT(list))]


static json_t *parsed(const char *text, size_t len)
{
    return json_loadb(text, len, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
}


/* ---- messages to begin with: \u escapes make every text one that needs memory ---- */

static const struct {
    const char *dialect, *json;
} rows[] = {
    {FW, "{\"type\":\"user_message\",\"content\":\"\\u0041\",\"timestamp\":1.5,\"role\":"
         "\"te\\u0041cher\",\"joined\":true,\"turn_id\":\"\\u0041\",\"location\":\"\\u0041"
         "\",\"agent_key\":\"w\",\"idempotency_key\":\"\\u0041\",\"id\":\"\\u0041\"}"},
    {FW, "{\"type\":\"action\",\"tool\":\"\\u0041\",\"args\":{\"q\":[1]},\"call\":{\"a\":"
         "1},\"tool_call_id\":\"\\u0041\",\"k\":[1]}"},
    {FW, "{\"type\":\"\\u0061ction\",\"tool\":\"f\",\"args\":\"no \\u0041 json\"}"},
    {FW, "{\"type\":\"\\u0041nother\",\"content\":\"x\"}"},
    {FW, "{\"type\":\"delegation\",\"worker\":\"\\u0041\",\"task\":\"\\u0041\","
         "\"phase_id\":2,\"summary\":\"\\u0041\"}"},
    {FW, "{\"type\":\"synthesis\",\"content\":{\"a\":\"\\u0041\"},\"from_manager\":\"m\"}"},
    {OA, "{\"role\":\"\\u0075ser\",\"content\":[{\"type\":\"text\",\"text\":\"\\u0041\"},"
         "{\"type\":\"image_url\",\"image_url\":{\"url\":\"u\"}}],\"name\":\"\\u0041\"}"},
    {OA, "{\"role\":\"assistant\",\"content\":\"\\u0041\",\"tool_calls\":[{\"id\":\"\\u0041"
         "\",\"type\":\"function\",\"function\":{\"name\":\"\\u0041\",\"arguments\":"
         "\"{\\\"a\\\":1}\"}},{\"id\":\"d\",\"type\":\"custom\",\"custom\":{\"name\":\"g\","
         "\"input\":\"\\u0041\"}}],\"refusal\":null,\"audio\":{\"id\":\"1\"}}"},
    {OA, "{\"role\":\"tool\",\"tool_call_id\":\"\\u0041\",\"name\":\"\\u0041\",\"content\":"
         "\"\\u0041\"}"},
    {OA, "{\"role\":\"developer\",\"content\":\"\\u0041\"}"},
    {SE, "{\"role\":\"\\u0075ser\",\"content\":\"\\u0041\",\"timestamp\":\"2024-01-15T10:"
         "30:00Z\",\"id\":\"\\u0041\",\"metadata\":{\"timestamp\":5,\"tool_name\":\"n\"}}"},
    {SE, "{\"role\":\"tool\",\"content\":\"\\u0041\",\"tool_name\":\"\\u0041\","
         "\"tool_call_id\":\"\\u0041\",\"tool_arguments\":{\"a\":1},\"metadata\":"
         "\"{\\\"tool_name\\\":\\\"in\\\",\\\"tool_arguments\\\":{}}\",\"created_at\":7}"},
    {SE, "{\"role\":\"tool\",\"content\":\"\",\"metadata\":{\"tool_name\":\"\\u0041\","
         "\"tool_call_id\":\"\\u0041\",\"tool_arguments\":\"\\u0041\",\"timestamp\":\"\"}}"},
    {SE, "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":{\"items\":[{"
         "\"tool_name\":\"\\u0041\",\"tool_call_id\":\"\\u0041\",\"tool_arguments\":"
         "{\"a\":[]},\"more\":1}]},\"timestamp\":1e9}"},
    {SE, "{\"role\":\"assistant\",\"content\":\"x\",\"msgstore\":{\"type\":\"reasoning\","
         "\"role\":\"\\u0041\",\"time\":5.25,\"turn_id\":\"\\u0041\",\"joined\":true,"
         "\"args\":{\"a\":1},\"call_extra\":{\"b\":2}}}"},
    {TA, "{\"id\":\"\\u0041\",\"task_id\":\"\\u0041\",\"content\":{\"type\":\"text\","
         "\"author\":\"user\",\"content\":\"\\u0041\",\"style\":\"static\",\"format\":"
         "\"plain\",\"attachments\":[{\"name\":\"n\",\"url\":\"u\",\"mime_type\":\"m\"},"
         "{\"file_id\":\"f\",\"name\":\"n\",\"size\":1,\"type\":\"t\"}]},\"created_at\":"
         "\"2024-01-01T00:00:00+00:00\",\"updated_at\":null,\"streaming_status\":\"DONE\"}"},
    {TA, "{\"type\":\"tool_request\",\"author\":\"agent\",\"tool_call_id\":\"\\u0041\","
         "\"name\":\"\\u0041\",\"arguments\":{\"a\":1},\"style\":\"active\"}"},
    {TA, "{\"type\":\"tool_response\",\"author\":\"agent\",\"tool_call_id\":\"\\u0041\","
         "\"name\":\"\\u0041\",\"content\":\"\\u0041\",\"is_error\":true}"},
    {TA, "{\"type\":\"reasoning\",\"author\":\"agent\",\"summary\":[\"\\u0041\"],"
         "\"content\":[\"b\"],\"style\":\"static\"}"},
    {TA, "{\"type\":\"data\",\"author\":\"\\u0061gent\",\"data\":{\"a\":\"\\u0041\"},"
         "\"msgstore\":{\"type\":\"synthesis\",\"from_manager\":\"m\",\"role\":\"x\"}}"},
    {EN, "{\"schema\":\"agents-api.message\",\"version\":1,\"type\":\"tool_call\",\"role\":"
         "\"\\u0041\",\"content\":\"\\u0041\",\"payload\":{\"tool_name\":\"\\u0041\","
         "\"parameters\":{\"a\":\"\\u0041\"},\"turn\":2},\"metadata\":{\"tool_call_id\":"
         "\"\\u0041\",\"k\":1},\"id\":\"\\u0041\",\"created_at\":\"2024-01-01T00:00:00Z\","
         "\"updated_at\":\"x\",\"extra\":{\"n\":1}}"},
    {EN, "{\"schema\":\"agents-api.message\",\"version\":\"1\",\"type\":\"tool_result\","
         "\"role\":\"tool\",\"content\":[{\"type\":\"text\",\"text\":\"\\u0041\"}],\"data\":"
         "{\"tool_name\":\"f\",\"success\":true},\"created_at\":\"\\u0041\"}"},
    {EN, "{\"role\":\"assistant\",\"content\":\"\\u0041\",\"metadata\":{\"type\":"
         "\"tool_call\",\"tool_name\":\"\\u0041\",\"parameters\":\"\\u0041\",\"turn\":1,"
         "\"msgstore\":{\"call_extra\":{\"parameters\":{}},\"args\":{},\"key\":\"k\"}}}"},
    {RO, "{\"role\":\"user\",\"content\":{\"a\":1},\"metadata\":{\"type\":\"tool_result\","
         "\"tool_name\":\"\\u0041\",\"tool_call_id\":\"\\u0041\",\"success\":false}}"},
    {AN, "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"\\u0041"
         "\",\"signature\":\"s\"},{\"type\":\"text\",\"text\":\"\\u0041\"},{\"type\":"
         "\"tool_use\",\"id\":\"\\u0041\",\"name\":\"\\u0041\",\"input\":{\"a\":1}}]}"},
    {AN, "{\"role\":\"\\u0075ser\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":"
         "\"\\u0041\",\"content\":[{\"type\":\"text\",\"text\":\"\\u0041\"},{\"type\":"
         "\"image\",\"source\":{}}],\"is_error\":true},{\"type\":\"text\",\"text\":\"a\"},"
         "{\"type\":\"document\",\"source\":{}}]}"},
    {GE, "{\"role\":\"model\",\"parts\":[{\"text\":\"\\u0041\",\"thought\":true},{\"text\":"
         "\"\\u0041\"},{\"functionCall\":{\"name\":\"\\u0041\",\"args\":{\"a\":1},\"id\":"
         "\"\\u0041\"},\"thoughtSignature\":\"s\"}]}"},
    {GE, "{\"role\":\"user\",\"parts\":[{\"functionResponse\":{\"name\":\"\\u0041\","
         "\"response\":{\"result\":\"\\u0041\"},\"id\":\"\\u0041\"}},{\"inlineData\":{"
         "\"mimeType\":\"m\",\"data\":\"d\"}}]}"},
    {GE, "{\"parts\":[{\"functionResponse\":{\"name\":\"f\",\"response\":{\"error\":"
         "\"\\u0041\"}}}]}"},
    {PY, "{\"kind\":\"request\",\"parts\":[{\"part_kind\":\"system-prompt\",\"content\":"
         "\"\\u0041\",\"timestamp\":\"2024-01-01T00:00:00Z\"},{\"part_kind\":"
         "\"user-prompt\",\"content\":[\"\\u0041\",{\"kind\":\"image-url\",\"url\":\"u\"}],"
         "\"timestamp\":5},{\"part_kind\":\"tool-return\",\"tool_name\":\"\\u0041\","
         "\"content\":{\"a\":1},\"tool_call_id\":\"\\u0041\",\"outcome\":\"failed\"},"
         "{\"part_kind\":\"retry-prompt\",\"content\":\"\\u0041\",\"tool_name\":\"\\u0041\","
         "\"tool_call_id\":\"c\"}],\"instructions\":\"\\u0041\"}"},
    {PY, "{\"kind\":\"response\",\"parts\":[{\"part_kind\":\"text\",\"content\":\"\\u0041\"},"
         "{\"part_kind\":\"thinking\",\"content\":\"\\u0041\",\"signature\":\"s\"},"
         "{\"part_kind\":\"tool-call\",\"tool_name\":\"\\u0041\",\"args\":\"{}\","
         "\"tool_call_id\":\"\\u0041\"},{\"part_kind\":\"tool-call\",\"tool_name\":\"g\","
         "\"args\":{\"a\":1}}],\"timestamp\":\"2024-01-01T00:00:00Z\",\"model_name\":"
         "\"m\"}"},
};


/* ---- reading and writing ---- */

static ms_result reads(const ms_dialect *d, ms_str json, unsigned how, ms_arena *in,
                       ms_envelopes *out, ms_error *err)
{
    ms_read_opts opts = {(how & LENIENT) != 0, (how & REPAIR) != 0};
    memset(err, 0, sizeof *err);
    memset(out, 0xA5, sizeof *out);
    return ms_read(d, json, &opts, in, out, err);
}

static ms_result writes(const ms_dialect *d, const ms_envelopes *list, ms_arena *in,
                        bool placed, ms_buf *text, ms_error *err)
{
    ms_writer_opts opts = {true, false, placed};
    ms_writer w;
    ms_result code = MS_OK;
    memset(text, 0, sizeof *text);
    memset(err, 0, sizeof *err);
    text->arena = &arena;
    ms_writer_init(&w, d, &opts, in, ms_buf_write, text);
    for (size_t i = 0; i < list->count && code == MS_OK; i++)
        code = ms_writer_put(&w, &list->items[i], err);
    return code == MS_OK ? ms_writer_finish(&w, err) : code;
}

static void must_be_json(const ms_dialect *d, ms_str text)
{
    json_t *value = parsed(text.ptr, text.len);
    if (value == NULL || !json_is_array(value))
        fail_msg("%s writes no JSON: %.*s", d->name, (int)text.len, text.ptr);
    json_decref(value);
}

/* It is written, that is JSON, which the format reads, and what it reads fits a store. */
static void must_cross(const ms_dialect *d, const ms_envelopes *list, bool placed)
{
    ms_buf text;
    ms_error err;
    ms_envelopes again;
    ms_read_opts opts = {true, false};
    if (writes(d, list, &arena, placed, &text, &err) != MS_OK)
        fail_msg("%s cannot write it: %s: %s", d->name, err.path, err.message);
    ms_str json = ms_buf_text(&text);
    must_be_json(d, json);
    if (ms_read_list(d, json, &opts, &arena, &again, &err) != MS_OK)
        fail_msg("%s refuses what it writes: %s: %s\n%.*s", d->name, err.path,
                 err.message, (int)json.len, json.ptr);
    for (size_t i = 0; i < again.count; i++)
        assert_int_equal(ms_envelope_check(&again.items[i], &err), MS_OK);
}

/* In every format. */
static void must_cross_all(const ms_envelopes *list)
{
    const ms_dialect *d;
    for (size_t i = 0; (d = ms_dialect_at(i)) != NULL; i++)
        must_cross(d, list, i % 2 == 0);
}

static size_t bent, refused;

/* Is it refused with a reason, or read and written by all? */
static void must_be_answered(const char *name, ms_str json)
{
    for (unsigned how = STRICT; how <= LENIENT; how++) {
        ms_envelopes list;
        ms_error err;
        bent++;
        if (reads(dialect(name), json, how, &arena, &list, &err) != MS_OK) {
            refused++;
            assert_null(list.items);
            assert_int_equal(list.count, 0);
            assert_true(err.code != MS_OK && err.message[0] != '\0');
            continue;
        }
        for (size_t i = 0; i < list.count; i++)
            assert_int_equal(ms_envelope_check(&list.items[i], &err), MS_OK);
        must_cross_all(&list);
    }
    ms_arena_reset(&arena);
}


/* ---- each value another one ---- */

static const char *const values[] = {
    "null", "true", "7", "\"\"", "\"x\"", "\"\\u0041\"", "[]", "{}", "[\"a\"]",
    "[{\"type\":\"text\"}]", "{\"items\":[{}]}", "\"2024-01-01T00:00:00Z\"", "\"{}\"",
};

/* Names that some format gives a meaning, and one that none does. */
static const char *const names[] = {
    "type", "role", "content", "tool", "args", "call", "id", "timestamp", "joined",
    "tool_calls", "tool_call_id", "name", "function_call", "metadata", "msgstore",
    "created_at", "tool_name", "tool_arguments", "task_id", "author", "is_error",
    "summary", "parameters", "extra", "parts", "updated_at", "streaming_status", "q",
    "location", "idempotency_key", "schema", "payload", "items", "text", "timestamp",
};

static json_t *value_at(size_t i)
{
    const char *text = values[i % COUNT(values)];
    json_t *value = parsed(text, strlen(text));
    assert_non_null(value);
    return value;
}

/* The text of a whole message, non-ASCII characters and some others escaped. */
static void answer_now(const char *name, json_t *message)
{
    char *text = json_dumps(message, JSON_ENSURE_ASCII | JSON_COMPACT);
    assert_non_null(text);
    must_be_answered(name, ms_str_of(text));
    free(text);
}

static size_t bend_count;

static bool is_turn(void)
{
    size_t stride = test_scale() >= 1100 ? 1 : 2200 / test_scale();
    return (bend_count++ + (size_t)test_seed()) % stride == 0;
}

static void bend_all(const char *name, json_t *message, json_t *holder);

/* Each value of one member, the member gone, and what is in it. The key is a copy: that
 * in the object goes with the member. */
static void bend_member(const char *name, json_t *message, json_t *holder, const char *key)
{
    json_t *item = json_incref(json_object_get(holder, key));
    for (size_t v = 0; v <= COUNT(values); v++) {
        if (!is_turn()) continue;
        if (v < COUNT(values)) json_object_set_new(holder, key, value_at(v));
        else json_object_del(holder, key);
        answer_now(name, message);
    }
    json_object_set_new(holder, key, item);
    bend_all(name, message, item);
}

/* Each value in it; then the members that are added. */
static void bend_all(const char *name, json_t *message, json_t *holder)
{
    enum { KEYS_MOST = 16 };
    char keys[KEYS_MOST][32];
    const char *key;
    json_t *item;
    size_t n = json_array_size(holder), n_keys = 0;
    json_object_foreach (holder, key, item) {
        assert_true(n_keys < KEYS_MOST && strlen(key) < sizeof keys[0]);
        memcpy(keys[n_keys++], key, strlen(key) + 1);
    }
    for (size_t i = 0; i < n_keys; i++) bend_member(name, message, holder, keys[i]);
    for (size_t i = 0; i < n; i++) {
        item = json_incref(json_array_get(holder, i));
        for (size_t v = 0; v < COUNT(values); v++) {
            if (!is_turn()) continue;
            json_array_set_new(holder, i, value_at(v));
            answer_now(name, message);
        }
        json_array_set_new(holder, i, item);
        bend_all(name, message, item);
    }
    for (size_t i = 0; json_is_object(holder) && i < COUNT(names) * COUNT(values); i++) {
        key = names[i % COUNT(names)];
        if (json_object_get(holder, key) != NULL || !is_turn()) continue;
        json_object_set_new(holder, key, value_at(i / COUNT(names)));
        answer_now(name, message);
        json_object_del(holder, key);
    }
}

static void any_value_in_any_place_is_answered(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        json_t *message = parsed(rows[i].json, strlen(rows[i].json));
        if (message == NULL) fail_msg("row %zu is no JSON", i);
        must_be_answered(rows[i].dialect, ms_str_of(rows[i].json));
        bend_all(rows[i].dialect, message, message);
        json_decref(message);
    }
    if (bent > 500) assert_in_range(refused, bent / 50, bent - bent / 10);
    test_tally("bent messages", bent);
}


/* ---- envelopes that no reader makes ---- */

#define J(text) {{text, sizeof text - 1}, true}
#define T(text) {{text, sizeof text - 1}, false}

static const ms_value contents[] = {
    {{NULL, 0}, false}, T(""), T("words"), J("null"), J("\"\""), J("\"w\\u0041\""), J("7"),
    J("[]"), J("{}"), J("[{\"type\":\"text\",\"text\":\"\\u0041\"}]"),
    J("[{\"type\":\"text\",\"text\":5}]"), J("[{\"type\":\"image\"},\"s\"]"),
    J("{\"summary\":[\"a\"]}"), J("{\"summary\":[5],\"content\":null}"),
    J("{\"summary\":[],\"more\":1}"), J("{\"content\":\"x\"}"), J("true"),
};
static const ms_value arguments[] = {
    {{NULL, 0}, false}, J("{}"), J("{\"a\":1}"), J("null"), J("\"{}\""), J("[1]"),
    T("{\"a\":1}"), T("no json"), T(""),
};
static const char *const objects[] = {
    NULL, NULL, NULL, "{}", "{\"q\":1}", "{\"tool_name\":\"\"}", "{\"parameters\":{}}",
    "{\"tool_name\":\"t\",\"parameters\":[]}", "{\"tool_call_id\":\"i\",\"q\":{}}",
    "{\"type\":\"custom\",\"custom\":{}}", "{\"function\":{\"name\":\"n\"}}",
    "{\"author\":\"x\",\"name\":1}", "{\"is_error\":true}", "{\"is_error\":false}",
    "{\"style\":\"s\",\"summary\":[]}", "{\"msgstore\":{}}", "{\"part_kind\":\"text\"}",
    "{\"part_kind\":\"retry-prompt\"}", "{\"parts\":[]}", "{\"parts\":5}",
    "{\"metadata\":{\"timestamp\":5,\"tool_name\":\"n\",\"tool_call_id\":\"i\","
    "\"tool_arguments\":{}}}",
    "{\"metadata\":{\"tool_call_id\":\"z\",\"type\":\"x\",\"success\":true}}",
    "{\"timestamp\":7,\"created_at\":8}", "{\"created_at\":\"2024-01-01T00:00:00Z\"}",
    "{\"role\":\"x\",\"content\":\"y\",\"tool_calls\":[],\"name\":\"z\"}",
    "{\"tool_call_id\":\"q\",\"tool_calls\":null,\"name\":7}",
    "{\"tool_calls\":{\"items\":[{\"tool_name\":\"n\",\"tool_arguments\":{}}]}}",
    "{\"id\":\"x\",\"task_id\":\"y\"}", "{\"id\":5,\"updated_at\":5}",
    "{\"streaming_status\":5,\"type\":\"text\"}", "{\"timestamp\":\"\",\"joined\":true}",
    "{\"idempotency_key\":\"\",\"id\":{},\"call\":{}}", "{\"idempotency_key\":\"\\u0041\"}",
    "{\"tool_name\":\"x\",\"tool_call_id\":\"y\",\"tool_arguments\":{}}",
    "{\"tool_name\":null,\"tool_arguments\":null,\"metadata\":\"{\\\"timestamp\\\":1}\"}",
    "{\"isError\":1,\"cache_control\":{}}", "{\"thoughtSignature\":\"s\"}",
    "{\"created_at\":5,\"extra\":{\"q\":1},\"payload\":{}}", "{\"kind\":\"request\"}",
};
static const char *const texts[] = {NULL, NULL, NULL, "", "x", "call_1", "a name"};
static const int64_t nanoseconds[] = {
    SECONDS(1704067200), SECONDS(5), 0, -1, INT64_MAX, SECONDS(1704067200.5), 333333333};

static ms_str text_of(const char *text)
{
    return text != NULL ? ms_str_of(text) : ms_str_n(NULL, 0);
}

static ms_envelope any_envelope(uint64_t *rng)
{
    ms_envelope m;
    memset(&m, 0, sizeof m);
    m.type = (ms_type)(1 + test_below(rng, MS_TYPE_COUNT - 1));
    m.type_name = text_of(m.type == MS_T_OTHER ? "special" : NULL);
    m.role = (ms_role)test_below(rng, 8);
    if (m.role > MS_ROLE_FUNCTION) m.role = MS_ROLE_OTHER;
    m.role_name = text_of(m.role == MS_ROLE_OTHER ? "narrator" : NULL);
    m.content = PICK(rng, contents);
    m.args = PICK(rng, arguments);
    m.tool = text_of(PICK(rng, texts));
    m.call_id = text_of(PICK(rng, texts));
    m.worker = text_of(PICK(rng, texts));
    m.task = text_of(PICK(rng, texts));
    m.summary = text_of(PICK(rng, texts));
    m.id = text_of(PICK(rng, texts));
    m.extra = text_of(PICK(rng, objects));
    m.has_time = test_one_in(rng, 2);
    if (m.has_time) m.time_ns = PICK(rng, nanoseconds);
    m.seq = test_below(rng, 3);
    if (test_one_in(rng, 3)) m.location = MS_STR("place");
    if (test_one_in(rng, 4)) m.flags |= MS_FLAG_STAMPED;
    return m;
}

static void any_envelope_is_written_by_all(void **state)
{
    (void)state;
    size_t taken = 0, n = test_times(1000);
    uint64_t rng = test_seed() + 77;
    for (size_t i = 0; i < n; i++) {
        ms_envelope m[3];
        ms_envelopes list = {m, 0};
        for (size_t k = 0; k < COUNT(m); k++) {
            m[list.count] = any_envelope(&rng);
            if (k > 0 && list.count > 0 && test_one_in(&rng, 2))
                m[list.count].flags |= MS_FLAG_JOINED;
            list.count += ms_envelope_check(&m[list.count], NULL) == MS_OK;
        }
        taken += list.count;
        must_cross_all(&list);
        ms_arena_reset(&arena);
    }
    if (n > 50) assert_true(taken > n / 4);
    test_tally("envelopes written in every format", taken);
}


/* ---- memory that ends ---- */

/* One thing to do with an arena that may be too small; its result as text. */
typedef struct job {
    size_t which;              /* row, dialect or object */
    ms_envelopes list;         /* what is to be written, in the test's arena */
    const ms_dialect *d;
    ms_buf said;
} job;

typedef ms_result (*job_run)(job *j, ms_arena *in, ms_error *err);

/* What the job said, in the test's arena. */
static void say(job *j, const ms_envelope *m, size_t n)
{
    ms_envelopes list = {NULL, n};
    ms_buf text;
    ms_error err;
    list.items = (ms_envelope *)(uintptr_t)(const void *)m;
    if (writes(dialect(FW), &list, &arena, true, &text, &err) != MS_OK)
        fail_msg("%s: %s", err.path, err.message);
    ms_str all = ms_buf_text(&text);
    assert_int_equal(ms_buf_write(&j->said, all.ptr, all.len), MS_OK);
}

static ms_result run_read(job *j, ms_arena *in, ms_error *err)
{
    ms_envelopes out;
    ms_result code = reads(dialect(rows[j->which].dialect), ms_str_of(rows[j->which].json),
                           LENIENT, in, &out, err);
    if (code == MS_OK) say(j, out.items, out.count);
    return code;
}

static ms_result run_write(job *j, ms_arena *in, ms_error *err)
{
    return writes(j->d, &j->list, in, true, &j->said, err);
}

static size_t starved;

static bool is_memory(ms_result code)
{
    return code == MS_E_ARENA || code == MS_E_NO_MEMORY;
}

/* Is it the result of the first time, or too little memory? True when it is the first. */
static bool same_or_starved(job *j, ms_result code, const ms_error *err, ms_result want,
                            ms_str said, const char *what)
{
    if (code == want && (want != MS_OK || ms_str_equal(ms_buf_text(&j->said), said)))
        return true;
    if (!is_memory(code))
        fail_msg("%s %zu with little memory: %s, %s: %.*s", what, j->which,
                 ms_result_text(code), err->message, (int)j->said.len, j->said.ptr);
    starved++;
    return false;
}

static void begin_job(job *j)
{
    memset(&j->said, 0, sizeof j->said);
    j->said.arena = &arena;
}

/* Buffers of 0, 40, 80... bytes (8 from MS_TEST_SCALE=1000 on); then each allocation of a
 * heap fails. */
static void starve(job *j, job_run run, const char *what)
{
    static uint64_t room[16384];
    ms_arena in;
    ms_error err;
    begin_job(j);
    test_arena_init(&in, NULL);
    memset(&err, 0, sizeof err);
    ms_result want = run(j, &in, &err);
    ms_str said = ms_buf_text(&j->said);
    ms_arena_deinit(&in);
    if (is_memory(want)) fail_msg("%s %zu: %s", what, j->which, err.message);
    size_t step = test_scale() >= 1000 ? 8 : 40;
    for (size_t size = 0;; size += step) {
        if (size > sizeof room) fail_msg("%s %zu never has enough", what, j->which);
        begin_job(j);
        test_arena_init_fixed(&in, room, size);
        if (same_or_starved(j, run(j, &in, &err), &err, want, said, what)) break;
    }
    for (size_t k = 1;; k++) {
        test_alloc heap;
        test_alloc_init(&heap);
        heap.fail_at = k;
        begin_job(j);
        test_arena_init(&in, &heap.alloc);
        ms_result code = run(j, &in, &err);
        ms_arena_deinit(&in);
        test_alloc_done(&heap);
        if (same_or_starved(j, code, &err, want, said, what) && heap.failed == 0) break;
    }
}

static void starve_writers(job *j)
{
    for (size_t i = 0; (j->d = ms_dialect_at(i)) != NULL; i++)
        starve(j, run_write, j->d->name);
}

static void little_memory_is_said(void **state)
{
    job j;
    uint64_t rng = test_seed() + 5;
    (void)state;
    memset(&j, 0, sizeof j);
    for (j.which = 0; j.which < COUNT(rows); j.which++) {
        ms_error err;
        starve(&j, run_read, "reading row");
        assert_int_equal(reads(dialect(rows[j.which].dialect),
                               ms_str_of(rows[j.which].json), LENIENT, &arena, &j.list,
                               &err), MS_OK);
        starve_writers(&j);
        ms_arena_reset(&arena);
    }
    for (j.which = 0; j.which < test_times(20); j.which++) {
        ms_envelope m[8];
        j.list.items = m;
        j.list.count = 0;
        while (j.list.count < COUNT(m)) {
            m[j.list.count] = any_envelope(&rng);
            j.list.count += ms_envelope_check(&m[j.list.count], NULL) == MS_OK;
        }
        starve_writers(&j);
        ms_arena_reset(&arena);
    }
    assert_true(starved > 1000);
    test_tally("format operations with too little memory", starved);
}

/* A text in quotes whose escapes need memory: 900 letters, or many more than a chunk of
 * an arena holds. */
static ms_str long_text(const char *head, size_t n, const char *tail)
{
    ms_buf text;
    memset(&text, 0, sizeof text);
    text.arena = &arena;
    (void)ms_buf_write(&text, head, strlen(head));
    for (size_t i = 0; i < n; i++) (void)ms_buf_write(&text, "\\u0041", 6);
    assert_int_equal(ms_buf_write(&text, tail, strlen(tail)), MS_OK);
    return ms_buf_text(&text);
}

/* A member that a caller adds under the name of a key must not become the message's key. */
static void a_callers_member_is_no_key_in_little_memory_either(void **state)
{
    static uint64_t room[2048];
    ms_str extra = long_text("{\"idempotency_key\":\"", 900, "\"}");
    ms_envelope m = ms_user_message(ms_text("x"));
    ms_envelopes list = {NULL, 1};
    (void)state;
    m.extra = extra;
    list.items = &m;
    for (size_t size = 0; size <= sizeof room; size += 64) {
        ms_arena in;
        ms_buf text;
        ms_error err;
        ms_envelopes again;
        ms_read_opts opts = {false, false};
        test_arena_init_fixed(&in, room, size);
        ms_result code = writes(dialect(FW), &list, &in, false, &text, &err);
        if (is_memory(code)) continue;
        assert_int_equal(code, MS_OK);
        assert_int_equal(ms_read_list(dialect(FW), ms_buf_text(&text), &opts, &arena,
                                      &again, &err), MS_OK);
        assert_null(again.items[0].key.ptr);
    }
}

/* Messages read leniently, and what they are in a format. */
static const struct {
    const char *from, *to, *json, *want;
} odd[] = {
    /* another format does not get what one has beside its fields */
    {FW, SE, "{\"type\":\"reasoning\",\"content\":\"x\",\"msgstore\":{},\"turn_id\":5}",
     "{\"role\":\"assistant\",\"content\":\"x\"}"},
    /* what a lenient reader keeps of a wrapper was moved into another object */
    {TA, TA, "{\"id\":\"1\",\"task_id\":\"t\",\"content\":{\"type\":\"text\",\"author\":"
         "\"user\",\"content\":\"x\"},\"streaming_status\":5}", NULL},
    {TA, TA, "{\"id\":5,\"task_id\":\"t\",\"content\":{\"type\":\"text\",\"author\":"
         "\"user\",\"content\":\"x\"}}", NULL},
    {TA, TA, "{\"task_id\":\"t\",\"content\":{\"type\":\"text\",\"author\":\"agent\","
         "\"content\":\"x\"},\"created_at\":\"soon\",\"updated_at\":[]}", NULL},
};

static void what_is_odd_stays_where_it_is_and_hides_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(odd); i++) {
        ms_envelopes list;
        ms_error err;
        ms_buf text;
        const char *want = odd[i].want != NULL ? odd[i].want : odd[i].json;
        if (reads(dialect(odd[i].from), ms_str_of(odd[i].json), LENIENT, &arena, &list,
                  &err) != MS_OK)
            fail_msg("odd %zu: %s: %s", i, err.path, err.message);
        assert_int_equal(writes(dialect(odd[i].to), &list, &arena, false, &text, &err),
                         MS_OK);
        json_t *a = parsed(want, strlen(want));
        json_t *b = parsed(ms_buf_text(&text).ptr, text.len);
        if (a == NULL || !json_equal(a, json_array_get(b, 0)))
            fail_msg("odd %zu: %.*s", i, (int)text.len, ms_buf_text(&text).ptr);
        json_decref(a);
        json_decref(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_value_in_any_place_is_answered, open_arena,
                                        close_arena),
        cmocka_unit_test_setup_teardown(any_envelope_is_written_by_all, open_arena,
                                        close_arena),
        cmocka_unit_test_setup_teardown(little_memory_is_said, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(what_is_odd_stays_where_it_is_and_hides_nothing,
                                        open_arena, close_arena),
        cmocka_unit_test_setup_teardown(a_callers_member_is_no_key_in_little_memory_either,
                                        open_arena, close_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
