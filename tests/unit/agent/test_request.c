/* ms_request: bodies of requests from a store and a memory, refusals. ms_pending. The messages in a
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


static const ms_msg *no_message(void *ctx)
{
    (void)ctx;
    return NULL;
}


/* ---- bodies ---- */

#define OF_CHAT " [{\"type\" :\"function\", \"function\":{\"name\":\"f\"} } ] "

TEST(request_has_all_members_when_given)
{
    static const struct {
        const char *provider, *tools, *body;
    } rows[] = {
        {"openai", OF_CHAT,
         "{'model':'m','messages':[{'role':'system','content':'be kind'},{'role':'user',"
         "'content':'u'}],'tools':[{'type':'function','function':{'name':'f'}}],"
         "'temperature':0.5}"},
        {"anthropic", "[ { \"name\" : \"f\",\"input_schema\":{}} ] ",
         "{'model':'m','system':'be kind','messages':[{'role':'user','content':'u'}],"
         "'tools':[{'name':'f','input_schema':{}}],'max_tokens':4096,'temperature':0.5}"},
        {"gemini", " [{\"functionDeclarations\":[ ] } ]",
         "{'systemInstruction':{'parts':[{'text':'be kind'}]},'contents':[{'role':"
         "'user','parts':[{'text':'u'}]}],'tools':[{'functionDeclarations':[]}],"
         "'temperature':0.5}"},
        {"ollama", OF_CHAT,
         "{'model':'m','messages':[{'role':'system','content':'be kind'},{'role':'user',"
         "'content':'u'}],'tools':[{'type':'function','function':{'name':'f'}}],"
         "'temperature':0.5}"},
    };
    add(ms_user_message(ms_text("u")));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ms_request_desc desc = desc_of(rows[i].provider);
        desc.opts.model = MS_STR("m");
        desc.opts.system = MS_STR("be kind");
        desc.tools = ms_str_of(rows[i].tools);
        desc.extra = MS_STR("{\"temperature\": 0.5}");
        must_be(body_of(&desc, NULL), rows[i].body);
    }
}

TEST(request_has_only_what_its_provider_needs_when_nothing_is_given)
{
    static const struct { const char *provider, *body; } rows[] = {
        {"openai", "{'model':'m','messages':[{'role':'user','content':'u'}]}"},
        {"chat-strict", "{'model':'m','messages':[{'role':'user','content':'u'}]}"},
        {"anthropic", "{'model':'m','messages':[{'role':'user','content':'u'}],"
                      "'max_tokens':4096}"},
        {"gemini", "{'contents':[{'role':'user','parts':[{'text':'u'}]}]}"},
        {"ollama", "{'model':'m','messages':[{'role':'user','content':'u'}]}"},
    };
    add(ms_user_message(ms_text("u")));
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_request_desc desc = desc_of(rows[i].provider);
        must_be(body_of(&desc, NULL), rows[i].body);
    }
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
    add(ms_user_message(ms_text("u")));
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
    base.opts.model = MS_STR("m");
    desc = base;
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

/* One call with all of a row; what it says is the sentence, where it lies the path. */
static void must_refuse(const ms_request_desc *desc, ms_result want, const char *path,
                        const char *says)
{
    ms_buf out = {.arena = &arena};
    ms_error err;
    memset(&err, 0, sizeof err);
    ms_result got = ms_request(desc, ms_buf_write, &out, NULL, &err);
    if (got != want || strcmp(err.path, path) != 0 || strstr(err.message, says) == NULL)
        fail_msg("%s at '%s': %s\ninstead of %s at '%s': %s", ms_result_text(got), err.path,
                 err.message, ms_result_text(want), path, says);
    assert_int_equal(out.len, 0);
}

TEST(request_is_refused_when_its_model_or_max_tokens_is_missing)
{
    static const char *const names[] = {"openai", "chat-strict", "anthropic", "ollama"};
    static const struct { size_t most; const char *extra; ms_result want; } rows[] = {
        {0, NULL, MS_E_ARGUMENT}, {0, "{}", MS_E_ARGUMENT}, {0, "{\"max_tokens\":9}", MS_OK},
        {9, NULL, MS_OK}, {9, "{\"max_tokens\":\"9\"}", MS_E_KIND},
        {2000, "{\"thinking\":{\"budget_tokens\":1999}}", MS_OK},
        {2000, "{\"thinking\":{\"budget_tokens\":2000}}", MS_E_ARGUMENT},
        {2000, "{\"thinking\":{\"type\":\"adaptive\"}}", MS_OK},
        {2000, "{\"max_tokens\":9,\"thinking\":{\"budget_tokens\":9}}", MS_E_ARGUMENT},
        {9, "{\"max_tokens\":2001,\"thinking\":{\"budget_tokens\":2000}}", MS_OK}};
    add(ms_user_message(ms_text("u")));
    for (size_t i = 0; i < COUNT(names); i++) {
        ms_request_desc desc = desc_of(names[i]);
        must_refuse(&desc, MS_E_ARGUMENT, "opts.model", "set opts.model");
    }
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_request_desc desc = desc_of("anthropic");
        ms_profile own = *desc.profile;
        own.max_tokens = rows[i].most;
        desc.profile = &own;
        desc.opts.model = MS_STR("m");
        desc.extra = ms_str_of(rows[i].extra);
        if (rows[i].want == MS_OK) (void)body_of(&desc, NULL);
        else must_refuse(&desc, rows[i].want, "max_tokens", "max_tokens");
    }
    ms_request_desc desc = desc_of("anthropic");
    desc.extra = MS_STR("{\"max_tokens\":9}");
    must_be(body_of(&desc, NULL), "{'model':'m','messages':[{'role':'user','content':'u'}],"
                                  "'max_tokens':9}");
}

TEST(request_is_refused_when_its_tools_have_the_form_of_another_provider)
{
    static const char *const providers[] = {"openai", "ollama", "anthropic", "gemini"};
    static const struct { const char *tool, *of, *takes; } rows[] = { /* by providers */
        {"{\"type\":\"function\",\"function\":{\"name\":\"f\"}}", "chat completions", "oo.."},
        {"{\"name\":\"f\",\"input_schema\":{}}", "Anthropic", "..o."},
        {"{\"functionDeclarations\":[]}", "Gemini", "...o"},
        {"{\"function_declarations\":[]}", "Gemini", "...o"},
        {"{\"name\":\"f\",\"inputSchema\":{}}", "MCP", "...."},
        {"{\"type\":\"function\",\"name\":\"f\"}", "the Responses API", "...."},
        {"{\"name\":\"f\",\"parameters\":{}}", "the Responses API", "...."},
        {"{\"type\":\"web_search_20250305\",\"name\":\"s\"}", "no known provider", "ooo."},
        {"{\"googleSearch\":{}}", "no known provider", "...o"}};
    add(ms_user_message(ms_text("u")));
    for (size_t i = 0; i < COUNT(rows); i++)
        for (size_t k = 0; k < COUNT(providers); k++) {
            ms_request_desc desc = desc_of(providers[k]);
            char tools[256], says[64];
            snprintf(tools, sizeof tools, "[%s]", rows[i].tool);
            snprintf(says, sizeof says, "tools[0] has the form of %s", rows[i].of);
            desc.opts.model = MS_STR("m");
            desc.tools = ms_str_of(tools);
            if (rows[i].takes[k] == 'o') (void)body_of(&desc, NULL);
            else must_refuse(&desc, MS_E_ARGUMENT, "tools", says);
        }
    ms_request_desc desc = desc_of("openai");
    desc.tools = MS_STR("[{\"type\":\"x\"},1]");
    must_refuse(&desc, MS_E_KIND, "tools", "tools[1]");
}

/* What all providers of a profile refuse in tools, by the path of the member; and what some
 * take, which passes. path NULL: it passes. */
