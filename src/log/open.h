
/* ==== [log-open] a log as a store: open, append, sync, close, verify, rewrite ======
 * First the functions of the backend table, each under the handle's lock. Then the public
 * functions of [api-log].
 *
 * An append, as one thread runs it:
 *
 *   1 Refuses a handle for reading, and a child of fork.
 *   2 In a sync mode, syncs the folder once. If the name of the file cannot become
 *     durable, the append fails before it has stored anything.
 *   3 Takes the handle's lock and, shared, the turn. Refuses a poisoned handle, and a
 *     file that a rewrite replaces. Waits for a sync that runs if the handle is not
 *     prepared, see [log-append].
 *   4 Allocates plans for more than MS__PLANS_SMALL messages.
 *   5 Appends ([append]): all is visible, or nothing has happened.
 *   6 Decides whether a sync is due. Housekeeping may append index records.
 *   7 Releases the turn and the lock.
 *   8 Syncs up to the end that 5 made, if one is due. If the sync fails, the messages are
 *     visible all the same, and the result is MS_E_POISONED.
 *
 * A close first writes the index of a tail of over 1/8 segment, so that the next opening
 * walks little. Then it syncs the file with a checkpoint, so that the next writer has
 * nothing to prove. An exclusive writer then stores its end in BUSY, so that a shared
 * writer need not prepare the place. A close does none of this in a child of fork, for a
 * handle that has not appended or is poisoned, and for a file that a rewrite has
 * replaced. The lock of the file ends with the descriptor.
 *
 * A rewrite (compaction, retention) copies a log to PATH.compacting and renames that.
 * PATH is where symbolic links end.
 *
 *    begin: the place is held -> run: copied, synced, verified --> end: the log that is
 *      |  by the lock of the      |  again and again, while         replaced is marked,
 *      |  log there, or of an     |  a writer's handle that         refuses; the rest is
 *      |  empty log made there    |  is the source appends          copied; renamed
 *      v                          v                                   |        |
 *   BUSY, CONFLICT          the copy is removed, the mark <-----------+        v
 *                           is taken back                fails     new handle; its next
 *                                                                  sync syncs the folder
 *
 * "own": the source is a writer's handle of the log at PATH, and goes on appending. Else
 * the rewrite opens the log at PATH itself, and that log refuses appends from step 2 on.
 * The steps, and what the disk has when each is done:
 *
 *    ms__rewrite_begin
 *    1 hold     PATH: the old log, or an empty one, with a lock that keeps others away.
 *               (With exact_maps no empty one: an open file could not be replaced.)
 *    2 create   PATH.compacting: an empty log. One of a killed rewrite is removed first.
 *               Not own: the old log is marked (REPLACED).
 *    ms_rewrite_run, once or more
 *    3 copy     PATH.compacting: records up to the end that the source had then. Of a log
 *               the first ones are clustered ([log-index]), some 256 MiB at a time, in a
 *               rewrite in portions 32 MiB, since sorting them and making their index are
 *               one step each. Those that were appended since follow in their order.
 *    4 numbers  A source that is no log: and the numbers that it has assigned.
 *    5 sync     The copy is on the disk, with its checkpoint. So is the old file, up to
 *               some later end. `covered` is the end of 3.
 *    6 verify   The same: every byte of the copy was read and checked.
 *    ms_rewrite_end
 *    7 mark     Own: the old log is marked. A sync of it that ran has ended before.
 *    8 copy     PATH.compacting: all records; of a source that is no log, none more: it
 *               must be as it was. (LO3) is checked: nothing was erased.
 *    9 numbers  As 4, of any source. Records of the source that are damaged are missing.
 *   10 sync     As 5, unless the disk has all that (LO1) and (LO2) need.
 *   11 rename   PATH: the new log, with the access rights of the old one. A power loss
 *               may bring the old one back while the folder is not synced.
 *   12 folder   Synced, where (LO2) may not hold. Else the next sync of the new log syncs
 *               it.
 *
 * A kill before 11 leaves the old log at PATH, perhaps marked: the next writer that opens
 * it clears the mark. PATH.compacting stays until a rewrite removes it in step 2. If
 * there was no file at PATH, an empty log stays there. After 11 the old file has no name
 * and keeps its mark, so its handles refuse appends.
 *
 * Ownership:
 *
 *    what                 from                    until
 *    the state `w`        ms__rewrite_begin       ms__rewrite_free
 *    old, own             1: `rewritten` is set   ms__hold_release unsets that; the
 *                                                 caller closes the source
 *    old, not own         1: opened               ms__hold_release closes it
 *    fresh                2: opened               12: the caller's
 *    PATH.compacting      2                       11
 *    the log made at PATH 1                       11
 *    the mark             2 (own: 7)              forever
 *
 * If the rewrite fails or is abandoned, ms__rewrite_undo closes fresh, removes both files
 * and clears the mark. Then the old log goes on as before.
 *
 * At the rename each of the two files has what the other one's durable end promises,
 * since a power loss may keep either:
 * (LO1) the old file's durable end is at most `covered`, the end of the part that the
 *      copy on the disk contains. After the mark no sync of the old file is reported,
 *      except for running appends of MS_SYNC_EACH, which the end syncs in the copy.
 * (LO2) the bytes that the new file reports as durable are on the disk in the old file,
 *      too. No handle of the new file reports more before the folder is synced. If the
 *      old file is not the source, has damage, or had a failed sync, the end syncs the
 *      folder at once.
 * (LO3) no message was erased in the source since the copy began: its handle counts that,
 *      and what other handles erased has a redaction among the records of 3 or 8.
 * The visible bytes of the old file keep their values, so readers may go on reading it
 * after one call has returned MS_E_CONFLICT (ms__reader_replaced).
 * ================================================================================== */

static ms_result ms__log_append(ms_store *store, ms__append_run *run, ms_error *err)
{
    ms__log *log = ms__log_of(store);
    ms__plan *plans = log->append.plans;
    size_t n = run->n;
    /* 1 */
    MS__TRY(ms__log_may_write(log, err));
    /* 2 */
    bool waits = log->opts.sync != MS_SYNC_NONE && !log->opts.ticked;
    if (waits || log->opts.sync == MS_SYNC_EACH) MS__TRY(ms__log_folder(log, err));
    /* 3 */
    ms_result code = ms__append_begin(log, err);
    /* 4 */
    if (code == MS_OK && n > MS__PLANS_SMALL) {
        plans = NULL;
        if (n < SIZE_MAX / 2 / sizeof *plans)
            plans = (ms__plan *)ms__log_resize(log, NULL, 0, n * sizeof *plans);
        if (!plans) code = ms__no_memory(err, n * sizeof *plans);
    }
    /* 5 */
    if (code == MS_OK) code = ms__log_append_run(log, run, plans, err);
    if (plans && plans != log->append.plans)
        (void)ms__log_resize(log, plans, n * sizeof *plans, 0);
    ms__staging_trim(log);
    /* 6 */
    uint64_t goal = log->end;
    bool due = code == MS_OK && ms__sync_due(log) &&
               (log->opts.sync == MS_SYNC_EACH || !log->opts.ticked);
    if (code == MS_OK) ms__log_housekeep(log);
    /* 7 */
    ms__log_leave(log);
    ms__lock_release(&log->lock);
    /* 8 */
    return due ? ms__log_sync_to(log, goal, false, err) : code;
}

