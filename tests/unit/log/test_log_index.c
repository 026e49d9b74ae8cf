/* [log-index], [log-cursor], [log-find]: index records that are damaged, or whose numbers
 * are wrong, hide nothing, and cost no memory. A cold log is read in few pages.
 */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"
#include "log_file.h"

/* Segment indexes whose segment numbers are each as far off as one may be. */
TEST(numbers_of_segments_cost_no_memory_when_they_are_wrong)
{
    enum { SIZE = 256, FILE_SIZE = 128 << 10 };
    ms__segment none;
    memset(&none, 0, sizeof none); /* without records */
    const uint32_t size = (uint32_t)ms__segment_size(&none);
    assert_int_equal(ms__padded(size), SIZE);
    uint64_t segment = 0;
    ms_log_info info;
    ms_log_desc desc = desc_of(MS_LOG_READ);
    make_log(1);
    craft c = craft_of();
    for (uint64_t at = c.end; at < FILE_SIZE; at += SIZE) {
        unsigned char r[SIZE];
        memset(r, 0, sizeof r);
        ms__own_header(r, size, MS__KIND_INDEX, MS__INDEX_SEGMENT, 1);
        segment += at / MS__SEGMENT_FIXED - 1;
        ms__put32(r + 136, (uint32_t)segment++);
        ms__put64(r + 144, MS__FIRST_RECORD);
        ms__put32(r + 220, 2);
        ms__seal_at(c.id.crc, at, r);
        write_at(at, r, sizeof r);
    }
    memset(c.super + MS__AT_CHECKPOINTS, 0, 1024);
    memset(c.super + MS__AT_HINT, 0, 120);
    write_at(0, c.super, sizeof c.super);
    ms_store *store = must_open(&desc);
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    assert_true(info.segments <= FILE_SIZE / MS__SEGMENT_FIXED);
    assert_true(info.memory < (uint64_t)1 << 20);
    ms_close(store);
}

/* How many messages a location has, of the newest `limit` (0: all). */
static size_t newest_with(ms_store *store, const char *place, size_t limit, ms_result end)
{
    ms_cursor it;
    size_t n = 0;
    ms_query q = {.location = ms_str_of(place), .limit = limit};
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while (ms_next(&it) != NULL) n++;
    assert_int_equal(ms_cursor_close(&it, NULL), end);
    return n;
}

static size_t newest_in(ms_store *store, const char *place, size_t limit)
{
    return newest_with(store, place, limit, MS_OK);
}

static size_t count_in(ms_store *store, const char *place)
{
    return newest_in(store, place, 0);
}

/* The places of the index records of a closed log. */
static size_t index_records(uint64_t *places, size_t most)
{
    craft c = craft_of();
    unsigned char r[MS__HEADER];
    size_t n = 0;
    for (uint64_t at = MS__FIRST_RECORD; at < c.end; at += ms__padded(ms__get32(r))) {
        read_at(at, r, sizeof r);
        assert_true(ms__holds_at(c.id.crc, at, r));
        if (r[4] == MS__KIND_INDEX && n < most) places[n++] = at;
    }
    return n;
}

/* Appends until there are so many segments more. */
static void append_segments(ms_store *store, uint64_t more)
{
    ms_log_info info;
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    for (uint64_t until = info.segments + more; info.segments < until;) {
        assert_int_equal(append(store, "a message that takes some room", NULL), MS_OK);
        assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    }
}

static uint64_t summaries_of(ms_store *store)
{
    ms_log_info info;
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    return info.summaries;
}

/* The message with a key has the number 1; a repeated append returns it. */
static void append_first(ms_store *store)
{
    ms_envelope m = ms_user_message(ms_text("of long ago"));
    uint64_t seq = 0;
    m.key = MS_STR("the first one");
    assert_int_equal(ms_append(store, MS_STR("early"), &m, &seq, NULL), MS_OK);
    assert_int_equal(seq, 1);
}

static void must_have_all_of_early(ms_store *store)
{
    assert_int_equal(count_in(store, "early"), 30);
    append_first(store);
}

