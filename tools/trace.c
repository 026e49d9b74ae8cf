/* See trace.h. */

#define _GNU_SOURCE
#include "trace.h"
#include "secrets.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH_MESSAGES = 512, BATCH_BYTES = 1 << 20, FACT_MAX = 400 };

#define NO_NODE UINT32_MAX

typedef struct node {
    uint64_t id, text;        /* hashes */
    uint32_t parent;          /* index, or NO_NODE */
    uint32_t first, count;    /* messages */
    uint32_t marks;
} node;

typedef struct index_of {
    uint64_t key;
    uint32_t value;
} index_of;

/* Usage that belongs to a message. */
typedef struct cost_note {
    ms_str json;
    uint32_t message;
    bool fresh;
    bool late;                /* a total came after it: it may be noted again */
} cost_note;

typedef struct fact {
    const char *name;
    ms_str text;
} fact;

struct trace {
    trace_desc desc;
    int code;
    uint64_t offset, line;
    ms_arena batch;           /* texts of the staged messages */
    ms_arena kept;            /* memory that lasts as long as the trace */
    ms_str location;
    ms_envelope *staged;      /* this and the next ones: stb_ds arrays and maps */
    uint64_t *numbers;        /* sequence number of each message */
    node *nodes;
    index_of *ids;            /* hash of an id -> node */
    index_of *answers;        /* hash of an answer -> cost */
    index_of *lines;          /* hashes of lines: a set */
    cost_note *costs;
    fact *facts;
    index_of *was_dead;       /* the numbers in desc.known.dead: a set */
    uint64_t *others;         /* numbers of messages that other files stored */
    index_of *shared;         /* the same: a set */
    index_of *left;           /* numbers that the file had, and has no more: a set */
    index_of *agents;         /* hashes of the session's agents: a set */
    uint64_t *revivable;      /* shared ones that a sync hid: an stb_ds array */
    identity_walk walk;
    index_of *alone;          /* hashes of locations that were empty before this file */
    uint32_t session_first;   /* the first message of the session */
    bool shares;              /* the session has messages of other files */
    bool renews;              /* it stores again what another file stored */
    uint64_t *dead;           /* numbers of hidden messages of dead entries */
    uint64_t *leaving;        /* numbers of messages that are hidden next */
    uint32_t again;           /* the first message that revive stored again */
    bool buried;              /* `dead` is complete */
    size_t n_known;           /* known messages that the file has not contradicted */
    size_t n_begun;           /* known messages at the beginning */
    size_t same;              /* numbers that are as they were when `put` was called */
    size_t bytes;             /* of the staged messages */
    size_t session_node;      /* the first node of the current session */
    uint64_t last_answer;
    double last_time;         /* of the last message; 0 if it has none */
    bool entry_timed;         /* a message of the entry has a time, */
    int64_t entry_ns;         /* the last one this */
    ms_str last_tool;         /* that the last message calls; in `kept` */
    uint32_t first_prompt;    /* of the session: its message, plus one; 0: none yet */
    bool diverged;            /* known messages differ from those of the file */
};

ms_arena *trace_arena(trace *t)
{
    return &t->batch;
}

ms_str trace_text(trace *t, ms_str value)
{
    return text_of(&t->batch, value);
}

int trace_code(const trace *t)
{
    return t->code;
}

void trace_fail(trace *t, int code)
{
    if (t->code == FINE) t->code = code;
}

void trace_at(trace *t, uint64_t offset, uint64_t line)
{
    t->offset = offset;
    t->line = line;
}

const uint64_t *trace_numbers(const trace *t, size_t *n)
{
    *n = arrlenu(t->numbers);
    return t->numbers;
}

ms_str trace_location(const trace *t)
{
    return t->location;
}

size_t trace_same(const trace *t)
{
    return t->same;
}

size_t trace_noted(const trace *t)
{
    return t->desc.known.noted;
}

const uint64_t *trace_shared(const trace *t, size_t *n)
{
    *n = arrlenu(t->others);
    return t->others;
}

static bool is_shared(const trace *t, uint64_t seq)
{
    index_of *shared = t->shared;
    return shared != NULL && hmgetp_null(shared, seq) != NULL;
}

const uint64_t *trace_dead(const trace *t, size_t *n)
{
    uint64_t *dead = t->buried ? t->dead : t->desc.known.dead;
    *n = arrlenu(dead);
    return dead;
}

const uint64_t *trace_leaving(const trace *t, size_t *n)
{
    *n = arrlenu(t->leaving);
    return t->leaving;
}

trace *trace_begin(const trace_desc *desc)
{
    trace *t = calloc(1, sizeof *t);
    if (t == NULL) exit(no_memory());
    t->desc = *desc;
    t->n_known = t->n_begun = t->same = arrlenu(desc->known.numbers);
    t->again = UINT32_MAX;
    for (size_t i = 0; i < arrlenu(desc->known.dead); i++) {
        hmput(t->was_dead, desc->known.dead[i], 1);
    }
    for (size_t i = 0; i < arrlenu(desc->known.shared); i++) {
        hmput(t->shared, desc->known.shared[i], 1);
        arrput(t->others, desc->known.shared[i]);
    }
    t->shares = arrlenu(t->others) > 0;
    return t;
}

void trace_free(trace *t)
{
    if (t == NULL) return;
    ms_arena_deinit(&t->batch);
    ms_arena_deinit(&t->kept);
    arrfree(t->staged);
    arrfree(t->numbers);
    arrfree(t->nodes);
    arrfree(t->costs);
    arrfree(t->facts);
    arrfree(t->dead);
    arrfree(t->leaving);
    arrfree(t->others);
    arrfree(t->revivable);
    hmfree(t->was_dead);
    hmfree(t->shared);
    hmfree(t->left);
    hmfree(t->agents);
    hmfree(t->alone);
    identity_walk_free(&t->walk);
    hmfree(t->ids);
    hmfree(t->answers);
    hmfree(t->lines);
    free(t);
}

static void fail_with(trace *t, const char *what, ms_result result, const ms_error *err)
{
    if (t->code == FINE) t->code = complain_of(what, result, err);
}

static const char *path_shown(const trace *t)
{
    return strcmp(t->desc.path, "-") == 0 ? "standard input" : t->desc.path;
}

static void settle(trace *t);
static void write_facts(trace *t);


/* ---- Storing messages -------------------------------------------------------------- */

static bool same_value(ms_value a, ms_value b)
{
    return a.json == b.json && (a.text.ptr != NULL) == (b.text.ptr != NULL) &&
           ms_str_equal(a.text, b.text);
}

static bool same_text(ms_str a, ms_str b)
{
    return (a.ptr != NULL) == (b.ptr != NULL) && ms_str_equal(a, b);
}

static bool same_message(const ms_envelope *a, const ms_envelope *b)
{
    return a->type == b->type && same_value(a->content, b->content) &&
           same_text(a->tool, b->tool) && same_value(a->args, b->args) &&
           same_text(a->call_id, b->call_id) && same_text(a->id, b->id) &&
           same_text(a->extra, b->extra);
}

