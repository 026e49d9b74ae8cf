/* Task messages: the format "task" (what goes in comes out, what is wrong is refused by
 * its path, messages of other formats come back), deltas joined and merged, conversion
 * for a chat model, and tasks in stores: pages against an array and a loop, in both
 * orders, with filters, while messages are appended. */

#define _POSIX_C_SOURCE 200809L

#include "stores.h"
#include "dialects.h"
#include "json_equal.h"

#include <time.h>


/* ---- helpers ---- */

static ms_result try_read(const char *name, ms_str json, bool lenient, ms_envelopes *out,
                          ms_error *err)
{
    ms_read_opts opts = {false, false};
    opts.lenient = lenient;
    memset(err, 0, sizeof *err);
    return ms_read(dialect(name), json, &opts, &arena, out, err);
}

static ms_envelope reads(const char *name, ms_str json, bool lenient)
{
    ms_envelopes list;
    ms_error err;
    if (try_read(name, json, lenient, &list, &err) != MS_OK)
        fail_msg("%.*s\n%s: %s", (int)json.len, json.ptr, err.path, err.message);
    assert_true(list.count > 0);
    return list.items[0];
}

static ms_str writes(const char *name, const ms_envelope *m, bool place, bool defaults)
{
    ms_writer_opts opts = {false, false, false, false};
    ms_writer w;
    ms_buf buf;
    ms_error err;
    memset(&buf, 0, sizeof buf);
    buf.arena = &arena;
    opts.with_location = place;
    opts.defaults = defaults;
    ms_writer_init(&w, dialect(name), &opts, &arena, ms_buf_write, &buf);
    if (ms_writer_put(&w, m, &err) != MS_OK || ms_writer_finish(&w, &err) != MS_OK)
        fail_msg("%s: %s", err.path, err.message);
    return ms_buf_text(&buf);
}

static void same_json(ms_str got, ms_str expected, unsigned options)
{
    json_where where = {{0}, 0};
    size_t flags = JSON_ALLOW_NUL | JSON_DECODE_ANY | JSON_REJECT_DUPLICATES;
    json_t *a = json_loadb(got.ptr, got.len, flags, NULL);
    json_t *b = json_parse_n(expected.ptr, expected.len);
    bool same = a != NULL && b != NULL && json_same(a, b, options, &where);
    json_decref(a);
    json_decref(b);
    if (!same)
        fail_msg("differ at \"%s\"\n   got %.*s\nexpect %.*s", where.path, (int)got.len,
                 got.ptr, (int)expected.len, expected.ptr);
}

/* The same message after a store: encoded and taken apart again. */
static ms_envelope encoded(const ms_envelope *m)
{
    const ms_msg *msg;
    ms_error err;
    if (ms_encode(m, &arena, &msg, &err) != MS_OK) fail_msg("%s: %s", err.path,
                                                            err.message);
    return ms_envelope_of(msg);
}


/* ---- the format ---- */

#define TEXT "{\"type\":\"text\",\"author\":\"agent\",\"content\":\"x\"}"
#define WRAP(more) "{\"task_id\":\"t\",\"content\":" TEXT more "}"

static const char *const strict_rows[] = {
    "{\"type\":\"text\",\"author\":\"user\",\"content\":\"\"}",
    "{\"author\":\"agent\",\"content\":\"\\u00e9\\ud83d\\ude00\\u0000\",\"type\":"
    "\"text\"}",
    "{\"type\":\"text\",\"author\":\"agent\",\"content\":\"x\",\"format\":\"markdown\","
    "\"style\":\"active\",\"attachments\":null,\"unknown\":[1.0,{}],\"empty\":{}}",
    "{\"type\":\"text\",\"author\":\"agent\",\"content\":\"x\",\"attachments\":[]}",
    "{\"type\":\"text\",\"author\":\"agent\",\"content\":\"x\",\"attachments\":"
    "[{\"name\":"
    "\"r.pdf\",\"url\":\"https://e/r\",\"mime_type\":\"application/pdf\"},{\"file_id\":"
    "\"f\",\"name\":\"r\",\"size\":12,\"type\":\"t\"}]}",
    "{\"type\":\"data\",\"author\":\"agent\",\"data\":{}}",
    "{\"type\":\"data\",\"author\":\"user\",\"data\":{\"a\":[1e5,-0.0,null],\"type\":"
    "\"x\"},"
    "\"content\":\"stays\"}",
    "{\"type\":\"tool_request\",\"author\":\"agent\",\"tool_call_id\":\"1\",\"name\":"
    "\"n\","
    "\"arguments\":{}}",
    "{\"type\":\"tool_request\",\"author\":\"user\",\"tool_call_id\":\"\",\"name\":\"\","
    "\"arguments\":{\"q\":null},\"is_error\":3,\"style\":\"static\"}",
    "{\"type\":\"tool_response\",\"author\":\"agent\",\"tool_call_id\":\"1\",\"name\":"
    "\"n\","
    "\"content\":null}",
    "{\"type\":\"tool_response\",\"author\":\"agent\",\"tool_call_id\":\"1\",\"name\":"
    "\"n\","
    "\"content\":[],\"is_error\":null}",
    "{\"type\":\"tool_response\",\"author\":\"user\",\"tool_call_id\":\"1\",\"name\":"
    "\"n\","
    "\"content\":\"t\",\"is_error\":false}",
    "{\"type\":\"tool_response\",\"author\":\"agent\",\"tool_call_id\":\"1\",\"name\":"
    "\"n\","
    "\"content\":{\"r\":1.50},\"is_error\":true,\"result\":1}",
    "{\"type\":\"reasoning\",\"author\":\"agent\",\"summary\":[]}",
    "{\"type\":\"reasoning\",\"author\":\"user\",\"content\":[\"a\",\"b\"],"
    "\"summary\":[\"s\"],\"style\":\"active\",\"x\":{}}",
    "{\"type\":\"reasoning\",\"author\":\"agent\",\"summary\":[\"\"],\"content\":null}",
    "{\"content\":" TEXT ",\"task_id\":\"\"}",
    WRAP(""),
    WRAP(",\"id\":null,\"created_at\":null,\"updated_at\":null,"
         "\"streaming_status\":null"),
    WRAP(",\"id\":\"m1\",\"created_at\":\"2024-01-15T10:30:00.123Z\",\"updated_at\":"
         "\"2024-01-15T10:30:00+01:00\",\"streaming_status\":\"IN_PROGRESS\",\"x\":{}"),
    WRAP(",\"id\":\"\",\"created_at\":\"2024-01-15 10:30:00.123456789+02:00\","
         "\"streaming_status\":\"DONE\",\"extra\":{\"id\":1}"),
    WRAP(",\"created_at\":\"0001-01-01T00:00:00\""),
};

/* Only lenient readers take these. */
static const char *const lenient_rows[] = {
    "{\"type\":\"text\",\"author\":\"assistant\",\"content\":\"x\"}",
    "{\"type\":\"text\",\"author\":\"critic\",\"content\":\"x\",\"style\":\"blink\"}",
    "{\"type\":\"text\",\"author\":\"agent\",\"content\":\"x\",\"format\":7}",
    "{\"type\":\"text\",\"author\":\"agent\",\"content\":\"x\",\"attachments\":[1]}",
    "{\"type\":\"text\",\"author\":\"agent\",\"content\":\"x\",\"msgstore\":7}",
    "{\"type\":\"text\",\"author\":\"agent\",\"content\":\"x\","
    "\"msgstore\":{\"type\":\"no such\"}}",
    "{\"type\":\"text\",\"author\":\"agent\"}",
    "{\"type\":\"text\",\"content\":\"x\"}",
    "{\"type\":\"image\",\"author\":\"agent\",\"content\":\"x\"}",
    "{\"author\":\"agent\",\"content\":\"x\"}",
    "{\"type\":7}",
    "{}",
    "{\"type\":\"tool_request\",\"author\":\"agent\",\"tool_call_id\":\"1\",\"name\":"
    "\"n\","
    "\"arguments\":[1]}",
    "{\"type\":\"tool_response\",\"author\":\"agent\",\"tool_call_id\":\"1\",\"name\":"
    "\"n\","
    "\"result\":{\"t\":1}}",
    "{\"type\":\"tool_response\",\"author\":\"agent\",\"tool_call_id\":\"1\",\"name\":"
    "\"n\","
    "\"content\":1,\"is_error\":\"no\"}",
    "{\"type\":\"reasoning\",\"author\":\"agent\",\"summary\":[],\"content\":[1]}",
    "{\"content\":" TEXT "}",
    "{\"task_id\":7,\"content\":" TEXT "}",
    "{\"task_id\":null,\"content\":" TEXT ",\"id\":8,\"created_at\":\"now\","
    "\"updated_at\":1,\"streaming_status\":\"x\"}",
    "{\"task_id\":\"t\",\"content\":{\"type\":\"image\",\"url\":\"u\"},\"id\":\"1\"}",
};

static void what_is_read_is_written(void **state)
{
    (void)state;
    size_t n = COUNT(strict_rows) + COUNT(lenient_rows);
    for (size_t i = 0; i < n; i++) {
        bool lenient = i >= COUNT(strict_rows);
        ms_str json = ms_str_of(lenient ? lenient_rows[i - COUNT(strict_rows)]
                                        : strict_rows[i]);
        ms_envelope m = reads("task", json, lenient);
        same_json(writes("task", &m, false, false), json, 0);
        m = encoded(&m);
        same_json(writes("task", &m, false, false), json, 0);
        if (!lenient) m = reads("task", json, true);
        same_json(writes("task", &m, false, false), json, 0);
        ms_arena_reset(&arena);
    }
}

static const struct {
    const char *json, *path;
} refused_rows[] = {
    {"{}", "type"},
    {"{\"type\":null}", "type"},
    {"{\"type\":\"image\",\"author\":\"user\"}", "type"},
    {"{\"type\":\"text\",\"content\":\"x\"}", "author"},
    {"{\"type\":\"text\",\"author\":\"tool\",\"content\":\"x\"}", "author"},
    {"{\"type\":\"text\",\"author\":3,\"content\":\"x\"}", "author"},
    {"{\"type\":\"text\",\"author\":\"user\"}", "content"},
    {"{\"type\":\"text\",\"author\":\"user\",\"content\":null}", "content"},
    {"{\"type\":\"text\",\"author\":\"user\",\"content\":{}}", "content"},
    {"{\"type\":\"text\",\"author\":\"user\",\"content\":\"x\",\"format\":\"html\"}",
     "format"},
    {"{\"type\":\"text\",\"author\":\"user\",\"content\":\"x\",\"format\":"
     "null}", "format"},
    {"{\"type\":\"data\",\"author\":\"user\",\"data\":{},\"style\":\"\"}", "style"},
    {"{\"type\":\"text\",\"author\":\"user\",\"content\":\"x\",\"attachments\":{}}",
     "attachments"},
    {"{\"type\":\"text\",\"author\":\"user\",\"content\":\"x\",\"attachments\":"
     "[{\"name\":\"n\",\"url\":\"u\",\"mime_type\":\"m\"},{\"name\":\"n\"}]}",
     "attachments[1]"},
    {"{\"type\":\"data\",\"author\":\"user\",\"data\":[]}", "data"},
    {"{\"type\":\"data\",\"author\":\"user\"}", "data"},
    {"{\"type\":\"tool_request\",\"author\":\"user\",\"name\":\"n\",\"arguments\":{}}",
     "tool_call_id"},
    {"{\"type\":\"tool_request\",\"author\":\"user\",\"tool_call_id\":\"1\","
     "\"arguments\":{}}", "name"},
    {"{\"type\":\"tool_request\",\"author\":\"user\",\"tool_call_id\":1,\"name\":\"n\","
     "\"arguments\":{}}", "tool_call_id"},
    {"{\"type\":\"tool_response\",\"author\":\"user\",\"tool_call_id\":\"1\",\"name\":"
     "\"n\","
     "\"result\":{}}", "content"},
    {"{\"type\":\"tool_response\",\"author\":\"user\",\"tool_call_id\":\"1\",\"name\":"
     "\"n\","
     "\"content\":1,\"is_error\":1}", "is_error"},
    {"{\"type\":\"reasoning\",\"author\":\"user\"}", "summary"},
    {"{\"type\":\"reasoning\",\"author\":\"user\",\"summary\":null}", "summary"},
    {"{\"type\":\"reasoning\",\"author\":\"user\",\"summary\":[\"\",1]}", "summary[1]"},
    {"{\"type\":\"reasoning\",\"author\":\"user\",\"summary\":[],\"content\":\"\"}",
     "content"},
    {"{\"type\":\"text\",\"author\":\"user\",\"content\":\"x\",\"msgstore\":{\"type\":"
     "1}}",
     "msgstore"},
    {"{\"type\":\"text\",\"author\":\"user\",\"content\":\"x\",\"a\":1,\"msgstore\":"
     "{\"call_extra\":{}}}", "msgstore"},
    {"{\"content\":" TEXT "}", "task_id"},
    {"{\"task_id\":null,\"content\":" TEXT "}", "task_id"},
    {"{\"task_id\":\"a\\u0000b\",\"content\":" TEXT "}", "task_id"},
    {WRAP(",\"id\":1"), "id"},
    {WRAP(",\"created_at\":1700000000"), "created_at"},
    {WRAP(",\"created_at\":\"2024-02-30T00:00:00Z\""), "created_at"},
    {WRAP(",\"updated_at\":\"\""), "updated_at"},
    {WRAP(",\"streaming_status\":\"done\""), "streaming_status"},
    {"{\"task_id\":\"t\",\"content\":{\"type\":\"text\",\"author\":\"a\",\"content\":"
     "\"\"}}",
     "content.author"},
    {"{\"task_id\":\"t\",\"content\":{}}", "content.type"},
    {"{\"task_id\":\"t\",\"content\":\"x\"}", "type"},
};

static void what_is_wrong_is_refused_by_its_path(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(refused_rows); i++) {
        ms_envelopes list;
        ms_error err;
        ms_str json = ms_str_of(refused_rows[i].json);
        if (try_read("task", json, false, &list, &err) == MS_OK)
            fail_msg("was read: %s", refused_rows[i].json);
        assert_string_equal(err.path, refused_rows[i].path);
        assert_null(list.items);
        assert_int_equal(list.count, 0);
        (void)reads("task", json, true);
    }
}

