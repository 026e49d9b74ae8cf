/* Fuzzes the readers and writers of all dialects, and what takes JSON into a store.
 *
 *   byte 0    the dialect, by its place in the library's list; one more: deltas; E0 to EF
 *             are sessions, tasks, rows that are built, members of extra: see below
 *   byte 1    bits: lenient, repair, a list (or body of a request), encoded in between,
 *             with_location, defaults, pretty
 *   byte 2    the dialect that it is also written in
 *   the rest  JSON
 *
 * What a reader gives is checked as a store would; what is refused leaves nothing. It is
 * written, read and written again: both texts are the same, and so are the envelopes.
 * Written in another dialect it is JSON that this dialect reads. What framework and
 * openai read strictly and write is equal to its source, as jansson reads both. Deltas
 * are put one by one and merged, merging twice changes nothing, and the message of
 * merged deltas is that of all of them. As chat messages it is one for each that is no
 * reasoning.
 *
 *   E0 session   byte 1: bits, see SYSTEM; byte 2: a number; rows
 *   E1 task      byte 1: bits, see OLDEST; byte 2: messages of a page; one byte of length
 *                and the data of a message; filters, or a cursor
 *   E2 builders  byte 1: bits, see ROW; byte 2: the turn; three times one byte of length
 *                and a text: role or tool, content, payload or parameters; metadata
 *   E3 extra     bytes 1 and 2: characters that are kept, bits of shortening; one byte of
 *                length and the content; extra
 *
 * Rows are stored just when the session dialect reads them, and are loaded, looked up and
 * taken away as it has read them; what was shortened comes back. Pages of a task are what
 * a naive filter leaves of the whole, and those behind a cursor its end. What is refused
 * has a reason and leaves the store as it was.
 * Left out: what each type becomes in another dialect, see test_dialect.c.
 */

#define _POSIX_C_SOURCE 200809L
#define FUZZ_MOST 4096
#include "fuzz.h"
#include "../json_equal.h"

enum { LENIENT = 1, REPAIR = 2, LIST = 4, ENCODED = 8, PLACED = 16, DEFAULTS = 32,
       PRETTY = 64 };

static ms_arena arena;
static ms_str source;     /* of this input */
static const char *from;  /* its dialect */
static const char *step;  /* what is being done with it */

static void wrong(const char *what, const ms_error *err)
{
    fuzz_show("source", source);
    fuzz_fail("%s, %s: %s%s%s%s%s", from, step, what, err != NULL ? ": " : "",
              err != NULL ? err->path : "", err != NULL ? " " : "",
              err != NULL ? err->message : "");
}

static ms_result reads(const ms_dialect *d, ms_str json, unsigned how, ms_envelopes *out,
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
    return ms_writer_put_msg(w, msg, err);
}

