/* See sync.h. */

#define _GNU_SOURCE
#include "database.h"
#include "secrets.h"
#include "sync.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 16, NUMBERS_MAX = 1 << 24 }; /* numbers: of a piece (SY9); of a file */

/* Which messages the readers take: what others read of a file is compared. */
enum { READER = 2, UNREAD_MAX = 10 };

/* What the log has as facts of a file: a value that is equal is not written again. */
typedef struct file_facts {
    uint64_t messages, reader;
    size_t shared;
    uint64_t noted;           /* UINT64_MAX: it is absent */
    size_t in_pieces;         /* of the numbers, from the first on */
    bool leaving, early;
    uint64_t bad;             /* lines without JSON */
    bool unread;              /* its format was unknown */
    bool cut;                 /* it was damaged, so that a part of it was read */
} file_facts;

static const file_facts no_facts = {0, 0, 0, UINT64_MAX, 0, false, false, 0, false,
                                    false};

typedef struct state {
    uint64_t size, done, hash;
    int64_t changed;
    trace_known messages;
    uint64_t *leaving;        /* messages that are to be hidden: an stb_ds array */
    file_facts facts;
    bool known;
    bool early;               /* it ended early, or was damaged */
    bool impossible;          /* no file has such numbers */
} state;


/* ---- The facts of a file ----------------------------------------------------------- */

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

/* Sets *k to the piece that a member like "n12" is. */
static bool is_piece(ms_str key, char list, size_t n, size_t *k)
{
    uint64_t number;
    if (key.len < 4 || key.ptr[1] != list) return false;
    ms_str text = ms_str_n(key.ptr + 2, key.len - 3), rest = text;
    bool zero = ms_str_equal(text, MS_STR("0"));
    if (!zero && (!number_read(&rest, &number) || rest.len > 0)) return false;
    if (zero) number = 0;
    *k = (size_t)number;
    return number < n;
}

/* Adds n numbers, which the facts have in pieces; false: they have not. */
static bool read_pieces(ms_arena *arena, ms_str facts, char list, uint64_t n,
                        uint64_t **numbers)
{
    if (n > NUMBERS_MAX) return false;
    size_t k, n_pieces = ((size_t)n + PIECE - 1) / PIECE;
    ms_str *pieces = calloc(n_pieces + 1, sizeof *pieces);
    bool good = true;
    if (pieces == NULL) exit(no_memory());
    ms_json_iter it = ms_json_iterate(facts);
    while (ms_json_next(&it)) {
        if (is_piece(it.key, list, n_pieces, &k)) pieces[k] = it.value;
    }
    for (k = 0; k < n_pieces && good; k++) {
        size_t end = (size_t)n - k * PIECE < PIECE ? (size_t)n : (k + 1) * PIECE;
        good = numbers_read(numbers, text_of(arena, pieces[k]), PIECE) &&
               arrlenu(*numbers) >= end;
        if (good) arrsetlen(*numbers, end); /* of more messages, before they left */
    }
    free(pieces);
    return good;
}

static void free_state(state *st)
{
    arrfree(st->messages.numbers);
    arrfree(st->messages.dead);
    arrfree(st->messages.shared);
    arrfree(st->leaving);
    memset(st, 0, sizeof *st);
}

/* Reads the lists of numbers; false: they are impossible. */
static bool read_lists(state *st, ms_arena *arena, ms_str facts)
{
    static const json_key names[] = {KEY("messages"), KEY("taken_back"), KEY("leaving")};
    ms_str v[3];
    trace_known *m = &st->messages;
    pick(facts, names, 3, v);
    bool good = read_pieces(arena, facts, 'n', count_of(v[0]), &m->numbers) &&
                read_pieces(arena, facts, 'd', count_of(v[1]), &m->dead);
    st->facts.in_pieces = arrlenu(m->numbers);
    st->facts.messages = count_of(v[0]);
    st->facts.leaving = v[2].ptr != NULL;
    return good && numbers_read(&st->leaving, text_of(arena, v[2]), NUMBERS_MAX);
}

/* Reads what a log notes of a file. An error also if that may be damaged: a file that
 * counts as new would be stored twice. */
