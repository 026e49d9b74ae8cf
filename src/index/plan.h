
/* ==== [plan] what an append or a change enters =======================================
 * Edits; and the plan of one message or change: the names and posting lists in which it
 * is entered. Their memory is reserved first and filled later, see [names].
 * ================================================================================== */

/* ---- Edits: AMEND and HIDE. A reader ignores edits from its end on. An edit changes
 * nothing in place, so an open cursor goes on with the messages of its opening. A HIDE of
 * up to MS__LEAP + 1 numbers is entered at each of them, as an AMEND is. Wider ones are
 * ranges. A lookup checks these from the newest back, and jumps over series of them that
 * lie elsewhere. In a series that the reader sees whole it searches the ranges by their
 * numbers: some log(ranges)^2 steps. In a buffer, and in code compiled for size, series
 * are not sorted: ranges of random numbers are checked one by one there, those made in an
 * order, up or down, nested or not, are jumped over. A walk over messages skips a range
 * at once. */

#define MS__LEAP 15u /* a range has more numbers than MS__LEAP + 1 */

static uint64_t ms__seq_hash(uint64_t seq)
{
    return seq * 0x9E3779B97F4A7C15u;
}

static ms__changed *ms__changed_find(const ms__edits *c, uint64_t seq)
{
    ms__changed *m;
    uint64_t hash = ms__seq_hash(seq);
    ms__path p = ms__trie((void **)(uintptr_t)&c->changed, hash);
    while ((m = (ms__changed *)(void *)ms__trie_next(&p, hash)) != NULL)
        if (m->seq == seq) return m;
    return NULL;
}

/* Returns range i of a series in order of first numbers; its own range, if unsorted. */
static const ms__range *ms__range_sorted(const ms__range *range, uint32_t i)
{
    return range->n_sorted ? ((const ms__range *const *)(const void *)(range + 1))[i]
                           : range;
}

/* Sorts, into the room after the struct, the series of a range: itself and the next two
 * series. Leaves out ranges within another one, so that the last numbers rise, too. */
static void ms__ranges_join(ms__range *range)
{
    const ms__range **out = (const ms__range **)(void *)(range + 1), *from[3];
    uint32_t at[3] = {0, 0, 0}, n = 0, which = 0;
    range->n_sorted = 0;
    from[0] = range;
    from[1] = range->before;
    from[2] = range->before->jump;
    for (;;) {
        const ms__range *least = NULL, *r;
        for (unsigned i = 0; i < 3; i++) {
            if (at[i] >= from[i]->n_sorted + !from[i]->n_sorted) continue;
            r = ms__range_sorted(from[i], at[i]);
            if (least && (r->first > least->first ||
                          (r->first == least->first && r->last <= least->last)))
                continue;
            least = r;
            which = i;
        }
        if (!least) break;
        at[which]++;
        if (n == 0 || least->last > out[n - 1]->last) out[n++] = least;
    }
    range->n_sorted = n;
}

/* Returns the range of a sorted series that hides a number, or NULL. */
static const ms__range *ms__range_find(const ms__range *range, uint64_t seq)
{
    uint32_t low = 0, high = range->n_sorted;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ms__range_sorted(range, middle)->first <= seq) low = middle + 1;
        else high = middle;
    }
    const ms__range *r = low > 0 ? ms__range_sorted(range, low - 1) : NULL;
    return r && seq <= r->last ? r : NULL;
}

/* Returns the range that hides message number seq from a reader whose end is `end`; NULL:
 * none does. */
static const ms__range *ms__hidden_by(const ms__edits *c, uint64_t seq, uint64_t end)
{
    const ms__range *range = (const ms__range *)ms__load_ptr(&c->ranges);
    while (range) {
        if (!MS__SMALL && range->n_sorted && range->place < end) {
            const ms__range *found = ms__range_find(range, seq);
            if (found) return found;
            range = range->jump;
            continue;
        }
        if (range->place < end && range->first <= seq && seq <= range->last) return range;
        bool all_later = range->jump && range->jump->place >= end;
        range = all_later || seq < range->low || seq > range->high ? range->jump
                                                                   : range->before;
    }
    return NULL;
}

/* Returns the record with the content of message number seq, whose own record is r, for a
 * reader whose end is `end`. Sets *place (of r) to its place. NULL: the message is
 * hidden. */
static const unsigned char *ms__shown(const ms__edits *c, const unsigned char *r,
                                      uint64_t seq, uint64_t end, uint64_t *place)
{
    if (ms__hidden_by(c, seq, end)) return NULL;
    const ms__changed *m = ms__changed_find(c, seq);
    const ms__version *v = m ? (const ms__version *)ms__load_ptr(&m->newest) : NULL;
    while (v && v->place >= end) v = v->before;
    if (!v) return r;
    *place = v->place;
    return v->record;
}

