/* Power losses, on a simulated disk (simdisk.h).
 *
 * A writer appends numbered messages one by one and in batches, in every sync mode, with
 * both engines, alone and as a shared writer. It syncs, ticks, writes index records, is
 * closed and opened again, and is rewritten in place. At random moments, between its
 * calls and inside them, images are built of what a power loss may leave: all of them
 * where there are few, else prefixes, torn pages, sizes before data, data before sizes,
 * random subsets. Each image is
 *
 *   - read by a reader, which must not change a byte;
 *   - recovered by a writer, which must find what the reader found: all that was
 *     acknowledged durable (by a sync, by the mode, by ms_log_stat), without a hole, no
 *     batch in part, nothing that was never written. No damage is reported, the index
 *     agrees with the messages, and opening changes words of the superblock alone;
 *   - appended to and synced. The power is lost again, three deep: in the writes of the
 *     recovery, and in what is written later. What was read once has to stay, and the
 *     reader that was there before the writer has to see what that appends.
 *
 * At some of these moments the writer is killed instead, while the machine goes on: the
 * next one of the same boot must find all that was acknowledged.
 *
 * First the simulated disk itself is tried. On a disk whose syncs do nothing, or whose
 * folder is not synced, a loss has to be found.
 *
 * Left out: damage (test_corrupt), kills in the middle of a call (test_crash), changes,
 * and every short sequence of operations (test_small), single moments by name
 * (test_log_sync).
 *
 * Counts at MS_TEST_SCALE=100: 24,000 images; one in six is of a recovery that had synced
 * nothing. At 20000 two hundred times as many.
 */

#define _GNU_SOURCE
#include "lab.h"

enum {
    MOST = 500,               /* numbers in one life of a file */
    FULL = 160 << 10          /* bytes of a file after which another one begins */
};


/* ---- the simulated disk itself ---- */

/* The states that images are in, each a number below 1000. */
typedef struct findings {
    bool has[1000];
    int count;
    size_t images;
} findings;

/* All images of a disk by what `look` sees of each. */
static void find_all(sim_disk *d, int (*look)(sim_disk *image), size_t all, size_t random,
                     findings *f)
{
    static sim_disk image;
    static sim_cuts cuts;
    sim_init(&image);
    memset(f, 0, sizeof *f);
    sim_cuts_begin(&cuts, d, all, 0, random, test_seed());
    for (; sim_cuts_next(&cuts, &image); f->images++) {
        bool *has = &f->has[look(&image)];
        f->count += !*has;
        *has = true;
    }
    sim_cuts_free(&cuts);
    sim_deinit(&image);
}

static void put(sim_disk *d, ms_file file, uint64_t offset, int c, size_t size)
{
    size_t done;
    char bytes[2 * SIM_PAGE];
    memset(bytes, c, size);
    assert_int_equal(d->os.write(d, file, offset, bytes, size, &done), 0);
    assert_int_equal(done, size);
}

/* The first letters of two sectors and of the second page, as three digits. */
static int look_at_letters(sim_disk *d)
{
    const sim_file *f = sim_at(d, "a");
    assert_non_null(f);
    int page = f->size > SIM_PAGE ? f->ro[SIM_PAGE] : 0;
    for (size_t i = 1; i < SIM_SECTOR; i++) assert_int_equal(f->ro[i], f->ro[0]);
    return (f->ro[0] & 7) * 100 + (f->ro[SIM_SECTOR] & 7) * 10 + (page & 7);
}

/* A sector written twice, its neighbour once, by call and through a map; a page after
 * the end that was synced. */
