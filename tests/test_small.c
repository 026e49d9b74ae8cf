/* Power losses among changes of every kind, on a simulated disk (simdisk.h): in every
 * small workload, and in long ones at random.
 *
 * A diary (diary.h) is the judge. A reader and a writer of an image must show just what
 * the first k steps make. k is at least the number of steps known to be durable, and at
 * most that of the steps begun; what was erased is not in the file. Reading changes
 * nothing, and reader and writer agree. Of some images the power is lost again in what a
 * recovering writer does next; the reader from before sees that, too.
 *
 * The small workloads are all sequences of a few operations of a store: append, append
 * with a key (and again with the same one), batch, sync, an index record, close and open
 * again, a kill and another process, rewrite in place, amend, hide, a second handle's
 * look. Each begins once with an empty log and once with one that has synced messages,
 * with both engines, and once more with a sync at each append. In the last operation of
 * a sequence (the ones before it are the last of a shorter one) and after it images are
 * built of what a power loss may leave: all of them where there are few, else prefixes,
 * all but one, torn pages, sizes without data and data without sizes, random subsets.
 * Blocks that nobody wrote are zero, or hold another log. Of some recovered logs each
 * sector is then lost: no dead message comes back, and what is missing is reported.
 *
 * The long ones take their steps from a seed, and sync now and then. The power is lost,
 * or the writer is killed, between the steps and in them.
 *
 * Counts: sequences up to length 2 below MS_TEST_SCALE=1000 (792 workloads), up to
 * length 3 from there on (8,778); below 100 every fourth of them. Intervals with at most
 * 48 states are tried out wholly, from 1000 on those with at most 1024. Of long
 * workloads 1,000 images at 100, with each engine.
 */

#define _GNU_SOURCE
#define HISTORY_MOST 1200
#include "format.h"
#include "lab.h"
#include "diary.h"

enum { STEPS = 64, ITEMS = 96, BIG = 1500 };

typedef enum op {
    OP_APPEND, OP_BATCH, OP_KEYED, OP_SYNC, OP_INDEX, OP_REOPEN, OP_KILL, OP_COMPACT,
    OP_AMEND, OP_HIDE, OP_REFRESH, OPS
} op;

static const char *const op_words[OPS] = {"append", "batch", "keyed append", "sync",
                                          "index",  "reopen", "kill", "compact",
                                          "amend",  "hide",  "refresh"};

typedef struct config {
    const char *word;
    ms_log_engine engine;
    ms_sync_mode sync;
} config;

static const config configs[] = {{"map", MS_ENGINE_MAP, MS_SYNC_NONE},
                                 {"write", MS_ENGINE_WRITE, MS_SYNC_NONE},
                                 {"each", MS_ENGINE_WRITE, MS_SYNC_EACH}};

enum { CONFIGS = 3 };

typedef struct small {
    lab l;
    diary d[LAB_LEVELS];      /* of each disk: what was done there */
    change plans[LAB_LEVELS][STEPS]; /* of small workloads */
    int begun[LAB_LEVELS], durable[LAB_LEVELS]; /* steps */
    bool redacting;           /* the step of the writer that runs is a redaction */
    sim_disk killed;          /* what a killed process leaves, until it is given back */
    ms_store *store, *reader; /* of the workload */
    uint64_t opened;          /* the end that the store had then */
    uint64_t workloads, sectors, lost;
    size_t all;
    bool cutting;             /* in the last operation, or in a step of a long workload */
    unsigned char *bytes;     /* of a file */
} small;


/* ---- a store beside its diary ---- */

/* Does the next step of the diary. */
static void step(small *t, int level, ms_store *store)
{
    ms_error err;
    diary *d = &t->d[level];
    t->begun[level] = d->steps + 1;
    lab_must(&t->l, level, diary_step(d, store, &err), &err, "a step");
    if (t->l.sync == MS_SYNC_EACH || d->redacting) t->durable[level] = d->steps;
}

static void step_as(small *t, int level, ms_store *store, change c)
{
    diary *d = &t->d[level];
    if (d->steps == STEPS) abort();
    t->plans[level][d->steps] = c;
    step(t, level, store);
}

