/* A change sequence: appends and changes of every kind that follow from a seed alone, or
 * from a plan. It is a model of the store: what that shows after the first n steps is
 * known, but for sequence numbers, which the sequence learns from the store. So a test
 * finds after a crash how many steps are there, and that none is half there. Only a
 * redaction that had not returned may be: then a writer redacts again before it compares.
 *
 *     change_sequence d;
 *     sequence_begin(&d, seed);
 *     while (...) if (sequence_step(&d, store, &err) != MS_OK) ...     does a step
 *     sequence_replay(&d, steps, &other)       what it was or will be after those steps
 *     sequence_differs(&d, store)                     NULL: as it should be
 *
 * The functions assert nothing: they are called in child processes too.
 */

#ifndef CHANGE_SEQUENCE_H
#define CHANGE_SEQUENCE_H

#include "file_format.h"
#include "store_model.h"
#include "numbered_messages.h"

enum { SEQUENCE_MOST = MODEL_MOST, SEQUENCE_LONGEST = 700, SEQUENCE_LOST = 64 };

typedef struct change_sequence {
    uint64_t seed;
    int steps;                /* done so far */
    store_model h;
    int writing;              /* the message that is being written; -1: none */
    int lost[SEQUENCE_LOST];  /* steps after which the writer was gone */
    int n_lost;
    /* after so many steps */
    struct { int steps; uint64_t file; } rewrites[SEQUENCE_LOST];
    int n_rewrites;
    uint64_t file;            /* its inode; rewrites to later ones were lost; 0: none */
    bool redacting;           /* the last step was a redaction */
    int redacted;             /* the message it was about */
    const change *plan;       /* the steps; NULL: they follow from the seed */
    uint64_t longest;         /* bytes of a text of such steps */
    ms_stream w;
} change_sequence;

static inline void sequence_begin(change_sequence *d, uint64_t seed)
{
    memset(d, 0, sizeof *d);
    d->seed = seed;
    d->longest = SEQUENCE_LONGEST;
    d->writing = -1;
}

/* Chooses a visible message; fit: one that can be amended. -1: there is none. */
static inline int sequence_pick(const store_model *h, uint64_t *rng, bool fit)
{
    for (int tries = 0; tries < 20 && h->count > 0; tries++) {
        int i = (int)test_below(rng, (uint64_t)h->count);
        const item *e = &h->items[i];
        if (!e->hidden && !(fit && (e->redacted || e->open))) return i;
    }
    return -1;
}

static inline item sequence_fresh(const change_sequence *d, uint64_t *rng)
{
    item e;
    memset(&e, 0, sizeof e);
    e.type = 1;
    e.size = (short)test_below(rng, test_below(rng, 5) == 0 ? d->longest : 60);
    return e;
}

/* Hides one message; or it and up to three after it; or all after it. */
static inline change sequence_hide(const store_model *h, uint64_t *rng, change c)
{
    c.place = h->items[c.at].place;
    c.to = c.at + 3 < h->count ? c.at + 3 : h->count - 1;
    c.what = DO_HIDE;
    if (test_below(rng, 2) != 0) c.what = test_below(rng, 6) ? DO_HIDE_RANGE : DO_REWIND;
    return c;
}

/* Begins a message, or writes on, or ends it; one whose writer is gone is recovered. */
static inline change sequence_stream(const change_sequence *d, uint64_t *rng, change c)
{
    const store_model *h = &d->h;
    for (c.at = h->count - 1; c.at >= 0; c.at--)
        if (h->items[c.at].open && !h->items[c.at].hidden && c.at != d->writing) break;
    c.what = DO_RECOVER;
    if (c.at >= 0) return c;
    c.at = d->writing;
    if (c.at >= 0 && !h->items[c.at].hidden) {
        bool ends = h->items[c.at].parts > 20 || test_below(rng, 5) == 0;
        c.what = ends ? DO_END : DO_FEED;
        return c;
    }
    c.what = DO_BEGIN;
    c.place = (int)test_below(rng, 3);
    c.fresh[c.n_fresh++] = sequence_fresh(d, rng);
    return c;
}

/* Returns whether the model is so short that a fork leaves the file small. */
static inline bool sequence_may_fork(const store_model *h, int i)
{
    return h->count < 150 && h->items[i].place < MODEL_PLACES;
}

