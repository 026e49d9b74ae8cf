/* What a provider can cache: how much of a request is the beginning of the next one, and
 * where breakpoints stand. */

#define _GNU_SOURCE

#include "low_memory.h"
#include "project.h"

enum { TURNS = 50 };

static const char mark_of_anthropic[] = ",\"cache_control\":{\"type\":\"ephemeral\"}";
static const char mark_of_bedrock[] = ",{\"cachePoint\":{\"type\":\"default\"}}";

/* Thinking as ms_answer stores it, for any profile. */
static ms_envelope thought(const char *provider, size_t n)
{
    char *extra = (char *)ms_arena_alloc(&arena, 300);
    ms_envelope m = ms_message(MS_T_REASONING, ms_text("Let me see."));
    snprintf(extra, 300,
             "{\"signed\":{\"provider\":\"%s\",\"signature\":\"c2ln\",\"item\":{\"type\":"
             "\"reasoning\",\"id\":\"rs_%lu\",\"summary\":[],\"encrypted_content\":\"e\"}}}",
             provider, (unsigned long)n);
    m.extra = ms_str_of(extra);
    return m;
}

/* Turns of a question, thinking, a call, its result and an answer. In every tenth the user
 * speaks before the answer, if asked for. */
static history conversation(const char *provider, bool interrupts)
{
    history h = history_of(6 * TURNS);
    for (size_t i = 0; i < TURNS; i++) {
        ms_envelope m;
        add(&h, ms_user_message(ms_text("Look at the next file and tell me what it does.")));
        m = thought(provider, i);
        add(&h, m);
        m = action(NULL, "read");
        m.flags |= MS_FLAG_JOINED;
        add(&h, m);
        add(&h, observation(NULL, text_of_size(400 + 100 * (i % 7))));
        if (interrupts && i % 10 == 9) add(&h, ms_user_message(ms_text("Be brief.")));
        add(&h, ms_assistant_message(ms_text("It reads the file and counts its lines.")));
    }
    return h;
}

/* Returns whether a request is made when message n - 1 is the last. */
static bool is_asked(const history *h, size_t n)
{
    ms_type type = h->items[n - 1].type;
    return type == MS_T_USER_MESSAGE || type == MS_T_OBSERVATION;
}

static const char *tools_of(const ms_profile *profile)
{
    return profile->wire == MS_WIRE_ANTHROPIC
               ? "[{\"name\":\"a\",\"input_schema\":{}},{\"name\":\"read\",\"input_schema\":{}}]"
           : profile->wire == MS_WIRE_BEDROCK
               ? "[{\"toolSpec\":{\"name\":\"read\",\"inputSchema\":{\"json\":{}}}}]"
           : profile->wire == MS_WIRE_GEMINI
               ? "[{\"functionDeclarations\":[{\"name\":\"read\"}]}]"
           : profile->wire == MS_WIRE_RESPONSES || profile->wire == MS_WIRE_INTERACTIONS
               ? "[{\"type\":\"function\",\"name\":\"read\",\"parameters\":{}}]"
               : "[{\"type\":\"function\",\"function\":{\"name\":\"read\"}}]";
}

/* A request over messages [0, n), in `in`. */
static ms_result request_to(const ms_profile *profile, const ms_project_opts *opts,
                            const history *h, size_t n, const char *tools, ms_str extra,
                            ms_arena *in, ms_buf *out, ms_project_report *report)
{
    feed f = {h, 0, n};
    ms_request_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.profile = profile;
    desc.opts = *opts;
    desc.opts.model = MS_STR("m");
    desc.next = feed_next;
    desc.next_ctx = &f;
    desc.arena = in;
    desc.tools = ms_str_of(tools);
    desc.extra = extra;
    if (profile->wire == MS_WIRE_PYDANTIC)
        return ms_project(&desc, ms_buf_write, out, report, NULL);
    return ms_request(&desc, ms_buf_write, out, report, NULL);
}

static ms_str request(const ms_profile *profile, const ms_project_opts *opts,
                      const history *h, size_t n, const char *tools, ms_str extra,
                      ms_project_report *report)
{
    ms_buf out = {&work, NULL, 0, 0};
    assert_int_equal(request_to(profile, opts, h, n, tools, extra, &work, &out, report),
                     MS_OK);
    return ms_buf_text(&out);
}

/* Returns a copy in `in` of the list of a request, without its end: what the provider
 * reads after system text and tools, which stay the same. */
static ms_str list_text(ms_str body, ms_arena *in)
{
    ms_str list = list_in(body);
    char *copy = (char *)ms_arena_alloc(in, list.len);
    memcpy(copy, list.ptr, list.len);
    return ms_str_n(copy, list.len - 1);
}

