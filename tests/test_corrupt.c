/* Damaged and hostile bytes in log files.
 *
 * A reference log (two writers, several segments with their index records, a level above
 * them, batches, keys, a torn append that the second writer has zeroed, closed cleanly)
 * lies in memory and is damaged in every simple way: cut at each byte; each bit flipped; each byte set to 00, FF, one more
 * and one less; sectors zeroed, exchanged, overwritten by others and by those of an older
 * file. Each time it is opened and read: a message that is read is one that was written,
 * byte for byte; every message whose bytes were not touched is read; what is missing is
 * reported; ms_log_verify finds every single flipped bit. Some are opened for writing as
 * well, appended to and opened again, or opened strictly or for salvage.
 *
 * A second reference holds changes of every kind. There, what is shown must be what the
 * records that can be read say together, and each record whose bytes were not touched can
 * be read: a flipped bit in a change costs that change alone. A change whose message is
 * lost is never about one that is appended later, in a log as in an image.
 *
 * Then records with valid checks and a wrong meaning.
 *
 * At MS_TEST_SCALE=100 every cut of a file of 40 KiB, and each bit of it for
 * ms_log_verify, each bit of the records of a short one for everything. Every 61st bit
 * and 25th byte of the longer one for the rest, from one on that the seed gives, but
 * always each bit of what names the file. At 1000 all of them: over 262,144 cuts, 524,288
 * flipped bits, 262,144 changed bytes.
 */

#define _GNU_SOURCE
#include "diary.h"
#include "format.h"

enum { ID_END = 56, LIVE = 1032, HEAD = 4096 }; /* offsets in the head page */
enum { ROOM = 2 << 20, MOST = 4000, LAST_BOOT = 19 };
enum { SHORT = HEAD + 2048 };                    /* a file of one segment */

/* Bytes after the first writer's end, of appends that a power loss tore. */
enum { TORN = 3000 };

/* A log as it was written, and where its messages are. */
typedef struct reference {
    unsigned char *bytes;
    size_t size, end;
    size_t torn;              /* where the first writer ended */
    size_t count;             /* messages */
    uint32_t at[MOST + 2];    /* offset of the message with that number, ... */
    uint32_t size_of[MOST + 2];
    uint16_t *number_at;      /* and back, by offset / 8 */
    uint64_t seq_of[MOST + 2];
    unsigned char *older;     /* the file as its first writer left it */
    unsigned char *foreign;   /* another file with the same messages */
    scribe s;
} reference;

/* One damaged file in the making: bytes [lo, hi) of each range may differ. */
typedef struct range {
    size_t lo, hi;
} range;

typedef struct bench {
    disk d;
    reference r;
    size_t segment;
    range damage[2];
    size_t events, damage_events;
    bool missing[MOST + 2];   /* of the last reading */
    size_t lost;
    char what[120];
} bench;

/* One in how many is tried; an odd number, so that each bit of a byte has its turn. */
static size_t stride_of(size_t all)
{
    size_t scale = test_scale();
    return scale >= 1000 ? 1 : (all * 100 / scale) | 1;
}

static void entropy_counts(void *ctx, void *out, size_t len)
{
    test_fill((uint64_t *)ctx, out, len);
}

static void on_event(void *ctx, const ms_log_event *event)
{
    bench *b = (bench *)ctx;
    b->events++;
    b->damage_events += event->kind == MS_LOG_DAMAGE;
}

static ms_log_desc desc_of(bench *b, ms_log_mode mode)
{
    ms_log_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.path = "log.msl";
    desc.mode = mode;
    desc.os = &b->d.os;
    desc.keep_unset_times = true;
    desc.engine = MS_ENGINE_WRITE;
    desc.segment_size = b->segment;
    desc.events.event = on_event;
    desc.events.ctx = b;
    return desc;
}


/* ---- making the reference ---- */

static ms_store *must_open(const ms_log_desc *desc, const char *when)
{
    ms_store *store;
    ms_error err;
    if (ms_log_open(&store, desc, &err) != MS_OK) fail_msg("%s: %s", when, err.message);
    return store;
}

/* Appends until the file has so many bytes. */
static void write_up_to(bench *b, ms_store *store, uint64_t *n, uint64_t bytes)
{
    ms_log_info info;
    do {
        size_t count;
        ms_error err;
        if (scribe_append(&b->r.s, store, *n, b->r.seq_of, &count, &err) != MS_OK)
            fail_msg("append: %s", err.message);
        *n += count;
        assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    } while (info.end < bytes && *n < MOST - SCRIBE_BATCH);
}

/* The whole file as it stands, in memory of the room's size. */
static unsigned char *snapshot(const bench *b)
{
    unsigned char *bytes = (unsigned char *)calloc(1, ROOM);
    if (bytes == NULL) abort();
    memcpy(bytes, b->d.ro, (size_t)b->d.size);
    return bytes;
}

/* What a power loss leaves after the end: a hole, then whole appends that no sync covers,
 * of numbers that this log does not have, then a part of one. */
static void tear(bench *b, size_t end)
{
    scribe s = {~b->r.s.salt, 100};
    ms_log_desc desc = desc_of(b, MS_LOG_WRITE);
    uint64_t n = 1;
    ms_log_info info;
    ms_store *store = must_open(&desc, "to be torn");
    do {
        size_t count;
        assert_int_equal(scribe_append(&s, store, n, NULL, &count, NULL), MS_OK);
        n += count;
        assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    } while (info.end < end + TORN);
    unsigned char *bytes = snapshot(b);
    ms_close(store);
    memcpy(b->d.rw + HEAD, bytes + HEAD, end + TORN - HEAD);
    memset(b->d.rw + end, 0x5a, 48);
    b->d.rw[end + TORN - 1] = 0x5a; /* all of it is zeroed, not less */
    disk_resize(&b->d, end + TORN);
    free(bytes);
}

/* Two writers; the first one's machine loses its power in the middle of an append. */
static void write_log(bench *b, size_t bytes, uint64_t seed)
{
    reference *r = &b->r;
    ms_log_info info;
    ms_log_report report;
    uint64_t n = 1, entropy = seed;
    ms_log_desc desc = desc_of(b, MS_LOG_CREATE);
    desc.entropy.fill = entropy_counts;
    desc.entropy.ctx = &entropy;
    disk_clear(&b->d);
    b->d.boot = seed;
    ms_store *store = must_open(&desc, "a new log");
    write_up_to(b, store, &n, bytes / 2);
    assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
    ms_close(store);
    free(r->older);
    r->older = snapshot(b);
    assert_int_equal(ms_log_verify(&desc, &report, NULL), MS_OK);
    r->torn = (size_t)report.end;
    unsigned char head[HEAD];
    memcpy(head, b->d.ro, HEAD);
    tear(b, r->torn);
    memcpy(b->d.rw, head, HEAD); /* no byte of the page that was stored to since */
    b->d.boot++;
    b->events = 0;
    store = must_open(&desc, "after a power loss");
    write_up_to(b, store, &n, report.end + 1);
    assert_int_equal(b->events, 1);
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    assert_int_equal(info.zeroed_bytes, TORN);
    write_up_to(b, store, &n, bytes);
    ms_close(store);
    for (uint64_t at = file_get64(b->d.ro + FILE_AT_MARK); at < b->d.size; at++)
        assert_int_equal(b->d.ro[at], 0);
    store = must_open(&desc, "the end");
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    ms_close(store);
    assert_int_equal(b->d.boot, seed + 1);
    r->count = (size_t)n - 1;
    r->end = (size_t)info.end;
    r->size = (size_t)b->d.size;
    if (bytes > SHORT && (info.segments < 8 || info.summaries == 0))
        fail_msg("the log has %llu segments, %llu above",
                 (unsigned long long)info.segments, (unsigned long long)info.summaries);
}

