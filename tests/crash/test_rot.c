/* Rot: what a disk loses, after histories of one to six boots.
 *
 * A history is a log that several processes have written. Some close it, some are killed,
 * some in the middle of an append. Between them the machine restarts, and at times the
 * power fails, which leaves what was synced. The sync mode is NONE, EVERY or EACH, the
 * engine MAP or WRITE. Then one to three faults hit a copy of the file: a bit, a byte, a
 * sector, a page (zeros, noise, another page of the log, an older version of it, one of
 * another log, two exchanged), the end of the file. Half of the copies are seen after one
 * more restart. Each is read, verified, read for salvage, appended to, and read again.
 *
 *   - No reading shows a record that was not written, byte for byte. What a redaction
 *     leaves of a record has no check: there the header counts.
 *   - A record that no fault has touched is read; or it is missing, and then a query over
 *     everything, the query of its location and ms_log_verify report damage. With one
 *     fault only what was hit is missing.
 *   - The one exception are dead bytes, (FF4) of [file-format]. After a restart, above
 *     what was reported as durable, a fault can look like a torn append: a sector has
 *     only zeros from a record on, or no valid record follows it. What follows counts as
 *     dead and is not reported to readers. ms_log_verify counts it, or it is in PATH.torn.
 *     The first page may be an older one, and not more than one whole append follows its
 *     watermark. That counts as dead, since a killed writer leaves the same.
 *   - An append erases no whole record, unless it is in PATH.torn, and was reported as
 *     zeroed.
 *   - What could be read before the append can be read after it.
 *
 * Left out: pages from before a power loss. They may have whole appends that the power
 * loss took, and nothing tells them from others. Two pages of one other log: then most of
 * what names the file may be that log's.
 */

#define _GNU_SOURCE
#include "change_sequence.h"
#include "file_format.h"

enum { ROOM = 2 << 20, PAGE = 4096, SECTOR = 512, VERSIONS = 10, MOST = 20000 };
enum { LOCATIONS = 24, FAULTS = 3, EVENTS = 8, HEAD = FILE_SUPERBLOCK };

typedef struct record {
    uint32_t at, size;        /* padded */
    uint8_t kind, flags, place; /* place: of its location */
    bool read, touched, whole;
} record;

typedef enum fault {
    BIT, BYTE, NOISE_SECTOR, ZERO_SECTOR, ZERO_PAGE, NOISE_PAGE, COPIED_PAGE, STALE_PAGE,
    SWAPPED_PAGES, FOREIGN_PAGE, CUT, FAULT_KINDS
} fault;

static const char *const fault_names[FAULT_KINDS] = {
    "bits flipped", "bytes changed", "sectors of noise", "sectors of zeros",
    "pages of zeros", "pages of noise", "pages copied over others", "stale pages",
    "pages exchanged", "pages of another log", "files cut"};

/* A history, the rotten copy in the making, and what was seen of it. */
typedef struct rot {
    disk d;
    uint64_t rng, boot;
    /* the history */
    bool changes, clustered;
    ms_sync_mode sync;
    size_t segment;
    unsigned char *bytes;     /* the file at its end; ROOM bytes, zeros after it */
    size_t size, end, high;   /* high: the longest that the file was */
    uint64_t durable;         /* all below it was reported as durable */
    unsigned char *older[VERSIONS];
    size_t n_older;
    record *records;
    size_t n;
    char place[LOCATIONS][40];
    uint64_t view[LOCATIONS]; /* what each location shows in the undamaged file */
    size_t n_places;
    uint64_t all;             /* what a query over everything shows */
    /* the copy */
    unsigned char *image, *spare;
    size_t image_size;
    bool strict;              /* nothing counts as dead */
    bool restarted, sealed, has_foreign;
    bool again; /* the machine has restarted after the append */
    bool head[2];             /* that page of the superblock was hit */
    int n_faults;
    char what[300];
    uint64_t zeroed_at, zeroed_end; /* of the last event */
    uint64_t appended;        /* where records after the rot begin; 0: none */
    size_t gone;              /* the record from which on all counted as dead before */
    /* PATH.torn */
    unsigned char *torn;
    size_t torn_size;
    /* counts */
    uint64_t histories, boots, images, faults[FAULT_KINDS], refused, dead, lost, reported;
} rot;

static unsigned char *foreign; /* another log */

/* ---- a disk with a second file, PATH.torn ---- */

static rot *of_disk(void *ctx) { return (rot *)ctx; } /* its first member */

static int torn_open(void *ctx, const char *path, unsigned how, ms_file *file)
{
    size_t n = strlen(path);
    if (n < 5 || strcmp(path + n - 5, ".torn") != 0)
        return disk_open(ctx, path, how, file);
    *file = 3;
    return 0;
}

static int torn_close(void *ctx, ms_file file)
{
    return file == 3 ? 0 : disk_close(ctx, file);
}

static int torn_write(void *ctx, ms_file file, uint64_t offset, const void *from,
                      size_t size, size_t *done)
{
    rot *t = of_disk(ctx);
    if (file != 3) return disk_write(ctx, file, offset, from, size, done);
    assert_true(offset + size <= ROOM);
    memcpy(t->torn + offset, from, size);
    if (t->torn_size < offset + size) t->torn_size = (size_t)offset + size;
    *done = size;
    return 0;
}

static int torn_allocate(void *ctx, ms_file file, uint64_t offset, uint64_t size)
{
    return file == 3 ? 0 : disk_allocate(ctx, file, offset, size);
}

