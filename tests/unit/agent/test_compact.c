/* Compactions: what is covered, what stays, what is sent; on every store, after rewinds,
 * forks and copies; those that providers make by themselves. At the end a long run of an
 * agent whose model has a small context, with kills, rewinds and forks. */

#define _GNU_SOURCE

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stores.h"
#include "provider_lint.h"
#include "arena.h"

#define CHAT MS_STR("chat")

static void same_text(ms_str a, ms_str b)
{
    if (!ms_str_equal(a, b))
        fail_msg("%.*s\nis not\n%.*s", (int)a.len, a.ptr, (int)b.len, b.ptr);
}

static uint64_t put(ms_store *store, ms_str location, ms_envelope m)
{
    uint64_t seq = 0;
    ms_error err;
    must_ok(ms_append(store, location, &m, &seq, &err), &err, "append");
    return seq;
}

static ms_request_desc ask_of(ms_store *store, ms_str location, const char *provider)
{
    ms_request_desc ask = {.profile = ms_profile_find(ms_str_of(provider)), .store = store,
                           .location = location, .opts.model = MS_STR("m")};
    assert_non_null(ask.profile);
    if (ask.profile->wire == MS_WIRE_BEDROCK)
        ask.tools = MS_STR("[{\"toolSpec\":{\"name\":\"f\",\"inputSchema\":{\"json\":{}}}}]");
    return ask;
}

static ms_str plain_body_of(const ms_request_desc *ask, ms_project_report *report)
{
    ms_buf out = {&arena, NULL, 0, 0};
    ms_error err;
    must_ok(ms_request(ask, ms_buf_write, &out, report, &err), &err, ask->profile->name);
    return ms_buf_text(&out);
}

/* Returns a request, which the provider's linter takes. */
static ms_str body_of(const ms_request_desc *ask, ms_project_report *report)
{
    char why[PROVIDER_LINT_TEXT];
    const char *name = ask->profile->name;
    ms_str body = plain_body_of(ask, report);
    if (provider_lint(name, provider_lint_part(name, body, &arena), why) != NULL)
        fail_msg("%s refuses: %s\n%.*s", name, why, (int)body.len, body.ptr);
    return body;
}

/* A turn: a question, a call, its result, a text, whose number is returned. */
static uint64_t add_turn(ms_store *store, ms_str location, unsigned n)
{
    char text[40], id[24];
    snprintf(text, sizeof text, "question-%u.", n);
    put(store, location, ms_user_message(ms_text(text)));
    snprintf(id, sizeof id, "call_%u", n);
    put(store, location, ms_action(MS_STR("f"), ms_json(MS_STR("{}")), ms_str_of(id)));
    snprintf(text, sizeof text, "result-%u.", n);
    put(store, location, ms_observation(ms_text(text), ms_str_of(id)));
    snprintf(text, sizeof text, "answer-%u.", n);
    return put(store, location, ms_assistant_message(ms_text(text)));
}

/* Returns the numbers of the questions that a text has, as digits. */
static const char *questions_in(ms_str body, unsigned most)
{
    static char found[64];
    size_t n = 0;
    for (unsigned i = 0; i < most; i++) {
        char text[24];
        snprintf(text, sizeof text, "question-%u.", i);
        if (has_text(body, text)) found[n++] = (char)('0' + i);
    }
    found[n] = '\0';
    return found;
}

static uint64_t messages_of(ms_store *store, ms_str location)
{
    ms_cursor it;
    ms_query q = {.location = location};
    uint64_t n = 0;
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while (ms_next(&it) != NULL) n++;
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    return n;
}

static ms_compaction_plan plan_of(const ms_request_desc *ask, uint64_t keep)
{
    ms_compaction_plan plan;
    ms_error err;
    must_ok(ms_compact_plan(ask, keep, &plan, &err), &err, "plan");
    return plan;
}

static uint64_t compacts(const ms_request_desc *ask, uint64_t upto, const char *summary)
{
    uint64_t seq = 0;
    ms_error err;
    const ms_compaction c = {.summary = ms_str_of(summary), .upto = upto};
    must_ok(ms_compact(ask, &c, &seq, &err), &err, "compact");
    return seq;
}


/* ---- what is sent ---- */

/* Six turns of which the newest two stay. A rewind to before it restores the request, a
 * fork and a copy have the same one. */
TEST_WITH(ON_EVERY_STORE, summary_stands_for_what_it_covers)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_store *copy;
    ms_project_report report;
    uint64_t end = 0, seq;
    for (unsigned i = 0; i < 6; i++) end = add_turn(s.store, CHAT, i);
    ms_request_desc ask = ask_of(s.store, CHAT, "anthropic");
    ms_str before = body_of(&ask, &report);
    assert_string_equal(questions_in(before, 9), "012345");
    assert_int_equal(report.compaction_seq, 0);
    ms_compaction_plan plan = plan_of(&ask, 2 * report.cost / 5);
    assert_int_equal(plan.cost, report.cost);
    assert_int_equal(plan.messages, 16);
    seq = compacts(&ask, plan.upto, "SUMMARY");
    ms_str after = body_of(&ask, &report);
    assert_string_equal(questions_in(after, 9), "45");
    assert_true(has_text(after, "<conversation_summary>\\nSUMMARY\\n</conversation_summary>"));
    assert_int_equal(report.compacted, 16);
    assert_int_equal(report.compaction_seq, seq);
    assert_int_equal(report.dropped, 0);
    assert_int_equal(messages_of(s.store, CHAT), 25);
    store_reopen(&s);
    ask.store = s.store;
    uint64_t last = add_turn(s.store, CHAT, 6);
    ms_str more = body_of(&ask, NULL);
    assert_string_equal(questions_in(more, 9), "456");

    ask.opts.full = true;
    assert_string_equal(questions_in(body_of(&ask, &report), 9), "0123456");
    assert_int_equal(report.dropped, 1);
    ask.opts.full = false;

    assert_int_equal(ms_fork(s.store, CHAT, last, MS_STR("fork"), NULL, NULL), MS_OK);
    ask.location = MS_STR("fork");
    same_text(body_of(&ask, NULL), more);
    ask.location = CHAT;
    assert_int_equal(ms_mem_open(&copy, NULL, NULL), MS_OK);
    assert_int_equal(ms_copy(copy, s.store, NULL, NULL, NULL, NULL), MS_OK);
    ask.store = copy;
    same_text(body_of(&ask, NULL), more);
    ms_close(copy);
    ask.store = s.store;

    assert_int_equal(ms_rewind(s.store, CHAT, end, NULL, NULL), MS_OK);
    same_text(body_of(&ask, NULL), before);
    store_close(&s);
}

/* Messages that came while the summary was written are in the tail, of any location. */
TEST_WITH(ON_EVERY_STORE, messages_appended_meanwhile_stay)
{
    test_store s = store_open((store_kind *)*state, NULL);
    for (unsigned i = 0; i < 3; i++) add_turn(s.store, CHAT, i);
    ms_request_desc ask = ask_of(s.store, CHAT, "openai");
    ms_compaction_plan plan = plan_of(&ask, 1);
    add_turn(s.store, CHAT, 3);
    add_turn(s.store, MS_STR("other"), 4);
    (void)compacts(&ask, plan.upto, "SUMMARY");
    add_turn(s.store, CHAT, 5);
    ms_str body = body_of(&ask, NULL);
    assert_string_equal(questions_in(body, 9), "35");
    assert_true(has_text(body, "answer-2.")); /* the newest turn of the plan */
    store_close(&s);
}

/* A second one covers the first; hiding it brings the first back. */
TEST_WITH(ON_EVERY_STORE, newest_compaction_is_the_one_that_counts)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_project_report report;
    for (unsigned i = 0; i < 4; i++) add_turn(s.store, CHAT, i);
    ms_request_desc ask = ask_of(s.store, CHAT, "gemini");
    uint64_t one = compacts(&ask, plan_of(&ask, 50).upto, "FIRST");
    for (unsigned i = 4; i < 8; i++) add_turn(s.store, CHAT, i);
    ms_compaction_plan plan = plan_of(&ask, 50);
    uint64_t two = compacts(&ask, plan.upto, "SECOND");
    ms_str body = body_of(&ask, &report);
    assert_true(has_text(body, "SECOND") && !has_text(body, "FIRST"));
    assert_int_equal(report.compaction_seq, two);
    assert_int_equal(report.compaction_unusable, 0);
    assert_int_equal(ms_hide(s.store, two, NULL), MS_OK);
    body = body_of(&ask, &report);
    assert_true(has_text(body, "FIRST") && !has_text(body, "SECOND"));
    assert_int_equal(report.compaction_seq, one);
    store_close(&s);
}

static int close_store(void **state)
{
    return reset(state);
}

static test_store heap(void)
{
    return store_open(store_kind_at(0), NULL);
}

static const char *const providers[] = {
    "openai", "chat-strict", "anthropic", "gemini", "ollama", "deepseek", "glm",
    "openrouter", "openai-responses", "bedrock", "cohere"};

/* The request for the summary has what is covered, and the prompt last. */
TEST(summary_is_asked_of_each_provider)
{
    for (size_t i = 0; i < COUNT(providers); i++) {
        test_store s = heap();
        for (unsigned n = 0; n < 5; n++) add_turn(s.store, CHAT, n);
        ms_request_desc ask = ask_of(s.store, CHAT, providers[i]);
        ask.opts.newest = 3;
        ms_compaction_plan plan = plan_of(&ask, 30);
        ms_buf out = {&arena, NULL, 0, 0};
        ms_error err;
        char why[PROVIDER_LINT_TEXT];
        must_ok(ms_compact_request(&ask, &plan, MS_STR(MS_COMPACT_PROMPT), ms_buf_write, &out,
                                   &err), &err, providers[i]);
        ms_str body = ms_buf_text(&out);
        assert_string_equal(questions_in(body, 9), "0123");
        assert_true(has_text(body, "Summarise the conversation so far"));
        if (provider_lint(providers[i], provider_lint_part(providers[i], body, &arena), why))
            fail_msg("%s: %s", providers[i], why);
        (void)compacts(&ask, plan.upto, "SUMMARY");
        ask.opts.newest = 0;
        body = body_of(&ask, NULL);
        assert_string_equal(questions_in(body, 9), "4");
        assert_true(has_text(body, "SUMMARY"));
        store_close(&s);
    }
}

/* Without a prompt the provider's own form asks. */
TEST(provider_is_asked_in_its_own_form_without_a_prompt)
{
    static const struct {
        const char *provider, *has; /* NULL: it has none */
    } rows[] = {
        {"anthropic", "\"compaction\":{\"type\":\"summarize\"}"},
        {"openai-responses", "{\"type\":\"compaction_trigger\"}]"},
        {"openai", NULL}, {"gemini", NULL}, {"bedrock", NULL}, {"ollama", NULL},
    };
    test_store s = heap();
    for (unsigned n = 0; n < 5; n++) add_turn(s.store, CHAT, n);
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_request_desc ask = ask_of(s.store, CHAT, rows[i].provider);
        ms_compaction_plan plan = plan_of(&ask, 30);
        ms_buf out = {&arena, NULL, 0, 0};
        ms_error err;
        ms_result code = ms_compact_request(&ask, &plan, ms_str_n(NULL, 0), ms_buf_write,
                                            &out, &err);
        assert_int_equal(code, rows[i].has != NULL ? MS_OK : MS_E_ARGUMENT);
        if (rows[i].has == NULL) {
            assert_string_equal(err.path, "prompt");
            assert_int_equal(out.len, 0);
        } else if (!has_text(ms_buf_text(&out), rows[i].has)) {
            fail_msg("%.*s", (int)out.len, out.ptr);
        }
    }
    store_close(&s);
}


