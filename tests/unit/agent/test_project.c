/* ms_project: a history that no provider refuses.
 *
 *   - A row of tests/tables/project.jsonl is a history with one kind of trouble, and the
 *     request that comes of it. Every provider takes what it becomes; read and projected
 *     again it is the same; texts that are copied make no difference.
 *   - Ids and names that do not fit, options, profiles, writers that fail.
 *
 * Windows are in test_project_window, hostile histories and memory in test_project_hostile. */

#define _GNU_SOURCE

#include "project.h"


/* ---- the table ---- */

/* The counts of a report that are not 0, in words. */
static void report_words(const ms_project_report *r, char *out, size_t size)
{
    const struct {
        const char *word;
        uint64_t count;
    } counts[] = {
        {"left_out", r->left_out}, {"dropped", r->dropped}, {"orphans", r->orphans},
        {"duplicates", r->duplicates}, {"wrapped", r->wrapped}, {"renamed", r->renamed},
        {"shortened", r->shortened}, {"synthesised", r->synthesised},
        {"merged", r->merged}, {"started", r->started}, {"bridged", r->bridged},
        {"ended", r->ended},
        {"thinking_missing", r->thinking_missing},
        {"thinking_left_out", r->thinking_left_out}, {"over", r->over},
    };
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < COUNT(counts); i++) {
        if (counts[i].count == 0) continue;
        len += (size_t)snprintf(out + len, size - len, "%s%s %llu", len > 0 ? " " : "",
                                counts[i].word, (unsigned long long)counts[i].count);
    }
}

static void row_must_report(const table_row *r, const ms_project_report *report)
{
    char words[512];
    const char *want = row_text(r, "report");
    report_words(report, words, sizeof words);
    if (want != NULL && strcmp(words, want) != 0)
        fail_msg("report\n   got '%s'\nexpect '%s'", words, want);
    if (row_get(r, "cost") != NULL) assert_int_equal(report->cost, row_number(r, "cost"));
    if (row_get(r, "newest_turn") != NULL)
        assert_int_equal(report->newest_turn, row_number(r, "newest_turn"));
}

/* The row's own provider; openai if none. */
static void row_must_become(const table_row *r, ms_str body)
{
    ms_str want = row_spelled(r, "request");
    json_t *text;
    size_t i;
    if (want.ptr != NULL && !ms_str_equal(body, want))
        fail_msg("request\n   got %.*s\nexpect %.*s", (int)body.len, body.ptr,
                 (int)want.len, want.ptr);
    json_array_foreach (row_get(r, "has"), i, text)
        if (!has_text(body, json_string_value(text)))
            fail_msg("request\n   got %.*s\nexpect ... %s", (int)body.len, body.ptr,
                     json_string_value(text));
}

/* What no provider is sent, and how many thoughts each of them misses. */
static void row_must_leave_out(const table_row *r, const ms_profile *profile, ms_str body,
                               const ms_project_report *report)
{
    const char *text = row_text(r, "lacks");
    if (text != NULL && has_text(body, text))
        fail_msg("%s is sent %.*s", profile->name, (int)body.len, body.ptr);
    if (row_get(r, "missing") != NULL && report->thinking_missing != row_number(r, "missing"))
        fail_msg("%s misses %llu", profile->name,
                 (unsigned long long)report->thinking_missing);
}

static void row_becomes_its_request(void **state)
{
    const table_row *r = (const table_row *)*state;
    const char *own = row_text(r, "provider") ? row_text(r, "provider") : "openai";
    ms_project_opts opts = row_opts(r);
    (void)reset(NULL);
    history h = row_history(r);
    for (size_t k = 0; k < PROFILES; k++) {
        ms_profile copy = *ms_profile_at(k);
        const ms_profile *profile = &copy;
        copy.trim = copy.trim || row_get(r, "trim") != NULL;
        ms_project_report report;
        ms_result code, want = row_get(r, "too_large") ? MS_E_TOO_LARGE : MS_OK;
        ms_str body = projected(profile, &opts, &h, h.n, &report, &code);
        assert_int_equal(code, want);
        assert_int_equal(report.read, h.n);
        if (strcmp(profile->name, own) == 0) row_must_report(r, &report);
        if (code != MS_OK) assert_int_equal(body.len, 0);
        if (code != MS_OK) continue;
        if (strcmp(profile->name, own) == 0) row_must_become(r, body);
        row_must_leave_out(r, profile, body, &report);
        (void)sound(profile, &opts, &h);
    }
}


/* ---- ids and names that do not fit ---- */

#define ALNUM "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
#define DOTTED ALNUM "_-.:"

static const char *const awkward_ids[] = {
    FORTY, FORTY "x", FORTY "y", FORTY FORTY FORTY, "call|fc_1", "call:fc_1",
    "call fc_1", "\xC3\xA9\xC3\xA8", "\xC3\xA8\xC3\xA9", "a/b", "a_b", ".",
    "abc123XYZ", "abc123XY", "abc123XYZ0", "\xF0\x9F\x98\x80", "a", "a", "a", "b_c", "b-c",
    "abcdefgh", "abcdefgh", "an id that is longer than most of the rules let",
};

