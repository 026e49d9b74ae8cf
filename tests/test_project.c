/* ms_project: a history that cannot be refused. Real conversations cut at every place and
 * hostile histories, against checkers of what each provider demands; each kind of trouble
 * with the exact text that comes of it; histories that grow; windows against slices;
 * failing memory; time. */

#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif

#include "support.h"

#include "projection.h"
#include "providers.h"
#include "traces.h"

#include <time.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define PROFILES 6

static ms_arena arena; /* what a history views */
static ms_arena work;  /* what one projection takes */

static int reset(void **state)
{
    (void)state;
    ms_arena_reset(&arena);
    ms_arena_reset(&work);
    return 0;
}

static int release(void **state)
{
    (void)state;
    ms_arena_deinit(&arena);
    ms_arena_deinit(&work);
    return 0;
}

static const ms_project_opts everything; /* no window, no reader */

static const ms_profile *profile_of(const char *name)
{
    const ms_profile *profile = ms_profile_find(ms_str_of(name));
    assert_non_null(profile);
    return profile;
}

/* Processor time: others on the machine do not count. */
static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}


/* ---- histories ---- */

typedef struct history {
    const ms_msg **msgs;  /* encoded, numbered from 1 */
    ms_envelope *items;   /* views of them */
    size_t n;
} history;

/* Room for n messages, in the arena. */
static history history_of(size_t n)
{
    history h = {NULL, NULL, 0};
    h.msgs = (const ms_msg **)ms_arena_alloc(&arena, (n + 1) * sizeof *h.msgs);
    h.items = (ms_envelope *)ms_arena_alloc(&arena, (n + 1) * sizeof *h.items);
    return h;
}

/* Puts a message at the end; false when it is none that a store takes. */
static bool history_add(history *h, ms_envelope m)
{
    m.seq = h->n + 1;
    if (ms_encode(&m, &arena, &h->msgs[h->n], NULL) != MS_OK) return false;
    h->items[h->n] = ms_envelope_of(h->msgs[h->n]);
    h->n++;
    return true;
}

static history history_read(const char *dialect, ms_str json)
{
    static const ms_read_opts lenient = {true, true};
    ms_envelopes read;
    ms_error err;
    const ms_dialect *d = ms_dialect_find(ms_str_of(dialect));
    if (ms_read_list(d, json, &lenient, &arena, &read, &err) != MS_OK)
        fail_msg("%s: %s %s: %.*s", dialect, err.path, err.message, (int)json.len,
                 json.ptr);
    history h = history_of(read.count);
    for (size_t i = 0; i < read.count; i++) assert_true(history_add(&h, read.items[i]));
    return h;
}

/* A copy in the arena with " for each ', so that JSON is readable here. */
static ms_str quoted(const char *text)
{
    size_t len = strlen(text);
    char *copy = (char *)ms_arena_alloc(&arena, len + 1);
    for (size_t i = 0; i < len; i++) copy[i] = text[i];
    for (size_t i = 0; i < len; i++)
        if (copy[i] == '\'') copy[i] = '"';
    return ms_str_n(copy, len);
}

/* Messages of a dialect, each with a comma behind it, in the quotes of above. */
static history history_told(const char *dialect, const char *text)
{
    ms_str list = quoted(text);
    char *json = (char *)ms_arena_alloc(&arena, list.len + 2);
    size_t len = 0;
    json[len++] = '[';
    memcpy(json + len, list.ptr, list.len);
    len += list.len;
    if (list.len > 0) len--; /* the last comma */
    json[len++] = ']';
    return history_read(dialect, ms_str_n(json, len));
}

/* Messages [at, end) of a history, as a next-function gives them. */
typedef struct feed {
    const history *of;
    size_t at, end;
} feed;

static const ms_msg *feed_next(void *ctx)
{
    feed *f = (feed *)ctx;
    return f->at < f->end ? f->of->msgs[f->at++] : NULL;
}


/* ---- projections ---- */

/* What messages [from, to) become, in `work`; the result's code goes to *code, which must
 * be MS_OK when code is NULL. */
static ms_str projected(const ms_profile *profile, const ms_project_opts *opts,
                        const history *h, size_t from, size_t to,
                        ms_project_report *report, ms_result *code)
{
    feed f = {h, from, to};
    ms_buf out;
    ms_error err;
    memset(&out, 0, sizeof out);
    memset(&err, 0, sizeof err);
    out.arena = &work;
    ms_result got = projection_write(profile, opts, feed_next, &f, &work, ms_buf_write, &out,
                               report, &err);
    if (code != NULL) *code = got;
    else if (got != MS_OK) fail_msg("%s: %s", profile->name, err.message);
    return ms_buf_text(&out);
}

static ms_str projected_all(const ms_profile *profile, const ms_project_opts *opts,
                            const history *h)
{
    return projected(profile, opts, h, 0, h->n, NULL, NULL);
}

/* The list of messages in a request body; what is around it is system text. */
static ms_str list_in(ms_str body)
{
    ms_str list;
    if (ms_json_member(body, MS_STR("messages"), &list)) return list;
    if (ms_json_member(body, MS_STR("contents"), &list)) return list;
    return body;
}

static json_t *parsed(ms_str text)
{
    json_error_t err;
    json_t *value = json_loadb(text.ptr, text.len,
                               JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &err);
    if (value == NULL)
        fail_msg("no JSON, %s: %.*s", err.text, (int)text.len, text.ptr);
    return value;
}

/* What a provider says to a request: NULL when it takes it. */
static const char *refusal(const char *provider, ms_str request, char why[PROVIDER_WHY])
{
    json_t *value = parsed(request);
    const char *no = provider_check(provider, value, why);
    json_decref(value);
    return no;
}

static void print_text(const char *what, ms_str text)
{
    fprintf(stderr, "%s: %.*s\n", what, (int)text.len, text.ptr != NULL ? text.ptr : "");
}

static void print_history(const history *h)
{
    ms_writer w;
    ms_writer_opts opts = {true, false, true};
    ms_buf out;
    memset(&out, 0, sizeof out);
    out.arena = &work;
    ms_writer_init(&w, ms_dialect_find(MS_STR("framework")), &opts, &work, ms_buf_write,
                   &out);
    for (size_t i = 0; i < h->n; i++) (void)test_writer_put_msg(&w, h->msgs[i], NULL);
    (void)ms_writer_finish(&w, NULL);
    print_text("history", ms_buf_text(&out));
}

/* The provider takes it. */
static void must_accept(const ms_profile *profile, ms_str request, const history *h)
{
    char why[PROVIDER_WHY];
    if (refusal(profile->name, request, why) == NULL) return;
    print_history(h);
    print_text("request", request);
    fail_msg("%s refuses: %s", profile->name, why);
}

/* Read in the profile's dialect and projected again: the same bytes. */
static void must_stay(const ms_profile *profile, ms_str request, const history *h)
{
    ms_envelopes read;
    ms_error err;
    history again;
    const ms_dialect *d = projection_dialect(profile);
    if (d == NULL) return;
    if (ms_read_list(d, request, NULL, &work, &read, &err) != MS_OK) {
        print_text("request", request);
        fail_msg("%s: %s %s", profile->name, err.path, err.message);
    }
    again = history_of(read.count);
    for (size_t i = 0; i < read.count; i++)
        assert_true(history_add(&again, read.items[i]));
    ms_str second = projected_all(profile, &everything, &again);
    if (ms_str_equal(second, request)) return;
    print_history(h);
    print_text("request", request);
    print_text("projected again", second);
    fail_msg("%s: what was projected changes when it is projected again", profile->name);
}


/* ---- a list, cut into its messages ---- */

typedef struct piece {
    size_t begin, end;    /* in the bytes */
    uint64_t hash;
} piece;

typedef struct sent {
    char *bytes;
    piece *pieces;        /* the messages, one behind the other */
    size_t n, cap, cap_pieces;
} sent;

static void *grown(void *items, size_t *cap, size_t n, size_t size)
{
    if (n <= *cap) return items;
    *cap = n * 2 + 64;
    void *more = realloc(items, *cap * size);
    assert_non_null(more);
    return more;
}

