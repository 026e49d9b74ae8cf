
/* ==== [log-cursor] cursors over sealed segments ========================================
 * Here an iterator (ms__list_iter of [merge]) stands on a sealed segment. Its run is the
 * posting list in the segment's index, or for a query over the whole store, all records
 * of the segment. A list of messages skips a segment outside of the query's times.
 * ================================================================================== */

static ms_str ms__list_iter_agent(const ms__reading *s, const ms__list_iter *li)
{
    uint32_t agent = li->agent & ~MS__FOR_COMPARE;
    if (agent == MS__FOR_LOCATION) return ms__absent();
    return agent == MS__FOR_AGENT ? s->query->agent_key
                                  : s->query->agent_keys[agent - MS__FOR_TEAM];
}

/* Returns whether a record has the names whose list an iterator reads. */
static bool ms__list_iter_names(const ms__reading *s, const ms__list_iter *li,
                                const ms_msg *msg)
{
    if (!ms_str_equal(ms__location(msg), s->query->location)) return false;
    ms_str agent = ms__list_iter_agent(s, li);
    return !agent.ptr || ms_str_equal(ms__agent_key(msg), agent);
}

/* Returns the record, by its number in the segment, of entry i of an iterator. */
static uint32_t ms__run_entry(const ms__list_iter *li, uint32_t i)
{
    if (!li->run) return i;
    return ms__posting((const unsigned char *)li->run, i, li->index->width);
}

