/* Log files and the system around them: what is opened and what is refused, who holds the
 * lock, processes that fork, media that cannot be written, system calls that fail. And
 * the bytes: kept files, in tests/golden, of this version and of one that is refused;
 * files built by hand; and a reader of its own for files that the library wrote.
 *
 *     test_log_files --write [FOLDER]     makes the files of tests/golden anew
 */

#define _GNU_SOURCE
#include "stores.h"
#include "logs.h"
#include "twin.h"

#include <pthread.h>


/* ---- helpers ---- */

/* The bytes of a file and what else must not change when it is refused. */
typedef struct snapshot {
    char *bytes;
    size_t size;
    struct stat about;
    size_t files;
} snapshot;

static snapshot take(const test_store *s)
{
    snapshot shot;
    assert_int_equal(stat(s->path, &shot.about), 0);
    shot.bytes = S_ISREG(shot.about.st_mode) ? read_file(s->path, &shot.size) : NULL;
    shot.files = files_in(s->folder);
    return shot;
}

static void nothing_changed(const char *what, const test_store *s, snapshot *before)
{
    snapshot now = take(s);
    if (now.about.st_size != before->about.st_size) fail_msg("%s: another size", what);
    if (now.about.st_mode != before->about.st_mode) fail_msg("%s: another mode", what);
    if (now.about.st_mtim.tv_sec != before->about.st_mtim.tv_sec ||
        now.about.st_mtim.tv_nsec != before->about.st_mtim.tv_nsec)
        fail_msg("%s: it was written to", what);
    if (now.files != before->files) fail_msg("%s: files beside it", what);
    if (before->bytes != NULL && memcmp(now.bytes, before->bytes, before->size) != 0)
        fail_msg("%s: other bytes", what);
    free(now.bytes);
    free(before->bytes);
}

static const ms_log_mode all_modes[] = {MS_LOG_CREATE, MS_LOG_WRITE, MS_LOG_NEW,
                                        MS_LOG_READ};

static bool has_text(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/* Opening gives one of two codes, names the path and leaves all as it was. */
static void must_refuse(const char *what, const test_store *s, ms_log_mode mode,
                        ms_result one, ms_result other)
{
    ms_log_desc desc = s->log;
    ms_store *store = (ms_store *)&desc;
    snapshot before = take(s);
    ms_error err;
    memset(&err, 0, sizeof err);
    desc.mode = mode;
    alarm(20);
    ms_result got = ms_log_open(&store, &desc, &err);
    alarm(0);
    if (got != one && got != other)
        fail_msg("%s, mode %d: %s (%s)", what, (int)mode, ms_result_text(got),
                 got != MS_OK ? err.message : "");
    assert_null(store);
    assert_int_equal(err.code, got);
    if (!has_text(err.message, "test.msl"))
        fail_msg("%s: no path in \"%s\"", what, err.message);
    assert_int_equal(ms_log_open(&store, &desc, NULL), got);
    nothing_changed(what, s, &before);
}

/* The same in all modes: what is there is in the way of NEW, and is no log for others. */
static void must_be_foreign(const char *what, const test_store *s, ms_result other)
{
    for (size_t i = 0; i < 4; i++) {
        bool fresh = all_modes[i] == MS_LOG_NEW;
        must_refuse(what, s, all_modes[i], fresh ? MS_E_CONFLICT : MS_E_FOREIGN,
                    fresh ? MS_E_CONFLICT : other);
    }
}

static void put(const test_store *s, const void *bytes, size_t size)
{
    remove(s->path);
    assert_true(write_file(s->path, bytes, size));
}

/* A log of 100 messages, closed. */
static test_store closed_log(void)
{
    test_store s = log_at(4096, MS_ENGINE_AUTO);
    log_open(&s);
    for (int i = 0; i < 100; i++) append_text(s.store, "a message of the closed log");
    ms_close(s.store);
    s.store = NULL;
    s.log.mode = MS_LOG_WRITE;
    return s;
}

static void must_have(ms_store *store, size_t n)
{
    ms_query all = query_of(no_str(), 0);
    assert_int_equal(count_of(store, &all), n);
}


/* ---- paths ---- */

static void a_log_needs_a_path(void **state)
{
    ms_log_desc desc;
    ms_log_report report;
    (void)state;
    memset(&desc, 0, sizeof desc);
    for (size_t i = 0; i < 4; i++) {
        ms_store *store = (ms_store *)&desc;
        ms_error err;
        desc.mode = all_modes[i];
        desc.path = NULL;
        assert_int_equal(ms_log_open(&store, &desc, &err), MS_E_ARGUMENT);
        assert_null(store);
        assert_true(has_text(err.message, "path"));
        desc.path = "";
        store = (ms_store *)&desc;
        assert_int_equal(ms_log_open(&store, &desc, &err), MS_E_ARGUMENT);
        assert_null(store);
        assert_int_equal(ms_log_verify(&desc, &report, &err), MS_E_ARGUMENT);
    }
    ms_store *store = (ms_store *)&desc;
    assert_int_equal(ms_log_open(&store, NULL, NULL), MS_E_ARGUMENT);
    assert_null(store);
}

static void a_bad_description_opens_nothing(void **state)
{
    test_store s = log_at(0, MS_ENGINE_AUTO);
    (void)state;
    for (int i = 0; i < 7; i++) {
        ms_log_desc desc = s.log;
        ms_store *store = (ms_store *)&desc;
        ms_error err;
        if (i == 0) desc.segment_size = MS_LOG_SEGMENT_MIN - 1;
        if (i == 1) desc.segment_size = 1;
        if (i == 2) desc.mode = (ms_log_mode)9;
        if (i == 3) desc.sync = (ms_sync_mode)9;
        if (i == 4) desc.engine = (ms_log_engine)9;
        if (i == 5) desc.opening = (ms_log_opening)9;
        if (i == 6) desc.opening = MS_OPEN_SALVAGE;     /* for reading only */
        ms_result got = ms_log_open(&store, &desc, &err);
        if (got != MS_E_ARGUMENT) fail_msg("row %d: %s", i, ms_result_text(got));
        assert_null(store);
        assert_int_equal(files_in(s.folder), 0);
    }
    store_close(&s);
}

static void a_missing_file_is_made_or_said_so(void **state)
{
    test_store s = log_at(0, MS_ENGINE_AUTO);
    ms_error err;
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        bool makes = all_modes[i] == MS_LOG_CREATE || all_modes[i] == MS_LOG_NEW;
        s.log.mode = all_modes[i];
        ms_result got = ms_log_open(&s.store, &s.log, &err);
        assert_int_equal(got, makes ? MS_OK : MS_E_NOT_FOUND);
        if (!makes) assert_true(has_text(err.message, s.path));
        assert_int_equal(files_in(s.folder), makes);
        ms_close(s.store);
        remove(s.path);
    }
    ms_log_report report;
    assert_int_equal(ms_log_verify(&s.log, &report, &err), MS_E_NOT_FOUND);
    char *deep = scratch_file(s.folder, "no/folder.msl");
    s.log.path = deep;
    for (size_t i = 0; i < 4; i++) {
        s.log.mode = all_modes[i];
        ms_result got = ms_log_open(&s.store, &s.log, &err);
        assert_true(got == MS_E_NOT_FOUND || got == MS_E_IO);
        assert_true(has_text(err.message, "folder.msl"));
        assert_int_equal(err.sys_errno, ENOENT);
        assert_null(s.store);
    }
    free(deep);
    store_close(&s);
}

static void a_new_log_does_not_take_the_place_of_another(void **state)
{
    test_store s = closed_log();
    (void)state;
    must_refuse("a log", &s, MS_LOG_NEW, MS_E_CONFLICT, MS_E_CONFLICT);
    log_open(&s);
    must_have(s.store, 100);
    store_close(&s);
}

/* Made but not written: as if it was not there; for reading it is an empty log. */
static void an_empty_file_counts_as_missing(void **state)
{
    test_store s = log_at(0, MS_ENGINE_AUTO);
    (void)state;
    put(&s, "", 0);
    must_refuse("an empty file", &s, MS_LOG_WRITE, MS_E_NOT_FOUND, MS_E_NOT_FOUND);
    s.log.mode = MS_LOG_READ;
    snapshot before = take(&s);
    log_open(&s);
    must_have(s.store, 0);
    assert_int_equal(ms_selfcheck(s.store, NULL), MS_OK);
    ms_close(s.store);
    nothing_changed("an empty file", &s, &before);
    for (int i = 0; i < 2; i++) {
        put(&s, "", 0);
        s.log.mode = i ? MS_LOG_NEW : MS_LOG_CREATE;
        log_open(&s);
        append_text(s.store, "x");
        must_have(s.store, 1);
        ms_close(s.store);
    }
    s.store = NULL;
    store_close(&s);
}

/* A reader that came before the writer sees the log begin. */
static void a_reader_of_an_empty_file_sees_it_begin(void **state)
{
    test_store s = log_at(0, MS_ENGINE_AUTO);
    (void)state;
    put(&s, "", 0);
    ms_store *reader = log_reader(&s);
    must_have(reader, 0);
    log_open(&s);
    append_text(s.store, "x");
    must_have(reader, 1);
    ms_close(reader);
    store_close(&s);
}


/* ---- files that are no logs ---- */

static void other_files_are_refused(void **state)
{
    static const char jpeg[] = "\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0";
    static const char png[] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    static const char text[] = "{\"role\":\"user\",\"content\":\"not a log\"}\n";
    static char page[20000];
    static const struct { const char *name, *bytes; size_t len; } rows[] = {
        {"jpeg", jpeg, sizeof jpeg}, {"png", png, sizeof png},
        {"text", text, sizeof text - 1}, {"sqlite", "SQLite format 3", 16},
    };
    test_store s = log_at(0, MS_ENGINE_AUTO);
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static const size_t sizes[] = {2, 8, 64, 4095, 4096, 4097, 20000};
        for (size_t k = 0; k < sizeof page; k++)
            page[k] = rows[i].bytes[k % rows[i].len];
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            put(&s, page, sizes[k]);
            must_be_foreign(rows[i].name, &s, MS_E_DAMAGED);
        }
    }
    put(&s, text, 1);
    must_be_foreign("one letter", &s, MS_E_FOREIGN);
    put(&s, text, sizeof text - 1);
    must_be_foreign("a short text", &s, MS_E_FOREIGN);
    put(&s, jpeg, sizeof jpeg);
    must_be_foreign("a short picture", &s, MS_E_FOREIGN);
    store_close(&s);
}

static void an_image_of_an_arena_store_is_refused(void **state)
{
    test_store s = log_at(0, MS_ENGINE_AUTO);
    store_options options;
    (void)state;
    memset(&options, 0, sizeof options);
    options.room = 100000;
    test_store arena = store_open(store_kind_at(2), &options);
    for (int i = 0; i < 100; i++) append_text(arena.store, "in an arena");
    ms_str image = ms_mem_image(arena.store);
    put(&s, image.ptr, image.len);
    must_be_foreign("an image", &s, MS_E_FOREIGN);
    put(&s, arena.buffer, arena.size);
    must_be_foreign("a whole buffer", &s, MS_E_FOREIGN);
    store_close(&arena);
    store_close(&s);
}

/* Nobody is at the other end of the pipe: opening it must not wait for somebody. */
static void what_is_no_regular_file_is_refused(void **state)
{
    test_store s = log_at(0, MS_ENGINE_AUTO);
    (void)state;
    assert_int_equal(mkdir(s.path, 0700), 0);
    must_be_foreign("a folder", &s, MS_E_IO);
    assert_int_equal(rmdir(s.path), 0);
    assert_int_equal(mkfifo(s.path, 0600), 0);
    must_be_foreign("a pipe", &s, MS_E_IO);
    assert_int_equal(remove(s.path), 0);
    static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/tty"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(symlink(devices[i], s.path), 0);
        for (size_t k = 0; k < 4; k++) {
            ms_log_desc desc = s.log;
            ms_store *store = (ms_store *)&desc;
            ms_error err;
            desc.mode = all_modes[k];
            ms_result got = ms_log_open(&store, &desc, &err);
            assert_true(got == MS_E_FOREIGN || got == MS_E_IO || got == MS_E_CONFLICT);
            assert_null(store);
        }
        assert_int_equal(remove(s.path), 0);
    }
    assert_int_equal(symlink("nowhere", s.path), 0);
    s.log.mode = MS_LOG_WRITE;
    assert_int_equal(ms_log_open(&s.store, &s.log, NULL), MS_E_NOT_FOUND);
    store_close(&s);
}

/* A file whose beginning was cut off by a power cut holds zeros, or a piece of a head and
 * zeros: as if it was not there, and empty for a reader. */
static void must_count_as_missing(const char *what, test_store *s)
{
    snapshot before = take(s);
    ms_error err;
    s->log.mode = MS_LOG_READ;
    if (ms_log_open(&s->store, &s->log, &err) != MS_OK)
        fail_msg("%s: %s", what, err.message);
    must_have(s->store, 0);
    ms_close(s->store);
    nothing_changed(what, s, &before);
    must_refuse(what, s, MS_LOG_WRITE, MS_E_NOT_FOUND, MS_E_NOT_FOUND);
    s->log.mode = MS_LOG_CREATE;
    if (ms_log_open(&s->store, &s->log, &err) != MS_OK)
        fail_msg("%s: %s", what, err.message);
    append_text(s->store, "the first");
    ms_close(s->store);
    s->log.mode = MS_LOG_WRITE;
    log_open(s);
    must_have(s->store, 1);
    ms_close(s->store);
    s->store = NULL;
}

static void a_file_of_zeros_counts_as_missing(void **state)
{
    static const size_t sizes[] = {1, 7, 4095, 4096, 4097, 20000};
    static char zeros[20000];
    test_store s = log_at(0, MS_ENGINE_AUTO);
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        put(&s, zeros, sizes[i]);
        must_count_as_missing("zeros", &s);
    }
    zeros[19999] = 1;
    put(&s, zeros, sizeof zeros);
    must_be_foreign("zeros and a one", &s, MS_E_DAMAGED);
    zeros[19999] = 0;
    store_close(&s);
}

/* Cut anywhere in its first page, it is no log any more, and nobody makes it one. Cut so
 * early that nothing is left but what a new log begins with, it cannot be told from one.
 */
static void a_log_is_refused_when_its_superblock_is_truncated(void **state)
{
    test_store s = closed_log();
    size_t size, step = test_scale() < 100 ? 37 : 1;
    char *bytes = read_file(s.path, &size);
    (void)state;
    assert_true(bytes != NULL && size > 4096);
    for (size_t len = 1; len < 4096; len += step) {
        char what[40];
        snprintf(what, sizeof what, "cut at %zu", len);
        put(&s, bytes, len);
        if (len <= 1024 && len % 32 != 1) continue;
        if (len <= 1024) must_count_as_missing(what, &s);
        else if (len <= 1032) continue;
        else if (len % 64 == 1) must_be_foreign(what, &s, MS_E_DAMAGED);
        else must_refuse(what, &s, MS_LOG_CREATE, MS_E_FOREIGN, MS_E_DAMAGED);
    }
    free(bytes);
    store_close(&s);
}


/* ---- one writer ---- */

static void must_be_busy(const test_store *s, const char *path, pid_t holder)
{
    ms_log_desc desc = s->log;
    ms_store *store = (ms_store *)&desc;
    char number[24];
    ms_error err;
    desc.path = path;
    desc.mode = MS_LOG_WRITE;
    ms_result got = ms_log_open(&store, &desc, &err);
    if (got != MS_E_BUSY) fail_msg("%s: %s", path, ms_result_text(got));
    assert_null(store);
    snprintf(number, sizeof number, "%ld", (long)holder);
    if (!has_text(err.message, number)) fail_msg("no %s in \"%s\"", number, err.message);
    desc.mode = MS_LOG_CREATE;
    assert_int_equal(ms_log_open(&store, &desc, NULL), MS_E_BUSY);
}

static void a_second_writer_reports_the_first_when_the_log_is_busy(void **state)
{
    test_store s = closed_log();
    char *soft = scratch_file(s.folder, "soft"), *hard = scratch_file(s.folder, "hard");
    char *round = scratch_file(s.folder, "./test.msl");
    (void)state;
    log_open(&s);
    assert_int_equal(symlink(s.path, soft), 0);
    assert_int_equal(link(s.path, hard), 0);
    must_be_busy(&s, s.path, getpid());
    must_be_busy(&s, soft, getpid());
    must_be_busy(&s, hard, getpid());
    must_be_busy(&s, round, getpid());
    append_text(s.store, "still the writer");
    must_have(s.store, 101);
    ms_close(s.store);
    s.log.path = soft;
    log_open(&s);
    must_be_busy(&s, s.path, getpid());
    must_have(s.store, 101);
    free(soft);
    free(hard);
    free(round);
    store_close(&s);
}