static int torn_stat(void *ctx, ms_file file, ms_os_stat *out)
{
    if (file != 3) return disk_stat(ctx, file, out);
    *out = stat_in_memory(of_disk(ctx)->torn_size, 99);
    return 0;
}

static int torn_sync(void *ctx, ms_file file)
{
    return file == 3 ? 0 : disk_sync(ctx, file);
}

static void torn_clear(rot *t)
{
    memset(t->torn, 0, t->torn_size);
    t->torn_size = 0;
}

static void on_event(void *ctx, const ms_log_event *event)
{
    rot *t = (rot *)ctx;
    if (event->kind != MS_LOG_ZEROED) return;
    t->zeroed_at = event->offset;
    t->zeroed_end = event->offset + event->length;
}

static ms_log_desc desc_of(rot *t, ms_log_mode mode)
{
    ms_log_desc desc = disk_desc(&t->d, mode);
    desc.keep_unset_times = true;
    desc.segment_size = t->segment;
    desc.events.event = on_event;
    desc.events.ctx = t;
    return desc;
}

static unsigned char *bytes_new(void)
{
    unsigned char *bytes = (unsigned char *)calloc(1, ROOM);
    if (bytes == NULL) abort();
    return bytes;
}

static rot *rot_new(void)
{
    rot *t = (rot *)calloc(1, sizeof *t);
    if (t == NULL) abort();
    disk_init(&t->d, ROOM);
    t->d.os.open = torn_open;
    t->d.os.close = torn_close;
    t->d.os.write = torn_write;
    t->d.os.allocate = torn_allocate;
    t->d.os.stat = torn_stat;
    t->d.os.sync = torn_sync;
    t->d.keep_synced = true;
    t->rng = test_seed();
    t->bytes = bytes_new();
    t->image = bytes_new();
    t->spare = bytes_new();
    t->torn = bytes_new();
    for (size_t i = 0; i < VERSIONS; i++) t->older[i] = bytes_new();
    t->records = (record *)calloc(MOST, sizeof t->records[0]);
    if (t->records == NULL) abort();
    return t;
}

static void rot_free(rot *t)
{
    disk_deinit(&t->d);
    for (size_t i = 0; i < VERSIONS; i++) free(t->older[i]);
    free(t->bytes);
    free(t->image);
    free(t->spare);
    free(t->torn);
    free(t->records);
    free(t);
}

static size_t any(rot *t, size_t n) { return (size_t)test_below(&t->rng, n); }
static bool one_in(rot *t, size_t n) { return test_one_in(&t->rng, n); }

/* ---- a history ---- */

/* Copies the file; what is after its end is zero. */
static void copy_file(rot *t, unsigned char *to)
{
    size_t size = (size_t)t->d.size;
    if (t->high < size) t->high = size;
    memcpy(to, t->d.ro, size);
    memset(to + size, 0, t->high - size);
}

/* Zeroes all that the last history has left. */
static void forget(rot *t)
{
    for (size_t i = 0; i < VERSIONS; i++) memset(t->older[i], 0, t->high);
    memset(t->bytes, 0, t->high);
    memset(t->image, 0, t->high);
    t->high = t->n_older = 0;
    disk_clear(&t->d);
}

/* Keeps the file as it is: a stale page is from one of these. */
static void keep_version(rot *t)
{
    size_t i = t->n_older < VERSIONS ? t->n_older++ : any(t, VERSIONS);
    copy_file(t, t->older[i]);
}

/* Steps of a process: appends, or changes of all kinds. */
typedef struct author {
    scribe s;
    uint64_t n;               /* the next number */
    change_sequence *steps;   /* NULL: appends of numbered messages */
} author;

static void write_one(author *a, ms_store *store)
{
    size_t count;
    ms_error err;
    if (a->steps != NULL) {
        must_ok(sequence_step(a->steps, store, &err), &err, "a step");
        return;
    }
    must_ok(scribe_append(&a->s, store, a->n, NULL, &count, &err), &err, "an append");
    a->n += count;
}

static ms_log_info info_of(ms_store *store)
{
    ms_log_info info;
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    return info;
}

/* Copies the file as a process leaves it that is killed in an append. */
static void killed_in_an_append(rot *t, ms_store *store, unsigned char *left)
{
    ms_error err;
    char text[600];
    size_t end = (size_t)info_of(store).end;
    copy_file(t, left);
    memset(text, 't', sizeof text);
    ms_envelope m[3] = {ms_user_message(ms_text_n(ms_str_n(text, 40))),
                        ms_user_message(ms_text_n(ms_str_n(text, any(t, sizeof text)))),
                        ms_user_message(ms_text_n(ms_str_n(text, sizeof text)))};
    for (int i = 0; i < 3; i++) m[i].location = MS_STR("torn");
    must_ok(ms_append_batch(store, m, 3, NULL, &err), &err, "an append to be torn");
    size_t upto = end; /* the last of the three is not complete */
    for (int i = 0; i < 2; i++) upto += file_padded(file_get32(t->d.ro + upto));
    memcpy(left + end, t->d.ro + end, any(t, upto + 400 - end));
}

