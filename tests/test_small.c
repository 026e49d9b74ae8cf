/* Every small workload, and every power loss in it.
 *
 * All sequences of a few operations of a store are run on a simulated disk (simdisk.h):
 * append, append with a key (and again with the same one), batch, sync, an index record,
 * close and open again, a kill and another process, rewrite in place, amend, hide, a
 * second handle's look. Each begins once with an empty log and once with one that has
 * synced messages, with both engines, and once more with a sync at each append. In the
 * last operation of a sequence (the ones before it are the last of a shorter one) and
 * after it images are built of what a power loss may leave: all of them where there are
 * few, else prefixes, all but one, torn pages, sizes without data and data without
 * sizes, random subsets. Blocks that nobody wrote are zero, or hold another log.
 *
 * A model decides what is right: the texts that are visible after each step (a batch is
 * one step). An image must show, to a reader and to a writer, just what the first k steps
 * make. k is at least the number of steps known to be durable,
 * and at most that of the steps begun. Reading changes nothing. Of some images the power
 * is lost again in a recovering writer's append. Of some, each sector of the recovered
 * log is then lost: no dead message comes back, and what is missing is reported. The
 * second handle always sees all steps that have returned, and what the recovered log
 * goes on with.
 *
 * Counts: sequences up to length 2 below MS_TEST_SCALE=1000 (792 workloads), up to
 * length 3 from there on (8,778); below 100 every fourth of them. Intervals with at most
 * 48 states are tried out wholly, from 1000 on those with at most 1024.
 */

#define _GNU_SOURCE
#include "format.h"
#include "lab.h"

enum { STEPS = 64, ITEMS = 96, LEVELS = 3, TEXT = 1700 }; /* LEVELS: disks in use */


/* ---- the model: what is visible after each step ---- */

typedef struct seen {
    uint64_t seqs[ITEMS];     /* 0: not known */
    uint64_t hashes[ITEMS];   /* of the texts */
    int count;
} seen;

typedef struct model {
    seen after[STEPS + 1];    /* so many steps */
    int n;                    /* steps begun */
    int done;                 /* returned */
    int durable;              /* known to be on the disk */
    int texts;                /* given so far; no two are the same */
    bool big;                 /* the last message */
} model;

static uint64_t hash_of(ms_str text)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < text.len; i++)
        h = (h ^ (unsigned char)text.ptr[i]) * UINT64_C(1099511628211);
    return h;
}

/* The next text: its number, then filling. */
static ms_str new_text(model *m, bool big, char text[TEXT])
{
    int i = m->texts++, n = snprintf(text, 40, "item %d. ", i);
    size_t len = big ? 1500 : 10 + (size_t)(i * 37 % 150);
    memcpy(text + n, scribe_page() + 7 * i, len);
    return ms_str_n(text, (size_t)n + len);
}

/* One more step, which shows what the one before does, until the caller changes it. */
static seen *begin_step(model *m)
{
    if (m->n == STEPS || m->after[m->n].count + 3 > ITEMS) abort();
    m->after[m->n + 1] = m->after[m->n];
    return &m->after[++m->n];
}

/* Is it what the first k steps make? */
static bool shows(const model *m, int k, const seen *s)
{
    const seen *want = &m->after[k];
    if (s->count != want->count) return false;
    for (int i = 0; i < s->count; i++)
        if (s->hashes[i] != want->hashes[i] ||
            (want->seqs[i] != 0 && s->seqs[i] != want->seqs[i]))
            return false;
    return true;
}


/* ---- a store beside the model ---- */

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
    sim_disk killed;          /* what a killed process leaves, until it is given back */
    model models[LEVELS];     /* of each disk */
    ms_store *store, *reader; /* of the workload */
    uint64_t opened;          /* the end that the store had then */
    uint64_t workloads, sectors;
    size_t all;
    bool cutting;             /* in the last operation */
} small;

/* One more step has returned. */
static void step_done(small *t, int level)
{
    model *m = &t->models[level];
    m->done = m->n;
    if (t->l.sync == MS_SYNC_EACH) m->durable = m->n;
}

