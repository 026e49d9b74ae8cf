
/* ==== [mem-open] opening, resetting and attaching arena stores =========================
 * In a buffer the store's own struct is at the end. Attaching verifies every record of
 * the image before the store is used.
 * ================================================================================== */

static bool ms__is_mem(const ms_store *store)
{
#ifdef MSGSTORE_RING
    if (store->backend == &ms__ring_backend) return true;
#endif
    return store->backend == &ms__mem_backend;
}

/* Sets the id of the store, and the seed of its checks. */
static void ms__mem_id_set(ms__mem *m, uint64_t id)
{
    unsigned char bytes[8];
    ms__put64(bytes, id);
    m->id = id;
    m->core.seed = ms__crc32c(0, bytes, 8);
}

/* Makes the store empty. Its id differs from that of an image in its buffer, so that old
 * records there are invalid. */
static void ms__mem_empty(ms__mem *m, uint64_t id)
{
    if (m->fixed && memcmp(m->buffer.base, ms__image_magic, 8) == 0)
        id ^= ms__hash(m->tail.names.hash_key, id, (const char *)m->buffer.base + 16, 8);
    ms__mem_id_set(m, id);
    ms__mem_bare(m);
}

/* Sets everything of a new store but its memory. */
static void ms__mem_begin(ms__mem *m, const ms_mem_desc *desc)
{
    uint64_t random[3];
    m->core.store.backend = &ms__mem_backend;
    m->core.home = &ms__mem_home;
    m->core.tail = &m->tail;
    m->core.edits = &m->tail.names;
    m->clock = desc->clock;
    if (!m->clock.now) m->clock.now = ms__default_now;
    m->keep_unset_times = desc->keep_unset_times;
    m->max_message = desc->max_message ? desc->max_message : (size_t)MS__RECORD_MAX;
    if (m->max_message > MS__RECORD_MAX) m->max_message = (size_t)MS__RECORD_MAX;
    void (*fill)(void *, void *, size_t) = desc->entropy.fill;
    if (!fill) fill = ms__default_fill;
    memset(random, 0, sizeof random);
    fill(desc->entropy.ctx, random, sizeof random);
    m->tail.names.hash_key[0] = random[0];
    m->tail.names.hash_key[1] = random[1];
    ms__mem_empty(m, random[2]);
    ms__lock_init(&m->lock);
}

#ifdef MSGSTORE_RING
static bool ms__mem_drops(const ms_mem_desc *desc)
{
#ifdef MSGSTORE_FLASH
    if (desc->flash) return true;
#endif
    return desc->drop_oldest;
}
#endif

static ms_result ms__mem_desc_check(const ms_mem_desc *desc, ms_error *err)
{
    size_t chunk = desc->chunk_size;
    if (desc->buffer) {
        if (((uintptr_t)desc->buffer & 7) != 0)
            return ms__fail(err, MS_E_ARGUMENT,
                            "the buffer's address is not a multiple of 8");
        if (desc->buffer_size < MS_MEM_MIN ||
            (uint64_t)desc->buffer_size / 8 > MS__UNITS_MAX)
            return ms__range_fail(err, MS_E_ARGUMENT, "buffer_size", desc->buffer_size,
                                  MS_MEM_MIN, (uint64_t)MS__UNITS_MAX * 8 + 7);
    } else if (desc->buffer_size > 0) {
        return ms__fail(err, MS_E_ARGUMENT, "buffer_size is %u without a buffer",
                        (uint64_t)desc->buffer_size);
    }
    if (chunk != 0 &&
        ((chunk & (chunk - 1)) != 0 || chunk < 1024 || chunk > SIZE_MAX / 4))
        return ms__fail(err, MS_E_ARGUMENT,
                        "chunk_size is %u, no power of two from 1024 on",
                        (uint64_t)chunk);
#ifdef MSGSTORE_RING
    if (ms__mem_drops(desc) && desc->buffer_size < 2 * MS_MEM_MIN)
        return ms__range_fail(err, MS_E_ARGUMENT, "buffer_size", desc->buffer_size,
                              (uint64_t)2 * MS_MEM_MIN, (uint64_t)MS__UNITS_MAX * 8 + 7);
#endif
#ifdef MSGSTORE_FLASH
    if (desc->flash) return ms__flash_check(desc->flash, err);
#endif
    return MS_OK;
}

