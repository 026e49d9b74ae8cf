
/* ==== [copy] from one store into another =============================================
 * ms_copy is compaction, retention, repair, export and loading. It appends the messages
 * that a query over the source returns. So a copy has no changes except for notes and
 * facts, and no byte of hidden, redacted or replaced text. Damage of the source is
 * counted, and an error after all else is copied.
 *
 * A rewrite of a log holds pointers to the messages of a clustered segment, sorts them by
 * location and view, and then copies them (c->cluster). That takes some 48 bytes of each
 * message meanwhile.
 *
 * The copy of a log that takes appends meanwhile has two parts. The first one reads the
 * store as of a place (c->mark). Then the records after that place are appended, changes
 * included, in the same batches: the same changes of an equal state. The caller moves the
 * goal on, up to the end.
 *
 * (CP1) Views of the destination equal those of the source, for kept messages, with the
 *      same numbers, notes and facts.
 * (CP2) The destination assigns no number that the source has assigned.
 * ================================================================================== */

/* A location to copy, from a number on; whole turns: the first numbers of a series of
 * turns that is kept, of one that is not, and so on. */
typedef struct ms__kept {
    ms_str location;
    uint64_t from;
    uint64_t *turns;
    size_t n_turns;
} ms__kept;

#define MS__CLUSTER_RECORDS ((size_t)1 << 19) /* of a clustered segment, at most */

/* Begins a clustered segment in a log that is written, or ends it. */
typedef ms_result ms__cluster_fn(ms_store *destination, bool begin, ms_error *err);

/* A running copy. */
typedef struct ms__copying {
    ms_store *destination, *source;
    const ms_keep *keep;
    ms_copy_report *report;
    ms_arena *arena;
    ms__kept *kept;   /* sorted by location; NULL: all locations */
    size_t n_kept;
    uint64_t from;    /* messages before this number are dropped, unless `kept` has
                         their turn */
    uint64_t beyond;  /* a number that no message has yet */
    uint64_t last;    /* number of the last message read */
    uint64_t placed;  /* number of the last one copied */
    ms_str *names;    /* of locations that have facts, some repeated */
    size_t n_names, cap_names;
    size_t name;      /* the next of them */
    bool changed;     /* the source has changes */
    bool live;        /* the source takes appends meanwhile */
    unsigned phase;   /* MS__COPY_* */
    ms_cursor *it;    /* of the phase, in the arena */
    bool reading;     /* it is open */
    uint64_t mark;    /* records before this place of the source belong to the first
                         part */
    uint64_t upto;    /* end of the part that is being copied */
    uint64_t goal;    /* live: the place up to which the caller wants a copy */
    ms_envelope *batch; /* records of the source that became visible together */
    size_t n_batch, cap_batch;
    ms_kind change;     /* of the last one of the batch, or MS_KIND_MESSAGE */
    ms_record *records; /* the batch, with a change */
    size_t cap_records;
    uint64_t met;     /* damaged records before the last one of the batch */
    ms__cluster_fn *cluster; /* NULL: messages are copied in order of their numbers */
    uint64_t window, least;  /* bytes of a clustered segment */
    ms__keyed *held, *more;  /* its messages (the value), by ms__cluster_key; room for as
                                many */
    size_t n_held, cap_held, cap_more;
    size_t put;              /* so many of them were copied */
    uint64_t held_bytes;
    bool held_full;          /* they are copied before more is read */
    bool wide;               /* one has a number of over 32 bits: they are not sorted */
    bool all_held;           /* all messages were read */
    ms_error error;   /* of a step; the caller's is written only if the step fails */
} ms__copying;

enum {
    MS__COPY_LIST,     /* which locations, and which messages of them */
    MS__COPY_MESSAGES, /* as of the mark */
    MS__COPY_CHANGES,  /* notes as of the mark, names of locations with facts */
    MS__COPY_FACTS,
    MS__COPY_SINCE     /* records after the mark, repeatedly */
};

