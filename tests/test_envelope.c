/* The message envelope format: what a row or an envelope is normalised to, what is
 * refused and where, what comes back from other formats, the rows of a provider. Expected
 * JSON is written by hand, or made by jansson from the rules of the format. */

#define _POSIX_C_SOURCE 200809L

#include "dialects.h"
#include "json_equal.h"

#include <time.h>


#define ENV "envelope"
#define ROWS "envelope-rows"
#define FW "framework"
#define OA "openai"

/* A canonical envelope from its parts. */
#define CANONICAL(type, role, content, payload, metadata)                             \
    "{\"schema\":\"agents-api.message\",\"version\":1,\"type\":\"" type               \
    "\",\"role\":\"" role "\",\"content\":" content ",\"payload\":" payload           \
    ",\"metadata\":" metadata "}"
/* The same with members behind. */
#define CANONICAL_AND(type, role, content, payload, metadata, more)                   \
    "{\"schema\":\"agents-api.message\",\"version\":1,\"type\":\"" type               \
    "\",\"role\":\"" role "\",\"content\":" content ",\"payload\":" payload           \
    ",\"metadata\":" metadata "," more "}"


/* ---- helpers ---- */

static ms_result read_with(const char *name, ms_str json, unsigned how, ms_arena *a,
                           ms_envelopes *out, ms_error *err)
{
    ms_read_opts opts = {(how & LENIENT) != 0, (how & REPAIR) != 0};
    memset(out, 0xA5, sizeof *out);
    memset(err, 0xA5, sizeof *err);
    return json.len > 0 && json.ptr[0] == '['
               ? ms_read_list(dialect(name), json, &opts, a, out, err)
               : ms_read(dialect(name), json, &opts, a, out, err);
}

static ms_envelopes reads(const char *name, ms_str json, unsigned how)
{
    ms_envelopes list;
    ms_error err;
    if (read_with(name, json, how, &arena, &list, &err) != MS_OK)
        fail_msg("%s: %.*s\n%s: %s", name, (int)json.len, json.ptr, err.path,
                 err.message);
    return list;
}

/* One array; with location and agent key. Half of the time as encoded messages. */
static ms_str written(const char *name, const ms_envelopes *list)
{
    static unsigned turns;
    ms_writer_opts opts;
    ms_result result = MS_OK;
    ms_writer w;
    ms_buf buf;
    ms_error err;
    memset(&buf, 0, sizeof buf);
    memset(&opts, 0, sizeof opts);
    buf.arena = &arena;
    opts.array = opts.with_location = true;
    ms_writer_init(&w, dialect(name), &opts, &arena, ms_buf_write, &buf);
    for (size_t i = 0; i < list->count && result == MS_OK; i++) {
        const ms_msg *msg = NULL;
        if (turns++ % 2 == 0) result = ms_encode(&list->items[i], &arena, &msg, &err);
        else result = ms_writer_put(&w, &list->items[i], &err);
        if (msg != NULL) result = test_writer_put_msg(&w, msg, &err);
    }
    if (result == MS_OK) result = ms_writer_finish(&w, &err);
    if (result != MS_OK) fail_msg("%s: %s: %s", name, err.path, err.message);
    ms_str text = ms_buf_text(&buf);
    text.len--; /* without the end of the line */
    return text;
}

static json_t *parsed(ms_str json)
{
    json_t *value = json_parse_n(json.ptr, json.len);
    if (value == NULL) fail_msg("no JSON: %.*s", (int)json.len, json.ptr);
    return value;
}

/* Does a member stand twice in an object? */
static bool repeats(ms_str json)
{
    size_t flags = JSON_ALLOW_NUL | JSON_DECODE_ANY | JSON_REJECT_DUPLICATES;
    json_t *value = json_loadb(json.ptr, json.len, flags, NULL);
    json_decref(value);
    return value == NULL;
}

static void same_value(json_t *a, json_t *b, ms_str source)
{
    json_where where = {{0}, 0};
    if (json_same(a, b, JSON_ARGUMENTS, &where)) return;
    char *x = json_dumps(a, JSON_ENCODE_ANY), *y = json_dumps(b, JSON_ENCODE_ANY);
    print_error("of %.*s\n", (int)source.len, source.ptr);
    fail_msg("differ at \"%s\"\n   got %s\nexpect %s", where.path, x, y);
}

static void same_json(ms_str got, ms_str expected)
{
    json_t *a = parsed(got), *b = parsed(expected);
    same_value(a, b, expected);
    if (repeats(got) && !repeats(expected))
        fail_msg("twice: %.*s", (int)got.len, got.ptr);
    json_decref(a);
    json_decref(b);
}

static void same_text(ms_str got, ms_str expected)
{
    if (!ms_str_equal(got, expected))
        fail_msg("   got %.*s\nexpect %.*s", (int)got.len, got.ptr, (int)expected.len,
                 expected.ptr);
}

/* A text in the arena, put together. */
static ms_str joined(const char *a, ms_str b, const char *c)
{
    size_t x = strlen(a), y = strlen(c);
    char *text = (char *)ms_arena_alloc(&arena, x + b.len + y);
    memcpy(text, a, x);
    if (b.len > 0) memcpy(text + x, b.ptr, b.len);
    memcpy(text + x + b.len, c, y);
    return ms_str_n(text, x + b.len + y);
}

