
/* ==== [log-index] the index records of a log, read and made ========================
 * The file carries its own index, in two tiers:
 *
 *   records [segment index 0] records [segment index 1] ... records [segment index 31] ..
 *                  ^                         ^                             ^
 *                  +-------------------- summary 0, filters ---------------+
 *
 *   - A segment index holds the posting lists of one segment: for each list its number (a
 *     hash) and the records that are in it. It is written at once when a segment is full.
 *   - A summary covers 32 segments. Its Bloom filters show which of the 32 may have a
 *     list. It is written in portions after appends, so that no append stalls. Filters
 *     need no merge, and a lookup reads one place in memory. For 32 segments of 65,536
 *     messages with a key each they take 4 MB; lists of segments would take 25 MB.
 *
 * A lookup of a posting list goes from segment to segment (ms__segment_has): the filter
 * of a group of 32 excludes most, the segment index confirms. Both are read when they are
 * first needed, and known by a pointer afterwards (ms__entry_node). A segment index is
 * checked block by block, each block when it is first read: a lookup of an absent list
 * reads two. So the newest 20 of 1,000,000 locations take a fresh handle 0.5 ms, and 4 to
 * 16 ms with checks of whole records.
 *
 * Clustered segments. Appended, the messages of one conversation among 1,000 lie on a
 * page each, and a new process takes a page fault for each: 7.5 us a message. A rewrite
 * sorts by location and view, in segments of up to 256 MiB: 0.5 us, and 40 ns instead of
 * 150 when it is read again (1,000,000 messages of 640 bytes, each location read by a
 * process of its own; `make bench BENCH='--only R8,R9'` has such a measure). Sorted by
 * location alone a view of half of its messages takes 1.7 times as long.
 *
 *   - Entries are numbered in the order in which the records stand. So all that a view
 *     reads of the index stands together, too, and one block or two are checked of the
 *     places of half a million records.
 *   - Places ([core]) have to rise with numbers, and must not change when the index of a
 *     segment is derived and lacks what is damaged: open cursors, followers and forks
 *     hold places. So a place is the number itself (`number_of`); logs with numbers of
 *     over 32 bits are not clustered. `order` has the entries in the order of numbers:
 *     queries over everything, bounds, and lookups of one number read it.
 *   - The entries of a posting list are in the order of numbers. They rise, except in the
 *     lists that have the records of several views (a timeline, an agent's rest).
 *   - A tail does not take records in another order. A walk that fills the tail from a
 *     clustered segment whose index is damaged seals it in memory (ms__tail_seal).
 *
 * Damage never hides a message:
 *   - With a bad summary or filter, each of its 32 segments may have any list.
 *   - A segment index with a bad block is derived from the records of its segment, in
 *     memory (ms__segment_derive), when the block is first read (ms__segment_mend). No
 *     list has what is damaged there: each query that reads the segment reports it. In a
 *     clustered one that holds for all queries of its location, whatever numbers they ask
 *     for: what is damaged may have had any number of the segment.
 *   - The offset of a segment index is in its summary and in each of the next 32 segment
 *     indexes. That of a summary is in each later one and in the newest segment index. So
 *     a damaged record hides no other.
 *
 * The walk from record to record (ms__record_walk) serves opening, following, verifying
 * and deriving alike. It stops at the first invalid byte, or steps over it as damage:
 *
 *      trusted                                        limit
 *   ------|----------------------------------------------|
 *   below trusted: invalid bytes are damage, and the walk goes on at the next valid
 *   record. Above trusted they end the walk. Nothing is read from limit on.
 * ================================================================================== */

/* ---- Making a segment index from a tail. */

/* One posting list of the tail, to be written to the index. */
typedef struct ms__row {
    uint64_t number; /* of the list */
    const ms__postings *entries; /* NULL: the one entry */
    uint32_t entry, count;
} ms__row;

static void ms__row_add(ms__row *rows, uint32_t *n, uint64_t hash, unsigned kind,
                        const ms__postings *s)
{
    if (s && s->count == 0) return;
    if (rows) {
        ms__row *row = &rows[*n];
        memset(row, 0, sizeof *row);
        row->number = ms__list_number(hash, kind);
        row->entries = s;
        row->count = s ? s->count : 1;
    }
    ++*n;
}

static ms__key *ms__key_at(const ms__node *n)
{
    return (ms__key *)(void *)(uintptr_t)n;
}

/* Collects every posting list of a tail; with rows NULL it only counts them. */
static uint32_t ms__tail_rows(const ms__tail *t, ms__row *rows)
{
    uint32_t n = 0;
    const ms__chain *linked = t->names.linked;
    for (const ms__loc *l = ms__loc_at(linked[MS__LOCS].first); l;
         l = ms__loc_at(l->name.node.next)) {
        uint64_t h = l->name.node.hash;
        ms__row_add(rows, &n, h, MS__P_LOCATION, &l->all);
        ms__row_add(rows, &n, h, MS__P_CONVERSATION, &l->conversation);
        ms__row_add(rows, &n, h, MS__P_GLOBAL, &l->global);
        const ms__edits *c = (const ms__edits *)l->edits;
        if (!c) continue;
        ms__row_add(rows, &n, h, MS__P_CHANGE, &c->changes);
        uint64_t facts = ms__name_hash(&t->names, MS__FACTS, h, ms_str_n("", 0));
        ms__row_add(rows, &n, facts, MS__P_CHANGE, &c->facts);
    }
    for (const ms__stream *f = ms__stream_at(linked[MS__STREAMS].first); f;
         f = ms__stream_at(f->name.node.next))
        ms__row_add(rows, &n, f->name.node.hash, MS__P_CHANGE, &f->parts);
    for (const ms__agent *a = ms__agent_at(linked[MS__AGENTS].first); a;
         a = ms__agent_at(a->name.node.next)) {
        ms__row_add(rows, &n, a->name.node.hash, MS__P_TRACE, &a->trace);
        ms__row_add(rows, &n, a->name.node.hash, MS__P_REST, &a->rest);
    }
    for (const ms__key *k = ms__key_at(linked[MS__KEYS].first); k;
         k = ms__key_at(k->node.next)) {
        ms__row_add(rows, &n, k->node.hash, MS__P_KEY, NULL);
        if (rows) rows[n - 1].entry = k->entry;
    }
    return n;
}

static uint32_t ms__row_bucket(const ms__row *row, uint32_t bits)
{
    return bits ? (uint32_t)(row->number >> (64 - bits)) : 0;
}

/* Sorts rows by list number in linear time: into buckets by the highest bits, which are
 * as good as random, then by insertion within each. begin: room for (1 << bits) + 1
 * numbers. */
