/* Changes: amend, hide, rewind, redact, notes, facts, forks, streams, and the records
 * that they leave. What calls and then looks is in tests/scripts: each script is a test
 * for each kind of store. Here is what needs loops, or another store around one.
 */

#define _GNU_SOURCE
#include "script.h"
#include "own_store.h"

#include <time.h>


static script open_script(void **state)
{
    script p;
    script_open(&p, (const store_kind *)*state);
    return p;
}


/* ---- changes, one by one ---- */

/* Its code and nothing else: no store, no text. */
TEST_WITH(ON_EVERY_STORE, a_call_is_refused_when_there_is_no_store)
{
    script p = open_script(state);
    ms_stream zero;
    ms_arena arena;
    ms_str facts;
    static char bytes[8];
    script_is(&p, scene);
    ms_store *store = p.s.store;
    uint64_t seq = script_find(&p, MS_STR("first"))->seq;
    char *before = store_text(store);
    p.s.store = NULL;
    for (size_t i = 0; i < CHANGES; i++)
        if (!is_of_stream(each_change[i].call))
            assert_int_equal(script_try(&p, each_change[i].call), MS_E_CLOSED);
    p.s.store = store;
    memset(&zero, 0, sizeof zero);
    assert_int_equal(ms_stream_feed(&zero, MS_STR("more"), NULL), MS_E_CLOSED);
    assert_int_equal(ms_stream_end(&zero, NULL, NULL, NULL), MS_E_CLOSED);
    assert_int_equal(ms_amend(store, seq, NULL, NULL), MS_E_ARGUMENT);
    test_arena_init_fixed(&arena, bytes, sizeof bytes);
    assert_int_equal(ms_location_get(store, JOB, &arena, &facts, NULL), MS_E_ARENA);
    assert_int_equal(ms_fork(store, JOB, seq, MS_STR("branch"), &arena, NULL),
                     MS_E_ARENA);
    must_be_as(store, before, "refused calls");
    store_close(&p.s);
}

/* In the record, in amends, in notes, and nowhere else in the bytes of the store. */
TEST_WITH(ON_EVERY_STORE, redaction_leaves_no_byte)
{
    static const char *const types[] = {
        "type=user_message", "type=action tool=search", "type=delegation",
        "type=synthesis", "type=other type_name=word", "type=error"};
    static const char fields[] =
        "args:={\"q\":\"" SECRET "\"} worker=" SECRET " task=" SECRET
        " from_manager=" SECRET " from_worker=" SECRET " phase_id=" SECRET
        " summary='" SECRET " and more " SECRET "' error_type=" SECRET
        " extra={\"s\":[\"" SECRET "\"]} agent_key=agent turn_id=turn id=id key=key "
        "call_id=call time=5";
    for (size_t i = 0; i < 6; i++) {
        script p = open_script(state);
        char text[4000];
        ms_error err;
        snprintf(text, sizeof text,
                 "say before\nappend m 'more than that: " SECRET "' %s %s\n"
                 "amend m content:={\"again\":\"" SECRET "\"} %s %s\n"
                 "amend m 'third " SECRET "' %s %s\nnote m k " SECRET "\n"
                 "note m k x:=[\"" SECRET "\"]\nsay behind\nbytes " SECRET " 10+\n",
                 types[i], fields, types[i], fields, types[i], fields);
        script_is(&p, text);
        if (i == 3) script_is(&p, "hide m");
        script_is(&p, "redact m\nbytes " SECRET " 0\n");
        snprintf(text, sizeof text, "get m [redacted] flags=redacted time=5 "
                 "location=job agent_key=agent turn_id=turn id=id call_id=call key=key "
                 "args:={} %s", types[i]);
        if (i != 3) script_is(&p, text);
        script_is(&p, "stat changes=5\nredact m"); /* a hide, or what is shown now */
        if (p.s.kind->log) {
            ms_log_report report;
            must_ok(ms_log_verify(&p.s.log, &report, &err), &err, "verify");
            assert_int_equal(report.damaged, 0);
            assert_int_equal(report.messages, 3);
        }
        char *all = store_text(p.s.store);
        assert_null(strstr(all, SECRET));
        assert_non_null(strstr(all, "before"));
        assert_non_null(strstr(all, "behind"));
        free(all);
        store_close(&p.s);
    }
}

