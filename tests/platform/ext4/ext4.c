/* The program of tests/platform/ext4.sh, cow.sh, full.sh and boots.sh: a writer of
 * numbered messages on a file system of its own, and what looks at the log.
 *
 *     ext4 write LOG ACK SEED       appends, syncs now and then, until it is killed; the
 *                                   number of the last durable message is in ACK, as text
 *     ext4 check LOG LEAST          reads, goes on writing, compacts, reads again
 *     ext4 fill LOG ENGINE SIZE     appends of SIZE bytes until there is no room; prints
 *                                   how many messages are acknowledged
 *     ext4 wait LOG ENGINE          appends ten, prints "ready", reads a line of standard
 *                                   input, then goes on as fill does
 *     ext4 count LOG                prints how many messages a reader finds
 *     ext4 share LOG NAME N         appends N messages as one of several writers, each
 *                                   durable; prints a line for each that is acknowledged
 *     ext4 await LOG N              follows until it sees N messages, or for a minute;
 *                                   prints "ready", then how many
 *     ext4 names LOG                prints a line for each message
 *
 * A store through a map that the file system has no block for would be a signal: the exit
 * status shows it.
 */

#define _POSIX_C_SOURCE 200809L
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static int stop(const char *what, const ms_error *err)
{
    fprintf(stderr, "%s: %s\n", what, err->message);
    return 1;
}

static ms_result open_log(const char *log, ms_log_mode mode, ms_log_engine engine,
                          ms_store **store, ms_error *err)
{
    ms_log_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.path = log;
    desc.mode = mode;
    desc.engine = engine;
    if (mode != MS_LOG_READ) desc.segment_size = MS_LOG_SEGMENT_MIN;
    return ms_log_open(store, &desc, err);
}

static ms_result append(ms_store *store, unsigned n, size_t size, ms_error *err)
{
    static char text[70000];
    int len = snprintf(text, sizeof text, "number %u ", n);
    memset(text + len, 'a' + (int)(n % 26), sizeof text - (size_t)len);
    ms_str all = ms_str_n(text, (size_t)len + size);
    ms_envelope m = ms_user_message(ms_text_n(all));
    return ms_append(store, MS_STR("place"), &m, NULL, err);
}

/* Messages in order without a hole; 0: something else is there. */
static bool reads(ms_store *store, unsigned *count, ms_error *err)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    char want[40];
    memset(&q, 0, sizeof q);
    *count = 0;
    if (ms_query_open(store, &q, &it, err) != MS_OK) return false;
    bool fine = true;
    while (fine && (msg = ms_next(&it)) != NULL) {
        snprintf(want, sizeof want, "number %u ", ++*count);
        fine = ms_content(msg).text.len >= strlen(want) &&
               memcmp(ms_content(msg).text.ptr, want, strlen(want)) == 0;
    }
    if (!fine) snprintf(err->message, sizeof err->message, "number %u is not", *count);
    return ms_cursor_close(&it, err) == MS_OK && fine;
}

static void acknowledge(const char *path, unsigned n)
{
    char text[16];
    FILE *f = fopen(path, "r+");
    if (!f) f = fopen(path, "w");
    if (!f) return;
    snprintf(text, sizeof text, "%010u\n", n); /* in place, one write */
    (void)fwrite(text, 1, 11, f);
    fclose(f);
}

static int write_on(const char *log, const char *ack, unsigned seed)
{
    ms_store *store;
    ms_error err;
    struct timespec nap = {0, 0};
    ms_log_engine engine = seed % 2 ? MS_ENGINE_MAP : MS_ENGINE_WRITE;
    if (open_log(log, MS_LOG_CREATE, engine, &store, &err) != MS_OK)
        return stop("opening", &err);
    for (unsigned n = 1;; n++) {
        seed = seed * 1103515245u + 12345u;
        if (append(store, n, n * 37 % 600, &err) != MS_OK) break; /* the disk is full */
        if (seed >> 16 & 7) continue;
        if (ms_sync(store, NULL, &err) != MS_OK) return stop("syncing", &err);
        acknowledge(ack, n);
        nap.tv_nsec = (long)(seed >> 20 & 15) * 2000000;
        nanosleep(&nap, NULL);
    }
    for (;;) pause();
}

static int check(const char *log, unsigned least)
{
    ms_log_desc desc;
    ms_log_info info;
    ms_store *store;
    ms_error err;
    unsigned count, again;
    memset(&desc, 0, sizeof desc);
    desc.path = log;
    desc.mode = least > 0 ? MS_LOG_WRITE : MS_LOG_CREATE;
    if (ms_log_open(&store, &desc, &err) != MS_OK) return stop("opening", &err);
    if (!reads(store, &count, &err)) return stop("reading", &err);
    if (ms_log_stat(store, &info, &err) != MS_OK) return stop("stat", &err);
    printf("%u messages, %u were durable\n", count, least);
    if (count < least || info.damaged != 0) return 1;
    ms_result result = MS_OK;
    unsigned upto = count + 20;
    for (; result == MS_OK && count < upto; count += result == MS_OK)
        result = append(store, count + 1, count * 37 % 600, &err);
    if (result == MS_OK) result = ms_log_rewrite(store, &desc, true, NULL, NULL, &err);
    ms_close(store);
    if (result != MS_OK && result != MS_E_FULL) return stop("going on", &err);
    if (ms_log_open(&store, &desc, &err) != MS_OK) return stop("opening again", &err);
    if (!reads(store, &again, &err)) return stop("reading again", &err);
    ms_close(store);
    return again != count;
}

