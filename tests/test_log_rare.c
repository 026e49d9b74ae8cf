/* [log] and [mem] where they are seldom: what takes a file that lies in one field only, a
 * call or an allocation that fails at one moment, or another handle that was faster. Each
 * test says what is brought about and what has to come of it; the log is whole afterwards.
 * Logs are on a disk in memory (disk.h), a few hundred messages each, nothing is scaled.
 *
 * Left out: the same for every operation at each of its calls (test_branches), what is
 * damaged at random (test_corrupt, test_hostile).
 */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"
#include "support.h"
#include "logs.h"

#include <errno.h>

static disk drive;
static trip traps;
static test_alloc heap;
static unsigned refusals; /* answers that were not MS_OK and had to be */

static ms_log_desc desc_of(ms_log_mode mode)
{
    ms_log_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.path = "log.msl";
    desc.mode = mode;
    desc.os = &traps.os;
    desc.segment_size = MS_LOG_SEGMENT_MIN;
    desc.alloc = heap.alloc;
    return desc;
}

static ms_store *open_with(const ms_log_desc *desc)
{
    ms_store *store;
    ms_error err;
    if (ms_log_open(&store, desc, &err) != MS_OK) fail_msg("open: %s", err.message);
    return store;
}

static ms_store *open_log(ms_log_mode mode, bool shared)
{
    ms_log_desc desc = desc_of(mode);
    desc.shared = shared;
    return open_with(&desc);
}

static void say(ms_store *store, const char *place, const char *agent)
{
    ms_envelope m = ms_user_message(ms_text("some words that take a little room"));
    if (agent != NULL) m.agent_key = ms_str_of(agent);
    assert_int_equal(ms_append(store, ms_str_of(place), &m, NULL, NULL), MS_OK);
}

static unsigned said; /* messages in seven places by turns */

static void say_some(ms_store *store, size_t n)
{
    char place[32];
    for (; n > 0; n--, said++) {
        snprintf(place, sizeof place, "place_%u", said % 7);
        say(store, place, said % 2 ? "worker" : NULL);
    }
}

/* An empty disk; nothing fails. */
static void begin(void)
{
    disk_clear(&drive);
    drive.files = drive.maps = 0; /* also after a test that failed */
    said = 0;
    test_alloc_init(&heap);
    trip_init(&traps, &drive.os);
}

/* A log of that many leaves, and a few messages behind them. */
static ms_store *make_log(uint32_t leaves)
{
    begin();
    ms_store *store = open_log(MS_LOG_CREATE, false);
    while (ms__log_of(store)->index.segments.n < leaves) say_some(store, 1);
    say_some(store, 5);
    return store;
}

static void finish(ms_store *store)
{
    ms_error err;
    if (ms_selfcheck(store, &err) != MS_OK) fail_msg("afterwards: %s", err.message);
    ms_close(store);
    test_alloc_done(&heap);
    disk_is_idle(&drive);
}

static void trap(unsigned kinds, size_t k, bool from, int code)
{
    traps.calls = traps.hits = 0;
    traps.how = TRIP_FAIL;
    traps.kinds = kinds;
    traps.at = k;
    traps.from = from;
    traps.code = code;
}

static size_t count_all(ms_store *store, ms_query q, ms_result expected)
{
    ms_cursor it;
    size_t n = 0;
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while (ms_next(&it) != NULL) n++;
    assert_int_equal(ms_cursor_close(&it, NULL), expected);
    return n;
}

static ms_query query_at(const char *place)
{
    ms_query q;
    memset(&q, 0, sizeof q);
    q.views = MS_VIEW_TIMELINE;
    q.location = ms_str_of(place);
    return q;
}

static ms_query everything(void)
{
    ms_query q;
    memset(&q, 0, sizeof q);
    return q;
}

/* The bytes of a record that can be written to. */
static unsigned char *writable(const unsigned char *r) { return drive.rw + (r - drive.ro); }


/* ---- records and index records that lie ---- */

static ms__replay replay_at(ms__log *log, uint64_t at)
{
    ms__replay s;
    memset(&s, 0, sizeof s);
    s.log = log;
    s.at = at;
    s.limit = s.trusted = log->end;
    s.quiet = true;
    return s;
}

/* A record whose header or body is wrong is stepped over. */
static void a_walk_does_not_begin_with_a_record_that_lies(void **state)
{
    ms_store *store = make_log(2);
    ms__log *log = ms__log_of(store);
    ms__segment *l = (ms__segment *)(uintptr_t)ms__segment_of(log, 0, true);
    uint64_t at = ms__segment_offset(l, 3), offset;
    const unsigned char *r;
    (void)state;
    static const size_t lies[] = {4, MS__HEADER + 6}; /* kind, body */
    for (size_t i = 0; i < 2; i++) {
        ms__replay s = replay_at(log, at);
        unsigned char kept = drive.rw[at + lies[i]];
        drive.rw[at + lies[i]] = (unsigned char)(kept ^ 0x3C);
        assert_int_equal(ms__replay_next(&s, &r, &offset), MS__FOUND_RECORD);
        assert_true(offset > at);
        drive.rw[at + lies[i]] = kept;
    }
    ms__replay s = replay_at(log, at);
    assert_int_equal(ms__replay_next(&s, &r, &offset), MS__FOUND_RECORD);
    assert_true(offset == at);
    finish(store);
}