TEST(request_is_refused_when_its_tools_have_what_every_provider_refuses)
{
#define FUNCTION(text) "[{\"type\":\"function\",\"function\":" text "}]"
#define DECLARED(text) "[{\"functionDeclarations\":[{\"name\":\"a\"}," text "]}]"
#define SPEC(text) "[{\"toolSpec\":" text "}]"
#define NAME_64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define SCHEMA(name) "{\"name\":\"" name "\",\"input_schema\":{}}"
    static const struct {
        const char *provider, *tools;
        ms_result want;
        const char *path, *says;
    } rows[] = {
        {"anthropic", "[{\"nam\":\"x\",\"input_schema\":{}}]", MS_E_MISSING, "tools[0].name",
         "the tool has no name"},
        {"anthropic", "[{\"name\":null,\"input_schema\":{}}]", MS_E_MISSING, "tools[0].name",
         "the tool has no name"},
        {"anthropic", "[{\"name\":1,\"input_schema\":{}}]", MS_E_KIND, "tools[0].name",
         "must be a string"},
        {"anthropic", "[" SCHEMA("") "]", MS_E_ARGUMENT, "tools[0].name", "is empty"},
        {"anthropic", "[{\"name\":\"x\",\"input_schema\":3}]", MS_E_KIND,
         "tools[0].input_schema", "schema of tool 'x' must be an object"},
        {"anthropic", "[{\"name\":\"x\",\"input_schema\":null}]", MS_E_KIND,
         "tools[0].input_schema", "must be an object"},
        {"anthropic", "[{\"type\":\"custom\",\"name\":\"x\"}]", MS_E_MISSING,
         "tools[0].input_schema", "tool 'x' has no schema"},
        {"anthropic", "[" SCHEMA("a") "," SCHEMA("my tool!") "]", MS_E_ARGUMENT,
         "tools[1].name", "is 'my tool!', this provider takes letters, digits and _-"},
        {"anthropic", "[" SCHEMA("a{b") "]", MS_E_ARGUMENT, "tools[0].name", "is 'a{b'"},
        {"anthropic", "[{\"type\":null,\"name\":\"x\",\"input_schema\":{}}]", MS_OK, NULL, NULL},
        {"anthropic", "[" SCHEMA(NAME_64 NAME_64 "x") "]", MS_E_TOO_LARGE, "tools[0].name",
         "has 129 bytes, this provider takes at most 128"},
        {"anthropic", "[" SCHEMA(NAME_64 NAME_64) "]", MS_OK, NULL, NULL},
        {"anthropic", "[" SCHEMA("\\u0066") "]", MS_OK, NULL, NULL},
        {"anthropic", "[" SCHEMA("f") "," SCHEMA("g") "," SCHEMA("f") "]", MS_E_ARGUMENT,
         "tools[2].name", "tools[0] and tools[2] have one name: \"f\""},
        {"anthropic", "[" SCHEMA("f") "," SCHEMA("ff") "," SCHEMA("F") "]", MS_OK, NULL, NULL},
        {"anthropic", "[{\"type\":\"mcp_toolset\",\"mcp_server_name\":\"s\"},"
         "{\"type\":\"bash_20250124\",\"name\":\"bash\"}]", MS_OK, NULL, NULL},
        {"anthropic", "[{\"type\":\"mcp_toolset\",\"name\":null},{\"type\":\"mcp_toolset\","
         "\"name\":null}]", MS_OK, NULL, NULL},
        {"openai", "[{\"type\":\"custom\",\"custom\":{\"name\":\"c\"},\"function\":null}]",
         MS_OK, NULL, NULL},
        {"openai-responses", "[{\"type\":\"tool_search\",\"execution\":\"client\",\"parameters\":"
         "{\"type\":\"object\"}},{\"type\":\"mcp\",\"parameters\":null}]", MS_OK, NULL, NULL},
        {"gemini", "[{\"function_declarations\":null,\"google_search\":{}},"
         "{\"functionDeclarations\":null,\"function_declarations\":[{\"name\":\"f\"}]}]", MS_OK,
         NULL, NULL},
        {"gemini", "[{\"functionDeclarations\":null,\"function_declarations\":[1]}]", MS_E_KIND,
         "tools[0].function_declarations[0]", "must be an object"},
        {"openai", FUNCTION("{}"), MS_E_MISSING, "tools[0].function.name", "no name"},
        {"openai", FUNCTION("3"), MS_E_KIND, "tools[0].function", "must be an object"},
        {"openai", FUNCTION("{\"name\":\"\"}"), MS_E_ARGUMENT, "tools[0].function.name",
         "is empty"},
        {"openai", FUNCTION("{\"name\":\"f\",\"parameters\":[]}"), MS_E_KIND,
         "tools[0].function.parameters", "must be an object"},
        {"openai", FUNCTION("{\"name\":\"f\",\"parameters\":null}"), MS_OK, NULL, NULL},
        {"openai", FUNCTION("{\"name\":\"a.b\"}"), MS_OK, NULL, NULL},
        {"ollama", FUNCTION("{}"), MS_E_MISSING, "tools[0].function.name", "no name"},
        {"cohere", FUNCTION("{}"), MS_E_MISSING, "tools[0].function.name", "no name"},
        {"openai-responses", "[{\"type\":\"function\"}]", MS_E_MISSING, "tools[0].name",
         "no name"},
        {"openai-responses", "[{\"type\":\"custom\"}]", MS_E_MISSING, "tools[0].name",
         "no name"},
        {"openai-responses", "[{\"type\":\"function\",\"name\":\"f\",\"parameters\":1}]",
         MS_E_KIND, "tools[0].parameters", "must be an object"},
        {"openai-responses", "[{\"type\":\"web_search\"},{\"type\":\"custom\",\"name\":"
         "\"x y\"}]", MS_OK, NULL, NULL},
        {"gemini-interactions", "[{\"type\":\"function\"}]", MS_E_MISSING, "tools[0].name",
         "no name"},
        {"gemini", DECLARED("{}"), MS_E_MISSING, "tools[0].functionDeclarations[1].name",
         "no name"},
        {"gemini", DECLARED("{\"name\":\"a/b\"}"), MS_E_ARGUMENT,
         "tools[0].functionDeclarations[1].name", "'a/b'"},
        {"gemini", DECLARED("{\"name\":\"a.b:c-d_e\"},{\"name\":\"a\"}"), MS_OK, NULL, NULL},
        {"gemini", "[{\"function_declarations\":[1]}]", MS_E_KIND,
         "tools[0].function_declarations[0]", "must be an object"},
        {"gemini", "[{\"functionDeclarations\":{}}]", MS_E_KIND,
         "tools[0].functionDeclarations", "must be a list"},
        {"bedrock", SPEC("{\"name\":\"f\"}"), MS_E_MISSING, "tools[0].toolSpec.inputSchema",
         "tool 'f' has no schema"},
        {"bedrock", SPEC("{\"name\":\"" NAME_64 "x\",\"inputSchema\":{}}"), MS_E_TOO_LARGE,
         "tools[0].toolSpec.name", "has 65 bytes, this provider takes at most 64"},
        {"bedrock", SPEC("{\"name\":\"a.b\",\"inputSchema\":{}}"), MS_E_ARGUMENT,
         "tools[0].toolSpec.name", "'a.b'"},
        {"bedrock", "[{\"cachePoint\":{\"type\":\"default\"}}]", MS_OK, NULL, NULL}};
    add(ms_user_message(ms_text("u")));
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_request_desc desc = desc_of(rows[i].provider);
        desc.opts.model = MS_STR("m");
        desc.tools = ms_str_of(rows[i].tools);
        if (rows[i].path == NULL) (void)body_of(&desc, NULL);
        else must_refuse(&desc, rows[i].want, rows[i].path, rows[i].says);
    }
}

/* Two of 300 names are equal: the last one is found, wherever the other is. */
TEST(request_is_refused_when_the_last_of_many_tools_has_the_name_of_another)
{
    enum { MANY = 300 };
    static char tools[MANY * 64];
    static const size_t equal[] = {0, 1, 150, MANY - 1, MANY};
    add(ms_user_message(ms_text("u")));
    for (size_t k = 0; k < COUNT(equal); k++) {
        ms_request_desc desc = desc_of("anthropic");
        size_t n = 0;
        for (size_t i = 0; i <= MANY; i++)
            n += (size_t)snprintf(tools + n, sizeof tools - n,
                                  "%c{\"name\":\"f%zu\",\"input_schema\":{}}",
                                  i == 0 ? '[' : ',', i == MANY ? equal[k] : i);
        snprintf(tools + n, sizeof tools - n, "]");
        desc.opts.model = MS_STR("m");
        desc.tools = ms_str_of(tools);
        if (equal[k] == MANY) (void)body_of(&desc, NULL);
        else must_refuse(&desc, MS_E_ARGUMENT, "tools[300].name", "have one name");
    }
}

