/* [log-map], [log-sync], [log-recover]: what a handle takes for visible, durable or
 * damaged, and where its maps and tails are. Each test sets private state of a handle, or
 * words of the superblock, that calls alone do not bring about. */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"
#include "inside.h"


/* ---- maps and tails ---- */

static int map_code;

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
    return map_code;
}

static void map_fails_when_it_would_reach_beyond_the_largest_number(void **state)
{
    ms_store *store = make_log(1);
    ms__log *log = ms__log_of(store);
    uint32_t pieces = log->map.n_pieces;
    ms_os os = traps.os;
    uint64_t most = SIZE_MAX / 8 - 8;
    (void)state;
    os.map = map_nothing;
    log->os = &os;
    map_code = ENODEV;
    assert_int_equal(ms__log_reach(log, most / 2, most, most, NULL), MS_E_UNSUPPORTED);
    map_code = 0;
    assert_int_equal(ms__log_reach(log, 4096, most, most, NULL), MS_OK);
    assert_true(ms__log_mapped(log) >= most);
    log->map.pieces[log->map.n_pieces - 1].size = SIZE_MAX / 8 + 4096;
    uint64_t from = ms__log_mapped(log);
    assert_int_equal(ms__log_reach(log, from, from + 4096, from, NULL), MS_OK);
    assert_int_equal(ms__log_reach(log, 0, UINT64_MAX - 7, 0, NULL), MS_E_FULL);
    log->map.n_pieces = MS__PIECES;
    log->map.pieces[MS__PIECES - 1] = log->map.pieces[0];
    uint64_t more = ms__log_mapped(log) + 4096;
    assert_int_equal(ms__log_reach(log, 0, more, 0, NULL), MS_E_NO_MEMORY);
    log->map.n_pieces = pieces;
    log->os = &traps.os;
    end(store);
}

/* Maps that end where the file ends: a piece for each step that it grows. */
static void messages_are_found_when_the_map_has_many_pieces(void **state)
{
    enum { TEXT = 4000, MESSAGES = 700 };
    static char text[TEXT];
    (void)state;
    memset(text, 'p', sizeof text);
    ms_close(make_log(1));
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    traps.os.exact_maps = true;
    desc.engine = MS_ENGINE_MAP;
    ms_store *store = open_with(&desc);
    for (int i = 0; i < MESSAGES; i++) {
        ms_envelope m = ms_user_message(ms_text_n(ms_str_n(text, TEXT)));
        assert_int_equal(ms_append(store, MS_STR("here"), &m, NULL, NULL), MS_OK);
    }
    assert_true(ms__log_of(store)->map.n_pieces > 2);
    assert_int_equal(count_all(store, query_at(NULL), MS_OK), MESSAGES + 1);
    assert_int_equal(ms_redact(store, 3, NULL), MS_OK);
    assert_int_equal(ms_redact(store, MESSAGES, NULL), MS_OK);
    end(store);
}

static void tail_slot_is_passed_over_when_a_reader_pins_it(void **state)
{
    uint32_t now;
    ms_store *store = make_log(1);
    ms__log *log = ms__log_of(store);
    (void)state;
    log->map.pins[(log->map.now + 1) % MS__PINS] = 1; /* as when it pins, and looks again */
    assert_true(ms__tail_slot(log, &now));
    assert_int_equal(now, log->map.now + 2);
    log->map.pins[(log->map.now + 1) % MS__PINS] = 0;
    end(store);
}

/* All places for tails are pinned, as by cursors: a reader of an empty file, or a writer with
 * an old state, returns an error; it shows nothing old and appends nothing. */
