/* The formats whose messages are lists of blocks: anthropic, gemini, pydantic-ai. What is
 * read comes back equal as JSON, at once and by way of encoding and a store; strict
 * readers refuse with the place or lose nothing; what every format promises to keep
 * survives the way through any other one; the writer joins turns, pairs results, lives in
 * an arena of fixed size and says so when that is too small. */

#define _POSIX_C_SOURCE 200809L

#include "dialects.h"
#include "json_equal.h"

#define AN "anthropic"
#define GE "gemini"
#define PY "pydantic-ai"
#define FW "framework"
#define OA "openai"

static const char *const block_formats[] = {AN, GE, PY};


/* ---- helpers ---- */

/* Reads one message, or a list of them when it begins with a bracket. */
static ms_result read_in(const char *name, ms_str json, unsigned how, ms_arena *in,
                         ms_envelopes *out, ms_error *err)
{
    ms_read_opts opts = {(how & LENIENT) != 0, (how & REPAIR) != 0};
    memset(out, 0xA5, sizeof *out);
    memset(err, 0, sizeof *err);
    ms_result code = json.len > 0 && json.ptr[0] == '['
                         ? ms_read_list(dialect(name), json, &opts, in, out, err)
                         : ms_read(dialect(name), json, &opts, in, out, err);
    if (code == MS_OK) return code;
    assert_int_equal(err->code, code);
    assert_null(out->items); /* nothing half-done */
    assert_int_equal(out->count, 0);
    return code;
}

static ms_envelopes reads(const char *name, ms_str json, unsigned how)
{
    ms_envelopes list;
    ms_error err;
    if (read_in(name, json, how, &arena, &list, &err) != MS_OK) {
        fail_msg("%s cannot read %.*s\n%s: %s", name, (int)json.len, json.ptr, err.path,
                 err.message);
    }
    for (size_t i = 0; i < list.count; i++) {
        if (ms_envelope_check(&list.items[i], &err) != MS_OK) fail_msg("%s", err.message);
    }
    return list;
}

static void must(ms_result code, const ms_error *err)
{
    if (code != MS_OK) fail_msg("%s: %s", err->path, err->message);
}

static void start(ms_writer *w, const char *name, bool array, ms_buf *buf)
{
    ms_writer_opts opts = {array, false, false};
    memset(buf, 0, sizeof *buf);
    buf->arena = &arena;
    ms_writer_init(w, dialect(name), &opts, &arena, ms_buf_write, buf);
}

static ms_str written(const char *name, const ms_envelopes *list, bool array)
{
    ms_error err;
    ms_writer w;
    ms_buf buf;
    start(&w, name, array, &buf);
    for (size_t i = 0; i < list->count; i++) {
        must(ms_writer_put(&w, &list->items[i], &err), &err);
    }
    must(ms_writer_finish(&w, &err), &err);
    return ms_buf_text(&buf);
}

/* The same, by way of an arena store. */
static ms_str written_stored(const char *name, const ms_envelopes *list, bool array)
{
    ms_mem_desc desc;
    ms_append_opts opts;
    ms_query query;
    ms_cursor it;
    ms_store *store;
    ms_error err;
    ms_writer w;
    ms_buf buf;
    const ms_msg *msg;
    memset(&desc, 0, sizeof desc);
    memset(&opts, 0, sizeof opts);
    memset(&query, 0, sizeof query);
    desc.keep_unset_times = true;
    opts.location = query.location = MS_STR("a conversation");
    must(ms_mem_open(&store, &desc, &err), &err);
    must(ms_append_batch(store, list->items, list->count, &opts, &err), &err);
    start(&w, name, array, &buf);
    must(ms_query_open(store, &query, &it, &err), &err);
    while ((msg = ms_next(&it)) != NULL) must(test_writer_put_msg(&w, msg, &err), &err);
    must(ms_cursor_close(&it, &err), &err);
    must(ms_writer_finish(&w, &err), &err);
    ms_close(store);
    return ms_buf_text(&buf);
}

/* Is a member there twice? */
static bool repeats(ms_str json)
{
    size_t flags = JSON_ALLOW_NUL | JSON_DECODE_ANY | JSON_REJECT_DUPLICATES;
    json_t *value = json_loadb(json.ptr, json.len, flags, NULL);
    json_decref(value);
    return value == NULL;
}

static bool equal_json(ms_str got, ms_str expected, json_where *where)
{
    json_t *a = json_parse_n(got.ptr, got.len);
    json_t *b = json_parse_n(expected.ptr, expected.len);
    bool same = a != NULL && b != NULL && json_same(a, b, 0, where);
    json_decref(a);
    json_decref(b);
    return same && (!repeats(got) || repeats(expected));
}

static void same_json(const char *name, ms_str got, ms_str expected)
{
    json_where where = {{0}, 0};
    if (equal_json(got, expected, &where)) return;
    fail_msg("%s: differ at \"%s\"\n   got %.*s\nexpect %.*s", name, where.path,
             (int)got.len, got.ptr, (int)expected.len, expected.ptr);
}

static void same_text(ms_str got, ms_str expected)
{
    if (ms_str_equal(got, expected)) return;
    fail_msg("   got %.*s\nexpect %.*s", (int)got.len, got.ptr, (int)expected.len,
             expected.ptr);
}

/* A list of one message, in the test's arena. */
static ms_str in_list(ms_str json)
{
    ms_buf buf;
    memset(&buf, 0, sizeof buf);
    buf.arena = &arena;
    assert_int_equal(ms_buf_write(&buf, "[", 1), MS_OK);
    assert_int_equal(ms_buf_write(&buf, json.ptr, json.len), MS_OK);
    assert_int_equal(ms_buf_write(&buf, "]", 1), MS_OK);
    return ms_buf_text(&buf);
}

/* One message, or a list of messages, comes back by every way. */
static void comes_back(const char *name, ms_str json, unsigned how)
{
    ms_envelopes list = reads(name, json, how);
    bool array = json.len > 0 && json.ptr[0] == '[';
    if (!array) {
        ms_str line = written(name, &list, false);
        same_json(name, line, json);
        assert_int_equal(line.ptr[line.len - 1], '\n');
        assert_null(memchr(line.ptr, '\n', line.len - 1));
        same_text(written_stored(name, &list, false), line);
    }
    ms_str text = written(name, &list, true);
    same_json(name, text, array ? json : in_list(json));
    same_text(written_stored(name, &list, true), text);
}


/* ---- lossless, by tables ---- */

static const struct {
    const char *dialect, *json;
} lossless_rows[] = {
    /* plain text, and lists of one text block: not the same */
    {AN, "{\"role\":\"user\",\"content\":\"hi\"}"},
    {AN, "{\"role\":\"user\",\"content\":\"\"}"},
    {AN, "{\"role\":\"assistant\",\"content\":\"a\\u00e9\\ud83d\\ude00\\n\\u0000\"}"},
    {AN, "{\"role\":\"system\",\"content\":\"be brief\"}"},
    {AN, "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]}"},
    {AN, "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"\"}]}"},
    {AN, "{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"s\"}]}"},
    {AN, "{\"role\":\"user\",\"content\":[]}"},
    {AN, "{\"role\":\"assistant\",\"content\":[]}"},
    {AN, "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\","
         "\"cache_control\":{\"type\":\"ephemeral\",\"ttl\":\"1h\"}},"
         "{\"type\":\"text\",\"text\":\"b\",\"citations\":null}]}"},
    /* other blocks */
    {AN, "{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"source\":{\"type\":"
         "\"base64\",\"media_type\":\"image/png\",\"data\":\"aGk=\"}}]}"},
    {AN, "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"see\"},"
         "{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":\"u\"}},"
         "{\"type\":\"document\",\"title\":null,\"source\":{}}]}"},
    {AN, "{\"role\":\"assistant\",\"content\":[{\"type\":\"redacted_thinking\","
         "\"data\":\"x\"},{\"type\":\"text\",\"text\":\"so\"}]}"},
    {AN, "{\"role\":\"assistant\",\"content\":[{\"type\":\"server_tool_use\",\"id\":"
         "\"s\",\"name\":\"web_search\",\"input\":{}},{\"type\":"
         "\"web_search_tool_result\",\"tool_use_id\":\"s\",\"content\":[]}]}"},
    {AN, "{\"role\":\"assistant\",\"content\":[{\"type\":\"hologram\",\"a\":[1.0,{}]},"
         "{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"f\",\"input\":{}}]}"},
    /* thinking */
    {AN, "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":"
         "\"hm\",\"signature\":\"c2ln\"}]}"},
    {AN, "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":"
         "\"\",\"signature\":\"\"},{\"type\":\"redacted_thinking\",\"data\":\"q\"},"
         "{\"type\":\"text\",\"text\":\"so\"},{\"type\":\"tool_use\",\"id\":\"c\","
         "\"name\":\"f\",\"input\":{\"a\":1.50}},{\"type\":\"text\",\"text\":\"!\"}]}"},
    /* calls */
    {AN, "{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"c1\","
         "\"name\":\"f\",\"input\":{\"n\":9007199254740993,\"o\":{}}}]}"},
    {AN, "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"I look\"},"
         "{\"type\":\"tool_use\",\"id\":\"c1\",\"name\":\"f\",\"input\":{}},{\"type\":"
         "\"tool_use\",\"id\":\"c1\",\"name\":\"f\",\"input\":{},\"cache_control\":{},"
         "\"caller\":{\"type\":\"direct\"}}],\"id\":\"msg_1\",\"type\":\"message\","
         "\"model\":\"m\",\"stop_reason\":null,\"usage\":{\"input_tokens\":3}}"},
    {AN, "{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"\","
         "\"name\":\"\",\"input\":{}}]}"},
    {AN, "{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"c\","
         "\"name\":\"f\",\"input\":{\"INVALID_JSON\":\"{\"}}]}"},
    /* results */
    {AN, "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":"
         "\"c\",\"content\":\"ok\"}]}"},
    {AN, "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":"
         "\"c\"}]}"},
    {AN, "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":"
         "\"c\",\"content\":\"\",\"is_error\":false}]}"},
    {AN, "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":"
         "\"c\",\"is_error\":true}]}"},
    {AN, "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":"
         "\"c\",\"content\":[],\"is_error\":true,\"cache_control\":null}]}"},
    {AN, "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":"
         "\"c\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"image\","
         "\"source\":{}}]},{\"type\":\"tool_result\",\"tool_use_id\":\"d\",\"content\":"
         "\"no\",\"is_error\":true},{\"type\":\"text\",\"text\":\"go on\"}]}"},
    {AN, "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"first\"},"
         "{\"type\":\"tool_result\",\"tool_use_id\":\"c\",\"content\":\"null\"}]}"},
    /* members that mean something elsewhere */
    {AN, "{\"role\":\"user\",\"content\":\"x\",\"kind\":\"y\",\"parts\":[1]}"},
    {AN, "{\"role\":\"user\",\"content\":\"x\",\"extra\":{\"a\":1},\"msgstore\":{},"
         "\"location\":\"l\",\"agent_key\":7,\"type\":\"task\",\"joined\":true}"},
    {AN, "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"a\","
         "\"id\":\"x\",\"name\":1,\"input\":{},\"content\":null},{\"type\":\"tool_use\","
         "\"id\":\"c\",\"name\":\"f\",\"input\":{},\"text\":1,\"content\":2,"
         "\"tool_use_id\":\"q\"}]}"},
    {AN, "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":"
         "\"c\",\"content\":\"x\",\"name\":\"f\",\"text\":1,\"id\":null}]}"},

    {GE, "{\"role\":\"user\",\"parts\":[{\"text\":\"hi\"}]}"},
    {GE, "{\"parts\":[{\"text\":\"hi\"}]}"}, /* a role is optional */
    {GE, "{\"role\":\"model\",\"parts\":[{\"text\":\"\"}]}"},
    {GE, "{\"role\":\"system\",\"parts\":[{\"text\":\"s\"}]}"},
    {GE, "{\"role\":\"user\",\"parts\":[]}"},
    {GE, "{\"role\":\"model\",\"parts\":[]}"},
    {GE, "{\"role\":\"user\",\"parts\":[{\"text\":\"a\"},{\"inlineData\":{\"mimeType\":"
         "\"image/png\",\"data\":\"aGk=\"}},{\"fileData\":{\"fileUri\":\"u\"}},"
         "{\"text\":\"b\",\"videoMetadata\":{}}],\"x\":[]}"},
    {GE, "{\"role\":\"model\",\"parts\":[{\"text\":\"hm\",\"thought\":true,"
         "\"thoughtSignature\":\"c2ln\"},{\"text\":\"so\",\"thought\":false},"
         "{\"executableCode\":{\"language\":\"PYTHON\",\"code\":\"1\"}},{\"thought\":"
         "true}]}"},
    {GE, "{\"role\":\"model\",\"parts\":[{\"functionCall\":{\"name\":\"f\",\"args\":"
         "{\"a\":1.0}},\"thoughtSignature\":\"s\"},{\"functionCall\":{\"name\":\"f\"}},"
         "{\"functionCall\":{\"name\":\"g\",\"args\":{},\"id\":\"i\",\"willContinue\":"
         "false,\"partialArgs\":[]},\"x\":1}]}"},
    {GE, "{\"role\":\"model\",\"parts\":[{\"text\":\"I look\"},{\"functionCall\":"
         "{\"name\":\"\",\"args\":{},\"id\":\"\"}}]}"},
    {GE, "{\"role\":\"model\",\"parts\":[{\"functionCall\":{\"name\":\"f\",\"args\":{},"
         "\"id\":null}}]}"},
    {GE, "{\"role\":\"user\",\"parts\":[{\"functionResponse\":{\"name\":\"f\","
         "\"response\":{\"result\":\"x\"}}},{\"functionResponse\":{\"name\":\"f\","
         "\"response\":{\"result\":[1.0,null]},\"id\":\"i\"}}]}"},
    {GE, "{\"role\":\"user\",\"parts\":[{\"functionResponse\":{\"name\":\"f\","
         "\"response\":{}}},{\"functionResponse\":{\"name\":\"f\",\"response\":"
         "{\"result\":null}}},{\"functionResponse\":{\"name\":\"f\",\"response\":"
         "{\"result\":{\"a\":1}}}},{\"functionResponse\":{\"name\":\"f\",\"response\":"
         "{\"result\":1,\"more\":2}}},{\"functionResponse\":{\"name\":\"f\","
         "\"response\":{\"output\":\"x\"}}},{\"functionResponse\":{\"name\":\"f\","
         "\"response\":{\"result\":{\"result\":{\"error\":{}}}}}}]}"},
    {GE, "{\"role\":\"user\",\"parts\":[{\"functionResponse\":{\"name\":\"f\","
         "\"response\":{\"error\":\"x\"}}},{\"functionResponse\":{\"name\":\"f\","
         "\"response\":{\"error\":{\"code\":5}}}},{\"functionResponse\":{\"name\":\"f\","
         "\"response\":{\"error\":null}}},{\"functionResponse\":{\"name\":\"f\","
         "\"response\":{\"error\":1,\"result\":2}}},{\"functionResponse\":{\"name\":"
         "\"f\",\"response\":{\"error\":{\"error\":{}}}}}]}"},
    {GE, "{\"role\":\"user\",\"parts\":[{\"functionResponse\":{\"name\":\"f\",\"id\":"
         "null,\"response\":{},\"scheduling\":\"SILENT\",\"parts\":[{}]},\"x\":{}},"
         "{\"text\":\"and\"}]}"},
    {GE, "{\"role\":\"user\",\"parts\":[{\"text\":\"x\"}],\"content\":\"y\",\"kind\":1,"
         "\"extra\":2,\"location\":3}"},
    {GE, "{\"role\":\"model\",\"parts\":[{\"functionCall\":{\"name\":\"f\"},\"text\":"
         "\"x\"},{\"functionCall\":{\"name\":\"f\"},\"functionResponse\":{\"name\":"
         "\"g\",\"response\":{}}}]}"},
    {GE, "{\"role\":\"model\",\"parts\":[{\"functionCall\":{\"name\":\"f\",\"text\":1,"
         "\"functionCall\":{\"name\":2}}},{\"text\":\"a\",\"name\":1,\"args\":2,"
         "\"id\":3}]}"},

    {PY, "{\"kind\":\"request\",\"parts\":[]}"},
    {PY, "{\"kind\":\"response\",\"parts\":[]}"},
    {PY, "{\"kind\":\"request\",\"parts\":[{\"part_kind\":\"system-prompt\",\"content\":"
         "\"s\",\"timestamp\":\"2024-01-01T00:00:00Z\",\"dynamic_ref\":null},"
         "{\"part_kind\":\"user-prompt\",\"content\":\"hi\",\"timestamp\":1.0}],"
         "\"instructions\":null,\"timestamp\":null,\"run_id\":\"r\",\"metadata\":{}}"},
    {PY, "{\"kind\":\"request\",\"parts\":[{\"part_kind\":\"user-prompt\",\"content\":"
         "[\"look\",{\"kind\":\"image-url\",\"url\":\"u\"},{\"kind\":\"binary\",\"data\":"
         "\"\",\"media_type\":\"m\"}]},{\"part_kind\":\"user-prompt\",\"content\":[]},"
         "{\"part_kind\":\"user-prompt\",\"content\":\"\"}]}"},
    {PY, "{\"kind\":\"response\",\"parts\":[{\"part_kind\":\"text\",\"content\":\"a\","
         "\"id\":null},{\"part_kind\":\"thinking\",\"content\":\"\",\"signature\":null,"
         "\"id\":\"t\"},{\"part_kind\":\"text\",\"content\":\"\"}],\"usage\":"
         "{\"input_tokens\":0},\"model_name\":null,\"finish_reason\":\"stop\"}"},
    {PY, "{\"kind\":\"response\",\"parts\":[{\"part_kind\":\"tool-call\",\"tool_name\":"
         "\"f\",\"args\":{\"a\":1.0},\"tool_call_id\":\"1\"},{\"part_kind\":"
         "\"tool-call\",\"tool_name\":\"f\",\"args\":\"{\\\"a\\\": 1}\","
         "\"tool_call_id\":\"2\"},{\"part_kind\":\"tool-call\",\"tool_name\":\"f\","
         "\"args\":null,\"tool_call_id\":\"3\"},{\"part_kind\":\"tool-call\","
         "\"tool_name\":\"f\",\"tool_call_id\":\"4\",\"id\":null}]}"},
    {PY, "{\"kind\":\"response\",\"parts\":[{\"part_kind\":\"tool-call\",\"tool_name\":"
         "\"f\",\"args\":\"\",\"tool_call_id\":\"1\"},{\"part_kind\":\"tool-call\","
         "\"tool_name\":\"f\",\"args\":\"no JSON\",\"tool_call_id\":\"2\"},"
         "{\"part_kind\":\"tool-call\",\"tool_name\":\"\",\"args\":\"[1]\","
         "\"tool_call_id\":\"\"},{\"part_kind\":\"tool-call\",\"tool_name\":\"f\","
         "\"args\":{},\"tool_call_id\":\"1\"}]}"},
    {PY, "{\"kind\":\"response\",\"parts\":[{\"part_kind\":\"builtin-tool-call\","
         "\"tool_name\":\"web\",\"args\":{},\"tool_call_id\":\"b\"},{\"part_kind\":"
         "\"builtin-tool-return\",\"tool_name\":\"web\",\"content\":{},"
         "\"tool_call_id\":\"b\"},{\"part_kind\":\"file\",\"content\":{}},"
         "{\"part_kind\":\"compaction\",\"content\":null},{\"part_kind\":\"new\"}]}"},
    {PY, "{\"kind\":\"request\",\"parts\":[{\"part_kind\":\"tool-return\",\"tool_name\":"
         "\"f\",\"content\":\"x\",\"tool_call_id\":\"1\"},{\"part_kind\":"
         "\"tool-return\",\"tool_name\":\"f\",\"content\":null,\"tool_call_id\":\"2\","
         "\"outcome\":\"success\"},{\"part_kind\":\"tool-return\",\"tool_name\":\"f\","
         "\"content\":{\"a\":[]},\"tool_call_id\":\"3\",\"outcome\":\"failed\","
         "\"metadata\":{\"m\":1}},{\"part_kind\":\"tool-return\",\"tool_name\":\"f\","
         "\"content\":0.10,\"tool_call_id\":\"4\",\"outcome\":\"denied\"}]}"},
    {PY, "{\"kind\":\"request\",\"parts\":[{\"part_kind\":\"retry-prompt\",\"content\":"
         "\"again\",\"tool_name\":\"f\",\"tool_call_id\":\"1\",\"timestamp\":\"t\"},"
         "{\"part_kind\":\"retry-prompt\",\"content\":[{\"type\":\"missing\",\"loc\":"
         "[\"a\"]}],\"tool_name\":\"f\",\"tool_call_id\":\"2\"}]}"},
    {PY, "{\"kind\":\"request\",\"parts\":[{\"part_kind\":\"retry-prompt\",\"content\":"
         "\"plain text again\"}]}"},
    {PY, "{\"kind\":\"request\",\"parts\":[{\"part_kind\":\"retry-prompt\",\"content\":"
         "\"x\",\"tool_name\":null,\"tool_call_id\":null}]}"},
    {PY, "{\"kind\":\"request\",\"parts\":[],\"role\":\"y\",\"content\":1}"},
    {PY, "{\"kind\":\"response\",\"parts\":[{\"part_kind\":\"tool-call\",\"tool_name\":"
         "\"f\",\"tool_call_id\":\"c\",\"content\":1,\"outcome\":\"failed\"},"
         "{\"part_kind\":\"text\",\"content\":\"a\",\"tool_name\":\"f\","
         "\"tool_call_id\":\"z\",\"args\":1},{\"part_kind\":\"thinking\",\"content\":"
         "\"a\",\"tool_name\":2}],\"extra\":{},\"location\":{}}"},
    {PY, "[{\"kind\":\"response\",\"parts\":[{\"part_kind\":\"tool-call\",\"tool_name\":"
         "\"f\",\"tool_call_id\":\"1\"}]},{\"kind\":\"request\","
         "\"parts\":[{\"part_kind\":"
         "\"retry-prompt\",\"content\":\"x\"},{\"part_kind\":\"tool-return\","
         "\"tool_name\":\"f\",\"content\":\"y\",\"tool_call_id\":\"1\"}]}]"},
};

