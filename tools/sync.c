/* See sync.h. */

#define _GNU_SOURCE
#include "secrets.h"
#include "sync.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct state {
    uint64_t size, done, hash;
    int64_t changed;
    trace_known messages;
    bool known;
} state;


/* ---- The facts of a file ----------------------------------------------------------- */

/* Hashes eight bytes at a time: a large file is hashed whenever it has grown. */
static uint64_t hash_bytes(ms_str text)
{
    uint64_t hash = 0x9e3779b97f4a7c15u, word;
    for (; text.len >= 8; text = ms_str_n(text.ptr + 8, text.len - 8)) {
        memcpy(&word, text.ptr, 8);
        hash = (hash ^ word) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    return hash ^ hash_text(text);
}

static bool has_secret(ms_str text)
{
    ms_arena arena = {0};
    secret_list list;
    bool found = secrets_find(ms_text_n(text), SECRETS_KEYS, &arena, &list);
    found = found && list.count > 0;
    ms_arena_deinit(&arena);
    return found;
}

/* Names the state of a file: by its path; or by a hash of it, if the path is no name, or
 * has a secret. other: the other one, in which the state can be from before. */
static ms_str state_name(const char *kind, const char *path, bool other,
                         char out[MS_KEY_MAX + 1])
{
    int n = snprintf(out, MS_KEY_MAX + 1, "%s:%s", kind, path);
    bool hashed = has_secret(ms_str_of(path)) != other;
    if (n > MS_KEY_MAX || !ms_utf8_check(ms_str_of(path), NULL) || hashed) {
        n = snprintf(out, MS_KEY_MAX + 1, "%s:%016" PRIx64, kind,
                     hash_text(ms_str_of(path)));
    }
    return ms_str_n(out, (size_t)n);
}

ms_str sync_other_name(ms_str name, ms_str facts, char out[MS_KEY_MAX + 1])
{
    static const json_key names[] = {KEY("size"), KEY("path")};
    static const char *const kinds[] = {"file:", "name:"};
    ms_str v[2];
    pick(facts, names, 2, v);
    for (size_t i = 0; i < 2; i++) {
        if (v[i].ptr == NULL || !text_begins(name, ms_str_of(kinds[i]))) continue;
        size_t len = strlen(kinds[i]);
        int n = snprintf(out, MS_KEY_MAX + 1, "%s%016" PRIx64, kinds[i],
                         hash_text(ms_str_n(name.ptr + len, name.len - len)));
        return ms_str_n(out, (size_t)n);
    }
    return ms_str_of(NULL);
}

/* Parses "1-20,25". */
static void parse_numbers(uint64_t **numbers, ms_str text)
{
    while (text.len > 0) {
        uint64_t first = 0, last;
        size_t i = 0;
        for (; i < text.len && text.ptr[i] >= '0' && text.ptr[i] <= '9'; i++) {
            first = first * 10 + (uint64_t)(text.ptr[i] - '0');
        }
        last = first;
        if (i < text.len && text.ptr[i] == '-') {
            last = 0;
            for (i++; i < text.len && text.ptr[i] >= '0' && text.ptr[i] <= '9'; i++) {
                last = last * 10 + (uint64_t)(text.ptr[i] - '0');
            }
        }
        for (uint64_t n = first; n <= last; n++) arrput(*numbers, n);
        if (i < text.len) i++;
        text = ms_str_n(text.ptr + i, text.len - i);
    }
}

static void put_numbers(ms_buf *buf, const uint64_t *numbers, size_t n)
{
    char text[64];
    for (size_t i = 0; i < n;) {
        size_t end = i + 1;
        while (end < n && numbers[end] == numbers[end - 1] + 1) end++;
        int len = end - i > 1
                      ? snprintf(text, sizeof text, "%s%" PRIu64 "-%" PRIu64,
                                 i > 0 ? "," : "", numbers[i], numbers[end - 1])
                      : snprintf(text, sizeof text, "%s%" PRIu64, i > 0 ? "," : "",
                                 numbers[i]);
        ms_buf_write(buf, text, (size_t)len);
        i = end;
    }
}

static void free_state(state *st)
{
    arrfree(st->messages.numbers);
    arrfree(st->messages.dead);
}

static void read_state(syncing *s, ms_str name, state *st)
{
    static const json_key names[] = {KEY("size"), KEY("changed"), KEY("done"),
                                     KEY("hash"), KEY("numbers"), KEY("noted"),
                                     KEY("shared"), KEY("dead")};
    ms_str facts, v[8];
    ms_arena arena = {0};
    memset(st, 0, sizeof *st);
    if (ms_location_get(s->in.store, name, &arena, &facts, NULL) == MS_OK) {
        pick(facts, names, 8, v);
        st->known = v[0].ptr != NULL;
        st->size = count_of(v[0]);
        if (v[1].ptr != NULL) ms_json_i64(v[1], &st->changed);
        st->done = count_of(v[2]);
        st->hash = strtoull(v[3].ptr != NULL ? v[3].ptr + 1 : "0", NULL, 16);
        parse_numbers(&st->messages.numbers, text_of(&arena, v[4]));
        parse_numbers(&st->messages.dead, text_of(&arena, v[7]));
        size_t n = arrlenu(st->messages.numbers);
        uint64_t noted = count_of(v[5]), shared = count_of(v[6]);
        st->messages.noted = v[5].ptr != NULL && noted < n ? (size_t)noted : n;
        st->messages.shared = shared < n ? (size_t)shared : n;
    }
    ms_arena_deinit(&arena);
}

static int write_state(syncing *s, ms_str name, const unit *u, const trace *t,
                       ms_str text, uint64_t done)
{
    ms_error err;
    char head[256];
    ms_arena arena = {0};
    ms_buf buf = {&arena, NULL, 0, 0};
    size_t n = 0, n_dead = 0;
    const uint64_t *numbers = t != NULL ? trace_numbers(t, &n) : NULL;
    const uint64_t *dead = t != NULL ? trace_dead(t, &n_dead) : NULL;
    uint64_t hash = hash_bytes(ms_str_n(text.ptr, (size_t)done));
    snprintf(head, sizeof head,
             "{\"size\":%" PRIu64 ",\"changed\":%" PRId64 ",\"done\":%" PRIu64
             ",\"hash\":\"%016" PRIx64 "\",\"noted\":%zu,\"shared\":%zu,"
             "\"numbers\":\"",
             u->size, u->changed, done, hash, t != NULL ? trace_noted(t) : 0,
             t != NULL ? trace_shared(t) : 0);
    json_piece(&buf, head);
    put_numbers(&buf, numbers, n);
    json_piece(&buf, "\",\"dead\":\"");
    put_numbers(&buf, dead, n_dead);
    json_piece(&buf, "\"}");
    ms_result result = ms_location_set(s->in.store, name, ms_buf_text(&buf), &err);
    ms_arena_deinit(&arena);
    return result == MS_OK ? FINE : complain_of("noting what was read", result, &err);
}

/* Finds the state of a file of the same name in another folder, which began as this one
 * does. If that file is still there, this one is a copy, which shares its messages. */
static void find_moved(syncing *s, const char *path, ms_str text, state *st)
{
    char name[MS_KEY_MAX + 1], old[MS_KEY_MAX + 1];
    ms_arena arena = {0};
    ms_str facts, stem = stem_text(path), path_of = {NULL, 0};
    snprintf(old, sizeof old, "%.*s", (int)stem.len, stem.ptr);
    for (unsigned other = 0; other < 2 && path_of.ptr == NULL; other++) {
        ms_str key = state_name("name", old, other > 0, name);
        if (ms_location_get(s->in.store, key, &arena, &facts, NULL) != MS_OK) break;
        path_of = member(facts, "path");
    }
    if (path_of.ptr != NULL) {
        ms_str from = text_of(&arena, path_of);
        if (from.len > 0 && from.len <= MS_KEY_MAX) {
            snprintf(old, sizeof old, "%.*s", (int)from.len, from.ptr);
            read_state(s, ms_str_of(old), st);
            size_t skip = strlen("file:"); /* a hash in place of a path counts as gone */
            bool copy = from.len > skip && is_there(old + skip);
            if (copy) st->messages.shared = arrlenu(st->messages.numbers);
            if (copy) arrfree(st->messages.dead);
        }
    }
    ms_arena_deinit(&arena);
    bool same = st->known && st->done > 0 && st->done <= text.len &&
                hash_bytes(ms_str_n(text.ptr, (size_t)st->done)) == st->hash;
    if (same) return;
    free_state(st);
    memset(st, 0, sizeof *st);
}

static void note_name(syncing *s, const char *path, ms_str state_key)
{
    char name[MS_KEY_MAX + 1], stem[MS_KEY_MAX + 1];
    ms_arena arena = {0};
    ms_buf buf = {&arena, NULL, 0, 0};
    ms_str text = stem_text(path);
    snprintf(stem, sizeof stem, "%.*s", (int)text.len, text.ptr);
    json_piece(&buf, "{\"path\":");
    json_quoted(&buf, state_key);
    json_piece(&buf, "}");
    ms_location_set(s->in.store, state_name("name", stem, false, name),
                    ms_buf_text(&buf), NULL);
    ms_arena_deinit(&arena);
}


/* ---- Files of messages ------------------------------------------------------------- */

typedef struct chat_sink {
    trace *t;
    ms_str location;
    char name[MS_KEY_MAX + 1];
    const char *agent;
    ms_store *store;
    tally own;                /* locations of the file's known messages */
} chat_sink;

static void note_own(chat_sink *c, const state *st)
{
    ms_arena arena = {0};
    const ms_msg *msg;
    for (size_t i = 0; i < arrlenu(st->messages.numbers); i++) {
        uint64_t seq = st->messages.numbers[i];
        ms_arena_reset(&arena);
        if (ms_get_by_seq(c->store, seq, &arena, &msg, NULL) != MS_OK) continue;
        tally_row *row = tally_row_of(&c->own, location_of(msg));
        if (row == NULL) exit(no_memory());
        row->count++;
    }
    ms_arena_deinit(&arena);
}

/* Returns whether a location has messages, and none of them is of this file (SY5). */
static bool chat_is_taken(void *ctx, ms_str location)
{
    chat_sink *c = ctx;
    ms_cursor it;
    ms_query q = {0};
    tally_row *row = tally_row_of(&c->own, location);
    if (row == NULL) exit(no_memory());
    q.location = location;
    q.limit = 1;
    if (row->count > 0 || ms_query_open(c->store, &q, &it, NULL) != MS_OK) return false;
    bool found = ms_next(&it) != NULL;
    ms_cursor_close(&it, NULL);
    return found;
}

static int chat_take(void *ctx, const taken *taken_in)
{
    chat_sink *c = ctx;
    ms_str none = {NULL, 0};
    if (taken_in->list.count == 0) return FINE;
    ms_str location = taken_in->list.items[0].location;
    if (!ms_str_equal(location, c->location) && location.len <= MS_KEY_MAX) {
        memcpy(c->name, location.ptr, location.len);
        c->location = ms_str_n(c->name, location.len);
        trace_new_session(c->t, c->location);
        trace_fact(c->t, "agent", ms_str_of(c->agent));
    }
    trace_entry(c->t, none, none, 0);
    for (size_t i = 0; i < taken_in->list.count; i++) {
        const ms_envelope *m = &taken_in->list.items[i];
        if (m->type == MS_T_USER_MESSAGE && !m->content.json) {
            if (!trace_has_prompt(c->t)) trace_first_prompt(c->t);
        }
        trace_put(c->t, m);
    }
    trace_flush(c->t); /* the reader's memory is used for the next message */
    return trace_code(c->t);
}

static void chat_answered(void *ctx, ms_str response)
{
    chat_sink *c = ctx;
    use u;
    use_of_response(response, trace_arena(c->t), &u);
    trace_fact(c->t, "model", u.model);
    trace_use(c->t, &u);
}

static int sync_messages(syncing *s, const unit *u, const state *st, trace **out)
{
    trace_desc desc;
    chat_sink c;
    memset(&desc, 0, sizeof desc);
    memset(&c, 0, sizeof c);
    desc.store = s->in.store;
    desc.options = s->in.options;
    desc.counts = s->in.counts;
    desc.format = "messages";
    desc.path = u->path;
    desc.known = st->messages;
    desc.stored = s->in.stored;
    desc.ctx = s->in.ctx;
    c.agent = ends_with(u->path, ".traj") ? "swe-agent" : "chat";
    c.t = trace_begin(&desc);
    c.store = s->in.store;
    note_own(&c, st);
    sink to = {chat_take, &c, true, true, false, s->in.rescue, chat_answered, NULL,
               chat_is_taken};
    int code = read_input(s->in.options, u->path, NULL, 0, &to);
    tally_free(&c.own);
    if (!is_read(code)) trace_fail(c.t, code);
    int ended = trace_end(c.t);
    *out = c.t;
    s->in.counts->files++;
    s->in.counts->bytes += u->size;
    return ended != FINE ? ended : code;
}


/* ---- One file, and all of a folder ------------------------------------------------- */

static void tell_progress(syncing *s)
{
    double now = clock_seconds(), seconds = now - s->began;
    if (!s->progress || now - s->reported < 0.2 || seconds < 0.5) return;
    s->reported = now;
    double rate = (double)s->bytes / (seconds + 1e-9);
    double left = rate > 0 ? (double)(s->bytes_all - s->bytes) / rate : 0;
    fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " files, %.0f MB, %.0f MB/s, "
            "%.0f s left\033[K",
            s->done, s->all, (double)s->bytes / 1e6, rate / 1e6, left);
}