static bool ms__kept_less(const void *a, const void *b)
{
    const ms__kept *x = (const ms__kept *)a, *y = (const ms__kept *)b;
    return ms__str_order(x->location, y->location) < 0;
}

/* Returns whether a location is copied. *k: its rules, NULL: all of it. */
static bool ms__kept_find(const ms__copying *c, ms_str location, const ms__kept **k)
{
    size_t low = 0, high = c->n_kept;
    *k = NULL;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = ms__str_order(c->kept[middle].location, location);
        if (order == 0) *k = &c->kept[middle];
        if (order == 0) return true;
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return c->keep->n_locations == 0;
}

static bool ms__is_young(const ms_keep *keep, const ms_msg *msg)
{
    int64_t t;
    return !keep->has_since || !ms_time(msg, &t) || t >= keep->since_ns;
}

static bool ms__keeps(const ms__copying *c, const ms_msg *msg)
{
    const ms__kept *k = NULL;
    uint64_t seq = ms_seq(msg);
    if (c->kept && !ms__kept_find(c, ms__location(msg), &k)) return false;
    if (k && k->turns) return ms__lower(k->turns, k->n_turns, seq + 1) & 1;
    if (seq < (k ? k->from : 0)) return false;
    return c->keep->whole_turns || (seq >= c->from && ms__is_young(c->keep, msg));
}

/* Closes a cursor. Damage is no error here: the copy counts it. */
static ms_result ms__kept_close(ms_cursor *it, ms_error *err)
{
    ms_result code = ms_cursor_close(it, err);
    return code == MS_E_DAMAGED ? MS_OK : code;
}

/* Returns whether a message, whose turn id is `turn`, begins a turn after a message of
 * its location with the turn id `last`. */
static bool ms__turn_begins(ms_str turn, bool user, ms_str last)
{
    return turn.ptr || last.ptr ? !ms_str_equal(turn, last) : user;
}

/* Lists the turns of a location that are kept: those with a message that the other rules
 * keep. A message without a time has that of the message before it. Messages that the
 * source does not have yet are kept. */
static ms_result ms__kept_turns(const ms__copying *c, ms__kept *k, ms_cursor *it,
                                ms_error *err)
{
    const ms_keep *keep = c->keep;
    ms_str last = ms__absent();
    uint64_t first = 0, from = k->from > c->from ? k->from : c->from;
    bool kept = false, wanted = false, timed = false, ended = false;
    int64_t time = 0;
    size_t cap = 0;
    ms_query q = ms__view_query(k->location, MS_VIEW_TIMELINE, 0);
    MS__TRY(ms_query_open(c->source, &q, it, err));
    for (;;) {
        const ms_msg *msg = ended ? NULL : ms__next_stored(it);
        ms_str turn = msg ? ms_get(msg, MS_F_TURN_ID).text : last;
        bool user = msg && ms_type_of(msg) == MS_T_USER_MESSAGE;
        if (!msg || first == 0 || ms__turn_begins(turn, user, last)) {
            void *turns =
                ms__list_room(c->arena, k->turns, k->n_turns, &cap, sizeof first);
            last = turn;
            if (!turns || !ms__keep_copy(c->arena, &last)) break;
            k->turns = (uint64_t *)turns;
            if (wanted != kept) k->turns[k->n_turns++] = first;
            if (ended) return ms__kept_close(it, err);
            kept = wanted;
            wanted = ended = !msg;
            first = msg ? ms_seq(msg) : c->beyond;
        }
        if (!msg) continue;
        if (ms_time(msg, &time)) timed = true;
        if (ms_seq(msg) >= from && (!keep->has_since || !timed || time >= keep->since_ns))
            wanted = true;
    }
    (void)ms_cursor_close(it, NULL);
    return ms__no_arena(err, c->arena, sizeof first);
}

/* Lists the locations to copy, those that the caller names or all, with their first
 * numbers. */
