/* Scenarios: scripts of what happens to a log, on simulated disks (simdisk.h). They stand
 * in tests/scripts/log:
 *
 *     == synced_appends_survive_when_a_writer_was_killed
 *     open; say a x20; kill; open; sync; cut; left 20
 *
 * Each is a test of its own, once with each engine. One with numbers after its name, FROM
 * UPTO BY, runs for each number from FROM on, below UPTO; $ in its script is it. A
 * failure prints the scenario, the step, what was expected and what came.
 *
 * A script whose name is in capitals is a step of the others; words after its name are
 * parameters: $word is what the step has there. It has no braces. `#` begins a comment.
 *
 * Steps are separated by semicolons, words by blanks; 'words in quotes' are one word. A
 * step that has to fail ends with "-> CODE". There are three handles: a step is about the
 * writer unless it begins with "other" or "reader".
 *
 *   open [read] [new] [shared] [each] [every] [ticked] [torn] [salvage] [segments] [map]
 *        [write]              every: a sync is due after 50 ms, or 20,000 bytes
 *   close; sync; tick
 *   tries N                   appends, and adds to the mark t how often that succeeded
 *   say TEXT [xN]; long BYTES [xN]; batch N [BYTES]; amend SEQ TEXT; redact SEQ
 *   hide SEQ [LAST]
 *   rewrite [NEWEST]          in place; rewrite dry: nowhere, it counts
 *   rewrite elsewhere [over NEWEST]   at another path, over what is there; `open` and
 *                             `left` take the word `elsewhere`, too. A rewrite takes
 *                             `map` and `write` as `open` does
 *   names N; absent           how many files there are; that there is no other one
 *   exact                     maps cannot reach beyond the end of the file
 *   last N; first N           the number of the last message that was appended, and of
 *                             the first one of its batch
 *   sees N [damaged|any]      how many messages this handle sees, and the cursor's result
 *   told                      its next query fails: a rewrite has replaced the file
 *   left N [damaged|any]      the same with a new reader, which reports no damage unless
 *                             it may; N can be "+1": one more than seen before
 *   shows 'a b' [damaged|any] the texts that a new reader sees
 *   same                      all open handles see as many messages
 *   durable N; damaged N      what ms_log_stat returns; N can be ">5", "<5" or "?"
 *   unsynced                  not all is reported durable
 *   sound                     the handle has met no damage and no loss
 *   strict [write]            a strict opening
 *   epoch N; zeroed N         how often writers made the place of records clean; bytes that
 *                             this handle made zero
 *   lost_end N; replaced N    what ms_log_stat returns, too
 *   says TEXT                 the message of the last error contains it
 *   events N                  events of damage since the last `open`
 *   kill                      the writer is killed. The files are on the next disk, where
 *                             the next steps happen
 *   cut [PAGE [SECTORS]]      the power is lost: nothing that was not synced is left, but
 *                             for one page, or some sectors of it (bits)
 *   keep kill, keep cut ...   makes that image on the next disk, and stays on this one;
 *                             `on` goes there, `image left 3` looks at it; keep all: the
 *                             power is lost when all is on the disk
 *   cuts [N N ...]            every image of a power loss (of many a choice) has all that
 *                             is durable, no more than was written, and not N messages
 *   stands                    a reader and a writer find each message whose append has
 *                             returned, or `left` saw, and the one on its way as a whole
 *                             or not at all; it can go on
 *   restart                   all handles are closed, the machine boots
 *   boot N                    the boot number that handles see which are opened from here
 *                             on; the machine goes on, as it does under containers
 *   device N [M]              this handle sees numbers of the device, and the inode, that
 *                             are larger by N and M, as containers may for one file
 *   link PATH                 the name of the log is a symbolic link to there
 *   at CALL N fail CODE       the N-th call from here on fails ("N+": and all after it);
 *   at CALL N {..} {..}       it runs these scripts first, one at each hit; `after CALL`
 *                             runs them after it; CALL can be write@OFFSET, `any`, or
 *                             `half`: a write, in its middle
 *   at none; hits N           no more; how many calls failed, or ran a script
 *   acted                     all scripts in braces have run
 *   fails                     the next sync of a file fails, and gives its pages up
 *   lies; honest              syncs do nothing, and succeed; they work again
 *   mark NAME                 names the place where the log ends
 *   flip POS [BIT]; put64 POS N; zero FROM UPTO; truncate POS; damage TEXT
 *   contains TEXT; lacks TEXT; zeros FROM UPTO; is N [<|>]N
 *   keeps POS N; has POS N    remembers the N bytes there; they must be the same again
 *
 * POS and N are sums: numbers, names, $, @POS (the 64-bit word there). A suite adds steps
 * of its own, which are functions in C.
 */

#ifndef SCENARIO_H
#define SCENARIO_H

#include "script_file.h"
#include "simdisk.h"

#include <ctype.h>

#define SCENARIO_LOG "log.msl"
#define SCENARIO_OTHER "other.msl"

enum {
    SCENARIO_DISKS = 5,
    SCENARIO_WORDS = 12,
    SCENARIO_MARKS = 8,
    SCENARIO_KEPT = 8192,
    SCENARIOS_MAX = 120
};

typedef struct world world;

typedef struct scenario {
    char name[100];
    unsigned from, upto, by;  /* by 0: once */
    const char *file;         /* of tests/scripts */
    const char *head;         /* the line of its name */
    char *lines;              /* its text as it stands in the file */
    const char *script, *end;
} scenario;

typedef struct scenario_step {
    const char *word;
    void (*run)(world *w);
} scenario_step;

static scenario scenarios[SCENARIOS_MAX];
static size_t n_scenarios;
static const scenario_step *own_steps;  /* of the suite, up to one without a word */

enum { WRITER, OTHER, READER, HANDLES };

