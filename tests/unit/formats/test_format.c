/* Formats as an interface: writers that are fed by hand, that end, go on and fail;
 * templates, which keep what a message's format has beside its fields; the count of what
 * a format has no place for. What a format reads and writes is in the tables of
 * tests/formats/, see test_formats. */

#define _POSIX_C_SOURCE 200809L

#include "format_calls.h"

#include <time.h>

#define FW "framework"
#define OA "openai"
#define ENV "envelope"
#define AN "anthropic"
#define GE "gemini"
#define PY "pydantic-ai"
#define RE "openai-responses"
#define BE "bedrock"
#define GI "gemini-interactions"

static void becomes(const char *name, const ms_envelope *m, size_t n, const char *want)
{
    ms_envelope copy[4];
    ms_envelopes list = {copy, n};
    assert_in_range(n, 1, COUNT(copy));
    memcpy(copy, m, n * sizeof *m);
    same_json(name, written(name, &list, ARRAY), ms_str_of(want));
    same_json(name, written(name, &list, ARRAY | ENCODED), ms_str_of(want));
}


/* ---- messages that a program builds ---- */

TEST(json_string_is_text_when_it_is_written)
{
    ms_envelope m = ms_user_message(ms_json(MS_STR("\"a\\u0062\\n\"")));
    becomes(OA, &m, 1, "[{\"role\":\"user\",\"content\":\"ab\\n\"}]");
    becomes(FW, &m, 1, "[{\"type\":\"user_message\",\"content\":\"ab\\n\"}]");
    becomes(ENV, &m, 1, "[{\"schema\":\"agents-api.message\",\"version\":1,"
                        "\"type\":\"text\",\"role\":\"user\",\"content\":\"ab\\n\","
                        "\"payload\":{},\"metadata\":{}}]");
    m = ms_observation(m.content, ms_str_of(NULL));
    becomes(OA, &m, 1, "[{\"role\":\"user\",\"content\":\"Observation: ab\\n\"}]");
}

/* A row with as many names in metadata as in payload. */
TEST(folding_takes_linear_time_when_names_are_many)
{
    enum { NAMES = 50000 };
    json_t *metadata = json_object(), *payload = json_object();
    char name[16];
    for (unsigned i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "n%u", i);
        json_object_set_new(metadata, name, json_integer(1));
        snprintf(name, sizeof name, "n%u", i + NAMES / 2);
        json_object_set_new(payload, name, json_integer(2));
    }
    json_t *list = json_pack("[{s:s, s:i, s:s, s:o, s:o}]", "schema", "s", "version", 1,
                             "type", "delta", "payload", payload, "metadata", metadata);
    char *json = json_dumps(list, JSON_COMPACT);
    clock_t begin = clock();
    ms_envelopes out = reads(ENV, ms_str_of(json), STRICT);
    ms_str text = written("envelope-rows", &out, ARRAY);
    assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 5);
    json_t *rows = json_parse_n(text.ptr, text.len);
    json_t *folded = json_object_get(json_array_get(rows, 0), "metadata");
    assert_int_equal(json_object_size(folded), NAMES + NAMES / 2 + 1);
    json_decref(rows);
    json_decref(list);
    free(json);
}


/* ---- templates: what a message's format has beside its fields ---- */

/* A member of the source, or of a caller, in whose place it stands; a name may be spelled
 * with an escape. */
TEST(member_is_found_unless_it_is_a_field)
{
    static const struct {
        size_t message;
        const char *name, *value; /* NULL: none */
    } members[] = {
        {0, "signature", "\"s\""}, {0, "id", "\"m1\""}, {0, "thinking", NULL},
        {1, "x", "[1]"}, {1, "y", "2"}, {1, "z", "3"}, {1, "signature", NULL},
    };
    static const char json[] =
        "{\"role\":\"assistant\",\"id\":\"m1\",\"content\":[{\"type\":\"thinking\","
        "\"thinking\":\"t\",\"signature\":\"s\"},{\"type\":\"tool_use\",\"id\":\"c\","
        "\"name\":\"f\",\"input\":{},\"x\":[0],\"x\":[1],\"\\u007a\":1}]}";
    ms_envelopes list = reads(AN, ms_str_of(json), STRICT);
    assert_int_equal(list.count, 2);
    list.items[1].extra = MS_STR("{\"y\":2,\"z\":3}");
    for (size_t i = 0; i < COUNT(members); i++) {
        ms_str value = ms_str_n(NULL, 0);
        const ms_envelope *m = &list.items[members[i].message];
        bool found = ms_member(m, ms_str_of(members[i].name), &value);
        assert_int_equal(found, members[i].value != NULL);
        same_text(value, ms_str_of(members[i].value));
    }
    ms_envelope built = ms_user_message(ms_text("x"));
    assert_false(ms_member(&built, MS_STR("x"), &(ms_str){NULL, 0}));
}