static uint64_t hash_more(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

static uint64_t hash_of(const char *bytes, size_t len)
{
    uint64_t hash = len + 1, word;
    for (; len >= 8; bytes += 8, len -= 8) {
        memcpy(&word, bytes, 8);
        hash = hash_more(hash, word);
    }
    word = 0;
    memcpy(&word, bytes, len);
    return hash_more(hash, word);
}

static size_t sent_size(const sent *s) { return s->n > 0 ? s->pieces[s->n - 1].end : 0; }

static ms_str sent_piece(const sent *s, size_t i)
{
    return ms_str_n(s->bytes + s->pieces[i].begin,
                    s->pieces[i].end - s->pieces[i].begin);
}

/* Takes over the messages of a list. */
static void sent_set(sent *s, ms_str list)
{
    s->n = 0;
    ms_json_iter it = ms_json_iterate(list);
    while (ms_json_next(&it)) {
        size_t at = sent_size(s), end = at + it.value.len;
        s->bytes = (char *)grown(s->bytes, &s->cap, end, 1);
        s->pieces = (piece *)grown(s->pieces, &s->cap_pieces, s->n + 1,
                                   sizeof *s->pieces);
        memcpy(s->bytes + at, it.value.ptr, it.value.len);
        piece fresh = {at, end, hash_of(it.value.ptr, it.value.len)};
        s->pieces[s->n++] = fresh;
    }
}

/* With how many equal messages two lists begin. */
static size_t sent_alike(const sent *a, const sent *b)
{
    size_t i = 0;
    while (i < a->n && i < b->n && ms_str_equal(sent_piece(a, i), sent_piece(b, i))) i++;
    return i;
}

static void sent_free(sent *s)
{
    free(s->bytes);
    free(s->pieces);
    memset(s, 0, sizeof *s);
}

/* The same once more, with texts copied and with texts that stay: the same bytes. */
static void must_repeat(const ms_profile *profile, const ms_project_opts *opts,
                        const history *h)
{
    ms_project_opts other = *opts;
    ms_result code, again;
    other.stable = !opts->stable;
    ms_str body = projected(profile, opts, h, 0, h->n, NULL, &code);
    ms_str copied = projected(profile, &other, h, 0, h->n, NULL, &again);
    assert_int_equal(code, again);
    if (ms_str_equal(body, copied)) return;
    print_history(h);
    print_text("once", body);
    print_text("and again", copied);
    fail_msg("%s: not the same", profile->name);
}


/* ---- real conversations, cut everywhere ---- */

/* Numbers with values: open addressing, at most half full. */
typedef struct number_map {
    uint64_t *keys; /* 0: free */
    json_t **values;
    size_t cap, n;
} number_map;

static size_t map_slot(const number_map *m, uint64_t key)
{
    size_t at = (size_t)(key >> 7) & (m->cap - 1);
    while (m->keys[at] != 0 && m->keys[at] != key) at = (at + 1) & (m->cap - 1);
    return at;
}

static void map_grow(number_map *m)
{
    number_map old = *m;
    m->cap = old.cap > 0 ? old.cap * 2 : 1024;
    m->keys = (uint64_t *)calloc(m->cap, sizeof *m->keys);
    m->values = (json_t **)calloc(m->cap, sizeof *m->values);
    assert_true(m->keys != NULL && m->values != NULL);
    for (size_t i = 0; i < old.cap; i++) {
        if (old.keys[i] == 0) continue;
        size_t at = map_slot(m, old.keys[i]);
        m->keys[at] = old.keys[i];
        m->values[at] = old.values[i];
    }
    free(old.keys);
    free(old.values);
}

/* The value's place; *known: the number was there. */
static json_t **map_at(number_map *m, uint64_t key, bool *known)
{
    if ((m->n + 1) * 2 > m->cap) map_grow(m);
    key |= 1;
    size_t at = map_slot(m, key);
    *known = m->keys[at] != 0;
    if (!*known) m->n++;
    m->keys[at] = key;
    return &m->values[at];
}

static void map_free(number_map *m)
{
    for (size_t i = 0; i < m->cap; i++) json_decref(m->values[i]);
    free(m->keys);
    free(m->values);
    memset(m, 0, sizeof *m);
}

typedef struct cuts {
    const ms_profile *profile;
    number_map parsed;        /* messages, by their hash */
    number_map checked;       /* requests, by their hash */
    uint64_t projections, requests;
} cuts;

/* A request body with that list in it. */
static json_t *request_of(const ms_profile *profile, ms_str system, json_t *list)
{
    if (profile->system != MS_SYSTEM_APART) return list;
    bool gemini = strcmp(profile->name, "gemini") == 0;
    json_t *body = json_object();
    if (system.ptr != NULL)
        json_object_set_new(body, gemini ? "systemInstruction" : "system",
                            json_loadb(system.ptr, system.len, JSON_DECODE_ANY, NULL));
    json_object_set_new(body, gemini ? "contents" : "messages", list);
    return body;
}

/* The system text of a body, as JSON. */
static ms_str system_in(ms_str body)
{
    ms_str text = {NULL, 0};
    if (ms_json_kind_of(body) != MS_JSON_OBJECT) return text;
    if (!ms_json_member(body, MS_STR("system"), &text))
        (void)ms_json_member(body, MS_STR("systemInstruction"), &text);
    return text;
}

/* A message is parsed once, however many windows it stands in. */
static json_t *cuts_message(cuts *c, ms_str text, uint64_t hash)
{
    bool known;
    json_t **value = map_at(&c->parsed, hash, &known);
    if (!known) *value = parsed(text);
    return *value;
}

/* The provider takes what is sent; a request that was checked is not checked again. */
static void cuts_check(cuts *c, const sent *s, ms_str system, const char *name,
                       size_t cut, size_t newest)
{
    char why[PROVIDER_WHY];
    bool known;
    uint64_t hash = hash_of(system.ptr != NULL ? system.ptr : "", system.len);
    for (size_t i = 0; i < s->n; i++) hash = hash_more(hash, s->pieces[i].hash);
    c->projections++;
    (void)map_at(&c->checked, hash, &known);
    if (known) return;
    c->requests++;
    json_t *list = json_array();
    for (size_t i = 0; i < s->n; i++)
        json_array_append(list, cuts_message(c, sent_piece(s, i), s->pieces[i].hash));
    json_t *request = request_of(c->profile, system, list);
    if (provider_check(c->profile->name, request, why) != NULL)
        fail_msg("%s, %s cut at %lu, newest %lu: %s", c->profile->name, name,
                 (unsigned long)cut, (unsigned long)newest, why);
    json_decref(request);
}

/* One window over a conversation that grows, at every cut when there is time. */
static void cuts_window(cuts *c, const char *name, const history *h, size_t newest,
                        uint64_t *random)
{
    ms_project_opts opts = everything;
    sent s;
    memset(&s, 0, sizeof s);
    opts.newest = newest;
    opts.stable = true;
    for (size_t n = 1; n <= h->n; n++) {
        if (test_scale() < 1000 && !test_one_in(random, 3)) continue;
        ms_str body = projected(c->profile, &opts, h, 0, n, NULL, NULL);
        sent_set(&s, list_in(body));
        cuts_check(c, &s, system_in(body), name, n, newest);
        ms_arena_reset(&work);
    }
    sent_free(&s);
}

#define NEWEST_MOST 40

/* All windows from 1 to 40 when there is time, else some. */
static void cuts_conversation(cuts *c, const char *name, const history *h,
                              uint64_t *random)
{
    bool all = test_scale() >= 1000;
    for (size_t n = 1; n <= NEWEST_MOST; n++)
        if (all || test_below(random, 1000) < test_times(25))
            cuts_window(c, name, h, n, random);
    map_free(&c->parsed);
    map_free(&c->checked);
}

static trace traces[TRACES_MOST];
static size_t n_traces;

/* The messages of a trace, in the arena. */
static history trace_history(const trace *t)
{
    char *text = json_dumps(t->messages, JSON_COMPACT);
    assert_non_null(text);
    size_t len = strlen(text);
    char *copy = (char *)ms_arena_alloc(&arena, len);
    memcpy(copy, text, len);
    free(text);
    return history_read("openai", ms_str_n(copy, len));
}

static void test_cuts(void **state)
{
    cuts c[PROFILES];
    uint64_t random = test_seed(), projections = 0, requests = 0;
    double begin = seconds_now();
    (void)state;
    memset(c, 0, sizeof c);
    for (size_t i = 0; i < n_traces; i++) {
        ms_arena_reset(&arena);
        history h = trace_history(&traces[i]);
        for (size_t k = 0; k < PROFILES; k++) {
            c[k].profile = ms_profile_at(k);
            cuts_conversation(&c[k], traces[i].name, &h, &random);
        }
    }
    for (size_t k = 0; k < PROFILES; k++) {
        projections += c[k].projections;
        requests += c[k].requests;
    }
    printf("%lu conversations: %llu distinct requests, %.1f s\n",
           (unsigned long)n_traces, (unsigned long long)requests, seconds_now() - begin);
    test_tally("projections checked", projections);
}

/* The newest five messages of a cut, written in the dialect as they are. */
static ms_str naive_window(const ms_profile *profile, const history *h, size_t cut)
{
    ms_writer w;
    ms_writer_opts opts = {true, false, false};
    ms_buf out;
    memset(&out, 0, sizeof out);
    out.arena = &work;
    ms_writer_init(&w, projection_dialect(profile) ? projection_dialect(profile)
                                                   : ms_dialect_find(MS_STR("openai")), &opts, &work,
                   ms_buf_write, &out);
    for (size_t i = cut > 5 ? cut - 5 : 0; i < cut; i++)
        assert_int_equal(test_writer_put_msg(&w, h->msgs[i], NULL), MS_OK);
    assert_int_equal(ms_writer_finish(&w, NULL), MS_OK);
    return ms_buf_text(&out);
}

/* Without ms_project, providers refuse what the same cuts give. */
static void test_naive_windows(void **state)
{
    uint64_t random = test_seed(), refused[PROFILES] = {0}, all = 0;
    size_t of_1000 = test_times(100) > 20 ? test_times(100) : 20; /* a share needs some */
    char why[PROVIDER_WHY];
    (void)state;
    for (size_t i = 0; i < n_traces; i++) {
        ms_arena_reset(&arena);
        history h = trace_history(&traces[i]);
        for (size_t cut = 1; cut <= h.n; cut++) {
            if (test_below(&random, 1000) >= of_1000) continue;
            all++;
            for (size_t k = 0; k < PROFILES; k++) {
                const ms_profile *profile = ms_profile_at(k);
                json_t *list = parsed(naive_window(profile, &h, cut));
                json_t *request = request_of(profile, ms_str_n(NULL, 0), list);
                refused[k] += provider_check(profile->name, request, why) != NULL;
                json_decref(request);
            }
            ms_arena_reset(&work);
        }
    }
    for (size_t k = 0; k < PROFILES && all > 0; k++) {
        double share = (double)refused[k] / (double)all;
        printf("%s refuses %.0f of 100 naive windows of 5 (%llu)\n",
               ms_profile_at(k)->name, share * 100, (unsigned long long)all);
        assert_true(share > 0.3);
    }
}


/* ---- kinds of trouble, one by one ---- */

/* Messages as the framework and openai formats tell them, in quotes of our own. */
#define USER(text) "{'type':'user_message','content':'" text "'},"
#define SAYS(text) "{'type':'assistant_message','content':'" text "'},"
#define CALL(id, tool) CALL_WITH(id, tool, "{}")
#define CALL_WITH(id, tool, args) \
    "{'type':'action','tool':'" tool "','args':" args ",'tool_call_id':'" id "'},"
#define RESULT(id, text) \
    "{'type':'observation','content':'" text "','tool_call_id':'" id "'},"
#define OBSERVED(text) "{'type':'observation','content':'" text "'},"
#define ACTED(tool) "{'type':'action','tool':'" tool "','args':{}},"
#define FAILED(text) "{'type':'error','content':'" text "'},"
#define PLAIN(type, text) "{'type':'" type "','content':'" text "'},"
#define BY(agent, type, rest) \
    "{'type':'" type "','agent_key':'" agent "'," rest "},"

/* What they become in openai. */
#define O_USER(text) "{'role':'user','content':'" text "'}"
#define O_SAYS(text) "{'role':'assistant','content':'" text "'}"
#define O_SYSTEM(text) "{'role':'system','content':'" text "'}"
#define O_CALL(id, tool) O_CALL_WITH(id, tool, "{}")
#define O_CALL_WITH(id, tool, args) \
    "{'id':'" id "','type':'function','function':{'name':'" tool "','arguments':'" \
    args "'}}"
#define O_CALLS(calls) "{'role':'assistant','content':null,'tool_calls':[" calls "]}"
#define O_RESULT(id, text) \
    "{'role':'tool','tool_call_id':'" id "','content':'" text "'}"
#define NEVER "No result: the call was interrupted."
#define BEGINS "(The conversation begins.)"
#define BRIDGE "(The results are there.)"

typedef struct trouble {
    const char *name, *dialect, *history, *provider, *expected;
    const char *report;   /* counts other than 0, but for read; NULL: no matter */
    const char *reader;   /* NULL: everybody */
} trouble;

static const trouble troubles[] = {
    {"one id for two calls of a turn", "framework",
     USER("u") CALL("x", "f") CALL("x", "g") RESULT("x", "1") RESULT("x", "2"), "openai",
     "[" O_USER("u") "," O_CALLS(O_CALL("x", "f") "," O_CALL("x_2", "g")) ","
     O_RESULT("x", "1") "," O_RESULT("x_2", "2") "]", "renamed 1", NULL},
    {"one id for calls of later turns", "framework",
     USER("u") CALL("x", "f") RESULT("x", "1") CALL("x", "f") RESULT("x", "2") USER("v")
     CALL("x", "f") RESULT("x", "3"), "openai",
     "[" O_USER("u") "," O_CALLS(O_CALL("x", "f")) "," O_RESULT("x", "1") ","
     O_CALLS(O_CALL("x_2", "f")) "," O_RESULT("x_2", "2") "," O_USER("v") ","
     O_CALLS(O_CALL("x_3", "f")) "," O_RESULT("x_3", "3") "]", "renamed 2", NULL},
    {"an id like one that was made up", "framework",
     USER("u") CALL("x", "f") CALL("x", "g") CALL("x_2", "h") RESULT("x_2", "3")
     RESULT("x", "1") RESULT("x", "2"), "openai",
     "[" O_USER("u") "," O_CALLS(O_CALL("x", "f") "," O_CALL("x_2", "g") ","
     O_CALL("x_2_2", "h")) "," O_RESULT("x", "1") "," O_RESULT("x_2", "2") ","
     O_RESULT("x_2_2", "3") "]", "renamed 2", NULL},
    {"a call without a result in the middle", "framework",
     USER("u") CALL("x", "f") USER("v"), "openai",
     "[" O_USER("u") "," O_CALLS(O_CALL("x", "f")) "," O_RESULT("x", NEVER) ","
     O_USER("v") "]", "synthesised 1", NULL},
    {"a user after a call without a result, chat-strict", "framework",
     USER("u") CALL("x", "f") USER("v") CALL("y", "f") RESULT("y", "1") USER("w"),
     "chat-strict",
     "[" O_USER("u") "," O_CALLS(O_CALL("x", "f")) "," O_RESULT("x", NEVER) ","
     O_SAYS(BRIDGE) "," O_USER("v") "," O_CALLS(O_CALL("y", "f")) "," O_RESULT("y", "1")
     "," O_SAYS(BRIDGE) "," O_USER("w") "]", "synthesised 1 bridged 2", NULL},
    {"a call without a result in the middle, anthropic", "framework",
     USER("u") CALL("x", "f") USER("v"), "anthropic",
     "{'messages':[{'role':'user','content':'u'},{'role':'assistant','content':["
     "{'type':'tool_use','id':'x','name':'f','input':{}}]},{'role':'user','content':["
     "{'type':'tool_result','tool_use_id':'x','content':'" NEVER "','is_error':true},"
     "{'type':'text','text':'v'}]}]}", "synthesised 1", NULL},
    {"calls without results at the end", "framework",
     USER("u") CALL("x", "f") CALL("y", "g") RESULT("y", "2"), "openai",
     "[" O_USER("u") "," O_CALLS(O_CALL("x", "f") "," O_CALL("y", "g")) ","
     O_RESULT("x", NEVER) "," O_RESULT("y", "2") "]", "synthesised 1", NULL},
    {"a call without a result, pydantic-ai", "framework", USER("u") CALL("x", "f"),
     "pydantic-ai",
     "[{'kind':'request','parts':[{'part_kind':'user-prompt','content':'u'}]},"
     "{'kind':'response','parts':[{'part_kind':'tool-call','tool_name':'f','args':{},"
     "'tool_call_id':'x'}]},{'kind':'request','parts':[{'part_kind':'tool-return',"
     "'tool_name':'f','content':'" NEVER "','tool_call_id':'x',"
     "'outcome':'interrupted'}]}]", "synthesised 1", NULL},
    {"a result without a call", "framework",
     USER("u") RESULT("x", "1") SAYS("a"), "openai",
     "[" O_USER("u") "," O_SAYS("a") "]", "dropped 1 orphans 1", NULL},
    {"a result of no call while another one is open", "framework",
     USER("u") CALL("x", "f") RESULT("y", "1"), "openai",
     "[" O_USER("u") "," O_CALLS(O_CALL("x", "f")) "," O_RESULT("x", NEVER) "]",
     "dropped 1 orphans 1 synthesised 1", NULL},
    {"results of another agent than the call", "framework",
     USER("u") BY("a", "action", "'tool':'f','args':{},'tool_call_id':'x'")
     BY("b", "observation", "'content':'1','tool_call_id':'x'")
     BY("b", "observation", "'content':'2'"), "openai",
     "[" O_USER("u") "," O_CALLS(O_CALL("x", "f")) "," O_RESULT("x", NEVER) ","
     O_USER("Observation: 2") "]", "dropped 1 orphans 1 wrapped 1 synthesised 1", NULL},
    {"a second result", "framework",
     USER("u") CALL("x", "f") RESULT("x", "1") RESULT("x", "2") SAYS("a"), "openai",
     "[" O_USER("u") "," O_CALLS(O_CALL("x", "f")) "," O_RESULT("x", "1") ","
     O_SAYS("a") "]", "dropped 1 duplicates 1", NULL},
    {"a result before its call", "framework",
     USER("u") RESULT("x", "1") CALL("x", "f"), "openai",
     "[" O_USER("u") "," O_CALLS(O_CALL("x", "f")) "," O_RESULT("x", NEVER) "]",
     "dropped 1 orphans 1 synthesised 1", NULL},
    {"texts with nothing in them", "framework",
     USER("") USER("a") USER(" \\t\xC2\xA0\xE3\x80\x80\\n") SAYS("")
     "{'type':'user_message','content':[]}," SAYS("\xE2\x80\x83 b \xE2\x80\xA8")
     "{'type':'assistant_message','content':null},", "anthropic",
     "{'messages':[{'role':'user','content':'a'},{'role':'assistant','content':"
     "'\xE2\x80\x83 b'}]}", "dropped 5", NULL},
    {"results with nothing in them", "framework",
     USER("u") CALL("x", "f") RESULT("x", "") CALL("y", "f")
     "{'type':'observation','content':[],'tool_call_id':'y'},", "anthropic",
     "{'messages':[{'role':'user','content':'u'},{'role':'assistant','content':["
     "{'type':'tool_use','id':'x','name':'f','input':{}}]},{'role':'user','content':["
     "{'type':'tool_result','tool_use_id':'x','content':''}]},{'role':'assistant',"
     "'content':[{'type':'tool_use','id':'y','name':'f','input':{}}]},{'role':'user',"
     "'content':[{'type':'tool_result','tool_use_id':'y','content':''}]}]}", "", NULL},
    {"results in another order than calls", "framework",
     USER("u") CALL("x", "f") CALL("y", "g") CALL("z", "h") RESULT("z", "3")
     RESULT("x", "1") RESULT("y", "2"), "gemini",
     "{'contents':[{'role':'user','parts':[{'text':'u'}]},{'role':'model','parts':["
     "{'functionCall':{'name':'f','args':{},'id':'x'},"
     "'thoughtSignature':'skip_thought_signature_validator'},"
     "{'functionCall':{'name':'g','args':{},'id':'y'}},"
     "{'functionCall':{'name':'h','args':{},'id':'z'}}]},{'role':'user','parts':["
     "{'functionResponse':{'name':'f','response':{'result':'1'},'id':'x'}},"
     "{'functionResponse':{'name':'g','response':{'result':'2'},'id':'y'}},"
     "{'functionResponse':{'name':'h','response':{'result':'3'},'id':'z'}}]}]}", NULL,
     NULL},
    {"a result after the next user message", "framework",
     USER("u") CALL("x", "f") USER("wait") SAYS("yes") RESULT("x", "1") USER("v"),
     "openai",
     "[" O_USER("u") "," O_CALLS(O_CALL("x", "f")) "," O_RESULT("x", "1") ","
     O_USER("wait") "," O_SAYS("yes") "," O_USER("v") "]", "", NULL},
    {"two agents interleaved", "framework",
     USER("u") BY("a", "action", "'tool':'f','args':{},'tool_call_id':'x'")
     BY("b", "action", "'tool':'g','args':{},'tool_call_id':'x'")
     BY("b", "observation", "'content':'of g','tool_call_id':'x'")
     BY("a", "observation", "'content':'of f','tool_call_id':'x'"), "openai",
     "[" O_USER("u") "," O_CALLS(O_CALL("x", "f")) "," O_RESULT("x", "of f") ","
     O_CALLS(O_CALL("x_2", "g")) "," O_RESULT("x_2", "of g") "]", "renamed 1", NULL},
    {"calls and observations without ids", "framework",
     USER("u") ACTED("f") OBSERVED("1") ACTED("g") ACTED("h") OBSERVED("2")
     OBSERVED("3"), "openai",
     "[" O_USER("u") "," O_CALLS(O_CALL("call_2", "f")) "," O_RESULT("call_2", "1") ","
     O_CALLS(O_CALL("call_4", "g") "," O_CALL("call_5", "h")) ","
     O_RESULT("call_4", "2") "," O_RESULT("call_5", "3") "]", "", NULL},
    {"results without ids that name their tools", "framework",
     USER("u") ACTED("f") ACTED("g")
     "{'type':'observation','content':'of g','tool':'g'},"
     "{'type':'observation','content':'of f','tool':'f'},", "openai",
     "[" O_USER("u") "," O_CALLS(O_CALL("call_2", "f") "," O_CALL("call_3", "g")) ","
     O_RESULT("call_2", "of f") "," O_RESULT("call_3", "of g") "]", "", NULL},
    {"results that name tools with strange characters", "gemini",
     "{'role':'user','parts':[{'text':'u'}]},{'role':'model','parts':[{'functionCall':{"
     "'name':'ls','args':{}}},{'functionCall':{'name':'fs.read','args':{}}}]},{'role':"
     "'user','parts':[{'functionResponse':{'name':'fs.read','response':{'result':"
     "'of fs.read'}}},{'functionResponse':{'name':'ls','response':{'result':'of ls'}}}"
     "]},", "openai",
     "[" O_USER("u") "," O_CALLS(O_CALL("call_2", "ls") "," O_CALL("call_3", "fs_read"))
     "," O_RESULT("call_2", "of ls") "," O_RESULT("call_3", "of fs.read") "]", NULL,
     NULL},
    {"one result, of a tool with strange characters", "framework",
     USER("u") ACTED("ls") ACTED("fs.read")
     "{'type':'observation','content':'of fs.read','tool':'fs.read'},", "openai",
     "[" O_USER("u") "," O_CALLS(O_CALL("call_2", "ls") "," O_CALL("call_3", "fs_read"))
     "," O_RESULT("call_2", NEVER) "," O_RESULT("call_3", "of fs.read") "]", NULL, NULL},
    {"a result of a tool that was not called", "framework",
     USER("u") ACTED("f") "{'type':'observation','content':'of g','tool':'g'},", "openai",
     "[" O_USER("u") "," O_CALLS(O_CALL("call_2", "f")) "," O_RESULT("call_2", NEVER) ","
     O_USER("Observation: of g") "]", "wrapped 1 synthesised 1", NULL},
    {"a result that brings its call along while another one is open", "framework",
     USER("u") ACTED("f")
     "{'type':'observation','tool':'g','args':{'q':1},'content':'of g'},", "openai",
     "[" O_USER("u") "," O_CALLS(O_CALL("call_2", "f") ","
     O_CALL_WITH("call_3", "g", "{\\'q\\':1}")) "," O_RESULT("call_2", NEVER) ","
     O_RESULT("call_3", "of g") "]", "synthesised 1", NULL},
    {"an observation of nothing called", "framework",
     USER("u") OBSERVED("rain") ACTED("f") OBSERVED("1") OBSERVED("2"), "openai",
     "[" O_USER("u\\n\\nObservation: rain") "," O_CALLS(O_CALL("call_3", "f")) ","
     O_RESULT("call_3", "1") "," O_USER("Observation: 2") "]", "wrapped 2 merged 1",
     NULL},
    {"errors with and without a call", "framework",
     USER("u") FAILED("early") ACTED("f") FAILED("late"), "anthropic",
     "{'messages':[{'role':'user','content':'u\\n\\nError: early'},{'role':'assistant',"
     "'content':[{'type':'tool_use','id':'call_3','name':'f','input':{}}]},{'role':"
     "'user','content':[{'type':'tool_result','tool_use_id':'call_3','content':'late',"
     "'is_error':true}]}]}", "wrapped 1 merged 1", NULL},
    {"tool names with strange characters", "framework",
     USER("u") CALL("x", "a b/c.\xC3\xA9") RESULT("x", "1") CALL("y", "")
     RESULT("y", "2"),
     "openai",
     "[" O_USER("u") "," O_CALLS(O_CALL("x", "a_b_c__")) "," O_RESULT("x", "1") ","
     O_CALLS(O_CALL("y", "unknown_tool")) "," O_RESULT("y", "2") "]", "renamed 1",
     NULL},
    {"arguments that are no JSON, no object, nothing", "openai",
     "{'role':'user','content':'u'}," O_CALLS(O_CALL_WITH("v", "f", "{oops") ","
     O_CALL_WITH("w", "f", "[1]") "," O_CALL_WITH("x", "f", " ") ","
     O_CALL_WITH("y", "f", "null") "," O_CALL_WITH("z", "f", "{\\'a\\':1}")) ","
     O_RESULT("v", "1") "," O_RESULT("w", "2") "," O_RESULT("x", "3") ","
     O_RESULT("y", "4") "," O_RESULT("z", "5") ",", "anthropic",
     "{'messages':[{'role':'user','content':'u'},{'role':'assistant','content':["
     "{'type':'tool_use','id':'v','name':'f','input':{'INVALID_JSON':'{oops'}},"
     "{'type':'tool_use','id':'w','name':'f','input':{'INVALID_JSON':'[1]'}},"
     "{'type':'tool_use','id':'x','name':'f','input':{}},"
     "{'type':'tool_use','id':'y','name':'f','input':{}},"
     "{'type':'tool_use','id':'z','name':'f','input':{'a':1}}]},{'role':'user',"
     "'content':[{'type':'tool_result','tool_use_id':'v','content':'1'},"
     "{'type':'tool_result','tool_use_id':'w','content':'2'},"
     "{'type':'tool_result','tool_use_id':'x','content':'3'},"
     "{'type':'tool_result','tool_use_id':'y','content':'4'},"
     "{'type':'tool_result','tool_use_id':'z','content':'5'}]}]}", "wrapped 2", NULL},
    {"results of every kind of JSON", "framework",
     USER("u") CALL("x", "f") "{'type':'observation','content':[1,2],'tool_call_id':"
     "'x'}," CALL("y", "f") "{'type':'observation','content':5,'tool_call_id':'y'},"
     CALL("z", "f") "{'type':'observation','content':{'a':[true]},'tool_call_id':'z'},"
     CALL("w", "f") "{'type':'observation','content':null,'tool_call_id':'w'},"
     CALL("v", "f") "{'type':'error','content':{'a':1},'tool_call_id':'v'},", "gemini",
#define G_STEP(id, response)                                                  \
    ",{'role':'model','parts':[{'functionCall':{'name':'f','args':{},'id':'" id  \
    "'},'thoughtSignature':'skip_thought_signature_validator'}]},{'role':'user',"  \
    "'parts':[{'functionResponse':{'name':'f','response':" response ",'id':'" id  \
    "'}}]}"
     "{'contents':[{'role':'user','parts':[{'text':'u'}]}" G_STEP("x", "{'result':[1,2]}")
     G_STEP("y", "{'result':5}") G_STEP("z", "{'a':[true]}") G_STEP("w", "{'result':''}")
     G_STEP("v", "{'error':{'a':1}}") "]}", NULL, NULL},
    {"a result that looks like one that was wrapped", "framework",
     USER("u") CALL("x", "f")
     "{'type':'observation','content':{'result':{'a':1}},'tool_call_id':'x'},", "gemini",
     "{'contents':[{'role':'user','parts':[{'text':'u'}]}"
     G_STEP("x", "{'result':{'result':{'a':1}}}") "]}", NULL, NULL},
    {"results of every kind of JSON, openai", "framework",
     USER("u") CALL("x", "f") "{'type':'observation','content':[1,2],'tool_call_id':"
     "'x'}," CALL("y", "f") "{'type':'observation','content':{'a':null},"
     "'tool_call_id':'y'},", "openai",
     "[" O_USER("u") "," O_CALLS(O_CALL("x", "f")) "," O_RESULT("x", "[1,2]") ","
     O_CALLS(O_CALL("y", "f")) "," O_RESULT("y", "{\\'a\\':null}") "]", "", NULL},
    {"texts of every kind of JSON", "framework",
     "{'type':'user_message','content':{'a':1}},{'type':'user_message','content':[1]},"
     "{'type':'assistant_message','content':7},{'type':'assistant_message','content':"
     "true},", "openai",
     "[" O_USER("{\\'a\\':1}\\n\\n[1]") "," O_SAYS("7\\n\\ntrue") "]", "merged 2", NULL},
    {"system text in the middle", "framework",
     PLAIN("director_context", "be kind") USER("u") PLAIN("injected_context", "it rains")
     SAYS("a") PLAIN("director_context", "be short"), "openai",
     "[" O_SYSTEM("be kind") "," O_USER("u") "," O_SYSTEM("it rains") "," O_SAYS("a") ","
     O_SYSTEM("be short") "]", "", NULL},
    {"system text in the middle, anthropic", "framework",
     PLAIN("director_context", "be kind") PLAIN("director_context", "be brief") USER("u")
     PLAIN("injected_context", "it rains") SAYS("a") PLAIN("director_context", "short"),
     "anthropic",
     "{'system':'be kind\\n\\nbe brief','messages':[{'role':'user','content':'u\\n\\n"
     "<context>\\nit rains\\n</context>'},{'role':'assistant','content':'a'},{'role':"
     "'user','content':'<context>\\nshort\\n</context>'}]}", "wrapped 2 merged 1", NULL},
    {"the assistant is first", "framework", SAYS("hello") USER("u"), "anthropic",
     "{'messages':[{'role':'user','content':'" BEGINS "'},{'role':'assistant',"
     "'content':'hello'},{'role':'user','content':'u'}]}", "started 1", NULL},
    {"nothing but system text", "framework", PLAIN("director_context", "be kind"),
     "gemini",
     "{'systemInstruction':{'parts':[{'text':'be kind'}]},'contents':[{'role':'user',"
     "'parts':[{'text':'" BEGINS "'}]}]}", "started 1", NULL},
    {"nothing but system text, openai", "framework", PLAIN("director_context", "be kind"),
     "openai", "[" O_SYSTEM("be kind") "]", "", NULL},
    {"nothing at all", "framework", "", "chat-strict", "[" O_USER(BEGINS) "]",
     "started 1", NULL},
    {"nothing at all, openai", "framework", "", "openai", "[]", "", NULL},
    {"a call that failed", "framework",
     USER("u") CALL("x", "f") "{'type':'error','content':'no such file','tool_call_id':"
     "'x'}," CALL("y", "f") "{'type':'error','content':'Error: no','tool_call_id':'y'},"
     CALL("z", "f") "{'type':'error','content':{'code':5},'tool_call_id':'z'},", "openai",
     "[" O_USER("u") "," O_CALLS(O_CALL("x", "f")) "," O_RESULT("x", "Error: no such file")
     "," O_CALLS(O_CALL("y", "f")) "," O_RESULT("y", "Error: no") ","
     O_CALLS(O_CALL("z", "f")) "," O_RESULT("z", "Error: {\\'code\\':5}") "]",
     "wrapped 2", NULL},
    {"a retry prompt of no tool", "pydantic-ai",
     "{'kind':'request','parts':[{'part_kind':'user-prompt','content':'u'}]},"
     "{'kind':'response','parts':[{'part_kind':'text','content':'a'}]},"
     "{'kind':'request','parts':[{'part_kind':'retry-prompt','content':'once more',"
     "'tool_name':null,'tool_call_id':'pyd_ai_1'}]},"
     "{'kind':'response','parts':[{'part_kind':'text','content':'b'}]},", "openai",
     "[" O_USER("u") "," O_SAYS("a") "," O_USER("once more") "," O_SAYS("b") "]",
     "", NULL},
    {"users and assistants twice in a row", "framework",
     USER("a") USER("b") SAYS("c") SAYS("d") USER("e"), "chat-strict",
     "[" O_USER("a\\n\\nb") "," O_SAYS("c\\n\\nd") "," O_USER("e") "]", "merged 2", NULL},
    {"a final that repeats the answer", "framework",
     USER("u") SAYS("done") PLAIN("final", "done") USER("v") PLAIN("final", "so")
     SAYS("so") USER("w") PLAIN("final", "other"), "openai",
     "[" O_USER("u") "," O_SAYS("done") "," O_USER("v") "," O_SAYS("so") "," O_USER("w")
     "," O_SAYS("other") "]", "dropped 2", NULL},
    {"a final that repeats what was said before results", "framework",
     USER("u") CALL("x", "f") SAYS("ok") RESULT("x", "1") PLAIN("final", "ok"), "openai",
     "[" O_USER("u") ",{'role':'assistant','content':'ok','tool_calls':["
     O_CALL("x", "f") "]}," O_RESULT("x", "1") "," O_SAYS("ok") "]", "", NULL},
    {"a delegation of one's own", "framework",
     USER("u") BY("boss", "delegation", "'worker':'w','task':'dig'") USER("v"), "openai",
     "[" O_USER("u") "," O_CALLS(O_CALL_WITH("call_2", "delegate",
     "{\\'worker\\':\\'w\\',\\'task\\':\\'dig\\'}")) "," O_RESULT("call_2", "Delegated.")
     "," O_USER("v") "]", "synthesised 1", "boss"},
    {"a delegation of another", "framework",
     USER("u") BY("boss", "delegation", "'worker':'w','task':'dig'") USER("v"), "openai",
     "[" O_USER("u\\n\\n[boss] w: dig\\n\\nv") "]", "wrapped 1 merged 2", "w"},
    {"what another agent did", "framework",
     USER("u") BY("b", "action", "'tool':'f','args':{'q':1},'tool_call_id':'x'")
     BY("b", "observation", "'content':'r','tool_call_id':'x'")
     BY("b", "error", "'content':'e'") BY("b", "final", "'content':'d'")
     BY("a", "action", "'tool':'f','args':{},'tool_call_id':'x'")
     BY("a", "observation", "'content':'mine','tool_call_id':'x'")
     BY("b", "assistant_message", "'content':'said to all'"), "openai",
     "[" O_USER("u\\n\\n[b] f {\\'q\\':1}\\n\\n[b] r\\n\\n[b] Error: e\\n\\n[b] d") ","
     O_CALLS(O_CALL("x", "f")) "," O_RESULT("x", "mine") "," O_SAYS("said to all") "]",
     "wrapped 4 merged 4", "a"},
    {"syntheses", "framework",
     USER("u") BY("m", "synthesis", "'content':'mine','from_manager':'m'")
     BY("n", "synthesis", "'content':'theirs','from_manager':'n'"), "openai",
     "[" O_USER("u") "," O_SAYS("mine") "," O_USER("[n] theirs") "]", "", "m"},
    {"global observations", "framework",
     USER("u") "{'type':'global_observation','content':'long','summary':'short',"
     "'from_worker':'w'}," PLAIN("global_observation", "all"), "openai",
     "[" O_USER("u\\n\\n[w] short\\n\\nall") "]", "merged 2", NULL},
    {"plans and tasks", "framework",
     PLAIN("task", "t") PLAIN("strategic_plan", "p") PLAIN("suggested_plan", "q")
     PLAIN("script_instruction", "i") PLAIN("script_plan", "s"), "openai",
     "[" O_USER("t") "," O_SAYS("p\\n\\nq") "," O_USER("i") "," O_SAYS("s") "]",
     "merged 1", NULL},
    {"a question that is answered", "framework",
     USER("u") PLAIN("input_required", "which?") USER("this"), "openai",
     "[" O_USER("u") "," O_SAYS("which?") "," O_USER("this") "]", "", NULL},
    {"questions that are not answered", "framework",
     USER("u") PLAIN("input_required", "which?") SAYS("never mind")
     PLAIN("input_required", "who?"), "openai",
     "[" O_USER("u") "," O_SAYS("never mind") "]", NULL, NULL},
    {"approvals, deltas, reasoning", "framework",
     USER("u") PLAIN("approval_required", "may I?") PLAIN("delta", "par")
     PLAIN("reasoning", "hm") SAYS("part"), "openai",
     "[" O_USER("u") "," O_SAYS("part") "]", "dropped 3", NULL},
    {"pictures of users, openai to anthropic", "openai",
     "{'role':'user','content':[{'type':'text','text':'see'},{'type':'image_url',"
     "'image_url':{'url':'data:image/png;base64,AAAA','detail':'low'}},{'type':'text',"
     "'text':'and'},{'type':'text','text':'this'},{'type':'image_url','image_url':{'url':"
     "'https:\\/\\/example.org\\/a.png'}}]},", "anthropic",
     "{'messages':[{'role':'user','content':[{'type':'text','text':'see'},{'type':'image',"
     "'source':{'type':'base64','media_type':'image/png','data':'AAAA'}},{'type':'text',"
     "'text':'and\\n\\nthis'},{'type':'image','source':{'type':'url','url':"
     "'https://example.org/a.png'}}]}]}", "", NULL},
    {"pictures of users, anthropic to openai", "anthropic",
     "{'role':'user','content':[{'type':'image','source':{'type':'base64','media_type':"
     "'image/jpeg','data':'AAAA'}},{'type':'image','source':{'type':'url','url':"
     "'https://example.org/a.png'}}]},", "openai",
     "[{'role':'user','content':[{'type':'image_url','image_url':{'url':"
     "'data:image/jpeg;base64,AAAA'}},{'type':'image_url','image_url':{'url':"
     "'https://example.org/a.png'}}]}]", "", NULL},
    {"pictures of users, openai to gemini", "openai",
     "{'role':'user','content':[{'type':'text','text':'see'},{'type':'image_url',"
     "'image_url':{'url':'data:image/png;base64,AAAA'}},{'type':'image_url','image_url':"
     "{'url':'data:image/gif;base64,AAAA'}},{'type':'image_url','image_url':{'url':"
     "'https://example.org/a.png'}}]},", "gemini",
     "{'contents':[{'role':'user','parts':[{'text':'see'},{'inlineData':{'mimeType':"
     "'image/png','data':'AAAA'}},{'text':'[image_url left out]'},{'fileData':{'fileUri':"
     "'https://example.org/a.png'}}]}]}", "wrapped 1", NULL},
    {"pictures of users, pydantic-ai to ollama", "pydantic-ai",
     "{'kind':'request','parts':[{'part_kind':'user-prompt','content':['see',{'kind':"
     "'binary','data':'_-AA','media_type':'image/png'},{'kind':'image-url','url':"
     "'https://example.org/a.png'}]}]},", "ollama",
     "[{'role':'user','content':'see\\n\\n[image-url left out]','images':['/+AA']}]",
     "wrapped 1", NULL},
    {"pictures of users, gemini to pydantic-ai", "gemini",
     "{'role':'user','parts':[{'text':'see'}]},{'role':'user','parts':[{'inlineData':"
     "{'mimeType':'image/png','data':'AAAA'}}]},", "pydantic-ai",
     "[{'kind':'request','parts':[{'part_kind':'user-prompt','content':['see',{'data':"
     "'AAAA','media_type':'image/png','kind':'binary'}]}]}]", "merged 1", NULL},
    {"a picture in a result, anthropic", "anthropic",
     "{'role':'user','content':'u'},{'role':'assistant','content':[{'type':'tool_use','id':"
     "'x','name':'f','input':{}}]},{'role':'user','content':[{'type':'tool_result',"
     "'tool_use_id':'x','content':[{'type':'text','text':'shot'},{'type':'image','source':"
     "{'type':'base64','media_type':'image/png','data':'AAAA'}}]}]},", "anthropic",
     "{'messages':[{'role':'user','content':'u'},{'role':'assistant','content':[{'type':"
     "'tool_use','id':'x','name':'f','input':{}}]},{'role':'user','content':[{'type':"
     "'tool_result','tool_use_id':'x','content':[{'type':'text','text':'shot'},{'type':"
     "'image','source':{'type':'base64','media_type':'image/png','data':'AAAA'}}]}]}]}", "",
     NULL},
    {"a picture in a result, openai", "anthropic",
     "{'role':'user','content':'u'},{'role':'assistant','content':[{'type':'tool_use','id':"
     "'x','name':'f','input':{}}]},{'role':'user','content':[{'type':'tool_result',"
     "'tool_use_id':'x','content':[{'type':'image','source':{'type':'base64','media_type':"
     "'image/png','data':'AAAA'}}]}]},", "openai",
     "[" O_USER("u") "," O_CALLS(O_CALL("x", "f")) "," O_RESULT("x", "[image left out]")
     "]", "wrapped 1", NULL},
    {"pictures that are none", "openai",
     "{'role':'user','content':[{'type':'image_url','image_url':{'url':"
     "'data:image/svg+xml;base64,AAAA'}},{'type':'image_url','image_url':{'url':"
     "'data:image/png;base64,A*'}},{'type':'image_url','image_url':{'url':"
     "'file:///etc/passwd'}},{'type':'image_url','image_url':{}}]},", "anthropic",
     "{'messages':[{'role':'user','content':'[image_url left out]\\n\\n[image_url left out]"
     "\\n\\n[image_url left out]\\n\\n[image_url left out]'}]}", "wrapped 4", NULL},
    {"a redacted thought is no text", "anthropic",
     "{'role':'user','content':'u'},{'role':'assistant','content':[{'type':"
     "'redacted_thinking','data':'x'},{'type':'text','text':'a'}]},", "anthropic",
     "{'messages':[{'role':'user','content':'u'},{'role':'assistant','content':'a'}]}",
     "", NULL},
    {"parts that are no text", "openai",
     "{'role':'user','content':[{'type':'text','text':'see'},{'type':'image_url',"
     "'image_url':{'url':'data:'}},{'type':'text','text':' '}]},", "anthropic",
     "{'messages':[{'role':'user','content':'see\\n\\n[image_url left out]'}]}", NULL,
     NULL},
    {"a refusal beside null content", "openai",
     "{'role':'user','content':'u'},{'role':'assistant','content':null,'refusal':"
     "'I cannot'},{'role':'user','content':'v'},", "openai",
     "[" O_USER("u") "," O_SAYS("I cannot") "," O_USER("v") "]", NULL, NULL},
    {"a call as the function_call of old", "openai",
     "{'role':'user','content':'u'},{'role':'assistant','content':null,'function_call':"
     "{'name':'f','arguments':'{\\'a\\':1}'}},{'role':'function','name':'f','content':"
     "'r'},", "anthropic",
     "{'messages':[{'role':'user','content':'u'},{'role':'assistant','content':["
     "{'type':'tool_use','id':'call_2','name':'f','input':{'a':1}}]},{'role':'user',"
     "'content':[{'type':'tool_result','tool_use_id':'call_2','content':'r'}]}]}", NULL,
     NULL},
    {"parts that are no text, alone", "framework",
     "{'type':'multimodal_part','role':'user','content':[{'type':'image','source':{}}]},"
     "{'type':'multimodal_part','role':'user','content':[{'inlineData':{}}]},", "openai",
     "[" O_USER("[image left out]\\n\\n[inlineData left out]") "]", NULL, NULL},
    {"a list that only looks like parts", "framework",
     USER("u") CALL("x", "f")
     "{'type':'observation','content':[{'text':'a','rank':1}],'tool_call_id':'x'},",
     "openai",
     "[" O_USER("u") "," O_CALLS(O_CALL("x", "f")) ","
     O_RESULT("x", "[{\\'text\\':\\'a\\',\\'rank\\':1}]") "]", "", NULL},
    {"a result that brings its call along", "framework",
     USER("u") "{'type':'observation','tool':'f','args':{'a':1},'content':'r',"
     "'tool_call_id':'x'},{'type':'observation','tool':'g','args':{},'content':'s'},",
     "openai",
     "[" O_USER("u") "," O_CALLS(O_CALL_WITH("x", "f", "{\\'a\\':1}")) ","
     O_RESULT("x", "r") "," O_CALLS(O_CALL("call_3", "g")) "," O_RESULT("call_3", "s")
     "]", "", NULL},
    {"text of the developer and of unknown roles", "openai",
     "{'role':'developer','content':'d'},{'role':'user','content':'u'},{'role':'critic',"
     "'content':'c'},", "openai",
     "[" O_SYSTEM("d") "," O_USER("u\\n\\nc") "]", "merged 1", NULL},
    {"a turn with text before and behind its calls", "framework",
     USER("u") SAYS("let me see") CALL("x", "f") SAYS("and") CALL("y", "f")
     RESULT("x", "1") SAYS("half") RESULT("y", "2"), "openai",
     "[" O_USER("u") ",{'role':'assistant','content':'let me see\\n\\nand','tool_calls':["
     O_CALL("x", "f") "," O_CALL("y", "f") "]}," O_RESULT("x", "1") ","
     O_RESULT("y", "2") "," O_SAYS("half") "]", "merged 1", NULL},
};

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
    };
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < COUNT(counts); i++) {
        if (counts[i].count == 0 || len + 40 > size) continue;
        len += (size_t)snprintf(out + len, size - len, "%s%s %llu", len > 0 ? " " : "",
                                counts[i].word, (unsigned long long)counts[i].count);
    }
}

