
/* ==== [log-sync] the lock of a log, and what is durable ============================
 * This section answers two questions: may this handle write, and which bytes does the
 * disk have?
 *
 *   0 ......... durable.end ............ end ................... end of the file
 *     durable       |     visible, unsynced  |     room: zeros
 *
 * An append moves `end`, and a sync moves durable.end to where `end` was when the sync
 * began. One sync, as its thread runs it:
 *
 *    idle --> gathering --> the disk works --> checkpoint stored --> durable.end moves
 *     ^                        |                   |       ^                 |
 *     |                        | fails    explicit |       | a second sync   |
 *     |                        v                   v       |                 |
 *     |                     poisoned <--- fails -- the disk works            |
 *     +----------------------------------------------------------------------+
 *
 * One sync serves many threads. The disk works outside the append lock. A thread that
 * arrives meanwhile waits until that sync ends, and the next sync covers all of them. If
 * several threads waited lately, a thread lets the others append before its sync begins
 * (ms__log_gather): of 8 threads 7.7 then share a sync.
 *
 * The durable part must be provable after a power loss, when the watermark is not
 * trusted. Recovery then ends at the first invalid byte, unless there is proof that the
 * bytes after it were durable ((FF4) of [file-format]). There are two proofs:
 *   - A checkpoint that is itself on the disk. An explicit sync and a close sync theirs.
 *     Any other checkpoint reaches the disk with the sync after it.
 *   - The flag SYNCED in a later record. An append sets it when all before it is durable.
 * A handle may find visible bytes above the durable end, which another process appended,
 * and damage in them that it does not notice. So in a sync mode it syncs them before its
 * first append (unproven_end, ms__writer_prepare), which then carries SYNCED.
 *
 * A failed sync is final: the kernel may call the pages clean that it could not write, so
 * that the next sync would succeed and write nothing. The handle is poisoned. The visible
 * bytes above the durable end are written once more before a later sync counts
 * (ms__log_rewrite_range). Two handles have to do that:
 *   - One that opened the file in the boot of its last writer, before its first sync, if
 *     that writer may have been killed in a sync, before it noticed whether it failed.
 *     SYNCING in the superblock shows that of an exclusive writer. The syncs of shared
 *     ones run at the same time, and one word cannot show them: there each killed writer
 *     counts. A writer that closed the log has left nothing above the durable end. After
 *     a restart nothing is in doubt: what a read returns then came from the disk.
 *   - One that was open when another process noticed the failure. The superblock shows
 *     that (MS__AT_UNCONFIRMED), until a writer has settled the file before its next
 *     append (ms__log_settle).
 * A handle that never syncs writes nothing again, and neither does one after an exclusive
 * writer that was killed between two syncs: a million messages of 700 bytes would take
 * 370 ms. Linux (from 4.16) reports an error of its own writing back at the next sync of
 * any handle, unless a sync has reported it before.
 *
 * (LS1) durable.end moves up in ms__durable_move alone, after a sync that began when
 *      `end` was at least there. It moves down where bytes are erased.
 * (LS2) The poisoned state is set in ms__log_refuse alone and never left.
 * (LS3) One sync of a handle works at a time, since Linux reports a failed write to only
 *      one of two. A first append, which may sync, waits for one that works
 *      (ms__append_begin); ms__writer_prepare is refused while one works.
 * ================================================================================== */

static MS__ONCE ms_result ms__log_may_write(const ms__log *log, ms_error *err)
{
    MS__TRY(ms__log_ready(log, err));
    if (log->writer) return MS_OK;
    return ms__fail(err, MS_E_READ_ONLY, "'%s' was opened for reading", log->file.path);
}

static ms_result ms__log_poison_check(const ms__log *log, ms_error *err)
{
    if (!log->durable.poisoned) return MS_OK;
    return ms__fail(err, MS_E_POISONED,
                    "a sync of '%s' failed: what is durable after byte %u is not known; "
                    "close it and open it again",
                    log->file.path, log->durable.end);
}

static bool ms__log_is(const ms__log *log, const ms_os_stat *st)
{
    return st->device == log->file.stat.device && st->inode == log->file.stat.inode;
}

/* Returns whether the path still names the open file. Another process may have renamed a
 * file to it before this one had the lock. */
static bool ms__log_in_place(const ms__log *log)
{
    ms_os_stat st;
    int code = ms__os_look(log->os, log->file.path, &st);
    return code == 0 ? ms__log_is(log, &st) : code != ENOENT; /* others: unknown */
}

