/* Tasks in stores: any message is written as one of a task; changes against an array of
 * JSON; the scripts of tests/scripts/task.txt: lookups, updates, streams. What the format
 * "task" reads and writes is in tests/formats/task.jsonl. */

#define _GNU_SOURCE

#include "script.h"
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


static void update_is_refused_when_it_has_no_change_or_store(void **state)
{
    ms_store *store;
    ms_task_change c;
    const ms_msg *msg;
    (void)state;
    memset(&c, 0, sizeof c);
    assert_int_equal(ms_mem_open(&store, NULL, NULL), MS_OK);
    assert_int_equal(update(store, MS_STR("1"), NULL, &msg, NULL), MS_E_ARGUMENT);
    assert_int_equal(update(NULL, MS_STR("1"), &c, &msg, NULL), MS_E_CLOSED);
    ms_close(store);
}


/* ---- words of the scripts of tasks ---- */

/* "task NAME JSON [FIELDS]": appends what the format reads. */
static ms_result call_task(script *p, const script_line *l)
{
    ms_envelope m = read_one("task", l->word[1].ptr);
    m.agent_key = ms_str_of(script_option(l, "agent_key"));
    m.turn_id = ms_str_of(script_option(l, "turn_id"));
    m.key = ms_str_of(script_option(l, "key"));
    return script_append(p, &m, l->word[0]);
}

/* "update ID [JSON] [extra=JSON] [status=WORD] [at=SECONDS]"; "{" is broken content. */
static ms_result call_update(script *p, const script_line *l)
{
    ms_task_change c;
    ms_envelope m = ms_user_message(ms_json(MS_STR("{")));
    const ms_msg *msg = NULL;
    bool has_content = l->n > 1 && l->word[1].ptr[0] == '{';
    memset(&c, 0, sizeof c);
    if (has_content && l->word[1].len > 1) m = read_one("task", l->word[1].ptr);
    if (script_option(l, "extra") != NULL) m.extra = ms_str_of(script_option(l, "extra"));
    if (has_content) c.content = &m;
    c.streaming_status = ms_str_of(script_option(l, "status"));
    c.has_updated_at = script_option(l, "at") != NULL;
    if (c.has_updated_at) c.updated_at_ns = SECONDS(atof(script_option(l, "at")));
    ms_result code = ms_task_update(p->s.store, p->place, script_value(l->word[0]), &c,
                                    &arena, &msg, &p->err);
    assert_int_equal(msg != NULL, code == MS_OK);
    return code;
}

/* "find ID => NAME". */
static ms_result check_find(script *p, const script_line *l)
{
    const ms_msg *msg = NULL;
    ms_result code = ms_task_get(p->s.store, p->place, script_value(l->word[0]), &arena,
                                 &msg, &p->err);
    assert_int_equal(msg != NULL, code == MS_OK);
    if (code == MS_OK)
        assert_int_equal(ms_seq(msg), script_seq(p, ms_str_of(l->shows)));
    return code;
}

/* "listed NAME [plain] => JSON": what the format writes, with places or without. Id, task
 * and time are compared if they are expected. */
static ms_result check_listed(script *p, const script_line *l)
{
    static const char *const aside[] = {"id", "task_id", "created_at"};
    unsigned how = script_has(l, "plain") ? LINES : PLACES;
    json_t *want = json_parse_n(l->shows, strlen(l->shows));
    json_where where = {{0}, 0};
    const ms_msg *msg;
    must_ok(ms_get_by_seq(p->s.store, script_seq(p, l->word[0]), &arena, &msg, &p->err),
            &p->err, "by number");
    ms_envelope m = ms_envelope_of(msg);
    m.turn_id = m.key = no_str();
    if (how == LINES) m.has_time = m.id.ptr != NULL;
    ms_str text = write_one(&m, how);
    json_t *got = json_parse_n(text.ptr, text.len);
    for (size_t i = 0; i < COUNT(aside); i++)
        if (json_object_get(want, aside[i]) == NULL) json_object_del(got, aside[i]);
    if (!json_same(got, want, 0, &where))
        SCRIPT_FAILS(p, "at \"%s\": %.*s", where.path, (int)text.len, text.ptr);
    json_decref(got);
    json_decref(want);
    return MS_OK;
}

static const script_verb task_verbs[] = {
    {"task", CALL, call_task},   {"update", CALL, call_update},
    {"find", CHECK, check_find}, {"listed", CHECK, check_listed},
    {NULL, SET, NULL},
};

int main(void)
{
    static const char *const files[] = {"task", NULL};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_of_any_kind_comes_back_when_it_was_written),
        cmocka_unit_test(message_is_found_when_another_task_is_damaged),
        ON_EVERY_STORE(changed_task_equals_an_array_of_json),
        ON_EVERY_STORE(update_finds_nothing_when_the_message_goes_meanwhile),
        cmocka_unit_test(update_is_refused_when_it_has_no_change_or_store),
    };
    script_more = task_verbs;
    int failed = run_scripts(files);
    ms_arena_deinit(&arena);
    return failed + cmocka_run_group_tests(tests, open_arena, close_arena);
}
