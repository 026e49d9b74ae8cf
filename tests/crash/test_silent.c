/* What each call says when a record that belongs to its answer is damaged. MS_OK means
 * that nothing is known to be missing: so every row below names the one code that its call
 * gives, for a damaged message in the open part of a log and in a sealed segment, for a
 * lost tail before and after the next writer, and for an arena store after salvage. What
 * has nothing to do with the damage is MS_OK.
 *
 * Left out: that what is shown is right (test_corrupt); other operations (test_damage).
 */

#define _GNU_SOURCE
#include "numbered_messages.h"
#include "file_format.h"
#include "arena.h"
#include "scratch.h"

#include <sys/mman.h>
#include <sys/wait.h>

enum { PAIRS = 40, OF = 7, HIT = 3 * OF + 2, NEAR = 6 }; /* HIT: the result of pair OF */

static char *path;
static ms_arena arena;

/* A log of pairs, a call and its result, in room, and after each pair a message elsewhere;
 * closed. */
static void make_log(size_t segment)
{
    ms_error err;
    char text[700], id[20];
    ms_log_desc desc = {.path = path, .mode = MS_LOG_NEW, .segment_size = segment};
    (void)remove(path);
    ms_store *store = must_open_log(&desc, "a log");
    for (int i = 0; i < PAIRS; i++) {
        memset(text, '.', sizeof text);
        text[snprintf(text, sizeof text, "<result %d>", i)] = '.';
        text[segment != 0 ? 600 : 60] = 0;
        snprintf(id, sizeof id, "call_%d", i);
        ms_envelope m[3] = {ms_action(MS_STR("pay"), ms_json(MS_STR("{}")), ms_str_of(id)),
                            ms_observation(ms_text(text), ms_str_of(id)),
                            ms_user_message(ms_text("of another"))};
        m[0].agent_key = m[1].agent_key = MS_STR("worker");
        m[0].location = m[1].location = MS_STR("room");
        m[2].location = MS_STR("elsewhere");
        must_ok(ms_append_batch(store, m, 3, NULL, &err), &err, "append");
    }
    must_ok(ms_sync(store, NULL, &err), &err, "sync");
    ms_close(store);
}

/* The first place of a text in the file; -1: it is not there. */
static long find_in_file(const char *text)
{
    static char bytes[1 << 20];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f), len = strlen(text);
    fclose(f);
    for (size_t i = 0; i + len <= n; i++)
        if (memcmp(bytes + i, text, len) == 0) return (long)i;
    return -1;
}

static long place_of(const char *text)
{
    long at = find_in_file(text);
    if (at < 0) fail_msg("%s is not in the file", text);
    return at;
}

static void change_byte(long at)
{
    FILE *f = fopen(path, "r+b");
    assert_true(f != NULL && fseek(f, at, SEEK_SET) == 0);
    int byte = fgetc(f);
    assert_true(byte != EOF && fseek(f, at, SEEK_SET) == 0 && fputc(byte ^ 4, f) != EOF);
    assert_int_equal(fclose(f), 0);
}

static ms_store *reader(ms_log_opening opening)
{
    ms_log_desc desc = {.path = path, .mode = MS_LOG_READ, .opening = opening};
    return must_open_log(&desc, "a reader");
}

/* Opens a query, reads it, closes it. */
static ms_result reads(ms_store *store, const ms_query *q, size_t *n)
{
    ms_cursor it;
    *n = 0;
    ms_result result = ms_query_open(store, q, &it, NULL);
    if (result != MS_OK) return result;
    while (ms_next(&it) != NULL) ++*n;
    return ms_cursor_close(&it, NULL);
}

static void must_read(ms_store *store, const char *what, ms_query q, ms_result wanted,
                      size_t messages)
{
    size_t n;
    ms_result result = reads(store, &q, &n);
    if (result != wanted || n != messages)
        fail_msg("%s: %s after %zu messages, not %s after %zu", what,
                 ms_result_text(result), n, ms_result_text(wanted), messages);
}

static ms_error err;

static void must_be(const char *what, ms_result result, ms_result wanted)
{
    if (result != wanted)
        fail_msg("%s: %s (%s), not %s", what, ms_result_text(result), err.message,
                 ms_result_text(wanted));
}

static void body_begin(ms_buf *body)
{
    memset(body, 0, sizeof *body);
    body->arena = &arena;
}

/* What history, request and projection of the worker say. */
static void the_model_learns_it(ms_store *store, ms_result wanted)
{
    ms_memory memory;
    ms_cursor it;
    ms_buf body;
    ms_project_report report;
    ms_request_desc ask;
    ms_memory_init(&memory, store, MS_STR("room"), MS_STR("worker"));
    ms_result result = ms_get_history(&memory, &it, NULL);
    while (ms_next(&it) != NULL) continue;
    ms_result end = ms_cursor_close(&it, NULL);
    must_be("a history", result != MS_OK ? result : end, wanted);
    memset(&ask, 0, sizeof ask);
    ask.profile = ms_profile_find(MS_STR("anthropic"));
    ask.opts.model = MS_STR("m");
    ask.extra = MS_STR("{\"max_tokens\":9}");
    for (int times = 0; times < 3; times++) {
        body_begin(&body);
        ask.memory = times == 1 ? &memory : NULL;
        ask.store = times == 1 ? NULL : store;
        ask.location = times == 1 ? ms_str_n(NULL, 0) : MS_STR("room");
        if (times == 2) ask.opts.newest = 2; /* it reads all of the location */
        must_be("a request", ms_request(&ask, ms_buf_write, &body, &report, &err),
                wanted);
        assert_true(wanted == MS_OK || ms_buf_text(&body).len == 0); /* nothing is sent */
    }
    ask.opts.newest = 0;
    body_begin(&body);
    ask.arena = &arena;
    must_be("a projection", ms_project(&ask, ms_buf_write, &body, &report, &err), wanted);
}

/* What copies of the location say. */
static void copies_say_it(ms_store *store, ms_result wanted, size_t copied)
{
    ms_store *into;
    ms_copy_report report;
    ms_mem_desc desc = {0};
    const ms_str room = MS_STR("room");
    const ms_keep keep = {.locations = &room, .n_locations = 1};
    assert_int_equal(ms_mem_open(&into, &desc, NULL), MS_OK);
    must_be("a copy", ms_copy(into, store, &keep, &arena, &report, &err), wanted);
    assert_int_equal(report.copied, copied);
    assert_true((report.damaged > 0) == (wanted != MS_OK));
    ms_close(into);
}

/* What a search says. */
static void a_search_says_it(ms_store *store, ms_result wanted)
{
    ms_finder finder;
    ms_found found;
    ms_find_query q = {.query = {.location = MS_STR("room")}, .text = MS_STR("zebra")};
    assert_int_equal(ms_find_open(store, &q, &finder, NULL), MS_OK);
    assert_false(ms_find_next(&finder, &found));
    must_be("a search", ms_find_close(&finder, &err), wanted);
}

static bool in_segment; /* an index has the names and their counts */

/* What listings say, which have all names here; of the agents of another location: MS_OK. */
static void listings_say_it(ms_store *store, ms_result wanted)
{
    ms_listing list;
    ms_list_query agents = {.agents = true, .location = MS_STR("room")};
    must_be("a listing", ms_list(store, NULL, &arena, &list, &err),
            in_segment ? MS_OK : wanted);
    assert_int_equal(list.count, 2);
    must_be("agents", ms_list(store, &agents, &arena, &list, &err), wanted);
    assert_int_equal(list.count, 1);
    agents.location = MS_STR("elsewhere");
    must_be("agents of another location", ms_list(store, &agents, &arena, &list, &err),
            MS_OK);
    assert_int_equal(list.count, 0);
}

/* A store of which the message HIT (the result of a call) is damaged, or a copy without
 * damage: then wanted is MS_OK. */
static void every_call_says_it(ms_store *store, ms_result wanted)
{
    const ms_msg *msg;
    const ms_str worker = MS_STR("worker");
    bool damaged = wanted != MS_OK;
    size_t all = 2 * PAIRS - damaged, after = 2 * (PAIRS - OF - 1);
    const ms_query room = {.location = MS_STR("room")};
    ms_query q = {0};
    must_read(store, "everything", q, wanted, 3 * PAIRS - damaged);
    must_read(store, "a location", room, wanted, all);
    q = room;
    q.reverse = true;
    must_read(store, "a location, reversed", q, wanted, all);
    q = room;
    q.by_time = true;
    q.arena = &arena;
    must_read(store, "a location by time", q, wanted, all);
    q = room;
    q.views = MS_VIEW_AGENT;
    q.agent_key = worker;
    must_read(store, "an agent", q, wanted, all);
    q = room;
    q.views = MS_VIEW_TEAM;
    q.agent_keys = &worker;
    q.n_agent_keys = 1;
    must_read(store, "a team", q, wanted, all);
    q = room;
    q.limit = NEAR;
    must_read(store, "the newest few", q, MS_OK, NEAR);
    q.limit = after;
    must_read(store, "the newest, all after the damage", q, MS_OK, after);
    q = room;
    q.after_seq = HIT + 2;
    must_read(store, "all after the damage", q, MS_OK, after - 1);
    q.after_seq = HIT - 1;
    must_read(store, "all from the damage on", q, wanted, after + !damaged);
    must_be("its number", ms_get_by_seq(store, HIT, NULL, &msg, &err), wanted);
    must_be("the number before", ms_get_by_seq(store, HIT - 1, NULL, &msg, NULL), MS_OK);
    must_be("the number after", ms_get_by_seq(store, HIT + 2, NULL, &msg, NULL), MS_OK);
    must_be("no number", ms_get_by_seq(store, 999, NULL, &msg, NULL), MS_E_NOT_FOUND);
    the_model_learns_it(store, wanted);
    copies_say_it(store, wanted, all);
    a_search_says_it(store, wanted);
    listings_say_it(store, wanted);
    q = room;
    q.location = MS_STR("elsewhere");
    must_read(store, "another location", q, MS_OK, PAIRS);
}

static void a_fork_says_it(ms_result wanted)
{
    ms_log_desc desc = {.path = path, .mode = MS_LOG_WRITE};
    const ms_query fork = {.location = MS_STR("fork")};
    size_t n;
    ms_store *store = must_open_log(&desc, "a writer");
    must_be("a fork", ms_fork(store, MS_STR("room"), 3 * PAIRS - 1, fork.location, &arena,
                              NULL), wanted);
    (void)reads(store, &fork, &n);
    assert_int_equal(n, wanted == MS_OK ? 2 * PAIRS : 0);
    ms_close(store);
}

static void each_store_says_it(ms_result wanted)
{
    ms_store *store = reader(MS_OPEN_NORMAL), *joined;
    every_call_says_it(store, wanted);
    ms_union_desc desc = {.stores = &store, .n_stores = 1};
    if (ms_union_open(&joined, &desc, NULL) == MS_OK) {
        size_t n;
        const ms_query q = {.location = MS_STR("room"), .arena = &arena};
        must_be("a union", reads(joined, &q, &n), wanted);
        ms_close(joined);
    }
    ms_close(store);
}

TEST(every_call_says_it_when_a_message_of_the_open_part_is_damaged)
{
    test_arena_init(&arena, NULL);
    make_log(0);
    each_store_says_it(MS_OK);
    change_byte(place_of("<result 7>"));
    each_store_says_it(MS_E_DAMAGED);
    a_fork_says_it(MS_E_DAMAGED);
    each_store_says_it(MS_E_DAMAGED);
    ms_arena_deinit(&arena);
}

TEST(every_call_says_it_when_a_message_of_a_sealed_segment_is_damaged)
{
    test_arena_init(&arena, NULL);
    make_log(MS_LOG_SEGMENT_MIN);
    in_segment = true;
    each_store_says_it(MS_OK);
    change_byte(place_of("<result 7>"));
    each_store_says_it(MS_E_DAMAGED);
    a_fork_says_it(MS_E_DAMAGED);
    in_segment = false;
    ms_arena_deinit(&arena);
}

/* Rewrites the log: all of it is clustered then. */
static void compact_log(void)
{
    ms_log_desc desc = {.path = path, .mode = MS_LOG_WRITE,
                        .segment_size = MS_LOG_SEGMENT_MIN};
    ms_store *store = must_open_log(&desc, "a writer");
    must_be("a rewrite", ms_log_rewrite(store, &desc, true, NULL, NULL, &err), MS_OK);
    ms_close(store);
}

