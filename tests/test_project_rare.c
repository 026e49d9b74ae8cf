/* ms_project where test_project seldom comes: memory that ends at each allocation of a
 * history that has one message of each kind; white space, scripts and forms of parts one by
 * one; ids for profiles of a program's own; results that name a turn; members that are not
 * what they are called. What has to come of each is written down here.
 *
 * Left out: what providers accept (test_project). Nothing is scaled; about 2000 projections
 * for each of three profiles.
 */

#include "arena.h"
#include "projection.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum { MOST = 400 };

typedef struct history {
    const ms_msg *msgs[MOST];
    size_t n, at;
} history;

static const ms_msg *next_of(void *ctx)
{
    history *h = (history *)ctx;
    return h->at < h->n ? h->msgs[h->at++] : NULL;
}

static void add(history *h, ms_envelope m)
{
    ms_error err;
    m.seq = h->n + 1;
    assert_true(h->n < MOST);
    if (ms_encode(&m, &arena, &h->msgs[h->n++], &err) != MS_OK) fail_msg("%s", err.message);
}

/* What it becomes; the arena is that of the test. */
static ms_str told(const ms_profile *profile, const ms_project_opts *opts, history *h,
                   ms_project_report *report)
{
    ms_buf out;
    ms_error err;
    memset(&out, 0, sizeof out);
    out.arena = &arena;
    h->at = 0;
    if (projection_write(profile, opts, next_of, h, &arena, ms_buf_write, &out, report, &err) !=
        MS_OK)
        fail_msg("%s: %s", profile->name ? profile->name : "", err.message);
    return ms_buf_text(&out);
}

static const ms_profile *profile_of(const char *name)
{
    return ms_profile_find(ms_str_of(name));
}

static bool has(ms_str s, const char *text)
{
    size_t len = strlen(text);
    for (size_t i = 0; i + len <= s.len; i++)
        if (memcmp(s.ptr + i, text, len) == 0) return true;
    return false;
}

static void must_have(ms_str s, const char *text)
{
    if (!has(s, text)) fail_msg("no '%s' in %.*s", text, (int)s.len, s.ptr);
}


/* ---- memory ---- */

static ms_envelope by(const char *agent, ms_envelope m)
{
    m.agent_key = ms_str_of(agent);
    return m;
}

static ms_envelope call(const char *id, const char *tool, ms_value args)
{
    ms_envelope m = by("ann", ms_action(ms_str_of(tool), args, ms_str_of(NULL)));
    m.call_id = ms_str_of(id);
    m.turn_id = MS_STR("turn-1");
    return m;
}

static ms_envelope result(const char *id, ms_value text)
{
    ms_envelope m = by("ann", ms_observation(text, ms_str_of(NULL)));
    m.call_id = ms_str_of(id);
    return m;
}

/* What is said, first half: contexts, users, assistants. */
static void add_talk(history *h)
{
    static char page[3000];
    memset(page, 'w', sizeof page);
    for (size_t i = 0; i < sizeof page; i += 7) page[i] = ' ';
    add(h, ms_message(MS_T_DIRECTOR_CONTEXT, ms_text("be kind")));
    add(h, ms_user_message(ms_json(MS_STR("\"a \\u0041 string\""))));
    add(h, ms_user_message(ms_json(
        MS_STR("[\"one\",{\"type\":\"text\",\"text\":\"t\\u0041wo\"},{\"type\":"
               "\"image_url\",\"image_url\":1},{\"fileData\":{}},{\"text\":\"x\"}]"))));
    add(h, ms_user_message(ms_text("bro\xFFken")));
    add(h, ms_message(MS_T_INJECTED_CONTEXT, ms_text("it is late")));
    add(h, by("ann", ms_assistant_message(ms_text_n(ms_str_n(page, sizeof page)))));
    ms_envelope m = ms_assistant_message(ms_json(MS_STR("null")));
    m.extra = MS_STR("{\"refusal\":\"I w\\u006fn't\"}");
    add(h, by("ann", m));
    m.extra = MS_STR("{\"refusal\":\"N\\u006f\",\"function_call\":{\"name\":\"f\","
                     "\"arguments\":\"{}\"}}");
    add(h, by("ann", m));
    m = ms_assistant_message(ms_text(""));
    m.extra = MS_STR("{\"function_call\":{\"name\":\"o\\u006cd\",\"arguments\":\"{\\\"a"
                     "\\\":1}\"}}");
    add(h, by("ann", m));
}