static void refresh_fails_when_no_tail_slot_is_left(void **state)
{
    static const struct {
        size_t before, after;
        ms_result result;
    } rows[] = {{0, 3, MS_E_FULL}, {3, 200, MS_E_BUSY}}; /* more than a segment */
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        uint32_t kept[MS__PINS];
        ms_envelope m = ms_user_message(ms_text("does not get in"));
        ms_error err;
        begin();
        drive.there = true;
        ms_store *store = rows[i].before > 0 ? open_shared(MS_LOG_CREATE) : NULL;
        if (store != NULL) say_some(store, rows[i].before);
        ms_store *other = store == NULL ? open_log(MS_LOG_READ) : open_shared(MS_LOG_WRITE);
        if (store == NULL) store = open_log(MS_LOG_CREATE);
        if (rows[i].before > 0)
            assert_int_equal(count_all(other, query_at(NULL), MS_OK), rows[i].before);
        ms__log *log = ms__log_of(other);
        memcpy(kept, log->map.pins, sizeof kept);
        for (unsigned k = 0; k < MS__PINS; k++) log->map.pins[k]++;
        say_some(store, rows[i].after);
        for (size_t again = 0; again <= i; again++) {
            assert_int_equal(test_refresh(other, NULL, &err), rows[i].result);
            assert_non_null(strstr(err.message, "cursors are open"));
        }
        ms_result got = ms_append(other, MS_STR("place_1"), &m, NULL, NULL);
        assert_int_equal(got, i == 0 ? MS_E_READ_ONLY : MS_E_BUSY);
        memcpy(log->map.pins, kept, sizeof kept);
        assert_int_equal(test_refresh(other, NULL, NULL), MS_OK);
        assert_int_equal(count_all(other, query_at(NULL), MS_OK), said);
        if (i == 1) say_some(other, 1);
        ms_close(other);
        finish(store);
    }
}

static void record_is_refused_when_the_end_leaves_only_its_header(void **state)
{
    ms_store *store = make_log(1);
    unsigned char r[40] = {40};
    (void)state;
    assert_false(ms__log_holds(ms__log_of(store), r, 8192, 39, true));
    end(store);
}


/* ---- calls of the table of a store that [store] does not make ---- */

static void call_is_refused_when_it_is_of_another_store(void **state)
{
    ms_store *store = make_log(5), *reader, *other;
    ms_log_desc desc = desc_of(MS_LOG_READ), none = desc;
    ms_log_info info;
    const ms_msg *msg;
    ms_arena arena;
    ms_append_opts opts;
    uint64_t seq;
    ms_envelope m = ms_user_message(ms_text("loose"));
    (void)state;
    test_arena_init(&arena, NULL);
    memset(&opts, 0, sizeof opts);
    assert_int_equal(ms_mem_open(&other, NULL, NULL), MS_OK);
    assert_int_equal(ms_log_stat(other, &info, NULL), MS_E_UNSUPPORTED);
    ms_close(other);
    assert_int_equal(ms_mem_reset(store, NULL), MS_E_UNSUPPORTED);
    assert_null(ms_mem_image(store).ptr);
    assert_int_equal(ms_log_stat(NULL, &info, NULL), MS_E_CLOSED);
    assert_int_equal(ms_log_rewrite(NULL, &desc, true, NULL, NULL, NULL), MS_E_CLOSED);
    none.path = "";
    assert_int_equal(ms_log_rewrite(store, &none, true, NULL, NULL, NULL), MS_E_ARGUMENT);
    none = desc;
    none.segment_size = ((size_t)1 << 30) + 1;
    assert_int_equal(ms_log_open(&reader, &none, NULL), MS_E_ARGUMENT);
    reader = open_log(MS_LOG_READ);
    assert_int_equal(ms_encode(&m, &arena, &msg, NULL), MS_OK);
    assert_int_equal(store->backend->erase(store, msg, 0, NULL), MS_E_ARGUMENT);
    assert_int_equal(reader->backend->erase(reader, msg, 0, NULL), MS_E_READ_ONLY);
    assert_int_equal(reader->backend->leave_out(reader, 9, NULL), MS_E_READ_ONLY);
    assert_int_equal(store->backend->append(store, MS_STR("x"), &m, SIZE_MAX / 2, &opts,
                                            NULL), MS_E_NO_MEMORY);
    assert_int_equal(ms_sync(reader, &seq, NULL), MS_OK);
    ms_arena_deinit(&arena);
    ms_close(reader);
    finish(store);
}

static void handle_erases_and_leaves_out_nothing_when_it_is_poisoned(void **state)
{
    ms_store *store = make_log(3);
    const ms_msg *msg;
    (void)state;
    assert_int_equal(ms_get_by_seq(store, 2, NULL, &msg, NULL), MS_OK);
    ms__log_of(store)->durable.poisoned = true;
    assert_int_equal(store->backend->erase(store, msg, 0, NULL), MS_E_POISONED);
    assert_int_equal(store->backend->leave_out(store, 9, NULL), MS_E_POISONED);
    end(store);
}


