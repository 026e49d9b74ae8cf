/* Shared by the suites of [project]: histories, their projections for each provider, and
 * the rows of tests/tables/project.jsonl. Define _GNU_SOURCE before any include. */

#ifndef TESTS_PROJECT_H
#define TESTS_PROJECT_H

#include "provider_lint.h"
#include "table.h"
#include "traces.h"

#define PROFILES 13
#define NEVER "No result: the call was interrupted."
#define FORTY "aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd"

static ms_arena arena; /* what a history views */
static ms_arena work;  /* what one projection takes */
static ms_arena kept;  /* the projection before */
static inline int reset(void **state)
{
    ms_arena_reset(&arena);
    ms_arena_reset(&work);
    ms_arena_reset(&kept);
    return 0;
}

static size_t bytes_counted;

/* No window, no reader. */
static const ms_project_opts everything = {.count_ctx = &bytes_counted};

static inline const ms_profile *profile_of(const char *name)
{
    const ms_profile *profile = ms_profile_find(ms_str_of(name));
    assert_non_null(profile);
    return profile;
}


/* ---- ms_project ---- */

/* Returns the format that reads a projection; NULL: none does. */
static inline const ms_format *projection_format(const ms_profile *profile)
{
    static const char *const names[] = {"openai", "openai", "anthropic", "gemini",
                                        "pydantic-ai", "openai-responses", "bedrock",
                                        "gemini-interactions"};
    if (profile->wire == MS_WIRE_OLLAMA || profile->wire == MS_WIRE_COHERE) return NULL;
    return ms_format_find(ms_str_of(names[profile->wire]));
}

/* Writes the list; if system text is a member of the request, an object of that member and
 * the list, so that one text has the complete projection. */
