/* [log-index], [log-find], [log-cursor], [log-list]: sealed segments that are unusual, or
 * whose index records are damaged or lie in one word. Each test reaches into a handle, or
 * into the file that it has open. */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"
#include "log_internals.h"
#include "scratch.h"

static ms__segment *segment_of(ms_store *store, uint32_t i)
{
    ms__log *log = ms__log_of(store);
    ms__lock_acquire(&log->lock);
    const ms__segment *l = ms__segment_of(log, i, true);
    ms__lock_release(&log->lock);
    assert_non_null(l);
    return (ms__segment *)(uintptr_t)l;
}


/* ---- where segments and their indexes stand ---- */

TEST(segment_ends_where_the_next_one_begins)
{
    ms_store *store = make_segments(8);
    ms__log *log = ms__log_of(store);
    ms__segment *four = segment_of(store, 4), *six = segment_of(store, 6);
    ms__segment *seven = segment_of(store, 7);
    ms__lock_acquire(&log->lock);
    assert_int_equal(ms__segment_end(log, 5, four->base), six->base);
    drive.rw[six->offset + 48] ^= 1; /* with its index, where that cannot be read */
    assert_int_equal(ms__segment_end(log, 5, four->base), six->offset);
    drive.rw[six->offset + 48] ^= 1;
    assert_int_equal(ms__segment_end(log, 6, six->base), seven->base);
    assert_int_equal(ms__segment_end(log, 7, seven->base), ms__tail_of(log)->base);
    /* from a place after its records on: at the next index */
    uint64_t kept[2] = {four->offset, ms__node_entry(&log->index.segments, 5)->offset};
    assert_int_equal(ms__segment_end(log, 4, six->offset), six->offset);
    for (uint32_t i = 0; i < 2; i++)
        ms__node_entry(&log->index.segments, 4 + i)->offset = kept[i];
    ms__lock_release(&log->lock);
    finish(store);
}

/* The newest summary is damaged, then also segment indexes after it, then all of them but
 * one. */
TEST(index_records_are_found_when_others_that_list_them_are_damaged)
{
    for (int how = 0; how < 4; how++) {
        uint64_t segment[100], sum[3];
        ms_store *store = make_segments(1);
        ms__log *log = ms__log_of(store);
        while (log->index.segments.n < 100 || log->index.summaries.n < 3)
            say_some(store, 1);
        for (uint32_t i = 0; i < 100; i++) segment[i] = segment_of(store, i)->offset;
        for (uint32_t i = 0; i < 3; i++)
            sum[i] = ms__node_entry(&log->index.summaries, i)->offset;
        ms_query q = query_at("place_1");
        size_t all = count_all(store, q, MS_OK);
        ms_close(store);
        drive.rw[sum[2] + 48] ^= 1;
        if (how > 0) drive.rw[segment[96] + 48] ^= 1;
        if (how > 1) drive.rw[sum[1] + 48] ^= 1;
        for (uint32_t i = 97; how == 3 && i < 99; i++) drive.rw[segment[i] + 48] ^= 1;
        store = open_log(MS_LOG_WRITE);
        log = ms__log_of(store);
        ms__lock_acquire(&log->lock);
        assert_non_null(ms__summary_get(log, 0));
        assert_int_equal(ms__node_entry(&log->index.summaries, 0)->offset, sum[0]);
        assert_non_null(ms__summary_get(log, 0)->filters);
        for (uint32_t i = 0; i < 100; i++) {
            assert_true(ms__segment_find_place(log, i));
            assert_int_equal(ms__node_entry(&log->index.segments, i)->offset, segment[i]);
        }
        ms__lock_release(&log->lock);
        assert_int_equal(count_all(store, q, MS_OK), all);
        say_some(store, 700); /* more than 32 segments: a summary over damage */
        assert_true(log->index.summaries.n > 3);
        assert_int_equal(count_all(store, q, MS_OK), all + 100);
        finish(store);
    }
}

/* Makes a log of so many segments and summaries, and opens it for reading. segment, sum:
 * the places of their records. */
static ms_store *make_places(uint32_t segments, uint32_t summaries, uint64_t *segment,
                             uint64_t *sum)
{
    bool more = true;
    begin();
    ms_log_desc desc = desc_of(MS_LOG_CREATE);
    desc.ticked = true; /* appends leave summaries to a tick */
    ms_store *store = open_with(&desc);
    ms__log *log = ms__log_of(store);
    while (log->index.segments.n < segments) {
        say_some(store, 1);
        while (more && log->index.summaries.n < summaries)
            assert_int_equal(ms__summary_build_step(log, &more, NULL), MS_OK);
        more = true;
    }
    assert_int_equal(log->index.segments.n, segments);
    assert_int_equal(log->index.summaries.n, summaries);
    for (uint32_t i = 0; i < segments; i++)
        segment[i] = ms__node_entry(&log->index.segments, i)->offset;
    for (uint32_t i = 0; i < summaries; i++)
        sum[i] = ms__node_entry(&log->index.summaries, i)->offset;
    ms_close(store);
    return open_log(MS_LOG_READ);
}

/* Damages index records, which the handle has not read yet. */
static void damage_places(const uint64_t *places, uint32_t from, uint32_t upto)
{
    for (uint32_t i = from; i < upto; i++) drive.rw[places[i] + 48] ^= 1;
}

/* One message of seven is in the place. */
static void finish_places(ms_store *store)
{
    assert_int_equal(count_all(store, query_at("place_1"), MS_OK), (said + 5) / 7);
    end(store);
}

/* The log ends with the newest summary, and the segment index before it has the place of
 * the summary before it. */
TEST(summary_is_found_when_a_newer_one_is_damaged_and_nothing_follows)
{
    uint64_t segment[96], sum[3];
    ms_store *store = make_places(96, 3, segment, sum);
    ms__log *log = ms__log_of(store);
    damage_places(sum, 2, 3);
    ms__lock_acquire(&log->lock);
    const ms__summary *first = ms__summary_get(log, 0);
    ms__lock_release(&log->lock);
    assert_true(first != NULL && first->filters != NULL);
    assert_int_equal(ms__node_entry(&log->index.summaries, 0)->offset, sum[0]);
    finish_places(store);
}

TEST(segments_are_derived_when_no_record_has_the_place_of_their_summary)
{
    uint64_t segment[104], sum[2];
    ms_store *store = make_places(104, 2, segment, sum);
    ms__log *log = ms__log_of(store);
    damage_places(sum, 1, 2);
    damage_places(segment, 71, 103);
    ms__lock_acquire(&log->lock);
    const ms__summary *first = ms__summary_get(log, 0);
    assert_true(first != NULL && first->filters == NULL);
    assert_int_equal(ms__node_entry(&log->index.segments, 63)->offset, 0);
    ms__lock_release(&log->lock);
    finish_places(store);
}

/* Nothing that was read has the place; a summary, read later, leads to it. */
TEST(segment_is_found_when_places_between_become_known)
{
    uint64_t segment[101], sum[3];
    ms_store *store = make_places(101, 3, segment, sum);
    ms__log *log = ms__log_of(store);
    const ms__node_table *t = &log->index.segments;
    damage_places(sum, 0, 1);
    damage_places(segment, 64, 100);
    ms__lock_acquire(&log->lock);
    for (int again = 0; again < 2; again++) {
        assert_true(ms__segment_find_place(log, 10));
        assert_int_equal(ms__node_entry(t, 10)->offset, 0);
    }
    assert_true(ms__segment_find_place(log, 50));
    assert_int_equal(ms__node_entry(t, 50)->offset, segment[50]);
    assert_true(ms__segment_find_place(log, 10));
    assert_int_equal(ms__node_entry(t, 10)->offset, segment[10]);
    ms__lock_release(&log->lock);
    finish_places(store);
}

/* Two cursors find the same damaged block. */
TEST(segment_is_derived_once_when_it_is_found_damaged_twice)
{
    ms_store *store = make_segments(5);
    ms__log *log = ms__log_of(store);
    const ms__segment *bad = segment_of(store, 3);
    const ms__segment *derived = ms__segment_mend(log, bad, false);
    assert_true(derived != NULL && derived != bad && derived->own != NULL);
    assert_int_equal(derived->n, bad->n);
    assert_ptr_equal(ms__segment_mend(log, bad, false), derived);
    finish(store);
}

