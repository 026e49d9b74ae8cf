
/* ==== [mem] the arena store ============================================================
 * Records follow one another in a space of offsets that only grows; a table maps it to
 * memory: chunks of equal size on the heap, or the caller's one buffer. A record never
 * crosses a chunk (a larger one gets several in a row), so it never moves. In a buffer
 * the space is the buffer: its first bytes are an image that can be saved and attached
 * again. Names and postings, which can be rebuilt, grow down from its end.
 *
 *      buffer   [header 64][ record record record ... ->      <- postings, names, store ]
 *
 * Everything else is [core], [merge], [append] and [list]: the store is a tail whose
 * entries are offsets in units of 8 bytes: 32 bits, 32 GiB.
 *
 *   image header, 64 bytes
 *   offset size  field
 *      0     8   89 'M' 'S' 'G' 0D 0A 1A 0A
 *      8     4   version, 2
 *     12     4   zero
 *     16     8   id, random: each header check starts with it and the record's offset
 *     24     8   end: offset of the next record
 *     32     4   check of bytes 0 to 23
 *     36     4   check of bytes 16 to 31
 *     40    24   zero, else the header is damaged
 *
 * (MM1) Records below the published end never change, except by redaction. A ring moves
 *      them when it drops others.
 * (MM2) Sequence numbers rise with offsets.
 * (MM3) Attaching takes no more memory than the appends took, since it does the same
 *      steps. So an image can be attached in the buffer where it was made.
 * Rules (NM1) and (NM2) of [names] hold; a failed append leaves the end as it was, too.
 * ================================================================================== */

#define MS__IMAGE_HEADER  64u
#define MS__IMAGE_VERSION 2u
#define MS__MEM_CHUNK_SHIFT 16u /* 64 KiB: half of the last chunk is lost on average */
static const unsigned char ms__image_magic[8] = {0x89, 'M', 'S', 'G', 13, 10, 26, 10};

/* A chunk of memory for records. A large one has several table entries. */
typedef struct ms__mem_chunk {
    unsigned char *base;
    size_t span; /* bytes from here to the end of its allocation; 0: not its start */
} ms__mem_chunk;

/* A table that grows. Its entries follow this header. */
typedef struct ms__table {
    struct ms__table *before; /* smaller ones: readers may still use them */
    size_t cap;               /* entries */
} ms__table;

typedef struct ms__mem {
    ms__core core;
    ms__lock lock;
    ms_alloc alloc;
    ms_clock clock;
    bool fixed, keep_unset_times;
    unsigned shift; /* log2 of the size of a chunk */
    size_t max_message;
    uint64_t id;
    void *table;       /* of ms__mem_chunk; atomic */
    ms__table *tables; /* heap: newest table */
    size_t n_chunks;
    ms__mem_chunk buffer; /* fixed: the only chunk */
    ms__tail tail;
#ifdef MSGSTORE_RING
    uint32_t drops;      /* times that the ring dropped messages, */
    uint64_t dropped;    /* and how many */
    ms__append_run *run; /* the append that needs room, or NULL */
    ms_result (*before)(struct ms__mem *m, ms_error *err); /* each append; or NULL */
#endif
#ifdef MSGSTORE_FLASH
    ms_flash *flash; /* NULL: in RAM only */
#endif
} ms__mem;

static ms__mem *ms__mem_of(ms_store *store) { return (ms__mem *)(void *)store; }

static const unsigned char *ms__mem_at(const ms__core *core, uint64_t offset)
{
    const ms__mem *m = (const ms__mem *)(const void *)core;
    const ms__mem_chunk *table = (const ms__mem_chunk *)ms__load_ptr(&m->table);
    return table[offset >> m->shift].base + (offset & (((uint64_t)1 << m->shift) - 1));
}