#ifndef MSGSTORE_NO_FORMATS
/* A template keeps the members of the source that no field stands for, also in an element
 * of its list, and of a value that did not fit all of it. */
TEST_WITH(ON_EVERY_STORE, redaction_erases_the_template)
{
    static const char json[] =
        "[{\"role\":\"assistant\",\"content\":\"x\",\"note\":\"" SECRET "\","
        "\"tool_calls\":[{\"id\":\"c\",\"function\":{\"name\":\"f\","
        "\"arguments\":\"{}\",\"" SECRET "\":1}}]},"
        "{\"role\":\"assistant\",\"content\":7,\"tool_calls\":[\"" SECRET "\"]}]";
    static const char *const names[] = {"openai", "framework"};
    script p = open_script(state);
    ms_arena arena;
    ms_envelopes list;
    ms_error err;
    ms_str value;
    uint64_t seqs[8];
    ms_read_opts how = {true, false};
    memset(&arena, 0, sizeof arena);
    ms_append_opts opts = {.location = JOB, .seqs = seqs};
    must_ok(ms_read_list(ms_format_find(MS_STR("openai")), ms_str_of(json), &how, &arena,
                         &list, &err), &err, "read");
    assert_int_equal(list.count, 3);
    must_ok(ms_append_batch(p.s.store, list.items, list.count, &opts, &err), &err,
            "append");
    assert_true(ms_member(&list.items[0], MS_STR("note"), &value));
    script_is(&p, "bytes " SECRET " 3");
    for (size_t i = 0; i < list.count; i++)
        must_ok(ms_redact(p.s.store, seqs[i], &err), &err, "redact");
    script_is(&p, "bytes " SECRET " 0");
    for (size_t n = 0; n < 2; n++) {
        ms_buf buf = {&arena, NULL, 0, 0};
        ms_writer w;
        ms_writer_init(&w, ms_format_find(ms_str_of(names[n])), NULL, &arena,
                       ms_buf_write, &buf);
        for (size_t i = 0; i < list.count; i++) {
            ms_envelope m = ms_envelope_of(must_get(p.s.store, seqs[i]));
            assert_false(ms_member(&m, MS_STR("note"), &value));
            must_ok(ms_writer_put(&w, &m, &err), &err, "write");
        }
        must_ok(ms_writer_finish(&w, &err), &err, "write");
        assert_int_equal(times_in(buf.ptr, buf.len, SECRET), 0);
    }
    ms_arena_deinit(&arena);
    store_close(&p.s);
}
#endif

/* The kind of a record stands in flags on its way into a store: no caller can set it. */
TEST_WITH(ON_EVERY_STORE, a_message_is_refused_when_its_flags_name_a_kind)
{
    script p = open_script(state);
    ms_error err;
    script_is(&p, "say stays");
    char *before = store_text(p.s.store);
    for (unsigned bit = 16; bit < 32; bit++) {
        ms_envelope m = ms_user_message(ms_text("another"));
        m.flags = (uint32_t)1 << bit;
        m.seq = p.names[0].seq;
        assert_int_equal(ms_append(p.s.store, JOB, &m, NULL, &err), MS_E_ARGUMENT);
        assert_string_equal(err.path, "flags");
        assert_int_equal(ms_append_batch(p.s.store, &m, 1, NULL, NULL), MS_E_ARGUMENT);
    }
    must_be_as(p.s.store, before, "refused flags");
    store_close(&p.s);
}

/* ---- streams that are too large ---- */

/* Feeds pieces until one is refused. Returns the bytes that the stream took. */
static size_t feed_until_refused(ms_stream *stream, ms_str piece)
{
    ms_error err;
    ms_result code = MS_OK;
    size_t n = 0;
    while ((code = ms_stream_feed(stream, piece, &err)) == MS_OK) n += piece.len;
    assert_int_equal(code, MS_E_TOO_LARGE);
    assert_int_equal(err.code, MS_E_TOO_LARGE);
    return n;
}