/* Returns how many bytes of a file of lines are unchanged, by their hash (SY2). */
static uint64_t unchanged_bytes(const state *st, const fileformat *f, ms_str text)
{
    bool lines = f != NULL && f->shape == FILE_LINES;
    if (!lines || st->done == 0 || st->done > text.len) return 0;
    uint64_t hash = hash_bytes(ms_str_n(text.ptr, (size_t)st->done));
    return hash == st->hash ? st->done : 0;
}

typedef struct begun {
    syncing *s;
    ms_str name;
} begun;

/* Notes the messages stored so far (SY6): what ends a sync early does not double them.
 * The size 0 has the file read again. */
static void note_begun(void *ctx, const trace *t)
{
    const begun *b = ctx;
    const unit none = {NULL, NULL, false, 0, 0};
    write_state(b->s, b->name, &none, t, MS_STR(""), 0);
}

static int sync_loaded(syncing *s, const unit *u, ms_str name, state *st)
{
    trace *t = NULL;
    int code = FINE;
    ms_str text = s->text.text;
    uint64_t done = text.len, before = s->in.counts->messages - s->in.counts->known;
    bool zip = is_zip(text);
    begun b = {s, name};
    s->in.stored = note_begun;
    s->in.ctx = &b;
    const fileformat *f = zip ? NULL : format_of(text, true);
    if (!st->known) find_moved(s, u->path, text, st);
    if (zip && !ends_with(u->path, ".eval")) {
        s->ignored++;
    } else if (zip || f != NULL) {
        uint64_t same = unchanged_bytes(st, f, text);
        code = take_transcript(&s->in, f, text, u->path, &st->messages, same, &t,
                               &done);
    } else if (shows_messages(text)) {
        code = sync_messages(s, u, st, &t);
    } else {
        s->ignored++;
    }
    bool kept = code == FINE || code == DAMAGED;
    bool emptied = t == NULL && st->known && arrlenu(st->messages.numbers) > 0;
    int written = kept && !emptied ? write_state(s, name, u, t, text, done) : FINE;
    bool added = s->in.counts->messages - s->in.counts->known > before;
    if (kept && added) note_name(s, u->path, name);
    if (kept && added) s->in.counts->sessions++;
    trace_free(t);
    return written != FINE ? written : code;
}