static void ms__rows_sort(const ms__row *rows, ms__row *sorted, uint32_t n,
                          uint32_t *begin, uint32_t bits)
{
    uint32_t buckets = (uint32_t)1 << bits;
    memset(begin, 0, ((size_t)buckets + 1) * sizeof *begin);
    for (uint32_t i = 0; i < n; i++) begin[ms__row_bucket(&rows[i], bits)]++;
    for (uint32_t b = 0, at = 0; b <= buckets; b++) {
        uint32_t count = begin[b];
        begin[b] = at;
        at += count;
    }
    for (uint32_t i = 0; i < n; i++)
        sorted[begin[ms__row_bucket(&rows[i], bits)]++] = rows[i];
    for (uint32_t i = 1; i < n; i++) {
        ms__row hold = sorted[i];
        uint32_t at = i;
        for (; at > 0 && sorted[at - 1].number > hold.number; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = hold;
    }
}

static void ms__entries_copy(const ms__postings *list, uint32_t *to)
{
    uint32_t end = list->count;
    for (const ms__chunk *c = (const ms__chunk *)list->tail; end > 0; c = c->before) {
        if (c->first >= end) continue; /* reserved by an append that failed */
        memcpy(to + c->first, ms__chunk_entries(c), (end - c->first) * sizeof *to);
        end = c->first;
    }
}

/* Numbers the records of a tail in their order: units[i] is where record i begins, and
 * number has i at a fourth of that, since a record is longer than 4 units. */
static void ms__records_number(const ms__tail *t, uint32_t *units, uint32_t *number)
{
    uint32_t slots = t->filled / 4 + 1, messages = t->names.all.count, n = 0;
    ms__entries_copy(&t->names.all, units);
    ms__entries_copy(&t->names.others, units + messages);
    memset(number, 0xff, slots * sizeof *number);
    for (uint32_t i = 0; i < t->count; i++)
        number[units[i] / 4] = units[i] | (i < messages ? MS__IS_MESSAGE : 0);
    for (uint32_t i = 0; i < slots; i++) {
        if (number[i] == UINT32_MAX) continue;
        units[n] = number[i];
        number[i] = n++;
    }
}

/* Copies the entries of a row, as numbers of records, to `to`; returns how many. */
static uint32_t ms__row_entries(const uint32_t *number, const ms__row *row, uint32_t *to)
{
    if (row->entries) ms__entries_copy(row->entries, to);
    else to[0] = row->entry;
    for (uint32_t i = 0; i < row->count; i++) to[i] = number[to[i] / 4];
    return row->count;
}

static bool ms__entry_less(const void *a, const void *b)
{
    return *(const uint32_t *)a < *(const uint32_t *)b;
}

/* Working memory for making one segment index. */
typedef struct ms__segment_work {
    ms__row *rows, *sorted;
    bool clustered;
    ms__keyed *keyed; /* clustered: number and entry of each record, with room to sort; */
    uint32_t *rank;   /* in that room: how many records have a smaller number, by entry */
    uint32_t *begin, *entries;
    uint32_t *units, *number; /* of the records: see ms__records_number */
    size_t size;
    uint32_t n, bits;
} ms__segment_work;

static bool ms__segment_work_get(ms__log *log, const ms__tail *t, ms__segment_work *w)
{
    w->n = ms__tail_rows(t, NULL);
    for (w->bits = 0; w->bits < 26 && w->n >> w->bits > 8;) w->bits++;
    size_t rows = (size_t)w->n * sizeof(ms__row);
    size_t keyed = w->clustered ? 2 * (size_t)t->count * sizeof *w->keyed : 0;
    size_t begin = (((size_t)1 << w->bits) + 1) * sizeof(uint32_t);
    w->size = 2 * rows + keyed + begin +
              (2 * (size_t)t->count + 2 + t->filled / 4) * sizeof(uint32_t);
    w->rows = (ms__row *)ms__log_resize(log, NULL, 0, w->size);
    if (!w->rows) return false;
    w->sorted = w->rows + w->n;
    w->keyed = (ms__keyed *)(void *)(w->sorted + w->n);
    w->begin = (uint32_t *)(void *)((char *)w->keyed + keyed);
    w->entries = (uint32_t *)(void *)((char *)w->begin + begin);
    w->units = w->entries + t->count + 1;
    w->number = w->units + t->count;
    ms__records_number(t, w->units, w->number);
    (void)ms__tail_rows(t, w->rows);
    ms__rows_sort(w->rows, w->sorted, w->n, w->begin, w->bits);
    return true;
}

/* Counts the rows from i on that have the same number: more than one where the hashes of
 * two names collide. */
static uint32_t ms__rows_same(const ms__segment_work *w, uint32_t i)
{
    uint32_t n = 1;
    while (i + n < w->n && w->sorted[i + n].number == w->sorted[i].number) n++;
    return n;
}

/* Counts what the arrays of the segment index will hold. */
static void ms__segment_count(const ms__tail *t, const ms__segment_work *w,
                              ms__segment *l)
{
    l->n = t->count;
    l->clustered = w->clustered;
    l->width = t->count > 65536 ? 4 : 2;
    l->bits = w->bits;
    for (uint32_t i = 0, same; i < w->n; i += same) {
        same = ms__rows_same(w, i);
        l->lists++;
        for (uint32_t k = 0; k < same; k++) l->postings += w->sorted[i + k].count;
    }
}

static void ms__put(const unsigned char *array, size_t i, uint32_t v)
{
    ms__put32((unsigned char *)(uintptr_t)array + i * 4, v);
}

static void ms__put_postings(const ms__segment *l, uint32_t at, const uint32_t *entries,
                             uint32_t n)
{
    unsigned char *p = (unsigned char *)(uintptr_t)l->posting + (size_t)at * l->width;
    for (uint32_t i = 0; i < n; i++, p += l->width) {
        if (l->width == 4) {
            ms__put32(p, entries[i]);
        } else {
            p[0] = (unsigned char)entries[i];
            p[1] = (unsigned char)(entries[i] >> 8);
        }
    }
}

static void ms__changed_put(const ms__log *log, const ms__segment *l)
{
    unsigned char *p = (unsigned char *)(uintptr_t)l->changed;
    const uint32_t *bits = (const uint32_t *)log->edits.bloom;
    if (l->n_changed == 0 || l->n_changed == UINT32_MAX) return;
    for (uint32_t word = 0; word < MS__BLOOM_BITS / 32; word++) {
        if (bits[word] == 0) continue; /* most words are empty */
        for (uint32_t i = word * 32; i < (word + 1) * 32; i++) {
            if (!(bits[word] >> (i % 32) & 1)) continue;
            *p++ = (unsigned char)i;
            *p++ = (unsigned char)(i >> 8);
        }
    }
}

static void ms__holes_put(const ms__tail *t, unsigned char *p)
{
    for (uint32_t i = 0; i < t->n_holes; i++, p += MS__HOLE_SIZE) {
        const ms__hole *h = &t->holes[i];
        ms__put64(p, h->seq);
        ms__put32(p + 8, h->where);
        ms__put32(p + 12, h->reach);
        ms__put32(p + 16, h->unit);
        ms__put32(p + 20, h->kind);
    }
}

/* Fills the arrays `order` and `number_of` of a clustered segment. This library makes
 * none with changes; a change would have the number of the message before. */
static void ms__order_fill(const ms__log *log, ms__segment_work *w,
                           const ms__segment *l)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        uint32_t unit = w->units[i] & ~MS__IS_MESSAGE;
        const unsigned char *r = ms__log_at(log, l->base + (uint64_t)unit * 8);
        uint64_t seq = ms_seq(ms__msg(r));
        if (r[4] == MS__KIND_MESSAGE && seq > last) last = seq;
        w->keyed[i].key = r[4] == MS__KIND_MESSAGE ? seq : last;
        w->keyed[i].value = i;
    }
    const ms__keyed *sorted = ms__keyed_sort(w->keyed, w->keyed + l->n, l->n);
    w->rank = (uint32_t *)(void *)(w->keyed + (sorted == w->keyed ? l->n : 0));
    for (uint32_t i = 0; i < l->n; i++) {
        uint32_t entry = (uint32_t)sorted[i].value;
        ms__put(l->order, i, entry);
        ms__put(l->number_of, entry, (uint32_t)sorted[i].key);
        w->rank[entry] = i;
    }
}