/* Refuses records from the moment a rewrite copies this log to replace it: the copy would
 * lack them. */
static ms_result ms__replaced_check(const ms__log *log, ms_error *err)
{
    if (ms__get32(log->map.super + MS__AT_REPLACED) == 0) return MS_OK;
    return ms__fail(err, MS_E_CONFLICT,
                    "a rewrite replaces '%s' by a new file: close it and open it again",
                    log->file.path);
}

static ms_result ms__log_busy(const ms__log *log, ms_error *err)
{
    unsigned char pid[8] = {0};
    size_t got = 0;
    (void)ms__os_read_all(log->os, log->file.handle, MS__AT_PID, pid, sizeof pid, &got);
    if (ms__get64(pid) == 0)
        return ms__fail(err, MS_E_BUSY, "'%s' is being written by another process",
                        log->file.path);
    return ms__fail(err, MS_E_BUSY,
                    "'%s' is being written by process %u, or by a child of it: "
                    "lock_wait_ms waits for that; writers that all open it as shared "
                    "take turns",
                    log->file.path, ms__get64(pid));
}

/* Takes the writer's lock. Shared writers hold it for some microseconds, so a shared
 * handle tries several times at once before it pauses. */
static ms_result ms__log_lock(ms__log *log, ms_error *err)
{
    uint64_t start = 0;
    for (uint32_t tries = 0;; tries++) {
        int code = log->os->lock(log->os->ctx, log->file.handle);
        if (code == 0) return MS_OK;
        if (code == EAGAIN && log->opts.shared && tries < MS__LOCK_TRIES) continue;
        uint64_t now = log->os->micros(log->os->ctx);
        if (tries == 0 || start == 0) start = now;
        if (code == EINTR) continue;
        if (code != EAGAIN) return ms__os_fail(err, code, "locking", log->file.path);
        if (now - start >= (uint64_t)log->opts.lock_wait_ms * 1000)
            return ms__log_busy(log, err);
        log->os->sleep(log->os->ctx, log->opts.shared ? MS__LOCK_PAUSE : 1000);
    }
}

/* ---- The durable end. */

/* Sets the durable end of a file that was just read: that of the newest checkpoint, or
 * `proven`, which a record with SYNCED showed. unsure: a sync of the last writer may have
 * failed since the machine started. */
static void ms__durable_begin(ms__log *log, const ms__checkpoint *checkpoint,
                              uint64_t proven, bool unsure)
{
    ms__log_durable *d = &log->durable;
    d->end = checkpoint->end < log->end ? checkpoint->end : log->end;
    if (proven > d->end && proven <= log->end) d->end = proven;
    d->seq = checkpoint->seq;
    d->confirmed = 0;
    d->unproven_end = log->end > MS__FIRST_RECORD ? log->end : 0;
    d->rewrite_range_end = unsure ? d->unproven_end : 0;
}

/* Notes that a sync which began when the log ended at `end` has succeeded. It does not
 * cover bytes that were erased meanwhile. */
static void ms__durable_move(ms__log *log, uint64_t end, uint64_t seq)
{
    if (log->durable.syncing && end > log->durable.erased) end = log->durable.erased;
    if (end > log->durable.end) log->durable.end = end;
    if (seq > log->durable.seq) log->durable.seq = seq;
}

/* Lowers the durable end to offset: bytes from there on were written again. */
static void ms__durable_below(ms__log *log, uint64_t offset)
{
    if (log->durable.end > offset) log->durable.end = offset;
    if (log->durable.erased > offset) log->durable.erased = offset;
}

/* Notes that the handle found damage: the visible bytes are unproven up to the end. */
static void ms__durable_unproven(ms__log *log)
{
    if (!log->map.super_now) log->durable.damage = true; /* an opening */
    log->durable.unproven_end = log->end;
}

/* Returns whether the sync mode, or damage, requires a sync before the next append, so
 * that the append carries SYNCED. */
static bool ms__log_must_prove(const ms__log *log)
{
    bool proves = log->opts.sync != MS_SYNC_NONE || log->durable.damage;
    return proves && log->durable.end < log->durable.unproven_end;
}

static bool ms__sync_due(const ms__log *log)
{
    if (log->opts.sync == MS_SYNC_NONE || log->end <= log->durable.end) return false;
    if (log->opts.sync == MS_SYNC_EACH) return true;
    if (log->end - log->durable.end >= log->opts.sync_bytes) return true;
    return log->os->micros(log->os->ctx) - log->durable.synced_at >=
           (uint64_t)log->opts.sync_ms * 1000;
}

