
/* ==== [flash] a log in raw flash =======================================================
 * The store is one of [mem], a ring. Its home writes each append to flash as a frame,
 * after sealing the records and before readers see them. After opening, only programmed
 * bytes and headers of sectors are read from flash.
 *
 *   sector   [header][ frame ][ frame ] ... erased
 *   frame    [ header ][ record ][ record ] ... [ commit ]      each begins at a unit
 *
 * Units here are those of the flash, at least 8 bytes; the rest of a unit stays erased.
 * The order of a sector is one more than that of the sector before it. All checks cover
 * it, so bytes that an erasure left are not valid in a later sector.
 *
 *   header, 32 bytes                         header of a frame, 12 bytes
 *      0   4   "MSF3"                           0   4   bytes of its records and rests of
 *      4   4   size of a sector                         units; highest bit: facts
 *      8   8   order                            4   4   offset in the sector
 *     16   8   largest number before it         8   4   CRC32C of order and bytes 0 to 7
 *     24   4   CRC32C of bytes 0 to 23       commit, 8 bytes: CRC32C of order and these
 *     28   4   zero                              bytes of records, and its complement
 *
 * (FL1) A frame is valid if header and commit are valid. The commit is programmed last,
 *      after the rest was read back. So an append is complete or absent.
 * (FL2) A sector is valid if its header is valid. The header is overwritten with zeros
 *      before the sector is erased: no mix of these zeros and erased bits has a valid
 *      CRC.
 * (FL3) Before a sector is retired the ring drops its messages, and a frame in the newest
 *      sector has all facts. So RAM never has what flash lacks.
 * (FL4) Programming begins after the last unit that is not erased, so no unit is
 *      programmed twice, except for the zeros of FL2.
 * ================================================================================== */

#define MS__FLASH_MAGIC  0x3346534Du
#define MS__SECTOR_HEADER 32u
#define MS__FRAME_HEADER 12u
#define MS__FRAME_COMMIT 8u
#define MS__FRAME_FACTS  0x80000000u
#define MS__UNIT_MOST    32u /* bytes */

/* Rounds a size up to a multiple of the unit. */
static uint32_t ms__flash_units(const ms_flash *f, uint32_t size)
{
    uint32_t unit = f->unit < 8 ? 8 : f->unit;
    return (size + unit - 1) & ~(unit - 1);
}

/* Returns the bytes of flash that a frame takes. */
static uint32_t ms__frame_span(const ms_flash *f, uint32_t size)
{
    return ms__flash_units(f, MS__FRAME_HEADER) + size +
           ms__flash_units(f, MS__FRAME_COMMIT);
}

/* Returns the most bytes of records in a frame of an append. */
static uint32_t ms__frame_most(const ms_flash *f)
{
    uint32_t quarter = f->sector_size / 4;
    return quarter - quarter % ms__flash_units(f, 1) - ms__frame_span(f, 0);
}

static ms_result ms__flash_failed(const char *what, uint32_t sector, uint32_t at,
                                  const ms_flash *f, ms_error *err)
{
    return ms__fail(err, MS_E_IO, "cannot %s the flash at %u", what,
                    (uint64_t)sector * f->sector_size + at);
}

/* Reads from a sector. A failure ends the opening or the append: if the bytes counted as
 * erased, their records would be lost. */
static ms_result ms__flash_read(const ms_flash *f, uint32_t sector, uint32_t at,
                                void *out, uint32_t size, ms_error *err)
{
    if (f->read(f->ctx, sector * f->sector_size + at, out, size)) return MS_OK;
    return ms__flash_failed("read", sector, at, f, err);
}

static uint32_t ms__flash_seed(uint64_t order) { return ms__seed_at(0, order); }

/* ---- Writing. */

/* The state of programming one frame. */
typedef struct ms__burn {
    const ms_flash *f;
    uint32_t at, crc; /* offset in the flash; of the bytes programmed so far */
    bool ok; /* all was programmed and read back equal */
} ms__burn;

