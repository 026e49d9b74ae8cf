/* Bad handles, pointers, options and descriptions: the code, the field or word that the error
 * names, and the store, which is as before. Messages, locations and queries that are refused
 * are in tests/scripts/refused.txt, fields in test_message.
 */

#define _POSIX_C_SOURCE 200809L
#include "stores.h"

/* The code, and a path or a part of the text where the row names one. */
static void must_say(const char *name, ms_result got, ms_result want, const ms_error *err,
                     const char *path, const char *text)
{
    if (got != want)
        fail_msg("%s: %s (%s), not %s", name, ms_result_text(got),
                 got != MS_OK ? err->message : "", ms_result_text(want));
    if (got == MS_OK) return;
    if (err->code != got) fail_msg("%s: the error has another code", name);
    if (err->message[0] == '\0') fail_msg("%s: no message", name);
    if (path != NULL && strcmp(err->path, path) != 0)
        fail_msg("%s: path \"%s\", not \"%s\"", name, err->path, path);
    if (text != NULL && strstr(err->message, text) == NULL)
        fail_msg("%s: \"%s\" does not say \"%s\"", name, err->message, text);
}


/* ---- queries, options of an append ---- */

TEST_WITH(ON_EVERY_STORE, a_bad_query_opens_nothing)
{
    static ms_str many[MS_CURSOR_AGENTS + 1];
    static const struct {
        unsigned views;
        size_t team;
        ms_result want;
        const char *text;
    } rows[] = {{32, 0, MS_E_ARGUMENT, "view"},
                {0x80000001u, 0, MS_E_ARGUMENT, "view"},
                {MS_VIEW_AGENT, 0, MS_E_ARGUMENT, "agent"},
                {MS_VIEW_TEAM, MS_CURSOR_AGENTS + 1, MS_E_ARENA, "arena"}};
    test_store s = store_open((store_kind *)*state, NULL);
    ms_cursor it;
    ms_error err;
    append_text(s.store, "x");
    for (size_t i = 0; i <= MS_CURSOR_AGENTS; i++) many[i] = MS_STR("w1");
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_query q = query_of(MS_STR("job"), rows[i].views);
        q.agent_keys = many;
        q.n_agent_keys = rows[i].team;
        memset(&it, 0xA5, sizeof it);
        ms_result got = ms_query_open(s.store, &q, &it, &err);
        must_say("query", got, rows[i].want, &err, NULL, rows[i].text);
        assert_null(it.store);
        assert_null(ms_next(&it));
        assert_int_equal(ms_cursor_close(&it, NULL), got);
    }
    store_close(&s);
}

/* A type is no set of types, and neither are several types, added or joined. */
TEST_WITH(ON_EVERY_STORE, a_type_is_refused_where_a_set_of_types_is_needed)
{
    test_store s = store_open((store_kind *)*state, NULL);
    append_text(s.store, "x");
    for (int i = 0; i < 3 * MS_TYPE_COUNT * MS_TYPE_COUNT; i++) {
        int way = i % 3, one = i / 3 % MS_TYPE_COUNT, other = i / 3 / MS_TYPE_COUNT;
        ms_query q = query_of(MS_STR("job"), way == 0 ? 0 : MS_VIEW_AGENT);
        ms_cursor it;
        ms_error err;
        if (one == 0 && (other == 0 || way == 1)) continue; /* all; a set of one type */
        q.agent_key = way == 0 ? no_str() : MS_STR("w1");
        if (way == 2) q.agent_types = (ms_type_set)(one | other);
        else q.types = way == 0 ? (ms_type_set)(one + other) : (ms_type_set)one | MS_BIT(other);
        must_say("types", ms_query_open(s.store, &q, &it, &err), MS_E_ARGUMENT, &err,
                 "types", "use MS_BIT(MS_T_...)");
        assert_null(ms_next(&it));
    }
    store_close(&s);
}