/* ---- plans ---- */

/* What cannot be covered: a call that waits for its result, a question to the user, a
 * message that is being streamed, and all behind it. */
TEST(open_work_is_never_covered)
{
    ms_envelope question = ms_message(MS_T_INPUT_REQUIRED, ms_text("which?"));
    ms_stream stream;
    for (int kind = 0; kind < 3; kind++) {
        test_store s = heap();
        for (unsigned n = 0; n < 3; n++) add_turn(s.store, CHAT, n);
        ms_request_desc ask = ask_of(s.store, CHAT, "openai");
        uint64_t at = put(s.store, CHAT, ms_user_message(ms_text("go")));
        ms_envelope m = ms_assistant_message(ms_text("I "));
        if (kind == 0)
            put(s.store, CHAT, ms_action(MS_STR("f"), ms_json(MS_STR("{}")), MS_STR("x")));
        else if (kind == 1) put(s.store, CHAT, question);
        else assert_int_equal(ms_stream_begin(&stream, s.store, CHAT, &m, NULL, NULL), MS_OK);
        if (kind != 1) put(s.store, CHAT, ms_user_message(ms_text("are you there?")));
        ms_compaction_plan plan = plan_of(&ask, 0);
        assert_int_equal(plan.upto, kind == 1 ? at - 1 : at);
        if (kind == 0) {
            put(s.store, CHAT, ms_observation(ms_text("r"), MS_STR("x")));
            put(s.store, CHAT, ms_user_message(ms_text("thanks")));
            assert_true(plan_of(&ask, 0).upto > at);
        }
        if (kind == 2) (void)ms_stream_end(&stream, NULL, NULL, NULL);
        store_close(&s);
    }
}

/* A result that came late holds its call, and all that was said between. */
TEST(cut_never_stands_between_a_call_and_its_result)
{
    test_store s = heap();
    put(s.store, CHAT, ms_user_message(ms_text("one")));
    uint64_t call = put(s.store, CHAT, ms_action(MS_STR("f"), ms_json(MS_STR("{}")),
                                                 MS_STR("x")));
    put(s.store, CHAT, ms_user_message(ms_text("two")));
    put(s.store, CHAT, ms_observation(ms_text("late"), MS_STR("x")));
    put(s.store, CHAT, ms_user_message(ms_text("three")));
    ms_request_desc ask = ask_of(s.store, CHAT, "openai");
    ms_compaction_plan plan = plan_of(&ask, 20);
    assert_int_equal(plan.upto, call + 2);
    (void)compacts(&ask, call, "S"); /* by hand, through the pair */
    ms_project_report report;
    ms_str body = body_of(&ask, &report);
    assert_true(has_text(body, "late") && has_text(body, "two") && !has_text(body, "one"));
    assert_int_equal(report.orphans, 0);
    assert_int_equal(report.synthesised, 0);
    store_close(&s);
}

/* A result that came after the compaction of its call, as of a background job: the call
 * goes back with it, and nothing else that is covered. Then the next one covers both. */
TEST(late_result_goes_with_its_call_alone)
{
    for (size_t i = 0; i < COUNT(providers); i++) {
        test_store s = heap();
        ms_project_report report;
        ms_request_desc ask = ask_of(s.store, CHAT, providers[i]), other;
        put(s.store, CHAT, ms_user_message(ms_text("start")));
        put(s.store, CHAT, ms_action(MS_STR("f"), ms_json(MS_STR("{\"job\":1}")), MS_STR("job")));
        uint64_t last = 0;
        for (unsigned n = 0; n < 2; n++) last = add_turn(s.store, CHAT, n);
        (void)compacts(&ask, last, "SUMMARY");
        add_turn(s.store, CHAT, 2);
        (void)body_of(&ask, &report);
        assert_int_equal(report.compacted, 10);
        uint64_t cost = report.cost;
        put(s.store, CHAT, ms_observation(ms_text("job done"), MS_STR("job")));
        ms_str body = body_of(&ask, &report);
        assert_string_equal(questions_in(body, 9), "2");
        assert_true(has_text(body, "job done") && has_text(body, "SUMMARY"));
        assert_false(has_text(body, "start\"") || has_text(body, "answer-1"));
        assert_int_equal(report.compacted, 9);
        assert_int_equal(report.orphans + report.synthesised + report.compaction_missing, 0);
        assert_in_range(report.cost, cost + 10, cost + 30);
        ms_cursor it;
        ms_query q = {.location = CHAT};
        other = ask;
        other.store = NULL;
        other.cursor = &it;
        assert_int_equal(ms_query_open(s.store, &q, &it, NULL), MS_OK);
        same_text(body_of(&other, &report), body);
        assert_int_equal(report.compacted, 9);
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
        put(s.store, CHAT, ms_user_message(ms_text("question-3.")));
        ms_compaction_plan plan = plan_of(&ask, 1);
        assert_int_equal(plan.upto, last + 6);
        assert_int_equal(plan.messages, 6);
        (void)compacts(&ask, plan.upto, "SECOND");
        body = body_of(&ask, &report);
        assert_false(has_text(body, "job done") || has_text(body, "SUMMARY"));
        assert_string_equal(questions_in(body, 9), "3");
        assert_int_equal(report.compacted, 15);
        store_close(&s);
    }
}

/* Of two calls of one answer only that with the late result, whose thinking goes with it,
 * or is left out where it is bound to what it stood after. */
