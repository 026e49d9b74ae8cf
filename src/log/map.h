
/* ==== [log-map] append-only log over a mapped file ===================================
 * A handle maps the file for reading, keeps names and postings of the newest segment in
 * memory (the tail, see [core]), and finds everything older through the index records in
 * the file. So the cost of opening does not depend on the size of the file, and neither
 * does memory.
 *
 * Tail. When a segment is full the writer appends its index (the segment is sealed) and
 * begins a fresh tail. A cursor pins the tail that it opened with by a counter and takes
 * no lock; the handle frees an old tail when no cursor pins it.
 *
 * Writing. One of two engines stores the bytes. MAP copies to a window of 1 MiB, mapped
 * writable just ahead of the end. Everything else is mapped read-only, so a wild pointer
 * of the program cannot reach the history. WRITE makes one pwrite. Room is allocated in
 * steps of a quarter of the file, of 64 to 256 KiB. Larger steps make single appends slow
 * (2 ms with 4 MiB, 0.6 ms with 1 MiB) at the same mean. A full disk is found there,
 * before anything is visible. For MAP the writer zeroes the room at once, so the kernel
 * keeps the file in large folios: an append of 711 bytes takes 130 ns, with a page fault
 * for each page 840 ns (ext4, Linux 6.18). The superblock is mapped alone, with
 * random-access advice: in a large folio, a sync after a store to it writes up to 2 MiB.
 *
 * Several writers take turns, see [log-recover]. A writer waits for the lock by trying
 * again, a few times at once, then with pauses: no kernel has a lock with a bounded wait
 * that the death of its owner releases.
 *
 * Reading. A handle checks a record when it first reads it, and sets a bit: a check at
 * each read would take a third of the time of a view. Segments have 8 MiB. With 4 MiB an
 * agent's 94 messages of 100,000 are in 18 segments, each of which costs as much as five
 * messages. With 16 MiB, opening after a crash enters up to 22,000 messages, at 330 ns
 * each.
 *
 * Edits. A view must find out at almost no cost whether its location has edits. One bit
 * of 65,536, by the location's hash, shows that it may have some; each segment index
 * lists the bits that are set. Only if it is set, the handle reads the AMENDs and HIDEs
 * of the location, once, and keeps them as [plan] describes, in some 90 bytes each. When
 * it meets damage that may have been one of them, it reads them again.
 *
 * (LM1) Bytes below the watermark never change; only the writer moves it, and forward.
 * (LM2) Each entry of the tail below its end is a valid record. The end is stored last.
 * (LM3) A reader can read each sealed segment: by its index, or, where that is damaged,
 *      by one that is made in memory.
 * (LM4) durable.end <= end; it moves after a sync that began when end was there.
 * (LM5) A failed append leaves names, postings, end and watermark as they were. One that
 *      returns MS_E_POISONED and a number is visible: only its sync failed.
 * (LM6) A poisoned handle appends and syncs no more.
 * (LM7) Zeros are written only after the end, by a handle that may append.
 * (LM8) This handle has checked each record that a cursor returns; its size still fits.
 * (LM9) No append is visible before the bytes after the end are zero on the disk, or were
 *      never anything else.
 * ================================================================================== */

#define MS__WINDOW          ((size_t)1 << 20)
#define MS__SUPPLY          ((size_t)256 << 10) /* bytes that one call copies or zeroes */
#define MS__STAGING_KEPT    ((size_t)2 << 20)
#define MS__GRAIN           ((uint64_t)64 << 10) /* of maps; what Windows asks for */
#define MS__ROOM_LEAST      ((uint64_t)64 << 10)
#define MS__ROOM_MOST       ((uint64_t)256 << 10)
#define MS__SEGMENT_DEFAULT ((size_t)8 << 20)
#define MS__MAPPINGS        64u
#define MS__PINS            32u
#define MS__SEGMENT_RECORDS 65536u /* so that postings take 2 bytes */
#define MS__LOCK_TRIES      16u /* of a lock that others hold for microseconds */
#define MS__LOCK_PAUSE      50u /* microseconds, then */
#define MS__BLOOM_BITS      65536u
#define MS__BLOOM_MOST      8192u /* more are not written down */
#define MS__CLOSE_SEGMENT   8u /* close writes the index of over 1/8 of a segment */

typedef struct ms__mapping {
    uint64_t start;
    unsigned char *base;
    size_t size;
} ms__mapping;

/* A segment index or a SUMMARY in memory. */
typedef struct ms__entry_node {
    void *node;        /* ms__segment or ms__summary; atomic */
    ms__segment *bad;  /* read from the file, with a damaged block; `node` is derived */
    uint64_t offset;   /* of its record, 0: not known; under the lock */
    bool listed;       /* its list of offsets was read, or cannot be read */
} ms__entry_node;

/* All segment indexes, or all SUMMARYs, by number. */
typedef struct ms__node_table {
    void *entries; /* ms__entry_node, in `table`; atomic */
    ms__table *table;
    uint32_t n; /* how many there are; atomic */
} ms__node_table;

