/* Reading and writing the formats "framework" and "openai". What goes in comes out equal
 * as JSON (compared by jansson), and where it has the writer's own order, equal to the
 * byte; a strict reader refuses with the place and leaves nothing half-done; a lenient
 * one keeps what it does not know. */

#define _POSIX_C_SOURCE 200809L

#include "dialects.h"
#include "json_equal.h"

#define FW "framework"
#define OA "openai"


/* ---- helpers ---- */

static bool is_list(ms_str json)
{
    size_t i = 0;
    while (i < json.len && strchr(" \t\r\n", json.ptr[i]) != NULL) i++;
    return i < json.len && json.ptr[i] == '[';
}

#define CALL(id, name, arguments)                                                       \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"" name           \
    "\",\"arguments\":\"" arguments "\"}}"

static ms_result read_n(const char *name, ms_str json, unsigned how, ms_envelopes *out,
                        ms_error *err)
{
    ms_read_opts opts = {(how & LENIENT) != 0, (how & REPAIR) != 0};
    memset(out, 0xA5, sizeof *out);
    memset(err, 0xA5, sizeof *err);
    return is_list(json) ? ms_read_list(dialect(name), json, &opts, &arena, out, err)
                         : ms_read(dialect(name), json, &opts, &arena, out, err);
}

static ms_envelopes reads(const char *name, const char *json, unsigned how)
{
    ms_envelopes list;
    ms_error err;
    if (read_n(name, ms_str_of(json), how, &list, &err) != MS_OK) {
        fail_msg("%s\n%s: %s", json, err.path, err.message);
    }
    return list;
}

/* What the writer makes of the list, given as envelopes or as encoded messages. */
static ms_str write_all(const char *name, const ms_envelopes *list,
                        const ms_writer_opts *opts, bool encoded)
{
    ms_result result = MS_OK;
    ms_writer w;
    ms_buf buf;
    ms_error err;
    memset(&buf, 0, sizeof buf);
    buf.arena = &arena;
    ms_writer_init(&w, dialect(name), opts, &arena, ms_buf_write, &buf);
    for (size_t i = 0; i < list->count && result == MS_OK; i++) {
        const ms_msg *msg = NULL;
        if (encoded) result = ms_encode(&list->items[i], &arena, &msg, &err);
        else result = ms_writer_put(&w, &list->items[i], &err);
        if (msg != NULL) result = test_writer_put_msg(&w, msg, &err);
    }
    if (result == MS_OK) result = ms_writer_finish(&w, &err);
    if (result != MS_OK) fail_msg("%s: %s", err.path, err.message);
    return ms_buf_text(&buf);
}

/* One array, or a line each. */
static ms_str written(const char *name, const ms_envelopes *list, bool array)
{
    ms_writer_opts opts = {array, false, false};
    return write_all(name, list, &opts, false);
}

static ms_str written_encoded(const char *name, const ms_envelopes *list, bool array)
{
    ms_writer_opts opts = {array, false, false};
    return write_all(name, list, &opts, true);
}

/* Is a member there twice? */
static bool repeats(ms_str json)
{
    size_t flags = JSON_ALLOW_NUL | JSON_DECODE_ANY | JSON_REJECT_DUPLICATES;
    json_t *value = json_loadb(json.ptr, json.len, flags, NULL);
    json_decref(value);
    return value == NULL;
}

/* Equal as JSON, and no member twice that was there once? */
static void same_json(ms_str got, ms_str expected, unsigned options)
{
    json_where where = {{0}, 0};
    json_t *a = json_parse_n(got.ptr, got.len);
    json_t *b = json_parse_n(expected.ptr, expected.len);
    bool same = a != NULL && b != NULL && json_same(a, b, options, &where);
    json_decref(a);
    json_decref(b);
    if (same && repeats(got) && !repeats(expected)) same = false;
    if (!same) {
        fail_msg("differ at \"%s\"\n   got %.*s\nexpect %.*s", where.path, (int)got.len,
                 got.ptr, (int)expected.len, expected.ptr);
    }
}

static void same_text(ms_str got, ms_str expected)
{
    if (!ms_str_equal(got, expected)) {
        fail_msg("   got %.*s\nexpect %.*s", (int)got.len, got.ptr, (int)expected.len,
                 expected.ptr);
    }
}

/* Reads and writes; without and with encoding in between it is the same text. */
static ms_str round_trip(const char *name, const char *json, unsigned how)
{
    bool array = is_list(ms_str_of(json));
    ms_envelopes list = reads(name, json, how);
    ms_str text = written(name, &list, array);
    same_text(written_encoded(name, &list, array), text);
    if (!array && text.len > 0 && text.ptr[text.len - 1] == '\n') text.len--;
    return text;
}

/* An envelope as one line: "+" joined, type, "/role" if one is set, then all that is
 * there, "|name:text" or "|name=JSON", at last "|@time". */
static void describe(const ms_envelope *m, char *out, size_t size)
{
    size_t n = 0;
    n += (size_t)snprintf(out + n, size - n, "%s%s",
                          (m->flags & MS_FLAG_JOINED) != 0 ? "+" : "",
                          m->type == MS_T_OTHER ? "other" : ms_type_word(m->type));
    if (m->role != MS_ROLE_NONE) {
        n += (size_t)snprintf(out + n, size - n, "/%s",
                              m->role == MS_ROLE_OTHER ? "other" : ms_role_word(m->role));
    }
#define TEXT(s) ms_text_n(s)
#define OBJECT(s) ms_json(s)
#define VALUE(v) (v)
#define X(number, NAME, member, kind)                                               \
    if (number != MS_F_SOURCE && kind(m->member).text.ptr != NULL && n < size) { \
        ms_value v = kind(m->member);                                               \
        n += (size_t)snprintf(out + n, size - n, "|" #member "%c%.*s",              \
                              v.json ? '=' : ':', (int)v.text.len, v.text.ptr);     \
    }
    MS_FIELDS(X)
#undef X
#undef TEXT
#undef OBJECT
#undef VALUE
    if (m->has_time && n < size) {
        n += (size_t)snprintf(out + n, size - n, "|@");
        if (n + TEST_SECONDS_MAX >= size) return;
        n += test_seconds_write(m->time_ns, out + n);
        out[n] = '\0';
    }
}

/* All envelopes of a list, each on its line. */
static void describes(const ms_envelopes *list, const char *expected)
{
    char text[4096] = "";
    for (size_t i = 0; i < list->count; i++) {
        size_t n = strlen(text);
        if (i > 0) text[n++] = '\n';
        describe(&list->items[i], text + n, sizeof text - n);
    }
    assert_string_equal(text, expected);
}


/* ---- JSON in, fields out ---- */

static const struct {
    const char *dialect, *json, *fields;
} field_rows[] = {
    {FW, "{\"type\":\"user_message\",\"content\":\"List all\",\"timestamp\":1234567890.0,"
         "\"turn_id\":\"turn_1\"}",
     "user_message|turn_id:turn_1|content:List all|@1234567890"},
    {FW, "{\"content\":\"hi\",\"type\":\"assistant_message\"}",
     "assistant_message|content:hi"},
    {FW, "{\"type\":\"task\",\"content\":\"\"}", "task|content:"},
    {FW, "{\"type\":\"action\",\"tool\":\"list\",\"args\":{ \"a\" : [1] },"
         "\"timestamp\":-0.5}",
     "action|tool:list|args={ \"a\" : [1] }|@-0.5"},
    {FW, "{\"type\":\"observation\",\"content\":null}", "observation|content=null"},
    {FW, "{\"type\":\"observation\",\"content\":{\"t\":[]}}",
     "observation|content={\"t\":[]}"},
    {FW, "{\"type\":\"observation\",\"content\":[]}", "observation|content=[]"},
    {FW, "{\"type\":\"observation\",\"content\":1.0}", "observation|content=1.0"},
    {FW, "{\"type\":\"observation\",\"content\":false}", "observation|content=false"},
    {FW, "{\"type\":\"error\",\"content\":\"boom\",\"error_type\":\"IOError\"}",
     "error|content:boom|error_type:IOError"},
    {FW, "{\"type\":\"final\",\"content\":\"a\\u00e9\\ud83d\\ude00\\n\"}",
     "final|content:a\xc3\xa9\xf0\x9f\x98\x80\n"},
    {FW, "{\"type\":\"synthesis\",\"content\":{},\"from_manager\":\"m\",\"phase_id\":0}",
     "synthesis|content={}|from_manager:m|phase_id=0"},
    {FW, "{\"type\":\"synthesis\",\"content\":{},\"from_manager\":\"m\","
         "\"phase_id\":\"one\"}",
     "synthesis|content={}|from_manager:m|phase_id:one"},
    {FW, "{\"type\":\"delegation\",\"worker\":\"w\",\"task\":\"do\"}",
     "delegation|worker:w|task:do"},
    {FW, "{\"type\":\"global_observation\",\"content\":{},\"from_worker\":\"w\","
         "\"summary\":\"s\"}",
     "global_observation|content={}|from_worker:w|summary:s"},
    {FW, "{\"type\":\"strategic_plan\",\"content\":{\"phases\":[]}}",
     "strategic_plan|content={\"phases\":[]}"},
    {FW, "{\"type\":\"script_plan\",\"content\":[1]}", "script_plan|content=[1]"},
    {FW, "{\"type\":\"suggested_plan\",\"content\":\"p\"}", "suggested_plan|content:p"},
    {FW, "{\"type\":\"script_instruction\",\"content\":\"p\"}",
     "script_instruction|content:p"},
    {FW, "{\"type\":\"director_context\",\"content\":\"p\"}",
     "director_context|content:p"},
    {FW, "{\"type\":\"injected_context\",\"content\":\"p\"}",
     "injected_context|content:p"},
    {FW, "{\"\\u0074ype\":\"t\\u0061sk\",\"c\\u006fntent\":\"x\"}", "task|content:x"},
    {FW, "{\"type\":\"task\",\"content\":\"a\",\"content\":\"b\"}", "task|content:b"},
    {FW, " {\"type\":\"task\",\n\t\"content\":\"x\",\"step\":3,\"script\":true} ",
     "task|content:x"},
    {OA, "{\"role\":\"user\",\"content\":\"hi\"}", "user_message|content:hi"},
    {OA, "{\"role\":\"assistant\",\"content\":\"hi\"}", "assistant_message|content:hi"},
    {OA, "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"42\"}",
     "observation|content:42|call_id:c1"},
    {OA, "{\"role\":\"tool\",\"name\":\"f\",\"content\":\"42\"}",
     "observation|content:42|tool:f"},
    {OA, "{\"role\":\"function\",\"name\":\"f\",\"content\":\"42\"}",
     "observation|content:42|tool:f"},
    {OA, "{\"role\":\"system\",\"content\":\"s\"}", "text|content:s"},
    {OA, "{\"role\":\"developer\",\"content\":\"s\"}", "text/developer|content:s"},
    {OA, "{\"role\":\"user\",\"content\":[{\"type\":\"text\"}],\"name\":\"ann\"}",
     "user_message|content=[{\"type\":\"text\"}]"},
    {OA, "{\"role\":\"assistant\",\"content\":null}", "assistant_message|content=null"},
    {OA, "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":["
         CALL("1", "f", "{\\\"a\\\": 1.0}") "]}",
     "action|content=null|tool:f|args={\"a\": 1.0}|call_id:1"},
    {OA, "{\"role\":\"assistant\",\"x\":1,\"tool_calls\":[" CALL("1", "f", "[1]") ","
         CALL("2", "g", "no") "]}",
     "action|tool:f|args:[1]|call_id:1\n"
     "+action|tool:g|args:no|call_id:2"},
    {OA, "{\"role\":\"assistant\",\"content\":\"t\",\"x\":1,\"tool_calls\":["
         "{\"index\":0,\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":\"f\","
         "\"arguments\":\"{}\",\"strict\":true}}]}",
     "assistant_message|content:t\n+action|tool:f|args={}|call_id:1"},
    {OA, "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\","
         "\"type\":\"custom\",\"custom\":{\"name\":\"sql\",\"input\":\"SELECT 1\"}}]}",
     "action|content=null|tool:sql|args:SELECT 1|call_id:1"},
};

static void fields_come_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(field_rows); i++) {
        ms_envelopes list = reads(field_rows[i].dialect, field_rows[i].json, STRICT);
        describes(&list, field_rows[i].fields);
        list = reads(field_rows[i].dialect, field_rows[i].json, LENIENT | REPAIR);
        describes(&list, field_rows[i].fields);
        same_json(round_trip(field_rows[i].dialect, field_rows[i].json, STRICT),
                  ms_str_of(field_rows[i].json), 0);
    }
}


