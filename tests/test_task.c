/* Tasks in stores: any message is written as one of a task, messages are found by id,
 * changes and streams against an array of JSON. What the format "task" reads and writes
 * is in tests/formats/task.jsonl. */

#define _POSIX_C_SOURCE 200809L

#include "stores.h"
#include "dialects.h"

#include <time.h>


/* ---- helpers ---- */

/* One message, read by a format. */
static ms_envelope read_one(const char *name, const char *json)
{
    ms_envelopes list = reads(name, ms_str_of(json), STRICT);
    assert_int_equal(list.count, 1);
    return list.items[0];
}

static ms_str write_one(const ms_envelope *m, unsigned how)
{
    ms_envelope copy = *m;
    ms_envelopes list = {&copy, 1};
    return written("task", &list, how);
}

#define TEXT "{\"type\":\"text\",\"author\":\"agent\",\"content\":\"x\"}"
#define WRAP(more) "{\"task_id\":\"t\",\"content\":" TEXT more "}"

/* What is written of any message is a task message, and that comes back. */
static void message_of_any_kind_comes_back_when_it_was_written(void **state)
{
    (void)state;
    uint64_t rng = test_seed();
    for (size_t i = test_times(20000); i > 0; i--) {
        ms_envelope m = random_message(&rng);
        unsigned place = test_one_in(&rng, 2) ? PLACES : 0;
        if (test_one_in(&rng, 4)) m.time_ns = (int64_t)test_random(&rng) | 1;
        ms_str text = write_one(&m, place | ENCODED);
        m = reads("task", text, STRICT).items[0];
        same_json("task", write_one(&m, place | ENCODED), text);
        ms_arena_reset(&arena);
    }
}


/* ---- tasks in stores ---- */

enum { MANY = 400 };

static ms_result update(ms_store *store, ms_str id, const ms_task_change *c,
                        const ms_msg **msg, ms_error *err)
{
    return ms_task_update(store, MS_STR("t"), id, c, &arena, msg, err);
}

static void message_is_found_when_asked_by_id(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_envelope m = ms_user_message(ms_text("x"));
    const ms_msg *msg;
    ms_error err;
    char number[32];
    ms_str t = MS_STR("t"), u = MS_STR("u");
    m.id = MS_STR("m-1");
    uint64_t named = must_append(s.store, t, &m);
    m.id = no_str();
    uint64_t plain = must_append(s.store, t, &m), other = must_append(s.store, u, &m);
    store_reopen(&s);
    assert_int_equal(ms_task_get(s.store, t, MS_STR("m-1"), &arena, &msg, &err), MS_OK);
    assert_int_equal(ms_seq(msg), named);
    snprintf(number, sizeof number, "%lu", (unsigned long)plain);
    assert_int_equal(ms_task_get(s.store, t, ms_str_of(number), &arena, &msg, &err),
                     MS_OK);
    assert_int_equal(ms_seq(msg), plain);
    snprintf(number, sizeof number, "%lu", (unsigned long)other);
    const char *const not_there[] = {number, "1", "", "m-2", "0", "18446744073709551616",
                                     "99999999999999999999999", "02"};
    for (size_t i = 0; i < COUNT(not_there); i++) {
        assert_int_equal(ms_task_get(s.store, t, ms_str_of(not_there[i]), &arena, &msg,
                                     &err),
                         MS_E_NOT_FOUND);
        assert_null(msg);
    }
    assert_int_equal(ms_task_get(s.store, u, MS_STR("m-1"), &arena, &msg, &err),
                     MS_E_NOT_FOUND);
    m.id = ms_str_of(number); /* the number of another message, as a name; twice */
    must_append(s.store, t, &m);
    named = must_append(s.store, t, &m);
    assert_int_equal(ms_task_get(s.store, t, m.id, &arena, &msg, &err), MS_OK);
    assert_int_equal(ms_seq(msg), named);
    assert_int_equal(ms_task_get(s.store, t, no_str(), &arena, &msg, &err),
                     MS_E_ARGUMENT);
    assert_int_equal(ms_task_get(s.store, no_str(), m.id, &arena, &msg, &err),
                     MS_E_ARGUMENT);
    assert_int_equal(ms_task_get(s.store, t, m.id, NULL, &msg, &err), MS_E_ARENA);
    store_close(&s);
}

