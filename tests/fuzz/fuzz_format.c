/* Fuzzes the readers and writers of all formats.
 *
 *   byte 0    the format, by its place in the library's list
 *   byte 1    bits: lenient, repair, a list (or body of a request), encoded in between,
 *             with_location, pretty (64)
 *   byte 2    the format that it is also written in
 *   the rest  JSON
 *
 * What a reader gives is checked as a store would; what is refused leaves nothing. It is
 * written, read and written again: both texts are the same, and so are the envelopes.
 * Written in another format it is JSON that this format reads. What framework, openai and
 * openai-responses read strictly and write is equal to its source, as jansson reads both.
 * Left out: what each type becomes in another format, see tests/formats; sessions, see
 * test_session.c.
 */

#define _POSIX_C_SOURCE 200809L
#define FUZZ_MOST 4096
#include "fuzz.h"
#include "json_equal.h"

enum { LENIENT = 1, REPAIR = 2, LIST = 4, ENCODED = 8, PLACED = 16,
       PRETTY = 64 };

static ms_arena arena;
static ms_str source;     /* of this input */
static const char *from;  /* its format */
static const char *step;  /* what is being done with it */

static void wrong(const char *what, const ms_error *err)
{
    fuzz_show("source", source);
    fuzz_fail("%s, %s: %s%s%s%s%s", from, step, what, err != NULL ? ": " : "",
              err != NULL ? err->path : "", err != NULL ? " " : "",
              err != NULL ? err->message : "");
}

static ms_result reads(const ms_format *d, ms_str json, unsigned how, ms_envelopes *out,
                       ms_error *err)
{
    ms_read_opts opts = {(how & LENIENT) != 0, (how & REPAIR) != 0};
    memset(err, 0, sizeof *err);
    return how & LIST ? ms_read_list(d, json, &opts, &arena, out, err)
                      : ms_read(d, json, &opts, &arena, out, err);
}

static ms_result put(ms_writer *w, const ms_envelope *m, unsigned how, ms_error *err)
{
    const ms_msg *msg = NULL, *again = NULL;
    if (!(how & ENCODED)) return ms_writer_put(w, m, err);
    if (ms_encode(m, &arena, &msg, err) != MS_OK) wrong("it cannot be encoded", err);
    if (ms_decode(msg, ms_size(msg), &again, err) != MS_OK || again != msg)
        wrong("it cannot be decoded", err);
    return test_writer_put_msg(w, msg, err);
}

/* One array, or a line each. */
static ms_str writes(const ms_format *d, const ms_envelopes *list, unsigned how)
{
    ms_writer_opts opts = {(how & LIST) != 0, (how & PRETTY) != 0, (how & PLACED) != 0};
    ms_result result = MS_OK;
    ms_writer w;
    ms_buf buf;
    ms_error err;
    memset(&err, 0, sizeof err);
    memset(&buf, 0, sizeof buf);
    buf.arena = &arena;
    ms_writer_init(&w, d, &opts, &arena, ms_buf_write, &buf);
    for (size_t i = 0; i < list->count && result == MS_OK; i++)
        result = put(&w, &list->items[i], how, &err);
    if (result == MS_OK) result = ms_writer_finish(&w, &err);
    if (result != MS_OK) wrong("it cannot be written", &err);
    return ms_buf_text(&buf);
}


/* ---- envelopes that are equal ---- */

static ms_str compact(ms_str json)
{
    ms_json_writer w;
    ms_buf out;
    memset(&out, 0, sizeof out);
    out.arena = &arena;
    ms_json_init(&w, ms_buf_write, &out, false);
    ms_json_put_raw(&w, json);
    return ms_json_finish(&w) == MS_OK ? ms_buf_text(&out) : json;
}