TEST(late_result_has_the_thinking_of_its_answer)
{
    static const struct {
        const char *provider, *body;
        bool kept, sent;
    } rows[] = {
        {"anthropic", "{\"type\":\"message\",\"model\":\"m\",\"stop_reason\":\"tool_use\",\"content\""
         ":[{\"type\":\"thinking\",\"thinking\":\"think\",\"signature\":\"s\"},{\"type\":\"text\","
         "\"text\":\"beside\"},{\"type\":\"tool_use\",\"id\":\"c1\",\"name\":\"f\",\"input\":{}},"
         "{\"type\":\"tool_use\",\"id\":\"c2\",\"name\":\"f\",\"input\":{}}]}", true, false},
        {"deepseek", "{\"model\":\"m\",\"choices\":[{\"finish_reason\":\"x\",\"message\":{"
         "\"reasoning_content\":\"think\",\"content\":\"beside\",\"tool_calls\":[{\"id\":\"c1\","
         "\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}},{\"id\":\"c2\",\"function\":"
         "{\"name\":\"f\",\"arguments\":\"{}\"}}]}}]}", true, true},
        {"openai-responses", "{\"object\":\"response\",\"model\":\"m\",\"status\":\"completed\","
         "\"output\":[{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[],"
         "\"encrypted_content\":\"think\"},{\"type\":\"function_call\",\"id\":\"fc_1\",\"call_id\":"
         "\"c2\",\"name\":\"f\",\"arguments\":\"{}\"},{\"type\":\"function_call\",\"id\":\"fc_2\","
         "\"call_id\":\"c1\",\"name\":\"f\",\"arguments\":\"{}\"}]}", true, false},
        {"openai-responses", "{\"object\":\"response\",\"model\":\"m\",\"status\":\"completed\","
         "\"output\":[{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[],"
         "\"encrypted_content\":\"think\"},{\"type\":\"function_call\",\"id\":\"fc_1\",\"call_id\":"
         "\"c1\",\"name\":\"f\",\"arguments\":\"{}\"},{\"type\":\"function_call\",\"id\":\"fc_2\","
         "\"call_id\":\"c2\",\"name\":\"f\",\"arguments\":\"{}\"}]}", false, false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        test_store s = heap();
        ms_project_report report;
        ms_request_desc ask = ask_of(s.store, CHAT, rows[i].provider);
        ask.opts.thinking = MS_THINKING_ALL;
        put(s.store, CHAT, ms_user_message(ms_text("begin")));
        assert_int_equal(ms_answer(&ask, ms_str_of(rows[i].body), NULL, NULL), MS_OK);
        put(s.store, CHAT, ms_observation(ms_text("at once"), MS_STR("c1")));
        put(s.store, CHAT, ms_user_message(ms_text("meanwhile")));
        uint64_t last = put(s.store, CHAT, ms_assistant_message(ms_text("well")));
        (void)compacts(&ask, last, "SUMMARY");
        put(s.store, CHAT, ms_user_message(ms_text("go on")));
        (void)body_of(&ask, &report);
        assert_int_equal(report.compacted, last);
        put(s.store, CHAT, ms_observation(ms_text("late"), MS_STR("c2")));
        ms_str body = body_of(&ask, &report);
        assert_true(has_text(body, "\"c2\"") && has_text(body, "late"));
        assert_false(has_text(body, "\"c1\"") || has_text(body, "at once"));
        assert_false(has_text(body, "beside") || has_text(body, "meanwhile"));
        bool kept = rows[i].kept;
        if (has_text(body, "think\"") != rows[i].sent || report.compacted != last - 1u - kept ||
            report.thinking_left_out != (kept && !rows[i].sent))
            fail_msg("row %zu: %d of %d: %.*s", i, (int)report.compacted, (int)last,
                     (int)body.len, body.ptr);
        store_close(&s);
    }
}

/* A late result changes what stands before later answers. Thinking that is bound to it
 * is not sent if the result came after it; what came after both is. */
TEST(thinking_before_a_late_result_is_left_out)
{
    static const char body[] =
        "{\"type\":\"message\",\"model\":\"m\",\"stop_reason\":\"tool_use\",\"content\":[{\"type\":"
        "\"thinking\",\"thinking\":\"%s\",\"signature\":\"s\"},{\"type\":\"tool_use\",\"id\":\"%s\","
        "\"name\":\"f\",\"input\":{}}]}";
    test_store s = heap();
    ms_project_report report;
    char text[400];
    ms_request_desc ask = ask_of(s.store, CHAT, "anthropic");
    ask.opts.thinking = MS_THINKING_ALL;
    put(s.store, CHAT, ms_user_message(ms_text("begin")));
    put(s.store, CHAT, ms_action(MS_STR("f"), ms_json(MS_STR("{}")), MS_STR("job")));
    put(s.store, CHAT, ms_user_message(ms_text("meanwhile")));
    uint64_t last = put(s.store, CHAT, ms_assistant_message(ms_text("well")));
    (void)compacts(&ask, last, "SUMMARY");
    put(s.store, CHAT, ms_user_message(ms_text("go on")));
    snprintf(text, sizeof text, body, "EARLY", "c1");
    assert_int_equal(ms_answer(&ask, ms_str_of(text), NULL, NULL), MS_OK);
    put(s.store, CHAT, ms_observation(ms_text("r"), MS_STR("c1")));
    assert_true(has_text(body_of(&ask, &report), "EARLY"));
    assert_int_equal(report.thinking_left_out, 0);
    put(s.store, CHAT, ms_observation(ms_text("late"), MS_STR("job")));
    snprintf(text, sizeof text, body, "AFTER", "c2");
    assert_int_equal(ms_answer(&ask, ms_str_of(text), NULL, NULL), MS_OK);
    put(s.store, CHAT, ms_observation(ms_text("r"), MS_STR("c2")));
    ms_str sent = body_of(&ask, &report);
    assert_true(has_text(sent, "AFTER") && has_text(sent, "late"));
    assert_false(has_text(sent, "EARLY"));
    assert_int_equal(report.thinking_left_out, 1);
    store_close(&s);
}

TEST(plan_is_due_when_the_history_costs_more_than_compact_at)
{
    test_store s = heap();
    ms_project_report report;
    add_turn(s.store, CHAT, 0);
    ms_request_desc ask = ask_of(s.store, CHAT, "openai");
    ask.opts.compact_at = 60;
    (void)body_of(&ask, &report);
    assert_false(report.compaction_due);
    assert_false(plan_of(&ask, 20).due);
    ms_compaction_plan all = plan_of(&ask, 1000);
    assert_int_equal(all.upto, 0); /* it fits */
    for (unsigned i = 1; i < 4; i++) add_turn(s.store, CHAT, i);
    (void)body_of(&ask, &report);
    assert_true(report.compaction_due);
    ms_compaction_plan plan = plan_of(&ask, 40);
    assert_true(plan.due && plan.kept <= 40 && plan.cost == report.cost);
    (void)compacts(&ask, plan.upto, "S");
    (void)body_of(&ask, &report);
    assert_false(report.compaction_due);
    assert_in_range(report.cost, plan.kept, plan.kept + 30);
    store_close(&s);
}

/* What another program has as the context is a list of items, which go as they are. */
TEST(all_items_of_a_compaction_are_sent)
{
    test_store s = heap();
    uint64_t end = add_turn(s.store, CHAT, 0);
    ms_request_desc ask = ask_of(s.store, CHAT, "openai-responses");
    const ms_compaction c = {.upto = end, .items = MS_STR(
        "[{\"role\":\"user\",\"content\":\"one\"} , {\"role\":\"user\",\"content\":\"two\"},"
        "{\"type\":\"compaction\",\"encrypted_content\":\"SEALED\"}]")};
    ms_error err;
    must_ok(ms_compact(&ask, &c, NULL, &err), &err, "compact");
    add_turn(s.store, CHAT, 1);
    ms_str body = body_of(&ask, NULL);
    assert_true(has_text(body, "\"one\"},{\"role\":\"user\",\"content\":\"two\"},"
                               "{\"type\":\"compaction\""));
    assert_string_equal(questions_in(body, 9), "1");
    store_close(&s);
}


/* A format's reader keeps the members of its own beside the fields. */
TEST(tail_stays_when_a_compaction_was_read_from_a_format)
{
    test_store s = heap();
    ms_envelopes list;
    ms_error err;
    for (unsigned i = 0; i < 3; i++) add_turn(s.store, CHAT, i);
    ms_str json = MS_STR("{\"type\":\"compaction\",\"content\":\"S\",\"timestamp\":1,"
                         "\"compaction\":{\"keep\":4}}");
    must_ok(ms_read(ms_format_find(MS_STR("framework")), json, NULL, &arena, &list, &err),
            &err, "read");
    put(s.store, CHAT, list.items[0]);
    ms_request_desc ask = ask_of(s.store, CHAT, "openai");
    assert_string_equal(questions_in(body_of(&ask, NULL), 9), "2");
    store_close(&s);
}

static const char of_anthropic[] =
    "{\"type\":\"message\",\"model\":\"m\",\"role\":\"assistant\",\"stop_reason\":\"tool_use\","
    "\"content\":[{\"type\":\"compaction\",\"content\":\"they counted\",\"signature\":\"s\"},"
    "{\"type\":\"text\",\"text\":\"go on\"},"
    "{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"f\",\"input\":{}}]}";
static const char of_openai[] =
    "{\"object\":\"response\",\"model\":\"m\",\"status\":\"completed\",\"output\":["
    "{\"type\":\"compaction\",\"id\":\"cmp_1\",\"encrypted_content\":\"AAAA\"},"
    "{\"type\":\"message\",\"id\":\"msg_1\",\"role\":\"assistant\",\"status\":\"completed\","
    "\"content\":[{\"type\":\"output_text\",\"text\":\"go on\",\"annotations\":[]}]}]}";

/* A location as a format writes it, in a new store. */
static ms_store *through(ms_store *from, const char *format)
{
    static const ms_writer_opts opts = {.array = true};
    ms_writer w;
    ms_cursor it;
    const ms_msg *msg;
    ms_envelopes list;
    ms_store *store;
    ms_error err;
    ms_query q = {.location = CHAT};
    ms_buf out = {&arena, NULL, 0, 0};
    ms_writer_init(&w, ms_format_find(ms_str_of(format)), &opts, &arena, ms_buf_write, &out);
    assert_int_equal(ms_query_open(from, &q, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL) {
        const ms_envelope m = ms_envelope_of(msg);
        must_ok(ms_writer_put(&w, &m, &err), &err, format);
    }
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    must_ok(ms_writer_finish(&w, &err), &err, format);
    assert_int_equal(w.left_out.fields[MS_F_EXTRA], 0);
    must_ok(ms_read_list(ms_format_find(ms_str_of(format)), ms_buf_text(&out), NULL, &arena,
                         &list, &err), &err, format);
    assert_int_equal(ms_mem_open(&store, NULL, NULL), MS_OK);
    for (size_t i = 0; i < list.count; i++) put(store, CHAT, list.items[i]);
    return store;
}

/* Who made an item is a member of its message, which a format's reader keeps. */
TEST(items_go_back_to_their_maker_when_they_were_read_from_a_format)
{
    static const char thinks[] =
        "{\"type\":\"message\",\"model\":\"m\",\"stop_reason\":\"tool_use\",\"content\":[{\"type\":"
        "\"thinking\",\"thinking\":\"hm\",\"signature\":\"sig\"},{\"type\":\"text\",\"text\":\"so\"},"
        "{\"type\":\"tool_use\",\"id\":\"t2\",\"name\":\"f\",\"input\":{\"a\":1}}]}";
    static const char reasons[] =
        "{\"object\":\"response\",\"model\":\"m\",\"status\":\"completed\",\"output\":[{\"type\":"
        "\"reasoning\",\"id\":\"rs_1\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"hm\"}],"
        "\"encrypted_content\":\"ENC\"},{\"type\":\"function_call\",\"id\":\"fc_1\",\"call_id\":\"t2\","
        "\"name\":\"f\",\"arguments\":\"{}\",\"status\":\"completed\"}]}";
    for (size_t provider = 0; provider < 2; provider++) {
        test_store s = heap();
        ms_project_report report, first;
        const char *name = provider ? "openai-responses" : "anthropic";
        ms_request_desc ask = ask_of(s.store, CHAT, name);
        ask.opts.thinking = MS_THINKING_ON;
        add_turn(s.store, CHAT, 0);
        ms_str made = ms_str_of(provider ? of_openai : of_anthropic);
        assert_int_equal(ms_answer(&ask, made, NULL, NULL), MS_OK);
        if (!provider) put(s.store, CHAT, ms_observation(ms_text("r"), MS_STR("t1")));
        else put(s.store, CHAT, ms_user_message(ms_text("more")));
        made = ms_str_of(provider ? reasons : thinks);
        assert_int_equal(ms_answer(&ask, made, NULL, NULL), MS_OK);
        put(s.store, CHAT, ms_observation(ms_text("r"), MS_STR("t2")));
        ms_str before = body_of(&ask, &first);
        assert_true(has_text(before, provider ? "AAAA" : "they counted"));
        assert_true(has_text(before, provider ? "ENC" : "sig"));
        ask.store = through(s.store, "framework");
        ms_str after = body_of(&ask, &report);
        if (!ms_str_equal(after, before))
            fail_msg("%s:\n%.*s\nwas\n%.*s", name, (int)after.len, after.ptr, (int)before.len,
                     before.ptr);
        assert_int_equal(report.compaction_unusable, 0);
        assert_int_equal(report.thinking_missing, first.thinking_missing);
        assert_int_equal(report.raw_left_out, first.raw_left_out);
        ms_close(ask.store);
        store_close(&s);
    }
}

/* Appends a compaction as another program may have written it. */
static uint64_t put_made(ms_store *store, const char *summary, const char *extra)
{
    ms_envelope m = ms_message(MS_T_COMPACTION, ms_text(summary));
    if (extra) m.extra = ms_str_of(extra);
    return put(store, CHAT, m);
}

/* What it covers is not known: it is passed over and counted, an earlier one is used. */
TEST_WITH(ON_EVERY_STORE, compaction_without_a_usable_keep_is_passed_over)
{
    static const char *const extras[] = {
        NULL, "{}", "{\"keep\":4}", "{\"compaction\":7}", "{\"compaction\":{}}",
        "{\"compaction\":[4]}", "{\"compaction\":{\"keep\":null}}",
        "{\"compaction\":{\"keep\":\"4\"}}", "{\"compaction\":{\"keep\":true}}",
        "{\"compaction\":{\"keep\":-1}}", "{\"compaction\":{\"keep\":1.5}}",
        "{\"compaction\":{\"keep\":[4]}}", "{\"compaction\":{\"keep\":{}}}",
        "{\"compaction\":{\"keep\":18446744073709551616}}",
        "{\"compaction\":{\"cause\":\"auto\",\"items\":[{\"type\":\"text\"}]},"
        "\"signed\":{\"provider\":\"anthropic\"}}"};
    test_store s = store_open((store_kind *)*state, NULL);
    ms_project_report report;
    ms_error err;
    uint64_t end = 0;
    for (unsigned i = 0; i < 3; i++) end = add_turn(s.store, CHAT, i);
    ms_request_desc ask = ask_of(s.store, CHAT, "anthropic");
    ms_str before = body_of(&ask, NULL);
    for (size_t i = 0; i < COUNT(extras); i++) {
        const char *what = extras[i] ? extras[i] : "no extra members";
        put_made(s.store, "LOST", extras[i]);
        ms_str body = body_of(&ask, &report);
        if (!ms_str_equal(body, before)) fail_msg("%s: %.*s", what, (int)body.len, body.ptr);
        if (report.compaction_unusable != 1 || report.compaction_seq != 0)
            fail_msg("%s is not counted", what);
        must_ok(ms_rewind(s.store, CHAT, end, NULL, &err), &err, what);
    }
    uint64_t seq = put_made(s.store, "FIRST", "{\"compaction\":{\"keep\":4}}");
    put_made(s.store, "LOST", NULL);
    ms_str body = body_of(&ask, &report);
    assert_true(has_text(body, "FIRST") && !has_text(body, "LOST"));
    assert_string_equal(questions_in(body, 9), "2");
    assert_int_equal(report.compaction_seq, seq);
    assert_int_equal(report.compaction_unusable, 1);
    store_close(&s);
}

/* Messages that it keeps may be gone, of a ring or by hand: all that is there is sent
 * with the summary, and what is not there is counted. */
TEST_WITH(ON_EVERY_STORE, messages_that_a_compaction_keeps_are_counted_when_missing)
{
    static const struct {
        const char *extra, *sent;
        uint64_t missing;
    } rows[] = {
        {"{\"compaction\":{\"keep\":12}}", "012", 0},
        {"{\"compaction\":{\"keep\":13}}", "012", 1},
        {"{\"compaction\":{\"keep\":4294967300}}", "012", 4294967288},
        {"{\"compaction\":{\"keep\":18446744073709551615}}", "012", 18446744073709551603u},
    };
    test_store s = store_open((store_kind *)*state, NULL);
    ms_project_report report;
    ms_error err;
    uint64_t end = 0;
    for (unsigned i = 0; i < 3; i++) end = add_turn(s.store, CHAT, i);
    ms_request_desc ask = ask_of(s.store, CHAT, "openai"), other = ask;
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_memory memory;
        ms_cursor it;
        ms_query q = {.location = CHAT};
        uint64_t seq = put_made(s.store, "SUMMARY", rows[i].extra);
        ms_memory_init(&memory, s.store, CHAT, MS_STR("m"));
        for (int source = 0; source < 3; source++) {
            other = ask;
            if (source > 0) other.store = NULL;
            if (source == 1) other.memory = &memory;
            if (source == 2) other.cursor = &it;
            if (source == 2) assert_int_equal(ms_query_open(s.store, &q, &it, NULL), MS_OK);
            ms_str body = body_of(&other, &report);
            if (source == 2) assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
            assert_true(has_text(body, "SUMMARY"));
            assert_string_equal(questions_in(body, 9), rows[i].sent);
            assert_int_equal(report.compaction_seq, seq);
            assert_int_equal(report.compaction_missing, rows[i].missing);
            assert_int_equal(report.compaction_unusable, 0);
            assert_int_equal(report.compacted, 0);
        }
        must_ok(ms_rewind(s.store, CHAT, end, NULL, &err), &err, rows[i].extra);
    }
    store_close(&s);
}

/* Hidden messages of the tail are counted, and none that is covered takes their place; in
 * a fork, too. Without the last covered one, the count alone is known. */
TEST_WITH(ON_EVERY_STORE, covered_messages_stay_covered_when_kept_ones_are_hidden)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_project_report report;
    ms_error err;
    uint64_t seqs[8];
    char text[24];
    for (unsigned i = 0; i < 8; i++) {
        snprintf(text, sizeof text, "%s-%u.", i % 2 ? "answer" : "question", i);
        seqs[i] = put(s.store, CHAT, i % 2 ? ms_assistant_message(ms_text(text))
                                           : ms_user_message(ms_text(text)));
    }
    ms_request_desc ask = ask_of(s.store, CHAT, "openai");
    uint64_t at = compacts(&ask, seqs[3], "SUMMARY");
    assert_string_equal(questions_in(body_of(&ask, &report), 9), "46");
    assert_int_equal(report.compaction_missing, 0);
    for (unsigned n = 1; n <= 4; n++) {
        must_ok(ms_hide(s.store, seqs[8 - n], &err), &err, "hide");
        snprintf(text, sizeof text, "fork-%u", n);
        must_ok(ms_fork(s.store, CHAT, at, ms_str_of(text), NULL, &err), &err, "fork");
        for (int fork = 0; fork < 2; fork++) {
            ask.location = fork ? ms_str_of(text) : CHAT;
            assert_string_equal(questions_in(body_of(&ask, &report), 9),
                                n < 2 ? "46" : n < 4 ? "4" : "");
            assert_int_equal(report.compaction_missing, n);
            assert_int_equal(report.compacted, 4);
        }
    }
    ask.location = CHAT;
    must_ok(ms_hide(s.store, seqs[3], &err), &err, "hide");
    assert_string_equal(questions_in(body_of(&ask, &report), 9), "02");
    assert_int_equal(report.compaction_missing, 1);
    store_close(&s);
}

