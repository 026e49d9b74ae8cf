
/* ==== [append] appends and changes =====================================================
 * An append has two steps. Step 1 does everything that can fail, message by message:
 * names, room for the record, the record itself, a key, room in the posting lists. After
 * a failure all of it is undone. Step 2 seals the records, has the home publish them,
 * links names and edits, and fills in the postings. Then one store publishes the new end
 * to readers.
 *
 * An append may end with one change (see [change]). Under the lock it is checked against
 * the present state of its message.
 *
 * (AP1) A failed append leaves names, posting lists and the end as they were.
 * (AP2) All records of an append become visible together.
 * ================================================================================== */

/* ---- Step 1. */

static uint32_t ms__run_unit(const ms__core *core, const ms__append_run *run)
{
    return (uint32_t)((run->offset - core->tail->base) / 8);
}

/* Makes room for a record of that size, and sets its address and entry. */
static ms_result ms__record_room(ms__core *core, ms__append_run *run, const ms__layout *l,
                                 ms__plan *p, unsigned char **r, ms_error *err)
{
    uint32_t size = ms__padded(l->size);
    MS__TRY(core->home->room(core, run, size, r, err));
    /* an arena store has checked that as its own limit */
    if (MS__LOG && (run->offset + size - core->tail->base) / 8 > MS__UNITS_MAX)
        return ms__fail(err, MS_E_FULL, "a segment holds at most 32 GiB of records");
    p->entry = ms__run_unit(core, run);
    return MS_OK;
}

/* Refuses an append whose search for a key has failed. MS_E_DAMAGED: a damaged message
 * may have it; else memory ran out. */
static MS__NOINLINE MS__RARE ms_result ms__key_fail(ms_error *err, ms_result code,
                                                    ms_str key)
{
    if (code != MS_E_DAMAGED) return ms__no_memory(err, 0);
    return ms__fail_at(err, MS_E_DAMAGED, "key",
                       "a damaged message may have the key '%v': go on without it, or "
                       "after msgstore repair", MS__V(key));
}

/* Finds the message of a location with a key; *known: NULL if absent. An error if a
 * damaged message may have the key: a repetition may be an action done twice. */
static ms_result ms__key_known(ms__core *core, const ms__append_run *run,
                               const ms__loc *loc, ms_str key, uint64_t hash,
                               const unsigned char **known, ms_error *err)
{
    ms_result result = MS_OK;
    *known = ms__key_find(core, run, loc, key, hash, &result);
    if (!*known && result == MS_OK &&
        ms__tail_lacks(core->tail, loc->name.text, 0))
        result = MS_E_DAMAGED;
    return result == MS_OK ? MS_OK : ms__key_fail(err, result, key);
}

/* Step 1 for message i. */
static MS__NOINLINE ms_result ms__prepare(ms__core *core, ms__append_run *run, size_t i,
                                          ms__plan *p, ms_error *err)
{
    const ms_envelope *e = ms__run_envelope(run, i);
    ms__part parts[MS_FIELD_COUNT];
    ms__layout room;
    const ms__layout *l;
    ms__tail_names *names = &core->tail->names;
    ms_str location = ms__is_empty(run->location) ? e->location : run->location;
    room.parts = parts;
    MS__TRY(ms__run_measure(run, e, location, &room, &l, err));
    MS__TRY(ms__size_check(l->size, run->max_message, err));
    ms__loc *loc = ms__loc_get(names, location, true);
    ms__agent *agent = NULL;
    uint64_t hash = 0;
    unsigned char *r;
    if (!loc) return core->home->no_room(core, sizeof *loc + location.len, err);
    if (e->key.ptr) {
        const unsigned char *known;
        hash = ms__name_hash(names, MS__KEYS, loc->name.node.hash, e->key);
        MS__TRY(ms__key_known(core, run, loc, e->key, hash, &known, err));
        if (known) return ms__plan_repeat(p, e, l, known, err);
    }
    if (e->agent_key.ptr) {
        agent = ms__agent_get(names, loc, e->agent_key, true);
        if (!agent)
            return core->home->no_room(core, sizeof *agent + e->agent_key.len, err);
    }
    ms__plan_lists(names, p, loc, agent, e->type);
    MS__TRY(ms__record_room(core, run, l, p, &r, err));
    MS__TRY(ms__run_encode(run, i, l, r, err));
    ms__where_set(r, loc->name.node.hash);
    if (MS__LOG && run->cluster) ms__put32(r + MS__AT_BY_KIND, run->cluster);
    if (e->key.ptr && !ms__key_make(names, loc, hash, p->entry))
        return core->home->no_room(core, sizeof(ms__key), err);
    if (!ms__plan_reserve(names, p))
        return core->home->no_room(
            core, MS__CHUNK_HEADER + (MS__CHUNK_FIRST + 1) * sizeof(uint32_t), err);
    run->offset += ms__padded(l->size);
    return MS_OK;
}