static MS__NOINLINE ms_result ms__kept_list(ms__copying *c, ms_error *err)
{
    const ms_keep *keep = c->keep;
    ms_listing listing;
    memset(&listing, 0, sizeof listing);
    if (keep->newest == 0 && keep->n_locations == 0 && !keep->whole_turns) return MS_OK;
    ms_error own;
    ms_result listed = MS_OK; /* the cursors count damage */
    if (keep->n_locations == 0)
        listed = ms_list(c->source, NULL, c->arena, &listing, &own);
    if (listed != MS_OK && listed != MS_E_DAMAGED) {
        if (err) *err = own;
        return listed;
    }
    size_t n = keep->n_locations ? keep->n_locations : listing.count;
    ms__kept *kept = (ms__kept *)ms_arena_alloc(c->arena, n * sizeof *kept);
    if (!kept) return ms__no_arena(err, c->arena, n * sizeof *kept);
    memset(kept, 0, n * sizeof *kept);
    for (size_t i = 0; i < n; i++) {
        kept[i].location = keep->n_locations ? keep->locations[i]
                                             : listing.items[i].location;
        if (keep->newest == 0 || ms__is_empty(kept[i].location)) continue;
        bool damaged;
        ms_result code = ms__newest(c->source, kept[i].location, keep->newest, &damaged,
                                    &kept[i].from, err);
        if (code != MS_OK && code != MS_E_DAMAGED) return code;
        if (kept[i].from == 0) kept[i].from = c->beyond;
    }
    ms__sort(kept, n, sizeof *kept, ms__kept_less);
    c->kept = kept;
    c->n_kept = n;
    return MS_OK;
}

/* Counts the bytes of messages that the other rules keep, from the newest one on. */
static ms_result ms__kept_bytes(ms__copying *c, ms_cursor *it, ms_error *err)
{
    const ms_msg *msg;
    uint64_t bytes = 0, from = c->beyond;
    ms_query q = ms__view_query(ms__absent(), MS_VIEW_TIMELINE, 0);
    q.reverse = true;
    MS__TRY(ms_query_open(c->source, &q, it, err));
    while ((msg = ms__next_stored(it)) != NULL) {
        if (!ms__keeps(c, msg) || !ms__is_young(c->keep, msg)) continue;
        bytes += ms_size(msg);
        if (bytes > c->keep->newest_bytes) break;
        from = ms_seq(msg);
    }
    c->from = msg ? from : 0;
    return ms__kept_close(it, err);
}

/* Determines which messages are kept. */
static ms_result ms__kept_choose(ms__copying *c, ms_error *err)
{
    ms_cursor *it = (ms_cursor *)ms_arena_alloc(c->arena, sizeof *it);
    if (!it) return ms__no_arena(err, c->arena, sizeof *it);
    MS__TRY(ms__kept_list(c, err));
    if (c->keep->newest_bytes > 0) MS__TRY(ms__kept_bytes(c, it, err));
    for (size_t i = 0; c->keep->whole_turns && i < c->n_kept; i++)
        if (!ms__is_empty(c->kept[i].location))
            MS__TRY(ms__kept_turns(c, &c->kept[i], it, err));
    return MS_OK;
}

/* Appends a copy, without its key if another message of the destination has the key: two
 * stores of a union may have given it. */
static ms_result ms__copy_put(const ms__copying *c, ms_envelope *m, ms_error *err)
{
    ms_append_opts opts;
    uint64_t seq = 0;
    const ms_backend *to = c->destination->backend;
    memset(&opts, 0, sizeof opts);
    opts.keep_seq = true;
    opts.seqs = &seq;
    for (;;) {
        ms_result code = to->append(c->destination, ms__absent(), m, 1, &opts, err);
        bool other = code == MS_OK ? seq > 0 && seq != m->seq : code == MS_E_KEY_REUSED;
        if (!other || !m->key.ptr) return code;
        m->key = ms__absent();
    }
}

/* Returns the key by which messages of a clustered segment are sorted: location, then the
 * view of its class, or the agent. */
