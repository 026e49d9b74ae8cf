/* An ms_error is written only on failure: every public call that takes one, and that
 * succeeds, leaves it as it was. Among them calls that pass over a failure inside: copies
 * that leave notes out, keys of two stores, damage that does not matter, a ring that
 * drops. A failure has a text with what was found and what was expected, and the path of
 * the field: here each is compared as a whole.
 */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#define MSGSTORE_RING
#include "stores.h"
#include "os_faults.h"
#include "own_store.h"
#include "scratch.h"
#include "arena.h"

#define L MS_STR("l")

static ms_error err, untouched;

/* The call succeeds, and err is as it was. */
static void silent(ms_result code, const char *call)
{
    if (code != MS_OK) fail_msg("%s: %s: %s", call, ms_result_text(code), err.message);
    if (memcmp(&err, &untouched, sizeof err) != 0)
        fail_msg("%s returned MS_OK, and wrote its error: %s", call, err.message);
}

#define SILENT(call) silent(call, #call)

static int begin(void **state)
{
    memset(&untouched, 0x5A, sizeof untouched);
    err = untouched;
    return reset(state);
}

static uint64_t add(ms_store *store, ms_envelope m)
{
    uint64_t seq = 0;
    SILENT(ms_append(store, L, &m, &seq, &err));
    return seq;
}

static void all_read(ms_cursor *it)
{
    while (ms_next(it) != NULL) continue;
    SILENT(ms_cursor_close(it, &err));
}

TEST_WITH(ON_EVERY_STORE, error_stays_as_it_was_when_a_call_of_a_store_succeeds)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_store *store = s.store;
    ms_envelope m = ms_user_message(ms_text("x")), pair[2] = {m, m};
    ms_append_opts opts = {.location = L};
    ms_query q = {.location = L, .arena = &arena};
    ms_list_query lq = {.limit = 0};
    ms_find_query fq = {.text = MS_STR("x")};
    ms_str team[2] = {MS_STR("a"), MS_STR("b")}, facts;
    ms_usage usage = {.input_tokens = 1};
    ms_stream stream;
    ms_stream_text text;
    ms_listing list;
    ms_finder finder;
    ms_found found;
    ms_memory memory;
    ms_cursor it;
    ms_stat stat;
    const ms_msg *msg;
    uint64_t n, a = add(store, m), b = add(store, m);
    SILENT(ms_append_batch(store, pair, 2, &opts, &err));
    opts.expect = true;
    opts.expect_seq = b + 2;
    SILENT(ms_append_batch(store, pair, 0, &opts, &err));
    SILENT(ms_query_open(store, &q, &it, &err));
    all_read(&it);
    SILENT(ms_get_conversation_messages(store, L, 1, &it, &err));
    all_read(&it);
    SILENT(ms_get_agent_messages(store, L, team[0], 1, &it, &err));
    all_read(&it);
    SILENT(ms_get_global_messages(store, L, 1, &it, &err));
    all_read(&it);
    SILENT(ms_get_team_messages(store, L, team, 2, 1, &it, &err));
    all_read(&it);
    SILENT(ms_get_by_seq(store, a, &arena, &msg, &err));
    SILENT(ms_list(store, &lq, &arena, &list, &err));
    SILENT(ms_store_stat(store, &stat, &err));
    SILENT(ms_sync(store, &n, &err));
    SILENT(ms_tick(store, 100, &err));
    SILENT(ms_wait(store, 0, 0, &n, &err));
    SILENT(ms_find_open(store, &fq, &finder, &err));
    while (ms_find_next(&finder, &found)) continue;
    SILENT(ms_find_close(&finder, &err));
    SILENT(ms_amend(store, a, &m, &err));
    SILENT(ms_note(store, a, MS_STR("k"), ms_text("v"), &err));
    SILENT(ms_note_usage(store, a, &usage, &err));
    SILENT(ms_location_set(store, L, MS_STR("{\"a\":1}"), &err));
    SILENT(ms_location_get(store, L, &arena, &facts, &err));
    SILENT(ms_fork(store, L, a, MS_STR("fork"), &arena, &err));
    for (int repeated = 0; repeated < 2; repeated++) {
        ms_envelope t = m;
        t.key = MS_STR("stream");
        SILENT(ms_stream_begin(&stream, store, L, &t, NULL, &err));
        SILENT(ms_stream_feed(&stream, MS_STR("y"), &err));
        SILENT(ms_stream_feed(&stream, ms_str_of(NULL), &err));
        SILENT(ms_stream_read(store, stream.seq, 0, &arena, &text, &err));
        SILENT(ms_stream_follow(store, stream.seq, &arena, &text, &err));
    }
    SILENT(ms_stream_end(&stream, NULL, NULL, &err));
    SILENT(ms_stream_begin(&stream, store, L, &m, NULL, &err));
    SILENT(ms_stream_recover(store, stream.seq, NULL, &err));
    SILENT(ms_hide(store, b, &err));
    if (!s.kind->remote) SILENT(ms_redact(store, b, &err)); /* hidden: once more */
    if (!s.kind->remote) SILENT(ms_redact(store, a, &err));
    SILENT(ms_hide_range(store, L, 1, 1, &n, &err));
    SILENT(ms_rewind(store, L, 0, &n, &err));
    SILENT(ms_shared_memory_init(&memory, store, L, team[0], team, 2, &err));
    SILENT(ms_memory_add(&memory, &m, &n, &err));
    SILENT(ms_memory_broadcast(&memory, &m, &n, &err));
    memory.arena = &arena;
    memory.scope.kind = MS_SCOPE_SINCE_TASK;
    SILENT(ms_get_history(&memory, &it, &err));
    all_read(&it);
    if (!s.kind->remote) SILENT(ms_selfcheck(store, &err));
    store_close(&s);
}

