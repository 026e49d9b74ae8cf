
/* ==== [log-recover] the file becomes the state of a handle ===========================
 * Three events use this section: an opening, a check for appends of other processes, and
 * the turn of a shared writer.
 *
 * ---- Terms. The watermark is *trusted* if the superblock proves that a writer stored it
 * since the machine started (ms__mark_trusted). It is *current* if it is trusted, or if
 * it or the line has changed while this handle was open (ms__mark_current): then a writer
 * lives. The superblock has its fixed part twice, on page 0 and on page 1, the copy. Page
 * 0 is *lost* if the copy counts instead, or if it has no live words (super_lost): then
 * watermark, line and checkpoints, which have no copy, are ignored. *Dead* bytes are
 * after the end of the log, and not zero. `proven`: all below it is known to have been
 * visible, so an invalid byte there is damage. `visible`: where the log ends. Records are
 * *taken in* where they enter the tail, the counts and the tables of index records.
 *
 * ---- The end of the log. An opening knows the watermark, the durable end of the newest
 * checkpoint, and the size of the file:
 *
 *                        is the watermark trusted?
 *               | yes                           | no: power loss, other machine, copy of
 *               v                               v     the file, lost page 0
 *      proven = visible = the        proven = the durable end. ms__log_find_end walks
 *      larger of watermark and       record by record, to the first byte x that begins
 *      durable end                   no valid record:
 *               |                     - x below `proven`: damage; the walk goes on
 *               |                     - a record with SYNCED follows: damage; `proven`
 *               |                       moves to the last of these; the walk goes on
 *               |                     - a record follows, and no power loss can have torn
 *               |                       what is at x (FF4): damage; the walk goes on
 *               |                     - else the walk ends: visible = after the last
 *               |                       COMMIT, but not below `proven`. If page 0 is
 *               |                       lost: after the last byte that is not zero
 *               v                               v
 *      ms__apply_visible takes every record up to `visible` into the tail. What is
 *      invalid there is damage, and is reported. If the file ends before `visible`, or
 *      its last record reaches past the end of the file, ms__lost_note notes the loss
 *               v
 *      the end of the handle, log->end. A reader stops there, and writes nothing. The
 *      first append zeroes the dead bytes after it (ms__writer_prepare, [log-append])
 *
 * Torn or damaged: below `proven` invalid bytes are damage. Above it the walk decides: if
 * it goes on after them they are damage, where it ends they are torn, and dead.
 *
 * Three cases are not in the diagram:
 *   - Page 0 is an older one that a disk has brought back. Its watermark is trusted, and
 *     too low. Two appends after it prove that, the second one whole or in parts, since
 *     an append is stored only after the one before is visible (ms__mark_passed).
 *   - A watermark that is not a multiple of 8 was damaged, and is not trusted.
 *   - MS_OPEN_SALVAGE takes in every valid record, and looks for no COMMIT: `visible` is
 *     after the last byte that is not zero, or `proven` if that is later.
 *
 * The walk does not begin at the first record, but after the newest segment index below
 * `proven` (ms__log_start). That index has the counts of all before it. So an opening
 * costs the same at any size of the file.
 *
 * ---- Doubt. A reader whose watermark is not trusted shows records after it. They can be
 * dead to others: a writer in another container sees another boot number, trusts the
 * watermark, and writes over them. So the reader remembers their place and a check of
 * them: they are in doubt (ms__doubt_begin). When the watermark becomes current, the
 * doubt ends. If the watermark has passed these records and they are the same, they were
 * visible; otherwise the reader returns MS_E_CONFLICT (ms__doubt_over).
 *
 * ---- A check for appends compares the watermark with the last one that the handle has
 * taken in, and the epoch of the line. If the watermark is current and has moved,
 * ms__apply_visible takes in the new records. One that is not current is ignored. A
 * reader, or a shared writer that reads, whose file has the mark REPLACED compares the
 * path with its file, and returns MS_E_CONFLICT once if they differ. A step of a reading
 * that is open checks nothing: the reading goes on in the old file.
 *
 * ---- An opening has these steps. A writer has the lock of the file meanwhile. A reader
 * has none, so a writer may be at work during each of its steps.
 *
 *   1 Reads the superblock, and chooses between page 0 and the copy. A creation that did
 *     not end leaves parts of a superblock, and zeros: such a file is empty
 *     (ms__super_incomplete).
 *   2 Empty: a writer creates the log, a reader stops here and tries again at its next
 *     query. A creation allocates room, writes the superblock with the first watermark,
 *     syncs the file, then its folder. Only then may a record be stored: a power loss
 *     must not leave records without a superblock.
 *   3 Maps page 0. Before that a writer does what a map would fail without: it writes
 *     page 0 again if the disk cannot read it, and fills the holes of a sparse file.
 *   4 Loads the line, then watermark and checkpoint, then the size. A writer stores them
 *     in the opposite order: it makes the file longer, stores watermark or checkpoint,
 *     and its line after its first watermark. So the size suffices for the watermark, and
 *     the watermark is at least as new as the line.
 *   5 Chooses the start of the walk, finds `visible`, and takes in the records: the
 *     diagram above.
 *   6 A writer raises its last number to that of the checkpoint: records in damage may
 *     have had it.
 *   7 Sets the durable end (ms__durable_begin). If a trusted watermark is below the end
 *     of the handle, the page was damaged or older, and a writer stores the right one. A
 *     reader notes what is in doubt.
 *   8 A writer mends the superblock. It allocates page 0 unless 3 did so with the holes:
 *     a file that is refused is not written to. If one of the two fixed parts is damaged,
 *     the other one is written in its place. A lost page 0 also gets the first watermark,
 *     without a line, so that it is not trusted; and a checkpoint, so that the damage up
 *     to there stays known. The file is synced before that. If the log has no checkpoint
 *     and no line of this file yet, the fixed part is written again and synced: the
 *     creator may have been killed before its sync.
 *   9 Stores its process number, and shows records and superblock to readers of the
 *     handle, which take no lock.
 *
 * Then [log-open] clears REPLACED. If a shared writer has taken in records after the
 * watermark, it stores a watermark after them at once (ms__mark_lags).
 *
 * If a step fails, ms__log_detach drops what was read. Only steps 2, 3, 7 and 8 write to
 * the file, and each of them may be repeated.
 *
 * A record that is taken in changes the handle like this:
 *
 *   MESSAGE           names and posting lists of the tail, counts, last number. The first
 *                     one after a clustered segment without an index seals the tail
 *   AMEND ... PART    posting lists of the tail; the edits, if they are in memory
 *   INDEX: segment    closes the tail, and a fresh one begins
 *   INDEX: summary    its place in the table
 *   INDEX, all types  a writer's last number: messages that it counts may be damaged
 *   GAP               numbers that are not assigned again
 *   LOST              one damaged range (counted by the walk)
 *   others            nothing. A kind from 128 on stops the handle: MS_E_FOREIGN
 *
 * ---- The turn of a shared writer, from ms__log_enter to ms__log_leave, is one append,
 * change or portion of housekeeping. A thread takes the handle's lock first, then that of
 * the file.
 *
 *   1 Takes in what others appended, while they may still write.
 *   2 Takes the lock of the file. It waits at most lock_wait_ms.
 *   3 Takes in the rest. From here on no other handle writes.
 *   4 Decides whether the handle is prepared (ms__turn_check), see [log-append]. It is if
 *     all of this holds: the watermark is current, and is the end of the handle; BUSY is
 *     not past it; UNCONFIRMED is 0; the sync mode requires no sync first.
 *   5 Appends, after ms__writer_prepare if the handle is not prepared.
 *   6 Releases the lock of the file. The sync of the append follows, outside of the turn.
 *
 * Why a handle is not prepared in 4:
 *   - BUSY is past the watermark: a writer raised it, and was killed before it published;
 *     or an exclusive writer did not close the log.
 *   - The watermark is not current: the machine has restarted, or the file is a copy.
 *   - The end of the handle is not at a current watermark. If the file reaches that
 *     watermark, other writers may have overwritten the handle's records: it must not
 *     append after them, MS_E_CONFLICT. A shorter file is no error: 3 has noted the loss.
 * ================================================================================== */