/* A summary is known, or comes before its segments; its place holds another one. */
TEST(summary_is_ignored_when_its_number_is_wrong)
{
    ms__summary s;
    ms_store *store = make_log(0);
    ms__log *log = ms__log_of(store);
    while (log->index.summaries.n < 2) say_some(store, 1);
    uint64_t second = ms__node_entry(&log->index.summaries, 1)->offset;
    size_t all = count_all(store, query_at("place_1"), MS_OK);
    memset(&s, 0, sizeof s);
    for (unsigned i = 0; i < 2; i++) {
        s.number = i == 0 ? 1 : log->index.segments.n / MS__FAN;
        assert_int_equal(ms__apply_summary(log, &s, NULL), MS_OK);
        assert_int_equal(log->index.summaries.n, 2);
        assert_int_equal(ms__node_entry(&log->index.summaries, 1)->offset, second);
    }
    ms_close(store);
    store = open_log(MS_LOG_READ);
    log = ms__log_of(store);
    ms__lock_acquire(&log->lock);
    ms__node_entry(&log->index.summaries, 0)->offset = second;
    const ms__summary *read = ms__summary_load(log, 0);
    ms__lock_release(&log->lock);
    assert_true(read != NULL && read->filters == NULL);
    assert_int_equal(count_all(store, query_at("place_1"), MS_OK), all);
    end(store);
}

/* The newest segment index knows of no summary, and one before it of one. The indexes
 * between are damaged, so that it is asked for the places of the first segments. */
TEST(messages_are_found_when_an_index_has_more_summaries_than_the_newest)
{
    uint64_t places[48];
    ms__segment l;
    ms_close(make_segments(40));
    ms_store *store = open_log(MS_LOG_READ);
    ms__log *log = ms__log_of(store);
    ms__file_id id = log->id;
    uint32_t n = log->index.segments.n;
    assert_true(n < COUNT(places) && log->index.summaries.n == 1);
    for (uint32_t i = 0; i < n; i++) {
        assert_non_null(segment_of(store, i));
        places[i] = ms__node_entry(&log->index.segments, i)->offset;
    }
    size_t all = count_all(store, query_at("place_1"), MS_OK);
    ms_close(store);
    unsigned char *r = drive.rw + places[n - 1];
    memset(&l, 0, sizeof l);
    assert_true(ms__segment_decode(&l, r, places[n - 1]) && l.state.summaries == 1);
    ms__put64(r + 48, 0);
    ms__put32(r + 56, 0);
    assert_true(ms__segment_decode(&l, r, places[n - 1]) && l.listed == MS__FAN);
    ms__put(l.checks, l.blocks, ms__segment_front(&id, places[n - 1], &l));
    ms__seal_at(id.crc, places[n - 1], r);
    for (uint32_t i = n - 1 - MS__FAN; i < n - 2; i++)
        drive.rw[places[i] + MS__HEADER + 8] ^= 1;
    store = open_log(MS_LOG_READ);
    log = ms__log_of(store);
    assert_int_equal(log->index.summaries.n, 0);
    assert_int_equal(count_all(store, query_at("place_1"), MS_OK), all);
    uint32_t first = n - 2 - MS__FAN; /* that the last but one lists */
    assert_int_equal(ms__node_entry(&log->index.segments, first)->offset, places[first]);
    assert_int_equal(log->index.summaries.n, 0);
    end(store);
}

TEST(hint_is_ignored_when_its_segment_index_is_of_the_future)
{
    ms_store *store = make_segments(3);
    ms__log *log = ms__log_of(store);
    ms__file_id id = log->id;
    uint64_t offset = log->index.hint;
    ms_stat stat, again;
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    ms_close(store);
    unsigned char *r = drive.rw + offset, kept[MS__SEGMENT_FIXED];
    ms__segment segment;
    assert_true(ms__segment_decode(&segment, r, offset));
    memcpy(kept, r, sizeof kept);
    ms__put32(r + 136, segment.number + 0x40000000u);
    ms__seal_at(id.crc, offset, r);
    store = open_log(MS_LOG_READ);
    assert_true(ms__log_of(store)->index.segments.n < 10);
    assert_int_equal(ms_store_stat(store, &again, NULL), MS_OK);
    assert_int_equal(again.messages, stat.messages);
    ms_close(store);
    memcpy(r, kept, sizeof kept);
    finish(open_log(MS_LOG_WRITE));
}

/* Another handle has written the summary that this one was about to write. */
TEST(summary_is_begun_anew_when_another_one_is_due)
{
    bool more;
    begin();
    ms_log_desc desc = desc_of(MS_LOG_CREATE);
    desc.ticked = true; /* appends leave summaries to a tick */
    memset(&desc.alloc, 0, sizeof desc.alloc); /* the number below changes a size */
    ms_store *store = open_with(&desc);
    ms__log *log = ms__log_of(store);
    while (log->index.segments.n < MS__FAN) say_some(store, 1);
    ms_close(store);
    store = open_with(&desc);
    log = ms__log_of(store);
    ms__summary_build *j = &log->index.build;
    assert_int_equal(ms__writer_prepare(log, NULL), MS_OK);
    for (unsigned i = 0; i < MS__FAN; i++)
        assert_int_equal(ms__summary_build_step(log, &more, NULL), MS_OK);
    assert_true(j->segments > 0 && more && j->record != NULL);
    j->sum.number = 5;
    assert_int_equal(ms__summary_build_step(log, &more, NULL), MS_OK);
    assert_true(j->segments > 0 && more && j->record == NULL); /* begun anew */
    assert_int_equal(j->sum.number, 0);
    assert_int_equal(j->segments, 1);
    while (more) assert_int_equal(ms__summary_build_step(log, &more, NULL), MS_OK);
    assert_int_equal(log->index.summaries.n, 1);
    finish(store);
}

/* Makes a log of 32 segments without a summary, and a handle that leaves it to ticks. */
static ms_store *make_due(ms_log_desc *desc)
{
    begin();
    *desc = desc_of(MS_LOG_CREATE);
    desc->ticked = true;
    ms_store *store = open_with(desc);
    while (ms__log_of(store)->index.segments.n < MS__FAN) say_some(store, 1);
    assert_int_equal(ms__log_of(store)->index.summaries.n, 0);
    return store;
}

/* Lets each allocation of each step fail. */
TEST(summary_is_written_when_there_is_memory_again)
{
    ms_log_desc desc;
    ms_store *store = make_due(&desc);
    size_t refused = 0;
    ms_close(store);
    store = open_with(&desc);
    ms__log *log = ms__log_of(store);
    assert_int_equal(ms__writer_prepare(log, NULL), MS_OK);
    for (bool more = true; more;) {
        for (size_t k = 1;; k++) {
            heap.calls = heap.failed = 0;
            heap.fail_at = k;
            ms_result code = ms__summary_build_step(log, &more, NULL);
            assert_int_equal(code, heap.failed > 0 ? MS_E_NO_MEMORY : MS_OK);
            if (heap.failed == 0) break;
            refused++;
        }
    }
    heap.fail_at = 0;
    assert_true(refused > MS__FAN + 1); /* segment indexes, the record, its place */
    assert_int_equal(log->index.summaries.n, 1);
    assert_int_equal(count_all(store, query_at("place_1"), MS_OK), (said + 5) / 7);
    finish(store);
}

TEST(reader_takes_in_a_summary_when_there_is_memory_again)
{
    ms_log_desc desc;
    ms_store *store = make_due(&desc), *reader = open_log(MS_LOG_READ);
    bool more = true;
    while (more)
        assert_int_equal(ms__summary_build_step(ms__log_of(store), &more, NULL), MS_OK);
    heap.calls = heap.failed = 0;
    heap.fail_at = 1;
    assert_int_equal(test_refresh(reader, NULL, NULL), MS_E_NO_MEMORY);
    assert_int_equal(heap.failed, 1);
    heap.fail_at = 0;
    assert_int_equal(ms__log_of(reader)->index.summaries.n, 0);
    assert_int_equal(test_refresh(reader, NULL, NULL), MS_OK);
    assert_int_equal(ms__log_of(reader)->index.summaries.n, 1);
    ms_close(reader);
    finish(store);
}

TEST(log_is_opened_when_there_is_memory_for_its_summaries)
{
    ms_store *store = make_log(0);
    ms_log_desc desc = desc_of(MS_LOG_READ);
    ms_result code = MS_E_NO_MEMORY;
    ms__log *log = ms__log_of(store);
    while (log->index.summaries.n < 1) say_some(store, 1);
    for (uint32_t n = log->index.segments.n; log->index.segments.n == n;)
        say_some(store, 1);
    ms_close(store);
    for (size_t k = 1; code != MS_OK; k++) {
        heap.calls = heap.failed = 0;
        heap.fail_at = k;
        code = ms_log_open(&store, &desc, NULL);
        assert_int_equal(code, heap.failed > 0 ? MS_E_NO_MEMORY : MS_OK);
    }
    heap.fail_at = 0;
    assert_int_equal(ms__log_of(store)->index.summaries.n, 1);
    finish(store);
}