/* ---- what is durable ---- */

static ms_store *syncing;
static int while_syncing;

static int sync_and_more(void *ctx, ms_file file)
{
    ms__log *log = ms__log_of(syncing);
    (void)ctx;
    if (while_syncing != 0) ms__lock_take(&log->lock);
    if (while_syncing == 1) assert_int_equal(ms__segment_write(log, NULL), MS_OK);
    if (while_syncing == 2) ms__durable_below(log, MS__SUPER_SIZE + 64);
    if (while_syncing != 0) ms__lock_give(&log->lock);
    while_syncing = 0;
    return disk_sync(&drive, file);
}

/* 1: another thread writes a segment index meanwhile; 2: it erases. */
static void sync_covers_what_was_there_when_it_began(void **state)
{
    (void)state;
    for (int what = 1; what <= 2; what++) {
        ms_log_info info;
        ms_close(make_log(20));
        traps.os.sync = sync_and_more;
        syncing = open_log(MS_LOG_WRITE);
        ms__log *log = ms__log_of(syncing);
        say_some(syncing, 5);
        while_syncing = what;
        uint64_t end_before = log->end;
        ms__lock_take(&log->lock);
        assert_int_equal(ms__log_sync_now(log, true, false, NULL), MS_OK);
        ms__lock_give(&log->lock);
        while_syncing = 0;
        assert_int_equal(ms_log_stat(syncing, &info, NULL), MS_OK);
        assert_int_equal(info.durable_end, what == 2 ? MS__SUPER_SIZE + 64 : end_before);
        end(syncing);
    }
}

/* What another handle has stored as durable is not taken back. */
static void checkpoint_stays_when_another_handle_has_stored_a_later_one(void **state)
{
    (void)state;
    begin();
    ms_store *one = open_shared(MS_LOG_CREATE), *two = open_shared(MS_LOG_WRITE);
    say_some(one, 5);
    assert_int_equal(ms_sync(one, NULL, NULL), MS_OK);
    ms__log *log = ms__log_of(two);
    ms__checkpoint before = ms__checkpoint_newest(log->map.super), after;
    assert_true(before.end > log->durable.end);
    for (int inside = 1; inside >= 0; inside--) {
        log->recovery.inside = inside == 1;
        assert_int_equal(ms__checkpoint_store(log, log->durable.end, 0, false, NULL),
                         MS_OK);
    }
    after = ms__checkpoint_newest(log->map.super);
    assert_true(after.end == before.end && after.generation == before.generation);
    /* once more, where it has to be on the disk: a sync of it may have failed */
    assert_int_equal(ms__checkpoint_store(log, log->durable.end, 0, true, NULL), MS_OK);
    after = ms__checkpoint_newest(log->map.super);
    assert_true(after.end == before.end && after.seq == before.seq);
    assert_true(after.generation == before.generation + 1);
    assert_false(drive.locked);
    ms_close(two);
    finish(one);
}

/* Appends that are synced each, then record number `which` is damaged, and no checkpoint
 * says how far the disk had all: that a later record says so keeps those after it. */
static void lose(uint32_t which)
{
    ms_log_desc desc = desc_of(MS_LOG_CREATE);
    ms_envelope batch[3];
    begin();
    desc.sync = MS_SYNC_EACH;
    desc.os = &traps.os;
    ms_store *store = open_with(&desc);
    say_some(store, 4);
    for (int i = 0; i < 3; i++) {
        batch[i] = ms_user_message(ms_text("one of three"));
        batch[i].location = MS_STR("here");
    }
    assert_int_equal(ms_append_batch(store, batch, 3, NULL, NULL), MS_OK);
    say_some(store, 4);
    drive.rw[tail_record_at(ms__log_of(store), which) + MS__HEADER + 4] ^= 1;
    memset(drive.rw + MS__AT_CHECKPOINTS, 0, 2 * MS__CHECKPOINT_STEP);
    kill_handle(store);
    drive.boot++;
}

enum { LOST_ALONE = 2, LOST_IN_BATCH = 5 };