/* The process of an author writes until the file has so many bytes, and ends. */
static void process(rot *t, author *a, size_t upto, bool last)
{
    ms_error err;
    ms_log_desc desc = desc_of(t, MS_LOG_CREATE);
    uint64_t entropy = test_random(&t->rng);
    desc.entropy.fill = entropy_counts;
    desc.entropy.ctx = &entropy;
    desc.sync = t->sync;
    desc.sync_bytes = 3000;
    desc.engine = one_in(t, 2) ? MS_ENGINE_MAP : MS_ENGINE_WRITE;
    ms_store *store = must_open_log(&desc, "a writer");
    size_t steps = 0, often = 4 + any(t, 200);
    bool full = false;
    do {
        write_one(a, store);
        if (t->sync == MS_SYNC_NONE && one_in(t, often))
            must_ok(ms_sync(store, NULL, &err), &err, "sync");
        if (one_in(t, often)) keep_version(t);
        full = a->steps != NULL && a->steps->h.count + 60 > SEQUENCE_MOST;
        if (a->n + SCRIBE_BATCH > MOST / 2) full = true;
    } while (++steps < 5000 && !full && info_of(store).end < upto);
    keep_version(t);
    t->durable = info_of(store).durable_end;
    size_t how = any(t, 3);
    if (how == 0) {
        ms_close(store);
        t->durable = file_get64(t->d.ro + FILE_AT_WATERMARK);
    } else {
        if (how == 1 || last) copy_file(t, t->image);
        else killed_in_an_append(t, store, t->image);
        size_t size = (size_t)t->d.size, synced = (size_t)t->d.synced_size;
        memcpy(t->bytes, t->d.synced, synced);
        ms_close(store);
        disk_load(&t->d, t->image, size);
        memcpy(t->d.synced, t->bytes, synced);
        t->d.synced_size = synced;
    }
    if (a->steps != NULL) sequence_writer_gone(a->steps);
}

/* A process rewrites the log: what was written so far is clustered. */
static void compact(rot *t, author *a)
{
    ms_log_desc desc = desc_of(t, MS_LOG_WRITE);
    uint64_t entropy = test_random(&t->rng);
    desc.entropy.fill = entropy_counts;
    desc.entropy.ctx = &entropy;
    ms_store *store = must_open_log(&desc, "a writer that rewrites");
    disk_compact(&t->d, store, &desc);
    if (a->steps != NULL) sequence_rewritten(a->steps, 0);
    t->durable = file_get64(t->d.ro + FILE_AT_WATERMARK);
    t->n_older = 0; /* of another file */
    t->clustered = true;
}

/* The power fails: the file is what the last sync has seen. */
static void power_fails(rot *t, author *a)
{
    memcpy(t->bytes, t->d.synced, (size_t)t->d.synced_size);
    disk_load(&t->d, t->bytes, (size_t)t->d.synced_size);
    t->n_older = 0;
    a->n += 1000;
}

static uint8_t place_of(rot *t, ms_str name)
{
    char text[40];
    size_t i = 0;
    snprintf(text, sizeof text, "%.*s", (int)name.len, name.ptr ? name.ptr : "");
    while (i < t->n_places && strcmp(t->place[i], text) != 0) i++;
    if (i < t->n_places) return (uint8_t)i;
    assert_true(i < LOCATIONS);
    memcpy(t->place[t->n_places++], text, sizeof text);
    return (uint8_t)i;
}

static ms_arena arena;

/* Reads what a location (NULL: everything) shows; records after the rot are left out. */
static ms_result view_of(ms_store *store, const char *place, uint64_t *hash)
{
    ms_cursor it;
    const ms_msg *msg;
    ms_query q = {.arena = &arena};
    if (place != NULL) q.location = ms_str_of(place);
    *hash = 1;
    ms_result result = ms_query_open(store, &q, &it, NULL);
    if (result != MS_OK) return result;
    while ((msg = ms_next(&it)) != NULL)
        if (!is_word(test_location(msg), "after")) *hash = hash_of(*hash, msg);
    result = ms_cursor_close(&it, NULL);
    ms_arena_reset(&arena);
    return result;
}

