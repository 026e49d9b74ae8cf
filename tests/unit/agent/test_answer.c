/* ms_answer and streamed answers: responses of each provider become messages, whole or cut
 * at every byte; what was stored is a request that sends the same answer back. Errors of
 * providers, answers that end early, processes that die, memory that ends.
 */

#define _GNU_SOURCE

#include <time.h>

#include "answers.h"
#include "provider_lint.h"
#include "chat_store.h"
#include "low_memory.h"

#define NEVER_ANSWERED "No result: the call was interrupted."

/* Feeds a stream in pieces of `size` bytes, the first one of `first`. */
static void feed(const answer_case *c, size_t first, size_t size, ms_answered *out)
{
    ms_request_desc desc = desc_of(c->provider);
    ms_answer_stream a;
    ms_error err;
    size_t len = strlen(c->stream);
    assert_int_equal(ms_answer_begin(&a, &desc, &err), MS_OK);
    for (size_t at = 0, n = first; at < len; at += n, n = size) {
        if (n > len - at) n = len - at;
        ms_str piece = ms_str_n(c->stream + at, n);
        if (ms_answer_feed(&a, piece, &err) != MS_OK)
            fail_msg("%s, byte %zu: %s", c->name, at, err.message);
    }
    if (ms_answer_end(&a, out, &err) != MS_OK) fail_msg("%s: %s", c->name, err.message);
}

/* Every message of the location, a line each. */
static ms_str stored(void)
{
    ms_buf out = {&arena, NULL, 0, 0};
    ms_query query = query_of(CHAT, 0);
    ms_cursor it;
    query.arena = &arena;
    EACH (msg, store, &query, &it) {
        char line[2048];
        ms_envelope m = ms_envelope_of(msg);
        int n = snprintf(line, sizeof line, "%s %u|%.*s|%.*s|%d %.*s|%.*s|%.*s\n",
                         ms_type_word(m.type), (unsigned)m.flags & MS_FLAG_JOINED,
                         (int)m.content.text.len, m.content.text.ptr ? m.content.text.ptr : "",
                         (int)m.tool.len, m.tool.ptr ? m.tool.ptr : "", (int)m.args.json,
                         (int)m.args.text.len, m.args.text.ptr ? m.args.text.ptr : "",
                         (int)m.call_id.len, m.call_id.ptr ? m.call_id.ptr : "",
                         (int)m.extra.len, m.extra.ptr ? m.extra.ptr : "");
        assert_in_range(n, 1, sizeof line - 1);
        assert_int_equal(ms_buf_write(&out, line, (size_t)n), MS_OK);
    }
    return ms_buf_text(&out);
}

/* What the notes of usage say, all in one number. */
static uint64_t spent(void)
{
    ms_query query = query_of(no_str(), 0);
    ms_cursor it;
    ms_usage usage;
    uint64_t sum = 0;
    query.raw = MS_RAW_NOTES;
    EACH (note, store, &query, &it)
        if (ms_usage_of(note, &usage)) sum += usage.input_tokens * 1000 + usage.output_tokens;
    return sum;
}

/* Names the row of tests/tables/answers.jsonl and its member in a failure. */
static void number_must_be(const answer_case *c, const char *what, uint64_t got,
                           uint64_t expected)
{
    if (got != expected)
        fail_msg("answers.jsonl, %s (%s), %s: expected %llu, came %llu", c->name, c->provider,
                 what, (unsigned long long)expected, (unsigned long long)got);
}

static void must_be(const answer_case *c, const ms_answered *out)
{
    number_must_be(c, "messages", out->messages, c->messages);
    number_must_be(c, "calls", out->calls, c->calls);
    number_must_be(c, "left_out", out->left_out, c->left_out);
    number_must_be(c, "numbers", out->last_seq - out->first_seq + 1, c->messages);
    number_must_be(c, "usage.input_tokens", out->usage.input_tokens, c->input);
    number_must_be(c, "usage.output_tokens", out->usage.output_tokens, c->output);
    if (strcmp(out->stop, c->stop) != 0)
        fail_msg("answers.jsonl, %s, stop: expected '%s', came '%s'", c->name, c->stop,
                 out->stop);
    number_must_be(c, "1000 * input + output of the notes", spent(),
                   c->input * 1000 + c->output);
}

static void add_text(ms_buf *buf, const char *text)
{
    assert_int_equal(ms_buf_write(buf, text, strlen(text)), MS_OK);
}

/* The list of the next request, with a result for each call; of any model. Where system
 * text is a member of its own, an object with the list. */
static ms_str asked(const answer_case *c)
{
    ms_request_desc ask = desc_of(c->provider);
    ms_query query = query_of(CHAT, 0);
    ms_cursor it;
    char why[PROVIDER_LINT_TEXT];
    EACH (msg, store, &query, &it) {
        ms_envelope m = ms_observation(ms_text("r"), ms_str_of(NULL));
        if (ms_type_of(msg) != MS_T_ACTION) continue;
        m.call_id = ms_get(msg, MS_F_CALL_ID).text;
        add(m);
    }
    ask.opts.thinking = true;
    ask.arena = &arena;
    ms_buf list = {&arena, NULL, 0, 0};
    bool apart = ask.profile->system == MS_SYSTEM_SEPARATE;
    if (apart) add_text(&list, "{\"");
    if (apart) add_text(&list, list_member(ask.profile));
    if (apart) add_text(&list, "\":");
    assert_int_equal(ms_project(&ask, ms_buf_write, &list, NULL, NULL), MS_OK);
    if (apart) add_text(&list, "}");
    ms_str body = ms_buf_text(&list);
    bool reasons = strstr(c->sent, "reasoning_") != NULL; /* no member of openai's */
    const char *no = reasons ? NULL : provider_lint(c->provider, body, why);
    if (no != NULL) fail_msg("%s: %s\n%.*s", c->name, no, (int)body.len, body.ptr);
    return body;
}

static void must_send_back(const answer_case *c)
{
    ms_str body = asked(c);
    if (!has_text(body, c->sent))
        fail_msg("%s:\n%.*s\nhas not\n%s", c->name, (int)body.len, body.ptr, c->sent);
}

/* Opens a store with a question. */
static void ask_anew(void)
{
    (void)open_store(NULL);
    add(ms_user_message(ms_text("u")));
}

/* A whole body; then its stream cut in two at each byte (at a small scale at every so many),
 * and into pieces of each small size: the same messages, which the next request has. */
TEST(answer_is_sent_back_when_it_was_stored_whole_or_cut_anywhere)
{
    for (size_t i = 0; i < answer_count; i++) {
        const answer_case *c = &provider_answers[i];
        size_t len = c->stream != NULL ? strlen(c->stream) : 0;
        ms_answered out;
        ms_error err;
        ask_anew();
        ms_request_desc desc = desc_of(c->provider);
        if (ms_answer(&desc, ms_str_of(c->body), &out, &err) != MS_OK)
            fail_msg("%s: %s", c->name, err.message);
        must_be(c, &out);
        char *whole = strndup(stored().ptr, stored().len);
        must_send_back(c);
        size_t step = test_scale() < 100 ? 100 / test_scale() : 1;
        for (size_t cut = 1; c->stream != NULL && cut < len + 20; cut += cut < len ? step : 1) {
            ask_anew();
            feed(c, cut < len ? cut : cut - len + 1, cut < len ? len : cut - len + 1, &out);
            must_be(c, &out);
            ms_str got = stored();
            if (!ms_str_equal(got, ms_str_of(whole)))
                fail_msg("%s, cut at %zu:\n%.*s\ninstead of\n%s", c->name, cut, (int)got.len,
                         got.ptr, whole);
        }
        if (c->stream != NULL) must_send_back(c);
        free(whole);
    }
}

/* A whole body as a stream of one event, and a stream as a body. */
TEST(answer_is_read_when_it_comes_the_other_way)
{
    for (size_t i = 0; i < answer_count; i++) {
        answer_case turned = provider_answers[i];
        ms_request_desc desc = desc_of(turned.provider);
        ms_answered out;
        if (turned.stream == NULL) continue;
        (void)open_store(NULL);
        desc.store = store;
        ms_error err;
        if (ms_answer(&desc, ms_str_of(turned.stream), &out, &err) != MS_OK)
            fail_msg("%s: %s", turned.name, err.message);
        must_be(&turned, &out);
        (void)open_store(NULL);
        turned.stream = turned.body;
        feed(&turned, 7, 7, &out);
        must_be(&turned, &out);
    }
}

TEST(streamed_answer_is_stored_when_comments_have_braces)
{
    static const char body[] =
        ": ping {\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\n\r\n"
        ": {\"error\":\"none\"}\n\ndata: {\"choices\":[{\"delta\":{},"
        "\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    ms_request_desc desc = desc_of("openai");
    for (size_t step = 1; step < sizeof body; step++) {
        ms_answer_stream a;
        ms_answered out;
        ms_error err;
        assert_int_equal(ms_answer_begin(&a, &desc, NULL), MS_OK);
        for (size_t at = 0; at < sizeof body - 1; at += step) {
            size_t n = sizeof body - 1 - at < step ? sizeof body - 1 - at : step;
            if (ms_answer_feed(&a, ms_str_n(body + at, n), &err) != MS_OK)
                fail_msg("parts of %zu: %s", step, err.message);
        }
        assert_int_equal(ms_answer_end(&a, &out, NULL), MS_OK);
        assert_int_equal(out.messages, 1);
    }
}

/* Feeds a body in parts of each size, and wants the one message of it. */
static void must_answer(const char *body, const char *wanted)
{
    ms_request_desc desc = desc_of("openai");
    size_t len = strlen(body);
    for (size_t step = 1; step <= len; step++) {
        ms_answer_stream a;
        ms_answered out;
        ms_error err;
        (void)open_store(NULL);
        desc.store = store;
        assert_int_equal(ms_answer_begin(&a, &desc, NULL), MS_OK);
        for (size_t at = 0; at < len; at += step) {
            size_t n = len - at < step ? len - at : step;
            if (ms_answer_feed(&a, ms_str_n(body + at, n), &err) != MS_OK)
                fail_msg("parts of %zu: %s", step, err.message);
        }
        assert_int_equal(ms_answer_end(&a, &out, NULL), MS_OK);
        ms_str got = stored();
        if (!ms_str_equal(got, ms_str_of(wanted)))
            fail_msg("parts of %zu: %.*s", step, (int)got.len, got.ptr);
    }
}

static ms_str stored_of(const answer_case *c, size_t size);

/* A server that sends no reason to stop, and its usage in a member of its own. */
TEST(stream_ends_with_done_alone)
{
    must_answer("data: {\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n"
                "data: {\"choices\":[],\"x_groq\":{\"usage\":{\"prompt_tokens\":4,"
                "\"completion_tokens\":5}}}\n\ndata: [DONE]\n\n",
                "assistant_message 0|hi||0 ||\n");
    assert_int_equal(spent(), 4005);
    ms_request_desc desc = desc_of("openai"), other = desc_of("anthropic");
    assert_int_equal(ms_answer(&desc, MS_STR("data: [DONE]\n\n"), NULL, NULL), MS_E_MISSING);
    assert_int_equal(ms_answer(&other, MS_STR("data: {\"type\":\"content_block_start\",\"content_block\":"
                                             "{\"type\":\"text\",\"text\":\"x\"}}\n\ndata: [DONE]\n\n"),
                               NULL, NULL), MS_E_MISSING);
}

/* An exception of ConverseStream is an event, and a request with calls needs tools. */
TEST(exception_of_bedrock_is_a_refusal)
{
    ms_request_desc desc = desc_of("bedrock");
    ms_buf out = {&arena, NULL, 0, 0};
    ms_error err;
    assert_int_equal(ms_answer(&desc, MS_STR("{\"throttlingException\":{\"message\":\"too many\"}}"),
                               NULL, &err), MS_E_REFUSED);
    assert_non_null(strstr(err.message, "too many"));
    add(ms_user_message(ms_text("u")));
    add(ms_action(MS_STR("f"), ms_json(MS_STR("{}")), MS_STR("c")));
    assert_int_equal(ms_request(&desc, ms_buf_write, &out, NULL, &err), MS_E_ARGUMENT);
    assert_string_equal(err.path, "tools");
    desc.tools = MS_STR("[{\"name\":\"f\",\"input_schema\":{}}]");
    assert_int_equal(ms_request(&desc, ms_buf_write, &out, NULL, &err), MS_E_ARGUMENT);
    desc.tools = MS_STR("[{\"toolSpec\":{\"name\":\"f\",\"inputSchema\":{\"json\":{}}}}]");
    assert_int_equal(ms_request(&desc, ms_buf_write, &out, NULL, &err), MS_OK);
    assert_true(has_text(ms_buf_text(&out), "\"toolConfig\":{\"tools\":[{\"toolSpec\""));
}

/* A server that gives two items one index: none is lost, and one that repeats is one. */
TEST(items_of_one_index_are_all_kept)
{
    ms_request_desc desc = desc_of("openai-responses");
    ms_answered out;
    const char *body =
        "{\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":\"function_call\","
        "\"id\":\"fc_1\",\"call_id\":\"a\",\"name\":\"f\",\"arguments\":\"{}\"}}\n"
        "{\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":\"function_call\","
        "\"id\":\"fc_1\",\"call_id\":\"a\",\"name\":\"f\",\"arguments\":\"{}\"}}\n"
        "{\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":\"function_call\","
        "\"id\":\"fc_2\",\"call_id\":\"b\",\"name\":\"g\",\"arguments\":\"{}\"}}\n"
        "{\"type\":\"response.completed\",\"response\":{\"object\":\"response\",\"model\":\"m\","
        "\"status\":\"completed\",\"output\":[]}}\n";
    assert_int_equal(ms_answer(&desc, ms_str_of(body), &out, NULL), MS_OK);
    assert_int_equal(out.calls, 2);
    assert_int_equal(out.messages, 2);
}

#define STEP(i, step) "{\"index\":" i ",\"step\":" step ",\"event_type\":\"step.start\"}\n"
#define DELTA(i, delta) "{\"index\":" i ",\"delta\":" delta ",\"event_type\":\"step.delta\"}\n"
#define STOP(i) "{\"index\":" i ",\"event_type\":\"step.stop\"}\n"
#define COMPLETED(status)                                                                  \
    "{\"interaction\":{\"object\":\"interaction\",\"model\":\"m\",\"status\":\"" status  \
    "\"},\"event_type\":\"interaction.completed\"}\n"

/* The type of an interaction in google-genai 2.34 has no member `object`. */
TEST(interactions_are_read_without_the_member_object)
{
    static const struct {
        const char *body;
        ms_result code;
        size_t messages;
    } rows[] = {
        {"{\"status\":\"completed\",\"steps\":[{\"type\":\"model_output\",\"content\":"
         "[{\"type\":\"text\",\"text\":\"a\"}]}]}", MS_OK, 1},
        {STEP("0", "{\"type\":\"model_output\"}")
         DELTA("0", "{\"type\":\"text\",\"text\":\"a\"}") STOP("0")
         "{\"interaction\":{\"status\":\"completed\"},"
         "\"event_type\":\"interaction.completed\"}\n", MS_OK, 1},
        {STEP("0", "{\"type\":\"model_output\"}")
         DELTA("0", "{\"type\":\"text\",\"text\":\"a\"}") STOP("0")
         "{\"status\":\"completed\",\"event_type\":\"interaction.status_update\"}\n",
         MS_E_MISSING, 0},
        {"{\"status\":\"completed\"}", MS_E_MISSING, 0},
        {"{\"object\":\"response\",\"status\":\"completed\",\"steps\":[]}", MS_E_MISSING, 0},
    };
    ms_request_desc desc = desc_of("gemini-interactions");
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_answered out = {0};
        ms_result code = ms_answer(&desc, ms_str_of(rows[i].body), &out, NULL);
        if (code != rows[i].code || out.messages != rows[i].messages)
            fail_msg("%s: %d, %u messages", rows[i].body, code, (unsigned)out.messages);
    }
}

/* A stream sends a step in deltas: the step is sent back as they made it. */
TEST(steps_are_made_of_their_deltas)
{
    static const struct {
        const char *stream, *sent;
        ms_result code;
    } rows[] = {
        {STEP("0", "{\"type\":\"future_call\",\"id\":\"f\",\"signature\":\"\",\"n\":null}")
         DELTA("0", "{\"type\":\"future_call\",\"signature\":\"S\",\"x\":1}")
         DELTA("0", "{\"type\":\"future_call\",\"x\":{\"y\":2}}")
         STOP("0") COMPLETED("completed"),
         "{\"type\":\"future_call\",\"id\":\"f\",\"signature\":\"S\",\"x\":{\"y\":2}}", MS_OK},
        {STEP("0", "{\"type\":\"mcp_server_tool_call\",\"id\":\"f\",\"arguments\":{}}")
         DELTA("0", "{\"type\":\"arguments_delta\",\"arguments\":\"{\\\"a\\\"\"}")
         DELTA("0", "{\"type\":\"arguments_delta\",\"arguments\":\":1}\"}")
         STOP("0") COMPLETED("completed"),
         "{\"type\":\"mcp_server_tool_call\",\"id\":\"f\",\"arguments\":{\"a\":1}}", MS_OK},
        {STEP("0", "{\"type\":\"thought\",\"summary\":[{\"type\":\"text\",\"text\":\"a\"}]}")
         DELTA("0", "{\"type\":\"thought_summary\",\"content\":{\"type\":\"image\",\"data\":\"aGk=\"}}")
         STOP("0") STEP("1", "{\"type\":\"model_output\"}")
         DELTA("1", "{\"type\":\"text\",\"text\":\"b\"}") STOP("1") COMPLETED("completed"),
         "{\"type\":\"thought\",\"summary\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"image\","
         "\"data\":\"aGk=\"}]},{\"type\":\"model_output\",\"content\":[{\"type\":\"text\",\"text\":"
         "\"b\"}]}", MS_OK},
        /* one index for all, and steps that come at once */
        {STEP("0", "{\"type\":\"model_output\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}")
         STOP("0")
         STEP("0", "{\"type\":\"model_output\",\"content\":[{\"type\":\"text\",\"text\":\"b\"}]}")
         STOP("0") COMPLETED("completed"),
         "{\"type\":\"model_output\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]},"
         "{\"type\":\"model_output\",\"content\":[{\"type\":\"text\",\"text\":\"b\"}]}", MS_OK},
        {STEP("0", "{\"type\":\"model_output\"}") DELTA("0", "{\"type\":\"text\",\"text\":\"b\"}")
         COMPLETED("completed"), NULL, MS_E_MISSING}, /* it has no end */
        {STEP("0", "{\"type\":\"thought\"}") COMPLETED("completed"), NULL, MS_E_MISSING},
        {STEP("0", "{\"type\":\"model_output\"}") DELTA("0", "{\"type\":\"text\",\"text\":\"b\"}")
         STOP("0") STEP("1", "{\"type\":\"google_search_call\"}") COMPLETED("completed"), NULL,
         MS_E_MISSING},
        {STEP("0", "{\"type\":\"mcp_server_tool_call\",\"id\":\"f\"}")
         DELTA("0", "{\"type\":\"arguments_delta\",\"arguments\":\"{\\\"a\\\"\"}")
         STOP("0") COMPLETED("completed"), /* arguments that are no JSON stay a string */
         "{\"type\":\"mcp_server_tool_call\",\"id\":\"f\",\"arguments\":\"{\\\"a\\\"\"}", MS_OK},
        {STEP("0", "{\"type\":\"model_output\"}") DELTA("0", "{\"type\":\"text\",\"text\":\"b\"}")
         STOP("0") COMPLETED("cancelled"), NULL, MS_E_MISSING},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        answer_case c = {"steps", "gemini-interactions", "m", NULL, rows[i].stream, "", 0, 0,
                         0, 0, 0, ""};
        ms_request_desc desc = desc_of(c.provider);
        ms_answered out;
        (void)open_store(NULL);
        add(ms_user_message(ms_text("u")));
        desc.store = store;
        ms_result code = ms_answer(&desc, ms_str_of(c.stream), &out, NULL);
        if (code != rows[i].code) fail_msg("row %zu: %d", i, (int)code);
        if (code != MS_OK) continue;
        c.sent = rows[i].sent;
        must_send_back(&c);
        for (size_t size = 1; size < 60; size++) {
            ask_anew();
            feed(&c, size, size, &out);
            must_send_back(&c);
        }
    }
}

