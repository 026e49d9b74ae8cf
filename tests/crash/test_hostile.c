/* Hostile files: logs and images that somebody has changed on purpose, with checks that
 * hold (see hostile.h), and names and contents that somebody has chosen.
 *
 *   - Each changed log is opened for reading in the three ways, for writing alone and
 *     shared; each changed image is attached, with and without salvage. All kinds of
 *     queries, listings, positions, search, histories, selfcheck, verify, copies and
 *     rewrites run over it; it is appended to, changed, closed and opened again.
 *   - Names that meet in every hash that has no key, and names that meet in the keyed one
 *     under a key that somebody knows.
 *
 * What must hold of a changed file: the process goes on (no signal, no report of a
 * sanitizer), within twenty times what an unchanged file takes of the processor (after
 * half a minute by the clock it has no end), and within an amount of memory that follows
 * from the size of the file. Reading writes nothing. Each message that is read stands in
 * the file as a record with checks that hold, as a walk of its own finds, and its fields
 * lie inside it. Where numbers go back, ms_log_verify or ms_selfcheck finds it, and an
 * image never shows it. What is appended is there when the file is opened again, and an
 * exclusive writer leaves no byte after the end that is not zero. A refusal has a reason.
 * Not looked at is what a lie may cost: whoever can write the file can write other
 * messages. Names that meet take at most five times what others do.
 *
 * At MS_TEST_SCALE=100 900 changed logs and 5,000 changed images; in proportion.
 * MS_TEST_HOSTILE=rng runs one alone, by the number that a failure prints.
 */

#define _GNU_SOURCE
#include "change_sequence.h"
#include "hostile.h"

enum { SUPER_SIZE = 8192, ROOM = 1 << 18 };

/* Times what is usual, and milliseconds of the processor; seconds by the clock. */
#ifdef _WIN32 /* whose clock of the processor goes in steps of 10 to 16 ms */
enum { SLOWER = 20, GRACE = 40, SECONDS = 30 };
#else
enum { SLOWER = 20, GRACE = 5, SECONDS = 30 };
#endif

/* A handle on a file of so many bytes takes no more than this. */
static size_t memory_for(size_t size) { return ((size_t)3 << 20) + 64 * size; }

static uint64_t hostile_files;

/* What runs just now, printed when a signal ends the process. */
static char running[160];

static void on_signal(int number)
{
    ssize_t n = write(2, "ended while: ", 13);
    n += write(2, running, strlen(running));
    n += write(2, number == SIGALRM ? ": no end\n" : ": signal\n", 9);
    signal(number, SIG_DFL);
    if (n >= 0) raise(number);
}

/* In each test anew: cmocka has its own. */
static void watch(void)
{
    const int signals[] = {SIGALRM, SIGBUS, SIGSEGV, SIGABRT, SIGFPE};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        signal(signals[i], on_signal);
}

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static bool is_bounded(double took, double usual)
{
    return took <= SLOWER * usual + GRACE;
}


/* ---- logs and images to begin with ---- */

enum { SOURCES = 8, BUFFER = 1 << 16 };

typedef struct source {
    const char *name;
    bool image;
    unsigned char *bytes;
    size_t size;
} source;

typedef struct bench {
    disk d;
    test_alloc heap;
    source sources[SOURCES];
    size_t n_sources;
    unsigned char *mutant;
    size_t size;
    bool image;               /* the changed file is one; else it is on the disk */
    unsigned char *buffer;
    const unsigned char *base; /* where its bytes are, */
    size_t used;              /* and how many */
    uint8_t *holds;           /* by offset / 8: a record with checks that hold is there */
    size_t n_holds;
    char *folder;
    const ms_os *plain;
    uint64_t rng, entropy;
    bool disorder;            /* numbers did not rise in some query */
    bool found;               /* selfcheck has found something */
    bool changes;             /* the file had changes, before it was changed itself */
    bool sound;               /* an image that selfcheck must accept */
    uint64_t opened, refused, messages;
} bench;

static int64_t clock_stands(void *ctx)
{
    return SECONDS(1700000000);
}

static ms_log_desc desc_of(bench *b, ms_log_mode mode)
{
    ms_log_desc desc = disk_desc(&b->d, mode);
    desc.segment_size = MS_LOG_SEGMENT_MIN;
    desc.alloc = b->heap.alloc;
    desc.clock.now = clock_stands;
    return desc;
}

static void keep(bench *b, const char *name, bool image, const void *bytes, size_t size)
{
    source *s = &b->sources[b->n_sources++];
    s->name = name;
    s->image = image;
    s->size = size;
    s->bytes = (unsigned char *)malloc(size);
    if (s->bytes == NULL || size > ROOM) abort();
    memcpy(s->bytes, bytes, size);
}

static ms_store *must_create(bench *b, bool shared)
{
    ms_log_desc desc = desc_of(b, MS_LOG_CREATE);
    desc.shared = shared;
    desc.entropy.fill = entropy_counts;
    desc.entropy.ctx = &b->entropy;
    return must_open_log(&desc, "a log to begin with");
}

static void write_messages(ms_store *store, const scribe *s, uint64_t *n, size_t times)
{
    for (size_t i = 0; i < times; i++) {
        size_t count;
        ms_error err;
        must_ok(scribe_append(s, store, *n, NULL, &count, &err), &err, "append");
        *n += count;
    }
}

/* The same after damage, which may have any key: without keys, one by one. */
static void write_without_keys(ms_store *store, const scribe *s, uint64_t *n, size_t times)
{
    numbered message;
    ms_error err;
    for (size_t i = 0; i < times; i++) {
        scribe_write(s, (*n)++, &message);
        message.m.key = ms_str_n(NULL, 0);
        must_ok(ms_append(store, message.m.location, &message.m, NULL, &err), &err,
                "append");
    }
}