/* Second half: calls, results and what others did. */
static void add_work(history *h)
{
    static char page[3000];
    memset(page, 'r', sizeof page);
    for (size_t i = 0; i < sizeof page; i += 9) page[i] = '\n';
    ms_envelope m = call("c 1", "search", ms_json(MS_STR("{\"q\":1}")));
    m.content = ms_text("let me see");
    m.extra = MS_STR("{\"thoughtSignature\":\"abc\",\"outcome\":\"denied\"}");
    add(h, m);
    add(h, call("c2", "search", ms_text("no object")));
    m = result("c 1", ms_text_n(ms_str_n(page, sizeof page)));
    m.extra = MS_STR("{\"outcome\":\"denied\"}");
    add(h, m);
    m = by("ann", ms_observation(ms_json(MS_STR("{\"b\":2}")), ms_str_of(NULL)));
    m.args = ms_json(MS_STR("{\"own\":1}"));
    m.tool = MS_STR("own");
    add(h, m);
    add(h, ms_user_message(ms_text("go on")));
    m = by("ann", test_delegation(MS_STR("bob"), MS_STR("dig")));
    m.turn_id = MS_STR("turn-2");
    add(h, m);
    add(h, by("bob", ms_action(MS_STR("dig"), ms_json(MS_STR("{}")), ms_str_of(NULL))));
    add(h, by("bob", test_error_message(ms_text("a stone"), MS_STR("E"))));
    m = by("bob", ms_message(MS_T_GLOBAL_OBSERVATION, ms_text("it rains")));
    m.summary = MS_STR("rain");
    m.from_worker = MS_STR("bob");
    add(h, m);
    add(h, by("ann", test_synthesis(ms_text("all in all"), MS_STR("boss"))));
    add(h, ms_observation(ms_text("seen by nobody"), ms_str_of(NULL)));
    add(h, by("ann", ms_message(MS_T_INPUT_REQUIRED, ms_text("which one?"))));
    add(h, ms_user_message(ms_text("that one")));
    add(h, by("ann", ms_message(MS_T_FINAL, ms_text("done "))));
    for (int i = 0; i < 20; i++) { /* tables and lists grow */
        char *id = (char *)ms_arena_alloc(&arena, 16);
        snprintf(id, 16, "id%d", i);
        add(h, call(id, id, ms_json(MS_STR("{}"))));
    }
    for (int i = 0; i < 19; i++) {
        char *id = (char *)ms_arena_alloc(&arena, 16);
        snprintf(id, 16, "id%d", i);
        add(h, result(id, ms_text("r")));
    }
}

static size_t key_of(void *ctx, const ms_envelope *m, char out[MS_ENTITY_KEY_MAX])
{
    (void)ctx;
    return test_entity_key(MS_STR("note"), m->seq, out);
}

static ms_project_opts all_options(void)
{
    ms_project_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.agent_key = MS_STR("ann");
    opts.system = MS_STR("you are ann");
    opts.shorten = true;
    opts.key = key_of;
    opts.fresh = 1;
    return opts;
}

