
/* ==== [ring] an arena store that drops its oldest messages =============================
 * A full buffer drops its oldest messages, a quarter of them or more. The records that
 * stay move to its start, are sealed for their new places, and entered as those of an
 * image are, so a drop costs about as much as attaching. The texts of an append may be
 * views into records of the ring: they move, too.
 *
 * (RG1) A place is valid until the next drop: then open cursors return MS_E_CONFLICT.
 * (RG2) Numbers go on: a GAP record has the largest one that was assigned.
 * ================================================================================== */

/* The state of a drop: the records that it keeps. */
typedef struct ms__ring {
    ms__mem *m;
    uint32_t x;           /* messages before this unit are dropped */
    uint64_t facts, most; /* bytes of facts from the next record on; their limit */
    unsigned borrowed;    /* texts of the append that lie in records not moved yet */
} ms__ring;

/* Returns the message at a unit; NULL: it is damaged. */
static const unsigned char *ms__ring_sound(const ms__mem *m, uint32_t unit)
{
    const unsigned char *r = ms__tail_record(&m->core, &m->tail, unit);
    return r && ms__check_fields(r, 0, NULL) == MS_OK ? r : NULL;
}

/* Chooses the messages that a location keeps: those from unit x on, without the rest of a
 * turn that x divides, unless the turn extends to unit `end`. The posting list, which is
 * rebuilt soon, stores the choice: `wanted` is the first unit kept, `first` its new
 * one. */
static void ms__ring_choose(const ms__mem *m, ms__loc *loc, uint32_t x, uint32_t end)
{
    ms__postings *all = &loc->all;
    uint32_t n = ms__postings_below(all, x), count = all->count;
    const unsigned char *r, *before = NULL;
    if (n > 0) before = ms__ring_sound(m, ms__postings_entry(all, n - 1));
    for (uint32_t i = n; before && i < count; i++, before = r) {
        uint32_t unit = ms__postings_entry(all, i);
        r = unit < end ? ms__ring_sound(m, unit) : NULL;
        ms_str turn = r ? ms_get(ms__msg(r), MS_F_TURN_ID).text : ms__absent();
        bool user = r && r[5] == MS_T_USER_MESSAGE;
        ms_str last = ms_get(ms__msg(before), MS_F_TURN_ID).text;
        if (!r || !ms__turn_begins(turn, user, last)) continue;
        n = i;
        break;
    }
    all->wanted = n < count ? ms__postings_entry(all, n) : UINT32_MAX;
    all->first = 0;
}

/* Returns record i of those that are no messages, if it has facts, else NULL. */
static const unsigned char *ms__fact_at(const ms__mem *m, uint32_t i)
{
    uint32_t unit = ms__postings_entry(&m->tail.names.others, i);
    const unsigned char *r = ms__tail_record(&m->core, &m->tail, unit);
    return r && r[4] == MS__KIND_LOCATION ? r : NULL;
}

static uint32_t ms__facts_size(const ms__mem *m)
{
    uint32_t bytes = 0;
    for (uint32_t i = 0; MS__CHANGES && i < m->tail.names.others.count; i++) {
        const unsigned char *r = ms__fact_at(m, i);
        if (r) bytes += ms__padded(ms__get32(r));
    }
    return bytes;
}

/* Returns whether a change stays. Facts stay with their location, the newest up to a
 * limit; edits, notes and parts are dropped with their messages. */
static bool ms__ring_keeps_change(ms__ring *ring, const ms__loc *loc,
                                  const unsigned char *r, uint32_t unit)
{
    ms__span span;
    if (r[4] == MS__KIND_LOCATION) {
        bool some = unit >= ring->x || loc->all.wanted < UINT32_MAX;
        if (some && ring->facts <= ring->most) return true;
        ring->facts -= ms__padded(ms__get32(r));
        return false;
    }
    if (!loc->all.first) return false;
    (void)ms__edit_span(r, &span);
    uint64_t first = (uint64_t)loc->all.first * 8;
    return span.last >= ms_seq(ms__msg(ms__mem_at(&ring->m->core, first)));
}