/* Two writers, and dead bytes after the first one, which the second one zeroes: segments
 * with a summary, batches, keys. */
static void make_segments(bench *b)
{
    scribe s = {test_seed(), 300};
    uint64_t n = 1;
    ms_log_info info;
    for (int writer = 0; writer < 2; writer++) {
        ms_store *store = must_create(b, false);
        if (writer == 0) write_messages(store, &s, &n, 150);
        else write_without_keys(store, &s, &n, 200);
        ms_sync(store, NULL, NULL);
        ms_log_stat(store, &info, NULL);
        ms_close(store);
        if (writer > 0) break;
        disk_resize(&b->d, info.end + 4000);
        memset(b->d.rw + info.end, 0x5a, 4000);
        b->d.boot++;
    }
    assert_true(info.segments >= 8 && info.summaries > 0 && info.zeroed_bytes > 0);
}

/* A file that was truncated after a sync, and goes on with a LOST record; dead bytes with
 * whole records stand after its end. */
static void make_lost(bench *b)
{
    scribe s = {test_seed() + 3, 200};
    uint64_t n = 1;
    ms_log_info info;
    for (int writer = 0; writer < 3; writer++) {
        ms_store *store = must_create(b, false);
        if (writer == 0) write_messages(store, &s, &n, 30);
        else write_without_keys(store, &s, &n, 40);
        if (writer < 2) ms_sync(store, NULL, NULL);
        ms_log_stat(store, &info, NULL);
        assert_int_equal(info.damaged > 0, writer > 0);
        uint64_t size = b->d.size;
        unsigned char *bytes = (unsigned char *)malloc((size_t)size);
        if (bytes == NULL) abort();
        memcpy(bytes, b->d.ro, (size_t)size);
        ms_close(store);
        if (writer == 0) disk_resize(&b->d, (info.end - 900) & ~(uint64_t)7);
        if (writer == 2) { /* as it was before it was closed, with a hole */
            memcpy(b->d.rw, bytes, (size_t)size);
            memset(b->d.rw + info.durable_end, 0, 48);
        }
        free(bytes);
        b->d.boot++;
    }
}

/* Changes of every kind, by two writers. */
static void make_changes(bench *b)
{
    static change_sequence d;
    ms_error err;
    sequence_begin(&d, test_seed());
    for (int writer = 0; writer < 2; writer++) {
        ms_store *store = must_create(b, false);
        for (int i = 0; i < 60; i++)
            must_ok(sequence_step(&d, store, &err), &err, "a step");
        ms_close(store);
        sequence_writer_gone(&d);
    }
}

/* Two handles in turn, and, as a source of its own, the file before they are closed. */
static void make_shared(bench *b)
{
    scribe s = {test_seed() + 1, 200};
    uint64_t n = 1;
    ms_store *one = must_create(b, true), *two = must_create(b, true);
    for (int i = 0; i < 40; i++) write_messages(i % 2 ? one : two, &s, &n, 1);
    ms_envelope m = ms_message(MS_T_TASK, ms_text("a task"));
    m.agent_key = MS_STR("worker_1");
    assert_int_equal(ms_append(one, MS_STR("job_1"), &m, NULL, NULL), MS_OK);
    keep(b, "shared, in use", false, b->d.ro, (size_t)b->d.size);
    ms_close(one);
    ms_close(two);
}

/* What a copy left out is written down, so positions go on. */
static void make_gaps(bench *b)
{
    scribe s = {test_seed() + 2, 200};
    uint64_t n = 1;
    const ms_mem_desc mem = {.clock.now = clock_stands};
    const ms_keep keep = {.newest = 12};
    ms_store *from;
    assert_int_equal(ms_mem_open(&from, &mem, NULL), MS_OK);
    write_messages(from, &s, &n, 80);
    ms_store *store = must_create(b, false);
    assert_int_equal(ms_copy(store, from, &keep, NULL, NULL, NULL), MS_OK);
    write_messages(store, &s, &n, 10);
    ms_close(store);
    ms_close(from);
}

static const struct {
    const char *name;
    void (*make)(bench *b);
} logs[] = {{"segments", make_segments}, {"changes", make_changes}, {"shared", make_shared},
            {"gaps", make_gaps}, {"truncated", make_lost}};

static ms_mem_desc image_desc(bench *b)
{
    static uint64_t entropy;
    const ms_mem_desc desc = {.buffer = b->buffer, .buffer_size = BUFFER,
                              .entropy = {entropy_counts, &entropy}};
    entropy = 9;
    return desc;
}

/* Messages, or changes of every kind. */
static void make_image(bench *b, bool changes)
{
    static change_sequence d;
    scribe s = {test_seed(), 200};
    uint64_t n = 1;
    ms_store *store;
    ms_mem_desc desc = image_desc(b);
    assert_int_equal(ms_mem_open(&store, &desc, NULL), MS_OK);
    sequence_begin(&d, test_seed() + 3);
    if (!changes) write_messages(store, &s, &n, 40);
    else while (d.steps < 60 && sequence_step(&d, store, NULL) == MS_OK) continue;
    ms_str image = ms_mem_image(store);
    keep(b, changes ? "changes" : "messages", true, image.ptr, image.len);
    ms_close(store);
}

/* The disk is in memory. */
static int populate_nothing(void *ctx, ms_file file, void *at, uint64_t offset, size_t size,
                            uint64_t *bad)
{
    return 0;
}

static int populate_none_of(void *ctx, void *const *pages, size_t n)
{
    assert_in_range(n, 2, 32);
    for (size_t i = 0; i < n; i++) assert_int_equal((uintptr_t)pages[i] % 4096, 0);
    return 0;
}