/* Flips bits of one byte of a file that is open elsewhere. */
static void flip_byte(FILE *file, size_t at, const char *bytes, int bits)
{
    assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
    assert_int_not_equal(fputc((unsigned char)bytes[at] ^ bits, file), EOF);
    assert_int_equal(fflush(file), 0);
}

/* The id of a message can be the number of another task's: when that one is damaged, the
 * message is found all the same. */
static void message_is_found_when_another_task_is_damaged(void **state)
{
    test_store s = log_at(0, MS_ENGINE_AUTO);
    ms_envelope theirs = ms_user_message(ms_text("of another task"));
    ms_envelope m = ms_user_message(ms_text("mine"));
    ms_error err;
    size_t size, at = 0;
    (void)state;
    s.log.events.event = NULL;
    log_open(&s);
    m.id = MS_STR("1");
    assert_int_equal(must_append(s.store, MS_STR("u"), &theirs), 1);
    uint64_t seq = must_append(s.store, MS_STR("t"), &m);
    char *bytes = read_file(s.path, &size);
    assert_non_null(bytes);
    while (memcmp(bytes + at, theirs.content.text.ptr, theirs.content.text.len) != 0)
        assert_true(++at + theirs.content.text.len < size);
    FILE *file = fopen(s.path, "r+b");
    assert_non_null(file);
    for (size_t i = at - 140; i < at + theirs.content.text.len; i++) {
        const ms_msg *mine, *none;
        flip_byte(file, i, bytes, 0x41);
        ms_result code = ms_task_get(s.store, MS_STR("t"), m.id, &arena, &mine, &err);
        if (code != MS_OK || ms_seq(mine) != seq)
            fail_msg("byte -%ld: %d %s", (long)(at - i), (int)code, err.message);
        assert_int_equal(ms_task_get(s.store, MS_STR("t"), MS_STR("9"), &arena, &none,
                                     &err), MS_E_NOT_FOUND);
        flip_byte(file, i, bytes, 0);
    }
    fclose(file);
    free(bytes);
    store_close(&s);
}


/* ---- changes ---- */

#define SAYS(author, rest) "{\"type\":\"text\",\"author\":\"" author "\"," rest "}"
#define MARKDOWN(text) SAYS("agent", "\"content\":\"" text "\",\"format\":\"markdown\"")
#define DATA(data) "{\"type\":\"data\",\"author\":\"agent\",\"data\":" data "}"
#define CALLS(author, id, rest)                                                        \
    "{\"type\":\"tool_request\",\"author\":\"" author "\",\"tool_call_id\":\"" id "\"," \
    "\"name\":\"n\"," rest "}"
#define ANSWERS(id, rest)                                                         \
    "{\"type\":\"tool_response\",\"author\":\"agent\",\"tool_call_id\":\"" id "\"," \
    "\"name\":\"n\"," rest "}"

/* Contents that an update may exchange, by kind; as the format writes them. */
static const char *const exchanges[][3] = {
    {SAYS("user", "\"content\":\"a\""),
     SAYS("user", "\"content\":\"\",\"format\":\"code\""),
     SAYS("user", "\"content\":\"\\u00e9\",\"x\":[{}]")},
    {TEXT, SAYS("agent", "\"content\":\"y\",\"style\":\"active\""),
     SAYS("agent", "\"content\":\"z\",\"attachments\":null")},
    {"{\"type\":\"data\",\"author\":\"agent\",\"data\":{}}",
     "{\"type\":\"data\",\"author\":\"user\",\"data\":{\"a\":[1.50]}}",
     "{\"type\":\"data\",\"author\":\"agent\",\"data\":{\"type\":\"x\"}}"},
    {CALLS("agent", "1", "\"arguments\":{}"),
     CALLS("agent", "2", "\"arguments\":{\"a\":0}"),
     CALLS("user", "1", "\"arguments\":{\"deep\":[{}]}")},
    {ANSWERS("1", "\"content\":null"),
     ANSWERS("1", "\"content\":{\"r\":1},\"is_error\":false"),
     ANSWERS("3", "\"content\":\"t\",\"style\":\"static\"")},
    {ANSWERS("1", "\"content\":\"e\",\"is_error\":true"),
     ANSWERS("1", "\"content\":[],\"is_error\":true"),
     ANSWERS("", "\"content\":\"f\",\"is_error\":true,\"x\":1")},
    {"{\"type\":\"reasoning\",\"author\":\"agent\",\"summary\":[]}",
     "{\"type\":\"reasoning\",\"author\":\"agent\",\"summary\":[\"s\"],"
     "\"content\":[\"\"]}",
     "{\"type\":\"reasoning\",\"author\":\"agent\",\"summary\":[\"\"],\"content\":null}"},
};

