
/* ==== [log-append] room, index records, appends ====================================
 * This section changes the file: it stores records after the end, and moves the watermark
 * over them. [log-recover] finds the end, [log-sync] knows what of it is on the disk.
 * "Writing" in the essay of [log-map] has the two engines and what they cost.
 *
 * The watermark, BUSY, the hints, UNCONFIRMED, two checkpoints and the writer's line are
 * in the superblock, see [file-format]. The line has the boot and the file that the
 * watermark is of. Dead bytes are stored after the end, and no reader sees them; none is
 * at log->append.stop or after it.
 *
 * One handle writes at a time, with the lock of the file: an exclusive writer holds it
 * while it is open, a shared one for its turn. Of that handle one thread at a time, with
 * the handle's lock. Only ms__overwrite stores bytes below the end; see "Redaction" in
 * [file-format], "Erasing" in [record].
 *
 * A writer's handle is in one of three states, by what is after log->end:
 *
 *   not prepared  Perhaps dead bytes of any writer, all below `stop`. This is so after
 *                 an opening, and in a turn that cannot trust what it finds
 *                 (ms__turn_check).
 *   prepared      Zeros; and readers trust the line and the watermark.
 *                 ms__writer_prepare sets this state, and so does a turn that can trust
 *                 what it finds.
 *   refused       Not prepared, after a failed write (ms__log_dead). The dead bytes are
 *                 of this handle, so PATH.torn keeps no copy of them. A shared handle is
 *                 refused only until its next turn, which sets not prepared: then a copy
 *                 is kept.
 *
 * An append has five steps. ms__log_put does 1 to 4, ms__log_publish does 5:
 *
 *   1 room       The file has room up to the new end. A full disk is found here (where
 *                the file system cannot allocate: in 4).
 *   2 map        This handle can read up to there.
 *   3 BUSY       A shared writer stores the new end in BUSY.
 *   4 bytes      All records are stored, the last one with COMMIT.
 *   5 watermark  One word, stored with release: all records become visible.
 *
 * None of the five syncs. ms__log_append ([log-open]) takes the locks before them. After
 * them it does housekeeping, releases the locks, and syncs.
 *
 * What is left if the writer does not get beyond a step:
 *
 *        its process is killed: memory keeps    the power fails: no watermark is
 *        the watermark                          trusted, a walk finds the end, and the
 *                                               next writer is not prepared
 *   1, 2 zeros after the end                    the same, or a shorter file
 *   3    BUSY is past the watermark: the next   as for 1, 2
 *        turn is not prepared
 *   4    dead bytes: no reader sees them, and   each page is old or new. The append is
 *        the next writer zeroes them            visible if all its records are valid,
 *                                               else dead: (FF5) of [file-format]
 *   5    the append is visible                  as for 4, until a sync has ended
 *
 * An append killed in 4 may become visible if the power fails before a writer has zeroed
 * it: the walk may find it complete.
 *
 * If step 1, 2 or 3 fails, or the window of MAP, no byte of a record is stored. If a
 * write of 4 or step 5 fails, the handle is refused, and its next append zeroes what was
 * stored. A part of an append is never visible: readers stop at the watermark, a walk
 * stops after the last COMMIT.
 *
 * A handle that is not prepared first does the steps of ms__writer_prepare. Their order
 * follows from two rules. No append is visible before the dead bytes are zero on the
 * disk: (LM9) of [log-map]. The line that makes readers trust a watermark is stored after
 * that watermark.
 *
 *    1 MS_E_BUSY while another thread syncs: (LS3) of [log-sync]. Appends do not meet
 *      that: ms__append_begin has waited. Housekeeping may, and tries again later.
 *    2 Bounds the dead bytes by the size of the file, and allocates up to there: on tmpfs
 *      even reading a hole through a map needs space.
 *    3 Measures the dead bytes, up to the last byte that is not zero. With UNCONFIRMED
 *      all room up to `stop` counts: zeros in memory need not be zeros on the disk.
 *    4 Zeroes them, and waits until the zeros are on the disk (ms__log_settle): 0.5 ms
 *      with a write that is synced by itself, 209 ms with a sync of a file that has 720
 *      MB of unsynced messages. UNCONFIRMED is set meanwhile, so that another writer does
 *      this again if this one is killed.
 *    5 In a sync mode, syncs the visible bytes that are not proven durable: the next
 *      record then carries SYNCED. (That proves to a later walk that all before it was on
 *      the disk.)
 *      In every mode it does so if the writer before saw another boot number. After a
 *      restart that costs little, since no page is dirty.
 *      And in every mode if the handle has found damage: after a restart SYNCED proves
 *      that it is no torn append.
 *    6 Makes room for a LOST record, so that step 12 finds no full disk.
 *    7 MAP: writes by calls the two blocks that it later stores to through maps.
 *    8 Stores BUSY. An exclusive writer stores 2^64 - 1: if it is killed, a shared writer
 *      is not prepared. Before it that writer stores SYNCING: 1 if it still has to write
 *      bytes again for a writer before it.
 *    9 Stores the hints and the watermark of this handle.
 *   10 Stores the writer's line but for its last word.
 *   11 Stores the last word, epoch and check: readers trust the line, and with it 9.
 *   12 Where visible bytes are missing, appends a LOST record, and syncs it with a new
 *      checkpoint.
 *
 * A step that fails leaves the handle not prepared, and the next append begins at 1. (A
 * sync that fails also poisons the handle, see [log-sync].) A failed 11 stores the old
 * last word again. A failed 12 makes the handle refused, and is tried again.
 *
 * Until 10 the line is as it was. If the line was trusted, so is the watermark of 9, and
 * it is right. Step 10 makes the line invalid, unless boot and file stay the same; then
 * the line stays valid with the old epoch. A writer killed between 10 and 11 leaves an
 * invalid line: the next opening walks, as after a power loss. A power loss leaves any
 * mixture of these words, and it does not matter: the line has the number of a boot that
 * has ended, or 0. The walk needs only records and a checkpoint, which has its own check.
 *
 * Index records. An append that fills a segment is followed by housekeeping
 * (ms__log_housekeep). A segment index, a FILTER and a SUMMARY are each an append of
 * their own, with COMMIT: a crash between two of them leaves the first. The hints are
 * stored after the segment index; without them the next opening begins at an older one. A
 * SUMMARY is made in portions (ms__summary_build_step): 32 segment indexes are looked up,
 * the FILTERs are appended, then the SUMMARY, which has their places. Nothing refers to
 * FILTERs whose SUMMARY is missing, and the next handle appends new ones.
 * ================================================================================== */