static void records_are_kept_when_a_later_one_says_they_are_synced(void **state)
{
    static const uint32_t lost[] = {LOST_ALONE, LOST_IN_BATCH};
    static const ms_log_mode modes[] = {MS_LOG_CREATE, MS_LOG_WRITE, MS_LOG_READ};
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        ms_log_info info;
        ms_stat stat;
        lose(lost[i / 3]);
        ms_store *store = open_log(modes[i % 3]);
        assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
        assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
        assert_int_equal(info.damaged, 1);
        assert_int_equal(stat.messages, 10);
        assert_int_equal(stat.last_seq, 11);
        end(store);
    }
}

/* A writer that begins while a reader opens: what the reader took for damage may be what
 * that one writes. */
static int stat_beside_a_writer(void *ctx, ms_file file, ms_os_stat *out)
{
    static int looks;
    (void)ctx;
    if (++looks % 3 == 0) {
        ms__writer_line w;
        memset(&w, 0, sizeof w);
        w.boot = drive.boot;
        w.device = 7;
        w.inode = drive.inode;
        ms__writer_encode(&w, drive.rw + MS__AT_WRITER);
    }
    return disk_stat(&drive, file, out);
}

static void reader_reports_no_damage_when_a_writer_begins_meanwhile(void **state)
{
    (void)state;
    lose(LOST_ALONE);
    traps.os.stat = stat_beside_a_writer;
    ms_store *store = open_log(MS_LOG_READ);
    assert_int_equal(ms__log_of(store)->sum.damaged, 0); /* until it looks again */
    end(store);
}


/* ---- the watermark ---- */

static void watermark_is_ignored_when_it_is_of_another_machine_or_file(void **state)
{
    ms__writer_line w;
    ms_store *store = make_log(3);
    ms__log *log = ms__log_of(store);
    (void)state;
    assert_true(ms__mark_trusted(log));
    assert_true(ms__writer_decode(&w, log->map.super));
    ms__writer_line other = w;
    other.device++;
    ms__writer_encode(&other, log->map.super + MS__AT_WRITER);
    assert_false(ms__mark_trusted(log));
    ms__writer_encode(&w, log->map.super + MS__AT_WRITER);
    log->file.boot = 0;
    assert_false(ms__mark_trusted(log));
    log->file.boot = w.boot;
    /* nor does a writer go on where a sync of another one has failed */
    ms__store_mark(log->map.super + MS__AT_BUSY, log->end);
    assert_int_equal(ms__log_join(log, NULL), MS_OK);
    assert_true(log->append.begun);
    assert_int_equal(ms__unconfirmed_set(log, true), 0);
    assert_int_equal(ms__log_join(log, NULL), MS_OK);
    assert_false(log->append.begun);
    assert_int_equal(ms__unconfirmed_set(log, false), 0);
    end(store);
}

static void reader_loses_nothing_when_the_watermark_goes_back(void **state)
{
    uint64_t last;
    ms_store *store = make_log(9), *reader = open_log(MS_LOG_READ);
    ms__log *log = ms__log_of(store);
    (void)state;
    ms__store_mark(log->map.super + MS__AT_MARK, MS__SUPER_SIZE + 64);
    assert_int_equal(test_refresh(reader, &last, NULL), MS_OK);
    assert_int_equal(last, 9);
    ms__store_mark(log->map.super + MS__AT_MARK, log->end);
    ms_close(reader);
    finish(store);
}


/* ---- records that no writer of this version makes, damage at the end ---- */

/* Appends a record of that kind whose checks hold. */
static void put_kind(ms_store *store, unsigned char kind)
{
    unsigned char r[48] = {0};
    ms__own_header(r, 40, MS__KIND_INDEX, 0, 9);
    r[4] = kind;
    assert_int_equal(ms__record_put(ms__log_of(store), r, NULL), MS_OK);
}

static void refresh_fails_when_a_record_must_be_understood(void **state)
{
    uint64_t last;
    ms_store *store = make_log(9), *reader = open_log(MS_LOG_READ);
    (void)state;
    put_kind(store, 200);
    assert_int_equal(test_refresh(reader, &last, NULL), MS_E_FOREIGN);
    ms_close(reader);
    end(store);
}

static void verify_goes_on_when_a_record_is_of_kind_0(void **state)
{
    ms_log_report report;
    ms_store *store = make_log(3);
    (void)state;
    put_kind(store, 0);
    say_some(store, 2);
    ms_close(store);
    ms_log_desc desc = desc_of(MS_LOG_READ);
    assert_int_equal(ms_log_verify(&desc, &report, NULL), MS_E_DAMAGED);
    assert_int_equal(report.messages, 5);
}