static ms_str as_list(const char *json)
{
    return joined("[", ms_str_of(json), "]");
}

static ms_str dumped(json_t *value)
{
    size_t len = json_dumpb(value, NULL, 0, JSON_ENCODE_ANY | JSON_COMPACT);
    char *text = (char *)ms_arena_alloc(&arena, len);
    json_dumpb(value, text, len, JSON_ENCODE_ANY | JSON_COMPACT);
    return ms_str_n(text, len);
}

/* Reads `json` (a list) in one dialect, writes it in another. */
static ms_str crossed(const char *from, ms_str json, unsigned how, const char *to)
{
    ms_envelopes list = reads(from, json, how);
    return written(to, &list);
}

/* What is written is canonical: read strictly, it is written the same. */
static void is_stable(ms_str canonical)
{
    same_text(crossed(ENV, canonical, STRICT, ENV), canonical);
}


/* ---- normalising ---- */

static const struct {
    const char *name, *json, *canonical;
} rows[] = {
    {"the drafts' data becomes payload",
     "{\"version\":1,\"type\":\"delta\",\"content\":\"p\",\"data\":{\"i\":0}}",
     CANONICAL("delta", "assistant", "\"p\"", "{\"i\":0}", "{}")},
    {"an empty payload gives way to data, a list in data does not count",
     "{\"version\":1,\"type\":\"delta\",\"payload\":{},\"data\":[1]}",
     CANONICAL("delta", "assistant", "\"\"", "{}", "{}")},
    {"data null is enough to be an envelope",
     "{\"version\":1,\"type\":\"error\",\"data\":null}",
     CANONICAL("error", "assistant", "\"\"", "{}", "{}")},
    {"a schema of another name is rewritten",
     "{\"schema\":\"x\",\"version\":\"1\",\"type\":\"text\",\"role\":\"user\"}",
     CANONICAL("text", "user", "\"\"", "{}", "{}")},
    {"a row's type, version and payload say nothing",
     "{\"type\":\"tool_call\",\"payload\":{\"a\":1},\"role\":\"user\",\"content\":\"c\"}",
     CANONICAL("text", "user", "\"c\"", "{}", "{}")},
    {"a row's result: six members are promoted, null too",
     "{\"content\":\"r\",\"metadata\":{\"type\":\"tool_result\",\"tool_name\":\"t\","
     "\"success\":null,\"turn\":2,\"tool_data\":{},\"media\":[],\"error\":\"e\","
     "\"parameters\":{}}}",
     CANONICAL("tool_result", "tool", "\"r\"",
               "{\"tool_name\":\"t\",\"success\":null,\"turn\":2,\"tool_data\":{},"
               "\"media\":[],\"error\":\"e\"}",
               "{\"type\":\"tool_result\",\"tool_name\":\"t\",\"success\":null,"
               "\"turn\":2,\"tool_data\":{},\"media\":[],\"error\":\"e\","
               "\"parameters\":{}}")},
    {"metadata.type multimodal", "{\"metadata\":{\"type\":\"multimodal\"}}",
     CANONICAL("multimodal_part", "assistant", "\"\"", "{}",
               "{\"type\":\"multimodal\"}")},
    {"content that is an object", "{\"content\":{\"a\":[]},\"metadata\":{\"error\":1}}",
     CANONICAL("multimodal_part", "assistant", "{\"a\":[]}", "{}", "{\"error\":1}")},
    {"metadata.error false counts", "{\"metadata\":{\"error\":false}}",
     CANONICAL("error", "assistant", "\"\"", "{}", "{\"error\":false}")},
    {"metadata.error null does not", "{\"metadata\":{\"error\":null}}",
     CANONICAL("text", "assistant", "\"\"", "{}", "{\"error\":null}")},
    {"role null is none", "{\"role\":null,\"content\":null}",
     CANONICAL("text", "assistant", "\"\"", "{}", "{}")},
    {"the last of equal names counts",
     "{\"role\":\"user\",\"content\":5,\"content\":\"b\",\"role\":\"critic\"}",
     CANONICAL("text", "critic", "\"b\"", "{}", "{}")},
    {"escapes in names and words",
     "{\"r\\u006fle\":\"us\\u0065r\",\"content\":\"\\ud83d\\ude00\"}",
     CANONICAL("text", "user", "\"\\ud83d\\ude00\"", "{}", "{}")},
    {"ids and times that are no text are dropped",
     "{\"id\":5,\"created_at\":\"\",\"updated_at\":null,\"content\":\"x\"}",
     CANONICAL("text", "assistant", "\"x\"", "{}", "{}")},
    {"lists for payload and metadata are dropped",
     "{\"schema\":\"\",\"version\":1,\"type\":\"delta\",\"payload\":[1],"
     "\"metadata\":[2]}", CANONICAL("delta", "assistant", "\"\"", "{}", "{}")},
};

static void rows_become_canonical(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_str got = crossed(ENV, as_list(rows[i].json), STRICT, ENV);
        same_json(got, as_list(rows[i].canonical));
        is_stable(got);
        same_json(crossed(ROWS, as_list(rows[i].json), STRICT, ENV), got);
    }
}