struct world {
    sim_disk disks[SCENARIO_DISKS];
    os_faults faults[SCENARIO_DISKS];
    sim_cuts cuts;
    int at;                   /* the disk in use */
    int looked;               /* the disk that a new reader opens */
    ms_store *stores[HANDLES];
    uint64_t device[HANDLES], inode[HANDLES]; /* added to what each of them sees */
    int handle;               /* of the step */
    ms_log_engine engine;
    const scenario *row;
    char words[SCENARIO_WORDS][400];
    int n_words;
    char step[400];           /* for messages */
    ms_result want;
    char message[300];        /* of the last error */
    unsigned turn;            /* $ */
    struct { char name[12]; uint64_t value; } marks[SCENARIO_MARKS];
    int n_marks;
    const char *act;          /* scripts that a fault runs, in braces */
    uint64_t seq, first;      /* of the last append */
    uint64_t left;            /* messages at the last look */
    uint64_t said, tried;     /* whose append has returned; with those on their way */
    uint64_t events, now, entropy;
    unsigned char kept[SCENARIO_KEPT];
};

__attribute__((format(printf, 2, 3), noreturn))
static inline void step_fails(world *w, const char *format, ...)
{
    char what[500];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    print_error("tests/scripts/%s.txt, steps as in tests/support/scenario.h:\n== %.*s\n%s\n",
                w->row->file, (int)strcspn(w->row->head, "\n"), w->row->head,
                w->row->lines);
    fail_msg("%s ($ = %u), step '%s': %s", w->row->name, w->turn, w->step, what);
    abort();
}

/* Checks that the step's call has the result that the script expects. */
static inline void step_must(world *w, ms_result got, const ms_error *err)
{
    snprintf(w->message, sizeof w->message, "%s", got != MS_OK ? err->message : "");
    if (got != w->want)
        step_fails(w, "expected %d (%s), came %d (%s): %s", (int)w->want,
                   ms_result_text(w->want), (int)got, ms_result_text(got),
                   w->message);
}

static inline void step_equals(world *w, const char *what, uint64_t want, uint64_t got)
{
    if (want != got)
        step_fails(w, "%s: expected %llu, came %llu", what, (unsigned long long)want,
                   (unsigned long long)got);
}

static inline ms_store *store_of(world *w)
{
    ms_store *store = w->stores[w->handle];
    if (store == NULL) step_fails(w, "the handle is not open");
    return store;
}

static inline bool step_has(const world *w, const char *word)
{
    for (int i = 1; i < w->n_words; i++)
        if (strcmp(w->words[i], word) == 0) return true;
    return false;
}

static inline sim_file *file_of(world *w, int which)
{
    sim_file *f = sim_at(&w->disks[which], SCENARIO_LOG);
    if (f == NULL) step_fails(w, "there is no file");
    return f;
}


/* ---- numbers and places ---- */

static inline uint64_t word_at(world *w, uint64_t at)
{
    uint64_t v;
    memcpy(&v, file_of(w, w->at)->ro + at, sizeof v);
    return le64toh(v);
}

/* The mark of that name; n_marks: none has it. */
static inline int mark_find(const world *w, const char *name)
{
    int i = 0;
    while (i < w->n_marks && strcmp(w->marks[i].name, name) != 0) i++;
    return i;
}

/* One term of a sum. */
static inline uint64_t term_of(world *w, const char **p)
{
    char name[12];
    size_t n = 0;
    bool there = **p == '@';
    if (there) ++*p;
    uint64_t v = 0;
    if (**p == '$') {
        v = w->turn;
        ++*p;
    } else if (isdigit((unsigned char)**p)) {
        v = strtoull(*p, (char **)(uintptr_t)p, 0);
    } else {
        while (isalpha((unsigned char)**p) && n < sizeof name - 1) name[n++] = *(*p)++;
        name[n] = '\0';
        int i = mark_find(w, name);
        if (i == w->n_marks) step_fails(w, "no mark '%s'", name);
        v = w->marks[i].value;
    }
    return there ? word_at(w, v) : v;
}

/* Returns the sum in word i; `none`: there is no such word. */
static inline uint64_t number_or(world *w, int i, uint64_t none)
{
    if (i >= w->n_words) return none;
    const char *p = w->words[i];
    uint64_t v = term_of(w, &p);
    while (*p == '+' || *p == '-') {
        bool minus = *p++ == '-';
        uint64_t more = term_of(w, &p);
        v = minus ? v - more : v + more;
    }
    if (*p != '\0') step_fails(w, "'%s' is no number", w->words[i]);
    return v;
}

static inline uint64_t number(world *w, int i)
{
    if (i >= w->n_words) step_fails(w, "a number is missing");
    return number_or(w, i, 0);
}

/* Compares with word i: N, >N, <N, or +N: so much more than `before`. */
static inline void step_compares(world *w, int i, const char *what, uint64_t got,
                                 uint64_t before)
{
    if (i >= w->n_words) step_fails(w, "a number is missing");
    char how = w->words[i][0];
    if (how == '?') return;
    bool sign = how == '>' || how == '<' || how == '+';
    if (sign) memmove(w->words[i], w->words[i] + 1, strlen(w->words[i]));
    uint64_t n = number(w, i);
    if (how == '+') n += before;
    if (how == '>' ? got <= n : how == '<' ? got >= n : got != n)
        step_fails(w, "%s: expected %s%llu, came %llu", what,
                   how == '>' || how == '<' ? (how == '>' ? "> " : "< ") : "",
                   (unsigned long long)n, (unsigned long long)got);
}

static inline void mark_set(world *w, const char *name, uint64_t value)
{
    int i = mark_find(w, name);
    if (i == SCENARIO_MARKS) step_fails(w, "too many marks");
    if (i == w->n_marks) w->n_marks++;
    snprintf(w->marks[i].name, sizeof w->marks[i].name, "%.11s", name);
    w->marks[i].value = value;
}


/* ---- handles ---- */

static inline void world_event(void *ctx, const ms_log_event *event)
{
    world *w = (world *)ctx;
    if (event->kind == MS_LOG_DAMAGE || event->kind == MS_LOG_INDEX_DAMAGE) w->events++;
}

static inline int64_t world_clock(void *ctx) { return SECONDS(++((world *)ctx)->now); }