#define MS__HOLES_MOST ((uint64_t)8 << 20) /* bytes of a sparse file that are allocated */

/* Sets BUSY: shows other writers how far this writer may store bytes. */
static ms_result ms__log_busy_to(ms__log *log, uint64_t upto, ms_error *err)
{
    if (!log->opts.shared) return MS_OK;
    int failed = ms__super_word(log, MS__AT_BUSY, upto);
    ms__fence();
    if (failed == 0) return MS_OK;
    return ms__os_fail(err, failed, "writing to the superblock of", log->file.path);
}

/* Allocates room in the file up to `upto`. It asks for less on a disk that is nearly
 * full: with room ahead, up to a page, exactly. A file system that cannot allocate is
 * written by calls, which report a full disk themselves. MAP: writes zeros there, since a
 * store into a page without disk blocks may raise SIGBUS. Nothing visible changes.
 *
 * Linux 6.18 caches what one call writes as one large page, and the first store into it
 * costs by its size. With steps of 2 MiB, not 256 KiB, an append would take 8.9 us, not
 * 1.8, and a message of one conversation of 1,000,000 a new process 1.5 us, not 3.8. */
static ms_result ms__log_allocate(ms__log *log, uint64_t upto, ms_error *err)
{
    if (upto <= log->append.allocated) return MS_OK;
    uint64_t from = log->append.allocated > log->end ? log->append.allocated : log->end;
    uint64_t ahead = from / 4 & ~(MS__GRAIN - 1);
    if (ahead < MS__ROOM_LEAST) ahead = MS__ROOM_LEAST;
    if (ahead > MS__ROOM_MOST) ahead = MS__ROOM_MOST;
    if (log->os->exact_maps && ahead < from) ahead = from; /* each step adds a map */
    uint64_t goal = upto, goals[3]; /* with room ahead, rounded to a page, exact */
    goals[0] = (upto + ahead) & ~(MS__ROOM_LEAST - 1);
    goals[1] = (upto + 4095) & ~(uint64_t)4095;
    goals[2] = upto;
    int code = ENOSPC;
    for (int i = 0; i < 3 && (code == ENOSPC || code == MS__EDQUOT || code == EFBIG);
         i++) {
        goal = goals[i] < upto ? upto : goals[i];
        code = ms__os_allocated(log->os, log->file.handle, from, goal - from);
    }
    if (ms__os_no_allocate(code)) {
        log->append.no_allocate = true;
        log->append.engine = MS_ENGINE_WRITE;
        code = 0;
    }
    uint64_t clear = (log->end + 4095) & ~(uint64_t)4095; /* before it are records */
    if (code == 0 && log->append.engine == MS_ENGINE_MAP)
        code = ms__log_zero(log, from > clear ? from : clear, goal);
    if (code != 0)
        return ms__os_fail_at(err, code, "allocating room in", log->file.path, from);
    log->append.allocated = goal;
    return MS_OK;
}

