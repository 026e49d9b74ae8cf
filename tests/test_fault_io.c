/* File operations that fail, and disks that are full.
 *
 *   - The operations of fault.h with each of their calls failing, interrupted, short.
 *   - A file system of 1 MiB with every number of free pages (as root, in a private mount
 *     namespace; else skipped), and a limit on the size of a file: appends fail with a
 *     code until there is room, and lose nothing.
 *   - A crash has left a torn end, or lost what was not synced, or left half of a
 *     rewritten log; while that is put right a call or an allocation fails. Afterwards
 *     all that was durable is there.
 *   - Answers of the system that a single call brings about.
 *
 * At MS_TEST_SCALE=100 each call fails with one error, every fifth number of free pages,
 * 700 compound faults; at 1000 every error for every call, 10,000 compound faults.
 */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"
#include "fault.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

static uint64_t compound_faults;


/* ---- no room ---- */

enum { PAGES = 256, PAGE = 4096 };

/* A file system of 1 MiB that leaves so many pages free, or a process whose files may have
 * so many bytes, while the limit is on. */
typedef struct limit {
    void (*set)(const struct limit *l, bool on);
    char path[340], other[340];
    size_t room;
    size_t enough;            /* that much room takes an empty log */
    uint64_t more;            /* messages that fit after the last limit */
    char when[80];
} limit;

/* No page is free where a log stands there already and takes more. */
static void limit_pages(const limit *l, bool on)
{
    static const char page[PAGE];
    unlink(l->other);
    if (!on) return;
    int fd = open(l->other, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0) abort();
    for (size_t i = 0; i < PAGES - l->room; i++)
        if (write(fd, page, PAGE) != PAGE) {
            if (errno != ENOSPC) abort();
            break;
        }
    close(fd);
}

/* The system returns EFBIG when the signal is ignored. */
static void limit_size(const limit *l, bool on)
{
    struct rlimit now;
    fflush(stdout);
    getrlimit(RLIMIT_FSIZE, &now);
    now.rlim_cur = on ? l->room : now.rlim_max;
    if (setrlimit(RLIMIT_FSIZE, &now) != 0) abort();
}

static ms_log_desc plain_desc(const char *path, ms_log_engine engine)
{
    ms_log_desc desc = {.path = path, .engine = engine, .keep_unset_times = true};
    desc.segment_size = MS_LOG_SEGMENT_MIN;
    return desc;
}

/* The store, and another one that reads the file, have just the messages up to `last`. */
static void must_hold(const scribe *s, ms_store *store, const limit *l, uint64_t last)
{
    ms_log_desc desc = plain_desc(l->path, MS_ENGINE_AUTO);
    ms_log_report report;
    ms_error err;
    ms_store *reader;
    desc.mode = MS_LOG_READ;
    if (ms_log_open(&reader, &desc, &err) != MS_OK)
        fail_msg("%s: %s", l->when, err.message);
    ms_store *both[] = {reader, store};
    for (int i = 0; i < 2 && both[i] != NULL; i++) {
        tally t;
        if (!scribe_read(s, both[i], false, NULL, &t))
            fail_msg("%s: %s", l->when, t.wrong);
        if (t.result != MS_OK || t.last != last)
            fail_msg("%s: %llu messages, should be %llu (%s)", l->when,
                     (unsigned long long)t.last, (unsigned long long)last,
                     ms_result_text(t.result));
    }
    ms_close(reader);
    if (ms_log_verify(&desc, &report, &err) != MS_OK)
        fail_msg("%s: verify: %s", l->when, err.message);
    assert_int_equal(report.messages, last);
}

static bool is_full(ms_result result, const ms_error *err)
{
    if (result == MS_E_FULL) return true;
    return result == MS_E_IO && (err->sys_errno == ENOSPC || err->sys_errno == EFBIG);
}