/* Returns whether the record at a unit stays. `to` is its new unit. */
static bool ms__ring_keeps(ms__ring *ring, const unsigned char *r, uint32_t unit,
                           uint32_t to)
{
    ms__loc *loc =
        ms__loc_get(&ring->m->tail.names, ms__location(ms__msg(r)), false);
    if (!loc || r[4] == MS__KIND_GAP) return false;
    if (MS__CHANGES && ms__is_change(r)) return ms__ring_keeps_change(ring, loc, r, unit);
    if (unit < loc->all.wanted) return false;
    if (!loc->all.first) loc->all.first = to;
    return true;
}

static bool ms__text_move(ms_str *text, const unsigned char *r, size_t size,
                          const unsigned char *to)
{
    uintptr_t at = (uintptr_t)text->ptr - (uintptr_t)r;
    if (text->len == 0 || at >= size) return false;
    text->ptr = (const char *)to + at;
    return true;
}

/* Points the texts of an append that lie in `size` bytes at r to the same bytes at `to`.
 * Returns how many; changes nothing if r is `to`. */
static unsigned ms__run_move(ms__append_run *run, const unsigned char *r, size_t size,
                             const unsigned char *to)
{
    unsigned n = ms__text_move(&run->location, r, size, to);
    for (size_t i = 0; i < run->n; i++) {
        ms_envelope *e = (ms_envelope *)(uintptr_t)ms__run_envelope(run, i);
        for (uint32_t set = ms__fields_of(e); set; set &= set - 1) {
            unsigned f = ms__lowest(set);
            ms_str text = ms__field_text(e, f);
            if (!ms__text_move(&text, r, size, to)) continue;
            n++;
            if (r != to) ms__field_set(e, f, text, ms__field_is_json(e, f));
        }
    }
    return n;
}

/* Moves the records that stay to the start of the buffer. Returns their end. Zeroes the
 * bytes between it and the index, where an append that found no room has written. */
static uint64_t ms__ring_move(ms__ring *ring)
{
    ms__mem *m = ring->m;
    ms__image im;
    const unsigned char *r;
    uint64_t end = MS__IMAGE_HEADER;
    memset(&im, 0, sizeof im);
    im.base = m->buffer.base;
    im.at = MS__IMAGE_HEADER;
    im.end = (uint64_t)m->tail.filled * 8;
    im.seed = m->core.seed;
    while (ms__image_next(&im, true, &r, NULL) == MS_OK) {
        uint32_t unit = (uint32_t)((size_t)(r - im.base) / 8), size = ms__get32(r);
        if (!ms__ring_keeps(ring, r, unit, (uint32_t)(end / 8))) continue;
        unsigned char *to = m->buffer.base + end;
        if (ring->borrowed > 0) ring->borrowed -= ms__run_move(m->run, r, size, to);
        memmove(to, r, ms__padded(size));
        ms__put32(to + MS__AT_CHECK, ms__check_at(m->core.seed, end, to));
        end += ms__padded(size);
    }
    memset(m->buffer.base + end, 0, (size_t)(m->tail.names.top - end));
    return end;
}

/* Enters a record. A key of two messages belongs to the later one: the ring had dropped
 * the earlier one, which flash still has. */
static ms_result ms__ring_adopt(ms__mem *m, const unsigned char *r, ms_error *err)
{
    ms__tail_names *names = &m->tail.names;
    const unsigned char *known;
    MS__TRY(ms__mem_adopt(m, r, err));
    ms_str key = ms_get(ms__msg(r), MS_F_KEY).text;
    if (!key.ptr || r[4] != MS__KIND_MESSAGE) return MS_OK;
    ms__loc *loc = ms__loc_get(names, ms__location(ms__msg(r)), false);
    uint64_t hash = ms__name_hash(names, MS__KEYS, loc->name.node.hash, key);
    ms__key *k = ms__key_in(&m->core, &m->tail, NULL, &names->linked[MS__KEYS].root, hash,
                            loc, key, &known);
    if (k) k->entry = (uint32_t)((size_t)(r - m->buffer.base) / 8);
    return MS_OK;
}

/* Enters the records up to `end` again. */
static void ms__ring_enter(ms__mem *m, uint64_t end)
{
    uint64_t given = ms__given_seq(&m->tail.names), at = MS__IMAGE_HEADER;
    ms__tail_names_reset(&m->tail.names);
    ms__mem_bare(m);
    m->tail.names.floor = end;
    m->core.edited = 0;
    m->drops++;
    while (at < end && ms__ring_adopt(m, m->buffer.base + at, NULL) == MS_OK)
        at += ms__padded(ms__get32(m->buffer.base + at));
    MS_ASSERT(at == end); /* MM3 */
    m->tail.filled = (uint32_t)(at / 8);
    ms__image_end(m, at);
    ms__tail_show(&m->tail);
    if (m->tail.names.last_seq >= given) return;
    m->tail.names.gap_seq = given; /* even where the record has no room */
    (void)ms__gap_put(m, given, NULL);
}