static bench *bench_new(void)
{
    static ms_os plain;
    void *room = NULL;
    bench *b = (bench *)calloc(1, sizeof *b);
    if (b == NULL || posix_memalign(&room, 64, BUFFER) != 0) abort();
    watch();
    plain = os_without_sync();
    b->plain = &plain;
    b->buffer = (unsigned char *)room;
    b->rng = test_seed();
    disk_init(&b->d, ROOM);
    b->d.os.populate = populate_nothing;
    b->d.os.populate_each = populate_none_of;
    test_alloc_init(&b->heap);
    b->folder = scratch_folder();
    for (size_t i = 0; i < COUNT(logs); i++) {
        logs[i].make(b);
        keep(b, logs[i].name, false, b->d.ro, (size_t)b->d.size);
        disk_is_idle(&b->d);
        disk_clear(&b->d);
        b->d.inode = 1;
    }
    make_image(b, false);
    make_image(b, true);
    b->mutant = (unsigned char *)malloc(ROOM);
    b->holds = (uint8_t *)calloc(1, ROOM / 8);
    if (b->mutant == NULL || b->holds == NULL) abort();
    return b;
}

static void bench_free(bench *b)
{
    test_alloc_done(&b->heap);
    disk_deinit(&b->d);
    scratch_remove(b->folder);
    while (b->n_sources > 0) free(b->sources[--b->n_sources].bytes);
    void *all[] = {b->buffer, b->mutant, b->holds, b->folder, b};
    for (size_t i = 0; i < COUNT(all); i++) free(all[i]);
}


/* ---- what the bytes hold, found without the library's reading ---- */

/* Marks each place of the grid where a record stands: of this file and this place. Of an
 * image up to what it says is its end. */
static void survey(bench *b, ms_store *image)
{
    static hostile_map m;
    size_t head = b->image ? HOSTILE_IMAGE_HEADER : HOSTILE_SUPER;
    b->base = b->image ? b->buffer : b->d.ro;
    b->used = b->image ? ms_mem_image(image).len : (size_t)b->d.size;
    m.image = b->image;
    if (b->used >= head) memcpy(m.id, b->base + 24, sizeof m.id);
    if (b->used >= head) memcpy(m.image_id, b->base + 16, sizeof m.image_id);
    memset(b->holds, 0, ROOM / 8);
    b->n_holds = 0;
    for (size_t at = head; at + FILE_HEADER + 8 <= b->used; at += 8) {
        const unsigned char *r = b->base + at;
        uint64_t len = file_get32(r);
        if (len <= 32 || ((len + 7) & ~(uint64_t)7) > b->used - at) continue;
        if (r[4] == 0 || hostile_check(&m, at, r) != file_get32(r + FILE_AT_CHECK)) continue;
        bool erased = file_get32(r + FILE_AT_BODY_CHECK) == FILE_ERASED;
        if (!erased && file_body_check(r) != file_get32(r + FILE_AT_BODY_CHECK)) continue;
        b->holds[at / 8] = 1;
        b->n_holds++;
    }
}


/* ---- reading a changed file ---- */

/* Every field lies inside of its message. A message of an image is as sound as one that
 * was appended. */
static void look_at_fields(const bench *b, const ms_msg *msg, const char *from, size_t size)
{
    ms_value fields[MS_FIELD_COUNT];
    ms_error err;
    uint32_t set = ms_fields(msg, fields);
    for (int f = 1; f < MS_FIELD_COUNT; f++) {
        if (!(set >> f & 1)) continue;
        const char *p = fields[f].text.ptr;
        size_t len = fields[f].text.len;
        if (p < from || len > size || p > from + size - len)
            fail_msg("%s: field %d lies outside of its message", running, f);
    }
    ms_envelope e = ms_envelope_of(msg);
    bool sound = test_envelope_check(&e, &err) == MS_OK && e.location.len > 0;
    if (b->image && ms_kind_of(msg) == MS_KIND_MESSAGE && !sound)
        fail_msg("%s: an unsound message: %s", running, err.message);
    (void)ms_role_name(msg);
    (void)ms_type_name(msg);
}

/* A message that a store returned: one that some record says, or, in an arena, one that
 * is being written. */
static void look_at(bench *b, const ms_msg *msg)
{
    const unsigned char *p = (const unsigned char *)(const void *)msg;
    size_t size = ms_size(msg);
    look_at_fields(b, msg, (const char *)p, size);
    b->messages++;
    if (p >= b->base && p < b->base + (b->image ? BUFFER : DISK_VIEW)) {
        size_t at = (size_t)(p - b->base);
        if (at >= b->used || size > b->used - at)
            fail_msg("%s: a message at %zu, after the end", running, at);
        if (at % 8 != 0 || !b->holds[at / 8])
            fail_msg("%s: a message at %zu, where no record is", running, at);
        return;
    }
    if (!(ms_flags(msg) & (MS_FLAG_UNFINISHED | MS_FLAG_REDACTED | MS_FLAG_AMENDED)))
        fail_msg("%s: a copied message without need", running);
}

/* No code but these may come of bytes. */
static void must_be_of_bytes(bench *b, ms_result result, const ms_error *err,
                             const char *what)
{
    switch (result) {
    case MS_OK: case MS_E_DAMAGED: case MS_E_FOREIGN: case MS_E_NOT_FOUND:
    case MS_E_FULL: case MS_E_HIDDEN: case MS_E_CONFLICT: case MS_E_CLOSED:
        return;
    case MS_E_NO_MEMORY:
        if (b->image) return; /* its buffer is full */
        fail_msg("%s, %s: it wants more memory than %zu for %zu bytes (%s)", running,
                 what, memory_for(b->size), b->size, err != NULL ? err->message : "");
        return;
    default:
        fail_msg("%s, %s: %s (%s)", running, what, ms_result_text(result),
                 err != NULL ? err->message : "");
    }
}

/* The same where messages are looked at as those that are appended: what a record says
 * may be no message that a store takes. */