static void must_report(const trouble *t, const ms_project_report *r, size_t n)
{
    char words[512];
    report_words(r, words, sizeof words);
    assert_int_equal(r->read, n);
    if (t->report != NULL && strcmp(words, t->report) != 0)
        fail_msg("report: '%s' instead of '%s'", words, t->report);
}

/* One kind of trouble, for every provider. */
static void test_trouble(void **state)
{
    const trouble *t = (const trouble *)*state;
    ms_project_opts opts = everything;
    ms_project_report report;
    history h = history_told(t->dialect, t->history);
    opts.agent_key = ms_str_of(t->reader);
    for (size_t k = 0; k < PROFILES; k++) {
        const ms_profile *profile = ms_profile_at(k);
        ms_str body = projected(profile, &opts, &h, 0, h.n, &report, NULL);
        if (strcmp(profile->name, t->provider) == 0) {
            ms_str expected = quoted(t->expected);
            if (!ms_str_equal(body, expected)) {
                print_text("it gives", body);
                print_text("expected", expected);
                fail();
            }
            must_report(t, &report, h.n);
        }
        must_accept(profile, body, &h);
        must_stay(profile, body, &h);
        must_repeat(profile, &opts, &h);
    }
}


/* ---- ids and names that do not fit ---- */

/* The text of a member of the first call of message i of an openai list. */
static const char *call_text(json_t *list, size_t i, size_t call, const char *key)
{
    json_t *calls = json_object_get(json_array_get(list, i), "tool_calls");
    json_t *one = json_array_get(calls, call);
    if (strcmp(key, "id") == 0) return pv_text(one, key);
    return pv_text(json_object_get(one, "function"), key);
}