static void ms__window_close(ms__log *log)
{
    if (log->append.window)
        (void)log->os->unmap(log->os->ctx, log->append.window, log->append.window_size);
    log->append.window = NULL;
    log->append.window_size = 0;
}

/* MAP: moves the writable window so that it covers [from, upto), which is allocated. */
static ms_result ms__window_reach(ms__log *log, uint64_t from, uint64_t upto,
                                  ms_error *err)
{
    if (log->append.window && from >= log->append.window_start &&
        upto <= log->append.window_start + log->append.window_size)
        return MS_OK;
    ms__window_close(log);
    uint64_t start = from & ~(MS__GRAIN - 1), size = MS__WINDOW;
    void *window = NULL;
    if (upto - start > size) size = upto - start;
    int code = size > SIZE_MAX / 2
                   ? ENOMEM
                   : log->os->map(log->os->ctx, log->file.handle, start, (size_t)size,
                                  MS_OS_READ | MS_OS_WRITE, &window);
    if (code != 0)
        return ms__os_fail_at(err, code, "mapping for writing", log->file.path, start);
    log->append.window = (unsigned char *)window;
    log->append.window_start = start;
    log->append.window_size = (size_t)size;
    return MS_OK;
}

/* Makes the handle refused: the bytes from log->end to `end` may be dead, that is stored
 * and never visible. The next append zeroes them first. */
static void ms__log_dead(ms__log *log, uint64_t end)
{
    log->append.prepared = false;
    log->append.refused = true;
    if (log->append.stop < end) log->append.stop = end;
}

/* Does steps 1 to 4 of an append: stores complete records at offset, the end. Nothing is
 * visible yet. */
static ms_result ms__log_put(ms__log *log, uint64_t offset, const unsigned char *bytes,
                             size_t size, ms_error *err)
{
    /* 1 */
    MS__TRY(ms__log_allocate(log, offset + size, err));
    /* 2 */
    MS__TRY(ms__log_reach(log, offset, offset + size, log->append.allocated, err));
    /* 3 */
    MS__TRY(ms__log_busy_to(log, offset + size, err));
    /* 4 */
    if (log->append.engine == MS_ENGINE_MAP) {
        MS__TRY(ms__window_reach(log, offset, offset + size, err));
        memcpy(log->append.window + (offset - log->append.window_start), bytes, size);
        return MS_OK;
    }
    int code = ms__os_write_all(log->os, log->file.handle, offset, bytes, size);
    if (code == 0) return MS_OK;
    ms__log_dead(log, offset + size); /* a part may be written */
    return ms__os_fail_at(err, code, "writing to", log->file.path, offset);
}

/* Does step 5: makes the bytes before `end` visible to all readers. The word may be
 * stored although the call failed; then the append has succeeded. If not, the word may be
 * torn: it is stored again with the old end, and the bytes are dead. */
