
/* ==== [api-log] the log file =========================================================
 * A store in one file; see DURABILITY at the head of this file. ms_log_desc needs a path;
 * all else may stay zero. Reading goes through a map of the file. One process writes and
 * holds a lock (with `shared` several take turns). Any number read beside it, without
 * locks and without writing a byte: read-only media, snapshots and copies that `cp` makes
 * beside a writer work. Such a copy has all that was visible when cp began. If a sync
 * falls between two reads of cp, the copy may, seldom, report damage after that.
 * [file-format] describes the bytes. */

typedef enum ms_log_mode {
    MS_LOG_CREATE,            /* read and append; created if it is missing */
    MS_LOG_WRITE,             /* read and append; must be there */
    MS_LOG_NEW,               /* read and append; must not be there */
    MS_LOG_READ               /* read only; takes no lock, writes nothing */
} ms_log_mode;

typedef enum ms_sync_mode {
    MS_SYNC_NONE,             /* only ms_sync and ms_close sync */
    MS_SYNC_EVERY,            /* an append (or ms_tick) syncs once sync_bytes or sync_ms
                                 have passed since the last sync */
    MS_SYNC_EACH              /* before an append returns */
} ms_sync_mode;

typedef enum ms_log_opening {
    MS_OPEN_NORMAL,           /* ignores a torn append at the end; reports damage, and
                                 skips it */
    MS_OPEN_STRICT,           /* either one is MS_E_DAMAGED */
    MS_OPEN_SALVAGE           /* reads every verified record, also after a torn append;
                                 with MS_LOG_READ only. The handle shows what the file
                                 had then, and no later append. If a writer overwrites
                                 records after the torn one, queries return
                                 MS_E_CONFLICT: open it again */
} ms_log_opening;

typedef enum ms_log_engine {
    MS_ENGINE_AUTO,           /* MAP for MS_SYNC_NONE on file systems known to keep room
                                 once it is allocated, else WRITE */
    MS_ENGINE_MAP,            /* writes into a map of allocated room: no system call.
                                 WRITE on Windows, and on file systems that are not known
                                 to keep room: a write could raise a signal */
    MS_ENGINE_WRITE           /* one pwrite an append or batch */
} ms_log_engine;

/* What a log reports: damage, a torn append, a failed sync. See [api-verify]. */
typedef struct ms_log_event ms_log_event;

/* The callback runs inside the call that found the event, perhaps under the store's lock.
 * It must not call the store. */
typedef struct ms_log_events {
    void (*event)(void *ctx, const ms_log_event *event);
    void *ctx;
} ms_log_events;

/* The file operations that a log uses. See [api-os]. */
typedef struct ms_os ms_os;

typedef struct ms_log_desc {
    const char *path;         /* required; must not change while the store is open */
    ms_log_mode mode;
    ms_log_opening opening;
    ms_log_engine engine;
    ms_sync_mode sync;
    size_t sync_bytes;        /* EVERY; 0: 1 MiB */
    uint32_t sync_ms;         /* EVERY; 0: 1000 */
    uint32_t lock_wait_ms;    /* how long to wait for another writer; 0: not at all */
    size_t segment_size;      /* bytes between index records; 0: 8 MiB; from
                                 MS_LOG_SEGMENT_MIN to 1 GiB */
    size_t max_message;       /* limit on one record in bytes; 0: 256 MiB */
    bool keep_unset_times;    /* false: a message without time is stamped from clock */
    bool keep_torn;           /* writing: the first append after a crash copies the bytes
                                 that it zeroes to the file PATH.torn, at the same
                                 offsets, after a copy of the superblock. If whole
                                 messages are among them, it does so in any case.
                                 MS_OPEN_SALVAGE reads verified records from it. (Where
                                 the name of that file, or of another beside the log,
                                 exceeds 255 bytes, a hash replaces its end.) While
                                 that file cannot be written, appends fail and zero
                                 nothing */
    bool ticked;              /* the caller calls ms_tick: appends leave to it index
                                 portions, room ahead and due syncs (not those of EACH) */
    bool shared;              /* writing: several processes write at once. Each append or
                                 batch takes the lock, and first reads the appends of the
                                 others. It waits at most lock_wait_ms (0: 1000), then
                                 returns MS_E_BUSY, with nothing appended. MS_E_CONFLICT:
                                 a rewrite has replaced the file; open it again. (With
                                 opts.expect: only if ms_log_info.replaced is set.)
                                 MS_E_UNSUPPORTED at opening: os->boot returns 0 */
    ms_clock clock;           /* {0}: the system's */
    ms_entropy entropy;       /* {0}: see ms_entropy */
    ms_alloc alloc;           /* {0}: malloc */
    const ms_os *os;          /* NULL: the system's; must outlive the store */
    ms_log_events events;     /* {0}: not reported */
} ms_log_desc;

#define MS_LOG_SEGMENT_MIN 1024

/* Opens a log. MS_E_ARGUMENT: a member of desc is not as above. MS_E_NOT_FOUND: the file
 * is missing (READ, WRITE). MS_E_CONFLICT: it exists (NEW). MS_E_BUSY: another process
 * writes to it, its id is in the message. MS_E_FOREIGN: not a log, or of a newer version;
 * the file is not changed. MS_E_DAMAGED: see ms_log_opening; in each opening, if the
 * first page and its copy are damaged, or the file ends before 8,192 bytes, where
 * messages begin. MS_E_FULL: no room for a new log, or for the holes of a sparse copy,
 * which a writer fills. MS_E_IO: a system call failed, see err->sys_errno. A file of size
 * 0 counts as missing, and so does an incomplete superblock, of up to 1,024 bytes, which
 * an interrupted creation leaves (MS_OPEN_STRICT: MS_E_DAMAGED). MS_LOG_READ opens such a
 * file as empty. */
MS_API ms_result ms_log_open(ms_store **store, const ms_log_desc *desc, ms_error *err);