/* Calls of these ids, each with a result that repeats its number. */
static history history_of_ids(const ms_str *ids, size_t n)
{
    history h = history_of(2 * n + 1);
    assert_true(history_add(&h, ms_user_message(ms_text("u"))));
    for (size_t i = 0; i < 2 * n; i++) {
        char number[24];
        snprintf(number, sizeof number, "%lu", (unsigned long)(i % n));
        ms_envelope m = i < n ? ms_action(MS_STR("f"), ms_json(MS_STR("{}")),
                                          ms_str_of(NULL))
                              : ms_observation(ms_text(number), ms_str_of(NULL));
        m.call_id = ids[i % n];
        assert_true(history_add(&h, m));
    }
    return h;
}

/* In an openai list of such calls every result has the id of its own call, ids differ and
 * are of min to max bytes. */
static void ids_must_fit(ms_str body, size_t n, size_t min, size_t max)
{
    json_t *list = parsed(body);
    assert_int_equal(json_array_size(list), n + 2);
    for (size_t i = 0; i < n; i++) {
        json_t *result = json_array_get(list, i + 2);
        const char *id = call_text(list, 1, i, "id");
        assert_string_equal(pv_text(result, "tool_call_id"), id);
        assert_int_equal(strtoul(pv_text(result, "content"), NULL, 10), i);
        assert_in_range(strlen(id), min, max);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(id, call_text(list, 1, k, "id"));
    }
    json_decref(list);
}

#define FORTY "aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd"

static ms_str awkward_ids[16];

static size_t awkward_make(void)
{
    static const char *const texts[] = {
        FORTY, FORTY "x", FORTY "y", FORTY FORTY FORTY, "call|fc_1", "call:fc_1",
        "call fc_1", "\xC3\xA9\xC3\xA8", "\xC3\xA8\xC3\xA9", "a/b", "a_b", ".",
        "abc123XYZ", "abc123XY", "abc123XYZ0", "\xF0\x9F\x98\x80",
    };
    for (size_t i = 0; i < COUNT(texts); i++) awkward_ids[i] = ms_str_of(texts[i]);
    return COUNT(texts);
}

static void test_awkward_ids(void **state)
{
    size_t n = awkward_make();
    history h = history_of_ids(awkward_ids, n);
    (void)state;
    for (size_t k = 0; k < PROFILES; k++) {
        const ms_profile *profile = ms_profile_at(k);
        ms_str body = projected_all(profile, &everything, &h);
        must_accept(profile, body, &h);
        must_stay(profile, body, &h);
        must_repeat(profile, &everything, &h);
        if (k < 2) ids_must_fit(body, n, 1, 40);
    }
    json_t *list = parsed(projected_all(profile_of("openai"), &everything, &h));
    assert_string_equal(call_text(list, 1, 0, "id"), FORTY); /* what fits stays */
    assert_string_equal(call_text(list, 1, 4, "id"), "call|fc_1");
    assert_int_equal(strncmp(call_text(list, 1, 1, "id"), FORTY, 30), 0);
    json_decref(list);
}