/* Sorts postings of a clustered segment by the numbers of their records. */
static void ms__postings_sort(const ms__segment_work *w, const ms__segment *l,
                              uint32_t *entries, uint32_t n)
{
    bool rising = true;
    for (uint32_t i = 0; i < n; i++) {
        entries[i] = w->rank[entries[i]];
        if (i > 0 && entries[i] < entries[i - 1]) rising = false;
    }
    if (!rising) ms__sort(entries, n, sizeof *entries, ms__entry_less);
    for (uint32_t i = 0; i < n; i++) entries[i] = ms__segment_entry(l, entries[i]);
}

/* Fills the arrays of records, lists and postings. */
static void ms__segment_fill(const ms__segment_work *w, const ms__segment *l)
{
    uint32_t at = 0, list = 0, bucket = 0;
    for (uint32_t i = 0; i < l->n; i++) ms__put(l->record, i, w->units[i]);
    for (uint32_t i = 0, same; i < w->n; i += same, list++) {
        uint32_t n = 0;
        const ms__row *row = &w->sorted[i];
        same = ms__rows_same(w, i);
        for (uint32_t k = 0; k < same; k++)
            n += ms__row_entries(w->number, &row[k], w->entries + n);
        if (w->clustered) ms__postings_sort(w, l, w->entries, n);
        else if (same > 1) ms__sort(w->entries, n, sizeof *w->entries, ms__entry_less);
        for (; bucket <= ms__row_bucket(row, w->bits); bucket++)
            ms__put(l->bucket, bucket, list);
        ms__put64((unsigned char *)(uintptr_t)l->numbers + (size_t)list * 8, row->number);
        ms__put(l->begin, list, at | (same > 1 ? MS__MIXED : 0));
        ms__put_postings(l, at, w->entries, n);
        at += n;
    }
    for (; bucket <= (uint32_t)1 << w->bits; bucket++) ms__put(l->bucket, bucket, list);
    ms__put(l->begin, list, at);
}

static void ms__segment_fixed(const ms__tail *t, const ms__segment *l, unsigned char *r)
{
    unsigned char *p = r + MS__HEADER;
    ms__put32(p + 64, l->listed);
    ms__put32(p + 96, l->number);
    ms__put32(p + 100, l->n);
    ms__put64(p + 104, l->base);
    ms__put64(p + 112, t->first_seq);
    ms__put64(p + 120, t->names.last_seq);
    ms__put64(p + 128, (uint64_t)t->first_time);
    ms__put64(p + 136, (uint64_t)t->last_time);
    ms__put64(p + 144, t->names.messages);
    ms__put64(p + 152, t->names.bytes);
    ms__put32(p + 160, l->lists);
    ms__put32(p + 164, l->postings);
    ms__put32(p + 176, l->bits);
    ms__put32(p + 180, l->width);
    ms__put32(p + 168, t->n_holes);
    ms__put32(p + 172, l->clustered);
    ms__put32(p + 184, t->damaged_ranges);
    ms__put32(p + 188, l->n_changed);
}

static ms__entry_node *ms__node_entry(const ms__node_table *table, uint32_t i)
{
    return (ms__entry_node *)ms__load_ptr((void *const *)&table->entries) + i;
}

/* Writes the offsets of n index records, from number `first` on. */
static void ms__list_encode(const ms__node_table *table, uint32_t first, uint32_t n,
                            unsigned char *p)
{
    for (uint32_t i = first; i < first + n; i++, p += 8)
        ms__put64(p, ms__node_entry(table, i)->offset);
}

/* Makes the segment index of a tail, to be stored at log->end, without the record's two
 * checks. state: at its end; NULL: zeros, and no directory. The caller frees the result,
 * *size bytes with padding. NULL: no memory, or too large for a record (*size is 0). */
static unsigned char *ms__segment_make(ms__log *log, const ms__tail *t, bool clustered,
                                       const ms__state *state, uint32_t *size)
{
    ms__segment_work w;
    ms__segment l;
    *size = 0;
    w.clustered = clustered;
    w.rank = NULL;
    if (t->filled >= MS__IS_MESSAGE || !ms__segment_work_get(log, t, &w)) return NULL;
    memset(&l, 0, sizeof l);
    l.number = t->segment;
    if (state) l.listed = t->segment < MS__FAN ? t->segment : MS__FAN;
    l.base = t->base;
    ms__segment_count(t, &w, &l);
    l.n_holes = t->n_holes;
    l.n_changed = log->edits.n_bloom;
    if (l.n_changed > MS__BLOOM_MOST) l.n_changed = UINT32_MAX;
    uint64_t bytes = ms__segment_size(&l);
    unsigned char *r = NULL;
    if (bytes <= MS__RECORD_MAX) {
        *size = (uint32_t)bytes;
        r = (unsigned char *)ms__log_resize(log, NULL, 0, ms__padded(*size));
    }
    if (r) {
        memset(r, 0, MS__SEGMENT_FIXED);
        ms__own_header(r, bytes, MS__KIND_INDEX, MS__INDEX_SEGMENT, log->sum.last_seq);
        ms__segment_arrays(&l, r);
        ms__segment_fixed(t, &l, r);
        if (l.clustered) ms__order_fill(log, &w, &l);
        ms__segment_fill(&w, &l);
        ms__changed_put(log, &l);
        ms__holes_put(t, (unsigned char *)(uintptr_t)l.holes);
        if (state) ms__state_encode(state, r);
        ms__list_encode(&log->index.segments, l.number - l.listed, l.listed,
                        (unsigned char *)(uintptr_t)l.directory);
        for (uint32_t b = 0; b < l.blocks; b++)
            ms__put(l.checks, b, ms__segment_block(&l, b));
        ms__put(l.checks, l.blocks, ms__segment_front(&log->id, log->end, &l));
    }
    (void)ms__log_resize(log, w.rows, w.size, 0);
    return r;
}