static int fill(const char *log, const char *engine, size_t size, bool waits)
{
    ms_store *store;
    ms_error err;
    unsigned n = 0;
    ms_log_engine how = strcmp(engine, "map") == 0     ? MS_ENGINE_MAP
                        : strcmp(engine, "write") == 0 ? MS_ENGINE_WRITE
                                                       : MS_ENGINE_AUTO;
    ms_result result = open_log(log, MS_LOG_CREATE, how, &store, &err);
    if (result == MS_E_FULL) puts("0");
    if (result != MS_OK) return result == MS_E_FULL ? 0 : stop("opening", &err);
    if (!reads(store, &n, &err)) return stop("reading", &err);
    for (unsigned first = n; result == MS_OK && n < 1000000; n += result == MS_OK) {
        if (waits && n == first + 10) {
            puts("ready");
            fflush(stdout);
            (void)getchar();
        }
        result = append(store, n + 1, size, &err);
    }
    printf("%u\n", n);
    if (result != MS_E_FULL) return stop("appending until it is full", &err);
    (void)append(store, n + 1, size, &err); /* it may have room again, or not */
    ms_close(store);
    return 0;
}

static int count(const char *log)
{
    ms_store *store;
    ms_error err;
    unsigned n;
    if (open_log(log, MS_LOG_READ, MS_ENGINE_AUTO, &store, &err) != MS_OK)
        return stop("opening", &err);
    if (!reads(store, &n, &err)) return stop("reading", &err);
    ms_close(store);
    printf("%u\n", n);
    return 0;
}

static int share(const char *log, const char *name, unsigned n)
{
    ms_store *store;
    ms_error err;
    ms_log_desc desc;
    const struct timespec nap = {0, 5000000};
    memset(&desc, 0, sizeof desc);
    desc.path = log;
    desc.shared = true;
    desc.sync = MS_SYNC_EACH;
    desc.lock_wait_ms = 60000;
    desc.segment_size = MS_LOG_SEGMENT_MIN;
    if (ms_log_open(&store, &desc, &err) != MS_OK) return stop("opening", &err);
    for (unsigned i = 1; i <= n; i++) {
        char text[80];
        snprintf(text, sizeof text, "%s-%u", name, i);
        ms_envelope m = ms_user_message(ms_text(text));
        if (ms_append(store, MS_STR("place"), &m, NULL, &err) != MS_OK)
            return stop("appending", &err);
        puts(text);
        fflush(stdout);
        nanosleep(&nap, NULL);
    }
    ms_close(store);
    return 0;
}

/* Counts the messages; prints their texts. */
static ms_result look(ms_store *store, bool prints, unsigned *n, ms_error *err)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    memset(&q, 0, sizeof q);
    *n = 0;
    ms_result result = ms_query_open(store, &q, &it, err);
    if (result != MS_OK) return result;
    for (; (msg = ms_next(&it)) != NULL; ++*n) {
        ms_str text = ms_content(msg).text;
        if (prints) printf("%.*s\n", (int)text.len, text.ptr);
    }
    return ms_cursor_close(&it, err);
}

static int await(const char *log, unsigned wanted)
{
    ms_store *store;
    ms_error err;
    unsigned n = 0;
    time_t end = time(NULL) + 60;
    if (open_log(log, MS_LOG_READ, MS_ENGINE_AUTO, &store, &err) != MS_OK)
        return stop("opening", &err);
    puts("ready");
    fflush(stdout);
    while (n < wanted && time(NULL) < end) {
        uint64_t last;
        if (ms_wait(store, n, 1000, &last, &err) != MS_OK) return stop("waiting", &err);
        if (look(store, false, &n, &err) != MS_OK) return stop("reading", &err);
    }
    ms_close(store);
    printf("%u\n", n);
    return 0;
}

static int names(const char *log)
{
    ms_store *store;
    ms_error err;
    unsigned n;
    if (open_log(log, MS_LOG_READ, MS_ENGINE_AUTO, &store, &err) != MS_OK)
        return stop("opening", &err);
    if (look(store, true, &n, &err) != MS_OK) return stop("reading", &err);
    ms_close(store);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "write") == 0)
        return write_on(argv[2], argv[3], (unsigned)strtoul(argv[4], NULL, 10));
    if (argc == 4 && strcmp(argv[1], "check") == 0)
        return check(argv[2], (unsigned)strtoul(argv[3], NULL, 10));
    if (argc == 5 && strcmp(argv[1], "fill") == 0)
        return fill(argv[2], argv[3], (size_t)strtoul(argv[4], NULL, 10), false);
    if (argc == 4 && strcmp(argv[1], "wait") == 0) return fill(argv[2], argv[3], 300, true);
    if (argc == 3 && strcmp(argv[1], "count") == 0) return count(argv[2]);
    if (argc == 5 && strcmp(argv[1], "share") == 0)
        return share(argv[2], argv[3], (unsigned)strtoul(argv[4], NULL, 10));
    if (argc == 4 && strcmp(argv[1], "await") == 0)
        return await(argv[2], (unsigned)strtoul(argv[3], NULL, 10));
    if (argc == 3 && strcmp(argv[1], "names") == 0) return names(argv[2]);
    fprintf(stderr, "ext4 write LOG ACK SEED | check LOG LEAST | fill LOG ENGINE SIZE |\n"
                    "     wait LOG ENGINE | count LOG | share LOG NAME N | await LOG N |\n"
                    "     names LOG\n");
    return 2;
}