/* All writes to that place fail; 0: none. */
static void writes_fail_at(uint64_t place)
{
    traps.how = place > 0 ? OS_FAULT_FAIL : OS_FAULT_NONE;
    traps.kinds = OS_FAULT_BIT(WRITE);
    traps.offset = place;
    traps.at = traps.calls + 1;
    traps.from = true;
    traps.code = ENOSPC;
}

/* A shared writer, which makes room for a segment index, a filter, which is shorter, and
 * an index again, whose watermark cannot be written. */
TEST(summary_is_written_when_there_is_room_again)
{
    ms_log_desc desc;
    bool more = true;
    ms_store *store = make_due(&desc);
    ms_close(store);
    desc.shared = true;
    desc.engine = MS_ENGINE_WRITE;
    store = open_with(&desc);
    ms__log *log = ms__log_of(store);
    say_some(store, 60);
    uint32_t segments = log->index.segments.n;
    assert_true(segments > MS__FAN);
    log->opts.segment_size = MS__SEGMENT_DEFAULT; /* the next one has a long index */
    say_some(store, 400);
    while (!log->index.build.record)
        assert_int_equal(ms__summary_build_step(log, &more, NULL), MS_OK);
    writes_fail_at(log->end);
    assert_int_equal(ms__segment_write(log, NULL), MS_E_FULL);
    writes_fail_at(0);
    uint64_t busy = ms__load_mark(log->map.super + MS__AT_BUSY);
    assert_true(busy > log->end + MS__FILTER_SIZE);
    assert_int_equal(ms__summary_build_step(log, &more, NULL), MS_OK);
    assert_int_equal(log->index.build.filters, 1);
    /* the place was prepared anew, since the write that failed may have stored a part */
    assert_true(ms__load_mark(log->map.super + MS__AT_BUSY) < busy);
    writes_fail_at(MS__AT_MARK);
    assert_int_equal(ms__segment_write(log, NULL), MS_E_FULL);
    assert_int_equal(ms__summary_build_step(log, &more, NULL), MS_E_FULL);
    writes_fail_at(0);
    more = true;
    while (more) assert_int_equal(ms__summary_build_step(log, &more, NULL), MS_OK);
    assert_int_equal(log->index.summaries.n, 1);
    assert_int_equal(log->index.segments.n, segments);
    assert_int_equal(count_all(store, query_at("place_1"), MS_OK), (said + 5) / 7);
    finish(store);
}


/* ---- segments of many records and changes ---- */

TEST(record_is_found_when_a_segment_has_more_than_65536)
{
    enum { MANY = 66000 };
    ms_envelope *batch = (ms_envelope *)calloc(MANY, sizeof *batch);
    assert_non_null(batch);
    ms_close(make_log(1));
    ms_log_desc desc = desc_of(MS_LOG_WRITE);
    desc.segment_size = (size_t)1 << 30;
    ms_store *store = open_with(&desc);
    for (size_t i = 0; i < MANY; i++) {
        batch[i] = ms_user_message(ms_text("x"));
        batch[i].location = i % 3 ? MS_STR("a") : MS_STR("b");
    }
    assert_int_equal(ms_append_batch(store, batch, MANY, NULL, NULL), MS_OK);
    free(batch);
    assert_int_equal(ms__log_of(store)->index.segments.n, 1);
    ms_close(store);
    store = open_log(MS_LOG_READ);
    assert_int_equal(count_all(store, query_at("b"), MS_OK), MANY / 3);
    assert_int_equal(look_up(store, MANY), MS_OK);
    end(store);
}

static struct {
    uint64_t offset, size;    /* of the first call that covers `place` */
    uint64_t place;
} ahead;

static int note_ahead(void *ctx, ms_file file, uint64_t offset, uint64_t size)
{
    if (ahead.size > 0 || offset > ahead.place || ahead.place - offset >= size) return 0;
    ahead.offset = offset;
    ahead.size = size;
    return 0;
}

/* Opens the log, and notes from then on how a place is read ahead. */
static ms_store *open_and_note(ms_log_mode mode, ms_os *os, uint64_t place)
{
    ms_log_desc desc = desc_of(mode);
    *os = traps.os;
    os->read_ahead = note_ahead;
    desc.os = os;
    ms_store *store = open_with(&desc);
    memset(&ahead, 0, sizeof ahead);
    ahead.place = place;
    return store;
}

TEST(records_are_read_ahead_when_a_long_segment_is_walked_in_reverse)
{
    static char text[4001];
    enum { N = 800 };
    ms_os os;
    ms_store *store = make_log(0);
    ms__log *log = ms__log_of(store);
    ms_query q = query_at("place");
    memset(text, 't', sizeof text - 1);
    ms_envelope m = ms_user_message(ms_text(text));
    log->opts.segment_size = MS__SEGMENT_DEFAULT; /* all of it in one */
    for (int i = 0; i < N; i++)
        assert_int_equal(ms_append(store, q.location, &m, NULL, NULL), MS_OK);
    assert_int_equal(ms__segment_write(log, NULL), MS_OK);
    uint64_t before = log->index.hint;
    ms_close(store);
    store = open_and_note(MS_LOG_READ, &os, before - MS__FURTHER / 2);
    q.reverse = true;
    assert_int_equal(count_all(store, q, MS_OK), N);
    assert_int_equal(ahead.size, MS__FURTHER);
    assert_true(ahead.offset > MS__FIRST_RECORD && ahead.offset < ahead.place);
    end(store);
}

static unsigned steps_ahead;

static int count_steps(void *ctx, ms_file file, uint64_t offset, uint64_t size)
{
    if (size == MS__FURTHER) steps_ahead++;
    return 0;
}

/* Each of the sessions, which have a long message between them, begins a walk. */
TEST(a_step_is_read_ahead_once_when_a_log_was_written_session_by_session)
{
    static char text[12001];
    enum { SESSIONS = 300, EACH_HAS = 20 };
    ms_os os;
    ms_store *store = make_log(0);
    ms__log *log = ms__log_of(store);
    ms_query q = query_at("place");
    memset(text, 't', sizeof text - 1);
    log->opts.segment_size = MS__SEGMENT_DEFAULT; /* all of it in one */
    for (int i = 0; i < SESSIONS; i++) {
        ms_envelope m = ms_user_message(ms_text("short"));
        for (int k = 0; k < EACH_HAS; k++)
            assert_int_equal(ms_append(store, q.location, &m, NULL, NULL), MS_OK);
        m = ms_user_message(ms_text(text));
        assert_int_equal(ms_append(store, MS_STR("elsewhere"), &m, NULL, NULL), MS_OK);
    }
    assert_int_equal(ms__segment_write(log, NULL), MS_OK);
    unsigned steps = (unsigned)(log->index.hint / MS__STEP) + 1;
    assert_true(steps > 3);
    ms_close(store);
    store = open_and_note(MS_LOG_READ, &os, 0);
    os.read_ahead = count_steps;
    steps_ahead = 0;
    assert_int_equal(count_all(store, q, MS_OK), SESSIONS * EACH_HAS);
    assert_int_equal(steps_ahead, steps);
    end(store);
}

/* A segment of 7000 keys needs many filters. */
TEST(summary_is_read_ahead_when_it_is_longer_than_a_page)
{
    enum { KEYS = 7000 };
    static char keys[KEYS][8];
    static ms_envelope batch[KEYS];
    ms_os os;
    ms_store *store = make_log(0);
    ms__log *log = ms__log_of(store);
    uint64_t seq = 0;
    ms_append_opts opts = {.location = MS_STR("place")};
    for (int i = 0; i < KEYS; i++) {
        snprintf(keys[i], sizeof keys[i], "k%d", i);
        batch[i] = ms_user_message(ms_text("x"));
        batch[i].key = ms_str_of(keys[i]);
    }
    assert_int_equal(ms_append_batch(store, batch, KEYS, &opts, NULL), MS_OK);
    while (log->index.summaries.n < 1) say_some(store, 1);
    uint64_t place = ms__node_entry(&log->index.summaries, 0)->offset;
    assert_true(ms__get32(ms__log_at(log, place)) > 4096);
    ms_close(store);
    store = open_and_note(MS_LOG_WRITE, &os, place);
    assert_int_equal(ms_append(store, opts.location, &batch[41], &seq, NULL), MS_OK);
    assert_int_equal(ahead.offset, place);
    assert_true(ahead.size > 4096);
    assert_int_equal(seq, 42); /* the key is known */
    end(store);
}