static inline void world_entropy(void *ctx, void *out, size_t len)
{
    test_fill(&((world *)ctx)->entropy, out, len);
}

static inline ms_log_desc world_desc(world *w, ms_log_mode mode, const ms_os *os)
{
    ms_log_desc desc = {.path = step_has(w, "elsewhere") ? SCENARIO_OTHER : SCENARIO_LOG,
                        .mode = mode, .os = os,
                        .engine = mode == MS_LOG_READ ? MS_ENGINE_AUTO : w->engine,
                        .events = {world_event, w}, .clock = {world_clock, w},
                        .entropy = {world_entropy, w}};
    return desc;
}

/* Returns a description with the engine that the step has. */
static inline ms_log_desc step_desc(world *w, ms_log_mode mode)
{
    ms_log_desc desc = world_desc(w, mode, &w->faults[w->at].os);
    if (step_has(w, "map")) desc.engine = MS_ENGINE_MAP;
    if (step_has(w, "write")) desc.engine = MS_ENGINE_WRITE;
    return desc;
}

static inline void step_open(world *w)
{
    ms_error err;
    ms_log_mode mode = step_has(w, "read")  ? MS_LOG_READ
                       : step_has(w, "new") ? MS_LOG_NEW
                                            : MS_LOG_CREATE;
    ms_log_desc desc = step_desc(w, mode);
    if (step_has(w, "shared")) desc.shared = true;
    if (step_has(w, "each")) desc.sync = MS_SYNC_EACH;
    desc.ticked = step_has(w, "ticked");
    if (desc.ticked || step_has(w, "every")) desc.sync = MS_SYNC_EVERY;
    if (step_has(w, "every")) {
        desc.sync_ms = 50;
        desc.sync_bytes = 20000;
    }
    if (step_has(w, "torn")) desc.keep_torn = true;
    if (step_has(w, "salvage")) desc.opening = MS_OPEN_SALVAGE;
    if (step_has(w, "segments")) desc.segment_size = MS_LOG_SEGMENT_MIN;
    if (w->stores[w->handle] != NULL) step_fails(w, "it is open");
    w->events = 0;
    step_must(w, ms_log_open(&w->stores[w->handle], &desc, &err), &err);
}

static inline void step_close(world *w)
{
    ms_close(store_of(w));
    w->stores[w->handle] = NULL;
}

static inline void close_all(world *w)
{
    for (int i = 0; i < HANDLES; i++) {
        ms_close(w->stores[i]);
        w->stores[i] = NULL;
    }
}

static inline void step_sync(world *w)
{
    ms_error err;
    step_must(w, ms_sync(store_of(w), NULL, &err), &err);
}

static inline void step_tick(world *w)
{
    ms_error err;
    step_must(w, ms_tick(store_of(w), 1000, &err), &err);
}

/* Returns how often to do a step: its last word is xN. */
static inline uint64_t times_of(const world *w)
{
    const char *last = w->words[w->n_words - 1];
    return w->n_words > 2 && last[0] == 'x' ? strtoull(last + 1, NULL, 10) : 1;
}

static inline void step_appended(world *w, ms_result code, const ms_error *err)
{
    if (code == MS_OK) w->said = w->tried;
    step_must(w, code, err);
}

static inline void append_texts(world *w, ms_str text, uint64_t n)
{
    ms_error err;
    ms_envelope m = ms_user_message(ms_text_n(text));
    for (w->seq = 7; n > 0; n--) {
        w->tried = w->said + 1;
        ms_result code = ms_append(store_of(w), MS_STR("here"), &m, &w->seq, &err);
        step_appended(w, code, &err);
    }
    w->first = w->seq;
}

static inline void step_say(world *w)
{
    append_texts(w, ms_str_of(w->words[1]), times_of(w));
}

static inline void step_long(world *w)
{
    append_texts(w, ms_str_n(scribe_page(), (size_t)number(w, 1)), times_of(w));
}

/* Appends N times, whatever comes, and adds to the mark t how often that succeeded. */
static inline void step_tries(world *w)
{
    ms_envelope m = ms_user_message(ms_text("tried"));
    int i = mark_find(w, "t");
    uint64_t done = i < w->n_marks ? w->marks[i].value : 0;
    for (uint64_t n = number(w, 1); n > 0; n--)
        done += ms_append(store_of(w), MS_STR("here"), &m, NULL, NULL) == MS_OK;
    mark_set(w, "t", done);
}

static inline void step_batch(world *w)
{
    ms_error err;
    ms_envelope m[8];
    uint64_t seqs[8] = {7, 7, 7, 7, 7, 7, 7, 7};
    size_t n = (size_t)number(w, 1), len = (size_t)number_or(w, 2, 1);
    ms_append_opts opts = {.location = MS_STR("here"), .seqs = seqs};
    for (size_t i = 0; i < n && i < 8; i++)
        m[i] = ms_user_message(ms_text_n(ms_str_n(scribe_page(), len)));
    w->tried = w->said + n;
    step_appended(w, ms_append_batch(store_of(w), m, n, &opts, &err), &err);
    w->first = seqs[0];
    w->seq = seqs[n - 1];
}

static inline void step_amend(world *w)
{
    ms_error err;
    ms_envelope m = ms_user_message(ms_text(w->words[2]));
    step_must(w, ms_amend(store_of(w), number(w, 1), &m, &err), &err);
}

static inline void step_redact(world *w)
{
    ms_error err;
    step_must(w, ms_redact(store_of(w), number(w, 1), &err), &err);
}

/* Hides a message, or all up to another one. */
static inline void step_hide(world *w)
{
    ms_error err;
    ms_store *store = store_of(w);
    uint64_t seq = number(w, 1), last = number_or(w, 2, 0);
    step_must(w, last == 0 ? ms_hide(store, seq, &err)
                           : ms_hide_range(store, MS_STR("here"), seq, last, NULL, &err),
              &err);
}

