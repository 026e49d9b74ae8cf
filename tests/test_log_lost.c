/* LOST records, and damage that is counted: what a file lacks every later handle reports,
 * and each segment index carries the count. */

#define _GNU_SOURCE
#include "log_bytes.h"

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
    must_give(MS_OK, ms_query_open(store, &all, &it, NULL));
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
        for (int i = 0; i < 2; i++) {
            s->log.opening = i ? MS_OPEN_SALVAGE : MS_OPEN_NORMAL;
            log_open_as(s, MS_LOG_READ);
            handle_must_report(s->store, i ? &some : h, n, i ? "salvage" : "a reader");
            log_close(s);
        }
        s->log.opening = MS_OPEN_STRICT;
        must_give(MS_E_DAMAGED, log_try(s, MS_LOG_READ, NULL));
        s->log.opening = MS_OPEN_NORMAL;
        must_give(MS_E_DAMAGED, ms_log_verify(&s->log, &report, NULL));
        must_count_harm(h, report.damaged, report.damaged_bytes, "verify");
        assert_int_equal(report.messages, n);
    }
    nothing_changed("a file with damage", s, &before);
    boot_now = 1001;
    log_open_as(s, MS_LOG_WRITE);
    handle_must_report(s->store, h, n, "a writer");
    log_close(s);
}

/* Writers go on for several segments. */
static void must_report_for_long(test_store *s, const harm *h, size_t n)
{
    char text[501];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    uint64_t segments = 0;
    must_report(s, h, n);
    for (int round = 0; segments < 12; round++) {
        log_open_as(s, MS_LOG_WRITE);
        for (int i = 0; i < 1 + round * 3; i++, n++) append_text(s->store, text);
        handle_must_report(s->store, h, n, "the writer");
        segments = log_info_of(s->store).segments;
        log_close(s);
        must_report(s, h, n);
    }
}

/* The file had been durable up to `end`, which is after this record. */
static void built_lost(built *b, uint64_t end)
{
    file_put64(b->bytes + b->len + FILE_HEADER, end);
    file_put64(b->bytes + b->len + FILE_HEADER + 8, 0);
    built_record(b, FILE_KIND_LOST, 0, MS_FLAG_COMMIT, 0, INT64_MIN, 16);
}

static void a_lost_record_is_damage_to_every_later_handle(void **state)
{
    static built b;
    (void)state;
    for (int writer = 0; writer < 2; writer++) {
        harm h = {1, 1000, true};
        built_begin(&b);
        built_text(&b, MS_FLAG_COMMIT, 1, "one");
        built_lost(&b, b.len + h.bytes);
        built_text(&b, MS_FLAG_COMMIT, 4, "four");
        if (writer) built_writer(&b);
        test_store s = built_store(&b);
        ms_os os = machine();
        s.log.os = &os;
        must_report_for_long(&s, &h, 2);
        store_close(&s);
    }
}

/* Events of damage are expected. */
static test_store damaged_log(ms_os *os, size_t n)
{
    test_store s = log_at(4096, MS_ENGINE_AUTO);
    *os = machine();
    s.log.os = os;
    s.log.events.event = NULL;
    log_open(&s);
    for (size_t i = 0; i < n; i++) append_text(s.store, "a message of the log");
    log_close(&s);
    s.log.mode = MS_LOG_WRITE;
    return s;
}

/* Truncates a closed, durable log inside of record k, or before it. Returns the record;
 * *end: where the log ended. */
static parsed truncate_at(const test_store *s, size_t k, size_t inside, uint64_t *end)
{
    size_t size;
    char *bytes = file_of(s, &size);
    walk w = walk_of(bytes, size, false);
    parsed record = w.records[k];
    *end = w.end;
    assert_int_equal(newest_slot(&w).end, w.end);
    assert_int_equal(newest_slot(&w).seq, w.n_records);
    walk_free(&w);
    free(bytes);
    assert_int_equal(truncate(s->path, (off_t)(record.offset + inside)), 0);
    return record;
}

/* Where the first LOST record stands, and the end that it has. */
static uint64_t find_lost(const test_store *s, uint64_t *end)
{
    walk w;
    size_t size;
    char *bytes = file_of(s, &size);
    uint64_t at = 4096;
    memset(&w, 0, sizeof w);
    w.bytes = (const unsigned char *)bytes;
    w.size = w.end = size;
    w.id = w.bytes + 24;
    while (at + 48 <= size && (w.bytes[at + 4] != FILE_KIND_LOST || !is_record(&w, at)))
        at += 8;
    if (at + 48 > size) fail_msg("no LOST record");
    *end = file_get64(w.bytes + at + FILE_HEADER);
    free(bytes);
    return at;
}