/* The messages that an AMEND or HIDE changes, by number. */
typedef struct ms__span {
    uint64_t first, last;
    uint64_t hidden; /* number of visible messages that a HIDE hides */
} ms__span;

/* Reads the span of an edit. False: the record is not an edit, or cannot be read. */
static bool ms__edit_span(const unsigned char *r, ms__span *span)
{
    const ms_msg *msg = ms__msg(r);
    span->first = span->last = ms_seq(msg);
    span->hidden = 0;
    if (r[4] != MS__KIND_HIDE) return r[4] == MS__KIND_AMEND;
    if (ms__hide_read(msg, &span->first, &span->last, &span->hidden)) return true;
    memset(span, 0, sizeof *span);
    return false;
}

/* Returns whether a change hides a range. In a buffer each HIDE of several messages does,
 * as that takes less room. */
static bool ms__is_range(const ms__tail_names *names, const ms__span *span)
{
    return span->last - span->first > (names->buffer ? 0 : MS__LEAP);
}

/* Returns the `reach` that ms__range_link will give the next range. */
static uint32_t ms__range_reach(const ms__edits *c)
{
    const ms__range *before = (const ms__range *)c->ranges;
    const ms__range *next = before ? before->jump : NULL;
    return next && before->reach == next->reach ? 2 * next->reach + 1 : 1;
}

/* Returns the memory of one edit, which is allocated before its record is written: of a
 * range with its sorted series, or of a version for each number, and then a message for
 * each number that was not changed before. NULL: no memory. */
static void *ms__edit_reserve(ms__tail_names *names, const ms__edits *c,
                              const ms__span *span)
{
    size_t size = sizeof(ms__range), sorted = 0;
    uint64_t more = span->last - span->first;
    if (!MS__SMALL && !names->buffer) sorted = ms__range_reach(c);
    if (!ms__is_range(names, span))
        for (size = sorted = 0; more <= MS__LEAP; more--) { /* until it wraps round */
            size += sizeof(ms__version);
            if (!ms__changed_find(c, span->first + more)) size += sizeof(ms__changed);
        }
    if (sorted > 1) size += sorted * sizeof(ms__range *);
    void *room = ms__tail_names_zeroed(names, size);
    if (room && sorted > 1) ((ms__range *)room)->n_sorted = 1; /* there is room */
    return room;
}

/* Links a range into the list. If the next two jumps have one length, its jump spans both
 * of them. So any older range is about 2 log(ranges) steps away. */
static void ms__range_link(ms__edits *c, ms__range *range, const ms__span *span,
                           uint64_t place)
{
    ms__range *before = (ms__range *)c->ranges;
    const ms__range *next = before ? before->jump : NULL;
    range->place = place;
    range->before = range->jump = before;
    range->reach = 1;
    range->low = range->first = span->first;
    range->high = range->last = span->last;
    if (next && before->reach == next->reach) {
        range->reach += 2 * next->reach;
        range->jump = next->jump;
        for (const ms__range *r = before;; r = next) {
            if (r->low < range->low) range->low = r->low;
            if (r->high > range->high) range->high = r->high;
            if (r == next) break;
        }
        if (!MS__SMALL && range->n_sorted > 0) ms__ranges_join(range);
    }
    ms__store_ptr(&c->ranges, range);
}

/* Links the edit of a record, which is valid from its place on. */
static void ms__edit_link(const ms__tail_names *names, ms__edits *c, const ms__span *span,
                          void *room, uint64_t place, const unsigned char *r)
{
    uint64_t more = span->last - span->first;
    ms__version *v = (ms__version *)room;
    ms__changed *fresh = (ms__changed *)(void *)(v + more + 1);
    c->hidden += span->hidden;
    if (ms__is_range(names, span)) ms__range_link(c, (ms__range *)room, span, place);
    else
        for (; more <= MS__LEAP; more--, v++) {
            ms__changed *m = ms__changed_find(c, span->first + more);
            if (!m) {
                m = fresh++;
                m->seq = span->first + more;
                m->node.hash = ms__seq_hash(m->seq);
                ms__trie_link(&c->changed, &m->node);
            }
            v->before = (ms__version *)m->newest;
            v->place = place;
            if (r[4] == MS__KIND_AMEND && (!v->before || v->before->record))
                v->record = r; /* else hidden */
            ms__store_ptr(&m->newest, v);
        }
}