static void of_repeated_members_the_last_counts(void **state)
{
    (void)state;
    ms_envelope m = reads("task",
                          MS_STR("{\"type\":\"text\",\"author\":\"user\",\"author\":"
                          "\"agent\",\"content\":1,\"content\":\"x\",\"format\":\"?\","
                          "\"format\":\"code\"}"), false);
    assert_int_equal(m.type, MS_T_ASSISTANT_MESSAGE);
    same_json(writes("task", &m, false, false),
              MS_STR("{\"type\":\"text\",\"author\":\"agent\",\"content\":\"x\","
                     "\"format\":\"code\"}"), 0);
}

static void the_parts_go_into_fields(void **state)
{
    (void)state;
    ms_envelope m = reads("task", MS_STR(
        "{\"id\":\"m\",\"task_id\":\"t\",\"created_at\":\"2023-11-14T22:13:20Z\","
        "\"content\":{\"type\":\"tool_response\",\"author\":\"agent\",\"tool_call_id\":"
        "\"c\","
        "\"name\":\"n\",\"content\":\"boom\",\"is_error\":true}}"), false);
    assert_int_equal(m.type, MS_T_ERROR);
    assert_true(m.has_time && m.time_ns == SECONDS(1700000000));
    assert_null(m.time_text.ptr);
    assert_true(ms_str_equal(m.id, MS_STR("m")) && ms_str_equal(m.location, MS_STR("t")));
    assert_true(ms_str_equal(m.call_id, MS_STR("c")) && ms_str_equal(m.tool,
                                                                     MS_STR("n")));
    assert_true(ms_str_equal(m.content.text, MS_STR("boom")) && !m.content.json);
    assert_true(ms_str_equal(m.extra, MS_STR("{}")));
    assert_null(m.call_extra.ptr);
    m = reads("task", MS_STR("{\"type\":\"tool_response\",\"author\":\"agent\","
              "\"tool_call_id\":\"c\",\"name\":\"n\",\"result\":{\"t\":1}}"), true);
    assert_int_equal(m.type, MS_T_OBSERVATION);
    assert_true(ms_str_equal(m.content.text, MS_STR("{\"t\":1}")));
    m = reads("task", MS_STR("{\"type\":\"text\",\"author\":\"system\","
                             "\"content\":\"x\"}"), true);
    assert_true(m.type == MS_T_TEXT && m.role == MS_ROLE_SYSTEM);
}

static const struct {
    const char *framework, *task;
} crossing_rows[] = {
    {"{\"type\":\"final\",\"content\":\"x\"}",
     "{\"type\":\"text\",\"author\":\"agent\",\"content\":\"x\","
     "\"msgstore\":{\"type\":\"final\"}}"},
    {"{\"type\":\"task\",\"content\":\"x\",\"timestamp\":5,\"turn_id\":\"1\"}",
     "{\"type\":\"data\",\"author\":\"user\",\"data\":{\"type\":\"task\",\"content\":"
     "\"x\","
     "\"turn_id\":\"1\"},\"msgstore\":{\"type\":\"task\",\"time\":5}}"},
    {"{\"type\":\"error\",\"content\":\"x\",\"error_type\":\"E\",\"tool\":\"t\","
     "\"tool_call_id\":\"c\"}",
     "{\"type\":\"tool_response\",\"author\":\"agent\",\"tool_call_id\":\"c\",\"name\":"
     "\"t\","
     "\"content\":\"x\",\"is_error\":true,\"msgstore\":{\"error_type\":\"E\"}}"},
    {"{\"type\":\"delegation\",\"worker\":\"w\",\"task\":\"do\"}",
     "{\"type\":\"data\",\"author\":\"agent\",\"data\":{\"type\":\"delegation\","
     "\"worker\":"
     "\"w\",\"task\":\"do\"},\"msgstore\":{\"type\":\"delegation\"}}"},
    {"{\"type\":\"user_message\",\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}",
     "{\"type\":\"text\",\"author\":\"user\",\"content\":"
     "\"[{\\\"type\\\":\\\"text\\\",\\\"text\\\":\\\"x\\\"}]\","
     "\"msgstore\":{\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}}"},
    {"{\"type\":\"action\",\"tool\":\"t\",\"args\":\"{\",\"tool_call_id\":\"c\","
     "\"content\":\"why\",\"step\":3}",
     "{\"task_id\":\"\",\"content\":{\"type\":\"tool_request\",\"author\":\"agent\","
     "\"tool_call_id\":\"c\",\"name\":\"t\",\"arguments\":{},\"msgstore\":"
     "{\"content\":\"why\",\"args\":\"{\"}},\"step\":3}"},
    {"{\"type\":\"global_observation\",\"content\":{},\"from_worker\":\"w\","
     "\"status\":\"ok\",\"created_at\":7,\"streaming_status\":7}",
     "{\"task_id\":\"\",\"content\":{\"type\":\"data\",\"author\":\"user\",\"data\":"
     "{\"type\":\"global_observation\",\"content\":{},\"from_worker\":\"w\"},"
     "\"msgstore\":{\"type\":\"global_observation\"}},\"status\":\"ok\","
     "\"extra\":{\"created_at\":7,\"streaming_status\":7}}"},
};

/* The table of the format's essay, and the way back. */
static void other_types_have_a_form(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(crossing_rows); i++) {
        ms_envelope m = reads("framework", ms_str_of(crossing_rows[i].framework), false);
        ms_str text = writes("task", &m, false, false);
        same_json(text, ms_str_of(crossing_rows[i].task), 0);
        m = reads("task", text, false);
        same_json(writes("task", &m, false, false), text, 0);
        if (i + 1 == COUNT(crossing_rows)) break; /* its extra members have moved */
        same_json(writes("framework", &m, false, false),
                  ms_str_of(crossing_rows[i].framework), 0);
    }
}

/* What has no place is written with the task_id "". That fits, so a lenient reader takes
 * it for what it is, and writes the same text again. */
static void an_empty_task_id_stays_where_it_was(void **state)
{
    (void)state;
    ms_envelope m = reads("task", ms_str_of(strict_rows[5]), true);
    ms_str first = writes("task", &m, true, false);
    m = reads("task", first, true);
    assert_int_equal(m.flags & MS_FLAG_LENIENT, 0);
    ms_str again = writes("task", &m, true, false);
    assert_true(ms_str_equal(first, again));
    ms_arena_reset(&arena);
}

/* Of members with one name the last counts, also where what it says is kept as it is: the
 * others are not taken along, to be left out when the message is written. */
static void a_member_that_stands_twice_counts_once(void **state)
{
    static const char first[] =
        "{\"id\":\"1\",\"task_id\":\"t\",\"content\":{\"type\":\"text\",\"author\":\"user\","
        "\"content\":\"a\",\"format\":\"plain\"},\"updated_at\":\"soon\",\"updated_at\":null,"
        "\"streaming_status\":\"DO\",\"streaming_status\":\"DONE\"}";
    (void)state;
    ms_envelope m = reads("task", ms_str_of(first), false);
    ms_str last = MS_STR("{\"updated_at\":null,\"streaming_status\":\"DONE\"}");
    assert_true(ms_str_equal(m.extra, last));
    m = reads("task", writes("task", &m, true, false), false);
    assert_true(ms_str_equal(m.extra, last));
    ms_arena_reset(&arena);
}

/* There through the format and back: what the framework format then writes is the
 * same. */
static void any_message_comes_back(void **state)
{
    (void)state;
    uint64_t rng = test_seed();
    for (size_t i = test_times(20000); i > 0; i--) {
        ms_envelope m = random_message(&rng);
        bool place = test_one_in(&rng, 2), defaults = test_one_in(&rng, 4);
        m.flags &= (uint32_t)MS_FLAG_JOINED;
        if (test_one_in(&rng, 4))
            m.time_ns = (int64_t)test_random(&rng) | 1;
        if (test_one_in(&rng, 20)) m.time_ns = INT64_MIN + 1;
        m.call_id = m.call_id.ptr ? m.call_id : MS_STR("id");
        m.tool = m.tool.ptr ? m.tool : MS_STR("tool");
        m = encoded(&m);
        ms_str expected = writes("framework", &m, place, false);
        ms_str text = writes("task", &m, place, defaults);
        m = reads("task", text, false);
        if (defaults) /* those that were made explicit are members now */
            m.call_extra = reads("framework", expected, true).call_extra;
        same_json(writes("framework", &m, place, false), expected, 0);
        if (!defaults) same_json(writes("task", &m, place, false), text, 0);
        ms_arena_reset(&arena);
    }
}

/* And from here through the framework format. */
static void task_messages_survive_the_framework_format(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(strict_rows); i++) {
        ms_str json = ms_str_of(strict_rows[i]);
        ms_envelope m = reads("task", json, false);
        ms_str text = writes("task", &m, true, false);
        m = reads("framework", writes("framework", &m, true, false), true);
        m.time_text = no_str();
        ms_str back = writes("task", &m, true, false);
        if (strstr(strict_rows[i], "123456789+02") != NULL) continue; /* spelled anew */
        if (strstr(strict_rows[i], "0001-01-01") != NULL) continue;
        same_json(back, text, 0);
    }
}

static void openai_calls_come_back(void **state)
{
    (void)state;
    ms_str json = MS_STR("[{\"role\":\"system\",\"content\":\"s\"},"
                         "{\"role\":\"assistant\",\"content\":\"why\",\"tool_calls\":["
                         "{\"id\":\"1\",\"type\":\"custom\",\"index\":0,\"function\":"
                         "{\"name\":\"f\",\"arguments\":\"{}\"}},"
                         "{\"id\":\"2\",\"type\":\"function\",\"function\":"
                         "{\"name\":\"g\",\"arguments\":\"{bad\"}}]},"
                         "{\"role\":\"tool\",\"tool_call_id\":\"1\",\"name\":\"f\","
                         "\"content\":\"4\"}]");
    ms_envelopes list, back;
    ms_writer w;
    ms_writer_opts opts = {true, false, false, false};
    ms_error err;
    ms_buf buf[2];
    memset(buf, 0, sizeof buf);
    buf[0].arena = buf[1].arena = &arena;
    assert_int_equal(ms_read_list(dialect("openai"), json, NULL, &arena, &list, &err),
                     MS_OK);
    ms_writer_init(&w, dialect("task"), &opts, &arena, ms_buf_write, &buf[0]);
    for (size_t i = 0; i < list.count; i++)
        assert_int_equal(ms_writer_put(&w, &list.items[i], &err), MS_OK);
    assert_int_equal(ms_writer_finish(&w, &err), MS_OK);
    if (ms_read_list(dialect("task"), ms_buf_text(&buf[0]), NULL, &arena, &back, &err) !=
        MS_OK)
        fail_msg("%s: %s", err.path, err.message);
    ms_writer_init(&w, dialect("openai"), &opts, &arena, ms_buf_write, &buf[1]);
    for (size_t i = 0; i < back.count; i++)
        assert_int_equal(ms_writer_put(&w, &back.items[i], &err), MS_OK);
    assert_int_equal(ms_writer_finish(&w, &err), MS_OK);
    same_json(ms_buf_text(&buf[1]), json, 0);
}

/* A result without id or name gets those of the call that it answers. */
static void results_find_their_calls(void **state)
{
    (void)state;
    ms_envelope m[4] = {ms_action(MS_STR("first"), ms_json(MS_STR("{}"))),
                        ms_action(MS_STR("second"), ms_json(MS_STR("{}"))),
                        ms_observation(ms_text("1")), ms_observation(ms_text("2"))};
    ms_envelope orphan = ms_error_message(ms_text("3"), no_str());
    ms_writer_opts opts = {true, false, false, false};
    ms_writer w;
    ms_error err;
    ms_buf buf;
    memset(&buf, 0, sizeof buf);
    buf.arena = &arena;
    m[1].call_id = MS_STR("mine");
    m[3].call_id = MS_STR("mine");
    ms_writer_init(&w, dialect("task"), &opts, &arena, ms_buf_write, &buf);
    for (size_t i = 0; i < 4; i++) assert_int_equal(ms_writer_put(&w, &m[i], &err),
                                                    MS_OK);
    assert_int_equal(ms_writer_put(&w, &orphan, &err), MS_OK);
    assert_int_equal(ms_writer_finish(&w, &err), MS_OK);
    json_t *list = json_parse_n(ms_buf_text(&buf).ptr, ms_buf_text(&buf).len);
    static const char *const ids[] = {"call_1", "mine", "call_1", "mine", "call_5"};
    static const char *const names[] = {"first", "second", "first", "second",
                                        "unknown_tool"};
    for (size_t i = 0; i < 5; i++) {
        json_t *one = json_array_get(list, i);
        assert_string_equal(json_string_value(json_object_get(one, "tool_call_id")),
                            ids[i]);
        assert_string_equal(json_string_value(json_object_get(one, "name")), names[i]);
    }
    json_decref(list);
}

/* No bytes make the reader stumble; what it takes it writes so that it takes it again. */
static void broken_bytes_do_no_harm(void **state)
{
    (void)state;
    uint64_t rng = test_seed() + 1;
    for (size_t i = test_times(30000); i > 0; i--) {
        char text[600];
        const char *row = test_one_in(&rng, 2)
                              ? strict_rows[test_below(&rng, COUNT(strict_rows))]
                              : crossing_rows[test_below(&rng,
                                                         COUNT(crossing_rows))].task;
        size_t len = strlen(row);
        assert_true(len < sizeof text);
        memcpy(text, row, len);
        for (uint64_t n = 1 + test_below(&rng, 3); n > 0; n--) {
            const char *bytes = "{}[]\",:0n\\x";
            text[test_below(&rng, len)] = bytes[test_below(&rng, 11)];
        }
        for (int lenient = 0; lenient < 2; lenient++) {
            ms_envelopes list;
            ms_error err;
            if (try_read("task", ms_str_n(text, len), lenient, &list,
                         &err) != MS_OK) continue;
            ms_str again = writes("task", &list.items[0], false, false);
            ms_envelope m = reads("task", again, lenient);
            same_json(writes("task", &m, false, false), again, 0);
        }
        ms_arena_reset(&arena);
    }
}


/* ---- deltas ---- */