/* Damages segment indexes from a place of the file on, so that readers derive them, at
 * most `most`. Returns how many there are. */
static int change_indexes_from(long from, int most)
{
    static unsigned char bytes[1 << 20];
    int found = 0;
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    for (size_t at = FILE_SUPERBLOCK; at + FILE_HEADER < n && file_get32(bytes + at) > 0;
         at += file_padded(file_get32(bytes + at))) {
        if (bytes[at + 4] != FILE_KIND_INDEX || bytes[at + 5] != FILE_INDEX_SEGMENT)
            continue;
        found++;
        if ((long)at < from || most-- <= 0) continue;
        change_byte((long)(at + FILE_HEADER + 40));
    }
    return found;
}

static int change_indexes(void) { return change_indexes_from(0, 1000); }

TEST(every_call_says_it_when_a_message_of_a_clustered_segment_is_damaged)
{
    test_arena_init(&arena, NULL);
    make_log(MS_LOG_SEGMENT_MIN);
    compact_log();
    in_segment = true;
    each_store_says_it(MS_OK);
    change_byte(place_of("<result 7>"));
    each_store_says_it(MS_E_DAMAGED);
    a_fork_says_it(MS_E_DAMAGED);
    each_store_says_it(MS_E_DAMAGED);
    in_segment = false;
    ms_arena_deinit(&arena);
}

TEST(a_clustered_log_without_its_indexes_is_read_as_before)
{
    test_arena_init(&arena, NULL);
    make_log(MS_LOG_SEGMENT_MIN);
    compact_log();
    assert_true(change_indexes() > 0);
    in_segment = true;
    each_store_says_it(MS_OK);
    a_fork_says_it(MS_OK);
    in_segment = false;
    ms_arena_deinit(&arena);
}

/* The place of a damaged record says nothing of its number then: each query that reads the
 * segment reports it, also where it asks for others. header: of that nothing is known. */
static void a_clustered_hole_is_reported(bool header)
{
    const ms_msg *msg;
    ms_query q = {.location = MS_STR("room")};
    make_log(MS_LOG_SEGMENT_MIN);
    compact_log();
    assert_true(change_indexes() > 0);
    change_byte(place_of("<result 7>") - (header ? 40 : 0));
    ms_store *store = reader(MS_OPEN_NORMAL);
    must_read(store, "a location", q, MS_E_DAMAGED, 2 * PAIRS - 1);
    q.limit = NEAR;
    must_read(store, "the newest few", q, MS_E_DAMAGED, NEAR);
    q.limit = 0;
    q.after_seq = HIT + 2;
    must_read(store, "all after it", q, MS_E_DAMAGED, 2 * (PAIRS - OF - 1) - 1);
    q.after_seq = 0;
    q.before_seq = 1;
    must_read(store, "what is before the first", q, MS_E_DAMAGED, 0);
    q.before_seq = HIT - 1;
    must_read(store, "all before it", q, MS_E_DAMAGED, 2 * OF);
    q.after_seq = HIT - 1;
    q.before_seq = HIT + 1;
    must_read(store, "it alone", q, MS_E_DAMAGED, 0);
    q.after_seq = q.before_seq = 0;
    q.location = MS_STR("elsewhere");
    must_read(store, "another location", q, header ? MS_E_DAMAGED : MS_OK, PAIRS);
    must_be("its number", ms_get_by_seq(store, HIT, NULL, &msg, &err), MS_E_DAMAGED);
    /* it may have been a change of these */
    must_be("the one before", ms_get_by_seq(store, HIT - 1, NULL, &msg, &err),
            header ? MS_E_DAMAGED : MS_OK);
    must_be("the one after", ms_get_by_seq(store, HIT + 1, NULL, &msg, &err),
            header ? MS_E_DAMAGED : MS_OK);
    must_be("no number", ms_get_by_seq(store, 999, NULL, &msg, &err),
            header ? MS_E_DAMAGED : MS_E_NOT_FOUND);
    ms_close(store);
}

TEST(damage_in_a_clustered_segment_is_reported_whatever_its_place)
{
    a_clustered_hole_is_reported(false);
    a_clustered_hole_is_reported(true);
}

/* The file ends in the middle of a clustered segment: it may lack any number of that, and
 * a writer does not forget it. */
static void each_number_is_reported(const char *when)
{
    bool there[3 * PAIRS + 1] = {false};
    ms_cursor it;
    const ms_msg *msg;
    size_t n, missing = 0;
    const ms_query all = {.views = MS_VIEW_TIMELINE}, room = {.location = MS_STR("room")};
    ms_store *store = reader(MS_OPEN_NORMAL);
    must_be(when, ms_query_open(store, &all, &it, &err), MS_OK);
    while ((msg = ms_next(&it)) != NULL)
        if (ms_seq(msg) <= 3 * PAIRS) there[ms_seq(msg)] = true;
    must_be(when, ms_cursor_close(&it, &err), MS_E_DAMAGED);
    must_be(when, reads(store, &room, &n), MS_E_DAMAGED);
    for (uint64_t seq = 1; seq <= 3 * PAIRS; seq++) {
        if (there[seq]) continue;
        missing++;
        must_be(when, ms_get_by_seq(store, seq, NULL, &msg, &err), MS_E_DAMAGED);
        ms_query one = {.after_seq = seq - 1, .before_seq = seq + 1};
        must_read(store, when, one, MS_E_DAMAGED, 0);
        one.location = MS_STR("room");
        must_read(store, when, one, MS_E_DAMAGED, 0);
    }
    assert_in_range(missing, PAIRS, 2 * PAIRS);
    ms_close(store);
}

TEST(numbers_are_reported_when_the_file_ends_inside_a_clustered_segment)
{
    make_log(MS_LOG_SEGMENT_MIN);
    compact_log();
    FILE *f = fopen(path, "rb");
    assert_true(f != NULL && fseek(f, 0, SEEK_END) == 0);
    assert_int_equal(truncate(path, ftell(f) / 3), 0);
    fclose(f);
    each_number_is_reported("a reader");
    ms_log_desc desc = {.path = path, .mode = MS_LOG_WRITE,
                        .segment_size = MS_LOG_SEGMENT_MIN};
    for (int times = 0; times < 3; times++) {
        ms_envelope m = ms_user_message(ms_text("one of a later segment"));
        ms_store *store = must_open_log(&desc, "a writer");
        for (int i = 0; i < 40; i++)
            must_be("append", ms_append(store, MS_STR("later"), &m, NULL, &err), MS_OK);
        ms_close(store);
        each_number_is_reported("a reader after a writer");
    }
}

/* The newest message of a segment is damaged, its index, and that of the next segment,
 * which has notes alone: nobody knows what was there but that something was. */
TEST(a_loss_before_a_segment_of_notes_is_reported)
{
    enum { MESSAGES = 60 };
    const ms_msg *msg;
    ms_log_desc desc = {.path = path, .mode = MS_LOG_NEW,
                        .segment_size = MS_LOG_SEGMENT_MIN};
    (void)remove(path);
    ms_store *store = must_open_log(&desc, "a log");
    ms_envelope m = ms_user_message(ms_text("hello hello hello"));
    for (int i = 1; i <= MESSAGES; i++) {
        if (i == MESSAGES) m = ms_user_message(ms_text("<the last one>"));
        must_be("append", ms_append(store, MS_STR("room"), &m, NULL, &err), MS_OK);
    }
    m = ms_user_message(ms_text("later"));
    for (uint64_t seq = 1; seq <= 14; seq++)
        must_be("note", ms_note(store, seq, MS_STR("rating"),
                                ms_text("good enough for a note"), &err), MS_OK);
    for (int i = 0; i < 40; i++)
        must_be("append", ms_append(store, MS_STR("room"), &m, NULL, &err), MS_OK);
    ms_close(store);
    change_byte(place_of("<the last one>") - 40);
    assert_true(change_indexes_from(place_of("<the last one>"), 2) > 3);
    store = reader(MS_OPEN_NORMAL);
    ms_query q = {.after_seq = MESSAGES - 1, .before_seq = MESSAGES + 1};
    must_read(store, "it alone", q, MS_E_DAMAGED, 0);
    q.before_seq = 0;
    must_read(store, "from it on", q, MS_E_DAMAGED, 40);
    must_be("its number", ms_get_by_seq(store, MESSAGES, NULL, &msg, &err), MS_E_DAMAGED);
    ms_close(store);
}

/* Page 0, the index of a clustered segment, the next segment, and the first record of the
 * one after that are damaged: what is left of that one stands in one segment alone. */
TEST(nothing_is_shown_twice_behind_a_clustered_segment_without_an_index)
{
    enum { NOTES = 30 };
    static unsigned char bytes[1 << 20];
    char text[40];
    ms_log_desc desc = {.path = path, .mode = MS_LOG_WRITE,
                        .segment_size = MS_LOG_SEGMENT_MIN};
    make_log(MS_LOG_SEGMENT_MIN);
    compact_log();
    ms_store *store = must_open_log(&desc, "a writer");
    for (int i = 0; i < NOTES; i++) {
        snprintf(text, sizeof text, "<note %d>", i);
        must_be("note", ms_note(store, 1, MS_STR("rating"), ms_text(text), &err), MS_OK);
    }
    ms_close(store);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f), at = FILE_SUPERBLOCK, third = 0;
    size_t first = 0, end = 0, left = 0;
    fclose(f);
    for (int indexes = 0; at + FILE_HEADER < n && file_get32(bytes + at) > 0; ) {
        bool index = bytes[at + 4] == FILE_KIND_INDEX;
        if (index && indexes == 0) first = at;
        at += file_padded(file_get32(bytes + at));
        indexes += index;
        if (index && indexes == 2) third = at;
        if (index && indexes == 3 && end == 0) end = at;
        if (third > 0 && at > third && end == 0) left++;
    }
    assert_true(first > 0 && third > first && left > 1);
    end = third + file_padded(file_get32(bytes + third));
    f = fopen(path, "r+b");
    assert_non_null(f);
    for (int page = 0; page < 4096; page++) fputc(0, f);
    assert_int_equal(fseek(f, (long)first, SEEK_SET), 0);
    for (at = first; at < end; at++) fputc(0, f);
    assert_int_equal(fclose(f), 0);
    store = reader(MS_OPEN_NORMAL);
    const ms_query all = {.raw = MS_RAW_ALL};
    ms_cursor it;
    const ms_msg *msg, *last = NULL;
    size_t messages = 0, notes = 0;
    must_be("everything", ms_query_open(store, &all, &it, &err), MS_OK);
    while ((msg = ms_next(&it)) != NULL) {
        bool note = ms_kind_of(msg) == MS_KIND_NOTE;
        if (note && last) assert_true(msg > last); /* they stand in their order */
        if (note) last = msg;
        notes += note;
        messages += !note;
    }
    must_be("everything", ms_cursor_close(&it, &err), MS_E_DAMAGED);
    assert_int_equal(messages, 3 * PAIRS);
    assert_in_range(notes, left - 1, NOTES - 2);
    ms_close(store);
}

/* Appends messages with numbers from first on. */
static void append_from(ms_store *store, uint64_t first, int n)
{
    ms_append_opts opts = {.keep_seq = true};
    ms_envelope m = ms_user_message(ms_text("a message that has a number of its own"));
    m.location = MS_STR("room");
    for (int i = 0; i < n; i++) {
        m.seq = first + (uint64_t)i;
        must_be("append", ms_append_batch(store, &m, 1, &opts, &err), MS_OK);
    }
}