/* Makes an empty store, whose struct is at the end of the buffer. */
static ms__mem *ms__mem_make(const ms_mem_desc *desc)
{
    size_t size = desc->buffer_size & ~(size_t)7;
    size_t own = (size_t)ms__align8(sizeof(ms__mem));
    ms__mem *m = (ms__mem *)(void *)((char *)desc->buffer + size - own);
    memset(m, 0, sizeof *m);
    m->fixed = true;
    m->shift = 40; /* one chunk */
    m->buffer.base = (unsigned char *)desc->buffer;
    m->buffer.span = desc->buffer_size;
    m->table = &m->buffer;
    m->tail.names.buffer = m->buffer.base;
    ms__mem_begin(m, desc);
#ifdef MSGSTORE_RING
    if (ms__mem_drops(desc)) ms__ring_begin(m);
#endif
    return m;
}

static void ms__image_begin(ms__mem *m)
{
    unsigned char *header = m->buffer.base;
    memset(header, 0, MS__IMAGE_HEADER);
    memcpy(header, ms__image_magic, 8);
    ms__put32(header + 8, MS__IMAGE_VERSION);
    ms__put64(header + 16, m->id);
    ms__image_end(m, MS__IMAGE_HEADER);
    ms__put32(header + 32, ms__crc32c(0, header, 24));
}

MS__STATIC_ASSERT(store_fits_the_smallest_buffer, sizeof(ms__mem) + 64 < MS_MEM_MIN / 2);

MS_API MS__RARE ms_result ms_mem_open(ms_store **store, const ms_mem_desc *desc,
                                      ms_error *err)
{
    ms_mem_desc defaults;
    ms__mem *m;
    *store = NULL;
    memset(&defaults, 0, sizeof defaults);
    if (!desc) desc = &defaults;
    MS__TRY(ms__mem_desc_check(desc, err));
    if (desc->buffer) {
        m = ms__mem_make(desc);
        ms__image_begin(m);
    } else {
        m = (ms__mem *)ms__resize(&desc->alloc, NULL, 0, sizeof *m);
        if (!m) return ms__no_memory(err, sizeof *m);
        memset(m, 0, sizeof *m);
        m->alloc = desc->alloc;
        ms__arena_init(&m->tail.names.nodes, &m->alloc);
        m->shift = desc->chunk_size ? 0 : MS__MEM_CHUNK_SHIFT;
        while ((size_t)1 << m->shift < desc->chunk_size) m->shift++;
        ms__mem_begin(m, desc);
    }
#ifdef MSGSTORE_FLASH
    if (desc->flash) MS__TRY(ms__flash_begin(m, desc->flash, err));
#endif
    m->core.store.open = MS_STORE_OPEN;
    *store = &m->core.store;
    return MS_OK;
}

MS_API ms_result ms_mem_reset(ms_store *store, ms_error *err)
{
    MS__TRY(ms__open_check(store, err));
    if (!ms__is_mem(store))
        return ms__fail(err, MS_E_UNSUPPORTED, "this is not an arena store");
    ms__mem *m = ms__mem_of(store);
    ms__tail_names_reset(&m->tail.names);
    ms__mem_empty(m, m->id);
    if (m->fixed) ms__image_begin(m);
    return MS_OK;
}

MS_API ms_str ms_mem_image(const ms_store *store)
{
    if (ms__open_check(store, NULL) != MS_OK || !ms__is_mem(store)) return ms__absent();
    const ms__mem *m = (const ms__mem *)(const void *)store;
    if (!m->fixed) return ms__absent();
    return ms_str_n((const char *)m->buffer.base, (size_t)ms__load32(&m->tail.end) * 8);
}