/* Adds the edit of a record at a place. False: no memory. */
static bool ms__edit_add(ms__tail_names *names, ms__edits *c, const ms__span *span,
                         uint64_t place, const unsigned char *r)
{
    void *edit = ms__edit_reserve(names, c, span);
    if (edit) ms__edit_link(names, c, span, edit, place, r);
    return edit != NULL;
}

#define MS__HIDE_TEXT 96

static ms_value ms__hide_text(char out[MS__HIDE_TEXT], const ms__span *span)
{
    static const char *const names[] = {"{\"first\":", ",\"last\":", ",\"messages\":"};
    const uint64_t numbers[] = {span->first, span->last, span->hidden};
    size_t n = 0;
    for (unsigned i = 0; i < 3; i++) {
        size_t len = strlen(names[i]);
        memcpy(out + n, names[i], len);
        n += len;
        n += ms__u64_write(numbers[i], out + n);
    }
    out[n++] = '}';
    return ms_json(ms_str_n(out, n));
}

/* Notes the number of a message that a change refers to. The message's own record may be
 * damaged, but no other message may get the number. */
static void ms__gap_named(uint64_t *gap_seq, uint64_t last_seq, uint64_t named)
{
    if (named > last_seq && named > *gap_seq && named != UINT64_MAX) *gap_seq = named;
}

/* The one change that an append may have, its last record. */
typedef struct ms__change_run {
    unsigned kind; /* 0: none */
    ms__loc *loc;
    ms__edits *fresh; /* new edits of its location, or NULL */
    void *edit;           /* its memory */
    ms__edits *edits;     /* the edits that the edit changes */
    ms__span span;        /* of AMEND and HIDE */
    ms__arena_mark mark; /* log: where the memory of edits stood, when `edits` is set */
    char text[MS__HIDE_TEXT];
} ms__change_run;

/* Checks whether a change is allowed. own: the record of the message that it changes, or
 * NULL; shown: the record with its present content, NULL if it is hidden. */
static ms_result ms__change_check(const ms_record *change, ms_str location,
                                  const unsigned char *own, const unsigned char *shown,
                                  ms_error *err)
{
    const ms_envelope *e = &change->envelope;
    unsigned kind = (unsigned)change->kind;
    if (kind == MS__KIND_LOCATION) return MS_OK;
    if (!own) return ms__fail(err, MS_E_NOT_FOUND, "no message %u", e->seq);
    if (!ms_str_equal(ms__location(ms__msg(own)), location))
        return ms__fail_at(err, MS_E_ARGUMENT, "location",
                           "message %u is of location '%v', not of '%v'", e->seq,
                           MS__V(ms__location(ms__msg(own))), MS__V(location));
    if (!shown) return ms__fail(err, MS_E_HIDDEN, "message %u is hidden", e->seq);
    uint32_t flags = ms_flags(ms__msg(shown));
    if ((kind == MS__KIND_PART || change->must_be_open) &&
        !ms__is_streaming(ms__msg(shown)))
        return ms__fail(err, MS_E_CLOSED, "message %u is not an open stream", e->seq);
    if (kind != MS__KIND_AMEND) return MS_OK;
    if (own[5] != (unsigned)e->type)
        return ms__fail_at(err, MS_E_TYPE, "type", "message %u is of type %s, not %s",
                           e->seq, ms_type_word((ms_type)own[5]), ms_type_word(e->type));
    if ((flags & MS_FLAG_REDACTED) && !(e->flags & MS_FLAG_REDACTED))
        return ms__fail(err, MS_E_CONFLICT,
                        "message %u is redacted: it cannot be amended", e->seq);
    return MS_OK;
}

/* ---- Appending. */

/* The needs of one record of an append, found before anything is changed. */
typedef struct ms__plan {
    ms__postings *lists[4]; /* posting lists that get an entry */
    uint64_t repeats;       /* number of the message with the same key */
    uint32_t entry;         /* of its record */
    uint8_t n_lists;
    bool repeat;            /* nothing is written */
} ms__plan;

static void ms__plan_begin(ms__plan *p)
{
    p->repeats = 0;
    p->n_lists = 0;
    p->repeat = false;
}

/* Finds the lists of a message. Prefetches where its entries will be written: the record
 * is made before. */
static void ms__plan_lists(ms__tail_names *names, ms__plan *p, ms__loc *loc,
                           ms__agent *agent, ms_type type)
{
    uint8_t n = 0;
    unsigned by_class = ms__type_row_of(type)->view_class;
    p->lists[n++] = &names->all;
    p->lists[n++] = &loc->all;
    if (by_class == MS__CLASS_CONVERSATION) p->lists[n++] = &loc->conversation;
    if (by_class == MS__CLASS_GLOBAL) p->lists[n++] = &loc->global;
    if (agent) p->lists[n++] = by_class == MS__CLASS_TRACE ? &agent->trace : &agent->rest;
    p->n_lists = n;
    for (unsigned i = 0; i < n; i++)
        if (p->lists[i]->tail) MS__PREFETCH(ms__postings_next(p->lists[i]));
}

