
/* ==== [api-rewrite] a new file instead of an old one, backups ======================
 * A backup is ms_log_rewrite to another path, without `replace`. The writer goes on
 * appending. The copy has at least what was visible when it began, and its path has a
 * whole, verified log or no file. Another process makes one through a handle with
 * MS_LOG_READ. cp of the file keeps what was replaced and hidden, too, see [api-log].
 * ms_copy writes into any open store, and is durable when that is synced. */

/* Copies the messages that keep selects (NULL: all) from an open store into a new log at
 * to->path: to save space, keep the newest, repair (source opened for salvage), or export
 * an arena store. Sequence numbers, times and keys stay. With keep->dry_run nothing is
 * written, and `to` may be NULL. mode, opening and shared of `to` must be valid, and have
 * no effect. lock_wait_ms is how long to wait for a writer of the file to be replaced (0:
 * not at all, also where writers are shared). report may be NULL.
 *   - The copy is written to PATH.compacting, verified, synced, and renamed. At every
 *     moment the path has the old file or the complete new one. A PATH.compacting of a
 *     killed rewrite is removed.
 *   - A log at the path is replaced only with `replace`. The new file has its
 *     permissions, owner and group. MS_E_IO where that is impossible; but the caller may
 *     become its owner if the group may read and write. The next query, listing or
 *     ms_wait of a reader or a shared writer in the old file, also if that is `source`,
 *     returns MS_E_CONFLICT, once. It may go on reading the old file, or open the path
 *     again; see ms_log_info.replaced. What was opened before goes on. The old file is
 *     synced first, since a power loss can bring it back until the new name is durable.
 *     Through a symbolic link the file that it leads to is replaced, and the link stays.
 *   - If the source is a log, the messages of one view stand together in the new file,
 *     within segments of 32 times the segment size (256 MiB). A new process then reads a
 *     conversation in a tenth of the time. A reader of everything in the order of numbers
 *     goes to and fro within a segment: the first time it takes two to three times as
 *     long, later a fifth longer. Messages appended later stand in their order. Sorting
 *     takes some 250 bytes of memory for each message of a segment (100 MB).
 *   - The log that is replaced refuses appends from the beginning of the copy on
 *     (MS_E_CONFLICT: close it and open the file again), unless the rewrite fails.
 * MS_E_DAMAGED: records of the source could not be read; the new log has all others and
 * is in place. It no longer reports the loss: their numbers are absent, as those of
 * hidden messages are. Or the lineage of the source is unknown: the new log has its
 * own. MS_E_BUSY: another process writes to the file to be replaced.
 * MS_E_CONFLICT: it was written to after the source was opened for salvage; or it is the
 * path of the source, and has another file by now, such as one of an earlier rewrite; or
 * a message was redacted during a copy to another path, which may have it: begin again.
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
 * a limit). A call takes longer where it sorts the messages of a segment by view or
 * makes its index: tens of milliseconds for 32 MiB (4 times the segment size), which such
 * a segment has here. The first call creates the new file. The call that reaches the end
 * verifies and syncs the copy, as long as the disk takes, and sets *more to false. A
 * further call does the same for messages appended since, and for changes. MS_E_CONFLICT:
 * a message was redacted meanwhile; end the rewrite and begin again. After any error end
 * it. */
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
 * is open, see ms_log_rewrite. MS_E_CONFLICT: a message was redacted; or the source is no
 * log, and was written to since the first run (a store of your own without `stat` cannot
 * tell). After other errors *fresh is NULL, and the source goes on as before. */
MS_API ms_result ms_rewrite_end(ms_rewrite *rewrite, ms_store **fresh, ms_error *err);
