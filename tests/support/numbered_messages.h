/* What the tests of log files share:
 *
 *   - numbered messages: everything in a message follows from its number, and so does
 *     which of them are appended together. So a reader recognizes a message that was never
 *     written, a hole and a torn batch without knowing what was written;
 *   - with it come disk.h, os_faults.h and scratch.h: a file in memory, calls that fail,
 *     folders.
 *
 * The functions for numbered messages assert nothing: they are called from threads and
 * child processes too. Define _GNU_SOURCE before any include.
 */

#ifndef NUMBERED_MESSAGES_H
#define NUMBERED_MESSAGES_H

#include "disk.h"
#include "scratch.h"
#include "os_faults.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif


/* ---- time and processes ---- */

/* Returns the milliseconds of a clock that only goes forward. */
static inline double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static inline void pause_us(uint64_t us)
{
    struct timespec t;
    t.tv_sec = (time_t)(us / 1000000);
    t.tv_nsec = (long)(us % 1000000) * 1000;
    nanosleep(&t, NULL);
}

/* Forks a child process that ends with its parent, also when a test fails. */
static inline pid_t fork_child(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) abort();
#ifdef __linux__
    if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    return child;
}

/* Returns the state of a test that runs with each engine. */
static inline void *engine_of(int i)
{
    static ms_log_engine engines[] = {MS_ENGINE_MAP, MS_ENGINE_WRITE};
    return &engines[i];
}