/* Returns whether a message was redacted. Of a hidden message only the text shows it. */
static bool is_redacted(trace *t, const ms_msg *msg)
{
    const ms_msg *shown;
    uint32_t flags = ms_flags(msg);
    if (get_shown(t->desc.store, ms_seq(msg), &t->kept, &shown, NULL) == MS_OK) {
        flags |= ms_flags(shown);
    }
    return (flags & MS_FLAG_REDACTED) != 0 ||
           text_begins(ms_content(msg).text, MS_STR("[redacted]"));
}

/* Returns the message of that number as it was appended, hidden or not; NULL if absent.
 * It is valid until the caller closes the cursor. */
static const ms_msg *find_raw(trace *t, uint64_t seq, ms_cursor *it)
{
    ms_query q = {0};
    q.raw = MS_RAW_MESSAGES;
    q.after_seq = seq - 1;
    q.before_seq = seq + 1;
    if (ms_query_open(t->desc.store, &q, it, NULL) != MS_OK) return NULL;
    const ms_msg *msg = ms_next(it);
    return msg != NULL && ms_seq(msg) == seq ? msg : NULL;
}

/* Returns whether a stored message equals one of a file but for masked secrets. */
static bool is_masked(const ms_envelope *stored, const ms_envelope *m)
{
    static const unsigned classes[] = {SECRETS_KEYS, SECRETS_PERSONAL};
    ms_arena arena = {0};
    bool same = false;
    for (size_t i = 0; i < COUNT_OF(classes) && !same; i++) {
        ms_envelope masked = *m;
        if (!secrets_mask_message(&masked, classes[i], &arena, NULL, NULL)) {
            exit(no_memory());
        }
        same = same_message(stored, &masked);
    }
    ms_arena_deinit(&arena);
    return same;
}

/* Returns whether the stored message of that number equals the one in the file, also
 * with masked secrets. A redacted or absent one counts as equal, since it must not be
 * stored again. */
static bool is_stored(trace *t, uint64_t seq, const ms_envelope *m)
{
    ms_cursor it;
    bool same = true;
    const ms_msg *msg = find_raw(t, seq, &it);
    if (msg != NULL) {
        ms_envelope stored = ms_envelope_of(msg);
        same = same_message(&stored, m) || is_redacted(t, msg) || is_masked(&stored, m);
    }
    ms_cursor_close(&it, NULL);
    return same;
}

/* Hides a message; false if it is hidden already, or on failure. */
static bool hide(trace *t, uint64_t seq)
{
    ms_error err;
    const ms_msg *msg;
    if (seq == 0) return false;
    if (get_shown(t->desc.store, seq, &t->kept, &msg, NULL) != MS_OK) return false;
    ms_result result = ms_hide(t->desc.store, seq, &err);
    if (result == MS_OK) t->desc.counts->hidden++;
    else fail_with(t, "hiding a message", result, &err);
    return result == MS_OK;
}

/* Has the caller note how the trace stands, before messages are hidden: if the process
 * ends meanwhile, the next run hides the rest. */
static void put_plan(trace *t)
{
    ms_error err;
    const trace_batch none = {NULL, 0, NULL, NULL};
    if (t->desc.put == NULL || t->code != FINE) return;
    ms_result result = t->desc.put(t->desc.ctx, t, &none, &err);
    if (result == MS_OK) t->same = arrlenu(t->numbers);
    else fail_with(t, "noting what is taken back", result, &err);
}

/* Hides the messages that leave. */
static void hide_leaving(trace *t)
{
    size_t n = arrlenu(t->leaving);
    for (size_t i = 0; i < n && t->code == FINE; i++) hide(t, t->leaving[i]);
    if (n > 0 && !t->renews && t->desc.stored != NULL) identities_forget(t->desc.stored);
    arrsetlen(t->leaving, 0);
}

/* The identities of what was stored again are those of the file until its session ends:
 * what is stored has both. */
static void end_renewal(trace *t)
{
    if (t->renews && t->desc.stored != NULL) identities_forget(t->desc.stored);
    t->renews = false;
}

/* Hides the known messages from there on: the file has other ones now. */
static void diverge(trace *t, size_t from)
{
    trace_known *k = &t->desc.known;
    for (size_t i = from; i < t->n_known; i++) {
        if (is_shared(t, k->numbers[i])) continue;
        arrput(t->leaving, k->numbers[i]);
        hmput(t->left, k->numbers[i], 1);
    }
    t->n_known = from;
    if (t->same > from) t->same = from;
    if (k->noted > from) k->noted = from;
    t->diverged = true;
    if (arrlenu(t->leaving) > 0) put_plan(t);
    hide_leaving(t);
}

static void count_messages(trace *t, const ms_envelope *items, size_t n)
{
    counts *c = t->desc.counts;
    for (size_t i = 0; i < n; i++) {
        ms_type type = items[i].type;
        c->calls += type == MS_T_ACTION;
        c->results += type == MS_T_OBSERVATION || type == MS_T_ERROR;
    }
    c->messages += n;
}

/* Returns the identities of the staged messages: an stb_ds array. */
static uint64_t *identities_of(trace *t, size_t n)
{
    uint64_t *ids = NULL;
    for (size_t i = 0; i < n; i++) {
        const ms_envelope *m = &t->staged[i];
        bool same = i > 0 && ms_str_equal(m->agent_key, t->staged[i - 1].agent_key);
        uint64_t agent = same ? 0 : hash_text(m->agent_key);
        arrput(ids, identity_next(&t->walk, m));
        if (!same) hmput(t->agents, agent, 1);
    }
    return ids;
}

static bool same_said(const ms_envelope *a, const ms_envelope *b)
{
    return a->type == b->type && same_value(a->content, b->content) &&
           same_text(a->tool, b->tool) && same_value(a->args, b->args) &&
           same_text(a->call_id, b->call_id);
}

/* How a stored message of the same identity is to one in the file. */
typedef enum likeness {
    LIKE_NOT,                 /* another one */
    LIKE_SAME,                /* also with masked secrets, or erased, or with more text */
    LIKE_OLDER                /* the same id with less text: the file's one replaces it */
} likeness;

static likeness likeness_of(trace *t, uint64_t seq, const ms_envelope *m)
{
    ms_cursor it;
    likeness like = LIKE_NOT;
    const ms_msg *msg = find_raw(t, seq, &it);
    if (msg != NULL) {
        ms_envelope s = ms_envelope_of(msg);
        unsigned joined = m->flags & MS_FLAG_JOINED;
        bool named = m->id.len > 0 || joined != 0;
        bool versions = named && s.type == m->type &&
                        (s.flags & MS_FLAG_JOINED) == joined;
        size_t had = s.content.text.len + s.args.text.len;
        bool longer = m->content.text.len + m->args.text.len > had;
        bool same = same_said(&s, m) || is_redacted(t, msg) || is_masked(&s, m);
        if (same || versions) like = same || !longer ? LIKE_SAME : LIKE_OLDER;
    }
    ms_cursor_close(&it, NULL);
    return like;
}

/* Returns the number of the message that another file stored; 0: none. */
static uint64_t look_up(trace *t, const ms_envelope *m, uint64_t id, likeness *like)
{
    uint64_t seq = identity_find(t->desc.stored, t->desc.store, m->location, id);
    bool left = t->left != NULL && hmgetp_null(t->left, seq) != NULL;
    *like = seq == 0 || left ? LIKE_NOT : likeness_of(t, seq, m);
    return *like == LIKE_NOT ? 0 : seq;
}