static ms__burn ms__burn_at(const ms_flash *f, uint32_t sector, uint32_t at)
{
    ms__burn b;
    b.f = f;
    b.at = sector * f->sector_size + at;
    b.crc = 0;
    b.ok = true;
    return b;
}

/* Programs bytes from a unit on, and reads them back. */
static void ms__burn_put(ms__burn *b, const unsigned char *bytes, uint32_t size)
{
    const ms_flash *f = b->f;
    unsigned char last[MS__UNIT_MOST], back[MS__UNIT_MOST];
    uint32_t all = ms__flash_units(f, size), unit = ms__flash_units(f, 1);
    uint32_t whole = size & ~(unit - 1);
    memset(last, 255, sizeof last);
    memcpy(last, bytes + whole, size - whole);
    if (b->ok && whole > 0) b->ok = f->program(f->ctx, b->at, bytes, whole);
    if (b->ok && whole < all) b->ok = f->program(f->ctx, b->at + whole, last, unit);
    for (uint32_t at = 0, n; b->ok && at < all; at += n) {
        const unsigned char *from = at < whole ? bytes + at : last;
        n = at < whole ? (uint32_t)ms__min(whole - at, sizeof back) : unit;
        b->ok = f->read(f->ctx, b->at + at, back, n) && memcmp(back, from, n) == 0;
        b->crc = ms__crc32c(b->crc, from, n);
    }
    b->at += all;
}

/* Programs the records of an append at r, or (NULL) all facts. b NULL: only counts.
 * Returns their bytes of flash, in units. */
static uint32_t ms__burn_records(const ms__mem *m, const unsigned char *r, uint32_t size,
                                 ms__burn *b)
{
    uint32_t bytes = 0, n = r ? size : MS__CHANGES ? m->tail.names.others.count : 0;
    for (uint32_t i = 0, padded = 1; i < n; i += r ? padded : 1) {
        const unsigned char *record = r ? r + i : ms__fact_at(m, i);
        if (!record) continue;
        padded = ms__padded(ms__get32(record));
        if (b) ms__burn_put(b, record, padded);
        bytes += ms__flash_units(m->flash, padded);
    }
    return bytes;
}

/* ---- Headers and frames. */

/* Reads a sector's header. A whole one of another format, or of sectors of another size,
 * is refused: the sector would count as empty, and be erased in its turn. */
static ms_result ms__sector_header(const ms_flash *f, uint32_t sector, unsigned char *h,
                                   bool *holds, ms_error *err)
{
    MS__TRY(ms__flash_read(f, sector, 0, h, MS__SECTOR_HEADER, err));
    uint32_t magic = ms__get32(h), size = ms__get32(h + 4);
    bool whole = ms__get32(h + 24) == ms__crc32c(0, h, 24);
    *holds = whole && magic == MS__FLASH_MAGIC && size == f->sector_size;
    if (!whole || *holds || (magic ^ MS__FLASH_MAGIC) << 8 != 0) return MS_OK;
    return ms__fail(err, MS_E_FOREIGN,
                    "sector %u of the flash has format %u and %u bytes, format 3 and %u"
                    " were expected; what is erased begins anew", (uint64_t)sector,
                    (uint64_t)(h[3] - '0'), (uint64_t)size, (uint64_t)f->sector_size);
}

static uint32_t ms__flash_next(const ms_flash *f) { return (f->sector + 1) % f->sectors; }

