/* What a message's format has beside its fields is kept as a template, and written again
 * with the fields as they are now: edits, lost neighbours, other formats, templates that
 * are wrong, and the count of what a format has no place for. */

#define _POSIX_C_SOURCE 200809L

#include "dialects.h"

#include <jansson.h>

#define FW "framework"
#define OA "openai"
#define AN "anthropic"
#define GE "gemini"
#define PY "pydantic-ai"

static ms_envelopes template_read(const char *name, const char *json)
{
    return reads(name, ms_str_of(json), STRICT);
}

/* Without the end of its line; the messages are encoded first, as a store has them. */
static ms_str writes(const char *name, const ms_envelopes *list, bool array,
                     ms_left_out *left_out)
{
    ms_writer w;
    ms_buf buf;
    ms_error err;
    start(&w, name, array ? ARRAY : LINES, &buf);
    for (size_t i = 0; i < list->count; i++) {
        const ms_msg *msg;
        must(ms_encode(&list->items[i], &arena, &msg, &err), &err);
        must(test_writer_put_msg(&w, msg, &err), &err);
    }
    must(ms_writer_finish(&w, &err), &err);
    if (left_out != NULL) *left_out = w.left_out;
    ms_str text = ms_buf_text(&buf);
    if (text.len > 0 && text.ptr[text.len - 1] == '\n') text.len--;
    return text;
}

static void template_text(ms_str got, const char *expected)
{
    same_text(got, ms_str_of(expected));
}

/* ---- what is kept ---- */

/* A source that the writer would write so takes no template; any other takes one. */
static void a_template_is_kept_when_the_source_is_not_canonical(void **state)
{
    (void)state;
    static const struct {
        const char *dialect, *json;
        bool kept;
    } rows[] = {
        {OA, "{\"role\":\"user\",\"content\":\"x\"}", false},
        {OA, " { \"role\" : \"us\\u0065r\", \"content\" : \"\\u0078\" } ", false},
        {OA, "{\"content\":\"x\",\"role\":\"user\"}", true},
        {OA, "{\"role\":\"user\",\"content\":\"x\",\"name\":\"ann\"}", true},
        {OA, "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c\","
             "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}",
         false},
        {AN, "{\"role\":\"assistant\",\"content\":\"x\"}", false},
        {AN, "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"x\"},"
             "{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"f\",\"input\":{}}]}", false},
        {AN, "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":"
             "\"x\",\"signature\":\"s\"}]}", true},
        {GE, "{\"role\":\"model\",\"parts\":[{\"functionCall\":{\"name\":\"f\","
             "\"args\":{}}}]}", false},
        {PY, "{\"kind\":\"request\",\"parts\":[{\"part_kind\":\"user-prompt\",\"content\":"
             "\"x\"}]}", false},
        {FW, "{\"type\":\"task\",\"content\":\"x\",\"timestamp\":1.5}", false},
        {FW, "{\"type\":\"task\",\"content\":\"x\",\"timestamp\":1.50}", true},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_envelopes list = template_read(rows[i].dialect, rows[i].json);
        bool kept = list.items[0].source.ptr != NULL;
        if (kept != rows[i].kept) fail_msg("%s: kept %d", rows[i].json, kept);
        assert_null(list.items[0].extra.ptr);
    }
}

static void members_without_a_field_can_be_asked_for(void **state)
{
    (void)state;
    ms_str value;
    ms_envelopes list = template_read(AN, "{\"role\":\"assistant\",\"id\":\"m1\",\"content\":["
                                  "{\"type\":\"thinking\",\"thinking\":\"t\","
                                  "\"signature\":\"s\"},{\"type\":\"tool_use\",\"id\":"
                                  "\"c\",\"name\":\"f\",\"input\":{},\"x\":[1]}]}");
    ms_envelope *m = list.items;
    assert_int_equal(list.count, 2);
    assert_true(ms_member(&m[0], MS_STR("signature"), &value));
    assert_true(ms_str_equal(value, MS_STR("\"s\"")));
    assert_true(ms_member(&m[0], MS_STR("id"), &value));
    assert_true(ms_str_equal(value, MS_STR("\"m1\"")));
    assert_true(ms_member(&m[1], MS_STR("x"), &value));
    assert_true(ms_str_equal(value, MS_STR("[1]")));
    assert_false(ms_member(&m[1], MS_STR("signature"), &value));
    assert_false(ms_member(&m[0], MS_STR("thinking"), &value));
    m[1].extra = MS_STR("{\"y\":2}");
    assert_true(ms_member(&m[1], MS_STR("y"), &value));
    ms_envelope built = ms_user_message(ms_text("x"));
    assert_false(ms_member(&built, MS_STR("x"), &value));
}

