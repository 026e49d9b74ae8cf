/* The contents of a store as text: for tests that compare two moments, or two stores. */

#ifndef STORE_TEXT_H
#define STORE_TEXT_H

#include "stores.h"
#include "json_equal.h"

#define JOB MS_STR("job")
#define OTHER_JOB MS_STR("other job")

/* A text that occurs nowhere else: after an erasure no byte of it may be found. */
#define SECRET "Xq7-secret-Zk9"

static int64_t test_now = SECONDS(1000);


/* ---- what a store shows, as text ---- */

static inline void store_text_put(ms_buf *out, const char *form, ...)
{
    char text[200];
    va_list args;
    va_start(args, form);
    int len = vsnprintf(text, sizeof text, form, args);
    va_end(args);
    assert_true(len >= 0 && (size_t)len < sizeof text);
    ms_buf_write(out, text, (size_t)len);
}

static inline void store_text_message(ms_buf *out, const ms_msg *msg)
{
    int64_t time = 0;
    store_text_put(out, "kind %d seq %llu type %d role %d flags %u", (int)ms_kind_of(msg),
                   (unsigned long long)ms_seq(msg), (int)ms_type_of(msg),
                   (int)ms_role_of(msg),
                   (unsigned)ms_flags(msg) & ~(unsigned)MS_FLAG_SYNCED);
    if (ms_time(msg, &time)) store_text_put(out, " time %lld", (long long)time);
    for (int i = 1; i < MS_FIELD_COUNT; i++) {
        ms_value value = ms_get(msg, (ms_field)i);
        if (value.text.ptr == NULL) continue;
        store_text_put(out, " f%d%s=", i, value.json ? "(json)" : "");
        ms_buf_write(out, value.text.ptr, value.text.len);
    }
    store_text_put(out, "\n");
}

static inline void store_text_query(ms_buf *out, ms_store *store, const ms_query *q)
{
    ms_cursor it;
    EACH (msg, store, q, &it) store_text_message(out, msg);
}

static inline ms_stat stat_of(ms_store *store)
{
    ms_stat stat;
    ms_error err;
    must_ok(ms_store_stat(store, &stat, &err), &err, "stat");
    return stat;
}

/* Returns all contents of a store, from malloc: messages with their texts so far, records
 * as stored, totals, facts, as far as the store has them. SYNCED, which a log sets by
 * itself, is left out. */
static inline char *store_text(ms_store *store)
{
    const ms_str places[] = {JOB, OTHER_JOB, MS_STR("branch")};
    ms_error err;
    ms_arena arena, text;
    ms_buf out = {&text, NULL, 0, 0};
    ms_query q = query_of(no_str(), 0);
    test_arena_init(&arena, NULL);
    test_arena_init(&text, NULL);
    q.arena = &arena;
    store_text_query(&out, store, &q);
    q.raw = MS_RAW_ALL;
    if (store->backend->change != NULL) store_text_query(&out, store, &q);
    if (store->backend->stat != NULL) {
        ms_stat stat = stat_of(store);
        store_text_put(&out,
                       "messages %llu last %llu bytes %llu hidden %llu changes %llu\n",
                       (unsigned long long)stat.messages,
                       (unsigned long long)stat.last_seq,
                       (unsigned long long)stat.bytes, (unsigned long long)stat.hidden,
                       (unsigned long long)stat.changes);
    }
    for (size_t i = 0; i < 3 && store->backend->change != NULL; i++) {
        ms_str facts;
        must_ok(ms_location_get(store, places[i], &arena, &facts, &err), &err, "facts");
        store_text_put(&out, "facts ");
        ms_buf_write(&out, facts.ptr, facts.len);
    }
    must_ok(ms_selfcheck(store, &err), &err, "selfcheck");
    ms_buf_write(&out, "", 1);
    char *copy = (char *)malloc(out.len);
    if (copy == NULL) abort();
    memcpy(copy, out.ptr, out.len);
    ms_arena_deinit(&arena);
    ms_arena_deinit(&text);
    return copy;
}

/* Fails unless the store is as on the picture, which it frees. */
static inline void must_be_as(ms_store *store, char *before, const char *what)
{
    char *after = store_text(store);
    if (strcmp(before, after) != 0)
        fail_msg("%s: was\n%s\nis\n%s", what, before, after);
    free(before);
    free(after);
}

/* Checks that a store has the same contents after it was closed and opened, or attached
 * again. */