static void add(small *t, int level, ms_store *store, int count, bool big, bool keyed)
{
    static char all_texts[LEVELS][3][TEXT];
    char keys[3][20];
    model *m = &t->models[level];
    ms_envelope batch[3];
    uint64_t seqs[3], seq = 0;
    ms_append_opts opts;
    ms_error err;
    seen *s = begin_step(m);
    memset(&opts, 0, sizeof opts);
    opts.location = ms_str_of("place");
    opts.seqs = seqs;
    m->big = big;
    for (int i = 0; i < count; i++) {
        snprintf(keys[i], sizeof keys[i], "key %d", m->texts);
        ms_str text = new_text(m, big, all_texts[level][i]);
        batch[i] = ms_assistant_message(ms_text_n(text));
        if (keyed) batch[i].key = ms_str_of(keys[i]);
        s->seqs[s->count] = 0;
        s->hashes[s->count++] = hash_of(text);
    }
    ms_result result = ms_append_batch(store, batch, (size_t)count, &opts, &err);
    lab_must(&t->l, level, result, &err, "append");
    memcpy(&s->seqs[s->count - count], seqs, (size_t)count * sizeof seqs[0]);
    step_done(t, level);
    if (!keyed) return;
    lab_must(&t->l, level, ms_append(store, opts.location, &batch[0], &seq, &err), &err,
             "append with the same key");
    if (seq != seqs[0]) lab_fails(&t->l, level, "a key was forgotten");
}

/* The newest message gets another text, or is hidden. */
static void change_newest(small *t, int level, ms_store *store, bool amends)
{
    char text[TEXT];
    ms_error err;
    model *m = &t->models[level];
    if (m->after[m->n].count == 0) return;
    seen *s = begin_step(m);
    uint64_t seq = s->seqs[--s->count];
    ms_result result;
    if (amends) {
        ms_envelope e = ms_assistant_message(ms_text_n(new_text(m, m->big, text)));
        s->hashes[s->count++] = hash_of(e.content.text);
        result = ms_amend(store, seq, &e, &err);
    } else {
        result = ms_hide(store, seq, &err);
    }
    lab_must(&t->l, level, result, &err, amends ? "amend" : "hide");
    step_done(t, level);
}

static void sync_all(small *t, int level, ms_store *store)
{
    ms_error err;
    model *m = &t->models[level];
    lab_must(&t->l, level, ms_sync(store, NULL, &err), &err, "sync");
    m->durable = m->done;
}


/* ---- what a store shows ---- */

static void look(small *t, int level, ms_store *store, const char *who, seen *out)
{
    ms_query q;
    ms_cursor it;
    ms_arena arena;
    ms_error err;
    const ms_msg *msg;
    memset(&q, 0, sizeof q);
    test_arena_init(&arena, NULL);
    q.arena = &arena;
    q.location = ms_str_of("place");
    out->count = 0;
    lab_must(&t->l, level, ms_query_open(store, &q, &it, &err), &err, who);
    while ((msg = ms_next(&it)) != NULL) {
        if (out->count == ITEMS) lab_fails(&t->l, level, "%s: too many messages", who);
        out->hashes[out->count] = hash_of(ms_content(msg).text);
        out->seqs[out->count++] = ms_seq(msg);
    }
    lab_must(&t->l, level, ms_cursor_close(&it, &err), &err, who);
    ms_arena_deinit(&arena);
    if (t->l.damage != 0) lab_fails(&t->l, level, "%s: damage was reported", who);
}

/* Which steps are in force: at least those up to `least`, at most all begun. */
static int steps_of(small *t, int level, const seen *s, int least, const char *who)
{
    const model *m = &t->models[level];
    for (int k = m->n; k >= least; k--)
        if (shows(m, k, s)) return k;
    lab_fails(&t->l, level, "%s: %d messages are not what the first %d to %d steps make",
              who, s->count, least, m->n);
}


/* ---- a bad sector, after the recovered log went on ---- */

/* What a reader sees of a damaged file, and whether damage was reported. */
static bool look_again(small *t, int level, seen *out, size_t at[ITEMS])
{
    ms_query q;
    ms_cursor it;
    ms_error err;
    ms_log_info info;
    const ms_msg *msg;
    ms_store *store;
    ms_log_desc desc = lab_desc(&t->l, level, MS_LOG_READ);
    const unsigned char *ro = lab_file(&t->l, level)->ro;
    t->l.damage = 0;
    out->count = 0;
    lab_must(&t->l, level, ms_log_open(&store, &desc, &err), &err, "a bad sector");
    memset(&q, 0, sizeof q);
    q.location = ms_str_of("place");
    lab_must(&t->l, level, ms_query_open(store, &q, &it, &err), &err, "a bad sector");
    while ((msg = ms_next(&it)) != NULL) {
        if (out->count == ITEMS) lab_fails(&t->l, level, "a bad sector: too many");
        at[out->count] = (size_t)((const unsigned char *)(const void *)msg - ro);
        out->hashes[out->count] = hash_of(ms_content(msg).text);
        out->seqs[out->count++] = ms_seq(msg);
    }
    bool said = ms_cursor_close(&it, NULL) != MS_OK || t->l.damage != 0;
    lab_must(&t->l, level, ms_log_stat(store, &info, &err), &err, "stat");
    ms_close(store);
    return said || info.damaged != 0;
}