/* Places of clustered messages are their numbers, which have to fit. */
TEST(messages_with_numbers_of_over_32_bits_are_not_clustered)
{
    enum { MESSAGES = 200 };
    ms_log_desc desc = {.path = path, .mode = MS_LOG_NEW,
                        .segment_size = MS_LOG_SEGMENT_MIN};
    const ms_query all = {0};
    for (int less = 0; less < 2; less++) {
        ms_log_report report;
        (void)remove(path);
        desc.mode = MS_LOG_NEW;
        ms_store *store = must_open_log(&desc, "a log");
        append_from(store, UINT32_MAX - MESSAGES + 1 - (uint64_t)less, MESSAGES);
        ms_close(store);
        compact_log();
        must_be("verify", ms_log_verify(&desc, &report, &err), MS_OK);
        assert_int_equal(report.clustered, less ? MESSAGES : 0);
        store = reader(MS_OPEN_NORMAL);
        must_read(store, "all", all, MS_OK, MESSAGES);
        ms_close(store);
        if (!less) continue;
        /* wide numbers follow; nobody knows the place of the first index, and the second
         * one is damaged: one segment is derived from both */
        (void)change_indexes();
        desc.mode = MS_LOG_WRITE;
        store = must_open_log(&desc, "a writer");
        append_from(store, (uint64_t)1 << 40, MESSAGES);
        ms_close(store);
        assert_true(change_indexes_from((long)report.end, 1) > 2);
        store = reader(MS_OPEN_NORMAL);
        ms_query q = {.after_seq = UINT32_MAX - 100, .before_seq = UINT32_MAX - 98};
        size_t n;
        must_be("everything", reads(store, &all, &n), MS_E_DAMAGED);
        must_be("one of the first", reads(store, &q, &n), MS_E_DAMAGED);
        ms_close(store);
    }
}

/* Copies the log, which fork or a change has touched, from or to a kept one. */
static void log_kept(bool keep)
{
    static unsigned char bytes[1 << 20];
    static size_t n;
    FILE *f = fopen(path, keep ? "rb" : "wb");
    assert_non_null(f);
    if (keep) n = fread(bytes, 1, sizeof bytes, f);
    else assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* Place 1 has the numbers 2, 5, 8 ... of so many. */
static void read_from_each_place(size_t messages)
{
    for (size_t after = 2; after < messages; after += 30) {
        size_t last = after + 30 < messages ? after + 30 : messages;
        ms_query q = {.location = MS_STR("place 1"), .after_seq = after};
        ms_store *store = reader(MS_OPEN_NORMAL);
        must_read(store, "from a place on", q, MS_OK,
                  (messages + 1) / 3 - (after + 1) / 3);
        ms_close(store);
        store = reader(MS_OPEN_NORMAL);
        q.before_seq = after + 31;
        must_read(store, "between two places", q, MS_OK,
                  (last + 1) / 3 - (after + 1) / 3);
        ms_close(store);
        ms_log_desc desc = {.path = path, .mode = MS_LOG_WRITE};
        store = must_open_log(&desc, "a writer");
        must_be("fork", ms_fork(store, q.location, after, MS_STR("fork"), NULL, &err),
                MS_OK);
        ms_query forked = {.location = MS_STR("fork")};
        must_read(store, "a fork", forked, MS_OK, (after + 1) / 3);
        ms_close(store);
        log_kept(false);
    }
}

/* In a clustered segment one block of the index is damaged, and bodies of a location. The
 * index is derived while it is read, without those: places of another location must stay
 * where they are. */
TEST(places_of_a_clustered_segment_stay_when_its_index_is_derived)
{
    enum { MESSAGES = 1200 };
    static unsigned char bytes[1 << 20];
    char place[20], text[40];
    ms_log_desc desc = {.path = path, .mode = MS_LOG_NEW, .segment_size = 4096};
    (void)remove(path);
    ms_store *store = must_open_log(&desc, "a log");
    for (int i = 0; i < MESSAGES; i++) {
        snprintf(place, sizeof place, "place %d", i % 3);
        snprintf(text, sizeof text, "<said %d>", i);
        ms_envelope m = ms_user_message(ms_text(text));
        must_be("append", ms_append(store, ms_str_of(place), &m, NULL, &err), MS_OK);
    }
    desc.mode = MS_LOG_WRITE;
    must_be("a rewrite", ms_log_rewrite(store, &desc, true, NULL, NULL, &err), MS_OK);
    ms_close(store);
    change_byte(place_of("<said 3>"));
    change_byte(place_of("<said 9>"));
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f), at = FILE_SUPERBLOCK;
    fclose(f);
    while (at + FILE_HEADER < n && bytes[at + 4] != FILE_KIND_INDEX)
        at += file_padded(file_get32(bytes + at));
    assert_true(at + FILE_HEADER < n && file_get32(bytes + at + 212) == 1);
    size_t size = file_get32(bytes + at);
    assert_true(size > 4 * 4096);
    for (size_t block = 0; block * 4096 + 8 < size; block++) {
        long changed = (long)(at + size - 8 - block * 4096);
        change_byte(changed);
        log_kept(true);
        read_from_each_place(MESSAGES);
        change_byte(changed);
    }
}

/* A message is hidden, and another one replaced; then the two changes are damaged. What
 * they were about is not shown. header: that is damaged, too, so a change of any message
 * may be missing. */
static void changes_are_damaged(size_t segment, bool header)
{
    const ms_msg *msg;
    ms_query q = {.location = MS_STR("room")};
    make_log(segment);
    ms_log_desc desc = {.path = path, .mode = MS_LOG_WRITE, .segment_size = segment};
    ms_envelope m = ms_observation(ms_text("<replaced>"), MS_STR("call_7"));
    ms_store *store = must_open_log(&desc, "a writer");
    must_be("a hide", ms_hide(store, 5, &err), MS_OK);
    must_be("an amend", ms_amend(store, HIT, &m, &err), MS_OK);
    for (int i = 0; i < 40 && segment != 0; i++)
        must_be("append", ms_append(store, MS_STR("elsewhere"), &m, NULL, &err), MS_OK);
    ms_close(store);
    store = reader(MS_OPEN_NORMAL);
    must_read(store, "a location", q, MS_OK, 2 * PAIRS - 1);
    must_be("the hidden one", ms_get_by_seq(store, 5, NULL, &msg, &err), MS_E_NOT_FOUND);
    ms_close(store);
    change_byte(place_of("\"first\":5") - (header ? 40 : 0));
    change_byte(place_of("<replaced>") - (header ? 40 : 0));
    store = reader(MS_OPEN_NORMAL);
    must_read(store, "a location", q, MS_E_DAMAGED, 2 * PAIRS - (header ? 0 : 2));
    q.after_seq = HIT;
    must_read(store, "what follows", q, header ? MS_E_DAMAGED : MS_OK, 2 * (PAIRS - OF - 1));
    q.after_seq = 0;
    q.location = MS_STR("elsewhere");
    must_read(store, "another location", q, header && segment == 0 ? MS_E_DAMAGED : MS_OK,
              PAIRS + (segment != 0 ? 40 : 0));
    if (!header) {
        must_be("the hidden one", ms_get_by_seq(store, 5, NULL, &msg, &err), MS_E_DAMAGED);
        must_be("the other", ms_get_by_seq(store, HIT, NULL, &msg, &err), MS_E_DAMAGED);
        must_be("a third", ms_get_by_seq(store, 2, NULL, &msg, &err), MS_OK);
    }
    ms_close(store);
    if (header) return;
    store = must_open_log(&desc, "a writer"); /* such a message can only be erased */
    must_be("a hide", ms_hide(store, HIT, &err), MS_E_DAMAGED);
    must_be("an amend", ms_amend(store, HIT, &m, &err), MS_E_DAMAGED);
    must_be("a note", ms_note(store, HIT, MS_STR("k"), m.content, &err), MS_E_DAMAGED);
    must_be("a redaction", ms_redact(store, HIT, &err), MS_E_DAMAGED);
    must_be("a hide of what is erased", ms_hide(store, HIT, &err), MS_OK);
    ms_close(store);
}

/* The header of a hiding is damaged: each call that finds a message by its number shows it
 * as it was, and says that a change of it may be missing. later: a message after it. */
static void numbers_say_it(ms_store *store, ms_str place, uint64_t later)
{
    const ms_msg *msg;
    ms_stream_text text;
    must_be("its number", ms_get_by_seq(store, 1, &arena, &msg, &err), MS_E_DAMAGED);
    assert_int_equal(ms_seq(msg), 1);
    assert_true(ms_str_equal(ms_content(msg).text, MS_STR("<old>")));
    must_be("in its task", ms_task_get(store, place, MS_STR("1"), &arena, &msg, &err),
            MS_E_DAMAGED);
    assert_int_equal(ms_seq(msg), 1);
    must_be("in its session", ms_session_lookup(store, MS_STR("u"),
            MS_STR("session-s-msg-1"), &arena, &msg, &err), MS_E_DAMAGED);
    assert_int_equal(ms_seq(msg), 1);
    must_be("its text", ms_stream_read(store, 1, 0, &arena, &text, &err), MS_E_DAMAGED);
    assert_true(ms_str_equal(text.text, MS_STR("<old>")));
    (void)ms_task_get(store, MS_STR("x"), MS_STR("1"), &arena, &msg, &err);
    assert_null(msg); /* it is of another task */
    must_be("a later one", ms_get_by_seq(store, later, &arena, &msg, &err), MS_OK);
    ms_store *joined;
    ms_union_desc desc = {.stores = &store, .n_stores = 1};
    must_be("a union", ms_union_open(&joined, &desc, &err), MS_OK);
    must_be("its number in a union", ms_get_by_seq(joined, 1, &arena, &msg, &err),
            MS_E_DAMAGED);
    assert_int_equal(ms_seq(msg), 1);
    ms_close(joined);
}

static void a_lost_change_is_reported(size_t segment)
{
    const ms_str place = MS_STR("1:u/s");
    uint64_t later;
    ms_envelope m = ms_user_message(ms_text("<old>"));
    ms_log_desc desc = {.path = path, .mode = MS_LOG_CREATE, .segment_size = segment};
    (void)remove(path);
    ms_store *store = must_open_log(&desc, "a log");
    must_be("append", ms_append(store, place, &m, NULL, &err), MS_OK);
    must_be("a hide", ms_hide(store, 1, &err), MS_OK);
    for (int i = 0; i < 40; i++)
        must_be("append", ms_append(store, place, &m, &later, &err), MS_OK);
    ms_close(store);
    change_byte(place_of("\"first\":1") - 40);
    store = must_open_log(&desc, "a writer");
    numbers_say_it(store, place, later);
    must_be("a note", ms_note(store, 1, MS_STR("k"), m.content, &err), MS_OK);
    must_be("a hide", ms_hide(store, 1, &err), MS_OK);
    const ms_msg *msg;
    must_be("the hidden one", ms_get_by_seq(store, 1, NULL, &msg, &err), MS_E_NOT_FOUND);
    ms_close(store);
}

TEST(a_message_found_by_its_number_may_lack_a_change)
{
    test_arena_init(&arena, NULL);
    a_lost_change_is_reported(0);
    a_lost_change_is_reported(MS_LOG_SEGMENT_MIN);
    ms_arena_deinit(&arena);
}

TEST(what_a_damaged_change_was_about_is_not_shown)
{
    changes_are_damaged(0, false);
    changes_are_damaged(MS_LOG_SEGMENT_MIN, false);
}

TEST(a_change_whose_header_is_damaged_is_reported)
{
    changes_are_damaged(0, true);
    changes_are_damaged(MS_LOG_SEGMENT_MIN, true);
}

/* Appends until the open part of the log becomes a segment. */
static void seal(ms_store *store)
{
    ms_log_info before, now;
    ms_envelope m = ms_user_message(ms_text("of room"));
    must_be("stat", ms_log_stat(store, &before, &err), MS_OK);
    do {
        must_be("append", ms_append(store, MS_STR("room"), &m, NULL, &err), MS_OK);
        must_be("stat", ms_log_stat(store, &now, &err), MS_OK);
    } while (now.segments == before.segments);
}

/* Message 1 is hidden by what is lost. Readings that end before its place, or that stop at
 * a limit, say so. */
static void early_readings_say_it(ms_store *store)
{
    const ms_msg *msg;
    ms_query q = {.before_seq = 3};
    must_read(store, "all before", q, MS_E_DAMAGED, 2);
    q.location = MS_STR("room");
    must_read(store, "a location before", q, MS_E_DAMAGED, 2);
    q.before_seq = 0;
    q.oldest = true;
    q.limit = 2;
    must_read(store, "the oldest", q, MS_E_DAMAGED, 2);
    must_be("its number", ms_get_by_seq(store, 1, NULL, &msg, &err), MS_E_DAMAGED);
}

