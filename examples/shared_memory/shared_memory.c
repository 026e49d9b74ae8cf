/* Shared memory of agents on different hosts: a manager and a worker, two processes that
 * share nothing but a PostgreSQL server. The manager broadcasts a task, the worker reads
 * its history, does the task, reports; the manager reads the reports of its team. Both
 * wait for each other with ms_wait. Left out: models, and what happens when one dies (the
 * other waits a minute). Build by hand, in the folder of msgstore.h, and run both:
 *
 *     cc -std=c99 -pthread -I/usr/include/stb -I/usr/include/postgresql -I. \
 *         -o shared_memory examples/shared_memory/shared_memory.c -lpq
 *     ./shared_memory URL worker & ./shared_memory URL manager
 */
#define _POSIX_C_SOURCE 200809L
#define MSGSTORE_IMPLEMENTATION
#define MSGSTORE_POSTGRES_IMPLEMENTATION
#include "msgstore.h"
#include "backends/msgstore_postgres.h"

#include <stdio.h>

enum { TASKS = 3 };

/* Reads the history; returns how many messages of that type it has, and the last one's
 * text. */
static int look(const ms_memory *memory, ms_type type, char *text, size_t size)
{
    ms_cursor it;
    ms_error err;
    const ms_msg *msg;
    int n = 0;
    if (ms_get_history(memory, &it, &err) != MS_OK) return -1;
    while ((msg = ms_next(&it)) != NULL) {
        if (ms_type_of(msg) != type) continue;
        ms_str says = ms_content(msg).text;
        snprintf(text, size, "%.*s", (int)says.len, says.ptr);
        n++;
    }
    return ms_cursor_close(&it, &err) == MS_OK ? n : -1;
}

/* Waits until the history has n messages of that type. */
static bool await(const ms_memory *memory, ms_type type, int n, char *text, size_t size)
{
    uint64_t last = 0;
    ms_error err;
    for (int tries = 0; tries < 60; tries++) {
        int have = look(memory, type, text, size);
        if (have >= n) return true;
        if (have < 0 || ms_wait(memory->store, last, 1000, &last, &err) != MS_OK)
            return false;
    }
    return false;
}

static bool manage(const ms_memory *memory)
{
    char text[100];
    ms_error err;
    for (int i = 1; i <= TASKS; i++) {
        snprintf(text, sizeof text, "task %d", i);
        ms_envelope m = ms_message(MS_T_GLOBAL_OBSERVATION, ms_text(text));
        if (ms_memory_broadcast(memory, &m, NULL, &err) != MS_OK) return false;
        printf("manager: %s\n", text);
        if (!await(memory, MS_T_FINAL, i, text, sizeof text)) return false;
        printf("manager: the worker says '%s'\n", text);
    }
    return true;
}

static bool work(const ms_memory *memory)
{
    char text[100], report[120];
    ms_error err;
    for (int i = 1; i <= TASKS; i++) {
        if (!await(memory, MS_T_GLOBAL_OBSERVATION, i, text, sizeof text)) return false;
        snprintf(report, sizeof report, "%s is done", text);
        ms_envelope m = ms_message(MS_T_FINAL, ms_text(report));
        if (ms_memory_add(memory, &m, NULL, &err) != MS_OK) return false;
        printf("worker: %s\n", report);
    }
    return true;
}

int main(int argc, char **argv)
{
    bool manager = argc > 2 && strcmp(argv[2], "manager") == 0;
    ms_str worker = MS_STR("worker");
    ms_pg_desc desc;
    ms_store *store;
    ms_memory memory;
    ms_error err;
    memset(&desc, 0, sizeof desc);
    if (argc < 3) return fprintf(stderr, "usage: shared_memory URL manager|worker\n"), 2;
    desc.url = argv[1];
    if (ms_pg_open(&store, &desc, &err) != MS_OK) return puts(err.message), 1;
    ms_result result = ms_shared_memory_init(&memory, store, MS_STR("team_1"),
                                             manager ? MS_STR("manager") : worker,
                                             &worker, manager ? 1 : 0, &err);
    memory.runtime_mode = MS_RUNTIME_STORE;
    bool done = result == MS_OK && (manager ? manage(&memory) : work(&memory));
    if (!done) puts("it did not come to an end");
    ms_close(store);
    return !done;
}
