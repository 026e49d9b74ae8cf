
/* ==== [log-cursor] cursors over sealed segments ========================================
 * Here an iterator (ms__list_iter of [merge]) stands on a sealed segment. Its run is the
 * posting list in the segment's index, or for a query over the whole store, all records
 * of the segment. A list of messages skips a segment outside of the query's times.
 * ================================================================================== */

/* Returns the segment's entry at position i of an iterator. */
static uint32_t ms__run_entry(const ms__list_iter *li, uint32_t i)
{
    if (!li->run) return ms__segment_entry(li->index, i);
    return ms__posting((const unsigned char *)li->run, i, li->index->width);
}

static uint32_t ms__log_below(const ms__list_iter *li, uint32_t unit)
{
    const ms__segment *l = li->index;
    uint32_t low = 0, high = li->hi;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2, entry = ms__run_entry(li, middle);
        if (ms__segment_place(l, entry) < unit) low = middle + 1;
        else high = middle;
    }
    return low;
}

#define MS__PLACES_SOON 16u /* entries */

/* Prefetches the place of entry i of a run. */
static void ms__place_soon(const ms__list_iter *li, uint32_t i)
{
    MS__PREFETCH(li->index->record + (size_t)ms__run_entry(li, i) * 4);
}

/* Prefetches the places of the first entries of a run. */
static void ms__places_soon(const ms__reading *s, const ms__list_iter *li)
{
    uint32_t n = li->hi - li->lo;
    if (n > MS__PLACES_SOON) n = MS__PLACES_SOON;
    for (uint32_t k = 0; k < n; k++)
        ms__place_soon(li, s->backward ? li->hi - 1 - k : li->lo + k);
}

/* Moves an iterator to the entries of its list in a segment, within the query's bounds.
 * False: there are none. */
static bool ms__log_run(const ms__reading *s, ms__list_iter *li, const ms__run *run)
{
    const ms__segment *l = run->index;
    bool listed = li->list > MS__LIST_OTHERS;
    li->index = l;
    li->agent &= ~(MS__FOR_COMPARE | MS__FOR_DOUBT);
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
    /* the number of a list has 61 bits: the names may be others */
    li->agent |= !listed || run->mixed ? MS__FOR_COMPARE : MS__FOR_DOUBT;
    size_t limit = s->query->limit; /* of the newest few most are in the cache */
    if (li->run && (limit == 0 || limit > MS__KEPT)) ms__places_soon(s, li);
    return true;
}

/* Returns how many segments begin before a place. */
static uint32_t ms__segments_to(uint64_t place)
{
    return (uint32_t)(place >> 32) + ((uint32_t)place > 0 ? 1 : 0);
}

/* Returns the next sealed segment that an iterator reads forward, of those with places of
 * the query. MS__NO_SEGMENT: no other one. */
static uint32_t ms__log_forward(ms__log *log, ms__reading *s, const ms__list_iter *li,
                                ms__run *run)
{
    uint32_t n = ms__segments_to(s->to);
    if (n > s->tail->segment) n = s->tail->segment;
    if (li->list > MS__LIST_OTHERS)
        return ms__segment_after(log, li->list, li->from, n, s->locked, run, &s->result);
    return li->from < n ? li->from : MS__NO_SEGMENT;
}

/* The same, backward. */
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

/* ---- Runs that are needed soon. To reach the first record of a run takes five cache
 * misses, each by the bytes of the one before: bucket, list, postings, place, record. In
 * segments of 8 MiB one of 1,000 conversations has 3 messages a run, and an agent one, so
 * these misses were most of the time of a view. Here they are taken for the next segments
 * together, and those of each of the five steps overlap. A message of a conversation
 * takes 200 ns, and 355 without that; one of a team of 8 agents 400 and 990; one of the
 * global messages 320 and 780 (1,000,000 messages in 1,000 locations; `make bench` has
 * these views).
 *
 * Only what was found valid before is read here: the page of anything else may be a bad
 * block. The numbers of the lists that were found are kept in the reading (`runs`), up to
 * the first segment of which not all is known: ms__run_found then looks for no list
 * again. It checks that the segment's list is the iterator's, and the run, as a lookup
 * does: an index may have been replaced since by one that was made in memory. */