/* ---- Taking in records. */

/* Takes in a segment index: it covers the tail, and the next segment begins. An index may
 * not fit the segments of the handle. An opening ignores it where its numbers are wrong;
 * where indexes before it are missing, these are derived when a query needs them. In an
 * open handle it means that another writer has found the newest index damaged, and made
 * other segments from there; or that the handle did not see an index before this one, and
 * knows the records after that by other places. */
static ms_result ms__apply_segment(ms__log *log, const ms__segment *seg, ms_error *err)
{
    uint32_t now;
    ms__tail *t = ms__tail_of(log);
    bool fits = seg->number == t->segment && seg->base == t->base;
    if (!fits && log->map.super_now)
        return ms__fail(err, MS_E_CONFLICT, "an index of '%s' was damaged, or made again "
                        "by another writer: open it again", log->file.path);
    if (!fits && seg->number <= t->segment) return MS_OK;
    if (!ms__tail_slot(log, &now))
        return ms__fail(err, MS_E_BUSY,
                        "'%s' cannot be read on while over %u cursors are open",
                        log->file.path, (uint64_t)MS__PINS - 2);
    if (!ms__nodes_reserve(log, &log->index.segments, seg->number))
        return ms__no_memory(err, 0);
    ms__tail *fresh = ms__tail_new(log, seg->next, seg->number + 1);
    if (!fresh) return ms__no_memory(err, sizeof *fresh);
    while (log->index.segments.n < seg->number) ms__index_add(log, 0);
    ms__segment_close(log, seg->offset, fresh, now, false);
    return MS_OK;
}

static ms_result ms__apply_summary(ms__log *log, const ms__summary *s, ms_error *err)
{
    ms__node_table *t = &log->index.summaries;
    if (s->number < t->n || (uint64_t)(s->number + 1) * MS__FAN > log->index.segments.n)
        return MS_OK;
    if (!ms__nodes_reserve(log, t, s->number)) return ms__no_memory(err, 0);
    ms__summary_add(log, s->number, s->offset);
    return MS_OK;
}

static ms_result ms__apply_index(ms__log *log, const unsigned char *r, uint64_t offset,
                                 ms_error *err)
{
    ms__segment seg;
    ms__summary sum;
    /* messages that it counts may be damaged: a writer assigns no number twice */
    if (log->writer && log->sum.last_seq < ms_seq(ms__msg(r)))
        log->sum.last_seq = ms_seq(ms__msg(r));
    memset(&seg, 0, sizeof seg);
    memset(&sum, 0, sizeof sum);
    if (ms__segment_decode(&seg, r, offset)) return ms__apply_segment(log, &seg, err);
    if (ms__summary_decode(&sum, r, offset)) return ms__apply_summary(log, &sum, err);
    return MS_OK;
}

/* Takes in a message. */
static ms_result ms__apply_message(ms__log *log, const unsigned char *r, uint64_t offset,
                                   ms_error *err)
{
    ms__tail *t = ms__tail_of(log);
    if (!ms__tail_enter(&log->core, t, r, offset))
        return ms__no_memory(err, ms__padded(ms__get32(r)));
    if (log->sum.last_seq < ms_seq(ms__msg(r))) log->sum.last_seq = ms_seq(ms__msg(r));
    log->sum.messages++;
    log->sum.bytes += ms_size(ms__msg(r));
    return MS_OK;
}

/* Makes the tail a sealed segment in memory, and begins a fresh one at `next`. A tail
 * does not take records in another order than that of their numbers, so one that a walk
 * has filled from a clustered segment, whose index is damaged, must not go on. */
static MS__NOINLINE ms_result ms__tail_seal(ms__log *log, uint64_t next, ms_error *err)
{
    uint32_t now, number = ms__tail_of(log)->segment;
    if (!ms__tail_slot(log, &now))
        return ms__fail(err, MS_E_BUSY,
                        "'%s' cannot be read on while over %u cursors are open",
                        log->file.path, (uint64_t)MS__PINS - 2);
    if (!ms__nodes_reserve(log, &log->index.segments, number))
        return ms__no_memory(err, 0);
    ms__tail *fresh = ms__tail_new(log, next, number + 1);
    if (!fresh) return ms__no_memory(err, sizeof *fresh);
    ms__segment *seg = ms__segment_in_memory(log, ms__tail_of(log), log->map.cluster != 0,
                                             next, log->sum.last_seq);
    if (!seg) {
        ms__tail_free(log, fresh);
        return ms__no_memory(err, 0);
    }
    ms__index_add(log, 0);
    ms__store_ptr(&ms__node_entry(&log->index.segments, number)->node, seg);
    ms__tail_switch(log, fresh, now);
    return MS_OK;
}

/* Takes in a valid record. MS_E_BUSY: old cursors must be closed first. */
static ms_result ms__apply_record(ms__log *log, const unsigned char *r, uint64_t offset,
                                  ms_error *err)
{
    if (r[4] == MS__KIND_INDEX) return ms__apply_index(log, r, offset, err);
    if (ms__is_listed(r)) {
        uint32_t cluster = ms__cluster_of(r);
        bool other = log->map.cluster != cluster;
        if (other && ms__tail_of(log)->count > 0)
            MS__TRY(ms__tail_seal(log, offset, err));
        if (other) ms__cluster_set(log, cluster, log->sum.last_seq);
    }
    if (r[4] == MS__KIND_LOST)
        ms__lost_entered(log, offset, offset + ms__padded(ms__get32(r)));
    if (r[4] == MS__KIND_MESSAGE) return ms__apply_message(log, r, offset, err);
    if (r[4] == MS__KIND_GAP)
        ms__gap_named(&log->sum.gap_seq, log->sum.last_seq, ms_seq(ms__msg(r)));
    if (!ms__is_change(r) || ms__apply_change(log, r, offset)) return MS_OK;
    return ms__no_memory(err, ms__padded(ms__get32(r)));
}

/* Notes the holes that a walk has met in the tail, and counts them; locations of damaged
 * changes count as changed, and all of them where nothing is known of what was damaged.
 * False: no memory, and nothing is counted. */