/* ---- lossless ---- */

/* Messages in the writer's own order of members and without white space: they must come
 * back to the byte, so number spelling, escapes in keys and the order of unknown members
 * are looked at too. */
static const struct {
    const char *dialect, *json;
} exact_rows[] = {
    /* times as they are spelled */
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"timestamp\":1234567890.0}"},
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"timestamp\":1234567890}"},
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"timestamp\":1e9}"},
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"timestamp\":1.50}"},
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"timestamp\":0}"},
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"timestamp\":-0.0}"},
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"timestamp\":1E+2}"},
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"timestamp\":1700000000.123456789}"},
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"timestamp\":"
         "0.1000000000000000055511151231257827021181583404541015625}"},
    /* content of any kind, as it is spelled */
    {FW, "{\"type\":\"observation\",\"content\":null}"},
    {FW, "{\"type\":\"observation\",\"content\":{}}"},
    {FW, "{\"type\":\"observation\",\"content\":[]}"},
    {FW, "{\"type\":\"observation\",\"content\":[1.0,1e3,12345678901234567890,-0,"
         "0.10,1E-7]}"},
    {FW, "{\"type\":\"observation\",\"content\":{\"a\\u0062\":\"\\u00e9\",\"\":{}}}"},
    {FW, "{\"type\":\"observation\",\"content\":\"\"}"},
    {FW, "{\"type\":\"observation\",\"content\":\"null\"}"},
    {FW, "{\"type\":\"observation\",\"content\":true}"},
    {FW, "{\"type\":\"action\",\"tool\":\"t\",\"args\":{}}"},
    {FW, "{\"type\":\"action\",\"tool\":\"t\",\"args\":{\"n\":1.0,\"n2\":[[],{}]}}"},
    {FW, "{\"type\":\"action\",\"tool\":\"\",\"args\":{}}"},
    /* unknown members, in their order */
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"z\":1.0,\"a\":1e3,"
         "\"m\":12345678901234567890,\"\":null,\"o\":{},\"l\":[],\"b\":false,"
         "\"s\":\"\"}"},
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"k\\u0065y\":1,\"\\\"\":2,"
         "\"\\ud83d\\ude00\":3}"},
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"n\":{\"type\":\"y\",\"content\":[{}]}}"},
    /* phases, explicit nulls and empty strings */
    {FW, "{\"type\":\"synthesis\",\"content\":1,\"from_manager\":\"m\",\"phase_id\":0}"},
    {FW, "{\"type\":\"synthesis\",\"content\":1,\"from_manager\":\"m\","
         "\"phase_id\":\"two\"}"},
    {FW, "{\"type\":\"synthesis\",\"content\":1,\"from_manager\":\"m\","
         "\"phase_id\":1.0}"},
    {FW, "{\"type\":\"synthesis\",\"content\":1,\"from_manager\":\"\"}"},
    {FW, "{\"type\":\"delegation\",\"worker\":\"\",\"task\":\"\"}"},
    /* chat messages */
    {OA, "{\"role\":\"user\",\"content\":\"hi\"}"},
    {OA, "{\"role\":\"user\",\"content\":\"\"}"},
    {OA, "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
         "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:,\"}}]}"},
    {OA, "{\"role\":\"system\",\"content\":\"be kind\"}"},
    {OA, "{\"role\":\"developer\",\"content\":\"be brief\"}"},
    {OA, "{\"role\":\"assistant\",\"content\":\"hi\",\"n\":1.0,\"z\":[],\"a\":{}}"},
    {OA, "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c1\","
         "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}"},
};

static void back_to_the_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(exact_rows); i++) {
        same_text(round_trip(exact_rows[i].dialect, exact_rows[i].json, STRICT),
                  ms_str_of(exact_rows[i].json));
    }
}