static void the_disk_mixes_what_was_not_synced(void **state)
{
    sim_disk *d = (sim_disk *)malloc(sizeof *d);
    findings f;
    ms_file file;
    void *map;
    (void)state;
    sim_init(d);
    unsigned how = MS_OS_READ | MS_OS_WRITE | MS_OS_CREATE;
    assert_int_equal(d->os.open(d, "a", how, &file), 0);
    put(d, file, 0, 1, SIM_PAGE);
    assert_int_equal(d->os.sync(d, file), 0);
    assert_int_equal(d->os.sync_folder(d, "a"), 0);
    find_all(d, look_at_letters, 100, 0, &f);
    assert_int_equal(f.images, 1);
    assert_true(f.has[110]);
    put(d, file, 0, 2, SIM_SECTOR);
    put(d, file, 0, 3, SIM_SECTOR);
    assert_int_equal(d->os.map(d, file, 0, SIM_PAGE, MS_OS_READ | MS_OS_WRITE, &map), 0);
    memset((char *)map + SIM_SECTOR, 4, SIM_SECTOR);
    find_all(d, look_at_letters, 100, 0, &f);
    assert_int_equal(f.images, 6);         /* 1, 2 or 3; beside it 1 or 4 */
    assert_int_equal(f.count, 6);
    find_all(d, look_at_letters, 4, 0, &f); /* by pages: three versions and one; torn */
    assert_true(f.count >= 4 && f.count <= 6 && f.images >= 4);
    assert_true(f.has[110] && f.has[210] && f.has[310] && f.has[340]);
    put(d, file, SIM_PAGE, 5, 8);
    find_all(d, look_at_letters, 100, 0, &f);
    assert_int_equal(f.images, 18);        /* no new page, an empty one, the new data */
    assert_int_equal(f.count, 12);
    find_all(d, look_at_letters, 4, 4000, &f); /* at random: no others */
    assert_int_equal(f.count, 12);
    assert_int_equal(d->os.unmap(d, map, SIM_PAGE), 0);
    assert_int_equal(d->os.sync(d, file), 0);
    find_all(d, look_at_letters, 100, 0, &f);
    assert_int_equal(f.images, 1);
    assert_true(f.has[345]);
    assert_int_equal(d->os.close(d, file), 0);
    sim_deinit(d);
    free(d);
}

/* What "a" and "b" name: 0 nothing, else the first byte of the file. */
static int look_at_names(sim_disk *d)
{
    const sim_file *a = sim_at(d, "a"), *b = sim_at(d, "b");
    return (a != NULL ? a->ro[0] : 0) * 10 + (b != NULL ? b->ro[0] : 0);
}

static void the_disk_loses_names_until_the_folder_is_synced(void **state)
{
    sim_disk *d = (sim_disk *)malloc(sizeof *d);
    findings f;
    ms_file file;
    unsigned how = MS_OS_READ | MS_OS_WRITE | MS_OS_CREATE;
    (void)state;
    sim_init(d);
    assert_int_equal(d->os.open(d, "a", how, &file), 0);
    put(d, file, 0, 1, 8);
    assert_int_equal(d->os.sync(d, file), 0);
    assert_int_equal(d->os.close(d, file), 0);
    find_all(d, look_at_names, 100, 0, &f);
    assert_true(f.count == 2 && f.has[0] && f.has[10]);
    assert_int_equal(d->os.sync_folder(d, "a"), 0);
    assert_int_equal(d->os.open(d, "b", how, &file), 0);
    put(d, file, 0, 2, 8);
    assert_int_equal(d->os.sync(d, file), 0);
    assert_int_equal(d->os.close(d, file), 0);
    assert_int_equal(d->os.sync_folder(d, "b"), 0);
    assert_int_equal(d->os.rename(d, "b", "a"), 0);
    find_all(d, look_at_names, 100, 0, &f);
    assert_true(f.count == 3 && f.has[12] && f.has[20] && f.has[22]);
    assert_int_equal(d->os.remove(d, "a"), 0);
    find_all(d, look_at_names, 100, 0, &f);
    assert_true(f.count == 5 && f.has[2] && f.has[0]);
    assert_int_equal(d->os.sync_folder(d, "a"), 0);
    find_all(d, look_at_names, 100, 0, &f);
    assert_true(f.images == 1 && f.has[0]);
    sim_deinit(d);
    free(d);
}