/* A task as one would keep it: an array of JSON, in order. */
typedef struct kept_task {
    size_t n;
    struct kept_row {
        uint64_t seq;
        size_t kind;
        char id[24];
        json_t *json;         /* NULL: deleted */
    } rows[MANY];
} kept_task;

static void kept_free(kept_task *t)
{
    for (size_t i = 0; i < t->n; i++) json_decref(t->rows[i].json);
    t->n = 0;
}

static const char *random_status(uint64_t *rng)
{
    static const char *const words[] = {NULL, "DONE", "IN_PROGRESS"};
    return words[test_below(rng, 3)];
}

static json_t *date_json(int64_t ns)
{
    char text[64];
    time_t whole = (time_t)(ns / 1000000000);
    struct tm parts;
    gmtime_r(&whole, &parts);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return json_string(text);
}

/* Creates a message, with an id of its own or without. */
static void kept_create(uint64_t *rng, ms_store *store, kept_task *t)
{
    struct kept_row *row = &t->rows[t->n];
    char text[400];
    const char *status = random_status(rng);
    assert_true(t->n < MANY);
    memset(row, 0, sizeof *row);
    row->kind = (size_t)test_below(rng, COUNT(exchanges));
    const char *content = exchanges[row->kind][test_below(rng, 3)];
    snprintf(text, sizeof text, "{\"task_id\":\"x\",\"content\":%s,\"mine\":{\"a\":%u}}",
             content, (unsigned)test_below(rng, 9));
    json_t *json = json_parse_n(text, strlen(text));
    if (status) json_object_set_new(json, "streaming_status", json_string(status));
    char *spelled = json_dumps(json, JSON_COMPACT);
    ms_envelope m = read_one("task", spelled);
    m.has_time = true;
    m.time_ns = SECONDS(1700000000 + (double)test_below(rng, 99));
    bool named = test_one_in(rng, 2);
    if (named) snprintf(row->id, sizeof row->id, "m%zu", t->n);
    if (named) m.id = ms_str_of(row->id);
    row->seq = must_append(store, MS_STR("t"), &m);
    free(spelled);
    if (!named) snprintf(row->id, sizeof row->id, "%lu", (unsigned long)row->seq);
    json_object_set_new(json, "id", json_string(row->id));
    json_object_set_new(json, "task_id", json_string("t"));
    json_object_set_new(json, "created_at", date_json(m.time_ns));
    row->json = json;
    t->n++;
}

/* A change of one message, in the twin too when it will be done. */
static ms_task_change kept_change(uint64_t *rng, struct kept_row *row)
{
    ms_task_change c;
    const char *status = random_status(rng);
    memset(&c, 0, sizeof c);
    bool done = row->json != NULL;
    c.has_updated_at = true;
    c.updated_at_ns = SECONDS(1800000000 + (double)test_below(rng, 99));
    c.streaming_status = ms_str_of(status);
    if (!test_one_in(rng, 4)) {
        const char *text = exchanges[row->kind][test_below(rng, 3)];
        ms_envelope *m = (ms_envelope *)ms_arena_alloc(&arena, sizeof *m);
        *m = read_one("task", text);
        c.content = m;
        if (done)
            json_object_set_new(row->json, "content", json_parse_n(text, strlen(text)));
    }
    if (done) {
        if (status)
            json_object_set_new(row->json, "streaming_status", json_string(status));
        json_object_set_new(row->json, "updated_at", date_json(c.updated_at_ns));
    }
    return c;
}

static void must_be_kept(ms_store *store, const kept_task *t)
{
    ms_query q = query_of(MS_STR("t"), 0);
    ms_cursor it;
    size_t i = 0;
    EACH (shown, store, &q, &it) {
        json_where where = {{0}, 0};
        const ms_msg *msg;
        ms_error err;
        while (i < t->n && t->rows[i].json == NULL) i++;
        assert_true(i < t->n);
        assert_int_equal(ms_seq(shown), t->rows[i].seq);
        assert_int_equal(ms_get_by_seq(store, ms_seq(shown), &arena, &msg, &err), MS_OK);
        ms_envelope m = ms_envelope_of(msg);
        ms_str text = write_one(&m, PLACES);
        json_t *got = json_parse_n(text.ptr, text.len);
        if (!json_same(got, t->rows[i++].json, 0, &where))
            fail_msg("differ at \"%s\": %.*s", where.path, (int)text.len, text.ptr);
        json_decref(got);
    }
    for (; i < t->n; i++) assert_null(t->rows[i].json);
}