/* What a writer may put in another order, but must bring back. */
static const struct {
    const char *dialect, *json;
} json_rows[] = {
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"timestamp\":null,\"turn_id\":null}"},
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"turn_id\":\"\"}"},
    {FW, "{\"type\":\"error\",\"content\":\"x\",\"error_type\":\"\"}"},
    {FW, "{\"type\":\"error\",\"content\":\"x\",\"error_type\":null}"},
    {FW, "{\"type\":\"synthesis\",\"content\":\"x\",\"from_manager\":\"m\","
         "\"phase_id\":null}"},
    {FW, "{\"type\":\"global_observation\",\"content\":\"x\",\"from_worker\":\"\","
         "\"summary\":\"\"}"},
    {FW, "{\"type\":\"global_observation\",\"content\":\"x\",\"from_worker\":null,"
         "\"summary\":null}"},
    /* fields of other types */
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"tool\":\"t\",\"args\":{},"
         "\"worker\":\"w\",\"task\":\"d\",\"from_manager\":\"m\",\"phase_id\":3,"
         "\"summary\":\"s\"}"},
    {FW, "{\"type\":\"action\",\"tool\":\"t\",\"args\":{},\"content\":\"also\"}"},
    {FW, "{\"type\":\"action\",\"tool\":\"t\",\"args\":{},\"content\":null}"},
    {FW, "{\"type\":\"delegation\",\"worker\":\"w\",\"task\":\"d\",\"content\":{}}"},
    {FW, "{\"z\":0,\"content\":\"x\",\"y\":1,\"type\":\"task\",\"x\":2}"},
    /* members that another format's fields stand for */
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"idempotency_key\":\"a\\u0000b\","
         "\"tool_call_id\":7,\"id\":null,\"call\":[],\"role\":\"\",\"joined\":false}"},
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"idempotency_key\":\"\","
         "\"tool_call_id\":\"\",\"id\":\"\",\"call\":{},\"role\":3,\"joined\":1}"},
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"idempotency_key\":\"k\","
         "\"tool_call_id\":\"c\",\"id\":\"i\",\"call\":{\"a\":1.0},\"role\":\"bard\","
         "\"joined\":true}"},
    /* of equal names the last counts, for jansson too */
    {FW, "{\"type\":\"final\",\"type\":\"task\",\"content\":1,\"content\":\"x\","
         "\"turn_id\":\"t\",\"turn_id\":null,\"summary\":null,\"summary\":\"s\","
         "\"k\":1,\"k\":2,\"timestamp\":1,\"timestamp\":2.50}"},
    {OA, "{\"role\":\"tool\",\"role\":\"user\",\"content\":null,\"content\":\"x\","
         "\"k\":1,\"k\":2}"},
    {FW, "{\"type\":\"task\",\"content\":\"\\u0000\\u001f\\\\\\\"\\/\\ud83d\\ude00\"}"},
    {FW, "[]"},
    {FW, "[{\"type\":\"task\",\"content\":\"a\"},"
         "{\"type\":\"final\",\"content\":\"b\"}]"},
    /* assistant messages */
    {OA, "{\"role\":\"assistant\",\"content\":null}"},
    {OA, "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":["
         CALL("c1", "f", "{}") "]}"},
    {OA, "{\"role\":\"assistant\",\"tool_calls\":[" CALL("c1", "f", "{}") "]}"},
    {OA, "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":["
         CALL("c1", "f", "{}") "]}"},
    {OA, "{\"role\":\"assistant\",\"content\":\"text\",\"tool_calls\":["
         CALL("c1", "f", "{}") "," CALL("c2", "g", "{\\\"a\\\": 1}") ","
         CALL("c3", "h", "[]") "]}"},
    {OA, "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":["
         CALL("c1", "f", "{}") "," CALL("c1", "f", "{}") "]}"},
    {OA, "{\"role\":\"assistant\",\"content\":\"x\",\"tool_calls\":[]}"},
    {OA, "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[]}"},
    {OA, "{\"role\":\"assistant\",\"content\":\"x\",\"tool_calls\":null}"},
    {OA, "{\"role\":\"assistant\",\"content\":\"x\",\"refusal\":null,\"audio\":{},"
         "\"function_call\":null,\"name\":\"bob\"}"},
    {OA, "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
         "{\"type\":\"refusal\",\"refusal\":\"no\"}]}"},
    {OA, "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\"}],\"tool_calls\":["
         CALL("c1", "f", "{}") "],\"z\":{\"q\":[1.0]}}"},
    {OA, "{\"role\":\"user\",\"content\":null}"},
    /* arguments that are not JSON, or not as one would write them */
    {OA, "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":["
         CALL("c1", "f", "") "," CALL("c2", "f", "{\\\"a\\\":") ","
         CALL("c3", "f", "not JSON") "," CALL("c4", "f", "null") ","
         CALL("c5", "f", " { } ") "," CALL("c6", "f", "\\\"x\\\"") ","
         CALL("c7", "f", "{\\\"a\\\":1,\\\"a\\\":2}") ","
         CALL("c8", "f", "{\\n  \\\"a\\\": 1.0\\n}") "]}"},
    /* unknown members of calls */
    {OA, "{\"role\":\"assistant\",\"content\":null,\"x\":1,\"tool_calls\":["
         "{\"index\":0,\"id\":\"c1\",\"type\":\"function\",\"extra\":{},"
         "\"function\":{\"name\":\"f\",\"arguments\":\"{}\",\"strict\":null}},"
         "{\"id\":\"c2\",\"type\":\"function\",\"thought\":[],"
         "\"function\":{\"arguments\":\"{}\",\"name\":\"g\"}},"
         "{\"id\":\"\",\"type\":null,\"function\":{\"name\":\"\",\"arguments\":\"\"}},"
         "{\"id\":\"c5\",\"function\":{\"name\":\"g\",\"arguments\":\"\"}}],\"y\":2}"},
    /* tool results and the other roles */
    {OA, "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"42\"}"},
    {OA, "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"\",\"name\":\"f\"}"},
    {OA, "{\"role\":\"tool\",\"tool_call_id\":\"\",\"content\":\"{\\\"a\\\": 1}\"}"},
    {OA, "{\"role\":\"tool\",\"content\":\"x\"}"},
    {OA, "{\"role\":\"tool\",\"content\":\"x\",\"name\":7,\"tool_call_id\":null}"},
    {OA, "{\"role\":\"tool\",\"content\":\"x\",\"name\":null,\"tool_calls\":[]}"},
    {OA, "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[" CALL("1", "f", "{}")
         "]},{\"role\":\"tool\",\"content\":\"x\",\"tool_call_ids\":[\"1\"]}]"},
    {OA, "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":"
         "[{\"type\":\"text\",\"text\":\"a\"}],\"cache_control\":{}}"},
    {OA, "{\"role\":\"function\",\"name\":\"f\",\"content\":\"42\"}"},
    {OA, "{\"role\":\"system\",\"content\":\"x\",\"name\":\"n\"}"},
    {OA, "{\"role\":\"developer\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}"},
    {OA, "{\"role\":\"user\",\"content\":\"x\",\"name\":\"ann\",\"k\\u0065y\":[{}]}"},
    {OA, "{\"content\":\"x\",\"\\u0072ole\":\"us\\u0065r\"}"},
    {OA, "[{\"role\":\"user\",\"content\":\"a\"},"
         "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":["
         CALL("1", "f", "{}") "," CALL("2", "g", "{}") "]},"
         "{\"role\":\"tool\",\"tool_call_id\":\"2\",\"content\":\"B\"},"
         "{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"A\"},"
         "{\"role\":\"assistant\",\"content\":\"t\",\"tool_calls\":["
         CALL("1", "f", "{}") "]},"
         "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":["
         CALL("1", "f", "{}") "]},"
         "{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"C\"}]"},
};

static void back_as_json(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(json_rows); i++) {
        ms_str json = ms_str_of(json_rows[i].json);
        same_json(round_trip(json_rows[i].dialect, json_rows[i].json, STRICT), json, 0);
        same_json(round_trip(json_rows[i].dialect, json_rows[i].json, LENIENT), json, 0);
    }
}


/* ---- refusals ---- */

static const struct {
    const char *dialect, *json;
    ms_result code;
    const char *path;
} refused_rows[] = {
    {FW, "{}", MS_E_MISSING, "type"},
    {FW, "{\"content\":\"x\"}", MS_E_MISSING, "type"},
    {FW, "{\"type\":\"task\"}", MS_E_MISSING, "content"},
    {FW, "{\"type\":\"task\",\"Content\":\"x\"}", MS_E_MISSING, "content"},
    {FW, "{\"type\":\"action\",\"args\":{}}", MS_E_MISSING, "tool"},
    {FW, "{\"type\":\"action\",\"tool\":\"t\"}", MS_E_MISSING, "args"},
    {FW, "{\"type\":\"delegation\",\"task\":\"t\"}", MS_E_MISSING, "worker"},
    {FW, "{\"type\":\"delegation\",\"worker\":\"w\"}", MS_E_MISSING, "task"},
    {FW, "{\"type\":\"synthesis\",\"content\":\"x\"}", MS_E_MISSING, "from_manager"},
    {FW, "{\"type\":\"synthesis\",\"from_manager\":\"x\"}", MS_E_MISSING, "content"},
    {FW, "{\"type\":\"heartbeat\",\"content\":\"x\"}", MS_E_TYPE, "type"},
    {FW, "{\"type\":\"\",\"content\":\"x\"}", MS_E_TYPE, "type"},
    {FW, "{\"type\":\"Task\",\"content\":\"x\"}", MS_E_TYPE, "type"},
    {FW, "{\"type\":null,\"content\":\"x\"}", MS_E_KIND, "type"},
    {FW, "{\"type\":1,\"content\":\"x\"}", MS_E_KIND, "type"},
    {FW, "{\"type\":\"action\",\"tool\":1,\"args\":{}}", MS_E_KIND, "tool"},
    {FW, "{\"type\":\"action\",\"tool\":null,\"args\":{}}", MS_E_KIND, "tool"},
    {FW, "{\"type\":\"action\",\"tool\":\"t\",\"args\":[]}", MS_E_KIND, "args"},
    {FW, "{\"type\":\"action\",\"tool\":\"t\",\"args\":null}", MS_E_KIND, "args"},
    {FW, "{\"type\":\"action\",\"tool\":\"t\",\"args\":1}", MS_E_KIND, "args"},
    {FW, "{\"type\":\"delegation\",\"worker\":[],\"task\":\"\"}", MS_E_KIND, "worker"},
    {FW, "{\"type\":\"delegation\",\"worker\":\"w\",\"task\":{}}", MS_E_KIND, "task"},
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"timestamp\":\"1\"}", MS_E_KIND,
     "timestamp"},
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"timestamp\":true}", MS_E_KIND,
     "timestamp"},
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"turn_id\":7}", MS_E_KIND, "turn_id"},
    {FW, "{\"type\":\"error\",\"content\":\"x\",\"error_type\":{}}", MS_E_KIND,
     "error_type"},
    {FW, "[{\"type\":\"task\",\"content\":\"x\"},{\"type\":\"action\",\"tool\":\"t\"}]",
     MS_E_MISSING, "messages[1].args"},
    {FW, "[{\"type\":\"task\",\"content\":\"\"},{\"type\":\"task\",\"content\":\"\"},"
         "{\"type\":\"task\",\"content\":\"\"},{\"type\":\"action\",\"tool\":\"\","
         "\"args\":3}]", MS_E_KIND, "messages[3].args"},
    {FW, "[{\"type\":\"task\",\"content\":\"x\"},3]", MS_E_KIND, "messages[1]"},
    {OA, "{}", MS_E_MISSING, "role"},
    {OA, "{\"content\":\"x\"}", MS_E_MISSING, "role"},
    {OA, "{\"role\":1,\"content\":\"x\"}", MS_E_KIND, "role"},
    {OA, "{\"role\":\"narrator\",\"content\":\"x\"}", MS_E_TYPE, "role"},
    {OA, "{\"role\":\"User\",\"content\":\"x\"}", MS_E_TYPE, "role"},
    {OA, "{\"role\":\"user\"}", MS_E_MISSING, "content"},
    {OA, "{\"role\":\"user\",\"content\":1}", MS_E_KIND, "content"},
    {OA, "{\"role\":\"system\",\"content\":{}}", MS_E_KIND, "content"},
    {OA, "{\"role\":\"user\",\"content\":[]}", MS_E_KIND, "content"},
    {OA, "{\"role\":\"user\",\"content\":[\"x\"]}", MS_E_KIND, "content"},
    {OA, "{\"role\":\"user\",\"content\":[{\"text\":\"x\"}]}", MS_E_KIND, "content"},
    {OA, "{\"role\":\"user\",\"content\":[{\"type\":\"text\"},{\"type\":3}]}", MS_E_KIND,
     "content"},
    {OA, "{\"role\":\"assistant\"}", MS_E_MISSING, "content"},
    {OA, "{\"role\":\"assistant\",\"content\":1}", MS_E_KIND, "content"},
    {OA, "{\"role\":\"tool\",\"tool_call_id\":3,\"content\":\"x\"}", MS_E_KIND,
     "tool_call_id"},
    {OA, "{\"role\":\"tool\",\"tool_call_id\":\"c\"}", MS_E_MISSING, "content"},
    {OA, "{\"role\":\"assistant\",\"content\":\"x\",\"tool_calls\":{}}", MS_E_KIND,
     "tool_calls"},
    {OA, "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[3]}", MS_E_KIND,
     "tool_calls[0]"},
    {OA, "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c\","
         "\"type\":\"function\"}]}", MS_E_MISSING, "tool_calls[0].function"},
    {OA, "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c\","
         "\"type\":\"function\",\"function\":[]}]}", MS_E_KIND, "tool_calls[0].function"},
    {OA, "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[" CALL("c", "f", "{}")
         ",{\"id\":\"d\",\"type\":\"function\",\"function\":{\"arguments\":\"{}\"}}]}",
     MS_E_MISSING, "tool_calls[1].function.name"},
    {OA, "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"d\","
         "\"type\":\"function\",\"function\":{\"name\":\"f\"}}]}",
     MS_E_MISSING, "tool_calls[0].function.arguments"},
    {OA, "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"d\","
         "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{}}}]}",
     MS_E_KIND, "tool_calls[0].function.arguments"},
    {OA, "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"d\","
         "\"type\":\"function\",\"function\":{\"name\":1,\"arguments\":\"\"}}]}",
     MS_E_KIND, "tool_calls[0].function.name"},
    {OA, "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":7,"
         "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}",
     MS_E_KIND, "tool_calls[0].id"},
    {OA, "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{"
         "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}",
     MS_E_MISSING, "tool_calls[0].id"},
    {OA, "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c\","
         "\"type\":\"\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}",
     MS_E_KIND, "tool_calls[0].type"},
    {OA, "[{\"role\":\"user\",\"content\":\"x\"},"
         "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":["
         CALL("c", "f", "{}") ",{\"id\":\"d\",\"type\":\"function\","
         "\"function\":{\"arguments\":\"{}\"}}]}]",
     MS_E_MISSING, "messages[1].tool_calls[1].function.name"},
};

static void refused(const char *name, ms_str json, unsigned how, ms_result code,
                    const char *path)
{
    ms_envelopes list;
    ms_error err;
    ms_result result = read_n(name, json, how, &list, &err);
    bool here = path == NULL || strcmp(err.path, path) == 0;
    if (result != code || err.code != code || !here) {
        fail_msg("%.*s\n%s %s: %s\nexpected %s %s", (int)json.len, json.ptr,
                 ms_result_text(result), result != MS_OK ? err.path : "",
                 result != MS_OK ? err.message : "", ms_result_text(code),
                 path != NULL ? path : "");
    }
    assert_null(list.items);
    assert_int_equal(list.count, 0);
    assert_true(err.message[0] != '\0' && memchr(err.message, '\0', sizeof err.message));
}

static void refusals_name_the_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(refused_rows); i++) {
        refused(refused_rows[i].dialect, ms_str_of(refused_rows[i].json), STRICT,
                refused_rows[i].code, refused_rows[i].path);
    }
}

