/* Power losses in every small workload, on a simulated disk. The judge is crash_images.h:
 * a reader and a writer of an image show just what the first k steps make. What was
 * erased is not in the file. Reading changes nothing. Of some images the power is lost
 * again in what a recovering writer does next; the reader from before sees that, too.
 *
 * The workloads are all sequences of a few operations of a store: append, append with a
 * key (and again with the same one), batch, sync, an index record, close and open again, a
 * kill and another process, rewrite in place, amend, hide, a second handle's look. Each
 * begins once with an empty log and once with one that has synced messages, with both
 * engines, and once more with a sync at each append. In the last operation of a sequence
 * (the ones before it are the last of a shorter one) and after it images are built of what
 * a power loss may leave: all of them where there are few, else prefixes, all but one,
 * torn pages, sizes without data and data without sizes, random subsets. Blocks that
 * nobody wrote are zero, or hold another log. Of some recovered logs each sector is then
 * lost: no dead message comes back, and what is missing is reported.
 *
 * Counts: sequences up to length 2 below MS_TEST_SCALE=1000 (792 workloads), up to
 * length 3 from there on (8,778); below 100 every fourth of them. Intervals with at most
 * 48 states are tried out wholly, from 1000 on those with at most 1024. Long workloads are
 * in test_power.
 */

#define _GNU_SOURCE
#include "crash_images.h"

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
    crash_images l;
    change plans[IMAGES_LEVELS][STEPS]; /* of each disk: its steps */
    sim_disk killed;          /* what a killed process leaves, until it is given back */
    ms_store *store, *reader; /* of the workload */
    uint64_t opened;          /* the end that the store had then */
    uint64_t workloads, sectors;
    bool cutting;             /* in the last operation */
    bool went_on;             /* the recovered log, by a writer that is closed */
} small;


/* ---- a store beside its sequence ---- */

static void step_as(small *t, int level, ms_store *store, change c)
{
    int steps = t->l.d[level].steps;
    if (steps == STEPS) abort();
    t->plans[level][steps] = c;
    images_step(&t->l, level, store);
}

/* Appends `count` messages as one step; of those with a key the first one twice. */
static void add(small *t, int level, ms_store *store, int count, bool big, bool keyed)
{
    const store_model *h = &t->l.d[level].h;
    change c = {.what = DO_APPEND};
    for (c.n_fresh = 0; c.n_fresh < count; c.n_fresh++) {
        item *e = &c.fresh[c.n_fresh];
        e->type = 1;
        e->key = keyed ? 3 : 0;
        e->size = (short)(big ? BIG : 10 + (h->numbers + c.n_fresh) * 37 % 150);
    }
    step_as(t, level, store, c);
    if (keyed) images_key(&t->l, level, store, &h->items[h->count - count]);
}

/* The newest message gets another text, or is hidden. */
static void change_newest(small *t, int level, ms_store *store, change_kind what)
{
    const store_model *h = &t->l.d[level].h;
    change c = {.what = what};
    for (c.at = h->count - 1; c.at >= 0 && h->items[c.at].hidden; c.at--) continue;
    if (c.at < 0) return;
    c.size = h->items[c.at].size;
    step_as(t, level, store, c);
}


/* ---- a bad sector, after the recovered log went on ---- */

/* What a reader sees of a damaged file, and where it lies. */
typedef struct seen {
    uint64_t seqs[ITEMS];
    size_t at[ITEMS];
    int count;
} seen;

/* Is that a text which some step shows? */
static bool is_of_sequence(const change_sequence *d, ms_str is)
{
    char text[MODEL_TEXT];
    for (int i = 0; i < d->h.count; i++) {
        item e = d->h.items[i];
        for (; e.version >= 0; e.version--)
            if (ms_str_equal(is, model_text(&e, text))) return true;
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
    ms_store *store = images_read(&t->l, level, true);
    memset(&q, 0, sizeof q);
    images_must(&t->l, level, ms_query_open(store, &q, &it, &err), &err, "a bad sector");
    while ((msg = ms_next(&it)) != NULL) {
        if (out->count == ITEMS || !is_of_sequence(&t->l.d[level], ms_content(msg).text))
            images_fails(&t->l, level, "bad sector at %zu: message %u is not known",
                         sector,
                         (unsigned)ms_seq(msg));
        out->at[out->count] = (size_t)((const unsigned char *)(const void *)msg -
                                       images_file(&t->l, level)->ro);
        out->seqs[out->count++] = ms_seq(msg);
    }
    bool reported = ms_cursor_close(&it, NULL) != MS_OK || t->l.damage != 0;
    images_must(&t->l, level, ms_log_stat(store, &info, &err), &err, "stat");
    ms_close(store);
    return reported || info.damaged != 0;
}

/* Each sector in turn is lost. What lies elsewhere is shown as before, but for what an
 * amendment or its message has alone; nothing that was given up comes back; what is
 * missing is reported. */
static void bad_sectors(small *t, int level)
{
    seen before, now;
    sim_file *f = images_file(&t->l, level);
    const store_model *h = &t->l.d[level].h;
    unsigned char kept[512];
    bool changed = false;
    if (look_again(t, level, 0, &before)) images_fails(&t->l, level, "damage is there");
    if (test_one_in(&t->l.rng, 2)) t->l.disks[level].boot++; /* found after a restart */
    for (int i = 0; i < h->count; i++) changed = changed || h->items[i].amended;
    for (size_t sector = FILE_SUPERBLOCK; sector < f->high; sector += 512, t->sectors++) {
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
                images_fails(&t->l, level,
                             "bad sector at %zu: message %u at %zu is missing%s",
                             sector, (unsigned)before.seqs[i], at,
                             reported ? "" : " in silence");
        }
    }
}