/* Calls of these ids, each with a result that repeats its number. */
static history history_of_ids(const char *const *ids, size_t n)
{
    history h = history_of(2 * n + 1);
    add(&h, ms_user_message(ms_text("u")));
    for (size_t i = 0; i < 2 * n; i++) {
        char number[24];
        snprintf(number, sizeof number, "%zu", i % n);
        add(&h, i < n ? action(ids[i % n], "f") : observation(ids[i % n], ms_text(number)));
    }
    return h;
}

/* In an openai list of n calls every result has the id of its own call; ids differ and
 * keep the rule. What fits stays. */
static void ids_must_fit(ms_str body, const ms_profile *rule, const char *const *ids,
                         size_t n)
{
    json_t *list = parsed(body);
    json_t *calls = json_object_get(json_array_get(list, 1), "tool_calls");
    size_t least = rule->id_min > 24 ? 24 : rule->id_min;
    assert_int_equal(json_array_size(list), n + 2);
    for (size_t i = 0; i < n; i++) {
        json_t *result = json_array_get(list, i + 2);
        const char *id = text_at(json_array_get(calls, i), "id");
        assert_string_equal(text_at(result, "tool_call_id"), id);
        assert_in_range(strlen(id), least, rule->id_max ? rule->id_max : 1000);
        if (rule->ids == MS_IDS_ALNUM) assert_int_equal(strspn(id, ALNUM), strlen(id));
        if (rule->ids == MS_IDS_DOTTED) assert_int_equal(strspn(id, DOTTED), strlen(id));
        bool may = rule->ids == MS_IDS_ANY || (rule->ids == MS_IDS_DOTTED && ids[i][0] != 0 &&
                                               strspn(ids[i], DOTTED) == strlen(ids[i]));
        bool first = true, fits = may && strlen(ids[i]) >= rule->id_min &&
                                  (rule->id_max == 0 || strlen(ids[i]) <= rule->id_max);
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(id, text_at(json_array_get(calls, k), "id"));
            first = first && strcmp(ids[i], ids[k]) != 0;
        }
        if (first && fits) assert_string_equal(id, ids[i]);
        if (n < 100) assert_int_equal(strtoul(text_at(result, "content"), NULL, 10), i);
    }
    json_decref(list);
}

TEST(ids_differ_and_keep_the_rule_of_any_profile)
{
    static const struct {
        ms_call_ids ids;
        size_t least, most;
    } rules[] = {
        {MS_IDS_ALNUM, 9, 9},  {MS_IDS_ALNUM, 12, 0}, {MS_IDS_ALNUM, 30, 40},
        {MS_IDS_ALNUM, 0, 8},  {MS_IDS_WORD, 0, 8},   {MS_IDS_WORD, 30, 0},
        {MS_IDS_ANY, 0, 0},    {MS_IDS_ANY, 16, 16},  {MS_IDS_ALNUM, 0, 0},
        {MS_IDS_DOTTED, 1, 64},
    };
    static const char *same[200];
    for (size_t i = 0; i < COUNT(same); i++) same[i] = "x y";
    history h = history_of_ids(awkward_ids, COUNT(awkward_ids));
    history one = history_of_ids(same, COUNT(same));
    for (size_t i = 0; i < COUNT(rules) + 2; i++) {
        ms_profile own = *profile_of(i == COUNT(rules) ? "openai" : "chat-strict");
        if (i < COUNT(rules)) {
            own.ids = rules[i].ids;
            own.id_min = rules[i].least;
            own.id_max = rules[i].most;
        }
        ms_str body = projected_all(&own, &everything, &h);
        if (i == 0 || i >= COUNT(rules)) body = sound(&own, &everything, &h);
        ids_must_fit(body, &own, awkward_ids, COUNT(awkward_ids));
        ids_must_fit(projected_all(&own, &everything, &one), &own, same, COUNT(same));
    }
    sound_for_all(&everything, &h);
    assert_true(has_text(projected_all(profile_of("openai"), &everything, &h),
                         "\"id\":\"aaaaaaaaaabbbbbbbbbbcccccccccc"));
}

TEST(arguments_are_wrapped_when_they_are_a_list)
{
    ms_project_report report;
    history h = history_of(1);
    ms_envelope m = action("x", "f");
    m.args = ms_json(MS_STR("[1,2]"));
    add(&h, m);
    ms_str body = projected(profile_of("openai"), &everything, &h, 1, &report, NULL);
    assert_true(has_text(body, "[1,2]"));
    assert_int_equal(report.wrapped, 1);
}

/* Of very many open calls alike only so many are looked through. */
TEST(result_is_observed_when_too_many_calls_are_open)
{
    history h = history_of(301);
    ms_project_report report;
    for (int i = 0; i < 300; i++) {
        char id[16];
        snprintf(id, sizeof id, "id%d", i);
        ms_envelope m = action(id, "f");
        m.turn_id = i < 299 ? MS_STR("old") : MS_STR("new");
        add(&h, m);
    }
    ms_envelope late = observation(NULL, ms_text("late"));
    late.turn_id = MS_STR("new");
    add(&h, late);
    (void)projected(profile_of("openai"), &everything, &h, h.n, &report, NULL);
    assert_int_equal(report.synthesised, 300);
}


