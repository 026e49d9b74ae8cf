/* Damaged bytes in log files.
 *
 * A log lies in memory and is damaged in every simple way: truncated at each byte; each
 * bit flipped; each byte set to 00, FF, one more and one less; sectors zeroed, exchanged,
 * overwritten by others and by those of an older or another file. Each time it is opened
 * and read: a record that is read is one that was written, byte for byte; every record
 * whose bytes were not touched is read; what is missing is reported; ms_log_verify finds
 * every single flipped bit. Some are opened for writing as well, appended to and opened
 * again, or opened strictly or for salvage.
 *
 * One log has messages: two writers, several segments with their index records, a summary
 * above them, batches, keys, a torn append that the second writer has zeroed, a message
 * with records of this log and of another one inside. The other log has changes of every
 * kind. There, what is shown must be what the readable records say together: a flipped
 * bit in a change costs that change alone.
 *
 * Then records with valid checks, and a wrong size or number.
 *
 * At MS_TEST_SCALE=100 every length of a file of 40 KiB, and each bit of it for
 * ms_log_verify, each bit of the records of a short one for everything. Every 61st bit
 * and 25th byte of the longer one for the rest, from one on that the seed gives, but
 * always each bit of what names the file. At 1000 all of them: over 262,144 lengths,
 * 524,288 flipped bits, 262,144 changed bytes.
 */

#define _GNU_SOURCE
#include "change_sequence.h"
#include "file_format.h"

enum { ID_END = 56, LIVE = 1032, SUPER_SIZE = 8192 }; /* offsets in the superblock */
enum { ROOM = 2 << 20, MOST = 4000, LAST_BOOT = 19, STEPS = 170 };
enum { SHORT = SUPER_SIZE + 2048, LONG = 100 << 10 }; /* a file of one segment, of many */

/* Bytes after the first writer's end, of appends that a power loss tore. */
enum { TORN = 3000 };

/* Bytes of each log inside of a message. */
enum { INSIDE = 2048 };

/* The ranges of bytes that may differ. */
typedef struct range {
    size_t lo, hi;
} range;

/* A log as it was written, and the damaged file in the making. */
typedef struct bench {
    disk d;
    bool changes;             /* a sequence was written into it, else numbered messages */
    ms_log_engine engine;
    unsigned char *bytes;
    size_t size, end;
    unsigned char *older;     /* the file as its first writer left it */
    unsigned char *foreign;   /* another file with the same messages */
    scribe s;
    size_t segment;
    size_t around, front;     /* the message with a log inside; the record before it */
    size_t n;                 /* records that a query returns */
    uint32_t at[MOST + 2], size_of[MOST + 2];
    uint64_t seq_of[MOST + 2];
    uint64_t view[MOST + 2];  /* what its location shows in the undamaged file, */
    uint64_t get[MOST + 2];   /* and what its number gives */
    ms_result got[MOST + 2];
    uint16_t *number_at;      /* by offset / 8: the record's number, from 1 */
    bool read[MOST + 2];      /* of the last reading */
    size_t lost;
    range damage[2];
    size_t events, damage_events;
    char what[120];
} bench;

/* One in how many is tried; an odd number, so that each bit of a byte has its turn. */
static size_t stride_of(size_t all)
{
    size_t scale = test_scale();
    return scale >= 1000 ? 1 : (all * 100 / scale) | 1;
}

static void on_event(void *ctx, const ms_log_event *event)
{
    bench *b = (bench *)ctx;
    b->events++;
    b->damage_events += event->kind == MS_LOG_DAMAGE;
}

static ms_log_desc desc_of(bench *b, ms_log_mode mode)
{
    ms_log_desc desc = disk_desc(&b->d, mode);
    desc.keep_unset_times = true;
    desc.segment_size = b->segment;
    desc.engine = b->engine;
    desc.events.event = on_event;
    desc.events.ctx = b;
    return desc;
}


/* ---- making the logs ---- */

static ms_log_info info_of(ms_store *store)
{
    ms_log_info info;
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    return info;
}

/* Appends MOST messages at most, until the file has so many bytes. */
static void write_up_to(const scribe *s, ms_store *store, uint64_t *n, uint64_t bytes)
{
    uint64_t first = *n / MOST * MOST;
    do {
        size_t count;
        ms_error err;
        must_ok(scribe_append(s, store, *n, NULL, &count, &err), &err, "append");
        *n += count;
    } while (info_of(store).end < bytes && *n - first < MOST - SCRIBE_BATCH);
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
    scribe s = {~b->s.salt, 100};
    ms_log_desc desc = desc_of(b, MS_LOG_WRITE);
    uint64_t n = MOST + 1; /* with keys of their own */
    ms_store *store = must_open_log(&desc, "to be torn");
    write_up_to(&s, store, &n, end + TORN);
    unsigned char *bytes = snapshot(b);
    ms_close(store);
    memcpy(b->d.rw + SUPER_SIZE, bytes + SUPER_SIZE, end + TORN - SUPER_SIZE);
    memset(b->d.rw + end, 0, 512 - end % 512); /* the rest of that sector */
    b->d.rw[end + TORN - 1] = 0x5a; /* all of it is zeroed, not less */
    disk_resize(&b->d, end + TORN);
    free(bytes);
}

