/* A program's own store over another one, to test all that ms_backend allows: its
 * messages become invalid when a cursor moves, some are damaged, reading stops, or
 * functions are missing. */

#ifndef OWN_STORE_H
#define OWN_STORE_H

#include "stores.h"

typedef struct own_store {
    ms_store base;
    ms_backend backend;
    ms_store *inside;
    bool fleeting;            /* a message is overwritten when its cursor moves */
    size_t stops_at;          /* a cursor ends at its n-th message; 0: never */
    ms_result with;
    uint64_t damaged_each;    /* each n-th sequence number is damaged; 0: none */
    size_t open;              /* cursors */
    void (*forge)(unsigned char *record, const ms_msg *msg);
    void (*closes)(struct own_store *own); /* when a cursor is closed */
} own_store;

typedef struct own_cursor {
    ms_cursor it;
    ms_query asked;
    unsigned char *record;
    size_t size;
} own_cursor;

static inline void own_forget(own_cursor *c)
{
    if (c->record != NULL) memset(c->record, 0xDD, c->size);
    free(c->record);
    c->record = NULL;
}

/* Texts so far are put together outside of this store: it passes on the arena only where
 * the store inside needs one. */
static inline ms_result own_query(ms_store *store, ms_cursor *it, ms_error *err)
{
    own_cursor *c = (own_cursor *)calloc(1, sizeof *c);
    ms_query q = it->query;
    if (c == NULL) abort();
    if (!q.by_time && q.n_agent_keys <= MS_CURSOR_AGENTS) q.arena = NULL;
    if (((own_store *)store)->damaged_each != 0) q.limit = 0; /* these do not count */
    ms_result code = ms_query_open(((own_store *)store)->inside, &q, &c->it, err);
    c->asked = it->query;
    it->ctx = c;
    it->words[0] = it->words[3] = (uint64_t)(uintptr_t)c;
    if (code != MS_OK) free(c);
    else ((own_store *)store)->open++;
    return code;
}

static inline const ms_msg *own_next(ms_store *store, ms_cursor *it)
{
    own_store *own = (own_store *)store;
    own_cursor *c = (own_cursor *)it->ctx;
    assert_true(it->words[0] == (uintptr_t)c && it->words[3] == (uintptr_t)c);
    assert_memory_equal(&it->query, &c->asked, sizeof c->asked);
    bool stops = own->stops_at != 0 && it->returned + 1 >= own->stops_at;
    bool full = own->damaged_each != 0 && c->asked.limit != 0 &&
                it->returned >= c->asked.limit;
    const ms_msg *msg = stops || full ? NULL : ms_next(&c->it);
    own_forget(c);
    for (; msg != NULL && own->damaged_each != 0 && ms_seq(msg) % own->damaged_each == 0;
         msg = ms_next(&c->it))
        it->damaged++;
    if (stops && own->with == MS_E_DAMAGED) it->damaged = 3;
    else if (stops) it->result = own->with;
    if (msg == NULL && !stops) it->result = c->it.result;
    if (msg == NULL && !stops) it->damaged += c->it.damaged;
    if (msg == NULL || (!own->fleeting && own->forge == NULL)) return msg;
    c->size = (ms_size(msg) + 7) / 8 * 8;
    c->record = (unsigned char *)malloc(c->size);
    if (c->record == NULL) abort();
    memcpy(c->record, msg, c->size);
    if (own->forge != NULL) own->forge(c->record, (const ms_msg *)(void *)c->record);
    return (const ms_msg *)(void *)c->record;
}

static inline void own_cursor_close(ms_store *store, ms_cursor *it)
{
    own_store *own = (own_store *)store;
    own_cursor *c = (own_cursor *)it->ctx;
    own_forget(c);
    ms_cursor_close(&c->it, NULL);
    free(c);
    own->open--;
    if (own->closes != NULL) own->closes(own);
}

static inline ms_result own_get(ms_store *store, uint64_t seq, ms_arena *arena,
                                const ms_msg **msg, ms_error *err)
{
    ms_store *inside = ((own_store *)store)->inside;
    return inside->backend->get(inside, seq, arena, msg, err);
}

static inline ms_result own_list(ms_store *store, const ms_list_query *q, ms_arena *arena,
                                 ms_listing *out, ms_error *err)
{
    return ms_list(((own_store *)store)->inside, q, arena, out, err);
}

static inline ms_result own_stat(ms_store *store, ms_stat *out, ms_error *err)
{
    return ms_store_stat(((own_store *)store)->inside, out, err);
}

static inline ms_result own_change(ms_store *store, ms_str location,
                                   const ms_record *records, size_t n,
                                   const ms_append_opts *opts, ms_error *err)
{
    ms_store *inside = ((own_store *)store)->inside;
    return inside->backend->change(inside, location, records, n, opts, err);
}

/* For a store that appends, too. */
static inline ms_result own_append(ms_store *store, ms_str location,
                                   const ms_envelope *messages, size_t n,
                                   const ms_append_opts *opts, ms_error *err)
{
    ms_store *inside = ((own_store *)store)->inside;
    return inside->backend->append(inside, location, messages, n, opts, err);
}

/* Opens a store over another one, with all functions except append and erase. */
static inline void own_open(own_store *own, ms_store *inside)
{
    *own = (own_store){.inside = inside,
                       .base = {.backend = &own->backend, .open = MS_STORE_OPEN},
                       .backend = {.query = own_query, .next = own_next,
                                   .cursor_close = own_cursor_close, .get = own_get,
                                   .list = own_list, .stat = own_stat,
                                   .change = own_change}};
}

/* Takes away all functions but those of a query. */
static inline void own_only_query(own_store *own)
{
    const ms_backend all = own->backend;
    memset(&own->backend, 0, sizeof own->backend);
    own->backend.query = all.query;
    own->backend.next = all.next;
    own->backend.cursor_close = all.cursor_close;
}

#endif /* OWN_STORE_H */
