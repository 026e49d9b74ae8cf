/* A trip: file operations on top of others. At the k-th call they fail, end the process,
 * or let the test act.
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
    TRIP_EXIT_AFTER,      /* ... or after the call */
    TRIP_ACT_BEFORE,      /* `act` is called before the call, ... */
    TRIP_ACT_HALF,        /* ... after the first half of a write, ... */
    TRIP_ACT_AFTER        /* ... or after the call */
} trip_how;

typedef struct trip {
    ms_os os;             /* give its address to the library */
    const ms_os *below;
    trip_how how;
    unsigned kinds;       /* which calls are counted, by bit */
    uint64_t offset;      /* not 0: of writes only those at this offset are counted */
    uint64_t at;          /* trouble at this call, from 1; 0: none */
    bool from;            /* and at all after it */
    int code;             /* errno value */
    size_t bytes;
    size_t whole;         /* EXIT_HALF: writes up to this size are not torn */
    void (*act)(void *of);
    void *of;
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
    if (t->how == TRIP_ACT_BEFORE) t->act(t->of);
    return true;
}

static inline bool trip_refuses(const trip *t, bool hit)
{
    return hit && (t->how == TRIP_FAIL || t->how == TRIP_FAIL_MIDWAY);
}

static inline int trip_leave(const trip *t, bool hit, int code)
{
    if (hit && (t->how == TRIP_EXIT_AFTER || t->how == TRIP_EXIT_HALF)) _exit(9);
    if (hit && t->how == TRIP_ACT_AFTER) t->act(t->of);
    return code;
}

/* A call that is passed on: its parameters, the arguments after the context, whether one
 * that is to fail is done all the same, and what happens after it. A close or unmap that
 * fails has been done, as the system's. */
#define TRIP_CALL(NAME, name, parameters, arguments, done, then)                   \
    static inline int trip_##name parameters                                       \
    {                                                                              \
        trip *t = (trip *)ctx;                                                     \
        const ms_os *below = t->below;                                             \
        bool hit = trip_enter(t, CALL_##NAME);                                     \
        if (!(done) && trip_refuses(t, hit)) return t->code;                       \
        int code = below->name arguments;                                          \
        if ((done) || code == 0) then;                                             \
        return trip_refuses(t, hit) ? t->code : trip_leave(t, hit, code);          \
    }
#define TRIP_PASS(NAME, name, parameters, arguments, then)                         \
    TRIP_CALL(NAME, name, parameters, arguments, false, then)
#define TRIP_GIVE_BACK(NAME, name, parameters, arguments, count)                   \
    TRIP_CALL(NAME, name, parameters, arguments, true, t->count--)

TRIP_PASS(OPEN, open, (void *ctx, const char *path, unsigned how, ms_file *file),
          (below->ctx, path, how, file), t->files++)
TRIP_PASS(STAT, stat, (void *ctx, ms_file file, ms_os_stat *out),
          (below->ctx, file, out), (void)0)
TRIP_PASS(ALLOCATE, allocate, (void *ctx, ms_file file, uint64_t offset, uint64_t size),
          (below->ctx, file, offset, size), (void)0)
TRIP_PASS(SYNC, sync, (void *ctx, ms_file file), (below->ctx, file), (void)0)
TRIP_PASS(LOCK, lock, (void *ctx, ms_file file), (below->ctx, file), (void)0)
TRIP_PASS(UNLOCK, unlock, (void *ctx, ms_file file), (below->ctx, file), (void)0)
TRIP_PASS(MAP, map, (void *ctx, ms_file file, uint64_t offset, size_t size,
                     unsigned how, void **out),
          (below->ctx, file, offset, size, how, out), t->maps++)
TRIP_PASS(RENAME, rename, (void *ctx, const char *from, const char *to),
          (below->ctx, from, to), (void)0)
TRIP_PASS(REMOVE, remove, (void *ctx, const char *path), (below->ctx, path), (void)0)
TRIP_PASS(SYNC_FOLDER, sync_folder, (void *ctx, const char *path),
          (below->ctx, path), (void)0)
TRIP_GIVE_BACK(CLOSE, close, (void *ctx, ms_file file), (below->ctx, file), files)
TRIP_GIVE_BACK(UNMAP, unmap, (void *ctx, void *map, size_t size),
               (below->ctx, map, size), maps)

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

/* How much of a write is done where there is to be trouble with it. */
static inline size_t trip_part(const trip *t, size_t size)
{
    if (t->how == TRIP_FAIL_MIDWAY) return size / 2;
    if (t->how == TRIP_EXIT_HALF) return size <= t->whole ? 0 : size / 2;
    if (t->how != TRIP_SHORT && t->how != TRIP_FAIL_HALF) return size;
    return t->bytes < size ? t->bytes : size;
}

static inline int trip_write(void *ctx, ms_file file, uint64_t offset, const void *from,
                             size_t size, size_t *done)
{
    trip *t = (trip *)ctx;
    bool counted = t->offset == 0 || t->offset == offset;
    bool hit = counted && trip_enter(t, CALL_WRITE);
    *done = 0;
    if (hit && t->how == TRIP_FAIL) return t->code;
    if (hit && t->how == TRIP_ACT_HALF) {
        (void)t->below->write(t->below->ctx, file, offset, from, size / 2, done);
        t->act(t->of);
    }
    if (hit) size = trip_part(t, size);
    int code = t->below->write(t->below->ctx, file, offset, from, size, done);
    if (hit && (t->how == TRIP_FAIL_HALF || t->how == TRIP_FAIL_MIDWAY)) {
        *done = 0;
        return t->code;
    }
    return trip_leave(t, hit, code);
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