static void tables_come_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(lossless_rows); i++) {
        ms_str json = ms_str_of(lossless_rows[i].json);
        comes_back(lossless_rows[i].dialect, json, STRICT);
        comes_back(lossless_rows[i].dialect, json, LENIENT | REPAIR);
        ms_arena_reset(&arena);
    }
}

/* Whole tables as one list each: message after message, nothing runs together. */
static void tables_come_back_as_lists(void **state)
{
    (void)state;
    for (size_t d = 0; d < COUNT(block_formats); d++) {
        ms_buf all;
        memset(&all, 0, sizeof all);
        all.arena = &arena;
        for (size_t i = 0; i < COUNT(lossless_rows); i++) {
            const char *json = lossless_rows[i].json;
            if (strcmp(lossless_rows[i].dialect, block_formats[d]) != 0) continue;
            if (json[0] == '[' || strstr(json, "retry-prompt") != NULL) continue;
            ms_buf_write(&all, all.len > 0 ? "," : "[", 1);
            ms_buf_write(&all, json, strlen(json));
        }
        ms_buf_write(&all, "]", 1);
        comes_back(block_formats[d], ms_buf_text(&all), STRICT);
    }
}

/* What a block on the wrong side becomes is a matter of taste, but nothing is lost. */
static const struct {
    const char *dialect, *json;
} side_rows[] = {
    {AN, "{\"role\":\"user\",\"content\":[{\"type\":\"tool_use\",\"id\":\"a\","
         "\"name\":\"f\",\"input\":{}}]}"},
    {AN, "{\"role\":\"system\",\"content\":[{\"type\":\"tool_use\",\"id\":\"a\","
         "\"name\":\"f\",\"input\":{}},{\"type\":\"text\",\"text\":\"x\"}]}"},
    {AN, "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"x\"},"
         "{\"type\":\"tool_result\",\"tool_use_id\":\"a\",\"content\":\"x\"},"
         "{\"type\":\"text\",\"text\":\"y\"}]}"},
    {AN, "{\"role\":\"user\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"a\"}]}"},
    {AN, "{\"role\":\"system\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":"
         "\"a\",\"content\":\"x\"}]}"},
    {GE, "{\"role\":\"user\",\"parts\":[{\"functionCall\":{\"name\":\"f\"}}]}"},
    {GE, "{\"role\":\"model\",\"parts\":[{\"text\":\"a\"},{\"functionResponse\":"
         "{\"name\":\"f\",\"response\":{}}}]}"},
    {GE, "{\"role\":\"user\",\"parts\":[{\"text\":\"a\",\"thought\":true}]}"},
    {GE, "{\"role\":\"system\",\"parts\":[{\"functionResponse\":{\"name\":\"f\","
         "\"response\":{}}}]}"},
    {PY, "{\"kind\":\"request\",\"parts\":[{\"part_kind\":\"text\",\"content\":\"x\"}]}"},
    {PY, "{\"kind\":\"request\",\"parts\":[{\"part_kind\":\"thinking\",\"content\":"
         "\"x\"}]}"},
    {PY, "{\"kind\":\"request\",\"parts\":[{\"part_kind\":\"user-prompt\",\"content\":"
         "\"x\"},{\"part_kind\":\"tool-call\",\"tool_name\":\"f\",\"tool_call_id\":"
         "\"1\"}]}"},
    {PY, "{\"kind\":\"response\",\"parts\":[{\"part_kind\":\"user-prompt\",\"content\":"
         "\"x\"}]}"},
    {PY, "{\"kind\":\"response\",\"parts\":[{\"part_kind\":\"system-prompt\","
         "\"content\":\"x\"},{\"part_kind\":\"text\",\"content\":\"x\"}]}"},
    {PY, "{\"kind\":\"response\",\"parts\":[{\"part_kind\":\"tool-return\","
         "\"tool_name\":\"f\",\"content\":1,\"tool_call_id\":\"1\"}]}"},
};

/* Read it is equal when written; or it is not read at all. */
static bool equal_or_refused(const char *name, ms_str json, unsigned how)
{
    ms_envelopes list;
    ms_error err;
    if (read_in(name, json, how, &arena, &list, &err) != MS_OK) return false;
    comes_back(name, json, how);
    return true;
}

static void blocks_of_the_other_side(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(side_rows); i++) {
        ms_str json = ms_str_of(side_rows[i].json);
        (void)equal_or_refused(side_rows[i].dialect, json, STRICT);
        comes_back(side_rows[i].dialect, json, LENIENT);
    }
}


/* ---- lossless, by random messages ---- */

static const char *const text_pieces[] = {
    "", "a", "hello world", "\n", "\"", "\\", "{\"a\":1}", "[", "null", " ", "\t\r\b\f",
    "\xc3\xa9", "\xf0\x9f\x98\x80", "\xe2\x80\xa8", "Error: ", "</x>", "0", "\x01",
};

static json_t *random_text(uint64_t *rnd)
{
    char text[256] = "";
    size_t n = 0;
    for (size_t left = test_below(rnd, 5); left > 0; left--) {
        const char *piece = text_pieces[test_below(rnd, COUNT(text_pieces))];
        memcpy(text + n, piece, strlen(piece));
        n += strlen(piece);
        if (test_one_in(rnd, 40)) text[n++] = '\0';
    }
    return json_stringn(text, n);
}

static json_t *random_leaf(uint64_t *rnd)
{
    switch (test_below(rnd, 8)) {
    case 0: return json_null();
    case 1: return json_true();
    case 2: return json_false();
    case 3: return json_integer((json_int_t)test_random(rnd));
    case 4: return json_real((double)test_below(rnd, 1000) / 8);
    case 5: return json_array();
    case 6: return json_object();
    default: return random_text(rnd);
    }
}

/* Names that mean something somewhere, and others. */
static const char *const member_names[] = {
    "a", "", "x y", "\xc3\xa9", "cache_control", "id", "name", "text", "type", "role",
    "kind", "content", "parts", "part_kind", "input", "args", "thinking", "thought",
    "signature", "is_error", "outcome", "tool_name", "tool_use_id", "functionCall",
    "functionResponse", "extra", "call", "msgstore", "location", "agent_key", "joined",
    "tool_calls", "response", "result", "error", "timestamp", "turn_id", "metadata",
};

static json_t *random_object(uint64_t *rnd)
{
    json_t *object = json_object();
    for (size_t left = test_below(rnd, 4); left > 0; left--) {
        const char *name = member_names[test_below(rnd, COUNT(member_names))];
        json_t *value = random_leaf(rnd);
        if (test_one_in(rnd, 4)) {
            value = json_pack("[o, {s:o}]", value, "deep", random_leaf(rnd));
        }
        json_object_set_new(object, name, value);
    }
    return object;
}

static json_t *random_value(uint64_t *rnd)
{
    return test_one_in(rnd, 3) ? random_object(rnd) : random_leaf(rnd);
}

/* Adds members that the object does not know; `known` is "name name name". */
static void add_unknown(json_t *object, const char *known, uint64_t *rnd)
{
    if (!test_one_in(rnd, 3)) return;
    for (size_t left = 1 + test_below(rnd, 3); left > 0; left--) {
        const char *name = member_names[test_below(rnd, COUNT(member_names))];
        size_t len = strlen(name);
        bool own = json_object_get(object, name) != NULL;
        for (const char *at = known; len > 0 && (at = strstr(at, name)) != NULL; at++) {
            bool begins = at == known || at[-1] == ' ';
            if (begins && (at[len] == ' ' || at[len] == '\0')) own = true;
        }
        if (!own) json_object_set_new(object, name, random_value(rnd));
    }
}

static void maybe(json_t *object, const char *name, json_t *value, uint64_t *rnd)
{
    if (test_one_in(rnd, 2)) json_object_set(object, name, value);
    json_decref(value);
}

static json_t *random_id(uint64_t *rnd)
{
    static const char *const ids[] = {"c1", "c2", "toolu_01", "", "a b", "\xc3\xa9"};
    return json_string(ids[test_below(rnd, COUNT(ids))]);
}

static json_t *random_anthropic_text(uint64_t *rnd)
{
    json_t *block = json_pack("{s:s, s:o}", "type", "text", "text", random_text(rnd));
    add_unknown(block, "type text", rnd);
    return block;
}

static json_t *random_anthropic_other(uint64_t *rnd)
{
    static const char *const types[] = {"image", "document", "redacted_thinking", "new",
                                        "server_tool_use", "container_upload"};
    json_t *block = json_object();
    json_object_set_new(block, "type",
                        json_string(types[test_below(rnd, COUNT(types))]));
    add_unknown(block, "type", rnd);
    return block;
}

static json_t *random_anthropic_result(uint64_t *rnd)
{
    json_t *block = json_pack("{s:s, s:o}", "type", "tool_result", "tool_use_id",
                              random_id(rnd));
    json_t *list = json_array();
    for (size_t left = test_below(rnd, 3); left > 0; left--) {
        json_array_append_new(list, test_one_in(rnd, 2) ? random_anthropic_text(rnd)
                                                        : random_anthropic_other(rnd));
    }
    maybe(block, "content", list, rnd);
    maybe(block, "content", random_text(rnd), rnd);
    maybe(block, "is_error", json_boolean(test_one_in(rnd, 2)), rnd);
    add_unknown(block, "type tool_use_id content is_error", rnd);
    return block;
}

static json_t *random_anthropic_block(bool assistant, uint64_t *rnd)
{
    json_t *block;
    switch (test_below(rnd, 5)) {
    case 0: return random_anthropic_other(rnd);
    case 1: return random_anthropic_text(rnd);
    case 2:
        if (!assistant) break;
        block = json_pack("{s:s, s:o}", "type", "thinking", "thinking", random_text(rnd));
        maybe(block, "signature", random_text(rnd), rnd);
        add_unknown(block, "type thinking", rnd);
        return block;
    default:
        if (!assistant) break;
        block = json_pack("{s:s, s:o, s:s, s:o}", "type", "tool_use", "id",
                          random_id(rnd), "name", "f", "input", random_object(rnd));
        add_unknown(block, "type id name input", rnd);
        return block;
    }
    return random_anthropic_result(rnd);
}