/* ---- options ---- */

/* No message, nowhere to go: an error, and nothing is written. */
TEST(projection_is_refused_when_nothing_is_given)
{
    const ms_profile *openai = profile_of("openai");
    history h = history_of(1);
    feed f = {&h, 0, 1};
    ms_buf out = {&work, NULL, 0, 0};
    ms_error err;
    add(&h, ms_user_message(ms_text("u")));
    assert_int_equal(projection_write(openai, NULL, NULL, &f, &work, ms_buf_write, &out, NULL,
                                      &err), MS_E_ARGUMENT);
    assert_int_equal(projection_write(openai, NULL, feed_next, &f, &work, NULL, &out, NULL,
                                      &err), MS_E_ARGUMENT);
    assert_int_equal(out.len, 0);
    ms_str body = projected(openai, NULL, &h, 1, NULL, NULL);
    assert_true(ms_str_equal(body, MS_STR("[{\"role\":\"user\",\"content\":\"u\"}]")));
}

/* What a profile makes of no messages at all. */
static ms_result code_of(const ms_profile *profile, ms_arena *in)
{
    history h = {NULL, NULL, 0};
    feed f = {&h, 0, 0};
    ms_buf out = {&work, NULL, 0, 0};
    return projection_write(profile, NULL, feed_next, &f, in, ms_buf_write, &out, NULL, NULL);
}

TEST(profile_is_refused_when_it_contradicts_itself)
{
    ms_profile odd = *profile_of("openai");
    assert_null(ms_profile_find(MS_STR("nobody")));
    assert_null(ms_profile_at(PROFILES));
    assert_int_equal(code_of(NULL, &work), MS_E_ARGUMENT);
    assert_int_equal(code_of(&odd, NULL), MS_E_ARENA);
    assert_int_equal(code_of(&odd, &work), MS_OK);
    odd.id_max = 7;
    assert_int_equal(code_of(&odd, &work), MS_E_ARGUMENT);
    odd = *profile_of("openai");
    odd.wire = (ms_wire)(MS_WIRE_COHERE + 1);
    assert_int_equal(code_of(&odd, &work), MS_E_ARGUMENT);
}

TEST(texts_of_a_profile_stand_in_when_it_has_its_own)
{
    ms_profile own = *profile_of("chat-strict");
    history h = history_of(2);
    add(&h, ms_assistant_message(ms_text("a")));
    add(&h, action("x", "f"));
    own.start_text = "go";
    own.no_result = "lost";
    own.name_max = 0;
    ms_str body = projected_all(&own, &everything, &h);
    must_accept(&own, body, &h);
    assert_true(has_text(body, "{\"role\":\"user\",\"content\":\"go\"}"));
    assert_true(has_text(body, "\"content\":\"lost\""));
    own.start_text = own.no_result = NULL;
    body = projected_all(&own, &everything, &h);
    must_accept(&own, body, &h);
    assert_true(has_text(body, "(The conversation begins.)") && has_text(body, NEVER));
}

TEST(long_answer_is_shortened_with_its_key_when_asked)
{
    ms_project_opts opts;
    history h = history_of_long_texts(&opts);
    for (size_t k = 0; k < PROFILES; k++) {
        ms_project_report report;
        ms_str body = projected(ms_profile_at(k), &opts, &h, h.n, &report, NULL);
        assert_int_equal(report.shortened, 1);
        assert_in_range(body.len, 3 * 2000 + 400, 3 * 2000 + 1200);
        assert_true(has_text(body, "REM LOOKUP session-s-msg-3 to recover"));
    }
    sound_for_all(&opts, &h);
}

/* Some turns at a time. */
TEST(result_is_shortened_when_it_is_no_longer_fresh)
{
    enum { CALLS = 40 };
    ms_project_opts opts = everything;
    history h = history_of(2 * CALLS);
    for (size_t i = 0; i < CALLS; i++) {
        add(&h, action(NULL, "f"));
        add(&h, observation(NULL, text_of_size(1000)));
    }
    opts.fresh = 6;
    for (opts.fresh_step = 0; opts.fresh_step < 10; opts.fresh_step += 3) {
        size_t step = opts.fresh_step ? opts.fresh_step : opts.fresh;
        size_t old = (CALLS - opts.fresh) / step * step;
        json_t *list = parsed(projected_all(profile_of("openai"), &opts, &h));
        for (size_t i = 0; i < CALLS; i++) {
            json_t *result = json_array_get(list, 2 * i + 1);
            bool is_short = json_string_length(json_object_get(result, "content")) < 600;
            assert_int_equal(is_short, i < old);
        }
        json_decref(list);
        sound_for_all(&opts, &h);
        ms_arena_reset(&work);
    }
}


