/* Memory that ends, records that are damaged and stores that are closed, for everything
 * above the stores: tasks, sessions, changes, copies, usage, histories, listings.
 *
 * Each operation is run on an arena store made for it, with an arena of 0, 16, 32, ...
 * bytes until that is enough; with each allocation of the arena, and of the store, failing
 * alone and with all after it; with each record damaged in turn; without an arena; and on
 * a store that is closed. It may succeed, or say what is wrong; then everything is given
 * back, the store is whole, and where it failed for memory it succeeds with memory.
 *
 * Left out: what the operations answer when nothing is wrong (the tests named after them),
 * and log files (test_branches, test_full).
 */

#include "support.h"

enum { MESSAGES = 24, SESSION_ROW = MESSAGES + 2 };

typedef struct scene {
    test_alloc heap;          /* of the store */
    test_alloc other;         /* of the arena */
    ms_store *store;
    ms_arena *arena;          /* NULL: none is given */
} scene;

static const char rows_json[] =
    "[{\"role\":\"user\",\"content\":\"hello\"},"
    "{\"role\":\"assistant\",\"content\":\"a long answer, a long answer, a long answer\"},"
    "{\"role\":\"user\",\"content\":\"and then?\"}]";


/* ---- what is in the store ---- */

static ms_result session_of(ms_store *store, ms_arena *arena, ms_session *session)
{
    return ms_session_init(session, store, MS_STR("ann"), MS_STR("one"), arena, NULL);
}

/* The session's rows are stored. */
static ms_result store_rows(ms_store *store, ms_arena *arena)
{
    ms_session session;
    ms_envelopes rows;
    ms_result code = session_of(store, arena, &session);
    if (code == MS_OK)
        code = ms_read_list(ms_dialect_find(MS_STR("session")), ms_str_of(rows_json),
                            NULL, arena, &rows, NULL);
    if (code == MS_OK)
        code = ms_session_store(&session, rows.items, rows.count, arena, NULL);
    return code;
}

static void fill(ms_store *store)
{
    static const ms_type types[] = {MS_T_USER_MESSAGE, MS_T_ASSISTANT_MESSAGE,
                                    MS_T_REASONING, MS_T_GLOBAL_OBSERVATION};
    uint64_t seq = 0;
    for (size_t i = 0; i < MESSAGES; i++) {
        ms_envelope m;
        char id[24];
        memset(&m, 0, sizeof m);
        m.type = types[i % 4];
        m.content = ms_text("some words of a message that is not very long");
        m.agent_key = i % 3 ? MS_STR("worker") : MS_STR("helper");
        m.has_time = i % 5 != 0;
        m.time_ns = SECONDS(1000.0 + (double)(i * 7 % 11));
        snprintf(id, sizeof id, "id-%u", (unsigned)i);
        m.id = ms_str_of(id);
        assert_int_equal(
            ms_append(store, i % 2 ? MS_STR("task") : MS_STR("room"), &m, &seq, NULL),
            MS_OK);
    }
    ms_envelope better = ms_user_message(ms_text("better words"));
    assert_int_equal(ms_amend(store, 1, &better, NULL), MS_OK);
    assert_int_equal(ms_hide(store, 3, NULL), MS_OK);
    assert_int_equal(ms_note(store, 2, MS_STR("rating"), ms_text("5"), NULL), MS_OK);
    ms_usage usage;
    memset(&usage, 0, sizeof usage);
    usage.input_tokens = 12;
    assert_int_equal(ms_note_usage(store, 2, &usage, NULL), MS_OK);
    assert_int_equal(
        ms_location_set(store, MS_STR("room"), MS_STR("{\"title\":\"A\"}"), NULL), MS_OK);
    ms_arena arena;
    test_arena_init(&arena, NULL);
    assert_int_equal(store_rows(store, &arena), MS_OK);
    ms_stream stream;
    ms_envelope begun = ms_assistant_message(ms_text("beg"));
    begun.agent_key = MS_STR("worker");
    assert_int_equal(ms_stream_begin(&stream, store, MS_STR("room"), &begun, NULL, NULL),
                     MS_OK);
    assert_int_equal(ms_stream_feed(&stream, MS_STR("un \"text\""), NULL), MS_OK);
    assert_int_equal(test_stream_flush(&stream, NULL), MS_OK);
    ms_arena_deinit(&arena);
}

/* The number of the message that is being written. */
static uint64_t unfinished(ms_store *store)
{
    ms_stat stat;
    return ms_store_stat(store, &stat, NULL) == MS_OK ? stat.last_seq : 1;
}


/* ---- the operations ---- */

static ms_result read_cursor(ms_result code, ms_cursor *it)
{
    while (ms_next(it) != NULL) {}
    ms_result closed = ms_cursor_close(it, NULL);
    return code != MS_OK ? code : closed;
}