static json_t *random_anthropic(uint64_t *rnd)
{
    bool assistant = test_one_in(rnd, 2);
    json_t *message = json_object();
    json_t *content = json_array();
    json_object_set_new(message, "role", json_string(assistant ? "assistant" : "user"));
    for (size_t left = test_below(rnd, 5); left > 0; left--) {
        json_array_append_new(content, random_anthropic_block(assistant, rnd));
    }
    json_object_set_new(message, "content", content);
    if (test_one_in(rnd, 6)) json_object_set_new(message, "content", random_text(rnd));
    add_unknown(message, "role content", rnd);
    return message;
}

static json_t *random_gemini_call(uint64_t *rnd)
{
    json_t *call = json_pack("{s:s}", "name", test_one_in(rnd, 2) ? "f" : "g");
    maybe(call, "args", random_object(rnd), rnd);
    maybe(call, "id", random_id(rnd), rnd);
    add_unknown(call, "name args id", rnd);
    json_t *part = json_pack("{s:o}", "functionCall", call);
    add_unknown(part, "functionCall", rnd);
    return part;
}

static json_t *random_gemini_response(uint64_t *rnd)
{
    static const char *const names[] = {"result", "error"};
    json_t *response = random_object(rnd);
    if (test_one_in(rnd, 2)) {
        json_object_clear(response);
        json_object_set_new(response, names[test_below(rnd, 2)], random_value(rnd));
    }
    json_t *answer = json_pack("{s:s, s:o}", "name", "f", "response", response);
    maybe(answer, "id", random_id(rnd), rnd);
    add_unknown(answer, "name response id", rnd);
    json_t *part = json_pack("{s:o}", "functionResponse", answer);
    add_unknown(part, "functionCall functionResponse", rnd);
    return part;
}

static json_t *random_gemini_part(bool model, uint64_t *rnd)
{
    json_t *part = json_object();
    switch (test_below(rnd, 5)) {
    case 0:
        json_object_set_new(part, "inlineData", random_object(rnd));
        add_unknown(part, "text functionCall functionResponse", rnd);
        return part;
    case 1:
    case 2:
        json_object_set_new(part, "text", random_text(rnd));
        if (model) maybe(part, "thought", json_true(), rnd);
        add_unknown(part, "thought functionCall functionResponse", rnd);
        return part;
    default:
        json_decref(part);
        return model ? random_gemini_call(rnd) : random_gemini_response(rnd);
    }
}

static json_t *random_gemini(uint64_t *rnd)
{
    bool model = test_one_in(rnd, 2);
    json_t *parts = json_array();
    for (size_t left = test_below(rnd, 5); left > 0; left--) {
        json_array_append_new(parts, random_gemini_part(model, rnd));
    }
    json_t *message =
        json_pack("{s:s, s:o}", "role", model ? "model" : "user", "parts", parts);
    add_unknown(message, "role parts", rnd);
    return message;
}

static json_t *random_pydantic_response(uint64_t *rnd)
{
    json_t *part = json_object();
    switch (test_below(rnd, 5)) {
    case 0:
        json_object_set_new(part, "part_kind", json_string("text"));
        json_object_set_new(part, "content", random_text(rnd));
        break;
    case 1:
        json_object_set_new(part, "part_kind", json_string("thinking"));
        json_object_set_new(part, "content", random_text(rnd));
        break;
    case 2:
        json_object_set_new(part, "part_kind", json_string("builtin-tool-call"));
        break;
    default:
        json_object_set_new(part, "part_kind", json_string("tool-call"));
        json_object_set_new(part, "tool_name", json_string("f"));
        json_object_set_new(part, "tool_call_id", random_id(rnd));
        maybe(part, "args", random_object(rnd), rnd);
        maybe(part, "args", random_text(rnd), rnd);
        if (test_one_in(rnd, 8)) json_object_set_new(part, "args", json_null());
        add_unknown(part, "args", rnd);
        return part;
    }
    add_unknown(part, "part_kind content", rnd);
    return part;
}

static json_t *random_pydantic_request(uint64_t *rnd)
{
    static const char *const kinds[] = {"system-prompt", "user-prompt", "tool-return",
                                        "retry-prompt", "instruction"};
    static const char *const outcomes[] = {"success", "failed", "denied"};
    size_t kind = test_below(rnd, COUNT(kinds));
    json_t *part = json_object();
    json_object_set_new(part, "part_kind", json_string(kinds[kind]));
    json_object_set_new(part, "content", random_text(rnd));
    if (kind == 1 && test_one_in(rnd, 3)) {
        json_object_set_new(part, "content",
                            json_pack("[o, o]", random_text(rnd), random_object(rnd)));
    }
    if (kind == 2 || kind == 3) {
        json_object_set_new(part, "content", random_value(rnd));
        json_object_set_new(part, "tool_name", json_string("f"));
        json_object_set_new(part, "tool_call_id", random_id(rnd));
        maybe(part, "outcome", json_string(outcomes[test_below(rnd, 3)]), rnd);
    }
    add_unknown(part, "part_kind content", rnd);
    return part;
}

static json_t *random_pydantic(uint64_t *rnd)
{
    bool response = test_one_in(rnd, 2);
    json_t *parts = json_array();
    for (size_t left = test_below(rnd, 5); left > 0; left--) {
        json_array_append_new(parts, response ? random_pydantic_response(rnd)
                                              : random_pydantic_request(rnd));
    }
    json_t *message = json_pack("{s:s, s:o}", "kind", response ? "response" : "request",
                                "parts", parts);
    add_unknown(message, "kind parts", rnd);
    return message;
}

static json_t *random_message(size_t format, uint64_t *rnd)
{
    return format == 0   ? random_anthropic(rnd)
           : format == 1 ? random_gemini(rnd)
                         : random_pydantic(rnd);
}

/* The text of a value, spelled one way or another, in the test's arena. */
static ms_str spelled(json_t *value, uint64_t *rnd)
{
    static const size_t flags[] = {JSON_COMPACT, JSON_INDENT(2), JSON_ENSURE_ASCII, 0};
    size_t how = flags[test_below(rnd, COUNT(flags))];
    char *text = json_dumps(value, how | JSON_ENCODE_ANY);
    assert_non_null(text);
    size_t len = strlen(text);
    char *copy = (char *)ms_arena_alloc(&arena, len);
    assert_non_null(copy);
    memcpy(copy, text, len);
    free(text);
    return ms_str_n(copy, len);
}

static void random_messages_come_back(void **state)
{
    (void)state;
    for (size_t i = 0, n = test_times(6000); i < n; i++) {
        uint64_t rnd = test_seed() + i;
        json_t *message = random_message(i % COUNT(block_formats), &rnd);
        comes_back(block_formats[i % COUNT(block_formats)], spelled(message, &rnd),
                   test_one_in(&rnd, 2) ? STRICT : LENIENT);
        json_decref(message);
        ms_arena_reset(&arena);
    }
}

static void random_lists_come_back(void **state)
{
    (void)state;
    for (size_t i = 0, n = test_times(600); i < n; i++) {
        uint64_t rnd = test_seed() + 1000000 + i;
        json_t *list = json_array();
        for (size_t left = test_below(&rnd, 12); left > 0; left--) {
            json_array_append_new(list, random_message(i % COUNT(block_formats), &rnd));
        }
        comes_back(block_formats[i % COUNT(block_formats)], spelled(list, &rnd), STRICT);
        json_decref(list);
        ms_arena_reset(&arena);
    }
}


/* ---- lossless, by damage: what a reader takes although it is bent is not lost ---- */

/* Goes to a random value inside: *holder[key or index]. */
typedef struct spot {
    json_t *holder;
    const char *key;
    size_t index;
} spot;

static size_t count_spots(json_t *value)
{
    size_t n = 0, i;
    const char *key;
    json_t *item;
    if (json_is_object(value)) {
        json_object_foreach (value, key, item) n += 1 + count_spots(item);
    }
    if (json_is_array(value)) {
        json_array_foreach (value, i, item) n += 1 + count_spots(item);
    }
    return n;
}

static bool find_spot(json_t *value, size_t *left, spot *out)
{
    const char *key;
    json_t *item;
    size_t i;
    if (json_is_object(value)) {
        json_object_foreach (value, key, item) {
            spot here = {value, key, 0};
            *out = here;
            if ((*left)-- == 0 || find_spot(item, left, out)) return true;
        }
    }
    if (json_is_array(value)) {
        json_array_foreach (value, i, item) {
            spot here = {value, NULL, i};
            *out = here;
            if ((*left)-- == 0 || find_spot(item, left, out)) return true;
        }
    }
    return false;
}

/* Is it a member whose absence the format mends by a rule of its own? */
static bool mended(const spot *at)
{
    return at->key != NULL && strcmp(at->key, "tool_call_id") == 0;
}

/* Removes, renames or replaces one value. */
static void bend(json_t *message, uint64_t *rnd)
{
    spot at = {NULL, NULL, 0};
    size_t left = test_below(rnd, count_spots(message));
    if (!find_spot(message, &left, &at) || mended(&at)) return;
    if (at.key == NULL) {
        if (test_one_in(rnd, 2))
            json_array_set_new(at.holder, at.index, random_value(rnd));
        else json_array_remove(at.holder, at.index);
    } else if (test_one_in(rnd, 3)) {
        json_object_del(at.holder, at.key);
    } else {
        json_object_set_new(at.holder, at.key, random_value(rnd));
    }
}

/* Strictly refused, or equal; leniently equal. */
static void bent_messages_are_refused_or_come_back(void **state)
{
    (void)state;
    size_t taken = 0, n = test_times(9000);
    for (size_t i = 0; i < n; i++) {
        uint64_t rnd = test_seed() + 2000000 + i;
        size_t format = i % COUNT(block_formats);
        json_t *message = random_message(format, &rnd);
        bend(message, &rnd);
        ms_str json = spelled(message, &rnd);
        bool strict = equal_or_refused(block_formats[format], json, STRICT);
        bool lenient = equal_or_refused(block_formats[format], json, LENIENT);
        assert_true(lenient);
        taken += strict;
        json_decref(message);
        ms_arena_reset(&arena);
    }
    printf("%lu of %lu bent messages were taken strictly\n", (unsigned long)taken,
           (unsigned long)n);
    if (n > 100) assert_in_range(taken, n / 20, n - n / 20);
}

/* Cut off anywhere, a message is refused. */
static void cut_messages_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(lossless_rows); i++) {
        ms_str json = ms_str_of(lossless_rows[i].json);
        for (size_t len = 0; len < json.len; len += 1 + len / 100) {
            ms_envelopes list;
            ms_error err;
            ms_str part = ms_str_n(json.ptr, len);
            ms_result code = read_in(lossless_rows[i].dialect, part, LENIENT, &arena,
                                     &list, &err);
            if (code != MS_E_UTF8) assert_int_equal(code, MS_E_SYNTAX);
        }
        ms_arena_reset(&arena);
    }
}


/* ---- transcripts of an agent program ---- */

/* A message that a strict reader must take: role and content as the format has them. */
static bool is_anthropic(json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    json_t *content = json_object_get(message, "content"), *block;
    size_t i;
    if (role == NULL || (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0))
        return false;
    if (json_is_string(content)) return true;
    if (!json_is_array(content)) return false;
    json_array_foreach (content, i, block) {
        if (!json_is_string(json_object_get(block, "type"))) return false;
    }
    return true;
}

static void transcript_line(const char *name, size_t number, json_t *line, size_t *n)
{
    uint64_t rnd = number;
    json_t *message = json_object_get(line, "message");
    if (message == NULL) return;
    ms_str json = spelled(message, &rnd);
    n[1]++;
    if (is_anthropic(message)) {
        comes_back(AN, json, STRICT);
        n[0]++;
        return;
    }
    ms_envelopes list;
    ms_error err;
    assert_int_not_equal(read_in(AN, json, STRICT, &arena, &list, &err), MS_OK);
    printf("%s line %lu is no such message: %s\n", name, (unsigned long)number,
           err.message);
}

static void transcripts_come_back(void **state)
{
    (void)state;
    static const char *const names[] = {"edge_cases", "representative_messages",
                                        "session_b", "todowrite_examples"};
    size_t n[2] = {0, 0};
    for (size_t i = 0; i < COUNT(names); i++) {
        char name[128], path[4096];
        size_t size, number = 0;
        snprintf(name, sizeof name, "data/claude-code-jsonl/%s.jsonl", names[i]);
        if (!shared_path(path, sizeof path, name)) skip();
        char *bytes = read_file(path, &size);
        assert_non_null(bytes);
        for (char *line = bytes, *end; line < bytes + size; line = end + 1) {
            end = strchr(line, '\n');
            if (end == NULL) end = bytes + size;
            json_t *value = json_parse_n(line, (size_t)(end - line));
            transcript_line(names[i], ++number, value, n);
            json_decref(value);
        }
        free(bytes);
    }
    printf("%lu of %lu messages of transcripts\n", (unsigned long)n[0],
           (unsigned long)n[1]);
    assert_true(n[0] > 30);
}


/* ---- bodies of requests ---- */

/* Each body, and the messages that it holds as a list of them. */
static const struct {
    const char *dialect, *json, *list;
} body_rows[] = {
    {AN, "{\"system\":\"s\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
     "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"a\"}]"},
    {AN, "{\"model\":\"m\",\"max_tokens\":5,\"messages\":[]}", "[]"},
    {AN, "{\"system\":null,\"messages\":[]}", "[]"},
    {AN, "{\"system\":\"\",\"messages\":[]}", "[{\"role\":\"system\",\"content\":\"\"}]"},
    {AN, "{\"messages\":[],\"system\":[{\"type\":\"text\",\"text\":\"a\","
         "\"cache_control\":{}},{\"type\":\"text\",\"text\":\"b\"}]}",
     "[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"a\","
     "\"cache_control\":{}},{\"type\":\"text\",\"text\":\"b\"}]}]"},
    {AN, "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
         "[]}]",
     "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":[]}]"},
    {AN, " [ ] ", "[]"},
    {AN, "{\"mess\\u0061ges\":[],\"sy\\u0073tem\":\"x\"}",
     "[{\"role\":\"system\",\"content\":\"x\"}]"},
    {GE, "{\"systemInstruction\":{\"parts\":[{\"text\":\"s\"}]},\"contents\":[{\"role\":"
         "\"user\",\"parts\":[{\"text\":\"a\"}]}]}",
     "[{\"role\":\"system\",\"parts\":[{\"text\":\"s\"}]},{\"role\":\"user\",\"parts\":"
     "[{\"text\":\"a\"}]}]"},
    {GE, "{\"systemInstruction\":{\"parts\":[{\"text\":\"a\"},{\"text\":\"b\",\"x\":1}]},"
         "\"contents\":[]}",
     "[{\"role\":\"system\",\"parts\":[{\"text\":\"a\"},{\"text\":\"b\",\"x\":1}]}]"},
    {GE, "{\"systemInstruction\":null,\"contents\":[]}", "[]"},
    {GE, "{\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"a\"}]}],"
         "\"system_instruction\":{\"parts\":[{\"text\":\"s\"}]}}",
     "[{\"role\":\"system\",\"parts\":[{\"text\":\"s\"}]},{\"role\":\"user\",\"parts\":"
     "[{\"text\":\"a\"}]}]"},
    {GE, "{\"system_instruction\":null,\"contents\":[]}", "[]"},
    {GE, "{\"contents\":[],\"generationConfig\":{}}", "[]"},
    {GE, "[{\"role\":\"model\",\"parts\":[]}]", "[{\"role\":\"model\",\"parts\":[]}]"},
    {PY, "[{\"kind\":\"request\",\"parts\":[]}]",
     "[{\"kind\":\"request\",\"parts\":[]}]"},
    {PY, "{\"messages\":[{\"kind\":\"request\",\"parts\":[]}],\"new_messages\":[]}",
     "[{\"kind\":\"request\",\"parts\":[]}]"},
};