/* A conversation of long ago and its key, whichever index record is damaged, or five in a
 * row: before the next summary is made over its segments, and after it. */
TEST(a_conversation_stays_when_index_records_are_damaged)
{
    uint64_t places[400];
    ms_log_desc desc = desc_of(MS_LOG_NEW);
    ms_envelope m = ms_user_message(ms_text("of long ago"));
    (void)remove(path);
    desc.segment_size = MS_LOG_SEGMENT_MIN;
    ms_store *store = must_open(&desc);
    append_first(store);
    for (int i = 1; i < 30; i++)
        assert_int_equal(ms_append(store, MS_STR("early"), &m, NULL, NULL), MS_OK);
    append_segments(store, 60); /* a summary, and nearly another one */
    assert_int_equal(summaries_of(store), 1);
    ms_close(store);
    size_t size, n = index_records(places, 400);
    char *whole = read_file(path, &size);
    assert_true(whole != NULL && n > 62 && n < 400);
    desc.mode = MS_LOG_WRITE;
    for (size_t i = 0; i < 2 * n; i++) {
        assert_true(write_file(path, whole, size));
        size_t end = i < n ? i + 1 : i - n + 5;
        for (size_t k = i % n; k < end && k < n; k++)
            flip_at(places[k] + MS__HEADER + 8, 4);
        restart();
        store = must_open(&desc);
        must_have_all_of_early(store);
        append_segments(store, 10);
        assert_true(summaries_of(store) >= 2);
        must_have_all_of_early(store);
        ms_close(store);
        store = must_open(&desc);
        must_have_all_of_early(store);
        assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
        ms_close(store);
    }
    free(whole);
}

/* Events of a damaged index record, and how many of them have a place. */
static size_t index_events, placed_events;

static void count_event(void *ctx, const ms_log_event *event)
{
    (void)ctx;
    if (event->kind != MS_LOG_INDEX_DAMAGE) return;
    index_events++;
    placed_events += event->offset != 0;
}

/* A query that walks back reads it first, and the ones before it in calls of their own. */
TEST(summaries_are_found_when_the_newest_one_is_damaged)
{
    ms_log_desc desc = desc_of(MS_LOG_NEW);
    (void)remove(path);
    desc.segment_size = 8192; /* a summary is written within one */
    ms_store *store = must_open(&desc);
    append_first(store);
    append_segments(store, 97); /* the newest one has the places of the third group */
    while (summaries_of(store) < 3)
        assert_int_equal(append(store, "a message", NULL), MS_OK);
    assert_int_equal(ms__log_of(store)->index.segments.n, 97);
    ms__log *log = ms__log_of(store);
    uint64_t newest = ms__node_entry(&log->index.summaries, 2)->offset;
    ms_close(store);
    flip_at(newest + MS__HEADER + 5, 1);
    desc.mode = MS_LOG_READ;
    desc.events.event = count_event;
    index_events = placed_events = 0;
    store = must_open(&desc);
    assert_int_equal(newest_in(store, "early", 5), 1);
    assert_int_equal(index_events, 1);
    assert_int_equal(placed_events, 1);
    ms_close(store);
}

enum { MANY = 3000 };         /* messages in one segment, half in places of their own */

static void make_many_places(void)
{
    ms_log_desc desc = desc_of(MS_LOG_NEW);
    char name[16];
    (void)remove(path);
    ms_store *store = must_open(&desc);
    for (unsigned i = 0; i < MANY; i++) {
        ms_envelope m = ms_user_message(ms_text("of long ago"));
        snprintf(name, sizeof name, "place_%u", i);
        if (i == 0) m.key = MS_STR("the first one");
        ms_str place = ms_str_of(i % 2 ? name : "early");
        assert_int_equal(ms_append(store, place, &m, NULL, NULL), MS_OK);
    }
    assert_int_equal(ms__segment_write(ms__log_of(store), NULL), MS_OK);
    ms_close(store);
}