/* In a buffer of each size: what fails says so, what does not is the same as ever. */
static void every_size(const ms_profile *profile, const ms_project_opts *opts,
                       history *h)
{
    static uint64_t buffer[1 << 14], written[1 << 13];
    ms_str whole = told(profile, opts, h, NULL);
    size_t failed = 0;
    for (size_t size = 0;; size += 16) {
        ms_arena small, out_arena;
        ms_buf out;
        memset(&out, 0, sizeof out);
        assert_true(size <= sizeof buffer);
        test_arena_init_fixed(&small, buffer, size);
        test_arena_init_fixed(&out_arena, written, sizeof written);
        out.arena = &out_arena;
        h->at = 0;
        ms_result code = projection_write(profile, opts, next_of, h, &small, ms_buf_write, &out,
                                    NULL, NULL);
        if (code == MS_OK) {
            assert_true(ms_str_equal(ms_buf_text(&out), whole));
            break;
        }
        assert_true(code == MS_E_ARENA || code == MS_E_NO_MEMORY);
        failed++;
    }
    assert_true(failed > 100);
    test_tally("sizes of memory that were too small to project", failed);
}

static void memory_that_ends_anywhere_is_said(void **state)
{
    static const char *const names[] = {"anthropic", "gemini", "pydantic-ai"};
    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        history h;
        ms_project_opts opts = all_options();
        memset(&h, 0, sizeof h);
        add_talk(&h);
        if (i == 0) add_work(&h);
        every_size(profile_of(names[i]), &opts, &h);
        h.n = 0;
        add_work(&h);
        every_size(profile_of(names[i]), &opts, &h);
    }
    assert_int_equal(projection_write(profile_of("openai"), NULL, next_of, NULL, NULL,
                                ms_buf_write, NULL, NULL, NULL), MS_E_ARENA);
    assert_int_equal(projection_write(NULL, NULL, next_of, NULL, &arena, ms_buf_write, NULL,
                                NULL, NULL), MS_E_ARGUMENT);
}


/* ---- texts and their parts ---- */