/* Is that a text which some step shows? */
static bool is_of_model(const model *m, uint64_t hash)
{
    for (int k = 0; k <= m->n; k++)
        for (int i = 0; i < m->after[k].count; i++)
            if (m->after[k].hashes[i] == hash) return true;
    return false;
}

/* Each sector in turn is lost. What lies elsewhere is shown as before, but for what an
 * amendment or its message has alone; nothing that was given up comes back; what is
 * missing is reported. */
static void bad_sectors(small *t, int level)
{
    static size_t at[ITEMS], now_at[ITEMS];
    seen before, now;
    sim_file *f = lab_file(&t->l, level);
    const model *m = &t->models[level];
    unsigned char kept[512];
    if (look_again(t, level, &before, at)) lab_fails(&t->l, level, "damage is there");
    if (test_one_in(&t->l.rng, 2)) t->l.disks[level].boot++; /* found after a restart */
    bool amended = false; /* a step that neither adds nor hides */
    for (int k = 1; k <= m->n; k++)
        amended = amended || m->after[k].count == m->after[k - 1].count;
    for (size_t sector = 4096; sector < f->high; sector += 512, t->sectors++) {
        memcpy(kept, f->rw + sector, 512);
        for (size_t i = 0; i < 512; i++) f->rw[sector + i] = (unsigned char)(i * 7 + 1);
        bool said = look_again(t, level, &now, now_at);
        memcpy(f->rw + sector, kept, 512);
        for (int i = 0; i < now.count; i++)
            if (!is_of_model(m, now.hashes[i]))
                lab_fails(&t->l, level, "bad sector at %u: message %u is not known",
                       (unsigned)sector, (unsigned)now.seqs[i]);
        for (int i = 0, j = 0; i < before.count; i++) {
            while (j < now.count && now.seqs[j] < before.seqs[i]) j++;
            bool there = j < now.count && now.seqs[j] == before.seqs[i];
            size_t size = file_padded(file_get32(f->ro + at[i]));
            bool touched = at[i] < sector + 512 && sector < at[i] + size;
            if (!there && !touched && !amended)
                lab_fails(&t->l, level, "bad sector at %u: message %u at %u is missing",
                       (unsigned)sector, (unsigned)before.seqs[i], (unsigned)at[i]);
            if (!there && !said)
                lab_fails(&t->l, level, "bad sector at %u: %u is missing in silence",
                       (unsigned)sector, (unsigned)before.seqs[i]);
        }
    }
}

/* The recovered log goes on as the model does; sometimes the power is lost then. */
static void goes_on(small *t, int level, ms_store *store, ms_store *reader, int k)
{
    seen s;
    ms_error err;
    model *m = &t->models[level];
    m->n = m->done = m->durable = k; /* what was read once stays */
    if (m->after[k].count + 3 > ITEMS || m->n + 2 > STEPS) return;
    add(t, level, store, 2, false, true);
    if (level + 1 < LEVELS) lab_cut(&t->l, level, 8, 8, 2);
    sync_all(t, level, store);
    if (reader == NULL) return;
    lab_must(&t->l, level, test_refresh(reader, NULL, &err), &err, "refresh");
    look(t, level, reader, "a reader from before", &s);
    if (!shows(m, m->done, &s))
        lab_fails(&t->l, level, "a reader from before does not see what follows");
}