#define MS__BOOT_UNKNOWN 1 /* in place of a boot number */

/* Returns whether a sync failed, or zeroing is unfinished, perhaps in this boot. Then the
 * content of the disk above the durable end is unknown. The stored boot number is not
 * compared: containers on one machine see different ones. */
static bool ms__log_unconfirmed(const ms__log *log)
{
    return ms__get64(log->map.super + MS__AT_UNCONFIRMED) != 0;
}

/* Returns whether the last writer may have written since the machine started: unless
 * both boots are known and differ. */
static bool ms__may_be_of_boot(const ms__log *log)
{
    ms__writer_line w;
    bool known = log->file.boot != 0 && ms__writer_decode(&w, log->map.super);
    return !known || w.boot == 0 || w.boot == log->file.boot;
}

/* Returns whether a sync of the last writer may have failed unnoticed since the machine
 * started: the writer was killed in it, or was a shared one, or had found the file so. An
 * exclusive one sets BUSY to 2^64 - 1. */
static bool ms__sync_unknown(const ms__log *log)
{
    const unsigned char *h = log->map.super;
    bool exclusive = ms__load_mark(h + MS__AT_BUSY) == UINT64_MAX;
    if (log->file.super_lost || !exclusive) return ms__may_be_of_boot(log);
    return ms__get64(h + MS__AT_SYNCING) != 0 && ms__may_be_of_boot(log);
}

static int ms__unconfirmed_set(ms__log *log, bool unconfirmed)
{
    uint64_t boot = log->file.boot ? log->file.boot : MS__BOOT_UNKNOWN;
    if (!unconfirmed) boot = 0;
    int failed = log->map.super ? ms__super_word(log, MS__AT_UNCONFIRMED, boot) : 0;
    ms__fence();
    return failed;
}

/* Refuses all later appends and syncs of the handle (LM6). */
static void ms__log_refuse(ms__log *log)
{
    log->durable.poisoned = true;
}

/* Poisons the handle after a failed sync; the next writer settles the file
 * (ms__log_settle). The caller holds the handle's lock. */
static ms_result ms__log_poison(ms__log *log, int failed, const char *what, ms_error *err)
{
    ms__log_refuse(log);
    (void)ms__unconfirmed_set(log, true);
    ms__log_event(log, MS_LOG_SYNC_FAILED, log->durable.end, log->end - log->durable.end,
                  log->durable.seq, 0, failed);
    (void)ms__os_fail(err, failed, what, log->file.path);
    if (err) err->code = MS_E_POISONED; /* not FULL: the appended bytes are visible */
    return MS_E_POISONED;
}

/* Stores a checkpoint, which the next sync makes durable. Another shared writer may have
 * synced more meanwhile: its checkpoint stays. must: waits for the file's lock, and
 * stores again a checkpoint that stays, since a sync of it may have failed. Otherwise a
 * later sync stores one. */
static ms_result ms__checkpoint_store(ms__log *log, uint64_t end, uint64_t seq, bool must,
                                      ms_error *err)
{
    unsigned char bytes[MS__CHECKPOINT_SIZE];
    bool locked = log->opts.shared && !log->recovery.holds_lock;
    int failed = 0;
    if (locked && must) MS__TRY(ms__log_lock(log, err));
    else if (locked && log->os->lock(log->os->ctx, log->file.handle) != 0)
        return MS_E_BUSY;
    ms__checkpoint c = ms__checkpoint_newest(log->map.super);
    bool kept = c.end > end && c.end <= ms__load_mark(log->map.super + MS__AT_MARK);
    if (!kept) {
        c.end = end;
        c.seq = seq;
        c.hint = log->index.hint < end ? log->index.hint : log->index.hint_before;
    }
    if (!kept || must) {
        c.generation++;
        ms__checkpoint_encode(&c, bytes);
        failed = ms__super_write(
            log, MS__AT_CHECKPOINTS + (uint32_t)(c.generation & 1) * MS__CHECKPOINT_STEP,
            bytes, sizeof bytes);
    }
    if (locked) (void)log->os->unlock(log->os->ctx, log->file.handle);
    if (failed == 0) return MS_OK;
    return must ? ms__log_poison(log, failed, "writing a checkpoint of", err) : MS_E_IO;
}

