/* The game of tests/platform/test_reload.sh: a library that is built twice (BUILD),
 * loaded, used, and unloaded while its stores stay. With HAS_STORE it has the
 * implementation inside; else the host has it. */
#ifdef HAS_STORE
#define MSGSTORE_IMPLEMENTATION
#endif
#include "msgstore.h"
#include "reload.h"

#include <stdio.h>

/* Opens, or finds again, what the host keeps. */
static ms_result enter(reload *host, ms_error *err)
{
    ms_mem_desc mem = {0};
    mem.buffer = host->buffer;
    mem.buffer_size = sizeof host->buffer;
#ifdef HAS_STORE
    /* the handle of the library before this one points to code that is gone */
    if (host->frames > 0) return ms_mem_attach(&host->mem, &mem, NULL, err);
#else
    if (host->mem != NULL) return MS_OK;
#endif
    return ms_mem_open(&host->mem, &mem, err);
}

static ms_result frame(reload *host, ms_error *err)
{
    ms_stat stat;
    uint64_t seq;
    ms_envelope m = ms_message(MS_T_OBSERVATION, ms_text(BUILD == 1 ? "old" : "new"));
    m.agent_key = MS_STR("goblin");
    ms_result result = ms_append(host->mem, MS_STR("level_1"), &m, &seq, err);
    if (result == MS_OK && host->log)
        result = ms_append(host->log, MS_STR("level_1"), &m, &seq, err);
    if (result == MS_OK && host->log) result = ms_tick(host->log, 200, err);
    if (result == MS_OK) result = ms_store_stat(host->mem, &stat, err);
    if (result == MS_OK && stat.messages != host->frames + 1) {
        printf("%u messages after %u frames\n", (unsigned)stat.messages, host->frames + 1);
        return MS_E_DAMAGED;
    }
    host->frames++;
    return result;
}

int play(reload *host)
{
    ms_error err;
    if (enter(host, &err) != MS_OK) return puts(err.message), 1;
    for (int i = 0; i < 100; i++)
        if (frame(host, &err) != MS_OK) return puts(err.message), 1;
    if (ms_selfcheck(host->mem, &err) != MS_OK) return puts(err.message), 1;
    return 0;
}
