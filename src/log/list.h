
/* ==== [log-list] listings and figures of a log =========================================
 * The names of a sealed segment for [list], and the counts of the whole store.
 * ================================================================================== */

static ms_result ms__log_names(ms__core *core, uint32_t segment, const ms_list_query *q,
                               ms__name_fn *add, void *naming)
{
    ms__log *log = ms__log_in(core);
    const ms__segment *l = ms__segment_valid(log, segment, true, false);
    ms__run run;
    if (!l) return MS_E_NO_MEMORY;
    uint32_t where = ms__where_of(&log->edits.names, q->location);
    for (uint32_t i = 0; i < l->n_holes; i++) {
        ms__hole h = ms__segment_hole(l, i);
        if (ms__hole_concerns(&h, where, 0)) ((ms__naming *)naming)->damaged = true;
    }
    for (uint32_t i = 0; i < l->lists; i++) {
        uint64_t list = ms__segment_list(l, i);
        unsigned kind = (unsigned)(list & 7);
        bool wanted = q->agents ? kind == MS__P_TRACE || kind == MS__P_REST
                                : kind == MS__P_LOCATION;
        if (!wanted || !ms__segment_run(log, l, i, &run) || run.n == 0) continue;
        uint32_t first = ms__posting(run.at, 0, l->width);
        uint32_t last = ms__posting(run.at, run.n - 1, l->width);
        if (first >= l->n || last >= l->n) continue;
        if (!add(naming, list, ms__place(segment, ms__segment_place(l, first)),
                 ms__place(segment, ms__segment_place(l, last)), run.n))
            return MS_E_ARENA;
    }
    return MS_OK;
}

static ms_result ms__log_list(ms_store *store, const ms_list_query *q, ms_arena *arena,
                              ms_listing *out, ms_error *err)
{
    uint32_t pin;
    ms__log *log = ms__log_of(store);
    MS__TRY(ms__log_catch_up(log, err));
    const ms__tail *t = ms__tail_pin(log, &pin);
    ms_result code = ms__core_list(&log->core, t, &log->lock, q, arena, out, err);
    ms__tail_unpin(log, pin);
    return code;
}

/* Returns the position after all records. */
static uint64_t ms__log_places(const ms__log *log)
{
    return ms__place(log->core.tail->segment, log->core.tail->filled);
}

static ms_result ms__log_store_stat(ms_store *store, ms_stat *out, ms_error *err)
{
    ms__log *log = ms__log_of(store);
    MS__TRY(ms__log_catch_up(log, err));
    ms__lock_acquire(&log->lock);
    /* some of the messages that HIDEs count may be damaged, and missing in `messages` */
    const ms__state *sum = &log->sum;
    out->hidden = sum->hidden < sum->messages ? sum->hidden : sum->messages;
    out->messages = sum->messages - out->hidden;
    out->changes = log->sum.changes;
    out->damaged = log->sum.damaged;
    out->as_of = ms__log_places(log);
    out->last_seq = log->sum.last_seq;
    out->given_seq = sum->last_seq < sum->gap_seq ? sum->gap_seq : sum->last_seq;
    out->bytes = log->sum.bytes;
    out->index_bytes = log->end > log->sum.bytes ? log->end - log->sum.bytes : 0;
    ms__lock_release(&log->lock);
    return MS_OK;
}