/* ---- one writer and its images ---- */

/* What a disk must still have when its power is lost now. */
typedef struct site {
    uint64_t least, most;     /* numbers: acknowledged durable; written or on the way */
    uint64_t shown;           /* every handle sees so many: least, or more after a kill */
    uint64_t inode;           /* the file is this one or a later one */
    uint64_t one_in;          /* calls of this kind lose the power; 0: none */
    bool killed;              /* what was not synced may be lost yet */
} site;

typedef struct power {
    lab l;
    site sites[LAB_LEVELS];
    uint64_t seqs[LAB_LEVELS][MOST + SCRIBE_BATCH]; /* by number; 0: not known */
    scribe s;
    bool never;               /* no call of ms_sync */
    uint64_t kills, failed, torn, empty, indexed, rewrites;
    uint64_t lives;           /* rewrites beside appends */
    bool beside;              /* rewrites beside appends, mostly */
    bool lie_synced, lie_created, lie_rewritten; /* which syncs do nothing */
    size_t all, some, random; /* of the workload; see sim_cuts_begin */
    bool closely;             /* now and then 4096 states, or 1000 random ones */
} power;

static bool one_in(power *p, uint64_t n) { return test_one_in(&p->l.rng, n); }
static uint64_t below(power *p, uint64_t n) { return test_below(&p->l.rng, n); }

/* O1 and O2: reads everything; returns how many messages there are. */
static uint64_t reads(power *p, int level, ms_store *store, const char *when)
{
    tally t;
    const site *s = &p->sites[level];
    if (!scribe_read(&p->s, store, false, p->seqs[level], &t))
        lab_fails(&p->l, level, "%s: %s", when, t.wrong);
    if (t.result != MS_OK || p->l.damage != 0)
        lab_fails(&p->l, level, "%s: damage was reported", when);
    if (t.last < s->shown || t.last > s->most)
        lab_fails(&p->l, level, "%s: %llu messages, not %llu to %llu", when,
                  (unsigned long long)t.last, (unsigned long long)s->shown,
                  (unsigned long long)s->most);
    return t.last;
}

/* Appends the next group; the site knows of it before. */
static void appends(power *p, int level, ms_store *store, uint64_t *last)
{
    uint64_t first;
    size_t count;
    ms_error err;
    site *s = &p->sites[level];
    if (*last + SCRIBE_BATCH >= MOST) return;
    s->most = *last + scribe_group(&p->s, *last + 1, &first);
    lab_must(&p->l, level,
             scribe_append(&p->s, store, *last + 1, p->seqs[level], &count, &err), &err,
             "append");
    *last += count;
    s->most = s->shown = *last;
    if (p->l.sync == MS_SYNC_EACH) s->least = *last;
}

/* What the store reports as durable has to be. */
static void claims(power *p, int level, ms_store *store, uint64_t last)
{
    ms_log_info info;
    ms_error err;
    site *s = &p->sites[level];
    lab_must(&p->l, level, ms_log_stat(store, &info, &err), &err, "stat");
    if (info.lost_end != 0 || info.damaged != 0)
        lab_fails(&p->l, level, "the handle counts damage");
    p->indexed += level > 0 && info.segments > 0;
    while (last > s->least && p->seqs[level][last] > info.durable_seq) last--;
    if (last > s->least && p->seqs[level][last] != 0 && scribe_ends(&p->s, last))
        s->least = last;
}

static void syncs(power *p, int level, ms_store *store, uint64_t last)
{
    ms_error err;
    uint64_t seq = 0;
    lab_must(&p->l, level, ms_sync(store, &seq, &err), &err, "sync");
    p->sites[level].least = last;
    if (last > 0 && p->seqs[level][last] != 0 && seq < p->seqs[level][last])
        lab_fails(&p->l, level, "sync: durable up to %llu, %llu was appended",
                  (unsigned long long)seq, (unsigned long long)p->seqs[level][last]);
}

