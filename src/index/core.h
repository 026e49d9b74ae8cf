
/* ==== [core] what an arena store and a log share =======================================
 * Both stores consist of a tail in memory, which takes new records, and the functions of
 * the sections up to [list]. They differ in their home, a table of functions: where the
 * bytes of a record are, how room is made, how a new end is published. An arena store has
 * only a tail. A log closes its tail when a segment is full, and reads sealed segments
 * through a second table.
 *
 *      [append] appends, changes   [merge] cursors     [list] listings
 *      [core]    tail: names and posting lists, records by number, edits
 *      home:     arena: chunks, or one buffer          log: the mapped file
 *      sealed:   none                                  log: segments with an index
 *
 * Places. A place is the number of a segment (an arena store has one, 0) and, in units of
 * 8 bytes, the distance of a record from the segment's start. Entries of posting lists in
 * memory are that distance. In a clustered segment of a log ([log-index]) a place has the
 * lowest 32 bits of the record's sequence number instead. The place of a record never
 * changes (in a [ring], until it drops messages); places rise in the order of appending,
 * and sequence numbers of messages rise with them.
 *
 * Snapshots. A reader loads the end of the tail once and ignores all records from there
 * on: new messages, and changes of old ones.
 * ================================================================================== */

/* The records after the last sealed segment. */
typedef struct ms__tail {
    ms__tail_names names;
    uint64_t base;    /* offset of its start */
    uint32_t segment;
    uint32_t count;          /* records entered; under the lock */
    uint32_t filled;         /* units up to the end of the last record; under the lock */
    uint32_t end;            /* units that readers may read; atomic */
    uint32_t damaged_ranges; /* damaged ranges between the records; atomic */
    uint32_t n_holes;        /* of these, in `holes`; atomic */
    ms__hole holes[MS__HOLES];
    uint64_t first_seq;
    int64_t first_time, last_time;
} ms__tail;

struct ms__core;

/* Receives the entries of a name in a segment, see [list]; false: no memory. */
typedef bool ms__name_fn(void *naming, uint64_t hash, uint64_t first, uint64_t last,
                         uint64_t messages);

/* The state of a record that a sealed segment lists. */
typedef enum ms__state_of { MS__LOST, MS__HEADER_ONLY, MS__WHOLE } ms__state_of;

/* The messages from a number on. */
typedef struct ms__sought {
    uint64_t from; /* place of the first one, valid or not; MS__NO_PLACE: no record */
    uint64_t past; /* the same; before it, where records are lost between the last
                      message with a smaller number and that one. Reading begins there:
                      it meets them */
    const unsigned char *record; /* the first one whose header is valid, or NULL */
    uint64_t place;              /* of that, or the end: what is between may be smaller */
    bool broken;                 /* its body is damaged */
    bool damaged;                /* it is, or there are damaged ones between */
} ms__sought;

#define MS__NO_PLACE UINT64_MAX

/* How a log reads its sealed segments. `locked`: the caller has the lock. */
typedef struct ms__sealed {
    /* Moves an iterator to its entries in the next sealed segment. False: it has no
     * further run. *some: there are entries of the query. Without one, forward, the tail
     * is next. */
    bool (*turn)(struct ms__core *core, ms__reading *s, ms__list_iter *h, bool *some);
    /* Sets the iterator's record to entry i of its segment; false: the query excludes
     * it. */
    bool (*offer)(struct ms__core *core, ms__reading *s, ms__list_iter *h, uint32_t i);
    /* Moves an iterator on, and adds its records to the queue, up to so many in it or to
     * the end of the run. */
    void (*take)(struct ms__core *core, ms__merge *merge, ms__list_iter *h,
                 uint32_t most);
    /* Moves an iterator to the next entry of its run, if its record was found valid. */
    bool (*step)(const ms__reading *s, ms__list_iter *h);
    ms__state_of (*state)(struct ms__core *core, ms__index index, uint32_t entry,
                          const unsigned char *r, bool raw);
    /* Returns the number of entries of the iterator before a unit. */
    uint32_t (*below)(const ms__list_iter *h, uint32_t unit);
    /* Finds a number in the first n segments. */
    void (*seek)(struct ms__core *core, uint32_t n, uint64_t seq, bool locked,
                 ms__sought *f, ms_result *result);
    /* Returns the message of a location with that key, or NULL (MS_E_DAMAGED: it may be
     * a damaged one). */
    const unsigned char *(*key)(struct ms__core *core, const ms__loc *loc, ms_str key,
                                uint64_t hash, ms_result *result);
    /* Returns whether a message of a location may be lost from a place on; under the
     * lock. */
    bool (*lacks)(struct ms__core *core, ms_str location, uint64_t from,
                  ms_result *result);
    /* Returns the edits of a location, which are read if necessary. NULL: none, or no
     * memory. */
    ms__edits *(*edits)(struct ms__core *core, ms_str location, bool locked,
                        ms_result *result);
    /* The same, to add an edit; under the lock. NULL: no memory. */
    ms__edits *(*edit)(struct ms__core *core, ms_str location);
    /* Returns the record at a place, or NULL. */
    const unsigned char *(*record)(struct ms__core *core, uint64_t place);
    /* Adds the names of a segment to a listing. */
    ms_result (*names)(struct ms__core *core, uint32_t segment, const ms_list_query *q,
                       ms__name_fn *add, void *naming);
} ms__sealed;