static inline void step_rewrite(world *w)
{
    ms_error err;
    ms_log_desc desc = step_desc(w, MS_LOG_WRITE);
    bool elsewhere = step_has(w, "elsewhere"), replace = !elsewhere || step_has(w, "over");
    ms_keep keep = {.dry_run = step_has(w, "dry")};
    if (replace && !keep.dry_run) keep.newest = number_or(w, elsewhere ? 3 : 1, 0);
    bool some = keep.dry_run || keep.newest > 0;
    step_must(w, ms_log_rewrite(store_of(w), keep.dry_run ? NULL : &desc, replace,
                                some ? &keep : NULL, NULL, &err), &err);
}

/* Maps cannot reach beyond the end of the file, so that growing needs another one. */
static inline void step_exact(world *w) { w->faults[w->at].os.exact_maps = true; }

static inline void step_names(world *w)
{
    step_equals(w, "names", number(w, 1), (uint64_t)w->disks[w->at].folder.count);
}

static inline void step_absent(world *w)
{
    if (sim_at(&w->disks[w->at], SCENARIO_OTHER) != NULL) step_fails(w, "it is there");
}


/* ---- what is seen ---- */

/* Reads everything: how many, their texts with blanks between them, how it ended. */
static inline uint64_t read_store(world *w, ms_store *store, char *texts, size_t size,
                                  ms_result *result)
{
    ms_query q;
    ms_cursor it;
    ms_error err;
    const ms_msg *msg;
    uint64_t n = 0;
    size_t used = 0;
    memset(&q, 0, sizeof q);
    if (ms_query_open(store, &q, &it, &err) != MS_OK)
        step_fails(w, "the query: %s", err.message);
    if (size > 0) texts[0] = '\0';
    while ((msg = ms_next(&it)) != NULL) {
        ms_str s = ms_content(msg).text;
        if (used + s.len + 2 < size)
            used += (size_t)snprintf(texts + used, size - used, "%s%.*s",
                                     n > 0 ? " " : "", (int)s.len, s.ptr);
        n++;
    }
    *result = ms_cursor_close(&it, NULL);
    return n;
}

/* Checks that the cursor's result is OK, or that of word i. */
static inline void step_ends(world *w, int i, ms_result result)
{
    bool any = i < w->n_words && strcmp(w->words[i], "any") == 0;
    bool damaged = i < w->n_words && strcmp(w->words[i], "damaged") == 0;
    if (any && (result == MS_OK || result == MS_E_DAMAGED)) return;
    if (result != (damaged ? MS_E_DAMAGED : MS_OK))
        step_fails(w, "the cursor: %s", ms_result_text(result));
}

static inline void step_sees(world *w)
{
    ms_result result;
    uint64_t before = w->left;
    w->left = read_store(w, store_of(w), NULL, 0, &result);
    step_compares(w, 1, "messages", w->left, before);
    step_ends(w, 2, result);
}

static inline void step_told(world *w)
{
    ms_query q;
    ms_cursor it;
    memset(&q, 0, sizeof q);
    ms_result result = ms_query_open(store_of(w), &q, &it, NULL);
    if (result != MS_E_CONFLICT) step_fails(w, "the query: %s", ms_result_text(result));
}

static inline ms_store *new_reader(world *w)
{
    ms_store *store;
    ms_error err;
    ms_log_desc desc = world_desc(w, MS_LOG_READ, &w->disks[w->looked].os);
    if (ms_log_open(&store, &desc, &err) != MS_OK)
        step_fails(w, "a new reader: %s", err.message);
    return store;
}

/* Reads with a new reader, and checks that it reports no unexpected damage. */
static inline uint64_t look(world *w, char *texts, size_t size)
{
    ms_result result;
    ms_log_info info;
    ms_store *store = new_reader(w);
    uint64_t n = read_store(w, store, texts, size, &result);
    step_ends(w, 2, result);
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    if (w->n_words < 3) step_equals(w, "ranges of damage", 0, info.damaged);
    if (w->n_words < 3) step_equals(w, "end of what was lost", 0, info.lost_end);
    ms_close(store);
    return n;
}

static inline void step_left(world *w)
{
    uint64_t before = w->left;
    w->left = w->said = w->tried = look(w, NULL, 0);
    step_compares(w, 1, "messages", w->left, before);
}

static inline void step_shows(world *w)
{
    char texts[400];
    w->left = look(w, texts, sizeof texts);
    if (strcmp(texts, w->words[1]) != 0) step_fails(w, "came '%s'", texts);
}

static inline void step_same(world *w)
{
    ms_result result;
    uint64_t n, first = UINT64_MAX;
    for (int i = 0; i < HANDLES; i++) {
        if (w->stores[i] == NULL) continue;
        n = read_store(w, w->stores[i], NULL, 0, &result);
        if (first == UINT64_MAX) first = n;
        step_equals(w, "messages", first, n);
        step_ends(w, 1, result);
    }
}

static inline ms_log_info stat_of(world *w)
{
    ms_log_info info;
    ms_error err;
    if (ms_log_stat(store_of(w), &info, &err) != MS_OK)
        step_fails(w, "stat: %s", err.message);
    return info;
}

static inline void step_unsynced(world *w)
{
    ms_log_info info = stat_of(w);
    if (info.durable_end >= info.end) step_fails(w, "all is reported durable");
}

static inline void step_sound(world *w)
{
    ms_log_info info = stat_of(w);
    step_equals(w, "ranges of damage", 0, info.damaged);
    step_equals(w, "end of what was lost", 0, info.lost_end);
}

/* How many times a writer had to make the place for records clean. */
static inline void step_epoch(world *w)
{
    step_compares(w, 1, "epoch", word_at(w, 1184) & UINT32_MAX, 0);
}

static inline void step_strict(world *w)
{
    ms_error err;
    ms_store *store = NULL;
    ms_log_mode mode = step_has(w, "write") ? MS_LOG_WRITE : MS_LOG_READ;
    ms_log_desc desc = world_desc(w, mode, &w->disks[w->at].os);
    desc.opening = MS_OPEN_STRICT;
    step_must(w, ms_log_open(&store, &desc, &err), &err);
    ms_close(store);
}