/* Returns the offset of a record from its address; 0: it is not in the map. */
static uint64_t ms__log_where(const ms__log *log, const unsigned char *r)
{
    for (uint32_t i = 0; i < log->map.n_mappings; i++) {
        const ms__mapping *p = &log->map.mappings[i];
        if (r >= p->base && r < p->base + p->size)
            return p->start + (uint64_t)(r - p->base);
    }
    return 0;
}

/* Does one of the three steps of an erasure, see "Erasing" in [record]: overwrites the
 * two checks, or the values of the fields. [change] syncs after each step. */
static ms_result ms__log_erase_at(ms__log *log, uint64_t offset, const unsigned char *r,
                                  unsigned step, ms_error *err)
{
    uint32_t padded = ms__padded(ms__get32(r));
    unsigned char *copy = log->map.staging;
    memcpy(copy, r, padded);
    if (step == MS__ERASE_BODY) {
        ms__blank(copy);
        return ms__overwrite(log, offset + MS__HEADER, copy + MS__HEADER,
                             padded - MS__HEADER, err);
    }
    ms__put32(copy + MS__AT_BODY_CHECK,
              step == MS__ERASE_MARK ? MS__ERASED : ms__body_check(r));
    ms__put32(copy + MS__AT_CHECK, ms__check_at(log->id.crc, offset, copy));
    return ms__overwrite(log, offset + MS__AT_BODY_CHECK, copy + MS__AT_BODY_CHECK, 8,
                         err);
}

static ms_result ms__log_erase(ms_store *store, const ms_msg *record, unsigned step,
                               ms_error *err)
{
    ms__log *log = ms__log_of(store);
    const unsigned char *r = ms__bytes(record);
    uint32_t padded = ms__padded(ms__get32(r));
    MS__TRY(ms__log_may_write(log, err));
    ms_result code = ms__write_begin(log, err);
    uint64_t offset = ms__log_where(log, r);
    if (code == MS_OK && offset == 0)
        code = ms__fail(err, MS_E_ARGUMENT, "the message was not returned by '%s'",
                        log->file.path);
    /* its checks are computed again: what has changed since it was read is not marked,
     * and stays damaged */
    bool holds = step == MS__ERASE_MARK
                 ? code == MS_OK && ms__log_holds(log, r, offset, log->end - offset, true)
                 : ms__get32(r + MS__AT_BODY_CHECK) == MS__ERASED;
    if (code == MS_OK && !holds)
        code = ms__fail(err, MS_E_DAMAGED, "the record at %u of '%s' is damaged", offset,
                        log->file.path);
    if (code == MS_OK && !ms__staging_reach(log, padded))
        code = ms__no_memory(err, padded);
    if (code == MS_OK) code = ms__log_erase_at(log, offset, r, step, err);
    ms__staging_trim(log);
    ms__write_end(log);
    return code;
}

static ms_result ms__log_leave_out(ms_store *store, uint64_t seq, ms_error *err)
{
    ms__log *log = ms__log_of(store);
    unsigned char bytes[MS__GAP_MAX];
    MS__TRY(ms__log_may_write(log, err));
    (void)ms__gap_encode(seq, bytes);
    ms_result code = ms__append_begin(log, err);
    if (code == MS_OK) code = ms__writer_prepare(log, err);
    if (code == MS_OK) code = ms__record_put(log, bytes, err);
    if (code == MS_OK) {
        if (log->sum.gap_seq < seq) log->sum.gap_seq = seq;
        ms__log_housekeep(log);
    }
    ms__write_end(log);
    return code;
}

/* Returns the last durable number. A reader takes it from the newest checkpoint. */
static uint64_t ms__log_durable_seq(const ms__log *log)
{
    if (log->writer) return log->durable.seq;
    return log->map.super ? ms__log_checkpoint(log).seq : 0;
}

static ms_result ms__log_sync(ms_store *store, uint64_t *durable_seq, ms_error *err)
{
    ms__log *log = ms__log_of(store);
    MS__TRY(ms__log_ready(log, err));
    if (log->opts.shared)
        MS__TRY(ms__log_catch_up(log, err)); /* what others have appended, too */
    ms__lock_acquire(&log->lock);
    ms_result code = MS_OK;
    uint64_t goal = log->end;
    ms__lock_release(&log->lock);
    if (code == MS_OK && log->writer) code = ms__log_sync_to(log, goal, true, err);
    if (code != MS_OK) return code;
    ms__lock_acquire(&log->lock);
    *durable_seq = ms__log_durable_seq(log);
    ms__lock_release(&log->lock);
    return MS_OK;
}

static ms_result ms__log_tick(ms_store *store, uint32_t budget_us, ms_error *err)
{
    ms__log *log = ms__log_of(store);
    MS__TRY(ms__log_ready(log, err));
    if (!log->writer) return ms__log_catch_up(log, err);
    uint64_t start = log->os->micros(log->os->ctx);
    bool more = true;
    ms_result code = ms__write_begin(log, err);
    if (code == MS_OK && budget_us > 0 && log->append.prepared) /* until the next tick */
        (void)ms__log_allocate(log, log->end + MS__ROOM_MOST, NULL);
    while (code == MS_OK && more && log->os->micros(log->os->ctx) - start < budget_us)
        if (ms__summary_build_step(log, &more, NULL) != MS_OK) break;
    bool due = code == MS_OK && log->opts.sync == MS_SYNC_EVERY && ms__sync_due(log);
    uint64_t goal = log->end;
    ms__write_end(log);
    return due ? ms__log_sync_to(log, goal, false, err) : code;
}

/* Opens the file at the path, chooses the engine, and takes a writer's lock. MAP needs
 * room that stays allocated: a store into a map cannot report a full disk. */
static ms_result ms__log_file_once(ms__log *log, ms_error *err)
{
    ms_log_mode mode = log->opts.mode;
    unsigned how = MS_OS_READ;
    if (log->writer) how |= MS_OS_WRITE;
    if (mode == MS_LOG_CREATE || mode == MS_LOG_NEW) how |= MS_OS_CREATE;
    int code = log->os->open(log->os->ctx, log->file.path, how, &log->file.handle);
    if (code == EISDIR)
        return ms__fail(err, mode == MS_LOG_NEW ? MS_E_CONFLICT : MS_E_FOREIGN,
                        "'%s' is a folder, not a log", log->file.path);
    if (code == ENOENT && (how & MS_OS_CREATE)) {
        (void)ms__fail(err, MS_E_NOT_FOUND, "creating '%s': the folder does not exist",
                       log->file.path);
        if (err) err->sys_errno = code;
        return MS_E_NOT_FOUND;
    }
    if (code != 0) return ms__os_fail(err, code, "opening", log->file.path);
    log->file.is_open = true;
    code = log->os->stat(log->os->ctx, log->file.handle, &log->file.stat);
    if (code != 0) return ms__os_fail(err, code, "stat of", log->file.path);
    if (!log->file.stat.regular)
        return ms__fail(err, mode == MS_LOG_NEW ? MS_E_CONFLICT : MS_E_FOREIGN,
                        "'%s' is not a regular file", log->file.path);
    bool map = log->opts.engine == MS_ENGINE_MAP ||
               (log->opts.engine == MS_ENGINE_AUTO && log->opts.sync == MS_SYNC_NONE);
    map = map && log->file.stat.keeps_room && !log->os->exact_maps;
    log->append.engine = map ? MS_ENGINE_MAP : MS_ENGINE_WRITE;
    if (log->writer) return ms__log_lock(log, err);
    log->append.engine = MS_ENGINE_AUTO;
    return MS_OK;
}

