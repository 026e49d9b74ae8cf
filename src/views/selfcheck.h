
/* ==== [selfcheck] promises, walked ===================================================
 * ms_selfcheck reads everything and reports the first broken invariant with its number.
 *   - An arena store is checked from the inside: (NM1), (NM4) and (MM2) over all posting
 *     lists, RC1 to RC5 over all records. Its keys are not checked.
 *   - Each segment index of a log must equal the one that is derived from its records, by
 *     the walk that opening and ms_log_verify use. Its summary must have its lists.
 *   - Logs and other stores are then read through a cursor over everything: numbers rise,
 *     each message has a location, and a store would accept it.
 * ================================================================================== */

/* Checks that a posting follows `last`, and that a valid record is there. This comes
 * before any other read of the record. */
static ms_result ms__check_posting(const ms__mem *m, uint32_t unit, uint32_t last,
                                   ms_error *err)
{
    uint64_t offset = (uint64_t)unit * 8;
    if (unit <= last || unit >= m->tail.end)
        return ms__fail(err, MS_E_DAMAGED,
                        "NM1: the posting %u follows %u, the end is %u", (uint64_t)unit,
                        (uint64_t)last, (uint64_t)m->tail.end);
    const unsigned char *r = ms__mem_at(&m->core, offset);
    uint64_t left = (uint64_t)m->tail.end * 8 - offset;
    MS__TRY(ms__check_header(r, left, ms__seed_at(m->core.seed, offset), offset, err));
    return ms__check_record(r, offset, err);
}

#define MS__KINDS_MESSAGE (1u << MS__KIND_MESSAGE)
#define MS__KINDS_EDITS (1u << MS__KIND_AMEND | 1u << MS__KIND_HIDE)
#define MS__KINDS_FACTS (1u << MS__KIND_NOTE | 1u << MS__KIND_LOCATION)
#define MS__KINDS_PARTS (1u << MS__KIND_PART)

/* Checks one posting list: its postings rise, their records belong there, its chunks are
 * linked. Adds its length to *entries. */
static MS__ONCE ms_result ms__check_list(const ms__mem *m, const ms__postings *s,
                                         const ms__loc *loc, const ms__agent *agent,
                                         unsigned kinds, ms_type_set types,
                                         uint64_t *entries, ms_error *err)
{
    uint32_t last = 0;
    const ms__chunk *before = NULL;
    if (s->wanted != 0) return ms__fail(err, MS_E_DAMAGED, "NM2: room is still reserved");
    for (uint32_t i = 0; i < s->count; i++) {
        const ms__chunk *c = ms__postings_chunk(s, i);
        uint32_t unit = ms__chunk_entry(c, i);
        MS__TRY(ms__check_posting(m, unit, last, err));
        if (c->first == i && (c->before != before || (before && before->after != c)))
            return ms__fail(err, MS_E_DAMAGED, "NM1: chunks are not linked at entry %u",
                            (uint64_t)i);
        const ms_msg *msg = ms__msg(ms__mem_at(&m->core, (uint64_t)unit * 8));
        bool right = (kinds >> (unsigned)ms_kind_of(msg) & 1) != 0;
        if (kinds == MS__KINDS_MESSAGE)
            right = right && (MS_BIT(ms_type_of(msg)) & types) != 0;
        if (loc) right = right && ms_str_equal(ms__location(msg), loc->name.text);
        if (agent) right = right && ms_str_equal(ms__agent_key(msg), agent->name.text);
        if (!right)
            return ms__fail(err, MS_E_DAMAGED, "NM1: the record at %u is in a "
                            "wrong list", (uint64_t)unit * 8);
        last = unit;
        before = c;
    }
    *entries += s->count;
    return MS_OK;
}

