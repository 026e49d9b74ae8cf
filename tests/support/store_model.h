/* A model of a store: what it should show after appends and changes that are data.
 *
 *     change c = {DO_HIDE};                  which change, of which message, ...
 *     c.at = 3;
 *     model_do(&h, &c);                    now h is what the store should be ...
 *     model_call(&h, &c, store, &stream, &err);      ... after this call
 *     model_differs(&h, store, &arena)     NULL: it is; else what differs
 *
 * A model is plain memory and is copied by assignment. The text of a message follows
 * from its number, version and parts, so none is kept. The functions assert nothing:
 * child processes and fuzz targets call them, too. twin.h compares more and asserts.
 */

#ifndef STORE_MODEL_H
#define STORE_MODEL_H

#include "support.h"

#ifndef MODEL_MOST
#define MODEL_MOST 4000     /* messages; notes */
#endif

enum { MODEL_PLACES = 3, MODEL_GROUP = 4, MODEL_LONGEST = 1500,
       MODEL_KEY = 32, MODEL_TEXT = 5000 + 100 + MODEL_KEY };

typedef struct item {
    uint64_t seq;             /* 0: not known */
    int place;                /* from MODEL_PLACES on: made by a fork */
    int number, version;
    short size;               /* of the text, mark and parts aside */
    unsigned char parts;      /* parts */
    unsigned char type, agent, key; /* key 3: one that no other message has */
    bool hidden, redacted, amended;
    bool gone;                /* hidden, and a rewrite has left it out */
    bool may_go;              /* hidden when a rewrite ran that may have left it out */
    bool open;                /* a stream writes it, or its writer is gone */
    bool unfinished;          /* open, recovered, or a fork of such a one */
} item;

typedef struct store_model {
    item items[MODEL_MOST];
    struct { int at, number; } notes[MODEL_MOST]; /* each of the message `at` */
    int count, n_notes;
    int numbers;              /* numbers of messages and notes */
    int facts[MODEL_PLACES]; /* 0: none */
    int fork, parent, parent_facts; /* places of the newest fork, 0: none; facts then */
    int forked_at;            /* the message; -1: before the first */
} store_model;

#define MODEL_CHANGES(X)                                                       \
    X(APPEND, append) X(AMEND, amend) X(HIDE, hide) X(HIDE_RANGE, hide_range)  \
    X(REWIND, rewind) X(NOTE, note) X(FACTS, facts) X(REDACT, redact)          \
    X(FORK, fork) X(BEGIN, begin) X(FEED, feed) X(END, end) X(RECOVER, recover) \
    X(COMPACT, compact)

typedef enum change_kind {
#define X(name, word) DO_##name,
    MODEL_CHANGES(X)
#undef X
} change_kind;

typedef struct change {
    change_kind what;
    int at;                   /* the message; REWIND: -1 is before the first */
    int to;                   /* HIDE_RANGE: the last one; FACTS: the value */
    int place;                /* of APPEND, BEGIN, HIDE_RANGE, REWIND, FACTS; FORK: new */
    bool empty;               /* FORK: before the first message, whatever `at` is */
    short size;               /* AMEND */
    item fresh[MODEL_GROUP]; /* APPEND, BEGIN */
    int n_fresh;
    uint64_t hides, told;     /* how many should be hidden, and the store's answer */
} change;

static inline const char *model_word(change_kind what)
{
#define X(name, word) #word,
    static const char *const words[] = {MODEL_CHANGES(X)};
#undef X
    return words[what];
}


/* ---- messages ---- */

static inline ms_str model_place(int place)
{
    static const char *const names[] = {"place_0", "place_1", "place_2"};
    static char forks[256][24]; /* a call that uses one lets others be looked at */
    if (place < MODEL_PLACES) return ms_str_of(names[place]);
    snprintf(forks[place % 256], sizeof forks[0], "fork_%d", place);
    return ms_str_of(forks[place % 256]);
}

static inline ms_str model_agent(const item *e)
{
    return ms_str_of(e->agent ? "x" : NULL);
}

/* Returns the text of a message, with a unique mark. */
static inline ms_str model_text(const item *e, char text[MODEL_TEXT])
{
    if (e->redacted) return MS_STR("[redacted]");
    int n = snprintf(text, 40, "<mark %d.%d>", e->number, e->version);
    size_t used = (size_t)n + (size_t)e->size;
    memset(text + n, 'a' + (e->number + e->version) % 26, (size_t)e->size);
    memset(text + used, '+', e->parts);
    return ms_str_n(text, used + e->parts);
}

