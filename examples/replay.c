/* A recorded run is repeated without its tools. The agent runs as before; each call that
 * it makes is compared with the next recorded one, and receives the recorded result. So a
 * run can be repeated at any time, at no cost, and the first call that differs is
 * reported. Here the same agent agrees, then a changed one asks for more rows. Left out:
 * a real model (its answers are recorded and repeated alike), and comparing finished runs
 * (msgstore diff). Build by hand:
 *
 *     cc -std=c99 -pthread -I/usr/include/stb -o replay examples/replay.c
 */
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"

#include <stdio.h>

/* The source of results: the tool, whose results are recorded, or the record. */
typedef struct tape {
    ms_store *store;
    ms_str location;
    bool plays;
    uint64_t at;              /* number of the last message played */
} tape;

/* Returns the next recorded message of a type. */
static ms_result next_of(tape *t, ms_type type, const ms_msg **msg, ms_error *err)
{
    ms_cursor it;
    ms_query q = {0};
    q.location = t->location;
    q.types = MS_BIT(type);
    q.after_seq = t->at;
    q.limit = 1;
    q.oldest = true;
    ms_result result = ms_query_open(t->store, &q, &it, err);
    if (result != MS_OK) return result;
    *msg = ms_next(&it);      /* of an arena store: valid until it is closed */
    if (*msg != NULL) t->at = ms_seq(*msg);
    result = ms_cursor_close(&it, err);
    if (result != MS_OK || *msg != NULL) return result;
    return ms_error_set(err, MS_E_NOT_FOUND, "the recorded run ends before this call");
}

static ms_result play(tape *t, const ms_envelope *call, ms_str *answer, ms_error *err)
{
    const ms_msg *was, *result_was;
    ms_result result = next_of(t, MS_T_ACTION, &was, err);
    if (result != MS_OK) return result;
    ms_str tool = ms_get(was, MS_F_TOOL).text, args = ms_get(was, MS_F_ARGS).text;
    if (!ms_str_equal(tool, call->tool) || !ms_str_equal(args, call->args.text)) {
        char text[200];
        snprintf(text, sizeof text, "message %llu was %.*s(%.*s), now it is %.*s(%.*s)",
                 (unsigned long long)t->at, (int)tool.len, tool.ptr, (int)args.len,
                 args.ptr, (int)call->tool.len, call->tool.ptr,
                 (int)call->args.text.len, call->args.text.ptr);
        return ms_error_set(err, MS_E_CONFLICT, text);
    }
    result = next_of(t, MS_T_OBSERVATION, &result_was, err);
    if (result == MS_OK) *answer = ms_content(result_was).text;
    return result;
}

static ms_result call_tool(tape *t, const char *tool, const char *args, ms_str *answer,
                           ms_error *err)
{
    ms_envelope call = ms_action(ms_str_of(tool), ms_json(ms_str_of(args)),
                                 ms_str_of(NULL));
    if (t->plays) return play(t, &call, answer, err);
    ms_envelope done = ms_observation(ms_json(MS_STR("[\"users\",\"orders\"]")),
                                      ms_str_of(NULL));
    ms_result result = ms_append(t->store, t->location, &call, NULL, err);
    if (result == MS_OK) result = ms_append(t->store, t->location, &done, NULL, err);
    *answer = done.content.text;
    return result;
}

/* Runs the agent: two calls. */
static ms_result run(const char *title, tape *t, const char *limit, ms_error *err)
{
    ms_str tables, rows;
    ms_result result = call_tool(t, "tables", "{}", &tables, err);
    if (result == MS_OK) result = call_tool(t, "rows", limit, &rows, err);
    if (result == MS_OK) printf("%s: %.*s\n", title, (int)rows.len, rows.ptr);
    else printf("%s: %s\n", title, err->message);
    return result;
}

int main(void)
{
    tape t = {NULL, MS_STR("run_1"), false, 0}, same, other;
    ms_error err;
    if (ms_mem_open(&t.store, NULL, &err) != MS_OK) return puts(err.message), 1;
    bool good = run("recorded", &t, "{\"limit\":5}", &err) == MS_OK;
    same = other = t;
    same.plays = other.plays = true;
    good = good && run("same agent", &same, "{\"limit\":5}", &err) == MS_OK;
    good = good && run("changed agent", &other, "{\"limit\":9}", &err) == MS_E_CONFLICT;
    ms_close(t.store);
    return !good;
}