/* One array, or a line each. */
static ms_str writes(const ms_dialect *d, const ms_envelopes *list, unsigned how)
{
    ms_writer_opts opts = {(how & LIST) != 0, (how & PRETTY) != 0, (how & PLACED) != 0,
                           (how & DEFAULTS) != 0};
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
    if (a->has_time != b->has_time || (a->has_time && a->time != b->time)) return "time";
    if ((a->flags ^ b->flags) & MS_FLAG_JOINED) return "joined";
    bool given_ids = strcmp(from, "pydantic-ai") == 0 && a->call_id.ptr == NULL;
#define TEXT(s) ms_text_n(s)
#define OBJECT(s) ms_json(s)
#define VALUE(v) (v)
#define X(number, NAME, member, kind)                                   \
    if (!(number == MS_F_CALL_ID && given_ids) &&                       \
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
        if (ms_envelope_check(&list->items[i], &err) != MS_OK)
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
static void must_come_back(const ms_dialect *d, const ms_envelopes *list, ms_str text,
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
    bool defaults = (how & DEFAULTS) && strcmp(from, "task") == 0;
    bool filled = canonical || defaults || (how & LENIENT); /* with what was missing */
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

static void cross(const ms_dialect *d, const ms_envelopes *list, unsigned how)
{
    ms_envelopes again;
    ms_error err;
    how |= LIST;
    step = ms_dialect_name(d);
    ms_str text = writes(d, list, how & ~(unsigned)ENCODED);
    must_be_json(text, how);
    if (reads(d, text, how | LENIENT, &again, &err) != MS_OK) {
        fuzz_show("written", text);
        wrong("what it writes, it refuses", &err);
    }
    must_fit(&again);
}

/* How many chat messages the list becomes: counted by converters that write nothing. */
typedef struct tally {
    size_t said, reasoning;
} tally;

static ms_result count_said(void *ctx, const ms_envelope *m, ms_json_writer *w)
{
    (void)m;
    (void)w;
    ((tally *)ctx)->said++;
    return MS_OK;
}

static ms_result count_reasoning(void *ctx, const ms_envelope *m, ms_json_writer *w)
{
    (void)m;
    (void)w;
    ((tally *)ctx)->reasoning++;
    return MS_OK;
}

static ms_str convert(const ms_envelopes *list, const ms_task_converters *converters)
{
    ms_json_writer w;
    ms_buf buf;
    ms_error err;
    memset(&buf, 0, sizeof buf);
    buf.arena = &arena;
    ms_json_init(&w, ms_buf_write, &buf, false);
    if (ms_task_convert(list->items, list->count, converters, &arena, &w, &err) != MS_OK)
        wrong("it cannot be converted", &err);
    if (ms_json_finish(&w) != MS_OK) wrong("the chat messages have no end", NULL);
    return ms_buf_text(&buf);
}

static void converted(const ms_envelopes *list)
{
    tally n = {0, 0};
    ms_task_converters count = {&n, count_said, count_said, count_said, count_said,
                                count_reasoning};
    ms_error err;
    size_t elements = 0;
    step = "converted";
    if (!ms_str_equal(convert(list, &count), MS_STR("[]")) ||
        n.said + n.reasoning != list->count)
        wrong("not each message was converted once", NULL);
    ms_str text = convert(list, NULL);
    if (ms_json_check(text, NULL, NULL, &err) != MS_OK)
        wrong("chat messages that are no JSON", &err);
    for (ms_json_iter it = ms_json_iterate(text); ms_json_next(&it); elements++)
        if (ms_json_kind_of(it.value) != MS_JSON_OBJECT)
            wrong("a chat message that is no object", NULL);
    if (elements != n.said) wrong("another number of chat messages", NULL);
}

/* Does one of them say where it belongs? */
static bool has_place(const ms_envelopes *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].location.ptr != NULL || list->items[i].agent_key.ptr != NULL)
            return true;
    return false;
}

static void message(const ms_dialect *d, const ms_dialect *other, unsigned how)
{
    ms_envelopes list;
    ms_error err;
    from = ms_dialect_name(d);
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
    bool exact = strcmp(from, "framework") == 0 || strcmp(from, "openai") == 0;
    if (exact && !(how & (REPAIR | LENIENT | PLACED)) &&
        (how & LIST ? is_array(source) : one_line(text)))
        must_be_source(text);
    if (how & LIST || one_line(text)) must_come_back(d, &list, text, how);
    cross(other, &list, how);
    converted(&list);
}


/* ---- deltas ---- */

static ms_result merge(ms_str list, ms_str *out, ms_error *err)
{
    ms_json_writer w;
    ms_buf buf;
    memset(&buf, 0, sizeof buf);
    buf.arena = &arena;
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_result result = ms_deltas_merge(list, &w, err);
    if (result == MS_OK) result = ms_json_finish(&w);
    *out = ms_buf_text(&buf);
    return result;
}

/* The message that a list of deltas is. */
static ms_result gather(ms_str list, ms_envelope *out)
{
    ms_deltas d;
    ms_error err;
    ms_json_iter it = ms_json_iterate(list);
    ms_result result = MS_OK;
    ms_deltas_init(&d, &arena);
    while (result == MS_OK && ms_json_next(&it))
        if (ms_json_kind_of(it.value) != MS_JSON_NULL)
            result = ms_deltas_put(&d, it.value, &err);
    return result == MS_OK ? ms_deltas_finish(&d, out, &err) : result;
}

static void deltas(void)
{
    ms_str merged, twice;
    ms_envelope a, b;
    ms_error err;
    ms_deltas d;
    from = step = "deltas";
    ms_deltas_init(&d, &arena);
    (void)ms_deltas_put(&d, source, &err);
    (void)ms_deltas_finish(&d, &a, &err);
    if (ms_json_check(source, NULL, NULL, &err) != MS_OK) return;
    if (merge(source, &merged, &err) != MS_OK) return;
    if (merge(merged, &twice, &err) != MS_OK) wrong("merged deltas are refused", &err);
    if (!ms_str_equal(merged, twice)) wrong("merging twice is another list", NULL);
    ms_result one = gather(source, &a), two = gather(merged, &b);
    if (one != two) wrong("merged deltas are another result", NULL);
    if (one != MS_OK) return;
    const char *what = differs(&a, &b);
    if (what != NULL) wrong(what, NULL);
}


/* ---- in a store ---- */

/* An empty one; the last one is gone. */
static ms_store *fresh_store(void)
{
    static uint64_t room[1 << 15];
    static unsigned char drawn;
    ms_store *store;
    ms_mem_desc desc;
    memset(&desc, 0, sizeof desc);
    drawn = 0;
    desc.buffer = room;
    desc.buffer_size = sizeof room;
    desc.keep_unset_times = true;
    desc.clock.now = fuzz_now;
    desc.entropy.fill = fuzz_fill;
    desc.entropy.ctx = &drawn;
    if (ms_mem_open(&store, &desc, NULL) != MS_OK) wrong("no store", NULL);
    return store;
}

/* A refusal has its code and a reason, and the store is as it was. */
static void must_refuse(ms_store *store, ms_result code, const ms_error *err,
                        uint64_t had)
{
    ms_stat stat;
    if (err->code != code) wrong("another code", err);
    if (err->message[0] == '\0') wrong("no reason", err);
    if (ms_store_stat(store, &stat, NULL) != MS_OK) wrong("no stat", NULL);
    if (stat.messages != had || stat.last_seq != had || stat.changes != 0)
        wrong("refused, but the store has changed", err);
}

static void must_equal(ms_envelope had, const ms_envelope *has)
{
    had.location = has->location;
    const char *what = differs(&had, has);
    if (what != NULL) wrong(what, NULL);
}


/* ---- sessions ---- */

enum { SYSTEM = 4, SHORT = 8, SHORT_GROW = 16, BARE = 32, MODEL = 64, POP = 128 };

static ms_envelopes load(const ms_session *s, const ms_session_load_opts *opts)
{
    ms_envelopes rows;
    ms_error err;
    if (ms_session_load(s, opts, &arena, &rows, &err) != MS_OK)
        wrong("the session cannot be loaded", &err);
    return rows;
}

static ms_result look_up(ms_store *store, ms_str user, size_t index, ms_envelope *out)
{
    char key[MS_ENTITY_KEY_MAX];
    ms_error err;
    size_t len = ms_entity_key(MS_STR("s"), index, key);
    memset(&err, 0, sizeof err);
    ms_result code = ms_session_lookup(store, user, ms_str_n(key, len), &arena, out,
                                       &err);
    if (code != MS_OK && err.message[0] == '\0') wrong("not found without reason", &err);
    return code;
}

/* What an extra says beside the marks of a shortened message; NULL: jansson refuses. */
static json_t *unmarked(ms_str extra)
{
    json_t *tree = fuzz_jansson(extra.ptr != NULL ? extra : MS_STR("{}"), 0, NULL);
    if (tree == NULL) return NULL;
    (void)json_object_del(tree, "_compressed");
    (void)json_object_del(tree, "_original_length");
    (void)json_object_del(tree, "_entity_key");
    return tree;
}

/* Restores a shortened message, which must then be the full one. */
static void must_restore(ms_envelope full, ms_envelope row)
{
    ms_error err;
    ms_str text = full.content.text;
    if (full.content.json && ms_json_string(text, &arena, &text) != MS_OK)
        wrong("shortened, but was no text", NULL);
    if (ms_restore_message(&row, text, &arena, &err) != MS_OK)
        wrong("it cannot be restored", &err);
    if (ms_is_shortened(&row)) wrong("restored, but still shortened", NULL);
    json_t *a = unmarked(full.extra), *b = unmarked(row.extra);
    if (a != NULL && (b == NULL || !json_same(a, b, 0, NULL)))
        wrong("restored, but with another extra", NULL);
    full.content = ms_text_n(text);
    full.extra = row.extra;
    must_equal(full, &row);
}

/* A row as it was loaded, or as it is in full. */
static void must_be_short(const ms_envelope *full, const ms_envelope *row, size_t index)
{
    char key[MS_ENTITY_KEY_MAX];
    ms_str has;
    bool same = ms_str_equal(full->content.text, row->content.text) &&
                full->content.json == row->content.json;
    if (same) {
        must_equal(*full, row);
        return;
    }
    size_t len = ms_entity_key(MS_STR("s"), index, key);
    if (!ms_is_shortened(row) || ms_shortened_key(row, &arena, &has) != MS_OK ||
        !ms_str_equal(has, ms_str_n(key, len)))
        wrong("a shortened row without its key", NULL);
    must_restore(*full, *row);
}

static void load_short(const ms_session *s, const ms_envelopes *rows, unsigned how,
                       unsigned n)
{
    ms_session_load_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.compress_on_load = true;
    opts.shorten.keep = 1 + n % 16;
    opts.shorten.may_grow = (how & SHORT_GROW) != 0;
    opts.newest = n / 16;
    step = "loaded shortened";
    ms_envelopes some = load(s, &opts);
    size_t left = rows->count;
    if (opts.newest > 0 && opts.newest < left) left = opts.newest;
    if (some.count != left) wrong("another number of rows", NULL);
    for (size_t i = 0; i < left; i++) {
        size_t index = rows->count - left + i;
        must_be_short(&rows->items[index], &some.items[i], index);
    }
}

static void load_plain(const ms_session *s, const ms_envelopes *rows)
{
    ms_session_load_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.plain = true;
    step = "loaded plain";
    ms_envelopes some = load(s, &opts);
    if (some.count != rows->count) wrong("another number of rows", NULL);
    for (size_t i = 0; i < some.count; i++) {
        const ms_envelope *a = &rows->items[i], *b = &some.items[i];
        if (a->type != b->type || a->has_time != b->has_time ||
            !same_value(a->content, b->content) || !same_value(a->args, b->args) ||
            !ms_str_equal(a->tool, b->tool) || !ms_str_equal(a->call_id, b->call_id))
            wrong("a plain row is another", NULL);
        if (b->id.ptr != NULL || b->extra.ptr != NULL) wrong("a row is not plain", NULL);
    }
}

static void as_model(const ms_envelopes *rows)
{
    ms_model_opts opts = {MS_STR("be"), {NULL, 0}};
    ms_envelopes list;
    ms_error err;
    step = "for a model";
    if (ms_session_model_messages(rows->items, rows->count, &opts, &arena, &list, &err) !=
        MS_OK)
        wrong("rows are no messages of a model", &err);
    must_fit(&list);
    must_be_json(writes(ms_dialect_find(MS_STR("pydantic-ai")), &list, LIST), LIST);
}

static void pop(const ms_session *s, const ms_envelopes *rows)
{
    ms_envelope last, gone;
    ms_error err;
    step = "taken away";
    if (ms_session_pop(s, &arena, &last, &err) != MS_OK)
        wrong("the newest row cannot be taken", &err);
    must_equal(rows->items[rows->count - 1], &last);
    if (load(s, NULL).count != rows->count - 1) wrong("another number of rows", NULL);
    if (look_up(s->store, MS_STR("u"), rows->count - 1, &gone) != MS_E_NOT_FOUND)
        wrong("it is still found", NULL);
}

static bool is_system(const ms_envelope *m)
{
    return m->type == MS_T_TEXT && (m->role == MS_ROLE_NONE || m->role == MS_ROLE_SYSTEM);
}

/* The rows are those that were read, behind the one that was there. */
static ms_envelopes must_be_stored(const ms_session *s, const ms_envelopes *list)
{
    ms_envelopes rows = load(s, NULL);
    size_t n = 1;
    for (size_t i = 0; i < list->count; i++) {
        if (!s->keep_system && is_system(&list->items[i])) continue;
        if (n == rows.count) wrong("a row is lost", NULL);
        must_equal(list->items[i], &rows.items[n++]);
    }
    if (n != rows.count) wrong("a row too many", NULL);
    return rows;
}

static void must_be_found(ms_store *store, const ms_envelopes *rows)
{
    ms_envelope m;
    step = "looked up";
    for (size_t i = 0; i <= rows->count && i < 6; i++) {
        ms_result code = look_up(store, MS_STR("u"), i, &m);
        if (code != (i < rows->count ? MS_OK : MS_E_NOT_FOUND))
            wrong(ms_result_text(code), NULL);
        if (i < rows->count) must_equal(rows->items[i], &m);
    }
    if (look_up(store, MS_STR("v"), 0, &m) != MS_E_NOT_FOUND)
        wrong("another user finds it", NULL);
}

static bool has_keys(const ms_envelopes *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].key.ptr != NULL) return true;
    return false;
}