static void must_find_many_places(ms_store *store)
{
    char name[16];
    ms_stat stat;
    assert_int_equal(count_in(store, "early"), MANY / 2);
    for (unsigned i = 1; i < MANY; i += 2) {
        snprintf(name, sizeof name, "place_%u", i);
        assert_int_equal(count_in(store, name), 1);
    }
    assert_int_equal(count_in(store, "elsewhere"), 0);
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    assert_int_equal(stat.messages, MANY);
    assert_int_equal(stat.damaged + stat.hidden + stat.changes, 0);
}

/* Each block of a segment index in turn: a reader and a writer, which both need every
 * array, derive the index and find everything; verify reports it. */
TEST(messages_stay_when_a_block_of_their_index_is_damaged)
{
    uint64_t places[8];
    ms_log_desc reading = desc_of(MS_LOG_READ), writing = desc_of(MS_LOG_WRITE);
    ms_log_report report;
    size_t size;
    make_many_places();
    assert_int_equal(index_records(places, 8), 1);
    char *whole = read_file(path, &size);
    assert_non_null(whole);
    uint32_t length = ms__get32((const unsigned char *)whole + places[0]);
    assert_true(length > 8 * 4096);
    for (uint32_t at = MS__HEADER; at < length; at += at < 400 ? 5 : 509) {
        assert_true(write_file(path, whole, size));
        flip_at(places[0] + at, 4);
        assert_int_equal(ms_log_verify(&reading, &report, NULL), MS_E_DAMAGED);
        assert_int_equal(report.index_damaged, 1);
        assert_int_equal(report.damaged, 0);
        for (int writes = 0; writes < 2; writes++) {
            ms_store *store = must_open(writes ? &writing : &reading);
            if (writes) append_first(store);
            else must_find_many_places(store);
            assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
            ms_close(store);
        }
    }
    free(whole);
}

static void count_damage(void *ctx, const ms_log_event *event)
{
    *(size_t *)ctx += event->kind == MS_LOG_DAMAGE;
}

/* No list of the derived index has the message. */
TEST(damage_is_reported_when_a_message_and_its_index_are_damaged)
{
    uint64_t places[8];
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    ms_query q = {.location = MS_STR("early")};
    const ms_msg *msg;
    ms_cursor it;
    size_t n = 0, damage = 0;
    make_many_places();
    ms_store *store = must_open(&desc);
    append_first(store);
    assert_int_equal(append(store, "after", NULL), MS_OK);
    assert_int_equal(ms__segment_write(ms__log_of(store), NULL), MS_OK);
    const ms__segment *l = ms__segment_of(ms__log_of(store), 0, false);
    uint64_t at = ms__segment_offset(l, 1500);
    ms_close(store);
    assert_int_equal(index_records(places, 8), 2);
    flip_at(at + 48, 4);
    flip_at(places[0] + 130, 4);
    desc.mode = MS_LOG_READ;
    desc.events.event = count_damage;
    desc.events.ctx = &damage;
    store = must_open(&desc);
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while (ms_next(&it) != NULL) n++;
    assert_int_equal(it.damaged, 1);
    assert_int_equal(ms_cursor_close(&it, NULL), MS_E_DAMAGED);
    assert_int_equal(n, MANY / 2 - 1);
    assert_int_equal(damage, 1);
    assert_int_equal(ms_get_by_seq(store, 1501, NULL, &msg, NULL), MS_E_DAMAGED);
    ms_close(store);
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
        void *memory = (void *)(uintptr_t)ms__log_at(log, page);
        assert_int_equal(mprotect(memory, 4096, PROT_NONE), 0);
    }
    assert_true(forbidden > 100);
}

/* A query that a damaged summary cannot help reads the segment indexes, and no record of
 * the segments that lack its location. */
TEST(a_query_reads_segment_indexes_alone_when_a_summary_is_damaged)
{
    uint64_t places[400];
    ms_log_desc desc = desc_of(MS_LOG_NEW);
    (void)remove(path);
    desc.segment_size = 32768;
    ms_store *store = must_open(&desc);
    append_first(store);
    append_segments(store, 40);
    assert_int_equal(summaries_of(store), 1);
    ms_close(store);
    size_t n = index_records(places, 400);
    for (size_t i = 0; i < n; i++) {
        unsigned char r[MS__HEADER];
        read_at(places[i], r, sizeof r);
        if (r[5] == MS__INDEX_SUMMARY) flip_at(places[i] + MS__HEADER + 5, 1);
    }
    desc.mode = MS_LOG_WRITE;
    store = must_open(&desc);
    forbid_records(ms__log_of(store), MS__FIRST_RECORD + 4096, 31 * 32768, places, n);
    assert_int_equal(count_in(store, "early"), 1);
    append_first(store);
    ms_close(store);
}