static bool ms__holes_add(ms__log *log, ms__record_walk *s)
{
    bool room = true;
    for (uint32_t i = 0; i < s->n_holes && room; i++) {
        uint32_t kind = s->holes[i].kind;
        bool change = kind == MS__KIND_AMEND || kind == MS__KIND_HIDE;
        if (change) room = ms__bloom_set(log, s->holes[i].where >> 16);
        if (MS__CHANGES && kind == 0) room = ms__bloom_fill(log);
        if (change || kind == 0) ms__edits_forget(log);
    }
    if (!room) return false;
    ms__holes_move(ms__tail_of(log), s);
    log->sum.damaged += (uint32_t)s->damaged;
    log->sum.damaged_bytes += s->damaged_bytes;
    s->damaged = s->damaged_bytes = 0;
    return true;
}

/* Notes that the file was truncated: the bytes from log->end to `end` were visible
 * once. */
static void ms__lost_note(ms__log *log, uint64_t end)
{
    uint64_t bytes = end - log->end;
    ms__tail *t = ms__tail_of(log);
    ms__hole any;
    memset(&any, 0, sizeof any);
    ms__log_lost(log, end);
    log->sum.damaged++;
    log->sum.damaged_bytes += bytes;
    ms__tail_damage(t, &any);
    ms__edits_forget(log);
    ms__log_event(log, MS_LOG_DAMAGE, log->end, bytes, log->sum.last_seq, 0, 0);
}

static ms_result ms__foreign_record(const ms__log *log, uint64_t offset, ms_error *err)
{
    return ms__fail(err, MS_E_FOREIGN,
                    "'%s': a record at %u was written by a newer version", log->file.path,
                    offset);
}

static void ms__record_walk_begin(ms__record_walk *s, ms__log *log, uint64_t trusted,
                                  uint64_t limit)
{
    memset(s, 0, sizeof *s);
    s->log = log;
    s->at = log->end;
    s->last_seq = log->sum.last_seq;
    s->trusted = trusted;
    s->limit = limit & ~(uint64_t)7;
}

/* Takes in the records of [log->end, visible). If the file, of `size` bytes, ends
 * earlier, or the last record reaches past `visible`, the rest is lost, and the next
 * writer appends at log->end. After damage a sync precedes the next append, which then
 * carries SYNCED: a later walk, too, finds that these bytes are damage, and not torn. */
static ms_result ms__apply_visible(ms__log *log, uint64_t visible, uint64_t size,
                                   ms_error *err)
{
    ms__record_walk s;
    const unsigned char *r;
    uint64_t offset;
    ms_result code = MS_OK;
    ms__found found = MS__FOUND_END;
    uint32_t before = log->sum.damaged;
    bool room = true;
    ms__hole any;
    memset(&any, 0, sizeof any);
    if (visible < log->end) visible = log->end; /* the watermark is damaged */
    ms__record_walk_begin(&s, log, visible, visible < size ? visible : size);
    s.trusted = s.limit; /* a file that is shorter is not walked past its end */
    if (log->opts.opening == MS_OPEN_SALVAGE)
        s.limit = size & ~(uint64_t)7; /* its last message may end in zeros */
    if (s.limit - s.at <= MS__STEP) s.asked = s.limit; /* in memory: written just now */
    while ((found = ms__record_walk_next(&s, &r, &offset)) == MS__FOUND_RECORD) {
        room = ms__holes_add(log, &s);
        if (room) code = ms__apply_record(log, r, offset, err);
        if (!room || code != MS_OK) break;
        log->end = s.at;
    }
    if (code == MS_OK && found == MS__FOUND_FOREIGN)
        code = ms__foreign_record(log, offset, err);
    if (room) room = ms__holes_add(log, &s);
    if (room) log->end = found == MS__FOUND_END ? s.at : offset; /* damage counts once */
    else code = ms__no_memory(err, MS__BLOOM_BITS / 8); /* the next walk meets it again */
    bool lost = visible > log->end && log->append.lost_end < visible;
    if (MS__CHANGES && code == MS_OK && lost && !ms__bloom_fill(log))
        code = ms__no_memory(err, MS__BLOOM_BITS / 8); /* any location may lack changes */
    if (code == MS_OK && log->map.cluster) {
        /* they may have had any of its numbers */
        if (lost) ms__tail_damage(ms__tail_of(log), &any);
        code = ms__tail_seal(log, log->end, err);
    }
    if (s.index_damaged > 0 || log->sum.damaged > before) ms__durable_unproven(log);
    if (code == MS_OK && lost) ms__lost_note(log, visible);
    return code;
}

/* ---- Opening. */

/* Returns whether a writer of this machine has stored the watermark since the machine
 * started. It is a multiple of 8 unless its bytes are damaged. */
static bool ms__mark_trusted(const ms__log *log)
{
    ms__writer_line w;
    return log->file.boot != 0 && !log->file.super_lost &&
           ms__writer_decode(&w, log->map.super) &&
           w.boot == log->file.boot && w.device == log->file.stat.device &&
           w.inode == log->file.stat.inode &&
           ms__load_mark(log->map.super + MS__AT_MARK) % 8 == 0;
}

/* Returns whether the watermark is that of now: it is trusted, or it or the writer's line
 * changed since this handle was opened. A handle does not outlive the machine, so a
 * writer that lives has stored the change. Numbers of boots and devices are hints:
 * containers on one machine see different ones for one file. */
static bool ms__mark_current(const ms__log *log)
{
    uint64_t mark = ms__load_mark(log->map.super + MS__AT_MARK);
    if (ms__mark_trusted(log)) return true;
    return mark % 8 == 0 && (mark != log->map.marked ||
                             ms__log_line(log->map.super) != log->map.found_line);
}

/* Makes the tail that a handle begins with; a reader of an empty file has one already. */
static ms_result ms__tail_first(ms__log *log, uint64_t base, uint32_t segment,
                                ms_error *err)
{
    uint32_t now = log->map.now;
    if (ms__tail_of(log) && !ms__tail_slot(log, &now))
        return ms__fail(err, MS_E_FULL,
                        "'%s' cannot be read on while over %u cursors are open",
                        log->file.path, (uint64_t)MS__PINS - 2);
    ms__tail *t = ms__tail_new(log, base, segment);
    if (!t) return ms__no_memory(err, sizeof *t);
    ms__tail_switch(log, t, now);
    return MS_OK;
}

/* Starts the handle's counts from those in a segment index. */
static ms_result ms__log_start_at(ms__log *log, const ms__segment *seg, ms_error *err)
{
    log->end = seg->next;
    log->sum = seg->state;
    if (!MS__CHANGES && log->sum.changes > 0)
        return ms__fail(err, MS_E_FOREIGN,
                        "'%s' has changes, and this program was built with "
                        "MSGSTORE_NO_CHANGES",
                        log->file.path);
    if (!ms__bloom_set_all(log, seg)) return ms__no_memory(err, MS__BLOOM_BITS / 8);
    return ms__index_begin(log, seg) ? MS_OK : ms__no_memory(err, 0);
}

/* Chooses where the walk begins: after the newest segment index below `limit`, else at
 * the first record. */