/* The SUMMARY in the making. */
typedef struct ms__summary_build {
    uint32_t segments; /* looked up so far */
    const ms__segment *segment[MS__FAN];
    uint32_t at[MS__FAN]; /* the next list of each */
    ms__summary sum;
    uint32_t filters;      /* written so far */
    unsigned char *record; /* the SUMMARY; NULL: not all segment indexes are looked up */
} ms__summary_build;

/* The state of a handle: one struct for each section. The section writes its struct, the
 * others read it; [log-recover] and [log-open] set the first values of all. */

/* The file's identity; set when it is opened. */
typedef struct ms__log_file {
    char *path;
    size_t path_size;
    ms_file handle;
    bool is_open;
    bool folder_synced;
    bool super_lost; /* page 0 is of another file, or has no live words: none count */
    bool super_mend; /* the two fixed parts differ */
    bool super_unreadable; /* the disk cannot read page 0 */
    bool rewritten; /* a running rewrite has this handle as its source */
    ms_os_stat stat;
    ms__fork_mark fork_mark;
    uint64_t boot;
} ms__log_file;

/* [log-map] The mapped file, and the segment that is not in it as an index yet. */
typedef struct ms__log_map {
    unsigned char *super; /* mapped; NULL: the file is still empty */
    void *super_now;     /* the same, for readers without the lock; atomic */
    ms__mapping mappings[MS__MAPPINGS];
    uint32_t n_mappings; /* atomic */
    void *tails[MS__PINS];   /* ms__tail: the one that takes records, and older ones that
                                cursors still read */
    uint32_t now;            /* tails[now % MS__PINS] is the one that takes records;
                                atomic */
    uint32_t pins[MS__PINS]; /* number of cursors that read each; atomic */
    ms__tail *spare;
    uint32_t cluster;        /* mark of the messages of that tail, see ms__cluster_of, */
    uint64_t floor;          /* which all have larger numbers */
    uint32_t *looked;    /* a bit for each page that the file had when it was mapped: it
                            was looked at, see ms__log_look */
    uint32_t n_looked;   /* pages */
    uint32_t look_next;  /* the page after the one looked at last; atomic */
    uint32_t bad_pages;  /* that the disk cannot read; atomic */
    uint32_t one_by_one; /* the system has no call for several pages; atomic */
    uint32_t looks;      /* records read ahead so far, at most MS__LOOKS; atomic */
    uint32_t seen_line;  /* epoch of the writer's line, loaded before `seen`: after a
                            power loss a writer may reach that mark again; atomic */
    void *seen;          /* the watermark that a reader has caught up with, as a
                            number; atomic */
    uint64_t marked;     /* the watermark that the opening found, */
    uint32_t found_line; /* and the epoch of the writer's line */
    bool salvaged;       /* records are shown that are not proven: a writer may overwrite
                            them */
    unsigned char *staging; /* records not yet copied to the file: WRITE, and batches */
    size_t staging_size;
    uint64_t memory;     /* bytes allocated */
} ms__log_map;

/* [log-index] Index records that were read. */
typedef struct ms__log_index {
    ms__node_table segments, summaries;
    bool merges;         /* this handle wrote the newest segment index: of shared writers
                            it makes the next SUMMARY */
    ms__summary_build build;
    uint64_t segment_retry_end; /* no segment index is tried while the end is below */
    uint32_t unlisted;   /* no segment index above has a known offset and an unread
                            list */
    uint64_t hint, hint_before; /* newest segment index, and the one before it */
} ms__log_index;

/* [log-find] Changes of messages. */
typedef struct ms__log_edits {
    void *bloom;          /* MS__BLOOM_BITS bits: locations with an AMEND or HIDE;
                             atomic */
    uint32_t n_bloom;     /* bits set */
    uint32_t load;        /* edits are those of now if they were read with this number;
                             from 1 on; atomic */
    ms__tail_names names; /* edits of the locations that were queried */
} ms__log_edits;

/* [log-append] Room in the file, and the append that runs. */
typedef struct ms__log_writer {
    ms_log_engine engine;
    bool no_allocate;
    bool prepared;       /* the bytes after the end were prepared for records */
    bool refused;        /* what is dead after the end is of a refused append of ours */
    bool wrote;          /* this handle has appended */
    uint64_t lost_end;   /* not 0: the file had visible bytes up to here */
    bool lost_written;   /* the file has a record of it, */
    bool lost_synced;    /* and a durable checkpoint after that */
    uint64_t stop;       /* not prepared: dead bytes end here at the latest */
    uint64_t erasures;   /* number of erasures: writes below the end */
    uint64_t allocated;  /* the file is known to have room up to here */
    unsigned char *window; /* MAP */
    uint64_t window_start;
    size_t window_size;
    ms__plan plans[MS__PLANS_SMALL];
} ms__log_writer;