/* The error of an arena that is too small, or absent, names it. */
TEST_WITH(ON_EVERY_STORE, an_arena_that_is_too_small_is_reported)
{
    test_store s = store_open((store_kind *)*state, NULL);
    char bytes[16];
    ms_error err;
    append_text(s.store, "x");
    ms_query none = query_of(MS_STR("job"), 0);
    ms_cursor no_arena;
    none.by_time = true;
    must_say("by time", ms_query_open(s.store, &none, &no_arena, &err), MS_E_ARENA, &err,
             "arena", "set query.arena");
    for (size_t size = 0; size <= sizeof bytes; size += 8) {
        ms_arena arena;
        ms_listing listing;
        ms_cursor it;
        ms_query q = query_of(MS_STR("job"), 0);
        test_arena_init_fixed(&arena, bytes, size);
        q.by_time = true;
        q.arena = &arena;
        must_say("by time", ms_query_open(s.store, &q, &it, &err), MS_E_ARENA, &err, NULL,
                 "arena");
        assert_null(ms_next(&it));
        must_say("list", ms_list(s.store, NULL, size != 0 ? &arena : NULL, &listing, &err),
                 MS_E_ARENA, &err, NULL, size != 0 ? NULL : "arena");
        assert_int_equal(listing.count, 0);
    }
    store_close(&s);
}

/* Numbers that were given before, or twice; a key that comes twice with another text. */
TEST_WITH(ON_EVERY_STORE, a_batch_is_refused_when_it_reuses_a_number_or_key)
{
    static const struct {
        uint64_t seqs[2];
        const char *key;
        const char *path;     /* NULL: it is appended */
    } rows[] = {{{6, 6}, NULL, "messages[1].seq"}, {{1, 2}, NULL, "messages[0].seq"},
                {{0, 2}, NULL, "messages[0].seq"}, {{6, 7}, "k", "messages[1].key"},
                {{6, 7}, NULL, NULL}};
    test_store s = store_open((store_kind *)*state, NULL);
    ms_query all = query_of(MS_STR("job"), 0);
    append_text(s.store, "x");
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_envelope two[2] = {ms_user_message(ms_text("x")), ms_user_message(ms_text("y"))};
        const ms_append_opts opts = {.location = MS_STR("job"), .keep_seq = true};
        ms_error err;
        for (int k = 0; k < 2; k++) two[k].seq = rows[i].seqs[k];
        for (int k = 0; k < 2; k++) two[k].key = ms_str_of(rows[i].key);
        ms_result want = rows[i].key != NULL    ? MS_E_KEY_REUSED
                         : rows[i].path != NULL ? MS_E_ARGUMENT
                                                : MS_OK;
        ms_result got = ms_append_batch(s.store, two, 2, &opts, &err);
        must_say("batch", got, want, &err, rows[i].path, NULL);
        assert_int_equal(count_of(s.store, &all), got == MS_OK ? 3 : 1);
    }
    store_close(&s);
}


/* ---- handles and pointers ---- */

static const char *const calls[] = {"append", "append_batch", "query_open", "four views",
                                    "get_by_seq", "store_stat", "list", "sync",
                                    "mem_reset", "selfcheck", "copy to", "copy from"};

/* The four views by their own functions: all return one code, or MS_OK. */
static ms_result call_views(ms_store *store, ms_error *err)
{
    ms_str job = MS_STR("job"), agent = MS_STR("w1");
    ms_cursor it[4];
    ms_result a = ms_get_conversation_messages(store, job, 0, &it[0], NULL);
    ms_result b = ms_get_agent_messages(store, job, agent, 0, &it[1], NULL);
    ms_result c = ms_get_global_messages(store, job, 0, &it[2], NULL);
    ms_result d = ms_get_team_messages(store, job, &agent, 1, 0, &it[3], err);
    return a == d && b == d && c == d ? d : MS_OK;
}

static ms_result call(size_t number, ms_store *store, ms_store *other, ms_error *err)
{
    ms_envelope m = ms_user_message(ms_text("x"));
    ms_query q = query_of(MS_STR("job"), 0);
    ms_cursor it;
    ms_arena arena;
    ms_listing listing;
    ms_stat stat;
    const ms_msg *msg;
    uint64_t seq;
    ms_result code;
    m.location = MS_STR("job");
    switch (number) {
    case 0: return ms_append(store, MS_STR("job"), &m, &seq, err);
    case 1: return ms_append_batch(store, &m, 1, NULL, err);
    case 2:
        memset(&it, 0xA5, sizeof it);
        code = ms_query_open(store, &q, &it, err);
        return ms_next(&it) == NULL ? code : MS_OK;
    case 3: return call_views(store, err);
    case 4: return ms_get_by_seq(store, 1, NULL, &msg, err);
    case 5: return ms_store_stat(store, &stat, err);
    case 6:
        test_arena_init(&arena, NULL);
        code = ms_list(store, NULL, &arena, &listing, err);
        ms_arena_deinit(&arena);
        return code;
    case 7: return ms_sync(store, &seq, err);
    case 8: return ms_mem_reset(store, err);
    case 9: return ms_selfcheck(store, err);
    case 10: return ms_copy(store, other, NULL, NULL, NULL, err);
    default: return ms_copy(other, store, NULL, NULL, NULL, err);
    }
}