#if !MS__SMALL
/* Refuses a record with all facts of a location if a note or facts came, or records were
 * lost, from the place on up to which these were read. In a new segment that is not
 * known. */
static MS__NOINLINE ms_result ms__facts_check(ms__core *core, uint64_t upto,
                                              ms_str location, ms_error *err)
{
    const ms__tail *t = core->tail;
    const ms__loc *loc = ms__loc_get(&core->tail->names, location, false);
    const ms__edits *c = loc ? (const ms__edits *)loc->edits : NULL;
    uint32_t n = c ? c->facts.count : 0;
    bool late = upto < ms__place(t->segment, 0);
    if (n > 0 && ms__place(t->segment, ms__postings_entry(&c->facts, n - 1)) >= upto)
        late = true;
    for (uint32_t i = 0; i < t->n_holes; i++)
        if (ms__place(t->segment, t->holes[i].unit) >= upto) late = true;
    if (!late) return MS_OK;
    return ms__fail(err, MS_E_CONFLICT, "other facts were set meanwhile");
}
#endif

/* Checks a change against its message, and sets its span. */
static MS__NOINLINE ms_result ms__change_begin(ms__core *core, const ms__append_run *run,
                                               const ms_record *change, ms_str location,
                                               ms__change_run *c, ms_error *err)
{
    const ms_envelope *e = &change->envelope;
    ms__sought f;
    bool sound = true;
    const ms__tail *t = core->tail;
    ms_result result = MS_OK;
    c->kind = (unsigned)change->kind;
    ms__span *span = &c->span;
    span->first = span->last = e->seq;
#if !MS__SMALL
    if (run->facts_left == MS__FACTS_ALL)
        return ms__facts_check(core, run->facts_upto, location, err);
#endif
    if (c->kind == MS__KIND_LOCATION) return MS_OK;
    if (c->kind == MS__KIND_HIDE) {
        span->last = run->opts->expect_seq;
        if (span->last >= run->seq) span->last = run->seq - 1;
        if (span->first <= span->last)
            span->hidden = ms__visible(core, location, span->first, span->last, &result);
        return result == MS_OK ? MS_OK : ms__no_memory(err, 0);
    }
    const unsigned char *own =
        ms__record_by_seq(core, t, t->filled, e->seq, true, &f, &result);
    const ms__edits *edits = ms__edits_of(core, location, true, &result);
    if (result != MS_OK) return ms__no_memory(err, 0);
    if (!own && f.damaged)
        return ms__fail(err, MS_E_DAMAGED, "message %u, or a change of it, is damaged",
                        e->seq);
    const unsigned char *shown = own;
    if (own) shown = ms__shown_at(core, t, edits, own, f.place, UINT64_MAX, &sound);
    return ms__change_check(change, location, own, shown, err);
}

