/* OS faults: file operations on top of others. At the k-th call they fail, end the
 * process, or let the test act.
 *
 *     os_faults t;
 *     os_fault_init(&t, &d.os);
 *     t.how = OS_FAULT_FAIL;
 *     t.at = 3;
 *     t.code = EIO;
 *     desc.os = &t.os;
 */

#ifndef OS_FAULTS_H
#define OS_FAULTS_H

#include "support.h"

#include <unistd.h>

#define OS_FAULT_CALLS(X)                                                          \
    X(OPEN, open) X(CLOSE, close) X(STAT, stat) X(READ, read) X(WRITE, write)      \
    X(ALLOCATE, allocate) X(SYNC, sync) X(LOCK, lock) X(UNLOCK, unlock)            \
    X(MAP, map) X(UNMAP, unmap) X(RENAME, rename)                                  \
    X(REMOVE, remove) X(SYNC_FOLDER, sync_folder)

typedef enum os_fault_call {
#define X(name, word) CALL_##name,
    OS_FAULT_CALLS(X)
#undef X
    CALL_COUNT
} os_fault_call;

static inline const char *os_fault_word(int call)
{
    static const char *const words[CALL_COUNT] = {
#define X(name, word) #word,
        OS_FAULT_CALLS(X)
#undef X
    };
    return call >= 0 && call < CALL_COUNT ? words[call] : "none";
}

#define OS_FAULT_ALL ((1u << CALL_COUNT) - 1)
#define OS_FAULT_BIT(call) (1u << CALL_##call)

typedef enum os_fault_how {
    OS_FAULT_NONE,
    OS_FAULT_FAIL,            /* the call returns `code` and does nothing */
    OS_FAULT_SHORT,           /* a write or read does only the first `bytes` bytes */
    OS_FAULT_FAIL_HALF, /* a write does its first `bytes` bytes, then returns `code` */
    OS_FAULT_FAIL_MIDWAY, /* as FAIL, but a write does its first half before it fails */
    OS_FAULT_EXIT_BEFORE,     /* the process ends, as if killed, before the call, ... */
    OS_FAULT_EXIT_HALF,       /* ... in the middle of a write, ... */
    OS_FAULT_EXIT_AFTER,      /* ... or after the call */
    OS_FAULT_ACT_BEFORE,      /* `act` is called before the call, ... */
    OS_FAULT_ACT_HALF,        /* ... after the first half of a write, ... */
    OS_FAULT_ACT_AFTER        /* ... or after the call */
} os_fault_how;

typedef struct os_faults {
    ms_os os;             /* give its address to the library */
    const ms_os *below;
    os_fault_how how;
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
    os_fault_call last_hit;
    unsigned all_hit;     /* what calls, by bit */
    int files, maps;      /* open now */
} os_faults;

/* Counts a call. True when there is to be trouble with it. */
static inline bool os_fault_enter(os_faults *t, os_fault_call call)
{
    if (!(t->kinds >> (unsigned)call & 1)) return false;
    t->calls++;
    bool hit = t->how != OS_FAULT_NONE && t->at != 0 &&
               (t->calls == t->at || (t->from && t->calls > t->at));
    if (!hit) return false;
    t->hits++;
    t->last_hit = call;
    t->all_hit |= 1u << (unsigned)call;
    if (t->how == OS_FAULT_EXIT_BEFORE) _exit(9);
    if (t->how == OS_FAULT_ACT_BEFORE) t->act(t->of);
    return true;
}

static inline bool os_fault_refuses(const os_faults *t, bool hit)
{
    return hit && (t->how == OS_FAULT_FAIL || t->how == OS_FAULT_FAIL_MIDWAY);
}

static inline int os_fault_leave(const os_faults *t, bool hit, int code)
{
    if (hit && (t->how == OS_FAULT_EXIT_AFTER || t->how == OS_FAULT_EXIT_HALF)) _exit(9);
    if (hit && t->how == OS_FAULT_ACT_AFTER) t->act(t->of);
    return code;
}

/* A call that is passed on: its parameters, the arguments after the context, whether one
 * that is to fail is done all the same, and what happens after it. A close or unmap that
 * fails has been done, as the system's. */