static ms_result read_body(const char *name, ms_str json, unsigned how,
                           ms_envelopes *list, ms_error *err)
{
    ms_read_opts opts = {(how & LENIENT) != 0, (how & REPAIR) != 0};
    memset(list, 0xA5, sizeof *list);
    memset(err, 0, sizeof *err);
    ms_result code = ms_read_list(dialect(name), json, &opts, &arena, list, err);
    if (code != MS_OK) assert_null(list->items);
    if (code != MS_OK) assert_int_equal(list->count, 0);
    return code;
}

static void bodies_are_lists(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(body_rows); i++) {
        ms_envelopes list;
        ms_error err;
        must(read_body(body_rows[i].dialect, ms_str_of(body_rows[i].json), STRICT, &list,
                       &err),
             &err);
        ms_str expected = ms_str_of(body_rows[i].list);
        same_json(body_rows[i].dialect, written(body_rows[i].dialect, &list, true),
                  expected);
        same_json(body_rows[i].dialect, written_stored(body_rows[i].dialect, &list, true),
                  expected);
    }
}

static const struct {
    const char *dialect, *json;
    ms_result code;
    const char *path;
} bad_body_rows[] = {
    {AN, "{}", MS_E_KIND, ""},
    {AN, "5", MS_E_KIND, ""},
    {AN, "null", MS_E_KIND, ""},
    {AN, "\"messages\"", MS_E_KIND, ""},
    {AN, "{\"messages\":{}}", MS_E_KIND, ""},
    {AN, "{\"messages\":null,\"system\":\"x\"}", MS_E_KIND, ""},
    {AN, "{\"contents\":[]}", MS_E_KIND, ""},
    {AN, "{\"messages\":[],\"system\":5}", MS_E_KIND, "system"},
    {AN, "{\"messages\":[],\"system\":true}", MS_E_KIND, "system"},
    {AN, "{\"messages\":[5]}", MS_E_KIND, "messages[0]"},
    {AN, "{\"system\":\"s\",\"messages\":[{\"role\":\"user\",\"content\":\"\"},{}]}",
     MS_E_MISSING, "messages[1].role"},
    {GE, "{\"messages\":[]}", MS_E_KIND, ""},
    {GE, "{\"contents\":\"x\"}", MS_E_KIND, ""},
    {GE, "{\"contents\":[],\"systemInstruction\":7}", MS_E_KIND, "systemInstruction"},
    {GE, "{\"contents\":[],\"systemInstruction\":\"s\"}", MS_E_KIND,
     "systemInstruction"},
    {GE, "{\"contents\":[],\"systemInstruction\":{\"parts\":5}}", MS_E_KIND,
     "systemInstruction.parts"},
    {GE, "{\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":1}]}]}", MS_E_KIND,
     "messages[0].parts[0].text"},
    {PY, "{\"contents\":[]}", MS_E_KIND, ""},
    {PY, "{\"kind\":\"request\",\"parts\":[]}", MS_E_KIND, ""},
};

static void bad_bodies_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad_body_rows); i++) {
        ms_envelopes list;
        ms_error err;
        const char *json = bad_body_rows[i].json;
        ms_result code =
            read_body(bad_body_rows[i].dialect, ms_str_of(json), STRICT, &list, &err);
        if (code != bad_body_rows[i].code || strcmp(err.path, bad_body_rows[i].path) != 0)
            fail_msg("%s: %s at '%s': %s", json, ms_result_text(code), err.path,
                     err.message);
    }
}


/* ---- bad input ---- */

/* What strict readers refuse, and where. */
static const struct {
    const char *dialect, *json;
    ms_result code;
    const char *path;
} bad_rows[] = {
    {AN, "{}", MS_E_MISSING, "role"},
    {AN, "[]", MS_E_KIND, ""},
    {AN, "5", MS_E_KIND, ""},
    {AN, "\"x\"", MS_E_KIND, ""},
    {AN, "null", MS_E_KIND, ""},
    {AN, "{\"role\":5,\"content\":\"x\"}", MS_E_KIND, "role"},
    {AN, "{\"role\":null,\"content\":\"x\"}", MS_E_KIND, "role"},
    {AN, "{\"content\":\"x\"}", MS_E_MISSING, "role"},
    {AN, "{\"role\":\"user\"}", MS_E_MISSING, "content"},
    {AN, "{\"role\":\"\",\"content\":\"x\"}", MS_E_TYPE, "role"},
    {AN, "{\"role\":\"tool\",\"content\":\"x\"}", MS_E_TYPE, "role"},
    {AN, "{\"role\":\"User\",\"content\":\"x\"}", MS_E_TYPE, "role"},
    {AN, "{\"role\":\"user\",\"content\":null}", MS_E_KIND, "content"},
    {AN, "{\"role\":\"user\",\"content\":5}", MS_E_KIND, "content"},
    {AN, "{\"role\":\"user\",\"content\":{}}", MS_E_KIND, "content"},
#define AN_USER(block) "{\"role\":\"user\",\"content\":[" block "]}"
#define AN_CALL(block) "{\"role\":\"assistant\",\"content\":[" block "]}"
    {AN, AN_USER("5"), MS_E_KIND, "content[0]"},
    {AN, AN_USER("null"), MS_E_KIND, "content[0]"},
    {AN, AN_USER("{\"type\":\"text\",\"text\":\"a\"},[]"), MS_E_KIND, "content[1]"},
    {AN, AN_USER("{\"type\":\"text\"}"), MS_E_MISSING, "content[0].text"},
    {AN, AN_USER("{\"type\":\"text\",\"text\":null}"), MS_E_KIND, "content[0].text"},
    {AN, AN_USER("{\"type\":\"text\",\"text\":[]}"), MS_E_KIND, "content[0].text"},
    {AN, AN_CALL("{\"type\":\"text\",\"text\":1},{\"type\":\"tool_use\",\"id\":\"c\","
                 "\"name\":\"f\",\"input\":{}}"),
     MS_E_KIND, "content[0].text"},
    {AN, AN_CALL("{\"type\":\"tool_use\",\"name\":\"f\",\"input\":{}}"), MS_E_MISSING,
     "content[0].id"},
    {AN, AN_CALL("{\"type\":\"tool_use\",\"id\":null,\"name\":\"f\",\"input\":{}}"),
     MS_E_KIND, "content[0].id"},
    {AN, AN_CALL("{\"type\":\"tool_use\",\"id\":\"c\",\"input\":{}}"), MS_E_MISSING,
     "content[0].name"},
    {AN, AN_CALL("{\"type\":\"tool_use\",\"id\":\"c\",\"name\":{},\"input\":{}}"),
     MS_E_KIND, "content[0].name"},
    {AN, AN_CALL("{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"f\"}"), MS_E_MISSING,
     "content[0].input"},
    {AN, AN_CALL("{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"f\",\"input\":\"{}\"}"),
     MS_E_KIND, "content[0].input"},
    {AN, AN_CALL("{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"tool_use\",\"id\":"
                 "\"c\",\"name\":\"f\",\"input\":[]}"),
     MS_E_KIND, "content[1].input"},
    {AN, AN_CALL("{\"type\":\"thinking\"}"), MS_E_MISSING, "content[0].thinking"},
    {AN, AN_CALL("{\"type\":\"thinking\",\"thinking\":0}"), MS_E_KIND,
     "content[0].thinking"},
    {AN, AN_USER("{\"type\":\"tool_result\",\"content\":\"x\"}"), MS_E_MISSING,
     "content[0].tool_use_id"},
    {AN, AN_USER("{\"type\":\"tool_result\",\"tool_use_id\":1,\"content\":\"x\"}"),
     MS_E_KIND, "content[0].tool_use_id"},
    {AN, AN_USER("{\"type\":\"tool_result\",\"tool_use_id\":\"c\",\"content\":{}}"),
     MS_E_KIND, "content[0].content"},
    {AN, AN_USER("{\"type\":\"tool_result\",\"tool_use_id\":\"c\",\"is_error\":1}"),
     MS_E_KIND, "content[0].is_error"},
    {GE, "{}", MS_E_MISSING, "parts"},
    {GE, "[]", MS_E_KIND, ""},
    {GE, "{\"role\":\"user\"}", MS_E_MISSING, "parts"},
    {GE, "{\"role\":\"assistant\",\"parts\":[]}", MS_E_TYPE, "role"},
    {GE, "{\"role\":\"function\",\"parts\":[]}", MS_E_TYPE, "role"},
    {GE, "{\"role\":[],\"parts\":[]}", MS_E_KIND, "role"},
    {GE, "{\"role\":\"user\",\"parts\":\"x\"}", MS_E_KIND, "parts"},
    {GE, "{\"role\":\"user\",\"parts\":null}", MS_E_KIND, "parts"},
#define GE_USER(part) "{\"role\":\"user\",\"parts\":[" part "]}"
#define GE_CALL(part) "{\"role\":\"model\",\"parts\":[" part "]}"
    {GE, GE_USER("\"x\""), MS_E_KIND, "parts[0]"},
    {GE, GE_USER("{\"text\":\"a\"},{\"text\":{}}"), MS_E_KIND, "parts[1].text"},
    {GE, GE_CALL("{\"text\":null}"), MS_E_KIND, "parts[0].text"},
    {GE, GE_CALL("{\"text\":5,\"thought\":true}"), MS_E_KIND, "parts[0].text"},
    {GE, GE_CALL("{\"functionCall\":5}"), MS_E_KIND, "parts[0].functionCall"},
    {GE, GE_CALL("{\"functionCall\":{}}"), MS_E_MISSING, "parts[0].functionCall.name"},
    {GE, GE_CALL("{\"functionCall\":{\"name\":null}}"), MS_E_KIND,
     "parts[0].functionCall.name"},
    {GE, GE_CALL("{\"functionCall\":{\"name\":\"f\",\"args\":[]}}"), MS_E_KIND,
     "parts[0].functionCall.args"},
    {GE, GE_CALL("{\"functionCall\":{\"name\":\"f\",\"id\":7}}"), MS_E_KIND,
     "parts[0].functionCall.id"},
    {GE, GE_USER("{\"functionResponse\":[]}"), MS_E_KIND, "parts[0].functionResponse"},
    {GE, GE_USER("{\"functionResponse\":{\"name\":\"f\"}}"), MS_E_MISSING,
     "parts[0].functionResponse.response"},
    {GE, GE_USER("{\"functionResponse\":{\"name\":\"f\",\"response\":\"x\"}}"), MS_E_KIND,
     "parts[0].functionResponse.response"},
    {GE, GE_USER("{\"functionResponse\":{\"response\":{}}}"), MS_E_MISSING,
     "parts[0].functionResponse.name"},
    {GE, GE_USER("{\"functionResponse\":{\"name\":\"f\",\"response\":{},\"id\":{}}}"),
     MS_E_KIND, "parts[0].functionResponse.id"},

    {PY, "{}", MS_E_MISSING, "kind"},
    {PY, "true", MS_E_KIND, ""},
    {PY, "{\"parts\":[]}", MS_E_MISSING, "kind"},
    {PY, "{\"kind\":\"request\"}", MS_E_MISSING, "parts"},
    {PY, "{\"kind\":\"reply\",\"parts\":[]}", MS_E_TYPE, "kind"},
    {PY, "{\"kind\":0,\"parts\":[]}", MS_E_KIND, "kind"},
    {PY, "{\"kind\":\"request\",\"parts\":{}}", MS_E_KIND, "parts"},
#define PY_USER(part) "{\"kind\":\"request\",\"parts\":[" part "]}"
#define PY_CALL(part) "{\"kind\":\"response\",\"parts\":[" part "]}"
    {PY, PY_USER("null"), MS_E_KIND, "parts[0]"},
    {PY, PY_USER("{\"part_kind\":\"user-prompt\"}"), MS_E_MISSING, "parts[0].content"},
    {PY, PY_USER("{\"part_kind\":\"user-prompt\",\"content\":{}}"), MS_E_KIND,
     "parts[0].content"},
    {PY, PY_USER("{\"part_kind\":\"user-prompt\",\"content\":null}"), MS_E_KIND,
     "parts[0].content"},
    {PY, PY_USER("{\"part_kind\":\"system-prompt\",\"content\":[]}"), MS_E_KIND,
     "parts[0].content"},
    {PY, PY_CALL("{\"part_kind\":\"text\",\"content\":{}}"), MS_E_KIND,
     "parts[0].content"},
    {PY, PY_CALL("{\"part_kind\":\"text\"}"), MS_E_MISSING, "parts[0].content"},
    {PY, PY_CALL("{\"part_kind\":\"thinking\",\"content\":[]}"), MS_E_KIND,
     "parts[0].content"},
    {PY, PY_CALL("{\"part_kind\":\"tool-call\",\"tool_call_id\":\"1\"}"), MS_E_MISSING,
     "parts[0].tool_name"},
    {PY, PY_CALL("{\"part_kind\":\"tool-call\",\"tool_name\":\"f\",\"tool_call_id\":"
                 "\"1\",\"args\":[]}"),
     MS_E_KIND, "parts[0].args"},
    {PY, PY_CALL("{\"part_kind\":\"text\",\"content\":\"a\"},{\"part_kind\":"
                 "\"tool-call\",\"tool_name\":\"f\",\"tool_call_id\":1}"),
     MS_E_KIND, "parts[1].tool_call_id"},
    {PY, PY_CALL("{\"part_kind\":\"tool-call\",\"tool_name\":null,\"tool_call_id\":"
                 "\"1\"}"),
     MS_E_KIND, "parts[0].tool_name"},
    {PY, PY_USER("{\"part_kind\":\"tool-return\",\"tool_name\":\"f\",\"tool_call_id\":"
                 "\"1\"}"),
     MS_E_MISSING, "parts[0].content"},
    {PY, PY_USER("{\"part_kind\":\"tool-return\",\"content\":1,\"tool_call_id\":\"1\"}"),
     MS_E_MISSING, "parts[0].tool_name"},
    {PY, PY_USER("{\"part_kind\":\"retry-prompt\",\"tool_name\":\"f\"}"), MS_E_MISSING,
     "parts[0].content"},

    /* no JSON at all: no place but the offset */
    {AN, "", MS_E_SYNTAX, ""},
    {AN, "{\"role\":\"user\",\"content\":NaN}", MS_E_SYNTAX, ""},
    {AN, AN_CALL("{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"f\",\"input\":{\"a\":"
                 "NaN}}"),
     MS_E_SYNTAX, ""},
    {GE, GE_CALL("{\"functionCall\":{\"name\":\"f\",\"args\":{\"a\":Infinity}}}"),
     MS_E_SYNTAX, ""},
    {PY, PY_USER("{\"part_kind\":\"user-prompt\",\"content\":\"x\",\"timestamp\":-NaN}"),
     MS_E_SYNTAX, ""},
    {PY, "{\"kind\":\"request\",\"parts\":[]} {}", MS_E_SYNTAX, ""},
    {AN, "{\"role\":\"user\",\"content\":\"\xff\"}", MS_E_UTF8, ""},
    {AN, "{\"role\":\"user\",\"content\":\"\\ud800\"}", MS_E_UTF8, ""},
    {GE, GE_USER("{\"text\":\"\xc3\"}"), MS_E_UTF8, ""},
    {PY, PY_USER("{\"part_kind\":\"user-prompt\",\"content\":\"\\udc00\"}"), MS_E_UTF8,
     ""},
};

static void refuses(const char *name, const char *json, ms_str given, ms_result code,
                    const char *path)
{
    ms_envelopes list;
    ms_error err;
    ms_result got = read_in(name, given, STRICT, &arena, &list, &err);
    if (got == code && strcmp(err.path, path) == 0 && err.message[0] != '\0') return;
    fail_msg("%s %s\n%s at '%s', not %s at '%s': %s", name, json, ms_result_text(got),
             err.path, ms_result_text(code), path, err.message);
}

/* A list of a good message and this one. */
static ms_str behind_a_good_one(const char *name, const char *json)
{
    const char *good = strcmp(name, AN) == 0   ? "{\"role\":\"user\",\"content\":\"x\"}"
                       : strcmp(name, GE) == 0 ? "{\"role\":\"user\",\"parts\":[]}"
                                               : "{\"kind\":\"request\",\"parts\":[]}";
    size_t size = strlen(good) + strlen(json) + 4;
    char *text = (char *)ms_arena_alloc(&arena, size);
    assert_non_null(text);
    snprintf(text, size, "[%s,%s]", good, json);
    return ms_str_of(text);
}

