/* One history, four providers: a conversation with tool calls is stored once and written
 * as the requests that OpenAI, Anthropic, Gemini and strict local servers take. The
 * window is the newest four messages: it begins at a turn, never between a call and its
 * result. One call was never answered; a made result stands in. Left out: sending
 * anything, and token budgets. Build and run by hand, in the folder of msgstore.h:
 *
 *     cc -std=c99 -pthread -I/usr/include/stb -o providers examples/providers.c
 */
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"

#include <stdio.h>

static ms_result to_stdout(void *ctx, const char *bytes, size_t len)
{
    (void)ctx;
    return fwrite(bytes, 1, len, stdout) == len ? MS_OK : MS_E_IO;
}

/* Returns a tool call, with an id as a provider has made it. */
static ms_envelope call(const char *id, const char *args)
{
    ms_envelope m = ms_action(MS_STR("weather"), ms_json(ms_str_of(args)), ms_str_of(id));
    m.agent_key = MS_STR("assistant");
    return m;
}

static ms_envelope answer(const char *id, const char *text)
{
    ms_envelope m = ms_observation(ms_text(text), ms_str_of(id));
    m.agent_key = MS_STR("assistant");
    return m;
}

static ms_result fill(ms_store *store, ms_str chat, ms_error *err)
{
    ms_envelope list[8];
    ms_append_opts opts = {0};
    opts.location = chat;
    list[0] = ms_message(MS_T_TEXT, ms_text("You are a weather service."));
    list[1] = ms_user_message(ms_text("Hello"));
    list[2] = ms_assistant_message(ms_text("Hello! Which place?"));
    list[3] = ms_user_message(ms_text("Osaka and Kobe, please"));
    list[4] = call("call:1", "{\"place\":\"Osaka\"}");
    list[5] = call("call:2", "{\"place\":\"Kobe\"}");
    list[6] = answer("call:1", "12 degrees, rain");
    list[7] = ms_user_message(ms_text("And where is the answer for Kobe?"));
    return ms_append_batch(store, list, 8, &opts, err);
}

/* Prints the request for one provider, and the counts of its projection. */
static ms_result print_request(ms_store *store, ms_str chat, const char *provider,
                               ms_error *err)
{
    ms_request_desc desc = {0};
    ms_project_report report;
    desc.profile = ms_profile_find(ms_str_of(provider));
    desc.store = store;
    desc.location = chat;
    desc.opts.model = MS_STR("a-model");
    desc.opts.newest = 4;
    desc.opts.stable = true;        /* messages of a store stay where they are */
    printf("%s: ", provider);
    ms_result result = ms_request(&desc, to_stdout, NULL, &report, err);
    if (result == MS_OK)
        printf("\n  (left out %d, results made up %d, ids and names changed %d)\n\n",
               (int)report.left_out, (int)report.synthesised, (int)report.renamed);
    return result;
}

int main(void)
{
    static const char *const providers[] = {"openai", "anthropic", "gemini",
                                            "chat-strict"};
    ms_store *store;
    ms_error err;
    ms_str chat = MS_STR("chat_1");
    if (ms_mem_open(&store, NULL, &err) != MS_OK) return puts(err.message), 1;
    ms_result result = fill(store, chat, &err);
    for (int i = 0; i < 4 && result == MS_OK; i++)
        result = print_request(store, chat, providers[i], &err);
    if (result != MS_OK) fprintf(stderr, "%s\n", err.message);
    ms_close(store);
    return result != MS_OK;
}