/* All that a stream took can be ended, or recovered; one byte more would not be taken. */
TEST_WITH(ON_EVERY_STORE, stream_is_refused_at_the_feed_that_makes_it_too_large)
{
    static const char *const pieces[] = {"x", "\xE2\x82\xAC", "\xFF",
                                         "a longer piece of text"};
    skip_on_a_server(state, "it tells at the end");
    for (size_t way = 0; way < 4 * COUNT(pieces); way++) {
        const store_options options = {.max_message = 1500};
        test_store s = store_open((store_kind *)*state, &options);
        ms_str piece = ms_str_of(pieces[way / 4]);
        ms_envelope m = ms_assistant_message(ms_text("begin "));
        const ms_stream_opts opts = {.every_part = way & 1, .flush_ms = 1000000,
                                     .flush_chars = 1000};
        ms_stream stream;
        const ms_msg *msg;
        ms_arena own;
        test_arena_init(&own, NULL);
        m.key = MS_STR("key");
        assert_int_equal(ms_stream_begin(&stream, s.store, JOB, &m, &opts, NULL), MS_OK);
        uint64_t seq = stream.seq;
        assert_int_equal(ms_stream_feed(&stream, piece, NULL), MS_OK);
        /* another stream goes on with it */
        assert_int_equal(ms_stream_feed(&stream, ms_str_n(NULL, 0), NULL), MS_OK);
        assert_int_equal(ms_stream_begin(&stream, s.store, JOB, &m, &opts, NULL), MS_OK);
        assert_int_equal(stream.seq, seq);
        size_t n = 6 + piece.len + feed_until_refused(&stream, piece);
        if (piece.ptr[0] == '\xFF') n = 6 + 3 * (n - 6); /* repaired */
        if (way & 2) {
            assert_int_equal(ms_stream_end(&stream, NULL, NULL, NULL), MS_OK);
        } else {
            assert_int_equal(ms_stream_feed(&stream, ms_str_n(NULL, 0), NULL), MS_OK);
            assert_int_equal(ms_stream_recover(s.store, seq, NULL, NULL), MS_OK);
        }
        assert_int_equal(ms_get_by_seq(s.store, seq, &own, &msg, NULL), MS_OK);
        assert_int_equal(ms_content(msg).text.len, n);
        assert_in_range(ms_size(msg), 1500 - 40, 1500 + 7);
        ms_arena_deinit(&own);
        store_close(&s);
    }
}

/* Each byte once, whoever writes between the parts, and another handle goes on. */
TEST_WITH(ON_EVERY_STORE, a_follower_reads_each_byte_once)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_envelope m = ms_assistant_message(ms_text("begin "));
    const ms_stream_opts opts = {.every_part = true};
    ms_stream stream, other;
    ms_stream_text text = {.next = 0}, all;
    ms_arena arena, none;
    char got[8000], little[8];
    size_t n = 0;
    ms_error err;
    test_arena_init(&arena, NULL);
    test_arena_init_fixed(&none, little, sizeof little);
    assert_int_equal(ms_stream_begin(&stream, s.store, JOB, &m, &opts, NULL), MS_OK);
    assert_int_equal(ms_stream_begin(&other, s.store, JOB, &m, &opts, NULL), MS_OK);
    for (unsigned i = 0; i < 300; i++) {
        for (unsigned k = 0; k < i % 4; k++) {
            ms_str part = ms_str_n("abcdefghi", (i + k) % 9 + 1);
            assert_int_equal(ms_stream_feed(&stream, part, NULL), MS_OK);
            assert_int_equal(ms_stream_feed(&other, MS_STR("other"), NULL), MS_OK);
        }
        if (i % 50 == 7) {
            uint64_t next = text.next;
            assert_true(ms_stream_follow(s.store, stream.seq, &none, &text, NULL) !=
                        MS_OK);
            assert_int_equal(text.next, next);
        }
        if (i % 60 == 9) text = (ms_stream_text){.next = text.next};
        must_ok(ms_stream_follow(s.store, stream.seq, &arena, &text, &err), &err,
                "follow");
        memcpy(got + n, text.text.ptr, text.text.len);
        n += text.text.len;
        assert_int_equal(text.next, n);
        assert_false(text.ended);
        must_ok(ms_stream_read(s.store, stream.seq, 0, &arena, &all, &err), &err, "all");
        assert_true(ms_str_equal(all.text, ms_str_n(got, n)));
    }
    text = (ms_stream_text){.next = n + 1};
    assert_int_equal(ms_stream_follow(s.store, stream.seq, &arena, &text, NULL),
                     MS_E_RANGE);
    assert_int_equal(text.next, n + 1);
    text.next = n - 4;
    uint64_t seq = stream.seq;
    assert_int_equal(ms_stream_feed(&stream, MS_STR("!"), NULL), MS_OK);
    assert_int_equal(ms_stream_end(&stream, NULL, NULL, NULL), MS_OK);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(ms_stream_follow(s.store, seq, &arena, &text, NULL), MS_OK);
        assert_int_equal(text.text.len, i == 0 ? 5 : 0);
        assert_int_equal(text.next, n + 1);
        assert_true(text.ended);
    }
    ms_arena_deinit(&arena);
    store_close(&s);
}