/* [log-sync] The durable end, and the threads that wait for a sync. */
typedef struct ms__log_durable {
    ms__signal synced;     /* a sync has ended; waited for under `lock` */
    bool syncing;          /* a thread waits for the disk, without the lock */
    bool together;         /* several threads have waited lately */
    bool poisoned;
    uint32_t waiting;           /* threads that wait for the end of a sync */
    uint64_t end, seq;          /* all below is on the disk; number of its last message */
    uint64_t confirmed;         /* this handle has synced a checkpoint of this end; 0:
                                   none */
    uint64_t unproven_end;      /* the file was found to end here, perhaps with damage
                                   below */
    bool damage;                /* the opening met some */
    uint64_t rewrite_range_end; /* a sync first writes again the bytes from `end` to
                                   here */
    uint64_t erased;            /* the lowest offset erased since the sync began */
    uint64_t synced_at;         /* microseconds: for EVERY */
    uint64_t zeroed_bytes;      /* after the end, see (FF5) */
} ms__log_durable;

/* [log-recover] The turn of a shared writer, and what a reader has to report. */
typedef struct ms__log_recovery {
    bool holds_lock;     /* shared: this handle has the lock of the file */
    bool reported;       /* a call has reported that the file was replaced */
    uint64_t doubt;      /* not 0: a reader has taken in records from here on, after an
                            untrusted watermark, */
    uint64_t doubt_end;  /* to here */
    uint32_t doubt_check; /* of the headers of the first of them */
} ms__log_recovery;

typedef struct ms__log {
    ms__core core;
    ms__lock lock;       /* protects everything that is not atomic */
    ms_log_desc opts;    /* the caller's options, with defaults filled in */
    const ms_os *os;
    bool writer;
    ms__file_id id;
    uint64_t end;        /* where the next record goes */
    ms__state sum;       /* of all records below `end`; without the offset of the
                            summary */
    ms__log_file file;
    ms__log_map map;
    ms__log_index index;
    ms__log_edits edits;
    ms__log_writer append;
    ms__log_durable durable;
    ms__log_recovery recovery;
} ms__log;

static ms__log *ms__log_of(ms_store *store) { return (ms__log *)(void *)store; }

static ms__log *ms__log_in(ms__core *core) { return (ms__log *)(void *)core; }

/* ---- Memory, counted. */

static MS__ONCE void *ms__log_resize(ms__log *log, void *p, size_t old_size,
                                     size_t new_size)
{
    void *q = ms__resize(&log->opts.alloc, p, old_size, new_size);
    if (q || new_size == 0) log->map.memory = log->map.memory - old_size + new_size;
    return q;
}

static void *ms__log_counted(void *ctx, void *p, size_t old_size, size_t new_size)
{
    return ms__log_resize((ms__log *)ctx, p, old_size, new_size);
}

static ms_alloc ms__log_alloc(ms__log *log)
{
    ms_alloc counted;
    counted.resize = ms__log_counted;
    counted.ctx = log;
    return counted;
}

static MS__ONCE void ms__log_event(const ms__log *log, ms_log_event_kind kind,
                                   uint64_t offset, uint64_t length, uint64_t after,
                                   uint64_t before, int code)
{
    ms_log_event e;
    if (!log->opts.events.event) return;
    e.kind = kind;
    e.offset = offset;
    e.length = length;
    e.after_seq = after;
    e.before_seq = before;
    e.sys_errno = code;
    log->opts.events.event(log->opts.events.ctx, &e);
}

static bool ms__staging_reach(ms__log *log, size_t size)
{
    size_t cap = log->map.staging_size ? log->map.staging_size : 4096;
    if (size <= log->map.staging_size) return true;
    while (cap < size) cap = cap > SIZE_MAX / 2 ? size : cap * 2;
    unsigned char *p = (unsigned char *)ms__log_resize(log, log->map.staging,
                                                       log->map.staging_size, cap);
    if (!p) return false;
    log->map.staging = p;
    log->map.staging_size = cap;
    return true;
}

/* Frees the buffer after a large batch. */
static void ms__staging_trim(ms__log *log)
{
    if (log->map.staging_size <= MS__STAGING_KEPT) return;
    (void)ms__log_resize(log, log->map.staging, log->map.staging_size, 0);
    log->map.staging = NULL;
    log->map.staging_size = 0;
}

/* ---- Live words of the superblock. MAP stores them through the map. WRITE, for sync
 * modes and for file systems that write pages elsewhere (btrfs), writes them by a call: a
 * mapped store that finds no room on the disk is a signal, a call returns an error. */

static MS__ONCE int ms__super_write(ms__log *log, uint32_t at, const void *bytes,
                                    size_t n)
{
    if (log->append.engine != MS_ENGINE_MAP)
        return ms__os_write_all(log->os, log->file.handle, at,
                                (const unsigned char *)bytes, n);
    memcpy(log->map.super + at, bytes, n);
    return 0;
}

/* Stores a word that readers load without a lock. */
static int ms__super_word(ms__log *log, uint32_t at, uint64_t v)
{
    unsigned char bytes[8];
    ms__put64(bytes, v);
    if (log->append.engine != MS_ENGINE_MAP)
        return ms__super_write(log, at, bytes, sizeof bytes);
    ms__store_mark(log->map.super + at, v);
    return 0;
}