static void kept_update(uint64_t *rng, ms_store *store, kept_task *t)
{
    struct kept_row *row = &t->rows[test_below(rng, t->n)];
    bool there = row->json != NULL;
    ms_str id = ms_str_of(row->id);
    ms_task_change c = kept_change(rng, row);
    const ms_msg *msg;
    ms_error err;
    assert_int_equal(ms_task_update(store, MS_STR("other"), id, &c, &arena, &msg, &err),
                     MS_E_NOT_FOUND);
    assert_null(msg);
    ms_result code = update(store, id, &c, &msg, &err);
    if (code != (there ? MS_OK : MS_E_NOT_FOUND))
        fail_msg("%s: %s", err.path, err.message);
    if (there) assert_int_equal(ms_seq(msg), row->seq);
    if (there) assert_true((ms_flags(msg) & MS_FLAG_AMENDED) != 0);
}

static void kept_delete(uint64_t *rng, ms_store *store, kept_task *t)
{
    struct kept_row *row = &t->rows[test_below(rng, t->n)];
    const ms_msg *msg;
    ms_error err;
    bool there = row->json != NULL;
    ms_result code = ms_task_get(store, MS_STR("t"), ms_str_of(row->id), &arena, &msg,
                                 &err);
    assert_int_equal(code, there ? MS_OK : MS_E_NOT_FOUND);
    if (!there) return;
    assert_int_equal(ms_hide(store, ms_seq(msg), &err), MS_OK);
    json_decref(row->json);
    row->json = NULL;
}

/* What is created, updated and deleted in any order is what an array of JSON is. */
static void changed_task_equals_an_array_of_json(void **state)
{
    static kept_task t;
    uint64_t rng = test_seed() + 5;
    store_options options;
    memset(&options, 0, sizeof options);
    options.room = (size_t)4 << 20;
    test_store s = store_open((store_kind *)*state, &options);
    t.n = 0;
    for (size_t i = 0, n = 40 + test_times(160); i < n; i++) {
        uint64_t what = t.n == 0 ? 0 : test_below(&rng, 8);
        if (what < 3) kept_create(&rng, s.store, &t);
        else if (what < 7) kept_update(&rng, s.store, &t);
        else kept_delete(&rng, s.store, &t);
        ms_envelope other = ms_user_message(ms_text("elsewhere"));
        if (i % 4 == 0) must_append(s.store, MS_STR("other"), &other);
        if (i == n / 2) store_reopen(&s);
        if (i % 5 == 0 || i + 1 == n) must_be_kept(s.store, &t);
        ms_arena_reset(&arena);
    }
    store_reopen(&s);
    must_be_kept(s.store, &t);
    kept_free(&t);
    store_close(&s);
}

static ms_str status_of(const ms_msg *msg, char out[16])
{
    ms_envelope m = ms_envelope_of(msg);
    ms_str text = write_one(&m, PLACES);
    json_t *json = json_parse_n(text.ptr, text.len);
    const char *status = json_string_value(json_object_get(json, "streaming_status"));
    snprintf(out, 16, "%s", status ? status : "-");
    json_decref(json);
    return ms_str_of(out);
}