static ms_result ms__log_publish(ms__log *log, uint64_t end, ms_error *err)
{
    int failed = ms__super_word(log, MS__AT_MARK, end);
    if (failed != 0 && ms__load_mark(log->map.super + MS__AT_MARK) != end) {
        (void)ms__super_word(log, MS__AT_MARK, log->end);
        ms__log_dead(log, end);
        (void)ms__log_zero(log, log->end, end); /* at once if possible */
        return ms__os_fail(err, failed, "writing the watermark of", log->file.path);
    }
    log->end = end;
    log->append.wrote = true;
    if (log->opts.shared) ms__log_seen(log, end, ms__log_line(log->map.super));
    return MS_OK;
}

/* Returns the end of the last byte that is not zero, from x on; x if all are zero. */
static MS__ONCE uint64_t ms__log_dead_end(const ms__log *log, uint64_t x)
{
    if (log->append.stop <= x) return x;
    const unsigned char *p = ms__log_at(log, x);
    uint64_t n = log->append.stop - x;
    ms__log_populate(log, x, n);
    while (n % 8 != 0 && p[n - 1] == 0) n--;
    if (n % 8 != 0) return x + ms__align8(n);
    while (n > 0 && ms__get64(p + n - 8) == 0) n -= 8;
    return x + n;
}

static int ms__hints_store(ms__log *log)
{
    unsigned char bytes[16];
    ms__put64(bytes, log->index.hint);
    ms__put64(bytes + 8, log->index.hint_before);
    return ms__super_write(log, MS__AT_HINT, bytes, sizeof bytes);
}

/* Seals a record of the log's own at the end of the file, and makes it visible. */
static ms_result ms__record_put(ms__log *log, unsigned char *r, ms_error *err)
{
    uint32_t size = ms__padded(ms__get32(r));
    ms__seal_at(log->id.crc, log->end, r);
    MS__TRY(ms__log_put(log, log->end, r, size, err));
    return ms__log_publish(log, log->end + size, err);
}

/* Returns whether the last segment is a clustered one without an index in the file. */
static bool ms__last_clustered(const ms__log *log)
{
    uint32_t n = log->index.segments.n;
    const ms__segment *l =
        n > 0 ? (const ms__segment *)ms__node_entry(&log->index.segments, n - 1)->node
              : NULL;
    return l && l->own && l->clustered;
}

/* Takes in a LOST record, of [offset, end). After such a segment it belongs to that, and
 * may have had any of its numbers: the tail begins after the record. */
static void ms__lost_entered(const ms__log *log, uint64_t offset, uint64_t end)
{
    ms__tail *t = ms__tail_of(log);
    if (t->filled == 0 && t->base == offset && ms__last_clustered(log)) t->base = end;
}

/* Writes a LOST record, which notes that visible bytes are missing, and syncs it with a
 * new checkpoint. Until then an old checkpoint may be above the end: it shows the loss to
 * each opening, and would make a torn append look damaged. */
static MS__NOINLINE MS__RARE ms_result ms__lost_write(ms__log *log, ms_error *err)
{
    unsigned char r[MS__LOST_SIZE];
    ms__lost_encode(log->append.lost_end, log->sum.last_seq, r);
    uint64_t offset = log->end;
    if (!log->append.lost_written) {
        MS__TRY(ms__record_put(log, r, err));
        ms__lost_entered(log, offset, log->end);
        log->append.lost_written = true;
    }
    MS__TRY(ms__log_sync_now(log, false, true, err));
    log->append.lost_synced = true;
    return MS_OK;
}

/* MAP: writes what they have to the two blocks that it next stores to through maps. A
 * copy of a file may share its blocks with the original until they are written; a call
 * can report a full disk, a store cannot. */
static MS__RARE int ms__blocks_own(ms__log *log)
{
    unsigned char mark[8];
    if (log->append.engine != MS_ENGINE_MAP) return 0;
    memcpy(mark, log->map.super + MS__AT_MARK, sizeof mark);
    int failed =
        ms__os_write_all(log->os, log->file.handle, MS__AT_MARK, mark, sizeof mark);
    uint64_t page = (log->end + 4095) & ~(uint64_t)4095;
    if (failed != 0 || page == log->end) return failed;
    return ms__log_zero(log, page - 8, page); /* these bytes are zero already */
}

/* Allocates the page of the superblock, and the holes of a sparse copy, before anything
 * is stored through a map: in a hole that may raise SIGBUS. On tmpfs a load from a map
 * may, too. A file with more holes than MS__HOLES_MOST is written by calls. */