/* Begins the next sector, which is erased. given: the largest number assigned. */
static ms_result ms__flash_turn(ms_flash *f, uint64_t given, ms_error *err)
{
    unsigned char h[MS__SECTOR_HEADER];
    uint32_t next = ms__flash_next(f);
    ms__burn b = ms__burn_at(f, next, 0);
    memset(h, 0, sizeof h);
    ms__put32(h, MS__FLASH_MAGIC);
    ms__put32(h + 4, f->sector_size);
    ms__put64(h + 8, f->order + 1);
    ms__put64(h + 16, given);
    ms__put32(h + 24, ms__crc32c(0, h, 24));
    f->erased = false;
    ms__burn_put(&b, h, sizeof h);
    if (!b.ok) return ms__flash_failed("program", next, 0, f, err);
    f->sector = next;
    f->order++;
    f->at = MS__SECTOR_HEADER;
    return MS_OK;
}

static uint32_t ms__frame_check(uint64_t order, const unsigned char *h)
{
    return ms__crc32c(ms__flash_seed(order), h, 8);
}

/* Writes a frame: the records of an append at r, or (NULL) all facts. */
static ms_result ms__frame_put(ms__mem *m, const unsigned char *r, uint32_t size,
                               ms_error *err)
{
    ms_flash *f = m->flash;
    unsigned char h[MS__FRAME_HEADER];
    uint32_t bytes = ms__burn_records(m, r, size, NULL), span = ms__frame_span(f, bytes);
    if (span > f->sector_size - f->at)
        MS__TRY(ms__flash_turn(f, ms__given_seq(&m->tail.names), err));
    uint32_t at = f->at;
    ms__burn b = ms__burn_at(f, f->sector, at);
    f->at += span;
    ms__put32(h, r ? bytes : bytes | MS__FRAME_FACTS);
    ms__put32(h + 4, at);
    ms__put32(h + 8, ms__frame_check(f->order, h));
    ms__burn_put(&b, h, sizeof h);
    b.crc = ms__flash_seed(f->order);
    (void)ms__burn_records(m, r, size, &b);
    if (!b.ok) return ms__flash_failed("program", f->sector, at, f, err);
    ms__put32(h, b.crc);
    ms__put32(h + 4, ~b.crc);
    ms__burn_put(&b, h, MS__FRAME_COMMIT);
    if (b.ok) return MS_OK;
    f->poisoned = true;
    return ms__fail(err, MS_E_POISONED,
                    "the flash at %u does not hold the end of an append",
                    (uint64_t)f->sector * f->sector_size + at);
}

/* Checks FL1 of a frame whose header is valid. */
static ms_result ms__frame_holds(const ms_flash *f, uint32_t sector, uint64_t order,
                                 uint32_t at, uint32_t size, bool *holds, ms_error *err)
{
    unsigned char bytes[64];
    uint32_t crc = ms__flash_seed(order);
    at += ms__flash_units(f, MS__FRAME_HEADER);
    for (uint32_t n; size > 0; at += n, size -= n) {
        n = (uint32_t)ms__min(size, sizeof bytes);
        MS__TRY(ms__flash_read(f, sector, at, bytes, n, err));
        crc = ms__crc32c(crc, bytes, n);
    }
    MS__TRY(ms__flash_read(f, sector, at, bytes, MS__FRAME_COMMIT, err));
    *holds = ms__get32(bytes) == crc && ms__get32(bytes + 4) == ~crc;
    return MS_OK;
}

/* ---- Room: the next sector is erased before an append may need it. */

/* Retires the oldest sector by FL3. */
static ms_result ms__flash_leave(ms__mem *m, uint32_t oldest, ms_error *err)
{
    unsigned char h[MS__SECTOR_HEADER];
    bool holds;
    ms_flash *f = m->flash;
    ms_result result = MS_OK;
    const ms__postings *all = &m->tail.names.all;
    uint32_t x = MS__IMAGE_HEADER / 8, most = f->sector_size / (f->unit > 8 ? 16 : 8);
    MS__TRY(ms__sector_header(f, (oldest + 1) % f->sectors, h, &holds, err));
    if (holds)
        x = (uint32_t)ms__place_of(&m->core, &m->tail, m->tail.filled,
                                   ms__get64(h + 16) + 1, true, &result);
    uint32_t first = all->count ? ms__postings_entry(all, 0) : m->tail.filled;
    if (first < x || ms__facts_size(m) > most) MS__TRY(ms__ring_drop(m, x, most, err));
    uint32_t facts = ms__burn_records(m, NULL, 0, NULL);
    /* no room: several power losses happened at this point; the facts are dropped */
    if (facts == 0 || ms__frame_span(f, facts) > f->sector_size - f->at) return MS_OK;
    return ms__frame_put(m, NULL, 0, err);
}