static ms_result ms__log_start(ms__log *log, uint64_t limit, bool mark_trusted,
                               ms_error *err)
{
    ms__segment seg;
    uint64_t hints[3];
    hints[0] = mark_trusted ? ms__get64(log->map.super + MS__AT_HINT) : 0;
    hints[1] = mark_trusted ? ms__get64(log->map.super + MS__AT_HINT + 8) : 0;
    hints[2] = ms__log_checkpoint(log).hint;
    log->end = MS__FIRST_RECORD;
    for (int i = 0; i < 3; i++) {
        if (!ms__segment_at(log, hints[i], limit, &seg)) continue;
        MS__TRY(ms__log_start_at(log, &seg, err));
        return ms__tail_first(log, log->end, seg.number + 1, err);
    }
    return ms__tail_first(log, log->end, 0, err);
}

/* Finds the end of a file whose watermark is not trusted, by (FF4) and (FF5) of
 * [file-format], and takes nothing in. *proven: all below it was durable; where records
 * with SYNCED follow invalid bytes it moves up to the last of them. *visible: where the
 * log ends. If page 0 is lost, it is not known what was durable: all bytes up to the last
 * that is not zero count as visible. Sets log->recovery.doubt to the first record that
 * begins at or after the watermark, which may point into the middle of one. A superblock
 * of which no record is found is that of another file: MS_E_DAMAGED. */
static ms_result ms__log_find_end(ms__log *log, uint64_t size, uint64_t *proven,
                                  uint64_t *visible, ms_error *err)
{
    ms__record_walk s;
    const unsigned char *r;
    uint64_t offset, committed = log->end;
    uint64_t mark = ms__load_mark(log->map.super + MS__AT_MARK);
    bool found_none = log->end == MS__FIRST_RECORD;
    ms__record_walk_begin(&s, log, *proven, size);
    s.quiet = true;
    log->recovery.doubt = 0;
    for (;;) {
        ms__found found;
        while ((found = ms__record_walk_next(&s, &r, &offset)) == MS__FOUND_RECORD) {
            found_none = false;
            if (offset >= mark && !log->recovery.doubt) log->recovery.doubt = offset;
            if (offset < s.trusted || (r[7] & MS_FLAG_COMMIT)) committed = s.at;
        }
        if (found == MS__FOUND_FOREIGN) return ms__foreign_record(log, offset, err);
        if (s.at >= s.limit) break;
        if (!ms__record_walk_synced(&s)) {
            if (!ms__record_walk_damaged(&s)) break;
            continue;
        }
        /* A writer may have begun since, and append here. Then a reader stops; its next
         * query takes in what that writer appends. */
        if (!log->writer && ms__mark_trusted(log)) break;
        *proven = s.trusted;
    }
    *visible = committed > *proven ? committed : *proven;
    bool none = mark % 8 != 0 || mark < MS__FIRST_RECORD || mark >> 62 != 0; /* no mark */
    if (!log->file.super_mend && !none) return MS_OK;
    uint64_t dead = ms__log_dead_end(log, *visible) & ~(uint64_t)7;
    if (dead > *visible && log->file.super_lost) *visible = dead;
    for (uint32_t i = 0; i < s.n_holes; i++)
        if (s.holes[i].kind != 0) found_none = false; /* its header holds */
    if (!found_none || dead <= MS__FIRST_RECORD ||
        ms__holds_record(log, MS__FIRST_RECORD, dead < size ? dead : size))
        return MS_OK;
    return ms__fail(err, MS_E_DAMAGED, "'%s': its superblock is damaged, and no record "
                    "is of the file that it names", log->file.path);
}

/* Stores a trusted watermark again if it is below the end of the handle: then the page is
 * damaged or an older one. Readers and shared writers need the right watermark. */
static ms_result ms__mark_restore(ms__log *log, uint64_t mark, ms_error *err)
{
    if (!log->writer || mark >= log->end) return MS_OK;
    int failed = ms__super_word(log, MS__AT_MARK, log->end);
    return failed == 0 ? MS_OK : ms__os_fail(err, failed, "writing the watermark of",
                                             log->file.path);
}

#define MS__DOUBT_MOST 64u /* headers in a check */

/* Returns a check of the headers of the first records in doubt, without what a redaction
 * changes in them. */
static uint32_t ms__doubt_check(const ms__log *log)
{
    uint64_t at = log->recovery.doubt, end = log->recovery.doubt_end;
    uint32_t crc = 0;
    for (unsigned i = 0; i < MS__DOUBT_MOST && at + MS__HEADER <= end; i++) {
        const unsigned char *r = ms__log_at(log, at);
        crc = ms__crc32c(crc, r, MS__AT_BODY_CHECK);
        if (!ms__size_fits(r, end - at)) break;
        at += ms__padded(ms__get32(r));
    }
    return crc;
}

/* Notes that a reader shows records which a walk found after the watermark: they are in
 * doubt. The check ends where the file does: one that was truncated may end before
 * log->end. */
static void ms__doubt_begin(ms__log *log, uint64_t mark)
{
    uint64_t size = log->file.stat.size, end = log->end < size ? log->end : size;
    ms__log_recovery *r = &log->recovery;
    bool none = log->writer || log->file.super_lost || mark < MS__FIRST_RECORD;
    if (none || r->doubt >= end) r->doubt = 0;
    if (!r->doubt) return;
    r->doubt_end = end;
    r->doubt_check = ms__doubt_check(log);
}

/* Ends the doubt when a writer has stored a watermark: the records in doubt are visible
 * if it is after them and they are the same, else MS_E_CONFLICT. */
static ms_result ms__doubt_over(ms__log *log, uint64_t mark, ms_error *err)
{
    ms__log_recovery *r = &log->recovery;
    if (mark < r->doubt_end || ms__doubt_check(log) != r->doubt_check)
        return ms__fail(err, MS_E_CONFLICT, "a writer of '%s' has written over messages "
                        "of one that was killed: open it again", log->file.path);
    r->doubt = 0;
    return MS_OK;
}

/* Takes in the appends after a trusted watermark that is too low: page 0 is an older one.
 * If the watermark has moved meanwhile, a writer lives, and a later check for appends
 * takes them in. */
static ms_result ms__mark_passed(ms__log *log, uint64_t mark, uint64_t size,
                                 ms_error *err)
{
    ms__record_walk s;
    if (log->end > size) return MS_OK;
    ms__record_walk_begin(&s, log, 0, size);
    if (!ms__record_walk_passed(&s)) return MS_OK;
    ms__fence();
    if (ms__load_mark(log->map.super + MS__AT_MARK) != mark) return MS_OK;
    ms__log_event(log, MS_LOG_INDEX_DAMAGE, 0, MS__SUPER_SIZE, 0, 0, 0);
    return ms__apply_visible(log, s.trusted, size, err);
}