static unsigned char ms__zeros[MS__SUPPLY]; /* never written; not const: no bytes in the
                                               program's file */

static MS__ONCE int ms__log_zero(const ms__log *log, uint64_t from, uint64_t upto)
{
    int failed = 0;
    while (failed == 0 && from < upto) {
        size_t n = upto - from < MS__SUPPLY ? (size_t)(upto - from) : MS__SUPPLY;
        failed = ms__os_write_all(log->os, log->file.handle, from, ms__zeros, n);
        from += n;
    }
    return failed;
}

/* Copies [from, upto) of the file to the same place of `to`. The bytes are read by a
 * call, not through the map: the file may have been truncated since. */
static ms_result ms__log_copy_bytes(ms__log *log, ms_file to, uint64_t from,
                                    uint64_t upto, ms_error *err)
{
    while (from < upto) {
        size_t got = 0, n = upto - from < MS__SUPPLY ? (size_t)(upto - from) : MS__SUPPLY;
        if (!ms__staging_reach(log, n)) return ms__no_memory(err, n);
        int failed = ms__os_read_all(log->os, log->file.handle, from, log->map.staging,
                                     n, &got);
        if (failed == 0)
            failed = ms__os_write_anew(log->os, to, from, log->map.staging, got);
        if (failed != 0)
            return ms__os_fail_at(err, failed, "copying", log->file.path, from);
        from = got == n ? from + n : upto;
    }
    ms__staging_trim(log);
    return MS_OK;
}

/* Copies the superblock and the dead bytes [log->end, dead) to the file PATH.torn, each
 * to the same offset, and syncs it; see keep_torn of ms_log_desc. */
static MS__NOINLINE ms_result ms__torn_keep(ms__log *log, uint64_t dead, ms_error *err)
{
    const ms_os *os = log->os;
    size_t size;
    ms_file file;
    char *path = ms__path_beside(&log->opts.alloc, log->file.path, ".torn", &size);
    if (!path) return ms__no_memory(err, size);
    int failed = os->open(os->ctx, path, MS_OS_READ | MS_OS_WRITE | MS_OS_CREATE, &file);
    ms_result code = failed == 0 ? MS_OK : ms__os_fail(err, failed, "opening", path);
    if (code == MS_OK) {
        code = ms__log_copy_bytes(log, file, 0, MS__FIRST_RECORD, err);
        if (code == MS_OK) code = ms__log_copy_bytes(log, file, log->end, dead, err);
        if (code == MS_OK) failed = ms__os_sync_done(os, file);
        (void)os->close(os->ctx, file);
    }
    if (code == MS_OK && failed == 0)
        failed = ms__os_folder_done(os, &log->opts.alloc, path);
    if (code == MS_OK && failed != 0) code = ms__os_fail(err, failed, "syncing", path);
    (void)ms__resize(&log->opts.alloc, path, size, 0);
    return code;
}

/* Returns whether a sync of this handle does not count before bytes are written again. */
static bool ms__log_owes(const ms__log *log)
{
    return log->durable.end < log->durable.rewrite_range_end;
}

/* Syncs the file; returns an errno value. apart: gives back the handle's lock meanwhile,
 * so that other threads append. SYNCING shows the next writer that this one was killed
 * here; where it cannot be stored, the sync is still worth more than none. */
static int ms__log_disk(ms__log *log, bool apart)
{
    bool alone = !log->opts.shared && log->map.super;
    if (alone) (void)ms__super_word(log, MS__AT_SYNCING, 1);
    if (apart) ms__lock_release(&log->lock);
    int failed = ms__os_sync_done(log->os, log->file.handle);
    if (apart) ms__lock_acquire(&log->lock);
    if (alone && failed == 0 && !ms__log_owes(log))
        (void)ms__super_word(log, MS__AT_SYNCING, 0);
    return failed;
}

/* Makes the file's name durable: syncs its folder, once for each handle, before any byte
 * of the file is reported as durable. Skips a folder that the process may not read. If
 * descriptors or memory are exhausted, nothing is poisoned. apart: other threads append
 * meanwhile. */