/* Opened elsewhere in the process and closed: that must not give the lock away. */
static void the_lock_outlives_another_open_and_close(void **state)
{
    test_store s = closed_log();
    (void)state;
    log_open(&s);
    for (int i = 0; i < 3; i++) {
        int file = open(s.path, O_RDWR | O_CLOEXEC);
        assert_true(file >= 0);
        assert_int_equal(close(file), 0);
        ms_store *reader = log_reader(&s);
        must_have(reader, 100);
        ms_close(reader);
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        ms_log_desc desc = s.log;
        ms_store *store;
        desc.mode = MS_LOG_WRITE;
        _exit(ms_log_open(&store, &desc, NULL) == MS_E_BUSY ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    store_close(&s);
}

typedef struct closer {
    pthread_t thread;
    ms_store *store;
} closer;

static void *close_soon(void *arg)
{
    struct timespec soon = {0, 60000000};
    nanosleep(&soon, NULL);
    ms_close(((closer *)arg)->store);
    return NULL;
}

static void a_writer_waits_for_the_one_before(void **state)
{
    test_store s = closed_log();
    closer c;
    ms_store *second;
    ms_log_desc desc = s.log;
    (void)state;
    log_open(&s);
    append_text(s.store, "the last of the first");
    desc.lock_wait_ms = 40;
    double start = now_ms();
    assert_int_equal(ms_log_open(&second, &desc, NULL), MS_E_BUSY);
    assert_true(now_ms() - start >= 39);
    desc.lock_wait_ms = 20000;
    c.store = s.store;
    if (pthread_create(&c.thread, NULL, close_soon, &c) != 0) abort();
    start = now_ms();
    ms_result got = ms_log_open(&second, &desc, NULL);
    double took = now_ms() - start;
    pthread_join(c.thread, NULL);
    s.store = NULL;
    assert_int_equal(got, MS_OK);
    assert_true(took >= 30 && took < 10000);
    must_have(second, 101);
    assert_int_equal(append_text(second, "the first of the second"), 102);
    ms_close(second);
    store_close(&s);
}


/* ---- processes ---- */

/* Starts a child that opens the log, appends n messages and says so; then it sleeps until
 * it is killed. With a grandchild there is one more process that has inherited everything
 * and sleeps until `*stop` is closed. */
static pid_t start_holder(const test_store *s, size_t n, bool grandchild, int *stop)
{
    int said[2], stopper[2];
    char byte = 0;
    assert_int_equal(pipe(said), 0);
    assert_int_equal(pipe(stopper), 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        ms_store *store;
        ms_envelope m = ms_observation(ms_text("of the holder"), ms_str_of(NULL));
        close(stopper[1]);
        if (ms_log_open(&store, &s->log, NULL) != MS_OK) _exit(2);
        for (size_t i = 0; i < n; i++)
            if (ms_append(store, MS_STR("job"), &m, NULL, NULL) != MS_OK) _exit(3);
        if (grandchild && fork() == 0) {
            close(said[1]);
            _exit(read(stopper[0], &byte, 1) == 0 ? 0 : 1);
        }
        if (write(said[1], "x", 1) != 1) _exit(4);
        for (;;) pause();
    }
    close(said[1]);
    close(stopper[0]);
    assert_int_equal(read(said[0], &byte, 1), 1);
    close(said[0]);
    *stop = stopper[1];
    return child;
}

static void kill_holder(pid_t child)
{
    int status;
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

static void a_killed_writer_leaves_no_lock(void **state)
{
    test_store s = closed_log();
    (void)state;
    for (size_t i = 0; i < 20; i++) {
        int stop;
        s.log.engine = i % 2 ? MS_ENGINE_MAP : MS_ENGINE_WRITE;
        pid_t child = start_holder(&s, 10, false, &stop);
        must_be_busy(&s, s.path, child);
        kill_holder(child);
        close(stop);
        log_open(&s);
        must_have(s.store, 100 + 11 * i + 10);
        append_text(s.store, "after the kill");
        ms_close(s.store);
    }
    s.store = NULL;
    store_close(&s);
}

/* The lock belongs to the open file, which a forked child shares: while it lives, the log
 * stays locked, although the writer is dead. That is said, with the dead writer's number,
 * and nothing is stolen; the end of the child frees it. */
static void a_child_of_a_dead_writer_keeps_the_lock(void **state)
{
    test_store s = closed_log();
    int stop;
    (void)state;
    pid_t child = start_holder(&s, 5, true, &stop);
    kill_holder(child);
    must_be_busy(&s, s.path, child);
    ms_store *reader = log_reader(&s);
    must_have(reader, 105);
    ms_close(reader);
    close(stop);
    s.log.lock_wait_ms = 20000;
    log_open(&s);
    must_have(s.store, 105);
    store_close(&s);
}

/* Every call on a handle of the parent, in the child; a cursor of the parent's may go on
 * or end. Gives how many did not say so; the first of them goes to *which. */
static int calls_not_refused(ms_store *store, ms_cursor *it, int *which)
{
    ms_envelope m = ms_observation(ms_text("of the child"), ms_str_of(NULL));
    ms_query q = query_of(MS_STR("job"), 0);
    ms_cursor other;
    const ms_msg *msg;
    uint64_t number;
    ms_stat stat;
    ms_log_info info;
    ms_listing listing;
    ms_list_query list;
    ms_arena arena;
    ms_store *arena_store;
    ms_error err;
    ms_result got[13];
    int wrong = 0;
    memset(&list, 0, sizeof list);
    m.location = MS_STR("job");
    test_arena_init(&arena, NULL);
    if (ms_mem_open(&arena_store, NULL, NULL) != MS_OK) return 100;
    got[0] = ms_append(store, MS_STR("job"), &m, &number, &err);
    got[1] = ms_append_batch(store, &m, 1, NULL, NULL);
    got[2] = ms_query_open(store, &q, &other, NULL);
    got[3] = ms_get_by_seq(store, 1, &arena, &msg, NULL);
    got[4] = ms_store_stat(store, &stat, NULL);
    got[5] = ms_list(store, &list, &arena, &listing, NULL);
    got[6] = ms_sync(store, &number, NULL);
    got[7] = ms_tick(store, 1000, NULL);
    got[8] = test_refresh(store, &number, NULL);
    got[9] = ms_wait(store, 0, 10, &number, NULL);
    got[10] = ms_selfcheck(store, NULL);
    got[11] = ms_log_stat(store, &info, NULL);
    got[12] = ms_copy(arena_store, store, NULL, NULL, NULL, NULL);
    while (ms_next(it) != NULL) {}
    ms_cursor_close(it, NULL);
    for (int i = 12; i >= 0; i--) {
        if (got[i] != MS_E_FORKED) *which = i;
        wrong += got[i] != MS_E_FORKED;
    }
    ms_arena_deinit(&arena);
    ms_close(arena_store);
    return wrong;
}

static void a_forked_child_is_refused(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_query all = query_of(no_str(), 0);
    for (int i = 0; i < 500; i++) append_text(s.store, "of the parent");
    for (int reading = 0; reading < 2; reading++) {
        ms_store *handle = reading ? log_reader(&s) : s.store;
        ms_cursor it;
        size_t size, size_after;
        int status, which = 0;
        assert_int_equal(ms_query_open(handle, &all, &it, NULL), MS_OK);
        assert_non_null(ms_next(&it));
        char *before = read_file(s.path, &size);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            if (calls_not_refused(handle, &it, &which) != 0) _exit(1 + which);
            ms_close(handle);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        char *after = read_file(s.path, &size_after);
        if (!WIFEXITED(status)) fail_msg("signal %d", WTERMSIG(status));
        if (WEXITSTATUS(status) != 0)
            fail_msg("%s: call %d was not refused", reading ? "reader" : "writer",
                     WEXITSTATUS(status) - 1);
        assert_int_equal(size, size_after);
        assert_memory_equal(before, after, size);
        free(before);
        free(after);
        size_t n = 1;
        while (ms_next(&it) != NULL) n++;
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
        assert_int_equal(n, 500 + (size_t)reading);
        must_be_busy(&s, s.path, getpid());
        append_text(s.store, "of the parent, after");
        must_have(handle, 501 + (size_t)reading);
        if (reading) ms_close(handle);
    }
    assert_int_equal(ms_selfcheck(s.store, NULL), MS_OK);
    store_reopen(&s);
    must_have(s.store, 502);
    store_close(&s);
}

/* A child may open a handle of its own once the parent has closed, or for reading. */
static void a_child_opens_its_own_handle(void **state)
{
    test_store s = closed_log();
    int status;
    (void)state;
    log_open(&s);
    ms_close(s.store);
    s.store = NULL;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        ms_store *store;
        ms_envelope m = ms_observation(ms_text("of the child"), ms_str_of(NULL));
        if (ms_log_open(&store, &s.log, NULL) != MS_OK) _exit(1);
        if (ms_append(store, MS_STR("job"), &m, NULL, NULL) != MS_OK) _exit(2);
        ms_close(store);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    log_open(&s);
    must_have(s.store, 101);
    store_close(&s);
}


/* ---- what else the file system sees ---- */

static void a_file_is_the_owners_alone(void **state)
{
    struct stat about;
    mode_t before = umask(0);
    test_store s = store_open((store_kind *)*state, NULL);
    test_store to = log_at(0, MS_ENGINE_AUTO);
    append_text(s.store, "x");
    ms_result rewritten = ms_log_rewrite(s.store, &to.log, false, NULL, NULL, NULL);
    umask(before);
    assert_int_equal(rewritten, MS_OK);
    assert_int_equal(stat(s.path, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0600);
    assert_int_equal(stat(to.path, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0600);
    store_close(&to);
    store_close(&s);
}

/* How many descriptors stand for this file; each must be closed when a program starts. */
static size_t descriptors_of(const char *path)
{
    struct stat wanted, about;
    size_t n = 0;
    assert_int_equal(stat(path, &wanted), 0);
    for (int file = 0; file < 1024; file++) {
        if (fstat(file, &about) != 0 || about.st_ino != wanted.st_ino ||
            about.st_dev != wanted.st_dev)
            continue;
        assert_true((fcntl(file, F_GETFD) & FD_CLOEXEC) != 0);
        n++;
    }
    return n;
}

static void started_programs_do_not_inherit_the_file(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_store *reader = log_reader(&s);
    for (int i = 0; i < 200; i++) append_text(s.store, "some segments of this");
    must_have(reader, 200);
    assert_true(descriptors_of(s.path) >= 1);
    ms_close(reader);
    ms_close(s.store);
    s.store = NULL;
    assert_int_equal(descriptors_of(s.path), 0);
    store_close(&s);
}

static void a_location_is_no_path(void **state)
{
    static const char *const names[] = {"../x", "/tmp/../x", "..", ".", "a/b/c", "x\\y",
                                        "con", "test.msl", "~/x", "|x", "C:x"};
    test_store s = store_open((store_kind *)*state, NULL);
    size_t around = files_in(scratch_root);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        ms_envelope m = ms_observation(ms_text(names[i]), ms_str_of(NULL));
        m.agent_key = m.turn_id = m.key = ms_str_of(names[i]);
        must_append(s.store, ms_str_of(names[i]), &m);
        assert_int_equal(files_in(s.folder), 1);
        assert_int_equal(files_in(scratch_root), around);
        ms_query q = query_of(ms_str_of(names[i]), 0);
        assert_int_equal(count_of(s.store, &q), 1);
    }
    store_close(&s);
}


/* ---- media that cannot be written ---- */

static unsigned forbidden_calls;

static int read_only_open(void *ctx, const char *path, unsigned how, ms_file *file)
{
    if (how & (MS_OS_WRITE | MS_OS_CREATE)) {
        forbidden_calls++;
        return EROFS;
    }
    return ms_os_default()->open(ctx, path, how, file);
}

static int read_only_write(void *ctx, ms_file file, uint64_t offset, const void *from,
                           size_t size, size_t *done)
{
    (void)ctx, (void)file, (void)offset, (void)from, (void)size;
    forbidden_calls++;
    *done = 0;
    return EROFS;
}

static int read_only_allocate(void *ctx, ms_file file, uint64_t offset, uint64_t size)
{
    (void)ctx, (void)file, (void)offset, (void)size;
    forbidden_calls++;
    return EROFS;
}

static int read_only_file(void *ctx, ms_file file)      /* sync, lock */
{
    (void)ctx, (void)file;
    forbidden_calls++;
    return EROFS;
}

static int read_only_map(void *ctx, ms_file file, uint64_t offset, size_t size,
                         unsigned how, void **out)
{
    if (how & MS_OS_WRITE) forbidden_calls++;
    if (how & MS_OS_WRITE) return EACCES;
    return ms_os_default()->map(ctx, file, offset, size, how, out);
}

static int read_only_rename(void *ctx, const char *from, const char *to)
{
    (void)ctx, (void)from, (void)to;
    forbidden_calls++;
    return EROFS;
}

static int read_only_path(void *ctx, const char *path)  /* remove, sync_folder */
{
    (void)ctx, (void)path;
    forbidden_calls++;
    return EROFS;
}

static ms_os read_only_os(void)
{
    ms_os os = *ms_os_default();
    os.open = read_only_open;
    os.write = read_only_write;
    os.allocate = read_only_allocate;
    os.sync = os.lock = read_only_file;
    os.map = read_only_map;
    os.rename = read_only_rename;
    os.remove = os.sync_folder = read_only_path;
    forbidden_calls = 0;
    return os;
}

/* Everything that a reader may be asked. */
static void use_reader(ms_store *store, size_t n)
{
    ms_listing listing;
    ms_arena arena;
    const ms_msg *msg;
    uint64_t seq;
    test_arena_init(&arena, NULL);
    must_have(store, n);
    assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
    assert_int_equal(ms_list(store, NULL, &arena, &listing, NULL), MS_OK);
    assert_int_equal(ms_get_by_seq(store, n, &arena, &msg, NULL), MS_OK);
    assert_int_equal(test_refresh(store, &seq, NULL), MS_OK);
    assert_int_equal(ms_tick(store, 1000, NULL), MS_OK);
    assert_int_equal(ms_wait(store, seq, 5, &seq, NULL), MS_OK);
    assert_int_equal(seq, n);
    ms_arena_deinit(&arena);
}

static void reading_writes_nothing(void **state)
{
    test_store s = closed_log();
    ms_os os = read_only_os();
    ms_log_desc desc = s.log;
    ms_log_report report;
    ms_error err;
    ms_store *reader;
    (void)state;
    desc.os = &os;
    assert_int_equal(chmod(s.path, 0400), 0);
    assert_int_equal(chmod(s.folder, 0500), 0);
    snapshot before = take(&s);
    desc.mode = MS_LOG_READ;
    for (int opening = 0; opening < 3; opening++) {
        desc.opening = (ms_log_opening)opening;
        if (ms_log_open(&reader, &desc, &err) != MS_OK) fail_msg("%s", err.message);
        use_reader(reader, 100);
        ms_close(reader);
    }
    desc.opening = MS_OPEN_NORMAL;
    assert_int_equal(ms_log_verify(&desc, &report, NULL), MS_OK);
    assert_int_equal(report.messages, 100);
    assert_int_equal(forbidden_calls, 0);
    desc.mode = MS_LOG_WRITE;
    assert_int_equal(ms_log_open(&reader, &desc, &err), MS_E_IO);
    assert_null(reader);
    assert_int_equal(err.sys_errno, EROFS);
    assert_true(has_text(err.message, s.path));
    nothing_changed("a file read", &s, &before);
    assert_int_equal(chmod(s.folder, 0700), 0);
    assert_int_equal(chmod(s.path, 0600), 0);
    store_close(&s);
}

/* Beside a writer, and behind one that was killed, with an end that is torn. */
static void reading_writes_nothing_beside_a_writer(void **state)
{
    test_store s = closed_log();
    ms_os os = read_only_os();
    ms_log_desc desc = s.log;
    ms_store *reader;
    int stop;
    (void)state;
    desc.os = &os;
    desc.mode = MS_LOG_READ;
    pid_t child = start_holder(&s, 50, false, &stop);
    snapshot before = take(&s);
    for (int killed = 0; killed < 2; killed++) {
        assert_int_equal(ms_log_open(&reader, &desc, NULL), MS_OK);
        use_reader(reader, 150);
        ms_close(reader);
        if (!killed) kill_holder(child);
    }
    close(stop);
    assert_int_equal(forbidden_calls, 0);
    nothing_changed("a file read", &s, &before);
    store_close(&s);
}


/* ---- system calls that fail ---- */

static ms_result append_some(ms_store *store, size_t n, size_t *done, ms_error *err)
{
    *done = 0;
    for (size_t i = 0; i < n; i++) {
        ms_envelope m = ms_observation(ms_text("appended while calls may fail"),
                                       ms_str_of(NULL));
        ms_result result = ms_append(store, MS_STR("job"), &m, NULL, err);
        if (result != MS_OK) return result;
        ++*done;
    }
    return MS_OK;
}

/* One call fails, at opening or after it: an error that tells, nothing left open, and the
 * file is as sound as before. `after` says how many appends worked. */
static void one_call_fails(test_store *s, trip *t, ms_log_mode mode, size_t there)
{
    ms_log_desc desc = s->log;
    ms_store *store = (ms_store *)&desc;
    ms_error err;
    size_t done = 0;
    desc.mode = mode;
    desc.os = &t->os;
    desc.events.event = NULL;
    ms_result result = ms_log_open(&store, &desc, &err);
    if (result == MS_OK && mode != MS_LOG_READ)
        result = append_some(store, 30, &done, &err);
    if (result == MS_OK && mode != MS_LOG_READ) result = ms_sync(store, NULL, &err);
    if (result != MS_OK) {
        if (t->hits == 0) fail_msg("without trouble: %s", err.message);
        if (err.sys_errno != t->code)
            fail_msg("%s, call %llu: errno %d, should be %d (%s)",
                     trip_word((int)t->last_hit), (unsigned long long)t->at,
                     err.sys_errno, t->code, err.message);
        assert_true(err.code == result && err.message[0] != '\0');
    }
    ms_close(store);
    if (t->files != 0 || t->maps != 0)
        fail_msg("%s, call %llu: %d files, %d maps stay open",
                 trip_word((int)t->last_hit), (unsigned long long)t->at, t->files,
                 t->maps);
    if (mode == MS_LOG_NEW && access(s->path, F_OK) != 0) return;
    desc.os = NULL;
    desc.mode = mode == MS_LOG_NEW ? MS_LOG_CREATE : MS_LOG_WRITE;
    if (ms_log_open(&store, &desc, &err) != MS_OK)
        fail_msg("%s, call %llu: then %s", trip_word((int)t->last_hit),
                 (unsigned long long)t->at, err.message);
    ms_query all = query_of(no_str(), 0);
    size_t n = count_of(store, &all);
    assert_in_range(n, there + done, there + done + 1);
    assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
    append_text(store, "after the trouble");
    assert_int_equal(count_of(store, &all), n + 1);
    ms_close(store);
}

typedef struct fault {
    unsigned calls;
    int code;
    ms_log_mode mode;
    ms_sync_mode sync;
} fault;

static void each_call_fails_once(void **state)
{
    static const fault rows[] = {
        {TRIP_BIT(OPEN), EMFILE, MS_LOG_WRITE, MS_SYNC_NONE},
        {TRIP_BIT(OPEN), EACCES, MS_LOG_READ, MS_SYNC_NONE},
        {TRIP_BIT(OPEN), EACCES, MS_LOG_NEW, MS_SYNC_NONE},
        {TRIP_BIT(STAT), EIO, MS_LOG_WRITE, MS_SYNC_NONE},
        {TRIP_BIT(STAT), EIO, MS_LOG_READ, MS_SYNC_NONE},
        {TRIP_BIT(READ), EIO, MS_LOG_WRITE, MS_SYNC_NONE},
        {TRIP_BIT(READ), EIO, MS_LOG_READ, MS_SYNC_NONE},
        {TRIP_BIT(MAP), ENOMEM, MS_LOG_WRITE, MS_SYNC_NONE},
        {TRIP_BIT(MAP), ENOMEM, MS_LOG_READ, MS_SYNC_NONE},
        {TRIP_BIT(MAP), ENOMEM, MS_LOG_NEW, MS_SYNC_NONE},
        {TRIP_BIT(LOCK), ENOLCK, MS_LOG_WRITE, MS_SYNC_NONE},
        {TRIP_BIT(LOCK), ENOLCK, MS_LOG_NEW, MS_SYNC_NONE},
        {TRIP_BIT(ALLOCATE), ENOSPC, MS_LOG_WRITE, MS_SYNC_NONE},
        {TRIP_BIT(ALLOCATE), ENOSPC, MS_LOG_NEW, MS_SYNC_NONE},
        {TRIP_BIT(WRITE), EIO, MS_LOG_WRITE, MS_SYNC_NONE},
        {TRIP_BIT(WRITE), ENOSPC, MS_LOG_NEW, MS_SYNC_NONE},
        {TRIP_BIT(SYNC), EIO, MS_LOG_WRITE, MS_SYNC_EACH},
        {TRIP_BIT(SYNC), EIO, MS_LOG_NEW, MS_SYNC_NONE},
        {TRIP_BIT(SYNC_FOLDER), EIO, MS_LOG_NEW, MS_SYNC_NONE},
    };
    size_t troubles = 0;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (uint64_t at = 1;; at++) {
            test_store s = rows[i].mode == MS_LOG_NEW ? log_at(4096, MS_ENGINE_AUTO)
                                                      : closed_log();
            trip t;
            trip_init(&t, ms_os_default());
            t.how = TRIP_FAIL;
            t.kinds = rows[i].calls;
            t.code = rows[i].code;
            t.at = at;
            s.log.sync = rows[i].sync;
            s.log.engine = i % 2 ? MS_ENGINE_MAP : MS_ENGINE_WRITE;
            one_call_fails(&s, &t, rows[i].mode, rows[i].mode == MS_LOG_NEW ? 0 : 100);
            store_close(&s);
            if (t.hits == 0) break;
            troubles++;
        }
    }
    assert_true(troubles > 20);
}

/* A file system without allocation: written call by call instead. */
static void without_allocation_it_is_written(void **state)
{
    test_store s = closed_log();
    trip t;
    (void)state;
    trip_init(&t, ms_os_default());
    t.how = TRIP_FAIL;
    t.kinds = TRIP_BIT(ALLOCATE);
    t.code = EOPNOTSUPP;
    t.at = 1;
    t.from = true;
    s.log.os = &t.os;
    for (int engine = 0; engine < 3; engine++) {
        s.log.engine = (ms_log_engine)engine;
        log_open(&s);
        for (int i = 0; i < 1000; i++) append_text(s.store, "without allocation");
        assert_int_equal(log_info_of(s.store).engine, MS_ENGINE_WRITE);
        must_have(s.store, 100 + 1000 * ((size_t)engine + 1));
        assert_int_equal(ms_sync(s.store, NULL, NULL), MS_OK);
        ms_close(s.store);
    }
    s.store = NULL;
    assert_int_equal(t.files, 0);
    assert_int_equal(t.maps, 0);
    store_close(&s);
}

/* An interrupted call is made again, or said; nothing is lost by it. */
static void interrupted_calls_lose_nothing(void **state)
{
    static const unsigned kinds[] = {TRIP_BIT(WRITE), TRIP_BIT(SYNC), TRIP_BIT(ALLOCATE),
                                     TRIP_BIT(READ)};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        for (uint64_t at = 1; at < 8; at++) {
            test_store s = closed_log();
            trip t;
            trip_init(&t, ms_os_default());
            t.how = TRIP_FAIL;
            t.kinds = kinds[i];
            t.code = EINTR;
            t.at = at;
            s.log.sync = MS_SYNC_EACH;
            s.log.engine = MS_ENGINE_WRITE;
            one_call_fails(&s, &t, MS_LOG_WRITE, 100);
            store_close(&s);
        }
    }
}

/* That of the place where a new log is to stand, too. */
static void an_interrupted_lock_is_tried_again(void **state)
{
    test_store s = closed_log();
    trip t;
    ms_error err;
    (void)state;
    trip_init(&t, ms_os_default());
    log_open(&s);
    ms_log_desc to = s.log;
    char *path = scratch_file(s.folder, "new.msl");
    to.path = path;
    to.os = &t.os;
    t.how = TRIP_FAIL;
    t.kinds = TRIP_BIT(LOCK);
    t.code = EINTR;
    t.at = 1;
    if (ms_log_rewrite(s.store, &to, false, NULL, NULL, &err) != MS_OK)
        fail_msg("rewriting: %s", err.message);
    assert_int_equal(t.hits, 1);
    remove(path);
    free(path);
    store_close(&s);
}

/* From now on this call fails once, or always; of calls of one kind. */
static void trip_at(trip *t, unsigned kinds, int code, bool from)
{
    t->how = TRIP_FAIL;
    t->kinds = kinds;
    t->code = code;
    t->at = 1;
    t->from = from;
    t->calls = t->hits = 0;
}

/* A log with 100 messages that are durable, and 5 of which a sync has failed. */
static test_store doubtful_log(trip *t)
{
    test_store s = closed_log();
    trip_init(t, ms_os_default());
    s.log.os = &t->os;
    s.log.events.event = NULL; /* the failed sync is reported */
    log_open(&s);
    for (int i = 0; i < 5; i++) append_text(s.store, "in doubt");
    trip_at(t, TRIP_BIT(SYNC), EIO, false);
    assert_int_equal(ms_sync(s.store, NULL, NULL), MS_E_POISONED);
    ms_close(s.store);
    trip_at(t, 0, 0, false);
    return s;
}

static void doubtful_end(test_store *s, trip *t)
{
    ms_close(s->store);
    s->store = NULL;
    assert_int_equal(t->files, 0);
    assert_int_equal(t->maps, 0);
    store_close(s);
}

/* The 8 bytes at an offset of the file. */
static uint64_t head_word(const test_store *s, size_t at);

static uint64_t this_boot(void) { return ms_os_default()->boot(ms_os_default()->ctx); }

/* Bytes of which a sync has failed are written once more before the next one. Where that
 * cannot be, the call fails, nothing becomes durable, and nothing was appended. */
static void bytes_of_a_failed_sync_are_written_again_when_a_handle_syncs(void **state)
{
    static const struct { ms_sync_mode sync; unsigned calls; int code; ms_result result; }
    rows[] = {{MS_SYNC_NONE, TRIP_BIT(READ), EIO, MS_E_IO},
              {MS_SYNC_NONE, TRIP_BIT(WRITE), ENOSPC, MS_E_FULL},
              {MS_SYNC_NONE, TRIP_BIT(SYNC), EIO, MS_E_POISONED},
              {MS_SYNC_EACH, TRIP_BIT(WRITE), EIO, MS_E_IO},
              {MS_SYNC_EVERY, TRIP_BIT(READ), EIO, MS_E_IO}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        trip t;
        test_store s = doubtful_log(&t);
        uint64_t writes = 0;
        s.log.sync = rows[i].sync;
        s.log.sync_ms = 1;
        s.log.ticked = rows[i].sync == MS_SYNC_EVERY;
        log_open(&s);
        must_have(s.store, 105);
        for (int again = 0; again < 2; again++) {
            ms_result want = again ? MS_OK : rows[i].result;
            ms_envelope m = ms_user_message(ms_text("one more"));
            assert_int_equal(head_word(&s, 1232), this_boot());
            trip_at(&t, again ? TRIP_BIT(WRITE) : rows[i].calls, rows[i].code, false);
            if (again) t.how = TRIP_NONE;
            usleep(3000); /* sync_ms */
            if (rows[i].sync == MS_SYNC_EACH)
                assert_int_equal(ms_append(s.store, MS_STR("job"), &m, NULL, NULL), want);
            else if (rows[i].sync == MS_SYNC_EVERY)
                assert_int_equal(ms_tick(s.store, 1000, NULL), want);
            else
                assert_int_equal(ms_sync(s.store, NULL, NULL), want);
            assert_int_equal(t.hits, again ? 0 : 1);
            if (again) writes = t.calls;
            trip_at(&t, 0, 0, false);
            must_have(s.store, again && rows[i].sync == MS_SYNC_EACH ? 106 : 105);
            assert_true(log_info_of(s.store).durable_seq >= (again ? 105 : 0));
            assert_true(again || log_info_of(s.store).durable_seq <= 100);
            if (rows[i].result != MS_E_POISONED || again) continue;
            ms_close(s.store);
            log_open(&s);
        }
        assert_true(writes > 0);
        assert_int_equal(head_word(&s, 1232), 0);
        doubtful_end(&s, &t);
    }
}

/* The same without memory, beside a writer that keeps the lock, at closing, and where the
 * file was truncated meanwhile. */
static void bytes_of_a_failed_sync_stay_unconfirmed_when_they_cannot_be_written(void **state)
{
    test_alloc heap;
    ms_log_info info;
    ms_envelope m = ms_user_message(ms_text("one more"));
    trip t;
    (void)state;
    test_store s = doubtful_log(&t);
    test_alloc_init(&heap);
    s.log.alloc = heap.alloc;
    s.log.shared = true;
    s.log.lock_wait_ms = 1;
    log_open(&s);
    trip_at(&t, TRIP_BIT(LOCK), EAGAIN, true);
    assert_int_equal(ms_sync(s.store, NULL, NULL), MS_E_BUSY);
    trip_at(&t, 0, 0, false);
    heap.fail_at = heap.calls + 1;
    assert_int_equal(ms_sync(s.store, NULL, NULL), MS_E_NO_MEMORY);
    heap.fail_at = 0;
    trip_at(&t, TRIP_BIT(READ), EIO, true);
    assert_int_equal(ms_append(s.store, MS_STR("job"), &m, NULL, NULL), MS_E_IO);
    ms_close(s.store); /* durable is what was */
    trip_at(&t, 0, 0, false);
    log_open(&s);
    assert_int_equal(ms_log_stat(s.store, &info, NULL), MS_OK);
    assert_true(info.durable_seq <= 100);
    must_have(s.store, 105);
    assert_int_equal(head_word(&s, 1232), this_boot());
    assert_int_equal(truncate(s.path, (off_t)info.end - 300), 0);
    assert_int_equal(ms_sync(s.store, NULL, NULL), MS_OK);
    doubtful_end(&s, &t);
    test_alloc_done(&heap);
}

/* A sync of one of two shared writers fails: the other one, when it closes, stores no
 * checkpoint over what is in doubt, and before its next append it writes that again. */
static void a_shared_writer_stores_no_checkpoint_when_a_sync_of_another_failed(void **state)
{
    (void)state;
    for (int goes_on = 0; goes_on < 2; goes_on++) {
        trip t;
        ms_store *other;
        test_store s = closed_log();
        trip_init(&t, ms_os_default());
        s.log.events.event = NULL;
        s.log.shared = true;
        log_open(&s);
        append_text(s.store, "of the one");
        ms_log_desc desc = s.log;
        desc.os = &t.os;
        assert_int_equal(ms_log_open(&other, &desc, NULL), MS_OK);
        append_text(other, "of the other");
        trip_at(&t, TRIP_BIT(SYNC), EIO, false);
        assert_int_equal(ms_sync(other, NULL, NULL), MS_E_POISONED);
        ms_close(other);
        assert_int_equal(head_word(&s, 1232), this_boot());
        must_have(s.store, 102);
        if (goes_on) append_text(s.store, "of the one, again");
        assert_int_equal(head_word(&s, 1232), goes_on ? 0 : this_boot());
        ms_close(s.store);
        s.log.mode = MS_LOG_READ;
        log_open(&s);
        assert_int_equal(log_info_of(s.store).durable_seq, goes_on ? 103 : 100);
        must_have(s.store, goes_on ? 103 : 102);
        store_close(&s);
    }
}

/* A log that was made and never synced: its head goes to the disk before all else. */
static void a_head_that_cannot_be_made_durable_opens_nothing(void **state)
{
    static const unsigned kinds[] = {TRIP_BIT(WRITE), TRIP_BIT(SYNC)};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        ms_error err;
        trip t;
        test_store s = log_at(4096, MS_ENGINE_AUTO);
        trip_init(&t, ms_os_default());
        s.log.os = &t.os;
        log_open(&s);
        ms_close(s.store);
        trip_at(&t, kinds[i], EIO, false);
        assert_int_equal(ms_log_open(&s.store, &s.log, &err), MS_E_IO);
        assert_int_equal(t.hits, 1);
        assert_non_null(strstr(err.message, "superblock"));
        trip_at(&t, 0, 0, false);
        log_open(&s);
        append_text(s.store, "first");
        must_have(s.store, 1);
        doubtful_end(&s, &t);
    }
}

/* In place of itself: what is replaced is synced first. Where that fails it stays; written
 * by a handle that is of no use any more it can still be rewritten. */
static void an_old_file_that_cannot_be_synced_is_not_replaced(void **state)
{
    unsigned poisoned = 0;
    (void)state;
    for (uint64_t at = 1;; at++) {
        trip t;
        test_store s = closed_log();
        trip_init(&t, ms_os_default());
        s.log.os = &t.os;
        s.log.events.event = NULL;
        log_open(&s);
        append_text(s.store, "not synced");
        trip_at(&t, TRIP_BIT(SYNC), EIO, false);
        t.at = at;
        ms_result result = ms_log_rewrite(s.store, &s.log, true, NULL, NULL, NULL);
        bool hit = t.hits > 0;
        trip_at(&t, 0, 0, false);
        if (result != MS_OK) {
            ms_error err;
            bool dead = log_info_of(s.store).poisoned; /* else it was the new one's */
            poisoned += dead;
            if (dead) assert_int_equal(result, MS_E_POISONED);
            if (dead) assert_int_equal(ms_sync(s.store, NULL, NULL), MS_E_POISONED);
            assert_int_equal(files_in(s.folder), 1);
            if (ms_log_rewrite(s.store, &s.log, true, NULL, NULL, &err) != MS_OK)
                fail_msg("once more: %s", err.message);
        }
        ms_close(s.store);
        log_open(&s);
        must_have(s.store, 101);
        doubtful_end(&s, &t);
        if (!hit) break;
    }
    assert_int_equal(poisoned, 1); /* the sync of the old file */
}

/* Reads and writes that do a part of what they were asked. */
static void short_reads_and_writes_go_on(void **state)
{
    static const size_t parts[] = {1, 7, 8, 100, 4095};
    (void)state;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        test_store s = closed_log();
        twin t;
        uint64_t rng = test_seed();
        trip some;
        twin_init(&t);
        t.keep_unset_times = s.log.keep_unset_times = true;
        trip_init(&some, ms_os_default());
        some.how = TRIP_SHORT;
        some.kinds = TRIP_BIT(READ) | TRIP_BIT(WRITE);
        some.bytes = parts[i];
        some.at = 1;
        some.from = true;
        assert_int_equal(remove(s.path), 0);
        s.log.mode = MS_LOG_CREATE;
        s.log.os = &some.os;
        s.log.engine = MS_ENGINE_WRITE;
        log_open(&s);
        for (int k = 0; k < 60; k++) {
            ms_envelope m = random_message(&rng);
            ms_append_opts opts;
            memset(&opts, 0, sizeof opts);
            twin_append_both(&t, s.store, &m, 1, &opts, false);
        }
        twin_must_equal(&t, s.store);
        store_reopen(&s);
        twin_must_equal(&t, s.store);
        ms_close(s.store);
        s.log.os = NULL;
        log_open(&s);
        twin_must_equal(&t, s.store);
        assert_true(some.hits > 0);
        twin_deinit(&t);
        store_close(&s);
    }
}