static ms_result read_state(syncing *s, ms_str name, state *st, ms_error *err)
{
    static const json_key names[] = {KEY("size"), KEY("changed"), KEY("done"),
                                     KEY("hash"), KEY("noted"), KEY("shared"),
                                     KEY("early"), KEY("reader"), KEY("bad"),
                                     KEY("unread"), KEY("cut")};
    ms_str facts, v[11];
    ms_arena arena = {0};
    memset(st, 0, sizeof *st);
    st->facts = no_facts;
    ms_result result = ms_location_get(s->in.store, name, &arena, &facts, err);
    if (result == MS_OK) {
        pick(facts, names, 11, v);
        st->known = v[0].ptr != NULL;
        st->size = count_of(v[0]);
        if (v[1].ptr != NULL) ms_json_i64(v[1], &st->changed);
        st->done = count_of(v[2]);
        st->hash = strtoull(v[3].ptr != NULL ? v[3].ptr + 1 : "0", NULL, 16);
        st->impossible = !read_lists(st, &arena, facts);
        size_t n = arrlenu(st->messages.numbers);
        uint64_t noted = count_of(v[4]);
        st->messages.noted = v[4].ptr != NULL && noted < n ? (size_t)noted : n;
        /* the count of the last noted one can have come in a later line */
        if (st->size == 0 && st->messages.noted > 0) st->messages.noted--;
        if (!numbers_read(&st->messages.shared, text_of(&arena, v[5]), NUMBERS_MAX)) {
            st->impossible = true;
        }
        st->facts.reader = count_of(v[7]);
        st->facts.noted = v[4].ptr != NULL ? noted : UINT64_MAX;
        st->facts.shared = arrlenu(st->messages.shared);
        st->early = st->facts.early = v[6].ptr != NULL;
        st->facts.bad = count_of(v[8]);
        st->facts.unread = v[9].ptr != NULL;
        st->facts.cut = v[10].ptr != NULL;
    }
    ms_arena_deinit(&arena);
    return result;
}

static int complain_of_state(const char *path, ms_result result, const ms_error *err)
{
    complain("%s: not read: what the log notes of it: %s", path, err->message);
    return exit_code(result);
}

/* Notes what is read of a file. */
typedef struct noting {
    syncing *s;
    ms_str name;
    const char *path;
    ms_str text;
    file_facts facts;
    bool own;                 /* the file has facts */
    bool begins;              /* they have the hash of its beginning */
    bool named;               /* its name leads to them */
    uint64_t *dead;           /* that its facts have in pieces: an stb_ds array */
    ms_arena arena;           /* of the facts that are written next */
    ms_buf buf;
} noting;

static void note_member(noting *n, const char *name, uint64_t value)
{
    char text[80];
    snprintf(text, sizeof text, "%s\"%s\":%" PRIu64, n->buf.len > 1 ? "," : "{", name,
             value);
    json_piece(&n->buf, text);
}

static void note_list(noting *n, const char *name, const uint64_t *numbers, size_t count)
{
    json_piece(&n->buf, n->buf.len > 1 ? ",\"" : "{\"");
    json_piece(&n->buf, name);
    json_piece(&n->buf, "\":\"");
    numbers_put(&n->buf, numbers, count);
    json_piece(&n->buf, "\"");
}

/* Notes the pieces from that of number `same` on. numbers: those from the first of it. */
static void note_pieces(noting *n, char list, size_t same, const uint64_t *numbers,
                        size_t count)
{
    for (size_t k = 0; k * PIECE < count; k++) {
        char name[32];
        size_t left = count - k * PIECE;
        snprintf(name, sizeof name, "%c%zu", list, same / PIECE + k);
        note_list(n, name, numbers + k * PIECE, left < PIECE ? left : PIECE);
    }
}

/* Notes the numbers of messages: those of the trace, and of a batch. */
static void note_numbers(noting *n, const trace *t, const trace_batch *b,
                         const uint64_t *seqs)
{
    size_t count, same = trace_same(t);
    const uint64_t *numbers = trace_numbers(t, &count);
    uint64_t *all = NULL;
    if (same > count) same = count;
    if (same > n->facts.in_pieces) same = n->facts.in_pieces;
    for (size_t i = 0; b->places != NULL && i < b->n; i++) {
        if (b->places[i] < same) same = b->places[i];
    }
    size_t from = same / PIECE * PIECE;
    for (size_t i = from; i < count; i++) arrput(all, numbers[i]);
    for (size_t i = 0; i < b->n; i++) {
        if (b->places == NULL) arrput(all, seqs[i]);
        else all[b->places[i] - from] = seqs[i];
    }
    count = from + arrlenu(all);
    if (same < count) note_pieces(n, 'n', same, all, arrlenu(all));
    if (count != n->facts.messages) note_member(n, "messages", count);
    arrfree(all);
}

static void note_dead(noting *n, const trace *t)
{
    size_t count, same = 0, before = arrlenu(n->dead);
    const uint64_t *dead = trace_dead(t, &count);
    while (same < count && same < before && dead[same] == n->dead[same]) same++;
    if (same == count && count == before) return;
    size_t from = same / PIECE * PIECE;
    if (same < count) note_pieces(n, 'd', same, dead + from, count - from);
    note_member(n, "taken_back", count);
}