/* ---- Reading ahead. Maps are advised as read at random. Without that the system reads
 * up to 8 MiB around each page of a cold file: opening and reading the newest 20 of 1000
 * locations took 20 ms and 19 MiB, now 1.2 ms and 0.4 MiB. A walk from record to record
 * reads ahead by these functions. */

#define MS__LOOKS    64u /* records of a handle that are read ahead one by one */
#define MS__COLD     30u /* microseconds: a disk takes longer to read the superblock */
#define MS__STEP     ((uint64_t)1 << 20) /* a walk reads ahead once a step, */
#define MS__WALK     16u                 /* from so many records in a row on, */
#define MS__FURTHER  ((uint64_t)2 << 20) /* so many bytes */
#define MS__NEAR     ((uint64_t)8 << 10) /* bytes at most between records of a walk */

static void ms__log_read_ahead(const ms__log *log, uint64_t offset, uint64_t size)
{
    if (log->os->read_ahead)
        (void)log->os->read_ahead(log->os->ctx, log->file.handle, offset, size);
}

/* Reads ahead one of the first records that a handle reads, if the superblock was not in
 * memory: a cold disk serves several reads at once. (In a warm file the call is dear.) */
static void ms__log_first_look(ms__log *log, uint64_t offset)
{
    uint32_t n = ms__load32(&log->map.looks);
    if (n >= MS__LOOKS) return;
    ms__store32(&log->map.looks, n + 1);
    ms__log_read_ahead(log, offset, 1);
}

/* ---- The map. Its mappings follow one another. A newer one begins where the file ended
 * when it was made; no record lies in two mappings. */

/* A bad block of the disk raises a signal where a page of the map is first read. So the
 * pages that the file had at the opening are populated before a first look, by a call
 * that can fail; what cannot be read becomes damaged bytes. Later pages were written
 * since, and are in memory. A look near the one before populates 64 KiB. The second look
 * into 64 KiB populates the rest of them. */

#define MS__PAGE       4096u
#define MS__PAGES_NEAR 16u

static const ms__mapping *ms__mapping_of(const ms__log *log, uint64_t offset)
{
    uint32_t i = ms__load32(&log->map.n_mappings) - 1;
    while (i > 0 && log->map.mappings[i].start > offset) i--;
    return &log->map.mappings[i];
}

/* Returns whether a page needs no look any more. */
static bool ms__page_looked(const ms__log *log, uint64_t page)
{
    return page >= log->map.n_looked ||
           (ms__load32(&log->map.looked[page / 32]) >> (page % 32) & 1) != 0;
}

/* Returns whether a page was looked at of the aligned 16 that a page is in. */
static bool ms__window_looked(const ms__log *log, uint64_t page)
{
    return (ms__load32(&log->map.looked[page / 32]) >> (page % 32 & 16) & 0xFFFF) != 0;
}

/* Populates the pages from `page` to `last` and, by these rules, more. Takes no lock. */
static MS__NOINLINE void ms__pages_populate(ms__log *log, uint32_t page, uint32_t last)
{
    uint64_t bad = 0;
    uint32_t next = ms__load32(&log->map.look_next), n = log->map.n_looked;
    const ms__mapping *m = ms__mapping_of(log, (uint64_t)page * MS__PAGE);
    if (page >= next && page - next < MS__PAGES_NEAR && last - page < MS__PAGES_NEAR) {
        last = page + MS__PAGES_NEAR - 1;
    } else if (ms__window_looked(log, page)) {
        uint32_t first = page - page % MS__PAGES_NEAR, end = first + MS__PAGES_NEAR;
        while (page > first && !ms__page_looked(log, page - 1) &&
               (uint64_t)(page - 1) * MS__PAGE >= m->start) page--;
        while (last + 1 < end && !ms__page_looked(log, last + 1)) last++;
    }
    uint64_t offset = (uint64_t)page * MS__PAGE;
    uint64_t end = (m->start + m->size + MS__PAGE - 1) / MS__PAGE; /* it may end inside */
    if (last >= n) last = n - 1;
    if (last >= end) last = (uint32_t)end - 1;
    ms__store32(&log->map.look_next, last + 1);
    (void)log->os->populate(log->os->ctx, log->file.handle,
                            m->base + (offset - m->start), offset,
                            (size_t)(last - page + 1) * MS__PAGE, &bad);
    if (bad > 0)
        ms__store32(&log->map.bad_pages, log->map.bad_pages + (uint32_t)(bad / MS__PAGE));
    for (; page <= last; page++)
        ms__or32(&log->map.looked[page / 32], (uint32_t)1 << (page % 32));
}

/* Pages that are to be populated in one call. */
typedef struct ms__pages {
    uint32_t page[MS__PAGES_EACH];
    void *at[MS__PAGES_EACH];
    uint32_t n;
} ms__pages;