static void ticks(power *p, int level, ms_store *store, uint32_t micros)
{
    ms_error err;
    lab_must(&p->l, level, ms_tick(store, micros, &err), &err, "tick");
}


/* ---- one image ---- */

static void at_moment(void *ctx, sim_disk *d, sim_call call);

static void watch(power *p, int level, uint64_t one_in_so_many)
{
    p->sites[level].one_in = one_in_so_many;
    p->l.disks[level].moment = at_moment;
    p->l.disks[level].ctx = p;
}

/* What the next disk has to have: of a killed writer all that it had acknowledged. */
static void promise(power *p, int level, bool killed)
{
    const site *from = &p->sites[level];
    site *to = &p->sites[level + 1];
    *to = *from;
    to->shown = killed ? from->shown : from->least;
    to->one_in = 0;
    to->killed = killed;
    memcpy(p->seqs[level + 1], p->seqs[level], sizeof p->seqs[level]);
}

/* The power is lost; now and then the writer is killed first. Another one recovers in the
 * same boot, and then the power is lost. */
static void cut(power *p, int level, size_t all, size_t some, size_t random)
{
    if (level + 1 == LAB_LEVELS) return;
    if (one_in(p, 6)) {
        p->kills++;
        lab_kill(&p->l, level);
    }
    lab_cut(&p->l, level, all, some, random);
}

static void cut_writer(power *p) { cut(p, 0, p->all, p->some, p->random); }

/* Called before a call changes the disk of a site. */
static void at_moment(void *ctx, sim_disk *d, sim_call call)
{
    power *p = (power *)ctx;
    int level = (int)(d - p->l.disks);
    uint64_t n = p->sites[level].one_in;
    if (call == SIM_AT_WRITE && level == 0) n *= 4;
    if (n == 0 || !one_in(p, n)) return;
    if (level == 0) cut_writer(p);
    else cut(p, level, 4, 1, 1);
}

static void verifies(power *p, int level)
{
    ms_error err;
    ms_log_report report;
    ms_log_desc desc = lab_desc(&p->l, level, MS_LOG_READ);
    lab_must(&p->l, level, ms_log_verify(&desc, &report, &err), &err, "verify");
    p->torn += report.torn_bytes != 0;
}

/* Opening for writing writes nothing but words of the superblock. */
static void only_the_superblock(power *p, int level)
{
    sim_disk *d = &p->l.disks[level];
    sim_look(d);
    for (int i = p->l.units[level]; i < d->n_units; i++)
        if (d->units[i].kind != SIM_DATA || d->units[i].page != 0)
            lab_fails(&p->l, level, "opening has changed more than the superblock");
}

/* Rewrites in place. Once that has returned all of it is durable, in the new file; the
 * store goes on with the old one. */
static void rewrites(power *p, int level, ms_store *store, uint64_t last)
{
    ms_error err;
    site *s = &p->sites[level];
    ms_log_desc desc = lab_desc(&p->l, level, MS_LOG_CREATE);
    uint64_t before = s->one_in;
    s->one_in = before > 0 ? 3 : 0;
    p->l.disks[level].folder_lies = p->lie_rewritten;
    ms_result result = ms_log_rewrite(store, &desc, true, NULL, NULL, &err);
    p->l.disks[level].folder_lies = false;
    s->one_in = before;
    lab_must(&p->l, level, result, &err, "rewriting");
    s->least = last;
    s->inode = lab_file(&p->l, level)->inode;
    if (level > 0) cut(p, level, 6, 2, 1);
    else cut_writer(p);
}

/* The recovered log goes on: the power is lost after the first append, which is what
 * recovery writes; then after more appends and a sync. */