/* Makes the facts of how a trace stands with a batch, whose numbers are seqs. */
static void note_trace(noting *n, const trace *t, const trace_batch *b,
                       const uint64_t *seqs)
{
    size_t n_leaving, n_shared;
    const uint64_t *leaving = trace_leaving(t, &n_leaving);
    const uint64_t *shared = trace_shared(t, &n_shared);
    note_numbers(n, t, b, seqs);
    note_dead(n, t);
    if (trace_noted(t) != n->facts.noted) note_member(n, "noted", trace_noted(t));
    if (n_shared != n->facts.shared) note_list(n, "shared", shared, n_shared);
    if (n->facts.reader != READER) note_member(n, "reader", READER);
    if (n_leaving > 0 || n->facts.leaving) note_list(n, "leaving", leaving, n_leaving);
}

static void note_begin(noting *n)
{
    ms_arena_reset(&n->arena);
    memset(&n->buf, 0, sizeof n->buf);
    n->buf.arena = &n->arena;
}

static ms_str note_end(noting *n)
{
    json_piece(&n->buf, "}");
    return ms_buf_text(&n->buf);
}

/* Remembers what was written. */
static void note_done(noting *n, const trace *t, const trace_batch *b)
{
    size_t count, n_dead, n_leaving;
    const uint64_t *dead = trace_dead(t, &n_dead);
    trace_numbers(t, &count);
    trace_leaving(t, &n_leaving);
    n->facts.in_pieces = n->facts.messages = b->places == NULL ? count + b->n : count;
    n->facts.noted = trace_noted(t);
    n->facts.reader = READER;
    trace_shared(t, &n->facts.shared);
    arrsetlen(n->dead, n_dead);
    if (n_dead > 0) memcpy(n->dead, dead, n_dead * sizeof *dead);
    n->facts.leaving = n_leaving > 0;
    n->own = n->begins = true;
}

/* Notes how many bytes were read, and their hash (SY2). */
static void note_done_bytes(noting *n, uint64_t done)
{
    char hash[40];
    note_member(n, "done", done);
    snprintf(hash, sizeof hash, ",\"hash\":\"%016" PRIx64 "\"",
             hash_bytes(ms_str_n(n->text.ptr, (size_t)done)));
    json_piece(&n->buf, hash);
}

/* early: the file ended early, or was damaged. now: its bad, unread and cut, which each
 * record has, so that the newest alone answers (SY1). */
static int write_state(noting *n, const unit *u, const trace *t, uint64_t done,
                       bool early, const file_facts *now)
{
    ms_error err;
    char changed[40];
    const trace_batch none = {NULL, 0, NULL, NULL};
    note_begin(n);
    note_member(n, "size", u->size);
    snprintf(changed, sizeof changed, ",\"changed\":%" PRId64, u->changed);
    json_piece(&n->buf, changed);
    note_done_bytes(n, done);
    if (early != n->facts.early) {
        json_piece(&n->buf, early ? ",\"early\":true" : ",\"early\":null");
    }
    if (now->bad > 0) note_member(n, "bad", now->bad);
    else if (n->facts.bad > 0) json_piece(&n->buf, ",\"bad\":null");
    if (now->unread) json_piece(&n->buf, ",\"unread\":true");
    else if (n->facts.unread) json_piece(&n->buf, ",\"unread\":null");
    if (now->cut) json_piece(&n->buf, ",\"cut\":true");
    else if (n->facts.cut) json_piece(&n->buf, ",\"cut\":null");
    if (t != NULL) note_trace(n, t, &none, NULL);
    ms_result result = ms_location_set(n->s->in.store, n->name, note_end(n), &err);
    if (result != MS_OK) return complain_of("noting what was read", result, &err);
    return FINE;
}


/* ---- Messages and facts in one append ---------------------------------------------- */

/* Checks a message, and makes a record of it. */
static ms_result record_of(const ms_envelope *m, uint64_t seq, ms_arena *arena,
                           ms_record *record, ms_error *err)
{
    const ms_msg *msg;
    ms_arena_reset(arena);
    memset(record, 0, sizeof *record);
    if (m->location.len == 0) {
        return ms_error_set(err, MS_E_ARGUMENT, "the message has no location");
    }
    ms_result result = ms_encode(m, arena, &msg, err);
    if (result != MS_OK) return result;
    record->kind = MS_KIND_MESSAGE;
    record->keep_unset_time = true;
    record->envelope = *m;
    record->envelope.seq = seq;
    record->envelope.flags = ms_flags(msg);
    return MS_OK;
}