static MS__RARE ms_result ms__holes_fill(ms__log *log, ms_error *err)
{
    uint64_t size = MS__SUPER_SIZE, holes = log->file.stat.holes;
    if (holes > 0 && holes <= MS__HOLES_MOST) size = log->file.stat.size;
    int failed = ms__os_allocated(log->os, log->file.handle, 0, size);
    bool full = failed == ENOSPC || failed == MS__EDQUOT;
    if (failed == EFBIG || (full && size > MS__SUPER_SIZE))
        return ms__os_fail(err, failed, "allocating room in", log->file.path);
    if (failed != 0 || holes > MS__HOLES_MOST) log->append.engine = MS_ENGINE_WRITE;
    return MS_OK;
}

/* Allocates the bytes after the end, which the handle reads through a map and stores to:
 * `holes` of a stat may leave out a small one. */
static MS__RARE ms_result ms__room_fill(ms__log *log, ms_error *err)
{
    uint64_t from = log->end & ~(uint64_t)4095;
    if (log->append.stop <= from || log->append.stop - from > MS__HOLES_MOST)
        return MS_OK;
    int failed = ms__os_allocated(log->os, log->file.handle, from,
                                  log->append.stop - from);
    if (failed == EFBIG) log->append.allocated = log->end; /* each append tries again */
    if (failed != ENOSPC && failed != MS__EDQUOT) return MS_OK;
    return ms__os_fail_at(err, failed, "allocating room in", log->file.path, from);
}

/* Prepares the first write of a handle, or of a turn that is not prepared. The numbers
 * are those of the essay. */
static MS__NOINLINE MS__RARE ms_result ms__writer_prepare(ms__log *log, ms_error *err)
{
    ms_os_stat st;
    ms__writer_line w;
    unsigned char line[MS__LINE_SIZE];
    if (log->append.prepared) return MS_OK;
    /* 1: the kernel reports an error to only one of two syncs */
    if (log->durable.syncing)
        return ms__fail(err, MS_E_BUSY, "another thread syncs '%s'", log->file.path);
    /* 2 */
    bool unsure = ms__log_unconfirmed(log);
    int failed = log->os->stat(log->os->ctx, log->file.handle, &st);
    if (failed != 0) return ms__os_fail(err, failed, "stat of", log->file.path);
    if (log->append.stop > st.size) log->append.stop = st.size;
    MS__TRY(ms__room_fill(log, err));
    /* 3 */
    uint64_t dead = ms__log_dead_end(log, log->end);
    if (unsure && log->append.stop > dead) dead = log->append.stop;
    /* 4 */
    if (unsure || dead > log->end) MS__TRY(ms__log_settle(log, dead, err));
    /* 5 */
    bool other_boot = !ms__may_be_of_boot(log) &&
                      log->durable.end < log->durable.unproven_end;
    if (other_boot || ms__log_must_prove(log))
        MS__TRY(ms__log_sync_now(log, false, false, err));
    /* 6 */
    MS__TRY(ms__log_allocate(log, log->end + MS__LOST_SIZE, err));
    MS__TRY(ms__log_reach(log, log->end, log->end + MS__LOST_SIZE, log->append.allocated,
                          err));
    w.boot = log->file.boot;
    w.device = log->file.stat.device;
    w.inode = log->file.stat.inode;
    w.epoch = ms__log_line(log->map.super) + 1;
    ms__writer_encode(&w, line);
    uint64_t busy = log->opts.shared ? log->end : UINT64_MAX;
    /* 7 */
    failed = ms__blocks_own(log);
    /* 8: SYNCING first, BUSY makes it count */
    if (failed == 0 && !log->opts.shared)
        failed = ms__super_word(log, MS__AT_SYNCING, ms__log_owes(log));
    if (failed == 0) failed = ms__super_word(log, MS__AT_BUSY, busy);
    /* 9: hints of before a power loss may point at dead bytes */
    if (failed == 0) failed = ms__hints_store(log);
    if (failed == 0) failed = ms__super_word(log, MS__AT_MARK, log->end);
    /* 10 */
    if (failed == 0) failed = ms__super_write(log, MS__AT_WRITER, line, MS__LINE_EPOCH);
    /* 11: a reader that sees the epoch sees the watermark and the hints of 9 */
    uint32_t at = MS__AT_WRITER + MS__LINE_EPOCH;
    uint64_t before = ms__get64(log->map.super + at);
    if (failed == 0) {
        failed = ms__super_word(log, at, ms__get64(line + MS__LINE_EPOCH));
        if (failed != 0) /* it may be torn: readers trusted the line as it was */
            (void)ms__super_word(log, at, before);
    }
    if (failed != 0)
        return ms__os_fail(err, failed, "writing to the superblock of", log->file.path);
    log->append.prepared = true;
    log->append.wrote = true;
    if (log->opts.shared) ms__log_seen(log, log->end, ms__log_line(log->map.super));
    /* 12 */
    if (!log->append.lost_written && log->append.lost_end <= log->end) return MS_OK;
    if (log->append.lost_synced) return MS_OK;
    ms_result code = ms__lost_write(log, err);
    if (code != MS_OK) ms__log_dead(log, log->end + MS__LOST_SIZE); /* tries it again */
    return code;
}