TEST(error_stays_as_it_was_when_a_copy_leaves_something_out)
{
    ms_store *from, *second, *both, *to;
    ms_copy_report report;
    ms_envelope m = ms_user_message(ms_text("x"));
    ms_keep keep = {.newest = 1, .whole_turns = true, .has_since = true};
    SILENT(ms_mem_open(&from, NULL, &err));
    SILENT(ms_mem_open(&second, NULL, &err));
    uint64_t gone = add(from, m), dropped = add(from, m);
    SILENT(ms_note(from, gone, MS_STR("k"), ms_text("v"), &err));
    SILENT(ms_note(from, dropped, MS_STR("k"), ms_text("v"), &err));
    SILENT(ms_hide(from, gone, &err));
    m.key = MS_STR("key");
    SILENT(ms_note(from, add(from, m), MS_STR("k"), ms_text("v"), &err));
    m.content = ms_text("other");
    (void)add(second, m);
    ms_store *const stores[] = {from, second};
    const ms_union_desc desc = {.stores = stores, .n_stores = 2};
    SILENT(ms_union_open(&both, &desc, &err));
    SILENT(ms_mem_open(&to, NULL, &err));
    SILENT(ms_copy(to, both, NULL, NULL, &report, &err));
    assert_int_equal(report.notes, 2);
    assert_int_equal(report.left_out, 1);
    SILENT(ms_mem_reset(to, &err));
    SILENT(ms_copy(to, from, &keep, NULL, &report, &err));
    assert_int_equal(report.copied, 1);
    assert_int_equal(report.notes, 1);
    assert_int_equal(report.left_out, 2);
    ms_close(to);
    ms_close(both);
    ms_close(second);
    ms_close(from);
}

TEST(error_stays_as_it_was_when_damage_does_not_matter)
{
    ms_store *inside, *to;
    own_store own;
    ms_memory memory;
    ms_cursor it;
    uint64_t last;
    const ms_keep keep = {.newest = 2, .newest_bytes = 1000, .whole_turns = true,
                          .dry_run = true};
    SILENT(ms_mem_open(&inside, NULL, &err));
    SILENT(ms_mem_open(&to, NULL, &err));
    for (int i = 0; i < 8; i++) (void)add(inside, ms_user_message(ms_text("x")));
    own_open(&own, inside);
    own.damaged_each = 4;
    own.backend.stat = NULL;
    ms_memory_init(&memory, &own.base, L, MS_STR("a"));
    memory.scope.kind = MS_SCOPE_SINCE_TASK;
    SILENT(ms_get_history(&memory, &it, &err));
    while (ms_next(&it) != NULL) continue;
    assert_int_equal(ms_cursor_close(&it, NULL), MS_E_DAMAGED);
    SILENT(ms_wait(&own.base, 0, 0, &last, &err));
    assert_int_equal(ms_copy(NULL, &own.base, &keep, NULL, NULL, NULL), MS_E_DAMAGED);
    ms_close(to);
    ms_close(inside);
}

TEST_WITH(ON_LOGS, error_stays_as_it_was_when_a_log_is_rewritten)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_envelope m = ms_user_message(ms_text("x"));
    ms_log_report verified;
    ms_copy_report report;
    ms_log_info info;
    ms_store *fresh;
    bool more = true;
    uint64_t a = add(s.store, m), b = add(s.store, m);
    SILENT(ms_note(s.store, a, MS_STR("k"), ms_text("v"), &err));
    SILENT(ms_hide(s.store, a, &err));
    const ms_keep keep = {.newest = 1};
    ms_rewrite w = {.source = s.store, .to = &s.log, .replace = true, .keep = &keep};
    while (more) SILENT(ms_rewrite_run(&w, 0, &more, &err));
    assert_int_equal(w.report.left_out, 1);
    a = add(s.store, m);
    SILENT(ms_note(s.store, a, MS_STR("k"), ms_text("v"), &err));
    SILENT(ms_rewrite_run(&w, 0, &more, &err));
    assert_int_equal(w.report.left_out, 1);
    assert_int_equal(w.report.notes, 1);
    SILENT(ms_rewrite_end(&w, &fresh, &err));
    ms_close(s.store);
    s.store = fresh;
    /* a change of a message that the copy does not have */
    SILENT(ms_amend(s.store, b, &m, &err));
    ms_rewrite again = {.source = s.store, .to = &s.log, .replace = true, .keep = &keep};
    SILENT(ms_rewrite_run(&again, 0, &more, &err));
    SILENT(ms_note(s.store, b, MS_STR("k"), ms_text("v"), &err));
    SILENT(ms_rewrite_run(&again, 0, &more, &err));
    assert_int_equal(again.report.left_out, 1);
    SILENT(ms_rewrite_end(&again, &fresh, &err));
    ms_close(s.store);
    s.store = fresh;
    SILENT(ms_log_stat(s.store, &info, &err));
    ms_close(s.store);
    SILENT(ms_log_verify(&s.log, &verified, &err));
    SILENT(ms_log_open(&s.store, &s.log, &err));
    s.log.lock_wait_ms = 0;
    SILENT(ms_log_rewrite(s.store, &s.log, true, NULL, &report, &err));
    store_close(&s);
}