/* Takes in the content of a file with a valid superblock: steps 4 to 7 of an opening. */
static MS__NOINLINE ms_result ms__log_attach_content(ms__log *log, ms_error *err)
{
    /* 4: the fences keep this order */
    bool salvage = log->opts.opening == MS_OPEN_SALVAGE;
    ms__tail *t;
    uint32_t line = ms__log_line(log->map.super);
    bool same = ms__mark_trusted(log);
    ms__fence();
    uint64_t mark = ms__load_mark(log->map.super + MS__AT_MARK);
    ms__checkpoint checkpoint = ms__log_checkpoint(log);
    ms__fence();
    int failed = log->os->stat(log->os->ctx, log->file.handle, &log->file.stat);
    if (failed != 0) return ms__os_fail(err, failed, "stat of", log->file.path);
    uint64_t size = log->file.stat.size;
    uint64_t proven = same && mark > checkpoint.end ? mark : checkpoint.end;
    uint64_t visible = proven;
    /* 5 */
    MS__TRY(ms__log_reach(log, 0, size, size, err));
    if (!ms__looked_begin(log, size)) return ms__no_memory(err, 0);
    MS__TRY(ms__log_start(log, proven < size ? proven : size, same, err));
    ms__prepared_set(log, log->append.prepared, size);
    uint64_t dead = salvage ? ms__log_dead_end(log, MS__FIRST_RECORD) & ~(uint64_t)7 : 0;
    if (dead > visible) visible = dead;
    if (!same && !salvage) MS__TRY(ms__log_find_end(log, size, &proven, &visible, err));
    MS__TRY(ms__apply_visible(log, visible, size, err));
    if (same && !salvage) MS__TRY(ms__mark_passed(log, mark, size, err));
    /* 6 */
    if (log->writer && checkpoint.seq > log->sum.last_seq)
        log->sum.last_seq = checkpoint.seq;
    /* 7 */
    ms__durable_begin(log, &checkpoint, !same && !salvage ? proven : 0,
                      ms__sync_unknown(log));
    if (same) MS__TRY(ms__mark_restore(log, mark, err));
    if (!same && !salvage) ms__doubt_begin(log, mark);
    t = ms__tail_of(log);
    ms__tail_show(t);
    ms__log_seen(log, same && !salvage ? log->end : mark, line);
    ms__log_found(log, mark, line,
                  salvage && ms__tail_offset(t, t->filled) > proven);
    return MS_OK;
}

/* Finds out whether all bytes after the superblock are zero, and not more than a creation
 * allocates. */
static ms_result ms__rest_is_zero(const ms__log *log, bool *zero, ms_error *err)
{
    unsigned char part[512];
    uint64_t at = MS__FIRST_RECORD;
    *zero = false;
    if (log->file.stat.size > MS__FIRST_RECORD + 2 * MS__ROOM_LEAST) return MS_OK;
    while (at < log->file.stat.size) {
        size_t got = 0;
        int code =
            ms__os_read_all(log->os, log->file.handle, at, part, sizeof part, &got);
        if (code != 0) return ms__os_fail_at(err, code, "reading", log->file.path, at);
        if (got == 0) return MS_OK;
        for (size_t i = 0; i < got; i++)
            if (part[i] != 0) return MS_OK;
        at += got;
    }
    *zero = true;
    return MS_OK;
}

/* Returns whether the bytes of a page of the superblock are parts of the fixed part, or
 * of the first watermark, and else zeros. */
static bool ms__super_page_incomplete(const unsigned char *h)
{
    size_t same = 0;
    bool zeros = true;
    unsigned char mark[8];
    ms__put64(mark, MS__FIRST_RECORD);
    while (same < 8 && h[same] == ms__log_magic[same]) same++;
    for (size_t i = same; zeros && i < 8; i++) zeros = h[i] == 0;
    for (size_t i = same < 8 ? 8 : MS__SUPER_FIXED; zeros && i < MS__SUPER_SIZE; i++)
        zeros = h[i] == 0 || (i >= MS__AT_MARK && i < MS__AT_MARK + 8 &&
                              h[i] == mark[i - MS__AT_MARK]);
    return zeros;
}

static bool ms__super_fixed_holds(const unsigned char *h)
{
    return memcmp(h, ms__log_magic, 8) == 0 &&
           ms__get32(h + 52) == ms__crc32c(0, h, 52);
}

/* Returns whether a fixed part holds and names the file of a log. */
static bool ms__super_names(const ms__log *log, const unsigned char *h)
{
    return ms__super_fixed_holds(h) && memcmp(h + 24, log->id.id, 16) == 0;
}

/* Returns whether an interrupted creation may have left these bytes. got: bytes that the
 * file has. */
static bool ms__super_incomplete(const unsigned char *h, size_t got)
{
    bool born = got >= MS__SUPER_SIZE && ms__super_fixed_holds(h) &&
                ms__get64(h + MS__AT_MARK) == MS__FIRST_RECORD;
    return !born && ms__super_page_incomplete(h) &&
           ms__super_page_incomplete(h + MS__SUPER_COPY);
}

/* Finds out whether the first record whose header holds is of the file that the copy
 * names, and not of the one that page 0 names. h: room for both pages and a header. */
static int ms__super_foreign(ms__log *log, uint32_t copy, unsigned char *h, bool *foreign)
{
    size_t got = 0;
    const size_t all = MS__FIRST_RECORD + MS__HEADER;
    *foreign = false;
    for (uint64_t at = MS__FIRST_RECORD;; at += MS__FIRST_RECORD) {
        int code = ms__os_read_all(log->os, log->file.handle, at, h, all, &got);
        if (code != 0 || got < MS__HEADER) return code;
        for (size_t i = 0; i + MS__HEADER <= got && i < MS__FIRST_RECORD; i += 8) {
            if (h[i + 4] == 0) continue;
            if (ms__holds_at(log->id.crc, at + i, h + i)) return 0;
            if (!ms__holds_at(copy, at + i, h + i)) continue;
            *foreign = true;
            return 0;
        }
    }
}

/* Decodes the fixed part of a superblock. h: both pages and room for a header; may be
 * overwritten. The copy counts if page 0 is damaged, has no live words, or names another
 * file than the first record is of: then super_lost is set. It is set, too, if page 0 has
 * no live words and the copy is damaged. super_mend: the next writer has to write one of
 * the two. If the check of page 0 holds, and its version or a flag is not known, the file
 * is refused. */
static ms_result ms__super_choose(ms__log *log, unsigned char *h, ms_error *err)
{
    ms__file_id copy;
    const unsigned char *again = h + MS__SUPER_COPY;
    bool foreign, holds = ms__super_fixed_holds(h);
    ms_result code = ms__super_decode(h, log->file.path, &log->id, err);
    if (code == MS_OK) ms__super_lineage_get(&log->id, h);
    log->file.super_lost = false;
    bool none = ms__get64(h + MS__AT_MARK) == 0 && /* it has no live words */
                ms__super_page_incomplete(h);
    log->file.super_mend = none || memcmp(h, again, MS__SUPER_FIXED) != 0;
    if (!log->file.super_mend || (holds && code != MS_OK)) return code;
    if (!ms__super_fixed_holds(again) ||
        ms__super_decode(again, log->file.path, &copy, NULL) != MS_OK) {
        log->file.super_lost = none;
        return code;
    }
    ms__super_lineage_get(&copy, h);
    if (holds && !none) {
        int failed = ms__super_foreign(log, copy.crc, h, &foreign);
        if (failed != 0) return ms__os_fail(err, failed, "reading", log->file.path);
        if (!foreign) return MS_OK;
    }
    log->id = copy;
    log->file.super_lost = true;
    return MS_OK;
}