static bool same_json(ms_str a, ms_str b)
{
    if (ms_str_equal(a, b) || ms_str_equal(compact(a), compact(b))) return true;
    json_t *x = fuzz_jansson(a, 0, NULL), *y = fuzz_jansson(b, 0, NULL);
    return x != NULL && y != NULL && json_same(x, y, 0, NULL);
}

static bool same_value(ms_value a, ms_value b)
{
    if (a.text.ptr == NULL || b.text.ptr == NULL) return a.text.ptr == b.text.ptr;
    return a.json == b.json &&
           (a.json ? same_json(a.text, b.text) : ms_str_equal(a.text, b.text));
}

/* Written with its place, a bare content of the task format gets a wrapper, as that is
 * what the format has for a place; and what has a wrapper has an extra, if only {}. */
static bool only_wrapped(const ms_envelope *a, const ms_envelope *b, unsigned how)
{
    if (strcmp(from, "task") != 0 || !(how & PLACED)) return false;
    return a->extra.ptr == NULL && ms_str_equal(b->extra, MS_STR("{}"));
}

static const char *differs(const ms_envelope *a, const ms_envelope *b)
{
    if (a->type != b->type) return "type";
    if (a->has_time != b->has_time || (a->has_time && a->time_ns != b->time_ns))
        return "time";
    if ((a->flags ^ b->flags) & MS_FLAG_JOINED) return "joined";
    bool given_ids = strcmp(from, "pydantic-ai") == 0 && a->call_id.ptr == NULL;
#define TEXT(s) ms_text_n(s)
#define OBJECT(s) ms_json(s)
#define VALUE(v) (v)
#define X(number, NAME, member, kind)                                   \
    if (!(number == MS_F_CALL_ID && given_ids) && number != MS_F_SOURCE && \
        !same_value(kind(a->member), kind(b->member)))                  \
        return #member;
    MS_FIELDS(X)
#undef X
#undef TEXT
#undef OBJECT
#undef VALUE
    return NULL;
}


/* ---- what must hold ---- */

static void must_fit(const ms_envelopes *list)
{
    ms_error err;
    for (size_t i = 0; i < list->count; i++)
        if (test_envelope_check(&list->items[i], &err) != MS_OK)
            wrong("no store would take it", &err);
}

/* Every line, or the whole. */
static void must_be_json(ms_str text, unsigned how)
{
    ms_error err;
    while (!(how & (LIST | PRETTY)) && text.len > 0) {
        const char *end = (const char *)memchr(text.ptr, '\n', text.len);
        size_t len = end != NULL ? (size_t)(end - text.ptr) : text.len;
        if (ms_json_check(ms_str_n(text.ptr, len), NULL, NULL, &err) != MS_OK)
            wrong("a line that is no JSON", &err);
        text.ptr += len + (end != NULL);
        text.len -= len + (end != NULL);
    }
    if ((how & LIST) && ms_json_check(text, NULL, NULL, &err) != MS_OK)
        wrong("a list that is no JSON", &err);
}

static bool is_array(ms_str json)
{
    return ms_json_kind_of(json) == MS_JSON_ARRAY;
}

/* Equal to the source as JSON. */
static void must_be_source(ms_str text)
{
    json_t *a = fuzz_jansson(source, 0, NULL), *b = fuzz_jansson(text, 0, NULL);
    json_where where;
    if (a == NULL || json_same(a, b, 0, &where)) return;
    fuzz_show("written", text);
    fuzz_show("differs at", ms_str_of(where.path));
    wrong("it is not what was read", NULL);
}

/* Read again and written again it is the same. The envelope format gives back rows in
 * their canonical form, which is another message; pydantic-ai gives ids to calls. */