/* Notes where each message lies: the only reading that is trusted, of the undamaged
 * file, with every message compared to what its number says. */
static void survey(bench *b)
{
    reference *r = &b->r;
    ms_log_desc desc = desc_of(b, MS_LOG_READ);
    ms_store *store = must_open(&desc, "the reference");
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    memset(&q, 0, sizeof q);
    r->number_at = (uint16_t *)calloc(ROOM / 8, sizeof r->number_at[0]);
    if (r->number_at == NULL) abort();
    tally t;
    memset(&t, 0, sizeof t);
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL) {
        if (!tally_add(&t, &r->s, msg, false, r->seq_of)) fail_msg("%s", t.wrong);
        const unsigned char *p = (const unsigned char *)(const void *)msg;
        assert_true(p >= b->d.ro + HEAD && p + ms_size(msg) <= b->d.ro + r->end);
        r->at[t.last] = (uint32_t)(p - b->d.ro);
        r->size_of[t.last] = (uint32_t)ms_size(msg);
        r->number_at[(p - b->d.ro) / 8] = (uint16_t)t.last;
    }
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    assert_int_equal(t.last, r->count);
    ms_close(store);
    ms_log_report report;
    assert_int_equal(ms_log_verify(&desc, &report, NULL), MS_OK);
    assert_true(r->end <= 2 * HEAD || report.index_records > 8);
    assert_int_equal(report.messages, r->count);
    assert_int_equal(report.end, r->end);
}

static bench *bench_new(size_t bytes)
{
    bench *b = (bench *)calloc(1, sizeof *b);
    if (b == NULL) abort();
    disk_init(&b->d, ROOM);
    b->r.s.salt = test_seed();
    b->r.s.longest = bytes > SHORT ? 400 : 100;
    b->segment = bytes > SHORT ? MS_LOG_SEGMENT_MIN : 4096;
    write_log(b, bytes, 17);
    b->r.foreign = snapshot(b);
    b->d.inode++;
    write_log(b, bytes, LAST_BOOT - 1);
    b->r.bytes = snapshot(b);
    survey(b);
    printf("%zu messages in %zu bytes, the file has %zu\n", b->r.count, b->r.end,
           b->r.size);
    return b;
}

static void bench_free(bench *b)
{
    disk_deinit(&b->d);
    free(b->r.bytes);
    free(b->r.number_at);
    free(b->r.older);
    free(b->r.foreign);
    free(b);
}

/* Undoes all damage. */
static void restore(bench *b)
{
    disk_load(&b->d, b->r.bytes, b->r.size);
    memset(b->damage, 0, sizeof b->damage);
}


/* ---- looking at a damaged file ---- */

static bool touches(const bench *b, uint64_t n)
{
    size_t lo = b->r.at[n], hi = lo + b->r.size_of[n];
    for (int i = 0; i < 2; i++)
        if (lo < b->damage[i].hi && b->damage[i].lo < hi) return true;
    return false;
}

/* The number of a message in the reference, that it must equal byte for byte. */
static uint64_t number_of(const bench *b, const ms_msg *msg)
{
    const unsigned char *p = (const unsigned char *)(const void *)msg;
    const reference *r = &b->r;
    if (p < b->d.ro || p >= b->d.ro + b->d.size) {
        const char *fault;
        return scribe_number(&r->s, msg, &fault);
    }
    size_t at = (size_t)(p - b->d.ro);
    uint64_t n = r->number_at[at / 8];
    if (n == 0 || r->at[n] != at) return 0;
    if (memcmp(p, r->bytes + at, r->size_of[n]) != 0) return 0;
    return n;
}

/* Reads everything (with a sequence number below `before`, 0: no bound): O2, and which
 * messages are missing. */
static ms_result read_up_to(bench *b, ms_store *store, uint64_t before)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    uint64_t last = 0;
    ms_error err;
    memset(&q, 0, sizeof q);
    q.before_seq = before;
    memset(b->missing, 1, b->r.count + 1);
    b->lost = b->r.count;
    ms_result result = ms_query_open(store, &q, &it, &err);
    if (result != MS_OK) return result;
    while ((msg = ms_next(&it)) != NULL) {
        uint64_t n = number_of(b, msg);
        if (n == 0) fail_msg("%s: a message that nobody wrote", b->what);
        if (n <= last) fail_msg("%s: order of messages", b->what);
        last = n;
        b->missing[n] = false;
        b->lost--;
    }
    return ms_cursor_close(&it, &err);
}

static ms_result read_all(bench *b, ms_store *store) { return read_up_to(b, store, 0); }

/* O3: only messages whose bytes were touched may be missing; all of them when the file's
 * own id was. */
static void lost_only_what_was_touched(const bench *b)
{
    if (b->damage[0].lo < ID_END || b->damage[1].lo < ID_END) return;
    for (uint64_t n = 1; n <= b->r.count; n++)
        if (b->missing[n] && !touches(b, n))
            fail_msg("%s: message %llu at %u is lost, which was not touched", b->what,
                     (unsigned long long)n, b->r.at[n]);
}

static bool opens_with(bench *b, ms_log_opening opening, ms_log_mode mode,
                       ms_store **store, ms_result *result)
{
    ms_log_desc desc = desc_of(b, mode);
    ms_error err;
    desc.opening = opening;
    b->events = b->damage_events = 0;
    *result = ms_log_open(store, &desc, &err);
    if (*result == MS_OK) return true;
    /* without one live word it could be a creation that was cut off: nothing is there */
    bool unborn = mode == MS_LOG_WRITE && b->d.size < LIVE && *result == MS_E_NOT_FOUND;
    if (*result != MS_E_DAMAGED && *result != MS_E_FOREIGN && !unborn)
        fail_msg("%s: open: %s", b->what, err.message);
    return false;
}

/* What must hold for a reader of any damaged file. False: it was refused, which may be
 * for damage in the head page. */
static bool look(bench *b)
{
    ms_store *store;
    ms_log_info info;
    ms_result result;
    bool head = b->damage[0].lo < HEAD || b->damage[1].lo < HEAD;
    if (!opens_with(b, MS_OPEN_NORMAL, MS_LOG_READ, &store, &result)) {
        if (!head) fail_msg("%s: it is refused", b->what);
        return false;
    }
    result = read_all(b, store);
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    ms_close(store);
    if (result != MS_OK && result != MS_E_DAMAGED)
        fail_msg("%s: cursor: %s", b->what, ms_result_text(result));
    lost_only_what_was_touched(b);
    bool told = result != MS_OK || b->damage_events != 0 || info.damaged != 0 ||
                info.lost_end != 0;
    if (b->lost != 0 && !told && b->d.size >= LIVE)
        fail_msg("%s: %zu messages are lost in silence", b->what, b->lost);
    return true;
}

static ms_result verify(bench *b)
{
    ms_log_desc desc = desc_of(b, MS_LOG_READ);
    ms_log_report report;
    ms_error err;
    ms_result result = ms_log_verify(&desc, &report, &err);
    if (result != MS_OK && result != MS_E_DAMAGED && result != MS_E_FOREIGN)
        fail_msg("%s: verify: %s", b->what, err.message);
    return result;
}