/* Notes that the file has a message which another file stored. */
static void share(trace *t, uint64_t seq)
{
    if (!is_shared(t, seq)) {
        hmput(t->shared, seq, 1);
        arrput(t->others, seq);
    }
    if (identity_is_dead(t->desc.stored, seq)) arrput(t->revivable, seq);
    t->shares = true;
}

/* Returns the number of the message if another file stored it; else 0. */
static uint64_t find_stored(trace *t, const ms_envelope *m, uint64_t id)
{
    likeness like;
    uint64_t seq = look_up(t, m, id, &like);
    if (like == LIKE_OLDER) arrput(t->leaving, seq);
    if (like != LIKE_SAME) return 0;
    share(t, seq);
    return seq;
}

/* Returns the number that a known message has now: a longer file can have stored it
 * again, and hidden this one. */
static uint64_t newest_of(trace *t, uint64_t seq, const ms_envelope *m, uint64_t id)
{
    identities *stored = t->desc.stored;
    uint64_t now = identity_find(stored, t->desc.store, m->location, id);
    bool hidden = identity_is_gone(stored, seq);
    if (hidden && now != 0 && now != seq) now = find_stored(t, m, id);
    else now = 0;
    if (now == 0 && is_shared(t, seq) && (hidden || identity_is_dead(stored, seq))) {
        arrput(t->revivable, seq);
    }
    if (now == 0) return seq;
    if (t->same > arrlenu(t->numbers)) t->same = arrlenu(t->numbers);
    return now;
}

/* Returns how many of the staged messages are known. */
static size_t take_known(trace *t, const uint64_t *ids)
{
    size_t base = arrlenu(t->numbers), n = 0;
    while (n < arrlenu(t->staged) && base + n < t->n_known) {
        uint64_t seq = t->desc.known.numbers[base + n];
        if (t->desc.done == 0 && !is_stored(t, seq, &t->staged[n])) {
            diverge(t, base + n);
            break;
        }
        if (ids != NULL) seq = newest_of(t, seq, &t->staged[n], ids[n]);
        arrput(t->numbers, seq);
        n++;
    }
    count_messages(t, t->staged, n);
    t->desc.counts->known += n;
    return n;
}

static ms_result put_batch(trace *t, const trace_batch *b, ms_error *err)
{
    ms_append_opts opts = {0};
    opts.seqs = b->seqs;
    if (t->desc.put != NULL) return t->desc.put(t->desc.ctx, t, b, err);
    return ms_append_batch(t->desc.store, b->items, b->n, &opts, err);
}

/* Stores messages after the others, or in the places of some. ids: their identities. */
static void append_batch(trace *t, const ms_envelope *items, size_t n,
                         const uint32_t *places, const uint64_t *ids)
{
    ms_error err;
    uint64_t *seqs = NULL;
    arrsetlen(seqs, n);
    memset(seqs, 0, n * sizeof *seqs);
    const trace_batch b = {items, n, places, seqs};
    ms_result result = put_batch(t, &b, &err);
    bool stored = seqs[0] != 0; /* even if a sync failed */
    for (size_t i = 0; i < n && stored; i++) {
        if (places == NULL) arrput(t->numbers, seqs[i]);
        else t->numbers[places[i]] = seqs[i];
        if (ids == NULL || t->desc.stored == NULL) continue;
        identity_add(t->desc.stored, items[i].location, ids[i], seqs[i]);
    }
    arrfree(seqs);
    if (stored) t->same = arrlenu(t->numbers);
    if (stored) count_messages(t, items, n);
    if (result == MS_OK) return;
    char what[1200];
    snprintf(what, sizeof what, "%.1000s: storing messages up to line %" PRIu64,
             path_shown(t), t->line);
    fail_with(t, what, result, &err);
}

ms_str stem_text(const char *path)
{
    static const char *const ends[] = {".zst", ".jsonl", ".json", ".messages", ".md",
                                       ".traj", ".eval"};
    if (strcmp(path, "-") == 0) return MS_STR("stdin");
    const char *slash = strrchr(path, '/');
    ms_str stem = ms_str_of(slash != NULL ? slash + 1 : path);
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        size_t len = strlen(ends[i]);
        if (stem.len <= len) continue;
        if (memcmp(stem.ptr + stem.len - len, ends[i], len) == 0) stem.len -= len;
    }
    return stem.len > 0 && ms_utf8_check(stem, NULL) ? stem : MS_STR("input");
}

/* Returns the part of a name that a store accepts: without NUL, and not too long. */
static ms_str name_of(trace *t, ms_str name)
{
    if (name.len > 0 && memchr(name.ptr, 0, name.len) != NULL) {
        char *out = ms_arena_alloc(&t->batch, name.len);
        size_t n = 0;
        if (out == NULL) exit(no_memory());
        for (size_t i = 0; i < name.len; i++) {
            if (name.ptr[i] != '\0') out[n++] = name.ptr[i];
        }
        name = ms_str_n(out, n);
    }
    return clip(name, MS_KEY_MAX);
}

void trace_session(trace *t, ms_str name)
{
    const options *o = t->desc.options;
    if (name.ptr == NULL || name.len == 0) return;
    if (t->desc.rename && o->location != NULL) name = ms_str_of(o->location);
    name = name_of(t, name);
    if (name.len == 0 || ms_str_equal(name, t->location)) return;
    if (!copy_text(&t->kept, name, &t->location)) exit(no_memory());
}

/* Returns whether a message is shown as it was stored, so that it can be stored again. */
static bool is_untouched(trace *t, uint64_t seq)
{
    const ms_msg *msg;
    return get_shown(t->desc.store, seq, &t->kept, &msg, NULL) == MS_OK &&
           (ms_flags(msg) & (MS_FLAG_REDACTED | MS_FLAG_AMENDED)) == 0;
}

/* A message that the file has with more text is stored again, with the messages before
 * that it is joined to and all after it, to keep their order. Sets their numbers to 0. */
static void renew(trace *t, size_t from, size_t n, uint64_t *seqs, const likeness *likes)
{
    size_t first = from;
    while (!t->renews && first < n && likes[first] != LIKE_OLDER) first++;
    if (first == n) return;
    while (!t->renews && first > from &&
           (t->staged[first].flags & MS_FLAG_JOINED) != 0) {
        first--;
    }
    t->renews = true;
    for (size_t i = first; i < n; i++) {
        if (likes[i] == LIKE_NOT) continue;
        if (likes[i] == LIKE_SAME && !is_untouched(t, seqs[i])) continue;
        arrput(t->leaving, seqs[i]);
        seqs[i] = 0;
    }
}

/* Stores the staged messages from there on, except those that other files stored (ID1).
 * What they replace is hidden. */
static void append_new(trace *t, size_t from, size_t n, const uint64_t *ids)
{
    uint64_t *seqs = NULL;
    likeness *likes = NULL;
    arrsetlen(seqs, n);
    arrsetlen(likes, n);
    for (size_t i = from; i < n; i++) {
        seqs[i] = look_up(t, &t->staged[i], ids[i], &likes[i]);
    }
    renew(t, from, n, seqs, likes);
    while (from < n && t->code == FINE) {
        size_t end = from;
        while (end < n && seqs[end] == 0) end++;
        if (end > from) append_batch(t, t->staged + from, end - from, NULL, ids + from);
        if (end < n && t->code == FINE) {
            share(t, seqs[end]);
            arrput(t->numbers, seqs[end]);
            count_messages(t, &t->staged[end], 1);
            t->desc.counts->known++;
            end++;
        }
        from = end;
    }
    hide_leaving(t);
    arrfree(seqs);
    arrfree(likes);
}