/* Canonical: these come back equal. */
static const char *const canonical[] = {
    CANONICAL("text", "user", "\"hi\"", "{}", "{}"),
    CANONICAL("text", "assistant", "\"\"", "{}", "{}"),
    CANONICAL("text", "system", "\"be kind\"", "{\"a\":{}}", "{\"b\":[]}"),
    CANONICAL("text", "critic", "[]", "{}", "{\"type\":\"x\"}"),
    CANONICAL("tool_call", "assistant", "\"\"", "{}", "{}"),
    CANONICAL("tool_call", "assistant", "\"c\"", "{\"tool_name\":\"\"}", "{}"),
    CANONICAL("tool_call", "assistant", "\"c\"", "{\"parameters\":{}}", "{}"),
    CANONICAL("tool_call", "user", "[1]", "{\"parameters\":[],\"tool_name\":null}", "{}"),
    CANONICAL("tool_call", "tool", "{}",
              "{\"parameters\":\"{broken\",\"tool_name\":\"t\",\"turn\":1}", "{}"),
    CANONICAL("tool_call", "x", "\"c\"", "{\"parameters\":null,\"tool_name\":7}",
              "{\"tool_call_id\":\"\"}"),
    CANONICAL("tool_call", "assistant", "\"c\"",
              "{\"tool_name\":\"t\",\"parameters\":{\"a\":1.0}}",
              "{\"tool_call_id\":\"c1\",\"x\":null}"),
    CANONICAL("tool_result", "tool", "\"r\"", "{\"tool_name\":null,\"parameters\":{}}",
              "{\"tool_call_id\":{}}"),
    CANONICAL("tool_result", "user", "\"r\"", "{\"tool_name\":\"\",\"turn\":1e2}",
              "{\"tool_call_id\":\"c1\"}"),
    CANONICAL("error", "assistant", "\"boom\"", "{\"tool_name\":\"t\",\"parameters\":{}}",
              "{\"error\":\"E\",\"tool_call_id\":\"c\"}"),
    CANONICAL("final_result", "assistant", "\"done\"", "{\"status\":\"complete\"}",
              "{\"tool_call_id\":\"kept here\"}"),
    CANONICAL("input_required", "tool", "\"?\"", "{\"a\":{\"b\":[[],{}]}}", "{}"),
    CANONICAL("approval_required", "tool", "\"?\"", "{\"tool_name\":\"t\"}", "{}"),
    CANONICAL("delta", "assistant", "\"p\"", "{\"index\":0}", "{}"),
    CANONICAL("multimodal_part", "user", "[{\"type\":\"image\"}]", "{}", "{}"),
    CANONICAL("multimodal_part", "assistant", "\"\"", "{\"parts\":[{\"a\":1}]}", "{}"),
    CANONICAL_AND("text", "user", "\"hi\"", "{}", "{}",
                  "\"id\":\"m1\",\"created_at\":\"2026-04-28 12:00:00\","
                  "\"updated_at\":\"later\",\"mid\":null,\"own\":{}"),
    CANONICAL_AND("text", "user", "\"hi\"", "{}", "{}",
                  "\"created_at\":\"2026-04-28T12:00:00.25Z\",\"tool\":5,\"task\":\"t\""),
    CANONICAL_AND("text", "user", "\"hi\"", "{}", "{}", "\"created_at\":\"n\\u006fw\""),
    CANONICAL_AND("text", "user", "\"hi\"", "{}", "{}",
                  "\"created_at\":\"0099-04-28 12:00:00+01:00\",\"extra\":{\"a\":1}"),
    CANONICAL_AND("text", "user", "\"hi\"", "{}", "{}", "\"extra\":{\"payload\":1}"),
    CANONICAL_AND("text", "user", "\"hi\"", "{}", "{\"a\":1}",
                  "\"extra\":{\"metadata\":{}}"),
    CANONICAL_AND("text", "user", "\"hi\"", "{}", "{}",
                  "\"extra\":{\"extra\":{\"role\":1}}"),
    CANONICAL_AND("text", "user", "\"hi\"", "{}", "{}",
                  "\"extra\":{\"extra\":5,\"role\":1}"),
    CANONICAL_AND("text", "user", "\"hi\"", "{}", "{}",
                  "\"extra\":{\"role\":1,\"b\":2},\"msgstore\":{\"type\":\"task\"}"),
    CANONICAL_AND("text", "user", "\"hi\"", "{}", "{}", "\"extra\":[]"),
};

static void canonical_envelopes_come_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(canonical); i++) {
        ms_str json = as_list(canonical[i]);
        ms_str got = crossed(ENV, json, STRICT, ENV);
        same_json(got, json);
        is_stable(got);
        same_json(crossed(ENV, json, LENIENT, ENV), json);
    }
}