static uint64_t ms__cluster_key(const ms_msg *msg)
{
    static const uint64_t key[2] = {0, 0};
    ms_str location = ms__location(msg), agent = ms__agent_key(msg);
    uint64_t where = ms__hash(key, 0, location.ptr, location.len) & ~(uint64_t)0xFFFFFFFF;
    unsigned by_class = ms__type_row_of(ms_type_of(msg))->view_class;
    if (by_class == MS__CLASS_CONVERSATION) return where;
    if (by_class == MS__CLASS_GLOBAL) return where | 1;
    return where | 2 | ms__hash(key, 1, agent.ptr, agent.len) >> 32;
}

/* Holds a message of a clustered segment: a record of a log, which does not move. */
static ms_result ms__copy_hold(ms__copying *c, const ms_msg *msg, ms_error *err)
{
    if (ms_seq(msg) <= c->placed)
        return ms__range_fail(err, MS_E_ARGUMENT, "seq", ms_seq(msg), c->placed + 1,
                              UINT64_MAX - 1);
    c->placed = ms_seq(msg);
    void *held =
        ms__list_room(c->arena, c->held, c->n_held, &c->cap_held, sizeof *c->held);
    if (!held) return ms__no_arena(err, c->arena, sizeof *c->held);
    c->held = (ms__keyed *)held;
    if (c->n_held == 0) c->wide = false;
    if (ms_seq(msg) >= MS__CLUSTER_SEQ) c->wide = true;
    ms__keyed *item = &c->held[c->n_held++];
    item->key = ms__cluster_key(msg);
    item->value = (uint64_t)(uintptr_t)msg;
    c->held_bytes += ms_size(msg);
    c->held_full =
        c->held_bytes >= c->window || c->n_held == MS__CLUSTER_RECORDS || c->wide;
    return MS_OK;
}

/* Sorts the held messages; those with equal keys stay in order of their numbers. */
static ms_result ms__copy_sort(ms__copying *c, ms_error *err)
{
    if (c->cap_more < c->n_held) {
        size_t size = c->cap_held * sizeof *c->more;
        c->more = (ms__keyed *)ms_arena_alloc(c->arena, size);
        if (!c->more) return ms__no_arena(err, c->arena, size);
        c->cap_more = c->cap_held;
    }
    ms__keyed *sorted = ms__keyed_sort(c->held, c->more, (uint32_t)c->n_held);
    if (sorted == c->held) return MS_OK;
    size_t cap = c->cap_held;
    c->more = c->held;
    c->held = sorted;
    c->cap_held = c->cap_more;
    c->cap_more = cap;
    return MS_OK;
}

/* Copies at most n of the held messages. Few of them are copied in order of their
 * numbers, and so are those with numbers of over 32 bits. */
static MS__NOINLINE ms_result ms__copy_held(ms__copying *c, size_t n, ms_error *err)
{
    bool clustered = c->held_bytes >= c->least && !c->wide;
    if (c->put == 0 && clustered) {
        MS__TRY(ms__copy_sort(c, err));
        MS__TRY(c->cluster(c->destination, true, err));
    }
    for (; c->put < c->n_held && n > 0; c->put++, n--) {
        ms_envelope m =
            ms_envelope_of((const ms_msg *)(uintptr_t)c->held[c->put].value);
        MS__TRY(ms__copy_put(c, &m, err));
    }
    if (c->put < c->n_held) return MS_OK;
    if (clustered) MS__TRY(c->cluster(c->destination, false, err));
    c->n_held = c->put = 0;
    c->held_bytes = 0;
    c->held_full = false;
    return MS_OK;
}

/* Copies a message if it is kept. A message that no store would accept counts as
 * damaged. */