/* What is no JSON is refused by lenient readers too, with the place in the text. */
static void not_json(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        ms_result code;
        unsigned offset;
    } rows[] = {
        {"", MS_E_SYNTAX, 0},
        {"{\"type\":\"task\",\"content\":NaN}", MS_E_SYNTAX, 25},
        {"{\"type\":\"task\",\"content\":Infinity}", MS_E_SYNTAX, 25},
        {"{\"type\":\"task\",\"content\":\"x\"", MS_E_SYNTAX, 28},
        {"{\"type\":\"task\",\"content\":\"x\"}}", MS_E_SYNTAX, 29},
        {"{\"type\":\"task\",\"content\":\"x\",}", MS_E_SYNTAX, 29},
        {"{\"type\":\"task\" \"content\":\"x\"}", MS_E_SYNTAX, 15},
        {"{\"type\":\"task\",\"content\":01}", MS_E_SYNTAX, 26},
        {"{\"type\":\"task\",\"content\":\"\x01\"}", MS_E_SYNTAX, 26},
        {"{\"type\":\"task\",\"content\":\"\\x\"}", MS_E_SYNTAX, 26},
        {"{\"type\":\"task\",\"content\":\"caf\xe9\"}", MS_E_UTF8, 29},
        {"{\"type\":\"task\",\"content\":\"\xc0\xaf\"}", MS_E_UTF8, 26},
        {"{\"type\":\"task\",\"content\":\"\xed\xa0\x80\"}", MS_E_UTF8, 26},
        {"{\"type\":\"task\",\"content\":\"\\ud800\"}", MS_E_UTF8, 26},
        {"{\"type\":\"task\",\"content\":\"\\udc00x\"}", MS_E_UTF8, 26},
        {"{\"type\":\"task\",\"content\":\"\\ud800\\u0041\"}", MS_E_UTF8, 26},
        {"{\"type\":\"task\",\"content\":{\"\\udfff\":1}}", MS_E_UTF8, 27},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        for (unsigned how = STRICT; how <= LENIENT; how++) {
            ms_envelopes list;
            ms_error err;
            ms_str json = ms_str_of(rows[i].json);
            refused(FW, json, how, rows[i].code, NULL);
            assert_int_not_equal(read_n(FW, json, how, &list, &err), MS_OK);
            assert_int_equal(err.offset, rows[i].offset);
            assert_int_equal(err.line, 1);
            assert_int_equal(err.column, rows[i].offset + 1);
        }
    }
    refused(FW, MS_STR("\"task\""), STRICT, MS_E_KIND, "");
    refused(FW, MS_STR("null"), LENIENT, MS_E_KIND, "");
}

/* Asked to repair, a reader takes bad bytes and lone surrogates as U+FFFD. */
static void repaired(void **state)
{
    (void)state;
#define FFFD "\xef\xbf\xbd"
    static const struct {
        const char *json, *fields;
    } rows[] = {
        {"{\"type\":\"task\",\"content\":\"caf\xe9!\"}", "task|content:caf" FFFD "!"},
        {"{\"type\":\"task\",\"content\":\"\xc0\xaf\"}", "task|content:" FFFD FFFD},
        {"{\"type\":\"task\",\"content\":\"\xe2\x82\"}", "task|content:" FFFD},
        {"{\"type\":\"task\",\"content\":\"\xf0\x9f\x98z\"}", "task|content:" FFFD "z"},
        {"{\"type\":\"task\",\"content\":\"\\ud800\"}", "task|content:" FFFD},
        {"{\"type\":\"task\",\"content\":\"\\ud800\\u0041\"}", "task|content:" FFFD "A"},
        {"{\"type\":\"task\",\"content\":\"\\udc00\\ud83d\\ude00\"}",
         "task|content:" FFFD "\xf0\x9f\x98\x80"},
        {"{\"type\":\"action\",\"tool\":\"t\xff\",\"args\":{}}",
         "action|tool:t" FFFD "|args={}"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_envelopes list = reads(FW, rows[i].json, REPAIR);
        describes(&list, rows[i].fields);
        ms_str text = round_trip(FW, rows[i].json, REPAIR);
        assert_int_equal(ms_json_check(text, NULL, NULL, NULL), MS_OK);
        refused(FW, ms_str_of(rows[i].json), LENIENT, MS_E_UTF8, NULL);
    }
}

/* Bad bytes inside JSON that is kept as JSON: written text is valid all the same. */
static void repaired_inside_json(void **state)
{
    (void)state;
    static const struct {
        const char *dialect, *json, *expected;
    } rows[] = {
        {FW, "{\"type\":\"task\",\"content\":[\"\xff\",\"\\ud800\"]}",
         "{\"type\":\"task\",\"content\":[\"" FFFD "\",\"" FFFD "\"]}"},
        {FW, "{\"type\":\"action\",\"tool\":\"t\",\"args\":{\"k\xe9\":\"\\udfff\"}}",
         "{\"type\":\"action\",\"tool\":\"t\",\"args\":{\"k" FFFD "\":\"" FFFD "\"}}"},
        {FW, "{\"type\":\"task\",\"content\":\"x\",\"\\udc00\":\"\xc3\"}",
         "{\"type\":\"task\",\"content\":\"x\",\"" FFFD "\":\"" FFFD "\"}"},
        {OA, "{\"role\":\"user\",\"content\":[{\"type\":\"\xff\"}],\"n\":\"\\ud800\"}",
         "{\"role\":\"user\",\"content\":[{\"type\":\"" FFFD "\"}],\"n\":\"" FFFD "\"}"},
        {OA, "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"\xff\","
             "\"type\":\"function\",\"x\":\"\\ud800\",\"function\":{\"name\":\"\xff\","
             "\"arguments\":\"{\\\"\xff\\\":1}\"}}]}",
         "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"" FFFD "\","
         "\"type\":\"function\",\"x\":\"" FFFD "\",\"function\":{\"name\":\"" FFFD "\","
         "\"arguments\":\"{\\\"" FFFD "\\\":1}\"}}]}"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        same_json(round_trip(rows[i].dialect, rows[i].json, REPAIR),
                  ms_str_of(rows[i].expected), 0);
        refused(rows[i].dialect, ms_str_of(rows[i].json), STRICT, MS_E_UTF8, NULL);
    }
}

/* The message itself is one level, a list one more. */
static void nesting_has_a_limit(void **state)
{
    (void)state;
    static char text[8 * MS_JSON_MAX_DEPTH];
    for (unsigned list = 0; list <= 1; list++) {
        const size_t most = MS_FIELD_MAX_DEPTH + 1 + list;
        for (size_t depth = most - 3; depth <= most + 1; depth++) {
            size_t inner = depth - 1 - list, n;
            n = (size_t)sprintf(text, "%s{\"type\":\"task\",\"content\":",
                                list ? "[" : "");
            memset(text + n, '[', inner);
            memset(text + n + inner, ']', inner);
            strcpy(text + n + 2 * inner, list ? "}]" : "}");
            if (depth <= most) {
                same_json(round_trip(FW, text, STRICT), ms_str_of(text), 0);
            } else {
                refused(FW, ms_str_of(text), STRICT, MS_E_DEPTH, NULL);
                refused(FW, ms_str_of(text), LENIENT | REPAIR, MS_E_DEPTH, NULL);
            }
        }
    }
    static char deep[200001];
    memset(deep, '[', sizeof deep - 1);
    refused(FW, ms_str_of(deep), LENIENT, MS_E_DEPTH, NULL);
}


/* ---- lenient ---- */

static const struct {
    const char *dialect, *json;
    ms_type type;             /* of the first envelope */
} lenient_rows[] = {
    {FW, "{\"type\":\"heartbeat\",\"content\":\"x\",\"n\":[1.0]}", MS_T_OTHER},
    {FW, "{\"type\":\"Task\",\"content\":{}}", MS_T_OTHER},
    {FW, "{\"type\":\"text\",\"content\":\"x\"}", MS_T_NONE},
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"agent_key\":\"\"}", MS_T_TASK},
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"location\":\"\"}", MS_T_TASK},
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"location\":[]}", MS_T_TASK},
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"timestamp\":\"yesterday\"}", MS_T_TASK},
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"turn_id\":7}", MS_T_TASK},
    {FW, "{\"type\":\"task\",\"content\":\"x\",\"turn_id\":\"a\\u0000b\"}", MS_T_TASK},
    {FW, "{\"type\":\"error\",\"content\":\"x\",\"error_type\":{\"a\":[]}}", MS_T_ERROR},
    {FW, "{\"type\":\"action\",\"tool\":\"t\",\"args\":[1]}", MS_T_ACTION},
    {FW, "{\"type\":\"action\",\"tool\":\"t\",\"args\":null}", MS_T_ACTION},
    {FW, "{\"type\":\"action\",\"tool\":3,\"args\":{}}", MS_T_ACTION},
    {FW, "{\"type\":\"synthesis\",\"content\":1,\"from_manager\":2}", MS_T_SYNTHESIS},
    {OA, "{\"role\":\"narrator\",\"content\":\"x\"}", MS_T_NONE},
    {OA, "{\"role\":\"user\",\"content\":1}", MS_T_USER_MESSAGE},
    {OA, "{\"role\":\"user\",\"content\":{\"parts\":[1.0]}}", MS_T_USER_MESSAGE},
    {OA, "{\"role\":\"user\",\"content\":[]}", MS_T_USER_MESSAGE},
    {OA, "{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":[{\"text\":1}]}",
     MS_T_OBSERVATION},
    {OA, "{\"role\":\"assistant\",\"content\":[],\"tool_calls\":[" CALL("c", "f", "{}")
         "]}", MS_T_NONE},
    {OA, "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":7,"
         "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}",
     MS_T_NONE},
    {OA, "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c\","
         "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"a\":1}}}]}",
     MS_T_NONE},
    {OA, "{\"role\":\"tool\",\"tool_call_id\":3,\"content\":\"x\"}", MS_T_OBSERVATION},
    {OA, "{\"role\":\"assistant\",\"content\":\"x\",\"tool_calls\":{}}",
     MS_T_ASSISTANT_MESSAGE},
    {OA, "{\"role\":\"assistant\",\"content\":\"x\",\"tool_calls\":\"none\"}",
     MS_T_ASSISTANT_MESSAGE},
};

/* Words that are not known and members of a wrong kind come back as they were. */
static void lenient_brings_all_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(lenient_rows); i++) {
        ms_str json = ms_str_of(lenient_rows[i].json);
        ms_envelopes list = reads(lenient_rows[i].dialect, lenient_rows[i].json, LENIENT);
        assert_true(list.count > 0);
        if (lenient_rows[i].type != MS_T_NONE) {
            assert_int_equal(list.items[0].type, lenient_rows[i].type);
        }
        const char *name = lenient_rows[i].dialect;
        ms_envelopes none;
        ms_error err;
        same_json(round_trip(name, lenient_rows[i].json, LENIENT), json, 0);
        assert_int_not_equal(read_n(name, json, STRICT, &none, &err), MS_OK);
    }
}