/* Ids of exactly nine letters and digits, as some templates want them. */
static ms_profile nine_characters(void)
{
    ms_profile profile = *profile_of("chat-strict");
    profile.ids = MS_IDS_ALNUM;
    profile.id_min = profile.id_max = 9;
    return profile;
}

static void test_ids_of_nine(void **state)
{
    ms_profile profile = nine_characters();
    size_t n = awkward_make();
    history h = history_of_ids(awkward_ids, n);
    ms_str body = projected_all(&profile, &everything, &h);
    (void)state;
    must_accept(&profile, body, &h);
    must_stay(&profile, body, &h);
    must_repeat(&profile, &everything, &h);
    ids_must_fit(body, n, 9, 9);
    json_t *list = parsed(body);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(strspn(call_text(list, 1, i, "id"), "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"), 9);
    assert_string_equal(call_text(list, 1, 12, "id"), "abc123XYZ");
    json_decref(list);
}

/* A thousand calls of one id, for each way in which ids are made. */
static void test_one_id_often(void **state)
{
    enum { CALLS = 1000 };
    static ms_str ids[CALLS];
    ms_profile nine = nine_characters();
    const ms_profile *profiles[3] = {profile_of("openai"), profile_of("chat-strict"),
                                     &nine};
    (void)state;
    for (size_t i = 0; i < CALLS; i++) ids[i] = MS_STR("x y");
    history h = history_of_ids(ids, 200);
    for (size_t k = 0; k < 3; k++) {
        ms_str body = projected_all(profiles[k], &everything, &h);
        must_accept(profiles[k], body, &h);
        must_stay(profiles[k], body, &h);
        ids_must_fit(body, 200, k == 2 ? 9 : 1, k == 2 ? 9 : 40);
    }
}

static void test_long_tool_names(void **state)
{
    static const char *const names[] = {
        FORTY FORTY, "\xC3\xA9\xC3\xA9", " ", "mcp:server/tool.name", "a\001\177b",
    };
    history h = history_of(2 * COUNT(names));
    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        ms_envelope call = ms_action(ms_str_of(names[i]), ms_json(MS_STR("{}")),
                                     ms_str_of(NULL));
        assert_true(history_add(&h, call));
        assert_true(history_add(&h, ms_observation(ms_text("r"), ms_str_of(NULL))));
    }
    for (size_t k = 0; k < PROFILES; k++) {
        ms_str body = projected_all(ms_profile_at(k), &everything, &h);
        must_accept(ms_profile_at(k), body, &h);
        must_stay(ms_profile_at(k), body, &h);
    }
    json_t *list = parsed(projected_all(profile_of("openai"), &everything, &h));
    assert_int_equal(strlen(call_text(list, 0, 0, "name")), 64);
    assert_string_equal(call_text(list, 2, 0, "name"), "__");
    assert_string_equal(call_text(list, 4, 0, "name"), "_");
    assert_string_equal(call_text(list, 6, 0, "name"), "mcp_server_tool_name");
    json_decref(list);
}

/* What a call or result carries along for one provider is no reason to be refused. */
static void test_members_beside(void **state)
{
    static const char *const beside[] = {
        "{\"thoughtSignature\":\"abc\"}", "{\"thoughtSignature\":\"\"}",
        "{\"thoughtSignature\":5}", "{\"outcome\":\"denied\"}", "{\"outcome\":\"odd\"}",
        "{\"outcome\":\"\"}", "{\"type\":\"custom\",\"function\":{\"strict\":true}}",
        "{\"id\":\"other\",\"name\":\"other\",\"part_kind\":\"retry-prompt\"}",
        "{\"is_error\":false,\"cache_control\":{\"type\":\"ephemeral\"}}",
    };
    (void)state;
    for (size_t i = 0; i < 2 * COUNT(beside); i++) {
        history h = history_of(3);
        ms_envelope call = ms_action(MS_STR("f"), ms_json(MS_STR("{}")), ms_str_of(NULL));
        ms_envelope result = ms_observation(ms_text("r"), ms_str_of(NULL));
        if (i >= COUNT(beside))
            result = test_error_message(ms_text("r"), ms_str_of(NULL));
        call.extra = result.extra = ms_str_of(beside[i % COUNT(beside)]);
        assert_true(history_add(&h, ms_user_message(ms_text("u"))));
        assert_true(history_add(&h, call));
        assert_true(history_add(&h, result));
        for (size_t k = 0; k < PROFILES; k++) {
            ms_str body = projected_all(ms_profile_at(k), &everything, &h);
            must_accept(ms_profile_at(k), body, &h);
            must_stay(ms_profile_at(k), body, &h);
        }
    }
}


/* ---- histories that grow ---- */

static bool has_text(ms_str s, const char *text)
{
    size_t len = strlen(text);
    for (size_t i = 0; i + len <= s.len; i++)
        if (memcmp(s.ptr + i, text, len) == 0) return true;
    return false;
}

/* Where the last turn of a list begins; a guess too early is one that asks for less. */
static size_t last_turn(const sent *s)
{
    size_t i = s->n > 0 ? s->n - 1 : 0;
    while (i > 0 && (has_text(sent_piece(s, i), "{\"role\":\"tool\"") ||
                     has_text(sent_piece(s, i), "\"tool_result\"") ||
                     has_text(sent_piece(s, i), "\"functionResponse\"") ||
                     has_text(sent_piece(s, i), "\"tool-return\"")))
        i--;
    return i;
}

/* Without a window, one more message changes nothing before the last turn. */
static void only_the_end_changes(const ms_profile *profile, const history *h)
{
    sent now, before;
    bool begun = false; /* till then start_text may stand in */
    memset(&now, 0, sizeof now);
    memset(&before, 0, sizeof before);
    for (size_t n = 1; n <= h->n; n++) {
        size_t turn = last_turn(&before);
        ms_str body = projected(profile, &everything, h, 0, n, NULL, NULL);
        sent_set(&now, list_in(body));
        size_t kept = sent_alike(&now, &before);
        if (begun && kept < turn)
            fail_msg("%s, message %lu: %lu of %lu messages stand, the last turn begins "
                     "at %lu", profile->name, (unsigned long)n, (unsigned long)kept,
                     (unsigned long)before.n, (unsigned long)turn);
        begun = begun || ms_role_of(h->msgs[n - 1]) != MS_ROLE_SYSTEM;
        sent_set(&before, list_in(body));
        ms_arena_reset(&work);
    }
    sent_free(&now);
    sent_free(&before);
}

static void test_only_the_end_changes(void **state)
{
    uint64_t random = test_seed();
    size_t done = 0;
    (void)state;
    for (size_t i = 0; i < n_traces; i++) {
        if (json_array_size(traces[i].messages) > 120) continue;
        if (test_below(&random, 1000) >= test_times(100)) continue;
        ms_arena_reset(&arena);
        history h = trace_history(&traces[i]);
        for (size_t k = 0; k < PROFILES; k++) {
            only_the_end_changes(ms_profile_at(k), &h);
            ms_arena_reset(&work);
        }
        done++;
    }
    printf("%lu conversations grew\n", (unsigned long)done);
}

/* A history of n messages: questions, calls with results, answers, in turn. */
static history history_long(size_t n)
{
    history h = history_of(n);
    for (size_t i = 0; i < n; i++) {
        char text[32];
        snprintf(text, sizeof text, "text %lu", (unsigned long)i);
        ms_envelope m = i % 4 == 0   ? ms_user_message(ms_text(text))
                        : i % 4 == 1 ? ms_action(MS_STR("f"), ms_json(MS_STR("{}")),
                                                 ms_str_of(NULL))
                        : i % 4 == 2 ? ms_observation(ms_text(text), ms_str_of(NULL))
                                     : ms_assistant_message(ms_text(text));
        assert_true(history_add(&h, m));
    }
    return h;
}

/* With `step` the list begins the same for so long; with a fixed start it only grows. */
static void test_start_moves_in_steps(void **state)
{
    history h = history_long(500);
    (void)state;
    for (size_t k = 0; k < 2 * PROFILES; k++) {
        ms_project_opts opts = everything;
        sent now, before;
        uint64_t first = 0;
        size_t moves = 0;
        memset(&now, 0, sizeof now);
        memset(&before, 0, sizeof before);
        opts.step = k < PROFILES ? 40 : 300;
        opts.newest = k < PROFILES ? 100 : 0;
        opts.budget = k < PROFILES ? 0 : 1000;
        for (size_t n = 1; n <= h.n; n++) {
            ms_project_report report;
            ms_str body = projected(ms_profile_at(k % PROFILES), &opts, &h, 0, n, &report,
                                    NULL);
            sent_set(&now, list_in(body));
            bool moved = report.first_seq != first;
            moves += moved;
            if (!moved) assert_true(sent_alike(&now, &before) + 3 > before.n);
            if (k < PROFILES) assert_true(report.read - report.left_out <= 100);
            else assert_true(report.cost <= 1000);
            first = report.first_seq;
            sent_set(&before, list_in(body));
            ms_arena_reset(&work);
        }
        assert_true(moves > 5);
        assert_true(moves <= (k < PROFILES ? h.n / 40 : 1 + h.n * 9 / 300));
        sent_free(&now);
        sent_free(&before);
    }
}


/* ---- windows ---- */

/* A history made of turns, so that a test knows where each begins and what it costs. */
typedef struct turns {
    history h;
    size_t begin[64];     /* the first message of each; of the one behind the last, h.n */
    size_t n, pinned;     /* messages of system text at the start */
} turns;

/* A text of this many bytes. */
static ms_value text_of_size(size_t size)
{
    char *text = (char *)ms_arena_alloc(&arena, size + 1);
    memset(text, 'a', size);
    text[size] = '\0';
    return ms_text_n(ms_str_n(text, size));
}

static void turns_put(turns *t, ms_envelope m, uint64_t *random)
{
    if (m.type != MS_T_ACTION)
        m.content = text_of_size(1 + (size_t)test_below(random, 60));
    assert_true(history_add(&t->h, m));
}

/* One more turn: a user's text, or the assistant's with calls; tells whether the next one
 * may be the assistant's. */
static bool turns_add(turns *t, bool user, uint64_t *random)
{
    size_t calls = user ? 0 : (size_t)test_below(random, 4);
    t->begin[t->n++] = t->h.n;
    if (user) turns_put(t, ms_user_message(ms_text("")), random);
    else if (calls == 0 || test_one_in(random, 2))
        turns_put(t, ms_assistant_message(ms_text("")), random);
    for (size_t i = 0; i < 2 * calls; i++) {
        char id[32];
        snprintf(id, sizeof id, "id_%lu_%lu", (unsigned long)t->n,
                 (unsigned long)(i % calls));
        ms_envelope m = i < calls ? ms_action(MS_STR("tool"), ms_json(MS_STR("{}")),
                                              ms_str_of(NULL))
                                  : ms_observation(ms_text(""), ms_str_of(NULL));
        m.call_id = ms_str_of(id);
        turns_put(t, m, random);
    }
    t->begin[t->n] = t->h.n;
    return user || calls > 0;
}

static turns turns_make(uint64_t *random)
{
    turns t;
    memset(&t, 0, sizeof t);
    t.h = history_of(600);
    t.pinned = (size_t)test_below(random, 3);
    for (size_t i = 0; i < t.pinned; i++)
        turns_put(&t, ms_message(MS_T_DIRECTOR_CONTEXT, ms_text("")), random);
    t.begin[0] = t.h.n;
    bool assistant = true;
    for (size_t n = 1 + (size_t)test_below(random, 40); t.n < n;)
        assistant = turns_add(&t, !assistant || test_one_in(random, 3), random);
    return t;
}

/* Messages, or bytes of text and of names, from one message to another. */
static size_t turns_much(const turns *t, size_t from, size_t to, bool cost)
{
    size_t much = 0;
    for (size_t i = from; i < to; i++) {
        const ms_envelope *m = &t->h.items[i];
        much += !cost ? 1 : m->content.text.len + m->args.text.len + m->tool.len;
    }
    return much;
}

/* The first turn of a window of `most`, moved on to the next multiple of `step`; n: not
 * even the last one fits. */
static size_t turns_start(const turns *t, size_t most, size_t step, bool cost)
{
    size_t pinned = turns_much(t, 0, t->pinned, cost);
    size_t all = turns_much(t, t->pinned, t->h.n, cost), need, moved, first = t->n;
    if (cost) most = most > pinned ? most - pinned : 0;
    if (all <= most) return 0;
    need = all - most;
    moved = (need + step - 1) / step * step;
    for (size_t i = t->n; i-- > 0;)
        if (turns_much(t, t->pinned, t->begin[i], cost) >= moved) first = i;
    if (first < t->n) return first;
    for (size_t i = t->n; i-- > 0;)
        if (turns_much(t, t->pinned, t->begin[i], cost) >= need) first = i;
    return first;
}

/* A counter that a caller could write: bytes. */
static size_t count_bytes(void *ctx, ms_value text)
{
    (void)ctx;
    return text.text.len;
}

/* What is sent of the window is what is made of the slice alone. */
static void window_must_be(const ms_profile *profile, const ms_project_opts *opts,
                           const turns *t, size_t first)
{
    history slice = t->h;
    const ms_msg **msgs = (const ms_msg **)ms_arena_alloc(
        &work, (t->h.n + 1) * sizeof *msgs);
    ms_project_report report;
    size_t from = t->begin[first], n = 0;
    for (size_t i = 0; i < t->h.n; i++)
        if (i < t->pinned || i >= from) msgs[n++] = t->h.msgs[i];
    slice.msgs = msgs;
    slice.n = n;
    ms_str window = projected(profile, opts, &t->h, 0, t->h.n, &report, NULL);
    ms_str alone = projected_all(profile, &everything, &slice);
    must_accept(profile, window, &t->h);
    if (!ms_str_equal(window, alone)) {
        print_history(&t->h);
        print_text("window", window);
        print_text("slice", alone);
        fail_msg("%s, newest %lu, budget %lu, step %lu: not the same", profile->name,
                 (unsigned long)opts->newest, (unsigned long)opts->budget,
                 (unsigned long)opts->step);
    }
    assert_int_equal(report.left_out, from - t->pinned);
    assert_int_equal(report.first_seq, from + 1);
    if (opts->count != count_bytes) return;
    size_t cost = turns_much(t, 0, t->pinned, true);
    assert_int_equal(report.cost, cost + turns_much(t, from, t->h.n, true));
    assert_int_equal(report.newest_turn,
                     cost + turns_much(t, t->begin[t->n - 1], t->h.n, true));
}

