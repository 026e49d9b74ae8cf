/* Lifetimes: arguments are copied before a call returns. Each call that takes texts or
 * structs gets them in memory of their own, which is overwritten and freed right behind the
 * call. What is stored and read afterwards must be as it was passed; AddressSanitizer sees
 * who reads the memory again. What must outlive a call by its comment (what the query of a
 * cursor points to, a memory, the stores of a union) does. Rings and flashes are in
 * test_flash.
 */

#define _POSIX_C_SOURCE 200809L
#include "support.h"
#include "scratch.h"
#include "stores.h"
#include "lend.h"

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

/* A memory holds its name space, agent and subordinates; nothing of a message. */
TEST_WITH(ON_EVERY_STORE, shared_memories_keep_no_message)
{
    life l = life_begin(state);
    static const ms_str workers[] = {{"ann", 3}, {"bob", 3}};
    static const ms_type types[] = {MS_T_GLOBAL_OBSERVATION, MS_T_SYNTHESIS,
                                    MS_T_USER_MESSAGE, MS_T_ASSISTANT_MESSAGE};
    ms_memory me;
    ms_cursor it;
    uint64_t seq;
    assert_int_equal(ms_shared_memory_init(&me, l.store, MS_STR("job"), MS_STR("boss"), workers, 2,
                                  NULL), MS_OK);
    for (size_t i = 0; i < COUNT(types); i++) {
        ms_envelope m = *lent_message("for all");
        m.type = types[i];
        m.agent_key = ms_str_n(NULL, 0);
        if (m.type == MS_T_SYNTHESIS) m.from_manager = lend("boss");
        gone(ms_memory_broadcast(&me, LEND(ms_envelope, m), &seq, NULL));
        content_is(&l, seq, "for all");
        gone(ms_memory_add(&me, lent_message("mine"), &seq, NULL));
        content_is(&l, seq, "mine");
    }
    size_t n = 0;
    assert_int_equal(ms_get_history(&me, &it, NULL), MS_OK);
    while (ms_next(&it)) n++;
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    assert_true(n >= 2 * COUNT(types));
    life_end(&l);
}

static ms_request_desc lent_request(life *l, const char *provider)
{
    ms_request_desc desc;
    ms_profile profile = *ms_profile_find(ms_str_of(provider));
    memset(&desc, 0, sizeof desc);
    const char **texts[] = {&profile.name, &profile.images, &profile.start_text,
                            &profile.no_result, &profile.error_text, &profile.bridge_text,
                            &profile.end_text};
    for (size_t i = 0; i < COUNT(texts); i++)
        if (*texts[i]) *texts[i] = (const char *)lend_bytes(*texts[i], strlen(*texts[i]));
    desc.profile = LEND(ms_profile, profile);
    desc.store = l->store;
    desc.location = lend("job");
    desc.opts.agent_key = lend("agent");
    desc.opts.system = lend("be brief");
    desc.opts.model = lend("model");
    desc.extra = lend("{\"max_tokens\":100}");
    desc.arena = &l->arena;
    return desc;
}