/* ---- Index records in memory, by number. */

/* Makes room for number i. False: no memory. */
static MS__ONCE bool ms__nodes_reserve(ms__log *log, ms__node_table *table, uint32_t i)
{
    ms_alloc counted = ms__log_alloc(log);
    return ms__table_reach(&counted, &table->table, &table->entries,
                           sizeof(ms__entry_node), (size_t)i + 1, NULL) == MS_OK;
}

#define MS__RANK 256u

static size_t ms__segment_bits(const ms__segment *l)
{
    return ((size_t)l->n / 32 + 1 + l->blocks / 32 + 1 + l->n / MS__RANK + 2) * 4;
}

static void ms__segment_free(ms__log *log, ms__segment *l)
{
    if (!l) return;
    if (l->own) (void)ms__log_resize(log, l->own, ms__padded(l->own_size), 0);
    (void)ms__log_resize(log, l, sizeof *l + ms__segment_bits(l), 0);
}

static size_t ms__summary_bits(const ms__summary *s)
{
    return (((size_t)1 << s->bits) / 32 + 1) * 4;
}

/* Frees all index records in memory. */
static void ms__nodes_clear(ms__log *log)
{
    ms__node_table *segments = &log->index.segments, *summaries = &log->index.summaries;
    for (uint32_t i = 0; i < segments->n; i++) {
        ms__entry_node *e = ms__node_entry(segments, i);
        ms__segment_free(log, (ms__segment *)e->node);
        ms__segment_free(log, e->bad);
        memset(e, 0, sizeof *e);
    }
    for (uint32_t i = 0; i < summaries->n; i++) {
        ms__entry_node *e = ms__node_entry(summaries, i);
        ms__summary *s = (ms__summary *)e->node;
        if (s) (void)ms__log_resize(log, s, sizeof *s + ms__summary_bits(s), 0);
        memset(e, 0, sizeof *e);
    }
    ms__store32(&segments->n, 0);
    ms__store32(&summaries->n, 0);
    log->index.hint = log->index.hint_before = 0;
    log->index.unlisted = 0;
}

/* Copies a decoded segment index to allocated memory, with room for its bits. */
static ms__segment *ms__segment_new(ms__log *log, const ms__segment *from)
{
    size_t bits = ms__segment_bits(from);
    ms__segment *l = (ms__segment *)ms__log_resize(log, NULL, 0, sizeof *l + bits);
    if (!l) return NULL;
    *l = *from;
    l->checked = (uint32_t *)(void *)(l + 1);
    l->sound = l->checked + l->n / 32 + 1;
    l->ranks = l->sound + l->blocks / 32 + 1;
    memset(l->checked, 0, bits);
    const ms__mapping *m = ms__mapping_of(log, l->base);
    if (l->offset > l->base && l->offset - m->start <= m->size)
        l->home = m->base + (l->base - m->start);
    return l;
}

static ms__summary *ms__summary_new(ms__log *log, const ms__summary *from)
{
    size_t bits = ms__summary_bits(from);
    ms__summary *s = (ms__summary *)ms__log_resize(log, NULL, 0, sizeof *s + bits);
    if (!s) return NULL;
    *s = *from;
    s->checked = (uint32_t *)(void *)(s + 1);
    memset(s->checked, 0, bits);
    return s;
}

/* Returns the record at offset if its header holds, else NULL. whole: it is an INDEX
 * record, and its body has to match, too. */
static const unsigned char *ms__index_record(const ms__log *log, uint64_t offset,
                                             uint64_t limit, bool whole)
{
    if (offset < MS__FIRST_RECORD || offset % 8 != 0 || offset >= limit) return NULL;
    const unsigned char *r = ms__log_at(log, offset);
    if (!ms__size_fits(r, limit - offset)) return NULL;
    ms__log_populate(log, offset, whole ? ms__get32(r) : MS__SEGMENT_FIXED);
    if (!whole) return ms__holds_at(log->id.crc, offset, r) ? r : NULL;
    if (ms__get32(r) > 4096) ms__log_read_ahead(log, offset, ms__get32(r));
    return ms__index_holds(&log->id, offset, r) ? r : NULL;
}

/* Decodes the segment index at offset, without its blocks, if it is valid. */
static bool ms__segment_at(const ms__log *log, uint64_t offset, uint64_t limit,
                           ms__segment *l)
{
    const unsigned char *r = ms__index_record(log, offset, limit, false);
    memset(l, 0, sizeof *l);
    if (!r || !ms__segment_decode(l, r, offset)) return false;
    ms__log_populate(log, offset, (uint64_t)(l->numbers - r));
    return ms__get32(l->numbers - 4) == ms__segment_front(&log->id, offset, l);
}

/* Decodes segment index i if its offset is known and it is valid. */
static bool ms__segment_known(const ms__log *log, uint32_t i, ms__segment *l)
{
    const ms__entry_node *e = ms__node_entry(&log->index.segments, i);
    return ms__segment_at(log, e->offset, log->end, l) && l->number == i && !e->bad;
}

/* ---- The walk. */

typedef struct ms__record_walk {
    ms__log *log;
    uint64_t at;      /* where the next record is expected */
    uint64_t limit;   /* nothing is read from here on */
    uint64_t trusted; /* invalid bytes below this are damage */
    uint64_t asked;   /* the walk has read ahead up to here */
    uint64_t last_seq; /* the largest number so far */
    uint32_t cluster;  /* of the last message, see ms__cluster_of; */
    uint64_t floor;    /* the largest number before its segment */
    bool quiet;       /* damage is not reported */
    uint64_t damaged, damaged_bytes, index_damaged; /* ranges; INDEX records */
    uint32_t n_holes; /* damaged ranges since the caller set it to 0 */
    ms__hole holes[MS__HOLES];
    uint64_t spent;          /* bytes of bodies that a search has checked */
    uint64_t over;           /* offset of a valid header whose record extends over the
                                limit; 0: none */
} ms__record_walk;

typedef enum ms__found {
    MS__FOUND_RECORD, /* a valid record; the walk is after it */
    MS__FOUND_END,    /* the limit, or invalid bytes that are no damage */
    MS__FOUND_FOREIGN /* a record of an unknown kind that readers must not ignore */
} ms__found;

/* The walk prefetches as many bytes as each record has, a page ahead: the processor
 * recognises a sequential walk only within a page. */
#define MS__RECORD_WALK_AHEAD 4096u

static void ms__record_walk_prefetch(const unsigned char *r, uint32_t size)
{
    if (size > 2 * MS__RECORD_WALK_AHEAD) return;
    for (uint32_t i = 0; i < size; i += 64) MS__PREFETCH(r + MS__RECORD_WALK_AHEAD + i);
}

