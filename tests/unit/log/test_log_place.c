/* [log-open], [log-map]: the place where a log is. Rewrites in files of the system: locks,
 * names, permissions, other processes in between. A copy of a damaged file. Files that are
 * truncated, slow to walk, or too large.
 *
 * Left out: what a power loss leaves of a rewrite (test_log_sync), rewrites beside appends
 * (test_rewrite).
 */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"
#include "log_file.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>

static char target[320];      /* where a rewrite goes */
static ms_os os;              /* the system's, with functions of a test */

/* A log of three messages, its reader, and a description of the target. */
static ms_store *begin_rewrite(ms_log_desc *to)
{
    ms_log_desc from = desc_of(MS_LOG_READ);
    make_log(3);
    snprintf(target, sizeof target, "%s.target", path);
    os = *ms_os_default();
    *to = desc_of(MS_LOG_CREATE);
    to->path = target;
    to->os = &os;
    return must_open(&from);
}

/* Flips a bit of a text in the file. */
static void flip_text(const char *text)
{
    static char bytes[65536];
    FILE *f = file_at(0);
    size_t n = fread(bytes, 1, sizeof bytes, f), at = 0, len = strlen(text);
    assert_int_equal(fclose(f), 0);
    while (at + len <= n && memcmp(bytes + at, text, len) != 0) at++;
    assert_true(at + len <= n);
    flip_at(at, 1);
}

/* With changes a copy reads the log twice. */
TEST(a_damaged_record_is_counted_once_when_its_log_is_copied)
{
    for (int trouble = 0; trouble < 4; trouble++) { /* 3: its kind is damaged, too */
        ms_store *source, *copy;
        ms_copy_report report;
        uint64_t seq;
        make_log(3);
        ms_log_desc desc = desc_of(MS_LOG_WRITE);
        source = must_open(&desc);
        uint64_t at = ms__log_of(source)->end;
        assert_int_equal(append(source, "to be damaged", &seq), MS_OK);
        assert_int_equal(append(source, "the last", NULL), MS_OK);
        if (trouble > 0)
            assert_int_equal(ms_note(source, 1, MS_STR("k"), ms_text("a note"), NULL), MS_OK);
        assert_int_equal(append(source, "after it", NULL), MS_OK);
        ms_close(source);
        if (trouble == 3) flip_at(at + 4, 1);
        else flip_text("to be damaged");
        if (trouble == 2) flip_text("a note");
        desc.mode = MS_LOG_READ;
        source = must_open(&desc);
        assert_int_equal(ms_mem_open(&copy, NULL, NULL), MS_OK);
        assert_int_equal(ms_copy(copy, source, NULL, NULL, &report, NULL), MS_E_DAMAGED);
        assert_int_equal(report.damaged, trouble == 2 ? 2 : 1);
        assert_int_equal(report.copied, 5);
        assert_int_equal(report.notes, trouble == 1 || trouble == 3);
        ms_close(copy);
        ms_close(source);
    }
}

static ms_os_stat other;      /* of every file */

static int stat_of_another_device(void *ctx, ms_file file, ms_os_stat *out)
{
    int code = ms_os_default()->stat(ctx, file, out);
    out->device = other.device;
    out->inode = other.inode;
    return code;
}

/* Two file systems give the same number to two files: the log that is replaced is another
 * file than the source, whose lock is held already, and its own writer is noticed. */
TEST(a_file_is_another_one_when_only_its_device_differs)
{
    ms_log_desc to, from = desc_of(MS_LOG_WRITE);
    ms_close(begin_rewrite(&to));
    assert_int_equal(rename(path, target), 0);
    make_log(3);
    ms_store *source = must_open(&from);
    other = ms__log_of(source)->file.stat;
    other.device++;
    to.os = NULL;
    ms_store *writer = must_open(&to);
    os.stat = stat_of_another_device;
    to.os = &os;
    assert_int_equal(ms_log_rewrite(source, &to, true, NULL, NULL, NULL), MS_E_BUSY);
    assert_int_equal(append(writer, "still its own", NULL), MS_OK);
    assert_int_equal(count_of(writer, false), 4);
    ms_close(writer);
    assert_int_equal(append(source, "fourth", NULL), MS_OK);
    assert_int_equal(append(source, "fifth", NULL), MS_OK);
    assert_int_equal(ms_log_rewrite(source, &to, true, NULL, NULL, NULL), MS_OK);
    ms_close(source);
    assert_int_equal(count_at(target, false), 5);
    (void)remove(target);
}

/* A pipe has no bytes, as an empty file, which may be replaced. Pipes and devices are
 * refused, as by ms_log_open, and stay. */