/* Where the records of a store are. */
typedef struct ms__home {
    /* Returns the address of an offset below the end. */
    const unsigned char *(*at)(const struct ms__core *core, uint64_t offset);
    /* Makes room for the next record at run->offset, or after it. */
    ms_result (*room)(struct ms__core *core, struct ms__append_run *run, uint32_t size,
                      unsigned char **r, ms_error *err);
    /* Returns the present address of a record of the running append. */
    unsigned char *(*written)(const struct ms__core *core,
                              const struct ms__append_run *run, uint64_t offset);
    /* Makes everything before run->offset part of the store. */
    ms_result (*publish)(struct ms__core *core, const struct ms__append_run *run,
                         ms_error *err);
    ms_result (*no_room)(const struct ms__core *core, uint64_t size, ms_error *err);
    const ms__sealed *sealed; /* NULL: an arena store */
    /* Finds the notes that a raw query asks for, see [related]. Takes the lock. False:
     * they are not known. NULL: they never are. */
    bool (*notes)(struct ms__core *core, ms__reading *s);
} ms__home;

typedef struct ms__core {
    ms_store store;
    const ms__home *home;
    uint32_t seed;         /* checksum of the store's id: the start of header checks */
    uint32_t edited;       /* messages were changed; atomic */
    ms__tail *tail;        /* the tail that takes records; under the lock */
    ms__tail_names *edits; /* memory of edits; in an arena store that of the tail */
} ms__core;

static ms__core *ms__core_of(ms_store *store) { return (ms__core *)(void *)store; }

/* Returns the functions for sealed segments; NULL: the store has none. */
static const ms__sealed *ms__sealed_of(const ms__core *core)
{
    return MS__LOG ? core->home->sealed : NULL;
}

static uint64_t ms__place(uint32_t segment, uint32_t unit)
{
    return (uint64_t)segment << 32 | unit;
}

static uint32_t ms__seed_at(uint32_t seed, uint64_t offset)
{
    unsigned char at[8];
    ms__put64(at, offset);
    return ms__crc32c(seed, at, 8);
}

/* Returns the header check of a record at an offset. */
static uint32_t ms__check_at(uint32_t seed, uint64_t offset, const unsigned char *r)
{
#if MS__CRC_X86
    if (ms__crc_fast()) return ms__crc_header_x86(seed, offset, r);
#endif
    return ms__crc32c(ms__seed_at(seed, offset), r, MS__AT_CHECK);
}

/* Checks of a record that seems damaged. A redaction, also of another process, may store
 * its checks or its body while they are read; then they match at the next one. */
#define MS__CHECK_TRIES 3u

/* Returns whether the header of a record at an offset matches its check. */
static bool ms__holds_at(uint32_t seed, uint64_t offset, const unsigned char *r)
{
    for (unsigned tries = 0; tries < MS__CHECK_TRIES; tries++) {
        if (ms__get32(r + MS__AT_CHECK) == ms__check_at(seed, offset, r)) return true;
        ms__fence();
    }
    return false;
}

