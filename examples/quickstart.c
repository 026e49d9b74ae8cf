/* The first program: open a store, append a few messages of two agents, read the four
 * views one by one, then the merged history that one agent reads before it thinks. The
 * file is C99 and C++11 alike. It leaves out batches, limits, memory of your own and the
 * published formats. Build and run by hand, in the folder of msgstore.h:
 *
 *     cc -std=c99 -pthread -I/usr/include/stb -o quickstart examples/quickstart.c
 */
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"

#include <stdio.h>

static int report(const char *what, const ms_error *err)
{
    fprintf(stderr, "%s: %s\n", what, err->message);
    return 1;
}

/* Prints the rest of a cursor's messages and closes it; returns its result. */
static ms_result print_all(const char *title, ms_cursor *it, ms_error *err)
{
    const ms_msg *msg;
    printf("%s\n", title);
    while ((msg = ms_next(it)) != NULL) {
        ms_str word = ms_type_name(msg);
        ms_str text = ms_content(msg).text;
        if (text.ptr == NULL) text = ms_get(msg, MS_F_TOOL).text;   /* of an action */
        printf("  %llu  %.*s: %.*s\n", (unsigned long long)ms_seq(msg), (int)word.len,
               word.ptr, (int)text.len, text.ptr);
    }
    return ms_cursor_close(it, err);
}

static ms_result append_all(ms_store *store, ms_str job, ms_error *err)
{
    ms_envelope list[6];
    ms_result result = MS_OK;
    list[0] = ms_user_message(ms_text("List all tables"));
    list[1] = ms_message(MS_T_TASK, ms_text("Look into the model"));
    list[1].agent_key = MS_STR("worker");
    list[2] = ms_action(MS_STR("list_tables"), ms_json(MS_STR("{}")), MS_STR("c1"));
    list[2].agent_key = MS_STR("worker");
    list[3] = ms_observation(ms_json(MS_STR("[\"users\",\"orders\"]")), MS_STR("c1"));
    list[3].agent_key = MS_STR("worker");
    list[4] = ms_message(MS_T_GLOBAL_OBSERVATION, ms_text("The schema has 2 tables"));
    list[5] = ms_assistant_message(ms_text("There are 2: users and orders"));
    for (int i = 0; i < 6 && result == MS_OK; i++)
        result = ms_append(store, job, &list[i], NULL, err);
    return result;
}

static ms_result print_views(ms_store *store, ms_str job, ms_error *err)
{
    ms_str worker = MS_STR("worker");
    ms_cursor it;
    ms_result result = ms_get_conversation_messages(store, job, 0, &it, err);
    if (result == MS_OK) result = print_all("conversation", &it, err);
    if (result == MS_OK)
        result = ms_get_agent_messages(store, job, worker, 0, &it, err);
    if (result == MS_OK) result = print_all("agent worker", &it, err);
    if (result == MS_OK)
        result = ms_get_team_messages(store, job, &worker, 1, 2, &it, err);
    if (result == MS_OK) result = print_all("team, newest 2", &it, err);
    if (result == MS_OK) result = ms_get_global_messages(store, job, 0, &it, err);
    if (result == MS_OK) result = print_all("global", &it, err);
    return result;
}

int main(void)
{
    ms_store *store;
    ms_error err;
    ms_str job = MS_STR("job_123");
    ms_memory memory;
    ms_cursor it;

    if (ms_mem_open(&store, NULL, &err) != MS_OK) return report("open", &err);
    if (append_all(store, job, &err) != MS_OK) return report("append", &err);
    if (print_views(store, job, &err) != MS_OK) return report("views", &err);

    ms_memory_init(&memory, store, job, MS_STR("worker"));
    if (ms_get_history(&memory, &it, &err) != MS_OK) return report("history", &err);
    if (print_all("history", &it, &err) != MS_OK) return report("history", &err);
    ms_close(store);
    return 0;
}