static inline void step_says(world *w)
{
    if (strstr(w->message, w->words[1]) == NULL) step_fails(w, "came '%s'", w->message);
}

/* Compares the number that the step is named after. */
static inline void step_number(world *w)
{
    ms_log_info info;
    memset(&info, 0, sizeof info);
    if (w->stores[w->handle] != NULL) info = stat_of(w);
    const struct { const char *word; uint64_t value; } numbers[] = {
        {"last", w->seq}, {"first", w->first}, {"events", w->events},
        {"durable", info.durable_seq}, {"damaged", info.damaged},
        {"lost_end", info.lost_end}, {"zeroed", info.zeroed_bytes},
        {"replaced", info.replaced}, {"hits", w->faults[w->at].hits}};
    size_t i = 0;
    while (strcmp(numbers[i].word, w->words[0]) != 0) i++;
    step_compares(w, 1, w->words[0], numbers[i].value, 0);
}


/* ---- crashes ---- */

/* Takes of the units that were not synced those of a page, or of some sectors of it. */
static inline void cut_page(world *w, uint64_t page, unsigned sectors)
{
    sim_cuts *c = &w->cuts;
    for (int i = 0; i < c->from->n_units; i++) {
        const sim_unit *u = &c->from->units[i];
        bool taken = u->kind == SIM_DATA && (uint64_t)u->page == page;
        c->take[i] = (unsigned char)(taken ? sectors : 0);
    }
}

/* Makes an image on the next disk: a kill, or a power loss, by word i. */
static inline void make_image(world *w, int i)
{
    if (w->at + 1 == SCENARIO_DISKS) step_fails(w, "no more disks");
    sim_disk *d = &w->disks[w->at];
    if (strcmp(w->words[i], "kill") == 0) {
        sim_kill(d, d + 1);
        return;
    }
    sim_cuts_begin(&w->cuts, d, 0, 0, 0, 1);
    uint64_t page = number_or(w, i + 1, UINT64_MAX);
    bool all = strcmp(w->words[i], "all") == 0;
    if (all) memset(w->cuts.take, 0xFF, (size_t)d->n_units);
    else cut_page(w, page, (unsigned)number_or(w, i + 2, 0xFF));
    sim_cut(&w->cuts, d + 1);
}

static inline void step_on(world *w)
{
    w->faults[w->at].how = OS_FAULT_NONE;
    close_all(w);
    w->looked = ++w->at;
}

static inline void step_crash(world *w)
{
    make_image(w, 0);
    step_on(w);
}

static inline void step_keep(world *w) { make_image(w, 1); }

static inline void step_cuts(world *w)
{
    ms_stat is;
    ms_result result;
    ms_error err;
    uint64_t durable = stat_of(w).durable_seq;
    if (ms_store_stat(store_of(w), &is, &err) != MS_OK)
        step_fails(w, "stat: %s", err.message);
    if (w->at + 1 == SCENARIO_DISKS) step_fails(w, "no more disks");
    sim_cuts_begin(&w->cuts, &w->disks[w->at], 512, 0, 40, test_seed());
    w->looked = w->at + 1;
    while (sim_cuts_next(&w->cuts, &w->disks[w->looked])) {
        uint64_t n = 0;
        if (sim_at(&w->disks[w->looked], SCENARIO_LOG) != NULL) {
            ms_store *store = new_reader(w);
            n = read_store(w, store, NULL, 0, &result);
            if (result != MS_OK) step_fails(w, "the cursor: %s", ms_result_text(result));
            ms_close(store);
        }
        bool torn = false;
        for (int i = 1; i < w->n_words; i++) torn = torn || n == number(w, i);
        if (torn || n < durable || n > is.messages)
            step_fails(w, "%llu messages after a power loss (%s), %llu are durable",
                       (unsigned long long)n, w->cuts.text, (unsigned long long)durable);
    }
    w->looked = w->at;
}

/* NULL: there is no log, and none was promised. */
static inline ms_store *stands_as(world *w, ms_log_mode mode)
{
    ms_error err;
    ms_store *store;
    ms_result result;
    ms_log_desc desc = world_desc(w, mode, &w->disks[w->looked].os);
    ms_result code = ms_log_open(&store, &desc, &err);
    if (code == MS_E_NOT_FOUND && mode == MS_LOG_READ && w->said == 0) return NULL;
    if (code != MS_OK) step_fails(w, "opening it: %s", err.message);
    uint64_t n = read_store(w, store, NULL, 0, &result);
    if ((n != w->said && n != w->tried) || result != MS_OK || w->events > 0)
        step_fails(w, "%llu messages, appended were %llu of %llu (%s)",
                   (unsigned long long)n, (unsigned long long)w->said,
                   (unsigned long long)w->tried, ms_result_text(result));
    return store;
}

static inline void step_stands(world *w)
{
    ms_error err;
    ms_log_report report;
    uint64_t said = w->said, tried = w->tried;
    ms_envelope m = ms_user_message(ms_text("goes on"));
    ms_log_desc desc = world_desc(w, MS_LOG_READ, &w->disks[w->looked].os);
    w->events = 0;
    ms_close(stands_as(w, MS_LOG_READ));
    ms_store *store = stands_as(w, MS_LOG_CREATE);
    step_must(w, ms_selfcheck(store, &err), &err);
    step_must(w, ms_append(store, MS_STR("here"), &m, NULL, &err), &err);
    ms_close(store);
    w->said++;
    w->tried++;
    ms_close(stands_as(w, MS_LOG_READ));
    step_must(w, ms_log_verify(&desc, &report, &err), &err);
    w->said = said;
    w->tried = tried;
}

static inline void step_restart(world *w)
{
    close_all(w);
    w->disks[w->at].boot++;
}

/* The log's name is a symbolic link from here on. */
static inline void step_link(world *w)
{
    sim_disk *d = &w->disks[w->at];
    snprintf(d->link, sizeof d->link, "%s", SCENARIO_LOG);
    snprintf(d->link_to, sizeof d->link_to, "%.*s", SIM_PATH - 1, w->words[1]);
}