static void a_segment_ends_where_the_next_one_begins(void **state)
{
    ms_store *store = make_log(8);
    ms__log *log = ms__log_of(store);
    ms__segment *four = (ms__segment *)(uintptr_t)ms__segment_of(log, 4, true);
    ms__segment *six = (ms__segment *)(uintptr_t)ms__segment_of(log, 6, true);
    ms__segment *seven = (ms__segment *)(uintptr_t)ms__segment_of(log, 7, true);
    (void)state;
    ms__lock_take(&log->lock);
    assert_int_equal(ms__segment_end(log, 5, four->base), six->base);
    drive.rw[six->offset + 40] ^= 1; /* with its LEAF, where that cannot be read */
    assert_int_equal(ms__segment_end(log, 5, four->base), six->offset);
    drive.rw[six->offset + 40] ^= 1;
    assert_int_equal(ms__segment_end(log, 6, six->base), seven->base);
    assert_int_equal(ms__segment_end(log, 7, seven->base), ms__tail_of(log)->base);
    ms__lock_give(&log->lock);
    finish(store);
}

static void leaves_that_are_damaged_in_a_row_are_made_anew(void **state)
{
    ms_store *store = make_log(9);
    ms_stat stat, again;
    (void)state;
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    for (uint32_t i = 3; i < 6; i++) {
        ms__segment *l = (ms__segment *)(uintptr_t)ms__segment_of(ms__log_of(store), i, true);
        drive.rw[l->offset + MS__SEGMENT_FIXED] ^= 1;
    }
    ms_close(store);
    store = open_log(MS_LOG_WRITE, false);
    ms__log *log = ms__log_of(store);
    ms__lock_take(&log->lock);
    ms__segment *l = (ms__segment *)(uintptr_t)ms__segment_of(log, 5, true);
    ms__lock_give(&log->lock);
    assert_non_null(l);
    assert_non_null(l->own);
    ms__segment *next = (ms__segment *)(uintptr_t)ms__segment_of(log, 6, true);
    assert_true(l->next <= next->base);
    assert_int_equal(ms_store_stat(store, &again, NULL), MS_OK);
    assert_int_equal(stat.messages, again.messages);
    ms_query q;
    memset(&q, 0, sizeof q);
    assert_int_equal(count_all(store, q, MS_OK), stat.messages);
    finish(store);
}

/* The places of LEAFs and SUMMARYs are known though records that tell them are damaged: the
 * newest SUMMARY, and then also LEAFs after it, and then all of them but one. */
static void places_are_found_by_whatever_tells_them(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++) {
        uint64_t leaf[100], sum[3];
        ms_store *store = make_log(1);
        ms__log *log = ms__log_of(store);
        while (log->index.segments.n < 100 || log->index.summaries.n < 3) say_some(store, 1);
        for (uint32_t i = 0; i < 100; i++) leaf[i] = ms__segment_of(log, i, false)->offset;
        for (uint32_t i = 0; i < 3; i++)
            sum[i] = ms__node_entry(&log->index.summaries, i)->offset;
        ms_query q = query_at("place_1");
        size_t all = count_all(store, q, MS_OK);
        ms_close(store);
        drive.rw[sum[2] + 40] ^= 1;
        if (how > 0) drive.rw[leaf[96] + 40] ^= 1;
        if (how > 1) drive.rw[sum[1] + 40] ^= 1;
        for (uint32_t i = 97; how == 3 && i < 99; i++) drive.rw[leaf[i] + 40] ^= 1;
        store = open_log(MS_LOG_WRITE, false);
        log = ms__log_of(store);
        ms__lock_take(&log->lock);
        assert_non_null(ms__summary_get(log, 0));
        assert_int_equal(ms__node_entry(&log->index.summaries, 0)->offset, sum[0]);
        assert_non_null(ms__summary_get(log, 0)->filters);
        for (uint32_t i = 0; i < 100; i++) {
            assert_true(ms__segment_find_place(log, i));
            assert_int_equal(ms__node_entry(&log->index.segments, i)->offset, leaf[i]);
        }
        ms__lock_give(&log->lock);
        assert_int_equal(count_all(store, q, MS_OK), all);
        say_some(store, 700); /* more than 32 segments: a SUMMARY over damage */
        assert_true(log->index.summaries.n > 3);
        assert_int_equal(count_all(store, q, MS_OK), all + 100);
        finish(store);
    }
}

/* A hint names a LEAF whose number cannot be: it is not begun behind it. */
static void a_hint_to_a_leaf_of_the_future_is_not_believed(void **state)
{
    ms_store *store = make_log(3);
    ms__log *log = ms__log_of(store);
    ms__file_id id = log->id;
    uint64_t offset = log->index.hint;
    ms_stat stat, again;
    (void)state;
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    ms_close(store);
    unsigned char *r = drive.rw + offset, kept[MS__SEGMENT_FIXED];
    ms__segment leaf;
    assert_true(ms__segment_decode(&leaf, r, offset));
    memcpy(kept, r, sizeof kept);
    ms__put32(r + 128, leaf.number + 0x40000000u);
    ms__seal_at(id.crc, offset, r);
    store = open_log(MS_LOG_READ, false);
    assert_true(ms__log_of(store)->index.segments.n < 10);
    assert_int_equal(ms_store_stat(store, &again, NULL), MS_OK);
    assert_int_equal(again.messages, stat.messages);
    ms_close(store);
    memcpy(r, kept, sizeof kept);
    store = open_log(MS_LOG_WRITE, false);
    finish(store);
}