/* Before one of its messages, or inside of its header, or of its body, whose header then
 * shows an end after the end of the file. */
static void a_truncated_file_gets_a_lost_record_when_a_writer_goes_on(void **state)
{
    static const size_t keep[] = {99, 70, 3, 50}, inside[] = {0, 24, 40};
    (void)state;
    for (size_t i = 0; i < 12; i++) {
        ms_os os;
        test_store s = damaged_log(&os, 100);
        size_t k = keep[i % 4], part = inside[i / 4];
        uint64_t end, lost_end;
        parsed p = truncate_at(&s, k, part, &end);
        uint64_t most = part == 0 ? p.offset : p.offset + p.padded;
        harm h = {1, end - most, part == 0};
        boot_now = 1001 + (uint64_t)i / 2 % 2;
        log_open(&s);
        ms_log_info info = log_info_of(s.store);
        must_count_harm(&h, info.damaged, info.damaged_bytes, "before it is written to");
        assert_int_equal(info.lost_end, end);
        assert_in_range(info.end, p.offset, most);
        assert_int_equal(append_text(s.store, "new"), 101);
        log_close(&s);
        assert_in_range(find_lost(&s, &lost_end), p.offset, most);
        assert_int_equal(lost_end, end);
        must_report_for_long(&s, &h, k + 1);
        if (part == 0) {
            walk w = walk_counts(&s);
            assert_int_equal(w.damaged, 1);
            assert_int_equal(w.damaged_bytes, h.bytes);
        }
        store_close(&s);
    }
}

/* Whatever a writer appends in the end, later handles report what is missing. */
static void a_lost_record_is_written_when_an_earlier_try_has_failed(void **state)
{
    static const unsigned kinds[] = {TRIP_BIT(WRITE), TRIP_BIT(SYNC), TRIP_BIT(ALLOCATE)};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        for (uint64_t at = 1, hits = 1; hits > 0; at++) {
            ms_os os;
            trip t;
            ms_envelope m = ms_user_message(ms_text("new"));
            uint64_t end;
            size_t n = 10;
            test_store s = damaged_log(&os, 20);
            parsed p = truncate_at(&s, n, 0, &end);
            harm h = {1, end - p.offset, false};
            trip_init(&t, &os);
            s.log.os = &t.os;
            s.log.engine = MS_ENGINE_WRITE;
            log_open(&s);
            trip_at(&t, kinds[i], EIO, false);
            t.at = at;
            for (int k = 0; k < 3; k++)
                n += ms_append(s.store, MS_STR("job"), &m, NULL, NULL) == MS_OK;
            hits = t.hits;
            log_close(&s);
            trip_off(&t);
            must_report(&s, &h, n);
            log_open(&s);
            append_text(s.store, "at last");
            log_close(&s);
            must_report(&s, &h, n + 1);
            store_close(&s);
        }
    }
}

/* A bit of a message in the last segment of a closed log flips, before its segment index
 * was written. */
static void damage_is_counted_in_every_later_segment_index(void **state)
{
    static const size_t counts[] = {3, 20, 120};
    (void)state;
    for (int i = 0; i < 6; i++) {
        ms_os os;
        test_store s = damaged_log(&os, counts[i / 2]);
        size_t size, n = counts[i / 2] + 4;
        s.log.engine = i % 2 ? MS_ENGINE_MAP : MS_ENGINE_WRITE;
        log_open(&s);
        for (int k = 0; k < 4; k++) append_text(s.store, "in the last segment");
        must_give(MS_OK, ms_sync(s.store, NULL, NULL));
        log_close(&s);
        char *bytes = file_of(&s, &size);
        walk w = walk_of(bytes, size, false);
        parsed p = w.records[w.n_records - 2];
        assert_true(p.offset > w.newest_leaf && w.n_records == n);
        harm h = {1, p.padded, true};
        bytes[p.offset + p.size - 3] ^= 4;
        walk_free(&w);
        file_replace(&s, bytes, size);
        free(bytes);
        must_report_for_long(&s, &h, n - 1);
        bytes = file_of(&s, &size);
        uint64_t newest = file_get64((unsigned char *)bytes + 1088);
        const unsigned char *r = (unsigned char *)bytes + newest;
        assert_true(newest > 0 && file_is_leaf(r));
        assert_int_equal(file_get32(r + 100), 1);
        assert_int_equal(file_get64(r + 32), h.bytes);
        free(bytes);
        store_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_record_is_damage_to_every_later_handle),
        cmocka_unit_test(a_truncated_file_gets_a_lost_record_when_a_writer_goes_on),
        cmocka_unit_test(a_lost_record_is_written_when_an_earlier_try_has_failed),
        cmocka_unit_test(damage_is_counted_in_every_later_segment_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
