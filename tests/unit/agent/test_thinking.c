/* Thinking in requests beside stand-ins of two providers. Anthropic's binds each signed
 * block to all that stood before it when it was made, as models with preserved thinking
 * do. DeepSeek's demands the reasoning of each turn with calls in all later requests. Long
 * conversations with windows, shortened results, edits, and users who speak inside of a
 * loop of calls. */

#define _GNU_SOURCE

#include "chat_store.h"

#include <jansson.h>

enum { ANSWERS = 400, OPTIONS = 6 };

/* What one block of thinking stood behind: the messages of its request. */
static json_t *made_behind[ANSWERS];
static size_t n_answers;

typedef struct chat {
    ms_request_desc desc;
    uint64_t random;
    size_t open;              /* calls of the newest answer without a result */
    size_t sent_ended;        /* blocks of turns that were over, in all requests */
    size_t left_out;
    bool refused;
} chat;

static const ms_project_opts windows[OPTIONS] = {
    {.newest = 0}, {.newest = 12}, {.newest = 12, .step = 6}, {.budget = 1200},
    {.budget = 1800, .step = 600}, {.fresh = 3, .fresh_step = 2},
};

static json_t *request_of(chat *c, ms_project_report *report)
{
    ms_arena_reset(&arena);
    ms_str body = body_of(&c->desc, report);
    json_t *all = json_loadb(body.ptr, body.len, 0, NULL);
    assert_non_null(all);
    return all;
}

/* ---- the provider of bound thinking ---- */

/* Returns whether the blocks before block `at` of a message are of the same answer, and
 * all messages before it those of the request that made it. */
static bool is_bound(const json_t *messages, size_t message, size_t at, const json_t *made)
{
    const json_t *content = json_object_get(json_array_get(messages, message), "content");
    if (json_array_size(made) != message) return false;
    for (size_t i = 0; i < message; i++)
        if (!json_equal(json_array_get(messages, i), json_array_get(made, i))) return false;
    for (size_t i = 0; i < at; i++) {
        const char *type = json_string_value(json_object_get(json_array_get(content, i), "type"));
        if (type != NULL && strcmp(type, "thinking") != 0) return false;
    }
    return true;
}

/* Checks all blocks of thinking in a request, and counts those of ended turns. */
static void must_be_bound(chat *c, const json_t *body)
{
    const json_t *messages = json_object_get(body, "messages"), *m, *block;
    size_t i, k, last_user = 0;
    json_array_foreach (messages, i, m) {
        const json_t *content = json_object_get(m, "content");
        if (strcmp(json_string_value(json_object_get(m, "role")), "user") != 0) continue;
        if (json_is_string(content)) last_user = i;
    }
    json_array_foreach (messages, i, m) {
        json_array_foreach (json_object_get(m, "content"), k, block) {
            const char *sign = json_string_value(json_object_get(block, "signature"));
            if (sign == NULL) continue;
            size_t n = (size_t)atoi(sign + 1);
            assert_in_range(n, 0, n_answers - 1);
            if (!is_bound(messages, i, k, made_behind[n])) {
                char *text = json_dumps(messages, JSON_COMPACT);
                char *made = json_dumps(made_behind[n], JSON_COMPACT);
                fprintf(stderr, "%s\nmade behind\n%s\n", text, made);
                fail_msg("messages.%zu.content.%zu: %s is bound to a different conversation",
                         i, k, sign);
            }
            c->sent_ended += i < last_user;
        }
    }
}

/* ---- what they do ---- */

static void answers(chat *c, const json_t *body, bool deepseek)
{
    char text[1024];
    size_t n = n_answers++, calls = test_below(&c->random, 3);
    int len;
    bool thinks = test_below(&c->random, 8) != 0;
    assert_in_range(n, 0, ANSWERS - 1);
    made_behind[n] = json_deep_copy(json_object_get(body, "messages"));
    if (deepseek) {
        len = snprintf(text, sizeof text, "{\"model\":\"m\",\"choices\":[{\"finish_reason\":\"x\","
                       "\"message\":{\"reasoning_content\":\"%s%zu.\",\"content\":\"said%zu\"%s",
                       thinks ? "think" : "", n, n, calls > 0 ? ",\"tool_calls\":[" : "");
        if (!thinks) /* empty reasoning, which is never stored */
            len = snprintf(text, sizeof text, "{\"model\":\"m\",\"choices\":[{\"finish_reason\":"
                           "\"x\",\"message\":{\"reasoning_content\":\"\",\"content\":\"said%zu\"%s",
                           n, calls > 0 ? ",\"tool_calls\":[" : "");
        for (size_t i = 0; i < calls; i++)
            len += snprintf(text + len, sizeof text - (size_t)len, "%s{\"id\":\"c%zu_%zu\","
                            "\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}",
                            i > 0 ? "," : "", n, i);
        len += snprintf(text + len, sizeof text - (size_t)len, "%s}}]}", calls > 0 ? "]" : "");
    } else {
        len = snprintf(text, sizeof text, "{\"type\":\"message\",\"model\":\"m\",\"stop_reason\":"
                       "\"x\",\"content\":[");
        if (thinks)
            len += snprintf(text + len, sizeof text - (size_t)len, "{\"type\":\"thinking\","
                            "\"thinking\":\"hm\",\"signature\":\"s%zu\"},", n);
        len += snprintf(text + len, sizeof text - (size_t)len,
                        "{\"type\":\"text\",\"text\":\"said%zu\"}", n);
        for (size_t i = 0; i < calls; i++)
            len += snprintf(text + len, sizeof text - (size_t)len, ",{\"type\":\"tool_use\",\"id\":"
                            "\"c%zu_%zu\",\"name\":\"f\",\"input\":{}}", n, i);
        len += snprintf(text + len, sizeof text - (size_t)len, "]}");
    }
    assert_in_range(len, 1, sizeof text - 1);
    assert_int_equal(ms_answer(&c->desc, ms_str_n(text, (size_t)len), NULL, NULL), MS_OK);
    c->open = calls;
}