/* A change whose text is none, found by a reader that catches up: nothing is hidden. */
static void a_hide_that_says_nothing_hides_nothing(void **state)
{
    ms_store *store = make_log(1);
    ms_store *reader = open_log(MS_LOG_READ, false);
    ms__log *log = ms__log_of(store);
    ms_query q = query_at("place_1");
    size_t before = count_all(reader, q, MS_OK);
    uint64_t n, offset, at = log->end;
    const unsigned char *r;
    (void)state;
    assert_int_equal(ms_hide_range(store, q.location, 1, 9, &n, NULL), MS_OK);
    ms__replay s = replay_at(log, at);
    s.limit = s.trusted = log->end;
    do assert_int_equal(ms__replay_next(&s, &r, &offset), MS__FOUND_RECORD);
    while (r[4] != MS__KIND_HIDE);
    unsigned char *text =
        writable((const unsigned char *)ms_content(ms__msg(r)).text.ptr);
    text[0] = 'x';
    ms__seal_at(log->id.crc, offset, writable(r));
    assert_int_equal(count_all(reader, q, MS_OK), before);
    text[0] = '{';
    ms__seal_at(log->id.crc, offset, writable(r));
    ms_close(reader);
    finish(store);
}


/* ---- long hidden ranges, teams, absent names ---- */

static void a_hidden_range_in_the_tail_is_leaped_over(void **state)
{
    (void)state;
    begin();
    ms_log_desc desc = desc_of(MS_LOG_CREATE);
    desc.segment_size = 1 << 20;
    ms_store *store = open_with(&desc);
    for (int i = 0; i < 600; i++) say(store, i % 3 ? "room" : "hall", NULL);
    uint64_t n;
    assert_int_equal(ms_hide_range(store, MS_STR("room"), 31, 570, &n, NULL), MS_OK);
    assert_int_equal(n, 360);
    ms_query q = query_at("room");
    assert_int_equal(count_all(store, q, MS_OK), 40);
    q.reverse = true;
    assert_int_equal(count_all(store, q, MS_OK), 40);
    q.limit = 25; /* 20 behind the range, 5 before it */
    assert_int_equal(count_all(store, q, MS_OK), 25);
    finish(store);
}

/* The same for an arena store. */
static void a_hidden_range_of_an_arena_store_is_leaped_over(void **state)
{
    ms_store *store;
    uint64_t n;
    (void)state;
    assert_int_equal(ms_mem_open(&store, NULL, NULL), MS_OK);
    for (int i = 0; i < 600; i++) say(store, i % 3 ? "room" : "hall", NULL);
    assert_int_equal(ms_hide_range(store, MS_STR("room"), 31, 570, &n, NULL), MS_OK);
    ms_query q = query_at("room");
    for (int back = 0; back < 2; back++) {
        q.reverse = back == 1;
        assert_int_equal(count_all(store, q, MS_OK), 40);
    }
    assert_int_equal(ms_hide_range(store, MS_STR("room"), 31, 600, &n, NULL), MS_OK);
    q.reverse = false;
    assert_int_equal(count_all(store, q, MS_OK), 20);
    say(store, "room", NULL);
    assert_int_equal(count_all(store, q, MS_OK), 21);
    ms_close(store);
}

/* More streams than a cursor has room for, and no arena; an absent name among the team. */
static void a_team_needs_names_and_room(void **state)
{
    enum { TEAM = 60 };
    char names[TEAM][16];
    ms_str team[TEAM];
    (void)state;
    begin();
    ms_store *stores[2];
    stores[0] = open_log(MS_LOG_CREATE, false);
    assert_int_equal(ms_mem_open(&stores[1], NULL, NULL), MS_OK);
    for (size_t i = 0; i < TEAM; i++) {
        snprintf(names[i], sizeof names[i], "agent_%u", (unsigned)i);
        team[i] = ms_str_of(names[i]);
        for (int k = 0; k < 2; k++) say(stores[k], "room", names[i]);
    }
    for (int k = 0; k < 2; k++) {
        ms_cursor it;
        ms_query q = query_at("room");
        q.views = MS_VIEW_TEAM;
        q.agent_keys = team;
        q.n_agent_keys = TEAM;
        assert_int_equal(ms_query_open(stores[k], &q, &it, NULL), MS_E_ARENA);
        refusals++;
        q.n_agent_keys = 3;
        team[1] = ms_str_n(NULL, 0);
        assert_int_equal(count_all(stores[k], q, MS_OK), 2);
        team[1] = ms_str_of(names[1]);
    }
    ms_close(stores[1]);
    finish(stores[0]);
}


/* ---- memory that fails when something is seen for the first time ---- */

static ms_result see_everything(ms_store *reader)
{
    uint64_t last;
    return test_refresh(reader, &last, NULL);
}

/* A reader's k-th allocation fails while it takes in its first change, and a SUMMARY. */
static void a_reader_that_catches_up_without_memory_goes_on_later(void **state)
{
    (void)state;
    for (size_t k = 1;; k++) {
        ms_store *store = make_log(7);
        ms_store *reader = open_log(MS_LOG_READ, false);
        uint64_t n;
        assert_int_equal(ms_hide_range(store, MS_STR("place_1"), 1, 9, &n, NULL), MS_OK);
        while (ms__log_of(store)->index.summaries.n < 1) say_some(store, 10);
        heap.calls = heap.failed = 0;
        heap.fail_at = k;
        ms_result code = see_everything(reader);
        bool failed = heap.failed > 0;
        heap.fail_at = 0;
        assert_int_equal(code == MS_E_NO_MEMORY, failed);
        refusals += failed;
        assert_int_equal(see_everything(reader), MS_OK);
        ms_query q = query_at("place_1");
        assert_int_equal(count_all(reader, q, MS_OK), count_all(store, q, MS_OK));
        ms_close(reader);
        finish(store);
        if (!failed) break;
    }
}