static ms_result ms__mem_no_room(const ms__core *core, uint64_t size, ms_error *err)
{
    const ms__mem *m = (const ms__mem *)(const void *)core;
    if (!m->fixed) return ms__no_memory(err, size);
    return ms__fail(err, MS_E_FULL,
                    "the buffer of %u bytes is full: records end at %u, "
                    "the index begins at %u, %u more were needed",
                    (uint64_t)m->buffer.span, (uint64_t)m->tail.end * 8,
                    (uint64_t)m->tail.names.top, size);
}

/* ---- Room for records. */

/* Makes room for n entries of a size. A table that grows moves; readers without the lock
 * may still use the old one, which stays. */
static ms_result ms__table_reach(const ms_alloc *alloc, ms__table **table, void **entries,
                                 size_t each, size_t n, ms_error *err)
{
    size_t old = *table ? (*table)->cap : 0;
    if (n <= old) return MS_OK;
    size_t cap = old * 2 < n ? n + 14 : old * 2, size = sizeof(ms__table) + cap * each;
    ms__table *t = (ms__table *)ms__resize(alloc, NULL, 0, size);
    if (!t) return ms__no_memory(err, size);
    memset(t + 1, 0, cap * each);
    if (old) memcpy(t + 1, *table + 1, old * each);
    t->before = *table;
    t->cap = cap;
    *table = t;
    ms__store_ptr(entries, t + 1);
    return MS_OK;
}

static void ms__table_free(const ms_alloc *alloc, ms__table *t, size_t each)
{
    while (t) {
        ms__table *before = t->before;
        (void)ms__resize(alloc, t, sizeof *t + t->cap * each, 0);
        t = before;
    }
}

/* Adds a chunk of n table entries. Readers use it after an end in it is published. */
static ms_result ms__mem_chunk_add(ms__mem *m, size_t n, ms_error *err)
{
    size_t size = n << m->shift;
    MS__TRY(ms__table_reach(&m->alloc, &m->tables, &m->table, sizeof(ms__mem_chunk),
                            m->n_chunks + n, err));
    unsigned char *base = (unsigned char *)ms__resize(&m->alloc, NULL, 0, size);
    if (!base) return ms__no_memory(err, size);
    ms__mem_chunk *entries = (ms__mem_chunk *)m->table + m->n_chunks;
    for (size_t i = 0; i < n; i++) {
        entries[i].base = base + (i << m->shift);
        entries[i].span = i == 0 ? size : 0;
    }
    m->n_chunks += n;
    return MS_OK;
}

/* Returns whether `size` bytes from the start of a table entry on are contiguous. */
static bool ms__mem_chunk_takes(const ms__mem *m, size_t index, uint64_t size)
{
    if (index >= m->n_chunks) return false;
    return size <= (uint64_t)1 << m->shift ||
           size <= ((ms__mem_chunk *)m->table)[index].span;
}

/* Makes room for a record of that padded size at *offset or after it, and moves *offset
 * there. */
static ms_result ms__mem_place(ms__mem *m, uint64_t *offset, uint32_t size, ms_error *err)
{
    if (m->fixed) {
        if (*offset + size > m->tail.names.top)
            return ms__mem_no_room(&m->core, size, err);
        if (m->tail.names.floor < *offset + size) m->tail.names.floor = *offset + size;
        return MS_OK;
    }
    uint64_t chunk = (uint64_t)1 << m->shift, in_chunk = *offset & (chunk - 1);
    size_t index = (size_t)(*offset >> m->shift);
    if (!ms__mem_chunk_takes(m, index, in_chunk + size)) {
        if (index < m->n_chunks) { /* the rest of that chunk stays empty */
            index++;
            in_chunk = 0;
        }
        while (index < m->n_chunks && !ms__mem_chunk_takes(m, index, size)) index++;
        *offset = ((uint64_t)index << m->shift) + in_chunk;
    }
    if ((*offset + size) / 8 > MS__UNITS_MAX)
        return ms__fail(err, MS_E_FULL, "an arena store holds at most 32 GiB of records");
    if (index < m->n_chunks) return MS_OK;
    return ms__mem_chunk_add(m, (size_t)((in_chunk + size + chunk - 1) >> m->shift), err);
}