/* ---- writers, stores and messages that are only borrowed ---- */

static ms_result write_refused(void *ctx, const char *bytes, size_t len)
{
    size_t *left = (size_t *)ctx;
    if (*left < len) return MS_E_IO;
    *left -= len;
    return MS_OK;
}

/* From the first bytes to the last. */
TEST(error_comes_back_when_the_writer_refuses_any_bytes)
{
    history h = history_long(40);
    for (size_t k = 0; k < PROFILES; k++) {
        size_t whole = projected_all(ms_profile_at(k), &everything, &h).len;
        for (size_t room = 0; room <= whole; room += room < 64 || room + 64 > whole ? 1 : 37) {
            feed f = {&h, 0, h.n};
            size_t left = room;
            ms_result code = projection_write(ms_profile_at(k), NULL, feed_next, &f, &work,
                                              write_refused, &left, NULL, NULL);
            assert_int_equal(code, room < whole ? MS_E_IO : MS_OK);
            ms_arena_reset(&work);
        }
    }
}

TEST(store_is_unchanged_when_it_is_projected)
{
    static uint64_t buffer[1 << 16], before[1 << 16];
    ms_store *store;
    history h = history_long(400);
    ms_mem_desc desc = {.buffer = buffer, .buffer_size = sizeof buffer,
                        .keep_unset_times = true};
    assert_int_equal(ms_mem_open(&store, &desc, NULL), MS_OK);
    for (size_t i = 0; i < h.n; i++)
        assert_int_equal(ms_append(store, MS_STR("l"), &h.items[i], NULL, NULL), MS_OK);
    ms_str image = ms_mem_image(store);
    memcpy(before, image.ptr, image.len);
    for (size_t k = 0; k < 2 * PROFILES; k++) {
        ms_project_opts opts = everything;
        ms_query query;
        ms_cursor it;
        ms_buf out = {&work, NULL, 0, 0};
        memset(&query, 0, sizeof query);
        opts.newest = 40;
        opts.fresh = 2;
        opts.shorten = opts.stable = k < PROFILES;
        assert_int_equal(ms_query_open(store, &query, &it, NULL), MS_OK);
        assert_int_equal(projection_write(ms_profile_at(k % PROFILES), &opts, test_next_of,
                                          &it, &work, ms_buf_write, &out, NULL, NULL), MS_OK);
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
        assert_true(ms_str_equal(ms_buf_text(&out),
                                 projected_all(ms_profile_at(k % PROFILES), &opts, &h)));
        assert_int_equal(ms_mem_image(store).len, image.len);
        assert_memory_equal(ms_mem_image(store).ptr, before, image.len);
        assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
    }
    ms_close(store);
}

/* ---- content of parts ---- */

static void parts_must_be(const ms_part *parts, size_t n, const char *expected)
{
    ms_value content;
    ms_error err;
    assert_int_equal(ms_parts(parts, n, &work, &content, &err), MS_OK);
    assert_true(content.json);
    if (!is_word(content.text, expected))
        fail_msg("%.*s, expected %s", (int)content.text.len, content.text.ptr, expected);
}

/* Items and steps that a format has read go back with their reasoning, ids and other
 * members. */