/* Stores bytes below the end; only erasing calls it. */
static ms_result ms__overwrite(ms__log *log, uint64_t offset, const unsigned char *bytes,
                               size_t size, ms_error *err)
{
    int failed = ms__os_write_anew(log->os, log->file.handle, offset, bytes, size);
    log->append.wrote = true;
    log->append.erasures++;
    ms__durable_below(log, offset);
    if (failed == 0) return MS_OK;
    return ms__os_fail_at(err, failed, "writing to", log->file.path, offset);
}

/* Notes that the file had visible bytes up to `end`, and is shorter now; 0: it is not. */
static void ms__log_lost(ms__log *log, uint64_t end)
{
    log->append.lost_end = end;
    log->append.lost_written = log->append.lost_synced = false;
}

/* Sets the state: prepared, or not prepared with dead bytes that end at `stop` at the
 * latest. */
static void ms__prepared_set(ms__log *log, bool prepared, uint64_t stop)
{
    log->append.prepared = prepared;
    log->append.refused = false;
    log->append.stop = stop;
}

/* ---- INDEX records. A segment index when the segment is full; a SUMMARY in portions. */

static ms__state ms__log_state(const ms__log *log)
{
    ms__state s = log->sum;
    s.summary = 0;
    s.summaries = log->index.summaries.n;
    if (s.summaries > 0)
        s.summary = ms__node_entry(&log->index.summaries, s.summaries - 1)->offset;
    return s;
}

/* Writes the segment index of the tail and begins the next segment. Without memory or
 * room the tail goes on growing, and a later append tries again. */
static MS__NOINLINE ms_result ms__segment_write(ms__log *log, ms_error *err)
{
    ms__tail *t = ms__tail_of(log);
    uint32_t size, now;
    uint64_t offset = log->end;
    if (t->count == 0 || !ms__tail_slot(log, &now)) return MS_OK;
    MS__TRY(ms__writer_prepare(log, err));
    if (!ms__nodes_reserve(log, &log->index.segments, t->segment))
        return ms__no_memory(err, 0);
    ms__state state = ms__log_state(log);
    unsigned char *r =
        ms__segment_make(log, t, log->map.cluster != 0, &state, &size);
    if (!r) return ms__no_memory(err, size);
    ms__tail *fresh = ms__tail_new(log, log->end + ms__padded(size), t->segment + 1);
    ms_result code = fresh ? MS_OK : ms__no_memory(err, sizeof *fresh);
    if (code == MS_OK) code = ms__record_put(log, r, err);
    if (code == MS_OK) {
        ms__segment_close(log, offset, fresh, now, true);
        (void)ms__hints_store(log); /* or opening begins at an older one */
    } else if (fresh) {
        ms__tail_free(log, fresh);
    }
    (void)ms__log_resize(log, r, ms__padded(size), 0);
    return code;
}

static void ms__summary_build_end(ms__log *log)
{
    ms__summary_build *b = &log->index.build;
    size_t size = (size_t)ms__align8(ms__summary_size(&b->sum));
    if (b->record) (void)ms__log_resize(log, b->record, size, 0);
    memset(b, 0, sizeof *b);
}