/* The message that write_on appended, through a new handle. */
static void must_have_new(bench *b, ms_store *store, uint64_t seq)
{
    const ms_msg *msg;
    ms_arena arena;
    ms_error err;
    memset(&arena, 0, sizeof arena);
    if (ms_get_by_seq(store, seq, &arena, &msg, &err) != MS_OK)
        fail_msg("%s: the new message: %s", b->what, err.message);
    assert_true(ms_str_equal(ms_content(msg).text, MS_STR("after the damage")));
    ms_arena_deinit(&arena);
}

/* Opened for writing, appended to, opened again: what could be read still can. */
static void write_on(bench *b)
{
    static bool missing[MOST + 2];
    ms_store *store;
    ms_result result;
    ms_error err;
    ms_envelope m = ms_observation(ms_text("after the damage"), ms_str_of(NULL));
    uint64_t seq = 0, last = 0;
    bool head = b->damage[0].lo < HEAD || b->damage[1].lo < HEAD;
    memcpy(missing, b->missing, sizeof missing);
    if (!opens_with(b, MS_OPEN_NORMAL, MS_LOG_WRITE, &store, &result)) {
        if (!head) fail_msg("%s: refused for writing", b->what);
        return;
    }
    if (ms_append(store, MS_STR("new"), &m, &seq, &err) != MS_OK)
        fail_msg("%s: append: %s", b->what, err.message);
    ms_close(store);
    if (!opens_with(b, MS_OPEN_NORMAL, MS_LOG_READ, &store, &result))
        fail_msg("%s: refused after an append", b->what);
    must_have_new(b, store, seq);
    read_up_to(b, store, seq);
    ms_close(store);
    for (uint64_t n = 1; n <= b->r.count; n++) {
        if (!missing[n]) last = b->r.seq_of[n];
        if (b->missing[n] && !missing[n])
            fail_msg("%s: message %llu is lost by writing on", b->what,
                     (unsigned long long)n);
    }
    if (seq <= last) fail_msg("%s: a sequence number comes twice", b->what);
}

/* STRICT refuses what is damaged; SALVAGE reads at least as much as NORMAL. */
static void other_openings(bench *b, bool damaged)
{
    ms_store *store;
    ms_result result;
    size_t lost = b->lost;
    if (opens_with(b, MS_OPEN_STRICT, MS_LOG_READ, &store, &result)) {
        ms_close(store);
        if (damaged) fail_msg("%s: strict opening accepts it", b->what);
    }
    if (!opens_with(b, MS_OPEN_SALVAGE, MS_LOG_READ, &store, &result)) return;
    read_all(b, store);
    ms_close(store);
    if (b->lost > lost)
        fail_msg("%s: salvage loses %zu messages, not %zu", b->what, b->lost, lost);
    lost_only_what_was_touched(b);
}

/* Everything that is looked at once in `rare` times; i counts the cases. */
static void look_closer(bench *b, size_t i, size_t rare, bool damaged)
{
    if (i % rare != 0) return;
    other_openings(b, damaged);
    look(b);
    write_on(b);
    restore(b);
}


/* ---- the damage ---- */

/* Marks the range that is going to differ. Half of the cases are seen after a restart of
 * the machine. */
static void damage_at(bench *b, size_t i, size_t lo, size_t hi)
{
    b->damage[0].lo = lo;
    b->damage[0].hi = hi;
    b->damage[1].lo = b->damage[1].hi = ROOM;
    b->d.boot = i % 2 == 0 ? LAST_BOOT : LAST_BOOT + 1;
}

/* The file is cut to every length, a larger one when there is time. */
static void cut_at_every_byte(void **state)
{
    unsigned scale = test_scale();
    bench *b = bench_new((size_t)(scale < 1000 ? 100 : 256) << 10);
    size_t stride = scale >= 100 ? 1 : stride_of(10), i = 0;
    (void)state;
    /* From the end to the beginning: each cut is of what the one before has left. */
    for (size_t n = b->r.size - test_seed() % stride; n >= stride; n -= stride, i++) {
        disk_resize(&b->d, n);
        damage_at(b, i, n, ROOM);
        snprintf(b->what, sizeof b->what, "cut to %zu bytes", n);
        bool opened = look(b);
        if (n >= b->r.end && b->lost != 0) fail_msg("%s: messages are lost", b->what);
        if (n < b->r.end && n >= LIVE && verify(b) == MS_OK)
            fail_msg("%s: verify does not find it", b->what);
        if (opened) look_closer(b, i, 200, n < b->r.end);
    }
    test_tally("files cut", i);
    bench_free(b);
}

/* Bits of the head page whose flipping ms_log_verify does not find, by byte. */
static unsigned char unfound[HEAD];

/* Is it a byte that a check covers? Not in the head page, of which parts are free to
 * change. */
static bool is_covered(const bench *b, size_t at)
{
    return at >= HEAD && at < b->r.end;
}

static void one_byte(bench *b, size_t i, size_t at, unsigned char value, const char *how)
{
    unsigned char old = b->r.bytes[at];
    if (old == value) return;
    b->d.rw[at] = value;
    damage_at(b, i, at, at + 1);
    snprintf(b->what, sizeof b->what, "byte %zu from %02x to %02x (%s)", at, old, value,
             how);
    bool opened = look(b);
    if (opened && b->lost > 1) fail_msg("%s: %zu messages are lost", b->what, b->lost);
    if (at < b->r.end && verify(b) == MS_OK) {
        if (is_covered(b, at)) fail_msg("%s: verify does not find it", b->what);
        if (at < HEAD) unfound[at] |= (unsigned char)(old ^ value);
    }
    if (opened) look_closer(b, i, 300, b->lost != 0);
    b->d.rw[at] = old;
}

/* Only looked at by ms_log_verify. */
static void must_be_found(bench *b, size_t at, unsigned bit)
{
    if (!is_covered(b, at)) return;
    b->d.rw[at] = (unsigned char)(b->r.bytes[at] ^ 1u << bit);
    snprintf(b->what, sizeof b->what, "bit %u of byte %zu flipped", bit, at);
    if (verify(b) == MS_OK) fail_msg("%s: verify does not find it", b->what);
    b->d.rw[at] = b->r.bytes[at];
}

static void each_bit_flipped(void **state)
{
    unsigned scale = test_scale();
    bench *b = bench_new((size_t)100 << 10);
    size_t stride = stride_of(61), i = 0, flips = 0;
    bool all = scale >= 100;
    (void)state;
    memset(unfound, 0, sizeof unfound);
    for (size_t k = 0; k < b->r.end * 8; k++) {
        size_t at = k / 8;
        bool close = at < ID_END || k % stride == test_seed() % stride;
        flips += close || (all && is_covered(b, at));
        if (close)
            one_byte(b, i++, at, (unsigned char)(b->r.bytes[at] ^ 1u << k % 8),
                     "flipped");
        else if (all) must_be_found(b, at, k % 8);
    }
    test_tally("bits flipped", flips);
    test_tally("bits flipped, read again", i);
    bench_free(b);
}

