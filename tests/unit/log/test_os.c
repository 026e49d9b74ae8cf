/* [os]: what the file system sees of a log, and media that cannot be written. That each
 * call of the table may fail is in test_fault_io. */

#define _GNU_SOURCE
#include "open_logs.h"

#include <sys/wait.h>


/* ---- files ---- */

TEST_WITH(ON_LOGS, a_file_is_the_owners_alone)
{
    struct stat about;
    mode_t before = umask(0);
    test_store s = store_open((store_kind *)*state, NULL);
    test_store to = log_at(0, MS_ENGINE_AUTO);
    append_text(s.store, "x");
    ms_result rewritten = ms_log_rewrite(s.store, &to.log, false, NULL, NULL, NULL);
    umask(before);
    must_give(MS_OK, rewritten);
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

TEST_WITH(ON_LOGS, started_programs_do_not_inherit_the_file)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_store *reader = log_reader(&s);
    for (int i = 0; i < 200; i++) append_text(s.store, "some segments of this");
    must_have(reader, 200);
    assert_true(descriptors_of(s.path) >= 1);
    ms_close(reader);
    log_close(&s);
    assert_int_equal(descriptors_of(s.path), 0);
    store_close(&s);
}

/* A process whose standard streams are closed, as services can be started, opens a log,
 * and a library that it calls prints. */
static int opens_without_streams(const test_store *s)
{
    ms_store *store;
    ms_envelope m = ms_user_message(ms_text("kept"));
    for (int file = 0; file < 3; file++) (void)close(file);
    if (ms_log_open(&store, &s->log, NULL) != MS_OK) return 1;
    if (ms_append(store, MS_STR("l"), &m, NULL, NULL) != MS_OK) return 2;
    for (int file = 0; file < 3; file++)
        if (write(file, "printed", 7) != -1 || errno != EBADF) return 3;
    if (descriptors_of(s->path) < 1) return 4;
    ms_close(store);
    return 0;
}

TEST(what_is_printed_is_not_written_over_the_log)
{
    int status = 0;
    test_store s = log_at(0, MS_ENGINE_AUTO);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) _exit(opens_without_streams(&s));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 0);
    ms_store *reader = log_reader(&s);
    must_have(reader, 1);
    ms_close(reader);
    store_close(&s);
}

TEST_WITH(ON_LOGS, a_location_is_no_path)
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

/* Returns to the folder that it came from, whatever happens in between. */
TEST(a_relative_path_outlives_a_change_of_folder)
{
    test_store s = log_at(4096, MS_ENGINE_AUTO);
    int here = open(".", O_RDONLY);
    ms_store *store = NULL, *reader = NULL;
    ms_result result[5];
    ms_cursor it;
    ms_query all = query_of(no_str(), 0);
    ms_envelope m = ms_observation(ms_text("x"), ms_str_of(NULL));
    size_t n = 0;
    assert_true(here >= 0);
    s.log.path = "test.msl";
    assert_int_equal(chdir(s.folder), 0);
    result[0] = ms_log_open(&store, &s.log, NULL);
    s.log.mode = MS_LOG_READ;
    result[1] = ms_log_open(&reader, &s.log, NULL);
    result[2] = chdir("/") == 0 ? MS_OK : MS_E_IO;
    for (int i = 0; i < 3000 && result[0] == MS_OK; i++)
        result[0] = ms_append(store, MS_STR("job"), &m, NULL, NULL);
    result[3] = ms_query_open(reader, &all, &it, NULL);
    while (ms_next(&it) != NULL) n++;
    ms_cursor_close(&it, NULL);
    ms_close(reader);
    result[4] = ms_sync(store, NULL, NULL);
    ms_close(store);
    if (fchdir(here) != 0) abort();
    close(here);
    for (size_t i = 0; i < 5; i++) must_give(MS_OK, result[i]);
    assert_int_equal(n, 3000);
    s.log.path = s.path;
    log_open_as(&s, MS_LOG_WRITE);
    must_have(s.store, 3000);
    store_close(&s);
}