TEST(items_that_were_read_go_back_as_they_were)
{
    static const struct {
        const char *provider, *items;
    } lists[] = {
        {"openai-responses",
         "[{\"role\":\"user\",\"content\":\"u\"},"
         "{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[{\"type\":\"summary_text\",\"text\":"
         "\"a\"},{\"type\":\"summary_text\",\"text\":\"b\"}],\"encrypted_content\":\"E\"},"
         "{\"type\":\"message\",\"id\":\"msg_1\",\"status\":\"completed\",\"role\":\"assistant\","
         "\"phase\":\"commentary\",\"content\":[{\"type\":\"output_text\",\"text\":\"x\","
         "\"annotations\":[]}]},"
         "{\"type\":\"reasoning\",\"id\":\"rs_2\",\"summary\":[],\"encrypted_content\":\"F\"},"
         "{\"type\":\"function_call\",\"id\":\"fc_1\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":"
         "\"{\\\"a\\\": 1}\",\"status\":\"completed\"},"
         "{\"type\":\"custom_tool_call\",\"id\":\"ctc_1\",\"call_id\":\"d\",\"name\":\"g\",\"input\":"
         "\"any\"},"
         "{\"type\":\"shell_call\",\"id\":\"sh_1\",\"call_id\":\"e\",\"action\":{\"commands\":[\"ls\"]},"
         "\"status\":\"completed\"},"
         "{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"r\"},"
         "{\"type\":\"custom_tool_call_output\",\"call_id\":\"d\",\"output\":\"r\"},"
         "{\"type\":\"shell_call_output\",\"call_id\":\"e\",\"output\":[{\"stdout\":\"\","
         "\"stderr\":\"\",\"outcome\":{\"type\":\"exit\",\"exit_code\":0}}]}]"},
        {"gemini-interactions",
         "[{\"type\":\"user_input\",\"content\":[{\"type\":\"text\",\"text\":\"u\"}]},"
         "{\"type\":\"thought\",\"signature\":\"S\"},"
         "{\"type\":\"thought\",\"signature\":\"T\",\"summary\":[{\"type\":\"text\",\"text\":\"a\"},"
         "{\"type\":\"text\",\"text\":\"b\"}]},"
         "{\"type\":\"model_output\",\"content\":[{\"type\":\"text\",\"text\":\"x\",\"annotations\":["
         "{\"type\":\"url_citation\",\"url\":\"https://x\"}]}]},"
         "{\"type\":\"google_search_call\",\"id\":\"g\",\"arguments\":{\"queries\":[\"q\"]}},"
         "{\"type\":\"google_search_result\",\"call_id\":\"g\",\"result\":[],\"is_error\":false},"
         "{\"type\":\"function_call\",\"id\":\"c\",\"name\":\"f\",\"arguments\":{\"a\":1},"
         "\"signature\":\"V\"},"
         "{\"type\":\"function_result\",\"call_id\":\"c\",\"name\":\"f\",\"result\":\"r\"}]"},
    };
    for (size_t i = 0; i < COUNT(lists); i++) {
        ms_project_opts opts = everything;
        const ms_profile *profile = profile_of(lists[i].provider);
        history h = history_read(lists[i].provider, ms_str_of(lists[i].items));
        opts.thinking = true;
        for (size_t k = 0; k < h.n; k++) { /* a caller's own members are not the item's */
            h.items[k].extra = MS_STR("{\"mine\":1}");
            assert_int_equal(ms_encode(&h.items[k], &arena, &h.msgs[k], NULL), MS_OK);
        }
        ms_str list = list_in(sound(profile, &opts, &h));
        if (!ms_str_equal(list, ms_str_of(lists[i].items)))
            fail_msg("%.*s\ninstead of\n%s", (int)list.len, list.ptr, lists[i].items);
    }
}

TEST(parts_become_the_forms_that_requests_know)
{
    const ms_part parts[] = {{.text = MS_STR("look \"here\"")},
                             {.bytes = MS_STR("\0\xff!"), .mime = MS_STR("image/png")},
                             {.url = MS_STR("https://example.org/a.png")},
                             {.bytes = MS_STR("%PDF"), .mime = MS_STR("application/pdf")},
                             {.bytes = MS_STR("%PDF"), .mime = MS_STR("application/pdf"),
                              .name = MS_STR("a.pdf")},
                             {.url = MS_STR("https://example.org/a.pdf"),
                              .mime = MS_STR("application/pdf")},
                             {.bytes = MS_STR("RIFF"), .mime = MS_STR("audio/wav")},
                             {.url = MS_STR("https://example.org/a.mp3"),
                              .mime = MS_STR("audio/mpeg")},
                             {.file_id = MS_STR("file-1"), .provider = MS_STR("openai")},
                             {.file_id = MS_STR("file-2"), .mime = MS_STR("image/png"),
                              .provider = MS_STR("openai-responses")},
                             {.file_id = MS_STR("file_3"), .name = MS_STR("n"),
                              .provider = MS_STR("anthropic")},
                             {.url = MS_STR("https://example.org/b"),
                              .mime = MS_STR("image/gif")},
                             {.file_id = MS_STR("file_4"), .mime = MS_STR("audio/wav"),
                              .provider = MS_STR("anthropic")}};
    parts_must_be(parts, COUNT(parts),
                  "[{\"type\":\"text\",\"text\":\"look \\\"here\\\"\"},"
                  "{\"type\":\"image\",\"source\":{\"type\":\"base64\","
                  "\"media_type\":\"image/png\",\"data\":\"AP8h\"}},"
                  "{\"type\":\"image_url\",\"image_url\":"
                  "{\"url\":\"https://example.org/a.png\"}},"
                  "{\"type\":\"document\",\"source\":{\"type\":\"base64\","
                  "\"media_type\":\"application/pdf\",\"data\":\"JVBERg==\"}},"
                  "{\"type\":\"document\",\"source\":{\"type\":\"base64\","
                  "\"media_type\":\"application/pdf\",\"data\":\"JVBERg==\"},"
                  "\"title\":\"a.pdf\"},"
                  "{\"type\":\"document\",\"source\":{\"type\":\"url\",\"media_type\":"
                  "\"application/pdf\",\"url\":\"https://example.org/a.pdf\"}},"
                  "{\"type\":\"audio\",\"mimeType\":\"audio/wav\",\"data\":\"UklGRg==\"},"
                  "{\"kind\":\"audio-url\",\"url\":\"https://example.org/a.mp3\","
                  "\"media_type\":\"audio/mpeg\"},"
                  "{\"type\":\"input_file\",\"file_id\":\"file-1\"},"
                  "{\"type\":\"input_image\",\"file_id\":\"file-2\"},"
                  "{\"type\":\"document\",\"source\":{\"type\":\"file\",\"file_id\":"
                  "\"file_3\"},\"title\":\"n\"},"
                  "{\"type\":\"image_url\",\"image_url\":{\"url\":\"https://example.org/b\"}},"
                  "{\"type\":\"document\",\"source\":{\"type\":\"file\",\"file_id\":"
                  "\"file_4\"}}]");
    parts_must_be(parts, 0, "[]");
    parts_must_be(NULL, 0, "[]");
}