/* Stores the end of the records in the image header, in a buffer. */
static void ms__image_end(ms__mem *m, uint64_t end)
{
    unsigned char *header = m->buffer.base;
    if (!m->fixed) return;
    ms__put64(header + 24, end);
    ms__put32(header + 36, ms__crc32c(0, header + 16, 16));
}

/* Resets the ends of records and index. */
static void ms__mem_bare(ms__mem *m)
{
    m->tail.end = m->tail.filled = MS__IMAGE_HEADER / 8;
    m->tail.names.floor = MS__IMAGE_HEADER;
    if (!m->fixed) return;
    m->tail.names.top = (size_t)((unsigned char *)m - m->buffer.base);
    m->tail.names.index_bytes = (m->buffer.span & ~(size_t)7) - m->tail.names.top;
}

/* ---- Entering the records of an image: each is verified first. The index grows after
 * the image, which does not change before all has succeeded. */

typedef struct ms__image {
    const unsigned char *base;
    uint64_t size; /* of the buffer */
    uint64_t id, end;
    uint32_t seed; /* checksum of the id */
    bool header_known; /* false: salvage, a valid record must prove the id */
    bool end_known;    /* false: salvage, ms__image_scan finds the end */
    bool some;         /* a valid record was found */
    uint64_t at;       /* offset of the scan */
    uint64_t last_seq;
    uint64_t damaged;
} ms__image;

static MS__RARE ms_result ms__image_header(ms__image *im, bool salvage, ms_error *err)
{
    const unsigned char *h = im->base;
    if (memcmp(h, ms__image_magic, 8) != 0)
        return ms__fail(err, MS_E_FOREIGN,
                        "the buffer does not begin with an image");
    im->header_known = ms__get32(h + 32) == ms__crc32c(0, h, 24);
    for (unsigned i = 40; i < MS__IMAGE_HEADER; i++)
        if (h[i] != 0) im->header_known = false;
    if (!im->header_known && !salvage)
        return ms__damaged(err, 0, "the image's header does not match its check");
    if (ms__get32(h + 8) != MS__IMAGE_VERSION)
        return ms__fail(err, MS_E_FOREIGN,
                        "the image has version %u, this library reads %u",
                        (uint64_t)ms__get32(h + 8), (uint64_t)MS__IMAGE_VERSION);
    im->id = ms__get64(h + 16);
    im->seed = ms__crc32c(0, h + 16, 8);
    im->end = ms__get64(h + 24);
    im->at = MS__IMAGE_HEADER;
    im->end_known = ms__get32(h + 36) == ms__crc32c(0, h + 16, 16) &&
                    im->end >= MS__IMAGE_HEADER && im->end <= im->size &&
                    im->end % 8 == 0;
    if (!im->header_known) im->damaged++;
    if (im->end_known) return MS_OK;
    if (!salvage)
        return ms__damaged(err, 24, "the image's end is damaged, or after the buffer");
    im->end = im->size & ~(uint64_t)7;
    im->damaged++;
    return MS_OK;
}

/* Checks the record at the scan's position, and its order. */
static ms_result ms__image_record(const ms__image *im, ms_error *err)
{
    const unsigned char *r = im->base + im->at;
    uint32_t seed = ms__seed_at(im->seed, im->at);
    MS__TRY(ms__check_header(r, im->end - im->at, seed, im->at, err));
    if (r[4] != MS__KIND_GAP && r[4] != MS__KIND_MESSAGE &&
        (!MS__CHANGES || !ms__is_change(r)))
        return ms__foreign(err, im->at, r);
    MS__TRY(ms__check_record(r, im->at, err));
    if (!ms__has_message(r)) return MS_OK;
    ms_envelope e = ms_envelope_of(ms__msg(r));
    if (r[4] == MS__KIND_MESSAGE && e.seq <= im->last_seq)
        return ms__damaged(err, im->at, "its sequence number does not follow");
    if (ms__envelope_check(&e, NULL) != MS_OK)
        return ms__damaged(err, im->at, "it is no message that a store takes");
    return MS_OK;
}

