/* Growth: four times as much of anything takes at most six times as many steps, for each
 * operation of the interface that can meet much of it. What grows with the square takes
 * sixteen times as many. What should cost the same takes at most six times as many steps
 * at ten thousand times as much.
 *
 * Steps are counted, not timed: the compiler has each basic block of this program call a
 * function (-fsanitize-coverage=trace-pc, see tests/Makefile), and calls that move or
 * compare bytes count a step for each eight of them. So a machine that is busy changes
 * nothing. The disk does not work: steps are those of the processor.
 */

#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile unsigned long long steps; /* a compiler does not see who counts */

#if defined(__clang__)
#define NOT_COUNTED __attribute__((no_sanitize("coverage")))
#else
#define NOT_COUNTED __attribute__((no_sanitize_coverage))
#endif

void __sanitizer_cov_trace_pc(void);
NOT_COUNTED void __sanitizer_cov_trace_pc(void) { steps++; }

static inline NOT_COUNTED size_t bytes_count(size_t n)
{
    steps += n / 8;
    return n;
}

#undef memcpy
#undef memmove
#undef memset
#undef memcmp
#define memcpy(to, from, n) memcpy(to, from, bytes_count(n))
#define memmove(to, from, n) memmove(to, from, bytes_count(n))
#define memset(to, byte, n) memset(to, byte, bytes_count(n))
#define memcmp(a, b, n) memcmp(a, b, bytes_count(n))

#define MSGSTORE_IMPLEMENTATION
#define MSGSTORE_RING
#define MSGSTORE_FLASH
#include "msgstore.h"
#include "support.h"
#include "scratch.h"
#include "stores.h"

#define JOB MS_STR("job")
#define OTHER MS_STR("other")

typedef struct world {
    test_store s;
    ms_store *store, *second;
    ms_arena arena;
    size_t n;                 /* how many */
    uint64_t seq;
    ms_buf text;
    ms_stream stream;
} world;

/* Where an operation is counted. Names are looked up in the index of each segment, or of 32
 * segments that have a summary: there must be many of those, so that is counted at 10,000
 * at any scale (NOT_SCALED), and in a log of one segment, too. A new key is in none of
 * them: that is counted in one segment (see ../../LIMITS.md). */
enum { IN_MEMORY = 1, IN_SEGMENTS = 2, IN_ONE_SEGMENT = 4, NOT_SCALED = 8, IN_BOTH = 3,
       BY_KEY = 5, IN_ANY = 7, BY_NAME = 15 };

typedef struct operation {
    const char *name;
    void (*prepare)(world *w);  /* not counted; NULL: nothing */
    void (*run)(world *w);      /* counted */
    unsigned places;
} operation;

static void must(ms_result code) { assert_int_equal(code, MS_OK); }

static unsigned random_state;

static unsigned random_number(unsigned below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (unsigned)(((uint64_t)random_state * below) >> 32);
}

/* "PREFIX<i>", valid until the next but seven. */
static ms_str numbered(const char *prefix, size_t i)
{
    static char room[8][64];
    static unsigned next;
    char *out = room[next++ % 8];
    return ms_str_n(out, (size_t)snprintf(out, 64, "%s%zu", prefix, i));
}

static uint64_t append(ms_store *store, ms_str location, ms_envelope m)
{
    uint64_t seq;
    must(ms_append(store, location, &m, &seq, NULL));
    return seq;
}

static void write_text(world *w, const char *text)
{
    must(ms_buf_write(&w->text, text, strlen(text)));
}

static void write_numbered(world *w, const char *before, size_t i, const char *after)
{
    char number[24];
    snprintf(number, sizeof number, "%zu", i);
    write_text(w, before);
    write_text(w, number);
    write_text(w, after);
}

static size_t count_all(ms_store *store, const ms_query *q)
{
    ms_cursor it;
    size_t n = 0;
    must(ms_query_open(store, q, &it, NULL));
    while (ms_next(&it)) n++;
    must(ms_cursor_close(&it, NULL));
    return n;
}

static ms_query of(ms_str location)
{
    ms_query q;
    memset(&q, 0, sizeof q);
    q.location = location;
    return q;
}

/* ---- messages ---- */

static ms_envelope hello(void) { return ms_user_message(ms_text("hello there")); }

static void append_all(world *w)
{
    for (size_t i = 0; i < w->n; i++) w->seq = append(w->store, JOB, hello());
}

static void append_one(world *w) { w->seq = append(w->store, JOB, hello()); }

static void append_batch(world *w)
{
    ms_envelope *all = (ms_envelope *)ms_arena_alloc(&w->arena, w->n * sizeof *all);
    ms_append_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.location = JOB;
    assert_non_null(all);
    for (size_t i = 0; i < w->n; i++) all[i] = hello();
    must(ms_append_batch(w->store, all, w->n, &opts, NULL));
}

static void append_keys(world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        ms_envelope m = hello();
        m.key = numbered("key", i);
        append(w->store, JOB, m);
    }
}

static void append_to_many(world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        ms_envelope m = hello();
        m.agent_key = numbered("agent", i);
        append(w->store, numbered("place", i), m);
    }
}

static void append_of_many_agents(world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        ms_envelope m = ms_message(MS_T_FINAL, ms_text("done"));
        m.agent_key = numbered("agent", i);
        append(w->store, JOB, m);
    }
}

static void query_all(world *w)
{
    ms_query q = of(JOB);
    count_all(w->store, &q);
    q.reverse = true;
    count_all(w->store, &q);
    q.by_time = true;
    q.arena = &w->arena;
    count_all(w->store, &q);
    memset(&q, 0, sizeof q);
    count_all(w->store, &q);
}

static void query_newest(world *w)
{
    ms_query q = of(JOB);
    q.limit = 3;
    for (size_t i = 0; i < w->n; i++) count_all(w->store, &q);
}

static void query_windows(world *w)
{
    ms_query q = of(JOB);
    for (size_t i = 0; i < w->n; i++) {
        q.after_seq = i;
        q.before_seq = i + 3;
        count_all(w->store, &q);
    }
}

static void query_agents(world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        ms_cursor it;
        must(ms_get_agent_messages(w->store, JOB, numbered("agent", i), 0, &it, NULL));
        assert_non_null(ms_next(&it));
        must(ms_cursor_close(&it, NULL));
    }
}

static void query_places(world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        ms_query q = of(numbered("place", i));
        assert_int_equal(count_all(w->store, &q), 1);
    }
}

static void get_each(world *w)
{
    const ms_msg *msg;
    for (size_t i = 0; i < w->n; i++)
        must(ms_get_by_seq(w->store, i + 1, &w->arena, &msg, NULL));
}

