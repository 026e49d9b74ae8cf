
/* ==== [log-append] room, index records, appends ====================================
 * "Writing" in the essay of [log-map].
 * ================================================================================== */

/* Sets BUSY: shows other writers how far this writer may store bytes. */
static ms_result ms__log_busy_to(ms__log *log, uint64_t upto, ms_error *err)
{
    if (!log->opts.shared) return MS_OK;
    int failed = ms__super_word(log, MS__AT_BUSY, upto);
    ms__fence();
    if (failed == 0) return MS_OK;
    return ms__os_fail(err, failed, "writing to the superblock of", log->file.path);
}

/* Allocates room in the file up to `upto`. MAP: writes zeros there, since a store into
 * room without disk blocks may raise SIGBUS. Nothing visible changes. */
static ms_result ms__log_allocate(ms__log *log, uint64_t upto, ms_error *err)
{
    if (upto <= log->append.allocated || log->append.no_allocate) return MS_OK;
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
    if (code == EOPNOTSUPP || code == ENOSYS || code == EINVAL) {
        log->append.no_allocate = true;
        log->append.engine = MS_ENGINE_WRITE;
        return MS_OK;
    }
    uint64_t clear = (log->end + 4095) & ~(uint64_t)4095; /* before it are records */
    if (code == 0 && log->append.engine == MS_ENGINE_MAP)
        code = ms__log_zero(log, from > clear ? from : clear, goal);
    if (code != 0) return ms__os_fail(err, code, "allocating room in", log->file.path);
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
    if (code != 0) return ms__os_fail(err, code, "mapping for writing", log->file.path);
    log->append.window = (unsigned char *)window;
    log->append.window_start = start;
    log->append.window_size = (size_t)size;
    return MS_OK;
}

/* Notes that the bytes from log->end to `end` may be dead: stored, and never visible. The
 * next append zeroes them first. */
static void ms__log_dead(ms__log *log, uint64_t end)
{
    log->append.begun = false;
    log->append.refused = true;
    if (log->append.stop < end) log->append.stop = end;
}

/* Stores complete records in the file at offset: first allocates room, then writes the
 * bytes. Nothing is visible yet. */
static ms_result ms__log_put(ms__log *log, uint64_t offset, const unsigned char *bytes,
                             size_t size, ms_error *err)
{
    MS__TRY(ms__log_allocate(log, offset + size, err));
    MS__TRY(ms__log_reach(log, offset, offset + size, log->append.allocated, err));
    MS__TRY(ms__log_busy_to(log, offset + size, err));
    if (log->append.engine == MS_ENGINE_MAP) {
        MS__TRY(ms__window_reach(log, offset, offset + size, err));
        memcpy(log->append.window + (offset - log->append.window_start), bytes, size);
        return MS_OK;
    }
    int code = ms__os_write_all(log->os, log->file.handle, offset, bytes, size);
    if (code == 0) return MS_OK;
    ms__log_dead(log, offset + size); /* a part may be written */
    return ms__os_fail(err, code, "writing to", log->file.path);
}