int sync_unit(syncing *s, const unit *u)
{
    state st;
    char text[MS_KEY_MAX + 1], *real = realpath(u->path, NULL);
    const char *path = real != NULL ? real : u->path;
    ms_str name = state_name("file", path, false, text);
    read_state(s, name, &st);
    if (!st.known) {
        free_state(&st);
        name = state_name("file", path, true, text);
        read_state(s, name, &st);
        if (!st.known) name = state_name("file", path, false, text);
    }
    int code = FINE;
    if (st.known && st.size == u->size && st.changed == u->changed) {
        s->unchanged++; /* (SY1) */
    } else {
        code = unit_load(u, &s->text);
        bool read = code == FINE || code == DAMAGED;
        int put = read ? sync_loaded(s, u, name, &st) : code;
        if (put != FINE) code = put;
    }
    free_state(&st);
    free(real);
    s->done++;
    s->bytes += u->size;
    tell_progress(s);
    return code;
}

int sync_path(syncing *s, const char *path)
{
    int worst = FINE;
    if (!is_there(path)) {
        complain("%s: no such file or folder", path);
        return NOT_FOUND;
    }
    unit *units = units_of(path);
    s->all += arrlenu(units);
    for (size_t i = 0; i < arrlenu(units); i++) s->bytes_all += units[i].size;
    for (size_t i = 0; i < arrlenu(units); i++) {
        int code = sync_unit(s, &units[i]);
        if (code == FINE) continue;
        s->failed += code != DAMAGED;
        worst = worst == FINE || worst == DAMAGED ? code : worst;
        if (code == BUSY) break;
    }
    units_free(units);
    if (s->reported > 0) fputs("\r\033[K", stderr);
    return worst;
}

void sync_free(syncing *s)
{
    file_free(&s->text);
}

bool is_transcript(const char *path)
{
    file_text f = {{NULL, 0}, NULL, 0, NULL, 0, false, 0};
    if (strcmp(path, "-") == 0 || is_pipe(path)) return false;
    if (is_folder(path)) return true;
    bool found = is_read(file_load(&f, path)) && f.plain &&
                 (is_zip(f.text) || format_of(f.text, true) != NULL);
    file_free(&f);
    return found;
}