/* Appends until there is no room, at most 2 MiB. */
static void append_until_full(const scribe *s, ms_store *store, uint64_t *last,
                              const limit *l)
{
    ms_result result = MS_OK;
    for (size_t refused = 0, tried = 0; refused < 4 && tried < 6000; tried++) {
        size_t count;
        ms_error err;
        result = scribe_append(s, store, *last + 1, NULL, &count, &err);
        if (result == MS_OK) *last += count;
        else if (!is_full(result, &err)) fail_msg("%s: %s", l->when, err.message);
        if (tried % 64 == 63 || result != MS_OK) {
            ms_result tick = ms_tick(store, 50, &err);
            if (tick != MS_OK && !is_full(tick, &err))
                fail_msg("%s: tick: %s", l->when, err.message);
        }
        refused += result != MS_OK;
    }
    if (result == MS_OK) fail_msg("%s: it is never full", l->when);
}

/* A log of which an empty one may need more room than the limit leaves. */
static ms_store *open_limited(const limit *l, const ms_log_desc *desc)
{
    ms_store *store;
    ms_error err;
    l->set(l, true);
    ms_result result = ms_log_open(&store, desc, &err);
    if (result == MS_OK) return store;
    l->set(l, false);
    assert_null(store);
    if (!is_full(result, &err)) fail_msg("%s: open: %s", l->when, err.message);
    if (l->room >= l->enough) fail_msg("%s are not enough for an empty log", l->when);
    if (ms_log_open(&store, desc, &err) != MS_OK)
        fail_msg("%s, then open with room: %s", l->when, err.message);
    return store;
}

/* A log grows from one limit to the next, at last without any. */
static void grow(limit *l, const ms_log_desc *desc, size_t first, size_t step, size_t end)
{
    scribe s = {test_seed() + first, 6000};
    ms_store *store = NULL;
    uint64_t last = 0;
    for (l->room = first; l->room < end; l->room += step) {
        snprintf(l->when, sizeof l->when, "%zu free pages, or bytes of a file", l->room);
        if (store == NULL) store = open_limited(l, desc);
        l->set(l, true);
        append_until_full(&s, store, &last, l);
        must_hold(&s, store, l, last);
    }
    l->set(l, false);
    for (uint64_t full = last; last < full + l->more;) {
        size_t count;
        ms_error err;
        if (scribe_append(&s, store, last + 1, NULL, &count, &err) != MS_OK)
            fail_msg("%s, then append with room: %s", l->when, err.message);
        last += count;
    }
    if (first % 3 != 0) assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
    ms_close(store);
    must_hold(&s, NULL, l, last);
    unlink(l->path);
}

/* Every step-th limit, by logs that meet every eighth of them. */
static void grow_to_limits(limit *l, ms_log_engine engine, const ms_os *os, size_t step,
                           size_t end)
{
    enum { LOGS = 8 };
    ms_log_desc desc = plain_desc(l->path, engine);
    desc.os = os;
    for (size_t i = 0; i < LOGS && test_seed() % step + i * step < end; i++) {
        desc.sync = i % 2 == 0 ? MS_SYNC_NONE : MS_SYNC_EACH;
        grow(l, &desc, test_seed() % step + i * step, LOGS * step, end);
    }
}

static limit limit_in(const char *folder, void (*set)(const limit *l, bool on),
                      size_t enough, uint64_t more)
{
    limit l;
    memset(&l, 0, sizeof l);
    snprintf(l.path, sizeof l.path, "%s/log.msl", folder);
    snprintf(l.other, sizeof l.other, "%s/other", folder);
    l.set = set;
    l.enough = enough;
    l.more = more;
    return l;
}

static size_t one_in(size_t all)
{
    return test_scale() >= 1000 ? 1 : all * 100 / test_scale();
}

static void append_is_whole_or_refused_when_the_file_system_is_full(void **state)
{
    char folder[300];
    folder_make(folder, sizeof folder);
    if (unshare(CLONE_NEWNS) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", folder, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m") != 0) {
        printf("skipped: mounting is not permitted\n");
        folder_remove(folder);
        skip();
    }
    limit l = limit_in(folder, limit_pages, 65, 1);
    grow_to_limits(&l, *(const ms_log_engine *)*state, NULL, (one_in(10) + 1) / 2,
                   PAGES - 8); /* the last append needs some */
    umount(folder);
    folder_remove(folder);
}

static void append_is_whole_or_refused_when_a_file_may_not_grow(void **state)
{
    char folder[300];
    const ms_os os = os_without_sync();
    folder_make(folder, sizeof folder);
    limit l = limit_in(folder, limit_size, 65 * PAGE, 60);
    signal(SIGXFSZ, SIG_IGN);
    grow_to_limits(&l, *(const ms_log_engine *)*state, &os, 1000 + one_in(700), 600000);
    signal(SIGXFSZ, SIG_DFL);
    folder_remove(folder);
}