/* Counts the bytes of the file that are in memory; evicted: after they were given up. */
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

static void make_thirty_mebibytes(void)
{
    static char text[600];
    char place[32];
    ms_log_desc desc = desc_of(MS_LOG_NEW);
    memset(text, 'x', sizeof text - 1);
    ms_store *store = must_open(&desc);
    ms_envelope m = ms_user_message(ms_text(text));
    for (int i = 0; i < 45000; i++) {
        snprintf(place, sizeof place, "place %d", i % 1000);
        assert_int_equal(ms_append(store, ms_str_of(place), &m, NULL, NULL), MS_OK);
    }
    ms_close(store);
}

/* From opening a cold file of 30 MiB to the newest 20 of a location few pages are read:
 * the superblock, the newest segment index and some records. */
TEST(few_pages_are_read_when_a_cold_log_is_opened)
{
    char *kept = path, cold_path[64];
    snprintf(cold_path, sizeof cold_path, "build/cold-%ld.msl", (long)getpid());
    path = cold_path; /* other files are in memory, this one is not */
    ms_log_desc desc = desc_of(MS_LOG_READ);
    (void)remove(path);
    make_thirty_mebibytes();
    bool cold = bytes_in_memory(true) == 0;
    size_t n = 0, read = 0;
    if (cold) {
        ms_store *store = must_open(&desc);
        n = newest_in(store, "place 7", 20);
        read = bytes_in_memory(false);
        ms_close(store);
    }
    (void)remove(path);
    path = kept;
    if (!cold) printf("skipped: this file system keeps files in memory\n");
    if (!cold) skip();
    printf("tally: KiB of a cold log read until its first answer %zu\n", read / 1024);
    assert_int_equal(n, 20);
    assert_true(read < 1024 * 1024);
}

/* ---- damage that other handles, or later records, depend on ---- */

/* Damages the postings of a segment's index, which no opening reads. */
static void flip_postings(unsigned segment, uint64_t at)
{
    ms_log_desc desc = desc_of(MS_LOG_READ);
    ms_store *store = must_open(&desc);
    ms__log *log = ms__log_of(store);
    const ms__segment *l = ms__segment_of(log, segment, false);
    assert_non_null(l);
    at += l->offset + (uint64_t)(l->posting - ms__log_at(log, l->offset));
    ms_close(store);
    flip_at(at, 8);
}

/* Each query is the first one of its handle. */
static void must_find_by_number(uint64_t seq, uint64_t all)
{
    ms_log_desc desc = desc_of(MS_LOG_READ);
    for (unsigned how = 0; how < 3; how++) {
        ms_query q = {.location = MS_STR("loc0"), .limit = how == 2 ? 5 : 0};
        ms_cursor it;
        const ms_msg *msg;
        uint64_t n = 0, last = 0;
        if (how == 0) q.after_seq = seq;
        else q.before_seq = seq;
        ms_store *store = must_open(&desc);
        assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
        while ((msg = ms_next(&it)) != NULL) n++, last = ms_seq(msg);
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
        ms_close(store);
        assert_int_equal(n, how == 0 ? (all - seq) / 2 : how == 1 ? seq / 2 : 5);
        assert_int_equal(last, how == 0 ? all - 1 : (seq - 2) | 1);
    }
}

/* The places of a query come from one index, and its lists from another one, which is
 * derived meanwhile. */
