/* An agent loop in three calls: ms_request writes the request for a provider, ms_answer
 * stores its response, all or nothing, and ms_pending lists the calls to run. The next step
 * depends only on the log, so a killed loop continues when it runs again. Left out: HTTP,
 * streaming. Build by hand:
 *     cc -std=c99 -pthread -o loop examples/loop.c */
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"
#include <stdio.h>
#include <string.h>

/* Answers as a made-up provider: first with a call, then with the tool's result. */
static ms_str provider(const ms_buf *request)
{
    return memchr(request->ptr, '%', request->len) != NULL /* the tool's result */
        ? MS_STR("{\"choices\":[{\"message\":{\"content\":\"It will rain.\"}}]}")
        : MS_STR("{\"choices\":[{\"message\":{\"tool_calls\":[{\"id\":\"call_1\","
                 "\"function\":{\"name\":\"weather\",\"arguments\":\"{}\"}}]}}]}");
}

/* Runs the calls that have no result, and appends it. */
static ms_result run_calls(const ms_request_desc *ask, const ms_calls *calls, ms_error *err)
{
    ms_result code = MS_OK;
    for (size_t i = 0; code == MS_OK && i < calls->count; i++) {
        ms_envelope result = ms_observation(ms_text("rain, 90 %"), calls->items[i].id);
        code = ms_append(ask->store, ask->location, &result, NULL, err);
    }
    return code;
}

/* Lets the model sum up the beginning of a conversation that has grown too long. */
static ms_result compact(const ms_request_desc *ask, ms_buf *body, ms_error *err)
{
    ms_compaction_plan plan;
    ms_compaction summed = {0};
    ms_result code = ms_compact_plan(ask, 2000, &plan, err);
    if (code != MS_OK || !plan.due || plan.upto == 0) return code;
    code = ms_compact_request(ask, &plan, MS_STR(MS_COMPACT_PROMPT), ms_buf_write, body, err);
    summed.upto = plan.upto;
    summed.body = provider(body);
    body->len = 0;
    return code == MS_OK ? ms_compact(ask, &summed, NULL, err) : code;
}

int main(void)
{
    ms_error err;
    ms_arena arena = {0};
    ms_log_desc desc = {0};
    ms_request_desc ask = {0};
    ms_buf request = {&arena, NULL, 0, 0};
    ms_calls calls;
    desc.path = "loop.msl";
    if (ms_log_open(&ask.store, &desc, &err) != MS_OK) return puts(err.message), 1;
    ask.profile = ms_profile_find(MS_STR("openai"));
    ask.location = MS_STR("chat_1");
    ask.opts.model = MS_STR("gpt-5");
    ask.opts.compact_at = 8000;     /* tokens */
    ms_envelope user = ms_user_message(ms_text("Will it rain in Osaka?"));
    user.key = MS_STR("turn_1");    /* a second run does not append it again */
    ms_result code = ms_append(ask.store, ask.location, &user, NULL, &err);
    if (code == MS_OK) code = ms_pending(&ask, &arena, &calls, &err);
    for (; code == MS_OK && !calls.answered; request.len = 0) {
        code = run_calls(&ask, &calls, &err);
        if (code == MS_OK) code = compact(&ask, &request, &err);
        if (code == MS_OK) code = ms_request(&ask, ms_buf_write, &request, NULL, &err);
        if (code == MS_OK) code = ms_answer(&ask, provider(&request), NULL, &err);
        if (code == MS_OK) code = ms_pending(&ask, &arena, &calls, &err);
    }
    ms_close(ask.store);
    ms_arena_deinit(&arena);
    return code == MS_OK ? 0 : (puts(err.message), 1);
}