/* ---- a fault while a crash is put right ---- */

enum { TORN, UNSYNCED, HALF_REWRITTEN, STALE, CRASHES };

static const char *const crash_names[CRASHES] = {
    "a torn end", "what was not synced is lost", "half of a rewritten log",
    "stale bytes"};

typedef struct wreck {
    world *w;
    scribe s;
    uint64_t rng;
    uint64_t last, durable;   /* numbers: appended; known to be durable */
    size_t durable_end;
    unsigned char *bytes;
    size_t size;
    int crash;
} wreck;

/* A log of some messages: some durable, some not. The file is kept as it stands while its
 * writer lives. */
static void wreck_write(wreck *k)
{
    world *w = k->w;
    size_t count, n = 10 + test_below(&k->rng, 30);
    k->last = k->durable = 0;
    k->s.salt = test_random(&k->rng);
    k->s.longest = 500;
    boot_now = 500;
    must_do(w, do_open, 1);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(scribe_append(&k->s, w->log, k->last + 1, NULL, &count, NULL),
                         MS_OK);
        k->last += count;
        if (!test_one_in(&k->rng, 8)) continue;
        must_do(w, do_sync, 1);
        k->durable = k->last;
    }
    k->durable_end = (size_t)info_of(w).durable_end;
    k->bytes = (unsigned char *)read_file(w->path, &k->size);
    if (k->bytes == NULL) abort();
    do_close(w, NULL);
}

/* The file that the crash has left. */
static void wreck_crash(wreck *k)
{
    world *w = k->w;
    size_t from = k->durable_end < FILE_HEAD ? FILE_HEAD : k->durable_end;
    size_t at = from + (size_t)test_below(&k->rng, k->size - from + 1);
    char part[400];
    folder_empty(w->folder);
    boot_now++;
    if (k->crash == TORN) memset(k->bytes + at, 0, k->size - at);
    if (k->crash == UNSYNCED) memset(k->bytes + from, 0, k->size - from);
    if (k->crash == STALE) test_fill(&k->rng, k->bytes + at, k->size - at);
    if (!write_file(w->path, k->bytes, k->size)) abort();
    snprintf(part, sizeof part, "%s.compacting", w->path);
    if (k->crash == HALF_REWRITTEN && !write_file(part, k->bytes, at)) abort();
}

/* Opened, read, appended to, synced: what was durable is there. In trouble what fails
 * returns a reason, else nothing does. */
static void wreck_use(wreck *k, bool trouble)
{
    world *w = k->w;
    const char *then = trouble ? "" : ", then";
    ms_error err;
    tally t;
    size_t count;
    if (do_open(w, &err) != MS_OK) {
        if (!trouble || faults_of(w) == 0) fail_msg("%s%s: %s", w->when, then, err.message);
        must_explain(w, err.code, &err);
        return;
    }
    bool right = scribe_read(&k->s, w->log, false, NULL, &t), whole = t.result == MS_OK;
    if (trouble ? !right && whole : !right || !whole)
        fail_msg("%s%s: %s", w->when, then, t.wrong);
    if (whole && t.last < k->durable)
        fail_msg("%s%s: %llu messages of %llu", w->when, then, (unsigned long long)t.last,
                 (unsigned long long)k->durable);
    for (int i = 0; i < 3 && whole; i++) {
        ms_result result = scribe_append(&k->s, w->log, t.last + 1, NULL, &count, &err);
        if (result == MS_OK) t.last += count;
        if (result == MS_OK && (result = ms_sync(w->log, NULL, &err)) == MS_OK)
            k->durable = t.last;
        if (result != MS_OK && !trouble) fail_msg("%s%s: %s", w->when, then, err.message);
    }
    do_close(w, NULL);
}