/* Retires and erases the next sector, unless it is erased. */
static ms_result ms__flash_settle(ms__mem *m, ms_error *err)
{
    unsigned char h[MS__SECTOR_HEADER];
    bool holds;
    ms_flash *f = m->flash;
    uint32_t next = ms__flash_next(f);
    if (f->poisoned)
        return ms__fail(err, MS_E_POISONED,
                        "the end of an append to the flash was not written");
    if (f->erased) return MS_OK;
    MS__TRY(ms__sector_header(f, next, h, &holds, err));
    if (holds && ms__get64(h + 8) + f->sectors == f->order + 1)
        MS__TRY(ms__flash_leave(m, next, err));
    memset(h, 0, sizeof h);
    if (!f->program(f->ctx, next * f->sector_size, h, MS__SECTOR_HEADER))
        return ms__flash_failed("program", next, 0, f, err);
    f->erased = f->erase(f->ctx, next);
    return f->erased ? MS_OK : ms__flash_failed("erase", next, 0, f, err);
}

/* ---- The store: that of [ring] with another home. */

static ms_result ms__flash_publish(ms__core *core, const ms__append_run *run,
                                   ms_error *err)
{
    ms__mem *m = ms__mem_of(&core->store);
    const unsigned char *r = ms__mem_at(core, run->start);
    uint32_t size = (uint32_t)(run->offset - run->start), most = ms__frame_most(m->flash);
    uint32_t bytes = ms__burn_records(m, r, size, NULL);
    if (bytes > most)
        return ms__fail(err, MS_E_TOO_LARGE,
                        "the append takes %u bytes, the limit is %u", (uint64_t)bytes,
                        (uint64_t)most);
    MS__TRY(ms__frame_put(m, r, size, err));
    return ms__mem_publish(core, run, err);
}

static const ms__home ms__flash_home = {ms__mem_at, ms__mem_room, ms__mem_written,
                                        ms__flash_publish, ms__mem_no_room, NULL, NULL};

static ms_result ms__flash_tick(ms_store *store, uint32_t budget_us, ms_error *err)
{
    ms__mem *m = ms__mem_of(store);
    (void)budget_us;
    ms__lock_acquire(&m->lock);
    ms_result code = ms__flash_settle(m, err);
    ms__lock_release(&m->lock);
    return code;
}

static ms_result ms__flash_sync(ms_store *store, uint64_t *durable_seq, ms_error *err)
{
    (void)err;
    if (durable_seq) *durable_seq = ms__mem_of(store)->tail.names.last_seq;
    return MS_OK;
}

static const ms_backend ms__flash_backend = {
    ms__append_unmeasured, ms__ring_query, ms__ring_next, NULL, ms__mem_get, ms__mem_list,
    ms__ring_stat, ms__flash_sync, ms__mem_close, ms__flash_tick, NULL,
    MS__CHANGES ? ms__change_unmeasured : NULL, NULL, &ms__ring_hooks, NULL};

/* ---- Opening: enters the records of all valid frames, oldest first. */

