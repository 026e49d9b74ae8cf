/* Random lives of a ring, in RAM or in flash, and the list of all records that it took.
 *
 * A record of the list is a copy of the store's record. It is made when an operation has
 * returned, and must be what the operation appends. Later the store has a part of the
 * list, which its suite knows: those records, byte by byte, in their order. */

#ifndef RING_OPERATIONS_H
#define RING_OPERATIONS_H

#include "stores.h"

enum { PLACES = 4, OP_MOST = 12, OP_TEXT = 1500 };

static const char *const places[PLACES] = {"cave", "tower", "a long name of a place",
                                           "x"};

static inline void *memory(size_t size)
{
    void *p = calloc(1, size);
    if (p == NULL) abort();
    return p;
}


/* ---- records ---- */

typedef struct list {
    ms_msg **items;           /* copies; NULL: the record that keeps numbers */
    size_t n, cap;
} list;

/* msg NULL: the record that keeps numbers. */
static inline void list_put(list *l, const ms_msg *msg)
{
    if (l->n == l->cap) {
        l->cap = l->cap * 2 + 16;
        l->items = (ms_msg **)realloc(l->items, l->cap * sizeof *l->items);
        if (l->items == NULL) abort();
    }
    void *copy = msg != NULL ? memory((ms_size(msg) + 7) / 8 * 8) : NULL;
    if (msg != NULL) memcpy(copy, msg, ms_size(msg));
    l->items[l->n++] = (ms_msg *)copy;
}

static inline void list_empty(list *l)
{
    for (size_t i = 0; i < l->n; i++) free(l->items[i]);
    free(l->items);
    memset(l, 0, sizeof *l);
}

/* Adds the newest records of a store, as they stand; newest 0: all. */
static inline void list_read(list *l, ms_store *store, size_t newest)
{
    ms_cursor it;
    ms_query q = query_of(no_str(), 0);
    q.raw = MS_RAW_ALL;
    q.limit = newest;
    EACH (msg, store, &q, &it) list_put(l, msg);
}

static inline uint32_t record_units(const ms_msg *msg)
{
    return msg != NULL ? (uint32_t)((ms_size(msg) + 7) / 8) : 6; /* a GAP has 44 bytes */
}

static inline bool record_is(const ms_msg *msg, ms_kind kind)
{
    return msg != NULL && ms_kind_of(msg) == kind;
}

static inline unsigned record_place(const ms_msg *msg)
{
    unsigned i = 0;
    while (!ms_str_equal(test_location(msg), ms_str_of(places[i]))) i++;
    return i;
}

/* Returns the largest number that a message or change is about. */
static inline uint64_t record_last(const ms_msg *msg)
{
    uint64_t last = ms_seq(msg);
    if (ms_kind_of(msg) != MS_KIND_HIDE) return last;
    ms_str text = ms_content(msg).text;
    const char *at = (const char *)memmem(text.ptr, text.len, "\"last\":", 7);
    assert_non_null(at);
    return strtoull(at + 7, NULL, 10);
}

/* Compares all bytes but the checks, which depend on the place. */
static inline bool record_same(const ms_msg *a, const ms_msg *b)
{
    const char *x = (const char *)a, *y = (const char *)b;
    return ms_size(a) == ms_size(b) && memcmp(x, y, 24) == 0 &&
           memcmp(x + 40, y + 40, ms_size(a) - 40) == 0;
}


/* ---- operations ---- */

typedef struct op {
    ms_kind kind;             /* of its records */
    size_t n;                 /* how many */
    uint64_t seq, last;       /* of the first message; of those that a change is about */
    ms_str place;             /* of a change */
    ms_envelope m[OP_MOST];
    char text[OP_MOST][OP_TEXT + 1], key[8];
} op;

/* Message i. One with a key is always the same. */
static inline void op_message(op *o, size_t i, uint64_t *rng, size_t most, bool keys)
{
    static const ms_type types[] = {MS_T_USER_MESSAGE, MS_T_OBSERVATION, MS_T_FINAL};
    static const char *const agents[] = {NULL, "a", "b"};
    static const char *const turns[] = {"t0", "t1", "t2", "t3", NULL};
    unsigned place = (unsigned)test_below(rng, PLACES);
    uint64_t number = test_below(rng, 30), same = number + 1, *from = rng;
    bool has_key = keys && test_one_in(rng, 5);
    if (has_key) from = &same;
    ms_type type = types[test_below(from, 8) == 0 ? 0 : 1 + test_below(from, 2)];
    size_t len = test_one_in(from, 20) ? test_below(from, most) : test_below(from, 60);
    for (size_t k = 0; k < len; k++) o->text[i][k] = (char)('a' + test_below(from, 26));
    o->text[i][len] = '\0';
    o->m[i] = ms_message(type, ms_text(o->text[i]));
    o->m[i].location = ms_str_of(places[place]);
    o->m[i].agent_key = ms_str_of(agents[test_below(from, 3)]);
    if (place == 1)
        o->m[i].turn_id = ms_str_of(turns[has_key ? number % 5 : (*rng >> 40) / 3 % 5]);
    if (!has_key) return;
    snprintf(o->key, sizeof o->key, "k%u", (unsigned)number);
    o->m[i].key = ms_str_of(o->key);
}