/* Walks the undamaged file, which is the reference. */
static void survey(rot *t)
{
    ms_log_desc desc = desc_of(t, MS_LOG_READ);
    ms_cursor it;
    const ms_msg *msg;
    ms_query raw = {.raw = MS_RAW_ALL};
    size_t i = 0;
    copy_file(t, t->bytes);
    t->size = (size_t)t->d.size;
    t->end = (size_t)file_get64(t->bytes + FILE_AT_WATERMARK);
    t->n = t->n_places = 0;
    for (size_t at = HEAD; at < t->end; at += t->records[t->n++].size) {
        const unsigned char *r = t->bytes + at;
        record *e = &t->records[t->n];
        assert_true(t->n < MOST && at + FILE_HEADER < t->end);
        assert_int_equal(file_get32(r + FILE_AT_CHECK), file_check(t->bytes + 24, at, r));
        memset(e, 0, sizeof *e);
        e->at = (uint32_t)at;
        e->size = (uint32_t)file_padded(file_get32(r));
        e->kind = r[4];
        e->flags = r[7];
        e->place = LOCATIONS;
    }
    ms_store *store = must_open_log(&desc, "the reference");
    assert_int_equal(ms_query_open(store, &raw, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL) {
        size_t at = (size_t)((const unsigned char *)(const void *)msg - t->d.ro);
        for (i = 0; i < t->n && t->records[i].at != at;) i++;
        assert_true(i < t->n);
        t->records[i].place = place_of(t, test_location(msg));
    }
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    for (i = 0; i < t->n_places; i++)
        assert_int_equal(view_of(store, t->place[i], &t->view[i]), MS_OK);
    assert_int_equal(view_of(store, NULL, &t->all), MS_OK);
    ms_close(store);
}

/* Makes a log of about so many bytes, in so many boots. */
static void history(rot *t, size_t bytes, int boots, bool changes)
{
    static change_sequence steps;
    size_t longest = one_in(t, 3) ? 4000 : 300;
    author a = {{test_random(&t->rng), longest}, 1, NULL};
    forget(t);
    t->d.boot = 100 + any(t, 1000);
    t->durable = 0;
    t->changes = changes;
    t->sync = (ms_sync_mode)any(t, 3);
    t->segment = one_in(t, 2) ? MS_LOG_SEGMENT_MIN : one_in(t, 2) ? 8192 : 0;
    if (changes) {
        sequence_begin(&steps, test_random(&t->rng));
        a.steps = &steps;
    }
    t->clustered = false;
    bool compacts = one_in(t, 3);
    for (int i = 0; i < boots; i++) {
        size_t from = HEAD + (bytes - HEAD) / (size_t)boots * (size_t)i;
        size_t part = (bytes - HEAD) / (size_t)boots, processes = 1 + any(t, 2);
        if (i > 0) t->d.boot++;
        if (i > 0 && !changes && one_in(t, 3) && t->d.synced_size > 0) power_fails(t, &a);
        for (size_t k = 1; k <= processes; k++)
            process(t, &a, from + part * k / processes,
                    i == boots - 1 && k == processes);
        if (compacts && (one_in(t, 3) || i == boots - 1)) compact(t, &a);
    }
    t->boot = t->d.boot;
    t->histories++;
    t->boots += (uint64_t)boots;
    survey(t);
}

/* ---- the faults ---- */

static void noise(rot *t, size_t at, size_t size)
{
    test_fill(&t->rng, t->image + at, size);
}

/* A page of the file, often the first one. */
static size_t a_page(rot *t)
{
    size_t used = (t->end + PAGE - 1) / PAGE, all = t->size / PAGE;
    if (one_in(t, 9)) return 0;
    if (one_in(t, 20)) return PAGE;
    if (one_in(t, 20)) return any(t, all) * PAGE;
    return any(t, used) * PAGE;
}

/* Hits a page of the copy. */
static void hit_page(rot *t, fault kind, size_t page, size_t other)
{
    size_t at = page + any(t, PAGE), sector = at / SECTOR * SECTOR, len = strlen(t->what);
    unsigned char kept[PAGE];
    switch (kind) {
    case BIT: t->image[at] ^= (unsigned char)(1u << any(t, 8)); break;
    case BYTE: t->image[at] ^= (unsigned char)(1 + any(t, 255)); break;
    case NOISE_SECTOR: noise(t, sector, SECTOR); break;
    case ZERO_SECTOR: memset(t->image + sector, 0, SECTOR); break;
    case ZERO_PAGE: memset(t->image + page, 0, PAGE); break;
    case NOISE_PAGE: noise(t, page, PAGE); break;
    case COPIED_PAGE: memmove(t->image + page, t->image + other, PAGE); break;
    case STALE_PAGE:
        memcpy(t->image + page, t->older[any(t, t->n_older)] + page, PAGE);
        break;
    case SWAPPED_PAGES:
        memcpy(kept, t->image + page, PAGE);
        memmove(t->image + page, t->image + other, PAGE);
        memcpy(t->image + other, kept, PAGE);
        break;
    case FOREIGN_PAGE: memcpy(t->image + page, foreign + page, PAGE); break;
    case CUT:
    case FAULT_KINDS:
    default:
        t->image_size = HEAD + any(t, t->size - HEAD);
        at = t->image_size;
        memset(t->image + at, 0, t->size - at);
        break;
    }
    t->faults[kind]++;
    snprintf(t->what + len, sizeof t->what - len, "; %s at %zu (%zu)", fault_names[kind],
             kind <= BYTE || kind == CUT  ? at
             : kind <= ZERO_SECTOR ? sector
                                   : page,
             other);
}

static void hit(rot *t)
{
    fault kind = (fault)any(t, FAULT_KINDS);
    if (kind == STALE_PAGE && t->n_older == 0) kind = ZERO_PAGE;
    if (kind == FOREIGN_PAGE && t->has_foreign) kind = NOISE_PAGE;
    if (kind == CUT && (t->n_faults > 1 || one_in(t, 2))) kind = NOISE_PAGE;
    t->has_foreign |= kind == FOREIGN_PAGE;
    size_t page = a_page(t);
    hit_page(t, kind, page, a_page(t));
}

/* Notes of each record whether it was hit, and whether it is whole. */
static void note_touched(rot *t)
{
    t->head[0] = memcmp(t->image, t->bytes, PAGE) != 0;
    t->head[1] = memcmp(t->image + PAGE, t->bytes + PAGE, PAGE) != 0;
    for (size_t i = 0; i < t->n; i++) {
        record *e = &t->records[i];
        e->touched = e->at + e->size > t->image_size ||
                     memcmp(t->image + e->at, t->bytes + e->at, e->size) != 0;
    }
}

/* ---- what must hold ---- */

static void wrong(rot *t, const char *when, const char *format, ...)
{
    char text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fail_msg("image %llu of history %llu (end %zu, durable %llu, sync %d, segment "
             "%zu%s%s)%s: %s: %s",
             (unsigned long long)t->images, (unsigned long long)t->histories, t->end,
             (unsigned long long)t->durable, (int)t->sync, t->segment,
             t->changes     ? ", changes"
             : t->clustered ? ", clustered"
                            : "",
             t->restarted ? ", restarted" : "", t->what,
             when, text);
}

static bool is_listed(const record *e) { return e->place < LOCATIONS; }

/* Returns whether bytes of the copy were once those of the log. */
static bool is_authentic(const rot *t, size_t at, const void *bytes, size_t size)
{
    const unsigned char *r = (const unsigned char *)bytes;
    if (file_get32(r + FILE_AT_BODY_CHECK) == FILE_ERASED) size = FILE_HEADER;
    if (memcmp(bytes, t->bytes + at, size) == 0) return true;
    for (size_t i = 0; i < t->n_older && t->changes; i++)
        if (memcmp(bytes, t->older[i] + at, size) == 0) return true;
    return false;
}

/* Returns the number of the record at an offset; t->n: none begins there. */
static size_t record_at(const rot *t, size_t at)
{
    size_t low = 0, high = t->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->records[middle].at < at) low = middle + 1;
        else high = middle;
    }
    return low < t->n && t->records[low].at == at ? low : t->n;
}