/* A message that gets a log inside. */
static void append_around(ms_store *store)
{
    static char text[2 * INSIDE + 64];
    memset(text, ' ', sizeof text);
    ms_envelope m = ms_user_message(ms_text_n(ms_str_n(text, sizeof text)));
    assert_int_equal(ms_append(store, MS_STR("around"), &m, NULL, NULL), MS_OK);
}

/* Puts records of another file and of this one inside, on the grid, and seals the
 * message, as somebody could who sends what he knows of the log. */
static void put_log_inside(bench *b)
{
    unsigned char *file = b->d.rw;
    for (b->around = SUPER_SIZE;
         memmem(file + b->around + FILE_HEADER, 32, "around", 6) == NULL;
         b->around += file_padded(file_get32(file + b->around)))
        b->front = b->around;
    memcpy(file + b->around + 64, b->foreign + SUPER_SIZE, INSIDE);
    memcpy(file + b->around + 64 + INSIDE, file + SUPER_SIZE, INSIDE);
    file_seal(file + 24, b->around, file + b->around);
}

/* Two writers; the first one's machine loses its power in the middle of an append. */
static void write_messages(bench *b, size_t bytes, uint64_t seed)
{
    uint64_t n = 1, entropy = seed;
    unsigned char head[SUPER_SIZE];
    ms_log_desc desc = desc_of(b, MS_LOG_CREATE);
    desc.entropy.fill = entropy_counts;
    desc.entropy.ctx = &entropy;
    disk_clear(&b->d);
    b->d.boot = seed;
    ms_store *store = must_open_log(&desc, "a new log");
    write_up_to(&b->s, store, &n, bytes / 2);
    assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
    ms_close(store);
    free(b->older);
    b->older = snapshot(b);
    size_t torn = (size_t)file_get64(b->d.ro + FILE_AT_WATERMARK);
    memcpy(head, b->d.ro, SUPER_SIZE);
    tear(b, torn);
    memcpy(b->d.rw, head, SUPER_SIZE); /* no byte of the page that was stored to since */
    b->d.boot++;
    b->events = 0;
    store = must_open_log(&desc, "after a power loss");
    if (bytes > SHORT) append_around(store);
    write_up_to(&b->s, store, &n, torn + 1);
    assert_int_equal(b->events, 1);
    assert_int_equal(info_of(store).zeroed_bytes, TORN);
    write_up_to(&b->s, store, &n, bytes);
    ms_log_info info = info_of(store);
    ms_close(store);
    for (uint64_t at = file_get64(b->d.ro + FILE_AT_WATERMARK); at < b->d.size; at++)
        assert_int_equal(b->d.ro[at], 0);
    if (bytes > SHORT && (info.segments < 8 || info.summaries == 0))
        fail_msg("the log has %llu segments, %llu above",
                 (unsigned long long)info.segments, (unsigned long long)info.summaries);
}

/* Every step, by two writers. */
static void write_changes(bench *b)
{
    static change_sequence d;
    uint64_t entropy = 5;
    ms_error err;
    ms_log_desc desc = desc_of(b, MS_LOG_CREATE);
    desc.entropy.fill = entropy_counts;
    desc.entropy.ctx = &entropy;
    b->d.boot = LAST_BOOT;
    sequence_begin(&d, test_seed());
    for (int writer = 0; writer < 2; writer++) {
        ms_store *store = must_open_log(&desc, "a log of changes");
        for (int i = 0; i < STEPS / 2; i++)
            must_ok(sequence_step(&d, store, &err), &err, "a step");
        ms_close(store);
        sequence_writer_gone(&d);
    }
    desc.mode = MS_LOG_READ;
    ms_store *store = must_open_log(&desc, "the log of changes");
    assert_null(sequence_differs(&d, store));
    ms_close(store);
}

/* Reads the messages of a location: a hash of their numbers and contents. */
static ms_result view_of(ms_store *store, ms_str location, uint64_t *hash)
{
    ms_cursor it;
    const ms_msg *msg;
    const ms_query q = {.location = location};
    *hash = 1;
    ms_result result = ms_query_open(store, &q, &it, NULL);
    if (result != MS_OK) return result;
    while ((msg = ms_next(&it)) != NULL) *hash = hash_of(*hash, msg);
    return ms_cursor_close(&it, NULL);
}