/* ---- the bytes, read by the words of [format] and [record] alone ---- */

static uint32_t crc32c(uint32_t crc, const unsigned char *bytes, size_t n)
{
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ UINT32_C(0x82F63B78) : crc >> 1;
    }
    return ~crc;
}

static uint32_t get32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

static uint64_t get64(const unsigned char *p)
{
    return (uint64_t)get32(p) | (uint64_t)get32(p + 4) << 32;
}

static void put32(unsigned char *p, uint32_t value)
{
    for (int i = 0; i < 4; i++) p[i] = (unsigned char)(value >> (8 * i));
}

static void put64(unsigned char *p, uint64_t value)
{
    for (int i = 0; i < 8; i++) p[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1], v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0], v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1], v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2], v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

/* SipHash-1-3; the key is 16 bytes, the salt goes into its second half. */
static uint64_t sip13(const unsigned char *key, uint64_t salt, ms_str text)
{
    uint64_t k0 = get64(key), k1 = get64(key + 8) ^ salt, word = 0;
    uint64_t v[4] = {UINT64_C(0x736f6d6570736575) ^ k0, UINT64_C(0x646f72616e646f6d) ^ k1,
                     UINT64_C(0x6c7967656e657261) ^ k0,
                     UINT64_C(0x7465646279746573) ^ k1};
    for (size_t i = 0; i <= text.len; i++) {
        if (i == text.len) word |= (uint64_t)text.len << 56;
        else word |= (uint64_t)(unsigned char)text.ptr[i] << (8 * (i % 8));
        if (i % 8 != 7 && i != text.len) continue;
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
        word = 0;
    }
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

enum {
    KIND_MESSAGE = 1, KIND_INDEX = 2, KIND_LOST = 8, KIND_GAP = 9,
    LEAF = 1, FILTER = 2, SUMMARY = 3, FAN = 32,
    STREAMS_MOST = 6
};

/* One record, its fields found. */
typedef struct parsed {
    uint64_t offset, seq;
    int64_t time;
    uint32_t size, padded;
    unsigned kind, type, role, flags;
    ms_value field[MS_FIELD_COUNT];
} parsed;

/* A leaf; of a summary the place alone. */
typedef struct node {
    uint64_t offset, first_seq, last_seq, messages, bytes;
    int64_t first_time, last_time;        /* first > last: none */
    uint64_t *streams;
    size_t n_streams;
} node;

typedef struct list {
    node *items;
    size_t n;
} list;

typedef struct walk {
    const unsigned char *bytes;
    uint64_t size, end;
    uint64_t dead_end;                    /* after the last eight that are not zero */
    const unsigned char *id;
    parsed *records;                      /* messages and GAPs */
    size_t n_records, cap;
    size_t segment_first;                 /* the first record of the segment */
    uint64_t segment_begin;
    uint64_t messages, message_bytes, last_seq, last_gap;
    uint64_t damaged, damaged_bytes;      /* that LOST records report */
    uint32_t holes;                       /* of them in the segment */
    size_t filters;                       /* that no summary has listed yet */
    list leaves, summaries;
    uint64_t newest_leaf;
} walk;

#define SOUND(condition)                                                      \
    do {                                                                      \
        if (!(condition))                                                     \
            fail_msg("record at %llu: not so: %s", (unsigned long long)at,    \
                     #condition);                                             \
    } while (0)

static uint32_t header_check(const unsigned char *id, uint64_t at,
                             const unsigned char *record)
{
    unsigned char all[16 + 8 + 28];
    memcpy(all, id, 16);
    put64(all + 16, at);
    memcpy(all + 24, record, 28);
    return crc32c(0, all, sizeof all);
}

/* The directory of a body and its values. */
static void parse_fields(parsed *p, const unsigned char *record)
{
    const unsigned char *body = record + 32, *value = body + body[0];
    uint64_t at = p->offset;
    size_t i = 1, last = 0;
    SOUND(p->size >= 33 && body[0] >= 1 && 32u + body[0] <= p->size);
    while (i < body[0]) {
        unsigned tag = body[i] & 31u, wide = 1u << (body[i] >> 6);
        bool json = (body[i] & 32) != 0;
        uint32_t len = 0;
        SOUND(tag > last && tag < MS_FIELD_COUNT && wide <= 4 && i + wide < body[0]);
        for (unsigned k = 0; k < wide; k++) len |= (uint32_t)body[i + 1 + k] << (8 * k);
        SOUND(value + len <= record + p->size);
        p->field[tag].text = ms_str_n((const char *)value, len);
        p->field[tag].json = json;
        value += len;
        i += 1 + wide;
        last = tag;
    }
    SOUND(i == body[0] && value == record + p->size);
}

/* The header at an offset, its check and its body's. */
static parsed parse_record(const walk *w, uint64_t at)
{
    const unsigned char *r = w->bytes + at;
    parsed p;
    memset(&p, 0, sizeof p);
    SOUND(at % 8 == 0 && at + 32 <= w->end);
    p.offset = at;
    p.size = get32(r);
    p.padded = (p.size + 7) / 8 * 8;
    p.kind = r[4];
    p.type = r[5];
    p.role = r[6] & 15;
    p.flags = r[7];
    p.seq = get64(r + 8);
    p.time = (int64_t)get64(r + 16);
    SOUND(p.size > 32 && at + p.padded <= w->end && r[6] >> 4 == 0);
    SOUND(get32(r + 24) == crc32c(0, r + 32, p.padded - 32));
    for (uint32_t i = p.size; i < p.padded; i++) SOUND(r[i] == 0);
    SOUND(get32(r + 28) == header_check(w->id, at, r));
    return p;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = (const uint64_t *)a, *y = (const uint64_t *)b;
    if (x[0] != y[0]) return x[0] < y[0] ? -1 : 1;
    return x[1] < y[1] ? -1 : x[1] > y[1];
}

static int type_class(ms_type type)
{
    if (twin_in_set(MS_TYPES_CONVERSATION, type)) return 1;
    if (twin_in_set(MS_TYPES_GLOBAL, type)) return 2;
    return 0;
}

/* The streams that a record is in. */
static size_t streams_of(const walk *w, const parsed *p, uint64_t out[STREAMS_MOST])
{
    size_t n = 0;
    uint64_t l = sip13(w->id, 0, p->field[MS_F_LOCATION].text);
    ms_str agent = p->field[MS_F_AGENT_KEY].text, key = p->field[MS_F_KEY].text;
    if (p->kind == KIND_GAP) {
        out[n++] = (l & ~UINT64_C(7)) | 6;
        return n;
    }
    int class = type_class((ms_type)p->type);
    out[n++] = l & ~UINT64_C(7);
    if (class != 0) out[n++] = (l & ~UINT64_C(7)) | (unsigned)class;
    if (agent.ptr != NULL) {
        bool trace = twin_in_set(MS_TYPES_AGENT, (ms_type)p->type);
        out[n++] = (sip13(w->id, l, agent) & ~UINT64_C(7)) | (trace ? 3 : 4);
    }
    if (key.ptr != NULL) out[n++] = (sip13(w->id, ~l, key) & ~UINT64_C(7)) | 5;
    return n;
}

static void time_into(node *n, int64_t time)
{
    if (time == INT64_MIN) return;
    if (time < n->first_time) n->first_time = time;
    if (time > n->last_time) n->last_time = time;
}

/* What a summary in the file says against what was counted. */
static void must_sum(uint64_t at, const node *n, const unsigned char *seqs,
                     const unsigned char *times, const unsigned char *sums)
{
    SOUND(get64(seqs) == n->first_seq && get64(seqs + 8) == n->last_seq);
    SOUND((int64_t)get64(times) == n->first_time);
    SOUND((int64_t)get64(times + 8) == n->last_time);
    SOUND(get64(sums) == n->messages && get64(sums + 8) == n->bytes);
}

static node node_new(uint64_t at)
{
    node n;
    memset(&n, 0, sizeof n);
    n.offset = at;
    n.first_time = INT64_MAX;
    n.last_time = INT64_MIN;
    return n;
}

static void list_add(list *l, const node *n)
{
    l->items = (node *)twin_memory(l->items, (l->n + 1) * sizeof l->items[0]);
    l->items[l->n++] = *n;
}

static uint64_t posting(const unsigned char *p, uint32_t wide, size_t i)
{
    const unsigned char *at = p + i * wide;
    return wide == 2 ? (uint64_t)at[0] | (uint64_t)at[1] << 8 : get32(at);
}

/* The places of n leaves or summaries. */
static void must_list(uint64_t at, const list *l, size_t first, size_t n,
                      const unsigned char *p)
{
    for (size_t i = first; i < first + n; i++, p += 8)
        SOUND(get64(p) == l->items[i].offset);
}

/* What opening starts from, at the head of a segment index. */
static void must_state(const walk *w, uint64_t at, const unsigned char *r)
{
    SOUND(get64(r + 32) == w->damaged_bytes && get32(r + 100) == w->damaged);
    size_t sums = w->summaries.n;
    SOUND(get64(r + 40) == (sums ? w->summaries.items[sums - 1].offset : 0));
    SOUND(get32(r + 48) == sums && get32(r + 52) == 0);
    SOUND(get64(r + 56) == 0 && get64(r + 64) == 0);
    SOUND(get64(r + 72) == w->messages && get64(r + 80) == w->message_bytes);
    SOUND(get64(r + 88) == w->last_seq && get64(r + 104) == w->last_gap);
    SOUND(get64(r + 112) == 0 && get64(r + 120) == 0); /* changes, hidden */
    SOUND(get32(r + 204) == 0 && get32(r + 216) == w->holes && get32(r + 220) == 0);
    size_t before = w->leaves.n - 1, listed = get32(r + 96);
    SOUND(listed == (before < FAN ? before : FAN));
    must_list(at, &w->leaves, before - listed, listed, r + 224);
}

/* The checks inside a segment index: of each block of its arrays, and of what is before
 * the checks. */
static void must_have_checks(const walk *w, uint64_t at, const unsigned char *checks,
                             const unsigned char *arrays, const unsigned char *end)
{
    unsigned char place[32];
    const unsigned char *body = w->bytes + at + 32;
    for (; arrays < end; arrays += 4096, checks += 4)
        SOUND(get32(checks) ==
              crc32c(0, arrays, end - arrays < 4096 ? (size_t)(end - arrays) : 4096));
    memcpy(place, w->bytes + 24, 16);
    put64(place + 16, at);
    SOUND(get32(checks) == crc32c(crc32c(0, place, 24), body, (size_t)(checks - body)));
}

/* A segment index against the records before it. */
static void parse_leaf(walk *w, const parsed *p)
{
    const unsigned char *r = w->bytes + p->offset;
    uint64_t at = p->offset;
    size_t n = w->n_records - w->segment_first, n_pairs = 0, k = 0;
    uint32_t s = get32(r + 192), posts = get32(r + 196);
    uint32_t f = get32(r + 208), wide = get32(r + 212);
    node leaf = node_new(at);
    uint64_t *pairs = (uint64_t *)twin_memory(NULL, (n * STREAMS_MOST + 1) * 16);
    leaf.streams = (uint64_t *)twin_memory(NULL, (n * STREAMS_MOST + 1) * 8);
    for (size_t i = 0; i < n; i++) {
        const parsed *one = &w->records[w->segment_first + i];
        uint64_t streams[STREAMS_MOST];
        size_t some = streams_of(w, one, streams);
        for (size_t j = 0; j < some; j++, n_pairs++) {
            pairs[2 * n_pairs] = streams[j];
            pairs[2 * n_pairs + 1] = i;
        }
        if (one->kind != KIND_MESSAGE) continue;
        if (leaf.first_seq == 0) leaf.first_seq = one->seq;
        leaf.last_seq = one->seq;
        leaf.messages++;
        leaf.bytes += one->padded;
        time_into(&leaf, one->time);
    }
    qsort(pairs, n_pairs, 16, by_number);
    for (size_t i = 0; i < n_pairs; i++)
        if (i == 0 || pairs[2 * i] != pairs[2 * i - 2])
            leaf.streams[leaf.n_streams++] = pairs[2 * i];
    SOUND(get32(r + 128) == w->leaves.n && get32(r + 132) == n);
    SOUND(get64(r + 136) == w->segment_begin);
    must_sum(at, &leaf, r + 144, r + 160, r + 176);
    SOUND(s == leaf.n_streams && posts == n_pairs && (wide == 2 || wide == 4) && f < 32);
    list_add(&w->leaves, &leaf);
    must_state(w, at, r);

    size_t room = 8 * (size_t)s + 4 * n + 4 * (size_t)(s + 1) +
                  4 * (((size_t)1 << f) + 1) + (size_t)posts * wide;
    const unsigned char *checks = r + 224 + 8 * get32(r + 96);
    const unsigned char *streams = checks + 4 * ((room + 4095) / 4096 + 1);
    must_have_checks(w, at, checks, streams, r + p->size);
    const unsigned char *places = streams + 8 * (size_t)s, *begins = places + 4 * n;
    const unsigned char *buckets = begins + 4 * (s + 1);
    const unsigned char *list_of = buckets + 4 * (((size_t)1 << f) + 1);
    SOUND(list_of + (size_t)posts * wide == r + p->size);
    for (size_t i = 0; i < n; i++) {
        const parsed *one = &w->records[w->segment_first + i];
        uint32_t place = get32(places + 4 * i);
        SOUND(w->segment_begin + 8 * (uint64_t)(place & INT32_MAX) == one->offset);
        SOUND((place >> 31 != 0) == (one->kind == KIND_MESSAGE));
    }
    for (size_t i = 0; i < s; i++) {
        SOUND(get64(streams + 8 * i) == leaf.streams[i]);
        SOUND(get32(begins + 4 * i) == k);
        for (; k < n_pairs && pairs[2 * k] == leaf.streams[i]; k++)
            SOUND(posting(list_of, wide, k) == pairs[2 * k + 1]);
    }
    SOUND(get32(begins + 4 * s) == posts);
    for (size_t b = 0; b <= (size_t)1 << f; b++) {
        size_t first = 0;
        while (first < s && f != 0 && leaf.streams[first] >> (64 - f) < b) first++;
        if (f == 0 && b == 1) first = s;
        SOUND(get32(buckets + 4 * b) == first);
    }
    free(pairs);
    w->newest_leaf = at;
    w->holes = 0;
    w->segment_first = w->n_records;
    w->segment_begin = at + p->padded;
}

/* What a filter says of a stream: the bits of the segments that may have it. */
static uint32_t asked(const unsigned char *filter, uint64_t stream)
{
    uint64_t mixed = stream * UINT64_C(0x9E3779B97F4A7C15);
    uint32_t mask = UINT32_MAX;
    for (int i = 4; i < 8; i++) mask &= get32(filter + 40 + 4 * (mixed >> 8 * i & 255));
    return mask;
}

/* A summary against its 32 leaves, with the FILTERs that it lists. Streams that are not in
 * a leaf may seem to be, but few. */
static void parse_summary(walk *w, const parsed *p)
{
    const unsigned char *r = w->bytes + p->offset, *places;
    uint64_t at = p->offset;
    uint32_t g = get32(r + 32), bits = get32(r + 36);
    node sum = node_new(at);
    size_t many = (size_t)1 << bits, asks = 0, wrong = 0, most = 0;
    SOUND(g == w->summaries.n && get64(r + 40) == 0 && w->leaves.n >= FAN * (g + 1));
    /* a handle that was closed meanwhile has left some that no SUMMARY lists */
    SOUND(p->size == 48 + 8 * (FAN + g) + 8 * many && w->filters >= many);
    must_list(at, &w->leaves, (size_t)FAN * g, FAN, r + 48);
    must_list(at, &w->summaries, 0, g, r + 48 + 8 * FAN);
    places = r + 48 + 8 * ((size_t)FAN + g);
    for (size_t i = 0; i < many; i++) {
        const unsigned char *filter = w->bytes + get64(places + 8 * i);
        SOUND(get64(places + 8 * i) >= 4096 && get64(places + 8 * i) < at);
        SOUND(filter[4] == KIND_INDEX && filter[5] == FILTER && get32(filter) == 1064);
        SOUND(get32(filter + 32) == g && get32(filter + 36) == i);
    }
    for (size_t c = 0; c < FAN; c++) {
        const node *leaf = &w->leaves.items[FAN * (size_t)g + c];
        if (leaf->n_streams > most) most = leaf->n_streams;
        for (size_t i = 0; i < leaf->n_streams; i++) {
            uint64_t stream = leaf->streams[i], place = bits ? stream >> (64 - bits) : 0;
            const unsigned char *filter = w->bytes + get64(places + 8 * place);
            SOUND((asked(filter, stream) >> c & 1) != 0);
            asks++;
            wrong += (asked(filter, stream * 31) >> c & 1) != 0;
        }
    }
    SOUND(bits == 0 || most >> (bits - 1) > 24);
    SOUND(most >> bits <= 24 && wrong <= asks / 20 + 20);
    w->filters = 0;
    list_add(&w->summaries, &sum);
}

static void parse_one(walk *w, uint64_t *next)
{
    parsed p = parse_record(w, *next);
    const unsigned char *r = w->bytes + p.offset;
    uint64_t at = p.offset;
    *next += p.padded;
    if (p.kind == KIND_LOST) {
        SOUND(p.size == 48 && p.type == 0 && p.role == 0 && p.flags == MS_FLAG_COMMIT);
        SOUND(p.time == INT64_MIN && get64(r + 32) > at && get64(r + 40) == 0);
        w->damaged++;
        w->damaged_bytes += get64(r + 32) - at;
        w->holes++;
        if (p.seq > w->last_seq) w->last_seq = p.seq; /* of what is missing */
        return;
    }
    if (p.kind == KIND_INDEX) {
        SOUND(p.type >= LEAF && p.type <= SUMMARY && p.time == INT64_MIN);
        SOUND(p.seq == w->last_seq);
        SOUND((p.flags & MS_FLAG_COMMIT) != 0);
        if (p.type == LEAF) parse_leaf(w, &p);
        if (p.type == FILTER) w->filters++;
        if (p.type == SUMMARY) parse_summary(w, &p);
        return;
    }
    SOUND(p.kind == KIND_MESSAGE || p.kind == KIND_GAP);
    parse_fields(&p, r);
    if (p.kind == KIND_MESSAGE) {
        SOUND(p.seq > w->last_seq);
        w->last_seq = p.seq;
        w->messages++;
        w->message_bytes += p.padded;
    }
    if (p.kind == KIND_GAP && p.seq > w->last_gap) w->last_gap = p.seq;
    if (w->n_records == w->cap) {
        w->cap = w->cap != 0 ? 2 * w->cap : 64;
        w->records = (parsed *)twin_memory(w->records, w->cap * sizeof w->records[0]);
    }
    w->records[w->n_records++] = p;
}

/* Bytes that the essay does not name are zero. */
static void must_be_unnamed(const unsigned char *head, size_t from, size_t upto)
{
    for (size_t i = from; i < upto; i++)
        if (head[i] != 0) fail_msg("byte %zu of the head is %02x", i, head[i]);
}

static void parse_head(walk *w)
{
    static const unsigned char magic[] = {0x89, 'M', 'S', 'L', 13, 10, 26, 10};
    static const size_t unnamed[][2] = {
        {56, 1024},   {1032, 1088}, {1104, 1152}, {1192, 1200}, {1216, 1224},
        {1228, 1232}, {1240, 2048}, {2092, 2560}, {2604, 4096}};
    const unsigned char *h = w->bytes;
    uint64_t at = 0;
    SOUND(w->size >= 4096 && memcmp(h, magic, 8) == 0);
    SOUND(get32(h + 8) == 2 && get32(h + 12) == 4096);
    SOUND(get32(h + 16) == 0 && get32(h + 20) == 0 && get32(h + 48) == 1);
    SOUND(get32(h + 52) == crc32c(0, h, 52));
    for (size_t i = 0; i < sizeof unnamed / sizeof unnamed[0]; i++)
        must_be_unnamed(h, unnamed[i][0], unnamed[i][1]);
    w->id = h + 24;
}

static uint64_t dead_end(const walk *w)
{
    uint64_t at = w->size;
    while (at > w->end && w->bytes[at - 1] == 0) at--;
    return (at + 7) / 8 * 8;
}

/* Where the watermark shows the end, with a writer's line and nothing but room after it. */
static void parse_mark(walk *w)
{
    const unsigned char *h = w->bytes;
    uint64_t at = 1024, busy = get64(h + 1208);
    w->end = get64(h + 1024);
    SOUND(w->end >= 4096 && w->end <= w->size && w->end % 8 == 0);
    w->dead_end = dead_end(w);
    SOUND(w->dead_end == w->end);
    SOUND(busy == UINT64_MAX || busy <= w->end);
    SOUND(get32(h + 1224) <= 1 && get64(h + 1232) == 0);
    if (w->end == 4096) return;
    SOUND(get32(h + 1184) > 0 && get32(h + 1188) == crc32c(0, h + 1152, 36));
}

/* The newest valid checkpoint; false: there is none. */
static bool parse_slots(const walk *w, uint64_t *end, uint64_t *seq, uint64_t *leaf)
{
    uint64_t best = 0;
    for (int i = 0; i < 2; i++) {
        const unsigned char *slot = w->bytes + 2048 + 512 * i;
        if (get32(slot + 40) != crc32c(0, slot, 40) || get64(slot) <= best) continue;
        assert_true(get64(slot + 32) == 0);
        assert_int_equal(get64(slot) % 2, i);
        best = get64(slot);
        *end = get64(slot + 8);
        *seq = get64(slot + 16);
        *leaf = get64(slot + 24);
    }
    return best != 0;
}

/* Is there a record at an offset, whole and with both checks? */
static bool is_record(const walk *w, uint64_t at)
{
    const unsigned char *r = w->bytes + at;
    if (at + 40 > w->size) return false;
    uint64_t size = get32(r), padded = (size + 7) / 8 * 8;
    return size > 32 && padded <= w->size - at && r[4] != 0 &&
           get32(r + 28) == header_check(w->id, at, r) &&
           get32(r + 24) == crc32c(0, r + 32, (size_t)padded - 32);
}

/* (F5): finds the end after a restart, in a file without damage: after the last COMMIT
 * before the first byte that begins no record. */
static void parse_end(walk *w)
{
    uint64_t at = 4096, end = 0, seq, leaf;
    while (is_record(w, at)) {
        const unsigned char *r = w->bytes + at;
        at += (get32(r) + (uint64_t)7) / 8 * 8;
        if (r[7] & MS_FLAG_COMMIT) w->end = at;
    }
    if (w->end == 0) w->end = 4096;
    if (parse_slots(w, &end, &seq, &leaf)) SOUND(end <= w->end);
    for (at += 8; at + 40 <= w->size; at += 8)
        SOUND(!is_record(w, at) || (w->bytes[at + 7] & MS_FLAG_SYNCED) == 0);
    w->dead_end = dead_end(w);
}

/* Walks a file from the first record to the end; every promise is asserted. torn: its
 * machine was restarted, and dead bytes may follow. */
static walk parse_log(const char *bytes, size_t size, bool torn)
{
    walk w;
    memset(&w, 0, sizeof w);
    w.bytes = (const unsigned char *)bytes;
    w.size = size;
    parse_head(&w);
    if (torn) parse_end(&w);
    else parse_mark(&w);
    w.segment_begin = 4096;
    for (uint64_t at = 4096; at < w.end;) parse_one(&w, &at);
    if (!torn) assert_int_equal(get64(w.bytes + 1088), w.newest_leaf);
    return w;
}

static void walk_free(walk *w)
{
    for (size_t i = 0; i < w->leaves.n; i++) free(w->leaves.items[i].streams);
    free(w->leaves.items);
    free(w->summaries.items);
    free(w->records);
}

/* The messages of a walk are those of the twin, field for field. */
static void walk_must_equal(const walk *w, const twin *t)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n_records; i++) {
        const parsed *p = &w->records[i];
        if (p->kind != KIND_MESSAGE) continue;
        assert_true(n < t->count);
        const twin_msg *want = t->items[n++];
        assert_int_equal(p->seq, want->seq);
        assert_int_equal(p->type, want->type);
        assert_true(p->role == want->role || p->role == 0);
        assert_int_equal(p->flags & TWIN_FLAGS, want->flags);
        if (want->last) assert_true((p->flags & MS_FLAG_COMMIT) != 0);
        if (want->inside) assert_true((p->flags & MS_FLAG_COMMIT) == 0);
        assert_int_equal(p->time != INT64_MIN, want->has_time);
        if (want->has_time) assert_true(p->time == want->time_ns);
        for (int f = 1; f < MS_FIELD_COUNT; f++)
            if (!twin_value_equal(p->field[f], want->field[f]))
                fail_msg("message %llu: %s", (unsigned long long)p->seq,
                         twin_field_name(f));
    }
    assert_int_equal(n, t->count);
}

