
/* ==== [merge] cursors over posting lists ===============================================
 * A cursor has an iterator (ms__list_iter) for each posting list that its query reads. An
 * iterator stands on a run of entries: the part of the list in the tail or in one sealed
 * segment. Entries [lo, hi) of the run belong to the query. The next entry is pos when it
 * walks forward, pos - 1 backward. At the end of a run it moves to the next one.
 *
 * A heap orders the iterators by the place of their next record, so merging k lists costs
 * log k a message. Its items are numbers of iterators, which stay where they are. The
 * cursor checks the first record, replaces it by the AMEND that is valid for it, and
 * skips it if it is hidden.
 *
 * A query for up to MS__KEPT newest messages walks back once and keeps the records. With
 * -Os it walks back, then forward again, as any other; and no cursor reads ahead.
 *
 * Most cursors are plain: they return every message of their lists. The records are
 * scattered in memory, and a cache miss takes as long as ten records in the cache. So
 * they run MS__AHEAD records ahead of the reader, in batches, and prefetch each. In
 * batches of one a conversation takes 1.4 times as long: a prefetch waits for the page
 * table, and those of a batch wait together. The places of records come from the index of
 * their segment, see [log-cursor]. A record is not read before its turn. Then it is
 * checked, and counted if it is damaged; of a record in two lists the second is left out.
 * The first valid one of a run shows whether the run has the names of the query: a list's
 * number has 61 bits of their hash.
 *
 * Most records were found valid before (`known`). Up to eight of them are made ready
 * together, and ms_next takes those without calling the store; those of a history cost
 * one call. No damage lies before what is ready. A message of a conversation takes 590
 * instructions with its reader (callgrind). With the queue the newest 20 of a
 * conversation take 0.54 of the time, other views 0.72 to 0.85 (1,000,000 messages in 100
 * locations, read before). `make bench BENCH='--only W1,W2'` has these views.
 * ================================================================================== */

#define MS__TYPES_TRACE MS_TYPES_AGENT

/* ms__list_iter.agent: the name of the query whose list an iterator reads. The location,
 * the agent, or from MS__FOR_TEAM on one of the team; or changes and facts of the
 * location. */
#define MS__FOR_LOCATION 0u
#define MS__FOR_AGENT    1u
#define MS__FOR_TEAM     2u
#define MS__FOR_ALONE    0x10000000u /* a bit: it has the run where it stands, no other */
#define MS__FOR_NOTES    0x20000000u /* a bit: its runs are the notes of one message */
#define MS__FOR_DOUBT    0x40000000u /* a bit: the run may be of another name */
#define MS__FOR_COMPARE  0x80000000u /* a bit: the run may mix the lists of two names */
#define MS__FOR_BITS     0xF0000000u

/* Numbers of two lists that are not in a segment index: its list of records has them. */
#define MS__LIST_MESSAGES ((uint64_t)MS__P_LOCATION)
#define MS__LIST_OTHERS   ((uint64_t)MS__P_CHANGE)

static MS__CALLED ms__list_iter *ms__list_iters(ms_cursor *it)
{
    ms__merge *merge = &it->of.merge;
    return merge->more ? merge->more : merge->iters;
}

static MS__CALLED ms__heap_item *ms__heap_of(ms_cursor *it)
{
    ms__merge *merge = &it->of.merge;
    return merge->more ? merge->more_heap : merge->heap;
}

/* ---- Runs of one iterator. */

/* Returns where an iterator looks for its first run: forward in the segment of the first
 * place, backward in the tail. */
static uint32_t ms__list_iter_start(const ms__reading *s)
{
    return s->backward ? s->tail->segment + 1 : (uint32_t)(s->from >> 32);
}

/* Puts an iterator on a segment: its next run is after that, or backward
 * before it. */
static MS__NOINLINE void ms__list_iter_at(const ms__reading *s, ms__list_iter *li,
                                          uint32_t segment)
{
    li->segment = segment;
    li->from = s->backward ? segment : segment + 1;
}

/* Forgets which runs of an iterator were found beforehand. */
static void ms__list_iter_forget(ms__list_iter *li)
{
    li->found = li->n_found = 0;
    li->all_found = false;
}

