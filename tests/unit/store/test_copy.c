/* Copies from store to store: what happens when the destination is full or the source
 * damaged, and what is counted. test_twin tries rules for what is kept; copies of changes
 * are in tests/scripts/copy.txt.
 */

#define _GNU_SOURCE
#include "script.h"
#include "own_store.h"
#include "twin.h"

typedef struct source {
    test_store s;
    twin t;
} source;

/* A random store of n messages, some with keys, some without time. */
static source source_of(const store_kind *kind, size_t n, uint64_t seed)
{
    const store_options options = {.keep_unset_times = true, .room = (size_t)4 << 20};
    source from;
    uint64_t rng = seed;
    from.s = store_open(kind, &options);
    twin_init(&from.t);
    from.t.keep_unset_times = true;
    while (from.t.count < n) {
        const ms_append_opts opts = {.keep_seq = false};
        ms_envelope batch[3];
        char keys[3][16];
        size_t size = 1 + (size_t)test_below(&rng, 3);
        for (size_t i = 0; i < size; i++) {
            batch[i] = random_message(&rng);
            snprintf(keys[i], sizeof keys[i], "key-%zu", from.t.count + i);
            if (test_one_in(&rng, 3)) batch[i].key = ms_str_of(keys[i]);
        }
        twin_append_both(&from.t, from.s.store, batch, size, &opts, false);
    }
    twin_must_equal(&from.t, from.s.store);
    return from;
}

static void source_free(source *from)
{
    store_close(&from->s);
    twin_deinit(&from->t);
}

/* Stamps what has no time, so that a copy that lost "unset" shows. */
static test_store destination(const store_kind *kind, size_t room)
{
    static int64_t now = SECONDS(12345);
    const store_options options = {.clock = clock_at(&now), .room = room};
    return store_open(kind, &options);
}

/* A source, a program's own store over it, and an empty destination. */
typedef struct pair {
    source from;
    own_store own;
    test_store to;
    ms_copy_report report;
} pair;

static void pair_open(pair *p, void **state, size_t n)
{
    memset(p, 0, sizeof *p);
    p->from = source_of((store_kind *)*state, n, test_seed());
    own_open(&p->own, p->from.s.store);
    p->to = destination(store_kind_at(0), 0);
}

static void pair_close(pair *p)
{
    store_close(&p->to);
    source_free(&p->from);
}

static ms_result pair_copy(pair *p, ms_store *from, const ms_keep *keep)
{
    return ms_copy(p->to.store, from, keep, NULL, &p->report, NULL);
}

/* The destination is sound and has so many messages; so many were copied into it. */
static void pair_has(const pair *p, size_t n, size_t copied)
{
    ms_query all = query_of(no_str(), 0);
    assert_int_equal(count_of(p->to.store, &all), n);
    assert_int_equal(p->report.copied, copied);
    assert_int_equal(ms_selfcheck(p->to.store, NULL), MS_OK);
}

/* Twenty turns, one a second, of one message each; the time of one is another one, or
 * absent. Kept are those from the 18th on. */
TEST_WITH(ON_EVERY_STORE, turns_are_kept_by_the_times_of_their_messages)
{
    static const struct {
        int odd;
        bool timed;
        int64_t time;
        size_t alone, whole; /* kept as messages, and as turns */
    } rows[] = {
        {20, true, 0, 2, 2},      /* none is odd */
        {0, false, 0, 3, 3},      /* the first has no time, and none before it */
        {5, false, 0, 3, 2},      /* it has the time of the one before it */
        {0, true, 1000000, 3, 3}, /* in the future */
        {19, true, 1, 1, 1}, {19, false, 0, 2, 2},
    };
    for (size_t i = 0; i < 2 * COUNT(rows); i++) {
        const store_options options = {.keep_unset_times = true};
        test_store s = store_open((store_kind *)*state, &options);
        ms_copy_report report;
        ms_keep keep = {.has_since = true, .since_ns = SECONDS(18), .whole_turns = i & 1,
                        .dry_run = true};
        for (int turn = 0; turn < 20; turn++) {
            bool odd = turn == rows[i / 2].odd;
            char id[16];
            ms_envelope m = ms_user_message(ms_text("x"));
            snprintf(id, sizeof id, "t%d", turn);
            m.turn_id = ms_str_of(id);
            m.has_time = !odd || rows[i / 2].timed;
            m.time_ns = SECONDS(odd ? rows[i / 2].time : turn);
            must_append(s.store, MS_STR("l"), &m);
        }
        assert_int_equal(ms_copy(NULL, s.store, &keep, NULL, &report, NULL), MS_OK);
        size_t want = i & 1 ? rows[i / 2].whole : rows[i / 2].alone;
        if (report.copied != want)
            fail_msg("row %zu, whole turns %zu: %llu copied, %zu wanted", i / 2, i & 1,
                     (unsigned long long)report.copied, want);
        assert_int_equal(report.dropped, 20 - want);
        store_close(&s);
    }
}