/* Everything around the content: kept, or as a wrapper of its own says. */
static void surroundings_of_content_stay_when_it_is_updated(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_str t = MS_STR("t");
    const ms_msg *msg;
    ms_error err;
    ms_task_change c;
    ms_envelope m = read_one("task", WRAP(",\"id\":\"m\",\"created_at\":"
                          "\"2024-01-15T10:30:00+01:00\",\"a\":{},"
                          "\"streaming_status\":\"DONE\",\"updated_at\":null"));
    ms_envelope bare = read_one("task", TEXT), whole;
    m.agent_key = MS_STR("agent");
    m.turn_id = MS_STR("turn");
    m.key = MS_STR("key");
    must_append(s.store, t, &m);
    memset(&c, 0, sizeof c);
    c.content = &bare;
    c.has_updated_at = true;
    c.updated_at_ns = SECONDS(1.25);
    bare.content = ms_text("new");
    assert_int_equal(update(s.store, MS_STR("m"), &c, &msg, &err), MS_OK);
    store_reopen(&s);
    assert_int_equal(ms_task_get(s.store, t, MS_STR("m"), &arena, &msg, &err), MS_OK);
    ms_envelope now = ms_envelope_of(msg);
    assert_true(ms_str_equal(now.agent_key, m.agent_key));
    assert_true(ms_str_equal(now.turn_id, m.turn_id));
    assert_true(ms_str_equal(now.key, m.key));
    now.turn_id = now.key = no_str();
    same_json("task", write_one(&now, LINES),
              MS_STR("{\"id\":\"m\",\"task_id\":\"t\",\"content\":{\"type\":\"text\","
                     "\"author\":\"agent\",\"content\":\"new\"},\"created_at\":"
                     "\"2024-01-15T10:30:00+01:00\",\"a\":{},"
                     "\"streaming_status\":\"DONE\","
                     "\"updated_at\":\"1970-01-01T00:00:01.250Z\"}"));
    whole = read_one("task", "{\"id\":\"other\",\"task_id\":\"else\","
                                 "\"content\":" TEXT ",\"b\":1,"
                                 "\"created_at\":\"2000-01-01T00:00:00Z\","
                                 "\"streaming_status\":null}");
    c.content = &whole;
    assert_int_equal(update(s.store, MS_STR("m"), &c, &msg, &err), MS_OK);
    now = ms_envelope_of(msg);
    now.turn_id = now.key = no_str();
    same_json("task", write_one(&now, LINES),
              MS_STR(WRAP(",\"id\":\"m\",\"created_at\":\"2024-01-15T09:30:00Z\","
                          "\"b\":1,\"streaming_status\":\"DONE\","
                          "\"updated_at\":\"1970-01-01T00:00:01.250Z\"")));
    whole = read_one("task", WRAP(",\"streaming_status\":\"IN_PROGRESS\""));
    assert_int_equal(update(s.store, MS_STR("m"), &c, &msg, &err), MS_OK);
    char status[16];
    assert_true(ms_str_equal(status_of(msg, status), MS_STR("IN_PROGRESS")));
    c.content = NULL; /* nothing but the time */
    c.has_updated_at = false;
    assert_int_equal(update(s.store, MS_STR("m"), &c, NULL, &err), MS_OK);
    assert_int_equal(ms_task_get(s.store, t, MS_STR("m"), &arena, &msg, &err), MS_OK);
    assert_true(ms_str_equal(ms_content(msg).text, MS_STR("x")));
    store_close(&s);
}

static void change_is_refused_when_it_does_not_fit(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_str t = MS_STR("t"), id = MS_STR("m");
    ms_envelope text = ms_user_message(ms_text("x"));
    ms_envelope data = ms_message(MS_T_DATA, ms_json(MS_STR("{}")));
    ms_envelope broken = ms_user_message(ms_json(MS_STR("{")));
    ms_task_change base, c;
    const ms_msg *msg;
    ms_error err;
    text.id = id;
    must_append(s.store, t, &text);
    memset(&base, 0, sizeof base);
    c = base;
    c.streaming_status = MS_STR("done");
    assert_int_equal(update(s.store, id, &c, &msg, &err), MS_E_ARGUMENT);
    assert_string_equal(err.path, "streaming_status");
    c.streaming_status = MS_STR("");
    assert_int_equal(update(s.store, id, &c, &msg, &err), MS_E_ARGUMENT);
    c = base;
    assert_int_equal(update(s.store, no_str(), &c, &msg, &err), MS_E_ARGUMENT);
    c.content = &data;
    assert_int_equal(update(s.store, id, &c, &msg, &err), MS_E_TYPE);
    assert_null(msg);
    c.content = &broken;
    assert_int_equal(update(s.store, id, &c, &msg, &err), MS_E_SYNTAX);
    assert_int_equal(update(s.store, id, NULL, &msg, &err), MS_E_ARGUMENT);
    assert_int_equal(ms_task_update(s.store, t, id, &base, NULL, &msg, &err), MS_E_ARENA);
    assert_int_equal(ms_task_update(s.store, no_str(), id, &base, &arena, &msg, &err),
                     MS_E_ARGUMENT);
    assert_int_equal(ms_task_update(NULL, t, id, &base, &arena, &msg, &err), MS_E_CLOSED);
    assert_int_equal(ms_task_get(s.store, t, id, &arena, &msg, &err), MS_OK);
    assert_int_equal(ms_flags(msg) & MS_FLAG_AMENDED, 0);
    store_close(&s);
}