/* Marks a file that a compaction replaces, so that its writers refuse appends. */
static int ms__replaced_set(ms__log *log, uint32_t replaced)
{
    unsigned char word[4];
    ms__put32(word, replaced);
    if (ms__get32(log->map.super + MS__AT_REPLACED) == replaced) return 0;
    return ms__super_write(log, MS__AT_REPLACED, word, sizeof word);
}

/* Returns whether an opening has taken in records after the watermark: a walk found them,
 * since the watermark is not trusted. Another shared writer, with another boot number,
 * may trust it, and would zero them: so they become visible to all at once. */
static bool ms__mark_lags(const ms__log *log)
{
    return !ms__mark_trusted(log) &&
           ms__load_mark(log->map.super + MS__AT_MARK) < log->end;
}

/* Opens the file, locks it, and takes in its content. A rewrite may rename another file
 * to the path after this handle has opened it and before it has the lock: then this
 * handle would write to a file without a name, and opens the path again. A shared writer
 * holds the lock for the opening alone. */
static ms_result ms__log_file_open(ms__log *log, ms_error *err)
{
    for (;;) {
        MS__TRY(ms__log_file_once(log, err));
        if (!log->writer || ms__log_in_place(log)) break;
        (void)log->os->close(log->os->ctx, log->file.handle);
        log->file.is_open = false;
    }
    ms__log_hold(log);
    ms_result code = ms__log_attach(log, err);
    if (code == MS_OK && log->writer) (void)ms__replaced_set(log, 0);
    if (code == MS_OK && log->opts.shared && ms__mark_lags(log))
        code = ms__writer_prepare(log, err);
    ms__log_leave(log);
    return code;
}

static MS__RARE void ms__log_free(ms__log *log)
{
    ms_alloc alloc = log->opts.alloc;
    ms__summary_build_end(log);
    ms__nodes_clear(log);
    ms__table_free(&alloc, log->index.segments.table, sizeof(ms__entry_node));
    ms__table_free(&alloc, log->index.summaries.table, sizeof(ms__entry_node));
    for (uint32_t i = 0; i < MS__PINS; i++)
        if (log->map.tails[i]) ms__tail_free(log, (ms__tail *)log->map.tails[i]);
    if (log->map.spare) ms__tail_free(log, log->map.spare);
    ms__window_close(log);
    ms__map_drop(log);
    if (log->file.is_open) (void)log->os->close(log->os->ctx, log->file.handle);
    if (log->map.staging)
        (void)ms__log_resize(log, log->map.staging, log->map.staging_size, 0);
    if (log->edits.bloom)
        (void)ms__log_resize(log, log->edits.bloom, MS__BLOOM_BITS / 8, 0);
    ms_arena_deinit(&log->edits.names.nodes);
    if (log->file.path) (void)ms__log_resize(log, log->file.path, log->file.path_size, 0);
    ms__fork_mark_unset(&log->file.fork_mark);
    ms__lock_deinit(&log->lock);
    ms__signal_deinit(&log->durable.synced);
    (void)ms__resize(&alloc, log, sizeof *log, 0);
}

/* Closes a log. A writer that appended much writes a segment index, then syncs. A child
 * of fork only frees memory. */
static void ms__log_close(ms_store *store)
{
    ms__log *log = ms__log_of(store);
    bool child = ms__forked(&log->file.fork_mark, log->os);
    log->core.store.open = 0;
    if (!child && log->writer && log->append.wrote && !log->durable.poisoned &&
        ms__replaced_check(log, NULL) == MS_OK) { /* otherwise a compaction has replaced
                                                     it */
        bool may = ms__log_enter(log, NULL) == MS_OK;
        uint64_t least = log->opts.segment_size / MS__CLOSE_SEGMENT;
        if (may && log->append.prepared && log->end - ms__tail_of(log)->base > least)
            (void)ms__segment_write(log, NULL);
        ms__log_leave(log);
        if (ms__log_sync_to(log, log->end, true, NULL) == MS_OK) /* the durable end is
                                                                    that of the
                                                                    checkpoint */
            (void)ms__checkpoint_store(log, log->durable.end, log->durable.seq, false,
                                       NULL);
        else /* without a checkpoint: bytes below may not be on the disk */
            (void)ms__log_disk(log, false);
        if (!log->opts.shared && log->append.prepared)
            (void)ms__super_word(log, MS__AT_BUSY, log->end);
    }
    ms__log_free(log);
}

static const ms__sealed ms__log_sealed = {
    ms__log_next_run, ms__log_offer, ms__log_take, ms__log_step, ms__log_state_of,
    ms__log_below,    ms__log_seek,  ms__log_key,      ms__log_lacks,
    ms__log_edits_of, ms__log_edit,  ms__log_record,   ms__log_names};

static MS__UNUSED bool ms__log_notes(ms__core *core, ms__reading *s)
{
    ms__log *log = ms__log_in(core);
    ms__lock_acquire(&log->lock);
    bool known = ms__notes_read(core, s);
    ms__lock_release(&log->lock);
    return known;
}

/* A child of fork may not wait for the lock. */
static MS__UNUSED bool ms__log_facts(ms_store *store, ms_str location, ms_arena *arena,
                                     ms__folded *f)
{
    ms__log *log = ms__log_of(store);
    if (ms__log_ready(log, NULL) != MS_OK) return false;
    if (f->set && !log->writer) return false;
    ms__lock_acquire(&log->lock);
    bool folds = ms__facts_known(&log->core, location, arena, f);
    ms__lock_release(&log->lock);
    return folds;
}

static const ms__home ms__log_home = {ms__log_at_core, ms__log_room,    ms__log_written,
                                      ms__run_publish, ms__log_no_room, &ms__log_sealed,
                                      MS__SMALL ? NULL : ms__log_notes};

static size_t ms__log_most(ms_store *store)
{
    return ms__log_of(store)->opts.max_message;
}

static const ms__hooks ms__log_hooks = {ms__log_append, NULL, NULL, ms__log_most,
                                        MS__SMALL ? NULL : ms__log_facts};

static const ms_backend ms__log_backend = {
    ms__append_unmeasured, ms__log_query, ms__core_next, ms__log_cursor_close,
    ms__log_get,     ms__log_list,  ms__log_store_stat, ms__log_sync,
    ms__log_close,   ms__log_tick,  ms__log_leave_out,
    MS__CHANGES ? ms__change_unmeasured : NULL,
    MS__CHANGES ? ms__log_erase : NULL, &ms__log_hooks, NULL};

static ms_result ms__log_desc_check(const ms_log_desc *desc, ms_error *err)
{
    if (!desc || !desc->path || !desc->path[0])
        return ms__fail_at(err, MS_E_ARGUMENT, "path", "a log needs a path");
    if ((unsigned)desc->mode > MS_LOG_READ || (unsigned)desc->opening > MS_OPEN_SALVAGE ||
        (unsigned)desc->sync > MS_SYNC_EACH || (unsigned)desc->engine > MS_ENGINE_WRITE)
        return ms__fail(err, MS_E_ARGUMENT,
                        "opening '%s': mode %u (0 to %u), opening %u (0 to %u), sync %u "
                        "(0 to %u), engine %u (0 to %u): one is out of range",
                        desc->path, (uint64_t)desc->mode, (uint64_t)MS_LOG_READ,
                        (uint64_t)desc->opening, (uint64_t)MS_OPEN_SALVAGE,
                        (uint64_t)desc->sync, (uint64_t)MS_SYNC_EACH,
                        (uint64_t)desc->engine, (uint64_t)MS_ENGINE_WRITE);
    const ms_os *os = desc->os ? desc->os : &ms__os_table;
    if (desc->shared && desc->mode != MS_LOG_READ && os->boot(os->ctx) == 0)
        return ms__fail(err, MS_E_UNSUPPORTED,
                        "opening '%s' shared: the boot number of this machine is "
                        "unknown, and writers need it to trust each other's watermark",
                        desc->path);
    if (desc->opening == MS_OPEN_SALVAGE && desc->mode != MS_LOG_READ)
        return ms__fail_at(err, MS_E_ARGUMENT, "mode",
                           "opening '%s' for salvage: mode is %u, MS_LOG_READ (%u) was "
                           "expected", desc->path, (uint64_t)desc->mode,
                           (uint64_t)MS_LOG_READ);
    if (desc->segment_size != 0 &&
        (desc->segment_size < MS_LOG_SEGMENT_MIN || desc->segment_size > (size_t)1 << 30))
        return ms__fail_at(err, MS_E_ARGUMENT, "segment_size",
                        "opening '%s': segment_size is %u, %u to 2^30 were expected",
                        desc->path, (uint64_t)desc->segment_size,
                        (uint64_t)MS_LOG_SEGMENT_MIN);
    return MS_OK;
}