static inline void step_device(world *w)
{
    w->device[w->handle] = number(w, 1);
    w->inode[w->handle] = number_or(w, 2, 0);
}

static inline void step_boot(world *w) { w->disks[w->at].boot = number(w, 1); }

static inline void step_sync_fails(world *w) { w->disks[w->at].fails = true; }

static inline void step_lies(world *w)
{
    sim_disk *d = &w->disks[w->at];
    d->lies = d->folder_lies = strcmp(w->words[0], "lies") == 0;
}


/* ---- calls that fail, and what happens beside them ---- */

static inline void run_script(world *w, const char *script, size_t len);

/* Returns the next script in braces; NULL: none is left. */
static inline const char *next_act(const world *w)
{
    const char *p = w->act;
    while (isspace((unsigned char)*p)) p++;
    return *p == '{' ? p : NULL;
}

static inline void step_acted(world *w)
{
    if (next_act(w) != NULL) step_fails(w, "a script in braces did not run");
}

/* Runs the scripts of a call, while the present step waits. */
static inline void world_act(void *of)
{
    world *w = (world *)of;
    char words[SCENARIO_WORDS][400], step[400];
    int n = w->n_words, handle = w->handle;
    ms_result want = w->want;
    const char *open = next_act(w);
    if (open == NULL) return; /* each of them has run */
    const char *end = strchr(open, '}');
    if (end == NULL) step_fails(w, "a brace is missing");
    memcpy(words, w->words, sizeof words);
    memcpy(step, w->step, sizeof step);
    w->act = end + 1;
    run_script(w, open + 1, (size_t)(end - open - 1));
    memcpy(w->words, words, sizeof words);
    memcpy(w->step, step, sizeof step);
    w->n_words = n;
    w->handle = handle;
    w->want = want;
}

static inline int errno_of(world *w, const char *word)
{
    static const struct { const char *word; int code; } codes[] = {
        {"EIO", EIO}, {"ENOSPC", ENOSPC}, {"EMFILE", EMFILE}, {"EACCES", EACCES},
        {"EAGAIN", EAGAIN}, {"ENOMEM", ENOMEM}, {"EPERM", EPERM}, {"ENOENT", ENOENT},
        {"ENFILE", ENFILE}, {"EDQUOT", EDQUOT}, {"EFBIG", EFBIG}, {"EINVAL", EINVAL},
        {"ENOSYS", ENOSYS}, {"EOPNOTSUPP", EOPNOTSUPP}};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (strcmp(codes[i].word, word) == 0) return codes[i].code;
    step_fails(w, "no errno '%s'", word);
}

/* at CALL[@OFFSET] N[+] fail|midway CODE, at CALL N {..}, after CALL N {..} */
static inline void step_at(world *w)
{
    os_faults *t = &w->faults[w->at];
    t->how = OS_FAULT_NONE;
    if (step_has(w, "none")) return;
    char *offset = strchr(w->words[1], '@'), *plus = strchr(w->words[2], '+');
    const char *place = offset != NULL ? offset + 1 : "";
    t->offset = offset != NULL ? term_of(w, &place) : 0;
    if (offset != NULL) *offset = '\0';
    t->from = plus != NULL || w->words[3][0] == '{';
    if (plus != NULL) *plus = '\0';
    t->kinds = 0;
    for (int i = 0; i < CALL_COUNT; i++)
        if (strcmp(os_fault_word(i), w->words[1]) == 0) t->kinds = 1u << i;
    if (strcmp(w->words[1], "any") == 0) t->kinds = OS_FAULT_ALL;
    bool half = strcmp(w->words[1], "half") == 0;
    if (half) t->kinds = OS_FAULT_BIT(WRITE);
    if (t->kinds == 0) step_fails(w, "no call '%s'", w->words[1]);
    t->calls = t->hits = 0;
    t->at = number(w, 2);
    t->act = world_act;
    t->of = w;
    if (w->words[3][0] == '{') {
        t->how = half                             ? OS_FAULT_ACT_HALF
                 : strcmp(w->words[0], "at") == 0 ? OS_FAULT_ACT_BEFORE
                                                  : OS_FAULT_ACT_AFTER;
        return;
    }
    t->how = strcmp(w->words[3], "midway") == 0 ? OS_FAULT_FAIL_MIDWAY : OS_FAULT_FAIL;
    t->code = errno_of(w, w->words[4]);
}


/* ---- bytes of the file ---- */

/* Writes into the file from outside; also on the disk, if the page was synced. */
static inline void poke(world *w, uint64_t at, const void *bytes, size_t size)
{
    sim_disk *d = &w->disks[w->at];
    sim_file *f = file_of(w, w->at);
    sim_look(d);
    if (at + size > f->size) step_fails(w, "that is after the end of the file");
    for (size_t i = 0; i < size; i++) {
        size_t p = (size_t)at + i;
        f->rw[p] = ((const unsigned char *)bytes)[i];
        if (f->newest[p / SIM_PAGE] < 0) f->base[p] = f->rw[p];
    }
    for (size_t p = (size_t)at / SIM_PAGE; p * SIM_PAGE < at + size; p++)
        sim_look_at(d, (int)(f - d->files), (int)p, false);
}

static inline uint64_t end_of_log(world *w)
{
    ms_log_info info;
    ms_store *store = new_reader(w);
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    ms_close(store);
    return info.end;
}

static inline void step_mark(world *w) { mark_set(w, w->words[1], end_of_log(w)); }

static inline void step_flip(world *w)
{
    uint64_t bit = number_or(w, 2, 0), at = number(w, 1) + bit / 8;
    unsigned char byte = file_of(w, w->at)->ro[at] ^ (unsigned char)(1u << bit % 8);
    poke(w, at, &byte, 1);
}

static inline void step_put64(world *w)
{
    uint64_t v = htole64(number(w, 2));
    poke(w, number(w, 1), &v, sizeof v);
}

static inline void step_zero(world *w)
{
    static const unsigned char zeros[1 << 16];
    uint64_t at = number(w, 1);
    poke(w, at, zeros, (size_t)(number(w, 2) - at));
}