/* Writes the fixed part of the superblock again where it is damaged. A lost page 0 gets a
 * watermark without a line, and a checkpoint up to where the file is known to have had
 * bytes: damage and loss below it stay known. */
static ms_result ms__super_mend(ms__log *log, ms_error *err)
{
    const size_t all = MS__SUPER_SIZE, fixed = MS__SUPER_FIXED;
    bool lost = log->file.super_lost;
    size_t got = 0, good = lost ? MS__SUPER_COPY : 0;
    unsigned char *h = (unsigned char *)ms__log_resize(log, NULL, 0, all);
    if (!h) return ms__no_memory(err, all);
    memset(h, 0, all);
    int failed = ms__os_read_all(log->os, log->file.handle, good, h, fixed, &got);
    if (good != 0 && !ms__super_names(log, h)) { /* all that is left is on page 0 */
        good = 0;
        failed = ms__os_read_all(log->os, log->file.handle, good, h, fixed, &got);
    }
    if (failed == 0 && !ms__super_names(log, h)) failed = EIO; /* changed meanwhile */
    ms__super_lineage_put(&log->id, h);
    if (lost) {
        uint64_t most = log->append.lost_end; /* no LOST record notes it yet */
        /* even, in the first place: the next one goes to the other */
        ms__checkpoint c = {2, log->end, log->sum.last_seq, 0};
        if (c.end < most) c.end = most;
        ms__put64(h + MS__AT_MARK, MS__FIRST_RECORD);
        ms__checkpoint_encode(&c, h + MS__AT_CHECKPOINTS);
        if (failed == 0) failed = ms__os_sync_done(log->os, log->file.handle);
    }
    if (failed == 0 && lost)
        failed = ms__os_write_all(log->os, log->file.handle, 0, h, MS__SUPER_SIZE);
    if (failed == 0 && good == 0)
        failed = ms__os_write_all(log->os, log->file.handle, MS__SUPER_COPY, h, fixed);
    /* the lineage may be that of the copy, which has to be there before page 0 changes */
    if (failed == 0 && good == 0) failed = ms__os_sync_done(log->os, log->file.handle);
    if (failed == 0 && good == 0)
        failed = ms__os_write_all(log->os, log->file.handle, MS__AT_LINEAGE,
                                  h + MS__AT_LINEAGE, fixed - MS__AT_LINEAGE);
    if (failed == 0) failed = ms__os_sync_done(log->os, log->file.handle);
    (void)ms__log_resize(log, h, all, 0);
    if (failed != 0)
        return ms__os_fail(err, failed, "writing the superblock of", log->file.path);
    return MS_OK;
}

/* Reads both pages of the superblock and what follows. What the disk cannot read is zeros
 * here, unless neither fixed part can be read. */
static int ms__super_pages(ms__log *log, unsigned char *h, size_t all, size_t *got)
{
    int code = ms__os_read_all(log->os, log->file.handle, 0, h, all, got);
    if (code != EIO) return code;
    memset(h, 0, all);
    for (size_t at = 0; at < all; at += MS__PAGE) {
        size_t part = ms__min(all - at, MS__PAGE), n = 0;
        code = ms__os_read_all(log->os, log->file.handle, at, h + at, part, &n);
        if (code != 0 && code != EIO) return code;
        if (code != 0) memset(h + at, 0, part);
        if (code != 0 && at == 0) log->file.super_unreadable = true;
    }
    *got = all;
    bool held = ms__super_fixed_holds(h) || ms__super_fixed_holds(h + MS__SUPER_COPY);
    return held ? 0 : EIO;
}

/* Reports an unknown lineage as an event; returns whether it is unknown. */
static bool ms__super_report(ms__log *log)
{
    if (ms__super_known(&log->id)) return false;
    ms__log_event(log, MS_LOG_INDEX_DAMAGE, MS__AT_LINEAGE, 20, 0, 0, 0);
    return true;
}

/* Reads the superblock. *empty: the file counts as new. */
static MS__NOINLINE MS__RARE ms_result ms__log_super_read(ms__log *log, bool *empty,
                                                          ms_error *err)
{
    const size_t all = MS__FIRST_RECORD + MS__HEADER; /* of the first record, too */
    unsigned char *h = (unsigned char *)ms__log_resize(log, NULL, 0, all);
    size_t got = 0;
    if (!h) return ms__no_memory(err, all);
    int code = ms__super_pages(log, h, all, &got);
    ms_result result =
        code == 0 ? MS_OK : ms__os_fail(err, code, "reading", log->file.path);
    if (got < all) memset(h + got, 0, all - got);
    bool incomplete = result == MS_OK && ms__super_incomplete(h, got);
    *empty = false;
    if (incomplete) result = ms__rest_is_zero(log, empty, err);
    /* what follows is not zero: its creator may have written it, and records, since it
     * was read */
    if (result == MS_OK && incomplete && !*empty) {
        code = ms__super_pages(log, h, all, &got);
        if (code != 0) result = ms__os_fail(err, code, "reading", log->file.path);
        if (got < all) memset(h + got, 0, all - got);
    }
    bool fixed = got >= MS__SUPER_FIXED;
    if (result == MS_OK && !*empty && fixed) result = ms__super_choose(log, h, err);
    if (result == MS_OK && !*empty && got < MS__FIRST_RECORD)
        result = ms__fail(err, memcmp(h, ms__log_magic, 8) ? MS_E_FOREIGN : MS_E_DAMAGED,
                          "'%s' has %u bytes, a log has at least %u", log->file.path,
                          (uint64_t)got, (uint64_t)MS__FIRST_RECORD);
    (void)ms__log_resize(log, h, all, 0);
    if (result == MS_OK && !*empty && log->file.super_lost)
        ms__log_event(log, MS_LOG_INDEX_DAMAGE, 0, MS__SUPER_SIZE, 0, 0, 0);
    if (result == MS_OK && !*empty) ms__super_report(log);
    return result;
}

/* Writes the first `size` bytes of the superblock and makes them durable. folder: the
 * name of the file, too. */
static ms_result ms__super_durable(ms__log *log, const unsigned char *h, size_t size,
                                   bool folder, ms_error *err)
{
    int failed = ms__os_write_all(log->os, log->file.handle, 0, h, size);
    if (failed == 0) failed = ms__os_sync_done(log->os, log->file.handle);
    if (failed == 0 && folder)
        failed = ms__os_folder_done(log->os, &log->opts.alloc, log->file.path);
    if (failed == 0) return MS_OK;
    return ms__os_fail(err, failed, "writing the superblock of", log->file.path);
}

/* Removes the file that the path of a log leads to. */
static void ms__log_remove(const ms__log *log)
{
    char *real;
    size_t size;
    const ms_alloc *alloc = &log->opts.alloc;
    if (ms__path_real(log->os, alloc, log->file.path, &real, &size) != 0) return;
    (void)log->os->remove(log->os->ctx, real);
    (void)ms__resize(alloc, real, size, 0);
}

