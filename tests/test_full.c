/* Disks that are full, file operations that fail, memory that runs out.
 *
 *   - a real file system of 1 MiB with every number of free pages (as root, in a private
 *     mount namespace; else skipped), and a limit on the size of a file;
 *   - a script of the public operations, run once for each file operation in it, which
 *     then fails, alone or with all after it, with each of a list of errors; once for
 *     each write, which is then cut short at each length; once for each allocation.
 *
 * What failed must say so with a code, leave the messages as before and nothing open or
 * allocated behind, and work when the trouble is over. A failed sync is final for its
 * handle: appends and syncs are refused, reading goes on, opening anew works.
 *
 * At MS_TEST_SCALE=100 every tenth number of free pages, one error per file operation in
 * turn, a third of the short writes and a few lengths of each; at 1000 all of them.
 */

#define _GNU_SOURCE
#include "logs.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

static ms_log_engine engines[] = {MS_ENGINE_MAP, MS_ENGINE_WRITE};

#define WITH_EACH_ENGINE(test)                                    \
    {#test " (map)", test, NULL, NULL, &engines[0]},              \
    {#test " (write)", test, NULL, NULL, &engines[1]}

/* One in how many cases is tried, when `all` of them are at MS_TEST_SCALE=1000. */
static size_t stride_of(size_t all)
{
    size_t scale = test_scale();
    return scale >= 1000 ? 1 : all * 100 / scale;
}

static ms_log_desc desc_of(const char *path, ms_log_engine engine)
{
    ms_log_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.path = path;
    desc.mode = MS_LOG_CREATE;
    desc.engine = engine;
    desc.segment_size = MS_LOG_SEGMENT_MIN;
    desc.keep_unset_times = true;
    return desc;
}

/* There must be just the messages up to `last`. */
static void must_hold(const scribe *s, ms_store *store, uint64_t last, const char *when)
{
    tally t;
    if (!scribe_read(s, store, false, NULL, &t)) fail_msg("%s: %s", when, t.wrong);
    if (t.result != MS_OK) fail_msg("%s: cursor: %s", when, ms_result_text(t.result));
    if (t.last != last)
        fail_msg("%s: %llu messages instead of %llu", when, (unsigned long long)t.last,
                 (unsigned long long)last);
}

/* The same through a handle of its own, and through ms_log_verify. */
static void file_must_hold(const scribe *s, const char *path, uint64_t last,
                           const char *when)
{
    ms_log_desc desc = desc_of(path, MS_ENGINE_AUTO);
    ms_log_report report;
    ms_store *store;
    ms_error err;
    desc.mode = MS_LOG_READ;
    if (ms_log_open(&store, &desc, &err) != MS_OK) fail_msg("%s: %s", when, err.message);
    must_hold(s, store, last, when);
    ms_close(store);
    if (ms_log_verify(&desc, &report, &err) != MS_OK)
        fail_msg("%s: verify: %s", when, err.message);
    assert_int_equal(report.messages, last);
}


/* ---- a file system of 1 MiB ---- */

enum { PAGES = 256, PAGE = 4096 };

/* From here on this process has its own mounts. */
static bool own_mounts(void)
{
    static int known;
    if (known == 0)
        known = unshare(CLONE_NEWNS) == 0 &&
                        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0
                    ? 1
                    : 2;
    return known == 1;
}

/* Leaves so many pages free, none where a log stands there already and takes more. */
static void fill_but(const char *path, size_t pages)
{
    static const char page[PAGE];
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0) abort();
    for (size_t i = 0; i < PAGES - pages; i++)
        if (write(fd, page, PAGE) != PAGE) {
            if (errno != ENOSPC) abort();
            break;
        }
    close(fd);
}

static bool is_full(ms_result result, const ms_error *err)
{
    if (result == MS_E_FULL) return true;
    return result == MS_E_IO && (err->sys_errno == ENOSPC || err->sys_errno == EFBIG);
}

/* Appends until there is no room, at most 2 MiB. */
static void append_until_full(const scribe *s, ms_store *store, uint64_t *last,
                              const char *when)
{
    ms_result result = MS_OK;
    for (size_t refused = 0, tried = 0; refused < 4 && tried < 6000; tried++) {
        size_t count;
        ms_error err;
        result = scribe_append(s, store, *last + 1, NULL, &count, &err);
        if (result == MS_OK) *last += count;
        else if (!is_full(result, &err)) fail_msg("%s: %s", when, err.message);
        if (tried % 64 == 63 || result != MS_OK) {
            ms_result tick = ms_tick(store, 50, &err);
            if (tick != MS_OK && !is_full(tick, &err))
                fail_msg("%s: tick: %s", when, err.message);
        }
        refused += result != MS_OK;
    }
    if (result == MS_OK) fail_msg("%s: it is never full", when);
}

static void one_full_disk(const char *folder, size_t pages, ms_log_engine engine,
                          ms_sync_mode sync)
{
    char path[320], other[320], when[80];
    scribe s = {test_seed() + pages, 6000};
    ms_log_desc desc = desc_of(path, engine);
    ms_store *store;
    ms_error err;
    uint64_t last = 0, before;
    snprintf(path, sizeof path, "%s/log.msl", folder);
    snprintf(other, sizeof other, "%s/other", folder);
    snprintf(when, sizeof when, "%zu free pages", pages);
    desc.sync = sync;
    fill_but(other, pages);
    ms_result result = ms_log_open(&store, &desc, &err);
    if (result != MS_OK) {
        if (!is_full(result, &err)) fail_msg("%s: open: %s", when, err.message);
        if (pages > 64) fail_msg("%s are not enough for an empty log", when);
        assert_null(store);
        unlink(other);
        if (ms_log_open(&store, &desc, &err) != MS_OK)
            fail_msg("%s, open after there is room: %s", when, err.message);
        fill_but(other, pages);
    }
    append_until_full(&s, store, &last, when);
    must_hold(&s, store, last, when);
    file_must_hold(&s, path, last, when);
    unlink(other);
    before = last;
    for (int i = 0; i < 20; i++) {
        size_t count;
        if (scribe_append(&s, store, last + 1, NULL, &count, &err) != MS_OK)
            fail_msg("%s, append after there is room: %s", when, err.message);
        last += count;
        if (last > before + 60 || pages > 200) break;
    }
    must_hold(&s, store, last, when);
    if (pages % 3 != 0) assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
    ms_close(store);
    file_must_hold(&s, path, last, when);
    unlink(path);
}

static void a_full_file_system(void **state)
{
    char folder[300];
    const ms_log_engine *engine = (const ms_log_engine *)*state;
    folder_make(folder, sizeof folder);
    bool can = own_mounts() &&
               mount("none", folder, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m") == 0;
    if (!can) {
        printf("skipped: mounting is not permitted\n");
        folder_remove(folder);
        skip();
    }
    size_t stride = stride_of(10);
    for (size_t pages = test_seed() % (stride < PAGES ? stride : PAGES); pages < PAGES;
         pages += stride) {
        one_full_disk(folder, pages, *engine, MS_SYNC_NONE);
        one_full_disk(folder, pages, *engine, MS_SYNC_EACH);
    }
    umount(folder);
    folder_remove(folder);
}

/* The system's limit on the size of a file: EFBIG, when the signal is ignored. */
static void a_limit_on_the_size_of_a_file(void **state)
{
    char folder[300], path[320];
    const ms_log_engine *engine = (const ms_log_engine *)*state;
    const ms_os os = os_without_sync();
    struct rlimit old, limit;
    folder_make(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/log.msl", folder);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    fflush(stdout);
    for (rlim_t size = 0; size < 600000; size += 1000 + (rlim_t)stride_of(700)) {
        char when[80];
        scribe s = {test_seed() + size, 6000};
        ms_log_desc desc = desc_of(path, *engine);
        desc.os = &os;
        ms_store *store;
        ms_error err;
        uint64_t last = 0;
        snprintf(when, sizeof when, "files of up to %llu bytes",
                 (unsigned long long)size);
        limit = old;
        limit.rlim_cur = size;
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) abort();
        ms_result result = ms_log_open(&store, &desc, &err);
        if (result == MS_OK) append_until_full(&s, store, &last, when);
        setrlimit(RLIMIT_FSIZE, &old);
        if (result != MS_OK && !is_full(result, &err))
            fail_msg("%s: open: %s", when, err.message);
        if (result != MS_OK && ms_log_open(&store, &desc, &err) != MS_OK)
            fail_msg("%s, open without: %s", when, err.message);
        must_hold(&s, store, last, when);
        file_must_hold(&s, path, last, when);
        size_t count;
        assert_int_equal(scribe_append(&s, store, last + 1, NULL, &count, &err), MS_OK);
        last += count;
        ms_close(store);
        file_must_hold(&s, path, last, when);
        unlink(path);
    }
    signal(SIGXFSZ, SIG_DFL);
    folder_remove(folder);
}


/* ---- a script under trouble ---- */

typedef struct script {
    disk d;
    trip t;
    test_alloc heap;
    scribe s;
    ms_store *store;
    ms_log_engine engine;
    ms_sync_mode sync;
    uint64_t last;            /* messages whose append has returned MS_OK */
    uint64_t unsure;          /* an append failed after a sync had: perhaps there, up to
                                 this number */
    bool poisoned;
    const char *op;
    char when[120];
} script;

static const int errors[] = {EIO,    ENOSPC, EDQUOT, EACCES, EROFS, ENOMEM,
                             EMFILE, EFBIG,  EAGAIN, EINVAL, EOPNOTSUPP};
enum { ERRORS = (int)(sizeof errors / sizeof errors[0]) };

static ms_log_desc script_desc(script *s)
{
    ms_log_desc desc = desc_of("log.msl", s->engine);
    desc.sync = s->sync;
    desc.os = &s->t.os;
    desc.alloc = s->heap.alloc;
    return desc;
}

static ms_result op_open(script *s, ms_error *err)
{
    ms_log_desc desc = script_desc(s);
    ms_result result = ms_log_open(&s->store, &desc, err);
    if (result != MS_OK && s->store != NULL) fail_msg("%s: a store is left", s->when);
    return result;
}

static ms_result op_append(script *s, ms_error *err)
{
    size_t count;
    ms_result result = scribe_append(&s->s, s->store, s->last + 1, NULL, &count, err);
    if (result == MS_OK) s->last += count;
    else s->unsure = s->last + count;
    return result;
}

static ms_result op_sync(script *s, ms_error *err)
{
    return ms_sync(s->store, NULL, err);
}

static ms_result op_tick(script *s, ms_error *err)
{
    return ms_tick(s->store, 1000, err);
}

static ms_result op_refresh(script *s, ms_error *err)
{
    return test_refresh(s->store, NULL, err);
}

/* Whatever a query gives is right, and all is there when it says MS_OK. */
static ms_result op_read(script *s, ms_error *err)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    tally t;
    memset(&q, 0, sizeof q);
    memset(&t, 0, sizeof t);
    ms_result result = ms_query_open(s->store, &q, &it, err);
    if (result != MS_OK) return result;
    while ((msg = ms_next(&it)) != NULL)
        if (!tally_add(&t, &s->s, msg, false, NULL)) fail_msg("%s: %s", s->when, t.wrong);
    result = ms_cursor_close(&it, err);
    if (result == MS_OK && t.last < s->last) fail_msg("%s: a short reading", s->when);
    return result;
}

static ms_result op_list(script *s, ms_error *err)
{
    ms_list_query q;
    ms_listing listing;
    ms_arena arena;
    memset(&q, 0, sizeof q);
    test_arena_init(&arena, &s->heap.alloc);
    ms_result result = ms_list(s->store, &q, &arena, &listing, err);
    ms_arena_deinit(&arena);
    return result;
}

static ms_result op_get(script *s, ms_error *err)
{
    const ms_msg *msg;
    ms_arena arena;
    test_arena_init(&arena, &s->heap.alloc);
    ms_result result = ms_get_by_seq(s->store, 1, &arena, &msg, err);
    if (result == MS_OK) assert_int_equal(ms_seq(msg), 1);
    ms_arena_deinit(&arena);
    return result;
}

static ms_result op_stat(script *s, ms_error *err)
{
    ms_log_info info;
    ms_result result = ms_log_stat(s->store, &info, err);
    if (result == MS_OK && info.memory != s->heap.live_bytes)
        fail_msg("%s: it says %llu bytes of memory, and has %zu", s->when,
                 (unsigned long long)info.memory, s->heap.live_bytes);
    return result;
}

static ms_result op_verify(script *s, ms_error *err)
{
    ms_log_desc desc = script_desc(s);
    ms_log_report report;
    ms_result result = ms_log_verify(&desc, &report, err);
    if (result == MS_OK) assert_true(report.messages >= s->last);
    return result;
}

static ms_result op_close(script *s, ms_error *err)
{
    (void)err;
    ms_close(s->store);
    s->store = NULL;
    return MS_OK;
}

/* A reader beside it. */
static ms_result op_reader(script *s, ms_error *err)
{
    ms_log_desc desc = script_desc(s);
    ms_store *reader;
    desc.mode = MS_LOG_READ;
    ms_result result = ms_log_open(&reader, &desc, err);
    if (result != MS_OK) return result;
    ms_store *writer = s->store;
    s->store = reader;
    result = op_read(s, err);
    if (result == MS_OK) result = op_list(s, err);
    s->store = writer;
    ms_close(reader);
    return result;
}

static const struct operation {
    const char *name;
    int times;
    ms_result (*run)(script *s, ms_error *err);
} operations[] = {
    {"open", 1, op_open},         {"append", 25, op_append},
    {"sync", 1, op_sync},         {"append", 15, op_append},
    {"tick", 3, op_tick},         {"read", 1, op_read},
    {"list", 1, op_list},         {"get", 1, op_get},
    {"stat", 1, op_stat},         {"reader", 1, op_reader},
    {"close", 1, op_close},       {"verify", 1, op_verify},
    {"open again", 1, op_open},   {"read again", 1, op_read},
    {"append again", 30, op_append}, {"refresh", 1, op_refresh},
    {"sync again", 1, op_sync},   {"list again", 1, op_list},
    {"stat again", 1, op_stat},   {"close again", 1, op_close},
    {"open at last", 1, op_open}, {"read at last", 1, op_read},
    {"close at last", 1, op_close},
};

/* What is there must be right; what is not sure any more is looked up. */
static void must_be_as_before(script *s)
{
    tally t;
    if (!scribe_read(&s->s, s->store, false, NULL, &t))
        fail_msg("%s, then: %s", s->when, t.wrong);
    if (t.result != MS_OK)
        fail_msg("%s, then a cursor: %s", s->when, ms_result_text(t.result));
    if (t.last != s->last && !(s->poisoned && t.last == s->unsure))
        fail_msg("%s: %llu messages instead of %llu", s->when, (unsigned long long)t.last,
                 (unsigned long long)s->last);
}

/* A poisoned handle refuses to append and to sync, reads, and can be opened anew. */
static void must_be_poisoned(script *s)
{
    ms_log_info info;
    ms_error err;
    uint64_t unsure = s->unsure, last = s->last;
    assert_int_equal(ms_log_stat(s->store, &info, NULL), MS_OK);
    assert_true(info.poisoned);
    if (op_append(s, &err) != MS_E_POISONED)
        fail_msg("%s, then an append is not refused", s->when);
    s->unsure = unsure;
    if (op_sync(s, &err) != MS_E_POISONED)
        fail_msg("%s, then a sync is not refused", s->when);
    assert_int_equal(s->last, last);
    must_be_as_before(s);
    op_close(s, NULL);
    if (op_open(s, &err) != MS_OK) fail_msg("%s, then open: %s", s->when, err.message);
    must_be_as_before(s);
    tally t;
    scribe_read(&s->s, s->store, false, NULL, &t);
    s->last = t.last;
    s->poisoned = false;
}

static bool is_expected(const script *s, ms_result result, const ms_error *err)
{
    switch (result) {
    case MS_E_NO_MEMORY:
    case MS_E_ARENA: return s->heap.failed != 0 || s->t.code == ENOMEM;
    case MS_E_FULL:
        return s->t.code == ENOSPC || s->t.code == EDQUOT || s->t.code == EFBIG;
    case MS_E_BUSY: return s->t.code == EAGAIN;
    case MS_E_IO:
    case MS_E_POISONED:
        return s->t.how == TRIP_SHORT || err->sys_errno == s->t.code ||
               err->sys_errno == EIO;
    default: return false;
    }
}

static void run_operation(script *s, const struct operation *op)
{
    ms_error err;
    uint64_t hits = s->t.hits + s->heap.failed;
    memset(&err, 0, sizeof err);
    s->op = op->name;
    snprintf(s->when, sizeof s->when, "%s with trouble %d at call %llu%s (%s) or at "
             "allocation %zu", op->name, s->t.code, (unsigned long long)s->t.at,
             s->t.from ? " and after" : "", trip_word((int)s->t.last_hit),
             s->heap.fail_at);
    ms_result result = op->run(s, &err);
    if (s->t.hits + s->heap.failed == hits && result == MS_OK) return;
    if (result != MS_OK) assert_int_equal(err.code, result);
    snprintf(s->when, sizeof s->when, "%s with trouble %d at call %llu%s (%s) or at "
             "allocation %zu", op->name, s->t.code, (unsigned long long)s->t.at,
             s->t.from ? " and after" : "", trip_word((int)s->t.last_hit),
             s->heap.fail_at);
    if (result != MS_OK && s->t.hits + s->heap.failed == hits)
        fail_msg("%s: without trouble: %s", s->when, err.message);
    if (result != MS_OK && s->t.code == EINTR)
        fail_msg("%s: an interrupt: %s", s->when, err.message);
    if (result != MS_OK && !is_expected(s, result, &err))
        fail_msg("%s: %s: %s", s->when, ms_result_text(result), err.message);
    s->t.at = 0;
    s->heap.fail_at = 0;
    ms_log_info info;
    if (s->store != NULL && ms_log_stat(s->store, &info, NULL) == MS_OK)
        s->poisoned = info.poisoned;
    /* a checkpoint that cannot be written is as bad as one that is not synced */
    bool checkpoint = s->t.last_hit == CALL_WRITE && result == MS_E_POISONED;
    if (s->poisoned && !checkpoint && s->t.last_hit != CALL_SYNC &&
        s->t.last_hit != CALL_SYNC_FOLDER && s->t.how == TRIP_FAIL && !s->t.from)
        fail_msg("%s: it is poisoned without a sync that failed", s->when);
    if (result != MS_OK && result != MS_E_POISONED) s->unsure = s->last;
    if (s->store != NULL) must_be_as_before(s);
    if (s->poisoned) must_be_poisoned(s);
    if (result == MS_OK) return;
    if ((result = op->run(s, &err)) != MS_OK)
        fail_msg("%s, then again: %s", s->when, err.message);
    if (s->store != NULL) must_be_as_before(s);
}

/* Runs the script; the trouble was set before. True when it came to its end without. */
static bool run_script(script *s)
{
    s->last = s->unsure = 0;
    s->poisoned = false;
    disk_clear(&s->d);
    s->d.inode++;
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++)
        for (int k = 0; k < operations[i].times; k++) run_operation(s, &operations[i]);
    if (s->t.files != 0 || s->t.maps != 0)
        fail_msg("%s: %d files and %d maps are left open", s->when, s->t.files,
                 s->t.maps);
    disk_is_idle(&s->d);
    test_alloc_done(&s->heap);
    return s->t.hits + s->heap.failed == 0;
}