/* Every word that the framework writer has is read strictly, too; but not "text", which
 * is a user_message or assistant_message there, nor a word of nobody. */
static void words_of_all_types_are_read(void **state)
{
    (void)state;
    for (int type = 1; type < MS_TYPE_COUNT; type++) {
        ms_envelope m;
        ms_envelopes list = {&m, 1}, back;
        ms_error err;
        memset(&m, 0, sizeof m);
        m.type = (ms_type)type;
        m.content = ms_text("x");
        m.tool = m.worker = m.task = m.from_manager = m.summary = MS_STR("w");
        if (type == MS_T_ACTION) m.args = ms_json(MS_STR("{}"));
        if (type == MS_T_OTHER) m.type_name = MS_STR("heartbeat");
        ms_str text = written(FW, &list, true);
        if (type == MS_T_OTHER) {
            assert_int_equal(read_n(FW, text, STRICT, &back, &err), MS_E_TYPE);
            continue;
        }
        if (read_n(FW, text, STRICT, &back, &err) != MS_OK)
            fail_msg("%.*s\n%s: %s", (int)text.len, text.ptr, err.path, err.message);
        assert_int_equal(back.count, 1);
        if (type != MS_T_TEXT) assert_int_equal(back.items[0].type, type);
        same_text(written(FW, &back, true), text);
    }
}

/* A time that nanoseconds do not hold is the latest one, and is kept as it is spelled. */
static void a_late_time_is_the_latest(void **state)
{
    (void)state;
    static const char *const json =
        "{\"type\":\"task\",\"content\":\"x\",\"timestamp\":1e999}";
    ms_envelopes list = reads(FW, json, STRICT);
    assert_true(list.items[0].has_time && list.items[0].time_ns == INT64_MAX);
    same_text(round_trip(FW, json, STRICT), ms_str_of(json));
}