static void must_be_of_messages(bench *b, ms_result result, const ms_error *err,
                                const char *what)
{
    switch (result) {
    case MS_E_UTF8: case MS_E_SYNTAX: case MS_E_MISSING: case MS_E_KIND: case MS_E_TYPE:
    case MS_E_ARGUMENT: case MS_E_RANGE: case MS_E_DEPTH: case MS_E_KEY_REUSED:
    case MS_E_TOO_LARGE:
        return;
    default: must_be_of_bytes(b, result, err, what);
    }
}

/* Reads a query to its end, which comes: an index that lies may list a record several
 * times, but not without bound. Whether numbers rise is noted. */
static void read_query(bench *b, ms_store *store, const ms_query *q, const char *what)
{
    ms_cursor it;
    const ms_msg *msg;
    ms_error err;
    size_t n = 0;
    uint64_t last = 0;
    bool order = q->raw == 0 && !q->by_time && !q->reverse;
    ms_result result = ms_query_open(store, q, &it, &err);
    must_be_of_bytes(b, result, &err, what);
    while ((msg = ms_next(&it)) != NULL) {
        look_at(b, msg);
        if (n++ > 8 * b->n_holds + 64)
            fail_msg("%s, %s: reading has no end", running, what);
        if (order && n > 1 && ms_seq(msg) <= last) b->disorder = true;
        if (b->disorder && b->image) fail_msg("%s: numbers go back", running);
        last = ms_seq(msg);
    }
    result = ms_cursor_close(&it, &err);
    must_be_of_bytes(b, result, &err, what);
}

static void read_queries(bench *b, ms_store *store, ms_arena *arena)
{
    static const char *const places[] = {"job_1", "place_1", "no such place"};
    ms_str team[] = {MS_STR("worker_1"), MS_STR("worker_2")};
    const ms_query all = {.arena = arena}, raw = {.arena = arena, .raw = MS_RAW_ALL};
    const ms_query about = {.location = MS_STR("place_1"), .raw = MS_RAW_ALL,
                            .about_seq = 1 + test_below(&b->rng, 40)};
    read_query(b, store, &all, "timeline");
    read_query(b, store, &raw, "raw");
    read_query(b, store, &about, "raw about one");
    for (size_t i = 0; i < COUNT(places); i++) {
        ms_query q = {.arena = arena, .location = ms_str_of(places[i])};
        read_query(b, store, &q, "location");
        q.views = MS_VIEW_CONVERSATION | MS_VIEW_GLOBAL | MS_VIEW_AGENT | MS_VIEW_TEAM;
        q.agent_key = team[0];
        q.agent_keys = team;
        q.n_agent_keys = COUNT(team);
        q.limit = i == 0 ? 0 : 10;
        q.reverse = test_one_in(&b->rng, 2);
        read_query(b, store, &q, "views");
        q.by_time = true;
        read_query(b, store, &q, "views by time");
        q.by_time = false;
        q.after_seq = test_below(&b->rng, 100);
        q.before_seq = q.after_seq + test_below(&b->rng, 100);
        q.has_since = test_one_in(&b->rng, 2);
        q.since_ns = SECONDS(20);
        read_query(b, store, &q, "bounds");
    }
}

static void read_one_by_one(bench *b, ms_store *store, ms_arena *arena)
{
    ms_error err;
    const ms_msg *msg;
    for (int i = 0; i < 12; i++) {
        uint64_t seq = i == 0 ? UINT64_MAX : test_below(&b->rng, 200);
        ms_result result = ms_get_by_seq(store, seq, arena, &msg, &err);
        if (result == MS_OK) look_at(b, msg);
        if (result == MS_OK) assert_true(ms_seq(msg) == seq);
        must_be_of_bytes(b, result, &err, "get");
    }
}

static void read_the_rest(bench *b, ms_store *store, ms_arena *arena)
{
    ms_error err;
    ms_stat stat;
    ms_log_info info;
    ms_listing listing;
    ms_str facts;
    ms_stream_text text;
    uint64_t last;
    must_be_of_bytes(b, ms_store_stat(store, &stat, &err), &err, "stat");
    if (!b->image)
        must_be_of_bytes(b, ms_log_stat(store, &info, &err), &err, "log stat");
    must_be_of_bytes(b, test_refresh(store, &last, &err), &err, "refresh");
    for (int i = 0; i < 4; i++) {
        const ms_list_query list = {.agents = i % 2 == 1,
                                    .location = ms_str_of(i == 3 ? "job_1" : NULL)};
        must_be_of_bytes(b, ms_list(store, &list, arena, &listing, &err), &err, "list");
        if (listing.count > 4 * b->n_holds) fail_msg("%s: a long listing", running);
    }
    must_be_of_bytes(b, ms_location_get(store, MS_STR("place_1"), arena, &facts, &err),
                     &err, "facts");
    ms_result result = ms_stream_read(store, 1 + test_below(&b->rng, 60), 0, arena, &text,
                                      &err);
    if (result != MS_E_RANGE) must_be_of_bytes(b, result, &err, "stream");
}

/* Finds a letter in all fields. */
static void search(bench *b, ms_store *store)
{
    const ms_find_query q = {.text = {"e", 1}, .fields = MS_FIND_ALL};
    ms_finder finder;
    ms_found found;
    ms_error err;
    must_be_of_bytes(b, ms_find_open(store, &q, &finder, &err), &err, "find");
    for (size_t n = 0; ms_find_next(&finder, &found); n++) {
        size_t len = ms_get(found.msg, found.field).text.len;
        if (found.at > len || found.length > len - found.at)
            fail_msg("%s: found outside of the text", running);
        if (n > 8 * b->n_holds + 64) fail_msg("%s: finding has no end", running);
    }
    must_be_of_bytes(b, ms_find_close(&finder, &err), &err, "find");
}

