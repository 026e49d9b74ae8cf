/* Changes: amend, hide, rewind, redact, notes, facts, forks, streams, and the records
 * that they leave. What calls and then looks is in tests/scripts: each script is a test
 * for each kind of store. Here is what needs loops, or another store around one.
 */

#define _GNU_SOURCE
#include "script.h"
#include "own_store.h"

#include <time.h>


/* ---- the scripts ---- */

static const char *const script_files[] = {"append", "amend", "hide", "redact", "note",
                                           "fork", "stream", "raw", "copy", "refused"};

enum { SCRIPTS_MAX = 600 };

typedef struct script_test {
    char name[100];           /* "hide/a_hidden_message_is_not_found in a log" */
    const store_kind *kind;
    const char *text, *end;
} script_test;

static script_test script_tests[SCRIPTS_MAX];
static size_t n_script_tests;

static void play(void **state)
{
    const script_test *t = (const script_test *)*state;
    script_play(t->kind, t->name, t->text, t->end);
}

/* Adds a test for each kind of store. */
static void add_script(const char *file, const char *name, const char *text,
                       const char *end)
{
    const struct CMUnitTest kinds[] = {ON_EVERY_STORE(play)};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        script_test *t = &script_tests[n_script_tests++];
        assert_true(n_script_tests < SCRIPTS_MAX);
        snprintf(t->name, sizeof t->name, "%s/%.*s%s", file, (int)strcspn(name, "\n"),
                 name, kinds[i].name + strlen("play"));
        t->kind = (const store_kind *)kinds[i].initial_state;
        t->text = text;
        t->end = end;
    }
}

/* The tests of a file, whose text is kept. */
static void load_scripts(const char *file)
{
    char path[100];
    snprintf(path, sizeof path, "tests/scripts/%s.txt", file);
    char *text = read_file(path, NULL);
    if (text == NULL) print_error("cannot read %s\n", path);
    if (text == NULL) exit(1);
    for (char *name = strstr(text, "\n== "), *next; name != NULL; name = next) {
        char *first = strchr(name + 4, '\n');
        next = strstr(first, "\n== ");
        add_script(file, name + 4, first + 1, next != NULL ? next : strchr(first, '\0'));
    }
}

static int run_scripts(void)
{
    static struct CMUnitTest tests[SCRIPTS_MAX];
    for (size_t i = 0; i < sizeof script_files / sizeof script_files[0]; i++)
        load_scripts(script_files[i]);
    for (size_t i = 0; i < n_script_tests; i++) {
        tests[i].name = script_tests[i].name;
        tests[i].test_func = play;
        tests[i].initial_state = &script_tests[i];
    }
    return _cmocka_run_group_tests("scripts", tests, n_script_tests, NULL, NULL);
}

static script open_script(void **state)
{
    script p;
    script_open(&p, (const store_kind *)*state);
    return p;
}


/* ---- changes, one by one ---- */