/* Required members that are not there become neutral ones: a store takes the message. */
static void lenient_fills_in(void **state)
{
    (void)state;
    static const struct {
        const char *dialect, *json, *fields;
    } rows[] = {
        {FW, "{\"type\":\"task\"}", "task|content:"},
        {FW, "{\"type\":\"action\"}", "action|tool:|args={}"},
        {FW, "{\"type\":\"delegation\"}", "delegation|worker:|task:"},
        {FW, "{\"type\":\"synthesis\",\"mid\":2}",
         "synthesis|content:|from_manager:"},
        {FW, "{\"type\":\"observation\"}", "observation|content=null"},
        {FW, "{\"type\":\"heartbeat\"}", "other|content:|type_name:heartbeat"},
        {OA, "{\"role\":\"user\"}", "user_message|content=null"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_envelopes list = reads(rows[i].dialect, rows[i].json, LENIENT);
        ms_error err;
        describes(&list, rows[i].fields);
        assert_int_equal(ms_envelope_check(&list.items[0], &err), MS_OK);
    }
}


/* ---- random messages ---- */

static uint64_t rng;

static bool chance(unsigned percent)
{
    return test_below(&rng, 100) < percent;
}

static json_t *random_text(size_t most)
{
    static const char *const pieces[] = {
        "a", "Z", " ", "0", "\"", "\\", "/", "\n", "\t", "\x01", "\x1f", "\x7f", "{", "}",
        "[", ",", ":", "null", "\xc3\xa9", "\xe2\x82\xac", "\xe2\x80\xa8",
        "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf", "\xef\xbf\xbd", "\xed\x9f\xbf", "word ",
    };
    char text[256] = "";
    size_t n = (size_t)test_below(&rng, most + 1), len = 0;
    for (size_t i = 0; i < n; i++) {
        const char *piece = pieces[test_below(&rng, COUNT(pieces))];
        if (len + strlen(piece) >= sizeof text) break;
        memcpy(text + len, piece, strlen(piece));
        len += strlen(piece);
        if (test_one_in(&rng, 60) && len < sizeof text - 1) text[len++] = '\0';
    }
    return json_stringn(text, len);
}

/* An id or a name: often one that was there before. */
static json_t *random_name(void)
{
    static const char *const names[] = {"c1", "c2", "call_1", "f", "\xc3\xa9 \""};
    if (chance(60)) return json_string(names[test_below(&rng, COUNT(names))]);
    return random_text(3);
}

static json_t *random_number(void)
{
    switch (test_below(&rng, 6)) {
    case 0: return json_integer((json_int_t)test_below(&rng, 100));
    case 1: return json_integer((json_int_t)test_random(&rng));
    case 2: return json_integer(-(json_int_t)test_below(&rng, 100));
    case 3: return json_real((double)test_below(&rng, 1000));
    case 4: return json_real((double)(int64_t)test_random(&rng) / 3.0);
    default: return json_real(1.0 / (1.0 + (double)test_random(&rng)));
    }
}

static void random_members(json_t *object, unsigned depth);

static json_t *random_value(unsigned depth)
{
    switch (test_below(&rng, depth > 0 ? 8 : 5)) {
    case 0: return json_null();
    case 1: return json_boolean(chance(50));
    case 2: return random_number();
    case 3:
    case 4: return random_text(8);
    case 5: {
        json_t *list = json_array();
        size_t n = (size_t)test_below(&rng, 4);
        while (n-- > 0) json_array_append_new(list, random_value(depth - 1));
        return list;
    }
    default: {
        json_t *object = json_object();
        random_members(object, depth - 1);
        return object;
    }
    }
}

static const char *const some_names[] = {
    "a", "b", "", "id", "mid", "seq", "key", "role", "name", "extra", "time", "step",
    "\xc3\xa9", "a.b", "a b", "\"", "\\", "\n", "joined", "flags", "index", "message",
};

/* Members that no format knows; never over one that is there. */
static void random_members(json_t *object, unsigned depth)
{
    size_t n = (size_t)test_below(&rng, 4);
    while (n-- > 0) {
        const char *name = some_names[test_below(&rng, COUNT(some_names))];
        if (json_object_get(object, name) == NULL) {
            json_object_set_new(object, name, random_value(depth));
        }
    }
}

/* A member of the format: most often a text, now and then empty or null. */
static void may_set(json_t *object, const char *name, unsigned percent, json_t *value)
{
    if (!chance(percent)) {
        json_decref(value);
        return;
    }
    if (chance(10)) {
        json_decref(value);
        value = chance(50) ? json_null() : json_string("");
    }
    json_object_set_new(object, name, value);
}

static json_t *random_object(void)
{
    json_t *object = json_object();
    random_members(object, 2);
    return object;
}

static json_t *random_framework(void)
{
    static const char *const types[] = {
        "user_message",      "assistant_message", "task",           "action",
        "observation",       "error",             "final",          "synthesis",
        "strategic_plan",    "suggested_plan",    "script_plan",    "script_instruction",
        "director_context",  "injected_context",  "global_observation", "delegation",
    };
    json_t *m = json_object();
    const char *type = types[test_below(&rng, COUNT(types))];
    bool action = strcmp(type, "action") == 0;
    bool delegation = strcmp(type, "delegation") == 0;
    if (chance(30)) random_members(m, 3);
    json_object_set_new(m, "type", json_string(type));
    if (action) {
        json_object_set_new(m, "tool", random_text(3));
        json_object_set_new(m, "args", random_object());
    } else if (delegation) {
        json_object_set_new(m, "worker", random_text(3));
        json_object_set_new(m, "task", random_text(9));
    }
    if ((!action && !delegation) || chance(5)) {
        json_object_set_new(m, "content", chance(50) ? random_text(20) : random_value(3));
    }
    if (strcmp(type, "synthesis") == 0 || chance(3)) {
        json_object_set_new(m, "from_manager", random_text(3));
    }
    if (chance(60)) {
        json_object_set_new(m, "timestamp", chance(5) ? json_null() : random_number());
    }
    may_set(m, "turn_id", 50, json_string("turn_1"));
    may_set(m, "error_type", 10, random_text(3));
    may_set(m, "phase_id", 10, chance(50) ? random_number() : random_text(2));
    may_set(m, "from_worker", 10, random_text(3));
    may_set(m, "summary", 10, random_text(9));
    if (chance(30)) random_members(m, 3);
    return m;
}

static json_t *random_parts(void)
{
    json_t *parts = json_array();
    for (size_t n = 1 + (size_t)test_below(&rng, 3); n > 0; n--) {
        json_t *part = random_object();
        json_object_set_new(part, "type", json_string("text"));
        json_object_set_new(part, "text", random_text(9));
        json_array_append_new(parts, part);
    }
    return parts;
}

static json_t *random_arguments(void)
{
    json_t *object, *text;
    char *json;
    if (chance(15)) return random_text(6);
    object = random_object();
    json = json_dumps(object, chance(50) ? JSON_COMPACT : JSON_ENSURE_ASCII);
    text = json_string(json);
    free(json);
    json_decref(object);
    return text;
}

static json_t *random_call(void)
{
    json_t *call = chance(20) ? random_object() : json_object();
    json_t *function = chance(20) ? random_object() : json_object();
    json_object_set_new(function, "name", random_name());
    json_object_set_new(function, "arguments", random_arguments());
    json_object_set_new(call, "id", random_name());
    json_object_set_new(call, "type", json_string("function"));
    json_object_set_new(call, "function", function);
    return call;
}

static void random_assistant(json_t *m)
{
    size_t calls = chance(50) ? (size_t)test_below(&rng, 4) : 0;
    unsigned content = (unsigned)test_below(&rng, calls > 0 ? 4 : 3);
    if (content == 0) json_object_set_new(m, "content", random_text(20));
    if (content == 1) json_object_set_new(m, "content", json_null());
    if (content == 2) json_object_set_new(m, "content", random_parts());
    if (calls > 0 || chance(10)) {
        json_t *list = json_array();
        while (calls-- > 0) json_array_append_new(list, random_call());
        json_object_set_new(m, "tool_calls", list);
    }
}

static json_t *random_openai(void)
{
    static const char *const roles[] = {"user",   "assistant", "assistant", "assistant",
                                        "system", "developer", "tool",      "function"};
    json_t *m = json_object();
    const char *role = roles[test_below(&rng, COUNT(roles))];
    static const char *const names[] = {"refusal", "audio", "thought", "agent", "k"};
    json_object_set_new(m, "role", json_string(role));
    if (strcmp(role, "assistant") == 0) random_assistant(m);
    else json_object_set_new(m, "content", chance(80) ? random_text(20) : random_parts());
    if (strcmp(role, "tool") == 0 && chance(90)) {
        json_object_set_new(m, "tool_call_id", random_name());
    }
    if (chance(20) || strcmp(role, "function") == 0) {
        json_object_set_new(m, "name", random_name());
    }
    for (size_t i = 0; i < COUNT(names); i++) {
        if (chance(10)) json_object_set_new(m, names[i], random_value(3));
    }
    return m;
}

static char *dumped(json_t *value)
{
    size_t flags = chance(50) ? JSON_COMPACT : JSON_INDENT(1);
    if (chance(50)) flags |= JSON_ENSURE_ASCII;
    if (chance(30)) flags |= JSON_SORT_KEYS;
    char *text = json_dumps(value, flags | JSON_REAL_PRECISION(17));
    assert_non_null(text);
    return text;
}

/* One message, or now and then a list of them. */
static void random_messages(const char *name, json_t *(*make)(void), size_t n)
{
    rng = test_seed();
    for (size_t i = 0; i < n; i++) {
        json_t *value = make();
        if (test_one_in(&rng, 10)) {
            json_t *list = json_array();
            json_array_append_new(list, value);
            for (size_t k = (size_t)test_below(&rng, 6); k > 0; k--) {
                json_array_append_new(list, make());
            }
            value = list;
        }
        char *text = dumped(value);
        same_json(round_trip(name, text, STRICT), ms_str_of(text), 0);
        if (test_one_in(&rng, 4)) {
            same_json(round_trip(name, text, LENIENT | REPAIR), ms_str_of(text), 0);
        }
        free(text);
        json_decref(value);
        ms_arena_reset(&arena);
    }
}

static void random_framework_messages(void **state)
{
    (void)state;
    random_messages(FW, random_framework, test_times(20000));
}

static void random_openai_messages(void **state)
{
    (void)state;
    random_messages(OA, random_openai, test_times(20000));
}

/* Is all that the source has in what came back? A lenient reader fills in: there may be
 * more. */
static bool contains(json_t *got, json_t *source)
{
    const char *key;
    json_t *value;
    size_t i;
    if (json_is_array(source)) {
        json_array_foreach (source, i, value) {
            if (!contains(json_array_get(got, i), value)) return false;
        }
        return json_array_size(got) == json_array_size(source);
    }
    if (!json_is_object(source)) return json_same(got, source, 0, NULL);
    json_object_foreach (source, key, value) {
        if (!contains(json_object_get(got, key), value)) return false;
    }
    return true;
}

static void expect_contains(ms_str got, json_t *source)
{
    json_t *back = json_parse_n(got.ptr, got.len);
    bool all = back != NULL && contains(back, source);
    json_decref(back);
    if (all) return;
    char *text = json_dumps(source, JSON_COMPACT);
    fail_msg("   got %.*s\nsource %s", (int)got.len, got.ptr, text);
}

/* Texts with a byte changed or lost, or cut: refused, or read and then brought back. */
static void mangled_messages(void **state)
{
    (void)state;
    size_t taken = 0, n = test_times(20000);
    rng = test_seed() + 1;
    for (size_t i = 0; i < n; i++) {
        bool chat = chance(50);
        json_t *value = chat ? random_openai() : random_framework();
        char *text = dumped(value);
        size_t len = strlen(text), at = (size_t)test_below(&rng, len);
        unsigned how = (unsigned)test_below(&rng, 4);
        ms_envelopes list;
        ms_error err;
        if (chance(60)) text[at] = (char)test_random(&rng);
        else if (chance(50)) len = at;
        else memmove(text + at, text + at + 1, --len - at);
        char *exact = (char *)malloc(len + 1); /* a read beyond it shows */
        memcpy(exact, text, len);
        json_t *now = json_parse_n(exact, len);
        if (read_n(chat ? OA : FW, ms_str_n(exact, len), how, &list, &err) == MS_OK) {
            bool array = is_list(ms_str_n(exact, len));
            ms_str back = written(chat ? OA : FW, &list, array);
            if (now != NULL && (how & LENIENT) != 0) expect_contains(back, now);
            else if (now != NULL) same_json(back, ms_str_n(exact, len), 0);
            taken++;
        } else {
            assert_null(list.items);
            assert_int_equal(list.count, 0);
        }
        json_decref(now);
        json_decref(value);
        free(exact);
        free(text);
        ms_arena_reset(&arena);
    }
    assert_true(taken > n / 20);
}


/* ---- from one format to the other ---- */

static ms_str crossed(const char *from, const char *to, const char *json)
{
    ms_envelopes list = reads(from, json, STRICT);
    return written(to, &list, is_list(ms_str_of(json)));
}

#define CALLED(id, name, arguments)                                                     \
    "{\"role\":\"assistant\",\"tool_calls\":[" CALL(id, name, arguments) "]}"
#define ACTION(name) "{\"type\":\"action\",\"tool\":\"" name "\",\"args\":{}}"
#define ANSWER(id, text)                                                                \
    "{\"role\":\"tool\",\"tool_call_id\":\"" id "\",\"content\":\"" text "\"}"

/* The table of the essay, and which call a result answers. */
static const struct {
    const char *from, *json, *to, *expected;
} cross_rows[] = {
    {FW, "{\"type\":\"user_message\",\"content\":\"hi\"}",
     OA, "{\"role\":\"user\",\"content\":\"hi\"}"},
    {FW, "{\"type\":\"task\",\"content\":\"do\"}",
     OA, "{\"role\":\"user\",\"content\":\"do\"}"},
    {FW, "{\"type\":\"script_instruction\",\"content\":\"do\"}",
     OA, "{\"role\":\"user\",\"content\":\"do\"}"},
    {FW, "{\"type\":\"assistant_message\",\"content\":\"a\"}",
     OA, "{\"role\":\"assistant\",\"content\":\"a\"}"},
    {FW, "{\"type\":\"final\",\"content\":\"a\"}",
     OA, "{\"role\":\"assistant\",\"content\":\"a\"}"},
    {FW, "{\"type\":\"strategic_plan\",\"content\":{\"phases\":[1.0]}}",
     OA, "{\"role\":\"assistant\",\"content\":\"{\\\"phases\\\":[1.0]}\"}"},
    {FW, "{\"type\":\"suggested_plan\",\"content\":\"p\"}",
     OA, "{\"role\":\"assistant\",\"content\":\"p\"}"},
    {FW, "{\"type\":\"script_plan\",\"content\":\"p\"}",
     OA, "{\"role\":\"assistant\",\"content\":\"p\"}"},
    {FW, "{\"type\":\"director_context\",\"content\":\"c\"}",
     OA, "{\"role\":\"system\",\"content\":\"c\"}"},
    {FW, "{\"type\":\"injected_context\",\"content\":\"c\"}",
     OA, "{\"role\":\"system\",\"content\":\"c\"}"},
    {FW, "{\"type\":\"delegation\",\"worker\":\"w\",\"task\":\"sum\"}",
     OA, "{\"role\":\"assistant\",\"content\":\"Delegated to w: sum\"}"},
    {FW, "{\"type\":\"synthesis\",\"content\":\"all\",\"from_manager\":\"m\"}",
     OA, "{\"role\":\"user\",\"content\":\"[m] all\"}"},
    {FW, "{\"type\":\"global_observation\",\"content\":\"o\",\"from_worker\":\"w\"}",
     OA, "{\"role\":\"user\",\"content\":\"[w] o\"}"},
    {FW, "{\"type\":\"global_observation\",\"content\":\"o\"}",
     OA, "{\"role\":\"user\",\"content\":\"o\"}"},
    {FW, "{\"type\":\"global_observation\",\"content\":{\"n\":1},\"from_worker\":\"w\","
         "\"summary\":\"in short\"}",
     OA, "{\"role\":\"user\",\"content\":\"[w] in short\"}"},
    {FW, "[" ACTION("f") "]", OA, "[" CALLED("call_1", "f", "{}") "]"},
    {FW, "{\"type\":\"observation\",\"content\":\"o\"}",
     OA, "{\"role\":\"user\",\"content\":\"Observation: o\"}"},
    {FW, "{\"type\":\"error\",\"content\":\"e\"}",
     OA, "{\"role\":\"user\",\"content\":\"Error: e\"}"},
    {FW, "{\"type\":\"user_message\",\"content\":\"x\",\"role\":7,\"k\":1.0}",
     OA, "{\"role\":\"user\",\"content\":\"x\"}"},
    /* results in the order of the calls */
    {FW, "[" ACTION("f") "," ACTION("g") ",{\"type\":\"observation\",\"content\":\"F\"},"
         "{\"type\":\"error\",\"content\":\"G\"},"
         "{\"type\":\"observation\",\"content\":\"H\"}]",
     OA, "[" CALLED("call_1", "f", "{}") "," CALLED("call_2", "g", "{}") ","
         ANSWER("call_1", "F") "," ANSWER("call_2", "G") ","
         "{\"role\":\"user\",\"content\":\"Observation: H\"}]"},
    /* a call left open is closed when its agent has got a result and calls again */
    {FW, "[" ACTION("f") "," ACTION("g") ",{\"type\":\"observation\",\"content\":\"F\"},"
         ACTION("h") ",{\"type\":\"observation\",\"content\":\"H\"}]",
     OA, "[" CALLED("call_1", "f", "{}") "," CALLED("call_2", "g", "{}") ","
         ANSWER("call_1", "F") "," CALLED("call_4", "h", "{}") ","
         ANSWER("call_4", "H") "]"},
    /* each agent has its own calls */
    {FW, "[{\"type\":\"action\",\"tool\":\"f\",\"args\":{},\"agent_key\":\"a\"},"
         "{\"type\":\"action\",\"tool\":\"g\",\"args\":{},\"agent_key\":\"b\"},"
         "{\"type\":\"observation\",\"content\":\"G\",\"agent_key\":\"b\"},"
         "{\"type\":\"observation\",\"content\":\"none\"},"
         "{\"type\":\"observation\",\"content\":\"F\",\"agent_key\":\"a\"}]",
     OA, "[" CALLED("call_1", "f", "{}") "," CALLED("call_2", "g", "{}") ","
         ANSWER("call_2", "G") ",{\"role\":\"user\",\"content\":\"Observation: none\"},"
         ANSWER("call_1", "F") "]"},
    {FW, "[{\"type\":\"action\",\"tool\":\"f\",\"args\":{},\"agent_key\":\"a\"},"
         "{\"type\":\"action\",\"tool\":\"g\",\"args\":{},\"agent_key\":\"a\"},"
         "{\"type\":\"observation\",\"content\":\"F\",\"agent_key\":\"a\"},"
         "{\"type\":\"action\",\"tool\":\"h\",\"args\":{},\"agent_key\":\"b\"},"
         "{\"type\":\"observation\",\"content\":\"G\",\"agent_key\":\"a\"}]",
     OA, "[" CALLED("call_1", "f", "{}") "," CALLED("call_2", "g", "{}") ","
         ANSWER("call_1", "F") "," CALLED("call_4", "h", "{}") ","
         ANSWER("call_2", "G") "]"},
    /* and each turn */
    {FW, "[{\"type\":\"action\",\"tool\":\"f\",\"args\":{},\"turn_id\":\"1\"},"
         "{\"type\":\"observation\",\"content\":\"x\",\"turn_id\":\"2\"},"
         "{\"type\":\"observation\",\"content\":\"F\",\"turn_id\":\"1\"}]",
     OA, "[" CALLED("call_1", "f", "{}") ","
         "{\"role\":\"user\",\"content\":\"Observation: x\"},"
         ANSWER("call_1", "F") "]"},
    /* ids that are there stay, also repeated ones */
    {FW, "[{\"type\":\"action\",\"tool\":\"f\",\"args\":{},\"tool_call_id\":\"7\"},"
         "{\"type\":\"observation\",\"content\":\"F\"},"
         "{\"type\":\"action\",\"tool\":\"g\",\"args\":{},\"tool_call_id\":\"7\"},"
         "{\"type\":\"observation\",\"content\":\"G\",\"tool_call_id\":\"7\"}]",
     OA, "[" CALLED("7", "f", "{}") "," ANSWER("7", "F") "," CALLED("7", "g", "{}") ","
         ANSWER("7", "G") "]"},
    /* an assistant's text and its calls are one message; calls join no other's */
    {FW, "[{\"type\":\"assistant_message\",\"content\":\"t\"},"
         "{\"type\":\"action\",\"tool\":\"f\",\"args\":{},\"joined\":true},"
         "{\"type\":\"action\",\"tool\":\"g\",\"args\":{\"a\":1},\"joined\":true}]",
     OA, "[{\"role\":\"assistant\",\"content\":\"t\",\"tool_calls\":["
         CALL("call_2", "f", "{}") "," CALL("call_3", "g", "{\\\"a\\\":1}") "]}]"},
    {FW, "[{\"type\":\"user_message\",\"content\":\"u\"},"
         "{\"type\":\"action\",\"tool\":\"f\",\"args\":{},\"joined\":true}]",
     OA, "[{\"role\":\"user\",\"content\":\"u\"}," CALLED("call_2", "f", "{}") "]"},
    {FW, "[{\"type\":\"action\",\"tool\":\"f\",\"args\":{},\"joined\":true},"
         "{\"type\":\"observation\",\"content\":\"F\"},"
         "{\"type\":\"action\",\"tool\":\"g\",\"args\":{},\"joined\":true}]",
     OA, "[" CALLED("call_1", "f", "{}") "," ANSWER("call_1", "F") ","
         CALLED("call_3", "g", "{}") "]"},
    /* and back */
    {OA, "{\"role\":\"system\",\"content\":\"c\"}",
     FW, "{\"type\":\"injected_context\",\"content\":\"c\",\"role\":\"system\"}"},
    {OA, "{\"role\":\"developer\",\"content\":\"c\"}",
     FW, "{\"type\":\"injected_context\",\"content\":\"c\",\"role\":\"developer\"}"},
    {OA, "[{\"role\":\"assistant\",\"content\":\"t\",\"tool_calls\":["
         CALL("1", "f", "{\\\"a\\\": 1.0}") "," CALL("2", "g", "no") "]},"
         "{\"role\":\"tool\",\"tool_call_id\":\"2\",\"name\":\"g\",\"content\":\"G\"}]",
     FW, "[{\"type\":\"assistant_message\",\"content\":\"t\"},"
         "{\"type\":\"action\",\"tool\":\"f\",\"args\":{\"a\":1.0},"
         "\"tool_call_id\":\"1\",\"joined\":true},"
         "{\"type\":\"action\",\"tool\":\"g\",\"args\":\"no\","
         "\"tool_call_id\":\"2\",\"joined\":true},"
         "{\"type\":\"observation\",\"content\":\"G\",\"tool\":\"g\","
         "\"tool_call_id\":\"2\"}]"},
};

static void what_each_becomes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cross_rows); i++) {
        same_json(crossed(cross_rows[i].from, cross_rows[i].to, cross_rows[i].json),
                  ms_str_of(cross_rows[i].expected), 0);
    }
}