static void must_come_back(const ms_format *d, const ms_envelopes *list, ms_str text,
                           unsigned how)
{
    ms_envelopes again;
    ms_error err;
    step = "read again";
    if (reads(d, text, how, &again, &err) != MS_OK) {
        fuzz_show("written", text);
        wrong("what was written is refused", &err);
    }
    if (again.count != list->count) {
        fuzz_show("written", text);
        wrong("another number of messages", NULL);
    }
    bool canonical = strncmp(from, "envelope", 8) == 0;
    bool filled = canonical || (how & LENIENT); /* with what was missing */
    for (size_t i = 0; i < list->count && !filled; i++) {
        ms_envelope had = list->items[i], has = again.items[i];
        if (only_wrapped(&had, &has, how)) has.extra = had.extra;
        const char *what = differs(&had, &has);
        if (what == NULL) continue;
        fuzz_show("written", text);
        wrong(what, NULL);
    }
    ms_str second = writes(d, &again, how);
    if (ms_str_equal(second, text)) return;
    fuzz_show("first", text);
    fuzz_show("second", second);
    wrong("it changes when it is written again", NULL);
}

/* One line: what a single object becomes. */
static bool one_line(ms_str text)
{
    if (text.len == 0) return false;
    const char *end = (const char *)memchr(text.ptr, '\n', text.len);
    return end != NULL && end + 1 == text.ptr + text.len;
}

/* Does one of them keep an object of no known form? It is written as that object, in
 * which another format can find a call without a name. */
static bool keeps_an_object(const ms_envelopes *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const ms_envelope *m = &list->items[i];
        if (ms_type_word(m->type)[0] == '\0' && m->content.json &&
            ms_json_kind_of(m->content.text) == MS_JSON_OBJECT)
            return true;
    }
    return false;
}

static void cross(const ms_format *d, const ms_envelopes *list, unsigned how)
{
    ms_envelopes again;
    ms_error err;
    how |= LIST;
    step = d->name;
    ms_str text = writes(d, list, how & ~(unsigned)ENCODED);
    must_be_json(text, how);
    if (reads(d, text, how | LENIENT, &again, &err) != MS_OK) {
        if (keeps_an_object(list)) return;
        fuzz_show("written", text);
        wrong("what it writes, it refuses", &err);
    }
    must_fit(&again);
}

/* Does one of them say where it belongs? */
static bool has_place(const ms_envelopes *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].location.ptr != NULL || list->items[i].agent_key.ptr != NULL)
            return true;
    return false;
}

static void message(const ms_format *d, const ms_format *other, unsigned how)
{
    ms_envelopes list;
    ms_error err;
    from = d->name;
    step = "read";
    if (reads(d, source, how, &list, &err) != MS_OK) {
        if (list.items != NULL || list.count != 0) wrong("refused, but not empty", &err);
        if (err.code == MS_OK || err.message[0] == '\0') wrong("no reason", NULL);
        return;
    }
    must_fit(&list);
    if (strcmp(from, "framework") == 0 && has_place(&list))
        how |= PLACED; /* what it reads as a place it writes only then */
    ms_str text = writes(d, &list, how);
    must_be_json(text, how);
    bool exact = strcmp(from, "framework") == 0 || strcmp(from, "openai") == 0 ||
                 strcmp(from, "openai-responses") == 0;
    if (exact && !(how & (REPAIR | LENIENT | PLACED)) &&
        (how & LIST ? is_array(source) : one_line(text)))
        must_be_source(text);
    if (how & LIST || one_line(text)) must_come_back(d, &list, text, how);
    cross(other, &list, how);
}


static size_t n_formats(void)
{
    static size_t n;
    while (n == 0 || ms_format_at(n) != NULL) n++;
    return n;
}

static void fuzz_one(const unsigned char *bytes, size_t size)
{
    fuzz_input in = {bytes, bytes + size};
    unsigned n = (unsigned)n_formats(), first = fuzz_u8(&in), how = fuzz_u8(&in);
    unsigned other = fuzz_u8(&in);
    source = fuzz_bytes(&in, FUZZ_MOST);
    message(ms_format_at(first % n), ms_format_at(other % n), how);
    ms_arena_reset(&arena);
}