/* Reads all records; notes which. */
static ms_result read_records(rot *t, ms_store *store, const char *when)
{
    ms_query q = {.raw = MS_RAW_ALL};
    ms_cursor it;
    const ms_msg *msg;
    size_t i = 0;
    uint64_t last = 0;
    for (size_t k = 0; k < t->n; k++) t->records[k].read = false;
    ms_result result = ms_query_open(store, &q, &it, NULL);
    if (result != MS_OK) return result;
    while ((msg = ms_next(&it)) != NULL) {
        const unsigned char *p = (const unsigned char *)(const void *)msg;
        size_t at = (size_t)(p - t->d.ro);
        assert_true(p >= t->d.ro && at + ms_size(msg) <= t->d.size);
        if (t->appended != 0 && at >= t->appended) {
            if (!is_word(ms_content(msg).text, "after the rot"))
                wrong(t, when, "a record at %zu that nobody wrote", at);
            continue;
        }
        i = record_at(t, at);
        if (i == t->n || t->records[i].read || !is_authentic(t, at, p, ms_size(msg)))
            wrong(t, when, "a record at %zu that nobody wrote", at);
        t->records[i].read = true;
        if (!t->changes && ms_seq(msg) <= last) wrong(t, when, "the order of records");
        last = ms_seq(msg);
    }
    return ms_cursor_close(&it, NULL);
}

/* Returns whether a sector of the copy has only zeros from a record on. */
static bool has_zero_sector(const rot *t, const record *e)
{
    size_t at = e->at, end = e->at + e->size;
    while (at < end && at < t->image_size) {
        size_t next = (at / SECTOR + 1) * SECTOR;
        if (next > t->image_size) next = t->image_size;
        while (at < next && t->image[at] == 0) at++;
        if (at == next) return true;
        at = next;
    }
    return at < end;
}

static bool whole_after(const rot *t, size_t i)
{
    while (++i < t->n)
        if (!t->records[i].touched) return true;
    return false;
}

/* Returns the first record of the end of the log that was not read. */
static size_t unread_end(const rot *t)
{
    size_t i = t->n;
    while (i > 0 && (!is_listed(&t->records[i - 1]) || !t->records[i - 1].read)) i--;
    while (i < t->n && !is_listed(&t->records[i]) && !t->records[i].touched) i++;
    return i;
}

/* Returns whether the records from i on have not more than one whole append. */
static bool one_append(const rot *t, size_t i)
{
    size_t whole = 0;
    for (; i < t->n; i++)
        whole += !t->records[i].touched && (t->records[i].flags & MS_FLAG_COMMIT) != 0;
    return whole <= 1;
}

/* Returns the first record after the watermark of the copy, i or a later one. */
static size_t after_mark(const rot *t, size_t i)
{
    uint64_t mark = file_get64(t->image + FILE_AT_WATERMARK);
    while (i < t->n && t->records[i].at < mark) i++;
    return i;
}

/* Returns from which record on, i or a later one, a torn append can have left the end of
 * the log. t->n: none can. */
static size_t torn_from(const rot *t, size_t i)
{
    if (t->strict || (!t->restarted && !t->head[0])) return t->n;
    if (t->head[0] && one_append(t, i)) return i;
    size_t marked = after_mark(t, i);
    /* the watermark of the copy is */
    bool trusted = t->head[0] && file_get64(t->image + FILE_AT_WRITER) == t->d.boot;
    if (trusted && marked < t->n && one_append(t, marked)) return marked;
    while (i < t->n && t->records[i].at < t->durable && !t->head[0]) i++;
    for (size_t k = i; k < t->n; k++) {
        const record *e = &t->records[k];
        if (e->touched && (has_zero_sector(t, e) || !whole_after(t, k))) return i;
        if (!e->touched && is_listed(e) && (e->flags & MS_FLAG_COMMIT)) return t->n;
    }
    return t->n;
}

/* Returns from which record on the end of the log may count as dead. After an append that
 * is what was dead before; after a restart behind it a torn append may be found, whose
 * first records could be read before. */
static size_t dead_from(const rot *t, size_t i)
{
    size_t gone = t->appended != 0 ? t->gone : t->n;
    if (gone < t->n && !t->again) return gone;
    size_t torn = torn_from(t, i);
    return torn < gone ? torn : gone;
}

/* Judges a reader by what it has read. Returns how many records are missing; *dead: where
 * those begin that count as dead. */