/* Returns whether the staged messages are all of one location that had none before this
 * file: then none of them is looked up. */
static bool is_alone(trace *t)
{
    ms_str location = t->staged[0].location;
    size_t n = arrlenu(t->staged);
    if (t->n_known > 0 || location.ptr == NULL) return false;
    uint64_t hash = hash_bytes(location);
    if (t->alone == NULL || hmgetp_null(t->alone, hash) == NULL) {
        if (!identity_is_empty(t->desc.stored, t->desc.store, location)) return false;
        hmput(t->alone, hash, 1);
        identities_forget(t->desc.stored);
    }
    for (size_t i = 1; i < n; i++) {
        if (!ms_str_equal(t->staged[i].location, location)) return false;
    }
    return true;
}

void trace_flush(trace *t)
{
    size_t n = arrlenu(t->staged), known = 0;
    if (n == 0 || t->code != FINE) return;
    if (t->location.ptr == NULL) trace_session(t, stem_text(t->desc.path));
    for (size_t i = 0; i < n; i++) { /* messages before the session was named */
        if (t->staged[i].location.ptr == NULL) t->staged[i].location = t->location;
    }
    uint64_t *ids = NULL;
    if (t->desc.stored != NULL && !is_alone(t)) ids = identities_of(t, n);
    if (arrlenu(t->numbers) < t->n_known) known = take_known(t, ids);
    if (ids != NULL) append_new(t, known, n, ids);
    else if (known < n && t->code == FINE) {
        append_batch(t, t->staged + known, n - known, NULL, NULL);
    }
    arrfree(ids);
    arrsetlen(t->staged, 0);
    ms_arena_reset(&t->batch);
    t->bytes = 0;
}


/* ---- Calls of readers -------------------------------------------------------------- */

void trace_new_session(trace *t, ms_str name)
{
    if (arrlenu(t->nodes) > t->session_node) {
        trace_flush(t);
        settle(t);
        write_facts(t);
    }
    end_renewal(t);
    hmfree(t->agents);
    t->session_first = (uint32_t)(arrlenu(t->numbers) + arrlenu(t->staged));
    arrsetlen(t->facts, 0);
    t->first_prompt = 0;
    t->session_node = arrlenu(t->nodes);
    trace_session(t, name);
}

static uint64_t id_hash(ms_str id)
{
    if (id.len >= 2 && id.ptr[0] == '"') id = ms_str_n(id.ptr + 1, id.len - 2);
    return hash_text(id);
}

/* Returns the node of an id. If the file lacks the id, the entry before is the parent. */
static uint32_t parent_of(trace *t, ms_str parent)
{
    uint32_t last = (uint32_t)arrlenu(t->nodes);
    uint32_t before = last > t->session_node ? last - 1 : NO_NODE;
    if (t->desc.tree == TREE_NONE) return before;
    if (!is_kind(parent, MS_JSON_STRING) || parent.len <= 2) return before;
    index_of *found = hmgetp_null(t->ids, id_hash(parent));
    return found != NULL ? found->value : before;
}

bool trace_is_repeated(trace *t, ms_str id, ms_str json)
{
    index_of *found = id.len > 2 ? hmgetp_null(t->ids, id_hash(id)) : NULL;
    uint64_t text = json.ptr != NULL ? hash_bytes(json) : 0;
    return found != NULL && found->value >= t->session_node &&
           t->nodes[found->value].text == text;
}

bool trace_had_line(trace *t, ms_str json)
{
    uint64_t hash = hash_bytes(json);
    if (t->lines != NULL && hmgetp_null(t->lines, hash) != NULL) return true;
    hmput(t->lines, hash, 1);
    return false;
}

void trace_entry(trace *t, ms_str id, ms_str parent, unsigned marks)
{
    node n;
    if (arrlenu(t->staged) >= BATCH_MESSAGES || t->bytes >= BATCH_BYTES) trace_flush(t);
    memset(&n, 0, sizeof n);
    n.parent = parent_of(t, parent);
    n.first = (uint32_t)(arrlenu(t->numbers) + arrlenu(t->staged));
    n.marks = marks;
    t->entry_timed = false;
    if (id.ptr != NULL && id.len > 2) {
        n.id = id_hash(id);
        hmput(t->ids, n.id, (uint32_t)arrlenu(t->nodes));
    }
    arrput(t->nodes, n);
}

#define CALLS (MS_BIT(MS_T_ACTION) | MS_BIT(MS_T_OBSERVATION) | MS_BIT(MS_T_ERROR))

void trace_put(trace *t, const ms_envelope *message)
{
    const options *o = t->desc.options;
    ms_envelope m = *message;
    if (arrlenu(t->nodes) == 0) trace_entry(t, m.id, m.key, 0);
    if (m.location.ptr == NULL) m.location = t->location; /* absent: see trace_flush */
    m.agent_key = name_of(t, m.agent_key);
    m.turn_id = name_of(t, m.turn_id);
    bool nameless = m.role == MS_ROLE_OTHER && m.role_name.len == 0;
    if (nameless) m.role_name = MS_STR("unknown");
    if (m.agent_key.len == 0) m.agent_key.ptr = NULL;
    if (m.agent_key.ptr == NULL && o->agent != NULL) m.agent_key = ms_str_of(o->agent);
    if (m.agent_key.ptr == NULL && t->desc.guess_agent && (CALLS & MS_BIT(m.type)) != 0) {
        m.agent_key = MS_STR("assistant");
    }
    if (m.has_time) t->last_time = (double)m.time_ns / 1e9;
    if (m.has_time) t->entry_ns = m.time_ns;
    t->entry_timed = t->entry_timed || m.has_time;
    bool call = m.type == MS_T_ACTION;
    if (!call && m.content.text.ptr == NULL) m.content = ms_text(""); /* it needs one */
    if (!call) t->last_tool = ms_str_n(NULL, 0);
    else if (!ms_str_equal(t->last_tool, m.tool)) {
        copy_text(&t->kept, m.tool, &t->last_tool);
    }
    arrput(t->staged, m);
    t->bytes += m.content.text.len + m.args.text.len + m.extra.len + 64;
    arrlast(t->nodes).count++;
}

bool trace_is_fresh(const trace *t, uint64_t offset)
{
    return offset >= t->desc.done;
}

void trace_unknown(trace *t, ms_str type, ms_str json)
{
    ms_envelope when;
    memset(&when, 0, sizeof when);
    ms_str iso = member(json, "timestamp");
    when.has_time = t->entry_timed;
    when.time_ns = t->entry_timed ? t->entry_ns : 0;
    if (is_kind(iso, MS_JSON_STRING)) trace_time_iso(t, &when, iso);
    trace_unknown_at(t, &when, type, json);
}