static void one_wreck(wreck *k, size_t i)
{
    static const mode call = {"", false, TRIP_FAIL, TRIP_ALL, false, 0};
    static const mode memory = {"", true, TRIP_NONE, 0, false, 0};
    world *w = k->w;
    world_reset(w);
    w->how.engine = test_one_in(&k->rng, 2) ? MS_ENGINE_MAP : MS_ENGINE_WRITE;
    w->how.shared = test_one_in(&k->rng, 4);
    wreck_write(k);
    k->crash = (int)(i % CRASHES);
    wreck_crash(k);
    mode m = test_one_in(&k->rng, 3) ? memory : call;
    m.from = test_one_in(&k->rng, 2);
    arm(w, &m, 1 + test_below(&k->rng, m.memory ? 12 : 24), test_random(&k->rng));
    snprintf(w->when, sizeof w->when, "%s, number %zu, errno %d at call %llu%s, "
             "allocation %zu", crash_names[k->crash], i, w->t.code,
             (unsigned long long)w->t.at, m.from ? " on" : "", w->heap.fail_at);
    wreck_use(k, true);
    compound_faults += faults_of(w) != 0;
    world_quiet(w);
    for (int once = 0; once < 2; once++) wreck_use(k, false);
    must_be_idle(w);
    free(k->bytes);
    folder_empty(w->folder);
}

static void durable_messages_stay_when_recovery_fails(void **state)
{
    wreck k;
    size_t times = test_times(700);
    (void)state;
    memset(&k, 0, sizeof k);
    k.w = world_new(&configs[0]);
    k.rng = test_seed();
    if (test_scale() >= 1000) times = times * 12 / 7; /* some faults come too late */
    for (size_t i = 0; i < times; i++) one_wreck(&k, i);
    world_free(k.w);
}


/* ---- answers of the system that one call brings about ---- */

static disk drive;
static ms_os told;            /* the disk, with some calls of the test's own */
static int told_code, calls_left;
static uint64_t told_most;

static ms_store *open_told(ms_log_desc *desc)
{
    desc->path = "log.msl";
    desc->os = &told;
    return must_open_log(desc, "open");
}

static void say_some(ms_store *store, size_t n)
{
    ms_envelope m = ms_user_message(ms_text("some words that take a little room"));
    for (; n > 0; n--)
        assert_int_equal(ms_append(store, MS_STR("here"), &m, NULL, NULL), MS_OK);
}

static int told_begin(void **state)
{
    (void)state;
    disk_clear(&drive);
    drive.files = drive.maps = 0; /* also after a test that failed */
    told = drive.os;
    return 0;
}

/* A log with some messages, which is closed. */
static void make_some(void)
{
    ms_log_desc desc = plain_desc("", MS_ENGINE_AUTO);
    ms_store *store = open_told(&desc);
    say_some(store, 3);
    ms_close(store);
}

static void must_work(ms_store *store, size_t n)
{
    ms_error err;
    say_some(store, n);
    if (ms_selfcheck(store, &err) != MS_OK) fail_msg("afterwards: %s", err.message);
    ms_close(store);
    disk_is_idle(&drive);
}

static int open_once(void *ctx, const char *name, unsigned how, ms_file *file)
{
    if (calls_left > 0 && --calls_left == 0) return ENOENT;
    return disk_open(ctx, name, how, file);
}

static int stat_of_another(void *ctx, ms_file file, ms_os_stat *out)
{
    int code = disk_stat(ctx, file, out);
    if (calls_left > 0 && --calls_left == 0) out->device++;
    return code;
}

/* Between opening and locking, the file is removed, or another disk is mounted. */
static void log_is_opened_again_when_it_goes_before_the_lock(void **state)
{
    for (int how = 0; how < 2; how++) {
        ms_log_desc desc = plain_desc("", MS_ENGINE_AUTO);
        told_begin(state);
        make_some();
        if (how == 1) told.stat = stat_of_another;
        else told.open = open_once;
        calls_left = 2;
        desc.mode = MS_LOG_WRITE;
        ms_store *store = open_told(&desc);
        assert_int_equal(calls_left, 0);
        must_work(store, 1);
    }
}

static int folder_fails(void *ctx, const char *of)
{
    (void)ctx;
    (void)of;
    return told_code;
}

