/* A manager and two workers over one log, each with a provider of its own. The manager's
 * model delegates by calls. The program makes a task of each call and runs the worker,
 * whose words the manager reads in its team block, behind the worker's name. What all
 * have to know is broadcast. Prints each request as a line: the agent, its provider, the
 * body. Left out: HTTP, streaming, workers that run at the same time.
 *
 *     cc -std=c99 -pthread -I/usr/include/stb -o manager examples/manager.c
 *     ./manager 7         dies at its 7th step, as if killed
 *     ./manager           goes on from there: all that it knows is in manager.msl
 */
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BOSS, ANN, BOB, AGENTS };

typedef struct agent {
    const char *name, *provider, *model, *tools;
    ms_type text_type;        /* whom its texts are for */
    const char *mark;         /* only requests with results have it */
    const char *calls, *last; /* the made-up provider's answers: before results, behind */
    ms_memory memory;
    ms_request_desc ask;
} agent;

static agent agents[AGENTS] = {
    {"boss", "anthropic", "claude-sonnet-4-5",
     "[{\"name\":\"delegate\",\"input_schema\":{\"type\":\"object\",\"properties\":"
     "{\"to\":{\"type\":\"string\"},\"task\":{\"type\":\"string\"}}}}]",
     MS_T_SYNTHESIS, /* for all agents */
     "\"tool_result\"",
     "{\"role\":\"assistant\",\"stop_reason\":\"tool_use\",\"content\":["
     "{\"type\":\"text\",\"text\":\"I ask both.\"},"
     "{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"delegate\",\"input\":"
     "{\"to\":\"ann\",\"task\":\"How is the weather in Osaka?\"}},"
     "{\"type\":\"tool_use\",\"id\":\"toolu_2\",\"name\":\"delegate\",\"input\":"
     "{\"to\":\"bob\",\"task\":\"Find a room in Osaka.\"}}]}",
     "{\"role\":\"assistant\",\"stop_reason\":\"end_turn\",\"content\":["
     "{\"type\":\"text\",\"text\":\"Take an umbrella to the castle inn.\"}]}",
     {0}, {0}},
    {"ann", "openai", "gpt-5",
     "[{\"type\":\"function\",\"function\":{\"name\":\"weather\"}}]",
     MS_T_FINAL, /* for the agent and its managers */
     "\"tool_call_id\"",
     "{\"choices\":[{\"message\":{\"content\":\"I look at the forecast.\","
     "\"tool_calls\":[{\"id\":\"call_1\",\"function\":"
     "{\"name\":\"weather\",\"arguments\":\"{}\"}}]}}]}",
     "{\"choices\":[{\"message\":{\"content\":\"It rains all day.\"}}]}", {0}, {0}},
    {"bob", "gemini", "gemini-2.5-pro",
     "[{\"functionDeclarations\":[{\"name\":\"rooms\"}]}]",
     MS_T_FINAL, "\"functionResponse\"",
     "{\"candidates\":[{\"finishReason\":\"STOP\",\"content\":{\"parts\":["
     "{\"functionCall\":{\"name\":\"rooms\",\"args\":{\"place\":\"Osaka\"}}}]}}]}",
     "{\"candidates\":[{\"finishReason\":\"STOP\",\"content\":{\"parts\":["
     "{\"text\":\"The castle inn has one room.\"}]}}]}", {0}, {0}},
};
static const ms_str workers[] = {{"ann", 3}, {"bob", 3}};
static int steps_to_live;     /* 0: for ever */
static ms_arena arena;

static void step(void)
{
    if (steps_to_live > 0 && --steps_to_live == 0) fflush(stdout), _Exit(9);
}

/* Stands for HTTP and the provider. */
static ms_str post(const agent *a, const ms_buf *body)
{
    size_t i = 0, len = strlen(a->mark);
    printf("%s %s %.*s\n", a->name, a->provider, (int)body->len, body->ptr);
    step();
    while (i + len <= body->len && memcmp(body->ptr + i, a->mark, len) != 0) i++;
    return ms_str_of(i + len <= body->len ? a->last : a->calls);
}