static inline ms_type model_type(const item *e)
{
    static const ms_type types[] = {MS_T_USER_MESSAGE, MS_T_ASSISTANT_MESSAGE,
                                    MS_T_OBSERVATION, MS_T_GLOBAL_OBSERVATION};
    return types[e->type];
}

/* Makes the message of an item; the end of `text` holds its key. */
static inline ms_envelope model_message(const item *e, char text[MODEL_TEXT])
{
    static const char *const keys[] = {NULL, "k1", "k2"};
    char *key = text + MODEL_TEXT - MODEL_KEY;
    ms_envelope m;
    snprintf(key, MODEL_KEY, "key %d", e->number);
    memset(&m, 0, sizeof m);
    m.type = model_type(e);
    m.content = ms_text_n(model_text(e, text));
    m.agent_key = model_agent(e);
    m.key = ms_str_of(e->key < 3 ? keys[e->key] : key);
    return m;
}

static inline ms_str model_note(int number, char text[24])
{
    snprintf(text, 24, "note %d", number);
    return ms_str_of(text);
}


/* ---- changes ---- */

static inline void model_append(store_model *h, const change *c)
{
    for (int i = 0; i < c->n_fresh; i++) {
        item e = c->fresh[i];
        e.place = c->place;
        e.number = h->numbers++;
        e.open = e.unfinished = c->what == DO_BEGIN;
        h->items[h->count++] = e;
    }
}

static inline void model_hide(store_model *h, change *c, int from, int to)
{
    c->hides = 0;
    for (item *e = &h->items[from]; e <= &h->items[to]; e++) {
        if (e->place != c->place || e->hidden) continue;
        e->hidden = true;
        c->hides++;
    }
}

/* Makes a fork: a copy of the place's visible messages up to one. */
static inline void model_fork(store_model *h, const change *c)
{
    int place = h->items[c->at].place;
    for (int i = 0; i <= c->at && !c->empty; i++) {
        item e = h->items[i];
        if (e.place != place || e.hidden) continue;
        e.place = c->place;
        e.seq = 0;
        e.open = false;
        h->items[h->count++] = e;
    }
    h->fork = c->place;
    h->parent = place;
    h->parent_facts = h->facts[place];
    h->forked_at = c->empty ? -1 : c->at;
}

/* A rewrite leaves out what is hidden. Notes of such messages are not among the notes. */
static inline void model_compact(store_model *h)
{
    for (int i = 0; i < h->count; i++) h->items[i].gone = h->items[i].hidden;
}

/* A rewrite that goes on beside changes leaves out some of what is hidden by its end. */
static inline void model_may_go(store_model *h)
{
    for (int i = 0; i < h->count; i++)
        if (h->items[i].hidden) h->items[i].may_go = true;
}

static inline uint64_t model_forked_seq(const store_model *h)
{
    return h->forked_at >= 0 ? h->items[h->forked_at].seq : 0;
}

static inline void model_do(store_model *h, change *c)
{
    item *e = &h->items[c->at >= 0 ? c->at : 0];
    switch (c->what) {
    case DO_APPEND:
    case DO_BEGIN: model_append(h, c); break;
    case DO_AMEND:
        e->version++;
        e->size = c->size;
        e->parts = 0;
        e->amended = true;
        e->unfinished = false;
        break;
    case DO_HIDE: e->hidden = true; break;
    case DO_HIDE_RANGE: model_hide(h, c, c->at, c->to); break;
    case DO_REWIND: model_hide(h, c, c->at + 1, h->count - 1); break;
    case DO_NOTE:
        h->notes[h->n_notes].at = c->at;
        h->notes[h->n_notes++].number = h->numbers++;
        break;
    case DO_FACTS: h->facts[c->place] = c->to; break;
    case DO_REDACT: e->redacted = true; break;
    case DO_FORK: model_fork(h, c); break;
    case DO_FEED: e->parts++; break;
    case DO_END: e->unfinished = false; /* fall through */
    case DO_RECOVER:
        e->open = false;
        e->amended = true;
        break;
    case DO_COMPACT: model_compact(h); break;
    }
}


/* ---- the same with a store: h is already as it should be after the call ---- */

