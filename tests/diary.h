/* A diary: a sequence of appends and changes of every kind that follows from a seed
 * alone. What a store shows after the first n steps is known without asking it, so after
 * a crash it can be told whether every step that returned is in force and none is half
 * there.
 *
 *     diary d;
 *     diary_begin(&d, seed);
 *     while (...) if (diary_step(&d, store, &err) != MS_OK) ...     does a step
 *     diary_replay(&d, steps, &other)       what it was or will be after those steps
 *     diary_differs(&d, store)                                      NULL: as it should be
 *
 * The functions assert nothing: they are called in child processes too.
 */

#ifndef DIARY_H
#define DIARY_H

#include "logs.h"

enum { DIARY_MOST = 4000, DIARY_LONGEST = 700, DIARY_LOST = 64 };

/* One message as it should be. */
typedef struct entry {
    int location;             /* 0 to 2; from 100 on: forked by the step of that number */
    int number;               /* its text follows from it, and of a fork the original's */
    int version;              /* how often amended */
    int fed;                  /* pieces */
    bool visible, redacted, open;
    uint64_t seq;             /* in the store; 0: not known */
} entry;

typedef struct diary {
    uint64_t seed;
    int steps;                /* done so far */
    entry items[DIARY_MOST];
    int count, numbers;
    int notes[DIARY_MOST];    /* which message each note is about */
    int n_notes;
    int facts[3];             /* the step that set them; 0: none */
    int writing;              /* the message that is being written; -1: none */
    int lost[DIARY_LOST];     /* steps after which the writer was gone */
    int n_lost;
    bool redacting;           /* the last step was a redaction */
    int redacted;             /* the message it was about */
    ms_stream w;
} diary;

static inline void diary_begin(diary *d, uint64_t seed)
{
    memset(d, 0, sizeof *d);
    d->seed = seed;
    d->writing = -1;
}

static inline ms_str diary_location(int location, char name[24])
{
    snprintf(name, 24, location < 100 ? "place_%d" : "fork_%d", location);
    return ms_str_of(name);
}

/* The text of a message, with a mark that no other has. */
static inline ms_str diary_text(const entry *e, char text[DIARY_LONGEST + 1000])
{
    int n = snprintf(text, 40, "<mark %d.%d>", e->number, e->version);
    uint64_t h = (uint64_t)e->number * 77 + (uint64_t)e->version;
    size_t len = (size_t)test_below(&h, test_below(&h, 5) == 0 ? DIARY_LONGEST : 60);
    if (e->redacted) return ms_str_of("[redacted]");
    memcpy(text + n, scribe_page() + test_below(&h, 1000), len);
    size_t used = (size_t)n + len;
    for (int i = 1; i <= e->fed && used < DIARY_LONGEST + 980; i++)
        used += (size_t)snprintf(text + used, 20, "+%d", i);
    return ms_str_n(text, used);
}

/* A message that is visible; fit: that can be amended. -1: there is none. */
static inline int diary_pick(const diary *d, uint64_t *h, bool fit)
{
    for (int tries = 0; tries < 20 && d->count > 0; tries++) {
        int i = (int)test_below(h, (uint64_t)d->count);
        const entry *e = &d->items[i];
        if (e->visible && !(fit && (e->redacted || e->open))) return i;
    }
    return -1;
}

/* Learns the numbers of messages that the diary has and the store gave. */
static inline ms_result diary_learn(diary *d, ms_store *store)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    int i = d->count;
    memset(&q, 0, sizeof q);
    while (i > 0 && d->items[i - 1].seq == 0) i--;
    q.raw = MS_RAW_MESSAGES;
    q.after_seq = i > 0 ? d->items[i - 1].seq : 0;
    ms_result result = ms_query_open(store, &q, &it, NULL);
    if (result != MS_OK) return result;
    while (i < d->count && (msg = ms_next(&it)) != NULL) d->items[i++].seq = ms_seq(msg);
    result = ms_cursor_close(&it, NULL);
    return result == MS_OK && i < d->count ? MS_E_NOT_FOUND : result;
}

static inline entry *diary_add(diary *d, int location)
{
    entry *e = &d->items[d->count++];
    memset(e, 0, sizeof *e);
    e->location = location;
    e->number = d->numbers++;
    e->visible = true;
    return e;
}

/* ---- the steps; without a store only the diary goes on ---- */