static void list_all(world *w)
{
    ms_list_query q;
    ms_listing out;
    memset(&q, 0, sizeof q);
    must(ms_list(w->store, &q, &w->arena, &out, NULL));
    assert_int_equal(out.count, w->n);
    q.agents = true;
    must(ms_list(w->store, &q, &w->arena, &out, NULL));
    assert_int_equal(out.count, w->n);
}

static void list_first(world *w)
{
    ms_list_query q;
    ms_listing out;
    memset(&q, 0, sizeof q);
    q.limit = 3;
    for (size_t i = 0; i < w->n; i++) {
        must(ms_list(w->store, &q, &w->arena, &out, NULL));
        assert_int_equal(out.count, 3);
        ms_arena_reset(&w->arena);
    }
}

static void find_words(world *w)
{
    ms_find_query q;
    ms_finder finder;
    ms_found found;
    memset(&q, 0, sizeof q);
    q.query = of(JOB);
    q.text = MS_STR("there");
    q.every_match = true;
    size_t n = 0;
    must(ms_find_open(w->store, &q, &finder, NULL));
    while (ms_find_next(&finder, &found)) n++;
    must(ms_find_close(&finder, NULL));
    assert_int_equal(n, w->n);
}

static void one_long_text(world *w)
{
    for (size_t i = 0; i < w->n; i++) write_text(w, "over there ");
    append(w->store, JOB, ms_user_message(ms_text_n(ms_buf_text(&w->text))));
}

static void stat_each(world *w)
{
    ms_stat stat;
    uint64_t newest;
    for (size_t i = 0; i < w->n; i++) {
        append(w->store, JOB, hello());
        must(ms_store_stat(w->store, &stat, NULL));
        must(ms_wait(w->store, 0, 0, &newest, NULL));
        must(ms_tick(w->store, 1, NULL));
    }
}

static void sync_each(world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        append(w->store, JOB, hello());
        must(ms_sync(w->store, NULL, NULL));
    }
}

/* ---- changes ---- */

static void amend_one(world *w)
{
    ms_envelope m = hello();
    for (size_t i = 0; i < w->n; i++) must(ms_amend(w->store, w->seq, &m, NULL));
    query_all(w);
}

static void amend_each(world *w)
{
    ms_envelope m = hello();
    for (size_t i = 0; i < w->n; i++) must(ms_amend(w->store, i + 1, &m, NULL));
    query_all(w);
}

static void note_one(world *w)
{
    ms_query q = of(JOB);
    for (size_t i = 0; i < w->n; i++)
        must(ms_note(w->store, w->seq, MS_STR("score"), ms_text("v"), NULL));
    q.raw = MS_RAW_NOTES;
    q.about_seq = w->seq;
    assert_int_equal(count_all(w->store, &q), w->n);
}

static void note_each(world *w)
{
    ms_usage usage;
    memset(&usage, 0, sizeof usage);
    usage.input_tokens = 7;
    for (size_t i = 0; i < w->n; i++)
        must(ms_note_usage(w->store, i + 1, &usage, NULL));
    ms_query q = of(JOB);
    q.raw = MS_RAW_NOTES;
    assert_int_equal(count_all(w->store, &q), w->n);
}

static void append_noted(world *w)
{
    append_all(w);
    note_each(w);
}

/* The notes of each message, read together, then as soon as each is there. */
static void read_notes_of_each(world *w)
{
    ms_query q = of(JOB);
    q.raw = MS_RAW_NOTES;
    for (size_t i = 0; i < w->n; i++) {
        q.about_seq = i + 1;
        assert_int_equal(count_all(w->store, &q), 1);
    }
    for (size_t i = 0; i < w->n; i++) {
        q.about_seq = i + 1;
        must(ms_note(w->store, i + 1, MS_STR("score"), ms_text("v"), NULL));
        assert_int_equal(count_all(w->store, &q), 2);
    }
}

static void hide_each(world *w)
{
    for (size_t i = 0; i < w->n; i += 2) must(ms_hide(w->store, i + 1, NULL));
    query_all(w);
}

/* Ranges of 2 of the messages, at random places. */
static void hide_ranges(world *w)
{
    random_state = 7;
    for (size_t i = 0; i < w->n / 2; i++) {
        uint64_t at = 1 + random_number((unsigned)w->n);
        must(ms_hide_range(w->store, JOB, at, at + 1, NULL, NULL));
    }
}

/* Wider ones, in order. */
static void hide_wide_ranges(world *w)
{
    for (size_t i = 0; i < w->n / 40; i++)
        must(ms_hide_range(w->store, JOB, i * 40 + 1, i * 40 + 18, NULL, NULL));
}

static void hide_and_query(world *w)
{
    hide_ranges(w);
    query_all(w);
    query_newest(w);
}

static void hide_wide_and_query(world *w)
{
    hide_wide_ranges(w);
    query_all(w);
}

/* Some are in others, and those that hide nothing more leave no record. */
static void hide_at_random_and_query(world *w)
{
    uint64_t hidden, all = 0;
    random_state = 7;
    for (size_t i = 0; i < w->n / 8; i++) {
        uint64_t at = 1 + random_number((unsigned)w->n);
        must(ms_hide_range(w->store, JOB, at, at + 16 + random_number(8), &hidden, NULL));
        all += hidden;
    }
    assert_in_range(all, w->n / 2, w->n);
    query_all(w);
    query_windows(w);
}

static void rewind_each(world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        append(w->store, JOB, hello());
        append(w->store, JOB, hello());
        must(ms_rewind(w->store, JOB, w->seq, NULL, NULL));
    }
    query_all(w);
}

static void redact_each(world *w)
{
    for (size_t i = 0; i < w->n; i++) must(ms_redact(w->store, i + 1, NULL));
    query_all(w);
}

static void set_facts(world *w)
{
    ms_str facts;
    for (size_t i = 0; i < w->n; i++) {
        char one[40];
        int len = snprintf(one, sizeof one, "{\"read\":%zu}", i);
        must(ms_location_set(w->store, JOB, ms_str_n(one, (size_t)len), NULL));
    }
    must(ms_location_get(w->store, JOB, &w->arena, &facts, NULL));
}

static void set_and_get_facts(world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        ms_str facts;
        char one[40];
        int len = snprintf(one, sizeof one, "{\"read\":%zu}", i);
        must(ms_location_set(w->store, JOB, ms_str_n(one, (size_t)len), NULL));
        ms_arena_reset(&w->arena);
        must(ms_location_get(w->store, JOB, &w->arena, &facts, NULL));
        assert_int_equal(facts.len, len);
        assert_memory_equal(facts.ptr, one, facts.len);
    }
}

