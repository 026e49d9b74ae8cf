/* [related]: facts that are read after each change, and notes of one message, are those
 * that a reader of the whole list finds, whatever was remembered before.
 */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"
#include "support.h"
#include "stores.h"

#include <pthread.h>

#define JOB MS_STR("job")
#define OTHER MS_STR("other")

static uint64_t append_to(ms_store *store, ms_str location)
{
    ms_envelope m = ms_user_message(ms_text("hello"));
    uint64_t seq;
    assert_int_equal(ms_append(store, location, &m, &seq, NULL), MS_OK);
    return seq;
}

/* ---- facts ---- */

#define KEYS 6

typedef struct fact_model {
    unsigned value[KEYS]; /* 0: none */
} fact_model;

static void set_fact(ms_store *store, fact_model *model, unsigned key, unsigned value)
{
    char text[64];
    int n = value ? snprintf(text, sizeof text, "{\"k%u\":[%u]}", key, value)
                  : snprintf(text, sizeof text, "{\"k%u\":null}", key);
    assert_int_equal(ms_location_set(store, JOB, ms_str_n(text, (size_t)n), NULL), MS_OK);
    model->value[key] = value;
}

/* The members in any order, and no others. */
static void must_have_facts(const fact_model *model, ms_store *store, ms_str location,
                            unsigned others)
{
    ms_arena arena;
    ms_str facts, value;
    unsigned n = 0, members = 0;
    memset(&arena, 0, sizeof arena);
    assert_int_equal(ms_location_get(store, location, &arena, &facts, NULL), MS_OK);
    for (unsigned key = 0; key < KEYS; key++) {
        char name[24], want[24];
        snprintf(name, sizeof name, "k%u", key);
        snprintf(want, sizeof want, "[%u]", model->value[key]);
        bool there = ms_json_member(facts, ms_str_of(name), &value);
        assert_int_equal(there, model->value[key] != 0);
        if (there) assert_true(ms_str_equal(value, ms_str_of(want)));
        if (there) n++;
    }
    ms_json_iter it = ms_json_iterate(facts);
    while (ms_json_next(&it)) members++;
    assert_int_equal(members, n + others);
    ms_arena_deinit(&arena);
}

TEST_WITH(ON_EVERY_STORE, facts_are_the_last_values_when_they_are_read_between)
{
    test_store s = store_open((store_kind *)*state, NULL);
    uint64_t rng = test_seed();
    fact_model model;
    memset(&model, 0, sizeof model);
    size_t n = s.kind->remote ? 60 : 600, forks = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned key = (unsigned)test_below(&rng, KEYS);
        set_fact(s.store, &model, key,
                 test_one_in(&rng, 4) ? 0 : 1 + (unsigned)test_below(&rng, 100000));
        if (test_one_in(&rng, 10)) append_to(s.store, JOB);
        if (test_one_in(&rng, 20))
            assert_int_equal(ms_rewind(s.store, JOB, 0, NULL, NULL), MS_OK);
        if (test_one_in(&rng, 3)) must_have_facts(&model, s.store, JOB, 0);
        if (s.kind->log && test_one_in(&rng, 100)) store_reopen(&s);
        if (test_one_in(&rng, 100)) {
            char name[24];
            snprintf(name, sizeof name, "fork%zu", forks++);
            for (unsigned k = 0; k < 20; k++) set_fact(s.store, &model, k % KEYS, k);
            assert_int_equal(ms_fork(s.store, JOB, 0, ms_str_of(name), NULL, NULL), MS_OK);
            must_have_facts(&model, s.store, ms_str_of(name), 2);
        }
    }
    must_have_facts(&model, s.store, JOB, 0);
    store_close(&s);
}

/* Of another handle, which follows: it remembers what it has read of the writer's. */
TEST_WITH(ON_LOGS, facts_are_the_last_values_when_a_reader_follows)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_log_desc desc = s.log;
    uint64_t rng = test_seed();
    ms_store *reader;
    fact_model model;
    memset(&model, 0, sizeof model);
    append_to(s.store, JOB);
    desc.mode = MS_LOG_READ;
    assert_int_equal(ms_log_open(&reader, &desc, NULL), MS_OK);
    for (size_t i = 0; i < 3000; i++) {
        set_fact(s.store, &model, (unsigned)test_below(&rng, KEYS), 1 + (unsigned)i);
        if (test_one_in(&rng, 50)) must_have_facts(&model, reader, JOB, 0);
    }
    must_have_facts(&model, reader, JOB, 0);
    ms_close(reader);
    store_close(&s);
}