static uint32_t ms__log_below(const ms__list_iter *li, uint32_t unit)
{
    const ms__segment *l = li->index;
    uint32_t low = 0, high = li->hi;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2, entry = ms__run_entry(li, middle);
        if (entry < l->n && ms__segment_unit(l, entry) < unit) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Moves an iterator to the entries of its list in a segment, within the query's bounds.
 * False: there are none. */
static bool ms__log_run(const ms__log *log, const ms__reading *s, ms__list_iter *li,
                        const ms__run *run)
{
    const ms__segment *l = run->index;
    bool listed = li->list > MS__LIST_OTHERS;
    li->index = l;
    li->agent &= ~MS__FOR_COMPARE;
    /* an amended message may have another time; times filter no change */
    if (!s->changed && (li->list & 7) != MS__P_CHANGE &&
        ms__times_miss(s->query, l->first_time, l->last_time))
        return false;
    if (!listed && li->list == MS__LIST_OTHERS && l->messages == l->n) return false;
    li->run = run->at;
    li->hi = run->n;
    li->lo = 0;
    if (s->to >> 32 == l->number) li->hi = ms__log_below(li, (uint32_t)s->to);
    if (s->from >> 32 == l->number) li->lo = ms__log_below(li, (uint32_t)s->from);
    if (li->lo >= li->hi) return false;
    /* the number of a list has 61 bits: looks whether the names are the same */
    uint32_t end = s->backward ? li->hi - 1 : li->lo;
    const unsigned char *r =
        listed ? ms__segment_record(log, l, ms__run_entry(li, end)) : NULL;
    if (!listed || run->mixed || !r || !ms__list_iter_names(s, li, ms__msg(r)))
        li->agent |= MS__FOR_COMPARE;
    return true;
}

/* Returns how many segments begin before a place. */
static uint32_t ms__segments_to(uint64_t place)
{
    return (uint32_t)(place >> 32) + ((uint32_t)place > 0 ? 1 : 0);
}

/* Walking forward: returns the next sealed segment that an iterator reads, of those with
 * places of the query. MS__NO_SEGMENT: none is left. */
static uint32_t ms__log_forward(ms__log *log, ms__reading *s, const ms__list_iter *li,
                                ms__run *run)
{
    uint32_t n = ms__segments_to(s->to);
    if (n > s->tail->segment) n = s->tail->segment;
    if (li->list > MS__LIST_OTHERS)
        return ms__segment_after(log, li->list, li->from, n, s->locked, run, &s->result);
    return li->from < n ? li->from : MS__NO_SEGMENT;
}

/* The same, walking backward. */
static uint32_t ms__log_backward(ms__log *log, ms__reading *s, const ms__list_iter *li,
                                 ms__run *run)
{
    uint32_t first = (uint32_t)(s->from >> 32), n = ms__segments_to(s->to);
    if (n > li->from) n = li->from;
    if (n <= first) return MS__NO_SEGMENT;
    if (li->list <= MS__LIST_OTHERS) return n - 1;
    uint32_t at = ms__segment_before(log, li->list, n, s->locked, run, &s->result);
    return at >= first ? at : MS__NO_SEGMENT;
}

/* Makes all records of a segment a run. False: no memory. */
static bool ms__log_all(ms__log *log, ms__reading *s, uint32_t segment, ms__run *run)
{
    memset(run, 0, sizeof *run);
    run->index = ms__segment_valid(log, segment, false, s->locked);
    if (!run->index) s->result = MS_E_NO_MEMORY;
    if (run->index) run->n = run->index->n;
    return run->index != NULL;
}

/* Returns whether the holes of a segment are to be counted. Several lists meet a segment,
 * and some of them twice; each of the last few damaged ones is counted once. */
static bool ms__segment_met(ms__reading *s, uint32_t segment)
{
    const uint32_t most = sizeof s->counted / sizeof s->counted[0];
    for (uint32_t i = 0; i < most; i++)
        if (s->counted[i] == segment + 1) return false;
    s->counted[s->n_counted++ % most] = segment + 1;
    return true;
}

/* Counts the holes of a segment that a query may lack a record of. A walk that reads
 * edits holds those changes that are known, and counts the others. */
static MS__NOINLINE void ms__segment_report(ms__log *log, ms__reading *s,
                                            const ms__segment *l)
{
    uint32_t where = ms__where_of(&s->tail->names, s->query->location);
    if (!ms__segment_met(s, l->number)) return;
    for (uint32_t i = 0; i < l->n_holes; i++) {
        ms__hole h = ms__segment_hole(l, i);
        bool own = s->load && h.kind != 0 && h.where == where;
        bool held = own && ms__edit_hold(&log->edits.names, s->load, &h,
                                         ms__place(l->number, h.unit));
        if (s->load && h.kind != 0 && (held || !own)) continue;
        if (!s->load && !ms__hole_concerns(&h, where, ms__raw_of(s->query))) continue;
        if (h.kind == 0 || s->load) s->damaged_ranges++;
        else s->damaged_records++;
        if (s->load) s->load->damaged_to = ms__place(l->number, h.unit);
    }
}

static bool ms__log_next_run(ms__core *core, ms__reading *s, ms__list_iter *li,
                             bool *some)
{
    ms__log *log = ms__log_in(core);
    bool listed = li->list > MS__LIST_OTHERS;
    ms__run run;
    *some = false;
    uint32_t segment = s->backward ? ms__log_backward(log, s, li, &run)
                                   : ms__log_forward(log, s, li, &run);
    if (segment == MS__NO_SEGMENT) { /* forward, the tail may follow */
        li->from = s->tail->segment;
        return !s->backward && ms__segments_to(s->to) > s->tail->segment;
    }
    ms__list_iter_at(s, li, segment);
    if (!listed && !ms__log_all(log, s, segment, &run)) return false;
    if (ms__segment_lost(run.index) > 0) ms__segment_report(log, s, run.index);
    *some = ms__log_run(log, s, li, &run);
    return true;
}

/* Returns whether to skip a record that is in the run. A damaged record whose names must
 * be compared is not skipped, but counted. */
static bool ms__list_iter_skips(const ms__log *log, const ms__reading *s,
                                const ms__list_iter *li)
{
    if (li->list <= MS__LIST_OTHERS)
        return ms__segment_message(li->index,
                                   li->entry) != (li->list == MS__LIST_MESSAGES);
    const unsigned char *r = ms__segment_record(log, li->index, li->entry);
    return r && !ms__list_iter_names(s, li, ms__msg(r));
}

static bool ms__log_offer(ms__core *core, ms__reading *s, ms__list_iter *li, uint32_t i)
{
    ms__log *log = ms__log_in(core);
    const ms__segment *l = li->index;
    uint32_t entry = ms__run_entry(li, i);
    uint32_t unit = entry < l->n ? ms__segment_unit(l, entry) : UINT32_MAX;
    uint64_t offset = l->base + (uint64_t)unit * 8;
    li->entry = entry;
    li->place = ms__place(l->number, unit);
    li->record = log->map.super;
    if (offset >= l->offset) return true; /* it is counted as damaged */
    li->record = ms__log_at(log, offset);
    ms__log_first_look(log, offset);
    return !(li->agent & MS__FOR_COMPARE) || !ms__list_iter_skips(log, s, li);
}

static ms__state_of ms__log_state_of(ms__core *core, const ms__segment *l, uint32_t entry,
                                     const unsigned char *r, bool raw)
{
    const ms__log *log = ms__log_in(core);
    bool message = raw || r[4] == MS__KIND_MESSAGE;
    uint64_t offset = ms__segment_offset(l, entry);
    if (offset == 0) return MS__LOST;
    uint64_t left = l->offset - offset;
    if (ms__bit_get(l->checked, entry) ? ms__size_fits(r, left)
                                       : ms__segment_record(log, l, entry) != NULL)
        return message ? MS__WHOLE : MS__LOST;
    return ms__log_holds(log, r, offset, left, false) ? MS__HEADER_ONLY : MS__LOST;
}

static ms_result ms__log_query(ms_store *store, ms_cursor *it, ms_error *err)
{
    ms__merge *merge = &it->of.merge;
    ms__log *log = ms__log_of(store);
    MS__TRY(ms__log_catch_up(log, err));
    const ms__tail *t = ms__tail_pin(log, &merge->pin);
    ms_result code = ms__core_open(&log->core, t, it, err);
    if (code != MS_OK) {
        ms__tail_unpin(log, merge->pin);
        merge->reading.tail = NULL;
    }
    return code;
}

static void ms__log_cursor_close(ms_store *store, ms_cursor *it)
{
    ms__merge *merge = &it->of.merge;
    if (merge->reading.tail) ms__tail_unpin(ms__log_of(store), merge->pin);
    merge->reading.tail = NULL;
}

static ms_result ms__log_get(ms_store *store, uint64_t seq, ms_arena *arena,
                             const ms_msg **msg, ms_error *err)
{
    uint32_t pin;
    ms__log *log = ms__log_of(store);
    (void)arena;
    MS__TRY(ms__log_catch_up(log, err));
    const ms__tail *t = ms__tail_pin(log, &pin);
    ms_result code = ms__core_get(&log->core, t, seq, msg, err);
    ms__tail_unpin(log, pin);
    return code;
}
