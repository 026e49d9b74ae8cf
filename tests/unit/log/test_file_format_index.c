/* [file-format] and [log-index]: decoders of parts of a log file. Each takes a part of a
 * real log in which one field is wrong, and has to refuse it. */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"
#include "log_internals.h"

/* One field that is made wrong. */
typedef struct lie {
    const char *what;
    size_t at;
    unsigned size; /* bytes: 1, 4 or 8; 0: nothing is changed */
    uint64_t value;
} lie;

static void put_lie(unsigned char *p, const lie *l)
{
    if (l->size == 1) p[l->at] = (unsigned char)l->value;
    if (l->size == 4) ms__put32(p + l->at, (uint32_t)l->value);
    if (l->size == 8) ms__put64(p + l->at, l->value);
}

static void must(bool expected, bool got, const char *what)
{
    if (expected != got) fail_msg("%s: it is %s", what, got ? "accepted" : "refused");
}

/* A copy of a record with room after it. */
static unsigned char *copy_of(const unsigned char *r)
{
    size_t size = ms__padded(ms__get32(r));
    unsigned char *copy = (unsigned char *)calloc(1, size + 64);
    if (copy == NULL) abort();
    memcpy(copy, r, size);
    return copy;
}


/* ---- the superblock ---- */

/* Fields that are wrong under a right check are in test_file_format. */
TEST(superblock_is_refused_when_a_field_is_wrong)
{
    static const struct {
        lie lie;
        ms_result code;
    } rows[] = {
        {{"nothing", 0, 0, 0}, MS_OK},
        {{"another magic", 0, 1, 'x'}, MS_E_FOREIGN},
        {{"a version that a bit made", 8, 4, 2}, MS_E_DAMAGED},
        {{"a check that does not match", 24, 1, 9}, MS_E_DAMAGED},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        unsigned char super[MS__FIRST_RECORD], id[16] = {1, 2, 3};
        ms__file_id made, read;
        ms_error err;
        ms__file_id_set(&made, id, 5.0);
        ms__super_encode(&made, super);
        put_lie(super, &rows[i].lie);
        ms_result code = ms__super_decode(super, "x.msl", &read, &err);
        if (code != rows[i].code)
            fail_msg("%s: %s, should be %s", rows[i].lie.what, ms_result_text(code),
                     ms_result_text(rows[i].code));
    }
}

TEST(checkpoint_is_ignored_when_a_field_is_wrong)
{
    static const lie lies[] = {
        {"an end inside the superblock", 8, 8, 8184},
        {"an end off the grid", 8, 8, 8193},
        {"the number that nobody can have", 16, 8, UINT64_MAX},
    };
    ms__checkpoint good, read;
    unsigned char p[44];
    memset(&good, 0, sizeof good);
    good.generation = 3;
    good.end = 8192;
    good.seq = 5;
    ms__checkpoint_encode(&good, p);
    must(true, ms__checkpoint_decode(&read, p), "a good checkpoint");
    for (size_t i = 0; i < COUNT(lies); i++) {
        ms__checkpoint_encode(&good, p);
        put_lie(p, &lies[i]);
        must(false, ms__checkpoint_decode(&read, p), "a check that does not match");
        ms__put32(p + 40, ms__crc32c(0, p, 40));
        must(false, ms__checkpoint_decode(&read, p), lies[i].what);
    }
}

TEST(checkpoint_counts_when_it_is_the_newest_whole_one)
{
    static const struct {
        uint64_t a, b; /* generations; 0: that one is not whole */
        uint64_t newest;
    } rows[] = {{0, 0, 0}, {4, 0, 4}, {0, 4, 4}, {5, 4, 5}, {4, 5, 5}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        static unsigned char super[MS__FIRST_RECORD];
        unsigned char *first = super + MS__AT_CHECKPOINTS;
        memset(super, 0, sizeof super);
        ms__checkpoint s = {.end = 8192, .generation = rows[i].a};
        if (s.generation) ms__checkpoint_encode(&s, first);
        s.generation = rows[i].b;
        if (s.generation) ms__checkpoint_encode(&s, first + MS__CHECKPOINT_STEP);
        assert_int_equal(ms__checkpoint_newest(super).generation, rows[i].newest);
    }
}