static ms_result find_behind(ms_store *store, uint64_t seq)
{
    const ms_msg *msg;
    return ms_get_by_seq(store, seq, NULL, &msg, NULL);
}

/* The last message of a segment is damaged: the next segment is looked at, if there is
 * memory for it. */
static void a_search_that_runs_out_of_memory_in_the_next_segment_says_so(void **state)
{
    size_t without = 0;
    ms_store *store = make_log(9);
    ms__segment *l = (ms__segment *)(uintptr_t)ms__segment_of(ms__log_of(store), 3, true);
    uint64_t at = ms__segment_offset(l, l->n - 1);
    uint64_t seq = ms_seq(ms__msg(drive.ro + at));
    (void)state;
    drive.rw[at + 9] ^= 0x40;
    ms_close(store);
    for (size_t k = 1;; k++) {
        store = open_log(MS_LOG_WRITE, false);
        heap.calls = heap.failed = 0;
        heap.fail_at = k;
        heap.fail_from = true;
        ms_result code = find_behind(store, seq);
        bool failed = heap.failed > 0;
        heap.fail_at = 0;
        assert_int_equal(code, failed ? MS_E_NO_MEMORY : MS_E_DAMAGED);
        without += failed;
        assert_int_equal(find_behind(store, seq), MS_E_DAMAGED);
        ms_close(store);
        if (!failed) break;
    }
    refusals += (unsigned)without;
    assert_true(without > 0);
    drive.rw[at + 9] ^= 0x40;
    store = open_log(MS_LOG_WRITE, false);
    finish(store);
}

static void a_node_that_has_no_memory_is_none(void **state)
{
    (void)state;
    for (size_t k = 1;; k++) {
        ms_store *store = make_log(65);
        ms__log *log = ms__log_of(store);
        ms_close(store);
        store = open_log(MS_LOG_WRITE, false);
        log = ms__log_of(store);
        heap.calls = heap.failed = 0;
        heap.fail_at = k;
        const ms__segment *leaf = ms__segment_of(log, 1, false);
        bool failed = heap.failed > 0;
        heap.fail_at = 0;
        if (failed) assert_null(leaf);
        else assert_non_null(leaf);
        refusals += failed;
        finish(store);
        if (!failed) break;
    }
}

/* ---- what is looked at for the first time, by a handle that has read nothing yet ---- */

static size_t seen; /* by the last look: records, or locations */

static ms_result read_query(ms_store *store, const ms_query *q)
{
    ms_cursor it;
    seen = 0;
    ms_result code = ms_query_open(store, q, &it, NULL);
    if (code != MS_OK) return code;
    while (ms_next(&it) != NULL) seen++;
    return ms_cursor_close(&it, NULL);
}

static ms_result look_at_team(ms_store *store)
{
    static const ms_str team[] = {{"nobody", 6}, {"worker", 6}};
    ms_query q = query_at("place_1");
    q.views = MS_VIEW_TEAM;
    q.agent_keys = team;
    q.n_agent_keys = 2;
    return read_query(store, &q);
}

static ms_result look_at_facts(ms_store *store)
{
    ms_query q = query_at("place_1");
    q.raw = MS_RAW_NOTES | MS_RAW_LOCATIONS;
    return read_query(store, &q);
}

static ms_result look_at_one(ms_store *store)
{
    ms_query q = query_at("place_1");
    q.raw = MS_RAW_MESSAGES | MS_RAW_NOTES | MS_RAW_PIECES;
    q.about_seq = 2;
    return read_query(store, &q);
}

static ms_result look_at_list(ms_store *store)
{
    ms_arena arena;
    ms_list_query q;
    ms_listing list;
    memset(&q, 0, sizeof q);
    test_arena_init(&arena, NULL);
    ms_result code = ms_list(store, &q, &arena, &list, NULL);
    seen = code == MS_OK ? list.count : 0;
    ms_arena_deinit(&arena);
    return code;
}

static ms_result look_at_place(ms_store *store)
{
    ms_arena arena;
    ms_str facts;
    test_arena_init(&arena, NULL);
    ms_result code = ms_location_get(store, MS_STR("place_1"), &arena, &facts, NULL);
    ms_arena_deinit(&arena);
    return code;
}

/* Notes, facts and places of which nothing is left, in leaves and behind them. */
static void add_rare(ms_store *store, uint64_t seq)
{
    ms_stat stat;
    assert_int_equal(ms_note(store, seq, MS_STR("stars"), ms_text("5"), NULL), MS_OK);
    assert_int_equal(
        ms_location_set(store, MS_STR("place_1"), MS_STR("{\"a\":1}"), NULL), MS_OK);
    for (unsigned i = 0; i < 40; i++) {
        assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
        assert_int_equal(store->backend->leave_out(store, stat.last_seq + 100 + i, NULL),
                         MS_OK);
        say_some(store, 1);
    }
}