static inline ms_result model_call_append(store_model *h, const change *c,
                                          ms_store *store, ms_error *err)
{
    char texts[MODEL_GROUP][MODEL_TEXT];
    ms_envelope batch[MODEL_GROUP];
    uint64_t seqs[MODEL_GROUP];
    ms_append_opts opts;
    ms_result result;
    item *fresh = &h->items[h->count - c->n_fresh];
    memset(&opts, 0, sizeof opts);
    opts.location = model_place(c->place);
    opts.seqs = seqs;
    for (int i = 0; i < c->n_fresh; i++) batch[i] = model_message(&fresh[i], texts[i]);
    if (c->n_fresh == 1) result = ms_append(store, opts.location, batch, seqs, err);
    else result = ms_append_batch(store, batch, (size_t)c->n_fresh, &opts, err);
    for (int i = 0; result == MS_OK && i < c->n_fresh; i++) fresh[i].seq = seqs[i];
    return result;
}

static inline ms_result model_call(store_model *h, change *c, ms_store *store,
                                   ms_stream *stream, ms_error *err)
{
    static const ms_stream_opts every_part = {.every_part = true};
    int to, at = c->what == DO_BEGIN ? h->count - 1 : c->at;
    const item *e = &h->items[at >= 0 ? at : 0];
    char text[MODEL_TEXT], small_text[40];
    ms_str place = model_place(c->place);
    ms_envelope m = model_message(e, text);
    c->told = c->hides;
    switch (c->what) {
    case DO_APPEND: return model_call_append(h, c, store, err);
    case DO_AMEND:
        m.key = m.agent_key = ms_str_of(NULL);
        return ms_amend(store, e->seq, &m, err);
    case DO_HIDE: return ms_hide(store, e->seq, err);
    case DO_HIDE_RANGE:
        for (to = c->to; h->items[to].seq == 0 && to > c->at;) to--; /* one that is gone */
        return ms_hide_range(store, place, e->seq, h->items[to].seq, &c->told, err);
    case DO_REWIND:
        return ms_rewind(store, place, c->at < 0 ? 0 : e->seq, &c->told, err);
    case DO_NOTE:
        return ms_note(store, e->seq, MS_STR("kind"),
                       ms_text_n(model_note(h->notes[h->n_notes - 1].number,
                                            small_text)), err);
    case DO_FACTS:
        snprintf(small_text, sizeof small_text, "{\"n\":%d}", c->to);
        return ms_location_set(store, place, ms_str_of(small_text), err);
    case DO_REDACT: return ms_redact(store, e->seq, err);
    case DO_FORK:
        return ms_fork(store, model_place(h->parent), model_forked_seq(h), place,
                       NULL, err);
    case DO_BEGIN: return ms_stream_begin(stream, store, place, &m, &every_part, err);
    case DO_FEED: return ms_stream_feed(stream, MS_STR("+"), err);
    case DO_END: return ms_stream_end(stream, NULL, NULL, err);
    case DO_RECOVER: return ms_stream_recover(store, e->seq, NULL, err);
    case DO_COMPACT: return MS_OK; /* the caller rewrites */
    }
    return MS_E_ARGUMENT;
}

/* Returns whether a record is that of an item, whatever its number. */
static inline bool model_is_of(const item *e, const ms_msg *msg)
{
    char mark[40];
    ms_str text = ms_content(msg).text;
    size_t len = e->redacted ? 1 : (size_t)snprintf(mark, sizeof mark, "<mark %d.", e->number);
    return text.len >= len && memcmp(text.ptr, e->redacted ? "[" : mark, len) == 0;
}

/* Two messages can look alike, but no message changes its number. */
static inline bool model_may_be(const item *e, const ms_msg *msg)
{
    return (e->seq == 0 || e->seq == ms_seq(msg)) && model_is_of(e, msg);
}

/* Learns the numbers that the store gave. Messages that may have gone have none when they
 * have: a later one can have theirs. */
static inline ms_result model_learn(store_model *h, ms_store *store)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    int i = h->count;
    memset(&q, 0, sizeof q);
    while (i > 0 && h->items[i - 1].seq == 0) i--;
    if (i == h->count) return MS_OK;
    while (i > 0 && h->items[i - 1].may_go) i--;
    q.raw = MS_RAW_MESSAGES;
    q.after_seq = i > 0 ? h->items[i - 1].seq : 0;
    ms_result result = ms_query_open(store, &q, &it, NULL);
    if (result != MS_OK) return result;
    while (i < h->count && (msg = ms_next(&it)) != NULL) {
        while (i < h->count && h->items[i].may_go && !model_may_be(&h->items[i], msg))
            h->items[i++].seq = 0;
        if (i < h->count) h->items[i++].seq = ms_seq(msg);
    }
    while (i < h->count && h->items[i].may_go) h->items[i++].seq = 0;
    result = ms_cursor_close(&it, NULL);
    return result == MS_OK && i < h->count ? MS_E_NOT_FOUND : result;
}