TEST(queries_by_number_are_whole_when_indexes_in_a_row_are_damaged)
{
    enum { ALL = 3000 };
    ms_log_desc desc = desc_of(MS_LOG_NEW);
    ms_log_info info;
    size_t size;
    (void)remove(path);
    desc.segment_size = 65536;
    ms_store *store = must_open(&desc);
    for (unsigned i = 0; i < ALL; i++) {
        char name[16];
        ms_envelope m = ms_user_message(ms_text("text"));
        snprintf(name, sizeof name, "loc%u", i % 2 ? i : 0);
        assert_int_equal(ms_append(store, ms_str_of(name), &m, NULL, NULL), MS_OK);
    }
    assert_int_equal(ms__segment_write(ms__log_of(store), NULL), MS_OK);
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    assert_int_equal(info.segments, 3);
    ms_close(store);
    char *whole = read_file(path, &size);
    assert_non_null(whole);
    for (uint64_t at = 40; at < 4000; at += 990) {
        assert_true(write_file(path, whole, size));
        flip_postings(1, at);
        flip_postings(2, at);
        for (uint64_t seq = 100; seq < ALL; seq += 97) must_find_by_number(seq, ALL);
    }
    free(whole);
}

/* Another writer finds the newest index damaged, and makes other segments from there. */
TEST(an_open_reader_is_whole_or_has_an_error_when_segments_are_made_again)
{
    ms_log_desc reading = desc_of(MS_LOG_READ), desc = desc_of(MS_LOG_NEW);
    uint64_t places[64];
    size_t reported = 0;
    (void)remove(path);
    desc.segment_size = 4096;
    ms_store *store = must_open(&desc);
    append_segments(store, 5);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(append(store, "in the tail", NULL), MS_OK);
    ms_close(store);
    ms_store *reader = must_open(&reading);
    size_t all = count_in(reader, "");
    flip_at(places[index_records(places, 64) - 1] + 130, 4);
    desc.mode = MS_LOG_WRITE;
    store = must_open(&desc);
    for (unsigned i = 1; i <= 400; i++) {
        ms_cursor it;
        ms_query q = {.limit = 0};
        size_t n = 0;
        assert_int_equal(append(store, "by another writer", NULL), MS_OK);
        ms_result code = ms_query_open(reader, &q, &it, NULL);
        reported += code == MS_E_CONFLICT;
        if (code == MS_E_CONFLICT) continue;
        assert_int_equal(code, MS_OK);
        while (ms_next(&it) != NULL) n++;
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
        assert_int_equal(n, all + i);
    }
    assert_true(reported > 0);
    ms_close(reader);
    assert_int_equal(count_in(store, ""), all + 400);
    ms_close(store);
    reader = must_open(&reading);
    assert_int_equal(count_in(reader, ""), all + 400);
    ms_close(reader);
}

/* The summary is made from an index that was derived, without the list of the message. */
TEST(damage_is_reported_when_a_summary_is_made_after_it)
{
    ms_log_desc desc = desc_of(MS_LOG_NEW);
    ms_envelope m = ms_user_message(ms_text("x"));
    ms_query q = {.location = MS_STR("early")};
    ms_cursor it;
    uint64_t places[64], seq;
    const ms_msg *msg;
    (void)remove(path);
    desc.segment_size = MS_LOG_SEGMENT_MIN;
    ms_store *store = must_open(&desc);
    append_segments(store, 3);
    assert_int_equal(ms_append(store, q.location, &m, &seq, NULL), MS_OK);
    append_segments(store, 15);
    assert_int_equal(ms_get_by_seq(store, seq, NULL, &msg, NULL), MS_OK);
    uint64_t at = ms__log_where(ms__log_of(store), ms__bytes(msg));
    ms_close(store);
    assert_true(index_records(places, 64) > 4);
    flip_at(at + 48, 4);
    flip_at(places[3] + 130, 4);
    desc.mode = MS_LOG_WRITE;
    store = must_open(&desc);
    append_segments(store, 20);
    assert_int_equal(summaries_of(store), 1);
    for (unsigned again = 0; again < 2; again++) {
        assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
        assert_null(ms_next(&it));
        assert_int_equal(ms_cursor_close(&it, NULL), MS_E_DAMAGED);
        ms_close(store);
        store = must_open(&desc);
    }
    ms_close(store);
}

