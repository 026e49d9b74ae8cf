
/* ==== [api-log] the log file =========================================================
 * A store in one file; see DURABILITY at the head of this file. Reading goes through a
 * map of the file; appending runs at memory speed. One process writes and holds a lock
 * (with `shared` several take turns). Any number read beside it, without locks and
 * without writing a byte: read-only media, snapshots and copies that `cp` makes beside a
 * writer work. Such a copy has all that was visible when cp began. If a sync falls
 * between two reads of cp, the copy may, seldom, report damage after that. [format]
 * describes the bytes. */

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

typedef enum ms_log_event_kind {
    MS_LOG_DAMAGE,            /* bytes that were written and cannot be read any more */
    MS_LOG_ZEROED,            /* bytes of a torn append, after the last complete one; they
                                 are zero now */
    MS_LOG_SYNC_FAILED,       /* the handle is poisoned from here on */
    MS_LOG_INDEX_DAMAGE       /* an index record is damaged; no message is lost. Handles
                                 that are open while another writer makes the index anew
                                 return MS_E_CONFLICT: open the file again */
} ms_log_event_kind;

typedef struct ms_log_event ms_log_event;

struct ms_log_event {
    ms_log_event_kind kind;
    uint64_t offset, length;  /* bytes of the file */
    uint64_t after_seq;       /* sequence number before the range, */
    uint64_t before_seq;      /* and after it; 0: not known */
    int sys_errno;            /* SYNC_FAILED */
};

/* The callback runs inside the call that found the event, perhaps under the store's lock.
 * It must not call the store. */
typedef struct ms_log_events {
    void (*event)(void *ctx, const ms_log_event *event);
    void *ctx;
} ms_log_events;

/* The file operations: the library's whole contact with the file system. All return 0 or
 * an errno value (of <errno.h>, also on Windows). Any thread; ctx is passed to them. */
typedef intptr_t ms_file;

enum {
    MS_OS_READ = 1,           /* open: for reading; always set. map: readable */
    MS_OS_WRITE = 2,          /* open: for writing too. map: writable, shared */
    MS_OS_CREATE = 4,         /* created if missing, accessible to the owner alone */
    MS_OS_RANDOM = 8          /* map: pages are read and written one by one */
};

typedef struct ms_os_stat {
    uint64_t size;            /* bytes */
    uint64_t device, inode;   /* which file it is, under any of its names */
    bool regular;             /* not a folder, pipe or device */
    bool keeps_room;          /* a write into allocated room never lacks space */
} ms_os_stat;

typedef struct ms_os ms_os;

struct ms_os {
    void *ctx;
    /* Must not block on a pipe. Programs that are started must not inherit the file. */
    int (*open)(void *ctx, const char *path, unsigned how, ms_file *file);
    int (*close)(void *ctx, ms_file file);
    int (*stat)(void *ctx, ms_file file, ms_os_stat *out);
    /* May transfer fewer bytes than `size`; *done: how many, 0 at the end of the file. */
    int (*read)(void *ctx, ms_file file, uint64_t offset, void *to, size_t size,
                size_t *done);
    int (*write)(void *ctx, ms_file file, uint64_t offset, const void *from, size_t size,
                 size_t *done);
    /* Allocates room; the file grows to offset + size. EOPNOTSUPP: not possible here. */
    int (*allocate)(void *ctx, ms_file file, uint64_t offset, uint64_t size);
    int (*sync)(void *ctx, ms_file file);
    /* Takes the writer's lock, held until unlock or close. EAGAIN: another process has
     * it; ENOLCK: not possible here. */
    int (*lock)(void *ctx, ms_file file);
    int (*unlock)(void *ctx, ms_file file);
    /* offset is a multiple of 64 KiB. The map may reach beyond the end of the file, which
     * may grow into it. */
    int (*map)(void *ctx, ms_file file, uint64_t offset, size_t size, unsigned how,
               void **out);
    int (*unmap)(void *ctx, void *map, size_t size);
    int (*rename)(void *ctx, const char *from, const char *to); /* replaces `to` */
    int (*remove)(void *ctx, const char *path);
    int (*sync_folder)(void *ctx, const char *path); /* the folder that has `path` */
    uint64_t (*boot)(void *ctx);    /* the same until the machine restarts; 0: unknown */
    uint64_t (*micros)(void *ctx);  /* a clock that only goes forward */
    void (*sleep)(void *ctx, uint64_t micros);
    uint64_t (*process)(void *ctx); /* the process id */
    bool exact_maps;          /* maps cannot reach beyond the end of the file */
    /* Gives the file `path` the access rights of the file `like`: permissions, group, and
     * owner if the group may not read and write. NULL: nothing to do. */
    int (*access_like)(void *ctx, const char *path, const char *like);
    /* Begins to read a part of the file into memory, and does not wait. NULL: nothing to
     * do. */
    int (*read_ahead)(void *ctx, ms_file file, uint64_t offset, uint64_t size);
};