static void set_many_facts(world *w)
{
    ms_str facts;
    for (size_t i = 0; i < w->n; i++) {
        char one[40];
        int len = snprintf(one, sizeof one, "{\"fact%zu\":%zu}", i, i);
        must(ms_location_set(w->store, JOB, ms_str_n(one, (size_t)len), NULL));
    }
    must(ms_location_get(w->store, JOB, &w->arena, &facts, NULL));
}

/* ---- facts, whose cost is that of the facts alone ---- */

static void set_read(world *w, ms_str location, size_t i)
{
    char one[40];
    int len = snprintf(one, sizeof one, "{\"read\":%zu}", i);
    must(ms_location_set(w->store, location, ms_str_n(one, (size_t)len), NULL));
}

/* A log is opened by another handle, which has read what every query reads. */
static void begin_anew(world *w)
{
    if (!w->s.log.path) return;
    ms_close(w->store);
    must(ms_log_open(&w->store, &w->s.log, NULL));
    ms_query q = of(MS_STR("none"));
    (void)count_all(w->store, &q);
}

static void set_facts_anew(world *w)
{
    append_one(w);
    for (size_t i = 0; i <= w->n; i++) set_read(w, JOB, i);
    begin_anew(w);
}

static void set_facts_beside(world *w)
{
    append_one(w);
    set_read(w, JOB, w->n);
    for (size_t i = 0; i < w->n; i++) set_read(w, OTHER, i);
    begin_anew(w);
}

static void set_facts_as_one_of_two(world *w)
{
    ms_log_desc desc = w->s.log;
    ms_store *other = w->store;
    append_one(w);
    if (desc.path) {
        ms_close(w->store);
        desc.shared = true;
        must(ms_log_open(&w->store, &desc, NULL));
        must(ms_log_open(&other, &desc, NULL));
    }
    for (size_t i = 0; i <= w->n; i++) {
        ms_store *own = w->store;
        if (i % 2) w->store = other;
        set_read(w, JOB, i);
        w->store = own;
    }
    if (desc.path) ms_close(other);
    begin_anew(w);
}

static void copy_facts(world *w)
{
    ms_copy_report report;
    ms_keep keep;
    append_one(w);
    for (size_t i = 0; i < w->n; i++) set_read(w, JOB, i);
    memset(&keep, 0, sizeof keep);
    memset(&report, 0, sizeof report);
    must(ms_copy(w->second, w->store, &keep, &w->arena, &report, NULL));
    ms_store *store = w->store;
    w->store = w->second;
    set_read(w, JOB, w->n);
    w->second = store;
}

static void get_facts(world *w)
{
    char one[40];
    ms_str facts;
    int len = snprintf(one, sizeof one, "{\"read\":%zu}", w->n);
    must(ms_location_get(w->store, JOB, &w->arena, &facts, NULL));
    assert_int_equal(facts.len, len);
    assert_memory_equal(facts.ptr, one, facts.len);
}

/* The first look passes over the notes. */
static void note_many_after_facts(world *w)
{
    append_one(w);
    set_read(w, JOB, w->n);
    for (size_t i = 0; i < w->n; i++)
        must(ms_note(w->store, w->seq, MS_STR("seen"), ms_text("by one more"), NULL));
    begin_anew(w);
    get_facts(w);
}

static void set_one_fact(world *w)
{
    must(ms_location_set(w->store, JOB, MS_STR("{\"other\":1}"), NULL));
}

static void fork_all(world *w)
{
    must(ms_fork(w->store, JOB, w->seq, OTHER, &w->arena, NULL));
}

static void fork_of_forks(world *w)
{
    ms_stat stat;
    ms_str from = JOB;
    for (size_t i = 0; i < w->n; i++) {
        ms_str to = numbered("fork", i);
        must(ms_fork(w->store, from, w->seq, to, NULL, NULL));
        must(ms_store_stat(w->store, &stat, NULL));
        w->seq = stat.last_seq;
        from = to;
    }
}

/* ---- streams ---- */

static void begin_stream(world *w)
{
    ms_stream_opts opts;
    ms_envelope m = ms_assistant_message(ms_text(""));
    memset(&opts, 0, sizeof opts);
    opts.every_part = true;
    must(ms_stream_begin(&w->stream, w->store, JOB, &m, &opts, NULL));
}

static void feed_stream(world *w)
{
    const ms_msg *msg;
    uint64_t seq = w->stream.seq;
    for (size_t i = 0; i < w->n; i++)
        must(ms_stream_feed(&w->stream, MS_STR("tok "), NULL));
    must(ms_get_by_seq(w->store, seq, &w->arena, &msg, NULL));
    must(ms_stream_end(&w->stream, NULL, &w->arena, NULL));
}

/* A reader that asks after each few parts. */
static void follow_stream(world *w)
{
    ms_stream_text text;
    size_t n = 0;
    memset(&text, 0, sizeof text);
    for (size_t i = 0; i < w->n; i++) {
        must(ms_stream_feed(&w->stream, MS_STR("tok "), NULL));
        if (i % 4 != 3) continue;
        ms_arena_reset(&w->arena);
        must(ms_stream_follow(w->store, w->stream.seq, &w->arena, &text, NULL));
        n += text.text.len;
    }
    assert_int_equal(n, 4 * w->n);
}

static void stream_each(world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        begin_stream(w);
        must(ms_stream_feed(&w->stream, MS_STR("tok "), NULL));
        if (i % 2) must(ms_stream_end(&w->stream, NULL, NULL, NULL));
        else must(ms_stream_recover(w->store, w->stream.seq, NULL, NULL));
    }
    query_all(w);
}

/* ---- copies, unions, files ---- */

static void append_everything(world *w)
{
    append_all(w);
    for (size_t i = 0; i < w->n; i += 4) {
        ms_envelope m = hello();
        must(ms_amend(w->store, i + 1, &m, NULL));
        must(ms_hide(w->store, i + 2, NULL));
        must(ms_note(w->store, i + 3, MS_STR("score"), ms_text("v"), NULL));
        must(ms_location_set(w->store, numbered("place", i), MS_STR("{\"a\":1}"), NULL));
    }
}

static void copy_all(world *w)
{
    ms_keep keep;
    ms_copy_report report;
    memset(&keep, 0, sizeof keep);
    must(ms_copy(w->second, w->store, NULL, NULL, &report, NULL));
    keep.newest = w->n / 2;
    keep.whole_turns = true;
    keep.dry_run = true;
    must(ms_copy(NULL, w->store, &keep, NULL, &report, NULL));
}

static void rewrite(world *w)
{
    ms_log_desc to = w->s.log;
    ms_copy_report report;
    to.opening = MS_OPEN_STRICT;
    must(ms_log_rewrite(w->store, &to, true, NULL, &report, NULL));
}