static bool ms__plan_reserve(ms__tail_names *names, const ms__plan *p)
{
    for (unsigned i = 0; i < p->n_lists; i++)
        if (!ms__postings_reserve(names, p->lists[i])) return false;
    return true;
}

static void ms__plan_enter(const ms__plan *p)
{
    for (unsigned i = 0; i < p->n_lists; i++) ms__postings_push(p->lists[i], p->entry);
}

/* Finds the lists of a change, and makes room in them. *fresh: see ms__change_run. False:
 * no memory. */
static bool ms__change_reserve(ms__tail_names *names, ms__loc *loc, unsigned kind,
                               uint64_t seq, ms__plan *p, ms__edits **fresh)
{
    ms__stream *stream = NULL;
    ms__edits *c = (ms__edits *)loc->edits;
    *fresh = NULL;
    if (kind == MS__KIND_PART) stream = ms__stream_get(names, loc, seq, true);
    else if (!c) c = *fresh = (ms__edits *)ms__tail_names_zeroed(names, sizeof *c);
    if (kind == MS__KIND_PART ? !stream : !c) return false;
    bool edit = kind == MS__KIND_AMEND || kind == MS__KIND_HIDE;
    p->lists[0] = &names->others;
    p->lists[1] = stream ? &stream->parts : edit ? &c->changes : &c->facts;
    p->n_lists = 2;
    return ms__plan_reserve(names, p);
}

static void ms__change_enter(ms__tail_names *names, ms__loc *loc, const ms__plan *p,
                             ms__edits *fresh)
{
    ms__plan_enter(p);
    if (fresh) ms__store_ptr(&loc->edits, fresh);
    names->changes++;
}

/* The use of memory before an append. */
typedef struct ms__mark {
    size_t top;
    ms__arena_mark nodes;
    uint64_t index_bytes;
} ms__mark;

static ms__mark ms__tail_names_mark(const ms__tail_names *names)
{
    ms__mark mark;
    mark.top = names->top;
    mark.nodes = ms__arena_mark_of(&names->nodes);
    mark.index_bytes = names->index_bytes;
    return mark;
}

/* Undoes all that a failed append has made. */
static void ms__plans_undo(ms__tail_names *names, const ms__plan *plans, size_t n,
                           const ms__mark *mark)
{
    for (size_t i = 0; i < n; i++)
        for (unsigned k = 0; k < plans[i].n_lists; k++)
            ms__postings_undo(plans[i].lists[k]);
    memset(&names->fresh, 0, sizeof names->fresh);
    if (!names->buffer) ms__arena_rewind(&names->nodes, &mark->nodes);
    names->top = mark->top;
    names->index_bytes = mark->index_bytes;
}

/* Returns whether a text, after repair, equals the stored text. */
static bool ms__same_text(ms_str text, ms_str stored, bool repaired)
{
    size_t n = 0;
    if (!repaired) return ms__same_name(text, stored);
    for (size_t i = 0; i < text.len;) {
        unsigned bad,
            len = ms__utf8_char((const unsigned char *)text.ptr + i, text.len - i, &bad);
        const char *piece = len ? text.ptr + i : "\xEF\xBF\xBD";
        size_t size = len ? len : 3;
        if (size > stored.len - n || memcmp(piece, stored.ptr + n, size) != 0)
            return false;
        n += size;
        i += len ? len : bad;
    }
    return n == stored.len;
}

/* Returns whether an envelope equals the message of a record, apart from time, sequence
 * number and flags. */
static bool ms__same_message(const unsigned char *r, const ms_envelope *e,
                             const ms__layout *l)
{
    ms__field_iter w = ms__field_iter_of(r);
    ms__entry at;
    if (ms__get32(r) != l->size || r[5] != (unsigned)e->type ||
        (r[6] & 15) != (unsigned)e->role)
        return false;
    for (unsigned i = 0; i < l->n_parts; i++) {
        const ms__part *part = &l->parts[i];
        if (!ms__field_iter_next(&w, &at) || at.field != (part->tag & 31) ||
            at.json != ((part->tag & MS__TAG_JSON) != 0) ||
            !ms__same_text(part->text, at.text, ms__is_repaired(l, part)))
            return false;
    }
    return !ms__field_iter_next(&w, &at);
}