TEST(a_pipe_stays_when_a_rewrite_would_replace_it)
{
    struct stat st;
    ms_error err;
    ms_log_desc to;
    ms_store *source = begin_rewrite(&to);
    assert_int_equal(mkfifo(target, 0600), 0);
    assert_int_equal(ms_log_rewrite(source, &to, true, NULL, NULL, &err), MS_E_FOREIGN);
    assert_non_null(strstr(err.message, "not a regular file"));
    assert_int_equal(stat(target, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    assert_int_equal(files_in(folder), 2);
    assert_int_equal(remove(target), 0);
    assert_int_equal(symlink("/dev/null", target), 0);
    assert_int_equal(ms_log_rewrite(source, &to, true, NULL, NULL, NULL), MS_E_FOREIGN);
    assert_int_equal(lstat(target, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    ms_close(source);
    assert_int_equal(remove(target), 0);
}

/* As root: owner and group stay, too. What a killed rewrite has left is removed. */
TEST(permissions_stay_when_a_log_is_rewritten_in_place)
{
    char part[340];
    struct stat before, after;
    ms_log_desc to;
    ms_store *source = begin_rewrite(&to);
    to.path = path;
    assert_int_equal(chmod(path, 0640), 0);
    if (geteuid() == 0) assert_int_equal(chown(path, 4711, 4712), 0);
    assert_int_equal(stat(path, &before), 0);
    snprintf(part, sizeof part, "%s.compacting", path);
    assert_true(write_file(part, "half", 4));
    assert_int_equal(ms_log_rewrite(source, &to, true, NULL, NULL, NULL), MS_OK);
    ms_close(source);
    assert_int_equal(stat(path, &after), 0);
    assert_int_not_equal(after.st_ino, before.st_ino);
    assert_int_equal(after.st_mode, before.st_mode);
    assert_int_equal(after.st_uid, before.st_uid);
    assert_int_equal(after.st_gid, before.st_gid);
    assert_int_equal(access(part, F_OK), -1);
    assert_int_equal(count_at(path, false), 3);
}

static int no_access(void *ctx, const char *file, const char *like)
{
    return EPERM;
}

TEST(a_log_stays_when_its_owner_cannot_be_kept)
{
    struct stat before, after;
    ms_error err;
    ms_log_desc to;
    ms_store *source = begin_rewrite(&to);
    to.path = path;
    os.access_like = no_access;
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(ms_log_rewrite(source, &to, true, NULL, NULL, &err), MS_E_IO);
    assert_int_equal(err.sys_errno, EPERM);
    assert_non_null(strstr(err.message, "owner"));
    ms_close(source);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_ino, before.st_ino);
    assert_int_equal(count_at(path, false), 3);
}

static int folders_synced;

static int one_folder(void *ctx, const char *file)
{
    return folders_synced++ == 0 ? 0 : EMFILE;
}

/* The caller does not ask for the reason. */
TEST(a_source_is_poisoned_when_its_new_name_may_not_be_durable)
{
    ms_log_desc to, from = desc_of(MS_LOG_WRITE);
    ms_close(begin_rewrite(&to));
    ms_store *source = must_open(&from);
    to.path = path;
    os.sync_folder = one_folder;
    folders_synced = 0;
    assert_int_equal(ms_log_rewrite(source, &to, true, NULL, NULL, NULL), MS_E_POISONED);
    assert_int_equal(append(source, "no", NULL), MS_E_POISONED);
    ms_close(source);
    assert_int_equal(count_at(path, false), 3);
}

/* A disk that writes another byte than it was given, after the superblock. */
static int write_wrong(void *ctx, ms_file file, uint64_t offset, const void *from,
                       size_t size, size_t *done)
{
    const ms_os *below = ms_os_default();
    if (offset < MS__FIRST_RECORD || size < 200)
        return below->write(ctx, file, offset, from, size, done);
    char *copy = (char *)malloc(size);
    if (copy == NULL) abort();
    memcpy(copy, from, size);
    copy[size / 2] ^= 4;
    int code = below->write(ctx, file, offset, copy, size, done);
    free(copy);
    return code;
}

TEST(a_rewrite_is_refused_when_its_bytes_are_wrong)
{
    static char large[400];
    ms_log_report report;
    ms_log_desc to, from = desc_of(MS_LOG_WRITE);
    ms_close(begin_rewrite(&to));
    memset(large, 'x', sizeof large - 1);
    ms_store *store = must_open(&from);
    assert_int_equal(append(store, large, NULL), MS_OK);
    to.path = path;
    to.engine = MS_ENGINE_WRITE;
    os.write = write_wrong;
    ms_result result = ms_log_rewrite(store, &to, true, NULL, NULL, NULL);
    assert_int_equal(result, MS_E_IO); /* not DAMAGED: that would mean the source */
    ms_close(store);
    assert_int_equal(ms_log_verify(&from, &report, NULL), MS_OK);
    assert_int_equal(report.messages, 4);
    assert_int_equal(files_in(folder), 1);
}


/* ---- readers of a file that is replaced ---- */

enum { TOLD_QUERY, TOLD_GET, TOLD_LIST, TOLD_STAT, TOLD_TICK, TOLD_WAIT, TOLD_CALLS };

/* Asks a reader; returns how the call ends. */
static ms_result ask(ms_store *store, int call, ms_error *err)
{
    ms_query all;
    ms_cursor it;
    ms_arena arena;
    ms_listing listing;
    ms_stat is;
    const ms_msg *msg;
    uint64_t seq;
    ms_result result;
    memset(&all, 0, sizeof all);
    memset(&arena, 0, sizeof arena);
    switch (call) {
    case TOLD_QUERY: result = ms_query_open(store, &all, &it, err); break;
    case TOLD_GET: result = ms_get_by_seq(store, 2, NULL, &msg, err); break;
    case TOLD_LIST: result = ms_list(store, NULL, &arena, &listing, err); break;
    case TOLD_STAT: result = ms_store_stat(store, &is, err); break;
    case TOLD_TICK: result = ms_tick(store, 0, err); break;
    default: result = ms_wait(store, 3, 1, &seq, err);
    }
    if (call == TOLD_QUERY && result == MS_OK) result = ms_cursor_close(&it, err);
    ms_arena_deinit(&arena);
    return result;
}

/* Another process replaces the file, after some milliseconds. */
static pid_t replace_later(unsigned pause)
{
    fflush(stdout);
    pid_t child = fork();
    if (child != 0) return child;
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    ms_store *store = must_open(&desc);
    ms_keep keep = {.newest = 1};
    usleep(pause * 1000);
    _exit(ms_log_rewrite(store, &desc, true, &keep, NULL, NULL) == MS_OK ? 0 : 1);
}

static void must_end(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* Whatever it asks first, a reader, and a shared writer that only reads. A cursor that was
 * open goes on to its end. */
TEST(a_reader_learns_that_another_process_has_replaced_its_file)
{
    for (int call = 0; call < 2 * TOLD_CALLS; call++) {
        ms_error err;
        ms_query all;
        ms_cursor it;
        size_t n = 0;
        bool shared = call >= TOLD_CALLS;
        if (call == TOLD_CALLS + TOLD_TICK) continue; /* it writes, and always fails */
        make_log(3);
        ms_log_desc desc = desc_of(shared ? MS_LOG_WRITE : MS_LOG_READ);
        desc.shared = shared;
        ms_store *store = must_open(&desc);
        memset(&all, 0, sizeof all);
        assert_int_equal(ask(store, call % TOLD_CALLS, NULL), MS_OK);
        assert_int_equal(ms_query_open(store, &all, &it, NULL), MS_OK);
        must_end(replace_later(0));
        assert_int_equal(ask(store, call % TOLD_CALLS, &err), MS_E_CONFLICT);
        assert_non_null(strstr(err.message, "open it again"));
        while (ms_next(&it) != NULL) n++;
        assert_int_equal(n, 3);
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
        assert_int_equal(ask(store, call % TOLD_CALLS, NULL), MS_OK);
        assert_int_equal(count_of(store, false), 3);
        if (shared) assert_int_equal(append(store, "late", NULL), MS_E_CONFLICT);
        ms_close(store);
        assert_int_equal(count_at(path, false), 1);
    }
}

/* What was opened before goes on in the old file, also where its steps read the log again:
 * a history, and a query that meets a stream. The next call is told. */
TEST(a_reading_goes_on_when_its_file_is_replaced)
{
    for (int way = 0; way < 2; way++) {
        ms_error err;
        ms_cursor it;
        ms_query all = {0};
        ms_memory me;
        ms_arena arena = {0};
        ms_stream stream;
        ms_envelope m = ms_user_message(ms_text("begun"));
        size_t n = 0;
        make_log(3);
        ms_log_desc desc = desc_of(MS_LOG_WRITE);
        ms_store *writer = must_open(&desc);
        assert_int_equal(ms_stream_begin(&stream, writer, MS_STR("here"), &m, NULL, NULL), MS_OK);
        assert_int_equal(ms_stream_feed(&stream, MS_STR(", and more"), NULL), MS_OK);
        ms_close(writer);
        desc = desc_of(MS_LOG_READ);
        ms_store *store = must_open(&desc);
        ms_memory_init(&me, store, MS_STR("here"), MS_STR("a"));
        all.arena = me.arena = &arena;
        ms_result code = way == 0 ? ms_get_history(&me, &it, &err)
                                  : ms_query_open(store, &all, &it, &err);
        assert_int_equal(code, MS_OK);
        must_end(replace_later(0));
        while (ms_next(&it) != NULL) n++;
        if (ms_cursor_close(&it, &err) != MS_OK) fail_msg("%d: %s", way, err.message);
        assert_int_equal(n, 4);
        assert_int_equal(ms_wait(store, 4, 0, NULL, NULL), MS_E_CONFLICT);
        ms_close(store);
        ms_arena_deinit(&arena);
    }
}

TEST(a_waiting_reader_wakes_when_its_file_is_replaced)
{
    uint64_t seq;
    make_log(3);
    ms_log_desc desc = desc_of(MS_LOG_READ);
    ms_store *store = must_open(&desc);
    pid_t child = replace_later(50);
    time_t begun = time(NULL);
    assert_int_equal(ms_wait(store, 3, 60000, &seq, NULL), MS_E_CONFLICT);
    assert_true(time(NULL) - begun < 30);
    must_end(child);
    ms_close(store);
}


/* ---- symbolic links ---- */

static char link_path[340], far_folder[340], far_path[400];

/* A link in the folder of the log that leads, by another link, to another folder. */
static void make_links(void)
{
    char middle[400];
    (void)remove(path);
    snprintf(link_path, sizeof link_path, "%s/link", folder);
    snprintf(far_folder, sizeof far_folder, "%s/far", folder);
    snprintf(far_path, sizeof far_path, "%s/log.msl", far_folder);
    snprintf(middle, sizeof middle, "%s/middle", far_folder);
    assert_int_equal(mkdir(far_folder, 0700), 0);
    assert_int_equal(symlink("far/middle", link_path), 0);
    assert_int_equal(symlink(far_path, middle), 0);
}

static void remove_links(void)
{
    struct stat st;
    assert_int_equal(lstat(link_path, &st), 0);
    assert_true(S_ISLNK(st.st_mode)); /* whatever came, it is a link */
    scratch_empty(far_folder);
    assert_int_equal(rmdir(far_folder), 0);
    assert_int_equal(remove(link_path), 0);
}

/* Both of one log: by its handle, and of another one into it. */
TEST(a_rewrite_through_a_symbolic_link_replaces_the_file)
{
    struct stat before, after;
    make_links();
    ms_log_desc desc = {.path = link_path};
    ms_store *store = must_open(&desc), *other_store;
    for (int i = 0; i < 3; i++) assert_int_equal(append(store, "x", NULL), MS_OK);
    assert_int_equal(stat(far_path, &before), 0);
    assert_int_equal(ms_log_rewrite(store, &desc, true, NULL, NULL, NULL), MS_OK);
    ms_close(store);
    assert_int_equal(stat(far_path, &after), 0);
    assert_int_not_equal(before.st_ino, after.st_ino);
    assert_int_equal(count_at(far_path, false), 3);
    assert_int_equal(count_at(link_path, false), 3);
    assert_int_equal(files_in(far_folder), 2);
    make_log(5);
    ms_log_desc from = desc_of(MS_LOG_READ);
    other_store = must_open(&from);
    assert_int_equal(ms_log_rewrite(other_store, &desc, false, NULL, NULL, NULL),
                     MS_E_CONFLICT);
    assert_int_equal(ms_log_rewrite(other_store, &desc, true, NULL, NULL, NULL), MS_OK);
    assert_int_equal(count_at(far_path, false), 5);
    ms_close(other_store);
    remove_links();
}

/* A handle of a running rewrite: the new store has the caller's path. */
TEST(the_new_log_is_in_place_when_its_path_is_a_symbolic_link)
{
    bool more = true;
    ms_log_info info;
    make_links();
    ms_log_desc desc = {.path = link_path};
    ms_store *store = must_open(&desc), *fresh;
    assert_int_equal(append(store, "x", NULL), MS_OK);
    ms_rewrite w = {.source = store, .to = &desc, .replace = true};
    while (more) assert_int_equal(ms_rewrite_run(&w, 0, &more, NULL), MS_OK);
    assert_int_equal(ms_rewrite_end(&w, &fresh, NULL), MS_OK);
    assert_int_equal(ms_log_stat(fresh, &info, NULL), MS_OK);
    assert_false(info.replaced);
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    assert_true(info.replaced);
    ms_close(store);
    assert_int_equal(append(fresh, "y", NULL), MS_OK);
    ms_close(fresh);
    assert_int_equal(count_at(far_path, false), 2);
    remove_links();
}

TEST(a_file_is_made_where_a_symbolic_link_leads)
{
    make_log(3);
    ms_log_desc from = desc_of(MS_LOG_READ);
    ms_store *source = must_open(&from);
    make_links();
    ms_log_desc desc = {.path = link_path};
    assert_int_equal(ms_log_rewrite(source, &desc, false, NULL, NULL, NULL), MS_OK);
    assert_int_equal(count_at(far_path, false), 3);
    assert_int_equal(files_in(far_folder), 2);
    ms_close(source);
    remove_links();
}

static int sync_nothing(void *ctx, ms_file file) { return EIO; }

/* What was made is removed again, not the link. */
TEST(a_symbolic_link_stays_when_a_log_cannot_be_made)
{
    make_log(3);
    ms_log_desc from = desc_of(MS_LOG_READ);
    ms_store *source = must_open(&from), *store;
    make_links();
    os = *ms_os_default();
    ms_log_desc desc = {.path = link_path, .mode = MS_LOG_NEW, .os = &os};
    os.sync = sync_nothing;
    assert_int_equal(ms_log_open(&store, &desc, NULL), MS_E_IO);
    assert_int_equal(files_in(far_folder), 1);
    os = *ms_os_default();
    os.access_like = no_access;
    assert_int_equal(ms_log_rewrite(source, &desc, false, NULL, NULL, NULL), MS_E_IO);
    assert_int_equal(files_in(far_folder), 1);
    ms_close(source);
    remove_links();
}

TEST(a_circle_of_symbolic_links_is_a_code)
{
    ms_error err;
    ms_store *store;
    make_log(3);
    ms_log_desc from = desc_of(MS_LOG_READ), desc = {.path = link_path};
    ms_store *source = must_open(&from);
    snprintf(link_path, sizeof link_path, "%s/circle", folder);
    assert_int_equal(symlink("circle", link_path), 0);
    assert_int_equal(ms_log_open(&store, &desc, &err), MS_E_IO);
    assert_int_equal(err.sys_errno, ELOOP);
    assert_non_null(strstr(err.message, "circle"));
    for (int replace = 0; replace < 2; replace++) {
        assert_int_equal(ms_log_rewrite(source, &desc, replace == 1, NULL, NULL, &err),
                         MS_E_IO);
        assert_int_equal(err.sys_errno, ELOOP);
    }
    ms_close(source);
    assert_int_equal(remove(link_path), 0);
}


/* ---- names as long as a folder takes them ---- */

/* A name of so many bytes, of letters or of characters of three bytes. */
static void long_path(char *to, size_t room, size_t bytes, bool wide)
{
    size_t n = (size_t)snprintf(to, room, "%s/", folder), end = n + bytes;
    assert_true(end < room);
    while (n < end && wide && end - n >= 3) {
        memcpy(to + n, "\xE2\x82\xAC", 3);
        n += 3;
    }
    while (n < end) to[n++] = 'n';
    to[n] = '\0';
}

/* Names of files that are not `name`: checks that they are UTF-8, and removes them. */
static size_t remove_others(const char *name)
{
    char file[700];
    size_t n = 0;
    struct dirent *e;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    while ((e = readdir(dir)) != NULL) {
        if (e->d_name[0] == '.' || strcmp(e->d_name, name) == 0) continue;
        assert_true(ms_utf8_check(ms_str_of(e->d_name), NULL));
        snprintf(file, sizeof file, "%s/%s", folder, e->d_name);
        assert_int_equal(remove(file), 0);
        n++;
    }
    closedir(dir);
    return n;
}

static int no_rename(void *ctx, const char *from, const char *to)
{
    _exit(9);
}

/* A compaction is killed before its file has the name; the next one removes what it has
 * left. Another log differs in the last byte of its name alone. */
TEST(a_log_is_compacted_when_its_name_is_long)
{
    static char name[600], other_name[600];
    for (size_t bytes = 243; bytes <= 255; bytes++)
        for (int wide = 0; wide < 2; wide++) {
            (void)remove(path);
            long_path(name, sizeof name, bytes, wide == 1);
            long_path(other_name, sizeof other_name, bytes, false);
            other_name[strlen(other_name) - 1] = 'o';
            ms_log_desc desc = {.path = name}, beside = {.path = other_name};
            os = *ms_os_default();
            os.rename = no_rename;
            ms_store *store = must_open(&desc), *second = must_open(&beside);
            for (int i = 0; i < 3; i++) assert_int_equal(append(store, "x", NULL), MS_OK);
            ms_close(store);
            fflush(stdout);
            int status;
            pid_t child = fork();
            if (child == 0) {
                desc.os = &os;
                store = must_open(&desc);
                (void)ms_log_rewrite(store, &desc, true, NULL, NULL, NULL);
                _exit(1);
            }
            assert_int_equal(waitpid(child, &status, 0), child);
            assert_int_equal(WEXITSTATUS(status), 9);
            assert_int_equal(files_in(folder), 3);
            assert_int_equal(ms_log_rewrite(second, &beside, true, NULL, NULL, NULL),
                             MS_OK);
            ms_close(second);
            assert_int_equal(files_in(folder), 3); /* that of the other log is there */
            store = must_open(&desc);
            assert_int_equal(ms_log_rewrite(store, &desc, true, NULL, NULL, NULL), MS_OK);
            ms_close(store);
            assert_int_equal(files_in(folder), 2);
            assert_int_equal(count_at(name, false), 3);
            assert_int_equal(remove(other_name), 0);
            assert_int_equal(remove(name), 0);
        }
}

TEST(torn_bytes_are_kept_when_the_name_of_a_log_is_long)
{
    static char name[600];
    char *usual = path;
    for (int wide = 0; wide < 2; wide++) {
        long_path(name, sizeof name, 255, wide == 1);
        ms_log_desc desc = {.path = name, .keep_torn = true};
        path = name;
        make_log(3);
        write_at(craft_of().end + 8, "dead", 4);
        restart();
        ms_store *store = must_open(&desc);
        assert_int_equal(append(store, "x", NULL), MS_OK);
        ms_close(store);
        path = usual;
        assert_int_equal(remove_others(strrchr(name, '/') + 1), 1);
        assert_int_equal(remove(name), 0);
    }
}


/* ---- files that are truncated, slow, or too large ---- */

/* Maps of real files: a touch after the end would be a signal. Several writers go on as
 * one alone does. */
TEST(a_log_takes_appends_when_it_is_truncated_below_its_watermark)
{
    for (int shared = 0; shared < 2; shared++)
        for (uint64_t left = MS__FIRST_RECORD; left < 24000; left += 1000) {
            ms_log_desc desc = desc_of(MS_LOG_WRITE);
            uint64_t seq = 0;
            make_log(400);
            assert_int_equal(truncate(path, (off_t)left), 0);
            desc.shared = shared == 1;
            ms_store *store = must_open(&desc);
            size_t n = count_of(store, true);
            for (size_t i = 1; i <= 3; i++) {
                if (append(store, "there", &seq) != MS_OK)
                    fail_msg("truncated to %d bytes: an append fails", (int)left);
                assert_true(seq > n);
                assert_int_equal(count_of(store, true), n + i);
            }
            ms_close(store);
            assert_int_equal(count_at(path, true), n + 3);
            restart();
            assert_int_equal(count_at(path, true), n + 3);
        }
}

TEST(a_reader_takes_in_all_when_it_had_no_memory_before)
{
    bool all = false;
    for (size_t fail = 1; !all; fail++) {
        test_alloc heap;
        uint64_t seq;
        ms_log_desc read = desc_of(MS_LOG_READ), write = desc_of(MS_LOG_CREATE);
        assert_true(write_file(path, "", 0)); /* empty: nothing to take in yet */
        test_alloc_init(&heap);
        read.alloc = heap.alloc;
        write.segment_size = MS_LOG_SEGMENT_MIN;
        ms_store *reader = must_open(&read), *writer = must_open(&write);
        for (int i = 0; i < 500; i++)
            assert_int_equal(append(writer, "hello", NULL), MS_OK);
        heap.fail_at = heap.calls + fail;
        ms_result code = test_refresh(reader, &seq, NULL);
        all = heap.failed == 0;
        heap.fail_at = 0;
        assert_int_equal(code, all ? MS_OK : MS_E_NO_MEMORY);
        for (int i = 0; i < 3; i++)
            assert_int_equal(append(writer, "hello", NULL), MS_OK);
        assert_int_equal(count_of(reader, false), 503);
        ms_close(writer);
        ms_close(reader);
        test_alloc_done(&heap);
    }
}

static double processor_ms(void) { return (double)clock() * 1e3 / CLOCKS_PER_SEC; }

/* Returns the milliseconds that the check of so many MiB takes in this build: an
 * instrumented one is slower many times. */
static double time_to_check(size_t mebibytes)
{
    static unsigned char bytes[1 << 20];
    uint32_t crc = 0;
    double start = processor_ms();
    for (size_t i = 0; i < mebibytes; i++) {
        bytes[0] = (unsigned char)i;
        crc = ms__crc32c(crc, bytes, sizeof bytes);
    }
    double took = processor_ms() - start;
    assert_true(crc != 0);
    return took;
}

/* Headers that hold every 48 bytes, each with a body up to the end that does not. Twice
 * the file may take twice the time, not four times. */
static double time_to_open_nested(uint64_t size, bool between)
{
    unsigned char *bytes = (unsigned char *)calloc(1, size);
    assert_non_null(bytes);
    make_log(1);
    craft c = craft_of();
    for (uint64_t at = c.end + 48; at + 192 < size; at += between ? 96 : 48) {
        unsigned char *r = bytes + at;
        ms__put32(r, (uint32_t)(size - at));
        r[4] = MS__KIND_MESSAGE;
        r[5] = MS_T_USER_MESSAGE;
        ms__put64(r + 8, 100);
        ms__put32(r + MS__AT_BODY_CHECK, 1);
        ms__put32(r + MS__AT_CHECK, ms__check_at(c.id.crc, at, r));
        if (!between) continue;
        ms__put32(r + 48, 48);
        r[52] = MS__KIND_INDEX;
        ms__seal_at(c.id.crc, at + 48, r + 48);
    }
    write_at(c.end, bytes + c.end, size - c.end);
    free(bytes);
    ms__checkpoint checkpoint = ms__checkpoint_newest(c.super);
    checkpoint.end = size;
    checkpoint.generation += 5;
    ms__checkpoint_encode(&checkpoint, c.super + MS__AT_CHECKPOINTS);
    memset(c.super + MS__AT_CHECKPOINTS + MS__CHECKPOINT_STEP, 0, 44);
    memset(c.super + MS__AT_WRITER, 0, 40);
    write_at(0, c.super, sizeof c.super);
    ms_log_desc desc = desc_of(MS_LOG_READ);
    double start = processor_ms(); /* other work on the machine adds none */
    ms_store *store = must_open(&desc);
    double took = processor_ms() - start;
    ms_close(store);
    return took;
}

TEST(nested_sizes_cost_no_time_when_a_log_is_opened)
{
    for (int between = 0; between < 2; between++) {
        uint64_t size = (uint64_t)(between ? 1 : 2) << 19;
        double took = time_to_open_nested(size, between == 1);
        /* Again: others may have had the caches of the processor. */
        for (int again = 0; took > 500 && took < 2000 && again < 2; again++) {
            double now = time_to_open_nested(size, between == 1);
            if (now < took) took = now;
        }
        /* Some 50 MiB are checked; with every body 1,300 MiB or more. */
        double most = took > 500 ? time_to_check(800) : 0;
        if (took > 500 && took > most)
            fail_msg("opening it took %.0f ms, a check of 800 MiB %.0f", took, most);
    }
}

/* Each part finds its message, which is in a sealed segment behind thousands of parts. */
TEST(parts_of_a_message_cost_no_time_when_its_segment_is_sealed)
{
    ms_log_desc desc = desc_of(MS_LOG_NEW);
    ms_stream stream;
    ms_envelope m = ms_assistant_message(ms_text(""));
    const ms_stream_opts opts = {.flush_chars = 1};
    (void)remove(path);
    desc.segment_size = 1 << 20;
    ms_store *store = must_open(&desc);
    assert_int_equal(ms_stream_begin(&stream, store, MS_STR("here"), &m, &opts, NULL),
                     MS_OK);
    clock_t start = clock();
    for (int i = 1; i <= 60000; i++) {
        assert_int_equal(ms_stream_feed(&stream, MS_STR("x"), NULL), MS_OK);
        if (i % 1000 != 0) continue;
        double took = (double)(clock() - start) * 1e3 / CLOCKS_PER_SEC;
        if (took > 1500) fail_msg("%d parts took %.0f ms", i, took);
    }
    assert_true(ms__log_of(store)->index.segments.n > 2);
    assert_int_equal(ms_stream_end(&stream, NULL, NULL, NULL), MS_OK);
    ms_close(store);
}

TEST(a_file_is_refused_when_it_has_three_exbibytes)
{
    ms_error err;
    ms_store *store;
    ms_log_desc desc = desc_of(MS_LOG_READ);
    make_log(1);
    if (truncate(path, (off_t)3 << 60) != 0) {
        print_message("no such sparse file can be made here\n");
        skip();
    }
    alarm(20); /* it never came back */
    assert_int_not_equal(ms_log_open(&store, &desc, &err), MS_OK);
    alarm(0);
    assert_non_null(strstr(err.message, path));
    assert_int_equal(truncate(path, 0), 0);
}


/* ---- holes, and limits of a process ---- */

/* How many bytes of the file have no space on the disk. */
static uint64_t holes_of_file(void)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    uint64_t room = (uint64_t)st.st_blocks * 512, size = (uint64_t)st.st_size;
    return room < size ? size - room : 0;
}

/* Makes a log with a hole after its records; false: not possible here. */
static bool log_with_hole(void)
{
    make_log(3);
    uint64_t from = (craft_of().end + 4095) & ~(uint64_t)4095;
    int file = open(path, O_RDWR);
    struct stat st;
    assert_true(file >= 0 && fstat(file, &st) == 0 && (uint64_t)st.st_size > from);
    (void)fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
                    st.st_size - (off_t)from);
    assert_int_equal(close(file), 0);
    if (holes_of_file() > 0) return true;
    print_message("no file with holes can be made here\n");
    return false;
}

/* Opens the log with the engine MAP, and returns the engine that it has. */
static ms_log_engine engine_of_map(ms_store **store)
{
    ms_log_info info;
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    desc.engine = MS_ENGINE_MAP;
    *store = must_open(&desc);
    assert_int_equal(ms_log_stat(*store, &info, NULL), MS_OK);
    return info.engine;
}

/* On a full disk a store into a map of such a file would raise SIGBUS. */
TEST(holes_of_a_file_are_filled_when_it_is_opened)
{
    ms_store *store;
    if (!log_with_hole()) skip();
    ms_log_engine usual = engine_of_map(&store);
    assert_int_equal(holes_of_file(), 0);
    for (int i = 0; i < 2000; i++) assert_int_equal(append(store, "more", NULL), MS_OK);
    ms_close(store);
    assert_int_equal(engine_of_map(&store), usual);
    ms_close(store);
    assert_int_equal(count_at(path, false), 2003);
}

/* They stay: to fill them could take all of a disk. */
TEST(a_file_with_large_holes_is_written_by_calls)
{
    ms_store *store;
    if (!log_with_hole()) skip();
    assert_int_equal(truncate(path, 100 << 20), 0);
    assert_int_equal(engine_of_map(&store), MS_ENGINE_WRITE);
    assert_true(holes_of_file() > 90 << 20);
    for (int i = 0; i < 2000; i++) assert_int_equal(append(store, "more", NULL), MS_OK);
    ms_close(store);
    assert_int_equal(count_at(path, false), 2003);
}

/* Allocates for a file system that cannot, but asks whether the process may. */
static int allocate_nothing(void *ctx, ms_file file, uint64_t offset, uint64_t size)
{
    struct rlimit now;
    if (getrlimit(RLIMIT_FSIZE, &now) != 0) abort();
    return offset + size > now.rlim_cur ? EFBIG : EOPNOTSUPP;
}

/* Runs in a child what a limit would end by a signal: returns the child's result. */
static int limited(uint64_t bytes, ms_result (*act)(void))
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit now = {(rlim_t)bytes, RLIM_INFINITY};
        if (setrlimit(RLIMIT_FSIZE, &now) != 0) _exit(99);
        _exit((int)act());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status))
        fail_msg("%d bytes: signal %d", (int)bytes, WTERMSIG(status));
    return WEXITSTATUS(status);
}

