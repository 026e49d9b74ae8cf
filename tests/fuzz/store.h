/* Stores of fuzz targets, the same each time: their memory costs nothing, their clock
 * stands, their numbers are counted. */

#ifndef FUZZ_STORE_H
#define FUZZ_STORE_H

#include "fuzz.h"

static unsigned char fuzz_drawn; /* numbers drawn so far; 0 before each input */

/* A store in a buffer. */
static inline ms_mem_desc fuzz_mem_desc(void *buffer, size_t size)
{
    ms_mem_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.buffer = buffer;
    desc.buffer_size = size;
    desc.clock.now = fuzz_now;
    desc.entropy.fill = fuzz_fill;
    desc.entropy.ctx = &fuzz_drawn;
    return desc;
}

static inline ms_log_desc fuzz_log_desc(const ms_os *os, bool mapped)
{
    ms_log_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.path = "log";
    desc.engine = mapped ? MS_ENGINE_MAP : MS_ENGINE_WRITE;
    desc.segment_size = MS_LOG_SEGMENT_MIN;
    desc.clock.now = fuzz_now;
    desc.entropy.fill = fuzz_fill;
    desc.entropy.ctx = &fuzz_drawn;
    desc.os = os;
    return desc;
}

/* An empty one in `room`; the last one there is gone. */
static inline ms_store *fuzz_store_in(void *room, size_t size, bool keep_unset_times)
{
    ms_store *store;
    fuzz_drawn = 0;
    ms_mem_desc desc = fuzz_mem_desc(room, size);
    desc.keep_unset_times = keep_unset_times;
    if (ms_mem_open(&store, &desc, NULL) != MS_OK) fuzz_fail("no store");
    return store;
}

/* Reads a query to its last byte. How many messages, at most so many. *result: of the
 * cursor, or of opening it. *ordered: do numbers rise, or fall in reverse? */
static inline uint64_t fuzz_count(ms_store *store, const ms_query *q, uint64_t most,
                                  ms_result *result, bool *ordered)
{
    ms_cursor it;
    const ms_msg *msg;
    uint64_t n = 0, last = 0;
    *ordered = true;
    *result = ms_query_open(store, q, &it, NULL);
    if (*result != MS_OK) return 0;
    while ((msg = ms_next(&it)) != NULL) {
        fuzz_touch(msg);
        if (n > 0 && (q->reverse ? ms_seq(msg) >= last : ms_seq(msg) <= last))
            *ordered = false;
        last = ms_seq(msg);
        if (++n > most) fuzz_fail("reading has no end");
    }
    *result = ms_cursor_close(&it, NULL);
    return n;
}

#endif /* FUZZ_STORE_H */