/* The header of a hiding in the open part is damaged; its messages are in a segment. */
TEST(a_lost_change_of_the_open_part_is_reported_in_the_segments_before_it)
{
    ms_log_desc desc = {.path = path, .segment_size = MS_LOG_SEGMENT_MIN};
    (void)remove(path);
    ms_store *store = must_open_log(&desc, "a log");
    seal(store);
    must_be("a hide", ms_hide(store, 1, &err), MS_OK);
    ms_close(store);
    change_byte(place_of("\"first\":1") - 40);
    store = reader(MS_OPEN_NORMAL);
    early_readings_say_it(store);
    ms_close(store);
    store = reader(MS_OPEN_SALVAGE);
    early_readings_say_it(store);
    ms_close(store);
    store = must_open_log(&desc, "a writer");
    early_readings_say_it(store);
    seal(store); /* the damage, too */
    early_readings_say_it(store);
    ms_close(store);
}

/* A reader knows the changes of a location. A later one is damaged before it sees that. */
static void a_later_change_is_damaged(long byte, bool shown)
{
    const ms_msg *msg;
    ms_query q = {.location = MS_STR("room")};
    ms_envelope m = ms_user_message(ms_text("of room"));
    ms_log_desc desc = {.path = path};
    (void)remove(path);
    ms_store *store = must_open_log(&desc, "a log");
    for (int i = 0; i < 3; i++)
        must_be("append", ms_append(store, q.location, &m, NULL, &err), MS_OK);
    must_be("a hide", ms_hide(store, 3, &err), MS_OK);
    ms_store *other = reader(MS_OPEN_NORMAL);
    must_read(other, "a location", q, MS_OK, 2);
    must_be("a hide", ms_hide(store, 1, &err), MS_OK);
    change_byte(place_of("\"first\":1") + byte);
    must_read(other, "a location", q, MS_E_DAMAGED, shown ? 2 : 1);
    must_be("its number", ms_get_by_seq(other, 1, NULL, &msg, &err), MS_E_DAMAGED);
    ms_close(other);
    ms_close(store);
}

TEST(a_damaged_change_is_reported_to_a_reader_who_knows_those_before_it)
{
    a_later_change_is_damaged(0, false);
    a_later_change_is_damaged(-40, true);
}

/* The place of the index record of a segment. */
static size_t index_of(int segment)
{
    static unsigned char bytes[1 << 16];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f), at = FILE_SUPERBLOCK;
    fclose(f);
    while (at + FILE_HEADER < n) {
        if (bytes[at + 4] == FILE_KIND_INDEX && segment-- == 0) return at;
        at += file_padded(file_get32(bytes + at));
    }
    fail_msg("no such index");
    return 0;
}

/* A reader that follows did not see an index, since that is damaged, and counts what
 * comes after it to the segment before. The next index shows other places of the records
 * that the reader knows: with those it would read some twice. It learns of it. */
TEST(a_reader_who_missed_a_damaged_index_opens_the_log_again)
{
    ms_stream stream;
    ms_stream_opts opts = {.every_part = true};
    ms_stream_text text;
    ms_envelope m = ms_assistant_message(ms_text(""));
    ms_query q = {.location = MS_STR("room"), .raw = MS_RAW_NOTES, .about_seq = 1};
    ms_log_desc desc = {.path = path, .segment_size = MS_LOG_SEGMENT_MIN};
    test_arena_init(&arena, NULL);
    memset(&text, 0, sizeof text);
    (void)remove(path);
    ms_store *store = must_open_log(&desc, "a log");
    must_be("a stream", ms_stream_begin(&stream, store, q.location, &m, &opts, &err),
            MS_OK);
    ms_store *other = reader(MS_OPEN_NORMAL);
    seal(store);
    change_byte((long)index_of(0) + 9);
    must_be("a part", ms_stream_feed(&stream, MS_STR("once "), &err), MS_OK);
    must_be("a note", ms_note(store, 1, MS_STR("k"), ms_text("v"), &err), MS_OK);
    (void)ms_stream_follow(other, 1, &arena, &text, &err);
    (void)ms_stream_follow(other, 1, &arena, &text, &err);
    assert_true(ms_str_equal(text.text, MS_STR("")) && text.next == 5);
    must_read(other, "notes", q, MS_E_DAMAGED, 1);
    seal(store);
    must_be("the stream", ms_stream_follow(other, 1, &arena, &text, &err), MS_E_CONFLICT);
    size_t n;
    must_be("notes", reads(other, &q, &n), MS_E_CONFLICT);
    ms_close(other);
    other = reader(MS_OPEN_NORMAL);
    must_read(other, "notes", q, MS_OK, 1);
    text.place = 0;
    must_be("the stream", ms_stream_follow(other, 1, &arena, &text, &err), MS_OK);
    assert_int_equal(text.next, 5);
    ms_close(other);
    must_be("the end", ms_stream_end(&stream, NULL, &arena, &err), MS_OK);
    ms_close(store);
    ms_arena_deinit(&arena);
}

/* Bytes of a message change after its writer has stored it. A redaction computes checks
 * anew: it does not make such bytes valid. */
TEST(a_redaction_makes_no_damaged_record_valid)
{
    const ms_msg *msg;
    ms_log_desc desc = {.path = path};
    for (int directory = 0; directory < 2; directory++) {
        (void)remove(path);
        ms_store *store = must_open_log(&desc, "a log");
        ms_envelope m = ms_user_message(ms_text("<said>"));
        m.key = MS_STR("<key>");
        must_be("append", ms_append(store, MS_STR("room"), &m, NULL, &err), MS_OK);
        long in_directory = FILE_SUPERBLOCK + FILE_HEADER + 4;
        change_byte(directory ? in_directory : place_of("<key>"));
        must_be("a redaction", ms_redact(store, 1, &err), MS_E_DAMAGED);
        ms_store *other = reader(MS_OPEN_NORMAL);
        must_be("a reader", ms_get_by_seq(other, 1, NULL, &msg, &err), MS_E_DAMAGED);
        ms_close(other);
        ms_close(store);
    }
}

/* One record of a message is damaged: a redaction erases the others, and reports it. */
TEST(a_redaction_erases_what_is_whole_beside_a_damaged_record)
{
    static const char *const texts[] = {"<first>", "<note>", "<second>"};
    ms_log_desc desc = {.path = path};
    for (size_t hit = 0; hit < COUNT(texts); hit++) {
        (void)remove(path);
        ms_store *store = must_open_log(&desc, "a log");
        ms_envelope m = ms_user_message(ms_text(texts[0]));
        must_be("append", ms_append(store, MS_STR("room"), &m, NULL, &err), MS_OK);
        must_be("note", ms_note(store, 1, MS_STR("k"), ms_text(texts[1]), &err), MS_OK);
        m = ms_user_message(ms_text(texts[2]));
        must_be("amend", ms_amend(store, 1, &m, &err), MS_OK);
        change_byte(place_of(texts[hit]) + 1);
        for (int again = 0; again < 2; again++) {
            must_be("a redaction", ms_redact(store, 1, &err), MS_E_DAMAGED);
            for (size_t i = 0; i < COUNT(texts); i++)
                if (find_in_file(texts[i]) >= 0)
                    fail_msg("%s is still there beside %s", texts[i], texts[hit]);
        }
        ms_close(store);
    }
}

/* The header of a hiding is damaged: the messages before it may lack it, those after it do
 * not. Each query that has one of those counts it once. */
TEST(damage_that_may_be_a_change_is_counted_once_whatever_the_limit)
{
    static const size_t limits[] = {0, 4, 100, 2};
    ms_log_desc desc = {.path = path};
    ms_envelope m = ms_user_message(ms_text("text"));
    (void)remove(path);
    ms_store *store = must_open_log(&desc, "a log");
    for (int i = 0; i < 6; i++) {
        must_be("append", ms_append(store, MS_STR("room"), &m, NULL, &err), MS_OK);
        if (i == 3) must_be("hide", ms_hide(store, 1, &err), MS_OK);
    }
    ms_close(store);
    change_byte(place_of("\"first\":1") - 40);
    store = reader(MS_OPEN_NORMAL);
    for (int by_time = 0; by_time < 2; by_time++) {
        for (size_t i = 0; i < COUNT(limits); i++) {
            ms_arena own = {0};
            ms_cursor it;
            ms_query q = {.limit = limits[i], .by_time = by_time != 0, .arena = &own};
            must_be("query", ms_query_open(store, &q, &it, &err), MS_OK);
            while (ms_next(&it) != NULL) continue;
            bool looks = limits[i] != 2 || by_time; /* at one before the hiding */
            if (it.damaged != looks)
                fail_msg("limit %zu: %u are damaged", limits[i], (unsigned)it.damaged);
            (void)ms_cursor_close(&it, NULL);
            ms_arena_deinit(&own);
        }
    }
    ms_close(store);
}

/* A message is replaced, and then damaged itself. Views of its segment have the amendment,
 * which is whole; in the open part nothing has the message's names. Both report. */
static void a_replaced_message_is_damaged(size_t segment)
{
    const ms_msg *msg;
    const size_t left = segment != 0 ? 2 * PAIRS : 2 * PAIRS - 1;
    ms_query q = {.location = MS_STR("room")};
    make_log(segment);
    ms_log_desc desc = {.path = path, .mode = MS_LOG_WRITE, .segment_size = segment};
    ms_envelope m = ms_observation(ms_text("<replaced>"), MS_STR("call_7"));
    ms_store *store = must_open_log(&desc, "a writer");
    must_be("an amend", ms_amend(store, HIT, &m, &err), MS_OK);
    ms_close(store);
    store = reader(MS_OPEN_NORMAL);
    must_read(store, "a location", q, MS_OK, 2 * PAIRS);
    ms_close(store);
    change_byte(place_of("<result 7>"));
    store = reader(MS_OPEN_NORMAL);
    must_read(store, "a location", q, MS_E_DAMAGED, left);
    q.reverse = true;
    must_read(store, "a location, reversed", q, MS_E_DAMAGED, left);
    q.reverse = false;
    q.limit = 2 * PAIRS; /* it is walked back, and then forward */
    ms_cursor it;
    must_be("the newest", ms_query_open(store, &q, &it, &err), MS_OK);
    while (ms_next(&it) != NULL) continue;
    assert_int_equal(it.damaged, 1);
    must_be("the newest", ms_cursor_close(&it, &err), MS_E_DAMAGED);
    q.limit = 0;
    q.types = MS_BIT(MS_T_ACTION);
    must_read(store, "its calls", q, segment != 0 ? MS_OK : MS_E_DAMAGED, PAIRS);
    q.types = 0;
    q.after_seq = HIT; /* it is not returned again: in a segment its number is known */
    must_read(store, "what follows it", q, segment != 0 ? MS_OK : MS_E_DAMAGED,
              2 * (PAIRS - OF - 1));
    q.after_seq = HIT + 2;
    must_read(store, "what follows", q, MS_OK, 2 * (PAIRS - OF - 1) - 1);
    q.after_seq = 0;
    q.about_seq = HIT;
    q.raw = MS_RAW_ALL;
    must_read(store, "all records of it", q, MS_E_DAMAGED, 1);
    q.raw = MS_RAW_AMENDS;
    must_read(store, "its amendments", q, MS_OK, 1);
    must_be("its number", ms_get_by_seq(store, HIT, NULL, &msg, &err), MS_E_DAMAGED);
    the_model_learns_it(store, MS_E_DAMAGED);
    ms_close(store);
}

TEST(a_replaced_message_that_is_damaged_is_reported)
{
    test_arena_init(&arena, NULL);
    a_replaced_message_is_damaged(0);
    a_replaced_message_is_damaged(MS_LOG_SEGMENT_MIN);
    ms_arena_deinit(&arena);
}

/* Queries with a bound or a limit beside a damaged message. header: that is damaged, too.
 * Then nothing tells its number. */