/* Drops the messages before unit x, and the oldest facts until at most `most` bytes are
 * left. */
static ms_result ms__ring_drop(ms__mem *m, uint32_t x, uint64_t most, ms_error *err)
{
    ms__ring ring;
    const unsigned char *base = m->buffer.base;
    uint64_t messages = m->tail.names.messages;
    uint32_t end = x + (m->tail.filled - MS__IMAGE_HEADER / 8) / 2;
    memset(&ring, 0, sizeof ring);
    ring.m = m;
    ring.x = x;
    ring.facts = ms__facts_size(m);
    ring.most = most;
    if (m->run) ring.borrowed = ms__run_move(m->run, base, m->buffer.span, base);
    if (ring.borrowed > 0 && m->run->n > 1) /* a batch's envelopes must not change */
        return ms__fail(err, MS_E_FULL, "the batch has texts of messages that the "
                        "store would drop for it");
    if (ring.borrowed > 0) m->run->layout = NULL;
    for (ms__node *n = m->tail.names.linked[MS__LOCS].first; n; n = n->next)
        ms__ring_choose(m, ms__loc_at(n), x, end);
    ms__ring_enter(m, ms__ring_move(&ring));
    m->dropped += messages - m->tail.names.messages;
    if (ring.borrowed == 0) return MS_OK;
    return ms__fail(err, MS_E_NOT_FOUND, "these texts are of a message that was dropped");
}

/* Drops the oldest third of a ring's records. */
static ms_result ms__ring_turn(ms__mem *m, ms_error *err)
{
    const ms__tail_names *names = &m->tail.names;
    uint32_t begin = MS__IMAGE_HEADER / 8, units = m->tail.filled - begin;
    uint64_t records = names->messages + names->changes;
    if (records > 0)
        MS__TRY(ms__ring_drop(m, begin + units / 3 + 1, (uint64_t)units * 8 / 16, err));
    if (names->messages + names->changes < records) return MS_OK;
    return ms__mem_no_room(&m->core, 0, err);
}

/* Returns whether one of the 64 messages before message i has its location; agent: and
 * its agent key. */
static bool ms__ring_named(const ms__append_run *run, size_t i, bool agent)
{
    const ms_envelope *e = ms__run_envelope(run, i);
    for (size_t n = 1; n <= 64 && n <= i; n++) {
        const ms_envelope *other = ms__run_envelope(run, i - n);
        bool same = !ms__is_empty(run->location) ||
                    ms_str_equal(other->location, e->location);
        if (same && (!agent || ms_str_equal(other->agent_key, e->agent_key))) return true;
    }
    return false;
}

/* Returns how many bytes a batch takes at most in an empty buffer; 0: a message is
 * invalid. Posting lists grow to a quarter more than they have; a name that was not near
 * counts again. */
static uint64_t ms__ring_need(const ms__append_run *run)
{
    ms__layout l;
    size_t locations = 0, agents = 0, keys = 0;
    uint64_t need = MS__GAP_MAX + sizeof(ms__edits) + sizeof(ms__changed);
    if (run->n > MS__PLANS_SMALL) need += run->n * sizeof(ms__plan);
    l.parts = NULL;
    for (size_t i = 0; i < run->n; i++) {
        const ms_envelope *e = ms__run_envelope(run, i);
        if (ms__layout_of(e, run->location, MS__CHECKED, &l, NULL) != MS_OK) return 0;
        need += ms__padded(l.size);
        if (!ms__ring_named(run, i, false)) {
            need += e->location.len + run->location.len + 8;
            locations++;
        }
        if (e->agent_key.ptr && !ms__ring_named(run, i, true)) {
            need += e->agent_key.len + 8;
            agents++;
        }
        if (e->key.ptr) keys++;
    }
    for (uint64_t cap = 0; cap < run->n; cap += ms__chunk_cap((uint32_t)cap))
        need += 5 * sizeof(ms__chunk);
    need += run->n;
    return need + ms__index_size(run->n, locations, agents, keys);
}