/* Enters a record of a sector. */
static ms_result ms__flash_enter(ms__mem *m, uint32_t sector, uint32_t at, uint32_t size,
                                 ms_error *err)
{
    ms__image im;
    ms__tail_names *names = &m->tail.names;
    uint64_t offset = (uint64_t)m->tail.filled * 8;
    unsigned char *r = m->buffer.base + offset;
    MS__TRY(ms__mem_place(m, &offset, size, err));
    MS__TRY(ms__flash_read(m->flash, sector, at, r, size, err));
    ms__seal_at(m->core.seed, offset, r);
    memset(&im, 0, sizeof im);
    im.base = m->buffer.base;
    im.at = offset;
    im.end = offset + size;
    im.seed = m->core.seed;
    im.last_seq = ms__given_seq(names);
    if (ms__image_record(&im, NULL) != MS_OK || r[4] == MS__KIND_GAP) return MS_OK;
    ms_result code = ms__ring_adopt(m, r, err);
    m->tail.filled = (uint32_t)((code == MS_OK ? im.end : offset) / 8);
    if (code != MS_OK) return code;
    ms__image_end(m, im.end);
    ms__tail_show(&m->tail);
    return MS_OK;
}

/* Makes room for a record. *n: units that this try drops. The first try drops 0, only
 * changes whose messages are gone; the index becomes smaller. The next one drops half of
 * what is still to be entered, which needs more room, so no message that RAM could take;
 * each further one twice as many, up to what an append drops. */
static ms_result ms__flash_room(ms__mem *m, uint32_t size, uint32_t *n, ms_error *err)
{
    uint32_t begin = MS__IMAGE_HEADER / 8, units = m->tail.filled - begin;
    uint32_t left = m->flash->left / 8, now = *n;
    *n = now ? now * 2 : left > size / 4 ? left / 2 : size / 8;
    if (left >= units || now >= units / 3) return ms__ring_turn(m, err);
    return ms__ring_drop(m, begin + now, (uint64_t)units * 8 / 16, err);
}

/* Enters the records of a frame. */
static ms_result ms__frame_enter(ms__mem *m, uint32_t sector, uint32_t at, uint32_t size,
                                 ms_error *err)
{
    unsigned char h[4];
    const ms_flash *f = m->flash;
    at += ms__flash_units(f, MS__FRAME_HEADER);
    for (uint32_t end = at + size, padded; at < end; at += ms__flash_units(f, padded)) {
        ms_result code = MS_E_FULL;
        ms_error failed;
        uint32_t n = 0;
        MS__TRY(ms__flash_read(f, sector, at, h, 4, err));
        padded = end - at;
        if (ms__get32(h) < padded) padded = ms__padded(ms__get32(h));
        if (padded <= MS__HEADER || padded > end - at) return MS_OK;
        while (code == MS_E_FULL) {
            code = ms__flash_enter(m, sector, at, padded, &failed);
            m->tail.names.floor = (uint64_t)m->tail.filled * 8;
            if (code == MS_E_FULL) MS__TRY(ms__flash_room(m, padded, &n, err));
        }
        if (code != MS_OK && err) *err = failed;
        MS__TRY(code);
    }
    return MS_OK;
}

/* Enters the frames of a sector. It becomes the sector for new frames, after its last
 * unit that is not erased. count: adds the bytes of its frames to f->left instead. */
