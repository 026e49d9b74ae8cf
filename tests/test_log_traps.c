/* What a log once fell into: one test for each, named after it. Most of them put a second
 * process's work, or a failure, at one exact place of the first one's, through a replaced
 * function of the table of file operations; the others are files that somebody made to be
 * slow, large, or wrong, with checks that hold.
 */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"
#include <sys/mman.h>
#include "support.h"
#include "simdisk.h"

static char folder[256], path[300];

/* A fresh path; desc opens it. */
static ms_log_desc desc_of(ms_log_mode mode)
{
    ms_log_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.path = path;
    desc.mode = mode;
    return desc;
}

static ms_store *must_open(const ms_log_desc *desc)
{
    ms_store *store;
    ms_error err;
    if (ms_log_open(&store, desc, &err) != MS_OK) fail_msg("open: %s", err.message);
    return store;
}

static ms_result append(ms_store *store, const char *text, uint64_t *seq)
{
    ms_envelope m = ms_user_message(ms_text(text));
    return ms_append(store, MS_STR("here"), &m, seq, NULL);
}

/* How many messages there are; end: what the cursor says in the end. */
static size_t count_with(ms_store *store, ms_result end)
{
    ms_query all;
    ms_cursor it;
    size_t n = 0;
    memset(&all, 0, sizeof all);
    assert_int_equal(ms_query_open(store, &all, &it, NULL), MS_OK);
    while (ms_next(&it) != NULL) n++;
    assert_int_equal(ms_cursor_close(&it, NULL), end);
    return n;
}

static size_t count_of(ms_store *store)
{
    return count_with(store, MS_OK);
}

static size_t count_at_path(void)
{
    ms_log_desc desc = desc_of(MS_LOG_READ);
    ms_store *store = must_open(&desc);
    size_t n = count_of(store);
    ms_close(store);
    return n;
}

/* A new log of n messages, synced and closed. */
static void make_log(size_t n)
{
    ms_log_desc desc = desc_of(MS_LOG_NEW);
    (void)remove(path);
    ms_store *store = must_open(&desc);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(append(store, "hello", NULL), MS_OK);
    assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
    ms_close(store);
}

