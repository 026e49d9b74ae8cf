/* Logs from inside, on a disk in memory: a test reads and sets the private state of a
 * handle and the bytes of its file.
 *
 *     ms_store *store = make_log(200);       200 messages in seven places
 *     drive.rw[record_at(store, 5)] ^= 1;    damage
 *     finish(store);                         selfcheck, close, nothing is left open
 *
 * Define _GNU_SOURCE and MSGSTORE_IMPLEMENTATION, and include msgstore.h, before it.
 */

#ifndef LOG_INTERNALS_H
#define LOG_INTERNALS_H

#include "numbered_messages.h"

static disk drive;
static os_faults traps;
static test_alloc heap;
static unsigned said;         /* messages in seven places by turns */

static inline ms_log_desc desc_of(ms_log_mode mode)
{
    ms_log_desc desc = {.path = "log.msl", .mode = mode, .os = &traps.os,
                        .segment_size = MS_LOG_SEGMENT_MIN, .alloc = heap.alloc};
    return desc;
}

static inline ms_store *open_with(const ms_log_desc *desc)
{
    return must_open_log(desc, "open");
}

static inline ms_store *open_log(ms_log_mode mode)
{
    ms_log_desc desc = desc_of(mode);
    return open_with(&desc);
}

static inline ms_store *open_shared(ms_log_mode mode)
{
    ms_log_desc desc = desc_of(mode);
    desc.shared = true;
    return open_with(&desc);
}

static inline void say(ms_store *store, const char *place, const char *agent)
{
    ms_envelope m = ms_user_message(ms_text("some words that take a little room"));
    if (agent != NULL) m.agent_key = ms_str_of(agent);
    m.has_time = said % 3 != 0;
    m.time_ns = SECONDS((double)said);
    assert_int_equal(ms_append(store, ms_str_of(place), &m, NULL, NULL), MS_OK);
}

static inline void say_some(ms_store *store, size_t n)
{
    char place[32];
    for (; n > 0; n--, said++) {
        snprintf(place, sizeof place, "place_%u", said % 7);
        say(store, place, said % 2 ? "worker" : NULL);
    }
}

/* Begins with an empty disk, without faults. */
static inline void begin(void)
{
    disk_clear(&drive);
    drive.files = drive.maps = 0; /* also after a test that failed */
    said = 0;
    test_alloc_init(&heap);
    os_fault_init(&traps, &drive.os);
}

static inline ms_store *make_log(size_t messages)
{
    begin();
    ms_store *store = open_log(MS_LOG_CREATE);
    say_some(store, messages);
    return store;
}

/* Makes a log of n segments, and a few messages after them. */
static inline ms_store *make_segments(uint32_t n)
{
    ms_store *store = make_log(0);
    while (ms__log_of(store)->index.segments.n < n) say_some(store, 1);
    say_some(store, 5);
    return store;
}

/* Closes the log, and checks that nothing is left. */
static inline void end(ms_store *store)
{
    ms_close(store);
    test_alloc_done(&heap);
    disk_is_idle(&drive);
}

static inline void finish(ms_store *store)
{
    ms_error err;
    if (ms_selfcheck(store, &err) != MS_OK) fail_msg("afterwards: %s", err.message);
    end(store);
}

static inline ms_query query_at(const char *place)
{
    ms_query q;
    memset(&q, 0, sizeof q);
    if (place != NULL) q.views = MS_VIEW_TIMELINE;
    if (place != NULL) q.location = ms_str_of(place);
    return q;
}

/* Counts the messages of a query; expected: the result of its cursor. */
static inline size_t count_all(ms_store *store, ms_query q, ms_result expected)
{
    ms_cursor it;
    size_t n = 0;
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while (ms_next(&it) != NULL) n++;
    assert_int_equal(ms_cursor_close(&it, NULL), expected);
    return n;
}

static inline ms_result look_up(ms_store *store, uint64_t seq)
{
    const ms_msg *msg;
    return ms_get_by_seq(store, seq, NULL, &msg, NULL);
}

static inline ms__record_walk replay_at(ms__log *log, uint64_t at)
{
    ms__record_walk s = {.log = log, .at = at};
    s.limit = s.trusted = log->end;
    s.quiet = true;
    return s;
}

/* Returns the first record of that kind and type (0: any) from an offset on, and sets
 * *offset to its place. */
static inline const unsigned char *record_from(ms__log *log, uint64_t *offset,
                                               unsigned kind, unsigned type)
{
    const unsigned char *r;
    ms__record_walk s = replay_at(log, *offset);
    while (ms__record_walk_next(&s, &r, offset) == MS__FOUND_RECORD)
        if (r[4] == kind && (type == 0 || r[5] == type)) return r;
    fail_msg("the log has no record of kind %u, type %u", kind, type);
    return NULL;
}

static inline const unsigned char *index_record(ms__log *log, unsigned type,
                                                uint64_t *offset)
{
    *offset = MS__FIRST_RECORD;
    return record_from(log, offset, MS__KIND_INDEX, type);
}

/* Returns writable bytes of a record. */
static inline unsigned char *writable(const unsigned char *r)
{
    return drive.rw + (r - drive.ro);
}

/* Returns the offset of message i of the tail. */
static inline uint64_t tail_record_at(const ms__log *log, uint32_t i)
{
    const ms__tail *t = log->core.tail;
    return ms__tail_offset(t, ms__postings_entry(&t->names.all, i));
}

/* Runs the tests of a suite, on a disk of 16 MiB. */
static inline int run_inside_tests(void)
{
    disk_init(&drive, 16 << 20);
    begin();
    int failed = run_all_tests(NULL, NULL);
    disk_deinit(&drive);
    return failed;
}

#endif /* LOG_INTERNALS_H */