TEST(a_handle_that_is_not_open_is_refused)
{
    test_store s = store_open(store_kind_at(2), NULL), other;
    struct ms_store zeroed;
    ms_store *const handles[] = {NULL, &zeroed, s.store};
    other = store_open(store_kind_at(0), NULL);
    memset(&zeroed, 0, sizeof zeroed);
    append_text(s.store, "x");
    ms_close(s.store);
    for (size_t h = 0; h < 3; h++) {
        for (size_t i = 0; i < COUNT(calls); i++) {
            ms_error err;
            memset(&err, 0, sizeof err);
            ms_result got = call(i, handles[h], other.store, &err);
            must_say(calls[i], got, MS_E_CLOSED, &err, NULL, NULL);
            assert_int_equal(call(i, handles[h], other.store, NULL), MS_E_CLOSED);
        }
        assert_null(ms_mem_image(handles[h]).ptr);
        ms_close(handles[h]);
    }
    s.store = NULL;
    store_close(&s);
    store_close(&other);
}

TEST_WITH(ON_EVERY_STORE, pointers_are_checked)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_query q = query_of(MS_STR("job"), MS_VIEW_TEAM);
    ms_cursor it;
    assert_int_equal(ms_append(s.store, MS_STR("job"), NULL, NULL, NULL), MS_E_ARGUMENT);
    assert_int_equal(ms_query_open(s.store, NULL, &it, NULL), MS_E_ARGUMENT);
    q.n_agent_keys = 2;
    assert_int_equal(ms_query_open(s.store, &q, &it, NULL), MS_E_ARGUMENT);
    assert_int_equal(ms_copy(NULL, s.store, NULL, NULL, NULL, NULL), MS_E_CLOSED);
    assert_int_equal(ms_copy(s.store, s.store, NULL, NULL, NULL, NULL), MS_E_ARGUMENT);
    assert_int_equal(ms_cursor_close(NULL, NULL), MS_OK);
    ms_close(NULL);
    assert_int_equal(append_text(s.store, "x"), 1);
    store_close(&s);
}

/* Each call with a description, a list or a handle that is NULL: the code, and what the text
 * names. */