/* Returns the largest number before a message: in a clustered segment, before that. */
static uint64_t ms__record_walk_floor(const ms__record_walk *s, const unsigned char *r)
{
    uint32_t cluster = ms__cluster_of(r);
    return cluster != 0 && cluster == s->cluster ? s->floor : s->last_seq;
}

/* Notes a valid message. */
static void ms__record_walk_message(ms__record_walk *s, const unsigned char *r)
{
    uint64_t seq = ms_seq(ms__msg(r));
    if (s->cluster != ms__cluster_of(r)) s->floor = s->last_seq;
    s->cluster = ms__cluster_of(r);
    if (s->last_seq < seq) s->last_seq = seq;
}

/* Returns whether a record with a valid header has a valid body and a larger number than
 * all before it, by (FF3). */
static bool ms__record_walk_body(const ms__record_walk *s, const unsigned char *r,
                                 uint64_t offset)
{
    ms__record_walk_prefetch(r, ms__get32(r));
    ms__log_populate(s->log, offset, ms__get32(r));
    if (!ms__is_listed(r)) return ms__body_check(r) == ms__get32(r + MS__AT_BODY_CHECK);
    return (r[4] != MS__KIND_MESSAGE ||
            (ms_seq(ms__msg(r)) > ms__record_walk_floor(s, r) &&
             (!ms__cluster_of(r) || ms_seq(ms__msg(r)) < MS__CLUSTER_SEQ))) &&
           ms__whole_at(offset, r);
}

/* Returns whether a valid record begins at `at`. The cheap checks come first. A budget
 * bounds the bodies that are checked, since a hostile file can make every place look like
 * a record. */
static bool ms__record_walk_candidate(ms__record_walk *s, uint64_t at, uint64_t limit)
{
    const unsigned char *r = ms__log_at(s->log, at);
    if (r[4] == 0 || r[4] >= MS__KIND_COUNT) return false;
    if (!ms__holds_at(s->log->id.crc, at, r)) return false;
    uint32_t size = ms__padded(ms__get32(r));
    if (!ms__size_fits(r, limit - at)) {
        if (s->over == 0 && size > s->limit - at) s->over = at;
        return false;
    }
    if (size > 65536 && s->spent / 4 > s->limit) return false;
    s->spent += size;
    return ms__record_walk_body(s, r, at);
}

/* Returns the next place on the 8-byte grid where a valid record begins, else limit. */
static MS__ONCE uint64_t ms__record_walk_seek(ms__record_walk *s, uint64_t from,
                                              uint64_t limit)
{
    for (uint64_t at = from; at < limit && limit - at >= MS__HEADER; at += 8)
        if (ms__record_walk_candidate(s, at, limit)) return at;
    return limit;
}

/* Counts a damaged range. r: a record whose header is valid, or NULL. */
static void ms__record_walk_hole(ms__record_walk *s, const unsigned char *r)
{
    ms__hole any;
    memset(&any, 0, sizeof any);
    bool full = s->n_holes == MS__HOLES;
    s->holes[full ? MS__HOLES - 1 : s->n_holes++] = r && !full ? ms__hole_of(r) : any;
    s->damaged++;
}

/* Steps over invalid bytes at s->at, below the trusted end. sized: a valid header shows
 * how far the record reaches. A record that reaches over the limit, with no valid
 * one after it, was truncated. Its header would hide what is appended there later, so the
 * walk ends before it. */
static void ms__record_walk_skip(ms__record_walk *s, bool sized)
{
    const unsigned char *r = ms__log_at(s->log, s->at);
    uint64_t from = s->at, limit = s->trusted < s->limit ? s->trusted : s->limit;
    bool index = sized && r[4] == MS__KIND_INDEX;
    uint64_t before = 0;
    s->over = 0;
    if (!sized && limit - from >= MS__HEADER)
        (void)ms__record_walk_candidate(s, from, limit);
    s->at = sized ? from + ms__padded(ms__get32(r))
                  : ms__record_walk_seek(s, from + 8, limit);
    if (s->at < limit) s->over = 0;
    if (s->over != 0) s->at = s->limit = s->trusted = s->over;
    if (s->at == from) return;
    if (s->at < limit && limit - s->at >= MS__HEADER) {
        r = ms__log_at(s->log, s->at);
        if (r[4] == MS__KIND_MESSAGE && ms__holds_at(s->log->id.crc, s->at, r))
            before = ms_seq(ms__msg(r));
    }
    if (index) {
        s->index_damaged++;
    } else {
        ms__record_walk_hole(s, sized ? ms__log_at(s->log, from) : NULL);
        s->damaged_bytes += s->at - from;
    }
    uint64_t after = s->last_seq;
    if (s->cluster) { /* any number of the segment */
        after = s->floor;
        before = 0;
    }
    if (!s->quiet)
        ms__log_event(s->log, index ? MS_LOG_INDEX_DAMAGE : MS_LOG_DAMAGE, from,
                     s->at - from, after, before, 0);
}

/* Counts the bytes that a LOST record reports as damage. */
static void ms__record_walk_lost(ms__record_walk *s, const unsigned char *r,
                                 uint64_t offset)
{
    uint64_t bytes = ms__lost_bytes(r, offset);
    ms__record_walk_hole(s, NULL);
    s->damaged_bytes += bytes;
    if (!s->quiet)
        ms__log_event(s->log, MS_LOG_DAMAGE, offset, bytes, s->last_seq, 0, 0);
}

/* Returns the next valid record, and steps over damage below the trusted end. */
static ms__found ms__record_walk_next(ms__record_walk *s, const unsigned char **out,
                                      uint64_t *offset)
{
    while (s->at < s->limit) {
        const unsigned char *r = ms__log_at(s->log, s->at);
        if (s->at >= s->asked) {
            uint64_t left = s->limit - s->at;
            ms__log_read_ahead(s->log, s->at, left < MS__FURTHER ? left : MS__FURTHER);
            s->asked = s->at + MS__FURTHER / 2;
        }
        bool sized = ms__size_fits(r, s->limit - s->at) && r[4] != 0 &&
                     ms__holds_at(s->log->id.crc, s->at, r);
        *out = r;
        *offset = s->at;
        if (sized && (r[4] >= 128 || (!MS__CHANGES && ms__is_change(r))))
            return MS__FOUND_FOREIGN;
        if (sized && ms__record_walk_body(s, r, s->at)) {
            if (r[4] == MS__KIND_MESSAGE) ms__record_walk_message(s, r);
            if (r[4] == MS__KIND_LOST) ms__record_walk_lost(s, r, s->at);
            s->at += ms__padded(ms__get32(r));
            return MS__FOUND_RECORD;
        }
        if (s->at >= s->trusted) return MS__FOUND_END;
        ms__record_walk_skip(s, sized);
    }
    return MS__FOUND_END;
}

/* Returns whether a valid record after s->at carries SYNCED. Then all before it had been
 * synced: the invalid bytes here are damage, and `trusted` moves to that record. */