/* Names of which many seem equal at first, and a tool without a name. */
TEST(request_is_written_when_its_tools_have_many_names)
{
    enum { MANY = 500 };
    static char tools[MANY * 64];
    size_t n = (size_t)snprintf(tools, sizeof tools, "[{\"type\":\"mcp_toolset\"}");
    add(ms_user_message(ms_text("u")));
    for (uint32_t i = 0; i < MANY; i++)
        n += (size_t)snprintf(tools + n, sizeof tools - n, ",{\"name\":\"f%x\",\"input_schema\":{}}",
                              (unsigned)(i * i * 2654435761u + i));
    snprintf(tools + n, sizeof tools - n, "]");
    ms_request_desc desc = desc_of("anthropic");
    desc.tools = ms_str_of(tools);
    ms_str body = body_of(&desc, NULL);
    assert_true(has_text(body, tools));
}

/* A profile that a program made may have no name: errors say so in words. */
TEST(request_is_refused_when_its_profile_without_a_name_contradicts_itself)
{
    ms_profile own = *ms_profile_find(MS_STR("anthropic"));
    ms_compaction_plan plan = {.upto = 1};
    ms_buf out = {.arena = &arena};
    ms_error err;
    add(ms_user_message(ms_text("u")));
    own.name = NULL;
    ms_request_desc desc = desc_of("anthropic");
    desc.profile = &own;
    desc.opts.model = MS_STR("m");
    desc.tools = MS_STR("[{\"name\":\"a b\",\"input_schema\":{}}]"); /* not judged */
    assert_int_equal(ms_request(&desc, ms_buf_write, &out, NULL, &err), MS_OK);
    own.system = MS_SYSTEM_ANYWHERE;
    must_refuse(&desc, MS_E_ARGUMENT, "profile.system", "profile of the request: this wire");
    own = *ms_profile_find(MS_STR("openai"));
    own.name = NULL;
    desc.tools = ms_str_of(NULL);
    assert_int_equal(ms_compact_request(&desc, &plan, ms_str_of(NULL), ms_buf_write, &out, &err),
                     MS_E_ARGUMENT);
    assert_string_equal(err.message, "profile of the request has no form of its own for "
                                     "compactions: pass a prompt, as MS_COMPACT_PROMPT");
}

/* What a request that refers to the one before writes by itself. */
TEST(request_is_refused_when_extra_has_what_opts_previous_writes)
{
    static const struct {
        const char *provider, *extra, *says; /* says NULL: it is written */
    } rows[] = {
        {"openai-responses", "{\"store\":false}", "the request writes store by itself"},
        {"openai-responses", "{\"previous_response_id\":\"r\"}", "writes previous_response_id"},
        {"openai-responses", "{\"user\":\"x\"}", NULL},
        {"openai", "{\"user\":\"x\"}", NULL}, /* it has all messages */
        {"openai", "{\"store\":false}", NULL},
    };
    add(ms_user_message(ms_text("u")));
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_request_desc desc = desc_of(rows[i].provider);
        desc.opts.model = MS_STR("m");
        desc.opts.previous = true;
        desc.extra = ms_str_of(rows[i].extra);
        if (rows[i].says != NULL) must_refuse(&desc, MS_E_ARGUMENT, "opts.previous", rows[i].says);
        else assert_true(has_text(body_of(&desc, NULL), "\"u\""));
    }
}

/* A server that takes a provider's form may take other names than the provider. */
TEST(names_of_tools_are_not_judged_for_a_profile_of_another_name)
{
    ms_profile copy = *ms_profile_find(MS_STR("anthropic"));
    add(ms_user_message(ms_text("u")));
    ms_request_desc desc = desc_of("anthropic");
    desc.opts.model = MS_STR("m");
    desc.tools = MS_STR("[{\"name\":\"mcp.server.f\",\"input_schema\":{}},"
                        "{\"name\":\"mcp.server.f\",\"input_schema\":{}}]");
    must_refuse(&desc, MS_E_ARGUMENT, "tools[0].name", "takes letters, digits and _-");
    copy.name = "gateway";
    desc.profile = &copy;
    (void)body_of(&desc, NULL);
    desc.tools = MS_STR("[{\"nam\":\"x\",\"input_schema\":{}}]");
    must_refuse(&desc, MS_E_MISSING, "tools[0].name", "the tool has no name");
}

TEST(request_is_refused_when_extra_has_a_member_twice)
{
    add(ms_user_message(ms_text("u")));
    ms_request_desc desc = desc_of("openai");
    desc.opts.model = MS_STR("m");
    desc.extra = MS_STR("{\"a\":1,\"b\":{\"a\":1},\"a\":1}");
    must_refuse(&desc, MS_E_ARGUMENT, "extra", "extra has the member a twice");
    desc.extra = MS_STR("{\"a\":1,\"\\u0061\":2}");
    must_refuse(&desc, MS_E_ARGUMENT, "extra", "extra has the member a twice");
    desc.extra = MS_STR("{\"a\\\\u0062\":1,\"a\\u0062\":2}"); /* two names */
    (void)body_of(&desc, NULL);
    desc.extra = MS_STR("{\"a\":1,\"b\":{\"a\":1},\"A\":1}");
    (void)body_of(&desc, NULL);
}

/* An empty history is refused by its name, an unknown location, too. */
TEST(request_is_refused_when_nothing_of_its_history_is_sent)
{
    static const char *const names[] = {"openai", "chat-strict", "anthropic", "gemini",
                                        "ollama"};
    ms_envelope hers = call("x", "f"), none = ms_message(MS_T_DELTA, ms_text("d"));
    hers.agent_key = MS_STR("ann");
    for (size_t i = 0; i < COUNT(names); i++) {
        ms_request_desc desc = desc_of(names[i]);
        ms_memory memory;
        (void)open_store(NULL);
        desc.store = store;
        desc.opts.model = MS_STR("m");
        desc.opts.system = MS_STR("be kind"); /* no part of the history */
        must_refuse(&desc, MS_E_NOT_FOUND, "location", "location 'chat' has no messages");
        add(hers);
        desc.location = MS_STR("chta");
        must_refuse(&desc, MS_E_NOT_FOUND, "location", "location 'chta' has no messages");
        ms_memory_init(&memory, store, CHAT, MS_STR("bob"));
        desc.store = NULL;
        desc.memory = &memory;
        must_refuse(&desc, MS_E_NOT_FOUND, "agent_key",
                    "agent 'bob' reads no message of location 'chat'");
        memory.location = MS_STR("chta");
        must_refuse(&desc, MS_E_NOT_FOUND, "location", "location 'chta' has no messages");
        (void)open_store(NULL);
        add(none);
        desc.store = store;
        desc.memory = NULL;
        desc.location = CHAT;
        must_refuse(&desc, MS_E_NOT_FOUND, "location", "1 read, 1 dropped");
        desc.store = NULL;
        desc.next = no_message;
        must_refuse(&desc, MS_E_NOT_FOUND, "", "the history is empty");
        desc.store = store;
        desc.next = NULL;
        add(ms_message(MS_T_DIRECTOR_CONTEXT, ms_text("Begin."))); /* it may be alone */
        (void)body_of(&desc, NULL);
    }
}