static void ms__log_defaults(ms__log *log, const ms_log_desc *desc)
{
    log->core.store.backend = &ms__log_backend;
    log->core.home = &ms__log_home;
    log->core.edits = &log->edits.names;
    log->edits.load = 1;
    ms_log_desc *o = &log->opts;
    *o = *desc;
    log->writer = o->mode != MS_LOG_READ;
    log->os = o->os ? o->os : &ms__os_table;
    o->shared = o->shared && log->writer;
    if (!o->clock.now) o->clock.now = ms__default_now;
    if (!o->entropy.fill) o->entropy.fill = ms__default_fill;
    if (o->shared && o->lock_wait_ms == 0) o->lock_wait_ms = 1000;
    if (o->sync_bytes == 0) o->sync_bytes = (size_t)1 << 20;
    if (o->sync_ms == 0) o->sync_ms = 1000;
    if (o->segment_size == 0) o->segment_size = MS__SEGMENT_DEFAULT;
    if (o->max_message == 0 || o->max_message > MS__RECORD_MAX)
        o->max_message = MS__RECORD_MAX;
    ms_alloc counted = ms__log_alloc(log);
    ms__arena_init(&log->edits.names.nodes, &counted);
    log->file.boot = log->os->boot(log->os->ctx);
    log->durable.synced_at = log->os->micros(log->os->ctx);
    ms__fork_mark_set(&log->file.fork_mark, log->os);
    ms__lock_init(&log->lock);
    ms__signal_init(&log->durable.synced);
}

/* ---- Verifying: one walk over every record. Each segment index has to list exactly the
 * records of its segment. */

typedef struct ms__verify {
    ms__record_walk walk;
    const ms__segment *seg; /* the index of this segment; NULL: it cannot be read */
    uint32_t segment, n;    /* records found in it */
    uint64_t damage;        /* damaged ranges of all kinds found before it */
    bool differs;           /* a record was not where the index lists it */
    ms_log_report *report;
} ms__verify;

/* Begins the next segment. */
static ms_result ms__verify_next(ms__verify *v, ms_error *err)
{
    bool room = true;
    ms__log *log = v->walk.log;
    ms_log_events events = log->opts.events;
    log->opts.events.event = NULL; /* the walk reports damaged index records itself */
    v->seg = v->segment < log->index.segments.n
                 ? ms__segment_read(log, v->segment, &room)
                 : NULL;
    log->opts.events = events;
    v->n = 0;
    v->differs = false;
    v->damage = v->walk.damaged + v->walk.index_damaged;
    return room ? MS_OK : ms__no_memory(err, sizeof *v->seg);
}

/* Returns whether the order of a clustered segment is that of the numbers. */
static bool ms__verify_order(const ms__log *log, const ms__segment *l)
{
    uint64_t last = 0;
    for (uint32_t k = 0; l->clustered && k < l->n; k++) {
        uint32_t i = ms__segment_entry(l, k);
        uint64_t offset = ms__segment_offset(l, i);
        if (offset == 0) return false;
        const unsigned char *r = ms__log_at(log, offset);
        uint64_t seq = r[4] == MS__KIND_MESSAGE ? ms_seq(ms__msg(r)) : last;
        if (seq < last + (r[4] == MS__KIND_MESSAGE)) return false;
        if (ms__segment_place(l, i) != (uint32_t)seq) return false;
        last = seq;
    }
    return true;
}

/* Checks a segment index against the records of its segment. Skips the check if the
 * segment has damage, since the index also lists the damaged records. */
static ms_result ms__verify_segment(ms__verify *v, const unsigned char *r,
                                    uint64_t offset, ms_error *err)
{
    ms__segment l;
    ms__log *log = v->walk.log;
    memset(&l, 0, sizeof l);
    bool judged = v->damage == v->walk.damaged + v->walk.index_damaged;
    bool decoded = ms__segment_decode(&l, r, offset);
    bool sound = decoded && v->seg && v->seg->offset == offset && l.n == v->n &&
                 !v->differs;
    for (uint32_t i = 0; sound && i < l.postings; i++)
        sound = ms__posting(l.posting, i, l.width) < l.n;
    if (judged && sound) sound = ms__verify_order(log, &l);
    if (judged && !sound) {
        v->report->index_damaged++;
        ms__log_event(log, MS_LOG_INDEX_DAMAGE, offset, v->walk.at - offset,
                      v->walk.last_seq, 0, 0);
    }
    v->segment = decoded ? l.number + 1 : v->segment + 1;
    return ms__verify_next(v, err);
}

/* Walks the log of v->walk. The caller holds the lock, or has exclusive use. */
static ms_result ms__verify_walk(ms__verify *v, ms_error *err)
{
    const unsigned char *r;
    uint64_t offset;
    ms__found found;
    ms_log_report *report = v->report;
    ms__log *log = v->walk.log;
    v->walk.at = MS__FIRST_RECORD;
    v->walk.limit = v->walk.trusted = log->end;
    MS__TRY(ms__verify_next(v, err));
    while ((found = ms__record_walk_next(&v->walk, &r, &offset)) == MS__FOUND_RECORD) {
        if (ms__cluster_of(r)) report->clustered++;
        if (r[4] == MS__KIND_MESSAGE)
            report->messages++;
        else if (r[4] == MS__KIND_INDEX)
            report->index_records++;
        else
            report->other_records++;
        if (ms__is_listed(r)) {
            if (v->seg && ms__segment_offset(v->seg, v->n) != offset) v->differs = true;
            v->n++;
        } else if (r[4] == MS__KIND_INDEX && r[5] == MS__INDEX_SEGMENT) {
            MS__TRY(ms__verify_segment(v, r, offset, err));
        }
    }
    return found == MS__FOUND_FOREIGN ? ms__foreign_record(log, offset, err) : MS_OK;
}