TEST(a_description_that_is_null_is_refused)
{
    static ms_arena arena;
    static ms_cursor it;
    static ms_answer_stream stream;
    static ms_writer writer;
    static ms_compaction c;
    static ms_project_report report;
    test_store s = store_open(store_kind_at(0), NULL);
    ms_str job = MS_STR("job"), summary = MS_STR("s");
    ms_buf buf = {.arena = &arena};
    ms_request_desc d = {.profile = ms_profile_at(0), .store = s.store, .location = job};
    ms_compaction_plan plan;
    ms_session session;
    ms_envelope m = ms_user_message(ms_text("y"));
    ms_envelopes rows;
    ms_answered answered;
    ms_listing listing;
    ms_finder finder;
    ms_calls calls_made;
    ms_memory memory;
    ms_stream text;
    ms_value value;
    ms_store *store;
    const ms_msg *msg;
    uint64_t n = 7;
    ms_error err;
    append_text(s.store, "x");
    c.summary = summary;
    d.opts.model = MS_STR("m");
    ms_memory_init(&memory, s.store, job, MS_STR("w1"));
    assert_int_equal(ms_session_init(&session, s.store, MS_STR("u"), MS_STR("s"), &arena, NULL),
                     MS_OK);
    memset(&plan, 0, sizeof plan);
    memset(&report, 0xA5, sizeof report);
#define REFUSED(call, code, text)                                                        \
    must_say(#call, call, code, &err, NULL, text)
    REFUSED(ms_request(NULL, ms_buf_write, &buf, &report, &err), MS_E_ARGUMENT, "description");
    assert_int_equal(report.read, 0);
    REFUSED(ms_project(NULL, ms_buf_write, &buf, NULL, &err), MS_E_ARGUMENT, "description");
    REFUSED(ms_request(&d, NULL, &buf, NULL, &err), MS_E_ARGUMENT, "function that takes");
    REFUSED(ms_project(&d, NULL, &buf, NULL, &err), MS_E_ARGUMENT, "function that takes");
    REFUSED(ms_pending(NULL, &arena, &calls_made, &err), MS_E_ARGUMENT, "description");
    assert_int_equal(calls_made.count, 0);
    REFUSED(ms_answer(NULL, job, &answered, &err), MS_E_ARGUMENT, "description");
    assert_int_equal(answered.messages, 0);
    REFUSED(ms_answer_begin(&stream, NULL, &err), MS_E_ARGUMENT, "description");
    REFUSED(ms_answer_feed(&stream, job, &err), MS_E_CLOSED, "the answer has ended");
    REFUSED(ms_answer_end(&stream, &answered, &err), MS_E_CLOSED, "the answer has ended");
    REFUSED(ms_answer_feed(NULL, job, &err), MS_E_CLOSED, "the answer has ended");
    REFUSED(ms_answer_end(NULL, &answered, &err), MS_E_CLOSED, "the answer has ended");
    REFUSED(ms_compact_plan(NULL, 1, &plan, &err), MS_E_ARGUMENT, "description");
    REFUSED(ms_compact_request(NULL, &plan, job, ms_buf_write, &buf, &err), MS_E_ARGUMENT,
            "description");
    REFUSED(ms_compact_request(&d, NULL, job, ms_buf_write, &buf, &err), MS_E_ARGUMENT,
            "plan");
    REFUSED(ms_compact(NULL, &c, &n, &err), MS_E_ARGUMENT, "description");
    assert_int_equal(n, 0);
    n = 7;
    REFUSED(ms_compact(&d, NULL, &n, &err), MS_E_ARGUMENT, "compaction");
    assert_int_equal(n, 0);
    REFUSED(ms_parts(NULL, 1, &arena, &value, &err), MS_E_ARGUMENT, "parts");
    assert_null(value.text.ptr);
    REFUSED(ms_append(s.store, job, NULL, NULL, &err), MS_E_ARGUMENT, "envelope");
    REFUSED(ms_append_batch(s.store, NULL, 1, NULL, &err), MS_E_ARGUMENT, "envelope");
    REFUSED(ms_query_open(s.store, NULL, &it, &err), MS_E_ARGUMENT, "query");
    REFUSED(ms_find_open(s.store, NULL, &finder, &err), MS_E_ARGUMENT, "query");
    REFUSED(ms_list(NULL, NULL, &arena, &listing, &err), MS_E_CLOSED, "store");
    REFUSED(ms_get_team_messages(s.store, job, NULL, 1, 0, &it, &err), MS_E_ARGUMENT,
            "agent_keys");
    REFUSED(ms_amend(s.store, 1, NULL, &err), MS_E_ARGUMENT, "envelope");
    REFUSED(ms_get_history(NULL, &it, &err), MS_E_ARGUMENT, "memory");
    REFUSED(ms_memory_add(NULL, NULL, NULL, &err), MS_E_ARGUMENT, "memory");
    REFUSED(ms_memory_add(&memory, NULL, NULL, &err), MS_E_ARGUMENT, "envelope");
    REFUSED(ms_memory_broadcast(NULL, NULL, NULL, &err), MS_E_ARGUMENT, "memory");
    REFUSED(ms_shared_memory_init(&memory, s.store, job, job, NULL, 1, &err), MS_E_ARGUMENT,
            "subordinates");
    REFUSED(ms_stream_begin(&text, s.store, job, NULL, NULL, &err), MS_E_ARGUMENT, "envelope");
    REFUSED(ms_stream_feed(NULL, job, &err), MS_E_CLOSED, "stream");
    REFUSED(ms_stream_end(NULL, NULL, NULL, &err), MS_E_CLOSED, "stream");
    REFUSED(ms_note_usage(s.store, 1, NULL, &err), MS_E_ARGUMENT, "usage");
    REFUSED(ms_read(NULL, job, NULL, &arena, &rows, &err), MS_E_ARGUMENT, "format");
    REFUSED(ms_read_list(NULL, job, NULL, &arena, &rows, &err), MS_E_ARGUMENT, "format");
    ms_writer_init(&writer, NULL, NULL, &arena, ms_buf_write, &buf);
    REFUSED(ms_writer_put(&writer, &m, &err), MS_E_ARGUMENT, "format");
    ms_writer_init(&writer, ms_format_at(0), NULL, &arena, ms_buf_write, &buf);
    REFUSED(ms_writer_put(&writer, NULL, &err), MS_E_ARGUMENT, "message");
    REFUSED(ms_writer_put(NULL, &m, &err), MS_E_CLOSED, "writer");
    REFUSED(ms_writer_finish(NULL, &err), MS_E_CLOSED, "writer");
    for (int i = 0; i < 2; i++) {
        const ms_writer_opts array = {.array = i == 1};
        ms_writer_init(&writer, ms_format_at(0), &array, &arena, NULL, NULL);
        REFUSED(ms_writer_put(&writer, &m, &err), MS_E_ARGUMENT, "function that takes");
        REFUSED(ms_writer_finish(&writer, &err), MS_E_ARGUMENT, "function that takes");
    }
    REFUSED(ms_session_store(NULL, NULL, 0, &arena, &err), MS_E_ARGUMENT, "session");
    REFUSED(ms_session_store(&session, NULL, 1, &arena, &err), MS_E_ARGUMENT, "rows");
    REFUSED(ms_session_load(NULL, NULL, &arena, &rows, &err), MS_E_ARGUMENT, "session");
    REFUSED(ms_task_update(s.store, job, job, NULL, &arena, &msg, &err), MS_E_ARGUMENT,
            "change");
    REFUSED(ms_shorten_message(NULL, NULL, job, &arena, &err), MS_E_ARGUMENT, "message");
    REFUSED(ms_union_open(&store, NULL, &err), MS_E_ARGUMENT, "description");
    REFUSED(ms_mem_attach(&store, NULL, NULL, &err), MS_E_ARGUMENT, "buffer");
    REFUSED(ms_log_open(&store, NULL, &err), MS_E_ARGUMENT, "path");
    REFUSED(ms_log_verify(NULL, NULL, &err), MS_E_ARGUMENT, "path");
    REFUSED(ms_log_rewrite(s.store, NULL, false, NULL, NULL, &err), MS_E_ARGUMENT, "path");
    REFUSED(ms_encode(NULL, &arena, &msg, &err), MS_E_ARGUMENT, "envelope");
    REFUSED(ms_decode(NULL, 8, &msg, &err), MS_E_ARGUMENT, "address");
#undef REFUSED
    assert_int_equal(append_text(s.store, "x"), 2);
    ms_arena_deinit(&arena);
    store_close(&s);
}

/* A memory with a number of subordinates and no list; a broadcast of no type. */
TEST_WITH(ON_EVERY_STORE, a_bad_memory_or_broadcast_is_refused)
{
    static const int types[] = {-1, 0, 25, 36, 64 + MS_T_SYNTHESIS, 100, 1000000};
    test_store s = store_open((store_kind *)*state, NULL);
    ms_envelope m = ms_message(MS_T_GLOBAL_OBSERVATION, ms_text("x"));
    ms_memory memory;
    ms_cursor it;
    ms_error err;
    ms_memory_init(&memory, s.store, MS_STR("job"), MS_STR("w1"));
    for (size_t i = 0; i < COUNT(types); i++) {
        m.type = (ms_type)types[i];
        ms_result got = ms_memory_broadcast(&memory, &m, NULL, &err);
        must_say("broadcast of no type", got, MS_E_TYPE, &err, "type", NULL);
    }
    memory.n_subordinates = 1;
    for (int by_time = 0; by_time < 2; by_time++) {
        memory.by_time = by_time;
        memory.conversation_limit = (size_t)by_time;
        ms_result got = ms_get_history(&memory, &it, &err);
        must_say("no subordinates", got, MS_E_ARGUMENT, &err, NULL, "subordinates");
        assert_null(ms_next(&it));
    }
    assert_int_equal(append_text(s.store, "x"), 1);
    store_close(&s);
}

TEST(a_bad_description_opens_nothing)
{
    static const struct {
        size_t buffer_size, chunk_size;
    } rows[] = {{0, 1}, {0, 100}, {0, 4097}, {0, 5000}, {0, 262143}, {0, SIZE_MAX},
                {0, SIZE_MAX / 2 + 1}, {4096, 0} /* and no buffer */};
    for (size_t i = 0; i < COUNT(rows); i++) {
        const ms_mem_desc desc = {.buffer_size = rows[i].buffer_size,
                                  .chunk_size = rows[i].chunk_size};
        ms_store *store = (ms_store *)(uintptr_t)&desc;
        ms_error err;
        ms_result got = ms_mem_open(&store, &desc, &err);
        must_say("description", got, MS_E_ARGUMENT, &err, NULL,
                 rows[i].chunk_size != 0 ? "chunk_size" : "buffer_size");
        assert_null(store);
    }
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