static void goes_on(power *p, int level, ms_store *store, uint64_t last)
{
    if (one_in(p, 4)) { /* what is durable of what was found? */
        syncs(p, level, store, last);
        cut(p, level, 4, 2, 1);
    }
    appends(p, level, store, &last);
    cut(p, level, 6, 2, 1);
    if (!p->l.shared && one_in(p, 30)) {
        rewrites(p, level, store, last);
        return;
    }
    if (one_in(p, 2)) return;
    for (uint64_t i = 1 + below(p, 4); i > 0; i--) appends(p, level, store, &last);
    syncs(p, level, store, last);
    appends(p, level, store, &last);
    if (p->l.ticked) ticks(p, level, store, 1000);
    claims(p, level, store, last);
    cut(p, level, 4, 1, 1);
}

static void recovers(power *p, int level, ms_store *reader, uint64_t seen)
{
    ms_error err;
    site *s = &p->sites[level];
    const sim_file *f = lab_file(&p->l, level);
    bool there = f != NULL && f->size > SIM_PAGE && seen > 0;
    ms_store *store = lab_open(&p->l, level, MS_LOG_CREATE, "recovering");
    uint64_t last = reads(p, level, store, "recovering");
    if (reader != NULL && last != seen)
        lab_fails(&p->l, level, "a reader saw %llu messages, the writer sees %llu",
                  (unsigned long long)seen, (unsigned long long)last);
    if (there) only_the_superblock(p, level);
    s->shown = last;
    if (!s->killed) s->least = last; /* what was read once stays */
    if (one_in(p, 4)) /* the index, too, by every location */
        lab_must(&p->l, level, ms_selfcheck(store, &err), &err, "selfcheck");
    claims(p, level, store, last);
    if (one_in(p, 10)) {
        const char *fault = scribe_keys(&p->s, store, last, p->seqs[level], 6, &p->l.rng);
        if (fault != NULL) lab_fails(&p->l, level, "%s", fault);
    }
    if (one_in(p, level == 1 ? 4 : 12)) goes_on(p, level, store, last);
    if (reader != NULL && one_in(p, 4)) {
        lab_must(&p->l, level, test_refresh(reader, NULL, &err), &err, "refresh");
        (void)reads(p, level, reader, "reading on");
    }
    s->one_in = 0;
    ms_close(store);
}

/* What holds of every image. */
static void stands(lab *l, int level)
{
    power *p = (power *)(void *)l;
    promise(p, level - 1, l->killed);
    const sim_file *f = lab_file(l, level);
    const site *s = &p->sites[level];
    uint64_t seen = 0;
    p->l.damage = 0;
    if (f != NULL && f->inode < s->inode)
        lab_fails(&p->l, level, "the file from before a rewrite is back");
    ms_store *reader = lab_read(&p->l, level, s->shown > 0);
    if (reader != NULL) seen = reads(p, level, reader, "reading");
    lab_is_unchanged(&p->l, level);
    p->empty += seen == 0;
    if (reader != NULL && one_in(p, 8)) verifies(p, level);
    watch(p, level, level + 1 < LAB_LEVELS ? 6 : 0);
    recovers(p, level, reader, seen);
    ms_close(reader);
    lab_is_idle(&p->l, level);
}


/* ---- one life of a file ---- */

typedef struct life {
    power *p;
    ms_store *store, *reader;
    ms_store *other;          /* shared: a second writer, now and then */
    ms_rewrite rewrite;       /* of the store, while it goes on */
    bool wrote;               /* the first one, since it was opened */
    uint64_t last;
    uint64_t pace;            /* of so many moments at one the power is lost */
    uint64_t compactions;     /* so many in 64 steps */
} life;

static void life_open(life *l)
{
    l->wrote = false;
    l->store = lab_open(&l->p->l, 0, MS_LOG_CREATE, "opening");
    claims(l->p, 0, l->store, l->last);
}

static void close_handle(ms_store **store)
{
    ms_close(*store);
    *store = NULL;
}