/* Each allocation of a look fails once: it says so, or has needed it for nothing that it
 * tells. Then there is memory, and the same handle sees all. */
static void must_need_memory(ms_result (*look)(ms_store *))
{
    for (size_t k = 1;; k++) {
        ms_store *store = open_log(MS_LOG_WRITE, false);
        heap.calls = heap.failed = 0;
        heap.fail_at = k;
        ms_result code = look(store);
        size_t some = seen;
        bool failed = heap.failed > 0;
        heap.fail_at = 0;
        if (!failed) assert_int_equal(code, MS_OK);
        if (code != MS_OK) assert_int_equal(code, MS_E_NO_MEMORY);
        refusals += code != MS_OK;
        assert_int_equal(look(store), MS_OK);
        if (code == MS_OK) assert_int_equal(some, seen);
        finish(store);
        if (!failed) break;
    }
}

static void a_first_look_without_memory_says_so(void **state)
{
    static ms_result (*const looks[])(ms_store *) = {look_at_team, look_at_facts,
        look_at_one, look_at_list, look_at_place};
    (void)state;
    ms_store *store = make_log(1);
    add_rare(store, 2);
    while (ms__log_of(store)->index.segments.n < 10) say_some(store, 1);
    add_rare(store, 2);
    ms_close(store);
    for (size_t i = 0; i < sizeof looks / sizeof looks[0]; i++) must_need_memory(looks[i]);
}

/* Behind the last LEAF stands somebody else's message alone: what is asked for is in
 * segments that there is no memory to look into, and that is not an empty answer. */
static void what_the_tail_has_not_is_not_called_absent(void **state)
{
    static ms_result (*const looks[])(ms_store *) = {look_at_team, look_at_facts,
                                                     look_at_one};
    (void)state;
    ms_store *store = make_log(1);
    add_rare(store, 2);
    while (ms__log_of(store)->index.segments.n < 10) say_some(store, 1);
    while (ms__tail_of(ms__log_of(store))->count != 0) say_some(store, 1);
    say(store, "hall", NULL);
    assert_int_equal(ms__tail_of(ms__log_of(store))->count, 1);
    ms_close(store);
    for (size_t i = 0; i < sizeof looks / sizeof looks[0]; i++) must_need_memory(looks[i]);
}

static void a_log_that_is_made_without_memory_is_not_made(void **state)
{
    (void)state;
    for (size_t k = 1;; k++) {
        ms_store *store;
        begin();
        heap.fail_at = k;
        ms_log_desc desc = desc_of(MS_LOG_CREATE);
        ms_result code = ms_log_open(&store, &desc, NULL);
        heap.fail_at = 0;
        if (code == MS_OK) {
            finish(store);
            break;
        }
        assert_int_equal(code, MS_E_NO_MEMORY);
        refusals++;
        disk_is_idle(&drive);
        test_alloc_done(&heap);
        store = open_log(MS_LOG_CREATE, false);
        finish(store);
    }
}


/* ---- calls that fail ---- */

/* A quota is a disk that is full: just what is needed is asked for. */
static int quota(void *ctx, ms_file file, uint64_t offset, uint64_t size)
{
    if (size > 8192) return EDQUOT;
    return drive.os.allocate(ctx, file, offset, size);
}

static void a_quota_leaves_room_for_what_is_needed(void **state)
{
    (void)state;
    begin();
    ms_os os = drive.os;
    ms_log_desc desc = desc_of(MS_LOG_CREATE);
    os.allocate = quota;
    desc.os = &os;
    ms_store *store = open_with(&desc);
    say_some(store, 50);
    finish(store);
}

/* Leaves are there, their SUMMARY cannot be written: a later tick writes it. */
static void a_summary_that_cannot_be_written_is_written_later(void **state)
{
    (void)state;
    for (int how = 0; how < 2; how++)
        for (size_t k = 1;; k++) {
            begin();
            ms_log_desc desc = desc_of(MS_LOG_CREATE);
            desc.engine = how ? MS_ENGINE_WRITE : MS_ENGINE_MAP;
            ms_store *store = open_with(&desc);
            ms__log *log = ms__log_of(store);
            log->opts.ticked = true; /* appends leave that to a tick */
            while (log->index.segments.n < MS__FAN) say_some(store, 1);
            assert_int_equal(log->index.summaries.n, 0);
            trap(TRIP_BIT(WRITE) | TRIP_BIT(ALLOCATE) | TRIP_BIT(MAP), k, true, EIO);
            (void)ms_tick(store, 1000000, NULL);
            bool failed = traps.hits > 0;
            trap(0, 0, false, 0);
            refusals += failed;
            for (int i = 0; i < 50; i++)
                assert_int_equal(ms_tick(store, 1000000, NULL), MS_OK);
            assert_int_equal(log->index.summaries.n, 1);
            finish(store);
            if (!failed) break;
        }
}

static uint64_t largest; /* bytes that the file may have */

static int no_larger(void *ctx, ms_file file, uint64_t offset, uint64_t size)
{
    if (offset + size > largest) return EFBIG;
    return drive.os.allocate(ctx, file, offset, size);
}

/* The file may end just where a tick looks ahead to, within a page: the tick makes room as
 * far as it goes, and does not try until its time is over. */