MS_API size_t ms_mem_size(size_t n, size_t field_bytes, size_t locations, size_t agents,
                          size_t keys)
{
    uint64_t most = n, bytes = field_bytes;
    size_t fields = MS_FIELD_COUNT - 1;
    if (most < locations) most = locations;
    if (most < agents) most = agents;
    if (most < keys) most = keys;
    if (most > UINT32_MAX || bytes > MS__RECORD_MAX) return SIZE_MAX; /* sums wrap */
    uint64_t dir = 1 + 2 * fields; /* tags and lengths; longer values have longer ones */
    dir += ms__min(field_bytes / 256, fields) + 2 * ms__min(field_bytes / 65536, fields);
    uint64_t record = MS__HEADER + dir + 7 + bytes;
    uint64_t name = ms__min(field_bytes, MS_KEY_MAX) + 8;
    uint64_t total = ms__index_size(n, locations, agents, keys);
    total += n * record + (locations + agents) * name;
    if (total > SIZE_MAX - 7) return SIZE_MAX;
    return total < MS_MEM_MIN ? MS_MEM_MIN : (size_t)ms__align8(total);
}

/* ---- Attaching. */

MS_API ms_result ms_mem_attach(ms_store **store, const ms_mem_desc *desc,
                               uint64_t *damaged, ms_error *err)
{
    ms__image im;
    const unsigned char *r;
    ms_result code;
    *store = NULL;
    if (damaged) *damaged = 0;
    if (!desc || !desc->buffer)
        return ms__fail(err, MS_E_ARGUMENT, "attaching needs the buffer with the image");
    MS__TRY(ms__mem_desc_check(desc, err));
#ifdef MSGSTORE_FLASH
    if (desc->flash)
        return ms__fail(err, MS_E_ARGUMENT, "a store in flash is opened, not attached");
#endif
    memset(&im, 0, sizeof im);
    im.base = (const unsigned char *)desc->buffer;
    im.size = desc->buffer_size;
    MS__TRY(ms__image_header(&im, desc->salvage, err));
    uint64_t whole = im.end_known ? im.end : ms__image_scan(&im);
    uint64_t lost = im.damaged;
    if (whole + sizeof(ms__mem) + 8 > im.size)
        return ms__fail(err, MS_E_FULL,
                        "no room after the image, which ends at %u of %u",
                        im.end, im.size);
    ms__mem *m = ms__mem_make(desc);
    ms__mem_id_set(m, im.id);
    m->tail.names.floor = whole; /* nothing is written below it before all has
                                    succeeded */
    while ((code = ms__image_next(&im, desc->salvage, &r, err)) == MS_OK)
        MS__TRY(ms__mem_adopt(m, r, err));
    if (code != MS_E_NOT_FOUND) return code;
    if (!im.header_known && !im.some)
        return ms__damaged(err, 0, "no record matches the image's header");
    m->tail.names.floor = im.end;
    m->tail.filled = (uint32_t)(im.end / 8);
    uint64_t gone = im.end_known ? im.damaged : lost;
    static const ms__hole any = {0, 0, 0, 0, 0};
    if (gone > 0) ms__tail_damage(&m->tail, &any); /* anywhere before its end */
    ms__tail_show(&m->tail);
    if (!im.end_known) { /* ignored bytes must not become valid later */
        memset(m->buffer.base + im.end, 0, m->tail.names.top - (size_t)im.end);
        ms__image_end(m, im.end);
    }
    ms__put32(m->buffer.base + 32, ms__crc32c(0, m->buffer.base, 24));
    memset(m->buffer.base + 40, 0, MS__IMAGE_HEADER - 40);
    if (damaged) *damaged = gone;
    m->core.store.open = MS_STORE_OPEN;
    *store = &m->core.store;
    return MS_OK;
}