/* Adds those pages of some bytes that were not looked at, as far as there is room. */
static void ms__pages_add(const ms__log *log, ms__pages *p, uint64_t offset, uint64_t n)
{
    uint64_t page = offset / MS__PAGE, end = (offset + n + MS__PAGE - 1) / MS__PAGE;
    for (; page < end && page < log->map.n_looked && p->n < MS__PAGES_EACH; page++) {
        if (ms__page_looked(log, page) || ms__window_looked(log, page)) continue;
        if (p->n > 0 && p->page[p->n - 1] == page) continue;
        const ms__mapping *m = ms__mapping_of(log, page * MS__PAGE);
        p->page[p->n] = (uint32_t)page;
        p->at[p->n++] = m->base + (page * MS__PAGE - m->start);
    }
}

/* Populates them, if the system can do that in one call, else none. */
static void ms__pages_read(ms__log *log, const ms__pages *p)
{
    if (p->n < 2 || ms__load32(&log->map.one_by_one)) return;
    if (log->os->populate_each(log->os->ctx, p->at, p->n) != 0) {
        ms__store32(&log->map.one_by_one, 1);
        return;
    }
    for (uint32_t i = 0; i < p->n; i++)
        ms__or32(&log->map.looked[p->page[i] / 32], (uint32_t)1 << (p->page[i] % 32));
}

/* Makes n bytes readable. */
static void ms__log_populate(const ms__log *log, uint64_t offset, uint64_t n)
{
    uint64_t page = offset / MS__PAGE, last = (offset + n - 1) / MS__PAGE;
    for (; page <= last && page < log->map.n_looked; page++)
        if (!ms__page_looked(log, page))
            ms__pages_populate((ms__log *)(uintptr_t)log, (uint32_t)page, (uint32_t)(
                last < log->map.n_looked ? last : log->map.n_looked - 1));
}

/* Returns the address of an offset; a page there may not be readable yet. */
static const unsigned char *ms__log_address(const ms__log *log, uint64_t offset)
{
    const ms__mapping *m = ms__mapping_of(log, offset);
    return m->base + (offset - m->start);
}

/* Returns the address of an offset. Its header may be read, and if a record other than an
 * INDEX begins there, all of it. */
static const unsigned char *ms__log_at(const ms__log *log, uint64_t offset)
{
    const unsigned char *r = ms__log_address(log, offset);
    if (offset / MS__PAGE >= log->map.n_looked) return r;
    ms__log_populate(log, offset, MS__HEADER);
    if (r[4] != MS__KIND_INDEX && ms__get32(r) <= MS__RECORD_MAX)
        ms__log_populate(log, offset, (uint64_t)ms__get32(r) + 8);
    return r;
}

static size_t ms__looked_size(uint32_t pages) { return ((size_t)pages + 31) / 32 * 4; }

/* Notes how many pages the file has, none of which was looked at. False: no memory. */
static bool ms__looked_begin(ms__log *log, uint64_t size)
{
    uint64_t pages = (size + MS__PAGE - 1) / MS__PAGE;
    if (!log->os->populate || pages == 0) return true;
    if (pages > UINT32_MAX - 64) pages = UINT32_MAX - 64;
    log->map.looked =
        (uint32_t *)ms__log_resize(log, NULL, 0, ms__looked_size((uint32_t)pages));
    if (!log->map.looked) return false;
    memset(log->map.looked, 0, ms__looked_size((uint32_t)pages));
    log->map.n_looked = (uint32_t)pages;
    log->map.look_next = UINT32_MAX;
    return true;
}

/* Unmaps the file. */
static void ms__map_drop(ms__log *log)
{
    for (uint32_t i = 0; i < log->map.n_mappings; i++)
        (void)log->os->unmap(log->os->ctx, log->map.mappings[i].base,
                             log->map.mappings[i].size);
    ms__store32(&log->map.n_mappings, 0);
    if (log->map.super)
        (void)log->os->unmap(log->os->ctx, log->map.super, MS__SUPER_SIZE);
    log->map.super = NULL;
    (void)ms__log_resize(log, log->map.looked, ms__looked_size(log->map.n_looked), 0);
    log->map.looked = NULL;
    log->map.n_looked = 0;
}

static uint64_t ms__log_mapped(const ms__log *log)
{
    if (log->map.n_mappings == 0) return 0;
    const ms__mapping *p = &log->map.mappings[log->map.n_mappings - 1];
    return p->start + p->size;
}

/* Makes sure that [from, upto) is mapped in one mapping; the file reaches there or will.
 * size is the file's. */
static ms_result ms__log_reach(ms__log *log, uint64_t from, uint64_t upto, uint64_t size,
                               ms_error *err)
{
    if (upto <= ms__log_mapped(log)) return MS_OK;
    uint64_t start = log->map.n_mappings ? from & ~(MS__GRAIN - 1) : 0;
    uint64_t least = upto - start, most = least;
    if (least > SIZE_MAX / 8)
        return ms__os_fail_at(err, EFBIG, "mapping", log->file.path, start);
    if (log->os->exact_maps) {
        most = size > upto ? size - start : least;
    } else { /* as much as there was before, so that few mappings reach far */
        most = sizeof(size_t) > 4 ? (uint64_t)1 << 30 : (uint64_t)16 << 20;
        while (most < 4 * least || (most < ms__log_mapped(log) && most < SIZE_MAX / 8))
            most *= 2;
    }
    void *base = NULL;
    int code = ENOMEM;
    if (log->map.n_mappings < MS__MAPPINGS)
        for (; most >= least;
             most = most > least && most / 2 < least ? least : most / 2) {
            if (most > SIZE_MAX / 2) continue;
            code = log->os->map(log->os->ctx, log->file.handle, start, (size_t)most,
                                MS_OS_READ | MS_OS_RANDOM, &base);
            if (code == 0 || code != ENOMEM || most == least) break;
        }
    if (code != 0) return ms__os_fail_at(err, code, "mapping", log->file.path, start);
    ms__mapping *p = &log->map.mappings[log->map.n_mappings];
    p->start = start;
    p->base = (unsigned char *)base;
    p->size = (size_t)most;
    ms__store32(&log->map.n_mappings, log->map.n_mappings + 1);
    return MS_OK;
}

