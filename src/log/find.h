
/* ==== [log-find] messages of sealed segments; edits of a log ===========================
 * Functions of [core]'s table for a log's sealed segments. A message is found by its
 * number with two binary searches: over the segment indexes (the first page of each), and
 * over the records of one (of a clustered one, over the numbers in its index). A key is
 * looked up in the segments that may have its posting list.
 *
 * "Edits" in [log-map] has when those of a location are read.
 * ================================================================================== */

/* ---- Messages by number. */

/* Returns how many messages a segment has. Counts them once: then message k is found
 * without a look at the changes before it, of which there may be thousands. */
static uint32_t ms__segment_messages(const ms__segment *l)
{
    uint32_t blocks = l->n / MS__RANK + 1;
    if (l->messages == l->n) return l->n;
    if (!ms__load32(&l->ranked)) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < l->n; i++) {
            if (i % MS__RANK == 0) ms__store32(&l->ranks[i / MS__RANK], count);
            if (ms__segment_message(l, ms__segment_entry(l, i))) count++;
        }
        if (l->n % MS__RANK == 0) ms__store32(&l->ranks[blocks - 1], count);
        ms__store32(&l->ranks[blocks], count);
        ms__store32((uint32_t *)(uintptr_t)&l->ranked, 1);
    }
    return ms__load32(&l->ranks[blocks]);
}

/* Returns the entry of the record that is message k of a segment, in order of numbers,
 * from 0; n: it has no more. */
static uint32_t ms__segment_nth(const ms__segment *l, uint32_t k)
{
    uint32_t low = 0, high = l->n / MS__RANK + 1, all = ms__segment_messages(l);
    if (k >= all || all == l->n) return k < all ? ms__segment_entry(l, k) : l->n;
    while (high - low > 1) { /* the last block with at most k messages before it */
        uint32_t middle = low + (high - low) / 2;
        if (ms__load32(&l->ranks[middle]) <= k) low = middle;
        else high = middle;
    }
    uint32_t i = low * MS__RANK, count = ms__load32(&l->ranks[low]);
    for (; i < l->n; i++)
        if (ms__segment_message(l, ms__segment_entry(l, i)) && count++ == k) break;
    return ms__segment_entry(l, i);
}

/* Returns record i of a segment, a message. *broken: not all of it is valid; its header,
 * which has its number, is. NULL: that is damaged, too. */
static const unsigned char *ms__segment_numbered(const ms__log *log, const ms__segment *l,
                                                 uint32_t i, bool *broken)
{
    const unsigned char *r = ms__segment_record(log, l, i);
    uint64_t offset = r ? 0 : ms__segment_offset(l, i);
    *broken = !r;
    if (offset > 0) r = ms__log_at(log, offset);
    if (offset > 0 && !ms__log_holds(log, r, offset, l->offset - offset, false)) r = NULL;
    return r && r[4] == MS__KIND_MESSAGE ? r : NULL;
}

/* Returns how many messages of a segment come before the one with that number or a larger
 * one; one with a damaged header is not compared. */