/* Appends the batch with numbers from `first` on, and the facts that name them. */
static ms_result put_from(noting *n, const trace *t, const trace_batch *b,
                          ms_record *records, uint64_t *seqs, uint64_t first,
                          ms_error *err)
{
    ms_arena arena = {0};
    ms_append_opts opts = {0};
    ms_str anywhere = {NULL, 0};
    ms_store *store = n->s->in.store;
    ms_result result = MS_OK;
    for (size_t i = 0; i < b->n && result == MS_OK; i++) {
        result = record_of(&b->items[i], first + i, &arena, &records[i], err);
        seqs[i] = first + i;
    }
    ms_arena_deinit(&arena);
    if (result != MS_OK) return result;
    note_begin(n);
    note_member(n, "size", 0); /* so that the file is read again, and compared */
    if (!n->begins) note_done_bytes(n, n->text.len);
    note_trace(n, t, b, seqs);
    ms_record *facts = &records[b->n];
    memset(facts, 0, sizeof *facts);
    facts->kind = MS_KIND_LOCATION;
    facts->envelope.location = n->name;
    facts->envelope.content = ms_json(note_end(n));
    memset(seqs, 0, (b->n + 1) * sizeof *seqs);
    opts.keep_seq = true;
    opts.seqs = seqs;
    return store->backend->change(store, anywhere, records, b->n + 1, &opts, err);
}

/* Returns whether another writer has taken the first number meanwhile. */
static bool is_outrun(ms_result result, const ms_error *err)
{
    return result == MS_E_ARGUMENT && strcmp(err->path, "messages[0].seq") == 0;
}

/* Notes the numbers once more, if keys gave the messages others than were foreseen. */
static ms_result note_again(noting *n, const trace *t, const trace_batch *b,
                            const uint64_t *seqs, uint64_t first, ms_error *err)
{
    size_t i = 0;
    while (i < b->n && seqs[i] == first + i) i++;
    if (i == b->n) return MS_OK;
    note_begin(n);
    note_trace(n, t, b, seqs);
    return ms_location_set(n->s->in.store, n->name, note_end(n), err);
}

/* Notes which messages are hidden next, so that they are stored again when they come
 * back (ID2). */
static ms_result note_hidden(noting *n, const trace *t, ms_error *err)
{
    size_t n_leaving, n_dead, same = 0;
    const uint64_t *leaving = trace_leaving(t, &n_leaving);
    const uint64_t *dead = trace_dead(t, &n_dead);
    ms_store *store = n->s->in.store;
    ms_result result = identity_note_hidden(store, true, leaving, n_leaving, err);
    while (same < n_dead && same < arrlenu(n->dead) && dead[same] == n->dead[same]) {
        same++;
    }
    if (result != MS_OK || same == n_dead) return result;
    return identity_note_hidden(store, false, dead + same, n_dead - same, err);
}

static ms_result put_all(noting *n, const trace *t, const trace_batch *b, ms_error *err)
{
    ms_stat stat;
    uint64_t first = 0;
    ms_result result = note_hidden(n, t, err);
    if (result != MS_OK) return result;
    ms_record *records = malloc((b->n + 1) * sizeof *records);
    uint64_t *seqs = calloc(b->n + 1, sizeof *seqs);
    if (records == NULL || seqs == NULL) exit(no_memory());
    do {
        result = ms_store_stat(n->s->in.store, &stat, err);
        if (result == MS_E_DAMAGED) result = MS_OK; /* numbers are counted all the same */
        if (result != MS_OK) break;
        first = (stat.last_seq > stat.given_seq ? stat.last_seq : stat.given_seq) + 1;
        result = put_from(n, t, b, records, seqs, first, err);
    } while (is_outrun(result, err));
    bool stored = result == MS_OK || result == MS_E_POISONED;
    if (stored && b->n > 0) memcpy(b->seqs, seqs, b->n * sizeof *seqs);
    if (result == MS_OK) result = note_again(n, t, b, seqs, first, err);
    if (stored) note_done(n, t, b);
    free(records);
    free(seqs);
    return result;
}

/* Has the name of a file lead to its facts. */
static ms_result note_name(noting *n, ms_error *err)
{
    char name[MS_KEY_MAX + 1], stem[MS_KEY_MAX + 1];
    ms_arena arena = {0};
    ms_buf buf = {&arena, NULL, 0, 0};
    ms_str facts, text = stem_text(n->path);
    snprintf(stem, sizeof stem, "%.*s", (int)text.len, text.ptr);
    ms_str key = state_name("name", stem, false, name);
    ms_result result = ms_location_get(n->s->in.store, key, &arena, &facts, err);
    bool leads = result == MS_OK &&
                 ms_str_equal(text_of(&arena, member(facts, "path")), n->name);
    if (result == MS_OK && !leads) {
        json_piece(&buf, "{\"path\":");
        json_quoted(&buf, n->name);
        json_piece(&buf, "}");
        result = ms_location_set(n->s->in.store, key, ms_buf_text(&buf), err);
    }
    ms_arena_deinit(&arena);
    return result;
}

/* Stores a batch, and notes it (SY6). Before the first one of a file its name leads to
 * facts that have all that the name led to before (SY4). */
