/* Usage notes, as the library writes and reads them and as the tool adds them up, against
 * arrays and loops; notes that other programs wrote, with what they may hold; hidden
 * messages; copies; no memory. */

#define _POSIX_C_SOURCE 200809L
#include "stores.h"
#include "arena.h"
#include "../tools/usage_sum.h"


/* ---- the array beside the store ---- */

enum { MANY = 600 };

typedef struct twin {
    size_t n_messages, n_notes;
    struct twin_message {
        uint64_t seq;
        ms_str location, agent, turn; /* static */
        bool hidden;
    } messages[MANY];
    struct twin_note {
        size_t message;
        ms_usage usage;
    } notes[MANY];
} twin;

static void grow(uint64_t *rng, ms_store *store, twin *t)
{
    struct twin_message *row = &t->messages[t->n_messages++];
    ms_envelope m = ms_observation(ms_text("x"), ms_str_of(NULL));
    assert_true(t->n_messages <= MANY);
    memset(row, 0, sizeof *row);
    row->location = random_location(rng);
    row->agent = m.agent_key = random_agent(rng);
    row->turn = m.turn_id = test_one_in(rng, 8) ? MS_STR("") : random_turn(rng);
    row->seq = must_append(store, row->location, &m);
}

/* Small numbers, 0 among them; quarters of a second. */
static ms_usage random_usage(uint64_t *rng)
{
    ms_usage u;
    memset(&u, 0, sizeof u);
    u.input_tokens = test_below(rng, 1000);
    u.output_tokens = test_below(rng, 3);
    if (test_one_in(rng, 2)) u.cached_tokens = test_below(rng, 100);
    if (test_one_in(rng, 2)) u.reasoning_tokens = test_below(rng, 100);
    u.duration_ns = (int64_t)test_below(rng, 40) * 250000000;
    return u;
}

/* A note of what a message cost, or of something else. */
static void remark(uint64_t *rng, ms_store *store, twin *t)
{
    size_t at = (size_t)test_below(rng, t->n_messages);
    struct twin_message *row = &t->messages[at];
    ms_error err;
    if (row->hidden) return;
    if (test_one_in(rng, 6)) {
        must_ok(ms_note(store, row->seq, MS_STR("rating"),
                        ms_json(MS_STR("{\"input_tokens\":5}")), &err), &err, "note");
        return;
    }
    struct twin_note *note = &t->notes[t->n_notes++];
    note->message = at;
    note->usage = random_usage(rng);
    must_ok(ms_note_usage(store, row->seq, &note->usage, &err), &err, "usage");
}

/* Hides a message, or all of its location from there on. */
static void conceal(uint64_t *rng, ms_store *store, twin *t)
{
    struct twin_message *first = &t->messages[test_below(rng, t->n_messages)];
    bool all = test_one_in(rng, 6);
    ms_error err;
    if (first->hidden) return;
    ms_result code =
        all ? ms_hide_range(store, first->location, first->seq, UINT64_MAX, NULL, &err)
            : ms_hide(store, first->seq, &err);
    must_ok(code, &err, "hide");
    for (struct twin_message *m = first; m < t->messages + t->n_messages; m++)
        if (m == first || (all && ms_str_equal(m->location, first->location)))
            m->hidden = true;
}

/* The text of a message is erased; its cost is not. */
static void erase(uint64_t *rng, ms_store *store, twin *t)
{
    ms_error err;
    uint64_t seq = t->messages[test_below(rng, t->n_messages)].seq;
    must_ok(ms_redact(store, seq, &err), &err, "redact");
}

static void add_up(usage_item *sum, const ms_usage *u)
{
    sum->notes++;
    sum->usage.input_tokens += u->input_tokens;
    sum->usage.output_tokens += u->output_tokens;
    sum->usage.cached_tokens += u->cached_tokens;
    sum->usage.reasoning_tokens += u->reasoning_tokens;
    sum->usage.duration_ns += u->duration_ns;
}

static void must_be_usage(const usage_item *got, const usage_item *want)
{
    assert_int_equal(got->notes, want->notes);
    assert_memory_equal(&got->usage, &want->usage, sizeof got->usage);
}