/* An answer whose connection ends inside of its text. */
static void is_cut(chat *c)
{
    static const char body[] =
        "data: {\"type\":\"message_start\",\"message\":{\"model\":\"m\"}}\n\n"
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":"
        "\"text\",\"text\":\"I beg\"}}\n\n";
    ms_answer_stream a;
    ms_request_desc desc = c->desc;
    assert_int_equal(ms_answer_begin(&a, &desc, NULL), MS_OK);
    assert_int_equal(ms_answer_feed(&a, ms_str_of(body), NULL), MS_OK);
    assert_int_equal(ms_answer_end(&a, NULL, NULL), MS_E_MISSING);
}

static void results_come(chat *c)
{
    static char words[900];
    for (size_t i = 0; i < c->open; i++) {
        char id[24];
        snprintf(id, sizeof id, "c%zu_%zu", n_answers - 1, i);
        memset(words, 'r', sizeof words - 1);
        ms_str text = ms_str_n(words, test_below(&c->random, 2) ? sizeof words - 1 : 5);
        add(ms_observation(ms_text_n(text), ms_str_of(id)));
    }
    if (c->open > 0 && test_below(&c->random, 6) == 0)
        add(ms_user_message(ms_text("and faster"))); /* inside of the loop */
    c->open = 0;
}

/* Amends a result that was sent long before. */
static void edits(void)
{
    ms_cursor it;
    ms_query q = {.location = CHAT, .limit = 12};
    const ms_msg *msg, *old = NULL;
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL)
        if (old == NULL && ms_type_of(msg) == MS_T_OBSERVATION) old = msg;
    if (old != NULL) {
        ms_envelope m = ms_observation(ms_text("edited"), ms_get(old, MS_F_CALL_ID).text);
        assert_int_equal(ms_amend(store, ms_seq(old), &m, NULL), MS_OK);
    }
    (void)ms_cursor_close(&it, NULL);
}

static void forget_answers(void)
{
    for (size_t i = 0; i < n_answers; i++) json_decref(made_behind[i]);
    n_answers = 0;
}

TEST(thinking_is_sent_only_where_it_stood)
{
    size_t rounds = test_times(120), ended = 0, left_out = 0, requests = 0;
    for (size_t round = 0; round < rounds; round++) {
        (void)open_store(NULL);
        chat c = {.desc = desc_of("anthropic"), .random = test_seed() + round};
        c.desc.opts = windows[round % OPTIONS];
        c.desc.opts.thinking = MS_THINKING_ON;
        c.desc.opts.model = MS_STR("m");
        bool edit = round % 4 == 3;
        for (size_t turn = 0; turn < 10; turn++) {
            add(ms_user_message(ms_text("question")));
            for (size_t step = 0; step < 6; step++) {
                ms_project_report report;
                json_t *body = request_of(&c, &report);
                must_be_bound(&c, body);
                left_out += report.thinking_left_out;
                requests++;
                if (test_below(&c.random, 10) == 0) {
                    is_cut(&c);
                    json_decref(body);
                    continue;
                }
                answers(&c, body, false);
                json_decref(body);
                if (c.open == 0) break;
                results_come(&c);
            }
            results_come(&c);
            if (edit && turn == 5) edits();
        }
        ended += c.sent_ended;
        forget_answers();
    }
    test_tally("requests with bound thinking", requests);
    test_tally("blocks of thinking of ended turns", ended);
    assert_true(ended > requests / 4);
    assert_true(left_out > 0);
}

/* ---- the provider that wants its reasoning back ---- */

static void must_have_reasoning(const json_t *body)
{
    const json_t *messages = json_object_get(body, "messages"), *m;
    size_t i;
    json_array_foreach (messages, i, m) {
        const json_t *calls = json_object_get(m, "tool_calls");
        const json_t *thought = json_object_get(m, "reasoning_content");
        const char *said = json_string_value(json_object_get(m, "content"));
        if (calls == NULL) continue;
        const char *text = json_string_value(thought);
        if (text == NULL)
            fail_msg("messages.%zu: the reasoning_content in the thinking mode must be passed "
                     "back", i);
        if (text[0] != '\0' && strtoul(text + 5, NULL, 10) != strtoul(said + 4, NULL, 10))
            fail_msg("messages.%zu: %s is not the reasoning of %s", i, text, said);
    }
}