static ms_result ms__log_folder_now(ms__log *log, bool apart, ms_error *err)
{
    if (log->file.folder_synced) return MS_OK;
    if (apart) ms__lock_release(&log->lock);
    int failed = ms__os_folder_done(log->os, &log->opts.alloc, log->file.path);
    if (apart) ms__lock_acquire(&log->lock);
    if (failed == EMFILE || failed == ENFILE || failed == ENOMEM)
        return ms__os_fail(err, failed, "syncing the folder of", log->file.path);
    if (failed != 0 && failed != EACCES && failed != EPERM)
        return ms__log_poison(log, failed, "syncing the folder of", err);
    log->file.folder_synced = true;
    return MS_OK;
}

static ms_result ms__log_folder(ms__log *log, ms_error *err)
{
    ms__lock_acquire(&log->lock);
    ms_result code = ms__log_folder_now(log, true, err);
    ms__lock_release(&log->lock);
    return code;
}

/* Writes visible bytes above the durable end in their place, where a sync of them may
 * have failed in this boot: the kernel may report their pages as clean, and a sync skips
 * clean pages. The lock of the file keeps others from erasing what was just read. */
static ms_result ms__log_rewrite_range(ms__log *log, ms_error *err)
{
    ms__log_durable *d = &log->durable;
    bool locked = log->opts.shared && !log->recovery.holds_lock;
    if (ms__log_unconfirmed(log)) d->rewrite_range_end = log->end;
    if (!ms__log_owes(log)) return MS_OK;
    uint64_t from = d->end > MS__FIRST_RECORD ? d->end : MS__FIRST_RECORD;
    if (locked) MS__TRY(ms__log_lock(log, err));
    ms_result code = ms__log_copy_bytes(log, log->file.handle, from, d->rewrite_range_end,
                                        err);
    if (locked) (void)log->os->unlock(log->os->ctx, log->file.handle);
    if (code == MS_OK) d->rewrite_range_end = 0; /* a sync that fails now is noticed */
    return code;
}

/* Runs one sync of all visible bytes, and stores a checkpoint of them. apart: the caller
 * ends `syncing` afterwards. confirm: also syncs the checkpoint before the bytes count as
 * durable. Then MS_E_BUSY: other writers held the lock that storing the checkpoint
 * needs. */
static ms_result ms__log_sync_now(ms__log *log, bool apart, bool confirm, ms_error *err)
{
    ms__log_durable *d = &log->durable;
    if (!apart) MS__TRY(ms__log_folder_now(log, false, err)); /* else the caller's */
    MS__TRY(ms__log_rewrite_range(log, err));
    uint64_t end = log->end, seq = log->sum.last_seq;
    ms_result code = MS_OK;
    if (apart) {
        d->syncing = true;
        d->erased = UINT64_MAX;
    }
    int failed = ms__log_disk(log, apart);
    if (failed == 0)
        code = ms__checkpoint_store(log, end, seq, confirm, confirm ? err : NULL);
    if (!confirm) code = MS_OK; /* a later sync stores one */
    if (failed == 0 && code == MS_OK && confirm) failed = ms__log_disk(log, apart);
    if (failed != 0) code = ms__log_poison(log, failed, "syncing", err);
    if (code == MS_OK) {
        ms__durable_move(log, end, seq);
        d->synced_at = log->os->micros(log->os->ctx);
        if (confirm) d->confirmed = d->end;
    }
    return code;
}

/* Makes zeros durable that were written to [from, upto), and nothing else. EOPNOTSUPP:
 * not possible, or a sync of the file costs no more. */
static int ms__zeros_synced(const ms__log *log, uint64_t from, uint64_t upto)
{
    int failed = upto - from > 4 * MS__SUPPLY ? EOPNOTSUPP : 0;
    while (failed == 0 && from < upto) {
        size_t n = upto - from < MS__SUPPLY ? (size_t)(upto - from) : MS__SUPPLY;
        failed = ms__os_write_synced_all(log->os, log->file.handle, from, ms__zeros, n);
        from += n;
    }
    return failed;
}

/* Zeroes the dead bytes [log->end, dead) and makes the zeros durable, see (FF5); not the
 * visible bytes before them, which may be many, unless a sync may have failed. The caller
 * holds both locks; nothing visible changes, and the durable end stays. */