static ms_result op_by_time(scene *s)
{
    ms_query q;
    ms_cursor it;
    memset(&q, 0, sizeof q);
    q.by_time = true;
    q.arena = s->arena;
    return read_cursor(ms_query_open(s->store, &q, &it, NULL), &it);
}

static ms_result op_team(scene *s)
{
    static ms_str team[40];
    ms_query q;
    ms_cursor it;
    for (int i = 0; i < 40; i++) team[i] = i % 2 ? MS_STR("worker") : MS_STR("helper");
    memset(&q, 0, sizeof q);
    q.views = MS_VIEW_TEAM | MS_VIEW_CONVERSATION;
    q.location = MS_STR("room");
    q.agent_keys = team;
    q.n_agent_keys = 40;
    q.arena = s->arena;
    return read_cursor(ms_query_open(s->store, &q, &it, NULL), &it);
}

static ms_result op_unfinished(scene *s)
{
    const ms_msg *msg;
    return ms_get_by_seq(s->store, unfinished(s->store), s->arena, &msg, NULL);
}

static ms_result op_stream_read(scene *s)
{
    ms_stream_text out;
    return ms_stream_read(s->store, unfinished(s->store), 2, s->arena, &out, NULL);
}

static ms_result op_recover(scene *s)
{
    return ms_stream_recover(s->store, unfinished(s->store), s->arena, NULL);
}

static ms_result op_stream(scene *s)
{
    ms_stream stream;
    ms_envelope m;
    memset(&m, 0, sizeof m);
    m.type = MS_T_ACTION;
    m.tool = MS_STR("tool");
    ms_result code = ms_stream_begin(&stream, s->store, MS_STR("room"), &m, NULL, NULL);
    if (code == MS_OK) code = ms_stream_feed(&stream, MS_STR("{\"a\":1}"), NULL);
    if (code == MS_OK) code = ms_stream_end(&stream, NULL, s->arena, NULL);
    return code;
}

static ms_result op_facts(scene *s)
{
    ms_str facts;
    return ms_location_get(s->store, MS_STR("room"), s->arena, &facts, NULL);
}

static ms_result op_fork(scene *s)
{
    return ms_fork(s->store, MS_STR("room"), 5, MS_STR("branch"), s->arena, NULL);
}

static ms_result op_redact(scene *s) { return ms_redact(s->store, 2, NULL); }

static ms_result op_rewind(scene *s)
{
    return ms_rewind(s->store, MS_STR("room"), 5, NULL, NULL);
}

static ms_result op_usage(scene *s)
{
    ms_usage u;
    memset(&u, 0, sizeof u);
    u.output_tokens = 3;
    return ms_note_usage(s->store, 2, &u, NULL);
}

static ms_result op_list(scene *s)
{
    ms_list_query q;
    ms_listing list;
    memset(&q, 0, sizeof q);
    return ms_list(s->store, &q, s->arena, &list, NULL);
}

static ms_result op_list_agents(scene *s)
{
    ms_list_query q;
    ms_listing list;
    memset(&q, 0, sizeof q);
    q.agents = true;
    q.location = MS_STR("room");
    return ms_list(s->store, &q, s->arena, &list, NULL);
}

static ms_result op_copy(scene *s)
{
    ms_store *to;
    ms_mem_desc desc;
    ms_keep keep;
    memset(&desc, 0, sizeof desc);
    desc.alloc = s->heap.alloc;
    ms_result code = ms_mem_open(&to, &desc, NULL);
    if (code != MS_OK) return code;
    memset(&keep, 0, sizeof keep);
    keep.newest = 3;
    code = ms_copy(to, s->store, &keep, s->arena, NULL, NULL);
    ms_close(to);
    return code;
}

static ms_result op_copy_all(scene *s)
{
    ms_store *to;
    ms_mem_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.alloc = s->heap.alloc;
    ms_result code = ms_mem_open(&to, &desc, NULL);
    if (code != MS_OK) return code;
    code = ms_copy(to, s->store, NULL, s->arena, NULL, NULL);
    ms_close(to);
    return code;
}

static ms_result history(scene *s, bool timeline)
{
    static const ms_str team[] = {{"helper", 6}, {"worker", 6}};
    ms_memory memory;
    ms_cursor it;
    ms_memory_init(&memory, s->store, MS_STR("room"), MS_STR("worker"));
    memory.subordinates = team;
    memory.n_subordinates = 2;
    memory.timeline = timeline;
    memory.by_time = memory.team_by_agent = true;
    memory.team_limit = 2;
    memory.scope.kind = timeline ? MS_SCOPE_SINCE_TASK : MS_SCOPE_ALL;
    memory.arena = s->arena;
    return read_cursor(ms_get_history(&memory, &it, NULL), &it);
}