/* The signature of bedrock is in an object in an object. */
TEST(member_of_an_object_inside_is_found_unless_another_has_its_name)
{
    static const struct {
        size_t message;
        const char *name, *value; /* NULL: none */
    } members[] = {
        {0, "signature", "\"s\""}, {0, "x", "1"}, {0, "text", NULL},
        {0, "reasoningText", NULL}, {1, "redactedContent", "\"aGk=\""}, {2, "k", "2"},
    };
    static const char json[] =
        "{\"role\":\"assistant\",\"content\":[{\"reasoningContent\":{\"x\":0,"
        "\"reasoningText\":{\"text\":\"t\",\"signature\":\"s\"}},\"x\":1},"
        "{\"reasoningContent\":{\"redactedContent\":\"aGk=\"}},{\"toolUse\":"
        "{\"toolUseId\":\"c\",\"name\":\"f\",\"input\":{},\"k\":1,\"k\":2}}]}";
    ms_envelopes list = reads(BE, ms_str_of(json), STRICT);
    assert_int_equal(list.count, 3);
    for (size_t i = 0; i < COUNT(members); i++) {
        ms_str value = ms_str_n(NULL, 0);
        const ms_envelope *m = &list.items[members[i].message];
        bool found = ms_member(m, ms_str_of(members[i].name), &value);
        assert_int_equal(found, members[i].value != NULL);
        same_text(value, ms_str_of(members[i].value));
    }
}

/* Another agent wrote between the messages of an answer, with a number before the call.
 * A text without an agent is that of any call. */
TEST(call_is_no_part_of_what_another_agent_said)
{
    static const char *const names[] = {OA, AN, "gemini", "pydantic-ai", BE};
    ms_envelope three[3];
    three[0] = ms_assistant_message(ms_text("I look"));
    three[1] = ms_assistant_message(ms_text("words"));
    three[2] = ms_action(MS_STR("f"), ms_json(MS_STR("{}")), MS_STR("c"));
    three[2].flags |= MS_FLAG_JOINED;
    ms_envelopes list = {three, COUNT(three)};
    for (size_t k = 0; k < COUNT(names); k++)
        for (int way = 0; way < 6; way++) {
            bool own = way < 2, others = way < 4;
            for (size_t i = 0; i < COUNT(three); i++) three[i].seq = way % 2 ? i + 1 : 0;
            three[0].agent_key = three[2].agent_key = own ? MS_STR("me") : ms_str_of(NULL);
            three[1].agent_key = others ? MS_STR("you") : ms_str_of(NULL);
            if (!others) three[2].agent_key = MS_STR("me");
            ms_str text = written(names[k], &list, ARRAY);
            json_t *all = json_parse_n(text.ptr, text.len);
            if (json_array_size(all) != (others ? 3 : 2))
                fail_msg("%s, way %d: %zu", names[k], way, json_array_size(all));
            json_decref(all);
        }
}

/* A message joined to one whose template has no list. */
TEST(template_goes_when_a_neighbour_has_come)
{
    ms_envelope two[2];
    two[0] = reads(OA, MS_STR("{\"x\":1,\"role\":\"assistant\",\"content\":\"a\"}"),
                   STRICT).items[0];
    two[1] = ms_action(MS_STR("f"), ms_json(MS_STR("{}")), MS_STR("c"));
    two[1].flags |= MS_FLAG_JOINED;
    becomes(OA, two, 2,
            "[{\"role\":\"assistant\",\"content\":\"a\",\"tool_calls\":[{\"id\":\"c\","
            "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}]");
}

