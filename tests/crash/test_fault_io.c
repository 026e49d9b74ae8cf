/* File operations that fail, and disks that are full.
 *
 *   - The operations of fault.h with each of their calls failing, interrupted, short.
 *   - A file system of 1 MiB with every number of free pages (as root, in a private mount
 *     namespace; else skipped), and a limit on the size of a file: appends fail with a
 *     code until there is room, and lose nothing. Holes of a sparse copy are read there.
 *   - A crash has left a torn end, or lost what was not synced, or left half of a
 *     rewritten log; while that is put right a call or an allocation fails. Afterwards
 *     all that was durable is there.
 *
 * Single calls that fail, by name, are in scripts/log and in test_log_state.
 *
 * At MS_TEST_SCALE=100 each call fails with one error, every fifth number of free pages,
 * 700 compound faults; at 1000 every error for every call, 10,000 compound faults.
 */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"
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
    char *folder, *path, *other;
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

/* A write beyond the limit would end the process: by SIGXFSZ. */
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

static limit limit_of(void (*set)(const limit *l, bool on), size_t enough, uint64_t more)
{
    limit l = {.set = set, .enough = enough, .more = more, .folder = scratch_folder()};
    l.path = scratch_file(l.folder, "log.msl");
    l.other = scratch_file(l.folder, "other");
    return l;
}

static void limit_free(limit *l)
{
    scratch_remove(l->folder);
    free(l->folder);
    free(l->path);
    free(l->other);
}

static size_t one_in(size_t all)
{
    return test_scale() >= 1000 ? 1 : all * 100 / test_scale();
}

/* Mounts the file system of a limit. False: that is not permitted. */
static bool limit_mount(const limit *l)
{
    bool mounted = unshare(CLONE_NEWNS) == 0 &&
                   mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                   mount("none", l->folder, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m") == 0;
    if (!mounted) printf("skipped: mounting is not permitted\n");
    return mounted;
}

static void append_is_whole_or_refused_when_the_file_system_is_full(void **state)
{
    limit l = limit_of(limit_pages, 65, 1);
    bool mounted = limit_mount(&l);
    if (mounted)
        grow_to_limits(&l, *(const ms_log_engine *)*state, NULL, (one_in(10) + 1) / 2,
                       PAGES - 8); /* the last append needs some */
    if (mounted) umount(l.folder);
    limit_free(&l);
    if (!mounted) skip();
}

/* Makes holes of the pages of a file that are zeros, as a sparse copy has them. Returns
 * how many. */
static size_t dig(const char *path)
{
    static const char zeros[PAGE];
    char page[PAGE];
    size_t holes = 0;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    for (off_t at = 0; pread(fd, page, PAGE, at) == PAGE; at += PAGE) {
        if (memcmp(page, zeros, PAGE) != 0) continue;
        assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, PAGE),
                         0);
        holes++;
    }
    close(fd);
    return holes;
}

/* A text of zeros, and what follows the last message, are holes. No page is free for a map
 * of them. */
static void holes_are_read(const limit *l)
{
    static char zeros[30 * PAGE];
    ms_log_desc desc = plain_desc(l->path, MS_ENGINE_AUTO);
    ms_log_report report;
    ms_store *store;
    ms_cursor it;
    const ms_msg *msg;
    size_t n = 0, bytes = 0;
    ms_envelope m = ms_user_message(ms_text_n(ms_str_n(zeros, sizeof zeros)));
    assert_int_equal(ms_log_open(&store, &desc, NULL), MS_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ms_append(store, MS_STR("room"), &m, NULL, NULL), MS_OK);
    assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
    ms_close(store);
    assert_int_equal(truncate(l->path, 100 * PAGE), 0);
    assert_true(dig(l->path) > 80);
    l->set(l, true);
    desc.mode = MS_LOG_READ;
    const ms_query all = {0};
    assert_int_equal(ms_log_open(&store, &desc, NULL), MS_OK);
    assert_int_equal(ms_query_open(store, &all, &it, NULL), MS_OK);
    for (; (msg = ms_next(&it)) != NULL; n++) {
        ms_str shown = ms_content(msg).text;
        for (size_t i = 0; i < shown.len; i++) bytes += shown.ptr[i] == 0;
    }
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    assert_int_equal(n, 3);
    assert_int_equal(bytes, 3 * sizeof zeros);
    assert_int_equal(ms_log_verify(&desc, &report, NULL), MS_OK);
    ms_close(store);
    l->set(l, false);
}

static void holes_of_a_log_are_read_when_the_file_system_is_full(void **state)
{
    limit l = limit_of(limit_pages, 0, 0);
    (void)state;
    bool mounted = limit_mount(&l);
    if (mounted) holes_are_read(&l);
    if (mounted) umount(l.folder);
    limit_free(&l);
    if (!mounted) skip();
}

static void append_is_whole_or_refused_when_a_file_may_not_grow(void **state)
{
    const ms_os os = os_without_sync();
    limit l = limit_of(limit_size, 65 * PAGE, 60);
    grow_to_limits(&l, *(const ms_log_engine *)*state, &os, 1000 + one_in(700), 600000);
    limit_free(&l);
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
    size_t from = k->durable_end < FILE_SUPERBLOCK ? FILE_SUPERBLOCK : k->durable_end;
    size_t at = from + (size_t)test_below(&k->rng, k->size - from + 1);
    char part[400];
    scratch_empty(w->folder);
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
    static const mode call = {"", false, OS_FAULT_FAIL, OS_FAULT_ALL, false, 0};
    static const mode memory = {"", true, OS_FAULT_NONE, 0, false, 0};
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
    scratch_empty(w->folder);
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

int main(void)
{
    const struct CMUnitTest others[] = {
        WITH_EACH_ENGINE(append_is_whole_or_refused_when_a_file_may_not_grow),
        cmocka_unit_test(durable_messages_stay_when_recovery_fails),
        WITH_EACH_ENGINE(append_is_whole_or_refused_when_the_file_system_is_full),
        cmocka_unit_test(holes_of_a_log_are_read_when_the_file_system_is_full),
    };
    scribe_page();
    int failed =
        run_faults("fault_io", false, others, sizeof others / sizeof others[0]);
    printf("tally: fault points (file operations) %llu\n",
           (unsigned long long)file_faults);
    printf("tally: compound faults %llu\n", (unsigned long long)compound_faults);
    return failed;
}