static ms_result ms__flash_scan(ms__mem *m, uint32_t sector, uint64_t order, bool count,
                                ms_error *err)
{
    unsigned char h[MS__UNIT_MOST];
    ms_flash *f = m->flash;
    uint32_t unit = ms__flash_units(f, 1), at = MS__SECTOR_HEADER, step;
    bool torn = false;
    f->sector = sector;
    f->order = order;
    f->at = at;
    for (; at < f->sector_size; at += step) {
        uint32_t n = (uint32_t)ms__min(ms__flash_units(f, MS__FRAME_HEADER),
                                       f->sector_size - at);
        MS__TRY(ms__flash_read(f, sector, at, h, n, err));
        uint32_t size = ms__get32(h) & ~MS__FRAME_FACTS, used = 0;
        bool frame = n >= MS__FRAME_HEADER && ms__get32(h + 4) == at &&
                     ms__get32(h + 8) == ms__frame_check(order, h) &&
                     size <= f->sector_size &&
                     at + ms__frame_span(f, size) <= f->sector_size;
        bool whole = false;
        if (count) {
            step = frame ? ms__frame_span(f, size) : unit;
            f->left += frame ? size : 0;
            continue;
        }
        if (frame) f->left -= size;
        if (frame) MS__TRY(ms__frame_holds(f, sector, order, at, size, &whole, err));
        for (uint32_t i = 0; i < unit; i++) used += h[i] != 255;
        step = frame ? ms__frame_span(f, size) : unit;
        if (used) f->at = at + step;
        if (used && !whole && (frame || !torn)) f->torn++;
        torn = !frame;
        if (!whole) continue;
        if ((ms__get32(h) & MS__FRAME_FACTS) && ms__facts_size(m) > 0) /* none before */
            MS__TRY(ms__ring_drop(m, MS__IMAGE_HEADER / 8, 0, err));
        MS__TRY(ms__frame_enter(m, sector, at, size, err));
    }
    return MS_OK;
}

static ms_result ms__flash_check(ms_flash *f, ms_error *err)
{
    if (f->unit == 0) f->unit = 1;
    bool unit = f->unit <= MS__UNIT_MOST && (f->unit & (f->unit - 1)) == 0;
    if (unit && f->sector_size % 32 == 0 && f->sector_size >= 1024 && f->sectors >= 3 &&
        (uint64_t)f->sector_size * f->sectors <= UINT32_MAX)
        return MS_OK;
    return ms__fail(err, MS_E_ARGUMENT, "%u sectors of %u bytes, programmed by %u: see "
                    "ms_flash", (uint64_t)f->sectors, (uint64_t)f->sector_size,
                    (uint64_t)f->unit);
}

/* Fills an empty ring from the flash. */
static ms_result ms__flash_begin(ms__mem *m, ms_flash *f, ms_error *err)
{
    unsigned char h[MS__SECTOR_HEADER];
    bool holds;
    uint32_t newest = 0, n = 0;
    uint64_t order = 0;
    f->torn = 0;
    f->erased = f->poisoned = false;
    for (uint32_t i = 0; i < f->sectors; i++) {
        MS__TRY(ms__sector_header(f, i, h, &holds, err));
        if (!holds || ms__get64(h + 8) <= order) continue;
        order = ms__get64(h + 8);
        newest = i;
    }
    for (; n < f->sectors && n < order; n++) {
        uint32_t i = (newest + f->sectors - n) % f->sectors;
        MS__TRY(ms__sector_header(f, i, h, &holds, err));
        if (!holds || ms__get64(h + 8) != order - n) break;
    }
    m->flash = f;
    f->sector = f->sectors - 1; /* before the first one, full */
    f->order = 0;
    f->at = f->sector_size;
    f->left = 0;
    for (uint32_t i = n; i-- > 0;)
        MS__TRY(ms__flash_scan(m, (newest + f->sectors - i) % f->sectors, order - i, true,
                               err));
    while (n-- > 0) {
        uint32_t sector = (newest + f->sectors - n) % f->sectors;
        MS__TRY(ms__sector_header(f, sector, h, &holds, err));
        if (holds) /* numbers go on after the largest one */
            ms__gap_named(&m->tail.names.gap_seq, m->tail.names.last_seq,
                          ms__get64(h + 16));
        MS__TRY(ms__flash_scan(m, sector, order - n, false, err));
    }
    /* also drop changes whose messages were dropped */
    MS__TRY(ms__ring_drop(m, MS__IMAGE_HEADER / 8, UINT64_MAX, err));
    m->dropped = 0;
    if (m->max_message > ms__frame_most(f)) m->max_message = ms__frame_most(f);
    m->before = ms__flash_settle;
    m->core.home = &ms__flash_home;
    m->core.store.backend = &ms__flash_backend;
    return MS_OK;
}