static MS__NOINLINE MS__RARE ms_result ms__log_settle(ms__log *log, uint64_t dead,
                                                      ms_error *err)
{
    bool torn = dead > log->end && !log->append.refused; /* of another writer */
    if (torn && (log->opts.keep_torn || ms__holds_record(log, log->end, dead)))
        MS__TRY(ms__torn_keep(log, dead, err));
    bool unsure = ms__log_unconfirmed(log);
    if (unsure) MS__TRY(ms__log_rewrite_range(log, err));
    int failed = ms__os_may_write(log->os, log->file.handle, log->end, dead - log->end);
    if (failed != 0)
        return ms__os_fail_at(err, failed, "zeroing", log->file.path, log->end);
    failed = ms__unconfirmed_set(log, true);
    if (failed != 0)
        return ms__os_fail(err, failed, "writing to the superblock of", log->file.path);
    failed = ms__log_zero(log, log->end, dead);
    if (failed != 0)
        return ms__os_fail_at(err, failed, "zeroing", log->file.path, log->end);
    failed = unsure ? EOPNOTSUPP : ms__zeros_synced(log, log->end, dead);
    if (failed == EOPNOTSUPP) failed = ms__log_disk(log, false);
    if (failed != 0) return ms__log_poison(log, failed, "syncing", err);
    (void)ms__unconfirmed_set(log, false); /* or a later writer settles again */
    if (dead > log->end) {
        log->durable.zeroed_bytes += dead - log->end;
        ms__log_event(log, MS_LOG_ZEROED, log->end, dead - log->end, log->sum.last_seq, 0,
                      0);
    }
    return MS_OK;
}

/* Waits for the running sync to end. The caller holds the lock. */
static MS__ONCE void ms__log_await_sync(ms__log *log)
{
    while (log->durable.syncing) {
        log->durable.waiting++;
        ms__signal_wait(&log->durable.synced, &log->lock);
        log->durable.waiting--;
    }
}

/* Syncs the bytes of the file, but moves no durable end. Errors of a poisoned handle are
 * ignored. *unsure: a sync has failed in this boot. The caller holds the lock; no other
 * sync runs, since the kernel reports an error to one of two. */
static ms_result ms__log_sync_bytes(ms__log *log, bool *unsure, ms_error *err)
{
    ms__log_await_sync(log);
    bool poisoned = log->durable.poisoned, again = ms__log_unconfirmed(log);
    ms_result code = ms__log_rewrite_range(log, poisoned ? NULL : err);
    log->durable.syncing = true;
    int failed = code == MS_OK ? ms__log_disk(log, true) : 0;
    log->durable.syncing = false;
    ms__signal_all(&log->durable.synced);
    if (failed != 0 && !poisoned) code = ms__log_poison(log, failed, "syncing", err);
    *unsure |= poisoned || again;
    return poisoned ? MS_OK : code;
}

/* ---- Syncing, for all threads that wait. */

#define MS__GATHER 16 /* pauses at most */

/* Waits while more threads append. The threads that the last sync woke append again in a
 * moment: one later sync for all of them is better than one now for the first. */

static void ms__log_gather(ms__log *log)
{
    uint64_t end = 0;
    unsigned idle = 0;
    log->durable.syncing = true;
    for (unsigned i = 0; i < MS__GATHER && idle < 3; i++) {
        idle = log->end == end ? idle + 1 : 0;
        end = log->end;
        ms__lock_release(&log->lock);
        ms__yield();
        ms__lock_acquire(&log->lock);
    }
    log->durable.syncing = false;
}

/* Makes everything below goal durable: waits for the running sync, and runs another one
 * if that began too early. confirm: with a durable checkpoint. */
static ms_result ms__log_sync_to(ms__log *log, uint64_t goal, bool confirm, ms_error *err)
{
    ms__log_durable *d = &log->durable;
    MS__TRY(ms__log_folder(log, err));
    ms__lock_acquire(&log->lock);
    ms_result code = ms__log_poison_check(log, err);
    while (code == MS_OK && (d->end < goal || (confirm && d->confirmed < goal))) {
        /* a file that a compaction is about to replace need not be synced */
        if (log->opts.sync != MS_SYNC_EACH && ms__replaced_check(log, NULL) != MS_OK) {
            code = confirm ? ms__replaced_check(log, err) : MS_OK;
            break;
        }
        if (d->syncing) {
            d->waiting++;
            d->together = true;
            ms__signal_wait(&d->synced, &log->lock);
            d->waiting--;
        } else {
            if (d->together) ms__log_gather(log);
            d->together = d->waiting > 0;
            code = ms__log_sync_now(log, true, confirm, err);
            d->syncing = false;
            ms__signal_all(&d->synced); /* after a failure, too: ms__log_gather made
                                           others wait */
        }
        if (code == MS_OK) code = ms__log_poison_check(log, err);
    }
    ms__lock_release(&log->lock);
    return code;
}