static bool ms__record_walk_synced(ms__record_walk *s)
{
    uint64_t at = s->at + 8, found = 0;
    while ((at = ms__record_walk_seek(s, at, s->limit)) < s->limit) {
        const unsigned char *r = ms__log_at(s->log, at);
        if (r[7] & MS_FLAG_SYNCED) found = at;
        at += ms__padded(ms__get32(r));
    }
    if (found == 0) return false;
    s->trusted = found;
    return true;
}

/* Returns whether the log went on past s->at, though the watermark is there: a valid
 * record follows one with COMMIT. An append is stored after the one before is visible. So
 * the first page of the file is an older one. `trusted` moves after the last COMMIT. */
static bool ms__record_walk_passed(ms__record_walk *s)
{
    uint64_t at = s->at, whole = 0;
    bool passed = false;
    if (s->limit - at < MS__HEADER || ms__get64(ms__log_at(s->log, at)) == 0)
        return false;
    while ((at = ms__record_walk_seek(s, at, s->limit)) < s->limit) {
        const unsigned char *r = ms__log_at(s->log, at);
        if (whole != 0) passed = true;
        at += ms__padded(ms__get32(r));
        if (r[7] & MS_FLAG_COMMIT) whole = at;
    }
    if (passed) s->trusted = whole;
    return passed;
}

#define MS__SECTOR 512u /* what a disk writes as a whole, or not at all */

/* Returns whether some sector has only zeros from `from` on, of those with bytes of
 * [from, upto). */
static bool ms__sector_is_zero(const ms__log *log, uint64_t from, uint64_t upto,
                               uint64_t limit)
{
    while (from < upto) {
        const unsigned char *r = ms__log_at(log, from);
        uint64_t end = (from / MS__SECTOR + 1) * MS__SECTOR;
        if (end > limit) end = limit;
        size_t n = (size_t)(end - from), i = 0;
        while (i < n && r[i] == 0) i++;
        if (i == n) return true;
        from = end;
    }
    return false;
}

/* Decides by (FF4) about the invalid bytes at s->at, above the durable end: returns
 * whether they are damage, and moves `trusted` to the valid record after them. What no
 * valid record follows is dead either way, since the log ends after a COMMIT. */
static bool ms__record_walk_damaged(ms__record_walk *s)
{
    const unsigned char *r = ms__log_at(s->log, s->at);
    uint64_t left = s->limit - s->at, size = left < MS__HEADER ? left : MS__HEADER;
    bool sized = ms__size_fits(r, left) && r[4] != 0 &&
                 ms__holds_at(s->log->id.crc, s->at, r);
    if (sized) size = ms__get32(r);
    /* the disk has lost pages: no proof is left */
    bool lost = s->log->file.super_lost || s->log->map.bad_pages > 0;
    if (!lost && ms__sector_is_zero(s->log, s->at, s->at + size, s->limit)) return false;
    uint64_t next = s->at + (sized ? ms__padded(ms__get32(r)) : 8);
    s->trusted = ms__record_walk_seek(s, next, s->limit);
    return true;
}

/* Returns whether a record begins in [from, upto) that is valid, but for its number. */
static bool ms__holds_record(ms__log *log, uint64_t from, uint64_t upto)
{
    ms__record_walk s;
    memset(&s, 0, sizeof s);
    s.log = log;
    s.limit = upto;
    return ms__record_walk_seek(&s, from, upto) < upto;
}

/* ---- A segment index that cannot be read. */

/* Moves the holes that a walk has met to a tail. */
static void ms__holes_move(ms__tail *t, ms__record_walk *s)
{
    for (uint32_t i = 0; i < s->n_holes; i++) ms__tail_damage(t, &s->holes[i]);
    s->n_holes = 0;
}

/* Makes a segment index of a tail in memory alone. upto: where its record would be. */
static MS__NOINLINE ms__segment *ms__segment_in_memory(ms__log *log, const ms__tail *t,
                                                       bool clustered, uint64_t upto,
                                                       uint64_t last_seq)
{
    ms__segment made, *seg = NULL;
    uint32_t size = 0;
    unsigned char *own = ms__segment_make(log, t, clustered, NULL, &size);
    if (!own) return NULL;
    memset(&made, 0, sizeof made);
    bool made_whole = ms__segment_decode(&made, own, UINT64_MAX / 2);
    made.offset = upto;
    if (made_whole) seg = ms__segment_new(log, &made);
    if (!seg) {
        (void)ms__log_resize(log, own, ms__padded(size), 0);
        return NULL;
    }
    seg->next = upto;
    seg->state.last_seq = last_seq;
    seg->own = own;
    seg->own_size = size;
    return seg;
}

/* Walks [from, upto) into a tail of its own, and makes a segment index of that. */
static MS__NOINLINE ms__segment *ms__segment_derive(ms__log *log, uint32_t segment,
                                                    uint64_t from, uint64_t upto,
                                                    uint64_t last_seq, bool quiet)
{
    ms__record_walk s;
    const unsigned char *r;
    uint64_t offset;
    bool room = true, clustered = false;
    memset(&s, 0, sizeof s);
    s.log = log;
    s.at = from;
    s.limit = s.trusted = upto;
    s.last_seq = last_seq;
    s.quiet = quiet;
    ms__tail *t = ms__tail_new(log, from, segment);
    if (!t) return NULL;
    while (room && ms__record_walk_next(&s, &r, &offset) == MS__FOUND_RECORD) {
        ms__holes_move(t, &s);
        if (ms__cluster_of(r)) clustered = true;
        if (ms__is_listed(r)) room = ms__tail_enter(&log->core, t, r, offset);
    }
    ms__holes_move(t, &s);
    if (clustered && s.last_seq >= MS__CLUSTER_SEQ) { /* a later one is in it, too */
        ms__hole any;
        memset(&any, 0, sizeof any);
        ms__tail_damage(t, &any); /* places do not rise: all that reads it reports it */
    }
    ms__segment *seg =
        room ? ms__segment_in_memory(log, t, clustered, upto, s.last_seq) : NULL;
    ms__tail_free(log, t);
    return seg;
}

/* Returns how many damaged ranges of a segment its lists may lack records of: those known
 * when its index was made. Lists have the records that were damaged later. */
static uint32_t ms__segment_lost(const ms__segment *l)
{
    return l->damaged_ranges;
}

/* ---- The offsets of index records. */

/* Enters n offsets of index records, of numbers from `first` on. A known offset stays. */
static void ms__offsets_enter(ms__log *log, ms__node_table *table, const unsigned char *p,
                              uint32_t first, uint32_t n)
{
    for (uint32_t i = first; i < first + n && i < table->n; i++, p += 8) {
        ms__entry_node *e = ms__node_entry(table, i);
        uint64_t offset = ms__get64(p);
        if (e->offset || offset == 0 || offset % 8 != 0) continue;
        e->offset = offset;
        if (table == &log->index.segments && i > log->index.unlisted)
            log->index.unlisted = i;
    }
}