/* ---- records that have all facts ---- */

static unsigned is_all(const ms_msg *msg)
{
    return ms_repeats_facts(msg);
}

/* What a program reads that knows of no records with all facts, or leaves them out: the
 * last value of each member. Returns how many records have all. */
static size_t must_have_facts_in_some(const fact_model *model, ms_store *store, bool each)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    unsigned now[KEYS] = {0};
    size_t n_all = 0;
    memset(&q, 0, sizeof q);
    q.location = JOB;
    q.raw = MS_RAW_LOCATIONS;
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL) {
        ms_json_iter member = ms_json_iterate(ms_content(msg).text);
        n_all += is_all(msg);
        if (is_all(msg) && !each) continue;
        while (ms_json_next(&member)) {
            unsigned key = (unsigned)(member.key.ptr[2] - '0');
            assert_in_range(key, 0, KEYS - 1);
            now[key] = member.value.ptr[0] == '[' ? (unsigned)atoi(member.value.ptr + 1) : 0;
        }
    }
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    for (unsigned key = 0; key < KEYS; key++)
        assert_int_equal(now[key], model->value[key]);
    return n_all;
}

static size_t must_have_facts_in_records(const fact_model *model, ms_store *store)
{
    (void)must_have_facts_in_some(model, store, false);
    return must_have_facts_in_some(model, store, true);
}

static ms_store *open_again(const test_store *s, ms_log_mode mode)
{
    ms_log_desc desc = s->log;
    ms_store *store;
    desc.mode = mode;
    assert_int_equal(ms_log_open(&store, &desc, NULL), MS_OK);
    return store;
}

TEST_WITH(ON_LOGS, facts_are_the_last_values_for_each_new_handle)
{
    test_store s = store_open((store_kind *)*state, NULL);
    uint64_t rng = test_seed();
    fact_model model;
    memset(&model, 0, sizeof model);
    append_to(s.store, JOB);
    for (size_t i = 0; i < 1000; i++) {
        set_fact(s.store, &model, (unsigned)test_below(&rng, KEYS),
                 test_one_in(&rng, 3) ? 0 : 1 + (unsigned)i);
        if (test_one_in(&rng, 3)) append_to(s.store, test_one_in(&rng, 2) ? JOB : OTHER);
        if (test_one_in(&rng, 5))
            assert_int_equal(ms_note(s.store, 1, MS_STR("k"), ms_text("v"), NULL), MS_OK);
        if (test_one_in(&rng, 50)) store_reopen(&s);
        if (!test_one_in(&rng, 20)) continue;
        ms_store *reader = open_again(&s, MS_LOG_READ);
        must_have_facts(&model, reader, JOB, 0);
        ms_close(reader);
    }
    assert_true(must_have_facts_in_records(&model, s.store) > 10);
    store_close(&s);
}

/* A removed member is in none of the records that a reader reads. */
TEST_WITH(ON_LOGS, removed_facts_stay_removed_when_all_are_written)
{
    test_store s = store_open((store_kind *)*state, NULL);
    size_t n_all = 0;
    fact_model model;
    memset(&model, 0, sizeof model);
    for (size_t i = 0; i < 200; i++) {
        set_fact(s.store, &model, 0, 1 + (unsigned)i);
        set_fact(s.store, &model, 1, 1 + (unsigned)i);
        set_fact(s.store, &model, 0, 0);
        ms_store *reader = open_again(&s, MS_LOG_READ);
        must_have_facts(&model, reader, JOB, 0);
        n_all = must_have_facts_in_records(&model, reader);
        ms_close(reader);
    }
    assert_true(n_all > 10);
    store_close(&s);
}

/* The place up to which a handle has read. */
static uint64_t read_up_to(ms_store *store)
{
    ms_query q;
    ms_cursor it;
    memset(&q, 0, sizeof q);
    q.location = JOB;
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    uint64_t now = it.now;
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    return now;
}