#define WITH_EACH_ENGINE(test)                                \
    {#test " (map)", test, NULL, NULL, engine_of(0)},         \
    {#test " (write)", test, NULL, NULL, engine_of(1)}

static inline int no_sync(void *ctx, ms_file file)
{
    return 0;
}

static inline int no_sync_folder(void *ctx, const char *path)
{
    return 0;
}

/* Returns the system's operations without syncs: after a kill unsynced bytes are not
 * lost. */
static inline ms_os os_without_sync(void)
{
    ms_os os = *ms_os_default();
    os.sync = no_sync;
    os.sync_folder = no_sync_folder;
    return os;
}


/* ---- numbered messages ---- */

typedef struct scribe {
    uint64_t salt;        /* other messages under the same numbers */
    size_t longest;       /* bytes of the longest content; at most SCRIBE_LONGEST */
} scribe;

enum { SCRIBE_LONGEST = 1 << 16, SCRIBE_BLOCK = 16, SCRIBE_BATCH = 8 };

typedef struct numbered {
    ms_envelope m;
    char id[24], key[32], agent[16], location[16];
} numbered;

/* Returns the text from which contents are made. Call it once before threads begin. */
static inline const char *scribe_page(void)
{
    static char page[2 * SCRIBE_LONGEST];
    if (page[0] == '\0') {
        uint64_t rng = 77;
        for (size_t i = sizeof page; i-- > 0;)
            page[i] = (char)(' ' + test_below(&rng, 95));
    }
    return page;
}

static inline uint64_t scribe_hash(const scribe *s, uint64_t n)
{
    uint64_t state = s->salt * UINT64_C(0x2545F4914F6CDD1D) + n;
    return test_random(&state);
}

/* Fills in message number n. The views are into *out and live as long as it does. */
static inline void scribe_write(const scribe *s, uint64_t n, numbered *out)
{
    static const ms_type types[] = {MS_T_USER_MESSAGE, MS_T_ASSISTANT_MESSAGE,
                                    MS_T_OBSERVATION,  MS_T_GLOBAL_OBSERVATION,
                                    MS_T_FINAL,        MS_T_REASONING};
    uint64_t h = scribe_hash(s, n);
    size_t most = test_below(&h, 8) == 0 || s->longest < 300 ? s->longest : 300;
    ms_envelope *m = &out->m;
    memset(m, 0, sizeof *m);
    m->type = types[test_below(&h, sizeof types / sizeof types[0])];
    size_t len = (size_t)test_below(&h, most + 1);
    m->content = ms_text_n(ms_str_n(scribe_page() + test_below(&h, SCRIBE_LONGEST), len));
    snprintf(out->id, sizeof out->id, "%llu", (unsigned long long)n);
    m->id = ms_str_of(out->id);
    snprintf(out->location, sizeof out->location, "job_%u", (unsigned)test_below(&h, 5));
    m->location = ms_str_of(out->location);
    unsigned agent = (unsigned)test_below(&h, 4);
    snprintf(out->agent, sizeof out->agent, "worker_%u", agent);
    if (agent != 0) m->agent_key = ms_str_of(out->agent);
    snprintf(out->key, sizeof out->key, "key-%llu", (unsigned long long)n);
    if (test_below(&h, 4) == 0) m->key = ms_str_of(out->key);
    m->has_time = test_below(&h, 3) != 0;
    if (m->has_time) m->time_ns = SECONDS((double)n / 2);
}

/* Returns the number of messages appended together with number n; *first is the first of
 * them. */
static inline size_t scribe_group(const scribe *s, uint64_t n, uint64_t *first)
{
    uint64_t block = (n - 1) / SCRIBE_BLOCK, place = (n - 1) % SCRIBE_BLOCK;
    scribe other = {~s->salt, 0};
    uint64_t h = scribe_hash(&other, block);
    uint64_t start = test_below(&h, SCRIBE_BLOCK - SCRIBE_BATCH + 1);
    uint64_t size = 2 + test_below(&h, SCRIBE_BATCH - 1);
    if (test_below(&h, 3) == 0 || place < start || place >= start + size) {
        *first = n;
        return 1;
    }
    *first = block * SCRIBE_BLOCK + start + 1;
    return (size_t)size;
}

/* Returns whether number n is the last one of its batch. */
static inline bool scribe_ends(const scribe *s, uint64_t n)
{
    uint64_t first = n;
    size_t size = scribe_group(s, n, &first);
    return n == first + size - 1;
}

/* Appends number n and its batch; n is the first of it. *count: messages tried; seqs, if
 * given, receives the sequence number of message n at seqs[n]. */
static inline ms_result scribe_append(const scribe *s, ms_store *store, uint64_t n,
                                      uint64_t *seqs, size_t *count, ms_error *err)
{
    numbered messages[SCRIBE_BATCH];
    ms_envelope batch[SCRIBE_BATCH];
    uint64_t first, got[SCRIBE_BATCH];
    *count = scribe_group(s, n, &first);
    for (size_t i = 0; i < *count; i++) {
        scribe_write(s, n + i, &messages[i]);
        batch[i] = messages[i].m;
    }
    ms_append_opts opts = {.seqs = got};
    ms_result result =
        *count == 1 ? ms_append(store, batch[0].location, &batch[0], &got[0], err)
                    : ms_append_batch(store, batch, *count, &opts, err);
    if (result == MS_OK && seqs != NULL) memcpy(&seqs[n], got, *count * sizeof got[0]);
    return result;
}

/* Returns the number of a message if it is exactly as written; else 0, with the reason in
 * *fault. */
static inline uint64_t scribe_number(const scribe *s, const ms_msg *msg,
                                     const char **fault)
{
    char text[24] = "";
    numbered want;
    int64_t time = 0;
    ms_str id = ms_get(msg, MS_F_ID).text;
    *fault = "a message without number";
    if (id.ptr == NULL || id.len == 0 || id.len >= sizeof text) return 0;
    memcpy(text, id.ptr, id.len);
    uint64_t n = strtoull(text, NULL, 10);
    *fault = "a number that was not written";
    if (n == 0) return 0;
    scribe_write(s, n, &want);
    if (!ms_str_equal(id, want.m.id)) return 0;
    *fault = "another content";
    if (!ms_str_equal(ms_content(msg).text, want.m.content.text)) return 0;
    *fault = "another type";
    if (ms_type_of(msg) != want.m.type) return 0;
    *fault = "another location, agent or key";
    if (!ms_str_equal(test_location(msg), want.m.location) ||
        !ms_str_equal(test_agent_key(msg), want.m.agent_key) ||
        !ms_str_equal(ms_get(msg, MS_F_KEY).text, want.m.key))
        return 0;
    *fault = "another time";
    if (ms_time(msg, &time) != want.m.has_time || time != want.m.time_ns) return 0;
    *fault = NULL;
    return n;
}

/* The result of a reading. */
typedef struct tally {
    uint64_t count;           /* messages */
    uint64_t last;            /* the highest number */
    uint64_t last_seq;
    ms_result result;         /* of the cursor, or of opening it */
    char wrong[200];          /* empty: nothing */
} tally;

static inline bool tally_wrong(tally *t, const char *what, uint64_t n)
{
    snprintf(t->wrong, sizeof t->wrong, "%s (message %llu, after number %llu)", what,
             (unsigned long long)n, (unsigned long long)t->last);
    return false;
}

/* One message of a reading in order; gaps: some may be missing. */
static inline bool tally_add(tally *t, const scribe *s, const ms_msg *msg, bool gaps,
                             const uint64_t *seqs)
{
    const char *fault;
    uint64_t n = scribe_number(s, msg, &fault);
    if (n == 0) return tally_wrong(t, fault, n);
    if (n <= t->last) return tally_wrong(t, "order of numbers", n);
    if (!gaps && n != t->last + 1) return tally_wrong(t, "a hole", n);
    if (ms_seq(msg) <= t->last_seq) return tally_wrong(t, "order of sequence", n);
    if (seqs != NULL && seqs[n] != 0 && ms_seq(msg) != seqs[n])
        return tally_wrong(t, "another sequence number", n);
    t->count++;
    t->last = n;
    t->last_seq = ms_seq(msg);
    return true;
}

/* Reads a complete store. Without gaps the numbers must be 1, 2, 3 ... and the last batch
 * complete. seqs (may be NULL): known sequence numbers by number, 0: unknown. Returns
 * whether all is right; damage reported by a cursor is no fault by itself. */
static inline bool scribe_read(const scribe *s, ms_store *store, bool gaps,
                               const uint64_t *seqs, tally *t)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    bool fine = true;
    memset(&q, 0, sizeof q);
    memset(t, 0, sizeof *t);
    t->result = ms_query_open(store, &q, &it, NULL);
    if (t->result != MS_OK) return tally_wrong(t, "the query failed", 0);
    while (fine && (msg = ms_next(&it)) != NULL) fine = tally_add(t, s, msg, gaps, seqs);
    t->result = ms_cursor_close(&it, NULL);
    if (!fine) return false;
    if (gaps || t->last == 0 || scribe_ends(s, t->last)) return true;
    return tally_wrong(t, "a torn batch", t->last);
}

/* Checks that the keys of some messages are known: each is appended again and must return
 * its sequence number, and be refused with other content. Tries the newest `newest` with
 * keys, and as many at random. NULL: no fault. */
static inline const char *scribe_keys(const scribe *s, ms_store *store, uint64_t last,
                                      const uint64_t *seqs, uint64_t newest,
                                      uint64_t *rng)
{
    for (uint64_t i = 0; i < 2 * newest && i < last; i++) {
        uint64_t n = i < newest ? last - i : 1 + test_below(rng, last), seq = 0;
        numbered again;
        scribe_write(s, n, &again);
        if (again.m.key.ptr == NULL) continue;
        if (ms_append(store, ms_str_n(NULL, 0), &again.m, &seq, NULL) != MS_OK)
            return "a repeated key was not accepted";
        if (seqs != NULL && seqs[n] != 0 && seq != seqs[n])
            return "a key has another sequence number";
        again.m.content = ms_text("other");
        if (ms_append(store, ms_str_n(NULL, 0), &again.m, NULL, NULL) != MS_E_KEY_REUSED)
            return "a key was forgotten";
    }
    return NULL;
}

/* Takes the number and the text of a message into a hash. */
static inline uint64_t hash_of(uint64_t hash, const ms_msg *msg)
{
    ms_str text = ms_content(msg).text;
    hash = (hash ^ ms_seq(msg)) * 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < text.len; i++)
        hash = (hash ^ (unsigned char)text.ptr[i]) * 0x100000001b3u;
    return hash;
}

#endif /* NUMBERED_MESSAGES_H */
