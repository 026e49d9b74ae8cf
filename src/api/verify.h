
/* ==== [api-verify] what a log has found, and whether its bytes are damaged ======= */

typedef enum ms_log_event_kind {
    MS_LOG_DAMAGE,            /* bytes that were written and cannot be read any more */
    MS_LOG_ZEROED,            /* bytes of a torn append, after the last complete one; they
                                 are zero now. After a failed sync: up to the end of the
                                 room ahead */
    MS_LOG_SYNC_FAILED,       /* the handle is poisoned from here on */
    MS_LOG_INDEX_DAMAGE       /* an index record, the first page (offset 0), or the
                                 lineage (offset 56), with what it has of each twice, is
                                 damaged; no message is lost. Handles that are open while
                                 another writer makes the index again, or that did not
                                 read it before, return MS_E_CONFLICT once the next index
                                 is written: open the file again */
} ms_log_event_kind;

struct ms_log_event {
    ms_log_event_kind kind;
    uint64_t offset, length;  /* bytes of the file */
    uint64_t after_seq;       /* number of the last message before the range; 0: none */
    uint64_t before_seq;      /* of the first one after it; 0: none. Messages with numbers
                                 between the two are missing; if none is between them,
                                 the range had changes. After the last message it is
                                 unknown how many are missing, if any. In a clustered
                                 segment: the last number before that, and 0 */
    int sys_errno;            /* SYNC_FAILED */
};

typedef struct ms_log_info {
    unsigned char id[16];     /* of the file, random */
    unsigned char lineage[16]; /* of the log: the id of its first file. ms_log_rewrite and
                                 a copy of the file keep it, ms_copy does not. Zeros: it
                                 is damaged in both places, and unknown */
    int64_t created_ns;
    uint64_t end;             /* bytes of the file in use: visible up to here */
    uint64_t size;            /* bytes of the file, room ahead included */
    uint64_t durable_end;     /* known to survive a power loss */
    uint64_t durable_seq;     /* the last message below it */
    uint64_t segments;        /* with an index record */
    uint64_t summaries;       /* of 32 segments each */
    uint64_t damaged;         /* damaged ranges that the newest segment index counts, and
                                 those after it. 0 proves nothing: damage that a query
                                 meets in an older segment is in ms_cursor.damaged, and
                                 ms_log_verify finds all */
    uint64_t damaged_bytes;   /* of these ranges */
    uint64_t zeroed_bytes;    /* bytes of a torn append, zeroed before the first append */
    uint64_t lost_end;        /* not 0: the file had visible bytes up to here, and is
                                 shorter now. 0 again once an append has noted that */
    uint64_t memory;          /* bytes that the handle has allocated */
    uint64_t pid;             /* of the last writer; a hint */
    ms_log_engine engine;     /* in use; AUTO for a reader */
    bool poisoned;
    bool replaced;            /* the path names another file now (as after a rewrite by
                                 any process) or no file: a reader has to open it again */
} ms_log_info;

/* Describes an open log. MS_E_UNSUPPORTED: not a log (a union, an arena store). */
MS_API ms_result ms_log_stat(ms_store *store, ms_log_info *out, ms_error *err);

/* The findings of a walk over a whole file. */
typedef struct ms_log_report {
    uint64_t bytes;           /* walked */
    uint64_t messages;        /* verified */
    uint64_t index_records, other_records;
    uint64_t damaged;         /* ranges that cannot be read, */
    uint64_t damaged_bytes;   /* and their bytes */
    uint64_t index_damaged;   /* index records that are damaged or do not fit */
    uint64_t lineage_damaged; /* 1: it is unknown, see ms_log_info. ms_log_rewrite begins
                                 a new one */
    uint64_t torn_bytes;      /* after the last complete append, not zeroed yet */
    uint64_t last_seq;
    uint64_t end;             /* where the last complete append ends */
    uint64_t clustered;       /* messages that stand by view, see ms_log_rewrite */
} ms_log_report;

/* Reads every record of a log, index records included, without writing. desc needs path,
 * and may have os, alloc and events, which report each range. MS_OK: no damage. A torn
 * append at the end is not damage, nor is a first page whose copy replaces it. MS_OK with
 * report->end 0: the file is empty, or has only what an unfinished creation leaves, as a
 * log cut to less than 2 KiB has, too. MS_LOG_CREATE and MS_LOG_NEW make a log of it.
 * MS_E_DAMAGED: see report (may be NULL) and err. With report->damaged 0 only index
 * records or the lineage are damaged, and no message is missing; with report->end 0 the
 * file cannot be opened, see ms_log_open. Beside a writer it reads the bytes that were
 * visible when it began. */
MS_API ms_result ms_log_verify(const ms_log_desc *desc, ms_log_report *report,
                               ms_error *err);
