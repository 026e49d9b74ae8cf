/* A trip: file operations on top of others, that fail at the k-th call, or end the
 * process there.
 *
 *     trip t;
 *     trip_init(&t, &d.os);
 *     t.how = TRIP_FAIL;
 *     t.at = 3;
 *     t.code = EIO;
 *     desc.os = &t.os;
 */

#ifndef TRIP_H
#define TRIP_H

#include "support.h"

#include <unistd.h>

#define TRIP_CALLS(X)                                                              \
    X(OPEN, open) X(CLOSE, close) X(STAT, stat) X(READ, read) X(WRITE, write)      \
    X(ALLOCATE, allocate) X(SYNC, sync) X(LOCK, lock) X(UNLOCK, unlock)            \
    X(MAP, map) X(UNMAP, unmap) X(RENAME, rename)                                  \
    X(REMOVE, remove) X(SYNC_FOLDER, sync_folder)

typedef enum trip_call {
#define X(name, word) CALL_##name,
    TRIP_CALLS(X)
#undef X
    CALL_COUNT
} trip_call;

static inline const char *trip_word(int call)
{
    static const char *const words[CALL_COUNT] = {
#define X(name, word) #word,
        TRIP_CALLS(X)
#undef X
    };
    return call >= 0 && call < CALL_COUNT ? words[call] : "none";
}

#define TRIP_ALL ((1u << CALL_COUNT) - 1)
#define TRIP_BIT(call) (1u << CALL_##call)

typedef enum trip_how {
    TRIP_NONE,
    TRIP_FAIL,            /* the call returns `code` and does nothing */
    TRIP_SHORT,           /* a write or read does only the first `bytes` bytes */
    TRIP_FAIL_HALF,       /* a write does its first `bytes` bytes, then returns `code` */
    TRIP_FAIL_MIDWAY,     /* as FAIL, but a write does its first half before it fails */
    TRIP_EXIT_BEFORE,     /* the process ends, as if killed, before the call, ... */
    TRIP_EXIT_HALF,       /* ... in the middle of a write, ... */
    TRIP_EXIT_AFTER       /* ... or after the call */
} trip_how;

typedef struct trip {
    ms_os os;             /* give its address to the library */
    const ms_os *below;
    trip_how how;
    unsigned kinds;       /* which calls are counted, by bit */
    uint64_t at;          /* trouble at this call, from 1; 0: none */
    bool from;            /* and at all after it */
    int code;             /* errno value */
    size_t bytes;
    size_t whole;         /* EXIT_HALF: writes up to this size are not torn */
    uint64_t calls;       /* counted so far */
    uint64_t hits;        /* trouble made so far */
    trip_call last_hit;
    unsigned all_hit;     /* what calls, by bit */
    int files, maps;      /* open now */
} trip;

/* Counts a call. True when there is to be trouble with it. */
static inline bool trip_enter(trip *t, trip_call call)
{
    if (!(t->kinds >> (unsigned)call & 1)) return false;
    t->calls++;
    bool hit = t->how != TRIP_NONE && t->at != 0 &&
               (t->calls == t->at || (t->from && t->calls > t->at));
    if (!hit) return false;
    t->hits++;
    t->last_hit = call;
    t->all_hit |= 1u << (unsigned)call;
    if (t->how == TRIP_EXIT_BEFORE) _exit(9);
    return true;
}

static inline bool trip_refuses(const trip *t, bool hit)
{
    return hit && (t->how == TRIP_FAIL || t->how == TRIP_FAIL_MIDWAY);
}

static inline int trip_leave(const trip *t, bool hit, int code)
{
    if (hit && (t->how == TRIP_EXIT_AFTER || t->how == TRIP_EXIT_HALF)) _exit(9);
    return code;
}

static inline int trip_open(void *ctx, const char *path, unsigned how, ms_file *file)
{
    trip *t = (trip *)ctx;
    bool hit = trip_enter(t, CALL_OPEN);
    if (trip_refuses(t, hit)) return t->code;
    int code = t->below->open(t->below->ctx, path, how, file);
    t->files += code == 0;
    return trip_leave(t, hit, code);
}

/* A close that fails has closed all the same, as the system's. */
static inline int trip_close(void *ctx, ms_file file)
{
    trip *t = (trip *)ctx;
    bool hit = trip_enter(t, CALL_CLOSE);
    int code = t->below->close(t->below->ctx, file);
    t->files--;
    if (trip_refuses(t, hit)) return t->code;
    return trip_leave(t, hit, code);
}

static inline int trip_stat(void *ctx, ms_file file, ms_os_stat *out)
{
    trip *t = (trip *)ctx;
    bool hit = trip_enter(t, CALL_STAT);
    if (trip_refuses(t, hit)) return t->code;
    return trip_leave(t, hit, t->below->stat(t->below->ctx, file, out));
}

static inline int trip_read(void *ctx, ms_file file, uint64_t offset, void *to,
                            size_t size, size_t *done)
{
    trip *t = (trip *)ctx;
    bool hit = trip_enter(t, CALL_READ);
    *done = 0;
    if (trip_refuses(t, hit)) return t->code;
    if (hit && t->how == TRIP_SHORT && size > t->bytes) size = t->bytes;
    int code = t->below->read(t->below->ctx, file, offset, to, size, done);
    return trip_leave(t, hit, code);
}