/* ---- The tail. */

static ms__tail *ms__tail_new(ms__log *log, uint64_t base, uint32_t segment)
{
    ms__tail *t = log->map.spare;
    if (t) {
        ms_arena nodes = t->names.nodes;
        log->map.spare = NULL;
        memset(t, 0, sizeof *t);
        t->names.nodes = nodes;
        ms__tail_names_reset(&t->names);
    } else {
        t = (ms__tail *)ms__log_resize(log, NULL, 0, sizeof *t);
        if (!t) return NULL;
        ms_alloc counted = ms__log_alloc(log);
        memset(t, 0, sizeof *t);
        ms__arena_init(&t->names.nodes, &counted);
    }
    t->names.hash_key[0] = log->id.hash_key[0];
    t->names.hash_key[1] = log->id.hash_key[1];
    t->base = base;
    t->segment = segment;
    t->first_time = INT64_MAX; /* above the last one: no message has a time */
    t->last_time = MS_TIME_NONE;
    return t;
}

static MS__ONCE void ms__tail_free(ms__log *log, ms__tail *t)
{
    ms_arena_deinit(&t->names.nodes);
    (void)ms__log_resize(log, t, sizeof *t, 0);
}

/* Returns the tail that takes records. */
static ms__tail *ms__tail_of(const ms__log *log)
{
    return (ms__tail *)log->map.tails[log->map.now % MS__PINS];
}

/* Frees old tails that no cursor reads, except for one that is used again. */
static void ms__tails_sweep(ms__log *log)
{
    for (uint32_t i = 0; i < MS__PINS; i++) {
        ms__tail *t = (ms__tail *)log->map.tails[i];
        if (!t || i == log->map.now % MS__PINS || ms__load32_full(&log->map.pins[i]) != 0)
            continue;
        log->map.tails[i] = NULL;
        if (log->map.spare)
            ms__tail_free(log, t);
        else
            log->map.spare = t;
    }
}

/* Finds room for one more tail; false: cursors still read MS__PINS - 1 old ones. */
static bool ms__tail_slot(ms__log *log, uint32_t *now)
{
    ms__tails_sweep(log);
    for (uint32_t i = 1; i < MS__PINS; i++) {
        *now = log->map.now + i;
        if (!log->map.tails[*now % MS__PINS] &&
            ms__load32_full(&log->map.pins[*now % MS__PINS]) == 0)
            return true;
    }
    return false;
}

/* Puts a fresh tail in the place of the old one. */
static void ms__tail_switch(ms__log *log, ms__tail *fresh, uint32_t now)
{
    log->map.tails[now % MS__PINS] = fresh;
    log->core.tail = fresh;
    log->map.cluster = 0;
    ms__store32_full(&log->map.now, now);
    ms__tails_sweep(log);
}

/* Notes that the tail, which is empty, takes messages of a clustered segment, and the
 * largest number before these; 0: it does not. */
static void ms__cluster_set(ms__log *log, uint32_t cluster, uint64_t floor)
{
    log->map.cluster = cluster;
    log->map.floor = floor;
}

/* Pins the tail, so that it is not freed. When `now` is unchanged after the count was
 * raised, each later sweep sees the count. */
static const ms__tail *ms__tail_pin(ms__log *log, uint32_t *pin)
{
    for (;;) {
        uint32_t now = ms__load32_full(&log->map.now);
        *pin = now % MS__PINS;
        (void)ms__add32(&log->map.pins[*pin], 1);
        if (ms__load32_full(&log->map.now) == now)
            return (const ms__tail *)log->map.tails[*pin];
        (void)ms__add32(&log->map.pins[*pin], (uint32_t)-1);
    }
}

static void ms__tail_unpin(ms__log *log, uint32_t pin)
{
    (void)ms__add32(&log->map.pins[pin], (uint32_t)-1);
}

/* ---- Records by place. */

/* Returns whether segment indexes list records of this kind. */
static bool ms__is_listed(const unsigned char *r)
{
    return r[4] == MS__KIND_MESSAGE || ms__is_change(r);
}

/* Returns the mark of a message of a clustered segment: the number of that, plus one. 0:
 * the record is not clustered. */
static uint32_t ms__cluster_of(const unsigned char *r)
{
    return r[4] == MS__KIND_MESSAGE ? ms__get32(r + MS__AT_BY_KIND) : 0;
}