/* What a writer reads: what a reader does. */
static void look_as_writer(bench *b, ms_log_engine engine)
{
    ms_log_desc desc = desc_of(b, MS_LOG_WRITE);
    ms_store *store;
    ms_error err;
    size_t lost = b->lost;
    desc.engine = engine;
    if (ms_log_open(&store, &desc, &err) != MS_OK)
        fail_msg("%s: write: %s", b->what, err.message);
    ms_result result = read_all(b, store);
    ms_close(store);
    lost_only_what_was_touched(b);
    if (b->lost != lost || (result != MS_OK && result != MS_E_DAMAGED))
        fail_msg("%s: a writer loses %zu messages, not %zu (%s)", b->what, b->lost, lost,
                 ms_result_text(result));
}

/* Opened for writing, appended to, opened again: does it still report damage? */
static void must_stay_reported(bench *b, size_t n)
{
    ms_store *store;
    ms_result result;
    ms_log_info info;
    ms_error err;
    ms_envelope m = ms_observation(ms_text("after the damage"), ms_str_of(NULL));
    for (int writer = 0; writer < 2; writer++) {
        if (!opens_with(b, MS_OPEN_NORMAL, MS_LOG_WRITE, &store, &result))
            fail_msg("%s: refused for writing", b->what);
        for (int i = 0; i < 40; i++) /* a segment index, too */
            if (ms_append(store, MS_STR("new"), &m, NULL, &err) != MS_OK)
                fail_msg("%s: append: %s", b->what, err.message);
        ms_close(store);
        if (!opens_with(b, MS_OPEN_NORMAL, MS_LOG_READ, &store, &result))
            fail_msg("%s: refused for reading", b->what);
        assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
        if (info.damaged == 0 || info.segments == 0)
            fail_msg("%s: %llu ranges of damage in %llu segments", b->what,
                     (unsigned long long)info.damaged, (unsigned long long)info.segments);
        ms_query q;
        ms_cursor it;
        size_t found = 0;
        memset(&q, 0, sizeof q);
        assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
        while (ms_next(&it) != NULL) found++;
        if (ms_cursor_close(&it, NULL) != MS_E_DAMAGED)
            fail_msg("%s: a cursor over everything reports no damage", b->what);
        if (found != n + 40 * ((size_t)writer + 1))
            fail_msg("%s: %zu messages", b->what, found);
        ms_close(store);
        if (verify(b) != MS_E_DAMAGED) fail_msg("%s: verify does not find it", b->what);
    }
}

/* A durable file is truncated and goes on with a LOST record. Whichever of its bits flips,
 * or none: it costs no message, and that bytes are missing is always reported. */
static void each_bit_of_a_lost_record_flipped(void **state)
{
    bench *b = bench_new(SHORT);
    reference *r = &b->r;
    size_t n = r->count - 5, at = r->at[n] + r->size_of[n], i = 0;
    size_t stride = stride_of(3);
    (void)state;
    disk_resize(&b->d, at);
    ms_log_desc desc = desc_of(b, MS_LOG_WRITE);
    ms_store *store = must_open(&desc, "a truncated log");
    ms_envelope m = ms_observation(ms_text("after it was truncated"), ms_str_of(NULL));
    for (int k = 0; k < 3; k++)
        assert_int_equal(ms_append(store, MS_STR("new"), &m, NULL, NULL), MS_OK);
    ms_close(store);
    unsigned char *bytes = snapshot(b);
    size_t size = (size_t)b->d.size;
    assert_int_equal(bytes[at + 4], FILE_KIND_LOST);
    assert_int_equal(file_get64(bytes + at + 32), r->end);
    for (size_t k = test_seed() % stride; k < 48 * 8; k += stride, i++) {
        disk_load(&b->d, bytes, size);
        damage_at(b, i, at, at + 48);
        snprintf(b->what, sizeof b->what, "bit %zu of a LOST record flipped", k);
        b->d.rw[at + k / 8] ^= (unsigned char)(1u << k % 8);
        must_stay_reported(b, n + 3);
    }
    disk_load(&b->d, bytes, size);
    snprintf(b->what, sizeof b->what, "no bit of a LOST record flipped");
    must_stay_reported(b, n + 3);
    test_tally("bits flipped", i);
    free(bytes);
    bench_free(b);
}

/* Each bit of the records of a short file: verified, read by a reader and a writer, of
 * one engine for the even bits and the other one for the odd, strictly and for salvage,
 * appended to. */
static void each_bit_of_a_short_log_flipped(void **state)
{
    bench *b = bench_new(SHORT);
    size_t stride = stride_of(1), i = 0;
    (void)state;
    assert_true(b->r.count > 8 && b->r.end < 2 * HEAD);
    size_t k = HEAD * 8 + test_seed() % stride;
    for (; k < b->r.end * 8; k += stride, i++) {
        size_t at = k / 8;
        unsigned char value = (unsigned char)(b->r.bytes[at] ^ 1u << k % 8);
        one_byte(b, 1 + k / 8 % 2, at, value, "flipped");
        b->d.rw[at] = value;
        look_as_writer(b, k % 2 ? MS_ENGINE_MAP : MS_ENGINE_WRITE);
        disk_load(&b->d, b->r.bytes, b->r.size);
        b->d.rw[at] = value;
        look_closer(b, 0, 1, b->lost != 0);
    }
    test_tally("bits flipped", i);
    test_tally("bits flipped, read again", i);
    bench_free(b);
}

static void each_byte_changed(void **state)
{
    bench *b = bench_new((size_t)100 << 10);
    size_t stride = stride_of(25), i = 0;
    (void)state;
    for (size_t k = test_seed() % stride; k < b->r.end * 4; k += stride, i++) {
        size_t at = k / 4;
        unsigned char old = b->r.bytes[at];
        const unsigned char values[] = {0x00, 0xff, (unsigned char)(old + 1),
                                        (unsigned char)(old - 1)};
        one_byte(b, i, at, values[k % 4], "changed");
    }
    test_tally("bytes changed", i);
    bench_free(b);
}

/* A sector gets other bytes. */
static void one_sector(bench *b, size_t i, size_t at, size_t size,
                       const unsigned char *bytes, const char *how)
{
    if (memcmp(b->r.bytes + at, bytes, size) == 0) return;
    memcpy(b->d.rw + at, bytes, size);
    damage_at(b, i, at, at + size);
    snprintf(b->what, sizeof b->what, "%zu bytes at %zu %s", size, at, how);
    bool opened = look(b);
    if (at >= HEAD && at < b->r.end && verify(b) == MS_OK)
        fail_msg("%s: verify does not find it", b->what);
    if (opened) look_closer(b, i, 20, b->lost != 0);
    memcpy(b->d.rw + at, b->r.bytes + at, size);
}

static void two_sectors_exchanged(bench *b, size_t i, size_t one, size_t other,
                                  size_t size)
{
    if (memcmp(b->r.bytes + one, b->r.bytes + other, size) == 0) return;
    memcpy(b->d.rw + one, b->r.bytes + other, size);
    memcpy(b->d.rw + other, b->r.bytes + one, size);
    damage_at(b, i, one, one + size);
    b->damage[1].lo = other;
    b->damage[1].hi = other + size;
    snprintf(b->what, sizeof b->what, "%zu bytes at %zu and %zu exchanged", size, one,
             other);
    bool opened = look(b);
    if (one >= HEAD && other >= HEAD && verify(b) == MS_OK)
        fail_msg("%s: verify does not find it", b->what);
    if (opened) look_closer(b, i, 20, b->lost != 0);
    memcpy(b->d.rw + one, b->r.bytes + one, size);
    memcpy(b->d.rw + other, b->r.bytes + other, size);
}