/* ---- edits ---- */

/* Also where one of the two names is spelled with an escape; in an object inside not. */
static void a_callers_member_replaces_the_one_of_the_source(void **state)
{
    (void)state;
    ms_str value;
    ms_left_out left;
    ms_envelopes list = template_read(OA, "{\"cach\\u0065\":1,\"role\":\"user\",\"a\":{\"own\":3},"
                                  "\"content\":\"x\"}");
    list.items[0].extra = MS_STR("{\"own\":4,\"cache\":2}");
    assert_true(ms_member(&list.items[0], MS_STR("cache"), &value));
    assert_true(ms_str_equal(value, MS_STR("2")));
    template_text(writes(OA, &list, false, &left),
              "{\"cach\\u0065\":2,\"role\":\"user\",\"a\":{\"own\":3},\"content\":\"x\","
              "\"own\":4}");
    assert_int_equal(left.fields[MS_F_EXTRA], 0);
    ms_arena_reset(&arena);
}

/* A message joined to one whose template has no list. */
static void neighbours_can_be_added(void **state)
{
    (void)state;
    ms_envelope two[2];
    ms_envelopes list = {two, 2};
    two[0] = template_read(OA, "{\"x\":1,\"role\":\"assistant\",\"content\":\"a\"}").items[0];
    two[1] = ms_action(MS_STR("f"), ms_json(MS_STR("{}")), MS_STR("c"));
    two[1].flags |= MS_FLAG_JOINED;
    template_text(writes(OA, &list, false, NULL),
              "{\"role\":\"assistant\",\"content\":\"a\",\"tool_calls\":[{\"id\":\"c\","
              "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}");
}

/* ---- other formats ---- */

static void what_has_no_place_is_counted(void **state)
{
    (void)state;
    ms_left_out left;
    ms_envelopes list = template_read(FW, "[{\"type\":\"final\",\"content\":\"a\",\"timestamp\":1,"
                                  "\"turn_id\":\"t\",\"step\":3},"
                                  "{\"type\":\"error\",\"content\":\"b\",\"error_type\":"
                                  "\"E\",\"turn_id\":\"t\"},"
                                  "{\"type\":\"delegation\",\"worker\":\"w\",\"task\":"
                                  "\"d\"}]");
    (void)writes(OA, &list, true, &left);
    for (unsigned f = 1; f < MS_FIELD_COUNT; f++) {
        uint64_t want = f == MS_F_TURN_ID ? 2
                        : f == MS_F_ERROR_TYPE || f == MS_F_SOURCE;
        if (left.fields[f] != want)
            fail_msg("field %u: %llu", f, (unsigned long long)left.fields[f]);
    }
    assert_int_equal(left.times, 1);
    (void)writes(FW, &list, true, &left);
    assert_int_equal(left.times, 0);
    for (unsigned f = 1; f < MS_FIELD_COUNT; f++) assert_int_equal(left.fields[f], 0);
}

/* ---- templates that are wrong ---- */

static bool is_json_object(ms_str text)
{
    json_t *value = json_loadb(text.ptr, text.len, JSON_ALLOW_NUL, NULL);
    bool object = json_is_object(value);
    json_decref(value);
    return object;
}

/* Whatever stands in a template, what is written is JSON; one of the object alone cannot
 * hide the content. */
static void a_wrong_template_spoils_nothing(void **state)
{
    (void)state;
    static const char letters[] = "\x01\x02{}\":,rcixltfa[]1 n\\u";
    static const char *const begins[] = {"o!", "a!", "g!", "p!", "f!"};
    uint64_t rnd = test_seed();
    for (size_t i = 0; i < test_times(40000); i++) {
        char source[96];
        size_t len = 0, n = (size_t)test_below(&rnd, 40), format = test_below(&rnd, 5);
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
        for (size_t f = 0; f < 5; f++) {
            static const char *const names[] = {OA, AN, GE, PY, FW};
            ms_str text = writes(names[f], &list, false, NULL);
            bool block = memchr(source, '\x02', len) != source + len - 1;
            if (!is_json_object(text) || (!block && strstr(text.ptr, "said") == NULL))
                fail_msg("%s: %.*s", names[f], (int)text.len, text.ptr);
        }
        ms_arena_reset(&arena);
    }
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, open_arena, close_arena)
    const struct CMUnitTest tests[] = {
        TEST(a_template_is_kept_when_the_source_is_not_canonical),
        TEST(members_without_a_field_can_be_asked_for),
        TEST(a_callers_member_replaces_the_one_of_the_source),
        TEST(neighbours_can_be_added),
        TEST(what_has_no_place_is_counted),
        TEST(a_wrong_template_spoils_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