static ms_result put_all(ms_store *store, uint64_t upto)
{
    ms__facts_set x;
    memset(&x, 0, sizeof x);
    x.store = store;
    x.location = JOB;
    return ms__facts_put(&x, MS_STR("{\"k0\":[1]}"), MS__FACTS_ALL, upto, NULL);
}

TEST_WITH(ON_EVERY_STORE, all_facts_are_refused_when_some_were_set_meanwhile)
{
    static const ms__hole any;
    store_kind *kind = (store_kind *)*state;
    skip_on_a_server(state, "it keeps no records in place");
    test_store s = store_open(kind, NULL);
    fact_model model;
    memset(&model, 0, sizeof model);
    uint64_t seq = append_to(s.store, JOB), upto = read_up_to(s.store);
    set_fact(s.store, &model, 1, 1);
    assert_int_equal(put_all(s.store, upto), MS_E_CONFLICT);
    must_have_facts(&model, s.store, JOB, 0);
    upto = read_up_to(s.store);
    assert_int_equal(ms_note(s.store, seq, MS_STR("k"), ms_text("v"), NULL), MS_OK);
    assert_int_equal(put_all(s.store, upto), MS_E_CONFLICT);
    upto = read_up_to(s.store);
    assert_int_equal(ms_location_set(s.store, OTHER, MS_STR("{\"a\":1}"), NULL), MS_OK);
    assert_int_equal(put_all(s.store, upto), MS_OK);
    upto = read_up_to(s.store);
    ms__tail_damage(ms__core_of(s.store)->tail, &any);
    assert_int_equal(put_all(s.store, upto), MS_E_CONFLICT);
    store_close(&s);
    s = store_open(kind, NULL);
    memset(&model, 0, sizeof model);
    if (s.kind->log) {
        upto = read_up_to(s.store);
        set_fact(s.store, &model, 1, 2);
        while (read_up_to(s.store) >> 32 == upto >> 32) append_to(s.store, OTHER);
        assert_int_equal(put_all(s.store, upto), MS_E_CONFLICT);
    }
    store_close(&s);
}

/* The other handle has read nothing of it before it takes its turn. */
TEST(all_facts_are_refused_when_another_writer_set_some)
{
    (void)state;
    test_store s = store_open(&store_kinds[0] + 6, NULL);
    assert_string_equal(s.kind->name, "shared log");
    ms_store *other = open_again(&s, MS_LOG_CREATE);
    fact_model model;
    memset(&model, 0, sizeof model);
    append_to(other, JOB);
    uint64_t upto = read_up_to(s.store);
    set_fact(other, &model, 1, 1);
    assert_int_equal(put_all(s.store, upto), MS_E_CONFLICT);
    for (unsigned i = 0; i < 400; i++) set_fact(i % 3 ? other : s.store, &model, i % KEYS, i);
    must_have_facts(&model, s.store, JOB, 0);
    must_have_facts(&model, other, JOB, 0);
    ms_close(other);
    store_close(&s);
}

/* All of them together have no place in a record. */
TEST_WITH(ON_LOGS, facts_are_whole_when_all_are_too_large_for_a_record)
{
    enum { MANY = 40, LONG = 300 };
    store_options options;
    memset(&options, 0, sizeof options);
    options.max_message = 4096;
    test_store s = store_open((store_kind *)*state, &options);
    char text[LONG + 64];
    memset(text, 'x', sizeof text);
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < MANY; i++) {
            int n = snprintf(text, sizeof text, "{\"k%u\":\"%u", i, round);
            text[n] = 'x';
            memcpy(text + LONG, "\"}", 2);
            assert_int_equal(ms_location_set(s.store, JOB, ms_str_n(text, LONG + 2), NULL),
                             MS_OK);
            memset(text, 'x', sizeof text);
        }
    ms_store *reader = open_again(&s, MS_LOG_READ);
    ms_arena arena;
    ms_str facts;
    size_t members = 0;
    memset(&arena, 0, sizeof arena);
    assert_int_equal(ms_location_get(reader, JOB, &arena, &facts, NULL), MS_OK);
    ms_json_iter it = ms_json_iterate(facts);
    while (ms_json_next(&it)) {
        assert_int_equal(it.value.ptr[1], '2');
        members++;
    }
    assert_int_equal(members, MANY);
    ms_arena_deinit(&arena);
    ms_close(reader);
    store_close(&s);
}