/* Enters the offsets that segment index i lists. */
static void ms__listed_offsets_enter(ms__log *log, uint32_t i)
{
    ms__segment l;
    ms__entry_node *e = ms__node_entry(&log->index.segments, i);
    if (e->listed || e->offset == 0) return;
    e->listed = true;
    if (!ms__segment_known(log, i, &l)) return;
    ms__offsets_enter(log, &log->index.segments, l.directory, i - l.listed, l.listed);
    if (l.state.summaries == 0 || l.state.summaries > log->index.summaries.n) return;
    e = ms__node_entry(&log->index.summaries, l.state.summaries - 1);
    if (e->offset == 0) e->offset = l.state.summary;
}

/* Looks for the offset of segment index i in later ones, the nearest first. Each is read
 * once (e->listed), and an offset that none has is looked for once (unlisted). */
static void ms__segment_seek(ms__log *log, uint32_t i)
{
    const ms__node_table *t = &log->index.segments;
    for (uint32_t j = i + 1; j <= log->index.unlisted && j < t->n; j++) {
        const ms__entry_node *e = ms__node_entry(t, j);
        if (ms__node_entry(t, i)->offset) return;
        if (e->listed || e->offset == 0) continue;
        ms__listed_offsets_enter(log, j);
        j = i; /* nearer indexes may be known now */
    }
    if (!ms__node_entry(t, i)->offset) log->index.unlisted = i;
}

/* Returns where segment i ends if the offset of its index is not known: where the next
 * segment whose index has one begins, or at that index if it cannot be read. The segments
 * between then have no records. */
static uint64_t ms__segment_end(ms__log *log, uint32_t i, uint64_t from)
{
    ms__segment l;
    const ms__node_table *t = &log->index.segments;
    uint64_t end = ms__tail_of(log)->base;
    uint32_t k = i + 1;
    while (k < t->n && ms__node_entry(t, k)->offset < from) k++;
    uint64_t next = k < t->n ? ms__node_entry(t, k)->offset : end;
    if (next < end) end = next;
    if (k < t->n && ms__segment_known(log, k, &l)) end = l.base < from ? from : l.base;
    for (; i < k; i++)
        if (ms__node_entry(t, i)->offset < from) ms__node_entry(t, i)->offset = end;
    return end;
}

/* Reads summary i. One that cannot be read becomes a node without filters. Then the
 * newest segment index of its group has the offset of the summary before it. NULL: no
 * memory. */
static ms__summary *ms__summary_load(ms__log *log, uint32_t i)
{
    ms__summary s;
    ms__entry_node *e = ms__node_entry(&log->index.summaries, i);
    if (e->node) return (ms__summary *)e->node;
    memset(&s, 0, sizeof s);
    const unsigned char *r = ms__index_record(log, e->offset, log->end, true);
    if (!r || !ms__summary_decode(&s, r, e->offset) || s.number != i) {
        memset(&s, 0, sizeof s);
        ms__log_event(log, MS_LOG_INDEX_DAMAGE, e->offset, 0, 0, 0, 0);
        uint32_t newest = i * MS__FAN + MS__FAN - 1; /* it has that offset */
        ms__segment_seek(log, newest);
        ms__listed_offsets_enter(log, newest);
    }
    ms__summary *node = ms__summary_new(log, &s);
    if (!node) return NULL;
    if (s.list) {
        ms__offsets_enter(log, &log->index.segments, s.list, i * MS__FAN, MS__FAN);
        ms__offsets_enter(log, &log->index.summaries, s.list + MS__FAN * 8, 0, i);
    }
    ms__store_ptr(&e->node, node);
    return node;
}

/* Returns summary i. Its offset is known, or comes from a later one. NULL: no memory. */
static ms__summary *ms__summary_get(ms__log *log, uint32_t i)
{
    const ms__node_table *t = &log->index.summaries;
    uint32_t j = i;
    while (j + 1 < t->n && !ms__node_entry(t, j + 1)->node) j++; /* newest unread one */
    for (; j > i && !ms__node_entry(t, i)->offset; j--)
        if (!ms__summary_load(log, j)) return NULL;
    return ms__summary_load(log, i);
}

/* Finds the offset of segment index i, if any record has it. False: no memory. */
static bool ms__segment_find_place(ms__log *log, uint32_t i)
{
    uint32_t g = i / MS__FAN;
    if (ms__node_entry(&log->index.segments, i)->offset) return true;
    if (g < log->index.summaries.n && !ms__summary_get(log, g)) return false;
    ms__segment_seek(log, i);
    return true;
}

/* Reads segment index i if its offset is known and it is valid, else returns NULL. *room:
 * false without memory. */
static MS__NOINLINE ms__segment *ms__segment_read(ms__log *log, uint32_t i, bool *room)
{
    ms__segment l;
    *room = ms__segment_find_place(log, i);
    ms__entry_node *e = ms__node_entry(&log->index.segments, i);
    if (!*room || e->node) return (ms__segment *)e->node;
    if (!ms__segment_known(log, i, &l)) return NULL;
    ms__segment *node = ms__segment_new(log, &l);
    *room = node != NULL;
    if (node) ms__store_ptr(&e->node, node);
    return node;
}

/* Reads or derives segment index i. Where the ones before it cannot be read they are
 * derived first, since each determines where the next segment begins. NULL: no memory. */
static ms__segment *ms__segment_load(ms__log *log, uint32_t i)
{
    bool room;
    uint32_t j = i;
    ms__segment *seg = ms__segment_read(log, i, &room);
    while (!seg && room && j > 0) {
        seg = ms__segment_read(log, j - 1, &room);
        if (!seg) j--;
    }
    if (seg && seg->number == i) return seg;
    for (; room && j <= i; j++) {
        ms__entry_node *e = ms__node_entry(&log->index.segments, j);
        uint64_t from = seg ? seg->next : MS__FIRST_RECORD, upto = e->offset;
        if (e->bad) from = e->bad->base; /* cursors have places in that one */
        if (upto < from || upto > log->end) upto = ms__segment_end(log, j, from);
        seg = ms__segment_derive(log, j, from, upto, seg ? seg->state.last_seq : 0,
                                 false);
        if (!seg) return NULL;
        ms__log_event(log, MS_LOG_INDEX_DAMAGE, from, upto - from, 0, 0, 0);
        ms__store_ptr(&e->node, seg);
    }
    return room ? seg : NULL;
}

/* Returns segment index i. locked: the caller holds the lock. NULL: no memory. */
static const ms__segment *ms__segment_of(ms__log *log, uint32_t i, bool locked)
{
    void *node = ms__load_ptr(&ms__node_entry(&log->index.segments, i)->node);
    if (node) return (const ms__segment *)node;
    if (!locked) ms__lock_acquire(&log->lock);
    node = ms__node_entry(&log->index.segments, i)->node;
    if (!node) node = ms__segment_load(log, i);
    if (!locked) ms__lock_release(&log->lock);
    return (const ms__segment *)node;
}