static inline int trip_write(void *ctx, ms_file file, uint64_t offset, const void *from,
                             size_t size, size_t *done)
{
    trip *t = (trip *)ctx;
    bool hit = trip_enter(t, CALL_WRITE), part = false;
    bool half = t->how == TRIP_EXIT_HALF || t->how == TRIP_FAIL_MIDWAY;
    size_t some = half ? size / 2 : t->bytes;
    if (t->how == TRIP_EXIT_HALF && size <= t->whole) some = 0;
    *done = 0;
    if (hit && t->how == TRIP_FAIL) return t->code;
    part = hit && t->how != TRIP_EXIT_AFTER && some < size;
    if (part) size = some;
    int code = t->below->write(t->below->ctx, file, offset, from, size, done);
    if (hit && (t->how == TRIP_FAIL_HALF || t->how == TRIP_FAIL_MIDWAY)) {
        *done = 0;
        return t->code;
    }
    return trip_leave(t, hit, code);
}

static inline int trip_allocate(void *ctx, ms_file file, uint64_t offset, uint64_t size)
{
    trip *t = (trip *)ctx;
    bool hit = trip_enter(t, CALL_ALLOCATE);
    if (trip_refuses(t, hit)) return t->code;
    return trip_leave(t, hit, t->below->allocate(t->below->ctx, file, offset, size));
}

static inline int trip_sync(void *ctx, ms_file file)
{
    trip *t = (trip *)ctx;
    bool hit = trip_enter(t, CALL_SYNC);
    if (trip_refuses(t, hit)) return t->code;
    return trip_leave(t, hit, t->below->sync(t->below->ctx, file));
}

static inline int trip_lock(void *ctx, ms_file file)
{
    trip *t = (trip *)ctx;
    bool hit = trip_enter(t, CALL_LOCK);
    if (trip_refuses(t, hit)) return t->code;
    return trip_leave(t, hit, t->below->lock(t->below->ctx, file));
}

static inline int trip_unlock(void *ctx, ms_file file)
{
    trip *t = (trip *)ctx;
    bool hit = trip_enter(t, CALL_UNLOCK);
    if (trip_refuses(t, hit)) return t->code;
    return trip_leave(t, hit, t->below->unlock(t->below->ctx, file));
}

static inline int trip_map(void *ctx, ms_file file, uint64_t offset, size_t size,
                           unsigned how, void **out)
{
    trip *t = (trip *)ctx;
    bool hit = trip_enter(t, CALL_MAP);
    if (trip_refuses(t, hit)) return t->code;
    int code = t->below->map(t->below->ctx, file, offset, size, how, out);
    t->maps += code == 0;
    return trip_leave(t, hit, code);
}

static inline int trip_unmap(void *ctx, void *map, size_t size)
{
    trip *t = (trip *)ctx;
    bool hit = trip_enter(t, CALL_UNMAP);
    int code = t->below->unmap(t->below->ctx, map, size);
    t->maps--;
    if (trip_refuses(t, hit)) return t->code;
    return trip_leave(t, hit, code);
}

static inline int trip_rename(void *ctx, const char *from, const char *to)
{
    trip *t = (trip *)ctx;
    bool hit = trip_enter(t, CALL_RENAME);
    if (trip_refuses(t, hit)) return t->code;
    return trip_leave(t, hit, t->below->rename(t->below->ctx, from, to));
}

static inline int trip_remove(void *ctx, const char *path)
{
    trip *t = (trip *)ctx;
    bool hit = trip_enter(t, CALL_REMOVE);
    if (trip_refuses(t, hit)) return t->code;
    return trip_leave(t, hit, t->below->remove(t->below->ctx, path));
}

static inline int trip_sync_folder(void *ctx, const char *path)
{
    trip *t = (trip *)ctx;
    bool hit = trip_enter(t, CALL_SYNC_FOLDER);
    if (trip_refuses(t, hit)) return t->code;
    return trip_leave(t, hit, t->below->sync_folder(t->below->ctx, path));
}

static inline uint64_t trip_boot(void *ctx)
{
    const ms_os *below = ((trip *)ctx)->below;
    return below->boot(below->ctx);
}

static inline uint64_t trip_micros(void *ctx)
{
    const ms_os *below = ((trip *)ctx)->below;
    return below->micros(below->ctx);
}

static inline void trip_sleep(void *ctx, uint64_t micros)
{
    const ms_os *below = ((trip *)ctx)->below;
    below->sleep(below->ctx, micros);
}

static inline uint64_t trip_process(void *ctx)
{
    const ms_os *below = ((trip *)ctx)->below;
    return below->process(below->ctx);
}

static inline void trip_init(trip *t, const ms_os *below)
{
    const ms_os os = {t,         trip_open,   trip_close,       trip_stat,
                      trip_read, trip_write,  trip_allocate,    trip_sync,
                      trip_lock, trip_unlock, trip_map,         trip_unmap,
                      trip_rename, trip_remove, trip_sync_folder,
                      trip_boot, trip_micros, trip_sleep, trip_process,
                      below->exact_maps, NULL, NULL};
    memset(t, 0, sizeof *t);
    t->os = os;
    t->below = below;
    t->kinds = TRIP_ALL;
}

#endif /* TRIP_H */