/* The same of one message. */
static ms_result get_of(ms_store *store, uint64_t seq, uint64_t *hash)
{
    const ms_msg *msg;
    ms_result result = ms_get_by_seq(store, seq, NULL, &msg, NULL);
    *hash = result == MS_OK ? hash_of(1, msg) : 0;
    return result;
}

/* Notes what the location and the number of each record give. */
static void survey_views(bench *b, ms_store *store)
{
    for (size_t n = 1; n <= b->n; n++) {
        const ms_msg *msg = (const ms_msg *)(const void *)(b->d.ro + b->at[n]);
        assert_int_equal(view_of(store, test_location(msg), &b->view[n]), MS_OK);
        b->got[n] = get_of(store, b->seq_of[n], &b->get[n]);
        assert_true(b->got[n] == MS_OK || b->got[n] == MS_E_NOT_FOUND);
    }
}

/* Notes where each record lies: the only reading that is trusted, of the undamaged file,
 * with every message compared to what its number says. */
static void survey(bench *b)
{
    ms_log_desc desc = desc_of(b, MS_LOG_READ);
    ms_store *store = must_open_log(&desc, "the reference");
    ms_query q = {.raw = b->changes ? MS_RAW_ALL : 0};
    ms_cursor it;
    const ms_msg *msg;
    ms_log_report report;
    uint64_t kinds[16] = {0};
    tally t;
    memset(&t, 0, sizeof t);
    b->end = (size_t)info_of(store).end;
    b->number_at = (uint16_t *)calloc(ROOM / 8, sizeof b->number_at[0]);
    if (b->number_at == NULL) abort();
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL) {
        const unsigned char *p = (const unsigned char *)(const void *)msg;
        bool of_scribe = !b->changes && (size_t)(p - b->d.ro) != b->around;
        if (of_scribe && !tally_add(&t, &b->s, msg, false, NULL))
            fail_msg("%s", t.wrong);
        assert_true(p >= b->d.ro + SUPER_SIZE && p + ms_size(msg) <= b->d.ro + b->end);
        assert_true(b->n++ < MOST);
        b->at[b->n] = (uint32_t)(p - b->d.ro);
        b->size_of[b->n] = (uint32_t)ms_size(msg);
        b->seq_of[b->n] = ms_seq(msg);
        b->number_at[(p - b->d.ro) / 8] = (uint16_t)b->n;
        kinds[ms_kind_of(msg)]++;
    }
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    survey_views(b, store);
    ms_close(store);
    assert_int_equal(ms_log_verify(&desc, &report, NULL), MS_OK);
    assert_true(b->end <= 2 * SUPER_SIZE || report.index_records > 8);
    assert_int_equal(report.end, b->end);
    if (!b->changes) assert_int_equal(report.messages, b->n);
    else
        assert_true(kinds[MS_KIND_AMEND] > 5 && kinds[MS_KIND_HIDE] > 5 &&
                    kinds[MS_KIND_NOTE] > 5 && kinds[MS_KIND_LOCATION] > 2 &&
                    kinds[MS_KIND_PART] > 5);
    printf("%zu records in %zu bytes, the file has %zu\n", b->n, b->end, b->size);
}

/* A log of messages of so many bytes; 0: of changes. */
static bench *bench_new(size_t bytes)
{
    bench *b = (bench *)calloc(1, sizeof *b);
    if (b == NULL) abort();
    disk_init(&b->d, ROOM);
    b->d.boot = LAST_BOOT;
    b->changes = bytes == 0;
    b->s.salt = test_seed();
    b->s.longest = bytes > SHORT ? 400 : 100;
    b->segment = b->changes || bytes > SHORT ? MS_LOG_SEGMENT_MIN : 4096;
    if (b->changes) {
        write_changes(b);
    } else {
        write_messages(b, bytes, 17);
        b->foreign = snapshot(b);
        b->d.inode++;
        write_messages(b, bytes, LAST_BOOT - 1);
    }
    if (bytes > SHORT) put_log_inside(b);
    b->bytes = snapshot(b);
    b->size = (size_t)b->d.size;
    survey(b);
    return b;
}

static void bench_free(bench *b)
{
    void *all[] = {b->bytes, b->number_at, b->older, b->foreign, b};
    disk_deinit(&b->d);
    for (size_t i = 0; i < COUNT(all); i++) free(all[i]);
}

/* Undoes all damage. */
static void restore(bench *b)
{
    disk_load(&b->d, b->bytes, b->size);
    memset(b->damage, 0, sizeof b->damage);
}


/* ---- what the records of a log of changes say together ---- */