static size_t judge(rot *t, ms_store *store, ms_result all, const char *when,
                    size_t *dead)
{
    size_t lost = 0, begin = unread_end(t);
    uint64_t seen;
    bool asked[LOCATIONS + 1] = {false};
    *dead = dead_from(t, begin);
    if (all != MS_OK && all != MS_E_DAMAGED) wrong(t, when, "%s", ms_result_text(all));
    for (size_t i = 0; i < *dead; i++) {
        const record *e = &t->records[i];
        if (!is_listed(e) || e->read) continue;
        lost++;
        if (t->n_faults == 1 && !e->touched)
            wrong(t, when, "a record at %u is lost, which was not hit", e->at);
        if (all == MS_OK)
            wrong(t, when, "a record at %u is lost, and not reported", e->at);
        if (asked[e->place]) continue;
        asked[e->place] = true;
        ms_result result = view_of(store, t->place[e->place], &seen);
        if (result != MS_OK || (t->changes && *dead < t->n)) continue;
        if (!t->changes || seen != t->view[e->place])
            wrong(t, when, "a record of kind %d at %u is lost, and %s does not report it",
                  e->kind, e->at, t->place[e->place]);
    }
    if (*dead == t->n) {
        size_t i = t->n_places > 0 ? any(t, t->n_places) : 0; /* 0: it has no message */
        if (i < t->n_places && view_of(store, t->place[i], &seen) == MS_OK &&
            seen != t->view[i])
            wrong(t, when, "%s shows something else, and reports nothing", t->place[i]);
        if (view_of(store, NULL, &seen) == MS_OK && seen != t->all)
            wrong(t, when, "everything shows something else, and reports nothing");
    }
    return lost;
}

/* Returns whether a refusal is right: both pages of the superblock are damaged, or one of
 * them and all records. */
static bool may_be_refused(const rot *t)
{
    for (size_t i = 0; i < t->n && !(t->head[0] && t->head[1]); i++)
        if (is_listed(&t->records[i]) && !t->records[i].touched) return false;
    return t->head[0] || t->head[1];
}

/* Opens the copy. False: it is refused. */
static bool opens(rot *t, ms_log_desc *desc, ms_store **store, const char *when)
{
    ms_error err;
    ms_result result = ms_log_open(store, desc, &err);
    if (result == MS_OK) return true;
    bool empty = result == MS_E_NOT_FOUND; /* zeros, as a creation leaves them */
    if (result != MS_E_DAMAGED && result != MS_E_FOREIGN && !empty)
        wrong(t, when, "%s", err.message);
    if (!may_be_refused(t)) wrong(t, when, "refused: %s", err.message);
    return false;
}

/* Returns how many records a reader lacks; SIZE_MAX: it is refused. */
static size_t look(rot *t, const char *when, size_t *dead)
{
    ms_store *store;
    ms_log_desc desc = desc_of(t, MS_LOG_READ);
    if (!opens(t, &desc, &store, when)) return SIZE_MAX;
    ms_result all = read_records(t, store, when);
    size_t lost = judge(t, store, all, when, dead);
    ms_close(store);
    return lost;
}

static bool all_zero(const rot *t, size_t at)
{
    while (at < t->image_size && t->image[at] == 0) at++;
    return at == t->image_size;
}

static void verify(rot *t, size_t lost, size_t dead, const char *when)
{
    ms_error err;
    ms_log_report report;
    ms_log_desc desc = desc_of(t, MS_LOG_READ);
    ms_result result = ms_log_verify(&desc, &report, &err);
    if (result != MS_OK && result != MS_E_DAMAGED) wrong(t, when, "%s", err.message);
    if (lost > 0 && result == MS_OK) wrong(t, when, "%zu are lost, and not found", lost);
    bool zeros = dead < t->n && all_zero(t, t->records[dead].at);
    bool told = zeros || result != MS_OK || report.torn_bytes > 0;
    if (dead < t->n && t->restarted && !told)
        wrong(t, when, "torn bytes are not counted");
}

/* Salvage takes in every whole record. */
static void salvage(rot *t, bool refused)
{
    ms_store *store;
    ms_log_desc desc = desc_of(t, MS_LOG_READ);
    desc.opening = MS_OPEN_SALVAGE;
    if (!opens(t, &desc, &store, "salvage")) return;
    ms_result result = read_records(t, store, "salvage");
    for (size_t i = 0; i < t->n; i++) {
        const record *e = &t->records[i];
        if (is_listed(e) && !e->read && !e->touched && !refused &&
            !(t->head[0] && t->head[1]))
            wrong(t, "salvage", "a record at %u is lost, which was not hit", e->at);
        if (is_listed(e) && !e->read && result == MS_OK)
            if (whole_after(t, i)) wrong(t, "salvage", "a lost record is not reported");
    }
    ms_close(store);
}

/* A writer appends. Returns false if it is refused. */
static bool append(rot *t)
{
    ms_store *store;
    ms_error err;
    uint64_t seq = 0;
    const ms_msg *msg;
    ms_log_desc desc = desc_of(t, MS_LOG_WRITE);
    ms_envelope m = ms_user_message(ms_text("after the rot"));
    desc.engine = one_in(t, 2) ? MS_ENGINE_MAP : MS_ENGINE_WRITE;
    desc.sync = (ms_sync_mode)any(t, 3);
    t->zeroed_at = t->zeroed_end = 0;
    if (!opens(t, &desc, &store, "a writer")) return false;
    if (t->strict) { /* it appends nothing, and the machine restarts */
        ms_close(store);
        t->d.boot++;
        store = must_open_log(&desc, "another writer");
    }
    must_ok(ms_append(store, MS_STR("after"), &m, &seq, &err), &err, t->what);
    must_ok(ms_get_by_seq(store, seq, NULL, &msg, &err), &err, t->what);
    t->appended = (uint64_t)((const unsigned char *)(const void *)msg - t->d.ro);
    t->sealed = info_of(store).segments > 0;
    bool close = one_in(t, 2);
    if (!close) copy_file(t, t->spare);
    size_t size = (size_t)t->d.size;
    ms_close(store);
    if (!close) disk_load(&t->d, t->spare, size);
    return true;
}

