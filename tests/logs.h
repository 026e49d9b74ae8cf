/* What the tests of log files share:
 *
 *   - a folder for files, gone at the end;
 *   - numbered messages: everything in a message follows from its number, and so does
 *     which of them are appended together, so that a reader can tell a message that was
 *     never written, a hole and a torn batch without being told what was written;
 *   - a disk: file operations over one file in memory, that knows what was synced;
 *   - a trip: file operations that fail at the k-th call, or end the process there.
 *
 * The functions for numbered messages assert nothing: they are called from threads and
 * child processes too. Define _GNU_SOURCE before any include.
 */

#ifndef LOGS_H
#define LOGS_H

#include "support.h"

#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif


/* ---- a folder ---- */

static inline void folder_make(char *path, size_t size)
{
    const char *root = getenv("TMPDIR");
    if (root == NULL || root[0] == '\0') root = "/tmp";
    snprintf(path, size, "%s/msgstore-XXXXXX", root);
    if (mkdtemp(path) == NULL) {
        perror(path);
        abort();
    }
}

/* Removes the files in a folder but the one of that name (NULL: all), not the folder. */
static inline void folder_empty_but(const char *path, const char *kept)
{
    DIR *dir = opendir(path);
    if (dir == NULL) return;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char name[1024];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (kept != NULL && strcmp(entry->d_name, kept) == 0) continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        unlink(name);
    }
    closedir(dir);
}

static inline void folder_empty(const char *path) { folder_empty_but(path, NULL); }

static inline void folder_remove(const char *path)
{
    folder_empty(path);
    rmdir(path);
}

static inline size_t folder_count(const char *path)
{
    DIR *dir = opendir(path);
    size_t n = 0;
    if (dir == NULL) return 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) n++;
    closedir(dir);
    return n - 2;
}

static inline bool write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL) return false;
    bool whole = fwrite(bytes, 1, size, file) == size;
    return fclose(file) == 0 && whole;
}

/* Milliseconds of a clock that only goes forward. */
static inline double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* A child process that ends when its parent does, also when a test fails. */
static inline pid_t fork_child(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) abort();
#ifdef __linux__
    if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    return child;
}

static inline int no_sync(void *ctx, ms_file file)
{
    (void)ctx;
    (void)file;
    return 0;
}

static inline int no_sync_folder(void *ctx, const char *path)
{
    (void)ctx;
    (void)path;
    return 0;
}

/* The system's operations; a kill loses nothing that was not synced, so nothing is. */
static inline ms_os os_without_sync(void)
{
    ms_os os = *ms_os_default();
    os.sync = no_sync;
    os.sync_folder = no_sync_folder;
    return os;
}


/* ---- numbered messages ---- */

typedef struct scribe {
    uint64_t salt;        /* other messages under the same numbers */
    size_t longest;       /* bytes of the longest content; at most SCRIBE_LONGEST */
} scribe;

enum { SCRIBE_LONGEST = 1 << 16, SCRIBE_BLOCK = 16, SCRIBE_BATCH = 8 };

typedef struct numbered {
    ms_envelope m;
    char id[24], key[32], agent[16], location[16];
} numbered;

/* Where contents are taken from. Call it once before threads begin. */
static inline const char *scribe_page(void)
{
    static char page[2 * SCRIBE_LONGEST];
    if (page[0] == '\0') {
        uint64_t rng = 77;
        for (size_t i = sizeof page; i-- > 0;)
            page[i] = (char)(' ' + test_below(&rng, 95));
    }
    return page;
}

static inline uint64_t scribe_hash(const scribe *s, uint64_t n)
{
    uint64_t state = s->salt * UINT64_C(0x2545F4914F6CDD1D) + n;
    return test_random(&state);
}