static void read_history(bench *b, ms_store *store, ms_arena *arena)
{
    static const ms_scope_kind kinds[] = {MS_SCOPE_ALL, MS_SCOPE_ORCHESTRATOR,
                                          MS_SCOPE_MANAGER, MS_SCOPE_WORKER,
                                          MS_SCOPE_SINCE_TASK};
    ms_memory memory;
    ms_cursor it;
    const ms_msg *msg;
    ms_error err;
    size_t n = 0;
    ms_memory_init(&memory, store, MS_STR("job_1"), MS_STR("worker_1"));
    memory.scope.kind = kinds[test_below(&b->rng, 5)];
    memory.timeline = test_one_in(&b->rng, 2);
    memory.arena = arena;
    ms_result result = ms_get_history(&memory, &it, &err);
    must_be_of_bytes(b, result, &err, "history");
    while ((msg = ms_next(&it)) != NULL) {
        look_at(b, msg);
        if (n++ > 32 * b->n_holds + 64) fail_msg("%s: a history without end", running);
    }
    must_be_of_bytes(b, ms_cursor_close(&it, &err), &err, "history");
}

/* Copies it into an arena store, or writes it anew to a file of the system. */
static void copy(bench *b, ms_store *store)
{
    const ms_mem_desc mem = {.alloc = b->heap.alloc};
    ms_store *to;
    ms_error err;
    ms_result result;
    char path[340];
    if (test_one_in(&b->rng, 4)) {
        ms_log_desc desc = desc_of(b, MS_LOG_CREATE);
        snprintf(path, sizeof path, "%s/copy.msl", b->folder);
        desc.path = path;
        desc.os = b->plain;
        result = ms_log_rewrite(store, &desc, true, NULL, NULL, &err);
        must_be_of_messages(b, result, &err, "rewrite");
        unlink(path);
        return;
    }
    assert_int_equal(ms_mem_open(&to, &mem, NULL), MS_OK);
    result = ms_copy(to, store, NULL, NULL, NULL, &err);
    must_be_of_messages(b, result, &err, "copy");
    if (ms_selfcheck(to, &err) != MS_OK)
        fail_msg("%s: selfcheck of the copy: %s", running, err.message);
    ms_close(to);
}

/* Everything that reads. */
static void read_all(bench *b, ms_store *store)
{
    ms_arena arena;
    ms_error err;
    survey(b, store);
    test_arena_init(&arena, &b->heap.alloc);
    read_queries(b, store, &arena);
    read_one_by_one(b, store, &arena);
    read_the_rest(b, store, &arena);
    read_history(b, store, &arena);
    ms_arena_deinit(&arena);
    search(b, store);
    ms_result result = ms_selfcheck(store, &err);
    must_be_of_messages(b, result, &err, "selfcheck");
    if (b->sound && result != MS_OK) fail_msg("%s: selfcheck: %s", running, err.message);
    b->found = b->found || result != MS_OK;
    if (test_one_in(&b->rng, 4)) copy(b, store);
}

static bool opens(bench *b, const ms_log_desc *desc, ms_store **store, const char *how)
{
    ms_error err;
    ms_result result = ms_log_open(store, desc, &err);
    must_be_of_bytes(b, result, &err, how);
    b->opened += result == MS_OK;
    b->refused += result != MS_OK;
    if (result == MS_OK) return true;
    if (*store != NULL) fail_msg("%s, %s: a store is left", running, how);
    if (err.code != result || err.message[0] == '\0')
        fail_msg("%s, %s: refused without a reason", running, how);
    return false;
}

static void read_as(bench *b, ms_log_opening opening, const char *how)
{
    ms_store *store;
    ms_log_desc desc = desc_of(b, MS_LOG_READ);
    desc.opening = opening;
    if (!opens(b, &desc, &store, how)) return;
    read_all(b, store);
    ms_close(store);
}

/* A view takes records for what they are, and an index for what it says. That numbers go
 * back is found by ms_log_verify, of an index by ms_selfcheck. */
static void verify(bench *b)
{
    ms_log_desc desc = desc_of(b, MS_LOG_READ);
    ms_log_report report;
    ms_error err;
    ms_result result = ms_log_verify(&desc, &report, &err);
    must_be_of_bytes(b, result, &err, "verify");
    if (b->disorder && !b->found && result == MS_OK)
        fail_msg("%s: numbers go back, and nothing finds it", running);
}


/* ---- writing on ---- */

/* A message that is not found by its number, where an index lies about numbers: a walk
 * has it, and ms_log_verify or ms_selfcheck finds the lie. */
static void must_be_listed(bench *b, ms_store *store, uint64_t seq, const char *why)
{
    ms_log_desc desc = desc_of(b, MS_LOG_READ);
    ms_log_report report;
    const ms_query q = {.raw = MS_RAW_MESSAGES};
    ms_cursor it;
    const ms_msg *msg;
    bool found = false;
    (void)ms_query_open(store, &q, &it, NULL);
    while ((msg = ms_next(&it)) != NULL) found = found || ms_seq(msg) == seq;
    (void)ms_cursor_close(&it, NULL);
    if (!found)
        fail_msg("%s: message %llu, appended, is nowhere (%s)", running,
                 (unsigned long long)seq, why);
    if ((b->image || ms_log_verify(&desc, &report, NULL) == MS_OK) &&
        ms_selfcheck(store, NULL) == MS_OK)
        fail_msg("%s: message %llu, appended: %s; nothing finds that", running,
                 (unsigned long long)seq, why);
}

typedef struct added {
    uint64_t seq[3];
    bool there[3];
} added;