/* A message of the tail that equals the last covered one is not taken for it. */
TEST(tail_is_counted_when_it_has_the_last_covered_message_again)
{
    test_store s = heap();
    ms_project_report report;
    for (int i = 0; i < 4; i++) {
        put(s.store, CHAT, ms_user_message(ms_text(i < 2 ? "old" : "new")));
        put(s.store, CHAT, ms_assistant_message(ms_text("ok")));
    }
    ms_request_desc ask = ask_of(s.store, CHAT, "openai");
    (void)compacts(&ask, 4, "SUMMARY");
    ms_str body = body_of(&ask, &report);
    assert_false(has_text(body, "old"));
    assert_true(has_text(body, "new\"},{\"role\":\"assistant\",\"content\":\"ok\"},"
                               "{\"role\":\"user\",\"content\":\"new\"}"));
    assert_int_equal(report.compacted, 4);
    assert_int_equal(report.compaction_missing, 0);
    store_close(&s);
}

/* A call of the tail that has an id is not taken for the last covered one without, which a
 * fork would give one. */
TEST(tail_is_counted_when_it_has_the_last_covered_call_with_an_id)
{
    test_store s = heap();
    ms_project_report report;
    ms_value none = ms_json(MS_STR("{}"));
    put(s.store, CHAT, ms_user_message(ms_text("old")));
    put(s.store, CHAT, ms_action(MS_STR("look"), none, MS_STR("")));
    for (int i = 0; i < 3; i++) {
        put(s.store, CHAT, ms_user_message(ms_text("new")));
        if (i == 1) put(s.store, CHAT, ms_action(MS_STR("look"), none, MS_STR("c1")));
        put(s.store, CHAT, ms_assistant_message(ms_text("ok")));
    }
    ms_request_desc ask = ask_of(s.store, CHAT, "openai");
    ms_compaction c = {.upto = 2, .summary = MS_STR("SUMMARY")};
    assert_int_equal(ms_compact(&ask, &c, NULL, NULL), MS_OK);
    (void)body_of(&ask, &report);
    assert_int_equal(report.compacted, 2);
    assert_int_equal(report.compaction_missing, 0);
    store_close(&s);
}

/* Of "plain" summaries the text is sent as it is. */
TEST(plain_summary_has_its_own_words)
{
    test_store s = heap();
    for (unsigned i = 0; i < 2; i++) add_turn(s.store, CHAT, i);
    ms_request_desc ask = ask_of(s.store, CHAT, "openai");
    put_made(s.store, "SUMMARY", "{\"compaction\":{\"keep\":0,\"plain\":true}}");
    assert_true(has_text(body_of(&ask, NULL), "\"content\":\"SUMMARY\""));
    put_made(s.store, "SUMMARY", "{\"compaction\":{\"keep\":0,\"plain\":false}}");
    assert_false(has_text(body_of(&ask, NULL), "\"content\":\"SUMMARY\""));
    store_close(&s);
}

TEST(wrong_compactions_are_refused)
{
    test_store s = heap();
    ms_error err;
    uint64_t seq = 7;
    for (unsigned i = 0; i < 3; i++) add_turn(s.store, CHAT, i);
    uint64_t other = put(s.store, MS_STR("other"), ms_user_message(ms_text("x")));
    ms_request_desc ask = ask_of(s.store, CHAT, "openai");
    const struct {
        ms_compaction c;
        ms_result code;
    } rows[] = {
        {{.upto = 4}, MS_E_MISSING},
        {{.upto = 4, .summary = MS_STR("  ")}, MS_E_MISSING},
        {{.upto = 0, .summary = MS_STR("s")}, MS_E_NOT_FOUND},
        {{.upto = 99, .summary = MS_STR("s")}, MS_E_NOT_FOUND},
        {{.upto = other, .summary = MS_STR("s")}, MS_E_CONFLICT},
        {{.upto = 4, .items = MS_STR("{}")}, MS_E_KIND},
        {{.upto = 4, .items = MS_STR("[")}, MS_E_SYNTAX},
        {{.upto = 4, .body = MS_STR("{}"), .summary = MS_STR("s")}, MS_E_ARGUMENT},
        {{.upto = 4, .body = MS_STR("{\"error\":{\"message\":\"no\"}}")}, MS_E_REFUSED},
        {{.upto = 4, .body = MS_STR("{\"choices\":[{\"finish_reason\":\"length\",\"message\":"
                                    "{\"content\":\"half of\"}}]}")}, MS_E_MISSING},
        {{.upto = 4, .body = MS_STR("{\"choices\":[{\"finish_reason\":\"content_filter\","
                                    "\"message\":{\"content\":\"half of\"}}]}")}, MS_E_MISSING},
        {{.upto = 4, .body = MS_STR("{\"choices\":[{\"finish_reason\":\"refusal\",\"message\":"
                                    "{\"content\":\"I cannot.\"}}]}")}, MS_E_MISSING},
        {{.upto = 4, .body = MS_STR("{\"choices\":[{\"finish_reason\":\"tool_calls\",\"message\":"
                                    "{\"content\":\"wait\",\"tool_calls\":[{\"id\":\"c\","
                                    "\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}}]}")},
         MS_E_MISSING},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        seq = 7;
        if (ms_compact(&ask, &rows[i].c, &seq, &err) != rows[i].code)
            fail_msg("row %zu: %s", i, err.message);
        assert_int_equal(seq, 0);
    }
    assert_int_equal(messages_of(s.store, CHAT), 12);
    ms_compaction_plan plan = plan_of(&ask, 30), none = {.upto = 0};
    ms_buf out = {&arena, NULL, 0, 0};
    assert_int_equal(ms_compact_request(&ask, &none, MS_STR("p"), ms_buf_write, &out, &err),
                     MS_E_CONFLICT);
    assert_int_equal(ms_rewind(s.store, CHAT, plan.upto - 1, NULL, NULL), MS_OK);
    assert_int_equal(ms_compact_request(&ask, &plan, MS_STR("p"), ms_buf_write, &out, &err),
                     MS_E_CONFLICT);
    assert_int_equal(out.len, 0);
    store_close(&s);
}

/* A summary of Anthropic that failed takes the place of nothing, nor does one that was
 * stored. */
TEST(compaction_that_failed_is_refused_or_passed_over)
{
    test_store s = heap();
    ms_error err;
    ms_project_report report;
    for (unsigned i = 0; i < 3; i++) add_turn(s.store, CHAT, i);
    ms_request_desc ask = ask_of(s.store, CHAT, "anthropic");
    const ms_compaction failed = {.upto = 4, .body = MS_STR(
        "{\"type\":\"message\",\"model\":\"m\",\"content\":[{\"type\":\"compaction\","
        "\"content\":null}],\"stop_reason\":\"compaction\"}")};
    assert_int_equal(ms_compact(&ask, &failed, NULL, &err), MS_E_MISSING);
    assert_int_equal(messages_of(s.store, CHAT), 12);
    const ms_compaction stored = {.upto = 4, .items = MS_STR(
        "[{\"type\":\"compaction\",\"content\":null}]")};
    must_ok(ms_compact(&ask, &stored, NULL, &err), &err, "compact");
    assert_string_equal(questions_in(body_of(&ask, &report), 3), "012");
    assert_int_equal(report.compaction_unusable, 1);
    store_close(&s);
}