/* Reserves memory for a change. False: no memory. */
static bool ms__change_room(ms__core *core, ms_str location, uint64_t seq, ms__plan *p,
                            ms__change_run *c)
{
    ms__tail_names *names = &core->tail->names;
    c->loc = ms__loc_get(names, location, true);
    if (!c->loc || !ms__change_reserve(names, c->loc, c->kind, seq, p, &c->fresh))
        return false;
    if (c->kind != MS__KIND_AMEND && c->kind != MS__KIND_HIDE) return true;
    if (ms__sealed_of(core)) c->edits = ms__sealed_of(core)->edit(core, location);
    else c->edits = c->fresh ? c->fresh : (ms__edits *)c->loc->edits;
    c->mark = ms__arena_mark_of(&core->edits->nodes);
    return c->edits &&
           (c->edit = ms__edit_reserve(core->edits, c->edits, &c->span)) != NULL;
}

/* Step 1 for a change. A HIDE of nothing is not written. */
static MS__NOINLINE ms_result ms__prepare_change(ms__core *core, ms__append_run *run,
                                                 const ms_record *change, ms__plan *p,
                                                 ms__change_run *c, ms_error *err)
{
    ms__part parts[MS_FIELD_COUNT];
    ms__layout l;
    unsigned char *r;
    ms_envelope e = change->envelope;
    ms_str location = ms__is_empty(run->location) ? e.location : run->location;
    memset(c, 0, sizeof *c);
    MS__TRY(ms__change_begin(core, run, change, location, c, err));
    p->repeat = c->kind == MS__KIND_HIDE && c->span.hidden == 0;
    if (p->repeat) return MS_OK;
    if (c->kind == MS__KIND_HIDE) e.content = ms__hide_text(c->text, &c->span);
    l.parts = parts;
    MS__TRY(ms__layout_of(&e, location, MS__CHECKED, &l, err));
    MS__TRY(ms__size_check(l.size, run->max_message, err));
    if (!ms__change_room(core, location, e.seq, p, c))
        return core->home->no_room(core, sizeof(ms__edits), err);
    MS__TRY(ms__record_room(core, run, &l, p, &r, err));
    /* a change has the number of its message; an AMEND also has its time */
    bool own_time = e.has_time || c->kind == MS__KIND_AMEND;
    ms__encode_header(&e, c->kind, &l, e.seq, own_time ? ms__time_of(&e) : run->now,
                      e.flags & MS__COPY_FLAGS, r);
    ms__where_set(r, c->loc->name.node.hash);
    if (c->kind == MS__KIND_HIDE) ms__reach_set(r, c->span.last - c->span.first);
#if !MS__SMALL
    if (c->kind == MS__KIND_LOCATION) ms__put32(r + MS__AT_BY_KIND, run->facts_left);
#endif
    ms__encode_body(&l, r + MS__HEADER);
    run->offset += ms__padded(l.size);
    return MS_OK;
}

/* ---- Step 2. */

/* Stores flags and checks in the records of an append. */
static void ms__run_seal(const ms__core *core, const ms__append_run *run,
                         const ms__plan *plans)
{
    size_t last = run->n;
    uint32_t flags = run->first_flags;
    for (size_t i = 0; i < run->n; i++)
        if (!plans[i].repeat) last = i;
    for (size_t i = 0; i <= last && i < run->n; i++) {
        if (plans[i].repeat) continue;
        uint64_t offset = ms__tail_offset(core->tail, plans[i].entry);
        unsigned char *r = core->home->written(core, run, offset);
        r[7] |= (unsigned char)(flags | (i == last ? MS_FLAG_COMMIT : 0));
        ms__seal_at(core->seed, offset, r);
        flags = 0;
    }
}

/* Links a published change into the edits of its location. */
static void ms__change_link(ms__core *core, const ms__plan *p, const ms__change_run *c)
{
    ms__tail *t = core->tail;
    ms__change_enter(&t->names, c->loc, p, c->fresh);
    if (!c->edits) return;
    t->names.hidden += c->span.hidden;
    ms__edit_link(core->edits, c->edits, &c->span, c->edit,
                  ms__place(t->segment, p->entry),
                  core->home->at(core, ms__tail_offset(t, p->entry)));
    ms__store32(&core->edited, 1);
}