static void test_newest(void **state)
{
    uint64_t random = test_seed();
    (void)state;
    for (size_t i = test_times(300); i-- > 0;) {
        turns t = turns_make(&random);
        ms_project_opts opts = everything;
        opts.newest = 1 + (size_t)test_below(&random, t.h.n + 3);
        opts.step = test_one_in(&random, 2) ? (size_t)test_below(&random, 20) : 0;
        size_t first = turns_start(&t, opts.newest, opts.step ? opts.step : 1, false);
        if (first == t.n) first = t.n - 1;
        for (size_t k = 0; k < PROFILES; k++)
            window_must_be(ms_profile_at(k), &opts, &t, first);
        (void)reset(NULL);
    }
}

/* The newest turn alone takes more than there is. */
static void must_be_too_large(const ms_profile *profile, const ms_project_opts *opts,
                              const turns *t)
{
    ms_project_report report;
    ms_result code;
    ms_str body = projected(profile, opts, &t->h, 0, t->h.n, &report, &code);
    assert_int_equal(code, MS_E_TOO_LARGE);
    assert_int_equal(body.len, 0);
    assert_int_equal(report.newest_turn,
                     turns_much(t, 0, t->pinned, true) +
                         turns_much(t, t->begin[t->n - 1], t->h.n, true));
}

static void test_budget(void **state)
{
    uint64_t random = test_seed() + 1;
    size_t large = 0, fits = 0;
    (void)state;
    for (size_t i = test_times(300); i-- > 0;) {
        turns t = turns_make(&random);
        size_t all = turns_much(&t, 0, t.h.n, true);
        ms_project_opts opts = everything;
        opts.count = count_bytes;
        opts.budget = 1 + (size_t)test_below(&random, all + 5);
        opts.step = test_one_in(&random, 2) ? (size_t)test_below(&random, 300) : 0;
        size_t first = turns_start(&t, opts.budget, opts.step ? opts.step : 1, true);
        for (size_t k = 0; k < PROFILES; k++) {
            if (first == t.n) must_be_too_large(ms_profile_at(k), &opts, &t);
            else window_must_be(ms_profile_at(k), &opts, &t, first);
        }
        large += first == t.n;
        fits += first < t.n;
        (void)reset(NULL);
    }
    assert_true(test_scale() < 100 || (large > 5 && fits > 50));
}

/* Both bounds at once: the narrower one counts. */
static void test_newest_and_budget(void **state)
{
    uint64_t random = test_seed() + 2;
    (void)state;
    for (size_t i = test_times(200); i-- > 0;) {
        turns t = turns_make(&random);
        ms_project_opts opts = everything;
        opts.count = count_bytes;
        opts.newest = 1 + (size_t)test_below(&random, t.h.n + 3);
        opts.budget = 1 + (size_t)test_below(&random, turns_much(&t, 0, t.h.n, true) + 5);
        size_t first = turns_start(&t, opts.newest, 1, false);
        size_t dear = turns_start(&t, opts.budget, 1, true);
        if (first == t.n) first = t.n - 1;
        if (dear > first) first = dear;
        for (size_t k = 0; k < PROFILES; k++) {
            if (first == t.n) must_be_too_large(ms_profile_at(k), &opts, &t);
            else window_must_be(ms_profile_at(k), &opts, &t, first);
        }
        (void)reset(NULL);
    }
}

/* The bytes of all texts, arguments and tool names in an openai list. */
static size_t texts_in(json_t *list)
{
    size_t size = 0, i, k;
    json_t *message, *call;
    json_array_foreach (list, i, message) {
        size += json_string_length(json_object_get(message, "content"));
        json_array_foreach (json_object_get(message, "tool_calls"), k, call) {
            json_t *function = json_object_get(call, "function");
            size += json_string_length(json_object_get(function, "name"));
            size += json_string_length(json_object_get(function, "arguments"));
        }
    }
    return size;
}

/* Counted in what is sent: never over the budget, but for what is made up, at any point
 * of a conversation. */
static void test_budget_of_traces(void **state)
{
    uint64_t random = test_seed();
    ms_project_report report;
    ms_result code;
    (void)state;
    for (size_t i = test_times(150); n_traces > 0 && i-- > 0;) {
        (void)reset(NULL);
        history h = trace_history(&traces[test_below(&random, n_traces)]);
        ms_project_opts opts = everything;
        opts.budget = 2000 + (size_t)test_below(&random, 30000);
        opts.count = count_bytes;
        size_t cut = 1 + (size_t)test_below(&random, h.n);
        ms_str body = projected(profile_of("openai"), &opts, &h, 0, cut, &report, &code);
        if (code == MS_E_TOO_LARGE) assert_true(report.newest_turn > opts.budget);
        if (code == MS_E_TOO_LARGE) continue;
        assert_int_equal(code, MS_OK);
        json_t *list = parsed(body);
        size_t sent_bytes = texts_in(list);
        size_t free_bytes = report.synthesised * strlen(NEVER) + 2 * report.merged;
        assert_true(report.cost <= opts.budget);
        assert_true(sent_bytes <= opts.budget + free_bytes);
        json_decref(list);
    }
}

typedef struct counter {
    size_t calls, bytes;
} counter;

static size_t count_one_each(void *ctx, ms_value text)
{
    counter *c = (counter *)ctx;
    c->calls++;
    c->bytes += text.text.len;
    return 10;
}

static void test_own_counter(void **state)
{
    counter c = {0, 0};
    ms_project_opts opts = everything;
    ms_project_report report;
    history h = history_told("framework", USER("one") SAYS("two") USER("three"));
    (void)state;
    opts.count = count_one_each;
    opts.count_ctx = &c;
    opts.budget = 25;
    (void)projected(profile_of("openai"), &opts, &h, 0, h.n, &report, NULL);
    assert_int_equal(c.calls, 3);
    assert_int_equal(c.bytes, 11);
    assert_int_equal(report.cost, 20);
    assert_int_equal(report.newest_turn, 10);
    assert_int_equal(report.first_seq, 2);
}

/* System text that alone takes more than the budget is too large, too. */
static void test_system_over_budget(void **state)
{
    ms_project_opts opts = everything;
    ms_result code;
    history h = history_told("framework", PLAIN("director_context", "0123456789"));
    (void)state;
    opts.count = count_bytes;
    opts.budget = 9;
    (void)projected(profile_of("openai"), &opts, &h, 0, h.n, NULL, &code);
    assert_int_equal(code, MS_E_TOO_LARGE);
    opts.budget = 10;
    (void)projected(profile_of("openai"), &opts, &h, 0, h.n, NULL, &code);
    assert_int_equal(code, MS_OK);
}

/* A system prompt that is given is part of what is sent, and of its cost. */
static void test_system_prompt_counts(void **state)
{
    ms_project_opts opts = everything;
    ms_project_report report;
    ms_result code;
    history h = history_told("framework", USER("0123456789"));
    (void)state;
    opts.count = count_bytes;
    opts.system = MS_STR("01234");
    opts.budget = 14;
    for (size_t k = 0; k < PROFILES; k++) {
        (void)projected(ms_profile_at(k), &opts, &h, 0, h.n, &report, &code);
        assert_int_equal(code, MS_E_TOO_LARGE);
        assert_int_equal(report.newest_turn, 15);
    }
}

/* However large the step: the window moves on, no further than what is needed. */
static void test_huge_steps(void **state)
{
    history h = history_told("framework",
                             USER("a") SAYS("b") USER("c") SAYS("d") USER("e"));
    static const size_t steps[] = {100, SIZE_MAX / 2, SIZE_MAX - 3, SIZE_MAX - 1,
                                   SIZE_MAX};
    ms_str left = quoted("[" O_SAYS("d") "," O_USER("e") "]");
    (void)state;
    for (size_t i = 0; i < 2 * COUNT(steps); i++) {
        ms_project_opts opts = everything;
        ms_project_report report;
        opts.count = count_bytes;
        opts.step = steps[i / 2];
        if (i % 2 == 0) opts.newest = 2;
        else opts.budget = 2;
        ms_str body = projected(profile_of("openai"), &opts, &h, 0, h.n, &report, NULL);
        assert_true(ms_str_equal(body, left));
        assert_int_equal(report.left_out, 3);
        assert_int_equal(report.cost, 2);
    }
}

/* A result that comes when the talk has gone on costs where its call is: what is newest
 * is not too large because of it, and the window has no less room. */
static void test_late_results_cost_at_their_calls(void **state)
{
    ms_project_opts opts = everything;
    ms_project_report report;
    history h = history_told("framework",
                             USER("go") CALL("x", "ls") USER("hi")
                             RESULT("x", FORTY "0123456789"));
    ms_str newest = quoted("[" O_USER("hi") "]");
    (void)state;
    opts.count = count_bytes;
    for (size_t i = 0; i < 2; i++) {
        opts.budget = i == 0 ? 40 : 0;
        opts.newest = i == 0 ? 0 : 1;
        ms_str body = projected(profile_of("openai"), &opts, &h, 0, h.n, &report, NULL);
        assert_true(ms_str_equal(body, newest));
        assert_int_equal(report.newest_turn, 2);
        assert_int_equal(report.cost, 2);
        assert_int_equal(report.left_out, 3);
    }
    opts.newest = 0;
    (void)projected(profile_of("openai"), &opts, &h, 0, h.n, &report, NULL);
    assert_int_equal(report.cost, strlen("go" "ls" "{}" FORTY "0123456789" "hi"));
}

static void test_count_tokens(void **state)
{
    static const struct {
        const char *text;
        bool json;
        size_t tokens;
    } rows[] = {
        {"", false, 0}, {"a", false, 1}, {"abcd", false, 1}, {"abcde", false, 2},
        {"hello world", false, 3}, {"{\"a\":[1,2]}", true, 4}, {"{\"a\":1}", true, 3},
        {"\xE4\xBD\xA0\xE5\xA5\xBD", false, 2},             /* two Chinese characters */
        {"\xEC\x95\x88\xEB\x85\x95", false, 2},             /* Korean */
        {"\xE3\x81\x82\xE3\x82\xA2", false, 2},             /* Japanese */
        {"\xD0\xBF\xD1\x80\xD0\xB8\xD0\xB2", false, 2},     /* four Cyrillic letters */
        {"abcd\xE4\xBD\xA0", false, 2}, {"\xF0\x9F\x98\x80", false, 1},
        {"\xFF\xFF", false, 1},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_value v = ms_text(rows[i].text);
        v.json = rows[i].json;
        if (ms_count_tokens(NULL, v) != rows[i].tokens)
            fail_msg("'%s' has %lu tokens, not %lu", rows[i].text,
                     (unsigned long)rows[i].tokens,
                     (unsigned long)ms_count_tokens(NULL, v));
        assert_int_equal(count_bytes(NULL, v), strlen(rows[i].text));
    }
    ms_value tokens = text_of_size(4000);
    assert_int_equal(ms_count_tokens(NULL, tokens), 1000);
    assert_int_equal(ms_count_tokens(NULL, ms_text(NULL)), 0);
}


/* ---- options ---- */

/* The prompt that is given stands before what the history has. */
static void test_system_prompt(void **state)
{
    ms_project_opts opts = everything;
    history h = history_told("framework", PLAIN("director_context", "more") USER("u"));
    (void)state;
    opts.system = MS_STR("first");
    ms_str body = projected_all(profile_of("openai"), &opts, &h);
    assert_true(ms_str_equal(
        body, quoted("[" O_SYSTEM("first\\n\\nmore") "," O_USER("u") "]")));
    body = projected_all(profile_of("anthropic"), &opts, &h);
    assert_true(ms_str_equal(body, quoted("{'system':'first\\n\\nmore','messages':["
                                          O_USER("u") "]}")));
    history user = history_told("framework", USER("u"));
    for (size_t k = 0; k < 6 * PROFILES; k++) {
        const ms_profile *profile = ms_profile_at(k / 6);
        const history *told = k % 2 == 0 ? &h : &user;
        opts.system = k % 3 == 0   ? MS_STR("first")
                      : k % 3 == 1 ? MS_STR(" \n\xE2\x80\x83")
                                   : MS_STR("");
        body = projected_all(profile, &opts, told);
        must_accept(profile, body, told);
        must_stay(profile, body, told);
        must_repeat(profile, &opts, told);
        body = projected(profile, &opts, told, 0, 0, NULL, NULL);
        must_accept(profile, body, told);
    }
}

/* No message, nowhere to go: an error, and nothing is written. */
static void test_nothing_given(void **state)
{
    const ms_profile *openai = profile_of("openai");
    history h = history_told("framework", USER("u"));
    feed f = {&h, 0, 1};
    ms_buf out;
    ms_error err;
    (void)state;
    memset(&out, 0, sizeof out);
    out.arena = &work;
    assert_int_equal(projection_write(openai, NULL, NULL, &f, &work, ms_buf_write, &out, NULL,
                                &err), MS_E_ARGUMENT);
    assert_int_equal(projection_write(openai, NULL, feed_next, &f, &work, NULL, &out, NULL,
                                &err), MS_E_ARGUMENT);
    assert_int_equal(out.len, 0);
    ms_str body = projected(openai, NULL, &h, 0, 1, NULL, NULL);
    assert_true(ms_str_equal(body, quoted("[" O_USER("u") "]")));
}

static size_t key_of(void *ctx, const ms_envelope *m, char out[MS_ENTITY_KEY_MAX])
{
    return test_entity_key(ms_str_of((const char *)ctx), m->seq, out);
}

static void test_shortening(void **state)
{
    static char session[] = "s";
    ms_project_opts opts = everything;
    ms_project_report report;
    ms_value text = text_of_size(2000);
    history h = history_of(6);
    (void)state;
    assert_true(history_add(&h, ms_message(MS_T_DIRECTOR_CONTEXT, text)));
    assert_true(history_add(&h, ms_user_message(text)));
    assert_true(history_add(&h, ms_assistant_message(text)));
    assert_true(history_add(&h, ms_action(MS_STR("f"), ms_json(MS_STR("{}")),
                                          ms_str_of(NULL))));
    assert_true(history_add(&h, ms_observation(text, ms_str_of(NULL))));
    opts.shorten = true;
    opts.key = key_of;
    opts.key_ctx = session;
    for (size_t k = 0; k < PROFILES; k++) {
        const ms_profile *profile = ms_profile_at(k);
        ms_str body = projected(profile, &opts, &h, 0, h.n, &report, NULL);
        assert_int_equal(report.shortened, 1);
        assert_in_range(body.len, 3 * 2000 + 400, 3 * 2000 + 1200);
        assert_true(has_text(body, "REM LOOKUP session-s-msg-3 to recover"));
        must_accept(profile, body, &h);
        must_stay(profile, body, &h);
        must_repeat(profile, &opts, &h);
    }
}