/* Damage up to some bytes before the end: too few for a record. */
static void damage_is_reported_when_too_little_follows_it(void **state)
{
    ms_log_info info;
    ms_store *store = make_log(4);
    ms__log *log = ms__log_of(store);
    (void)state;
    assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
    ms__store_mark(log->map.super + MS__AT_MARK, log->end + 16);
    drive.rw[tail_record_at(log, 3) + 40] ^= 1;
    kill_handle(store);
    store = open_log(MS_LOG_READ);
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    assert_true(info.damaged > 0);
    assert_int_equal(count_all(store, query_at(NULL), MS_E_DAMAGED), 3);
    end(store);
}

static void messages_are_kept_when_the_durable_end_is_inside_of_a_record(void **state)
{
    (void)state;
    for (int room = 0; room < 2; room++) {
        ms_stat stat;
        ms_store *store = make_log(4);
        ms__log *log = ms__log_of(store);
        uint64_t at = tail_record_at(log, 3), file_end = log->end;
        assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
        ms__checkpoint slot = ms__checkpoint_newest(log->map.super);
        slot.end = at + 16;
        slot.generation += 2;
        ms__checkpoint_encode(&slot, log->map.super + MS__AT_CHECKPOINTS);
        memset(log->map.super + MS__AT_CHECKPOINTS + MS__CHECKPOINT_STEP, 0, 44);
        drive.rw[at + 40] ^= 1;
        kill_handle(store);
        drive.boot++;
        disk_resize(&drive, room ? file_end + 4096 : file_end);
        store = open_log(MS_LOG_READ);
        assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
        assert_int_equal(stat.messages, 3);
        end(store);
    }
}

static void strict_opening_fails_when_there_are_bytes_after_the_end(void **state)
{
    static const ms_log_mode modes[] = {MS_LOG_WRITE, MS_LOG_READ};
    (void)state;
    for (int i = 0; i < 8; i++) {
        bool dead = i / 4 == 1, restart = i % 2 == 1;
        ms_store *store;
        ms_close(make_log(4));
        drive.rw[ms__get64(drive.ro + MS__AT_MARK) + 100] = dead ? 7 : 0;
        drive.boot += restart;
        ms_log_desc desc = desc_of(modes[i / 2 % 2]);
        desc.opening = MS_OPEN_STRICT;
        ms_result code = ms_log_open(&store, &desc, NULL);
        bool beside = !restart && desc.mode == MS_LOG_READ;
        assert_int_equal(code, dead && !beside ? MS_E_DAMAGED : MS_OK);
        ms_close(store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(map_fails_when_it_would_reach_beyond_the_largest_number),
        cmocka_unit_test(messages_are_found_when_the_map_has_many_pieces),
        cmocka_unit_test(tail_slot_is_passed_over_when_a_reader_pins_it),
        cmocka_unit_test(refresh_fails_when_no_tail_slot_is_left),
        cmocka_unit_test(record_is_refused_when_the_end_leaves_only_its_header),
        cmocka_unit_test(call_is_refused_when_it_is_of_another_store),
        cmocka_unit_test(handle_erases_and_leaves_out_nothing_when_it_is_poisoned),
        cmocka_unit_test(sync_covers_what_was_there_when_it_began),
        cmocka_unit_test(checkpoint_stays_when_another_handle_has_stored_a_later_one),
        cmocka_unit_test(records_are_kept_when_a_later_one_says_they_are_synced),
        cmocka_unit_test(reader_reports_no_damage_when_a_writer_begins_meanwhile),
        cmocka_unit_test(watermark_is_ignored_when_it_is_of_another_machine_or_file),
        cmocka_unit_test(reader_loses_nothing_when_the_watermark_goes_back),
        cmocka_unit_test(refresh_fails_when_a_record_must_be_understood),
        cmocka_unit_test(verify_goes_on_when_a_record_is_of_kind_0),
        cmocka_unit_test(damage_is_reported_when_too_little_follows_it),
        cmocka_unit_test(messages_are_kept_when_the_durable_end_is_inside_of_a_record),
        cmocka_unit_test(strict_opening_fails_when_there_are_bytes_after_the_end),
    };
    return run_inside(tests);
}