static void bounds_are_beside_it(size_t segment, bool header)
{
    enum { MANY = 40 }; /* more than a cursor keeps of those that it walks back over */
    ms_query q = {.location = MS_STR("room"), .before_seq = HIT + 1};
    ms_cursor it;
    make_log(segment);
    change_byte(place_of("<result 7>") - (header ? 40 : 0));
    ms_store *store = reader(MS_OPEN_NORMAL);
    must_read(store, "all before the next one", q, MS_E_DAMAGED, 2 * OF + 1);
    q.reverse = true;
    q.limit = 3;
    must_read(store, "a page before the next one", q, MS_E_DAMAGED, 3);
    q.limit = 0;
    q.after_seq = HIT - 1;
    must_read(store, "that alone", q, MS_E_DAMAGED, 0);
    q.before_seq = 0;
    q.has_since = q.oldest = true; /* it walks to the end of the window, and turns */
    q.limit = MANY;
    must_read(store, "the oldest ones, the newest first", q, MS_E_DAMAGED, MANY);
    q.limit = 2 * PAIRS; /* fewer are left: the walk meets it twice */
    must_be("all of them", ms_query_open(store, &q, &it, &err), MS_OK);
    while (ms_next(&it) != NULL) continue;
    assert_int_equal(it.damaged, 1);
    must_be("all of them", ms_cursor_close(&it, &err), MS_E_DAMAGED);
    if (segment != 0 && !header) {
        q = (ms_query){.location = MS_STR("room"), .before_seq = HIT};
        must_read(store, "all before it", q, MS_OK, 2 * OF + 1);
        q = (ms_query){.location = MS_STR("room"), .after_seq = HIT};
        must_read(store, "all after it", q, MS_OK, 2 * (PAIRS - OF - 1));
    }
    ms_close(store);
    change_byte(place_of("<result 36>") - (header ? 40 : 0));
    store = reader(MS_OPEN_NORMAL);
    q = (ms_query){.location = MS_STR("room"), .before_seq = 3 * 36 + 4, .limit = MANY,
                   .has_since = true};
    must_read(store, "the newest ones before one", q, MS_E_DAMAGED, MANY);
    ms_close(store);
}

TEST(a_query_reports_what_is_damaged_beside_its_bounds)
{
    for (int header = 0; header < 2; header++) {
        bounds_are_beside_it(0, header != 0);
        bounds_are_beside_it(MS_LOG_SEGMENT_MIN, header != 0);
    }
}

/* All messages of a location are in one segment, and damaged. wipes: with their headers. */
static void a_location_is_lost(bool wipes)
{
    ms_listing list;
    char text[20];
    make_log(MS_LOG_SEGMENT_MIN);
    ms_log_desc desc = {.path = path, .mode = MS_LOG_WRITE,
                        .segment_size = MS_LOG_SEGMENT_MIN};
    ms_store *store = must_open_log(&desc, "a writer");
    for (int i = 0; i < 60; i++) {
        snprintf(text, sizeof text, "<lost %d>", i);
        ms_envelope m = ms_user_message(ms_text(text));
        m.location = i < 2 ? MS_STR("lost") : MS_STR("elsewhere");
        m.agent_key = i < 2 ? MS_STR("loser") : MS_STR("worker");
        must_be("append", ms_append(store, m.location, &m, NULL, &err), MS_OK);
    }
    must_be("sync", ms_sync(store, NULL, &err), MS_OK);
    ms_close(store);
    for (int damaged = 0; damaged < 2; damaged++) {
        size_t names = damaged ? 2 : 3;
        ms_result wanted = damaged ? MS_E_DAMAGED : MS_OK;
        ms_list_query agents = {.agents = true}, few = {.limit = 3};
        store = reader(MS_OPEN_NORMAL);
        must_be("a listing", ms_list(store, NULL, &arena, &list, &err), wanted);
        assert_int_equal(list.count, names);
        must_be("agents", ms_list(store, &agents, &arena, &list, &err), wanted);
        must_be("the newest", ms_list(store, &few, &arena, &list, &err), wanted);
        assert_int_equal(list.count, names);
        few.names_only = true;
        must_be("names", ms_list(store, &few, &arena, &list, &err), wanted);
        assert_int_equal(list.count, names);
        few.limit = 2;
        must_be("newer ones", ms_list(store, &few, &arena, &list, &err), wanted);
        ms_close(store);
        if (damaged) break;
        change_byte(place_of("<lost 0>") - (wipes ? 40 : 0));
        change_byte(place_of("<lost 1>") - (wipes ? 40 : 0));
    }
}

TEST(a_listing_that_lacks_a_location_says_it)
{
    test_arena_init(&arena, NULL);
    a_location_is_lost(false);
    a_location_is_lost(true);
    ms_arena_deinit(&arena);
}

/* The newest message of a location is damaged, in a sealed segment. */
TEST(a_listing_counts_what_is_left_of_a_location)
{
    test_arena_init(&arena, NULL);
    ms_listing list;
    make_log(MS_LOG_SEGMENT_MIN);
    ms_log_desc desc = {.path = path, .mode = MS_LOG_WRITE,
                        .segment_size = MS_LOG_SEGMENT_MIN};
    ms_envelope m = ms_user_message(ms_text("another"));
    ms_store *store = must_open_log(&desc, "a writer");
    for (int i = 0; i < 60; i++)
        must_be("append", ms_append(store, MS_STR("elsewhere"), &m, NULL, &err), MS_OK);
    ms_close(store);
    change_byte(place_of("<result 39>"));
    store = reader(MS_OPEN_NORMAL);
    for (int limited = 0; limited < 2; limited++) {
        ms_list_query q = {.limit = limited ? 2 : 0};
        must_be("a listing", ms_list(store, &q, &arena, &list, &err), MS_E_DAMAGED);
        assert_int_equal(list.count, 2);
        assert_true(ms_str_equal(list.items[1].location, MS_STR("room")));
        assert_int_equal(list.items[1].messages, 2 * PAIRS - 1);
        assert_int_equal(list.items[1].last_seq, 3 * PAIRS - 2);
    }
    ms_close(store);
    ms_arena_deinit(&arena);
}

/* The file ends earlier than what was durable, before and after a writer noted that. */
TEST(every_call_says_it_when_the_newest_messages_are_missing)
{
    test_arena_init(&arena, NULL);
    const ms_query room = {.location = MS_STR("room")};
    const ms_msg *msg;
    make_log(0);
    assert_int_equal(truncate(path, place_of("<result 30>")), 0);
    for (int written = 0; written < 2; written++) {
        ms_store *store = reader(MS_OPEN_NORMAL);
        must_read(store, "a location", room, MS_E_DAMAGED, 61);
        ms_query q = room;
        q.limit = 5;
        must_read(store, "the newest", q, MS_E_DAMAGED, 5);
        q.limit = 0;
        q.after_seq = 91; /* the last one that is left */
        must_read(store, "all after those", q, MS_E_DAMAGED, 0);
        must_be("a number that is gone", ms_get_by_seq(store, 92, NULL, &msg, &err),
                MS_E_DAMAGED);
        the_model_learns_it(store, MS_E_DAMAGED);
        copies_say_it(store, MS_E_DAMAGED, 61);
        ms_close(store);
        if (written != 0) break;
        ms_log_desc desc = {.path = path, .mode = MS_LOG_WRITE};
        ms_envelope m = ms_user_message(ms_text("on"));
        store = must_open_log(&desc, "a writer");
        must_be("an append", ms_append(store, MS_STR("elsewhere"), &m, NULL, &err), MS_OK);
        ms_close(store);
    }
    ms_arena_deinit(&arena);
}

/* The hiding of a message of a sealed segment is among them. Then others are appended, and
 * the segment with the loss is sealed, too. */
TEST(a_message_found_by_its_number_may_lack_a_change_that_was_cut_off)
{
    const ms_msg *msg;
    const ms_str place = MS_STR("room");
    ms_envelope m = ms_user_message(ms_text("said"));
    ms_log_desc desc = {.path = path, .mode = MS_LOG_CREATE,
                        .segment_size = MS_LOG_SEGMENT_MIN};
    (void)remove(path);
    ms_store *store = must_open_log(&desc, "a log");
    for (int i = 0; i < 60; i++)
        must_be("append", ms_append(store, place, &m, NULL, &err), MS_OK);
    must_be("a hide", ms_hide(store, 1, &err), MS_OK);
    ms_close(store);
    assert_int_equal(truncate(path, place_of("\"first\":1")), 0);
    for (int appended = 0; appended <= 60; appended += 20) {
        store = reader(MS_OPEN_NORMAL);
        must_be("its number", ms_get_by_seq(store, 1, NULL, &msg, &err), MS_E_DAMAGED);
        assert_int_equal(ms_seq(msg), 1);
        ms_close(store);
        store = must_open_log(&desc, "a writer");
        for (int i = 0; i < 20; i++)
            must_be("append", ms_append(store, place, &m, NULL, &err), MS_OK);
        must_be("in the writer", ms_get_by_seq(store, 1, NULL, &msg, &err), MS_E_DAMAGED);
        ms_close(store);
    }
}

/* Others were appended since, and the segment that begins with the loss is sealed. */
TEST(a_window_of_lost_numbers_is_reported)
{
    test_arena_init(&arena, NULL);
    make_log(MS_LOG_SEGMENT_MIN);
    ms_envelope m = ms_user_message(ms_text("on"));
    ms_log_desc desc = {.path = path, .mode = MS_LOG_WRITE,
                        .segment_size = MS_LOG_SEGMENT_MIN};
    assert_int_equal(truncate(path, place_of("<result 20>")), 0);
    for (int written = 0; written < 2; written++) {
        ms_store *store = reader(MS_OPEN_NORMAL);
        for (uint64_t lost = 62; lost < 3 * PAIRS; lost++) {
            ms_query q = {.location = MS_STR("room"), .after_seq = lost - 1,
                          .before_seq = lost + 1};
            must_read(store, "a lost one", q, MS_E_DAMAGED, 0);
        }
        ms_close(store);
        store = must_open_log(&desc, "a writer");
        for (int i = 0; i < 60; i++)
            must_be("append", ms_append(store, MS_STR("room"), &m, NULL, &err), MS_OK);
        ms_close(store);
    }
    ms_arena_deinit(&arena);
}