/* What they write stays, and so do reports and calls. */
TEST_WITH(ON_EVERY_STORE, requests_keep_nothing_of_their_arguments)
{
    life l = life_begin(state);
    const ms_profile *profile;
    ms_envelope m = *lent_message("go");
    m.agent_key = ms_str_n(NULL, 0);
    gone(ms_append(l.store, lend("job"), &m, NULL, NULL));
    m = ms_action(lend("look"), ms_json(lend("{\"q\":1}")), lend("c1"));
    m.agent_key = lend("agent");
    gone(ms_append(l.store, lend("job"), &m, NULL, NULL));
    for (size_t i = 0; (profile = ms_profile_at(i)) != NULL; i++) {
        bool whole = strcmp(profile->name, "pydantic-ai") != 0;
        ms_buf first, body;
        ms_project_report report;
        ms_calls calls;
        ms_value content;
        memset(&first, 0, sizeof first);
        memset(&body, 0, sizeof body);
        first.arena = body.arena = &l.arena;
        for (int times = 0; times < 2; times++) { /* the first keeps its arguments */
            ms_request_desc desc = lent_request(&l, profile->name);
            ms_buf *out = times == 0 ? &first : &body;
            if (profile->wire == MS_WIRE_BEDROCK) /* calls need tools there */
                desc.tools = lend("[{\"toolSpec\":{\"name\":\"look\","
                                  "\"inputSchema\":{\"json\":{}}}}]");
            const ms_request_desc *given = LEND(ms_request_desc, desc);
            assert_int_equal(ms_project(given, ms_buf_write, out, &report, NULL), MS_OK);
            if (whole)
                assert_int_equal(ms_request(given, ms_buf_write, out, &report, NULL), MS_OK);
            if (times > 0) take_back();
        }
        assert_true(ms_str_equal(ms_buf_text(&body), ms_buf_text(&first)));
        if (whole && report.system.ptr != NULL) is_text(report.system, "be brief");
        ms_request_desc desc = lent_request(&l, profile->name);
        gone(ms_pending(LEND(ms_request_desc, desc), &l.arena, &calls, NULL));
        assert_int_equal(calls.count, 1);
        is_text(calls.items[0].id, "c1");
        is_text(calls.items[0].tool, "look");
        is_text(calls.items[0].args.text, "{\"q\":1}");
        is_text(calls.items[0].agent_key, "agent");
        ms_part part[2];
        memset(part, 0, sizeof part);
        part[0].text = lend("see");
        part[1].bytes = lend("PNG");
        part[1].mime = lend("image/png");
        gone(ms_parts((const ms_part *)lend_bytes(part, sizeof part), 2, &l.arena,
                      &content, NULL));
        assert_true(content.json && ms_json_kind_of(content.text) == MS_JSON_ARRAY);
    }
    life_end(&l);
}

/* Envelopes that were read are views into the JSON, which lives as long as they do.
 * Writers keep copies of what may still be joined. */
TEST(formats_keep_nothing_of_their_arguments)
{
    static const char json[] =
        "[{\"role\":\"user\",\"content\":\"say \\\"hi\\\"\"},{\"role\":\"assistant\","
        "\"content\":\"so\",\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\","
        "\"function\":{\"name\":\"t\",\"arguments\":\"{}\"}}]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"r\"}]";
    const ms_format *format;
    ms_arena arena;
    test_arena_init(&arena, NULL);
    for (size_t i = 0; (format = ms_format_at(i)) != NULL; i++) {
        ms_buf first, text;
        memset(&first, 0, sizeof first);
        memset(&text, 0, sizeof text);
        first.arena = text.arena = &arena;
        for (int times = 0; times < 2; times++) {
            ms_read_opts opts;
            ms_writer_opts how;
            ms_envelopes out;
            ms_writer writer;
            memset(&opts, 0, sizeof opts);
            memset(&how, 0, sizeof how);
            how.array = true;
            gone(ms_read_list(ms_format_find(MS_STR("openai")), ms_str_of(json),
                              LEND(ms_read_opts, opts), &arena, &out, NULL));
            ms_writer_init(&writer, format, LEND(ms_writer_opts, how), &arena, ms_buf_write,
                           times == 0 ? &first : &text);
            take_back();
            for (size_t k = 0; k < out.count; k++) {
                ms_envelope m = out.items[k];
                ms_str *const texts[] = {&m.content.text, &m.args.text, &m.call_id, &m.tool,
                                         &m.extra, &m.source};
                for (unsigned f = 0; times > 0 && f < COUNT(texts); f++)
                    if (texts[f]->ptr != NULL)
                        texts[f]->ptr =
                            (const char *)lend_bytes(texts[f]->ptr, texts[f]->len);
                ms_result code = ms_writer_put(&writer, LEND(ms_envelope, m), NULL);
                take_back();
                assert_true(code == MS_OK || code == MS_E_TYPE || code == MS_E_MISSING);
            }
            assert_int_equal(ms_writer_finish(&writer, NULL), MS_OK);
        }
        assert_true(ms_str_equal(ms_buf_text(&text), ms_buf_text(&first)));
    }
    ms_arena_deinit(&arena);
}