static void numbers_keep_their_spelling(void **state)
{
    (void)state;
    ms_str got = crossed(ENV, as_list(CANONICAL("tool_call", "assistant", "[1.50]",
                                                "{\"tool_name\":\"t\",\"parameters\":"
                                                "{\"a\":1e+2},\"turn\":0.10}",
                                                "{\"z\":-0.0}")), STRICT, ENV);
    const char *tokens[] = {"[1.50]", ":1e+2}", ":0.10}", ":-0.0}"};
    ms_str text = joined("", got, "");
    for (size_t i = 0; i < COUNT(tokens); i++) {
        bool found = false;
        for (size_t k = 0; k < text.len; k++)
            found = found || test_str_starts_with(ms_str_n(text.ptr + k, text.len - k),
                                                ms_str_of(tokens[i]));
        if (!found) fail_msg("no %s in %.*s", tokens[i], (int)text.len, text.ptr);
    }
}

/* The fields that others find. */
static void fields_are_filled(void **state)
{
    (void)state;
    ms_envelopes list = reads(ENV, as_list(CANONICAL_AND(
        "tool_call", "assistant", "\"\"",
        "{\"turn\":1,\"parameters\":{\"q\":1},\"tool_name\":\"search\"}",
        "{\"tool_call_id\":\"c1\",\"k\":2}", "\"id\":\"m\",\"created_at\":"
        "\"1970-01-01T00:00:07Z\",\"own\":3")), STRICT);
    const ms_envelope *m = &list.items[0];
    assert_int_equal(list.count, 1);
    assert_int_equal(m->type, MS_T_ACTION);
    assert_int_equal(m->role, MS_ROLE_NONE);
    assert_null(m->content.text.ptr);
    same_text(m->tool, MS_STR("search"));
    same_text(m->args.text, MS_STR("{\"q\":1}"));
    assert_true(m->args.json);
    same_text(m->call_id, MS_STR("c1"));
    same_text(m->id, MS_STR("m"));
    assert_true(m->has_time && m->time_ns == SECONDS(7));
    ms_str own;
    assert_true(ms_member(m, MS_STR("own"), &own));
    same_text(own, MS_STR("3"));
}

/* Every input of the vectors, as far as it is read. */
static void vectors_are_stable(void **state)
{
    char path[512], *text, *line, *save = NULL;
    size_t seen = 0;
    (void)state;
    if (!shared_path(path, sizeof path, "conformance/envelope.jsonl")) skip();
    text = read_file(path, NULL);
    assert_non_null(text);
    for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        json_t *vector = parsed(ms_str_of(line));
        json_t *input = json_object_get(vector, "input");
        json_t *expect = json_object_get(vector, "expect");
        if (!json_is_array(input)) input = json_pack("[O]", input);
        else json_incref(input);
        if (json_object_get(expect, "error") == NULL) {
            ms_str got = crossed(ENV, dumped(input), STRICT, ENV);
            is_stable(got);
            same_json(crossed(ENV, dumped(input), STRICT | REPAIR, ROWS),
                      crossed(ENV, got, STRICT, ROWS));
            seen++;
        }
        json_decref(input);
        json_decref(vector);
    }
    free(text);
    assert_true(seen > 30);
}


/* ---- what is refused ---- */

#define TYPED(members) "{\"schema\":\"s\",\"version\":1,\"type\":\"text\"," members "}"

static const struct {
    const char *json, *path;
    ms_result code;
} refused[] = {
    {"{\"schema\":1,\"version\":2,\"type\":\"x\"}", "version", MS_E_FOREIGN},
    {"{\"schema\":1,\"version\":1.0,\"type\":\"text\"}", "version", MS_E_FOREIGN},
    {"{\"schema\":1,\"version\":\"1abc\",\"type\":\"text\"}", "version", MS_E_FOREIGN},
    {"{\"schema\":1,\"version\":true,\"type\":\"text\"}", "version", MS_E_FOREIGN},
    {"{\"schema\":1,\"version\":[1],\"type\":\"text\"}", "version", MS_E_FOREIGN},
    {"{\"schema\":1,\"version\":1,\"type\":\"Text\"}", "type", MS_E_TYPE},
    {"{\"schema\":1,\"version\":1,\"type\":\"\"}", "type", MS_E_TYPE},
    {"{\"schema\":1,\"version\":1,\"type\":\"user_message\"}", "type", MS_E_TYPE},
    {"{\"schema\":1,\"version\":1,\"type\":{}}", "type", MS_E_TYPE},
    {TYPED("\"role\":\"\""), "role", MS_E_KIND},
    {TYPED("\"role\":5"), "role", MS_E_KIND},
    {TYPED("\"role\":[]"), "role", MS_E_KIND},
    {TYPED("\"content\":false"), "content", MS_E_KIND},
    {TYPED("\"content\":7"), "content", MS_E_KIND},
    {"{\"role\":false}", "role", MS_E_KIND},
    {"{\"content\":0}", "content", MS_E_KIND},
    {"5", "", MS_E_KIND},
    {"[]", "", MS_E_KIND},
};