/* A profile that asks for what its wire has no form for, also of results and pictures. */
TEST(request_of_any_profile_is_written_or_refused)
{
    static const char picture[] = "[{\"type\":\"text\",\"text\":\"t\"},{\"type\":"
                                  "\"image_url\",\"image_url\":{\"url\":\"https://x/y.png\"}},"
                                  "{\"type\":\"image_url\",\"image_url\":{\"url\":"
                                  "\"data:image/png;base64,iVBO\"}}]";
    ms_envelope m = ms_message(MS_T_REASONING, ms_text("hm"));
    size_t written = 0, refused = 0;
    add(ms_message(MS_T_DIRECTOR_CONTEXT, ms_text("Mode: plan")));
    add(ms_user_message(ms_json(ms_str_of(picture))));
    add(ms_message(MS_T_DIRECTOR_CONTEXT, ms_text("Mode: work")));
    m.extra = MS_STR("{\"signed\":{\"provider\":\"own\",\"signature\":\"s\"}}");
    add(m);
    m.extra = MS_STR("{\"signed\":{\"provider\":\"own\",\"data\":\"s\"}}");
    m.flags = MS_FLAG_JOINED;
    add(m);
    m = call("x", "f");
    m.flags = MS_FLAG_JOINED;
    add(m);
    add(ms_observation(ms_json(ms_str_of(picture)), MS_STR("x")));
    m = ms_message(MS_T_ERROR, ms_json(ms_str_of(picture)));
    m.call_id = MS_STR("y");
    add(call("y", "g"));
    add(m);
    add(ms_user_message(ms_text("u")));
    add(ms_assistant_message(ms_text("a")));
    for (unsigned way = 0; way < 5 * 5 * 32; way++) {
        ms_profile own = *ms_profile_at(way % 5 == 4 ? 5 : way % 5);
        ms_request_desc desc = desc_of("openai");
        ms_project_report report;
        ms_buf out = {&arena, NULL, 0, 0};
        ms_error err;
        unsigned bits = way / 25;
        own.name = "own";
        own.system = (ms_system_place)(way / 5 % 5);
        own.image_urls = bits & 1;
        own.start_user = bits & 2;
        own.bridge_text = bits & 4 ? "bridge" : NULL;
        own.error_text = bits & 8 ? "error" : NULL;
        own.end_text = bits & 16 ? "end" : NULL;
        desc.profile = &own;
        desc.opts.model = MS_STR("m");
        desc.opts.thinking = true;
        desc.arena = &arena;
        ms_result code = ms_project(&desc, ms_buf_write, &out, NULL, &err);
        if (code == MS_OK) assert_int_equal(ms_json_check(ms_buf_text(&out), NULL, NULL, &err),
                                            MS_OK);
        out.len = 0;
        if (code == MS_OK) code = ms_request(&desc, ms_buf_write, &out, &report, &err);
        written += code == MS_OK;
        refused += code == MS_E_ARGUMENT;
        if (code == MS_OK) {
            assert_int_equal(ms_json_check(ms_buf_text(&out), NULL, NULL, &err), MS_OK);
            assert_int_equal(report.ended, own.end_text != NULL);
        } else {
            assert_true(strcmp(err.path, "profile.system") == 0 ||
                        strcmp(err.path, "profile.image_urls") == 0);
        }
        ms_arena_reset(&arena);
    }
    assert_int_equal(written + refused, 5 * 5 * 32);
    assert_int_equal(written, 2 * 2 * 32 + 3 * 32 + 2 * 16); /* chat; apart; ollama */
}

/* Where the model takes it; after assistant text, and by default, it is the user's. */
TEST(system_text_stays_inside_of_a_list_when_the_profile_has_it_there)
{
    ms_request_desc desc = desc_of("anthropic");
    ms_project_report report;
    ms_profile own = *desc.profile;
    own.system = MS_SYSTEM_INSIDE;
    add(ms_message(MS_T_DIRECTOR_CONTEXT, ms_text("be kind")));
    add(ms_user_message(ms_text("u")));
    add(ms_message(MS_T_DIRECTOR_CONTEXT, ms_text("plan")));
    add(call("x", "f"));
    add(ms_observation(ms_text("r"), MS_STR("x")));
    add(ms_message(MS_T_DIRECTOR_CONTEXT, ms_text("work")));
    add(ms_message(MS_T_DIRECTOR_CONTEXT, ms_text("fast")));
    must_be(body_of(&desc, &report),
            "{'model':'m','system':'be kind','messages':[{'role':'user','content':"
            "'u\\n\\n<context>\\nplan\\n</context>'},{'role':'assistant','content':[{'type':"
            "'tool_use','id':'x','name':'f','input':{}}]},{'role':'user','content':[{'type':"
            "'tool_result','tool_use_id':'x','content':'r'},{'type':'text','text':'<context>"
            "\\nwork\\n</context>\\n\\n<context>\\nfast\\n</context>'}]}],'max_tokens':4096}");
    assert_int_equal(report.wrapped, 3);
    desc.profile = &own;
    ms_str body = body_of(&desc, &report);
    must_be(body,
            "{'model':'m','system':'be kind','messages':[{'role':'user','content':'u'},"
            "{'role':'system','content':'plan'},{'role':'assistant','content':[{'type':"
            "'tool_use','id':'x','name':'f','input':{}}]},{'role':'user','content':[{'type':"
            "'tool_result','tool_use_id':'x','content':'r'}]},{'role':'system','content':"
            "'work\\n\\nfast'}],'max_tokens':4096}");
    assert_int_equal(report.wrapped, 0);
    desc.opts.newest = 5; /* the window begins with it */
    assert_true(has_text(body_of(&desc, &report), "[{\"role\":\"user\",\"content\":\"(The "));
    desc.opts.newest = 0;
    add(ms_assistant_message(ms_text("a")));
    ms_str before = body_of(&desc, &report);
    add(ms_message(MS_T_DIRECTOR_CONTEXT, ms_text("stop")));
    ms_str now = body_of(&desc, &report);
    assert_true(has_text(now, "{\"role\":\"user\",\"content\":\"<context>\\nstop\\n</context>\"}"));
    assert_int_equal(report.wrapped, 1);
    size_t same = 0; /* the beginning stays, up to the text that ended the list */
    while (same < now.len && same < before.len && now.ptr[same] == before.ptr[same]) same++;
    assert_true(has_text(ms_str_n(now.ptr, same), "work\\n\\nfast") &&
                has_text(ms_str_n(now.ptr, same), "\"a\""));
    static const char *const others[] = {"openai", "gemini", "ollama", "bedrock"};
    for (size_t i = 0; i < COUNT(others); i++) {
        own = *ms_profile_find(ms_str_of(others[i]));
        own.system = MS_SYSTEM_INSIDE;
        desc.opts.model = MS_STR("m");
        must_refuse(&desc, MS_E_ARGUMENT, "profile.system", "both in a member");
    }
}

/* Assistant text is not last where the provider refuses to go on with it. */
TEST(request_ends_with_the_user_when_a_profile_has_an_end_text)
{
    static const struct { const char *provider; bool ends; } rows[] = {
        {"openai", false}, {"chat-strict", true}, {"anthropic", true}, {"gemini", false},
        {"ollama", false}};
    add(ms_user_message(ms_text("u")));
    add(ms_assistant_message(ms_text("a")));
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_request_desc desc = desc_of(rows[i].provider);
        ms_project_report report;
        ms_profile own = *desc.profile;
        assert_int_equal(has_text(body_of(&desc, &report), "(Continue.)"), rows[i].ends);
        assert_int_equal(report.ended, rows[i].ends);
        own.end_text = NULL; /* a prefill */
        desc.profile = &own;
        assert_false(has_text(body_of(&desc, &report), "(Continue.)"));
        assert_int_equal(report.ended, 0);
    }
    add(call("x", "f")); /* its result ends the list */
    ms_request_desc desc = desc_of("anthropic");
    assert_false(has_text(body_of(&desc, NULL), "(Continue.)"));
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
    desc.opts.model = MS_STR("m");
    assert_int_equal(ms_request(&desc, ms_buf_write, &out, NULL, &err), MS_E_DAMAGED);
    assert_int_equal(out.len, 0);
    ms_close(small);
}


/* ---- calls that have no result ---- */

