/* The linter of tools/lint.c, which judges what [project] writes, too.
 *
 *   - A row of tests/tables/lint.jsonl is a request that a provider takes, or refuses for
 *     the listed findings: each with its path, in the order of the text.
 *   - A request with changes is refused with a path, or taken; nothing crashes.
 *   - Real conversations are taken whole, and refused without a call or a result.
 *   - Time grows with the text, and without memory there is no half report. */

#define _GNU_SOURCE

#include "provider_lint.h"
#include "json_random_value.h"
#include "low_memory.h"
#include "table.h"
#include "traces.h"

#include <time.h>

static const char *const providers[] = {"openai", "chat-strict", "anthropic", "gemini",
                                        "pydantic-ai", "ollama", "openai-responses",
                                        "bedrock", "gemini-interactions"};
static table_row rows[800];
static size_t row_count;

typedef struct report {
    size_t lines;
    json_t *all;              /* "path: text"; NULL: only counted */
    char first[64], last[64]; /* paths */
} report;

static void add_line(void *ctx, const char *path, const char *text)
{
    report *r = (report *)ctx;
    char line[2 * LINT_TEXT + 2];
    assert_true(path[0] != '\0' && text[0] != '\0');
    snprintf(line, sizeof line, "%s: %s", path, text);
    if (r->all != NULL) json_array_append_new(r->all, json_string(line));
    if (r->lines++ == 0) snprintf(r->first, sizeof r->first, "%.60s", path);
    snprintf(r->last, sizeof r->last, "%.60s", path);
}

static report report_of(const char *provider, ms_str request, bool keep)
{
    ms_arena arena;
    report r = {0, keep ? json_array() : NULL, "", ""};
    test_arena_init(&arena, NULL);
    int n = lint_request(provider, request, &arena, add_line, &r);
    assert_int_equal(n, r.lines);
    ms_arena_deinit(&arena);
    return r;
}

/* How many findings a value has that jansson spells. */
static size_t findings_of(const char *provider, json_t *request, size_t flags)
{
    char *text = json_dumps(request, flags | JSON_ENCODE_ANY);
    assert_non_null(text);
    assert_int_equal(ms_json_check(ms_str_of(text), NULL, NULL, NULL), MS_OK);
    size_t n = report_of(provider, ms_str_of(text), false).lines;
    free(text);
    return n;
}

static void row_has_the_findings_of_its_table(void **state)
{
    const table_row *r = (const table_row *)*state;
    json_t *want = row_get(r, "finds"), *input = row_get(r, "input"), *provider;
    size_t i, n = json_array_size(want);
    json_array_foreach (row_get(r, "as"), i, provider) {
        const char *name = json_string_value(provider);
        report got = report_of(name, row_spelled(r, "input"), true);
        char *a = json_dumps(got.all, 0), *b = n > 0 ? json_dumps(want, 0) : strdup("[]");
        if (strcmp(a, b) != 0) fail_msg("%s\n   got %s\nexpect %s", name, a, b);
        assert_int_equal(findings_of(name, input, JSON_INDENT(1) | JSON_ENSURE_ASCII), n);
        free(a);
        free(b);
        json_decref(got.all);
    }
}


/* ---- requests that no table can hold ---- */

TEST(provider_is_unknown_when_no_rules_have_its_name)
{
    ms_arena arena;
    report r = {0, NULL, "", ""};
    test_arena_init(&arena, NULL);
    assert_int_equal(lint_request("nobody", MS_STR("[]"), &arena, add_line, &r), -1);
    assert_int_equal(lint_request("", MS_STR("[]"), &arena, add_line, &r), -1);
    assert_int_equal(r.lines, 0);
    ms_arena_deinit(&arena);
}