static void add(bench *b, ms_store *store, added *a, size_t i, const ms_envelope *m)
{
    ms_error err;
    const ms_msg *msg;
    ms_result result = ms_append(store, MS_STR("job_1"), m, &a->seq[i], &err);
    must_be_of_bytes(b, result, &err, "append");
    if (result != MS_OK) return;
    result = ms_get_by_seq(store, a->seq[i], NULL, &msg, &err);
    must_be_of_bytes(b, result, &err, "get of what was appended");
    a->there[i] = result == MS_OK;
    if (b->image && result != MS_OK) fail_msg("%s: %s", running, err.message);
    if (result != MS_OK && strstr(err.message, "hidden") == NULL)
        must_be_listed(b, store, a->seq[i], err.message);
}

static void write_on(bench *b, ms_store *store, added *a)
{
    ms_error err;
    ms_envelope m = ms_observation(ms_text("written on"), ms_str_of(NULL));
    memset(a, 0, sizeof *a);
    add(b, store, a, 0, &m);
    m.key = MS_STR("a new key");
    add(b, store, a, 1, &m);
    add(b, store, a, 2, &m);
    if (a->there[1] && a->there[2] && a->seq[1] != a->seq[2])
        fail_msg("%s: a key gives two numbers", running);
    must_be_of_bytes(b, ms_sync(store, NULL, &err), &err, "sync");
    must_be_of_bytes(b, ms_tick(store, 100, &err), &err, "tick");
    if (!a->there[0]) return;
    m = ms_observation(ms_text("amended"), ms_str_of(NULL));
    must_be_of_bytes(b, ms_amend(store, a->seq[0], &m, &err), &err, "amend");
    must_be_of_bytes(b, ms_note(store, a->seq[0], MS_STR("k"), ms_text("v"), &err), &err,
                     "note");
    must_be_of_bytes(b,
                     ms_location_set(store, MS_STR("job_1"), MS_STR("{\"a\":1}"), &err),
                     &err, "facts");
    for (int i = 0; i < 4; i++) {
        uint64_t seq = test_below(&b->rng, a->seq[0]);
        must_be_of_messages(b, ms_hide(store, seq, &err), &err, "hide");
        seq = test_below(&b->rng, a->seq[0]);
        must_be_of_messages(b, ms_redact(store, seq, &err), &err, "redact");
    }
    ms_result result =
        ms_fork(store, MS_STR("job_1"), a->seq[1], MS_STR("branch"), NULL, &err);
    must_be_of_messages(b, result, &err, "fork");
}

/* A writer has begun, and closed: it has zeroed what was dead. A shared one relies on the
 * word that shows whether another one was storing, which can lie. */
static void must_be_zeroed(bench *b)
{
    if (b->d.size < SUPER_SIZE) return;
    for (uint64_t at = file_get64(b->d.ro + FILE_AT_WATERMARK); at < b->d.size; at++)
        if (b->d.ro[at] != 0)
            fail_msg("%s: byte %llu after the end is not zero", running,
                     (unsigned long long)at);
}

/* Opened again, what was added is there. A change that lies about its range may hide what
 * has not come yet: then at once. */
static void must_have(bench *b, const added *a)
{
    ms_log_desc desc = desc_of(b, MS_LOG_READ);
    ms_store *store;
    ms_error err;
    const ms_msg *msg;
    if (!a->there[0] && !a->there[1]) return;
    survey(b, NULL);
    if (ms_log_open(&store, &desc, &err) != MS_OK)
        fail_msg("%s: refused after an append: %s", running, err.message);
    for (int i = 0; i < 2; i++) {
        if (!a->there[i]) continue;
        ms_result result = ms_get_by_seq(store, a->seq[i], NULL, &msg, &err);
        if (result != MS_OK) must_be_listed(b, store, a->seq[i], err.message);
        else look_at(b, msg);
    }
    read_all(b, store);
    ms_close(store);
}

static void write_as(bench *b, bool shared)
{
    ms_log_desc desc = desc_of(b, MS_LOG_WRITE);
    ms_store *store;
    added a;
    desc.shared = shared;
    desc.lock_wait_ms = 1;
    desc.engine = test_one_in(&b->rng, 2) ? MS_ENGINE_WRITE : MS_ENGINE_MAP;
    if (!opens(b, &desc, &store, shared ? "shared" : "write")) return;
    write_on(b, store, &a);
    read_all(b, store);
    ms_close(store);
    if (!shared && a.seq[0] != 0) must_be_zeroed(b);
    must_have(b, &a);
}


/* ---- one changed file ---- */

static void use_log(bench *b, bool whole)
{
    disk_load(&b->d, b->mutant, b->size);
    read_as(b, MS_OPEN_NORMAL, "read");
    verify(b);
    if (whole || test_one_in(&b->rng, 4)) read_as(b, MS_OPEN_STRICT, "strict");
    if (whole || test_one_in(&b->rng, 3)) read_as(b, MS_OPEN_SALVAGE, "salvage");
    if (b->d.size != b->size || memcmp(b->d.ro, b->mutant, b->size) != 0)
        fail_msg("%s: reading has written", running);
    if (whole || test_one_in(&b->rng, 2)) write_as(b, test_one_in(&b->rng, 3));
    disk_is_idle(&b->d);
}

static ms_result attach(bench *b, bool salvage, ms_store **store)
{
    ms_mem_desc desc = image_desc(b);
    ms_error err;
    uint64_t damaged;
    desc.salvage = salvage;
    ms_result result = ms_mem_attach(store, &desc, &damaged, &err);
    b->sound = result == MS_OK && (damaged == 0 || !b->changes);
    b->opened += result == MS_OK;
    b->refused += result != MS_OK;
    if (result == MS_OK) return result;
    if (*store != NULL || err.message[0] == '\0' ||
        (result != MS_E_DAMAGED && result != MS_E_FOREIGN && result != MS_E_FULL))
        fail_msg("%s: attach: %s (%s)", running, ms_result_text(result), err.message);
    return result;
}