/* Each allocation of the three calls fails once: an error, and nothing appended. */
TEST(compaction_without_memory_appends_nothing)
{
    test_store s = heap();
    ms_error err;
    for (unsigned i = 0; i < 4; i++) add_turn(s.store, CHAT, i);
    ms_request_desc ask = ask_of(s.store, CHAT, "anthropic");
    static const char body[] = "{\"type\":\"message\",\"model\":\"m\",\"stop_reason\":\"end_turn\","
                               "\"usage\":{\"input_tokens\":9,\"output_tokens\":2},"
                               "\"content\":[{\"type\":\"text\",\"text\":\"SUMMARY\"}]}";
    unsigned refused = 0;
    for (size_t room = 256;; room = room + room / 8) {
        char *memory = (char *)malloc(room);
        ms_arena own;
        ms_compaction_plan plan;
        ms_buf out = {&own, NULL, 0, 0};
        ms_result code;
        uint64_t seq = 0;
        assert_non_null(memory);
        test_arena_init_fixed(&own, memory, room);
        ask.arena = &own;
        code = ms_compact_plan(&ask, 30, &plan, &err);
        ms_arena_reset(&own);
        if (code == MS_OK)
            code = ms_compact_request(&ask, &plan, MS_STR("p"), ms_buf_write, &out, &err);
        ms_arena_reset(&own);
        const ms_compaction c = {.body = ms_str_of(body), .upto = 12};
        if (code == MS_OK) code = ms_compact(&ask, &c, &seq, &err);
        free(memory);
        assert_int_equal(seq != 0, code == MS_OK);
        if (code == MS_OK) break;
        assert_int_equal(code, MS_E_ARENA);
        refused++;
        assert_int_equal(messages_of(s.store, CHAT), 16);
    }
    assert_true(refused > 5);
    ask.arena = NULL;
    assert_true(has_text(body_of(&ask, NULL), "SUMMARY"));
    store_close(&s);
}

/* In an arena of any size a plan and its request are whole, or there is none; a compaction
 * is appended, or nothing is. */
TEST(compaction_is_whole_or_none_when_memory_ends)
{
    static char memory[128 * 1024];
    static const char body[] = "{\"type\":\"message\",\"model\":\"m\",\"stop_reason\":\"compaction\","
                               "\"content\":[{\"type\":\"compaction\",\"content\":\"SUM\"}]}";
    for (int step = 0; step < 3; step++) {
        test_store s = heap();
        ms_error err;
        for (unsigned i = 0; i < 4; i++) add_turn(s.store, CHAT, i);
        ms_request_desc ask = ask_of(s.store, CHAT, "anthropic");
        (void)compacts(&ask, 4, "FIRST");
        ms_compaction_plan plan = plan_of(&ask, 30);
        uint64_t before = messages_of(s.store, CHAT), seq = 0;
        ms_result code = MS_E_ARENA;
        for (size_t room = 0; code != MS_OK && room < sizeof memory; room += 16) {
            ms_arena own;
            ms_compaction_plan again;
            ms_buf out = {&arena, NULL, 0, 0};
            const ms_compaction c = {.body = ms_str_of(body), .upto = plan.upto};
            test_arena_init_fixed(&own, memory, room);
            ask.arena = &own;
            if (step == 0) code = ms_compact_plan(&ask, 30, &again, &err);
            if (step == 1)
                code = ms_compact_request(&ask, &plan, ms_str_n(NULL, 0), ms_buf_write, &out, &err);
            if (step == 2) code = ms_compact(&ask, &c, &seq, &err);
            if (code != MS_OK && code != MS_E_ARENA) fail_msg("step %d: %s", step, err.message);
            if (code != MS_OK) assert_int_equal(err.code, MS_E_ARENA);
            if (step == 0) assert_int_equal(again.upto, code == MS_OK ? plan.upto : 0);
            if (step == 1)
                assert_int_equal(has_text(ms_buf_text(&out), "summarize"), code == MS_OK);
            assert_int_equal(seq != 0, step == 2 && code == MS_OK);
            assert_int_equal(messages_of(s.store, CHAT) - before, seq != 0);
        }
        assert_int_equal(code, MS_OK);
        store_close(&s);
    }
}

/* What a compaction is made of: its items with a provider and a model of their own, or of
 * no name; and of an answer with thinking, several texts or nothing but thinking. */