TEST(changes_are_looked_at_when_a_segment_lists_too_many_locations)
{
    ms_store *store = make_log(20);
    ms__log *log = ms__log_of(store);
    for (uint32_t i = 0; i <= MS__BLOOM_MOST; i++) assert_true(ms__bloom_set(log, i * 7));
    say_some(store, 300); /* indexes that list none: every location counts */
    assert_int_equal(ms_hide(store, 5, NULL), MS_OK);
    say_some(store, 300);
    assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
    ms_close(store);
    store = open_log(MS_LOG_READ);
    assert_int_equal(ms__log_of(store)->edits.n_bloom, MS__BLOOM_BITS);
    assert_int_equal(look_up(store, 4), MS_OK);
    assert_int_equal(look_up(store, 5), MS_E_NOT_FOUND);
    end(store);
}

static void same_number(ms__node *node, uint64_t number)
{
    for (; node != NULL; node = (ms__node *)node->next) node->hash = number;
}

/* Two locations, two agents and twenty keys whose hashes are made the same. */
TEST(names_are_told_apart_when_their_hashes_are_equal)
{
    static const char *const places[] = {"first", "second"};
    ms_store *store = make_log(1);
    ms__log *log = ms__log_of(store);
    ms_arena arena;
    ms_listing got;
    uint64_t seq = 0, hidden;
    log->opts.segment_size = MS__SEGMENT_DEFAULT; /* all of it in one */
    assert_int_equal(ms__segment_write(log, NULL), MS_OK);
    for (int i = 0; i < 20; i++) {
        ms_envelope m = ms_user_message(ms_text(i % 2 ? "2" : "1"));
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        m.key = ms_str_of(key);
        m.agent_key = i % 4 < 2 ? MS_STR("x") : MS_STR("y");
        m.has_time = i > 3;
        m.time_ns = SECONDS(100 - i);
        assert_int_equal(ms_append(store, ms_str_of(places[i % 2]), &m, NULL, NULL),
                         MS_OK);
    }
    ms__tail *t = ms__tail_of(log);
    uint64_t place = ms__hash_location(&log->id, MS_STR("first"));
    same_number(t->names.linked[MS__LOCS].first, place);
    same_number(t->names.linked[MS__AGENTS].first,
                ms__name_hash(&t->names, MS__AGENTS, place, MS_STR("x")));
    same_number(t->names.linked[MS__KEYS].first,
                ms__name_hash(&t->names, MS__KEYS, place, MS_STR("k0")));
    assert_int_equal(ms__segment_write(log, NULL), MS_OK);
    ms_query q = query_at("first");
    ms_cursor it;
    size_t n[2] = {0, 0};
    for (int agent = 0; agent < 2; agent++) {
        q.views = agent == 1 ? MS_VIEW_AGENT : MS_VIEW_TIMELINE;
        q.agent_key = MS_STR("x");
        q.agent_types = MS_TYPES_ALL;
        assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
        for (const ms_msg *msg; (msg = ms_next(&it)) != NULL; n[agent]++) {
            assert_true(ms_str_equal(ms_content(msg).text, MS_STR("1")));
            if (agent == 1) assert_true(ms_str_equal(test_agent_key(msg), MS_STR("x")));
        }
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    }
    assert_int_equal(n[0], 10);
    assert_int_equal(n[1], 5);
    test_arena_init(&arena, NULL);
    assert_int_equal(ms_list(store, NULL, &arena, &got, NULL), MS_OK);
    ms_arena_deinit(&arena);
    ms_envelope m = ms_user_message(ms_text("1"));
    m.key = MS_STR("k0");
    m.agent_key = MS_STR("x");
    assert_int_equal(ms_append(store, MS_STR("first"), &m, &seq, NULL), MS_OK);
    assert_int_equal(seq, 2); /* the key is known */
    ms_append_opts opts = {.location = MS_STR("first"), .expect = true};
    opts.expect_seq = 20; /* the last of the two is of the other one */
    assert_int_equal(ms_append_batch(store, &m, 1, &opts, NULL), MS_OK);
    assert_int_equal(ms_hide_range(store, MS_STR("first"), 1, 100, &hidden, NULL), MS_OK);
    assert_int_equal(hidden, 10);
    end(store);
}

/* A posting in the middle of a location's list names a record that is no message. */
TEST(posting_is_damage_when_it_names_another_kind_of_record)
{
    uint64_t offset;
    ms__segment l;
    ms__run run;
    uint32_t note = 0, all = UINT32_MAX;
    ms_store *store = make_log(0);
    ms__log *log = ms__log_of(store);
    ms_query q = query_at("place_1");
    q.views = 0;
    log->opts.segment_size = MS__SEGMENT_DEFAULT; /* all of it in one */
    say_some(store, 10);
    assert_int_equal(ms_note(store, 3, MS_STR("k"), ms_text("v"), NULL), MS_OK);
    say_some(store, 15);
    assert_int_equal(ms__segment_write(log, NULL), MS_OK);
    unsigned char *r = writable(index_record(log, MS__INDEX_SEGMENT, &offset));
    assert_true(ms__segment_decode(&l, r, offset));
    while (drive.ro[ms__segment_offset(&l, note) + 4] != MS__KIND_NOTE) note++;
    l.sound = &all; /* as if its checks were right */
    uint64_t list =
        ms__list_number(ms__hash_location(&log->id, q.location), MS__P_LOCATION);
    assert_true(ms__segment_find(log, &l, list, &run) && run.n > 2);
    size_t before = count_all(store, q, MS_OK);
    unsigned char *p = (unsigned char *)(uintptr_t)run.at + l.width;
    p[0] = (unsigned char)note;
    p[1] = 0;
    ms__seal_at(log->id.crc, offset, r);
    assert_int_equal(count_all(store, q, MS_E_DAMAGED), before - 1);
    p[0] = p[1] = 0xff; /* no record at all */
    ms__seal_at(log->id.crc, offset, r);
    assert_int_equal(count_all(store, q, MS_E_DAMAGED), before - 1);
    end(store);
}


/* ---- changes of what is damaged, or gone ---- */

TEST(change_fails_when_its_message_is_damaged)
{
    ms_store *store = make_log(9);
    ms__log *log = ms__log_of(store);
    ms_record change = {.envelope = ms_user_message(ms_text("new words")),
                        .kind = MS_KIND_AMEND};
    ms_append_opts opts;
    ms__sought f;
    ms_result result = MS_OK;
    drive.rw[tail_record_at(log, 4) + 9] ^= 1;
    assert_null(ms__record_by_seq(&log->core, log->core.tail, log->core.tail->end, 5,
                                  false, &f, &result));
    memset(&opts, 0, sizeof opts);
    change.envelope.location = MS_STR("place_1");
    change.envelope.seq = 5;
    ms_result code =
        store->backend->change(store, ms_str_n(NULL, 0), &change, 1, &opts, NULL);
    assert_true(code == MS_E_DAMAGED || code == MS_E_NOT_FOUND);
    change.envelope.seq = 77;
    code = store->backend->change(store, MS_STR("place_1"), &change, 1, &opts, NULL);
    assert_int_equal(code, MS_E_NOT_FOUND);
    end(store);
}

/* How often a query was refused, showed a hidden message with MS_E_DAMAGED, and withheld
 * it, with more and more memory for changes. */
static void query_with_little_memory(size_t all, size_t times[3])
{
    static union {
        uint64_t align;
        unsigned char bytes[1 << 14];
    } room;
    for (size_t left = 0; times[2] < 3 && left < sizeof room; left += 8) {
        ms_cursor it;
        ms_query q = query_at("place_2");
        ms_store *store = open_log(MS_LOG_READ);
        ms_arena *arena = &ms__log_of(store)->edits.names.nodes, whole = *arena;
        test_arena_init_fixed(arena, room.bytes, left);
        size_t n = 0;
        ms_result result = ms_query_open(store, &q, &it, NULL);
        while (result == MS_OK && ms_next(&it) != NULL) n++;
        if (result == MS_OK) result = ms_cursor_close(&it, NULL);
        if (times[1] + times[2] > 0 || result != MS_E_NO_MEMORY) {
            assert_int_equal(result, MS_E_DAMAGED);
            times[n == all ? 1 : 2]++;
            assert_int_equal(n, times[2] > 0 ? all - 1 : all);
        } else {
            times[0]++;
        }
        *arena = whole;
        ms_close(store);
    }
}