static void must_parse(const test_store *s, const twin *t)
{
    size_t size;
    char *bytes = read_file(s->path, &size);
    uint64_t end = 0, seq = 0, leaf = 0;
    assert_non_null(bytes);
    walk w = parse_log(bytes, size, false);
    walk_must_equal(&w, t);
    if (parse_slots(&w, &end, &seq, &leaf)) {
        assert_true(end <= w.end && seq <= w.last_seq);
        uint64_t below = 0;
        for (size_t i = 0; i < w.leaves.n; i++)
            if (w.leaves.items[i].offset < end) below = w.leaves.items[i].offset;
        assert_int_equal(leaf, below);
        for (size_t i = 0; i < w.n_records; i++)
            if (w.records[i].kind == KIND_MESSAGE)
                assert_int_equal(w.records[i].offset < end, w.records[i].seq <= seq);
    }
    walk_free(&w);
    free(bytes);
}

static void fill(twin *t, ms_store *store, uint64_t *rng, size_t n)
{
    for (size_t end = t->count + n; t->count < end;) {
        ms_envelope batch[4];
        char keys[4][24];
        ms_append_opts opts;
        size_t size = 1 + (size_t)test_below(rng, 4);
        memset(&opts, 0, sizeof opts);
        for (size_t i = 0; i < size; i++) {
            batch[i] = random_message(rng);
            snprintf(keys[i], sizeof keys[i], "key %zu", t->count + i);
            if (test_one_in(rng, 5)) batch[i].key = ms_str_of(keys[i]);
        }
        twin_append_both(t, store, batch, size, &opts, false);
    }
}