static void reopen(world *w)
{
    ms_log_report report;
    ms_close(w->store);
    w->store = w->s.store = NULL;
    must(ms_log_verify(&w->s.log, &report, NULL));
    must(ms_log_open(&w->store, &w->s.log, NULL));
    w->s.store = w->store;
    query_all(w);
    must(ms_selfcheck(w->store, NULL));
}

static void append_to_two(world *w)
{
    append_all(w);
    for (size_t i = 0; i < w->n; i++) append(w->second, JOB, hello());
}

static void query_union(world *w)
{
    ms_store *stores[2] = {w->store, w->second}, *both;
    const ms_union_desc desc = {stores, 2, {NULL, NULL}};
    ms_query q = of(JOB);
    must(ms_union_open(&both, &desc, NULL));
    assert_int_equal(count_all(both, &q), 2 * w->n);
    q.limit = 3;
    for (size_t i = 0; i < w->n; i++) count_all(both, &q);
    ms_close(both);
}

static void check_all(world *w) { must(ms_selfcheck(w->store, NULL)); }

static void append_to_ring(world *w)
{
    ms_mem_desc desc;
    ms_store *ring;
    size_t size = 256 * w->n;
    void *buffer = ms_arena_alloc(&w->arena, size);
    memset(&desc, 0, sizeof desc);
    desc.buffer = buffer;
    desc.buffer_size = size;
    desc.drop_oldest = true;
    must(ms_mem_open(&ring, &desc, NULL));
    for (size_t i = 0; i < 8 * w->n; i++) append(ring, JOB, hello());
    ms_close(ring);
}

static void attach_image(world *w)
{
    ms_mem_desc desc;
    ms_store *store;
    uint64_t damaged;
    memset(&desc, 0, sizeof desc);
    desc.buffer_size = 256 * w->n;
    desc.buffer = ms_arena_alloc(&w->arena, desc.buffer_size);
    must(ms_mem_open(&store, &desc, NULL));
    for (size_t i = 0; i < w->n; i++) append(store, JOB, hello());
    ms_close(store);
    must(ms_mem_attach(&store, &desc, &damaged, NULL));
    must(ms_mem_reset(store, NULL));
    ms_close(store);
}

/* ---- histories ---- */

static void append_team(world *w)
{
    static const ms_type types[] = {MS_T_USER_MESSAGE, MS_T_FINAL, MS_T_TASK,
                                    MS_T_GLOBAL_OBSERVATION, MS_T_ACTION};
    for (size_t i = 0; i < w->n; i++) {
        ms_envelope m = ms_message(types[i % COUNT(types)], ms_text("words"));
        if (m.type == MS_T_ACTION)
            m = ms_action(MS_STR("t"), ms_json(MS_STR("{}")), numbered("c", i));
        if (m.type != MS_T_USER_MESSAGE) m.agent_key = i % 4 ? MS_STR("a") : MS_STR("b");
        append(w->store, JOB, m);
    }
}

static void read_histories(world *w)
{
    static const ms_str team[] = {{"a", 1}, {"b", 1}};
    for (int kind = MS_SCOPE_ALL; kind <= MS_SCOPE_SINCE_TASK; kind++) {
        ms_memory me;
        ms_cursor it;
        ms_memory_init(&me, w->store, JOB, MS_STR("a"));
        me.scope.kind = (ms_scope_kind)kind;
        for (int way = 0; way < 2; way++) {
            must(ms_get_history(&me, &it, NULL));
            while (ms_next(&it)) {}
            must(ms_cursor_close(&it, NULL));
            me.by_time = true;
            me.arena = &w->arena;
        }
    }
    ms_cursor it;
    must(ms_get_team_messages(w->store, JOB, team, 2, 0, &it, NULL));
    while (ms_next(&it)) {}
    must(ms_cursor_close(&it, NULL));
}

static void read_new_histories(world *w)
{
    ms_memory me;
    ms_cursor it;
    ms_memory_init(&me, w->store, JOB, MS_STR("a"));
    me.agent_limit = me.conversation_limit = me.global_limit = 2;
    for (size_t i = 0; i < w->n; i++) {
        must(ms_get_history(&me, &it, NULL));
        while (ms_next(&it)) {}
        must(ms_cursor_close(&it, NULL));
    }
}

/* ---- requests ---- */

/* Of a memory, or of the location. */
static void project_from(ms_store *store, const ms_memory *memory)
{
    unsigned wires = 0;
    for (size_t i = 0; ms_profile_at(i); i++) {
        if (wires >> ms_profile_at(i)->wire & 1) continue; /* one of each form */
        wires |= 1u << ms_profile_at(i)->wire;
        ms_arena arena;
        ms_buf out;
        ms_request_desc desc;
        ms_project_report report;
        memset(&arena, 0, sizeof arena);
        memset(&out, 0, sizeof out);
        memset(&desc, 0, sizeof desc);
        out.arena = &arena;
        desc.profile = ms_profile_at(i);
        desc.memory = memory;
        if (!memory) {
            desc.store = store;
            desc.location = JOB;
        }
        desc.arena = &arena;
        desc.opts.thinking = true;
        must(ms_project(&desc, ms_buf_write, &out, &report, NULL));
        ms_arena_deinit(&arena);
    }
}

static void project_all(world *w) { project_from(w->store, NULL); }

static void project_union(world *w)
{
    ms_store *stores[2] = {w->store, w->second}, *both;
    const ms_union_desc desc = {stores, 2, {NULL, NULL}};
    must(ms_union_open(&both, &desc, NULL));
    project_from(both, NULL);
    ms_close(both);
}

static void project_merged(world *w)
{
    ms_memory memory;
    ms_memory_init(&memory, w->store, JOB, MS_STR("a"));
    memory.runtime_mode = MS_RUNTIME_MERGE;
    memory.runtime = w->second;
    project_from(NULL, &memory);
}

/* The window is much smaller than the history. */
static void project_newest(world *w)
{
    ms_buf out;
    ms_request_desc desc;
    ms_project_report report;
    memset(&out, 0, sizeof out);
    memset(&desc, 0, sizeof desc);
    out.arena = &w->arena;
    desc.profile = ms_profile_find(MS_STR("anthropic"));
    desc.store = w->store;
    desc.location = JOB;
    desc.arena = &w->arena;
    desc.opts.newest = 40;
    desc.opts.budget = 100000;
    desc.opts.shorten = true;
    desc.opts.fresh = 4;
    must(ms_project(&desc, ms_buf_write, &out, &report, NULL));
}

static ms_envelope call_of(ms_str id)
{
    return ms_action(MS_STR("t"), ms_json(MS_STR("{}")), id);
}

static void append_open_calls(world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        append(w->store, JOB, call_of(numbered("c", i)));
        append(w->store, JOB, ms_assistant_message(ms_text("so")));
    }
}