static void sectors(bench *b, size_t size, uint64_t *rng)
{
    static const unsigned char zeros[HEAD];
    size_t n = b->r.end / size, i = 0, pairs = n * n / stride_of(10);
    for (size_t at = 0; at + size <= b->r.end; at += size) {
        size_t other = test_below(rng, n) * size;
        one_sector(b, i++, at, size, zeros, "zeroed");
        one_sector(b, i++, at, size, b->r.bytes + other, "overwritten by others");
        one_sector(b, i++, at, size, b->r.older + at, "as they were before");
        one_sector(b, i++, at, size, b->r.foreign + at, "of another file");
    }
    for (size_t k = 0; k < pairs; k++)
        two_sectors_exchanged(b, i++, test_below(rng, n) * size,
                              test_below(rng, n) * size, size);
}

static void sectors_zeroed_exchanged_and_stale(void **state)
{
    bench *b = bench_new((size_t)100 << 10);
    uint64_t rng = test_seed();
    (void)state;
    sectors(b, 512, &rng);
    sectors(b, 4096, &rng);
    bench_free(b);
}


/* ---- valid checks, wrong meaning ---- */

/* Makes the header check of the record at an offset match again; body: the body's too. */
static void reseal(bench *b, size_t at, bool body)
{
    const unsigned char *id = b->r.bytes + 24;
    unsigned char *r = b->d.rw + at;
    if (body) file_seal(id, at, r);
    else file_put32(r + 28, file_check(id, at, r));
}

/* The record that the test itself has made. */
static bool is_made_up(const bench *b, const ms_msg *msg)
{
    const unsigned char *p = (const unsigned char *)(const void *)msg;
    return p == b->d.ro + b->damage[0].lo;
}

/* Whatever it says: no message that nobody wrote, no end of the process, no endless
 * reading; what is appended then is there. */
static void survive(bench *b)
{
    ms_store *store;
    ms_result result;
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    verify(b);
    if (!opens_with(b, MS_OPEN_NORMAL, MS_LOG_READ, &store, &result)) return;
    for (int i = 0; i < 3; i++) {
        size_t n = 0;
        memset(&q, 0, sizeof q);
        if (i > 0) q.location = MS_STR("job_1");
        if (i > 1) q.limit = 20;
        if (ms_query_open(store, &q, &it, NULL) != MS_OK) continue;
        while ((msg = ms_next(&it)) != NULL && n++ < 100 * b->r.count)
            if (number_of(b, msg) == 0 && !is_made_up(b, msg))
                fail_msg("%s: a message that nobody wrote", b->what);
        if (n >= 100 * b->r.count) fail_msg("%s: reading has no end", b->what);
        ms_cursor_close(&it, NULL);
    }
    ms_list_query list;
    ms_listing listing;
    ms_arena arena;
    memset(&list, 0, sizeof list);
    memset(&arena, 0, sizeof arena);
    ms_list(store, &list, &arena, &listing, NULL);
    ms_arena_deinit(&arena);
    ms_close(store);
}

/* Sizes, sequence numbers and kinds of a message. */
static void records_that_lie(void **state)
{
    static const uint32_t sizes[] = {0, 1, 31, 32, 33, 39, 1u << 20, 0x10000000,
                                     0x7fffffff, 0x80000000, 0xfffffff8, 0xffffffff};
    bench *b = bench_new((size_t)100 << 10);
    (void)state;
    for (size_t n = 2; n < b->r.count; n += 7) {
        size_t at = b->r.at[n], size = b->r.size_of[n];
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            damage_at(b, i, at, at + size);
            file_put32(b->d.rw + at, sizes[i]);
            reseal(b, at, false);
            snprintf(b->what, sizeof b->what, "record at %zu with size %u", at, sizes[i]);
            look(b);
            if (verify(b) == MS_OK) fail_msg("%s: verify does not find it", b->what);
            restore(b);
        }
        const uint64_t seqs[] = {0, 1, b->r.seq_of[n - 1], UINT64_MAX};
        for (size_t i = 0; i < 4; i++) {
            damage_at(b, i, at, at + size);
            file_put64(b->d.rw + at + 8, seqs[i]);
            reseal(b, at, false);
            snprintf(b->what, sizeof b->what, "record at %zu with number %llu", at,
                     (unsigned long long)seqs[i]);
            if (verify(b) == MS_OK) fail_msg("%s: verify does not find it", b->what);
            survive(b);
            restore(b);
        }
    }
    bench_free(b);
}

/* A kind below 128 that is not known is stepped over, one from 128 on is refused. */
static void kinds_of_a_later_version(void **state)
{
    bench *b = bench_new((size_t)100 << 10);
    (void)state;
    for (size_t n = 2; n < b->r.count; n += 7) {
        size_t at = b->r.at[n];
        damage_at(b, n, at, at + b->r.size_of[n]);
        b->d.rw[at + 4] = 100;
        reseal(b, at, false);
        snprintf(b->what, sizeof b->what, "record at %zu of kind 100", at);
        survive(b);
        b->d.rw[at + 4] = 200;
        reseal(b, at, false);
        snprintf(b->what, sizeof b->what, "record at %zu of kind 200", at);
        if (verify(b) != MS_E_FOREIGN) fail_msg("%s: it is accepted", b->what);
        restore(b);
    }
    bench_free(b);
}

/* INDEX records, each word of them in turn replaced. */
static void index_records_that_lie(void **state)
{
    bench *b = bench_new((size_t)100 << 10);
    size_t stride = stride_of(10), k = test_seed() % stride;
    uint64_t rng = test_seed();
    (void)state;
    for (size_t at = HEAD; at + 40 < b->r.end;) {
        const unsigned char *r = b->r.bytes + at;
        size_t size = file_padded(file_get32(r));
        for (size_t i = 32; r[4] == FILE_KIND_INDEX && i + 4 <= size; i += 4, k++) {
            uint32_t old = file_get32(r + i);
            const uint32_t words[] = {0,       0xffffffff, old + 1,    old - 1,
                                      old * 2, 0x80000000, old ^ 4096,
                                      (uint32_t)test_random(&rng)};
            if (k % stride != 0) continue;
            for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
                damage_at(b, w, at, at + size);
                file_put32(b->d.rw + at + i, words[w]);
                reseal(b, at, true);
                snprintf(b->what, sizeof b->what, "index at %zu, word at %zu is %u", at,
                         i, words[w]);
                survive(b);
            }
            memcpy(b->d.rw + at, r, size);
        }
        at += size;
    }
    bench_free(b);
}

/* Postings of a segment index that name records which it has not: the first one, the first one
 * behind its bits, the last one that a posting can name. */