static void session(unsigned how, unsigned n)
{
    ms_store *store = fresh_store();
    ms_envelope before = ms_user_message(ms_text("before"));
    ms_read_opts opts = {(how & LENIENT) != 0, (how & REPAIR) != 0};
    ms_envelopes list;
    ms_session s;
    ms_error err;
    from = "session";
    step = "stored";
    if (ms_session_init(&s, store, MS_STR("u"), MS_STR("s"), &err) != MS_OK ||
        ms_session_store(&s, &before, 1, &arena, NULL, &err) != MS_OK)
        wrong("no session", &err);
    s.keep_system = (how & SYSTEM) != 0;
    ms_result read = ms_read_list(ms_dialect_find(MS_STR("session")), source, &opts,
                                  &arena, &list, NULL);
    ms_result code = ms_session_store_json(&s, source, &opts, &arena, &err);
    bool keyed = has_keys(&list); /* rows with one key are one row, or refused */
    if (code != MS_OK) must_refuse(store, code, &err, 1);
    if (code != read && !(keyed && code == MS_E_KEY_REUSED))
        wrong("stored or refused, unlike read", code != MS_OK ? &err : NULL);
    if (code != MS_OK || keyed) return;
    ms_envelopes rows = must_be_stored(&s, &list);
    must_be_found(store, &rows);
    if (how & SHORT) load_short(&s, &rows, how, n);
    if (how & BARE) load_plain(&s, &rows);
    if (how & MODEL) as_model(&rows);
    if (how & POP) pop(&s, &rows);
}