#define MS__PLACES_EACH 4u /* records of a run */
#define MS__LIST_BITS   27u /* of the number of a list in its segment (an index of 256 MiB
                               has fewer); above it the segment's number in its group */

/* The state of a segment that is looked at. */
typedef enum ms__soon_state {
    MS__SOON_UNKNOWN, /* not all was found valid, or records are lost */
    MS__SOON_ABSENT,  /* it has no such list */
    MS__SOON_THERE
} ms__soon_state;

typedef struct ms__run_soon {
    const ms__segment *index;
    const unsigned char *at; /* what the next step reads; NULL: nothing */
    uint32_t n;              /* elements there */
    uint32_t list;           /* number of the list, if the state is THERE */
    ms__soon_state state;
} ms__run_soon;

static MS__NOINLINE bool ms__blocks_were_sound(const ms__segment *l,
                                               const unsigned char *p, size_t n)
{
    size_t at = (size_t)(p - l->numbers);
    uint32_t b = (uint32_t)(at / MS__BLOCK), last = (uint32_t)((at + n - 1) / MS__BLOCK);
    while (b < last && ms__bit_get(l->sound, b)) b++;
    return b == last && ms__bit_get(l->sound, b);
}

/* Returns whether all blocks of n bytes of a segment index were found valid. */
static inline bool ms__was_sound(const ms__segment *l, const unsigned char *p, size_t n)
{
    return ms__load32(&l->whole) || ms__blocks_were_sound(l, p, n);
}

/* Moves on to n bytes of the index, if they were found valid. */
static inline void ms__run_soon_to(ms__run_soon *r, const unsigned char *at, uint32_t n,
                                   size_t size)
{
    r->n = n;
    r->at = n > 0 && ms__was_sound(r->index, at, n * size) ? at : NULL;
    if (r->at) MS__PREFETCH(at);
}

/* From a bucket to the numbers of the lists in it. */
static inline void ms__run_soon_bucket(ms__run_soon *r)
{
    const ms__segment *l = r->index;
    uint32_t i = ms__get32(r->at), end = ms__get32(r->at + 4);
    bool fits = i <= end && end <= l->lists;
    if (fits && i == end && ms__segment_lost(l) == 0) r->state = MS__SOON_ABSENT;
    if (!fits) i = end = 0;
    MS__PREFETCH(l->begin + (size_t)i * 4);
    ms__run_soon_to(r, l->numbers + (size_t)i * 8, end - i, 8);
}

/* From there to the postings of a list. */
static inline void ms__run_soon_list(ms__run_soon *r, uint64_t list)
{
    const ms__segment *l = r->index;
    uint32_t i = (uint32_t)((size_t)(r->at - l->numbers) / 8), end = i + r->n;
    while (i < end && ms__segment_list(l, i) != list) i++;
    const unsigned char *p = l->begin + (size_t)i * 4;
    if (ms__segment_lost(l) == 0) r->state = i == end ? MS__SOON_ABSENT : MS__SOON_THERE;
    r->list = i;
    if (i == end || !ms__was_sound(l, p, 8)) i = end;
    uint32_t from = i < end ? ms__get32(p) & ~MS__MIXED : 0;
    uint32_t to = i < end ? ms__get32(p + 4) & ~MS__MIXED : 0;
    if (from > to || to > l->postings) from = to = 0;
    ms__run_soon_to(r, l->posting + (size_t)from * l->width, to - from, l->width);
}

/* From there to the places of the run's first records. */
static inline void ms__run_soon_places(ms__run_soon *r, bool backward)
{
    const ms__segment *l = r->index;
    bool placed = ms__load32(&l->placed) != 0;
    if (!placed && !l->clustered) r->at = NULL;
    for (uint32_t k = 0; r->at && k < r->n && k < MS__PLACES_EACH; k++) {
        uint32_t entry = ms__posting(r->at, backward ? r->n - 1 - k : k, l->width);
        const unsigned char *place = l->record + (size_t)entry * 4;
        if (entry >= l->n) continue;
        if (!placed && !ms__was_sound(l, place, 4)) r->at = NULL;
        else MS__PREFETCH(place);
    }
}