static ms_result ms__log_verify(ms__log *log, ms_log_report *report, ms_error *err)
{
    ms__verify v;
    memset(report, 0, sizeof *report);
    memset(&v, 0, sizeof v);
    v.walk.log = log;
    v.report = report;
    report->end = log->end;
    if (!log->map.super) return MS_OK;
    MS__TRY(ms__verify_walk(&v, err));
    report->bytes = log->end - MS__FIRST_RECORD;
    report->last_seq = v.walk.last_seq;
    report->damaged = v.walk.damaged;
    report->damaged_bytes = v.walk.damaged_bytes;
    report->index_damaged += v.walk.index_damaged;
    if (log->append.lost_end > log->end) {
        report->damaged++;
        report->damaged_bytes += log->append.lost_end - log->end;
        ms__log_event(log, MS_LOG_DAMAGE, log->end, log->append.lost_end - log->end,
                      log->sum.last_seq, 0, 0);
    }
    if (!ms__mark_trusted(log))
        report->torn_bytes = ms__log_dead_end(log, log->end) - log->end;
    report->lineage_damaged = ms__super_report(log);
    if (report->damaged == 0 && report->index_damaged == 0 &&
        report->lineage_damaged == 0)
        return MS_OK;
    return ms__fail(err, MS_E_DAMAGED,
                    "'%s': %u damaged ranges with %u bytes, %u damaged index records%s",
                    log->file.path, report->damaged, report->damaged_bytes,
                    report->index_damaged,
                    report->lineage_damaged ? ", bytes 56 to 75 (the lineage) damaged"
                                            : "");
}

/* Checks a strict opening: every record is valid, and no append is torn. */
static MS__NOINLINE ms_result ms__log_strict(ms__log *log, ms_error *err)
{
    ms_log_report report;
    ms_log_events events = log->opts.events;
    log->opts.events.event = NULL;
    ms_result code = ms__log_verify(log, &report, err);
    log->opts.events = events;
    if (code != MS_OK || !log->map.super) return code;
    if (!log->writer && ms__mark_trusted(log)) return MS_OK; /* it may be appending */
    if (ms__log_dead_end(log, log->end) == log->end) return MS_OK;
    return ms__fail(err, MS_E_DAMAGED,
                    "'%s': bytes of a torn append follow the last complete append, "
                    "which ends at %u",
                    log->file.path, log->end);
}

MS_API MS__RARE ms_result ms_log_open(ms_store **store, const ms_log_desc *desc,
                                      ms_error *err)
{
    *store = NULL;
    MS__TRY(ms__log_desc_check(desc, err));
    ms__log *log = (ms__log *)ms__resize(&desc->alloc, NULL, 0, sizeof *log);
    if (!log) return ms__no_memory(err, sizeof *log);
    memset(log, 0, sizeof *log);
    log->opts.alloc = desc->alloc;
    log->map.memory = sizeof *log;
    ms__log_defaults(log, desc);
    log->file.path_size = strlen(desc->path) + 1;
    log->file.path = (char *)ms__log_resize(log, NULL, 0, log->file.path_size);
    ms_result code = log->file.path ? MS_OK : ms__no_memory(err, log->file.path_size);
    if (log->file.path) memcpy(log->file.path, desc->path, log->file.path_size);
    if (code == MS_OK) code = ms__log_file_open(log, err);
    if (code == MS_OK && desc->opening == MS_OPEN_STRICT) code = ms__log_strict(log, err);
    if (code != MS_OK) {
        ms__log_free(log);
        return code;
    }
    log->core.store.open = MS_STORE_OPEN;
    *store = &log->core.store;
    return MS_OK;
}

static ms_result ms__log_only(ms_store *store, ms_error *err)
{
    MS__TRY(ms__open_check(store, err));
    if (store->backend == &ms__log_backend) return MS_OK;
    return ms__fail(err, MS_E_UNSUPPORTED, "this store is not a log");
}

MS_API MS__RARE ms_result ms_log_stat(ms_store *store, ms_log_info *out, ms_error *err)
{
    ms_os_stat st;
    memset(out, 0, sizeof *out);
    MS__TRY(ms__log_only(store, err));
    ms__log *log = ms__log_of(store);
    MS__TRY(ms__log_look(log, err));
    ms__lock_acquire(&log->lock);
    if (log->os->stat(log->os->ctx, log->file.handle, &st) == 0) out->size = st.size;
    memcpy(out->id, log->id.id, 16);
    memcpy(out->lineage, log->id.lineage, 16);
    out->created_ns = log->id.created;
    out->end = log->end;
    out->durable_end = log->durable.end;
    if (log->map.super && !log->writer)
        out->durable_end = ms__log_checkpoint(log).end;
    out->durable_seq = ms__log_durable_seq(log);
    out->segments = log->index.segments.n;
    out->summaries = log->index.summaries.n;
    out->damaged = log->sum.damaged;
    out->damaged_bytes = log->sum.damaged_bytes;
    out->zeroed_bytes = log->durable.zeroed_bytes;
    out->lost_end = log->append.lost_end;
    out->memory = log->map.memory;
    out->pid = log->map.super ? ms__get64(log->map.super + MS__AT_PID) : 0;
    out->engine = log->writer ? log->append.engine : MS_ENGINE_AUTO;
    out->poisoned = log->durable.poisoned;
    out->replaced = !ms__log_in_place(log);
    ms__lock_release(&log->lock);
    return MS_OK;
}

MS_API ms_result ms_log_verify(const ms_log_desc *desc, ms_log_report *report,
                               ms_error *err)
{
    ms_store *store;
    ms_log_report unused;
    if (!report) report = &unused;
    memset(report, 0, sizeof *report);
    MS__TRY(ms__log_desc_check(desc, err));
    ms_log_desc d = *desc;
    d.mode = MS_LOG_READ;
    d.opening = MS_OPEN_NORMAL;
    d.events.event = NULL; /* reported once, by the walk */
    MS__TRY(ms_log_open(&store, &d, err));
    ms__log_of(store)->opts.events = desc->events;
    ms_result code = ms__log_verify(ms__log_of(store), report, err);
    ms_close(store);
    return code;
}

/* ---- Rewriting. */

#define MS__NEW ".compacting" /* added to the path: the new log while it is written */
#define MS__CLUSTER_WHOLE   32u /* segments of the usual size in a clustered one, */
#define MS__CLUSTER_PORTION 4u  /* if the copy is made in portions */
#define MS__CLUSTER_MOST    ((uint64_t)1 << 30)

/* A running rewrite. `old` is the log at the path of the new one, and holds the lock of
 * that file. The essay has a table of ownership. */
typedef struct ms__rewriting {
    ms_log_desc to;
    ms_keep keep;
    ms_copy_report report;
    ms__copying copying;
    ms_arena arena;
    char *path, *part;    /* of the new log, without links; until the rename */
    size_t path_size, part_size;
    ms__log *fresh;
    ms__log *old; /* NULL: none, since an open file could not be replaced */
    bool own;     /* `old` is the source, and takes appends until the end */
    bool made;    /* `old` was created: there was no file, or an empty one */
    bool begun;   /* `part` is this rewrite's to remove */
    bool ready;   /* the copy was synced and verified once */
    uint64_t erasures; /* of the source, when the copy began */
    uint64_t covered;  /* the copy on the disk contains the source up to here */
    uint64_t verified; /* the copy, up to here */
    bool once;         /* the copy is made by one call */
    ms_stat began;     /* of a source that is no log */
    bool unknown;      /* the lineage of the source is */
    bool unsure;       /* the old file may lack bytes that the copy reports as durable */
} ms__rewriting;

/* Holds the source for this rewrite alone: two rewrites would write the same file. */
static ms_result ms__hold_source(ms__rewriting *w, ms__log *log, ms_error *err)
{
    ms__lock_acquire(&log->lock);
    bool taken = log->file.rewritten;
    log->file.rewritten = true;
    ms__lock_release(&log->lock);
    if (taken)
        return ms__fail(err, MS_E_BUSY, "another rewrite of '%s' is running", w->path);
    w->old = log;
    return MS_OK;
}