/* Appends `count` messages as one step; of those with a key the first one twice. */
static void add(small *t, int level, ms_store *store, int count, bool big, bool keyed)
{
    char text[HISTORY_TEXT];
    uint64_t seq = 0;
    ms_error err;
    const history *h = &t->d[level].h;
    change c;
    memset(&c, 0, sizeof c);
    for (c.n_fresh = 0; c.n_fresh < count; c.n_fresh++) {
        item *e = &c.fresh[c.n_fresh];
        e->type = 1;
        e->key = keyed ? 3 : 0;
        e->size = (short)(big ? BIG : 10 + (h->numbers + c.n_fresh) * 37 % 150);
    }
    step_as(t, level, store, c);
    if (!keyed) return;
    const item *first = &h->items[h->count - count];
    ms_envelope m = history_message(first, text);
    lab_must(&t->l, level, ms_append(store, history_place(0), &m, &seq, &err), &err,
             "append with the same key");
    if (seq != first->seq) lab_fails(&t->l, level, "a key was forgotten");
}

/* The newest message gets another text, or is hidden. */
static void change_newest(small *t, int level, ms_store *store, change_kind what)
{
    const history *h = &t->d[level].h;
    change c = {.what = what};
    for (c.at = h->count - 1; c.at >= 0 && h->items[c.at].hidden; c.at--) continue;
    if (c.at < 0) return;
    c.size = h->items[c.at].size;
    step_as(t, level, store, c);
}

static void sync_all(small *t, int level, ms_store *store)
{
    ms_error err;
    lab_must(&t->l, level, ms_sync(store, NULL, &err), &err, "sync");
    t->durable[level] = t->d[level].steps;
}

/* A handle from before sees everything that has returned. */
static void refresh(small *t, int level, ms_store *reader)
{
    ms_error err;
    lab_must(&t->l, level, test_refresh(reader, NULL, &err), &err, "refresh");
    const char *what = diary_differs(&t->d[level], reader);
    if (what != NULL) lab_fails(&t->l, level, "another handle does not see all: %s", what);
}


/* ---- a bad sector, after the recovered log went on ---- */

/* What a reader sees of a damaged file, and where it lies. */
typedef struct seen {
    uint64_t seqs[ITEMS];
    size_t at[ITEMS];
    int count;
} seen;

/* Is that a text which some step shows? */
static bool is_of_diary(const diary *d, ms_str is)
{
    char text[HISTORY_TEXT];
    for (int i = 0; i < d->h.count; i++) {
        item e = d->h.items[i];
        for (; e.version >= 0; e.version--)
            if (ms_str_equal(is, history_text(&e, text))) return true;
    }
    return false;
}

/* Reads the file, of which a sector may be bad. Returns whether damage was reported. */
static bool look_again(small *t, int level, size_t sector, seen *out)
{
    ms_query q;
    ms_cursor it;
    ms_error err;
    ms_log_info info;
    const ms_msg *msg;
    t->l.damage = 0;
    out->count = 0;
    ms_store *store = lab_read(&t->l, level, true);
    memset(&q, 0, sizeof q);
    lab_must(&t->l, level, ms_query_open(store, &q, &it, &err), &err, "a bad sector");
    while ((msg = ms_next(&it)) != NULL) {
        if (out->count == ITEMS || !is_of_diary(&t->d[level], ms_content(msg).text))
            lab_fails(&t->l, level, "bad sector at %zu: message %u is not known", sector,
                      (unsigned)ms_seq(msg));
        out->at[out->count] = (size_t)((const unsigned char *)(const void *)msg -
                                       lab_file(&t->l, level)->ro);
        out->seqs[out->count++] = ms_seq(msg);
    }
    bool reported = ms_cursor_close(&it, NULL) != MS_OK || t->l.damage != 0;
    lab_must(&t->l, level, ms_log_stat(store, &info, &err), &err, "stat");
    ms_close(store);
    return reported || info.damaged != 0;
}

/* Each sector in turn is lost. What lies elsewhere is shown as before, but for what an
 * amendment or its message has alone; nothing that was given up comes back; what is
 * missing is reported. */
static void bad_sectors(small *t, int level)
{
    seen before, now;
    sim_file *f = lab_file(&t->l, level);
    const history *h = &t->d[level].h;
    unsigned char kept[512];
    bool changed = false;
    if (look_again(t, level, 0, &before)) lab_fails(&t->l, level, "damage is there");
    if (test_one_in(&t->l.rng, 2)) t->l.disks[level].boot++; /* found after a restart */
    for (int i = 0; i < h->count; i++) changed = changed || h->items[i].amended;
    for (size_t sector = 4096; sector < f->high; sector += 512, t->sectors++) {
        memcpy(kept, f->rw + sector, 512);
        for (size_t i = 0; i < 512; i++) f->rw[sector + i] = (unsigned char)(i * 7 + 1);
        bool reported = look_again(t, level, sector, &now);
        memcpy(f->rw + sector, kept, 512);
        for (int i = 0, j = 0; i < before.count; i++) {
            while (j < now.count && now.seqs[j] < before.seqs[i]) j++;
            if (j < now.count && now.seqs[j] == before.seqs[i]) continue;
            size_t at = before.at[i], size = file_padded(file_get32(f->ro + at));
            bool touched = at < sector + 512 && sector < at + size;
            if (!reported || (!touched && !changed))
                lab_fails(&t->l, level, "bad sector at %zu: message %u at %zu is missing%s",
                          sector, (unsigned)before.seqs[i], at,
                          reported ? "" : " in silence");
        }
    }
}


