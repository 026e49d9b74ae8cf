/* Lifetimes: arguments are copied before a call returns. Each call that takes texts or
 * structs gets them in memory of their own, which is overwritten and freed right behind the
 * call. What is stored and read afterwards must be as it was passed; AddressSanitizer sees
 * who reads the memory again. What must outlive a call by its comment (what the query of a
 * cursor points to, a memory, the stores of a union) does.
 */

#define _POSIX_C_SOURCE 200809L
#include "support.h"
#include "scratch.h"
#include "stores.h"

#define LENT_MOST 64

static struct { void *at; size_t size; } lent[LENT_MOST];
static size_t n_lent;

static void *lend_bytes(const void *from, size_t size)
{
    void *at = malloc(size + 1);
    if (at == NULL || n_lent == LENT_MOST) abort();
    memcpy(at, from, size);
    ((char *)at)[size] = '\0';
    lent[n_lent].at = at;
    lent[n_lent++].size = size;
    return at;
}

#define LEND(type, value) ((type *)lend_bytes(&(value), sizeof(type)))

static ms_str lend(const char *text)
{
    size_t len = strlen(text);
    return ms_str_n((const char *)lend_bytes(text, len), len);
}

static void take_back(void)
{
    while (n_lent > 0) {
        n_lent--;
        memset(lent[n_lent].at, 'Z', lent[n_lent].size);
        free(lent[n_lent].at);
    }
}

/* Takes everything back right behind a call. */
static void gone(ms_result code)
{
    take_back();
    assert_int_equal(code, MS_OK);
}

static ms_envelope *lent_message(const char *text)
{
    ms_envelope m = ms_user_message(ms_text_n(lend(text)));
    m.agent_key = lend("agent");
    m.turn_id = lend("turn");
    m.id = lend("id");
    m.extra = lend("{\"more\":1}");
    return LEND(ms_envelope, m);
}

typedef struct life {
    test_store s;
    ms_store *store;
    ms_arena arena;
} life;

static life life_begin(void **state)
{
    life l;
    memset(&l, 0, sizeof l);
    l.s = store_open((const store_kind *)*state, NULL);
    l.store = l.s.store;
    return l;
}

static void life_end(life *l)
{
    ms_arena_deinit(&l->arena);
    store_close(&l->s);
}

static void is_text(ms_str text, const char *wanted)
{
    if (!ms_str_equal(text, ms_str_of(wanted)))
        fail_msg("'%.*s', not '%s'", (int)text.len, text.ptr, wanted);
}

static void content_is(life *l, uint64_t seq, const char *wanted)
{
    const ms_msg *msg;
    assert_int_equal(ms_get_by_seq(l->store, seq, &l->arena, &msg, NULL), MS_OK);
    is_text(ms_content(msg).text, wanted);
    is_text(ms_get(msg, MS_F_LOCATION).text, "job");
}

static uint64_t append(life *l, const char *text)
{
    uint64_t seq;
    gone(ms_append(l->store, lend("job"), lent_message(text), &seq, NULL));
    return seq;
}

TEST_WITH(ON_EVERY_STORE, appends_keep_nothing_of_their_arguments)
{
    life l = life_begin(state);
    uint64_t seq = append(&l, "one"), seqs[2];
    const ms_msg *msg;
    content_is(&l, seq, "one");
    assert_int_equal(ms_get_by_seq(l.store, seq, &l.arena, &msg, NULL), MS_OK);
    is_text(ms_get(msg, MS_F_AGENT_KEY).text, "agent");
    is_text(ms_get(msg, MS_F_TURN_ID).text, "turn");
    is_text(ms_get(msg, MS_F_EXTRA).text, "{\"more\":1}");
    ms_envelope two[2];
    ms_append_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.location = lend("job");
    opts.seqs = seqs;
    two[0] = *lent_message("two");
    two[1] = *lent_message("three");
    two[0].key = lend("k");
    const ms_envelope *all = (const ms_envelope *)lend_bytes(two, sizeof two);
    gone(ms_append_batch(l.store, all, 2, LEND(ms_append_opts, opts), NULL));
    content_is(&l, seqs[0], "two");
    content_is(&l, seqs[1], "three");
    two[0] = *lent_message("two");
    two[0].key = lend("k");
    gone(ms_append(l.store, lend("job"), &two[0], &seq, NULL)); /* a retry */
    assert_int_equal(seq, seqs[0]);
    life_end(&l);
}