static void a_tick_goes_no_farther_than_the_file_may(void **state)
{
    (void)state;
    begin();
    ms_os os = drive.os;
    ms_log_desc desc = desc_of(MS_LOG_CREATE);
    desc.engine = MS_ENGINE_MAP;
    desc.segment_size = 1 << 20;
    os.allocate = no_larger;
    desc.os = &os;
    largest = 3 * (MS__ROOM_LEAST + MS__GRAIN);
    ms_store *store = open_with(&desc);
    ms__log *log = ms__log_of(store);
    say_some(store, 1);
    if (log->end % 4096 == 0) say_some(store, 1);
    largest = log->end + MS__ROOM_MOST;
    uint64_t start = drive.micros;
    assert_int_equal(ms_tick(store, 1000000, NULL), MS_OK);
    assert_true(drive.micros - start < 100);
    assert_true(log->append.allocated == largest);
    say_some(store, 50);
    assert_int_equal(count_all(store, everything(), MS_OK), said);
    finish(store);
}

/* A head of zeros with something behind it is read a second time, and that read fails. */
static void a_head_that_cannot_be_read_again_is_an_error(void **state)
{
    static unsigned char bytes[MS__SUPER_SIZE + 4096];
    (void)state;
    bytes[sizeof bytes - 1] = 1;
    for (size_t k = 1;; k++) {
        ms_store *store;
        begin();
        disk_load(&drive, bytes, sizeof bytes);
        trap(TRIP_BIT(READ), k, false, EIO);
        ms_log_desc desc = desc_of(MS_LOG_WRITE);
        ms_result code = ms_log_open(&store, &desc, NULL);
        bool failed = traps.hits > 0;
        assert_int_equal(code, failed ? MS_E_IO : MS_E_FOREIGN);
        refusals++;
        test_alloc_done(&heap);
        drive.locked = false;
        disk_is_idle(&drive);
        if (!failed) break;
    }
}

/* A file that was cut behind a whole record, below what its slot calls durable. */
static void strict_opening_misses_what_was_cut_off(void **state)
{
    ms_store *store = make_log(2);
    (void)state;
    assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
    ms__segment *l = (ms__segment *)(uintptr_t)ms__segment_of(ms__log_of(store), 1, true);
    uint64_t end = l->next;
    ms_close(store);
    disk_resize(&drive, end);
    ms_log_desc desc = desc_of(MS_LOG_READ);
    ms_error err;
    desc.opening = MS_OPEN_STRICT;
    assert_int_equal(ms_log_open(&store, &desc, &err), MS_E_DAMAGED);
    assert_non_null(strstr(err.message, "1 damaged ranges"));
    refusals++;
    drive.boot++; /* nor does a restart make it whole */
    assert_int_equal(ms_log_open(&store, &desc, &err), MS_E_DAMAGED);
    drive.boot--;
    test_alloc_done(&heap);
}


/* ---- several handles ---- */