/* The append has erased no whole record, or has kept and reported it. */
static void must_keep(rot *t, size_t image_size)
{
    for (size_t i = 0; i < t->n; i++) {
        const record *e = &t->records[i];
        if (!is_listed(e) || e->touched || e->at + e->size > image_size) continue;
        if (memcmp(t->d.ro + e->at, t->bytes + e->at, e->size) == 0) continue;
        if (e->at < t->zeroed_at || e->at + e->size > t->zeroed_end)
            wrong(t, "a writer", "a whole record at %u is erased, unreported", e->at);
        if (memcmp(t->torn + e->at, t->bytes + e->at, e->size) != 0)
            wrong(t, "a writer", "a whole record at %u is erased, not kept", e->at);
    }
}

/* Everything that is tried on a copy. */
static void try_it(rot *t)
{
    size_t dead = t->n, lost = look(t, "a reader", &dead);
    t->refused += lost == SIZE_MAX;
    if (lost == SIZE_MAX) dead = t->n;
    else t->lost += lost;
    t->reported += lost != SIZE_MAX && lost > 0;
    t->dead += dead < t->n;
    if (lost != SIZE_MAX) verify(t, lost, dead, "verify");
    for (size_t i = 0; i < t->n; i++) t->records[i].whole = t->records[i].read;
    if (one_in(t, 2)) salvage(t, lost == SIZE_MAX);
    t->gone = dead;
    if (!append(t)) return;
    if (lost == SIZE_MAX) wrong(t, "a writer", "it opens what a reader does not");
    must_keep(t, t->image_size);
    bool restarts = one_in(t, 3);
    t->d.boot += restarts;
    t->restarted |= restarts && t->sealed; /* those the writer did not look at */
    t->again = restarts && t->sealed;
    size_t again = dead;
    lost = look(t, "a reader after an append", &again);
    for (size_t i = 0; i < again; i++)
        if (t->records[i].whole && !t->records[i].read)
            wrong(t, "a reader after an append", "a record at %u is gone",
                  t->records[i].at);
    if (one_in(t, 4)) verify(t, lost, t->n, "verify after an append");
}

/* Begins a copy of a history. */
static void copy_begin(rot *t, bool restarted)
{
    memcpy(t->image, t->bytes, t->size);
    t->image_size = t->size;
    t->what[0] = '\0';
    t->has_foreign = false;
    t->appended = 0;
    t->again = false;
    t->restarted = restarted;
    t->d.boot = t->boot + restarted;
}

/* Tries a copy that was hit. */
static void copy_end(rot *t)
{
    note_touched(t);
    torn_clear(t);
    disk_load(&t->d, t->image, t->image_size);
    t->images++;
    alarm(60); /* a hang ends the process */
    try_it(t);
    alarm(0);
    disk_is_idle(&t->d);
}

/* Makes rotten copies of a history. */
static void rot_it(rot *t, size_t times)
{
    for (size_t i = 0; i < times; i++) {
        copy_begin(t, one_in(t, 2));
        t->n_faults = one_in(t, 2) ? 1 : 2 + one_in(t, 2);
        for (int k = 0; k < t->n_faults; k++) hit(t);
        copy_end(t);
    }
}

static void make_foreign(rot *t)
{
    foreign = bytes_new();
    t->segment = 0;
    t->d.inode = 5;
    history(t, (size_t)1 << 20, 1, false);
    memcpy(foreign, t->bytes, ROOM);
    t->histories = t->boots = 0;
    t->d.inode = 1;
}

static void told(const rot *t, const char *what)
{
    test_tally(what, t->images);
    test_tally("histories before the rot", t->histories);
    test_tally("boots of them", t->boots);
    for (int i = 0; i < FAULT_KINDS; i++) test_tally(fault_names[i], t->faults[i]);
    test_tally("rotten logs that are refused", t->refused);
    test_tally("rotten logs that report damage", t->reported);
    test_tally("rotten logs with a dead end", t->dead);
}

enum { LAST_PAGE = 1 };

/* Hits page 0, and then another one (0: none), in histories of some pages. strict:
 * nothing counts as dead. Returns how many of the 80 copies are refused. */
static uint64_t hit_the_first_page(fault first, fault then, size_t other, bool strict)
{
    rot *t = rot_new();
    test_arena_init(&arena, NULL);
    make_foreign(t);
    for (size_t i = 0; i < 40; i++) {
        history(t, HEAD + 4 * PAGE + any(t, 28000), 1 + (int)any(t, 3), one_in(t, 3));
        size_t page = other == LAST_PAGE ? (t->end - 1) / PAGE * PAGE : other;
        t->strict = strict;
        for (int restarted = 0; restarted < 2; restarted++) {
            copy_begin(t, restarted != 0);
            t->n_faults = 1 + (other != 0);
            if (first != STALE_PAGE || t->n_older > 0)
                hit_page(t, first, 0, PAGE);
            if (other != 0) hit_page(t, then, page, 0);
            copy_end(t);
        }
    }
    uint64_t refused = t->refused;
    free(foreign);
    ms_arena_deinit(&arena);
    rot_free(t);
    return refused;
}

TEST(log_goes_on_when_its_first_page_is_an_older_one)
{
    assert_int_equal(hit_the_first_page(STALE_PAGE, CUT, 0, false), 0);
}