TEST(error_stays_as_it_was_when_a_ring_drops)
{
    static uint64_t room[2048];
    const ms_mem_desc desc = {.buffer = room, .buffer_size = sizeof room,
                              .drop_oldest = true};
    ms_store *store, *to;
    ms_stat stat;
    SILENT(ms_mem_open(&store, &desc, &err));
    for (int i = 0; i < 1000; i++) (void)add(store, ms_user_message(ms_text("x")));
    SILENT(ms_store_stat(store, &stat, &err));
    assert_true(stat.dropped > 500);
    SILENT(ms_hide(store, stat.last_seq, &err));
    ms_close(store);
    SILENT(ms_mem_attach(&store, &desc, NULL, &err));
    SILENT(ms_mem_open(&to, NULL, &err));
    SILENT(ms_copy(to, store, NULL, NULL, NULL, &err));
    ms_close(to);
    ms_close(store);
}

static ms_result discard(void *ctx, const char *bytes, size_t len) { return MS_OK; }

TEST(error_stays_as_it_was_when_a_call_of_the_formats_succeeds)
{
    ms_store *store;
    ms_envelopes list;
    ms_envelope m = ms_user_message(ms_text("x"));
    const ms_format *format = ms_format_find(MS_STR("openai"));
    ms_request_desc ask = {.profile = ms_profile_find(MS_STR("openai")), .location = L,
                           .arena = &arena};
    ms_answer_stream a;
    ms_answered answered;
    ms_calls calls;
    ms_writer w;
    ms_session session;
    ms_listing sessions;
    ms_task_change change = {.has_updated_at = false};
    const ms_shorten_opts shorten = {.keep = 5};
    const ms_msg *msg;
    ms_str value;
    static const char body[] = "{\"choices\":[{\"message\":{\"content\":\"a\"},"
                               "\"finish_reason\":\"stop\"}],\"usage\":"
                               "{\"prompt_tokens\":1,\"completion_tokens\":1}}";
    SILENT(ms_mem_open(&store, NULL, &err));
    ask.opts.model = MS_STR("m");
    ask.store = store;
    (void)add(store, m);
    SILENT(ms_json_check(MS_STR("[1]"), NULL, &value, &err));
    SILENT(ms_encode(&m, &arena, &msg, &err));
    SILENT(ms_read(format, MS_STR("{\"role\":\"user\",\"content\":\"x\"}"), NULL, &arena,
                   &list, &err));
    SILENT(ms_read_list(format, MS_STR("[{\"role\":\"user\",\"content\":\"x\"}]"), NULL,
                        &arena, &list, &err));
    ms_writer_init(&w, format, NULL, &arena, discard, NULL);
    SILENT(ms_writer_put(&w, &m, &err));
    SILENT(ms_writer_finish(&w, &err));
    SILENT(ms_request(&ask, discard, NULL, NULL, &err));
    SILENT(ms_pending(&ask, &arena, &calls, &err));
    SILENT(ms_project(&ask, discard, NULL, NULL, &err));
    SILENT(ms_answer(&ask, ms_str_of(body), &answered, &err));
    SILENT(ms_answer_begin(&a, &ask, &err));
    SILENT(ms_answer_feed(&a, ms_str_of(body), &err));
    SILENT(ms_answer_end(&a, &answered, &err));
    SILENT(ms_session_init(&session, store, MS_STR("u"), MS_STR("s"), &arena, &err));
    SILENT(ms_session_store(&session, &m, 1, &arena, &err));
    SILENT(ms_session_load(&session, NULL, &arena, &list, &err));
    SILENT(ms_session_list(store, MS_STR("u"), 0, &arena, &sessions, &err));
    SILENT(ms_shorten_message(&m, &shorten, ms_str_of(NULL), &arena, &err));
    m = ms_user_message(ms_text("x"));
    m.id = MS_STR("999"); /* no message has the number */
    SILENT(ms_append(store, MS_STR("t"), &m, NULL, &err));
    SILENT(ms_task_get(store, MS_STR("t"), m.id, &arena, &msg, &err));
    SILENT(ms_task_update(store, MS_STR("t"), m.id, &change, &arena, &msg, &err));
    ms_close(store);
}

