/* Power losses in long lives of a log, on a simulated disk (simdisk.h).
 *
 * A writer makes appends and changes of every kind from a sequence, in every sync mode,
 * with both engines, alone and as a shared writer. It syncs, ticks, writes index records,
 * is closed and opened again, and is rewritten in place and beside its appends. At random
 * moments, between its calls and inside them, images are built of what a power loss may
 * leave: all of them where there are few, else prefixes, torn pages, sizes before data,
 * data before sizes, random subsets. Each image is judged by crash_images.h:
 *
 *   - A reader changes no byte.
 *   - A writer finds what the reader found: all that was acknowledged durable (by a sync,
 *     by the mode, by ms_log_stat), without a hole, no batch in part, nothing that was
 *     never written. No damage is reported, the index agrees with the messages, keys are
 *     known, and opening changes words of the superblock alone.
 *   - The log goes on. The power is lost again, three deep: in the writes of the recovery,
 *     and in what is written later. What was read once has to stay, and the reader that
 *     was there before the writer has to see what that appends.
 *
 * At some of these moments the writer is killed instead, while the machine goes on: the
 * next one of the same boot must find all that had returned.
 *
 * First the simulated disk itself is tried. On a disk whose syncs do nothing, or whose
 * folder is not synced, a loss has to be found.
 *
 * Left out: damage (test_corrupt), kills of a real process (test_crash), every short
 * sequence of operations (test_small), single moments by name (test_log_sync).
 *
 * Counts at MS_TEST_SCALE=100: 24,000 images; one in six is of a recovery that had synced
 * nothing. At 20000 two hundred times as many.
 */

#define _GNU_SOURCE
#include "crash_images.h"