/* Returns whether the header at the scan's position is valid, so that its size can be
 * trusted. */
static bool ms__image_sized(const ms__image *im)
{
    return ms__check_header(im->base + im->at, im->end - im->at,
                            ms__seed_at(im->seed, im->at), 0, NULL) == MS_OK;
}

/* Moves past the next valid record, *out, or returns MS_E_NOT_FOUND at the end. Without
 * salvage damage ends the scan. With it, a record with a valid header is skipped by its
 * size; otherwise the scan searches the next valid header on the grid of 8 bytes. */
static ms_result ms__image_next(ms__image *im, bool salvage, const unsigned char **out,
                                ms_error *err)
{
    while (im->at < im->end) {
        const unsigned char *r = im->base + im->at;
        ms_result code = ms__image_record(im, err);
        if (code == MS_OK) {
            if (r[4] == MS__KIND_MESSAGE) im->last_seq = ms_seq(ms__msg(r));
            im->at += ms__padded(ms__get32(r));
            im->some = true;
            *out = r;
            return MS_OK;
        }
        if (!salvage) return code;
        bool sized = ms__image_sized(im);
        im->at += sized ? ms__padded(ms__get32(r)) : 8;
        while (!sized && im->at < im->end && !ms__image_sized(im)) im->at += 8;
        /* bytes after an unknown end are not damage */
        if (sized || im->end_known || im->at < im->end) im->damaged++;
    }
    return MS_E_NOT_FOUND;
}

/* Finds the end of an image whose header does not have it: the end of the last record
 * with COMMIT, since the rest of a batch may be missing. Returns the end of the last
 * valid record. */
static uint64_t ms__image_scan(ms__image *im)
{
    const unsigned char *r;
    uint64_t at = im->at, whole = at, committed = at;
    while (ms__image_next(im, true, &r, NULL) == MS_OK) {
        whole = im->at;
        if (r[7] & MS_FLAG_COMMIT) committed = im->at;
    }
    im->end = committed;
    im->at = at;
    im->last_seq = 0;
    return whole;
}

/* Enters a change of the image, an AMEND or HIDE as an edit. Salvage may have skipped its
 * messages, but their numbers are not assigned again, or it would apply to another one. A
 * HIDE hides no message after it, whatever its numbers. False: no room. */
static bool ms__mem_adopt_edit(ms__mem *m, const unsigned char *r, uint32_t unit)
{
    ms__span span;
    ms_result result = MS_OK;
    ms__tail_names *names = &m->tail.names;
    ms_str location = ms__location(ms__msg(r));
    bool edit = ms__edit_span(r, &span);
    ms__gap_named(&names->gap_seq, names->last_seq, span.last);
    if (!edit) return true;
    if (r[4] == MS__KIND_HIDE) {
        if (span.last > names->last_seq) span.last = names->last_seq;
        if (span.first > span.last) return true;
        ms__tail_show(&m->tail);
        /* counted again: messages may be damaged; linked also if it hides nothing */
        span.hidden = ms__visible(&m->core, location, span.first, span.last, &result);
    }
    m->core.edited = 1;
    names->hidden += span.hidden;
    ms__loc *loc = ms__loc_get(names, location, false);
    return ms__edit_add(names, (ms__edits *)loc->edits, &span, unit, r);
}