static void sync_returns_a_code_that_fits_when_the_folder_fails(void **state)
{
    static const struct {
        int code;
        ms_result result;
    } rows[] = {{ENFILE, MS_E_IO}, {ENOMEM, MS_E_NO_MEMORY}, {EPERM, MS_OK},
                {EACCES, MS_OK},   {EIO, MS_E_POISONED}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ms_log_desc desc = plain_desc("", MS_ENGINE_AUTO);
        told_begin(state);
        make_some();
        told.sync_folder = folder_fails;
        told_code = rows[i].code;
        ms_store *store = open_told(&desc);
        say_some(store, 1);
        ms_result result = ms_sync(store, NULL, NULL);
        if (result != rows[i].result)
            fail_msg("errno %d: %s, should be %s", rows[i].code, ms_result_text(result),
                     ms_result_text(rows[i].result));
        ms_close(store);
    }
}

static int stat_without_room(void *ctx, ms_file file, ms_os_stat *out)
{
    int code = disk_stat(ctx, file, out);
    out->keeps_room = false;
    return code;
}

static int allocate_some(void *ctx, ms_file file, uint64_t offset, uint64_t size)
{
    if (offset + size > told_most) return told_code;
    return disk_allocate(ctx, file, offset, size);
}

static void log_is_written_not_mapped_when_the_disk_makes_no_room(void **state)
{
    static const int codes[] = {EOPNOTSUPP, ENOSYS, EINVAL, 0, 0};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        ms_log_info info;
        ms_log_desc desc = plain_desc("", i == 3 ? MS_ENGINE_AUTO : MS_ENGINE_MAP);
        told_begin(state);
        if (codes[i] != 0) told.allocate = allocate_some;
        else told.stat = stat_without_room;
        told_code = codes[i];
        told_most = 0;
        desc.max_message = codes[i] != 0 ? SIZE_MAX : 0;
        ms_store *store = open_told(&desc);
        assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
        assert_int_equal(info.engine, MS_ENGINE_WRITE);
        must_work(store, 20);
    }
}

static int allocate_little(void *ctx, ms_file file, uint64_t offset, uint64_t size)
{
    return size > 8192 ? EDQUOT : disk_allocate(ctx, file, offset, size);
}

static void log_asks_for_what_it_needs_when_a_quota_refuses_more(void **state)
{
    ms_log_desc desc = plain_desc("", MS_ENGINE_AUTO);
    (void)state;
    told.allocate = allocate_little;
    must_work(open_told(&desc), 50);
}

/* The file may end just where a tick looks ahead to, within a page. */
static void tick_makes_room_up_to_the_limit_when_a_file_may_not_grow(void **state)
{
    ms_log_desc desc = plain_desc("", MS_ENGINE_MAP);
    (void)state;
    desc.segment_size = 1 << 20;
    told.allocate = allocate_some;
    told_code = EFBIG;
    told_most = 3 * (MS__ROOM_LEAST + MS__GRAIN);
    ms_store *store = open_told(&desc);
    ms__log *log = ms__log_of(store);
    say_some(store, 1);
    if (log->end % 4096 == 0) say_some(store, 1);
    told_most = log->end + MS__ROOM_MOST;
    uint64_t start = drive.micros;
    assert_int_equal(ms_tick(store, 1000000, NULL), MS_OK);
    assert_true(drive.micros - start < 100); /* it does not try until its time is over */
    assert_true(log->append.allocated == told_most);
    must_work(store, 50);
}

static void segment_is_not_sealed_when_there_is_no_room_for_the_next(void **state)
{
    ms_log_desc desc = plain_desc("", MS_ENGINE_AUTO);
    (void)state;
    disk_load(&drive, images[SMALL].bytes, images[SMALL].size);
    drive.boot++; /* a restart: what is there has room, and no more */
    disk_resize(&drive, ms__get64(drive.ro + MS__AT_MARK));
    told.allocate = allocate_some;
    told_code = ENOSPC;
    told_most = 0;
    ms_store *store = open_told(&desc);
    assert_int_equal(ms__segment_write(ms__log_of(store), NULL), MS_E_FULL);
    ms_close(store);
    drive.boot--;
}

/* Each look at a file is in trouble once. */
typedef struct trap {
    trip t;
    uint64_t k;
} trap;

static void trap_set(trap *p, unsigned kinds)
{
    trip_init(&p->t, &drive.os);
    p->t.how = TRIP_FAIL;
    p->t.kinds = kinds;
    p->t.code = EIO;
    p->t.at = p->k;
    told = p->t.os;
}