static inline void must_survive(test_store *s)
{
    char *before = store_text(s->store);
    store_reopen(s);
    if (s->kind->fixed) {
        store_options none;
        ms_error err;
        memset(&none, 0, sizeof none);
        ms_mem_desc desc = store_desc(&none);
        desc.buffer = s->buffer;
        desc.buffer_size = s->size;
        desc.clock = clock_at(&test_now);
        ms_close(s->store);
        must_ok(ms_mem_attach(&s->store, &desc, NULL, &err), &err, "attach");
    }
    must_be_as(s->store, before, "opened again");
}

static inline size_t times_in(const void *bytes, size_t size, const char *text)
{
    size_t n = 0, len = strlen(text);
    const char *p = (const char *)bytes, *end = p + size;
    while ((p = (const char *)memmem(p, (size_t)(end - p), text, len)) != NULL) {
        n++;
        p++;
    }
    return n;
}

/* Returns whether a test can read all bytes of the store. */
static inline bool lies_open(const test_store *s)
{
    return s->kind->fixed || s->kind->log;
}

/* Counts a text in all bytes of a store's file or buffer. */
static inline size_t times_stored(const test_store *s, const char *text)
{
    size_t size, n;
    if (s->kind->fixed) return times_in(s->buffer, s->size, text);
    char *bytes = read_file(s->path, &size);
    assert_non_null(bytes);
    n = times_in(bytes, size, text);
    free(bytes);
    return n;
}

/* JSON that is equal, whatever its order. */
static inline void must_equal_json(ms_str got, const char *want)
{
    json_t *a = json_parse_n(got.ptr, got.len), *b = json_parse_n(want, strlen(want));
    json_where where;
    memset(&where, 0, sizeof where);
    assert_non_null(b);
    if (a == NULL || !json_same(a, b, 0, &where))
        fail_msg("JSON is %.*s, should be %s", (int)got.len, got.ptr, want);
    json_decref(a);
    json_decref(b);
}

static inline void must_have_facts(ms_store *store, ms_str location, const char *want)
{
    ms_arena arena;
    ms_str facts;
    ms_error err;
    test_arena_init(&arena, NULL);
    must_ok(ms_location_get(store, location, &arena, &facts, &err), &err, "facts");
    must_equal_json(facts, want);
    ms_arena_deinit(&arena);
}

/* Returns the text of a record; of a call its arguments. */
static inline ms_str shown_text(const ms_msg *msg)
{
    return ms_type_of(msg) == MS_T_ACTION ? ms_get(msg, MS_F_ARGS).text
                                          : ms_content(msg).text;
}

static inline const char *kind_word(const ms_msg *msg)
{
    static const char *const words[] = {"", "message", "", "amend", "hide", "note",
                                        "facts", "", "", "", "part"};
    return words[ms_kind_of(msg)];
}

/* Lists the texts, or kinds, of the records that a cursor returns, each followed by
 * '|'. */
static inline void list_cursor(ms_cursor *it, bool kinds, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (const ms_msg *msg; (msg = query_next(it)) != NULL;) {
        ms_str text = kinds ? ms_str_of(kind_word(msg)) : shown_text(msg);
        assert_true(used + 300 < size);
        used += (size_t)snprintf(out + used, size - used, "%.*s|",
                                 (int)(text.len < 200 ? text.len : 200), text.ptr);
    }
}

static inline void list_query(ms_store *store, const ms_query *q, bool kinds, char *out,
                              size_t size)
{
    ms_cursor it;
    ms_error err;
    must_ok(ms_query_open(store, q, &it, &err), &err, "query");
    list_cursor(&it, kinds, out, size);
}

static inline void must_give(ms_store *store, const ms_query *q, const char *want)
{
    char got[8000];
    list_query(store, q, false, got, sizeof got);
    assert_string_equal(got, want);
}

/* Checks the texts of a location: without an arena (unless a stream needs one), with one,
 * and by time. */
static inline void must_show(ms_store *store, ms_str location, const char *want)
{
    ms_arena arena;
    ms_query q = query_of(location, 0);
    test_arena_init(&arena, NULL);
    must_give(store, &q, want);
    q.arena = &arena;
    must_give(store, &q, want);
    q.by_time = true;
    must_give(store, &q, want);
    ms_arena_deinit(&arena);
}

static inline const ms_msg *must_get(ms_store *store, uint64_t seq)
{
    const ms_msg *msg = NULL;
    ms_error err;
    must_ok(ms_get_by_seq(store, seq, NULL, &msg, &err), &err, "by number");
    assert_int_equal(ms_seq(msg), seq);
    return msg;
}

static inline void must_have_text(const ms_msg *msg, const char *text)
{
    assert_true(ms_str_equal(ms_content(msg).text, ms_str_of(text)));
}

#endif /* STORE_TEXT_H */