/* What ms_parts writes, each provider gets in its own form, or a text and a count. */
TEST(parts_that_are_made_go_where_they_are_taken)
{
    const ms_part parts[] = {
        {.bytes = MS_STR("PNG"), .mime = MS_STR("image/png")},
        {.url = MS_STR("https://example.org/a.png")},
        {.bytes = MS_STR("%PDF"), .mime = MS_STR("application/pdf")},
        {.url = MS_STR("https://example.org/a.pdf"), .mime = MS_STR("application/pdf")},
        {.bytes = MS_STR("RIFF"), .mime = MS_STR("audio/wav")},
        {.url = MS_STR("https://example.org/a.mp3"), .mime = MS_STR("audio/mpeg")},
        {.file_id = MS_STR("file-1"), .provider = MS_STR("openai")},
        {.file_id = MS_STR("file_3"), .provider = MS_STR("anthropic")},
    };
    /* for each profile in order: 1 for a part that it takes */
    static const struct {
        const char *profile, *takes;
    } wanted[] = {
        {"openai", "11101010"},     {"chat-strict", "11000000"}, {"anthropic", "11110001"},
        {"gemini", "11111100"},     {"pydantic-ai", "11111100"}, {"ollama", "10000000"},
        {"deepseek", "00000000"},   {"glm", "11000000"},         {"openrouter", "11111000"},
        {"openai-responses", "11110010"}, {"bedrock", "10101000"},
        {"gemini-interactions", "11111100"}, {"cohere", "11000000"},
    };
    assert_int_equal(COUNT(wanted), PROFILES);
    for (size_t k = 0; k < PROFILES; k++) {
        for (size_t i = 0; i < COUNT(parts); i++) {
            ms_value content;
            ms_project_report report;
            history h = history_of(1);
            assert_int_equal(ms_parts(&parts[i], 1, &arena, &content, NULL), MS_OK);
            add(&h, ms_user_message(content));
            ms_str body = sound(profile_of(wanted[k].profile), &everything, &h);
            (void)projected(profile_of(wanted[k].profile), &everything, &h, 1, &report, NULL);
            bool left = has_text(body, " left out]"), taken = wanted[k].takes[i] == '1';
            if (left == taken || (report.wrapped != 0) != (left || has_text(body,
                                                              "[document]")))
                fail_msg("%s, part %lu: %.*s", wanted[k].profile, (unsigned long)i,
                         (int)body.len, body.ptr);
        }
    }
}

/* The size of a file is what the budget sees, in a result too, wherever it is sent. */
TEST(files_count_as_their_size)
{
    static const struct {
        const char *mime;
        size_t bytes;
        uint64_t cost;
    } wanted[] = {{"image/png", 4800, 1000}, {"application/pdf", 4800, 1000 + 6400 / 64},
                  {"audio/wav", 4800, 1000 + 6400 / 512}, {"text/plain", 4800, 1200}};
    static const char *const names[] = {"openai", "bedrock"};
    for (size_t i = 0; i < 2 * COUNT(wanted); i++) {
        ms_part part = {.mime = ms_str_of(wanted[i / 2].mime)};
        ms_project_report report;
        ms_value content;
        history h = history_of(4);
        part.bytes = text_of_size(wanted[i / 2].bytes).text;
        assert_int_equal(ms_parts(&part, 1, &arena, &content, NULL), MS_OK);
        add(&h, ms_user_message(content));
        (void)projected(profile_of(names[i % 2]), &everything, &h, 1, &report, NULL);
        uint64_t alone = report.cost - 4;
        if (i % 2 == 0 || i < 6) assert_int_equal(alone, wanted[i / 2].cost);
        add(&h, action("x", "f"));
        add(&h, observation("x", content));
        (void)projected(profile_of(names[i % 2]), &everything, &h, 3, &report, NULL);
        assert_true(report.cost >= 2 * alone && report.cost < 2 * alone + 40);
    }
}

