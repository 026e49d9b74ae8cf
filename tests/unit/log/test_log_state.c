/* [log-map], [log-recover]: what a handle maps, pins and takes for the state of this boot,
 * and calls that are refused. Each test sets private state of a handle, or words of the
 * superblock, that calls alone do not bring about. */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"
#include "log_internals.h"


/* ---- maps and tails ---- */

static int map_code;

static int map_nothing(void *ctx, ms_file file, uint64_t offset, size_t size,
                       unsigned how, void **out)
{
    static unsigned char nothing[1];
    *out = nothing;
    return map_code;
}

TEST(map_fails_when_it_would_reach_beyond_the_largest_number)
{
    ms_store *store = make_log(1);
    ms__log *log = ms__log_of(store);
    uint32_t mappings = log->map.n_mappings;
    ms_os os = traps.os;
    uint64_t most = SIZE_MAX / 8 - 8;
    os.map = map_nothing;
    log->os = &os;
    map_code = ENODEV;
    assert_int_equal(ms__log_reach(log, most / 2, most, most, NULL), MS_E_UNSUPPORTED);
    map_code = 0;
    assert_int_equal(ms__log_reach(log, MS__FIRST_RECORD, most, most, NULL), MS_OK);
    assert_true(ms__log_mapped(log) >= most);
    log->map.mappings[log->map.n_mappings - 1].size = SIZE_MAX / 8 + 4096;
    uint64_t from = ms__log_mapped(log);
    assert_int_equal(ms__log_reach(log, from, from + 4096, from, NULL), MS_OK);
    assert_int_equal(ms__log_reach(log, 0, UINT64_MAX - 7, 0, NULL), MS_E_FULL);
    log->map.n_mappings = MS__MAPPINGS;
    log->map.mappings[MS__MAPPINGS - 1] = log->map.mappings[0];
    uint64_t more = ms__log_mapped(log) + 4096;
    assert_int_equal(ms__log_reach(log, 0, more, 0, NULL), MS_E_NO_MEMORY);
    log->map.n_mappings = mappings;
    log->os = &traps.os;
    end(store);
}

/* Each mapping is as large as all before it. */
TEST(map_has_few_mappings_when_a_log_grows_to_512_gibibytes)
{
    const uint64_t step = (uint64_t)1 << 26;
    if (sizeof(size_t) < 8) skip();
    ms_store *store = make_log(1);
    ms__log *log = ms__log_of(store);
    uint32_t mappings = log->map.n_mappings;
    ms_os os = traps.os;
    os.map = map_nothing;
    log->os = &os;
    map_code = 0;
    for (uint64_t at = (uint64_t)1 << 20; at < (uint64_t)1 << 39; at += step)
        assert_int_equal(ms__log_reach(log, at, at + step, at + step, NULL), MS_OK);
    assert_true(log->map.n_mappings < MS__MAPPINGS / 2);
    log->map.n_mappings = mappings; /* the others need not be given back */
    log->os = &traps.os;
    end(store);
}

TEST(tail_slot_is_passed_over_when_a_reader_pins_it)
{
    ms_store *store = make_log(1);
    ms__log *log = ms__log_of(store);
    uint32_t now;
    log->map.pins[(log->map.now + 1) % MS__PINS] = 1; /* as when it pins, and looks again */
    assert_true(ms__tail_slot(log, &now));
    assert_int_equal(now, log->map.now + 2);
    log->map.pins[(log->map.now + 1) % MS__PINS] = 0;
    end(store);
}

/* The tail goes on growing, and a later append seals it. */
TEST(segment_is_not_sealed_when_no_tail_slot_is_left_or_it_is_too_long)
{
    ms_store *store = make_log(3);
    ms__log *log = ms__log_of(store);
    ms__tail *t = ms__tail_of(log);
    uint32_t segments = log->index.segments.n, filled = t->filled;
    for (unsigned k = 0; k < MS__PINS; k++) log->map.pins[k]++;
    assert_int_equal(ms__segment_write(log, NULL), MS_OK);
    assert_int_equal(log->index.segments.n, segments);
    for (unsigned k = 0; k < MS__PINS; k++) log->map.pins[k]--;
    t->filled = MS__IS_MESSAGE;
    assert_int_equal(ms__segment_write(log, NULL), MS_E_NO_MEMORY);
    assert_int_equal(log->index.segments.n, segments);
    t->filled = filled;
    assert_int_equal(ms__segment_write(log, NULL), MS_OK);
    assert_int_equal(log->index.segments.n, segments + 1);
    finish(store);
}