/* ---- tasks ---- */

enum { OLDEST = 1, BY_TIME = 2, CURSOR = 4, MOST_TASKS = 16 };

static const char tasks[] =
    "[{\"id\":\"a\",\"task_id\":\"t\",\"created_at\":\"2024-01-15T10:30:03Z\","
    "\"content\":{\"type\":\"text\",\"author\":\"user\",\"content\":\"hi\"},"
    "\"streaming_status\":\"DONE\"},{\"task_id\":\"t\",\"created_at\":\"2024-01-15T"
    "10:30:01Z\",\"content\":{\"type\":\"data\",\"author\":\"agent\","
    "\"data\":{\"s\":\"ok\",\"n\":1.0,\"l\":[1,{\"k\":null},\"x\"],"
    "\"s\":\"\\u00e9\"}},\"streaming_status\":\"IN_PROGRESS\"},"
    "{\"type\":\"tool_request\",\"author\":\"agent\",\"tool_call_id\":\"c\","
    "\"name\":\"f\",\"arguments\":{\"a\":1}},{\"type\":\"tool_response\","
    "\"author\":\"agent\",\"tool_call_id\":\"c\",\"name\":\"f\","
    "\"content\":\"r\"},{\"type\":\"reasoning\",\"author\":\"agent\","
    "\"summary\":[\"a\"],\"content\":[\"b\"]}]";