/* Makes an empty file a log: step 2 of an opening. */
static ms_result ms__log_create(ms__log *log, ms_error *err)
{
    unsigned char id[16];
    unsigned char *h = (unsigned char *)ms__log_resize(log, NULL, 0, MS__FIRST_RECORD);
    if (!h) return ms__no_memory(err, MS__FIRST_RECORD);
    memset(id, 0, sizeof id);
    log->opts.entropy.fill(log->opts.entropy.ctx, id, sizeof id);
    ms__file_id_set(&log->id, id, log->opts.clock.now(log->opts.clock.ctx));
    ms__super_encode(&log->id, h);
    log->end = 0;
    ms_result code = ms__log_allocate(log, MS__FIRST_RECORD, err);
    if (code == MS_OK) code = ms__super_durable(log, h, MS__FIRST_RECORD, true, err);
    (void)ms__log_resize(log, h, MS__FIRST_RECORD, 0);
    if (code != MS_OK) return code;
    log->file.folder_synced = true;
    int failed = log->os->stat(log->os->ctx, log->file.handle, &log->file.stat);
    return failed == 0 ? MS_OK : ms__os_fail(err, failed, "stat of", log->file.path);
}

/* Drops all state of the file: a reader begins again at its next query. */
static void ms__log_detach(ms__log *log)
{
    ms__map_drop(log);
    ms__nodes_clear(log);
    log->end = 0;
    memset(&log->sum, 0, sizeof log->sum);
    ms__log_lost(log, 0);
}

/* Returns whether the superblock is known to be on the disk: a sync stored a checkpoint,
 * or a writer its line in this file, which it does after a sync of the superblock. (A
 * copy of a file has the line of another one.) */
static bool ms__super_synced(const ms__log *log)
{
    ms__writer_line w;
    const unsigned char *h = log->map.super;
    if (ms__checkpoint_newest(h).generation != 0) return true;
    return ms__writer_decode(&w, h) && w.device == log->file.stat.device &&
           w.inode == log->file.stat.inode;
}

/* Maps the superblock and takes in the content: steps 3 to 9 of an opening. fresh: this
 * handle has just created the file. */
static ms_result ms__log_attach_file(ms__log *log, bool fresh, ms_error *err)
{
    void *super = NULL;
    unsigned char pid[8], again[MS__SUPER_FIXED];
    unsigned how = MS_OS_READ | MS_OS_RANDOM;
    log->core.seed = log->id.crc;
    log->edits.names.hash_key[0] = log->id.hash_key[0];
    log->edits.names.hash_key[1] = log->id.hash_key[1];
    /* 3: a page that the disk cannot read must be written before it is mapped */
    if (log->writer && log->file.super_unreadable) MS__TRY(ms__super_mend(log, err));
    bool holes = log->writer && !fresh && log->file.stat.holes > 0;
    if (holes) MS__TRY(ms__holes_fill(log, err));
    if (log->append.engine == MS_ENGINE_MAP) how |= MS_OS_WRITE;
    int failed =
        log->os->map(log->os->ctx, log->file.handle, 0, MS__SUPER_SIZE, how, &super);
    if (failed != 0) return ms__os_fail(err, failed, "mapping", log->file.path);
    log->map.super = (unsigned char *)super;
    if (log->os->populate && log->file.super_lost) {
        uint64_t bad;
        (void)log->os->populate(log->os->ctx, log->file.handle, super, 0, MS__SUPER_SIZE,
                                &bad);
    }
    /* 4 to 7 */
    ms_result code = ms__log_attach_content(log, err);
    /* 8: a file that is refused was not written to */
    if (code == MS_OK && log->writer && !fresh && !holes) code = ms__holes_fill(log, err);
    if (code == MS_OK && log->writer && !fresh && log->file.super_mend)
        code = ms__super_mend(log, err);
    if (log->writer) log->file.super_lost = log->file.super_mend = false;
    if (code == MS_OK && log->writer && !fresh && !ms__super_synced(log)) {
        memcpy(again, log->map.super, sizeof again);
        code = ms__super_durable(log, again, sizeof again, false, err);
    }
    if (code != MS_OK) {
        ms__log_detach(log);
        return code;
    }
    /* 9 */
    ms__put64(pid, log->file.fork_mark.process);
    if (log->writer) (void)ms__super_write(log, MS__AT_PID, pid, sizeof pid);
    ms__store_ptr(&log->map.super_now, log->map.super);
    return MS_OK;
}

/* Opens a file: reads it, or creates it. A reader's file may still be empty. */
static ms_result ms__log_attach(ms__log *log, ms_error *err)
{
    bool empty = true;
    int failed = log->os->stat(log->os->ctx, log->file.handle, &log->file.stat);
    if (failed != 0) return ms__os_fail(err, failed, "stat of", log->file.path);
    uint64_t began = log->os->micros(log->os->ctx);
    /* 1 */
    ms_result code = ms__log_super_read(log, &empty, err);
    if (log->os->micros(log->os->ctx) - began < MS__COLD) log->map.looks = MS__LOOKS;
    bool looked = code == MS_OK || code == MS_E_FOREIGN || code == MS_E_DAMAGED;
    if (looked && !empty && log->opts.mode == MS_LOG_NEW)
        return ms__fail(err, MS_E_CONFLICT, "creating '%s': the file exists",
                        log->file.path);
    if (code != MS_OK) return code;
    if (empty && log->opts.opening == MS_OPEN_STRICT && log->file.stat.size > 0)
        return ms__fail(err, MS_E_DAMAGED, "'%s' has %u bytes and no complete superblock",
                        log->file.path, log->file.stat.size);
    /* 2 */
    if (empty && !log->writer)
        return ms__tail_of(log) ? MS_OK : ms__tail_first(log, MS__FIRST_RECORD, 0, err);
    if (empty && log->opts.mode == MS_LOG_WRITE)
        return ms__fail(err, MS_E_NOT_FOUND,
                        "opening '%s': no log is in its %u bytes, and MS_LOG_WRITE "
                        "creates none", log->file.path, log->file.stat.size);
    if (empty) code = ms__log_create(log, err);
    if (code != MS_OK && log->opts.mode == MS_LOG_NEW) ms__log_remove(log);
    MS__TRY(code);
    return ms__log_attach_file(log, empty, err);
}

/* ---- Following other writers. */

/* Fails with MS_E_CONFLICT if a writer has been at work since a handle was opened for
 * salvage. mark and line: what the file has. */
static MS__ONCE ms_result ms__salvage_holds(const ms__log *log, uint64_t mark,
                                            uint32_t line, ms_error *err)
{
    if (mark == log->map.marked && line == log->map.seen_line) return MS_OK;
    return ms__fail(err, MS_E_CONFLICT, "'%s' was written to after it was opened for "
                    "salvage: open it again", log->file.path);
}

/* Takes in the appends of other processes. The caller holds the handle's lock. The line
 * is loaded before the watermark, see step 4 of an opening. A watermark that is not
 * current is ignored: no writer has stored it since this handle was opened. What was
 * loaded is noted as seen: the next query compares these two words (ms__log_look). */