static ms_result ms__ring_append(ms_store *store, ms__append_run *run, ms_error *err)
{
    ms_record record;
    ms_error failed; /* of a try, after which there may be room */
    ms__append_run own = *run; /* its texts may move */
    ms_result code = MS_OK;
    ms__mem *m = ms__mem_of(store);
    ms__lock_acquire(&m->lock);
    uint64_t need = own.n > 1 ? ms__ring_need(run) : 0; /* one always has room */
    if (own.n == 1 && run->records) {
        record = run->records[0];
        own.records = &record;
    } else if (own.n == 1) {
        record.envelope = run->messages[0];
        own.messages = &record.envelope;
    }
    m->run = &own;
    if (m->before) code = m->before(m, err);
    if (code == MS_OK && need > m->buffer.span)
        code = ms__fail(err, MS_E_FULL, "%u messages take up to %u bytes, the buffer "
                        "has %u", (uint64_t)own.n, need, (uint64_t)m->buffer.span);
    while (code == MS_OK) {
        code = ms__mem_try(m, &own, &failed);
        if (code == MS_E_FULL && own.seq != UINT64_MAX) {
            code = ms__ring_turn(m, err);
            continue;
        }
        if (code != MS_OK && err) *err = failed;
        break;
    }
    m->run = NULL;
    ms__lock_release(&m->lock);
    return code;
}

static ms_result ms__ring_leave_out(ms_store *store, uint64_t seq, ms_error *err)
{
    ms__mem *m = ms__mem_of(store);
    ms_error failed;
    ms_result code;
    do code = ms__mem_leave_out(store, seq, &failed);
    while (code == MS_E_FULL && ms__ring_turn(m, NULL) == MS_OK);
    if (code != MS_OK && err) *err = failed;
    return code;
}

/* Fails with MS_E_CONFLICT if records have moved since the reader took its place: a place
 * includes the number of drops. */
static ms_result ms__ring_moved(const ms__mem *m, ms_error *err)
{
    return ms__fail(err, MS_E_CONFLICT,
                    "the store has dropped messages since (%u times in all)",
                    (uint64_t)m->drops);
}

static ms_result ms__ring_query(ms_store *store, ms_cursor *it, ms_error *err)
{
    const ms__mem *m = ms__mem_of(store);
    uint64_t *as_of = &it->query.as_of;
    if (*as_of && *as_of >> 32 != m->drops) return ms__ring_moved(m, err);
    *as_of = (uint32_t)*as_of;
    uint64_t *as_from = &it->query.as_from;
    *as_from = *as_from >> 32 == m->drops ? (uint32_t)*as_from : 0;
    MS__TRY(ms__mem_query(store, it, err));
    it->now |= (uint64_t)m->drops << 32;
    if (!MS__SMALL) it->history.each = true; /* also one that is ready may be dropped */
    return MS_OK;
}

static ms_result ms__ring_stands(ms_store *store, const ms_cursor *it)
{
    const ms__mem *m = ms__mem_of(store);
    return it->now >> 32 == m->drops ? MS_OK : ms__ring_moved(m, NULL);
}

static const ms_msg *ms__ring_next(ms_store *store, ms_cursor *it)
{
    it->result = ms__ring_stands(store, it);
    return it->result == MS_OK ? ms__core_next(store, it) : NULL;
}

static ms_result ms__ring_stat(ms_store *store, ms_stat *out, ms_error *err)
{
    const ms__mem *m = ms__mem_of(store);
    ms_result code = ms__mem_stat(store, out, err);
    out->as_of |= (uint64_t)m->drops << 32;
    out->dropped = m->dropped;
    return code;
}

static const ms__hooks ms__ring_hooks = {ms__ring_append, NULL, ms__ring_stands,
                                         ms__mem_most, NULL};

static const ms_backend ms__ring_backend = {
    ms__append_unmeasured, ms__ring_query, ms__ring_next, NULL, ms__mem_get, ms__mem_list,
    ms__ring_stat, NULL, ms__mem_close, NULL, ms__ring_leave_out,
    MS__CHANGES ? ms__change_unmeasured : NULL,
    MS__CHANGES ? ms__mem_erase : NULL, &ms__ring_hooks, NULL};

static void ms__ring_begin(ms__mem *m)
{
    m->core.store.backend = &ms__ring_backend;
    if (m->max_message > m->buffer.span / 4) m->max_message = m->buffer.span / 4;
}
