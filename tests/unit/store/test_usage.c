/* Usage notes: those that other programs wrote, with what they may hold; the largest
 * numbers; what is refused; sums without memory. What the library writes, and sums by
 * location, agent and turn, are compared in test_twin. */

#define _POSIX_C_SOURCE 200809L
#include "stores.h"
#include "arena.h"
#include "low_memory.h"
#include "tools/usage_sum.h"


static usage_list sum_of(ms_store *store, usage_by by)
{
    usage_list list;
    ms_error err;
    must_ok(usage_sum(store, by, &arena, &list, &err), &err, "sum");
    return list;
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

TEST_WITH(ON_EVERY_STORE, any_note_can_be_read)
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
TEST_WITH(ON_EVERY_STORE, sums_stop_at_the_largest_number)
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


/* ---- what cannot be done ---- */

TEST_WITH(ON_EVERY_STORE, bad_usage_is_refused)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_error err;
    uint64_t seq = append_text(s.store, "x");
    ms_usage u = {.duration_ns = -1};
    assert_int_equal(ms_note_usage(s.store, seq, &u, &err), MS_E_RANGE);
    assert_string_equal(err.path, "duration_ns");
    u.duration_ns = 0;
    assert_int_equal(ms_note_usage(s.store, seq, NULL, &err), MS_E_ARGUMENT);
    assert_int_equal(ms_note_usage(s.store, seq + 1, &u, &err), MS_E_NOT_FOUND);
    assert_int_equal(ms_note_usage(NULL, seq, &u, &err), MS_E_CLOSED);
    assert_int_equal(sum_of(s.store, USAGE_BY_AGENT).count, 0);
    store_close(&s);
}

static ms_result sum_low_memory(void *store, ms_arena *in)
{
    usage_list list;
    ms_result code = usage_sum((ms_store *)store, USAGE_BY_AGENT, in, &list, NULL);
    if (code == MS_OK) assert_int_equal(list.count, 150);
    return code == MS_E_NO_MEMORY ? low_memory_code(in) : code;
}

TEST(sum_is_refused_when_memory_ends)
{
    test_store s = store_open(store_kind_at(0), NULL);
    ms_usage u = {0, 1, 2, 0, 0};
    for (int i = 0; i < 300; i++) {
        ms_envelope m = ms_user_message(ms_text("x"));
        char agent[32];
        snprintf(agent, sizeof agent, "agent %d", i % 150);
        m.agent_key = ms_str_of(agent);
        uint64_t seq = must_append(s.store, i % 2 ? MS_STR("odd") : MS_STR("even"), &m);
        assert_int_equal(ms_note_usage(s.store, seq, &u, NULL), MS_OK);
    }
    assert_true(low_memory(sum_low_memory, s.store, 512) > 0);
    store_close(&s);
}

int main(void)
{
    return run_all_tests(reset, release);
}