static void script_reset(script *s)
{
    trip_init(&s->t, &s->d.os);
    test_alloc_init(&s->heap);
}

static script *script_new(void **state)
{
    script *s = (script *)calloc(1, sizeof *s);
    if (s == NULL) abort();
    disk_init(&s->d, (size_t)16 << 20);
    s->engine = *(const ms_log_engine *)*state;
    s->s.salt = test_seed();
    s->s.longest = 900;
    return s;
}

static void script_free(script *s)
{
    disk_deinit(&s->d);
    free(s);
}

/* Each file operation fails, alone or with all after it. */
static void fail_each_call(script *s, bool from)
{
    size_t all = stride_of(10), k = 1, runs = 0;
    bool done = false;
    for (; !done; k += all > 10 ? all / 10 : 1) {
        for (size_t i = 0; i < (all > 1 ? 1 : ERRORS) && !done; i++, runs++) {
            script_reset(s);
            s->t.how = TRIP_FAIL;
            s->t.at = k;
            s->t.from = from;
            s->t.code = errors[(k + i + test_seed()) % ERRORS];
            done = run_script(s);
        }
    }
    printf("the last file operation was number %zu\n", k - 2);
    test_tally("fault points (file operations)", runs);
}

static void each_file_operation_fails(void **state)
{
    script *s = script_new(state);
    for (int sync = 0; sync < 2; sync++) {
        s->sync = sync == 0 ? MS_SYNC_NONE : MS_SYNC_EACH;
        fail_each_call(s, false);
        fail_each_call(s, true);
    }
    script_free(s);
}