/* Checks the lists of changes, and the counts of hidden messages. */
static ms_result ms__check_changes(const ms__mem *m, ms_error *err)
{
    const ms__tail_names *names = &m->tail.names;
    uint64_t all = 0, placed = 0, hidden = 0;
    MS__TRY(ms__check_list(m, &names->others, NULL, NULL,
                           MS__KINDS_EDITS | MS__KINDS_FACTS | MS__KINDS_PARTS, 0, &all,
                           err));
    for (const ms__loc *l = ms__loc_at(names->linked[MS__LOCS].first); l;
         l = ms__loc_at(l->name.node.next)) {
        const ms__edits *c = (const ms__edits *)l->edits;
        if (!c) continue;
        MS__TRY(ms__check_list(m, &c->changes, l, NULL, MS__KINDS_EDITS, 0, &placed,
                               err));
        MS__TRY(ms__check_list(m, &c->facts, l, NULL, MS__KINDS_FACTS, 0, &placed, err));
        ms_result result = MS_OK;
        ms__core *core = (ms__core *)(uintptr_t)&m->core;
        uint64_t visible = ms__visible(core, l->name.text, 0, UINT64_MAX, &result);
        if (visible + c->hidden != l->all.count)
            return ms__fail(err, MS_E_DAMAGED,
                            "NM4: '%v' has %u messages, %u visible and "
                            "%u hidden", MS__V(l->name.text), (uint64_t)l->all.count,
                            visible, c->hidden);
        hidden += c->hidden;
    }
    for (const ms__stream *f = ms__stream_at(names->linked[MS__STREAMS].first); f;
         f = ms__stream_at(f->name.node.next))
        MS__TRY(ms__check_list(m, &f->parts, f->name.loc, NULL, MS__KINDS_PARTS, 0,
                               &placed, err));
    if (all == placed && all == names->changes && hidden == names->hidden) return MS_OK;
    return ms__fail(err, MS_E_DAMAGED, "NM1: %u changes, %u in lists; NM4: %u hidden of "
                    "locations, %u of all", all, placed, hidden, names->hidden);
}

/* Checks that the numbers of all messages rise, and counts those that the lists of agents
 * and of classes must hold. */
static ms_result ms__check_order(const ms__mem *m, uint64_t *agents, uint64_t *classed,
                                 ms_error *err)
{
    const ms__tail_names *names = &m->tail.names;
    uint64_t last = 0;
    for (uint32_t i = 0; i < names->all.count; i++) {
        uint64_t offset = (uint64_t)ms__postings_entry(&names->all, i) * 8;
        const ms_msg *msg = ms__msg(ms__mem_at(&m->core, offset));
        if (ms_seq(msg) <= last)
            return ms__damaged(err, offset, "MM2: its sequence number does not follow");
        last = ms_seq(msg);
        if (ms__agent_key(msg).ptr) ++*agents;
        if (MS_BIT(ms_type_of(msg)) & (MS_TYPES_CONVERSATION | MS_TYPES_GLOBAL))
            ++*classed;
    }
    if (last == names->last_seq) return MS_OK;
    return ms__fail(err, MS_E_DAMAGED, "MM2: the last sequence number is %u, the store "
                    "has %u", last, names->last_seq);
}

static ms_result ms__check_mem(const ms__mem *m, ms_error *err)
{
    const ms__tail_names *names = &m->tail.names;
    const unsigned kinds = MS__KINDS_MESSAGE;
    uint64_t with_agent = 0, with_class = 0, all = 0, located = 0, classed = 0, owned = 0;
    MS__TRY(ms__check_list(m, &names->all, NULL, NULL, kinds, MS_TYPES_ALL, &all, err));
    MS__TRY(ms__check_order(m, &with_agent, &with_class, err));
    for (const ms__loc *l = ms__loc_at(names->linked[MS__LOCS].first); l;
         l = ms__loc_at(l->name.node.next)) {
        MS__TRY(ms__check_list(m, &l->all, l, NULL, kinds, MS_TYPES_ALL, &located, err));
        MS__TRY(ms__check_list(m, &l->conversation, l, NULL, kinds, MS_TYPES_CONVERSATION,
                               &classed, err));
        MS__TRY(ms__check_list(m, &l->global, l, NULL, kinds, MS_TYPES_GLOBAL, &classed,
                               err));
    }
    for (const ms__agent *a = ms__agent_at(names->linked[MS__AGENTS].first); a;
         a = ms__agent_at(a->name.node.next)) {
        MS__TRY(ms__check_list(m, &a->trace, a->name.loc, a, kinds, MS__TYPES_TRACE,
                               &owned, err));
        MS__TRY(ms__check_list(m, &a->rest, a->name.loc, a, kinds,
                               MS_TYPES_ALL & ~MS__TYPES_TRACE, &owned, err));
    }
    if (located == all && classed == with_class && owned == with_agent)
        return ms__check_changes(m, err);
    return ms__fail(err, MS_E_DAMAGED, "NM1: %u messages; lists: %u by location, %u by "
                    "class of %u", all, located, classed, with_class);
}