#define MS__PLANS_SMALL 8 /* up to so many need no allocation */

/* Begins a run. stamp: messages without a time get one. last: the number of the last
 * message. Numbers up to gap are not assigned again; a copy has its own, in order. */
static void ms__run_begin(ms__append_run *run, const ms_clock *clock, bool stamp,
                          uint64_t last, uint64_t gap)
{
    uint64_t largest = last < gap && !run->opts->keep_seq ? gap : last;
    run->now = MS_TIME_NONE;
    run->stamp = stamp && !run->opts->keep_seq;
    run->seq = largest == UINT64_MAX ? largest : largest + 1; /* never assigned */
    bool change = ms__run_change(run, run->n - 1) != NULL;
    for (size_t i = 0; (run->stamp || change) && i < run->n; i++) {
        if (ms__run_envelope(run, i)->has_time) continue;
        run->now = clock->now(clock->ctx);
        return;
    }
}

/* Measures the record of a message, in *room, unless it was measured before. */
static ms_result ms__run_measure(const ms__append_run *run, const ms_envelope *e,
                                 ms_str location, ms__layout *room, const ms__layout **l,
                                 ms_error *err)
{
    *l = run->layout; /* its first part is the location */
    const ms_str *of = *l ? &(*l)->parts[0].text : NULL;
    if (of && of->ptr == location.ptr && of->len == location.len) return MS_OK;
    *l = room;
    return ms__layout_of(e, location, run->utf8 ? MS__VALID : MS__CHECKED, room, err);
}

/* Encodes message i at r, with its sequence number, time and flags. */
static ms_result ms__run_encode(ms__append_run *run, size_t i, const ms__layout *l,
                                unsigned char *r, ms_error *err)
{
    const ms_envelope *e = ms__run_envelope(run, i);
    uint64_t seq = run->seq;
    int64_t time = ms__time_of(e);
    bool given = run->opts->keep_seq || run->records;
    uint32_t flags = e->flags & (given ? MS__COPY_FLAGS : MS__CALLER_FLAGS);
    if (run->opts->keep_seq) {
        if (e->seq < seq || e->seq == UINT64_MAX)
            return ms__range_fail(err, MS_E_ARGUMENT, "seq", e->seq, seq, UINT64_MAX - 1);
        seq = e->seq;
    } else if (seq == UINT64_MAX) {
        return ms__fail(err, MS_E_FULL, "all sequence numbers are used");
    } else if (!e->has_time && run->stamp && run->now != MS_TIME_NONE &&
               !(run->records && run->records[i].keep_unset_time)) {
        time = run->now;
        flags |= MS_FLAG_STAMPED;
    }
    ms__encode_header(e, MS__KIND_MESSAGE, l, seq, time, flags, r);
    ms__encode_body(l, r + MS__HEADER);
    run->seq = seq + 1;
    return MS_OK;
}

/* Plans a message whose key the message in r already has: it repeats that one, or is
 * refused. */
static ms_result ms__plan_repeat(ms__plan *p, const ms_envelope *e, const ms__layout *l,
                                 const unsigned char *r, ms_error *err)
{
    p->repeat = ms__same_message(r, e, l);
    p->repeats = ms_seq(ms__msg(r));
    if (p->repeat) return MS_OK;
    return ms__fail_at(err, MS_E_KEY_REUSED, "key",
                       "key '%v' belongs to message %u, which differs",
                       MS__V(e->key), p->repeats);
}

/* Enters a message into its posting lists and the counts. */
static void ms__tail_names_enter(ms__tail_names *names, const ms__plan *p,
                                 const unsigned char *r)
{
    const ms_msg *msg = ms__msg(r);
    ms__plan_enter(p);
    names->messages++;
    if (names->last_seq < ms_seq(msg)) names->last_seq = ms_seq(msg);
    names->bytes += ms_size(msg);
    ms__recent_make(names);
}

/* Encodes a record of kind GAP, unsealed: numbers up to seq are not assigned again.
 * Returns its size. Like every record it has a location. */
#define MS__GAP_MAX (MS__HEADER + 16)

static uint32_t ms__gap_encode(uint64_t seq, unsigned char *r)
{
    ms__part parts[MS_FIELD_COUNT];
    ms__layout l;
    ms_envelope e;
    memset(&e, 0, sizeof e);
    l.parts = parts;
    (void)ms__layout_of(&e, MS_STR("-"), MS__VALID, &l, NULL);
    ms__encode_header(&e, MS__KIND_GAP, &l, seq, MS_TIME_NONE, MS_FLAG_COMMIT, r);
    ms__encode_body(&l, r + MS__HEADER);
    return ms__padded(l.size);
}