static ms_str ms__list_iter_agent(const ms__reading *s, const ms__list_iter *li)
{
    uint32_t agent = li->agent & ~MS__FOR_BITS;
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

/* Returns whether a run has the names whose list its iterator reads, by a valid record of
 * it. The answer holds for the whole run, unless names in it have to be compared. */
static bool ms__list_iter_own(const ms__reading *s, ms__list_iter *li,
                              const unsigned char *r)
{
    if (!MS__LOG || !(li->agent & MS__FOR_DOUBT)) return true;
    if (!ms__list_iter_names(s, li, ms__msg(r))) return false;
    li->agent &= ~MS__FOR_DOUBT;
    return true;
}

/* Moves an iterator to the tail's part of its list. False: the query has no entries
 * there. */
static bool ms__list_iter_tail(ms__reading *s, ms__list_iter *li)
{
    uint32_t segment = s->tail->segment;
    li->index = NULL;
    if (s->to >> 32 < segment) return false;
    if (!li->in_tail) return false;
    li->hi = ms__postings_below(li->in_tail, (uint32_t)s->to);
    if (li->hi == 0) return false;
    li->run = ms__postings_chunk(li->in_tail, li->hi - 1);
    li->lo = 0;
    if (s->from >> 32 == segment && (uint32_t)s->from > 0)
        li->lo = ms__postings_below(li->in_tail, (uint32_t)s->from);
    return li->lo < li->hi;
}

/* Moves an iterator over the notes of one message to the next one that the query reads.
 * Each note is a run: what the list has between two places, which is one entry. False:
 * no further note, and the iterator stays. */
static MS__NOINLINE bool ms__next_note(ms__core *core, ms__reading *s, ms__list_iter *li)
{
    bool some = false, backward = s->backward;
    uint64_t from = s->from, to = s->to;
    uint32_t *runs = s->runs;
    const ms__note_at *n = s->note;
    ms__list_iter next = *li;
    s->runs = NULL; /* no run of another note is wanted */
    while (!some && s->result == MS_OK) {
        if (!n) n = backward ? (const ms__note_at *)ms__load_ptr(&s->notes->newest)
                             : s->notes->oldest;
        else n = backward ? n->before : (const ms__note_at *)ms__load_ptr(&n->after);
        if (!n || (backward ? n->place < from : n->place >= to)) break;
        if (n->place < from || n->place >= to) continue;
        uint32_t segment = (uint32_t)(n->place >> 32);
        s->from = n->place;
        s->to = n->place + 1;
        ms__list_iter_at(s, &next, segment);
        next.from = s->backward ? segment + 1 : segment;
        some = segment == s->tail->segment
                   ? ms__list_iter_tail(s, &next)
                   : ms__sealed_of(core)->turn(core, s, &next, &some) && some;
        s->from = from;
        s->to = to;
    }
    s->runs = runs;
    if (!some) return false;
    next.pos = backward ? next.hi : next.lo;
    s->note = n;
    *li = next;
    return true;
}

/* Moves an iterator to its next run in the cursor's direction. After the last run it
 * returns false, and the iterator stays. */
static MS__NOINLINE bool ms__next_run(ms__core *core, ms__reading *s, ms__list_iter *li)
{
    ms__list_iter next = *li;
    uint32_t tail = s->tail->segment;
    bool some = false;
    if (li->agent & MS__FOR_ALONE) return false;
    if (!MS__SMALL && (li->agent & MS__FOR_NOTES)) return ms__next_note(core, s, li);
    while (!some && s->result == MS_OK) {
        if (s->backward ? next.from > tail : next.from == tail) {
            ms__list_iter_at(s, &next, tail);
            some = ms__list_iter_tail(s, &next);
        } else if (!ms__sealed_of(core) || next.from > tail) {
            return false;
        } else if (!ms__sealed_of(core)->turn(core, s, &next, &some)) {
            return false;
        }
    }
    if (!some) return false;
    next.pos = s->backward ? next.hi : next.lo;
    *li = next;
    return true;
}

/* Returns entry i of a run in memory. */
static uint32_t ms__list_iter_entry(ms__list_iter *li, uint32_t i)
{
    const ms__chunk *c = (const ms__chunk *)li->run;
    while (c->first > i) c = c->before;
    while (i - c->first >= ms__chunk_cap(c->first))
        c = (const ms__chunk *)ms__load_ptr(&c->after);
    li->run = c;
    return ms__chunk_entry(c, i);
}

/* Sets an iterator's record to entry i of its run; false: the query excludes it. */
static bool ms__list_iter_offer(ms__core *core, ms__reading *s, ms__list_iter *li,
                                uint32_t i)
{
    const ms__tail *t = s->tail;
    if (MS__LOG && li->index) return ms__sealed_of(core)->offer(core, s, li, i);
    li->known = 0;
    li->entry = ms__list_iter_entry(li, i);
    li->place = ms__place(t->segment, li->entry);
    li->record = core->home->at(core, ms__tail_offset(t, li->entry));
    return true;
}

/* Sets the record of an iterator; false: the iterator is at its end. */
static bool ms__list_iter_load(ms__core *core, ms__reading *s, ms__list_iter *li)
{
    bool backward = s->backward;
    for (;;) {
        while (backward ? li->pos > li->lo : li->pos < li->hi) {
            if (ms__list_iter_offer(core, s, li, backward ? li->pos - 1 : li->pos))
                return true;
            if (backward) li->pos--;
            else li->pos++;
        }
        if (!ms__next_run(core, s, li)) return false;
    }
}

/* Returns the state of a record of the tail (index NULL) or of a segment. Headers of the
 * tail are checked at every read: 3 of 44 ns a message of a warm conversation, so there
 * are no bits for those that were checked. */
static ms__state_of ms__entry_state(ms__core *core, const ms__reading *s, ms__index index,
                                    uint32_t entry, const unsigned char *r)
{
    if (MS__LOG && index)
        return ms__sealed_of(core)->state(core, index, entry, r,
                                          ms__raw_of(s->query) != 0);
    uint64_t offset = ms__tail_offset(s->tail, entry);
    return ms__holds_at(core->seed, offset, r) ? MS__WHOLE : MS__LOST;
}

#define MS__AHEAD_LISTS 256u /* a cursor over more of them reads none ahead */
#define MS__AHEAD_BYTES 512u /* of a record are prefetched */

/* Moves an iterator whose record is in a hidden range, so that its next step skips the
 * rest of the range. */
static void ms__list_iter_leap(ms__core *core, ms__reading *s, ms__list_iter *li,
                               const ms__range *range)
{
    const ms__tail *t = s->tail;
    uint64_t seq = s->backward ? range->first : range->last + 1;
    ms__sought f = ms__seek(core, t, ms__load32(&t->end), seq, s->locked, &s->result);
    uint64_t place = s->backward ? f.place : f.past;
    uint32_t segment = (uint32_t)(li->place >> 32), unit = (uint32_t)place, to;
    if (s->backward ? place > li->place : place < li->place) return; /* beside damage */
    if (place >> 32 != segment) { /* skips runs */
        to = s->backward ? li->lo : li->hi;
        li->from = (uint32_t)(place >> 32) + (s->backward ? 1 : 0);
    } else if (MS__LOG && li->index) {
        to = ms__sealed_of(core)->below(li, unit);
    } else {
        to = ms__chunks_lower((const ms__chunk *)li->run, li->lo, li->hi, unit);
    }
    if (to < li->lo) to = li->lo;
    if (s->backward) li->pos = to < li->pos ? to + 1 : li->pos;
    else li->pos = to > li->pos ? to - 1 : li->pos;
}

/* Returns the record with the present content of an iterator's record, and its state;
 * NULL: hidden. */
static MS__NOINLINE const unsigned char *ms__list_iter_shown(ms__core *core,
                                                             ms__reading *s,
                                                             ms__list_iter *li,
                                                             ms__state_of *state)
{
    const ms__edits *c = s->edits;
    ms_result result = MS_OK;
    bool sound = *state == MS__WHOLE;
    if (*state == MS__LOST || (!c && !sound)) return li->record;
    if (!c)
        c = ms__edits_of(core, ms__location(ms__msg(li->record)), s->locked, &result);
    if (result != MS_OK) s->result = result;
    if (!c) return li->record;
    if (MS__LOG && !s->edits && !s->unsure && li->place < c->damaged_to) {
        s->damaged_ranges++;
        s->unsure = true;
    }
    uint64_t seq = ms_seq(ms__msg(li->record));
    const unsigned char *r =
        ms__shown_at(core, s->tail, c, li->record, li->place, s->now, &sound);
    *state = sound ? MS__WHOLE : MS__LOST;
    const ms__range *range = r || !s->edits ? NULL : ms__hidden_by(c, seq, s->now);
    if (range) ms__list_iter_leap(core, s, li, range);
    return r;
}

/* ---- The heap: iterators in the order of their next places. */

/* Sets item i of the heap to an iterator. */
static void ms__heap_set(ms_cursor *it, uint32_t i, uint32_t which)
{
    uint64_t place = ms__list_iters(it)[which].place;
    ms__heap_item *item = &ms__heap_of(it)[i];
    item->which = which;
    item->due = it->of.merge.reading.backward ? ~place : place;
}

/* Restores the heap below item i. The lesser of two children is chosen without a branch,
 * which the processor guesses wrong half of the time. */
static void ms__heap_sift(ms_cursor *it, uint32_t i)
{
    ms__heap_item *items = ms__heap_of(it), item = items[i];
    uint32_t n = it->of.merge.n_live, child;
    while ((child = 2 * i + 1) < n) {
        uint32_t other = child + (child + 1 < n);
        child += items[other].due < items[child].due;
        if (items[child].due >= item.due) break;
        items[i] = items[child];
        i = child;
    }
    items[i] = item;
}

/* Returns the iterator of the next record. */
static MS__CALLED ms__list_iter *ms__heap_first(ms_cursor *it)
{
    return &ms__list_iters(it)[ms__heap_of(it)[0].which];
}

/* Sets the direction of all iterators and builds the heap. */
static void ms__list_iters_turn(ms__core *core, ms_cursor *it, bool backward)
{
    ms__merge *merge = &it->of.merge;
    ms__list_iter *iters = ms__list_iters(it);
    bool was = merge->reading.backward;
    merge->reading.backward = backward;
    merge->n_live = merge->n_queue = 0;
    merge->last_place = MS__NO_PLACE;
    for (uint32_t i = 0; i < merge->n_iters; i++) {
        if (backward != was)
            ms__list_iter_at(&merge->reading, &iters[i], iters[i].segment);
        if (MS__LOG && backward != was) ms__list_iter_forget(&iters[i]);
        if (ms__list_iter_load(core, &merge->reading, &iters[i]))
            ms__heap_set(it, merge->n_live++, i);
    }
    for (uint32_t i = merge->n_live / 2; i-- > 0;) ms__heap_sift(it, i);
}

/* Moves the first iterator of the heap past its record. */
static void ms__heap_next(ms__core *core, ms_cursor *it)
{
    ms__merge *merge = &it->of.merge;
    ms__heap_item *items = ms__heap_of(it);
    ms__list_iter *li = ms__heap_first(it);
    if (merge->reading.backward) li->pos--;
    else li->pos++;
    if (!ms__list_iter_load(core, &merge->reading, li))
        items[0].which = items[--merge->n_live].which;
    ms__heap_set(it, 0, items[0].which);
    if (merge->n_live > 1) ms__heap_sift(it, 0);
}

/* The same, and prefetches records that are read next. */
static void ms__list_iters_pop(ms__core *core, ms_cursor *it)
{
    ms__merge *merge = &it->of.merge;
    const ms__list_iter *li = ms__heap_first(it);
    ms__heap_next(core, it);
    if (merge->n_live > 1) /* it has time until its turn */
        for (uint32_t i = 0; i < MS__AHEAD_BYTES; i += 64) MS__PREFETCH(li->record + i);
    if (merge->n_live > 0) MS__PREFETCH(ms__heap_first(it)->record);
}

/* Returns the types of messages that the query returns of a list. agent: as of its
 * iterator. */
static ms_type_set ms__list_iter_types(const ms_query *q, uint32_t agent)
{
    agent &= ~MS__FOR_BITS;
    return agent == MS__FOR_AGENT ? q->types & q->agent_types : q->types;
}

/* Returns whether a message of a list belongs to the query. */
static bool ms__merge_passes(const ms_cursor *it, const ms_msg *msg, uint32_t agent)
{
    const ms_query *q = &it->query;
    if (ms__raw_of(q)) return ms__raw_passes(q, msg);
    if (!(MS_BIT(ms_type_of(msg)) & ms__list_iter_types(q, agent))) return false;
    return it->of.merge.match ? ms_query_match(q, msg) : ms__passes(q, msg);
}

/* Returns the next record of the query in the direction of the iterators, or NULL. */
static const unsigned char *ms__merge_step(ms__core *core, ms_cursor *it,
                                           uint64_t *damaged)
{
    ms__merge *merge = &it->of.merge;
    while (merge->n_live > 0) {
        ms__list_iter *li = ms__heap_first(it);
        const unsigned char *r = li->record;
        uint32_t agent = li->agent;
        uint64_t place = li->place;
        bool twice = place == merge->last_place;
        ms__state_of state = MS__WHOLE;
        if (!twice)
            state = ms__entry_state(core, &merge->reading, li->index, li->entry, r);
        bool broken = state != MS__WHOLE; /* also if an amendment replaces it */
        bool own = twice || broken || ms__list_iter_own(&merge->reading, li, r);
        if (MS__CHANGES && merge->reading.changed && !twice && own) {
            r = ms__list_iter_shown(core, &merge->reading, li, &state);
            if (merge->reading.result != MS_OK) return NULL;
        }
        ms__list_iters_pop(core, it);
        if (twice || !r || !own) continue;
        bool whole = state == MS__WHOLE;
        if (whole && !merge->plain && !ms__merge_passes(it, ms__msg(r), agent)) continue;
        if (broken || !whole) ++*damaged;
        merge->last_place = place;
        if (whole) return r;
    }
    return NULL;
}

/* ---- Order by time: the messages of a query are collected in an arena and sorted, ties
 * by the index of their store in a union, then by sequence. */
typedef struct ms__timed {
    int64_t time;
    const unsigned char *record;
    size_t which; /* index of the store */
} ms__timed;

/* Allocates room for n messages. */
static ms_result ms__sorted_room(ms__sorted *s, ms_arena *arena, size_t n, ms_error *err)
{
    if (!arena) return ms__query_arena(err);
    bool fits = n <= SIZE_MAX / 2 / sizeof *s->items;
    s->items = fits ? (ms__timed *)ms_arena_alloc(arena, n * sizeof *s->items) : NULL;
    return s->items ? MS_OK : ms__no_arena(err, arena, (uint64_t)n * sizeof *s->items);
}

/* Adds the next message of a store. *last: the last known time before it, which a message
 * without a time takes. */
static void ms__sorted_add(ms__sorted *s, const ms_query *q, int64_t *last,
                           const unsigned char *record, size_t which)
{
    ms__timed *item = &s->items[s->to++];
    bool timed = ms_time(ms__msg(record), last);
    item->time = timed || !q->untimed_first ? *last : MS_TIME_NONE;
    item->record = record;
    item->which = which;
}

static bool ms__timed_less(const ms__timed *x, const ms__timed *y)
{
    if (x->time != y->time) return x->time < y->time;
    if (x->which != y->which) return x->which < y->which;
    return ms_seq(ms__msg(x->record)) < ms_seq(ms__msg(y->record));
}

/* Sorts the messages and finds the window of the query. Shell's sort, each gap 5/11 of
 * the one before, needs no memory; for times that rise, in one store or in several, it
 * takes a fourth of what ms__sort takes. */
static void ms__sorted_window(ms__sorted *s, const ms_query *q)
{
    for (size_t gap = s->to; gap > 1;) {
        gap = gap < 5 ? 1 : gap / 11 * 5 + gap % 11 * 5 / 11;
        for (size_t i = gap; i < s->to; i++) {
            ms__timed hold = s->items[i];
            size_t at = i;
            for (; at >= gap && ms__timed_less(&hold, &s->items[at - gap]); at -= gap)
                s->items[at] = s->items[at - gap];
            s->items[at] = hold;
        }
    }
    if (q->limit == 0 || q->limit >= s->to) return;
    if (q->oldest) s->to = q->limit;
    else s->from = s->to - q->limit;
}

/* Returns the next message, NULL at the end. */
static const ms__timed *ms__sorted_next(ms__sorted *s, const ms_query *q)
{
    if (s->from == s->to) return NULL;
    return &s->items[q->reverse ? --s->to : s->from++];
}

/* Returns the number of entries in all runs of an iterator. */
static size_t ms__list_iter_count(ms__core *core, ms__reading *s, const ms__list_iter *li)
{
    ms__list_iter at = *li;
    size_t n = at.hi - at.lo;
    if (MS__LOG) ms__list_iter_forget(&at); /* the runs found are those of li */
    if (MS__LOG) at.number = MS__RUNS_LISTS;
    while (ms__next_run(core, s, &at)) n += at.hi - at.lo;
    return n;
}

static ms_result ms__merge_sort(ms__core *core, ms_cursor *it, ms_error *err)
{
    ms__merge *merge = &it->of.merge;
    int64_t last = MS_TIME_NONE;
    const unsigned char *r;
    size_t most = 0;
    for (uint32_t i = 0; i < merge->n_iters; i++) {
        size_t n = ms__list_iter_count(core, &merge->reading, &ms__list_iters(it)[i]);
        most += ms__min(n, SIZE_MAX - most);
    }
    MS__TRY(ms__sorted_room(&merge->sorted, it->query.arena, most, err));
    ms__list_iters_turn(core, it, false);
    while (merge->sorted.to < most &&
           (r = ms__merge_step(core, it, &it->damaged)) != NULL)
        ms__sorted_add(&merge->sorted, &it->query, &last, r, 0);
    ms__sorted_window(&merge->sorted, &it->query);
    return MS_OK;
}

/* ---- Reading ahead. */

/* Adds the record of an iterator to the queue. */
static void ms__queue_add(ms__merge *merge, const ms__list_iter *li, uint32_t which)
{
    uint32_t last = (merge->first + merge->n_queue++) % MS__AHEAD;
    MS__PREFETCH(li->record);
    MS__PREFETCH(li->record + 64);
    merge->queue.record[last] = li->record;
    merge->queue.place[last] = li->place;
    merge->queue.known[last] = li->known;
    merge->queue.index[last] = li->index;
    merge->queue.entry[last] = li->entry;
    merge->queue.which[last] = (uint8_t)which;
}

/* Fills the queue from one list, up to a run in which names have to be compared. */
static void ms__look_ahead_one(ms__core *core, ms_cursor *it, uint32_t most)
{
    ms__merge *merge = &it->of.merge;
    ms__reading *s = &merge->reading;
    ms__list_iter *li = &merge->iters[0];
    while (merge->n_queue < most) {
        if (s->backward ? li->pos <= li->lo : li->pos >= li->hi) {
            if (ms__next_run(core, s, li)) continue;
            merge->n_live = 0;
            return;
        }
        if (li->agent & MS__FOR_COMPARE) return;
        if (MS__LOG && li->index) {
            ms__sealed_of(core)->take(core, merge, li, most);
            continue;
        }
        (void)ms__list_iter_offer(core, s, li, s->backward ? --li->pos : li->pos++);
        ms__queue_add(merge, li, 0);
    }
}

/* Fills the queue of a plain cursor. It is filled in batches, so that many misses run at
 * a time. */
static void ms__look_ahead(ms__core *core, ms_cursor *it)
{
    ms__merge *merge = &it->of.merge;
    uint32_t most = merge->left < MS__AHEAD ? (uint32_t)merge->left : MS__AHEAD;
    if (merge->n_iters == 1) {
        ms__look_ahead_one(core, it, most);
        return;
    }
    while (merge->n_queue < most && merge->n_live > 0) {
        ms__list_iter *li = ms__heap_first(it);
        if (li->agent & MS__FOR_COMPARE) return;
        ms__queue_add(merge, li, ms__heap_of(it)[0].which);
        if (MS__LOG && li->index && ms__sealed_of(core)->step(&merge->reading, li)) {
            ms__heap_set(it, 0, ms__heap_of(it)[0].which);
            if (merge->n_live > 1) ms__heap_sift(it, 0);
        } else {
            ms__heap_next(core, it);
        }
    }
}

#define MS__AHEAD_LONG 4096u /* bytes of a longer record are not prefetched */

/* Prefetches the rest of a record whose header has arrived. A reader of complete messages
 * then waits a quarter less, and a reader of their beginnings no longer. In long records
 * the processor prefetches by itself. By halves of MS__AHEAD_BYTES: deciding for each
 * line takes as many instructions as finding the record. */
static inline void ms__prefetch_rest(const unsigned char *r, uint32_t size)
{
    if (size - 129 > MS__AHEAD_LONG - 129) return; /* so are 128 bytes or fewer */
    for (uint32_t i = 128; i < MS__AHEAD_BYTES / 2; i += 64) MS__PREFETCH(r + i);
    if (size <= MS__AHEAD_BYTES / 2) return;
    for (uint32_t i = MS__AHEAD_BYTES / 2; i < MS__AHEAD_BYTES; i += 64)
        MS__PREFETCH(r + i);
}

/* Returns whether a valid record of the queue has the names of its list. One of each run
 * is compared, the first that is valid: it is in the cache then. */
static bool ms__queue_own(ms_cursor *it, uint32_t at)
{
    const ms__queue *q = &it->of.merge.queue;
    ms__list_iter *li = &ms__list_iters(it)[q->which[at]];
    uint32_t segment = (uint32_t)(q->place[at] >> 32);
    if (!MS__LOG || (q->known[at] == 0 && !q->index[at]) || segment + 1 == li->proven)
        return true;
    if (!ms__list_iter_names(&it->of.merge.reading, li, ms__msg(q->record[at])))
        return false;
    li->proven = segment + 1;
    return true;
}

/* Returns whether a record that was found valid still fits into its room of so many
 * units, and is a message. *bytes: its size. */
static inline bool ms__known_fits(const unsigned char *r, uint32_t room, uint32_t *bytes)
{
    uint32_t size = *bytes = ms__get32(r);
    return size - (MS__HEADER + 1) <= MS__RECORD_MAX - (MS__HEADER + 1) &&
           (size + 7) / 8 <= room && r[4] == MS__KIND_MESSAGE;
}

/* Moves the first records of the queue, at most so many, to `to`, as far as they were
 * found valid before and one of their run has the names of the list; returns how many.
 * rest: prefetches all of each. */
static inline uint32_t ms__queue_settle(ms_cursor *it, const unsigned char **to,
                                        uint32_t most, bool rest)
{
    ms__merge *merge = &it->of.merge;
    const ms__queue *q = &merge->queue;
    const ms__list_iter *iters = ms__list_iters(it);
    uint64_t last = merge->last_place;
    uint32_t n = 0, at = merge->first, size;
    if (most > merge->n_queue) most = merge->n_queue;
    for (; n < most && q->known[at] > 0; at = (at + 1) % MS__AHEAD) {
        const unsigned char *r = q->record[at];
        uint64_t place = q->place[at];
        if (place == last || !ms__known_fits(r, q->known[at], &size)) break;
        if (MS__UNLIKELY((uint32_t)(place >> 32) + 1 != iters[q->which[at]].proven) &&
            !ms__queue_own(it, at))
            break;
        if (rest) ms__prefetch_rest(r, size);
        to[n++] = r;
        last = place;
    }
    merge->first = (uint8_t)at;
    merge->n_queue = (uint8_t)(merge->n_queue - n);
    merge->last_place = last;
    return n;
}

/* Checks a record of the queue. False: it is damaged, which is counted, or of another
 * name. */
static MS__NOINLINE bool ms__queue_check(ms__core *core, ms_cursor *it, uint32_t at)
{
    const ms__queue *q = &it->of.merge.queue;
    const unsigned char *r = q->record[at];
    uint32_t size, known = q->known[at];
    bool whole = known ? ms__known_fits(r, known, &size)
                       : ms__entry_state(core, &it->of.merge.reading, q->index[at],
                                         q->entry[at], r) == MS__WHOLE;
    if (whole && !ms__queue_own(it, at)) return false;
    it->of.merge.last_place = q->place[at];
    if (!whole) it->damaged++;
    return whole;
}

/* Returns the next message of the queue, or NULL. */
static const unsigned char *ms__queue_next(ms__core *core, ms_cursor *it)
{
    ms__merge *merge = &it->of.merge;
    const ms__queue *q = &merge->queue;
    while (merge->n_queue > 0) {
        uint32_t at = merge->first;
        merge->first = (uint8_t)((at + 1) % MS__AHEAD);
        merge->n_queue--;
        if (q->place[at] == merge->last_place) continue; /* of two lists */
        if (ms__queue_check(core, it, at)) return q->record[at];
    }
    return NULL;
}

/* Fills the queue if it is half empty. False: it stays empty; the list is at its end, or
 * in a run in which names have to be compared. */
static bool ms__queue_fill(ms__core *core, ms_cursor *it, uint32_t low)
{
    ms__merge *merge = &it->of.merge;
    if (merge->n_queue <= low && merge->n_live > 0) ms__look_ahead(core, it);
    if (merge->n_queue > 0) return true;
    if (merge->n_iters == 1 && merge->n_live > 0 &&
        !ms__list_iter_load(core, &merge->reading, &merge->iters[0]))
        merge->n_live = 0;
    return false;
}

/* Returns the next message of a plain cursor, and makes those ready that follow; NULL:
 * the queue stays empty. */
static const unsigned char *ms__plain_step(ms__core *core, ms_cursor *it)
{
    ms__merge *merge = &it->of.merge;
    const unsigned char *r = NULL;
    while (!r && ms__queue_fill(core, it, MS__AHEAD / 2)) {
        uint32_t n = ms__queue_settle(it, merge->queue.ready, MS__AHEAD / 2, true);
        it->next = n > 0 ? 1 : 0;
        it->ready = (uint8_t)n;
        merge->left -= n;
        r = n > 0 ? merge->queue.ready[0] : ms__queue_next(core, it);
        if (n == 0 && r) merge->left--;
    }
    return r;
}

/* ---- Where reading begins. */

/* Returns whether reading begins at the newest end. The newest n are counted from there,
 * even if they are returned oldest first. */
static MS__NOINLINE bool ms__starts_back(const ms_query *q)
{
    return !q->by_time && (q->limit ? !q->oldest : q->reverse);
}

/* Returns how many entries, from the loaded one back, are of the names of the list: 1
 * where each has to be compared, 0 in a run of other names. */
static uint32_t ms__list_iter_counts(ms__core *core, const ms__reading *s,
                                     ms__list_iter *li)
{
    if (li->agent & MS__FOR_COMPARE) return 1;
    if (MS__LOG && (li->agent & MS__FOR_DOUBT)) {
        if (ms__entry_state(core, s, li->index, li->entry, li->record) != MS__WHOLE)
            return 1;
        if (!ms__list_iter_own(s, li, li->record)) return 0;
    }
    return li->pos - li->lo;
}

/* Moves an iterator n entries back from its end, those of other names left out. False: it
 * has fewer. */
static bool ms__list_iter_back(ms__core *core, ms__reading *s, ms__list_iter *li,
                               size_t n)
{
    while (n > 0) {
        if (!ms__list_iter_load(core, s, li)) return false;
        uint32_t step = ms__list_iter_counts(core, s, li);
        if (step > n) step = (uint32_t)n;
        if (step > 0) li->pos -= step;
        else li->pos = li->lo;
        n -= step;
    }
    return true;
}

/* Keeps the newest n records. In plain lists they are read ahead: the newest 20 of a
 * conversation take about 370 instructions a message, without those of their reader
 * (callgrind). */
static void ms__merge_keep(ms__core *core, ms_cursor *it)
{
    ms__merge *merge = &it->of.merge;
    const unsigned char *kept[MS__KEPT], *r = NULL;
    uint32_t n = 0, most = (uint32_t)merge->left;
    ms__list_iters_turn(core, it, true);
    for (; n < most; merge->left = most - n) {
        if (merge->plain && ms__queue_fill(core, it, 0)) {
            while (merge->n_queue > 0) {
                n += ms__queue_settle(it, kept + n, MS__AHEAD, false);
                if ((r = ms__queue_next(core, it)) != NULL) kept[n++] = r;
            }
            continue;
        }
        r = ms__merge_step(core, it, &it->damaged);
        if (!r) break;
        kept[n++] = r;
    }
    merge->full = n == most;
    merge->left = 0;
    it->ready = (uint8_t)n;
    for (uint32_t i = 0; i < n; i++) merge->queue.ready[i] = kept[n - 1 - i];
}

/* Moves the iterators to the start of reading. For the newest n, oldest first: walks back
 * n matches, then turns round; in one plain list a subtraction does that. */
static void ms__merge_window(ms__core *core, ms_cursor *it)
{
    ms__merge *merge = &it->of.merge;
    const ms_query *q = &it->query;
    uint64_t unseen = 0, outer = 0; /* outer: damage that only this walk meets */
    bool back = ms__starts_back(q);
    merge->plain = !merge->filtered && !merge->reading.changed && !ms__raw_of(q) &&
                   !q->turn_id.ptr && !q->has_since && !q->has_until;
    if (!MS__SMALL && merge->n_iters > MS__AHEAD_LISTS) merge->plain = false;
    merge->left = q->limit ? q->limit : SIZE_MAX;
    if (!MS__SMALL && back && !q->reverse && q->limit <= MS__KEPT) {
        ms__merge_keep(core, it);
        return;
    }
    if (merge->plain && merge->n_iters == 1 && back && !q->reverse) {
        merge->full = ms__list_iter_back(core, &merge->reading, &ms__list_iters(it)[0],
                                         q->limit);
        back = false;
    }
    ms__list_iters_turn(core, it, back);
    if (back == q->reverse) return;
    size_t n = 0;
    while (n < q->limit && ms__merge_step(core, it, n == 0 ? &outer : &unseen)) n++;
    if (n == q->limit) it->damaged += outer;
    merge->full = back && n == q->limit;
    ms__list_iters_turn(core, it, q->reverse);
}

/* ---- The lists that a query reads. */

/* Adds an iterator for a posting list. in_tail: the tail's part of it, NULL: none. */
static ms_result ms__list_iter_add(ms__core *core, ms_cursor *it, uint64_t list,
                                   const ms__postings *in_tail, uint32_t agent,
                                   ms_error *err)
{
    static const ms_type_set kinds[] = {
        MS_TYPES_ALL, MS_TYPES_CONVERSATION,           MS_TYPES_GLOBAL, MS__TYPES_TRACE,
        MS_TYPES_ALL & ~MS__TYPES_TRACE, MS_TYPES_ALL, MS_TYPES_ALL,    MS_TYPES_ALL};
    ms__merge *merge = &it->of.merge;
    ms__reading *s = &merge->reading;
    ms_type_set holds = kinds[list & 7];
    ms__list_iter li;
    memset(&li, 0, sizeof li);
    li.list = list;
    li.in_tail = in_tail;
    li.agent = agent;
    if (MS__LOG)
        li.number = (uint8_t)(merge->n_iters < MS__RUNS_LISTS ? merge->n_iters
                                                              : MS__RUNS_LISTS);
    ms_type_set types = ms__list_iter_types(&it->query, agent);
    if (!(types & holds)) return MS_OK;
    li.from = ms__list_iter_start(s);
    if (!ms__next_run(core, s, &li))
        return s->result == MS_E_NO_MEMORY ? ms__no_memory(err, 0) : MS_OK;
    if ((types & holds) != holds) merge->filtered = true;
    if (merge->n_iters == MS__CURSOR_ITERS && !merge->more) {
        size_t team = it->query.n_agent_keys, most = MS__CURSOR_ITERS + 2 * team;
        const size_t each = sizeof li + sizeof(ms__heap_item);
        if (team > UINT32_MAX / 4) most = SIZE_MAX / each;
        merge->more = (ms__list_iter *)ms_arena_alloc(it->query.arena, most * each);
        if (!merge->more) return ms__no_arena(err, it->query.arena, most * each);
        merge->more_heap = (ms__heap_item *)(void *)(merge->more + most);
        memcpy(merge->more, merge->iters, sizeof merge->iters);
    }
    ms__list_iters(it)[merge->n_iters++] = li;
    return MS_OK;
}

/* A location as a query reads it. */
typedef struct ms__where {
    uint64_t hash;
    const ms__loc *loc; /* NULL: the tail has no such location */
} ms__where;

static ms_result ms__loc_iter(ms__core *core, ms_cursor *it, const ms__where *at,
                              unsigned kind, const ms__postings *in_tail, ms_error *err)
{
    return ms__list_iter_add(core, it, ms__list_number(at->hash, kind), in_tail,
                             MS__FOR_LOCATION, err);
}

static ms_result ms__agent_iters(ms__core *core, ms_cursor *it, const ms__where *at,
                                 ms_str key, uint32_t agent, ms_error *err)
{
    ms__tail_names *names =
        (ms__tail_names *)(uintptr_t)&it->of.merge.reading.tail->names;
    if (ms__is_empty(key)) return MS_OK;
    const ms__agent *a = at->loc ? ms__agent_get(names, at->loc, key, false) : NULL;
    if (!a && !ms__sealed_of(core)) return MS_OK;
    uint64_t h = a ? a->name.node.hash : ms__name_hash(names, MS__AGENTS, at->hash, key);
    MS__TRY(ms__list_iter_add(core, it, ms__list_number(h, MS__P_TRACE),
                              a ? &a->trace : NULL, agent, err));
    return ms__list_iter_add(core, it, ms__list_number(h, MS__P_REST),
                             a ? &a->rest : NULL, agent, err);
}

/* Adds the lists for the views of a location. */
static ms_result ms__view_iters(ms__core *core, ms_cursor *it, const ms__where *at,
                                ms_error *err)
{
    const ms_query *q = &it->query;
    const ms__loc *l = at->loc;
    if (q->views & MS_VIEW_TIMELINE)
        return ms__loc_iter(core, it, at, MS__P_LOCATION, l ? &l->all : NULL, err);
    if (q->views & MS_VIEW_CONVERSATION)
        MS__TRY(ms__loc_iter(core, it, at, MS__P_CONVERSATION,
                             l ? &l->conversation : NULL, err));
    if (q->views & MS_VIEW_GLOBAL)
        MS__TRY(ms__loc_iter(core, it, at, MS__P_GLOBAL, l ? &l->global : NULL, err));
    if (q->views & MS_VIEW_AGENT)
        MS__TRY(ms__agent_iters(core, it, at, q->agent_key, MS__FOR_AGENT, err));
    for (size_t i = 0; (q->views & MS_VIEW_TEAM) && i < q->n_agent_keys; i++)
        MS__TRY(ms__agent_iters(core, it, at, q->agent_keys[i],
                                MS__FOR_TEAM + (uint32_t)i, err));
    return MS_OK;
}

/* Adds the entries of a list of a location between two places, of the first run alone, as
 * far as the query reads the places. */
static MS__NOINLINE ms_result ms__raw_at(ms__core *core, ms_cursor *it,
                                         const ms__where *at, unsigned kind,
                                         const ms__postings *in_tail, uint64_t place,
                                         uint64_t past, ms_error *err)
{
    ms__merge *merge = &it->of.merge;
    ms__reading *s = &merge->reading;
    uint64_t from = s->from, to = s->to;
    uint32_t iters = merge->n_iters;
    if (place < from) place = from;
    if (past > to) past = to;
    if (place >= past) return MS_OK;
    s->from = place;
    s->to = past;
    ms_result code = ms__loc_iter(core, it, at, kind, in_tail, err);
    if (merge->n_iters > iters) merge->iters[iters].agent |= MS__FOR_ALONE;
    s->from = from;
    s->to = to;
    return code;
}

/* Adds the messages of a location for a raw query: all, or the one of about_seq. */
static ms_result ms__raw_messages(ms__core *core, ms_cursor *it, const ms__where *at,
                                  ms_error *err)
{
    ms__reading *s = &it->of.merge.reading;
    const ms__postings *all = at->loc ? &at->loc->all : NULL;
    uint64_t about = it->query.about_seq;
    ms__sought f;
    if (!about) return ms__loc_iter(core, it, at, MS__P_LOCATION, all, err);
    bool there = ms__record_by_seq(core, s->tail, ms__load32(&s->tail->end), about,
                                   s->locked, &f, &s->result) != NULL;
    if (s->result != MS_OK) return ms__no_memory(err, 0);
    if (!there && !(MS__LOG && f.damaged)) return MS_OK; /* in a tail nothing lists it */
    bool own = there || (f.record && ms_seq(ms__msg(f.record)) == about);
    return ms__raw_at(core, it, at, MS__P_LOCATION, all, there ? f.place : f.past,
                      f.place + own, err); /* it meets what is damaged there */
}

/* Adds the edits of a location for a raw query. Amendments of one message are found by
 * its number, so redacting many messages does not read the edits of all of them. */
static ms_result ms__raw_edits(ms__core *core, ms_cursor *it, const ms__where *at,
                               const ms__postings *in_tail, ms_error *err)
{
    ms__reading *s = &it->of.merge.reading;
    const ms_query *q = &it->query;
    const ms__edits *c = NULL;
    if (q->about_seq && !(q->raw & MS_RAW_HIDES))
        c = ms__edits_of(core, q->location, s->locked, &s->result);
    if (s->result != MS_OK) return ms__no_memory(err, 0);
    const ms__changed *m = c ? ms__changed_find(c, q->about_seq) : NULL;
    const ms__version *v = m ? (const ms__version *)ms__load_ptr(&m->newest) : NULL;
    bool all = !c || c->damaged > 0;
    if (MS__LOG && c && c->n_held > 0) all = true; /* it meets the damaged ones */
    for (; v && !all; v = v->before) {
        MS__TRY(ms__raw_at(core, it, at, MS__P_CHANGE, in_tail, v->place,
                           v->place + 1, err));
        all = it->of.merge.n_iters > MS__CURSOR_ITERS / 2;
    }
    if (!all) return MS_OK;
    it->of.merge.n_iters = 0; /* they are the first ones */
    return ms__loc_iter(core, it, at, MS__P_CHANGE, in_tail, err);
}

/* Adds the notes and facts of a location for a raw query: all, or the notes of one
 * message, where they are known. */
static ms_result ms__raw_notes(ms__core *core, ms_cursor *it, const ms__where *at,
                               const ms__postings *in_tail, ms_error *err)
{
    ms__reading *s = &it->of.merge.reading;
    uint32_t agent = MS__FOR_LOCATION;
    bool one = !MS__SMALL && it->query.about_seq && core->home->notes;
    if (one && core->home->notes(core, s)) {
        if (!s->notes) return MS_OK;
        agent |= MS__FOR_NOTES;
    }
    return ms__list_iter_add(core, it, ms__list_number(at->hash, MS__P_CHANGE), in_tail,
                             agent, err);
}

/* Adds the lists of a location for a raw query. */
static MS__NOINLINE ms_result ms__raw_iters(ms__core *core, ms_cursor *it,
                                            const ms__where *at, ms_error *err)
{
    const ms_query *q = &it->query;
    unsigned raw = ms__raw_of(q);
    unsigned char bytes[8];
    ms__where other = *at; /* facts and parts have a hash of their own */
    ms__tail_names *names =
        (ms__tail_names *)(uintptr_t)&it->of.merge.reading.tail->names;
    const ms__edits *c =
        at->loc ? (const ms__edits *)ms__load_ptr((void *const *)&at->loc->edits)
                : NULL;
    if (raw & (MS_RAW_AMENDS | MS_RAW_HIDES))
        MS__TRY(ms__raw_edits(core, it, at, c ? &c->changes : NULL, err));
    if (raw & (MS_RAW_NOTES | MS_RAW_LOCATIONS)) {
        other.hash = ms__name_hash(names, MS__FACTS, at->hash, ms_str_n("", 0));
        MS__TRY(ms__raw_notes(core, it, &other, c ? &c->facts : NULL, err));
    }
    if (raw & MS_RAW_PARTS) {
        const ms__stream *f =
            at->loc ? ms__stream_get(names, at->loc, q->about_seq, false) : NULL;
        ms_str number = ms__stream_text(q->about_seq, bytes);
        other.hash = ms__name_hash(names, MS__STREAMS, at->hash, number);
        MS__TRY(ms__loc_iter(core, it, &other, MS__P_CHANGE, f ? &f->parts : NULL, err));
    }
    return raw & MS_RAW_MESSAGES ? ms__raw_messages(core, it, at, err) : MS_OK;
}

/* Adds the lists of a query over the whole store. */
static ms_result ms__whole_iters(ms__core *core, ms_cursor *it, ms_error *err)
{
    ms__merge *merge = &it->of.merge;
    const ms_query *q = &it->query;
    const ms__tail_names *names = &merge->reading.tail->names;
    merge->match = !(q->views & MS_VIEW_TIMELINE);
    merge->filtered = merge->match || ms__sealed_of(core); /* has other records */
    merge->reading.changed =
        MS__CHANGES && !q->raw && ms__load32(&core->edited) != 0;
    if (!q->raw || (q->raw & MS_RAW_MESSAGES))
        MS__TRY(ms__list_iter_add(core, it, MS__LIST_MESSAGES, &names->all,
                                  MS__FOR_LOCATION, err));
    if (!(q->raw & ~(unsigned)MS_RAW_MESSAGES)) return MS_OK;
    return ms__list_iter_add(core, it, MS__LIST_OTHERS, &names->others, MS__FOR_LOCATION,
                             err);
}

static ms_result ms__query_iters(ms__core *core, ms_cursor *it, ms_error *err)
{
    ms__merge *merge = &it->of.merge;
    const ms_query *q = &it->query;
    ms__tail_names *names = (ms__tail_names *)(uintptr_t)&merge->reading.tail->names;
    ms__where at;
    ms_result result = MS_OK;
    if (ms__is_empty(q->location) || ((ms__raw_of(q) & MS_RAW_PARTS) && !q->about_seq))
        return ms__whole_iters(core, it, err);
    at.loc = ms__loc_get(names, q->location, false);
    if (!at.loc && !ms__sealed_of(core)) return MS_OK;
    at.hash = at.loc ? at.loc->name.node.hash
                     : ms__name_hash(names, MS__LOCS, 0, q->location);
    if (ms__raw_of(q)) return ms__raw_iters(core, it, &at, err);
    const ms__edits *c =
        ms__edits_of(core, q->location, merge->reading.locked, &result);
    if (result != MS_OK) return ms__no_memory(err, sizeof(ms__edits));
    merge->reading.edits = c;
    merge->reading.changed = c != NULL;
    return ms__view_iters(core, it, &at, err);
}

/* Sets the places of a query: bounds by sequence number, up to the present end. */
static void ms__query_bounds(ms__core *core, ms_cursor *it)
{
    ms__reading *s = &it->of.merge.reading;
    const ms_query *q = &it->query;
    const ms__tail *t = s->tail;
    uint32_t end = ms__load32(&t->end);
    ms__sought f;
    s->now = ms__place(t->segment, end);
    if (q->as_of > 0 && q->as_of < s->now) s->now = q->as_of;
    s->from = !MS__SMALL && q->as_from == 1 ? 0 : q->as_from; /* 1: see ms__facts_read */
    s->to = it->now = s->now;
    if (q->before_seq > 0) {
        uint64_t to = ms__place_of(core, t, end, q->before_seq, s->locked, &s->result);
        if (to < s->to) s->to = to;
    }
    if (q->after_seq == UINT64_MAX) s->from = s->to;
    if (q->after_seq == UINT64_MAX || q->after_seq == 0) return;
    bool raw = ms__raw_of(q) != 0; /* changes of it may come before the next message */
    f = ms__seek(core, t, end, q->after_seq + !raw, s->locked, &s->result);
    bool own = raw && f.record && ms_seq(ms__msg(f.record)) == q->after_seq;
    s->from = own ? f.place + 1 : f.past;
}

/* Adds the damage that the iterators found to the cursor. A range is not added that was
 * reported at the opening: it may have had changes as well as messages. */
static void ms__reading_report(ms_cursor *it)
{
    ms__reading *s = &it->of.merge.reading;
    uint64_t known = 0;
    if (MS__LOG)
        known = s->damaged_ranges < s->announced ? s->damaged_ranges : s->announced;
    s->announced -= known;
    it->damaged += s->damaged_ranges - known;
    it->damaged_ranges += s->damaged_ranges - known;
    it->damaged += s->damaged_records;
    s->damaged_ranges = s->damaged_records = 0;
    if (s->result != MS_OK) it->result = s->result;
    else if (it->damaged > 0) it->result = MS_E_DAMAGED;
}

/* Returns the hash of the location of a query, as headers have it; 0: all locations. */
static uint32_t ms__where_of(const ms__tail_names *names, ms_str location)
{
    if (ms__is_empty(location)) return 0;
    return (uint32_t)(ms__name_hash(names, MS__LOCS, 0, location) >> 32);
}

/* Counts damage that a query may lack a message of: holes of the tail, and changes of its
 * location of which nothing is known, but not before the oldest of the newest n. */
static MS__NOINLINE void ms__damage_report(ms_cursor *it)
{
    ms__merge *merge = &it->of.merge;
    ms__reading *s = &merge->reading;
    const ms_query *q = &it->query;
    const ms__tail *t = s->tail;
    uint32_t segment = t->segment;
    uint64_t from = s->from;
    if (q->after_seq == UINT64_MAX) return;
    if (merge->full) from = it->ready ? merge->last_place : ms__heap_first(it)->place;
    if (MS__LOG && s->edits && from < s->edits->damaged_to) {
        s->announced = s->edits->damaged;
        it->damaged += s->announced;
        it->damaged_ranges += s->announced;
    }
    if (MS__LOG && s->to >> 32 < segment) return;
    uint32_t found[2] = {0, 0};
    if (MS__LOG && from >> 32 < segment) from = 0;
    ms__tail_holes(t, (uint32_t)from, (uint32_t)s->to,
                   ms__where_of(&t->names, q->location), ms__raw_of(q), found);
    s->damaged_ranges += found[0];
    if (MS__LOG && found[0] > 0) { /* the edits count it, too */
        if (s->unsure) s->damaged_ranges--;
        s->unsure = true;
    }
    it->damaged += found[1];
}

/* Opens a cursor over a tail. Its query is resolved. */
static ms_result ms__core_open(ms__core *core, const ms__tail *t, ms_cursor *it,
                               ms_error *err)
{
    ms__merge *merge = &it->of.merge;
    ms__reading *s = &merge->reading;
    s->tail = t;
    s->query = &it->query;
    if (MS__LOG) s->runs = merge->runs;
    ms__query_bounds(core, it);
    s->backward = ms__starts_back(&it->query);
    if (s->from < s->to && s->result == MS_OK) {
        MS__TRY(ms__query_iters(core, it, err));
        if (it->query.by_time) MS__TRY(ms__merge_sort(core, it, err));
        else ms__merge_window(core, it);
    }
    if (ms__load32(&t->n_holes) > 0 || (MS__LOG && s->edits && s->edits->damaged > 0))
        ms__damage_report(it);
    ms__reading_report(it);
    return s->result == MS_OK ? MS_OK : ms__no_memory(err, 0);
}

/* ---- Reading. */

static const ms_msg *ms__core_next(ms_store *store, ms_cursor *it)
{
    ms__core *core = ms__core_of(store);
    ms__merge *merge = &it->of.merge;
    ms__reading *s = &merge->reading;
    const unsigned char *r = NULL;
    s->query = &it->query;
    if (MS__LOG) s->runs = merge->runs;
    if (merge->sorted.items) {
        const ms__timed *item = ms__sorted_next(&merge->sorted, &it->query);
        return item ? ms__msg(item->record) : NULL;
    }
    if (!MS__SMALL && it->next < it->ready)
        return ms__msg(merge->queue.ready[it->next++]);
    if (merge->left == 0) return NULL;
    if (!MS__SMALL && merge->plain) r = ms__plain_step(core, it);
    if (!r && (r = ms__merge_step(core, it, &it->damaged)) != NULL) merge->left--;
    uint64_t damaged = s->damaged_ranges | s->damaged_records | it->damaged;
    if (MS__SMALL || damaged > 0 || s->result != MS_OK) ms__reading_report(it);
    return r ? ms__msg(r) : NULL;
}

/* Returns whether a change of which nothing is known may be lost after a place, in a log.
 * An arena store does not know where salvage has met damage. */
static MS__UNUSED bool ms__change_lost(const ms__tail *t, const ms__edits *c,
                                       uint64_t place)
{
    if (c && c->damaged > 0 && place < c->damaged_to) return true;
    for (uint32_t i = ms__load32(&t->n_holes); i-- > 0;)
        if (t->holes[i].kind == 0 && ms__place(t->segment, t->holes[i].unit) > place)
            return true;
    return false;
}

/* Returns a message of a store with its present content, see ms__get_known. */
static ms_result ms__core_get(ms__core *core, const ms__tail *t, uint64_t seq,
                              const ms_msg **msg, ms_error *err)
{
    ms__sought f;
    bool sound = true;
    ms_result result = MS_OK;
    uint32_t end = ms__load32(&t->end);
    if (seq == 0 || seq == UINT64_MAX)
        return ms__fail(err, MS_E_NOT_FOUND, "no message %u", seq);
    const unsigned char *own = ms__record_by_seq(core, t, end, seq, false, &f, &result),
                               *r = own;
    const ms__edits *c =
        own ? ms__edits_of(core, ms__location(ms__msg(own)), false, &result) : NULL;
    if (result != MS_OK) return ms__no_memory(err, 0);
    if (own)
        r = ms__shown_at(core, t, c, own, f.place, ms__place(t->segment, end), &sound);
    if (!own && !f.damaged) return ms__fail(err, MS_E_NOT_FOUND, "no message %u", seq);
    /* for a redaction, which erases what is withheld, too */
    if (own) *msg = ms__msg(own);
    if (!own || !sound)
        return ms__fail(err, MS_E_DAMAGED, "message %u, or a change of it, is damaged",
                        seq);
    *msg = ms__msg(r ? r : own);
    if (!r) return ms__fail(err, MS_E_HIDDEN, "message %u is hidden", seq);
    bool lost = ms__sealed_of(core) && ms__change_lost(t, c, f.place);
    return lost ? MS__UNSURE : MS_OK;
}

/* ---- A walk of the store itself over one posting list, under its lock. It is smaller
 * than a cursor, since an append has it on its stack. */

typedef struct ms__list_walk {
    ms__reading reading;
    ms_query query;
    ms__list_iter iter;
    uint64_t damaged;    /* records, the last one before this place: */
    uint64_t damaged_to;
    uint64_t place;      /* of the record returned last */
} ms__list_walk;

/* For a walk that reads edits: holds an edit whose body is damaged; other records do not
 * matter. False: the kind is not known, or there is no memory. */
static MS__UNUSED bool ms__walk_hold(ms__core *core, const ms__reading *s,
                                     const ms__list_iter *li, const unsigned char *r)
{
    ms__hole hole = ms__hole_of(r);
    return s->load && hole.kind != 0 &&
           ms__edit_hold(core->edits, s->load, &hole, li->place);
}

/* Begins a walk over a list of a location, between two places. */
static void ms__list_walk_begin(ms__core *core, ms__list_walk *w, ms_str location,
                                unsigned kind, uint64_t from, uint64_t to, bool backward)
{
    ms__tail *t = core->tail;
    const ms__loc *loc = ms__loc_get(&t->names, location, false);
    const ms__edits *c = loc ? (const ms__edits *)loc->edits : NULL;
    memset(w, 0, sizeof *w);
    w->query.location = location;
    w->query.raw = kind == MS__P_CHANGE;
    w->reading.tail = t;
    w->reading.query = &w->query;
    w->reading.from = from;
    w->reading.to = to;
    w->reading.now = UINT64_MAX;
    w->reading.backward = backward;
    w->reading.locked = true;
    w->iter.list = ms__list_number(
        ms__name_hash(&t->names, MS__LOCS, 0, location), kind);
    if (kind == MS__P_LOCATION && loc) w->iter.in_tail = &loc->all;
    if (kind == MS__P_CHANGE && c) w->iter.in_tail = &c->changes;
    w->iter.from = ms__list_iter_start(&w->reading);
}

/* Returns the next valid record of a walk, with edits applied; NULL at the end, or on an
 * error (reading.result). */
static const unsigned char *ms__list_walk_step(ms__core *core, ms__list_walk *w)
{
    ms__reading *s = &w->reading;
    ms__list_iter *li = &w->iter;
    while (ms__list_iter_load(core, s, li)) {
        const unsigned char *r = li->record;
        ms__state_of state = ms__entry_state(core, s, li->index, li->entry, r);
        bool own = state != MS__WHOLE || ms__list_iter_own(s, li, r);
        w->place = li->place;
        if (!own) r = NULL;
        else if (MS__CHANGES && s->edits) r = ms__list_iter_shown(core, s, li, &state);
        if (s->backward) li->pos--;
        else li->pos++;
        if (r && state == MS__WHOLE) return r;
        bool held = MS__LOG && r && state == MS__HEADER_ONLY &&
                    ms__walk_hold(core, s, li, r);
        if (!r || held) continue;
        w->damaged++;
        if (MS__LOG) w->damaged_to = w->place + 1;
    }
    return NULL;
}

/* Returns whether the tail may have lost a message of a location (empty: any) from a
 * place on. */
static MS__NOINLINE bool ms__tail_lacks(const ms__tail *t, ms_str location, uint64_t from)
{
    uint32_t found[2] = {0, 0};
    uint32_t unit = MS__LOG && from >> 32 < t->segment ? 0 : (uint32_t)from;
    if (ms__load32(&t->n_holes) > 0)
        ms__tail_holes(t, unit, UINT32_MAX, ms__where_of(&t->names, location), 0, found);
    return (found[0] | found[1]) != 0;
}

/* Begins a walk over the visible messages of a location; none if *result is set. */
static MS__NOINLINE void ms__walk_visible(ms__core *core, ms__list_walk *w,
                                          ms_str location, uint64_t from, uint64_t to,
                                          bool backward, ms_result *result)
{
    const ms__edits *c = ms__edits_of(core, location, true, result);
    ms__list_walk_begin(core, w, location, MS__P_LOCATION, from, to, backward);
    w->reading.edits = c;
    w->reading.result = *result;
}

/* Returns the number of the last visible message of a location; 0: none. MS_E_DAMAGED: it
 * is not newer than the caller expects, and a newer one may be damaged. */
static MS__NOINLINE uint64_t ms__last_of(ms__core *core, const ms_append_opts *opts,
                                         ms_result *result)
{
    ms__list_walk w;
    const ms__tail *t = core->tail;
    ms_str location = opts->location;
    ms__walk_visible(core, &w, location, 0, ms__place(t->segment, t->filled), true,
                     result);
    const unsigned char *r = ms__list_walk_step(core, &w);
    uint64_t last = r ? ms_seq(ms__msg(r)) : 0, from = r ? w.place : 0;
    *result = w.reading.result;
    if (*result != MS_OK || last > opts->expect_seq) return last;
    bool lost = w.damaged > 0 || ms__tail_lacks(t, location, from);
    if (MS__LOG && w.reading.damaged_ranges + w.reading.damaged_records > 0)
        lost |= ms__sealed_of(core)->lacks(core, location, from, result);
    if (lost && *result == MS_OK) *result = MS_E_DAMAGED;
    return last;
}

/* Returns the number of visible messages of a location from first to last. */
static MS__NOINLINE uint64_t ms__visible(ms__core *core, ms_str location, uint64_t first,
                                         uint64_t last, ms_result *result)
{
    ms__list_walk w;
    uint64_t n = 0;
    const ms__tail *t = core->tail;
    uint64_t from = ms__place_of(core, t, t->filled, first, true, result);
    uint64_t to = ms__place(t->segment, t->filled);
    if (last < UINT64_MAX) to = ms__place_of(core, t, t->filled, last + 1, true, result);
    if (*result != MS_OK || from >= to) return 0;
    ms__walk_visible(core, &w, location, from, to, false, result);
    while (ms__list_walk_step(core, &w)) n++;
    *result = w.reading.result;
    return n;
}