/* A store with these, and one more that is data. */
static ms_store *task_store(ms_str data)
{
    static ms_arena kept;
    static ms_envelopes list;
    ms_store *store = fresh_store();
    ms_append_opts opts;
    ms_error err;
    memset(&opts, 0, sizeof opts);
    opts.location = MS_STR("t");
    if (list.count == 0 &&
        ms_read_list(ms_dialect_find(MS_STR("task")), ms_str_of(tasks), NULL, &kept,
                     &list, &err) != MS_OK)
        wrong("the messages of the task", &err);
    if (ms_append_batch(store, list.items, list.count, &opts, &err) != MS_OK)
        wrong("the messages of the task", &err);
    ms_envelope m = ms_data(ms_json(data));
    (void)ms_append(store, opts.location, &m, NULL, NULL);
    return store;
}

/* Not sure: numbers that two readers may round differently. */
static bool unsure;

static bool same_number(json_t *a, json_t *b)
{
    double x = json_number_value(a), y = json_number_value(b);
    if (json_is_integer(a) && json_is_integer(b))
        return json_integer_value(a) == json_integer_value(b);
    if (x > 9e15 || x < -9e15) unsure = true;
    return x == y;
}

static bool partly(json_t *want, json_t *have);

static bool partly_object(json_t *want, json_t *have)
{
    void *it = json_object_iter(want);
    for (; it != NULL; it = json_object_iter_next(want, it))
        if (!partly(json_object_iter_value(it),
                    json_object_get(have, json_object_iter_key(it))))
            return false;
    return true;
}

/* Elements are asked for one by one; null is also what there is not. */
static bool partly_array(json_t *want, json_t *have)
{
    size_t n = json_array_size(want);
    if (json_array_size(have) > n) return false;
    for (size_t i = 0; i < n; i++)
        if (!partly(json_array_get(want, i), json_array_get(have, i))) return false;
    return true;
}

/* Does `have` (NULL: missing) say all that `want` says? */
static bool partly(json_t *want, json_t *have)
{
    if (json_is_null(want)) return have == NULL || json_is_null(have);
    if (have == NULL) return false;
    if (json_is_number(want)) return json_is_number(have) && same_number(want, have);
    if (json_typeof(want) != json_typeof(have)) return false;
    if (json_is_object(want)) return partly_object(want, have);
    if (json_is_array(want)) return partly_array(want, have);
    return json_equal(want, have);
}

static bool filter_matches(json_t *filter, json_t *message)
{
    void *it = json_object_iter(filter);
    for (; it != NULL; it = json_object_iter_next(filter, it)) {
        const char *key = json_object_iter_key(it);
        json_t *value = json_object_iter_value(it);
        bool known = strcmp(key, "content") == 0 || strcmp(key, "streaming_status") == 0;
        if (strcmp(key, "exclude") == 0 || (known && json_is_null(value))) continue;
        if (!known || !partly(value, json_object_get(message, key))) return false;
    }
    return true;
}

static bool filters_pass(json_t *filters, json_t *message)
{
    bool some = false, included = false;
    for (size_t i = 0; i < json_array_size(filters); i++) {
        json_t *filter = json_array_get(filters, i);
        bool excludes = json_is_true(json_object_get(filter, "exclude"));
        bool matches = filter_matches(filter, message);
        if (excludes && matches) return false;
        some = some || !excludes;
        included = included || (!excludes && matches);
    }
    return included || !some;
}

static size_t levels(json_t *v)
{
    size_t most = 0;
    for (size_t i = 0; i < json_array_size(v); i++) {
        size_t n = levels(json_array_get(v, i));
        if (n > most) most = n;
    }
    for (void *it = json_object_iter(v); it != NULL; it = json_object_iter_next(v, it)) {
        size_t n = levels(json_object_iter_value(it));
        if (n > most) most = n;
    }
    return most + (json_is_array(v) || json_is_object(v));
}

static bool filter_is_one(json_t *filter)
{
    json_t *content = json_object_get(filter, "content");
    json_t *status = json_object_get(filter, "streaming_status");
    json_t *exclude = json_object_get(filter, "exclude");
    return json_is_object(filter) &&
           (content == NULL || json_is_object(content) || json_is_null(content)) &&
           (status == NULL || json_is_string(status) || json_is_null(status)) &&
           (exclude == NULL || json_is_boolean(exclude));
}