TEST_WITH(ON_EVERY_STORE, stream_is_refused_when_it_collects_more_than_it_has_room_for)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_envelope m = ms_assistant_message(ms_text(""));
    ms_stream_opts opts = {.flush_chars = 1025};
    ms_stream stream;
    ms_error err;
    assert_int_equal(ms_stream_begin(&stream, s.store, JOB, &m, &opts, &err), MS_E_RANGE);
    assert_string_equal(err.path, "flush_chars");
    assert_int_equal(ms_stream_feed(&stream, MS_STR("x"), NULL), MS_E_CLOSED);
    opts.flush_chars = 1024;
    assert_int_equal(ms_stream_begin(&stream, s.store, JOB, &m, &opts, &err), MS_OK);
    assert_true(stream.seq > 0);
    store_close(&s);
}


/* ---- hidden ranges ---- */

#define WIDE 700

/* Which messages a cursor shows, each once and in order. */
static void cursor_shows(ms_cursor *it, const bool *hidden, const uint64_t *seq)
{
    const ms_msg *msg;
    size_t at = 1;
    while ((msg = ms_next(it)) != NULL) {
        while (at <= WIDE && hidden[at]) at++;
        assert_in_range(at, 1, WIDE);
        assert_int_equal(ms_seq(msg), seq[at++]);
    }
    while (at <= WIDE && hidden[at]) at++;
    assert_int_equal(at, WIDE + 1);
    assert_int_equal(ms_cursor_close(it, NULL), MS_OK);
}

/* Ranges at random places, some within others, and cursors that were opened before the
 * later ones. */
TEST_WITH(ON_EVERY_STORE, wide_ranges_hide_what_a_list_of_them_hides)
{
    enum { OPEN = 8 };
    test_store s = store_open((store_kind *)*state, NULL);
    uint64_t rng = test_seed();
    static bool hidden[WIDE + 1], then[OPEN][WIDE + 1];
    static uint64_t seqs[WIDE + 1];
    ms_cursor it[OPEN];
    ms_query q = query_of(JOB, 0);
    memset(hidden, 0, sizeof hidden);
    for (unsigned i = 1; i <= WIDE; i++) {
        ms_envelope m = ms_user_message(ms_text("u"));
        assert_int_equal(ms_append(s.store, JOB, &m, &seqs[i], NULL), MS_OK);
    }
    for (unsigned i = 0, n_open = 0; i < 80; i++) {
        size_t first = 1 + (size_t)test_below(&rng, WIDE - 20), n = 0;
        size_t last = first + 16 + (size_t)test_below(&rng, i % 10 == 0 ? 200 : 20);
        uint64_t count;
        const ms_msg *msg;
        ms_arena arena;
        test_arena_init(&arena, NULL);
        if (i % 10 == 3) {
            memcpy(then[n_open], hidden, sizeof hidden);
            assert_int_equal(ms_query_open(s.store, &q, &it[n_open++], NULL), MS_OK);
        }
        if (last > WIDE) last = WIDE;
        for (size_t k = first; k <= last; k++) n += !hidden[k];
        for (size_t k = first; k <= last; k++) hidden[k] = true;
        assert_int_equal(ms_hide_range(s.store, JOB, seqs[first], seqs[last], &count,
                                       NULL), MS_OK);
        assert_int_equal(count, n);
        size_t at = 1 + (size_t)test_below(&rng, WIDE);
        assert_int_equal(ms_get_by_seq(s.store, seqs[at], &arena, &msg, NULL),
                         hidden[at] ? MS_E_NOT_FOUND : MS_OK);
        ms_arena_deinit(&arena);
    }
    for (unsigned i = 0; i < OPEN; i++) cursor_shows(&it[i], then[i], seqs);
    assert_int_equal(ms_query_open(s.store, &q, &it[0], NULL), MS_OK);
    cursor_shows(&it[0], hidden, seqs);
    if (s.kind->log) {
        ms_close(s.store);
        assert_int_equal(ms_log_open(&s.store, &s.log, NULL), MS_OK);
        assert_int_equal(ms_query_open(s.store, &q, &it[0], NULL), MS_OK);
        cursor_shows(&it[0], hidden, seqs);
    }
    store_close(&s);
}