/* The id that a call is given follows from its sequence number: the same whenever it is
 * written. */
static void ids_from_the_sequence(void **state)
{
    (void)state;
    ms_envelope pair[2];
    ms_envelopes list = {pair, 2};
    pair[0] = ms_action(MS_STR("f"), ms_json(MS_STR("{}")), ms_str_of(NULL));
    pair[0].seq = 42;
    pair[1] = ms_observation(ms_json(MS_STR("{\"n\": 1}")), ms_str_of(NULL));
    pair[1].seq = 43;
    same_json(written_encoded(OA, &list, true),
              MS_STR("[" CALLED("call_42", "f", "{}") ","
                     ANSWER("call_42", "{\\\"n\\\": 1}") "]"), 0);
}

/* Two stores that are read as one history number their messages alike. */
static void ids_are_never_the_same(void **state)
{
    (void)state;
    ms_envelope four[4];
    ms_envelopes list = {four, 4};
    for (size_t i = 0; i < 4; i += 2) {
        four[i] = ms_action(MS_STR("f"), ms_json(MS_STR("{}")), ms_str_of(NULL));
        four[i].seq = 1;
        four[i + 1] = ms_observation(ms_text(i ? "second" : "first"), ms_str_of(NULL));
        four[i + 1].seq = 2;
    }
    same_json(written_encoded(OA, &list, true),
              MS_STR("[" CALLED("call_1", "f", "{}") "," ANSWER("call_1", "first") ","
                     CALLED("call_2", "f", "{}") "," ANSWER("call_2", "second") "]"), 0);
}

/* A call joins the message right before it, not one that a view has brought together. */
static void calls_join_their_neighbour(void **state)
{
    (void)state;
    ms_envelope pair[2];
    ms_envelopes list = {pair, 2};
    pair[0] = ms_assistant_message(ms_text("t"));
    pair[1] = ms_action(MS_STR("f"), ms_json(MS_STR("{}")), ms_str_of(NULL));
    pair[1].flags = MS_FLAG_JOINED;
    pair[0].seq = 6;
    pair[1].seq = 7;
    same_json(written_encoded(OA, &list, true),
              MS_STR("[{\"role\":\"assistant\",\"content\":\"t\",\"tool_calls\":["
                     CALL("call_7", "f", "{}") "]}]"), 0);
    pair[1].seq = 8;
    same_json(written_encoded(OA, &list, true),
              MS_STR("[{\"role\":\"assistant\",\"content\":\"t\"},"
                     CALLED("call_8", "f", "{}") "]"), 0);
}

/* Envelopes that no reader makes. */
static void built_by_hand(void **state)
{
    (void)state;
    ms_envelope m = ms_user_message(ms_json(MS_STR("\"a\\u0062\\n\"")));
    ms_envelopes list = {&m, 1};
    same_json(written(OA, &list, false),
              MS_STR("{\"role\":\"user\",\"content\":\"ab\\n\"}"), 0);
    same_json(written(FW, &list, false),
              MS_STR("{\"type\":\"user_message\",\"content\":\"ab\\n\"}"), 0);
    m = ms_observation(ms_json(MS_STR("\"a\\u0062\\n\"")), ms_str_of(NULL));
    same_json(written(OA, &list, false),
              MS_STR("{\"role\":\"user\",\"content\":\"Observation: ab\\n\"}"), 0);
    m = ms_message(MS_T_TASK, ms_text("x"));
    m.role = MS_ROLE_SYSTEM;
    m.extra = MS_STR("{\"role\":7,\"type\":8,\"content\":9,\"k\":1}");
    same_json(written(FW, &list, false),
              MS_STR("{\"type\":\"task\",\"content\":\"x\",\"role\":\"system\",\"k\":1}"), 0);
    m = test_other(MS_STR("heartbeat"), ms_text("x"));
    same_json(written(FW, &list, false),
              MS_STR("{\"type\":\"heartbeat\",\"content\":\"x\"}"), 0);
    m.type_name = MS_STR("");
    ms_writer w;
    ms_buf buf;
    ms_error err;
    memset(&buf, 0, sizeof buf);
    buf.arena = &arena;
    ms_writer_init(&w, dialect(FW), NULL, &arena, ms_buf_write, &buf);
    assert_int_equal(ms_writer_put(&w, &m, &err), MS_E_TYPE);
    m = ms_message(MS_T_TASK, ms_text("x"));
    assert_int_equal(ms_writer_put(&w, &m, &err), MS_OK);
    assert_int_equal(ms_writer_finish(&w, &err), MS_OK);
    same_json(ms_buf_text(&buf), MS_STR("{\"type\":\"task\",\"content\":\"x\"}"), 0);
}

/* Chat messages by way of the framework: equal, arguments as JSON. */
static void random_crossings(void **state)
{
    (void)state;
    rng = test_seed() + 2;
    for (size_t n = test_times(20000); n > 0; n--) {
        json_t *list = json_array();
        for (size_t k = (size_t)test_below(&rng, 6); k > 0; k--) {
            json_array_append_new(list, random_openai());
            /* an empty name of a tool is none to the framework */
            json_t *last = json_array_get(list, json_array_size(list) - 1);
            if (json_string_length(json_object_get(last, "name")) == 0) {
                json_object_del(last, "name");
            }
        }
        char *text = dumped(list);
        ms_str middle = crossed(OA, FW, text);
        ms_envelopes back;
        ms_error err;
        if (read_n(FW, middle, STRICT, &back, &err) != MS_OK) {
            fail_msg("%.*s\n%s: %s", (int)middle.len, middle.ptr, err.path, err.message);
        }
        same_json(written(OA, &back, true), ms_str_of(text), JSON_ARGUMENTS);
        free(text);
        json_decref(list);
        ms_arena_reset(&arena);
    }
}