static inline void step_truncate(world *w)
{
    sim_disk *d = &w->disks[w->at];
    sim_file *f = file_of(w, w->at);
    size_t size = (size_t)number(w, 1);
    sim_look(d);
    memset(f->rw + size, 0, f->high - size);
    sim_look_between(d, (int)(f - d->files), size, f->high);
    f->size = size;
    sim_log(d, SIM_SIZE, (int)(f - d->files))->size = size;
}

/* Returns the place of a text in the file; NULL: absent. */
static inline const unsigned char *find_text(world *w)
{
    const sim_file *f = file_of(w, w->looked);
    return (const unsigned char *)memmem(f->ro, (size_t)f->size, w->words[1],
                                         strlen(w->words[1]));
}

static inline void step_damage(world *w)
{
    const unsigned char *p = find_text(w);
    if (p == NULL) step_fails(w, "the file does not have that text");
    unsigned char byte = *p ^ 1;
    poke(w, (uint64_t)(p - file_of(w, w->at)->ro), &byte, 1);
}

static inline void step_contains(world *w)
{
    bool has = find_text(w) != NULL;
    if (has != (strcmp(w->words[0], "contains") == 0))
        step_fails(w, "the file %s that text", has ? "has" : "does not have");
}

static inline void step_zeros(world *w)
{
    const sim_file *f = file_of(w, w->looked);
    for (uint64_t at = number(w, 1), end = number(w, 2); at < end; at++)
        if (f->ro[at] != 0) step_fails(w, "byte %u is not zero", (unsigned)at);
}

static inline void step_is(world *w)
{
    step_compares(w, 2, "the sum", number(w, 1), 0);
}

static inline void step_keeps(world *w)
{
    memcpy(w->kept, file_of(w, w->at)->ro + number(w, 1), (size_t)number(w, 2));
}

static inline void step_has_kept(world *w)
{
    if (memcmp(w->kept, file_of(w, w->at)->ro + number(w, 1), (size_t)number(w, 2)) != 0)
        step_fails(w, "the bytes have changed");
}


/* ---- scripts ---- */

static inline const scenario_step *step_find(const char *word)
{
    static const scenario_step steps[] = {
        {"open", step_open}, {"close", step_close}, {"sync", step_sync},
        {"tick", step_tick}, {"say", step_say}, {"long", step_long},
        {"batch", step_batch}, {"amend", step_amend}, {"redact", step_redact},
        {"rewrite", step_rewrite}, {"hide", step_hide},
        {"last", step_number}, {"first", step_number},
        {"sees", step_sees}, {"told", step_told},
        {"left", step_left}, {"shows", step_shows},
        {"same", step_same}, {"durable", step_number}, {"damaged", step_number},
        {"events", step_number}, {"kill", step_crash}, {"cut", step_crash},
        {"keep", step_keep}, {"on", step_on}, {"cuts", step_cuts},
        {"restart", step_restart}, {"boot", step_boot}, {"link", step_link},
        {"device", step_device},
        {"fails", step_sync_fails}, {"at", step_at}, {"after", step_at},
        {"mark", step_mark}, {"flip", step_flip},
        {"put64", step_put64}, {"zero", step_zero}, {"truncate", step_truncate},
        {"damage", step_damage}, {"keeps", step_keeps}, {"has", step_has_kept},
        {"says", step_says}, {"sound", step_sound}, {"unsynced", step_unsynced},
        {"exact", step_exact}, {"names", step_names}, {"absent", step_absent},
        {"acted", step_acted}, {"stands", step_stands}, {"strict", step_strict},
        {"epoch", step_epoch}, {"zeroed", step_number}, {"tries", step_tries},
        {"contains", step_contains}, {"lacks", step_contains}, {"zeros", step_zeros},
        {"is", step_is}, {"lies", step_lies}, {"honest", step_lies},
        {"lost_end", step_number}, {"replaced", step_number}, {"hits", step_number}};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        if (strcmp(steps[i].word, word) == 0) return &steps[i];
    for (const scenario_step *s = own_steps; s != NULL && s->word != NULL; s++)
        if (strcmp(s->word, word) == 0) return s;
    return NULL;
}

static inline void step_expects(world *w, const char *code)
{
    for (int i = 0; i < MS_RESULT_COUNT; i++)
        if (strcmp(test_code_word((ms_result)i) + (i > 0 ? 2 : 0), code) == 0)
            w->want = (ms_result)i;
    if (w->want == MS_OK) step_fails(w, "no result '%s'", code);
}

/* Runs a script whose name is the step, with the words of the step for its parameters. */
static inline void run_named(world *w, const scenario *of)
{
    char script[2000], words[SCENARIO_WORDS][400];
    size_t n = 0;
    memcpy(words, w->words, sizeof words);
    for (const char *p = of->script; p < of->end && n + 400 < sizeof script;) {
        size_t len = *p == '$' ? strspn(p + 1, "abcdefghijklmnopqrstuvwxyz") : 0;
        if (len == 0) script[n++] = *p++;
        if (len == 0) continue;
        int i = 0;
        const char *name = of->head;
        for (bool found = false; !found; i++) {
            name += strcspn(name, " \n");
            if (*name++ != ' ') step_fails(w, "no such parameter");
            found = strncmp(name, p + 1, len) == 0 && strcspn(name, " \n") == len;
        }
        n += (size_t)sprintf(script + n, "%s", words[i]);
        p += 1 + len;
    }
    run_script(w, script, n);
}

/* Splits a step into words; a word in braces is the script of a call. */
static inline void step_split(world *w, const char *p, const char *end)
{
    w->n_words = 0;
    memset(w->words, 0, sizeof w->words);
    while (p < end && w->n_words < SCENARIO_WORDS) {
        size_t n = 0;
        char *word = w->words[w->n_words];
        while (p < end && isspace((unsigned char)*p)) p++;
        if (p == end) return;
        char stop = *p == '\'' ? '\'' : ' ';
        if (*p == '{') {
            w->act = p;
            strcpy(word, "{");
            w->n_words++;
            return;
        }
        if (stop == '\'') p++;
        while (p < end && *p != stop && n < sizeof w->words[0] - 1) word[n++] = *p++;
        if (stop == '\'') p++;
        w->n_words++;
    }
}