/* ---- work that grows too fast ---- */

/* Two calls for each of n steps, over messages that are there: step i is about two of the
 * i-th three messages, or of the i-th from the end. */
static const struct growth {
    int n, messages;          /* steps; messages for each of them */
    const char *calls[2];
    bool from_the_end, views; /* views: only the query afterwards is timed */
} growths[] = {
    {1500, 0, {"amend #1 v", "get #1 v"}, false, false},
    {1500, 0, {"append x x", "rewind #1 hides=1"}, false, false},
    {400, 3, {"range #%d #%d hides=2", ""}, true, false},
    {400, 3, {"range #%d #%d hides=2", ""}, false, false},
    {500, 3, {"range #%d #%d hides=2", ""}, true, true},
    {200, 3, {"redact #%d", "range #%d #%d hides=2"}, false, false},
};

/* Seconds of this thread. */
static double processor_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double time_of(void **state, const struct growth *g, int n)
{
    script p = open_script(state);
    ms_query q = query_of(JOB, 0);
    char call[60];
    snprintf(call, sizeof call, "times %d append x x", 1 + g->messages * n);
    script_run(&p, call);
    double start = processor_time();
    for (int i = 0; i < 2 * n; i++) {
        int at = 1 + 3 * (g->from_the_end ? n - 1 - i / 2 : i / 2);
        snprintf(call, sizeof call, g->calls[i % 2], at, at + 1);
        if (call[0] != '\0') script_run(&p, call);
    }
    if (g->views) start = processor_time();
    assert_int_equal(count_of(p.s.store, &q), 1 + (g->messages > 0 ? n : 0));
    double took = processor_time() - start;
    store_close(&p.s);
    return took;
}

/* Four times as much takes less than eight times as long, in the best of some tries: what
 * grows with the square takes sixteen times as long in each. */
TEST_WITH(ON_EVERY_STORE, many_changes_stay_quick)
{
    skip_on_a_server(state, "it measures the time of this process");
    for (size_t i = 0; i < sizeof growths / sizeof growths[0]; i++) {
        double best = 1e9;
        for (int tries = 0; tries < 5 && best >= 8; tries++) {
            double once = time_of(state, &growths[i], growths[i].n);
            double ratio = time_of(state, &growths[i], 4 * growths[i].n) /
                           (once > 1e-4 ? once : 1e-4);
            if (ratio < best) best = ratio;
        }
        if (best >= 8) fail_msg("row %zu: four times as much takes %.1f times", i, best);
    }
}


/* ---- a store of a program's own around one ---- */

/* Messages and facts of another location: all of it, or nothing. */
TEST_WITH(ON_EVERY_STORE, records_of_two_locations_are_one_append)
{
    skip_on_a_server(state, "it appends records of one location at a time");
    script p = open_script(state);
    ms_record records[2];
    ms_append_opts opts;
    ms_stat stat;
    ms_arena arena;
    ms_str facts, here = MS_STR("here"), there = MS_STR("there");
    uint64_t seqs[2];
    ms_store *store = p.s.store;
    memset(records, 0, sizeof records);
    memset(&opts, 0, sizeof opts);
    memset(&arena, 0, sizeof arena);
    records[0].kind = MS_KIND_MESSAGE;
    records[0].envelope = ms_message(MS_T_USER_MESSAGE, ms_text("hello"));
    records[0].envelope.location = here;
    records[0].envelope.seq = 7;
    records[1].kind = MS_KIND_LOCATION;
    records[1].envelope.location = there;
    records[1].envelope.content = ms_json(MS_STR("{\"read\":7}"));
    opts.keep_seq = true;
    opts.seqs = seqs;
    assert_int_equal(store->backend->change(store, MS_STR(""), records, 2, &opts, NULL),
                     MS_OK);
    assert_int_equal(seqs[0], 7);
    assert_int_equal(ms_location_get(store, there, &arena, &facts, NULL), MS_OK);
    assert_true(ms_str_equal(facts, MS_STR("{\"read\":7}")));
    assert_int_equal(ms_location_get(store, here, &arena, &facts, NULL), MS_OK);
    assert_true(ms_str_equal(facts, MS_STR("{}")));
    char *before = store_text(store);
    records[1].envelope.content = ms_json(MS_STR("{\"read\":8}"));
    assert_int_equal(store->backend->change(store, MS_STR(""), records, 2, &opts, NULL),
                     MS_E_ARGUMENT); /* the number is taken */
    must_be_as(store, before, "a batch that was refused");
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    assert_int_equal(stat.messages, 1);
    assert_int_equal(stat.changes, 1);
    ms_arena_deinit(&arena);
    store_close(&p.s);
}