static MS__NOINLINE ms_result ms__copy_message(ms__copying *c, const ms_msg *msg,
                                               ms_error *err)
{
    c->last = ms_seq(msg);
    if (!ms__keeps(c, msg)) {
        c->report->dropped++;
        return MS_OK;
    }
    ms_envelope m = ms_envelope_of(msg);
    if (!c->keep->dry_run && ms__message_check(ms__absent(), &m, NULL) != MS_OK) {
        c->report->damaged++;
        return MS_OK;
    }
    if (MS__LOG && c->cluster) {
        MS__TRY(ms__copy_hold(c, msg, err));
    } else if (!c->keep->dry_run) {
        MS__TRY(ms__copy_put(c, &m, err));
        c->placed = m.seq;
    }
    c->report->copied++;
    c->report->bytes += ms_size(msg);
    return MS_OK;
}

/* Stores in the destination the largest number that the source has assigned. */
static ms_result ms__copy_numbers(ms__copying *c, ms_error *err)
{
    ms_stat stat;
    const ms_backend *to = c->keep->dry_run ? NULL : c->destination->backend;
    uint64_t last = c->last;
    if (ms_store_stat(c->source, &stat, NULL) == MS_OK) {
        if (stat.last_seq > last) last = stat.last_seq;
        if (stat.given_seq > last) last = stat.given_seq;
    }
    if (!to || !to->leave_out || last <= c->placed) return MS_OK;
    c->placed = last;
    return to->leave_out(c->destination, last, err);
}

/* Copies a note if its message was copied, and no ring has dropped it since. */
static MS__NOINLINE ms_result ms__copy_note(ms__copying *c, const ms_msg *note,
                                            ms_error *err)
{
    const ms_msg *msg;
    ms_record change;
    ms_envelope *e = ms__record_begin(&change, MS_KIND_NOTE);
    *e = ms_envelope_of(note);
    ms_result code = ms__get(c->source, e->seq, c->arena, &msg, err);
    bool gone = code == MS_E_HIDDEN || code == MS_E_NOT_FOUND || code == MS_E_DAMAGED;
    if (code != MS_OK && !gone) return code;
    if (gone || !ms__keeps(c, msg)) {
        c->report->left_out++;
        return MS_OK;
    }
    if (!c->keep->dry_run && !c->destination->backend->change) {
        c->report->unplaced++;
        return MS_OK;
    }
    if (!ms_str_equal(ms__location(msg), e->location) || !e->type_name.ptr ||
        ms__key_check(e->type_name, "kind", false, NULL) != MS_OK ||
        ms__field_check(e, MS_F_CONTENT, NULL) != MS_OK) {
        c->report->damaged++;
        return MS_OK;
    }
    e->flags = 0;
    if (!c->keep->dry_run) code = ms__change_put(c->destination, &change, 0, NULL, err);
    if (code == MS_OK) c->report->notes++;
    if (code != MS_E_NOT_FOUND) return code;
    c->report->left_out++;
    return MS_OK;
}

/* Copies the facts of a location as one record. */
static MS__NOINLINE ms_result ms__copy_facts(ms__copying *c, ms_str location,
                                             ms_error *err)
{
    ms_str facts;
    const ms__kept *k;
    if (c->keep->dry_run || !ms__kept_find(c, location, &k)) return MS_OK;
    ms_result code = ms_location_get(c->source, location, c->arena, &facts, err);
    if (code == MS_E_DAMAGED) c->report->damaged++;
    else MS__TRY(code);
    if (!facts.ptr || ms_str_equal(facts, MS_STR("{}"))) return MS_OK;
    if (c->destination->backend->change)
        return ms_location_set(c->destination, location, facts, err);
    c->report->unplaced++;
    return MS_OK;
}

static bool ms__text_less(const void *a, const void *b)
{
    return ms__str_order(*(const ms_str *)a, *(const ms_str *)b) < 0;
}