/* A change that is damaged in a sealed segment: messages are as before it. */
/* Its segment is derived: what is damaged is in no list. */
TEST(a_window_of_one_damaged_message_is_reported_beside_a_damaged_index)
{
    for (int first = 0; first < 2; first++) {
        ms_log_desc desc = desc_of(MS_LOG_NEW);
        uint64_t places[64], seq;
        ms_cursor it;
        (void)remove(path);
        desc.segment_size = MS_LOG_SEGMENT_MIN;
        ms_store *store = must_open(&desc);
        if (!first) assert_int_equal(append(store, "before", NULL), MS_OK);
        uint64_t at = ms__log_of(store)->end;
        assert_int_equal(append(store, "lost", &seq), MS_OK);
        assert_int_equal(append(store, "after", NULL), MS_OK);
        append_segments(store, 2);
        ms_close(store);
        assert_true(index_records(places, 64) > 1);
        flip_at(places[0] + MS__HEADER + 5, 1);
        flip_at(at + 48, 4);
        desc.mode = MS_LOG_READ;
        store = must_open(&desc);
        ms_query q = {.after_seq = seq - 1, .before_seq = seq + 1};
        assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
        assert_null(ms_next(&it));
        assert_int_equal(ms_cursor_close(&it, NULL), MS_E_DAMAGED);
        ms_close(store);
    }
}

TEST(queries_report_a_damaged_change_whether_of_a_location_or_of_all)
{
    for (unsigned how = 0; how < 8; how++) {
        ms_log_desc desc = desc_of(MS_LOG_NEW);
        ms_envelope m = ms_user_message(ms_text("old"));
        ms_query q = {.location = ms_str_of(how & 1 ? "room" : NULL)};
        ms_cursor it;
        uint64_t seq;
        (void)remove(path);
        desc.segment_size = MS_LOG_SEGMENT_MIN;
        ms_store *store = must_open(&desc);
        assert_int_equal(ms_append(store, MS_STR("room"), &m, &seq, NULL), MS_OK);
        assert_int_equal(ms_append(store, MS_STR("room"), &m, NULL, NULL), MS_OK);
        uint64_t at = ms__log_of(store)->end;
        m.content = ms_text("new");
        if (how & 2) assert_int_equal(ms_amend(store, seq, &m, NULL), MS_OK);
        else assert_int_equal(ms_hide(store, seq, NULL), MS_OK);
        append_segments(store, 2);
        ms_close(store);
        flip_at(at + (how & 4 ? 16 : 48), 4); /* its header, too */
        desc.mode = MS_LOG_READ;
        store = must_open(&desc);
        assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
        const ms_msg *msg = ms_next(&it);
        assert_true(msg != NULL && ms_str_equal(ms_content(msg).text, MS_STR("old")));
        /* what it was about is not shown where that is known */
        assert_int_equal(ms_seq(msg), how & 4 ? 1 : 2);
        while (ms_next(&it) != NULL) {}
        assert_int_equal(it.damaged, 1);
        assert_int_equal(ms_cursor_close(&it, NULL), MS_E_DAMAGED);
        ms_close(store);
    }
}

/* The last record of a batch is damaged; the next record is of another location. */
TEST(a_damaged_batch_keeps_its_location_when_a_rewrite_follows_it)
{
    for (unsigned amends = 0; amends < 2; amends++) {
        ms_log_desc desc = desc_of(MS_LOG_NEW);
        ms_envelope m[2];
        uint64_t first, seqs[2];
        const ms_msg *msg;
        ms_store *fresh;
        bool more = true;
        ms_append_opts opts = {.location = MS_STR("a"), .seqs = seqs};
        (void)remove(path);
        m[0] = m[1] = ms_user_message(ms_text("x"));
        ms_store *store = must_open(&desc);
        ms_rewrite w = {.source = store, .to = &desc, .replace = true};
        assert_int_equal(ms_append(store, MS_STR("b"), m, &first, NULL), MS_OK);
        while (more) assert_int_equal(ms_rewrite_run(&w, 0, &more, NULL), MS_OK);
        assert_int_equal(ms_append_batch(store, m, 2, &opts, NULL), MS_OK);
        assert_int_equal(ms_get_by_seq(store, seqs[1], NULL, &msg, NULL), MS_OK);
        uint64_t at = ms__log_where(ms__log_of(store), ms__bytes(msg));
        if (amends) assert_int_equal(ms_amend(store, first, m, NULL), MS_OK);
        else assert_int_equal(ms_note(store, first, MS_STR("k"), ms_text("1"), NULL), MS_OK);
        flip_at(at + 16, 4);
        assert_int_equal(ms_rewrite_run(&w, 0, &more, NULL), MS_OK);
        assert_int_equal(ms_rewrite_end(&w, &fresh, NULL), MS_E_DAMAGED);
        assert_int_equal(count_in(fresh, "a"), 1);
        assert_int_equal(count_in(fresh, "b"), 1);
        ms_close(fresh);
        ms_close(store);
    }
}