/* Each sync fails with EIO, and each one is looked at: no stride. */
static void each_sync_fails(void **state)
{
    script *s = script_new(state);
    for (int i = 0; i < 4; i++) {
        bool done = false;
        s->sync = i < 2 ? MS_SYNC_NONE : MS_SYNC_EACH;
        for (size_t k = 1; !done; k++) {
            script_reset(s);
            s->t.how = TRIP_FAIL;
            s->t.kinds = TRIP_BIT(SYNC);
            s->t.at = k;
            s->t.from = i % 2 == 1;
            s->t.code = k % 2 ? EIO : ENOSPC;
            done = run_script(s);
        }
    }
    script_free(s);
}

/* EINTR comes a few times, then the operation works: no call may fail for it that can
 * just be done again. */
static void interrupted_calls_are_repeated(void **state)
{
    script *s = script_new(state);
    bool done = false;
    for (size_t k = 1; !done; k++) {
        script_reset(s);
        s->t.how = TRIP_FAIL;
        s->t.kinds = TRIP_BIT(READ) | TRIP_BIT(WRITE) | TRIP_BIT(ALLOCATE) |
                     TRIP_BIT(SYNC) | TRIP_BIT(SYNC_FOLDER) | TRIP_BIT(LOCK);
        s->t.at = k;
        s->t.code = EINTR;
        done = run_script(s);
    }
    script_free(s);
}

