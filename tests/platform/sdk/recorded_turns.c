/* Stores recorded answers, and prints the next request of each.
 *
 *     recorded_turns <LINES
 *
 * A line is {"name", "profile", "model", "body"}: an answer of a provider, whole or
 * streamed. It is stored after a user's message; then each of its calls gets a result, or
 * the user says more. Prints a line {"name", "request", "stop", "calls"}, or {"name",
 * "error"}. The answer is stored once more in parts of random sizes: {"error": "cut"} if
 * the request then has other bytes. MS_TEST_SEED chooses the parts.
 */

#define _GNU_SOURCE

#include "msgstore.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state = 1;

static size_t random_below(size_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(random_state >> 33) % n;
}

static ms_result feed_cut(const ms_request_desc *ask, ms_str body, ms_answered *out,
                          ms_error *err)
{
    ms_answer_stream *a = (ms_answer_stream *)malloc(sizeof *a);
    ms_result code = a ? ms_answer_begin(a, ask, err) : MS_E_NO_MEMORY;
    if (code != MS_OK) {
        free(a);
        return code;
    }
    for (size_t at = 0; code == MS_OK && at < body.len;) {
        size_t most = 1 + random_below(random_below(4) == 0 ? 3 : 400);
        size_t n = most < body.len - at ? most : body.len - at;
        code = ms_answer_feed(a, ms_str_n(body.ptr + at, n), err);
        at += n;
    }
    ms_result ended = ms_answer_end(a, out, code == MS_OK ? err : NULL);
    free(a);
    return code != MS_OK ? code : ended;
}

static ms_result say(ms_store *store, const char *text, ms_error *err)
{
    ms_envelope m = ms_user_message(ms_text(text));
    return ms_append(store, MS_STR("a"), &m, NULL, err);
}

/* Stores the answer and what follows it, and writes the next request. */
static ms_result turn(ms_store *store, ms_request_desc *ask, ms_str body, bool cut,
                      ms_buf *out, ms_answered *answered, ms_error *err)
{
    ms_calls calls;
    ms_arena arena = {0};
    ms_result code = say(store, "hi", err);
    ask->store = store;
    ask->location = MS_STR("a");
    if (code == MS_OK)
        code = cut ? feed_cut(ask, body, answered, err)
                   : ms_answer(ask, body, answered, err);
    if (code == MS_OK) code = ms_pending(ask, &arena, &calls, err);
    for (size_t i = 0; code == MS_OK && i < calls.count; i++) {
        ms_envelope m = ms_observation(ms_text("r"), calls.items[i].id);
        code = ms_append(store, MS_STR("a"), &m, NULL, err);
    }
    if (code == MS_OK && calls.count == 0) code = say(store, "go on", err);
    if (code == MS_OK) code = ms_request(ask, ms_buf_write, out, NULL, err);
    ms_arena_deinit(&arena);
    return code;
}

static ms_result run(json_t *line, bool cut, ms_buf *out, ms_answered *answered,
                     ms_error *err)
{
    ms_store *store = NULL;
    ms_request_desc ask;
    json_t *body = json_object_get(line, "body");
    memset(&ask, 0, sizeof ask);
    ask.profile =
        ms_profile_find(ms_str_of(json_string_value(json_object_get(line, "profile"))));
    ask.opts.model = ms_str_of(json_string_value(json_object_get(line, "model")));
    ask.opts.thinking = MS_THINKING_ALL;
    const char *tools = json_string_value(json_object_get(line, "tools"));
    if (tools) ask.tools = ms_str_of(tools);
    ms_result code = ms_mem_open(&store, NULL, err);
    if (code != MS_OK) return code;
    code = turn(store, &ask, ms_str_n(json_string_value(body), json_string_length(body)),
                cut, out, answered, err);
    ms_close(store);
    return code;
}

int main(void)
{
    char *text = NULL;
    size_t cap = 0;
    ssize_t n;
    const char *seed = getenv("MS_TEST_SEED");
    if (seed) random_state = strtoull(seed, NULL, 10);
    while ((n = getline(&text, &cap, stdin)) > 0) {
        json_t *line = json_loadb(text, (size_t)n, JSON_ALLOW_NUL, NULL);
        json_t *said = json_object();
        ms_arena arena = {0};
        ms_buf whole = {&arena, NULL, 0, 0}, cut = {&arena, NULL, 0, 0};
        ms_answered answered, again;
        ms_error err;
        if (!line || !said) return 1;
        memset(&err, 0, sizeof err);
        memset(&answered, 0, sizeof answered);
        ms_result code = run(line, false, &whole, &answered, &err);
        json_object_set(said, "name", json_object_get(line, "name"));
        if (code == MS_OK) {
            json_object_set_new(said, "request",
                                json_loadb(whole.ptr, whole.len, JSON_ALLOW_NUL, NULL));
            json_object_set_new(said, "stop", json_string(answered.stop));
            json_object_set_new(said, "calls", json_integer((json_int_t)answered.calls));
            code = run(line, true, &cut, &again, &err);
            if (code == MS_OK && (cut.len != whole.len ||
                                  memcmp(cut.ptr, whole.ptr, cut.len) != 0)) {
                json_object_set_new(said, "error", json_string("cut"));
                json_object_set_new(said, "cut",
                                    json_loadb(cut.ptr, cut.len, JSON_ALLOW_NUL, NULL));
            }
        }
        if (code != MS_OK)
            json_object_set_new(said, "error",
                                json_sprintf("%s: %s", ms_result_text(code), err.message));
        char *printed = json_dumps(said, JSON_COMPACT | JSON_REAL_PRECISION(17));
        puts(printed);
        fflush(stdout);
        free(printed);
        json_decref(said);
        json_decref(line);
        ms_arena_deinit(&arena);
    }
    free(text);
    return 0;
}