/* What another provider does not take of a step is counted. */
TEST(pictures_in_a_step_are_counted_for_another_provider)
{
    static const char body[] =
        "{\"object\":\"interaction\",\"model\":\"m\",\"status\":\"completed\",\"steps\":[{\"type\":"
        "\"model_output\",\"content\":[{\"type\":\"text\",\"text\":\"Look\"},{\"type\":\"image\","
        "\"data\":\"aGk=\",\"mime_type\":\"image/png\"}]},{\"type\":\"model_output\",\"content\":["
        "{\"type\":\"image\",\"data\":\"aGk=\",\"mime_type\":\"image/png\"}]}]}";
    static const char *const providers[] = {"gemini-interactions", "openai", "anthropic",
                                            "openai-responses"};
    ask_anew();
    ms_request_desc desc = desc_of("gemini-interactions");
    assert_int_equal(ms_answer(&desc, ms_str_of(body), NULL, NULL), MS_OK);
    for (size_t i = 0; i < COUNT(providers); i++) {
        ms_project_report report;
        desc = desc_of(providers[i]);
        ms_str sent = body_of(&desc, &report);
        assert_true(has_text(sent, "Look"));
        if (has_text(sent, "aGk=") != (i == 0) || report.raw_left_out != (i == 0 ? 0 : 2))
            fail_msg("%s: %llu\n%.*s", providers[i], (unsigned long long)report.raw_left_out,
                     (int)sent.len, sent.ptr);
    }
}