static ms_result put(ms_deltas *d, const char *json, ms_error *err)
{
    return ms_deltas_put(d, ms_str_of(json), err);
}

static const struct {
    const char *first, *next, *path;
} bad_deltas[] = {
    {NULL, "[]", ""},
    {NULL, "{\"type\":\"text\",", ""},
    {NULL, "{\"text_delta\":\"x\"}", "type"},
    {NULL, "{\"type\":\"image\"}", "type"},
    {NULL, "{\"type\":\"text\",\"text_delta\":1}", "text_delta"},
    {NULL, "{\"type\":\"tool_request\",\"name\":\"n\"}", "tool_call_id"},
    {NULL, "{\"type\":\"tool_response\",\"tool_call_id\":\"n\"}", "name"},
    {NULL, "{\"type\":\"reasoning_summary\"}", "summary_index"},
    {NULL, "{\"type\":\"reasoning_summary\",\"summary_index\":0.5}", "summary_index"},
    {NULL, "{\"type\":\"reasoning_content\",\"content_index\":1e30}", "content_index"},
    {"{\"type\":\"text\",\"text_delta\":\"x\"}", "{\"type\":\"data\"}", "type"},
    {"{\"type\":\"reasoning_content\",\"content_index\":0}",
     "{\"type\":\"text\",\"text_delta\":\"x\"}", "type"},
};

static void a_refused_delta_changes_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad_deltas); i++) {
        ms_deltas d;
        ms_envelope m;
        ms_error err;
        ms_deltas_init(&d, &arena);
        if (bad_deltas[i].first != NULL)
            assert_int_equal(put(&d, bad_deltas[i].first, &err), MS_OK);
        ms_deltas before = d;
        assert_int_not_equal(put(&d, bad_deltas[i].next, &err), MS_OK);
        assert_string_equal(err.path, bad_deltas[i].path);
        assert_memory_equal(&before, &d, sizeof d);
        if (bad_deltas[i].first == NULL)
            assert_int_equal(ms_deltas_finish(&d, &m, &err), MS_E_MISSING);
    }
}

static void joined_parts_must_be_an_object(void **state)
{
    (void)state;
    static const struct {
        const char *part;
        ms_result code;
    } rows[] = {{"", MS_E_SYNTAX}, {"{", MS_E_SYNTAX}, {"[1]", MS_E_KIND},
                {" {\\\"a\\\":1} ", MS_OK}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_deltas d;
        ms_envelope m;
        ms_error err;
        char json[100];
        ms_deltas_init(&d, &arena);
        snprintf(json, sizeof json, "{\"type\":\"data\",\"data_delta\":\"%s\"}",
                 rows[i].part);
        assert_int_equal(put(&d, json, &err), MS_OK);
        assert_int_equal(ms_deltas_finish(&d, &m, &err), rows[i].code);
        if (rows[i].code != MS_OK) assert_string_equal(err.path, "data");
        else assert_true(ms_str_equal(m.content.text, MS_STR("{\"a\":1}")));
    }
}

/* A random number from a few, the ends of the range among them. */
static int64_t random_index(uint64_t *rng)
{
    const int64_t list[] = {INT64_MIN, -1, 0, 1, 2, 1000000000000000000, INT64_MAX};
    return list[test_below(rng, COUNT(list))];
}

enum { PARTS = 40 };

typedef struct part {
    bool thought;
    int64_t index;
    const char *text;
} part;

/* The texts of one list by looking for the smallest index again and again. */
static json_t *naive_list(const part *parts, size_t n, bool thought)
{
    json_t *list = json_array();
    for (int64_t at = INT64_MIN;;) {
        char text[PARTS * 4] = "";
        bool more = false;
        int64_t next = INT64_MAX;
        for (size_t i = 0; i < n; i++) {
            if (parts[i].thought != thought || parts[i].index < at) continue;
            if (parts[i].index == at) strcat(text, parts[i].text);
            else if (parts[i].index <= next) next = parts[i].index, more = true;
        }
        if (text[0] != '\0') json_array_append_new(list, json_string(text));
        if (!more) return list;
        at = next;
    }
}

static void reasoning_is_joined_by_index(void **state)
{
    (void)state;
    uint64_t rng = test_seed() + 2;
    const char *const texts[] = {"", "a", "b", "\xc3\xa9", "\"", "\n"};
    const char *const escaped[] = {"", "a", "b", "\\u00e9", "\\\"", "\\n"};
    for (size_t round = test_times(2000); round > 0; round--) {
        part parts[PARTS];
        size_t n = 1 + (size_t)test_below(&rng, PARTS);
        ms_deltas d;
        ms_envelope m;
        ms_error err;
        ms_deltas_init(&d, &arena);
        for (size_t i = 0; i < n; i++) {
            char json[200];
            size_t pick = (size_t)test_below(&rng, COUNT(texts));
            parts[i].thought = test_one_in(&rng, 2);
            parts[i].index = random_index(&rng);
            parts[i].text = texts[pick];
            const char *word = parts[i].thought ? "content" : "summary";
            snprintf(json, sizeof json, "{\"type\":\"reasoning_%s\",\"%s_index\":%lld,"
                     "\"%s_delta\":\"%s\"}", word, word, (long long)parts[i].index, word,
                     escaped[pick]);
            assert_int_equal(put(&d, json, &err), MS_OK);
        }
        json_t *summary = naive_list(parts, n, false), *content = naive_list(parts, n,
                                                                             true);
        for (int again = 0; again < 2; again++) {
            assert_int_equal(ms_deltas_finish(&d, &m, &err), MS_OK);
            if (json_array_size(summary) + json_array_size(content) == 0) {
                assert_int_equal(m.type, MS_T_ASSISTANT_MESSAGE);
                continue;
            }
            json_t *got = json_parse_n(m.content.text.ptr, m.content.text.len);
            json_t *none = json_null();
            assert_int_equal(m.type, MS_T_REASONING);
            assert_true(json_equal(json_object_get(got, "summary"), summary));
            assert_true(json_equal(json_object_get(got, "content"),
                                   json_array_size(content) > 0 ? content : none));
            json_decref(got);
        }
        json_decref(summary);
        json_decref(content);
        ms_arena_reset(&arena);
    }
}

/* Time and memory follow the bytes, whatever the order of the indexes. */
static void many_deltas_are_no_trouble(void **state)
{
    (void)state;
    size_t n = test_times(100000) + 1000;
    ms_deltas d, text;
    ms_envelope m;
    ms_error err;
    ms_deltas_init(&d, &arena);
    ms_deltas_init(&text, &arena);
    for (size_t i = 0; i < n; i++) {
        char json[120];
        snprintf(json, sizeof json,
                 "{\"type\":\"reasoning_summary\",\"summary_index\":%lu,"
                 "\"summary_delta\":\"x\"}", (unsigned long)((n - i) * 1000003));
        assert_int_equal(put(&d, json, &err), MS_OK);
        assert_int_equal(put(&text, "{\"type\":\"text\",\"text_delta\":\"12345\"}", &err),
                         MS_OK);
    }
    assert_int_equal(ms_deltas_finish(&d, &m, &err), MS_OK);
    assert_int_equal(m.content.text.len,
                     strlen("{\"summary\":[],\"content\":null}") + 4 * n - 1);
    assert_int_equal(ms_deltas_finish(&text, &m, &err), MS_OK);
    assert_int_equal(m.content.text.len, 5 * n);
}

/* In an arena that runs full a delta is refused, and what was there stays. */
static void a_full_arena_loses_no_delta(void **state)
{
    (void)state;
    static char room[3000];
    ms_arena small;
    ms_deltas d;
    ms_envelope m;
    ms_error err;
    size_t n = 0;
    ms_arena_init_fixed(&small, room, sizeof room);
    ms_deltas_init(&d, &small);
    while (put(&d, "{\"type\":\"text\",\"text_delta\":\"0123456789\"}",
               &err) == MS_OK) n++;
    assert_int_equal(err.code, MS_E_ARENA);
    assert_true(n > 20);
    assert_int_equal(ms_deltas_finish(&d, &m, &err), MS_OK);
    assert_int_equal(m.content.text.len, 10 * n);
}

static ms_result merged(const char *list, ms_str *out, ms_error *err)
{
    ms_json_writer w;
    ms_buf buf;
    memset(&buf, 0, sizeof buf);
    buf.arena = &arena;
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_result code = ms_deltas_merge(ms_str_of(list), &w, err);
    if (code == MS_OK) code = ms_json_finish(&w);
    assert_true(code == MS_OK || (w.used == 0 && buf.len == 0));
    *out = ms_buf_text(&buf);
    return code;
}

static void neighbours_of_one_kind_are_merged(void **state)
{
    (void)state;
    ms_str out;
    ms_error err;
    assert_int_equal(merged("[{\"type\":\"text\",\"text_delta\":\"a\\n\",\"x\":1},"
        "{\"type\":\"text\"},{\"type\":\"text\",\"text_delta\":\"\\u00e9\"},null,"
        "{\"type\":\"text\",\"text_delta\":null},"
        "{\"type\":\"reasoning_summary\",\"summary_index\":1,\"summary_delta\":\"s\"},"
        "{\"type\":\"reasoning_summary\",\"summary_index\":1.0,\"summary_delta\":\"t\"},"
        "{\"type\":\"reasoning_summary\",\"summary_index\":2,\"summary_delta\":\"t\"},"
        "{\"type\":\"reasoning_content\",\"content_index\":2,\"content_delta\":\"t\"},"
        "{\"type\":\"tool_response\",\"tool_call_id\":\"a\",\"name\":\"n\"},"
        "{\"type\":\"tool_response\",\"tool_call_id\":\"\\u0061\",\"name\":\"m\","
        "\"content_delta\":\"z\"}]", &out, &err), MS_OK);
    same_json(out, MS_STR(
        "[{\"type\":\"text\",\"text_delta\":\"a\\n\\u00e9\",\"x\":1},null,"
        "{\"type\":\"text\",\"text_delta\":null},"
        "{\"type\":\"reasoning_summary\",\"summary_index\":1,\"summary_delta\":\"st\"},"
        "{\"type\":\"reasoning_summary\",\"summary_index\":2,\"summary_delta\":\"t\"},"
        "{\"type\":\"reasoning_content\",\"content_index\":2,\"content_delta\":\"t\"},"
        "{\"type\":\"tool_response\",\"tool_call_id\":\"a\",\"name\":\"n\","
        "\"content_delta\":\"z\"}]"), 0);
    assert_int_equal(merged("[{\"type\":\"text\"},{\"type\":7}]", &out, &err), MS_E_KIND);
    assert_string_equal(err.path, "deltas[1].type");
    assert_int_equal(merged("{}", &out, &err), MS_E_KIND);
}


/* ---- conversion ---- */

static ms_result drop(void *ctx, const ms_envelope *m, ms_json_writer *w)
{
    (void)m;
    (void)w;
    ++*(int *)ctx;
    return MS_OK;
}

static ms_result half(void *ctx, const ms_envelope *m, ms_json_writer *w)
{
    (void)ctx;
    (void)m;
    ms_json_begin_object(w);
    return MS_OK;
}

static ms_result as_text(void *ctx, const ms_envelope *m, ms_json_writer *w)
{
    (void)ctx;
    ms_json_put_string(w, m->content.text);
    return MS_OK;
}

static ms_result convert(const ms_envelope *m, size_t n, const ms_task_converters *how,
                         ms_str *out, ms_error *err)
{
    ms_json_writer w;
    ms_buf buf;
    memset(&buf, 0, sizeof buf);
    buf.arena = &arena;
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_result code = ms_task_convert(m, n, how, &arena, &w, err);
    if (code == MS_OK) code = ms_json_finish(&w);
    *out = ms_buf_text(&buf);
    return code;
}

static void conversion_by_default_and_by_callback(void **state)
{
    (void)state;
    ms_envelope m[6] = {
        ms_user_message(ms_text("q\"")),
        ms_reasoning(ms_json(MS_STR("{\"summary\":[\"s\"]}"))),
        ms_action(MS_STR("f"), ms_json(MS_STR("{\"a\":1}"))),
        ms_error_message(ms_json(MS_STR("{\"code\":5}")), no_str()),
        ms_data(ms_json(MS_STR("{\"d\":null}"))),
        ms_delegation(MS_STR("w"), MS_STR("do"))};
    ms_task_converters how;
    ms_str out;
    ms_error err;
    int dropped = 0;
    assert_int_equal(convert(m, 6, NULL, &out, &err), MS_OK);
    same_json(out, MS_STR("[{\"role\":\"user\",\"content\":\"q\\\"\"},"
        "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"call_3\","
        "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":"
        "1}\"}}]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"call_3\",\"name\":\"f\","
        "\"content\":\"Error: {\\\"code\\\":5}\"},"
        "{\"role\":\"assistant\",\"content\":\"{\\\"d\\\":null}\"},"
        "{\"role\":\"assistant\",\"content\":\"Delegated to w: do\"}]"), 0);
    memset(&how, 0, sizeof how);
    how.ctx = &dropped;
    how.data = how.tool_request = how.tool_response = drop;
    how.reasoning = as_text;
    assert_int_equal(convert(m, 6, &how, &out, &err), MS_OK);
    same_json(out, MS_STR("[{\"role\":\"user\",\"content\":\"q\\\"\"},"
                          "\"{\\\"summary\\\":[\\\"s\\\"]}\"]"), 0);
    assert_int_equal(dropped, 4);
    how.tool_request = half;
    assert_int_equal(convert(m, 6, &how, &out, &err), MS_E_ARGUMENT);
    assert_string_equal(err.path, "messages[2]");
}


/* ---- tasks in stores ---- */

enum { MANY = 400 };

/* The array beside the store. */
typedef struct twin {
    size_t n;
    struct twin_row {
        uint64_t seq;
        int64_t time;
        json_t *json;         /* the message as the format writes it, with its defaults */
    } rows[MANY];
} twin;

static void twin_free(twin *t)
{
    for (size_t i = 0; i < t->n; i++) json_decref(t->rows[i].json);
    t->n = 0;
}

static json_t *json_of_message(const ms_envelope *m)
{
    ms_str text = writes("task", m, true, true);
    return json_parse_n(text.ptr, text.len);
}