/* Returns the text of a member of the arguments. */
static ms_str argument(const ms_call *call, const char *name)
{
    ms_str json, text = MS_STR("");
    if (ms_json_member(call->args.text, ms_str_of(name), &json))
        (void)ms_json_string(json, &arena, &text);
    return text;
}

static ms_result run(agent *a, ms_error *err);

/* Gives a worker its task and runs it. A key makes the task one, however often the
 * program dies here. The manager reads in its team block what the worker says. */
static ms_result delegate(const ms_call *call, ms_value *result, ms_error *err)
{
    agent *worker = &agents[ms_str_equal(argument(call, "to"), workers[0]) ? ANN : BOB];
    ms_envelope task = ms_message(MS_T_TASK, ms_text_n(argument(call, "task")));
    task.key = call->id;
    *result = ms_text("It has finished.");
    ms_result code = ms_memory_add(&worker->memory, &task, NULL, err);
    step();
    return code == MS_OK ? run(worker, err) : code;
}

static ms_result run_call(agent *a, const ms_call *call, ms_error *err)
{
    ms_value result = ms_text(a == &agents[ANN] ? "rain, 90 %" : "one room, 80 euros");
    ms_result code = MS_OK;
    if (a == &agents[BOSS]) code = delegate(call, &result, err);
    if (a == &agents[ANN]) { /* all have to know it */
        ms_envelope news = ms_message(MS_T_GLOBAL_OBSERVATION, ms_text("Plan for rain."));
        news.key = call->id;
        code = ms_memory_broadcast(&a->memory, &news, NULL, err);
        if (code == MS_E_KEY_REUSED) code = MS_OK; /* told before a kill, in other words */
        step();
    }
    ms_envelope answer = ms_observation(result, call->id);
    if (code == MS_OK) code = ms_memory_add(&a->memory, &answer, NULL, err);
    step();
    return code;
}

/* Runs the open calls of an agent and asks its model, until it answers without calls. */
static ms_result run(agent *a, ms_error *err)
{
    ms_calls calls;
    ms_result code = ms_pending(&a->ask, &arena, &calls, err);
    while (code == MS_OK && !calls.answered) {
        ms_buf body = {&arena, NULL, 0, 0};
        for (size_t i = 0; code == MS_OK && i < calls.count; i++)
            code = run_call(a, &calls.items[i], err);
        if (code == MS_OK) code = ms_request(&a->ask, ms_buf_write, &body, NULL, err);
        if (code == MS_OK) code = ms_answer(&a->ask, post(a, &body), NULL, err);
        step();
        if (code == MS_OK) code = ms_pending(&a->ask, &arena, &calls, err);
    }
    return code;
}

int main(int argc, char **argv)
{
    ms_store *store;
    ms_error err;
    ms_log_desc log = {0};
    ms_envelope user = ms_user_message(ms_text("Plan my Saturday in Osaka."));
    steps_to_live = argc > 1 ? atoi(argv[1]) : 0;
    log.path = "manager.msl";
    if (ms_log_open(&store, &log, &err) != MS_OK) return puts(err.message), 1;
    for (int i = 0; i < AGENTS; i++) {
        agent *a = &agents[i];
        ms_memory_init(&a->memory, store, MS_STR("trip_1"), ms_str_of(a->name));
        a->memory.subordinates = workers;
        a->memory.n_subordinates = i == BOSS ? 2 : 0;
        a->ask.memory = &a->memory;
        a->ask.profile = ms_profile_find(ms_str_of(a->provider));
        a->ask.opts.model = ms_str_of(a->model);
        a->ask.tools = ms_str_of(a->tools);
        a->ask.text_type = a->text_type;
    }
    user.key = MS_STR("question_1"); /* a second run does not append it again */
    ms_result code = ms_memory_broadcast(&agents[BOSS].memory, &user, NULL, &err);
    step();
    if (code == MS_OK) code = run(&agents[BOSS], &err);
    ms_arena_deinit(&arena);
    ms_close(store);
    return code == MS_OK ? 0 : (fprintf(stderr, "%s\n", err.message), 1);
}
