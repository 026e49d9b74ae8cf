/* The program of tests/cow.sh: appends to a log on a file system that writes each block to
 * a new place, while there is room, and when there is none.
 *
 *     cow fill LOG map|write|auto SIZE   appends of SIZE bytes until one says MS_E_FULL;
 *                                        prints how many were acknowledged
 *     cow wait LOG map|write|auto        appends ten, prints "ready", reads a line of
 *                                        standard input, then goes on as fill does
 *     cow count LOG                      prints how many messages a reader finds
 *
 * A store through a map that the file system has no block for would be a signal: the exit
 * status says so.
 */

#define _POSIX_C_SOURCE 200809L
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"

#include <stdio.h>

static int stop(const char *what, const ms_error *err)
{
    fprintf(stderr, "%s: %s\n", what, err->message);
    return 1;
}

static ms_result append(ms_store *store, size_t size, ms_error *err)
{
    static char text[70000];
    memset(text, 'x', sizeof text);
    ms_envelope m = ms_user_message(ms_text_n(ms_str_n(text, size)));
    return ms_append(store, MS_STR("place"), &m, NULL, err);
}

static int fill(const char *path, const char *engine, size_t size, bool waits)
{
    ms_log_desc desc;
    ms_store *store;
    ms_error err;
    ms_result result = MS_OK;
    unsigned n = 0;
    memset(&desc, 0, sizeof desc);
    desc.path = path;
    desc.mode = MS_LOG_CREATE;
    desc.engine = strcmp(engine, "map") == 0     ? MS_ENGINE_MAP
                  : strcmp(engine, "write") == 0 ? MS_ENGINE_WRITE
                                                 : MS_ENGINE_AUTO;
    if (ms_log_open(&store, &desc, &err) != MS_OK) {
        if (err.code == MS_E_FULL) puts("0");
        return err.code == MS_E_FULL ? 0 : stop("opening", &err);
    }
    for (; waits && n < 10 && result == MS_OK; n += result == MS_OK)
        result = append(store, size, &err);
    if (waits) {
        puts("ready");
        fflush(stdout);
        (void)getchar();
    }
    while (result == MS_OK && n < 1000000) {
        result = append(store, size, &err);
        n += result == MS_OK;
    }
    printf("%u\n", n);
    if (result != MS_E_FULL) return stop("appending until it is full", &err);
    if (append(store, size, &err) == MS_OK) n++; /* it may have room again, or not */
    ms_close(store);
    return 0;
}

static int count(const char *path)
{
    ms_log_desc desc;
    ms_store *store;
    ms_error err;
    ms_query q;
    ms_cursor it;
    unsigned n = 0;
    memset(&desc, 0, sizeof desc);
    memset(&q, 0, sizeof q);
    desc.path = path;
    desc.mode = MS_LOG_READ;
    if (ms_log_open(&store, &desc, &err) != MS_OK) return stop("opening", &err);
    if (ms_query_open(store, &q, &it, &err) != MS_OK) return stop("reading", &err);
    while (ms_next(&it) != NULL) n++;
    if (ms_cursor_close(&it, &err) != MS_OK) return stop("reading", &err);
    ms_close(store);
    printf("%u\n", n);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "fill") == 0)
        return fill(argv[2], argv[3], (size_t)strtoul(argv[4], NULL, 10), false);
    if (argc == 4 && strcmp(argv[1], "wait") == 0) return fill(argv[2], argv[3], 300, true);
    if (argc == 3 && strcmp(argv[1], "count") == 0) return count(argv[2]);
    fprintf(stderr, "cow fill LOG ENGINE SIZE | wait LOG ENGINE | count LOG\n");
    return 2;
}