/* What the library writes is what the essay says: every record, every index record. */
static void the_bytes_are_as_the_essay_says(void **state)
{
    uint64_t rng = test_seed();
    store_options options;
    twin t, next;
    ms_keep keep;
    memset(&options, 0, sizeof options);
    options.keep_unset_times = true;
    test_store s = store_open((store_kind *)*state, &options);
    twin_init(&t);
    t.keep_unset_times = true;
    must_parse(&s, &t);
    for (int round = 0; round < 8; round++) {
        fill(&t, s.store, &rng, 80);
        must_parse(&s, &t);
        if (round % 2) assert_int_equal(ms_sync(s.store, NULL, NULL), MS_OK);
        must_parse(&s, &t);
        store_reopen(&s);
        must_parse(&s, &t);
    }
    twin_init(&next);
    memset(&keep, 0, sizeof keep);
    keep.newest = 50;
    twin_copy(&next, &t, &keep);
    assert_int_equal(ms_log_rewrite(s.store, &s.log, true, &keep, NULL, NULL), MS_OK);
    must_parse(&s, &next);
    twin_deinit(&t);
    twin_deinit(&next);
    store_close(&s);
}


/* ---- files built by hand ---- */

typedef struct built {
    unsigned char bytes[65536];
    size_t len;
} built;

static void built_head(built *b)
{
    static const unsigned char magic[] = {0x89, 'M', 'S', 'L', 13, 10, 26, 10};
    memset(b, 0, sizeof *b);
    b->len = 4096;
    memcpy(b->bytes, magic, 8);
    put32(b->bytes + 8, 2);
    put32(b->bytes + 12, 4096);
    memcpy(b->bytes + 24, "an id of 16 byte", 16);
    put64(b->bytes + 40, (uint64_t)SECONDS(1700000000));
    put32(b->bytes + 48, 1);
    put32(b->bytes + 52, crc32c(0, b->bytes, 52));
    put64(b->bytes + 1024, 4096); /* trusted by no machine */
}

/* Sets the watermark to the end of what was built. */
static void built_mark(built *b)
{
    put64(b->bytes + 1024, b->len);
}

/* Header and checks over a body that stands there already. */
static void built_record(built *b, unsigned kind, unsigned type, unsigned flags,
                         uint64_t seq, int64_t time, size_t body)
{
    unsigned char *r = b->bytes + b->len;
    size_t padded = (32 + body + 7) / 8 * 8;
    put32(r, (uint32_t)(32 + body));
    r[4] = (unsigned char)kind;
    r[5] = (unsigned char)type;
    r[6] = 0;
    r[7] = (unsigned char)flags;
    put64(r + 8, seq);
    put64(r + 16, (uint64_t)time);
    put32(r + 24, crc32c(0, r + 32, padded - 32));
    put32(r + 28, header_check(b->bytes + 24, b->len, r));
    b->len += padded;
}

/* The file had been durable up to `end`, which is after this record. */
static void built_lost(built *b, uint64_t end)
{
    unsigned char *body = b->bytes + b->len + 32;
    put64(body, end);
    put64(body + 8, 0);
    built_record(b, KIND_LOST, 0, MS_FLAG_COMMIT, 0, INT64_MIN, 16);
}

static size_t built_field(unsigned char *body, size_t *values, unsigned tag, bool json,
                          const char *text)
{
    size_t len = strlen(text);
    body[body[0]] = (unsigned char)(tag | (json ? 32 : 0));
    body[body[0] + 1] = (unsigned char)len;
    body[0] = (unsigned char)(body[0] + 2);
    *values += len;
    return len;
}

/* A message of three fields; an absent text leaves its field out. */
static void built_message(built *b, ms_type type, unsigned flags, uint64_t seq,
                          int64_t time, const char *location, const char *agent,
                          const char *content, bool json)
{
    unsigned char *body = b->bytes + b->len + 32;
    size_t values = 0;
    memset(body, 0, 512);
    body[0] = 1;
    built_field(body, &values, MS_F_LOCATION, false, location);
    if (agent != NULL) built_field(body, &values, MS_F_AGENT_KEY, false, agent);
    if (content != NULL) built_field(body, &values, MS_F_CONTENT, json, content);
    char *to = (char *)body + body[0];
    memcpy(to, location, strlen(location));
    to += strlen(location);
    if (agent != NULL) memcpy(to, agent, strlen(agent));
    if (agent != NULL) to += strlen(agent);
    if (content != NULL) memcpy(to, content, strlen(content));
    unsigned kind = type == MS_T_NONE ? KIND_GAP : KIND_MESSAGE;
    built_record(b, kind, (unsigned)type, flags, seq, time, body[0] + values);
}

static test_store built_store(const built *b)
{
    test_store s = log_at(4096, MS_ENGINE_AUTO);
    put(&s, b->bytes, b->len);
    s.log.mode = MS_LOG_READ;
    s.log.events.event = NULL;
    return s;
}

/* The texts of all messages in a row, with their numbers; result: of the cursor. */
static void must_tell_as(ms_store *store, const char *want, ms_result result)
{
    char text[400] = "";
    size_t used = 0;
    ms_query all = query_of(no_str(), 0);
    ms_cursor it;
    const ms_msg *msg;
    assert_int_equal(ms_query_open(store, &all, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL) {
        ms_str content = ms_content(msg).text;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%llu %.*s",
                                 used != 0 ? ", " : "", (unsigned long long)ms_seq(msg),
                                 (int)content.len, content.ptr);
    }
    assert_int_equal(ms_cursor_close(&it, NULL), result);
    assert_string_equal(text, want);
}

static void must_tell(ms_store *store, const char *want)
{
    must_tell_as(store, want, MS_OK);
}