/* Facts that are set beside a rewrite which leaves their location out. */
TEST(a_rewrite_leaves_out_facts_of_a_location_that_is_not_kept)
{
    ms_log_desc desc = desc_of(MS_LOG_NEW);
    ms_str a = MS_STR("a"), b = MS_STR("b"), facts;
    ms_keep keep = {.locations = &a, .n_locations = 1};
    ms_envelope m = ms_user_message(ms_text("x"));
    ms_arena arena;
    ms_store *fresh;
    memset(&arena, 0, sizeof arena);
    (void)remove(path);
    ms_store *store = must_open(&desc);
    ms_rewrite w = {.source = store, .to = &desc, .replace = true, .keep = &keep};
    assert_int_equal(ms_append(store, a, &m, NULL, NULL), MS_OK);
    assert_int_equal(ms_append(store, b, &m, NULL, NULL), MS_OK);
    for (bool more = true; more;)
        assert_int_equal(ms_rewrite_run(&w, 0, &more, NULL), MS_OK);
    assert_int_equal(ms_location_set(store, a, MS_STR("{\"n\":1}"), NULL), MS_OK);
    assert_int_equal(ms_location_set(store, b, MS_STR("{\"n\":2}"), NULL), MS_OK);
    for (bool more = true; more;)
        assert_int_equal(ms_rewrite_run(&w, 0, &more, NULL), MS_OK);
    assert_int_equal(ms_rewrite_end(&w, &fresh, NULL), MS_OK);
    ms_close(store);
    assert_int_equal(ms_location_get(fresh, a, &arena, &facts, NULL), MS_OK);
    assert_true(ms_str_equal(facts, MS_STR("{\"n\":1}")));
    assert_int_equal(ms_location_get(fresh, b, &arena, &facts, NULL), MS_OK);
    assert_true(ms_str_equal(facts, MS_STR("{}")));
    ms_arena_deinit(&arena);
    ms_close(fresh);
}

/* A writer appends to a file that is open for salvage, or has just begun to. */
TEST(salvage_replaces_no_file_that_has_more_since)
{
    enum { NOTHING, ONE, BEGUN, CASES };
    ms_log_desc desc = desc_of(MS_LOG_NEW), reading = desc_of(MS_LOG_READ);
    ms_copy_report report;
    reading.opening = MS_OPEN_SALVAGE;
    for (unsigned more = NOTHING; more < CASES; more++) {
        (void)remove(path);
        desc.mode = MS_LOG_NEW;
        ms_store *store = must_open(&desc);
        assert_int_equal(append(store, "before", NULL), MS_OK);
        ms_close(store);
        ms_store *salvage = must_open(&reading);
        desc.mode = MS_LOG_WRITE;
        store = must_open(&desc);
        if (more == ONE) assert_int_equal(append(store, "after", NULL), MS_OK);
        ms_close(store);
        if (more == BEGUN) {
            craft c = craft_of();
            ms__writer_line w;
            assert_true(ms__writer_decode(&w, c.super));
            w.epoch++;
            ms__writer_encode(&w, c.super + MS__AT_WRITER);
            write_at(0, c.super, sizeof c.super);
        }
        assert_int_equal(ms_log_rewrite(salvage, &desc, true, NULL, &report, NULL),
                         more ? MS_E_CONFLICT : MS_OK);
        ms_close(salvage);
        store = must_open(&desc);
        assert_int_equal(count_in(store, ""), 1 + (more == ONE));
        ms_close(store);
    }
}