static void append_joined_calls(world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        ms_envelope m = call_of(numbered("c", i));
        m.flags = MS_FLAG_JOINED;
        append(w->store, JOB, m);
        m = ms_assistant_message(ms_text("so"));
        m.flags = i % 2 ? MS_FLAG_JOINED : 0;
        append(w->store, JOB, m);
    }
}

static void append_same_ids(world *w)
{
    for (size_t i = 0; i < w->n; i++) append(w->store, JOB, call_of(MS_STR("c")));
    for (size_t i = 0; i < w->n; i++)
        append(w->store, JOB, ms_observation(ms_text("r"), MS_STR("c")));
}

static void append_turned_results(world *w)
{
    for (size_t i = 0; i < w->n; i++) append(w->store, JOB, call_of(numbered("c", i)));
    for (size_t i = w->n; i-- > 0;)
        append(w->store, JOB, ms_observation(ms_text("r"), numbered("c", i)));
}

static void append_results_to(ms_store *store, size_t n)
{
    ms_str none = ms_str_n(NULL, 0);
    for (size_t i = 0; i < n; i++) {
        ms_envelope m = call_of(none);
        m.tool = numbered("tool", i);
        append(store, JOB, m);
    }
    for (size_t i = n; i-- > 0;) {
        ms_envelope m = ms_observation(ms_text("r"), none);
        m.tool = numbered("tool", i);
        append(store, JOB, m);
    }
}

static void append_results_without_ids(world *w)
{
    append_results_to(w->store, w->n);
    w->seq = 2 * w->n;
}

static void append_results_to_two(world *w)
{
    append_results_to(w->store, w->n / 8);
    append_results_to(w->second, w->n / 8);
}

static void append_turns(world *w)
{
    for (size_t i = 0; i < w->n / 4; i++) {
        ms_envelope m = ms_message(MS_T_REASONING, ms_text("hm"));
        m.extra = MS_STR("{\"signed\":{\"provider\":\"anthropic\",\"signature\":\"s\"}}");
        append(w->store, JOB, hello());
        append(w->store, JOB, m);
        append(w->store, JOB, call_of(numbered("c", i)));
        append(w->store, JOB, ms_observation(ms_text("r"), numbered("c", i)));
    }
}

static void append_one_turn(world *w)
{
    append(w->store, JOB, hello());
    for (size_t i = 0; i < w->n / 3; i++) {
        ms_envelope m = ms_message(MS_T_REASONING, ms_text("hm"));
        m.extra = MS_STR("{\"signed\":{\"provider\":\"anthropic\",\"signature\":\"s\"}}");
        append(w->store, JOB, m);
        append(w->store, JOB, call_of(numbered("c", i)));
        append(w->store, JOB, ms_observation(ms_text("r"), numbered("c", i)));
    }
}

static void answer_of(world *w, const char *provider, size_t by);

/* Half of the calls get their results, in another order; the last one is of a prompt. */
static void append_calls_of_servers(world *w)
{
    static const char *const blocks[] = {"{\"type\":\"server_tool_use\",\"name\":"
                                         "\"web_search\",\"input\":{},\"id\":\"s",
                                         "{\"type\":\"web_search_tool_result\","
                                         "\"content\":[],\"tool_use_id\":\"s"};
    size_t n = w->n / 8;
    append(w->store, JOB, hello());
    for (size_t half = 0; half < COUNT(blocks); half++) {
        w->text.len = 0;
        write_text(w, "{\"type\":\"message\",\"stop_reason\":\"pause_turn\",\"content\":[");
        for (size_t i = n; i-- > 0;) {
            if (i % 2 && half) continue;
            write_numbered(w, blocks[half], half ? i : n - 1 - i, i ? "\"}," : "\"}");
        }
        write_text(w, "]}");
        answer_of(w, "anthropic", 0);
    }
    append(w->store, JOB, hello());
}

/* One answer of the Responses API: each text has an id, and thinking before it. */
static void append_items(world *w)
{
    append(w->store, JOB, hello());
    write_text(w, "{\"object\":\"response\",\"status\":\"completed\",\"output\":[");
    for (size_t i = 0; i < w->n / 8; i++) {
        write_text(w, i ? ",{\"type\":\"reasoning\",\"summary\":[],\"encrypted_content\":"
                          "\"E\",\"id\":\"rs\"},"
                        : "");
        write_numbered(w, "{\"type\":\"message\",\"role\":\"assistant\",\"status\":"
                       "\"completed\",\"content\":[{\"type\":\"output_text\",\"text\":\"t\","
                       "\"annotations\":[]}],\"id\":\"m", i, "\"}");
    }
    write_text(w, "]}");
    answer_of(w, "openai-responses", 0);
    append(w->store, JOB, hello());
}

/* A compaction that covers half of the turns. Of what it keeps each tenth message is
 * hidden; results of covered calls come late. */
static void append_compacted(world *w)
{
    ms_request_desc desc;
    ms_compaction c;
    w->n /= 4;
    append_turns(w);
    for (size_t i = 0; i < w->n / 8; i++) append(w->store, JOB, call_of(numbered("late", i)));
    memset(&desc, 0, sizeof desc);
    memset(&c, 0, sizeof c);
    desc.profile = ms_profile_find(MS_STR("anthropic"));
    desc.store = w->store;
    desc.location = JOB;
    desc.arena = &w->arena;
    c.summary = MS_STR("so far");
    c.upto = w->n + w->n / 8;
    append_turns(w);
    must(ms_compact(&desc, &c, NULL, NULL));
    for (uint64_t seq = c.upto + 10; seq < 2 * w->n; seq += 10)
        must(ms_hide(w->store, seq, NULL));
    for (size_t i = 0; i < w->n / 8; i++)
        append(w->store, JOB, ms_observation(ms_text("r"), numbered("late", i)));
}

static void append_turns_to_two(world *w)
{
    ms_store *store = w->store;
    append_turns(w);
    w->store = w->second;
    append_turns(w);
    w->store = store;
}

static void append_pictures(world *w)
{
    write_text(w, "[");
    for (size_t i = 0; i < w->n; i++)
        write_text(w, i % 2 ? ",{\"type\":\"text\",\"text\":\"t\"}"
                            : i ? ",{\"type\":\"image_url\",\"image_url\":{\"url\":"
                                  "\"data:image/png;base64,aGVsbG8=\"}}"
                                : "{\"type\":\"text\",\"text\":\"t\"}");
    write_text(w, "]");
    append(w->store, JOB, ms_user_message(ms_json(ms_buf_text(&w->text))));
}

static void append_system_texts(world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        ms_envelope m = ms_message(MS_T_TEXT, ms_text("be brief"));
        m.role = MS_ROLE_SYSTEM;
        append(w->store, JOB, m);
    }
    append(w->store, JOB, hello());
}