/* What the twin has, item by item in order of the first note. */
static size_t twin_sum(const twin *t, usage_by by, usage_item out[MANY],
                       usage_item *total)
{
    size_t n = 0;
    memset(total, 0, sizeof *total);
    for (size_t i = 0; i < t->n_notes; i++) {
        const struct twin_message *m = &t->messages[t->notes[i].message];
        size_t at = 0;
        if (m->hidden) continue;
        ms_str part = by == USAGE_BY_AGENT ? m->agent
                      : by == USAGE_BY_TURN ? m->turn : no_str();
        while (at < n && (!ms_str_equal(out[at].location, m->location) ||
                          !ms_str_equal(out[at].part, part)))
            at++;
        if (at == n) {
            memset(&out[n], 0, sizeof out[n]);
            out[n].location = m->location;
            out[n++].part = part;
        }
        add_up(&out[at], &t->notes[i].usage);
        add_up(total, &t->notes[i].usage);
    }
    return n;
}

static usage_list sum_of(ms_store *store, usage_by by)
{
    usage_list list;
    ms_error err;
    must_ok(usage_sum(store, by, &arena, &list, &err), &err, "sum");
    return list;
}

static void must_agree(ms_store *store, const twin *t, usage_by by)
{
    static usage_item want[MANY];
    usage_item total;
    size_t n = twin_sum(t, by, want, &total);
    usage_list list = sum_of(store, by);
    assert_int_equal(list.count, n);
    must_be_usage(&list.total, &total);
    for (size_t i = 0; i < n; i++) {
        assert_true(ms_str_equal(list.items[i].location, want[i].location));
        assert_true(ms_str_equal(list.items[i].part, want[i].part));
        must_be_usage(&list.items[i], &want[i]);
    }
}


/* ---- sums ---- */

/* A copy has the notes of the messages that it has; a union of both costs twice as much,
 * with an item for each location. */
static void a_copy_and_a_union_must_agree(ms_store *store)
{
    test_store to = store_open(store_kind_at(0), NULL);
    ms_store *const stores[] = {store, to.store};
    ms_store *both;
    ms_union_desc desc;
    ms_error err;
    memset(&desc, 0, sizeof desc);
    desc.stores = stores;
    desc.n_stores = 2;
    must_ok(ms_copy(to.store, store, NULL, NULL, NULL, &err), &err, "copy");
    must_ok(ms_union_open(&both, &desc, &err), &err, "union");
    usage_list one = sum_of(store, USAGE_BY_LOCATION);
    usage_list sum = sum_of(both, USAGE_BY_LOCATION);
    usage_item copied = sum_of(to.store, USAGE_BY_LOCATION).total, twice = one.total;
    must_be_usage(&copied, &one.total);
    add_up(&twice, &one.total.usage);
    twice.notes = 2 * one.total.notes;
    must_be_usage(&sum.total, &twice);
    assert_int_equal(sum.count, one.count);
    ms_close(both);
    store_close(&to);
}

/* Also for a reader that was opened before anything was there. */
static void sums_equal_those_of_an_array(void **state)
{
    static twin t;
    uint64_t rng = test_seed();
    store_options options;
    memset(&options, 0, sizeof options);
    options.room = (size_t)4 << 20;
    test_store s = store_open((store_kind *)*state, &options);
    ms_store *reader = s.kind->log ? log_reader(&s) : NULL;
    memset(&t, 0, sizeof t);
    for (size_t i = 0; i < 300; i++) {
        if (t.n_messages == 0 || test_one_in(&rng, 3)) grow(&rng, s.store, &t);
        else remark(&rng, s.store, &t);
        if (i > 100 && test_one_in(&rng, 12)) conceal(&rng, s.store, &t);
        if (i > 100 && test_one_in(&rng, 20)) erase(&rng, s.store, &t);
        if (i % 10 > 0) continue;
        for (int by = 0; by < 3; by++) must_agree(s.store, &t, (usage_by)by);
        if (reader != NULL) must_agree(reader, &t, USAGE_BY_LOCATION);
        if (i % 60 == 0) a_copy_and_a_union_must_agree(s.store);
        ms_arena_reset(&arena);
        if (i == 200) store_reopen(&s);
    }
    store_reopen(&s);
    must_agree(s.store, &t, USAGE_BY_LOCATION);
    ms_close(reader);
    store_close(&s);
}