static void stands(lab *l, int level)
{
    seen s;
    small *t = (small *)(void *)l;
    const model *m = &t->models[level];
    t->models[level] = t->models[level - 1];
    int k = m->durable;
    l->damage = 0;
    ms_store *reader = lab_read(l, level, m->durable > 0);
    if (reader != NULL) {
        look(t, level, reader, "reading", &s);
        k = steps_of(t, level, &s, m->durable, "reading");
    }
    lab_is_unchanged(l, level);
    ms_store *store = lab_open(l, level, MS_LOG_CREATE, "recovering");
    look(t, level, store, "recovering", &s);
    if (reader != NULL && !shows(m, k, &s))
        lab_fails(l, level, "reader and writer do not agree");
    if (reader == NULL) k = steps_of(t, level, &s, m->durable, "recovering");
    bool went_on = test_one_in(&l->rng, level == 1 ? 8 : 4);
    if (went_on) goes_on(t, level, store, reader, k);
    ms_close(reader);
    ms_close(store);
    if (went_on && level == 1 && test_one_in(&l->rng, 4)) bad_sectors(t, level);
    lab_is_idle(l, level);
}

/* Inside the last operation, before a call that syncs or moves a name. */
static void at_moment(void *ctx, sim_disk *d, sim_call call)
{
    small *t = (small *)ctx;
    (void)d;
    if (t->cutting && call != SIM_AT_WRITE) lab_cut(&t->l, 0, t->all / 4, 16, 2);
}

static void watched(small *t)
{
    t->l.disks[0].moment = at_moment;
    t->l.disks[0].ctx = t;
}


/* ---- workloads ---- */

static void open_log(small *t)
{
    ms_error err;
    ms_log_info info;
    t->store = lab_open(&t->l, 0, MS_LOG_CREATE, "opening");
    lab_must(&t->l, 0, ms_log_stat(t->store, &info, &err), &err, "stat");
    model *m = &t->models[0];
    t->opened = info.end;
    if (info.durable_end >= info.end) m->durable = m->done;
}

/* The second handle sees everything that has returned. */
static void refresh(small *t)
{
    seen s;
    ms_error err;
    const model *m = &t->models[0];
    ms_log_desc desc = lab_desc(&t->l, 0, MS_LOG_READ);
    if (t->reader == NULL)
        lab_must(&t->l, 0, ms_log_open(&t->reader, &desc, &err), &err, "a second handle");
    lab_must(&t->l, 0, test_refresh(t->reader, NULL, &err), &err, "refresh");
    look(t, 0, t->reader, "a second handle", &s);
    if (!shows(m, m->done, &s)) lab_fails(&t->l, 0, "a second handle does not see all");
}

static void close_reader(small *t)
{
    if (t->reader != NULL) refresh(t);
    ms_close(t->reader);
    t->reader = NULL;
}

/* The old file's readers stay with it. */
static void compact(small *t)
{
    ms_error err;
    ms_log_desc desc = lab_desc(&t->l, 0, MS_LOG_CREATE);
    model *m = &t->models[0];
    ms_result result = ms_log_rewrite(t->store, &desc, true, NULL, NULL, &err);
    lab_must(&t->l, 0, result, &err, "rewrite");
    m->durable = m->done;
    if (t->cutting) lab_cut(&t->l, 0, t->all, 0, 4);
    close_reader(t);
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
    if (info.end > t->opened) t->models[0].durable = t->models[0].done;
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
    case OP_AMEND: change_newest(t, 0, t->store, true); break;
    case OP_HIDE: change_newest(t, 0, t->store, false); break;
    default: refresh(t); break;
    }
}

static void begin_workload(small *t, bool filled)
{
    sim_clear(&t->l.disks[0]);
    t->l.disks[0].stale = t->l.stale;
    watched(t);
    t->cutting = false;
    t->l.damage = 0;
    memset(&t->models[0], 0, sizeof t->models[0]);
    open_log(t);
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

static void every_small_workload_survives_when_power_is_lost(void **state)
{
    small *t = (small *)calloc(1, sizeof *t);
    (void)state;
    if (t == NULL) abort();
    lab_begin(&t->l, stands);
    sim_init(&t->killed);
    t->all = test_scale() < 1000 ? 48 : 1024;
    leave_stale(t);
    for (int length = 1; length <= (test_scale() < 1000 ? 2 : 3); length++)
        all_of_length(t, length, test_scale() < 100 ? 4 : 1);
    printf("%llu workloads, %llu images, %llu of them of a recovery\n",
           (unsigned long long)t->workloads, (unsigned long long)t->l.images.all,
           (unsigned long long)t->l.recoveries);
    lab_tally(&t->l);
    test_tally("small workloads", t->workloads);
    test_tally("bad sectors after a recovery", t->sectors);
    sim_deinit(&t->killed);
    lab_end(&t->l);
    free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_workload_survives_when_power_is_lost),
    };
    scribe_page();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
