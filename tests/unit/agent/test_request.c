/* ms_request: bodies of requests from a store and a memory, refusals. The messages in a
 * request, and the thinking that goes back to its signer, are in tests/tables/project.jsonl. */

#define _GNU_SOURCE
#include "chat_store.h"

static ms_envelope call(const char *id, const char *tool)
{
    ms_envelope m = ms_action(ms_str_of(tool), ms_json(MS_STR("{}")), ms_str_of(NULL));
    m.call_id = ms_str_of(id);
    return m;
}

static void must_be(ms_str body, const char *expected)
{
    char text[4096];
    size_t n = 0;
    for (; expected[n] != '\0' && n + 1 < sizeof text; n++)
        text[n] = expected[n] == '\'' ? '"' : expected[n];
    text[n] = '\0';
    if (ms_str_equal(body, ms_str_of(text))) return;
    fail_msg("\n%.*s\ninstead of\n%s", (int)body.len, body.ptr, text);
}


/* ---- bodies ---- */

TEST(request_has_all_members_when_given)
{
    static const struct {
        const char *provider, *body;
    } rows[] = {
        {"openai", "{'model':'m','messages':[{'role':'system','content':'be kind'},"
                   "{'role':'user','content':'u'}],'tools':[{'t':1}],'temperature':0.5}"},
        {"anthropic", "{'model':'m','system':'be kind','messages':[{'role':'user',"
                      "'content':'u'}],'tools':[{'t':1}],'temperature':0.5}"},
        {"gemini", "{'systemInstruction':{'parts':[{'text':'be kind'}]},'contents':[{'role':"
                   "'user','parts':[{'text':'u'}]}],'tools':[{'t':1}],'temperature':0.5}"},
        {"ollama", "{'model':'m','messages':[{'role':'system','content':'be kind'},"
                   "{'role':'user','content':'u'}],'tools':[{'t':1}],'temperature':0.5}"},
    };
    add(ms_user_message(ms_text("u")));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ms_request_desc desc = desc_of(rows[i].provider);
        desc.opts.model = MS_STR("m");
        desc.opts.system = MS_STR("be kind");
        desc.tools = MS_STR(" [ { \"t\" : 1 } ] ");
        desc.extra = MS_STR("{\"temperature\": 0.5}");
        must_be(body_of(&desc, NULL), rows[i].body);
    }
}

TEST(request_has_only_messages_when_nothing_is_given)
{
    ms_request_desc desc = desc_of("anthropic");
    must_be(body_of(&desc, NULL),
            "{'messages':[{'role':'user','content':'(The conversation begins.)'}]}");
}

TEST(request_reads_as_the_agent_when_a_memory_is_given)
{
    ms_memory memory;
    ms_request_desc desc = desc_of("openai");
    ms_envelope own = call("x", "f"), other = call("y", "g");
    own.agent_key = MS_STR("me");
    other.agent_key = MS_STR("you");
    add(ms_user_message(ms_text("u")));
    add(own);
    add(other);
    ms_memory_init(&memory, store, CHAT, MS_STR("me"));
    desc.store = NULL;
    desc.memory = &memory;
    ms_str body = body_of(&desc, NULL);
    assert_true(has_text(body, "\"name\":\"f\""));
    assert_false(has_text(body, "\"name\":\"g\""));
}

TEST(request_keeps_the_order_of_sequence_when_a_memory_is_by_time)
{
    ms_memory memory;
    ms_request_desc desc = desc_of("openai");
    ms_project_report report;
    ms_envelope m = call("x", "f");
    m.agent_key = MS_STR("me");
    m.has_time = true;
    m.time_ns = 20;
    add(m);
    m = ms_observation(ms_text("r"), MS_STR("x"));
    m.agent_key = MS_STR("me");
    m.has_time = true;
    m.time_ns = 10;
    add(m);
    ms_memory_init(&memory, store, CHAT, MS_STR("me"));
    memory.by_time = true;
    memory.arena = &arena;
    desc.store = NULL;
    desc.memory = &memory;
    (void)body_of(&desc, &report);
    assert_int_equal(report.orphans, 0);
    assert_int_equal(report.synthesised, 0);
}

TEST(request_reports_the_system_text_when_it_has_an_arena)
{
    ms_request_desc desc = desc_of("anthropic");
    ms_project_report report;
    desc.opts.system = MS_STR("be kind");
    (void)body_of(&desc, &report);
    assert_null(report.system.ptr);
    desc.arena = &arena;
    (void)body_of(&desc, &report);
    assert_true(ms_str_equal(report.system, MS_STR("be kind")));
}