static inline ms_result projection_write(const ms_profile *profile,
                                         const ms_project_opts *opts, ms_next_fn next,
                                         void *next_ctx, ms_arena *memory,
                                         ms_write_fn write, void *ctx,
                                         ms_project_report *report, ms_error *err)
{
    bool apart = profile != NULL && profile->system == MS_SYSTEM_SEPARATE;
    bool gemini = apart && profile->wire == MS_WIRE_GEMINI;
    bool bedrock = apart && profile->wire == MS_WIRE_BEDROCK;
    ms_project_report own;
    ms_request_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.profile = profile;
    if (opts != NULL) desc.opts = *opts;
    if (next == test_next_of) desc.cursor = (ms_cursor *)next_ctx;
    else desc.next = next;
    desc.next_ctx = next_ctx;
    desc.arena = memory;
    if (!apart) return ms_project(&desc, write, ctx, report, err);
    if (report == NULL) report = &own;
    ms_buf list = {memory, NULL, 0, 0}, whole = {memory, NULL, 0, 0};
    ms_json_writer w;
    ms_result code = ms_project(&desc, ms_buf_write, &list, report, err);
    if (code != MS_OK) return code;
    ms_json_init(&w, ms_buf_write, &whole, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    if (report->system.ptr != NULL) {
        ms_json_key(&w, ms_str_of(system_member(profile)));
        if (gemini) {
            ms_json_begin(&w, MS_JSON_OBJECT);
            ms_json_key(&w, MS_STR("parts"));
            ms_json_begin(&w, MS_JSON_ARRAY);
            ms_json_begin(&w, MS_JSON_OBJECT);
            ms_json_key(&w, MS_STR("text"));
        }
        if (bedrock) {
            ms_json_begin(&w, MS_JSON_ARRAY);
            ms_json_begin(&w, MS_JSON_OBJECT);
            ms_json_key(&w, MS_STR("text"));
        }
        ms_json_put_string(&w, report->system);
        for (int i = 0; i < (gemini ? 3 : bedrock ? 2 : 0); i++) ms_json_end(&w);
    }
    ms_json_key(&w, ms_str_of(list_member(profile)));
    ms_json_put_raw(&w, ms_buf_text(&list));
    ms_json_end(&w);
    code = ms_json_finish(&w);
    return code == MS_OK ? write(ctx, whole.ptr, whole.len) : code;
}


/* ---- histories ---- */

typedef struct history {
    const ms_msg **msgs;  /* encoded, numbered from 1 */
    ms_envelope *items;   /* views of them */
    size_t n;
} history;

/* Room for n messages, in the arena. */
static inline history history_of(size_t n)
{
    history h = {NULL, NULL, 0};
    h.msgs = (const ms_msg **)ms_arena_alloc(&arena, (n + 1) * sizeof *h.msgs);
    h.items = (ms_envelope *)ms_arena_alloc(&arena, (n + 1) * sizeof *h.items);
    return h;
}

/* Adds a message at the end; false: no store would accept it. */
static inline bool history_add(history *h, ms_envelope m)
{
    m.seq = h->n + 1;
    if (ms_encode(&m, &arena, &h->msgs[h->n], NULL) != MS_OK) return false;
    h->items[h->n] = ms_envelope_of(h->msgs[h->n]);
    h->n++;
    return true;
}

static inline void add(history *h, ms_envelope m)
{
    assert_true(history_add(h, m));
}

static inline history history_read(const char *format, ms_str json)
{
    static const ms_read_opts lenient = {true, true};
    ms_envelopes read;
    ms_error err;
    if (ms_read_list(ms_format_find(ms_str_of(format)), json, &lenient, &arena, &read,
                     &err) != MS_OK)
        fail_msg("%s: %s %s: %.*s", format, err.path, err.message, (int)json.len, json.ptr);
    history h = history_of(read.count);
    for (size_t i = 0; i < read.count; i++) add(&h, read.items[i]);
    return h;
}

static inline ms_envelope action(const char *id, const char *tool)
{
    ms_envelope m = ms_action(ms_str_of(tool), ms_json(MS_STR("{}")), ms_str_of(NULL));
    m.call_id = ms_str_of(id);
    return m;
}

static inline ms_envelope observation(const char *id, ms_value content)
{
    ms_envelope m = ms_observation(content, ms_str_of(NULL));
    m.call_id = ms_str_of(id);
    return m;
}

/* Returns a text of that many bytes. */
static inline ms_value text_of_size(size_t size)
{
    char *text = (char *)ms_arena_alloc(&arena, size + 1);
    memset(text, 'a', size);
    text[size] = '\0';
    return ms_text_n(ms_str_n(text, size));
}

/* Makes a history of n messages: questions, calls with results, answers, in turn. */
static inline history history_long(size_t n)
{
    history h = history_of(n);
    for (size_t i = 0; i < n; i++) {
        char text[32];
        snprintf(text, sizeof text, "text %lu", (unsigned long)i);
        add(&h, i % 4 == 0   ? ms_user_message(ms_text(text))
                : i % 4 == 1 ? action(NULL, "f")
                : i % 4 == 2 ? observation(NULL, ms_text(text))
                             : ms_assistant_message(ms_text(text)));
    }
    return h;
}

/* Messages [at, end) of a history, as a next-function returns them. */
typedef struct feed {
    const history *of;
    size_t at, end;
} feed;

static inline const ms_msg *feed_next(void *ctx)
{
    feed *f = (feed *)ctx;
    return f->at < f->end ? f->of->msgs[f->at++] : NULL;
}


/* ---- projections ---- */

/* Returns the projection of messages [0, to), in `work`. *code receives the result, which
 * must be MS_OK if code is NULL. */
static inline ms_str projected(const ms_profile *profile, const ms_project_opts *opts,
                        const history *h, size_t to, ms_project_report *report,
                        ms_result *code)
{
    feed f = {h, 0, to};
    ms_buf out = {&work, NULL, 0, 0};
    ms_error err;
    memset(&err, 0, sizeof err);
    ms_result got = projection_write(profile, opts, feed_next, &f, &work, ms_buf_write, &out,
                                     report, &err);
    if (code != NULL) *code = got;
    else if (got != MS_OK) fail_msg("%s: %s", profile->name, err.message);
    return ms_buf_text(&out);
}

static inline ms_str projected_all(const ms_profile *profile, const ms_project_opts *opts,
                            const history *h)
{
    return projected(profile, opts, h, h->n, NULL, NULL);
}

/* Returns the list of messages in a request body; the rest is system text. */
static inline ms_str list_in(ms_str body)
{
    ms_str list;
    if (ms_json_member(body, MS_STR("messages"), &list)) return list;
    if (ms_json_member(body, MS_STR("contents"), &list)) return list;
    if (ms_json_member(body, MS_STR("input"), &list)) return list;
    return body;
}

static inline void print_text(const char *what, ms_str text)
{
    fprintf(stderr, "%s: %.*s\n", what, (int)text.len, text.ptr != NULL ? text.ptr : "");
}

static inline void print_history(const history *h)
{
    ms_writer w;
    ms_writer_opts opts = {true, false, true};
    ms_buf out = {&work, NULL, 0, 0};
    ms_writer_init(&w, ms_format_find(MS_STR("framework")), &opts, &work, ms_buf_write,
                   &out);
    for (size_t i = 0; i < h->n; i++) (void)test_writer_put_msg(&w, h->msgs[i], NULL);
    (void)ms_writer_finish(&w, NULL);
    print_text("history", ms_buf_text(&out));
}

/* A list without a member of servers that copy OpenAI, in `work`. Absent: it has a number beyond those of
 * jansson. */
static inline ms_str without_reasoning(ms_str list)
{
    json_error_t err;
    json_t *message, *all = json_loadb(list.ptr, list.len,
                                       JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &err);
    size_t i;
    if (all == NULL)
        return json_error_code(&err) == json_error_numeric_overflow ? ms_str_of(NULL) : list;
    json_array_foreach (all, i, message) json_object_del(message, "reasoning_content");
    size_t len = json_dumpb(all, NULL, 0, JSON_COMPACT);
    char *text = (char *)ms_arena_alloc(&work, len);
    assert_non_null(text);
    (void)json_dumpb(all, text, len, JSON_COMPACT);
    json_decref(all);
    return ms_str_n(text, len);
}

/* The provider takes it. */
static inline void must_accept(const ms_profile *profile, ms_str request, const history *h)
{
    char why[PROVIDER_LINT_TEXT];
    bool thinks = strcmp(profile->name, "openai") == 0 &&
                  has_text(request, "\"reasoning_content\"");
    ms_str plain = thinks ? without_reasoning(request) : request;
    if (plain.ptr == NULL || provider_lint(profile->name, plain, why) == NULL) return;
    print_history(h);
    print_text("request", request);
    fail_msg("%s refuses: %s", profile->name, why);
}

static inline void must_be_same(const ms_profile *profile, const history *h, ms_str a,
                                ms_str b, const char *what)
{
    if (ms_str_equal(a, b)) return;
    print_history(h);
    print_text("request", a);
    print_text("the other", b);
    fail_msg("%s: what was projected %s", profile->name, what);
}

/* Read in the provider's format and projected again: the same bytes. */
static inline void must_stay(const ms_profile *profile, ms_thinking thinking, ms_str request,
                             const history *h)
{
    ms_project_opts opts = everything;
    const ms_format *d = projection_format(profile);
    if (d == NULL) return;
    history again = history_read(d->name, request);
    opts.thinking = thinking;
    ms_str second = projected_all(profile, &opts, &again);
    must_be_same(profile, h, request, second, "changes when it is projected again");
}

/* Lends one message at a time, and takes it back with the next call. */
typedef struct lender {
    feed of;
    void *lent;
    size_t size;
} lender;

static inline const ms_msg *lender_next(void *ctx)
{
    lender *l = (lender *)ctx;
    const ms_msg *msg = feed_next(&l->of);
    if (l->lent != NULL) memset(l->lent, 0xA5, l->size);
    free(l->lent);
    l->lent = NULL;
    if (msg == NULL) return NULL;
    l->size = ms_size(msg);
    l->lent = malloc(l->size);
    assert_non_null(l->lent);
    memcpy(l->lent, msg, l->size);
    return (const ms_msg *)l->lent;
}

/* With messages that stay, and with messages that are gone when the next one is asked
 * for: the same bytes. */
static inline void must_repeat(const ms_profile *profile, const ms_project_opts *opts,
                        const history *h)
{
    ms_project_opts stable = *opts, lent = *opts;
    lender l = {{h, 0, h->n}, NULL, 0};
    ms_buf out = {&work, NULL, 0, 0};
    ms_result code;
    stable.stable = true;
    lent.stable = false;
    ms_str body = projected(profile, &stable, h, h->n, NULL, &code);
    ms_result again = projection_write(profile, &lent, lender_next, &l, &work, ms_buf_write,
                                       &out, NULL, NULL);
    free(l.lent);
    assert_int_equal(code, again);
    must_be_same(profile, h, body, ms_buf_text(&out), "differs when texts are copied");
}

/* Returns the projection of a history, after a check that the provider accepts it. */
static inline ms_str sound(const ms_profile *profile, const ms_project_opts *opts,
                    const history *h)
{
    ms_str body = projected_all(profile, opts, h);
    must_accept(profile, body, h);
    must_stay(profile, opts->thinking, body, h);
    must_repeat(profile, opts, h);
    return body;
}

static inline void sound_for_all(const ms_project_opts *opts, const history *h)
{
    for (size_t k = 0; k < PROFILES; k++) (void)sound(ms_profile_at(k), opts, h);
}

static inline json_t *parsed(ms_str text)
{
    json_t *value = json_loadb(text.ptr, text.len, JSON_ALLOW_NUL, NULL);
    assert_non_null(value);
    return value;
}

static inline const char *text_at(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static inline size_t key_of(void *ctx, const ms_envelope *m, char out[MS_ENTITY_KEY_MAX])
{
    return test_entity_key(ms_str_of((const char *)ctx), m->seq, out);
}

/* Long texts; an assistant's alone is shortened, results are by `fresh`. */
static inline history history_of_long_texts(ms_project_opts *opts)
{
    static char session[] = "s";
    ms_value text = text_of_size(2000);
    history h = history_of(5);
    add(&h, ms_message(MS_T_DIRECTOR_CONTEXT, text));
    add(&h, ms_user_message(text));
    add(&h, ms_assistant_message(text));
    add(&h, action(NULL, "f"));
    add(&h, observation(NULL, text));
    *opts = everything;
    opts->shorten = true;
    opts->key = key_of;
    opts->key_ctx = session;
    return h;
}


/* ---- rows of the table ---- */

static table_row rows[260];
static size_t row_count;

static inline void load_rows(void)
{
    row_count = load_table("tests/tables/project.jsonl", "", rows, COUNT(rows));
}

/* Counts bytes, as a caller's own counter. */
static inline size_t count_bytes(void *ctx, ms_value text)
{
    bytes_counted += text.text.len;
    assert_ptr_equal(ctx, &bytes_counted);
    return text.text.len;
}

static inline size_t opt_number(json_t *opts, const char *name)
{
    return (size_t)json_integer_value(json_object_get(opts, name));
}

static inline ms_project_opts row_opts(const table_row *r)
{
    ms_project_opts opts = everything;
    json_t *given = row_get(r, "opts");
    opts.agent_key = ms_str_of(row_text(r, "reader"));
    opts.system = ms_str_of(json_string_value(json_object_get(given, "system")));
    opts.model = ms_str_of(json_string_value(json_object_get(given, "model")));
    opts.newest = opt_number(given, "newest");
    opts.step = opt_number(given, "step");
    opts.budget = opt_number(given, "budget");
    const char *const words[] = {"off", "on", "running", "calls", "all"};
    const char *thinking = json_string_value(json_object_get(given, "thinking"));
    if (json_is_true(json_object_get(given, "thinking"))) thinking = "on";
    for (unsigned i = 0; thinking != NULL && i < COUNT(words); i++)
        if (strcmp(words[i], thinking) == 0) opts.thinking = (ms_thinking)i;
    if (json_is_true(json_object_get(given, "bytes"))) opts.count = count_bytes;
    return opts;
}

/* A member "extra" is a list: null, or members beside those of the message. */
static inline history row_history(const table_row *r)
{
    history read = history_read(row_text(r, "format"), row_spelled(r, "history"));
    history h = history_of(read.n);
    for (size_t i = 0; i < read.n; i++) {
        ms_envelope m = read.items[i];
        char *extra = json_dumps(json_array_get(row_get(r, "extra"), i), JSON_COMPACT);
        if (extra != NULL) m.extra = ms_str_of(extra);
        add(&h, m);
        free(extra);
    }
    return h;
}

#endif /* TESTS_PROJECT_H */