/* A name that no provider takes, and files of every kind in results and by themselves. */
TEST(files_of_any_name_and_place_are_taken)
{
    static const char *const names[] = {"a", "a", "r\xc3\xa9sum\xc3\xa9.pdf", "a  b", " ", "_", "a-2",
                                        "a\"b\\c", "x.y.z", "()[]", "a"};
    char longest[400];
    uint64_t random = test_seed();
    memset(longest, 'n', sizeof longest);
    memcpy(longest + 119, "\xf0\x9f\x98\x80", 4);
    for (size_t i = 0; i < test_times(300); i++) {
        history h = history_of(8);
        for (size_t m = 0; m < 8; m++) {
            ms_part parts[4];
            ms_value content;
            size_t n = 1 + test_below(&random, 4);
            memset(parts, 0, sizeof parts);
            for (size_t k = 0; k < n; k++) {
                size_t kind = test_below(&random, 6);
                ms_part *part = &parts[k];
                size_t name = test_below(&random, COUNT(names) + 1);
                part->name = name < COUNT(names) ? ms_str_of(names[name])
                                                 : ms_str_n(longest, sizeof longest);
                part->bytes = MS_STR("text");
                part->mime = kind == 0   ? MS_STR("application/pdf")
                             : kind == 1 ? MS_STR("text/csv")
                             : kind == 2 ? MS_STR("audio/mp3")
                             : kind == 3 ? MS_STR("image/webp") : MS_STR("text/x-c");
                if (kind == 4) part->bytes = MS_STR("\xff\xfe");
                if (kind == 5) {
                    memset(part, 0, sizeof *part);
                    part->text = MS_STR("words");
                }
            }
            assert_int_equal(ms_parts(parts, n, &arena, &content, NULL), MS_OK);
            size_t type = test_below(&random, 4);
            add(&h, type == 0   ? ms_user_message(content)
                    : type == 1 ? action(NULL, "f")
                    : type == 2 ? observation(NULL, content)
                                : ms_assistant_message(content));
        }
        sound_for_all(&everything, &h);
        (void)reset(NULL);
    }
}

/* Content in any spelling: what of it is sent, and how many parts become a text. */
TEST(parts_of_odd_spellings_are_taken_or_named)
{
#define LONG_130                                                                           \
    "0123456789012345678901234567890123456789012345678901234567890123456789"             \
    "012345678901234567890123456789012345678901234567890123456789"
#define TEXT_DOCUMENT(data) "{\"type\":\"document\",\"title\":\"n.txt\",\"source\":{\"type\":\"base64\","   \
                            "\"media_type\":\"text/plain\",\"data\":\"" data "\"}}"
    static const struct {
        const char *provider, *content, *has;
        unsigned wrapped;
    } wanted[] = {
        /* bytes that are no base64 */
        {"openai", "[{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,=\"}}]",
         "[image_url left out]", 1},
        {"openai", "[{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,AAAAA\"}}]",
         "[image_url left out]", 1},
        {"openai", "[" TEXT_DOCUMENT("!!!") "]", "[document left out]", 1},
        {"openai", "[{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:" LONG_130
         ";base64,AAAA\"}}]", "[image_url left out]", 1},
        /* a document of text: as a text, with its name; without a word its name alone */
        {"openai", "[" TEXT_DOCUMENT("fn4+") "]", "[n.txt]\\n~~>", 1},
        {"anthropic", "[" TEXT_DOCUMENT("ICA=") "]", "[n.txt]\\n  ", 1},
        {"anthropic", "[{\"document\":{\"name\":\"n\",\"format\":\"txt\",\"source\":{\"text\":"
         "\"hello\"}}}]", "\"type\":\"text\",\"media_type\":\"text/plain\",\"data\":\"hello\"", 0},
        /* of two places of a file the bytes count; another text in a picture does not */
        {"anthropic", "[{\"type\":\"image\",\"data\":\"QUJD\",\"mimeType\":\"image/png\",\"uri\":"
         "\"https://example.org/a\"}]", "\"data\":\"QUJD\"", 0},
        {"anthropic", "[{\"image\":{\"format\":\"png\",\"text\":\"alt\",\"source\":{\"bytes\":\"QUJD\"}}}]",
         "\"media_type\":\"image/png\",\"data\":\"QUJD\"", 0},
        /* members of a document that Claude does not take so */
        {"anthropic", "[{\"type\":\"document\",\"context\":\"\",\"citations\":\"x\",\"source\":{"
         "\"media_type\":\"application/pdf\",\"data\":\"JVBERg==\"}}]",
         "\"media_type\":\"application/pdf\",\"data\":\"JVBERg==\"}}]", 0},
        /* files that the provider has no form for */
        {"openai", "[{\"kind\":\"image-url\",\"url\":\"https://example.org/a\",\"media_type\":"
         "\"image/x-odd\"}]", "[image-url left out]", 1},
        {"openai", "[{\"type\":\"input_file\",\"file_id\":\"\"}]", "[input_file left out]", 1},
        {"openai", "[{\"kind\":\"video-url\",\"url\":\"https://example.org/v\"}]",
         "[video-url left out]", 1},
        {"openai", "[{\"type\":\"redacted_thinking\",\"data\":\"x\"},{\"type\":\"text\",\"text\":\"a\"}]",
         "\"content\":\"a\"", 0},
        /* a member that is the file itself */
        {"anthropic", "[{\"type\":\"file\",\"file\":\"https://example.org/a.pdf\"}]",
         "\"type\":\"url\",\"url\":\"https://example.org/a.pdf\"", 0},
        {"openai", "[{\"type\":\"input_audio\",\"input_audio\":\"data:audio/wav;base64,UklGRg==\"}]",
         "\"data\":\"UklGRg==\",\"format\":\"wav\"", 0},
        /* one part without a list, and data that is none */
        {"anthropic", "{\"type\":\"document\",\"data\":\"JVBERg==\",\"mime_type\":\"application/pdf\"}",
         "\"media_type\":\"application/pdf\",\"data\":\"JVBERg==\"", 0},
        {"openai", "{\"type\":\"text\",\"text\":\"a\"}", "\"content\":\"a\"", 0},
        {"openai", "{\"text\":\"a\"}", "\"content\":\"{\\\"text\\\":\\\"a\\\"}\"", 0},
        {"openai", "{\"type\":\"redacted_thinking\",\"data\":\"x\"}",
         "\"{\\\"type\\\":\\\"redacted_thinking\\\",\\\"data\\\":\\\"x\\\"}\"", 0},
    };
    for (size_t i = 0; i < COUNT(wanted); i++) {
        ms_project_report report;
        history h = history_of(1);
        add(&h, ms_user_message(ms_json(ms_str_of(wanted[i].content))));
        const ms_profile *profile = profile_of(wanted[i].provider);
        ms_str body = sound(profile, &everything, &h);
        (void)projected(profile, &everything, &h, 1, &report, NULL);
        if (!has_text(body, wanted[i].has) || report.wrapped != wanted[i].wrapped)
            fail_msg("row %zu: %llu wrapped\n%.*s", i, (unsigned long long)report.wrapped,
                     (int)body.len, body.ptr);
    }
}