static inline ms_result diary_append(diary *d, ms_store *store, uint64_t *h,
                                     ms_error *err)
{
    int n = 1 + (int)test_below(h, 4), location = (int)test_below(h, 3);
    static char texts[4][DIARY_LONGEST + 1000];
    char name[24];
    ms_envelope batch[4];
    ms_append_opts opts;
    int count = d->count, numbers = d->numbers;
    memset(&opts, 0, sizeof opts);
    opts.location = diary_location(location, name);
    for (int i = 0; i < n; i++) {
        entry *e = diary_add(d, location);
        batch[i] = ms_assistant_message(ms_text_n(diary_text(e, texts[i])));
    }
    if (store == NULL) return MS_OK;
    ms_result result = ms_append_batch(store, batch, (size_t)n, &opts, err);
    if (result == MS_OK) return MS_OK;
    d->count = count;
    d->numbers = numbers;
    return result;
}

static inline ms_result diary_amend(diary *d, ms_store *store, int i, ms_error *err)
{
    static char text[DIARY_LONGEST + 1000];
    entry e = d->items[i];
    ms_result result = MS_OK;
    e.version++;
    e.fed = 0;
    if (store != NULL) {
        ms_envelope m = ms_assistant_message(ms_text_n(diary_text(&e, text)));
        result = ms_amend(store, e.seq, &m, err);
    }
    if (result == MS_OK) d->items[i] = e;
    return result;
}

/* Hides up to three messages from i on, or all after it. */
static inline ms_result diary_hide(diary *d, ms_store *store, int i, uint64_t *h,
                                   ms_error *err)
{
    bool one = test_below(h, 2) == 0, rest = !one && test_below(h, 6) == 0;
    int last = one ? i : rest ? d->count - 1 : i + 3 < d->count ? i + 3 : d->count - 1;
    int first = rest ? i + 1 : i, location = d->items[i].location;
    char name[24];
    ms_result result = MS_OK;
    if (store != NULL && one) result = ms_hide(store, d->items[i].seq, err);
    else if (store != NULL && rest)
        result = ms_rewind(store, diary_location(location, name), d->items[i].seq, NULL,
                           err);
    else if (store != NULL)
        result = ms_hide_range(store, diary_location(location, name), d->items[i].seq,
                               d->items[last].seq, NULL, err);
    for (int k = first; result == MS_OK && k <= last; k++)
        if (d->items[k].location == location) d->items[k].visible = false;
    return result;
}

static inline ms_result diary_note(diary *d, ms_store *store, int i, ms_error *err)
{
    char text[24];
    ms_result result = MS_OK;
    snprintf(text, sizeof text, "note %d", d->n_notes);
    if (store != NULL)
        result = ms_note(store, d->items[i].seq, MS_STR("kind"), ms_text(text), err);
    if (result == MS_OK) d->notes[d->n_notes++] = i;
    return result;
}

static inline ms_result diary_set_facts(diary *d, ms_store *store, int location,
                                        ms_error *err)
{
    char name[24], facts[40];
    ms_result result = MS_OK;
    snprintf(facts, sizeof facts, "{\"step\":%d}", d->steps + 1);
    if (store != NULL)
        result = ms_location_set(store, diary_location(location, name), ms_str_of(facts),
                                 err);
    if (result == MS_OK) d->facts[location] = d->steps + 1;
    return result;
}

/* Begins a message, or writes on, or ends it; one whose writer is gone is recovered. */
static inline ms_result diary_stream(diary *d, ms_store *store, uint64_t *h,
                                     ms_error *err)
{
    static char text[DIARY_LONGEST + 1000];
    char name[24], part[20];
    ms_stream_opts opts;
    ms_result result = MS_OK;
    memset(&opts, 0, sizeof opts);
    opts.every_part = true;
    int lost = -1;
    for (int i = 0; i < d->count; i++)
        if (d->items[i].open && d->items[i].visible && i != d->writing) lost = i;
    if (lost >= 0) {
        if (store != NULL)
            result = ms_stream_recover(store, d->items[lost].seq, NULL, err);
        if (result == MS_OK) d->items[lost].open = false;
        return result;
    }
    entry *e = d->writing >= 0 ? &d->items[d->writing] : NULL;
    if (e == NULL || !e->visible) {
        int location = (int)test_below(h, 3);
        e = diary_add(d, location);
        ms_envelope m = ms_assistant_message(ms_text_n(diary_text(e, text)));
        if (store != NULL)
            result = ms_stream_begin(&d->w, store, diary_location(location, name), &m,
                                     &opts, err);
        e->open = true;
        d->writing = d->count - 1;
        if (result == MS_OK) return MS_OK;
        d->count--;
        d->numbers--;
        d->writing = -1;
        return result;
    }
    if (e->fed > 20 || test_below(h, 5) == 0) {
        if (store != NULL) result = ms_stream_end(&d->w, NULL, NULL, err);
        if (result != MS_OK) return result;
        e->open = false;
        d->writing = -1;
        return MS_OK;
    }
    snprintf(part, sizeof part, "+%d", e->fed + 1);
    if (store != NULL) result = ms_stream_feed(&d->w, ms_str_of(part), err);
    if (result == MS_OK) e->fed++;
    return result;
}