static size_t common(ms_str a, ms_str b)
{
    size_t n = 0;
    while (n < a.len && n < b.len && a.ptr[n] == b.ptr[n]) n++;
    return n;
}

/* Returns how much of each request is the beginning of the next one, in thousandths. */
static uint64_t kept_of_thousand(const ms_profile *profile, const ms_project_opts *opts)
{
    history h = conversation(profile->name, true);
    ms_str before = ms_str_of(NULL);
    uint64_t all = 0, same = 0;
    for (size_t n = 1; n <= h.n; n++) {
        if (!is_asked(&h, n)) continue;
        ms_str body = request(profile, opts, &h, n, tools_of(profile), ms_str_of(NULL), NULL);
        ms_str list = list_text(body, &kept);
        bool thinks = has_text(list, "Let me see.") || has_text(list, "\"rs_");
        if (n > 10 && profile->thinking == MS_THINKING_ALL && opts->newest == 0)
            assert_int_equal(thinks, opts->thinking != MS_THINKING_OFF);
        all += before.len;
        same += before.ptr != NULL ? common(before, list) : 0;
        before = list;
        ms_arena_reset(&work);
    }
    return same * 1000 / all;
}

/* The floor is what was measured, rounded down to five thousandths. Where the user speaks
 * before the answer, a message of Anthropic, Bedrock and pydantic-ai goes on: its end is
 * another. chat-strict and Ollama leave out thinking of a turn that is over. With the
 * window the start moves by 40 messages at a time. */
TEST(requests_begin_with_the_request_before)
{
    static const struct {
        const char *profile;
        uint64_t whole, thinking, window;
    } floors[] = {
        {"openai", 1000, 1000, 920},     {"chat-strict", 1000, 980, 865},
        {"anthropic", 995, 995, 920},    {"gemini", 1000, 1000, 920},
        {"pydantic-ai", 995, 995, 935},  {"ollama", 1000, 980, 870},
        {"deepseek", 1000, 1000, 920},   {"glm", 1000, 1000, 920},
        {"openrouter", 1000, 1000, 920}, {"openai-responses", 1000, 1000, 920},
        {"bedrock", 995, 995, 920},      {"gemini-interactions", 1000, 1000, 920},
        {"cohere", 1000, 980, 870},
    };
    assert_int_equal(COUNT(floors), PROFILES);
    for (size_t k = 0; k < PROFILES; k++) {
        const ms_profile *profile = profile_of(floors[k].profile);
        ms_project_opts opts = everything;
        char name[80];
        opts.stable = true;
        opts.system = MS_STR("You read files.");
        uint64_t whole = kept_of_thousand(profile, &opts);
        (void)reset(NULL);
        opts.thinking = MS_THINKING_ON;
        uint64_t thinking = kept_of_thousand(profile, &opts);
        (void)reset(NULL);
        opts.newest = 60;
        opts.step = 40;
        uint64_t window = kept_of_thousand(profile, &opts);
        (void)reset(NULL);
        printf("%s: %llu, with thinking %llu, with a window %llu of 1000 bytes stay\n",
               profile->name, (unsigned long long)whole, (unsigned long long)thinking,
               (unsigned long long)window);
        snprintf(name, sizeof name, "of 1000 bytes of a request for %s stay in the next",
                 profile->name);
        test_tally(name, whole);
        assert_true(whole >= floors[k].whole);
        assert_true(thinking >= floors[k].thinking);
        assert_true(window >= floors[k].window);
    }
}


/* ---- breakpoints ---- */

/* Copies a body without its breakpoints; ends[i] is where the i-th one stood. */
static ms_str without_marks(ms_str body, const char *mark, size_t ends[8], size_t *n)
{
    char *copy = (char *)ms_arena_alloc(&kept, body.len + 1);
    size_t len = 0, size = strlen(mark);
    *n = 0;
    for (size_t i = 0; i < body.len;) {
        if (i + size <= body.len && memcmp(body.ptr + i, mark, size) == 0) {
            assert_true(*n < 8);
            ends[(*n)++] = len;
            i += size;
            continue;
        }
        copy[len++] = body.ptr[i++];
    }
    return ms_str_n(copy, len);
}

static void must_be_linted(const ms_profile *profile, ms_str body)
{
    char why[PROVIDER_LINT_TEXT];
    ms_str part = profile->wire == MS_WIRE_BEDROCK
                      ? body : provider_lint_part(profile->name, body, &work);
    if (provider_lint(profile->name, part, why) != NULL)
        fail_msg("%s refuses: %s: %.*s", profile->name, why, (int)body.len, body.ptr);
}

/* Each request has a breakpoint at its end, and one where the request before had its
 * own. What stands before that one is the same. */