/* Copies a note, or keeps the name of a location that has facts. */
static ms_result ms__copy_change(ms__copying *c, const ms_msg *msg, ms_error *err)
{
    ms_str name = ms__location(msg);
    if (ms_kind_of(msg) == MS_KIND_NOTE) return ms__copy_note(c, msg, err);
    void *names =
        ms__list_room(c->arena, c->names, c->n_names, &c->cap_names, sizeof name);
    if (!names || !ms__keep_copy(c->arena, &name))
        return ms__no_arena(err, c->arena, name.len);
    c->names = (ms_str *)names;
    c->names[c->n_names++] = name;
    return MS_OK;
}

/* Makes records of the batch, which ends with a change. False: the arena is full. */
static bool ms__copy_records(ms__copying *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        void *records =
            ms__list_room(c->arena, c->records, i, &c->cap_records, sizeof *c->records);
        if (!records) return false;
        c->records = (ms_record *)records;
        *ms__record_begin(&c->records[i], i + 1 < n ? MS_KIND_MESSAGE : c->change) =
            c->batch[i];
    }
    return true;
}

/* Appends the batch. Leaves out changes of messages that were not copied, and changes
 * that are refused because the message is hidden or ended. */
static MS__NOINLINE ms_result ms__copy_batch(ms__copying *c, ms_error *err)
{
    ms_append_opts opts;
    size_t n = c->n_batch;
    memset(&opts, 0, sizeof opts);
    opts.keep_seq = true;
    c->n_batch = 0;
    if (n == 0) return MS_OK;
    const ms_envelope *last = &c->batch[n - 1];
    const ms_backend *to = c->destination->backend;
    if (c->change == MS_KIND_MESSAGE)
        return to->append(c->destination, ms__absent(), c->batch, n, &opts, err);
    if (c->change == MS_KIND_HIDE) {
        ms_str text;
        if (ms_json_member(last->content.text, MS_STR("last"), &text))
            (void)ms_json_u64(text, &opts.expect_seq);
    }
    if (!ms__copy_records(c, n)) return ms__no_arena(err, c->arena, sizeof *c->records);
    ms_result code =
        to->change(c->destination, last->location, c->records, n, &opts, err);
    bool refused = code == MS_E_NOT_FOUND || code == MS_E_HIDDEN || code == MS_E_CLOSED;
    c->report->left_out += refused;
    if (code == MS_OK && c->change == MS_KIND_NOTE) c->report->notes++;
    return refused ? MS_OK : code;
}

/* Copies a record that follows the mark. */
static MS__NOINLINE ms_result ms__copy_since(ms__copying *c, const ms_msg *msg,
                                             ms_error *err)
{
    const ms__kept *k;
    ms_envelope m = ms_envelope_of(msg);
    ms_kind kind = ms_kind_of(msg);
    bool message = kind == MS_KIND_MESSAGE;
    bool kept = message ? ms__keeps(c, msg) : ms__kept_find(c, m.location, &k);
    /* the copy may have what that erases */
    if (kind == MS_KIND_AMEND && ms__redact_keeps(msg))
        return ms__fail(err, MS_E_CONFLICT, "message %u was redacted during the copy: "
                        "begin it again", ms_seq(msg));
    /* left out: the copy would have it as a change */
    bool repeats = (!MS__SMALL || MS__LOG) &&
                   ms__facts_left(ms__bytes(msg)) == MS__FACTS_ALL;
    /* The damaged record may have been the last one of its batch. */
    if (c->it->damaged != c->met) MS__TRY(ms__copy_batch(c, err));
    c->met = c->it->damaged;
    if (message) c->last = m.seq;
    if (repeats) return MS_OK; /* a batch of its own */
    if (kept) {
        ms_envelope *batch = (ms_envelope *)ms__list_room(c->arena, c->batch, c->n_batch,
                                                          &c->cap_batch, sizeof m);
        if (!batch) return ms__no_arena(err, c->arena, sizeof m);
        m.flags &= MS__COPY_FLAGS;
        c->change = kind;
        c->batch = batch;
        batch[c->n_batch++] = m;
    }
    if (message && kept) {
        c->placed = m.seq;
        c->report->copied++;
        c->report->bytes += ms_size(msg);
    } else if (!kept) {
        if (message) c->report->dropped++;
        else c->report->left_out++;
    }
    return ms__bytes(msg)[7] & MS_FLAG_COMMIT ? ms__copy_batch(c, err) : MS_OK;
}