/* A damaged HIDE is held with its range, which withholds a message; without memory for that
 * it is counted. So is one of a segment whose index is derived. */
TEST(damaged_change_is_reported_when_there_is_no_memory_to_hold_it)
{
    enum { N = 49 };
    for (int sealed = 0; sealed < 2; sealed++) {
        size_t times[3] = {0, 0, 0};
        uint64_t offset = MS__FIRST_RECORD, index;
        ms_store *store = make_log(0);
        ms__log *log = ms__log_of(store);
        log->opts.segment_size = MS__SEGMENT_DEFAULT; /* all of it in one */
        say_some(store, N);
        assert_int_equal(ms_hide(store, 3, NULL), MS_OK);
        unsigned char *hide = writable(record_from(log, &offset, MS__KIND_HIDE, 0));
        for (int i = 0; i < 2 * sealed; i++) {
            say_some(store, N);
            assert_int_equal(ms__segment_write(log, NULL), MS_OK);
        }
        if (sealed)
            writable(index_record(log, MS__INDEX_SEGMENT, &index))[MS__HEADER + 40] ^= 1;
        size_t all = said / 7;
        assert_int_equal(count_all(store, query_at("place_2"), MS_OK), all - 1);
        ms_close(store);
        hide[MS__HEADER + 2] ^= 1;
        query_with_little_memory(all, times);
        assert_true(times[0] > 0);
        assert_int_equal(times[1], MS__HOLES * sizeof(ms__held) / 8);
        assert_int_equal(times[2], 3);
        test_alloc_done(&heap);
    }
}

/* A change without a range in its text, found by a reader that catches up. */
TEST(hide_hides_nothing_when_it_has_no_range)
{
    ms_store *store = make_segments(1);
    ms_store *reader = open_log(MS_LOG_READ);
    ms__log *log = ms__log_of(store);
    ms_query q = query_at("place_1");
    size_t before = count_all(reader, q, MS_OK);
    uint64_t n, offset = log->end;
    assert_int_equal(ms_hide_range(store, q.location, 1, 9, &n, NULL), MS_OK);
    const unsigned char *r = record_from(log, &offset, MS__KIND_HIDE, 0);
    unsigned char *text = writable((const unsigned char *)ms_content(ms__msg(r)).text.ptr);
    text[0] = 'x';
    ms__seal_at(log->id.crc, offset, writable(r));
    assert_int_equal(count_all(reader, q, MS_OK), before);
    text[0] = '{';
    ms__seal_at(log->id.crc, offset, writable(r));
    ms_close(reader);
    finish(store);
}

/* [change] always asks for the number; another caller of the table need not. */
TEST(range_is_hidden_when_nobody_asks_how_many)
{
    ms_store *store = make_log(9);
    ms_append_opts opts;
    ms_record hide = {.envelope = {.seq = 1}, .kind = MS_KIND_HIDE};
    memset(&opts, 0, sizeof opts);
    opts.expect_seq = 9;
    assert_int_equal(
        store->backend->change(store, MS_STR("place_1"), &hide, 1, &opts, NULL), MS_OK);
    end(store);
}

/* The last message of a segment is damaged: the next segment is looked at, if there is
 * memory for it. */
TEST(look_up_fails_when_the_next_segment_needs_memory)
{
    ms_store *store = make_segments(9);
    ms__segment *l = segment_of(store, 3);
    uint64_t at = ms__segment_offset(l, l->n - 1);
    uint64_t seq = ms_seq(ms__msg(drive.ro + at));
    bool failed = true;
    drive.rw[at + 9] ^= 0x40;
    ms_close(store);
    for (size_t k = 1; failed; k++) {
        store = open_log(MS_LOG_WRITE);
        heap.calls = heap.failed = 0;
        heap.fail_at = k;
        heap.fail_from = true;
        ms_result code = look_up(store, seq);
        failed = heap.failed > 0;
        assert_true(failed || k > 1);
        heap.fail_at = 0;
        assert_int_equal(code, failed ? MS_E_NO_MEMORY : MS_E_DAMAGED);
        assert_int_equal(look_up(store, seq), MS_E_DAMAGED);
        end(store);
    }
}


/* ---- listings ---- */

/* Opens the log anew and lists the newest five. Counts the indexes and records that the
 * handle has looked at. */
static ms_store *list_anew(ms_store *store, bool names_only, uint32_t *indexes,
                           uint32_t *records)
{
    ms_listing got;
    ms_arena arena;
    ms_close(store);
    store = open_log(MS_LOG_READ);
    ms__log *log = ms__log_of(store);
    ms_list_query q = {.limit = 5, .names_only = names_only};
    test_arena_init(&arena, NULL);
    assert_int_equal(ms_list(store, &q, &arena, &got, NULL), MS_OK);
    assert_int_equal(got.count, 5);
    for (size_t i = 0; i < got.count; i++)
        assert_true(names_only ? got.items[i].messages == 0 : got.items[i].messages > 0);
    for (size_t i = 1; i < got.count; i++)
        assert_true(got.items[i].last_seq < got.items[i - 1].last_seq);
    ms_arena_deinit(&arena);
    *indexes = *records = 0;
    for (uint32_t i = 0; i < log->index.segments.n; i++) {
        const ms__segment *l =
            (const ms__segment *)ms__node_entry(&log->index.segments, i)->node;
        if (!l) continue;
        ++*indexes;
        for (uint32_t k = 0; k < l->n; k++)
            *records += l->checked[k / 32] >> (k % 32) & 1;
    }
    return store;
}

TEST(listing_looks_only_at_what_it_returns)
{
    uint32_t indexes, records, all;
    ms_store *store = make_segments(1);
    for (unsigned i = 0; i < 3000; i++) {
        char place[32];
        snprintf(place, sizeof place, "own_%u", i);
        say(store, place, NULL);
    }
    store = list_anew(store, true, &indexes, &records);
    all = ms__log_of(store)->index.segments.n;
    assert_true(all > 10);
    assert_true(indexes <= 2 && records <= 5);
    store = list_anew(store, false, &indexes, &records);
    assert_true(records <= 20); /* each index is asked, no record but those listed */
    ms_close(store);
    store = open_log(MS_LOG_WRITE);
    for (unsigned i = 0; i < 3000; i++) say(store, "busy", NULL);
    store = list_anew(store, true, &indexes, &records);
    uint32_t busy = ms__log_of(store)->index.segments.n - all;
    assert_true(indexes <= busy + 2);
    assert_true(records <= MS__LIST_WALK + 20);
    finish(store);
}

/* A reader begins at the newest segment index, and does not meet the record; a walk over
 * all of them does. */
TEST(log_is_foreign_when_a_sealed_segment_has_a_record_that_must_be_known)
{
    ms_log_report report;
    ms_error err;
    ms_store *store = make_segments(4);
    ms__log *log = ms__log_of(store);
    uint64_t offset = MS__FIRST_RECORD;
    unsigned char *r = writable(record_from(log, &offset, MS__KIND_MESSAGE, 0));
    uint32_t crc = log->id.crc;
    ms_close(store);
    r[4] = 128;
    ms__seal_at(crc, offset, r);
    ms_log_desc desc = desc_of(MS_LOG_READ);
    assert_int_equal(ms_log_verify(&desc, &report, &err), MS_E_FOREIGN);
    store = open_log(MS_LOG_READ);
    assert_int_equal(look_up(store, 1), MS_E_DAMAGED);
    assert_int_equal(look_up(store, 2), MS_OK);
    end(store);
}


/* ---- arrays of indexes whose checks are right, and whose values are not ---- */