static ms_log_desc limited_desc;

/* Appends until that is refused. */
static ms_result append_in_limit(void)
{
    ms_store *store;
    ms_result result = ms_log_open(&store, &limited_desc, NULL);
    if (result != MS_OK) return result;
    for (int i = 0; i < 5000 && result == MS_OK; i++)
        result = append(store, "more", NULL);
    ms_close(store);
    return result;
}

static ms_result sync_in_limit(void)
{
    ms_store *store;
    ms_result result = ms_log_open(&store, &limited_desc, NULL);
    if (result != MS_OK) return result;
    result = ms_sync(store, NULL, NULL);
    ms_close(store);
    return result;
}

static ms_result redact_in_limit(void)
{
    ms_store *store;
    ms_result result = ms_log_open(&store, &limited_desc, NULL);
    if (result != MS_OK) return result;
    result = ms_redact(store, 1, NULL);
    ms_close(store);
    return result;
}

/* The limit is before the file, in its superblock, in its records and in its room. */
TEST(a_log_is_full_when_the_process_may_not_write_that_far)
{
    static const uint64_t limits[] = {0, 1024, 4095, 4096, 9000, 70000, 200001};
    os = *ms_os_default();
    os.allocate = allocate_nothing;
    for (int way = 0; way < 3; way++)
        for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
            limited_desc = desc_of(MS_LOG_CREATE);
            limited_desc.engine = way == 0 ? MS_ENGINE_MAP : MS_ENGINE_WRITE;
            if (way == 2) limited_desc.os = &os;
            (void)remove(path);
            assert_int_equal(limited(limits[i], append_in_limit), MS_E_FULL);
            make_log(700); /* 40 KB of records */
            assert_int_equal(limited(limits[i], append_in_limit), MS_E_FULL);
            assert_true(count_at(path, false) >= 700);
        }
}