/* What is said of them: a list and a filter around content of 12 levels. */
static ms_result filters_result(json_t *filters)
{
    if (levels(filters) > 14) return MS_E_DEPTH;
    if (!json_is_array(filters)) return MS_E_KIND;
    for (size_t i = 0; i < json_array_size(filters); i++)
        if (!filter_is_one(json_array_get(filters, i))) return MS_E_KIND;
    return MS_OK;
}

/* A message as a reader of the page sees it. */
static json_t *as_json(const ms_msg *msg)
{
    ms_envelope m = ms_envelope_of(msg);
    ms_envelopes one = {&m, 1};
    return fuzz_jansson(writes(ms_dialect_find(MS_STR("task")), &one, PLACED | DEFAULTS),
                        0, NULL);
}

static ms_task_query task_query(unsigned how, size_t limit)
{
    ms_task_query q;
    memset(&q, 0, sizeof q);
    q.task_id = MS_STR("t");
    q.limit = limit;
    q.oldest_first = (how & OLDEST) != 0;
    q.by_time = (how & BY_TIME) != 0;
    return q;
}

static ms_result list_page(ms_store *store, const ms_task_query *q, ms_task_page *page)
{
    ms_error err;
    memset(&err, 0, sizeof err);
    ms_result code = ms_task_list(store, q, &arena, page, &err);
    if (code == MS_OK) return code;
    if (err.code != code || err.message[0] == '\0') wrong("refused without reason", &err);
    if (page->count != 0 || page->items != NULL) wrong("refused, but not empty", &err);
    return code;
}

static ms_task_page whole_task(ms_store *store, unsigned how)
{
    ms_task_page page;
    ms_task_query q = task_query(how, MOST_TASKS);
    step = "list";
    if (list_page(store, &q, &page) != MS_OK) wrong("a task without filters", NULL);
    if (page.count < 5 || page.has_more) wrong("another number of messages", NULL);
    return page;
}

/* All pages together are those of `whole` that `passes` says. */
static void must_list(ms_store *store, ms_task_query *q, const ms_task_page *whole,
                      const bool *passes)
{
    size_t at = 0;
    ms_task_page page;
    do {
        if (list_page(store, q, &page) != MS_OK) wrong("a page is refused", NULL);
        for (size_t i = 0; i < page.count; i++, at++) {
            while (at < whole->count && !passes[at]) at++;
            if (at == whole->count || ms_seq(page.items[i]) != ms_seq(whole->items[at]))
                wrong("a message that does not pass", NULL);
        }
        if (page.count > q->limit || (page.has_more && page.count < q->limit))
            wrong("a page of another size", NULL);
        q->cursor = page.next_cursor;
    } while (page.has_more);
    while (at < whole->count && !passes[at]) at++;
    if (at < whole->count) wrong("a message that passes is left out", NULL);
}

static void list_filtered(ms_store *store, unsigned how, unsigned n)
{
    ms_task_page whole = whole_task(store, how), page;
    bool passes[MOST_TASKS];
    ms_task_query q = task_query(how, 1 + n % 7);
    q.filters = source;
    step = "filters";
    ms_result code = list_page(store, &q, &page);
    ms_result check = ms_json_check(source, NULL, NULL, NULL);
    if (check != MS_OK && code == MS_OK) wrong("filters that are no JSON", NULL);
    json_t *filters = fuzz_jansson(source, JSON_REJECT_DUPLICATES, NULL);
    if (check != MS_OK || filters == NULL) return;
    if (code != filters_result(filters)) wrong("another result", NULL);
    if (code != MS_OK) return;
    unsure = false;
    for (size_t i = 0; i < whole.count; i++) {
        json_t *message = as_json(whole.items[i]);
        unsure = unsure || message == NULL;
        passes[i] = message != NULL && filters_pass(filters, message);
    }
    if (!unsure) must_list(store, &q, &whole, passes);
}

/* Whatever it names, what is behind it is the end of the whole. */
static void list_behind(ms_store *store, unsigned how)
{
    ms_task_page whole = whole_task(store, how), page;
    ms_task_query q = task_query(how, MOST_TASKS);
    q.cursor = source;
    step = "cursor";
    ms_result code = list_page(store, &q, &page);
    if (code != MS_OK) {
        if (code != MS_E_ARGUMENT && !(code == MS_E_NOT_FOUND && (how & BY_TIME)))
            wrong(ms_result_text(code), NULL);
        return;
    }
    if (page.count > whole.count || page.has_more) wrong("more than there is", NULL);
    for (size_t i = 0; i < page.count; i++)
        if (ms_seq(page.items[i]) != ms_seq(whole.items[whole.count - page.count + i]))
            wrong("not the end of the whole", NULL);
}


/* ---- rows and calls that are built ---- */

enum { ROW = 0, CALL = 1, RESULT = 2, IS_JSON = 4, ARGS_JSON = 8, NO_META = 16,
       NO_PAYLOAD = 32 };

typedef struct parts {
    ms_str word;              /* role or tool */
    ms_value content, payload;
    ms_str metadata;
} parts;

