/* Shared by tests of the message formats: an arena for each test, formats by name,
 * functions to read, write and compare. A text that begins with a bracket is read as a
 * list. */

#ifndef FORMAT_CALLS_H
#define FORMAT_CALLS_H

#include "support.h"
#include "json_equal.h"

static ms_arena arena; /* of one test; may be reset between its cases */

static inline int open_arena(void **state)
{
    test_arena_init(&arena, NULL);
    return 0;
}

static inline int close_arena(void **state)
{
    ms_arena_deinit(&arena);
    return 0;
}

static inline const ms_format *format_named(const char *name)
{
    const ms_format *found = ms_format_find(ms_str_of(name));
    assert_non_null(found);
    return found;
}

static inline void must(ms_result code, const ms_error *err)
{
    if (code != MS_OK) fail_msg("%s: %s", err->path, err->message);
}


/* ---- reading ---- */

enum { STRICT = 0, LENIENT = 1, REPAIR = 2, BODY = 4 /* an object that holds a list */ };

static inline bool is_list(ms_str json)
{
    size_t i = 0;
    while (i < json.len && strchr(" \t\r\n", json.ptr[i]) != NULL) i++;
    return i < json.len && json.ptr[i] == '[';
}

/* Reads in an arena. Checks that a failed reader returns no messages and sets a
 * message. */
static inline ms_result read_in(const char *name, ms_str json, unsigned how, ms_arena *in,
                                ms_envelopes *out, ms_error *err)
{
    ms_read_opts opts = {(how & LENIENT) != 0, (how & REPAIR) != 0};
    memset(out, 0xA5, sizeof *out);
    memset(err, 0, sizeof *err);
    ms_result code = is_list(json) || (how & BODY) != 0
                         ? ms_read_list(format_named(name), json, &opts, in, out, err)
                         : ms_read(format_named(name), json, &opts, in, out, err);
    if (code == MS_OK) return code;
    assert_int_equal(err->code, code);
    assert_true(err->message[0] != '\0' &&
                memchr(err->message, '\0', sizeof err->message) != NULL);
    assert_null(out->items);
    assert_int_equal(out->count, 0);
    return code;
}

static inline ms_result try_read(const char *name, ms_str json, unsigned how,
                                 ms_envelopes *out, ms_error *err)
{
    return read_in(name, json, how, &arena, out, err);
}

/* Reads messages, and checks that a store accepts them. */
static inline ms_envelopes reads(const char *name, ms_str json, unsigned how)
{
    ms_envelopes list;
    ms_error err;
    if (try_read(name, json, how, &list, &err) != MS_OK)
        fail_msg("%s cannot read %.*s\n%s: %s", name, (int)json.len, json.ptr, err.path,
                 err.message);
    for (size_t i = 0; i < list.count; i++)
        must(test_envelope_check(&list.items[i], &err), &err);
    return list;
}


/* ---- writing ---- */

enum {
    LINES = 0,
    ARRAY = 1,
    PLACES = 2,
    ENCODED = 4,              /* by way of encoded messages */
    PRETTY = 8
};

static inline void start(ms_writer *w, const char *name, unsigned how, ms_buf *buf)
{
    ms_writer_opts opts = {(how & ARRAY) != 0, (how & PRETTY) != 0, (how & PLACES) != 0};
    memset(buf, 0, sizeof *buf);
    buf->arena = &arena;
    ms_writer_init(w, format_named(name), &opts, &arena, ms_buf_write, buf);
}

static inline ms_str written(const char *name, const ms_envelopes *list, unsigned how)
{
    ms_error err;
    ms_writer w;
    ms_buf buf;
    start(&w, name, how, &buf);
    for (size_t i = 0; i < list->count; i++) {
        const ms_msg *msg;
        if ((how & ENCODED) == 0) {
            must(ms_writer_put(&w, &list->items[i], &err), &err);
            continue;
        }
        must(ms_encode(&list->items[i], &arena, &msg, &err), &err);
        must(test_writer_put_msg(&w, msg, &err), &err);
    }
    must(ms_writer_finish(&w, &err), &err);
    return ms_buf_text(&buf);
}

/* The same, by way of an arena store. */
static inline ms_str written_stored(const char *name, const ms_envelopes *list,
                                    unsigned how)
{
    const ms_mem_desc desc = {.keep_unset_times = true};
    const ms_append_opts opts = {.location = MS_STR("a conversation")};
    const ms_query query = {.location = opts.location};
    ms_cursor it;
    ms_store *store;
    ms_error err;
    ms_writer w;
    ms_buf buf;
    const ms_msg *msg;
    must(ms_mem_open(&store, &desc, &err), &err);
    must(ms_append_batch(store, list->items, list->count, &opts, &err), &err);
    start(&w, name, how, &buf);
    must(ms_query_open(store, &query, &it, &err), &err);
    while ((msg = ms_next(&it)) != NULL) must(test_writer_put_msg(&w, msg, &err), &err);
    must(ms_cursor_close(&it, &err), &err);
    must(ms_writer_finish(&w, &err), &err);
    ms_close(store);
    return ms_buf_text(&buf);
}


/* ---- comparing ---- */

/* Returns whether an object has a member twice. */
static inline bool repeats(ms_str json)
{
    size_t flags = JSON_ALLOW_NUL | JSON_DECODE_ANY | JSON_REJECT_DUPLICATES |
                   JSON_DECODE_INT_AS_REAL;
    json_t *value = json_loadb(json.ptr, json.len, flags, NULL);
    json_decref(value);
    return value == NULL;
}

/* Returns whether both are the same JSON, and no member is in `got` twice that was in
 * `want` once. */
static inline bool equal_json(ms_str got, ms_str want, unsigned options,
                              json_where *where)
{
    json_t *a = json_parse_n(got.ptr, got.len), *b = json_parse_n(want.ptr, want.len);
    bool same = a != NULL && b != NULL && json_same(a, b, options, where);
    json_decref(a);
    json_decref(b);
    return same && (!repeats(got) || repeats(want));
}

static inline void same_json(const char *what, ms_str got, ms_str want)
{
    json_where where = {{0}, 0};
    if (!equal_json(got, want, 0, &where))
        fail_msg("%s: differ at \"%s\"\n   got %.*s\nexpect %.*s", what, where.path,
                 (int)got.len, got.ptr, (int)want.len, want.ptr);
}

static inline void same_text(ms_str got, ms_str want)
{
    if (!ms_str_equal(got, want))
        fail_msg("   got %.*s\nexpect %.*s", (int)got.len, got.ptr, (int)want.len,
                 want.ptr);
}

/* Texts one after the other, in the test's arena. */
static inline ms_str joined(const char *a, ms_str b, const char *c)
{
    size_t x = strlen(a), y = strlen(c);
    char *text = (char *)ms_arena_alloc(&arena, x + b.len + y + 1);
    assert_non_null(text);
    memcpy(text, a, x);
    if (b.len > 0) memcpy(text + x, b.ptr, b.len);
    memcpy(text + x + b.len, c, y + 1);
    return ms_str_n(text, x + b.len + y);
}

#endif /* FORMAT_CALLS_H */