/* Returns the operations of the system. Copy the struct to replace some of them. */
MS_API const ms_os *ms_os_default(void);

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
                                 offsets, after a copy of the superblock.
                                 MS_OPEN_SALVAGE reads verified records from it. While
                                 that file cannot be written, appends fail and zero
                                 nothing */
    bool ticked;              /* the caller calls ms_tick: appends leave to it index
                                 portions, room ahead and due syncs (not those of EACH) */
    bool shared;              /* writing: several processes write at once. Each append or
                                 batch takes the lock, and first reads the appends of the
                                 others. It waits at most lock_wait_ms (0: 1000), then
                                 returns MS_E_BUSY, with nothing appended. MS_E_CONFLICT:
                                 a compaction has replaced the file; open it again.
                                 MS_E_UNSUPPORTED at opening: os->boot returns 0 */
    ms_clock clock;           /* {0}: the system's */
    ms_entropy entropy;       /* {0}: see ms_entropy */
    ms_alloc alloc;           /* {0}: malloc */
    const ms_os *os;          /* NULL: the system's; must outlive the store */
    ms_log_events events;     /* {0}: not reported */
} ms_log_desc;

#define MS_LOG_SEGMENT_MIN 1024

/* Opens a log. MS_E_NOT_FOUND: the file is missing (READ, WRITE); MS_E_CONFLICT: it
 * exists (NEW); MS_E_BUSY: another process writes to it, its id is in the message;
 * MS_E_FOREIGN: not a log, or of a newer version: the file is not changed; MS_E_DAMAGED:
 * see ms_log_opening; MS_E_IO: a system call failed, see err->sys_errno.
 * A file of size 0 counts as missing, and so does an incomplete superblock, which an
 * interrupted creation leaves (MS_OPEN_STRICT: MS_E_DAMAGED). MS_LOG_READ opens such a
 * file as empty. */
MS_API ms_result ms_log_open(ms_store **store, const ms_log_desc *desc, ms_error *err);

typedef struct ms_log_info {
    unsigned char id[16];     /* of the file, random */
    int64_t created_ns;
    uint64_t end;             /* bytes of the file in use: visible up to here */
    uint64_t size;            /* bytes of the file, room ahead included */
    uint64_t durable_end;     /* known to survive a power loss */
    uint64_t durable_seq;     /* the last message below it */
    uint64_t segments;        /* with an index record */
    uint64_t summaries;       /* of 32 segments each */
    uint64_t damaged;         /* damaged ranges found since the store was opened, */
    uint64_t damaged_bytes;   /* and their bytes */
    uint64_t zeroed_bytes;    /* bytes of a torn append, zeroed before the first append */
    uint64_t lost_end;        /* not 0: the file had visible bytes up to here, and is
                                 shorter now */
    uint64_t memory;          /* bytes that the handle has allocated */
    uint64_t pid;             /* of the last writer; a hint */
    ms_log_engine engine;     /* in use; AUTO for a reader */
    bool poisoned;
    bool replaced;            /* the path names another file now (as after a rewrite by
                                 any process) or no file: a reader has to open it again */
} ms_log_info;

MS_API ms_result ms_log_stat(ms_store *store, ms_log_info *out, ms_error *err);

/* The findings of a walk over a whole file. */
typedef struct ms_log_report {
    uint64_t bytes;           /* walked */
    uint64_t messages;        /* verified */
    uint64_t index_records, other_records;
    uint64_t damaged;         /* ranges that cannot be read, */
    uint64_t damaged_bytes;   /* and their bytes */
    uint64_t index_damaged;   /* index records that are damaged or do not fit */
    uint64_t torn_bytes;      /* after the last complete append, not zeroed yet */
    uint64_t last_seq;
    uint64_t end;             /* where the last complete append ends */
} ms_log_report;

/* Reads every byte of a log, index records included, without writing. desc needs path,
 * and may have os, alloc and events, which report each range. MS_OK: no damage (a torn
 * append at the end is not damage); MS_E_DAMAGED: see report and err. Beside a writer it
 * reads the bytes that were visible when it began. */