/* Results are data unless they are a picture, or a document in an object of its own. */
TEST(objects_of_tools_are_data)
{
    static const struct {
        const char *content;
        bool data;
    } wanted[] = {
        {"{\"type\":\"text\",\"text\":\"a\"}", true}, {"{\"text\":\"a\"}", true},
        {"{\"type\":\"document\",\"data\":\"JVBERg==\",\"mime_type\":\"application/pdf\"}", true},
        {"{\"type\":\"image\",\"data\":\"QUJD\",\"mimeType\":\"image/png\"}", false},
        {"{\"type\":\"document\",\"source\":{\"type\":\"base64\",\"media_type\":\"application/pdf\","
         "\"data\":\"JVBERg==\"}}", false},
    };
    for (size_t i = 0; i < COUNT(wanted); i++) {
        history h = history_of(2);
        add(&h, action("x", "f"));
        add(&h, observation("x", ms_json(ms_str_of(wanted[i].content))));
        ms_str body = sound(profile_of("anthropic"), &everything, &h);
        if (has_text(body, "{\\\"t") != wanted[i].data)
            fail_msg("row %zu: %.*s", i, (int)body.len, body.ptr);
    }
}

TEST(bytes_of_parts_are_base64_at_any_length)
{
    static const char *const data[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=",
                                       "Zm9vYmFy"}; /* RFC 4648, section 10 */
    for (size_t n = 0; n < COUNT(data); n++) {
        char expected[200];
        ms_part part = {.bytes = ms_str_n("foobar", n), .mime = MS_STR("image/gif")};
        snprintf(expected, sizeof expected,
                 "[{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":"
                 "\"image/gif\",\"data\":\"%s\"}}]", data[n]);
        parts_must_be(&part, 1, expected);
    }
}

TEST(parts_are_refused_when_they_do_not_say_what_they_are)
{
    const ms_part wrong[] = {{.mime = MS_STR("image/png")},
                             {.text = MS_STR("a"), .url = MS_STR("b")},
                             {.bytes = MS_STR("a")},
                             {.file_id = MS_STR("a")},
                             {.file_id = MS_STR("a"), .provider = MS_STR("deepseek")},
                             {.file_id = MS_STR("a"), .provider = MS_STR("gemini")}};
    static const char *const why[] = {
        "part 1 has 0 of text, bytes, url and file_id, one was expected",
        "part 1 has 2 of text, bytes, url and file_id, one was expected",
        "part 1 has bytes and no media type",
        "part 1 has a file_id, and provider '' has none: openai, openai-responses and "
        "anthropic have",
        "part 1 has a file_id, and provider 'deepseek' has none: openai, openai-responses "
        "and anthropic have",
        "part 1 has a file_id, and provider 'gemini' has none: openai, openai-responses "
        "and anthropic have"};
    static uint64_t room[8];
    ms_value content;
    ms_error err;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        const ms_part two[] = {{.text = MS_STR("first")}, wrong[i]};
        assert_int_equal(ms_parts(two, 2, &work, &content, &err), MS_E_ARGUMENT);
        assert_string_equal(err.message, why[i]);
        assert_null(content.text.ptr);
    }
    ms_arena small;
    test_arena_init_fixed(&small, room, sizeof room);
    const ms_part part = {.text = MS_STR("more than there is room for in so small an arena")};
    assert_int_equal(ms_parts(&part, 1, &small, &content, &err), MS_E_ARENA);
    assert_int_equal(ms_parts(&part, 1, NULL, &content, &err), MS_E_ARENA);
}

int main(void)
{
    load_rows();
    add_table(rows, row_count, row_becomes_its_request);
    return run_all_tests(reset, reset);
}