static void ms__hold_release(ms__rewriting *w)
{
    if (!w->old) return;
    if (w->own) {
        ms__lock_acquire(&w->old->lock);
        w->old->file.rewritten = false;
        ms__lock_release(&w->old->lock);
    } else {
        ms_close(&w->old->core.store);
    }
}

/* Fails if another file has taken the place of the source at the path: a copy of the
 * source lacks what that file has got since. */
static MS__NOINLINE ms_result ms__hold_current(const ms__rewriting *w,
                                               const ms__log *log, ms_error *err)
{
    ms_os_stat st;
    int code = ms__os_look(log->os, log->file.path, &st);
    if (code != 0 || ms__log_is(log, &st) || !ms__log_is(w->old, &st)) return MS_OK;
    return ms__fail(err, MS_E_CONFLICT, "'%s' has another file since the source was "
                    "opened: open it again", w->path);
}

/* Does step 1. Refuses a file that is there, unless it is to be replaced. A source must
 * still be the file of its path, and a salvaged one have all that is in it. */
static ms_result ms__hold_both(ms__rewriting *w, ms_store *source, bool replace,
                               ms_error *err)
{
    ms_os_stat st;
    ms_store *store = source;
    const ms_os *os = w->to.os;
    ms__log *log = source->backend == &ms__log_backend ? ms__log_of(source) : NULL;
    int code = ms__os_look(os, w->path, &st);
    w->made = code == ENOENT || (code == 0 && st.regular && st.size == 0);
    if (code != 0 && !w->made) return ms__os_fail(err, code, "opening", w->path);
    if (!w->made && !replace)
        return ms__fail(err, MS_E_CONFLICT, "creating '%s': the file exists", w->path);
    if (w->made && os->exact_maps) return MS_OK;
    w->own = !w->made && log && log->writer && !log->opts.shared &&
             ms__log_is(log, &st);
    if (w->own) return ms__hold_source(w, log, err);
    ms_log_desc d = w->to; /* opening it fails if the file is not a log */
    d.path = w->path;
    d.mode = w->made ? MS_LOG_NEW : MS_LOG_CREATE; /* or a part of one */
    d.opening = MS_OPEN_NORMAL;
    d.shared = false;
    MS__TRY(ms_log_open(&store, &d, err));
    w->old = ms__log_of(store);
    if (log && !w->made) MS__TRY(ms__hold_current(w, log, err));
    if (!log || log->opts.opening != MS_OPEN_SALVAGE || w->made || !ms__log_is(log, &st))
        return MS_OK;
    if (!log->map.super && w->old->end <= MS__FIRST_RECORD) return MS_OK; /* empty */
    MS__TRY(ms__salvage_holds(log, w->old->map.marked, w->old->map.seen_line, err));
    ms__lock_acquire(&log->lock); /* this opening may have mended the first page */
    uint64_t mark = ms__load_mark(w->old->map.super + MS__AT_MARK);
    uint32_t line = ms__log_line(w->old->map.super);
    ms__log_seen(log, mark, line);
    ms__log_found(log, mark, line, log->map.salvaged);
    ms__lock_release(&log->lock);
    return MS_OK;
}

/* Sets (1) or clears (0) the mark of the old file. From a mark on no handle appends to
 * the log, since the copy would lack the records, and none reports a sync of it. So it
 * first waits for a sync that runs: `covered` has what that reports, or 10 syncs it. */
static ms_result ms__hold_mark(ms__rewriting *w, uint32_t replaced, ms_error *err)
{
    if (!w->old) return MS_OK;
    ms__lock_acquire(&w->old->lock);
    ms__log_await_sync(w->old);
    int failed = ms__replaced_set(w->old, replaced);
    ms__lock_release(&w->old->lock);
    return failed == 0 ? MS_OK : ms__os_fail(err, failed, "writing to the superblock of",
                                             w->old->file.path);
}

/* Ends the segment of the tail, and begins a clustered one, or (begin false) none. */
static ms_result ms__log_cluster(ms_store *store, bool begin, ms_error *err)
{
    ms__log *log = ms__log_of(store);
    ms_result code = ms__append_begin(log, err);
    if (code == MS_OK) code = ms__segment_write(log, err);
    const ms__tail *t = ms__tail_of(log);
    if (code == MS_OK && t->count > 0) code = ms__no_memory(err, 0); /* not ended */
    if (code == MS_OK)
        ms__cluster_set(log, begin ? t->segment + 1 : 0, log->sum.last_seq);
    ms__write_end(log);
    return code;
}

/* Stores the lineage of the source in the copy, on both pages. If it is unknown, the copy
 * begins one of its own. */
static ms_result ms__rewrite_lineage(ms__rewriting *w, ms_store *source, ms_error *err)
{
    unsigned char h[MS__AT_LINEAGE + 20];
    const unsigned char *at = h + MS__AT_LINEAGE;
    ms__log *fresh = w->fresh;
    memset(h, 0, sizeof h);
    if (source->backend != &ms__log_backend) return MS_OK;
    const ms__file_id *from = &ms__log_of(source)->id;
    w->unknown = !ms__super_known(from);
    if (w->unknown || !ms__log_of(source)->map.super) return MS_OK; /* empty */
    memcpy(fresh->id.lineage, from->lineage, 16);
    ms__super_lineage_put(&fresh->id, h);
    int failed = ms__os_write_all(fresh->os, fresh->file.handle, MS__AT_LINEAGE, at, 20);
    if (failed == 0)
        failed = ms__os_write_all(fresh->os, fresh->file.handle,
                                  MS__SUPER_COPY + MS__AT_LINEAGE, at, 20);
    return failed == 0 ? MS_OK : ms__os_fail(err, failed, "writing to the superblock of",
                                             fresh->file.path);
}

/* Reads the totals of the source; zeros if its store has none. */
static ms_result ms__rewrite_stat(const ms__rewriting *w, ms_stat *stat, ms_error *err)
{
    ms_result code = ms__stat_try(w->copying.source, stat, err);
    return code == MS_E_UNSUPPORTED ? MS_OK : code;
}

/* Does steps 1 and 2. The copy needs no sync mode of its own: step 5 syncs it. */
static MS__NOINLINE MS__RARE ms_result ms__rewrite_open(ms__rewriting *w,
                                                        ms_store *source, bool replace,
                                                        ms_error *err)
{
    ms_store *store;
    int failed =
        ms__path_real(w->to.os, &w->to.alloc, w->to.path, &w->path, &w->path_size);
    if (failed != 0) return ms__os_fail(err, failed, "following", w->to.path);
    w->part = ms__path_beside(&w->to.alloc, w->path, MS__NEW, &w->part_size);
    if (!w->part) return ms__no_memory(err, w->part_size);
    /* 1 */
    MS__TRY(ms__hold_both(w, source, replace, err));
    /* 2: 1 keeps other rewrites away, so a file of this name is of a killed one */
    (void)w->to.os->remove(w->to.os->ctx, w->part);
    w->begun = true;
    ms_log_desc d = w->to;
    d.path = w->part;
    d.mode = MS_LOG_NEW;
    d.opening = MS_OPEN_NORMAL;
    d.sync = MS_SYNC_NONE;
    d.shared = false;
    if (w->to.sync != MS_SYNC_NONE && d.engine == MS_ENGINE_AUTO)
        d.engine = MS_ENGINE_WRITE;
    MS__TRY(ms_log_open(&store, &d, err));
    w->fresh = ms__log_of(store);
    MS__TRY(ms__rewrite_lineage(w, source, err));
    ms__copy_begin(&w->copying, store, source, &w->keep, &w->report, &w->arena);
    w->copying.live = source->backend == &ms__log_backend;
    if (!w->copying.live) MS__TRY(ms__rewrite_stat(w, &w->began, err));
    w->copying.least = w->fresh->opts.segment_size / MS__CLOSE_SEGMENT;
    if (source->backend == &ms__log_backend) w->copying.cluster = ms__log_cluster;
    if (w->own) w->erasures = w->old->append.erasures;
    else MS__TRY(ms__hold_mark(w, 1, err));
    return MS_OK;
}