/* ---- one image ---- */

/* Does the file hold what was erased? */
static bool leaks(small *t, int level)
{
    const sim_file *f = lab_file(&t->l, level);
    if (f == NULL) return false;
    memcpy(t->bytes, f->ro, (size_t)f->size);
    return diary_leaks_in(&t->d[level], t->bytes, (size_t)f->size);
}

/* Finds the steps that a handle of an image shows; they are its disk's diary then. */
static void find_steps(small *t, int level, ms_store *store, bool writing, diary_crash *is)
{
    const char *who = writing ? "recovering" : "reading";
    diary_find(&t->d[level - 1], store, writing, is, &t->d[level]);
    if (is->wrong != NULL)
        lab_fails(&t->l, level, "%s, %d to %d steps: %s", who, is->least, is->most,
                  is->wrong);
    if (!is->leaky && leaks(t, level))
        lab_fails(&t->l, level, "%s: what was erased is there", who);
    if (t->l.damage != 0) lab_fails(&t->l, level, "%s: damage was reported", who);
}

/* The recovered log goes on; the power is lost then. */
static void goes_on(small *t, int level, ms_store *store, ms_store *reader)
{
    diary *d = &t->d[level];
    bool planned = d->plan != NULL;
    if (planned && d->steps + 2 > STEPS) return;
    if (d->n_lost + 2 >= DIARY_LOST || d->h.count + 200 > DIARY_MOST) return;
    t->durable[level] = d->steps; /* what was read once stays */
    diary_writer_gone(d);
    if (planned) {
        memcpy(t->plans[level], t->plans[level - 1], sizeof t->plans[level]);
        d->plan = t->plans[level];
        add(t, level, store, 2, false, true);
    }
    for (uint64_t i = 1 + test_below(&t->l.rng, 5); i > 0 && !planned; i--) {
        step(t, level, store);
        if (test_one_in(&t->l.rng, 8)) sync_all(t, level, store);
    }
    lab_cut(&t->l, level, 8, planned ? 8 : 3, 2);
    if (planned) sync_all(t, level, store);
    if (reader != NULL) refresh(t, level, reader);
}

/* What holds of every image. Not every one goes on: not after a redaction that had not
 * returned, whose mark the diary of the next disk does not know. */
static void stands(lab *l, int level)
{
    small *t = (small *)(void *)l;
    diary_crash is = {t->durable[level - 1], t->begun[level - 1],
                      level == 1 && t->redacting, 0, false, NULL};
    bool planned = t->d[level - 1].plan != NULL, fit = !l->killed && !is.redacting;
    l->damage = 0;
    ms_store *reader = lab_read(l, level, is.least > 0);
    if (reader != NULL) find_steps(t, level, reader, false, &is);
    lab_is_unchanged(l, level);
    t->lost += reader != NULL && is.found < is.most;
    if (reader != NULL && !is.redacting) is.least = is.most = is.found; /* they agree */
    ms_store *store = lab_open(l, level, MS_LOG_CREATE, "recovering");
    find_steps(t, level, store, true, &is);
    t->begun[level] = t->durable[level] = t->d[level].steps;
    bool went_on = fit && test_one_in(&l->rng, planned && level == 1 ? 8 : 4) &&
                   level + 1 < (planned ? 3 : LAB_LEVELS);
    if (went_on) goes_on(t, level, store, reader);
    ms_close(reader);
    ms_close(store);
    if (went_on && planned && level == 1 && test_one_in(&l->rng, 4)) bad_sectors(t, level);
    lab_is_idle(l, level);
}

/* In a small workload: inside the last operation, before a call that syncs or moves a
 * name. In a long one: once in a step, and perhaps the writer is killed instead. */