static ms_result ms__check_message(const ms_msg *msg, uint64_t last, ms_error *err)
{
    ms_envelope m = ms_envelope_of(msg);
    if (m.seq <= last)
        return ms__fail(err, MS_E_DAMAGED, "message %u comes after %u", m.seq, last);
    if (ms__is_empty(m.location))
        return ms__fail(err, MS_E_DAMAGED, "message %u has no location", m.seq);
    return ms__envelope_check(&m, err);
}

static ms_result ms__check_cursors(ms_store *store, ms_error *err)
{
    ms_arena own;
    ms_cursor *it;
    const ms_msg *msg;
    uint64_t last = 0;
    ms_query q = ms__view_query(ms__absent(), MS_VIEW_TIMELINE, 0);
    memset(&own, 0, sizeof own);
    ms_result code = ms__cursor_open(store, &q, &own, &it, err);
    bool open = code == MS_OK;
    while (code == MS_OK && (msg = ms__next_stored(it)) != NULL) {
        code = ms__check_message(msg, last, err);
        last = ms_seq(msg);
    }
    if (open) code = ms__cursor_end(it, code, err);
    ms_arena_deinit(&own);
    return code;
}

#ifndef MSGSTORE_NO_LOG

/* Compares a segment index with one that is derived from the records of its segment, and
 * looks its posting lists up in its summary. */
static ms_result ms__check_segment(ms__log *log, const ms__segment *l,
                                   const ms__segment *before, ms_error *err)
{
    if (l->own || l->damaged_ranges > 0) return MS_OK; /* queries report damage */
    ms__segment *made = ms__segment_derive(log, l->number, l->base, l->offset,
                                           before ? before->state.last_seq : 0, true);
    if (!made) return ms__no_memory(err, sizeof *made);
    size_t size = (size_t)(l->posting - l->numbers) + (size_t)l->postings * l->width;
    bool same = made->n == l->n && made->lists == l->lists &&
                made->postings == l->postings &&
                made->bits == l->bits && made->width == l->width &&
                made->first_seq == l->first_seq && made->last_seq == l->last_seq &&
                made->messages == l->messages && made->bytes == l->bytes &&
                memcmp(made->numbers, l->numbers, size) == 0;
    bool damaged = made->damaged_ranges > 0;
    ms__segment_free(log, made);
    if (!same && !damaged)
        return ms__fail(err, MS_E_DAMAGED, "LM3: the index record at %u is not what its "
                        "segment gives", l->offset);
    for (uint32_t i = 0; i < l->lists; i++) {
        uint32_t mask =
            ms__group_find(log, l->number / MS__FAN, ms__segment_list(l, i), true);
        if (!(mask >> l->number % MS__FAN & 1))
            return ms__fail(err, MS_E_DAMAGED,
                            "LM3: the summary lacks posting list %u of "
                            "segment %u", (uint64_t)i, (uint64_t)l->number);
    }
    return MS_OK;
}

static ms_result ms__check_log(ms__log *log, ms_error *err)
{
    const ms__segment *before = NULL;
    ms_result code = ms__log_ready(log, err);
    ms__lock_acquire(&log->lock);
    for (uint32_t i = 0; code == MS_OK && i < log->index.segments.n; i++) {
        const ms__segment *l = ms__segment_valid(log, i, true, true);
        code = l ? ms__check_segment(log, l, before, err) : ms__no_memory(err, sizeof *l);
        before = l;
    }
    if (code == MS_OK && log->durable.end > log->end)
        code = ms__fail(err, MS_E_DAMAGED, "LM4: durable up to %u, the end is %u",
                        log->durable.end, log->end);
    ms__lock_release(&log->lock);
    return code;
}

#endif /* MSGSTORE_NO_LOG */

MS_API MS__RARE ms_result ms_selfcheck(ms_store *store, ms_error *err)
{
    MS__TRY(ms__open_check(store, err));
#ifndef MSGSTORE_NO_LOG
    if (store->backend == &ms__log_backend)
        MS__TRY(ms__check_log(ms__log_of(store), err));
#endif
#ifdef MSGSTORE_FLASH
    if (store->backend == &ms__flash_backend)
        return ms__check_mem(ms__mem_of(store), err);
#endif
    if (ms__is_mem(store)) return ms__check_mem(ms__mem_of(store), err);
    return ms__check_cursors(store, err);
}