/* From there to these records. */
static inline void ms__run_soon_records(const ms__log *log, const ms__run_soon *r,
                                        bool backward)
{
    const ms__segment *l = r->index;
    for (uint32_t k = 0; k < r->n && k < MS__PLACES_EACH; k++) {
        uint32_t entry = ms__posting(r->at, backward ? r->n - 1 - k : k, l->width);
        uint64_t offset = ms__segment_offset(l, entry);
        if (offset == 0) continue;
        const unsigned char *at = l->home ? l->home + (offset - l->base)
                                          : ms__log_address(log, offset);
        MS__PREFETCH(at);
    }
}

/* Collects at most so many segments of one group that may have a list and are read
 * next. */
static uint32_t ms__runs_wanted(ms__log *log, const ms__reading *s, ms__list_iter *li,
                                ms__run_soon *soon, uint32_t most)
{
    uint32_t first = (uint32_t)(s->from >> 32), end = ms__segments_to(s->to), n = 0;
    if (end > s->tail->segment) end = s->tail->segment;
    uint32_t at = !s->backward ? li->from : (li->from < end ? li->from : end) - 1;
    uint32_t g = at / MS__FAN;
    uint32_t mask = ms__group_find(log, g, li->list, s->locked);
    for (; at >= first && at < end && at / MS__FAN == g && n < most;
         at = s->backward ? at - 1 : at + 1) {
        if (!(mask >> at % MS__FAN & 1)) continue;
        void *node = ms__load_ptr(&ms__node_entry(&log->index.segments, at)->node);
        const ms__segment *l = soon[n].index = (const ms__segment *)node;
        uint32_t b = l && l->bits ? (uint32_t)(li->list >> (64 - l->bits)) : 0;
        soon[n].state = MS__SOON_UNKNOWN;
        soon[n].at = NULL;
        if (l) ms__run_soon_to(&soon[n], l->bucket + (size_t)b * 4, 1, 8);
        n++;
    }
    li->soon = s->backward ? at + 2 : at;
    li->group = g;
    return n;
}

/* Keeps the runs that were found, up to the first segment in the state UNKNOWN. The last
 * word, li->soon, shows later that they are of this call. */
static void ms__runs_keep(const ms__reading *s, ms__list_iter *li,
                          const ms__run_soon *soon, uint32_t n)
{
    ms__list_iter_forget(li);
    if (!s->runs || li->number >= MS__RUNS_LISTS) return;
    uint32_t *kept = s->runs + li->number * MS__RUNS_ROOM, i = 0;
    for (; i < n && soon[i].state != MS__SOON_UNKNOWN; i++) {
        const ms__run_soon *r = &soon[i];
        if (r->state == MS__SOON_ABSENT) continue;
        kept[li->n_found++] = r->index->number % MS__FAN << MS__LIST_BITS | r->list;
    }
    li->all_found = i == n;
    kept[MS__RUNS_SOON] = li->soon;
}

/* Returns the next run of an iterator, if it was found beforehand, and its segment;
 * MS__NO_SEGMENT: it has to be looked up. Leaves out segments that the iterator has
 * skipped since. */
static uint32_t ms__run_found(ms__log *log, const ms__reading *s, ms__list_iter *li,
                              ms__run *run)
{
    if (!s->runs || li->number >= MS__RUNS_LISTS) return MS__NO_SEGMENT;
    const uint32_t *kept = s->runs + li->number * MS__RUNS_ROOM;
    const ms__segment *l = NULL;
    uint32_t list = 0, segment = 0;
    while (!l && li->found < li->n_found && kept[MS__RUNS_SOON] == li->soon) {
        list = kept[li->found++];
        segment = li->group * MS__FAN + (list >> MS__LIST_BITS);
        list &= ((uint32_t)1 << MS__LIST_BITS) - 1;
        if (s->backward ? segment >= li->from : segment < li->from) continue;
        l = ms__segment_of(log, segment, s->locked);
        if (!l) break;
    }
    if (l && list < l->lists && ms__segment_list(l, list) == li->list &&
        ms__segment_run(log, l, list, run) && run->n > 0)
        return segment;
    ms__list_iter_forget(li);
    return MS__NO_SEGMENT;
}