/* Returns whether a record with a valid header is valid. */
static MS__UNUSED bool ms__whole_at(uint64_t offset, const unsigned char *r)
{
    for (unsigned tries = 0; tries < MS__CHECK_TRIES; tries++) {
        if (ms__check_record(r, offset, NULL) == MS_OK) return true;
        ms__fence();
    }
    return false;
}

/* Stores in a record the hash that its location has in this store. */
static void ms__where_set(unsigned char *r, uint64_t location)
{
    ms__put32(r + MS__AT_WHERE, (uint32_t)(location >> 32));
}

/* Stores in a HIDE how many numbers after its first one it may hide. */
static void ms__reach_set(unsigned char *r, uint64_t reach)
{
    ms__put32(r + MS__AT_BY_KIND, reach < UINT32_MAX ? (uint32_t)reach : UINT32_MAX);
}

/* Stores both checks in a record that is otherwise complete. */
static void ms__seal_at(uint32_t seed, uint64_t offset, unsigned char *r)
{
    ms__put32(r + MS__AT_BODY_CHECK, ms__body_check(r));
    ms__put32(r + MS__AT_CHECK, ms__check_at(seed, offset, r));
}

/* ---- Records of a tail. */

static uint64_t ms__tail_offset(const ms__tail *t, uint32_t unit)
{
    return t->base + (uint64_t)unit * 8;
}

static uint32_t ms__postings_entry(const ms__postings *s, uint32_t i)
{
    return ms__chunk_entry(ms__postings_chunk(s, i), i);
}

/* Returns the record at a unit; NULL: its header does not match its check. */
static const unsigned char *ms__tail_record(const ms__core *core, const ms__tail *t,
                                            uint32_t unit)
{
    uint64_t offset = ms__tail_offset(t, unit);
    const unsigned char *r = core->home->at(core, offset);
    return ms__holds_at(core->seed, offset, r) ? r : NULL;
}

/* Returns the first valid record among entries [from, to) of a chunk, or NULL. */
static const unsigned char *ms__chunk_sound(const ms__core *core, const ms__tail *t,
                                            const ms__chunk *c, uint32_t from,
                                            uint32_t to)
{
    const unsigned char *r = NULL;
    while (from < to && !(r = ms__tail_record(core, t, ms__chunk_entry(c, from)))) from++;
    return r;
}

/* Splits the first n entries of a posting list at a sequence number: valid records before
 * the returned index have smaller numbers, those from it on do not. Goes back chunk by
 * chunk, then searches in one by halves. */
static uint32_t ms__tail_find(const ms__core *core, const ms__tail *t,
                              const ms__postings *s, uint32_t n, uint64_t seq)
{
    const ms__chunk *c = n > 0 ? ms__postings_chunk(s, n - 1) : NULL;
    const unsigned char *r;
    while (c && c->before && (!(r = ms__chunk_sound(core, t, c, c->first, n)) ||
                              ms_seq(ms__msg(r)) >= seq)) {
        n = c->first;
        c = c->before;
    }
    uint32_t low = c ? c->first : 0;
    while (c && low < n) {
        uint32_t middle = low + (n - low) / 2;
        r = ms__chunk_sound(core, t, c, middle, n);
        if (r && ms_seq(ms__msg(r)) < seq) low = middle + 1;
        else n = middle;
    }
    return low;
}

/* Returns the hole of a damaged record, from its valid header. */
static ms__hole ms__hole_of(const unsigned char *r)
{
    ms__hole h;
    memset(&h, 0, sizeof h);
    h.where = ms__get32(r + MS__AT_WHERE);
    if (h.where == 0 || (r[4] != MS__KIND_MESSAGE && !ms__is_change(r))) return h;
    h.kind = r[4];
    h.seq = ms_seq(ms__msg(r));
    h.reach = ms__get32(r + MS__AT_BY_KIND);
    return h;
}

/* Enters a hole after the last record of a tail. Under the lock; readers load the count
 * without it, before the holes. The last one stays zero but for its unit: of any kind, it
 * moves on in one store. */
static void ms__tail_damage(ms__tail *t, const ms__hole *hole)
{
    uint32_t n = t->n_holes < MS__HOLES ? t->n_holes : MS__HOLES - 1;
    if (n + 1 < MS__HOLES) t->holes[n] = *hole;
    ms__store32(&t->holes[n].unit, t->filled);
    ms__store32(&t->n_holes, n + 1);
    ms__store32(&t->damaged_ranges, t->damaged_ranges + 1);
}