/* Appends a random message to the task, and one to another. */
static void grow(uint64_t *rng, ms_store *store, twin *t)
{
    static const char *const contents[] = {
        TEXT,
        "{\"type\":\"text\",\"author\":\"user\",\"content\":\"hi\",\"format\":\"code\"}",
        "{\"type\":\"data\",\"author\":\"agent\",\"data\":{\"status\":\"ok\",\"n\":[1,"
        "2]}}",
        "{\"type\":\"data\",\"author\":\"agent\",\"data\":{\"status\":\"bad\",\"deep\":"
        "{\"a\":{\"b\":1.0}}}}",
        "{\"type\":\"tool_request\",\"author\":\"agent\",\"tool_call_id\":\"1\","
        "\"name\":\"n\","
        "\"arguments\":{\"x\":null}}",
        "{\"type\":\"tool_response\",\"author\":\"agent\",\"tool_call_id\":\"1\","
        "\"name\":"
        "\"n\",\"content\":\"r\",\"is_error\":true}"};
    static const char *const wraps[] = {"", ",\"streaming_status\":\"DONE\"",
                                        ",\"streaming_status\":\"IN_PROGRESS\""};
    char text[400];
    ms_error err;
    ms_task_opts opts;
    uint64_t seq;
    memset(&opts, 0, sizeof opts);
    opts.has_created_at = true;
    opts.created_at_ns = SECONDS(1700000000 + (double)test_below(rng, 20));
    snprintf(text, sizeof text, "{\"task_id\":\"elsewhere\",\"content\":%s%s}",
             contents[test_below(rng, COUNT(contents))], wraps[test_below(rng, 3)]);
    ms_envelope m = reads("task", ms_str_of(text), false);
    assert_int_equal(ms_task_create(store, MS_STR("task"), &m, &opts, &seq, &err), MS_OK);
    if (test_one_in(rng, 2))
        assert_int_equal(ms_task_create(store, MS_STR("other"), &m, NULL, NULL, &err),
                         MS_OK);
    m.location = MS_STR("task");
    m.seq = seq;
    assert_true(t->n < MANY);
    t->rows[t->n].seq = seq;
    t->rows[t->n].time = opts.created_at_ns;
    t->rows[t->n++].json = json_of_message(&m);
}

/* Does a say all that the partial record says? */
static bool naive_partial(json_t *want, json_t *a)
{
    const char *key;
    json_t *value;
    size_t i;
    if (json_is_null(want)) return a == NULL || json_is_null(a);
    if (a == NULL) return false;
    if (json_is_object(want)) {
        if (!json_is_object(a)) return false;
        json_object_foreach (want, key, value) {
            if (!naive_partial(value, json_object_get(a, key))) return false;
        }
        return true;
    }
    if (!json_is_array(want)) return json_same(want, a, 0, NULL);
    if (json_array_size(want) != json_array_size(a)) return false;
    json_array_foreach (want, i, value) {
        if (!naive_partial(value, json_array_get(a, i))) return false;
    }
    return true;
}

static bool naive_passes(json_t *filters, json_t *message)
{
    bool including = false, included = false, excluded = false;
    json_t *filter, *value;
    const char *key;
    size_t i;
    json_array_foreach (filters, i, filter) {
        bool matches = true;
        bool not_these = json_is_true(json_object_get(filter, "exclude"));
        json_object_foreach (filter, key, value) {
            bool known = strcmp(key, "content") == 0 || strcmp(key,
                                                               "streaming_status") == 0;
            if (strcmp(key, "exclude") == 0 || (known && json_is_null(value))) continue;
            matches = matches && known && naive_partial(value, json_object_get(message,
                                                                               key));
        }
        if (not_these) excluded = excluded || matches;
        else including = true, included = included || matches;
    }
    return (included || !including) && !excluded;
}

static const char *const filters[] = {
    NULL,
    "[]",
    "[{}]",
    "[{\"content\":{\"type\":\"text\"}}]",
    "[{\"content\":{\"type\":\"te\\u0078t\",\"author\":\"user\"}},"
    "{\"content\":{\"data\":{\"status\":\"ok\"}}}]",
    "[{\"content\":{\"data\":{\"deep\":{\"a\":{\"b\":1}}}}}]",
    "[{\"content\":{\"data\":{\"n\":[1.0,2e0]}}},{\"content\":{\"data\":{\"n\":[1]}}}]",
    "[{\"content\":{\"data\":{\"n\":[1]}}}]",
    "[{\"content\":{\"data\":{\"n\":[1,2,3]}}}]",
    "[{\"content\":{\"data\":{\"n\":[1.5]}}}]",
    "[{\"content\":{\"data\":{\"n\":[1.25]}},\"exclude\":true}]",
    "[{\"streaming_status\":\"DONE\"}]",
    "[{\"streaming_status\":\"DONE\",\"content\":{\"type\":\"data\"}},"
    "{\"content\":{\"type\":\"data\",\"data\":{\"status\":\"bad\"}},\"exclude\":true}]",
    "[{\"exclude\":true,\"content\":{\"type\":\"text\"}},"
    "{\"exclude\":true,\"streaming_status\":\"IN_PROGRESS\"}]",
    "[{\"content\":{\"no_such\":1}}]",
    "[{\"no_such\":1}]",
    "[{\"no_such\":1,\"exclude\":true}]",
    "[{\"content\":{\"format\":\"plain\",\"attachments\":null}}]",
    "[{\"content\":{\"is_error\":true}},{\"content\":null,\"streaming_status\":\"DONE\","
    "\"exclude\":false}]",
    "[{\"content\":{\"arguments\":{\"x\":null,\"y\":null}}}]",
    "[{\"content\":{\"data\":{}}}]",
};

static bool twin_before(const twin *t, size_t a, size_t b, bool by_time)
{
    int64_t x = t->rows[a].time, y = t->rows[b].time;
    return by_time && x != y ? x < y : t->rows[a].seq < t->rows[b].seq;
}

/* Rows of the twin that pass, in order. */
static size_t twin_list(const twin *t, const ms_task_query *q, size_t out[MANY])
{
    size_t n = 0;
    json_t *parsed = q->filters.ptr ? json_parse_n(q->filters.ptr, q->filters.len) : NULL;
    for (size_t i = 0; i < t->n; i++) {
        if (!naive_passes(parsed, t->rows[i].json)) continue;
        size_t at = n++;
        for (; at > 0; at--) {
            bool before = q->oldest_first ? twin_before(t, i, out[at - 1], q->by_time)
                                          : twin_before(t, out[at - 1], i, q->by_time);
            if (!before) break;
            out[at] = out[at - 1];
        }
        out[at] = i;
    }
    json_decref(parsed);
    return n;
}

static ms_task_page page_of(ms_store *store, const ms_task_query *q)
{
    ms_task_page page;
    ms_error err;
    if (ms_task_list(store, q, &arena, &page, &err) != MS_OK)
        fail_msg("%s: %s", err.path, err.message);
    return page;
}

static ms_task_query random_listing(uint64_t *rng)
{
    ms_task_query q;
    memset(&q, 0, sizeof q);
    q.task_id = MS_STR("task");
    q.oldest_first = test_one_in(rng, 2);
    q.by_time = test_one_in(rng, 3);
    q.limit = (size_t)test_below(rng, 9);
    if (test_one_in(rng, 8)) q.limit = MANY * 2;
    q.filters = ms_str_of(filters[test_below(rng, COUNT(filters))]);
    return q;
}

/* Walks by cursor; the pages together are the list. */
static void walk(ms_store *store, const twin *t, ms_task_query q)
{
    size_t rows[MANY], n = twin_list(t, &q, rows), seen = 0;
    size_t limit = q.limit ? q.limit : 50;
    for (;;) {
        ms_task_page page = page_of(store, &q);
        assert_int_equal(page.count, n - seen < limit ? n - seen : limit);
        for (size_t i = 0; i < page.count; i++)
            assert_int_equal(ms_seq(page.items[i]), t->rows[rows[seen++]].seq);
        assert_int_equal(page.has_more, seen < n);
        q.cursor = page.next_cursor;
        if (!page.has_more) break;
    }
    assert_true(q.cursor.ptr != NULL || n == 0);
}

static void numbered(ms_store *store, const twin *t, ms_task_query q, uint64_t number)
{
    size_t rows[MANY], n = twin_list(t, &q, rows);
    size_t limit = q.limit ? q.limit : 50, from = (size_t)(number - 1) * limit;
    q.has_page = true;
    q.page_number = (int64_t)number;
    ms_task_page page = page_of(store, &q);
    size_t left = from < n ? n - from : 0;
    assert_int_equal(page.count, left < limit ? left : limit);
    assert_int_equal(page.has_more, left > limit);
    for (size_t i = 0; i < page.count; i++)
        assert_int_equal(ms_seq(page.items[i]), t->rows[rows[from + i]].seq);
}

static void pages_are_the_list(void **state)
{
    static twin t;
    store_options options;
    uint64_t rng = test_seed() + 3;
    memset(&options, 0, sizeof options);
    options.room = (size_t)4 << 20;
    test_store s = store_open((store_kind *)*state, &options);
    for (size_t i = 0; i < 70; i++) {
        grow(&rng, s.store, &t);
        size_t walks = i % 10 == 0 ? test_times(20) : 1;
        for (; walks > 0; walks--) {
            ms_task_query q = random_listing(&rng);
            walk(s.store, &t, q);
            numbered(s.store, &t, q, 1 + test_below(&rng, 12));
            ms_arena_reset(&arena);
        }
        if (i == 40) store_reopen(&s);
    }
    for (size_t f = 0; f < COUNT(filters); f++)
        for (int oldest = 0; oldest < 2; oldest++) {
            ms_task_query q = random_listing(&rng);
            q.filters = ms_str_of(filters[f]);
            q.oldest_first = oldest != 0;
            walk(s.store, &t, q);
        }
    twin_free(&t);
    store_close(&s);
}

/* From the top of the first page, oldest first: just what has come since. Twice, since
 * one may ask when nothing is there. */
static void newer(uint64_t *rng, test_store *s, twin *t, ms_task_query q, ms_str top,
                  uint64_t newest)
{
    q.cursor = top;
    q.oldest_first = true;
    q.limit = MANY;
    for (int again = 0; again < 3; again++) {
        size_t rows[MANY], n = twin_list(t, &q, rows), from = n;
        while (from > 0 && t->rows[rows[from - 1]].seq > newest) from--;
        ms_task_page page = page_of(s->store, &q);
        assert_int_equal(page.count, n - from);
        for (size_t i = 0; i < page.count; i++)
            assert_int_equal(ms_seq(page.items[i]), t->rows[rows[from + i]].seq);
        newest = t->rows[t->n - 1].seq;
        q.cursor = page.next_cursor;
        if (again == 1) grow(rng, s->store, t);
    }
}

/* Messages come in between two pages: newest first they are not seen, oldest first they
 * are, and a cursor turned round finds just them. */
static void pages_hold_while_messages_come(void **state)
{
    static twin t;
    uint64_t rng = test_seed() + 4;
    store_options options;
    memset(&options, 0, sizeof options);
    options.room = (size_t)4 << 20;
    test_store s = store_open((store_kind *)*state, &options);
    for (size_t round = 0; round < 20; round++) {
        size_t rows[MANY], seen = 0;
        for (uint64_t n = 1 + test_below(&rng, 6); n > 0; n--) grow(&rng, s.store, &t);
        ms_task_query q = random_listing(&rng);
        q.by_time = false;
        q.limit = 1 + (size_t)test_below(&rng, 5);
        size_t n = twin_list(&t, &q, rows);
        ms_str top = no_str();
        uint64_t newest = t.rows[t.n - 1].seq;
        for (bool more = true; more;) {
            ms_task_page page = page_of(s.store, &q);
            for (size_t i = 0; i < page.count; i++)
                assert_int_equal(ms_seq(page.items[i]), t.rows[rows[seen++]].seq);
            if (top.ptr == NULL) top = page.prev_cursor;
            q.cursor = page.next_cursor;
            more = page.has_more;
            if (!more || !test_one_in(&rng, 3)) continue;
            grow(&rng, s.store, &t);
            if (q.oldest_first) n = twin_list(&t, &q, rows);
        }
        assert_int_equal(seen, n);
        if (!q.oldest_first && top.ptr != NULL) newer(&rng, &s, &t, q, top, newest);
    }
    twin_free(&t);
    store_close(&s);
}

static void a_page_has_fifty_and_the_newest_first(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_task_query q;
    ms_envelope m[120];
    uint64_t seqs[120];
    ms_error err;
    memset(&q, 0, sizeof q);
    q.task_id = MS_STR("t");
    assert_int_equal(page_of(s.store, &q).count, 0);
    assert_null(page_of(s.store, &q).next_cursor.ptr);
    for (size_t i = 0; i < 120; i++) m[i] = ms_user_message(ms_text("x"));
    assert_int_equal(ms_task_create_batch(s.store, MS_STR("t"), m, 120, NULL, &arena,
                                          seqs,
                                          &err), MS_OK);
    ms_task_page page = page_of(s.store, &q);
    assert_int_equal(page.count, 50);
    assert_true(page.has_more);
    assert_int_equal(ms_seq(page.items[0]), seqs[119]);
    assert_int_equal(ms_seq(page.items[49]), seqs[70]);
    q.has_page = true;
    q.page_number = 3;
    page = page_of(s.store, &q);
    assert_int_equal(page.count, 20);
    assert_false(page.has_more);
    q.page_number = INT64_MAX;
    q.limit = SIZE_MAX;
    assert_int_equal(page_of(s.store, &q).count, 0);
    store_close(&s);
}