#define MS__RUNS_FEW 4u /* so few are read faster without: the newest 20 in 0.93 of the
                           time */

/* Returns how many runs a query needs soon, if all are as long as the last one. The
 * newest 20, mostly of one run or two, took twice as long with all of them. */
static uint32_t ms__runs_due(const ms__reading *s, const ms__list_iter *li)
{
    size_t limit = s->query->limit, last = li->hi - li->lo;
    if (limit == 0 || limit / MS__RUNS_SOON >= last) return MS__RUNS_SOON;
    return (uint32_t)(limit / last + 1);
}

/* Leaves out the segments that were looked at, if all their runs were read. */
static void ms__runs_pass(const ms__reading *s, ms__list_iter *li)
{
    uint32_t next = s->backward ? li->soon - 1 : li->soon;
    if (!li->all_found || li->found < li->n_found) return;
    if (s->backward ? next < li->from : next > li->from) li->from = next;
    li->all_found = false;
}

/* Finds and prefetches the next runs of an iterator, if they were not. */
static void ms__runs_soon(ms__log *log, const ms__reading *s, ms__list_iter *li)
{
    ms__run_soon soon[MS__RUNS_SOON];
    if (li->found < li->n_found) return;
    ms__runs_pass(s, li);
    if (s->query->limit > 0 && !li->index) return; /* it has had no run, or the tail's */
    if (s->backward ? li->soon > 0 && li->from >= li->soon : li->from < li->soon) return;
    if (s->backward ? li->from <= s->from >> 32 : li->from >= s->tail->segment) return;
    uint32_t due = ms__runs_due(s, li);
    if (due <= MS__RUNS_FEW) return;
    uint32_t n = ms__runs_wanted(log, s, li, soon, due);
    for (uint32_t i = 0; i < n; i++)
        if (soon[i].at) ms__run_soon_bucket(&soon[i]);
    for (uint32_t i = 0; i < n; i++)
        if (soon[i].at) ms__run_soon_list(&soon[i], li->list);
    for (uint32_t i = 0; i < n; i++)
        if (soon[i].at) ms__run_soon_places(&soon[i], s->backward);
    for (uint32_t i = 0; i < n; i++)
        if (soon[i].at) ms__run_soon_records(log, &soon[i], s->backward);
    ms__runs_keep(s, li, soon, n);
    ms__runs_pass(s, li); /* none has the list */
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
    if (MS__GNUC && !MS__SMALL && listed) ms__runs_soon(log, s, li);
    uint32_t segment = ms__run_found(log, s, li, &run);
    if (segment == MS__NO_SEGMENT)
        segment = s->backward ? ms__log_backward(log, s, li, &run)
                              : ms__log_forward(log, s, li, &run);
    if (segment == MS__NO_SEGMENT) { /* forward, the tail may follow */
        li->from = s->tail->segment;
        return !s->backward && ms__segments_to(s->to) > s->tail->segment;
    }
    ms__list_iter_at(s, li, segment);
    if (!listed && !ms__log_all(log, s, segment, &run)) return false;
    if (ms__segment_lost(run.index) > 0) ms__segment_report(log, s, run.index);
    *some = ms__log_run(s, li, &run);
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

#define MS__ORDER_SOON 8u

/* Prefetches for a reader of a whole clustered segment, by number: the place of one
 * record, and the bytes of one before it. next: the position that is read next. */
static void ms__order_soon(const ms__log *log, const ms__list_iter *li, uint32_t next,
                           bool backward)
{
    const ms__segment *l = li->index;
    uint32_t ahead = MS__ORDER_SOON, i = backward ? next - ahead : next + ahead;
    uint32_t then = backward ? i - ahead : i + ahead; /* backward, both may wrap */
    if (then < li->hi)
        MS__PREFETCH(l->record + (size_t)ms__segment_entry(l, then) * 4);
    uint64_t offset = i < li->hi ? ms__segment_offset(l, ms__segment_entry(l, i)) : 0;
    for (uint32_t k = 0; offset > 0 && k < MS__AHEAD_BYTES; k += 64)
        MS__PREFETCH(ms__log_address(log, offset) + k);
}

/* Makes the 64 KiB around a record of a clustered segment readable, for a reader of all
 * of it: the records next in number are anywhere in it. */
static void ms__block_populate(const ms__log *log, const ms__segment *l, uint64_t offset)
{
    uint64_t from = offset & ~(MS__GRAIN - 1), upto = from + MS__GRAIN;
    if (from < l->base) from = l->base;
    if (upto > l->offset) upto = l->offset;
    ms__log_populate(log, from, upto - from);
}

/* Makes the header of a record readable that was not checked. */
static MS__NOINLINE void ms__entry_populate(ms__log *log, const ms__segment *l,
                                            uint64_t offset, bool all)
{
    if (all) ms__block_populate(log, l, offset);
    ms__log_populate(log, offset, MS__HEADER);
    ms__log_first_look(log, offset);
}

/* Returns the address of a record of a segment, sets its unit, and `known` as of an
 * iterator. Reads nothing of the record, which would wait for memory. If it was not
 * checked, the page of its header is populated. all: the reader reads all of a clustered
 * segment. An impossible entry has the address of the superblock, which is no record. */
static inline const unsigned char *ms__log_entry(ms__log *log, const ms__segment *l,
                                                 uint32_t entry, bool all,
                                                 uint32_t *unit, uint32_t *known)
{
    *unit = entry < l->n ? ms__segment_unit(l, entry) : UINT32_MAX;
    *known = 0;
    uint64_t at = (uint64_t)*unit * 8, size = l->offset - l->base;
    if (at >= size) return log->map.super; /* the reader counts it as damaged */
    if (MS__LIKELY(ms__bit_get(l->checked, entry)))
        *known = (uint32_t)((size - at) / 8);
    else ms__entry_populate(log, l, l->base + at, all);
    return l->home ? l->home + at : ms__log_address(log, l->base + at);
}

static bool ms__log_offer(ms__core *core, ms__reading *s, ms__list_iter *li, uint32_t i)
{
    ms__log *log = ms__log_in(core);
    const ms__segment *l = li->index;
    uint32_t entry = ms__run_entry(li, i), unit;
    uint32_t soon = s->backward ? i - MS__PLACES_SOON : i + MS__PLACES_SOON;
    if (li->run && soon < li->hi) ms__place_soon(li, soon); /* backward, it may wrap */
    bool all = !li->run && l->clustered;
    if (MS__GNUC && !MS__SMALL && all)
        ms__order_soon(log, li, s->backward ? i - 1 : i + 1, s->backward);
    li->record = ms__log_entry(log, l, entry, all, &unit, &li->known);
    li->entry = entry;
    if (l->clustered) unit = ms__segment_place(l, entry);
    li->place = ms__place(l->number, unit);
    if (li->record == log->map.super) return true;
    return !(li->agent & MS__FOR_COMPARE) || !ms__list_iter_skips(log, s, li);
}

static bool ms__log_step(const ms__reading *s, ms__list_iter *li)
{
    const ms__segment *l = li->index;
    const unsigned char *run = (const unsigned char *)li->run, *home = l->home;
    uint32_t step = s->backward ? UINT32_MAX : 1, width = l->width;
    uint32_t i = li->pos + step, at = s->backward ? i - 1 : i, entry;
    uint32_t soon = at + step * MS__PLACES_SOON; /* backward, both may wrap */
    if (!run || !home || l->clustered) return false;
    if (s->backward ? i <= li->lo : i >= li->hi) return false;
    if (soon < li->hi)
        MS__PREFETCH(l->record + (size_t)ms__posting(run, soon, width) * 4);
    entry = ms__posting(run, at, width);
    if (entry >= l->n || !ms__bit_get(l->checked, entry)) return false;
    uint64_t unit = ms__segment_unit(l, entry), units = (l->offset - l->base) / 8;
    if (unit >= units) return false;
    li->pos = i;
    li->entry = entry;
    li->known = (uint32_t)(units - unit);
    li->place = ms__place(l->number, (uint32_t)unit);
    li->record = home + unit * 8;
    return true;
}

#define MS__PAGES_FULL 4096u /* of a longer record only the header's page is populated */

/* Populates the pages of n records of a run, from entry i on, in one call. A message of
 * one conversation of 1,000,000 takes a new process 3.4 us, and 4.3 with a call for each
 * record (medians of 6, in turns). */
static MS__NOINLINE void ms__run_populate(ms__log *log, const ms__list_iter *li,
                                          uint32_t i, uint32_t step, uint32_t n)
{
    const ms__segment *l = li->index;
    const unsigned char *run = (const unsigned char *)li->run;
    ms__pages pages;
    pages.n = 0;
    for (; n > 0; n--, i += step) {
        uint32_t entry = ms__posting(run, i, l->width);
        if (entry >= l->n || ms__bit_get(l->checked, entry)) continue;
        uint64_t offset = ms__segment_offset(l, entry), end = l->offset;
        if (entry + 1 < l->n) end = ms__segment_offset(l, entry + 1);
        uint64_t size = end > offset ? end - offset : MS__HEADER;
        if (offset == 0) continue;
        if (size > MS__PAGES_FULL) size = MS__HEADER;
        ms__pages_add(log, &pages, offset, size);
    }
    ms__pages_read(log, &pages);
}

/* Adds n records of a run to the queue, from entry i on. width: of a posting. */
static inline void ms__run_take(ms__log *log, ms__merge *merge, const ms__list_iter *li,
                                uint32_t i, uint32_t n, uint32_t width)
{
    ms__queue *q = &merge->queue;
    const ms__segment *l = li->index;
    const unsigned char *run = (const unsigned char *)li->run, *places = l->record;
    const unsigned char *home = l->home;
    uint32_t step = merge->reading.backward ? UINT32_MAX : 1, unit;
    uint32_t soon = i + step * MS__PLACES_SOON, hi = li->hi, count = l->n;
    uint32_t at = (uint32_t)merge->first + merge->n_queue;
    const uint32_t units = home ? (uint32_t)((l->offset - l->base) / 8) : 0;
    const uint64_t begin = ms__place(l->number, 0);
    const bool clustered = l->clustered;
    bool each = log->map.n_looked > 0 && log->os->populate_each && !clustered;
    merge->n_queue = (uint8_t)(merge->n_queue + n);
    for (; n > 0; n--, i += step, soon += step, at++) {
        uint32_t k = at % MS__AHEAD, entry = ms__posting(run, i, width);
        const unsigned char *r;
        if (soon < hi)
            MS__PREFETCH(places + (size_t)ms__posting(run, soon, width) * 4);
        unit = entry < count ? ms__segment_unit(l, entry) : UINT32_MAX;
        if (MS__LIKELY(unit < units && ms__bit_get(l->checked, entry))) {
            r = home + (size_t)unit * 8;
            q->known[k] = units - unit;
        } else {
            if (each) ms__run_populate(log, li, i, step, n);
            each = false;
            r = ms__log_entry(log, l, entry, false, &unit, &q->known[k]);
            q->index[k] = l;
            q->entry[k] = entry;
        }
        MS__PREFETCH(r);
        MS__PREFETCH(r + 64);
        q->record[k] = r;
        q->place[k] = begin + (clustered ? ms__segment_place(l, entry) : unit);
        q->which[k] = 0;
    }
}

static void ms__log_take(ms__core *core, ms__merge *merge, ms__list_iter *li,
                         uint32_t most)
{
    ms__log *log = ms__log_in(core);
    bool backward = merge->reading.backward;
    uint32_t i = backward ? li->pos - 1 : li->pos, width = li->index->width;
    uint32_t n = backward ? li->pos - li->lo : li->hi - i;
    if (n > most - merge->n_queue) n = most - merge->n_queue;
    if (backward) li->pos -= n;
    else li->pos += n;
    if (MS__SMALL) ms__run_take(log, merge, li, i, n, width);
    else if (width == 2) ms__run_take(log, merge, li, i, n, 2);
    else ms__run_take(log, merge, li, i, n, 4);
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
    /* a step of a reading that has begun: nothing newer is wanted, or reported */
    if (it->query.as_of == 0) MS__TRY(ms__log_catch_up(log, err));
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