/* Derives the index of a segment that has a damaged block. Cursors may still read the bad
 * one: it stays in memory. NULL: no memory. */
static MS__NOINLINE const ms__segment *ms__segment_mend(ms__log *log,
                                                        const ms__segment *bad,
                                                        bool locked)
{
    if (!locked) ms__lock_acquire(&log->lock);
    ms__entry_node *e = ms__node_entry(&log->index.segments, bad->number);
    if (!e->bad) {
        e->bad = (ms__segment *)e->node;
        ms__store_ptr(&e->node, NULL);
    }
    if (!locked) ms__lock_release(&log->lock);
    return ms__segment_of(log, bad->number, locked);
}

/* Returns segment index i, in which the places of records (all: everything) are valid.
 * NULL: no memory. */
static const ms__segment *ms__segment_valid(ms__log *log, uint32_t i, bool all,
                                            bool locked)
{
    const ms__segment *l = ms__segment_of(log, i, locked);
    if (!l || (all ? ms__segment_sound(log, l, l->numbers, l->blocks * MS__BLOCK)
                   : ms__places_sound(log, l)))
        return l;
    return ms__segment_mend(log, l, locked);
}

/* Returns, as bits, the segments of a summary that may have a posting list: all of them
 * where the filter cannot be read. */
static uint32_t ms__summary_find(const ms__log *log, const ms__summary *s,
                                 uint64_t list)
{
    if (!s->filters) return UINT32_MAX;
    uint32_t place = ms__filter_of(list, s->bits);
    uint64_t offset = ms__get64(s->filters + (size_t)place * 8);
    const unsigned char *r;
    if (ms__bit_get(s->checked, place)) {
        r = ms__log_at(log, offset);
    } else {
        r = ms__index_record(log, offset, s->offset, true);
        if (!r || !ms__filter_holds(r, s->number, place)) return UINT32_MAX;
        ms__or32(&s->checked[place / 32], (uint32_t)1 << (place % 32));
    }
    return ms__filter_get(r, list);
}

/* Returns, as bits, which of the 32 segments of group g may have a posting list. */
static uint32_t ms__group_find(ms__log *log, uint32_t g, uint64_t list, bool locked)
{
    if (g >= ms__load32(&log->index.summaries.n)) return UINT32_MAX;
    void *node = ms__load_ptr(&ms__node_entry(&log->index.summaries, g)->node);
    if (!node) {
        if (!locked) ms__lock_acquire(&log->lock);
        node = ms__summary_get(log, g);
        if (!locked) ms__lock_release(&log->lock);
    }
    return node ? ms__summary_find(log, (const ms__summary *)node, list) : UINT32_MAX;
}

/* Returns whether a segment is outside of a query's time range. */
static bool ms__times_miss(const ms_query *q, int64_t first, int64_t last)
{
    return (q->has_since && last < q->since_ns) || (q->has_until && first >= q->until_ns);
}

#define MS__NO_SEGMENT UINT32_MAX

/* The result of a filter for the 32 segments of a group. */
typedef struct ms__group_mask {
    uint32_t number; /* of the group; MS__NO_SEGMENT: no filter was read yet */
    uint32_t mask;
} ms__group_mask;

/* Returns whether segment i has a posting list, or may have lost it, and finds it. The
 * filter of the group, which is read once for all its segments, excludes most. */
static bool ms__segment_has(ms__log *log, ms__group_mask *group, uint64_t list,
                            uint32_t i, bool locked, ms__run *run, ms_result *result)
{
    if (i / MS__FAN != group->number) {
        group->number = i / MS__FAN;
        group->mask = ms__group_find(log, group->number, list, locked);
    }
    if (!(group->mask >> i % MS__FAN & 1)) return false;
    const ms__segment *l = ms__segment_of(log, i, locked);
    while (l && !ms__segment_find(log, l, list, run))
        l = ms__segment_mend(log, l, locked);
    if (!l) *result = MS_E_NO_MEMORY;
    return l && (run->n > 0 || ms__segment_lost(l) > 0);
}

/* Returns the first of the segments [i, n) that has a posting list. MS__NO_SEGMENT: none
 * has, or *result is set. */
static uint32_t ms__segment_after(ms__log *log, uint64_t list, uint32_t i, uint32_t n,
                                  bool locked, ms__run *run, ms_result *result)
{
    ms__group_mask group = {MS__NO_SEGMENT, 0};
    for (; i < n && *result == MS_OK; i++)
        if (ms__segment_has(log, &group, list, i, locked, run, result)) return i;
    return MS__NO_SEGMENT;
}

/* Returns the last of the segments before n that has a posting list. MS__NO_SEGMENT: as
 * above. */
static uint32_t ms__segment_before(ms__log *log, uint64_t list, uint32_t n, bool locked,
                                   ms__run *run, ms_result *result)
{
    ms__group_mask group = {MS__NO_SEGMENT, 0};
    for (; n > 0 && *result == MS_OK; n--)
        if (ms__segment_has(log, &group, list, n - 1, locked, run, result)) return n - 1;
    return MS__NO_SEGMENT;
}

/* Adds a summary to its table, which has room. */
static void ms__summary_add(ms__log *log, uint32_t number, uint64_t offset)
{
    ms__node_entry(&log->index.summaries, number)->offset = offset;
    ms__store32(&log->index.summaries.n, number + 1);
}

/* Adds a segment index to its table, which has room. */
static void ms__index_add(ms__log *log, uint64_t offset)
{
    uint32_t i = log->index.segments.n;
    ms__node_entry(&log->index.segments, i)->offset = offset;
    ms__store32(&log->index.segments.n, i + 1);
    if (offset) log->index.unlisted = i;
}

/* Ends a segment, whose index is at offset: a fresh tail takes the records that follow.
 * Steps that can fail come before this call. own: this handle wrote the index. */
static void ms__segment_close(ms__log *log, uint64_t offset, ms__tail *fresh,
                              uint32_t now, bool own)
{
    ms__index_add(log, offset);
    log->index.hint_before = log->index.hint;
    log->index.hint = offset;
    log->index.merges = own;
    ms__tail_switch(log, fresh, now);
}

/* Enters the newest segment index and the offsets that it lists. False: no memory. */
static bool ms__index_begin(ms__log *log, const ms__segment *l)
{
    ms__node_table *segments = &log->index.segments, *summaries = &log->index.summaries;
    uint32_t n = l->state.summaries;
    if (!ms__nodes_reserve(log, segments, l->number)) return false;
    if (n > 0 && !ms__nodes_reserve(log, summaries, n - 1)) return false;
    ms__store32(&segments->n, l->number + 1);
    ms__store32(&summaries->n, n);
    ms__node_entry(segments, l->number)->offset = l->offset;
    log->index.hint = l->offset;
    log->index.unlisted = l->number;
    ms__listed_offsets_enter(log, l->number);
    return true;
}