/* The last is the list; a request of that member alone is the list itself. */
TEST(members_of_a_body_are_known_of_each_provider)
{
    static const struct {
        const char *provider, *list;
        size_t count;
    } bodies[] = {{"openai", "messages", 1}, {"anthropic", "messages", 2},
                  {"gemini", "contents", 2}, {"pydantic-ai", "messages", 1},
                  {"openai-responses", "input", 5}, {"bedrock", "messages", 2},
                  {"gemini-interactions", "input", 2}};
    for (size_t i = 0; i < COUNT(bodies); i++) {
        const char *const *names = lint_members_of(bodies[i].provider);
        size_t n = 0;
        assert_non_null(names);
        while (names[n] != NULL) n++;
        assert_int_equal(n, bodies[i].count);
        assert_string_equal(names[n - 1], bodies[i].list);
    }
    assert_null(lint_members_of("nobody"));
}

/* Of the others only the members that lint_members_of names are judged. */
TEST(whole_body_is_judged_when_the_provider_has_rules_for_it)
{
    for (size_t p = 0; p < COUNT(providers); p++)
        assert_int_equal(lint_reads_body(providers[p]),
                         strcmp(providers[p], "bedrock") == 0 ||
                             strcmp(providers[p], "gemini-interactions") == 0);
    assert_false(lint_reads_body("nobody"));
}

TEST(value_is_refused_when_it_is_no_request)
{
    static const char *const values[] = {"null", "true", "1", "\"a\"", "[null]", "[[]]",
                                         "[\"system\"]", "{\"\":[]}"};
    for (size_t i = 0; i < COUNT(values); i++)
        for (size_t p = 0; p < COUNT(providers); p++)
            assert_true(report_of(providers[p], ms_str_of(values[i]), false).lines > 0);
}

TEST(anthropic_takes_100000_messages_and_no_more)
{
    json_t *user = json_pack("{s:s, s:s}", "role", "user", "content", "a");
    json_t *messages = json_array(), *request = json_pack("{s:o}", "messages", messages);
    for (size_t i = 0; i < 100000; i++) json_array_append(messages, user);
    assert_int_equal(findings_of("anthropic", request, JSON_COMPACT), 0);
    json_array_append_new(messages, user);
    assert_int_equal(findings_of("anthropic", request, JSON_COMPACT), 1);
    json_decref(request);
}

TEST(finding_fits_when_a_text_is_long)
{
    static char text[5000];
    memset(text, 'x', sizeof text - 1);
    json_t *request = json_pack("[{s:s, s:s, s:s}]", "role", text, "kind", text, text, text);
    for (size_t p = 0; p < COUNT(providers); p++)
        assert_true(findings_of(providers[p], request, JSON_COMPACT) > 0);
    json_decref(request);
}

/* A value to put in the place of another. */
static json_t *strange_value(uint64_t *random)
{
    static const char *const values[] = {
        "null", "true", "-1", "0.5", "\"\"", "\"user\"", "\"assistant\"", "\"2\"", "\"a b\"",
        "\" \\u3000\"", "[]", "{}", "[1]", "[{}]", "{\"name\":\"f\"}"};
    const char *value = values[test_below(random, COUNT(values))];
    return json_loads(value, JSON_DECODE_ANY, NULL);
}

/* Replaces, removes or doubles a value somewhere. */
static void damage(json_t *request, uint64_t *random)
{
    spot at;
    size_t what = (size_t)test_below(random, 3);
    if (!spot_any(request, random, &at)) return;
    if (what == 0) spot_remove(&at);
    else if (what == 1 && at.key == NULL)
        json_array_insert_new(at.holder, at.index, json_deep_copy(spot_value(&at)));
    else spot_put(&at, strange_value(random));
}

/* Some are taken, most are refused, none ends the program. */
TEST(request_is_judged_when_it_is_damaged)
{
    static const size_t flags[] = {0, JSON_COMPACT, JSON_INDENT(2), JSON_ENSURE_ASCII,
                                   JSON_SORT_KEYS};
    uint64_t random = test_seed();
    size_t refused = 0, times = test_times(40000);
    for (size_t i = 0; i < times; i++) {
        json_t *request = json_deep_copy(row_get(&rows[test_below(&random, row_count)],
                                                 "input"));
        size_t spelling = flags[test_below(&random, COUNT(flags))];
        for (uint64_t n = 1 + test_below(&random, 3); n > 0; n--) damage(request, &random);
        for (size_t p = 0; p < COUNT(providers); p++)
            refused += findings_of(providers[p], request, spelling) > 0;
        json_decref(request);
    }
    assert_in_range(refused, times, times * COUNT(providers) - times / 10);
}