/* Asked to, a writer adds where a message stands. */
static void with_location(void **state)
{
    (void)state;
    static const struct {
        const char *dialect, *json;
    } rows[] = {
        {FW, "{\"type\":\"task\",\"content\":\"x\",\"k\":1"},
        {OA, "{\"role\":\"user\",\"content\":\"x\",\"k\":1"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char plain[256], placed[256];
        snprintf(plain, sizeof plain, "%s}", rows[i].json);
        snprintf(placed, sizeof placed, "%s,\"location\":\"job\",\"agent_key\":\"w\"}",
                 rows[i].json);
        ms_envelopes list = reads(rows[i].dialect, plain, STRICT);
        list.items[0].location = MS_STR("job");
        list.items[0].agent_key = MS_STR("w");
        same_json(written(rows[i].dialect, &list, false), ms_str_of(plain), 0);
        ms_writer_opts opts = {false, false, true};
        same_json(write_all(rows[i].dialect, &list, &opts, false), ms_str_of(placed), 0);
        same_json(write_all(rows[i].dialect, &list, &opts, true), ms_str_of(placed), 0);
        snprintf(placed, sizeof placed,
                 "%s,\"location\":\"job\",\"agent_key\":\"w\",\"z\":2}", rows[i].json);
        list.items[0].extra = MS_STR("{\"k\":1,\"location\":[1],\"agent_key\":2,\"z\":2}");
        same_json(write_all(rows[i].dialect, &list, &opts, false), ms_str_of(placed), 0);
    }
    ms_envelopes list = reads(FW, "{\"type\":\"task\",\"content\":\"x\","
                                  "\"location\":\"job\",\"agent_key\":\"w\"}", STRICT);
    describes(&list, "task|location:job|agent_key:w|content:x");
}


/* ---- writers, memory ---- */

/* Keeps what comes; from call `fail_at` on it refuses. */
typedef struct sink {
    char text[8192];
    size_t len, calls, fail_at;
} sink;

static ms_result sink_write(void *ctx, const char *bytes, size_t len)
{
    sink *s = (sink *)ctx;
    s->calls++;
    if (s->fail_at != 0 && s->calls >= s->fail_at) return MS_E_IO;
    if (len > sizeof s->text - s->len) return MS_E_FULL;
    memcpy(s->text + s->len, bytes, len);
    s->len += len;
    return MS_OK;
}

static ms_result put_all(sink *s, const char *name, const ms_envelopes *list,
                         const ms_writer_opts *opts, ms_error *err)
{
    ms_writer w;
    ms_result result = MS_OK, end;
    s->len = s->calls = 0;
    ms_writer_init(&w, dialect(name), opts, &arena, sink_write, s);
    for (size_t i = 0; i < list->count && result == MS_OK; i++) {
        result = ms_writer_put(&w, &list->items[i], err);
    }
    end = ms_writer_finish(&w, result == MS_OK ? err : NULL);
    return result != MS_OK ? result : end;
}

static const char *const two_fw =
    "[{\"type\":\"task\",\"content\":\"a\"},{\"type\":\"final\",\"content\":\"b\"}]";
static const char *const two_oa =
    "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\","
    "\"tool_calls\":[" CALL("1", "f", "{}") "," CALL("2", "g", "{}") "]},"
    "{\"role\":\"user\",\"content\":\"c\"}]";

static void lines_and_arrays(void **state)
{
    (void)state;
    static sink s;
    ms_writer_opts opts = {false, false, false};
    ms_error err;
    const char *const names[] = {FW, OA}, *const texts[] = {two_fw, two_oa};
    for (size_t i = 0; i < COUNT(names); i++) {
        ms_envelopes list = reads(names[i], texts[i], STRICT), none = {NULL, 0};
        json_t *all = json_parse_n(texts[i], strlen(texts[i]));
        for (unsigned how = 0; how < 4; how++) {
            opts.array = (how & 1) != 0;
            opts.pretty = (how & 2) != 0;
            assert_int_equal(put_all(&s, names[i], &list, &opts, &err), MS_OK);
            if (opts.array) {
                same_json(ms_str_n(s.text, s.len), ms_str_of(texts[i]), 0);
                assert_int_equal(memchr(s.text, '\n', s.len - 1) != NULL, opts.pretty);
                continue;
            }
            /* one value behind the other */
            size_t at = 0, n = 0;
            while (at < s.len) {
                json_error_t where;
                json_t *one = json_loadb(s.text + at, s.len - at,
                                         JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, &where);
                assert_true(json_same(one, json_array_get(all, n++), 0, NULL));
                at += (size_t)where.position;
                assert_int_equal(s.text[at++], '\n');
                json_decref(one);
            }
            assert_int_equal(n, json_array_size(all));
        }
        opts.array = opts.pretty = false;
        assert_int_equal(put_all(&s, names[i], &none, &opts, &err), MS_OK);
        assert_int_equal(s.len, 0);
        assert_int_equal(put_all(&s, names[i], &none, NULL, &err), MS_OK);
        assert_int_equal(s.len, 0);
        opts.array = true;
        assert_int_equal(put_all(&s, names[i], &none, &opts, &err), MS_OK);
        same_json(ms_str_n(s.text, s.len), MS_STR("[]"), 0);
        json_decref(all);
    }
}

/* What the function returns that takes the bytes comes back, wherever it fails. */
static void writing_fails(void **state)
{
    (void)state;
    static sink s;
    ms_writer_opts opts = {true, true, false};
    const char *const names[] = {FW, OA}, *const texts[] = {two_fw, two_oa};
    for (size_t i = 0; i < COUNT(names); i++) {
        ms_envelopes list = reads(names[i], texts[i], STRICT);
        ms_error err;
        s.fail_at = 0;
        assert_int_equal(put_all(&s, names[i], &list, &opts, &err), MS_OK);
        for (size_t calls = s.calls, k = 1; k <= calls; k++) {
            s.fail_at = k;
            memset(&err, 0, sizeof err);
            assert_int_equal(put_all(&s, names[i], &list, &opts, &err), MS_E_IO);
            assert_int_equal(err.code, MS_E_IO);
        }
        s.fail_at = 0;
    }
}

/* No message is an error, in every format, and the writer goes on. */
static void no_message_is_refused(void **state)
{
    (void)state;
    const ms_dialect *d;
    for (size_t i = 0; (d = ms_dialect_at(i)) != NULL; i++) {
        ms_envelope m = ms_user_message(ms_text("x"));
        ms_envelopes list = {&m, 1};
        ms_str alone = written(d->name, &list, false);
        ms_writer w;
        ms_buf buf;
        ms_error err;
        memset(&buf, 0, sizeof buf);
        buf.arena = &arena;
        ms_writer_init(&w, d, NULL, &arena, ms_buf_write, &buf);
        assert_int_equal(ms_writer_put(&w, NULL, &err), MS_E_ARGUMENT);
        assert_int_equal(err.code, MS_E_ARGUMENT);
        assert_int_equal(ms_writer_put(&w, &m, &err), MS_OK);
        assert_int_equal(ms_writer_finish(&w, &err), MS_OK);
        same_text(ms_buf_text(&buf), alone);
    }
}

/* Wherever memory ends: a code, nothing half-done, nothing lost. */
static void reading_without_memory(void **state)
{
    (void)state;
    static const struct {
        const char *dialect, *json;
    } rows[] = {
        {FW, "{\"type\":\"task\",\"content\":\"a\\n\",\"k\":1,\"timestamp\":1e9}"},
        {OA, "[{\"role\":\"user\",\"content\":\"\\ta\"},{\"role\":\"assistant\","
             "\"content\":null,\"x\":1,\"tool_calls\":[" CALL("1", "f", "{\\\"a\\\":1}")
             "," CALL("2", "g", "{}") "]}]"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_str json = ms_str_of(rows[i].json);
        for (size_t k = 1;; k++) {
            test_alloc heap;
            ms_arena small;
            ms_envelopes list = {NULL, 7};
            ms_error err;
            test_alloc_init(&heap);
            heap.fail_at = k;
            test_arena_init(&small, &heap.alloc);
            const ms_dialect *d = dialect(rows[i].dialect);
            ms_result result = is_list(json)
                                   ? ms_read_list(d, json, NULL, &small, &list, &err)
                                   : ms_read(d, json, NULL, &small, &list, &err);
            if (result == MS_OK) {
                same_json(written(rows[i].dialect, &list, is_list(json)), json, 0);
            } else {
                assert_int_equal(result, MS_E_NO_MEMORY);
                assert_null(list.items);
                assert_int_equal(list.count, 0);
            }
            ms_arena_deinit(&small);
            test_alloc_done(&heap);
            if (heap.failed == 0) break;
            assert_int_not_equal(result, MS_OK);
        }
    }
}

/* The same with a buffer of the caller's that is too small, down to no arena at all. */
static void reading_in_a_small_buffer(void **state)
{
    (void)state;
    static char room[16384];
    size_t fits = 0;
    for (size_t size = 0; size <= sizeof room && fits == 0; size += 16) {
        ms_arena small;
        ms_envelopes list = {NULL, 7};
        test_arena_init_fixed(&small, room, size);
        ms_result result = ms_read_list(dialect(OA), ms_str_of(two_oa), NULL, &small,
                                        &list, NULL);
        if (result == MS_OK) {
            same_json(written(OA, &list, true), ms_str_of(two_oa), 0);
            fits = size;
        } else {
            assert_true(result == MS_E_ARENA || result == MS_E_NO_MEMORY);
            assert_null(list.items);
            assert_int_equal(list.count, 0);
        }
        ms_arena_deinit(&small);
    }
    assert_true(fits > 0);
}

static void dialects_are_listed(void **state)
{
    (void)state;
    size_t n = 0;
    for (const ms_dialect *d; (d = ms_dialect_at(n)) != NULL; n++) {
        assert_true(ms_dialect_find(ms_str_of(d->name)) == d);
    }
    assert_true(n >= 2);
    assert_null(ms_dialect_at(n));
    assert_null(ms_dialect_at((size_t)-1));
    assert_null(ms_dialect_find(MS_STR("")));
    assert_null(ms_dialect_find(MS_STR("Framework")));
    assert_null(ms_dialect_find(ms_str_n(NULL, 0)));
    assert_string_equal(dialect(FW)->name, FW);
    assert_string_equal(dialect(OA)->name, OA);
}

int main(void)
{
#define WITH_ARENA(test) cmocka_unit_test_setup_teardown(test, open_arena, close_arena)
    const struct CMUnitTest tests[] = {
        WITH_ARENA(fields_come_out),
        WITH_ARENA(back_to_the_byte),
        WITH_ARENA(back_as_json),
        WITH_ARENA(refusals_name_the_place),
        WITH_ARENA(not_json),
        WITH_ARENA(repaired),
        WITH_ARENA(repaired_inside_json),
        WITH_ARENA(nesting_has_a_limit),
        WITH_ARENA(lenient_brings_all_back),
        WITH_ARENA(words_of_all_types_are_read),
        WITH_ARENA(a_late_time_is_the_latest),
        WITH_ARENA(lenient_fills_in),
        WITH_ARENA(random_framework_messages),
        WITH_ARENA(random_openai_messages),
        WITH_ARENA(mangled_messages),
        WITH_ARENA(what_each_becomes),
        WITH_ARENA(ids_from_the_sequence),
        WITH_ARENA(ids_are_never_the_same),
        WITH_ARENA(calls_join_their_neighbour),
        WITH_ARENA(built_by_hand),
        WITH_ARENA(random_crossings),
        WITH_ARENA(with_location),
        WITH_ARENA(lines_and_arrays),
        WITH_ARENA(writing_fails),
        WITH_ARENA(no_message_is_refused),
        WITH_ARENA(reading_without_memory),
        WITH_ARENA(reading_in_a_small_buffer),
        WITH_ARENA(dialects_are_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