static void bad_messages_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad_rows); i++) {
        const char *name = bad_rows[i].dialect, *json = bad_rows[i].json;
        const char *path = bad_rows[i].path;
        bool no_json = bad_rows[i].code == MS_E_SYNTAX || bad_rows[i].code == MS_E_UTF8;
        char longer[128];
        if (json[0] != '[') {
            refuses(name, json, ms_str_of(json), bad_rows[i].code, path);
        }
        snprintf(longer, sizeof longer, "messages[1]%s%s", path[0] != '\0' ? "." : "",
                 path);
        refuses(name, json, behind_a_good_one(name, json), bad_rows[i].code,
                no_json ? "" : longer);
        if (json[0] == '{' && !no_json) comes_back(name, ms_str_of(json), LENIENT);
    }
}

/* Bad bytes and lone surrogates, where they are to be mended, become U+FFFD. */
static void bad_text_is_repaired(void **state)
{
    (void)state;
    static const struct {
        const char *dialect, *json, *mended;
    } rows[] = {
        {AN, "{\"role\":\"user\",\"content\":\"a\xff\"}",
         "{\"role\":\"user\",\"content\":\"a\\ufffd\"}"},
        {AN, AN_CALL("{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"\\ud800\","
                     "\"input\":{\"\xc3\":\"\\udc00x\"},\"x\":\"\xff\"}"),
         AN_CALL("{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"\\ufffd\",\"input\":"
                 "{\"\\ufffd\":\"\\ufffdx\"},\"x\":\"\\ufffd\"}")},
        {AN, AN_USER("{\"type\":\"image\",\"a\":\"\xff\"},{\"type\":\"text\",\"text\":"
                     "\"\\ud800\"}"),
         AN_USER("{\"type\":\"image\",\"a\":\"\\ufffd\"},{\"type\":\"text\",\"text\":"
                 "\"\\ufffd\"}")},
        {GE, GE_USER("{\"functionResponse\":{\"name\":\"f\",\"response\":{\"result\":"
                     "[\"\xff\"]},\"y\":\"\\udc00\"}}"),
         GE_USER("{\"functionResponse\":{\"name\":\"f\",\"response\":{\"result\":["
                 "\"\\ufffd\"]},\"y\":\"\\ufffd\"}}")},
        {PY, PY_USER("{\"part_kind\":\"user-prompt\",\"content\":[\"\xff\"]},"
                     "{\"part_kind\":\"new\",\"x\":\"\\ud800\"}"),
         PY_USER("{\"part_kind\":\"user-prompt\",\"content\":[\"\\ufffd\"]},"
                 "{\"part_kind\":\"new\",\"x\":\"\\ufffd\"}")},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_envelopes list = reads(rows[i].dialect, ms_str_of(rows[i].json), REPAIR);
        ms_str line = written(rows[i].dialect, &list, false);
        same_json(rows[i].dialect, line, ms_str_of(rows[i].mended));
        assert_true(ms_utf8_check(line, NULL));
        same_json(rows[i].dialect, written_stored(rows[i].dialect, &list, false),
                  ms_str_of(rows[i].mended));
    }
}

/* Brackets nested n deep. */
static const char *nested(size_t n)
{
    char *text = (char *)ms_arena_alloc(&arena, 2 * n + 1);
    assert_non_null(text);
    memset(text, '[', n);
    memset(text + n, ']', n);
    text[2 * n] = '\0';
    return text;
}

/* What is nested too deeply is refused, and what just passes comes back. */
static void deep_messages(void **state)
{
    (void)state;
    static const struct {
        const char *dialect, *json;
    } rows[] = {
        {AN, AN_CALL("{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"f\",\"input\":"
                     "{\"a\":%s}}")},
        {AN, AN_USER("{\"type\":\"image\",\"a\":%s}")},
        {AN, "{\"role\":\"user\",\"content\":\"x\",\"a\":%s}"},
        {GE, GE_CALL("{\"functionCall\":{\"name\":\"f\",\"args\":{\"a\":%s}}}")},
        {GE, GE_CALL("{\"functionCall\":{\"name\":\"f\",\"x\":%s}}")},
        {GE, GE_USER("{\"functionResponse\":{\"name\":\"f\",\"response\":{\"result\":"
                     "%s}}}")},
        {PY, PY_CALL("{\"part_kind\":\"tool-call\",\"tool_name\":\"f\",\"tool_call_id\":"
                     "\"1\",\"args\":{\"a\":%s}}")},
        {PY, PY_USER("{\"part_kind\":\"new\",\"a\":%s}")},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        for (size_t n = 480; n < 520; n++) {
            char json[2048];
            ms_envelopes list;
            ms_error err;
            snprintf(json, sizeof json, rows[i].json, nested(n));
            ms_result code =
                read_in(rows[i].dialect, ms_str_of(json), STRICT, &arena, &list, &err);
            if (code == MS_OK) comes_back(rows[i].dialect, ms_str_of(json), STRICT);
            else assert_int_equal(code, MS_E_DEPTH);
            assert_true(n < 512 || code != MS_OK);
            assert_true(n > 490 || code == MS_OK);
            ms_arena_reset(&arena);
        }
    }
}


/* ---- crossing: what every format promises to keep ---- */

/* Promises. TEXTS: what was said by which side, in order; CALLS: tool, arguments as JSON,
 * id; RESULTS: id and content; ERRORS: which results are errors; TYPES, TURNS, EXTRA: of
 * each message, and that it stays one; FIELDS: all others. */
enum {
    TEXTS = 1,
    CALLS = 2,
    RESULTS = 4,
    ERRORS = 8,
    TYPES = 16,
    TURNS = 32,
    EXTRA = 64,
    FIELDS = 128,
    CHAT = TEXTS | CALLS | RESULTS,
    WHOLE = 255,
    MERGED = 256 /* texts of one side that follow each other count as one */
};

static const struct {
    const char *dialect;
    unsigned promises;
} promises[] = {
    {"framework", WHOLE},     {"session", CHAT},
    {"task", 0},              /* what it has no word for becomes data of an agent */
    {"envelope", CHAT | ERRORS}, {"openai", CHAT},         {"chat-strict", CHAT},
    {"anthropic", CHAT | ERRORS},
    {"gemini", CHAT | ERRORS},
    {"pydantic-ai", CHAT | ERRORS},
    {"envelope-rows", 0},     /* one way: rows for a provider */
};

/* Lists of messages, those in the framework's words read leniently. Results and calls
 * have ids, so that nothing has to be derived. */