TEST(breakpoints_stand_where_the_request_before_ended)
{
    static const char *const names[] = {"anthropic", "bedrock"};
    for (size_t k = 0; k < 8; k++) {
        const ms_profile *profile = profile_of(names[k % 2]);
        const char *mark = k % 2 == 0 ? mark_of_anthropic : mark_of_bedrock;
        ms_project_opts opts = everything;
        history h = conversation(profile->name, k >= 4);
        ms_str before = ms_str_of(NULL);
        size_t end = 0, requests = 0;
        opts.thinking = k % 4 < 2 ? MS_THINKING_OFF : MS_THINKING_ON;
        opts.system = MS_STR("You read files.");
        opts.cache = MS_CACHE_5M;
        for (size_t n = 1; n <= h.n; n++) {
            ms_project_report report;
            size_t ends[8], count;
            if (!is_asked(&h, n)) continue;
            ms_str body = request(profile, &opts, &h, n, tools_of(profile), ms_str_of(NULL),
                                  &report);
            must_be_linted(profile, body);
            ms_str plain = without_marks(body, mark, ends, &count);
            assert_int_equal(count, requests == 0 ? 2 : 3);
            assert_int_equal(report.breakpoints, count);
            bool goes_on = n > 1 && h.items[n - 2].type == MS_T_OBSERVATION;
            if (requests++ > 0 && !goes_on) { /* else the end is inside of a message */
                assert_int_equal(ends[count - 2], end);
                assert_memory_equal(plain.ptr, before.ptr, end);
            }
            assert_true(plain.len - ends[count - 1] < 200); /* tools follow */
            before = plain;
            end = ends[count - 1];
            ms_arena_reset(&work);
        }
        (void)reset(NULL);
    }
}

/* After the tools without system text; not beside those of the caller, of which there may
 * be four with those in tools and extra; for an hour; and never unasked. */
TEST(breakpoints_are_four_at_most)
{
    static const char mark[] = "{\"type\":\"ephemeral\"}";
    static const struct {
        const char *profile, *tools, *extra, *has;
        size_t count;
        ms_cache cache;
        bool system;
    } wanted[] = {
        {"anthropic", "[{\"name\":\"a\",\"input_schema\":{}}]", NULL,
         "\"tools\":[{\"name\":\"a\",\"input_schema\":{},\"cache_control\":{\"type\":"
         "\"ephemeral\"}}]", 3, MS_CACHE_5M, false},
        {"anthropic", "[{\"name\":\"a\",\"input_schema\":{}}]", NULL,
         "\"system\":[{\"type\":\"text\",\"text\":\"s\",\"cache_control\":{\"type\":"
         "\"ephemeral\",\"ttl\":\"1h\"}}]", 3, MS_CACHE_1H, true},
        {"anthropic", "[{\"name\":\"a\",\"input_schema\":{},\"defer_loading\":true}]", NULL,
         "\"defer_loading\":true}]", 2, MS_CACHE_5M, false},
        {"anthropic", "[]", NULL, "\"tools\":[]", 2, MS_CACHE_5M, false},
        {"anthropic", NULL, "{\"cache_control\":{\"type\":\"ephemeral\"}}", NULL, 3,
         MS_CACHE_5M, true},
        {"anthropic", "[{\"name\":\"a\",\"input_schema\":{},\"cache_control\":{\"type\":"
         "\"ephemeral\"}},{\"name\":\"b\",\"input_schema\":{},\"cache_control\":{\"type\":"
         "\"ephemeral\"}}]", NULL, NULL, 2, MS_CACHE_5M, true},
        {"anthropic", "[{\"name\":\"a\",\"input_schema\":{},\"cache_control\":{\"type\":"
         "\"ephemeral\"}},{\"name\":\"b\",\"input_schema\":{},\"cache_control\":{\"type\":"
         "\"ephemeral\"}},{\"name\":\"c\",\"input_schema\":{},\"cache_control\":{\"type\":"
         "\"ephemeral\"}}]", "{\"cache_control\":{\"type\":\"ephemeral\"}}", NULL, 0,
         MS_CACHE_5M, true},
        {"bedrock", "[{\"toolSpec\":{\"name\":\"read\",\"inputSchema\":{\"json\":{}}}}]", NULL,
         "{\"json\":{}}}},{\"cachePoint\":{\"type\":\"default\",\"ttl\":\"1h\"}}]}", 3,
         MS_CACHE_1H, false},
        {"bedrock", "[{\"toolSpec\":{\"name\":\"read\",\"inputSchema\":{\"json\":{}}}}]", NULL,
         "\"system\":[{\"text\":\"s\"},{\"cachePoint\":{\"type\":\"default\"}}]", 3,
         MS_CACHE_5M, true},
        {"bedrock", "[{\"toolSpec\":{\"name\":\"read\",\"inputSchema\":{\"json\":{}}}},{\"cachePoint\":{"
         "\"type\":\"default\"}}]", NULL, "{\"json\":{}}}},{\"cachePoint\":{\"type\":\"default\"}}]}",
         2, MS_CACHE_5M, false},
        {"anthropic", "[{\"name\":\"a\",\"input_schema\":{},\"cache_control\":{\"type\":"
         "\"ephemeral\"}}]", NULL, NULL, 2, MS_CACHE_5M, false},
        {"anthropic", NULL, NULL, "\"system\":\"s\"", 0, MS_CACHE_OFF, true},
    };
    for (size_t i = 0; i < COUNT(wanted); i++) {
        const ms_profile *profile = profile_of(wanted[i].profile);
        ms_project_opts opts = everything;
        ms_project_report report;
        history h = conversation(profile->name, false);
        opts.cache = wanted[i].cache;
        if (wanted[i].system) opts.system = MS_STR("s");
        ms_str body = request(profile, &opts, &h, 12, wanted[i].tools,
                              ms_str_of(wanted[i].extra), &report);
        size_t all = 0;
        for (size_t at = 0; at + sizeof mark <= body.len; at++)
            all += memcmp(body.ptr + at, mark, sizeof mark - 1) == 0;
        must_be_linted(profile, body);
        if (report.breakpoints != wanted[i].count || all > 4 ||
            (wanted[i].has != NULL && !has_text(body, wanted[i].has)))
            fail_msg("row %lu: %llu: %.*s", (unsigned long)i,
                     (unsigned long long)report.breakpoints, (int)body.len, body.ptr);
        (void)reset(NULL);
    }
}