static void wrong_kinds_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(refused); i++) {
        char expected[96];
        ms_envelopes out;
        ms_error err;
        ms_str json = joined("[{\"content\":\"a\"},", ms_str_of(refused[i].json), "]");
        const char *dot = refused[i].path[0] != '\0' ? "." : "";
        ms_result code = read_with(ENV, json, STRICT, &arena, &out, &err);
        snprintf(expected, sizeof expected, "messages[1]%s%s", dot, refused[i].path);
        if (code != refused[i].code || strcmp(err.path, expected) != 0)
            fail_msg("%s: %s at \"%s\" (%s)", refused[i].json, ms_result_text(code),
                     err.path, err.message);
        assert_int_equal(err.code, code);
        assert_null(out.items);
        assert_int_equal(out.count, 0);
        if (refused[i].json[0] != '{') continue;
        code = read_with(ENV, ms_str_of(refused[i].json), STRICT, &arena, &out, &err);
        assert_int_equal(code, refused[i].code);
        assert_string_equal(err.path, refused[i].path);
    }
}

static void text_must_be_json(void **state)
{
    static const struct {
        const char *json;
        ms_result code;
        unsigned how;
    } bad[] = {
        {"{\"content\":\"\xff\"}", MS_E_UTF8, STRICT},
        {"{\"content\":\"\\ud800\"}", MS_E_UTF8, STRICT},
        {"{\"metadata\":{\"\\udc00\":1}}", MS_E_UTF8, LENIENT},
        {"{\"content\":NaN}", MS_E_SYNTAX, LENIENT | REPAIR},
        {"{\"content\":\"a\"", MS_E_SYNTAX, STRICT},
        {"", MS_E_SYNTAX, STRICT},
    };
    ms_envelopes out;
    ms_error err;
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        ms_result code = read_with(ENV, ms_str_of(bad[i].json), bad[i].how, &arena, &out,
                                   &err);
        assert_int_equal(code, bad[i].code);
        assert_int_equal(out.count, 0);
    }
    ms_str got = crossed(ENV, MS_STR("[{\"role\":\"\xff\",\"content\":\"a\\ud800\","
                                     "\"metadata\":{\"x\":\"\xc3\"}}]"), REPAIR, ENV);
    same_json(got, as_list(CANONICAL("text", "\xEF\xBF\xBD", "\"a\xEF\xBF\xBD\"", "{}",
                                     "{\"x\":\"\xEF\xBF\xBD\"}")));
}

/* depth brackets in a member of an envelope. */
static ms_str nested(const char *before, size_t depth, const char *after)
{
    char *brackets = (char *)ms_arena_alloc(&arena, 2 * depth);
    memset(brackets, '[', depth);
    memset(brackets + depth, ']', depth);
    return joined(before, ms_str_n(brackets, 2 * depth), after);
}

static void nesting_ends_somewhere(void **state)
{
    static const char *const where[] = {"\"content\":", "\"payload\":{\"a\":",
                                        "\"metadata\":{\"a\":"};
    (void)state;
    for (size_t i = 0; i < COUNT(where); i++) {
        ms_envelopes out;
        ms_error err;
        ms_str before = joined("{\"version\":1,\"schema\":1,\"type\":\"text\",",
                               ms_str_of(where[i]), "\0");
        const char *after = i > 0 ? "}}" : "}";
        char *c = (char *)ms_arena_alloc(&arena, before.len + 1);
        memcpy(c, before.ptr, before.len);
        c[before.len] = '\0';
        ms_str fine = nested(c, 498, after);
        ms_envelopes list = reads(ENV, fine, STRICT);
        same_json(written(ENV, &list), written(ENV, &list));
        assert_int_equal(read_with(ENV, nested(c, 511, after), STRICT, &arena, &out,
                                   &err), MS_E_DEPTH);
        assert_int_equal(read_with(ENV, nested(c, 100000, after), LENIENT, &arena, &out,
                                   &err), MS_E_DEPTH);
        assert_int_equal(out.count, 0);
    }
}


/* ---- read leniently, nothing is dropped ---- */

static const struct {
    const char *json;
    ms_type type;
} lenient[] = {
    {"{\"schema\":1,\"version\":2,\"type\":\"text\",\"role\":\"user\"}",
     MS_T_USER_MESSAGE},
    {"{\"schema\":1,\"version\":1,\"type\":\"wish\",\"role\":\"user\",\"content\":\"x\"}",
     MS_T_OTHER},
    {"{\"schema\":1,\"version\":1,\"type\":[],\"role\":5}", MS_T_ASSISTANT_MESSAGE},
    {"{\"role\":\"\",\"content\":false}", MS_T_ASSISTANT_MESSAGE},
    {"{\"type\":\"t\",\"version\":1,\"role\":\"user\",\"metadata\":\"m\",\"id\":5}",
     MS_T_USER_MESSAGE},
    {"{\"version\":1,\"type\":\"delta\",\"payload\":{\"a\":1},\"data\":{\"b\":2}}",
     MS_T_DELTA},
};

/* What a strict reader drops or refuses comes back as it was. */
static void lenient_reading_keeps_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(lenient); i++) {
        ms_envelopes list = reads(ENV, as_list(lenient[i].json), LENIENT);
        assert_int_equal(list.items[0].type, lenient[i].type);
        same_json(written(ENV, &list), as_list(lenient[i].json));
    }
}


/* ---- random messages ---- */

static const char *const words[] = {"a",       "role",     "type",       "payload",
                                    "content", "metadata", "data",       "id",
                                    "schema",  "version",  "created_at", "updated_at",
                                    "extra",   "msgstore", "tool",       "tool_name",
                                    "task",    "call",     "parameters", "tool_call_id",
                                    "turn",    "error",    "parts",      "\xC3\xA4"};