static void postings_of_records_that_are_not_there(void **state)
{
    bench *b = bench_new((size_t)100 << 10);
    size_t tried = 0;
    (void)state;
    for (size_t at = HEAD; at + 40 < b->r.end;) {
        const unsigned char *r = b->r.bytes + at;
        size_t size = file_padded(file_get32(r));
        bool leaf = r[4] == FILE_KIND_INDEX && r[5] == FILE_INDEX_LEAF;
        uint32_t n = leaf ? file_get32(r + 132) : 0;
        size_t count = leaf && file_get32(r + 212) == 2 ? file_get32(r + 196) : 0;
        size_t first = file_get32(r) - count * 2;
        for (size_t i = 0; i < count; i += 3) {
            const uint32_t entries[] = {n, (n + 31) & ~31u, 0xffff};
            damage_at(b, i, at, at + size);
            for (size_t k = 0; k < 3; k++, tried++) {
                b->d.rw[at + first + i * 2] = (unsigned char)entries[k];
                b->d.rw[at + first + i * 2 + 1] = (unsigned char)(entries[k] >> 8);
                reseal(b, at, true);
                snprintf(b->what, sizeof b->what, "index at %zu, posting %zu is %u", at,
                         i, entries[k]);
                survive(b);
            }
            memcpy(b->d.rw + at, r, size);
        }
        at += size;
    }
    assert_true(tried > 0);
    bench_free(b);
}

/* Records of this very file, stored inside a message; then its header is damaged: they
 * must not be taken for records. */
static void a_log_inside_a_message(void **state)
{
    bench *b = bench_new((size_t)100 << 10);
    size_t tried = 0;
    (void)state;
    for (size_t n = 10; n < b->r.count; n++) {
        size_t at = b->r.at[n], size = b->r.size_of[n], from = (at + 200) & ~(size_t)7;
        if (size < 400) continue;
        damage_at(b, n, at, at + size);
        memcpy(b->d.rw + from, b->r.bytes + b->r.at[2], at + size - 8 - from);
        reseal(b, at, true);
        b->d.rw[at] ^= 8;
        snprintf(b->what, sizeof b->what, "a log inside the message at %zu", at);
        look(b);
        if (b->lost != 1) fail_msg("%s: %zu messages are lost", b->what, b->lost);
        restore(b);
        tried++;
    }
    assert_true(tried > 0);
    bench_free(b);
}


/* ---- changes of every kind ---- */

enum { STEPS = 170, RECORDS = 1000, VISIBLE = 1000 };

/* A log that a diary was written into, and where its records are. */
typedef struct changed {
    bench b;
    diary d;
    size_t n;
    uint32_t at[RECORDS], size_of[RECORDS];
    bool read[RECORDS];       /* of the last look */
    uint64_t kinds[16];       /* how many of each */
} changed;

/* What the records that could be read say together about one message. */
typedef struct folded {
    uint64_t seq;
    ms_str location;
    bool visible, open, ghost; /* ghost: only its amend can be read */
    char text[2 * DIARY_LONGEST + 1000];
    size_t len;
} folded;

static folded fold[VISIBLE];
static size_t n_fold;

static folded *fold_of(uint64_t seq)
{
    for (size_t i = 0; i < n_fold; i++)
        if (fold[i].seq == seq) return &fold[i];
    return NULL;
}

static void fold_text(folded *f, ms_str text, size_t at)
{
    assert_true(at + text.len <= sizeof f->text);
    memcpy(f->text + at, text.ptr, text.len);
    f->len = at + text.len;
}

static uint64_t fold_number(ms_str object, const char *name)
{
    char text[120];
    snprintf(text, sizeof text, "%.*s", (int)object.len, object.ptr);
    const char *at = strstr(text, name);
    assert_non_null(at);
    return strtoull(strchr(at, ':') + 1, NULL, 10);
}

static void fold_hide(const ms_msg *msg)
{
    uint64_t first = fold_number(ms_content(msg).text, "\"first\"");
    uint64_t last = fold_number(ms_content(msg).text, "\"last\"");
    for (size_t i = 0; i < n_fold; i++)
        if (fold[i].seq >= first && fold[i].seq <= last &&
            ms_str_equal(fold[i].location, test_location(msg)))
            fold[i].visible = false;
}

static void fold_record(const ms_msg *msg)
{
    folded *f = fold_of(ms_seq(msg));
    ms_kind kind = ms_kind_of(msg);
    ms_str text = ms_content(msg).text;
    if (kind == MS_KIND_HIDE) fold_hide(msg);
    if (kind == MS_KIND_PIECE && f != NULL && f->open) fold_text(f, text, f->len);
    if (kind != MS_KIND_MESSAGE && kind != MS_KIND_AMEND) return;
    if (f == NULL) {
        assert_true(n_fold < VISIBLE);
        f = &fold[n_fold++];
        memset(f, 0, offsetof(folded, text));
        f->seq = ms_seq(msg);
        f->location = test_location(msg);
        f->visible = true;
        f->ghost = kind == MS_KIND_AMEND;
    }
    f->open = kind == MS_KIND_MESSAGE && (ms_flags(msg) & MS_FLAG_UNFINISHED) != 0;
    fold_text(f, text, 0);
}

static size_t record_at(const changed *c, size_t offset)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->at[i] == offset) return i;
    return SIZE_MAX;
}

/* Reads every record as it stands: none that nobody wrote, in order. */
static ms_result read_records(changed *c, ms_store *store)
{
    bench *b = &c->b;
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    size_t last = 0;
    memset(&q, 0, sizeof q);
    memset(c->read, 0, sizeof c->read);
    q.raw = MS_RAW_ALL;
    n_fold = 0;
    ms_result result = ms_query_open(store, &q, &it, NULL);
    if (result != MS_OK) return result;
    while ((msg = ms_next(&it)) != NULL) {
        const unsigned char *p = (const unsigned char *)(const void *)msg;
        size_t i = p >= b->d.ro && p < b->d.ro + b->d.size
                       ? record_at(c, (size_t)(p - b->d.ro))
                       : SIZE_MAX;
        if (i == SIZE_MAX || memcmp(p, b->r.bytes + c->at[i], c->size_of[i]) != 0)
            fail_msg("%s: a record that nobody wrote", b->what);
        if (i < last) fail_msg("%s: order of records", b->what);
        last = i;
        c->read[i] = true;
        fold_record(msg);
    }
    return ms_cursor_close(&it, NULL);
}

/* A store shows what its readable records say. Of a message that is lost itself an amend
 * may be shown, or not. */
static void must_show_fold(changed *c, ms_store *store)
{
    ms_query q;
    ms_cursor it;
    ms_arena arena;
    const ms_msg *msg;
    size_t i = 0;
    memset(&q, 0, sizeof q);
    test_arena_init(&arena, NULL);
    q.arena = &arena;
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL) {
        while (i < n_fold && (!fold[i].visible || (fold[i].ghost &&
                                                   fold[i].seq != ms_seq(msg))))
            i++;
        if (i == n_fold || fold[i].seq != ms_seq(msg))
            fail_msg("%s: message %llu is shown, should be %llu", c->b.what,
                     (unsigned long long)ms_seq(msg),
                     i < n_fold ? (unsigned long long)fold[i].seq : 0);
        ms_str want = ms_str_n(fold[i].text, fold[i].len);
        if (!ms_str_equal(ms_content(msg).text, want))
            fail_msg("%s: message %llu says something else", c->b.what,
                     (unsigned long long)ms_seq(msg));
        i++;
    }
    while (i < n_fold && (!fold[i].visible || fold[i].ghost)) i++;
    if (i != n_fold)
        fail_msg("%s: message %llu is not shown", c->b.what,
                 (unsigned long long)fold[i].seq);
    ms_cursor_close(&it, NULL);
    ms_arena_deinit(&arena);
}