static ms_result put_batch(void *ctx, const trace *t, const trace_batch *b, ms_error *err)
{
    noting *n = ctx;
    const trace_batch none = {NULL, 0, NULL, NULL};
    bool first = b->n > 0 && !n->named;
    ms_result result = MS_OK;
    if (first && !n->own) result = put_all(n, t, &none, err);
    if (first && result == MS_OK) result = note_name(n, err);
    n->named = n->named || (first && result == MS_OK);
    return result == MS_OK ? put_all(n, t, b, err) : result;
}

/* Hides what a sync was about to hide that ended early. */
static int hide_leaving(syncing *s, const state *st)
{
    ms_error err;
    for (size_t i = 0; i < arrlenu(st->leaving); i++) {
        ms_result result = ms_hide(s->in.store, st->leaving[i], &err);
        if (result == MS_OK) s->in.counts->hidden++;
        else if (result != MS_E_HIDDEN && result != MS_E_NOT_FOUND) {
            return complain_of("hiding a message", result, &err);
        }
    }
    return FINE;
}


/* ---- Files that moved, and copies -------------------------------------------------- */

/* Returns whether a text begins with the bytes that were read. */
static bool has_begun(const state *st, ms_str text)
{
    return st->done > 0 && st->done <= text.len &&
           hash_bytes(ms_str_n(text.ptr, (size_t)st->done)) == st->hash;
}

/* Finds the state of a file of the same name in another folder, which began as this one
 * does. If that file is still there, this one is a copy: of files of messages it shares
 * them; those of a transcript are found by their identity. */
