/* Prints projections and answers as lines of JSON, for the judges in tests/platform/sdk.
 *
 *     project STORE.msl      projections of every location of a log, and of the traces of
 *                            ../shared; of short ones at each start and end, of long ones
 *                            at sampled ones; with each way of sending thinking, and
 *                            judged by the linter at once
 *     project --answers      the answers of tests/tables/answers.jsonl, stored whole, each with
 *                            the next request (test_answer divides them at each byte)
 *
 * A line is {"profile", "source", "from", "to", "system", "messages"}, for answers
 * {"profile", "source", "body", "stream", "request"}. MS_TEST_SCALE is the percent of
 * windows, MS_SHARED the folder of test data.
 */

#define _GNU_SOURCE

#include "answers.h"
#include "provider_lint.h"
#include "traces.h"

#define PROFILES 14
#define SHORT 8       /* messages: every window */
#define WINDOWS 12    /* of a longer history, at 100 percent */

static ms_arena arena, work;

/* Returns a profile of the library, or one that a caller makes for Mistral's service. */
static const ms_profile *profile_at(size_t index)
{
    static ms_profile mistral;
    if (ms_profile_at(index) != NULL) return ms_profile_at(index);
    mistral = *ms_profile_find(MS_STR("chat-strict"));
    mistral.name = "mistral";
    mistral.ids = MS_IDS_ALNUM;
    mistral.id_min = mistral.id_max = 9;
    return &mistral;
}

/* Returns the JSON of a text. json_pack leaves out a member that is NULL. */
static json_t *json_of(ms_str text)
{
    size_t flags = JSON_ALLOW_NUL | JSON_DECODE_ANY | JSON_REJECT_DUPLICATES;
    return json_loadb(text.ptr, text.len, flags, NULL);
}

static json_t *string_of(ms_str text)
{
    return text.ptr != NULL ? json_stringn(text.ptr, text.len) : NULL;
}

static void print_line(json_t *line)
{
    if (line == NULL || json_dumpf(line, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17)) != 0)
        exit(1);
    putchar('\n');
    json_decref(line);
    ms_arena_reset(&work);
}

typedef struct history {
    const ms_msg **msgs;
    size_t n, at, end;
} history;

static const ms_msg *next_of(void *ctx)
{
    history *h = (history *)ctx;
    return h->at < h->end ? h->msgs[h->at++] : NULL;
}

/* Ends the program if the linter refuses a list: its rules of pairs are those of the
 * services, which the types of packages do not have. OpenAI itself has no member for
 * thinking. */