static const char *random_word(uint64_t *state)
{
    return words[test_below(state, COUNT(words))];
}

/* A value of any kind, at most three levels deep. */
static json_t *random_value(uint64_t *state, unsigned depth)
{
    static const char *const texts[] = {"", "x", "2026-04-28 12:00:00", "{}", "tool_call",
                                        "user", "error", "a\"b\\\n\xF0\x9F\x98\x80"};
    json_t *value;
    size_t n = (size_t)test_below(state, 3);
    switch (test_below(state, depth > 0 ? 8 : 5)) {
    case 0: return json_null();
    case 1: return json_boolean(test_one_in(state, 2));
    case 2: return json_integer((json_int_t)test_below(state, 3));
    case 3: return json_real((double)test_below(state, 1000) / 8);
    case 4: return json_string(texts[test_below(state, COUNT(texts))]);
    case 5:
        value = json_array();
        while (n-- > 0) json_array_append_new(value, random_value(state, depth - 1));
        return value;
    default:
        value = json_object();
        while (n-- > 0)
            json_object_set_new(value, random_word(state),
                                random_value(state, depth - 1));
        return value;
    }
}

static json_t *random_object(uint64_t *state)
{
    json_t *object = json_object();
    for (size_t n = (size_t)test_below(state, 4); n > 0; n--)
        json_object_set_new(object, random_word(state), random_value(state, 2));
    return object;
}

static const char *const types[] = {"text", "tool_call", "tool_result", "input_required",
                                    "approval_required", "final_result", "error",
                                    "delta", "multimodal_part"};
static const char *const roles[] = {"user", "assistant", "system", "tool", "critic"};

static json_t *random_canonical(uint64_t *state)
{
    json_t *content = random_value(state, 2);
    while (!json_is_string(content) && !json_is_array(content) &&
           !json_is_object(content)) {
        json_decref(content);
        content = random_value(state, 2);
    }
    json_t *value = json_pack(
        "{s:s, s:i, s:s, s:s, s:o, s:o, s:o}", "schema", "agents-api.message", "version",
        1, "type", types[test_below(state, COUNT(types))], "role",
        roles[test_below(state, COUNT(roles))], "content", content, "payload",
        random_object(state), "metadata", random_object(state));
    if (test_one_in(state, 2)) json_object_set_new(value, "id", json_string("m1"));
    if (test_one_in(state, 2))
        json_object_set_new(value, "created_at", json_string("2026-04-28 12:00:00"));
    if (test_one_in(state, 2))
        json_object_set_new(value, "extra", random_value(state, 3));
    if (test_one_in(state, 3))
        json_object_set_new(value, "own", random_value(state, 2));
    return value;
}

/* What the format's rules make a canonical envelope's row. */
static json_t *projected(json_t *envelope)
{
    json_t *metadata = json_deep_copy(json_object_get(envelope, "metadata"));
    json_t *payload = json_object_get(envelope, "payload"), *value;
    json_t *type = json_object_get(envelope, "type");
    json_t *row = json_pack("{s:O, s:O}", "role", json_object_get(envelope, "role"),
                            "content", json_object_get(envelope, "content"));
    const char *key;
    if (strcmp(json_string_value(type), "text") != 0 || json_object_size(payload) > 0 ||
        json_object_size(metadata) > 0)
        json_object_set(metadata, "type", type);
    json_object_foreach (payload, key, value)
        if (json_object_get(metadata, key) == NULL)
            json_object_set(metadata, key, value);
    if (json_object_size(metadata) > 0) json_object_set(row, "metadata", metadata);
    json_decref(metadata);
    return row;
}

/* The rows of a list are the projections of the envelopes that are written for it. */
static void rows_are_projections(const ms_envelopes *list)
{
    ms_str canon = written(ENV, list), got = written(ROWS, list);
    json_t *envelopes = parsed(canon), *have = parsed(got), *one;
    size_t i;
    assert_int_equal(json_array_size(have), list->count);
    json_array_foreach (envelopes, i, one) {
        json_t *expected = projected(one);
        same_value(json_array_get(have, i), expected, canon);
        json_decref(expected);
    }
    json_decref(envelopes);
    json_decref(have);
}

static void random_canonical_envelopes_come_back(void **state)
{
    uint64_t seed = test_seed();
    (void)state;
    for (size_t i = 0; i < test_times(8000); i++) {
        json_t *list = json_pack("[o]", random_canonical(&seed));
        ms_str json = dumped(list);
        ms_envelopes out = reads(ENV, json, STRICT);
        ms_str got = written(ENV, &out);
        same_json(got, json);
        is_stable(got);
        rows_are_projections(&out);
        json_decref(list);
        ms_arena_reset(&arena);
    }
}