/* What the records that could be read say together about one message. */
typedef struct folded {
    uint64_t seq;
    ms_str location;
    bool visible, open, ghost; /* ghost: only its amend can be read */
    bool withheld;             /* a damaged change may have hidden or replaced it, */
    bool replaced;             /* and it is an amend */
    char text[2 * SEQUENCE_LONGEST + 1000];
    size_t len;
} folded;

enum { VISIBLE = 1000 };

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

static void fold_hide(const ms_msg *msg)
{
    unsigned long long first, last;
    char text[120];
    ms_str hide = ms_content(msg).text;
    snprintf(text, sizeof text, "%.*s", (int)hide.len, hide.ptr);
    assert_int_equal(sscanf(text, "{\"first\":%llu,\"last\":%llu", &first, &last), 2);
    for (size_t i = 0; i < n_fold; i++)
        if (fold[i].seq >= first && fold[i].seq <= last &&
            ms_str_equal(fold[i].location, test_location(msg)))
            fold[i].visible = false;
}

/* A message without text, not seen before. */
static folded *fold_new(uint64_t seq, ms_str location)
{
    assert_true(n_fold < VISIBLE);
    folded *f = &fold[n_fold++];
    memset(f, 0, offsetof(folded, text));
    f->seq = seq;
    f->location = location;
    f->visible = true;
    return f;
}

static void fold_record(const ms_msg *msg)
{
    folded *f = fold_of(ms_seq(msg));
    ms_kind kind = ms_kind_of(msg);
    ms_str text = ms_content(msg).text;
    if (kind == MS_KIND_HIDE) fold_hide(msg);
    if (kind == MS_KIND_PART && f != NULL && f->open) fold_text(f, text, f->len);
    if (kind != MS_KIND_MESSAGE && kind != MS_KIND_AMEND) return;
    if (f != NULL) f->replaced = false;
    if (f == NULL) {
        f = fold_new(ms_seq(msg), test_location(msg));
        f->ghost = kind == MS_KIND_AMEND;
    }
    f->open = kind == MS_KIND_MESSAGE && (ms_flags(msg) & MS_FLAG_UNFINISHED) != 0;
    fold_text(f, text, 0);
}

/* Moves to the next message that is shown. One of which only the amend can be read may be
 * shown, or not. */
static size_t fold_next(size_t i, uint64_t seq)
{
    while (i < n_fold && (!fold[i].visible || fold[i].withheld || fold[i].replaced ||
                          (fold[i].ghost && fold[i].seq != seq)))
        i++;
    return i;
}

/* A store shows what its readable records say. */
static void must_show_fold(bench *b, ms_store *store)
{
    ms_arena arena;
    ms_cursor it;
    const ms_msg *msg;
    size_t i = 0;
    test_arena_init(&arena, NULL);
    const ms_query q = {.arena = &arena};
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    for (; (msg = ms_next(&it)) != NULL; i++) {
        i = fold_next(i, ms_seq(msg));
        if (i == n_fold || fold[i].seq != ms_seq(msg))
            fail_msg("%s: message %llu is shown, should be %llu", b->what,
                     (unsigned long long)ms_seq(msg),
                     i < n_fold ? (unsigned long long)fold[i].seq : 0);
        if (!ms_str_equal(ms_content(msg).text, ms_str_n(fold[i].text, fold[i].len)))
            fail_msg("%s: message %llu says something else", b->what,
                     (unsigned long long)ms_seq(msg));
    }
    i = fold_next(i, 0);
    if (i != n_fold)
        fail_msg("%s: message %llu is not shown", b->what,
                 (unsigned long long)fold[i].seq);
    ms_cursor_close(&it, NULL);
    ms_arena_deinit(&arena);
}

static int by_seq(const void *a, const void *b)
{
    const folded *x = (const folded *)a, *y = (const folded *)b;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}


/* ---- looking at a damaged file ---- */

static bool touches(const bench *b, size_t n)
{
    size_t lo = b->at[n], hi = lo + b->size_of[n];
    for (int i = 0; i < 2; i++)
        if (lo < b->damage[i].hi && b->damage[i].lo < hi) return true;
    return false;
}

/* The number of a record in the reference, that it must equal byte for byte; 0: none. */
static size_t number_of(const bench *b, const ms_msg *msg)
{
    const unsigned char *p = (const unsigned char *)(const void *)msg;
    if (p < b->d.ro || p >= b->d.ro + b->d.size) return 0;
    size_t at = (size_t)(p - b->d.ro), n = b->number_at[at / 8];
    if (n == 0 || b->at[n] != at) return 0;
    return memcmp(p, b->bytes + at, b->size_of[n]) == 0 ? n : 0;
}

/* Does the header of a record tell nothing any more? */
static bool header_touched(const bench *b, size_t n)
{
    for (int i = 0; i < 2; i++)
        if (b->at[n] < b->damage[i].hi && b->damage[i].lo < b->at[n] + FILE_HEADER)
            return true;
    return b->at[n] + b->size_of[n] > b->d.size;
}