static bool is_object(ms_str json)
{
    ms_str v;
    return ms_json_check(json, NULL, &v, NULL) == MS_OK &&
           ms_json_kind_of(v) == MS_JSON_OBJECT;
}

static ms_result build(unsigned which, const parts *p, int64_t turn, ms_envelope *m,
                       ms_error *err)
{
    memset(err, 0, sizeof *err);
    memset(m, 0xA5, sizeof *m);
    if (which == CALL)
        return ms_tool_call(p->content, p->word, p->payload, turn, p->metadata, &arena, m,
                            err);
    if (which == RESULT)
        return ms_tool_result(p->content, p->word, p->payload.text, p->metadata, &arena,
                              m, err);
    return ms_row(p->word, p->content, p->metadata, &arena, m, err);
}

/* The type of a row that is read and says the same; NONE: it is refused. */
static ms_type type_as_read(const parts *p)
{
    ms_json_writer w;
    ms_buf buf;
    ms_envelopes list;
    memset(&buf, 0, sizeof buf);
    buf.arena = &arena;
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_json_begin_object(&w);
    ms_json_key(&w, MS_STR("role"));
    ms_json_put_string(&w, p->word);
    ms_json_key(&w, MS_STR("content"));
    if (p->content.json) ms_json_put_raw(&w, p->content.text);
    else ms_json_put_string(&w, p->content.text);
    ms_json_key(&w, MS_STR("metadata"));
    ms_json_put_raw(&w, p->metadata.ptr != NULL ? p->metadata : MS_STR("{}"));
    ms_json_end_object(&w);
    if (ms_json_finish(&w) != MS_OK ||
        ms_read(ms_dialect_find(MS_STR("envelope-rows")), ms_buf_text(&buf), NULL, &arena,
                &list, NULL) != MS_OK)
        return MS_T_NONE;
    return list.items[0].type;
}

/* All metadata stand in extra, but for what became the call_id. */
static void must_keep(const ms_envelope *m, ms_str metadata)
{
    json_t *had = fuzz_jansson(metadata, 0, NULL);
    json_t *extra = fuzz_jansson(m->extra.ptr != NULL ? m->extra : MS_STR("{}"), 0, NULL);
    json_t *has = json_object_get(extra, "metadata");
    if (had == NULL) return;
    if (m->call_id.ptr != NULL && json_object_get(has, "tool_call_id") == NULL)
        (void)json_object_del(had, "tool_call_id");
    if (has == NULL ? json_object_size(had) > 0 : !json_same(had, has, 0, NULL))
        wrong("other metadata", NULL);
}

static void must_say(unsigned which, const parts *p, int64_t turn, const ms_envelope *m)
{
    char said[32];
    if (which == ROW) {
        ms_type type = type_as_read(p);
        if (type != MS_T_NONE && type != m->type) wrong("another type than read", NULL);
        return;
    }
    if (m->type != (which == CALL ? MS_T_ACTION : MS_T_OBSERVATION))
        wrong("another type", NULL);
    if (which == RESULT) return;
    snprintf(said, sizeof said, "{\"turn\":%ld}", (long)turn);
    if (!ms_str_equal(m->tool, p->word) || !same_value(m->args, p->payload) ||
        !ms_str_equal(m->call_extra, ms_str_of(said)))
        wrong("another call", NULL);
}

static parts parts_of(unsigned how, fuzz_input *in)
{
    parts p;
    p.word = fuzz_text(in);
    p.content.text = fuzz_text(in);
    p.content.json = (how & IS_JSON) != 0;
    p.payload.text = fuzz_text(in);
    p.payload.json = (how & ARGS_JSON) != 0;
    source = p.metadata = fuzz_bytes(in, FUZZ_MOST);
    if (how & NO_META) p.metadata = ms_str_n(NULL, 0);
    if (how & NO_PAYLOAD) p.payload.text = ms_str_n(NULL, 0);
    return p;
}

/* Is it taken only where the reader of JSON takes its parts? */
static bool parts_fit(unsigned which, const parts *p)
{
    ms_str payload = p->payload.text, content = p->content.text;
    if (p->metadata.ptr != NULL && !is_object(p->metadata)) return false;
    if (which == RESULT && payload.ptr != NULL && !is_object(payload)) return false;
    return !p->content.json || content.len == 0 ||
           ms_json_check(content, NULL, NULL, NULL) == MS_OK;
}

static void builders(unsigned how, unsigned n, fuzz_input *in)
{
    unsigned which = (how & 3) % 3;
    int64_t turn = (int64_t)n - 128;
    parts p = parts_of(how, in);
    ms_envelope m, none;
    ms_error err;
    const ms_msg *msg;
    from = which == ROW ? "row" : which == CALL ? "call" : "result";
    step = "built";
    ms_result code = build(which, &p, turn, &m, &err);
    if (code != MS_OK) {
        memset(&none, 0, sizeof none);
        if (memcmp(&m, &none, sizeof m) != 0) wrong("refused, but not empty", &err);
        if (err.code != code || err.message[0] == '\0') wrong("no reason", &err);
        return;
    }
    if (!parts_fit(which, &p)) wrong("what is no JSON, or no object, is taken", NULL);
    if (ms_encode(&m, &arena, &msg, &err) != MS_OK) wrong("no store would take it", &err);
    must_say(which, &p, turn, &m);
    if (p.metadata.ptr != NULL) must_keep(&m, p.metadata);
}