/* ---- one image ---- */

/* The recovered log goes on; the power is lost then. */
static void goes_on(crash_images *l, int level, ms_store *store)
{
    small *t = (small *)(void *)l;
    change_sequence *d = &l->d[level];
    if (level > 1 || d->steps + 2 > STEPS) return;
    if (!images_one_in(l, 8) || !images_may_go_on(l, level)) return;
    memcpy(t->plans[level], t->plans[level - 1], sizeof t->plans[level]);
    d->plan = t->plans[level];
    l->begun[level] = d->steps;
    add(t, level, store, 2, false, true);
    images_cut(l, level, 8, 8, 2);
    images_sync(l, level, store);
    t->went_on = true;
}

static void stands(crash_images *l, int level)
{
    small *t = (small *)(void *)l;
    t->went_on = false;
    images_stands(l, level);
    bool tried = t->went_on && level == 1 &&
 images_one_in(l, test_scale() < 1000 ? 4 : 1);
    if (tried) bad_sectors(t, level);
}

/* Inside the last operation, before a call that syncs or moves a name. */
static void at_moment(void *ctx, sim_disk *d, sim_call call)
{
    small *t = (small *)ctx;
    (void)d;
    if (t->cutting && call != SIM_AT_WRITE) images_cut(&t->l, 0, t->l.all / 4, 16, 2);
}

static void watched(small *t)
{
    t->l.disks[0].moment = at_moment;
    t->l.disks[0].ctx = t;
}


/* ---- small workloads ---- */

static void open_log(small *t)
{
    t->store = images_open(&t->l, 0, MS_LOG_CREATE, "opening");
    t->opened = images_info(&t->l, 0, t->store).end;
    images_ends_at(&t->l, 0, t->opened);
    images_claims(&t->l, 0, t->store);
}

static void look_beside(small *t)
{
    if (t->reader == NULL) t->reader = images_read(&t->l, 0, true);
    images_refresh(&t->l, 0, t->reader);
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
    change c = {.what = DO_COMPACT};
    ms_log_desc desc = images_desc(&t->l, 0, MS_LOG_CREATE);
    if (t->l.d[0].steps == STEPS) abort();
    t->plans[0][t->l.begun[0]++] = c; /* images in it may show that it is done */
    close_reader(t);
    ms_result result = ms_log_rewrite(t->store, &desc, true, NULL, NULL, &err);
    images_must(&t->l, 0, result, &err, "rewrite");
    step_as(t, 0, NULL, c);
    t->l.durable[0] = t->l.d[0].steps;
    if (t->cutting) images_cut(&t->l, 0, t->l.all, 0, 4);
    ms_close(t->store);
    open_log(t);
}

/* A close makes durable what was appended, and with it what was found. */
static void reopen(small *t)
{
    bool wrote = images_info(&t->l, 0, t->store).end > t->opened;
    ms_close(t->store);
    if (wrote) t->l.durable[0] = t->l.d[0].steps;
    if (t->cutting) images_cut(&t->l, 0, t->l.all, 0, 4);
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
    case OP_SYNC: images_sync(&t->l, 0, t->store); break;
    case OP_INDEX: fill_segment(t); break;
    case OP_REOPEN: reopen(t); break;
    case OP_KILL: killed(t); break;
    case OP_COMPACT: compact(t); break;
    case OP_AMEND: change_newest(t, 0, t->store, DO_AMEND); break;
    case OP_HIDE: change_newest(t, 0, t->store, DO_HIDE); break;
    default: look_beside(t); break;
    }
}

static void begin_workload(small *t, bool filled)
{
    images_empty(&t->l, t->plans[0]);
    watched(t);
    t->cutting = false;
    open_log(t);
    for (int i = 0; filled && i < 3; i++) add(t, 0, t->store, 1, false, i == 1);
    if (filled) images_sync(&t->l, 0, t->store);
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
    images_cut(&t->l, 0, t->l.all, 0, 6);
    t->cutting = false;
    close_reader(t);
    ms_close(t->store);
    if (!sim_idle(&t->l.disks[0])) images_fails(&t->l, 0, "something was left open");
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
    while (images_file(&t->l, 0)->high < 16 * SIM_PAGE) fill_segment(t);
    ms_close(t->store);
    images_leave_stale(&t->l);
}

TEST(every_small_workload_survives_when_power_is_lost)
{
    small *t = (small *)calloc(1, sizeof *t);
    if (t == NULL) abort();
    images_begin(&t->l, stands);
    t->l.goes_on = goes_on;
    t->l.all = test_scale() < 1000 ? 48 : 1024;
    sim_init(&t->killed);
    leave_stale(t);
    for (int length = 1; length <= (test_scale() < 1000 ? 2 : 3); length++)
        all_of_length(t, length, test_scale() < 30 ? 8 : test_scale() < 100 ? 4 : 1);
    images_tally(&t->l);
    test_tally("small workloads", t->workloads);
    test_tally("bad sectors after a recovery", t->sectors);
    sim_deinit(&t->killed);
    images_end(&t->l);
    free(t);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