/* ---- media that cannot be written ---- */

static int read_only_open(void *ctx, const char *path, unsigned how, ms_file *file)
{
    os_faults *t = (os_faults *)ctx;
    bool writes = (how & (MS_OS_WRITE | MS_OS_CREATE)) != 0;
    t->hits += writes;
    return writes ? EROFS : os_fault_open(ctx, path, how, file);
}

static int read_only_map(void *ctx, ms_file file, uint64_t offset, size_t size,
                         unsigned how, void **out)
{
    os_faults *t = (os_faults *)ctx;
    bool writes = (how & MS_OS_WRITE) != 0;
    t->hits += writes;
    return writes ? EACCES : os_fault_map(ctx, file, offset, size, how, out);
}

/* Every call that writes, syncs or locks fails, and is a hit. */
static void read_only_begin(os_faults *t)
{
    os_fault_init(t, ms_os_default());
    unsigned writes = OS_FAULT_BIT(WRITE) | OS_FAULT_BIT(ALLOCATE) | OS_FAULT_BIT(SYNC) |
                      OS_FAULT_BIT(LOCK) | OS_FAULT_BIT(RENAME) | OS_FAULT_BIT(REMOVE) |
                      OS_FAULT_BIT(SYNC_FOLDER);
    os_fault_at(t, writes, EROFS, true);
    t->os.open = read_only_open;
    t->os.map = read_only_map;
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
    must_give(MS_OK, ms_selfcheck(store, NULL));
    must_give(MS_OK, ms_list(store, NULL, &arena, &listing, NULL));
    must_give(MS_OK, ms_get_by_seq(store, n, &arena, &msg, NULL));
    must_give(MS_OK, test_refresh(store, &seq, NULL));
    must_give(MS_OK, ms_tick(store, 1000, NULL));
    must_give(MS_OK, ms_wait(store, seq, 5, &seq, NULL));
    assert_int_equal(seq, n);
    ms_arena_deinit(&arena);
}

TEST(reading_writes_nothing)
{
    test_store s = closed_log();
    ms_log_report report;
    ms_error err;
    os_faults t;
    read_only_begin(&t);
    s.log.os = &t.os;
    assert_int_equal(chmod(s.path, 0400), 0);
    assert_int_equal(chmod(s.folder, 0500), 0);
    snapshot before = take(&s);
    for (int opening = 0; opening < 3; opening++) {
        s.log.opening = (ms_log_opening)opening;
        log_open_as(&s, MS_LOG_READ);
        use_reader(s.store, 100);
        log_close(&s);
    }
    s.log.opening = MS_OPEN_NORMAL;
    must_give(MS_OK, ms_log_verify(&s.log, &report, NULL));
    assert_int_equal(report.messages, 100);
    assert_int_equal(t.hits, 0);
    must_give(MS_E_IO, log_try(&s, MS_LOG_WRITE, &err));
    assert_int_equal(err.sys_errno, EROFS);
    assert_non_null(strstr(err.message, s.path));
    nothing_changed("a file read", &s, &before);
    assert_int_equal(chmod(s.folder, 0700), 0);
    assert_int_equal(chmod(s.path, 0600), 0);
    store_close(&s);
}

/* Beside a writer, and after it was killed. */
TEST(reading_writes_nothing_beside_a_writer)
{
    test_store s = closed_log();
    os_faults t;
    int stop;
    read_only_begin(&t);
    pid_t child = start_holder(&s, 50, false, &stop);
    snapshot before = take(&s);
    s.log.os = &t.os;
    for (int killed = 0; killed < 2; killed++) {
        log_open_as(&s, MS_LOG_READ);
        use_reader(s.store, 150);
        log_close(&s);
        if (!killed) kill_holder(child);
    }
    close(stop);
    assert_int_equal(t.hits, 0);
    nothing_changed("a file read", &s, &before);
    store_close(&s);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