/* Opens the cursor of a phase. */
static ms_result ms__copy_open(ms__copying *c, unsigned raw, ms_error *err)
{
    ms_query q = ms__view_query(ms__absent(), MS_VIEW_TIMELINE, 0);
    q.raw = raw;
    q.arena = c->arena;
    q.as_of = c->mark;
    if (c->phase == MS__COPY_SINCE) {
        q.as_from = c->mark;
        q.as_of = c->upto;
    }
    if (!c->it) c->it = (ms_cursor *)ms_arena_alloc(c->arena, sizeof *c->it);
    if (!c->it) return ms__no_arena(err, c->arena, sizeof *c->it);
    MS__TRY(ms_query_open(c->source, &q, c->it, err));
    c->reading = true;
    return MS_OK;
}

/* Passes at most n records of the source, messages or raw ones, to `take`. *end: all were
 * passed. */
static ms_result ms__copy_each(ms__copying *c, unsigned raw,
                               ms_result (*take)(ms__copying *, const ms_msg *,
                                                 ms_error *),
                               size_t n, bool *end, ms_error *err)
{
    const ms_msg *msg = NULL;
    ms_result code = MS_OK;
    *end = false;
    if (!c->reading) MS__TRY(ms__copy_open(c, raw, err));
    while (code == MS_OK && n-- > 0 && !(MS__LOG && c->held_full)) {
        msg = ms_next(c->it);
        if (!msg) break;
        code = take(c, msg, err);
    }
    if (code == MS_OK && msg) return MS_OK;
    c->report->damaged += c->it->damaged;
    /* counted with the messages */
    if (c->phase == MS__COPY_CHANGES) c->report->damaged -= c->it->damaged_ranges;
    c->reading = false;
    ms_result read = ms_cursor_close(c->it, code == MS_OK ? err : NULL);
    if (code != MS_OK) return code; /* the destination failed */
    *end = true;
    return read == MS_E_DAMAGED ? MS_OK : read;
}

/* Copies at most n messages as of the mark. *end: these were all. */
static ms_result ms__copy_messages(ms__copying *c, size_t n, bool *end, ms_error *err)
{
    if (!MS__LOG || !c->cluster)
        return ms__copy_each(c, 0, ms__copy_message, n, end, err);
    *end = false;
    if (!c->held_full && !c->all_held) {
        MS__TRY(ms__copy_each(c, 0, ms__copy_message, n, &c->all_held, err));
        if (c->all_held) c->held_full = c->n_held > 0;
    } else if (c->held_full) {
        MS__TRY(ms__copy_held(c, n, err));
    }
    *end = c->all_held && !c->held_full;
    return MS_OK;
}

/* Begins a copy: sets the mark, and lists what is kept. */
static ms_result ms__copy_list(ms__copying *c, ms_error *err)
{
    ms_stat stat;
    ms_result code = ms__stat_try(c->source, &stat, err);
    bool known = code == MS_OK;
    if (!known && code != MS_E_UNSUPPORTED) return code;
    c->report->dropped = stat.hidden;
    c->changed = c->source->backend->change != NULL;
    if (known) c->changed = stat.changes != 0 || (c->changed && stat.damaged != 0);
    c->mark = stat.as_of;
    c->beyond = known ? stat.last_seq + 1 : UINT64_MAX;
    MS__TRY(ms__kept_choose(c, err));
    c->phase = MS__COPY_MESSAGES;
    if (c->live && c->mark == 0) c->phase = MS__COPY_SINCE; /* empty */
    return MS_OK;
}