/* A store that cannot note what an answer cost. */
TEST(error_stays_as_it_was_when_an_answer_is_not_noted)
{
    ms_store *store;
    own_store own;
    ms_answered answered;
    static const char body[] = "{\"message\":{\"role\":\"assistant\",\"content\":\"a\"},"
                               "\"done\":true,\"done_reason\":\"stop\","
                               "\"prompt_eval_count\":1,\"eval_count\":1}";
    SILENT(ms_mem_open(&store, NULL, &err));
    own_open(&own, store);
    own.backend.append = own_append;
    own.backend.change = NULL;
    const ms_request_desc ask = {.profile = ms_profile_find(MS_STR("ollama")),
                                 .store = &own.base, .location = L};
    SILENT(ms_answer(&ask, ms_str_of(body), &answered, &err));
    assert_int_equal(answered.messages, 1);
    ms_close(store);
}

/* ---- texts ---- */

static void must_read(ms_result got, ms_result want, const char *path, const char *text,
                      const char *call)
{
    if (got != want)
        fail_msg("%s: %s, not %s", call, ms_result_text(got), ms_result_text(want));
    if (strcmp(err.path, path) != 0)
        fail_msg("%s: the path is \"%s\", not \"%s\"", call, err.path, path);
    if (strcmp(err.message, text) != 0)
        fail_msg("%s: the text is\n\"%s\", not\n\"%s\"", call, err.message, text);
    err = untouched;
}

#define READS(call, want, path, text) must_read(call, want, path, text, #call)

TEST(texts_of_a_message_name_the_number_and_its_range)
{
    ms_store *store;
    ms_envelope m = ms_user_message(ms_text("x"));
    ms_append_opts opts = {.location = L, .keep_seq = true};
    SILENT(ms_mem_open(&store, NULL, &err));
    m.type = (ms_type)64;
    READS(ms_append(store, L, &m, NULL, &err), MS_E_TYPE, "type",
          "type is 64, 1 to 25 were expected");
    m.type = MS_T_USER_MESSAGE;
    m.role = (ms_role)9;
    READS(ms_append(store, L, &m, NULL, &err), MS_E_ARGUMENT, "role",
          "role is 9, 0 to 6 or 15 were expected");
    m.role = MS_ROLE_USER;
    m.has_time = true;
    m.time_ns = MS_TIME_NONE;
    READS(ms_append(store, L, &m, NULL, &err), MS_E_RANGE, "time_ns",
          "has_time is set without a time");
    m.has_time = false;
    m.flags = 1u << 16;
    READS(ms_append(store, L, &m, NULL, &err), MS_E_ARGUMENT, "flags",
          "flags is 65536, the known flags are 65535");
    m.flags = 0;
    m.seq = 3;
    SILENT(ms_append_batch(store, &m, 1, &opts, &err));
    READS(ms_append_batch(store, &m, 1, &opts, &err), MS_E_ARGUMENT, "messages[0].seq",
          "seq is 3, 4 to 18446744073709551614 were expected");
    m.seq = UINT64_MAX;
    READS(ms_append_batch(store, &m, 1, &opts, &err), MS_E_ARGUMENT, "messages[0].seq",
          "seq is 18446744073709551615, 4 to 18446744073709551614 were expected");
    ms_close(store);
}

TEST(texts_of_an_append_name_what_a_location_ends_with)
{
    ms_store *store;
    ms_envelope m = ms_user_message(ms_text("x")), batch[3] = {m, m, m};
    ms_append_opts opts = {.location = L, .expect = true, .expect_seq = 7};
    static const char text[] = "the last message of 'l' is 1, 7 was expected";
    SILENT(ms_mem_open(&store, NULL, &err));
    (void)add(store, m);
    for (size_t n = 0; n <= 3; n += n + 1)
        READS(ms_append_batch(store, batch, n, &opts, &err), MS_E_CONFLICT, "expect_seq",
              text);
    READS(ms__expect_last(&opts, 7, true, &err), MS_E_DAMAGED, "expect_seq",
          "the last message of 'l' is 7 or a damaged one after it, 7 was expected");
    READS(ms__key_fail(&err, MS_E_DAMAGED, MS_STR("k")), MS_E_DAMAGED, "key",
          "a damaged message may have the key 'k': go on without it, or after msgstore "
          "repair");
    ms_close(store);
}

TEST(texts_of_a_query_name_the_bits_that_are_known)
{
    ms_store *store;
    ms_query views = {.location = L, .views = 32}, raw = {.location = L, .raw = 64};
    ms_find_query find = {.text = MS_STR("x"), .fields = 1};
    const ms_json_opts deep = {MS_JSON_MAX_DEPTH + 1, false};
    ms_finder finder;
    ms_cursor it;
    SILENT(ms_mem_open(&store, NULL, &err));
    READS(ms_query_open(store, &views, &it, &err), MS_E_ARGUMENT, "views",
          "views is 32, the known flags are 31");
    READS(ms_query_open(store, &raw, &it, &err), MS_E_ARGUMENT, "raw",
          "raw is 64, the known flags are 63");
    READS(ms_find_open(store, &find, &finder, &err), MS_E_ARGUMENT, "fields",
          "fields is 1, the known flags are 2097150");
    READS(ms_json_check(MS_STR("1"), &deep, NULL, &err), MS_E_ARGUMENT, "max_depth",
          "max_depth is 513, 0 to 512 were expected");
    ms_close(store);
}