/* An allocator that hides a message when it is asked for memory: as if somebody else had
 * done so just then. */
typedef struct meddler {
    ms_store *store;
    uint64_t seq;             /* 0: done */
} meddler;

static void *meddle(void *ctx, void *ptr, size_t old_size, size_t new_size)
{
    meddler *m = (meddler *)ctx;
    uint64_t seq = m->seq;
    (void)old_size;
    m->seq = 0;
    if (seq > 0) assert_int_equal(ms_hide(m->store, seq, NULL), MS_OK);
    if (new_size > 0) return realloc(ptr, new_size);
    free(ptr);
    return NULL;
}

static void update_finds_nothing_when_the_message_goes_meanwhile(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_envelope m = ms_user_message(ms_text("x"));
    ms_error err;
    meddler way = {NULL, 0};
    ms_alloc alloc = {meddle, NULL};
    ms_arena a;
    ms_task_change c;
    const ms_msg *msg;
    char id[24];
    way.store = s.store;
    alloc.ctx = &way;
    way.seq = must_append(s.store, MS_STR("t"), &m);
    snprintf(id, sizeof id, "%lu", (unsigned long)way.seq);
    memset(&c, 0, sizeof c);
    test_arena_init(&a, &alloc);
    ms_result code = ms_task_update(s.store, MS_STR("t"), ms_str_of(id), &c, &a, &msg,
                                    &err);
    assert_int_equal(way.seq, 0);
    assert_int_equal(code, MS_E_NOT_FOUND);
    assert_null(msg);
    ms_arena_deinit(&a);
    store_close(&s);
}


/* ---- streams of a task ---- */

static ms_stream stream_of(ms_store *store, const ms_envelope *m, int64_t *now)
{
    ms_stream stream;
    ms_stream_opts opts;
    ms_error err;
    memset(&opts, 0, sizeof opts);
    opts.clock = clock_at(now);
    if (ms_stream_begin(&stream, store, MS_STR("t"), m, &opts, &err) != MS_OK)
        fail_msg("begin: %s: %s", err.path, err.message);
    return stream;
}

static void must_feed(ms_stream *stream, const char *const *parts)
{
    ms_error err;
    for (; *parts; parts++)
        if (ms_stream_feed(stream, ms_str_of(*parts), &err) != MS_OK)
            fail_msg("feed: %s", err.message);
}

#define IN_PROGRESS ",\"streaming_status\":\"IN_PROGRESS\""
#define DONE ",\"streaming_status\":\"DONE\",\"updated_at\":\"2023-11-14T22:13:20Z\""

/* The message as the format writes it, a content and what is around it; id and created_at
 * aside. */
static void must_be_listed(ms_store *store, uint64_t seq, const char *content,
                           const char *around)
{
    ms_str want = joined("{\"content\":", ms_str_of(content), around);
    want = joined("", want, "}");
    const ms_msg *msg;
    ms_error err;
    json_where where = {{0}, 0};
    assert_int_equal(ms_get_by_seq(store, seq, &arena, &msg, &err), MS_OK);
    ms_envelope m = ms_envelope_of(msg);
    ms_str text = write_one(&m, PLACES);
    json_t *got = json_parse_n(text.ptr, text.len);
    json_t *expected = json_parse_n(want.ptr, want.len);
    json_object_del(got, "id");
    json_object_del(got, "created_at");
    json_object_del(got, "task_id");
    if (!json_same(got, expected, 0, &where))
        fail_msg("at \"%s\": %.*s instead of %.*s", where.path, (int)text.len, text.ptr,
                 (int)want.len, want.ptr);
    json_decref(got);
    json_decref(expected);
}

static const char *const one_two[] = {"on", "e", " two", NULL};
static const char *const object_parts[] = {"{\"a\"", ":[1", ",2]}", NULL};