/* Old results become short, some turns at a time; new ones are whole. */
static void test_fresh(void **state)
{
    enum { CALLS = 40 };
    ms_project_opts opts = everything;
    history h = history_of(2 * CALLS);
    (void)state;
    for (size_t i = 0; i < CALLS; i++) {
        assert_true(history_add(&h, ms_action(MS_STR("f"), ms_json(MS_STR("{}")),
                                              ms_str_of(NULL))));
        assert_true(history_add(&h, ms_observation(text_of_size(1000), ms_str_of(NULL))));
    }
    opts.fresh = 6;
    for (opts.fresh_step = 0; opts.fresh_step < 10; opts.fresh_step += 3) {
        size_t step = opts.fresh_step ? opts.fresh_step : opts.fresh;
        size_t old = (CALLS - opts.fresh) / step * step;
        ms_str body = projected_all(profile_of("openai"), &opts, &h);
        json_t *list = parsed(body);
        for (size_t i = 0; i < CALLS; i++) {
            json_t *result = json_array_get(list, 2 * i + 1);
            bool is_short = json_string_length(json_object_get(result, "content")) < 600;
            assert_int_equal(is_short, i < old);
        }
        json_decref(list);
        for (size_t k = 0; k < PROFILES; k++) {
            must_repeat(ms_profile_at(k), &opts, &h);
            body = projected_all(ms_profile_at(k), &opts, &h);
            must_accept(ms_profile_at(k), body, &h);
            must_stay(ms_profile_at(k), body, &h);
        }
        ms_arena_reset(&work);
    }
}

/* What a profile gives for no messages at all. */
static ms_result code_of(const ms_profile *profile, ms_arena *arena_of_it)
{
    history h = {NULL, NULL, 0};
    feed f = {&h, 0, 0};
    ms_buf out;
    memset(&out, 0, sizeof out);
    out.arena = &work;
    return projection_write(profile, NULL, feed_next, &f, arena_of_it, ms_buf_write, &out, NULL,
                      NULL);
}

static void test_wrong_profiles(void **state)
{
    ms_profile odd = *profile_of("openai");
    (void)state;
    assert_null(ms_profile_find(MS_STR("nobody")));
    assert_null(ms_profile_at(PROFILES));
    assert_int_equal(code_of(NULL, &work), MS_E_ARGUMENT);
    assert_int_equal(code_of(&odd, NULL), MS_E_ARENA);
    assert_int_equal(code_of(&odd, &work), MS_OK);
    odd.id_max = 7;
    assert_int_equal(code_of(&odd, &work), MS_E_ARGUMENT);
    odd = *profile_of("openai");
    odd.shape = (ms_shape)(MS_SHAPE_PYDANTIC + 1);
    assert_int_equal(code_of(&odd, &work), MS_E_ARGUMENT);
}

/* A profile's own words stand in, in any dialect of the list. */
static void test_own_profile(void **state)
{
    ms_profile own = *profile_of("chat-strict");
    history h = history_told("framework", SAYS("a") CALL("x", "f"));
    (void)state;
    own.name = "chat-strict"; /* checked as that */
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
    assert_true(has_text(body, BEGINS) && has_text(body, NEVER));
}

/* Synthesised assistant text ends like any other: without white space where a provider
 * wants it so. */
static void test_white_space_at_the_end(void **state)
{
    static const char *const types[] = {
        "assistant_message", "final", "strategic_plan", "data", "synthesis",
    };
    (void)state;
    for (size_t i = 0; i < COUNT(types); i++) {
        ms_project_opts opts = everything;
        history h = history_of(2);
        ms_envelope m = ms_assistant_message(ms_text("so \t\xC2\xA0\n"));
        m.type = ms_type_of_word(ms_str_of(types[i]));
        m.agent_key = m.from_manager = opts.agent_key = MS_STR("me");
        assert_true(history_add(&h, ms_user_message(ms_text("u"))));
        assert_true(history_add(&h, m));
        for (size_t k = 0; k < PROFILES; k++) {
            ms_str body = projected_all(ms_profile_at(k), &opts, &h);
            must_accept(ms_profile_at(k), body, &h);
            must_stay(ms_profile_at(k), body, &h);
        }
    }
}

static ms_result write_refused(void *ctx, const char *bytes, size_t len)
{
    (void)bytes;
    size_t *left = (size_t *)ctx;
    if (*left < len) return MS_E_IO;
    *left -= len;
    return MS_OK;
}