/* By way of the framework format too. */
static void canonical_envelopes_cross_the_framework(void **state)
{
    uint64_t seed = test_seed() + 1;
    (void)state;
    for (size_t i = 0; i < test_times(8000); i++) {
        json_t *m = random_canonical(&seed), *list = json_pack("[o]", m);
        if (json_object_get(m, "created_at") != NULL) /* as the writer spells it */
            json_object_set_new(m, "created_at", json_string("2026-04-28T12:00:00Z"));
        json_object_del(m, "extra"); /* there it can be taken for the framework's own */
        ms_str json = dumped(list);
        ms_str there = crossed(ENV, json, STRICT, FW);
        same_json(crossed(FW, there, LENIENT, ENV), json);
        json_decref(list);
        ms_arena_reset(&arena);
    }
}

/* Any object at all: refused, or made canonical once and for all. */
static void random_objects_are_stable(void **state)
{
    uint64_t seed = test_seed() + 2;
    size_t taken = 0, n = test_times(8000);
    (void)state;
    for (size_t i = 0; i < n; i++) {
        json_t *value = random_canonical(&seed);
        for (size_t k = (size_t)test_below(&seed, 4); k > 0; k--) {
            if (test_one_in(&seed, 2)) json_object_del(value, random_word(&seed));
            else json_object_set_new(value, random_word(&seed), random_value(&seed, 3));
        }
        json_t *list = json_pack("[o]", value);
        ms_str json = dumped(list);
        ms_envelopes out;
        ms_error err;
        for (unsigned how = STRICT; how <= LENIENT; how++) {
            if (read_with(ENV, json, how, &arena, &out, &err) != MS_OK) {
                assert_int_equal(out.count, 0);
                continue;
            }
            taken++;
            ms_str text = written(ENV, &out);
            same_text(crossed(ENV, text, how, ENV), text);
            if (how == STRICT) rows_are_projections(&out);
        }
        json_decref(list);
        ms_arena_reset(&arena);
    }
    assert_true(taken > n / 2);
}

/* Words that the format lacks stand as texts; what it has no place for is left out. */
static void other_types_become_texts(void **state)
{
    static const struct {
        const char *framework, *envelope, *row;
    } table[] = {
        {"{\"type\":\"task\",\"content\":\"go\",\"turn_id\":\"t1\"}",
         CANONICAL("text", "user", "\"go\"", "{}", "{}"),
         "{\"role\":\"user\",\"content\":\"go\"}"},
        {"{\"type\":\"delegation\",\"worker\":\"w\",\"task\":\"do\"}",
         CANONICAL("text", "assistant", "\"Delegated to w: do\"", "{}", "{}"),
         "{\"role\":\"assistant\",\"content\":\"Delegated to w: do\"}"},
        {"{\"type\":\"synthesis\",\"content\":{\"a\":1},\"from_manager\":\"m\"}",
         CANONICAL("text", "user", "\"[m] {\\\"a\\\":1}\"", "{}", "{}"),
         "{\"role\":\"user\",\"content\":\"[m] {\\\"a\\\":1}\"}"},
        {"{\"type\":\"observation\",\"content\":null}",
         CANONICAL("tool_result", "tool", "\"\"", "{}", "{}"),
         "{\"role\":\"tool\",\"content\":\"\",\"metadata\":{\"type\":\"tool_result\"}}"},
        {"{\"type\":\"director_context\",\"content\":\"be\"}",
         CANONICAL("text", "system", "\"be\"", "{}", "{}"),
         "{\"role\":\"system\",\"content\":\"be\"}"},
        {"{\"type\":\"action\",\"tool\":\"t\",\"args\":{},\"tool_call_id\":\"c\"}",
         CANONICAL("tool_call", "assistant", "\"\"",
                   "{\"tool_name\":\"t\",\"parameters\":{}}", "{\"tool_call_id\":\"c\"}"),
         "{\"role\":\"assistant\",\"content\":\"\",\"metadata\":{\"tool_call_id\":\"c\","
         "\"type\":\"tool_call\",\"tool_name\":\"t\",\"parameters\":{}}}"},
        {"{\"type\":\"final\",\"content\":\"x\",\"timestamp\":0}",
         CANONICAL_AND("final_result", "assistant", "\"x\"", "{}", "{}",
                       "\"created_at\":\"1970-01-01T00:00:00Z\""),
         "{\"role\":\"assistant\",\"content\":\"x\","
         "\"metadata\":{\"type\":\"final_result\"}}"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        ms_str source = as_list(table[i].framework);
        ms_str there = crossed(FW, source, STRICT, ENV);
        same_json(there, as_list(table[i].envelope));
        is_stable(there);
        same_json(crossed(FW, source, STRICT, ROWS), as_list(table[i].row));
    }
}

/* What only a program can build. */
static void built_messages_come_back(void **state)
{
    ms_envelope all[4];
    ms_envelopes list = {all, COUNT(all)};
    (void)state;
    all[0] = ms_action(MS_STR("t"), ms_json(MS_STR("{\"a\":1}")), ms_str_of(NULL));
    all[1] = ms_user_message(ms_json(MS_STR("\"quoted\"")));
    all[2] = ms_message(MS_T_FINAL, ms_text("x"));
    all[2].has_time = true;
    all[2].time_ns = INT64_MAX;
    all[2].id = MS_STR("m");
    all[3] = test_error_message(ms_text("e"), ms_str_of(NULL));
    all[3].call_id = MS_STR("c");
    all[3].tool = MS_STR("t");
    ms_str there = written(ENV, &list);
    is_stable(there);
    ms_envelopes back = reads(ENV, there, STRICT);
    assert_int_equal(back.count, COUNT(all));
    all[1].content = ms_text("quoted");
    for (size_t i = 0; i < COUNT(all); i++) {
        ms_envelope *m = &back.items[i];
        assert_int_equal(m->type, all[i].type);
        assert_true(m->has_time == all[i].has_time && m->time_ns == all[i].time_ns);
#define SAME(member)                                       \
    same_text(m->member, all[i].member);                   \
    assert_true((m->member.ptr != NULL) == (all[i].member.ptr != NULL));
        SAME(content.text) SAME(args.text) SAME(tool) SAME(id) SAME(call_id)
#undef SAME
    }
    all[0].type = MS_T_NONE;
    ms_writer w;
    ms_buf buf;
    ms_error err;
    memset(&buf, 0, sizeof buf);
    buf.arena = &arena;
    ms_writer_init(&w, dialect(ENV), NULL, &arena, ms_buf_write, &buf);
    assert_int_equal(ms_writer_put(&w, &all[0], &err), MS_E_TYPE);
    assert_string_equal(err.path, "type");
}


/* ---- rows ---- */

/* A row with as many names in metadata as in payload. */
static void folding_is_linear(void **state)
{
    enum { NAMES = 50000 };
    json_t *metadata = json_object(), *payload = json_object();
    char name[16];
    (void)state;
    for (unsigned i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "n%u", i);
        json_object_set_new(metadata, name, json_integer(1));
        snprintf(name, sizeof name, "n%u", i + NAMES / 2);
        json_object_set_new(payload, name, json_integer(2));
    }
    json_t *list = json_pack("[{s:s, s:i, s:s, s:o, s:o}]", "schema", "s", "version", 1,
                             "type", "delta", "payload", payload, "metadata", metadata);
    clock_t start = clock();
    ms_envelopes out = reads(ENV, dumped(list), STRICT);
    ms_str text = written(ROWS, &out);
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 5);
    json_t *rows_out = parsed(text);
    json_t *folded = json_object_get(json_array_get(rows_out, 0), "metadata");
    assert_int_equal(json_object_size(folded), NAMES + NAMES / 2 + 1);
    json_decref(rows_out);
    json_decref(list);
}


