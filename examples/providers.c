/* One history, every provider: a conversation is stored once and written as the request
 * that each provider takes. It has a document, an answer of OpenAI's Responses API with a
 * search that OpenAI ran, and an answer of Anthropic with signed thinking and two calls,
 * of which one was never answered. Of these each provider gets what it reads: its own
 * thinking and items unaltered, the document in its form or its name, a made result.
 * The window leaves out the first turn, but where thinking is bound to what stood before
 * it (anthropic, bedrock): there it stays while the turn runs. Left out: sending anything,
 * and token budgets.
 * Build and run by hand, in the folder of msgstore.h:
 *
 *     cc -std=c99 -pthread -I/usr/include/stb -o providers examples/providers.c
 */
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"

#include <stdio.h>

/* What differs by the form of a request, in the order of ms_wire: the model, and the list
 * of tools, which each provider wants in a form of its own. */
#define FORM "\"parameters\":{\"type\":\"object\"}"
#define CHAT "[{\"type\":\"function\",\"function\":{\"name\":\"weather\"," FORM "}}]"
#define FUNCTION "[{\"type\":\"function\",\"name\":\"weather\"," FORM "}]"
static const struct {
    const char *model, *tools;
} wires[] = {
    {"gpt-4.1", CHAT},                                                /* chat */
    {"llama3.2", CHAT},                                               /* ollama */
    {"claude-sonnet-4-5",
     "[{\"name\":\"weather\",\"input_schema\":{\"type\":\"object\"}}]"},  /* anthropic */
    {"gemini-2.5-flash",
     "[{\"functionDeclarations\":[{\"name\":\"weather\"," FORM "}]}]"}, /* gemini */
    {"", ""},                                                         /* pydantic-ai */
    {"gpt-5", FUNCTION},                                              /* responses */
    {"a-model", "[{\"toolSpec\":{\"name\":\"weather\",\"inputSchema\":{\"json\":{"
                "\"type\":\"object\"}}}}]"},                          /* bedrock */
    {"gemini-2.5-flash", FUNCTION},                                   /* interactions */
    {"command-a-03-2025", CHAT}                                       /* cohere */
};

static const char searched[] =
    "{\"object\":\"response\",\"status\":\"completed\",\"model\":\"gpt-5\",\"output\":["
    "{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[],\"encrypted_content\":\"gA\""
    "},"
    "{\"type\":\"web_search_call\",\"id\":\"ws_1\",\"status\":\"completed\",\"action\":{"
    "\"type\":\"search\",\"query\":\"Kansai\"}},"
    "{\"type\":\"message\",\"id\":\"msg_1\",\"status\":\"completed\",\"role\":"
    "\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"Osaka and Kobe.\","
    "\"annotations\":[]}]}],\"usage\":{\"input_tokens\":30,\"output_tokens\":9}}";

static const char thought[] =
    "{\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-sonnet-4-5\","
    "\"content\":[{\"type\":\"thinking\",\"thinking\":\"Two places.\",\"signature\":"
    "\"EqQB\"},{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"weather\",\"input\":{"
    "\"place\":\"Osaka\"}},{\"type\":\"tool_use\",\"id\":\"toolu_2\",\"name\":"
    "\"weather\",\"input\":{\"place\":\"Kobe\"}}],\"stop_reason\":\"tool_use\",\"usage\":{"
    "\"input_tokens\":90,\"output_tokens\":40}}";

static ms_result to_stdout(void *ctx, const char *bytes, size_t len)
{
    (void)ctx;
    return fwrite(bytes, 1, len, stdout) == len ? MS_OK : MS_E_IO;
}

/* Appends a message to the location of ask. */
static ms_result say(const ms_request_desc *ask, ms_envelope m, ms_error *err)
{
    return ms_append(ask->store, ask->location, &m, NULL, err);
}

/* Stores the body of a provider's response. */
static ms_result answered(ms_request_desc *ask, const char *provider, const char *body,
                          ms_error *err)
{
    ask->profile = ms_profile_find(ms_str_of(provider));
    return ms_answer(ask, ms_str_of(body), NULL, err);
}

static ms_result fill(ms_request_desc *ask, ms_arena *arena, ms_error *err)
{
    ms_part parts[2] = {0};
    ms_value question;
    parts[0].text = MS_STR("Which towns are in it?");
    parts[1].bytes = MS_STR("%PDF-1.4\n%%EOF\n");
    parts[1].mime = MS_STR("application/pdf");
    parts[1].name = MS_STR("towns.pdf");
    ms_result result = ms_parts(parts, 2, arena, &question, err);
    ms_envelope rain = ms_observation(ms_text("12 degrees, rain"), MS_STR("toolu_1"));
    if (result == MS_OK) result = say(ask, ms_user_message(ms_text("Hello")), err);
    if (result == MS_OK) result = say(ask, ms_assistant_message(ms_text("Hello!")), err);
    if (result == MS_OK) result = say(ask, ms_user_message(question), err);
    if (result == MS_OK) result = answered(ask, "openai-responses", searched, err);
    if (result == MS_OK)
        result = say(ask, ms_user_message(ms_text("And the weather there?")), err);
    if (result == MS_OK) result = answered(ask, "anthropic", thought, err);
    if (result == MS_OK) result = say(ask, rain, err);
    return result;
}

/* Prints the request for one provider, and what became of the messages in it. */
static ms_result print_request(ms_request_desc ask, const ms_profile *profile,
                               ms_error *err)
{
    ms_project_report report;
    ask.profile = profile;
    ask.tools = ms_str_of(wires[profile->wire].tools);
    ask.opts.model = ms_str_of(wires[profile->wire].model);
    ask.opts.system = MS_STR("You are a weather service.");
    ask.opts.newest = 6;
    ask.opts.stable = true;               /* messages of a store stay where they are */
    ask.opts.thinking = MS_THINKING_ON;   /* as the profile has it */
    ask.opts.cache = MS_CACHE_5M;         /* breakpoints for anthropic and bedrock */
    ask.opts.cache_key = MS_STR("chat_1"); /* for openai and openai-responses */
    printf("%s: ", profile->name);
    ms_result result = ms_request(&ask, to_stdout, NULL, &report, err);
    if (result == MS_OK)
        printf("\n  (left out %d, in another form %d, items of others %d, results made "
               "up %d, breakpoints %d; thinking is %s)\n\n",
               (int)report.left_out, (int)report.wrapped, (int)report.raw_left_out,
               (int)report.synthesised, (int)report.breakpoints,
               report.thinking_missing ? "of another: switch it off" : "complete");
    return result;
}

int main(void)
{
    ms_request_desc ask = {0};
    ms_arena arena = {0};
    ms_error err;
    if (ms_mem_open(&ask.store, NULL, &err) != MS_OK) return puts(err.message), 1;
    ask.location = MS_STR("chat_1");
    ms_result result = fill(&ask, &arena, &err);
    for (size_t i = 0; ms_profile_at(i) && result == MS_OK; i++)
        if (ms_profile_at(i)->wire != MS_WIRE_PYDANTIC) /* which has lists, no requests */
            result = print_request(ask, ms_profile_at(i), &err);
    if (result != MS_OK) fprintf(stderr, "%s\n", err.message);
    ms_arena_deinit(&arena);
    ms_close(ask.store);
    return result != MS_OK;
}