/* Closes and opens again; it may lose nothing. */
static void life_reopen(life *l, bool poisoned)
{
    power *p = l->p;
    if (!poisoned && one_in(p, 2)) close_handle(&l->other);
    (void)ms_rewrite_end(&l->rewrite, NULL, NULL);
    close_handle(&l->store);
    if (!poisoned && l->wrote && l->other == NULL) { /* now it is durable */
        p->sites[0].least = l->last;
        cut(p, 0, 4, 2, 1);
    }
    life_open(l);
    if (reads(p, 0, l->store, "opened again") != l->last)
        lab_fails(&p->l, 0, "opened again: messages are gone");
}

static void life_rewrite(life *l)
{
    l->p->rewrites++;
    rewrites(l->p, 0, l->store, l->last);
    life_reopen(l, false);
}

/* The new store goes on; its name is durable with the next sync, and until then either
 * file may be back. */
static ms_result life_replace(life *l, ms_error *err)
{
    power *p = l->p;
    ms_store *fresh;
    ms_result result = ms_rewrite_end(&l->rewrite, &fresh, err);
    if (result != MS_OK) return result == MS_E_BUSY ? MS_OK : result;
    p->lives++;
    close_handle(&l->reader); /* it reads the old file */
    if (one_in(p, 2)) cut_writer(p);
    ms_close(l->store);
    l->store = fresh;
    l->wrote = true;
    return MS_OK;
}

/* The next portion of a rewrite beside appends. */
static void life_rewrite_on(life *l)
{
    power *p = l->p;
    ms_error err;
    bool more = true;
    ms_log_desc desc = lab_desc(&p->l, 0, MS_LOG_CREATE);
    site *s = &p->sites[0];
    uint64_t before = s->one_in;
    s->one_in = before > 0 && one_in(p, 2) ? 6 : before;
    ms_result result;
    if (l->rewrite.state == NULL) {
        l->rewrite.source = l->store;
        l->rewrite.to = &desc;
        l->rewrite.replace = true;
        result = ms_rewrite_run(&l->rewrite, 1, &more, &err);
    } else if (one_in(p, 2)) {
        result = ms_rewrite_run(&l->rewrite, one_in(p, 2) ? 0 : 20, &more, &err);
    } else {
        result = life_replace(l, &err);
    }
    s->one_in = before;
    lab_must(&p->l, 0, result, &err, "rewriting beside appends");
    claims(p, 0, l->store, l->last);
}

/* A second handle sees what is visible, always. */
static void life_look(life *l)
{
    power *p = l->p;
    if (l->reader == NULL) l->reader = lab_read(&p->l, 0, true);
    claims(p, 0, l->reader, l->last);
    (void)reads(p, 0, l->reader, "a reader beside");
    if (one_in(p, 2)) close_handle(&l->reader);
}

/* Two shared writers take turns. */
static void life_append(life *l)
{
    power *p = l->p;
    if (p->l.shared && l->other == NULL && one_in(p, 10))
        l->other = lab_open(&p->l, 0, MS_LOG_WRITE, "a second writer");
    bool turn = l->other != NULL && one_in(p, 2);
    if (!turn) l->wrote = true;
    appends(p, 0, turn ? l->other : l->store, &l->last);
}

/* The handle is given up, and another one goes on. */
static void life_sync_fails(life *l)
{
    power *p = l->p;
    ms_error err;
    if (l->other != NULL) return; /* it would go on as if nothing was */
    p->l.disks[0].fails = true;
    ms_result result = ms_sync(l->store, NULL, &err);
    bool failed = !p->l.disks[0].fails;
    p->l.disks[0].fails = false;
    p->failed += failed;
    if (failed != (result == MS_E_POISONED))
        lab_fails(&p->l, 0, "a sync failed, and the store returns: %s", err.message);
    if (failed) life_reopen(l, true);
}