TEST_WITH(ON_EVERY_STORE, redacting_is_refused_when_a_store_cannot_erase)
{
    script p = open_script(state);
    own_store own;
    own_open(&own, p.s.store);
    script_is(&p, "say secret");
    assert_int_equal(ms_redact(&own.base, p.names[0].seq, NULL), MS_E_UNSUPPORTED);
    script_is(&p, "show => secret|\nhide secret");
    assert_int_equal(ms_redact(&own.base, p.names[0].seq, NULL), MS_E_UNSUPPORTED);
    store_close(&p.s);
}

static ms_result own_erase(ms_store *store, const ms_msg *msg, unsigned step,
                           ms_error *err)
{
    ms_store *inside = ((own_store *)store)->inside;
    return inside->backend->erase(inside, msg, step, err);
}

TEST_WITH(ON_EVERY_STORE, redacting_erases_in_a_store_without_statistics)
{
    script p = open_script(state);
    own_store own;
    ms_cursor it;
    ms_query q = {.raw = MS_RAW_MESSAGES};
    script_is(&p, "say secret");
    own_open(&own, p.s.store);
    own.backend.stat = NULL;
    own.backend.erase = own_erase;
    assert_int_equal(ms_redact(&own.base, p.names[0].seq, NULL), MS_OK);
    assert_int_equal(ms_query_open(p.s.store, &q, &it, NULL), MS_OK);
    const ms_msg *msg = ms_next(&it);
    assert_non_null(msg);
    assert_false(ms_str_equal(ms_content(msg).text, MS_STR("secret")));
    ms_cursor_close(&it, NULL);
    store_close(&p.s);
}

/* Facts, forks and streams read with a cursor, whose messages are gone when it moves. */
TEST_WITH(ON_EVERY_STORE, a_change_keeps_no_message_of_a_cursor)
{
    script p = open_script(state);
    own_store own;
    ms_store *inside = p.s.store;
    own_open(&own, inside);
    own.fleeting = true;
    script_is(&p, "say one\n"
                  "facts {\"title\":\"one\",\"long\":[1,2,3]}\n"
                  "in 'other job' facts {\"other\":\"facts\"}\n"
                  "facts {\"title\":\"two\",\"n\":5}\n"
                  "note one k noted\nbegin w begun\nfeed w ' so'\nfeed w ' far'");
    inside = own.inside = p.s.store;
    p.s.store = &own.base;
    must_show_scene(p.s.store, "one|begun so far|");
    script_run(&p, "has {\"title\":\"two\",\"long\":[1,2,3],\"n\":5}");
    script_run(&p, "in 'other job' has {\"other\":\"facts\"}");
    script_run(&p, "follow w 0 => begun so far");
    script_run(&p, "fork w branch");
    script_run(&p, "recover w");
    p.s.store = inside;
    script_is(&p, "in branch show => one|begun so far|\nshow => one|begun so far|\n"
                  "in branch has {\"title\":\"two\",\"long\":[1,2,3],\"n\":5,"
                  "\"parent\":\"job\",\"parent_seq\":$w}");
    store_close(&p.s);
}


/* ---- a buffer that is full, or damaged; without memory: test_fault_alloc ---- */

static script open_room(const store_kind *kind, size_t room)
{
    script p;
    script_open(&p, kind);
    store_close(&p.s);
    store_options options = {.room = room, .clock = clock_at(&test_now)};
    p.s = store_open(kind, &options);
    return p;
}

