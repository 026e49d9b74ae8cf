/* The two halves of tests/ext4.sh: a writer of numbered messages, and what looks at the log
 * that a copy of its file system has.
 *
 *     ext4 write LOG ACK SEED       appends, syncs now and then, until it is killed; the
 *                                   number of the last durable message is in ACK, as text
 *     ext4 check LOG LEAST          reads, goes on writing, compacts, reads again
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

static ms_result append(ms_store *store, unsigned n, ms_error *err)
{
    char text[700];
    int len = snprintf(text, sizeof text, "number %u ", n);
    memset(text + len, 'a' + (int)(n % 26), sizeof text - (size_t)len);
    ms_str all = ms_str_n(text, (size_t)len + n * 37 % 600);
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
    ms_log_desc desc;
    ms_store *store;
    ms_error err;
    struct timespec nap = {0, 0};
    memset(&desc, 0, sizeof desc);
    desc.path = log;
    desc.mode = MS_LOG_CREATE;
    desc.engine = seed % 2 ? MS_ENGINE_MAP : MS_ENGINE_WRITE;
    desc.segment_size = MS_LOG_SEGMENT_MIN;
    if (ms_log_open(&store, &desc, &err) != MS_OK) return stop("opening", &err);
    for (unsigned n = 1;; n++) {
        seed = seed * 1103515245u + 12345u;
        if (append(store, n, &err) != MS_OK) break; /* the disk is full */
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
        result = append(store, count + 1, &err);
    if (result == MS_OK) result = ms_log_rewrite(store, &desc, true, NULL, NULL, &err);
    ms_close(store);
    if (result != MS_OK && result != MS_E_FULL) return stop("going on", &err);
    if (ms_log_open(&store, &desc, &err) != MS_OK) return stop("opening again", &err);
    if (!reads(store, &again, &err)) return stop("reading again", &err);
    ms_close(store);
    return again != count;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "write") == 0)
        return write_on(argv[2], argv[3], (unsigned)strtoul(argv[4], NULL, 10));
    if (argc == 4 && strcmp(argv[1], "check") == 0)
        return check(argv[2], (unsigned)strtoul(argv[3], NULL, 10));
    fprintf(stderr, "ext4 write LOG ACK SEED | check LOG LEAST\n");
    return 2;
}