/* ---- does a store show it? ---- */

static inline const char *model_item_differs(const item *e, const ms_msg *msg)
{
    char text[MODEL_TEXT];
    uint32_t flags = ms_flags(msg);
    if (e->seq != 0 && e->seq != ms_seq(msg)) return "a number";
    if (ms_type_of(msg) != model_type(e)) return "a type";
    if (!ms_str_equal(test_location(msg), model_place(e->place))) return "a place";
    if (!ms_str_equal(test_agent_key(msg), model_agent(e))) return "an agent";
    if (!ms_str_equal(ms_content(msg).text, model_text(e, text))) return "a text";
    if (((flags & MS_FLAG_REDACTED) != 0) != e->redacted) return "whether it is redacted";
    if (e->redacted) return NULL;
    if (((flags & MS_FLAG_AMENDED) != 0) != e->amended) return "whether it is amended";
    if (((flags & MS_FLAG_UNFINISHED) != 0) != e->unfinished)
        return "whether it is finished";
    return NULL;
}

/* Returns whether a query selects this message. */
static inline bool model_asks(const item *e, const ms_query *q)
{
    if (e->hidden) return false;
    if (q->location.ptr != NULL && !ms_str_equal(q->location, model_place(e->place)))
        return false;
    if (q->views == MS_VIEW_CONVERSATION)
        return (MS_BIT(model_type(e)) & MS_TYPES_CONVERSATION) != 0;
    return q->views != MS_VIEW_TEAM || e->agent == 1;
}

static inline const char *model_query_differs(const store_model *h, ms_store *store,
                                              const ms_query *q)
{
    ms_cursor it;
    const ms_msg *msg;
    const char *what = NULL;
    int i = 0;
    if (ms_query_open(store, q, &it, NULL) != MS_OK) return "a query that fails";
    while (what == NULL && (msg = ms_next(&it)) != NULL) {
        while (i < h->count && !model_asks(&h->items[i], q)) i++;
        what = i < h->count ? model_item_differs(&h->items[i++], msg)
                            : "a message too much";
    }
    while (i < h->count && !model_asks(&h->items[i], q)) i++;
    if (ms_cursor_close(&it, NULL) != MS_OK && what == NULL) what = "the cursor's result";
    return what == NULL && i < h->count ? "a message is missing" : what;
}

/* Returns whether that is note n. Notes of redacted messages are erased. */
static inline bool model_note_is(const store_model *h, int n, const ms_msg *msg)
{
    char text[24];
    const item *e = &h->items[h->notes[n].at];
    ms_str is = ms_content(msg).text;
    bool its = e->seq == 0 || ms_seq(msg) == e->seq;
    if (e->redacted) return its && is.len > 0 && is.ptr[0] == '[';
    return ms_str_equal(is, model_note(h->notes[n].number, text));
}

/* Moves on from note n to one that every store has. */
static inline int model_next_note(const store_model *h, int n)
{
    while (n < h->n_notes && h->items[h->notes[n].at].may_go) n++;
    return n;
}

static inline const char *model_notes_differ(const store_model *h, ms_store *store)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    int n = 0;
    bool same = true;
    memset(&q, 0, sizeof q);
    q.raw = MS_RAW_NOTES;
    if (ms_query_open(store, &q, &it, NULL) != MS_OK) return "the query of notes";
    for (; same && (msg = ms_next(&it)) != NULL; n++) {
        int must = model_next_note(h, n);
        while (n < must && !model_note_is(h, n, msg)) n++;
        same = n < h->n_notes && model_note_is(h, n, msg);
    }
    if (ms_cursor_close(&it, NULL) != MS_OK) return "the notes' cursor";
    return same && model_next_note(h, n) == h->n_notes ? NULL : "a note";
}

static inline bool model_fact_is(ms_str facts, const char *name, const char *want)
{
    ms_str value;
    if (!ms_json_member(facts, ms_str_of(name), &value)) return want == NULL;
    return ms_str_equal(value, ms_str_of(want));
}

/* Compares the facts of each place, and of the newest fork, whose members are in any
 * order. */