TEST(texts_of_memory_say_zero_bytes_nowhere)
{
    static uint64_t room[4];
    ms_arena full;
    test_arena_init_fixed(&full, room, sizeof room);
    READS(ms__no_memory(&err, 0), MS_E_NO_MEMORY, "", "out of memory");
    READS(ms__no_memory(&err, 8), MS_E_NO_MEMORY, "", "no memory for 8 bytes");
    READS(ms__no_arena(&err, NULL, 0), MS_E_ARENA, "", "an arena is needed");
    READS(ms__no_arena(&err, &full, 0), MS_E_ARENA, "", "the arena is full");
    READS(ms__no_arena(&err, &full, 8), MS_E_ARENA, "",
          "the arena has no room for 8 bytes");
    READS(ms__no_arena(&err, &arena, 0), MS_E_NO_MEMORY, "", "out of memory");
}

TEST(texts_of_a_change_name_the_parameter)
{
    ms_store *store;
    ms_envelope m = ms_user_message(ms_text("x"));
    const ms_usage usage = {.duration_ns = -5};
    const ms_stream_opts opts = {.flush_chars = 1025};
    ms_stream stream;
    ms_stream_text text;
    SILENT(ms_mem_open(&store, NULL, &err));
    uint64_t a = add(store, m), n;
    READS(ms_note(store, a, ms_str_of(NULL), ms_text("v"), &err), MS_E_ARGUMENT, "kind",
          "kind is empty, 1 to 1023 bytes are allowed");
    READS(ms_note(store, a, MS_STR("k"), ms_json(MS_STR("{")), &err), MS_E_SYNTAX, "value",
          "JSON at line 1, column 2 (offset 1): the text ends, expected a member name in "
          "quotes");
    READS(ms_location_set(store, L, MS_STR("{"), &err), MS_E_SYNTAX, "facts",
          "JSON at line 1, column 2 (offset 1): the text ends, expected a member name in "
          "quotes");
    READS(ms_location_set(store, L, MS_STR(" [1]"), &err), MS_E_KIND, "facts",
          "facts is '[1]', a JSON object was expected");
    READS(ms_location_set(store, ms_str_of(NULL), MS_STR("{}"), &err), MS_E_ARGUMENT,
          "location", "location is empty, 1 to 1023 bytes are allowed");
    READS(ms_note_usage(store, a, &usage, &err), MS_E_RANGE, "duration_ns",
          "duration_ns is -5, 0 or more was expected");
    READS(ms_rewind(store, MS_STR("other"), a, &n, &err), MS_E_ARGUMENT, "location",
          "message 1 is of location 'l', not of 'other'");
    READS(ms_fork(store, L, a, ms_str_of(NULL), &arena, &err), MS_E_ARGUMENT, "to",
          "to is empty, 1 to 1023 bytes are allowed");
    READS(ms_fork(store, L, a, L, &arena, &err), MS_E_CONFLICT, "to",
          "'l' has messages, up to 1: it must be empty");
    SILENT(ms_redact(store, a, &err));
    READS(ms_amend(store, a, &m, &err), MS_E_CONFLICT, "",
          "message 1 is redacted: it cannot be amended");
    READS(ms_stream_begin(&stream, store, L, &m, &opts, &err), MS_E_RANGE, "flush_chars",
          "flush_chars is 1025, 0 to 1024 were expected");
    SILENT(ms_stream_begin(&stream, store, L, &m, NULL, &err));
    READS(ms_stream_read(store, stream.seq, 9, &arena, &text, &err), MS_E_RANGE, "from",
          "from is 9, 0 to 1 were expected");
    ms_close(store);
}

TEST(texts_of_an_opening_name_the_field_and_its_range)
{
    static uint64_t room[8];
    ms_mem_desc desc = {.buffer = room, .buffer_size = sizeof room};
    ms_store *store, *two[2];
    ms_union_desc desc_of = {.stores = two, .n_stores = MS_UNION_MAX + 1};
    READS(ms_mem_open(&store, &desc, &err), MS_E_ARGUMENT, "buffer_size",
          "buffer_size is 64, 2048 to 34359738247 were expected");
    SILENT(ms_mem_open(&two[0], NULL, &err));
    READS(ms_union_open(&store, &desc_of, &err), MS_E_RANGE, "n_stores",
          "n_stores is 8193, 0 to 8192 were expected");
    desc_of.n_stores = 1;
    SILENT(ms_union_open(&store, &desc_of, &err));
    two[1] = store;
    desc_of.n_stores = 2;
    READS(ms_union_open(&store, &desc_of, &err), MS_E_UNSUPPORTED, "stores[1]",
          "it is a union: pass its stores");
    READS(ms__union_range(1, (uint64_t)1 << 40, &err), MS_E_RANGE, "stores[1].seq",
          "seq is 1099511627776, 1 to 1099511627775 were expected");
    ms_close(two[1]);
    ms_close(two[0]);
}