/* More is read than is remembered, and as much again. */
TEST_WITH(ON_EVERY_STORE, long_facts_are_whole_when_they_are_remembered)
{
    enum { LONG = 3000 };
    static char text[LONG + 64];
    test_store s = store_open((store_kind *)*state, NULL);
    ms_arena arena;
    memset(&arena, 0, sizeof arena);
    for (size_t i = 0; i < 60; i++) {
        ms_str facts;
        size_t n = 1 + i * (LONG / 60);
        memcpy(text, "{\"long\":\"", 9);
        memset(text + 9, 'a' + (int)(i % 26), n);
        memcpy(text + 9 + n, "\"}", 2);
        ms_str all = ms_str_n(text, n + 11);
        assert_int_equal(ms_location_set(s.store, JOB, all, NULL), MS_OK);
        if (i % 20 < 18) continue;
        assert_int_equal(ms_location_get(s.store, JOB, &arena, &facts, NULL), MS_OK);
        assert_true(ms_str_equal(facts, all));
    }
    ms_arena_deinit(&arena);
    store_close(&s);
}

/* ---- notes ---- */

enum { MESSAGES = 40, RECORDS_MOST = 4096 };

typedef struct found {
    const void *at[RECORDS_MOST];
    size_t n;
} found;

static void find(ms_store *store, const ms_query *q, uint64_t about, found *f)
{
    ms_cursor it;
    const ms_msg *msg;
    f->n = 0;
    assert_int_equal(ms_query_open(store, q, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL) {
        if (about && ms_seq(msg) != about) continue;
        assert_in_range(f->n, 0, RECORDS_MOST - 1);
        f->at[f->n++] = msg;
    }
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
}

/* A query about a message is what all records of the location have of it. */
static void must_find_the_same(ms_store *store, ms_query q, uint64_t about)
{
    static found all, some;
    size_t limit = q.limit, from = 0;
    q.limit = 0;
    find(store, &q, about, &all);
    q.limit = limit;
    q.about_seq = about;
    find(store, &q, about, &some);
    size_t n = limit && limit < all.n ? limit : all.n;
    if (n < all.n && q.oldest == q.reverse) from = all.n - n;
    assert_int_equal(some.n, n);
    for (size_t i = 0; i < n; i++) assert_ptr_equal(some.at[i], all.at[from + i]);
}

static ms_query query_of_records(uint64_t *rng)
{
    ms_query q;
    memset(&q, 0, sizeof q);
    q.location = JOB;
    q.raw = MS_RAW_NOTES;
    if (test_one_in(rng, 3)) q.raw |= MS_RAW_MESSAGES | MS_RAW_AMENDS;
    q.reverse = test_one_in(rng, 2);
    q.oldest = test_one_in(rng, 2);
    if (test_one_in(rng, 2)) q.limit = 1 + (size_t)test_below(rng, 30);
    return q;
}

TEST_WITH(ON_EVERY_STORE, notes_of_a_message_are_those_of_the_list)
{
    skip_on_a_server(state, "it compares addresses");
    test_store s = store_open((store_kind *)*state, NULL);
    uint64_t rng = test_seed(), seqs[MESSAGES];
    char text[400];
    memset(text, 'n', sizeof text);
    for (size_t i = 0; i < MESSAGES; i++) {
        seqs[i] = append_to(s.store, JOB);
        if (i % 8 == 0) append_to(s.store, OTHER);
    }
    for (size_t i = 0; i < 1000; i++) {
        uint64_t seq = seqs[test_below(&rng, test_one_in(&rng, 2) ? 3 : MESSAGES)];
        ms_value value = ms_text_n(ms_str_n(text, test_below(&rng, sizeof text)));
        if (test_one_in(&rng, 20)) {
            ms_envelope m = ms_user_message(ms_text("again"));
            (void)ms_amend(s.store, seq, &m, NULL);
        }
        if (test_one_in(&rng, 200)) assert_int_equal(ms_redact(s.store, seq, NULL), MS_OK);
        assert_int_equal(ms_note(s.store, seq, MS_STR("kind"), value, NULL), MS_OK);
        if (test_one_in(&rng, 20))
            assert_int_equal(ms_location_set(s.store, JOB, MS_STR("{\"a\":1}"), NULL),
                             MS_OK);
        if (s.kind->log && test_one_in(&rng, 300)) store_reopen(&s);
        if (!test_one_in(&rng, 8)) continue;
        must_find_the_same(s.store, query_of_records(&rng),
                           seqs[test_below(&rng, MESSAGES)]);
        must_find_the_same(s.store, query_of_records(&rng), seq);
    }
    store_close(&s);
}

static size_t count_query(ms_store *store, const ms_query *q)
{
    ms_cursor it;
    size_t n = 0;
    assert_int_equal(ms_query_open(store, q, &it, NULL), MS_OK);
    while (ms_next(&it)) n++;
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    return n;
}

/* A cursor shows the notes of its opening, in both directions. */
TEST_WITH(ON_LOGS, notes_are_those_of_the_opening_when_more_come)
{
    test_store s = store_open((store_kind *)*state, NULL);
    uint64_t seq = append_to(s.store, JOB), other = append_to(s.store, JOB);
    ms_query q;
    memset(&q, 0, sizeof q);
    q.location = JOB;
    q.raw = MS_RAW_NOTES;
    q.about_seq = seq;
    ms_stat stat;
    for (size_t n = 0; n < 400; n += 2) {
        ms_cursor it, more;
        size_t shown = 0;
        if (n == 200) assert_int_equal(ms_store_stat(s.store, &stat, NULL), MS_OK);
        q.reverse = n % 4 == 0;
        assert_int_equal(ms_query_open(s.store, &q, &it, NULL), MS_OK);
        for (size_t k = 0; k < 2; k++) {
            assert_int_equal(ms_note(s.store, seq, MS_STR("k"), ms_text("v"), NULL), MS_OK);
            assert_int_equal(ms_note(s.store, other, MS_STR("k"), ms_text("v"), NULL),
                             MS_OK);
            assert_int_equal(ms_query_open(s.store, &q, &more, NULL), MS_OK);
            assert_int_equal(ms_cursor_close(&more, NULL), MS_OK);
        }
        while (ms_next(&it)) shown++;
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
        assert_int_equal(shown, n);
    }
    q.as_of = stat.as_of;
    for (size_t i = 0; i < 2; i++, q.reverse = !q.reverse)
        assert_int_equal(count_query(s.store, &q), 200);
    store_close(&s);
}

/* ---- damage ---- */

/* Each reader meets a damaged record of notes and facts, also the second one. */
static void must_report_damage(const test_store *s, unsigned kind)
{
    ms_log_desc desc = s->log;
    ms_store *store;
    ms_query q;
    ms_cursor it;
    ms_arena arena;
    ms_str facts;
    memset(&arena, 0, sizeof arena);
    memset(&q, 0, sizeof q);
    q.location = JOB;
    q.raw = MS_RAW_NOTES;
    q.about_seq = 1;
    desc.mode = MS_LOG_READ;
    desc.events.event = NULL;
    assert_int_equal(ms_log_open(&store, &desc, NULL), MS_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
        while (ms_next(&it)) {}
        if (kind == MS_KIND_NOTE)
            assert_int_equal(ms_cursor_close(&it, NULL), MS_E_DAMAGED);
        else (void)ms_cursor_close(&it, NULL);
        ms_result code = ms_location_get(store, JOB, &arena, &facts, NULL);
        if (kind == MS_KIND_LOCATION) assert_int_equal(code, MS_E_DAMAGED);
        else assert_int_equal(code, MS_OK);
    }
    ms_arena_deinit(&arena);
    ms_close(store);
}

/* Damages the body of a record of a closed log. */
static void damage_at(const test_store *s, uint64_t offset)
{
    FILE *file = fopen(s->path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)offset + 41, SEEK_SET), 0);
    assert_int_equal(fputc(0xEE, file), 0xEE);
    assert_int_equal(fclose(file), 0);
}