/* Fills in message number n. The views are into *out and live as long as it does. */
static inline void scribe_write(const scribe *s, uint64_t n, numbered *out)
{
    static const ms_type types[] = {MS_T_USER_MESSAGE, MS_T_ASSISTANT_MESSAGE,
                                    MS_T_OBSERVATION,  MS_T_GLOBAL_OBSERVATION,
                                    MS_T_FINAL,        MS_T_REASONING};
    uint64_t h = scribe_hash(s, n);
    size_t most = test_below(&h, 8) == 0 || s->longest < 300 ? s->longest : 300;
    ms_envelope *m = &out->m;
    memset(m, 0, sizeof *m);
    m->type = types[test_below(&h, sizeof types / sizeof types[0])];
    size_t len = (size_t)test_below(&h, most + 1);
    m->content = ms_text_n(ms_str_n(scribe_page() + test_below(&h, SCRIBE_LONGEST), len));
    snprintf(out->id, sizeof out->id, "%llu", (unsigned long long)n);
    m->id = ms_str_of(out->id);
    snprintf(out->location, sizeof out->location, "job_%u", (unsigned)test_below(&h, 5));
    m->location = ms_str_of(out->location);
    unsigned agent = (unsigned)test_below(&h, 4);
    snprintf(out->agent, sizeof out->agent, "worker_%u", agent);
    if (agent != 0) m->agent_key = ms_str_of(out->agent);
    snprintf(out->key, sizeof out->key, "key-%llu", (unsigned long long)n);
    if (test_below(&h, 4) == 0) m->key = ms_str_of(out->key);
    m->has_time = test_below(&h, 3) != 0;
    if (m->has_time) m->time_ns = SECONDS((double)n / 2);
}

/* How many messages are appended together with number n; *first is the first of them. */
static inline size_t scribe_group(const scribe *s, uint64_t n, uint64_t *first)
{
    uint64_t block = (n - 1) / SCRIBE_BLOCK, place = (n - 1) % SCRIBE_BLOCK;
    scribe other = {~s->salt, 0};
    uint64_t h = scribe_hash(&other, block);
    uint64_t start = test_below(&h, SCRIBE_BLOCK - SCRIBE_BATCH + 1);
    uint64_t size = 2 + test_below(&h, SCRIBE_BATCH - 1);
    if (test_below(&h, 3) == 0 || place < start || place >= start + size) {
        *first = n;
        return 1;
    }
    *first = block * SCRIBE_BLOCK + start + 1;
    return (size_t)size;
}

/* Is number n the last of those that are appended with it? */
static inline bool scribe_ends(const scribe *s, uint64_t n)
{
    uint64_t first = n;
    size_t size = scribe_group(s, n, &first);
    return n == first + size - 1;
}

/* Appends number n and what goes with it; n is the first of its group. *count messages
 * were tried; seqs, when given, receives the sequence number of message n at seqs[n]. */
static inline ms_result scribe_append(const scribe *s, ms_store *store, uint64_t n,
                                      uint64_t *seqs, size_t *count, ms_error *err)
{
    numbered messages[SCRIBE_BATCH];
    ms_envelope batch[SCRIBE_BATCH];
    uint64_t first, got[SCRIBE_BATCH];
    ms_append_opts opts;
    *count = scribe_group(s, n, &first);
    for (size_t i = 0; i < *count; i++) {
        scribe_write(s, n + i, &messages[i]);
        batch[i] = messages[i].m;
    }
    memset(&opts, 0, sizeof opts);
    opts.seqs = got;
    ms_result result =
        *count == 1 ? ms_append(store, batch[0].location, &batch[0], &got[0], err)
                    : ms_append_batch(store, batch, *count, &opts, err);
    if (result == MS_OK && seqs != NULL) memcpy(&seqs[n], got, *count * sizeof got[0]);
    return result;
}

/* The number of a message, when it is just what was written under it; else 0, and *fault
 * says why. */
static inline uint64_t scribe_number(const scribe *s, const ms_msg *msg,
                                     const char **fault)
{
    char text[24] = "";
    numbered want;
    int64_t time = 0;
    ms_str id = ms_get(msg, MS_F_ID).text;
    *fault = "a message without number";
    if (id.ptr == NULL || id.len == 0 || id.len >= sizeof text) return 0;
    memcpy(text, id.ptr, id.len);
    uint64_t n = strtoull(text, NULL, 10);
    *fault = "a number nobody wrote";
    if (n == 0) return 0;
    scribe_write(s, n, &want);
    if (!ms_str_equal(id, want.m.id)) return 0;
    *fault = "another content";
    if (!ms_str_equal(ms_content(msg).text, want.m.content.text)) return 0;
    *fault = "another type";
    if (ms_type_of(msg) != want.m.type) return 0;
    *fault = "another location, agent or key";
    if (!ms_str_equal(test_location(msg), want.m.location) ||
        !ms_str_equal(test_agent_key(msg), want.m.agent_key) ||
        !ms_str_equal(ms_get(msg, MS_F_KEY).text, want.m.key))
        return 0;
    *fault = "another time";
    if (ms_time(msg, &time) != want.m.has_time || time != want.m.time_ns) return 0;
    *fault = NULL;
    return n;
}