/* An answer that was cut off has no call to run, however it came. */
TEST(call_is_not_run_when_its_answer_was_cut_off)
{
    static const struct {
        const char *provider, *body;
    } rows[] = {
        {"openai", "{\"choices\":[{\"message\":{\"content\":\"a\",\"tool_calls\":[{\"id\":\"c\",\"type\":"
                   "\"function\",\"function\":{\"name\":\"rm\",\"arguments\":\"{}\"}}]},"
                   "\"finish_reason\":\"length\"}]}"},
        {"anthropic", "{\"type\":\"message\",\"content\":[{\"type\":\"tool_use\",\"id\":\"c\",\"name\":"
                      "\"rm\",\"input\":{}}],\"stop_reason\":\"max_tokens\"}"},
        {"gemini", "{\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"rm\","
                   "\"args\":{}}}]},\"finishReason\":\"MAX_TOKENS\"}]}"},
        {"openai-responses", "{\"object\":\"response\",\"status\":\"incomplete\",\"incomplete_details\":{"
                             "\"reason\":\"max_output_tokens\"},\"output\":[{\"type\":\"function_call\","
                             "\"id\":\"fc\",\"call_id\":\"c\",\"name\":\"rm\",\"arguments\":\"{\","
                             "\"status\":\"incomplete\"}]}"},
        {"openai-responses", "{\"object\":\"response\",\"status\":\"incomplete\",\"output\":[{\"type\":"
                             "\"function_call\",\"call_id\":\"c\",\"name\":\"rm\",\"arguments\":\"{}\"}]}"},
        {"bedrock", "{\"output\":{\"message\":{\"content\":[{\"toolUse\":{\"toolUseId\":\"c\",\"name\":"
                    "\"rm\",\"input\":{}}}]}},\"stopReason\":\"max_tokens\"}"},
        {"ollama", "{\"message\":{\"tool_calls\":[{\"function\":{\"name\":\"rm\",\"arguments\":{}}}]},"
                   "\"done\":true,\"done_reason\":\"length\"}"},
        {"gemini-interactions", "{\"object\":\"interaction\",\"status\":\"incomplete\",\"steps\":[{"
                                "\"type\":\"function_call\",\"id\":\"c\",\"name\":\"rm\","
                                "\"arguments\":{}}]}"},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        for (int streamed = 0; streamed < 2; streamed++) {
            ms_answer_stream a;
            ms_answered out;
            ms_error err;
            ms_calls calls;
            ms_stat stat;
            ask_anew();
            ms_request_desc desc = desc_of(rows[i].provider);
            ms_str body = ms_str_of(rows[i].body);
            ms_result code;
            if (streamed) {
                assert_int_equal(ms_answer_begin(&a, &desc, NULL), MS_OK);
                assert_int_equal(ms_answer_feed(&a, body, NULL), MS_OK);
                code = ms_answer_end(&a, &out, &err);
            } else {
                code = ms_answer(&desc, body, &out, &err);
            }
            if (code != MS_E_MISSING || strstr(err.message, "was cut off") == NULL)
                fail_msg("%s: %d %s", rows[i].provider, (int)code, err.message);
            assert_true(out.stop[0] != '\0');
            assert_int_equal(ms_pending(&desc, &arena, &calls, NULL), MS_OK);
            assert_int_equal(calls.count, 0);
            assert_int_equal(calls.unfinished, streamed);
            assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
            if (!streamed) assert_int_equal(stat.messages, 1); /* the question */
        }
}

/* Of the reasons to stop that the types of the providers have, those of an answer that is
 * whole: all others end it early, and a call of it is not run. */
TEST(call_is_not_run_whatever_ended_its_answer_early)
{
    static const struct {
        const char *provider, *begin, *end;
        const char *whole[6], *early[24];
    } rows[] = {
        {"openai", "{\"choices\":[{\"message\":{\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\","
                   "\"function\":{\"name\":\"rm\",\"arguments\":\"{}\"}}]},\"finish_reason\":\"",
         "\"}]}", {"stop", "tool_calls", "function_call"},
         {"length", "content_filter", "error", "model_length", "sensitive", "network_error",
          "insufficient_system_resource", "model_context_window_exceeded"}},
        {"anthropic", "{\"type\":\"message\",\"content\":[{\"type\":\"tool_use\",\"id\":\"c\",\"name\":"
                      "\"rm\",\"input\":{}}],\"stop_reason\":\"",
         "\"}", {"end_turn", "stop_sequence", "tool_use", "pause_turn"},
         {"max_tokens", "refusal", "model_context_window_exceeded"}},
        {"gemini", "{\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"rm\","
                   "\"args\":{}}}]},\"finishReason\":\"",
         "\"}]}", {"STOP"},
         {"MAX_TOKENS", "SAFETY", "RECITATION", "LANGUAGE", "OTHER", "BLOCKLIST",
          "PROHIBITED_CONTENT", "SPII", "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE",
          "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE",
          "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER",
          "NO_IMAGE", "ESCALATION", "PUP_LIMITED_DISABLED", "CONTINUATION", "MODEL_ARMOR"}},
        {"bedrock", "{\"output\":{\"message\":{\"content\":[{\"toolUse\":{\"toolUseId\":\"c\",\"name\":"
                    "\"rm\",\"input\":{}}}]}},\"stopReason\":\"",
         "\"}", {"end_turn", "stop_sequence", "tool_use"},
         {"max_tokens", "guardrail_intervened", "content_filtered", "malformed_model_output",
          "malformed_tool_use", "model_context_window_exceeded"}},
        {"cohere", "{\"message\":{\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\",\"function\":{"
                   "\"name\":\"rm\",\"arguments\":\"{}\"}}]},\"finish_reason\":\"",
         "\"}", {"COMPLETE", "STOP_SEQUENCE", "TOOL_CALL"}, {"MAX_TOKENS", "ERROR", "TIMEOUT"}},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        for (size_t k = 0; k < COUNT(rows[i].whole) + COUNT(rows[i].early); k++) {
            bool whole = k < COUNT(rows[i].whole);
            const char *word = whole ? rows[i].whole[k] : rows[i].early[k - COUNT(rows[i].whole)];
            char body[400];
            ms_answered out;
            ms_calls calls;
            if (word == NULL) continue;
            ask_anew();
            ms_request_desc desc = desc_of(rows[i].provider);
            snprintf(body, sizeof body, "%s%s%s", rows[i].begin, word, rows[i].end);
            ms_result code = ms_answer(&desc, ms_str_of(body), &out, NULL);
            assert_int_equal(ms_pending(&desc, &arena, &calls, NULL), MS_OK);
            if (code != (whole ? MS_OK : MS_E_MISSING) || calls.count != whole)
                fail_msg("%s, %s: %s, %zu calls", rows[i].provider, word,
                         ms_result_text(code), calls.count);
            assert_string_equal(out.stop, word);
        }
}

/* The response at the end of a stream has items that were not done: they are stored, and
 * none comes twice. */
TEST(items_that_come_only_at_the_end_are_kept)
{
#define DONE(i, item) "{\"type\":\"response.output_item.done\",\"output_index\":" i ",\"item\":" item "}\n"
#define CALLS(id) "{\"type\":\"function_call\",\"id\":\"fc_" id "\",\"call_id\":\"" id             \
                  "\",\"name\":\"f\",\"arguments\":\"{}\"}"
#define SEARCH "{\"type\":\"web_search_call\",\"id\":\"ws\",\"status\":\"completed\"}"
#define ENDED(items) "{\"type\":\"response.completed\",\"response\":{\"object\":\"response\",\"model\":"   \
                     "\"m\",\"status\":\"completed\",\"output\":[" items "]}}\n"
    static const struct {
        const char *body;
        unsigned messages, calls;
    } rows[] = {
        {DONE("0", CALLS("a")) ENDED(CALLS("a") "," CALLS("b") "," SEARCH), 3, 2},
        {DONE("1", CALLS("b")) ENDED(CALLS("a") "," CALLS("b")), 2, 2},
        {DONE("0", SEARCH) DONE("1", CALLS("a")) ENDED(SEARCH "," CALLS("rotated")), 2, 1},
        {DONE("0", CALLS("a")) DONE("0", CALLS("b")) ENDED(CALLS("a") "," CALLS("b")), 2, 2},
        {DONE("0", CALLS("a")) DONE("0", CALLS("b"))
         ENDED(CALLS("a") "," CALLS("b") "," CALLS("c")), 3, 3},
        {DONE("0", CALLS("a")) ENDED(""), 1, 1},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_answered out;
        ask_anew();
        ms_request_desc desc = desc_of("openai-responses");
        assert_int_equal(ms_answer(&desc, ms_str_of(rows[i].body), &out, NULL), MS_OK);
        if (out.messages != rows[i].messages || out.calls != rows[i].calls)
            fail_msg("row %zu: %llu messages, %llu calls", i, (unsigned long long)out.messages,
                     (unsigned long long)out.calls);
    }
}

/* An item that is done counts, not the text that a stream sent of it before: the message
 * has the item's text at its end, also where that is the shorter one. */
TEST(text_of_an_item_replaces_what_was_streamed_of_it)
{
#define ADDED "{\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"message\","   \
              "\"id\":\"msg\",\"role\":\"assistant\",\"content\":[]}}\n"
#define TEXT_DELTA(of, text) "{\"type\":\"response." of ".delta\",\"output_index\":0,\"delta\":\"" text "\"}\n"
#define SAYS(type, text) "{\"type\":\"message\",\"id\":\"msg\",\"role\":\"assistant\",\"content\":[{"       \
                         "\"type\":\"" type "\",\"" text "\"}]}"
#define REFUSES SAYS("refusal", "refusal\":\"so ")
#define TEXT_ITEM(text) SAYS("output_text", "text\":\"" text)
    static const struct {
        const char *body, *text;
    } rows[] = {
        {ADDED TEXT_DELTA("refusal", "JJso ") DONE("0", REFUSES) ENDED(REFUSES), "so "},
        {ADDED TEXT_DELTA("output_text", "longer") DONE("0", TEXT_ITEM("a")) ENDED(TEXT_ITEM("a")), "a"},
        {ADDED TEXT_DELTA("output_text", "other") DONE("0", TEXT_ITEM("texts")) ENDED(TEXT_ITEM("texts")), "texts"},
        {ADDED TEXT_DELTA("output_text", "te") DONE("0", TEXT_ITEM("text")) ENDED(TEXT_ITEM("text")), "text"},
        {ADDED TEXT_DELTA("output_text", "gone") DONE("0", TEXT_ITEM("")) ENDED(TEXT_ITEM("")), ""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_answered out;
        ms_answer_stream a;
        ms_error err;
        ask_anew();
        ms_request_desc desc = desc_of("openai-responses");
        assert_int_equal(ms_answer_begin(&a, &desc, &err), MS_OK);
        for (size_t at = 0; rows[i].body[at] != '\0'; at++)
            (void)ms_answer_feed(&a, ms_str_n(rows[i].body + at, 1), &err);
        if (ms_answer_end(&a, &out, &err) != MS_OK) fail_msg("row %zu: %s", i, err.message);
        assert_int_equal(out.messages, 1);
        const ms_msg *m;
        assert_int_equal(ms_get_by_seq(store, out.first_seq, &arena, &m, NULL), MS_OK);
        if (!ms_str_equal(ms_content(m).text, ms_str_of(rows[i].text)))
            fail_msg("row %zu: '%.*s'", i, (int)ms_content(m).text.len, ms_content(m).text.ptr);
        assert_int_equal(ms_flags(m) & MS_FLAG_UNFINISHED, 0);
    }
}

/* A compaction comes in a delta of its own; what it does not have stays. */
TEST(compaction_of_a_stream_is_whole)
{
    static const struct {
        const char *block, *delta, *sent;
    } rows[] = {
        {"{\"type\":\"compaction\",\"content\":null}",
         "{\"type\":\"compaction_delta\",\"content\":\"sum\",\"encrypted_content\":\"E\"}",
         "{\"type\":\"compaction\",\"content\":\"sum\",\"encrypted_content\":\"E\"}"},
        {"{\"type\":\"compaction\",\"content\":null,\"signature\":\"S\"}",
         "{\"type\":\"compaction_delta\",\"content\":\"sum\",\"encrypted_content\":null}",
         "{\"type\":\"compaction\",\"signature\":\"S\",\"content\":\"sum\"}"},
        {"{\"type\":\"compaction\",\"content\":null,\"encrypted_content\":\"E\"}",
         "{\"type\":\"compaction_delta\",\"content\":\"sum\"}",
         "{\"type\":\"compaction\",\"content\":\"sum\",\"encrypted_content\":\"E\"}"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char body[900];
        ms_answered out;
        ask_anew();
        ms_request_desc desc = desc_of("anthropic");
        snprintf(body, sizeof body,
                 "{\"type\":\"message_start\",\"message\":{\"model\":\"m\"}}\n"
                 "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":%s}\n"
                 "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"
                 "\"compaction_delta\",\"content\":\"s\"}}\n"
                 "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":%s}\n"
                 "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"compaction\"}}\n",
                 rows[i].block, rows[i].delta);
        assert_int_equal(ms_answer(&desc, ms_str_of(body), &out, NULL), MS_OK);
        ms_str sent = body_of(&desc, NULL);
        if (!has_text(sent, rows[i].sent)) fail_msg("%.*s", (int)sent.len, sent.ptr);
    }
}

/* A compaction of Anthropic without a summary has failed: it is counted, and the
 * conversation before it is sent. */
TEST(compaction_that_failed_takes_nothing_away)
{
    static const char *const blocks[] = {
        "{\"type\":\"compaction\",\"content\":null}",
        "{\"type\":\"compaction\",\"content\":null,\"encrypted_content\":\"E\"}",
        "{\"type\":\"compaction\"}",
    };
    for (size_t i = 0; i < 2 * COUNT(blocks); i++) {
        char body[500];
        ms_answered out;
        ms_project_report report;
        snprintf(body, sizeof body,
                 i < COUNT(blocks)
                 ? "{\"type\":\"message\",\"model\":\"m\",\"content\":[%s,{\"type\":\"text\","
                   "\"text\":\"x\"}],\"stop_reason\":\"end_turn\"}"
                 : "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":%s}\n"
                   "{\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":"
                   "\"text\",\"text\":\"x\"}}\n"
                   "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n",
                 blocks[i % COUNT(blocks)]);
        ask_anew();
        ms_request_desc desc = desc_of("anthropic");
        assert_int_equal(ms_answer(&desc, ms_str_of(body), &out, NULL), MS_OK);
        add(ms_user_message(ms_text("v")));
        ms_str sent = body_of(&desc, &report);
        if (!has_text(sent, "[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\","
                            "\"content\":\"x\"},{\"role\":\"user\",\"content\":\"v\"}]"))
            fail_msg("%s: %.*s", blocks[i % COUNT(blocks)], (int)sent.len, sent.ptr);
        assert_int_equal(report.compaction_unusable, 1);
        assert_int_equal(report.compaction_seq, 0);
    }
}

/* A message of chat completions is not only text: a sound has its words, and parts of
 * other kinds are kept, and counted when they are left out. */
TEST(parts_of_a_chat_message_are_stored_or_kept)
{
    static const struct {
        const char *member, *whole, *stored;
        uint64_t left_out;
    } rows[] = {
        {"\"audio\":{\"id\":\"a\",\"transcript\":\"Hel\"}",
         "\"audio\":{\"transcript\":\"lo\",\"data\":\"QUJD\",\"expires_at\":1}",
         "assistant_message 0|Hello||0 ||\n", 0},
        {"\"images\":[{\"type\":\"image_url\",\"image_url\":{\"url\":\"u\"}}]", "\"content\":\"x\"",
         "multimodal_part 0|[{\"type\":\"image_url\",\"image_url\":{\"url\":\"u\"}}]||0 ||"
         "{\"signed\":{\"provider\":\"openai\",\"model\":\"m\"}}\nassistant_message 16|x||0 ||\n", 1},
        {"\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"reference\","
         "\"reference_ids\":[1]}]", "\"content\":[{\"type\":\"reference\",\"reference_ids\":[2]},"
         "{\"type\":\"text\",\"text\":\"b\"}]",
         "assistant_message 0|ab||0 ||\n"
         "multimodal_part 16|[{\"type\":\"reference\",\"reference_ids\":[1]}]||0 ||"
         "{\"signed\":{\"provider\":\"openai\",\"model\":\"m\"}}\n"
         "multimodal_part 16|[{\"type\":\"reference\",\"reference_ids\":[2]}]||0 ||"
         "{\"signed\":{\"provider\":\"openai\",\"model\":\"m\"}}\n", 2},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char body[600];
        ms_project_report report;
        ask_anew();
        ms_request_desc desc = desc_of("openai");
        snprintf(body, sizeof body,
                 "data: {\"model\":\"m\",\"choices\":[{\"delta\":{%s}}]}\n\ndata: {\"choices\":[{"
                 "\"delta\":{%s},\"finish_reason\":\"stop\"}]}\n\n", rows[i].member, rows[i].whole);
        (void)open_store(NULL);
        desc.store = store;
        assert_int_equal(ms_answer(&desc, ms_str_of(body), NULL, NULL), MS_OK);
        ms_str got = stored();
        if (!ms_str_equal(got, ms_str_of(rows[i].stored)))
            fail_msg("row %zu: %.*s", i, (int)got.len, got.ptr);
        add(ms_user_message(ms_text("v")));
        (void)body_of(&desc, &report);
        assert_int_equal(report.raw_left_out, rows[i].left_out);
    }
}

/* What no message has a place for is counted by its names, in a stream as in a whole
 * answer. Empty members, ids, times and the like are not. */
TEST(members_that_are_not_stored_are_counted)
{
    static const struct {
        const char *provider, *whole, *stream;
        size_t left_out, messages;
    } rows[] = {
        {"openai", /* a sound, links, marks: 5 names */
         "{\"id\":\"1\",\"system_fingerprint\":\"f\",\"choices\":[{\"index\":0,\"logprobs\":{"
         "\"content\":[1]},\"message\":{\"content\":null,\"annotations\":[{},{}],\"future\":1,"
         "\"audio\":{\"id\":\"a\",\"expires_at\":1,\"transcript\":\"Hi\",\"data\":\"QUJD\"}},"
         "\"finish_reason\":\"stop\"}],\"search_results\":[{}]}",
         "data: {\"choices\":[{\"index\":0,\"logprobs\":{\"content\":[1]},\"delta\":{\"future\":1,"
         "\"audio\":{\"id\":\"a\",\"transcript\":\"H\",\"data\":\"QU\"}}}]}\n\n"
         "data: {\"choices\":[{\"index\":0,\"logprobs\":null,\"delta\":{\"annotations\":[{}],"
         "\"audio\":{\"transcript\":\"i\",\"data\":\"JD\"}}}]}\n\n"
         "data: {\"search_results\":[{}],\"choices\":[{\"delta\":{\"annotations\":[{}]},"
         "\"finish_reason\":\"stop\"}]}\n\n", 5, 1},
        {"openai", /* empty ones, and what is known */
         "{\"choices\":[{\"logprobs\":null,\"message\":{\"role\":\"assistant\",\"name\":\"n\","
         "\"content\":\"x\",\"refusal\":null,\"annotations\":[ ],\"audio\":null,\"future\":{}},"
         "\"finish_reason\":\"stop\"}]}",
         "data: {\"choices\":[{\"delta\":{\"content\":\"x\",\"annotations\":[],\"future\":\"\"},"
         "\"finish_reason\":\"stop\"}]}\n\n", 0, 1},
        {"openai", /* parts of a text, of thinking, of a call */
         "{\"choices\":[{\"message\":{\"content\":[{\"type\":\"thinking\",\"closed\":true,"
         "\"thinking\":[{\"type\":\"text\",\"text\":\"t\"},{\"type\":\"reference\","
         "\"reference_ids\":[1]}]},{\"type\":\"text\",\"text\":\"x\",\"mark\":2}],\"tool_calls\":[{"
         "\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\",\"more\":3}}]},"
         "\"finish_reason\":\"tool_calls\"}]}",
         "data: {\"choices\":[{\"delta\":{\"content\":[{\"type\":\"thinking\",\"thinking\":[{\"type\":"
         "\"text\",\"text\":\"t\"},{\"type\":\"reference\",\"reference_ids\":[1]}]},{\"type\":\"text\","
         "\"text\":\"x\",\"mark\":2}]}}]}\n\ndata: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":\"c\","
         "\"function\":{\"name\":\"f\",\"arguments\":\"{}\",\"more\":3}}]},"
         "\"finish_reason\":\"tool_calls\"}]}\n\n", 3, 3},
        {"openai", /* an answer of another interface of the same server */
         "{\"choices\":[{\"index\":0,\"text\":\"x\",\"finish_reason\":\"stop\"}]}",
         "data: {\"choices\":[{\"text\":\"x\",\"finish_reason\":\"stop\"}]}\n\n", 1, 0},
        {"anthropic",
         "{\"type\":\"message\",\"role\":\"assistant\",\"id\":\"m\",\"content\":[{\"type\":\"thinking\","
         "\"thinking\":\"t\",\"signature\":\"s\",\"future\":1},{\"type\":\"text\",\"text\":\"x\"}],"
         "\"stop_reason\":\"end_turn\",\"stop_sequence\":null,\"container\":{\"id\":\"c\"},"
         "\"context_management\":{\"applied_edits\":[{}]},\"usage\":{\"input_tokens\":1}}",
         "data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":"
         "\"assistant\",\"content\":[],\"container\":null,\"usage\":{\"input_tokens\":1}}}\n\n"
         "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\","
         "\"thinking\":\"\",\"signature\":\"\",\"future\":1}}\n\n"
         "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\","
         "\"thinking\":\"t\"}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{"
         "\"type\":\"signature_delta\",\"signature\":\"s\"}}\n\n"
         "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"text\","
         "\"text\":\"x\"}}\n\ndata: {\"type\":\"content_block_stop\",\"index\":1}\n\n"
         "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"container\":{"
         "\"id\":\"c\"}},\"context_management\":{\"applied_edits\":[{}]},\"usage\":{"
         "\"output_tokens\":2}}\n\ndata: {\"type\":\"message_stop\","
         "\"amazon-bedrock-invocationMetrics\":{\"inputTokenCount\":1}}\n\n", 3, 2},
        {"anthropic", /* a delta of a type that is not known */
         "{\"type\":\"message\",\"content\":[{\"type\":\"text\",\"text\":\"x\"}],"
         "\"stop_reason\":\"refusal\",\"stop_details\":{\"explanation\":\"e\"}}",
         "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\","
         "\"text\":\"x\"}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"
         "\"future_delta\",\"future\":\"f\"}}\n\ndata: {\"type\":\"message_delta\",\"delta\":{"
         "\"stop_reason\":\"refusal\"}}\n\n", 1, 1},
        {"gemini",
         "{\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"t\",\"thought\":true,"
         "\"partMetadata\":{\"a\":1}},{\"text\":\"x\"}]},\"finishReason\":\"STOP\",\"avgLogprobs\":-1,"
         "\"safetyRatings\":[{}],\"groundingMetadata\":{\"webSearchQueries\":[\"q\"]},"
         "\"citationMetadata\":{\"citations\":[{}]}}],\"responseId\":\"r\"}",
         "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"t\",\"thought\":true,"
         "\"partMetadata\":{\"a\":1}}]}}]}\n\ndata: {\"candidates\":[{\"content\":{\"parts\":[{"
         "\"text\":\"x\"}]},\"citationMetadata\":{\"citations\":[{}]}}]}\n\ndata: {\"candidates\":[{"
         "\"finishReason\":\"STOP\",\"groundingMetadata\":{\"webSearchQueries\":[\"q\"]}}]}\n\n", 3, 2},
        {"bedrock",
         "{\"output\":{\"message\":{\"role\":\"assistant\",\"content\":[{\"text\":\"x\"}]}},"
         "\"stopReason\":\"end_turn\",\"metrics\":{\"latencyMs\":1},\"trace\":{\"guardrail\":{\"a\":1}},"
         "\"additionalModelResponseFields\":{\"stop_sequence\":\"s\"}}",
         "{\"contentBlockDelta\":{\"contentBlockIndex\":0,\"delta\":{\"text\":\"x\"}}}\n"
         "{\"messageStop\":{\"stopReason\":\"end_turn\",\"additionalModelResponseFields\":{"
         "\"stop_sequence\":\"s\"}}}\n{\"metadata\":{\"metrics\":{\"latencyMs\":1},\"trace\":{"
         "\"guardrail\":{\"a\":1}}}}\n", 2, 1},
        {"cohere", /* citations, marks, and a part of another kind */
         "{\"id\":\"1\",\"message\":{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":"
         "\"x\"},{\"type\":\"sound\",\"sound\":{\"data\":\"QQ\"}}],\"citations\":[{\"start\":0,\"end\":1,"
         "\"text\":\"x\",\"sources\":[],\"type\":\"TEXT_CONTENT\"},{\"start\":0,\"end\":1}]},"
         "\"finish_reason\":\"COMPLETE\",\"logprobs\":[{\"token_ids\":[1]}]}",
         "data: {\"type\":\"message-start\",\"id\":\"1\",\"delta\":{\"message\":{\"role\":\"assistant\","
         "\"content\":[],\"tool_plan\":\"\",\"tool_calls\":[],\"citations\":[]}}}\n\n"
         "data: {\"type\":\"content-start\",\"index\":0,\"delta\":{\"message\":{\"content\":{\"type\":"
         "\"text\",\"text\":\"\"}}}}\n\ndata: {\"type\":\"content-delta\",\"index\":0,\"delta\":{"
         "\"message\":{\"content\":{\"text\":\"x\"}}},\"logprobs\":{\"token_ids\":[1]}}\n\n"
         "data: {\"type\":\"citation-start\",\"index\":0,\"delta\":{\"message\":{\"citations\":{"
         "\"start\":0,\"end\":1,\"text\":\"x\",\"sources\":[],\"type\":\"TEXT_CONTENT\"}}}}\n\n"
         "data: {\"type\":\"citation-end\",\"index\":0}\n\ndata: {\"type\":\"content-end\",\"index\":0}\n\n"
         "data: {\"type\":\"content-start\",\"index\":1,\"delta\":{\"message\":{\"content\":{\"type\":"
         "\"sound\",\"sound\":{\"data\":\"QQ\"}}}}}\n\n"
         "data: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"COMPLETE\"}}\n\n", 3, 1},
        {"cohere", /* the content of a server that copies it, and what a stream alone has */
         "{\"message\":{\"content\":\"x\",\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\","
         "\"function\":{\"name\":\"f\",\"arguments\":\"{}\"},\"future\":1}]},"
         "\"finish_reason\":\"TOOL_CALL\"}",
         "data: {\"type\":\"debug\",\"prompt\":\"p\"}\n\ndata: {\"type\":\"content-delta\",\"delta\":{"
         "\"message\":{\"content\":\"x\"}}}\n\ndata: {\"type\":\"tool-call-start\",\"index\":0,"
         "\"delta\":{\"message\":{\"tool_calls\":{\"id\":\"c\",\"type\":\"function\",\"function\":{"
         "\"name\":\"f\",\"arguments\":\"{}\"}}}}}\n\n"
         "data: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"TOOL_CALL\"}}\n\n", 1, 2},
        {"ollama",
         "{\"model\":\"m\",\"created_at\":\"t\",\"remote_model\":\"r\",\"remote_host\":\"h\",\"message\":{"
         "\"role\":\"assistant\",\"content\":\"x\",\"images\":[\"QQ\"]},\"logprobs\":[{\"token\":\"x\"}],"
         "\"done\":true,\"done_reason\":\"stop\",\"load_duration\":1}",
         "{\"message\":{\"content\":\"x\"},\"logprobs\":[{\"token\":\"x\"}],\"done\":false}\n"
         "{\"message\":{\"content\":\"\",\"images\":[\"QQ\"]},\"done\":false}\n"
         "{\"message\":{\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\"}\n", 2, 1},
        {"ollama", /* an answer of its other interface */
         "{\"response\":\"x\",\"thinking\":\"t\",\"context\":[1],\"done\":true}",
         "{\"response\":\"x\",\"done\":false}\n{\"response\":\"\",\"thinking\":\"t\","
         "\"context\":[1],\"done\":true}\n", 3, 0},
        {"gemini-interactions", /* of an older form */
         "{\"object\":\"interaction\",\"status\":\"completed\",\"outputs\":[{\"type\":\"text\"}]}",
         "data: {\"event_type\":\"interaction.complete\",\"interaction\":{\"object\":\"interaction\","
         "\"status\":\"completed\",\"outputs\":[{\"type\":\"text\"}]}}\n\n", 1, 0},
        {"openai-responses",
         "{\"object\":\"response\",\"status\":\"completed\",\"output\":[{\"type\":\"message\","
         "\"content\":[{\"type\":\"output_text\",\"text\":\"x\",\"annotations\":[{}],\"logprobs\":[{}]}]}]}",
         "data: {\"type\":\"response.completed\",\"response\":{\"object\":\"response\",\"status\":"
         "\"completed\",\"output\":[{\"type\":\"message\",\"content\":[{\"type\":\"output_text\","
         "\"text\":\"x\",\"annotations\":[{}]}]}]}}\n\n", 0, 1},
        {"openai", /* a call that is no object */
         "{\"choices\":[{\"message\":{\"content\":\"x\",\"tool_calls\":[\"f\"]},"
         "\"finish_reason\":\"stop\"}]}",
         "data: {\"choices\":[{\"delta\":{\"content\":\"x\",\"tool_calls\":[\"f\",1]},"
         "\"finish_reason\":\"stop\"}]}\n\n", 1, 1},
        {"bedrock", /* a picture within a block that is none */
         "{\"output\":{\"message\":{\"content\":[{\"text\":\"x\",\"image\":{\"f\":1}}]}},"
         "\"stopReason\":\"end_turn\"}",
         "{\"contentBlockStart\":{\"start\":{\"toolUse\":{\"toolUseId\":\"s\",\"type\":"
         "\"server_tool_use\",\"name\":\"f\"}}}}\n{\"contentBlockDelta\":{\"delta\":{\"image\":{"
         "\"source\":{\"bytes\":\"QQ\"}}}}}\n{\"messageStop\":{\"stopReason\":\"end_turn\"}}\n",
         1, 1},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        for (int way = 0; way < 2; way++) {
            answer_case c = {.name = rows[i].whole, .provider = rows[i].provider};
            ms_request_desc desc = desc_of(rows[i].provider);
            ms_answered out;
            ms_error err;
            c.stream = way ? rows[i].stream : rows[i].whole;
            for (size_t size = 1; size < 300; size += 149) {
                (void)open_store(NULL);
                feed(&c, size, size, &out);
                if (out.left_out != rows[i].left_out || out.messages != rows[i].messages)
                    fail_msg("row %zu, %s: %zu left out, %zu messages", i,
                             way ? "stream" : "whole", out.left_out, out.messages);
            }
            (void)open_store(NULL);
            desc.store = store;
            if (ms_answer(&desc, ms_str_of(c.stream), &out, &err) != MS_OK)
                fail_msg("row %zu: %s", i, err.message);
            assert_int_equal(out.left_out, rows[i].left_out);
        }
    }
}

/* However many names an answer has, at most 32 are counted; of one that is not stored, or
 * that began anew, none. */
TEST(members_that_are_not_stored_are_counted_to_a_most)
{
    char body[2048];
    ms_request_desc desc = desc_of("openai"), other = desc_of("anthropic");
    ms_answered out;
    for (unsigned n = 0; n <= 40; n += 8) {
        int len = snprintf(body, sizeof body, "{\"choices\":[{\"message\":{\"content\":\"x\"");
        for (unsigned i = 0; i < n; i++)
            len += snprintf(body + len, sizeof body - (size_t)len, ",\"x%u\":0", i);
        snprintf(body + len, sizeof body - (size_t)len, "},\"finish_reason\":\"stop\"}]}");
        assert_int_equal(ms_answer(&desc, ms_str_of(body), &out, NULL), MS_OK);
        assert_int_equal(out.left_out, n < 32 ? n : 32);
    }
    assert_int_equal(ms_answer(&desc, MS_STR("{\"choices\":[{\"message\":{\"content\":\"x\","
                                             "\"future\":1,\"tool_calls\":[{\"id\":\"c\",\"function\":{"
                                             "\"name\":\"f\"}}]},\"finish_reason\":\"length\"}]}"),
                               &out, NULL), MS_E_MISSING);
    assert_int_equal(out.left_out, 0);
    assert_int_equal(ms_answer(&other, MS_STR(
        "data: {\"type\":\"message_start\",\"message\":{\"future\":1}}\n\n"
        "data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"text\",\"text\":\"v\"}}\n\n"
        "data: {\"type\":\"message_start\",\"message\":{\"role\":\"assistant\"}}\n\n"
        "data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"text\",\"text\":\"x\"}}\n\n"
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n"),
                               &out, NULL), MS_OK);
    assert_int_equal(out.left_out, 0);
}

/* The input of a custom tool is any text: it goes back as it is. */
TEST(input_of_a_custom_tool_goes_back_as_it_is)
{
    static const char *const inputs[] = {"", " ", "null", "{}", "\\n", "ls"};
    for (size_t i = 0; i < 2 * COUNT(inputs); i++) {
        const char *input = inputs[i / 2];
        char body[400], sent[100];
        answer_case c = {.name = "custom", .provider = "openai", .stream = body};
        ms_answered out;
        snprintf(body, sizeof body,
                 "{\"model\":\"m\",\"choices\":[{\"%s\":{\"tool_calls\":[{\"id\":\"c\",\"type\":"
                 "\"custom\",\"custom\":{\"name\":\"f\",\"input\":\"%s\"}}]},\"finish_reason\":"
                 "\"tool_calls\"}]}", i % 2 ? "delta" : "message", input);
        snprintf(sent, sizeof sent, "\"custom\":{\"name\":\"f\",\"input\":\"%s\"}", input);
        ask_anew();
        feed(&c, 9, 9, &out);
        assert_int_equal(out.calls, 1);
        add(ms_observation(ms_text("r"), MS_STR("c")));
        ms_request_desc desc = desc_of("openai");
        ms_str body_back = body_of(&desc, NULL);
        if (!has_text(body_back, sent))
            fail_msg("%s: %.*s", sent, (int)body_back.len, body_back.ptr);
    }
}

/* A server that sends both members of thinking may have the text in either. */
TEST(thinking_is_read_from_the_member_that_has_it)
{
    must_answer("{\"model\":\"m\",\"choices\":[{\"message\":{\"reasoning_content\":\"\",\"reasoning\":"
                "\"t\",\"content\":\"x\"},\"finish_reason\":\"stop\"}]}",
                "reasoning 0|t||0 ||{\"signed\":{\"provider\":\"openai\",\"model\":\"m\","
                "\"of\":12957398535287332940}}\nassistant_message 16|x||0 ||\n");
}

/* A signature of Gemini can stand beside an empty text: it goes back where it stood. */
TEST(signature_on_an_empty_text_is_sent_back)
{
    static const char *const rows[] = {
        "{\"text\":\"\",\"thoughtSignature\":\"S\"},{\"text\":\"x\"}",
        ("{\"functionCall\":{\"name\":\"f\",\"args\":{},\"id\":\"1\"},\"thoughtSignature\":\"T\"},"
         "{\"text\":\"\",\"thoughtSignature\":\"S\"}"),
        "{\"text\":\"\",\"thoughtSignature\":\"S\"}", /* after one that has nothing */
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char body[400];
        ask_anew();
        ms_request_desc desc = desc_of("gemini");
        snprintf(body, sizeof body, "{\"candidates\":[{\"content\":{\"parts\":[%s%s]},"
                                    "\"finishReason\":\"STOP\"}],\"modelVersion\":\"m\"}",
                 i == 2 ? "{\"text\":\"\"}," : "", rows[i]);
        assert_int_equal(ms_answer(&desc, ms_str_of(body), NULL, NULL), MS_OK);
        if (i == 1) add(ms_observation(ms_text("r"), MS_STR("1")));
        else add(ms_user_message(ms_text("v")));
        ms_str sent = body_of(&desc, NULL);
        if (!has_text(sent, rows[i])) fail_msg("%.*s", (int)sent.len, sent.ptr);
    }
}

/* Anthropic refuses a call of its server's tool without a result once a prompt follows: it
 * is named. While none does, as after pause_turn, it goes back. */
TEST(call_of_a_server_without_result_is_named_before_a_prompt)
{
    static const char use[] = "{\"type\":\"server_tool_use\",\"id\":\"s1\",\"name\":"
                              "\"web_search\",\"input\":{\"query\":\"q\"}}";
    static const char *const rows[] = {"pause_turn", "max_tokens"};
    ms_project_report report;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char body[400];
        ask_anew();
        ms_request_desc desc = desc_of("anthropic");
        snprintf(body, sizeof body, "{\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\","
                                    "\"content\":[{\"type\":\"text\",\"text\":\"x\"},%s],"
                                    "\"stop_reason\":\"%s\"}", use, rows[i]);
        assert_int_equal(ms_answer(&desc, ms_str_of(body), NULL, NULL), MS_OK);
        assert_true(has_text(body_of(&desc, &report), use));
        assert_int_equal(report.raw_left_out, 0);
        add(ms_user_message(ms_text("v")));
        ms_str sent = body_of(&desc, &report);
        assert_false(has_text(sent, "server_tool_use"));
        assert_true(has_text(sent, "[web_search left out]"));
        assert_int_equal(report.raw_left_out, 1);
    }
}

/* A block that an answer was cut off after is in the store, and no text of a request. */
TEST(block_of_an_answer_that_was_cut_off_is_no_text)
{
    ms_answer_stream a;
    ms_project_report report;
    ask_anew();
    ms_request_desc desc = desc_of("anthropic");
    assert_int_equal(ms_answer_begin(&a, &desc, NULL), MS_OK);
    assert_int_equal(
        ms_answer_feed(&a, MS_STR("data: {\"type\":\"content_block_start\",\"index\":0,"
                                  "\"content_block\":{\"type\":\"server_tool_use\",\"id\":\"s1\","
                                  "\"name\":\"web_search\",\"input\":{}}}\n\n"), NULL), MS_OK);
    assert_int_equal(ms_answer_end(&a, NULL, NULL), MS_E_MISSING);
    add(ms_user_message(ms_text("v")));
    assert_false(has_text(body_of(&desc, &report), "server_tool_use"));
    assert_int_equal(report.raw_left_out, 1);
}

#define SEARCH_USE "{\"type\":\"server_tool_use\",\"id\":\"s1\",\"name\":\"web_search\",\"input\":{}}"
#define SEARCH_RESULT "{\"type\":\"web_search_tool_result\",\"tool_use_id\":\"s1\",\"content\":[]}"

/* An answer with a call of a server's tool and one of a function, "toolu_1", its result,
 * and an answer with the result of the server's tool and a call, "toolu_2". */
static ms_request_desc search_over_two_answers(void)
{
    static const char *const blocks[] = {SEARCH_USE, SEARCH_RESULT};
    ask_anew();
    ms_request_desc desc = desc_of("anthropic");
    desc.tools = MS_STR("[{\"name\":\"q\",\"input_schema\":{\"type\":\"object\"}}]");
    for (unsigned i = 0; i < COUNT(blocks); i++) {
        char body[500], id[20];
        snprintf(id, sizeof id, "toolu_%u", i + 1);
        snprintf(body, sizeof body,
                 "{\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[%s,{"
                 "\"type\":\"tool_use\",\"id\":\"%s\",\"name\":\"q\",\"input\":{}}],"
                 "\"stop_reason\":\"tool_use\"}", blocks[i], id);
        assert_int_equal(ms_answer(&desc, ms_str_of(body), NULL, NULL), MS_OK);
        add(ms_observation(ms_text("r"), ms_str_of(id)));
    }
    return desc;
}

/* Without its call a result of a server's tool would be refused: it is named, where the
 * call is beyond the window, hidden or covered by a compaction. */
TEST(result_of_a_server_without_its_call_is_named)
{
    for (unsigned way = 0; way < 4; way++) {
        ms_request_desc desc = search_over_two_answers();
        ms_project_report report;
        ms_str sent = body_of(&desc, &report);
        assert_true(has_text(sent, SEARCH_USE) && has_text(sent, SEARCH_RESULT));
        assert_int_equal(report.raw_left_out, 0);
        ms_compaction c = {0};
        c.summary = MS_STR("SUM");
        if (way == 0) desc.opts.newest = 3;
        if (way == 1) assert_int_equal(ms_hide(store, 2, NULL), MS_OK);
        if (way == 2) {
            ms_compaction_plan plan;
            assert_int_equal(ms_compact_plan(&desc, 1, &plan, NULL), MS_OK);
            c.upto = plan.upto;
        }
        if (way == 3) c.upto = 2;
        if (c.upto) assert_int_equal(ms_compact(&desc, &c, NULL, NULL), MS_OK);
        sent = body_of(&desc, &report);
        if (has_text(sent, "srvtoolu") || has_text(sent, "\"s1\"") ||
            !has_text(sent, "[web_search_tool_result left out]") || report.raw_left_out != 1)
            fail_msg("%u: %u left out: %.*s", way, (unsigned)report.raw_left_out, (int)sent.len,
                     sent.ptr);
    }
}

/* What a plan covers ends between the call and its result: before the prompt for the
 * summary the call has none. */
TEST(call_of_a_server_whose_result_stays_is_named_to_the_summary)
{
    ms_request_desc desc = search_over_two_answers();
    ms_compaction_plan plan;
    ms_buf out = {&arena, NULL, 0, 0};
    ms_error err;
    desc.opts.model = MS_STR("m");
    assert_int_equal(ms_compact_plan(&desc, 1, &plan, NULL), MS_OK);
    if (ms_compact_request(&desc, &plan, MS_STR("sum up"), ms_buf_write, &out, &err) != MS_OK)
        fail_msg("%s", err.message);
    ms_str sent = ms_buf_text(&out);
    if (has_text(sent, "server_tool_use") || !has_text(sent, "[web_search left out]"))
        fail_msg("%.*s", (int)sent.len, sent.ptr);
}

/* A list of Anthropic's blocks that its format has read as one text has blocks, not data. */
TEST(blocks_of_a_server_in_a_text_are_counted)
{
    static const char *const to[] = {"anthropic", "openai"};
    for (size_t i = 0; i < COUNT(to); i++) {
        ms_project_report report;
        ask_anew();
        add(ms_assistant_message(ms_json(MS_STR("[{\"type\":\"text\",\"text\":\"before\"},"
                                                SEARCH_USE "," SEARCH_RESULT
                                                ",{\"type\":\"text\",\"text\":\"after\"}]"))));
        add(ms_user_message(ms_text("v")));
        ms_request_desc desc = desc_of(to[i]);
        ms_str sent = body_of(&desc, &report);
        assert_true(has_text(sent, "before\\n\\nafter"));
        assert_false(has_text(sent, "server_tool_use"));
        assert_int_equal(report.raw_left_out, 2);
        ask_anew();
        add(ms_assistant_message(ms_json(MS_STR("[{\"type\":\"circle\",\"r\":1}]")))); /* data */
        add(ms_user_message(ms_text("v")));
        desc = desc_of(to[i]);
        assert_true(has_text(body_of(&desc, &report), "circle"));
        assert_int_equal(report.raw_left_out, 0);
    }
}

/* An id of an item of Responses is refused without the thinking before it, also where
 * thinking is off. */
TEST(items_have_no_id_where_thinking_is_off)
{
    static const char body[] =
        "{\"object\":\"response\",\"model\":\"m\",\"status\":\"completed\",\"output\":["
        "%s{\"type\":\"message\",\"id\":\"msg_1\",\"status\":\"completed\",\"role\":\"assistant\","
        "\"content\":[{\"type\":\"output_text\",\"text\":\"x\",\"annotations\":[]}]},"
        "{\"type\":\"function_call\",\"id\":\"fc_1\",\"call_id\":\"c\",\"name\":\"f\","
        "\"arguments\":\"{}\",\"status\":\"completed\"}]}";
    for (unsigned thought = 0; thought < 2; thought++)
        for (unsigned on = 0; on < 2; on++) {
            char text[800];
            ask_anew();
            ms_request_desc desc = desc_of("openai-responses");
            desc.opts.thinking = on ? MS_THINKING_ON : MS_THINKING_OFF;
            snprintf(text, sizeof text, body,
                     thought ? "{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[],"
                               "\"encrypted_content\":\"E\"}," : "");
            assert_int_equal(ms_answer(&desc, ms_str_of(text), NULL, NULL), MS_OK);
            add(ms_observation(ms_text("r"), MS_STR("c")));
            ms_str sent = body_of(&desc, NULL);
            bool ids = has_text(sent, "\"msg_1\"") && has_text(sent, "\"fc_1\"");
            bool some = has_text(sent, "\"msg_1\"") || has_text(sent, "\"fc_1\"");
            if (ids != (!thought || on) || some != ids)
                fail_msg("%u %u: %.*s", thought, on, (int)sent.len, sent.ptr);
        }
}

/* Of several choices one is stored, and the others count, as one. */
TEST(choices_beside_the_stored_one_count)
{
    static const char *const rows[][2] = {
        {"openai", "{\"choices\":[{\"index\":0,\"finish_reason\":\"stop\",\"message\":{"
                   "\"content\":\"A\"}},{\"index\":1,\"finish_reason\":\"stop\",\"message\":{"
                   "\"content\":\"B\"}}]}"},
        {"openai", "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"B\"}},{\"index\":0,"
                   "\"delta\":{\"content\":\"A\"}}]}\n\ndata: {\"choices\":[{\"index\":2,\"delta\":"
                   "{\"content\":\"C\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},"
                   "\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[]}\n\ndata: [DONE]\n\n"},
        {"gemini", "{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"A\"}]},\"finishReason\":"
                   "\"STOP\"},{\"content\":{\"parts\":[{\"text\":\"B\"}]},\"finishReason\":\"STOP\","
                   "\"index\":1}]}"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_answered out;
        ask_anew();
        ms_request_desc desc = desc_of(rows[i][0]);
        assert_int_equal(ms_answer(&desc, ms_str_of(rows[i][1]), &out, NULL), MS_OK);
        assert_int_equal(out.messages, 1);
        assert_int_equal(out.left_out, 1);
    }
}

/* A stream of Converse begins a picture with its format, and sends its bytes after it. */
TEST(picture_of_a_stream_of_bedrock_is_whole)
{
    ms_request_desc desc = desc_of("bedrock");
    ask_anew();
    desc.store = store;
    assert_int_equal(ms_answer(&desc, MS_STR(
        "{\"contentBlockStart\":{\"contentBlockIndex\":0,\"start\":{\"image\":{\"format\":\"png\"}}}}"
        "{\"contentBlockDelta\":{\"contentBlockIndex\":0,\"delta\":{\"image\":{\"source\":{\"bytes\":"
        "\"QUJD\"}}}}}{\"messageStop\":{\"stopReason\":\"end_turn\"}}"), NULL, NULL), MS_OK);
    add(ms_user_message(ms_text("v")));
    ms_str sent = body_of(&desc, NULL);
    if (!has_text(sent, "[{\"image\":{\"format\":\"png\",\"source\":{\"bytes\":\"QUJD\"}}}]"))
        fail_msg("%.*s", (int)sent.len, sent.ptr);
}

/* Computers and searches for tools have results of their own. A computer's call that has
 * no screen goes as that of a function. */
TEST(results_of_computers_and_searches_are_their_own)
{
    static const char body[] =
        "{\"object\":\"response\",\"model\":\"m\",\"status\":\"completed\",\"output\":["
        "{\"type\":\"computer_call\",\"id\":\"cu\",\"call_id\":\"a\",\"pending_safety_checks\":[],"
        "\"status\":\"completed\",\"actions\":[{\"type\":\"screenshot\"}]},"
        "{\"type\":\"computer_call\",\"id\":\"cv\",\"call_id\":\"b\",\"pending_safety_checks\":[],"
        "\"status\":\"completed\",\"action\":{\"type\":\"screenshot\"}},"
        "{\"type\":\"tool_search_call\",\"id\":\"ts\",\"call_id\":\"s\",\"execution\":\"client\","
        "\"arguments\":{\"q\":1},\"status\":\"completed\"},"
        "{\"type\":\"tool_search_call\",\"id\":\"tt\",\"call_id\":null,\"execution\":\"server\","
        "\"arguments\":{\"q\":1},\"status\":\"completed\"}]}";
    ms_answered out;
    char why[PROVIDER_LINT_TEXT];
    ask_anew();
    ms_request_desc desc = desc_of("openai-responses");
    assert_int_equal(ms_answer(&desc, ms_str_of(body), &out, NULL), MS_OK);
    assert_int_equal(out.calls, 3);
    add(ms_observation(ms_json(MS_STR("[{\"type\":\"image\",\"source\":{\"type\":\"base64\","
                                      "\"media_type\":\"image/png\",\"data\":\"aGk=\"}}]")),
                       MS_STR("a")));
    add(ms_observation(ms_text("no screen"), MS_STR("b")));
    add(ms_observation(ms_json(MS_STR("[{\"type\":\"function\",\"name\":\"f\",\"parameters\":{}}]")),
                       MS_STR("s")));
    ms_str sent = body_of(&desc, NULL);
    static const char *const parts[] = {
        "\"call_id\":\"a\",\"pending_safety_checks\":[]",
        "{\"type\":\"computer_call_output\",\"call_id\":\"a\",\"output\":{\"type\":"
        "\"computer_screenshot\",\"image_url\":\"data:image/png;base64,aGk=\"}}",
        "{\"type\":\"function_call\",\"call_id\":\"b\",\"name\":\"computer\",\"arguments\":",
        "{\"type\":\"function_call_output\",\"call_id\":\"b\",\"output\":\"no screen\"}",
        "{\"type\":\"tool_search_output\",\"call_id\":\"s\",\"execution\":\"client\",\"tools\":[{"
        "\"type\":\"function\",\"name\":\"f\",\"parameters\":{}}]}",
        "\"id\":\"tt\"",
    };
    for (size_t i = 0; i < COUNT(parts); i++)
        if (!has_text(sent, parts[i]))
            fail_msg("%.*s\nhas not\n%s", (int)sent.len, sent.ptr, parts[i]);
    const char *no = provider_lint("openai-responses",
                                   provider_lint_part("openai-responses", sent, &arena), why);
    if (no != NULL) fail_msg("%s\n%.*s", no, (int)sent.len, sent.ptr);
}

/* What a program gives as a result of an item of Responses does not have to have the form
 * of its output: text is what a shell printed, else the call goes as that of a function. */
TEST(results_that_do_not_fit_their_item_go_to_a_function)
{
    static const struct {
        const char *item, *result; /* a list or an object: JSON */
        unsigned wrapped;
        const char *sent;
    } rows[] = {
        {"shell_call", "[\"p\",\"q\"]", 0, "\"stdout\":\"[\\\"p\\\",\\\"q\\\"]\""},
        {"shell_call", "[{\"stdout\":\"x\"}]", 0, "\"stdout\":\"[{\\\"stdout"},
        {"shell_call", "[{\"stdout\":\"x\",\"stderr\":\"\",\"outcome\":{\"type\":\"exit\"}}]", 0,
         "\"stdout\":\"[{\\\"stdout"},
        {"shell_call", "[{\"stdout\":\"x\",\"stderr\":\"\",\"outcome\":{\"type\":\"timeout\"}},7]",
         0, "\"stdout\":\"[{\\\"stdout"},
        {"shell_call", "[{\"stdout\":\"x\",\"stderr\":\"\",\"outcome\":{\"type\":\"timeout\"}}]", 0,
         "\"output\":[{\"stdout\":\"x\""},
        {"shell_call", "PICTURE", 1, "\"type\":\"function_call_output\""},
        {"shell_call", "[{\"stdout\":1,\"stderr\":\"\",\"outcome\":{\"type\":\"timeout\"}}]", 0,
         "\"stdout\":\"[{\\\"stdout"},
        {"shell_call", "[{\"stdout\":\"x\",\"stderr\":\"\"}]", 0, "\"stdout\":\"[{\\\"stdout"},
        {"shell_call", "[{\"stdout\":\"x\",\"stderr\":\"\",\"outcome\":{}}]", 0,
         "\"stdout\":\"[{\\\"stdout"},
        {"shell_call", "[{\"stdout\":\"x\",\"stderr\":\"\",\"outcome\":{\"type\":\"killed\"}}]", 0,
         "\"stdout\":\"[{\\\"stdout"},
        {"shell_call", "[{\"stdout\":\"x\",\"stderr\":\"\",\"outcome\":{\"type\":\"exit\",\"exit_code\":"
         "\"0\"}}]", 0, "\"stdout\":\"[{\\\"stdout"},
        {"shell_call", "{\"a\":1}", 0, "\"stdout\":\"{\\\"a\\\":1}\""},
        {"local_shell_call", "text", 0, "\"type\":\"local_shell_call_output\""},
        {"local_shell_call", "PICTURE", 1, "\"type\":\"function_call_output\""},
        {"apply_patch_call", "done", 0, "\"type\":\"apply_patch_call_output\""},
        {"apply_patch_call", "PICTURE", 1, "\"type\":\"function_call_output\""},
        {"computer_call", "{\"ok\":true}", 1, "\"type\":\"function_call_output\""},
        {"computer_call", "{\"type\":\"computer_screenshot\",\"file_id\":\"f\"}", 0,
         "\"output\":{\"type\":\"computer_screenshot\",\"file_id\":\"f\"}"},
        {"computer_call", "{\"type\":\"other\",\"file_id\":\"f\"}", 1,
         "\"type\":\"function_call_output\""},
        {"computer_call", "[\"x\"]", 1, "\"type\":\"function_call_output\""},
        {"computer_call", "PICTURE", 0, "\"image_url\":\"data:image/png;base64,aGk=\""},
        {"computer_call", "[{\"type\":\"image_url\",\"image_url\":{\"url\":\"https://example.org/a\"}}]",
         0, "\"type\":\"computer_screenshot\",\"image_url\":\"https://example.org/a\""},
        {"computer_call", "[{\"type\":\"input_image\",\"file_id\":\"f\"}]", 1,
         "\"type\":\"function_call_output\""},
        {"computer_call", "[{\"type\":\"document\",\"source\":{\"type\":\"base64\",\"media_type\":"
         "\"application/pdf\",\"data\":\"JVBERg==\"}}]", 1, "\"type\":\"function_call_output\""},
        {"tool_search_call", "PICTURE", 1, "\"type\":\"function_call_output\""},
        {"tool_search_call", "", 0, "\"tools\":[]"},
        {"tool_search_call", "[]", 0, "\"tools\":[]"},
        {"tool_search_call", "[{\"type\":\"function\",\"name\":\"f\"}]", 0, "\"tools\":[{"},
        {"tool_search_call", "[\"f\"]", 1, "\"type\":\"function_call_output\""},
        {"tool_search_call", "it failed", 1, "\"output\":\"it failed\""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char body[600], why[PROVIDER_LINT_TEXT];
        ms_project_report report;
        ask_anew();
        ms_request_desc desc = desc_of("openai-responses");
        snprintf(body, sizeof body,
                 "{\"object\":\"response\",\"model\":\"m\",\"status\":\"completed\",\"output\":["
                 "{\"type\":\"%s\",\"id\":\"a\",\"call_id\":\"a\",\"status\":\"completed\","
                 "\"pending_safety_checks\":[],\"execution\":\"client\",\"arguments\":{},"
                 "\"operation\":{\"type\":\"delete_file\",\"path\":\"p\"},"
                 "\"action\":{\"type\":\"exec\",\"command\":[\"ls\"],\"commands\":[\"ls\"],"
                 "\"env\":{}}}]}", rows[i].item);
        assert_int_equal(ms_answer(&desc, ms_str_of(body), NULL, NULL), MS_OK);
        ms_str result = ms_str_of(rows[i].result);
        if (result.ptr[0] == 'P')
            result = MS_STR("[{\"type\":\"text\",\"text\":\"t\"},{\"type\":\"image\",\"source\":{"
                            "\"type\":\"base64\",\"media_type\":\"image/png\",\"data\":\"aGk=\"}}]");
        bool json = result.ptr[0] == '[' || result.ptr[0] == '{';
        add(ms_observation(json ? ms_json(result) : ms_text_n(result), MS_STR("a")));
        ms_str sent = body_of(&desc, &report);
        if (!has_text(sent, rows[i].sent) || report.wrapped != rows[i].wrapped)
            fail_msg("%zu: %u wrapped: %.*s", i, (unsigned)report.wrapped, (int)sent.len, sent.ptr);
        const char *no = provider_lint(
            "openai-responses", provider_lint_part("openai-responses", sent, &arena), why);
        if (no != NULL) fail_msg("%zu: %s\n%.*s", i, no, (int)sent.len, sent.ptr);
    }
}

/* DeepSeek counts cached tokens in a member of its own. */
TEST(cached_tokens_are_counted_where_deepseek_has_them)
{
    ms_request_desc desc = desc_of("deepseek");
    ms_answered out;
    assert_int_equal(ms_answer(&desc, MS_STR("{\"choices\":[{\"message\":{\"content\":\"x\"},"
                                             "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,"
                                             "\"completion_tokens\":1,\"prompt_cache_hit_tokens\":7}}"),
                               &out, NULL), MS_OK);
    assert_int_equal(out.usage.cached_tokens, 7);
    assert_int_equal(out.usage.input_tokens, 9);
}

/* Thinking is a part of the output of Anthropic, which counts it in a member of its own.
 * Gemini counts what the server's tools returned to the model apart from the input. */
TEST(tokens_are_counted_where_providers_have_them_apart)
{
    static const struct {
        const char *provider, *body;
        uint64_t input, output, cached, reasoning;
    } rows[] = {
        {"anthropic", "{\"type\":\"message\",\"content\":[{\"type\":\"text\",\"text\":\"x\"}],"
                      "\"stop_reason\":\"end_turn\",\"usage\":{\"input_tokens\":5,"
                      "\"cache_creation_input_tokens\":2,\"cache_read_input_tokens\":1,"
                      "\"output_tokens\":9,\"output_tokens_details\":{\"thinking_tokens\":4}}}",
         8, 9, 1, 4},
        {"gemini", "{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"x\"}]},\"finishReason\":"
                   "\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":7,\"cachedContentTokenCount\":2,"
                   "\"candidatesTokenCount\":8,\"thoughtsTokenCount\":3,"
                   "\"toolUsePromptTokenCount\":50,\"totalTokenCount\":68}}",
         57, 11, 2, 3},
        {"gemini-interactions", "{\"status\":\"completed\",\"steps\":[],\"usage\":{"
                                "\"total_input_tokens\":7,\"total_output_tokens\":8,"
                                "\"total_thought_tokens\":3,\"total_tool_use_tokens\":50,"
                                "\"total_tokens\":68}}",
         57, 11, 0, 3},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_answered out;
        ask_anew();
        ms_request_desc desc = desc_of(rows[i].provider);
        assert_int_equal(ms_answer(&desc, ms_str_of(rows[i].body), &out, NULL), MS_OK);
        assert_int_equal(out.usage.input_tokens, rows[i].input);
        assert_int_equal(out.usage.output_tokens, rows[i].output);
        assert_int_equal(out.usage.cached_tokens, rows[i].cached);
        assert_int_equal(out.usage.reasoning_tokens, rows[i].reasoning);
    }
}

/* A proxy made a second request in the middle: what came of the first is void. */
TEST(answer_begins_anew_when_a_second_message_starts)
{
    static const char body[] =
        "data: {\"type\":\"message_start\",\"message\":{\"model\":\"m\"}}\n\n"
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":"
        "\"text\",\"text\":\"void\"}}\n\n"
        "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":"
        "\"tool_use\",\"id\":\"a\",\"name\":\"rm\",\"input\":{}}}\n\n"
        "data: {\"type\":\"message_start\",\"message\":{\"model\":\"m\"}}\n\n"
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":"
        "\"text\",\"text\":\"good\"}}\n\n"
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n";
    for (size_t step = 0; step < sizeof body; step++) {
        answer_case c = {"anew", "anthropic", "", NULL, body, "", 0, 0, 0, 0, 0, ""};
        ms_str got = stored_of(&c, step);
        if (!ms_str_equal(got, MS_STR("assistant_message 0|good||0 ||\n")))
            fail_msg("parts of %zu: %.*s", step, (int)got.len, got.ptr);
    }
}

/* Arguments by paths that do not fit together, or that are not complete, are no call. */
TEST(call_is_not_run_when_its_arguments_are_not_whole)
{
    static const struct {
        const char *parts;
        ms_result code;
    } rows[] = {
        {"{'partialArgs':[{'jsonPath':'$.a','stringValue':'x'}]}", MS_OK},
        {"{'partialArgs':[{'jsonPath':'$.a','stringValue':'x','willContinue':true}],"
         "'willContinue':true}", MS_E_MISSING},
        {"{'partialArgs':[{'jsonPath':'$.a','numberValue':1},{'jsonPath':'$.a.b',"
         "'numberValue':1}]}", MS_E_SYNTAX},
        {"{'partialArgs':[{'jsonPath':'$.a.b','numberValue':1},{'jsonPath':'$.a',"
         "'numberValue':1}]}", MS_E_SYNTAX},
        {"{'partialArgs':[{'jsonPath':'a','numberValue':1}]}", MS_E_SYNTAX},
        {"{'partialArgs':[{'jsonPath':'$','numberValue':1}]}", MS_E_SYNTAX},
        {"{'partialArgs':[{'jsonPath':'$[','numberValue':1}]}", MS_E_SYNTAX},
        {"{'partialArgs':[{'numberValue':1}]}", MS_E_SYNTAX},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char body[600];
        ms_request_desc desc = desc_of("gemini");
        ms_answered out;
        snprintf(body, sizeof body, "{'candidates':[{'content':{'parts':[{'functionCall':{"
                 "'name':'f','willContinue':true}},{'functionCall':%s}]},'finishReason':"
                 "'STOP'}]}", rows[i].parts);
        for (char *p = body; *p != '\0'; p++)
            if (*p == '\'') *p = '"';
        ms_result code = ms_answer(&desc, ms_str_of(body), &out, NULL);
        if (code != rows[i].code || (code != MS_OK && (out.calls > 0 || out.messages > 0)))
            fail_msg("row %zu: %d, %zu calls", i, (int)code, out.calls);
    }
}

/* An event has its data in several lines, and comments between them. A body is no stream:
 * a line of it can begin with a colon. */
TEST(streamed_answer_is_stored_when_comments_are_within_an_event)
{
    static const char wanted[] = "assistant_message 0|a||0 ||\n";
    must_answer("data: {\"choices\":[{\"delta\"\r\n: }\"ping {\r\ndata::\n:\n:,\n"
                "data: {\"content\":\"a\"},\n: }}\ndata:\"finish_reason\":\"stop\"}]}\n\n"
                ": \"\n\ndata: [DONE]\n\n", wanted);
    must_answer("{\"choices\"\n:[{\"message\"\n:{\"content\"\n:\"a\"},\"finish_reason\"\n"
                ":\"stop\"}]}\n", wanted);
}

/* The id of a message is not that of its call, which in this form has none. */
TEST(answer_has_no_id_of_a_call_when_it_has_the_old_form)
{
    must_answer("{\"choices\":[{\"message\":{\"id\":\"msg_1\",\"function_call\":{\"name\":\"f\","
                "\"arguments\":\"{}\"}},\"finish_reason\":\"function_call\"}]}",
                "action 0||f|1 {}||\n");
}

/* Readers see what has come; nobody ends it: it stays, unfinished. */
TEST(streamed_answer_stays_unfinished_when_its_writer_dies)
{
    const answer_case *c = &provider_answers[2];
    ms_request_desc desc = desc_of(c->provider);
    ms_answer_stream a;
    ms_query query = query_of(CHAT, 0);
    ms_cursor it;
    size_t n = 0;
    desc.stream.every_part = true;
    assert_int_equal(ms_answer_begin(&a, &desc, NULL), MS_OK);
    const char *end = strstr(c->stream, " look.");
    assert_int_equal(ms_answer_feed(&a, ms_str_n(c->stream, (size_t)(end - c->stream)), NULL),
                     MS_OK);
    query.arena = &arena;
    EACH (msg, store, &query, &it) {
        static const char *const texts[] = {"Two \"places\".", "", "Let me"};
        assert_true(ms_flags(msg) & MS_FLAG_UNFINISHED);
        assert_true(ms_str_equal(ms_content(msg).text, ms_str_of(texts[n++])));
    }
    assert_int_equal(n, 3);
    ms_arena_deinit(&a.own);
}

/* The provider's end does not come, or an error: what has come is kept, unfinished, and
 * the code says why. Its thinking is not sent. */
TEST(streamed_answer_is_kept_when_it_ends_early)
{
    static const char error[] =
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
        "\"message\":\"Overloaded\"}}\n\n";
    const answer_case *c = &provider_answers[2];
    const char *end = strstr(c->stream, "event: message_delta");
    for (int with_error = 0; with_error < 2; with_error++) {
        ms_request_desc desc = desc_of(c->provider);
        ms_answer_stream a;
        ms_answered out;
        ms_error err;
        (void)open_store(NULL);
        desc.store = store;
        add(ms_user_message(ms_text("u")));
        assert_int_equal(ms_answer_begin(&a, &desc, NULL), MS_OK);
        assert_int_equal(
            ms_answer_feed(&a, ms_str_n(c->stream, (size_t)(end - c->stream)), NULL), MS_OK);
        if (with_error) {
            assert_int_equal(ms_answer_feed(&a, ms_str_of(error), &err), MS_E_REFUSED);
            assert_non_null(strstr(err.message, "Overloaded"));
        }
        memset(&err, 0, sizeof err);
        assert_int_equal(ms_answer_end(&a, &out, &err),
                         with_error ? MS_E_REFUSED : MS_E_MISSING);
        assert_non_null(strstr(err.message, with_error ? "Overloaded" : "complete"));
        assert_int_equal(out.messages, 5);
        assert_int_equal(ms_answer_feed(&a, MS_STR("{}"), &err), MS_E_CLOSED);
        assert_int_equal(ms_answer_end(&a, &out, &err), MS_E_CLOSED);
        assert_false(has_text(asked(c), "c2ln"));
        const ms_msg *msg;
        assert_int_equal(ms_get_by_seq(store, 4, NULL, &msg, NULL), MS_OK);
        assert_true(ms_flags(msg) & MS_FLAG_UNFINISHED);
        assert_true(ms_str_equal(ms_content(msg).text, MS_STR("Let me look.")));
    }
}

/* A loop that asks the end alone runs no call of which a part is missing. */
TEST(end_of_an_answer_is_the_failure_of_its_feed)
{
    static const char call[] =
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c1\","
        "\"function\":{\"name\":\"rm\",\"arguments\":\"{\\\"path\\\":\\\"\"}}]}}]}\n";
    ms_request_desc desc = desc_of("openai");
    ms_answer_stream a;
    ms_answered out;
    ms_error first, again, end;
    memset(&again, 0, sizeof again);
    memset(&end, 0, sizeof end);
    assert_int_equal(ms_answer_begin(&a, &desc, NULL), MS_OK);
    assert_int_equal(ms_answer_feed(&a, ms_str_of(call), NULL), MS_OK);
    assert_int_equal(ms_answer_feed(&a, MS_STR("{\"error\":\"overloaded\"}"), &first),
                     MS_E_REFUSED);
    assert_int_equal(ms_answer_feed(&a, MS_STR("{}"), &again), MS_E_REFUSED);
    assert_string_equal(again.message, first.message);
    assert_int_equal(ms_answer_end(&a, &out, &end), MS_E_REFUSED);
    assert_int_equal(end.code, MS_E_REFUSED);
    assert_string_equal(end.message, "openai answered: overloaded");
    assert_int_equal(out.messages, 1);
    const ms_msg *msg;
    assert_int_equal(ms_get_by_seq(store, out.first_seq, NULL, &msg, NULL), MS_OK);
    assert_true(ms_flags(msg) & MS_FLAG_UNFINISHED);
}

/* Every string that the description had is freed before the first byte comes. */
TEST(answer_keeps_copies_when_its_description_is_gone)
{
    static const char *const words[] = {"chat", "agent", "turn", "gpt", "mine"};
    for (int by_memory = 0; by_memory < 2; by_memory++) {
        char *text[COUNT(words)];
        ms_memory *memory = (ms_memory *)malloc(sizeof *memory);
        ms_request_desc *desc = (ms_request_desc *)calloc(1, sizeof *desc);
        ms_profile *profile = (ms_profile *)malloc(sizeof *profile);
        ms_answer_stream a;
        ms_answered out;
        ms_str extra, member;
        assert_true(memory != NULL && desc != NULL && profile != NULL);
        for (size_t i = 0; i < COUNT(words); i++) text[i] = strdup(words[i]);
        *profile = *ms_profile_find(MS_STR("openai"));
        profile->name = text[4];
        desc->profile = profile;
        desc->turn_id = ms_str_of(text[2]);
        desc->opts.model = ms_str_of(text[3]);
        ms_memory_init(memory, store, ms_str_of(text[0]), ms_str_of(text[1]));
        if (by_memory) desc->memory = memory;
        else desc->store = store;
        desc->location = by_memory ? ms_str_of(NULL) : ms_str_of(text[0]);
        if (!by_memory) desc->opts.agent_key = ms_str_of(text[1]);
        assert_int_equal(ms_answer_begin(&a, desc, NULL), MS_OK);
        for (size_t i = 0; i < COUNT(words); i++) {
            memset(text[i], 'Z', strlen(words[i]));
            free(text[i]);
        }
        memset(memory, 'Z', sizeof *memory);
        free(memory);
        memset(desc, 'Z', sizeof *desc);
        free(desc);
        memset(profile, 'Z', sizeof *profile);
        free(profile);
        assert_int_equal(ms_answer_feed(&a, MS_STR("{\"choices\":[{\"delta\":"
            "{\"reasoning_content\":\"hm\"},\"finish_reason\":\"stop\"}]}"), NULL), MS_OK);
        assert_int_equal(ms_answer_end(&a, &out, NULL), MS_OK);
        const ms_msg *msg;
        assert_int_equal(ms_get_by_seq(store, out.first_seq, NULL, &msg, NULL), MS_OK);
        assert_true(is_word(test_location(msg), "chat"));
        assert_true(is_word(test_agent_key(msg), "agent"));
        assert_true(is_word(test_turn_id(msg), "turn"));
        assert_true(ms_json_member(ms_get(msg, MS_F_EXTRA).text, MS_STR("signed"), &extra));
        assert_true(ms_json_member(extra, MS_STR("provider"), &member));
        assert_true(is_word(member, "\"mine\""));
        assert_true(ms_json_member(extra, MS_STR("model"), &member));
        assert_true(is_word(member, "\"gpt\""));
    }
}

/* ---- other writers beside a streamed answer ---- */

/* Who writes between the messages of an answer: a user, another agent's text, call and
 * result, a broadcast, another streamed answer. */
enum { BY_NOBODY, BY_USER, BY_AGENT, BY_CALL, BY_ALL, BY_STREAM, WRITERS };

static void write_beside(int who)
{
    static unsigned n;
    char id[16];
    if (who == BY_NOBODY) return;
    snprintf(id, sizeof id, "other%u", n++);
    ms_envelope m = who == BY_USER   ? ms_user_message(ms_text("wait"))
                    : who == BY_CALL ? ms_action(MS_STR("g"), ms_json(MS_STR("{}")),
                                                 ms_str_of(id))
                    : who == BY_ALL ? ms_message(MS_T_GLOBAL_OBSERVATION, ms_text("fire"))
                                    : ms_assistant_message(ms_text("other words"));
    if (who != BY_USER && who != BY_ALL) m.agent_key = MS_STR("other");
    add(m);
    if (who != BY_CALL) return;
    m = ms_observation(ms_text("other result"), ms_str_of(id));
    m.agent_key = MS_STR("other");
    add(m);
}

/* Ids that are made of numbers of messages, "call_17", without these. */
static ms_str without_numbers(ms_str text)
{
    char *out = (char *)ms_arena_alloc(&arena, text.len + 1);
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        bool digit = text.ptr[i] >= '0' && text.ptr[i] <= '9';
        if (!digit || n < 5 || memcmp(out + n - 5, "call_", 5) != 0) out[n++] = text.ptr[i];
    }
    out[n] = '\0';
    return ms_str_n(out, n);
}

/* A stream in pieces of 24 bytes; another writer writes behind each. With its results,
 * what the model said goes back as one turn. Returns how much thinking is missing. */
static uint64_t must_stay_one_turn(const answer_case *c, int who)
{
    ms_request_desc desc = desc_of(c->provider);
    ms_answer_stream a, b;
    ms_answered out;
    ms_error err;
    ms_project_report report;
    size_t len = strlen(c->stream);
    ask_anew();
    desc.store = store;
    desc.opts.agent_key = MS_STR("me");
    desc.opts.model = ms_str_of(c->model);
    desc.opts.thinking = true;
    ms_request_desc other = desc;
    other.opts.agent_key = MS_STR("other");
    assert_int_equal(ms_answer_begin(&a, &desc, &err), MS_OK);
    if (who == BY_STREAM) assert_int_equal(ms_answer_begin(&b, &other, &err), MS_OK);
    for (size_t at = 0; at < len; at += 24) {
        ms_str piece = ms_str_n(c->stream + at, len - at < 24 ? len - at : 24);
        assert_int_equal(ms_answer_feed(&a, piece, &err), MS_OK);
        if (who == BY_STREAM) assert_int_equal(ms_answer_feed(&b, piece, &err), MS_OK);
        else write_beside(who);
    }
    if (who == BY_STREAM) assert_int_equal(ms_answer_end(&b, NULL, &err), MS_OK);
    assert_int_equal(ms_answer_end(&a, &out, &err), MS_OK);
    number_must_be(c, "messages", out.messages, c->messages);
    ms_query query = query_of(CHAT, 0);
    ms_cursor it;
    EACH (msg, store, &query, &it) {
        ms_envelope m = ms_observation(ms_text("r"), ms_get(msg, MS_F_CALL_ID).text);
        m.agent_key = test_agent_key(msg);
        if (ms_type_of(msg) == MS_T_ACTION && is_word(m.agent_key, "me")) add(m);
    }
    ms_str body = body_of(&desc, &report);
    if (!has_text(without_numbers(body), without_numbers(ms_str_of(c->sent)).ptr))
        fail_msg("%s beside %d:\n%.*s\nhas not\n%s", c->name, who, (int)body.len, body.ptr,
                 c->sent);
    return report.thinking_missing;
}

TEST(streamed_answer_stays_one_turn_whoever_writes_beside_it)
{
    for (size_t i = 0; i < answer_count; i++) {
        const answer_case *c = &provider_answers[i];
        if (c->stream == NULL) continue;
        uint64_t missing = must_stay_one_turn(c, BY_NOBODY);
        if (has_text(ms_str_of(c->sent), "\"signature\"")) assert_int_equal(missing, 0);
        for (int who = BY_NOBODY + 1; who < WRITERS; who++)
            number_must_be(c, "thinking_missing", must_stay_one_turn(c, who), missing);
    }
}

/* The second call is still being written when the result of the first is there. */
TEST(streamed_answer_stays_one_turn_when_a_call_is_answered_early)
{
    ms_request_desc desc = desc_of("openai");
    ms_answer_stream a;
    add(ms_user_message(ms_text("u")));
    assert_int_equal(ms_answer_begin(&a, &desc, NULL), MS_OK);
    for (int i = 0; i < 2; i++) {
        char text[200];
        snprintf(text, sizeof text, "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":%d,"
                 "\"id\":\"c%d\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}}]}",
                 i, i);
        assert_int_equal(ms_answer_feed(&a, ms_str_of(text), NULL), MS_OK);
        snprintf(text, sizeof text, "c%d", i);
        add(ms_observation(ms_text("r"), ms_str_of(text)));
    }
    assert_int_equal(ms_answer_feed(&a, MS_STR("{\"choices\":[{\"delta\":{},"
        "\"finish_reason\":\"stop\"}]}"), NULL), MS_OK);
    assert_int_equal(ms_answer_end(&a, NULL, NULL), MS_OK);
    ms_str body = body_of(&desc, NULL);
    if (!has_text(body, "\"id\":\"c0\",\"type\":\"function\",\"function\":{\"name\":\"f\","
                        "\"arguments\":\"{}\"}},{\"id\":\"c1\"") ||
        has_text(body, NEVER_ANSWERED))
        fail_msg("%.*s", (int)body.len, body.ptr);
}

/* Only where others wrote does a message name the first one of its answer. */
TEST(messages_of_a_stream_name_their_answer_where_others_wrote)
{
    for (int between = 0; between < 2; between++) {
        ms_answer_stream a;
        ms_str number;
        const ms_msg *msg;
        ask_anew();
        ms_request_desc desc = desc_of("openai");
        assert_int_equal(ms_answer_begin(&a, &desc, NULL), MS_OK);
        assert_int_equal(ms_answer_feed(&a, MS_STR("{\"choices\":[{\"delta\":{\"content\":"
            "\"t\"}}]}"), NULL), MS_OK);
        if (between) write_beside(BY_AGENT);
        assert_int_equal(ms_answer_feed(&a, MS_STR("{\"choices\":[{\"delta\":{\"tool_calls\":"
            "[{\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},"
            "\"finish_reason\":\"stop\"}]}"), NULL), MS_OK);
        assert_int_equal(ms_answer_end(&a, NULL, NULL), MS_OK);
        assert_int_equal(ms_get_by_seq(store, between ? 4 : 3, NULL, &msg, NULL), MS_OK);
        assert_int_equal(ms_type_of(msg), MS_T_ACTION);
        ms_str extra = ms_get(msg, MS_F_EXTRA).text;
        assert_int_equal(extra.ptr != NULL, between);
        if (!between) continue;
        assert_true(ms_json_member(extra, MS_STR("answer"), &number));
        assert_true(is_word(number, "2"));
        assert_int_equal(ms_get_by_seq(store, 2, NULL, &msg, NULL), MS_OK);
        assert_null(ms_get(msg, MS_F_EXTRA).text.ptr);
    }
}

/* ---- the type of an answer's texts ---- */

#define SAID "{\"type\":\"message\",\"stop_reason\":\"end_turn\",\"content\":[{\"type\":" \
             "\"text\",\"text\":\"I have finished.\"}]}"

/* Who reads it: the agent itself, its manager, another worker. All in the right role. The
   agent's own request without that text_type has all but plans and data. */
TEST(texts_of_an_answer_have_the_type_that_is_asked_for)
{
    static const struct {
        ms_type type;
        bool manager, other, untyped;
    } rows[] = {
        {MS_T_NONE, true, true, true}, {MS_T_ASSISTANT_MESSAGE, true, true, true},
        {MS_T_FINAL, true, false, true}, {MS_T_SYNTHESIS, true, true, true},
        {MS_T_STRATEGIC_PLAN, true, false, false}, {MS_T_DATA, true, false, false},
        {MS_T_SUGGESTED_PLAN, true, false, false},
        {MS_T_SCRIPT_PLAN, true, false, false},
    };
    ms_str team[] = {MS_STR("ann"), MS_STR("bob")};
    for (size_t i = 0; i < COUNT(rows); i++) {
        const ms_msg *msg;
        ms_memory readers[3];
        ask_anew();
        ms_memory_init(&readers[0], store, CHAT, team[0]);
        ms_memory_init(&readers[1], store, CHAT, MS_STR("boss"));
        readers[1].subordinates = team;
        readers[1].n_subordinates = 2;
        ms_memory_init(&readers[2], store, CHAT, team[1]);
        ms_request_desc desc = {.profile = ms_profile_find(MS_STR("anthropic")),
                                .memory = &readers[0], .text_type = rows[i].type};
        assert_int_equal(ms_answer(&desc, MS_STR(SAID), NULL, NULL), MS_OK);
        assert_int_equal(ms_get_by_seq(store, 2, NULL, &msg, NULL), MS_OK);
        assert_int_equal(ms_type_of(msg), rows[i].type ? rows[i].type
                                                       : MS_T_ASSISTANT_MESSAGE);
        assert_true(is_word(test_agent_key(msg), "ann"));
        for (int r = 0; r < 3; r++) {
            desc.memory = &readers[r];
            ms_str body = body_of(&desc, NULL);
            bool reads = r == 0 || (r == 1 ? rows[i].manager : rows[i].other);
            if (has_text(body, "I have finished.") != reads ||
                has_text(body, "\"assistant\"") != (r == 0) ||
                has_text(body, "[ann] I have finished.") != (reads && r > 0))
                fail_msg("type %d, reader %d: %.*s", (int)rows[i].type, r, (int)body.len,
                         body.ptr);
        }
        desc.memory = &readers[0];
        desc.text_type = MS_T_NONE;
        assert_int_equal(has_text(body_of(&desc, NULL), "I have finished."),
                         rows[i].untyped);
    }
}

/* With its thinking, which is that of the whole answer. */
TEST(agent_reads_its_answers_without_the_conversation)
{
    ms_project_report report;
    ms_memory memory;
    ask_anew();
    ms_memory_init(&memory, store, CHAT, MS_STR("me"));
    memory.no_conversation = true;
    ms_request_desc desc = {.profile = ms_profile_find(MS_STR("anthropic")), .memory = &memory};
    desc.opts.thinking = true;
    assert_int_equal(ms_answer(&desc, MS_STR("{\"type\":\"message\",\"model\":\"m\",\"stop_reason\":"
        "\"tool_use\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"s\"},"
        "{\"type\":\"text\",\"text\":\"I look.\"},{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"f\","
        "\"input\":{}}]}"), NULL, NULL), MS_OK);
    ms_str body = body_of(&desc, &report);
    assert_true(has_text(body, "I look.") && has_text(body, "\"thinking\":\"hm\""));
    assert_false(has_text(body, "\"content\":\"u\""));
    assert_int_equal(report.thinking_missing, 0);
}

/* Blocks that only the provider reads are an agent's own: the hash of the answer has them, and
 * without them its thinking would be left out. */
TEST(agent_reads_blocks_of_its_provider_when_a_memory_is_the_source)
{
    static const struct {
        const char *provider, *body, *block, *thinking;
    } rows[] = {
        {"anthropic",
         "{\"type\":\"message\",\"model\":\"m\",\"stop_reason\":\"tool_use\",\"content\":[{\"type\":"
         "\"thinking\",\"thinking\":\"hm\",\"signature\":\"s\"},{\"type\":\"server_tool_use\","
         "\"id\":\"s\",\"name\":\"web_search\",\"input\":{\"q\":1}},{\"type\":\"tool_use\",\"id\":"
         "\"c\",\"name\":\"f\",\"input\":{}}]}",
         "{\"type\":\"server_tool_use\",\"id\":\"s\"", "\"thinking\":\"hm\""},
        {"openai-responses",
         "{\"object\":\"response\",\"model\":\"m\",\"status\":\"completed\",\"output\":[{\"type\":"
         "\"reasoning\",\"id\":\"rs\",\"summary\":[],\"encrypted_content\":\"E\"},{\"type\":"
         "\"web_search_call\",\"id\":\"ws\",\"status\":\"completed\"},{\"type\":\"function_call\","
         "\"id\":\"fc\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{}\"}]}",
         "{\"type\":\"web_search_call\",\"id\":\"ws\"", "\"encrypted_content\":\"E\""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_project_report report;
        ms_memory memory;
        ask_anew();
        ms_memory_init(&memory, store, CHAT, MS_STR("me"));
        ms_request_desc desc = {.profile = ms_profile_find(ms_str_of(rows[i].provider)),
                                .memory = &memory};
        desc.opts.model = MS_STR("m");
        desc.opts.thinking = MS_THINKING_ON;
        assert_int_equal(ms_answer(&desc, ms_str_of(rows[i].body), NULL, NULL), MS_OK);
        ms_str body = body_of(&desc, &report);
        if (!has_text(body, rows[i].block) || !has_text(body, rows[i].thinking) ||
            report.thinking_missing + report.thinking_left_out != 0)
            fail_msg("%s, missing %u, left out %u: %.*s", rows[i].provider,
                     (unsigned)report.thinking_missing, (unsigned)report.thinking_left_out,
                     (int)body.len, body.ptr);
    }
}

TEST(answer_is_refused_when_no_text_of_an_agent_has_its_type)
{
    static const ms_type types[] = {MS_T_USER_MESSAGE, MS_T_ACTION, MS_T_TEXT, MS_T_TASK,
                                    MS_T_DELEGATION, MS_T_REASONING, MS_T_DELTA,
                                    MS_TYPE_COUNT, (ms_type)-1};
    for (size_t i = 0; i < COUNT(types); i++) {
        ms_request_desc desc = desc_of("anthropic");
        ms_error err;
        desc.text_type = types[i];
        assert_int_equal(ms_answer(&desc, MS_STR(SAID), NULL, &err), MS_E_TYPE);
        assert_string_equal(err.path, "text_type");
    }
    assert_int_equal(spent(), 0);
    assert_true(stored().len == 0);
}

/* A final alone is not told twice; texts beside calls have the type, too. */
TEST(streamed_texts_have_the_type_that_is_asked_for)
{
    ms_request_desc desc = desc_of("openai");
    ms_answer_stream a;
    const ms_msg *msg;
    desc.text_type = MS_T_FINAL;
    assert_int_equal(ms_answer_begin(&a, &desc, NULL), MS_OK);
    assert_int_equal(ms_answer_feed(&a, MS_STR("{\"choices\":[{\"delta\":{\"content\":\"t\"}}]}"),
                                    NULL), MS_OK);
    assert_int_equal(ms_get_by_seq(store, 1, &arena, &msg, NULL), MS_OK);
    assert_int_equal(ms_type_of(msg), MS_T_FINAL);
    assert_int_equal(ms_answer_feed(&a, MS_STR("{\"choices\":[{\"delta\":{},"
        "\"finish_reason\":\"stop\"}]}"), NULL), MS_OK);
    assert_int_equal(ms_answer_end(&a, NULL, NULL), MS_OK);
    assert_int_equal(ms_get_by_seq(store, 1, &arena, &msg, NULL), MS_OK);
    assert_int_equal(ms_type_of(msg), MS_T_FINAL);
    assert_int_equal(ms_flags(msg) & MS_FLAG_UNFINISHED, 0);
}

/* Returns the seconds that an answer of n calls takes, in one event or each in its own. */
static double seconds_of_calls(size_t n, bool streamed)
{
    ms_request_desc desc = desc_of("openai");
    ms_buf body = {&arena, NULL, 0, 0};
    ms_answer_stream a;
    ms_answered out;
    char call[160];
    const char *word = streamed ? "delta" : "message";
    for (size_t i = 0; i < n; i++) {
        size_t index = i * 7919 % n; /* in no order */
        if (i == 0 || streamed) {
            int len = snprintf(call, sizeof call, "{\"choices\":[{\"%s\":{\"tool_calls\":[",
                               word);
            assert_int_equal(ms_buf_write(&body, call, (size_t)len), MS_OK);
        }
        int len = snprintf(call, sizeof call, "%s{\"index\":%zu,\"id\":\"c%zu\",\"function\":"
                           "{\"name\":\"f\",\"arguments\":\"{}\"}}",
                           i > 0 && !streamed ? "," : "", index, i);
        assert_int_equal(ms_buf_write(&body, call, (size_t)len), MS_OK);
        if (i + 1 == n)
            assert_int_equal(ms_buf_write(&body, "]},\"finish_reason\":\"stop\"}]}", 29),
                             MS_OK);
        else if (streamed)
            assert_int_equal(ms_buf_write(&body, "]}}]}\n", 6), MS_OK);
    }
    clock_t begin = clock();
    if (streamed) {
        assert_int_equal(ms_answer_begin(&a, &desc, NULL), MS_OK);
        assert_int_equal(ms_answer_feed(&a, ms_buf_text(&body), NULL), MS_OK);
        assert_int_equal(ms_answer_end(&a, &out, NULL), MS_OK);
    } else {
        assert_int_equal(ms_answer(&desc, ms_buf_text(&body), &out, NULL), MS_OK);
    }
    double took = (double)(clock() - begin) / CLOCKS_PER_SEC;
    assert_int_equal(out.calls, n);
    return took;
}

/* So many calls took over seven seconds when each was searched in a list. */
TEST(answer_takes_linear_time_when_calls_are_many)
{
    assert_true(seconds_of_calls(12000, false) < 5);
    assert_true(seconds_of_calls(12000, true) < 5);
}

TEST(error_of_a_provider_is_reported_when_it_answers_with_one)
{
    static const struct {
        const char *provider, *body, *text;
        ms_result code;
    } rows[] = {
        {"openai", "{\"error\":{\"message\":\"Missing names\",\"type\":\"invalid_request_error\","
                   "\"param\":null,\"code\":null}}", "openai answered: Missing names",
         MS_E_REFUSED},
        {"anthropic", "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\","
                      "\"message\":\"no \\\"max_tokens\\\"\"}}", "no \"max_tokens\"",
         MS_E_REFUSED},
        {"gemini", "[{\"error\":{\"code\":400,\"message\":\"API key not valid\",\"status\":"
                   "\"INVALID_ARGUMENT\"}}]", "API key not valid", MS_E_REFUSED},
        {"gemini", "{\"promptFeedback\":{\"blockReason\":\"SAFETY\"}}", "SAFETY", MS_E_REFUSED},
        {"ollama", "{\"error\":\"model 'x' not found\"}", "model 'x' not found", MS_E_REFUSED},
        {"openai", "{\"object\":\"error\",\"message\":\"Unexpected role\",\"code\":\"3230\"}",
         "answered: Unexpected role", MS_E_REFUSED},
        {"openai", "<html>502 Bad Gateway</html>", "the body is no JSON: it begins with "
                   "<html>502 Bad Gateway</html>", MS_E_MISSING},
        {"openai", "\n<html><style>p {color:red}</style>", "the body is no JSON: it begins "
                   "with <html><style>", MS_E_SYNTAX},
        {"openai", "", "the body is empty", MS_E_MISSING},
        {"openai", " \r\n", "the body is empty", MS_E_MISSING},
        {"openai", "{\"object\":\"list\"}", "the member choices is missing, and the body "
                   "begins with {\"object\":\"list\"}", MS_E_MISSING},
        {"ollama", "{\"detail\":\"Not Found\"}", "the member message is missing, and the "
                   "body begins with {\"detail\":\"Not Found\"}", MS_E_MISSING},
        {"openai", "{\"id\":\"resp_1\",\"object\":\"response\",\"output\":[]}",
         "this is an answer of the Responses API; the profile openai reads one with the "
         "member choices", MS_E_MISSING},
        {"openai", "data: {\"type\":\"response.created\",\"response\":{\"object\":"
                   "\"response\"}}\n\n", "of the Responses API", MS_E_MISSING},
        {"openai", "{\"type\":\"message\",\"content\":[{\"type\":\"text\",\"text\":\"x\"}],"
                   "\"stop_reason\":\"end_turn\"}", "an answer of Anthropic", MS_E_MISSING},
        {"anthropic", "{\"choices\":[{\"message\":{\"content\":\"x\"}}]}",
         "an answer of chat completions; the profile anthropic reads one with the member "
         "content", MS_E_MISSING},
        {"openai", "{\"candidates\":[]}", "an answer of Gemini", MS_E_MISSING},
        {"gemini", "{\"message\":{\"content\":\"x\"},\"done\":true}", "an answer of Ollama",
         MS_E_MISSING},
        {"anthropic", "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":"
                      "\"text\",\"text\":\"x\"}]}", "the answer has no stop_reason: it "
                      "ends before it is complete", MS_E_MISSING},
        {"gemini", "{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"x\"}]}}]}",
         "has no finishReason", MS_E_MISSING},
        {"ollama", "{\"message\":{\"content\":\"x\"},\"done\":false}", "has no done_reason",
         MS_E_MISSING},
        {"openai", "{\"choices\":[{\"message\":{\"content\":\"a\"}}]",
         "the body ends inside of an object", MS_E_MISSING},
        {"openai", "{\"choices\":[{\"delta\":{\"content\":\"a\"}}]}", "before it is complete",
         MS_E_MISSING},
        {"anthropic", "{\"type\":nul}", "", MS_E_SYNTAX},
        {"gemini-interactions", "{\"object\":\"interaction\",\"status\":\"failed\",\"errors\":["
                                "{\"code\":\"x\",\"message\":\"no room\"}]}",
         "gemini-interactions answered: no room", MS_E_REFUSED},
        {"gemini-interactions", "{\"interaction\":{\"object\":\"interaction\",\"status\":"
                                "\"failed\"},\"event_type\":\"interaction.completed\"}",
         "gemini-interactions answered: failed", MS_E_REFUSED},
        {"gemini-interactions", "{\"object\":\"interaction\",\"status\":\"failed\",\"errors\":["
                                "{\"code\":\"x\"}]}", "answered: failed", MS_E_REFUSED},
        {"gemini-interactions", "{\"error\":{\"code\":\"x\",\"message\":\"busy\"},\"event_type\":"
                                "\"error\"}", "answered: busy", MS_E_REFUSED},
        {"gemini-interactions", "{\"object\":\"interaction\",\"status\":\"in_progress\"}",
         "has no interaction.completed", MS_E_MISSING},
        {"cohere", "{\"type\":\"message-end\",\"delta\":{\"error\":\"no room\","
                   "\"finish_reason\":\"ERROR\"}}", "cohere answered: no room", MS_E_REFUSED},
        {"cohere", "{\"message\":\"invalid api token\"}", "answered: invalid api token",
         MS_E_REFUSED},
        {"bedrock", "{\"modelStreamErrorException\":{\"originalStatusCode\":500,"
                    "\"originalMessage\":\"no room\"}}", "bedrock answered: no room",
         MS_E_REFUSED},
        {"bedrock", "{\"internalServerException\":{}}{\"messageStop\":{\"stopReason\":"
                    "\"end_turn\"}}", "bedrock answered: internalServerException", MS_E_REFUSED},
        {"openrouter", "{\"choices\":[{\"error\":{\"code\":502,\"message\":\"no room\"},"
                       "\"message\":{\"content\":\"a\"},\"finish_reason\":\"error\"}]}",
         "openrouter answered: no room", MS_E_REFUSED},
        {"openai", "{\"message\":{\"content\":[]},\"finish_reason\":\"COMPLETE\"}",
         "an answer of Cohere", MS_E_MISSING},
        {"openai", "{\"object\":\"interaction\",\"status\":\"completed\",\"steps\":[]}",
         "an answer of Interactions", MS_E_MISSING},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ms_request_desc desc = desc_of(rows[i].provider);
        ms_answered out;
        ms_error err;
        ms_stat stat;
        memset(&err, 0, sizeof err);
        ms_result code = ms_answer(&desc, ms_str_of(rows[i].body), &out, &err);
        if (code != rows[i].code || strstr(err.message, rows[i].text) == NULL)
            fail_msg("row %zu: %s: %s", i, ms_result_text(code), err.message);
        assert_int_equal(out.messages, 0);
        assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
        assert_int_equal(stat.messages, 0);
    }
}

/* Arguments of Gemini that come in parts, by paths that are none, or too deep. */
TEST(answer_is_refused_when_the_paths_of_its_arguments_are_wrong)
{
    static const char *const parts[] = {
        "{\"jsonPath\":\"a.b\",\"numberValue\":1}",
        "{\"jsonPath\":\"$a\",\"numberValue\":1}",
        "{\"jsonPath\":\"$['a'\",\"numberValue\":1}",
        "{\"jsonPath\":\"$\",\"numberValue\":1}",
        "{\"numberValue\":1}",
        "{\"jsonPath\":\"$a\",\"numberValue\":1},{\"jsonPath\":\"$.a\",\"numberValue\":1}",
        ("{\"jsonPath\":\"$.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a"
         ".a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a\",\"numberValue\":1}"),
    };
    ms_request_desc desc = desc_of("gemini");
    for (size_t i = 0; i < COUNT(parts); i++) {
        char body[600];
        ms_answered out;
        ms_error err;
        snprintf(body, sizeof body, "{\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{"
                                    "\"name\":\"f\",\"partialArgs\":[%s]}}]},\"finishReason\":"
                                    "\"STOP\"}]}", parts[i]);
        ms_result code = ms_answer(&desc, ms_str_of(body), &out, &err);
        if (code != MS_E_SYNTAX || strstr(err.message, "call 'f' come in parts that do not fit "
                                                       "together") == NULL)
            fail_msg("row %zu: %s: %s", i, ms_result_text(code), err.message);
        assert_int_equal(out.messages, 0);
    }
}

/* A profile that a program made may have no name: answers are read, and errors say so. */
TEST(profile_without_a_name_reads_answers)
{
    static const struct {
        const char *provider, *body, *text;
        ms_result code;
    } rows[] = {
        {"openai", "{\"error\":\"no room\"}", "the provider answered: no room", MS_E_REFUSED},
        {"gemini-interactions", "{\"object\":\"interaction\",\"status\":\"failed\"}",
         "the provider answered: failed", MS_E_REFUSED},
        {"openai", "{\"candidates\":[]}", "this is an answer of Gemini; the profile of the "
                   "request reads one with the member choices", MS_E_MISSING},
        {"openai", "{\"choices\":[{\"message\":{\"reasoning\":\"t\",\"content\":\"x\"},"
                   "\"finish_reason\":\"stop\"}]}", "", MS_OK},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_request_desc desc = desc_of(rows[i].provider);
        ms_profile profile = *desc.profile;
        ms_error err = {0};
        profile.name = NULL;
        desc.profile = &profile;
        ms_result code = ms_answer(&desc, ms_str_of(rows[i].body), NULL, &err);
        if (code != rows[i].code || strstr(err.message, rows[i].text) == NULL)
            fail_msg("row %zu: %s: %s", i, ms_result_text(code), err.message);
    }
    ms_str got = stored();
    assert_true(has_text(got, "reasoning 0|t||0 ||{\"signed\":{\"provider\":\"\""));
}

/* A step with more members than are compared with each other: of two of one name that are
 * far apart both stay, and the message has the text. */
TEST(step_has_all_its_members_when_they_are_many)
{
    char members[1200] = "", body[3000];
    for (int i = 0; i < 80; i++)
        snprintf(members + strlen(members), 20, ",\"x%d\":%d", i, i);
    snprintf(body, sizeof body, STEP("0", "{\"type\":\"model_output\"%s}")
             DELTA("0", "{\"type\":\"text\",\"text\":\"a\"}") STOP("0") COMPLETED("completed"),
             members);
    ask_anew();
    ms_request_desc desc = desc_of("gemini-interactions");
    assert_int_equal(ms_answer(&desc, ms_str_of(body), NULL, NULL), MS_OK);
    assert_true(has_text(body_of(&desc, NULL), members));
}

TEST(answer_is_refused_when_its_description_is_wrong)
{
    ms_request_desc desc = desc_of("pydantic-ai");
    ms_profile odd = *ms_profile_at(0);
    assert_int_equal(ms_answer(&desc, MS_STR("{}"), NULL, NULL), MS_E_ARGUMENT);
    desc = desc_of("nobody");
    assert_int_equal(ms_answer(&desc, MS_STR("{}"), NULL, NULL), MS_E_ARGUMENT);
    odd.wire = (ms_wire)(MS_WIRE_COHERE + 1);
    desc.profile = &odd;
    assert_int_equal(ms_answer(&desc, MS_STR("{}"), NULL, NULL), MS_E_ARGUMENT);
    desc = desc_of("openai");
    desc.store = NULL;
    assert_int_equal(ms_answer(&desc, MS_STR("{}"), NULL, NULL), MS_E_ARGUMENT);
    ms_memory empty;
    memset(&empty, 0, sizeof empty);
    desc.memory = &empty;
    assert_int_equal(ms_answer(&desc, MS_STR("{}"), NULL, NULL), MS_E_ARGUMENT);
}

/* The first message was hidden meanwhile, and the second one ended by somebody else. */
TEST(answer_tells_of_the_first_failure_when_several_messages_fail)
{
    static const char body[] =
        "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"th\"}}]}\n"
        "data: {\"choices\":[{\"delta\":{\"content\":\"te\"}}]}\n"
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n";
    ms_request_desc desc = desc_of("openai");
    ms_answer_stream a;
    ms_answered out;
    ms_error err;
    desc.stream.every_part = true;
    assert_int_equal(ms_answer_begin(&a, &desc, &err), MS_OK);
    assert_int_equal(ms_answer_feed(&a, ms_str_of(body), &err), MS_OK);
    assert_int_equal(ms_hide(store, 1, NULL), MS_OK);
    assert_int_equal(ms_stream_recover(store, 2, NULL, NULL), MS_OK);
    assert_int_equal(ms_answer_end(&a, &out, &err), MS_E_HIDDEN);
    assert_int_equal(err.code, MS_E_HIDDEN);
    assert_non_null(strstr(err.message, "message 1"));
}

/* Not enough: a code, and no message. */
static ms_result answer_low_memory(void *answer, ms_arena *in)
{
    const answer_case *c = (const answer_case *)answer;
    ms_request_desc desc = desc_of(c->provider);
    ms_stat stat;
    ms_answered out;
    (void)open_store(NULL);
    desc.store = store;
    desc.arena = in;
    ms_result code = ms_answer(&desc, ms_str_of(c->body), &out, NULL);
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    assert_int_equal(stat.messages, code == MS_OK ? c->messages : 0);
    assert_int_equal(out.messages, stat.messages);
    return code;
}

TEST(answer_stores_nothing_when_memory_ends)
{
    for (size_t i = 0; i < answer_count; i++)
        assert_true(low_memory(answer_low_memory, &provider_answers[i], 24) > 0);
}

/* A model's name for which there was no room leaves no answer without a model. */
TEST(answer_has_its_model_or_is_refused_when_memory_ends)
{
    static uint64_t room[1 << 14];
    static char body[10000], name[9000];
    ms_result code = MS_E_ARENA;
    memset(name, 'm', sizeof name - 1);
    snprintf(body, sizeof body, "{\"model\":\"\\/%s\",\"content\":[{\"type\":\"thinking\","
             "\"thinking\":\"hm\",\"signature\":\"s\"}],\"stop_reason\":\"end_turn\"}", name);
    for (size_t size = 0; code != MS_OK; size += 16) {
        ms_request_desc desc = desc_of("anthropic");
        ms_arena in;
        assert_true(size < sizeof room);
        (void)open_store(NULL);
        desc.store = store;
        test_arena_init_fixed(&in, room, size);
        desc.arena = &in;
        code = ms_answer(&desc, ms_str_of(body), NULL, NULL);
        if (code != MS_OK) assert_int_equal(code, MS_E_ARENA);
    }
    const ms_msg *msg;
    ms_str model;
    assert_int_equal(ms_get_by_seq(store, 1, &arena, &msg, NULL), MS_OK);
    ms_str extra = ms_get(msg, MS_F_EXTRA).text;
    assert_true(ms_json_member(extra, MS_STR("signed"), &extra));
    assert_true(ms_json_member(extra, MS_STR("model"), &model));
    assert_int_equal(model.len, sizeof name - 1 + 3);
}

TEST(streamed_answer_has_all_its_text_when_memory_ends_at_its_end)
{
    static uint64_t room[1 << 12];
    const char *text = provider_answers[0].stream;
    ms_result code = MS_E_ARENA, end = MS_OK;
    size_t len = strlen(text), ended_so = 0;
    for (size_t size = 0; code != MS_OK || end != MS_OK; size += 16) {
        ms_request_desc desc = desc_of("openai");
        ms_answer_stream a;
        ms_arena in;
        (void)open_store(NULL);
        test_arena_init_fixed(&in, room, size);
        desc.store = store;
        desc.arena = &in;
        code = ms_answer_begin(&a, &desc, NULL);
        for (size_t at = 0; code == MS_OK && at < len; at++)
            code = ms_answer_feed(&a, ms_str_n(text + at, 1), NULL);
        end = ms_answer_end(&a, NULL, NULL);
        if (code != MS_OK) continue;
        assert_true(has_text(stored(), "|Let me \xC3\xA9 \"look\".|"));
        ended_so += end != MS_OK;
    }
    assert_true(ended_so > 0);
}

/* Members, names and blocks that are kept as they came, with bytes of no UTF-8 and half
 * of a surrogate pair: each is a replacement character, and the answer is stored. */
TEST(answer_is_stored_repaired_when_its_bytes_are_no_text)
{
    static const struct { const char *provider, *body; } rows[] = {
        {"gemini", "{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"t\",\"thought\":"
                   "true},{\"text\":\"b\",\"x\xFF\":\"\\ud83d\"}]},\"finishReason\":\"STOP\"}]}"},
        {"anthropic", "{\"content\":[{\"type\":\"text\",\"text\":\"b\",\"citations\":[{\"type\":"
                      "\"c\xFF\",\"cited_text\":\"\\ud83d\"}]}],\"stop_reason\":\"end_turn\"}"},
        {"openrouter", "{\"choices\":[{\"message\":{\"content\":\"b\",\"reasoning_details\":[{"
                       "\"type\":\"reasoning.text\xFF\",\"text\":\"\\ud83d\"}]},"
                       "\"finish_reason\":\"stop\"}]}"},
        {"openai-responses", "{\"object\":\"response\",\"output\":[{\"type\":\"reasoning\",\"id\":\"r\xFF\",\"summary\":"
                             "[],\"encrypted_content\":\"\\ud83d\"}],\"status\":\"completed\"}"},
        {"bedrock", "{\"output\":{\"message\":{\"content\":[{\"image\":{\"x\xFF\":"
                    "\"\\ud83d\"}}]}},\"stopReason\":\"end_turn\"}"},
    };
    for (size_t i = 0; i < 2 * COUNT(rows); i++) {
        ms_answer_stream a;
        ms_error err;
        ms_result code;
        ms_str body = ms_str_of(rows[i / 2].body);
        ask_anew();
        ms_request_desc desc = desc_of(rows[i / 2].provider);
        if (i & 1) {
            code = ms_answer(&desc, body, NULL, &err);
        } else {
            assert_int_equal(ms_answer_begin(&a, &desc, &err), MS_OK);
            code = ms_answer_feed(&a, body, &err);
            ms_result end = ms_answer_end(&a, NULL, code == MS_OK ? &err : NULL);
            assert_true(code == MS_OK || end == code);
            code = end;
        }
        if (code != MS_OK) fail_msg("%s: %s", rows[i / 2].provider, err.message);
        ms_str all = stored();
        if (!has_text(all, "\xEF\xBF\xBD") || has_text(all, "\xFF"))
            fail_msg("%s: %.*s", rows[i / 2].provider, (int)all.len, all.ptr);
    }
}

/* Arguments that are JSON in a string have half of a surrogate pair: they are JSON, with
 * a replacement character, as those that are no string. */
TEST(arguments_are_json_when_they_have_half_of_a_pair)
{
    static const char chat[] =
        "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":"
        "\"{\\\"a\\\":\\\"\\\\ud83d\\\"}\"}}]}}]}\n";
    static const struct { const char *provider, *body; size_t calls; } rows[] = {
        {"openai", "{\"choices\":[{\"message\":{\"tool_calls\":[{\"id\":\"c\",\"function\":{"
                   "\"name\":\"f\",\"arguments\":\"{\\\"a\\\":\\\"\\\\ud83d\\\"}\"}}]},"
                   "\"finish_reason\":\"tool_calls\"}]}", 1},
        {"anthropic", "{\"type\":\"message_start\",\"message\":{}}\n{\"type\":"
                      "\"content_block_start\",\"content_block\":{\"type\":\"tool_use\",\"id\":\"c\","
                      "\"name\":\"f\",\"input\":{}}}\n{\"type\":\"content_block_delta\",\"delta\":{"
                      "\"partial_json\":\"{\\\"a\\\":\\\"\\\\ud83d\\\"}\"}}\n{\"delta\":{"
                      "\"stop_reason\":\"tool_use\"}}", 1},
        {"anthropic", "{\"type\":\"message\",\"content\":[{\"type\":\"tool_use\",\"id\":\"c\","
                      "\"name\":\"f\",\"input\":{\"a\":\"\\ud83d\"}}],\"stop_reason\":\"x\"}", 1},
        {"openai-responses", "{\"object\":\"response\",\"status\":\"completed\",\"output\":[{"
                             "\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\","
                             "\"arguments\":\"{\\\"a\\\":\\\"\\\\ud83d\\\"}\"}]}", 1},
        {"gemini-interactions",
         STEP("0", "{\"type\":\"function_call\",\"id\":\"c\",\"name\":\"f\"}")
         DELTA("0", "{\"type\":\"arguments_delta\",\"arguments\":\"{\\\"a\\\":\\\"\\\\ud83d\\\"}\"}")
         STOP("0") COMPLETED("requires_action"), 1},
        {"openai", chat, 2}, /* calls without ids: the second begins after the first */
    };
    for (size_t i = 0; i < 2 * COUNT(rows); i++) {
        char body[1000];
        ms_answered out;
        ms_calls calls;
        size_t n = rows[i / 2].calls;
        answer_case c = {"half", rows[i / 2].provider, "", NULL, body, "", 0, 0, 0, 0, 0, ""};
        ask_anew();
        ms_request_desc desc = desc_of(c.provider);
        snprintf(body, sizeof body, "%s%s", rows[i / 2].body, n > 1 ? chat : "");
        if (n > 1) strcat(body, "{\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}");
        if (i & 1) feed(&c, 7, 7, &out);
        else assert_int_equal(ms_answer(&desc, ms_str_of(body), &out, NULL), MS_OK);
        assert_int_equal(out.calls, n);
        assert_int_equal(ms_pending(&desc, &arena, &calls, NULL), MS_OK);
        assert_int_equal(calls.count, n);
        for (size_t k = 0; k < n; k++) {
            ms_value args = calls.items[k].args;
            if (!args.json || !ms_str_equal(args.text, MS_STR("{\"a\":\"\xEF\xBF\xBD\"}")))
                fail_msg("row %zu: %.*s", i, (int)args.text.len, args.text.ptr);
        }
    }
    static const char custom[] = /* the input of such a call is any text */
        "{\"object\":\"response\",\"status\":\"completed\",\"output\":[{\"type\":"
        "\"custom_tool_call\",\"call_id\":\"c\",\"name\":\"f\",\"input\":"
        "\"{\\\"a\\\": \\\"\\\\ud83d\\\"}\"}]}";
    ms_request_desc desc = desc_of("openai-responses");
    ask_anew();
    desc.store = store;
    assert_int_equal(ms_answer(&desc, ms_str_of(custom), NULL, NULL), MS_OK);
    assert_true(has_text(stored(), "|0 {\"a\": \"\\ud83d\"}|"));
}

/* A store that refuses changes, and with them streams, while `busy`; busy_from: the change
 * of that number alone, counted down. */
static const ms_backend *busy_backend;
static bool busy;
static int busy_from;

static ms_result busy_change(ms_store *s, ms_str location, const ms_record *r, size_t n,
                             const ms_append_opts *opts, ms_error *err)
{
    if (busy || (busy_from > 0 && --busy_from == 0)) {
        if (err != NULL) (void)snprintf(err->message, sizeof err->message, "busy");
        return MS_E_BUSY;
    }
    return busy_backend->change(s, location, r, n, opts, err);
}

TEST(streamed_answer_is_unfinished_when_its_messages_could_not_begin)
{
    static const char *const events[] = {
        "{\"choices\":[{\"delta\":{\"content\":\"Never del\"}}]}",
        "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":\"c\",\"function\":"
        "{\"name\":\"drop\",\"arguments\":\"{\\\"pa\"}}]}}]}",
    };
    for (size_t i = 0; i < COUNT(events); i++) {
        ms_backend odd;
        ms_answer_stream a;
        ms_answered out;
        const ms_msg *msg;
        (void)open_store(NULL);
        ms_request_desc desc = desc_of("openai");
        busy_backend = store->backend;
        odd = *busy_backend;
        odd.change = busy_change;
        store->backend = &odd;
        assert_int_equal(ms_answer_begin(&a, &desc, NULL), MS_OK);
        busy = true;
        assert_int_equal(ms_answer_feed(&a, ms_str_of(events[i]), NULL), MS_E_BUSY);
        busy = false;
        assert_int_equal(ms_answer_end(&a, &out, NULL), MS_E_BUSY);
        assert_int_equal(out.messages, 1);
        assert_int_equal(ms_get_by_seq(store, out.first_seq, &arena, &msg, NULL), MS_OK);
        assert_true(ms_flags(msg) & MS_FLAG_UNFINISHED);
        store->backend = busy_backend;
    }
}

/* The second message has a signature that the store has no room for; or the store refuses
 * the end of the second one. */
TEST(streamed_answer_does_not_seem_complete_when_one_of_its_messages_is_refused)
{
    static const char before[] =
        "{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\",\"thought\":true},"
        "{\"functionCall\":{\"name\":\"f\",\"args\":{}},\"thoughtSignature\":\"";
    static const char after[] =
        "\"},{\"functionCall\":{\"name\":\"g\",\"args\":{}}}]},\"finishReason\":\"STOP\"}]}";
    for (int large = 0; large < 2; large++) {
        ms_answer_stream a;
        ms_answered out;
        ms_calls calls;
        ms_error err;
        ms_mem_desc mem;
        ms_buf body = {&arena, NULL, 0, 0};
        ms_backend odd;
        ms_query query = query_of(CHAT, 0);
        ms_cursor it;
        (void)close_store(NULL);
        reset(NULL);
        memset(&mem, 0, sizeof mem);
        mem.max_message = 1024;
        assert_int_equal(ms_mem_open(&store, &mem, NULL), MS_OK);
        ms_request_desc desc = desc_of("gemini");
        busy_backend = store->backend;
        odd = *busy_backend;
        odd.change = busy_change;
        add_text(&body, before);
        for (int i = 0; i < (large ? 1024 : 4); i++) add_text(&body, "c");
        add_text(&body, after);
        assert_int_equal(ms_answer_begin(&a, &desc, NULL), MS_OK);
        assert_int_equal(ms_answer_feed(&a, ms_buf_text(&body), &err), MS_OK);
        if (!large) store->backend = &odd;
        busy_from = 2;
        assert_int_equal(ms_answer_end(&a, &out, &err), large ? MS_E_TOO_LARGE : MS_E_BUSY);
        busy_from = 0;
        store->backend = busy_backend;
        assert_true(err.message[0] != '\0');
        EACH (msg, store, &query, &it)
            assert_int_equal((ms_flags(msg) & MS_FLAG_UNFINISHED) != 0,
                             ms_seq(msg) > out.first_seq);
        assert_int_equal(ms_pending(&desc, &arena, &calls, NULL), MS_OK);
        assert_int_equal(calls.unfinished, 2);
    }
}

TEST(reason_to_stop_is_cut_between_characters)
{
    static const struct { const char *stop, *want; } rows[] = {
        {"st\\u006fp", "stop"},
        {"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeee", "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"},
        {"eeeeeeeeeeeeeeeeeeeeeeeeeeeeee\\u00e9", "eeeeeeeeeeeeeeeeeeeeeeeeeeeeee"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char body[200];
        ms_answered out;
        ms_request_desc desc = desc_of("openai");
        snprintf(body, sizeof body, "{\"choices\":[{\"message\":{\"content\":\"x\"},"
                 "\"finish_reason\":\"%s\"}]}", rows[i].stop);
        assert_int_equal(ms_answer(&desc, ms_str_of(body), &out, NULL), MS_OK);
        assert_string_equal(out.stop, rows[i].want);
    }
}

TEST(usage_is_noted_when_its_sum_is_too_large)
{
    ms_request_desc desc = desc_of("anthropic");
    const char *body = "{\"type\":\"message\",\"content\":[{\"type\":\"text\",\"text\":"
                       "\"x\"}],\"stop_reason\":\"end_turn\",\"usage\":{\"input_tokens\":"
                       "18446744073709551615,\"output_tokens\":1}}";
    ms_stat stat;
    assert_int_equal(ms_answer(&desc, ms_str_of(body), NULL, NULL), MS_OK);
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    assert_int_equal(stat.changes, 1);
}

/* Reasoning that ends an answer has no item that it belongs to; a custom call whose id
 * comes again has a result of its own kind; a text with a signature stays apart from
 * another one with a signature. */
TEST(answer_is_sent_as_its_provider_takes_it)
{
    static const struct {
        const char *provider, *body, *sent, *not_sent;
    } rows[] = {
        {"openai-responses",
         "{\"object\":\"response\",\"status\":\"incomplete\",\"output\":[{\"type\":\"message\","
         "\"id\":\"msg_1\",\"role\":\"assistant\",\"status\":\"completed\",\"content\":[{\"type\":"
         "\"output_text\",\"text\":\"x\",\"annotations\":[]}]},{\"type\":\"reasoning\",\"id\":"
         "\"rs_1\",\"summary\":[],\"encrypted_content\":\"E\"}]}",
         "\"text\":\"x\"", "rs_1"},
        {"openai-responses",
         "{\"object\":\"response\",\"status\":\"completed\",\"output\":[{\"type\":"
         "\"custom_tool_call\",\"call_id\":\"c\",\"name\":\"f\",\"input\":\"1\"},{\"type\":"
         "\"custom_tool_call\",\"call_id\":\"c\",\"name\":\"f\",\"input\":\"2\"}]}",
         "{\"type\":\"custom_tool_call_output\",\"call_id\":\"c_2\"", "function_call_output"},
        {"gemini",
         "{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\",\"thoughtSignature\":\"Zg==\"},"
         "{\"text\":\"b\",\"thoughtSignature\":\"Zw==\"}]},\"finishReason\":\"STOP\"}]}",
         "{\"text\":\"a\",\"thoughtSignature\":\"Zg==\"},{\"text\":\"b\",\"thoughtSignature\":"
         "\"Zw==\"}", "ab"},
        {"gemini-interactions", /* calls without their ids */
         "{\"object\":\"interaction\",\"status\":\"requires_action\",\"steps\":[{\"type\":"
         "\"function_call\",\"name\":\"g\",\"arguments\":{\"p\":1}}]}",
         "\"name\":\"g\"", "No call"},
        {"openai-responses",
         "{\"object\":\"response\",\"status\":\"completed\",\"output\":[{\"type\":"
         "\"function_call\",\"name\":\"g\",\"arguments\":\"{}\"}]}",
         "\"name\":\"g\"", "No call"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char why[PROVIDER_LINT_TEXT];
        (void)open_store(NULL);
        add(ms_user_message(ms_text("u")));
        ms_request_desc desc = desc_of(rows[i].provider);
        ms_error err;
        if (ms_answer(&desc, ms_str_of(rows[i].body), NULL, &err) != MS_OK)
            fail_msg("%s", err.message);
        add(ms_user_message(ms_text("v")));
        desc.opts.thinking = MS_THINKING_ALL;
        ms_str body = body_of(&desc, NULL);
        ms_str part = provider_lint_part(rows[i].provider, body, &arena);
        const char *no = provider_lint(rows[i].provider, part, why);
        if (no != NULL || !has_text(body, rows[i].sent) || has_text(body, rows[i].not_sent))
            fail_msg("row %zu: %s\n%.*s", i, no != NULL ? no : "", (int)body.len, body.ptr);
    }
}

/* The id of a call of Interactions is what its result names: it goes, also where the
 * thinking before it does not, because the answer was edited. */
TEST(id_of_a_step_is_sent_when_its_thinking_is_left_out)
{
    char why[PROVIDER_LINT_TEXT];
    ms_answered out;
    ms_envelope edited = ms_assistant_message(ms_text("edited"));
    ms_request_desc desc = desc_of("gemini-interactions");
    add(ms_user_message(ms_text("u")));
    desc.opts.model = MS_STR("m");
    desc.opts.thinking = MS_THINKING_ALL;
    assert_int_equal(ms_answer(&desc, MS_STR(
        "{\"object\":\"interaction\",\"model\":\"m\",\"status\":\"requires_action\",\"steps\":["
        "{\"type\":\"thought\",\"signature\":\"c2ln\",\"summary\":[{\"type\":\"text\",\"text\":\"hm\"}]},"
        "{\"type\":\"model_output\",\"content\":[{\"type\":\"text\",\"text\":\"said\"}]},"
        "{\"type\":\"function_call\",\"id\":\"c1\",\"name\":\"g\",\"arguments\":{\"p\":1}}]}"),
        &out, NULL), MS_OK);
    assert_int_equal(ms_amend(store, out.first_seq + 1, &edited, NULL), MS_OK);
    ms_str body = body_of(&desc, NULL);
    ms_str part = provider_lint_part("gemini-interactions", body, &arena);
    const char *no = provider_lint("gemini-interactions", part, why);
    if (no != NULL) fail_msg("%s\n%.*s", no, (int)body.len, body.ptr);
    assert_true(has_text(body, "\"id\":\"c1\""));
    assert_false(has_text(body, "hm"));
}

/* A model that has thought up to its limit has written nothing: its tokens are noted at
 * the newest message of the location, and are lost only where there is none. */
TEST(usage_of_an_answer_without_messages_is_noted)
{
    static const char empty[] =
        "{\"choices\":[{\"message\":{\"content\":null},\"finish_reason\":\"length\"}],"
        "\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":40}}";
    ms_request_desc desc = desc_of("openai");
    ms_envelope ask = ms_user_message(ms_text("?")), other = ms_user_message(ms_text("!"));
    ms_query query = query_of(no_str(), 0);
    ms_answered out;
    ms_cursor it;
    uint64_t seq, about = 0;
    assert_int_equal(ms_answer(&desc, ms_str_of(empty), &out, NULL), MS_OK);
    assert_int_equal(out.usage.output_tokens, 40);
    assert_int_equal(spent(), 0);
    assert_int_equal(ms_append(store, desc.location, &ask, NULL, NULL), MS_OK);
    assert_int_equal(ms_append(store, desc.location, &ask, &seq, NULL), MS_OK);
    assert_int_equal(ms_append(store, MS_STR("elsewhere"), &other, NULL, NULL), MS_OK);
    assert_int_equal(ms_answer(&desc, ms_str_of(empty), &out, NULL), MS_OK);
    assert_int_equal(out.messages, 0);
    assert_int_equal(out.last_seq, 0);
    assert_int_equal(spent(), 9040);
    query.raw = MS_RAW_NOTES;
    EACH (note, store, &query, &it) about = ms_seq(note);
    assert_int_equal(about, seq);
}

/* An answer of which nothing is stored leaves no note either: cut off in its calls, or
 * without its end. */
TEST(usage_of_a_refused_answer_is_not_noted)
{
    static const char *const rows[][2] = {
        {"ollama", "{\"message\":{\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":\"f\","
                   "\"arguments\":{}}}]},\"done\":true,\"done_reason\":\"length\","
                   "\"prompt_eval_count\":3,\"eval_count\":1}"},
        {"anthropic", "{\"type\":\"message\",\"content\":[{\"type\":\"text\",\"text\":\"x\"}],"
                      "\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}"},
    };
    ms_envelope ask = ms_user_message(ms_text("?"));
    ms_answer_stream a;
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_request_desc desc = desc_of(rows[i][0]);
        ms_answered out;
        assert_int_equal(ms_append(store, desc.location, &ask, NULL, NULL), MS_OK);
        assert_int_equal(ms_answer(&desc, ms_str_of(rows[i][1]), &out, NULL), MS_E_MISSING);
        assert_int_equal(out.messages, 0);
        assert_int_equal(spent(), 0);
    }
    ms_request_desc desc = desc_of("openai"); /* a stream that ends before its first message */
    assert_int_equal(ms_answer_begin(&a, &desc, NULL), MS_OK);
    assert_int_equal(ms_answer_feed(&a, MS_STR("data: {\"choices\":[],\"usage\":{"
                                               "\"prompt_tokens\":4}}\n\n"), NULL), MS_OK);
    assert_int_equal(ms_answer_end(&a, NULL, NULL), MS_E_MISSING);
    assert_int_equal(spent(), 0);
}

/* A step of Interactions whose stream ends before it does. */
/* Such calls were left out, with MS_OK. */
TEST(call_without_a_name_makes_the_answer_incomplete)
{
    static const char *const rows[][2] = {
        {"openai", "{\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"a\","
                   "\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\",\"function\":{"
                   "\"arguments\":\"{}\"}}]},\"finish_reason\":\"tool_calls\"}]}"},
        {"openai", "{\"choices\":[{\"message\":{\"tool_calls\":[{\"id\":\"c\",\"function\":{"
                   "\"name\":\"\"}}]},\"finish_reason\":\"tool_calls\"}]}"},
        {"openai-responses", "{\"object\":\"response\",\"status\":\"completed\",\"output\":["
                             "{\"type\":\"function_call\",\"call_id\":\"c\",\"arguments\":"
                             "\"{}\"}]}"},
        {"anthropic", "{\"type\":\"message\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
                      "{\"type\":\"tool_use\",\"id\":\"c\",\"input\":{}}],"
                      "\"stop_reason\":\"tool_use\"}"},
        {"gemini", "{\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"args\":{}}}]},"
                   "\"finishReason\":\"STOP\"}]}"},
        {"gemini-interactions", "{\"object\":\"interaction\",\"status\":\"completed\",\"steps\":["
                                "{\"type\":\"function_call\",\"id\":\"c\",\"arguments\":{}}]}"},
        {"bedrock", "{\"output\":{\"message\":{\"content\":[{\"toolUse\":{\"toolUseId\":\"c\","
                    "\"input\":{}}}]}},\"stopReason\":\"tool_use\"}"},
        {"ollama", "{\"message\":{\"content\":\"\",\"tool_calls\":[{\"function\":{\"arguments\":"
                   "{}}}]},\"done\":true,\"done_reason\":\"stop\"}"},
        {"cohere", "{\"message\":{\"tool_calls\":[{\"id\":\"c\",\"function\":{\"arguments\":"
                   "\"{}\"}}]},\"finish_reason\":\"TOOL_CALL\"}"},
    };
    static const char *const text =
        "a call of the answer has no name: none is to be run; ask again";
    ms_answer_stream answer;
    ms_answered out;
    ms_error err;
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_request_desc desc = desc_of(rows[i][0]);
        for (int whole = 0; whole < 2; whole++) {
            ms_result code;
            ask_anew();
            desc.store = store;
            if (whole) {
                code = ms_answer(&desc, ms_str_of(rows[i][1]), &out, &err);
            } else {
                assert_int_equal(ms_answer_begin(&answer, &desc, NULL), MS_OK);
                assert_int_equal(ms_answer_feed(&answer, ms_str_of(rows[i][1]), NULL), MS_OK);
                code = ms_answer_end(&answer, &out, &err);
            }
            if (code != MS_E_MISSING || strcmp(err.message, text) != 0)
                fail_msg("%s: %d %s", rows[i][0], (int)code, code ? err.message : "");
            assert_int_equal(out.calls, 0);
            assert_int_equal(out.messages, !whole && strstr(rows[i][1], "\"a\"") != NULL);
        }
    }
    /* what has neither name nor anything else is no call */
    ms_request_desc desc = desc_of("openai");
    desc.store = store;
    assert_int_equal(ms_answer(&desc, MS_STR(
        "{\"choices\":[{\"message\":{\"content\":\"a\",\"tool_calls\":[{\"id\":\"\","
        "\"function\":{\"arguments\":\"\"}}]},\"finish_reason\":\"stop\"}]}"), &out,
        NULL), MS_OK);
    assert_int_equal(out.messages, 1);
    assert_int_equal(out.calls, 0);
}

TEST(step_that_does_not_end_is_counted_and_unfinished)
{
    ms_request_desc desc = desc_of("gemini-interactions");
    ms_answer_stream answer;
    ms_answered out;
    const ms_msg *msg;
    assert_int_equal(ms_answer_begin(&answer, &desc, NULL), MS_OK);
    assert_int_equal(ms_answer_feed(&answer, MS_STR(
        "data: {\"index\":0,\"step\":{\"type\":\"thought\"},\"event_type\":\"step.start\"}\n\n"
        "data: {\"index\":0,\"delta\":{\"type\":\"thought_summary\",\"content\":{"
        "\"type\":\"text\",\"text\":\"one\"}},\"event_type\":\"step.delta\"}\n\n"), NULL), MS_OK);
    assert_int_equal(ms_answer_end(&answer, &out, NULL), MS_E_MISSING);
    assert_int_equal(out.messages, 1);
    assert_int_equal(out.first_seq, out.last_seq);
    assert_int_equal(ms_get_by_seq(store, out.first_seq, &arena, &msg, NULL), MS_OK);
    assert_true(ms_str_equal(ms_content(msg).text, MS_STR("one")));
    assert_true(ms_flags(msg) & MS_FLAG_UNFINISHED);
    assert_int_equal(ms_answer(&desc, MS_STR(
        "data: {\"index\":0,\"step\":{\"type\":\"thought\"},\"event_type\":\"step.start\"}\n\n"
        "data: {\"index\":0,\"delta\":{\"type\":\"thought_summary\",\"content\":{"
        "\"type\":\"text\",\"text\":\"one\"}},\"event_type\":\"step.delta\"}\n\n"
        "data: {\"event_type\":\"interaction.completed\",\"interaction\":{\"object\":"
        "\"interaction\",\"status\":\"completed\"}}\n\n"), &out, NULL), MS_E_MISSING);
    assert_int_equal(out.messages, 0);
    static const char *const steps[] = { /* that have nothing yet */
        STEP("0", "{\"type\":\"thought\"}"), STEP("0", "{\"type\":\"model_output\"}"),
        STEP("0", "{\"type\":\"google_search_call\",\"id\":\"s\"}")};
    for (size_t i = 0; i < 2 * COUNT(steps); i++) {
        ask_anew();
        desc.store = store;
        assert_int_equal(ms_answer_begin(&answer, &desc, NULL), MS_OK);
        assert_int_equal(ms_answer_feed(&answer, ms_str_of(steps[i / 2]), NULL), MS_OK);
        if (i & 1)
            assert_int_equal(ms_answer_feed(&answer, MS_STR(COMPLETED("completed")), NULL), MS_OK);
        assert_int_equal(ms_answer_end(&answer, &out, NULL), MS_E_MISSING);
        assert_int_equal(out.messages, 1);
        assert_int_equal(ms_get_by_seq(store, out.last_seq, &arena, &msg, NULL), MS_OK);
        assert_true(ms_flags(msg) & MS_FLAG_UNFINISHED);
    }
}

/* Bytes that are flipped, left out or repeated: some code, and a store that is whole. */
TEST(answer_is_a_code_when_its_bytes_are_wrong)
{
    uint64_t random = test_seed();
    for (size_t round = 0; round < test_times(3000); round++) {
        const answer_case *c = &provider_answers[test_below(&random, answer_count)];
        ms_request_desc desc = desc_of(c->provider);
        ms_answer_stream a;
        const char *text = c->stream != NULL && round % 2 == 0 ? c->stream : c->body;
        size_t len = strlen(text);
        char *copy = (char *)malloc(len + 1), *bytes = copy;
        memcpy(copy, text, len + 1);
        for (size_t n = 1 + test_below(&random, 4); n > 0; n--) {
            static const char odd[] = "{}[]\",:\\\0 \n\x80nul0";
            size_t at = test_below(&random, len);
            copy[at] = odd[test_below(&random, sizeof odd - 1)];
        }
        size_t begin = test_below(&random, 3) == 0 ? test_below(&random, len) : 0;
        if (round % 5 == 0) desc.profile = ms_profile_at(test_below(&random, 4));
        if (desc.profile->wire == MS_WIRE_PYDANTIC) desc.profile = ms_profile_at(0);
        assert_int_equal(ms_answer_begin(&a, &desc, NULL), MS_OK);
        for (bytes += begin, len -= begin; len > 0;) {
            size_t n = 1 + test_below(&random, len);
            (void)ms_answer_feed(&a, ms_str_n(bytes, n), NULL);
            bytes += n;
            len -= n;
        }
        (void)ms_answer_end(&a, NULL, NULL);
        (void)ms_answer(&desc, ms_str_of(copy), NULL, NULL);
        free(copy);
        if (round % 50 != 0) continue;
        assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
        (void)open_store(NULL);
    }
}

/* Blocks without a meaning here are kept in their place, and sent to their maker. A stream stores
 * them as a whole body does, but unfinished where its end does not come. */
TEST(block_of_another_kind_is_kept_when_it_comes)
{
    static const char body[] =
        "{\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[{\"type\":"
        "\"thinking\",\"thinking\":\"hm\",\"signature\":\"x\"},{\"type\":"
        "\"server_tool_use\",\"id\":\"s\",\"name\":\"web_search\",\"input\":{\"q\":1}},{\"type\":"
        "\"web_search_tool_result\",\"tool_use_id\":\"s\",\"content\":[]},{\"type\":"
        "\"text\",\"text\":\"found\"}]%s}";
    ms_request_desc desc = desc_of("anthropic");
    answer_case c = {"", "anthropic", "", NULL, NULL, "", 0, 0, 0, 0, 0, ""};
    char whole[600], early[600];
    ms_answered out;
    ms_error err;
    snprintf(whole, sizeof whole, body, ",\"stop_reason\":\"end_turn\"");
    snprintf(early, sizeof early, body, "");
    add(ms_user_message(ms_text("u")));
    if (ms_answer(&desc, ms_str_of(whole), &out, &err) != MS_OK)
        fail_msg("%s", err.message);
    assert_int_equal(out.messages, 4);
    char *first = strndup(stored().ptr, stored().len);
    assert_non_null(strstr(first, "multimodal_part 16|[{\"type\":\"server_tool_use\""));
    ms_str request = asked(&c);
    assert_true(has_text(request, "{\"type\":\"server_tool_use\",\"id\":\"s\",\"name\":\"web_search\","
                                  "\"input\":{\"q\":1}},{\"type\":\"web_search_tool_result\","
                                  "\"tool_use_id\":\"s\",\"content\":[]},"
                                  "{\"type\":\"text\",\"text\":\"found\"}"));
    static const char *const others[][2] = {{"openai", "m"}, {"gemini", "m"}, {"anthropic", "n"}};
    for (size_t i = 0; i < COUNT(others); i++) { /* another provider, and another model */
        ms_project_report report;
        ms_request_desc other = desc_of(others[i][0]);
        other.opts.model = ms_str_of(others[i][1]);
        request = body_of(&other, &report);
        assert_true(has_text(request, "found"));
        assert_false(has_text(request, "server_tool_use"));
        assert_int_equal(report.raw_left_out, 2);
    }

    (void)open_store(NULL);
    add(ms_user_message(ms_text("u")));
    c.stream = whole;
    feed(&c, strlen(whole), 1, &out);
    assert_true(ms_str_equal(stored(), ms_str_of(first)));
    free(first);

    (void)open_store(NULL);
    ms_answer_stream a;
    desc.store = store;
    assert_int_equal(ms_answer_begin(&a, &desc, NULL), MS_OK);
    assert_int_equal(ms_answer_feed(&a, ms_str_of(early), NULL), MS_OK);
    assert_int_equal(ms_answer_end(&a, &out, NULL), MS_E_MISSING);
    assert_int_equal(out.messages, 4);
    for (uint64_t seq = out.first_seq; seq <= out.last_seq; seq++) {
        const ms_msg *msg;
        assert_int_equal(ms_get_by_seq(store, seq, &arena, &msg, NULL), MS_OK);
        assert_true(ms_flags(msg) & MS_FLAG_UNFINISHED);
    }
}

/* A call of a function, or a result, that a program stored as its maker's block has no
 * partner in the list: it is left out and counted, and the blocks beside it stay. */
TEST(call_stored_as_a_block_is_left_out_when_its_maker_is_asked)
{
    static const struct {
        const char *provider, *blocks, *stays; /* stays NULL: nothing */
        unsigned left_out;
    } rows[] = {
        {"anthropic", "[{\"type\":\"server_tool_use\",\"id\":\"s\",\"name\":\"web_search\","
                      "\"input\":{}},{\"type\":\"tool_use\",\"id\":\"lone\",\"name\":\"f\","
                      "\"input\":{}},{\"type\":\"mcp_tool_use\",\"id\":\"m\","
                      "\"name\":\"f\",\"server_name\":\"s\",\"input\":{}},{\"type\":"
                      "\"web_search_tool_result\",\"tool_use_id\":\"s\",\"content\":[]}]",
         "{\"type\":\"server_tool_use\",\"id\":\"s\",\"name\":\"web_search\",\"input\":{}},"
         "{\"type\":\"mcp_tool_use\",\"id\":\"m\",\"name\":\"f\",\"server_name\":\"s\",\"input\":{}}",
         1},
        {"anthropic", "[{\"type\":\"tool_use\",\"id\":\"lone\",\"name\":\"f\",\"input\":{}}]",
         NULL, 1},
        {"anthropic", "[{\"type\":\"tool_\\u0075se\",\"name\":\"lone\"},{\"type\":"
                      "\"tool_result\",\"tool_use_id\":\"lone\",\"content\":[]}]", NULL, 2},
        {"gemini", "[{\"functionCall\":{\"name\":\"lone\",\"args\":{}},\"thoughtSignature\":"
                   "\"c2ln\"},{\"executableCode\":{\"language\":\"PYTHON\",\"code\":\"1\"}},"
                   "{\"functionResponse\":{\"name\":\"lone\",\"response\":{}}}]",
         "{\"executableCode\":{\"language\":\"PYTHON\",\"code\":\"1\"}}", 2},
        {"bedrock", "[{\"toolUse\":{\"toolUseId\":\"lone\",\"name\":\"f\",\"input\":{}}},"
                    "{\"toolUse\":{\"toolUseId\":\"s\",\"name\":\"f\",\"type\":"
                    "\"server_tool_use\",\"input\":{}}},{\"toolResult\":{\"toolUseId\":"
                    "\"lone\",\"content\":[]}}]",
         "{\"toolUse\":{\"toolUseId\":\"s\",\"name\":\"f\",\"type\":\"server_tool_use\","
         "\"input\":{}}}", 2},
        {"openai-responses", "{\"type\":\"function_call\",\"call_id\":\"lone\",\"name\":\"f\","
                             "\"arguments\":\"{}\"}", NULL, 1},
        {"openai-responses", "[{\"type\":\"function_call_output\",\"call_id\":\"lone\","
                             "\"output\":\"\"},{\"type\":\"new\",\"x\":1}]",
         "{\"type\":\"new\",\"x\":1}", 1},
        {"gemini-interactions", "[{\"type\":\"function_call\",\"id\":\"lone\",\"name\":\"f\","
                                "\"arguments\":{}},{\"type\":\"function_result\",\"call_id\":"
                                "\"lone\",\"result\":\"\"}]", NULL, 2},
        {"anthropic", "[]", NULL, 0},
        {"anthropic", "[\"lone\",{\"type\":\"text\",\"text\":\"t\"},[{\"lone\":1}],null]",
         "[{\"type\":\"text\",\"text\":\"t\"}]", 3},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char is_signed[80], why[PROVIDER_LINT_TEXT];
        ms_project_report report;
        ms_envelope m = ms_message(MS_T_MULTIMODAL_PART, ms_json(ms_str_of(rows[i].blocks)));
        snprintf(is_signed, sizeof is_signed, "{\"signed\":{\"provider\":\"%s\"}}",
                 rows[i].provider);
        m.role = MS_ROLE_ASSISTANT;
        m.extra = ms_str_of(is_signed);
        ask_anew();
        add(m);
        add(ms_user_message(ms_text("v")));
        ms_request_desc desc = desc_of(rows[i].provider);
        ms_str sent = body_of(&desc, &report);
        bool stays = rows[i].stays == NULL || has_text(sent, rows[i].stays);
        ms_str part = provider_lint_part(rows[i].provider, sent, &arena);
        const char *no = provider_lint(rows[i].provider, part, why);
        if (no != NULL) fail_msg("row %zu: %s\n%.*s", i, no, (int)sent.len, sent.ptr);
        if (!stays || has_text(sent, "lone") || report.raw_left_out != rows[i].left_out)
            fail_msg("row %zu: %llu left out\n%.*s", i,
                     (unsigned long long)report.raw_left_out, (int)sent.len, sent.ptr);
    }
}

/* Stores the text whole, or for a size fed in parts; returns what is stored. */
static ms_str stored_of(const answer_case *c, size_t size)
{
    ms_answered out;
    ms_error err;
    (void)open_store(NULL);
    ms_request_desc desc = desc_of(c->provider);
    if (size > 0) feed(c, size, size, &out);
    else if (ms_answer(&desc, ms_str_of(c->stream), &out, &err) != MS_OK)
        fail_msg("%s", err.message);
    return stored();
}

/* Arguments and blocks deeper than a field takes are kept as text; up to that depth they
 * are JSON. */
TEST(answer_is_stored_when_a_part_is_as_deep_as_a_body_can_be)
{
    static const struct {
        const char *provider, *before, *after;
        int depth;
        bool args, json;
    } rows[] = {
        {"openai", "{\"choices\":[{\"message\":{\"tool_calls\":[{\"id\":\"c\",\"function\":{"
                   "\"name\":\"f\",\"arguments\":\"{\\\"a\\\":",
         "}\"}}]},\"finish_reason\":\"stop\"}]}", MS_FIELD_MAX_DEPTH - 1, true, true},
        {"openai", NULL, NULL, MS_FIELD_MAX_DEPTH, true, false},
        {"openai", NULL, NULL, MS_JSON_MAX_DEPTH, true, false},
        {"anthropic", "{\"type\":\"message\",\"content\":[{\"type\":\"x\",\"a\":",
         "}],\"stop_reason\":\"end_turn\"}", MS_FIELD_MAX_DEPTH - 2, false, true},
        {"anthropic", NULL, NULL, MS_FIELD_MAX_DEPTH - 1, false, false},
        {"anthropic", NULL, NULL, MS_JSON_MAX_DEPTH - 3, false, false},
    };
    const char *before = NULL, *after = NULL;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[2000], deep[MS_JSON_MAX_DEPTH * 2 + 1] = "";
        const ms_msg *msg;
        answer_case c = {"deep", rows[i].provider, "", NULL, text, "", 0, 0, 0, 0, 0, ""};
        if (rows[i].before != NULL) before = rows[i].before, after = rows[i].after;
        memset(deep, '[', (size_t)rows[i].depth);
        memset(deep + rows[i].depth, ']', (size_t)rows[i].depth);
        snprintf(text, sizeof text, "%s%s%s", before, deep, after);
        for (size_t size = 0; size < 20; size += 19) {
            (void)stored_of(&c, size);
            assert_int_equal(ms_get_by_seq(store, 1, &arena, &msg, NULL), MS_OK);
            ms_value v = ms_get(msg, rows[i].args ? MS_F_ARGS : MS_F_CONTENT);
            if (v.json != rows[i].json || !has_text(v.text, deep))
                fail_msg("row %zu, in parts of %zu", i, size);
        }
    }
}