TEST(request_is_refused_when_its_parts_do_not_fit)
{
    ms_request_desc base = desc_of("openai"), desc = base;
    ms_memory memory;
    ms_error err;
    ms_buf out = {.arena = &arena};
    ms_memory_init(&memory, store, CHAT, MS_STR("me"));
    add(ms_user_message(ms_text("a text that is longer than the budget")));
#define MUST(code) \
    assert_int_equal(ms_request(&desc, ms_buf_write, &out, NULL, &err), code); \
    assert_int_equal(out.len, 0); \
    desc = base
    desc.profile = NULL;
    MUST(MS_E_ARGUMENT);
    desc.profile = ms_profile_find(MS_STR("pydantic-ai"));
    MUST(MS_E_UNSUPPORTED);
    desc.store = NULL;
    MUST(MS_E_ARGUMENT);
    desc.memory = &memory;
    MUST(MS_E_ARGUMENT);
    desc.tools = MS_STR("{}");
    MUST(MS_E_KIND);
    desc.tools = MS_STR("[");
    MUST(MS_E_SYNTAX);
    desc.extra = MS_STR("[]");
    MUST(MS_E_KIND);
    desc.extra = MS_STR("{\"messages\":[]}");
    MUST(MS_E_ARGUMENT);
    assert_non_null(strstr(err.message, "messages"));
    desc.opts.budget = 3;
    MUST(MS_E_TOO_LARGE);
}

TEST(request_is_refused_when_its_store_has_no_location)
{
    ms_request_desc desc = desc_of("openai");
    ms_error err;
    ms_buf out = {.arena = &arena};
    add(ms_user_message(ms_text("of another user")));
    for (size_t i = 0; i < 4; i++) {
        desc.location = i % 2 == 0 ? ms_str_of(NULL) : MS_STR("");
        desc.arena = &arena;
        ms_result code = i < 2 ? ms_request(&desc, ms_buf_write, &out, NULL, &err)
                               : ms_project(&desc, ms_buf_write, &out, NULL, &err);
        assert_int_equal(code, MS_E_ARGUMENT);
        assert_string_equal(err.path, "location");
        assert_int_equal(out.len, 0);
    }
}

TEST(request_is_the_same_when_a_cursor_is_given)
{
    ms_request_desc desc = desc_of("openai");
    ms_cursor it;
    ms_error err;
    add(ms_user_message(ms_text("u")));
    add(ms_assistant_message(ms_text("a")));
    ms_str of_store = body_of(&desc, NULL);
    ms_query query = {.location = CHAT};
    assert_int_equal(ms_query_open(store, &query, &it, &err), MS_OK);
    desc.cursor = &it;
    assert_int_equal(ms_request(&desc, ms_buf_write, &it, NULL, &err), MS_E_ARGUMENT);
    desc.store = NULL; /* one source, not two */
    assert_true(ms_str_equal(body_of(&desc, NULL), of_store));
    assert_int_equal(ms_cursor_close(&it, &err), MS_OK);
}

TEST(request_writes_nothing_when_a_message_is_damaged)
{
    static uint64_t buffer[2048];
    ms_request_desc desc = desc_of("openai");
    ms_mem_desc fixed;
    ms_store *small;
    ms_error err;
    ms_buf out;
    memset(&out, 0, sizeof out);
    memset(&fixed, 0, sizeof fixed);
    out.arena = &arena;
    fixed.buffer = buffer;
    fixed.buffer_size = sizeof buffer;
    assert_int_equal(ms_mem_open(&small, &fixed, &err), MS_OK);
    ms_envelope m = ms_user_message(ms_text("damaged"));
    assert_int_equal(ms_append(small, CHAT, &m, NULL, &err), MS_OK);
    m = ms_user_message(ms_text("whole"));
    assert_int_equal(ms_append(small, CHAT, &m, NULL, &err), MS_OK);
    const ms_msg *msg;
    assert_int_equal(ms_get_by_seq(small, 1, &arena, &msg, &err), MS_OK);
    ((char *)buffer)[(const char *)msg - (const char *)buffer + 20] ^= 1;
    desc.store = small;
    assert_int_equal(ms_request(&desc, ms_buf_write, &out, NULL, &err), MS_E_DAMAGED);
    assert_int_equal(out.len, 0);
    ms_close(small);
}


/* ---- thinking ---- */