static ms_result ms__mem_adopt(ms__mem *m, const unsigned char *r, ms_error *err)
{
    uint64_t offset = (uint64_t)(r - m->buffer.base);
    if (r[4] == MS__KIND_GAP) {
        ms__gap_named(&m->tail.names.gap_seq, m->tail.names.last_seq, ms_seq(ms__msg(r)));
        return MS_OK;
    }
    bool room = ms__tail_enter(&m->core, &m->tail, r, offset);
    if (room && ms__is_change(r)) room = ms__mem_adopt_edit(m, r, (uint32_t)(offset / 8));
    return room ? MS_OK : ms__mem_no_room(&m->core, sizeof(ms__loc), err);
}

/* Appends a record of kind GAP: numbers up to seq are not assigned again. */
static ms_result ms__gap_put(ms__mem *m, uint64_t seq, ms_error *err)
{
    unsigned char bytes[MS__GAP_MAX];
    uint32_t size = ms__gap_encode(seq, bytes);
    uint64_t offset = (uint64_t)m->tail.filled * 8;
    MS__TRY(ms__mem_place(m, &offset, size, err));
    unsigned char *r = (unsigned char *)(uintptr_t)ms__mem_at(&m->core, offset);
    memcpy(r, bytes, size);
    ms__seal_at(m->core.seed, offset, r);
    if (m->tail.names.gap_seq < seq) m->tail.names.gap_seq = seq;
    m->tail.filled = (uint32_t)((offset + size) / 8);
    ms__image_end(m, offset + size);
    ms__tail_show(&m->tail);
    return MS_OK;
}

/* ---- Appending. */

/* Prefetches the memory of a record's place, while its names are looked up. */
static void ms__mem_soon(const ms__mem *m, uint64_t offset, uint32_t size)
{
    uint32_t most = size < 1024 ? size : 1024;
    if (!m->fixed && offset >> m->shift >= m->n_chunks) return;
    const unsigned char *r = ms__mem_at(&m->core, offset);
    for (uint32_t i = 0; i < most; i += 64) MS__PREFETCH_WRITE(r + i);
}

static ms_result ms__mem_room(ms__core *core, ms__append_run *run, uint32_t size,
                              unsigned char **r, ms_error *err)
{
    MS__TRY(ms__mem_place(ms__mem_of(&core->store), &run->offset, size, err));
    *r = (unsigned char *)(uintptr_t)ms__mem_at(core, run->offset);
    return MS_OK;
}

static unsigned char *ms__mem_written(const ms__core *core, const ms__append_run *run,
                                      uint64_t offset)
{
    (void)run;
    return (unsigned char *)(uintptr_t)ms__mem_at(core, offset);
}

static ms_result ms__mem_publish(ms__core *core, const ms__append_run *run, ms_error *err)
{
    (void)err;
    ms__image_end(ms__mem_of(&core->store), run->offset);
    return MS_OK;
}

static MS__UNUSED bool ms__mem_notes(ms__core *core, ms__reading *s)
{
    ms__mem *m = ms__mem_of(&core->store);
    ms__lock_acquire(&m->lock);
    bool known = ms__notes_read(core, s);
    ms__lock_release(&m->lock);
    return known;
}

static MS__UNUSED bool ms__mem_facts(ms_store *store, ms_str location, ms_arena *arena,
                                     ms__folded *f)
{
    ms__mem *m = ms__mem_of(store);
    ms__lock_acquire(&m->lock);
    bool folds = ms__facts_known(&m->core, location, arena, f);
    ms__lock_release(&m->lock);
    return folds;
}

static const ms__home ms__mem_home = {ms__mem_at, ms__mem_room, ms__mem_written,
                                      ms__mem_publish, ms__mem_no_room, NULL,
                                      MS__SMALL ? NULL : ms__mem_notes};

/* Makes room for the plans of a large batch; NULL: none is left. In a buffer they are,
 * during the append, right after the end of its records, which nothing else uses. */