/* Copies the facts of the next name. *end: it was the last one. */
static ms_result ms__copy_next_facts(ms__copying *c, bool *end, ms_error *err)
{
    size_t i = c->name++;
    if (i == 0) ms__sort(c->names, c->n_names, sizeof *c->names, ms__text_less);
    *end = i >= c->n_names;
    if (*end || (i > 0 && ms_str_equal(c->names[i], c->names[i - 1]))) return MS_OK;
    return ms__copy_facts(c, c->names[i], err);
}

/* Copies records after the mark. *end: the goal is reached. */
static ms_result ms__copy_on(ms__copying *c, size_t n, bool *end, ms_error *err)
{
    bool all;
    *end = !MS__LOG || !c->live || c->mark >= c->goal;
    if (*end) return MS_OK;
    if (!c->reading) c->upto = c->goal;
    unsigned raw = MS__CHANGES ? (unsigned)MS_RAW_ALL : 0;
    MS__TRY(ms__copy_each(c, raw, ms__copy_since, n, &all, err));
    if (!all) return MS_OK;
    c->mark = c->upto;
    return ms__copy_batch(c, err); /* if any: its end is damaged */
}

static ms_result ms__copy_phase(ms__copying *c, size_t n, bool *end, ms_error *err)
{
    bool done = false;
    unsigned raw = MS_RAW_NOTES | MS_RAW_LOCATIONS;
    *end = false;
    switch (c->phase) {
    case MS__COPY_LIST: return ms__copy_list(c, err);
    case MS__COPY_MESSAGES:
        MS__TRY(ms__copy_messages(c, n, &done, err));
        break;
    case MS__COPY_CHANGES:
        done = !c->changed;
        if (!done) MS__TRY(ms__copy_each(c, raw, ms__copy_change, n, &done, err));
        break;
    case MS__COPY_FACTS: MS__TRY(ms__copy_next_facts(c, &done, err)); break;
    default: return ms__copy_on(c, n, end, err);
    }
    if (done) c->phase++;
    return MS_OK;
}

/* Copies about n records. *end: the copy is complete. */
static ms_result ms__copy_step(ms__copying *c, size_t n, bool *end, ms_error *err)
{
    ms_result code = ms__copy_phase(c, n, end, &c->error);
    if (code != MS_OK && err) *err = c->error;
    return code;
}

/* Ends a copy after the last step. */
static ms_result ms__copy_end(ms__copying *c, ms_error *err)
{
    MS__TRY(ms__copy_numbers(c, err));
    if (c->report->damaged == 0) return MS_OK;
    return ms__fail(err, MS_E_DAMAGED, "%u records are damaged, or no store takes them",
                    c->report->damaged);
}

static void ms__copy_begin(ms__copying *c, ms_store *destination, ms_store *source,
                           const ms_keep *keep, ms_copy_report *report, ms_arena *arena)
{
    memset(c, 0, sizeof *c);
    memset(report, 0, sizeof *report);
    c->destination = destination;
    c->source = source;
    c->keep = keep;
    c->report = report;
    c->arena = arena;
}

MS_API ms_result ms_copy(ms_store *destination, ms_store *source, const ms_keep *keep,
                         ms_arena *arena, ms_copy_report *report, ms_error *err)
{
    ms_keep all;
    ms_copy_report unseen;
    ms_arena own;
    ms__copying c;
    bool end = false;
    ms_result code = MS_OK;
    memset(&all, 0, sizeof all);
    memset(&own, 0, sizeof own);
    ms__copy_begin(&c, destination, source, keep ? keep : &all,
                   report ? report : &unseen, arena ? arena : &own);
    MS__TRY(ms__open_check(source, err));
    if (!c.keep->dry_run) MS__TRY(ms__open_check(destination, err));
    if (destination == source)
        return ms__fail(err, MS_E_ARGUMENT, "a store is not copied to itself");
    while (code == MS_OK && !end) code = ms__copy_step(&c, SIZE_MAX, &end, err);
    if (code == MS_OK) code = ms__copy_end(&c, err);
    ms_arena_deinit(&own);
    return code;
}