static void a_batch_counts_milliseconds(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_envelope m[3] = {ms_user_message(ms_text("a")), ms_final(ms_text("b")),
                        ms_data(ms_json(MS_STR("{}")))};
    ms_task_opts opts;
    ms_task_query q;
    uint64_t seqs[3];
    ms_error err;
    memset(&opts, 0, sizeof opts);
    memset(&q, 0, sizeof q);
    opts.has_created_at = true;
    opts.created_at_ns = INT64_C(1700000000999400000);
    q.task_id = MS_STR("t");
    q.oldest_first = true;
    assert_int_equal(ms_task_create_batch(s.store, MS_STR("t"), m, 3, &opts, &arena, seqs,
                                          &err), MS_OK);
    ms_task_page page = page_of(s.store, &q);
    static const char *const times[] = {"2023-11-14T22:13:20.999400Z",
                                        "2023-11-14T22:13:21.000400Z",
                                        "2023-11-14T22:13:21.001400Z"};
    for (size_t i = 0; i < 3; i++) {
        ms_envelope one = ms_envelope_of(page.items[i]);
        ms_str text = writes("task", &one, true, false);
        json_t *json = json_parse_n(text.ptr, text.len);
        json_t *at = json_object_get(json, "created_at");
        assert_int_equal(one.seq, seqs[i]);
        assert_string_equal(json_string_value(at), times[i]);
        assert_null(json_object_get(json_object_get(json, "content"), "time"));
        json_decref(json);
    }
    m[2] = ms_action(MS_STR("f"), ms_json(MS_STR("[")));
    assert_int_not_equal(ms_task_create_batch(s.store, MS_STR("t"), m, 3, &opts, &arena,
                                              seqs, &err), MS_OK);
    assert_string_equal(err.path, "messages[2].args");
    assert_int_equal(page_of(s.store, &q).count, 3);
    assert_int_equal(ms_task_create_batch(s.store, MS_STR("t"), NULL, 0, &opts, NULL,
                                          NULL,
                                          &err), MS_OK);
    opts.id = MS_STR("x");
    assert_int_equal(ms_task_create_batch(s.store, MS_STR("t"), m, 1, &opts, &arena, NULL,
                                          &err), MS_E_ARGUMENT);
    store_close(&s);
}

static void a_message_is_found_by_its_id(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_envelope m = ms_user_message(ms_text("x"));
    ms_task_opts opts;
    uint64_t named, plain, other;
    const ms_msg *msg;
    ms_error err;
    char number[32];
    memset(&opts, 0, sizeof opts);
    opts.id = MS_STR("m-1");
    ms_str t = MS_STR("t");
    assert_int_equal(ms_task_create(s.store, t, &m, &opts, &named, &err), MS_OK);
    assert_int_equal(ms_task_create(s.store, t, &m, NULL, &plain, &err), MS_OK);
    assert_int_equal(ms_task_create(s.store, MS_STR("u"), &m, NULL, &other, &err), MS_OK);
    store_reopen(&s);
    assert_int_equal(ms_task_get(s.store, t, MS_STR("m-1"), &arena, &msg, &err), MS_OK);
    assert_int_equal(ms_seq(msg), named);
    snprintf(number, sizeof number, "%lu", (unsigned long)plain);
    assert_int_equal(ms_task_get(s.store, t, ms_str_of(number), &arena, &msg, &err),
                     MS_OK);
    assert_int_equal(ms_seq(msg), plain);
    snprintf(number, sizeof number, "%lu", (unsigned long)other);
    const char *const not_there[] = {number, "1", "", "m-2", "0", "18446744073709551616",
                                     "99999999999999999999999", "02"};
    for (size_t i = 0; i < COUNT(not_there); i++) {
        assert_int_equal(ms_task_get(s.store, t, ms_str_of(not_there[i]), &arena, &msg,
                                     &err),
                         MS_E_NOT_FOUND);
        assert_null(msg);
    }
    assert_int_equal(ms_task_get(s.store, MS_STR("u"), MS_STR("m-1"), &arena, &msg, &err),
                     MS_E_NOT_FOUND);
    opts.id = ms_str_of(number); /* the number of another message, as a name */
    assert_int_equal(ms_task_create(s.store, t, &m, &opts, &named, &err), MS_OK);
    assert_int_equal(ms_task_get(s.store, t, opts.id, &arena, &msg, &err), MS_OK);
    assert_int_equal(ms_seq(msg), named);
    store_close(&s);
}

/* Flips bits of one byte of a file that is open elsewhere. */
static void flip_byte(FILE *file, size_t at, const char *bytes, int bits)
{
    assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
    assert_int_not_equal(fputc((unsigned char)bytes[at] ^ bits, file), EOF);
    assert_int_equal(fflush(file), 0);
}

/* The id of a message can be the number of another task's: when that one is damaged, the
 * message is found all the same. */
static void damage_of_another_task_hides_nothing(void **state)
{
    test_store s = log_at(0, MS_ENGINE_AUTO);
    ms_envelope theirs = ms_user_message(ms_text("of another task")), m;
    ms_task_opts opts;
    uint64_t seq;
    ms_error err;
    size_t size, at = 0;
    (void)state;
    s.log.events.event = NULL;
    log_open(&s);
    memset(&opts, 0, sizeof opts);
    opts.id = MS_STR("1");
    m = ms_user_message(ms_text("mine"));
    assert_int_equal(ms_task_create(s.store, MS_STR("u"), &theirs, NULL, &seq, &err),
                     MS_OK);
    assert_int_equal(seq, 1);
    assert_int_equal(ms_task_create(s.store, MS_STR("t"), &m, &opts, &seq, &err), MS_OK);
    char *bytes = read_file(s.path, &size);
    assert_non_null(bytes);
    while (memcmp(bytes + at, theirs.content.text.ptr, theirs.content.text.len) != 0)
        assert_true(++at + theirs.content.text.len < size);
    FILE *file = fopen(s.path, "r+b");
    assert_non_null(file);
    for (size_t i = at - 140; i < at + theirs.content.text.len; i++) {
        const ms_msg *mine, *none;
        flip_byte(file, i, bytes, 0x41);
        ms_result code = ms_task_get(s.store, MS_STR("t"), opts.id, &arena, &mine, &err);
        if (code != MS_OK || ms_seq(mine) != seq)
            fail_msg("byte -%ld: %d %s", (long)(at - i), (int)code, err.message);
        assert_int_equal(ms_task_get(s.store, MS_STR("t"), MS_STR("9"), &arena, &none,
                                     &err), MS_E_NOT_FOUND);
        flip_byte(file, i, bytes, 0);
    }
    fclose(file);
    free(bytes);
    store_close(&s);
}

/* No message, no messages, no question: an error, and the task stays as it is. */
static void nothing_given_is_refused(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_str t = MS_STR("t");
    ms_query all = query_of(ms_str_n(NULL, 0), 0);
    ms_task_page page;
    uint64_t seq;
    ms_error err;
    assert_int_equal(ms_task_create(s.store, t, NULL, NULL, &seq, &err), MS_E_ARGUMENT);
    assert_int_equal(ms_task_create_batch(s.store, t, NULL, 1, NULL, &arena, &seq, &err),
                     MS_E_ARGUMENT);
    assert_int_equal(ms_task_list(s.store, NULL, &arena, &page, &err), MS_E_ARGUMENT);
    assert_int_equal(err.code, MS_E_ARGUMENT);
    assert_int_equal(count_of(s.store, &all), 0);
    store_close(&s);
}

#define DEEP(n) "[{\"content\":" n "}]"

#define FOUR_CURSORS \
    "eyJ2IjoxLCJzZXEiOjF9eyJ2IjoxLCJzZXEiOjF9eyJ2IjoxLCJzZXEiOjF9eyJ2IjoxLCJzZXEiOjF9"

static void bad_questions_are_refused(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_task_query base, q;
    ms_task_page page;
    ms_error err;
    memset(&base, 0, sizeof base);
    base.task_id = MS_STR("t");
    ms_envelope m = ms_user_message(ms_text("x"));
    assert_int_equal(ms_task_create(s.store, base.task_id, &m, NULL, NULL, &err), MS_OK);
    ms_str good = page_of(s.store, &base).next_cursor;
    assert_true(good.len > 0);
    for (size_t i = 0; i < good.len; i++) /* safe in a URL */
        assert_non_null(strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                               "0123456789-_", good.ptr[i]));
    static const char *const cursors[] = {
        "", "x", "!!!!", "e30", "eyJ2IjoxfQ", "eyJ2IjoyLCJzZXEiOjF9",      /* v 2 */
        "eyJ2IjoxLCJzZXEiOjB9", "eyJ2IjoxLCJzZXEiOi0xfQ",                  /* seq 0, -1 */
        "eyJ2IjoxLCJzZXEiOjEsImJ5IjoieCJ9",                                /* by x */
        "eyJ2IjoxLCJzZXEiOjEsImJ5IjoidGltZSJ9",                            /* by time */
        "eyJ2IjoieCIsInNlcSI6MX0", "eyJ2IjotMSwic2VxIjoxfQ",               /* v x, -1 */
        FOUR_CURSORS FOUR_CURSORS, /* a cursor, and what is no cursor behind it */
        "e31", "e3"};                           /* bits and letters that are left over */
    for (size_t i = 0; i < COUNT(cursors); i++) {
        q = base;
        q.cursor = ms_str_of(cursors[i]);
        assert_int_equal(ms_task_list(s.store, &q, &arena, &page, &err), MS_E_ARGUMENT);
        assert_string_equal(err.path, "cursor");
    }
    static const struct {
        const char *filters;
        ms_result code;
        const char *path;
    } bad[] = {
        {"", MS_E_SYNTAX, "filters"},
        {"[{]", MS_E_SYNTAX, "filters"},
        {"{}", MS_E_KIND, "filters"},
        {"[{},1]", MS_E_KIND, "filters[1]"},
        {"[{\"content\":1}]", MS_E_KIND, "filters[0].content"},
        {"[{\"streaming_status\":1}]", MS_E_KIND, "filters[0].streaming_status"},
        {"[{\"exclude\":null}]", MS_E_KIND, "filters[0].exclude"},
        {DEEP("{\"a\":[[[[[[[[[[[[1]]]]]]]]]]]]}"), MS_E_DEPTH, "filters"},
        {DEEP("{\"a\":[[[[[[[[[[[1]]]]]]]]]]]}"), MS_OK, ""},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        q = base;
        q.filters = ms_str_of(bad[i].filters);
        memset(&err, 0, sizeof err);
        assert_int_equal(ms_task_list(s.store, &q, &arena, &page, &err), bad[i].code);
        assert_string_equal(err.path, bad[i].path);
        assert_int_equal(page.count, 0);
    }
    q = base;
    q.has_page = true;
    assert_int_equal(ms_task_list(s.store, &q, &arena, &page, &err), MS_E_ARGUMENT);
    assert_string_equal(err.path, "page_number");
    q.page_number = 1;
    q.cursor = good;
    assert_int_equal(ms_task_list(s.store, &q, &arena, &page, &err), MS_E_ARGUMENT);
    q = base;
    q.task_id = no_str();
    assert_int_equal(ms_task_list(s.store, &q, &arena, &page, &err), MS_E_ARGUMENT);
    assert_string_equal(err.path, "task_id");
    assert_int_equal(ms_task_create(s.store, MS_STR(""), &m, NULL, NULL, &err),
                     MS_E_ARGUMENT);
    assert_int_equal(ms_task_list(s.store, &base, NULL, &page, &err), MS_E_ARENA);
    assert_int_equal(ms_task_list(NULL, &base, &arena, &page, &err), MS_E_CLOSED);
    store_close(&s);
}

/* Numbers that no integer is are compared by value, those that no double is as text. */
static void large_numbers_in_filters_are_compared(void **state)
{
    static const struct {
        const char *filters;
        bool found;
    } rows[] = {
        {"[{\"content\":{\"data\":{\"a\":1e999}}}]", true},
        {"[{\"content\":{\"data\":{\"a\":2e999}}}]", false},
        {"[{\"content\":{\"data\":{\"a\":7}}}]", false},
        {"[{\"content\":{\"data\":{\"b\":1.50}}}]", true},
        {"[{\"content\":{\"data\":{\"b\":1e999}}}]", false},
        {"[{\"content\":{\"data\":{\"b\":2}}}]", false},
        {"[{\"content\":{\"data\":{\"c\":2.0}}}]", true},
        {"[{\"content\":{\"data\":{\"c\":2.5}}}]", false},
    };
    test_store s = store_open((store_kind *)*state, NULL);
    ms_task_query q;
    ms_envelope m = ms_assistant_message(
        ms_json(MS_STR("{\"a\":1e999,\"b\":1.5,\"c\":2}")));
    m.type = MS_T_DATA;
    memset(&q, 0, sizeof q);
    q.task_id = MS_STR("t");
    assert_int_equal(ms_task_create(s.store, q.task_id, &m, NULL, NULL, NULL), MS_OK);
    for (size_t i = 0; i < COUNT(rows); i++) {
        q.filters = ms_str_of(rows[i].filters);
        if (page_of(s.store, &q).count != (rows[i].found ? 1u : 0u))
            fail_msg("%s: %s", rows[i].filters, rows[i].found ? "not found" : "found");
    }
    store_close(&s);
}

/* A listing in an arena that is too small says so; filters take no room of the page. */
static void listings_fit_in_a_fixed_arena(void **state)
{
    static char room[40000];
    test_store s = store_open((store_kind *)*state, NULL);
    ms_arena small;
    ms_task_query q;
    ms_task_page page;
    ms_error err;
    memset(&q, 0, sizeof q);
    q.task_id = MS_STR("t");
    q.filters = MS_STR("[{\"content\":{\"type\":\"tool_response\"},\"exclude\":true}]");
    for (int i = 0; i < 300; i++) {
        ms_envelope m = i % 100 == 0 ? ms_user_message(ms_text("x"))
                                     : ms_observation(ms_text("y"));
        must_append(s.store, q.task_id, &m);
    }
    size_t fits = 0;
    for (size_t size = 0; size <= sizeof room; size += 500) {
        ms_arena_init_fixed(&small, room, size);
        ms_result code = ms_task_list(s.store, &q, &small, &page, &err);
        assert_true(code == MS_OK || code == MS_E_ARENA);
        if (code == MS_OK && fits == 0) fits = size;
        if (fits > 0) assert_int_equal(code, MS_OK);
        assert_int_equal(page.count, code == MS_OK ? 3 : 0);
    }
    assert_true(fits > 0 && fits < 20000);
    store_close(&s);
}