/* What a reading found. */
typedef struct tally {
    uint64_t count;           /* messages */
    uint64_t last;            /* the highest number */
    uint64_t last_seq;
    ms_result result;         /* of the cursor, or of opening it */
    char wrong[200];          /* empty: nothing */
} tally;

static inline bool tally_wrong(tally *t, const char *what, uint64_t n)
{
    snprintf(t->wrong, sizeof t->wrong, "%s (message %llu, after number %llu)", what,
             (unsigned long long)n, (unsigned long long)t->last);
    return false;
}

/* One message of a reading in order; gaps: some may be missing. */
static inline bool tally_add(tally *t, const scribe *s, const ms_msg *msg, bool gaps,
                             const uint64_t *seqs)
{
    const char *fault;
    uint64_t n = scribe_number(s, msg, &fault);
    if (n == 0) return tally_wrong(t, fault, n);
    if (n <= t->last) return tally_wrong(t, "order of numbers", n);
    if (!gaps && n != t->last + 1) return tally_wrong(t, "a hole", n);
    if (ms_seq(msg) <= t->last_seq) return tally_wrong(t, "order of sequence", n);
    if (seqs != NULL && seqs[n] != 0 && ms_seq(msg) != seqs[n])
        return tally_wrong(t, "another sequence number", n);
    t->count++;
    t->last = n;
    t->last_seq = ms_seq(msg);
    return true;
}

/* Reads a whole store. Without gaps the numbers must be 1, 2, 3 ... and the last batch
 * whole. seqs (may be NULL): known sequence numbers by number, 0: not known. True when
 * nothing is wrong; a cursor that reports damage is not wrong by itself. */
static inline bool scribe_read(const scribe *s, ms_store *store, bool gaps,
                               const uint64_t *seqs, tally *t)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    bool fine = true;
    memset(&q, 0, sizeof q);
    memset(t, 0, sizeof *t);
    t->result = ms_query_open(store, &q, &it, NULL);
    if (t->result != MS_OK) return tally_wrong(t, "the query failed", 0);
    while (fine && (msg = ms_next(&it)) != NULL) fine = tally_add(t, s, msg, gaps, seqs);
    t->result = ms_cursor_close(&it, NULL);
    if (!fine) return false;
    if (gaps || t->last == 0 || scribe_ends(s, t->last)) return true;
    return tally_wrong(t, "a torn batch", t->last);
}

/* Are the keys of some messages still known? Each is appended again and must come back
 * with its own sequence number, and be refused with another content. The newest `newest`
 * with keys are tried, and as many at random. NULL: all is well. */
static inline const char *scribe_keys(const scribe *s, ms_store *store, uint64_t last,
                                      const uint64_t *seqs, uint64_t newest,
                                      uint64_t *rng)
{
    for (uint64_t i = 0; i < 2 * newest && i < last; i++) {
        uint64_t n = i < newest ? last - i : 1 + test_below(rng, last), seq = 0;
        numbered again;
        scribe_write(s, n, &again);
        if (again.m.key.ptr == NULL) continue;
        if (ms_append(store, ms_str_n(NULL, 0), &again.m, &seq, NULL) != MS_OK)
            return "a repeated key was not accepted";
        if (seqs != NULL && seqs[n] != 0 && seq != seqs[n])
            return "a key has another sequence number";
        again.m.content = ms_text("other");
        if (ms_append(store, ms_str_n(NULL, 0), &again.m, NULL, NULL) != MS_E_KEY_REUSED)
            return "a key was forgotten";
    }
    return NULL;
}