TEST_WITH(ON_EVERY_STORE, changes_keep_nothing_of_their_arguments)
{
    life l = life_begin(state);
    ms_str facts;
    ms_usage usage;
    uint64_t seq = append(&l, "one"), other = append(&l, "two"), hidden;
    memset(&usage, 0, sizeof usage);
    usage.input_tokens = 3;
    gone(ms_amend(l.store, seq, lent_message("better"), NULL));
    content_is(&l, seq, "better");
    gone(ms_note(l.store, seq, lend("score"), ms_text_n(lend("good")), NULL));
    gone(ms_note_usage(l.store, seq, LEND(ms_usage, usage), NULL));
    gone(ms_location_set(l.store, lend("job"), lend("{\"title\":\"t\"}"), NULL));
    gone(ms_location_get(l.store, lend("job"), &l.arena, &facts, NULL));
    is_text(facts, "{\"title\":\"t\"}");
    gone(ms_fork(l.store, lend("job"), other, lend("branch"), NULL, NULL));
    gone(ms_location_get(l.store, lend("branch"), &l.arena, &facts, NULL));
    assert_non_null(strstr(facts.ptr, "\"parent\":\"job\""));
    gone(ms_hide_range(l.store, lend("job"), other, other, &hidden, NULL));
    assert_int_equal(hidden, 1);
    gone(ms_rewind(l.store, lend("job"), seq, &hidden, NULL));
    ms_list_query names;
    ms_listing listing;
    memset(&names, 0, sizeof names);
    names.prefix = lend("b");
    gone(ms_list(l.store, LEND(ms_list_query, names), &l.arena, &listing, NULL));
    assert_int_equal(listing.count, 1);
    is_text(listing.items[0].location, "branch");
    life_end(&l);
}

TEST_WITH(ON_EVERY_STORE, streams_keep_nothing_of_their_arguments)
{
    life l = life_begin(state);
    ms_stream stream;
    ms_stream_opts opts;
    ms_stream_text text;
    memset(&opts, 0, sizeof opts);
    opts.flush_chars = 1000;
    opts.flush_ms = 1000000;
    ms_envelope m = ms_assistant_message(ms_text_n(lend("so ")));
    m.agent_key = lend("agent");
    gone(ms_stream_begin(&stream, l.store, lend("job"), LEND(ms_envelope, m),
                         LEND(ms_stream_opts, opts), NULL));
    uint64_t seq = stream.seq;
    gone(ms_stream_feed(&stream, lend("it \xE2\x82"), NULL));
    gone(ms_stream_feed(&stream, lend("\xAC is"), NULL)); /* collected */
    gone(ms_stream_feed(&stream, ms_str_n(NULL, 0), NULL));
    gone(ms_stream_read(l.store, seq, 0, &l.arena, &text, NULL));
    is_text(text.text, "so it \xE2\x82\xAC is");
    gone(ms_stream_end(&stream, NULL, NULL, NULL));
    content_is(&l, seq, "so it \xE2\x82\xAC is");
    life_end(&l);
}

/* The description of an answer, its profile and their texts. */
TEST_WITH(ON_EVERY_STORE, answers_keep_nothing_of_their_arguments)
{
    static ms_answer_stream a;
    life l = life_begin(state);
    for (int whole = 0; whole < 2; whole++) {
        ms_request_desc desc;
        ms_answered out;
        ms_profile profile = *ms_profile_find(MS_STR("openai"));
        memset(&desc, 0, sizeof desc);
        profile.name = (const char *)lend_bytes(profile.name, strlen(profile.name));
        desc.profile = LEND(ms_profile, profile);
        desc.store = l.store;
        desc.location = lend("job");
        desc.turn_id = lend("turn");
        desc.opts.agent_key = lend("agent");
        desc.opts.model = lend("model");
        const ms_request_desc *given = LEND(ms_request_desc, desc);
        if (whole) {
            gone(ms_answer(given, lend("{\"choices\":[{\"message\":{\"content\":\"hi\"},"
                                       "\"finish_reason\":\"stop\"}]}"), &out, NULL));
        } else {
            gone(ms_answer_begin(&a, given, NULL));
            gone(ms_answer_feed(&a, lend("data: {\"choices\":[{\"delta\":{\"content\":"),
                                NULL));
            gone(ms_answer_feed(&a, lend("\"hi\"}}]}\n\ndata: {\"choices\":[{\"delta\":{},"
                                         "\"finish_reason\":\"stop\"}]}\n\n"), NULL));
            gone(ms_answer_end(&a, &out, NULL));
        }
        const ms_msg *msg;
        content_is(&l, out.first_seq, "hi");
        assert_int_equal(ms_get_by_seq(l.store, out.first_seq, &l.arena, &msg, NULL),
                         MS_OK);
        is_text(ms_get(msg, MS_F_AGENT_KEY).text, "agent");
        is_text(ms_get(msg, MS_F_TURN_ID).text, "turn");
    }
    life_end(&l);
}

