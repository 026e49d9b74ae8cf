/* The host of tests/platform/test_reload.sh: host LIBRARY LIBRARY [LOG]. Loads one build
 * of the game after the other; the log is there if the host has the implementation. */
#define _GNU_SOURCE
#ifdef HAS_STORE
#define MSGSTORE_IMPLEMENTATION
#endif
#include "msgstore.h"
#include "reload.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef int play_fn(reload *host);

/* Loads, plays, unloads. */
static int round_with(const char *library, reload *host)
{
    play_fn *run;
    void *code = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (code == NULL) return puts(dlerror()), 1;
    void *symbol = dlsym(code, "play");
    if (symbol == NULL) return puts(dlerror()), 1;
    memcpy(&run, &symbol, sizeof run);
    int failed = run(host);
    dlclose(code);
    if (dlopen(library, RTLD_NOW | RTLD_NOLOAD) != NULL) return puts("still loaded"), 1;
    return failed;
}

int main(int argc, char **argv)
{
    static reload host;
    if (argc < 3) return 2;
#ifdef HAS_STORE
    ms_error err;
    ms_log_desc desc = {0};
    ms_stat stat;
    desc.path = argc > 3 ? argv[3] : "reload.msl";
    if (ms_log_open(&host.log, &desc, &err) != MS_OK) return puts(err.message), 1;
#endif
    for (int i = 0; i < 4; i++)
        if (round_with(argv[1 + i % 2], &host) != 0) return 1;
#ifdef HAS_STORE
    if (ms_store_stat(host.log, &stat, &err) != MS_OK) return puts(err.message), 1;
    printf("%u messages in the log\n", (unsigned)stat.messages);
    ms_close(host.mem);
    ms_close(host.log);
#endif
    printf("%u frames\n", host.frames);
    return 0;
}