static inline void run_step(world *w, const char *p, const char *end)
{
    static const char *const handles[] = {"writer", "other", "reader", "image"};
    while (p < end && isspace((unsigned char)*p)) p++;
    if (p == end) return;
    snprintf(w->step, sizeof w->step, "%.*s", (int)(end - p), p);
    w->want = MS_OK;
    w->handle = WRITER;
    w->looked = w->at;
    step_split(w, p, end);
    for (int i = 0; i < 4; i++) {
        if (strcmp(w->words[0], handles[i]) != 0) continue;
        if (i < HANDLES) w->handle = i;
        else w->looked = w->at + 1;
        memmove(w->words[0], w->words[1], sizeof w->words - sizeof w->words[0]);
        w->n_words--;
        break;
    }
    if (w->n_words > 2 && strcmp(w->words[w->n_words - 2], "->") == 0) {
        w->n_words -= 2;
        step_expects(w, w->words[w->n_words + 1]);
    }
    w->disks[w->at].device_more = w->device[w->handle];
    w->disks[w->at].inode_more = w->inode[w->handle];
    const scenario_step *s = step_find(w->words[0]);
    for (size_t i = 0; s == NULL && i < n_scenarios; i++)
        if (strcmp(scenarios[i].name, w->words[0]) == 0) {
            run_named(w, &scenarios[i]);
            return;
        }
    if (s == NULL) step_fails(w, "no such step");
    s->run(w);
}

static inline void run_script(world *w, const char *script, size_t len)
{
    const char *end = script + len;
    while (script < end) {
        int depth = 0;
        const char *p = script;
        for (; p < end && (depth > 0 || *p != ';'); p++)
            depth += *p == '{' ? 1 : *p == '}' ? -1 : 0;
        run_step(w, script, p);
        script = p + 1;
    }
}

/* ---- rows as tests ---- */

static world *the_world(void)
{
    static world *w;
    if (w != NULL) return w;
    w = (world *)calloc(1, sizeof *w);
    if (w == NULL) abort();
    for (int i = 0; i < SCENARIO_DISKS; i++) {
        sim_init(&w->disks[i]);
        os_fault_init(&w->faults[i], &w->disks[i].os);
    }
    return w;
}

static inline void world_begin(world *w)
{
    memset(w->stores, 0, sizeof w->stores);
    memset(w->device, 0, sizeof w->device);
    memset(w->inode, 0, sizeof w->inode);
    for (int i = 0; i < SCENARIO_DISKS; i++) {
        if (!sim_idle(&w->disks[i])) { /* after a test that failed */
            sim_deinit(&w->disks[i]);
            sim_init(&w->disks[i]);
        }
        sim_clear(&w->disks[i]);
        os_fault_init(&w->faults[i], &w->disks[i].os);
    }
    w->at = w->looked = w->n_marks = 0;
    w->seq = w->first = w->left = w->said = w->tried = w->now = 0;
    w->entropy = test_seed();
}

static inline void world_end(world *w)
{
    w->faults[w->at].how = OS_FAULT_NONE;
    close_all(w);
    for (int i = 0; i < SCENARIO_DISKS; i++) assert_true(sim_idle(&w->disks[i]));
}

/* Runs a scenario with the map engine or the write engine. */
static inline void scenario_test(const scenario *row, ms_log_engine engine)
{
    world *w = the_world();
    w->row = row;
    w->engine = engine;
    w->turn = row->from;
    do {
        world_begin(w);
        run_script(w, row->script, (size_t)(row->end - row->script));
        world_end(w);
        w->turn += row->by;
    } while (row->by > 0 && w->turn < row->upto);
}

static inline void map_test(void **state)
{
    scenario_test((const scenario *)*state, MS_ENGINE_MAP);
}

static inline void write_test(void **state)
{
    scenario_test((const scenario *)*state, MS_ENGINE_WRITE);
}

/* Adds a script; its comments and the ends of its lines become blanks. */
static inline void add_scenario(const char *file, const char *name, const char *text,
                                const char *end)
{
    scenario *s = &scenarios[n_scenarios++];
    assert_true(n_scenarios < SCENARIOS_MAX);
    int n = sscanf(name, "%99s %u %u %u", s->name, &s->from, &s->upto, &s->by);
    assert_true(n == 4 || n == 1 || isupper((unsigned char)name[0]));
    s->file = file;
    s->head = name;
    s->script = text;
    s->end = end;
    size_t size = (size_t)(end - text);
    s->lines = (char *)calloc(size + 1, 1);
    assert_non_null(s->lines);
    memcpy(s->lines, text, size);
    char *comment = strstr(s->lines, "\n#"); /* the heading of what follows */
    while (comment != NULL && strchr(comment + 1, ';') != NULL)
        comment = strstr(comment + 1, "\n#");
    if (comment != NULL) *comment = '\0';
    for (char *p = (char *)(uintptr_t)text; p < end; p += strcspn(p, "\n")) {
        if (*p == '\n') *p++ = ' ';
        if (*p == '#') memset(p, ' ', strcspn(p, "\n"));
    }
}

/* Runs the scripts of a file with each engine; `own`: steps of the suite, up to one
 * without a word. */
static inline int scenarios_run(const char *file, const scenario_step *own)
{
    static char names[2 * SCENARIOS_MAX][120];
    own_steps = own;
    scribe_page();
    each_script(file, add_scenario);
    for (size_t i = 0; i < 2 * n_scenarios; i++) {
        scenario *s = &scenarios[i / 2];
        if (isupper((unsigned char)s->name[0])) continue;
        snprintf(names[i], sizeof names[i], "%s (%s)", s->name, i % 2 ? "write" : "map");
        add_row_test(names[i], i % 2 ? write_test : map_test, s);
    }
    return run_all_tests(NULL, NULL);
}

#endif /* SCENARIO_H */