MS_API ms_result ms_log_verify(const ms_log_desc *desc, ms_log_report *report,
                               ms_error *err);

/* Copies the messages that keep selects (NULL: all) from an open store into a new log at
 * to->path: compaction, retention, repair (source opened for salvage), export of an arena
 * store. Sequence numbers, times and keys stay. With keep->dry_run nothing is written,
 * and `to` may be NULL.
 *   - The copy is written to PATH.compacting, verified, synced, and renamed. At every
 *     moment the path has the old file or the complete new one. A PATH.compacting of a
 *     killed rewrite is removed.
 *   - A log at the path is replaced only with `replace`. The new file has its
 *     permissions, owner and group. MS_E_IO where that is impossible; but the caller may
 *     become its owner if the group may read and write. Readers of the old file may go on
 *     reading it; see ms_log_info.replaced. The old file is synced first, since a power
 *     loss can bring it back until the new name is durable. A symbolic link is replaced
 *     itself: its target stays as it was, so give the path of the target.
 *   - The log that is replaced refuses appends from the beginning of the copy on
 *     (MS_E_CONFLICT: close it and open the file again), unless the rewrite fails.
 * MS_E_DAMAGED: records of the source could not be read; the new log has all others and
 * is in place. MS_E_BUSY: another process writes to the file to be replaced.
 * MS_E_CONFLICT: it was written to after the source was opened for salvage.
 * MS_E_FOREIGN: the file to be replaced is not a log; it stays. MS_E_POISONED: a sync
 * failed. Either the old file stays; or the new one is in place, a power loss can bring
 * the old one back, and the replaced source is poisoned. A poisoned source may be
 * replaced. Windows cannot replace an open file, so `replace` fails there with MS_E_IO:
 * write to another path, close, and rename. */
MS_API ms_result ms_log_rewrite(ms_store *source, const ms_log_desc *to, bool replace,
                                const ms_keep *keep, ms_copy_report *report,
                                ms_error *err);

/* ---- The same while the source takes appends: a log that runs for weeks keeps the
 * newest messages, and no call of the thread that appends waits for the disk.
 *
 *     another thread:           ms_rewrite_run until more is false
 *     the thread that appends:  ms_rewrite_end; from here on it uses the new store
 *     another thread:           closes the old store when no cursor reads it any more
 *
 * The source takes appends and changes until ms_rewrite_end if it is a writer's handle of
 * the log at to->path, without `shared`. Otherwise that log refuses appends from the
 * first run on, as in ms_log_rewrite. The errors are those of ms_log_rewrite. One call at
 * a time for each rewrite. */

/* Set the first four members, zero the others. What they point to must not change, and
 * the source stays open, until the end. MS_E_BUSY: another rewrite of the log goes on. */
typedef struct ms_rewrite {
    ms_store *source;
    const ms_log_desc *to;
    bool replace;
    const ms_keep *keep;      /* NULL: all */
    ms_copy_report report;    /* so far */
    struct ms__rewriting *state; /* private; NULL: not begun */
} ms_rewrite;

/* Copies the present messages of the source for about budget_us microseconds (0: without
 * a limit). The first call creates the new file. The call that reaches the end verifies
 * and syncs the copy, as long as the disk takes, and sets *more to false. A further call
 * does the same for messages appended since. MS_E_CONFLICT: a message was redacted
 * meanwhile; end the rewrite and begin again. After any error end it. */
MS_API ms_result ms_rewrite_run(ms_rewrite *rewrite, uint32_t budget_us, bool *more,
                                ms_error *err);

/* Ends a rewrite: the source refuses appends, messages appended since the last run are
 * copied, and the new file is renamed to the path. *fresh: the new log, open with the
 * options of `to`; the source has to be closed. fresh NULL: abandons the rewrite.
 * The call waits for the disk where each append does (MS_SYNC_EACH), and while another
 * thread syncs the source. It waits for the sync of the folder if the source has damage,
 * had a failed sync, or is another log. Messages that were not durable in the source
 * become durable with the next sync, which syncs the folder, too. MS_E_BUSY: a run is
 * missing, or the source was synced after it; the rewrite goes on. MS_E_DAMAGED: *fresh
 * is open, see ms_log_rewrite. After other errors *fresh is NULL, and the source goes on
 * as before. */
MS_API ms_result ms_rewrite_end(ms_rewrite *rewrite, ms_store **fresh, ms_error *err);