/* A change that cannot be read, but for its header: what it was about is withheld. */
static void fold_withhold(const bench *b, size_t n)
{
    const ms_msg *msg = (const ms_msg *)(const void *)(b->bytes + b->at[n]);
    unsigned long long first, last;
    char text[120];
    if (header_touched(b, n)) return;
    folded *f = fold_of(ms_seq(msg));
    if (ms_kind_of(msg) == MS_KIND_AMEND && f != NULL) f->replaced = true;
    if (ms_kind_of(msg) != MS_KIND_HIDE) return;
    ms_str hide = ms_content(msg).text;
    snprintf(text, sizeof text, "%.*s", (int)hide.len, hide.ptr);
    assert_int_equal(sscanf(text, "{\"first\":%llu,\"last\":%llu", &first, &last), 2);
    for (size_t i = 0; i < n_fold; i++)
        if (fold[i].seq >= first && fold[i].seq <= last &&
            ms_str_equal(fold[i].location, test_location(msg)))
            fold[i].withheld = true;
}

/* Reads everything (with a sequence number below `before`, 0: no bound): only what was
 * written, in order. Notes what is missing. */
static ms_result read_up_to(bench *b, ms_store *store, uint64_t before)
{
    ms_query q = {.raw = b->changes ? MS_RAW_ALL : 0};
    ms_cursor it;
    const ms_msg *msg;
    size_t last = 0;
    q.before_seq = before;
    memset(b->read, 0, sizeof b->read);
    b->lost = b->n;
    n_fold = 0;
    ms_result result = ms_query_open(store, &q, &it, NULL);
    if (result != MS_OK) return result;
    while ((msg = ms_next(&it)) != NULL) {
        size_t n = number_of(b, msg);
        if (n == 0) fail_msg("%s: a record that nobody wrote", b->what);
        if (n <= last) fail_msg("%s: order of records", b->what);
        for (last++; b->changes && last < n; last++) fold_withhold(b, last);
        last = n;
        b->read[n] = true;
        b->lost--;
        if (b->changes) fold_record(msg);
    }
    result = ms_cursor_close(&it, NULL);
    if (!b->changes) return result;
    for (last++; last <= b->n; last++) fold_withhold(b, last);
    qsort(fold, n_fold, sizeof fold[0], by_seq);
    must_show_fold(b, store);
    return result;
}

static ms_result read_all(bench *b, ms_store *store) { return read_up_to(b, store, 0); }

/* Only records whose bytes were touched may be missing; all of them when the file's own
 * id was. */
static void lost_only_what_was_touched(const bench *b)
{
    if (b->damage[0].lo < ID_END || b->damage[1].lo < ID_END) return;
    for (size_t n = 1; n <= b->n; n++)
        if (!b->read[n] && !touches(b, n))
            fail_msg("%s: record %zu at %u is lost, which was not touched", b->what, n,
                     b->at[n]);
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
    bool incomplete = mode == MS_LOG_WRITE && b->d.size < LIVE &&
                      *result == MS_E_NOT_FOUND;
    if (*result != MS_E_DAMAGED && *result != MS_E_FOREIGN && !incomplete)
        fail_msg("%s: open: %s", b->what, err.message);
    return false;
}

/* Of the first record that is missing: its location's view and what its number gives are
 * those of the undamaged file, or report damage. */
static void whose_views_report(const bench *b, ms_store *store)
{
    size_t n = 1;
    uint64_t seen;
    while (n <= b->n && b->read[n]) n++;
    if (n > b->n) return;
    const ms_msg *msg = (const ms_msg *)(const void *)(b->bytes + b->at[n]);
    ms_result result = view_of(store, test_location(msg), &seen);
    if (result != MS_E_DAMAGED && (result != MS_OK || seen != b->view[n]))
        fail_msg("%s: record %zu is lost, and its location says %s", b->what, n,
                 ms_result_text(result));
    if (ms_kind_of(msg) != MS_KIND_MESSAGE && header_touched(b, n)) return;
    result = get_of(store, b->seq_of[n], &seen);
    if (result != MS_E_DAMAGED && (result != b->got[n] || seen != b->get[n]))
        fail_msg("%s: record %zu is lost, and its number says %s", b->what, n,
                 ms_result_text(result));
}

/* What must hold for a reader of any damaged file. False: it was refused, which may be
 * for damage in the superblock. */
