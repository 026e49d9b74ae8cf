/* Defences that no other suite would miss: one test for each promise that holds only
 * because of one line, named after what comes when that line is gone. The builds without
 * these lines are in controls.sh.
 *
 * Where names count, a log is on the simulated disk (simdisk.h), and a power loss leaves
 * what was synced; the other tests use the disk of disk.h.
 *
 * Left out: what test_crash, test_full, test_corrupt and test_log_traps notice already.
 * The number of cases does not depend on MS_TEST_SCALE but for the readers of one memory:
 * 4,000 appends at 100.
 */

#define _GNU_SOURCE
#include "simdisk.h"

#include <pthread.h>
#include <sched.h>

enum { ROOM = 4 << 20 };

static ms_result say(ms_store *store, const char *text, uint64_t *seq)
{
    ms_envelope m = ms_user_message(ms_text(text));
    return ms_append(store, MS_STR("here"), &m, seq, NULL);
}

static void must_say(ms_store *store, const char *text)
{
    assert_int_equal(say(store, text, NULL), MS_OK);
}

static ms_log_desc desc_at(const char *path, ms_log_mode mode, const ms_os *os)
{
    ms_log_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.path = path;
    desc.mode = mode;
    desc.os = os;
    return desc;
}

static ms_store *must_open(const ms_log_desc *desc)
{
    ms_store *store;
    ms_error err;
    if (ms_log_open(&store, desc, &err) != MS_OK) fail_msg("open: %s", err.message);
    return store;
}

/* The contents of all messages, a blank behind each, as far as they fit; what the cursor
 * says at its end. */
