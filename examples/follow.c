/* Two programs and one log: one writes, the other follows it, connected only by the
 * file. The reader takes no lock and writes no byte; it waits for messages after the
 * last one it has seen, reads them, and stops at a final one. Run them in two
 * terminals, in any order, or without arguments to have both at once:
 *
 *     follow write FILE
 *     follow read FILE
 *
 * Left out: syncing, and more readers (this one, started again). Build by hand:
 *
 *     cc -std=c99 -pthread -I/usr/include/stb -o follow examples/follow.c
 */
#define _POSIX_C_SOURCE 200809L
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void sleep_ms(uint64_t ms)
{
    const ms_os *os = ms_os_default();
    os->sleep(os->ctx, ms * 1000);
}

static ms_result write_log(const ms_log_desc *desc, ms_error *err)
{
    ms_store *store;
    ms_result result = ms_log_open(&store, desc, err);
    for (int i = 1; i <= 10 && result == MS_OK; i++) {
        char text[32];
        ms_envelope m;
        snprintf(text, sizeof text, "step %d of 10", i);
        m = ms_message(i < 10 ? MS_T_OBSERVATION : MS_T_FINAL, ms_text(text));
        m.agent_key = MS_STR("worker");
        result = ms_append(store, MS_STR("job_123"), &m, NULL, err);
        sleep_ms(50);
    }
    ms_close(store);
    return result;
}

/* Prints the messages after *seen and moves it; *last: the type of the last one. */
static ms_result print_new(ms_store *store, uint64_t *seen, ms_type *last, ms_error *err)
{
    ms_query query = {0};
    ms_cursor it;
    const ms_msg *msg;
    query.after_seq = *seen;
    ms_result result = ms_query_open(store, &query, &it, err);
    if (result != MS_OK) return result;
    while ((msg = ms_next(&it)) != NULL) {
        ms_str text = ms_content(msg).text;
        *seen = ms_seq(msg);
        *last = ms_type_of(msg);
        printf("%llu: %.*s\n", (unsigned long long)*seen, (int)text.len, text.ptr);
    }
    return ms_cursor_close(&it, err);
}

static ms_result read_log(ms_log_desc *desc, ms_error *err)
{
    ms_store *store;
    ms_type last = MS_T_NONE;
    uint64_t seen = 0, newest = 0;
    ms_result result = MS_E_NOT_FOUND;
    desc->mode = MS_LOG_READ;
    for (int i = 0; i < 100 && result == MS_E_NOT_FOUND; i++) {
        if (i > 0) sleep_ms(20); /* the writer has not made the file yet */
        result = ms_log_open(&store, desc, err);
    }
    while (result == MS_OK && last != MS_T_FINAL) {
        result = ms_wait(store, seen, 2000, &newest, err);
        if (result == MS_OK && newest == seen)
            result = ms_error_set(err, MS_E_NOT_FOUND, "no message for 2 seconds");
        if (result == MS_OK) result = print_new(store, &seen, &last, err);
    }
    ms_close(store);
    return result;
}

int main(int argc, char **argv)
{
    bool both = argc < 3;
    pid_t writer = both ? fork() : 0; /* before opening: handles are of one process */
    bool write = both ? writer == 0 : strcmp(argv[1], "write") == 0;
    int status = 0;
    ms_log_desc desc = {0};
    ms_error err;
    desc.path = both ? "follow.msl" : argv[2];
    ms_result result = write ? write_log(&desc, &err) : read_log(&desc, &err);
    if (result != MS_OK) fprintf(stderr, "%s\n", err.message);
    if (!both || write) return result != MS_OK;
    if (waitpid(writer, &status, 0) != writer || status != 0) result = MS_E_IO;
    remove(desc.path);
    return result != MS_OK;
}