/* ---- real conversations ---- */

static trace traces[TRACES_MOST];

/* The messages [from, to) of a conversation. */
static json_t *window_of(json_t *messages, size_t from, size_t to)
{
    json_t *window = json_array();
    for (size_t i = from; i < to; i++)
        json_array_append(window, json_array_get(messages, i));
    return window;
}

/* Whole, what happened between a client and its provider was accepted; a session with
 * aborted turns was not sent as it stands. Without a call or a result none is accepted. */
TEST(conversation_is_refused_when_one_of_a_pair_is_missing)
{
    uint64_t random = test_seed();
    size_t n = traces_load(traces, TRACES_MOST), tried = 0;
    for (size_t i = 0; i < n; i++) {
        size_t count = json_array_size(traces[i].messages);
        size_t gone = (size_t)test_below(&random, count);
        json_t *list = window_of(traces[i].messages, 0, count);
        json_t *message = json_array_get(list, gone);
        bool of_a_pair = json_object_get(message, "tool_calls") != NULL ||
                         json_object_get(message, "tool_call_id") != NULL;
        bool aborted = strcmp(traces[i].name, "pi-session") == 0;
        if (aborted) assert_int_equal(count, 914);
        assert_int_equal(findings_of("openai", list, 0) > 0, aborted);
        json_array_remove(list, gone);
        if (!aborted) assert_int_equal(findings_of("openai", list, 0) > 0, of_a_pair);
        tried += !aborted && of_a_pair;
        json_decref(list);
    }
    traces_free(traces, n);
    assert_true(n == 0 || tried > 10);
}


/* ---- memory and time ---- */

static ms_result lint_low_memory(void *row, ms_arena *in)
{
    const table_row *r = (const table_row *)row;
    report got = {0, NULL, "", ""};
    const char *provider = json_string_value(json_array_get(row_get(r, "as"), 0));
    int n = lint_request(provider, row_spelled(r, "input"), in, add_line, &got);
    assert_true(n >= 0 || n == -2);
    assert_int_equal(got.lines, n == -2 ? 0 : json_array_size(row_get(r, "finds")));
    return n >= 0 ? MS_OK : low_memory_code(in);
}

TEST(nothing_is_reported_when_memory_ends)
{
    for (size_t i = 0; i < row_count; i++)
        if (json_array_size(row_get(&rows[i], "finds")) >= 3)
            assert_true(low_memory(lint_low_memory, &rows[i], 64) > 0);
}

/* A text that grows; ' stands for ". */
typedef struct long_text {
    char *text;
    size_t len, cap;
} long_text;

static void put(long_text *t, const char *format, size_t number)
{
    if (t->cap - t->len < 256) {
        t->cap = 2 * t->cap + 1024;
        t->text = (char *)realloc(t->text, t->cap);
        assert_non_null(t->text);
    }
    int len = snprintf(t->text + t->len, 256, format, (unsigned long)number);
    for (int i = 0; i < len; i++, t->len++)
        if (t->text[t->len] == '\'') t->text[t->len] = '"';
}

/* A long request: many parts of one kind, then of another from the last to the first. The
 * first of the other kind answers none, so that there are two findings. */