static void write_at(uint64_t offset, const void *bytes, size_t size)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)offset, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static void read_at(uint64_t offset, void *bytes, size_t size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)offset, SEEK_SET), 0);
    assert_int_equal(fread(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

/* As if the machine had been started anew since the last writer. */
static void start_the_machine_anew(void)
{
    unsigned char head[MS__SUPER_SIZE];
    ms__writer_line w;
    read_at(0, head, sizeof head);
    assert_true(ms__writer_decode(&w, head));
    w.boot ^= 2;
    ms__writer_encode(&w, head + MS__AT_WRITER);
    write_at(0, head, sizeof head);
}

/* What a crafted file goes on from: its id, and where its records end. */
typedef struct craft {
    unsigned char head[MS__SUPER_SIZE];
    ms__file_id id;
    uint64_t end;
} craft;

static craft craft_of(void)
{
    craft c;
    ms_log_desc desc = desc_of(MS_LOG_READ);
    read_at(0, c.head, sizeof c.head);
    assert_int_equal(ms__super_decode(c.head, path, &c.id, NULL), MS_OK);
    ms_store *store = must_open(&desc);
    c.end = ms__log_of(store)->end;
    ms_close(store);
    return c;
}


/* ---- other processes, in between ---- */

static bool armed;

/* Another process writes the log anew just before this one gets the lock. */
static int lock_after_a_rewrite(void *ctx, ms_file file)
{
    if (armed) {
        ms_log_desc from = desc_of(MS_LOG_READ), to = desc_of(MS_LOG_CREATE);
        armed = false;
        ms_store *source = must_open(&from);
        assert_int_equal(ms_log_rewrite(source, &to, true, NULL, NULL, NULL), MS_OK);
        ms_close(source);
    }
    return ms_os_default()->lock(ctx, file);
}

static void a_lock_on_a_file_that_was_replaced_is_no_lock(void **state)
{
    ms_os os = *ms_os_default();
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    (void)state;
    make_log(3);
    os.lock = lock_after_a_rewrite;
    desc.os = &os;
    armed = true;
    ms_store *store = must_open(&desc);
    assert_false(armed);
    assert_int_equal(append(store, "acknowledged", NULL), MS_OK);
    assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
    ms_close(store);
    assert_int_equal(count_at_path(), 4);
}

static ms_result intruder;

/* Another process makes a log where this one is about to put one. */
static int rename_after_a_creation(void *ctx, const char *from, const char *to)
{
    ms_store *store;
    ms_log_desc desc = desc_of(MS_LOG_CREATE);
    intruder = ms_log_open(&store, &desc, NULL);
    if (intruder == MS_OK) {
        assert_int_equal(append(store, "precious", NULL), MS_OK);
        assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
        ms_close(store);
    }
    return ms_os_default()->rename(ctx, from, to);
}

static void a_rewrite_buries_no_log_that_was_made_meanwhile(void **state)
{
    char source_path[320];
    ms_os os = *ms_os_default();
    ms_log_desc from = desc_of(MS_LOG_READ), to = desc_of(MS_LOG_CREATE);
    (void)state;
    make_log(3);
    snprintf(source_path, sizeof source_path, "%s.source", path);
    assert_int_equal(rename(path, source_path), 0);
    from.path = source_path;
    ms_store *source = must_open(&from);
    os.rename = rename_after_a_creation;
    to.os = &os;
    intruder = MS_OK;
    ms_result code = ms_log_rewrite(source, &to, false, NULL, NULL, NULL);
    ms_close(source);
    (void)remove(source_path);
    assert_int_equal(code, MS_OK);
    assert_int_equal(intruder, MS_E_BUSY); /* told so, instead of losing its message */
    assert_int_equal(count_at_path(), 3);
}

static int no_room(void *ctx, ms_file file, uint64_t offset, uint64_t size)
{
    (void)ctx;
    (void)file;
    (void)offset;
    (void)size;
    return ENOSPC;
}

static void a_rewrite_that_fails_leaves_nothing_at_the_place(void **state)
{
    char target[320];
    ms_os os = *ms_os_default();
    ms_log_desc from = desc_of(MS_LOG_READ), to = desc_of(MS_LOG_CREATE);
    (void)state;
    make_log(3);
    ms_store *source = must_open(&from);
    snprintf(target, sizeof target, "%s.target", path);
    os.allocate = no_room;
    to.os = &os;
    to.path = target;
    assert_int_equal(ms_log_rewrite(source, &to, false, NULL, NULL, NULL), MS_E_FULL);
    ms_close(source);
    assert_int_equal(folder_count(folder), 1); /* the source */
}

/* A file that is open can be neither replaced nor be given another name's place. */
static int rename_onto_nothing(void *ctx, const char *from, const char *to)
{
    assert_int_not_equal(access(to, F_OK), 0);
    return ms_os_default()->rename(ctx, from, to);
}

/* Where an open file cannot be replaced (exact_maps, Windows) the place is looked at, but
 * nothing stands there while the copy is made, also when that fails. */
static void a_rewrite_leaves_the_place_empty_where_it_must(void **state)
{
    char target[320];
    ms_os os = *ms_os_default();
    ms_log_desc from = desc_of(MS_LOG_READ), to = desc_of(MS_LOG_CREATE);
    (void)state;
    make_log(3);
    ms_store *source = must_open(&from);
    snprintf(target, sizeof target, "%s.target", path);
    os.exact_maps = true;
    os.rename = rename_onto_nothing;
    os.allocate = no_room;
    to.os = &os;
    to.path = target;
    assert_int_equal(ms_log_rewrite(source, &to, false, NULL, NULL, NULL), MS_E_FULL);
    assert_int_equal(folder_count(folder), 1); /* the source */
    os.allocate = ms_os_default()->allocate;
    assert_int_equal(ms_log_rewrite(source, &to, false, NULL, NULL, NULL), MS_OK);
    assert_int_equal(ms_log_rewrite(source, &to, false, NULL, NULL, NULL), MS_E_CONFLICT);
    ms_close(source);
    assert_int_equal(folder_count(folder), 2);
    to.mode = MS_LOG_READ;
    ms_store *copy = must_open(&to);
    assert_int_equal(count_of(copy), 3);
    ms_close(copy);
    (void)remove(target);
}

static ms_os_stat other; /* what a file looks like */

static int stat_of_another_device(void *ctx, ms_file file, ms_os_stat *out)
{
    int code = ms_os_default()->stat(ctx, file, out);
    out->device = other.device;
    out->inode = other.inode;
    return code;
}

/* Two file systems give the same number to two files: the log that is replaced is not
 * taken for the source, whose lock is had already, and its own writer is seen. */
static void the_same_number_on_another_device_is_another_file(void **state)
{
    char target[320];
    ms_os os = *ms_os_default();
    ms_log_desc from = desc_of(MS_LOG_WRITE), to = desc_of(MS_LOG_CREATE);
    (void)state;
    snprintf(target, sizeof target, "%s.target", path);
    make_log(2);
    assert_int_equal(rename(path, target), 0);
    make_log(3);
    ms_store *source = must_open(&from);
    other = ms__log_of(source)->file.stat;
    other.device++;
    os.stat = stat_of_another_device;
    to.path = target;
    ms_store *writer = must_open(&to);
    to.os = &os;
    assert_int_equal(ms_log_rewrite(source, &to, true, NULL, NULL, NULL), MS_E_BUSY);
    assert_int_equal(append(writer, "still its own", NULL), MS_OK);
    assert_int_equal(count_of(writer), 3);
    ms_close(writer);
    assert_int_equal(append(source, "fourth", NULL), MS_OK);
    assert_int_equal(ms_log_rewrite(source, &to, true, NULL, NULL, NULL), MS_OK);
    ms_close(source);
    to.os = NULL;
    to.mode = MS_LOG_READ;
    ms_store *copy = must_open(&to);
    assert_int_equal(count_of(copy), 4);
    ms_close(copy);
    (void)remove(target);
}

/* A pipe has no bytes, as an empty file, which may be replaced; a device that would be
 * replaced by a log is worse: both are refused, as by ms_log_open, and stay. */
static void a_rewrite_replaces_no_pipe(void **state)
{
    char target[320];
    struct stat st;
    ms_error err;
    ms_log_desc from = desc_of(MS_LOG_READ), to = desc_of(MS_LOG_CREATE);
    (void)state;
    make_log(3);
    ms_store *source = must_open(&from);
    snprintf(target, sizeof target, "%s.target", path);
    assert_int_equal(mkfifo(target, 0600), 0);
    to.path = target;
    assert_int_equal(ms_log_rewrite(source, &to, true, NULL, NULL, &err), MS_E_FOREIGN);
    assert_non_null(strstr(err.message, "not a regular file"));
    assert_int_equal(stat(target, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    assert_int_equal(folder_count(folder), 2);
    assert_int_equal(remove(target), 0);
    assert_int_equal(symlink("/dev/null", target), 0);
    assert_int_equal(ms_log_rewrite(source, &to, true, NULL, NULL, NULL), MS_E_FOREIGN);
    assert_int_equal(lstat(target, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    ms_close(source);
    assert_int_equal(remove(target), 0);
}

static int stats_left;

/* A writer begins at the third look at the file that a reader takes. */
static int stat_before_a_writer(void *ctx, ms_file file, ms_os_stat *out)
{
    if (stats_left > 0 && --stats_left == 0) {
        ms_log_desc desc = desc_of(MS_LOG_WRITE);
        ms_store *writer = must_open(&desc);
        assert_int_equal(append(writer, "after the start", NULL), MS_OK);
        ms_close(writer);
    }
    return ms_os_default()->stat(ctx, file, out);
}

static void a_watermark_of_before_the_start_is_not_believed(void **state)
{
    (void)state;
    for (int look = 1; look < 8; look++) {
        unsigned char mark[8];
        ms_log_info info;
        ms_os os = *ms_os_default();
        ms_log_desc read = desc_of(MS_LOG_READ), write = desc_of(MS_LOG_WRITE);
        make_log(5);
        start_the_machine_anew();
        read_at(MS__AT_MARK, mark, sizeof mark);
        ms__put64(mark, ms__get64(mark) + 8192); /* what stood there was lost */
        write_at(MS__AT_MARK, mark, sizeof mark);
        os.stat = stat_before_a_writer;
        read.os = &os;
        stats_left = look;
        ms_store *reader = must_open(&read);
        stats_left = 0;
        ms_store *writer = must_open(&write);
        assert_int_equal(append(writer, "first", NULL), MS_OK);
        size_t there = count_of(writer);
        assert_int_equal(count_of(reader), there);
        for (int i = 0; i < 200; i++)
            assert_int_equal(append(writer, "later", NULL), MS_OK);
        assert_int_equal(count_of(reader), there + 200);
        assert_int_equal(ms_log_stat(reader, &info, NULL), MS_OK);
        assert_int_equal(info.damaged, 0);
        ms_close(writer);
        ms_close(reader);
    }
}

/* The messages that are left; that some are lost is said, and fine. */
static size_t count_left(ms_store *store)
{
    ms_query all;
    ms_cursor it;
    size_t n = 0;
    memset(&all, 0, sizeof all);
    assert_int_equal(ms_query_open(store, &all, &it, NULL), MS_OK);
    while (ms_next(&it) != NULL) n++;
    ms_result result = ms_cursor_close(&it, NULL);
    assert_true(result == MS_OK || result == MS_E_DAMAGED);
    return n;
}

static size_t count_left_at_path(void)
{
    ms_log_desc desc = desc_of(MS_LOG_READ);
    ms_store *store = must_open(&desc);
    size_t n = count_left(store);
    ms_close(store);
    return n;
}

/* A file that somebody has cut while the machine ran on has a watermark behind its end:
 * several writers go on as one alone does, and touch nothing that is not there. */
static void a_file_takes_appends_when_it_is_truncated_below_its_watermark(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++)
        for (uint64_t left = 4096; left < 24000; left += 1000) {
            ms_log_desc desc = desc_of(MS_LOG_WRITE);
            ms_error err;
            make_log(400);
            assert_int_equal(truncate(path, (off_t)left), 0);
            desc.shared = shared == 1;
            ms_store *store = must_open(&desc);
            size_t n = count_left(store);
            uint64_t seq = 0;
            for (size_t i = 1; i <= 3; i++) {
                ms_envelope m = ms_user_message(ms_text("there"));
                if (ms_append(store, MS_STR("here"), &m, &seq, &err) != MS_OK)
                    fail_msg("cut to %d: %s", (int)left, err.message);
                assert_true(seq > n);
                assert_int_equal(count_left(store), n + i);
            }
            ms_close(store);
            assert_int_equal(count_left_at_path(), n + 3);
            start_the_machine_anew();
            assert_int_equal(count_left_at_path(), n + 3);
        }
}

/* A flipped bit in the watermark, which has no check, costs nothing that is durable and
 * does not lead what is appended astray: off the grid of 8 bytes nobody would find it. */
static void a_flipped_bit_in_the_watermark_stops_nobody(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 128; k++) {
        ms_log_desc desc = desc_of(MS_LOG_WRITE);
        ms_error err;
        unsigned char word[8];
        make_log(50);
        read_at(MS__AT_MARK, word, sizeof word);
        word[k % 64 / 8] ^= (unsigned char)(1u << k % 8);
        write_at(MS__AT_MARK, word, sizeof word);
        desc.shared = k >= 64;
        ms_store *store = must_open(&desc);
        for (int i = 0; i < 2; i++) {
            ms_envelope m = ms_user_message(ms_text("there"));
            if (ms_append(store, MS_STR("here"), &m, NULL, &err) != MS_OK)
                fail_msg("bit %u: %s", k, err.message);
        }
        ms_close(store);
        if (count_left_at_path() != 52)
            fail_msg("bit %u: %d messages are left", k, (int)count_left_at_path());
        start_the_machine_anew();
        assert_int_equal(count_left_at_path(), 52);
    }
}

static void *resize_until(void *ctx, void *ptr, size_t old_size, size_t new_size)
{
    long *left = (long *)ctx;
    if (new_size > old_size && *left > 0 && --*left == 0) return NULL;
    if (new_size != 0) return realloc(ptr, new_size);
    free(ptr);
    return NULL;
}

static void a_reader_without_memory_begins_again(void **state)
{
    long left = 0;
    bool all = false;
    (void)state;
    for (long fail = 1; !all; fail++) {
        ms_stat stat;
        uint64_t seq;
        ms_log_desc read = desc_of(MS_LOG_READ), write = desc_of(MS_LOG_CREATE);
        assert_true(write_file(path, "", 0)); /* empty: nothing to take in yet */
        read.alloc.resize = resize_until;
        read.alloc.ctx = &left;
        write.segment_size = MS_LOG_SEGMENT_MIN;
        ms_store *reader = must_open(&read), *writer = must_open(&write);
        for (int i = 0; i < 500; i++)
            assert_int_equal(append(writer, "hello", NULL), MS_OK);
        left = fail;
        ms_result code = test_refresh(reader, &seq, NULL);
        all = left > 0;
        left = 0;
        assert_int_equal(code, all ? MS_OK : MS_E_NO_MEMORY);
        for (int i = 0; i < 3; i++)
            assert_int_equal(append(writer, "hello", NULL), MS_OK);
        assert_int_equal(count_of(reader), 503);
        assert_int_equal(ms_store_stat(reader, &stat, NULL), MS_OK);
        assert_int_equal(stat.messages, 503);
        ms_close(writer);
        ms_close(reader);
    }
}

static int no_descriptor_for_the_folder(void *ctx, const char *of)
{
    (void)ctx;
    (void)of;
    return armed ? EMFILE : 0;
}

static void a_folder_that_cannot_be_opened_poisons_nothing(void **state)
{
    ms_os os = *ms_os_default();
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    (void)state;
    make_log(1);
    os.sync_folder = no_descriptor_for_the_folder;
    desc.os = &os;
    ms_store *store = must_open(&desc);
    assert_int_equal(append(store, "a", NULL), MS_OK);
    armed = true;
    assert_int_not_equal(ms_sync(store, NULL, NULL), MS_OK);
    armed = false;
    assert_int_equal(append(store, "b", NULL), MS_OK);
    assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
    ms_close(store);
    assert_int_equal(count_at_path(), 3);
}

static int no_large_map(void *ctx, ms_file file, uint64_t offset, size_t size,
                        unsigned how, void **out)
{
    if (armed && size > (size_t)1 << 20) return ENOMEM;
    return ms_os_default()->map(ctx, file, offset, size, how, out);
}

static void an_append_that_failed_does_not_come_back(void **state)
{
    enum { BIG = 3 << 20 };
    ms_os os = *ms_os_default();
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    char *big = (char *)malloc(BIG);
    (void)state;
    assert_non_null(big);
    memset(big, 'z', BIG - 1);
    big[BIG - 1] = 0;
    make_log(1);
    os.map = no_large_map;
    os.exact_maps = true;
    desc.os = &os;
    desc.engine = MS_ENGINE_WRITE;
    ms_store *store = must_open(&desc);
    assert_int_equal(append(store, "a", NULL), MS_OK);
    armed = true;
    assert_int_equal(append(store, big, NULL), MS_E_NO_MEMORY);
    armed = false;
    assert_int_equal(count_of(store), 2);
    ms_close(store);
    free(big);
    start_the_machine_anew();
    assert_int_equal(count_at_path(), 2);
}


/* The offset of the last record of a closed log ends here. */
static uint64_t end_at_path(void)
{
    ms_log_desc desc = desc_of(MS_LOG_READ);
    ms_log_report report;
    assert_int_equal(ms_log_verify(&desc, &report, NULL), MS_OK);
    return report.end;
}


/* ---- files that were made to be slow, large, or wrong ---- */

/* Leaves that each claim a segment as far off as one leaf may. */
static void lying_segment_numbers_cost_no_memory(void **state)
{
    enum { SIZE = 248, FILE_SIZE = 128 << 10 };
    uint64_t segment = 0;
    ms_log_info info;
    ms_log_desc desc = desc_of(MS_LOG_READ);
    (void)state;
    make_log(1);
    craft c = craft_of();
    for (uint64_t at = c.end; at < FILE_SIZE; at += SIZE) {
        unsigned char r[SIZE];
        memset(r, 0, sizeof r);
        ms__own_header(r, SIZE - 4, MS__KIND_INDEX, MS__INDEX_SEGMENT, 1);
        segment += at / MS__SEGMENT_FIXED - 1;
        ms__put32(r + 128, (uint32_t)segment++);
        ms__put64(r + 136, MS__SUPER_SIZE);
        ms__put32(r + 212, 2);
        ms__seal_at(c.id.crc, at, r);
        write_at(at, r, sizeof r);
    }
    memset(c.head + MS__AT_CHECKPOINTS, 0, 1024);
    memset(c.head + MS__AT_HINT, 0, 120);
    write_at(0, c.head, sizeof c.head);
    ms_store *store = must_open(&desc);
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    assert_true(info.segments <= FILE_SIZE / MS__SEGMENT_FIXED);
    assert_true(info.memory < (uint64_t)1 << 20);
    ms_close(store);
}

/* Headers that hold every 40 bytes, each with a body up to the end that does not. Twice
 * the file may take twice the time, not four times. */
static double time_to_open_nested(uint64_t size, bool between)
{
    unsigned char *bytes = (unsigned char *)calloc(1, size);
    assert_non_null(bytes);
    make_log(1);
    craft c = craft_of();
    for (uint64_t at = c.end + 40; at + 192 < size; at += between ? 80 : 40) {
        unsigned char *r = bytes + at;
        ms__put32(r, (uint32_t)(size - at));
        r[4] = MS__KIND_MESSAGE;
        r[5] = MS_T_USER_MESSAGE;
        ms__put64(r + 8, 100);
        ms__put32(r + 24, 1);
        ms__put32(r + 28, ms__check_at(c.id.crc, at, r));
        if (!between) continue;
        ms__put32(r + 40, 40);
        r[44] = MS__KIND_INDEX;
        ms__seal_at(c.id.crc, at + 40, r + 40);
    }
    write_at(c.end, bytes + c.end, size - c.end);
    free(bytes);
    ms__checkpoint slot = ms__checkpoint_newest(c.head);
    slot.end = size;
    slot.generation += 5;
    ms__checkpoint_encode(&slot, c.head + MS__AT_CHECKPOINTS);
    memset(c.head + MS__AT_CHECKPOINTS + MS__CHECKPOINT_STEP, 0, 44);
    memset(c.head + MS__AT_WRITER, 0, 40);
    write_at(0, c.head, sizeof c.head);
    ms_log_desc desc = desc_of(MS_LOG_READ);
    double start = now_ms();
    ms_store *store = must_open(&desc);
    double took = now_ms() - start;
    ms_close(store);
    return took;
}

static void nested_sizes_cost_no_time(void **state)
{
    (void)state;
    for (int between = 0; between < 2; between++) {
        double took = time_to_open_nested((uint64_t)(between ? 2 : 4) << 20, between == 1);
        if (took > 2000) fail_msg("opening it took %.0f ms", took);
    }
}

static void a_file_of_three_exbibytes_is_refused(void **state)
{
    ms_error err;
    ms_store *store;
    ms_log_desc desc = desc_of(MS_LOG_READ);
    (void)state;
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

static void the_largest_number_is_never_given(void **state)
{
    uint64_t seq = 77;
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    (void)state;
    make_log(2);
    craft c = craft_of();
    ms__checkpoint slot = ms__checkpoint_newest(c.head);
    slot.seq = UINT64_MAX;
    slot.generation += 5;
    ms__checkpoint_encode(&slot, c.head + MS__AT_CHECKPOINTS);
    write_at(0, c.head, sizeof c.head);
    ms_store *store = must_open(&desc);
    assert_int_equal(append(store, "x", &seq), MS_OK);
    assert_true(seq > 2 && seq < UINT64_MAX);
    ms_close(store);
    assert_int_equal(count_at_path(), 3);
}

/* Changes one byte of a text in the file. */
static void damage(const char *text)
{
    static unsigned char bytes[65536];
    ms_log_desc desc = desc_of(MS_LOG_READ);
    ms_store *store = must_open(&desc);
    uint64_t end = ms__log_of(store)->end;
    ms_close(store);
    assert_true(end <= sizeof bytes);
    read_at(0, bytes, (size_t)end);
    unsigned char *at = memmem(bytes, (size_t)end, text, strlen(text));
    assert_non_null(at);
    *at ^= 1;
    write_at((uint64_t)(at - bytes), at, 1);
}

enum { CUT_SIZE = 32768 }; /* of a file that is killed or cut */

/* As if the process had been killed: nothing is synced, and nothing is closed. */
static void kill_writer(ms_store *store)
{
    static unsigned char now[CUT_SIZE];
    read_at(0, now, sizeof now);
    ms_close(store);
    assert_int_equal(truncate(path, CUT_SIZE), 0);
    write_at(0, now, sizeof now);
}

/* What is durable is told in a checkpoint that comes after the newest, whatever number that has:
 * what is damaged later is damage then, not an end, and hides nothing behind it. */
static void no_checkpoint_is_the_newest_for_ever(void **state)
{
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    ms_arena arena;
    ms_error err;
    const ms_msg *msg;
    uint64_t behind;
    (void)state;
    test_arena_init(&arena, NULL);
    make_log(2);
    craft c = craft_of();
    ms__checkpoint slot = ms__checkpoint_newest(c.head);
    slot.generation = UINT64_MAX;
    ms__checkpoint_encode(&slot, c.head + MS__AT_CHECKPOINTS + MS__CHECKPOINT_STEP);
    write_at(0, c.head, sizeof c.head);
    ms_store *store = must_open(&desc);
    assert_int_equal(append(store, "will be damaged", NULL), MS_OK);
    assert_int_equal(append(store, "stands behind it", &behind), MS_OK);
    assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
    kill_writer(store); /* closing would store it in both places */
    start_the_machine_anew();
    damage("will be damaged");
    desc.mode = MS_LOG_READ;
    store = must_open(&desc);
    assert_int_equal(ms_get_by_seq(store, behind, &arena, &msg, &err), MS_OK);
    ms_close(store);
    ms_arena_deinit(&arena);
}

/* A redaction ended at its first mark, which stands for the check of the body; then the
 * file was cut in the middle of the message, and written on. No check tells that the
 * message is not whole, but what stands inside of it now does. */
static void a_redacted_message_hides_nothing_when_it_is_truncated(void **state)
{
    static char text[601];
    unsigned char head[MS__HEADER];
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    ms_arena arena;
    ms_error err;
    const ms_msg *msg;
    uint64_t seq;
    (void)state;
    memset(text, 't', sizeof text - 1);
    make_log(1);
    test_arena_init(&arena, NULL);
    ms_store *store = must_open(&desc);
    assert_int_equal(append(store, "before", NULL), MS_OK);
    uint64_t at = ms__log_of(store)->end;
    assert_int_equal(append(store, text, &seq), MS_OK);
    assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
    ms_close(store);
    craft c = craft_of();
    read_at(at, head, sizeof head);
    ms__put32(head + 24, MS__ERASED);
    ms__put32(head + 28, ms__check_at(c.id.crc, at, head));
    write_at(at, head, sizeof head);
    assert_int_equal(truncate(path, (off_t)at + 128), 0);
    store = must_open(&desc);
    assert_int_equal(append(store, "inside of it", &seq), MS_OK);
    assert_int_equal(append(store, text, NULL), MS_OK); /* ends behind its end */
    ms_close(store);
    desc.mode = MS_LOG_READ;
    store = must_open(&desc);
    assert_int_equal(ms_get_by_seq(store, seq, &arena, &msg, &err), MS_OK);
    ms_close(store);
    ms_arena_deinit(&arena);
}

/* ---- power that is cut twice ----
 * The file as it is when all that was written has come to the disk, and as it was at the
 * last sync; a cut leaves some sectors of either. */

static unsigned char on_disk[CUT_SIZE];

static int sync_and_keep(void *ctx, ms_file file)
{
    FILE *f = fopen(path, "rb");
    (void)ctx;
    (void)file;
    assert_non_null(f);
    size_t got = fread(on_disk, 1, sizeof on_disk, f);
    memset(on_disk + got, 0, sizeof on_disk - got);
    assert_int_equal(fclose(f), 0);
    return 0;
}

/* The zeros that are put over what is dead, when they cannot be written. */
static int write_no_zeros(void *ctx, ms_file file, uint64_t offset, const void *from,
                          size_t size, size_t *done)
{
    if (armed && ((const char *)from)[0] == 0) return EIO; /* no record begins so */
    return ms_os_default()->write(ctx, file, offset, from, size, done);
}

/* A writer that appends twice, and syncs if its mode does not; then the power is cut. */
static void append_sync_and_cut(const ms_log_desc *desc)
{
    static unsigned char synced[CUT_SIZE];
    ms_os os = *ms_os_default();
    ms_log_desc d = *desc;
    os.sync = sync_and_keep;
    d.os = &os;
    ms_store *store = must_open(&d);
    assert_int_equal(append(store, "three", NULL), MS_OK);
    if (d.sync != MS_SYNC_EACH) { /* else the flag of the second would say it, too */
        assert_int_equal(append(store, "four", NULL), MS_OK);
        assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
    }
    memcpy(synced, on_disk, sizeof synced); /* closing syncs again */
    ms_close(store);
    assert_int_equal(truncate(path, CUT_SIZE), 0);
    write_at(0, synced, sizeof synced);
    start_the_machine_anew();
}

/* A file of which nothing was synced is cut within a record while the machine runs, or the
 * record is damaged; what is appended behind that goes on only because the watermark says
 * so, which a cut of power takes away. */
static void synced_appends_survive_when_a_record_before_them_is_torn(void **state)
{
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    (void)state;
    for (int i = 0; i < 4; i++) {
        bool cut = i % 2 != 0;
        desc.sync = MS_SYNC_NONE;
        make_log(0);
        ms_store *store = must_open(&desc);
        assert_int_equal(append(store, "not synced", NULL), MS_OK);
        assert_int_equal(append(store, "not synced, too", NULL), MS_OK);
        uint64_t end = ms__log_of(store)->end;
        kill_writer(store);
        if (cut) assert_int_equal(truncate(path, (off_t)end - 24), 0);
        else damage("not synced, too");
        desc.sync = i < 2 ? MS_SYNC_NONE : MS_SYNC_EACH;
        append_sync_and_cut(&desc);
        assert_int_equal(count_left_at_path(), i < 2 ? 3 : 2);
    }
}

/* No record begins inside of the superblock, whatever the watermark is. */
static void a_log_begins_after_the_superblock_when_its_watermark_is_inside(void **state)
{
    unsigned char word[8];
    unsigned char none[MS__CHECKPOINT_SIZE] = {0};
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        ms_log_desc desc = desc_of(MS_LOG_WRITE);
        make_log(0);
        ms_store *store = must_open(&desc);
        assert_int_equal(append(store, "not synced", NULL), MS_OK);
        kill_writer(store);
        ms__put64(word, 56);
        write_at(MS__AT_MARK, word, sizeof word);
        write_at(MS__AT_CHECKPOINTS, none, sizeof none);
        write_at(MS__AT_CHECKPOINTS + MS__CHECKPOINT_STEP, none, sizeof none);
        desc.shared = shared == 1;
        store = must_open(&desc);
        assert_int_equal(append(store, "there", NULL), MS_OK);
        assert_int_equal(append(store, "there, too", NULL), MS_OK);
        ms_close(store);
        assert_int_equal(count_left_at_path(), 2);
    }
}

/* A file that was cut anywhere in its last record, or in one of a batch before it: what is
 * appended then is seen. */
static void appends_are_visible_when_the_file_was_truncated_anywhere(void **state)
{
    ms_envelope batch[3];
    size_t size;
    (void)state;
    make_log(2);
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    ms_store *store = must_open(&desc);
    for (int i = 0; i < 3; i++) {
        batch[i] = ms_user_message(ms_text("one of a batch, so long that what is appended "
                                           "after the cut lies inside of it"));
        batch[i].location = MS_STR("here");
    }
    assert_int_equal(ms_append_batch(store, batch, 3, NULL, NULL), MS_OK);
    assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
    uint64_t end = ms__log_of(store)->end;
    ms_close(store);
    char *whole = read_file(path, &size);
    assert_non_null(whole);
    for (uint64_t cut = end - 400; cut < end; cut++) {
        assert_true(write_file(path, whole, (size_t)cut));
        start_the_machine_anew();
        desc.mode = MS_LOG_WRITE;
        store = must_open(&desc);
        size_t before = count_left(store);
        assert_int_equal(append(store, "after the cut", NULL), MS_OK);
        ms_close(store);
        if (count_left_at_path() != before + 1)
            fail_msg("cut to %u of %u bytes", (unsigned)cut, (unsigned)end);
    }
    free(whole);
}

/* A log with messages in two segments that were not synced; gives where the segment index of the
 * first stands. */
static uint64_t make_two_segments(void)
{
    static char large[5000];
    unsigned char word[8];
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    memset(large, 'x', sizeof large - 1);
    make_log(3);
    desc.segment_size = MS_LOG_SEGMENT_MIN;
    ms_store *store = must_open(&desc);
    assert_int_equal(append(store, "below the leaf", NULL), MS_OK);
    assert_int_equal(append(store, large, NULL), MS_OK);
    kill_writer(store);
    read_at(MS__AT_HINT, word, sizeof word);
    assert_true(ms__get64(word) > MS__SUPER_SIZE);
    return ms__get64(word);
}

/* Opening begins behind the newest segment index, and so does not see what is damaged before it and
 * was not durable. Where the segment index is what was damaged, it is made anew, and no message is
 * missed. Behind both goes on what is synced next. */
static void synced_appends_survive_when_unseen_damage_is_before_them(void **state)
{
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    unsigned char byte;
    (void)state;
    (void)make_two_segments();
    damage("below the leaf");
    append_sync_and_cut(&desc);
    assert_int_equal(count_left_at_path(), 3 + 1 + 2);
    uint64_t leaf = make_two_segments();
    read_at(leaf + 200, &byte, 1);
    byte ^= 1;
    write_at(leaf + 200, &byte, 1);
    append_sync_and_cut(&desc);
    assert_int_equal(count_left_at_path(), 3 + 2 + 2);
}

static struct {
    ms_store *store;
    ms_log_info before;
    int left; /* syncs, then they fail */
} second;

static void must_not_be_told(void)
{
    ms_log_info info;
    assert_int_equal(ms_log_stat(second.store, &info, NULL), MS_OK);
    assert_int_equal(info.durable_end, second.before.durable_end);
    assert_int_equal(info.durable_seq, second.before.durable_seq);
}

static int sync_once(void *ctx, ms_file file)
{
    if (second.left-- == 0) {
        must_not_be_told();
        return EIO;
    }
    return ms_os_default()->sync(ctx, file);
}

/* The second of the two syncs that follow damage fails: nobody may find what the first one
 * made durable, and so it is not called durable, nor while the second one runs. */
static void nothing_is_durable_when_the_sync_of_the_checkpoint_fails(void **state)
{
    ms_os os = *ms_os_default();
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    (void)state;
    (void)make_two_segments();
    os.sync = sync_once;
    desc.os = &os;
    second.left = 1;
    second.store = must_open(&desc);
    assert_int_equal(ms_log_stat(second.store, &second.before, NULL), MS_OK);
    assert_int_equal(append(second.store, "durable, perhaps", NULL), MS_OK);
    assert_int_equal(ms_sync(second.store, NULL, NULL), MS_E_POISONED);
    assert_int_equal(second.left, -1);
    must_not_be_told();
    ms_close(second.store);
}

/* A flipped bit puts the watermark into the last record, `inside` bytes after its begin: a
 * valid header reaches over what the next writer puts there, which must stay visible. */
static void watermark_inside(uint64_t inside)
{
    static char text[501];
    unsigned char word[8];
    ms_log_desc desc = desc_of(MS_LOG_WRITE), reading = desc_of(MS_LOG_READ);
    ms_log_info info;
    memset(text, 'l', sizeof text - 1);
    make_log(1);
    read_at(MS__AT_MARK, word, sizeof word);
    uint64_t begin = ms__get64(word);
    ms_store *store = must_open(&desc);
    assert_int_equal(append(store, text, NULL), MS_OK);
    kill_writer(store);
    ms__put64(word, begin + inside);
    write_at(MS__AT_MARK, word, sizeof word);
    for (size_t written = 0; written < 12; written += 3) {
        store = must_open(&desc);
        for (int i = 0; i < 3; i++)
            assert_int_equal(append(store, "hello", NULL), MS_OK);
        ms_close(store);
        store = must_open(&reading);
        if (count_with(store, MS_E_DAMAGED) != 1 + written + 3)
            fail_msg("a watermark after %u bytes", (unsigned)inside);
        ms_close(store);
    }
    start_the_machine_anew();
    store = must_open(&reading);
    assert_int_equal(count_with(store, MS_E_DAMAGED), 13);
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    assert_int_equal(info.damaged, 1); /* reported for good */
    ms_close(store);
}

static void a_watermark_inside_of_a_record_hides_nothing_new(void **state)
{
    (void)state;
    for (uint64_t inside = 8; inside < 500; inside += 8) watermark_inside(inside);
}

static bool file_has(const char *text)
{
    static char bytes[1 << 16];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t size = fread(bytes, 1, sizeof bytes, f), len = strlen(text);
    assert_int_equal(fclose(f), 0);
    for (size_t i = 0; i + len <= size; i++)
        if (memcmp(bytes + i, text, len) == 0) return true;
    return false;
}

/* Text in a damaged record cannot be erased: whoever asks for it is told. */
static void a_redaction_that_skips_a_damaged_record_says_so(void **state)
{
    unsigned char byte;
    uint64_t first, at;
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    ms_envelope change = ms_user_message(ms_text("secret 2"));
    ms_error err;
    (void)state;
    make_log(1);
    ms_store *store = must_open(&desc);
    assert_int_equal(append(store, "secret 1", &first), MS_OK);
    at = craft_of().end; /* where the change will stand */
    assert_int_equal(ms_amend(store, first, &change, NULL), MS_OK);
    ms_close(store);
    read_at(at + MS__HEADER, &byte, 1);
    byte ^= 1;
    write_at(at + MS__HEADER, &byte, 1);
    start_the_machine_anew();
    store = must_open(&desc);
    memset(&err, 0, sizeof err);
    assert_int_equal(ms_redact(store, first, &err), MS_E_DAMAGED);
    assert_non_null(strstr(err.message, "damaged"));
    assert_false(file_has("secret 1"));
    assert_true(file_has("secret 2"));
    assert_int_equal(ms_redact(store, first, NULL), MS_E_DAMAGED);
    assert_int_equal(append(store, "another", &first), MS_OK);
    ms_close(store);
}

/* What a killed writer had not synced is visible, and nobody says that it is durable. */
static void what_was_not_synced_is_not_called_durable(void **state)
{
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    ms_log_info info;
    (void)state;
    make_log(2);
    ms_store *store = must_open(&desc);
    assert_int_equal(append(store, "third", NULL), MS_OK);
    kill_writer(store);
    for (int mode = 0; mode < 2; mode++) {
        desc.mode = mode == 0 ? MS_LOG_READ : MS_LOG_WRITE;
        store = must_open(&desc);
        assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
        assert_int_equal(info.durable_seq, 2);
        assert_true(info.durable_end < info.end);
        ms_close(store);
    }
}

/* Who could read a log can read it when it is compacted, and nobody else. As root: the
 * owner and the group stay, too. What a killed compaction has left is gone. */
static void a_compaction_keeps_who_may_use_the_file(void **state)
{
    char part[340];
    struct stat before, after;
    ms_log_desc from = desc_of(MS_LOG_READ), to = desc_of(MS_LOG_CREATE);
    (void)state;
    make_log(3);
    assert_int_equal(chmod(path, 0640), 0);
    if (geteuid() == 0) assert_int_equal(chown(path, 4711, 4712), 0);
    assert_int_equal(stat(path, &before), 0);
    snprintf(part, sizeof part, "%s.compacting", path);
    FILE *f = fopen(part, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite("half", 1, 4, f), 4);
    assert_int_equal(fclose(f), 0);
    ms_store *source = must_open(&from);
    assert_int_equal(ms_log_rewrite(source, &to, true, NULL, NULL, NULL), MS_OK);
    ms_close(source);
    assert_int_equal(stat(path, &after), 0);
    assert_int_not_equal(after.st_ino, before.st_ino);
    assert_int_equal(after.st_mode, before.st_mode);
    assert_int_equal(after.st_uid, before.st_uid);
    assert_int_equal(after.st_gid, before.st_gid);
    assert_int_equal(access(part, F_OK), -1);
    assert_int_equal(count_at_path(), 3);
}

static int no_access(void *ctx, const char *file, const char *like)
{
    (void)ctx;
    (void)file;
    (void)like;
    return EPERM;
}

static void a_compaction_that_cannot_keep_the_owner_changes_nothing(void **state)
{
    struct stat before, after;
    ms_error err;
    ms_os os = *ms_os_default();
    ms_log_desc from = desc_of(MS_LOG_READ), to = desc_of(MS_LOG_CREATE);
    (void)state;
    make_log(3);
    os.access_like = no_access;
    to.os = &os;
    assert_int_equal(stat(path, &before), 0);
    ms_store *source = must_open(&from);
    assert_int_equal(ms_log_rewrite(source, &to, true, NULL, NULL, &err), MS_E_IO);
    assert_int_equal(err.sys_errno, EPERM);
    assert_non_null(strstr(err.message, "owner"));
    ms_close(source);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_ino, before.st_ino);
    assert_int_equal(count_at_path(), 3);
}

static size_t count_in(ms_store *store, const char *place)
{
    ms_query q;
    ms_cursor it;
    size_t n = 0;
    memset(&q, 0, sizeof q);
    q.location = ms_str_of(place);
    q.views = MS_VIEW_TIMELINE;
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while (ms_next(&it) != NULL) n++;
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    return n;
}

/* The places of the INDEX records of a file that ends at `end`. */
static size_t index_records(uint64_t end, uint64_t *places, size_t most)
{
    craft c = craft_of();
    unsigned char r[MS__HEADER];
    size_t n = 0;
    for (uint64_t at = MS__SUPER_SIZE; at < end; at += ms__padded(ms__get32(r))) {
        read_at(at, r, sizeof r);
        assert_true(ms__holds_at(c.id.crc, at, r));
        if (r[4] == MS__KIND_INDEX && n < most) places[n++] = at;
    }
    return n;
}

/* Appends until there are so many segments more, with a key now and then. */
static void append_segments(ms_store *store, uint64_t more)
{
    ms_log_info info;
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    for (uint64_t until = info.segments + more; info.segments < until;) {
        assert_int_equal(append(store, "a message that takes some room", NULL), MS_OK);
        assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    }
}

static void must_have_all_of_early(ms_store *store)
{
    ms_envelope m = ms_user_message(ms_text("of long ago"));
    uint64_t seq = 0;
    assert_int_equal(count_in(store, "early"), 30);
    m.key = MS_STR("the first one");
    assert_int_equal(ms_append(store, MS_STR("early"), &m, &seq, NULL), MS_OK);
    assert_int_equal(seq, 1); /* a repeat */
}

/* A conversation of long ago and its key stay, whichever index record is damaged: before
 * the next summary is made over its segments, and after it. */
static void no_damaged_index_record_hides_a_conversation(void **state)
{
    uint64_t places[400];
    ms_log_desc desc = desc_of(MS_LOG_NEW);
    ms_log_info info;
    ms_envelope m = ms_user_message(ms_text("of long ago"));
    (void)state;
    (void)remove(path);
    desc.segment_size = MS_LOG_SEGMENT_MIN;
    ms_store *store = must_open(&desc);
    m.key = MS_STR("the first one");
    for (int i = 0; i < 30; i++) {
        assert_int_equal(ms_append(store, MS_STR("early"), &m, NULL, NULL), MS_OK);
        m.key = ms_str_n(NULL, 0);
    }
    append_segments(store, 60); /* a summary, and nearly another one */
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    assert_int_equal(info.summaries, 1);
    ms_close(store);
    size_t size, n = index_records(info.end, places, 400);
    char *whole = read_file(path, &size);
    assert_true(whole != NULL && n > 62 && n < 400);
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)(whole[places[i] + MS__HEADER + 8] ^ 4);
        assert_true(write_file(path, whole, size));
        write_at(places[i] + MS__HEADER + 8, &byte, 1);
        start_the_machine_anew();
        desc.mode = MS_LOG_WRITE;
        store = must_open(&desc);
        must_have_all_of_early(store);
        append_segments(store, 10);
        assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
        assert_true(info.summaries >= 2);
        must_have_all_of_early(store);
        ms_close(store);
        store = must_open(&desc);
        must_have_all_of_early(store);
        assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
        ms_close(store);
    }
    free(whole);
}

/* A segment index of many blocks, each damaged in turn: a reader and a writer, which both
 * need every array, derive the index and find everything; verify reports it. */
static void no_damaged_block_of_an_index_hides_a_message(void **state)
{
    enum { MANY = 3000 };
    uint64_t places[8];
    ms_log_desc desc = desc_of(MS_LOG_NEW), reading = desc_of(MS_LOG_READ);
    ms_log_info info;
    ms_log_report report;
    ms_stat stat;
    char name[16];
    (void)state;
    (void)remove(path);
    ms_store *store = must_open(&desc);
    for (unsigned i = 0; i < MANY; i++) {
        ms_envelope m = ms_user_message(ms_text("one of many"));
        snprintf(name, sizeof name, "place_%u", i);
        if (i == 0) m.key = MS_STR("the first one");
        m.location = ms_str_of(i % 2 ? name : "early");
        assert_int_equal(ms_append(store, m.location, &m, NULL, NULL), MS_OK);
    }
    assert_int_equal(ms__segment_write(ms__log_of(store), NULL), MS_OK);
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    ms_close(store);
    size_t size, n = index_records(info.end, places, 8);
    char *whole = read_file(path, &size);
    assert_true(whole != NULL && n == 1);
    uint32_t length = ms__get32((const unsigned char *)whole + places[0]);
    assert_true(length > 8 * 4096);
    for (uint32_t at = MS__HEADER; at < length; at += at < 400 ? 5 : 509) {
        unsigned char byte = (unsigned char)(whole[places[0] + at] ^ 4);
        assert_true(write_file(path, whole, size));
        write_at(places[0] + at, &byte, 1);
        assert_int_equal(ms_log_verify(&reading, &report, NULL), MS_E_DAMAGED);
        assert_int_equal(report.index_damaged, 1);
        assert_int_equal(report.damaged, 0);
        store = must_open(&reading);
        assert_int_equal(count_in(store, "early"), MANY / 2);
        for (unsigned i = 1; i < MANY; i += 2) {
            snprintf(name, sizeof name, "place_%u", i);
            assert_int_equal(count_in(store, name), 1);
        }
        assert_int_equal(count_in(store, "elsewhere"), 0);
        assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
        assert_int_equal(stat.messages, MANY);
        assert_int_equal(stat.damaged + stat.hidden + stat.changes, 0);
        ms_close(store);
        desc.mode = MS_LOG_WRITE;
        store = must_open(&desc);
        uint64_t seq = 0;
        ms_envelope m = ms_user_message(ms_text("one of many"));
        m.key = MS_STR("the first one");
        assert_int_equal(ms_append(store, MS_STR("early"), &m, &seq, NULL), MS_OK);
        assert_int_equal(seq, 1); /* a repeat */
        assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
        ms_close(store);
    }
    free(whole);
}

/* Makes all pages of [from, upto) inaccessible that hold no byte of an index record. */
static void forbid_records(const ms__log *log, uint64_t from, uint64_t upto,
                           const uint64_t *places, size_t n)
{
    size_t forbidden = 0;
    for (uint64_t page = from & ~(uint64_t)4095; page < upto; page += 4096) {
        bool index = false;
        for (size_t i = 0; i < n; i++) {
            const unsigned char *r = ms__log_at(log, places[i]);
            index = index || (places[i] < page + 4096 &&
                              places[i] + ms__padded(ms__get32(r)) > page);
        }
        if (index) continue;
        forbidden++;
        assert_int_equal(mprotect((void *)(uintptr_t)ms__log_at(log, page), 4096, PROT_NONE),
                         0);
    }
    assert_true(forbidden > 100);
}

/* A query that a damaged summary cannot help reads the segment indexes, and no record of
 * the segments that lack its location. */
static void a_damaged_summary_costs_its_segment_indexes_alone(void **state)
{
    uint64_t places[400], seq;
    ms_log_desc desc = desc_of(MS_LOG_NEW);
    ms_query q;
    ms_cursor it;
    ms_log_info info;
    ms_envelope m = ms_user_message(ms_text("of long ago"));
    (void)state;
    (void)remove(path);
    desc.segment_size = 32768;
    ms_store *store = must_open(&desc);
    m.key = MS_STR("the first one");
    assert_int_equal(ms_append(store, MS_STR("early"), &m, NULL, NULL), MS_OK);
    append_segments(store, 40);
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    assert_int_equal(info.summaries, 1);
    ms_close(store);
    size_t n = index_records(info.end, places, 400);
    for (size_t i = 0; i < n; i++) { /* the summary */
        unsigned char r[MS__HEADER + 8];
        read_at(places[i], r, sizeof r);
        r[MS__HEADER + 5] ^= 1;
        if (r[5] == MS__INDEX_SUMMARY) write_at(places[i], r, sizeof r);
    }
    desc.mode = MS_LOG_WRITE;
    store = must_open(&desc);
    forbid_records(ms__log_of(store), 2 * 4096, 31 * 32768, places, n);
    memset(&q, 0, sizeof q);
    q.location = MS_STR("early");
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    assert_non_null(ms_next(&it));
    assert_null(ms_next(&it));
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    assert_int_equal(ms_append(store, MS_STR("early"), &m, &seq, NULL), MS_OK);
    assert_int_equal(seq, 1); /* its key is known */
    ms_close(store);
}

/* Counts the bytes of the file that are in memory. */
static size_t bytes_in_memory(bool evicted)
{
    int fd = open(path, O_RDONLY);
    struct stat st;
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    if (evicted) {
        assert_int_equal(fsync(fd), 0);
        assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    }
    size_t n = ((size_t)st.st_size + 4095) / 4096, bytes = 0;
    unsigned char *in = (unsigned char *)malloc(n);
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(in != NULL && map != MAP_FAILED);
    assert_int_equal(mincore(map, (size_t)st.st_size, in), 0);
    for (size_t i = 0; i < n; i++) bytes += (in[i] & 1) * (size_t)4096;
    assert_int_equal(munmap(map, (size_t)st.st_size), 0);
    assert_int_equal(close(fd), 0);
    free(in);
    return bytes;
}

/* From opening a cold file of 30 MiB to the newest 20 of a location, few pages are read:
 * the superblock, the newest segment index and some records. */
static void a_cold_log_is_read_in_few_pages_when_it_is_opened(void **state)
{
    static char text[600];
    char place[32];
    ms_log_desc desc = desc_of(MS_LOG_NEW);
    ms_query q;
    ms_cursor it;
    char kept[sizeof path];
    size_t n = 0;
    (void)state;
    memcpy(kept, path, sizeof path); /* other files are in memory: this one is on a disk */
    snprintf(path, sizeof path, "build/cold-%ld.msl", (long)getpid());
    (void)remove(path);
    memset(text, 'x', sizeof text - 1);
    ms_store *store = must_open(&desc);
    ms_envelope m = ms_user_message(ms_text(text));
    for (int i = 0; i < 45000; i++) {
        snprintf(place, sizeof place, "place %d", i % 1000);
        assert_int_equal(ms_append(store, ms_str_of(place), &m, NULL, NULL), MS_OK);
    }
    ms_close(store);
    if (bytes_in_memory(true) > 0) {
        printf("skipped: this file system keeps files in memory\n");
        (void)remove(path);
        memcpy(path, kept, sizeof path);
        skip();
    }
    desc.mode = MS_LOG_READ;
    store = must_open(&desc);
    memset(&q, 0, sizeof q);
    q.location = MS_STR("place 7");
    q.limit = 20;
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while (ms_next(&it) != NULL) n++;
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    assert_int_equal(n, 20);
    size_t read = bytes_in_memory(false);
    printf("tally: KiB of a cold log read until its first answer %zu\n", read / 1024);
    ms_close(store);
    (void)remove(path);
    memcpy(path, kept, sizeof path);
    assert_true(read < 1024 * 1024);
}

static int room_left; /* calls that can still write; -1: as many as you like */

static int write_while_there_is_room(void *ctx, ms_file file, uint64_t offset,
                                     const void *from, size_t size, size_t *done)
{
    *done = 0;
    if (room_left == 0) return ENOSPC;
    if (room_left > 0) room_left--;
    return ms_os_default()->write(ctx, file, offset, from, size, done);
}

/* Where zeros cannot be written ahead a store through the map could end in a signal: the
 * append says that there is no room, and nothing of it is there. */
static void no_store_goes_where_nothing_could_be_written(void **state)
{
    ms_os os = *ms_os_default();
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    (void)state;
    make_log(3);
    os.write = write_while_there_is_room;
    desc.os = &os;
    desc.engine = MS_ENGINE_MAP;
    for (int calls = 0; calls < 3; calls++) {
        ms_store *store = must_open(&desc);
        room_left = calls;
        assert_int_equal(append(store, "no room", NULL), MS_E_FULL);
        room_left = -1;
        assert_int_equal(append(store, "room again", NULL), MS_OK);
        ms_close(store);
        assert_int_equal(count_at_path(), 4 + (size_t)calls);
    }
    ms_result code = MS_OK;
    ms_store *store = must_open(&desc);
    assert_int_equal(append(store, "first of many", NULL), MS_OK);
    room_left = 0; /* the room that was filled with zeros before lasts for some */
    for (int i = 0; i < 100000 && code == MS_OK; i++)
        code = append(store, "one of many", NULL);
    assert_int_equal(code, MS_E_FULL);
    room_left = -1;
    assert_int_equal(append(store, "last of many", NULL), MS_OK);
    ms_close(store);
}

static bool tear_the_line; /* the next store of the writer's epoch gets half */

static int write_half_of_the_line(void *ctx, ms_file file, uint64_t offset,
                                  const void *from, size_t size, size_t *done)
{
    if (!tear_the_line || offset != MS__AT_WRITER + MS__LINE_EPOCH)
        return ms_os_default()->write(ctx, file, offset, from, size, done);
    tear_the_line = false;
    (void)ms_os_default()->write(ctx, file, offset, from, size / 2, done);
    *done = 0;
    return ENOSPC;
}

/* A writer whose first store of its epoch fails midway: readers, one from before and a new
 * one, still see what the writer before it appended and nobody synced. */
static void a_torn_epoch_hides_nothing_from_readers(void **state)
{
    ms_os os = *ms_os_default();
    ms_log_desc desc = desc_of(MS_LOG_WRITE), read = desc_of(MS_LOG_READ);
    (void)state;
    make_log(3);
    ms_store *reader = must_open(&read);
    desc.engine = MS_ENGINE_WRITE;
    ms_store *store = must_open(&desc);
    assert_int_equal(append(store, "of the writer before", NULL), MS_OK);
    kill_writer(store);
    os.write = write_half_of_the_line;
    desc.os = &os;
    store = must_open(&desc);
    tear_the_line = true;
    assert_int_equal(append(store, "no room", NULL), MS_E_FULL);
    assert_false(tear_the_line);
    assert_int_equal(count_of(reader), 4);
    assert_int_equal(count_at_path(), 4);
    assert_int_equal(append(store, "room again", NULL), MS_OK);
    assert_int_equal(count_of(reader), 5);
    ms_close(store);
    ms_close(reader);
}

/* The messages that a segment index stands for are lost, but for the segment index: their numbers are not
 * given again, for who begins behind the segment index takes in only what comes after them. */
static void a_segment_index_hides_no_new_messages_when_its_own_are_lost(void **state)
{
    static const unsigned char zeros[CUT_SIZE];
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    unsigned char slots[2 * MS__CHECKPOINT_STEP];
    ms__checkpoint slot;
    uint64_t seq;
    (void)state;
    uint64_t leaf = make_two_segments();
    craft c = craft_of();
    slot = ms__checkpoint_newest(c.head);
    uint64_t durable = slot.end;
    slot.end = c.end; /* and the number of its last message as it was */
    memcpy(slots, c.head + MS__AT_CHECKPOINTS, sizeof slots);
    ms__checkpoint_encode(&slot, slots);
    ms__checkpoint_encode(&slot, slots + MS__CHECKPOINT_STEP);
    write_at(MS__AT_CHECKPOINTS, slots, sizeof slots);
    assert_true(leaf > durable);
    write_at(durable, zeros, (size_t)(leaf - durable));
    start_the_machine_anew();
    size_t left = count_left_at_path();
    desc.segment_size = MS_LOG_SEGMENT_MIN;
    ms_store *store = must_open(&desc);
    assert_int_equal(append(store, "new", &seq), MS_OK);
    assert_int_equal(append(store, "new, too", NULL), MS_OK);
    kill_writer(store);
    assert_int_equal(count_left_at_path(), left + 2);
    assert_true(seq > 5);
}

/* A message that a cut has ended, behind which others were written, the VOID before these
 * being damaged: as long as the message reached behind the end they were looked for, and so
 * they are when the log has grown beyond that. */
static void messages_stay_when_a_truncated_one_has_them_inside(void **state)
{
    static char text[3001];
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    (void)state;
    memset(text, 't', sizeof text - 1);
    make_log(1);
    ms_store *store = must_open(&desc);
    assert_int_equal(append(store, "before", NULL), MS_OK);
    uint64_t at = ms__log_of(store)->end;
    assert_int_equal(append(store, text, NULL), MS_OK);
    ms_close(store);
    uint64_t cut = at + 512;
    assert_int_equal(truncate(path, (off_t)cut), 0);
    store = must_open(&desc);
    assert_int_equal(append(store, "inside", NULL), MS_OK);
    assert_int_equal(append(store, "damaged", NULL), MS_OK);
    assert_int_equal(append(store, "inside, too", NULL), MS_OK);
    ms_close(store);
    damage("damaged");
    for (size_t n = 4; n < 9; n++) {
        assert_int_equal(count_left_at_path(), n);
        store = must_open(&desc);
        assert_int_equal(append(store, text, NULL), MS_OK);
        ms_close(store);
    }
}

static int sync_nothing(void *ctx, ms_file file)
{
    return armed ? EIO : ms_os_default()->sync(ctx, file);
}

enum { DEAD_SIZE = 376 }; /* of the record of one of these texts */
static const char dead_text[] =
    "dead: this text is as long as the other one, so that whoever appends over the records "
    "of one kind ends just where the next record of the other kind begins; it goes on for a "
    "while, as a sector has room for one such record and a half, and the more sectors there "
    "are the more can rot. Three hundred bytes, about as many as this: ....";

/* A log of two durable messages, then of ten more a power loss has taken the first, so that
 * nine whole ones are dead. */
static void make_dead_messages(void)
{
    static const unsigned char zeros[DEAD_SIZE];
    unsigned char slots[2 * MS__CHECKPOINT_STEP];
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    make_log(2);
    uint64_t end = end_at_path();
    read_at(MS__AT_CHECKPOINTS, slots, sizeof slots);
    ms_store *store = must_open(&desc);
    for (int i = 0; i < 10; i++) assert_int_equal(append(store, dead_text, NULL), MS_OK);
    assert_int_equal(ms__log_of(store)->end, end + 10 * DEAD_SIZE);
    ms_close(store);
    write_at(MS__AT_CHECKPOINTS, slots, sizeof slots);
    write_at(end, zeros, sizeof zeros);
    craft c = craft_of();
    /* none of them shows that what is before it had been synced */
    for (uint64_t at = end + DEAD_SIZE; at < end + 10 * DEAD_SIZE; at += DEAD_SIZE) {
        unsigned char r[DEAD_SIZE];
        read_at(at, r, sizeof r);
        r[7] &= (unsigned char)~MS_FLAG_SYNCED;
        ms__seal_at(c.id.crc, at, r);
        write_at(at, r, sizeof r);
    }
    start_the_machine_anew();
    assert_int_equal(count_at_path(), 2);
}

/* A writer that cannot zero what is dead, or not durably, appends nothing; readers are not
 * shown a new writer. */
static ms_store *append_without_zeroing(const ms_os *os, ms_result expected)
{
    static unsigned char head[MS__AT_UNCONFIRMED], now[MS__AT_UNCONFIRMED];
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    desc.os = os;
    ms_store *store = must_open(&desc);
    read_at(0, head, sizeof head);
    armed = true;
    assert_int_equal(append(store, "not yet", NULL), expected);
    armed = false;
    read_at(0, now, sizeof now);
    assert_memory_equal(head, now, sizeof head);
    assert_false(ms__log_of(store)->append.begun);
    assert_int_equal(count_of(store), 2);
    return store;
}

static void dead_bytes_that_cannot_be_zeroed_stop_an_append(void **state)
{
    ms_os os = *ms_os_default();
    (void)state;
    os.write = write_no_zeros;
    make_dead_messages();
    ms_store *store = append_without_zeroing(&os, MS_E_IO);
    ms_close(store);
    assert_int_equal(count_at_path(), 2);
    make_dead_messages();
    store = append_without_zeroing(&os, MS_E_IO);
    assert_int_equal(append(store, dead_text, NULL), MS_OK);
    ms_close(store);
    start_the_machine_anew();
    assert_int_equal(count_at_path(), 3);
}

static int zeros_written;
static uint64_t zeros_from; /* those that begin here are counted */

static int count_zeros(void *ctx, ms_file file, uint64_t offset, const void *from,
                       size_t size, size_t *done)
{
    zeros_written += ((const char *)from)[0] == 0 && offset == zeros_from;
    return ms_os_default()->write(ctx, file, offset, from, size, done);
}

/* The zeros are in memory, their sync has failed: the next writer finds zeros there, and
 * writes and syncs them all the same before it appends. */
static void zeros_whose_sync_failed_are_written_again(void **state)
{
    ms_os os = *ms_os_default();
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    (void)state;
    os.sync = sync_nothing;
    make_dead_messages();
    uint64_t end = end_at_path();
    ms_store *store = append_without_zeroing(&os, MS_E_POISONED);
    assert_int_equal(append(store, "no", NULL), MS_E_POISONED);
    assert_int_equal(ms_sync(store, NULL, NULL), MS_E_POISONED);
    assert_int_equal(count_of(store), 2);
    ms_close(store);
    os.sync = sync_and_keep;
    os.write = count_zeros;
    desc.os = &os;
    memset(on_disk, 0xff, sizeof on_disk);
    store = must_open(&desc);
    zeros_written = 0;
    zeros_from = end;
    assert_int_equal(append(store, dead_text, NULL), MS_OK);
    assert_true(zeros_written > 0);
    for (size_t i = 0; i < 10 * DEAD_SIZE; i++) assert_int_equal(on_disk[end + i], 0);
    ms_close(store);
    start_the_machine_anew();
    assert_int_equal(count_at_path(), 3);
}

/* Each sector of the file rots in turn, after a writer has gone on over dead messages: none
 * of them returns, and of the others only those in the sector are missing. */
static void dead_messages_do_not_return_when_a_sector_rots(void **state)
{
    static unsigned char good[CUT_SIZE];
    char alive[sizeof dead_text];
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    (void)state;
    make_dead_messages();
    memcpy(alive, dead_text, sizeof alive);
    memcpy(alive, "live", 4);
    ms_store *store = must_open(&desc);
    for (int i = 0; i < 5; i++) assert_int_equal(append(store, alive, NULL), MS_OK);
    assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
    uint64_t end = ms__log_of(store)->end;
    ms_close(store);
    read_at(0, good, sizeof good);
    for (uint64_t at = MS__SUPER_SIZE; at < end; at += 512) { /* and none at the end */
        unsigned char rotten[512];
        for (size_t i = 0; i < 512; i++) rotten[i] = good[at + i] ^ 0xa5;
        write_at(at, rotten, sizeof rotten);
        start_the_machine_anew();
        ms_arena arena;
        const ms_msg *msg;
        ms_query all;
        ms_cursor it;
        memset(&all, 0, sizeof all);
        desc.mode = MS_LOG_READ;
        store = must_open(&desc);
        assert_int_equal(ms_query_open(store, &all, &it, NULL), MS_OK);
        test_arena_init(&arena, NULL);
        while ((msg = ms_next(&it)) != NULL)
            assert_false(ms_str_equal(ms_content(msg).text, ms_str_of(dead_text)));
        size_t left = (size_t)it.returned;
        size_t touched = at == MS__SUPER_SIZE ? 4 : 3; /* records that a sector can touch */
        assert_true(left < 7 && left + touched >= 7);
        assert_int_equal(ms_cursor_close(&it, NULL), MS_E_DAMAGED);
        ms_close(store);
        ms_arena_deinit(&arena);
        write_at(at, good + at, sizeof rotten);
    }
}

static char beside[320]; /* PATH.torn */

/* What the first append zeroes is kept in PATH.torn, and salvage reads what is whole. */
static void torn_bytes_are_kept_beside_the_log_when_asked(void **state)
{
    ms_log_desc desc = desc_of(MS_LOG_WRITE), torn = desc_of(MS_LOG_READ);
    (void)state;
    snprintf(beside, sizeof beside, "%s.torn", path);
    (void)remove(beside);
    for (int asked = 0; asked < 3; asked++) { /* the second time it is there already */
        ms_store *store;
        make_dead_messages();
        desc.keep_torn = asked > 0;
        desc.shared = asked == 2;
        store = must_open(&desc);
        assert_int_equal(append(store, "alive", NULL), MS_OK);
        assert_int_equal(append(store, "alive", NULL), MS_OK);
        ms_close(store);
        assert_int_equal(count_at_path(), 4);
        torn.path = beside;
        torn.opening = MS_OPEN_SALVAGE;
        if (!asked) {
            assert_int_equal(ms_log_open(&store, &torn, NULL), MS_E_NOT_FOUND);
            continue;
        }
        store = must_open(&torn);
        assert_int_equal(count_with(store, MS_E_DAMAGED), 9);
        ms_close(store);
    }
    (void)remove(beside);
}

static int open_no_torn(void *ctx, const char *file, unsigned how, ms_file *out)
{
    size_t n = strlen(file);
    if (armed && n > 5 && strcmp(file + n - 5, ".torn") == 0) return EACCES;
    return ms_os_default()->open(ctx, file, how, out);
}

static void an_append_zeroes_nothing_when_torn_bytes_cannot_be_kept(void **state)
{
    static unsigned char before[10 * DEAD_SIZE], after[10 * DEAD_SIZE];
    ms_os os = *ms_os_default();
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    (void)state;
    os.open = open_no_torn;
    desc.os = &os;
    desc.keep_torn = true;
    make_dead_messages();
    uint64_t end = end_at_path();
    read_at(end, before, sizeof before);
    ms_store *store = must_open(&desc);
    armed = true;
    assert_int_equal(append(store, "not yet", NULL), MS_E_IO);
    armed = false;
    read_at(end, after, sizeof after);
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(append(store, "now", NULL), MS_OK);
    ms_close(store);
    assert_int_equal(count_at_path(), 3);
    (void)remove(beside);
}

static uint64_t written_below, written_bytes;

static int count_writes(void *ctx, ms_file file, uint64_t offset, const void *from,
                        size_t size, size_t *done)
{
    if (offset >= MS__SUPER_SIZE && offset < written_below) written_bytes += size;
    return ms_os_default()->write(ctx, file, offset, from, size, done);
}

/* A killed writer synced nothing. The next one syncs, and writes no record again: no sync
 * has failed. */
static void a_sync_writes_no_record_again_when_none_failed(void **state)
{
    ms_os os = *ms_os_default();
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    (void)state;
    os.write = count_writes;
    for (int restarted = 0; restarted < 2; restarted++) {
        make_log(0);
        desc.os = NULL;
        desc.sync = MS_SYNC_NONE;
        ms_store *store = must_open(&desc);
        for (int i = 0; i < 20; i++) assert_int_equal(append(store, "hello", NULL), MS_OK);
        written_below = ms__log_of(store)->end;
        kill_writer(store);
        if (restarted) start_the_machine_anew();
        desc.os = &os;
        desc.sync = MS_SYNC_EACH;
        store = must_open(&desc);
        written_bytes = 0;
        assert_int_equal(append(store, "more", NULL), MS_OK);
        assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
        ms_close(store);
        assert_int_equal(written_bytes, 0);
        assert_int_equal(count_at_path(), 21);
    }
}

/* Each map is as large as all before it, so that 64 of them reach as far as files go. */
static int map_nothing(void *ctx, ms_file file, uint64_t offset, size_t size,
                       unsigned how, void **out)
{
    static unsigned char nothing[1];
    (void)ctx;
    (void)file;
    (void)offset;
    (void)size;
    (void)how;
    *out = nothing;
    return 0;
}

static int unmap_nothing(void *ctx, void *map, size_t size)
{
    (void)ctx;
    (void)map;
    (void)size;
    return 0;
}

static void a_handle_grows_beyond_64_gibibytes(void **state)
{
    ms_os os = *ms_os_default();
    ms_log_desc desc = desc_of(MS_LOG_READ);
    (void)state;
    if (sizeof(size_t) < 8) skip();
    make_log(1);
    ms_store *store = must_open(&desc);
    ms__log *log = ms__log_of(store);
    uint32_t pieces = log->map.n_pieces;
    os.map = map_nothing;
    os.unmap = unmap_nothing;
    log->os = &os;
    for (uint64_t at = (uint64_t)1 << 20; at < (uint64_t)1 << 39; at += (uint64_t)1 << 26) {
        uint64_t upto = at + ((uint64_t)1 << 26);
        assert_int_equal(ms__log_reach(log, at, upto, upto, NULL), MS_OK);
    }
    assert_true(log->map.n_pieces < MS__PIECES / 2);
    log->map.n_pieces = pieces; /* the others are nothing to be given back */
    log->os = ms_os_default();
    ms_close(store);
}

/* ---- what torture has found ---- */

static void first_must_say(const char *text)
{
    ms_log_desc desc = desc_of(MS_LOG_READ);
    ms_store *store = must_open(&desc);
    ms_arena arena;
    const ms_msg *msg;
    test_arena_init(&arena, NULL);
    assert_int_equal(ms_get_by_seq(store, 1, &arena, &msg, NULL), MS_OK);
    assert_true(ms_str_equal(ms_content(msg).text, ms_str_of(text)));
    ms_arena_deinit(&arena);
    ms_close(store);
}

/* Of a session that was not synced a cut leaves the head page with its hints, a segment index, and
 * behind it an amendment, but not what stands before them: the session is dead. The next
 * one writes no segment index, and who opens the log then must not begin at that of the dead. */
static void a_hint_of_a_dead_session_is_not_followed(void **state)
{
    static char large[5000], zeros[16384];
    unsigned char slots[2 * MS__CHECKPOINT_STEP], word[8];
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    ms_envelope m = ms_user_message(ms_text("amended"));
    (void)state;
    make_log(3);
    uint64_t durable = end_at_path();
    read_at(MS__AT_CHECKPOINTS, slots, sizeof slots);
    memset(large, 'x', sizeof large - 1);
    desc.segment_size = MS_LOG_SEGMENT_MIN;
    ms_store *store = must_open(&desc);
    assert_int_equal(append(store, large, NULL), MS_OK);
    assert_int_equal(append(store, "in the next segment", NULL), MS_OK);
    assert_int_equal(ms_amend(store, 1, &m, NULL), MS_OK);
    ms_close(store);
    first_must_say("amended");
    read_at(MS__AT_HINT, word, sizeof word);
    uint64_t leaf = ms__get64(word);
    assert_true(leaf > durable && leaf - durable < sizeof zeros);
    write_at(durable, zeros, (size_t)(leaf - durable));
    write_at(MS__AT_CHECKPOINTS, slots, sizeof slots);
    start_the_machine_anew();
    desc.segment_size = 0;
    store = must_open(&desc);
    assert_int_equal(append(store, "after the cut", NULL), MS_OK);
    ms_close(store);
    assert_int_equal(count_at_path(), 4);
    first_must_say("hello");
}

static struct {
    ms_store *writer;         /* works at the next look at the file; NULL: not */
    int looks;                /* until then */
} busy;

/* Right behind the look the writer appends until the file has grown, and syncs. */
static int stat_and_more(void *ctx, ms_file file, ms_os_stat *out)
{
    ms_store *writer = busy.writer;
    ms_log_info before, info;
    int code = ms_os_default()->stat(ctx, file, out);
    if (writer == NULL || --busy.looks > 0) return code;
    busy.writer = NULL;
    assert_int_equal(ms_log_stat(writer, &before, NULL), MS_OK);
    do {
        assert_int_equal(append(writer, "meanwhile", NULL), MS_OK);
        assert_int_equal(ms_log_stat(writer, &info, NULL), MS_OK);
    } while (info.size <= before.size + 65536);
    assert_int_equal(ms_sync(writer, NULL, NULL), MS_OK);
    return code;
}

/* A reader that opens while a writer grows the file and syncs: what is durable then lies
 * behind the end that the reader has seen, and nothing is lost. */
static void a_reader_that_opens_beside_a_sync_calls_nothing_lost(void **state)
{
    ms_os os = *ms_os_default();
    (void)state;
    os.stat = stat_and_more;
    for (int looks = 1; looks <= 3; looks++) {
        ms_log_desc desc = desc_of(MS_LOG_WRITE);
        ms_log_info info;
        make_log(3);
        busy.looks = looks;
        busy.writer = must_open(&desc);
        ms_store *writer = busy.writer;
        assert_int_equal(append(writer, "there", NULL), MS_OK);
        desc.mode = MS_LOG_READ;
        desc.os = &os;
        ms_store *reader = must_open(&desc);
        busy.writer = NULL;
        assert_int_equal(ms_log_stat(reader, &info, NULL), MS_OK);
        assert_int_equal(info.lost_end, 0);
        assert_int_equal(info.damaged, 0);
        assert_int_equal(count_of(reader), count_of(writer));
        ms_close(reader);
        ms_close(writer);
    }
}

/* A caller that lost the answer tries again: the keys are known, so it gets the first numbers
 * and no conflict. Another message still conflicts. */
static void a_retry_with_keys_succeeds_when_the_end_has_moved(void **state)
{
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    (void)state;
    make_log(1);
    for (int kind = 0; kind < 2; kind++) {
        ms_store *store = NULL;
        uint64_t seqs[2], again[2];
        ms_append_opts opts;
        ms_envelope m[2] = {ms_user_message(ms_text("a")), ms_user_message(ms_text("b"))};
        if (kind == 0) store = must_open(&desc);
        else assert_int_equal(ms_mem_open(&store, NULL, NULL), MS_OK);
        memset(&opts, 0, sizeof opts);
        opts.location = MS_STR("retries");
        opts.expect = true;
        opts.seqs = seqs;
        m[0].key = MS_STR("k0");
        m[1].key = MS_STR("k1");
        assert_int_equal(ms_append_batch(store, m, 2, &opts, NULL), MS_OK);
        opts.seqs = again;
        assert_int_equal(ms_append_batch(store, m, 2, &opts, NULL), MS_OK);
        assert_memory_equal(seqs, again, sizeof seqs);
        m[1].key = MS_STR("k2");
        assert_int_equal(ms_append_batch(store, m, 2, &opts, NULL), MS_E_CONFLICT);
        m[1].key = m[0].key = MS_STR("k3");
        opts.expect_seq = seqs[1];
        assert_int_equal(ms_append_batch(store, m, 1, &opts, NULL), MS_OK);
        ms_close(store);
    }
}

static ms_store *compacted;
static int appended_meanwhile;

/* In the middle of the copy another caller appends to the source. */
static int sync_and_append(void *ctx, ms_file file)
{
    ms_store *source = compacted;
    compacted = NULL;
    if (source != NULL) {
        ms_result code = append(source, "meanwhile", NULL);
        assert_true(code == MS_OK || code == MS_E_CONFLICT);
        appended_meanwhile += code == MS_OK;
    }
    return ms_os_default()->sync(ctx, file);
}

/* What an append returned for is there after a compaction in place, or it was refused. */
static void an_append_is_refused_when_a_compaction_takes_the_place(void **state)
{
    ms_os os = *ms_os_default();
    ms_log_desc desc = desc_of(MS_LOG_WRITE), to = desc_of(MS_LOG_WRITE);
    (void)state;
    make_log(3);
    ms_store *store = must_open(&desc);
    os.sync = sync_and_append; /* the copy's sync: its records are there by then */
    to.os = &os;
    compacted = store;
    appended_meanwhile = 0;
    assert_int_equal(ms_log_rewrite(store, &to, true, NULL, NULL, NULL), MS_OK);
    assert_int_equal(append(store, "after it", NULL), MS_E_CONFLICT);
    ms_close(store);
    assert_int_equal(count_at_path(), 3 + appended_meanwhile);
    /* one that fails leaves the source as it was */
    store = must_open(&desc);
    to.path = "/nowhere/at/all";
    assert_int_not_equal(ms_log_rewrite(store, &to, true, NULL, NULL, NULL), MS_OK);
    assert_int_equal(append(store, "on it goes", NULL), MS_OK);
    ms_close(store);
}

static int no_rename(void *ctx, const char *from, const char *to)
{
    (void)ctx, (void)from, (void)to;
    return EACCES;
}

/* The mark in the superblock stops appends while the copy is made, not for ever. */
static void a_log_takes_appends_again_when_a_compaction_failed_or_was_killed(void **state)
{
    unsigned char marked[4] = {1, 0, 0, 0};
    ms_os os = *ms_os_default();
    ms_log_desc desc = desc_of(MS_LOG_WRITE), to = desc_of(MS_LOG_WRITE);
    (void)state;
    make_log(3);
    ms_store *store = must_open(&desc);
    os.rename = no_rename;
    to.os = &os;
    assert_int_equal(ms_log_rewrite(store, &to, true, NULL, NULL, NULL), MS_E_IO);
    assert_int_equal(append(store, "after a failure", NULL), MS_OK);
    ms_close(store);
    write_at(MS__AT_REPLACED, marked, sizeof marked); /* as a kill leaves it */
    store = must_open(&desc);
    assert_int_equal(append(store, "after a kill", NULL), MS_OK);
    ms_close(store);
    assert_int_equal(count_at_path(), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lock_on_a_file_that_was_replaced_is_no_lock),
        cmocka_unit_test(a_rewrite_buries_no_log_that_was_made_meanwhile),
        cmocka_unit_test(a_rewrite_that_fails_leaves_nothing_at_the_place),
        cmocka_unit_test(a_rewrite_leaves_the_place_empty_where_it_must),
        cmocka_unit_test(the_same_number_on_another_device_is_another_file),
        cmocka_unit_test(a_rewrite_replaces_no_pipe),
        cmocka_unit_test(a_watermark_of_before_the_start_is_not_believed),
        cmocka_unit_test(a_file_takes_appends_when_it_is_truncated_below_its_watermark),
        cmocka_unit_test(a_flipped_bit_in_the_watermark_stops_nobody),
        cmocka_unit_test(a_log_begins_after_the_superblock_when_its_watermark_is_inside),
        cmocka_unit_test(a_hint_of_a_dead_session_is_not_followed),
        cmocka_unit_test(a_reader_that_opens_beside_a_sync_calls_nothing_lost),
        cmocka_unit_test(a_reader_without_memory_begins_again),
        cmocka_unit_test(a_folder_that_cannot_be_opened_poisons_nothing),
        cmocka_unit_test(an_append_that_failed_does_not_come_back),
        cmocka_unit_test(lying_segment_numbers_cost_no_memory),
        cmocka_unit_test(nested_sizes_cost_no_time),
        cmocka_unit_test(the_largest_number_is_never_given),
        cmocka_unit_test(no_checkpoint_is_the_newest_for_ever),
        cmocka_unit_test(a_redacted_message_hides_nothing_when_it_is_truncated),
        cmocka_unit_test(synced_appends_survive_when_a_record_before_them_is_torn),
        cmocka_unit_test(synced_appends_survive_when_unseen_damage_is_before_them),
        cmocka_unit_test(nothing_is_durable_when_the_sync_of_the_checkpoint_fails),
        cmocka_unit_test(a_watermark_inside_of_a_record_hides_nothing_new),
        cmocka_unit_test(a_redaction_that_skips_a_damaged_record_says_so),
        cmocka_unit_test(what_was_not_synced_is_not_called_durable),
        cmocka_unit_test(a_compaction_keeps_who_may_use_the_file),
        cmocka_unit_test(a_compaction_that_cannot_keep_the_owner_changes_nothing),
        cmocka_unit_test(appends_are_visible_when_the_file_was_truncated_anywhere),
        cmocka_unit_test(no_damaged_index_record_hides_a_conversation),
        cmocka_unit_test(no_damaged_block_of_an_index_hides_a_message),
        cmocka_unit_test(a_damaged_summary_costs_its_segment_indexes_alone),
        cmocka_unit_test(a_cold_log_is_read_in_few_pages_when_it_is_opened),
        cmocka_unit_test(no_store_goes_where_nothing_could_be_written),
        cmocka_unit_test(a_torn_epoch_hides_nothing_from_readers),
        cmocka_unit_test(a_segment_index_hides_no_new_messages_when_its_own_are_lost),
        cmocka_unit_test(messages_stay_when_a_truncated_one_has_them_inside),
        cmocka_unit_test(dead_bytes_that_cannot_be_zeroed_stop_an_append),
        cmocka_unit_test(zeros_whose_sync_failed_are_written_again),
        cmocka_unit_test(dead_messages_do_not_return_when_a_sector_rots),
        cmocka_unit_test(torn_bytes_are_kept_beside_the_log_when_asked),
        cmocka_unit_test(an_append_zeroes_nothing_when_torn_bytes_cannot_be_kept),
        cmocka_unit_test(a_sync_writes_no_record_again_when_none_failed),
        cmocka_unit_test(a_retry_with_keys_succeeds_when_the_end_has_moved),
        cmocka_unit_test(an_append_is_refused_when_a_compaction_takes_the_place),
        cmocka_unit_test(
            a_log_takes_appends_again_when_a_compaction_failed_or_was_killed),
        cmocka_unit_test(a_handle_grows_beyond_64_gibibytes),
        cmocka_unit_test(a_file_of_three_exbibytes_is_refused),
    };
    /* memory takes the sparse file, which most disks refuse */
    if (getenv("TMPDIR") == NULL && access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 1);
    folder_make(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/log.msl", folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    folder_remove(folder);
    return failed;
}