void trace_unknown_at(trace *t, const ms_envelope *when, ms_str type, ms_str json)
{
    char word[96];
    ms_str what = type.len > 0 ? clip(type, 60) : MS_STR("entry without a type");
    int n = snprintf(word, sizeof word, "%s:%.*s", t->desc.format, (int)what.len,
                     what.ptr);
    if (GIVEN(t->desc.options, REFUSE)) {
        complain("%s: line %" PRIu64 " (byte %" PRIu64 "): %s is unknown", path_shown(t),
                 t->line, t->offset, word);
        trace_fail(t, FAILED);
        return;
    }
    ms_str name;
    if (!copy_text(&t->batch, ms_str_n(word, (size_t)n), &name)) exit(no_memory());
    if (trace_is_fresh(t, t->offset)) {
        tally_row *row = tally_row_of(&t->desc.counts->others, name);
        if (row == NULL) exit(no_memory());
        row->count++;
        t->desc.counts->unknown++;
    }
    ms_str kept = json.ptr != NULL ? json : MS_STR("null");
    ms_envelope m = other_message(name, ms_json(kept));
    m.has_time = when->has_time;
    m.time_ns = when->time_ns;
    trace_put(t, &m);
}

void trace_left_out(trace *t, ms_str type)
{
    if (type.len == 0) type = MS_STR("entry");
    if (!trace_is_fresh(t, t->offset)) return;
    tally_row *row = tally_row_of(&t->desc.counts->left_out, type);
    if (row == NULL) exit(no_memory());
    row->count++;
}

void trace_incomplete(trace *t, ms_str what)
{
    if (!trace_is_fresh(t, t->offset)) return;
    tally_row *row = tally_row_of(&t->desc.counts->incomplete, what);
    if (row == NULL) exit(no_memory());
    row->count++;
}

enum { NOTE_NAME = 300, NOTE_DIGITS = 40 };

/* The text of a note. Notes are short and frequent, so they need no JSON writer. The
 * room is for three names of NOTE_NAME bytes and nine numbers with their names. */
typedef struct note_text {
    char text[2048];
    size_t len;
} note_text;

static void note_bytes(note_text *n, const char *bytes, size_t len)
{
    if (len > sizeof n->text - 2 - n->len) return;
    memcpy(n->text + n->len, bytes, len);
    n->len += len;
}

static void note_name(note_text *n, const char *name)
{
    note_bytes(n, n->len > 1 ? ",\"" : "\"", n->len > 1 ? 2 : 1);
    note_bytes(n, name, strlen(name));
    note_bytes(n, "\":", 2);
}

static void note_digits(note_text *n, uint64_t value)
{
    char digits[24];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + value % 10);
    } while ((value /= 10) > 0);
    note_bytes(n, digits + at, sizeof digits - at);
}

static void note_number(note_text *n, const char *name, uint64_t value)
{
    if (value == 0) return;
    note_name(n, name);
    note_digits(n, value);
}

/* Adds a name. Names have no quotes or controls as a rule; others are left out. */
static void note_string(note_text *n, const char *name, ms_str value)
{
    if (value.len == 0 || value.len > NOTE_NAME || !ms_utf8_check(value, NULL)) return;
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        if (c < 0x20 || c == '"' || c == '\\') return;
    }
    note_name(n, name);
    note_bytes(n, "\"", 1);
    note_bytes(n, value.ptr, value.len);
    note_bytes(n, "\"", 1);
}

/* Returns a sum as the file spells it, or a long one rounded; absent if it is no number,
 * or below 0. */
static ms_str dollars_of(ms_str value, char out[NOTE_DIGITS])
{
    double number;
    ms_str none = {NULL, 0};
    if (!is_kind(value, MS_JSON_NUMBER) || value.ptr[0] == '-') return none;
    if (value.len <= NOTE_DIGITS) return value;
    if (ms_json_f64(value, &number) != MS_OK) return none;
    return ms_str_n(out, (size_t)snprintf(out, NOTE_DIGITS, "%.10g", number));
}

/* Adds the members of usage notes, and more. */
static void note_use(note_text *n, const use *u)
{
    char text[NOTE_DIGITS];
    n->len = 0;
    note_bytes(n, "{", 1);
    note_number(n, "input_tokens", u->input);
    note_number(n, "output_tokens", u->output);
    note_number(n, "cached_tokens", u->cached);
    note_number(n, "cache_write_tokens", u->written);
    if (u->written_1h > 0) note_number(n, "cache_write_1h_tokens", u->written_1h);
    note_number(n, "reasoning_tokens", u->reasoning);
    ms_str cost = dollars_of(u->cost_text, text);
    if (cost.len == 0 && u->cost > 0 && u->cost < 1e300) { /* JSON has no infinity */
        cost = ms_str_n(text, (size_t)snprintf(text, sizeof text, "%.10g", u->cost));
    }
    if (cost.len > 0) {
        note_name(n, "cost");
        note_bytes(n, cost.ptr, cost.len);
    }
    note_string(n, "model", u->model);
    note_string(n, "answer", u->answer);
}

static ms_str note_end(note_text *n, ms_arena *arena)
{
    ms_str out;
    n->text[n->len++] = '}';
    if (!copy_text(arena, ms_str_n(n->text, n->len), &out)) exit(no_memory());
    return out;
}

ms_str use_json(const use *u, ms_arena *arena)
{
    note_text n;
    note_use(&n, u);
    return note_end(&n, arena);
}

/* Returns the note's text with the answer's time and the tool that it calls. */
static ms_str use_text(trace *t, const use *u)
{
    note_text n;
    note_use(&n, u);
    if (t->last_time > 0) {
        uint64_t ms = (uint64_t)(t->last_time * 1000);
        note_number(&n, "time", ms / 1000);
        char fraction[4] = {'.', (char)('0' + ms / 100 % 10), (char)('0' + ms / 10 % 10),
                            (char)('0' + ms % 10)};
        if (ms >= 1000) note_bytes(&n, fraction, 4);
    }
    note_string(&n, "tool", t->last_tool);
    return note_end(&n, &t->kept);
}

/* Returns a count of tokens. One that is there and no number, below 0, or so large that
 * sums would wrap, counts as incomplete, and is 0. */
static uint64_t tokens_of(trace *t, ms_str value)
{
    double number;
    bool whole = is_kind(value, MS_JSON_NUMBER) &&
                 ms_json_f64(value, &number) == MS_OK && number >= 0 && number <= 1e15;
    if (whole) return count_of(value);
    if (t != NULL && value.ptr != NULL && !is_kind(value, MS_JSON_NULL)) {
        trace_incomplete(t, MS_STR("token count that cannot be read"));
    }
    return 0;
}

use tokens_in(trace *t, ms_str object, const char *const names[USE_COUNTS])
{
    use u;
    size_t n = 0;
    ms_str values[USE_COUNTS];
    json_key keys[USE_COUNTS];
    uint64_t *const all[USE_COUNTS] = {&u.input, &u.output, &u.cached, &u.written,
                                       &u.reasoning};
    uint64_t *used[USE_COUNTS];
    memset(&u, 0, sizeof u);
    for (size_t i = 0; i < USE_COUNTS; i++) {
        if (names[i] == NULL) continue;
        keys[n].name = names[i];
        keys[n].len = strlen(names[i]);
        used[n++] = all[i];
    }
    pick(object, keys, n, values);
    for (size_t i = 0; i < n; i++) *used[i] = tokens_of(t, values[i]);
    return u;
}