static bool look(bench *b)
{
    ms_store *store;
    ms_result result;
    bool head = b->damage[0].lo < SUPER_SIZE || b->damage[1].lo < SUPER_SIZE;
    if (!opens_with(b, MS_OPEN_NORMAL, MS_LOG_READ, &store, &result)) {
        if (!head) fail_msg("%s: it is refused", b->what);
        return false;
    }
    result = read_all(b, store);
    if (b->d.size >= LIVE) whose_views_report(b, store);
    ms_close(store);
    if (result != MS_OK && result != MS_E_DAMAGED)
        fail_msg("%s: cursor: %s", b->what, ms_result_text(result));
    lost_only_what_was_touched(b);
    if (b->d.size >= LIVE && b->lost != 0 && result != MS_E_DAMAGED)
        fail_msg("%s: %zu records are lost, and the cursor says %s", b->what, b->lost,
                 ms_result_text(result));
    return true;
}

/* ms_log_verify finds that there is damage. */
static void must_be_found(bench *b)
{
    ms_log_desc desc = desc_of(b, MS_LOG_READ);
    ms_log_report report;
    ms_error err;
    ms_result result = ms_log_verify(&desc, &report, &err);
    if (result == MS_OK) fail_msg("%s: verify does not find it", b->what);
    if (result != MS_E_DAMAGED && result != MS_E_FOREIGN)
        fail_msg("%s: verify: %s", b->what, err.message);
}

/* Changes of the new message and of some that are shown, as the fold has them. */
static void change_some(bench *b, ms_store *store, uint64_t seq)
{
    ms_error err;
    ms_envelope m = ms_observation(ms_text("after the damage"), ms_str_of(NULL));
    for (size_t i = 0; i < n_fold; i += 9) {
        bool held = fold[i].withheld || fold[i].replaced;
        if (!fold[i].visible || fold[i].ghost || held) continue;
        must_ok(ms_hide(store, fold[i].seq, &err), &err, b->what);
        fold[i].visible = false;
    }
    must_ok(ms_amend(store, seq, &m, &err), &err, b->what);
    fold_text(fold_new(seq, ms_str_of(NULL)), m.content.text, 0);
}