/* ---- answers ---- */

static void make_texts(world *w)
{
    write_text(w, "{\"type\":\"message\",\"stop_reason\":\"end_turn\",\"content\":[");
    for (size_t i = 0; i < w->n; i++)
        write_numbered(w, i ? ",{\"type\":\"text\",\"text\":\"p" :
                              "{\"type\":\"text\",\"text\":\"p", i, "\"}");
    write_text(w, "]}");
}

static void make_calls(world *w)
{
    write_text(w, "{\"type\":\"message\",\"stop_reason\":\"end_turn\",\"content\":[");
    for (size_t i = 0; i < w->n; i++)
        write_numbered(w, i ? ",{\"type\":\"tool_use\",\"name\":\"t\",\"input\":{},\"id\":\"c"
                            : "{\"type\":\"tool_use\",\"name\":\"t\",\"input\":{},\"id\":\"c",
                       i, "\"}");
    write_text(w, "]}");
}

/* All calls have the index 0, as some servers write it. */
static void make_chat_stream(world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        write_text(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"tok \"}}]}"
                      "\n\n");
        write_numbered(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":["
                       "{\"index\":0,\"id\":\"c", i, "\",\"function\":{\"name\":\"t\","
                       "\"arguments\":\"{}\"}}]}}]}\n\n");
    }
    write_text(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},"
                  "\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n");
}

static void make_gemini(world *w)
{
    write_text(w, "{\"candidates\":[{\"content\":{\"parts\":[");
    for (size_t i = 0; i < w->n; i++)
        write_text(w, i ? ",{\"functionCall\":{\"name\":\"t\",\"args\":{}}}"
                        : "{\"functionCall\":{\"name\":\"t\",\"args\":{}}}");
    write_text(w, "]},\"finishReason\":\"STOP\"}]}");
}

static void make_ollama(world *w)
{
    for (size_t i = 0; i < w->n; i++)
        write_text(w, i + 1 < w->n
                      ? "{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"tool_calls\":"
                        "[{\"function\":{\"name\":\"t\",\"arguments\":{}}}]},"
                        "\"done\":false}\n"
                      : "{\"model\":\"m\",\"message\":{\"role\":\"assistant\","
                        "\"content\":\"x\"},\"done\":true}\n");
}

static void answer_of(world *w, const char *provider, size_t by)
{
    static ms_answer_stream a;
    ms_request_desc desc;
    ms_answered out;
    ms_str text = ms_buf_text(&w->text);
    memset(&desc, 0, sizeof desc);
    desc.profile = ms_profile_find(ms_str_of(provider));
    desc.store = w->store;
    desc.location = JOB;
    if (by == 0) {
        must(ms_answer(&desc, text, &out, NULL));
        return;
    }
    must(ms_answer_begin(&a, &desc, NULL));
    for (size_t i = 0; i < text.len; i += by) {
        ms_str part = ms_str_n(text.ptr + i, text.len - i < by ? text.len - i : by);
        must(ms_answer_feed(&a, part, NULL));
    }
    must(ms_answer_end(&a, &out, NULL));
}

static void answer_anthropic(world *w) { answer_of(w, "anthropic", 0); }
static void answer_openai(world *w) { answer_of(w, "openai", 0); }
static void answer_openai_bytes(world *w) { answer_of(w, "openai", 1); }
static void answer_openai_parts(world *w) { answer_of(w, "openai", 700); }
static void answer_gemini(world *w) { answer_of(w, "gemini", 0); }
static void answer_gemini_bytes(world *w) { answer_of(w, "gemini", 1); }
static void answer_ollama(world *w) { answer_of(w, "ollama", 0); }

/* ---- formats, sessions, tasks ---- */

static void make_list(world *w)
{
    write_text(w, "[");
    for (size_t i = 0; i < w->n; i++) {
        write_text(w, i ? ",{\"role\":\"user\",\"content\":\"hello\"}"
                        : "{\"role\":\"user\",\"content\":\"hello\"}");
        write_numbered(w, ",{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c", i,
                       "\",\"type\":\"function\",\"function\":{\"name\":\"t\","
                       "\"arguments\":\"{}\"}}]}");
        write_numbered(w, ",{\"role\":\"tool\",\"tool_call_id\":\"c", i,
                       "\",\"content\":\"r\"}");
    }
    write_text(w, "]");
}

static void read_and_write(world *w)
{
    ms_envelopes out;
    must(ms_read_list(ms_format_find(MS_STR("openai")), ms_buf_text(&w->text), NULL,
                      &w->arena, &out, NULL));
    assert_int_equal(out.count, 3 * w->n);
    for (size_t i = 0; ms_format_at(i); i++) {
        ms_writer writer;
        ms_writer_opts opts;
        ms_arena arena;
        ms_buf text;
        memset(&arena, 0, sizeof arena);
        memset(&text, 0, sizeof text);
        memset(&opts, 0, sizeof opts);
        text.arena = &arena;
        opts.array = true;
        ms_writer_init(&writer, ms_format_at(i), &opts, &arena, ms_buf_write, &text);
        for (size_t j = 0; j < out.count; j++) {
            ms_result code = ms_writer_put(&writer, &out.items[j], NULL);
            assert_true(code == MS_OK || code == MS_E_TYPE || code == MS_E_MISSING);
        }
        must(ms_writer_finish(&writer, NULL));
        ms_arena_deinit(&arena);
    }
}

static void make_members(world *w)
{
    write_text(w, "{");
    for (size_t i = 0; i < w->n; i++)
        write_numbered(w, i ? ",\"m" : "\"m", i, "\":[1,\"two\",{\"three\":null}]");
    write_text(w, "}");
}

static void read_members(world *w)
{
    ms_str value, member;
    size_t n = 0;
    must(ms_json_check(ms_buf_text(&w->text), NULL, &value, NULL));
    for (ms_json_iter it = ms_json_iterate(value); ms_json_next(&it);) n++;
    assert_int_equal(n, w->n);
    assert_true(ms_json_member(value, numbered("m", w->n - 1), &member));
    ms_envelope m = ms_user_message(ms_json(value)), copy;
    const ms_msg *msg;
    must(ms_encode(&m, &w->arena, &msg, NULL));
    must(ms_envelope_copy(&m, &w->arena, &copy));
    assert_true(ms_count_tokens(NULL, m.content) > w->n);
    ms_shorten_opts shorten;
    memset(&shorten, 0, sizeof shorten);
    m = ms_assistant_message(ms_text_n(value));
    must(ms_shorten_message(&m, &shorten, MS_STR("key"), &w->arena, NULL));
}