/* A reader and a writer of the file find the same messages; then it goes on. */
static void must_read_built(const built *b, const char *want)
{
    test_store s = built_store(b);
    snapshot before = take(&s);
    log_open(&s);
    must_tell(s.store, want);
    assert_int_equal(ms_selfcheck(s.store, NULL), MS_OK);
    ms_close(s.store);
    nothing_changed("a file built by hand", &s, &before);
    for (int i = 0; i < 3; i++) {
        s.log.mode = MS_LOG_WRITE;
        log_open(&s);
        assert_int_equal(ms_selfcheck(s.store, NULL), MS_OK);
        if (i == 0) must_tell(s.store, want);
        append_text(s.store, "and more");
        ms_close(s.store);
    }
    s.store = NULL;
    store_close(&s);
}

static void a_file_built_by_hand_is_read(void **state)
{
    static built b;
    (void)state;
    built_head(&b);
    must_read_built(&b, "");
    built_message(&b, MS_T_TASK, MS_FLAG_COMMIT, 1, SECONDS(1.5), "job", NULL, "one",
                  false);
    built_message(&b, MS_T_OBSERVATION, 0, 2, INT64_MIN, "job", "w1", "[2]", true);
    built_message(&b, MS_T_FINAL, MS_FLAG_COMMIT, 7, SECONDS(2.5), "other", "w1", "seven",
                  false);
    must_read_built(&b, "1 one, 2 [2], 7 seven");
    built_mark(&b);
    must_read_built(&b, "1 one, 2 [2], 7 seven");

    test_store s = built_store(&b);
    const ms_msg *msg;
    int64_t time;
    log_open(&s);
    ms_log_info info = log_info_of(s.store);
    assert_memory_equal(info.id, "an id of 16 byte", 16);
    assert_true(info.created_ns == SECONDS(1700000000));
    assert_int_equal(info.end, b.len);
    assert_int_equal(ms_get_by_seq(s.store, 2, NULL, &msg, NULL), MS_OK);
    assert_true(ms_content(msg).json && !ms_time(msg, &time));
    assert_true(ms_str_equal(test_agent_key(msg), MS_STR("w1")));
    assert_int_equal(ms_type_of(msg), MS_T_OBSERVATION);
    assert_int_equal(ms_get_by_seq(s.store, 7, NULL, &msg, NULL), MS_OK);
    assert_true(ms_time(msg, &time) && time == SECONDS(2.5));
    ms_query q = query_of(MS_STR("job"), 0);
    assert_int_equal(count_of(s.store, &q), 2);
    store_close(&s);
}

/* An append without its last record, and records of another file, of another place, and
 * with a check from before the file had its id. */
static void an_append_is_not_shown_when_its_commit_is_missing(void **state)
{
    static built b;
    (void)state;
    built_head(&b);
    built_message(&b, MS_T_FINAL, MS_FLAG_COMMIT, 1, 1, "job", NULL, "one", false);
    built_message(&b, MS_T_FINAL, 0, 2, 1, "job", NULL, "two", false);
    must_read_built(&b, "1 one");
    built_message(&b, MS_T_FINAL, 0, 3, 1, "job", NULL, "three", false);
    must_read_built(&b, "1 one");
    built_message(&b, MS_T_FINAL, MS_FLAG_COMMIT, 4, 1, "job", NULL, "four", false);
    must_read_built(&b, "1 one, 2 two, 3 three, 4 four");
}

static void a_record_is_not_shown_when_it_is_of_another_file_or_place(void **state)
{
    static built b;
    (void)state;
    for (int i = 0; i < 3; i++) {
        built_head(&b);
        built_message(&b, MS_T_FINAL, MS_FLAG_COMMIT, 1, 1, "job", NULL, "one", false);
        unsigned char *r = b.bytes + b.len;
        built_message(&b, MS_T_FINAL, MS_FLAG_COMMIT, 2, 1, "job", NULL, "two", false);
        uint64_t at = (uint64_t)(r - b.bytes);
        unsigned char id[16];
        memcpy(id, b.bytes + 24, 16);
        if (i == 0) id[15] ^= 1;
        if (i == 1) at += 8;
        if (i == 2) put32(r + 28, get32(r + 28) ^ UINT32_C(0x12345678));
        else put32(r + 28, header_check(id, at, r));
        must_read_built(&b, "1 one");
    }
}


/* ---- dead bytes, and bytes that are missing ---- */

/* The machine on which files are built by hand; a test restarts it. */
static uint64_t boot_now;

static uint64_t boot_says(void *ctx)
{
    (void)ctx;
    return boot_now;
}

static ms_os built_os(void)
{
    ms_os os = *ms_os_default();
    os.stat = stat_without_name;
    os.boot = boot_says;
    boot_now = 1001;
    return os;
}

/* A writer of this machine, whose watermark stands at the end of what was built. */
static void built_line(built *b)
{
    unsigned char *line = b->bytes + 1152;
    put64(line, 1001);
    put64(line + 8, 7);
    put64(line + 16, 7);
    put64(line + 24, 77);
    put32(line + 32, 5);
    put32(line + 36, crc32c(0, line, 36));
    built_mark(b);
}

typedef struct zeroed {
    unsigned n;
    uint64_t offset, length;
} zeroed;

static void count_zeroed(void *ctx, const ms_log_event *event)
{
    zeroed *z = (zeroed *)ctx;
    if (event->kind != MS_LOG_ZEROED) fail_msg("event %d", (int)event->kind);
    z->n++;
    z->offset = event->offset;
    z->length = event->length;
}

static bool is_zero(const char *bytes, size_t from, size_t upto)
{
    for (; from < upto; from++)
        if (bytes[from] != 0) return false;
    return true;
}

/* A message, a hole, and whole appends of a writer whose power was lost. */
typedef struct relic {
    size_t hole;
    unsigned char fill;
    bool line;                /* the watermark is trusted */
    size_t more;              /* appends of the writer that zeroes */
    size_t end, dead_end;
} relic;

static void build_relic(built *b, relic *x)
{
    built_head(b);
    built_message(b, MS_T_FINAL, MS_FLAG_COMMIT, 1, 1, "job", NULL, "one", false);
    x->end = b->len;
    if (x->line) built_line(b);
    memset(b->bytes + b->len, x->fill, x->hole);
    b->len += x->hole;
    built_message(b, MS_T_FINAL, MS_FLAG_COMMIT, 3, 1, "job", NULL, "dead three", false);
    built_message(b, MS_T_FINAL, MS_FLAG_COMMIT, 4, 1, "job", NULL, "dead four", false);
    x->dead_end = b->len;
    while (b->bytes[x->dead_end - 1] == 0) x->dead_end--;
    x->dead_end = (x->dead_end + 7) / 8 * 8;
}

/* What readers of the relic find; they write nothing. */
static void readers_stop_at_the_end(test_store *s, const relic *x)
{
    ms_log_report report;
    snapshot before = take(s);
    s->log.mode = MS_LOG_READ;
    log_open(s);
    must_tell(s->store, "1 one");
    ms_log_info info = log_info_of(s->store);
    assert_int_equal(info.end, x->end);
    assert_int_equal(info.damaged + info.damaged_bytes + info.zeroed_bytes, 0);
    ms_close(s->store);
    assert_int_equal(ms_log_verify(&s->log, &report, NULL), MS_OK);
    assert_int_equal(report.messages, 1);
    assert_int_equal(report.end, x->end);
    assert_int_equal(report.torn_bytes, x->line ? 0 : x->dead_end - x->end);
    s->log.opening = MS_OPEN_STRICT;
    ms_result result = ms_log_open(&s->store, &s->log, NULL);
    assert_int_equal(result, x->line ? MS_OK : MS_E_DAMAGED);
    ms_close(s->store);
    s->log.opening = MS_OPEN_SALVAGE;
    log_open(s);
    must_tell_as(s->store, "1 one, 3 dead three, 4 dead four", MS_E_DAMAGED);
    ms_close(s->store);
    s->log.opening = MS_OPEN_NORMAL;
    nothing_changed("a file with dead bytes", s, &before);
}

/* Opened for writing the file keeps its bytes; the first append zeroes the dead ones. */
static void the_writer_zeroes(test_store *s, const built *b, const relic *x)
{
    zeroed z = {0, 0, 0};
    size_t size;
    s->log.mode = MS_LOG_WRITE;
    s->log.events.event = count_zeroed;
    s->log.events.ctx = &z;
    log_open(s);
    must_tell(s->store, "1 one");
    ms_close(s->store);
    char *bytes = read_file(s->path, &size);
    assert_true(size >= b->len);
    assert_memory_equal(bytes + 4096, b->bytes + 4096, b->len - 4096);
    free(bytes);
    assert_int_equal(z.n, 0);

    log_open(s);
    for (size_t i = 0; i < x->more; i++)
        assert_int_equal(append_text(s->store, "new"), 2 + i);
    ms_log_info info = log_info_of(s->store);
    assert_int_equal(info.zeroed_bytes, x->dead_end - x->end);
    assert_int_equal(z.n, 1);
    assert_int_equal(z.offset, x->end);
    assert_int_equal(z.length, x->dead_end - x->end);
    bytes = read_file(s->path, &size);
    assert_memory_equal(bytes + 4096, b->bytes + 4096, x->end - 4096);
    assert_true(is_zero(bytes, (size_t)info.end, size));
    walk w = parse_log(bytes, size, false);
    assert_int_equal(w.messages, 1 + x->more);
    assert_int_equal(get32((unsigned char *)bytes + 1184), x->line ? 6 : 1);
    walk_free(&w);
    free(bytes);
    ms_close(s->store);
    s->store = NULL;
    s->log.events.event = NULL;
}

/* No message of the relic in what is left of a file; false: it was refused. */
static bool must_stay_dead(test_store *s, size_t sector)
{
    ms_query all = query_of(no_str(), 0);
    ms_cursor it;
    const ms_msg *msg;
    ms_result result = ms_log_open(&s->store, &s->log, NULL);
    if (result == MS_E_DAMAGED || result == MS_E_FOREIGN || result == MS_E_NOT_FOUND) {
        if (sector > 0) fail_msg("sector %zu: refused", sector);
        return false;
    }
    assert_int_equal(result, MS_OK);
    assert_int_equal(ms_query_open(s->store, &all, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL) {
        ms_str text = ms_content(msg).text;
        if (!ms_str_equal(text, MS_STR("one")) && !ms_str_equal(text, MS_STR("new")))
            fail_msg("sector %zu: %.*s", sector, (int)text.len, text.ptr);
    }
    (void)ms_cursor_close(&it, NULL);
    if (s->log.mode == MS_LOG_WRITE) append_text(s->store, "new");
    ms_close(s->store);
    s->store = NULL;
    return true;
}

static void rot(char *bytes, const char *sound, size_t sector, int how)
{
    char *at = bytes + 512 * sector;
    memcpy(at, sound + 512 * sector, 512);
    if (how == 0) memset(at, 0, 512);
    if (how == 1) memset(at, 0xff, 512);
    for (size_t i = 0; how == 2 && i < 512; i += 24) at[i] ^= 8;
}

/* Each sector of the file that the writer has left rots in turn. */
static void rot_brings_nothing_back(test_store *s, const relic *x)
{
    size_t size;
    char *sound = read_file(s->path, &size), *bytes = read_file(s->path, &size);
    size_t sectors = x->dead_end / 512 + 2, step = test_scale() < 100 ? 3 : 1;
    if (sectors > size / 512) sectors = size / 512;
    for (size_t sector = 0; sector < sectors; sector++) {
        for (int how = (int)((sector + x->hole) % step); how < 3; how += (int)step) {
            rot(bytes, sound, sector, how);
            for (int i = 0; i < 5; i++) { /* a writer at the end */
                put(s, bytes, size);
                boot_now = i % 2 ? 1002 : 1001;
                s->log.mode = i < 4 ? MS_LOG_READ : MS_LOG_WRITE;
                s->log.opening = i / 2 == 1 ? MS_OPEN_SALVAGE : MS_OPEN_NORMAL;
                if (!must_stay_dead(s, sector) || i < 4) continue;
                s->log.mode = MS_LOG_READ;
                must_stay_dead(s, sector);
            }
        }
        memcpy(bytes + 512 * sector, sound + 512 * sector, 512);
    }
    boot_now = 1001;
    free(sound);
    free(bytes);
}

static void dead_bytes_stay_dead_when_a_writer_has_zeroed_them(void **state)
{
    static const size_t holes[] = {8, 40, 512, 3000};
    static built b;
    (void)state;
    for (size_t i = 0; i < 32; i++) {
        relic x = {holes[i / 2 % 4], i % 2 ? 0x5a : 0, i / 8 % 2 == 1,
                   i / 16 ? 30 : 1, 0, 0};
        build_relic(&b, &x);
        test_store s = built_store(&b);
        ms_os os = built_os();
        s.log.os = &os;
        readers_stop_at_the_end(&s, &x);
        the_writer_zeroes(&s, &b, &x);
        rot_brings_nothing_back(&s, &x);
        store_close(&s);
    }
}

static uint64_t head_word(const test_store *s, size_t at)
{
    size_t size;
    char *bytes = read_file(s->path, &size);
    assert_true(bytes != NULL && size >= 4096);
    uint64_t word = get64((unsigned char *)bytes + at);
    free(bytes);
    return word;
}

/* The sync, or the write, of the zeros fails: nothing is appended, the word at 1232 has
 * the boot number, and a later append zeroes again. After a restart the word is stale. */
static void zeros_are_synced_before_the_first_append_when_bytes_are_dead(void **state)
{
    static built b;
    (void)state;
    for (int how = 0; how < 6; how++) {
        relic x = {40, 0x5a, how % 2 == 1, 1, 0, 0};
        ms_envelope m = ms_user_message(ms_text("new"));
        bool sync = how / 2 == 0, restarted = how / 2 == 2;
        trip t;
        build_relic(&b, &x);
        test_store s = built_store(&b);
        ms_os os = built_os();
        trip_init(&t, &os);
        s.log.os = &t.os;
        s.log.mode = MS_LOG_WRITE;
        s.log.engine = MS_ENGINE_WRITE;
        log_open(&s);
        trip_at(&t, sync ? TRIP_BIT(SYNC) : TRIP_BIT(WRITE), EIO, false);
        if (!sync) t.at = 2; /* the first is the word at 1232 */
        ms_result result = ms_append(s.store, MS_STR("job"), &m, NULL, NULL);
        assert_int_equal(result, sync ? MS_E_POISONED : MS_E_IO);
        assert_int_equal(t.hits, 1);
        assert_int_equal(head_word(&s, 1232), 1001);
        must_tell(s.store, "1 one");
        ms_close(s.store);
        assert_int_equal(head_word(&s, 1232), 1001);
        if (restarted) boot_now = 1002;
        log_open(&s);
        trip_at(&t, TRIP_BIT(SYNC), EIO, false);
        t.how = TRIP_NONE;
        assert_int_equal(ms_append(s.store, MS_STR("job"), &m, NULL, NULL), MS_OK);
        assert_int_equal(t.calls, 1);
        must_tell(s.store, "1 one, 2 new");
        if (!restarted) assert_int_equal(head_word(&s, 1232), 0);
        size_t size;
        uint64_t end = log_info_of(s.store).end;
        char *bytes = read_file(s.path, &size);
        assert_true(is_zero(bytes, (size_t)end, size));
        free(bytes);
        ms_close(s.store);
        s.store = NULL;
        store_close(&s);
    }
}

/* Bytes that a handle must report as missing or damaged. */
typedef struct harm {
    uint64_t ranges, bytes;
    bool exactly;
} harm;

static void must_count_harm(const harm *h, uint64_t ranges, uint64_t bytes,
                            const char *what)
{
    if (ranges < h->ranges || bytes < h->bytes ||
        (h->exactly && (ranges > h->ranges || bytes > h->bytes)))
        fail_msg("%s: %llu ranges, %llu bytes; should be %llu, %llu", what,
                 (unsigned long long)ranges, (unsigned long long)bytes,
                 (unsigned long long)h->ranges, (unsigned long long)h->bytes);
}

/* One handle: its figures, and a cursor over everything, which finds n messages. */
static void handle_must_report(ms_store *store, const harm *h, size_t n, const char *what)
{
    ms_query all = query_of(no_str(), 0);
    ms_cursor it;
    ms_log_info info = log_info_of(store);
    must_count_harm(h, info.damaged, info.damaged_bytes, what);
    assert_int_equal(ms_query_open(store, &all, &it, NULL), MS_OK);
    size_t found = 0;
    while (ms_next(&it) != NULL) found++;
    if (found != n) fail_msg("%s: %zu messages, not %zu", what, found, n);
    if (ms_cursor_close(&it, NULL) != MS_E_DAMAGED)
        fail_msg("%s: a cursor over everything reports no damage", what);
}

/* Every handle that opens the file reports it, before a restart and after one. */
static void must_report(test_store *s, const harm *h, size_t n)
{
    ms_log_report report;
    snapshot before = take(s);
    harm some = {1, 1, false}; /* salvage ends at the last byte that is not zero */
    for (int restarted = 0; restarted < 2; restarted++) {
        boot_now = restarted ? 1002 : 1001;
        s->log.mode = MS_LOG_READ;
        for (int i = 0; i < 2; i++) {
            s->log.opening = i ? MS_OPEN_SALVAGE : MS_OPEN_NORMAL;
            log_open(s);
            handle_must_report(s->store, i ? &some : h, n, i ? "salvage" : "a reader");
            ms_close(s->store);
        }
        s->log.opening = MS_OPEN_STRICT;
        assert_int_equal(ms_log_open(&s->store, &s->log, NULL), MS_E_DAMAGED);
        s->log.opening = MS_OPEN_NORMAL;
        assert_int_equal(ms_log_verify(&s->log, &report, NULL), MS_E_DAMAGED);
        must_count_harm(h, report.damaged, report.damaged_bytes, "verify");
        assert_int_equal(report.messages, n);
    }
    nothing_changed("a file with damage", s, &before);
    boot_now = 1001;
    s->log.mode = MS_LOG_WRITE;
    log_open(s);
    handle_must_report(s->store, h, n, "a writer");
    ms_close(s->store);
    s->store = NULL;
}

/* Writers go on for several segments, and a level of them. */
static void must_report_for_long(test_store *s, const harm *h, size_t n)
{
    char text[501];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    uint64_t segments = 0;
    must_report(s, h, n);
    for (int round = 0; segments < 12; round++) {
        s->log.mode = MS_LOG_WRITE;
        log_open(s);
        for (int i = 0; i < 1 + round * 3; i++, n++) append_text(s->store, text);
        handle_must_report(s->store, h, n, "the writer");
        segments = log_info_of(s->store).segments;
        ms_close(s->store);
        must_report(s, h, n);
    }
}

static void a_lost_record_is_damage_to_every_later_handle(void **state)
{
    static built b;
    (void)state;
    for (int line = 0; line < 2; line++) {
        harm h = {1, 0, true};
        built_head(&b);
        built_message(&b, MS_T_FINAL, MS_FLAG_COMMIT, 1, 1, "job", NULL, "one", false);
        h.bytes = 1000;
        built_lost(&b, b.len + h.bytes);
        built_message(&b, MS_T_FINAL, MS_FLAG_COMMIT, 4, 1, "job", NULL, "four", false);
        if (line) built_line(&b);
        test_store s = built_store(&b);
        ms_os os = built_os();
        s.log.os = &os;
        must_report_for_long(&s, &h, 2);
        store_close(&s);
    }
}

/* Events of damage are expected. */
static test_store damaged_log(ms_os *os, size_t n)
{
    test_store s = log_at(4096, MS_ENGINE_AUTO);
    *os = built_os();
    s.log.os = os;
    s.log.events.event = NULL;
    log_open(&s);
    for (size_t i = 0; i < n; i++) append_text(s.store, "a message of the log");
    ms_close(s.store);
    s.store = NULL;
    s.log.mode = MS_LOG_WRITE;
    return s;
}

/* Where the first LOST record stands; 0: there is none. */
static uint64_t find_lost(const char *bytes, size_t size)
{
    walk w;
    memset(&w, 0, sizeof w);
    w.bytes = (const unsigned char *)bytes;
    w.size = w.end = size;
    w.id = w.bytes + 24;
    for (uint64_t at = 4096; at + 48 <= size; at += 8)
        if (w.bytes[at + 4] == KIND_LOST && is_record(&w, at)) return at;
    return 0;
}

/* A durable file is truncated before one of its messages, or inside of its header, or of
 * its body, whose header then shows an end after the end of the file. The writer that goes
 * on leaves a record of that, and what it appends is read. */
static void a_truncated_file_gets_a_lost_record_when_a_writer_goes_on(void **state)
{
    static const size_t keep[] = {99, 70, 3, 50}, inside[] = {0, 24, 40};
    (void)state;
    for (size_t i = 0; i < 12; i++) {
        ms_os os;
        test_store s = damaged_log(&os, 100);
        size_t size, k = keep[i % 4], part = inside[i / 4];
        char *bytes = read_file(s.path, &size);
        walk w = parse_log(bytes, size, false);
        uint64_t end = 0, seq = 0, leaf = 0, at = w.records[k].offset;
        uint64_t least = at, most = part == 0 ? at : at + w.records[k].padded;
        assert_true(parse_slots(&w, &end, &seq, &leaf) && end == w.end && seq == 100);
        walk_free(&w);
        free(bytes);
        assert_int_equal(truncate(s.path, (off_t)(at + part)), 0);
        harm h = {1, end - most, part == 0};
        boot_now = 1001 + (uint64_t)i / 2 % 2;
        log_open(&s);
        ms_log_info info = log_info_of(s.store);
        must_count_harm(&h, info.damaged, info.damaged_bytes, "before it is written to");
        assert_int_equal(info.lost_end, end);
        assert_in_range(info.end, least, most);
        assert_int_equal(append_text(s.store, "new"), 101);
        ms_close(s.store);
        s.store = NULL;
        bytes = read_file(s.path, &size);
        uint64_t lost = find_lost(bytes, size);
        assert_in_range(lost, least, most);
        assert_int_equal(get64((unsigned char *)bytes + lost + 32), end);
        free(bytes);
        must_report_for_long(&s, &h, k + 1);
        bytes = read_file(s.path, &size);
        if (part == 0) {
            w = parse_log(bytes, size, false);
            assert_int_equal(w.damaged, 1);
            assert_int_equal(w.damaged_bytes, h.bytes);
            walk_free(&w);
        }
        free(bytes);
        store_close(&s);
    }
}

/* Each call of a writer that finds a truncated file fails once. Whatever it appends in
 * the end, later handles report what is missing. */
static void a_lost_record_is_written_when_an_earlier_try_has_failed(void **state)
{
    static const unsigned kinds[] = {TRIP_BIT(WRITE), TRIP_BIT(SYNC), TRIP_BIT(ALLOCATE)};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        for (uint64_t at = 1, hits = 1; hits > 0; at++) {
            ms_os os;
            trip t;
            ms_envelope m = ms_user_message(ms_text("new"));
            test_store s = damaged_log(&os, 20);
            size_t size, n = 10;
            char *bytes = read_file(s.path, &size);
            walk w = parse_log(bytes, size, false);
            assert_int_equal(truncate(s.path, (off_t)w.records[n].offset), 0);
            harm h = {1, w.end - w.records[n].offset, false};
            walk_free(&w);
            free(bytes);
            trip_init(&t, &os);
            s.log.os = &t.os;
            s.log.engine = MS_ENGINE_WRITE;
            log_open(&s);
            trip_at(&t, kinds[i], EIO, false);
            t.at = at;
            for (int k = 0; k < 3; k++)
                n += ms_append(s.store, MS_STR("job"), &m, NULL, NULL) == MS_OK;
            hits = t.hits;
            ms_close(s.store);
            s.store = NULL;
            trip_at(&t, 0, 0, false);
            must_report(&s, &h, n);
            log_open(&s);
            append_text(s.store, "at last");
            ms_close(s.store);
            s.store = NULL;
            must_report(&s, &h, n + 1);
            store_close(&s);
        }
    }
}