/* Each write and read does only a part, once or always: the rest follows. */
static void short_writes_and_reads_are_completed(void **state)
{
    script *s = script_new(state);
    size_t stride = stride_of(10), calls = stride > 1 ? stride / 5 + 1 : 1;
    size_t step = stride > 1 ? stride * 13 + 1 : 1;
    for (int from = 0; from < 2; from++) {
        bool done = false;
        for (size_t k = 1 + test_seed() % 3; !done; k += calls) {
            for (size_t bytes = 1; bytes < 1000; bytes += step) {
                script_reset(s);
                s->t.how = TRIP_SHORT;
                s->t.kinds = TRIP_BIT(WRITE) | TRIP_BIT(READ);
                s->t.at = k;
                s->t.from = from == 1;
                s->t.bytes = bytes;
                done = run_script(s);
            }
        }
    }
    script_free(s);
}

/* Each write does a part and fails then: nothing of it may be seen. */
static void writes_that_fail_in_the_middle(void **state)
{
    script *s = script_new(state);
    size_t stride = stride_of(8);
    for (int from = 0; from < 2; from++) {
        bool done = false;
        for (size_t k = 1; !done; k += stride > 8 ? stride / 8 : 1) {
            for (size_t bytes = 1 + k % 8; bytes < 1000; bytes += 40 * stride) {
                script_reset(s);
                s->t.how = TRIP_FAIL_HALF;
                s->t.kinds = TRIP_BIT(WRITE);
                s->t.at = k;
                s->t.from = from == 1;
                s->t.code = k % 2 ? ENOSPC : EIO;
                s->t.bytes = bytes;
                done = run_script(s);
            }
        }
    }
    script_free(s);
}