/* A writer was killed in a sync, so that the next one writes its bytes again; another left
 * dead ones. */
TEST(a_limit_of_the_process_is_a_code_when_bytes_are_written_again)
{
    limited_desc = desc_of(MS_LOG_WRITE);
    make_log(3);
    pid_t child = fork();
    if (child == 0) {
        ms_log_desc desc = desc_of(MS_LOG_WRITE);
        ms_store *store = must_open(&desc);
        for (int i = 0; i < 700; i++) (void)append(store, "not synced", NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    write_at(1240, "\1", 1); /* SYNCING */
    assert_int_equal(limited(9000, sync_in_limit), MS_E_FULL);
    assert_int_equal(limited(9000, redact_in_limit), MS_E_FULL);
    uint64_t end = craft_of().end;
    write_at(end + 8, "dead", 4);
    restart();
    for (int torn = 0; torn < 2; torn++) {
        limited_desc.keep_torn = torn == 1;
        assert_int_equal(limited(9000, append_in_limit), MS_E_FULL);
    }
    assert_int_equal(limited(RLIM_INFINITY, sync_in_limit), MS_OK);
    assert_int_equal(count_at(path, false), 703);
    (void)remove(strcat(strcpy(target, path), ".torn"));
}


/* ---- appends ---- */

/* Readers mostly see a file through another map than its writer, so a race detector takes
 * their bytes for different ones. Here both have the same map: a record that is read has
 * been published, or the detector reports it. */

static disk shared_disk;

static int same_map(void *ctx, ms_file file, uint64_t offset, size_t size, unsigned how,
                    void **out)
{
    return disk_map(ctx, 2, offset, size, how | MS_OS_WRITE, out);
}

typedef struct racing {
    ms_store *writer;
    scribe s;
    uint64_t first, most;     /* numbers to append */
    int done;                 /* atomic */
    uint64_t readings;        /* ended; relaxed: it must not order what it lets overlap */
} racing;

enum {
    RACING_ROOM = 4 << 20,
    RACING_MOST = 8000,       /* as many as there is room for */
    RACING_ALONE = 20         /* messages written until there is another reading */
};

/* Waits for another reading: how much the two overlap is not left to the machine. */
static void racing_wait(racing *r)
{
    const uint64_t before = __atomic_load_n(&r->readings, __ATOMIC_RELAXED);
    while (__atomic_load_n(&r->readings, __ATOMIC_RELAXED) == before) sched_yield();
}

static void *racing_writer(void *arg)
{
    racing *r = (racing *)arg;
    size_t count = 0;
    uint64_t alone = 0;
    ms_result result = MS_OK;
    for (uint64_t n = r->first; n <= r->most && result == MS_OK; n += count) {
        result = scribe_append(&r->s, r->writer, n, NULL, &count, NULL);
        alone += count;
        if (alone < RACING_ALONE) continue;
        racing_wait(r);
        alone = 0;
    }
    __atomic_store_n(&r->done, 1, __ATOMIC_RELEASE);
    return result == MS_OK ? NULL : arg;
}

/* Opens a new log with a first message, and then gives the disk all its room: its size
 * must not change while two threads look at it. */
static void racing_begin(racing *r)
{
    size_t count;
    memset(r, 0, sizeof *r);
    r->s.salt = test_seed();
    r->s.longest = 300;
    ms_log_desc desc = desc_of(MS_LOG_CREATE);
    desc.os = &os;
    desc.engine = MS_ENGINE_MAP;
    desc.segment_size = 1 << 16;
    desc.keep_unset_times = true;
    r->writer = must_open(&desc);
    assert_int_equal(scribe_append(&r->s, r->writer, 1, NULL, &count, NULL), MS_OK);
    r->first = count + 1;
    r->most = test_times(4000) < RACING_MOST ? test_times(4000) : RACING_MOST;
    assert_true(disk_resize(&shared_disk, RACING_ROOM));
}

TEST(readers_do_not_race_when_they_share_the_memory_of_a_writer)
{
    racing r;
    pthread_t thread;
    tally t;
    void *failed = NULL;
    bool fine = true, done = false;
    disk_init(&shared_disk, RACING_ROOM);
    os = shared_disk.os;
    os.map = same_map;
    racing_begin(&r);
    ms_log_desc desc = desc_of(MS_LOG_READ);
    desc.os = &os;
    ms_store *reader = must_open(&desc);
    assert_int_equal(pthread_create(&thread, NULL, racing_writer, &r), 0);
    while (!done) { /* the writer waits for readings, also for those after a wrong one */
        done = __atomic_load_n(&r.done, __ATOMIC_ACQUIRE) != 0;
        if (fine) fine = scribe_read(&r.s, reader, false, NULL, &t);
        __atomic_fetch_add(&r.readings, 1, __ATOMIC_RELAXED);
    }
    pthread_join(thread, &failed);
    assert_null(failed);
    if (!fine) fail_msg("%s", t.wrong);
    assert_true(t.last >= r.most);
    test_tally("readings beside a writer", r.readings);
    ms_close(reader);
    ms_close(r.writer);
    disk_deinit(&shared_disk);
}

int main(void)
{
    scribe_page();
    filelog_begin();
    return run_all_tests(NULL, NULL);
}
