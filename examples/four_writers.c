/* Four processes write one log at once. Each opens it `shared`: the lock is taken for
 * each append, not from opening to closing, so they take turns, and each message has a
 * number of its own. A call and its result are appended in one batch, so no other
 * process's message comes between the two. The parent then checks all messages. Left out:
 * MS_E_CONFLICT when another process compacts the log (open it again). Build by hand:
 *
 *     cc -std=c99 -pthread -I/usr/include/stb -o four_writers examples/four_writers.c
 */
#define _POSIX_C_SOURCE 200809L
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 4, PAIRS = 500 };

static ms_result work(const ms_log_desc *desc, int worker, ms_error *err)
{
    ms_store *store;
    char name[16], text[32];
    ms_append_opts opts = {0};
    ms_result result = ms_log_open(&store, desc, err);
    snprintf(name, sizeof name, "worker_%d", worker);
    opts.location = MS_STR("job_123");
    for (int i = 0; i < PAIRS && result == MS_OK; i++) {
        ms_envelope pair[2];
        snprintf(text, sizeof text, "%d", i);
        pair[0] = ms_action(MS_STR("square"), ms_json(MS_STR("{}")), ms_str_of(text));
        pair[1] = ms_observation(ms_text(text), ms_str_of(text));
        pair[0].agent_key = pair[1].agent_key = ms_str_of(name);
        result = ms_append_batch(store, pair, 2, &opts, err);
    }
    ms_close(store);
    return result;
}

/* Checks that no message is missing: each worker's results in order, each right after its
 * call. */
static ms_result check(ms_store *store, ms_error *err)
{
    ms_cursor it;
    ms_query q = {0};
    const ms_msg *msg;
    int next[WORKERS] = {0}, turns = 0, last = -1, worker, number;
    uint64_t call = 0;
    bool good = true;
    ms_result result = ms_query_open(store, &q, &it, err);
    if (result != MS_OK) return result;
    while (good && (msg = ms_next(&it)) != NULL) {
        char text[32];
        ms_str name = ms_get(msg, MS_F_AGENT_KEY).text, content = ms_content(msg).text;
        if (ms_type_of(msg) == MS_T_ACTION) {
            call = ms_seq(msg);
            continue;
        }
        snprintf(text, sizeof text, "%.*s", (int)content.len, content.ptr);
        good = sscanf(text, "%d", &number) == 1 && ms_seq(msg) == call + 1;
        worker = name.ptr[name.len - 1] - '0';
        good = good && number == next[worker]++;
        turns += worker != last;
        last = worker;
    }
    for (int i = 0; i < WORKERS; i++) good = good && next[i] == PAIRS;
    result = ms_cursor_close(&it, err);
    if (result == MS_OK && !good)
        result = ms_error_set(err, MS_E_DAMAGED, "a message is missing or out of order");
    if (result == MS_OK) printf("all there, written in %d turns\n", turns);
    return result;
}

int main(void)
{
    ms_store *store = NULL;
    ms_error err;
    ms_log_desc desc = {0};
    int failed = 0, status;
    desc.path = "four_writers.msl";
    desc.shared = true;
    desc.lock_wait_ms = 10000;
    remove(desc.path);
    for (int i = 0; i < WORKERS; i++) {
        pid_t child = fork();   /* before opening: handles are of one process */
        if (child < 0) return perror("fork"), 1;
        if (child > 0) continue;
        ms_result result = work(&desc, i, &err);
        if (result != MS_OK) fprintf(stderr, "worker_%d: %s\n", i, err.message);
        return result != MS_OK;
    }
    while (wait(&status) > 0) failed += status != 0;
    desc.mode = MS_LOG_READ;
    desc.shared = false;
    ms_result result = ms_log_open(&store, &desc, &err);
    if (result == MS_OK) result = check(store, &err);
    if (result != MS_OK) fprintf(stderr, "%s\n", err.message);
    ms_close(store);
    remove(desc.path);
    return result != MS_OK || failed > 0;
}