/* Sets facts and makes notes, closes the log, and damages one of them: of notes the 20th
 * one about message 2; of facts, counted from the newest one with all facts, that after
 * (1), it itself (0), or one before (-1). */
static void make_damage(test_store *s, unsigned kind, int which)
{
    uint64_t seq = append_to(s->store, JOB), other = append_to(s->store, JOB);
    const ms_msg *msg = NULL, *last = NULL, *target = NULL;
    ms_query q;
    ms_cursor it;
    assert_int_equal(seq, 1);
    for (size_t i = 0, since = 0; i < 1500 || since < 20; i++) {
        char text[128];
        int n = snprintf(text, sizeof text, i ? "{\"number\":%zu}" : "{\"more\":[1,%zu]}", i);
        assert_int_equal(ms_note(s->store, i % 2 ? seq : other, MS_STR("k"), ms_text("v"),
                                 NULL), MS_OK);
        assert_int_equal(ms_location_set(s->store, JOB, ms_str_n(text, (size_t)n), NULL),
                         MS_OK);
        memset(&q, 0, sizeof q);
        q.location = JOB;
        q.raw = MS_RAW_LOCATIONS;
        q.limit = 2;
        assert_int_equal(ms_query_open(s->store, &q, &it, NULL), MS_OK);
        last = ms_next(&it); /* the one before the newest: that is not torn */
        const ms_msg *newest = ms_next(&it);
        since = newest && is_all(newest) ? 0 : since + 1;
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    }
    memset(&q, 0, sizeof q);
    q.location = JOB;
    q.raw = kind == MS_KIND_NOTE ? MS_RAW_NOTES : MS_RAW_LOCATIONS;
    q.about_seq = kind == MS_KIND_NOTE ? other : 0;
    q.reverse = kind == MS_KIND_LOCATION;
    assert_int_equal(ms_query_open(s->store, &q, &it, NULL), MS_OK);
    for (size_t i = 0; kind == MS_KIND_NOTE && i < 20; i++) target = ms_next(&it);
    while (!target && (msg = ms_next(&it)) != NULL && !is_all(msg)) {}
    if (!target) target = which > 0 ? last : which == 0 ? msg : ms_next(&it);
    assert_non_null(target);
    uint64_t offset = ms__log_where(ms__log_of(s->store), ms__bytes(target));
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    ms_close(s->store);
    s->store = NULL;
    damage_at(s, offset);
}