/* What of a list a format has no place for. */
static ms_left_out left_out_by(const char *name, const ms_envelopes *list)
{
    ms_writer w;
    ms_buf buf;
    ms_error err;
    start(&w, name, ARRAY, &buf);
    for (size_t i = 0; i < list->count; i++)
        must(ms_writer_put(&w, &list->items[i], &err), &err);
    must(ms_writer_finish(&w, &err), &err);
    return w.left_out;
}

TEST(what_has_no_place_is_counted)
{
    static const char json[] =
        "[{\"type\":\"final\",\"content\":\"a\",\"timestamp\":1,\"turn_id\":\"t\","
        "\"step\":3},"
        "{\"type\":\"error\",\"content\":\"b\",\"error_type\":\"E\",\"turn_id\":\"t\"},"
        "{\"type\":\"delegation\",\"worker\":\"w\",\"task\":\"d\"}]";
    ms_envelopes list = reads(FW, ms_str_of(json), STRICT);
    ms_left_out left = left_out_by(OA, &list), none = left_out_by(FW, &list);
    for (unsigned f = 1; f < MS_FIELD_COUNT; f++) {
        assert_int_equal(left.fields[f], f == MS_F_TURN_ID ? 2 : f == MS_F_ERROR_TYPE ||
                                                                     f == MS_F_SOURCE);
        assert_int_equal(none.fields[f], 0);
    }
    assert_int_equal(left.times, 1);
    assert_int_equal(none.times, 0);
}

/* Whatever stands in a template, what is written is JSON; one of the object alone cannot
 * hide the content. */
TEST(template_spoils_nothing_when_it_is_wrong)
{
    static const char letters[] = "\x01\x02{}\":,rcixltfa[]1 n\\u";
    static const char *const begins[] = {"o!", "a!", "g!", "p!", "f!", "r!", "b!", "i!"};
    uint64_t rnd = test_seed();
    for (size_t i = 0; i < test_times(40000); i++) {
        char source[96];
        size_t len = 0, n = (size_t)test_below(&rnd, 40), format = test_below(&rnd, COUNT(begins));
        ms_envelope m = ms_user_message(ms_text("said"));
        ms_envelopes list = {&m, 1};
        memcpy(source, begins[format], 2);
        len = 2;
        source[len++] = ' ';
        source[len++] = format == 3 ? 'q' : 'm';
        while (n-- > 0) {
            bool hole = test_one_in(&rnd, 3), member = test_one_in(&rnd, 5);
            if (hole) source[len++] = '\x01';
            else if (member) memcpy(source + len, "\"k\":", 4), len += 4;
            source[len++] = letters[test_below(&rnd, sizeof letters - 1)];
            if (member && test_one_in(&rnd, 2)) source[len++] = ',';
            if (len > sizeof source - 10) break;
        }
        if (test_one_in(&rnd, 2)) source[len++] = '\x02';
        m.source = ms_str_n(source, len);
        for (size_t f = 0; f < COUNT(begins); f++) {
            static const char *const names[] = {OA, AN, GE, PY, FW, RE, BE, GI};
            ms_str text = written(names[f], &list, LINES | ENCODED);
            json_t *value = json_parse_n(text.ptr, text.len);
            bool block = memchr(source, '\x02', len) != source + len - 1;
            if (!json_is_object(value) || (!block && !has_text(text, "said")))
                fail_msg("%s: %.*s", names[f], (int)text.len, text.ptr);
            json_decref(value);
        }
        ms_arena_reset(&arena);
    }
}

/* The spelling of a list of texts stands only for what the content is, and only where it
 * is such a list. */