static const struct {
    const char *dialect, *json;
} stories[] = {
    {FW, "[{\"type\":\"user_message\",\"content\":\"hi\",\"turn_id\":\"t1\",\"step\":3},"
    "{\"type\":\"assistant_message\",\"content\":\"hello \\u00e9\\n\",\"turn_id\":\"t1\","
    "\"timestamp\":1700000000.5,\"meta\":{\"a\":[1.0,null]}},"
    "{\"type\":\"user_message\",\"content\":\"\"},"
    "{\"type\":\"user_message\",\"content\":\"{\\\"a\\\":1}\"},"
    "{\"type\":\"assistant_message\",\"content\":\"[1]\",\"id\":\"m5\"}]"},
    {FW, "[{\"type\":\"action\",\"tool\":\"f\",\"args\":{\"a\":{\"b\":[1,2.5,"
         "\"x\"]},\"c\":{}},"
    "\"tool_call_id\":\"c1\",\"turn_id\":\"t\"},"
    "{\"type\":\"observation\",\"content\":\"done\",\"tool_call_id\":\"c1\",\"turn_id\":"
    "\"t\",\"ms\":12}]"},
    {FW, "[{\"type\":\"assistant_message\",\"content\":\"I look\"},{\"type\":\"action\","
    "\"tool\":\"f\",\"args\":{},\"tool_call_id\":\"c1\",\"joined\":true},{\"type\":"
    "\"action\",\"tool\":\"g\",\"args\":{\"n\":1},\"tool_call_id\":\"c2\","
    "\"joined\":true},"
    "{\"type\":\"observation\",\"content\":\"of f\",\"tool_call_id\":\"c1\"},"
    "{\"type\":\"error\",\"content\":\"of g\",\"error_type\":\"IOError\","
    "\"tool_call_id\":\"c2\"},{\"type\":\"assistant_message\",\"content\":\"so\"}]"},
    {FW, "[{\"type\":\"action\",\"tool\":\"f\",\"args\":{},\"tool_call_id\":\"1\"},"
    "{\"type\":\"observation\",\"content\":{\"rows\":[1,{}]},\"tool_call_id\":\"1\"},"
    "{\"type\":\"action\",\"tool\":\"f\",\"args\":{},\"tool_call_id\":\"2\"},"
    "{\"type\":\"observation\",\"content\":[\"a\",2],\"tool_call_id\":\"2\"},"
    "{\"type\":\"action\",\"tool\":\"f\",\"args\":{},\"tool_call_id\":\"3\"},"
    "{\"type\":\"observation\",\"content\":7.5,\"tool_call_id\":\"3\"},"
    "{\"type\":\"action\",\"tool\":\"f\",\"args\":{},\"tool_call_id\":\"4\"},"
    "{\"type\":\"error\",\"content\":{\"code\":5},\"tool_call_id\":\"4\"},"
    "{\"type\":\"action\",\"tool\":\"f\",\"args\":{},\"tool_call_id\":\"5\"},"
    "{\"type\":\"observation\",\"content\":true,\"tool_call_id\":\"5\"},"
    "{\"type\":\"action\",\"tool\":\"f\",\"args\":{},\"tool_call_id\":\"6\"},"
    "{\"type\":\"observation\",\"content\":\"\",\"tool_call_id\":\"6\"},"
    "{\"type\":\"action\",\"tool\":\"f\",\"args\":{},\"tool_call_id\":\"6\"},"
    "{\"type\":\"observation\",\"content\":\"again\",\"tool_call_id\":\"6\"}]"},
    {FW, "[{\"type\":\"action\",\"tool\":\"f\",\"args\":{},\"tool_call_id\":\"1\"},"
    "{\"type\":\"observation\",\"content\":{\"error\":\"kept\"},\"tool_call_id\":\"1\"},"
    "{\"type\":\"action\",\"tool\":\"f\",\"args\":{},\"tool_call_id\":\"2\"},"
    "{\"type\":\"observation\",\"content\":{\"result\":[5]},\"tool_call_id\":\"2\"}]"},
    {FW, "[{\"type\":\"action\",\"content\":\"let me see\",\"tool\":\"f\",\"args\":{},"
    "\"tool_call_id\":\"1\"},{\"type\":\"observation\",\"content\":\"x\","
    "\"tool_call_id\":\"1\"}]"},
    {FW, "[{\"type\":\"task\",\"content\":\"find it\",\"turn_id\":\"\"},{\"type\":"
    "\"script_instruction\",\"content\":\"step one\"},{\"type\":\"strategic_plan\","
    "\"content\":{\"phases\":[{\"n\":1}]}},{\"type\":\"suggested_plan\",\"content\":"
    "\"p\"},{\"type\":\"script_plan\",\"content\":{\"a\":[]}},{\"type\":\"final\","
    "\"content\":\"the end\"},{\"type\":\"final\",\"content\":{\"answer\":42}}]"},
    {FW, "[{\"type\":\"delegation\",\"worker\":\"w\",\"task\":\"dig\",\"x\":1},{\"type\":"
    "\"synthesis\",\"content\":\"sum\",\"from_manager\":\"m\",\"phase_id\":2},{\"type\":"
    "\"synthesis\",\"content\":{\"a\":1},\"from_manager\":\"m\",\"phase_id\":\"one\"},"
    "{\"type\":\"global_observation\",\"content\":\"seen\",\"from_worker\":\"w\"},"
    "{\"type\":\"global_observation\",\"content\":{\"long\":1},\"from_worker\":\"w\","
    "\"summary\":\"short\"},{\"type\":\"global_observation\",\"content\":\"none\"}]"},
    {FW, "[{\"type\":\"director_context\",\"content\":\"stay calm\"},{\"type\":"
    "\"injected_context\",\"content\":\"today is\",\"why\":null},{\"type\":"
    "\"injected_context\",\"content\":\"dev\",\"role\":\"developer\"}]"},
    {FW, "[{\"type\":\"text\",\"content\":\"rules\"},{\"type\":\"text\","
         "\"content\":\"u\","
    "\"role\":\"user\"},{\"type\":\"text\",\"content\":\"a\",\"role\":\"assistant\"},"
    "{\"type\":\"text\",\"content\":\"d\",\"role\":\"developer\"}]"},
    {FW, "[{\"type\":\"input_required\",\"content\":\"name?\"},{\"type\":"
    "\"approval_required\",\"content\":\"may I?\"},{\"type\":\"delta\",\"content\":"
    "\"par\"},{\"type\":\"data\",\"content\":{\"k\":[1]}},{\"type\":\"reasoning\","
    "\"content\":\"hm\",\"turn_id\":\"t9\"},{\"type\":\"heartbeat\",\"content\":\"tick\","
    "\"n\":1}]"},
    /* lists of texts */
    {AN, "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":"
         "\"text\",\"text\":\"b\"}]},{\"role\":\"assistant\",\"content\":[{\"type\":"
         "\"text\",\"text\":\"so\",\"citations\":null}]},{\"role\":\"system\","
         "\"content\":"
         "[{\"type\":\"text\",\"text\":\"rules\"}]}]"},
    {AN, "[{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":"
         "\"hm\",\"signature\":\"s\"},{\"type\":\"text\",\"text\":\"I look\"},"
         "{\"type\":\"tool_use\",\"id\":\"1\",\"name\":\"f\",\"input\":{\"a\":1}},"
         "{\"type\":\"tool_use\",\"id\":\"2\",\"name\":\"g\",\"input\":{}}]},"
         "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","
         "\"tool_use_id\":\"2\","
         "\"content\":\"of g\",\"is_error\":true},{\"type\":\"tool_result\","
         "\"tool_use_id\":\"1\",\"content\":\"of f\"},{\"type\":\"text\",\"text\":"
         "\"go on\"}]}]"},
    {PY, "[{\"kind\":\"request\",\"parts\":[{\"part_kind\":\"system-prompt\",\"content\":"
         "\"s\"},{\"part_kind\":\"user-prompt\",\"content\":\"[\\\"a\\\"]\"}]},{\"kind\":"
         "\"response\",\"parts\":[{\"part_kind\":\"text\",\"content\":\"t\"},"
         "{\"part_kind\":\"tool-call\",\"tool_name\":\"f\",\"args\":\"{\\\"a\\\":1}\","
         "\"tool_call_id\":\"1\"}]},{\"kind\":\"request\",\"parts\":[{\"part_kind\":"
         "\"tool-return\",\"tool_name\":\"f\",\"content\":\"x\",\"tool_call_id\":\"1\","
         "\"timestamp\":\"2024-01-01T00:00:00Z\"}]}]"},
    {GE, "[{\"role\":\"model\",\"parts\":[{\"text\":\"hm\",\"thought\":true},{\"text\":"
         "\"t\"},{\"functionCall\":{\"name\":\"f\",\"args\":{\"a\":[]},\"id\":\"1\"},"
         "\"thoughtSignature\":\"s\"}]},{\"role\":\"user\",\"parts\":[{"
         "\"functionResponse\":{\"name\":\"f\",\"id\":\"1\",\"response\":{\"result\":"
         "{\"error\":\"x\"}}}}]}]"},
    {OA, "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]},"
         "{\"role\":\"assistant\",\"content\":\"b\",\"tool_calls\":[{\"id\":\"1\","
         "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},"
         "{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":[{\"type\":\"text\","
         "\"text\":\"done\"}]},{\"role\":\"developer\",\"content\":\"d\"}]"},
};

static ms_envelopes story_at(size_t i)
{
    bool framework = strcmp(stories[i].dialect, FW) == 0;
    ms_envelopes list = reads(stories[i].dialect, ms_str_of(stories[i].json),
                              framework ? LENIENT : STRICT);
    for (size_t k = 0; k < list.count; k++) {
        ms_envelope *m = &list.items[k];
        if (m->type != MS_T_OTHER) continue;
        if (!ms_str_equal(m->type_name, MS_STR("text"))) continue;
        m->type = MS_T_TEXT;
        m->type_name = ms_str_n(NULL, 0);
    }
    return list;
}

static ms_envelopes across(const ms_envelopes *list, const char *name)
{
    unsigned how = strcmp(name, FW) == 0 ? LENIENT : STRICT;
    return reads(name, written(name, list, true), how);
}

/* What a chat says at one place. */
typedef struct item {
    char side;     /* u, a, s: texts; c: call; r: result */
    bool error;
    ms_str text;   /* said, or the content of a result */
    ms_str tool, id, args;
} item;

static ms_str joined_text(ms_str a, ms_str b, ms_str c, ms_str d)
{
    ms_str all[4] = {a, b, c, d};
    ms_buf buf;
    memset(&buf, 0, sizeof buf);
    buf.arena = &arena;
    for (size_t i = 0; i < 4; i++) ms_buf_write(&buf, all[i].ptr, all[i].len);
    return buf.len > 0 ? ms_buf_text(&buf) : MS_STR("");
}

/* The texts of a list of text blocks, with blank lines between; absent of all else. */
static ms_str texts_of(ms_str json)
{
    ms_str all = MS_STR(""), text, between = MS_STR("");
    ms_json_iter it = ms_json_iterate(json);
    while (ms_json_next(&it)) {
        if (!ms_json_member(it.value, MS_STR("text"), &text) ||
            ms_json_string(text, &arena, &text) != MS_OK)
            return ms_str_n(NULL, 0);
        all = joined_text(all, between, text, MS_STR(""));
        between = MS_STR("\n\n");
    }
    return between.len > 0 ? all : ms_str_n(NULL, 0);
}

static ms_str value_text(ms_value v)
{
    ms_str text = v.text;
    if (v.json && texts_of(v.text).ptr != NULL) return texts_of(v.text);
    if (v.json && ms_json_kind_of(v.text) == MS_JSON_STRING)
        assert_int_equal(ms_json_string(v.text, &arena, &text), MS_OK);
    return text.ptr != NULL ? text : MS_STR("");
}

/* The side that says it, of messages that are no calls and no results. */
static char side_of(const ms_envelope *m)
{
    static const char sides[MS_ROLE_LIMIT] = {[MS_ROLE_USER] = 'u',
                                              [MS_ROLE_ASSISTANT] = 'a',
                                              [MS_ROLE_SYSTEM] = 's',
                                              [MS_ROLE_DEVELOPER] = 's'};
    switch (m->type) {
    case MS_T_USER_MESSAGE:
    case MS_T_TASK:
    case MS_T_SCRIPT_INSTRUCTION:
    case MS_T_SYNTHESIS:
    case MS_T_GLOBAL_OBSERVATION: return 'u';
    case MS_T_TEXT:
    case MS_T_DIRECTOR_CONTEXT:
    case MS_T_INJECTED_CONTEXT: return m->role == MS_ROLE_NONE ? 's' : sides[m->role];
    case MS_T_OTHER: return m->role == MS_ROLE_NONE ? 'u' : sides[m->role];
    default: return m->role == MS_ROLE_USER ? 'u' : 'a';
    }
}

static ms_str said_by(const ms_envelope *m)
{
    ms_str none = MS_STR(""), text = value_text(m->content);
    if (m->type == MS_T_DELEGATION)
        return joined_text(MS_STR("Delegated to "), m->worker, MS_STR(": "), m->task);
    if (m->type == MS_T_GLOBAL_OBSERVATION && m->summary.ptr != NULL) text = m->summary;
    if (m->type == MS_T_GLOBAL_OBSERVATION && m->from_worker.len > 0)
        return joined_text(MS_STR("["), m->from_worker, MS_STR("] "), text);
    if (m->type == MS_T_SYNTHESIS && m->from_manager.len > 0)
        return joined_text(MS_STR("["), m->from_manager, MS_STR("] "), text);
    return joined_text(text, none, none, none);
}

/* Fills out with what the list says; returns how many items. */
static size_t items_of(const ms_envelopes *list, item *out)
{
    size_t n = 0;
    for (size_t i = 0; i < list->count; i++) {
        const ms_envelope *m = &list->items[i];
        item it;
        memset(&it, 0, sizeof it);
        it.tool = m->tool;
        it.id = m->call_id;
        it.text = said_by(m);
        it.side = m->type == MS_T_ACTION        ? 'c'
                  : m->type == MS_T_OBSERVATION ? 'r'
                  : m->type == MS_T_ERROR       ? 'r'
                                                : side_of(m);
        it.error = m->type == MS_T_ERROR;
        it.args = m->args.text;
        if (it.side == 'c' && it.text.len > 0 &&
            !(m->content.json && ms_json_kind_of(m->content.text) == MS_JSON_NULL)) {
            out[n] = it;
            out[n++].side = 'a';
        }
        out[n++] = it;
    }
    return n;
}

/* Texts of one side in a row become one, with blank lines between. */
static size_t merge_texts(item *items, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        item *last = kept > 0 ? &items[kept - 1] : NULL;
        bool text = items[i].side != 'c' && items[i].side != 'r';
        if (text && last != NULL && last->side == items[i].side)
            last->text =
                joined_text(last->text, MS_STR("\n\n"), items[i].text, MS_STR(""));
        else
            items[kept++] = items[i];
    }
    return kept;
}

/* The same text, or texts of the same JSON. */
static bool same_said(ms_str a, ms_str b)
{
    return ms_str_equal(a, b) || equal_json(a, b, NULL);
}

static const char *item_differs(const item *a, const item *b, unsigned kept)
{
    if (a->side != b->side) return "side";
    if (a->side == 'c') {
        if ((kept & CALLS) == 0) return NULL;
        if (!ms_str_equal(a->tool, b->tool)) return "tool";
        if (!ms_str_equal(a->id, b->id)) return "id of a call";
        return same_said(a->args, b->args) ? NULL : "arguments";
    }
    if (a->side == 'r') {
        if ((kept & ERRORS) != 0 && a->error != b->error) return "error";
        if ((kept & RESULTS) == 0) return NULL;
        if (!ms_str_equal(a->id, b->id)) return "id of a result";
        return same_said(a->text, b->text) ? NULL : "content of a result";
    }
    return (kept & TEXTS) == 0 || same_said(a->text, b->text) ? NULL : "text";
}

/* A text of a role is no type of its own everywhere: the framework calls it an injected
 * context with a role, others a user's or assistant's message. */
static ms_type type_of(const ms_envelope *m)
{
    if (m->type != MS_T_TEXT && (m->type != MS_T_INJECTED_CONTEXT || m->role == 0))
        return m->type;
    return m->role == MS_ROLE_USER        ? MS_T_USER_MESSAGE
           : m->role == MS_ROLE_ASSISTANT ? MS_T_ASSISTANT_MESSAGE
                                          : MS_T_TEXT;
}

static bool same_type(const ms_envelope *a, const ms_envelope *b)
{
    if (a->type == MS_T_TEXT && b->type == MS_T_INJECTED_CONTEXT && b->role == 0)
        return side_of(a) == 's'; /* by way of the framework */
    return type_of(a) == type_of(b) &&
           (a->type != MS_T_OTHER || ms_str_equal(a->type_name, b->type_name));
}

static bool same_object(ms_str a, ms_str b)
{
    return a.ptr == NULL || b.ptr == NULL ? a.ptr == b.ptr : equal_json(a, b, NULL);
}

static const char *field_differs(const ms_envelope *a, const ms_envelope *b)
{
#define TEXT(field) if (!ms_str_equal(a->field, b->field)) return #field;
    TEXT(call_id) TEXT(worker) TEXT(task) TEXT(from_manager) TEXT(from_worker)
    TEXT(summary) TEXT(error_type) TEXT(id) TEXT(key) TEXT(phase_id.text)
    if (a->tool.ptr != NULL || a->type == MS_T_ACTION) TEXT(tool) /* else: its call's */
#undef TEXT
    if (a->content.json != b->content.json) return "kind of content";
    if (a->content.json ? !equal_json(a->content.text, b->content.text, NULL)
                        : !ms_str_equal(a->content.text, b->content.text))
        return "content";
    if (!same_object(a->args.text, b->args.text)) return "args";
    if (a->has_time != b->has_time || (a->has_time && a->time_ns != b->time_ns))
        return "time";
    return NULL;
}

static const char *message_differs(const ms_envelope *a, const ms_envelope *b,
                                   unsigned kept)
{
    if (!same_type(a, b)) return "type";
    if ((kept & TURNS) != 0 && !ms_str_equal(a->turn_id, b->turn_id)) return "turn_id";
    if ((kept & EXTRA) != 0 && !same_object(a->extra, b->extra)) return "extra";
    return (kept & FIELDS) != 0 ? field_differs(a, b) : NULL;
}

/* What is not as it was: its name, and the place in *at. */
static const char *list_differs(const ms_envelopes *a, const ms_envelopes *b,
                                unsigned kept, size_t *at)
{
    item one[64], two[64];
    assert_in_range(a->count, 1, 32);
    assert_in_range(b->count, 1, 32);
    const char *why = NULL;
    *at = b->count;
    size_t n = items_of(a, one), m = items_of(b, two);
    if ((kept & MERGED) != 0) n = merge_texts(one, n), m = merge_texts(two, m);
    if (m != n) return "count of what is said";
    if ((kept & TYPES) != 0 && a->count != b->count) return "count of messages";
    for (*at = 0; *at < n && why == NULL; ++*at) {
        why = item_differs(&one[*at], &two[*at], kept);
    }
    if ((kept & TYPES) == 0 || why != NULL) return why;
    for (*at = 0; *at < a->count && why == NULL; ++*at) {
        why = message_differs(&a->items[*at], &b->items[*at], kept);
    }
    return why;
}

static unsigned promised(const char *name)
{
    for (size_t i = 0; i < COUNT(promises); i++) {
        if (strcmp(promises[i].dialect, name) == 0) return promises[i].promises;
    }
    fail_msg("no promises are known of %s", name);
    return 0;
}

/* Is it kept? Says what is not. */
static bool cross(size_t story, const char *a, const char *b)
{
    size_t at;
    unsigned kept = promised(a) & promised(b);
    if (kept == 0) return true;
    ms_envelopes list = story_at(story);
    ms_envelopes one = across(&list, a);
    ms_envelopes two = across(&one, b);
    ms_envelopes back = across(&two, a);
    const char *why = list_differs(&list, &back, kept, &at);
    if (why == NULL) return true;
    print_error("story %lu, %s, %s, %s: %s of message %lu\n", (unsigned long)story, a, b,
                a, why, (unsigned long)at);
    static unsigned told;
    if (told++ >= 4) return false;
    const char *names[3] = {a, b, a};
    const ms_envelopes *lists[3] = {&list, &one, &two};
    for (size_t i = 0; i < 3; i++) {
        ms_str text = written(names[i], lists[i], true);
        print_error("%s: %.*s\n", names[i], (int)text.len, text.ptr);
    }
    return false;
}

/* All ordered pairs of dialects, every story. */
static void formats_keep_what_they_promise(void **state)
{
    (void)state;
    const ms_dialect *a, *b;
    size_t lost = 0;
    for (size_t i = 0; i < COUNT(promises); i++) {
        if (ms_dialect_find(ms_str_of(promises[i].dialect)) == NULL)
            printf("skipped: no dialect %s\n", promises[i].dialect);
    }
    for (size_t i = 0; (a = ms_dialect_at(i)) != NULL; i++) {
        for (size_t k = 0; (b = ms_dialect_at(k)) != NULL; k++) {
            for (size_t story = 0; story < COUNT(stories); story++) {
                lost += !cross(story, a->name, b->name);
                ms_arena_reset(&arena);
            }
        }
    }
    assert_int_equal(lost, 0);
}


/* What stands beside in one format can mean something in another: there it must not. */
static const struct {
    const char *from, *json, *to;
} beside_rows[] = {
#define CALLED_AND(blocks)                                                        \
    "[" AN_CALL("{\"type\":\"tool_use\",\"id\":\"i\",\"name\":\"f\",\"input\":{}}") \
    "," AN_USER(blocks) "]"
    {AN, AN_CALL("{\"type\":\"tool_use\",\"id\":\"i\",\"name\":\"f\",\"input\":{},"
                 "\"function\":{\"name\":\"u\",\"arguments\":\"7\"},\"index\":1}"), OA},
    {AN, AN_CALL("{\"type\":\"tool_use\",\"id\":\"i\",\"name\":\"f\",\"input\":{},"
                 "\"functionCall\":{\"args\":5,\"id\":3},\"args\":1,\"tool_name\":2,"
                 "\"part_kind\":\"text\",\"tool_call_id\":4,\"content\":5}"), GE},
    {AN, AN_CALL("{\"type\":\"tool_use\",\"id\":\"i\",\"name\":\"f\",\"input\":{},"
                 "\"functionCall\":{\"args\":5,\"id\":3},\"args\":1,\"tool_name\":2,"
                 "\"part_kind\":\"text\",\"tool_call_id\":4,\"content\":5}"), PY},
    {AN, CALLED_AND("{\"type\":\"text\",\"text\":\"a\",\"functionCall\":{\"name\":"
                    "\"x\"}},{\"type\":\"tool_result\",\"tool_use_id\":\"i\","
                    "\"content\":\"x\",\"text\":\"no\",\"functionCall\":1}"), GE},
    {AN, CALLED_AND("{\"type\":\"text\",\"text\":\"a\",\"functionResponse\":{\"name\":"
                    "\"x\",\"response\":{}},\"thought\":true},{\"type\":"
                    "\"tool_result\",\"tool_use_id\":\"i\",\"content\":\"x\","
                    "\"functionResponse\":{\"response\":5}}"), GE},
    {AN, AN_USER("{\"type\":\"text\",\"text\":\"a\",\"part_kind\":\"tool-return\","
                 "\"content\":1},{\"type\":\"tool_result\",\"tool_use_id\":\"i\","
                 "\"content\":\"x\",\"part_kind\":\"user-prompt\",\"outcome\":"
                 "\"failed\",\"tool_name\":5}"), PY},
    {GE, GE_CALL("{\"functionCall\":{\"name\":\"f\",\"id\":\"i\",\"args\":{}},\"id\":4,"
                 "\"type\":\"text\",\"function\":{\"arguments\":\"x\"}}"), OA},
    {GE, GE_CALL("{\"functionCall\":{\"name\":\"f\",\"id\":\"i\",\"args\":{}},\"id\":4,"
                 "\"type\":\"text\",\"text2\":0,\"input\":4,\"name\":1}"), AN},
    {GE, GE_USER("{\"functionResponse\":{\"name\":\"f\",\"id\":\"i\",\"response\":{}},"
                 "\"is_error\":true,\"tool_use_id\":7,\"content\":[]}"), AN},
    {GE, GE_USER("{\"functionResponse\":{\"name\":\"f\",\"id\":\"i\",\"response\":{}},"
                 "\"outcome\":\"failed\",\"part_kind\":\"user-prompt\"}"), PY},
    {PY, PY_CALL("{\"part_kind\":\"text\",\"content\":\"a\",\"functionCall\":{\"name\":"
                 "\"x\"},\"thought\":true}"), GE},
    {PY, PY_CALL("{\"part_kind\":\"text\",\"content\":\"a\",\"type\":\"tool_use\","
                 "\"text\":5}"), AN},
};

static void extras_change_no_meaning(void **state)
{
    (void)state;
    size_t at;
    for (size_t i = 0; i < COUNT(beside_rows); i++) {
        ms_envelopes list = reads(beside_rows[i].from, ms_str_of(beside_rows[i].json), 0);
        ms_str text = written(beside_rows[i].to, &list, true);
        ms_envelopes back = reads(beside_rows[i].to, text, STRICT);
        unsigned kept = promised(beside_rows[i].from) & promised(beside_rows[i].to);
        const char *why = list_differs(&list, &back, kept, &at);
        if (why == NULL && repeats(text)) why = "a member is there twice";
        if (why != NULL)
            fail_msg("%s: %s\n%.*s", why, beside_rows[i].json, (int)text.len, text.ptr);
    }
}

/* Null content is no content: no model reads the word "null". */
static void null_content_says_nothing(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "[{\"role\":\"assistant\",\"content\":null,\"refusal\":\"no\"}]",
        "[{\"role\":\"assistant\",\"content\":null,\"function_call\":{}}]",
        "[{\"role\":\"assistant\",\"content\":null}]",
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_envelopes list = reads(OA, ms_str_of(rows[i]), STRICT);
        for (size_t k = 0; k < COUNT(block_formats); k++) {
            ms_str out = written(block_formats[k], &list, true);
            for (size_t at = 0; at + 6 <= out.len; at++)
                if (memcmp(out.ptr + at, "\"null\"", 6) == 0)
                    fail_msg("%s: %.*s", block_formats[k], (int)out.len, out.ptr);
        }
        ms_str text = written(AN, &list, true);
        json_t *all = json_parse_n(text.ptr, text.len);
        json_t *content = json_object_get(json_array_get(all, 0), "content");
        assert_true(json_is_string(content) && json_string_length(content) == 0);
        json_decref(all);
    }
}