static void use_image(bench *b)
{
    ms_store *store;
    added a;
    bool salvage = test_one_in(&b->rng, 2);
    memset(b->buffer, 0, BUFFER);
    memcpy(b->buffer, b->mutant, b->size);
    if (attach(b, salvage, &store) != MS_OK) return;
    read_all(b, store);
    write_on(b, store, &a);
    read_all(b, store);
    ms_close(store);
    ms_result result = attach(b, salvage, &store);
    if (result == MS_OK) read_all(b, store);
    else if (result != MS_E_FULL) fail_msg("%s: refused after writing", running);
    ms_close(store);
}

/* The file of a source, changed or not. Milliseconds of the processor that its use takes;
 * how much is drawn, but all with `whole`. */
static double use(bench *b, const source *s, bool whole)
{
    memcpy(b->mutant, s->bytes, s->size);
    b->image = s->image;
    b->changes = strcmp(s->name, "messages") != 0;
    b->sound = false;
    b->size = s->size;
    if (!whole && s->image) (void)hostile_mutate_image(b->mutant, s->size, &b->rng);
    else if (!whole) b->size = hostile_mutate(b->mutant, s->size, ROOM, &b->rng);
    b->d.boot = file_get64(b->mutant + FILE_AT_WRITER);
    if (test_one_in(&b->rng, 3) || b->d.boot == 0) b->d.boot = 2000;
    b->d.there = true;
    b->d.locked = false;
    b->heap.limit_bytes = memory_for(b->size);
    b->disorder = b->found = false;
    alarm(SECONDS);
    double began = cpu_ms();
    if (b->image) use_image(b);
    else use_log(b, whole);
    double took = cpu_ms() - began;
    alarm(0);
    test_alloc_done(&b->heap);
    b->heap.limit_bytes = 0;
    return took;
}

static const source *source_of(bench *b, bool image)
{
    const source *s;
    do s = &b->sources[test_below(&b->rng, b->n_sources)];
    while (s->image != image);
    return s;
}

/* A changed file, once more when it took too long: the machine may have been at something
 * else. */
static double use_bounded(bench *b, bool image, size_t i, double usual)
{
    uint64_t rng = b->rng;
    double took = 0;
    for (int tries = 0; tries < 2; tries++) {
        b->rng = rng;
        const source *s = source_of(b, image);
        snprintf(running, sizeof running, "%s %zu (of %s, rng %llx)",
                 image ? "image" : "log", i, s->name, (unsigned long long)rng);
        took = use(b, s, false);
        if (is_bounded(took, usual)) return took;
    }
    fail_msg("%s: %.0f ms of the processor, an unchanged one takes %.0f", running, took,
             usual);
    return took;
}

static void use_changed(bool image, size_t times)
{
    bench *b = bench_new();
    const char *again = getenv("MS_TEST_HOSTILE");
    uint64_t rng = b->rng + image;
    double longest = 0, usual = 0;
    for (size_t i = 0; i < b->n_sources; i++) {
        if (b->sources[i].image != image) continue;
        snprintf(running, sizeof running, "%s, unchanged", b->sources[i].name);
        double took = use(b, &b->sources[i], true);
        if (took > usual) usual = took;
    }
    b->rng = again != NULL ? strtoull(again, NULL, 16) : rng;
    b->messages = b->opened = b->refused = 0;
    if (again != NULL) times = 1;
    for (size_t i = 0; i < times; i++, hostile_files++) {
        double took = use_bounded(b, image, i, usual);
        if (took > longest) longest = took;
    }
    printf("%zu changed %s, %llu opened, %llu refused, %llu messages read, the slowest "
           "took %.1f ms of the processor, an unchanged one %.1f, %zu bytes at most\n",
           times, image ? "images" : "logs", (unsigned long long)b->opened,
           (unsigned long long)b->refused, (unsigned long long)b->messages, longest,
           usual, b->heap.peak_bytes);
    if (again == NULL) assert_true(b->opened > times / (image ? 10 : 2));
    if (again == NULL) assert_true(b->refused > 0);
    bench_free(b);
}

TEST(log_does_no_harm_when_its_bytes_lie)
{
    use_changed(false, test_times(900));
}

TEST(image_does_no_harm_when_its_bytes_lie)
{
    use_changed(true, test_times(5000));
}

TEST(fact_is_damage_when_it_is_no_json)
{
    bench *b = bench_new();
    ms_arena arena;
    ms_str facts;
    test_arena_init(&arena, NULL);
    ms_store *store = must_create(b, false);
    assert_int_equal(
        ms_location_set(store, MS_STR("job"), MS_STR("{\"fact\":1234}"), NULL), MS_OK);
    ms_close(store);
    unsigned char *value = (unsigned char *)memmem(b->d.rw, b->d.size, "1234}", 5);
    assert_non_null(value);
    memcpy(value, "{[{[", 4);
    hostile_recheck(b->d.rw, b->d.size, false);
    store = must_create(b, false);
    ms_result result = ms_location_get(store, MS_STR("job"), &arena, &facts, NULL);
    if (result != MS_E_DAMAGED) fail_msg("%s", ms_result_text(result));
    ms_close(store);
    ms_arena_deinit(&arena);
    bench_free(b);
}


/* ---- names that meet ----
 *
 * What is hashed without a key are the two ends of a name and its length, for a table of
 * the last few; all else has the key of its store: SipHash, under the id of a log, and
 * under what the entropy returns in an arena store. */

enum { NAME = 24, MEET_BITS = 8 };

/* Names of all kinds; with the same ends; whose hashes begin alike under the key of the
 * store. */
typedef enum naming { VARIED, SAME_ENDS, KNOWN_KEY } naming;
typedef enum named { LOCATIONS, AGENTS, KEYS, NAMED } named;