/* Providers without breakpoints get none, and the same bytes; a key goes to those that
 * have one, once. */
TEST(cache_options_change_nothing_elsewhere)
{
    static const char *const keyed[] = {"openai", "openai-responses"};
    for (size_t k = 0; k < PROFILES; k++) {
        const ms_profile *profile = ms_profile_at(k);
        ms_project_opts opts = everything;
        ms_project_report report;
        history h = conversation(profile->name, true);
        bool marks = profile->wire == MS_WIRE_ANTHROPIC || profile->wire == MS_WIRE_BEDROCK;
        bool has = strcmp(profile->name, keyed[0]) == 0 ||
                   strcmp(profile->name, keyed[1]) == 0;
        ms_str off = request(profile, &opts, &h, h.n, tools_of(profile), ms_str_of(NULL),
                             &report);
        assert_int_equal(report.breakpoints, 0);
        opts.cache = MS_CACHE_5M;
        ms_str on = request(profile, &opts, &h, h.n, tools_of(profile), ms_str_of(NULL),
                            &report);
        assert_int_equal(report.breakpoints > 0, marks);
        assert_int_equal(ms_str_equal(off, on), !marks);
        opts.cache_key = MS_STR("user \"1\"");
        on = request(profile, &opts, &h, h.n, tools_of(profile), ms_str_of(NULL), NULL);
        assert_int_equal(has_text(on, ",\"prompt_cache_key\":\"user \\\"1\\\"\""), has);
        assert_int_equal(has_text(on, "prompt_cache_key"), has);
        on = request(profile, &opts, &h, h.n, tools_of(profile),
                     MS_STR("{\"prompt_cache_key\":\"own\"}"), NULL);
        assert_false(has_text(on, "user \\\"1"));
        (void)reset(NULL);
    }
}

typedef struct cache_job {
    const ms_profile *profile;
    ms_project_opts opts;
    history h;
    ms_str whole;
} cache_job;

static ms_result run_cached(void *of, ms_arena *in)
{
    cache_job *j = (cache_job *)of;
    ms_buf out = {&kept, NULL, 0, 0};
    ms_result code = request_to(j->profile, &j->opts, &j->h, 12, tools_of(j->profile),
                                ms_str_of(NULL), in, &out, NULL);
    if (code == MS_OK) assert_true(ms_str_equal(ms_buf_text(&out), j->whole));
    ms_arena_reset(&kept);
    return code;
}

TEST(request_with_breakpoints_fails_as_a_whole_when_memory_ends)
{
    static const char *const names[] = {"anthropic", "bedrock"};
    size_t failed = 0;
    for (size_t k = 0; k < 2; k++) {
        cache_job j;
        memset(&j, 0, sizeof j);
        j.profile = profile_of(names[k]);
        j.opts = everything;
        j.opts.cache = MS_CACHE_5M;
        j.opts.system = MS_STR("s");
        j.h = conversation(names[k], true);
        j.whole = request(j.profile, &j.opts, &j.h, 12, tools_of(j.profile), ms_str_of(NULL),
                          NULL);
        failed += low_memory(run_cached, &j, 16);
        (void)reset(NULL);
    }
    assert_true(failed > 100);
}

int main(void)
{
    return run_all_tests(reset, reset);
}