TEST(thinking_stays_out_when_its_answer_was_edited)
{
    ms_request_desc desc = desc_of("anthropic");
    ms_project_report report;
    ms_envelope m = ms_message(MS_T_REASONING, ms_text("hm"));
    ms_envelope answer = ms_assistant_message(ms_text("let me see"));
    desc.opts.thinking = true;
    m.extra = MS_STR("{\"signed\":{\"provider\":\"anthropic\",\"signature\":\"sig\"}}");
    answer.flags = MS_FLAG_JOINED;
    add(ms_user_message(ms_text("u")));
    add(m);
    uint64_t seq = add(answer);
    m = call("x", "f");
    m.flags = MS_FLAG_JOINED;
    add(m);
    assert_true(has_text(body_of(&desc, &report), "sig"));
    assert_int_equal(report.thinking_missing, 0);
    answer.content = ms_text("let me look");
    assert_int_equal(ms_amend(store, seq, &answer, NULL), MS_OK);
    assert_false(has_text(body_of(&desc, &report), "sig"));
    assert_int_equal(report.thinking_missing, 1);
}

/* A transcript's text has no agent, its thinking and call have one. */
TEST(text_without_an_agent_stays_before_its_call)
{
    ms_request_desc desc = desc_of("anthropic");
    ms_envelope m = ms_message(MS_T_REASONING, ms_text("hm"));
    ms_envelope text = ms_assistant_message(ms_text("let me see"));
    desc.opts.thinking = true;
    m.extra = MS_STR("{\"signed\":{\"provider\":\"anthropic\",\"signature\":\"sig\"}}");
    m.agent_key = MS_STR("me");
    text.flags = MS_FLAG_JOINED;
    add(ms_user_message(ms_text("u")));
    add(m);
    add(text);
    m = call("x", "f");
    m.agent_key = MS_STR("me");
    m.flags = MS_FLAG_JOINED;
    add(m);
    ms_str body = body_of(&desc, NULL);
    if (!has_text(body, "\"text\":\"let me see\"},{\"type\":\"tool_use\""))
        fail_msg("%.*s", (int)body.len, body.ptr);
}

TEST(thinking_goes_to_its_model_alone_whatever_its_date)
{
    static const struct {
        const char *model;
        bool same;
    } rows[] = {
        {"claude-x", true}, {"claude-x-20250805", true}, {"claude-x-2025-08-05", true},
        {"claude-x@20250805", true}, {"router/claude-x-latest", true},
        {"claude-x-20250805:thinking", true}, {"claude-x-20250805-v1:0", true},
        {"claude-x-20250805-v1-mini", false}, {"claude-x-2025-mini", false}, {"claude-x-0528-qwen3", false},
        {"claude-x-mini", false}, {"claude-xl", false},
    };
    ms_envelope m = ms_message(MS_T_REASONING, ms_text("hm"));
    m.extra = MS_STR("{\"signed\":{\"provider\":\"anthropic\",\"signature\":\"sig\","
                     "\"model\":\"claude-x\"}}");
    add(ms_user_message(ms_text("u")));
    add(m);
    m = call("x", "f");
    m.flags = MS_FLAG_JOINED;
    add(m);
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_request_desc desc = desc_of("anthropic");
        ms_project_report report;
        desc.opts.thinking = true;
        desc.opts.model = ms_str_of(rows[i].model);
        bool sent = has_text(body_of(&desc, &report), "\"sig\"");
        if (sent != rows[i].same || report.thinking_missing != !sent)
            fail_msg("%s: sent %d", rows[i].model, sent);
    }
}

/* Steps of a history: u, a user's text; a, an assistant's; s, system text; c, an answer
 * with thinking and a call; d, the same of agent w; t, one of thinking alone; k, a call
 * without thinking; o, a text of agent w; b, a broadcast; r, a result.
 * The n-th step has texts, ids and thinking of that number. */