TEST(hole_is_of_a_known_record_when_its_kind_is_that_of_one)
{
    static const struct {
        uint32_t kind, read;
    } rows[] = {
        {0, 0}, {MS__KIND_MESSAGE, MS__KIND_MESSAGE}, {MS__KIND_INDEX, 0},
        {MS__KIND_AMEND, MS__KIND_AMEND},
        {MS__KIND_PART, MS__KIND_PART}, {MS__KIND_PART + 1, 0}, {UINT32_MAX, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        unsigned char hole[MS__HOLE_SIZE] = {0};
        ms__segment l;
        memset(&l, 0, sizeof l);
        l.holes = hole;
        ms__put64(hole, 7);
        ms__put32(hole + 16, 40);
        ms__put32(hole + 20, rows[i].kind);
        ms__hole h = ms__segment_hole(&l, 0);
        assert_int_equal(h.kind, rows[i].read);
        assert_int_equal(h.seq, 7);
        assert_int_equal(h.unit, 40);
        l.clustered = 1; /* where it is says nothing of its number */
        h = ms__segment_hole(&l, 0);
        assert_int_equal(h.unit, rows[i].read == MS__KIND_MESSAGE ? 7 : UINT32_MAX);
    }
}

/* What is read ahead of a list ends where its values lead out of the arrays, and where a
 * block was not found valid. */
TEST(list_is_not_read_ahead_when_its_arrays_are_wrong_or_were_not_checked)
{
    uint64_t offset;
    ms__segment l;
    uint32_t all = UINT32_MAX, none = 0;
    ms_store *store = make_log(200);
    ms__log *log = ms__log_of(store);
    memset(&l, 0, sizeof l);
    const unsigned char *index = index_record(log, MS__INDEX_SEGMENT, &offset);
    assert_true(ms__segment_decode(&l, index, offset));
    assert_true(l.blocks <= 32);
    uint64_t list = ms__segment_list(&l, 0);
    unsigned char *begin = writable(l.begin);
    ms__run_soon r;
    for (int i = 0; i < 6; i++) {
        static const bool followed[] = {true, false, false, true, false, false};
        l.sound = &all;
        memset(&r, 0, sizeof r);
        r.index = &l;
        r.n = 1;
        if (i < 3) { /* the end of a bucket: right, before its beginning, too large */
            unsigned char bucket[8];
            r.at = bucket;
            ms__put32(bucket, i == 1 ? 1 : 0);
            ms__put32(bucket + 4, i == 0 ? 1 : i == 1 ? 0 : l.lists + 1);
            ms__run_soon_bucket(&r);
            assert_true(!r.at || (r.at == l.numbers && r.n == 1));
        } else { /* the end of a list: right, before its beginning, of another block */
            r.at = l.numbers;
            uint32_t kept = ms__get32(begin);
            if (i == 4) ms__put(begin, 0, l.postings);
            if (i == 5) l.sound = &none;
            ms__run_soon_list(&r, list);
            ms__put(begin, 0, kept);
            assert_true(!r.at || r.at == l.posting);
        }
        assert_int_equal(r.at != NULL, followed[i]);
    }
    end(store);
}

/* ---- runs that are found for the next segments together ---- */

enum { SPARSE_PLACES = 40, SPARSE_MOST = 60000 };

static uint8_t place_of[SPARSE_MOST]; /* of each number */
static uint64_t sparse_last;

/* Makes a log of 100 segments, each of which has a third of the places. */
static void make_sparse(uint64_t *rng)
{
    char place[32];
    begin();
    ms_store *store = open_log(MS_LOG_CREATE);
    ms__log *log = ms__log_of(store);
    for (sparse_last = 0; log->index.segments.n < 100;) {
        uint32_t p = (uint32_t)test_below(rng, SPARSE_PLACES);
        if ((p + log->index.segments.n * 7) % 3 != 0) continue;
        snprintf(place, sizeof place, "place_%u", p);
        say(store, place, p % 2 ? "worker" : NULL);
        assert_true(++sparse_last < SPARSE_MOST);
        place_of[sparse_last] = (uint8_t)p;
    }
    ms_close(store);
}

/* Reads a place, and compares each number with those that were appended there. */
static void read_sparse(ms_store *store, uint32_t p, uint64_t *rng)
{
    static const size_t limits[] = {0, 0, 3, 40, 700};
    static uint64_t expected[SPARSE_MOST];
    char place[32];
    ms_cursor it;
    snprintf(place, sizeof place, "place_%u", p);
    ms_query q = query_at(place);
    q.limit = limits[test_below(rng, 5)];
    q.oldest = test_below(rng, 2) == 0;
    q.reverse = test_below(rng, 2) == 0;
    if (test_below(rng, 2) == 0) q.after_seq = test_below(rng, sparse_last);
    if (test_below(rng, 2) == 0) q.before_seq = 1 + test_below(rng, sparse_last);
    uint64_t to = q.before_seq > 0 ? q.before_seq : sparse_last + 1;
    size_t n = 0, skip = 0;
    for (uint64_t seq = q.after_seq + 1; seq < to; seq++)
        if (place_of[seq] == p) expected[n++] = seq;
    if (q.limit > 0 && n > q.limit && !q.oldest) skip = n - q.limit;
    if (q.limit > 0 && n > q.limit) n = q.limit;
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    for (size_t i = 0; i < n; i++) {
        const ms_msg *msg = ms_next(&it);
        assert_non_null(msg);
        assert_int_equal(ms_seq(msg), expected[skip + (q.reverse ? n - 1 - i : i)]);
    }
    assert_null(ms_next(&it));
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
}

/* Each fresh handle has found other blocks valid; some indexes are damaged, and made
 * anew in memory. */
TEST(runs_found_beforehand_are_those_of_lookups)
{
    uint64_t rng = test_seed();
    make_sparse(&rng);
    ms_store *store = open_log(MS_LOG_READ);
    ms__log *log = ms__log_of(store);
    uint64_t offset[100];
    for (uint32_t i = 0; i < 100; i++) offset[i] = segment_of(store, i)->offset;
    assert_true(log->index.segments.n == 100);
    ms_close(store);
    for (size_t round = 0; round < test_times(20); round++) {
        uint32_t bad = (uint32_t)test_below(&rng, 100);
        drive.rw[offset[bad] + 48] ^= 1;
        store = open_log(MS_LOG_READ);
        for (int i = 0; i < 60; i++)
            read_sparse(store, (uint32_t)test_below(&rng, SPARSE_PLACES), &rng);
        ms_close(store);
        drive.rw[offset[bad] + 48] ^= 1;
    }
    test_alloc_done(&heap);
    disk_is_idle(&drive);
}

/* A run that was found is looked up again where the list is another one by now, where it
 * is of another step, and where the iterator has passed its segment. */
TEST(run_found_beforehand_is_taken_only_where_it_still_holds)
{
    static const struct {
        uint32_t list, step, from;
        bool taken;
    } rows[] = {{0, 8, 0, true}, {1, 8, 0, false}, {UINT32_MAX >> 5, 8, 0, false},
                {0, 7, 0, false}, {0, 8, 1, false}};
    ms_store *store = make_segments(8);
    ms__log *log = ms__log_of(store);
    (void)count_all(store, query_at("place_1"), MS_OK); /* the index is valid */
    const ms__segment *l = segment_of(store, 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t runs[MS__RUNS_LISTS * MS__RUNS_ROOM] = {0};
        ms_query q = query_at("place_1");
        ms__reading s = {.query = &q, .runs = runs};
        ms__list_iter li = {.list = ms__segment_list(l, 0), .soon = 8, .n_found = 1};
        ms__run run;
        li.from = rows[i].from;
        runs[0] = rows[i].list;
        runs[MS__RUNS_SOON] = rows[i].step;
        assert_int_equal(ms__run_found(log, &s, &li, &run),
                         rows[i].taken ? 0 : MS__NO_SEGMENT);
        if (rows[i].taken) assert_ptr_equal(run.index, l);
        else assert_int_equal(li.n_found, 0);
    }
    finish(store);
}

/* The end of a segment bounds a record that was checked; no record is larger than the
 * limit, or only a header. Only messages are returned without another check. */
TEST(record_is_known_up_to_the_largest_size_when_it_was_checked)
{
    uint64_t offset;
    ms__segment l;
    uint32_t unit, known, size, checked[8];
    unsigned char own[MS__HEADER] = {0};
    ms_store *store = make_log(200);
    ms__log *log = ms__log_of(store);
    memset(&l, 0, sizeof l);
    assert_true(ms__segment_decode(&l, index_record(log, MS__INDEX_SEGMENT, &offset),
                                   offset));
    memset(checked, 0, sizeof checked);
    l.checked = checked;
    l.offset = offset;
    const unsigned char *r = ms__log_entry(log, &l, 2, false, &unit, &known);
    assert_ptr_equal(r, ms__log_at(log, l.base + (uint64_t)unit * 8));
    assert_int_equal(known, 0);
    checked[0] = 4;
    assert_ptr_equal(ms__log_entry(log, &l, 2, false, &unit, &known), r);
    assert_int_equal(known, (offset - (uint64_t)(r - ms__log_at(log, 0))) / 8);
    assert_true(ms__known_fits(r, known, &size));
    assert_int_equal(size, ms__get32(r));
    assert_true(ms__known_fits(r, (size + 7) / 8, &size));
    assert_false(ms__known_fits(r, (size + 7) / 8 - 1, &size));
    own[4] = MS__KIND_MESSAGE;
    for (int i = 0; i < 5; i++) {
        static const uint32_t sizes[] = {MS__RECORD_MAX, MS__HEADER + 1, MS__HEADER, 0,
                                         MS__RECORD_MAX + 1};
        ms__put32(own, sizes[i]);
        assert_int_equal(ms__known_fits(own, UINT32_MAX, &size), i < 2);
    }
    ms__put32(own, MS__HEADER + 8);
    own[4] = MS__KIND_AMEND;
    assert_false(ms__known_fits(own, UINT32_MAX, &size));
    end(store);
}


/* ---- clustered segments ---- */

/* A log whose n messages are in one clustered segment; opened for reading. */
static ms_store *make_clustered(size_t n)
{
    ms_log_desc desc = desc_of(MS_LOG_CREATE);
    ms_store *store = make_log(n);
    desc.segment_size = 65536; /* of one that is clustered up to 2 MiB */
    disk_compact(&drive, store, &desc);
    return open_log(MS_LOG_READ);
}

TEST(clustered_segment_leads_nowhere_when_its_arrays_are_wrong)
{
    enum { N = 3000 };
    uint64_t offset;
    ms__segment l;
    ms__run run;
    uint32_t sound[64];
    ms_store *store = make_clustered(N);
    ms__log *log = ms__log_of(store);
    unsigned char *r = writable(index_record(log, MS__INDEX_SEGMENT, &offset));
    memset(&l, 0, sizeof l);
    assert_true(ms__segment_decode(&l, r, offset));
    assert_true(l.clustered == 1 && l.n == N && l.blocks <= 64 * 32);
    l.sound = sound;
    memset(sound, 0, sizeof sound);
    /* entries that are none */
    assert_int_equal(ms__segment_entry(&l, N), N);
    assert_int_equal(ms__segment_place(&l, N), UINT32_MAX);
    assert_true(ms__entry_sound(log, &l, N - 1));
    assert_false(ms__entry_sound(log, &l, N));
    /* a run whose last posting is none, beside one that is checked */
    unsigned char postings[4];
    memset(&run, 0, sizeof run);
    run.at = postings;
    run.n = 2;
    assert_int_equal(l.width, 2);
    for (int i = 0; i < 2; i++) {
        postings[0] = (unsigned char)((N - 1) & 255);
        postings[1] = (unsigned char)((N - 1) >> 8);
        postings[2] = (unsigned char)((N - 2 + 2 * i) & 255);
        postings[3] = (unsigned char)((N - 2 + 2 * i) >> 8);
        assert_int_equal(ms__run_sound(log, &l, &run), i == 0);
    }
    /* of a place that was not checked nothing is read ahead */
    for (int checked = 0; checked < 2; checked++) {
        ms__run_soon soon = {.index = &l, .at = postings, .n = 1};
        memset(sound, 0, sizeof sound);
        if (checked) assert_true(ms__entry_sound(log, &l, N - 1));
        ms__run_soon_places(&soon, false);
        assert_int_equal(soon.at != NULL, checked);
    }
    /* a number in a damaged block, beside a place in a sound one */
    memset(sound, 0, sizeof sound);
    assert_true(ms__entry_sound(log, &l, 0));
    memset(sound, 0, sizeof sound);
    ms__put(l.number_of, 900,
            ms__get32(l.number_of + (size_t)900 * 4) ^ 1);
    assert_false(ms__entry_sound(log, &l, 0));
    assert_true(ms__segment_sound(log, &l, l.record, 4096));
    /* an order that leads out of the segment */
    ms__put(l.order, 5, N);
    assert_int_equal(ms__segment_entry(&l, 5), 5);
    end(store);
}

/* A clustered segment begins at an empty tail: where that cannot be sealed, none does. */
TEST(clustered_segment_is_not_begun_when_the_tail_cannot_be_sealed)
{
    uint32_t kept[MS__PINS];
    ms_store *store = make_log(3);
    ms__log *log = ms__log_of(store);
    memcpy(kept, log->map.pins, sizeof kept);
    for (unsigned k = 0; k < MS__PINS; k++) log->map.pins[k]++;
    assert_int_equal(ms__log_cluster(store, true, NULL), MS_E_NO_MEMORY);
    assert_int_equal(log->map.cluster, 0);
    memcpy(log->map.pins, kept, sizeof kept);
    log->durable.poisoned = true;
    assert_int_equal(ms__log_cluster(store, true, NULL), MS_E_POISONED);
    assert_int_equal(log->map.cluster, 0);
    log->durable.poisoned = false;
    assert_int_equal(ms__log_cluster(store, true, NULL), MS_OK);
    assert_int_equal(log->map.cluster, 2); /* the number of the segment, plus one */
    assert_int_equal(ms__log_cluster(store, false, NULL), MS_OK);
    assert_int_equal(log->map.cluster, 0);
    say_some(store, 1);
    finish(store);
}

/* The tail begins after a LOST record that belongs to the segment before it. */
TEST(lost_record_is_of_the_segment_before_when_that_is_clustered_and_has_no_index)
{
    enum { SIZE = 56 };
    unsigned char index[8];
    ms_store *store = make_log(0);
    ms__log *log = ms__log_of(store);
    uint64_t base = ms__tail_of(log)->base;
    ms__lost_entered(log, base, base + SIZE); /* there is no segment before it */
    assert_int_equal(ms__tail_of(log)->base, base);
    say_some(store, 9);
    assert_int_equal(ms__segment_write(log, NULL), MS_OK);
    base = ms__tail_of(log)->base;
    ms__segment *l = segment_of(store, 0);
    assert_true(l->own == NULL && !l->clustered);
    for (int i = 0; i < 16; i++) { /* bits: a place after the tail's beginning, ... */
        bool after = i & 1, filled = i & 2, own = i & 4, clustered = i & 8;
        ms__tail_of(log)->base = base;
        ms__tail_of(log)->filled = filled;
        l->own = own ? index : NULL;
        l->clustered = clustered;
        uint64_t offset = base + (after ? 8 : 0);
        ms__lost_entered(log, offset, offset + SIZE);
        bool of_it = !after && !filled && own && clustered;
        assert_int_equal(ms__tail_of(log)->base, of_it ? base + SIZE : base);
    }
    ms__tail_of(log)->base = base;
    ms__tail_of(log)->filled = 0;
    l->own = NULL;
    l->clustered = 0;
    finish(store);
}

/* A small part of a segment is not: it is copied in the order of its numbers. */
TEST(log_is_clustered_when_it_is_larger_than_a_part_of_a_segment)
{
    enum { N = 500 };
    static const struct {
        size_t segment;
        uint64_t clustered;
    } rows[] = {{MS_LOG_SEGMENT_MIN, N}, {1 << 16, N}, {(size_t)64 << 20, 0}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_log_desc desc = desc_of(MS_LOG_CREATE);
        ms_log_report report;
        ms_store *store = make_log(N);
        desc.segment_size = rows[i].segment;
        disk_compact(&drive, store, &desc);
        assert_int_equal(ms_log_verify(&desc, &report, NULL), MS_OK);
        assert_int_equal(report.messages, N);
        assert_int_equal(report.clustered, rows[i].clustered);
        finish(open_log(MS_LOG_READ));
    }
}

/* A note stands among the messages, which no rewrite writes: the log is read, and is
 * sound. */
TEST(clustered_segment_is_read_when_it_has_a_change)
{
    enum { N = 300 };
    ms_log_report report;
    ms_append_opts opts = {.location = MS_STR("place"), .keep_seq = true};
    ms_query q = query_at("place");
    for (int derived = 0; derived < 2; derived++) {
        uint64_t offset;
        ms_store *store = make_log(0);
        ms__log *log = ms__log_of(store);
        log->opts.segment_size = MS__SEGMENT_DEFAULT;
        assert_int_equal(ms__log_cluster(store, true, NULL), MS_OK);
        for (unsigned i = 1; i <= N; i++) {
            ms_envelope m = ms_user_message(ms_text("x"));
            m.seq = i;
            assert_int_equal(ms_append_batch(store, &m, 1, &opts, NULL), MS_OK);
            if (i == 200)
                assert_int_equal(ms_note(store, 100, MS_STR("k"), ms_text("v"), NULL),
                                 MS_OK);
        }
        assert_int_equal(ms__log_cluster(store, false, NULL), MS_OK);
        assert_int_equal(ms__log_of(store)->index.segments.n, 1);
        unsigned char *r = writable(index_record(log, MS__INDEX_SEGMENT, &offset));
        assert_int_equal(ms__get32(r + 212), 1); /* clustered */
        assert_int_equal(ms__get32(r + 140), N + 1);
        if (derived) r[MS__HEADER + 40] ^= 1;
        ms_close(store);
        ms_log_desc desc = desc_of(MS_LOG_READ);
        assert_int_equal(ms_log_verify(&desc, &report, NULL),
                         derived ? MS_E_DAMAGED : MS_OK);
        assert_int_equal(report.index_damaged, derived);
        assert_int_equal(report.clustered, N);
        for (uint64_t seq = 1; seq <= N; seq += 13) { /* each by a handle of its own */
            store = open_log(MS_LOG_READ);
            assert_int_equal(look_up(store, seq), MS_OK);
            ms_close(store);
        }
        store = open_log(MS_LOG_READ);
        assert_int_equal(look_up(store, N + 1), MS_E_NOT_FOUND);
        assert_int_equal(count_all(store, q, MS_OK), N);
        q.raw = MS_RAW_NOTES;
        assert_int_equal(count_all(store, q, MS_OK), 1);
        q.raw = 0;
        finish(store);
    }
}

/* The index of a clustered segment is damaged, and derived; each allocation fails in
 * turn. */
TEST(clustered_segment_is_read_or_refused_when_memory_ends)
{
    enum { N = 140 };
    for (int how = 0; how < 3; how++) {
        uint64_t offset;
        ms_log_desc desc = desc_of(MS_LOG_CREATE);
        ms_store *store = make_log(N);
        const ms_msg *msg;
        disk_compact(&drive, store, &desc);
        store = open_log(MS_LOG_WRITE); /* opening begins at a sound index */
        ms__log *log = ms__log_of(store);
        say_some(store, 20);
        assert_int_equal(ms__segment_write(log, NULL), MS_OK);
        unsigned char *r = writable(index_record(log, MS__INDEX_SEGMENT, &offset));
        assert_int_equal(ms__get32(r + 212), 1);
        ms_close(store);
        r[MS__HEADER + 40] ^= 1;
        size_t fail = 0, n = 0;
        for (ms_result result = MS_E_NO_MEMORY; result != MS_OK; fail++) {
            ms_cursor it;
            ms_query q = query_at(how == 0 ? "place_1" : NULL);
            store = open_log(MS_LOG_READ);
            heap.failed = 0;
            heap.fail_at = heap.calls + fail + 1;
            n = 0;
            if (how == 2) {
                result = ms_get_by_seq(store, 77, NULL, &msg, NULL);
            } else {
                result = ms_query_open(store, &q, &it, NULL);
                while (result == MS_OK && ms_next(&it) != NULL) n++;
                if (result == MS_OK) result = ms_cursor_close(&it, NULL);
            }
            heap.fail_at = 0;
            if (result != MS_OK) assert_int_equal(result, MS_E_NO_MEMORY);
            if (result != MS_OK) assert_true(heap.failed > 0);
            if (how == 2) assert_int_equal(look_up(store, 77), MS_OK); /* now it is */
            ms_close(store);
        }
        assert_true(fail > 4);
        if (how < 2) assert_int_equal(n, how == 0 ? 23 : N + 20);
        test_alloc_done(&heap);
    }
}

/* Each allocation of the new log fails in turn: the old one stays, and is rewritten when
 * there is memory. */
static void rewrite_is_refused(bool of_memory)
{
    static disk other;
    enum { N = 140 };
    size_t refused = 0;
    ms_store *log = make_log(N + 1), *store = log;
    if (of_memory) {
        assert_int_equal(ms_mem_open(&store, NULL, NULL), MS_OK);
        assert_int_equal(ms_copy(store, log, NULL, NULL, NULL, NULL), MS_OK);
    }
    assert_int_equal(ms_hide(store, N + 1, NULL), MS_OK); /* its number is left out */
    disk_init(&other, 1 << 20);
    other.os.exact_maps = true;
    for (ms_result result = MS_E_NO_MEMORY; result != MS_OK; refused++) {
        ms_log_desc to = desc_of(MS_LOG_CREATE);
        test_alloc memory;
        ms_error err;
        disk_clear(&other);
        test_alloc_init(&memory);
        to.os = &other.os;
        to.alloc = memory.alloc;
        memory.fail_at = refused + 1;
        result = ms_log_rewrite(store, &to, false, NULL, NULL, &err);
        memory.fail_at = 0;
        if (result != MS_OK && result != MS_E_NO_MEMORY) fail_msg("%s", err.message);
        test_alloc_done(&memory);
        assert_int_equal(count_all(store, query_at(NULL), MS_OK), N);
    }
    assert_true(refused > (of_memory ? 5 : 20));
    disk_deinit(&other);
    if (of_memory) ms_close(store);
    finish(log);
}

TEST(rewrite_is_refused_when_the_clustered_log_has_no_memory)
{
    rewrite_is_refused(false);
    rewrite_is_refused(true);
}

/* One handle reads location after location, forward and backward: the places of a list
 * that is read ahead may be in a block that was not checked yet. */
TEST(every_location_is_whole_when_clustered_segments_are_read_ahead)
{
    enum { N = 21000, PLACES = 7, NEWEST = 500 };
    ms_log_desc desc = desc_of(MS_LOG_CREATE);
    ms_store *store = make_log(N);
    desc.segment_size = 16384; /* a clustered one has 512 KiB */
    disk_compact(&drive, store, &desc);
    for (int backward = 0; backward < 2; backward++) {
        char place[16];
        ms_cursor it;
        const ms_msg *msg;
        store = open_log(MS_LOG_READ);
        assert_true(ms__log_of(store)->index.segments.n > 2);
        for (int i = 0; i < PLACES; i++) {
            snprintf(place, sizeof place, "place_%d", i);
            ms_query q = query_at(place);
            q.reverse = backward != 0;
            assert_int_equal(count_all(store, q, MS_OK), N / PLACES);
        }
        ms_query q = {.limit = NEWEST};
        uint64_t next = N - NEWEST;
        assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
        while ((msg = ms_next(&it)) != NULL) assert_int_equal(ms_seq(msg), ++next);
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
        assert_int_equal(next, N);
        finish(store);
    }
}

/* Where a map cannot reach beyond the end of the file, as on Windows, a handle that stays
 * open maps what comes later anew, at another address: segments lie in two maps. Each is
 * read forward and backward, before its records are checked and after. The file is a real
 * one: the maps of a disk in memory follow one another. */
TEST(segments_that_lie_in_two_maps_are_read_whole)
{
    enum { STEPS = 120, EACH = 70, PLACES = 7 };
    const ms_str both[] = {MS_STR("worker"), MS_STR("nobody")};
    size_t apart = 0;
    begin();
    char *folder = scratch_folder(), *path = scratch_file(folder, "log.msl");
    ms_os exact = *ms_os_default();
    exact.exact_maps = true;
    ms_log_desc desc = {.path = path, .mode = MS_LOG_CREATE, .segment_size = 100000};
    ms_store *store = open_with(&desc);
    say_some(store, EACH);
    desc.mode = MS_LOG_READ;
    desc.os = &exact;
    ms_store *reader = open_with(&desc);
    for (size_t n = EACH; n < (size_t)STEPS * EACH; n += EACH) {
        for (int i = 0; i < 4 * PLACES; i++) {
            char place[16];
            snprintf(place, sizeof place, "place_%d", i / 4);
            ms_query q = query_at(place);
            q.reverse = i % 2 != 0;
            assert_int_equal(count_all(reader, q, MS_OK), n / PLACES);
        }
        ms_query lists = {.views = MS_VIEW_TEAM, .agent_keys = both, .n_agent_keys = 2};
        for (int i = 0; i < 4; i++) {
            lists.reverse = i % 2 != 0;
            assert_int_equal(count_all(reader, lists, MS_OK), n / 2);
        }
        say_some(store, EACH);
    }
    for (uint32_t i = 0; i < ms__log_of(reader)->index.segments.n; i++)
        apart += segment_of(reader, i)->home == NULL;
    assert_true(apart > 0);
    ms_close(reader);
    finish(store);
    free(path);
    free(folder);
}

int main(void)
{
    return run_inside_tests();
}