/* ---- index records ---- */

/* Each lie in a copy of the record must make the decoder refuse it. */
static void must_refuse(const unsigned char *r, uint64_t offset, const lie *lies, size_t n,
                        bool (*decodes)(const unsigned char *r, uint64_t offset))
{
    must(true, decodes(r, offset), "the record as it is");
    for (size_t i = 0; i < n; i++) {
        unsigned char *copy = copy_of(r);
        put_lie(copy, &lies[i]);
        must(false, decodes(copy, offset), lies[i].what);
        free(copy);
    }
}

static bool is_segment(const unsigned char *r, uint64_t offset)
{
    ms__segment l;
    return ms__segment_decode(&l, r, offset);
}

static bool is_summary(const unsigned char *r, uint64_t offset)
{
    ms__summary s;
    return ms__summary_decode(&s, r, offset);
}

static bool is_first_filter(const unsigned char *r, uint64_t offset)
{
    return ms__filter_holds(r, 0, 0);
}

/* Values are other fields of the record, or one more than them. */
TEST(index_record_is_refused_when_a_field_is_wrong)
{
    static const struct {
        unsigned type;
        size_t messages;
        bool (*decodes)(const unsigned char *r, uint64_t offset);
    } rows[] = {{MS__INDEX_SEGMENT, 200, is_segment}, {MS__INDEX_SUMMARY, 2000, is_summary},
                {MS__INDEX_FILTER, 2000, is_first_filter}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t offset;
        ms_store *store = make_log(rows[i].messages);
        const unsigned char *r = index_record(ms__log_of(store), rows[i].type, &offset);
        const lie segment[] = {
            {"another kind", 4, 1, MS__KIND_NOTE},
            {"another type", 5, 1, MS__INDEX_SUMMARY},
            {"less than its fixed part", 0, 4, MS__SEGMENT_FIXED - 8},
            {"a summary that stands after it", 48, 8, offset},
            {"more summaries than there are segments for", 56, 4, 1},
            {"a number of a segment that cannot be", 136, 4, 0x40000000},
            {"the number that nobody can have", 96, 8, UINT64_MAX},
            {"a gap of such a number", 112, 8, UINT64_MAX},
            {"more segments before it than there are", 104, 4, ms__get32(r + 136) + 1},
            {"too many buckets", 216, 4, 27},
            {"postings of three bytes", 220, 4, 3},
            {"a segment that begins after it", 144, 8, offset + 8},
            {"a segment off the grid", 144, 8, MS__FIRST_RECORD + 4},
            {"a segment inside the superblock", 144, 8, MS__FIRST_RECORD - 8},
            {"a size that its counts do not give", 140, 4, ms__get32(r + 140) + 1},
        }, summary[] = {
            {"another kind", 4, 1, MS__KIND_NOTE},
            {"another type", 5, 1, MS__INDEX_FILTER},
            {"less than its fixed part", 0, 4, MS__SUM_FIXED - 8},
            {"a number that its size does not give", 40, 4, ms__get32(r + 40) + 1},
            {"more filters than its size gives", 44, 4, ms__get32(r + 44) + 1},
            {"more filters than there can be", 44, 4, 27},
        }, filter[] = {
            {"another type", 5, 1, MS__INDEX_SUMMARY},
            {"another size", 0, 4, MS__FILTER_SIZE - 8},
            {"another summary", 40, 4, 77},
            {"another place", 44, 4, 1},
        };
        const lie *const lies[] = {segment, summary, filter};
        const size_t n[] = {COUNT(segment), COUNT(summary), COUNT(filter)};
        must_refuse(r, offset, lies[i], n[i], rows[i].decodes);
        end(store);
    }
}