static ms_result op_history(scene *s) { return history(s, false); }
static ms_result op_timeline(scene *s) { return history(s, true); }

static ms_result op_task_get(scene *s)
{
    const ms_msg *msg;
    return ms_task_get(s->store, MS_STR("task"), MS_STR("id-5"), s->arena, &msg, NULL);
}

static ms_result op_task_get_number(scene *s)
{
    const ms_msg *msg;
    ms_result code =
        ms_task_get(s->store, MS_STR("task"), MS_STR("8"), s->arena, &msg, NULL);
    return code == MS_E_NOT_FOUND ? MS_OK : code; /* it has an id that is no number */
}

static ms_result op_task_update(scene *s)
{
    ms_task_change c;
    ms_envelope m = ms_assistant_message(ms_text("other words"));
    const ms_msg *msg;
    memset(&c, 0, sizeof c);
    c.content = &m;
    c.has_updated_at = true;
    c.updated_at_ns = SECONDS(1);
    return ms_task_update(s->store, MS_STR("task"), MS_STR("id-5"), &c, s->arena, &msg,
                          NULL);
}

static ms_result op_session_store(scene *s) { return store_rows(s->store, s->arena); }

static ms_result op_session_load(scene *s)
{
    ms_session session;
    ms_session_load_opts opts;
    ms_envelopes out;
    memset(&opts, 0, sizeof opts);
    opts.compress_on_load = true;
    opts.shorten.keep = 4;
    ms_result code = session_of(s->store, s->arena, &session);
    if (code != MS_OK) return code;
    return ms_session_load(&session, &opts, s->arena, &out, NULL);
}

static ms_result op_session_newest(scene *s)
{
    ms_session session;
    ms_session_load_opts opts;
    ms_envelopes out;
    memset(&opts, 0, sizeof opts);
    opts.newest = 2;
    ms_result code = session_of(s->store, s->arena, &session);
    if (code != MS_OK) return code;
    return ms_session_load(&session, &opts, s->arena, &out, NULL);
}

static ms_result op_session_lookup(scene *s)
{
    const ms_msg *msg;
    char key[MS_ENTITY_KEY_MAX];
    size_t n = test_entity_key(MS_STR("one"), SESSION_ROW, key);
    return ms_session_lookup(s->store, MS_STR("ann"), ms_str_n(key, n), s->arena, &msg,
                             NULL);
}

static ms_result op_session_list(scene *s)
{
    ms_listing list;
    return ms_session_list(s->store, MS_STR("ann"), 5, s->arena, &list, NULL);
}

static ms_result op_append(scene *s)
{
    ms_envelope m = ms_user_message(ms_text("more"));
    m.key = MS_STR("a key");
    m.agent_key = MS_STR("a new one");
    return ms_append(s->store, MS_STR("a new place"), &m, NULL, NULL);
}

static ms_result op_selfcheck(scene *s) { return ms_selfcheck(s->store, NULL); }

typedef struct operation {
    const char *name;
    ms_result (*run)(scene *s);
} operation;

#define OP(name) {#name, op_##name}
static const operation operations[] = {
    OP(by_time),        OP(team),           OP(unfinished),     OP(stream_read),
    OP(recover),        OP(stream),         OP(facts),          OP(fork),
    OP(redact),         OP(rewind),         OP(usage),          OP(list),
    OP(list_agents),    OP(copy),           OP(copy_all),       OP(history),
    OP(timeline),       OP(task_get),       OP(task_get_number), OP(task_update),
    OP(session_store),  OP(session_load),   OP(session_newest), OP(session_lookup),
    OP(session_list),   OP(append),         OP(selfcheck),
};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };


/* ---- the walks ---- */

/* The scene stays where it is: its allocators point to themselves. */
static void open_scene(scene *s)
{
    ms_mem_desc desc;
    memset(s, 0, sizeof *s);
    test_alloc_init(&s->heap);
    test_alloc_init(&s->other);
    memset(&desc, 0, sizeof desc);
    desc.alloc = s->heap.alloc;
    assert_int_equal(ms_mem_open(&s->store, &desc, NULL), MS_OK);
    fill(s->store);
}

static void close_scene(scene *s)
{
    s->heap.fail_at = 0;
    assert_int_equal(ms_selfcheck(s->store, NULL), MS_OK);
    ms_close(s->store);
    test_alloc_done(&s->heap);
    test_alloc_done(&s->other);
}

static bool is_memory(ms_result code)
{
    return code == MS_E_NO_MEMORY || code == MS_E_ARENA;
}

static unsigned starved;