static inline change sequence_next(const change_sequence *d, uint64_t *rng)
{
    static const change_kind kinds[24] = {
        DO_APPEND, DO_APPEND, DO_APPEND, DO_APPEND, DO_APPEND, DO_APPEND, DO_APPEND,
        DO_AMEND, DO_AMEND, DO_HIDE, DO_HIDE, DO_NOTE, DO_NOTE, DO_FACTS, DO_BEGIN,
        DO_FORK, DO_BEGIN, DO_REDACT, DO_BEGIN, DO_BEGIN, DO_BEGIN, DO_BEGIN, DO_BEGIN,
        DO_BEGIN,
    };
    change c = {.what = kinds[test_below(rng, 24)]};
    c.at = sequence_pick(&d->h, rng, c.what == DO_AMEND || c.what == DO_NOTE ||
                                      c.what == DO_REDACT);
    if (c.at < 0 || d->h.count > SEQUENCE_MOST - 400) c.what = DO_APPEND;
    if (c.what == DO_FORK && !sequence_may_fork(&d->h, c.at)) c.what = DO_BEGIN;
    c.place = c.what == DO_FORK ? 100 + d->steps : (int)test_below(rng, 3);
    c.to = d->steps + 1;
    if (c.what == DO_AMEND) c.size = sequence_fresh(d, rng).size;
    if (c.what == DO_APPEND) c.n_fresh = 1 + (int)test_below(rng, 4);
    for (int i = 0; i < c.n_fresh; i++) c.fresh[i] = sequence_fresh(d, rng);
    for (int i = 0; i < c.n_fresh; i++) c.fresh[i].key = test_below(rng, 4) ? 0 : 3;
    if (c.what == DO_HIDE) return sequence_hide(&d->h, rng, c);
    return c.what == DO_BEGIN ? sequence_stream(d, rng, c) : c;
}

/* Returns what the next step does. */
static inline change sequence_change(const change_sequence *d)
{
    uint64_t rng = d->seed * UINT64_C(0x2545F4914F6CDD1D) + (uint64_t)d->steps;
    return d->plan != NULL ? d->plan[d->steps] : sequence_next(d, &rng);
}

/* Notes that a rewrite at this step may have left out what is hidden now. `last`: so may
 * one at a later step, since a new file may lack the newest steps. */
static inline void sequence_leave_out(change_sequence *d, bool last)
{
    for (int i = 0; i < d->n_rewrites; i++) {
        bool there = d->file == 0 || d->rewrites[i].file <= d->file;
        int steps = d->rewrites[i].steps;
        if (there && (last ? steps >= d->steps : steps == d->steps))
            model_may_go(&d->h);
    }
}

/* Notes that the log is rewritten now; file: the inode of the new one. */
static inline void sequence_rewritten(change_sequence *d, uint64_t file)
{
    if (d->n_rewrites == SEQUENCE_LOST) abort();
    d->rewrites[d->n_rewrites].steps = d->steps;
    d->rewrites[d->n_rewrites++].file = file;
    sequence_leave_out(d, true);
}

/* Does the next step, also on the store if there is one. After a failed step the sequence
 * must not be used. */
static inline ms_result sequence_step(change_sequence *d, ms_store *store, ms_error *err)
{
    for (int i = 0; i < d->n_lost; i++)
        if (d->lost[i] == d->steps) d->writing = -1;
    sequence_leave_out(d, false);
    ms_result result = store != NULL ? model_learn(&d->h, store) : MS_OK;
    if (result != MS_OK) return result;
    change c = sequence_change(d);
    model_do(&d->h, &c);
    if (store != NULL) result = model_call(&d->h, &c, store, &d->w, err);
    if (result != MS_OK) return result;
    if (c.what == DO_BEGIN) d->writing = d->h.count - 1;
    if (c.what == DO_END) d->writing = -1;
    d->redacting = c.what == DO_REDACT;
    d->redacted = c.at;
    d->steps++;
    return MS_OK;
}

/* Notes that the writing process has died, or that the log was opened again. */
static inline void sequence_writer_gone(change_sequence *d)
{
    if (d->n_lost > 0 && d->lost[d->n_lost - 1] == d->steps) return;
    if (d->n_lost == SEQUENCE_LOST) abort();
    d->lost[d->n_lost++] = d->steps;
    d->writing = -1;
}