void use_of_response(ms_str response, ms_arena *arena, use *u)
{
    static const char *const names[USE_COUNTS] = {
        "prompt_tokens", "completion_tokens", NULL, "cache_creation_input_tokens", NULL};
    ms_str usage = member(response, "usage");
    *u = tokens_in(NULL, usage, names);
    u->cached = count_of(member_at(usage, "prompt_tokens_details.cached_tokens"));
    u->reasoning = count_of(member_at(usage,
                                      "completion_tokens_details.reasoning_tokens"));
    u->model = text_of(arena, member(response, "model"));
    u->answer = text_of(arena, member(response, "id"));
}

bool is_no_use(const use *u)
{
    return u->input == 0 && u->output == 0 && u->cost <= 0 &&
           number_of(u->cost_text) <= 0;
}

void trace_use(trace *t, const use *u)
{
    cost_note c;
    size_t messages = arrlenu(t->numbers) + arrlenu(t->staged);
    if (is_no_use(u)) return;
    if (messages == 0) {
        trace_incomplete(t, MS_STR("usage without an answer"));
        return;
    }
    memset(&c, 0, sizeof c);
    c.json = use_text(t, u);
    c.message = (uint32_t)(messages - 1);
    c.fresh = trace_is_fresh(t, t->offset);
    uint64_t id = u->answer.len > 0 ? hash_text(u->answer) : 0;
    index_of *found = id != 0 ? hmgetp_null(t->answers, id) : NULL;
    if (found != NULL) {
        t->costs[found->value] = c;
        return;
    }
    if (id != 0) hmput(t->answers, id, (uint32_t)arrlenu(t->costs));
    arrput(t->costs, c);
    t->desc.counts->answers++;
}

void trace_total(trace *t, ms_str dollars)
{
    static const char name[] = ",\"total_cost\":";
    char text[NOTE_DIGITS];
    dollars = dollars_of(dollars, text);
    if (arrlenu(t->costs) == 0 || dollars.len == 0) return;
    cost_note *c = &arrlast(t->costs);
    const char *old = find_bytes(c->json.ptr, c->json.len, name, sizeof name - 1);
    size_t len = old != NULL ? (size_t)(old - c->json.ptr) : c->json.len - 1;
    ms_buf buf = {&t->kept, NULL, 0, 0};
    ms_buf_write(&buf, c->json.ptr, len);
    json_piece(&buf, name);
    ms_buf_write(&buf, dollars.ptr, dollars.len);
    json_piece(&buf, "}");
    c->json = ms_buf_text(&buf);
    if (c->json.ptr == NULL) exit(no_memory());
    c->late = true;
}

static fact *fact_of(trace *t, const char *name)
{
    for (size_t i = 0; i < arrlenu(t->facts); i++) {
        if (strcmp(t->facts[i].name, name) == 0) return &t->facts[i];
    }
    fact f = {name, {NULL, 0}};
    arrput(t->facts, f);
    return &arrlast(t->facts);
}

void trace_first_prompt(trace *t)
{
    t->first_prompt = (uint32_t)(arrlenu(t->numbers) + arrlenu(t->staged)) + 1;
}

bool trace_has_prompt(const trace *t)
{
    return t->first_prompt > 0;
}

void trace_fact(trace *t, const char *name, ms_str text)
{
    if (text.len == 0) return;
    fact *f = fact_of(t, name);
    text = clip(text, FACT_MAX);
    if (ms_str_equal(f->text, text)) return;
    if (!copy_text(&t->kept, text, &f->text)) exit(no_memory());
}

void trace_fact_first(trace *t, const char *name, ms_str text)
{
    if (text.len == 0 || fact_of(t, name)->text.len > 0) return;
    trace_fact(t, name, text);
}

void trace_time_iso(trace *t, ms_envelope *m, ms_str value)
{
    ms_str text = trace_text(t, value);
    if (text.ptr != NULL) {
        m->has_time = ms_iso_read(text, &m->time_ns) == MS_OK;
        if (!m->has_time) m->time_ns = 0;
        if (m->has_time || text.len == 0) return;
    }
    if (value.ptr == NULL || is_kind(value, MS_JSON_NULL)) return;
    trace_incomplete(t, MS_STR("time that cannot be read"));
}

bool is_no_time(ms_str value)
{
    double number;
    if (value.ptr == NULL || is_kind(value, MS_JSON_NULL)) return true;
    return is_kind(value, MS_JSON_NUMBER) && ms_json_f64(value, &number) == MS_OK &&
           number >= 0 && number <= 0;
}

/* Sets a time of so many units in a second. One after the year 2255 is none. */
static void set_number_time(trace *t, ms_envelope *m, ms_str value, double units)
{
    double us = number_of(value) / units * 1e6;
    m->has_time = us > 0 && us <= 9e15;
    m->time_ns = m->has_time ? (int64_t)(us + 0.5) * 1000 : 0;
    if (m->has_time || is_no_time(value)) return;
    trace_incomplete(t, MS_STR("time that cannot be read"));
}

void trace_time_ms(trace *t, ms_envelope *m, ms_str value)
{
    set_number_time(t, m, value, 1e3);
}

void trace_time_s(trace *t, ms_envelope *m, ms_str value)
{
    set_number_time(t, m, value, 1);
}


/* ---- Branches ---------------------------------------------------------------------- */

static void kill_from(trace *t, size_t first)
{
    for (size_t i = first; i < arrlenu(t->nodes); i++) t->nodes[i].marks |= ENTRY_DEAD;
}

void trace_take_back(trace *t, ms_str id)
{
    index_of *found = hmgetp_null(t->ids, id_hash(id));
    kill_from(t, found != NULL ? found->value : t->session_node);
}

void trace_take_back_prompts(trace *t, uint64_t n)
{
    size_t at = arrlenu(t->nodes);
    for (size_t i = at; i > t->session_node && n > 0; i--) {
        unsigned marks = t->nodes[i - 1].marks;
        if ((marks & (ENTRY_PROMPT | ENTRY_DEAD)) != ENTRY_PROMPT) continue;
        at = i - 1;
        n--;
    }
    kill_from(t, at);
}

bool trace_replace(trace *t, ms_str id, ms_str json, bool *same)
{
    uint64_t text = hash_bytes(json);
    index_of *found = hmgetp_null(t->ids, id_hash(id));
    *same = false;
    if (found == NULL) return false;
    node *n = &t->nodes[found->value];
    *same = n->text == text && (n->marks & ENTRY_DEAD) == 0;
    if (!*same) n->marks |= ENTRY_DEAD;
    return true;
}

void trace_entry_text(trace *t, ms_str json)
{
    arrlast(t->nodes).text = hash_bytes(json);
}

void trace_take_back_others(trace *t, ms_str list)
{
    bool *named = calloc(arrlenu(t->nodes) + 1, sizeof *named);
    if (named == NULL) exit(no_memory());
    ms_json_iter it = ms_json_iterate(list);
    while (ms_json_next(&it)) {
        ms_str id = member(it.value, "id");
        index_of *found = id.ptr != NULL ? hmgetp_null(t->ids, id_hash(id)) : NULL;
        if (found != NULL) named[found->value] = true;
    }
    for (size_t i = t->session_node; i < arrlenu(t->nodes); i++) {
        if (!named[i]) t->nodes[i].marks |= ENTRY_DEAD;
    }
    free(named);
}

