/* An agent loop: an orchestrator receives a user message, plans, calls a tool, observes
 * and finishes. It reads its history before each step. The conversation is kept in one
 * store. Messages that the agent adds while it runs are in a second store, which is
 * merged when reading (option C of the framework's guide) and dropped at the end. Prints
 * the last history as an OpenAI chat model receives it. Left out: a real model and tool,
 * subordinates, limits, scopes. Build by hand:
 *
 *     cc -std=c99 -pthread -I/usr/include/stb -o agent_loop examples/agent_loop.c
 */
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"

#include <stdio.h>

static ms_result to_stdout(void *ctx, const char *bytes, size_t len)
{
    (void)ctx;
    return fwrite(bytes, 1, len, stdout) == len ? MS_OK : MS_E_IO;
}

/* Reads the history and prints a word per message; *last is the type of the last one. */
static ms_result read_history(const ms_memory *memory, ms_type *last, ms_error *err)
{
    ms_cursor it;
    const ms_msg *msg;
    ms_result result = ms_get_history(memory, &it, err);
    if (result != MS_OK) return result;
    printf("it reads:");
    while ((msg = ms_next(&it)) != NULL) {
        *last = ms_type_of(msg);
        printf(" %s", ms_type_word(*last));
    }
    printf("\n");
    return ms_cursor_close(&it, err);
}

/* Prints the same history in the format of a model provider, one JSON message a line. */
static ms_result print_for_model(const ms_memory *memory, ms_error *err)
{
    const ms_format *openai = ms_format_find(MS_STR("openai"));
    ms_arena arena = {0};
    ms_writer writer;
    ms_cursor it;
    const ms_msg *msg;
    ms_result closed, result = ms_get_history(memory, &it, err);
    if (result != MS_OK) return result;
    ms_writer_init(&writer, openai, NULL, &arena, to_stdout, NULL);
    while (result == MS_OK && (msg = ms_next(&it)) != NULL) {
        ms_envelope m = ms_envelope_of(msg);
        result = ms_writer_put(&writer, &m, err);
    }
    if (result == MS_OK) result = ms_writer_finish(&writer, err);
    closed = ms_cursor_close(&it, result == MS_OK ? err : NULL);
    ms_arena_deinit(&arena);
    return result == MS_OK ? closed : result;
}

/* Stands for the model and the tool: makes the message after the last one read. */
static ms_envelope next_step(ms_type last)
{
    switch (last) {
    case MS_T_TASK:
        return ms_message(MS_T_STRATEGIC_PLAN, ms_json(MS_STR("[\"look\",\"answer\"]")));
    case MS_T_STRATEGIC_PLAN:
        return ms_action(MS_STR("tables"), ms_json(MS_STR("{}")), MS_STR("call_1"));
    case MS_T_ACTION:
        return ms_observation(ms_json(MS_STR("[\"users\",\"orders\"]")), MS_STR("call_1"));
    default:
        return ms_message(MS_T_FINAL, ms_text("There are 2 tables: users and orders."));
    }
}

static ms_result run(const ms_memory *memory, ms_error *err)
{
    ms_envelope user = ms_user_message(ms_text("Which tables are there?"));
    ms_envelope m = ms_message(MS_T_TASK, ms_text("List all tables of the model"));
    ms_type last = MS_T_NONE;
    ms_result result = ms_append(memory->store, memory->location, &user, NULL, err);
    while (result == MS_OK && m.type != MS_T_FINAL) {
        result = ms_memory_add(memory, &m, NULL, err);
        if (result == MS_OK) result = read_history(memory, &last, err);
        m = next_step(last);
    }
    if (result == MS_OK) result = print_for_model(memory, err);
    if (result != MS_OK) return result;
    m = ms_assistant_message(m.content);    /* the user's text is kept */
    return ms_append(memory->store, memory->location, &m, NULL, err);
}

int main(void)
{
    ms_store *store = NULL, *runtime = NULL;
    ms_memory memory;
    ms_error err;
    ms_result result = ms_mem_open(&store, NULL, &err);
    if (result == MS_OK) result = ms_mem_open(&runtime, NULL, &err);
    ms_memory_init(&memory, store, MS_STR("job_123"), MS_STR("orchestrator"));
    memory.runtime_mode = MS_RUNTIME_MERGE;
    memory.runtime = runtime;
    memory.agent_types = MS_TYPES_AGENT_WIDE;   /* so that the plan is read, too */
    if (result == MS_OK) result = run(&memory, &err);
    if (result != MS_OK) fprintf(stderr, "%s\n", err.message);
    ms_close(runtime);
    ms_close(store);
    return result != MS_OK;
}