/* All places for tails are pinned, as by cursors: a reader of an empty file, or a writer with
 * an old state, returns an error; it shows nothing old and appends nothing. */
TEST(refresh_fails_when_no_tail_slot_is_left)
{
    static const struct {
        size_t before, after;
        ms_result result;
    } rows[] = {{0, 3, MS_E_FULL}, {3, 200, MS_E_BUSY}}; /* more than a segment */
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

/* Puts a log of some clustered segments, without their indexes, on the disk. */
static void make_clustered(void)
{
    uint64_t offset = MS__FIRST_RECORD;
    ms_store *store = make_segments(80);
    ms_log_desc desc = desc_of(MS_LOG_CREATE);
    disk_compact(&drive, store, &desc);
    store = open_log(MS_LOG_READ);
    ms__log *log = ms__log_of(store);
    uint32_t clusters = 0;
    while (offset < log->end) {
        unsigned char *r = writable(ms__log_at(log, offset));
        offset += ms__padded(ms__get32(r));
        if (r[4] == MS__KIND_INDEX) r[MS__HEADER] ^= 1;
        if (ms__cluster_of(r) > clusters) clusters = ms__cluster_of(r);
    }
    assert_true(clusters > 1);
    ms_close(store);
}

/* Each of its segments is sealed in memory, with a tail of its own. */
TEST(clustered_log_without_indexes_is_refused_when_no_tail_slot_or_memory_is_left)
{
    ms_store *store;
    ms_error err;
    uint32_t kept[MS__PINS];
    make_clustered();
    size_t size = (size_t)drive.size, k = 1;
    unsigned char *bytes = (unsigned char *)malloc(size);
    memcpy(bytes, drive.ro, size);
    for (; k == 1 || heap.failed > 0; k++) {
        test_alloc_init(&heap);
        heap.fail_at = k;
        ms_log_desc desc = desc_of(MS_LOG_READ);
        ms_result result = ms_log_open(&store, &desc, &err);
        assert_int_equal(result, heap.failed > 0 ? MS_E_NO_MEMORY : MS_OK);
        if (result == MS_OK) ms_close(store);
        test_alloc_done(&heap);
    }
    begin(); /* a reader of an empty file, with one tail slot left */
    drive.there = true;
    store = open_log(MS_LOG_READ);
    ms__log *log = ms__log_of(store);
    memcpy(kept, log->map.pins, sizeof kept);
    for (unsigned i = 0; i < MS__PINS; i++)
        if (i != log->map.now + 1) log->map.pins[i]++;
    disk_load(&drive, bytes, size);
    assert_int_equal(test_refresh(store, NULL, &err), MS_E_BUSY);
    assert_non_null(strstr(err.message, "cursors are open"));
    memcpy(log->map.pins, kept, sizeof kept);
    assert_int_equal(test_refresh(store, NULL, NULL), MS_OK);
    free(bytes);
    finish(store);
}

static uint64_t populated_at[8];
static size_t populated_size[8], n_populated;

static int noted_populate(void *ctx, ms_file file, void *at, uint64_t offset, size_t size,
                          uint64_t *bad)
{
    assert_true(n_populated < 8);
    populated_at[n_populated] = offset;
    populated_size[n_populated++] = size;
    return 0;
}

/* A file of 20 pages: the second window of 64 KiB has four. The look before is near to the
 * last one (page 3), or not (page 1). */
TEST(second_look_into_the_last_64_kib_ends_with_the_file)
{
    ms_store *store = make_log(0);
    while (ms__log_of(store)->end < 19 * 4096) say_some(store, 1);
    ms_close(store);
    disk_resize(&drive, 20 * 4096);
    traps.os.populate = noted_populate;
    store = open_log(MS_LOG_READ);
    ms__log *log = ms__log_of(store);
    assert_int_equal(log->map.n_looked, 20);
    for (uint64_t before = 1; before <= 3; before += 2) {
        memset(log->map.looked, 0, 4);
        log->map.look_next = 0;
        n_populated = 0;
        ms__log_populate(log, 17 * 4096, 40);
        ms__log_populate(log, before * 4096, 40);
        ms__log_populate(log, 18 * 4096, 40);
        assert_int_equal(n_populated, 3);
        assert_int_equal(populated_at[2], 18 * 4096);
        assert_int_equal(populated_size[2], 2 * 4096);
    }
    ms_close(store);
    begin();
}

/* A list that ends after the postings: nothing is prefetched. */
TEST(run_that_lies_about_its_end_is_not_prefetched)
{
    ms_store *store = make_segments(2);
    ms__log *log = ms__log_of(store);
    (void)count_all(store, query_at("place_1"), MS_OK); /* the index is valid */
    ms__segment lies = *ms__segment_of(log, 0, false);
    ms__run_soon run = {.index = &lies, .at = lies.numbers, .n = lies.lists};
    ms__run_soon_list(&run, ms__segment_list(&lies, 0));
    assert_ptr_equal(run.at, lies.posting);
    lies.postings = 0;
    run = (ms__run_soon){.index = &lies, .at = lies.numbers, .n = lies.lists};
    ms__run_soon_list(&run, ms__segment_list(&lies, 0));
    assert_null(run.at);
    finish(store);
}

/* Numbers of clustered messages have 32 bits. */
TEST(index_of_a_clustered_segment_is_refused_when_its_numbers_are_too_large)
{
    ms__segment seg;
    uint64_t offset = MS__FIRST_RECORD;
    make_clustered();
    ms_store *store = open_log(MS_LOG_READ);
    ms__log *log = ms__log_of(store);
    const unsigned char *r = ms__log_at(log, offset);
    for (; r[4] != MS__KIND_INDEX; r = ms__log_at(log, offset))
        offset += ms__padded(ms__get32(r));
    unsigned char *copy = (unsigned char *)malloc(ms__padded(ms__get32(r)));
    memcpy(copy, r, ms__get32(r));
    copy[MS__HEADER] ^= 1;
    assert_true(ms__segment_decode(&seg, copy, offset));
    assert_int_equal(seg.clustered, 1);
    seg.state.last_seq = MS__CLUSTER_SEQ - 1;
    ms__state_encode(&seg.state, copy);
    assert_true(ms__segment_decode(&seg, copy, offset));
    seg.state.last_seq = MS__CLUSTER_SEQ;
    ms__state_encode(&seg.state, copy);
    assert_false(ms__segment_decode(&seg, copy, offset));
    free(copy);
    ms_close(store);
}

static void cut_page_0(void *of)
{
    (void)of;
    drive.size = 24;
}

/* Page 0 names another file, and the copy cannot be read any more: by the third read, or
 * by all from there on, or it is cut off. */
TEST(superblock_is_not_mended_with_the_name_of_another_file)
{
    unsigned char before[MS__FIRST_RECORD];
    ms_store *store;
    ms_error err;
    for (int way = 0; way < 3; way++) {
        ms_close(make_log(3));
        drive.rw[24] ^= 1;
        ms__put32(drive.rw + 52, ms__crc32c(0, drive.ro, 52));
        memcpy(before, drive.ro, sizeof before);
        traps.kinds = OS_FAULT_BIT(READ);
        traps.calls = 0;
        traps.how = way == 2 ? OS_FAULT_ACT_BEFORE : OS_FAULT_FAIL;
        traps.at = 3;
        traps.from = way == 1;
        traps.act = cut_page_0;
        traps.code = EIO;
        ms_log_desc desc = desc_of(MS_LOG_WRITE);
        assert_int_equal(ms_log_open(&store, &desc, &err), MS_E_IO);
        assert_non_null(strstr(err.message, "writing the superblock"));
        assert_int_equal(traps.hits, way == 1 ? 2 : 1);
        assert_memory_equal(drive.ro, before, way == 2 ? 24 : sizeof before);
    }
    begin();
}

/* The last message before the segment index that cannot be taken in. */
TEST(damage_is_counted_once_when_a_refresh_fails_after_it)
{
    uint64_t at, last = 0;
    const unsigned char *r;
    ms_store *store = make_log(1), *other = open_log(MS_LOG_READ);
    ms__log *writer = ms__log_of(store), *log = ms__log_of(other);
    assert_int_equal(count_all(other, query_at(NULL), MS_OK), 1);
    while (writer->index.segments.n == 0) say_some(store, 1);
    ms__record_walk s = replay_at(writer, MS__FIRST_RECORD);
    while (ms__record_walk_next(&s, &r, &at) == MS__FOUND_RECORD &&
           r[4] == MS__KIND_MESSAGE)
        last = at;
    writable(ms__log_at(writer, last))[40] ^= 1;
    for (unsigned k = 0; k < MS__PINS; k++) log->map.pins[k]++;
    for (int again = 0; again < 3; again++)
        assert_int_equal(test_refresh(other, NULL, NULL), MS_E_BUSY);
    for (unsigned k = 0; k < MS__PINS; k++) log->map.pins[k]--;
    assert_int_equal(test_refresh(other, NULL, NULL), MS_OK);
    assert_int_equal(log->sum.damaged, 1);
    assert_int_equal(count_all(other, query_at(NULL), MS_E_DAMAGED), said - 1);
    ms_close(other);
    ms_close(store);
}

TEST(record_is_refused_when_the_end_leaves_only_its_header)
{
    ms_store *store = make_log(1);
    unsigned char r[40] = {40};
    assert_false(ms__log_holds(ms__log_of(store), r, 8192, 39, true));
    end(store);
}

/* Damage, and after it two headers whose records would reach over the end: the log ends
 * before the first of them. */
TEST(walk_ends_before_the_first_record_that_reaches_over_the_end)
{
    uint64_t at[3], offset;
    const unsigned char *r;
    ms_store *store = make_log(9);
    ms__log *log = ms__log_of(store);
    for (uint32_t i = 0; i < 3; i++) {
        at[i] = tail_record_at(log, 6 + i);
        unsigned char *super = drive.rw + at[i];
        ms__put32(super, i == 0 ? 1 : 1 << 20);
        ms__put32(super + MS__AT_CHECK, ms__check_at(log->id.crc, at[i], super));
    }
    ms__record_walk s = replay_at(log, at[0]);
    assert_int_equal(ms__record_walk_next(&s, &r, &offset), MS__FOUND_END);
    assert_int_equal(s.at, at[1]);
    assert_int_equal(s.limit, at[1]);
    assert_int_equal(s.damaged_bytes, at[1] - at[0]);
    end(store);
}

static int stat_without_room(void *ctx, ms_file file, ms_os_stat *out)
{
    int code = traps.os.stat(ctx, file, out);
    out->keeps_room = false;
    return code;
}

TEST(log_is_written_by_calls_when_its_file_system_keeps_no_room)
{
    ms_log_info info;
    begin();
    ms_os os = traps.os;
    ms_log_desc desc = desc_of(MS_LOG_CREATE);
    os.stat = stat_without_room;
    desc.os = &os;
    desc.engine = MS_ENGINE_MAP;
    desc.max_message = SIZE_MAX; /* the limit of a record counts */
    ms_store *store = open_with(&desc);
    say_some(store, 3);
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    assert_int_equal(info.engine, MS_ENGINE_WRITE);
    assert_int_equal(ms__log_of(store)->opts.max_message, MS__RECORD_MAX);
    finish(store);
}

/* ---- room ---- */

static uint64_t room_ends;
static int room_code;

static int allocate_some(void *ctx, ms_file file, uint64_t offset, uint64_t size)
{
    return offset + size > room_ends ? room_code
                                     : disk_allocate(&drive, file, offset, size);
}

/* No room is made after that place. */
static void room_ends_at(uint64_t place, int code)
{
    room_ends = place;
    room_code = code;
    traps.os.allocate = allocate_some;
}

/* The file may end just where a tick looks ahead to, within a page. */
TEST(tick_makes_room_up_to_the_limit_when_a_file_may_not_grow)
{
    begin();
    ms_log_desc desc = desc_of(MS_LOG_CREATE);
    desc.engine = MS_ENGINE_MAP;
    desc.segment_size = 1 << 20;
    room_ends_at(3 * (MS__ROOM_LEAST + MS__GRAIN), EFBIG);
    ms_store *store = open_with(&desc);
    ms__log *log = ms__log_of(store);
    say_some(store, 1);
    if (log->end % 4096 == 0) say_some(store, 1);
    room_ends = log->end + MS__ROOM_MOST;
    uint64_t start = drive.micros;
    assert_int_equal(ms_tick(store, 1000000, NULL), MS_OK);
    assert_true(drive.micros - start < 100); /* it does not try until its time is over */
    assert_true(log->append.allocated == room_ends);
    say_some(store, 50);
    finish(store);
}

static uint64_t room_from;

static int allocate_from(void *ctx, ms_file file, uint64_t offset, uint64_t size)
{
    room_from = offset;
    return allocate_some(ctx, file, offset, size);
}

/* A file system may have blocks of 1 KiB, and the file holes of that size; a store into a
 * page needs all of its blocks. */
TEST(pages_that_are_stored_to_are_allocated_as_a_whole)
{
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    ms_store *store = make_log(40);
    finish(store);
    desc.engine = MS_ENGINE_MAP;
    room_ends_at(drive.size, ENOSPC);
    traps.os.allocate = allocate_from;
    room_from = 1;
    store = open_with(&desc);
    assert_int_equal(room_from, 0); /* the superblock, before its first store */
    uint64_t end = ms__log_of(store)->end;
    assert_int_not_equal(end % 4096, 0);
    assert_int_equal(ms__room_fill(ms__log_of(store), NULL), MS_OK);
    assert_int_equal(room_from, end - end % 4096);
    say_some(store, 1);
    assert_int_equal(ms__log_of(store)->append.engine, MS_ENGINE_MAP);
    finish(store);
}

/* What follows the end is read through a map, for which tmpfs needs space in a hole. */
TEST(bytes_after_the_end_are_allocated_before_they_are_read)
{
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    ms_store *store = make_log(40);
    finish(store);
    room_ends_at(drive.size - 1, ENOSPC);
    store = open_with(&desc);
    ms_envelope m = ms_user_message(ms_text("x"));
    assert_int_equal(ms_append(store, MS_STR("x"), &m, NULL, NULL), MS_E_FULL);
    room_ends = drive.size;
    say_some(store, 1);
    finish(store);
}

TEST(a_log_is_written_by_calls_when_its_superblock_cannot_be_allocated)
{
    ms_store *store = make_log(3);
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    ms_error err;
    finish(store);
    desc.engine = MS_ENGINE_MAP;
    room_ends_at(0, ENOSPC);
    store = open_with(&desc);
    assert_int_equal(ms__log_of(store)->append.engine, MS_ENGINE_WRITE);
    room_ends = drive.room;
    say_some(store, 3);
    finish(store);
    room_ends_at(0, EFBIG); /* the process may not write to it */
    assert_int_equal(ms_log_open(&store, &desc, &err), MS_E_FULL);
    assert_non_null(strstr(err.message, "would be too large"));
}

static int stat_with_holes(void *ctx, ms_file file, ms_os_stat *out)
{
    int code = os_fault_stat(ctx, file, out);
    out->holes = 4096;
    return code;
}

TEST(a_log_is_full_when_its_holes_cannot_be_filled)
{
    ms_store *store = make_log(3);
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    ms_error err;
    finish(store);
    traps.os.stat = stat_with_holes;
    room_ends_at(drive.size - 1, ENOSPC);
    assert_int_equal(ms_log_open(&store, &desc, &err), MS_E_FULL);
    assert_non_null(strstr(err.message, "allocating room"));
    room_ends = drive.size;
    store = open_with(&desc);
    say_some(store, 3);
    finish(store);
}

TEST(segment_is_not_sealed_when_there_is_no_room_for_the_next)
{
    begin();
    ms_log_desc desc = desc_of(MS_LOG_CREATE);
    desc.segment_size = 1 << 20; /* a close seals nothing */
    ms_store *store = open_with(&desc);
    say_some(store, 3);
    ms_close(store);
    drive.boot++; /* a restart: what is there has room, and no more */
    disk_resize(&drive, ms__get64(drive.ro + MS__AT_MARK));
    room_ends_at(0, ENOSPC);
    store = open_with(&desc);
    assert_int_equal(ms__segment_write(ms__log_of(store), NULL), MS_E_FULL);
    end(store);
}


/* ---- calls of the table of a store that [store] does not make ---- */

TEST(call_is_refused_when_it_is_of_another_store)
{
    ms_store *store = make_log(5), *reader, *other;
    ms_log_desc desc = desc_of(MS_LOG_READ), none = desc;
    ms_log_info info;
    const ms_msg *msg;
    ms_arena arena;
    ms_append_opts opts;
    uint64_t seq;
    ms_envelope m = ms_user_message(ms_text("loose"));
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

/* What is closed twice, left out twice, ended before it began. */
TEST(call_changes_nothing_when_it_was_made_before)
{
    ms_store *store = make_log(5), *fresh;
    ms_query q = query_at(NULL);
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    ms_cursor it;
    ms_error err;
    bool more;
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    store->backend->cursor_close(store, &it);
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    assert_int_equal(store->backend->leave_out(store, 9, NULL), MS_OK);
    assert_int_equal(store->backend->leave_out(store, 7, NULL), MS_OK);
    assert_int_equal(ms__log_of(store)->sum.gap_seq, 9);
    ms_rewrite rewrite = {.to = &desc};
    assert_int_equal(ms_rewrite_run(&rewrite, 0, &more, NULL), MS_E_CLOSED);
    assert_int_equal(ms_rewrite_end(&rewrite, &fresh, &err), MS_E_BUSY);
    assert_non_null(strstr(err.message, desc.path));
    assert_int_equal(ms_rewrite_end(&rewrite, NULL, NULL), MS_OK);
    finish(store);
}

TEST(handle_erases_and_leaves_out_nothing_when_it_is_poisoned)
{
    ms_store *store = make_log(3);
    const ms_msg *msg;
    assert_int_equal(ms_get_by_seq(store, 2, NULL, &msg, NULL), MS_OK);
    ms__log_of(store)->durable.poisoned = true;
    assert_int_equal(store->backend->erase(store, msg, 0, NULL), MS_E_POISONED);
    assert_int_equal(store->backend->leave_out(store, 9, NULL), MS_E_POISONED);
    end(store);
}

/* Bytes of before a failed sync are written again first: where that fails nothing is
 * synced, and the bytes stay to be written. */
TEST(bytes_are_not_synced_when_they_cannot_be_written_again)
{
    ms_store *store = make_log(30);
    ms__log *log = ms__log_of(store);
    ms_error err;
    for (int fails = 1; fails >= 0; fails--) {
        bool unsure = false;
        assert_int_equal(ms__unconfirmed_set(log, true), 0);
        os_fault_init(&traps, &drive.os);
        traps.how = fails ? OS_FAULT_FAIL : OS_FAULT_NONE;
        traps.kinds = OS_FAULT_BIT(WRITE);
        traps.at = 1;
        traps.code = EIO;
        uint64_t synced = drive.syncs;
        ms__lock_acquire(&log->lock);
        assert_int_equal(ms__log_sync_bytes(log, &unsure, &err), fails ? MS_E_IO : MS_OK);
        ms__lock_release(&log->lock);
        assert_true(unsure);
        assert_int_equal(traps.hits, fails);
        assert_int_equal(drive.syncs - synced, !fails);
        assert_int_equal(log->durable.rewrite_range_end, fails ? log->end : 0);
        assert_false(log->durable.poisoned);
    }
    end(store);
}

/* So many zeros that a sync of the file is not dearer than syncing them alone. */
TEST(dead_bytes_are_zeroed_when_they_are_many)
{
    static const uint64_t rows[] = {4096, 4 * MS__SUPPLY, 4 * MS__SUPPLY + 4096,
                                    12 * MS__SUPPLY};
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_log_info info;
        ms_close(make_log(30));
        ms_store *store = open_log(MS_LOG_READ);
        uint64_t end_of = ms__log_of(store)->end;
        ms_close(store);
        disk_resize(&drive, end_of + rows[i]);
        memset(drive.rw + end_of, 0x5a, (size_t)rows[i]);
        drive.boot++;
        store = open_log(MS_LOG_WRITE);
        say_some(store, 1);
        assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
        assert_int_equal(info.zeroed_bytes, rows[i]);
        ms_close(store);
        for (uint64_t at = info.end; at < drive.size; at++)
            if (drive.ro[at] != 0) fail_msg("byte %llu is left", (unsigned long long)at);
        finish(open_log(MS_LOG_READ));
    }
}


/* ---- the lock of an opening ---- */

static int (*take_lock)(void *ctx, ms_file file);
static unsigned times_twice;

static int count_lock(void *ctx, ms_file file)
{
    times_twice += drive.locked;
    return take_lock(ctx, file);
}

/* After a restart a shared opening finds records that the watermark lacks, and prepares
 * the file. It has the lock to its end: a system gives a handle the lock that it has, and
 * takes it back at the first of two unlocks. */
TEST(shared_opening_does_not_lose_its_lock_when_it_prepares_the_file)
{
    static unsigned char bytes[1 << 20];
    for (unsigned failed = 0; failed < 2; failed++) { /* a sync of the boot may have */
        begin();
        ms_store *store = open_shared(MS_LOG_CREATE);
        say_some(store, 3);
        size_t size = (size_t)drive.size;
        assert_true(size <= sizeof bytes);
        memcpy(bytes, drive.ro, size);
        ms_close(store);
        ms__put64(bytes + MS__AT_MARK, MS__SUPER_SIZE);
        if (failed) ms__put64(bytes + MS__AT_UNCONFIRMED, drive.boot + 1);
        disk_load(&drive, bytes, size);
        drive.boot++;
        take_lock = traps.os.lock;
        traps.os.lock = count_lock;
        times_twice = 0;
        store = open_shared(MS_LOG_WRITE);
        assert_int_equal(times_twice, 0);
        assert_false(drive.locked);
        assert_int_equal(ms__load_mark(drive.ro + MS__AT_MARK), ms__log_of(store)->end);
        say_some(store, 1);
        finish(store);
    }
}


/* ---- the watermark ---- */

TEST(watermark_is_ignored_when_it_is_of_another_machine_or_file)
{
    ms__writer_line w;
    ms_store *store = make_log(3);
    ms__log *log = ms__log_of(store);
    assert_true(ms__mark_trusted(log));
    assert_true(ms__writer_decode(&w, log->map.super));
    ms__writer_line other = w;
    other.device++;
    ms__writer_encode(&other, log->map.super + MS__AT_WRITER);
    assert_false(ms__mark_trusted(log));
    ms__writer_encode(&w, log->map.super + MS__AT_WRITER);
    log->file.boot = 0;
    assert_false(ms__mark_trusted(log));
    assert_int_equal(ms__unconfirmed_set(log, true), 0); /* without a number of its own */
    assert_true(ms__log_unconfirmed(log));
    assert_int_equal(ms__unconfirmed_set(log, false), 0);
    assert_false(ms__log_unconfirmed(log));
    log->file.boot = w.boot;
    /* nor does a writer go on where a sync of another one has failed */
    ms__store_mark(log->map.super + MS__AT_BUSY, log->end);
    assert_int_equal(ms__turn_check(log, NULL), MS_OK);
    assert_true(log->append.prepared);
    assert_int_equal(ms__unconfirmed_set(log, true), 0);
    assert_int_equal(ms__turn_check(log, NULL), MS_OK);
    assert_false(log->append.prepared);
    assert_int_equal(ms__unconfirmed_set(log, false), 0);
    end(store);
}

int main(void)
{
    return run_inside_tests();
}