#define OS_FAULT_CALL(NAME, name, parameters, arguments, done, then)               \
    static inline int os_fault_##name parameters                                   \
    {                                                                              \
        os_faults *t = (os_faults *)ctx;                                           \
        const ms_os *below = t->below;                                             \
        bool hit = os_fault_enter(t, CALL_##NAME);                                 \
        if (!(done) && os_fault_refuses(t, hit)) return t->code;                   \
        int code = below->name arguments;                                          \
        if ((done) || code == 0) then;                                             \
        return os_fault_refuses(t, hit) ? t->code : os_fault_leave(t, hit, code);  \
    }
#define OS_FAULT_PASS(NAME, name, parameters, arguments, then) \
    OS_FAULT_CALL(NAME, name, parameters, arguments, false, then)
#define OS_FAULT_GIVE_BACK(NAME, name, parameters, arguments, count) \
    OS_FAULT_CALL(NAME, name, parameters, arguments, true, t->count--)

OS_FAULT_PASS(OPEN, open, (void *ctx, const char *path, unsigned how, ms_file *file),
              (below->ctx, path, how, file), t->files++)
OS_FAULT_PASS(STAT, stat, (void *ctx, ms_file file, ms_os_stat *out),
              (below->ctx, file, out), (void)0)
OS_FAULT_PASS(ALLOCATE, allocate,
              (void *ctx, ms_file file, uint64_t offset, uint64_t size),
              (below->ctx, file, offset, size), (void)0)
OS_FAULT_PASS(SYNC, sync, (void *ctx, ms_file file), (below->ctx, file), (void)0)
OS_FAULT_PASS(LOCK, lock, (void *ctx, ms_file file), (below->ctx, file), (void)0)
OS_FAULT_PASS(UNLOCK, unlock, (void *ctx, ms_file file), (below->ctx, file), (void)0)
OS_FAULT_PASS(MAP, map, (void *ctx, ms_file file, uint64_t offset, size_t size,
                         unsigned how, void **out),
              (below->ctx, file, offset, size, how, out), t->maps++)
OS_FAULT_PASS(RENAME, rename, (void *ctx, const char *from, const char *to),
              (below->ctx, from, to), (void)0)
OS_FAULT_PASS(REMOVE, remove, (void *ctx, const char *path), (below->ctx, path), (void)0)
OS_FAULT_PASS(SYNC_FOLDER, sync_folder, (void *ctx, const char *path),
              (below->ctx, path), (void)0)
OS_FAULT_GIVE_BACK(CLOSE, close, (void *ctx, ms_file file), (below->ctx, file), files)
OS_FAULT_GIVE_BACK(UNMAP, unmap, (void *ctx, void *map, size_t size),
                   (below->ctx, map, size), maps)

static inline int os_fault_read(void *ctx, ms_file file, uint64_t offset, void *to,
                                size_t size, size_t *done)
{
    os_faults *t = (os_faults *)ctx;
    bool hit = os_fault_enter(t, CALL_READ);
    *done = 0;
    if (os_fault_refuses(t, hit)) return t->code;
    if (hit && t->how == OS_FAULT_SHORT && size > t->bytes) size = t->bytes;
    int code = t->below->read(t->below->ctx, file, offset, to, size, done);
    return os_fault_leave(t, hit, code);
}

/* How much of a write is done where there is to be trouble with it. */
static inline size_t os_fault_part(const os_faults *t, size_t size)
{
    if (t->how == OS_FAULT_FAIL_MIDWAY) return size / 2;
    if (t->how == OS_FAULT_EXIT_HALF) return size <= t->whole ? 0 : size / 2;
    if (t->how != OS_FAULT_SHORT && t->how != OS_FAULT_FAIL_HALF) return size;
    return t->bytes < size ? t->bytes : size;
}

static inline int os_fault_write(void *ctx, ms_file file, uint64_t offset,
                                 const void *from, size_t size, size_t *done)
{
    os_faults *t = (os_faults *)ctx;
    bool counted = t->offset == 0 || t->offset == offset;
    bool hit = counted && os_fault_enter(t, CALL_WRITE);
    *done = 0;
    if (hit && t->how == OS_FAULT_FAIL) return t->code;
    if (hit && t->how == OS_FAULT_ACT_HALF) {
        (void)t->below->write(t->below->ctx, file, offset, from, size / 2, done);
        t->act(t->of);
    }
    if (hit) size = os_fault_part(t, size);
    int code = t->below->write(t->below->ctx, file, offset, from, size, done);
    if (hit && (t->how == OS_FAULT_FAIL_HALF || t->how == OS_FAULT_FAIL_MIDWAY)) {
        *done = 0;
        return t->code;
    }
    return os_fault_leave(t, hit, code);
}

/* It counts as a sync. */
static inline int os_fault_write_synced(void *ctx, ms_file file, uint64_t offset,
                                        const void *from, size_t size, size_t *done)
{
    os_faults *t = (os_faults *)ctx;
    bool hit = os_fault_enter(t, CALL_SYNC);
    *done = 0;
    if (os_fault_refuses(t, hit)) return t->code;
    int code = t->below->write_synced(t->below->ctx, file, offset, from, size, done);
    return os_fault_leave(t, hit, code);
}

static inline uint64_t os_fault_boot(void *ctx)
{
    const ms_os *below = ((os_faults *)ctx)->below;
    return below->boot(below->ctx);
}

static inline uint64_t os_fault_micros(void *ctx)
{
    const ms_os *below = ((os_faults *)ctx)->below;
    return below->micros(below->ctx);
}

static inline void os_fault_sleep(void *ctx, uint64_t micros)
{
    const ms_os *below = ((os_faults *)ctx)->below;
    below->sleep(below->ctx, micros);
}

static inline uint64_t os_fault_process(void *ctx)
{
    const ms_os *below = ((os_faults *)ctx)->below;
    return below->process(below->ctx);
}

static inline int os_fault_read_link(void *ctx, const char *path, char *to, size_t size)
{
    const ms_os *below = ((os_faults *)ctx)->below;
    return below->read_link(below->ctx, path, to, size);
}

static inline void os_fault_init(os_faults *t, const ms_os *below)
{
    const ms_os os = {t, os_fault_open, os_fault_close, os_fault_stat, os_fault_read,
                      os_fault_write, os_fault_allocate, os_fault_sync, os_fault_lock,
                      os_fault_unlock, os_fault_map, os_fault_unmap, os_fault_rename,
                      os_fault_remove, os_fault_sync_folder, os_fault_boot,
                      os_fault_micros, os_fault_sleep, os_fault_process,
                      below->exact_maps, NULL, NULL,
                      below->read_link != NULL ? os_fault_read_link : NULL,
                      NULL, NULL,
                      below->write_synced != NULL ? os_fault_write_synced : NULL};
    memset(t, 0, sizeof *t);
    t->os = os;
    t->below = below;
    t->kinds = OS_FAULT_ALL;
}

#endif /* OS_FAULTS_H */