/* Reads, writes, joins, converts and lists, all in one arena. */
static ms_result all_of_it(ms_store *store, ms_arena *a, ms_error *err)
{
    ms_read_opts lenient = {true, false};
    ms_json_writer json;
    ms_task_query q;
    ms_task_page page;
    ms_envelopes list;
    ms_envelope joined;
    ms_deltas d;
    ms_writer w;
    ms_buf buf;
    memset(&buf, 0, sizeof buf);
    memset(&q, 0, sizeof q);
    buf.arena = a;
    q.task_id = MS_STR("t");
    q.filters = MS_STR("[{\"content\":{\"t\\u0079pe\":\"te\\u0078t\"}}]");
    ms_writer_init(&w, dialect("task"), NULL, a, ms_buf_write, &buf);
    ms_json_init(&json, ms_buf_write, &buf, false);
    ms_deltas_init(&d, a);
    ms_result code = MS_OK;
    for (size_t i = 0; code == MS_OK && i < COUNT(lenient_rows); i++) {
        code = ms_read(dialect("task"), ms_str_of(lenient_rows[i]), &lenient, a, &list,
                       err);
        if (code == MS_OK) code = ms_writer_put(&w, &list.items[0], err);
    }
    if (code == MS_OK) code = ms_writer_finish(&w, err);
    if (code == MS_OK) code = ms_task_convert(list.items, 1, NULL, a, &json, err);
    const char *delta = "{\"type\":\"reasoning_summary\",\"summary_index\":1,"
                        "\"summary_delta\":\"\\n\"}";
    for (int i = 0; code == MS_OK && i < 100; i++) code = put(&d, delta, err);
    if (code == MS_OK) code = ms_deltas_finish(&d, &joined, err);
    if (code == MS_OK) code = ms_task_list(store, &q, a, &page, err);
    return code;
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    test_store s = store_open(store_kind_at(0), NULL);
    for (int i = 0; i < 60; i++) {
        ms_envelope m = ms_user_message(ms_text("a text of some length"));
        must_append(s.store, MS_STR("t"), &m);
    }
    for (size_t k = 1;; k++) {
        test_alloc heap;
        ms_arena a;
        ms_error err;
        test_alloc_init(&heap);
        heap.fail_at = k;
        ms_arena_init(&a, &heap.alloc);
        ms_result code = all_of_it(s.store, &a, &err);
        assert_int_equal(code, heap.failed > 0 ? MS_E_NO_MEMORY : MS_OK);
        ms_arena_deinit(&a);
        test_alloc_done(&heap);
        if (heap.failed == 0) break;
        assert_true(k < 1000);
    }
    store_close(&s);
}


/* ---- changes ---- */

#define SAYS(author, rest) "{\"type\":\"text\",\"author\":\"" author "\"," rest "}"
#define CALLS(author, id, rest)                                                        \
    "{\"type\":\"tool_request\",\"author\":\"" author "\",\"tool_call_id\":\"" id "\"," \
    "\"name\":\"n\"," rest "}"
#define ANSWERS(id, rest)                                                         \
    "{\"type\":\"tool_response\",\"author\":\"agent\",\"tool_call_id\":\"" id "\"," \
    "\"name\":\"n\"," rest "}"

/* Contents that an update may exchange, by kind; as the format writes them. */
static const char *const exchanges[][3] = {
    {SAYS("user", "\"content\":\"a\""),
     SAYS("user", "\"content\":\"\",\"format\":\"code\""),
     SAYS("user", "\"content\":\"\\u00e9\",\"x\":[{}]")},
    {TEXT, SAYS("agent", "\"content\":\"y\",\"style\":\"active\""),
     SAYS("agent", "\"content\":\"z\",\"attachments\":null")},
    {"{\"type\":\"data\",\"author\":\"agent\",\"data\":{}}",
     "{\"type\":\"data\",\"author\":\"user\",\"data\":{\"a\":[1.50]}}",
     "{\"type\":\"data\",\"author\":\"agent\",\"data\":{\"type\":\"x\"}}"},
    {CALLS("agent", "1", "\"arguments\":{}"),
     CALLS("agent", "2", "\"arguments\":{\"a\":0}"),
     CALLS("user", "1", "\"arguments\":{\"deep\":[{}]}")},
    {ANSWERS("1", "\"content\":null"),
     ANSWERS("1", "\"content\":{\"r\":1},\"is_error\":false"),
     ANSWERS("3", "\"content\":\"t\",\"style\":\"static\"")},
    {ANSWERS("1", "\"content\":\"e\",\"is_error\":true"),
     ANSWERS("1", "\"content\":[],\"is_error\":true"),
     ANSWERS("", "\"content\":\"f\",\"is_error\":true,\"x\":1")},
    {"{\"type\":\"reasoning\",\"author\":\"agent\",\"summary\":[]}",
     "{\"type\":\"reasoning\",\"author\":\"agent\",\"summary\":[\"s\"],"
     "\"content\":[\"\"]}",
     "{\"type\":\"reasoning\",\"author\":\"agent\",\"summary\":[\"\"],\"content\":null}"},
};

/* A task as one would keep it: an array of JSON, in order. */
typedef struct kept_task {
    size_t n;
    struct kept_row {
        uint64_t seq;
        size_t kind;
        char id[24];
        json_t *json;         /* NULL: deleted */
    } rows[MANY];
} kept_task;

static void kept_free(kept_task *t)
{
    for (size_t i = 0; i < t->n; i++) json_decref(t->rows[i].json);
    t->n = 0;
}

static const char *random_status(uint64_t *rng)
{
    static const char *const words[] = {NULL, "DONE", "IN_PROGRESS"};
    return words[test_below(rng, 3)];
}

static json_t *date_json(int64_t ns)
{
    char text[64];
    time_t whole = (time_t)(ns / 1000000000);
    struct tm parts;
    gmtime_r(&whole, &parts);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return json_string(text);
}

/* Creates a message, with an id of its own or without. */
static void kept_create(uint64_t *rng, ms_store *store, kept_task *t)
{
    struct kept_row *row = &t->rows[t->n];
    char text[400];
    ms_task_opts opts;
    ms_error err;
    const char *status = random_status(rng);
    assert_true(t->n < MANY);
    memset(&opts, 0, sizeof opts);
    memset(row, 0, sizeof *row);
    row->kind = (size_t)test_below(rng, COUNT(exchanges));
    const char *content = exchanges[row->kind][test_below(rng, 3)];
    snprintf(text, sizeof text, "{\"task_id\":\"x\",\"content\":%s,\"mine\":{\"a\":%u}}",
             content, (unsigned)test_below(rng, 9));
    json_t *json = json_parse_n(text, strlen(text));
    if (status) json_object_set_new(json, "streaming_status", json_string(status));
    char *spelled = json_dumps(json, JSON_COMPACT);
    ms_envelope m = reads("task", ms_str_of(spelled), false);
    opts.has_created_at = true;
    opts.created_at_ns = SECONDS(1700000000 + (double)test_below(rng, 99));
    bool named = test_one_in(rng, 2);
    if (named) snprintf(row->id, sizeof row->id, "m%zu", t->n);
    if (named) opts.id = ms_str_of(row->id);
    if (ms_task_create(store, MS_STR("task"), &m, &opts, &row->seq, &err) != MS_OK)
        fail_msg("%s: %s", err.path, err.message);
    free(spelled);
    if (!named) snprintf(row->id, sizeof row->id, "%lu", (unsigned long)row->seq);
    json_object_set_new(json, "id", json_string(row->id));
    json_object_set_new(json, "task_id", json_string("task"));
    json_object_set_new(json, "created_at", date_json(opts.created_at_ns));
    row->json = json;
    t->n++;
}

/* A change of one message, in the twin too when it will be done. */
static ms_task_change kept_change(uint64_t *rng, struct kept_row *row, bool done)
{
    ms_task_change c;
    const char *status = random_status(rng);
    memset(&c, 0, sizeof c);
    c.id = ms_str_of(row->id);
    c.has_updated_at = true;
    c.updated_at_ns = SECONDS(1800000000 + (double)test_below(rng, 99));
    c.streaming_status = ms_str_of(status);
    done = done && row->json != NULL;
    if (!test_one_in(rng, 4)) {
        const char *text = exchanges[row->kind][test_below(rng, 3)];
        ms_envelope *m = (ms_envelope *)ms_arena_alloc(&arena, sizeof *m);
        *m = reads("task", ms_str_of(text), false);
        c.content = m;
        if (done)
            json_object_set_new(row->json, "content", json_parse_n(text, strlen(text)));
    }
    if (done) {
        if (status)
            json_object_set_new(row->json, "streaming_status", json_string(status));
        json_object_set_new(row->json, "updated_at", date_json(c.updated_at_ns));
    }
    return c;
}

static void must_be_kept(ms_store *store, const kept_task *t)
{
    ms_task_query q;
    size_t at = 0;
    memset(&q, 0, sizeof q);
    q.task_id = MS_STR("task");
    q.oldest_first = true;
    q.limit = MANY;
    ms_task_page page = page_of(store, &q);
    for (size_t i = 0; i < t->n; i++) {
        json_where where = {{0}, 0};
        if (t->rows[i].json == NULL) continue;
        assert_true(at < page.count);
        assert_int_equal(ms_seq(page.items[at]), t->rows[i].seq);
        ms_envelope m = ms_envelope_of(page.items[at++]);
        ms_str text = writes("task", &m, true, false);
        json_t *got = json_parse_n(text.ptr, text.len);
        if (!json_same(got, t->rows[i].json, 0, &where))
            fail_msg("differ at \"%s\": %.*s", where.path, (int)text.len, text.ptr);
        json_decref(got);
    }
    assert_int_equal(at, page.count);
}

static void kept_update(uint64_t *rng, ms_store *store, kept_task *t)
{
    struct kept_row *row = &t->rows[test_below(rng, t->n)];
    bool there = row->json != NULL;
    ms_task_change c = kept_change(rng, row, true);
    const ms_msg *msg;
    ms_error err;
    assert_int_equal(ms_task_update(store, MS_STR("other"), &c, &arena, &msg, &err),
                     MS_E_NOT_FOUND);
    assert_null(msg);
    ms_result code = ms_task_update(store, MS_STR("task"), &c, &arena, &msg, &err);
    if (code != (there ? MS_OK : MS_E_NOT_FOUND))
        fail_msg("%s: %s", err.path, err.message);
    if (there) assert_int_equal(ms_seq(msg), row->seq);
    if (there) assert_true((ms_flags(msg) & MS_FLAG_AMENDED) != 0);
}

/* Some that are there, some that are not, some twice. */
static void kept_batch(uint64_t *rng, ms_store *store, kept_task *t)
{
    ms_task_change changes[12];
    size_t n = (size_t)test_below(rng, COUNT(changes)), updated, expected = 0;
    ms_error err;
    for (size_t i = 0; i < n; i++) {
        struct kept_row *row = &t->rows[test_below(rng, t->n)];
        bool misses = test_one_in(rng, 4);
        expected += !misses && row->json != NULL;
        changes[i] = kept_change(rng, row, !misses);
        if (misses) changes[i].id = MS_STR("no such");
    }
    if (ms_task_update_batch(store, MS_STR("task"), changes, n, &arena, &updated, &err) !=
        MS_OK)
        fail_msg("%s: %s", err.path, err.message);
    assert_int_equal(updated, expected);
}

static void kept_delete(uint64_t *rng, ms_store *store, kept_task *t)
{
    ms_str ids[6];
    size_t n = (size_t)test_below(rng, COUNT(ids)), deleted, expected = 0;
    ms_error err;
    for (size_t i = 0; i < n; i++) {
        struct kept_row *row = &t->rows[test_below(rng, t->n)];
        ids[i] = test_one_in(rng, 4) ? MS_STR("99999") : ms_str_of(row->id);
        if (ids[i].ptr != row->id || row->json == NULL) continue;
        expected++;
        json_decref(row->json);
        row->json = NULL;
    }
    if (ms_task_delete(store, MS_STR("task"), ids, n, &arena, &deleted, &err) != MS_OK)
        fail_msg("%s: %s", err.path, err.message);
    assert_int_equal(deleted, expected);
}

/* What is created, updated and deleted in any order is what an array of JSON is. */
static void changed_tasks_are_what_one_would_keep(void **state)
{
    static kept_task t;
    uint64_t rng = test_seed() + 5;
    store_options options;
    memset(&options, 0, sizeof options);
    options.room = (size_t)4 << 20;
    test_store s = store_open((store_kind *)*state, &options);
    t.n = 0;
    for (size_t i = 0, n = 40 + test_times(160); i < n; i++) {
        uint64_t what = t.n == 0 ? 0 : test_below(&rng, 8);
        if (what < 3) kept_create(&rng, s.store, &t);
        else if (what < 5) kept_update(&rng, s.store, &t);
        else if (what < 7) kept_batch(&rng, s.store, &t);
        else kept_delete(&rng, s.store, &t);
        ms_envelope other = ms_user_message(ms_text("elsewhere"));
        if (i % 4 == 0) must_append(s.store, MS_STR("other"), &other);
        if (i == n / 2) store_reopen(&s);
        if (i % 5 == 0 || i + 1 == n) must_be_kept(s.store, &t);
        ms_arena_reset(&arena);
    }
    store_reopen(&s);
    must_be_kept(s.store, &t);
    kept_free(&t);
    store_close(&s);
}

static ms_str status_of(const ms_msg *msg, char out[16])
{
    ms_envelope m = ms_envelope_of(msg);
    ms_str text = writes("task", &m, true, false);
    json_t *json = json_parse_n(text.ptr, text.len);
    const char *status = json_string_value(json_object_get(json, "streaming_status"));
    snprintf(out, 16, "%s", status ? status : "-");
    json_decref(json);
    return ms_str_of(out);
}

static void all_of_a_task_can_go(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_query both = query_of(no_str(), 0);
    uint64_t deleted = 7;
    ms_error err;
    ms_envelope m = ms_user_message(ms_text("x"));
    for (int i = 0; i < 5; i++) must_append(s.store, MS_STR("t"), &m);
    must_append(s.store, MS_STR("u"), &m);
    assert_int_equal(ms_task_delete_all(s.store, MS_STR("t"), &deleted, &err), MS_OK);
    assert_int_equal(deleted, 5);
    assert_int_equal(count_of(s.store, &both), 1);
    assert_int_equal(ms_task_delete_all(s.store, MS_STR("t"), &deleted, &err), MS_OK);
    assert_int_equal(deleted, 0);
    assert_int_equal(ms_task_delete_all(s.store, MS_STR("none"), NULL, &err), MS_OK);
    assert_int_equal(ms_task_delete_all(s.store, no_str(), &deleted, &err),
                     MS_E_ARGUMENT);
    assert_int_equal(ms_task_delete_all(s.store, MS_STR(""), &deleted, &err),
                     MS_E_ARGUMENT);
    assert_int_equal(count_of(s.store, &both), 1);
    store_close(&s);
}