TEST(spelling_of_texts_goes_when_it_means_something_else)
{
    static const struct {
        const char *spelled, *content;
        bool kept;
    } cases[] = {
        {"[{\"text\":\"a\"},{\"text\":\"b\"}]", "a\n\nb", true},
        {"[{\"text\":\"a\"},{\"text\":\"b\"}]", "a\n\n", false},
        {"[{\"text\":\"a\"},{\"text\":\"b\"}]", "a\n\nbc", false},
        {"[{\"text\":\"a\"},{\"text\":\"b\"}]", "a\nb", false},
        {"[{\"text\":\"a\"},{\"text\":\"b\"}]", "a", false},
        {"[{\"text\":\"\\u00e9\"}]", "\xc3\xa9", true},
        {"[{\"text\":\"\\u00e9\"}]", "\xc3\xa8", false},
        {"[{\"text\":7}]", "a", false},
        {"[7]", "a", false},
        {"\"a\"", "a", false},
        {"{\"x\":{\"text\":\"a\"}}", "a", false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char source[96];
        ms_envelope m = ms_message(MS_T_REASONING, ms_text(cases[i].content));
        ms_envelopes list = {&m, 1};
        int len = snprintf(source, sizeof source, "r%c h\x01t\x01y:%s,\x02",
                           MS_T_REASONING + 32, cases[i].spelled);
        m.source = ms_str_n(source, (size_t)len);
        ms_str text = written(RE, &list, LINES | ENCODED), summary, first;
        assert_true(ms_json_member(text, MS_STR("summary"), &summary));
        if (cases[i].kept) same_text(summary, ms_str_of(cases[i].spelled));
        if (cases[i].kept) continue;
        assert_true(ms_json_element(summary, 0, &first));
        assert_true(ms_json_member(first, MS_STR("text"), &first));
        assert_true(ms_json_string_is(first, ms_str_of(cases[i].content)));
    }
}

/* What an item has beside its fields is counted where it is not written. */
TEST(members_beside_an_item_that_is_kept_whole_are_counted)
{
    ms_envelopes list = reads(RE, MS_STR("[{\"type\":\"compaction\",\"id\":\"c\"}]"), STRICT);
    list.items[0].extra = MS_STR("{\"provider\":\"p\"}");
    ms_left_out left = left_out_by(RE, &list);
    assert_int_equal(left.fields[MS_F_EXTRA], 1);
    assert_int_equal(left.fields[MS_F_CONTENT], 0);
    list = reads(RE, MS_STR("[{\"type\":\"shell_call\",\"call_id\":\"c\",\"action\":{}},"
                            "{\"type\":\"reasoning\",\"summary\":[]}]"), STRICT);
    left = left_out_by(RE, &list);
    for (unsigned f = 1; f < MS_FIELD_COUNT; f++) assert_int_equal(left.fields[f], 0);
}


/* ---- writers ---- */

/* Texts of every kind, calls, results, and results that come late. */
static const char turns[] =
    "[{\"type\":\"user_message\",\"content\":\"look at all of it, please\"},"
    "{\"type\":\"assistant_message\",\"content\":\"I look\"},{\"type\":\"action\","
    "\"tool\":\"f\",\"args\":{\"a\":[1,2]},\"joined\":true},{\"type\":\"action\","
    "\"tool\":\"g\",\"args\":{},\"joined\":true},{\"type\":\"observation\",\"content\":"
    "{\"rows\":[]}},{\"type\":\"error\",\"content\":\"no\"},{\"type\":\"delegation\","
    "\"worker\":\"w\",\"task\":\"dig\"},{\"type\":\"synthesis\",\"content\":\"s\","
    "\"from_manager\":\"m\"},{\"type\":\"action\",\"tool\":\"h\",\"args\":{}},"
    "{\"type\":\"observation\",\"content\":\"late\",\"extra\":{\"a\":\"b\"}}]";

/* Counts what comes; refuses from a call on, or from a byte on. */
typedef struct sink {
    size_t bytes, calls, fail_at, limit;
} sink;

static ms_result sink_write(void *ctx, const char *bytes, size_t len)
{
    sink *out = (sink *)ctx;
    out->calls++;
    if (out->fail_at != 0 && out->calls >= out->fail_at) return MS_E_IO;
    if (out->limit != 0 && out->bytes + len > out->limit) return MS_E_IO;
    out->bytes += len;
    return MS_OK;
}

/* Writes until the first failure, after which the writer stays failed. */
static ms_result write_until(const char *name, const ms_envelopes *list, sink *out)
{
    ms_writer_opts opts = {true, true, false};
    ms_writer w;
    ms_error err, ignored;
    ms_result code = MS_OK;
    memset(&err, 0, sizeof err);
    ms_writer_init(&w, format_named(name), &opts, &arena, sink_write, out);
    for (size_t i = 0; i < list->count && code == MS_OK; i++)
        code = ms_writer_put(&w, &list->items[i], &err);
    ms_result end = ms_writer_finish(&w, code == MS_OK ? &err : &ignored);
    if (code == MS_OK) code = end;
    if (code == MS_OK) return code;
    assert_int_equal(err.code, code);
    assert_int_equal(ms_writer_put(&w, &list->items[0], NULL), code);
    assert_int_equal(ms_writer_finish(&w, NULL), code);
    return code;
}

/* The result of the function that takes the bytes comes back, wherever it fails. */
TEST(writer_fails_when_its_sink_does)
{
    ms_envelopes list = reads(FW, ms_str_of(turns), STRICT);
    const ms_format *d;
    for (size_t i = 0; (d = ms_format_at(i)) != NULL; i++) {
        sink all = {0, 0, 0, 0};
        assert_int_equal(write_until(d->name, &list, &all), MS_OK);
        for (size_t k = 1; k <= all.calls; k++) {
            sink out = {0, 0, k, 0};
            assert_int_equal(write_until(d->name, &list, &out), MS_E_IO);
        }
        for (size_t limit = 1; limit < all.bytes; limit += 7) {
            sink out = {0, 0, 0, limit};
            assert_int_equal(write_until(d->name, &list, &out), MS_E_IO);
            assert_true(out.bytes <= limit);
        }
    }
}

/* A message that had no memory keeps its number when it is put again. */
TEST(call_gets_the_id_of_its_number_when_it_is_put_again)
{
    static const char want[] = "{\"type\":\"tool_request\",\"author\":\"agent\","
                               "\"tool_call_id\":\"call_5\",\"name\":\"t\","
                               "\"arguments\":{}}\n";
    ms_envelope m = ms_action(MS_STR("t"), ms_json(MS_STR("{}")), ms_str_of(NULL));
    test_alloc heap;
    ms_arena in;
    ms_writer w;
    ms_buf out = {&arena, NULL, 0, 0};
    m.seq = 5;
    test_arena_fails_first(&in, &heap);
    ms_writer_init(&w, format_named("task"), NULL, &in, ms_buf_write, &out);
    assert_int_equal(ms_writer_put(&w, &m, NULL), MS_E_NO_MEMORY);
    assert_int_equal(ms_writer_put(&w, &m, NULL), MS_OK);
    assert_int_equal(ms_writer_finish(&w, NULL), MS_OK);
    ms_arena_deinit(&in);
    test_alloc_done(&heap);
    assert_true(ms_str_equal(ms_buf_text(&out), ms_str_of(want)));
}

/* What follows stands on a new line and is joined to nothing. */
TEST(writer_goes_on_when_it_was_finished)
{
    const ms_format *d;
    for (size_t i = 0; (d = ms_format_at(i)) != NULL; i++) {
        ms_envelope m = ms_user_message(ms_text("x"));
        ms_envelopes none = {NULL, 0};
        ms_error err;
        ms_writer w;
        ms_buf buf;
        same_text(written(d->name, &none, ARRAY), MS_STR("[]\n"));
        if (strcmp(d->name, FW) == 0) continue; /* there "joined" is a member */
        start(&w, d->name, LINES, &buf);
        must(ms_writer_finish(&w, &err), &err);
        assert_int_equal(buf.len, 0);
        for (size_t k = 0; k < 3; k++) {
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

TEST(writer_goes_on_when_it_is_given_no_message_or_no_type)
{
    const ms_format *d;
    for (size_t i = 0; (d = ms_format_at(i)) != NULL; i++) {
        ms_envelope m = ms_user_message(ms_text("x"));
        ms_envelopes list = {&m, 1};
        ms_writer w;
        ms_buf buf;
        ms_error err;
        start(&w, d->name, LINES, &buf);
        assert_int_equal(ms_writer_put(&w, NULL, &err), MS_E_ARGUMENT);
        assert_int_equal(err.code, MS_E_ARGUMENT);
        m.type = MS_T_NONE;
        assert_int_equal(ms_writer_put(&w, &m, &err), MS_E_TYPE);
        assert_string_equal(err.path, "type");
        m = ms_message(MS_T_OTHER, ms_text("x"));
        m.type_name = MS_STR(""); /* a type without a word */
        if (strcmp(d->name, FW) == 0)
            assert_int_equal(ms_writer_put(&w, &m, &err), MS_E_TYPE);
        m = ms_user_message(ms_text("x"));
        must(ms_writer_put(&w, &m, &err), &err);
        must(ms_writer_finish(&w, &err), &err);
        same_text(ms_buf_text(&buf), written(d->name, &list, LINES));
    }
}

/* Ten thousand messages through an arena of 64 KiB, with calls that get no answer. */
TEST(writer_does_not_grow_when_messages_are_many)
{
    static uint64_t buffer[8192];
    ms_envelopes list = reads(FW, ms_str_of(turns), STRICT);
    const ms_format *d;
    for (size_t i = 0; (d = ms_format_at(i)) != NULL; i++) {
        ms_arena own;
        ms_error err;
        ms_writer w;
        sink out = {0, 0, 0, 0};
        test_arena_init_fixed(&own, buffer, sizeof buffer);
        ms_writer_init(&w, d, NULL, &own, sink_write, &out);
        for (size_t k = 0; k < 10000; k++) {
            ms_envelope m = list.items[k % list.count];
            m.seq = k + 1;
            if (k % 7 == 0) m.turn_id = MS_STR("another");
            if (ms_writer_put(&w, &m, &err) != MS_OK)
                fail_msg("%s, message %zu: %s", d->name, k, err.message);
        }
        must(ms_writer_finish(&w, &err), &err);
        assert_true(out.bytes > 500000);
    }
}

/* A field takes JSON up to MS_FIELD_MAX_DEPTH. */
TEST(arguments_in_a_string_stay_text_when_they_are_too_deep_for_a_field)
{
    static char args[2100], json[2400];
    for (size_t depth = MS_FIELD_MAX_DEPTH - 1; depth <= MS_JSON_MAX_DEPTH + 1; depth++) {
        size_t lists = depth - 1;
        char *to = args + sprintf(args, "{\\\"a\\\":");
        memset(to, '[', lists);
        memset(to + lists, ']', lists);
        memcpy(to + 2 * lists, "}", 2);
        (void)sprintf(json, "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":["
                            "{\"id\":\"c\",\"type\":\"function\",\"function\":{"
                            "\"name\":\"f\",\"arguments\":\"%s\"}}]}", args);
        ms_envelopes list = reads("openai", ms_str_of(json), STRICT);
        assert_int_equal(list.count, 1);
        assert_int_equal(list.items[0].args.json, depth <= MS_FIELD_MAX_DEPTH);
    }
}

/* What is written then is JSON, or the writer stays failed for that reason. */
TEST(writer_begins_nothing_inside_a_message_when_memory_ends)
{
    static uint64_t buffer[256];
    static const ms_writer_opts opts = {true, false, true};
    ms_envelopes list = reads(FW, ms_str_of(turns), STRICT);
    const ms_format *d;
    for (size_t i = 0; (d = ms_format_at(i)) != NULL; i++) {
        for (size_t size = 0; size <= sizeof buffer; size += 8) {
            ms_arena own;
            ms_writer w;
            ms_error err;
            ms_buf buf = {&arena, NULL, 0, 0};
            test_arena_init_fixed(&own, buffer, size);
            ms_writer_init(&w, d, &opts, &own, ms_buf_write, &buf);
            for (size_t k = 0; k < list.count; k++) {
                ms_envelope m = list.items[k];
                m.seq = k + 1;
                m.location = MS_STR("job 1");
                (void)ms_writer_put(&w, &m, &err);
            }
            ms_result code = ms_writer_finish(&w, &err);
            if (code == MS_OK) code = ms_json_check(ms_buf_text(&buf), NULL, NULL, &err);
            if (code != MS_OK && code != MS_E_ARENA)
                fail_msg("%s in %zu bytes: %s", d->name, size, err.message);
        }
    }
}

TEST(format_is_found_by_its_name)
{
    size_t n = 0;
    for (const ms_format *d; (d = ms_format_at(n)) != NULL; n++)
        assert_true(ms_format_find(ms_str_of(d->name)) == d);
    assert_true(n >= 2);
    assert_null(ms_format_at((size_t)-1));
    assert_null(ms_format_find(MS_STR("")));
    assert_null(ms_format_find(MS_STR("Framework")));
    assert_null(ms_format_find(ms_str_n(NULL, 0)));
    assert_string_equal(format_named(FW)->name, FW);
}

int main(void)
{
    return run_all_tests(open_arena, close_arena);
}