/* Returns whether the header of the record at offset is valid. left: the most bytes it
 * may have. body: and it is a listed record with a valid body. */
static bool ms__log_holds(const ms__log *log, const unsigned char *r, uint64_t offset,
                          uint64_t left, bool body)
{
    if (left < MS__HEADER + 8 || !ms__holds_at(log->id.crc, offset, r) ||
        !ms__size_fits(r, left))
        return false;
    return !body || (ms__is_listed(r) && ms__whole_at(offset, r));
}

static bool ms__bit_get(uint32_t *bits, uint32_t i)
{
    return (ms__load32(&bits[i / 32]) >> (i % 32) & 1) != 0;
}

/* Notes the first read of a record of a segment. If the last ones were near each other (a
 * walk), reads ahead, upward or downward, once a step. */
static void ms__segment_walk(const ms__log *log, ms__segment *l, uint64_t offset)
{
    uint64_t last = l->base + (uint64_t)ms__load32(&l->last) * 8;
    uint64_t step = offset > last ? offset - last : last - offset;
    uint32_t run = step <= MS__NEAR ? ms__load32(&l->run) + 1 : 0;
    ms__store32(&l->last, (uint32_t)((offset - l->base) / 8));
    ms__store32(&l->run, run);
    uint32_t now = (uint32_t)(offset / MS__STEP) + 1;
    if (run < MS__WALK || now == ms__load32(&l->ahead)) return;
    ms__store32(&l->ahead, now);
    uint64_t from = offset > last ? offset : offset - l->base > MS__FURTHER
                                                 ? offset - MS__FURTHER
                                                 : l->base;
    ms__log_read_ahead(log, from, MS__FURTHER);
}

/* Returns record i of a segment index, and checks it the first time. NULL: damaged. */
static const unsigned char *ms__segment_record(const ms__log *log, const ms__segment *l,
                                            uint32_t i)
{
    uint64_t offset = ms__segment_offset(l, i);
    if (offset == 0) return NULL;
    const unsigned char *r = ms__log_address(log, offset);
    if (ms__bit_get(l->checked, i))
        return ms__size_fits(r, l->offset - offset) ? r : NULL;
    (void)ms__log_at(log, offset);
    ms__segment_walk(log, (ms__segment *)(uintptr_t)l, offset);
    if (!ms__log_holds(log, r, offset, l->offset - offset, true)) return NULL;
    ms__or32(&l->checked[i / 32], (uint32_t)1 << (i % 32));
    return r;
}

/* Notes that a block of a segment index matches its check. */
static void ms__block_note(const ms__segment *l, uint32_t b)
{
    uint32_t n = 0, last = l->blocks / 32;
    ms__or32(&l->sound[b / 32], (uint32_t)1 << b % 32);
    while (n < last && ms__load32(&l->sound[n]) == UINT32_MAX) n++;
    if (n == last && ms__load32(&l->sound[n]) == ((uint32_t)1 << l->blocks % 32) - 1)
        ms__store32((uint32_t *)(uintptr_t)&l->whole, 1);
}

static MS__NOINLINE bool ms__blocks_sound(const ms__log *log, const ms__segment *l,
                                          const unsigned char *p, uint64_t n)
{
    uint64_t at = (uint64_t)(p - l->numbers);
    uint32_t b = (uint32_t)(at / MS__BLOCK);
    uint32_t end = (uint32_t)((at + n + MS__BLOCK - 1) / MS__BLOCK);
    if (end - b == 1 && ms__bit_get(l->sound, b)) return true;
    if (end - b > 2 && !ms__bit_get(l->sound, b + 1)) /* not shared with others */
        ms__log_read_ahead(log, l->offset + (uint64_t)(p - l->directory), n);
    for (; b < end; b++) {
        if (ms__bit_get(l->sound, b)) continue;
        if (!l->own)
            ms__log_populate(log, l->offset + (uint64_t)(l->numbers - l->directory) +
                                  MS__SEGMENT_FIXED + (uint64_t)b * MS__BLOCK, MS__BLOCK);
        if (ms__get32(l->checks + (size_t)b * 4) != ms__segment_block(l, b)) return false;
        ms__block_note(l, b);
    }
    return true;
}

/* Returns whether the blocks of n bytes of a segment index match their checks. Each is
 * checked once. */
static inline bool ms__segment_sound(const ms__log *log, const ms__segment *l,
                                     const unsigned char *p, uint64_t n)
{
    return ms__load32(&l->whole) || ms__blocks_sound(log, l, p, n);
}

#define MS__BESIDE 1024u /* entries whose places are checked together */

/* Returns whether the places of all its records are valid. */
static bool ms__places_sound(const ms__log *log, const ms__segment *l)
{
    if (ms__load32(&l->placed)) return true;
    if (!ms__segment_sound(log, l, l->record, (uint64_t)(l->begin - l->record)))
        return false;
    ms__store32((uint32_t *)(uintptr_t)&l->placed, 1);
    return true;
}