/* A head of zeros with something after it is read a second time. */
static void open_fails_when_a_head_cannot_be_read_again(void **state)
{
    static unsigned char bytes[FILE_HEAD + 4096];
    trap p = {0};
    bytes[sizeof bytes - 1] = 1;
    for (p.k = 1; p.k == 1 || p.t.hits > 0; p.k++) {
        ms_store *store;
        ms_log_desc desc = plain_desc("log.msl", MS_ENGINE_AUTO);
        told_begin(state);
        disk_load(&drive, bytes, sizeof bytes);
        trap_set(&p, TRIP_BIT(READ));
        desc.os = &told;
        ms_result code = ms_log_open(&store, &desc, NULL);
        assert_int_equal(code, p.t.hits > 0 ? MS_E_IO : MS_E_FOREIGN);
        drive.locked = false;
        disk_is_idle(&drive);
    }
}

/* An exclusive writer was here, or a flipped bit has led the watermark beyond the end of
 * the file: the shared writer has to look at the file, which fails. */
static void shared_append_fails_when_the_file_cannot_be_looked_at(void **state)
{
    ms_envelope m = ms_user_message(ms_text("words"));
    for (int mark = 0; mark < 2; mark++) {
        trap p = {0};
        for (p.k = 1; p.k == 1 || p.t.hits > 0; p.k++) {
            ms_log_desc desc = plain_desc("", MS_ENGINE_AUTO);
            ms_log_info info;
            ms_error err;
            told_begin(state);
            desc.shared = true;
            trap_set(&p, TRIP_BIT(STAT));
            p.t.at = 0;
            ms_store *one = open_told(&desc), *two = open_told(&desc);
            say_some(one, 20);
            if (mark == 1)
                ms__store_mark(drive.rw + MS__AT_MARK, file_padded(drive.size) + 8192);
            else ms__put64(drive.rw + MS__AT_BUSY, UINT64_MAX);
            p.t.calls = 0;
            p.t.at = p.k;
            ms_result code = ms_append(two, MS_STR("here"), &m, NULL, &err);
            if (code == MS_OK) code = ms_append(one, MS_STR("here"), &m, NULL, &err);
            if (p.t.hits == 0) assert_int_equal(code, MS_OK);
            if (code != MS_OK) assert_int_equal(code, MS_E_IO);
            if (code != MS_OK) assert_non_null(strstr(err.message, "looking at"));
            p.t.at = 0;
            say_some(two, 3);
            say_some(one, 3);
            assert_int_equal(ms_log_stat(one, &info, NULL), MS_OK);
            if (mark == 0) assert_int_equal(ms_selfcheck(two, NULL), MS_OK);
            else assert_true(info.damaged > 0);
            ms_close(two);
            ms_close(one);
            disk_is_idle(&drive);
        }
    }
}

#define TEST(test) cmocka_unit_test_setup(test, told_begin)

int main(void)
{
    const struct CMUnitTest others[] = {
        WITH_EACH_ENGINE(append_is_whole_or_refused_when_a_file_may_not_grow),
        cmocka_unit_test(durable_messages_stay_when_recovery_fails),
        TEST(log_is_opened_again_when_it_goes_before_the_lock),
        TEST(sync_returns_a_code_that_fits_when_the_folder_fails),
        TEST(log_is_written_not_mapped_when_the_disk_makes_no_room),
        TEST(log_asks_for_what_it_needs_when_a_quota_refuses_more),
        TEST(tick_makes_room_up_to_the_limit_when_a_file_may_not_grow),
        TEST(segment_is_not_sealed_when_there_is_no_room_for_the_next),
        TEST(open_fails_when_a_head_cannot_be_read_again),
        TEST(shared_append_fails_when_the_file_cannot_be_looked_at),
        WITH_EACH_ENGINE(append_is_whole_or_refused_when_the_file_system_is_full),
    };
    scribe_page();
    disk_init(&drive, 16 << 20);
    int failed =
        run_faults("fault_io", false, others, sizeof others / sizeof others[0]);
    disk_deinit(&drive);
    printf("tally: fault points (file operations) %llu\n",
           (unsigned long long)file_faults);
    printf("tally: compound faults %llu\n", (unsigned long long)compound_faults);
    return failed;
}