/* Each allocation fails, alone or with all after it. */
static void each_allocation_fails(void **state)
{
    script *s = script_new(state);
    size_t stride = test_scale() < 100 ? 100 / test_scale() : 1, last = 0, runs = 0;
    for (int from = 0; from < 2; from++) {
        bool done = false;
        for (size_t k = 1 + test_seed() % stride; !done; k += stride, runs++) {
            script_reset(s);
            s->heap.fail_at = last = k;
            s->heap.fail_from = from == 1;
            done = run_script(s);
        }
    }
    printf("the last allocation was number %zu\n", last - stride);
    test_tally("fault points (allocations)", runs);
    script_free(s);
}


/* ---- rewriting under trouble ---- */

typedef struct rewriting {
    char folder[300], path[320];
    scribe s;
    uint64_t last;
    test_alloc heap;
    trip t;
} rewriting;

static ms_store *rewriting_source(rewriting *r)
{
    ms_log_desc desc = desc_of(r->path, MS_ENGINE_AUTO);
    ms_store *store;
    ms_error err;
    desc.mode = MS_LOG_READ;
    if (ms_log_open(&store, &desc, &err) != MS_OK) fail_msg("%s", err.message);
    return store;
}

/* Whatever failed, the path has a whole log, and nothing else is left in the folder. */
static bool rewrite_once(rewriting *r)
{
    char when[120];
    ms_error err;
    ms_log_desc to = desc_of(r->path, MS_ENGINE_AUTO);
    ms_store *source = rewriting_source(r);
    to.os = &r->t.os;
    to.alloc = r->heap.alloc;
    ms_result result = ms_log_rewrite(source, &to, true, NULL, NULL, &err);
    snprintf(when, sizeof when, "rewriting with trouble %d at call %llu%s (%s), "
             "allocation %zu", r->t.code, (unsigned long long)r->t.at,
             r->t.from ? " and after" : "", trip_word((int)r->t.last_hit),
             r->heap.fail_at);
    ms_close(source);
    bool untouched = r->t.hits + r->heap.failed == 0;
    if (untouched && result != MS_OK) fail_msg("%s: %s", when, err.message);
    file_must_hold(&r->s, r->path, r->last, when);
    bool kept = r->t.hits != 0 && (r->t.from || r->t.last_hit == CALL_REMOVE);
    if (!kept && folder_count(r->folder) != 1) fail_msg("%s: a file is left over", when);
    assert_int_equal(r->t.files, 0);
    assert_int_equal(r->t.maps, 0);
    test_alloc_done(&r->heap);
    return untouched;
}