static inline const char *model_facts_differ(const store_model *h, ms_store *store,
                                             ms_arena *arena)
{
    char n[24], seq[24], parent[24];
    ms_str facts;
    for (int i = 0; i < MODEL_PLACES; i++) {
        snprintf(n, sizeof n, h->facts[i] != 0 ? "{\"n\":%d}" : "{}", h->facts[i]);
        if (ms_location_get(store, model_place(i), arena, &facts, NULL) != MS_OK)
            return "facts that cannot be read";
        if (!ms_str_equal(facts, ms_str_of(n))) return "other facts";
    }
    if (h->fork == 0) return NULL;
    if (ms_location_get(store, model_place(h->fork), arena, &facts, NULL) != MS_OK)
        return "facts of the fork that cannot be read";
    snprintf(n, sizeof n, "%d", h->parent_facts);
    snprintf(seq, sizeof seq, "%lu", (unsigned long)model_forked_seq(h));
    snprintf(parent, sizeof parent, "\"%s\"", model_place(h->parent).ptr);
    bool known = h->forked_at < 0 || model_forked_seq(h) != 0;
    bool same = model_fact_is(facts, "parent", parent) &&
                (!known || model_fact_is(facts, "parent_seq", seq)) &&
                model_fact_is(facts, "n", h->parent_facts != 0 ? n : NULL);
    return same ? NULL : "the fork's facts";
}

static inline const char *model_totals_differ(const store_model *h, ms_store *store)
{
    static char text[200];
    ms_stat stat;
    uint64_t shown = 0, most = 0, least = 0;
    for (const item *e = h->items; e < h->items + h->count; e++) {
        shown += !e->hidden;
        most += e->hidden && !e->gone;
        least += e->hidden && !e->gone && !e->may_go;
    }
    if (ms_store_stat(store, &stat, NULL) != MS_OK) return "no totals";
    if (stat.messages == shown && stat.hidden >= least && stat.hidden <= most) return NULL;
    snprintf(text, sizeof text,
             "the totals: %llu messages, not %llu; %llu hidden, not %llu to %llu; "
             "%llu damaged",
             (unsigned long long)stat.messages, (unsigned long long)shown,
             (unsigned long long)stat.hidden, (unsigned long long)least,
             (unsigned long long)most, (unsigned long long)stat.damaged);
    return text;
}

/* Where messages may have gone, totals do not tell whether a hidden one that has to be
 * there is: an append and its hiding look like nothing. */
static inline const char *model_hidden_differ(const store_model *h, ms_store *store)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    bool may_go = false;
    int i = 0;
    for (int k = 0; k < h->count; k++) may_go = may_go || h->items[k].may_go;
    if (!may_go) return NULL;
    memset(&q, 0, sizeof q);
    q.raw = MS_RAW_MESSAGES;
    if (ms_query_open(store, &q, &it, NULL) != MS_OK) return "hidden messages unread";
    for (bool ends = false; !ends; ends = msg == NULL) {
        msg = ms_next(&it);
        for (; i < h->count; i++) {
            const item *e = &h->items[i];
            bool stays = e->hidden && !e->gone && !e->may_go && e->seq != 0;
            if (!stays) continue;
            if (msg != NULL && ms_seq(msg) < e->seq) break;
            if (msg == NULL || ms_seq(msg) > e->seq || !model_is_of(e, msg)) {
                (void)ms_cursor_close(&it, NULL);
                return "a hidden message that may not go";
            }
        }
    }
    return ms_cursor_close(&it, NULL) == MS_OK ? NULL : "hidden messages unread";
}

/* Everything in order, the conversation of one place and an agent of another, notes,
 * facts and totals. Resets the arena. */
static inline const char *model_differs(const store_model *h, ms_store *store,
                                        ms_arena *arena)
{
    static const ms_str agent = {"x", 1};
    static const unsigned views[] = {MS_VIEW_CONVERSATION, MS_VIEW_TEAM};
    ms_query q;
    memset(&q, 0, sizeof q);
    q.arena = arena;
    q.views = MS_VIEW_TIMELINE;
    q.agent_keys = &agent;
    q.n_agent_keys = 1;
    const char *what = model_query_differs(h, store, &q);
    for (int i = 0; i < 2 && what == NULL; i++) {
        q.location = model_place(i);
        q.views = views[i];
        what = model_query_differs(h, store, &q);
    }
    if (what == NULL) what = model_notes_differ(h, store);
    if (what == NULL) what = model_facts_differ(h, store, arena);
    if (what == NULL) what = model_totals_differ(h, store);
    if (what == NULL) what = model_hidden_differ(h, store);
    ms_arena_reset(arena);
    return what;
}

#endif /* STORE_MODEL_H */