/* Of two shared writers that have found a truncated file one writes the record. */
static void a_lost_record_is_written_once_when_writers_share_the_file(void **state)
{
    (void)state;
    for (int dies = 0; dies < 2; dies++) {
        ms_os os;
        ms_store *other;
        test_store s = damaged_log(&os, 20);
        size_t size;
        char *bytes = read_file(s.path, &size);
        walk w = parse_log(bytes, size, false);
        assert_int_equal(truncate(s.path, (off_t)w.records[10].offset), 0);
        walk_free(&w);
        free(bytes);
        s.log.shared = true;
        log_open(&s);
        assert_int_equal(ms_log_open(&other, &s.log, NULL), MS_OK);
        for (int i = 0; i < 3; i++) {
            append_text(other, "of the other");
            append_text(s.store, "of the one");
            if (!dies || i > 0) continue; /* a third one, while it stored */
            bytes = read_file(s.path, &size);
            put64((unsigned char *)bytes, get64((unsigned char *)bytes + 1024) + 64);
            FILE *file = fopen(s.path, "r+b");
            assert_true(file != NULL && fseek(file, 1208, SEEK_SET) == 0 &&
                        fwrite(bytes, 1, 8, file) == 8);
            assert_int_equal(fclose(file), 0);
            free(bytes);
        }
        ms_close(other);
        ms_close(s.store);
        s.store = NULL;
        bytes = read_file(s.path, &size);
        w = parse_log(bytes, size, false);
        assert_int_equal(w.damaged, 1);
        assert_int_equal(w.messages, 16);
        walk_free(&w);
        free(bytes);
        store_close(&s);
    }
}

/* A bit of a message in the last segment of a closed log flips, before its segment index was
 * written: each segment index from there on carries the count. */
static void damage_is_counted_in_every_later_segment_index(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        ms_os os;
        test_store s = damaged_log(&os, (size_t[]){3, 20, 120}[i / 2]);
        size_t size, n = (size_t[]){3, 20, 120}[i / 2] + 4;
        s.log.engine = i % 2 ? MS_ENGINE_MAP : MS_ENGINE_WRITE;
        log_open(&s);
        for (int k = 0; k < 4; k++) append_text(s.store, "in the last segment");
        assert_int_equal(ms_sync(s.store, NULL, NULL), MS_OK);
        ms_close(s.store);
        s.store = NULL;
        char *bytes = read_file(s.path, &size);
        walk w = parse_log(bytes, size, false);
        const parsed *p = &w.records[w.n_records - 2];
        assert_true(p->offset > w.newest_leaf && w.n_records == n);
        harm h = {1, p->padded, true};
        bytes[p->offset + p->size - 3] ^= 4;
        walk_free(&w);
        put(&s, bytes, size);
        free(bytes);
        must_report_for_long(&s, &h, n - 1);
        bytes = read_file(s.path, &size);
        uint64_t newest = get64((unsigned char *)bytes + 1088);
        const unsigned char *r = (unsigned char *)bytes + newest;
        assert_true(newest > 0 && r[4] == KIND_INDEX && r[5] == LEAF);
        assert_int_equal(get32(r + 100), 1);
        assert_int_equal(get64(r + 32), h.bytes);
        free(bytes);
        store_close(&s);
    }
}


/* ---- live words ---- */

static uint32_t epoch_of(const test_store *s) { return (uint32_t)head_word(s, 1184); }

/* The epoch, and the word at 1208, which shows that a writer may be storing. */
static void a_writer_has_an_epoch_when_it_has_written(void **state)
{
    test_store s = log_at(4096, MS_ENGINE_AUTO);
    (void)state;
    for (uint32_t i = 1; i < 6; i++) {
        s.log.mode = MS_LOG_CREATE;
        log_open(&s);
        assert_int_equal(epoch_of(&s), i - 1);
        assert_int_equal(head_word(&s, 1208), i > 1 ? head_word(&s, 1024) : 0);
        append_text(s.store, "x");
        append_text(s.store, "y");
        assert_int_equal(epoch_of(&s), i);
        struct stat about;
        assert_int_equal(stat(s.path, &about), 0);
        assert_int_equal(head_word(&s, 1160), about.st_dev);
        assert_int_equal(head_word(&s, 1168), about.st_ino);
        assert_int_equal(head_word(&s, 1176), 0);
        assert_true(head_word(&s, 1208) == UINT64_MAX);
        ms_close(s.store);
        assert_int_equal(head_word(&s, 1208), head_word(&s, 1024));
        assert_int_equal(head_word(&s, 1200), getpid());
    }
    s.store = NULL;
    store_close(&s);
}

/* A shared writer goes on in the epoch of the others; after one that died while it stored
 * it becomes the writer itself, and zeroes what that one has left. */
static void a_shared_writer_begins_anew_when_another_died_while_it_stored(void **state)
{
    test_store s = log_at(4096, MS_ENGINE_AUTO);
    (void)state;
    s.log.shared = true;
    log_open(&s);
    append_text(s.store, "x");
    for (int i = 0; i < 3; i++) {
        ms_log_desc desc = s.log;
        ms_store *other;
        assert_int_equal(ms_log_open(&other, &desc, NULL), MS_OK);
        append_text(other, "y");
        append_text(s.store, "z");
        ms_close(other);
        assert_int_equal(epoch_of(&s), 1);
        assert_true(head_word(&s, 1208) <= head_word(&s, 1024));
    }
    ms_close(s.store);
    size_t size;
    char *bytes = read_file(s.path, &size);
    uint64_t end = get64((unsigned char *)bytes + 1024);
    memset(bytes + end + 16, 0x5a, 20);
    put64((unsigned char *)bytes + 1208, end + 64);
    FILE *file = fopen(s.path, "r+b");
    assert_true(file != NULL && fwrite(bytes, 1, size, file) == size);
    assert_int_equal(fclose(file), 0);
    free(bytes);
    zeroed z = {0, 0, 0};
    s.log.events.event = count_zeroed;
    s.log.events.ctx = &z;
    log_open(&s);
    append_text(s.store, "after it");
    assert_int_equal(z.n, 1);
    assert_int_equal(z.offset, end);
    assert_int_equal(z.length, 40);
    assert_int_equal(log_info_of(s.store).zeroed_bytes, 40);
    assert_int_equal(epoch_of(&s), 2);
    assert_true(head_word(&s, 1208) <= head_word(&s, 1024));
    must_have(s.store, 8);
    store_close(&s);
}

/* An explicit sync and a close sync their checkpoint, too. */
static void a_checkpoint_is_synced_when_a_caller_syncs_or_closes(void **state)
{
    trip t;
    test_store s = log_at(4096, MS_ENGINE_WRITE);
    (void)state;
    trip_init(&t, ms_os_default());
    t.kinds = TRIP_BIT(SYNC);
    s.log.os = &t.os;
    for (int each = 0; each < 2; each++) {
        ms_close(s.store);
        s.log.sync = each ? MS_SYNC_EACH : MS_SYNC_NONE;
        log_open(&s);
        t.calls = 0;
        append_text(s.store, "first");
        assert_int_equal(t.calls, each ? 1 : 0);
        append_text(s.store, "second");
        assert_int_equal(t.calls, each ? 2 : 0);
        t.calls = 0;
        for (int i = 0; i < 2; i++) { /* the second one has nothing to do */
            assert_int_equal(ms_sync(s.store, NULL, NULL), MS_OK);
            assert_int_equal(t.calls, 2);
            assert_int_equal(log_info_of(s.store).durable_end, log_info_of(s.store).end);
        }
        append_text(s.store, "third");
        t.calls = 0;
        ms_close(s.store);
        assert_int_equal(t.calls, 2);
        log_open(&s);
        assert_int_equal(ms_sync(s.store, NULL, NULL), MS_OK);
    }
    store_close(&s);
}

/* Numbers that a copy notes are not given again. */
static void a_gap_built_by_hand_keeps_its_number(void **state)
{
    static built b;
    ms_stat stat;
    (void)state;
    built_head(&b);
    built_message(&b, MS_T_FINAL, MS_FLAG_COMMIT, 1, 1, "job", NULL, "one", false);
    built_message(&b, MS_T_NONE, MS_FLAG_COMMIT, 5, 3, "job", NULL, NULL, false);
    must_read_built(&b, "1 one");
    test_store s = built_store(&b);
    log_open(&s);
    assert_int_equal(ms_store_stat(s.store, &stat, NULL), MS_OK);
    assert_int_equal(stat.last_seq, 1);
    ms_close(s.store);
    s.log.mode = MS_LOG_WRITE;
    log_open(&s);
    assert_int_equal(append_text(s.store, "six"), 6);
    store_close(&s);
}

/* What a reader does not know: skipped below 128, refused from there on. */
static void unknown_kinds_are_skipped_or_refused(void **state)
{
    static built b;
    (void)state;
    built_head(&b);
    put32(b.bytes + 16, 0xffffffff);         /* compatible flags */
    put32(b.bytes + 52, crc32c(0, b.bytes, 52));
    built_message(&b, MS_T_FINAL, MS_FLAG_COMMIT, 1, 1, "job", NULL, "one", false);
    memcpy(b.bytes + b.len + 32, "whatever this is, it has a length", 33);
    built_record(&b, 100, 200, MS_FLAG_COMMIT, 1, 5, 33);
    built_message(&b, MS_T_FINAL, MS_FLAG_COMMIT, 2, 1, "job", NULL, "two", false);
    must_read_built(&b, "1 one, 2 two");
    memcpy(b.bytes + b.len + 32, "whatever this is, it has a length", 33);
    built_record(&b, 200, 1, MS_FLAG_COMMIT, 2, 5, 33);
    built_message(&b, MS_T_FINAL, MS_FLAG_COMMIT, 3, 1, "job", NULL, "three", false);
    for (int marked = 0; marked < 2; marked++) {
        test_store s = built_store(&b);
        must_refuse("an unknown kind", &s, MS_LOG_READ, MS_E_FOREIGN, MS_E_FOREIGN);
        must_refuse("an unknown kind", &s, MS_LOG_WRITE, MS_E_FOREIGN, MS_E_FOREIGN);
        store_close(&s);
        built_mark(&b);
    }
}