/* ---- notes of other programs ---- */

static const struct {
    const char *note;
    bool text;                /* the note is a text */
    uint64_t input, output, cached, reasoning;
    int64_t duration_ns;
} said[] = {
    {"{}", false, 0, 0, 0, 0, 0},
    {"{\"input_tokens\":3,\"output_tokens\":4,\"cached_tokens\":2,"
     "\"reasoning_tokens\":1,\"seconds\":0.5}", false, 3, 4, 2, 1, SECONDS(0.5)},
    {" { \"inp\\u0075t_tokens\" : 3.0 , \"more\" : {\"input_tokens\":9} } ", false, 3, 0,
     0, 0, 0},
    {"{\"input_tokens\":1,\"input_tokens\":2}", false, 2, 0, 0, 0, 0},
    {"{\"input_tokens\":12e1,\"output_tokens\":1.999}", false, 120, 1, 0, 0, 0},
    {"{\"input_tokens\":-1,\"output_tokens\":-0,\"seconds\":-2}", false, 0, 0, 0, 0, 0},
    {"{\"input_tokens\":\"5\",\"output_tokens\":null,\"cached_tokens\":[7],"
     "\"seconds\":\"1\"}", false, 0, 0, 0, 0, 0},
    {"{\"input_tokens\":18446744073709551615,\"output_tokens\":18446744073709551616,"
     "\"cached_tokens\":1e400,\"reasoning_tokens\":-1e400,\"seconds\":1e400}", false,
     UINT64_MAX, UINT64_MAX, UINT64_MAX, 0, INT64_MAX},
    {"{\"input_tokens\":1e-400,\"output_tokens\":0.1e1}", false, 0, 1, 0, 0, 0},
    {"[{\"input_tokens\":1}]", false, 0, 0, 0, 0, 0},
    {"7", false, 0, 0, 0, 0, 0},
    {"\"{\\\"input_tokens\\\":1}\"", false, 0, 0, 0, 0, 0},
    {"{\"input_tokens\":1}", true, 0, 0, 0, 0, 0},
    {"", true, 0, 0, 0, 0, 0},
};

/* The newest note about a message. */
static bool usage_at(ms_store *store, uint64_t seq, ms_usage *out)
{
    ms_query q = query_of(MS_STR("job"), 0);
    ms_cursor it;
    ms_error err;
    q.raw = MS_RAW_NOTES;
    q.about_seq = seq;
    q.limit = 1;
    if (ms_query_open(store, &q, &it, &err) != MS_OK) fail_msg("%s", err.message);
    const ms_msg *note = ms_next(&it);
    bool is = note != NULL && ms_usage_of(note, out);
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    return is;
}

static void any_note_can_be_read(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    uint64_t seq = append_text(s.store, "x");
    ms_usage got;
    ms_error err;
    for (size_t i = 0; i < COUNT(said); i++) {
        ms_value v = said[i].text ? ms_text(said[i].note)
                                  : ms_json(ms_str_of(said[i].note));
        if (ms_note(s.store, seq, MS_STR("usage"), v, &err) != MS_OK)
            fail_msg("%s: %s", said[i].note, err.message);
        ms_usage want = {said[i].input, said[i].output, said[i].cached, said[i].reasoning,
                         said[i].duration_ns};
        if (!usage_at(s.store, seq, &got)) fail_msg("%s is none", said[i].note);
        if (memcmp(&got, &want, sizeof got) != 0) fail_msg("%s", said[i].note);
    }
    assert_int_equal(ms_note(s.store, seq, MS_STR("usages"), ms_text("x"), &err), MS_OK);
    assert_false(usage_at(s.store, seq, &got));
    store_close(&s);
}