/* In a file of 2^40 bytes its size does not bound the numbers. */
TEST(segment_index_is_refused_when_a_number_is_over_its_limit)
{
    static const struct {
        const char *what;
        uint32_t number, listed;
        bool holds;
    } rows[] = {
        {"the last segment that there can be", MS__SEGMENTS_MOST - 1, 0, true},
        {"a segment after it", MS__SEGMENTS_MOST, 0, false},
        {"a full directory", 100, MS__FAN, true},
        {"a directory with too many places", 100, MS__FAN + 1, false},
    };
    uint64_t offset;
    ms_store *store = make_log(200);
    const unsigned char *r = index_record(ms__log_of(store), MS__INDEX_SEGMENT, &offset);
    for (size_t i = 0; i < COUNT(rows); i++) {
        unsigned char *copy = copy_of(r);
        ms__put32(copy, ms__get32(r) + 8 * (rows[i].listed - ms__get32(r + 104)));
        ms__put32(copy + 104, rows[i].listed);
        ms__put32(copy + 136, rows[i].number);
        must(rows[i].holds, is_segment(copy, (uint64_t)1 << 40), rows[i].what);
        free(copy);
    }
    end(store);
}

TEST(index_record_is_refused_when_it_stands_elsewhere)
{
    static const unsigned types[] = {MS__INDEX_SEGMENT, MS__INDEX_FILTER,
                                     MS__INDEX_SUMMARY};
    ms_store *store = make_log(2000);
    ms__log *log = ms__log_of(store);
    for (size_t i = 0; i < COUNT(types); i++) {
        uint64_t offset;
        unsigned char *copy = copy_of(index_record(log, types[i], &offset));
        must(true, ms__index_holds(&log->id, offset, copy), "an index record");
        must(false, ms__index_holds(&log->id, offset + 8, copy), "another place");
        copy[ms__get32(copy) - 1] ^= 1;
        must(false, ms__index_holds(&log->id, offset, copy), "another body");
        copy[4] = MS__KIND_NOTE;
        must(false, ms__index_holds(&log->id, offset, copy), "another kind");
        copy[4] = MS__KIND_INDEX;
        ms__put32(copy, MS__SUM_FIXED - 8);
        must(false, ms__index_holds(&log->id, offset, copy), "a short one");
        free(copy);
    }
    end(store);
}

TEST(segment_index_has_no_list_when_every_location_has_changed)
{
    ms__segment l = {.width = 4};
    uint64_t none = ms__segment_size(&l);
    l.n_changed = 3;
    assert_int_equal(ms__segment_size(&l), none + 6);
    l.n_changed = UINT32_MAX;
    assert_int_equal(ms__segment_size(&l), none);
}

/* The arrays of a segment index are checked where they are used. */
TEST(segment_index_leads_nowhere_when_its_arrays_are_wrong)
{
    uint64_t offset;
    ms__segment l;
    ms__run run;
    uint32_t all = UINT32_MAX;
    ms_store *store = make_log(200);
    ms__log *log = ms__log_of(store);
    unsigned char *copy = copy_of(index_record(log, MS__INDEX_SEGMENT, &offset));
    assert_true(ms__segment_decode(&l, copy, offset));
    uint64_t list = ms__segment_list(&l, 0);
    l.sound = &all; /* as if its checks were right */
    l.placed = 1;
    assert_true(ms__segment_find(log, &l, list, &run) && run.n > 0 && !run.mixed);
    assert_true(ms__segment_find(log, &l, list ^ 8, &run) && run.n == 0);
    ms__put(l.begin, 0, 2);
    ms__put(l.begin, 1, 1);
    must(false, ms__segment_find(log, &l, list, &run), "a list that ends before it begins");
    ms__put(l.begin, 1, l.postings + 1);
    must(false, ms__segment_find(log, &l, list, &run), "a list that ends after the last");
    for (uint32_t b = 0; b <= (uint32_t)1 << l.bits; b++)
        ms__put(l.bucket, b, b == 0 ? 0 : l.lists + 1);
    must(false, ms__segment_find(log, &l, list & UINT64_MAX >> l.bits, &run),
         "a bucket of too many lists");
    assert_int_equal(ms__segment_offset(&l, 0), l.base + 8 * ms__get32(l.record));
    assert_int_equal(ms__segment_offset(&l, l.n), 0);
    ms__put(l.record, 0, (uint32_t)(offset / 8)); /* after the index */
    assert_int_equal(ms__segment_offset(&l, 0), 0);
    free(copy);
    end(store);
}

/* Two messages are exchanged in one of the two orders of a clustered segment, or a record
 * stands after it; its checks are right, but for those of blocks where a reader derives
 * it. */