static ms__plan *ms__plans_get(ms__mem *m, const ms__append_run *run)
{
    ms__layout l;
    size_t n = run->n;
    uint64_t at = (uint64_t)m->tail.end * 8;
    l.parts = NULL;
    if (n > SIZE_MAX / 2 / sizeof(ms__plan)) return NULL;
    if (!m->fixed)
        return (ms__plan *)ms__resize(&m->alloc, NULL, 0, n * sizeof(ms__plan));
    for (size_t i = 0; i < n; i++) {
        if (ms__layout_of(ms__run_envelope(run, i), run->location, MS__CHECKED, &l,
                          NULL) != MS_OK)
            break;
        at += ms__padded(l.size);
        if (at > m->tail.names.top) return NULL;
    }
    if (m->tail.names.top - at < n * sizeof(ms__plan)) return NULL;
    m->tail.names.floor = at + n * sizeof(ms__plan);
    return (ms__plan *)(void *)(m->buffer.base + at);
}

/* Returns how many bytes n messages take in a buffer besides their records and the texts
 * of names. */
static uint64_t ms__index_size(uint64_t n, uint64_t locations, uint64_t agents,
                               uint64_t keys)
{
    uint64_t postings = 19; /* four of 4 bytes, and 3 bytes of a fifth */
    uint64_t chunk = MS__CHUNK_HEADER + (MS__CHUNK_FIRST + 1) * sizeof(uint32_t);
    uint64_t classes = locations > n / 2 ? n : locations * 2;
    uint64_t total = MS_MEM_MIN / 2 + 20 * sizeof(ms__chunk); /* of lists that grew */
    total += n * postings + locations * (sizeof(ms__loc) + chunk) + classes * chunk;
    return total + agents * (sizeof(ms__agent) + 2 * chunk) + keys * sizeof(ms__key);
}

/* Appends; the caller has the lock. */
static ms_result ms__mem_try(ms__mem *m, ms__append_run *run, ms_error *err)
{
    ms__tail_names *names = &m->tail.names;
    ms__plan small[MS__PLANS_SMALL], *plans = small;
    ms_result code;
    size_t n = run->n;
    if (n > MS__PLANS_SMALL) plans = ms__plans_get(m, run);
    run->start = run->offset = (uint64_t)m->tail.end * 8;
    run->max_message = m->max_message;
    if (run->layout) ms__mem_soon(m, run->offset, run->layout->size);
    ms__run_begin(run, &m->clock, !m->keep_unset_times, names->last_seq, names->gap_seq);
    if (plans) code = ms__core_append(&m->core, run, plans, err);
    else code = ms__mem_no_room(&m->core, n * sizeof(ms__plan), err);
    names->floor = (uint64_t)m->tail.end * 8;
    if (plans && plans != small && !m->fixed)
        (void)ms__resize(&m->alloc, plans, n * sizeof(ms__plan), 0);
    return code;
}

static ms_result ms__mem_append(ms_store *store, ms__append_run *run, ms_error *err)
{
    ms__mem *m = ms__mem_of(store);
    ms__lock_acquire(&m->lock);
    ms_result code = ms__mem_try(m, run, err);
    ms__lock_release(&m->lock);
    return code;
}

static ms_result ms__mem_leave_out(ms_store *store, uint64_t seq, ms_error *err)
{
    ms__mem *m = ms__mem_of(store);
    ms__lock_acquire(&m->lock);
    ms_result code = ms__gap_put(m, seq, err);
    m->tail.names.floor = (uint64_t)m->tail.end * 8;
    ms__lock_release(&m->lock);
    return code;
}

static ms_result ms__mem_query(ms_store *store, ms_cursor *it, ms_error *err)
{
    ms__mem *m = ms__mem_of(store);
    return ms__core_open(&m->core, &m->tail, it, err);
}

static ms_result ms__mem_get(ms_store *store, uint64_t seq, ms_arena *arena,
                             const ms_msg **msg, ms_error *err)
{
    ms__mem *m = ms__mem_of(store);
    (void)arena;
    return ms__core_get(&m->core, &m->tail, seq, msg, err);
}

