/* An agent loop in two calls: ms_request writes the request for a provider, ms_answer
 * stores its response, all or nothing. The next step depends only on the log, so a killed
 * loop continues when it runs again. Left out: HTTP, streaming. Build by hand:
 *     cc -std=c99 -pthread -I/usr/include/stb -o loop examples/loop.c */
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

/* Appends the result of the newest call without one, or asks the provider. *done:
 * neither. */
static ms_result step(const ms_request_desc *ask, ms_buf *request, bool *done, ms_error *err)
{
    ms_cursor it;
    ms_query newest = {0};
    ms_envelope result = ms_observation(ms_text("rain, 90 %"), MS_STR(""));
    newest.location = ask->location;
    newest.reverse = true;
    ms_result code = ms_query_open(ask->store, &newest, &it, err);
    const ms_msg *msg = code == MS_OK ? ms_next(&it) : NULL;
    *done = msg == NULL || ms_type_of(msg) == MS_T_ASSISTANT_MESSAGE;
    for (size_t results = 0; msg != NULL; msg = ms_next(&it))
        if (ms_type_of(msg) == MS_T_OBSERVATION) results++;
        else if (ms_type_of(msg) == MS_T_ACTION && results-- == 0) break;
    if (msg != NULL) result.call_id = ms_get(msg, MS_F_CALL_ID).text;
    if (code == MS_OK) code = ms_cursor_close(&it, err);
    if (code != MS_OK || *done) return code;
    if (msg != NULL) return ms_append(ask->store, ask->location, &result, NULL, err);
    code = ms_request(ask, ms_buf_write, request, NULL, err);
    return code == MS_OK ? ms_answer(ask, provider(request), NULL, err) : code;
}

int main(void)
{
    ms_error err;
    ms_arena arena = {0};
    ms_log_desc desc = {0};
    ms_request_desc ask = {0};
    ms_buf request = {&arena, NULL, 0, 0};
    bool done = false;
    desc.path = "loop.msl";
    if (ms_log_open(&ask.store, &desc, &err) != MS_OK) return puts(err.message), 1;
    ask.profile = ms_profile_find(MS_STR("openai"));
    ask.location = MS_STR("chat_1");
    ms_envelope user = ms_user_message(ms_text("Will it rain in Osaka?"));
    user.key = MS_STR("turn_1");    /* a second run does not append it again */
    ms_result code = ms_append(ask.store, ask.location, &user, NULL, &err);
    for (; code == MS_OK && !done; request.len = 0) code = step(&ask, &request, &done, &err);
    ms_close(ask.store);
    ms_arena_deinit(&arena);
    return code == MS_OK ? 0 : (puts(err.message), 1);
}