/* Removes what an abandoned rewrite has made; see the table in the essay. */
static void ms__rewrite_undo(ms__rewriting *w)
{
    const ms_os *os = w->to.os;
    if (w->fresh) {
        ms__log_refuse(w->fresh); /* its content is not needed any more */
        ms_close(&w->fresh->core.store);
    }
    if (w->begun) (void)os->remove(os->ctx, w->part);
    (void)ms__hold_mark(w, 0, NULL);
    if (w->old && w->made) (void)os->remove(os->ctx, w->path);
}

/* Frees everything; placed: except the new log, which is renamed and the caller's. */
static void ms__rewrite_free(ms__rewriting *w, bool placed)
{
    ms_alloc alloc = w->to.alloc;
    if (w->copying.reading) (void)ms_cursor_close(w->copying.it, NULL);
    if (!placed) ms__rewrite_undo(w);
    ms__hold_release(w);
    ms_arena_deinit(&w->arena);
    if (w->path) (void)ms__resize(&alloc, w->path, w->path_size, 0);
    if (w->part) (void)ms__resize(&alloc, w->part, w->part_size, 0);
    (void)ms__resize(&alloc, w, sizeof *w, 0);
}

static ms_result ms__rewrite_begin(ms_rewrite *rewrite, ms_error *err)
{
    MS__TRY(ms__open_check(rewrite->source, err));
    MS__TRY(ms__log_desc_check(rewrite->to, err));
    const ms_alloc *alloc = &rewrite->to->alloc;
    ms__rewriting *w = (ms__rewriting *)ms__resize(alloc, NULL, 0, sizeof *w);
    if (!w) return ms__no_memory(err, sizeof *w);
    memset(w, 0, sizeof *w);
    w->to = *rewrite->to;
    if (!w->to.os) w->to.os = &ms__os_table;
    if (rewrite->keep) w->keep = *rewrite->keep;
    w->keep.dry_run = false;
    ms__arena_init(&w->arena, &w->to.alloc);
    ms_result code = ms__rewrite_open(w, rewrite->source, rewrite->replace, err);
    if (code == MS_OK) rewrite->state = w;
    else ms__rewrite_free(w, false);
    return code;
}

/* Fails with MS_E_CONFLICT if a message was erased in an own source after the copy began
 * (LO3); for other sources ms__copy_since does. */
static MS__ONCE ms_result ms__rewrite_sound(const ms__rewriting *w, ms_error *err)
{
    if (!w->own || w->old->append.erasures == w->erasures) return MS_OK;
    return ms__fail(err, MS_E_CONFLICT, "a message of '%s' was redacted during the "
                    "copy: begin the rewrite again", w->path);
}

/* Does step 3 or 8: copies for budget_us from `start` on, or (0) up to the present end of
 * the source (*upto). It ignores later appends, which may come faster than it copies. */
static ms_result ms__rewrite_copy(ms__rewriting *w, uint64_t start, uint32_t budget_us,
                                  bool *end, uint64_t *upto, ms_error *err)
{
    const ms_os *os = w->to.os;
    *end = false;
    if (w->own) {
        ms__lock_acquire(&w->old->lock);
        *upto = w->old->end;
        w->copying.goal = ms__log_places(w->old);
        ms__lock_release(&w->old->lock);
    } else if (w->copying.live) {
        ms_stat stat;
        MS__TRY(ms_store_stat(w->copying.source, &stat, err));
        w->copying.goal = stat.as_of;
    }
    do MS__TRY(ms__copy_step(&w->copying, budget_us ? 16 : 4096, end, err));
    while (!*end && (!budget_us || os->micros(os->ctx) - start < budget_us));
    return MS_OK;
}

/* Does step 6: verifies the complete copy, if it has grown since the last time. */
static ms_result ms__rewrite_verify(ms__rewriting *w, ms_error *err)
{
    ms_log_report r;
    ms_log_desc d = w->to;
    d.path = w->part;
    if (w->verified == w->fresh->end) return MS_OK;
    ms_result code = ms_log_verify(&d, &r, err);
    w->verified = w->fresh->end;
    if (code != MS_E_DAMAGED) return code;
    return ms__fail(err, MS_E_IO, "the copy '%s' differs from what was written: %u "
                    "damaged ranges with %u bytes, %u damaged index records", w->part,
                    r.damaged, r.damaged_bytes, r.index_damaged);
}

/* Makes the bytes of the old file durable: until the new name is durable, a power loss
 * can bring the old file back. The durable end of the old handle is not raised: the copy
 * may have less. Errors of a poisoned handle are ignored. */
static ms_result ms__rewrite_sync_old(ms__rewriting *w, ms_error *err)
{
    if (!w->old) return MS_OK;
    ms__lock_acquire(&w->old->lock);
    ms_result code = ms__log_sync_bytes(w->old, &w->unsure, err);
    ms__lock_release(&w->old->lock);
    return code;
}

/* Does step 5 or 10: syncs the copy, then the old file. The source had the end `upto`
 * when it was copied. */
static ms_result ms__rewrite_sync(ms__rewriting *w, uint64_t upto, ms_error *err)
{
    ms_store *fresh = &w->fresh->core.store;
    ms_result code = ms_sync(fresh, NULL, err);
    if (code == MS_E_POISONED) code = MS_E_IO; /* only the new file is affected */
    if (code == MS_E_IO && err) err->code = code;
    MS__TRY(code);
    MS__TRY(ms__rewrite_sync_old(w, err));
    w->covered = upto;
    return MS_OK;
}

static ms_result ms__rewrite_run(ms__rewriting *w, uint64_t start, uint32_t budget_us,
                                 bool *more, ms_error *err)
{
    uint64_t upto = 0;
    bool end;
    /* 3 */
    MS__TRY(ms__rewrite_copy(w, start, budget_us, &end, &upto, err));
    MS__TRY(ms__rewrite_sound(w, err));
    if (!end) return MS_OK;
    /* 4 */
    if (!w->copying.live) MS__TRY(ms__copy_numbers(&w->copying, err));
    /* 5 */
    MS__TRY(ms__rewrite_sync(w, upto, err));
    /* 6 */
    MS__TRY(ms__rewrite_verify(w, err));
    w->ready = true;
    *more = false;
    return MS_OK;
}

MS_API ms_result ms_rewrite_run(ms_rewrite *rewrite, uint32_t budget_us, bool *more,
                                ms_error *err)
{
    *more = true;
    if (!rewrite->state) MS__TRY(ms__rewrite_begin(rewrite, err));
    ms__rewriting *w = rewrite->state;
    uint64_t start = w->to.os->micros(w->to.os->ctx);
    uint64_t wide = budget_us ? MS__CLUSTER_PORTION : MS__CLUSTER_WHOLE;
    wide *= w->fresh->opts.segment_size;
    w->copying.window = wide < MS__CLUSTER_MOST ? wide : MS__CLUSTER_MOST;
    ms_result code = ms__rewrite_run(w, start, budget_us, more, err);
    rewrite->report = w->report;
    return code;
}