static int by_seq(const void *a, const void *b)
{
    const folded *x = (const folded *)a, *y = (const folded *)b;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* How many records are missing; a missing one was touched, and it is said. */
static size_t look_at_changes(changed *c)
{
    bench *b = &c->b;
    ms_store *store;
    ms_log_info info;
    ms_result result;
    size_t lost = 0;
    bool head = b->damage[0].lo < HEAD;
    if (!opens_with(b, MS_OPEN_NORMAL, MS_LOG_READ, &store, &result)) {
        if (!head) fail_msg("%s: it is refused", b->what);
        return 0;
    }
    result = read_records(c, store);
    qsort(fold, n_fold, sizeof fold[0], by_seq);
    must_show_fold(c, store);
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    ms_close(store);
    for (size_t i = 0; i < c->n; i++) {
        bool touched = c->at[i] < b->damage[0].hi &&
                       b->damage[0].lo < c->at[i] + c->size_of[i];
        lost += !c->read[i];
        if (!c->read[i] && !touched && b->damage[0].lo >= ID_END)
            fail_msg("%s: the record at %u is lost, which was not touched", b->what,
                     c->at[i]);
    }
    bool told = result != MS_OK || b->damage_events != 0 || info.damaged != 0 ||
                info.lost_end != 0;
    if (lost != 0 && !told && b->d.size >= LIVE)
        fail_msg("%s: %zu records are lost in silence", b->what, lost);
    return lost;
}

/* The damaged log is changed further and opened again. */
static void change_on(changed *c)
{
    bench *b = &c->b;
    ms_store *store;
    ms_result result;
    ms_error err;
    ms_envelope m = ms_assistant_message(ms_text("after the damage"));
    uint64_t seq = 0;
    if (!opens_with(b, MS_OPEN_NORMAL, MS_LOG_WRITE, &store, &result)) return;
    if (ms_append(store, MS_STR("place_0"), &m, &seq, &err) != MS_OK)
        fail_msg("%s: append: %s", b->what, err.message);
    m.content = ms_text("amended after the damage");
    if (ms_amend(store, seq, &m, &err) != MS_OK)
        fail_msg("%s: amend: %s", b->what, err.message);
    for (size_t i = 0; i < n_fold; i += 9) {
        if (!fold[i].visible || fold[i].ghost) continue;
        if (ms_hide(store, fold[i].seq, &err) != MS_OK)
            fail_msg("%s: hide: %s", b->what, err.message);
        fold[i].visible = false;
    }
    ms_close(store);
    if (!opens_with(b, MS_OPEN_NORMAL, MS_LOG_READ, &store, &result))
        fail_msg("%s: refused after changes", b->what);
    folded *f = &fold[n_fold++];
    memset(f, 0, offsetof(folded, text));
    f->seq = seq;
    f->visible = true;
    fold_text(f, MS_STR("amended after the damage"), 0);
    must_show_fold(c, store);
    ms_close(store);
    restore(b);
}

/* Every step, then a second writer with some more. */
static changed *changed_new(void)
{
    changed *c = (changed *)calloc(1, sizeof *c);
    bench *b = &c->b;
    ms_error err;
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    uint64_t entropy = 5;
    ms_log_info info;
    if (c == NULL) abort();
    disk_init(&b->d, ROOM);
    b->d.boot = LAST_BOOT;
    b->segment = MS_LOG_SEGMENT_MIN;
    ms_log_desc desc = desc_of(b, MS_LOG_CREATE);
    desc.entropy.fill = entropy_counts;
    desc.entropy.ctx = &entropy;
    diary_begin(&c->d, test_seed());
    for (int writer = 0; writer < 2; writer++) {
        ms_store *store = must_open(&desc, "a log of changes");
        for (int i = 0; i < STEPS / 2; i++)
            if (diary_step(&c->d, store, &err) != MS_OK) fail_msg("%s", err.message);
        ms_close(store);
        diary_writer_gone(&c->d);
    }
    b->r.bytes = snapshot(b);
    b->r.size = (size_t)b->d.size;
    desc.mode = MS_LOG_READ;
    ms_store *store = must_open(&desc, "the reference");
    assert_null(diary_differs(&c->d, store));
    memset(&q, 0, sizeof q);
    q.raw = MS_RAW_ALL;
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL) {
        const unsigned char *p = (const unsigned char *)(const void *)msg;
        assert_true(p >= b->d.ro + HEAD && c->n < RECORDS);
        c->at[c->n] = (uint32_t)(p - b->d.ro);
        c->size_of[c->n++] = (uint32_t)ms_size(msg);
        c->kinds[ms_kind_of(msg)]++;
    }
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    b->r.end = (size_t)info.end;
    ms_close(store);
    assert_true(c->kinds[MS_KIND_AMEND] > 5 && c->kinds[MS_KIND_HIDE] > 5 &&
                c->kinds[MS_KIND_NOTE] > 5 && c->kinds[MS_KIND_LOCATION] > 2 &&
                c->kinds[MS_KIND_PIECE] > 5);
    restore(b);
    snprintf(b->what, sizeof b->what, "no damage");
    damage_at(b, 0, ROOM, ROOM);
    assert_int_equal(look_at_changes(c), 0);
    printf("%zu records in %zu bytes\n", c->n, b->r.end);
    return c;
}

static void changed_free(changed *c)
{
    disk_deinit(&c->b.d);
    free(c->b.r.bytes);
    free(c);
}

static void each_bit_of_changes_flipped(void **state)
{
    changed *c = changed_new();
    bench *b = &c->b;
    size_t stride = stride_of(201), i = 0;
    (void)state;
    for (size_t k = HEAD * 8 + test_seed() % stride; k < b->r.end * 8; k += stride, i++) {
        size_t at = k / 8;
        b->d.rw[at] = (unsigned char)(b->r.bytes[at] ^ 1u << k % 8);
        damage_at(b, i, at, at + 1);
        snprintf(b->what, sizeof b->what, "bit %zu of byte %zu flipped", k % 8, at);
        if (look_at_changes(c) > 1)
            fail_msg("%s: it costs more than one record", b->what);
        if (verify(b) == MS_OK) fail_msg("%s: verify does not find it", b->what);
        if (i % 50 == 0) change_on(c);
        b->d.rw[at] = b->r.bytes[at];
    }
    test_tally("bits flipped", i);
    test_tally("bits flipped, read again", i);
    changed_free(c);
}

/* A sector of changes, of an older state of the file or zeroed. */
static void sectors_of_changes_lost(void **state)
{
    changed *c = changed_new();
    bench *b = &c->b;
    (void)state;
    for (size_t at = HEAD, i = 0; at + 512 <= b->r.end; at += 512, i++) {
        memset(b->d.rw + at, 0, 512);
        damage_at(b, i, at, at + 512);
        snprintf(b->what, sizeof b->what, "sector at %zu zeroed", at);
        look_at_changes(c);
        if (i % 8 == 0) change_on(c);
        memcpy(b->d.rw + at, b->r.bytes + at, 512);
    }
    changed_free(c);
}

static void changes_are_a_prefix_when_the_file_is_truncated_at_any_byte(void **state)
{
    changed *c = changed_new();
    bench *b = &c->b;
    size_t stride = stride_of(61), i = 0;
    (void)state;
    size_t n = b->r.end - 1 - test_seed() % stride;
    for (; n >= HEAD + stride; n -= stride, i++) {
        disk_resize(&b->d, n);
        damage_at(b, i, n, ROOM);
        snprintf(b->what, sizeof b->what, "changes cut to %zu bytes", n);
        look_at_changes(c);
        if (verify(b) == MS_OK) fail_msg("%s: verify does not find it", b->what);
        if (i % 50 != 0) continue;
        change_on(c);
    }
    test_tally("files cut", i);
    changed_free(c);
}