TEST(salvage_of_an_empty_file_replaces_none_that_has_messages_since)
{
    ms_log_desc desc = desc_of(MS_LOG_CREATE), reading = desc_of(MS_LOG_READ);
    ms_copy_report report;
    reading.opening = MS_OPEN_SALVAGE;
    for (unsigned i = 0; i < 8; i++) { /* empty, or begun by a process that was killed */
        const off_t sizes[] = {0, 1, 100, 5000};
        bool more = i % 2;
        FILE *empty = fopen(path, "wb");
        assert_true(empty != NULL && fclose(empty) == 0);
        assert_int_equal(truncate(path, sizes[i / 2]), 0);
        ms_store *salvage = must_open(&reading);
        if (more) {
            ms_store *store = must_open(&desc);
            assert_int_equal(append(store, "since", NULL), MS_OK);
            ms_close(store);
        }
        ms_result result = ms_log_rewrite(salvage, &desc, true, NULL, &report, NULL);
        assert_int_equal(result, more ? MS_E_CONFLICT : MS_OK);
        ms_close(salvage);
        ms_store *store = must_open(&desc);
        assert_int_equal(count_in(store, ""), more);
        ms_close(store);
    }
}

/* The file becomes shorter, but not its records, between opening and the first append. */
TEST(a_writer_goes_on_when_room_was_cut_off)
{
    ms_log_desc desc = desc_of(MS_LOG_NEW);
    (void)remove(path);
    ms_store *store = must_open(&desc);
    assert_int_equal(append(store, "before", NULL), MS_OK);
    /* Less room, or room that was not synced, would be written again. */
    assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
    uint64_t end = ms__log_of(store)->end;
    ms_close(store);
    assert_int_equal(truncate(path, (off_t)(end + MS__HOLES_MOST + 65536)), 0);
    desc.mode = MS_LOG_WRITE;
    store = must_open(&desc);
    assert_int_equal(truncate(path, (off_t)end), 0);
    assert_int_equal(append(store, "after", NULL), MS_OK);
    ms_close(store);
    store = must_open(&desc);
    assert_int_equal(count_in(store, ""), 2);
    ms_close(store);
}

/* Salvage shows records that the next writer overwrites, with others of another location. */
TEST(salvage_tells_when_a_writer_overwrites_its_records)
{
    ms_log_desc desc = desc_of(MS_LOG_NEW), reading = desc_of(MS_LOG_READ);
    ms_query q = {.location = MS_STR("a")};
    ms_envelope m = ms_user_message(ms_text("salvaged"));
    ms_cursor it;
    uint64_t torn;
    reading.opening = MS_OPEN_SALVAGE;
    (void)remove(path);
    ms_store *store = must_open(&desc);
    assert_int_equal(ms_append(store, q.location, &m, NULL, NULL), MS_OK);
    torn = ms__log_of(store)->end;
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(ms_append(store, q.location, &m, NULL, NULL), MS_OK);
    ms_close(store);
    craft c = craft_of(); /* as a power loss leaves it */
    memset(c.super + MS__AT_CHECKPOINTS, 0, 1024);
    memset(c.super + MS__AT_HINT, 0, 120);
    memset(c.super + MS__AT_MARK, 0, 8);
    write_at(0, c.super, sizeof c.super);
    flip_at(torn, 16);
    ms_store *salvage = must_open(&reading);
    assert_int_equal(newest_with(salvage, "a", 0, MS_E_DAMAGED), 4);
    desc.mode = MS_LOG_WRITE;
    store = must_open(&desc);
    assert_int_equal(newest_with(salvage, "a", 0, MS_E_DAMAGED), 4);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(ms_append(store, MS_STR("b"), &m, NULL, NULL), MS_OK);
    assert_int_equal(ms_query_open(salvage, &q, &it, NULL), MS_E_CONFLICT);
    ms_close(salvage);
    ms_close(store);
}

int main(void)
{
    filelog_begin();
    return run_all_tests(NULL, NULL);
}