static void rewriting_fails(void **state)
{
    rewriting r;
    ms_os below = os_without_sync();
    (void)state;
    memset(&r, 0, sizeof r);
    folder_make(r.folder, sizeof r.folder);
    snprintf(r.path, sizeof r.path, "%s/log.msl", r.folder);
    r.s.salt = test_seed();
    r.s.longest = 900;
    ms_log_desc desc = desc_of(r.path, MS_ENGINE_AUTO);
    ms_store *store;
    assert_int_equal(ms_log_open(&store, &desc, NULL), MS_OK);
    for (int i = 0; i < 40; i++) {
        size_t count;
        assert_int_equal(scribe_append(&r.s, store, r.last + 1, NULL, &count, NULL),
                         MS_OK);
        r.last += count;
    }
    ms_close(store);
    size_t stride = test_scale() < 100 ? 100 / test_scale() : 1;
    for (int i = 0; i < 4; i++) {
        bool done = false;
        for (size_t k = 1 + test_seed() % stride; !done; k += stride) {
            trip_init(&r.t, &below);
            test_alloc_init(&r.heap);
            r.t.how = TRIP_FAIL;
            if (i < 2) r.t.at = k;
            else r.heap.fail_at = k;
            r.t.from = r.heap.fail_from = i % 2 == 1;
            r.t.code = errors[k % ERRORS];
            done = rewrite_once(&r);
            folder_empty_but(r.folder, "log.msl");
        }
    }
    folder_remove(r.folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_EACH_ENGINE(a_full_file_system),
        WITH_EACH_ENGINE(a_limit_on_the_size_of_a_file),
        WITH_EACH_ENGINE(each_file_operation_fails),
        WITH_EACH_ENGINE(each_sync_fails),
        WITH_EACH_ENGINE(interrupted_calls_are_repeated),
        WITH_EACH_ENGINE(short_writes_and_reads_are_completed),
        WITH_EACH_ENGINE(writes_that_fail_in_the_middle),
        WITH_EACH_ENGINE(each_allocation_fails),
        cmocka_unit_test(rewriting_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