static void at_moment(void *ctx, sim_disk *d, sim_call call)
{
    small *t = (small *)ctx;
    bool planned = t->d[0].plan != NULL;
    if (!t->cutting || (planned && call == SIM_AT_WRITE)) return;
    if (!planned && !test_one_in(&t->l.rng, 3)) return;
    t->cutting = planned;
    if (planned || !test_one_in(&t->l.rng, 3)) {
        lab_cut(&t->l, 0, planned ? t->all / 4 : 0, planned ? 16 : 3, 2);
        return;
    }
    int durable = t->durable[0];
    t->durable[0] = t->d[0].steps; /* a kill loses nothing that has returned */
    lab_kill(&t->l, 0);
    t->durable[0] = durable;
}

static void watched(small *t)
{
    t->l.disks[0].moment = at_moment;
    t->l.disks[0].ctx = t;
}


/* ---- small workloads ---- */

static void open_log(small *t)
{
    ms_error err;
    ms_log_info info;
    t->store = lab_open(&t->l, 0, MS_LOG_CREATE, "opening");
    lab_must(&t->l, 0, ms_log_stat(t->store, &info, &err), &err, "stat");
    t->opened = info.end;
    if (info.durable_end >= info.end) t->durable[0] = t->d[0].steps;
}

static void look_beside(small *t)
{
    if (t->reader == NULL) t->reader = lab_read(&t->l, 0, true);
    refresh(t, 0, t->reader);
}

static void close_reader(small *t)
{
    if (t->reader != NULL) look_beside(t);
    ms_close(t->reader);
    t->reader = NULL;
}

/* The old file's readers stay with it. */
static void compact(small *t)
{
    ms_error err;
    ms_log_desc desc = lab_desc(&t->l, 0, MS_LOG_CREATE);
    change c = {.what = DO_COMPACT};
    if (t->d[0].steps == STEPS) abort();
    t->plans[0][t->begun[0]++] = c; /* images in it may show that it is done */
    close_reader(t);
    ms_result result = ms_log_rewrite(t->store, &desc, true, NULL, NULL, &err);
    lab_must(&t->l, 0, result, &err, "rewrite");
    step_as(t, 0, NULL, c);
    t->durable[0] = t->d[0].steps;
    if (t->cutting) lab_cut(&t->l, 0, t->all, 0, 4);
    ms_close(t->store);
    open_log(t);
}

/* A close makes durable what was appended, and with it what was found. */
static void reopen(small *t)
{
    ms_error err;
    ms_log_info info;
    lab_must(&t->l, 0, ms_log_stat(t->store, &info, &err), &err, "stat");
    ms_close(t->store);
    if (info.end > t->opened) t->durable[0] = t->d[0].steps;
    if (t->cutting) lab_cut(&t->l, 0, t->all, 0, 4);
    open_log(t);
}

/* The process is killed; another one of the same boot finds what it left. */
static void killed(small *t)
{
    sim_disk *d = &t->l.disks[0];
    close_reader(t);
    sim_kill(d, &t->killed);
    d->moment = NULL;
    ms_close(t->store);
    sim_kill(&t->killed, d);
    watched(t);
    open_log(t);
}

/* Enough for a segment, whose index record is written after it. */
static void fill_segment(small *t)
{
    for (int i = 0; i < 3; i++) add(t, 0, t->store, 1, true, false);
    assert_int_equal(ms_tick(t->store, 1000, NULL), MS_OK);
}

static void run(small *t, op what)
{
    switch (what) {
    case OP_APPEND: add(t, 0, t->store, 1, false, false); break;
    case OP_BATCH: add(t, 0, t->store, 3, false, false); break;
    case OP_KEYED: add(t, 0, t->store, 1, false, true); break;
    case OP_SYNC: sync_all(t, 0, t->store); break;
    case OP_INDEX: fill_segment(t); break;
    case OP_REOPEN: reopen(t); break;
    case OP_KILL: killed(t); break;
    case OP_COMPACT: compact(t); break;
    case OP_AMEND: change_newest(t, 0, t->store, DO_AMEND); break;
    case OP_HIDE: change_newest(t, 0, t->store, DO_HIDE); break;
    default: look_beside(t); break;
    }
}

/* Begins a diary with an empty disk; planned: its steps are given one by one. */
static void begin_diary(small *t, bool planned)
{
    sim_clear(&t->l.disks[0]);
    t->l.disks[0].stale = t->l.stale;
    watched(t);
    t->cutting = t->redacting = false;
    t->l.damage = 0;
    t->begun[0] = t->durable[0] = 0;
    diary_begin(&t->d[0], test_random(&t->l.rng));
    if (planned) t->d[0].plan = t->plans[0];
    open_log(t);
}

static void begin_workload(small *t, bool filled)
{
    begin_diary(t, true);
    for (int i = 0; filled && i < 3; i++) add(t, 0, t->store, 1, false, i == 1);
    if (filled) sync_all(t, 0, t->store);
}