static void life_step(life *l)
{
    power *p = l->p;
    uint64_t what = below(p, 64);
    bool free = !p->l.shared && l->reader == NULL && l->rewrite.state == NULL;
    if (what < 4 && !p->never) syncs(p, 0, l->store, l->last);
    else if (what < 8 && p->l.ticked) ticks(p, 0, l->store, 2000);
    else if (what == 8) life_reopen(l, false);
    else if (what == 9) life_sync_fails(l);
    else if (what < 12) life_look(l);
    else if (!p->l.shared &&
             (what == 40 || ((l->rewrite.state != NULL || p->beside) && what > 50)))
        life_rewrite_on(l);
    else if (what < 12 + l->compactions && free) life_rewrite(l);
    else life_append(l);
}

static void life_config(power *p)
{
    static const ms_sync_mode modes[] = {MS_SYNC_NONE, MS_SYNC_NONE, MS_SYNC_EVERY,
                                         MS_SYNC_EACH};
    p->l.sync = modes[below(p, 4)];
    p->l.segment = (size_t)MS_LOG_SEGMENT_MIN << below(p, 2);
    p->l.shared = one_in(p, 4);
    p->l.ticked = one_in(p, 3);
    p->never = p->l.sync == MS_SYNC_NONE && one_in(p, 5);
    p->s.salt = test_random(&p->l.rng);
    p->s.longest = one_in(p, 4) ? 5000 : 300;
    p->l.damage = 0;
    memset(p->seqs[0], 0, sizeof p->seqs[0]);
    memset(&p->sites[0], 0, sizeof p->sites[0]);
}

static void life_begin(life *l)
{
    power *p = l->p;
    sim_disk *d = &p->l.disks[0];
    sim_clear(d);
    d->stale = p->l.stale;
    life_config(p);
    l->pace = UINT64_C(2) << below(p, 6);
    l->compactions = one_in(p, 4) ? 10 : 1;
    d->folder_lies = p->lie_created;
    watch(p, 0, 4); /* its creation is looked at closely */
    life_open(l);
    watch(p, 0, 3 * l->pace);
    d->folder_lies = false;
    d->lies = p->lie_synced;
}

static void one_life(power *p, uint64_t wanted)
{
    life l;
    memset(&l, 0, sizeof l);
    l.p = p;
    uint64_t until = p->l.images.all + 200 < wanted ? p->l.images.all + 200 : wanted;
    life_begin(&l);
    while (p->l.images.all < until && l.last + 2 * SCRIBE_BATCH < MOST) {
        const sim_file *f = lab_file(&p->l, 0);
        if (f != NULL && f->high > FULL) break; /* not its size: room is made ahead */
        life_step(&l);
        bool closely = p->closely && one_in(p, 500);
        if (!closely && !one_in(p, l.pace)) continue;
        claims(p, 0, l.store, l.last);
        cut(p, 0, closely ? 4096 : p->all, p->some, closely ? 1000 : p->random);
    }
    p->sites[0].one_in = 0;
    (void)ms_rewrite_end(&l.rewrite, NULL, NULL);
    ms_close(l.reader);
    ms_close(l.other);
    ms_close(l.store);
    lab_leave_stale(&p->l);
}

static power *power_new(ms_log_engine engine)
{
    power *p = (power *)calloc(1, sizeof *p);
    if (p == NULL) abort();
    lab_begin(&p->l, stands);
    p->l.engine = engine;
    p->l.rng += (uint64_t)engine;
    p->closely = test_scale() >= 1000;
    p->all = p->closely ? 64 : 16;
    p->some = 12;
    p->random = 5;
    return p;
}

static void power_free(power *p)
{
    lab_end(&p->l);
    free(p);
}