/* A change of a message that the store shows, or of the facts of a place. */
static inline void op_change(op *o, uint64_t *rng, const ms_msg *about)
{
    static const ms_kind kinds[] = {MS_KIND_AMEND, MS_KIND_NOTE, MS_KIND_HIDE,
                                    MS_KIND_HIDE};
    unsigned how = (unsigned)test_below(rng, 4);
    o->n = 1;
    o->kind = about != NULL ? kinds[how] : MS_KIND_LOCATION;
    o->place = about != NULL ? test_location(about)
                             : ms_str_of(places[test_below(rng, PLACES)]);
    o->seq = o->last = about != NULL ? ms_seq(about) : 0;
    if (how == 3) o->last += test_below(rng, 6);
    snprintf(o->text[0], sizeof o->text[0],
             about != NULL ? "%0*u" : "{\"t\":\"%0*u\"}", (int)test_below(rng, 60) + 1,
             (unsigned)test_below(rng, 1000000));
    o->m[0] = ms_message(about != NULL ? ms_type_of(about) : MS_T_FINAL,
                         ms_text(o->text[0]));
    if (about != NULL) o->m[0].turn_id = test_turn_id(about);
}

/* What comes next in a store whose records are l, of `given` numbers; most: of a text. */
static inline void op_random(op *o, uint64_t *rng, const list *l, ms_store *store,
                             uint64_t given, size_t most)
{
    uint64_t what = test_below(rng, 20);
    const ms_msg *shown;
    uint64_t old = test_below(rng, l->n > 12 && test_one_in(rng, 2) ? 12 : l->n + 1);
    const ms_msg *about = old < l->n ? l->items[l->n - 1 - old] : NULL;
    if (what == 19) {
        op_change(o, rng, NULL);
        return;
    }
    if (what >= 15 && record_is(about, MS_KIND_MESSAGE) &&
        ms_get_by_seq(store, ms_seq(about), NULL, &shown, NULL) == MS_OK) {
        op_change(o, rng, about);
        return;
    }
    o->kind = MS_KIND_MESSAGE;
    o->n = what < 13 ? 1 : 2 + test_below(rng, OP_MOST - 1);
    o->seq = given + 1;
    for (size_t i = 0; i < o->n; i++)
        op_message(o, i, rng, o->n == 1 ? most : 10, o->n == 1);
}

static inline ms_result op_do(op *o, ms_store *store, uint64_t seqs[OP_MOST])
{
    switch (o->kind) {
    case MS_KIND_AMEND: return ms_amend(store, o->seq, &o->m[0], NULL);
    case MS_KIND_NOTE:
        return ms_note(store, o->seq, MS_STR("mark"), o->m[0].content, NULL);
    case MS_KIND_LOCATION:
        return ms_location_set(store, o->place, o->m[0].content.text, NULL);
    case MS_KIND_HIDE:
        if (o->last == o->seq) return ms_hide(store, o->seq, NULL);
        return ms_hide_range(store, o->place, o->seq, o->last, NULL, NULL);
    default: break;
    }
    ms_append_opts opts = {.seqs = seqs};
    return ms_append_batch(store, o->m, o->n, &opts, NULL);
}

/* Returns whether that is record i of an operation. */
static inline bool op_fits(const op *o, size_t i, const ms_msg *msg)
{
    const ms_envelope *m = &o->m[i];
    if (!record_is(msg, o->kind)) return false;
    if (o->kind == MS_KIND_HIDE) return ms_seq(msg) == o->seq;
    if (!ms_str_equal(ms_content(msg).text, m->content.text)) return false;
    if (o->kind != MS_KIND_MESSAGE) return ms_seq(msg) == o->seq;
    return ms_seq(msg) == o->seq + i && ms_type_of(msg) == m->type &&
           ms_str_equal(test_location(msg), m->location) &&
           ms_str_equal(test_agent_key(msg), m->agent_key) &&
           ms_str_equal(test_turn_id(msg), m->turn_id) &&
           ms_str_equal(ms_get(msg, MS_F_KEY).text, m->key);
}