/* Returns whether the place of an entry is valid, and those of the entries near it. */
static bool ms__entry_sound(const ms__log *log, const ms__segment *l, uint32_t entry)
{
    if (entry >= l->n) return false;
    size_t first = entry - entry % MS__BESIDE, n = ms__min(l->n - first, MS__BESIDE);
    return ms__segment_sound(log, l, l->record + first * 4, n * 4) &&
           ms__segment_sound(log, l, l->number_of + first * 4, n * 4);
}

/* Returns whether the places of a run are valid. All are checked, except in a clustered
 * segment: it may have half a million records, and those of a run stand together. */
static bool ms__run_sound(const ms__log *log, const ms__segment *l, const ms__run *run)
{
    uint32_t last = UINT32_MAX;
    if (!l->clustered || ms__load32(&l->placed)) return ms__places_sound(log, l);
    for (uint32_t i = 0; i < run->n; i++) {
        uint32_t entry = ms__posting(run->at, i, l->width);
        if (entry / MS__BESIDE == last && entry < l->n) continue;
        if (!ms__entry_sound(log, l, entry)) return false;
        last = entry / MS__BESIDE;
    }
    return true;
}

/* Returns whether entry k of a clustered segment, by number, can be read. */
static bool ms__order_sound(const ms__log *log, const ms__segment *l, uint32_t k)
{
    if (ms__load32(&l->placed)) return true;
    if (l->messages != l->n) return ms__places_sound(log, l);
    return ms__segment_sound(log, l, l->order + (size_t)k * 4, 4) &&
           ms__entry_sound(log, l, ms__segment_entry(l, k));
}

/* Finds list i of a segment; false if it is damaged. */
static bool ms__segment_run(const ms__log *log, const ms__segment *l, uint32_t i,
                            ms__run *run)
{
    const unsigned char *p = l->begin + (size_t)i * 4;
    if (!ms__segment_sound(log, l, p, 8)) return false;
    uint32_t from = ms__get32(p), to = ms__get32(p + 4) & ~MS__MIXED;
    run->index = l;
    run->mixed = (from & MS__MIXED) != 0;
    from &= ~MS__MIXED;
    if (from > to || to > l->postings) return false;
    run->at = l->posting + (size_t)from * l->width;
    run->n = to - from;
    return ms__segment_sound(log, l, run->at, (uint64_t)run->n * l->width) &&
           ms__run_sound(log, l, run);
}

/* Finds a list by its number; run->n is 0 if the segment has none of it. False if it is
 * damaged. */
static bool ms__segment_find(const ms__log *log, const ms__segment *l, uint64_t list,
                             ms__run *run)
{
    uint32_t b = l->bits ? (uint32_t)(list >> (64 - l->bits)) : 0;
    const unsigned char *p = l->bucket + (size_t)b * 4;
    run->index = l;
    run->at = NULL;
    run->n = 0;
    if (!ms__segment_sound(log, l, p, 8)) return false;
    uint32_t i = ms__get32(p), end = ms__get32(p + 4);
    if (i >= end) return true;
    p = l->numbers + (size_t)i * 8;
    if (end > l->lists) return false;
    if (!ms__segment_sound(log, l, p, (uint64_t)(end - i) * 8)) return false;
    while (i < end && ms__segment_list(l, i) != list) i++;
    return i == end || ms__segment_run(log, l, i, run);
}

static ms_result ms__log_ready(const ms__log *log, ms_error *err)
{
    if (!ms__forked(&log->file.fork_mark, log->os)) return MS_OK;
    return ms__fail(err, MS_E_FORKED,
                    "'%s' was opened by process %u, this is a child of it: open it again",
                    log->file.path, log->file.fork_mark.process);
}

/* Returns the newest valid checkpoint; zeros if none is valid, or page 0 is lost. */
static MS__ONCE ms__checkpoint ms__log_checkpoint(const ms__log *log)
{
    static const ms__checkpoint none = {0, 0, 0, 0};
    return log->file.super_lost ? none : ms__checkpoint_newest(log->map.super);
}

/* Returns the epoch in the writer's line, unchecked, loaded as one word. Readers compare
 * it; the next writer adds one to it. */
static uint32_t ms__log_line(const unsigned char *super)
{
    const void *epoch = super + MS__AT_WRITER + MS__LINE_EPOCH;
    uint32_t word = ms__load32((const uint32_t *)epoch);
    return ms__get32((const unsigned char *)&word);
}

/* Notes the watermark and the epoch of the writer's line that the handle has handled: it
 * has taken in the records, or does not trust that watermark. line: loaded before it. */
static void ms__log_seen(ms__log *log, uint64_t mark, uint32_t line)
{
    ms__store32(&log->map.seen_line, line);
    ms__store_ptr(&log->map.seen, (void *)(uintptr_t)mark);
}

/* Notes the watermark and the epoch that an opening has found, and whether salvage shows
 * records that are not proven. */
static void ms__log_found(ms__log *log, uint64_t mark, uint32_t line, bool salvaged)
{
    log->map.marked = mark;
    log->map.found_line = line;
    log->map.salvaged = salvaged;
}