/* Returns the last entry of the session that is of its branch, in a prompt tree one with
 * messages; NO_NODE: there is none. */
static uint32_t newest_entry(const trace *t)
{
    for (size_t i = arrlenu(t->nodes); i > t->session_node; i--) {
        const node *n = &t->nodes[i - 1];
        if ((n->marks & ENTRY_SIDE) != 0) continue;
        if (n->count > 0 || t->desc.tree == TREE_CHAIN) return (uint32_t)(i - 1);
    }
    return NO_NODE;
}

/* Returns which entries are dead if the branch ends at that one; the caller frees the
 * list. Step 1 marks the path from there to the root. Step 2 goes from the root on: a
 * child of a dead entry is dead, and so is an entry that the format's rule removes. */
static bool *dead_beside(const trace *t, uint32_t leaf)
{
    size_t n = arrlenu(t->nodes);
    bool *alive = calloc(n + 1, sizeof *alive), *dead = calloc(n + 1, sizeof *dead);
    if (alive == NULL || dead == NULL) exit(no_memory());
    for (size_t i = 0; i < t->session_node; i++) {
        dead[i] = (t->nodes[i].marks & ENTRY_DEAD) != 0;
    }
    for (uint32_t i = leaf; i != NO_NODE && !alive[i]; i = t->nodes[i].parent) {
        alive[i] = true;
        if (t->nodes[i].parent != NO_NODE && t->nodes[i].parent >= i) break;
    }
    for (size_t i = t->session_node; i < n; i++) {
        const node *at = &t->nodes[i];
        bool lost = at->parent != NO_NODE && at->parent < i && !alive[i] &&
                    dead[at->parent];
        bool off = !alive[i] && (at->marks & ENTRY_SIDE) == 0 &&
                   (t->desc.tree == TREE_CHAIN || (at->marks & ENTRY_PROMPT) != 0);
        if (t->desc.tree == TREE_NONE) lost = off = false;
        dead[i] = (at->marks & ENTRY_DEAD) != 0 || lost || off;
    }
    free(alive);
    return dead;
}

/* Marks dead entries: those beside the newest branch. */
static void find_dead(trace *t)
{
    size_t n = arrlenu(t->nodes);
    if (t->desc.tree == TREE_NONE || n <= t->session_node) return;
    bool *dead = dead_beside(t, newest_entry(t));
    for (size_t i = t->session_node; i < n; i++) {
        if (dead[i]) t->nodes[i].marks |= ENTRY_DEAD;
    }
    free(dead);
}

uint64_t trace_since(const trace *t, ms_str id, bool with)
{
    uint64_t count = 0;
    size_t n = arrlenu(t->nodes), from = t->session_node;
    if (n <= from) return 0;
    index_of *ids = t->ids; /* a look-up may move the map */
    bool known = id.ptr != NULL && ids != NULL; /* an absent map would be made here */
    index_of *found = known ? hmgetp_null(ids, id_hash(id)) : NULL;
    if (found != NULL && found->value >= from) from = found->value + (with ? 0 : 1);
    bool *dead = dead_beside(t, (uint32_t)(n - 1));
    for (size_t i = from; i + 1 < n; i++) count += dead[i] ? 0 : t->nodes[i].count;
    free(dead);
    return count;
}

/* Sets *out to a copy of a message; false: it was redacted, or there is no memory. */
static bool copy_message(trace *t, const ms_msg *msg, ms_envelope *out)
{
    const ms_msg *copy;
    ms_envelope m = ms_envelope_of(msg);
    m.key = ms_str_n(NULL, 0); /* the original keeps it */
    if (is_redacted(t, msg)) return false;
    if (ms_encode(&m, &t->batch, &copy, NULL) != MS_OK) return false;
    *out = ms_envelope_of(copy);
    return true;
}

/* Does the same for a message that an earlier run hid, with its latest text. */
static bool copy_hidden(trace *t, uint64_t seq, ms_envelope *out)
{
    ms_cursor it;
    ms_query q = {0};
    const ms_msg *msg = find_raw(t, seq, &it);
    bool good = msg != NULL && copy_text(&t->batch, location_of(msg), &q.location);
    ms_cursor_close(&it, NULL);
    q.about_seq = seq;
    q.raw = MS_RAW_MESSAGES | MS_RAW_AMENDS;
    if (!good || ms_query_open(t->desc.store, &q, &it, NULL) != MS_OK) return false;
    while (good && (msg = ms_next(&it)) != NULL) good = copy_message(t, msg, out);
    ms_cursor_close(&it, NULL);
    return good;
}

/* Sets *out to a copy of what a message shows, or showed before an earlier run hid it.
 * False: it is to stay as it is, since a user redacted or hid it. */
static bool take_again(trace *t, uint64_t seq, ms_envelope *out)
{
    const ms_msg *msg;
    if (get_shown(t->desc.store, seq, &t->batch, &msg, NULL) == MS_OK) {
        return copy_message(t, msg, out);
    }
    return hmgetp_null(t->was_dead, seq) != NULL && copy_hidden(t, seq, out);
}

/* Stores the staged copies in the places of those messages, which it hides. */
static void store_again(trace *t, const uint32_t *places)
{
    size_t n = arrlenu(t->staged);
    if (n == 0) return;
    for (size_t i = 0; i < n; i++) {
        arrput(t->leaving, t->numbers[places[i]]);
        if (t->same > places[i]) t->same = places[i];
    }
    append_batch(t, t->staged, n, places, NULL);
    hide_leaving(t);
    arrsetlen(t->staged, 0);
    ms_arena_reset(&t->batch);
}

/* Stores the messages of the session again from the first on that an earlier run took
 * back and that is on its branch now. Those after it follow, to keep their order. */
static void revive(trace *t)
{
    uint32_t *places = NULL;
    ms_envelope m;
    bool any = false;
    size_t n = hmlenu(t->was_dead) > 0 ? arrlenu(t->nodes) : 0;
    for (size_t i = t->session_node; i < n && t->code == FINE; i++) {
        const node *at = &t->nodes[i];
        if ((at->marks & ENTRY_DEAD) != 0) continue;
        for (uint32_t k = at->first; k < at->first + at->count; k++) {
            bool was_dead = hmgetp_null(t->was_dead, t->numbers[k]) != NULL;
            bool others = is_shared(t, t->numbers[k]) && (at->marks & ENTRY_RULED) == 0;
            if (others || (!any && !was_dead)) continue;
            if (!take_again(t, t->numbers[k], &m)) continue;
            any = true;
            if (t->again > k) t->again = k;
            arrput(places, k);
            arrput(t->staged, m);
        }
        if (arrlenu(places) < BATCH_MESSAGES) continue;
        store_again(t, places);
        arrsetlen(places, 0);
    }
    if (t->code == FINE) store_again(t, places);
    arrfree(places);
}

/* Returns whether the session's file has all messages that its location shows of its
 * agents, and one that no other file stored (ID3). */