/* What is written is read, the largest numbers too, and sums do not go round. */
static void sums_stop_at_the_largest_number(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_usage u = {UINT64_MAX - 1, UINT64_MAX, 1, UINT64_MAX / 2 + 1, INT64_MAX - 1};
    ms_error err;
    uint64_t seq = append_text(s.store, "x");
    assert_int_equal(ms_note_usage(s.store, seq, &u, &err), MS_OK);
    usage_item got = sum_of(s.store, USAGE_BY_LOCATION).total;
    assert_memory_equal(&got.usage, &u, sizeof u);
    seq = append_text(s.store, "y");
    assert_int_equal(ms_note_usage(s.store, seq, &u, &err), MS_OK);
    got = sum_of(s.store, USAGE_BY_LOCATION).total;
    ms_usage top = {UINT64_MAX, UINT64_MAX, 2, UINT64_MAX, INT64_MAX};
    assert_memory_equal(&got.usage, &top, sizeof top);
    store_close(&s);
}

static void a_usage_note_is_an_object(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_usage u = {1, 0, 0, 20, SECONDS(0.25)};
    ms_cursor it;
    ms_error err;
    uint64_t seq = append_text(s.store, "x");
    ms_query q = query_of(MS_STR("job"), 0);
    q.raw = MS_RAW_NOTES;
    assert_int_equal(ms_note_usage(s.store, seq, &u, &err), MS_OK);
    assert_int_equal(ms_query_open(s.store, &q, &it, &err), MS_OK);
    const ms_msg *note = ms_next(&it);
    assert_non_null(note);
    assert_int_equal(ms_seq(note), seq);
    assert_true(ms_content(note).json);
    assert_true(ms_str_equal(ms_content(note).text,
                             MS_STR("{\"input_tokens\":1,\"reasoning_tokens\":20,"
                                    "\"seconds\":0.25}")));
    assert_null(ms_next(&it));
    assert_int_equal(ms_cursor_close(&it, &err), MS_OK);
    store_close(&s);
}


/* ---- what cannot be done ---- */

static void bad_usage_is_refused(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_usage u;
    ms_error err;
    uint64_t seq = append_text(s.store, "x");
    memset(&u, 0, sizeof u);
    u.duration_ns = -1;
    assert_int_equal(ms_note_usage(s.store, seq, &u, &err), MS_E_RANGE);
    assert_string_equal(err.path, "duration_ns");
    u.duration_ns = 0;
    assert_int_equal(ms_note_usage(s.store, seq, NULL, &err), MS_E_ARGUMENT);
    assert_int_equal(ms_note_usage(s.store, seq + 1, &u, &err), MS_E_NOT_FOUND);
    assert_int_equal(ms_note_usage(NULL, seq, &u, &err), MS_E_CLOSED);
    assert_int_equal(sum_of(s.store, USAGE_BY_AGENT).count, 0);
    store_close(&s);
}

static void any_allocation_may_fail(void **state)
{
    test_store s = store_open(store_kind_at(0), NULL);
    ms_usage u = {0, 1, 2, 0, 0};
    ms_error err;
    (void)state;
    for (int i = 0; i < 300; i++) {
        ms_envelope m = ms_user_message(ms_text("x"));
        char agent[32];
        snprintf(agent, sizeof agent, "agent %d", i % 150);
        m.agent_key = ms_str_of(agent);
        uint64_t seq = must_append(s.store, i % 2 ? MS_STR("odd") : MS_STR("even"), &m);
        assert_int_equal(ms_note_usage(s.store, seq, &u, &err), MS_OK);
    }
    for (size_t k = 1;; k++) {
        test_alloc heap;
        ms_arena a;
        usage_list list;
        test_alloc_init(&heap);
        heap.fail_at = k;
        test_arena_init(&a, &heap.alloc);
        ms_result code = usage_sum(s.store, USAGE_BY_AGENT, &a, &list, &err);
        assert_int_equal(code, heap.failed > 0 ? MS_E_NO_MEMORY : MS_OK);
        if (code == MS_OK) assert_int_equal(list.count, 150);
        ms_arena_deinit(&a);
        test_alloc_done(&heap);
        if (heap.failed == 0) break;
        assert_true(k < 100);
    }
    store_close(&s);
}

#define WITH_RESET(test) cmocka_unit_test_setup(test, reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EVERY_STORE(sums_equal_those_of_an_array),
        ON_EVERY_STORE(any_note_can_be_read),
        ON_EVERY_STORE(sums_stop_at_the_largest_number),
        ON_EVERY_STORE(a_usage_note_is_an_object),
        ON_EVERY_STORE(bad_usage_is_refused),
        WITH_RESET(any_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("usage", tests, NULL, release);
}