/* A conversation of random texts, calls and results with ids of their own. */
static ms_envelopes random_story(uint64_t *rnd)
{
    static const ms_type types[] = {MS_T_USER_MESSAGE, MS_T_ASSISTANT_MESSAGE, MS_T_TASK,
                                    MS_T_FINAL, MS_T_REASONING, MS_T_DIRECTOR_CONTEXT};
    size_t n = 1 + test_below(rnd, 12), calls = 0, results = 0, answered = 0;
    ms_envelopes list = {NULL, n};
    list.items = (ms_envelope *)ms_arena_alloc(&arena, n * sizeof(ms_envelope));
    assert_non_null(list.items);
    for (size_t i = 0; i < n; i++) {
        ms_envelope *m = &list.items[i];
        char *id = (char *)ms_arena_alloc(&arena, 16);
        json_t *value = random_text(rnd);
        if (results == calls) answered = results; /* the turn is over, another may call */
        bool result = results < calls && test_one_in(rnd, 2);
        snprintf(id, 16, "id_%lu", (unsigned long)(result ? results++ : calls));
        *m = ms_user_message(ms_text_n(MS_STR("")));
        (void)ms_json_string(spelled(value, rnd), &arena, &m->content.text);
        m->type = types[test_below(rnd, COUNT(types))];
        json_decref(value);
        value = random_object(rnd);
        ms_str object = spelled(value, rnd);
        json_decref(value);
        if (result) {
            m->type = test_one_in(rnd, 4) ? MS_T_ERROR : MS_T_OBSERVATION;
            if (test_one_in(rnd, 3)) m->content = ms_json(object);
            m->call_id = ms_str_of(id);
        } else if (answered == results && test_one_in(rnd, 2)) {
            *m = ms_action(MS_STR("f"), ms_json(object), ms_str_of(NULL));
            m->call_id = ms_str_of(id);
            calls++;
        } else if (test_one_in(rnd, 4)) {
            m->extra = object;
        }
        if (i > 0 && test_one_in(rnd, 3)) m->flags |= MS_FLAG_JOINED;
    }
    return list;
}

static void random_stories_cross(void **state)
{
    (void)state;
    size_t n = 0, at;
    while (ms_dialect_at(n) != NULL) n++;
    for (size_t i = 0, times = test_times(4000); i < times; i++) {
        uint64_t rnd = test_seed() + 4000000 + i;
        const char *a = ms_dialect_at(test_below(&rnd, n))->name;
        const char *b = ms_dialect_at(test_below(&rnd, n))->name;
        unsigned kept = promised(a) & promised(b) & (CHAT | ERRORS);
        if (kept == 0) continue;
        ms_envelopes list = random_story(&rnd);
        ms_envelopes one = across(&list, a);
        ms_envelopes two = across(&one, b);
        ms_envelopes back = across(&two, a);
        const char *why = list_differs(&list, &back, kept | MERGED, &at);
        if (why != NULL) {
            ms_str text = written(FW, &list, true), there = written(a, &list, true);
            fail_msg("%lu: %s, %s, %s: %s of message %lu\n%.*s\n%.*s",
                     (unsigned long)i, a,
                     b, a, why, (unsigned long)at, (int)text.len, text.ptr,
                     (int)there.len, there.ptr);
        }
        ms_arena_reset(&arena);
    }
}


/* ---- the writer: what belongs together ---- */

/* The framework's messages, and what becomes of them. */
static const struct {
    const char *dialect, *from, *to;
} turn_rows[] = {
#define SAID(text, more)                                                      \
    "{\"type\":\"assistant_message\",\"content\":\"" text "\"" more "}"
#define ASKED(text, more) "{\"type\":\"user_message\",\"content\":\"" text "\"" more "}"
#define CALLED(tool, id, more)                                                         \
    "{\"type\":\"action\",\"tool\":\"" tool "\",\"args\":{},"       \
    "\"tool_call_id\":\"" id "\"" more \
    "}"
#define GOT(text, id, more)                                                            \
    "{\"type\":\"observation\",\"content\":\"" text "\","                        \
    "\"tool_call_id\":\"" id "\"" more "}"
#define JOINED ",\"joined\":true"
    /* one turn is one message, two turns are two */
    {AN, "[" SAID("a", "") "," CALLED("f", "1", JOINED) "," CALLED("g", "2", JOINED) "]",
     "[{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":"
     "\"tool_use\",\"id\":\"1\",\"name\":\"f\",\"input\":{}},{\"type\":\"tool_use\","
     "\"id\":\"2\",\"name\":\"g\",\"input\":{}}]}]"},
    {AN, "[" SAID("a", "") "," SAID("b", "") ","
         ASKED("c", "") "," ASKED("d", JOINED) "]",
     "[{\"role\":\"assistant\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
     "\"b\"},{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"c\"},"
     "{\"type\":\"text\",\"text\":\"d\"}]}]"},
    {GE, "[" SAID("a", "") "," CALLED("f", "1", JOINED) "," SAID("b", "") "]",
     "[{\"role\":\"model\",\"parts\":[{\"text\":\"a\"},{\"functionCall\":{\"name\":"
     "\"f\",\"args\":{},\"id\":\"1\"}}]},{\"role\":\"model\",\"parts\":[{\"text\":"
     "\"b\"}]}]"},
    {PY, "[" SAID("a", "") "," CALLED("f", "1", JOINED) "]",
     "[{\"kind\":\"response\",\"parts\":[{\"part_kind\":\"text\",\"content\":\"a\"},"
     "{\"part_kind\":\"tool-call\",\"tool_name\":\"f\",\"args\":{},\"tool_call_id\":"
     "\"1\"}]}]"},
    /* the first message has nothing to be joined to */
    {AN, "[" SAID("a", JOINED) "]", "[{\"role\":\"assistant\",\"content\":\"a\"}]"},
    /* sides change inside what is joined */
    {AN, "[" SAID("a", "") "," CALLED("f", "1", JOINED) "," GOT("x", "1", JOINED) ","
         ASKED("q", JOINED) "," SAID("b", JOINED) "]",
     "[{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":"
     "\"tool_use\",\"id\":\"1\",\"name\":\"f\",\"input\":{}}]},{\"role\":\"user\","
     "\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"1\",\"content\":\"x\"},"
     "{\"type\":\"text\",\"text\":\"q\"}]},{\"role\":\"assistant\",\"content\":\"b\"}]"},
    {GE, "[" CALLED("f", "1", "") "," GOT("x", "1", JOINED) "," GOT("y", "1", JOINED) "]",
     "[{\"role\":\"model\",\"parts\":[{\"functionCall\":{\"name\":\"f\",\"args\":{},"
     "\"id\":\"1\"}}]},{\"role\":\"user\",\"parts\":[{\"functionResponse\":{\"name\":"
     "\"f\",\"response\":{\"result\":\"x\"},\"id\":\"1\"}},{\"text\":"
     "\"Observation: y\"}]}]"},
    {PY, "[" ASKED("q", "") "," SAID("b", JOINED) "," ASKED("r", JOINED) "]",
     "[{\"kind\":\"request\",\"parts\":[{\"part_kind\":\"user-prompt\",\"content\":"
     "\"q\"}]},{\"kind\":\"response\",\"parts\":[{\"part_kind\":\"text\",\"content\":"
     "\"b\"}]},{\"kind\":\"request\",\"parts\":[{\"part_kind\":\"user-prompt\","
     "\"content\":\"r\"}]}]"},
    /* results that answer nothing are said to be what they are */
    {AN, "[{\"type\":\"observation\",\"content\":\"x\"},{\"type\":\"error\",\"content\":"
         "{\"a\":1}}]",
     "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Observation: x\"}]},"
     "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":"
     "\"Error: {\\\"a\\\":1}\"}]}]"},
    {GE, "[{\"type\":\"error\",\"content\":\"x\"}]",
     "[{\"role\":\"user\",\"parts\":[{\"text\":\"Error: x\"}]}]"},
    {PY, "[{\"type\":\"observation\",\"content\":\"x\"}]",
     "[{\"kind\":\"request\",\"parts\":[{\"part_kind\":\"user-prompt\",\"content\":"
     "\"Observation: x\"}]}]"},
    /* tools are named from the call, errors are marked */
    {GE, "[" CALLED("f", "1", "") ",{\"type\":\"error\",\"content\":\"x\","
         "\"tool_call_id\":\"1\"}]",
     "[{\"role\":\"model\",\"parts\":[{\"functionCall\":{\"name\":\"f\",\"args\":{},"
     "\"id\":\"1\"}}]},{\"role\":\"user\",\"parts\":[{\"functionResponse\":{\"name\":"
     "\"f\",\"response\":{\"error\":\"x\"},\"id\":\"1\"}}]}]"},
    {PY, "[" CALLED("f", "1", "") ",{\"type\":\"error\",\"content\":[1],"
         "\"tool_call_id\":\"1\"}]",
     "[{\"kind\":\"response\",\"parts\":[{\"part_kind\":\"tool-call\",\"tool_name\":"
     "\"f\",\"args\":{},\"tool_call_id\":\"1\"}]},{\"kind\":\"request\",\"parts\":["
     "{\"part_kind\":\"tool-return\",\"tool_name\":\"f\",\"content\":[1],"
     "\"tool_call_id\":\"1\",\"outcome\":\"failed\"}]}]"},
    {AN, "[" CALLED("f", "1", "") ",{\"type\":\"error\",\"content\":{\"a\":\"b\"},"
         "\"tool_call_id\":\"1\"}]",
     "[{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"1\","
     "\"name\":\"f\",\"input\":{}}]},{\"role\":\"user\",\"content\":[{\"type\":"
     "\"tool_result\",\"tool_use_id\":\"1\",\"content\":\"{\\\"a\\\":\\\"b\\\"}\","
     "\"is_error\":true}]}]"},
    /* arguments that are no object */
    {AN, "[{\"type\":\"action\",\"tool\":\"f\",\"args\":\"{oops\","
         "\"tool_call_id\":\"1\"},"
         "{\"type\":\"action\",\"tool\":\"f\",\"args\":\"{\\\"a\\\":1}\","
         "\"tool_call_id\":\"2\"},{\"type\":\"action\",\"tool\":\"f\",\"args\":\"\","
         "\"tool_call_id\":\"3\"}]",
     "[{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"1\","
     "\"name\":\"f\",\"input\":{\"INVALID_JSON\":\"{oops\"}}]},{\"role\":\"assistant\","
     "\"content\":[{\"type\":\"tool_use\",\"id\":\"2\",\"name\":\"f\",\"input\":{\"a\":"
     "1}}]},{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"3\","
     "\"name\":\"f\",\"input\":{}}]}]"},
};

static void turns_become_messages(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(turn_rows); i++) {
        ms_envelopes list = reads(FW, ms_str_of(turn_rows[i].from), STRICT);
        const char *name = turn_rows[i].dialect;
        ms_str expected = ms_str_of(turn_rows[i].to);
        same_json(name, written(name, &list, true), expected);
        same_json(name, written_stored(name, &list, true), expected);
        ms_str lines = written(name, &list, false); /* as many as there are messages */
        json_t *messages = json_parse_n(expected.ptr, expected.len);
        size_t n = 0;
        for (size_t k = 0; k < lines.len; k++) n += lines.ptr[k] == '\n';
        assert_int_equal(n, json_array_size(messages));
        json_decref(messages);
    }
}

/* A history can have left out what a message was joined to. */
static void a_gap_joins_nothing(void **state)
{
    (void)state;
    for (size_t d = 0; d < COUNT(block_formats); d++) {
        ms_envelope m[3];
        ms_envelopes list = {m, 3};
        size_t n = 0;
        for (size_t i = 0; i < 3; i++) {
            m[i] = ms_assistant_message(ms_text("x"));
            m[i].flags = MS_FLAG_JOINED;
            m[i].seq = i < 2 ? 7 + i : 10;
        }
        ms_str lines = written(block_formats[d], &list, false);
        for (size_t k = 0; k < lines.len; k++) n += lines.ptr[k] == '\n';
        assert_int_equal(n, 2);
        m[2].seq = 9;
        lines = written(block_formats[d], &list, false);
        assert_ptr_equal(memchr(lines.ptr, '\n', lines.len), lines.ptr + lines.len - 1);
    }
}

/* After the end more may follow, on a new line, joined to nothing. */
static void a_finished_writer_goes_on(void **state)
{
    (void)state;
    for (size_t d = 0; d < COUNT(block_formats); d++) {
        ms_envelope m = ms_user_message(ms_text("x"));
        ms_error err;
        ms_writer w;
        ms_buf buf;
        start(&w, block_formats[d], false, &buf);
        must(ms_writer_finish(&w, &err), &err);
        assert_int_equal(buf.len, 0);
        for (size_t i = 0; i < 3; i++) {
            must(ms_writer_put(&w, &m, &err), &err);
            must(ms_writer_finish(&w, &err), &err);
            must(ms_writer_finish(&w, &err), &err);
            m.flags = MS_FLAG_JOINED;
        }
        ms_str text = ms_buf_text(&buf);
        assert_int_equal(text.len % 3, 0);
        assert_memory_equal(text.ptr, text.ptr + text.len / 3, text.len / 3);
        assert_int_equal(text.ptr[text.len / 3 - 1], '\n');
    }
}

/* Where a message belongs is written when asked for, instead of members of that name. */
static void places_are_written_when_asked_for(void **state)
{
    (void)state;
    for (size_t d = 0; d < COUNT(block_formats); d++) {
        ms_writer_opts opts = {false, false, true};
        ms_envelope m = ms_user_message(ms_text("x"));
        ms_error err;
        ms_writer w;
        ms_buf buf;
        m.location = MS_STR("job 1");
        m.agent_key = MS_STR("worker");
        m.extra = MS_STR("{\"location\":7,\"x\":1}");
        start(&w, block_formats[d], false, &buf);
        ms_writer_init(&w, dialect(block_formats[d]), &opts, &arena, ms_buf_write, &buf);
        must(ms_writer_put(&w, &m, &err), &err);
        must(ms_writer_finish(&w, &err), &err);
        ms_str text = ms_buf_text(&buf);
        assert_false(repeats(text));
        json_t *got = json_parse_n(text.ptr, text.len);
        assert_non_null(got);
        assert_string_equal(json_string_value(json_object_get(got, "location")), "job 1");
        assert_string_equal(json_string_value(json_object_get(got, "agent_key")),
                            "worker");
        assert_int_equal(json_integer_value(json_object_get(got, "x")), 1);
        json_decref(got);
    }
}


/* ---- the writer: calls and results ---- */

/* Turns of 1 to 5 parallel calls without ids, by agents that take turns in between, then
 * their results in order, some of them left out: the tool's name and the content of its
 * result tell what belongs together. */
typedef struct open_turn {
    char tools[5][16];
    size_t n, answered;
} open_turn;

static ms_envelope agent_says(ms_envelope m, size_t agent)
{
    static const char *const agents[] = {"boss", "worker_a", "worker_b"};
    m.agent_key = ms_str_of(agents[agent]);
    m.turn_id = MS_STR("turn");
    return m;
}