/* With every number of bytes left: too few for the change leave the store as it was. */
TEST_WITH(IN_A_BUFFER, a_change_is_refused_when_a_buffer_is_full)
{
    const store_kind *kind = (const store_kind *)*state;
    size_t full = 0, stride = 8 * (1 + 300 / (test_scale() < 10 ? 10 : test_scale()));
    for (size_t i = 0; i < CHANGES; i++) {
        for (size_t left = 0; left < 700; left += stride) {
            script p = open_room(kind, 9016 + left);
            script_is(&p, scene);
            while (stat_of(p.s.store).room > left)
                if (script_try(&p, "in 'other job' say x") != MS_OK) break;
            char *before = store_text(p.s.store);
            ms_result got = script_try(&p, each_change[i].call);
            full += got == MS_E_FULL;
            if (got != MS_OK && got != MS_E_FULL)
                fail_msg("%s: full: %s", each_change[i].call, ms_result_text(got));
            if (got == MS_OK) free(before);
            else must_be_as(p.s.store, before, each_change[i].call);
            must_survive(&p.s);
            must_show_scene(p.s.store, got == MS_OK ? each_change[i].shows : unchanged);
            store_close(&p.s);
        }
    }
    assert_true(full > CHANGES);
}

/* Until the last byte: changes of one kind; facts of one location are bounded. */
TEST_WITH(IN_A_BUFFER, a_buffer_can_be_filled_by_changes)
{
    static const char *const calls[] = {"amend x y", "note x k v", "facts {\"a\":1}",
                                        "say y"};
    for (size_t i = 0; i < 4; i++) {
        script p = open_room((const store_kind *)*state, 9000 + 40 * i);
        ms_result got = MS_OK;
        size_t n = 0;
        script_is(&p, "say x");
        for (; got == MS_OK && (i != 2 || n < 1000); n++) {
            char *before = store_text(p.s.store);
            got = script_try(&p, calls[i]);
            bool appended = i == 3 && got == MS_OK;
            if (appended) got = script_try(&p, "rewind x");
            if (got == MS_OK || appended) free(before);
            else must_be_as(p.s.store, before, "full");
        }
        if (i != 2) assert_int_equal(got, MS_E_FULL);
        assert_true(n > 20);
        char *before = store_text(p.s.store);
        got = script_try(&p, "redact x");
        if (got == MS_E_FULL) must_be_as(p.s.store, before, "full, redact");
        else free(before);
        assert_true(got == MS_OK || got == MS_E_FULL);
        must_survive(&p.s);
        store_close(&p.s);
    }
}

/* One flipped bit of an image is found; salvage loses at most what it hit. */
TEST_WITH(IN_A_BUFFER, one_bit_of_an_image_with_changes_costs_one_record)
{
    script p = open_room((const store_kind *)*state, 30000);
    script_is(&p, scene);
    script_is(&p, "hide second\nnote first k n");
    ms_query raw = query_of(no_str(), 0);
    raw.raw = MS_RAW_ALL;
    size_t records = count_of(p.s.store, &raw), stride = 1 + 700 / test_scale();
    ms_str image = ms_mem_image(p.s.store);
    char *buffer = (char *)malloc(p.s.size);
    if (buffer == NULL) abort();
    for (size_t bit = 64 * 8; bit < image.len * 8; bit += stride) {
        store_options none;
        ms_store *store;
        uint64_t damaged = 0;
        ms_error err;
        memset(&none, 0, sizeof none);
        ms_mem_desc desc = store_desc(&none);
        desc.buffer = buffer;
        desc.buffer_size = p.s.size;
        for (int salvage = 0; salvage < 2; salvage++) {
            memset(buffer, 0, p.s.size);
            memcpy(buffer, image.ptr, image.len);
            buffer[bit / 8] = (char)(buffer[bit / 8] ^ 1 << bit % 8);
            desc.salvage = salvage;
            ms_result got = ms_mem_attach(&store, &desc, &damaged, NULL);
            if (!salvage && got != MS_E_DAMAGED && got != MS_E_FOREIGN)
                fail_msg("bit %zu is not found: %s", bit, ms_result_text(got));
            if (got != MS_OK) continue;
            size_t left = count_left(store, &raw, damaged ? MS_E_DAMAGED : MS_OK);
            if (left + 1 < records || (left < records && damaged == 0))
                fail_msg("bit %zu costs %zu of %zu records, %llu are reported", bit,
                         records - left, records, (unsigned long long)damaged);
            must_ok(ms_selfcheck(store, &err), &err, "salvaged");
            ms_close(store);
        }
    }
    free(buffer);
    store_close(&p.s);
}