static inline ms_result diary_fork(diary *d, ms_store *store, int i, ms_error *err)
{
    int to = 100 + d->steps, count = d->count;
    char from_name[24], name[24];
    ms_result result = MS_OK;
    if (store != NULL)
        result = ms_fork(store, diary_location(d->items[i].location, from_name),
                         d->items[i].seq, diary_location(to, name), NULL, err);
    for (int k = 0; result == MS_OK && k <= i; k++) {
        if (d->items[k].location != d->items[i].location) continue;
        if (!d->items[k].visible) continue;
        d->items[count] = d->items[k];
        d->items[count].location = to;
        d->items[count].seq = 0;
        d->items[count++].open = false;
    }
    d->count = count;
    return result;
}

static inline ms_result diary_redact(diary *d, ms_store *store, int i, ms_error *err)
{
    ms_result result = MS_OK;
    if (store != NULL) result = ms_redact(store, d->items[i].seq, err);
    if (result != MS_OK) return result;
    d->items[i].redacted = true;
    d->redacting = true;
    d->redacted = i;
    return MS_OK;
}

/* Does not fork what is long, so that the file stays small. */
static inline bool diary_may_fork(const diary *d, int i)
{
    return i >= 0 && d->count < 150 && d->items[i].location < 100;
}

static inline ms_result diary_do(diary *d, ms_store *store, uint64_t *h, ms_error *err)
{
    uint64_t what = test_below(h, 24);
    bool fit = what == 7 || what == 8 || what == 11 || what == 12 || what == 17;
    int i = diary_pick(d, h, fit);
    if (what < 7 || i < 0 || d->count > DIARY_MOST - 400)
        return diary_append(d, store, h, err);
    if (what < 9) return diary_amend(d, store, i, err);
    if (what < 11) return diary_hide(d, store, i, h, err);
    if (what < 13) return diary_note(d, store, i, err);
    if (what < 14) return diary_set_facts(d, store, (int)test_below(h, 3), err);
    if (what == 15 && diary_may_fork(d, i)) return diary_fork(d, store, i, err);
    if (what == 17) return diary_redact(d, store, i, err);
    return diary_stream(d, store, h, err);
}

/* The next step, on the store too when there is one. On failure nothing has changed. */
static inline ms_result diary_step(diary *d, ms_store *store, ms_error *err)
{
    uint64_t h = d->seed * UINT64_C(0x2545F4914F6CDD1D) + (uint64_t)d->steps;
    d->redacting = false;
    for (int i = 0; i < d->n_lost; i++)
        if (d->lost[i] == d->steps) d->writing = -1;
    ms_result result = store != NULL ? diary_learn(d, store) : MS_OK;
    if (result == MS_OK) result = diary_do(d, store, &h, err);
    if (result == MS_OK) d->steps++;
    return result;
}

/* The process that wrote is gone, or the log was opened again. */
static inline void diary_writer_gone(diary *d)
{
    if (d->n_lost > 0 && d->lost[d->n_lost - 1] == d->steps) return;
    if (d->n_lost == DIARY_LOST) abort();
    d->lost[d->n_lost++] = d->steps;
    d->writing = -1;
}

/* Makes *out what d was after so many steps, or will be. Numbers are kept. */
static inline void diary_replay(const diary *d, int steps, diary *out)
{
    int known = d->count;
    diary_begin(out, d->seed);
    memcpy(out->lost, d->lost, sizeof d->lost);
    out->n_lost = d->n_lost;
    while (out->steps < steps) (void)diary_step(out, NULL, NULL);
    for (int i = 0; i < out->count && i < known; i++) out->items[i].seq = d->items[i].seq;
}


/* ---- looking ---- */

