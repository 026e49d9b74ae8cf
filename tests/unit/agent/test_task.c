/* Tasks in stores: contents that are exchanged; the scripts of tests/scripts/task.txt:
 * lookups, updates, streams. What the format "task" reads and writes is in
 * tests/formats/task.jsonl. */

#define _GNU_SOURCE

#include "script.h"
#include "own_store.h"
#include "format_calls.h"


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


/* ---- tasks in stores ---- */

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
TEST(message_is_found_when_another_task_is_damaged)
{
    test_store s = log_at(0, MS_ENGINE_AUTO);
    ms_envelope theirs = ms_user_message(ms_text("of another task"));
    ms_envelope m = ms_user_message(ms_text("mine"));
    ms_error err;
    size_t size, at = 0;
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

/* Each content is exchanged for each of its kind, and the rest of the message stays; it is
 * not found once it is hidden. */
TEST_WITH(ON_EVERY_STORE, content_is_another_of_its_kind_when_it_was_updated)
{
    char text[2000];
    for (size_t i = 0; i < COUNT(exchanges) * 9; i++) {
        const char *const *kind = exchanges[i / 9];
        const char *before = kind[i / 3 % 3], *after = kind[i % 3];
        script p;
        script_open(&p, (const store_kind *)*state);
        snprintf(text, sizeof text,
                 "in t\n"
                 "task m {\"task_id\":\"x\",\"content\":%s,\"mine\":{\"a\":1}}\n"
                 "task n {\"id\":\"n\",\"task_id\":\"x\",\"content\":%s}\n"
                 "in u update $m %s status=DONE at=1700000000 -> NOT_FOUND\n"
                 "update $m %s status=DONE at=1700000000\n"
                 "update n %s at=1700000001\n"
                 "get m flags=amended\n"
                 "listed m => {\"content\":%s,\"mine\":{\"a\":1},\"streaming_status\":"
                 "\"DONE\",\"updated_at\":\"2023-11-14T22:13:20Z\"}\n"
                 "listed n => {\"content\":%s,\"updated_at\":\"2023-11-14T22:13:21Z\"}\n",
                 before, before, after, after, after, after, after);
        script_is(&p, text);
        script_is(&p, "hide n\nfind n -> NOT_FOUND\nupdate n at=1 -> NOT_FOUND\n"
                      "find $m => m");
        store_close(&p.s);
    }
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
    m->seq = 0;
    if (seq > 0) assert_int_equal(ms_hide(m->store, seq, NULL), MS_OK);
    if (new_size > 0) return realloc(ptr, new_size);
    free(ptr);
    return NULL;
}

TEST_WITH(ON_EVERY_STORE, update_finds_nothing_when_the_message_goes_meanwhile)
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


/* Memory that ends before the change leaves the message as it was; memory that ends after
 * it leaves no failure: a program that copies its messages has no room for the new one. */
TEST(update_is_made_when_memory_ends_after_it)
{
    static uint64_t room[4096];
    size_t unreturned = 0, refused = 0;
    const ms_msg *msg = NULL;
    for (size_t size = 0; size < sizeof room && !msg; size += 64) {
        ms_store *inside;
        own_store own;
        ms_arena small, all;
        ms_envelope m = ms_user_message(ms_text("old"));
        ms_envelope content = ms_user_message(ms_text("new"));
        ms_task_change c = {.content = &content, .has_updated_at = true};
        const ms_msg *now;
        assert_int_equal(ms_mem_open(&inside, NULL, NULL), MS_OK);
        assert_int_equal(must_append(inside, MS_STR("t"), &m), 1);
        own_open(&own, inside);
        own_only_query(&own);
        own.backend.change = own_change;
        test_arena_init_fixed(&small, room, size);
        test_arena_init(&all, NULL);
        ms_result code = ms_task_update(&own.base, MS_STR("t"), MS_STR("1"), &c, &small,
                                        &msg, NULL);
        assert_int_equal(ms_get_by_seq(inside, 1, &all, &now, NULL), MS_OK);
        assert_true(is_word(ms_content(now).text, code == MS_OK ? "new" : "old"));
        if (code != MS_OK) assert_int_equal(code, MS_E_ARENA);
        refused += code != MS_OK;
        unreturned += code == MS_OK && msg == NULL;
        ms_arena_deinit(&all);
        ms_close(inside);
    }
    assert_non_null(msg);
    assert_true(refused > 0 && unreturned > 0);
}

TEST(update_is_refused_when_it_has_no_change_or_store)
{
    ms_store *store;
    ms_task_change c;
    const ms_msg *msg;
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
    script_more = task_verbs;
    add_scripts(files);
    return run_all_tests(open_arena, close_arena);
}