static uint32_t ms__segment_lower(const ms__log *log, const ms__segment *l, uint64_t seq)
{
    uint32_t low = 0, high = ms__segment_messages(l);
    bool broken;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const unsigned char *r = NULL;
        for (uint32_t k = middle; k < high && !r; k++)
            r = ms__segment_numbered(log, l, ms__segment_nth(l, k), &broken);
        if (r && ms_seq(ms__msg(r)) < seq) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* The same for a clustered segment, whose index has the numbers. *sound: false if that is
 * damaged, else unchanged. */
static uint32_t ms__clustered_lower(const ms__log *log, const ms__segment *l,
                                    uint64_t seq, bool *sound)
{
    uint32_t low = 0, high = ms__segment_messages(l);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (!ms__order_sound(log, l, middle)) {
            *sound = false;
            return 0;
        }
        if (ms__segment_place(l, ms__segment_nth(l, middle)) < seq) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Returns the first of n segments that ends with that number or a larger one; n: none
 * does. */
static uint32_t ms__segment_with(ms__log *log, uint32_t n, uint64_t seq, bool locked,
                                 ms_result *result)
{
    uint32_t low = 0, high = n, middle = n;
    while (low < high) { /* the newest one first: most queries read it */
        middle = middle == n ? n - 1 : low + (high - low) / 2;
        const ms__segment *l = ms__segment_of(log, middle, locked);
        if (!l) *result = MS_E_NO_MEMORY;
        if (!l) return n;
        if (l->state.last_seq < seq) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Returns whether a hole of a segment, from a unit on, may have had a message of the
 * location with that hash. */
static bool ms__segment_may_lack(const ms__segment *l, uint32_t from, uint32_t where)
{
    for (uint32_t i = 0; i < l->n_holes; i++) {
        ms__hole h = ms__segment_hole(l, i);
        if (h.unit >= from && ms__hole_concerns(&h, where, 0)) return true;
    }
    return false;
}

/* Returns whether a hole of a segment may have had message number seq. */
static bool ms__segment_may_have(const ms__segment *l, uint64_t seq)
{
    for (uint32_t i = 0; i < l->n_holes; i++) {
        ms__hole h = ms__segment_hole(l, i);
        if (h.kind == 0 || (h.kind == MS__KIND_MESSAGE && h.seq == seq)) return true;
    }
    return false;
}

/* Returns the place after the first k messages of segment s. */
static uint64_t ms__segment_from_nth(const ms__segment *l, uint32_t s, uint32_t k)
{
    uint64_t begin = ms__place(s, 0);
    return k == 0 ? begin : begin + ms__segment_place(l, ms__segment_nth(l, k - 1)) + 1;
}

/* Returns the place after the last known message before segment s, if records are lost
 * between the two: they may have larger numbers. MS__NO_PLACE: none are. *damaged: true
 * if one of them may have had number seq, else unchanged. */
static uint64_t ms__segment_past(ms__log *log, uint32_t s, uint64_t seq, bool locked,
                                 bool *damaged, ms_result *result)
{
    uint64_t past = MS__NO_PLACE;
    while (s > 0) {
        const ms__segment *l = ms__segment_of(log, --s, locked);
        bool last = l && l->messages > 0, lost = l && ms__segment_lost(l) > 0;
        if (lost) l = ms__segment_valid(log, s, false, locked);
        if (!l) *result = MS_E_NO_MEMORY;
        if (!l) break;
        if (ms__segment_may_have(l, seq)) *damaged = true;
        if (lost) past = ms__segment_from_nth(l, s, ms__segment_messages(l));
        if (last) break; /* one without messages does not bound those before it */
    }
    return past;
}

/* Returns segment s, and in *k how many of its messages come before number seq. The order
 * of a clustered one is checked as far as it is read, if that suffices. NULL: no
 * memory. */
static const ms__segment *ms__segment_at_seq(ms__log *log, uint32_t s, uint64_t seq,
                                             bool locked, uint32_t *k)
{
    const ms__segment *l = ms__segment_of(log, s, locked);
    bool sound = l && l->clustered, broken;
    if (sound) *k = ms__clustered_lower(log, l, seq, &sound);
    if (sound && *k < ms__segment_messages(l))
        sound = ms__order_sound(log, l, *k) &&
                ms__segment_numbered(log, l, ms__segment_nth(l, *k), &broken);
    if (sound) return l;
    l = ms__segment_valid(log, s, false, locked);
    if (l && l->clustered) *k = ms__clustered_lower(log, l, seq, &sound);
    else if (l) *k = ms__segment_lower(log, l, seq);
    return l;
}

static void ms__log_seek(ms__core *core, uint32_t n, uint64_t seq, bool locked,
                         ms__sought *f, ms_result *result)
{
    ms__log *log = ms__log_in(core);
    uint32_t first = ms__segment_with(log, n, seq, locked, result), k = 0;
    uint64_t past = MS__NO_PLACE;
    if (*result == MS_OK)
        past = ms__segment_past(log, first, seq, locked, &f->damaged, result);
    for (uint32_t s = first; s < n && *result == MS_OK; s++) {
        const ms__segment *l =
            ms__segment_at_seq(log, s, s == first ? seq : 0, locked, &k);
        if (!l) *result = MS_E_NO_MEMORY;
        if (!l) return;
        if (ms__segment_may_have(l, seq)) f->damaged = true;
        if (s == first && k == 0) f->past = past;
        if (s == first && f->past == MS__NO_PLACE && ms__segment_lost(l) > 0)
            f->past = ms__segment_from_nth(l, s, k);
        for (; k < ms__segment_messages(l); k++) {
            uint32_t i = ms__segment_nth(l, k);
            f->record = ms__segment_numbered(log, l, i, &f->broken);
            f->place = ms__place(s, ms__segment_place(l, i));
            if (f->from == MS__NO_PLACE) f->from = f->place;
            if (!f->record || f->broken) f->damaged = true;
            if (f->record) return;
        }
    }
    if (first == n) f->past = past;
}

static const unsigned char *ms__log_record(ms__core *core, uint64_t place)
{
    ms__log *log = ms__log_in(core);
    uint32_t unit = (uint32_t)place;
    const ms__segment *l = ms__segment_of(log, (uint32_t)(place >> 32), false);
    if (l && l->clustered) {
        l = ms__segment_valid(log, l->number, false, false);
        if (!l) return NULL;
        bool sound = true;
        uint32_t entry = ms__segment_nth(l, ms__clustered_lower(log, l, unit, &sound));
        if (ms__segment_place(l, entry) != unit || entry >= l->n) return NULL;
        unit = ms__segment_unit(l, entry);
    }
    if (!l) return NULL;
    uint64_t offset = l->base + (uint64_t)unit * 8;
    if (offset >= l->offset) return NULL;
    const unsigned char *r = ms__log_at(log, offset);
    return ms__log_holds(log, r, offset, l->offset - offset, true) ? r : NULL;
}

static const unsigned char *ms__log_key(ms__core *core, const ms__loc *loc, ms_str key,
                                        uint64_t hash, ms_result *result)
{
    ms__log *log = ms__log_in(core);
    uint64_t list = ms__list_number(hash, MS__P_KEY);
    uint32_t s = core->tail->segment, where = (uint32_t)(loc->name.node.hash >> 32);
    bool lost = false;
    ms__run run;
    while ((s = ms__segment_before(log, list, s, true, &run, result)) !=
           MS__NO_SEGMENT) {
        if (ms__segment_may_lack(run.index, 0, where)) lost = true;
        for (uint32_t n = run.n; n-- > 0;) {
            const unsigned char *r = ms__segment_record(
                log, run.index, ms__posting(run.at, n, run.index->width));
            if (!r) lost = true;
            if (r && ms_str_equal(ms__location(ms__msg(r)), loc->name.text) &&
                ms_str_equal(ms_get(ms__msg(r), MS_F_KEY).text, key))
                return r;
        }
    }
    if (lost && *result == MS_OK) *result = MS_E_DAMAGED;
    return NULL;
}

/* Returns whether sealed segments may lack a message of a location from a place on. */
static bool ms__log_lacks(ms__core *core, ms_str location, uint64_t from,
                          ms_result *result)
{
    ms__log *log = ms__log_in(core);
    uint32_t unit = (uint32_t)from, where = ms__where_of(&core->tail->names, location);
    for (uint32_t s = (uint32_t)(from >> 32); s < core->tail->segment; s++, unit = 0) {
        const ms__segment *l = ms__segment_of(log, s, true);
        if (!l) *result = MS_E_NO_MEMORY;
        if (!l || ms__segment_may_lack(l, unit, where)) return true;
    }
    return false;
}

/* ---- Edits. */

static uint32_t ms__bloom_bit(uint64_t location)
{
    return (uint32_t)(location >> 48);
}

/* Remembers that a location has edits. False: no memory. */
static bool ms__bloom_set(ms__log *log, uint32_t bit)
{
    uint32_t *bits = (uint32_t *)log->edits.bloom;
    if (!bits) {
        bits = (uint32_t *)ms__log_resize(log, NULL, 0, MS__BLOOM_BITS / 8);
        if (!bits) return false;
        memset(bits, 0, MS__BLOOM_BITS / 8);
        ms__store_ptr(&log->edits.bloom, bits);
    }
    ms__store32(&log->core.edited, 1);
    if (ms__bit_get(bits, bit)) return true;
    ms__or32(&bits[bit / 32], (uint32_t)1 << (bit % 32));
    log->edits.n_bloom++;
    return true;
}

/* Counts every location as changed. False: no memory. */
static bool ms__bloom_fill(ms__log *log)
{
    if (log->edits.n_bloom == MS__BLOOM_BITS) return true;
    if (!ms__bloom_set(log, 0)) return false;
    uint32_t *bits = (uint32_t *)log->edits.bloom;
    for (uint32_t i = 0; i < MS__BLOOM_BITS / 32; i++) ms__or32(&bits[i], UINT32_MAX);
    log->edits.n_bloom = MS__BLOOM_BITS;
    return true;
}

/* Copies the bits of the segment index that opening starts from. */
static bool ms__bloom_set_all(ms__log *log, const ms__segment *l)
{
    bool every = l->n_changed == UINT32_MAX;
    for (uint32_t i = 0; i < (every ? MS__BLOOM_BITS : l->n_changed); i++) {
        const unsigned char *p = l->changed + (size_t)i * 2;
        uint32_t bit = every ? i : (uint32_t)p[0] | (uint32_t)p[1] << 8;
        if (!ms__bloom_set(log, bit)) return false;
    }
    return true;
}

/* Returns the edits of a location if they were read, else NULL. Needs no lock. */
static ms__edits *ms__edits_known(const ms__log *log, ms_str location)
{
    ms__tail_names *edits = (ms__tail_names *)(uintptr_t)&log->edits.names;
    const ms__loc *loc = ms__loc_get(edits, location, false);
    ms__edits *c =
        loc ? (ms__edits *)ms__load_ptr((void *const *)&loc->edits) : NULL;
    return c && ms__load32(&c->loaded) == ms__load32(&log->edits.load) ? c : NULL;
}

/* Lets the edits of each location be read again: one of them may be damaged. */
static void ms__edits_forget(ms__log *log)
{
    ms__store32(&log->edits.load, log->edits.load + 1);
}

/* Holds the damaged changes of a location in the tail. Those that it cannot hold, and
 * damage of unknown kind, which may be a change, are counted: a reading that ends before
 * the tail, or comes when the tail is sealed, learns of them here alone. */
static void ms__edits_hold_tail(ms__log *log, ms__edits *c, ms_str location)
{
    const ms__tail *t = log->core.tail;
    uint32_t where = ms__where_of(&log->edits.names, location);
    for (uint32_t i = 0; i < t->n_holes; i++) {
        const ms__hole *h = &t->holes[i];
        uint64_t place = ms__place(t->segment, h->unit);
        if (h->kind != 0 && (h->where != where ||
                             ms__edit_hold(&log->edits.names, c, h, place)))
            continue;
        c->damaged++;
        if (c->damaged_to < place) c->damaged_to = place;
    }
}

/* Reads the edits of a location; under the lock. NULL: no memory. */
static MS__NOINLINE ms__edits *ms__edits_load(ms__log *log, ms_str location)
{
    ms__list_walk w;
    ms__span span;
    const unsigned char *r;
    const ms__tail *t = log->core.tail;
    ms__edits *c = ms__edits_known(log, location);
    if (c) return c;
    ms__loc *loc = ms__loc_get(&log->edits.names, location, true);
    if (loc) c = (ms__edits *)ms__tail_names_zeroed(&log->edits.names, sizeof *c);
    if (!c) return NULL;
    ms__names_link(&log->edits.names);
    ms__list_walk_begin(&log->core, &w, location, MS__P_CHANGE, 0,
                        ms__place(t->segment, t->filled), false);
    w.reading.load = c;
    while ((r = ms__list_walk_step(&log->core, &w)) != NULL)
        if (ms__edit_span(r, &span) &&
            !ms__edit_add(&log->edits.names, c, &span, w.place, r))
            return NULL;
    if (w.reading.result != MS_OK) return NULL;
    c->damaged = w.damaged + w.reading.damaged_ranges;
    if (c->damaged_to < w.damaged_to) c->damaged_to = w.damaged_to;
    ms__edits_hold_tail(log, c, location);
    ms__store_ptr(&loc->edits, c);
    ms__store32(&c->loaded, log->edits.load);
    return c;
}

static ms__edits *ms__log_edits_of(ms__core *core, ms_str location, bool locked,
                                   ms_result *result)
{
    ms__log *log = ms__log_in(core);
    uint64_t h = ms__hash_location(&log->id, location);
    uint32_t *bits = (uint32_t *)ms__load_ptr(&log->edits.bloom);
    if (!bits || !ms__bit_get(bits, ms__bloom_bit(h))) return NULL;
    ms__edits *c = ms__edits_known(log, location);
    if (!c) {
        if (!locked) ms__lock_acquire(&log->lock);
        c = ms__edits_load(log, location);
        if (!locked) ms__lock_release(&log->lock);
        if (!c) *result = MS_E_NO_MEMORY;
        if (!c) return NULL;
    }
    return ms__load_ptr(&c->changed) || ms__load_ptr(&c->ranges) || c->damaged ||
                   c->n_held
               ? c
               : NULL;
}

static ms__edits *ms__log_edit(ms__core *core, ms_str location)
{
    ms__log *log = ms__log_in(core);
    ms__edits *c = ms__edits_load(log, location);
    bool room = c &&
                ms__bloom_set(log, ms__bloom_bit(ms__hash_location(&log->id, location)));
    return room ? c : NULL;
}

/* Adds a change, the next one in the file, to the edits in memory. False: no memory, and
 * nothing has changed. */
static MS__NOINLINE bool ms__apply_change(ms__log *log, const unsigned char *r,
                                          uint64_t offset)
{
    ms__span span;
    ms__tail *t = log->core.tail;
    ms_str location = ms__location(ms__msg(r));
    bool edit = ms__edit_span(r, &span);
    uint64_t place = ms__place(t->segment, (uint32_t)((offset - t->base) / 8));
    if (edit && !ms__bloom_set(log, ms__bloom_bit(ms__hash_location(&log->id, location))))
        return false;
    if (!ms__tail_enter(&log->core, t, r, offset)) return false;
    ms__edits *c = edit ? ms__edits_known(log, location) : NULL;
    if (c && !ms__edit_add(&log->edits.names, c, &span, place, r))
        ms__store32(&c->loaded, 0); /* the next reader reads the edits again */
    ms__gap_named(&log->sum.gap_seq, log->sum.last_seq, span.last);
    log->sum.hidden += span.hidden;
    log->sum.changes++;
    return true;
}