/* Leaves a copy of the log of a killed writer. */
static void make_killed_log(int messages)
{
    static char bytes[1 << 17];
    ms_log_desc desc = {.path = path, .mode = MS_LOG_CREATE,
                        .segment_size = MS_LOG_SEGMENT_MIN};
    (void)remove(path);
    fflush(NULL);
    pid_t writer = fork();
    if (writer == 0) {
        ms_store *store = must_open_log(&desc, "a log");
        ms_envelope m = ms_user_message(ms_text("another"));
        for (int i = 1; i <= messages; i++) {
            if (i == messages) m = ms_user_message(ms_text("<newest>"));
            if (ms_append(store, MS_STR("room"), &m, NULL, NULL) != MS_OK) _exit(1);
        }
        _exit(0);
    }
    int status;
    assert_true(writer > 0 && waitpid(writer, &status, 0) == writer && status == 0);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    assert_true(n > 0 && n < sizeof bytes && fclose(f) == 0 && remove(path) == 0);
    f = fopen(path, "wb");
    assert_true(f != NULL && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

/* The newest message is damaged. Where the index of its segment follows, that is known: the
 * log counts it as damage, and what is read up to now reports it. (Else it looks torn.) */
TEST(a_history_and_a_union_report_a_damaged_newest_message)
{
    size_t n, indexed = 0;
    test_arena_init(&arena, NULL);
    for (int messages = 5; messages < 40; messages++) {
        ms_store *joined;
        ms_stat stat;
        ms_cursor it;
        ms_memory memory;
        make_killed_log(messages);
        change_byte(place_of("<newest>"));
        ms_store *store = reader(MS_OPEN_NORMAL);
        must_be("the figures", ms_store_stat(store, &stat, &err), MS_OK);
        ms_result wanted = stat.damaged > 0 ? MS_E_DAMAGED : MS_OK;
        indexed += stat.damaged > 0;
        ms_query q = {.location = MS_STR("room"), .arena = &arena};
        must_read(store, "a location", q, wanted, (size_t)messages - 1);
        ms_memory_init(&memory, store, q.location, MS_STR("worker"));
        must_be("a history", ms_get_history(&memory, &it, &err), MS_OK);
        while (ms_next(&it) != NULL) continue;
        must_be("a history", ms_cursor_close(&it, &err), wanted);
        ms_union_desc desc = {.stores = &store, .n_stores = 1};
        must_be("a union", ms_union_open(&joined, &desc, &err), MS_OK);
        must_be("a union", reads(joined, &q, &n), wanted);
        ms_close(joined);
        ms_close(store);
    }
    assert_int_equal(indexed, 2);
    ms_arena_deinit(&arena);
}

/* An image of which a message is damaged is attached for salvage. */
TEST(every_call_says_it_when_salvage_left_an_arena_store)
{
    test_arena_init(&arena, NULL);
    static uint64_t bytes[4096];
    const ms_query room = {.location = MS_STR("room")};
    ms_mem_desc desc = {.buffer = bytes, .buffer_size = sizeof bytes};
    ms_store *store;
    uint64_t damaged;
    must_be("a store", ms_mem_open(&store, &desc, &err), MS_OK);
    for (int i = 0; i < 9; i++) {
        ms_envelope m = ms_user_message(ms_text(i == 4 ? "<result>" : "another"));
        must_be("append", ms_append(store, room.location, &m, NULL, &err), MS_OK);
    }
    must_read(store, "a location", room, MS_OK, 9);
    ms_close(store);
    char *hit = (char *)memmem(bytes, sizeof bytes, "<result>", 8);
    assert_non_null(hit);
    *hit ^= 4;
    desc.salvage = true;
    must_be("salvage", ms_mem_attach(&store, &desc, &damaged, &err), MS_OK);
    assert_int_equal(damaged, 1);
    must_read(store, "a location", room, MS_E_DAMAGED, 8);
    the_model_learns_it(store, MS_E_DAMAGED);
    copies_say_it(store, MS_E_DAMAGED, 8);
    ms_close(store);
    ms_arena_deinit(&arena);
}

/* Writes noise from one text of the file up to another. */
static void wipe(const char *from, const char *upto)
{
    long at = place_of(from) - 60, end = place_of(upto) - 60;
    FILE *f = fopen(path, "r+b");
    assert_true(f != NULL && at < end && fseek(f, at, SEEK_SET) == 0);
    for (; at < end; at++) assert_true(fputc((int)(at * 40503 >> 7 & 255), f) != EOF);
    assert_int_equal(fclose(f), 0);
}

/* Many messages are hidden, and `lost` after them lost with their headers: what a reading
 * skips, and where one begins, may be what was lost. */
static void reading_meets_it(size_t segment, int lost)
{
    enum { N = 160, FEW = 15 }; /* FEW: in other segments; the lost ones are in a group */
    char text[300], upto[20];
    uint64_t first = 0;
    size_t left = (size_t)(N - lost);
    ms_query q = {.location = MS_STR("room")};
    make_log(segment);
    ms_log_desc desc = {.path = path, .mode = MS_LOG_WRITE, .segment_size = segment};
    ms_store *store = must_open_log(&desc, "a writer");
    must_be("a rewind", ms_rewind(store, q.location, 4, NULL, &err), MS_OK);
    for (int i = -6; i < N; i++) {
        memset(text, '.', sizeof text);
        text[snprintf(text, sizeof text, "<later %d>", i)] = '.';
        text[sizeof text - 1] = 0;
        ms_envelope m = ms_user_message(ms_text(text));
        if (i < 0) { /* a segment between the change and what is lost */
            must_be("amend", ms_amend(store, 3, &m, &err), MS_OK);
            continue;
        }
        must_be("append", ms_append(store, q.location, &m, i == 0 ? &first : NULL, &err),
                MS_OK);
    }
    must_be("sync", ms_sync(store, NULL, &err), MS_OK);
    ms_close(store);
    store = reader(MS_OPEN_NORMAL);
    must_read(store, "all", q, MS_OK, 3 + N);
    q.after_seq = first;
    must_read(store, "all after one of them", q, MS_OK, N - 1);
    ms_close(store);
    snprintf(upto, sizeof upto, "<later %d>", lost);
    wipe("<later 0>", upto);
    store = reader(MS_OPEN_NORMAL);
    q.after_seq = 0;
    must_read(store, "all", q, MS_E_DAMAGED, 3 + left);
    q.reverse = true;
    must_read(store, "all, reversed", q, MS_E_DAMAGED, 3 + left);
    q.reverse = false;
    q.limit = left + 1;
    must_read(store, "the newest, and one before those that are lost", q, MS_E_DAMAGED,
              left + 1);
    q.limit = FEW;
    must_read(store, "the newest", q, MS_OK, FEW);
    q.limit = 0;
    q.after_seq = first;
    must_read(store, "all after one that is lost", q, MS_E_DAMAGED, left);
    q.after_seq = first + (uint64_t)N - FEW - 1;
    must_read(store, "all after those", q, MS_OK, FEW);
    ms_close(store);
}

TEST(reading_that_skips_messages_reports_what_is_lost_beside_them)
{
    for (int lost = 9; lost < 15; lost++) {
        reading_meets_it(0, lost);
        reading_meets_it(MS_LOG_SEGMENT_MIN, lost);
    }
}

/* Five segments have a damaged record. One view has messages in all of them, another one
 * in the last: it comes there first. */
TEST(each_damaged_segment_is_counted_once_whichever_view_meets_it_first)
{
    ms_cursor it;
    char text[40];
    ms_log_desc desc = {.path = path, .mode = MS_LOG_CREATE,
                        .segment_size = MS_LOG_SEGMENT_MIN};
    (void)remove(path);
    for (int part = 0; part < 6; part++) {
        ms_store *store = must_open_log(&desc, "a log");
        for (int i = 0; i < 20; i++) { /* it seals what was damaged */
            ms_envelope m = ms_user_message(ms_text("another"));
            if (part == 5 && i < 2) m.type = MS_T_GLOBAL_OBSERVATION;
            must_be("append", ms_append(store, MS_STR("room"), &m, NULL, &err), MS_OK);
        }
        snprintf(text, sizeof text, "<damaged %d>", part);
        ms_envelope m = ms_user_message(ms_text(text));
        must_be("append", ms_append(store, MS_STR("room"), &m, NULL, &err), MS_OK);
        must_be("sync", ms_sync(store, NULL, &err), MS_OK);
        ms_close(store);
        if (part == 5) break;
        snprintf(text, sizeof text, "<damaged %d>", part);
        change_byte(place_of(text) - 40); /* its header */
    }
    ms_store *store = reader(MS_OPEN_NORMAL);
    ms_query q = {.location = MS_STR("room"),
                  .views = MS_VIEW_CONVERSATION | MS_VIEW_GLOBAL};
    for (int reverse = 0; reverse < 2; reverse++) {
        q.reverse = reverse != 0;
        must_be("a query", ms_query_open(store, &q, &it, &err), MS_OK);
        while (ms_next(&it) != NULL) continue;
        assert_int_equal(it.damaged, 5);
        must_be("its end", ms_cursor_close(&it, &err), MS_E_DAMAGED);
    }
    ms_close(store);
}

/* ---- appends that look for a message ---- */

enum { PAID = 20, ROOM = 60 }; /* numbers: of the message with the key; of the last one */

static ms_store *writer(size_t segment)
{
    ms_log_desc desc = {.path = path, .mode = MS_LOG_CREATE, .segment_size = segment};
    return must_open_log(&desc, "a writer");
}

static void say(ms_store *store, const char *location, int from, int n)
{
    char text[20];
    for (int i = from; i < from + n; i++) {
        snprintf(text, sizeof text, "<said %d>", i);
        ms_envelope m = ms_user_message(ms_text(text));
        must_be("append", ms_append(store, ms_str_of(location), &m, NULL, &err), MS_OK);
    }
}

/* The result of an append with a key; *seq: the number of its message. */
static ms_result pay(ms_store *store, const char *location, const char *key, uint64_t *seq)
{
    ms_envelope m = ms_user_message(ms_text("<pay 100 euros>"));
    m.key = ms_str_of(key);
    return ms_append(store, ms_str_of(location), &m, seq, &err);
}

/* Two messages of a location have keys, and the first one is damaged: `paid` with that key
 * must not be stored again. hole: the damage was there when its segment was sealed, or it
 * is in the open part, so that the key is not known to be whole. */
static void keys_are_looked_for(size_t segment, bool header, bool hole)
{
    uint64_t seq = 0, seqs[2] = {7, 7};
    ms_stat before, after;
    ms_append_opts opts = {.location = MS_STR("room"), .seqs = seqs};
    ms_envelope two[2] = {ms_user_message(ms_text("first")),
                          ms_user_message(ms_text("<pay 100 euros>"))};
    two[1].key = MS_STR("paid");
    (void)remove(path);
    ms_store *store = writer(hole ? 0 : segment);
    say(store, "room", 1, PAID - 1);
    must_be("the first", pay(store, "room", "paid", &seq), MS_OK);
    assert_int_equal(seq, PAID);
    say(store, "room", PAID + 1, ROOM - PAID);
    must_be("a whole one", pay(store, "room", "whole", &seq), MS_OK);
    must_be("sync", ms_sync(store, NULL, &err), MS_OK);
    must_be("again", pay(store, "room", "paid", &seq), MS_OK);
    assert_int_equal(seq, PAID);
    ms_close(store);
    change_byte(place_of("<pay 100 euros>") - (header ? 40 : 0));
    if (hole && segment != 0) {
        store = writer(segment);
        say(store, "elsewhere", 1, 60);
        ms_close(store);
    }
    store = writer(segment);
    must_be("a store", ms_store_stat(store, &before, &err), MS_OK);
    seq = 7;
    must_be("again", pay(store, "room", "paid", &seq), MS_E_DAMAGED);
    assert_int_equal(seq, 0);
    assert_string_equal(err.path, "key");
    assert_non_null(strstr(err.message, "'paid'"));
    assert_non_null(strstr(err.message, "msgstore repair"));
    must_be("two", ms_append_batch(store, two, 2, &opts, &err), MS_E_DAMAGED);
    assert_true(seqs[0] == 0 && seqs[1] == 0);
    assert_string_equal(err.path, "messages[1].key");
    must_be("a whole key", pay(store, "room", "whole", &seq), MS_OK);
    assert_int_equal(seq, ROOM + 1);
    must_be("a store", ms_store_stat(store, &after, &err), MS_OK);
    assert_int_equal(before.messages, after.messages);
    must_be("another key", pay(store, "room", "new", &seq), hole ? MS_E_DAMAGED : MS_OK);
    must_be("another location", pay(store, "elsewhere", "paid", &seq),
            hole && header ? MS_E_DAMAGED : MS_OK);
    say(store, "room", 99, 1);
    ms_close(store);
    ms_log_desc desc = {.path = path, .mode = MS_LOG_READ, .opening = MS_OPEN_SALVAGE};
    store = must_open_log(&desc, "a reader");
    desc.mode = MS_LOG_CREATE;
    desc.opening = MS_OPEN_NORMAL;
    must_be("a repair", ms_log_rewrite(store, &desc, true, NULL, NULL, &err),
            MS_E_DAMAGED);
    ms_close(store);
    store = writer(segment);
    must_be("after a repair", pay(store, "room", "paid", &seq), MS_OK);
    assert_true(seq > ROOM + 2);
    ms_close(store);
}

TEST(a_key_is_not_stored_again_where_its_message_may_be_damaged)
{
    for (int header = 0; header < 2; header++) {
        keys_are_looked_for(0, header != 0, true);
        keys_are_looked_for(MS_LOG_SEGMENT_MIN, header != 0, true);
        keys_are_looked_for(MS_LOG_SEGMENT_MIN, header != 0, false);
    }
}

/* Adds a line to a location that must end with message number last. */
static ms_result say_after(ms_store *store, const char *location, uint64_t last, size_t n)
{
    ms_envelope m = ms_user_message(ms_text("I read up to here"));
    ms_append_opts opts = {.location = ms_str_of(location), .expect = true,
                           .expect_seq = last};
    return ms_append_batch(store, &m, n, &opts, &err);
}

/* The newest message of room is damaged: an append after the one before it is refused. */
static void the_last_one_is_looked_for(size_t segment, bool header, bool hole)
{
    const ms_result elsewhere = hole && header ? MS_E_DAMAGED : MS_OK;
    ms_stat before, after;
    (void)remove(path);
    ms_store *store = writer(hole ? 0 : segment);
    say(store, "elsewhere", 1, 1);
    say(store, "room", 2, ROOM - 2);
    must_be("a conflict", say_after(store, "room", ROOM - 2, 1), MS_E_CONFLICT);
    say(store, "room", ROOM, 1);
    must_be("sync", ms_sync(store, NULL, &err), MS_OK);
    if (!hole) say(store, "others", 1, 60);
    ms_close(store);
    snprintf(err.message, sizeof err.message, "<said %d>", ROOM);
    change_byte(place_of(err.message) - (header ? 40 : 0));
    if (hole && segment != 0) {
        store = writer(segment);
        say(store, "others", 1, 60);
        ms_close(store);
    }
    store = writer(segment);
    must_be("a store", ms_store_stat(store, &before, &err), MS_OK);
    for (size_t n = 0; n < 2; n++) {
        must_be("after the last but one", say_after(store, "room", ROOM - 1, n),
                MS_E_DAMAGED);
        must_be("after the last", say_after(store, "room", ROOM, n), MS_E_DAMAGED);
    }
    must_be("after an older one", say_after(store, "room", 9, 1), MS_E_CONFLICT);
    must_be("a store", ms_store_stat(store, &after, &err), MS_OK);
    assert_int_equal(before.messages, after.messages);
    must_be("another location", say_after(store, "elsewhere", 1, 1), elsewhere);
    must_be("a new location", say_after(store, "new", 0, 1), elsewhere);
    say(store, "room", 99, 1);
    must_be("a store", ms_store_stat(store, &after, &err), MS_OK);
    must_be("after a new one", say_after(store, "room", after.last_seq, 1), MS_OK);
    ms_close(store);
}

/* Each location has a message of an agent, and then its newest. Those stand first: so a
 * damaged one stands before the message that has the smaller number. */
TEST(an_append_is_refused_where_a_clustered_segment_may_lack_a_newer_message)
{
    char place[20], text[20], bytes[400];
    int of = -1;
    (void)remove(path);
    ms_store *store = writer(MS_LOG_SEGMENT_MIN);
    for (int i = 0; i < PAIRS; i++) {
        snprintf(place, sizeof place, "place %d", i);
        snprintf(text, sizeof text, "<newest %d>", i);
        ms_envelope m = ms_observation(ms_text("seen"), MS_STR("call"));
        m.agent_key = MS_STR("worker");
        must_be("append", ms_append(store, ms_str_of(place), &m, NULL, &err), MS_OK);
        m = ms_user_message(ms_text(text));
        must_be("append", ms_append(store, ms_str_of(place), &m, NULL, &err), MS_OK);
    }
    ms_close(store);
    compact_log();
    assert_true(change_indexes() > 0);
    FILE *f = fopen(path, "rb");
    assert_true(f != NULL && fseek(f, FILE_SUPERBLOCK, SEEK_SET) == 0);
    assert_int_equal(fread(bytes, 1, sizeof bytes, f), sizeof bytes);
    fclose(f);
    for (size_t i = FILE_HEADER; of < 0 && i + 10 < sizeof bytes; i++)
        if (memcmp(bytes + i, "<newest ", 8) == 0) of = atoi(bytes + i + 8);
    assert_true(of >= 0);
    snprintf(text, sizeof text, "<newest %d>", of);
    change_byte(place_of(text));
    store = writer(MS_LOG_SEGMENT_MIN);
    snprintf(place, sizeof place, "place %d", of);
    uint64_t last = 2 * (uint64_t)of + 2;
    must_be("after the last but one", say_after(store, place, last - 1, 1), MS_E_DAMAGED);
    must_be("after the last", say_after(store, place, last, 1), MS_E_DAMAGED);
    of = (of + 1) % PAIRS;
    snprintf(place, sizeof place, "place %d", of);
    last = 2 * (uint64_t)of + 2;
    must_be("another location", say_after(store, place, last, 1), MS_OK);
    ms_close(store);
}

/* A message of room is damaged, and there is a newer one, in the same segment. */
static void a_newer_one_is_whole(size_t segment)
{
    (void)remove(path);
    ms_store *store = writer(0);
    say(store, "room", 1, 9);
    must_be("sync", ms_sync(store, NULL, &err), MS_OK);
    ms_close(store);
    change_byte(place_of("<said 8>") - 40);
    store = writer(segment);
    must_be("after the last", say_after(store, "room", 9, 1), MS_OK);
    must_be("after that", say_after(store, "room", 9, 1), MS_E_CONFLICT);
    say(store, "others", 1, 60);
    must_be("after that", say_after(store, "room", 10, 1), MS_OK);
    ms_close(store);
}

TEST(an_append_after_a_message_is_refused_where_a_newer_one_may_be_damaged)
{
    for (int header = 0; header < 2; header++) {
        the_last_one_is_looked_for(0, header != 0, true);
        the_last_one_is_looked_for(MS_LOG_SEGMENT_MIN, header != 0, true);
        the_last_one_is_looked_for(MS_LOG_SEGMENT_MIN, header != 0, false);
    }
    a_newer_one_is_whole(0);
    a_newer_one_is_whole(MS_LOG_SEGMENT_MIN);
}

/* ---- texts and histories that stand on another record ---- */

/* A part of an open stream is damaged: its text comes without it, and is reported, by the
 * log and by a union of it. */
static void a_part_is_damaged(size_t segment, bool header)
{
    ms_stream stream;
    ms_stream_text text;
    const ms_msg *msg;
    const ms_query q = {.location = MS_STR("room"), .arena = &arena};
    const ms_stream_opts opts = {.every_part = true};
    ms_envelope m = ms_assistant_message(ms_text(""));
    (void)remove(path);
    ms_store *store = writer(segment), *joined;
    say(store, "room", 1, 5);
    must_be("a stream", ms_stream_begin(&stream, store, q.location, &m, &opts, &err), MS_OK);
    must_be("a part", ms_stream_feed(&stream, MS_STR("transfer "), &err), MS_OK);
    must_be("a part", ms_stream_feed(&stream, MS_STR("<not now> "), &err), MS_OK);
    must_be("a part", ms_stream_feed(&stream, MS_STR("the money"), &err), MS_OK);
    say(store, "elsewhere", 1, 40);
    ms_close(store);
    for (int damaged = 0; damaged < 2; damaged++) {
        ms_result wanted = damaged ? MS_E_DAMAGED : MS_OK;
        if (damaged) change_byte(place_of("<not now>") - (header ? 40 : 0));
        store = reader(MS_OPEN_NORMAL);
        const ms_union_desc desc = {.stores = &store, .n_stores = 1};
        must_be("a union", ms_union_open(&joined, &desc, &err), MS_OK);
        for (int times = 0; times < 2; times++) {
            ms_store *of = times == 0 ? store : joined;
            must_read(of, "a location", q, wanted, 6);
            must_be("its number", ms_get_by_seq(of, 6, &arena, &msg, &err), wanted);
            must_be("its text", ms_stream_read(of, 6, 0, &arena, &text, &err), wanted);
            memset(&text, 0, sizeof text);
            must_be("followed", ms_stream_follow(of, 6, &arena, &text, &err), wanted);
            assert_int_equal(text.text.len, damaged ? 18 : 28);
            /* a record of an unknown kind may have ended the stream */
            must_be("what is new", ms_stream_follow(of, 6, &arena, &text, &err),
                    header && !segment ? wanted : MS_OK);
            assert_int_equal(text.text.len, 0);
        }
        ms_close(joined);
        ms_close(store);
    }
}

TEST(a_text_without_one_of_its_parts_is_reported_by_a_union_too)
{
    test_arena_init(&arena, NULL);
    a_part_is_damaged(0, false);
    a_part_is_damaged(0, true);
    a_part_is_damaged(MS_LOG_SEGMENT_MIN, false);
    a_part_is_damaged(MS_LOG_SEGMENT_MIN, true);
    ms_arena_deinit(&arena);
}

/* Reads the history of the worker in job. */
static void must_remember(ms_memory *memory, const char *what, ms_result wanted, size_t n)
{
    ms_cursor it;
    size_t found = 0;
    must_be(what, ms_get_history(memory, &it, &err), MS_OK);
    while (ms_next(&it) != NULL) found++;
    must_be(what, ms_cursor_close(&it, &err), wanted);
    if (found != n) fail_msg("%s: %zu messages, not %zu", what, found, n);
}

static void work(ms_store *store, ms_type type, const char *text)
{
    ms_envelope m = ms_message(type, ms_text(text));
    m.agent_key = MS_STR("worker");
    must_be("append", ms_append(store, MS_STR("job"), &m, NULL, &err), MS_OK);
}

/* The only task of a worker is damaged: its history would have nothing. */
static void a_task_is_damaged(size_t segment, bool header)
{
    ms_memory memory;
    ms_store *runtime;
    ms_mem_desc desc = {0};
    (void)remove(path);
    ms_store *store = writer(segment);
    work(store, MS_T_TASK, "<task one>");
    work(store, MS_T_OBSERVATION, "paid");
    say(store, "elsewhere", 1, 40);
    ms_close(store);
    must_be("a store", ms_mem_open(&runtime, &desc, &err), MS_OK);
    for (int damaged = 0; damaged < 2; damaged++) {
        if (damaged) change_byte(place_of("<task one>") - (header ? 40 : 0));
        store = reader(MS_OPEN_NORMAL);
        ms_memory_init(&memory, store, MS_STR("job"), MS_STR("worker"));
        memory.scope.kind = MS_SCOPE_WORKER;
        for (int times = 0; times < 4; times++) {
            memory.timeline = times % 2 != 0;
            memory.runtime = times < 2 ? NULL : runtime;
            memory.runtime_mode = times < 2 ? MS_RUNTIME_STORE : MS_RUNTIME_MERGE;
            must_remember(&memory, "of a worker", damaged ? MS_E_DAMAGED : MS_OK,
                          damaged ? 0 : 1);
        }
        memory.agent_key = MS_STR("another");
        must_remember(&memory, "of another worker",
                      damaged && segment == 0 ? MS_E_DAMAGED : MS_OK, 0);
        ms_close(store);
    }
    work(runtime, MS_T_TASK, "a newer task");
    work(runtime, MS_T_OBSERVATION, "done");
    store = reader(MS_OPEN_NORMAL);
    ms_memory_init(&memory, store, MS_STR("job"), MS_STR("worker"));
    memory.scope.kind = MS_SCOPE_WORKER;
    memory.runtime = runtime;
    memory.runtime_mode = MS_RUNTIME_MERGE;
    must_remember(&memory, "after a newer task", MS_OK, 1);
    ms_close(store);
    ms_close(runtime);
}

TEST(a_worker_whose_last_task_is_damaged_is_told)
{
    a_task_is_damaged(0, false);
    a_task_is_damaged(0, true);
    a_task_is_damaged(MS_LOG_SEGMENT_MIN, false);
    a_task_is_damaged(MS_LOG_SEGMENT_MIN, true);
}

/* A later task is damaged, and the limit of the history is reached before it is met. Then
 * all of the earlier task is in the scope. */
static void a_later_task_is_damaged(size_t segment, const char *what, ms_result wanted)
{
    ms_memory memory;
    (void)remove(path);
    ms_store *store = writer(segment);
    work(store, MS_T_TASK, "<task one>");
    work(store, MS_T_OBSERVATION, "paid");
    work(store, MS_T_TASK, "<task two>");
    work(store, MS_T_OBSERVATION, "<looked>");
    work(store, MS_T_OBSERVATION, "done");
    say(store, "elsewhere", 1, 40);
    ms_close(store);
    for (int damaged = 0; damaged < 2; damaged++) {
        if (damaged) change_byte(place_of(what));
        store = reader(MS_OPEN_NORMAL);
        for (int times = 0; times < 4; times++) {
            ms_memory_init(&memory, store, MS_STR("job"), MS_STR("worker"));
            memory.scope.kind = times % 2 ? MS_SCOPE_WORKER : MS_SCOPE_SINCE_TASK;
            memory.timeline = times >= 2;
            memory.no_conversation = true; /* it would have all of the job */
            if (memory.timeline) memory.limit = 1;
            else memory.agent_limit = 1;
            ms_result result = damaged ? wanted : MS_OK;
            if (damaged && times == 2) result = MS_E_DAMAGED; /* it reads all, and skips */
            must_remember(&memory, what, result, 1);
        }
        ms_close(store);
    }
}

TEST(a_worker_whose_later_task_is_damaged_is_told_whatever_its_limit)
{
    a_later_task_is_damaged(0, "<task two>", MS_E_DAMAGED);
    a_later_task_is_damaged(MS_LOG_SEGMENT_MIN, "<task two>", MS_E_DAMAGED);
    a_later_task_is_damaged(0, "<task one>", MS_OK);
    a_later_task_is_damaged(MS_LOG_SEGMENT_MIN, "<task one>", MS_OK);
    /* one that may have been a later task */
    a_later_task_is_damaged(0, "<looked>", MS_E_DAMAGED);
    a_later_task_is_damaged(MS_LOG_SEGMENT_MIN, "<looked>", MS_E_DAMAGED);
}

/* ---- blocks that the disk cannot read ---- */

enum { NO_PAGE = 1 << 30 };

static size_t bad_page;
static int page_code = EIO, write_code; /* of a read of that page alone; of a write */
static const ms_os *below;

/* What the system does with a bad block: a read of it fails, and in a map it becomes bytes
 * that are not the file's. */
static int bad_populate(void *ctx, ms_file file, void *at, uint64_t offset, size_t size,
                        uint64_t *bad)
{
    int code = below->populate(ctx, file, at, offset, size, bad);
    uint64_t place = bad_page * 4096;
    if (code != 0 || place < offset || place >= offset + size) return code;
    void *p = mmap((char *)at + (place - offset), 4096, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (p == MAP_FAILED) return errno;
    memset(p, 0x5b, 4096);
    *bad += 4096;
    return 0;
}

static int bad_read(void *ctx, ms_file file, uint64_t offset, void *to, size_t size,
                    size_t *done)
{
    uint64_t place = bad_page * 4096;
    if (offset < place + 4096 && place < offset + size)
        return size > 4096 ? EIO : page_code;
    return below->read(ctx, file, offset, to, size, done);
}

/* The system with a block that it cannot read. Each call populates pages that follow one
 * another. */
static ms_os bad_system(void)
{
    below = ms_os_default();
    if (below->populate == NULL) skip();
    ms_os os = *below;
    os.read = bad_read;
    os.populate = bad_populate;
    os.populate_each = NULL;
    return os;
}

/* A disk takes another block for a bad one that is written as a whole. */
static int bad_write(void *ctx, ms_file file, uint64_t offset, const void *from,
                     size_t size, size_t *done)
{
    uint64_t place = bad_page * 4096;
    if (write_code != 0) return write_code;
    int code = below->write(ctx, file, offset, from, size, done);
    bool whole = offset <= place && place + 4096 <= offset + *done;
    if (code == 0 && whole) bad_page = NO_PAGE;
    return code;
}

static char *mapped; /* the log */
static size_t taken, refused; /* calls for several pages */

static int noted_map(void *ctx, ms_file file, uint64_t offset, size_t size, unsigned how,
                     void **out)
{
    int code = below->map(ctx, file, offset, size, how, out);
    if (offset == 0) mapped = (char *)*out;
    return code;
}

/* The system's call ends at a bad block. */
static int bad_populate_each(void *ctx, void *const *pages, size_t n)
{
    bool bad = false;
    (void)ctx;
    for (size_t i = 0; i < n; i++)
        if (pages[i] == mapped + bad_page * 4096) bad = true;
    if (bad) refused++;
    else taken++;
    return bad ? EFAULT : 0;
}

/* Pages are read one by one where a call for several of them has failed: the report is the
 * same then. */
TEST(a_bad_block_is_reported_among_several_pages)
{
    ms_os os = bad_system();
    os.map = noted_map;
    enum { MESSAGES = 300, ROOMS = 20 };
    static const char *const rooms[] = {"room", "pairs"}; /* of two in one page */
    static char text[3000];
    char room_name[20];
    ms_log_report report;
    ms_log_desc desc = {.path = path, .mode = MS_LOG_NEW, .segment_size = 1 << 18};
    memset(text, 'x', sizeof text - 1);
    (void)remove(path);
    ms_store *filled = must_open_log(&desc, "a log");
    for (int i = 0; i < MESSAGES; i++) {
        ms_envelope m = ms_user_message(ms_text(text));
        snprintf(room_name, sizeof room_name, i % ROOMS ? "room %d" : "room", i % ROOMS);
        must_be("append", ms_append(filled, ms_str_of(room_name), &m, NULL, &err), MS_OK);
        m = ms_user_message(ms_text("one of two"));
        for (int two = 0; two < 2 && i % ROOMS == 1; two++)
            must_be("append", ms_append(filled, MS_STR("pairs"), &m, NULL, &err), MS_OK);
    }
    ms_close(filled);
    must_be("verify", ms_log_verify(&desc, &report, &err), MS_OK);
    desc.mode = MS_LOG_READ;
    desc.os = &os;
    taken = refused = 0;
    for (size_t i = 0; i < 2 * (report.end / 4096); i++) {
        const ms_query room = {.location = ms_str_of(rooms[i % 2])};
        ms_result result[2];
        size_t n[2];
        bad_page = i / 2;
        for (int each = 0; each < 2; each++) {
            os.populate_each = each ? bad_populate_each : NULL;
            ms_store *store = must_open_log(&desc, "a reader of a bad block");
            result[each] = reads(store, &room, &n[each]);
            ms_close(store);
        }
        assert_int_equal(result[1], result[0]);
        assert_int_equal(n[1], n[0]);
    }
    assert_true(taken > 0 && refused > 0);
}

/* Where the log ends, by its watermark. */
static uint64_t log_end(void)
{
    unsigned char bytes[8];
    FILE *f = fopen(path, "rb");
    assert_true(f != NULL && fseek(f, FILE_AT_WATERMARK, SEEK_SET) == 0);
    assert_int_equal(fread(bytes, 1, sizeof bytes, f), sizeof bytes);
    fclose(f);
    return file_get64(bytes);
}

static void zero_bytes(long at, size_t n)
{
    FILE *f = fopen(path, "r+b");
    assert_true(f != NULL && fseek(f, at, SEEK_SET) == 0);
    for (; n > 0; n--) assert_int_equal(fputc(0, f), 0);
    assert_int_equal(fclose(f), 0);
}

TEST(a_bad_block_is_reported_wherever_it_is)
{
    ms_os os = bad_system();
    for (int sealed = 0; sealed < 2; sealed++) {
        make_log(sealed ? MS_LOG_SEGMENT_MIN : 0);
        ms_log_desc desc = {.path = path, .mode = MS_LOG_READ, .os = &os};
        ms_log_report report;
        const ms_query all = {0};
        long pages = (place_of("<result 39>") + 4095) / 4096;
        for (bad_page = 0; bad_page < (size_t)pages; bad_page++) {
            size_t n;
            ms_store *store = must_open_log(&desc, "a reader of a bad block");
            ms_result result = reads(store, &all, &n);
            ms_close(store);
            if (bad_page < 2 ? result != MS_OK || n != 3 * PAIRS
                             : result != MS_E_DAMAGED || n < PAIRS || n >= 3 * PAIRS)
                fail_msg("page %zu: %zu messages, %s", bad_page, n, ms_result_text(result));
            ms_result verified = ms_log_verify(&desc, &report, &err);
            if (verified != (bad_page < 2 ? MS_OK : MS_E_DAMAGED))
                fail_msg("page %zu: verify: %s", bad_page, ms_result_text(verified));
            if (bad_page >= 2 && report.damaged + report.index_damaged == 0)
                fail_msg("page %zu: verify reports nothing", bad_page);
        }
    }
}

TEST(a_first_page_that_cannot_be_read_is_written_again_by_a_writer)
{
    size_t n;
    ms_store *store;
    const ms_query all = {0};
    ms_os os = bad_system();
    os.write = bad_write;
    make_log(0);
    ms_log_desc desc = {.path = path, .os = &os, .mode = MS_LOG_WRITE};
    desc.shared = true;
    bad_page = 0;
    write_code = EIO;
    must_be("a writer that cannot write", ms_log_open(&store, &desc, &err), MS_E_IO);
    assert_int_equal(bad_page, 0);
    write_code = 0;
    store = must_open_log(&desc, "a writer of a bad first page");
    assert_int_equal(bad_page, NO_PAGE);
    must_be("reading", reads(store, &all, &n), MS_OK);
    assert_int_equal(n, 3 * PAIRS);
    desc.os = NULL;
    ms_store *other = must_open_log(&desc, "another writer");
    say(other, "room", 1, 1); /* which the first one finds in its map of that page */
    must_be("reading", reads(store, &all, &n), MS_OK);
    assert_int_equal(n, 3 * PAIRS + 1);
    ms_close(other);
    say(store, "room", 2, 1);
    ms_close(store);
    store = reader(MS_OPEN_STRICT);
    must_be("reading the file", reads(store, &all, &n), MS_OK);
    assert_int_equal(n, 3 * PAIRS + 2);
    ms_close(store);
}

TEST(a_log_is_not_opened_when_its_pages_cannot_be_read_for_another_reason)
{
    ms_store *store;
    below = ms_os_default();
    ms_os os = *below;
    os.read = bad_read;
    make_log(0);
    ms_log_desc desc = {.path = path, .mode = MS_LOG_READ, .os = &os};
    page_code = ENXIO;
    for (bad_page = 0; bad_page < 2; bad_page++) {
        must_be("a reader", ms_log_open(&store, &desc, &err), MS_E_IO);
        assert_int_equal(err.sys_errno, ENXIO);
    }
    page_code = EIO;
}

/* Where maps are exact, that of a file of any size ends inside of a page. */
TEST(a_bad_block_is_reported_where_the_file_ends_inside_of_it)
{
    ms_os os = bad_system();
    os.exact_maps = true;
    for (int bad = 0; bad < 2; bad++) {
        size_t n;
        const ms_query all = {0};
        make_log(0);
        ms_log_desc desc = {.path = path, .mode = MS_LOG_READ, .os = &os};
        uint64_t end = log_end();
        assert_true(end % 4096 > 200);
        assert_int_equal(truncate(path, (off_t)end), 0);
        bad_page = bad ? (size_t)(end / 4096) : SIZE_MAX / 4096;
        ms_store *store = must_open_log(&desc, "a reader of a bad block");
        must_be("everything", reads(store, &all, &n), bad ? MS_E_DAMAGED : MS_OK);
        assert_int_equal(n < 3 * PAIRS, bad);
        ms_close(store);
    }
}

static uint64_t next_boot(void *ctx) { return below->boot(below->ctx) + 1; }

/* After a power loss a record with a sector of zeros is torn, and the log ends before it.
 * Where the disk has lost another block, that is no proof. */
TEST(zeros_end_no_log_that_has_a_bad_block)
{
    ms_os os = bad_system();
    os.boot = next_boot;
    for (int bad = 0; bad < 2; bad++) {
        ms_cursor it;
        const ms_msg *msg;
        const ms_query all = {0};
        uint64_t last = 0;
        make_log(0);
        assert_true(log_end() > 4 * 4096);
        zero_bytes(FILE_AT_CHECKPOINTS, 1024); /* nothing is known to be synced */
        zero_bytes(3 * 4096 + 1024, 1024);
        ms_log_desc desc = {.path = path, .mode = MS_LOG_READ, .os = &os};
        bad_page = bad ? 2 : SIZE_MAX / 4096;
        ms_store *store = must_open_log(&desc, "a reader of a bad block");
        must_be("everything", ms_query_open(store, &all, &it, &err), MS_OK);
        while ((msg = ms_next(&it)) != NULL) last = ms_seq(msg);
        must_be("everything", ms_cursor_close(&it, &err), bad ? MS_E_DAMAGED : MS_OK);
        if (bad) assert_int_equal(last, 3 * PAIRS);
        else assert_true(last > PAIRS && last < 2 * PAIRS);
        ms_close(store);
    }
}

int main(void)
{
    char *folder = scratch_folder();
    path = scratch_file(folder, "log.msl");
    int failed = run_all_tests(NULL, NULL);
    free(path);
    free(folder);
    return failed;
}