static bool is_longest(trace *t)
{
    ms_cursor it;
    ms_query q = {0};
    const ms_msg *msg;
    index_of *own = NULL;
    bool all = true, any = false;
    for (size_t i = t->session_first; i < arrlenu(t->numbers); i++) {
        uint64_t seq = t->numbers[i];
        hmput(own, seq, 1);
        any = any || !is_shared(t, seq);
    }
    q.location = t->location;
    if (any && ms_query_open(t->desc.store, &q, &it, NULL) == MS_OK) {
        while (all && (msg = ms_next(&it)) != NULL) {
            uint64_t agent = hash_text(agent_key_of(msg)), seq = ms_seq(msg);
            all = hmgetp_null(t->agents, agent) == NULL || hmgetp_null(own, seq) != NULL;
        }
        ms_cursor_close(&it, NULL);
    }
    hmfree(own);
    return any && all;
}

/* Takes back what the session's tree takes back, and brings back what it has again. */
static void settle(trace *t)
{
    bool rules = t->shares && t->code == FINE && is_longest(t);
    for (size_t i = t->session_node; rules && i < arrlenu(t->nodes); i++) {
        t->nodes[i].marks |= ENTRY_RULED;
    }
    for (size_t i = 0; rules && i < arrlenu(t->revivable); i++) {
        hmput(t->was_dead, t->revivable[i], 1);
    }
    find_dead(t);
    if (t->code == FINE) revive(t);
}


/* ---- The end ----------------------------------------------------------------------- */

/* Returns whether a message is not hidden. */
static bool is_visible(trace *t, uint64_t seq)
{
    const ms_msg *msg;
    return seq != 0 &&
           get_shown(t->desc.store, seq, &t->kept, &msg, NULL) == MS_OK;
}

/* Hides the messages of dead entries. What somebody else hid is not noted as dead. */
static void hide_dead(trace *t)
{
    bool any = false;
    for (size_t i = 0; i < arrlenu(t->nodes); i++) {
        const node *n = &t->nodes[i];
        if ((n->marks & ENTRY_DEAD) == 0) continue;
        for (uint32_t m = n->first; m < n->first + n->count; m++) {
            uint64_t seq = t->numbers[m];
            if (is_shared(t, seq) && (n->marks & ENTRY_RULED) == 0) continue;
            bool was_dead = hmgetp_null(t->was_dead, seq) != NULL;
            bool visible = is_visible(t, seq);
            if (visible || was_dead) arrput(t->dead, seq);
            any = any || visible;
        }
    }
    t->buried = true;
    if (any) put_plan(t);
    if (any && t->desc.stored != NULL) identities_forget(t->desc.stored);
    for (size_t i = 0; any && i < arrlenu(t->dead) && t->code == FINE; i++) {
        hide(t, t->dead[i]);
    }
}

/* Returns whether a message of an earlier run has that note: a run that ended early has
 * written some. */
static bool has_note(trace *t, uint32_t message, ms_str kind, ms_str json)
{
    ms_cursor it;
    ms_query q = {0};
    const ms_msg *msg, *note;
    bool found = false;
    uint64_t seq = t->numbers[message];
    if (message >= t->n_begun && !is_shared(t, seq)) return false;
    if (get_shown(t->desc.store, seq, &t->kept, &msg, NULL) != MS_OK) return false;
    q.location = location_of(msg);
    q.about_seq = seq;
    q.raw = MS_RAW_NOTES;
    if (ms_query_open(t->desc.store, &q, &it, NULL) != MS_OK) return false;
    while (!found && (note = ms_next(&it)) != NULL) {
        found = ms_str_equal(ms_get(note, MS_F_TYPE_NAME).text, kind) &&
                ms_str_equal(ms_content(note).text, json);
    }
    ms_cursor_close(&it, NULL);
    return found;
}

/* Returns whether this file notes the costs of a message: the longest one of those that
 * have it. An older copy can have an earlier report of the answer. */
static bool is_noted_here(const trace *t, uint32_t message)
{
    if (!is_shared(t, t->numbers[message])) return true;
    size_t low = 0, high = arrlenu(t->nodes);
    while (low < high) { /* the last entry that begins at the message or before */
        size_t middle = (low + high) / 2;
        if (t->nodes[middle].first <= message) low = middle + 1;
        else high = middle;
    }
    return low > 0 && (t->nodes[low - 1].marks & ENTRY_RULED) != 0;
}

/* Writes usage notes. Hidden messages were paid for, too. Their notes are written
 * first, since a hidden message accepts none. */
static void write_notes(trace *t)
{
    ms_error err;
    for (size_t i = 0; i < arrlenu(t->costs) && t->code == FINE; i++) {
        const cost_note *c = &t->costs[i];
        bool fresh = t->desc.done > 0 ? c->fresh : c->message >= t->desc.known.noted;
        fresh = fresh || c->late;
        if (!fresh || c->json.ptr == NULL || t->numbers[c->message] == 0) continue;
        if (!is_noted_here(t, c->message)) continue;
        if (has_note(t, c->message, MS_STR("usage"), c->json)) continue;
        ms_result result = ms_note(t->desc.store, t->numbers[c->message], MS_STR("usage"),
                                   ms_json(c->json), &err);
        if (result != MS_OK && result != MS_E_HIDDEN && result != MS_E_NOT_FOUND) {
            fail_with(t, "noting usage", result, &err);
        }
    }
    if (t->code == FINE) t->desc.known.noted = arrlenu(t->numbers);
}

static void json_named(ms_buf *buf, const char *name, ms_str value)
{
    if (value.len == 0) return;
    json_piece(buf, buf->len > 1 ? ",\"" : "\"");
    json_piece(buf, name);
    json_piece(buf, "\":");
    json_quoted(buf, value);
}

/* Sets the facts that are new. */
static void write_facts(trace *t)
{
    ms_error err;
    ms_str old, value;
    ms_buf buf = {&t->kept, NULL, 0, 0};
    bool older = t->shares && arrlenu(t->nodes) > 0 &&
                 (arrlast(t->nodes).marks & ENTRY_RULED) == 0;
    if (t->location.ptr == NULL || t->code != FINE) return;
    if (t->first_prompt > 0 && t->first_prompt <= arrlenu(t->numbers)) {
        char text[24];
        int n = snprintf(text, sizeof text, "%" PRIu64, t->numbers[t->first_prompt - 1]);
        trace_fact(t, "first", ms_str_n(text, (size_t)n));
    }
    ms_result result = ms_location_get(t->desc.store, t->location, &t->kept, &old, &err);
    if (result != MS_OK) {
        fail_with(t, "reading facts", result, &err);
        return;
    }
    json_piece(&buf, "{");
    for (size_t i = 0; i < arrlenu(t->facts); i++) {
        const fact *f = &t->facts[i];
        bool there = ms_json_member(old, ms_str_of(f->name), &value);
        bool same = there && (older || ms_json_string_is(value, f->text));
        if (!same) json_named(&buf, f->name, f->text);
    }
    json_piece(&buf, "}");
    if (buf.len <= 2) return;
    result = ms_location_set(t->desc.store, t->location, ms_buf_text(&buf), &err);
    if (result != MS_OK) fail_with(t, "setting facts", result, &err);
}

int trace_end(trace *t)
{
    trace_flush(t);
    if (t->code == FINE && arrlenu(t->numbers) < t->n_known) {
        if (t->desc.done == 0) diverge(t, arrlenu(t->numbers));
    }
    end_renewal(t);
    if (t->code == FINE) settle(t);
    if (t->code == FINE) write_notes(t);
    if (t->code == FINE) hide_dead(t);
    if (arrlenu(t->numbers) > 0) write_facts(t);
    return t->code;
}