static void scripts_of_words_and_of_letters_are_told_apart(void **state)
{
    static const struct {
        const char *text; /* two characters */
        size_t tokens;
    } cases[] = {
        {"\xEF\xA4\x80\xEF\xAB\xBF", 2}, /* U+F900 U+FAFF */
        {"\xEF\xAC\x80\xEF\xAC\x81", 1}, /* U+FB00, ligatures */
        {"\xEF\xBC\x81\xEF\xBF\xAF", 2}, /* U+FF01 U+FFEF */
        {"\xEF\xBF\xBC\xEF\xBF\xBD", 1}, /* U+FFFC U+FFFD */
        {"\xF0\xA0\x80\x80\xF0\xA0\x80\x81", 2}, /* U+20000 */
        {"\xF0\x9F\x98\x80\xF0\x9F\x98\x81", 1}, /* U+1F600 */
        {"\xEA\x80\x80\xEA\x80\x81", 1},         /* U+A000 */
        {"\xE4\xB8\x80\xEA\xB0\x80", 2},         /* U+4E00 U+AC00 */
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_int_equal(ms_count_tokens(NULL, ms_text(cases[i].text)), cases[i].tokens);
}

static void white_space_of_any_kind_alone_is_not_sent(void **state)
{
    static const struct {
        const char *text;
        bool blank;
    } cases[] = {
        {"\t\n\v\f\r ", true}, {"\x01", false}, {"\x0E", false},
        {"\xC2\x85", true}, {"\xC2\xA0", true}, {"\xE1\x9A\x80", true},
        {"\xE2\x80\x80\xE2\x80\x8A", true}, {"\xE2\x80\x8B", false},
        {"\xE2\x80\xA8\xE2\x80\xA9", true}, {"\xE2\x80\xAF\xE2\x81\x9F", true},
        {"\xE3\x80\x80", true}, {"\xEF\xBB\xBF", false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        history h;
        ms_project_report report;
        memset(&h, 0, sizeof h);
        add(&h, ms_user_message(ms_text(cases[i].text)));
        (void)told(profile_of("openai"), NULL, &h, &report);
        if (report.dropped != (cases[i].blank ? 1u : 0u))
            fail_msg("case %zu: dropped %u", i, (unsigned)report.dropped);
    }
}

/* What has the form of a part, and what only looks like one and stays JSON. */
static void parts_have_the_members_that_their_type_says(void **state)
{
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"[{\"type\":\"image\",\"data\":\"QQ==\"}]", "\"[image left out]\""},
        {"[{\"type\":\"text\"}]", "\\\"type\\\""},
        {"[{\"type\":\"text\",\"text\":5}]", "\\\"text\\\":5"},
        {"[{\"type\":\"unheard\"}]", "unheard"},
        {"[{\"fileData\":{\"a\":1}}]", "\"[fileData left out]\""},
        {"[{\"inlineData\":{\"a\":1}}]", "\"[inlineData left out]\""},
        {"[{\"text\":7}]", "\\\"text\\\":7"},
        {"[{\"text\":\"t\"},\"u\"]", "\"t\\n\\nu\""},
        {"[\" \",\"\"]", "[]"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        history h;
        memset(&h, 0, sizeof h);
        add(&h, ms_user_message(ms_json(ms_str_of(cases[i].json))));
        must_have(told(profile_of("openai"), NULL, &h, NULL), cases[i].text);
    }
}

static void members_that_are_not_what_they_are_called_are_left_alone(void **state)
{
    static const char *const extras[] = {
        "{\"function_call\":{\"arguments\":\"{}\"}}",
        "{\"function_call\":{\"name\":5,\"arguments\":\"{}\"}}",
        "{\"function_call\":{\"name\":\"f\"}}",
        "{\"function_call\":{\"name\":\"f\",\"arguments\":{}}}",
        "{\"refusal\":7}",
    };
    (void)state;
    for (size_t i = 0; i < COUNT(extras); i++) {
        history h;
        ms_project_report report;
        ms_envelope m = ms_assistant_message(ms_json(MS_STR("null")));
        memset(&h, 0, sizeof h);
        m.extra = ms_str_of(extras[i]);
        add(&h, m);
        assert_true(ms_str_equal(told(profile_of("openai"), NULL, &h, &report),
                                 MS_STR("[]")));
        assert_int_equal(report.dropped, 1);
    }
    char out[4];
    assert_null(ms_sanitize_tool_name(ms_str_n(NULL, 0), out).ptr);
    ms_str kept = ms_sanitize_tool_name(MS_STR("a-_b"), out);
    assert_true(ms_str_equal(kept, MS_STR("a-_b")));
}


/* ---- calls, results, questions ---- */

static void a_result_goes_to_the_call_of_its_turn(void **state)
{
    history h;
    (void)state;
    memset(&h, 0, sizeof h);
    ms_envelope one = call("x1", "f", ms_json(MS_STR("{}"))), two = one;
    two.call_id = MS_STR("x2");
    two.turn_id = MS_STR("turn-2");
    ms_envelope said = ms_observation(ms_text("of the second"), ms_str_of(NULL));
    said.agent_key = one.agent_key;
    said.turn_id = MS_STR("turn-2");
    add(&h, one);
    add(&h, two);
    add(&h, said);
    ms_str list = told(profile_of("openai"), NULL, &h, NULL);
    must_have(list, "\"tool_call_id\":\"x2\",\"content\":\"of the second\"");
    said.turn_id = MS_STR("turn-3"); /* of none: told by the user */
    h.n = 2;
    add(&h, said);
    must_have(told(profile_of("openai"), NULL, &h, NULL), "{\"role\":\"user\"");
}

/* Of very many open calls alike only so many are looked through. */
static void a_result_among_too_many_calls_is_observed(void **state)
{
    history h;
    ms_project_report report;
    (void)state;
    memset(&h, 0, sizeof h);
    for (int i = 0; i < 300; i++) {
        char *id = (char *)ms_arena_alloc(&arena, 16);
        snprintf(id, 16, "id%d", i);
        ms_envelope m = call(id, "f", ms_json(MS_STR("{}")));
        m.turn_id = i < 299 ? MS_STR("old") : MS_STR("new");
        add(&h, m);
    }
    ms_envelope said = by("ann", ms_observation(ms_text("late"), ms_str_of(NULL)));
    said.turn_id = MS_STR("new");
    add(&h, said);
    (void)told(profile_of("openai"), NULL, &h, &report);
    assert_int_equal(report.synthesised, 300);
}

/* An answered call between open ones is stepped over, text of the turn, too. */
static void answered_calls_in_between_are_stepped_over(void **state)
{
    history h;
    ms_project_report report;
    (void)state;
    memset(&h, 0, sizeof h);
    add(&h, call("x1", "f", ms_json(MS_STR("{}"))));
    add(&h, call("x2", "f", ms_json(MS_STR("{}"))));
    add(&h, call("x3", "f", ms_json(MS_STR("{}"))));
    add(&h, result("x2", ms_text("two")));
    ms_envelope m = by("ann", ms_observation(ms_text("three"), ms_str_of(NULL)));
    m.turn_id = MS_STR("turn-9");
    add(&h, m); /* no call fits: told by the user */
    add(&h, by("ann", ms_observation(ms_text("one"), ms_str_of(NULL))));
    add(&h, by("ann", ms_observation(ms_text("last"), ms_str_of(NULL))));
    (void)told(profile_of("openai"), NULL, &h, &report);
    assert_int_equal(report.synthesised, 0);
}

static void a_second_result_with_arguments_is_a_duplicate(void **state)
{
    history h;
    ms_project_report report;
    (void)state;
    memset(&h, 0, sizeof h);
    add(&h, call("x", "f", ms_json(MS_STR("{}"))));
    ms_envelope m = result("x", ms_text("r"));
    m.args = ms_json(MS_STR("{}"));
    add(&h, m);
    add(&h, m);
    (void)told(profile_of("openai"), NULL, &h, &report);
    assert_int_equal(report.duplicates, 1);
}

static void arguments_that_are_no_object_are_told_as_they_are(void **state)
{
    history h;
    ms_project_report report;
    (void)state;
    memset(&h, 0, sizeof h);
    add(&h, call("x", "f", ms_json(MS_STR("[1,2]"))));
    must_have(told(profile_of("openai"), NULL, &h, &report), "[1,2]");
    assert_int_equal(report.wrapped, 1);
}

static void a_question_is_told_to_the_user_alone(void **state)
{
    history h;
    ms_project_report report;
    ms_project_opts opts;
    (void)state;
    memset(&h, 0, sizeof h);
    memset(&opts, 0, sizeof opts);
    opts.agent_key = MS_STR("ann");
    add(&h, by("ann", ms_message(MS_T_INPUT_REQUIRED, ms_text("first?"))));
    add(&h, by("ann", ms_message(MS_T_INPUT_REQUIRED, ms_text("second?"))));
    add(&h, by("bob", ms_message(MS_T_TASK, ms_text("bob's"))));
    ms_str list = told(profile_of("openai"), &opts, &h, &report);
    assert_int_equal(report.dropped, 2);
    assert_false(has(list, "second?"));
    h.n = 2;
    add(&h, ms_user_message(ms_text("yes")));
    list = told(profile_of("openai"), &opts, &h, &report);
    assert_int_equal(report.dropped, 1);
    must_have(list, "second?");
}


/* ---- profiles of a program's own ---- */

static const struct {
    ms_call_ids ids;
    size_t least, most;
} rules[] = {
    {MS_IDS_ALNUM, 12, 0}, {MS_IDS_ALNUM, 30, 40}, {MS_IDS_ALNUM, 0, 8},
    {MS_IDS_WORD, 0, 8},   {MS_IDS_WORD, 30, 0},   {MS_IDS_ANY, 0, 0},
    {MS_IDS_ANY, 16, 16},  {MS_IDS_ALNUM, 0, 0},
};

/* The ids of the calls of a list in the openai form keep the rule, no two the same. */
static void must_keep(ms_str list, size_t rule, size_t n)
{
    const char *at = list.ptr, *end = list.ptr + list.len, *mark = "\"id\":\"";
    ms_str ids[16];
    size_t found = 0, len = strlen(mark);
    for (; at + len < end; at++) {
        if (memcmp(at, mark, len) != 0) continue;
        const char *stop = (const char *)memchr(at + len, '"', (size_t)(end - at) - len);
        ids[found++] = ms_str_n(at + len, (size_t)(stop - at) - len);
    }
    assert_int_equal(found, n);
    for (size_t i = 0; i < n; i++) {
        bool long_enough = rules[rule].most == 0 || ids[i].len <= rules[rule].most;
        for (size_t k = 0; k < i; k++) assert_false(ms_str_equal(ids[i], ids[k]));
        for (size_t k = 0; k < ids[i].len && rules[rule].ids == MS_IDS_ALNUM; k++)
            assert_true(ids[i].ptr[k] != '_' && ids[i].ptr[k] != '-');
        if (!long_enough || ids[i].len < (rules[rule].least > 24 ? 24 : rules[rule].least))
            fail_msg("rule %zu: '%.*s'", rule, (int)ids[i].len, ids[i].ptr);
    }
}

static void ids_keep_the_rule_of_any_profile(void **state)
{
    static const char *const ids[] = {"a", "a", "a", "b_c", "b-c", "abcdefgh", "abcdefgh",
                                      "an id that is longer than most of the rules let"};
    (void)state;
    for (size_t rule = 0; rule < COUNT(rules); rule++) {
        history h;
        ms_profile own = *profile_of("openai");
        memset(&h, 0, sizeof h);
        own.ids = rules[rule].ids;
        own.id_min = rules[rule].least;
        own.id_max = rules[rule].most;
        for (size_t i = 0; i < COUNT(ids); i++)
            add(&h, call(ids[i], "f", ms_json(MS_STR("{}"))));
        must_keep(told(&own, NULL, &h, NULL), rule, COUNT(ids));
    }
}

/* The window ends at what is pinned: with room for everything nothing is left out. */
static void a_window_that_takes_everything_leaves_out_nothing(void **state)
{
    (void)state;
    for (size_t newest = 1; newest < 8; newest++)
        for (size_t step = 0; step < 6; step++) {
            history h;
            ms_project_report report;
            ms_project_opts opts;
            memset(&h, 0, sizeof h);
            memset(&opts, 0, sizeof opts);
            opts.newest = newest;
            opts.step = step;
            add(&h, ms_message(MS_T_DIRECTOR_CONTEXT, ms_text("be kind")));
            for (int i = 0; i < 6; i++) add(&h, ms_user_message(ms_text("u")));
            (void)told(profile_of("openai"), &opts, &h, &report);
            if (newest >= 6) assert_int_equal(report.left_out, 0);
            else assert_true(report.left_out >= 6 - newest && report.left_out < 6);
        }
}


#define TEST(name) cmocka_unit_test_setup(name, reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(memory_that_ends_anywhere_is_said),
        TEST(scripts_of_words_and_of_letters_are_told_apart),
        TEST(white_space_of_any_kind_alone_is_not_sent),
        TEST(parts_have_the_members_that_their_type_says),
        TEST(members_that_are_not_what_they_are_called_are_left_alone),
        TEST(a_result_goes_to_the_call_of_its_turn),
        TEST(a_result_among_too_many_calls_is_observed),
        TEST(answered_calls_in_between_are_stepped_over),
        TEST(a_second_result_with_arguments_is_a_duplicate),
        TEST(arguments_that_are_no_object_are_told_as_they_are),
        TEST(a_question_is_told_to_the_user_alone),
        TEST(ids_keep_the_rule_of_any_profile),
        TEST(a_window_that_takes_everything_leaves_out_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, release);
}