static void name_workload(small *t, const config *how, const op *ops, int n, bool filled)
{
    char *name = t->l.name;
    size_t size = sizeof t->l.name;
    int len = snprintf(name, size, "%s log, %s:", filled ? "filled" : "empty", how->word);
    for (int i = 0; i < n && len > 0 && (size_t)len < size; i++)
        len += snprintf(name + len, size - (size_t)len, "%s %s", i > 0 ? "," : "",
                        op_words[ops[i]]);
}

static void one_workload(small *t, const config *how, const op *ops, int n, bool filled)
{
    t->l.engine = how->engine;
    t->l.sync = how->sync;
    name_workload(t, how, ops, n, filled);
    begin_workload(t, filled);
    for (int i = 0; i < n; i++) {
        t->cutting = i + 1 == n;
        run(t, ops[i]);
    }
    lab_cut(&t->l, 0, t->all, 0, 6);
    t->cutting = false;
    close_reader(t);
    ms_close(t->store);
    if (!sim_idle(&t->l.disks[0])) lab_fails(&t->l, 0, "something was left open");
    t->workloads++;
}

/* All sequences of a length, as numbers to the base OPS; one in `stride`. */
static void all_of_length(small *t, int length, unsigned stride)
{
    unsigned count = 1, first = (unsigned)(test_seed() % stride);
    op ops[3];
    for (int i = 0; i < length; i++) count *= OPS;
    for (unsigned w = first; w < count * CONFIGS * 2; w += stride) {
        unsigned rest = w % count;
        for (int i = 0; i < length; i++, rest /= OPS) ops[i] = (op)(rest % OPS);
        const config *how = &configs[w / count % CONFIGS];
        one_workload(t, how, ops, length, w / count / CONFIGS != 0);
    }
}

/* A log of another run, whose blocks may turn up. */
static void leave_stale(small *t)
{
    t->l.engine = MS_ENGINE_MAP;
    begin_workload(t, true);
    while (lab_file(&t->l, 0)->high < 16 * SIM_PAGE) fill_segment(t);
    ms_close(t->store);
    lab_leave_stale(&t->l);
}

static small *small_new(void)
{
    small *t = (small *)calloc(1, sizeof *t);
    if (t == NULL) abort();
    lab_begin(&t->l, stands);
    sim_init(&t->killed);
    t->bytes = (unsigned char *)malloc(SIM_ROOM);
    if (t->bytes == NULL) abort();
    return t;
}

static void small_free(small *t)
{
    printf("%llu images, %llu of them of a recovery; %llu lost steps\n",
           (unsigned long long)t->l.images.all, (unsigned long long)t->l.recoveries,
           (unsigned long long)t->lost);
    lab_tally(&t->l);
    sim_deinit(&t->killed);
    lab_end(&t->l);
    free(t->bytes);
    free(t);
}

TEST(every_small_workload_survives_when_power_is_lost)
{
    small *t = small_new();
    t->all = test_scale() < 1000 ? 48 : 1024;
    leave_stale(t);
    for (int length = 1; length <= (test_scale() < 1000 ? 2 : 3); length++)
        all_of_length(t, length, test_scale() < 100 ? 4 : 1);
    test_tally("small workloads", t->workloads);
    test_tally("bad sectors after a recovery", t->sectors);
    small_free(t);
}


/* ---- long workloads ---- */

/* Makes a step, in which or after which the power may be lost. */
static void random_step(small *t)
{
    static diary next;
    diary_replay(&t->d[0], t->d[0].steps + 1, &next);
    t->redacting = next.redacting;
    t->cutting = test_one_in(&t->l.rng, 4);
    step(t, 0, t->store);
    t->cutting = t->redacting = false;
    if (test_one_in(&t->l.rng, 20)) sync_all(t, 0, t->store);
    if (test_one_in(&t->l.rng, 8)) lab_cut(&t->l, 0, 8, 4, 2);
}

TEST_WITH(WITH_EACH_ENGINE, a_prefix_of_the_changes_stays_when_power_is_lost)
{
    small *t = small_new();
    uint64_t wanted = test_times(1000);
    t->l.engine = *(const ms_log_engine *)*state;
    t->l.rng += 13;
    while (t->l.images.all < wanted) {
        begin_diary(t, false);
        for (int i = 0; i < 120 && t->l.images.all < wanted; i++) random_step(t);
        ms_close(t->store);
    }
    if (wanted > 500) assert_true(t->lost > wanted / 20);
    small_free(t);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