/* Makes the bytes before `end` visible to all readers. If that fails, they are dead. */
static ms_result ms__log_publish(ms__log *log, uint64_t end, ms_error *err)
{
    int failed = ms__super_word(log, MS__AT_MARK, end);
    if (failed != 0 && ms__load_mark(log->map.super + MS__AT_MARK) != end) {
        (void)ms__super_word(log, MS__AT_MARK, log->end); /* in case it was torn */
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
static uint64_t ms__log_dead_end(const ms__log *log, uint64_t x)
{
    if (log->append.stop <= x) return x;
    const unsigned char *p = ms__log_at(log, x);
    uint64_t n = log->append.stop - x;
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

/* Writes a LOST record, which notes that durable bytes are missing, and syncs it with a
 * new checkpoint. The old checkpoint is above the end, and would make a torn append look
 * damaged. */
static MS__APART ms_result ms__lost_write(ms__log *log, ms_error *err)
{
    unsigned char r[MS__LOST_SIZE];
    ms__lost_encode(log->append.lost_end, log->sum.last_seq, r);
    if (!log->append.lost_written) MS__TRY(ms__record_put(log, r, err));
    log->append.lost_written = true;
    MS__TRY(ms__log_sync_now(log, false, true, err));
    log->append.lost_synced = true;
    return MS_OK;
}

/* Writes two blocks that MAP later stores to through maps. A copy of a file may share its
 * blocks with the original until they are written; a call, other than a store, can report
 * a full disk. */
static int ms__blocks_own(ms__log *log)
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

/* Prepares the first write of a handle: zeroes the bytes after the end, and stores the
 * writer's line, so that readers trust the watermark. */
static MS__APART ms_result ms__log_begin(ms__log *log, ms_error *err)
{
    ms_os_stat st;
    ms__writer_line w;
    unsigned char line[MS__LINE_SIZE];
    if (log->append.begun) return MS_OK;
    if (log->durable.syncing) /* the kernel reports an error to one of two syncs */
        return ms__fail(err, MS_E_BUSY, "another thread syncs '%s'", log->file.path);
    bool unsure = ms__log_unconfirmed(log);
    int failed = log->os->stat(log->os->ctx, log->file.handle, &st);
    if (failed != 0) return ms__os_fail(err, failed, "stat of", log->file.path);
    if (log->append.stop > st.size) log->append.stop = st.size;
    uint64_t dead = ms__log_dead_end(log, log->end);
    if (unsure && log->append.stop > dead) dead = log->append.stop;
    if (unsure || dead > log->end) MS__TRY(ms__log_settle(log, dead, err));
    if (ms__log_must_prove(log)) MS__TRY(ms__log_sync_now(log, false, false, err));
    MS__TRY(ms__log_allocate(log, log->end + MS__LOST_SIZE, err));
    MS__TRY(ms__log_reach(log, log->end, log->end + MS__LOST_SIZE, log->append.allocated,
                          err));
    w.boot = log->file.boot;
    w.device = log->file.stat.device;
    w.inode = log->file.stat.inode;
    w.epoch = ms__log_line(log->map.super) + 1;
    ms__writer_encode(&w, line);
    uint64_t busy = log->opts.shared ? log->end : UINT64_MAX;
    failed = ms__blocks_own(log);
    if (failed == 0) failed = ms__super_word(log, MS__AT_BUSY, busy);
    /* hints of before a power loss may point at dead bytes */
    if (failed == 0) failed = ms__hints_store(log);
    if (failed == 0) failed = ms__super_word(log, MS__AT_MARK, log->end);
    if (failed == 0) failed = ms__super_write(log, MS__AT_WRITER, line, MS__LINE_EPOCH);
    /* last, the epoch: a reader that sees it sees this watermark, and these hints */
    uint32_t at = MS__AT_WRITER + MS__LINE_EPOCH;
    uint64_t before = ms__get64(log->map.super + at);
    if (failed == 0) {
        failed = ms__super_word(log, at, ms__get64(line + MS__LINE_EPOCH));
        if (failed != 0) /* it may be torn: readers trusted the line as it was */
            (void)ms__super_word(log, at, before);
    }
    if (failed != 0)
        return ms__os_fail(err, failed, "writing to the superblock of", log->file.path);
    log->append.begun = true;
    log->append.wrote = true;
    if (log->opts.shared) ms__log_seen(log, log->end, ms__log_line(log->map.super));
    if (!log->append.lost_written && log->append.lost_end <= log->end) return MS_OK;
    if (log->append.lost_synced) return MS_OK;
    ms_result code = ms__lost_write(log, err);
    if (code != MS_OK) ms__log_dead(log, log->end + MS__LOST_SIZE); /* tries it again */
    return code;
}

/* Stores bytes below the end; only erasing calls it. */
static ms_result ms__log_over(ms__log *log, uint64_t offset, const unsigned char *bytes,
                              size_t size, ms_error *err)
{
    int failed = ms__os_write_all(log->os, log->file.handle, offset, bytes, size);
    log->append.wrote = true;
    log->append.erasures++;
    ms__durable_below(log, offset);
    return failed == 0 ? MS_OK : ms__os_fail(err, failed, "writing to", log->file.path);
}

/* Notes that the file had visible bytes up to `end`, and is shorter now; 0: it is not. */
static void ms__log_lost(ms__log *log, uint64_t end)
{
    log->append.lost_end = end;
    log->append.lost_written = log->append.lost_synced = false;
}

/* Notes whether the bytes after the end are prepared for records. If not, dead bytes end
 * at `stop` at the latest. */
static void ms__log_begun(ms__log *log, bool begun, uint64_t stop)
{
    log->append.begun = begun;
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
static MS__APART ms_result ms__segment_write(ms__log *log, ms_error *err)
{
    ms__tail *t = ms__tail_of(log);
    uint32_t size, now;
    uint64_t offset = log->end;
    if (t->count == 0 || !ms__tail_slot(log, &now)) return MS_OK;
    MS__TRY(ms__log_begin(log, err));
    if (!ms__nodes_reserve(log, &log->index.segments, t->segment))
        return ms__no_memory(err, 0);
    ms__state state = ms__log_state(log);
    unsigned char *r = ms__segment_make(log, t, &state, &size);
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

static void ms__job_end(ms__log *log)
{
    ms__job *j = &log->index.job;
    size_t size = (size_t)ms__align8(ms__summary_size(&j->sum));
    if (j->record) (void)ms__log_resize(log, j->record, size, 0);
    memset(j, 0, sizeof *j);
}

/* Looks up the next segment index for the SUMMARY. After the last one the number of
 * FILTERs is known. */
static MS__APART ms_result ms__job_segment(ms__log *log, ms__job *j, ms_error *err)
{
    uint32_t most = 0;
    j->segment[j->segments] =
        ms__segment_valid(log, j->sum.number * MS__FAN + j->segments, true, true);
    if (!j->segment[j->segments]) return ms__no_memory(err, sizeof(ms__segment));
    if (j->segments + 1 < MS__FAN) {
        j->segments++;
        return MS_OK;
    }
    for (unsigned c = 0; c < MS__FAN; c++)
        if (j->segment[c]->lists > most) most = j->segment[c]->lists;
    for (j->sum.bits = 0; most >> j->sum.bits > MS__ROW_LISTS;) j->sum.bits++;
    size_t size = (size_t)ms__align8(ms__summary_size(&j->sum));
    unsigned char *r = (unsigned char *)ms__log_resize(log, NULL, 0, size);
    if (!r) return ms__no_memory(err, size);
    j->record = r;
    return MS_OK;
}

/* Writes the next FILTER. */
static MS__APART ms_result ms__job_filter(ms__log *log, ms__job *j, ms_error *err)
{
    unsigned char r[MS__FILTER_SIZE];
    uint32_t at[MS__FAN];
    uint64_t offset = log->end;
    memset(r, 0, sizeof r);
    ms__own_header(r, sizeof r, MS__KIND_INDEX, MS__INDEX_FILTER, log->sum.last_seq);
    ms__put32(r + 32, j->sum.number);
    ms__put32(r + 36, j->filters);
    for (unsigned c = 0; c < MS__FAN; c++) {
        const ms__segment *l = j->segment[c];
        for (at[c] = j->at[c]; at[c] < l->lists; at[c]++) {
            uint64_t list = ms__segment_list(l, at[c]);
            if (ms__filter_of(list, j->sum.bits) != j->filters) break;
            ms__filter_put(r, list, c);
        }
        /* Each query reports lost records that were in unknown lists. */
        for (unsigned word = 0; ms__segment_lost(l) > 0 && word < 256; word++)
            ms__probe_set(ms__probe(r, word, 0), c);
    }
    MS__TRY(ms__record_put(log, r, err));
    memcpy(j->at, at, sizeof at);
    ms__put64(j->record + ms__summary_size(&j->sum) - ((size_t)8 << j->sum.bits) +
                  (size_t)j->filters * 8,
              offset);
    j->filters++;
    return MS_OK;
}

/* Writes the SUMMARY, after all of its FILTERs. */
static MS__APART ms_result ms__job_summary(ms__log *log, ms__job *j, ms_error *err)
{
    ms__node_table *t = &log->index.summaries;
    uint32_t g = j->sum.number;
    uint64_t offset = log->end;
    if (!ms__nodes_reserve(log, t, g)) return ms__no_memory(err, 0);
    ms__own_header(j->record, ms__summary_size(&j->sum), MS__KIND_INDEX,
                   MS__INDEX_SUMMARY, log->sum.last_seq);
    ms__put32(j->record + 32, g);
    ms__put32(j->record + 36, j->sum.bits);
    ms__put64(j->record + 40, 0);
    ms__list_encode(&log->index.segments, g * MS__FAN, MS__FAN,
                    j->record + MS__SUM_FIXED);
    ms__list_encode(t, 0, g, j->record + MS__SUM_FIXED + MS__FAN * 8);
    MS__TRY(ms__record_put(log, j->record, err));
    ms__summary_add(log, g, offset);
    ms__job_end(log);
    return MS_OK;
}

/* Does a portion of the SUMMARY that is in the making, or due. *more: work is left. */
static ms_result ms__job_step(ms__log *log, bool *more, ms_error *err)
{
    ms__job *j = &log->index.job;
    uint32_t g = log->index.summaries.n;
    *more = false;
    if (!log->append.wrote || (log->opts.shared && !log->index.merges)) return MS_OK;
    if (j->segments > 0 && j->sum.number != g) ms__job_end(log); /* another made it */
    if (log->index.segments.n / MS__FAN <= g) return MS_OK;
    MS__TRY(ms__log_begin(log, err)); /* again, if a watermark could not be written */
    *more = true;
    j->sum.number = g;
    if (!j->record) return ms__job_segment(log, j, err);
    if (j->filters >> j->sum.bits == 0) return ms__job_filter(log, j, err);
    return ms__job_summary(log, j, err);
}

/* Does housekeeping after an append, in small portions. Without room or memory the append
 * succeeds all the same, and a later call tries again. */
static void ms__log_housekeep(ms__log *log)
{
    bool more;
    ms__tail *t = ms__tail_of(log);
    if (log->end - t->base >= log->opts.segment_size || t->count >= MS__SEGMENT_RECORDS)
        if (log->end >= log->index.segment_again && ms__segment_write(log, NULL) != MS_OK)
            log->index.segment_again =
                log->end + log->opts.segment_size / 8; /* do not try at each append */
    if (!log->opts.ticked) (void)ms__job_step(log, &more, NULL);
}

/* ---- Appending: the functions that [append] calls for a log. Records are encoded in the
 * staging buffer and copied to the file when the run is complete, so a failed append has
 * stored nothing. Encoding a single record in the window saves 2 to 4 percent. */

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

static MS__APART ms_result ms__log_append_run(ms__log *log, ms__append_run *run,
                                              ms__plan *plans, ms_error *err)
{
    const ms__live *live = &log->core.tail->live;
    uint64_t messages = live->messages, bytes = live->bytes;
    uint64_t changes = live->changes, hidden = live->hidden;
    if (!log->append.begun) MS__TRY(ms__log_begin(log, err));
    ms__run_begin(run, &log->opts.clock, !log->opts.keep_unset_times, log->sum.last_seq,
                  log->sum.gap_seq);
    run->start = run->offset = log->end;
    run->max_message = log->opts.max_message;
    run->first_flags = log->durable.end >= log->end ? MS_FLAG_SYNCED : 0;
    ms_result code = ms__core_append(&log->core, run, plans, err);
    log->sum.messages += live->messages - messages;
    log->sum.bytes += live->bytes - bytes;
    log->sum.changes += live->changes - changes;
    log->sum.hidden += live->hidden - hidden;
    if (live->messages > messages) log->sum.last_seq = live->last_seq;
    return code;
}