static void store_sessions(world *w)
{
    ms_listing out;
    for (size_t i = 0; i < w->n; i++) {
        ms_session session;
        ms_envelope m = hello();
        must(ms_session_init(&session, w->store, MS_STR("user"), numbered("s", i),
                             &w->arena, NULL));
        must(ms_session_store(&session, &m, 1, &w->arena, NULL));
        ms_arena_reset(&w->arena);
    }
    must(ms_session_list(w->store, MS_STR("user"), 0, &w->arena, &out, NULL));
    assert_int_equal(out.count, w->n);
}

static void load_session(world *w)
{
    ms_session session;
    ms_envelopes rows;
    ms_session_load_opts opts;
    ms_envelope *all = (ms_envelope *)ms_arena_alloc(&w->arena, w->n * sizeof *all);
    for (size_t i = 0; i < w->n; i++) all[i] = hello();
    must(ms_session_init(&session, w->store, MS_STR("user"), MS_STR("s"), &w->arena,
                         NULL));
    must(ms_session_store(&session, all, w->n, &w->arena, NULL));
    must(ms_session_load(&session, NULL, &w->arena, &rows, NULL));
    assert_int_equal(rows.count, w->n);
    memset(&opts, 0, sizeof opts);
    opts.newest = 3;
    opts.compress_on_load = true;
    for (size_t i = 0; i < w->n; i++)
        must(ms_session_load(&session, &opts, &w->arena, &rows, NULL));
}

static void look_up_rows(world *w)
{
    ms_session session;
    const ms_msg *msg;
    ms_envelope m = hello();
    must(ms_session_init(&session, w->store, MS_STR("user"), MS_STR("s"), &w->arena,
                         NULL));
    for (size_t i = 0; i < w->n; i++) {
        char key[40];
        must(ms_session_store(&session, &m, 1, &w->arena, NULL));
        int len = snprintf(key, sizeof key, "session-s-msg-%zu", i + 1);
        must(ms_session_lookup(w->store, MS_STR("user"), ms_str_n(key, (size_t)len),
                               &w->arena, &msg, NULL));
    }
}

static void update_task(world *w)
{
    ms_envelope m = hello();
    ms_task_change change;
    const ms_msg *msg;
    memset(&change, 0, sizeof change);
    change.content = &m;
    change.streaming_status = MS_STR("IN_PROGRESS");
    for (size_t i = 0; i < w->n; i++) {
        ms_str id = numbered("", w->seq);
        must(ms_task_get(w->store, JOB, id, &w->arena, &msg, NULL));
        must(ms_task_update(w->store, JOB, id, &change, &w->arena, &msg, NULL));
    }
}

/* ---- the test ---- */

static const operation operations[] = {
    {"append", NULL, append_all, IN_BOTH},
    {"append a batch", NULL, append_batch, IN_BOTH},
    {"append keys", NULL, append_keys, BY_KEY},
    {"append known keys", append_keys, append_keys, BY_KEY},
    {"append to many locations", NULL, append_to_many, IN_BOTH},
    {"append of many agents", NULL, append_of_many_agents, IN_BOTH},
    {"append, stat, wait, tick", NULL, stat_each, IN_BOTH},
    {"append and sync", NULL, sync_each, IN_BOTH},
    {"query all", append_all, query_all, IN_BOTH},
    {"query the newest", append_all, query_newest, IN_BOTH},
    {"query between numbers", append_all, query_windows, IN_BOTH},
    {"query agents", append_of_many_agents, query_agents, BY_NAME},
    {"query locations", append_to_many, query_places, BY_NAME},
    {"get each", append_all, get_each, IN_BOTH},
    {"list all", append_to_many, list_all, IN_BOTH},
    {"list the first", append_to_many, list_first, BY_NAME},
    {"find in many", append_all, find_words, IN_BOTH},
    {"find in one", one_long_text, find_words, IN_BOTH},
    {"amend one", append_one, amend_one, IN_BOTH},
    {"amend each", append_all, amend_each, IN_BOTH},
    {"notes of one", append_one, note_one, IN_BOTH},
    {"notes of each", append_all, note_each, IN_BOTH},
    {"hide each second", append_all, hide_each, IN_BOTH},
    {"hide ranges", append_all, hide_and_query, IN_BOTH},
    {"hide wide ranges", append_all, hide_wide_and_query, IN_BOTH},
    {"hide wide ranges at random", append_all, hide_at_random_and_query, IN_BOTH},
    {"rewind", append_one, rewind_each, IN_BOTH},
    {"notes of each, read one by one", append_noted, read_notes_of_each, IN_BOTH},
    {"redact each", append_all, redact_each, IN_BOTH},
    {"redact each with its notes", append_noted, redact_each, IN_BOTH},
    {"facts, one member", append_one, set_facts, IN_BOTH},
    {"facts, read after each change", append_one, set_and_get_facts, IN_BOTH},
    {"facts, many members", append_one, set_many_facts, IN_BOTH},
    {"fork of many", append_all, fork_all, IN_BOTH},
    {"forks of forks", append_one, fork_of_forks, BY_NAME},
    {"stream of many parts", begin_stream, feed_stream, IN_BOTH},
    {"following a stream", begin_stream, follow_stream, IN_BOTH},
    {"many streams", NULL, stream_each, IN_BOTH},
    {"copy", append_everything, copy_all, IN_BOTH},
    {"rewrite", append_everything, rewrite, IN_SEGMENTS},
    {"reopen", append_everything, reopen, IN_SEGMENTS},
    {"selfcheck", append_everything, check_all, IN_BOTH},
    {"union", append_to_two, query_union, IN_BOTH},
    {"ring", NULL, append_to_ring, IN_MEMORY},
    {"image", NULL, attach_image, IN_MEMORY},
    {"histories", append_team, read_histories, IN_BOTH},
    {"many histories", append_team, read_new_histories, IN_BOTH},
    {"project turns", append_turns, project_all, IN_BOTH},
    {"project one turn", append_one_turn, project_all, IN_BOTH},
    {"project a window", append_turns, project_newest, IN_BOTH},
    {"project open calls", append_open_calls, project_all, IN_BOTH},
    {"project open calls of joined answers", append_joined_calls, project_all, IN_BOTH},
    {"project calls of one id", append_same_ids, project_all, IN_BOTH},
    {"project turned results", append_turned_results, project_all, IN_BOTH},
    {"project results without ids", append_results_without_ids, project_all, IN_BOTH},
    {"project calls of a server's tool", append_calls_of_servers, project_all, IN_BOTH},
    {"project items of responses", append_items, project_all, IN_BOTH},
    {"project a compacted history", append_compacted, project_all, IN_BOTH},
    {"project a memory of two stores", append_turns_to_two, project_merged, IN_BOTH},
    {"project a union without ids", append_results_to_two, project_union, IN_BOTH},
    {"fork of calls without ids", append_results_without_ids, fork_all, IN_BOTH},
    {"project a team", append_team, project_all, IN_BOTH},
    {"project many agents", append_of_many_agents, project_all, IN_BOTH},
    {"project pictures", append_pictures, project_all, IN_BOTH},
    {"project system texts", append_system_texts, project_all, IN_BOTH},
    {"answer of texts", make_texts, answer_anthropic, IN_BOTH},
    {"answer of calls", make_calls, answer_anthropic, IN_BOTH},
    {"answer as one stream", make_chat_stream, answer_openai, IN_BOTH},
    {"answer streamed by bytes", make_chat_stream, answer_openai_bytes, IN_BOTH},
    {"answer streamed in parts", make_chat_stream, answer_openai_parts, IN_BOTH},
    {"answer of gemini", make_gemini, answer_gemini, IN_BOTH},
    {"answer of gemini by bytes", make_gemini, answer_gemini_bytes, IN_BOTH},
    {"answer of ollama", make_ollama, answer_ollama, IN_BOTH},
    {"formats", make_list, read_and_write, IN_MEMORY},
    {"one large object", make_members, read_members, IN_MEMORY},
    {"sessions", NULL, store_sessions, IN_BOTH},
    {"one session", NULL, load_session, IN_BOTH},
    {"rows of a session", NULL, look_up_rows, IN_BOTH},
    {"updates of a task", append_one, update_task, IN_BOTH},
};