/* The notes and facts. */
static inline const char *diary_rest_differs(const diary *d, ms_store *store)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    const char *what = NULL;
    int n = 0;
    memset(&q, 0, sizeof q);
    q.raw = MS_RAW_NOTES;
    if (ms_query_open(store, &q, &it, NULL) != MS_OK) return "the query of notes failed";
    while (what == NULL && (msg = ms_next(&it)) != NULL) {
        char text[24];
        while (n < d->n_notes && d->items[d->notes[n]].redacted) n++;
        bool erased = ms_content(msg).text.len > 0 && ms_content(msg).text.ptr[0] == '[';
        if (erased) continue;
        snprintf(text, sizeof text, "note %d", n);
        if (n == d->n_notes || !ms_str_equal(ms_content(msg).text, ms_str_of(text)))
            what = "another note";
        n++;
    }
    while (n < d->n_notes && d->items[d->notes[n]].redacted) n++;
    if (ms_cursor_close(&it, NULL) != MS_OK && what == NULL) what = "the notes' cursor";
    if (what == NULL && n != d->n_notes) what = "a note is missing";
    for (int i = 0; what == NULL && i < 3; i++) {
        char name[24], want[40] = "{}";
        ms_str facts;
        ms_arena arena;
        test_arena_init(&arena, NULL);
        if (d->facts[i] != 0) snprintf(want, sizeof want, "{\"step\":%d}", d->facts[i]);
        if (ms_location_get(store, diary_location(i, name), &arena, &facts, NULL) !=
            MS_OK)
            what = "the facts cannot be read";
        else if (!ms_str_equal(facts, ms_str_of(want))) what = "other facts";
        ms_arena_deinit(&arena);
    }
    return what;
}

/* What differs between the diary and the messages that a store shows; NULL: nothing. */
static inline const char *diary_differs(const diary *d, ms_store *store)
{
    static char text[DIARY_LONGEST + 1000];
    char name[24];
    ms_query q;
    ms_cursor it;
    ms_arena arena;
    const ms_msg *msg;
    const char *what = NULL;
    int i = 0;
    memset(&q, 0, sizeof q);
    test_arena_init(&arena, NULL);
    q.arena = &arena;
    if (ms_query_open(store, &q, &it, NULL) != MS_OK) return "the query failed";
    while (what == NULL && (msg = ms_next(&it)) != NULL) {
        while (i < d->count && !d->items[i].visible) i++;
        const entry *e = &d->items[i];
        if (i == d->count) what = "a message too much";
        else if (!ms_str_equal(ms_content(msg).text, diary_text(e, text)))
            what = "a text";
        else if (!ms_str_equal(test_location(msg), diary_location(e->location, name)))
            what = "a location";
        else if (e->seq != 0 && e->seq != ms_seq(msg)) what = "a number";
        else if (e->open && !(ms_flags(msg) & MS_FLAG_UNFINISHED))
            what = "a finished one";
        i++;
    }
    while (i < d->count && !d->items[i].visible) i++;
    if (ms_cursor_close(&it, NULL) != MS_OK && what == NULL) what = "the cursor's result";
    if (what == NULL && i != d->count) what = "a message is missing";
    ms_arena_deinit(&arena);
    return what != NULL ? what : diary_rest_differs(d, store);
}

static inline uint64_t diary_number(const unsigned char *p, int bytes)
{
    uint64_t n = 0;
    for (int i = bytes; i-- > 0;) n = n << 8 | p[i];
    return n;
}

/* Zeroes what is no record: all after the last one, where an append was given up. The file
 * is otherwise whole. */
static inline void diary_forget_dead(unsigned char *bytes, size_t size)
{
    size_t at = 4096;
    while (at + 40 <= size && diary_number(bytes + at, 4) != 0) {
        size_t next = at + (((size_t)diary_number(bytes + at, 4) + 7) & ~(size_t)7);
        if (next <= at || next > size) break;
        at = next;
    }
    if (at < size) memset(bytes + at, 0, size - at);
}

/* Does a text of a redacted message stand in these bytes? Forks have texts of their own,
 * with the same mark: they do not count when one of them shows it. */
static inline bool diary_leaks(const diary *d, const void *bytes, size_t size)
{
    for (int i = 0; i < d->count; i++) {
        char mark[40];
        bool shown = false;
        if (!d->items[i].redacted) continue;
        for (int k = 0; k < d->count; k++)
            shown = shown || (d->items[k].number == d->items[i].number &&
                              !d->items[k].redacted);
        snprintf(mark, sizeof mark, "<mark %d.", d->items[i].number);
        if (!shown && memmem(bytes, size, mark, strlen(mark)) != NULL) return true;
    }
    return false;
}

/* Which state is it: of all from `least` to `most` steps? -1: none, *what says why. */
static inline int diary_find(const diary *d, ms_store *store, int least, int most,
                             diary *out, const char **what)
{
    for (int n = most; n >= least; n--) {
        diary_replay(d, n, out);
        *what = diary_differs(out, store);
        if (*what == NULL) return n;
    }
    return -1;
}

#endif /* DIARY_H */