static void add_steps(const ms_request_desc *desc, const char *steps)
{
    bool chat = desc->profile->wire == MS_WIRE_CHAT;
    for (int n = 1; *steps != '\0'; steps++, n++) {
        char body[512], id[16], own[16];
        ms_request_desc by = *desc;
        snprintf(id, sizeof id, "c%d", n - 1);
        if (*steps == 'u') add(ms_user_message(ms_text("u")));
        if (*steps == 's') add(ms_message(MS_T_INJECTED_CONTEXT, ms_text("rules")));
        ms_envelope m = ms_observation(ms_text("r"), ms_str_of(id));
        if (*steps == 'a' || *steps == 'o') m = ms_assistant_message(ms_text("text"));
        if (*steps == 'b') m = ms_message(MS_T_GLOBAL_OBSERVATION, ms_text("fire"));
        snprintf(own, sizeof own, "c%d", n);
        if (*steps == 'k') m = call(own, "f");
        m.agent_key = *steps == 'o' ? MS_STR("w") : desc->opts.agent_key;
        if (strchr("raokb", *steps) != NULL) add(m);
        if (strchr("cdt", *steps) == NULL) continue;
        bool calls = *steps != 't';
        if (chat)
            snprintf(body, sizeof body, "{\"model\":\"m\",\"choices\":[{\"finish_reason\":"
                     "\"x\",\"message\":{\"reasoning_content\":\"think%d\",\"tool_calls\":"
                     "[{\"id\":\"c%d\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}"
                     "}]}}]}", n, n);
        else
            snprintf(body, sizeof body, "{\"type\":\"message\",\"model\":\"m\",\"content\":"
                     "[{\"type\":\"thinking\",\"thinking\":\"think%d\",\"signature\":\"x\"}"
                     "%s%d%s],\"stop_reason\":\"x\"}", n,
                     calls ? ",{\"type\":\"tool_use\",\"id\":\"c" : ",{\"type\":\"text\","
                     "\"text\":\"\",\"n\":\"", n,
                     calls ? "\",\"name\":\"f\",\"input\":{}}" : "\"}");
        if (*steps == 'd') by.opts.agent_key = MS_STR("w");
        by.opts.thinking = false;
        assert_int_equal(ms_answer(&by, ms_str_of(body), NULL, NULL), MS_OK);
    }
}