/* The calls of a list, "tool(args)#id@agent;", then what was left out. */
static const char *waiting(const ms_request_desc *desc)
{
    static char text[1024];
    ms_calls calls;
    ms_error err;
    size_t n = 0;
    if (ms_pending(desc, &arena, &calls, &err) != MS_OK) fail_msg("%s", err.message);
    text[0] = '\0';
    for (size_t i = 0; i < calls.count; i++) {
        const ms_call *c = &calls.items[i];
        assert_true(i == 0 || c->seq > c[-1].seq);
        n += (size_t)snprintf(text + n, sizeof text - n, "%.*s(%.*s)#%.*s%s%.*s;",
                              (int)c->tool.len, c->tool.ptr, (int)c->args.text.len,
                              c->args.text.ptr, (int)c->id.len, c->id.ptr,
                              c->agent_key.ptr != NULL ? "@" : "", (int)c->agent_key.len,
                              c->agent_key.ptr);
    }
    if (calls.unfinished > 0)
        n += (size_t)snprintf(text + n, sizeof text - n, "unfinished %zu;",
                              calls.unfinished);
    if (calls.abandoned > 0)
        n += (size_t)snprintf(text + n, sizeof text - n, "abandoned %zu;",
                              calls.abandoned);
    if (calls.answered) snprintf(text + n, sizeof text - n, "answered");
    return text;
}

/* A message of one letter: U and A texts, C and R a call and its result, J a call that
 * continues the answer, I a call that is interrupted. Then id, or text; then the agent. */
static ms_envelope short_message(const char *word)
{
    ms_str id = ms_str_n(word + 1, 1), agent = ms_str_of(word[2] != '\0' ? word + 2 : NULL);
    ms_envelope m = word[0] == 'U'   ? ms_user_message(ms_text_n(id))
                    : word[0] == 'A' ? ms_assistant_message(ms_text_n(id))
                    : word[0] == 'R' ? ms_observation(ms_text("r"), id)
                                     : ms_action(MS_STR("f"), ms_json(MS_STR("{}")), id);
    if (word[0] == 'J') m.flags = MS_FLAG_JOINED;
    m.agent_key = agent;
    return m;
}