/* ---- no memory ---- */

/* Everything once, in this arena; the first failure. */
static ms_result work(ms_arena *a, ms_error *err)
{
    static const char json[] =
        "[" CANONICAL_AND("tool_call", "assistant", "\"c\\n\"", "{\"tool_name\":\"a\\n\","
                          "\"turn\":1}", "{\"k\\n\":1,\"tool_call_id\":\"i\"}",
                          "\"id\":\"\\n\",\"created_at\":\"x\\n\"") ","
        CANONICAL("text", "assistant", "\"hello\"", "{}", "{}") ","
        CANONICAL("tool_result", "user", "\"r\"", "{}", "{}") "]";
    ms_envelopes list;
    ms_result code = read_with(ENV, ms_str_of(json), STRICT, a, &list, err);
    if (code != MS_OK) return assert_null(list.items), code;
    ms_writer w;
    ms_buf buf;
    memset(&buf, 0, sizeof buf);
    buf.arena = a;
    ms_writer_init(&w, dialect(ROWS), NULL, a, ms_buf_write, &buf);
    for (size_t i = 0; i < list.count && code == MS_OK; i++)
        code = ms_writer_put(&w, &list.items[i], err);
    return code == MS_OK ? ms_writer_finish(&w, err) : code;
}

static void every_allocation_may_fail(void **state)
{
    test_alloc heap;
    ms_error err;
    (void)state;
    for (size_t k = 1;; k++) {
        ms_arena a;
        test_alloc_init(&heap);
        heap.fail_at = k;
        heap.fail_from = true;
        test_arena_init(&a, &heap.alloc);
        ms_result code = work(&a, &err);
        ms_arena_deinit(&a);
        test_alloc_done(&heap);
        assert_int_equal(code, heap.failed > 0 ? MS_E_NO_MEMORY : MS_OK);
        if (heap.failed == 0) break;
        assert_true(err.message[0] != '\0');
    }
    static char room[65536];
    size_t size = 0;
    for (ms_result code = MS_E_ARENA; code != MS_OK; size += 40) {
        ms_arena a;
        assert_true(size < sizeof room);
        test_arena_init_fixed(&a, room, size);
        code = work(&a, &err);
        if (code != MS_OK) assert_int_equal(code, MS_E_ARENA);
    }
}

#define T(test) cmocka_unit_test_setup_teardown(test, open_arena, close_arena)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(rows_become_canonical),
        T(canonical_envelopes_come_back),
        T(numbers_keep_their_spelling),
        T(fields_are_filled),
        T(vectors_are_stable),
        T(wrong_kinds_are_refused),
        T(text_must_be_json),
        T(nesting_ends_somewhere),
        T(lenient_reading_keeps_all),
        T(random_canonical_envelopes_come_back),
        T(canonical_envelopes_cross_the_framework),
        T(random_objects_are_stable),
        T(other_types_become_texts),
        T(built_messages_come_back),
        T(folding_is_linear),
        T(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