static ms_result ms__log_follow(ms__log *log, ms_error *err)
{
    ms_os_stat st;
    if (!log->map.super) MS__TRY(ms__log_attach(log, err));
    if (!log->map.super) return MS_OK;
    uint32_t line = ms__log_line(log->map.super);
    uint64_t mark = ms__load_mark(log->map.super + MS__AT_MARK);
    bool salvage = log->opts.opening == MS_OPEN_SALVAGE; /* its end is its own */
    if (log->recovery.doubt && ms__mark_current(log))
        MS__TRY(ms__doubt_over(log, mark, err));
    if (mark != log->end && !salvage && ms__mark_current(log)) {
        ms__fence();
        mark = ms__load_mark(log->map.super + MS__AT_MARK);
        uint64_t size = log->append.no_allocate ? 0 : log->append.allocated;
        if (mark > size) { /* a reader; or others made room, or truncated the file */
            int failed = log->os->stat(log->os->ctx, log->file.handle, &st);
            if (failed != 0)
                return ms__os_fail(err, failed, "stat of", log->file.path);
            size = st.size;
        }
        if (mark > log->end) {
            uint64_t limit = mark < size ? mark : size & ~(uint64_t)7;
            MS__TRY(ms__log_reach(log, log->end, limit, size, err));
            ms_result code = ms__apply_visible(log, mark, size, err);
            ms__tail_show(ms__tail_of(log));
            MS__TRY(code);
        }
    }
    if (!salvage) ms__log_seen(log, mark, line);
    return log->map.salvaged ? ms__salvage_holds(log, mark, line, err) : MS_OK;
}

/* Does the same for a query, which holds no lock. Without new appends it takes none. */
static ms_result ms__log_look(ms__log *log, ms_error *err)
{
    MS__TRY(ms__log_ready(log, err));
    if (log->writer && !log->opts.shared) return MS_OK;
    const unsigned char *super =
        (const unsigned char *)ms__load_ptr(&log->map.super_now);
    if (super &&
        ms__load_mark(super + MS__AT_MARK) ==
            (uint64_t)(uintptr_t)ms__load_ptr(&log->map.seen) &&
        ms__log_line(super) == ms__load32(&log->map.seen_line))
        return MS_OK;
    ms__lock_acquire(&log->lock);
    ms_result code = ms__log_follow(log, err);
    ms__lock_release(&log->lock);
    return code;
}

/* Fails once if a rewrite has replaced the file of a reader, or of a shared writer that
 * reads. It may go on with the old file. While the copy is made, the path has the old
 * file: nothing fails. */
static ms_result ms__reader_replaced(ms__log *log, ms_error *err)
{
    ms_result code = MS_OK;
    ms__lock_acquire(&log->lock);
    if (!log->recovery.reported && !ms__log_in_place(log)) {
        log->recovery.reported = true;
        code = ms__fail(err, MS_E_CONFLICT, "a rewrite has replaced '%s' by a new "
                        "file: open it again", log->file.path);
    }
    ms__lock_release(&log->lock);
    return code;
}

/* Does what precedes a query: takes in the appends of other processes, and fails once if
 * the file was replaced. Only an exclusive writer itself can replace its file. */
static ms_result ms__log_catch_up(ms__log *log, ms_error *err)
{
    MS__TRY(ms__log_look(log, err));
    const unsigned char *super =
        (const unsigned char *)ms__load_ptr(&log->map.super_now);
    if ((log->writer && !log->opts.shared) || !super) return MS_OK;
    const void *replaced = super + MS__AT_REPLACED;
    if (ms__load32((const uint32_t *)replaced) == 0) return MS_OK;
    return ms__reader_replaced(log, err);
}

/* ---- The turn of a shared writer. */

/* Does step 4 of a turn: sets the handle prepared or not prepared. A truncated file is
 * not an error: the bytes that are missing were noted when the handle followed. */
static ms_result ms__turn_check(ms__log *log, ms_error *err)
{
    ms_os_stat st;
    uint64_t mark = ms__load_mark(log->map.super + MS__AT_MARK);
    bool current = ms__mark_current(log);
    if (current && log->end == mark && !ms__log_unconfirmed(log) &&
        !ms__log_must_prove(log) &&
        ms__load_mark(log->map.super + MS__AT_BUSY) <= mark) {
        ms__prepared_set(log, true, log->append.stop);
        return MS_OK;
    }
    int failed = log->os->stat(log->os->ctx, log->file.handle, &st);
    if (failed != 0) return ms__os_fail(err, failed, "stat of", log->file.path);
    if (current && log->end != mark && st.size >= mark)
        return ms__fail(err, MS_E_CONFLICT,
                        "'%s' ends at %u here, and at %u by its watermark: open it again",
                        log->file.path, log->end, mark);
    ms__prepared_set(log, false, st.size);
    return ms__log_reach(log, log->end, st.size, st.size, err);
}

/* Notes that a shared handle has the lock of the file, until ms__log_leave. */
static void ms__log_hold(ms__log *log)
{
    log->recovery.holds_lock = log->opts.shared;
}

static MS__ONCE void ms__log_leave(ms__log *log)
{
    if (!log->opts.shared || !log->recovery.holds_lock) return;
    log->recovery.holds_lock = false;
    (void)log->os->unlock(log->os->ctx, log->file.handle);
}

/* Begins the turn of a shared writer, steps 1 to 4. The caller holds the handle's
 * lock. */
static ms_result ms__log_enter(ms__log *log, ms_error *err)
{
    if (!log->opts.shared) return MS_OK;
    /* 1 */
    MS__TRY(ms__log_follow(log, err));
    /* 2 */
    MS__TRY(ms__log_lock(log, err));
    ms__log_hold(log);
    /* 3 */
    ms_result code = ms__log_follow(log, err);
    /* 4 */
    if (code == MS_OK) code = ms__turn_check(log, err);
    if (code != MS_OK) ms__log_leave(log);
    return code;
}

/* Begins a change of the file: takes the handle's lock, and the turn. The caller must
 * call ms__write_end, also after a failure. */
static ms_result ms__write_begin(ms__log *log, ms_error *err)
{
    ms__lock_acquire(&log->lock);
    MS__TRY(ms__log_poison_check(log, err));
    MS__TRY(ms__log_enter(log, err));
    return ms__replaced_check(log, err);
}

static void ms__write_end(ms__log *log)
{
    ms__log_leave(log);
    ms__lock_release(&log->lock);
}

/* As ms__write_begin, for a change that calls ms__writer_prepare: that may sync, which it
 * must not while another thread does: (LS3) of [log-sync]. So it first waits for a sync
 * that runs, and gives back both locks meanwhile: the thread that syncs needs them. */
static ms_result ms__append_begin(ms__log *log, ms_error *err)
{
    ms_result code = ms__write_begin(log, err);
    while (code == MS_OK && !log->append.prepared && log->durable.syncing) {
        ms__log_leave(log);
        ms__log_await_sync(log);
        ms__write_end(log);
        code = ms__write_begin(log, err);
    }
    return code;
}