TEST(calls_wait_until_they_have_a_result_or_their_agent_went_on)
{
    static const struct { const char *history, *want; } rows[] = {
        {"", ""},
        {"U1", ""},
        {"U1 A2", "answered"},
        {"U1 Ca", "f({})#a;"},
        {"U1 Ca Jb Jc", "f({})#a;f({})#b;f({})#c;"},
        {"U1 Ca Jb Rb", "f({})#a;"},
        {"U1 Ca Ra", ""},
        {"U1 Ca Ra A2", "answered"},
        {"U1 Ca A2", "abandoned 1;answered"},
        {"U1 A1 Ca", "f({})#a;"},
        {"U1 Ca Jb Ra A2", "abandoned 1;answered"},
        {"U1 Ca U2", "f({})#a;"},               /* the user only spoke between */
        {"U1 Ca U2 A3", "abandoned 1;answered"},
        {"U1 Ca U2 Jb", "f({})#a;f({})#b;"},    /* in the middle of an answer */
        {"U1 Ca U2 Jb Rb", "f({})#a;"},
        {"U1 Ca U2 A3 Ra", "answered"},         /* late, but there */
        {"U1 Ca Ra Ca", "f({})#a;"},            /* an id that comes again */
        {"U1 Ca Ra Ca Ra", ""},
        {"U1 Caann Cabob", "f({})#a@ann;f({})#a@bob;"},
        {"U1 Caann Cabob Raann", "f({})#a@bob;"},
        {"U1 Caann Ccbob Jbann", "f({})#a@ann;f({})#c@bob;f({})#b@ann;"}, /* one answer */
        {"U1 Caann A2bob", "f({})#a@ann;answered"},
        {"U1 Ia Ca", "f({})#a;unfinished 1;"},
        {"U1 Ia Ca Ra", "unfinished 1;"},       /* no call that has run is listed */
        {"U1 Ca Ia Ra", "unfinished 1;"},
        {"U1 Ia Ia Ca Ca Ra", "f({})#a;unfinished 2;"},
        {"U1 Ia Ca Ra Ra", ""},
        {"U1 Ia Ia Ra", "unfinished 1;"},
        {"U1 Jb", "f({})#b;"},                  /* what it continues is gone */
        {"U1 Jb Jc U2 Jd", "f({})#b;f({})#c;f({})#d;"},
        {"U1 A1bob Jbann", "f({})#b@ann;"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        (void)open_store(NULL);
        for (const char *at = rows[i].history; *at != '\0'; at += strspn(at, " ")) {
            char word[16];
            snprintf(word, sizeof word, "%.*s", (int)strcspn(at, " "), at);
            at += strcspn(at, " ");
            ms_envelope m = short_message(word);
            ms_stream stream;
            if (word[0] == 'I') {
                m.args = ms_text("{}");
                assert_int_equal(ms_stream_begin(&stream, store, CHAT, &m, NULL, NULL),
                                 MS_OK);
            } else {
                add(m);
            }
        }
        ms_request_desc desc = desc_of("anthropic");
        const char *got = waiting(&desc);
        if (strcmp(got, rows[i].want) != 0)
            fail_msg("'%s': '%s' instead of '%s'", rows[i].history, got, rows[i].want);
    }
}

TEST(calls_come_as_the_model_made_them)
{
    ms_envelope m = ms_action(MS_STR("web search\xC3\xA4"), ms_text("not {json"),
                              MS_STR("an id / of 41 bytes ....................."));
    ms_request_desc desc = {.store = store, .location = CHAT}; /* it needs no profile */
    add(ms_user_message(ms_text("u")));
    add(m);
    m = ms_action(MS_STR("g"), ms_json(MS_STR("{ \"a\" : 1 }")), ms_str_of(NULL));
    m.flags = MS_FLAG_JOINED;
    add(m);
    assert_string_equal(waiting(&desc), "web search\xC3\xA4(not {json)#an id / of 41 bytes "
                                        ".....................;g({ \"a\" : 1 })#call_3;");
    m = ms_message(MS_T_DELEGATION, ms_text(""));
    m.worker = MS_STR("ann");
    m.task = MS_STR("look");
    add(m); /* the framework runs it */
    assert_null(strstr(waiting(&desc), "delegate"));
}

/* Gemini gives no ids: a result finds its call by the id that ms_pending has. */
TEST(results_find_calls_without_ids_in_any_order)
{
    ms_request_desc desc = desc_of("gemini");
    ms_calls calls;
    add(ms_user_message(ms_text("u")));
    add(call(NULL, "f"));
    ms_envelope m = call(NULL, "f");
    m.flags = MS_FLAG_JOINED;
    add(m);
    assert_int_equal(ms_pending(&desc, &arena, &calls, NULL), MS_OK);
    assert_int_equal(calls.count, 2);
    assert_false(ms_str_equal(calls.items[0].id, calls.items[1].id));
    add(ms_observation(ms_text("of the second"), calls.items[1].id));
    assert_int_equal(ms_pending(&desc, &arena, &calls, NULL), MS_OK);
    assert_int_equal(calls.count, 1);
    assert_int_equal(calls.items[0].seq, 2);
    ms_str body = body_of(&desc, NULL);
    assert_true(has_text(body, "{\"error\":\"No result: the call was interrupted.\"},\"id\":\"call_2\"}},"
                               "{\"functionResponse\":{\"name\":\"f\",\"response\":{\"result\":\"of the second\"}"));
}

/* Their numbers are others in a fork, and in a union: the results are found there, too. */
TEST(results_find_calls_without_ids_in_a_fork_and_in_a_union)
{
    ms_request_desc desc = desc_of("gemini");
    ms_calls calls;
    ms_store *first, *both, *stores[2];
    add(ms_user_message(ms_text("u")));
    add(call(NULL, "f"));
    assert_int_equal(ms_pending(&desc, &arena, &calls, NULL), MS_OK);
    uint64_t last = add(ms_observation(ms_text("r"), calls.items[0].id));
    ms_str expected = body_of(&desc, NULL);
    assert_true(has_text(expected, "{\"result\":\"r\"},\"id\":\"call_2\"}"));
    assert_int_equal(ms_fork(store, CHAT, last, MS_STR("fork"), NULL, NULL), MS_OK);
    desc.location = MS_STR("fork");
    assert_true(ms_str_equal(body_of(&desc, NULL), expected));
    assert_int_equal(ms_pending(&desc, &arena, &calls, NULL), MS_OK);
    assert_int_equal(calls.count, 0);
    assert_int_equal(ms_mem_open(&first, NULL, NULL), MS_OK);
    stores[0] = first;
    stores[1] = store;
    ms_union_desc of = {.stores = stores, .n_stores = 2};
    assert_int_equal(ms_union_open(&both, &of, NULL), MS_OK);
    desc.store = both;
    desc.location = CHAT;
    assert_true(ms_str_equal(body_of(&desc, NULL), expected));
    assert_int_equal(ms_pending(&desc, &arena, &calls, NULL), MS_OK);
    assert_int_equal(calls.count, 0);
    ms_close(both);
    ms_close(first);
}

/* An item that a format has read has its id only as long as it is as it was. */
TEST(item_that_was_read_is_made_anew_when_it_was_edited)
{
    static const char item[] =
        "{\"type\":\"message\",\"id\":\"msg_1\",\"status\":\"completed\",\"role\":\"assistant\","
        "\"content\":[{\"type\":\"output_text\",\"text\":\"x\",\"annotations\":[]}]}";
    ms_request_desc desc = desc_of("openai-responses");
    ms_envelopes read;
    add(ms_user_message(ms_text("u")));
    assert_int_equal(ms_read(ms_format_find(MS_STR("openai-responses")), ms_str_of(item), NULL,
                             &arena, &read, NULL), MS_OK);
    uint64_t seq = add(read.items[0]);
    assert_true(has_text(body_of(&desc, NULL), item));
    ms_envelope m = read.items[0];
    m.content = ms_text("y");
    assert_int_equal(ms_amend(store, seq, &m, NULL), MS_OK);
    ms_str body = body_of(&desc, NULL);
    assert_false(has_text(body, "msg_1"));
    assert_true(has_text(body, "{\"role\":\"assistant\",\"content\":\"y\"}"));
}

TEST(calls_are_those_of_the_agent_that_reads)
{
    static const char *const words[] = {"U1", "Caann", "Cbbob", "Cc"};
    ms_memory memory;
    for (size_t i = 0; i < COUNT(words); i++) add(short_message(words[i]));
    ms_request_desc desc = desc_of("openai");
    assert_string_equal(waiting(&desc), "f({})#a@ann;f({})#b@bob;f({})#c;");
    desc.opts.agent_key = MS_STR("bob");
    assert_string_equal(waiting(&desc), "f({})#b@bob;f({})#c;");
    ms_memory_init(&memory, store, CHAT, MS_STR("ann"));
    desc = desc_of("openai");
    desc.store = NULL;
    desc.memory = &memory;
    assert_string_equal(waiting(&desc), "f({})#a@ann;");
    ms_envelope result = ms_observation(ms_text("r"), MS_STR("a"));
    assert_int_equal(ms_memory_add(&memory, &result, NULL, NULL), MS_OK);
    assert_string_equal(waiting(&desc), "");
}

/* A call whose stream was interrupted is counted, and is not to be run. */
TEST(call_that_is_cut_off_is_counted_and_not_listed)
{
    ms_request_desc desc = desc_of("anthropic");
    ms_answer_stream a;
    const char *text =
        "data: {\"type\":\"message_start\",\"message\":{\"role\":\"assistant\"}}\n\n"
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":"
        "\"tool_use\",\"id\":\"t1\",\"name\":\"rm\",\"input\":{}}}\n\n"
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"
        "\"input_json_delta\",\"partial_json\":\"{\\\"path\\\":\\\"/tm\"}}\n\n";
    add(ms_user_message(ms_text("u")));
    assert_int_equal(ms_answer_begin(&a, &desc, NULL), MS_OK);
    assert_int_equal(ms_answer_feed(&a, ms_str_of(text), NULL), MS_OK);
    assert_string_equal(waiting(&desc), "unfinished 1;"); /* it still streams */
    assert_int_equal(ms_answer_end(&a, NULL, NULL), MS_E_MISSING);
    assert_string_equal(waiting(&desc), "unfinished 1;");
}

TEST(calls_are_not_listed_when_a_message_is_damaged_or_an_argument_is_missing)
{
    static uint64_t buffer[2048];
    ms_mem_desc fixed = {.buffer = buffer, .buffer_size = sizeof buffer};
    ms_request_desc desc = desc_of("openai");
    ms_calls calls;
    ms_store *small;
    ms_error err;
    const ms_msg *msg;
    assert_int_equal(ms_mem_open(&small, &fixed, &err), MS_OK);
    ms_envelope m[2] = {call("x", "f"), ms_observation(ms_text("paid"), MS_STR("x"))};
    for (int i = 0; i < 2; i++)
        assert_int_equal(ms_append(small, CHAT, &m[i], NULL, &err), MS_OK);
    assert_int_equal(ms_get_by_seq(small, 2, &arena, &msg, &err), MS_OK);
    ((char *)buffer)[(const char *)msg - (const char *)buffer + 20] ^= 1;
    desc.store = small;
    memset(&calls, 0xA5, sizeof calls);
    assert_int_equal(ms_pending(&desc, &arena, &calls, &err), MS_E_DAMAGED);
    assert_null(calls.items);
    assert_int_equal(calls.count + calls.unfinished + calls.abandoned, 0);
    assert_int_equal(ms_pending(&desc, NULL, &calls, &err), MS_E_ARENA);
    desc.store = NULL;
    assert_int_equal(ms_pending(&desc, &arena, &calls, &err), MS_E_ARGUMENT);
    desc.next = no_message;
    assert_int_equal(ms_pending(&desc, &arena, &calls, &err), MS_E_ARGUMENT);
    ms_close(small);
}

/* In an arena of any size: all calls, or the error of the arena. */
TEST(calls_are_all_listed_or_none_when_memory_ends)
{
    static char memory[64 * 1024];
    static const char *const words[] = {"U1", "Caann", "Jbann", "Ccann"};
    ms_memory of_ann;
    ms_envelope m = call(NULL, "g");
    for (size_t i = 0; i < COUNT(words); i++) add(short_message(words[i]));
    m.agent_key = MS_STR("ann");
    m.flags = MS_FLAG_JOINED;
    add(m);
    ms_memory_init(&of_ann, store, CHAT, MS_STR("ann"));
    for (int way = 0; way < 2; way++) {
        ms_result code = MS_E_ARENA;
        for (size_t room = 0; code != MS_OK && room < sizeof memory; room += 8) {
            ms_request_desc desc = desc_of("openai");
            ms_calls calls;
            ms_arena own;
            ms_error err;
            if (way == 1) desc.store = NULL, desc.memory = &of_ann;
            test_arena_init_fixed(&own, memory, room);
            code = ms_pending(&desc, &own, &calls, &err);
            if (code != MS_OK && code != MS_E_ARENA) fail_msg("%s", err.message);
            assert_int_equal(calls.count, code == MS_OK ? 4 : 0);
        }
        assert_int_equal(code, MS_OK);
    }
}

/* In an arena of any size: a whole request, or nothing written and the error of the arena;
 * also where a memory is read, and where the history is empty. */
TEST(request_is_whole_or_none_when_memory_ends)
{
    static char memory[256 * 1024];
    ms_memory of_all;
    add(ms_user_message(ms_text("u")));
    add(call("a", "f"));
    add(ms_observation(ms_text("r"), MS_STR("a")));
    add(ms_user_message(ms_text("v")));
    ms_envelope compaction = ms_message(MS_T_COMPACTION, ms_text("sum"));
    compaction.extra = MS_STR("{\"compaction\":{\"keep\":1}}");
    add(compaction);
    ms_memory_init(&of_all, store, CHAT, MS_STR("ann"));
    for (int way = 0; way < 4; way++) {
        ms_result want = way < 2 ? MS_OK : MS_E_NOT_FOUND, code = MS_E_ARENA;
        for (size_t room = 0; code != want && room < sizeof memory; room += 16) {
            ms_request_desc desc = desc_of("openai");
            ms_arena own;
            ms_error err;
            ms_buf out = {.arena = &arena};
            if (way >= 2) of_all.location = desc.location = MS_STR("none");
            if (way % 2 == 1) desc.store = NULL, desc.memory = &of_all;
            desc.opts.model = MS_STR("m");
            desc.opts.system = MS_STR("be kind");
            test_arena_init_fixed(&own, memory, room);
            desc.arena = &own;
            code = ms_request(&desc, ms_buf_write, &out, NULL, &err);
            if (code != want && code != MS_E_ARENA) fail_msg("way %d: %s", way, err.message);
            if (code == MS_E_ARENA) assert_int_equal(err.code, MS_E_ARENA);
            assert_int_equal(has_text(ms_buf_text(&out), "}]}"), code == MS_OK);
        }
        assert_int_equal(code, want);
    }
}

/* Extra members of odd shapes: what only the maker of a message takes goes back to it where
 * it is whole, and changes nothing where it is not. */
TEST(extra_members_of_odd_shapes_go_back_or_change_nothing)
{
#define ITEM "{\"type\":\"message\",\"id\":\"msg_1\",\"role\":\"assistant\",\"content\":[]}"
    static const struct {
        ms_type type;
        const char *provider, *content, *extra, *has, *lacks; /* content: JSON, or a text */
        unsigned left_out;
    } rows[] = {
        {MS_T_REASONING, "anthropic", "hm", "{\"signed\":{\"signature\":\"S\"}}", "\"u\"", "\"S\"", 0},
        {MS_T_REASONING, "anthropic", "hm", "{\"signed\":{\"provider\":\"anthropic\",\"model\":5,"
         "\"signature\":\"S\"}}", "\"signature\":\"S\"", NULL, 0},
        {MS_T_ASSISTANT_MESSAGE, "openai-responses", "x", "{\"signed\":{\"provider\":"
         "\"openai-responses\",\"item\":" ITEM "}}", ITEM, NULL, 0},
        {MS_T_ASSISTANT_MESSAGE, "openai-responses", "x", "{\"signed\":{\"provider\":"
         "\"openai-responses\",\"of\":\"1\",\"item\":" ITEM "}}", ITEM, NULL, 0},
        {MS_T_ASSISTANT_MESSAGE, "openai-responses", "x", "{\"signed\":{\"provider\":"
         "\"openai-responses\",\"of\":1,\"item\":" ITEM "}}", "\"content\":\"x\"", "msg_1", 0},
        {MS_T_ASSISTANT_MESSAGE, "openai", "x", "{\"signed\":{\"provider\":\"openai\",\"members\":[1]}}",
         "{\"role\":\"assistant\",\"content\":\"x\"}", NULL, 0},
        {MS_T_ASSISTANT_MESSAGE, "anthropic", "x", "{\"signed\":{\"provider\":\"anthropic\",\"members\":{"
         "\"mine\":1}}}", "\"mine\":1", NULL, 0},
        {MS_T_ASSISTANT_MESSAGE, "anthropic", "x", "{\"signed\":{\"provider\":\"anthropic\",\"of\":\"1\","
         "\"members\":{\"mine\":1}}}", "\"mine\":1", NULL, 0},
        {MS_T_ASSISTANT_MESSAGE, "anthropic", "x", "{\"signed\":{\"provider\":\"anthropic\",\"of\":1,"
         "\"members\":{\"mine\":1}}}", "\"content\":\"x\"", "mine", 0},
        {MS_T_ASSISTANT_MESSAGE, "openai", "x", "{\"citations\":[1]}",
         "{\"role\":\"assistant\",\"content\":\"x\"}", NULL, 0},
        {MS_T_ACTION, "openai", "x", "{\"signed\":{\"provider\":\"openai\",\"kind\":\"other\"}}",
         "\"type\":\"function\",\"function\":{\"name\":\"f\"", NULL, 0},
        {MS_T_MULTIMODAL_PART, "anthropic", "{\"type\":\"web_search_call\"}",
         "{\"signed\":{\"provider\":\"openai-responses\"}}", "u\\n\\nv", "web_search_call", 1},
        {MS_T_MULTIMODAL_PART, "anthropic", "[7,{\"type\":\"text\",\"text\":\"t\"}]", NULL,
         "{\"role\":\"assistant\",\"content\":\"t\"}", NULL, 1}, /* a number is no block */
        {MS_T_MULTIMODAL_PART, "anthropic", "[\"s\",{\"type\":\"text\",\"text\":\"t\"}]", NULL,
         "{\"role\":\"assistant\",\"content\":\"s\\n\\nt\"}", NULL, 0},
        {MS_T_COMPACTION, "openai", "sum", "{\"compaction\":{\"keep\":0,\"items\":{}}}", "sum", "\"u\"",
         0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_project_report report;
        const char *text = rows[i].content;
        ms_envelope m = rows[i].type == MS_T_ACTION ? call("c", "f") : ms_message(rows[i].type, ms_text(text));
        m.content.json = text[0] == '{' || text[0] == '[';
        if (rows[i].type == MS_T_MULTIMODAL_PART) m.role = MS_ROLE_ASSISTANT;
        m.extra = ms_str_of(rows[i].extra);
        (void)open_store(NULL);
        add(ms_user_message(ms_text("u")));
        add(m);
        if (rows[i].type == MS_T_REASONING) add(ms_assistant_message(ms_text("x")));
        add(ms_user_message(ms_text("v")));
        ms_request_desc desc = desc_of(rows[i].provider);
        desc.opts.thinking = true;
        ms_str body = body_of(&desc, &report);
        if (!has_text(body, rows[i].has) || (rows[i].lacks != NULL && has_text(body, rows[i].lacks)) ||
            report.raw_left_out != rows[i].left_out)
            fail_msg("row %zu: %llu left out\n%.*s", i, (unsigned long long)report.raw_left_out,
                     (int)body.len, body.ptr);
    }
}

/* What is listed is what the next request makes a result up for. */
TEST(calls_that_wait_are_those_that_a_request_makes_results_for)
{
    uint64_t random = test_seed();
    for (size_t n = 0; n < test_times(300); n++) {
        (void)open_store(NULL);
        add(ms_user_message(ms_text("u")));
        char made = 'a'; /* ids do not come again */
        for (size_t k = test_below(&random, 24); k > 0; k--) {
            char word[8], kind = "UACCJRRR"[test_below(&random, 8)];
            bool calls_one = kind == 'C' || kind == 'J';
            char any = (char)('a' + test_below(&random, (size_t)(made - 'a') + 1));
            snprintf(word, sizeof word, "%c%c%s", kind, calls_one ? made++ : any,
                     test_one_in(&random, 2) ? "ann" : test_one_in(&random, 2) ? "bob" : "");
            add(short_message(word));
        }
        ms_request_desc desc = desc_of("openai");
        ms_project_report report;
        ms_calls calls;
        (void)body_of(&desc, &report);
        assert_int_equal(ms_pending(&desc, &arena, &calls, NULL), MS_OK);
        assert_int_equal(calls.count + calls.abandoned, report.synthesised);
        for (size_t i = 0; i < calls.count; i++) {
            ms_envelope result = ms_observation(ms_text("r"), calls.items[i].id);
            result.agent_key = calls.items[i].agent_key;
            add(result);
        }
        size_t left = calls.abandoned;
        (void)body_of(&desc, &report);
        assert_int_equal(ms_pending(&desc, &arena, &calls, NULL), MS_OK);
        assert_int_equal(calls.count, 0);
        assert_int_equal(report.synthesised, left);
    }
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
        {"claude-x-20250805-v1", true}, {"claude-x-20250805v1", false},
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
        by.opts.thinking = MS_THINKING_OFF;
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
        {"anthropic", "ucrt", "think2", "think4", 0, 0, 1},
        {"anthropic", "ucrtu", "think2", "think4", 0, 0, 1},
        {"anthropic", "ucrd", "think2", "think4", 0, 0, 1},
        {"anthropic", "ucrdu", "think2", "think4", 0, 0, 1},
        {"anthropic", "uacr", "tool_use", NULL, 1, 0, 0},
        {"anthropic", "ucra", "tool_use", "think2", 0, 0, 0},
        {"anthropic", "ucrt", "think2", "think4", 0, 1, 1},
        {"anthropic", "ucrkr", "think2", NULL, 0, 0, 0},
        {"anthropic", "ucrocr", "think2", NULL, 0, 0, 0},
        {"anthropic", "ucrbcr", "think2", NULL, 0, 0, 0},
        {"anthropic", "ucrokr", "think2", NULL, 1, 0, 0},
        {"anthropic", "ukrocr", "think5", NULL, 1, 0, 0},
        {"anthropic", "ucrkrocr", "think2", NULL, 0, 0, 0},
        {"anthropic", "ucrokrocr", "think8", NULL, 0, 0, 0},
        {"anthropic", "ucroa", "tool_use", "think2", 0, 0, 0},
        {"anthropic", "ucrucr", "think2", NULL, 0, 0, 0}, /* he adds to the results */
        {"anthropic", "ucrucr", "think5", NULL, 0, 0, 0},
        {"anthropic", "ucraucr", "think6", "think2", 0, 0, 0},
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
        desc.opts.thinking = MS_THINKING_RUNNING;
        add_steps(&desc, rows[i].steps);
        desc.opts.newest = rows[i].newest;
        ms_str body = body_of(&desc, &report);
        if (!has_text(body, rows[i].has) ||
            (rows[i].lacks != NULL && has_text(body, rows[i].lacks)) ||
            report.thinking_missing != rows[i].missing ||
            report.dropped != rows[i].dropped)
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

/* Runs a loop over a memory until the agent has answered; *bodies: all its requests. */
static void run_loop(const ms_memory *memory, const char *provider,
                     const char *const answers[2], bool streams, ms_buf *bodies)
{
    ms_request_desc desc = desc_of(provider);
    ms_calls calls;
    ms_error err;
    size_t n = 0;
    ms_envelope m = ms_user_message(ms_text("Will it rain?"));
    desc.store = NULL;
    desc.memory = memory;
    assert_int_equal(ms_memory_add(memory, &m, NULL, NULL), MS_OK);
    for (;;) {
        if (ms_pending(&desc, &arena, &calls, &err) != MS_OK) fail_msg("%s", err.message);
        if (calls.answered) break;
        assert_int_equal(calls.abandoned, 0);
        for (size_t i = 0; i < calls.count; i++) {
            m = ms_observation(ms_text("rain"), calls.items[i].id);
            m.agent_key = calls.items[i].agent_key;
            assert_int_equal(ms_memory_add(memory, &m, NULL, NULL), MS_OK);
        }
        ms_str body = body_of(&desc, NULL);
        assert_int_equal(ms_buf_write(bodies, body.ptr, body.len), MS_OK);
        assert_true(n < 2);
        ms_answer_stream a;
        ms_str text = ms_str_of(answers[n++]);
        if (streams) {
            assert_int_equal(ms_answer_begin(&a, &desc, NULL), MS_OK);
            assert_int_equal(ms_answer_feed(&a, text, NULL), MS_OK);
            assert_int_equal(ms_answer_end(&a, NULL, NULL), MS_OK);
        } else {
            assert_int_equal(ms_answer(&desc, text, NULL, NULL), MS_OK);
        }
    }
    assert_int_equal(n, 2);
}

static uint64_t messages_in(ms_store *in)
{
    ms_stat stat;
    assert_int_equal(ms_store_stat(in, &stat, NULL), MS_OK);
    return stat.messages;
}

/* What an agent adds and what its model answers goes to one store, in one order. */
TEST(loop_over_a_runtime_store_is_as_one_over_the_store)
{
    static const char *const of_chat[2] = {
        "{\"choices\":[{\"message\":{\"tool_calls\":[{\"id\":\"call_1\",\"function\":{\"name\":"
        "\"weather\",\"arguments\":\"{}\"}}]}}],\"usage\":{\"prompt_tokens\":3,"
        "\"completion_tokens\":4}}",
        "{\"choices\":[{\"message\":{\"content\":\"It will rain.\"}}]}"};
    static const char *const of_anthropic[2] = {
        "{\"type\":\"message\",\"model\":\"m\",\"stop_reason\":\"tool_use\",\"content\":[{\"type\":"
        "\"text\",\"text\":\"I look.\"},{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"f\","
        "\"input\":{}}]}",
        "{\"type\":\"message\",\"model\":\"m\",\"stop_reason\":\"end_turn\",\"content\":[{\"type\":"
        "\"text\",\"text\":\"It will rain.\"}]}"};
    for (int round = 0; round < 4; round++) {
        ms_buf want = {&arena, NULL, 0, 0}, got = {&arena, NULL, 0, 0};
        const char *provider = round % 2 ? "anthropic" : "openai";
        const char *const *answers = round % 2 ? of_anthropic : of_chat;
        ms_memory memory;
        (void)open_store(NULL);
        for (int merges = 0; merges < 2; merges++) {
            ms_store *runtime = NULL;
            assert_int_equal(ms_mem_reset(store, NULL), MS_OK);
            add(ms_user_message(ms_text("earlier")));
            ms_memory_init(&memory, store, CHAT, MS_STR("a"));
            if (merges) assert_int_equal(ms_mem_open(&runtime, NULL, NULL), MS_OK);
            memory.runtime = runtime;
            memory.runtime_mode = merges ? MS_RUNTIME_MERGE : MS_RUNTIME_STORE;
            run_loop(&memory, provider, answers, round > 1, merges ? &got : &want);
            uint64_t run = round % 2 ? 5 : 4;
            assert_int_equal(messages_in(store), merges ? 1 : 1 + run);
            if (merges) assert_int_equal(messages_in(runtime), run);
            ms_close(runtime);
        }
        if (!ms_str_equal(ms_buf_text(&want), ms_buf_text(&got)))
            fail_msg("round %d:\n%.*s\ninstead of\n%.*s", round, (int)got.len, got.ptr,
                     (int)want.len, want.ptr);
    }
}

/* What a memory ignores is what ms_memory_add is given: answers are stored. */
TEST(answer_is_stored_where_a_memory_ignores_what_is_added)
{
    ms_memory memory;
    ms_answered out;
    ms_request_desc desc = desc_of("openai");
    ms_memory_init(&memory, store, CHAT, MS_STR("a"));
    memory.runtime_mode = MS_RUNTIME_IGNORE;
    desc.store = NULL;
    desc.memory = &memory;
    add(ms_user_message(ms_text("u")));
    assert_int_equal(ms_answer(&desc, MS_STR("{\"choices\":[{\"message\":{\"content\":\"x\"}}]}"),
                               &out, NULL), MS_OK);
    assert_int_equal(out.messages, 1);
    assert_int_equal(messages_in(store), 2);
}

/* An answer to a memory that merges needs its runtime store. */
TEST(answer_is_refused_when_its_memory_has_no_runtime_store)
{
    ms_memory memory;
    ms_error err;
    ms_answer_stream stream;
    ms_request_desc desc = desc_of("openai");
    ms_str body = MS_STR("{\"choices\":[{\"message\":{\"content\":\"x\"}}]}");
    ms_memory_init(&memory, store, CHAT, MS_STR("a"));
    memory.runtime_mode = MS_RUNTIME_MERGE;
    desc.store = NULL;
    desc.memory = &memory;
    for (int i = 0; i < 2; i++) {
        memory.runtime = i ? store : NULL;
        assert_int_equal(ms_answer(&desc, body, NULL, &err), MS_E_ARGUMENT);
        assert_string_equal(err.path, "runtime");
        assert_int_equal(ms_answer_begin(&stream, &desc, &err), MS_E_ARGUMENT);
        assert_string_equal(err.path, "runtime");
        assert_int_equal(ms_answer_end(&stream, NULL, &err), MS_E_CLOSED);
    }
    assert_int_equal(messages_in(store), 0);
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
