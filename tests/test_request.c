/* ms_request: bodies of requests from a store and a memory, refusals, and thinking that
 * goes back to its signer. Requests are read with jansson, as a provider would. What the
 * list of messages in them holds is test_project's.
 */

#include "chat.h"

static ms_envelope call(const char *id, const char *tool)
{
    ms_envelope m = ms_action(ms_str_of(tool), ms_json(MS_STR("{}")), ms_str_of(NULL));
    m.call_id = ms_str_of(id);
    return m;
}

static ms_envelope result(const char *id, const char *text)
{
    ms_envelope m = ms_observation(ms_text(text), ms_str_of(NULL));
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

static void request_has_all_members_when_given(void **state)
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
    (void)state;
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

static void request_has_only_messages_when_nothing_is_given(void **state)
{
    ms_request_desc desc = desc_of("anthropic");
    (void)state;
    must_be(body_of(&desc, NULL),
            "{'messages':[{'role':'user','content':'(The conversation begins.)'}]}");
}

static void request_reads_as_the_agent_when_a_memory_is_given(void **state)
{
    ms_memory memory;
    ms_request_desc desc = desc_of("openai");
    ms_envelope own = call("x", "f"), other = call("y", "g");
    (void)state;
    own.agent_key = MS_STR("me");
    other.agent_key = MS_STR("you");
    add(ms_user_message(ms_text("u")));
    add(own);
    add(other);
    ms_memory_init(&memory, store, CHAT, MS_STR("me"));
    desc.store = NULL;
    desc.memory = &memory;
    ms_str body = body_of(&desc, NULL);
    assert_true(has(body, "\"name\":\"f\""));
    assert_false(has(body, "\"name\":\"g\""));
}

static void request_reports_the_system_text_when_it_has_an_arena(void **state)
{
    ms_request_desc desc = desc_of("anthropic");
    ms_project_report report;
    (void)state;
    desc.opts.system = MS_STR("be kind");
    (void)body_of(&desc, &report);
    assert_null(report.system.ptr);
    desc.arena = &arena;
    (void)body_of(&desc, &report);
    assert_true(ms_str_equal(report.system, MS_STR("be kind")));
}

static void request_is_refused_when_its_parts_do_not_fit(void **state)
{
    ms_request_desc base = desc_of("openai"), desc = base;
    ms_memory memory;
    ms_error err;
    ms_buf out;
    (void)state;
    memset(&out, 0, sizeof out);
    out.arena = &arena;
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

static void request_is_the_same_when_a_cursor_is_given(void **state)
{
    ms_request_desc desc = desc_of("openai");
    ms_query query;
    ms_cursor it;
    ms_error err;
    (void)state;
    add(ms_user_message(ms_text("u")));
    add(ms_assistant_message(ms_text("a")));
    ms_str of_store = body_of(&desc, NULL);
    memset(&query, 0, sizeof query);
    query.location = CHAT;
    assert_int_equal(ms_query_open(store, &query, &it, &err), MS_OK);
    desc.cursor = &it;
    assert_int_equal(ms_request(&desc, ms_buf_write, &it, NULL, &err), MS_E_ARGUMENT);
    desc.store = NULL; /* one source, not two */
    assert_true(ms_str_equal(body_of(&desc, NULL), of_store));
    assert_int_equal(ms_cursor_close(&it, &err), MS_OK);
}

static void request_writes_nothing_when_a_message_is_damaged(void **state)
{
    static uint64_t buffer[2048];
    ms_request_desc desc = desc_of("openai");
    ms_mem_desc fixed;
    ms_store *small;
    ms_error err;
    ms_buf out;
    (void)state;
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

/* Thinking as ms_answer stores it, without a hash of its answer. */
static ms_envelope thought(const char *text, const char *signed_by)
{
    ms_envelope m = ms_message(MS_T_REASONING, ms_text(text));
    m.extra = ms_str_of(signed_by);
    return m;
}

#define SIGNED "{\"signed\":{\"provider\":\"anthropic\",\"model\":\"claude-sonnet-4-5-20250929\"" \
               ",\"signature\":\"sig\"}}"
#define NO_MODEL "{\"signed\":{\"provider\":\"anthropic\",\"signature\":\"sig\"}}"
#define HIDDEN "{\"signed\":{\"provider\":\"anthropic\",\"data\":\"dat\"}}"

/* A turn in its tool loop, which thinks twice. */
static uint64_t add_loop(void)
{
    ms_envelope text = ms_assistant_message(ms_text("let me see")), one = call("x", "f");
    ms_envelope more = thought("", HIDDEN);
    text.flags = one.flags = more.flags = MS_FLAG_JOINED;
    add(ms_user_message(ms_text("u")));
    add(thought("hm", SIGNED));
    add(more);
    uint64_t seq = add(text);
    add(one);
    add(result("x", "r"));
    return seq;
}

static void thinking_goes_back_when_its_turn_runs(void **state)
{
    ms_request_desc desc = desc_of("anthropic");
    ms_project_report report;
    (void)state;
    add_loop();
    desc.opts.thinking = true;
    desc.opts.model = MS_STR("claude-sonnet-4-5");
    must_be(body_of(&desc, &report),
            "{'model':'claude-sonnet-4-5','messages':[{'role':'user','content':'u'},"
            "{'role':'assistant','content':[{'type':'thinking','thinking':'hm','signature':"
            "'sig'},{'type':'redacted_thinking','data':'dat'},{'type':'text','text':"
            "'let me see'},{'type':'tool_use','id':'x','name':'f','input':{}}]},{'role':"
            "'user','content':[{'type':'tool_result','tool_use_id':'x','content':'r'}]}]}");
    assert_int_equal(report.thinking_missing, 0);
    add(ms_user_message(ms_text("and"))); /* on the message of the results */
    assert_true(has(body_of(&desc, &report), "\"signature\":\"sig\""));
    add(ms_assistant_message(ms_text("done"))); /* the turn is over */
    assert_false(has(body_of(&desc, &report), "sig"));
    assert_int_equal(report.thinking_missing, 0);
}

/* DeepSeek asks for it on every message with calls since the user's last one. */
static void thinking_of_each_call_goes_back_when_chat_completions_ask_for_it(void **state)
{
    static const char *const ids[] = {"x", "y"};
    ms_request_desc desc = desc_of("openai");
    ms_project_report report;
    (void)state;
    add(ms_user_message(ms_text("u")));
    for (size_t i = 0; i < 2; i++) {
        ms_envelope next = call(ids[i], "f");
        next.flags = MS_FLAG_JOINED;
        add(thought(ids[i], "{\"signed\":{\"provider\":\"openai\"}}"));
        add(next);
        add(result(ids[i], "r"));
    }
    desc.opts.thinking = true;
#define STEP(id) \
    "{'role':'assistant','content':null,'reasoning_content':'" id "','tool_calls':[{'id':'" \
    id "','type':'function','function':{'name':'f','arguments':'{}'}}]},{'role':'tool'," \
    "'tool_call_id':'" id "','content':'r'}"
    must_be(body_of(&desc, &report),
            "{'messages':[{'role':'user','content':'u'}," STEP("x") "," STEP("y") "]}");
    assert_int_equal(report.thinking_missing, 0);
    add(call("z", "f"));
    add(result("z", "r"));
    (void)body_of(&desc, &report);
    assert_int_equal(report.thinking_missing, 1);
}

static void thinking_alone_is_left_out_when_the_user_goes_on(void **state)
{
    ms_request_desc desc = desc_of("chat-strict");
    (void)state;
    add(thought("hm", "{\"signed\":{\"provider\":\"chat-strict\"}}"));
    add(ms_user_message(ms_text("u")));
    desc.opts.thinking = true;
    must_be(body_of(&desc, NULL), "{'messages':[{'role':'user','content':'u'}]}");
}

static void thinking_stays_out_when_it_is_off_or_another_signed_it(void **state)
{
    static const struct {
        const char *provider, *model;
        bool on;
        unsigned missing;
    } rows[] = {
        {"anthropic", "claude-sonnet-4-5", false, 0}, {"anthropic", "claude-opus-4", true, 1},
        {"openai", "gpt-4o", true, 1},               {"gemini", "gemini-2.5-pro", true, 1},
        {"ollama", "qwen3", true, 1},
    };
    (void)state;
    ms_envelope only = call("y", "g");
    add(ms_user_message(ms_text("u")));
    add(thought("hm", SIGNED)); /* then the same without a model */
    only.flags = MS_FLAG_JOINED;
    add(only);
    add(result("y", "r"));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ms_request_desc desc = desc_of(rows[i].provider);
        ms_project_report report;
        desc.opts.thinking = rows[i].on;
        desc.opts.model = ms_str_of(rows[i].model);
        ms_str body = body_of(&desc, &report);
        assert_false(has(body, "\"sig\""));
        assert_false(has(body, "hm"));
        assert_int_equal(report.thinking_missing, rows[i].missing);
    }
    assert_int_equal(ms_rewind(store, CHAT, 1, NULL, NULL), MS_OK);
    add(thought("hm", NO_MODEL));
    add(only);
    add(result("y", "r"));
    for (size_t i = 2; i < sizeof rows / sizeof rows[0]; i++) {
        ms_request_desc desc = desc_of(rows[i].provider);
        desc.opts.thinking = true;
        assert_false(has(body_of(&desc, NULL), "hm"));
    }
}

static void thinking_stays_out_when_its_answer_was_edited(void **state)
{
    ms_request_desc desc = desc_of("anthropic");
    ms_project_report report;
    (void)state;
    uint64_t seq = add_loop();
    ms_envelope other = ms_assistant_message(ms_text("let me look"));
    assert_int_equal(ms_amend(store, seq, &other, NULL), MS_OK);
    desc.opts.thinking = true;
    assert_false(has(body_of(&desc, &report), "sig"));
    assert_int_equal(report.thinking_missing, 1);
}

static void thinking_is_one_model_family_when_only_the_date_differs(void **state)
{
    static const struct {
        const char *signed_by, *asked;
        bool same;
    } rows[] = {
        {"claude-sonnet-4-5", "claude-sonnet-4-5-20250929", true},
        {"claude-sonnet-4-5-latest", "anthropic/claude-sonnet-4-5", true},
        {"claude-sonnet-4", "claude-sonnet-4-5", false},
        {"claude-sonnet-4-5", "claude-opus-4-5", false},
        {"claude-sonnet-4@20250514", "claude-sonnet-4", true},
        {"claude", "", true},
        {"", "claude", true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ms_request_desc desc = desc_of("anthropic");
        char extra[200];
        snprintf(extra, sizeof extra, "{\"signed\":{\"provider\":\"anthropic\",\"model\":"
                 "\"%s\",\"signature\":\"sig\"}}", rows[i].signed_by);
        (void)ms_rewind(store, CHAT, 0, NULL, NULL);
        ms_envelope one = call("x", "f");
        one.flags = MS_FLAG_JOINED;
        add(ms_user_message(ms_text("u")));
        add(thought("hm", extra));
        add(one);
        add(result("x", "r"));
        desc.opts.thinking = true;
        desc.opts.model = ms_str_of(rows[i].asked);
        if (has(body_of(&desc, NULL), "\"sig\"") != rows[i].same)
            fail_msg("%s and %s", rows[i].signed_by, rows[i].asked);
    }
}

/* What the readers of the formats keep goes back, too. */
static void thinking_goes_back_when_a_reader_has_read_it(void **state)
{
    static const struct {
        const char *provider, *list, *sent;
    } rows[] = {
        {"anthropic",
         "[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":["
         "{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"sig\"},{\"type\":"
         "\"tool_use\",\"id\":\"x\",\"name\":\"f\",\"input\":{}}]}]",
         "{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"sig\"},{\"type\":"
         "\"tool_use\""},
        {"openai",
         "[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":\"a\","
         "\"reasoning_content\":\"hm\",\"tool_calls\":[{\"id\":\"x\",\"type\":\"function\","
         "\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}]",
         "\"content\":\"a\",\"reasoning_content\":\"hm\",\"tool_calls\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ms_request_desc desc = desc_of(rows[i].provider);
        ms_envelopes list;
        ms_error err;
        ms_read_opts lenient = {true, false};
        (void)ms_rewind(store, CHAT, 0, NULL, NULL);
        if (ms_read_list(ms_dialect_find(ms_str_of(rows[i].provider)),
                         ms_str_of(rows[i].list), &lenient, &arena, &list, &err) != MS_OK)
            fail_msg("%s: %s", err.path, err.message);
        for (size_t k = 0; k < list.count; k++) add(list.items[k]);
        add(result("x", "r"));
        desc.opts.thinking = true;
        ms_str body = body_of(&desc, NULL);
        if (!has(body, rows[i].sent)) fail_msg("%.*s", (int)body.len, body.ptr);
        desc.opts.thinking = false;
        assert_false(has(body_of(&desc, NULL), "hm"));
    }
}


int main(void)
{
    static const struct CMUnitTest tests[] = {
        ON_A_STORE(request_has_all_members_when_given),
        ON_A_STORE(request_has_only_messages_when_nothing_is_given),
        ON_A_STORE(request_reads_as_the_agent_when_a_memory_is_given),
        ON_A_STORE(request_reports_the_system_text_when_it_has_an_arena),
        ON_A_STORE(request_is_refused_when_its_parts_do_not_fit),
        ON_A_STORE(request_is_the_same_when_a_cursor_is_given),
        ON_A_STORE(request_writes_nothing_when_a_message_is_damaged),
        ON_A_STORE(thinking_goes_back_when_its_turn_runs),
        ON_A_STORE(thinking_of_each_call_goes_back_when_chat_completions_ask_for_it),
        ON_A_STORE(thinking_alone_is_left_out_when_the_user_goes_on),
        ON_A_STORE(thinking_stays_out_when_it_is_off_or_another_signed_it),
        ON_A_STORE(thinking_stays_out_when_its_answer_was_edited),
        ON_A_STORE(thinking_is_one_model_family_when_only_the_date_differs),
        ON_A_STORE(thinking_goes_back_when_a_reader_has_read_it),
    };
    return cmocka_run_group_tests(tests, NULL, release);
}