/* A turn is kept in front of and behind the message that is young. */
TEST_WITH(ON_EVERY_STORE, turn_is_kept_entirely_when_one_of_its_messages_is)
{
    skip_on_a_server(state, "its messages have numbers from 1");
    static const int64_t times[] = {1, 20, 2, 3, 4};
    static const char *const turns[] = {"a", "a", "a", "b", "a"};
    test_store s = store_open((store_kind *)*state, NULL);
    ms_copy_report report;
    const ms_keep keep = {.has_since = true, .since_ns = SECONDS(18),
                          .whole_turns = true};
    test_store to = destination(store_kind_at(0), 0);
    for (size_t i = 0; i < COUNT(times); i++) {
        ms_envelope m = ms_user_message(ms_text("x"));
        m.turn_id = ms_str_of(turns[i]);
        m.has_time = true;
        m.time_ns = SECONDS(times[i]);
        must_append(s.store, MS_STR("l"), &m);
    }
    assert_int_equal(ms_copy(to.store, s.store, &keep, NULL, &report, NULL), MS_OK);
    assert_int_equal(report.copied, 3);
    const ms_msg *msg;
    for (uint64_t seq = 1; seq <= 3; seq++)
        assert_int_equal(ms_get_by_seq(to.store, seq, NULL, &msg, NULL), MS_OK);
    store_close(&to);
    store_close(&s);
}

/* Copied in two parts: later messages follow those of the first copy; nothing twice. */
TEST_WITH(ON_EVERY_STORE, a_destination_takes_only_larger_numbers)
{
    skip_on_a_server(state, "its messages have numbers from 1");
    pair p;
    pair_open(&p, state, 40);
    ms_envelope m = ms_user_message(ms_text("other")), late = m;
    const ms_append_opts opts = {.keep_seq = false};
    m.has_time = late.has_time = true;
    late.location = MS_STR("fresh");
    const ms_keep keep = {.locations = &late.location, .n_locations = 1};
    must_append(p.to.store, MS_STR("other"), &m);
    assert_int_equal(pair_copy(&p, p.from.s.store, NULL), MS_E_ARGUMENT);
    pair_has(&p, 1, 0);
    twin_append_both(&p.from.t, p.from.s.store, &late, 1, &opts, false);
    assert_int_equal(pair_copy(&p, p.from.s.store, &keep), MS_OK);
    pair_has(&p, 2, 1);
    pair_close(&p);
}

/* The first part stays, the report has its size, and the store is sound. */
TEST_WITH(ON_EVERY_STORE, a_full_destination_keeps_the_first_part)
{
    pair p;
    pair_open(&p, state, 200);
    const ms_keep everything = {.newest = 0};
    twin to;
    twin_init(&to);
    twin_copy(&to, &p.from.t, &everything);
    for (size_t room = MS_MEM_MIN; room < 60000; room += 1003) {
        twin part = to;
        store_close(&p.to);
        p.to = destination(store_kind_at(2), room);
        assert_int_equal(pair_copy(&p, p.from.s.store, NULL), MS_E_FULL);
        assert_true(p.report.copied < p.from.t.count);
        assert_int_equal(p.report.damaged, 0);
        part.count = (size_t)p.report.copied;
        twin_must_equal(&part, p.to.store);
    }
    twin_deinit(&to);
    pair_close(&p);
}

TEST_WITH(ON_EVERY_STORE, a_copy_is_refused_when_its_arena_is_too_small)
{
    static char bytes[4];
    const ms_keep keep = {.newest = 1};
    pair p;
    ms_arena small;
    pair_open(&p, state, 40);
    test_arena_init_fixed(&small, bytes, sizeof bytes);
    ms_result result = ms_copy(p.to.store, p.from.s.store, &keep, &small, NULL, NULL);
    assert_true(result == MS_E_ARENA || result == MS_E_NO_MEMORY);
    pair_has(&p, 0, 0);
    pair_close(&p);
}