TEST(log_goes_on_when_its_first_page_is_the_copy_of_the_fixed_part)
{
    assert_int_equal(hit_the_first_page(COPIED_PAGE, CUT, 0, true), 0);
    assert_int_equal(hit_the_first_page(COPIED_PAGE, ZERO_PAGE, 3 * PAGE, true), 0);
}

TEST(log_goes_on_when_its_first_page_has_no_live_words_and_the_copy_is_lost)
{
    rot *t = rot_new();
    test_arena_init(&arena, NULL);
    make_foreign(t);
    t->strict = true;
    for (int i = 0; i < 40; i++) {
        history(t, HEAD + 4 * PAGE + any(t, 28000), 1 + (int)any(t, 3), false);
        copy_begin(t, i % 2 != 0);
        t->n_faults = 3;
        hit_page(t, COPIED_PAGE, 0, PAGE);
        hit_page(t, i % 4 < 2 ? NOISE_PAGE : ZERO_PAGE, PAGE, 0);
        hit_page(t, ZERO_SECTOR, 3 * PAGE, 0);
        copy_end(t);
    }
    assert_int_equal(t->refused, 0);
    free(foreign);
    ms_arena_deinit(&arena);
    rot_free(t);
}

/* Without a checkpoint a sector of zeros ends the log. The numbers of clustered records do
 * not rise: those after the zeros may all be lower, and must be kept all the same. */
TEST(whole_clustered_records_are_kept_when_they_count_as_dead)
{
    rot *t = rot_new();
    test_arena_init(&arena, NULL);
    make_foreign(t);
    for (int i = 0; i < 100;) {
        history(t, HEAD + 4 * PAGE + any(t, 28000), 1, false);
        if (!t->clustered || t->segment != 8192) continue;
        copy_begin(t, true);
        t->n_faults = 3;
        memset(t->image + FILE_AT_CHECKPOINTS, 0, 2 * SECTOR);
        for (size_t k = t->n; !is_listed(&t->records[k - 1]); k--)
            t->image[t->records[k - 1].at + 40] ^= 1;
        size_t hit = t->records[t->n - 12].at / SECTOR * SECTOR;
        memset(t->image + hit, 0, SECTOR);
        copy_end(t);
        i++;
    }
    assert_true(t->dead > 50);
    free(foreign);
    ms_arena_deinit(&arena);
    rot_free(t);
}

TEST(log_is_refused_when_its_first_page_is_lost_and_the_copy_is_of_another_log)
{
    assert_int_equal(hit_the_first_page(NOISE_PAGE, FOREIGN_PAGE, PAGE, true), 80);
    assert_int_equal(hit_the_first_page(ZERO_PAGE, FOREIGN_PAGE, PAGE, true), 80);
}

TEST(log_is_refused_when_both_pages_are_the_copy_of_another_log)
{
    rot *t = rot_new();
    test_arena_init(&arena, NULL);
    make_foreign(t);
    const uint64_t no_mark[3] = {HEAD + 4, PAGE, (uint64_t)1 << 62};
    for (int i = 0; i < 50; i++) {
        history(t, HEAD + 4 * PAGE, 1, false);
        copy_begin(t, i % 2 != 0);
        t->n_faults = 2;
        hit_page(t, FOREIGN_PAGE, PAGE, 0);
        t->image[PAGE + 3000] ^= (unsigned char)(i / 10); /* not all of it is zero */
        hit_page(t, COPIED_PAGE, 0, PAGE);
        if (i >= 20) file_put64(t->image + FILE_AT_WATERMARK, no_mark[i % 3]);
        copy_end(t);
    }
    assert_int_equal(t->refused, 50);
    free(foreign);
    ms_arena_deinit(&arena);
    rot_free(t);
}

TEST(damage_stays_known_when_the_first_page_is_lost_too)
{
    assert_int_equal(hit_the_first_page(NOISE_PAGE, ZERO_PAGE, 2 * PAGE, true), 0);
    assert_int_equal(hit_the_first_page(NOISE_PAGE, ZERO_PAGE, 3 * PAGE, true), 0);
    assert_int_equal(hit_the_first_page(NOISE_PAGE, NOISE_PAGE, LAST_PAGE, true), 0);
}

TEST(log_is_its_own_when_its_first_page_is_of_another_one)
{
    assert_int_equal(hit_the_first_page(FOREIGN_PAGE, CUT, 0, true), 0);
    assert_int_equal(hit_the_first_page(FOREIGN_PAGE, NOISE_PAGE, 2 * PAGE, true), 0);
}

TEST(rotten_images_lose_nothing_unreported_after_several_boots)
{
    rot *t = rot_new();
    test_arena_init(&arena, NULL);
    make_foreign(t);
    for (size_t left = test_times(10000); left > 0;) {
        size_t n = left < 50 ? left : 50;
        history(t, HEAD + 500 + any(t, 28000), 1 + (int)any(t, 6), one_in(t, 3));
        rot_it(t, n);
        left -= n;
    }
    told(t, "rotten images");
    free(foreign);
    ms_arena_deinit(&arena);
    rot_free(t);
}

TEST(rotten_files_lose_nothing_unreported)
{
    rot *t = rot_new();
    test_arena_init(&arena, NULL);
    make_foreign(t);
    for (size_t left = test_times(100); left > 0;) {
        size_t n = left < 40 ? left : 40;
        history(t, (size_t)(40 + any(t, 985)) << 10, 1 + (int)any(t, 6), one_in(t, 3));
        rot_it(t, n);
        left -= n;
    }
    told(t, "rotten files");
    free(foreign);
    ms_arena_deinit(&arena);
    rot_free(t);
}

int main(void)
{
    scribe_page();
    return run_all_tests(NULL, NULL);
}