/* Another version, and what this one may not ignore, with checks that fit. */
static void another_format_is_refused(void **state)
{
    static const struct { const char *name, *part; size_t at; uint32_t value; } rows[] = {
        {"version 3", "has version 3, this library reads version 2", 8, 3},
        {"version 1", "has version 1, this library reads version 2", 8, 1},
        {"version 0", "version 0", 8, 0},
        {"version of the future", "version", 8, 0x01000000},
        {"incompatible flag 0", "flag", 20, 1},
        {"incompatible flag 31", "flag", 20, UINT32_C(1) << 31},
        {"another head size", "8192", 12, 8192},
        {"another kind of check", "2", 48, 2},
    };
    test_store s = closed_log();
    size_t size;
    unsigned char *bytes = (unsigned char *)read_file(s.path, &size);
    (void)state;
    assert_non_null(bytes);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t old = get32(bytes + rows[i].at);
        ms_log_report report;
        ms_error err;
        put32(bytes + rows[i].at, rows[i].value);
        put32(bytes + 52, crc32c(0, bytes, 52));
        put(&s, bytes, size);
        must_be_foreign(rows[i].name, &s, MS_E_FOREIGN);
        assert_int_equal(ms_log_verify(&s.log, &report, &err), MS_E_FOREIGN);
        if (!has_text(err.message, rows[i].part))
            fail_msg("%s: \"%s\"", rows[i].name, err.message);
        put32(bytes + rows[i].at, old);
    }
    put32(bytes + 52, crc32c(0, bytes, 52));
    put(&s, bytes, size);
    log_open(&s);
    must_have(s.store, 100);
    free(bytes);
    store_close(&s);
}


/* ---- kept files ----
 * The files in tests/golden are of this version, and later versions read them: they are
 * not changed once it is released. What is in them follows from a number; these functions
 * must not change either. version1.msl is of a version that never was released, and is
 * refused. */

static uint64_t golden_next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static ms_envelope golden_message(uint64_t *state, char text[400])
{
    static const char *const locations[] = {"job_1", "job_2", "caf\xc3\xa9"};
    static const char *const agents[] = {NULL, "planner", "worker"};
    ms_type type = (ms_type)(1 + golden_next(state) % 24);
    size_t len = (size_t)(golden_next(state) % 300);
    for (size_t i = 0; i < len; i++) text[i] = (char)('a' + (i + type) % 26);
    text[len] = '\0';
    ms_envelope m = message_of(type, ms_str_n(text, len));
    m.location = ms_str_of(locations[golden_next(state) % 3]);
    m.agent_key = ms_str_of(agents[golden_next(state) % 3]);
    m.has_time = golden_next(state) % 4 != 0;
    m.time_ns = m.has_time ? (int64_t)(golden_next(state) % 1000) * 250000000 : 0;
    if (golden_next(state) % 5 == 0) m.turn_id = MS_STR("turn");
    if (golden_next(state) % 5 == 0) m.extra = MS_STR("{\"a\":[1.50,null]}");
    if (golden_next(state) % 7 == 0) m.role = MS_ROLE_DEVELOPER;
    return m;
}

typedef struct golden {
    const char *name;
    uint64_t seed;
    size_t segment;
    size_t runs, each;        /* openings, and appends in each of them */
    bool torn;                /* each run ends in the middle of an append */
    size_t newest;            /* rewritten at the end with this rule; 0: not */
} golden;

static const golden goldens[] = {
    {"plain.msl", 1, 0, 1, 60, false, 0},
    {"segments.msl", 2, 1024, 3, 60, false, 0},
    {"torn.msl", 3, 4096, 4, 25, true, 0},
    {"gaps.msl", 4, 4096, 2, 60, false, 12},
};

/* A run of single messages and pairs, to the twin and, where there is one, to a store. */
static void golden_run(const golden *g, uint64_t *state, twin *t, ms_store *store)
{
    for (size_t i = 0; i < g->each; i++) {
        char text[2][400], key[24];
        ms_envelope m[2];
        ms_append_opts opts;
        memset(&opts, 0, sizeof opts);
        m[0] = golden_message(state, text[0]);
        m[1] = golden_message(state, text[1]);
        snprintf(key, sizeof key, "key %zu", t->count);
        if (i % 4 == 0) m[0].key = ms_str_of(key);
        size_t n = 1 + i % 3 / 2;
        uint64_t seqs[2] = {twin_last_seq(t) + 1, twin_last_seq(t) + 2};
        if (store != NULL) twin_append_both(t, store, m, n, &opts, false);
        else twin_add(t, m, n, &opts, seqs);
    }
}

/* What is in a file. */
static void golden_content(const golden *g, twin *t)
{
    uint64_t state = g->seed;
    twin all;
    ms_keep keep;
    twin_init(&all);
    all.keep_unset_times = true;
    for (size_t run = 0; run < g->runs; run++) golden_run(g, &state, &all, NULL);
    memset(&keep, 0, sizeof keep);
    keep.newest = g->newest;
    twin_init(t);
    twin_copy(t, &all, &keep);
    for (size_t i = 0; i < t->count; i++) t->items[i]->size = 0;
    twin_deinit(&all);
}

static uint64_t golden_number(void *ctx)
{
    (void)ctx;
    return 1000000;
}

/* Another machine each time: what was not synced is not trusted. */
static uint64_t golden_boots;

static uint64_t golden_boot(void *ctx)
{
    (void)ctx;
    return ++golden_boots;
}

/* Leaves the open file as a power loss does: one more append is torn. */
static void golden_tear(test_store *s)
{
    ms_envelope m = ms_message(MS_T_FINAL,
                               ms_text("no sync has followed this append, of some two "
                                     "hundred bytes, of which the last twenty will not "
                                     "be there: the next writer finds a header that "
                                     "holds and a body that ends too early"));
    size_t size;
    assert_int_equal(ms_sync(s->store, NULL, NULL), MS_OK);
    must_append(s->store, MS_STR("job_1"), &m);
    size_t end = (size_t)log_info_of(s->store).end - 20;
    char *bytes = read_file(s->path, &size);
    assert_true(bytes != NULL && size >= end);
    ms_close(s->store);
    put(s, bytes, end);
    free(bytes);
}

/* Writes the file to a fresh folder and what is in it to the twin. */
static test_store golden_make(const golden *g, twin *t)
{
    static int64_t now = SECONDS(1700000000);
    static ms_os os;
    test_store s = log_at(g->segment, MS_ENGINE_WRITE);
    uint64_t state = g->seed;
    twin kept;
    ms_keep keep;
    twin_init(t);
    t->keep_unset_times = s.log.keep_unset_times = true;
    os = *ms_os_default();
    os.micros = os.process = golden_number;
    os.boot = golden_boot;
    os.stat = stat_without_name;
    golden_boots = 0;
    s.log.os = &os;
    s.log.clock = clock_at(&now);
    s.log.entropy = constant_entropy();
    s.log.events.event = NULL;
    for (size_t run = 0; run < g->runs; run++) {
        s.log.mode = MS_LOG_CREATE;
        log_open(&s);
        golden_run(g, &state, t, s.store);
        if (g->torn) golden_tear(&s);
        else ms_close(s.store);
        s.log.mode = MS_LOG_WRITE;
    }
    if (g->newest != 0) {
        twin_init(&kept);
        memset(&keep, 0, sizeof keep);
        keep.newest = g->newest;
        twin_copy(&kept, t, &keep);
        twin_deinit(t);
        *t = kept;
        log_open(&s);
        assert_int_equal(ms_log_rewrite(s.store, &s.log, true, &keep, NULL, NULL), MS_OK);
        ms_close(s.store);
    }
    s.store = NULL;
    if (g->torn) return s;
    log_open(&s);
    uint64_t end = log_info_of(s.store).end;
    ms_close(s.store);
    s.store = NULL;
    assert_int_equal(truncate(s.path, (off_t)end), 0);
    return s;
}

/* The walker above, a reader and writers find in the file what it was made of. */
static void must_be_golden(const golden *g, const char *bytes, size_t size)
{
    test_store s = log_at(4096, MS_ENGINE_AUTO);
    ms_log_report report;
    ms_error err;
    twin t;
    golden_content(g, &t);
    t.keep_unset_times = s.log.keep_unset_times = true;
    assert_true(size < 131072);
    walk w = parse_log(bytes, size, g->torn);
    uint64_t dead = w.dead_end - w.end;
    walk_must_equal(&w, &t);
    assert_int_equal(dead > 100, g->torn);
    assert_int_equal(get32(w.bytes + 1184), g->newest != 0 ? 1 : g->runs); /* epoch */
    if (g->segment == 0) assert_int_equal(w.leaves.n, 0);
    else assert_true(w.leaves.n >= 2);
    if (g->runs == 3) assert_true(w.leaves.n >= 8 && w.summaries.n >= 1);
    walk_free(&w);
    put(&s, bytes, size);
    if (ms_log_verify(&s.log, &report, &err) != MS_OK) fail_msg("%s", err.message);
    assert_int_equal(report.messages, t.count);
    assert_int_equal(report.index_damaged, 0);
    assert_int_equal(report.torn_bytes, dead);
    s.log.events.event = NULL; /* it reports what is zeroed */
    for (int i = 0; i < 4; i++) {
        s.log.mode = i == 0 ? MS_LOG_READ : MS_LOG_WRITE;
        log_open(&s);
        twin_must_equal(&t, s.store);
        for (size_t k = 0; k < t.count; k++) twin_must_place(&t, s.store, k);
        if (i != 0) golden_run(g, &(uint64_t){(uint64_t)i}, &t, s.store);
        twin_must_equal(&t, s.store);
        ms_log_info info = log_info_of(s.store);
        assert_int_equal(info.zeroed_bytes, i == 1 ? dead : 0);
        assert_int_equal(info.damaged, 0);
        ms_close(s.store);
        if (i != 0) must_parse(&s, &t);
    }
    s.store = NULL;
    twin_deinit(&t);
    store_close(&s);
}

/* A file as version 1 left it, with a message in it: an error that names both versions,
 * and no byte of it changes. */
static void a_file_of_version_1_is_refused(void **state)
{
    test_store s = log_at(4096, MS_ENGINE_AUTO);
    ms_log_report report;
    ms_error err;
    size_t size;
    char *bytes = read_file("tests/golden/version1.msl", &size);
    (void)state;
    assert_true(bytes != NULL && size > 4096);
    assert_int_equal(get32((unsigned char *)bytes + 8), 1);
    put(&s, bytes, size);
    must_be_foreign("a file of version 1", &s, MS_E_FOREIGN);
    assert_int_equal(ms_log_verify(&s.log, &report, &err), MS_E_FOREIGN);
    if (!has_text(err.message, "has version 1, this library reads version 2"))
        fail_msg("%s", err.message);
    for (int opening = 0; opening < 3; opening++) {
        s.log.mode = MS_LOG_READ;
        s.log.opening = (ms_log_opening)opening;
        assert_int_equal(ms_log_open(&s.store, &s.log, &err), MS_E_FOREIGN);
        assert_true(has_text(err.message, "version 1"));
    }
    free(bytes);
    store_close(&s);
}

static void kept_files_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof goldens / sizeof goldens[0]; i++) {
        size_t size;
        char *path = scratch_file("tests/golden", goldens[i].name);
        char *bytes = read_file(path, &size);
        if (bytes == NULL) fail_msg("no %s", path);
        must_be_golden(&goldens[i], bytes, size);
        free(bytes);
        free(path);
    }
}

/* So that what --write makes is known to be good before it is kept. */
static void files_written_now_are_as_the_kept_ones_should_be(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof goldens / sizeof goldens[0]; i++) {
        size_t size;
        twin t;
        test_store s = golden_make(&goldens[i], &t);
        char *bytes = read_file(s.path, &size);
        assert_non_null(bytes);
        must_be_golden(&goldens[i], bytes, size);
        free(bytes);
        twin_deinit(&t);
        store_close(&s);
    }
}

static int write_goldens(const char *folder)
{
    for (size_t i = 0; i < sizeof goldens / sizeof goldens[0]; i++) {
        twin t;
        size_t size;
        test_store s = golden_make(&goldens[i], &t);
        char *bytes = read_file(s.path, &size), *path;
        path = scratch_file(folder, goldens[i].name);
        if (bytes == NULL || !write_file(path, bytes, size)) {
            perror(path);
            return 1;
        }
        printf("%s: %zu bytes, %zu messages\n", path, size, t.count);
        free(path);
        free(bytes);
        twin_deinit(&t);
        store_close(&s);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_needs_a_path),
        cmocka_unit_test(a_bad_description_opens_nothing),
        cmocka_unit_test(a_missing_file_is_made_or_said_so),
        cmocka_unit_test(a_new_log_does_not_take_the_place_of_another),
        cmocka_unit_test(an_empty_file_counts_as_missing),
        cmocka_unit_test(a_reader_of_an_empty_file_sees_it_begin),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(an_image_of_an_arena_store_is_refused),
        cmocka_unit_test(what_is_no_regular_file_is_refused),
        cmocka_unit_test(a_file_of_zeros_counts_as_missing),
        cmocka_unit_test(a_log_is_refused_when_its_superblock_is_truncated),
        cmocka_unit_test(a_second_writer_reports_the_first_when_the_log_is_busy),
        cmocka_unit_test(the_lock_outlives_another_open_and_close),
        cmocka_unit_test(a_writer_waits_for_the_one_before),
        cmocka_unit_test(a_killed_writer_leaves_no_lock),
        cmocka_unit_test(a_child_of_a_dead_writer_keeps_the_lock),
        ON_LOGS(a_forked_child_is_refused),
        cmocka_unit_test(a_child_opens_its_own_handle),
        ON_LOGS(a_file_is_the_owners_alone),
        ON_LOGS(started_programs_do_not_inherit_the_file),
        ON_LOGS(a_location_is_no_path),
        cmocka_unit_test(reading_writes_nothing),
        cmocka_unit_test(reading_writes_nothing_beside_a_writer),
        cmocka_unit_test(each_call_fails_once),
        cmocka_unit_test(without_allocation_it_is_written),
        cmocka_unit_test(interrupted_calls_lose_nothing),
        cmocka_unit_test(an_interrupted_lock_is_tried_again),
        cmocka_unit_test(
            bytes_of_a_failed_sync_are_written_again_when_a_handle_syncs),
        cmocka_unit_test(
            bytes_of_a_failed_sync_stay_unconfirmed_when_they_cannot_be_written),
        cmocka_unit_test(
            a_shared_writer_stores_no_checkpoint_when_a_sync_of_another_failed),
        cmocka_unit_test(a_head_that_cannot_be_made_durable_opens_nothing),
        cmocka_unit_test(an_old_file_that_cannot_be_synced_is_not_replaced),
        cmocka_unit_test(short_reads_and_writes_go_on),
        ON_LOGS(the_bytes_are_as_the_essay_says),
        cmocka_unit_test(a_file_built_by_hand_is_read),
        cmocka_unit_test(an_append_is_not_shown_when_its_commit_is_missing),
        cmocka_unit_test(a_record_is_not_shown_when_it_is_of_another_file_or_place),
        cmocka_unit_test(dead_bytes_stay_dead_when_a_writer_has_zeroed_them),
        cmocka_unit_test(zeros_are_synced_before_the_first_append_when_bytes_are_dead),
        cmocka_unit_test(a_lost_record_is_damage_to_every_later_handle),
        cmocka_unit_test(a_truncated_file_gets_a_lost_record_when_a_writer_goes_on),
        cmocka_unit_test(a_lost_record_is_written_when_an_earlier_try_has_failed),
        cmocka_unit_test(a_lost_record_is_written_once_when_writers_share_the_file),
        cmocka_unit_test(damage_is_counted_in_every_later_segment_index),
        cmocka_unit_test(a_writer_has_an_epoch_when_it_has_written),
        cmocka_unit_test(a_shared_writer_begins_anew_when_another_died_while_it_stored),
        cmocka_unit_test(a_checkpoint_is_synced_when_a_caller_syncs_or_closes),
        cmocka_unit_test(a_gap_built_by_hand_keeps_its_number),
        cmocka_unit_test(unknown_kinds_are_skipped_or_refused),
        cmocka_unit_test(another_format_is_refused),
        cmocka_unit_test(a_file_of_version_1_is_refused),
        cmocka_unit_test(kept_files_are_read),
        cmocka_unit_test(files_written_now_are_as_the_kept_ones_should_be),
    };
    if (argc > 1 && strcmp(argv[1], "--write") == 0)
        return write_goldens(argc > 2 ? argv[2] : "tests/golden");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