/* Returns whether a record of a hole may belong to a query. where: of the query's
 * location, 0: all; raw: its kinds, 0: messages as they are shown. An AMEND or HIDE whose
 * message is known withholds that (ms__withheld), and no other. */
static bool ms__hole_concerns(const ms__hole *hole, uint32_t where, unsigned raw)
{
    if (hole->kind == 0) return true;
    if (where != 0 && hole->where != where) return false;
    return raw ? (raw & ms__raw_bit(hole->kind)) != 0 : hole->kind == MS__KIND_MESSAGE;
}

/* Counts the holes of a tail that may have had a record of a query between two places of
 * it: found[0] of kind 0, which may have changed any message before it; [1]: others. */
static void ms__tail_holes(const ms__tail *t, uint32_t first, uint32_t last,
                           uint32_t where, unsigned raw, uint32_t found[2])
{
    uint32_t n = ms__load32(&t->n_holes);
    for (uint32_t i = 0; i < n; i++) {
        const ms__hole *h = &t->holes[i];
        uint32_t unit = ms__load32(&h->unit);
        bool at = unit >= first && (unit <= last || h->kind == 0);
        if (at && ms__hole_concerns(h, where, raw)) found[h->kind != 0]++;
    }
}

/* Returns whether a hole of a tail may have had message number seq, which is missing
 * between two units. */
static bool ms__tail_lost(const ms__tail *t, uint32_t first, uint32_t last, uint64_t seq)
{
    uint32_t n = ms__load32(&t->n_holes);
    for (uint32_t i = 0; i < n; i++) {
        const ms__hole *h = &t->holes[i];
        if (h->kind == 0 ? h->unit >= first && h->unit <= last
                         : h->kind == MS__KIND_MESSAGE && h->seq == seq)
            return true;
    }
    return false;
}

/* Finds the messages from a number on. Without one `from` is the tail's end, which is the
 * unit `end`. */
static ms__sought ms__seek(ms__core *core, const ms__tail *t, uint32_t end, uint64_t seq,
                          bool locked, ms_result *result)
{
    ms__sought f;
    const ms__postings *all = &t->names.all;
    uint32_t n = ms__postings_below(all, end), i = ms__tail_find(core, t, all, n, seq);
    uint32_t before = i > 0 ? ms__postings_entry(all, i - 1) : 0;
    bool first = i == 0;
    memset(&f, 0, sizeof f);
    f.from = f.past = MS__NO_PLACE;
    if (first && ms__sealed_of(core))
        ms__sealed_of(core)->seek(core, t->segment, seq, locked, &f, result);
    for (; !f.record && i < n && *result == MS_OK; i++) {
        uint32_t unit = ms__postings_entry(all, i);
        f.place = ms__place(t->segment, unit);
        if (f.from == MS__NO_PLACE) f.from = f.place;
        f.record = ms__tail_record(core, t, unit);
        if (!f.record) f.damaged = true;
    }
    if (!f.record) f.place = ms__place(t->segment, end);
    if (f.from == MS__NO_PLACE) f.from = f.place;
    if ((!MS__LOG || f.place >> 32 == t->segment) &&
        ms__tail_lost(t, before, (uint32_t)f.place, seq))
        f.damaged = true;
    if (ms__load32(&t->n_holes) > 0 && f.past > f.from &&
        (!MS__LOG || f.from >> 32 == t->segment))
        f.past = ms__place(t->segment, first ? 0 : before + 1);
    if (f.past > f.from) f.past = f.from;
    return f;
}

/* Returns where reading ends before message number seq, or backward begins: it meets what
 * is damaged there and may have a smaller number. */
static uint64_t ms__place_of(ms__core *core, const ms__tail *t, uint32_t end,
                             uint64_t seq, bool locked, ms_result *result)
{
    return ms__seek(core, t, end, seq, locked, result).place;
}

/* Returns the record of message number seq as it was appended; NULL: it is not there, or
 * (f->damaged) it may be a damaged one, or *result. */