TEST(json_is_written_from_texts_that_are_gone)
{
    ms_arena arena;
    ms_buf buf;
    ms_json_writer w;
    ms_str text;
    test_arena_init(&arena, NULL);
    memset(&buf, 0, sizeof buf);
    buf.arena = &arena;
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    ms_json_key(&w, lend("name"));
    take_back();
    ms_json_put_string(&w, lend("a \"text\""));
    take_back();
    ms_json_key(&w, lend("list"));
    take_back();
    ms_json_put_raw(&w, lend("[1, {\"b\" : null}]"));
    take_back();
    ms_json_end(&w);
    assert_int_equal(ms_json_finish(&w), MS_OK);
    is_text(ms_buf_text(&buf), "{\"name\":\"a \\\"text\\\"\",\"list\":[1,{\"b\":null}]}");
    gone(ms_json_string(lend("\"one\\ntwo\""), &arena, &text)); /* decoded: a copy */
    is_text(text, "one\ntwo");
    gone(ms_buf_write(&buf, lend("end").ptr, 3));
    ms_shorten_opts opts;
    memset(&opts, 0, sizeof opts);
    ms_envelope m = *lent_message("short");
    m.type = MS_T_ASSISTANT_MESSAGE;
    gone(ms_shorten_message(&m, LEND(ms_shorten_opts, opts), lend("key"), &arena, NULL));
    ms_arena_deinit(&arena);
}

/* Both forms, and the logs that they open. What a rewrite in steps points to lives until
 * its end. */
TEST(rewrites_keep_nothing_of_their_arguments)
{
    static const store_options none;
    test_store s;
    ms_store *fresh;
    ms_log_report report;
    uint64_t seq;
    memset(&s, 0, sizeof s);
    log_describe(&s, &none, MS_ENGINE_AUTO, 0);
    for (int steps = 0; steps < 2; steps++) {
        ms_log_desc desc = s.log;
        desc.path = lend(s.path).ptr;
        gone(ms_log_open(&s.store, LEND(ms_log_desc, desc), NULL));
        gone(ms_append(s.store, lend("job"), lent_message("one"), &seq, NULL));
        gone(ms_append(s.store, lend("other"), lent_message("two"), NULL, NULL));
        gone(ms_sync(s.store, NULL, NULL));
        ms_keep keep;
        ms_copy_report copied;
        ms_str places[1] = {lend("job")};
        memset(&keep, 0, sizeof keep);
        keep.locations = (const ms_str *)lend_bytes(places, sizeof places);
        keep.n_locations = 1;
        desc.path = lend(s.path).ptr;
        if (steps) {
            ms_rewrite run;
            bool more = true;
            memset(&run, 0, sizeof run);
            run.source = s.store;
            run.to = LEND(ms_log_desc, desc);
            run.replace = true;
            run.keep = LEND(ms_keep, keep);
            while (more) assert_int_equal(ms_rewrite_run(&run, 0, &more, NULL), MS_OK);
            gone(ms_rewrite_end(&run, &fresh, NULL));
            ms_close(s.store);
            s.store = fresh;
            gone(ms_append(s.store, lend("job"), lent_message("three"), &seq, NULL));
            gone(ms_sync(s.store, NULL, NULL));
            ms_close(s.store);
        } else {
            gone(ms_log_rewrite(s.store, LEND(ms_log_desc, desc), true,
                                LEND(ms_keep, keep), &copied, NULL));
            assert_int_equal(copied.copied, 1);
            ms_close(s.store);
        }
        desc.path = lend(s.path).ptr;
        gone(ms_log_verify(LEND(ms_log_desc, desc), &report, NULL));
    }
    assert_int_equal(ms_log_open(&s.store, &s.log, NULL), MS_OK);
    ms_stat stat;
    assert_int_equal(ms_store_stat(s.store, &stat, NULL), MS_OK);
    assert_int_equal(stat.messages, 3);
    store_close(&s);
}

int main(void) { return run_all_tests(NULL, NULL); }