TEST(reasoning_of_each_turn_with_calls_goes_back)
{
    size_t rounds = test_times(60), with = 0;
    for (size_t round = 0; round < rounds; round++) {
        (void)open_store(NULL);
        chat c = {.desc = desc_of("deepseek"), .random = test_seed() + round};
        c.desc.opts = windows[round % OPTIONS];
        c.desc.opts.thinking = MS_THINKING_ON;
        c.desc.opts.model = MS_STR("m");
        for (size_t turn = 0; turn < 8; turn++) {
            add(ms_user_message(ms_text("question")));
            for (size_t step = 0; step < 5; step++) {
                json_t *body = request_of(&c, NULL);
                must_have_reasoning(body);
                char *text = json_dumps(body, JSON_COMPACT);
                with += strstr(text, "think") != NULL;
                free(text);
                answers(&c, body, true);
                json_decref(body);
                if (c.open == 0) break;
                results_come(&c);
            }
            results_come(&c);
        }
        forget_answers();
    }
    assert_true(with > 0);
}

/* ---- the policies ---- */

/* u, c: a question, an answer with thinking and a call and its result; t: one with
 * thinking and text. The n-th answer has the thinking think<n>. */
static void add_turns(const ms_request_desc *desc, const char *steps)
{
    for (int n = 1; *steps != '\0'; steps++) {
        char body[400];
        if (*steps == 'u') {
            add(ms_user_message(ms_text("u")));
            continue;
        }
        snprintf(body, sizeof body, "{\"model\":\"m\",\"choices\":[{\"finish_reason\":\"x\","
                 "\"message\":{\"reasoning_content\":\"think%d\",\"content\":\"t\"%s}}]}", n,
                 *steps == 'c' ? ",\"tool_calls\":[{\"id\":\"c\",\"function\":{\"name\":\"f\","
                                 "\"arguments\":\"{}\"}}]" : "");
        assert_int_equal(ms_answer(desc, ms_str_of(body), NULL, NULL), MS_OK);
        if (*steps == 'c') add(ms_observation(ms_text("r"), MS_STR("c")));
        n++;
    }
}

TEST(thinking_of_the_turns_that_the_policy_names_is_sent)
{
    static const struct {
        const char *provider;
        ms_thinking thinking;
        const char *steps, *sent; /* the numbers of the answers */
    } rows[] = {
        {"openai", MS_THINKING_OFF, "uctuc", ""},
        {"openai", MS_THINKING_RUNNING, "uctuc", "3"},
        {"openai", MS_THINKING_CALLS, "uctutuc", "124"},
        {"openai", MS_THINKING_ALL, "uctutuc", "1234"},
        {"openai", MS_THINKING_ON, "uctutuc", "124"},
        {"deepseek", MS_THINKING_ON, "uctutuc", "124"},
        {"deepseek", MS_THINKING_ON, "uctu", "12"},
        {"glm", MS_THINKING_ON, "uctutuc", "1234"},
        {"ollama", MS_THINKING_ON, "uctutuc", ""}, /* another provider's */
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        (void)open_store(NULL);
        bool own = strcmp(rows[i].provider, "ollama") != 0;
        ms_request_desc by = desc_of(own ? rows[i].provider : "openai");
        ms_request_desc desc = desc_of(rows[i].provider);
        by.opts.model = desc.opts.model = MS_STR("m");
        desc.opts.thinking = rows[i].thinking;
        add_turns(&by, rows[i].steps);
        ms_str body = body_of(&desc, NULL);
        char sent[8] = "", mark[16];
        for (int n = 1; n < 6; n++) {
            snprintf(mark, sizeof mark, "think%d", n);
            if (has_text(body, mark)) sprintf(sent + strlen(sent), "%d", n);
        }
        if (strcmp(sent, rows[i].sent) != 0)
            fail_msg("row %zu: %s is sent: %.*s", i, sent, (int)body.len, body.ptr);
    }
}

TEST(budget_that_a_running_turn_exceeds_is_reported)
{
    ms_project_report report;
    ms_request_desc desc = desc_of("anthropic");
    desc.opts.thinking = MS_THINKING_ON;
    desc.opts.budget = 60;
    add(ms_user_message(ms_text("question")));
    (void)body_of(&desc, &report);
    assert_int_equal(report.over, 0);
    for (int i = 0; i < 12; i++) {
        char id[8];
        snprintf(id, sizeof id, "c%d", i);
        ms_envelope m = ms_action(MS_STR("f"), ms_json(MS_STR("{}")), ms_str_of(id));
        add(m);
        add(ms_observation(ms_text("result"), ms_str_of(id)));
    }
    (void)body_of(&desc, &report);
    assert_int_equal(report.left_out, 0);
    assert_int_equal(report.over, report.cost - 60);
    assert_true(report.over > 0);
    desc.opts.thinking = MS_THINKING_OFF;
    (void)body_of(&desc, &report);
    assert_int_equal(report.over, 0);
}

int main(void)
{
    return run_all_tests(open_store, close_store);
}