TEST_WITH(ON_LOGS, damage_is_reported_again_when_it_was_reported_before)
{
    for (unsigned kind = MS_KIND_NOTE; kind <= MS_KIND_LOCATION; kind++) {
        test_store s = store_open((store_kind *)*state, NULL);
        make_damage(&s, kind, 1);
        must_report_damage(&s, kind);
        store_close(&s);
    }
}

TEST_WITH(ON_LOGS, damage_is_reported_when_the_record_of_all_facts_has_it)
{
    test_store s = store_open((store_kind *)*state, NULL);
    make_damage(&s, MS_KIND_LOCATION, 0);
    must_report_damage(&s, MS_KIND_LOCATION);
    store_close(&s);
}

/* Nothing of the facts is missing where only records before all of them are damaged. The
 * next change keeps that so. In the tail, which has no index, a damaged range may be of any
 * location: there the damage is reported, beside all facts. */
TEST_WITH(ON_LOGS, facts_are_whole_when_what_they_replaced_is_damaged)
{
    test_store s = store_open((store_kind *)*state, NULL);
    make_damage(&s, MS_KIND_LOCATION, -1);
    s.log.events.event = NULL; /* opening meets it, too, where no index has it */
    for (unsigned i = 0; i < 3; i++) {
        ms_arena arena;
        ms_str facts, value;
        uint64_t number;
        memset(&arena, 0, sizeof arena);
        ms_store *store = open_again(&s, i ? MS_LOG_WRITE : MS_LOG_READ);
        if (i)
            assert_int_equal(ms_location_set(store, JOB, MS_STR("{\"more\":2}"), NULL), MS_OK);
        assert_int_equal(ms_location_get(store, JOB, &arena, &facts, NULL),
                         log_info_of(store).segments > 0 ? MS_OK : MS_E_DAMAGED);
        assert_true(ms_json_member(facts, MS_STR("number"), &value));
        assert_int_equal(ms_json_u64(value, &number), MS_OK);
        assert_in_range(number, 1499, 1600);
        assert_true(ms_json_member(facts, MS_STR("more"), &value));
        if (i) assert_int_equal(value.len, 1);
        ms_arena_deinit(&arena);
        ms_close(store);
    }
    store_close(&s);
}