/* A number names a message without an id before it names one that is called so; of two
 * with one id the newest is meant, as in ms_task_get. */
static void ids_mean_what_they_mean_when_asked(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_envelope m = ms_user_message(ms_text("x"));
    ms_str t = MS_STR("t"), ids[3] = {MS_STR("1"), MS_STR("twin"), MS_STR("2")};
    const ms_msg *msg;
    size_t deleted;
    uint64_t seqs[4];
    ms_error err;
    const ms_str names[4] = {no_str(), ids[0], ids[1], ids[1]};
    for (size_t i = 0; i < 4; i++) {
        m.id = names[i];
        seqs[i] = must_append(s.store, t, &m);
    }
    assert_true(seqs[0] == 1);
    assert_int_equal(ms_task_delete(s.store, t, ids, 3, &arena, &deleted, &err), MS_OK);
    assert_int_equal(deleted, 2); /* 2 has an id of its own, and no other is called so */
    assert_int_equal(ms_task_get(s.store, t, ids[1], &arena, &msg, &err), MS_OK);
    assert_int_equal(ms_seq(msg), seqs[2]);
    assert_int_equal(ms_task_get(s.store, t, ids[0], &arena, &msg, &err), MS_OK);
    assert_int_equal(ms_seq(msg), seqs[1]);
    ms_task_change c;
    memset(&c, 0, sizeof c);
    c.id = ids[0];
    size_t updated;
    assert_int_equal(ms_task_update_batch(s.store, t, &c, 1, &arena, &updated, &err),
                     MS_OK);
    assert_int_equal(updated, 1);
    assert_int_equal(ms_task_get(s.store, t, ids[0], &arena, &msg, &err), MS_OK);
    assert_int_equal(ms_seq(msg), seqs[1]);
    assert_true((ms_flags(msg) & MS_FLAG_AMENDED) != 0);
    store_close(&s);
}

/* Everything around the content: kept, or as a wrapper of its own says. */
static void what_is_around_the_content_stays(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_str t = MS_STR("t");
    const ms_msg *msg;
    ms_error err;
    ms_task_change c;
    ms_envelope m = reads("task", MS_STR(WRAP(",\"id\":\"m\",\"created_at\":"
                          "\"2024-01-15T10:30:00+01:00\",\"a\":{},"
                          "\"streaming_status\":\"DONE\",\"updated_at\":null")), false);
    ms_envelope bare = reads("task", MS_STR(TEXT), false), whole;
    m.agent_key = MS_STR("agent");
    m.turn_id = MS_STR("turn");
    m.key = MS_STR("key");
    must_append(s.store, t, &m);
    memset(&c, 0, sizeof c);
    c.id = MS_STR("m");
    c.content = &bare;
    c.has_updated_at = true;
    c.updated_at_ns = SECONDS(1.25);
    bare.content = ms_text("new");
    assert_int_equal(ms_task_update(s.store, t, &c, &arena, &msg, &err), MS_OK);
    store_reopen(&s);
    assert_int_equal(ms_task_get(s.store, t, c.id, &arena, &msg, &err), MS_OK);
    ms_envelope now = ms_envelope_of(msg);
    assert_true(ms_str_equal(now.agent_key, m.agent_key));
    assert_true(ms_str_equal(now.turn_id, m.turn_id));
    assert_true(ms_str_equal(now.key, m.key));
    now.turn_id = now.key = no_str();
    same_json(writes("task", &now, false, false),
              MS_STR("{\"id\":\"m\",\"task_id\":\"t\",\"content\":{\"type\":\"text\","
                     "\"author\":\"agent\",\"content\":\"new\"},\"created_at\":"
                     "\"2024-01-15T10:30:00+01:00\",\"a\":{},"
                     "\"streaming_status\":\"DONE\","
                     "\"updated_at\":\"1970-01-01T00:00:01.250Z\"}"), 0);
    whole = reads("task", MS_STR("{\"id\":\"other\",\"task_id\":\"else\","
                                 "\"content\":" TEXT ",\"b\":1,"
                                 "\"created_at\":\"2000-01-01T00:00:00Z\","
                                 "\"streaming_status\":null}"), false);
    c.content = &whole;
    assert_int_equal(ms_task_update(s.store, t, &c, &arena, &msg, &err), MS_OK);
    now = ms_envelope_of(msg);
    now.turn_id = now.key = no_str();
    same_json(writes("task", &now, false, false),
              MS_STR(WRAP(",\"id\":\"m\",\"created_at\":\"2024-01-15T10:30:00+01:00\","
                          "\"b\":1,\"streaming_status\":\"DONE\","
                          "\"updated_at\":\"1970-01-01T00:00:01.250Z\"")), 0);
    whole = reads("task", MS_STR(WRAP(",\"streaming_status\":\"IN_PROGRESS\"")), false);
    assert_int_equal(ms_task_update(s.store, t, &c, &arena, &msg, &err), MS_OK);
    char status[16];
    assert_true(ms_str_equal(status_of(msg, status), MS_STR("IN_PROGRESS")));
    c.content = NULL; /* nothing but the time */
    c.has_updated_at = false;
    assert_int_equal(ms_task_update(s.store, t, &c, &arena, NULL, &err), MS_OK);
    assert_int_equal(ms_task_get(s.store, t, c.id, &arena, &msg, &err), MS_OK);
    assert_true(ms_str_equal(ms_content(msg).text, MS_STR("x")));
    store_close(&s);
}

static void bad_changes_change_nothing(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_str t = MS_STR("t"), ids[2] = {MS_STR("m"), no_str()};
    ms_envelope text = ms_user_message(ms_text("x"));
    ms_envelope data = ms_data(ms_json(MS_STR("{}")));
    ms_envelope broken = ms_user_message(ms_json(MS_STR("{")));
    ms_task_change base, c, two[2];
    const ms_msg *msg;
    size_t n;
    ms_error err;
    text.id = MS_STR("m");
    must_append(s.store, t, &text);
    memset(&base, 0, sizeof base);
    base.id = MS_STR("m");
    c = base;
    c.streaming_status = MS_STR("done");
    assert_int_equal(ms_task_update(s.store, t, &c, &arena, &msg, &err), MS_E_ARGUMENT);
    assert_string_equal(err.path, "streaming_status");
    c.streaming_status = MS_STR("");
    assert_int_equal(ms_task_update(s.store, t, &c, &arena, &msg, &err), MS_E_ARGUMENT);
    c = base;
    c.has_updated_at = true;
    c.updated_at_ns = MS_TIME_NONE;
    assert_int_equal(ms_task_update(s.store, t, &c, &arena, &msg, &err), MS_E_RANGE);
    assert_string_equal(err.path, "updated_at");
    c = base;
    c.id = no_str();
    assert_int_equal(ms_task_update(s.store, t, &c, &arena, &msg, &err), MS_E_ARGUMENT);
    assert_string_equal(err.path, "id");
    c = base;
    c.content = &data;
    assert_int_equal(ms_task_update(s.store, t, &c, &arena, &msg, &err), MS_E_TYPE);
    assert_null(msg);
    c.content = &broken;
    assert_int_equal(ms_task_update(s.store, t, &c, &arena, &msg, &err), MS_E_SYNTAX);
    assert_int_equal(ms_task_update(s.store, t, NULL, &arena, &msg, &err), MS_E_ARGUMENT);
    assert_int_equal(ms_task_update(s.store, t, &base, NULL, &msg, &err), MS_E_ARENA);
    assert_int_equal(ms_task_update(s.store, no_str(), &base, &arena, &msg, &err),
                     MS_E_ARGUMENT);
    assert_int_equal(ms_task_update(NULL, t, &base, &arena, &msg, &err), MS_E_CLOSED);
    two[0] = base;
    two[1] = c;
    two[1].streaming_status = MS_STR("?");
    assert_int_equal(ms_task_update_batch(s.store, t, two, 2, &arena, &n, &err),
                     MS_E_ARGUMENT);
    assert_string_equal(err.path, "changes[1].streaming_status");
    assert_int_equal(ms_task_update_batch(s.store, t, NULL, 1, &arena, &n, &err),
                     MS_E_ARGUMENT);
    assert_int_equal(ms_task_update_batch(s.store, t, NULL, 0, NULL, &n, &err), MS_OK);
    assert_int_equal(ms_task_update_batch(s.store, t, &base, 1, NULL, &n, &err),
                     MS_E_ARENA);
    assert_int_equal(ms_task_delete(s.store, t, ids, 2, &arena, &n, &err), MS_E_ARGUMENT);
    assert_string_equal(err.path, "ids[1]");
    assert_int_equal(ms_task_delete(s.store, t, NULL, 1, &arena, &n, &err),
                     MS_E_ARGUMENT);
    assert_int_equal(ms_task_delete(s.store, t, NULL, 0, NULL, &n, &err), MS_OK);
    assert_int_equal(ms_task_delete(s.store, t, ids, 1, NULL, &n, &err), MS_E_ARENA);
    assert_int_equal(ms_task_delete(s.store, MS_STR("u"), ids, 1, &arena, &n, &err),
                     MS_OK);
    assert_int_equal(n, 0);
    assert_int_equal(ms_task_get(s.store, t, base.id, &arena, &msg, &err), MS_OK);
    assert_int_equal(ms_flags(msg) & MS_FLAG_AMENDED, 0);
    two[1] = c; /* the first one is done before the second one fails */
    assert_int_equal(ms_task_update_batch(s.store, t, two, 2, &arena, &n, &err),
                     MS_E_SYNTAX);
    assert_int_equal(n, 1);
    assert_true(strncmp(err.path, "changes[1].", 11) == 0);
    store_close(&s);
}

/* An allocator that hides a message when it is asked for memory: as if somebody else had
 * done so just then. */
typedef struct meddler {
    ms_store *store;
    uint64_t seq;             /* 0: done */
} meddler;

static void *meddle(void *ctx, void *ptr, size_t old_size, size_t new_size)
{
    meddler *m = (meddler *)ctx;
    uint64_t seq = m->seq;
    (void)old_size;
    m->seq = 0;
    if (seq > 0) assert_int_equal(ms_hide(m->store, seq, NULL), MS_OK);
    if (new_size > 0) return realloc(ptr, new_size);
    free(ptr);
    return NULL;
}

static void what_goes_meanwhile_is_not_there(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_envelope m = ms_user_message(ms_text("x"));
    ms_error err;
    for (int batch = 0; batch < 2; batch++) {
        meddler way = {NULL, 0};
        ms_alloc alloc = {meddle, NULL};
        ms_arena a;
        ms_task_change c;
        const ms_msg *msg;
        size_t n = 9;
        char id[24];
        way.store = s.store;
        alloc.ctx = &way;
        way.seq = must_append(s.store, MS_STR("t"), &m);
        snprintf(id, sizeof id, "%lu", (unsigned long)way.seq);
        memset(&c, 0, sizeof c);
        c.id = ms_str_of(id);
        ms_arena_init(&a, &alloc);
        ms_result code =
            batch ? ms_task_update_batch(s.store, MS_STR("t"), &c, 1, &a, &n, &err)
                  : ms_task_update(s.store, MS_STR("t"), &c, &a, &msg, &err);
        assert_int_equal(way.seq, 0);
        assert_int_equal(code, batch ? MS_OK : MS_E_NOT_FOUND);
        if (batch) assert_int_equal(n, 0);
        else assert_null(msg);
        ms_arena_deinit(&a);
    }
    store_close(&s);
}

/* Many ids are found in one walk. */
static void many_changes_are_no_trouble(void **state)
{
    size_t n = test_times(10000), done;
    test_store s = store_open(store_kind_at(0), NULL);
    ms_str *ids = (ms_str *)malloc(n * sizeof *ids);
    ms_task_change *changes = (ms_task_change *)calloc(n, sizeof *changes);
    ms_error err;
    (void)state;
    assert_true(ids != NULL && changes != NULL);
    for (size_t i = 0; i < n; i++) {
        char *name = (char *)ms_arena_alloc(&arena, 32);
        snprintf(name, 32, "message %zu", i);
        ms_envelope m = ms_user_message(ms_text("x"));
        m.id = ids[i] = changes[i].id = ms_str_of(name);
        must_append(s.store, MS_STR("t"), &m);
    }
    assert_int_equal(ms_task_update_batch(s.store, MS_STR("t"), changes, n, &arena, &done,
                                          &err), MS_OK);
    assert_int_equal(done, n);
    assert_int_equal(ms_task_delete(s.store, MS_STR("t"), ids, n, &arena, &done, &err),
                     MS_OK);
    assert_int_equal(done, n);
    free(ids);
    free(changes);
    store_close(&s);
}

/* What fails for memory may be done again, and is then as if it had not failed. */
static void changes_survive_failing_memory(void **state)
{
    (void)state;
    for (size_t k = 1;; k++) {
        test_store s = store_open(store_kind_at(0), NULL);
        ms_str t = MS_STR("t"), ids[] = {MS_STR("m1"), MS_STR("3"), MS_STR("m1")};
        ms_task_change c[2];
        const ms_msg *msg = NULL;
        size_t n;
        test_alloc heap;
        ms_arena a;
        ms_error err;
        for (size_t i = 0; i < 3; i++) {
            ms_envelope m = ms_user_message(ms_text("x"));
            if (i < 2) m.id = i ? MS_STR("m1") : MS_STR("m0");
            must_append(s.store, t, &m);
        }
        memset(c, 0, sizeof c);
        c[0].id = MS_STR("m0");
        c[1].id = MS_STR("3");
        test_alloc_init(&heap);
        heap.fail_at = k;
        ms_arena_init(&a, &heap.alloc);
        ms_result code = ms_task_update(s.store, t, c, &a, &msg, &err);
        if (code == MS_OK) code = ms_task_update_batch(s.store, t, c, 2, &a, &n, &err);
        if (code == MS_OK) code = ms_task_delete(s.store, t, ids, 3, &a, &n, &err);
        assert_int_equal(code, heap.failed > 0 ? MS_E_NO_MEMORY : MS_OK);
        if (code == MS_OK) assert_int_equal(n, 2);
        ms_arena_deinit(&a);
        test_alloc_done(&heap);
        store_close(&s);
        if (heap.failed == 0) break;
        assert_true(k < 100);
    }
}