TEST(thinking_of_the_running_turn_is_sent_or_reported)
{
    static const struct {
        const char *provider, *steps, *has, *lacks;
        size_t missing, newest, dropped;
    } rows[] = {
        {"anthropic", "ucr", "think2", NULL, 0, 0, 0},
        {"anthropic", "ucrt", "think2", "think4", 0, 0, 0},
        {"anthropic", "ucrtu", "think2", "think4", 0, 0, 0},
        {"anthropic", "ucrd", "think2", "think4", 0, 0, 0},
        {"anthropic", "ucrdu", "think2", "think4", 0, 0, 1},
        {"anthropic", "uacr", "tool_use", NULL, 1, 0, 0},
        {"anthropic", "ucra", "tool_use", "think2", 0, 0, 0},
        {"anthropic", "ucrt", "think2", "think4", 0, 1, 0},
        {"anthropic", "ucrkr", "think2", NULL, 0, 0, 0},
        {"anthropic", "ucrocr", "think2", NULL, 0, 0, 0},
        {"anthropic", "ucrbcr", "think2", NULL, 0, 0, 0},
        {"anthropic", "ucrokr", "think2", NULL, 1, 0, 0},
        {"anthropic", "ukrocr", "think5", NULL, 1, 0, 0},
        {"anthropic", "ucrkrocr", "think2", NULL, 0, 0, 0},
        {"anthropic", "ucrokrocr", "think8", NULL, 0, 0, 0},
        {"anthropic", "ucroa", "tool_use", "think2", 0, 0, 0},
        {"anthropic", "ucrucr", "think5", "think2", 0, 0, 0},
        {"openai", "ucrocr", "think2", NULL, 0, 0, 0},
        {"openai", "ucrokr", "think2", NULL, 1, 0, 0},
        {"openai", "ucra", "think2", NULL, 0, 0, 0},
        {"openai", "ucrscr", "think2", NULL, 0, 0, 0},
        {"openai", "ucrucr", "think5", "think2", 0, 0, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_project_report report;
        (void)open_store(NULL);
        ms_request_desc desc = desc_of(rows[i].provider);
        desc.opts.agent_key = MS_STR("m");
        desc.opts.model = MS_STR("m");
        desc.opts.thinking = true;
        add_steps(&desc, rows[i].steps);
        desc.opts.newest = rows[i].newest;
        ms_str body = body_of(&desc, &report);
        if (!has_text(body, rows[i].has) ||
            (rows[i].lacks != NULL && has_text(body, rows[i].lacks)) ||
            report.thinking_missing != rows[i].missing ||
            (rows[i].dropped > 0 && report.dropped != rows[i].dropped))
            fail_msg("row %zu, missing %u, dropped %u: %.*s", i,
                     (unsigned)report.thinking_missing, (unsigned)report.dropped,
                     (int)body.len, body.ptr);
    }
}

/* Text of a role, and what an agent says to a user, are its own words, too. */
TEST(request_has_no_words_of_another_agent_as_its_own)
{
    static const ms_type types[] = {MS_T_ASSISTANT_MESSAGE, MS_T_TEXT, MS_T_FINAL, MS_T_DATA,
                                    MS_T_MULTIMODAL_PART, MS_T_DIRECTOR_CONTEXT,
                                    MS_T_STRATEGIC_PLAN, MS_T_INPUT_REQUIRED};
    for (size_t k = 0; k < COUNT(types); k++) {
        (void)open_store(NULL);
        ms_request_desc desc = desc_of("openai");
        ms_envelope m = ms_message(types[k], ms_text("words"));
        m.role = MS_ROLE_ASSISTANT;
        m.agent_key = MS_STR("you");
        add(ms_user_message(ms_text("u")));
        add(m);
        add(ms_user_message(ms_text("v")));
        desc.opts.agent_key = MS_STR("me");
        ms_str body = body_of(&desc, NULL);
        if (!has_text(body, "[you] words") || has_text(body, "\"assistant\""))
            fail_msg("type %d: %.*s", (int)types[k], (int)body.len, body.ptr);
        desc.opts.agent_key = m.agent_key; /* of its own it has them */
        body = body_of(&desc, NULL);
        if (has_text(body, "[you]") || !has_text(body, "\"assistant\",\"content\":\"words\""))
            fail_msg("own type %d: %.*s", (int)types[k], (int)body.len, body.ptr);
    }
}

/* Of an unfinished stream and of many names it needs room. */
TEST(request_over_a_memory_is_as_one_over_the_store)
{
    ms_request_desc desc = desc_of("anthropic"), over = desc_of("anthropic");
    ms_envelope m = ms_assistant_message(ms_text(""));
    ms_stream stream;
    ms_memory memory;
    ms_str names[40];
    for (size_t i = 0; i < COUNT(names); i++) names[i] = MS_STR("w");
    desc.opts.agent_key = MS_STR("m");
    desc.opts.model = MS_STR("m");
    desc.opts.thinking = true;
    m.agent_key = desc.opts.agent_key;
    add(ms_user_message(ms_text("go")));
    assert_int_equal(ms_stream_begin(&stream, store, CHAT, &m, NULL, NULL), MS_OK);
    assert_int_equal(ms_stream_feed(&stream, MS_STR("half an answer"), NULL), MS_OK);
    assert_int_equal(ms_stream_feed(&stream, ms_str_of(NULL), NULL), MS_OK);
    add_steps(&desc, "ucr");
    ms_memory_init(&memory, store, CHAT, desc.opts.agent_key);
    memory.subordinates = names;
    memory.n_subordinates = COUNT(names);
    over.opts = desc.opts;
    over.store = NULL;
    over.memory = &memory;
    ms_str body = body_of(&desc, NULL);
    assert_true(has_text(body, "half an answer") && has_text(body, "think2"));
    if (!ms_str_equal(body_of(&over, NULL), body))
        fail_msg("not %.*s", (int)body.len, body.ptr);
}

/* A call with text is one message. */
TEST(newest_counts_messages)
{
    ms_request_desc desc = desc_of("anthropic");
    ms_project_report report;
    ms_envelope m = call("x", "f");
    m.content = ms_text("let me see");
    add(ms_user_message(ms_text("first")));
    add(ms_user_message(ms_text("second")));
    add(m);
    add(ms_observation(ms_text("r"), MS_STR("x")));
    desc.opts.newest = 3;
    ms_str body = body_of(&desc, &report);
    assert_true(has_text(body, "second") && !has_text(body, "first"));
    assert_int_equal(report.left_out, 1);
}

TEST(delegation_is_answered_by_a_result_of_its_tool)
{
    ms_request_desc desc = desc_of("openai");
    ms_envelope m = ms_message(MS_T_DELEGATION, ms_text(""));
    m.worker = MS_STR("w");
    m.task = MS_STR("do");
    add(ms_user_message(ms_text("u")));
    add(m);
    m = ms_observation(ms_text("done by w"), ms_str_of(NULL));
    m.tool = MS_STR("delegate");
    add(m);
    ms_str body = body_of(&desc, NULL);
    assert_true(has_text(body, "\"done by w\""));
    assert_false(has_text(body, "Delegated."));
}


int main(void)
{
    return run_all_tests(open_store, close_store);
}