/* Opened for writing, appended to, opened again: what could be read still can. */
static void write_on(bench *b)
{
    static bool had[MOST + 2];
    ms_store *store;
    ms_result result;
    ms_error err;
    ms_envelope m = ms_observation(ms_text("after the damage"), ms_str_of(NULL));
    const ms_msg *msg;
    uint64_t seq = 0, last = 0;
    bool head = b->damage[0].lo < SUPER_SIZE || b->damage[1].lo < SUPER_SIZE;
    memcpy(had, b->read, sizeof had);
    if (!opens_with(b, MS_OPEN_NORMAL, MS_LOG_WRITE, &store, &result)) {
        if (!head) fail_msg("%s: refused for writing", b->what);
        return;
    }
    must_ok(ms_append(store, MS_STR("new"), &m, &seq, &err), &err, b->what);
    if (b->changes) change_some(b, store, seq);
    ms_close(store);
    if (!opens_with(b, MS_OPEN_NORMAL, MS_LOG_READ, &store, &result))
        fail_msg("%s: refused after an append", b->what);
    must_ok(ms_get_by_seq(store, seq, NULL, &msg, &err), &err, b->what);
    assert_true(is_word(ms_content(msg).text, "after the damage"));
    if (b->changes) must_show_fold(b, store);
    else read_up_to(b, store, seq);
    ms_close(store);
    for (size_t n = 1; n <= b->n; n++) {
        if (had[n] && last < b->seq_of[n]) last = b->seq_of[n];
        if (had[n] && !b->read[n])
            fail_msg("%s: record %zu is lost by writing on", b->what, n);
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
        fail_msg("%s: salvage loses %zu records, not %zu", b->what, b->lost, lost);
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

/* The file ends at every byte, from the end to the beginning: each time what the one
 * before has left is truncated. */
static void end_at_every_byte(bench *b, size_t stride, size_t rare)
{
    size_t i = 0;
    for (size_t n = b->size - test_seed() % stride; n >= stride; n -= stride, i++) {
        if (b->changes && n < SUPER_SIZE + stride) break;
        disk_resize(&b->d, n);
        damage_at(b, i, n, ROOM);
        snprintf(b->what, sizeof b->what, "truncated to %zu bytes", n);
        bool opened = look(b);
        if (n >= b->end && b->lost != 0) fail_msg("%s: records are lost", b->what);
        if (n < b->end && n >= LIVE) must_be_found(b);
        if (opened) look_closer(b, i, rare, n < b->end);
    }
    test_tally("files cut", i);
    bench_free(b);
}

TEST(log_keeps_what_is_left_when_it_ends_at_any_byte)
{
    unsigned scale = test_scale();
    end_at_every_byte(bench_new(scale < 1000 ? LONG : (size_t)256 << 10),
                      scale >= 1000 ? 1 : scale >= 100 ? 5 : stride_of(10), 200);
}

TEST(changes_keep_what_is_left_when_the_log_ends_at_any_byte)
{
    end_at_every_byte(bench_new(0), stride_of(61), 50);
}

/* Is it a byte that a check covers? Not in the superblock, of which parts may change. */
static bool is_covered(const bench *b,
                       size_t at) { return at >= SUPER_SIZE && at < b->end; }

/* One byte is another one: at most one record is lost, and ms_log_verify finds it. */
static void one_byte(bench *b, size_t i, size_t rare, size_t at, unsigned char value)
{
    unsigned char old = b->bytes[at];
    if (old == value) return;
    b->d.rw[at] = value;
    damage_at(b, i, at, at + 1);
    snprintf(b->what, sizeof b->what, "byte %zu from %02x to %02x", at, old, value);
    bool opened = look(b);
    if (opened && b->lost > 1) fail_msg("%s: %zu records are lost", b->what, b->lost);
    if (is_covered(b, at)) must_be_found(b);
    if (opened) look_closer(b, i, rare, b->lost != 0);
    b->d.rw[at] = old;
}

/* Flips bits from an offset on. One in `stride` is looked at, and every bit of what names
 * the file and of the headers around a log inside. ms_log_verify alone reads the file for
 * one in `each` of the others (0: for none). */
static void flip_bits(bench *b, size_t from, size_t stride, size_t rare, size_t each)
{
    size_t looked = 0, verified = 0;
    for (size_t k = from * 8; k < b->end * 8; k++) {
        size_t at = k / 8;
        bool close = k % stride == test_seed() % stride || at < ID_END ||
                     at - b->around < FILE_HEADER || at - b->front < FILE_HEADER;
        unsigned char other = (unsigned char)(b->bytes[at] ^ 1u << k % 8);
        if (close) {
            one_byte(b, looked++, rare, at, other);
        } else if (each > 0 && k % each == test_seed() % each && is_covered(b, at)) {
            b->d.rw[at] = other;
            snprintf(b->what, sizeof b->what, "bit %zu of byte %zu flipped", k % 8, at);
            must_be_found(b);
            b->d.rw[at] = b->bytes[at];
            verified++;
        }
    }
    test_tally("bits flipped", looked + verified);
    test_tally("bits flipped, read again", looked);
    bench_free(b);
}

TEST(log_loses_one_message_when_a_bit_flips)
{
    unsigned scale = test_scale();
    flip_bits(bench_new(LONG), 0, stride_of(61), 300,
              scale >= 1000 ? 1 : scale >= 100 ? 7 : 0);
}

TEST(changes_lose_one_record_when_a_bit_flips)
{
    flip_bits(bench_new(0), SUPER_SIZE, stride_of(201), 50, 0);
}

/* What a writer reads: what a reader does. */
static void look_as_writer(bench *b, ms_log_engine engine)
{
    ms_store *store;
    ms_result result;
    size_t lost = b->lost;
    b->engine = engine;
    if (!opens_with(b, MS_OPEN_NORMAL, MS_LOG_WRITE, &store, &result))
        fail_msg("%s: write: %s", b->what, ms_result_text(result));
    result = read_all(b, store);
    ms_close(store);
    b->engine = (ms_log_engine)0;
    lost_only_what_was_touched(b);
    if (b->lost != lost || (result != MS_OK && result != MS_E_DAMAGED))
        fail_msg("%s: a writer loses %zu records, not %zu (%s)", b->what, b->lost, lost,
                 ms_result_text(result));
}

/* Each bit of the records of a short file: verified, read by a reader and a writer, of
 * one engine for the even bits and the other one for the odd, strictly and for salvage,
 * appended to. */
TEST(short_log_loses_one_message_when_a_bit_flips)
{
    bench *b = bench_new(SHORT);
    size_t stride = stride_of(1), i = 0;
    assert_true(b->n > 8 && b->end < 2 * SUPER_SIZE);
    size_t k = SUPER_SIZE * 8 + test_seed() % stride;
    for (; k < b->end * 8; k += stride, i++) {
        unsigned char other = (unsigned char)(b->bytes[k / 8] ^ 1u << k % 8);
        one_byte(b, 1 + k / 8 % 2, 300, k / 8, other);
        b->d.rw[k / 8] = other;
        look_as_writer(b, k % 2 ? MS_ENGINE_MAP : MS_ENGINE_WRITE);
        disk_load(&b->d, b->bytes, b->size);
        b->d.rw[k / 8] = other;
        look_closer(b, 0, 1, b->lost != 0);
    }
    test_tally("bits flipped", i);
    test_tally("bits flipped, read again", i);
    bench_free(b);
}

TEST(log_loses_one_message_when_a_byte_changes)
{
    bench *b = bench_new(LONG);
    size_t stride = stride_of(25), i = 0;
    for (size_t k = test_seed() % stride; k < b->end * 4; k += stride, i++) {
        unsigned char old = b->bytes[k / 4];
        const unsigned char values[] = {0x00, 0xff, (unsigned char)(old + 1),
                                        (unsigned char)(old - 1)};
        one_byte(b, i, 300, k / 4, values[k % 4]);
    }
    test_tally("bytes changed", i);
    bench_free(b);
}

/* Two sectors get other bytes; one only, where both are the same. */
static void two_sectors(bench *b, size_t i, size_t size, const size_t at[2],
                        const unsigned char *bytes[2], const char *how)
{
    bool same = true, covered = true;
    damage_at(b, i, at[0], at[0] + size);
    b->damage[1].lo = at[1];
    b->damage[1].hi = at[1] + size;
    for (int k = 0; k < 2; k++) {
        same = same && memcmp(b->bytes + at[k], bytes[k], size) == 0;
        covered = covered && at[k] >= SUPER_SIZE && at[k] < b->end;
        memcpy(b->d.rw + at[k], bytes[k], size);
    }
    snprintf(b->what, sizeof b->what, "%zu bytes at %zu and %zu %s", size, at[0], at[1],
             how);
    bool opened = !same && look(b);
    if (!same && covered) must_be_found(b);
    if (opened) look_closer(b, i, b->changes ? 8 : 20, b->lost != 0);
    for (int k = 0; k < 2; k++) memcpy(b->d.rw + at[k], b->bytes + at[k], size);
}

static void one_sector(bench *b, size_t i, size_t size, size_t at,
                       const unsigned char *bytes, const char *how)
{
    const size_t both[2] = {at, at};
    const unsigned char *sources[2] = {bytes, bytes};
    two_sectors(b, i, size, both, sources, how);
}

static void sectors(bench *b, size_t size, uint64_t *rng)
{
    static const unsigned char zeros[SUPER_SIZE];
    size_t n = b->end / size, i = 0, pairs = n * n / stride_of(10);
    for (size_t at = b->changes ? SUPER_SIZE : 0; at + size <= b->end; at += size) {
        one_sector(b, i++, size, at, zeros, "zeroed");
        if (b->changes) continue;
        size_t other = test_below(rng, n) * size;
        one_sector(b, i++, size, at, b->bytes + other, "overwritten by others");
        one_sector(b, i++, size, at, b->older + at, "as they were before");
        one_sector(b, i++, size, at, b->foreign + at, "of another file");
    }
    for (size_t k = 0; !b->changes && k < pairs; k++) {
        const size_t at[2] = {test_below(rng, n) * size, test_below(rng, n) * size};
        const unsigned char *bytes[2] = {b->bytes + at[1], b->bytes + at[0]};
        two_sectors(b, i++, size, at, bytes, "exchanged");
    }
}

TEST(log_loses_what_was_hit_when_sectors_change)
{
    bench *b = bench_new(LONG);
    uint64_t rng = test_seed();
    sectors(b, 512, &rng);
    sectors(b, 4096, &rng);
    bench_free(b);
}

TEST(changes_lose_what_was_hit_when_a_sector_is_zeroed)
{
    bench *b = bench_new(0);
    sectors(b, 512, NULL);
    bench_free(b);
}


/* ---- valid checks, wrong meaning ---- */

TEST(record_is_found_when_its_size_or_number_is_wrong)
{
    static const uint32_t sizes[] = {0, 1, 31, 32, 33, 39, 1u << 20, 0x10000000,
                                     0x7fffffff, 0x80000000, 0xfffffff8, 0xffffffff};
    enum { SIZES = sizeof sizes / sizeof sizes[0] };
    bench *b = bench_new(LONG);
    for (size_t n = 2; n < b->n; n += 7) {
        const uint64_t seqs[] = {0, 1, b->seq_of[n - 1], UINT64_MAX};
        size_t at = b->at[n];
        unsigned char *r = b->d.rw + at;
        for (size_t i = 0; i < SIZES + 4; i++) {
            bool size = i < SIZES;
            if (size) file_put32(r, sizes[i]);
            else file_put64(r + 8, seqs[i - SIZES]);
            file_put32(r + FILE_AT_CHECK, file_check(b->bytes + 24, at, r));
            damage_at(b, i, at, at + b->size_of[n]);
            snprintf(b->what, sizeof b->what, "record at %zu with %s %llu", at,
                     size ? "size" : "number",
                     (unsigned long long)(size ? sizes[i] : seqs[i - SIZES]));
            if (size) look(b);
            must_be_found(b);
            restore(b);
        }
    }
    bench_free(b);
}

int main(void)
{
    scribe_page();
    return run_all_tests(NULL, NULL);
}