static void lint_list(const ms_request_desc *desc, ms_str list, const char *name)
{
    char why[PROVIDER_LINT_TEXT];
    const ms_profile *profile = desc->profile;
    ms_buf body = {&work, NULL, 0, 0};
    ms_json_writer w;
    if (profile->wire == MS_WIRE_PYDANTIC || strcmp(profile->name, "mistral") == 0 ||
        (strcmp(profile->name, "openai") == 0 && desc->opts.thinking != MS_THINKING_OFF))
        return;
    ms_json_init(&w, ms_buf_write, &body, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    ms_json_key(&w, ms_str_of(list_member(profile)));
    ms_json_put_raw(&w, list);
    ms_json_end(&w);
    if (ms_json_finish(&w) != MS_OK) exit(1);
    bool whole = profile->system == MS_SYSTEM_SEPARATE;
    if (provider_lint(profile->name, whole ? ms_buf_text(&body) : list, why) == NULL) return;
    fprintf(stderr, "%s: %s refuses: %s\n", name, profile->name, why);
    exit(1);
}

/* Thinking is sent in each of its ways, by turns. */
static void print_window(history *h, const char *name, size_t from, size_t to)
{
    static unsigned windows;
    ms_thinking thinking = (ms_thinking)(windows++ % (MS_THINKING_ALL + 1));
    for (size_t i = 0; i < PROFILES; i++) {
        ms_request_desc desc;
        ms_project_report report;
        ms_error err;
        ms_buf list = {&work, NULL, 0, 0};
        memset(&desc, 0, sizeof desc);
        desc.arena = &work;
        desc.profile = profile_at(i);
        desc.opts.stable = true;
        desc.opts.thinking = thinking;
        desc.next = next_of;
        desc.next_ctx = h;
        h->at = from;
        h->end = to;
        if (ms_project(&desc, ms_buf_write, &list, &report, &err) != MS_OK) {
            fprintf(stderr, "%s: %s\n", name, err.message);
            exit(1);
        }
        lint_list(&desc, ms_buf_text(&list), name);
        print_line(json_pack("{s:s, s:s, s:I, s:I, s:o*, s:o}", "profile",
                             desc.profile->name, "source", name, "from", (json_int_t)from,
                             "to", (json_int_t)to, "system", string_of(report.system),
                             "messages", json_of(ms_buf_text(&list))));
    }
}

static void print_windows(history *h, const char *name)
{
    uint64_t random = 20260101;
    if (h->n <= SHORT) {
        for (size_t from = 0; from < h->n; from++)
            for (size_t to = from + 1; to <= h->n; to++) print_window(h, name, from, to);
        return;
    }
    for (size_t i = 0; i < test_times(WINDOWS); i++) {
        size_t most = h->n < 24 ? h->n : 24;
        size_t from = test_below(&random, h->n), to = from + 1 + test_below(&random, most);
        print_window(h, name, from, to < h->n ? to : h->n);
    }
    print_window(h, name, 0, h->n < 60 ? h->n : 60);
}

/* Prints the windows of a list of messages; leaves out one that its format refuses. */
static void print_list(const char *format, const char *text, const char *name)
{
    static const ms_read_opts lenient = {true, true};
    ms_envelopes list;
    ms_error err;
    history h = {NULL, 0, 0, 0};
    if (ms_read_list(ms_format_find(ms_str_of(format)), ms_str_of(text), &lenient, &arena,
                     &list, &err) != MS_OK) {
        fprintf(stderr, "%s: %s %s\n", name, err.path, err.message);
        return;
    }
    h.msgs = (const ms_msg **)ms_arena_alloc(&arena, (list.count + 1) * sizeof *h.msgs);
    for (size_t k = 0; k < list.count; k++) {
        list.items[k].seq = k + 1;
        if (ms_encode(&list.items[k], &arena, &h.msgs[h.n], &err) == MS_OK) h.n++;
    }
    print_windows(&h, name);
    ms_arena_reset(&arena);
}

static void print_traces(void)
{
    static trace traces[TRACES_MOST];
    size_t n = traces_load(traces, TRACES_MOST);
    for (size_t i = 0; i < n; i++) {
        char *text = json_dumps(traces[i].messages, JSON_COMPACT);
        print_list("openai", text, traces[i].name);
        free(text);
    }
    traces_free(traces, n);
}

/* Prints pictures, documents and sounds of users and in results in three formats: traces
 * have none. */
static void print_pictures(void)
{
#define DOT "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    static const struct {
        const char *format, *list;
    } rows[] = {
        {"openai",
         "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"What is it?\"},{"
         "\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64," DOT
         "\"}}]},{\"role\":\"assistant\",\"content\":\"A dot.\"},{\"role\":\"user\","
         "\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":"
         "\"https://example.org/a.png\"}},{\"type\":\"text\",\"text\":\"And this?\"}]}]"},
        {"anthropic",
         "[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"source\":{\"type\":\"base64\","
         "\"media_type\":\"image/png\",\"data\":\"" DOT "\"}}]},{\"role\":\"assistant\","
         "\"content\":[{\"type\":\"tool_use\",\"id\":\"x\",\"name\":\"shot\",\"input\":{}}]},{"
         "\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"x\","
         "\"content\":[{\"type\":\"text\",\"text\":\"here\"},{\"type\":\"image\",\"source\":{"
         "\"type\":\"base64\",\"media_type\":\"image/png\",\"data\":\"" DOT "\"}}]}]}]"},
        {"anthropic",
         "[{\"role\":\"user\",\"content\":[{\"type\":\"document\",\"source\":{\"type\":"
         "\"base64\",\"media_type\":\"application/pdf\",\"data\":\"JVBERi0xLjQ=\"},\"title\":"
         "\"a.pdf\",\"citations\":{\"enabled\":true}},{\"type\":\"document\",\"source\":{"
         "\"type\":\"text\",\"media_type\":\"text/plain\",\"data\":\"words\"}},{\"type\":"
         "\"document\",\"source\":{\"type\":\"url\",\"url\":\"https://example.org/a.pdf\"}},{"
         "\"type\":\"document\",\"source\":{\"type\":\"file\",\"file_id\":\"file_1\"}}]},{"
         "\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"x\",\"name\":"
         "\"read\",\"input\":{}}]},{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","
         "\"tool_use_id\":\"x\",\"content\":[{\"type\":\"document\",\"source\":{\"type\":"
         "\"base64\",\"media_type\":\"application/pdf\",\"data\":\"JVBERi0xLjQ=\"}}]}]}]"},
        {"openai",
         "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Hear.\"},{\"type\":"
         "\"input_audio\",\"input_audio\":{\"data\":\"UklGRg==\",\"format\":\"wav\"}},{"
         "\"type\":\"file\",\"file\":{\"file_id\":\"file-1\"}},{\"type\":\"file\",\"file\":{"
         "\"filename\":\"a.pdf\",\"file_data\":\"data:application/pdf;base64,JVBERi0xLjQ=\"}"
         "}]}]"},
        {"gemini",
         "[{\"role\":\"user\",\"parts\":[{\"inlineData\":{\"mimeType\":\"image/png\",\"data\":"
         "\"" DOT "\"}}]},{\"role\":\"model\",\"parts\":[{\"text\":\"A dot.\"}]}]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char name[32];
        snprintf(name, sizeof name, "pictures, %s", rows[i].format);
        print_list(rows[i].format, rows[i].list, name);
    }
}

static void print_location(ms_store *store, ms_str location)
{
    ms_query query;
    ms_cursor it;
    const ms_msg *msg;
    history h = {NULL, 0, 0, 0};
    char name[200];
    snprintf(name, sizeof name, "%.*s", (int)location.len, location.ptr);
    memset(&query, 0, sizeof query);
    query.location = location;
    if (ms_query_open(store, &query, &it, NULL) != MS_OK) exit(1);
    h.msgs = (const ms_msg **)malloc(100000 * sizeof *h.msgs);
    while (h.msgs != NULL && h.n < 100000 && (msg = ms_next(&it)) != NULL)
        h.msgs[h.n++] = msg;
    (void)ms_cursor_close(&it, NULL);
    print_windows(&h, name);
    free(h.msgs);
}

static int print_log(const char *path)
{
    ms_store *store;
    ms_error err;
    const ms_list_query query = {0};
    const ms_log_desc desc = {.path = path, .mode = MS_LOG_READ};
    ms_listing list;
    ms_arena names = {0};
    if (ms_log_open(&store, &desc, &err) != MS_OK ||
        ms_list(store, &query, &names, &list, &err) != MS_OK) {
        fprintf(stderr, "%s: %s\n", path, err.message);
        return 1;
    }
    for (size_t i = 0; i < list.count; i++) print_location(store, list.items[i].location);
    ms_close(store);
    ms_arena_deinit(&names);
    return 0;
}

/* Stores an answer and results of its calls, and returns the next request. */
static ms_str request_after(const answer_case *c)
{
    ms_store *store;
    ms_error err;
    ms_request_desc desc;
    ms_answered answered;
    ms_buf body = {&work, NULL, 0, 0};
    ms_envelope user = ms_user_message(ms_text("u"));
    memset(&desc, 0, sizeof desc);
    if (ms_mem_open(&store, NULL, &err) != MS_OK) exit(1);
    desc.profile = ms_profile_find(ms_str_of(c->provider));
    desc.store = store;
    desc.location = MS_STR("chat");
    desc.opts.thinking = true;
    ms_result code = ms_append(store, desc.location, &user, NULL, &err);
    if (code == MS_OK) code = ms_answer(&desc, ms_str_of(c->body), &answered, &err);
    for (size_t i = 0; code == MS_OK && i < answered.calls; i++) {
        ms_envelope result = ms_observation(ms_text("r"), ms_str_of(NULL));
        code = ms_append(store, desc.location, &result, NULL, &err);
    }
    desc.opts.model = MS_STR("m");
    if (desc.profile->wire == MS_WIRE_BEDROCK) /* calls need tools there */
        desc.tools = MS_STR("[{\"toolSpec\":{\"name\":\"f\",\"inputSchema\":{\"json\":{}}}}]");
    if (code == MS_OK) code = ms_request(&desc, ms_buf_write, &body, NULL, &err);
    if (code != MS_OK) {
        fprintf(stderr, "%s: %s\n", c->name, err.message);
        exit(1);
    }
    ms_close(store);
    return ms_buf_text(&body);
}

static void print_answer(const answer_case *c)
{
    ms_str request = request_after(c);
    print_line(json_pack("{s:s, s:s, s:o, s:o*, s:o}", "profile", c->provider, "source",
                         c->name, "body", json_of(ms_str_of(c->body)), "stream",
                         string_of(ms_str_of(c->stream)), "request", json_of(request)));
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--answers") == 0) {
        load_answers();
        for (size_t i = 0; i < answer_count; i++)
            print_answer(&provider_answers[i]);
        return 0;
    }
    print_traces();
    print_pictures();
    return argc > 1 ? print_log(argv[1]) : 0;
}