/* Looks up the next segment index for the SUMMARY. After the last one the number of
 * FILTERs is known. */
static MS__NOINLINE ms_result ms__summary_build_segment(ms__log *log,
                                                        ms__summary_build *b,
                                                        ms_error *err)
{
    uint32_t most = 0;
    b->segment[b->segments] =
        ms__segment_valid(log, b->sum.number * MS__FAN + b->segments, true, true);
    if (!b->segment[b->segments]) return ms__no_memory(err, sizeof(ms__segment));
    if (b->segments + 1 < MS__FAN) {
        b->segments++;
        return MS_OK;
    }
    for (unsigned c = 0; c < MS__FAN; c++)
        if (b->segment[c]->lists > most) most = b->segment[c]->lists;
    for (b->sum.bits = 0; most >> b->sum.bits > MS__ROW_LISTS;) b->sum.bits++;
    size_t size = (size_t)ms__align8(ms__summary_size(&b->sum));
    unsigned char *r = (unsigned char *)ms__log_resize(log, NULL, 0, size);
    if (!r) return ms__no_memory(err, size);
    b->record = r;
    return MS_OK;
}

/* Writes the next FILTER. */
static MS__NOINLINE ms_result ms__summary_build_filter(ms__log *log, ms__summary_build *b,
                                                       ms_error *err)
{
    unsigned char r[MS__FILTER_SIZE];
    uint32_t at[MS__FAN];
    uint64_t offset = log->end;
    memset(r, 0, sizeof r);
    ms__own_header(r, sizeof r, MS__KIND_INDEX, MS__INDEX_FILTER, log->sum.last_seq);
    ms__put32(r + MS__HEADER, b->sum.number);
    ms__put32(r + MS__HEADER + 4, b->filters);
    for (unsigned c = 0; c < MS__FAN; c++) {
        const ms__segment *l = b->segment[c];
        for (at[c] = b->at[c]; at[c] < l->lists; at[c]++) {
            uint64_t list = ms__segment_list(l, at[c]);
            if (ms__filter_of(list, b->sum.bits) != b->filters) break;
            ms__filter_put(r, list, c);
        }
        /* its lost records may have been in any list: each word gets its bit */
        for (unsigned word = 0; ms__segment_lost(l) > 0 && word < 256; word++)
            ms__probe_set(ms__probe(r, word, 0), c);
    }
    MS__TRY(ms__record_put(log, r, err));
    memcpy(b->at, at, sizeof at);
    ms__put64(b->record + ms__summary_size(&b->sum) - ((size_t)8 << b->sum.bits) +
                  (size_t)b->filters * 8,
              offset);
    b->filters++;
    return MS_OK;
}

/* Writes the SUMMARY, after all of its FILTERs. */
static MS__NOINLINE ms_result ms__summary_build_write(ms__log *log, ms__summary_build *b,
                                                      ms_error *err)
{
    ms__node_table *t = &log->index.summaries;
    uint32_t g = b->sum.number;
    uint64_t offset = log->end;
    if (!ms__nodes_reserve(log, t, g)) return ms__no_memory(err, 0);
    ms__own_header(b->record, ms__summary_size(&b->sum), MS__KIND_INDEX,
                   MS__INDEX_SUMMARY, log->sum.last_seq);
    ms__put32(b->record + MS__HEADER, g);
    ms__put32(b->record + MS__HEADER + 4, b->sum.bits);
    ms__put64(b->record + MS__HEADER + 8, 0);
    ms__list_encode(&log->index.segments, g * MS__FAN, MS__FAN,
                    b->record + MS__SUM_FIXED);
    ms__list_encode(t, 0, g, b->record + MS__SUM_FIXED + MS__FAN * 8);
    MS__TRY(ms__record_put(log, b->record, err));
    ms__summary_add(log, g, offset);
    ms__summary_build_end(log);
    return MS_OK;
}