/* ---- a disk: one file in memory ----
 *
 * Whatever path is opened, it is this file. It has two views: reading maps are given the
 * one that cannot be written, so that a store into it ends the process, as a touch behind
 * the end of the file does. What the last sync has seen is kept in `synced`.
 *
 *     disk d;
 *     disk_init(&d, 1 << 20);
 *     desc.os = &d.os;
 */

#define DISK_VIEW ((size_t)1 << (sizeof(size_t) > 4 ? 31 : 27)) /* most that is mapped */

typedef struct disk {
    ms_os os;                 /* give its address to the library */
    int fd;
    unsigned char *ro, *rw;   /* the file's bytes */
    size_t room;              /* bytes that it can have */
    uint64_t size;
    bool there, locked;
    int files, maps;          /* open now */
    uint64_t boot, inode, process;
    uint64_t micros;          /* the clock: grows by one at each look */
    unsigned char *synced;    /* the content at the last sync, ... */
    uint64_t synced_size;     /* ... its size; what is behind is zero */
    bool keep_synced;         /* false: syncs copy nothing */
    uint64_t syncs, writes;
} disk;

static inline bool disk_resize(disk *d, uint64_t size)
{
    if (size == d->size) return true;
    if (size > d->room || ftruncate(d->fd, (off_t)size) != 0) return false;
    d->size = size;
    return true;
}

static inline int disk_open(void *ctx, const char *path, unsigned how, ms_file *file)
{
    disk *d = (disk *)ctx;
    (void)path;
    if (!d->there && !(how & MS_OS_CREATE)) return ENOENT;
    d->there = true;
    d->files++;
    *file = how & MS_OS_WRITE ? 2 : 1;
    return 0;
}

static inline int disk_close(void *ctx, ms_file file)
{
    disk *d = (disk *)ctx;
    d->files--;
    if (file == 2) d->locked = false;
    return 0;
}

static inline int disk_stat(void *ctx, ms_file file, ms_os_stat *out)
{
    disk *d = (disk *)ctx;
    (void)file;
    memset(out, 0, sizeof *out);
    out->size = d->size;
    out->device = 7;
    out->inode = d->inode;
    out->regular = true;
    out->keeps_room = true;
    return 0;
}

static inline int disk_read(void *ctx, ms_file file, uint64_t offset, void *to,
                            size_t size, size_t *done)
{
    disk *d = (disk *)ctx;
    uint64_t left = offset < d->size ? d->size - offset : 0;
    (void)file;
    *done = size < left ? size : (size_t)left;
    memcpy(to, d->ro + offset, *done);
    return 0;
}

static inline int disk_write(void *ctx, ms_file file, uint64_t offset, const void *from,
                             size_t size, size_t *done)
{
    disk *d = (disk *)ctx;
    *done = 0;
    if (file != 2) return EBADF;
    if (offset > d->room || size > d->room - offset) return ENOSPC;
    if (offset + size > d->size && !disk_resize(d, offset + size)) return ENOSPC;
    memcpy(d->rw + offset, from, size);
    *done = size;
    d->writes++;
    return 0;
}

static inline int disk_allocate(void *ctx, ms_file file, uint64_t offset, uint64_t size)
{
    disk *d = (disk *)ctx;
    if (file != 2) return EBADF;
    if (offset > d->room || size > d->room - offset) return ENOSPC;
    if (offset + size > d->size && !disk_resize(d, offset + size)) return ENOSPC;
    return 0;
}

static inline int disk_sync(void *ctx, ms_file file)
{
    disk *d = (disk *)ctx;
    (void)file;
    d->syncs++;
    if (!d->keep_synced) return 0;
    memcpy(d->synced, d->ro, (size_t)d->size);
    if (d->synced_size > d->size)
        memset(d->synced + d->size, 0, (size_t)(d->synced_size - d->size));
    d->synced_size = d->size;
    return 0;
}

static inline int disk_lock(void *ctx, ms_file file)
{
    disk *d = (disk *)ctx;
    if (d->locked || file != 2) return EAGAIN;
    d->locked = true;
    return 0;
}

static inline int disk_unlock(void *ctx, ms_file file)
{
    disk *d = (disk *)ctx;
    if (file != 2) return EBADF;
    d->locked = false;
    return 0;
}