TEST(texts_of_a_memory_name_what_it_lacks)
{
    ms_store *store;
    ms_memory memory, none;
    ms_envelope m = ms_message(MS_T_REASONING, ms_text("x"));
    ms_cursor it;
    SILENT(ms_mem_open(&store, NULL, &err));
    memset(&none, 0, sizeof none);
    READS(ms_get_history(&none, &it, &err), MS_E_ARGUMENT, "store",
          "a memory needs a store");
    none.store = store;
    READS(ms_get_history(&none, &it, &err), MS_E_ARGUMENT, "location",
          "a memory needs a location");
    none.location = L;
    READS(ms_get_history(&none, &it, &err), MS_E_ARGUMENT, "agent_key",
          "a memory needs an agent key");
    ms_memory_init(&memory, store, L, MS_STR("a"));
    memory.n_subordinates = 1;
    READS(ms_get_history(&memory, &it, &err), MS_E_ARGUMENT, "subordinates",
          "a memory needs the list of its subordinates");
    memory.n_subordinates = 0;
    memory.runtime_mode = MS_RUNTIME_MERGE;
    READS(ms_get_history(&memory, &it, &err), MS_E_CLOSED, "runtime",
          "the store is missing");
    memory.runtime = store;
    READS(ms_get_history(&memory, &it, &err), MS_E_ARGUMENT, "runtime",
          "a memory needs a runtime store that is not its store");
    memory.runtime_mode = MS_RUNTIME_STORE;
    READS(ms_memory_broadcast(&memory, &m, NULL, &err), MS_E_TYPE, "type",
          "type is 23, one of MS_TYPES_GLOBAL, MS_T_USER_MESSAGE or MS_T_ASSISTANT_MESSAGE was expected");
    ms_close(store);
}

/* ---- texts of logs ---- */

static char *new_path(void)
{
    char *folder = scratch_folder(), *path = scratch_file(folder, "log");
    free(folder);
    return path;
}

/* As must_read; @ in the text: the path of the log. */
static void must_read_of(const char *path, ms_result got, ms_result want,
                         const char *field, const char *text, const char *call)
{
    char whole[sizeof err.message];
    const char *at = strchr(text, '@');
    snprintf(whole, sizeof whole, "%.*s%s%s", (int)(at - text), text, path, at + 1);
    must_read(got, want, field, whole, call);
}