/* Adds the records of an operation, if they are the newest of a store. */
static inline bool list_take(list *l, ms_store *store, const op *o)
{
    list fresh = {NULL, 0, 0};
    bool fits = true;
    list_read(&fresh, store, o->n);
    fits = fresh.n == o->n;
    for (size_t i = 0; fits && i < o->n; i++) fits = op_fits(o, i, fresh.items[i]);
    for (size_t i = 0; fits && i < o->n; i++) list_put(l, fresh.items[i]);
    list_empty(&fresh);
    return fits;
}


/* ---- answers ---- */

/* A message is shown unless a later record hides it, with its newest text. */
static inline void must_show(const list *l, size_t i, ms_store *store)
{
    const ms_msg *m = l->items[i], *got;
    uint64_t seq = ms_seq(m);
    ms_str text = ms_content(m).text;
    bool hidden = false;
    for (size_t k = i + 1; k < l->n; k++) {
        const ms_msg *r = l->items[k];
        if (record_is(r, MS_KIND_AMEND) && ms_seq(r) == seq) text = ms_content(r).text;
        if (record_is(r, MS_KIND_HIDE) && record_place(r) == record_place(m))
            hidden = hidden || (ms_seq(r) <= seq && seq <= record_last(r));
    }
    assert_int_equal(ms_get_by_seq(store, seq, NULL, &got, NULL),
                     hidden ? MS_E_NOT_FOUND : MS_OK);
    if (!hidden) assert_true(ms_str_equal(ms_content(got).text, text));
}

/* The store has these records, and shows what they mean. */
static inline void must_show_all(const list *l, ms_store *store)
{
    ms_stat stat;
    uint64_t messages = 0, changes = 0;
    for (size_t i = 0; i < l->n; i++) {
        if (record_is(l->items[i], MS_KIND_MESSAGE)) must_show(l, i, store);
        messages += record_is(l->items[i], MS_KIND_MESSAGE);
        changes += l->items[i] != NULL && !record_is(l->items[i], MS_KIND_MESSAGE);
    }
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    assert_int_equal(stat.messages + stat.hidden, messages);
    assert_int_equal(stat.changes, changes);
    assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
}

static inline void must_query_alike(ms_store *a, ms_store *b, const ms_query *q)
{
    ms_cursor it, other;
    assert_int_equal(ms_query_open(b, q, &other, NULL), MS_OK);
    EACH (msg, a, q, &it) {
        const ms_msg *same = ms_next(&other);
        assert_non_null(same);
        assert_int_equal(ms_size(msg), ms_size(same));
        assert_memory_equal(msg, same, ms_size(msg));
    }
    assert_null(ms_next(&other));
    assert_int_equal(ms_cursor_close(&other, NULL), MS_OK);
}

static inline ms_str facts_of(ms_store *store, unsigned place, ms_arena *arena)
{
    ms_str facts;
    assert_int_equal(ms_location_get(store, ms_str_of(places[place]), arena, &facts, NULL),
                     MS_OK);
    return facts;
}

/* A ring shows what a store shows that is no ring, and has read its image. */
static inline void must_show_its_image(ms_store *store)
{
    static char room[1 << 17];
    ms_arena arena;
    ms_store *plain;
    ms_stat stat, same;
    ms_str image = ms_mem_image(store);
    ms_mem_desc desc = {.buffer_size = 2 * image.len + 16384};
    desc.buffer = memory(desc.buffer_size);
    memcpy(desc.buffer, image.ptr, image.len);
    assert_int_equal(ms_mem_attach(&plain, &desc, NULL, NULL), MS_OK);
    ms_query all = query_of(no_str(), 0);
    must_query_alike(store, plain, &all);
    for (unsigned i = 0; i < PLACES; i++) {
        ms_query q = query_of(ms_str_of(places[i]), MS_VIEW_TIMELINE);
        must_query_alike(store, plain, &q);
        q.views = MS_VIEW_CONVERSATION;
        must_query_alike(store, plain, &q);
        q.views = MS_VIEW_AGENT;
        q.agent_key = MS_STR("a");
        must_query_alike(store, plain, &q);
        q.agent_key = MS_STR("b");
        must_query_alike(store, plain, &q);
        test_arena_init_fixed(&arena, room, sizeof room);
        ms_str facts = facts_of(store, i, &arena);
        assert_true(ms_str_equal(facts, facts_of(plain, i, &arena)));
    }
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    assert_int_equal(ms_store_stat(plain, &same, NULL), MS_OK);
    assert_int_equal(stat.messages, same.messages);
    assert_int_equal(stat.hidden, same.hidden);
    assert_int_equal(stat.changes, same.changes);
    assert_int_equal(stat.given_seq, same.given_seq);
    ms_close(plain);
    free(desc.buffer);
}

#endif /* RING_OPERATIONS_H */