static inline int disk_map(void *ctx, ms_file file, uint64_t offset, size_t size,
                           unsigned how, void **out)
{
    disk *d = (disk *)ctx;
    if ((how & MS_OS_WRITE) && file != 2) return EACCES;
    if (offset > DISK_VIEW || size > DISK_VIEW - offset) return ENOMEM;
    *out = (how & MS_OS_WRITE ? d->rw : d->ro) + offset;
    d->maps++;
    return 0;
}

static inline int disk_unmap(void *ctx, void *map, size_t size)
{
    (void)map;
    (void)size;
    ((disk *)ctx)->maps--;
    return 0;
}

static inline int disk_rename(void *ctx, const char *from, const char *to)
{
    (void)ctx;
    (void)from;
    (void)to;
    return 0;
}

static inline int disk_remove(void *ctx, const char *path)
{
    disk *d = (disk *)ctx;
    (void)path;
    disk_resize(d, 0);
    d->there = false;
    return 0;
}

static inline int disk_sync_folder(void *ctx, const char *path)
{
    (void)ctx;
    (void)path;
    return 0;
}

static inline uint64_t disk_boot(void *ctx) { return ((disk *)ctx)->boot; }
static inline uint64_t disk_micros(void *ctx) { return ((disk *)ctx)->micros++; }
static inline uint64_t disk_process(void *ctx) { return ((disk *)ctx)->process; }

static inline void disk_sleep(void *ctx, uint64_t micros)
{
    ((disk *)ctx)->micros += micros;
}

static inline int disk_file(void)
{
#ifdef __linux__
    return memfd_create("msgstore", MFD_CLOEXEC);
#else
    char path[] = "/tmp/msgstore-XXXXXX";
    int fd = mkstemp(path);
    if (fd >= 0) unlink(path);
    return fd;
#endif
}

static inline void disk_init(disk *d, size_t room)
{
    const ms_os os = {d,         disk_open,   disk_close,       disk_stat,
                      disk_read, disk_write,  disk_allocate,    disk_sync,
                      disk_lock, disk_unlock, disk_map,         disk_unmap,
                      disk_rename, disk_remove, disk_sync_folder,
                      disk_boot, disk_micros, disk_sleep, disk_process, false, NULL,
                      NULL};
    memset(d, 0, sizeof *d);
    d->os = os;
    d->room = room;
    d->boot = 1001;
    d->inode = 1;
    d->process = 77;
    d->fd = disk_file();
    void *ro = mmap(NULL, DISK_VIEW, PROT_READ, MAP_SHARED, d->fd, 0);
    void *rw = mmap(NULL, DISK_VIEW, PROT_READ | PROT_WRITE, MAP_SHARED, d->fd, 0);
    d->synced = (unsigned char *)calloc(1, room);
    if (d->fd < 0 || ro == MAP_FAILED || rw == MAP_FAILED || d->synced == NULL) abort();
    d->ro = (unsigned char *)ro;
    d->rw = (unsigned char *)rw;
}

static inline void disk_deinit(disk *d)
{
    munmap(d->ro, DISK_VIEW);
    munmap(d->rw, DISK_VIEW);
    close(d->fd);
    free(d->synced);
    memset(d, 0, sizeof *d);
}

/* Gives the file these bytes. */
static inline void disk_load(disk *d, const void *bytes, size_t size)
{
    if (!disk_resize(d, size)) abort();
    memcpy(d->rw, bytes, size);
    d->there = true;
}

/* Everything that was opened is closed again. */
static inline void disk_is_idle(const disk *d)
{
    assert_int_equal(d->files, 0);
    assert_int_equal(d->maps, 0);
    assert_false(d->locked);
}


/* ---- a trip: other file operations, with trouble at one call ---- */

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
    return hit && t->how == TRIP_FAIL;
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
    size_t some = t->how == TRIP_EXIT_HALF ? size / 2 : t->bytes;
    if (t->how == TRIP_EXIT_HALF && size <= t->whole) some = 0;
    *done = 0;
    if (trip_refuses(t, hit)) return t->code;
    part = hit && t->how != TRIP_EXIT_AFTER && some < size;
    if (part) size = some;
    int code = t->below->write(t->below->ctx, file, offset, from, size, done);
    if (hit && t->how == TRIP_FAIL_HALF) {
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

#endif /* LOGS_H */