/* ---- members of extra ---- */

/* What the message says of itself is what its extra says. */
static void must_tell(const ms_envelope *m)
{
    ms_str key;
    json_t *extra = fuzz_jansson(m->extra, 0, NULL);
    json_t *name = json_object_get(extra, "_entity_key");
    bool is = json_is_true(json_object_get(extra, "_compressed"));
    if (ms_shortened_key(m, &arena, &key) != MS_OK) wrong("no key", NULL);
    if (extra == NULL) return;
    if (ms_is_shortened(m) != is) wrong("shortened or not", NULL);
    if (!is || !json_is_string(name)) {
        if (key.ptr != NULL) wrong("a key that is not there", NULL);
    } else if (!ms_str_equal(key, ms_str_n(json_string_value(name),
                                           json_string_length(name)))) {
        wrong("another key", NULL);
    }
}

static void shorten_and_back(ms_envelope full, unsigned keep, unsigned how)
{
    ms_shorten_opts opts = {1 + keep % 16, (how & 1) != 0, (how & 2) != 0};
    ms_envelope m = full;
    ms_str key = how & 4 ? MS_STR("session-s-msg-\"7") : ms_str_n(NULL, 0), has;
    ms_error err;
    bool needed = ms_shorten_needed(m.content.text, &opts, key) &&
                  (opts.may_grow || !ms_is_shortened(&m));
    step = "shortened";
    if (ms_shorten_message(&m, &opts, key, &arena, &err) != MS_OK)
        wrong("it cannot be shortened", &err);
    if (ms_str_equal(m.content.text, full.content.text) && !needed) {
        must_equal(full, &m);
    } else {
        if (!needed || !ms_is_shortened(&m)) wrong("it need not, or does not say", NULL);
        if (ms_shortened_key(&m, &arena, &has) != MS_OK || !ms_str_equal(has, key))
            wrong("another key", NULL);
        must_restore(full, m);
    }
}

static void extra(unsigned keep, unsigned how, fuzz_input *in)
{
    ms_store *store = fresh_store();
    ms_envelope m = ms_assistant_message(ms_text_n(fuzz_text(in)));
    ms_json_opts mends = {0, true};
    ms_error err;
    ms_str value;
    uint64_t seq = 0;
    const ms_msg *msg;
    source = m.extra = fuzz_bytes(in, FUZZ_MOST);
    from = "extra";
    step = "appended";
    bool object = ms_json_check(source, &mends, &value, NULL) == MS_OK &&
                  ms_json_kind_of(value) == MS_JSON_OBJECT;
    ms_result code = ms_append(store, MS_STR("l"), &m, &seq, &err);
    if (code != MS_OK) {
        must_refuse(store, code, &err, 0);
        if (is_object(source) && code != MS_E_DEPTH) wrong("an object is refused", &err);
        return;
    }
    if (!object) wrong("what is no object is taken", NULL);
    if (ms_get_by_seq(store, seq, &arena, &msg, &err) != MS_OK) wrong("not found", &err);
    if (!is_object(source)) return;
    if (!same_json(ms_get(msg, MS_F_EXTRA).text, source)) wrong("another extra", NULL);
    must_tell(&m);
    if (ms_utf8_check(m.content.text, NULL)) shorten_and_back(m, keep, how);
}

static void stored(unsigned kind, unsigned how, unsigned n, fuzz_input *in)
{
    if (kind == 2) {
        builders(how, n, in);
    } else if (kind == 3) {
        extra(how, n, in);
    } else {
        ms_str data = kind == 1 ? fuzz_text(in) : ms_str_n(NULL, 0);
        source = fuzz_bytes(in, FUZZ_MOST);
        from = "task";
        if (kind == 0) session(how, n);
        else if (how & CURSOR) list_behind(task_store(data), how);
        else list_filtered(task_store(data), how, n);
    }
}

static size_t n_dialects(void)
{
    static size_t n;
    while (n == 0 || ms_dialect_at(n) != NULL) n++;
    return n;
}

static void fuzz_one(const unsigned char *bytes, size_t size)
{
    fuzz_input in = {bytes, bytes + size};
    unsigned n = (unsigned)n_dialects(), first = fuzz_u8(&in), how = fuzz_u8(&in);
    unsigned other = fuzz_u8(&in);
    if ((first & 0xF0) == 0xE0) {
        stored(first % 4, how, other, &in);
    } else {
        source = fuzz_bytes(&in, FUZZ_MOST);
        if (first % (n + 1) == n) deltas();
        else message(ms_dialect_at(first % (n + 1)), ms_dialect_at(other % n), how);
    }
    ms_arena_reset(&arena);
}