static void print_counts(const power *p, uint64_t lives)
{
    printf("%llu images (%llu, %llu, %llu by depth; %llu different) of %llu files with "
           "%llu rewrites, %llu beside appends, %llu kills, %llu failed syncs: %llu "
           "without a message, %llu with index records; of those verified %llu had a "
           "torn end; %llu and %llu were of a recovery, and of the recovery of that\n",
           (unsigned long long)p->l.images.all, (unsigned long long)p->l.deep[1],
           (unsigned long long)p->l.deep[2], (unsigned long long)p->l.deep[3],
           (unsigned long long)p->l.images.count, (unsigned long long)lives,
           (unsigned long long)p->rewrites, (unsigned long long)p->lives,
           (unsigned long long)p->kills, (unsigned long long)p->failed,
           (unsigned long long)p->empty, (unsigned long long)p->indexed,
           (unsigned long long)p->torn, (unsigned long long)p->l.during[2],
           (unsigned long long)p->l.during[3]);
    lab_tally(&p->l);
    test_tally("simulated kills", p->kills);
}

/* Were there enough of each kind of moment? A life may pass without any power loss in a
 * recovery, which writes only where something is dead, and then once. */
static bool every_kind_came(const power *p, uint64_t wanted)
{
    return p->l.recoveries > wanted / 40 && p->l.during[2] > wanted / 60 &&
           p->l.during[3] > wanted / 120 && p->kills > wanted / 100 &&
           p->l.images.count > wanted / 2 && p->indexed > wanted / 5 && p->torn > 0 &&
           p->rewrites > 0;
}

static void nothing_durable_is_lost_when_power_is_lost(void **state)
{
    power *p = power_new(*(const ms_log_engine *)*state);
    uint64_t wanted = test_times(6000), lives = 0;
    bool all = wanted <= 1000; /* else every kind of moment has to come */
    for (; p->l.images.all < wanted || (!all && lives < 100); lives++) {
        one_life(p, all ? wanted : UINT64_MAX);
        all = wanted <= 1000 || every_kind_came(p, wanted);
    }
    print_counts(p, lives);
    assert_true(all);
    power_free(p);
}

static void nothing_durable_is_lost_when_power_is_lost_in_a_rewrite(void **state)
{
    power *p = power_new(*(const ms_log_engine *)*state);
    uint64_t wanted = test_times(6000), lives = 0;
    p->beside = true;
    for (; p->l.images.all < wanted || p->lives < wanted / 400; lives++)
        one_life(p, UINT64_MAX);
    print_counts(p, lives);
    power_free(p);
}


/* ---- syncs that do nothing ---- */

/* Runs in a child until something is found wrong, which ends it and has to be soon. */
static void must_be_found_out(power *p)
{
    int status;
    p->l.lying = true;
    pid_t child = fork_child();
    if (child == 0) {
        while (p->l.images.all < 60000) one_life(p, 60000);
        _exit(0);
    }
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != LAB_FOUND)
        fail_msg("no loss was found in 60000 images, status %d", status);
    power_free(p);
}

#define IS_FOUND_OUT(test, lie)                                   \
    static void test(void **state)                                \
    {                                                             \
        power *p = power_new(*(const ms_log_engine *)*state);     \
        p->lie = true;                                            \
        must_be_found_out(p);                                     \
    }

IS_FOUND_OUT(a_sync_that_does_nothing_is_found_out, lie_synced)
IS_FOUND_OUT(a_name_that_was_not_synced_is_found_out, lie_created)
IS_FOUND_OUT(a_name_that_was_not_synced_is_found_out_when_a_rewrite_gave_it,
             lie_rewritten)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_disk_mixes_what_was_not_synced),
        cmocka_unit_test(the_disk_loses_names_until_the_folder_is_synced),
        WITH_EACH_ENGINE(nothing_durable_is_lost_when_power_is_lost),
        WITH_EACH_ENGINE(nothing_durable_is_lost_when_power_is_lost_in_a_rewrite),
        WITH_EACH_ENGINE(a_sync_that_does_nothing_is_found_out),
        WITH_EACH_ENGINE(a_name_that_was_not_synced_is_found_out),
        WITH_EACH_ENGINE(a_name_that_was_not_synced_is_found_out_when_a_rewrite_gave_it),
    };
    scribe_page();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