/* With too little memory an odd answer is a code, whole and in parts; nothing of a whole one
 * is stored, and no message of a stream is complete. */
static ms_result odd_answer_low_memory(void *answer, ms_arena *in)
{
    const answer_case *c = (const answer_case *)answer;
    bool streams = c->messages == 1;
    ms_answer_stream a;
    ms_cursor it;
    ms_query query = query_of(CHAT, 0);
    (void)open_store(NULL);
    ms_request_desc desc = desc_of(c->provider);
    desc.arena = in;
    ms_result code = streams ? ms_answer_begin(&a, &desc, NULL)
                             : ms_answer(&desc, ms_str_of(c->stream), NULL, NULL);
    size_t len = strlen(c->stream), part = len / 3 + 1;
    if (streams && code == MS_OK) {
        for (size_t at = 0; at < len && code == MS_OK; at += part)
            code = ms_answer_feed(&a, ms_str_n(c->stream + at, at + part < len ? part : len - at), NULL);
        ms_result ends = ms_answer_end(&a, NULL, NULL);
        assert_true(code == MS_OK || ends == code);
        code = ends;
    }
    if (code == MS_OK) assert_true(ms_str_equal(stored(), ms_str_of(c->sent)));
    if (code == MS_OK) return code;
    EACH (msg, store, &query, &it)
        assert_true(streams && (ms_flags(msg) & MS_FLAG_UNFINISHED));
    return code;
}

