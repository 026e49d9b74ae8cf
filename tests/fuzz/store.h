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

/* What fuzz_look finds wrong, in words, where nothing may be; NULL: nothing. */
typedef struct fuzz_eyes {
    ms_arena *arena;
    uint64_t most;            /* messages of a query */
    const char *odd;
} fuzz_eyes;

static inline uint64_t fuzz_ask(fuzz_eyes *e, ms_store *store, const ms_query *q)
{
    ms_result result;
    bool ordered;
    uint64_t n = fuzz_count(store, q, e->most, &result, &ordered);
    if (!ordered && q->raw == 0 && !q->by_time) e->odd = "order of sequence numbers";
    if (result != MS_OK) e->odd = ms_result_text(result);
    return n;
}

/* Reads a location by itself, by its views, and its facts. How many messages it has. */
static inline uint64_t fuzz_look_at_place(fuzz_eyes *e, ms_store *store, ms_str location)
{
    ms_query q;
    ms_str facts;
    memset(&q, 0, sizeof q);
    q.location = location;
    uint64_t n = fuzz_ask(e, store, &q);
    q.views = MS_VIEW_AGENT | MS_VIEW_CONVERSATION | MS_VIEW_GLOBAL;
    q.agent_key = MS_STR("a");
    q.reverse = true;
    q.limit = 3;
    (void)fuzz_ask(e, store, &q);
    (void)ms_location_get(store, location, e->arena, &facts, NULL);
    return n;
}

/* Reads everything in every order, some places, totals and numbers. */
static inline void fuzz_look(fuzz_eyes *e, ms_store *store)
{
    ms_query q;
    ms_stat stat;
    ms_list_query places;
    ms_listing list;
    const ms_msg *msg;
    memset(&q, 0, sizeof q);
    memset(&places, 0, sizeof places);
    ms_result known = ms_store_stat(store, &stat, NULL);
    uint64_t all = fuzz_ask(e, store, &q);
    if (known != MS_OK || all != stat.messages) e->odd = "the totals";
    q.reverse = true;
    if (fuzz_ask(e, store, &q) != all) e->odd = "the number of messages backwards";
    q.by_time = true;
    q.arena = e->arena;
    if (fuzz_ask(e, store, &q) != all) e->odd = "the number of messages by time";
    memset(&q, 0, sizeof q);
    q.raw = MS_RAW_ALL;
    if (fuzz_ask(e, store, &q) < all) e->odd = "the number of records";
    for (unsigned half = 1; known == MS_OK && stat.last_seq > 0 && half <= 2; half++)
        if (ms_get_by_seq(store, stat.last_seq / half, e->arena, &msg, NULL) == MS_OK)
            fuzz_touch(msg);
    if (ms_list(store, &places, e->arena, &list, NULL) != MS_OK) {
        e->odd = "no listing";
        return;
    }
    for (size_t i = 0; i < list.count && i < 4; i++)
        if (fuzz_look_at_place(e, store, list.items[i].location) != list.items[i].messages)
            e->odd = "the messages of a listing";
}

#endif /* FUZZ_STORE_H */