#define READS_OF(call, want, field, text) \
    must_read_of(d.path, call, want, field, text, #call)

TEST(texts_of_an_opened_log_name_the_field_and_its_range)
{
    ms_store *store;
    ms_log_desc d = {.path = ""};
    char *path = new_path();
    READS(ms_log_open(&store, &d, &err), MS_E_ARGUMENT, "path", "a log needs a path");
    d.path = path;
    d.mode = (ms_log_mode)9;
    READS_OF(ms_log_open(&store, &d, &err), MS_E_ARGUMENT, "",
             "opening '@': mode 9 (0 to 3), opening 0 (0 to 2), sync 0 (0 to 2), engine 0 "
             "(0 to 2): one is out of range");
    d.mode = MS_LOG_WRITE;
    d.opening = MS_OPEN_SALVAGE;
    READS_OF(ms_log_open(&store, &d, &err), MS_E_ARGUMENT, "mode",
             "opening '@' for salvage: mode is 1, MS_LOG_READ (3) was expected");
    d.opening = MS_OPEN_NORMAL;
    d.segment_size = 1;
    READS_OF(ms_log_open(&store, &d, &err), MS_E_ARGUMENT, "segment_size",
             "opening '@': segment_size is 1, 1024 to 2^30 were expected");
    d.segment_size = 0;
    fclose(fopen(path, "wb"));
    READS_OF(ms_log_open(&store, &d, &err), MS_E_NOT_FOUND, "",
             "opening '@': no log is in its 0 bytes, and MS_LOG_WRITE creates none");
    d.mode = MS_LOG_CREATE;
    SILENT(ms_log_open(&store, &d, &err));
    ms_close(store);
    d.mode = MS_LOG_NEW;
    READS_OF(ms_log_open(&store, &d, &err), MS_E_CONFLICT, "",
             "creating '@': the file exists");
    free(path);
}

/* The calls of a kind fail, of writes those at an offset. */
static void fail_calls(os_faults *t, unsigned kinds, uint64_t at, int code, uint64_t offset)
{
    t->how = kinds != 0 ? OS_FAULT_FAIL : OS_FAULT_NONE;
    t->kinds = kinds;
    t->calls = 0;
    t->at = at;
    t->code = code;
    t->offset = offset;
}

static void must_read_at(const char *path, uint64_t at, ms_result got, ms_result want,
                         const char *what, const char *why, const char *call)
{
    char text[sizeof err.message];
    snprintf(text, sizeof text, "%s '%s' at byte %llu: %s", what, path,
             (unsigned long long)at, why);
    uint64_t offset = err.offset;
    must_read(got, want, "", text, call);
    assert_int_equal(offset, at);
}

#define READS_AT(at, call, want, what, why) \
    must_read_at(path, at, call, want, what, why, #call)

TEST(texts_of_failed_system_calls_name_the_byte)
{
    os_faults t;
    ms_store *store;
    ms_envelope m = ms_user_message(ms_text("x")), batch[3] = {m, m, m};
    ms_append_opts opts = {.location = L};
    char *path = new_path();
    os_fault_init(&t, ms_os_default());
    ms_log_desc d = {.path = path, .os = &t.os, .engine = MS_ENGINE_WRITE,
                     .mode = MS_LOG_CREATE};
    fail_calls(&t, OS_FAULT_BIT(ALLOCATE), 1, EIO, 0);
    READS_AT(0, ms_log_open(&store, &d, &err), MS_E_IO, "allocating room in",
             "the device reports an error (errno 5)");
    fail_calls(&t, OS_FAULT_BIT(MAP), 2, ENODEV, 0);
    READS_AT(0, ms_log_open(&store, &d, &err), MS_E_UNSUPPORTED, "mapping",
             "the file cannot be mapped (errno 19)");
    fail_calls(&t, 0, 0, 0, 0);
    SILENT(ms_log_open(&store, &d, &err));
    ms__log *log = ms__log_of(store);
    uint64_t a = add(store, m), end = log->end;
    fail_calls(&t, OS_FAULT_BIT(WRITE), 1, ENOSPC, end);
    READS_AT(end, ms_append_batch(store, batch, 3, &opts, &err), MS_E_FULL, "writing to",
             "the disk is full (errno 28)");
    fail_calls(&t, 0, 0, 0, 0);
    SILENT(ms_append_batch(store, batch, 3, &opts, &err));
    end = log->end;
    fail_calls(&t, OS_FAULT_BIT(READ), 1, EIO, 0);
    READS_AT(8192, ms__log_copy_bytes(log, log->file.handle, 8192, 8200, &err), MS_E_IO,
             "copying", "the device reports an error (errno 5)");
    fail_calls(&t, OS_FAULT_BIT(WRITE), 1, EIO, end);
    READS_AT(end, ms__log_settle(log, end + 8, &err), MS_E_IO, "zeroing",
             "the device reports an error (errno 5)");
    fail_calls(&t, OS_FAULT_BIT(ALLOCATE), 1, ENOSPC, 0);
    log->append.stop = (end & ~(uint64_t)4095) + 8192;
    READS_AT(end & ~(uint64_t)4095, ms__room_fill(log, &err), MS_E_FULL,
             "allocating room in", "the disk is full (errno 28)");
    fail_calls(&t, OS_FAULT_BIT(MAP), 1, ENOMEM, 0);
    READS_AT(0, ms__window_reach(log, end, end + 8, &err), MS_E_NO_MEMORY,
             "mapping for writing", "out of memory (errno 12)");
    fail_calls(&t, OS_FAULT_BIT(WRITE), 1, EIO, 8192 + 40);
    READS_AT(8192 + 40, ms_redact(store, a, &err), MS_E_IO, "writing to",
             "the device reports an error (errno 5)");
    fail_calls(&t, 0, 0, 0, 0);
    ms_close(store);
    free(path);
}

TEST(texts_of_a_replaced_log_name_the_rewrite)
{
    ms_store *store, *reader;
    ms_cursor it;
    ms_query all;
    ms_envelope m = ms_user_message(ms_text("x"));
    char *path = new_path();
    ms_log_desc d = {.path = path, .mode = MS_LOG_CREATE}, r = d;
    char text[sizeof err.message];
    memset(&all, 0, sizeof all);
    r.mode = MS_LOG_READ;
    d.shared = true;
    SILENT(ms_log_open(&store, &d, &err));
    (void)add(store, m);
    ms__log *log = ms__log_of(store);
    log->end += 8;
    snprintf(text, sizeof text, "'@' ends at %llu here, and at %llu by its watermark: open "
             "it again", (unsigned long long)log->end, (unsigned long long)log->end - 8);
    READS_OF(ms__turn_check(log, &err), MS_E_CONFLICT, "", text);
    log->end -= 8;
    assert_int_equal(ms__replaced_set(log, 1), 0);
    READS_OF(ms_append(store, L, &m, NULL, &err), MS_E_CONFLICT, "",
             "a rewrite replaces '@' by a new file: close it and open it again");
    assert_int_equal(ms__replaced_set(log, 0), 0);
    ms_close(store);
    d.shared = false;
    SILENT(ms_log_open(&store, &d, &err));
    (void)add(store, m);
    SILENT(ms_log_open(&reader, &r, &err));
    SILENT(ms_log_rewrite(store, &d, true, NULL, NULL, &err));
    READS_OF(ms_query_open(reader, &all, &it, &err), MS_E_CONFLICT, "",
             "a rewrite has replaced '@' by a new file: open it again");
    ms_close(reader);
    ms_close(store);
    free(path);
}

/* ---- texts of formats and requests ---- */

static ms_result accept(void *ctx, const char *bytes, size_t len) { return MS_OK; }
static ms_result refuse(void *ctx, const char *bytes, size_t len) { return MS_E_FULL; }

TEST(texts_of_a_request_name_what_was_found_and_expected)
{
    ms_store *store;
    const ms_profile *known = ms_profile_find(MS_STR("anthropic"));
    ms_profile own = *known;
    ms_request_desc d = {.profile = &own, .location = L, .arena = &arena};
    ms_compaction items = {.upto = 1, .items = MS_STR("{}")};
    SILENT(ms_mem_open(&store, NULL, &err));
    d.store = store;
    d.opts.model = MS_STR("m");
    (void)add(store, ms_user_message(ms_text("x")));
    own.wire = (ms_wire)99;
    READS(ms_request(&d, accept, NULL, NULL, &err), MS_E_ARGUMENT, "profile.wire",
          "profile.wire is 99, 0 to 8 were expected");
    own = *known;
    own.system = (ms_system_place)99;
    READS(ms_request(&d, accept, NULL, NULL, &err), MS_E_ARGUMENT, "profile.system",
          "profile.system is 99, 0 to 3 were expected");
    own = *known;
    own.ids = (ms_call_ids)99;
    READS(ms_request(&d, accept, NULL, NULL, &err), MS_E_ARGUMENT, "profile.ids",
          "profile.ids is 99, 0 to 3 were expected");
    own = *known;
    own.id_max = 7;
    READS(ms_request(&d, accept, NULL, NULL, &err), MS_E_ARGUMENT, "profile.id_max",
          "profile.id_max is 7, 0 (no bound) or 8 and more were expected");
    own = *known;
    d.tools = MS_STR("[1");
    READS(ms_request(&d, accept, NULL, NULL, &err), MS_E_SYNTAX, "tools",
          "JSON at line 1, column 3 (offset 2): the text ends, expected ',' or ']'");
    d.tools = MS_STR(" {} ");
    READS(ms_request(&d, accept, NULL, NULL, &err), MS_E_KIND, "tools",
          "tools is '{}', a list was expected");
    d.tools = MS_STR("[7]");
    READS(ms_request(&d, accept, NULL, NULL, &err), MS_E_KIND, "tools",
          "tools[0] is '7', an object was expected");
    d.tools = ms_str_of(NULL);
    d.extra = MS_STR("[]");
    READS(ms_request(&d, accept, NULL, NULL, &err), MS_E_KIND, "extra",
          "extra is '[]', an object was expected");
    d.extra = MS_STR("{\"messages\":[]}");
    READS(ms_request(&d, accept, NULL, NULL, &err), MS_E_ARGUMENT, "extra",
          "the request has its own member messages, extra must not have it");
    d.extra = MS_STR("{\"max_tokens\":\"9\"}");
    READS(ms_request(&d, accept, NULL, NULL, &err), MS_E_KIND, "max_tokens",
          "max_tokens is '\"9\"', a number of tokens was expected");
    d.extra = ms_str_of(NULL);
    READS(ms_request(&d, refuse, NULL, NULL, &err), MS_E_FULL, "",
          "writing the messages: the store is full");
    READS(ms_compact(&d, &items, NULL, &err), MS_E_KIND, "items",
          "items is '{}', a list was expected");
    ms_close(store);
}

TEST(texts_of_a_session_name_what_is_too_long)
{
    static char text[1020];
    ms_store *store;
    ms_session session;
    const ms_session none = {NULL, {NULL, 0}, {NULL, 0}};
    const ms_str long_id = {text, sizeof text};
    memset(text, 'a', sizeof text);
    SILENT(ms_mem_open(&store, NULL, &err));
    READS(ms_session_init(&session, NULL, L, L, &arena, &err), MS_E_ARGUMENT, "store",
          "a session needs a store");
    READS(ms_session_init(&session, store, ms_str_of(NULL), L, &arena, &err),
          MS_E_ARGUMENT, "user_id", "user_id is empty, 1 to 1023 bytes are allowed");
    READS(ms_session_init(&session, store, MS_STR("u"), long_id, &arena, &err),
          MS_E_TOO_LARGE, "",
          "the location of user_id and session_id has 1024 bytes, at most 1023 are "
          "allowed");
    READS(ms_session_store(&none, NULL, 0, &arena, &err), MS_E_ARGUMENT, "",
          "the session is not initialised: call ms_session_init");
    ms_close(store);
}

TEST(texts_of_a_format_name_the_words_that_it_has)
{
    const ms_format *chat = ms_format_find(MS_STR("openai"));
    const ms_format *steps = ms_format_find(MS_STR("gemini-interactions"));
    ms_envelope m = ms_user_message(ms_text("x"));
    ms_envelopes list;
    ms_writer w;
    READS(ms_read(chat, MS_STR("{\"role\":\"x\",\"content\":\"\"}"), NULL, &arena, &list,
                  &err), MS_E_TYPE, "role",
          "role 'x', user, assistant, system, developer, tool or function was expected");
    READS(ms_read(steps, MS_STR("{\"type\":\"\"}"), NULL, &arena, &list, &err), MS_E_TYPE,
          "type", "type '', a type of a step was expected");
    ms_writer_init(&w, chat, NULL, &arena, refuse, NULL);
    ms_result code = ms_writer_put(&w, &m, &err);
    if (code == MS_OK) code = ms_writer_finish(&w, &err);
    READS(code, MS_E_FULL, "", "writing failed after 1 messages: the store is full");
}

int main(void) { return run_all_tests(begin, release); }