/* ---- a source that cannot read some of its records ---- */

TEST_WITH(ON_EVERY_STORE, damaged_records_of_the_source_are_counted)
{
    pair p;
    ms_cursor it;
    ms_error err;
    ms_query all = query_of(no_str(), 0);
    size_t bad = 0;
    pair_open(&p, state, 50);
    p.own.damaged_each = 7;
    for (size_t i = 0; i < p.from.t.count; i++) bad += p.from.t.items[i]->seq % 7 == 0;
    assert_int_equal(pair_copy(&p, &p.own.base, NULL), MS_E_DAMAGED);
    assert_int_equal(p.report.damaged, bad);
    pair_has(&p, p.from.t.count - bad, p.from.t.count - bad);
    assert_int_equal(ms_query_open(&p.own.base, &all, &it, NULL), MS_OK);
    while (ms_next(&it) != NULL) {}
    assert_int_equal(it.damaged, bad);
    assert_int_equal(ms_cursor_close(&it, &err), MS_E_DAMAGED);
    assert_int_equal(err.code, MS_E_DAMAGED);
    pair_close(&p);
}

/* With its code; what came before stays. */
TEST_WITH(ON_EVERY_STORE, a_copy_ends_when_reading_the_source_ends)
{
    pair p;
    pair_open(&p, state, 50);
    p.own.stops_at = 20;
    p.own.with = MS_E_IO;
    assert_int_equal(pair_copy(&p, &p.own.base, NULL), MS_E_IO);
    pair_has(&p, (size_t)p.report.copied, (size_t)p.report.copied);
    assert_true(p.report.copied < 20);
    pair_close(&p);
}

static ms_result refusing_append(ms_store *store, ms_str location,
                                 const ms_envelope *messages, size_t n,
                                 const ms_append_opts *opts, ms_error *err)
{
    return ms_error_set(err, MS_E_DAMAGED, "the destination cannot write");
}

/* An error of the destination is no damage of the source: nothing is passed over. */
TEST_WITH(ON_EVERY_STORE, a_copy_ends_when_the_destination_is_damaged)
{
    pair p;
    ms_error err;
    pair_open(&p, state, 5);
    p.own.backend.append = refusing_append;
    p.own.backend.change = NULL;
    assert_int_equal(
        ms_copy(&p.own.base, p.from.s.store, NULL, NULL, &p.report, &err), MS_E_DAMAGED);
    assert_string_equal(err.message, "the destination cannot write");
    assert_int_equal(p.report.copied, 0);
    pair_close(&p);
}


/* ---- records that no function of the library writes ---- */

static void write_record(ms_store *store, ms_kind kind, ms_envelope e)
{
    ms_append_opts opts;
    ms_error err;
    ms_record record = {.envelope = e, .kind = kind};
    memset(&opts, 0, sizeof opts);
    record.envelope.location = JOB;
    must_ok(store->backend->change(store, JOB, &record, 1, &opts, &err), &err, "write");
}

/* A note of another location than its message. */
static void forge_location(unsigned char *record, const ms_msg *msg)
{
    ms_str location = test_location(msg);
    if (ms_kind_of(msg) == MS_KIND_NOTE && is_word(ms_content(msg).text, "forged"))
        record[location.ptr - (const char *)record] = 'x';
}

/* A note without a kind, one of elsewhere, an amend without content; facts without names
 * are no damage. All else is copied. */