TEST(clustered_segment_is_found_wrong_when_its_order_is_not_that_of_the_numbers)
{
    for (int which = 0; which < 4; which++) {
        uint64_t offset;
        ms__segment l;
        ms_log_report report;
        ms_log_desc desc = desc_of(MS_LOG_CREATE);
        ms_store *store = make_log(200);
        disk_compact(&drive, store, &desc);
        store = open_log(MS_LOG_READ);
        ms__log *log = ms__log_of(store);
        const unsigned char *r = index_record(log, MS__INDEX_SEGMENT, &offset);
        unsigned char *copy = copy_of(r);
        assert_true(ms__segment_decode(&l, copy, offset) && l.clustered == 1);
        const unsigned char *array = which == 1 ? l.order : l.number_of;
        uint32_t first = ms__get32(array), second = ms__get32(array + 4);
        bool swapped = which == 1 || which == 2;
        if (swapped) ms__put(array, 0, second);
        if (swapped) ms__put(array, 1, first);
        if (which == 3) ms__put(l.record, 7, (uint32_t)(offset / 8));
        for (uint32_t b = 0; swapped && b < l.blocks; b++)
            ms__put(l.checks, b, ms__segment_block(&l, b));
        ms__put(l.checks, l.blocks, ms__segment_front(&log->id, offset, &l));
        ms__seal_at(log->id.crc, offset, copy);
        memcpy(drive.rw + offset, copy, ms__padded(ms__get32(copy)));
        free(copy);
        ms_close(store);
        desc.mode = MS_LOG_READ;
        assert_int_equal(ms_log_verify(&desc, &report, NULL),
                         which > 0 ? MS_E_DAMAGED : MS_OK);
        assert_int_equal(report.index_damaged, which > 0);
        assert_int_equal(report.messages, 200);
    }
}

/* Two locations whose hashes agree share a posting list. Here the tail has the hash of
 * place_0 for place_1, too, when its segment index is made. */
TEST(location_has_only_its_own_messages_when_its_list_is_shared)
{
    begin();
    ms_log_desc desc = desc_of(MS_LOG_CREATE);
    desc.segment_size = 8192;
    ms_store *store = open_with(&desc);
    say_some(store, 42);
    ms__log *log = ms__log_of(store);
    ms__loc *places[2] = {NULL, NULL};
    ms__loc *l = ms__loc_at(log->core.tail->names.linked[MS__LOCS].first);
    for (; l != NULL; l = ms__loc_at(l->name.node.next)) {
        if (ms_str_equal(l->name.text, MS_STR("place_0"))) places[0] = l;
        if (ms_str_equal(l->name.text, MS_STR("place_1"))) places[1] = l;
    }
    assert_true(places[0] != NULL && places[1] != NULL);
    places[1]->name.node.hash = places[0]->name.node.hash;
    size_t own = 6;
    for (; log->index.segments.n == 0; own++) say(store, "place_0", NULL);
    assert_int_equal(count_all(store, query_at("place_0"), MS_OK), own);
    end(store);
}

/* 24 lists in each of 32 segments: what was added is found, of others 1 in 100 seems so. */
TEST(filter_finds_what_was_added_and_little_else)
{
    unsigned char r[MS__FILTER_SIZE];
    uint64_t rng = 7;
    size_t wrong = 0, asks = 0;
    memset(r, 0, sizeof r);
    for (unsigned c = 0; c < MS__FAN; c++)
        for (unsigned i = 0; i < MS__ROW_LISTS; i++)
            ms__filter_put(r, ms__list_number(test_random(&rng), i % 8), c);
    rng = 7;
    for (unsigned c = 0; c < MS__FAN; c++)
        for (unsigned i = 0; i < MS__ROW_LISTS; i++, asks++) {
            uint64_t h = test_random(&rng);
            assert_true(ms__filter_get(r, ms__list_number(h, i % 8)) >> c & 1);
            /* another kind of the same name is another list */
            wrong += ms__filter_get(r, ms__list_number(h, (i + 1) % 8)) >> c & 1;
        }
    assert_true(wrong <= asks / 33);
}

int main(void)
{
    return run_inside_tests();
}