/* Ends a stream as a task has it: all text is written, then the message is DONE. */
static ms_result done(ms_stream *stream, const ms_envelope *content, ms_error *err)
{
    char id[24];
    ms_task_change c;
    memset(&c, 0, sizeof c);
    c.content = content;
    c.streaming_status = MS_STR("DONE");
    c.has_updated_at = true;
    c.updated_at_ns = SECONDS(1700000000);
    snprintf(id, sizeof id, "%lu", (unsigned long)stream->seq);
    ms_result result = test_stream_flush(stream, err);
    if (result != MS_OK) return result;
    return ms_task_update(stream->store, MS_STR("t"), ms_str_of(id), &c, &arena, NULL,
                          err);
}

static void stream_is_in_progress_until_it_is_done(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_envelope m = read_one("task", MARKDOWN(""));
    int64_t now = SECONDS(1700000000);
    ms_error err;
    ms_stream stream = stream_of(s.store, &m, &now);
    uint64_t seq = stream.seq;
    must_be_listed(s.store, seq, MARKDOWN(""), IN_PROGRESS);
    must_feed(&stream, one_two);
    assert_int_equal(test_stream_flush(&stream, &err), MS_OK);
    must_be_listed(s.store, seq, MARKDOWN("one two"), IN_PROGRESS);
    assert_int_equal(ms_stream_feed(&stream, MS_STR("!"), &err), MS_OK); /* held back */
    if (done(&stream, NULL, &err) != MS_OK)
        fail_msg("end: %s: %s", err.path, err.message);
    assert_int_equal(ms_stream_feed(&stream, MS_STR("?"), &err), MS_OK); /* held back */
    assert_int_equal(done(&stream, NULL, &err), MS_E_CLOSED);
    store_reopen(&s);
    must_be_listed(s.store, seq, MARKDOWN("one two!"), DONE);
    store_close(&s);
}

/* Data and arguments are fed as text and end as JSON. */
static void fed_text_becomes_an_object_when_its_stream_ends(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_envelope data = ms_message(MS_T_DATA, ms_text(""));
    ms_envelope call = ms_action(MS_STR("n"), ms_text(NULL), MS_STR("c"));
    int64_t now = SECONDS(1700000000);
    ms_error err;
    static const char *const rest[] = {"}", NULL};
    static const char *const list[] = {"[1]", NULL};
    ms_stream stream = stream_of(s.store, &data, &now);
    uint64_t seq = stream.seq;
    must_feed(&stream, object_parts);
    assert_int_equal(done(&stream, NULL, &err), MS_OK);
    must_be_listed(s.store, seq, DATA("{\"a\":[1,2]}"), DONE);
    stream = stream_of(s.store, &data, &now);
    must_feed(&stream, list);
    assert_int_equal(done(&stream, NULL, &err), MS_E_KIND);
    assert_string_equal(err.path, "content");
    must_feed(&stream, rest);
    assert_int_equal(done(&stream, NULL, &err), MS_E_SYNTAX);
    assert_non_null(stream.store); /* still open */
    ms_envelope whole = ms_message(MS_T_DATA, ms_json(MS_STR("{\"b\":1}")));
    whole.extra = MS_STR("{\"own\":0,\"streaming_status\":\"IN_PROGRESS\"}");
    seq = stream.seq;
    assert_int_equal(done(&stream, &whole, &err), MS_OK);
    must_be_listed(s.store, seq, DATA("{\"b\":1}"), ",\"own\":0" DONE);
    stream = stream_of(s.store, &call, &now);
    seq = stream.seq;
    must_feed(&stream, object_parts);
    assert_int_equal(done(&stream, NULL, &err), MS_OK);
    must_be_listed(s.store, seq, CALLS("agent", "c", "\"arguments\":{\"a\":[1,2]}"),
                   DONE);
    store_close(&s);
}