enum {
    LONGEST = 300,            /* steps in one life of a file */
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


/* ---- a writer of a long life ---- */

typedef struct power {
    crash_images l;
    ms_store *store, *reader;
    bool told;                /* the reader knows that its file was replaced */
    ms_store *other;          /* shared: a second writer, now and then */
    ms_rewrite rewrite;       /* of the store, while it goes on */
    uint64_t fresh;           /* inode of its file */
    bool wrote;               /* the store, since it was opened */
    bool never;               /* no call of ms_sync */
    bool beside;              /* rewrites beside appends, mostly */
    uint64_t pace;            /* of so many moments at one the power is lost */
    uint64_t in_place;        /* steps in 64 that rewrite in place */
    uint64_t rewrites, replaced; /* in place; beside appends */
    bool lie_synced, lie_created, lie_rewritten; /* which syncs do nothing */
    bool closely;             /* now and then 4096 states, or 1000 random ones */
} power;

static uint64_t below(power *p, uint64_t n) { return test_below(&p->l.rng, n); }

static void tick(power *p, int level, ms_store *store, uint32_t micros)
{
    ms_error err;
    images_must(&p->l, level, ms_tick(store, micros, &err), &err, "tick");
}

/* Rewrites in place. Once that has returned all of it is durable, in the new file; the
 * store goes on with the old one. */
static void rewrite(power *p, int level, ms_store *store)
{
    ms_error err;
    crash_images *l = &p->l;
    ms_log_desc desc = images_desc(l, level, MS_LOG_CREATE);
    uint64_t before = l->one_in[level];
    l->one_in[level] = before > 0 ? 3 : 0;
    l->disks[level].folder_lies = p->lie_rewritten;
    images_rewritten(l, level, l->disks[level].next_inode);
    ms_result result = ms_log_rewrite(store, &desc, true, NULL, NULL, &err);
    l->disks[level].folder_lies = false;
    l->one_in[level] = before;
    images_must(l, level, result, &err, "rewriting");
    l->durable[level] = l->d[level].steps;
    l->inode[level] = images_file(l, level)->inode;
    images_lose(l, level);
}

/* The power is lost after the first step, which is what recovery writes; then after more
 * steps and a sync. */
static void goes_on(crash_images *l, int level, ms_store *store)
{
    power *p = (power *)(void *)l;
    if (!images_one_in(l, level == 1 ? 4 : 12) || !images_may_go_on(l, level)) return;
    if (images_one_in(l, 4)) { /* what is durable of what was found? */
        images_sync(l, level, store);
        images_lose(l, level);
    }
    images_step(l, level, store);
    images_lose(l, level);
    if (!l->shared && images_one_in(l, 30)) {
        rewrite(p, level, store);
        return;
    }
    if (images_one_in(l, 2)) return;
    for (uint64_t i = 1 + below(p, 4); i > 0; i--) images_step(l, level, store);
    images_sync(l, level, store);
    images_step(l, level, store);
    if (l->ticked) tick(p, level, store, 1000);
    images_claims(l, level, store);
    images_lose(l, level);
}


/* ---- one life of a file ---- */

static void life_open(power *p)
{
    p->wrote = false;
    p->store = images_open(&p->l, 0, MS_LOG_CREATE, "opening");
    images_claims(&p->l, 0, p->store);
}

/* A message that the handle was writing has no writer any more. */
static void close_handle(power *p, ms_store **store)
{
    change_sequence *d = &p->l.d[0];
    if (d->writing >= 0 && d->w.store == *store) sequence_writer_gone(d);
    ms_close(*store);
    *store = NULL;
}

/* Closes and opens again; it may lose nothing. */
static void life_reopen(power *p, bool poisoned)
{
    if (!poisoned && images_one_in(&p->l, 2)) close_handle(p, &p->other);
    (void)ms_rewrite_end(&p->rewrite, NULL, NULL);
    close_handle(p, &p->store);
    if (!poisoned && p->wrote && p->other == NULL) { /* now it is durable */
        p->l.durable[0] = p->l.d[0].steps;
        images_lose(&p->l, 0);
    }
    life_open(p);
    images_refresh(&p->l, 0, p->store);
}

static void life_rewrite(power *p)
{
    p->rewrites++;
    rewrite(p, 0, p->store);
    life_reopen(p, false);
    images_ends_at(&p->l, 0, images_info(&p->l, 0, p->store).end);
}

/* The new store goes on; its name is durable with the next sync, and until then either
 * file may be back. */
static ms_result life_replace(power *p, ms_error *err)
{
    ms_store *fresh;
    change_sequence *d = &p->l.d[0];
    images_rewritten(&p->l, 0, p->fresh);
    ms_result result = ms_rewrite_end(&p->rewrite, &fresh, err);
    if (result != MS_OK) return result == MS_E_BUSY ? MS_OK : result;
    p->replaced++;
    close_handle(p, &p->reader); /* it reads the old file */
    if (d->w.store == p->store) d->w.store = fresh;
    images_ends_at(&p->l, 0, images_info(&p->l, 0, fresh).end);
    if (images_one_in(&p->l, 2)) images_lose(&p->l, 0);
    ms_close(p->store);
    p->store = fresh;
    p->wrote = true;
    return MS_OK;
}

/* The next portion of a rewrite beside appends, which ends at a redaction. */
static void life_rewrite_on(power *p)
{
    ms_error err;
    bool more = true;
    ms_result result;
    crash_images *l = &p->l;
    ms_log_desc desc = images_desc(l, 0, MS_LOG_CREATE);
    uint64_t before = l->one_in[0];
    l->one_in[0] = before > 0 && images_one_in(l, 2) ? 6 : before;
    if (p->rewrite.state == NULL) {
        p->fresh = l->disks[0].next_inode;
        p->rewrite.source = p->store;
        p->rewrite.to = &desc;
        p->rewrite.replace = true;
        result = ms_rewrite_run(&p->rewrite, 1, &more, &err);
    } else if (images_one_in(l, 2)) {
        result = ms_rewrite_run(&p->rewrite, images_one_in(l, 2) ? 0 : 20, &more, &err);
    } else {
        result = life_replace(p, &err);
    }
    l->one_in[0] = before;
    if (result == MS_E_CONFLICT) result = ms_rewrite_end(&p->rewrite, NULL, &err);
    images_must(l, 0, result, &err, "rewriting beside appends");
    images_claims(l, 0, p->store);
}

/* A second handle sees what is visible, always. */
static void life_look(power *p)
{
    if (p->reader == NULL) {
        p->reader = images_read(&p->l, 0, true);
        p->told = false;
    }
    images_claims(&p->l, 0, p->reader);
    images_refresh_reader(&p->l, 0, p->reader, &p->told);
    if (images_one_in(&p->l, 2)) close_handle(p, &p->reader);
}

/* Two shared writers take turns; the one that writes a message in parts ends it. */
static void life_write(power *p)
{
    crash_images *l = &p->l;
    const change_sequence *d = &l->d[0];
    if (l->shared && p->other == NULL && images_one_in(l, 10))
        p->other = images_open(l, 0, MS_LOG_WRITE, "a second writer");
    bool turn = p->other != NULL && images_one_in(l, 2);
    if (d->writing >= 0) turn = d->w.store != p->store;
    if (!turn) p->wrote = true;
    images_step(l, 0, turn ? p->other : p->store);
}

/* The handle is given up, and another one goes on. */
static void life_sync_fails(power *p)
{
    crash_images *l = &p->l;
    ms_error err;
    if (p->other != NULL) return; /* it would go on as if nothing was */
    l->disks[0].fails = true;
    ms_result result = ms_sync(p->store, NULL, &err);
    bool failed = !l->disks[0].fails;
    l->disks[0].fails = false;
    if (failed != (result == MS_E_POISONED))
        images_fails(l, 0, "a sync failed, and the store returns: %s", err.message);
    if (failed) life_reopen(p, true);
}

static void life_step(power *p)
{
    uint64_t what = below(p, 64);
    bool rewriting = p->rewrite.state != NULL;
    bool free = !p->l.shared && p->reader == NULL && !rewriting;
    if (what < 4 && !p->never) images_sync(&p->l, 0, p->store);
    else if (what < 8 && p->l.ticked) tick(p, 0, p->store, 2000);
    else if (what == 8) life_reopen(p, false);
    else if (what == 9) life_sync_fails(p);
    else if (what < 12) life_look(p);
    else if (!p->l.shared && (what == 40 || ((rewriting || p->beside) && what > 50)))
        life_rewrite_on(p);
    else if (what < 12 + p->in_place && free) life_rewrite(p);
    else life_write(p);
}

static void life_begin(power *p)
{
    static const ms_sync_mode modes[] = {MS_SYNC_NONE, MS_SYNC_NONE, MS_SYNC_EVERY,
                                         MS_SYNC_EACH};
    crash_images *l = &p->l;
    l->sync = modes[below(p, 4)];
    l->segment = (size_t)MS_LOG_SEGMENT_MIN << below(p, 2);
    l->shared = images_one_in(l, 4);
    l->ticked = images_one_in(l, 3);
    p->never = l->sync == MS_SYNC_NONE && images_one_in(l, 5);
    p->pace = p->beside ? UINT64_C(16) << below(p, 3) : UINT64_C(2) << below(p, 6);
    p->in_place = images_one_in(l, 4) ? 10 : 1;
    images_empty(l, NULL);
    if (images_one_in(l, 4)) l->d[0].longest = 5000;
    l->disks[0].folder_lies = p->lie_created;
    images_watch(l, 0, 4); /* its creation is looked at closely */
    life_open(p);
    images_watch(l, 0, 3 * p->pace);
    l->disks[0].folder_lies = false;
    l->disks[0].lies = p->lie_synced;
}

/* Is the file, or the sequence, long enough? */
static bool life_is_over(power *p)
{
    const change_sequence *d = &p->l.d[0];
    const sim_file *f = images_file(&p->l, 0);
    if (f != NULL && f->high > FULL) return true; /* not its size: room is made ahead */
    if (d->n_lost > SEQUENCE_LOST / 2 || d->n_rewrites > SEQUENCE_LOST / 2) return true;
    return d->steps >= LONGEST || d->h.count > 600;
}

static void one_life(power *p, uint64_t wanted)
{
    crash_images *l = &p->l;
    uint64_t until = l->images.all + 200 < wanted ? l->images.all + 200 : wanted;
    memset(&p->rewrite, 0, sizeof p->rewrite);
    life_begin(p);
    while (l->images.all < until && !life_is_over(p)) {
        life_step(p);
        bool closely = p->closely && images_one_in(l, 500);
        if (!closely && !images_one_in(l, p->pace)) continue;
        images_claims(l, 0, p->store);
        if (closely) images_cut(l, 0, 4096, l->some, 1000);
        else images_lose(l, 0);
    }
    l->one_in[0] = 0;
    (void)ms_rewrite_end(&p->rewrite, NULL, NULL);
    close_handle(p, &p->reader);
    close_handle(p, &p->other);
    close_handle(p, &p->store);
    images_leave_stale(l);
}

static power *power_new(ms_log_engine engine)
{
    power *p = (power *)calloc(1, sizeof *p);
    if (p == NULL) abort();
    images_begin(&p->l, images_stands);
    p->l.goes_on = goes_on;
    p->l.within = 6;
    p->l.engine = engine;
    p->l.rng += (uint64_t)engine;
    p->closely = test_scale() >= 1000;
    p->l.all = p->closely ? 64 : 16;
    p->l.some = 12;
    p->l.random = 5;
    return p;
}

static void power_free(power *p)
{
    images_end(&p->l);
    free(p);
}

/* Were there enough of each kind of moment? A life may pass without any power loss in a
 * recovery, which writes only where something is dead, and then once. */
static bool every_kind_came(const power *p, uint64_t wanted)
{
    const crash_images *l = &p->l;
    if (p->beside) return p->replaced > wanted / 800;
    return l->recoveries > wanted / 40 && l->during[2] > wanted / 60 &&
           l->during[3] > wanted / 120 && l->kills > wanted / 100 &&
           l->images.count > wanted / 2 && l->indexed > wanted / 5 && l->torn > 0 &&
           l->lost > wanted / 20 && p->rewrites > 0;
}

/* Lives until there are so many images, and, of many, until every kind of moment came.
 * Where a moment has more images that takes more of them: fewer rewrites beside steps end
 * before their life does. */
static void live(power *p)
{
    const crash_images *l = &p->l;
    uint64_t wanted = test_times(6000), lives = 0;
    uint64_t most = wanted * (p->beside && p->closely ? 16 : 8);
    bool few = wanted <= 1000 && !p->beside;
    while (l->images.all < wanted || !(few || every_kind_came(p, wanted) ||
                                       (lives >= 200 && l->images.all >= most))) {
        one_life(p, few ? wanted : UINT64_MAX);
        lives++;
    }
    printf("%llu lives, %llu rewrites, %llu beside steps, %llu torn ends, %llu lost steps, "
           "%llu with an index; images by depth:", (unsigned long long)lives,
           (unsigned long long)p->rewrites, (unsigned long long)p->replaced,
           (unsigned long long)l->torn, (unsigned long long)l->lost,
           (unsigned long long)l->indexed);
    for (int i = 1; i < IMAGES_LEVELS; i++)
        printf(" %llu (%llu of a recovery)", (unsigned long long)l->deep[i],
               (unsigned long long)l->during[i]);
    printf("\n");
    images_tally(l);
    assert_true(few || every_kind_came(p, wanted));
    power_free(p);
}

static void nothing_durable_is_lost_when_power_is_lost(void **state)
{
    live(power_new(*(const ms_log_engine *)*state));
}

static void nothing_durable_is_lost_when_power_is_lost_in_a_rewrite(void **state)
{
    power *p = power_new(*(const ms_log_engine *)*state);
    p->beside = true;
    live(p);
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
    if (!WIFEXITED(status) || WEXITSTATUS(status) != IMAGES_FOUND)
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