/* What is damaged among the records since all facts is not in the next ones: a change
 * beside it stays a change, and damage goes on to be reported. */
TEST_WITH(ON_LOGS, all_facts_are_not_written_beside_damage)
{
    test_store s = store_open((store_kind *)*state, NULL);
    make_damage(&s, MS_KIND_LOCATION, 1);
    ms_log_desc desc = s.log;
    desc.events.event = NULL;
    assert_int_equal(ms_log_open(&s.store, &desc, NULL), MS_OK);
    for (unsigned i = 0; i < 200; i++)
        assert_int_equal(ms_location_set(s.store, JOB, MS_STR("{\"other\":[1,2,3]}"), NULL),
                         MS_OK);
    ms_close(s.store);
    s.store = NULL;
    must_report_damage(&s, MS_KIND_LOCATION);
    store_close(&s);
}

/* ---- threads ---- */

typedef struct sharing {
    ms_store *store;
    uint64_t seq;
    uint32_t over;
    size_t failures, notes; /* of the reader */
} sharing;

/* Notes grow in number, and facts in value. */
static void *read_on(void *arg)
{
    sharing *w = (sharing *)arg;
    uint64_t last = 0;
    size_t shown = 0;
    bool over;
    do {
        over = ms__load32(&w->over) != 0;
        ms_query q;
        ms_cursor it;
        ms_arena arena;
        ms_str facts, value;
        uint64_t now = 0;
        size_t n = 0;
        memset(&q, 0, sizeof q);
        memset(&arena, 0, sizeof arena);
        q.location = JOB;
        q.raw = MS_RAW_NOTES;
        q.about_seq = w->seq;
        q.reverse = shown % 2 == 0;
        if (ms_query_open(w->store, &q, &it, NULL) != MS_OK) w->failures++;
        while (ms_next(&it)) n++;
        if (ms_cursor_close(&it, NULL) != MS_OK || n < shown) w->failures++;
        shown = n;
        if (ms_location_get(w->store, JOB, &arena, &facts, NULL) != MS_OK) w->failures++;
        else if (ms_json_member(facts, MS_STR("n"), &value)) (void)ms_json_u64(value, &now);
        if (now < last) w->failures++;
        last = now;
        ms_arena_deinit(&arena);
    } while (!over);
    w->notes = shown;
    return NULL;
}

TEST_WITH(ON_EVERY_STORE, readers_find_all_when_a_writer_goes_on)
{
    skip_on_a_server(state, "it is about threads of this process");
    enum { READERS = 2, ROUNDS = 1500 };
    test_store s = store_open((store_kind *)*state, NULL);
    sharing w[READERS];
    pthread_t threads[READERS];
    uint64_t seq = append_to(s.store, JOB), other = append_to(s.store, JOB);
    memset(w, 0, sizeof w);
    for (size_t i = 0; i < READERS; i++) {
        w[i].store = s.store;
        w[i].seq = seq;
        assert_int_equal(pthread_create(&threads[i], NULL, read_on, &w[i]), 0);
    }
    for (size_t i = 0; i < ROUNDS; i++) {
        char text[32];
        int n = snprintf(text, sizeof text, "{\"n\":%zu}", i + 1);
        assert_int_equal(ms_note(s.store, i % 2 ? seq : other, MS_STR("k"), ms_text("v"),
                                 NULL), MS_OK);
        assert_int_equal(ms_location_set(s.store, JOB, ms_str_n(text, (size_t)n), NULL),
                         MS_OK);
    }
    for (size_t i = 0; i < READERS; i++) ms__store32(&w[i].over, 1);
    for (size_t i = 0; i < READERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(w[i].failures, 0);
        assert_int_equal(w[i].notes, ROUNDS / 2);
    }
    store_close(&s);
}

int main(void) { return run_all_tests(NULL, NULL); }