/* What another handle has stored as durable is not taken back. */
static void a_slot_that_tells_of_more_stays(void **state)
{
    (void)state;
    begin();
    ms_store *one = open_log(MS_LOG_CREATE, true), *two = open_log(MS_LOG_WRITE, true);
    say_some(one, 5);
    assert_int_equal(ms_sync(one, NULL, NULL), MS_OK);
    ms__log *log = ms__log_of(two);
    ms__checkpoint before = ms__checkpoint_newest(log->map.super);
    assert_true(before.end > log->durable.end);
    log->recovery.inside = true;
    assert_int_equal(ms__checkpoint_store(log, log->durable.end, 0, false, NULL), MS_OK);
    log->recovery.inside = false;
    assert_int_equal(ms__checkpoint_store(log, log->durable.end, 0, false, NULL), MS_OK);
    ms__checkpoint after = ms__checkpoint_newest(log->map.super);
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

/* Each look at the file fails once, as the second of two writers has to begin anew. */
static void a_shared_writer_that_cannot_look_at_the_file_says_so(void **state)
{
    (void)state;
    for (size_t k = 1;; k++) {
        begin();
        ms_store *one = open_log(MS_LOG_CREATE, true);
        ms_store *two = open_log(MS_LOG_WRITE, true);
        ms_envelope m = ms_user_message(ms_text("words"));
        say_some(one, 20);
        ms__put64(drive.rw + MS__AT_BUSY, UINT64_MAX); /* an exclusive writer was here */
        trap(TRIP_BIT(STAT), k, false, EIO);
        ms_result code = ms_append(two, MS_STR("room"), &m, NULL, NULL);
        if (code == MS_OK) code = ms_append(one, MS_STR("room"), &m, NULL, NULL);
        bool failed = traps.hits > 0;
        trap(0, 0, false, 0);
        if (!failed) assert_int_equal(code, MS_OK);
        refusals += failed;
        say_some(two, 3);
        say_some(one, 3);
        assert_int_equal(ms_selfcheck(two, NULL), MS_OK);
        ms_close(two);
        finish(one);
        if (!failed) break;
    }
}

/* A flipped bit has led the watermark behind the file's end while a shared writer is open:
 * each look at the file that is needed to see so fails once, and that is what is said. */
static void a_watermark_behind_the_file_needs_looks_at_it(void **state)
{
    (void)state;
    for (size_t k = 1;; k++) {
        begin();
        ms_store *store = open_log(MS_LOG_CREATE, true);
        ms_envelope m = ms_user_message(ms_text("words"));
        ms_error err;
        say_some(store, 20);
        ms__store_mark(drive.rw + MS__AT_MARK, (drive.size & ~(uint64_t)7) + 8192);
        trap(TRIP_BIT(STAT), k, false, EIO);
        ms_result code = ms_append(store, MS_STR("room"), &m, NULL, &err);
        bool failed = traps.hits > 0;
        trap(0, 0, false, 0);
        assert_int_equal(code, failed ? MS_E_IO : MS_OK);
        if (failed) assert_non_null(strstr(err.message, "looking at"));
        assert_false(drive.locked);
        refusals += failed;
        if (failed)
            assert_int_equal(ms_append(store, MS_STR("room"), &m, NULL, NULL), MS_OK);
        assert_int_equal(count_all(store, everything(), MS_E_DAMAGED), 21);
        ms_close(store);
        test_alloc_done(&heap);
        disk_is_idle(&drive);
        if (!failed) break;
    }
}

/* All places for tails are pinned: a reader of an empty file says that it cannot go on. */
static void a_reader_without_a_place_for_a_tail_says_so(void **state)
{
    (void)state;
    begin();
    drive.there = true;
    ms_store *reader = open_log(MS_LOG_READ, false);
    ms_store *store = open_log(MS_LOG_CREATE, false);
    say_some(store, 3);
    ms__log *log = ms__log_of(reader);
    uint32_t kept[MS__PINS];
    memcpy(kept, log->map.pins, sizeof kept);
    for (unsigned i = 0; i < MS__PINS; i++) log->map.pins[i]++;
    assert_int_equal(see_everything(reader), MS_E_FULL);
    memcpy(log->map.pins, kept, sizeof kept);
    assert_int_equal(see_everything(reader), MS_OK);
    ms_query q;
    memset(&q, 0, sizeof q);
    assert_int_equal(count_all(reader, q, MS_OK), 3);
    refusals++;
    ms_close(reader);
    finish(store);
}


/* The same in the middle: a reader never goes on showing what is old without a word. */
static void a_reader_that_cannot_follow_says_so(void **state)
{
    (void)state;
    begin();
    ms_store *store = open_log(MS_LOG_CREATE, false);
    say_some(store, 3);
    ms_store *reader = open_log(MS_LOG_READ, false);
    ms_query q;
    memset(&q, 0, sizeof q);
    assert_int_equal(count_all(reader, q, MS_OK), 3);
    ms__log *log = ms__log_of(reader);
    uint32_t kept[MS__PINS];
    memcpy(kept, log->map.pins, sizeof kept);
    for (unsigned i = 0; i < MS__PINS; i++) log->map.pins[i]++;
    say_some(store, 200); /* more than a segment */
    assert_int_equal(see_everything(reader), MS_E_BUSY);
    assert_int_equal(test_refresh(reader, NULL, NULL), MS_E_BUSY);
    memcpy(log->map.pins, kept, sizeof kept);
    assert_int_equal(count_all(reader, q, MS_OK), 203);
    refusals++;
    ms_close(reader);
    finish(store);
}


/* ---- arena stores ---- */

static void what_an_arena_store_cannot_be_is_refused(void **state)
{
    ms_mem_desc desc;
    ms_store *store;
    (void)state;
    memset(&desc, 0, sizeof desc);
    desc.buffer_size = 4096;
    assert_int_equal(ms_mem_open(&store, &desc, NULL), MS_E_ARGUMENT);
    desc.buffer_size = 0;
    desc.chunk_size = SIZE_MAX / 2 + 1;
    assert_int_equal(ms_mem_open(&store, &desc, NULL), MS_E_ARGUMENT);
    store = make_log(1);
    assert_int_equal(ms_mem_reset(store, NULL), MS_E_UNSUPPORTED);
    assert_null(ms_mem_image(store).ptr);
    finish(store);
    desc.chunk_size = 1 << 20;
    assert_int_equal(ms_mem_open(&store, &desc, NULL), MS_OK);
    assert_null(ms_mem_image(store).ptr);
    ms_close(store);
    refusals += 3;
}

/* Numbers that no message has, in a store with three messages and in an empty one. */
static void raw_queries_beyond_the_ends_give_what_is_there(void **state)
{
    ms_store *store;
    (void)state;
    assert_int_equal(ms_mem_open(&store, NULL, NULL), MS_OK);
    for (size_t n = 0; n <= 3; n += 3) {
        ms_query q = query_at("room");
        q.raw = MS_RAW_MESSAGES | MS_RAW_AMENDS;
        while (n > 0 && count_all(store, q, MS_OK) < n) say(store, "room", NULL);
        q.before_seq = 99;
        assert_int_equal(count_all(store, q, MS_OK), n);
        q.after_seq = 98;
        assert_int_equal(count_all(store, q, MS_OK), 0);
        q.before_seq = 0;
        assert_int_equal(count_all(store, q, MS_OK), 0);
        q.after_seq = 0;
        q.about_seq = 50;
        assert_int_equal(count_all(store, q, MS_OK), 0);
        q = query_at("room");
        q.after_seq = UINT64_MAX;
        assert_int_equal(count_all(store, q, MS_OK), 0);
    }
    ms_close(store);
}

/* A record of an arena store whose header is damaged, among messages that are changed. */
static void a_damaged_record_of_a_changed_place_is_stepped_over(void **state)
{
    ms_store *store;
    const ms_msg *msg;
    uint64_t n;
    (void)state;
    assert_int_equal(ms_mem_open(&store, NULL, NULL), MS_OK);
    for (int i = 0; i < 60; i++) say(store, "room", "ann");
    assert_int_equal(ms_hide(store, 2, NULL), MS_OK);
    ms__mem *m = ms__mem_of(store);
    static const uint32_t which[] = {9, 20, 59};
    for (size_t i = 0; i < 3; i++) {
        uint32_t unit = ms__chunk_entry(ms__postings_chunk(&m->tail.live.all, which[i]),
                                        which[i]);
        ((unsigned char *)(uintptr_t)ms__mem_at(&m->core, (uint64_t)unit * 8))[9] ^= 1;
    }
    assert_int_equal(count_all(store, query_at("room"), MS_E_DAMAGED), 56);
    assert_int_equal(ms_get_by_seq(store, 60, NULL, &msg, NULL), MS_E_DAMAGED);
    ms_envelope better = ms_user_message(ms_text("better"));
    assert_int_equal(ms_amend(store, 60, &better, NULL), MS_E_DAMAGED);
    assert_int_equal(ms_hide_range(store, MS_STR("room"), 8, 25, &n, NULL), MS_OK);
    assert_int_equal(n, 16);
    refusals += 3;
    ms_close(store);
}


/* ---- what a listing looks at ---- */

/* Opens the log anew and lists the newest five. Counts the indexes and records that the
 * handle has looked at. */
static ms_store *list_anew(ms_store *store, bool names_only, uint32_t *indexes,
                           uint32_t *records)
{
    ms_list_query q;
    ms_listing got;
    ms_arena arena;
    ms_close(store);
    store = open_log(MS_LOG_READ, false);
    ms__log *log = ms__log_of(store);
    memset(&q, 0, sizeof q);
    q.limit = 5;
    q.names_only = names_only;
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

static void say_places(ms_store *store, unsigned n)
{
    char place[32];
    for (unsigned i = 0; i < n; i++, said++) {
        snprintf(place, sizeof place, "own_%u", said);
        say(store, place, NULL);
    }
}

static void a_listing_looks_at_what_it_returns(void **state)
{
    uint32_t indexes, records, all;
    ms_store *store = make_log(1);
    (void)state;
    say_places(store, 3000);
    store = list_anew(store, true, &indexes, &records);
    all = ms__log_of(store)->index.segments.n;
    assert_true(all > 10);
    assert_true(indexes <= 2 && records <= 5);
    store = list_anew(store, false, &indexes, &records);
    assert_true(records <= 20); /* each index is asked, no record but those listed */
    ms_close(store);
    store = open_log(MS_LOG_WRITE, false);
    for (unsigned i = 0; i < 3000; i++) say(store, "busy", NULL);
    store = list_anew(store, true, &indexes, &records);
    uint32_t busy = ms__log_of(store)->index.segments.n - all;
    assert_true(indexes <= busy + 2);
    assert_true(records <= MS__LIST_WALK + 20);
    finish(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_listing_looks_at_what_it_returns),
        cmocka_unit_test(a_walk_does_not_begin_with_a_record_that_lies),
        cmocka_unit_test(a_segment_ends_where_the_next_one_begins),
        cmocka_unit_test(leaves_that_are_damaged_in_a_row_are_made_anew),
        cmocka_unit_test(places_are_found_by_whatever_tells_them),
        cmocka_unit_test(a_hint_to_a_leaf_of_the_future_is_not_believed),
        cmocka_unit_test(a_hide_that_says_nothing_hides_nothing),
        cmocka_unit_test(a_hidden_range_in_the_tail_is_leaped_over),
        cmocka_unit_test(a_hidden_range_of_an_arena_store_is_leaped_over),
        cmocka_unit_test(a_team_needs_names_and_room),
        cmocka_unit_test(a_reader_that_catches_up_without_memory_goes_on_later),
        cmocka_unit_test(a_search_that_runs_out_of_memory_in_the_next_segment_says_so),
        cmocka_unit_test(a_node_that_has_no_memory_is_none),
        cmocka_unit_test(a_first_look_without_memory_says_so),
        cmocka_unit_test(what_the_tail_has_not_is_not_called_absent),
        cmocka_unit_test(a_log_that_is_made_without_memory_is_not_made),
        cmocka_unit_test(a_quota_leaves_room_for_what_is_needed),
        cmocka_unit_test(a_summary_that_cannot_be_written_is_written_later),
        cmocka_unit_test(a_tick_goes_no_farther_than_the_file_may),
        cmocka_unit_test(a_head_that_cannot_be_read_again_is_an_error),
        cmocka_unit_test(strict_opening_misses_what_was_cut_off),
        cmocka_unit_test(a_slot_that_tells_of_more_stays),
        cmocka_unit_test(a_shared_writer_that_cannot_look_at_the_file_says_so),
        cmocka_unit_test(a_watermark_behind_the_file_needs_looks_at_it),
        cmocka_unit_test(what_an_arena_store_cannot_be_is_refused),
        cmocka_unit_test(raw_queries_beyond_the_ends_give_what_is_there),
        cmocka_unit_test(a_damaged_record_of_a_changed_place_is_stepped_over),
        cmocka_unit_test(a_reader_without_a_place_for_a_tail_says_so),
        cmocka_unit_test(a_reader_that_cannot_follow_says_so),
    };
    disk_init(&drive, 16 << 20);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    disk_deinit(&drive);
    printf("tally: rare refusals of a log %u\n", refusals);
    return failed;
}