/* The status that a wrapper says wins; a stream that ends otherwise says none. */
static void stream_has_the_status_of_its_wrapper(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    int64_t now = SECONDS(1700000000);
    const ms_msg *msg;
    char status[16];
    ms_error err;
    ms_envelope m = read_one("task", WRAP(",\"streaming_status\":\"DONE\""));
    ms_stream stream = stream_of(s.store, &m, &now);
    assert_int_equal(ms_get_by_seq(s.store, stream.seq, &arena, &msg, &err), MS_OK);
    ms_envelope open = ms_envelope_of(msg);
    open.has_time = false;
    open.seq = 0;
    open.location = MS_STR("t");
    same_json("task", write_one(&open, LINES),
              MS_STR(WRAP(",\"streaming_status\":\"DONE\"")));
    assert_int_equal(ms_stream_end(&stream, NULL, NULL, &err), MS_OK);
    m = ms_assistant_message(ms_text(""));
    stream = stream_of(s.store, &m, &now);
    uint64_t seq = stream.seq;
    assert_int_equal(ms_get_by_seq(s.store, seq, &arena, &msg, &err), MS_OK);
    assert_true(ms_str_equal(status_of(msg, status), MS_STR("IN_PROGRESS")));
    open = ms_envelope_of(msg);
    open.has_time = false;
    same_json("task", write_one(&open, LINES),
              MS_STR("{\"type\":\"text\",\"author\":\"agent\",\"content\":\"\"}"));
    assert_int_equal(ms_stream_end(&stream, NULL, NULL, &err), MS_OK);
    assert_int_equal(ms_get_by_seq(s.store, seq, &arena, &msg, &err), MS_OK);
    assert_true(ms_str_equal(status_of(msg, status), MS_STR("-")));
    store_close(&s);
}

/* An update ends a stream: with its text so far, or with other content; the status it
 * had, or the one named. */
static void stream_ends_when_it_is_updated(void **state)
{
    static const char *const statuses[] = {NULL, "DONE", "IN_PROGRESS"};
    test_store s = store_open((store_kind *)*state, NULL);
    ms_envelope other = ms_assistant_message(ms_text("other"));
    int64_t now = SECONDS(1700000000);
    ms_error err;
    for (int i = 0; i < 12; i++) {
        bool named = i % 2 == 1;
        const char *status = statuses[i / 2 % 3];
        ms_envelope m = ms_assistant_message(ms_text(">"));
        ms_task_change c;
        char id[24], around[100];
        const ms_msg *msg;
        m.id = named ? ms_str_of(id) : no_str();
        snprintf(id, sizeof id, "named %d", i);
        m.id.len = named ? strlen(id) : 0;
        ms_stream stream = stream_of(s.store, &m, &now);
        if (!named) snprintf(id, sizeof id, "%lu", (unsigned long)stream.seq);
        must_feed(&stream, one_two);
        assert_int_equal(test_stream_flush(&stream, &err), MS_OK);
        memset(&c, 0, sizeof c);
        c.content = i < 6 ? NULL : &other;
        c.streaming_status = ms_str_of(status);
        c.has_updated_at = true;
        c.updated_at_ns = SECONDS(1);
        uint64_t seq = stream.seq;
        if (update(s.store, ms_str_of(id), &c, &msg, &err) != MS_OK)
            fail_msg("%d: %s: %s", i, err.path, err.message);
        assert_int_equal(ms_flags(msg) & MS_FLAG_UNFINISHED, 0);
        snprintf(around, sizeof around, ",\"streaming_status\":\"%s\",\"updated_at\":"
                 "\"1970-01-01T00:00:01Z\"", status ? status : "IN_PROGRESS");
        const char *content = i < 6 ? SAYS("agent", "\"content\":\">one two\"")
                                    : SAYS("agent", "\"content\":\"other\"");
        must_be_listed(s.store, seq, content, around);
        must_feed(&stream, one_two);
        assert_int_equal(test_stream_flush(&stream, &err), MS_E_CLOSED);
        must_be_listed(s.store, seq, content, around);
    }
    store_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_of_any_kind_comes_back_when_it_was_written),
        ON_EVERY_STORE(message_is_found_when_asked_by_id),
        cmocka_unit_test(message_is_found_when_another_task_is_damaged),
        ON_EVERY_STORE(changed_task_equals_an_array_of_json),
        ON_EVERY_STORE(surroundings_of_content_stay_when_it_is_updated),
        ON_EVERY_STORE(change_is_refused_when_it_does_not_fit),
        ON_EVERY_STORE(update_finds_nothing_when_the_message_goes_meanwhile),
        ON_EVERY_STORE(stream_is_in_progress_until_it_is_done),
        ON_EVERY_STORE(fed_text_becomes_an_object_when_its_stream_ends),
        ON_EVERY_STORE(stream_has_the_status_of_its_wrapper),
        ON_EVERY_STORE(stream_ends_when_it_is_updated),
    };
    return cmocka_run_group_tests(tests, open_arena, close_arena);
}