/* Makes *out what d was after so many steps, or will be. Numbers are kept. */
static inline void sequence_replay(const change_sequence *d, int steps,
                                   change_sequence *out)
{
    int known = d->h.count;
    sequence_begin(out, d->seed);
    out->plan = d->plan;
    out->longest = d->longest;
    memcpy(out->rewrites, d->rewrites, sizeof d->rewrites);
    out->n_rewrites = d->n_rewrites;
    out->file = d->file;
    memcpy(out->lost, d->lost, sizeof d->lost);
    out->n_lost = d->n_lost;
    while (out->steps < steps) (void)sequence_step(out, NULL, NULL);
    sequence_leave_out(out, true);
    for (int i = 0; i < out->h.count && i < known; i++)
        out->h.items[i].seq = d->h.items[i].seq;
}


/* ---- looking ---- */

/* Returns the difference between the sequence and a store; NULL: none. */
static inline const char *sequence_differs(const change_sequence *d, ms_store *store)
{
    ms_arena arena;
    test_arena_init(&arena, NULL);
    const char *what = model_differs(&d->h, store, &arena);
    ms_arena_deinit(&arena);
    return what;
}

/* Zeroes what an abandoned append left after the last record of an undamaged file. */
static inline void sequence_forget_dead(unsigned char *bytes, size_t size)
{
    size_t at = FILE_SUPERBLOCK;
    while (at + FILE_HEADER + 8 <= size && file_get32(bytes + at) != 0) {
        size_t next = at + file_padded(file_get32(bytes + at));
        if (next <= at || next > size) break;
        at = next;
    }
    if (at < size) memset(bytes + at, 0, size - at);
}

/* Returns whether the bytes contain a text of a redacted message. Forks have texts of
 * their own with the same mark: a text that a fork shows does not count. */
static inline bool sequence_leaks(const change_sequence *d, const void *bytes,
                                  size_t size)
{
    for (const item *e = d->h.items; e < d->h.items + d->h.count; e++) {
        char mark[40];
        bool shown = false;
        if (!e->redacted) continue;
        for (int k = 0; k < d->h.count; k++)
            shown = shown || (d->h.items[k].number == e->number &&
                              !d->h.items[k].redacted);
        snprintf(mark, sizeof mark, "<mark %d.", e->number);
        if (!shown && memmem(bytes, size, mark, strlen(mark)) != NULL) return true;
    }
    return false;
}

/* The state that a crash may have left. */
typedef struct sequence_crash {
    int least, most;          /* steps that have to be there; steps that had begun */
    bool redacting;           /* the last one is a redaction that had not returned */
    int found;                /* steps that are there */
    bool leaky;               /* its redaction is incomplete, and the text may remain */
    const char *wrong;        /* NULL: nothing */
} sequence_crash;

/* Finds the number of steps that a store shows; *out is the sequence of them. A writer
 * redacts again where a redaction is incomplete. */
static inline void sequence_find(const change_sequence *d, ms_store *store, bool writing,
                                 sequence_crash *c, change_sequence *out)
{
    int n = c->most;
    ms_error err;
    c->wrong = "";
    for (; n >= c->least && c->wrong != NULL; n--) {
        sequence_replay(d, n, out);
        c->wrong = sequence_differs(out, store);
    }
    c->found = c->wrong == NULL ? n + 1 : c->most;
    bool half = c->redacting && c->found == c->most;
    c->leaky = half && !writing;
    if (!half) return;
    c->wrong = NULL;
    sequence_replay(d, c->most, out);
    if (!writing || model_learn(&out->h, store) != MS_OK) return;
    if (ms_redact(store, out->h.items[out->redacted].seq, &err) != MS_OK)
        c->wrong = "it cannot be redacted again";
    else
        c->wrong = sequence_differs(out, store);
}

/* Returns whether a file without a writer contains the text of a redacted message. */
static inline bool sequence_leaks_in(const change_sequence *d, unsigned char *bytes,
                                     size_t size)
{
    sequence_forget_dead(bytes, size);
    return sequence_leaks(d, bytes, size);
}

#endif /* CHANGE_SEQUENCE_H */