static ms_result read_all(ms_store *store, char *out, size_t size)
{
    ms_query all;
    ms_cursor it;
    const ms_msg *msg;
    size_t used = 0;
    memset(&all, 0, sizeof all);
    out[0] = 0;
    assert_int_equal(ms_query_open(store, &all, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL && used < size) {
        ms_str s = ms_content(msg).text;
        int n = snprintf(out + used, size - used, "%.*s ", (int)s.len, s.ptr);
        used += n > 0 ? (size_t)n : 0;
    }
    return ms_cursor_close(&it, NULL);
}

static void must_hold(ms_store *store, const char *want, ms_result result)
{
    char text[400];
    assert_int_equal(read_all(store, text, sizeof text), result);
    assert_string_equal(text, want);
}

/* Reads a log whole, without any damage. */
static void must_read(const ms_log_desc *desc, const char *want)
{
    ms_log_info info;
    ms_store *store = must_open(desc);
    must_hold(store, want, MS_OK);
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    assert_int_equal(info.damaged, 0);
    assert_int_equal(info.lost_end, 0);
    ms_close(store);
}


/* ---- names ---- */

static sim_disk names, survivors; /* the writer's files, and what a power loss leaves */
static sim_cuts cuts;

static ms_log_desc begin_in_folder(ms_log_mode mode)
{
    sim_init(&names);
    sim_init(&survivors);
    return desc_at("log.msl", mode, &names.os);
}

/* The power is lost, and what was not synced with it. */
static void must_be_left(const char *want)
{
    ms_log_desc desc = desc_at("log.msl", MS_LOG_READ, &survivors.os);
    sim_cut_unsynced(&cuts, &names, &survivors);
    must_read(&desc, want);
}

static void end_in_folder(ms_store *store)
{
    ms_close(store);
    sim_cuts_free(&cuts);
    sim_deinit(&names);
    sim_deinit(&survivors);
}

/* A log is made and appended to; the append was said to be durable. */
static void a_new_log_keeps_its_name(void **state)
{
    ms_log_desc desc = begin_in_folder(MS_LOG_CREATE);
    (void)state;
    desc.sync = MS_SYNC_EACH;
    ms_store *store = must_open(&desc);
    must_say(store, "one");
    must_be_left("one ");
    end_in_folder(store);
}

/* A file that somebody has put there a moment ago, and synced neither it nor its folder. */
static void a_log_put_there_keeps_its_name(void **state)
{
    ms_log_desc desc = begin_in_folder(MS_LOG_NEW);
    ms_os os = names.os;
    (void)state;
    os.sync = no_sync;
    os.sync_folder = no_sync_folder;
    desc.os = &os;
    ms_store *store = must_open(&desc);
    must_say(store, "one");
    ms_close(store);
    desc = desc_at("log.msl", MS_LOG_WRITE, &names.os);
    store = must_open(&desc);
    must_say(store, "two");
    assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
    must_be_left("one two ");
    end_in_folder(store);
}

/* A compaction that has returned is there after a power loss, and whole. */
static void a_rewrite_keeps_its_place(void **state)
{
    static const char *const texts[] = {"a", "b", "c", "d", "e"};
    ms_log_desc desc = begin_in_folder(MS_LOG_NEW);
    ms_store *store = must_open(&desc);
    ms_keep keep;
    (void)state;
    for (size_t i = 0; i < 5; i++) must_say(store, texts[i]);
    assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
    memset(&keep, 0, sizeof keep);
    keep.newest = 2;
    desc.mode = MS_LOG_WRITE;
    assert_int_equal(ms_log_rewrite(store, &desc, true, &keep, NULL, NULL), MS_OK);
    must_be_left("d e ");
    end_in_folder(store);
}

static int (*system_write)(void *, ms_file, uint64_t, const void *, size_t, size_t *);

/* A disk that writes another byte than it was given, behind the head. */
static int write_wrong(void *ctx, ms_file file, uint64_t offset, const void *from,
                       size_t size, size_t *done)
{
    if (offset < 4096 || size < 200)
        return system_write(ctx, file, offset, from, size, done);
    char *copy = (char *)malloc(size);
    if (copy == NULL) abort();
    memcpy(copy, from, size);
    copy[size / 2] ^= 4;
    int code = system_write(ctx, file, offset, copy, size, done);
    free(copy);
    return code;
}

/* What was rewritten wrong does not take the place of what was right. */
static void a_rewrite_with_wrong_bytes_is_refused(void **state)
{
    char folder[300], path[320];
    ms_os os = *ms_os_default();
    (void)state;
    folder_make(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/log.msl", folder);
    static char large[400];
    memset(large, 'x', sizeof large - 1);
    ms_log_desc desc = desc_at(path, MS_LOG_NEW, NULL);
    ms_store *store = must_open(&desc);
    must_say(store, large);
    must_say(store, "two");
    desc.mode = MS_LOG_CREATE;
    desc.engine = MS_ENGINE_WRITE;
    desc.os = &os;
    system_write = os.write;
    os.write = write_wrong;
    ms_result result = ms_log_rewrite(store, &desc, true, NULL, NULL, NULL);
    assert_int_equal(result, MS_E_IO); /* not DAMAGED: that would mean the source */
    ms_close(store);
    ms_log_report report;
    desc.os = NULL;
    assert_int_equal(ms_log_verify(&desc, &report, NULL), MS_OK);
    assert_int_equal(report.messages, 2);
    assert_int_equal(folder_count(folder), 1);
    folder_remove(folder);
}


/* ---- the moment of a sync ---- */

static disk one, other;       /* the writer's, and what a cut leaves of it */
static ms_store *meanwhile;   /* appends while its own sync runs */
static const char *expected, *expected_next;  /* what a cut inside a sync must leave */

static void disks_begin(void)
{
    disk_init(&one, ROOM);
    disk_init(&other, ROOM);
    one.keep_synced = true;
}

static void disks_end(void)
{
    disk_deinit(&one);
    disk_deinit(&other);
}

/* The image of a cut in which of all that was stored since the last sync only the head
 * page has reached the disk. */
static void cut_behind_the_head(void)
{
    disk_load(&other, one.synced, (size_t)one.synced_size);
    memcpy(other.rw, one.ro, 4096);
    other.boot = one.boot + 1;
}

static int cut_before_the_sync(void *ctx, ms_file file)
{
    if (expected != NULL) {
        ms_log_desc desc = desc_at("image", MS_LOG_READ, &other.os);
        cut_behind_the_head();
        must_read(&desc, expected);
        if (expected_next != NULL) expected = expected_next;
        expected_next = NULL;
    }
    return disk_sync(ctx, file);
}

/* A checkpoint that tells of a sync that has not ended would make records out of nothing. */
static void nothing_is_durable_when_power_is_lost_in_a_sync(void **state)
{
    (void)state;
    disks_begin();
    ms_os os = one.os;
    os.sync = cut_before_the_sync;
    ms_log_desc desc = desc_at("log", MS_LOG_CREATE, &os);
    expected = NULL;
    ms_store *store = must_open(&desc);
    must_say(store, "one");
    assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
    must_say(store, "two");
    expected = "one ";
    expected_next = "one two "; /* at the sync of its checkpoint */
    assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
    assert_null(expected_next);
    ms_close(store);
    disks_end();
}

static int append_during_the_sync(void *ctx, ms_file file)
{
    int code = disk_sync(ctx, file);
    ms_store *store = meanwhile;
    meanwhile = NULL;
    if (store != NULL) must_say(store, "late");
    return code;
}

static void a_sync_covers_what_was_there_before_it(void **state)
{
    ms_log_info before, after;
    uint64_t seq, durable;
    (void)state;
    disks_begin();
    ms_os os = one.os;
    os.sync = append_during_the_sync;
    ms_log_desc desc = desc_at("log", MS_LOG_CREATE, &os);
    ms_store *store = must_open(&desc);
    assert_int_equal(say(store, "early", &seq), MS_OK);
    assert_int_equal(ms_log_stat(store, &before, NULL), MS_OK);
    meanwhile = store;
    assert_int_equal(ms_sync(store, &durable, NULL), MS_OK);
    assert_int_equal(durable, seq);
    assert_int_equal(ms_log_stat(store, &after, NULL), MS_OK);
    assert_int_equal(after.durable_end, before.end);
    assert_true(after.end > after.durable_end);
    cut_behind_the_head();
    desc = desc_at("image", MS_LOG_READ, &other.os);
    must_read(&desc, "early late "); /* the sync of the checkpoint took it along */
    ms_close(store);
    disks_end();
}


/* ---- what comes back after a cut ---- */

static bool no_more_maps;     /* for reading */

static int maps_run_out(void *ctx, ms_file file, uint64_t offset, size_t size,
                        unsigned how, void **out)
{
    if (no_more_maps && !(how & MS_OS_WRITE)) return ENOMEM;
    return disk_map(ctx, file, offset, size, how, out);
}

/* An append for which no map can be made has stored nothing: else the next opening would
 * find a whole record. */
static void a_mapped_append_that_failed_does_not_come_back(void **state)
{
    static char text[1000];
    char *before = (char *)malloc(ROOM), *after = (char *)malloc(ROOM);
    (void)state;
    disks_begin();
    assert_true(before != NULL && after != NULL);
    memset(text, 'x', sizeof text - 1);
    ms_os os = one.os;
    os.map = maps_run_out;
    os.exact_maps = true; /* so that growing needs another map */
    ms_log_desc desc = desc_at("log", MS_LOG_CREATE, &os);
    desc.engine = MS_ENGINE_MAP;
    ms_store *store = must_open(&desc);
    ms_result result = MS_OK;
    must_say(store, "first");
    for (int i = 0; i < 1000 && result == MS_OK; i++) {
        no_more_maps = true;
        result = say(store, text, NULL);
        no_more_maps = false;
    }
    assert_int_equal(result, MS_E_NO_MEMORY);
    assert_int_equal(read_all(store, before, ROOM), MS_OK);
    disk_load(&other, one.ro, (size_t)one.size);
    other.boot = one.boot + 1;
    ms_log_desc left = desc_at("left", MS_LOG_READ, &other.os);
    ms_store *reader = must_open(&left);
    assert_int_equal(read_all(reader, after, ROOM), MS_OK);
    if (strlen(before) != strlen(after)) fail_msg("the append that failed is there");
    ms_close(reader);
    must_say(store, text);
    ms_close(store);
    free(before);
    free(after);
    disks_end();
}

/* Appends n messages of one length that say whose they are. */
static void say_some(ms_store *store, const char *whose, int n)
{
    char text[40];
    for (int i = 0; i < n; i++) {
        snprintf(text, sizeof text, "%s%d", whose, i);
        must_say(store, text);
    }
}

/* A cut has taken the first of some records that were not synced: those behind it are given
 * up when the log is written on, and stay so when every valid byte is looked for. */
static void salvage_leaves_what_was_given_up(void **state)
{
    ms_log_info info;
    (void)state;
    disks_begin();
    ms_log_desc desc = desc_at("log", MS_LOG_CREATE, &one.os);
    ms_store *store = must_open(&desc);
    say_some(store, "m", 2);
    assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    say_some(store, "dead", 9);
    disk_load(&other, one.ro, (size_t)one.size); /* before closing syncs it */
    ms_close(store);
    memset(other.rw + info.end, 0, 32);
    other.boot = one.boot + 1;
    desc.os = &other.os;
    store = must_open(&desc);
    must_hold(store, "m0 m1 ", MS_OK);
    must_say(store, "new");
    ms_close(store);
    desc = desc_at("log", MS_LOG_READ, &other.os);
    desc.opening = MS_OPEN_SALVAGE;
    store = must_open(&desc);
    must_hold(store, "m0 m1 new ", MS_OK);
    ms_close(store);
    disks_end();
}

/* Both checkpoints are lost with their sectors, and a record is damaged: the flags of those
 * behind it still tell that it had been synced, so it is damage, and no torn end. */
static void damage_is_reported_when_it_is_after_the_last_checkpoint(void **state)
{
    ms_log_info info;
    (void)state;
    disks_begin();
    ms_log_desc desc = desc_at("log", MS_LOG_CREATE, &one.os);
    desc.sync = MS_SYNC_EACH;
    ms_store *store = must_open(&desc);
    say_some(store, "m", 2);
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    size_t end = (size_t)info.end;
    say_some(store, "n", 3);
    ms_close(store);
    one.boot++;
    memset(one.rw + 2048, 0, 1024);
    one.rw[end + 40] ^= 1;
    desc = desc_at("log", MS_LOG_READ, &one.os);
    store = must_open(&desc);
    must_hold(store, "m0 m1 n1 n2 ", MS_E_DAMAGED);
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    assert_int_equal(info.damaged, 1);
    ms_close(store);
    disks_end();
}

/* Both checkpoints have another bit: what they say of the durable end is not believed. */
static void a_checkpoint_is_ignored_when_its_check_does_not_match(void **state)
{
    (void)state;
    disks_begin();
    ms_log_desc desc = desc_at("log", MS_LOG_CREATE, &one.os);
    ms_store *store = must_open(&desc);
    say_some(store, "m", 3);
    ms_close(store);
    one.boot++;
    one.rw[2048 + 8 + 3] ^= 1; /* 16 MiB farther, behind the end of the file */
    one.rw[2560 + 8 + 3] ^= 1;
    desc = desc_at("log", MS_LOG_READ, &one.os);
    must_read(&desc, "m0 m1 m2 ");
    disks_end();
}

/* A copy whose body was taken before a message came, and its head after. It is on the same
 * machine, but not the file whose watermark it has. */
static void a_copy_reads_as_after_a_crash_when_a_writer_ran_beside_it(void **state)
{
    (void)state;
    disks_begin();
    ms_log_desc desc = desc_at("log", MS_LOG_CREATE, &one.os);
    ms_store *store = must_open(&desc);
    say_some(store, "m", 2);
    disk_load(&other, one.ro, (size_t)one.size);
    say_some(store, "n", 1);
    memcpy(other.rw, one.ro, 4096);
    other.boot = one.boot;
    other.inode = one.inode + 1;
    desc = desc_at("copy", MS_LOG_READ, &other.os);
    must_read(&desc, "m0 m1 ");
    ms_close(store);
    disks_end();
}

/* A file is cut: the numbers of the messages that were lost stay theirs. */
static void lost_numbers_are_not_given_again(void **state)
{
    ms_log_info info;
    uint64_t seq = 0, again = 0;
    (void)state;
    disks_begin();
    ms_log_desc desc = desc_at("log", MS_LOG_CREATE, &one.os);
    ms_store *store = must_open(&desc);
    say_some(store, "m", 3);
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    say_some(store, "m", 3);
    assert_int_equal(say(store, "last", &seq), MS_OK);
    ms_close(store);
    one.boot++;
    disk_resize(&one, info.end);
    store = must_open(&desc);
    must_hold(store, "m0 m1 m2 ", MS_E_DAMAGED);
    assert_int_equal(say(store, "next", &again), MS_OK);
    assert_true(again > seq);
    ms_close(store);
    disks_end();
}


/* ---- one memory ----
 *
 * Readers mostly see a file through another map than its writer, so a race detector takes
 * their bytes for different ones. Here both have the same map: a record that is read has
 * to have been published, or the detector reports it. */

static int same_map(void *ctx, ms_file file, uint64_t offset, size_t size, unsigned how,
                    void **out)
{
    return disk_map(ctx, 2, offset, size, how | MS_OS_WRITE, out) + 0 * (int)file;
}

typedef struct racing {
    ms_store *writer;
    scribe s;
    uint64_t first, most;     /* numbers to append */
    int done;                 /* atomic */
    uint64_t readings;        /* ended; relaxed: it must not order what it lets overlap */
} racing;

enum {
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

/* Opens a new log in `one`, with a first message, and then gives the disk all its room: its
 * size must not change while two threads look at it. */
static void racing_begin(racing *r, const ms_os *os)
{
    size_t count;
    memset(r, 0, sizeof *r);
    r->s.salt = test_seed();
    r->s.longest = 300;
    ms_log_desc desc = desc_at("log", MS_LOG_CREATE, os);
    desc.engine = MS_ENGINE_MAP;
    desc.segment_size = 1 << 16;
    desc.keep_unset_times = true;
    r->writer = must_open(&desc);
    assert_int_equal(scribe_append(&r->s, r->writer, 1, NULL, &count, NULL), MS_OK);
    r->first = count + 1;
    r->most = test_times(4000) < RACING_MOST ? test_times(4000) : RACING_MOST;
    assert_true(disk_resize(&one, ROOM));
}

static void readers_of_one_memory_do_not_race(void **state)
{
    racing r;
    pthread_t thread;
    tally t;
    void *failed = NULL;
    bool fine = true, done = false;
    (void)state;
    disk_init(&one, ROOM);
    ms_os os = one.os;
    os.map = same_map;
    racing_begin(&r, &os);
    ms_log_desc desc = desc_at("log", MS_LOG_READ, &os);
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
    printf("tally: readings beside a writer %llu\n", (unsigned long long)r.readings);
    ms_close(reader);
    ms_close(r.writer);
    disk_deinit(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_log_keeps_its_name),
        cmocka_unit_test(a_log_put_there_keeps_its_name),
        cmocka_unit_test(a_rewrite_keeps_its_place),
        cmocka_unit_test(a_rewrite_with_wrong_bytes_is_refused),
        cmocka_unit_test(nothing_is_durable_when_power_is_lost_in_a_sync),
        cmocka_unit_test(a_sync_covers_what_was_there_before_it),
        cmocka_unit_test(a_mapped_append_that_failed_does_not_come_back),
        cmocka_unit_test(salvage_leaves_what_was_given_up),
        cmocka_unit_test(damage_is_reported_when_it_is_after_the_last_checkpoint),
        cmocka_unit_test(a_checkpoint_is_ignored_when_its_check_does_not_match),
        cmocka_unit_test(a_copy_reads_as_after_a_crash_when_a_writer_ran_beside_it),
        cmocka_unit_test(lost_numbers_are_not_given_again),
        cmocka_unit_test(readers_of_one_memory_do_not_race),
    };
    scribe_page();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