static const unsigned char *ms__record_by_seq(ms__core *core, const ms__tail *t,
                                              uint32_t end, uint64_t seq, bool locked,
                                              ms__sought *f, ms_result *result)
{
    *f = ms__seek(core, t, end, seq, locked, result);
    bool whole = f->record && !(MS__LOG && f->broken);
    return whole && ms_seq(ms__msg(f->record)) == seq ? f->record : NULL;
}

/* ---- Keys. A key's text is read from its record. */

static ms__key *ms__key_in(const ms__core *core, const ms__tail *t,
                           const ms__append_run *run, void **root, uint64_t hash,
                           const ms__loc *loc, ms_str key, const unsigned char **r)
{
    ms__key *k;
    ms__path p = ms__trie(root, hash);
    while ((k = (ms__key *)(void *)ms__trie_next(&p, hash)) != NULL) {
        uint64_t offset = ms__tail_offset(t, k->entry);
        *r = run ? core->home->written(core, run, offset) : core->home->at(core, offset);
        if (k->loc == loc && ms_str_equal(ms_get(ms__msg(*r), MS_F_KEY).text, key))
            return k;
    }
    return NULL;
}

/* Returns the record of a location that has a key, in the tail, in the running append
 * (run; NULL outside of one), or in a sealed segment. */
static const unsigned char *ms__key_find(ms__core *core, const ms__append_run *run,
                                         const ms__loc *loc, ms_str key, uint64_t hash,
                                         ms_result *result)
{
    const ms__tail *t = core->tail;
    ms__tail_names *names = &core->tail->names;
    const unsigned char *r;
    void **linked = &names->linked[MS__KEYS].root, **fresh = &names->fresh[MS__KEYS].root;
    if (ms__key_in(core, t, NULL, linked, hash, loc, key, &r)) return r;
    if (ms__key_in(core, t, run, fresh, hash, loc, key, &r)) return r;
    return ms__sealed_of(core) ? ms__sealed_of(core)->key(core, loc, key, hash, result)
                               : NULL;
}

/* ---- Edits. */

/* Returns the edits of a location for a reader; NULL: it has none, or *result is set. */
static const ms__edits *ms__edits_of(ms__core *core, ms_str location, bool locked,
                                     ms_result *result)
{
    if (!MS__CHANGES || !ms__load32(&core->edited)) return NULL;
    if (ms__sealed_of(core))
        return ms__sealed_of(core)->edits(core, location, locked, result);
    const ms__loc *loc = ms__loc_get(&core->tail->names, location, false);
    const ms__edits *c =
        loc ? (const ms__edits *)ms__load_ptr((void *const *)&loc->edits) : NULL;
    return c && ms__load32(&c->changes.count) > 0 ? c : NULL;
}

/* Adds a damaged edit of a location to c->held; other changes do not matter. With too
 * many, all messages are withheld. False: no memory. */
static MS__UNUSED bool ms__edit_hold(ms__tail_names *names, ms__edits *c,
                                     const ms__hole *hole, uint64_t place)
{
    if (hole->kind != MS__KIND_AMEND && hole->kind != MS__KIND_HIDE) return true;
    if (!c->held)
        c->held = (ms__held *)ms__tail_names_alloc(names, MS__HOLES * sizeof *c->held);
    if (!c->held) return false;
    bool full = c->n_held == MS__HOLES;
    ms__held *h = &c->held[full ? MS__HOLES - 1 : c->n_held++];
    h->hole = *hole;
    h->place = place;
    if (!full) return true;
    h->hole.kind = MS__KIND_HIDE;
    h->hole.seq = 0;
    h->hole.reach = UINT32_MAX;
    return true;
}

/* Returns whether a damaged change was about message number seq, whose content is that of
 * a record at a place: nothing that it may have hidden or replaced is shown. */
static MS__UNUSED bool ms__withheld(const ms__edits *c, uint64_t seq, uint64_t place)
{
    for (uint32_t i = 0; i < c->n_held; i++) {
        const ms__hole *h = &c->held[i].hole;
        bool amend = h->kind == MS__KIND_AMEND, all = h->reach == UINT32_MAX;
        if (amend ? seq == h->seq && place < c->held[i].place
                  : seq >= h->seq && (all || seq - h->seq <= h->reach))
            return true;
    }
    return false;
}