/* Does a portion of the SUMMARY that is in the making, or due. *more: work is left. */
static ms_result ms__summary_build_step(ms__log *log, bool *more, ms_error *err)
{
    ms__summary_build *b = &log->index.build;
    uint32_t g = log->index.summaries.n;
    *more = false;
    if (!log->append.wrote || (log->opts.shared && !log->index.merges)) return MS_OK;
    if (b->segments > 0 && b->sum.number != g) ms__summary_build_end(log); /* another
                                                                              did it */
    if (log->index.segments.n / MS__FAN <= g) return MS_OK;
    MS__TRY(ms__writer_prepare(log, err)); /* again, if a watermark could not be
                                              written */
    *more = true;
    b->sum.number = g;
    if (!b->record) return ms__summary_build_segment(log, b, err);
    if (b->filters >> b->sum.bits == 0) return ms__summary_build_filter(log, b, err);
    return ms__summary_build_write(log, b, err);
}

/* Does housekeeping after an append, in small portions. Without room or memory the append
 * succeeds all the same, and a later call tries again. */
static void ms__log_housekeep(ms__log *log)
{
    bool more;
    ms__tail *t = ms__tail_of(log);
    bool full = log->end - t->base >= log->opts.segment_size ||
                t->count >= MS__SEGMENT_RECORDS;
    if (full && !log->map.cluster)
        if (log->end >= log->index.segment_retry_end &&
            ms__segment_write(log, NULL) != MS_OK)
            log->index.segment_retry_end =
                log->end + log->opts.segment_size / 8; /* do not try at each append */
    if (!log->opts.ticked) (void)ms__summary_build_step(log, &more, NULL);
}

/* ---- Appending: the functions that [append] calls for a log. ms__core_append calls
 * ms__log_room for each record, then ms__run_publish. Records are encoded in the staging
 * buffer and copied to the file when the run is complete, so a failed append has stored
 * nothing. (Encoding a single record in the window would save 2 to 4 percent.) */

static const unsigned char *ms__log_at_core(const ms__core *core, uint64_t offset)
{
    return ms__log_at((const ms__log *)(const void *)core, offset);
}

static ms_result ms__log_room(ms__core *core, ms__append_run *run, uint32_t size,
                              unsigned char **r, ms_error *err)
{
    ms__log *log = ms__log_in(core);
    size_t old = (size_t)(run->offset - run->start);
    if (!ms__staging_reach(log, old + size)) return ms__no_memory(err, old + size);
    *r = log->map.staging + old;
    return MS_OK;
}

static unsigned char *ms__log_written(const ms__core *core, const ms__append_run *run,
                                      uint64_t offset)
{
    const ms__log *log = (const ms__log *)(const void *)core;
    return log->map.staging + (offset - run->start);
}

static ms_result ms__run_publish(ms__core *core, const ms__append_run *run, ms_error *err)
{
    ms__log *log = ms__log_in(core);
    size_t size = (size_t)(run->offset - run->start);
    MS__TRY(ms__log_put(log, run->start, log->map.staging, size, err));
    return ms__log_publish(log, run->offset, err);
}

static ms_result ms__log_no_room(const ms__core *core, uint64_t size, ms_error *err)
{
    (void)core;
    return ms__no_memory(err, size);
}

static MS__NOINLINE ms_result ms__log_append_run(ms__log *log, ms__append_run *run,
                                                 ms__plan *plans, ms_error *err)
{
    const ms__tail_names *names = &log->core.tail->names;
    uint64_t messages = names->messages, bytes = names->bytes;
    uint64_t changes = names->changes, hidden = names->hidden;
    if (!log->append.prepared) MS__TRY(ms__writer_prepare(log, err));
    uint64_t last = log->sum.last_seq;
    if (log->map.cluster) last = log->map.floor;
    ms__run_begin(run, &log->opts.clock, !log->opts.keep_unset_times, last,
                  log->sum.gap_seq);
    run->start = run->offset = log->end;
    run->max_message = log->opts.max_message;
    run->cluster = log->map.cluster;
    run->first_flags = log->durable.end >= log->end ? MS_FLAG_SYNCED : 0;
    ms_result code = ms__core_append(&log->core, run, plans, err);
    log->sum.messages += names->messages - messages;
    log->sum.bytes += names->bytes - bytes;
    log->sum.changes += names->changes - changes;
    log->sum.hidden += names->hidden - hidden;
    if (names->messages > messages && log->sum.last_seq < names->last_seq)
        log->sum.last_seq = names->last_seq;
    return code;
}