static ms_result find_moved(syncing *s, const char *path, ms_str text, bool messages,
                            state *st, ms_error *err)
{
    bool copy = false;
    ms_result result = MS_OK;
    char name[MS_KEY_MAX + 1], old[MS_KEY_MAX + 1];
    ms_arena arena = {0};
    ms_str facts, stem = stem_text(path), path_of = {NULL, 0};
    snprintf(old, sizeof old, "%.*s", (int)stem.len, stem.ptr);
    for (unsigned other = 0; other < 2 && path_of.ptr == NULL; other++) {
        ms_str key = state_name("name", old, other > 0, name);
        result = ms_location_get(s->in.store, key, &arena, &facts, err);
        if (result != MS_OK) break;
        path_of = member(facts, "path");
    }
    if (path_of.ptr != NULL) {
        ms_str from = text_of(&arena, path_of);
        if (from.len > 0 && from.len <= MS_KEY_MAX) {
            snprintf(old, sizeof old, "%.*s", (int)from.len, from.ptr);
            result = read_state(s, ms_str_of(old), st, err);
            size_t skip = strlen("file:"); /* a hash in place of a path counts as gone */
            copy = from.len > skip && is_there(old + skip);
            for (size_t i = 0; copy && i < arrlenu(st->messages.numbers); i++) {
                arrput(st->messages.shared, st->messages.numbers[i]);
            }
            if (copy) arrfree(st->messages.dead); /* in its tree */
            if (copy) arrfree(st->leaving);
        }
    }
    ms_arena_deinit(&arena);
    bool same = st->known && !st->impossible && has_begun(st, text) &&
                (messages || !copy);
    if (!same) free_state(st);
    st->facts = no_facts;
    return result;
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
        if (get_shown(c->store, seq, &arena, &msg, NULL) != MS_OK) continue;
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

/* known: so many first bytes were read before. */
static int sync_messages(syncing *s, const unit *u, const state *st, uint64_t known,
                         trace **out)
{
    trace_desc desc;
    chat_sink c;
    rescue *damage = s->in.rescue;
    rescue were;
    memset(&were, 0, sizeof were);
    if (damage != NULL) were = *damage;
    if (damage != NULL) damage->known = known;
    memset(&desc, 0, sizeof desc);
    memset(&c, 0, sizeof c);
    desc.store = s->in.store;
    desc.options = s->in.options;
    desc.counts = s->in.counts;
    desc.format = "messages";
    desc.path = u->path;
    desc.known = st->messages;
    desc.put = s->in.put;
    desc.ctx = s->in.ctx;
    c.agent = ends_with(u->path, ".traj") ? "swe-agent" : "chat";
    c.t = trace_begin(&desc);
    c.store = s->in.store;
    note_own(&c, st);
    sink to = {chat_take, &c, true, true, false, s->in.rescue, chat_answered, NULL,
               chat_is_taken};
    int code = read_input(s->in.options, u->path, NULL, 0, &to);
    if (damage != NULL) {
        s->in.counts->bad_lines += damage->lines - were.lines;
        s->in.counts->bad_before += damage->lines_before - were.lines_before;
        s->in.counts->repaired += damage->repaired - were.repaired;
        damage->known = 0;
    }
    tally_free(&c.own);
    if (!is_read(code)) trace_fail(c.t, code);
    int ended = trace_end(c.t);
    *out = c.t;
    s->in.counts->files++;
    s->in.counts->bytes += u->size;
    return ended != FINE ? ended : code;
}


/* ---- One file, and all of a folder ------------------------------------------------- */

static void print_progress(syncing *s)
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

static void add_path(char ***paths, const char *path)
{
    char *copy = copy_chars(path, strlen(path));
    if (copy == NULL) exit(no_memory());
    arrput(*paths, copy);
}

enum { UNIT_NAME = 1200 };

/* Names a file, or a session of a database. */
static void name_unit(const unit *u, char out[UNIT_NAME])
{
    bool one = u->session != NULL;
    snprintf(out, UNIT_NAME, "%.1000s%s%.100s", u->path, one ? "#" : "",
             one ? u->session : "");
}

/* Counts a file of an unknown format, and names it. With --strict it is an error. */
static int note_unread(syncing *s, const unit *u, ms_str text)
{
    char name[UNIT_NAME], seen[300], line[2 * UNIT_NAME + 4];
    int code = GIVEN(s->in.options, REFUSE) ? FAILED : FINE;
    if (s->ignored++ >= UNREAD_MAX) return code;
    bool log = text_begins(text, MS_STR("\x89MSL\r\n\x1a\n"));
    const char *what = is_zip(text) ? "a ZIP" : log ? "a log of msgstore" : seen;
    if (u->session != NULL) what = "no reader knows its rows";
    if (u->lost != NULL) what = text.ptr;
    if (what == seen) describe_unknown(text, seen, sizeof seen);
    name_unit(u, name);
    snprintf(line, sizeof line, "%s: %.1200s", name, what);
    add_path(&s->unread, line);
    return code;
}

void sync_complain_of_unread(const syncing *s)
{
    size_t n = arrlenu(s->unread);
    for (size_t i = 0; i < n; i++) complain("not read: %s", s->unread[i]);
    if (s->ignored > n) complain("not read: ... and %" PRIu64 " more", s->ignored - n);
}

/* Counts a file of an unknown format that an earlier sync has named. */
static void note_unread_before(syncing *s, const unit *u)
{
    char name[UNIT_NAME];
    s->ignored_before++;
    name_unit(u, name);
    bool named = s->in.options->full || GIVEN(s->in.options, JSON);
    if (named) add_path(&s->unread_before, name);
}

/* Counts what an earlier sync could not read of a file that is as it was. */
static void note_unchanged(syncing *s, const unit *u, const file_facts *facts)
{
    s->bad_before += facts->bad;
    s->cut_before += facts->cut;
    s->unchanged += !facts->unread && u->lost == NULL;
    if (facts->unread) note_unread_before(s, u);
}

/* Counts a file of an unknown format that has changed: it is named the first time, and
 * each time with --strict. */
static int count_unread(syncing *s, const unit *u, ms_str text, const file_facts *facts)
{
    if (!facts->unread || GIVEN(s->in.options, REFUSE)) return note_unread(s, u, text);
    note_unread_before(s, u);
    return FINE;
}

static void free_noting(noting *n)
{
    ms_arena_deinit(&n->arena);
    arrfree(n->dead);
}

static int sync_loaded(syncing *s, const unit *u, ms_str name, state *st, int loaded)
{
    trace *t = NULL;
    int code = FINE;
    ms_str text = s->text.text;
    noting n;
    uint64_t done = text.len, before = s->in.counts->messages - s->in.counts->known;
    uint64_t bad = s->in.counts->bad_lines + s->in.counts->bad_before;
    uint64_t ignored = s->ignored + s->ignored_before;
    file_facts now = no_facts;
    bool zip = is_zip(text);
    memset(&n, 0, sizeof n);
    n.s = s;
    n.name = name;
    n.path = u->path;
    n.text = text;
    n.own = st->known;
    s->in.put = put_batch;
    s->in.ctx = &n;
    s->in.stored = &s->stored;
    const fileformat *f = zip ? NULL : format_of(text, true);
    ms_error err;
    bool messages = !zip && f == NULL;
    bool single = u->session != NULL || u->lost != NULL;
    n.named = single; /* a database's name leads to no single session */
    ms_result found = MS_OK;
    if (!n.own && !n.named) found = find_moved(s, u->path, text, messages, st, &err);
    if (found != MS_OK) return complain_of_state(u->path, found, &err);
    code = hide_leaving(s, st);
    bool begins = has_begun(st, text), lines = f != NULL && f->shape == FILE_LINES;
    n.begins = n.own && begins;
    n.facts = st->facts;
    for (size_t i = 0; n.own && i < arrlenu(st->messages.dead); i++) {
        arrput(n.dead, st->messages.dead[i]);
    }
    if (code != FINE) {
        /* nothing is read */
    } else if (zip && !ends_with(u->path, ".eval")) {
        code = count_unread(s, u, text, &st->facts);
    } else if (zip || f != NULL) {
        /* what a sync that ended early has read is compared */
        bool ours = st->size > 0 && st->facts.reader == READER;
        if (s->in.whole && st->early) ours = false;
        uint64_t same = begins && lines && ours ? st->done : 0;
        code = take_transcript(&s->in, f, text, u->path, &st->messages, same, &t,
                               &done);
    } else if (single && text.len > 0) { /* its file is read as no text */
        code = count_unread(s, u, text, &st->facts);
    } else if (past_shows(text)) {
        add_path(&s->past, u->path);
        free_noting(&n);
        return FINE;
    } else if (foreign_of(text) == NULL && shows_messages(text)) {
        /* a sync that ended early (size 0) may not have named all damage */
        bool known = begins && st->size > 0 && !s->in.whole;
        code = sync_messages(s, u, st, known ? st->done : 0, &t);
    } else if (text.len == 0) {
        s->empty += loaded != DAMAGED && u->lost == NULL;
    } else {
        code = count_unread(s, u, text, &st->facts);
    }
    now.bad = s->in.counts->bad_lines + s->in.counts->bad_before - bad;
    now.unread = s->ignored + s->ignored_before > ignored;
    now.cut = loaded == DAMAGED || (code == DAMAGED && now.bad == 0);
    s->cut += now.cut;
    bool kept = code == FINE || code == DAMAGED;
    bool added = s->in.counts->messages - s->in.counts->known > before;
    bool early = loaded == DAMAGED || code == DAMAGED || done < text.len ||
                 now.bad > 0;
    int written = FINE;
    if (kept) written = write_state(&n, u, t, done, early, &now);
    if (kept && added) s->in.counts->sessions++;
    trace_free(t);
    free_noting(&n);
    return written != FINE ? written : code;
}

/* Loads and reads a file. */
static int sync_changed(syncing *s, const unit *u, ms_str name, state *st)
{
    if (st->impossible) {
        complain("%s: not read: the log has impossible facts of it, in \"%.*s\"", u->path,
                 (int)name.len, name.ptr);
        return FAILED;
    }
    int code = unit_load(u, &s->text);
    if (!is_read(code)) return code;
    int put = sync_loaded(s, u, name, st, code);
    return put != FINE ? put : code;
}

/* Returns whether the newest record of what the log notes of a file has its present size
 * and time (SY1). The older ones, one or two for each time that it had grown, are not
 * read then: a folder has many files that stay as they are. Beside damage all are read,
 * since one of them may be gone. */
static bool is_as_noted(const syncing *s, ms_str name, const unit *u, file_facts *facts)
{
    static const json_key names[] = {KEY("size"), KEY("changed"), KEY("bad"),
                                     KEY("unread"), KEY("cut")};
    ms_cursor it;
    ms_query q = {0};
    ms_stat stat;
    ms_str v[5];
    int64_t changed = 0;
    bool same = false;
    if (u->size == 0 || s->in.whole) return false; /* the rest of the state matters */
    if (ms_store_stat(s->in.store, &stat, NULL) != MS_OK) return false;
    if (stat.damaged > 0) return false;
    q.location = name;
    q.raw = MS_RAW_LOCATIONS;
    q.limit = 1;
    ms_query_open(s->in.store, &q, &it, NULL);
    const ms_msg *msg = ms_next(&it);
    if (msg != NULL) {
        pick(ms_content(msg).text, names, 5, v);
        facts->bad = count_of(v[2]);
        facts->unread = is_kind(v[3], MS_JSON_TRUE);
        facts->cut = is_kind(v[4], MS_JSON_TRUE);
        same = v[0].ptr != NULL && count_of(v[0]) == u->size && v[1].ptr != NULL &&
               ms_json_i64(v[1], &changed) == MS_OK && changed == u->changed;
    }
    return ms_cursor_close(&it, NULL) == MS_OK && same;
}

/* Returns "PATH#SESSION" in place of a path, which it frees. */
static char *session_path(char *path, const char *session)
{
    size_t size = strlen(path) + strlen(session) + 2;
    char *both = malloc(size);
    if (both == NULL) exit(no_memory());
    snprintf(both, size, "%s#%s", path, session);
    free(path);
    return both;
}

/* Returns the unit of a database's rows of no session. */
static unit unit_of_lost(const char *path, const database_session *rows)
{
    unit u = {copy_chars(path, strlen(path)), NULL, false, rows->rows, rows->changed,
              NULL, calloc(1, sizeof *u.lost)};
    if (u.path == NULL || u.lost == NULL) exit(no_memory());
    u.lost->what = "of no session";
    u.lost->rows = rows->rows;
    return u;
}

/* Takes a database apart into its sessions: one that grows moves no other one. */
static unit *units_apart(unit *units)
{
    unit *all = NULL;
    for (size_t i = 0; i < arrlenu(units); i++) {
        bool base = is_database_name(units[i].path);
        database_session lost, *sessions = NULL;
        if (base) sessions = database_sessions(units[i].path, &lost);
        for (size_t k = 0; k < arrlenu(sessions); k++) {
            unit one = {copy_chars(units[i].path, strlen(units[i].path)), NULL, false,
                        sessions[k].rows, sessions[k].changed, sessions[k].id, NULL};
            if (one.path == NULL) exit(no_memory());
            arrput(all, one);
        }
        if (arrlenu(sessions) == 0) {
            arrput(all, units[i]);
        } else {
            if (lost.rows > 0) arrput(all, unit_of_lost(units[i].path, &lost));
            free(units[i].path);
            free(units[i].root);
        }
        arrfree(sessions);
    }
    arrfree(units);
    return all;
}

/* Returns a path without links; NULL if there is no such file. The files of a folder
 * cost one call of the system each, not one for each part of the path. */
static char *path_without_links(syncing *s, const char *path)
{
#ifndef _WIN32
    char target[2];
    const char *name = path_name(path);
    size_t len = (size_t)(name - path);
    bool plain = len > 0 && name[0] != '\0' && name[0] != '.' &&
                 readlink(path, target, sizeof target) < 0 && errno == EINVAL;
    bool same = plain && s->folder != NULL && strlen(s->folder) == len &&
                memcmp(s->folder, path, len) == 0;
    if (plain && !same) {
        free(s->folder);
        free(s->real);
        s->folder = copy_chars(path, len);
        if (s->folder == NULL) exit(no_memory());
        s->real = realpath(s->folder, NULL);
    }
    if (plain && s->real != NULL) return path_join(s->real, name);
#endif
    return realpath(path, NULL);
}

/* Returns whether --strict refuses a file for what an earlier sync has noted of it. */
static bool is_refused(const syncing *s, const file_facts *facts)
{
    return GIVEN(s->in.options, REFUSE) &&
           (facts->bad > 0 || facts->unread || facts->cut);
}

int sync_unit(syncing *s, const unit *u)
{
    state st;
    char text[MS_KEY_MAX + 1], *real = path_without_links(s, u->path);
    const char *part = u->lost != NULL ? u->lost->what : u->session;
    if (part != NULL && real != NULL) real = session_path(real, part);
    const char *path = real != NULL ? real : u->path;
    if (s->log != NULL && strcmp(path, s->log) == 0) {
        free(real);
        s->done++;
        return FINE;
    }
    ms_str name = state_name("file", path, false, text);
    ms_error err;
    memset(&st, 0, sizeof st);
    bool same = is_as_noted(s, name, u, &st.facts) && !is_refused(s, &st.facts);
    ms_result result = same ? MS_OK : read_state(s, name, &st, &err);
    if (result == MS_OK && !same && !st.known) {
        free_state(&st);
        name = state_name("file", path, true, text);
        result = read_state(s, name, &st, &err);
        if (!st.known) name = state_name("file", path, false, text);
    }
    int code = FINE;
    same = same || (st.known && st.size == u->size && st.changed == u->changed);
    if ((st.early && s->in.whole) || is_refused(s, &st.facts)) same = false;
    if (result != MS_OK) code = complain_of_state(u->path, result, &err);
    else if (same) note_unchanged(s, u, &st.facts); /* (SY1) */
    else code = sync_changed(s, u, name, &st);
    free_state(&st);
    free(real);
    s->done++;
    s->bytes += u->size;
    print_progress(s);
    return code;
}

int sync_path(syncing *s, const char *path)
{
    int worst = FINE;
    if (!is_there(path)) {
        complain("%s: no such file or folder", path);
        return NOT_FOUND;
    }
    unit *units = units_apart(units_of(path, &s->others));
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
    if (s->stored.unread && worst == FINE) worst = DAMAGED;
    return worst;
}

int sync_past(syncing *s)
{
    int worst = FINE;
    for (size_t i = 0; i < arrlenu(s->past); i++) {
        int code = past_take(s->in.store, s->past[i], &s->prompts);
        if (code != FINE && (worst == FINE || worst == DAMAGED)) worst = code;
    }
    return worst;
}

void sync_free(syncing *s)
{
    paths_free(s->past);
    s->past = NULL;
    tally_free(&s->programs);
    free(s->folder);
    free(s->real);
    s->folder = s->real = NULL;
    file_free(&s->text);
    identities_free(&s->stored);
    paths_free(s->unread);
    paths_free(s->unread_before);
    free(s->log);
    s->unread = s->unread_before = NULL;
    s->log = NULL;
}

bool is_transcript(const char *path)
{
    file_text f = {{NULL, 0}, NULL, 0, NULL, 0, false, 0};
    if (strcmp(path, "-") == 0 || is_pipe(path)) return false;
    if (is_folder(path)) return true;
    bool found = is_read(file_load(&f, path)) && f.plain &&
                 (is_zip(f.text) || is_database(f.text) ||
                  format_of(f.text, true) != NULL);
    file_free(&f);
    return found;
}