/* Returns whether the copy on the disk contains all that the source has reported as
 * durable. In MS_SYNC_EACH another thread's sync may be about to return. */
static MS__ONCE bool ms__rewrite_covers(const ms__rewriting *w)
{
    if (!w->own) return true;
    ms__lock_acquire(&w->old->lock);
    uint64_t durable = w->old->durable.end;
    ms__lock_release(&w->old->lock);
    return w->old->opts.sync != MS_SYNC_EACH && durable <= w->covered;
}

/* Does step 11: renames the new log to the path, and sets the caller's options. All that
 * can fail comes before the rename. */
static ms_result ms__rewrite_place(ms__rewriting *w, ms_error *err)
{
    const ms_os *os = w->to.os;
    ms__log *fresh = w->fresh;
    if (w->old && os->access_like) {
        int code = os->access_like(os->ctx, w->part, w->path);
        if (code != 0)
            return ms__os_fail(err, code, "copying the owner and permissions of",
                               w->path);
    }
    size_t size = strlen(w->to.path) + 1;
    char *path = (char *)ms__log_resize(fresh, NULL, 0, size);
    if (!path) return ms__no_memory(err, size);
    memcpy(path, w->to.path, size);
    int failed = os->rename(os->ctx, w->part, w->path);
    if (failed != 0) {
        (void)ms__log_resize(fresh, path, size, 0);
        return ms__os_fail(err, failed, "renaming the new file to", w->path);
    }
    (void)ms__log_resize(fresh, fresh->file.path, fresh->file.path_size, 0);
    fresh->file.path = path;
    fresh->file.path_size = size;
    fresh->file.folder_synced = false; /* the next sync syncs the folder */
    fresh->opts.sync = w->to.sync;
    return MS_OK;
}

/* Returns whether ms_rewrite_run has to be called before the end. */
static bool ms__rewrite_lacks(const ms__rewriting *w)
{
    if (!w || !w->ready) return true;
    return w->own && w->old->opts.sync != MS_SYNC_EACH && !ms__rewrite_covers(w);
}

/* Fails if a source that is no log, of which only the state at the first run is copied,
 * was written to since. */
static MS__RARE ms_result ms__rewrite_still(const ms__rewriting *w, ms_error *err)
{
    ms_stat now;
    const ms_stat *then = &w->began;
    if (w->copying.live || w->once) return MS_OK;
    MS__TRY(ms__rewrite_stat(w, &now, err));
    bool same = now.as_of == then->as_of && now.messages == then->messages &&
                now.last_seq == then->last_seq && now.hidden == then->hidden &&
                now.changes == then->changes;
    if (same) return MS_OK;
    return ms__fail(err, MS_E_CONFLICT, "the source, which is no log, was written to "
                    "during the copy to '%s': begin it again", w->path);
}

/* Does steps 7 to 12. *copied: MS_E_DAMAGED if records are missing. */
static ms_result ms__rewrite_finish(ms__rewriting *w, ms_result *copied, ms_error *err)
{
    uint64_t upto = 0;
    bool end;
    /* 7 */
    if (w->own) MS__TRY(ms__hold_mark(w, 1, err));
    /* 8 */
    MS__TRY(ms__rewrite_copy(w, 0, 0, &end, &upto, err));
    MS__TRY(ms__rewrite_sound(w, err));
    MS__TRY(ms__rewrite_still(w, err));
    /* 9 */
    uint64_t copy_end = w->fresh->end;
    *copied = ms__copy_end(&w->copying, err);
    if (*copied != MS_OK && *copied != MS_E_DAMAGED) return *copied;
    if (*copied == MS_OK && w->unknown)
        *copied = ms__fail(err, MS_E_DAMAGED,
                           "the lineage of the source is damaged: '%s' has all of its "
                           "records, and begins a new lineage", w->path);
    /* 10 */
    bool covers = ms__rewrite_covers(w) && w->fresh->end == copy_end;
    if (!covers) MS__TRY(ms__rewrite_sync(w, upto, err));
    /* 11 */
    MS__TRY(ms__rewrite_place(w, err));
    /* 12: if it fails, the next sync tries again and reports it */
    if (w->own && !w->unsure && *copied == MS_OK) return MS_OK;
    w->fresh->file.folder_synced =
        ms__os_folder_done(w->to.os, &w->to.alloc, w->path) == 0;
    return MS_OK;
}

MS_API MS__RARE ms_result ms_rewrite_end(ms_rewrite *rewrite, ms_store **fresh,
                                         ms_error *err)
{
    ms__rewriting *w = rewrite->state;
    ms_result code = MS_OK, copied = MS_OK;
    if (fresh) {
        *fresh = NULL;
        if (ms__rewrite_lacks(w))
            return ms__fail(err, MS_E_BUSY, "the copy of '%s' lacks durable records: "
                            "call ms_rewrite_run again",
                            w ? w->path : rewrite->to->path);
        code = ms__rewrite_finish(w, &copied, err);
        rewrite->report = w->report;
        if (code == MS_OK) *fresh = &w->fresh->core.store;
    }
    if (w) ms__rewrite_free(w, fresh && code == MS_OK);
    rewrite->state = NULL;
    return code != MS_OK ? code : copied;
}

MS_API MS__RARE ms_result ms_log_rewrite(ms_store *source, const ms_log_desc *to,
                                         bool replace, const ms_keep *keep,
                                         ms_copy_report *report, ms_error *err)
{
    ms_rewrite w;
    ms_store *fresh = NULL;
    bool more = true;
    char *real = NULL;
    size_t size;
    memset(&w, 0, sizeof w);
    w.source = source;
    w.to = to;
    w.replace = replace;
    w.keep = keep;
    if (report) *report = w.report;
    MS__TRY(ms__open_check(source, err));
    if (keep && keep->dry_run) return ms_copy(NULL, source, keep, NULL, report, err);
    /* 1, 2, and 7: an own log refuses appends during the copy, too */
    MS__TRY(ms__rewrite_begin(&w, err));
    bool own = w.state->own;
    w.state->once = true;
    ms_result code = own ? ms__hold_mark(w.state, 1, err) : MS_OK;
    /* 3 to 6 */
    while (code == MS_OK && more) code = ms_rewrite_run(&w, 0, &more, err);
    /* step 12 must not fail for want of memory: then the new log has the path */
    int failed = 0;
    if (code == MS_OK)
        failed = ms__path_real(w.state->to.os, &to->alloc, to->path, &real, &size);
    if (failed != 0) code = ms__os_fail(err, failed, "following", to->path);
    /* 8 to 11; w.state is freed */
    if (code == MS_OK) code = ms_rewrite_end(&w, &fresh, err);
    else (void)ms_rewrite_end(&w, NULL, NULL);
    if (report) *report = w.report;
    /* 12: no call syncs the new log later, so its name becomes durable here */
    if (fresh) failed = ms__folder_sync(ms__log_of(fresh)->os, real);
    if (real) (void)ms__resize(&to->alloc, real, size, 0);
    if (!fresh) return code;
    ms__log_of(fresh)->file.folder_synced = true;
    ms_close(fresh);
    if (failed == 0) return code;
    code = ms__os_fail(err, failed, "syncing the folder of", to->path);
    if (!own) return code;
    /* The new file has the path, though its name may not be durable: the source would
     * append to a file without a name. */
    ms__lock_acquire(&ms__log_of(source)->lock);
    ms__log_refuse(ms__log_of(source));
    ms__lock_release(&ms__log_of(source)->lock);
    if (err) err->code = MS_E_POISONED;
    return MS_E_POISONED;
}