/* A row of tests/tables/answers_odd.jsonl. */
static void answer_is_stored_as_its_row_has_it(void **state)
{
    const table_row *r = (const table_row *)*state;
    char text[2000] = "";
    answer_case c = {r->name, row_text(r, "provider"), "", NULL, text, "", 0, 0, 0, 0, 0, ""};
    ms_json_iter it = ms_json_iterate(row_spelled(r, "events"));
    if (row_text(r, "text") != NULL) strcpy(text, row_text(r, "text"));
    for (size_t n = 0; ms_json_next(&it); n = strlen(text))
        snprintf(text + n, sizeof text - n, "data: %.*s\r\n\r\n", (int)it.value.len,
                 it.value.ptr);
    for (size_t size = 0; size <= strlen(text); size += 1 + size / 8) {
        ms_str got = stored_of(&c, size);
        if (!ms_str_equal(got, ms_str_of(row_text(r, "stored"))))
            fail_msg("in parts of %zu:\n%.*s", size, (int)got.len, got.ptr);
    }
    c.sent = row_text(r, "stored");
    for (c.messages = 0; c.messages < 2; c.messages++) /* whole, as a stream */
        assert_true(low_memory(odd_answer_low_memory, &c, 24) > 0);
}

int main(void)
{
    static table_row rows[64];
    size_t n = load_table("tests/tables/answers_odd.jsonl", "", rows, COUNT(rows));
    load_answers();
    add_table(rows, n, answer_is_stored_as_its_row_has_it);
    return run_all_tests(open_store, close_store);
}