/* An arena of `size` bytes; false: that is enough. */
static bool small_arena(const operation *op, size_t size)
{
    static union {
        uint64_t align[2];
        char bytes[1 << 18];
    } room;
    scene s;
    ms_arena arena;
    open_scene(&s);
    test_arena_init_fixed(&arena, room.bytes, size);
    s.arena = &arena;
    ms_result code = op->run(&s);
    if (code != MS_OK && !is_memory(code))
        fail_msg("%s in %zu bytes: %s", op->name, size, ms_result_text(code));
    close_scene(&s);
    starved += code != MS_OK;
    return code != MS_OK && size + 16 < sizeof room.bytes;
}

static void an_arena_that_is_too_small_is_said(void **state)
{
    (void)state;
    for (size_t i = 0; i < OPERATIONS; i++) {
        size_t size = 16;
        while (small_arena(&operations[i], size))
            size += size < 1024 ? 16 : size / 32 & ~(size_t)15;
        if (size > 1 << 17) fail_msg("%s never has enough", operations[i].name);
    }
}

/* The k-th allocation fails, of the arena or of the store; false: there is none. */
static bool failing(const operation *op, size_t k, bool of_store, bool from)
{
    scene s;
    ms_arena arena;
    open_scene(&s);
    test_arena_init(&arena, &s.other.alloc);
    s.arena = &arena;
    test_alloc *a = of_store ? &s.heap : &s.other;
    a->calls = a->failed = 0;
    a->fail_at = k;
    a->fail_from = from;
    ms_result code = op->run(&s);
    bool made = a->failed > 0;
    a->fail_at = 0;
    if (code != MS_OK && !(made && is_memory(code)))
        fail_msg("%s, allocation %zu: %s", op->name, k, ms_result_text(code));
    ms_arena_deinit(&arena);
    close_scene(&s);
    starved += made;
    return made;
}

static void each_allocation_fails(void **state)
{
    (void)state;
    for (size_t i = 0; i < OPERATIONS; i++)
        for (int of_store = 0; of_store < 2; of_store++)
            for (size_t k = 1; failing(&operations[i], k, of_store != 0, k % 2 == 0);
                 k++) {
            }
}

/* Where the records of a store lie. */
static size_t records_of(ms_store *store, unsigned char **at, size_t most)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    size_t n = 0;
    memset(&q, 0, sizeof q);
    q.raw = MS_RAW_ALL;
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while (n < most && (msg = ms_next(&it)) != NULL)
        at[n++] = (unsigned char *)(uintptr_t)(const void *)msg;
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    return n;
}

static void each_damaged_record_is_said_or_not_needed(void **state)
{
    (void)state;
    for (size_t i = 0; i < OPERATIONS; i++)
        for (size_t k = 0, n = 1; k < n; k++) {
            unsigned char *at[100];
            scene s;
            ms_arena arena;
            open_scene(&s);
            n = records_of(s.store, at, 100);
            test_arena_init(&arena, &s.other.alloc);
            s.arena = &arena;
            at[k][40] ^= 1;
            ms_result code = operations[i].run(&s);
            if (code != MS_OK && code != MS_E_DAMAGED && code != MS_E_NOT_FOUND &&
                code != MS_E_HIDDEN && code != MS_E_CLOSED)
                fail_msg("%s, record %zu: %s", operations[i].name, k,
                         ms_result_text(code));
            ms_arena_deinit(&arena);
            ms_close(s.store);
            test_alloc_done(&s.heap);
            test_alloc_done(&s.other);
        }
}

/* A record of each kind with valid checks is what it is; a store that is closed, none. */
static void what_is_closed_does_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < OPERATIONS; i++)
        for (int arena_too = 0; arena_too < 2; arena_too++) {
            scene s;
            ms_arena arena;
            ms_store closed;
            memset(&s, 0, sizeof s);
            memset(&closed, 0, sizeof closed);
            test_alloc_init(&s.heap);
            test_arena_init(&arena, NULL);
            s.arena = arena_too ? &arena : NULL;
            s.store = &closed;
            if (operations[i].run == op_selfcheck) s.store = NULL;
            assert_int_not_equal(operations[i].run(&s), MS_OK);
            ms_arena_deinit(&arena);
        }
}

static void what_needs_an_arena_says_so(void **state)
{
    (void)state;
    for (size_t i = 0; i < OPERATIONS; i++) {
        scene s;
        open_scene(&s);
        ms_result code = operations[i].run(&s);
        if (code != MS_OK && !is_memory(code) && code != MS_E_ARGUMENT)
            fail_msg("%s without an arena: %s", operations[i].name, ms_result_text(code));
        close_scene(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_arena_that_is_too_small_is_said),
        cmocka_unit_test(each_allocation_fails),
        cmocka_unit_test(each_damaged_record_is_said_or_not_needed),
        cmocka_unit_test(what_is_closed_does_nothing),
        cmocka_unit_test(what_needs_an_arena_says_so),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    printf("tally: operations that ran out of memory %u\n", starved);
    return failed;
}