static void put_calls(ms_writer *w, open_turn *turn, size_t agent, uint64_t *rnd,
                      size_t *number)
{
    ms_error err;
    turn->n = 1 + test_below(rnd, 5);
    turn->answered = 0;
    for (size_t i = 0; i < turn->n; i++) {
        snprintf(turn->tools[i], sizeof turn->tools[i], "tool_%lu",
                 (unsigned long)++*number);
        ms_envelope m = ms_action(ms_str_of(turn->tools[i]), ms_json(MS_STR("{}")),
                                  ms_str_of(NULL));
        m = agent_says(m, agent);
        if (i > 0) m.flags |= MS_FLAG_JOINED;
        must(ms_writer_put(w, &m, &err), &err);
    }
}

static void put_result(ms_writer *w, open_turn *turn, size_t agent, uint64_t *rnd)
{
    ms_error err;
    ms_envelope m = ms_observation(ms_text(turn->tools[turn->answered++]),
                                   ms_str_of(NULL));
    m = agent_says(m, agent);
    if (test_one_in(rnd, 3)) m.tool = m.content.text;
    must(ms_writer_put(w, &m, &err), &err);
    if (test_one_in(rnd, 6)) turn->answered = turn->n; /* the rest is never answered */
}

/* The id of the call and the tool that a result names itself: in the shape of the format,
 * absent otherwise. */
static const char *inside(json_t *block, const char *name)
{
    return json_string_value(json_object_get(block, name));
}

typedef struct pairing {
    const char *ids[4096], *tools[4096];
    size_t n, results;
} pairing;

static void note_call(pairing *p, const char *id, const char *tool)
{
    assert_non_null(id);
    for (size_t i = 0; i < p->n; i++) assert_string_not_equal(p->ids[i], id);
    assert_in_range(p->n, 0, COUNT(p->ids) - 1);
    p->ids[p->n] = id;
    p->tools[p->n++] = tool;
}

static void note_result(pairing *p, const char *id, const char *content)
{
    size_t i = 0;
    assert_non_null(id);
    while (i < p->n && strcmp(p->ids[i], id) != 0) i++;
    assert_in_range(i, 0, p->n - 1);
    assert_string_equal(p->tools[i], content);
    p->results++;
}

static void note_block(pairing *p, json_t *block)
{
    if (inside(block, "id") != NULL)
        note_call(p, inside(block, "id"), inside(block, "name"));
    else if (inside(block, "tool_use_id") != NULL)
        note_result(p, inside(block, "tool_use_id"), inside(block, "content"));
    else if (json_object_get(block, "args") != NULL)
        note_call(p, inside(block, "tool_call_id"), inside(block, "tool_name"));
    else if (inside(block, "tool_name") != NULL)
        note_result(p, inside(block, "tool_call_id"), inside(block, "content"));
    else
        fail_msg("neither call nor result");
}

static void note_gemini(pairing *p, json_t *part)
{
    json_t *answer = json_object_get(part, "functionResponse");
    if (answer == NULL) return;
    assert_string_equal(inside(answer, "name"),
                        inside(json_object_get(answer, "response"), "result"));
    p->results++;
}

static size_t check_pairs(const char *name, ms_str text)
{
    static pairing p;
    json_t *messages = json_parse_n(text.ptr, text.len), *message, *block;
    size_t i, k;
    p.n = p.results = 0;
    assert_non_null(messages);
    json_array_foreach (messages, i, message) {
        json_t *list = json_object_get(message, "content");
        if (list == NULL) list = json_object_get(message, "parts");
        assert_true(json_array_size(list) > 0);
        json_array_foreach (list, k, block) {
            if (strcmp(name, GE) == 0) note_gemini(&p, block);
            else note_block(&p, block);
        }
    }
    size_t results = p.results;
    json_decref(messages);
    return results;
}

static void results_find_their_calls(void **state)
{
    (void)state;
    for (size_t i = 0, n = test_times(300); i < n; i++) {
        uint64_t rnd = test_seed() + 3000000 + i;
        const char *name = block_formats[i % COUNT(block_formats)];
        open_turn turns[3];
        size_t number = 0, results = 0;
        ms_error err;
        ms_writer w;
        ms_buf buf;
        memset(turns, 0, sizeof turns);
        start(&w, name, true, &buf);
        for (size_t step = 0; step < 60; step++) {
            size_t agent = test_below(&rnd, 3);
            open_turn *turn = &turns[agent];
            if (turn->answered == turn->n) put_calls(&w, turn, agent, &rnd, &number);
            else put_result(&w, turn, agent, &rnd), results++;
        }
        must(ms_writer_finish(&w, &err), &err);
        assert_int_equal(check_pairs(name, ms_buf_text(&buf)), results);
        ms_arena_reset(&arena);
    }
}

/* The name of the tool tells which of several open calls is meant. */
static void results_are_paired_by_tool(void **state)
{
    (void)state;
    ms_str json = MS_STR(
        "[{\"role\":\"model\",\"parts\":[{\"functionCall\":{\"name\":\"f\"}},"
        "{\"functionCall\":{\"name\":\"g\"}}]},{\"role\":\"user\",\"parts\":["
        "{\"functionResponse\":{\"name\":\"g\",\"response\":{\"result\":\"g\"}}},"
        "{\"functionResponse\":{\"name\":\"f\",\"response\":{\"result\":\"f\"}}}]}]");
    ms_envelopes list = reads(GE, json, STRICT);
    assert_int_equal(check_pairs(AN, written(AN, &list, true)), 2);
}

/* The one exception to equality: pydantic-ai makes up an id where there is none, anew at
 * each load, so a call is given one, and its return too. */
static void pydantic_calls_are_given_ids(void **state)
{
    (void)state;
    ms_str json = MS_STR(
        "[{\"kind\":\"response\",\"parts\":[{\"part_kind\":\"tool-call\",\"tool_name\":"
        "\"f\",\"args\":{}},{\"part_kind\":\"tool-call\",\"tool_name\":\"g\",\"args\":"
        "null}]},{\"kind\":\"request\",\"parts\":[{\"part_kind\":\"tool-return\","
        "\"tool_name\":\"g\",\"content\":\"g\"},{\"part_kind\":\"tool-return\","
        "\"tool_name\":\"f\",\"content\":\"f\"}]}]");
    ms_envelopes list = reads(PY, json, STRICT);
    assert_int_equal(check_pairs(PY, written(PY, &list, true)), 2);
    comes_back(PY, MS_STR("{\"kind\":\"request\",\"parts\":[{\"part_kind\":"
                          "\"tool-return\",\"tool_name\":\"f\","
                          "\"content\":1}]}"), STRICT);
}


/* ---- the writer: memory ---- */

static const char busy_turns[] =
    "[" ASKED("look at all of it, please, and take your time", "") ","
    "{\"type\":\"assistant_message\",\"content\":\"I look\"},{\"type\":\"action\","
    "\"tool\":\"f\",\"args\":{\"a\":[1,2]},\"joined\":true},{\"type\":\"action\","
    "\"tool\":\"g\",\"args\":{},\"joined\":true},{\"type\":\"observation\",\"content\":"
    "{\"rows\":[]}},{\"type\":\"error\",\"content\":\"no\"},{\"type\":\"delegation\","
    "\"worker\":\"w\",\"task\":\"dig\"},{\"type\":\"synthesis\",\"content\":\"s\","
    "\"from_manager\":\"m\"},{\"type\":\"action\",\"tool\":\"h\",\"args\":{}},"
    "{\"type\":\"observation\",\"content\":\"late\",\"extra\":{\"a\":\"b\"}}]";

/* Where text goes that is only counted, up to a limit. */
typedef struct sink {
    size_t bytes, limit;
} sink;

static ms_result sink_write(void *ctx, const char *bytes, size_t len)
{
    sink *out = (sink *)ctx;
    (void)bytes;
    if (out->limit != 0 && out->bytes + len > out->limit) return MS_E_IO;
    out->bytes += len;
    return MS_OK;
}

/* Writes until the first trouble. */
static ms_result write_until(const char *name, const ms_envelopes *list, ms_arena *own,
                             sink *out, ms_error *err)
{
    ms_writer w;
    ms_result code = MS_OK;
    memset(err, 0, sizeof *err);
    ms_writer_init(&w, dialect(name), NULL, own, sink_write, out);
    for (size_t i = 0; i < list->count && code == MS_OK; i++)
        code = ms_writer_put(&w, &list->items[i], err);
    ms_error ignored;
    ms_result end = ms_writer_finish(&w, code == MS_OK ? err : &ignored);
    return code == MS_OK ? end : code;
}

static void small_arenas_are_errors(void **state)
{
    (void)state;
    ms_envelopes list = reads(FW, ms_str_of(busy_turns), STRICT);
    const ms_dialect *d;
    for (size_t i = 0; (d = ms_dialect_at(i)) != NULL; i++) {
        static uint64_t buffer[8192];
        bool enough = false;
        for (size_t size = 0; !enough; size += 24) {
            ms_arena own;
            ms_error err;
            sink out = {0, 0};
            assert_in_range(size, 0, sizeof buffer);
            test_arena_init_fixed(&own, buffer, size);
            ms_result code = write_until(d->name, &list, &own, &out, &err);
            enough = code == MS_OK;
            if (!enough) assert_int_equal(code, MS_E_ARENA);
            if (!enough) assert_int_equal(err.code, MS_E_ARENA);
        }
    }
}

static void failing_allocations_are_errors(void **state)
{
    (void)state;
    ms_envelopes list = reads(FW, ms_str_of(busy_turns), STRICT);
    const ms_dialect *d;
    for (size_t i = 0; (d = ms_dialect_at(i)) != NULL; i++) {
        for (size_t k = 1;; k++) {
            test_alloc heap;
            ms_arena own;
            ms_error err;
            sink out = {0, 0};
            test_alloc_init(&heap);
            heap.fail_at = k;
            test_arena_init(&own, &heap.alloc);
            ms_result code = write_until(d->name, &list, &own, &out, &err);
            ms_arena_deinit(&own);
            test_alloc_done(&heap);
            assert_int_equal(code, heap.failed ? MS_E_NO_MEMORY : MS_OK);
            if (!heap.failed) break;
        }
    }
}

/* The same for readers: all or nothing. */
static void readers_in_small_arenas(void **state)
{
    (void)state;
    static uint64_t buffer[8192];
    for (size_t i = 0; i < COUNT(lossless_rows); i++) {
        ms_result code = MS_E_ARENA;
        for (size_t size = 0; code != MS_OK; size += 40) {
            ms_arena own;
            ms_envelopes list;
            ms_error err;
            assert_in_range(size, 0, sizeof buffer);
            test_arena_init_fixed(&own, buffer, size);
            code = read_in(lossless_rows[i].dialect, ms_str_of(lossless_rows[i].json),
                           STRICT, &own, &list, &err);
            if (code != MS_OK) assert_int_equal(code, MS_E_ARENA);
        }
    }
}

/* What the write function says comes back, now and for ever. */
static void a_full_disk_is_an_error(void **state)
{
    (void)state;
    ms_envelopes list = reads(FW, ms_str_of(busy_turns), STRICT);
    for (size_t d = 0; d < COUNT(block_formats); d++) {
        sink all = {0, 0};
        ms_error err;
        must(write_until(block_formats[d], &list, &arena, &all, &err), &err);
        for (size_t limit = 1; limit < all.bytes; limit += 7) {
            sink out = {0, limit};
            assert_int_equal(write_until(block_formats[d], &list, &arena, &out, &err),
                             MS_E_IO);
            assert_true(out.bytes <= limit);
            ms_writer w;
            ms_result code = MS_OK;
            out.bytes = 0;
            ms_writer_init(&w, dialect(block_formats[d]), NULL, &arena, sink_write, &out);
            for (size_t i = 0; i < 100 && code == MS_OK; i++)
                code = ms_writer_put(&w, &list.items[i % list.count], NULL);
            assert_int_equal(code, MS_E_IO);
            assert_int_equal(ms_writer_put(&w, &list.items[0], NULL), MS_E_IO);
            assert_int_equal(ms_writer_finish(&w, NULL), MS_E_IO);
        }
    }
}

/* Ten thousand messages through an arena of 64 KiB, with calls that nobody answers. */
static void a_writer_does_not_grow(void **state)
{
    (void)state;
    static uint64_t buffer[8192];
    ms_envelopes list = reads(FW, ms_str_of(busy_turns), STRICT);
    const ms_dialect *d;
    for (size_t i = 0; (d = ms_dialect_at(i)) != NULL; i++) {
        ms_arena own;
        ms_error err;
        ms_writer w;
        sink out = {0, 0};
        test_arena_init_fixed(&own, buffer, sizeof buffer);
        ms_writer_init(&w, d, NULL, &own, sink_write, &out);
        for (size_t k = 0; k < 10000; k++) {
            ms_envelope m = list.items[k % list.count];
            m.seq = k + 1;
            if (k % 7 == 0) m.turn_id = MS_STR("another");
            if (ms_writer_put(&w, &m, &err) != MS_OK)
                fail_msg("%s, message %lu: %s", d->name, (unsigned long)k,
                         err.message);
        }
        must(ms_writer_finish(&w, &err), &err);
        assert_true(out.bytes > 500000);
    }
}

/* How many messages a list of blocks becomes, and of which types. That the JSON comes back
 * does not show it: a list that is kept whole comes back as well. */
static void list_of_blocks_becomes_messages_when_it_has_own_kinds(void **state)
{
    static const struct {
        const char *content, *types;
    } cases[] = {
        {"\"hi\"", "user_message"},
        {"[{'type':'text','text':'a'},{'type':'text','text':'b'}]",
         "user_message user_message"},
        {"[{'type':'tool_result','tool_use_id':'c','content':'r'}]", "observation"},
        {"[{'type':'tool_result','tool_use_id':'c','content':'r'},"
         "{'type':'text','text':'a'}]", "observation user_message"},
        {"[{'type':'image','source':{}},{'type':'tool_result','tool_use_id':'c'}]",
         "multimodal_part observation"},
        {"[{'type':'text','text':'a'},{'type':'image','source':{}}]", "user_message"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[512], got[128] = "";
        snprintf(json, sizeof json, "{\"role\":\"user\",\"content\":%s}", cases[i].content);
        for (char *c = json; *c != '\0'; c++)
            if (*c == '\'') *c = '"';
        ms_envelopes list = reads(AN, ms_str_of(json), 0);
        for (size_t m = 0; m < list.count; m++) {
            strcat(got, m > 0 ? " " : "");
            strcat(got, ms_type_word(list.items[m].type));
        }
        assert_string_equal(got, cases[i].types);
        if (i > 1) continue; /* texts alone are text, which loading a session shortens */
        assert_false(list.items[0].content.json);
        assert_true(ms_str_equal(list.items[0].content.text, ms_str_of(i ? "a" : "hi")));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(function) \
    cmocka_unit_test_setup_teardown(function, open_arena, close_arena)
        TEST(tables_come_back),
        TEST(list_of_blocks_becomes_messages_when_it_has_own_kinds),
        TEST(tables_come_back_as_lists),
        TEST(blocks_of_the_other_side),
        TEST(random_messages_come_back),
        TEST(random_lists_come_back),
        TEST(bent_messages_are_refused_or_come_back),
        TEST(cut_messages_are_refused),
        TEST(transcripts_come_back),
        TEST(bodies_are_lists),
        TEST(bad_bodies_are_refused),
        TEST(bad_messages_are_refused),
        TEST(bad_text_is_repaired),
        TEST(deep_messages),
        TEST(formats_keep_what_they_promise),
        TEST(extras_change_no_meaning),
        TEST(null_content_says_nothing),
        TEST(random_stories_cross),
        TEST(turns_become_messages),
        TEST(a_gap_joins_nothing),
        TEST(a_finished_writer_goes_on),
        TEST(places_are_written_when_asked_for),
        TEST(results_find_their_calls),
        TEST(results_are_paired_by_tool),
        TEST(pydantic_calls_are_given_ids),
        TEST(small_arenas_are_errors),
        TEST(failing_allocations_are_errors),
        TEST(readers_in_small_arenas),
        TEST(a_full_disk_is_an_error),
        TEST(a_writer_does_not_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