static const struct long_request {
    const char *provider, *begin, *part, *between, *back, *end;
    const char *first, *last; /* paths; %lu is the number of parts */
} long_requests[] = {
    {"openai", "[{'role':'user','content':'a'},{'role':'assistant','tool_calls':[",
     "{'id':'c%lu','type':'function','function':{'name':'f','arguments':''}}", "]},",
     "{'role':'tool','tool_call_id':'c%lu','content':'r'}", "]",
     "messages[1].tool_calls[0].id", ".tool_call_id"},
    {"anthropic", "{'messages':[{'role':'user','content':'a'},{'role':'assistant','content':[",
     "{'type':'tool_use','id':'c%lu','name':'f','input':{}}", "]},{'role':'user','content':[",
     "{'type':'tool_result','tool_use_id':'c%lu'}", "]}]}", "messages[1].content[0].id",
     ".tool_use_id"},
    {"pydantic-ai", "[{'kind':'response','parts':[",
     "{'part_kind':'tool-call','tool_name':'f','tool_call_id':'c%lu'}",
     "]},{'kind':'request','parts':[",
     "{'part_kind':'tool-return','tool_name':'f','content':1,'tool_call_id':'c%lu'}",
     "]}]", "messages[0].parts[0].tool_call_id", ".tool_call_id"},
    {"openai-responses", "[{'role':'user','content':'a'},",
     "{'type':'function_call','call_id':'c%lu','name':'f','arguments':''}", ",",
     "{'type':'function_call_output','call_id':'c%lu','output':'r'}", "]",
     "input[1].call_id", ".call_id"},
    {"bedrock", "{'messages':[{'role':'user','content':[{'text':'a'}]},"
     "{'role':'assistant','content':[",
     "{'toolUse':{'toolUseId':'c%lu','name':'f','input':{}}}",
     "]},{'role':'user','content':[",
     "{'toolResult':{'toolUseId':'c%lu','content':[{'text':'r'}]}}", "]}]}",
     "messages[1].content[0].toolUse.toolUseId", ".toolUseId"},
    {"gemini-interactions", "{'input':[",
     "{'type':'function_call','id':'c%lu','name':'f','arguments':{}}", ",",
     "{'type':'function_result','call_id':'c%lu','result':'r'}", "]}", "input[0].id",
     ".call_id"},
    {"openai", "[1,", "{'role':'tool','tool_call_id':'%lu','content':''}", "]", NULL, NULL,
     "messages[0]", "messages[%lu].tool_call_id"},
    {"gemini", "{'contents':[1,",
     "{'role':'model','parts':[{'functionCall':{'name':'f','args':{}}}]}", "]}", NULL, NULL,
     "contents[0]", "contents[%lu]"},
    {"anthropic", "{'messages':[1,", "{'role':'%lu'}", "]}", NULL, NULL, "messages[0]",
     "messages[%lu].role"},
};

/* A comparison of all calls with all results would take minutes. Findings are in the order
 * of the text. */
TEST(time_grows_with_the_text_when_there_are_many_parts)
{
    for (size_t c = 0; c < COUNT(long_requests); c++) {
        const struct long_request *m = &long_requests[c];
        size_t n = test_times(m->back != NULL ? 100000 : 50000); /* messages: 100000 at most */
        if (n < 10) n = 10;
        long_text t = {NULL, 0, 0};
        char last[64];
        put(&t, m->begin, 0);
        for (size_t i = 0; i < n; i++, put(&t, i < n ? "," : "", 0)) put(&t, m->part, i);
        put(&t, m->between, 0);
        for (size_t i = n; m->back != NULL && i-- > 0; put(&t, i > 0 ? "," : "", 0))
            put(&t, m->back, i > 0 ? i : n);
        if (m->end != NULL) put(&t, m->end, 0);
        clock_t begin = clock();
        report r = report_of(m->provider, ms_str_n(t.text, t.len), false);
        double took = (double)(clock() - begin) / (double)CLOCKS_PER_SEC;
        printf("%s: %lu parts, %lu MiB: %.2f s\n", m->provider, (unsigned long)n,
               (unsigned long)(t.len >> 20), took);
        if (m->back != NULL) assert_int_equal(r.lines, 2);
        else assert_true(r.lines > n);
        snprintf(last, sizeof last, m->last, (unsigned long)n);
        assert_string_equal(r.first, m->first);
        assert_non_null(strstr(r.last, last));
        free(t.text);
    }
}

int main(void)
{
    row_count = load_table("tests/tables/lint.jsonl", "", rows, COUNT(rows));
    add_table(rows, row_count, row_has_the_findings_of_its_table);
    return run_all_tests(NULL, NULL);
}