static const uint64_t known_key[2] = {UINT64_C(0x5a5a5a5a5a5a5a5a),
                                      UINT64_C(0x5a5a5a5a5a5a5a5a)};

static void entropy_known(void *ctx, void *out, size_t len)
{
    memset(out, 0x5a, len);
}

static void make_names(naming how, named what, size_t n, char *names)
{
    uint64_t salt = file_hash(known_key, 0, "here", 4), tried = 0;
    if (what == LOCATIONS) salt = 0;
    if (what == KEYS) salt = ~salt;
    for (size_t i = 0; i < n; i++) {
        uint64_t h = i, hash = 0;
        unsigned a = (unsigned)(test_random(&h) % 100000000);
        unsigned b = (unsigned)(test_random(&h) % 100000000);
        char name[NAME + 1];
        if (how == VARIED)
            snprintf(name, sizeof name, "%08u%08u%08u", a, (unsigned)(i % 100000000), b);
        if (how == SAME_ENDS)
            snprintf(name, sizeof name, "aaaaaaaa%08uzzzzzzzz",
                     (unsigned)(i % 100000000));
        while (how == KNOWN_KEY && hash >> (64 - MEET_BITS) != 0x5a) {
            snprintf(name, sizeof name, "%024llu", (unsigned long long)tried++);
            hash = file_hash(known_key, salt, name, NAME);
        }
        memcpy(names + i * NAME, name, NAME);
    }
}

static ms_envelope named_message(named what, ms_str name)
{
    ms_envelope m = ms_observation(ms_text("content"), ms_str_of(NULL));
    m.location = what == LOCATIONS ? name : MS_STR("here");
    if (what == AGENTS) m.agent_key = name;
    if (what == KEYS) m.key = name;
    return m;
}

/* Looks one name up: its newest message, or its key again. */
static void must_find(ms_store *store, named what, ms_str name, uint64_t want)
{
    ms_cursor it;
    uint64_t seq = 0;
    ms_envelope m = named_message(what, name);
    const ms_query q = {.location = m.location, .limit = 1, .agent_key = m.agent_key,
                        .views = what == AGENTS ? MS_VIEW_AGENT : 0};
    if (what == KEYS) {
        assert_int_equal(ms_append(store, m.location, &m, &seq, NULL), MS_OK);
    } else {
        assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
        const ms_msg *msg = ms_next(&it);
        seq = msg != NULL ? ms_seq(msg) : 0;
        ms_cursor_close(&it, NULL);
    }
    assert_true(seq == want);
}

static ms_store *store_for(bool log, disk *d, naming how)
{
    ms_store *store;
    ms_mem_desc mem = {.max_message = 0};
    ms_log_desc desc = disk_desc(d, MS_LOG_CREATE);
    if (how == KNOWN_KEY) mem.entropy.fill = desc.entropy.fill = entropy_known;
    desc.segment_size = 1 << 20;
    if (log) disk_clear(d);
    assert_int_equal(log ? ms_log_open(&store, &desc, NULL)
                         : ms_mem_open(&store, &mem, NULL), MS_OK);
    return store;
}

/* Milliseconds of the processor for n new names, and a look at every eighth of them: the
 * best of some runs, each on a new store. */
static double flood(disk *d, bool log, naming how, named what, size_t n)
{
    char *names = (char *)malloc(n * NAME);
    uint64_t *seqs = (uint64_t *)malloc(n * sizeof seqs[0]);
    double best = 0;
    if (names == NULL || seqs == NULL) abort();
    make_names(how, what, n, names);
    for (int run = 0; run < (n <= 10000 ? 3 : 2); run++) {
        ms_store *store = store_for(log, d, how);
        double began = cpu_ms();
        for (size_t i = 0; i < n; i++) {
            ms_envelope m = named_message(what, ms_str_n(names + i * NAME, NAME));
            assert_int_equal(ms_append(store, m.location, &m, &seqs[i], NULL), MS_OK);
        }
        for (size_t i = 0; i < n; i += 8)
            must_find(store, what, ms_str_n(names + i * NAME, NAME), seqs[i]);
        double took = cpu_ms() - began;
        if (run == 0 || took < best) best = took;
        ms_close(store);
    }
    free(names);
    free(seqs);
    return best;
}

TEST(names_take_no_longer_when_they_meet)
{
    static const char *const words[NAMED] = {"locations", "agents", "keys"};
    size_t times = test_times(test_scale() < 100 ? 10000 : 30000);
    size_t n = times < 100000 ? times : 100000, some = n / 5 + 1;
    disk d;
    disk_init(&d, (size_t)1 << 27);
    for (int i = 0; i < 2 * NAMED; i++) {
        bool log = i >= NAMED;
        named what = (named)(i % NAMED);
        double usual = flood(&d, log, VARIED, what, n);
        double fewer = flood(&d, log, VARIED, what, some);
        const struct {
            const char *name;
            double took, usual;
        } rows[] = {
            {"with the same ends", flood(&d, log, SAME_ENDS, what, n), 5 * usual},
            {"that meet under this key", flood(&d, log, KNOWN_KEY, what, some),
             5 * fewer},
            {"of a fifth, five times", 5 * fewer, 10 * usual},
        };
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
            printf("%s, %zu %s %s: %.0f ms, at most %.0f\n",
                   log ? "log" : "arena store", n, words[what], rows[k].name,
                   rows[k].took, rows[k].usual + GRACE);
            if (rows[k].took > rows[k].usual + GRACE)
                fail_msg("%s %s: too long", words[what], rows[k].name);
        }
    }
    disk_deinit(&d);
}


int main(void)
{
    scribe_page();
    int failed = run_all_tests(NULL, NULL);
    printf("tally: hostile files %llu\n", (unsigned long long)hostile_files);
    return failed;
}