/* ---- streams of a task ---- */

static ms_stream stream_of(ms_store *store, const ms_envelope *m, int64_t *now)
{
    ms_stream stream;
    ms_stream_opts opts;
    ms_error err;
    memset(&opts, 0, sizeof opts);
    opts.clock = clock_at(now);
    if (ms_stream_begin(&stream, store, MS_STR("t"), m, &opts, &err) != MS_OK)
        fail_msg("begin: %s: %s", err.path, err.message);
    return stream;
}

static void must_feed(ms_stream *stream, const char *const *parts)
{
    ms_error err;
    for (; *parts; parts++)
        if (ms_stream_feed(stream, ms_str_of(*parts), &err) != MS_OK)
            fail_msg("feed: %s", err.message);
}

/* The message as the format writes it; id and created_at aside. */
static void must_be_listed(ms_store *store, uint64_t seq, const char *want)
{
    ms_task_query q;
    memset(&q, 0, sizeof q);
    q.task_id = MS_STR("t");
    ms_task_page page = page_of(store, &q);
    for (size_t i = 0; i < page.count; i++) {
        if (ms_seq(page.items[i]) != seq) continue;
        ms_envelope m = ms_envelope_of(page.items[i]);
        ms_str text = writes("task", &m, true, false);
        json_where where = {{0}, 0};
        json_t *got = json_parse_n(text.ptr, text.len);
        json_t *expected = json_parse_n(want, strlen(want));
        json_object_del(got, "id");
        json_object_del(got, "created_at");
        json_object_del(got, "task_id");
        if (!json_same(got, expected, 0, &where))
            fail_msg("at \"%s\": %.*s instead of %s", where.path, (int)text.len, text.ptr,
                     want);
        json_decref(got);
        json_decref(expected);
        return;
    }
    fail_msg("message %lu is not listed", (unsigned long)seq);
}

static const char *const one_two[] = {"on", "e", " two", NULL};
static const char *const object_parts[] = {"{\"a\"", ":[1", ",2]}", NULL};

static void a_stream_is_in_progress_then_done(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_envelope m = reads("task", MS_STR("{\"type\":\"text\",\"author\":\"agent\","
                                         "\"content\":\"\",\"format\":\"markdown\"}"),
                          false);
    int64_t now = SECONDS(1700000000);
    ms_task_query q;
    ms_error err;
    ms_stream stream = stream_of(s.store, &m, &now);
    uint64_t seq = stream.seq;
    must_be_listed(s.store, seq, "{\"content\":{\"type\":\"text\",\"author\":\"agent\","
                   "\"content\":\"\",\"format\":\"markdown\"},"
                   "\"streaming_status\":\"IN_PROGRESS\"}");
    must_feed(&stream, one_two);
    assert_int_equal(ms_stream_flush(&stream, &err), MS_OK);
    must_be_listed(s.store, seq, "{\"content\":{\"type\":\"text\",\"author\":\"agent\","
                   "\"content\":\"one two\",\"format\":\"markdown\"},"
                   "\"streaming_status\":\"IN_PROGRESS\"}");
    memset(&q, 0, sizeof q);
    q.task_id = MS_STR("t");
    q.filters = MS_STR("[{\"streaming_status\":\"IN_PROGRESS\",\"content\":{\"content\":"
                       "\"one two\"}}]");
    assert_int_equal(page_of(s.store, &q).count, 1);
    assert_int_equal(ms_stream_feed(&stream, MS_STR("!"), &err), MS_OK); /* held back */
    if (ms_task_stream_end(&stream, NULL, NULL, &err) != MS_OK)
        fail_msg("end: %s: %s", err.path, err.message);
    assert_null(stream.store);
    store_reopen(&s);
    must_be_listed(s.store, seq, "{\"content\":{\"type\":\"text\",\"author\":\"agent\","
                   "\"content\":\"one two!\",\"format\":\"markdown\"},"
                   "\"streaming_status\":\"DONE\","
                   "\"updated_at\":\"2023-11-14T22:13:20Z\"}");
    assert_int_equal(page_of(s.store, &q).count, 0);
    q.filters = MS_STR("[{\"streaming_status\":\"DONE\"}]");
    assert_int_equal(page_of(s.store, &q).count, 1);
    assert_int_equal(ms_task_stream_end(&stream, NULL, NULL, &err), MS_E_CLOSED);
    assert_int_equal(ms_task_stream_end(NULL, NULL, NULL, &err), MS_E_CLOSED);
    store_close(&s);
}

/* Data and arguments are fed as text and end as JSON. */
static void fed_objects_are_objects(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_envelope data = ms_data(ms_text("")), call = ms_action(MS_STR("n"), ms_text(NULL));
    int64_t now = SECONDS(1700000000);
    ms_error err;
    static const char *const rest[] = {"}", NULL};
    static const char *const list[] = {"[1]", NULL};
    call.call_id = MS_STR("c");
    ms_stream stream = stream_of(s.store, &data, &now);
    uint64_t seq = stream.seq;
    must_feed(&stream, object_parts);
    assert_int_equal(ms_task_stream_end(&stream, NULL, &arena, &err), MS_OK);
    must_be_listed(s.store, seq, "{\"content\":{\"type\":\"data\",\"author\":\"agent\","
                   "\"data\":{\"a\":[1,2]}},\"streaming_status\":\"DONE\","
                   "\"updated_at\":\"2023-11-14T22:13:20Z\"}");
    stream = stream_of(s.store, &data, &now);
    must_feed(&stream, list);
    assert_int_equal(ms_task_stream_end(&stream, NULL, &arena, &err), MS_E_KIND);
    assert_string_equal(err.path, "content");
    must_feed(&stream, rest);
    assert_int_equal(ms_task_stream_end(&stream, NULL, &arena, &err), MS_E_SYNTAX);
    assert_non_null(stream.store); /* still open */
    ms_envelope whole = ms_data(ms_json(MS_STR("{\"b\":1}")));
    whole.extra = MS_STR("{\"own\":0,\"streaming_status\":\"IN_PROGRESS\"}");
    seq = stream.seq;
    assert_int_equal(ms_task_stream_end(&stream, &whole, &arena, &err), MS_OK);
    must_be_listed(s.store, seq, "{\"content\":{\"type\":\"data\",\"author\":\"agent\","
                   "\"data\":{\"b\":1}},\"own\":0,\"streaming_status\":\"DONE\","
                   "\"updated_at\":\"2023-11-14T22:13:20Z\"}");
    stream = stream_of(s.store, &call, &now);
    seq = stream.seq;
    must_feed(&stream, object_parts);
    assert_int_equal(ms_task_stream_end(&stream, NULL, &arena, &err), MS_OK);
    must_be_listed(s.store, seq, "{\"content\":{\"type\":\"tool_request\",\"author\":"
                   "\"agent\",\"tool_call_id\":\"c\",\"name\":\"n\",\"arguments\":{\"a\":"
                   "[1,2]}},\"streaming_status\":\"DONE\","
                   "\"updated_at\":\"2023-11-14T22:13:20Z\"}");
    store_close(&s);
}

/* The status that a wrapper says wins; a stream that ends otherwise says none. */
static void a_stream_says_what_its_wrapper_says(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    int64_t now = SECONDS(1700000000);
    const ms_msg *msg;
    char status[16];
    ms_error err;
    ms_envelope m = reads("task", MS_STR(WRAP(",\"streaming_status\":\"DONE\"")), false);
    ms_stream stream = stream_of(s.store, &m, &now);
    assert_int_equal(ms_get_by_seq(s.store, stream.seq, &arena, &msg, &err), MS_OK);
    ms_envelope open = ms_envelope_of(msg);
    open.has_time = false;
    open.seq = 0;
    open.location = MS_STR("t");
    same_json(writes("task", &open, false, false),
              MS_STR(WRAP(",\"streaming_status\":\"DONE\"")), 0);
    assert_int_equal(ms_stream_end(&stream, NULL, NULL, &err), MS_OK);
    m = ms_assistant_message(ms_text(""));
    stream = stream_of(s.store, &m, &now);
    uint64_t seq = stream.seq;
    assert_int_equal(ms_get_by_seq(s.store, seq, &arena, &msg, &err), MS_OK);
    assert_true(ms_str_equal(status_of(msg, status), MS_STR("IN_PROGRESS")));
    open = ms_envelope_of(msg);
    open.has_time = false;
    same_json(writes("task", &open, false, false),
              MS_STR("{\"type\":\"text\",\"author\":\"agent\",\"content\":\"\"}"), 0);
    assert_int_equal(ms_stream_end(&stream, NULL, NULL, &err), MS_OK);
    assert_int_equal(ms_get_by_seq(s.store, seq, &arena, &msg, &err), MS_OK);
    assert_true(ms_str_equal(status_of(msg, status), MS_STR("-")));
    store_close(&s);
}

/* An update ends a stream: with its text so far, or with other content; the status it
 * had, or the one named. */
static void an_update_ends_a_stream(void **state)
{
    static const char *const statuses[] = {NULL, "DONE", "IN_PROGRESS"};
    test_store s = store_open((store_kind *)*state, NULL);
    ms_envelope other = ms_assistant_message(ms_text("other"));
    int64_t now = SECONDS(1700000000);
    ms_error err;
    for (int i = 0; i < 12; i++) {
        bool named = i % 2 == 1;
        const char *status = statuses[i / 2 % 3];
        ms_envelope m = ms_assistant_message(ms_text(">"));
        ms_task_change c;
        char id[24], want[300];
        const ms_msg *msg;
        m.id = named ? ms_str_of(id) : no_str();
        snprintf(id, sizeof id, "named %d", i);
        m.id.len = named ? strlen(id) : 0;
        ms_stream stream = stream_of(s.store, &m, &now);
        if (!named) snprintf(id, sizeof id, "%lu", (unsigned long)stream.seq);
        must_feed(&stream, one_two);
        assert_int_equal(ms_stream_flush(&stream, &err), MS_OK);
        memset(&c, 0, sizeof c);
        c.id = ms_str_of(id);
        c.content = i < 6 ? NULL : &other;
        c.streaming_status = ms_str_of(status);
        c.has_updated_at = true;
        c.updated_at_ns = SECONDS(1);
        uint64_t seq = stream.seq;
        if (ms_task_update(s.store, MS_STR("t"), &c, &arena, &msg, &err) != MS_OK)
            fail_msg("%d: %s: %s", i, err.path, err.message);
        assert_int_equal(ms_flags(msg) & MS_FLAG_UNFINISHED, 0);
        snprintf(want, sizeof want, "{\"content\":{\"type\":\"text\",\"author\":"
                 "\"agent\",\"content\":\"%s\"},\"streaming_status\":\"%s\","
                 "\"updated_at\":\"1970-01-01T00:00:01Z\"}", i < 6 ? ">one two" : "other",
                 status ? status : "IN_PROGRESS");
        must_be_listed(s.store, seq, want);
        assert_int_equal(ms_task_stream_end(&stream, NULL, &arena, &err), MS_E_CLOSED);
        must_be_listed(s.store, seq, want);
    }
    store_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_read_is_written),
        cmocka_unit_test(what_is_wrong_is_refused_by_its_path),
        cmocka_unit_test(of_repeated_members_the_last_counts),
        cmocka_unit_test(the_parts_go_into_fields),
        cmocka_unit_test(other_types_have_a_form),
        cmocka_unit_test(an_empty_task_id_stays_where_it_was),
        cmocka_unit_test(a_member_that_stands_twice_counts_once),
        cmocka_unit_test(any_message_comes_back),
        cmocka_unit_test(task_messages_survive_the_framework_format),
        cmocka_unit_test(openai_calls_come_back),
        cmocka_unit_test(results_find_their_calls),
        cmocka_unit_test(broken_bytes_do_no_harm),
        cmocka_unit_test(a_refused_delta_changes_nothing),
        cmocka_unit_test(joined_parts_must_be_an_object),
        cmocka_unit_test(reasoning_is_joined_by_index),
        cmocka_unit_test(many_deltas_are_no_trouble),
        cmocka_unit_test(a_full_arena_loses_no_delta),
        cmocka_unit_test(neighbours_of_one_kind_are_merged),
        cmocka_unit_test(conversion_by_default_and_by_callback),
        cmocka_unit_test(any_allocation_may_fail),
        ON_EVERY_STORE(pages_are_the_list),
        ON_EVERY_STORE(pages_hold_while_messages_come),
        ON_EVERY_STORE(a_page_has_fifty_and_the_newest_first),
        ON_EVERY_STORE(a_batch_counts_milliseconds),
        ON_EVERY_STORE(a_message_is_found_by_its_id),
        cmocka_unit_test(damage_of_another_task_hides_nothing),
        ON_EVERY_STORE(nothing_given_is_refused),
        ON_EVERY_STORE(bad_questions_are_refused),
        ON_EVERY_STORE(large_numbers_in_filters_are_compared),
        ON_EVERY_STORE(listings_fit_in_a_fixed_arena),
        ON_EVERY_STORE(changed_tasks_are_what_one_would_keep),
        ON_EVERY_STORE(all_of_a_task_can_go),
        ON_EVERY_STORE(ids_mean_what_they_mean_when_asked),
        ON_EVERY_STORE(what_is_around_the_content_stays),
        ON_EVERY_STORE(bad_changes_change_nothing),
        ON_EVERY_STORE(what_goes_meanwhile_is_not_there),
        cmocka_unit_test(many_changes_are_no_trouble),
        cmocka_unit_test(changes_survive_failing_memory),
        ON_EVERY_STORE(a_stream_is_in_progress_then_done),
        ON_EVERY_STORE(fed_objects_are_objects),
        ON_EVERY_STORE(a_stream_says_what_its_wrapper_says),
        ON_EVERY_STORE(an_update_ends_a_stream),
    };
    return cmocka_run_group_tests(tests, open_arena, close_arena);
}