TEST(compaction_is_made_of_what_is_given)
{
    const struct {
        ms_compaction c;
        bool nameless;
        ms_result code;
        const char *extra, *content;
    } rows[] = {
        {{.items = MS_STR("[{\"a\":1}]"), .provider = MS_STR("p"), .model = MS_STR("n")}, false,
         MS_OK, "\"signed\":{\"provider\":\"p\",\"model\":\"n\"}", ""},
        {{.items = MS_STR("[{\"a\":1}]"), .model = MS_STR("")}, true, MS_OK,
         "\"signed\":{\"provider\":\"\"}", ""},
        {{.summary = MS_STR("s"), .items = MS_STR("[]")}, false, MS_OK, "\"items\":[]", "s"},
        {{.body = MS_STR("{\"choices\":[{\"message\":{\"reasoning\":\"hm\",\"content\":\"s\"},"
                         "\"finish_reason\":\"stop\"}]}")}, false, MS_OK, "\"keep\":8", "s"},
        {{.body = MS_STR("{\"choices\":[{\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
                         "{\"type\":\"x\",\"y\":1}]},\"finish_reason\":\"stop\"}]}")}, false, MS_OK,
         "\"keep\":8", "a"},
        {{.body = MS_STR("{\"choices\":[{\"message\":{\"reasoning\":\"hm\"},\"finish_reason\":"
                         "\"stop\"}]}")}, false, MS_E_MISSING, NULL, NULL},
        {{.body = MS_STR("{\"choices\":[]}"), .items = MS_STR("[]")}, false, MS_E_ARGUMENT, NULL,
         NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        test_store s = heap();
        ms_error err;
        uint64_t seq = 0;
        const ms_msg *msg;
        for (unsigned n = 0; n < 3; n++) add_turn(s.store, CHAT, n);
        ms_request_desc ask = ask_of(s.store, CHAT, "openai");
        ms_profile own = *ask.profile;
        if (rows[i].nameless) own.name = NULL;
        ask.profile = &own;
        ms_compaction c = rows[i].c;
        c.upto = 4;
        ms_result code = ms_compact(&ask, &c, &seq, &err);
        if (code != rows[i].code) fail_msg("row %zu: %s", i, err.message);
        assert_int_equal(messages_of(s.store, CHAT), code == MS_OK ? 13 : 12);
        if (code == MS_OK) {
            assert_int_equal(ms_get_by_seq(s.store, seq, &arena, &msg, &err), MS_OK);
            ms_envelope m = ms_envelope_of(msg);
            if (!has_text(m.extra, rows[i].extra)) fail_msg("%.*s", (int)m.extra.len, m.extra.ptr);
            same_text(m.content.text, ms_str_of(rows[i].content));
        }
        store_close(&s);
    }
}

/* Texts of an answer of Anthropic are paragraphs of one summary; a block between them is no
 * part of it. */
TEST(summary_has_all_texts_of_its_answer)
{
    test_store s = heap();
    ms_error err;
    for (unsigned n = 0; n < 3; n++) add_turn(s.store, CHAT, n);
    ms_request_desc ask = ask_of(s.store, CHAT, "anthropic");
    const ms_compaction c = {.upto = 4, .body = MS_STR(
        "{\"type\":\"message\",\"content\":[{\"type\":\"text\",\"text\":\"one\"},{\"type\":\"x\"},"
        "{\"type\":\"text\",\"text\":\"two\"}],\"stop_reason\":\"end_turn\"}")};
    must_ok(ms_compact(&ask, &c, NULL, &err), &err, "compact");
    assert_true(has_text(body_of(&ask, NULL), "one\\n\\ntwo"));
    store_close(&s);
}

/* A compaction in a memory is appended to its store, also with usage; without a source, or
 * with two, each call is refused. */
TEST(compaction_needs_a_store_or_a_memory)
{
    test_store s = heap();
    ms_error err;
    ms_memory memory;
    ms_compaction_plan plan = {.upto = 4};
    ms_buf out = {&arena, NULL, 0, 0};
    uint64_t seq = 0;
    for (unsigned n = 0; n < 3; n++) add_turn(s.store, CHAT, n);
    ms_request_desc ask = ask_of(s.store, CHAT, "openai"), none = ask;
    const ms_compaction text = {.upto = 4, .summary = MS_STR("s")};
    ms_cursor it;
    ms_query q = {.location = CHAT};
    assert_int_equal(ms_query_open(s.store, &q, &it, NULL), MS_OK);
    for (int i = 0; i < 3; i++) {
        none.store = i == 0 ? s.store : NULL;
        none.location = i == 0 ? ms_str_n(NULL, 0) : CHAT;
        none.cursor = i == 2 ? &it : NULL;
        assert_int_equal(ms_compact_plan(&none, 30, &plan, &err), MS_E_ARGUMENT);
        assert_int_equal(ms_compact(&none, &text, NULL, &err), MS_E_ARGUMENT);
        assert_int_equal(ms_compact_request(&none, &plan, MS_STR("p"), ms_buf_write, &out, &err),
                         MS_E_ARGUMENT);
    }
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    assert_int_equal(out.len, 0);
    assert_int_equal(messages_of(s.store, CHAT), 12);
    ms_memory_init(&memory, s.store, CHAT, MS_STR("ann"));
    ask.store = NULL;
    ask.memory = &memory;
    const ms_compaction c = {.upto = 4, .body = MS_STR(
        "{\"choices\":[{\"message\":{\"content\":\"s\"},\"finish_reason\":\"stop\"}],\"usage\":{"
        "\"prompt_tokens\":9}}")};
    must_ok(ms_compact(&ask, &c, &seq, &err), &err, "compact");
    ms_query notes = {.location = CHAT, .raw = MS_RAW_NOTES, .about_seq = seq};
    ms_usage u = {0};
    assert_int_equal(ms_query_open(s.store, &notes, &it, NULL), MS_OK);
    assert_true(ms_usage_of(ms_next(&it), &u));
    assert_int_equal(u.input_tokens, 9);
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    store_close(&s);
}

/* A summary for which the arena has no room: the error is written, wherever it ends. */
TEST(summary_without_room_writes_the_error)
{
    static char text[6000], body[6200];
    test_store s = heap();
    add_turn(s.store, CHAT, 0);
    ms_request_desc ask = ask_of(s.store, CHAT, "openai");
    memset(text, 'w', sizeof text - 1);
    snprintf(body, sizeof body, "{\"model\":\"m\",\"choices\":[{\"finish_reason\":\"stop\","
             "\"message\":{\"content\":\"%s\"}}]}", text);
    const ms_compaction c = {.body = ms_str_of(body), .upto = 4};
    ms_result code = MS_E_ARENA;
    for (size_t room = 1024; code != MS_OK; room += 512) {
        char *memory = (char *)malloc(room);
        ms_arena own;
        ms_error err = {0};
        assert_non_null(memory);
        test_arena_init_fixed(&own, memory, room);
        ask.arena = &own;
        code = ms_compact(&ask, &c, NULL, &err);
        free(memory);
        if (code == MS_OK) break;
        assert_int_equal(code, MS_E_ARENA);
        if (err.code != code || err.message[0] == '\0') fail_msg("no error at %zu", room);
        assert_int_equal(messages_of(s.store, CHAT), 4);
    }
    store_close(&s);
}


/* ---- readers ---- */

/* A compaction is of its agent alone, unless it is of all. */
TEST(compaction_of_another_agent_changes_nothing)
{
    test_store s = heap();
    ms_project_report report;
    for (unsigned i = 0; i < 4; i++) add_turn(s.store, CHAT, i);
    ms_request_desc a = ask_of(s.store, CHAT, "openai"), b = a;
    a.opts.agent_key = MS_STR("a");
    b.opts.agent_key = MS_STR("b");
    (void)compacts(&a, 8, "OF-A");
    assert_string_equal(questions_in(body_of(&a, NULL), 9), "23");
    assert_string_equal(questions_in(body_of(&b, &report), 9), "0123");
    assert_int_equal(report.compaction_unusable, 0);
    assert_int_equal(report.dropped, 1);
    const ms_compaction c = {.summary = MS_STR("OF-ALL"), .upto = 12, .all = true};
    assert_int_equal(ms_compact(&a, &c, NULL, NULL), MS_OK);
    assert_string_equal(questions_in(body_of(&a, NULL), 9), "3");
    assert_string_equal(questions_in(body_of(&b, NULL), 9), "3");
    store_close(&s);
}

/* A memory of a manager reads a part of the location: the tail is counted in the
 * location, whatever the memory reads of it. */
TEST(memory_has_the_tail_of_its_location)
{
    test_store s = heap();
    ms_request_desc ask = {.profile = ms_profile_find(MS_STR("openai")),
                           .opts.model = MS_STR("m")};
    ms_memory memory;
    ms_memory_init(&memory, s.store, CHAT, MS_STR("boss"));
    for (unsigned i = 0; i < 4; i++) {
        add_turn(s.store, CHAT, i);
        for (int k = 0; k < 5; k++) {
            ms_envelope m = ms_message(MS_T_REASONING, ms_text("hm"));
            m.agent_key = MS_STR("worker");
            put(s.store, CHAT, m);
        }
    }
    ask.memory = &memory;
    ms_compaction_plan plan = plan_of(&ask, 20);
    uint64_t seq = compacts(&ask, plan.upto, "SUMMARY");
    const ms_msg *msg;
    assert_int_equal(ms_get_by_seq(s.store, seq, &arena, &msg, NULL), MS_OK);
    assert_true(ms_str_equal(ms_get(msg, MS_F_AGENT_KEY).text, MS_STR("boss")));
    ms_str body = body_of(&ask, NULL);
    assert_string_equal(questions_in(body, 9), "3");
    assert_true(has_text(body, "SUMMARY"));
    store_close(&s);
}

/* A cursor of one location, and a function of the caller, count what they read; of
 * several locations, nothing tells what is covered. */
TEST(compaction_is_read_from_a_cursor_of_one_location)
{
    test_store s = heap();
    ms_cursor it;
    ms_project_report report;
    ms_query q = {.location = CHAT};
    for (unsigned i = 0; i < 4; i++) add_turn(s.store, CHAT, i);
    ms_request_desc ask = ask_of(s.store, CHAT, "openai");
    (void)compacts(&ask, 8, "SUMMARY");
    ms_str same = body_of(&ask, NULL);
    ask.store = NULL;
    ask.cursor = &it;
    assert_int_equal(ms_query_open(s.store, &q, &it, NULL), MS_OK);
    same_text(body_of(&ask, NULL), same);
    (void)ms_cursor_close(&it, NULL);
    put(s.store, MS_STR("other"), ms_user_message(ms_text("x")));
    q.location = ms_str_n(NULL, 0);
    assert_int_equal(ms_query_open(s.store, &q, &it, NULL), MS_OK);
    assert_string_equal(questions_in(body_of(&ask, &report), 9), "0123");
    assert_int_equal(report.compaction_unusable, 1);
    (void)ms_cursor_close(&it, NULL);
    store_close(&s);
}

/* A fork gives a call without an id one of its own: it is still the last message covered. */
TEST(fork_knows_the_covered_call_that_had_no_id)
{
    test_store s = heap();
    ms_envelope call = ms_action(MS_STR("covered"), ms_json(MS_STR("{}")), ms_str_n(NULL, 0));
    put(s.store, CHAT, ms_user_message(ms_text("question-1.")));
    uint64_t covered = put(s.store, CHAT, call);
    uint64_t hidden = put(s.store, CHAT, ms_user_message(ms_text("question-2.")));
    put(s.store, CHAT, ms_assistant_message(ms_text("answer-2.")));
    ms_request_desc ask = ask_of(s.store, CHAT, "openai");
    (void)compacts(&ask, covered, "SUMMARY");
    uint64_t last = put(s.store, CHAT, ms_user_message(ms_text("question-3.")));
    assert_int_equal(ms_hide(s.store, hidden, NULL), MS_OK);
    assert_int_equal(ms_fork(s.store, CHAT, last, MS_STR("fork"), NULL, NULL), MS_OK);
    for (int fork = 0; fork < 2; fork++) {
        ms_project_report report;
        ask.location = fork ? MS_STR("fork") : CHAT;
        ms_str body = body_of(&ask, &report);
        assert_false(has_text(body, "covered"));
        assert_string_equal(questions_in(body, 9), "3");
        assert_int_equal(report.compaction_missing, 1);
    }
    store_close(&s);
}

/* ---- a memory with a runtime store ---- */

/* A store of four turns, a runtime store whose numbers begin after `others` messages, and
 * a memory of both. */
typedef struct merged {
    test_store s, runtime;
    ms_memory memory;
    ms_request_desc ask;
} merged;

static void merged_open(merged *m, const char *provider, unsigned others)
{
    m->s = heap();
    m->runtime = heap();
    for (unsigned i = 0; i < 4; i++) add_turn(m->s.store, CHAT, i);
    for (unsigned i = 0; i < others; i++)
        put(m->runtime.store, MS_STR("other"), ms_user_message(ms_text("x")));
    ms_memory_init(&m->memory, m->s.store, CHAT, MS_STR("a"));
    m->memory.runtime_mode = MS_RUNTIME_MERGE;
    m->memory.runtime = m->runtime.store;
    m->ask = ask_of(NULL, ms_str_n(NULL, 0), provider);
    m->ask.memory = &m->memory;
}

static void merged_close(merged *m)
{
    store_close(&m->runtime);
    store_close(&m->s);
}

static void merged_add(const merged *m, ms_envelope e)
{
    ms_error err;
    must_ok(ms_memory_add(&m->memory, &e, NULL, &err), &err, "add");
}

/* Numbers of the two stores are not compared: whether those of the runtime store are
 * smaller or larger, its messages stay, and no plan covers them. */
TEST(compaction_covers_no_message_of_a_runtime_store)
{
    for (unsigned others = 0; others < 80; others += 40) {
        merged m;
        ms_project_report report;
        merged_open(&m, "openai", others);
        (void)compacts(&m.ask, 16, "SUMMARY");
        merged_add(&m, ms_user_message(ms_text("question-7.")));
        merged_add(&m, ms_assistant_message(ms_text("answer-7.")));
        merged_add(&m, ms_user_message(ms_text("question-8.")));
        ms_str body = body_of(&m.ask, &report);
        assert_string_equal(questions_in(body, 9), "78");
        assert_true(has_text(body, "SUMMARY"));
        assert_int_equal(report.compacted, 8);
        assert_int_equal(report.compaction_missing, 0);
        (void)add_turn(m.s.store, CHAT, 4);
        assert_string_equal(questions_in(body_of(&m.ask, NULL), 9), "478");
        ms_compaction_plan plan = plan_of(&m.ask, 0);
        assert_int_equal(plan.upto, 21);
        assert_int_equal(plan.messages, 2);
        ms_buf out = {&arena, NULL, 0, 0};
        assert_int_equal(ms_compact_request(&m.ask, &plan, MS_STR("sum up"), ms_buf_write,
                                            &out, NULL), MS_OK);
        assert_string_equal(questions_in(ms_buf_text(&out), 9), "4");
        (void)compacts(&m.ask, plan.upto, "SECOND");
        body = body_of(&m.ask, &report);
        assert_string_equal(questions_in(body, 9), "78");
        assert_true(has_text(body, "SECOND"));
        assert_int_equal(plan_of(&m.ask, 0).upto, 0);
        merged_close(&m);
    }
}

/* A result in the runtime store keeps its call, also where more than the plan is covered,
 * and an answer that goes on in it keeps its beginning. */
TEST(compaction_covers_no_group_that_a_runtime_store_continues)
{
    for (unsigned others = 0; others < 80; others += 40)
        for (int result = 0; result < 2; result++) {
            merged m;
            ms_compaction_plan plan;
            merged_open(&m, "openai", others);
            ms_envelope call = ms_action(MS_STR("f"), ms_json(MS_STR("{}")), MS_STR("c"));
            call.agent_key = MS_STR("a");
            put(m.s.store, CHAT, ms_user_message(ms_text("question-5.")));
            uint64_t seq = put(m.s.store, CHAT, call);
            if (result) merged_add(&m, ms_observation(ms_text("result-5."), MS_STR("c")));
            else merged_add(&m, ms_action(MS_STR("g"), ms_json(MS_STR("{}")), MS_STR("d")));
            merged_add(&m, ms_user_message(ms_text("question-6.")));
            plan = plan_of(&m.ask, 0);
            assert_int_equal(plan.upto, seq - 1);
            (void)compacts(&m.ask, result ? seq : plan.upto, "SUMMARY");
            ms_str body = body_of(&m.ask, NULL);
            assert_string_equal(questions_in(body, 9), "6");
            assert_true(has_text(body, "\"name\":\"f\""));
            assert_true(has_text(body, result ? "result-5." : "\"name\":\"g\""));
            merged_close(&m);
        }
}

/* A compaction in the runtime store cannot tell what it covers of the store. One of a
 * provider is refused with its answer, any other is passed over and counted. */
TEST(compaction_in_a_runtime_store_is_refused_or_passed_over)
{
    merged m;
    ms_error err;
    ms_answered out;
    ms_answer_stream stream;
    ms_project_report report;
    merged_open(&m, "anthropic", 0);
    merged_add(&m, ms_user_message(ms_text("question-5.")));
    assert_int_equal(ms_answer(&m.ask, ms_str_of(of_anthropic), &out, &err),
                     MS_E_UNSUPPORTED);
    assert_string_equal(err.path, "runtime_mode");
    assert_true(has_text(ms_str_of(err.message), "MS_RUNTIME_STORE"));
    assert_int_equal(out.messages, 0);
    assert_int_equal(messages_of(m.runtime.store, CHAT), 1);
    assert_int_equal(messages_of(m.s.store, CHAT), 16);
    assert_int_equal(ms_answer_begin(&stream, &m.ask, &err), MS_OK);
    assert_int_equal(ms_answer_feed(&stream, ms_str_of(of_anthropic), &err), MS_OK);
    assert_int_equal(ms_answer_end(&stream, &out, &err), MS_E_UNSUPPORTED);
    assert_string_equal(err.path, "runtime_mode");
    (void)body_of(&m.ask, &report);
    assert_int_equal(report.compaction_unusable, 1); /* it stays unfinished */
    ms_envelope c = ms_message(MS_T_COMPACTION, ms_text("SUMMARY"));
    c.extra = MS_STR("{\"compaction\":{\"keep\":0}}");
    merged_add(&m, c);
    merged_add(&m, ms_user_message(ms_text("question-6.")));
    ms_str body = body_of(&m.ask, &report);
    assert_string_equal(questions_in(body, 9), "012356");
    assert_false(has_text(body, "SUMMARY"));
    assert_int_equal(report.compaction_unusable, 2);
    assert_int_equal(report.compaction_seq, 0);
    merged_close(&m);
}

/* Without messages in the store nothing can be covered. */
TEST(plan_covers_nothing_when_all_is_in_a_runtime_store)
{
    merged m;
    merged_open(&m, "openai", 0);
    m.memory.location = MS_STR("new");
    for (unsigned i = 0; i < 4; i++) {
        merged_add(&m, ms_user_message(ms_text("question")));
        merged_add(&m, ms_assistant_message(ms_text("answer")));
    }
    m.ask.opts.compact_at = 1;
    ms_compaction_plan plan = plan_of(&m.ask, 0);
    assert_true(plan.due);
    assert_int_equal(plan.upto, 0);
    merged_close(&m);
}

/* ---- a cursor of the caller ---- */

/* The tail is counted in the location, also where a cursor leaves messages out, or has
 * them in blocks. */
TEST(cursor_of_the_caller_has_the_tail_of_its_location)
{
    test_store s = heap();
    ms_cursor it;
    ms_project_report report;
    for (unsigned i = 0; i < 4; i++) {
        add_turn(s.store, CHAT, i);
        for (int k = 0; k < 5; k++)
            put(s.store, CHAT, ms_message(MS_T_REASONING, ms_text("hm")));
    }
    ms_request_desc ask = ask_of(s.store, CHAT, "openai");
    (void)compacts(&ask, 27, "SUMMARY");
    put(s.store, CHAT, ms_user_message(ms_text("question-4.")));
    ms_str same = body_of(&ask, NULL);
    assert_string_equal(questions_in(same, 9), "34");
    ask.store = NULL;
    ask.cursor = &it;
    ms_query q = {.location = CHAT};
    q.types = MS_TYPES_ALL & ~MS_BIT(MS_T_REASONING);
    assert_int_equal(ms_query_open(s.store, &q, &it, NULL), MS_OK);
    same_text(body_of(&ask, &report), same);
    assert_int_equal(report.compaction_missing, 0);
    (void)ms_cursor_close(&it, NULL);
    ms_memory memory;
    ms_memory_init(&memory, s.store, CHAT, MS_STR("a"));
    ask.opts.agent_key = memory.agent_key;
    assert_int_equal(ms_get_history(&memory, &it, NULL), MS_OK); /* without REASONING */
    assert_string_equal(questions_in(body_of(&ask, NULL), 9), "34");
    (void)ms_cursor_close(&it, NULL);
    ms_envelope c = ms_message(MS_T_COMPACTION, ms_text("OWN"));
    c.extra = MS_STR("{\"compaction\":{\"keep\":0}}");
    c.agent_key = memory.agent_key;
    put(s.store, CHAT, c);
    put(s.store, CHAT, ms_user_message(ms_text("question-5.")));
    memory.agent_types = MS_TYPES_ALL;
    assert_int_equal(ms_get_history(&memory, &it, NULL), MS_OK);
    ms_str body = body_of(&ask, &report);
    assert_string_equal(questions_in(body, 9), "5");
    assert_true(has_text(body, "OWN"));
    (void)ms_cursor_close(&it, NULL);
    store_close(&s);
}


/* ---- what providers make by themselves ---- */

/* The answer goes back to its maker as it came, without what was before it; another
 * provider gets the summary, or all. */
TEST(compaction_that_a_provider_made_goes_back_to_it)
{
    test_store s = heap();
    ms_project_report report;
    for (unsigned i = 0; i < 2; i++) add_turn(s.store, CHAT, i);
    ms_request_desc ask = ask_of(s.store, CHAT, "anthropic"), other;
    assert_int_equal(ms_answer(&ask, ms_str_of(of_anthropic), NULL, NULL), MS_OK);
    put(s.store, CHAT, ms_observation(ms_text("r"), MS_STR("t1")));
    ms_str body = body_of(&ask, &report);
    assert_true(has_text(body, "\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":"
                               "\"compaction\",\"content\":\"they counted\",\"signature\":\"s\"},"
                               "{\"type\":\"text\",\"text\":\"go on\"},{\"type\":\"tool_use\","
                               "\"id\":\"t1\",\"name\":\"f\",\"input\":{}}]},{\"role\":\"user\""));
    assert_string_equal(questions_in(body, 9), "");
    assert_int_equal(report.started, 0);
    other = ask_of(s.store, CHAT, "openai");
    body = body_of(&other, &report);
    assert_string_equal(questions_in(body, 9), "");
    assert_true(has_text(body, "they counted") && !has_text(body, "signature"));
    assert_int_equal(report.raw_left_out, 1);
    store_close(&s);

    s = heap();
    for (unsigned i = 0; i < 2; i++) add_turn(s.store, CHAT, i);
    ask = ask_of(s.store, CHAT, "openai-responses");
    assert_int_equal(ms_answer(&ask, ms_str_of(of_openai), NULL, NULL), MS_OK);
    put(s.store, CHAT, ms_user_message(ms_text("more")));
    body = body_of(&ask, &report);
    assert_true(has_text(body, "\"input\":[{\"type\":\"compaction\",\"id\":\"cmp_1\","
                               "\"encrypted_content\":\"AAAA\"},"));
    assert_string_equal(questions_in(body, 9), "");
    assert_int_equal(report.compaction_unusable, 0);
    other = ask_of(s.store, CHAT, "openai");
    assert_string_equal(questions_in(body_of(&other, &report), 9), "01");
    assert_int_equal(report.compaction_unusable, 1);
    ask.opts.model = MS_STR("another");
    assert_string_equal(questions_in(body_of(&ask, &report), 9), "01");
    assert_int_equal(report.compaction_unusable, 1);
    store_close(&s);
}

/* The answer to a request for a compaction, in the provider's own form and as text, becomes
 * the message, with a note of its usage. */
TEST(answer_to_the_request_becomes_the_compaction)
{
    static const char own[] =
        "{\"type\":\"message\",\"model\":\"m\",\"role\":\"assistant\",\"stop_reason\":"
        "\"compaction\",\"usage\":{\"input_tokens\":900,\"output_tokens\":70},\"content\":[{"
        "\"type\":\"compaction\",\"content\":\"sum\",\"encrypted_content\":\"ZZ\"}]}";
    static const char text[] =
        "{\"model\":\"m\",\"choices\":[{\"finish_reason\":\"stop\",\"message\":{\"content\":"
        "\"In words.\"}}],\"usage\":{\"prompt_tokens\":900,\"completion_tokens\":70}}";
    for (int i = 0; i < 2; i++) {
        test_store s = heap();
        for (unsigned n = 0; n < 4; n++) add_turn(s.store, CHAT, n);
        ms_request_desc ask = ask_of(s.store, CHAT, i ? "openai" : "anthropic");
        ms_compaction_plan plan = plan_of(&ask, 30);
        const ms_compaction c = {.body = ms_str_of(i ? text : own), .upto = plan.upto};
        uint64_t seq;
        ms_error err;
        must_ok(ms_compact(&ask, &c, &seq, &err), &err, "compact");
        ms_str body = body_of(&ask, NULL);
        assert_string_equal(questions_in(body, 9), "3");
        assert_true(has_text(body, i ? "In words." : "{\"type\":\"compaction\",\"content\":\"sum\","
                                                   "\"encrypted_content\":\"ZZ\"}"));
        ms_cursor it;
        ms_query q = {.location = CHAT, .raw = MS_RAW_NOTES, .about_seq = seq};
        ms_usage u = {0};
        assert_int_equal(ms_query_open(s.store, &q, &it, NULL), MS_OK);
        assert_true(ms_usage_of(ms_next(&it), &u));
        assert_int_equal(u.input_tokens, 900);
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
        store_close(&s);
    }
}

/* Of several items all are sent, as their maker wrote them. */
TEST(items_of_a_compaction_are_sent_whole)
{
    static const struct {
        const char *provider, *items, *has;
    } rows[] = {
        {"openai-responses",
         "[ {\"type\":\"message\",\"role\":\"user\",\"content\":\"one\"} ,"
         "{\"type\":\"compaction\",\"encrypted_content\":\"A\"}]",
         "\"input\":[{\"type\":\"message\",\"role\":\"user\",\"content\":\"one\"},"
         "{\"type\":\"compaction\",\"encrypted_content\":\"A\"},{\"role\":\"user\","},
        {"anthropic", "[{\"type\":\"compaction\",\"content\":\"a\"},{\"type\":\"text\","
         "\"text\":\"b\"}]",
         "[{\"type\":\"compaction\",\"content\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        test_store s = heap();
        ms_error err;
        for (unsigned n = 0; n < 3; n++) add_turn(s.store, CHAT, n);
        ms_request_desc ask = ask_of(s.store, CHAT, rows[i].provider);
        const ms_compaction c = {.items = ms_str_of(rows[i].items), .upto = 8};
        must_ok(ms_compact(&ask, &c, NULL, &err), &err, "compact");
        ms_str body = plain_body_of(&ask, NULL);
        if (!has_text(body, rows[i].has)) fail_msg("%.*s", (int)body.len, body.ptr);
        assert_string_equal(questions_in(body, 9), "2");
        store_close(&s);
    }
}

/* A summary whose stream was interrupted is none. */
TEST(interrupted_compaction_is_passed_over)
{
    test_store s = heap();
    ms_project_report report;
    for (unsigned n = 0; n < 3; n++) add_turn(s.store, CHAT, n);
    ms_request_desc ask = ask_of(s.store, CHAT, "anthropic");
    ms_answer_stream a;
    assert_int_equal(ms_answer_begin(&a, &ask, NULL), MS_OK);
    assert_int_equal(ms_answer_feed(&a, MS_STR(
        "data: {\"type\":\"message_start\",\"message\":{\"model\":\"m\"}}\n\n"
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":"
        "\"compaction\",\"content\":\"hal\"}}\n\n"), NULL), MS_OK);
    assert_int_equal(ms_answer_end(&a, NULL, NULL), MS_E_MISSING);
    assert_string_equal(questions_in(body_of(&ask, &report), 9), "012");
    assert_int_equal(report.compaction_unusable, 1);
    store_close(&s);
}

/* Thinking that is bound to all before it is not sent behind a summary that was not there
 * when it was made; DeepSeek's is. */
TEST(thinking_of_the_tail_is_sent_where_it_may_be)
{
    static const struct {
        const char *provider, *body;
        bool sent;
    } rows[] = {
        {"anthropic", "{\"type\":\"message\",\"model\":\"m\",\"stop_reason\":\"tool_use\",\"content\""
         ":[{\"type\":\"thinking\",\"thinking\":\"think\",\"signature\":\"s\"},{\"type\":\"tool_use\","
         "\"id\":\"c\",\"name\":\"f\",\"input\":{}}]}", false},
        {"deepseek", "{\"model\":\"m\",\"choices\":[{\"finish_reason\":\"x\",\"message\":{"
         "\"reasoning_content\":\"think\",\"content\":\"t\",\"tool_calls\":[{\"id\":\"c\",\"function\":"
         "{\"name\":\"f\",\"arguments\":\"{}\"}}]}}]}", true},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        test_store s = heap();
        ms_project_report report;
        for (unsigned n = 0; n < 2; n++) add_turn(s.store, CHAT, n);
        ms_request_desc ask = ask_of(s.store, CHAT, rows[i].provider);
        uint64_t upto = put(s.store, CHAT, ms_user_message(ms_text("begin")));
        ask.opts.thinking = MS_THINKING_ON;
        assert_int_equal(ms_answer(&ask, ms_str_of(rows[i].body), NULL, NULL), MS_OK);
        put(s.store, CHAT, ms_observation(ms_text("r"), MS_STR("c")));
        assert_true(has_text(plain_body_of(&ask, &report), "think"));
        assert_int_equal(report.thinking_missing, 0);
        (void)compacts(&ask, upto, "SUMMARY");
        assert_int_equal(has_text(plain_body_of(&ask, &report), "\"think\""), rows[i].sent);
        assert_int_equal(report.thinking_left_out, !rows[i].sent);
        assert_int_equal(report.thinking_missing, !rows[i].sent);
        store_close(&s);
    }
}


/* ---- a long run ---- */

enum { CONTEXT = 8000, DUE = 6000, KEEP = 2200, STATES = 4096 };

/* What is known of the run: in memory that a killed process leaves as it is. */
typedef struct run {
    uint64_t random, n;       /* a number for each text */
    char location[24];
    size_t n_states;
    struct {
        uint64_t last, body;  /* the newest message, and the hash of the request then */
    } states[STATES];
    uint64_t steps, requests, compactions, rewinds, forks, restored, thoughts, across;
} run;

static run *the;

static uint64_t hash_of(ms_str s)
{
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0; i < s.len; i++) h = (h ^ (unsigned char)s.ptr[i]) * 1099511628211u;
    return h;
}

/* The hash of all messages before message n of a list, as they are written. */
static uint64_t hash_before(ms_str list, size_t n)
{
    ms_str last = {NULL, 0};
    size_t i = 0;
    for (ms_json_iter it = ms_json_iterate(list); i < n && ms_json_next(&it); i++) last = it.value;
    assert_int_equal(i, n);
    if (n == 0) return hash_of(MS_STR(""));
    return hash_of(ms_str_n(list.ptr, (size_t)(last.ptr + last.len - list.ptr)));
}

/* The provider: a request has room in its context, and each block of thinking stands
 * behind what it was made behind. */
static ms_str taken(ms_str body, const char *what)
{
    ms_str list, content, sign;
    size_t i = 0;
    if (body.len / 4 > CONTEXT) fail_msg("%s: %zu tokens", what, body.len / 4);
    assert_true(ms_json_member(body, MS_STR("messages"), &list));
    for (ms_json_iter it = ms_json_iterate(list); ms_json_next(&it); i++) {
        if (!ms_json_member(it.value, MS_STR("content"), &content)) continue;
        if (ms_json_kind_of(content) != MS_JSON_ARRAY) continue;
        for (ms_json_iter block = ms_json_iterate(content); ms_json_next(&block);) {
            if (!ms_json_member(block.value, MS_STR("signature"), &sign)) continue;
            uint64_t made = strtoull(sign.ptr + 1, NULL, 10);
            the->thoughts++;
            if (made != hash_before(list, i))
                fail_msg("%s: messages[%zu] is bound to a different conversation\n%.*s", what,
                         i, (int)body.len, body.ptr);
        }
    }
    return list;
}

static ms_str words(char *text, size_t most)
{
    size_t n = (size_t)snprintf(text, 40, "text-%llu ", (unsigned long long)the->n++);
    size_t len = n + (size_t)test_below(&the->random, most);
    memset(text + n, 'w', len - n);
    return ms_str_n(text, len);
}

/* Sends a request; its state is known from now on, or was known before. */
static ms_str sends(ms_request_desc *ask, ms_project_report *report)
{
    uint64_t last = 0;
    ms_cursor it;
    const ms_msg *msg;
    ms_query q = {.location = ask->location, .limit = 1};
    ms_str body = body_of(ask, report);
    assert_int_equal(ms_query_open(ask->store, &q, &it, NULL), MS_OK);
    if ((msg = ms_next(&it)) != NULL) last = ms_seq(msg);
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    the->requests++;
    if (the->n_states < STATES && !report->compaction_due) {
        the->states[the->n_states].last = last;
        the->states[the->n_states].body = hash_of(body);
        the->n_states++;
    }
    return body;
}

static void summed_up(ms_request_desc *ask)
{
    char text[1200], answer[1600];
    ms_error err;
    ms_compaction_plan plan = plan_of(ask, KEEP);
    ms_buf out = {&arena, NULL, 0, 0};
    assert_true(plan.upto != 0 && plan.due);
    uint64_t all = messages_of(ask->store, ask->location);
    must_ok(ms_compact_request(ask, &plan, MS_STR(MS_COMPACT_PROMPT), ms_buf_write, &out, &err),
            &err, "summary");
    (void)taken(ms_buf_text(&out), "summary");
    ms_str said = words(text, 1000);
    snprintf(answer, sizeof answer, "{\"type\":\"message\",\"model\":\"m\",\"stop_reason\":"
             "\"end_turn\",\"content\":[{\"type\":\"text\",\"text\":\"%.*s\"}]}", (int)said.len,
             said.ptr);
    const ms_compaction c = {.body = ms_str_of(answer), .upto = plan.upto};
    must_ok(ms_compact(ask, &c, NULL, &err), &err, "compact");
    assert_int_equal(messages_of(ask->store, ask->location), all + 1);
    the->compactions++;
}

static void model_answers(ms_request_desc *ask, ms_str body)
{
    char text[1000], answer[2000];
    ms_str list = taken(body, "request"), said = words(text, 700);
    size_t n = 0, calls = (size_t)test_below(&the->random, 3), messages = 0;
    for (ms_json_iter it = ms_json_iterate(list); ms_json_next(&it);) messages++;
    n = (size_t)snprintf(answer, sizeof answer, "{\"type\":\"message\",\"model\":\"m\",\"stop_reason\""
                         ":\"x\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":"
                         "\"%llu\"},{\"type\":\"text\",\"text\":\"%.*s\"}",
                         (unsigned long long)hash_before(list, messages), (int)said.len, said.ptr);
    for (size_t i = 0; i < calls; i++)
        n += (size_t)snprintf(answer + n, sizeof answer - n, ",{\"type\":\"tool_use\",\"id\":"
                              "\"c%llu\",\"name\":\"f\",\"input\":{}}", (unsigned long long)the->n++);
    snprintf(answer + n, sizeof answer - n, "]}");
    assert_int_equal(ms_answer(ask, ms_str_of(answer), NULL, NULL), MS_OK);
}

/* Goes back to a state that is known: its request is the same as it was. */
static void goes_back(ms_request_desc *ask)
{
    ms_project_report now, then;
    if (the->n_states == 0) return;
    size_t most = test_below(&the->random, 4) == 0 ? 60 : 6;
    size_t back = (size_t)test_below(&the->random, the->n_states < most ? the->n_states : most);
    size_t at = the->n_states - 1 - back;
    (void)body_of(ask, &now);
    the->n_states = at + 1;
    assert_int_equal(ms_rewind(ask->store, ask->location, the->states[at].last, NULL, NULL),
                     MS_OK);
    ms_str body = body_of(ask, &then);
    if (hash_of(body) != the->states[at].body)
        fail_msg("the request of %llu is another one: %.*s",
                 (unsigned long long)the->states[at].last, (int)body.len, body.ptr);
    the->across += now.compaction_seq != then.compaction_seq;
    the->rewinds++;
    the->restored++;
}

/* Goes on in a copy of the conversation up to its newest message. */
static void forks(ms_request_desc *ask)
{
    ms_project_report report;
    if (the->n_states == 0) return;
    uint64_t last = the->states[the->n_states - 1].last;
    char name[24];
    snprintf(name, sizeof name, "run-%llu", (unsigned long long)the->n++);
    assert_int_equal(ms_rewind(ask->store, ask->location, last, NULL, NULL), MS_OK);
    uint64_t before = hash_of(body_of(ask, NULL));
    assert_int_equal(ms_fork(ask->store, ask->location, last, ms_str_of(name), NULL, NULL),
                     MS_OK);
    memcpy(the->location, name, sizeof name);
    ask->location = ms_str_of(the->location);
    the->n_states = 0;
    if (hash_of(body_of(ask, &report)) != before) fail_msg("the fork has another request");
    the->forks++;
}

static void step(ms_request_desc *ask)
{
    char text[1000];
    ms_calls calls;
    ms_project_report report;
    ms_arena_reset(&arena);
    the->steps++;
    unsigned dice = (unsigned)test_below(&the->random, 60);
    if (dice == 0) goes_back(ask);
    if (dice == 1 && test_below(&the->random, 4) == 0) forks(ask);
    assert_int_equal(ms_pending(ask, &arena, &calls, NULL), MS_OK);
    for (size_t i = 0; i < calls.count; i++) {
        ms_envelope m = ms_observation(ms_text_n(words(text, 900)), calls.items[i].id);
        put(ask->store, ask->location, m);
    }
    if (calls.count == 0 && (calls.answered || messages_of(ask->store, ask->location) == 0))
        put(ask->store, ask->location, ms_user_message(ms_text_n(words(text, 300))));
    ms_str body = sends(ask, &report);
    if (report.compaction_due) {
        summed_up(ask);
        body = sends(ask, &report);
        assert_false(report.compaction_due);
    }
    model_answers(ask, body);
}

/* One process: opens the log and goes on until it has done its steps, or is killed. */
static void runs(const test_store *s, size_t steps, bool back)
{
    ms_log_desc log = s->log;
    ms_store *store;
    ms_error err;
    must_ok(ms_log_open(&store, &log, &err), &err, "open");
    ms_request_desc ask = ask_of(store, ms_str_of(the->location), "anthropic");
    ask.opts.compact_at = DUE;
    ask.opts.thinking = MS_THINKING_ON;
    if (back) goes_back(&ask);
    while (steps-- > 0) step(&ask);
    ms_close(store);
}

TEST(long_run_stays_within_its_context)
{
    size_t rounds = test_times(16), kills = 0;
    test_store s = log_at(0, MS_ENGINE_AUTO);
    the = (run *)mmap(NULL, sizeof *the, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                      0);
    assert_true(the != MAP_FAILED);
    the->random = test_seed();
    snprintf(the->location, sizeof the->location, "run");
    for (size_t round = 0; round < rounds; round++) {
        int status;
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            runs(&s, 25, round % 4 == 2);
            _exit(0);
        }
        if (round % 2 == 1) {
            usleep((useconds_t)test_below(&the->random, 60000));
            kill(child, SIGKILL);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) && WEXITSTATUS(status) != 0) fail_msg("round %zu failed", round);
        kills += WIFSIGNALED(status) != 0;
    }
    test_tally("requests of the long run", the->requests);
    test_tally("blocks of thinking checked", the->thoughts);
    test_tally("compactions", the->compactions);
    test_tally("rewinds", the->rewinds);
    test_tally("rewinds across a compaction", the->across);
    test_tally("forks", the->forks);
    test_tally("kills", kills);
    if (rounds >= 16) assert_true(the->compactions > 3 && the->rewinds > 0 && kills > 0);
    munmap(the, sizeof *the);
    store_close(&s);
}

int main(void)
{
    return run_all_tests(NULL, close_store);
}