/* Its code and nothing else: no store, no picture. */
static void a_call_is_refused_when_there_is_no_store(void **state)
{
    script p = open_script(state);
    ms_stream zero;
    ms_arena arena;
    ms_str facts;
    static char bytes[8];
    script_is(&p, scene);
    ms_store *store = p.s.store;
    uint64_t seq = script_find(&p, MS_STR("first"))->seq;
    char *before = picture(store);
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

static void a_message_may_be_amended_ten_thousand_times(void **state)
{
    script p = open_script(state);
    char call[40], text[20], want[40];
    int times = (int)test_times(10000);
    script_is(&p, "say first m last");
    for (int i = 1; i <= times; i++) {
        snprintf(text, sizeof text, "v%d", i);
        snprintf(call, sizeof call, "amend m %s", text);
        assert_int_equal(script_try(&p, call), MS_OK);
        if (i % 997 == 0) must_have_text(must_get(p.s.store, p.names[1].seq), text);
    }
    snprintf(want, sizeof want, "first|v%d|last|", times);
    ms_query q = query_of(JOB, 0), raw = q;
    raw.raw = MS_RAW_AMENDS;
    raw.about_seq = p.names[1].seq;
    for (int i = 0; i < 2; i++) {
        must_give(p.s.store, &q, want);
        must_have_text(must_get(p.s.store, p.names[1].seq), text);
        assert_int_equal(stat_of(p.s.store).changes, times);
        assert_int_equal(count_of(p.s.store, &raw), times);
        store_reopen(&p.s);
    }
    store_close(&p.s);
}

static void a_hidden_message_is_in_no_view(void **state)
{
    script p = open_script(state);
    const ms_str team[] = {MS_STR("w1"), MS_STR("w2")};
    static const char *const types[] = {"user_message", "observation", "task",
                                        "reasoning", "global_observation"};
    for (size_t i = 0; i < 5; i++) {
        char text[200];
        snprintf(text, sizeof text, "append m x agent_key=w1 turn_id=t type=%s\n"
                 "append k kept agent_key=w1 turn_id=t type=%s\nhide m", types[i],
                 types[i]);
        script_is(&p, text);
    }
    for (unsigned i = 0; i < 64; i++) {
        ms_query q = query_of(JOB, i % 32);
        ms_cursor it;
        q.agent_key = MS_STR("w1");
        q.agent_keys = team;
        q.n_agent_keys = 2;
        EACH (msg, p.s.store, &q, &it) must_have_text(msg, "kept");
        if (i == 31) must_survive(&p.s);
    }
    script_is(&p, "query turn=t => kept|kept|kept|kept|kept|\n"
                  "query turn=t limit=3 => kept|kept|kept|\n"
                  "listing job=5\nlisting agents job=5\n"
                  "stat messages=5 hidden=5 changes=5");
    store_close(&p.s);
}

/* In the record, in amends, in notes, and nowhere else in the bytes of the store. */
static void redaction_leaves_no_byte(void **state)
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
        char *all = picture(p.s.store);
        assert_null(strstr(all, SECRET));
        assert_non_null(strstr(all, "before"));
        assert_non_null(strstr(all, "behind"));
        free(all);
        store_close(&p.s);
    }
}

#ifndef MSGSTORE_NO_DIALECTS
/* A template keeps the members of the source that no field stands for, also in an element
 * of its list, and of a value that did not fit all of it. */