/* Enters the published records, and makes them visible to readers. */
static void ms__run_enter(ms__core *core, const ms__append_run *run,
                          const ms__plan *plans, const ms__change_run *c)
{
    ms__tail *t = core->tail;
    uint64_t *seqs = run->opts->seqs;
    ms__names_link(&t->names);
    for (size_t i = 0; i < run->n; i++) {
        const ms__plan *p = &plans[i];
        if (p->repeat && seqs) seqs[i] = p->repeats;
        if (p->repeat) continue;
        const unsigned char *r =
            core->home->written(core, run, ms__tail_offset(t, p->entry));
        if (seqs) seqs[i] = ms_seq(ms__msg(r));
        t->count++;
        if (MS__CHANGES && c->kind && i + 1 == run->n) {
            ms__change_link(core, p, c);
            if (seqs && c->kind == MS__KIND_HIDE) seqs[i] = c->span.hidden;
            continue;
        }
        ms__tail_names_enter(&t->names, p, r);
        ms__tail_note(t, ms__msg(r));
    }
    t->filled = ms__run_unit(core, run);
    ms__tail_show(t);
}

/* Checks that the location ends with the message that the caller expects. */
static ms_result ms__expect_check(ms__core *core, const ms_append_opts *opts,
                                  ms_error *err)
{
    ms_result result = MS_OK;
    if (!opts->expect) return MS_OK;
    uint64_t last = ms__last_of(core, opts, &result);
    if (result != MS_OK && result != MS_E_DAMAGED) return ms__no_memory(err, 0);
    return ms__expect_last(opts, last, result != MS_OK, err);
}

/* Step 1 for all messages. *done: how many plans there are, with that of a message that
 * failed. */
static ms_result ms__run_prepare(ms__core *core, ms__append_run *run, ms__plan *plans,
                                 ms__change_run *c, size_t *done, ms_error *err)
{
    for (*done = 0; *done < run->n;) {
        size_t i = (*done)++;
        const ms_record *change = ms__run_change(run, i);
        ms__plan_begin(&plans[i]);
        ms_result code = change ? ms__prepare_change(core, run, change, &plans[i], c, err)
                                : ms__prepare(core, run, i, &plans[i], err);
        if (code == MS_OK) continue;
        if (code == MS_E_CONFLICT || run->n == 1) return code;
        return ms__fail_in(err, code, "messages[%u]", (uint64_t)i);
    }
    return MS_OK;
}

/* Step 2. */
static ms_result ms__run_commit(ms__core *core, ms__append_run *run,
                                const ms__plan *plans, const ms__change_run *c,
                                ms_error *err)
{
    MS__TRY(ms__expect_check(core, run->opts, err));
    ms__run_seal(core, run, plans);
    MS__TRY(core->home->publish(core, run, err));
    ms__run_enter(core, run, plans, c);
    return MS_OK;
}

/* Returns the numbers of an append that wrote nothing: all its messages are repeats. */
static void ms__run_repeats(const ms__append_run *run, const ms__plan *plans)
{
    for (size_t i = 0; run->opts->seqs && i < run->n; i++)
        run->opts->seqs[i] = plans[i].repeats;
}

/* Appends a run. The store has set its start, numbers and flags. On failure, and if
 * nothing was written, run->offset is run->start again. */
static ms_result ms__core_append(ms__core *core, ms__append_run *run, ms__plan *plans,
                                 ms_error *err)
{
    ms__change_run c;
    ms__tail_names *names = &core->tail->names;
    ms__mark mark = ms__tail_names_mark(names);
    size_t done;
    c.kind = 0; /* then its other members are not used */
    c.edits = NULL;
    ms_result code = ms__run_prepare(core, run, plans, &c, &done, err);
    if (code == MS_OK && run->offset == run->start) {
        ms__run_repeats(run, plans);
    } else if (code == MS_OK) {
        code = ms__run_commit(core, run, plans, &c, err);
        if (code == MS_OK) return MS_OK;
    }
    if (c.edits && core->edits != names) ms__arena_rewind(&core->edits->nodes, &c.mark);
    ms__plans_undo(names, plans, done, &mark);
    run->offset = run->start;
    return code;
}