/* One look. It reads at most what the budget of [change] allows after the newest record
 * that has all facts. */
static const operation flat[] = {
    {"facts after many changes", set_facts_anew, get_facts, IN_ANY},
    {"facts after many changes by two", set_facts_as_one_of_two, get_facts, IN_ANY},
    {"facts beside those of another", set_facts_beside, get_facts, BY_KEY},
    {"facts of a copy", copy_facts, get_facts, IN_MEMORY},
    {"facts after many notes", note_many_after_facts, get_facts, IN_ANY},
    {"a change after many", set_facts_anew, set_one_fact, IN_ANY},
};

static int nothing_done(void *ctx, ms_file file)
{
    (void)ctx;
    (void)file;
    return 0;
}

static unsigned long long steps_of(const operation *o, size_t n, unsigned place)
{
    static ms_os os;
    static const store_options none;
    world w;
    memset(&w, 0, sizeof w);
    w.n = n;
    w.text.arena = &w.arena;
    if (place != IN_MEMORY) {
        os = *ms_os_default();
        os.sync = nothing_done;
        os.write_synced = NULL;
        log_describe(&w.s, &none, MS_ENGINE_AUTO, place == IN_SEGMENTS ? 1 << 16 : 0);
        w.s.log.os = &os;
        must(ms_log_open(&w.s.store, &w.s.log, NULL));
    } else {
        must(ms_mem_open(&w.s.store, NULL, NULL));
    }
    w.store = w.s.store;
    must(ms_mem_open(&w.second, NULL, NULL));
    if (o->prepare) o->prepare(&w);
    unsigned long long before = steps;
    o->run(&w);
    unsigned long long took = steps - before;
    w.s.store = w.store;
    ms_close(w.second);
    ms_arena_deinit(&w.arena);
    store_close(&w.s);
    return took;
}

/* Instrumented twice it would take minutes. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GROWTH_N 2500
#endif
#endif
#ifndef GROWTH_N
#define GROWTH_N 10000
#endif

#define GROWTH_MOST 6 /* times the steps, for four times as much */

static void grows_no_faster(void **state)
{
    const operation *o = (const operation *)*state;
    size_t n = GROWTH_N;
    if (test_times(n) < n && !(o->places & NOT_SCALED))
        n = test_times(n) < 2500 ? 2500 : test_times(n);
    for (unsigned place = IN_MEMORY; place <= IN_ONE_SEGMENT; place *= 2) {
        if (!(o->places & place)) continue;
        unsigned long long once = steps_of(o, n, place), more = steps_of(o, 4 * n, place);
        double ratio = (double)more / (double)once;
        if (once < n / 4) fail_msg("%llu steps of %zu are not all", once, n);
        if (ratio > GROWTH_MOST)
            fail_msg("%zu %s: %llu steps; four times as many: %.2f times", n,
                     place == IN_MEMORY ? "in memory" : "in a log", once, ratio);
        printf("%s: %zu %s: %llu steps; four times as many: %.2f times\n", o->name, n,
               place == IN_MEMORY ? "in memory" : "in a log", once, ratio);
    }
}

#define FLAT_FEW 10
#define FLAT_MANY 100000
#define FLAT_MOST 6 /* times the steps, for 10,000 times as much */
#define FLAT_RUN 200000 /* steps: a handle checks lists of a sealed segment once */

static void stays_the_same(void **state)
{
    const operation *o = (const operation *)*state;
    size_t n = test_times(FLAT_MANY) < FLAT_MANY / 10 ? FLAT_MANY / 10
                                                      : test_times(FLAT_MANY);
    if (n > FLAT_MANY) n = FLAT_MANY;
    for (unsigned place = IN_MEMORY; place <= IN_ONE_SEGMENT; place *= 2) {
        if (!(o->places & place)) continue;
        unsigned long long few = steps_of(o, FLAT_FEW, place), many = steps_of(o, n, place);
        printf("%s: %s: %llu steps at %d, %llu at %zu\n", o->name,
               place == IN_MEMORY ? "in memory" : "in a log", few, FLAT_FEW, many, n);
        if (few < 100) fail_msg("%llu steps are not all", few);
        if (many > FLAT_MOST * few + (place == IN_ONE_SEGMENT ? FLAT_RUN : 0))
            fail_msg("%llu steps at %d, %llu at %zu", few, FLAT_FEW, many, n);
    }
}

/* A loop of n rounds, and moved bytes. */
TEST(steps_are_counted)
{
    static char from[8000], to[8000];
    volatile size_t sum = 0;
    unsigned long long before = steps;
    for (size_t i = 0; i < 1000; i++) sum = sum + i;
    assert_in_range(steps - before, 1000, 10000);
    assert_int_equal(sum, 499500);
    before = steps;
    memcpy(to, from, sizeof to);
    assert_in_range(steps - before, 1000, 1010);
}

int main(void)
{
    for (size_t i = 0; i < COUNT(operations); i++)
        add_row_test(operations[i].name, grows_no_faster,
                     (void *)(uintptr_t)&operations[i]);
    for (size_t i = 0; i < COUNT(flat); i++)
        add_row_test(flat[i].name, stays_the_same, (void *)(uintptr_t)&flat[i]);
    return run_all_tests(NULL, NULL);
}