static void redaction_erases_the_template(void **state)
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
    ms_append_opts opts;
    memset(&arena, 0, sizeof arena);
    memset(&opts, 0, sizeof opts);
    opts.location = JOB;
    opts.seqs = seqs;
    must_ok(ms_read_list(ms_dialect_find(MS_STR("openai")), ms_str_of(json), &how, &arena,
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
        ms_writer_init(&w, ms_dialect_find(ms_str_of(names[n])), NULL, &arena,
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

/* The text that stands for an erased one is shortened, or filled up. */
static void redaction_works_on_texts_of_every_length(void **state)
{
    script p = open_script(state);
    char text[40];
    uint64_t seq[40];
    for (size_t i = 0; i < sizeof text; i++) text[i] = "#%~"[i % 3];
    for (size_t n = 0; n < 40; n++) {
        ms_envelope m = ms_observation(ms_text_n(ms_str_n(text, n)), ms_str_of(NULL));
        if (n % 3 == 0) m.summary = ms_str_n(text, n);
        seq[n] = must_append(p.s.store, JOB, &m);
    }
    for (size_t n = 0; n < 40; n++) {
        assert_int_equal(ms_redact(p.s.store, seq[n], NULL), MS_OK);
        must_have_text(must_get(p.s.store, seq[n]), "[redacted]");
        if (n == 39) break;
        assert_int_equal(ms_content(must_get(p.s.store, seq[n + 1])).text.len, n + 1);
    }
    script_is(&p, "bytes #%~# 0");
    store_close(&p.s);
}

static void an_error_is_left_alone_when_a_redaction_succeeds(void **state)
{
    script p = open_script(state);
    ms_error err, untouched;
    memset(&err, 0x5a, sizeof err);
    untouched = err;
    script_is(&p, "say shown hidden\nhide hidden");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ms_redact(p.s.store, p.names[i % 2].seq, &err), MS_OK);
        assert_memory_equal(&err, &untouched, sizeof err);
    }
    store_close(&p.s);
}

/* The kind of a record stands in flags on its way into a store: no caller can set it. */
static void a_message_is_refused_when_its_flags_name_a_kind(void **state)
{
    script p = open_script(state);
    ms_error err;
    script_is(&p, "say stays");
    char *before = picture(p.s.store);
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

/* Fed byte by byte: a reader never sees half a character. */
static void a_reader_sees_whole_characters(void **state)
{
    static const char text[] = "a\xc3\xa9\xe6\x97\xa5\xf0\x9f\x99\x82z\xf0\x9f\x99\x82";
    script p = open_script(state);
    ms_arena arena;
    ms_stream_text got;
    ms_error err;
    test_arena_init(&arena, NULL);
    script_is(&p, "begin w ''");
    script_name *w = &p.names[0];
    for (size_t i = 0; i < sizeof text - 1; i++) {
        must_ok(ms_stream_feed(&w->stream, ms_str_n(text + i, 1), &err), &err, "feed");
        must_ok(ms_stream_read(p.s.store, w->seq, 0, &arena, &got, &err), &err, "follow");
        assert_true(ms_utf8_check(got.text, NULL));
        assert_true(got.text.len <= i + 1 && i + 1 - got.text.len < 4);
        assert_memory_equal(got.text.ptr, text, got.text.len);
    }
    assert_int_equal(got.text.len, sizeof text - 1);
    script_is(&p, "follow w 100 -> RANGE\nfeed w \\xff!\\xe6\\x97\nend w");
    ms_str all = ms_content(must_get(p.s.store, w->seq)).text;
    assert_true(ms_utf8_check(all, NULL));
    assert_memory_equal(all.ptr, text, sizeof text - 1);
    ms_arena_deinit(&arena);
    store_close(&p.s);
}


/* ---- each change ---- */

/* The change comes before the first, second or third message is read. */
static void an_open_cursor_does_not_see_a_change(void **state)
{
    for (size_t i = 0; i < 3 * CHANGES; i++) {
        const struct change *change = &each_change[i / 3];
        if (is_redact(change->call)) continue; /* it is erased for all */
        script p = open_script(state);
        ms_cursor it;
        ms_arena arena, work;
        char got[300] = "";
        size_t used = 0;
        const ms_msg *msg;
        ms_query q = query_of(i % 3 == 1 ? no_str() : JOB, 0);
        test_arena_init(&arena, NULL);
        test_arena_init(&work, NULL);
        p.arena = &work;
        q.arena = &arena;
        q.by_time = i % 3 == 2;
        script_is(&p, scene);
        assert_int_equal(ms_query_open(p.s.store, &q, &it, NULL), MS_OK);
        for (size_t k = 0; k < 6; k++) {
            if (k == i % 3) assert_int_equal(script_try(&p, change->call), MS_OK);
            if ((msg = ms_next(&it)) == NULL) break;
            ms_str text = shown_text(msg);
            used += (size_t)snprintf(got + used, sizeof got - used, "%.*s|",
                                     (int)text.len, text.ptr);
        }
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
        if (strcmp(got, unchanged) != 0)
            fail_msg("%s: an open cursor sees %s", change->call, got);
        must_show_scene(p.s.store, change->shows);
        ms_arena_deinit(&arena);
        ms_arena_deinit(&work);
        store_close(&p.s);
    }
}

static void each_change_survives(void **state)
{
    for (size_t i = 0; i < CHANGES; i++) {
        script p = open_script(state);
        script_is(&p, scene);
        must_show_scene(p.s.store, unchanged);
        script_is(&p, each_change[i].call);
        must_show_scene(p.s.store, each_change[i].shows);
        script_is(&p, "say 'goes on'");
        store_close(&p.s);
    }
}


/* ---- many messages ---- */

enum { MANY = 3000 };

/* What each of many messages is now: -1 hidden, else how often it was amended. */
typedef struct ledger {
    uint64_t seq[MANY];
    int state[MANY];
    uint64_t changes;
} ledger;

static void text_of(const ledger *book, int i, char text[48])
{
    snprintf(text, 48, "message %d, version %d", i, book->state[i]);
}

static ms_str place_of(int i)
{
    return i % 3 == 0 ? OTHER_JOB : JOB;
}

static void change_many(ms_store *store, ledger *book, uint64_t *rng)
{
    for (int n = 0; n < 150; n++) {
        int i = (int)test_below(rng, MANY);
        char text[48];
        if (book->state[i] < 0) continue;
        bool hides = test_one_in(rng, 3);
        book->state[i] = hides ? -1 : book->state[i] + 1;
        text_of(book, i, text);
        ms_envelope m = ms_user_message(ms_text(text));
        assert_int_equal(hides ? ms_hide(store, book->seq[i], NULL)
                               : ms_amend(store, book->seq[i], &m, NULL), MS_OK);
        book->changes++;
    }
}

/* Each location, newest first; and single messages by number. */
static void must_be_in_force(ms_store *store, const ledger *book, uint64_t *rng)
{
    for (int place = 0; place < 2; place++) {
        ms_query q = query_of(place_of(place), 0);
        ms_cursor it;
        int next = MANY;
        char text[48];
        q.reverse = true;
        EACH (msg, store, &q, &it) {
            do assert_true(--next >= 0);
            while (book->state[next] < 0 || !ms_str_equal(place_of(next), q.location));
            text_of(book, next, text);
            assert_int_equal(ms_seq(msg), book->seq[next]);
            must_have_text(msg, text);
        }
        while (--next >= 0)
            assert_true(book->state[next] < 0 ||
                        !ms_str_equal(place_of(next), q.location));
    }
    for (int n = 0; n < 50; n++) {
        int i = (int)test_below(rng, MANY);
        const ms_msg *msg;
        assert_int_equal(ms_get_by_seq(store, book->seq[i], NULL, &msg, NULL),
                         book->state[i] < 0 ? MS_E_NOT_FOUND : MS_OK);
    }
    ms_stat stat = stat_of(store);
    assert_int_equal(stat.changes, book->changes);
    assert_int_equal(stat.messages + stat.hidden, MANY);
}

/* Their segments are far from the end, with levels of index records above. */
static void messages_of_old_segments_are_changed(void **state)
{
    static ledger book;
    script p = open_script(state);
    uint64_t rng = test_seed();
    ms_error err;
    memset(&book, 0, sizeof book);
    for (int i = 0; i < MANY; i++) {
        char text[48];
        text_of(&book, i, text);
        ms_envelope m = ms_user_message(ms_text(text));
        book.seq[i] = must_append(p.s.store, place_of(i), &m);
    }
    for (int round = 0; round < 4; round++) {
        change_many(p.s.store, &book, &rng);
        must_be_in_force(p.s.store, &book, &rng);
        if (p.s.kind->log) {
            ms_store *reader = log_reader(&p.s);
            must_be_in_force(reader, &book, &rng);
            ms_close(reader);
        }
        if (round != 1) store_reopen(&p.s);
        must_be_in_force(p.s.store, &book, &rng);
        must_ok(ms_selfcheck(p.s.store, &err), &err, "selfcheck");
    }
    if (p.s.kind->log && p.s.log.segment_size != 0)
        assert_true(log_info_of(p.s.store).summaries > 0);
    store_close(&p.s);
}

static size_t count_between(ms_store *store, ms_str place, int since, int until)
{
    ms_query q = query_of(place, 0);
    q.has_since = since != 0;
    q.since_ns = SECONDS(since);
    q.has_until = until != 0;
    q.until_ns = SECONDS(until);
    return count_of(store, &q);
}

/* An amended time counts wherever the message stands. */
static void amended_times_count_in_old_segments(void **state)
{
    script p = open_script(state);
    script_is(&p, "append early x time=10\nappend late x time=10\n"
                  "times 8 append large *3000 time=10\n"
                  "amend early x time=1\namend late x time=100");
    for (size_t round = 1; round < 4; round++) {
        for (int place = 0; place < 2; place++) {
            ms_str where = place ? JOB : no_str();
            assert_int_equal(count_between(p.s.store, where, 50, 0), 1);
            assert_int_equal(count_between(p.s.store, where, 0, 5), 1);
            assert_int_equal(count_between(p.s.store, where, 9, 11), 8 * round);
        }
        char text[40];
        snprintf(text, sizeof text, "listing job=%zu", 2 + 8 * round);
        script_is(&p, text);
        script_is(&p, "times 8 append large *3000 time=10");
    }
    store_close(&p.s);
}


/* ---- work that grows too fast ---- */

/* Seconds of this thread. */
static double processor_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Four times as much takes less than eight times as long, in the best of some tries: what
 * grows with the square takes sixteen times as long in each. */
static void must_grow_slowly(void **state, double (*work)(test_store *s, int n), int n)
{
    double best = 1e9;
    for (int i = 0; i < 5 && best >= 8; i++) {
        double took[2];
        for (int k = 0; k < 2; k++) {
            script p = open_script(state);
            took[k] = work(&p.s, k ? 4 * n : n);
            store_close(&p.s);
        }
        double ratio = took[1] / (took[0] > 1e-4 ? took[0] : 1e-4);
        if (ratio < best) best = ratio;
    }
    if (best >= 8) fail_msg("four times as much takes %.1f times as long", best);
}

static uint64_t say(ms_store *store, const char *text)
{
    ms_envelope m = ms_user_message(ms_text(text));
    return must_append(store, JOB, &m);
}

static double amends_of_one(test_store *s, int n)
{
    uint64_t seq = say(s->store, "v0");
    ms_envelope m = ms_user_message(ms_text("v"));
    const ms_msg *msg;
    double start = processor_time();
    for (int i = 0; i < n; i++) {
        assert_int_equal(ms_amend(s->store, seq, &m, NULL), MS_OK);
        assert_int_equal(ms_get_by_seq(s->store, seq, NULL, &msg, NULL), MS_OK);
    }
    return processor_time() - start;
}

static double appends_and_rewinds(test_store *s, int n)
{
    uint64_t seq = say(s->store, "first"), hidden;
    double start = processor_time();
    for (int i = 0; i < n; i++) {
        say(s->store, "x");
        assert_int_equal(ms_rewind(s->store, JOB, seq, &hidden, NULL), MS_OK);
        assert_int_equal(hidden, 1);
    }
    return processor_time() - start;
}

/* Of 3 n messages the first two of each three. */
static double hide_pairs(test_store *s, int n, bool newest_first)
{
    uint64_t first = say(s->store, "x"), hidden;
    for (int i = 1; i < 3 * n; i++) say(s->store, "x");
    double start = processor_time();
    for (int i = 0; i < n; i++) {
        uint64_t from = first + 3 * (uint64_t)(newest_first ? n - 1 - i : i);
        assert_int_equal(
            ms_hide_range(s->store, JOB, from, from + 1, &hidden, NULL), MS_OK);
        assert_int_equal(hidden, 2);
    }
    return processor_time() - start;
}

static double pairs_newest_first(test_store *s, int n) { return hide_pairs(s, n, true); }
static double pairs_oldest_first(test_store *s, int n) { return hide_pairs(s, n, false); }

static double views_of_pairs(test_store *s, int n)
{
    ms_query q = query_of(JOB, 0);
    hide_pairs(s, n, true);
    double start = processor_time();
    assert_int_equal(count_of(s->store, &q), n);
    return processor_time() - start;
}

static void many_changes_of_one_message_stay_quick(void **state)
{
    skip_on_a_server(state, "it measures the time of this process");
    must_grow_slowly(state, amends_of_one, 700);
    must_grow_slowly(state, appends_and_rewinds, 700);
}

static void many_hidden_ranges_stay_quick(void **state)
{
    skip_on_a_server(state, "its ranges are of dense numbers");
    must_grow_slowly(state, pairs_newest_first, 200);
    must_grow_slowly(state, pairs_oldest_first, 200);
    must_grow_slowly(state, views_of_pairs, 500);
}


/* ---- a store of a program's own around one ---- */

static void redacting_is_refused_when_a_store_cannot_erase(void **state)
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

/* Facts, forks and streams read with a cursor, whose messages are gone when it moves. */
static void a_change_keeps_no_message_of_a_cursor(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EVERY_STORE(a_call_is_refused_when_there_is_no_store),
        ON_EVERY_STORE(a_message_may_be_amended_ten_thousand_times),
        ON_EVERY_STORE(a_hidden_message_is_in_no_view),
        ON_EVERY_STORE(redaction_leaves_no_byte),
#ifndef MSGSTORE_NO_DIALECTS
        ON_EVERY_STORE(redaction_erases_the_template),
#endif
        ON_EVERY_STORE(redaction_works_on_texts_of_every_length),
        ON_EVERY_STORE(an_error_is_left_alone_when_a_redaction_succeeds),
        ON_EVERY_STORE(a_message_is_refused_when_its_flags_name_a_kind),
        ON_EVERY_STORE(a_reader_sees_whole_characters),
        ON_EVERY_STORE(an_open_cursor_does_not_see_a_change),
        ON_EVERY_STORE(each_change_survives),
        ON_EVERY_STORE(messages_of_old_segments_are_changed),
        ON_EVERY_STORE(amended_times_count_in_old_segments),
        ON_EVERY_STORE(many_changes_of_one_message_stay_quick),
        ON_EVERY_STORE(many_hidden_ranges_stay_quick),
        ON_EVERY_STORE(redacting_is_refused_when_a_store_cannot_erase),
        ON_EVERY_STORE(a_change_keeps_no_message_of_a_cursor),
    };
    int failed = run_scripts();
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