/* The structs are copied; what they point to outlives the cursor, as their comments say. */
TEST_WITH(ON_EVERY_STORE, cursors_keep_no_struct)
{
    life l = life_begin(state);
    ms_str job = MS_STR("job"), agent = MS_STR("agent");
    for (int i = 0; i < 300; i++) append(&l, "one");
    ms_query q;
    ms_cursor it;
    size_t n = 0;
    memset(&q, 0, sizeof q);
    q.location = job;
    q.turn_id = MS_STR("turn");
    q.views = MS_VIEW_CONVERSATION | MS_VIEW_AGENT;
    q.agent_key = agent;
    gone(ms_query_open(l.store, LEND(ms_query, q), &it, NULL));
    memset(&q, 'Z', sizeof q);
    while (ms_next(&it)) n++;
    gone(ms_cursor_close(&it, NULL));
    assert_int_equal(n, 300);
    ms_find_query find;
    ms_finder finder;
    ms_found found;
    memset(&find, 0, sizeof find);
    find.query.location = job;
    find.text = MS_STR("one");
    gone(ms_find_open(l.store, LEND(ms_find_query, find), &finder, NULL));
    for (n = 0; ms_find_next(&finder, &found);) n++;
    gone(ms_find_close(&finder, NULL));
    assert_int_equal(n, 300);
    ms_store *stores[1] = {l.store}, *both;
    ms_union_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.stores = (ms_store *const *)lend_bytes(stores, sizeof stores);
    desc.n_stores = 1;
    gone(ms_union_open(&both, LEND(ms_union_desc, desc), NULL));
    memset(&q, 0, sizeof q);
    q.location = job;
    gone(ms_query_open(both, LEND(ms_query, q), &it, NULL));
    for (n = 0; ms_next(&it);) n++;
    gone(ms_cursor_close(&it, NULL));
    assert_int_equal(n, 300);
    ms_close(both);
    life_end(&l);
}

TEST_WITH(ON_EVERY_STORE, memories_sessions_and_tasks_keep_no_message)
{
    life l = life_begin(state);
    ms_memory me;
    ms_session session;
    ms_envelopes rows;
    uint64_t seq;
    const ms_msg *msg;
    ms_memory_init(&me, l.store, MS_STR("job"), MS_STR("agent"));
    me.runtime_mode = MS_RUNTIME_STORE;
    gone(ms_memory_add(&me, lent_message("one"), &seq, NULL));
    content_is(&l, seq, "one");
    ms_task_change change;
    memset(&change, 0, sizeof change);
    change.content = lent_message("new");
    gone(ms_task_update(l.store, lend("job"), lend("id"), LEND(ms_task_change, change),
                        &l.arena, &msg, NULL));
    gone(ms_task_get(l.store, lend("job"), lend("id"), &l.arena, &msg, NULL));
    is_text(ms_content(msg).text, "new");
    gone(ms_session_init(&session, l.store, lend("user"), lend("chat"), &l.arena, NULL));
    ms_envelope row = ms_message(MS_T_TEXT, ms_text_n(lend("row")));
    row.role = MS_ROLE_USER;
    gone(ms_session_store(&session, LEND(ms_envelope, row), 1, &l.arena, NULL));
    gone(ms_session_load(&session, NULL, &l.arena, &rows, NULL));
    assert_int_equal(rows.count, 1);
    is_text(rows.items[0].content.text, "row");
    life_end(&l);
}

/* A store of each kind, opened from a description that is gone; a selection of a copy. */
TEST(openings_and_copies_keep_nothing_of_their_arguments)
{
    ms_store *store, *copy;
    ms_mem_desc desc;
    ms_keep keep;
    ms_copy_report report;
    ms_envelope out;
    ms_arena arena;
    test_arena_init(&arena, NULL);
    memset(&desc, 0, sizeof desc);
    gone(ms_mem_open(&store, LEND(ms_mem_desc, desc), NULL));
    gone(ms_mem_open(&copy, LEND(ms_mem_desc, desc), NULL));
    gone(ms_append(store, lend("job"), lent_message("one"), NULL, NULL));
    ms_str places[1] = {lend("job")};
    memset(&keep, 0, sizeof keep);
    keep.locations = (const ms_str *)lend_bytes(places, sizeof places);
    keep.n_locations = 1;
    gone(ms_copy(copy, store, LEND(ms_keep, keep), NULL, &report, NULL));
    assert_int_equal(report.copied, 1);
    gone(ms_envelope_copy(lent_message("one"), &arena, &out));
    is_text(out.content.text, "one");
    is_text(out.agent_key, "agent");
    const ms_msg *msg;
    gone(ms_encode(lent_message("one"), &arena, &msg, NULL));
    is_text(ms_content(msg).text, "one");
    ms_close(store);
    ms_close(copy);
    ms_arena_deinit(&arena);
}

int main(void) { return run_all_tests(NULL, NULL); }