/* A field takes JSON that is less deep than what a scanner takes. */
TEST(a_stream_ends_as_text_when_its_arguments_are_too_deep)
{
    char text[1100];
    for (size_t depth = MS_FIELD_MAX_DEPTH - 1; depth < MS_FIELD_MAX_DEPTH + 2; depth++) {
        ms_store *store;
        ms_stream stream;
        const ms_msg *msg;
        ms_envelope m = ms_message(MS_T_ACTION, ms_text(NULL));
        m.tool = MS_STR("tool");
        m.args = ms_text("");
        memcpy(text, "{\"a\":", 5);
        memset(text + 5, '[', depth - 1);
        memset(text + 4 + depth, ']', depth - 1);
        text[3 + 2 * depth] = '}';
        assert_int_equal(ms_mem_open(&store, NULL, NULL), MS_OK);
        assert_int_equal(ms_stream_begin(&stream, store, MS_STR("x"), &m, NULL, NULL),
                         MS_OK);
        assert_int_equal(ms_stream_feed(&stream, ms_str_n(text, 4 + 2 * depth), NULL),
                         MS_OK);
        assert_int_equal(ms_stream_feed(&stream, no_str(), NULL), MS_OK);
        assert_int_equal(ms_stream_recover(store, stream.seq, NULL, NULL), MS_OK);
        assert_int_equal(ms_get_by_seq(store, stream.seq, NULL, &msg, NULL), MS_OK);
        assert_int_equal(ms_get(msg, MS_F_ARGS).json, depth <= MS_FIELD_MAX_DEPTH);
        ms_close(store);
    }
}

/* A note needs a kind, not a value: absent and empty are read as they were written. */
/* Content that is JSON cannot grow, nor can arguments: nothing begins. Text can, also by
 * nothing. */
TEST_WITH(ON_EVERY_STORE, stream_adds_to_text_alone)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_stream stream;
    ms_stat stat;
    ms_error err;
    ms_envelope m = ms_assistant_message(ms_json(MS_STR("{}")));
    ms_envelope call = ms_action(MS_STR("f"), ms_json(MS_STR("{}")), MS_STR("c"));
    assert_int_equal(ms_stream_begin(&stream, s.store, JOB, &m, NULL, &err), MS_E_KIND);
    assert_string_equal(err.path, "content");
    assert_int_equal(ms_stream_begin(&stream, s.store, JOB, &call, NULL, &err), MS_E_KIND);
    assert_string_equal(err.path, "args");
    assert_int_equal(ms_store_stat(s.store, &stat, NULL), MS_OK);
    assert_int_equal(stat.messages, 0);
    m.content = ms_text("a");
    assert_int_equal(ms_stream_begin(&stream, s.store, JOB, &m, NULL, &err), MS_OK);
    assert_int_equal(ms_stream_feed(&stream, MS_STR(""), &err), MS_OK);
    assert_int_equal(ms_stream_end(&stream, NULL, NULL, &err), MS_OK);
    store_close(&s);
}

TEST_WITH(ON_EVERY_STORE, note_without_a_value_is_read_without_one)
{
    test_store s = store_open((store_kind *)*state, NULL);
    static const char *const values[] = {NULL, "", "x"};
    uint64_t seq = append_text(s.store, "x");
    ms_query q = {.location = MS_STR("job"), .raw = MS_RAW_NOTES, .about_seq = seq};
    const ms_msg *msg;
    ms_cursor it;
    for (size_t i = 0; i < COUNT(values); i++)
        assert_int_equal(ms_note(s.store, seq, MS_STR("seen"), ms_text(values[i]), NULL), MS_OK);
    assert_int_equal(ms_query_open(s.store, &q, &it, NULL), MS_OK);
    for (size_t i = 0; i < COUNT(values); i++) {
        assert_non_null(msg = ms_next(&it));
        if (!ms_str_equal(ms_content(msg).text, ms_str_of(values[i])))
            fail_msg("note %zu: '%.*s'", i, (int)ms_content(msg).text.len,
                     ms_content(msg).text.ptr);
    }
    assert_null(ms_next(&it));
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    store_close(&s);
}

int main(void)
{
    static const char *const files[] = {"append", "amend", "hide", "redact", "note",
                                        "fork", "stream", "raw", "copy", "refused", NULL};
    add_scripts(files);
    return run_all_tests(NULL, NULL);
}