TEST_WITH(ON_EVERY_STORE, records_that_cannot_be_copied_are_counted)
{
    enum { NO_KIND, ELSEWHERE, NO_CONTENT, SOUND, TROUBLES };
    for (int trouble = 0; trouble < TROUBLES; trouble++) {
        script p;
        own_store own;
        ms_copy_report report;
        ms_envelope e, amend, facts;
        ms_error err;
        script_open(&p, (const store_kind *)*state);
        script_is(&p, trouble == ELSEWHERE ? "say a b c\nnote b k forged" : "say a b c");
        memset(&e, 0, sizeof e);
        amend = facts = e;
        amend.seq = e.seq = p.names[1].seq;
        e.content = ms_text("no kind");
        amend.type = MS_T_USER_MESSAGE;
        amend.flags = MS_FLAG_AMENDED;
        if (trouble == NO_KIND) write_record(p.s.store, MS_KIND_NOTE, e);
        if (trouble == NO_CONTENT) write_record(p.s.store, MS_KIND_AMEND, amend);
        facts.content = ms_json(MS_STR("{\"a\":1,\"c\":2}"));
        write_record(p.s.store, MS_KIND_LOCATION, facts);
        facts.content = ms_json(MS_STR("[3,{\"a\":4}]"));
        write_record(p.s.store, MS_KIND_LOCATION, facts);
        facts.content = ms_text("none");
        write_record(p.s.store, MS_KIND_LOCATION, facts);
        script_run(&p, "note c k noted");
        script_run(&p, "has {\"a\":1,\"c\":2}");
        script_run(&p, "fork a branch");
        script_run(&p, "in branch has {\"a\":1,\"c\":2,\"parent\":\"job\","
                       "\"parent_seq\":$a}");
        test_store from = p.s;
        p.s = destination(store_kind_at(0), 0);
        own_open(&own, from.store);
        own.forge = forge_location;
        ms_result got = ms_copy(p.s.store, &own.base, NULL, NULL, &report, &err);
        assert_int_equal(got, trouble == SOUND ? MS_OK : MS_E_DAMAGED);
        assert_int_equal(report.damaged, trouble != SOUND);
        assert_int_equal(report.copied, trouble == NO_CONTENT ? 3 : 4);
        assert_int_equal(report.notes, 1);
        script_is(&p, trouble == NO_CONTENT ? "show => a|c|" : "show => a|b|c|");
        script_is(&p, "has {\"a\":1,\"c\":2}\nquery raw=note => noted|");
        store_close(&from);
        store_close(&p.s);
    }
}

/* Facts, notes and messages are copied although each is gone when the cursor moves. */
TEST_WITH(ON_EVERY_STORE, a_copy_keeps_no_message_of_a_cursor)
{
    script p;
    own_store own;
    ms_error err;
    script_open(&p, (const store_kind *)*state);
    script_is(&p, "say one\nfacts {\"title\":\"one\",\"long\":[1,2,3]}\n"
                  "in 'other job' facts {\"other\":\"facts\"}\n"
                  "facts {\"title\":\"two\",\"n\":5}\n"
                  "note one k noted\nbegin w begun\nfeed w ' so'\nfeed w ' far'");
    test_store from = p.s;
    own_open(&own, from.store);
    own.fleeting = true;
    p.s = destination(store_kind_at(0), 0);
    must_ok(ms_copy(p.s.store, &own.base, NULL, NULL, NULL, &err), &err, "copy");
    script_is(&p, "has {\"title\":\"two\",\"long\":[1,2,3],\"n\":5}\n"
                  "in 'other job' has {\"other\":\"facts\"}\n"
                  "show => one|begun so far|\nquery raw=note => noted|");
    store_close(&from);
    store_close(&p.s);
}

/* A store without statistics, alone and in a union, cannot tell that it has changes. The
 * numbers of a server are too large for a union, which refuses to read it. */
TEST_WITH(ON_EVERY_STORE, notes_and_facts_are_copied_when_the_source_has_no_statistics)
{
    for (unsigned joined = 0; joined < 2; joined++) {
        script p;
        own_store own;
        ms_error err;
        ms_store *u = NULL, *one = &own.base;
        ms_union_desc d = {.stores = &one, .n_stores = 1};
        script_open(&p, (const store_kind *)*state);
        script_is(&p, "say one\nfacts {\"title\":\"one\"}\nnote one k noted");
        test_store from = p.s;
        own_open(&own, from.store);
        own.backend.stat = NULL;
        if (joined) must_ok(ms_union_open(&u, &d, &err), &err, "union");
        p.s = destination(store_kind_at(0), 0);
        ms_result got = ms_copy(p.s.store, joined ? u : one, NULL, NULL, NULL, &err);
        if (joined && from.kind->remote) {
            assert_int_equal(got, MS_E_RANGE);
            assert_string_equal(err.path, "stores[0].seq");
            script_is(&p, "show =>\nquery raw=note =>");
        } else {
            must_ok(got, &err, "copy");
            script_is(&p, "has {\"title\":\"one\"}\nshow => one|\n"
                          "query raw=note => noted|");
        }
        ms_close(u);
        store_close(&from);
        store_close(&p.s);
    }
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