/* Returns the record with the present content of r, at a place, for a reader whose end is
 * `end`; NULL: hidden. *sound: false if that is a damaged AMEND, or a damaged change
 * withholds the message. */
static const unsigned char *ms__shown_at(const ms__core *core, const ms__tail *t,
                                         const ms__edits *c, const unsigned char *r,
                                         uint64_t place, uint64_t end, bool *sound)
{
    uint64_t now = place;
    if (!MS__CHANGES || !c) return r;
    r = ms__shown(c, r, ms_seq(ms__msg(r)), end, &now);
    if (!r) *sound = true;
    if (r && now != place)
        *sound = (MS__LOG && now >> 32 != t->segment) ||
                 ms__holds_at(core->seed, ms__tail_offset(t, (uint32_t)now), r);
    if (MS__LOG && r && c->n_held > 0 && ms__withheld(c, ms_seq(ms__msg(r)), now))
        *sound = false;
    return r;
}

/* ---- Entering records that stand in the store already. */

/* Widens the bounds of numbers and times of a tail to those of a message. */
static void ms__tail_note(ms__tail *t, const ms_msg *msg)
{
    int64_t time;
    if (t->first_seq == 0 || t->first_seq > ms_seq(msg)) t->first_seq = ms_seq(msg);
    if (!ms_time(msg, &time)) return;
    if (time < t->first_time) t->first_time = time;
    if (time > t->last_time) t->last_time = time;
}

/* Enters a message; false: no memory. */
static bool ms__adopt_message(ms__core *core, ms__tail *t, ms__plan *p,
                              const unsigned char *r)
{
    const ms_msg *msg = ms__msg(r);
    ms__tail_names *names = &t->names;
    ms__agent *agent = NULL;
    ms_str of = ms__agent_key(msg), key = ms_get(msg, MS_F_KEY).text;
    const unsigned char *known;
    ms__loc *loc = ms__loc_get(names, ms__location(msg), true);
    if (loc && of.ptr) agent = ms__agent_get(names, loc, of, true);
    if (!loc || (of.ptr && !agent)) return false;
    ms__plan_lists(names, p, loc, agent, ms_type_of(msg));
    if (!ms__plan_reserve(names, p)) return false;
    if (key.ptr) {
        uint64_t hash = ms__name_hash(names, MS__KEYS, loc->name.node.hash, key);
        void **keys = &names->linked[MS__KEYS].root;
        if (!ms__key_in(core, t, NULL, keys, hash, loc, key, &known) &&
            !ms__key_make(names, loc, hash, p->entry))
            return false;
    }
    ms__names_link(names);
    ms__tail_names_enter(names, p, r);
    ms__tail_note(t, msg);
    return true;
}

/* Enters a change; false: no memory. */
static bool ms__adopt_change(ms__tail *t, ms__plan *p, const unsigned char *r)
{
    const ms_msg *msg = ms__msg(r);
    ms__edits *fresh;
    ms__loc *loc = ms__loc_get(&t->names, ms__location(msg), true);
    if (!loc || !ms__change_reserve(&t->names, loc, r[4], ms_seq(msg), p, &fresh))
        return false;
    ms__names_link(&t->names);
    ms__change_enter(&t->names, loc, p, fresh);
    return true;
}

/* Enters a valid record at an offset. False: no memory, and nothing has changed. */
static bool ms__tail_enter(ms__core *core, ms__tail *t, const unsigned char *r,
                           uint64_t offset)
{
    ms__plan p;
    ms__mark mark = ms__tail_names_mark(&t->names);
    uint64_t unit = (offset - t->base) / 8, filled = unit + ms__padded(ms__get32(r)) / 8;
    if (filled > MS__UNITS_MAX) return false;
    ms__plan_begin(&p);
    p.entry = (uint32_t)unit;
    if (!(ms__is_change(r) ? ms__adopt_change(t, &p, r)
                           : ms__adopt_message(core, t, &p, r))) {
        ms__plans_undo(&t->names, &p, 1, &mark);
        return false;
    }
    t->count++;
    t->filled = (uint32_t)filled;
    return true;
}

/* Makes the entered records visible to readers. */
static void ms__tail_show(ms__tail *t)
{
    ms__store32(&t->end, t->filled);
}