/* ---- changes of messages that are lost ---- */

static void change_last(ms_store *store, int how)
{
    ms_envelope m = ms_observation(ms_text("amended"), ms_str_of(NULL));
    if (how == 0) assert_int_equal(ms_amend(store, 3, &m, NULL), MS_OK);
    if (how == 1) assert_int_equal(ms_hide(store, 3, NULL), MS_OK);
    if (how == 2)
        assert_int_equal(ms_hide_range(store, MS_STR("new"), 2, 3, NULL, NULL), MS_OK);
    if (how == 3)
        assert_int_equal(ms_note(store, 3, MS_STR("k"), ms_text("note"), NULL), MS_OK);
}

static void append_three(ms_store *store)
{
    uint64_t seq = 0;
    for (uint64_t n = 1; n <= 3; n++) {
        ms_envelope m = ms_observation(ms_text(n == 3 ? "the lost one" : "another"),
                                       ms_str_of(NULL));
        assert_int_equal(ms_append(store, MS_STR("new"), &m, &seq, NULL), MS_OK);
        assert_int_equal(seq, n);
    }
}

static unsigned char *find_text(unsigned char *bytes, size_t size, const char *text)
{
    unsigned char *at = (unsigned char *)memmem(bytes, size, text, strlen(text));
    if (at == NULL) fail_msg("there is no '%s'", text);
    return at;
}

static void no_note_on(bench *b, ms_store *store, uint64_t seq)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    memset(&q, 0, sizeof q);
    q.raw = MS_RAW_NOTES;
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL)
        if (ms_seq(msg) == seq) fail_msg("%s: the new message has a note", b->what);
    (void)ms_cursor_close(&it, NULL); /* it has met the damage */
}

/* What is appended after the damage is seen as it is, and has a number of its own. */
static void append_behind(bench *b, ms_store *store, uint64_t want)
{
    ms_envelope m = ms_observation(ms_text("after the damage"), ms_str_of(NULL));
    uint64_t seq = 0;
    assert_int_equal(ms_append(store, MS_STR("new"), &m, &seq, NULL), MS_OK);
    must_have_new(b, store, seq);
    no_note_on(b, store, seq);
    if (seq != want)
        fail_msg("%s: the new message is %llu", b->what, (unsigned long long)seq);
}

/* A log whose writer was killed behind the change of its last message. */
static void write_killed(bench *b, int how)
{
    ms_log_desc desc = desc_of(b, MS_LOG_CREATE);
    desc.sync = MS_SYNC_NONE;
    disk_clear(&b->d);
    ms_store *store = must_open(&desc, "a new log");
    append_three(store);
    change_last(store, how);
    size_t size = (size_t)b->d.size;
    unsigned char *bytes = snapshot(b);
    ms_close(store);
    disk_resize(&b->d, size);
    memcpy(b->d.rw, bytes, size);
    free(bytes);
}

static void go_on_behind(bench *b, uint64_t want)
{
    ms_log_desc desc = desc_of(b, MS_LOG_WRITE);
    ms_store *store = must_open(&desc, b->what);
    append_behind(b, store, want);
    ms_close(store);
    desc.mode = MS_LOG_READ;
    store = must_open(&desc, b->what);
    must_have_new(b, store, want);
    ms_close(store);
}

/* A bit of the newest message is flipped, and a change of it stands behind it: nothing new
 * gets its number, or the change would be about that. */
static void a_change_keeps_the_number_of_a_lost_message(void **state)
{
    bench *b = (bench *)calloc(1, sizeof *b);
    (void)state;
    if (b == NULL) abort();
    disk_init(&b->d, ROOM);
    b->d.boot = LAST_BOOT;
    for (int how = 0; how < 4; how++) {
        snprintf(b->what, sizeof b->what, "change %d of a lost message", how);
        write_killed(b, how);
        find_text(b->d.rw, (size_t)b->d.size, "the lost one")[0] ^= 1;
        go_on_behind(b, 4);
    }
    disk_deinit(&b->d);
    free(b);
}

/* A HIDE whose checks hold says that it hides numbers that nobody had. */
static void a_hide_of_the_future_hides_nothing_new(void **state)
{
    bench *b = (bench *)calloc(1, sizeof *b);
    (void)state;
    if (b == NULL) abort();
    disk_init(&b->d, ROOM);
    b->d.boot = LAST_BOOT;
    snprintf(b->what, sizeof b->what, "a range that goes on");
    write_killed(b, 2);
    b->r.bytes = snapshot(b);
    find_text(b->d.rw, (size_t)b->d.size, "\"last\":3")[7] = '8';
    size_t at = HEAD;
    const unsigned char *r = b->d.rw + at;
    for (; r[4] != FILE_KIND_HIDE; r = b->d.rw + at)
        at += (ms_size((const ms_msg *)(const void *)r) + 7) & ~(size_t)7;
    reseal(b, at, true);
    go_on_behind(b, 9);
    free(b->r.bytes);
    disk_deinit(&b->d);
    free(b);
}

static void an_image_keeps_the_number_of_a_lost_message(void **state)
{
    static uint64_t words[4 << 10];
    bench b;
    (void)state;
    for (int how = 0; how < 4; how++) {
        ms_mem_desc desc;
        ms_store *store;
        uint64_t damaged = 0;
        memset(&desc, 0, sizeof desc);
        memset(words, 0, sizeof words);
        desc.buffer = words;
        desc.buffer_size = sizeof words;
        desc.salvage = true;
        snprintf(b.what, sizeof b.what, "change %d of a lost message of an image", how);
        assert_int_equal(ms_mem_open(&store, &desc, NULL), MS_OK);
        append_three(store);
        change_last(store, how);
        ms_close(store);
        find_text((unsigned char *)words, sizeof words, "the lost one")[0] ^= 1;
        assert_int_equal(ms_mem_attach(&store, &desc, &damaged, NULL), MS_OK);
        assert_int_equal(damaged, 1);
        append_behind(&b, store, 4);
        ms_close(store);
    }
}


int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_at_every_byte),
        cmocka_unit_test(each_bit_flipped),
        cmocka_unit_test(each_bit_of_a_short_log_flipped),
        cmocka_unit_test(each_bit_of_a_lost_record_flipped),
        cmocka_unit_test(each_byte_changed),
        cmocka_unit_test(sectors_zeroed_exchanged_and_stale),
        cmocka_unit_test(records_that_lie),
        cmocka_unit_test(kinds_of_a_later_version),
        cmocka_unit_test(index_records_that_lie),
        cmocka_unit_test(postings_of_records_that_are_not_there),
        cmocka_unit_test(a_log_inside_a_message),
        cmocka_unit_test(each_bit_of_changes_flipped),
        cmocka_unit_test(sectors_of_changes_lost),
        cmocka_unit_test(changes_are_a_prefix_when_the_file_is_truncated_at_any_byte),
        cmocka_unit_test(a_change_keeps_the_number_of_a_lost_message),
        cmocka_unit_test(a_hide_of_the_future_hides_nothing_new),
        cmocka_unit_test(an_image_keeps_the_number_of_a_lost_message),
    };
    scribe_page();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