/* Does one step of erasing a record, see [record]. Readers may go on. */
static ms_result ms__mem_erase(ms_store *store, const ms_msg *record, unsigned step,
                               ms_error *err)
{
    ms__mem *m = ms__mem_of(store);
    unsigned char *r = (unsigned char *)(uintptr_t)ms__bytes(record);
    (void)err;
    ms__lock_acquire(&m->lock);
    if (step == MS__ERASE_BODY) {
        ms__blank(r);
    } else { /* the seed, which comes from the place, is part of the check */
        uint32_t seed = ms__get32(r + MS__AT_CHECK) ^ ms__crc32c(0, r, MS__AT_CHECK);
        ms__put32(r + MS__AT_BODY_CHECK,
                  step == MS__ERASE_MARK ? MS__ERASED : ms__body_check(r));
        ms__put32(r + MS__AT_CHECK, ms__crc32c(0, r, MS__AT_CHECK) ^ seed);
    }
    ms__lock_release(&m->lock);
    return MS_OK;
}

static ms_result ms__mem_list(ms_store *store, const ms_list_query *q, ms_arena *arena,
                              ms_listing *out, ms_error *err)
{
    ms__mem *m = ms__mem_of(store);
    return ms__core_list(&m->core, &m->tail, &m->lock, q, arena, out, err);
}

/* Returns the largest number ever assigned. */
static uint64_t ms__given_seq(const ms__tail_names *names)
{
    return names->last_seq < names->gap_seq ? names->gap_seq : names->last_seq;
}

static ms_result ms__mem_stat(ms_store *store, ms_stat *out, ms_error *err)
{
    ms__mem *m = ms__mem_of(store);
    (void)err;
    ms__lock_acquire(&m->lock);
    out->hidden = m->tail.names.hidden;
    out->messages = m->tail.names.messages - out->hidden;
    out->changes = m->tail.names.changes;
    out->as_of = ms__load32(&m->tail.end);
    out->last_seq = m->tail.names.last_seq;
    out->given_seq = ms__given_seq(&m->tail.names);
    out->bytes = m->tail.names.bytes;
    out->index_bytes = m->tail.names.index_bytes;
    out->room = m->fixed ? m->tail.names.top - (uint64_t)m->tail.end * 8 : 0;
    ms__lock_release(&m->lock);
    return MS_OK;
}

static void ms__mem_close(ms_store *store)
{
    ms__mem *m = ms__mem_of(store);
    ms_alloc alloc = m->alloc;
    m->core.store.open = 0;
    ms__lock_deinit(&m->lock);
    if (m->fixed) return;
    const ms__mem_chunk *chunks = (const ms__mem_chunk *)m->table;
    for (size_t i = 0; i < m->n_chunks; i++)
        if (chunks[i].span) (void)ms__resize(&alloc, chunks[i].base, chunks[i].span, 0);
    ms__table_free(&alloc, m->tables, sizeof(ms__mem_chunk));
    ms_arena_deinit(&m->tail.names.nodes);
    (void)ms__resize(&alloc, m, sizeof *m, 0);
}

static size_t ms__mem_most(ms_store *store) { return ms__mem_of(store)->max_message; }

static const ms__hooks ms__mem_hooks = {ms__mem_append, NULL, NULL, ms__mem_most,
                                        MS__SMALL ? NULL : ms__mem_facts};

static const ms_backend ms__mem_backend = {
    ms__append_unmeasured, ms__mem_query, ms__core_next, NULL, ms__mem_get, ms__mem_list,
    ms__mem_stat,    NULL,          ms__mem_close, NULL, ms__mem_leave_out,
    MS__CHANGES ? ms__change_unmeasured : NULL,
    MS__CHANGES ? ms__mem_erase : NULL, &ms__mem_hooks, NULL};