/* Whatever the writer refuses, from the first bytes to the last, the error comes back. */
static void test_writing_fails(void **state)
{
    history h = history_long(40);
    (void)state;
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


/* ---- the store is only read ---- */

static void test_store_stays(void **state)
{
    static uint64_t buffer[1 << 16];
    ms_mem_desc desc;
    ms_store *store;
    ms_error err;
    history h = history_long(400);
    (void)state;
    memset(&desc, 0, sizeof desc);
    desc.buffer = buffer;
    desc.buffer_size = sizeof buffer;
    desc.keep_unset_times = true;
    assert_int_equal(ms_mem_open(&store, &desc, &err), MS_OK);
    for (size_t i = 0; i < h.n; i++)
        assert_int_equal(ms_append(store, MS_STR("l"), &h.items[i], NULL, &err), MS_OK);
    ms_str image = ms_mem_image(store);
    uint64_t before = hash_of(image.ptr, image.len);
    for (size_t k = 0; k < 2 * PROFILES; k++) {
        ms_project_opts opts = everything;
        ms_query query;
        ms_cursor it;
        ms_buf out;
        memset(&query, 0, sizeof query);
        memset(&out, 0, sizeof out);
        out.arena = &work;
        opts.newest = 40;
        opts.fresh = 2;
        opts.shorten = opts.stable = k < PROFILES;
        assert_int_equal(ms_query_open(store, &query, &it, &err), MS_OK);
        assert_int_equal(projection_write(ms_profile_at(k % PROFILES), &opts,
                                          test_next_of, &it,
                                    &work, ms_buf_write, &out, NULL, &err), MS_OK);
        assert_int_equal(ms_cursor_close(&it, &err), MS_OK);
        assert_true(ms_str_equal(ms_buf_text(&out),
                                 projected_all(ms_profile_at(k % PROFILES), &opts, &h)));
        image = ms_mem_image(store);
        assert_true(hash_of(image.ptr, image.len) == before);
        assert_int_equal(ms_selfcheck(store, &err), MS_OK);
    }
    ms_close(store);
}


/* ---- hostile histories ---- */

static ms_str one_of(uint64_t *random, const char *const *texts, size_t n)
{
    return ms_str_of(texts[test_below(random, n)]);
}

static ms_value hostile_value(uint64_t *random)
{
    static const char *const texts[] = {
        "", " \t", "\xC2\xA0\xE3\x80\x80", "a", "b", "so ", "\n\nlate\r\n", "caf\xC3\xA9",
        "{\"a\":1}", "<context>\nx\n</context>", "Observation: 1", "null",
        "\xE4\xBD\xA0\xE5\xA5\xBD", "\xF0\x9F\x98\x80",
    };
    static const char *const jsons[] = {
        "null", "[]", "{}", "\"\"", "\" \"", "\"s\\u0041\\n\"", "7", "-0.5e3", "true",
        "[1,[2]]", "[\"p\",\"q\"]", "{\"result\":1}", "{\"error\":\"e\"}",
        "{\"result\":{\"a\":1}}", "[{\"type\":\"text\",\"text\":\"t\"}]",
        "[{\"type\":\"text\",\"text\":\" \"}]", "[{\"text\":\"g\"}]",
        "[{\"type\":\"image_url\",\"image_url\":{}},{\"type\":\"text\",\"text\":\"u\"}]",
        "[{\"type\":\"tool_use\",\"id\":\"x\",\"name\":\"f\",\"input\":{}}]",
        "[{\"type\":\"refusal\",\"refusal\":\"no\"}]", "[ ]", " [ null ] ",
        "{ \"a\" : 1 }", "[{\"part_kind\":\"tool-return\"}]", "[[],[]]", "[{}]", "[null]",
    };
    if (test_one_in(random, 2))
        return ms_text_n(one_of(random, texts, COUNT(texts)));
    return ms_json(one_of(random, jsons, COUNT(jsons)));
}

/* Absent once in two times. */
static ms_str hostile_id(uint64_t *random)
{
    static const char *const ids[] = {
        "", "x", "x", "y", "x_2", "call_3", "x y", "\xC3\xA9", FORTY "zz", FORTY "zy",
        "call_2",
    };
    if (test_one_in(random, 2)) return ms_str_of(NULL);
    return one_of(random, ids, COUNT(ids));
}

static ms_envelope hostile_message(uint64_t *random)
{
    static const char *const agents[] = {NULL, NULL, "a", "a", "b"};
    static const char *const tools[] = {
        "f", "f", "g", "", "a b", "\xC3\xA9", FORTY FORTY,
    };
    static const char *const args[] = {
        "{}", "{\"q\":[1]}", " { } ", "{\"INVALID_JSON\":1}",
    };
    static const char *const beside[] = {
        NULL, NULL, NULL, "{\"thoughtSignature\":\"s\"}", "{\"outcome\":\"denied\"}",
        "{\"type\":\"odd\",\"id\":\"z\"}",
    };
    static const ms_type frequent[] = {
        MS_T_USER_MESSAGE, MS_T_ASSISTANT_MESSAGE, MS_T_ACTION, MS_T_ACTION, MS_T_ACTION,
        MS_T_OBSERVATION, MS_T_OBSERVATION, MS_T_OBSERVATION, MS_T_ERROR,
    };
    ms_envelope m;
    memset(&m, 0, sizeof m);
    m.type = test_one_in(random, 3)
                 ? (ms_type)(1 + test_below(random, MS_TYPE_COUNT - 1))
                 : frequent[test_below(random, COUNT(frequent))];
    if (test_one_in(random, 6))
        m.role = (ms_role)test_below(random, MS_ROLE_FUNCTION + 1);
    if (test_one_in(random, 6)) m.flags = MS_FLAG_JOINED;
    m.agent_key = one_of(random, agents, COUNT(agents));
    m.content = hostile_value(random);
    m.call_id = hostile_id(random);
    m.extra = one_of(random, beside, COUNT(beside));
    if (test_one_in(random, 8)) m.turn_id = MS_STR("t");
    if (test_one_in(random, 10))
        m.extra = MS_STR("{\"role\":\"x\",\"content\":1,\"m\":2}");
    if (m.type == MS_T_ACTION || test_one_in(random, 6)) {
        m.tool = one_of(random, tools, COUNT(tools));
        m.args = test_one_in(random, 4) ? ms_text_n(hostile_value(random).text)
                                        : ms_json(one_of(random, args, COUNT(args)));
        if (m.type == MS_T_ACTION) m.content = ms_text(NULL);
    }
    m.worker = m.from_worker = one_of(random, agents, COUNT(agents));
    m.from_manager = test_one_in(random, 2) ? MS_STR("a") : MS_STR("m");
    m.task = m.summary = hostile_value(random).text;
    if (m.type == MS_T_DELEGATION && m.worker.ptr == NULL) m.worker = MS_STR("w");
    if (m.type == MS_T_OTHER) m.type_name = MS_STR("odd");
    if (m.type == MS_T_GLOBAL_OBSERVATION && test_one_in(random, 2))
        m.summary = m.from_manager = ms_str_of(NULL);
    return m;
}

static history hostile_history(uint64_t *random, size_t most)
{
    size_t n = (size_t)test_below(random, most + 1);
    history h = history_of(n);
    for (size_t tries = 0; h.n < n && tries < 4 * n; tries++)
        (void)history_add(&h, hostile_message(random));
    return h;
}

static ms_project_opts hostile_opts(uint64_t *random)
{
    ms_project_opts opts = everything;
    static const char *const readers[] = {NULL, NULL, "a", "b", "c"};
    opts.agent_key = one_of(random, readers, COUNT(readers));
    if (test_one_in(random, 4)) opts.system = MS_STR("be good");
    if (test_one_in(random, 2)) opts.newest = (size_t)test_below(random, 12);
    if (test_one_in(random, 3)) opts.budget = (size_t)test_below(random, 120);
    if (test_one_in(random, 3)) opts.step = (size_t)test_below(random, 8);
    if (test_one_in(random, 3)) opts.count = count_bytes;
    opts.stable = test_one_in(random, 2);
    opts.shorten = test_one_in(random, 4);
    opts.shorten_opts.keep = 10;
    if (test_one_in(random, 3)) opts.fresh = 1 + (size_t)test_below(random, 4);
    if (test_one_in(random, 2)) opts.fresh_step = 1 + (size_t)test_below(random, 3);
    return opts;
}

static void test_hostile(void **state)
{
    uint64_t random = test_seed();
    size_t refused = 0, done = 0;
    (void)state;
    for (size_t i = test_times(1200); i-- > 0; (void)reset(NULL)) {
        history h = hostile_history(&random, test_one_in(&random, 10) ? 60 : 14);
        ms_project_opts opts = hostile_opts(&random);
        for (size_t k = 0; k < PROFILES; k++) {
            const ms_profile *profile = ms_profile_at(k);
            ms_result code;
            ms_str body = projected(profile, &opts, &h, 0, h.n, NULL, &code);
            must_repeat(profile, &opts, &h);
            if (code == MS_E_TOO_LARGE && opts.budget > 0) {
                refused++;
                continue;
            }
            assert_int_equal(code, MS_OK);
            must_accept(profile, body, &h);
            must_stay(profile, body, &h);
            done++;
        }
    }
    test_tally("hostile requests", done);
    printf("%lu hostile requests, %lu too large\n", (unsigned long)done,
           (unsigned long)refused);
}

/* ---- which result goes to which call: a slow twin ---- */

typedef struct twin_call {
    int id, agent;        /* id 0: none */
    size_t turn;
    char result[16];      /* "" while there is none */
} twin_call;

typedef struct twin {
    twin_call calls[40];
    size_t n, turn;       /* turn: counts turns of all agents */
    int open;             /* the agent whose turn goes on, or -1 */
    size_t newest[2];     /* turn of each agent */
} twin;

static void twin_calls(twin *t, int agent, int id)
{
    twin_call *call = &t->calls[t->n++];
    if (t->open != agent) t->newest[agent] = ++t->turn;
    t->open = agent;
    memset(call, 0, sizeof *call);
    call->id = id;
    call->agent = agent;
    call->turn = t->newest[agent];
}

static bool twin_waits(const twin *t, size_t i, int agent, int id)
{
    const twin_call *call = &t->calls[i];
    return call->result[0] == '\0' && call->agent == agent && (id == 0 || call->id == id);
}

/* The nearest turn with such a call, and in it the oldest; without an id, none but the
 * newest turn of the agent. */
static void twin_result(twin *t, int agent, int id, const char *text)
{
    size_t turn = t->newest[agent], i = t->n;
    while (id != 0 && i > 0 && !twin_waits(t, i - 1, agent, id)) i--;
    if (id != 0) turn = i > 0 ? t->calls[i - 1].turn : 0;
    for (i = 0; i < t->n; i++) {
        if (t->calls[i].turn != turn || !twin_waits(t, i, agent, id)) continue;
        snprintf(t->calls[i].result, sizeof t->calls[i].result, "%s", text);
        if (t->newest[agent] == turn && t->open == agent) t->open = -1;
        return;
    }
    if (id == 0) t->open = -1; /* told by the user */
}

/* One more message, for the history and for the twin. */
static void twin_step(twin *t, history *h, uint64_t *random)
{
    static const char *const ids[] = {NULL, "x", "y"};
    static const char *const agents[] = {"a", "b"};
    char text[16];
    int id = (int)test_below(random, 3), agent = (int)test_below(random, 2);
    unsigned what = (unsigned)test_below(random, 10);
    ms_envelope m = ms_user_message(ms_text("u"));
    if (what == 0) t->open = -1;
    snprintf(text, sizeof text, "%c%lu", what < 6 ? 'c' : 'r',
             (unsigned long)(what < 6 ? t->n : h->n));
    if (what > 0 && what < 6) {
        m = ms_action(ms_str_of(text), ms_json(MS_STR("{}")), ms_str_of(NULL));
        twin_calls(t, agent, id);
    } else if (what >= 6) {
        m = ms_observation(ms_text(text), ms_str_of(NULL));
        twin_result(t, agent, id, text);
    }
    if (what > 0) m.call_id = ms_str_of(ids[id]);
    if (what > 0) m.agent_key = ms_str_of(agents[agent]);
    assert_true(history_add(h, m));
}

/* In an openai list the call of tool c<i> is answered by what the twin says. */
static size_t twin_compare(const twin *t, json_t *list)
{
    size_t found = 0, i, k, r;
    json_t *message, *call;
    json_array_foreach (list, i, message) {
        json_array_foreach (json_object_get(message, "tool_calls"), k, call) {
            json_t *function = json_object_get(call, "function");
            size_t which = strtoul(pv_text(function, "name") + 1, NULL, 10);
            const char *wanted = t->calls[which].result;
            if (wanted[0] == '\0') wanted = NEVER;
            for (r = i + 1; strcmp(pv_text(json_array_get(list, r), "tool_call_id"),
                                   pv_text(call, "id")) != 0; r++)
                continue;
            if (strcmp(pv_text(json_array_get(list, r), "content"), wanted) != 0)
                return SIZE_MAX;
            found++;
        }
    }
    return found;
}

static void test_pairs(void **state)
{
    uint64_t random = test_seed();
    (void)state;
    for (size_t i = test_times(2000); i-- > 0; (void)reset(NULL)) {
        history h = history_of(40);
        twin t;
        memset(&t, 0, sizeof t);
        t.open = -1;
        for (size_t n = (size_t)test_below(&random, 40); n > 0; n--)
            twin_step(&t, &h, &random);
        ms_str body = projected_all(profile_of("openai"), &everything, &h);
        json_t *list = parsed(body);
        if (twin_compare(&t, list) != t.n) {
            print_history(&h);
            print_text("it gives", body);
            fail_msg("a result is at another call than it should be");
        }
        json_decref(list);
    }
}

/* Writes bytes that are no UTF-8 over some of a text in a record, which no store mends
 * then. */
static void break_text(uint64_t *random, ms_str text)
{
    static const char *const broken[] = {
        "\xFF", "a\xC3", "\xED\xA0\x80", "\x80 b", "\xF0\x9F",
    };
    ms_str bytes = one_of(random, broken, COUNT(broken));
    if (text.len < bytes.len || test_one_in(random, 3)) return;
    size_t at = (size_t)test_below(random, text.len - bytes.len + 1);
    char *in_record = (char *)(uintptr_t)text.ptr;
    memcpy(in_record + at, bytes.ptr, bytes.len);
}

/* Bytes that are no UTF-8, in every field that is text, of messages that no store has
 * mended. */
static void test_no_utf8(void **state)
{
    uint64_t random = test_seed();
    (void)state;
    for (size_t i = test_times(400); i-- > 0; (void)reset(NULL)) {
        history h = hostile_history(&random, 12);
        ms_project_opts opts = hostile_opts(&random);
        opts.budget = 0;
        opts.agent_key = ms_str_of(NULL);
        for (size_t k = 0; k < h.n; k++) {
            const ms_envelope *m = &h.items[k];
            if (!m->content.json) break_text(&random, m->content.text);
            if (!m->args.json) break_text(&random, m->args.text);
            break_text(&random, m->call_id);
            break_text(&random, m->tool);
            break_text(&random, m->task);
            break_text(&random, m->worker);
            break_text(&random, m->summary);
            break_text(&random, m->from_manager);
            break_text(&random, m->from_worker);
        }
        for (size_t k = 0; k < PROFILES; k++)
            must_accept(ms_profile_at(k), projected_all(ms_profile_at(k), &opts, &h), &h);
    }
}


/* Lends one message at a time, and takes it back with the next call. */
typedef struct lender {
    feed of;
    void *lent;
    size_t size;
} lender;

static const ms_msg *lender_next(void *ctx)
{
    lender *l = (lender *)ctx;
    const ms_msg *msg = feed_next(&l->of);
    if (l->lent) memset(l->lent, 0xA5, l->size);
    free(l->lent);
    l->lent = NULL;
    if (!msg) return NULL;
    l->size = ms_size(msg);
    l->lent = malloc(l->size);
    assert_non_null(l->lent);
    memcpy(l->lent, msg, l->size);
    return (const ms_msg *)l->lent;
}

static void test_messages_that_are_only_lent(void **state)
{
    uint64_t random = test_seed();
    (void)state;
    for (size_t i = test_times(400); i-- > 0; (void)reset(NULL)) {
        history h = hostile_history(&random, 40);
        ms_project_opts opts = hostile_opts(&random);
        const ms_profile *profile = ms_profile_at(i % PROFILES);
        lender l = {{&h, 0, h.n}, NULL, 0};
        ms_buf out;
        memset(&out, 0, sizeof out);
        out.arena = &work;
        opts.budget = 0;
        opts.stable = false;
        ms_str whole = projected_all(profile, &opts, &h);
        assert_int_equal(projection_write(profile, &opts, lender_next, &l, &work, ms_buf_write,
                                    &out, NULL, NULL), MS_OK);
        assert_true(ms_str_equal(ms_buf_text(&out), whole));
        assert_null(l.lent);
    }
}


/* ---- memory that fails ---- */

static uint64_t fixed[1 << 17]; /* a megabyte */

static bool is_no_memory(ms_result code)
{
    return code == MS_E_NO_MEMORY || code == MS_E_ARENA;
}

/* In buffers of growing size: an error, or all. */
static void test_small_buffers(void **state)
{
    uint64_t random = test_seed();
    (void)state;
    for (size_t i = test_times(60); i-- > 0; (void)reset(NULL)) {
        history h = hostile_history(&random, 30);
        ms_project_opts opts = hostile_opts(&random);
        const ms_profile *profile = ms_profile_at(i % PROFILES);
        opts.budget = 0;
        ms_str whole = projected_all(profile, &opts, &h);
        ms_result code = MS_E_ARENA;
        for (size_t size = 0; code != MS_OK; size += 32 + size / 128) {
            feed f = {&h, 0, h.n};
            ms_arena small;
            ms_buf out;
            memset(&out, 0, sizeof out);
            out.arena = &work;
            test_arena_init_fixed(&small, fixed, size);
            code = projection_write(profile, &opts, feed_next, &f, &small, ms_buf_write, &out,
                              NULL, NULL);
            if (code == MS_OK) assert_true(ms_str_equal(ms_buf_text(&out), whole));
            else assert_true(is_no_memory(code) && size < sizeof fixed);
        }
    }
}

/* The same over the heap: all that was taken comes back. */
static void test_failing_heap(void **state)
{
    history h = history_long(400);
    const ms_profile *profile = profile_of("anthropic");
    ms_str whole = projected_all(profile, &everything, &h);
    (void)state;
    for (size_t k = 1;; k++) {
        test_alloc heap;
        ms_arena own;
        ms_buf out;
        feed f = {&h, 0, h.n};
        memset(&out, 0, sizeof out);
        out.arena = &work;
        test_alloc_init(&heap);
        heap.fail_at = k;
        test_arena_init(&own, &heap.alloc);
        ms_result code = projection_write(profile, &everything, feed_next, &f, &own,
                                    ms_buf_write, &out, NULL, NULL);
        if (code == MS_OK) assert_true(ms_str_equal(ms_buf_text(&out), whole));
        else assert_int_equal(code, MS_E_NO_MEMORY);
        assert_int_equal(code == MS_OK, heap.failed == 0);
        ms_arena_deinit(&own);
        test_alloc_done(&heap);
        if (heap.failed == 0) break;
    }
}


/* ---- time ---- */

/* Seconds for a history to be projected. */
static double time_of(const ms_profile *profile, const history *h)
{
    ms_project_opts opts = everything;
    opts.stable = true;
    double begin = seconds_now();
    (void)projected_all(profile, &opts, h);
    double took = seconds_now() - begin;
    ms_arena_reset(&work);
    return took;
}

/* How n calls and n results come: what is hard for whoever looks for pairs. */
enum {
    ONE_ID,               /* all calls of one id in one turn, then all results */
    ONE_ID_TURNS,         /* one id, each call in a turn of its own, results at the end */
    ONE_ID_OPEN,          /* one id, calls that stay open, one result in between */
    NO_ID,                /* no ids, all calls in one turn, then all results */
    NO_ID_OTHER_TOOL,     /* the same, results name a tool that none of the calls has */
    NO_ID_BACKWARDS,      /* results name tools from the last call to the first */
    LONG_ID,              /* one id that does not fit */
    ALIKE_IDS,            /* ids that fill their room, alike to near the end, each twice */
    NO_ID_ONE_OPEN,       /* no ids, a first call of another tool is never answered */
    WAYS
};

static ms_envelope hard_message(int way, size_t i, size_t n, char text[48])
{
    bool call = way == ONE_ID_TURNS ? i < 2 * n && i % 2 == 0 : i < n;
    ms_envelope m = call ? ms_action(MS_STR("f"), ms_json(MS_STR("{}")), ms_str_of(NULL))
                         : ms_observation(ms_text("r"), ms_str_of(NULL));
    if (way == ONE_ID_TURNS && i < 2 * n && i % 2 == 1)
        return ms_user_message(ms_text("u"));
    if (way == ONE_ID_OPEN && i % 50 == 49) m = ms_observation(ms_text("r"),
                                                               ms_str_of(NULL));
    if (way == ONE_ID_OPEN && i % 50 == 48) return ms_user_message(ms_text("u"));
    if (way <= ONE_ID_OPEN) m.call_id = MS_STR("x");
    if (way == LONG_ID) m.call_id = MS_STR(FORTY FORTY);
    if (way == NO_ID_OTHER_TOOL && !call) m.tool = MS_STR("g");
    if (way == NO_ID_ONE_OPEN) m.tool = i == 0 ? MS_STR("g") : MS_STR("f");
    if (way == ALIKE_IDS) {
        size_t which = i % (n / 2);
        memcpy(text, FORTY, 40);
        for (size_t k = 37; k < 40; k++, which /= 64) text[k] = (char)('0' + which % 64);
        m.call_id = ms_str_n(text, 40);
    }
    if (way != NO_ID_BACKWARDS) return m;
    snprintf(text, 48, "f%lu", (unsigned long)(call ? i : 2 * n - 1 - i));
    m.tool = ms_str_of(text);
    return m;
}

static history history_hard(int way, size_t n)
{
    size_t all = way == ONE_ID_TURNS ? 3 * n : way == ONE_ID_OPEN ? n : 2 * n;
    history h = history_of(all);
    for (size_t i = 0; i < all; i++) {
        char text[48];
        assert_true(history_add(&h, hard_message(way, i, n, text)));
    }
    return h;
}

/* The least of some runs. */
static double least_time_of(const ms_profile *profile, const history *h)
{
    double least = 1e9;
    for (size_t i = 0; i < 4; i++) {
        double took = time_of(profile, h);
        if (took < least) least = took;
    }
    return least;
}

/* Four times as many calls take about four times as long, whatever their ids; sixteen
 * times would be the square. */
static void test_no_quadratic_pairs(void **state)
{
    size_t n = test_scale() < 100 ? 8000 : test_scale() < 1000 ? 20000 : 100000;
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        (void)reset(NULL);
        history few = history_hard(way, n / 4), many = history_hard(way, n);
        double quarter = least_time_of(profile_of("openai"), &few);
        double whole = least_time_of(profile_of("openai"), &many);
        printf("way %d: %lu messages in %.3f s, a quarter of them in %.3f s\n", way,
               (unsigned long)many.n, whole, quarter);
        if (whole > 0.05) assert_true(whole < 10 * quarter);
    }
}

static void test_speed(void **state)
{
    enum { MOST = 1000 };
    history all = history_of(8000);
    (void)state;
    for (size_t i = 0; i < n_traces && all.n < MOST; i++) {
        history h = trace_history(&traces[i]);
        for (size_t k = 0; k < h.n && all.n < MOST; k++)
            assert_true(history_add(&all, h.items[k]));
    }
    for (size_t k = 0; k < PROFILES && all.n > 0; k++) {
        double least = least_time_of(ms_profile_at(k), &all);
        printf("%s: %.2f us a message of real data\n", ms_profile_at(k)->name,
               least * 1e6 / (double)all.n);
    }
}


#define TEST(name) {#name, test_##name, reset, reset, NULL}

static const struct CMUnitTest more_tests[] = {
    TEST(naive_windows), TEST(cuts),
    TEST(awkward_ids), TEST(ids_of_nine), TEST(one_id_often), TEST(long_tool_names),
    TEST(members_beside),
    TEST(only_the_end_changes), TEST(start_moves_in_steps),
    TEST(newest), TEST(budget), TEST(newest_and_budget), TEST(budget_of_traces),
    TEST(own_counter), TEST(system_over_budget), TEST(system_prompt_counts),
    TEST(count_tokens),
    TEST(huge_steps), TEST(late_results_cost_at_their_calls),
    TEST(system_prompt), TEST(shortening), TEST(fresh),
    TEST(nothing_given),
    TEST(wrong_profiles), TEST(own_profile),
    TEST(white_space_at_the_end),
    TEST(writing_fails), TEST(store_stays), TEST(messages_that_are_only_lent),
    TEST(hostile), TEST(pairs), TEST(no_utf8),
    TEST(small_buffers), TEST(failing_heap),
    TEST(no_quadratic_pairs), TEST(speed),
};

int main(void)
{
    static trouble told[COUNT(troubles)];
    struct CMUnitTest tests[COUNT(troubles) + COUNT(more_tests)];
    for (size_t i = 0; i < COUNT(troubles); i++) {
        told[i] = troubles[i];
        struct CMUnitTest one = {troubles[i].name, test_trouble, reset, reset, &told[i]};
        tests[i] = one;
    }
    for (size_t i = 0; i < COUNT(more_tests); i++)
        tests[COUNT(troubles) + i] = more_tests[i];
    n_traces = traces_load(traces, COUNT(traces));
    int failed = cmocka_run_group_tests_name("project", tests, NULL, release);
    traces_free(traces, n_traces);
    return failed;
}
