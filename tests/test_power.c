/* Cuts of the power, on a simulated disk (tests/simdisk.h).
 *
 * A writer appends numbered messages one by one and in batches, in every sync mode and
 * with both engines, alone and as a shared writer, syncs, ticks, leaves index records, is
 * closed and opened again, and is compacted in place. At random moments, between its
 * calls and inside them, before each write, sync, rename and sync of the folder, images
 * are built of what a cut of the power may leave: all of them where there are few, else
 * prefixes, torn pages, sizes before data, data before sizes, random subsets.
 *
 * Each image is
 *
 *   - read by a reader, which must not change a byte;
 *   - recovered by a writer, which must find what the reader found: all that was
 *     acknowledged durable (by a sync, by the mode, by what ms_log_stat said), without a
 *     hole, no batch in part, nothing that was never written; no damage is reported; the
 *     index agrees with the messages; opening it has changed words of the head alone;
 *   - appended to, synced, and cut again, three deep: images of the recovering writer's
 *     own writes, and of what it wrote later. What was read once has to stay, and the
 *     reader that was there before the writer has to see what that appends.
 *
 * At some of these moments the writer is killed instead, while the machine goes on: the
 * next one of the same boot must find all that was acknowledged, and only what is synced
 * then may be called durable, which cuts behind it show.
 *
 * The same with a diary (tests/diary.h) of changes of every kind.
 *
 * First the simulated disk itself is looked at. Then tests show that the others can fail:
 * on a disk whose syncs do nothing, and on one where those of the folder do nothing, at
 * creation or after a compaction, a loss has to be found.
 *
 * Left out: damage, full disks (test_corrupt, test_fault_io), kills in the middle of a call
 * (test_crash).
 *
 * Counts at MS_TEST_SCALE=100: 14,000 images (2,000 of them among changes), two in three
 * of images; one in six of a recovery that had synced nothing; at 20000 two hundred times
 * as many, 2,800,000.
 */

#define _GNU_SOURCE
#include "simdisk.h"
#include "diary.h"

enum {
    LEVELS = 4,               /* the writer's disk, and images of images of images */
    MOST = 500,               /* numbers in one life of a file */
    FULL = 160 << 10          /* bytes of a file after which another one begins */
};

#define LOG "log.msl"


/* ---- the simulated disk itself ---- */

enum { FOUND = 64 };

/* What images can be told apart by: each a small number for a state. */
typedef struct findings {
    int states[FOUND];
    int count;
    size_t images;
} findings;

static void found_add(findings *f, int state)
{
    f->images++;
    for (int i = 0; i < f->count; i++)
        if (f->states[i] == state) return;
    assert_true(f->count < FOUND);
    f->states[f->count++] = state;
}

static bool found_has(const findings *f, int state)
{
    for (int i = 0; i < f->count; i++)
        if (f->states[i] == state) return true;
    return false;
}

/* All images of a disk by what `look` sees of each. */
static void find_all(sim_disk *d, int (*look)(sim_disk *image), size_t all, size_t random,
                     findings *f)
{
    sim_disk *image = (sim_disk *)malloc(sizeof *image);
    sim_cuts *cuts = (sim_cuts *)calloc(1, sizeof *cuts);
    if (image == NULL || cuts == NULL) abort();
    sim_init(image);
    memset(f, 0, sizeof *f);
    sim_cuts_begin(cuts, d, all, 0, random, test_seed());
    while (sim_cuts_next(cuts)) {
        sim_cut(cuts, image);
        found_add(f, look(image));
    }
    sim_cuts_free(cuts);
    sim_deinit(image);
    free(cuts);
    free(image);
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

/* A sector written twice, its neighbour once, by call and through a map; a page behind
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
    assert_true(found_has(&f, 110));
    put(d, file, 0, 2, SIM_SECTOR);
    put(d, file, 0, 3, SIM_SECTOR);
    assert_int_equal(d->os.map(d, file, 0, SIM_PAGE, MS_OS_READ | MS_OS_WRITE, &map), 0);
    memset((char *)map + SIM_SECTOR, 4, SIM_SECTOR);
    find_all(d, look_at_letters, 100, 0, &f);
    assert_int_equal(f.images, 6);         /* 1, 2 or 3; beside it 1 or 4 */
    assert_int_equal(f.count, 6);
    find_all(d, look_at_letters, 4, 0, &f); /* by pages: three versions and one; torn */
    assert_true(f.count >= 4 && f.count <= 6 && f.images >= 4);
    assert_true(found_has(&f, 110) && found_has(&f, 210) && found_has(&f, 310) &&
                found_has(&f, 340));
    put(d, file, SIM_PAGE, 5, 8);
    find_all(d, look_at_letters, 100, 0, &f);
    assert_int_equal(f.images, 18);        /* no new page, an empty one, or the new data */
    assert_int_equal(f.count, 12);
    find_all(d, look_at_letters, 4, 4000, &f); /* at random: no others */
    assert_int_equal(f.count, 12);
    assert_int_equal(d->os.unmap(d, map, SIM_PAGE), 0);
    assert_int_equal(d->os.sync(d, file), 0);
    find_all(d, look_at_letters, 100, 0, &f);
    assert_int_equal(f.images, 1);
    assert_true(found_has(&f, 345));
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
    assert_true(f.count == 2 && found_has(&f, 0) && found_has(&f, 10));
    assert_int_equal(d->os.sync_folder(d, "a"), 0);
    assert_int_equal(d->os.open(d, "b", how, &file), 0);
    put(d, file, 0, 2, 8);
    assert_int_equal(d->os.sync(d, file), 0);
    assert_int_equal(d->os.close(d, file), 0);
    assert_int_equal(d->os.sync_folder(d, "b"), 0);
    assert_int_equal(d->os.rename(d, "b", "a"), 0);
    find_all(d, look_at_names, 100, 0, &f);
    assert_true(f.count == 3 && found_has(&f, 12) && found_has(&f, 20) &&
                found_has(&f, 22));
    assert_int_equal(d->os.remove(d, "a"), 0);
    find_all(d, look_at_names, 100, 0, &f);
    assert_true(f.count == 5 && found_has(&f, 2) && found_has(&f, 0));
    assert_int_equal(d->os.sync_folder(d, "a"), 0);
    find_all(d, look_at_names, 100, 0, &f);
    assert_true(f.images == 1 && found_has(&f, 0));
    sim_deinit(d);
    free(d);
}


/* ---- one writer and its images ---- */

typedef struct power power;

/* What a disk must still have when it is cut now. */
typedef struct site {
    power *p;
    int level;
    uint64_t least, most;     /* numbers: acknowledged durable; written or on the way */
    uint64_t shown;           /* every handle sees so many: least, or more before a cut */
    uint64_t inode;           /* the file is this one or a later one */
    uint64_t one_in;          /* calls of this kind are cut at; 0: none */
    int units;                /* of the disk when it was made: more than 0 after a kill */
    bool killed;              /* no power was cut: what was not synced may be lost yet */
} site;

struct power {
    sim_disk disks[LEVELS];   /* 0: the workload's; others: images of that before */
    sim_cuts cuts[LEVELS];    /* of each disk */
    site sites[LEVELS];
    uint64_t seqs[LEVELS][MOST + SCRIBE_BATCH]; /* by number; 0: not known */
    scribe s;
    numbered paper[MOST + 2 * SCRIBE_BATCH];    /* what was written under each number */
    uint64_t papered;
    ms_log_engine engine;
    ms_sync_mode sync;
    size_t segment;
    bool shared, ticked, never; /* never: no call of ms_sync */
    uint64_t rng, entropy, now;
    unsigned char *stale;
    uint64_t kills, failed, recoveries, torn, empty, indexed, rewrites;
    uint64_t lives;           /* rewrites beside appends */
    sim_images images;
    uint64_t deep[LEVELS];    /* images by level */
    uint64_t during[LEVELS];  /* of them, those of a recovery that had synced nothing */
    bool beside;              /* rewrites beside appends, mostly */
    bool lie_synced, lie_created, lie_rewritten; /* which syncs do nothing */
    uint64_t damage;          /* events that must not come */
    size_t all, some, random; /* of the workload; see sim_cuts_begin */
    bool closely;             /* now and then 4096 states, or 1000 random ones */
    char fault[700];          /* empty: none */
};

/* Notes what is wrong, with the way to it; false. */
__attribute__((format(printf, 3, 4)))
static bool wrong(power *p, int level, const char *format, ...)
{
    va_list args;
    if (p->fault[0] != '\0') return false;
    va_start(args, format);
    int n = vsnprintf(p->fault, sizeof p->fault, format, args);
    va_end(args);
    for (int i = 0; i < level && n > 0 && (size_t)n < sizeof p->fault; i++)
        n += snprintf(p->fault + n, sizeof p->fault - (size_t)n, "\n  cut %d: %s", i + 1,
                      p->cuts[i].text);
    if (n > 0 && (size_t)n < sizeof p->fault)
        snprintf(p->fault + n, sizeof p->fault - (size_t)n,
                 "\n  image %llu, engine %d, sync %d, shared %d, ticked %d",
                 (unsigned long long)p->images.all, (int)p->engine, (int)p->sync,
                 (int)p->shared, (int)p->ticked);
    return false;
}

static int64_t clock_of(void *ctx) { return SECONDS(++((power *)ctx)->now); }

static void entropy_of(void *ctx, void *out, size_t len)
{
    test_fill(&((power *)ctx)->entropy, out, len);
}

static void on_event(void *ctx, const ms_log_event *event)
{
    power *p = (power *)ctx;
    if (event->kind == MS_LOG_DAMAGE || event->kind == MS_LOG_INDEX_DAMAGE) p->damage++;
}

static ms_log_desc desc_of(power *p, int level, ms_log_mode mode)
{
    ms_log_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.path = LOG;
    desc.mode = mode;
    desc.keep_unset_times = true;
    desc.os = &p->disks[level].os;
    desc.events.event = on_event;
    desc.events.ctx = p;
    desc.clock.now = clock_of;
    desc.clock.ctx = p;
    desc.entropy.fill = entropy_of;
    desc.entropy.ctx = p;
    desc.segment_size = p->segment;
    if (mode == MS_LOG_READ) return desc;
    desc.engine = p->engine;
    desc.sync = p->sync;
    desc.sync_bytes = 1500;
    desc.shared = p->shared;
    desc.ticked = p->ticked;
    return desc;
}

/* Message n as it was or will be written. */
static const numbered *paper_of(power *p, uint64_t n)
{
    while (p->papered < n) {
        p->papered++;
        scribe_write(&p->s, p->papered, &p->paper[p->papered]);
    }
    return &p->paper[n];
}

static bool same_message(const numbered *want, const ms_msg *msg)
{
    int64_t time = 0;
    return ms_str_equal(ms_get(msg, MS_F_ID).text, want->m.id) &&
           ms_str_equal(ms_content(msg).text, want->m.content.text) &&
           ms_type_of(msg) == want->m.type &&
           ms_str_equal(test_location(msg), want->m.location) &&
           ms_str_equal(test_agent_key(msg), want->m.agent_key) &&
           ms_str_equal(ms_get(msg, MS_F_KEY).text, want->m.key) &&
           ms_time(msg, &time) == want->m.has_time && time == want->m.time_ns;
}

/* O1 and O2: reads everything. *last: how many messages there are. */
static bool reads(power *p, int level, ms_store *store, uint64_t *last, const char *when)
{
    ms_query q;
    ms_cursor it;
    ms_error err;
    const ms_msg *msg;
    uint64_t n = 0, seq = 0;
    const site *s = &p->sites[level];
    bool fine = true;
    memset(&q, 0, sizeof q);
    if (ms_query_open(store, &q, &it, &err) != MS_OK)
        return wrong(p, level, "%s: query: %s", when, err.message);
    while (fine && (msg = ms_next(&it)) != NULL) {
        uint64_t known = ++n <= s->most ? p->seqs[level][n] : 0;
        fine = n <= s->most && ms_seq(msg) > seq &&
               (known == 0 || known == ms_seq(msg)) && same_message(paper_of(p, n), msg);
        seq = ms_seq(msg);
    }
    ms_result result = ms_cursor_close(&it, &err);
    if (!fine)
        return wrong(p, level, "%s: message %llu is not what was written as number %llu "
                     "(of %llu)", when, (unsigned long long)seq, (unsigned long long)n,
                     (unsigned long long)s->most);
    if (result != MS_OK) return wrong(p, level, "%s: cursor: %s", when, err.message);
    if (n < s->shown)
        return wrong(p, level, "%s: %llu messages of %llu", when, (unsigned long long)n,
                     (unsigned long long)s->shown);
    if (n > 0 && !scribe_ends(&p->s, n))
        return wrong(p, level, "%s: a batch in part, up to %llu", when,
                     (unsigned long long)n);
    if (p->damage != 0) return wrong(p, level, "%s: damage was reported", when);
    *last = n;
    return true;
}

/* Does the index know the messages of a location? Newest first, as many as `most`. */
static bool finds(power *p, int level, ms_store *store, uint64_t last)
{
    ms_query q;
    ms_cursor it;
    ms_error err;
    const ms_msg *msg;
    uint64_t n = last;
    bool fine = true;
    memset(&q, 0, sizeof q);
    q.location = ms_str_of(p->paper[1 + test_below(&p->rng, last)].location);
    q.reverse = true;
    q.limit = test_one_in(&p->rng, 2) ? 5 : 0;
    if (ms_query_open(store, &q, &it, &err) != MS_OK)
        return wrong(p, level, "query of a location: %s", err.message);
    while (fine && (msg = ms_next(&it)) != NULL) {
        while (n > 0 && !ms_str_equal(p->paper[n].m.location, q.location)) n--;
        fine = n > 0 && same_message(&p->paper[n--], msg);
    }
    while (q.limit == 0 && n > 0 && !ms_str_equal(p->paper[n].m.location, q.location))
        n--;
    if (ms_cursor_close(&it, &err) != MS_OK)
        return wrong(p, level, "cursor of a location: %s", err.message);
    if (!fine || (q.limit == 0 && n > 0))
        return wrong(p, level, "a location has other messages, at number %llu",
                     (unsigned long long)n);
    return true;
}

/* Appends the next group; the site knows of it before. */
static bool appends(power *p, int level, ms_store *store, uint64_t *last)
{
    uint64_t first;
    size_t count;
    ms_error err;
    site *s = &p->sites[level];
    if (*last + SCRIBE_BATCH >= MOST) return true;
    s->most = *last + scribe_group(&p->s, *last + 1, &first);
    if (scribe_append(&p->s, store, *last + 1, p->seqs[level], &count, &err) != MS_OK)
        return wrong(p, level, "append %llu: %s", (unsigned long long)*last + 1,
                     err.message);
    *last += count;
    s->most = s->shown = *last;
    if (p->sync == MS_SYNC_EACH) s->least = *last;
    return p->fault[0] == '\0';
}

/* What the store says is durable has to be. */
static bool claims(power *p, int level, ms_store *store, uint64_t last)
{
    ms_log_info info;
    ms_error err;
    site *s = &p->sites[level];
    if (ms_log_stat(store, &info, &err) != MS_OK)
        return wrong(p, level, "stat: %s", err.message);
    if (info.lost_end != 0 || info.damaged != 0)
        return wrong(p, level, "the handle counts damage");
    p->indexed += level > 0 && info.segments > 0;
    while (last > s->least && p->seqs[level][last] > info.durable_seq) last--;
    if (last > s->least && p->seqs[level][last] != 0 && scribe_ends(&p->s, last))
        s->least = last;
    return true;
}

static bool syncs(power *p, int level, ms_store *store, uint64_t last)
{
    ms_error err;
    uint64_t seq = 0;
    if (ms_sync(store, &seq, &err) != MS_OK)
        return wrong(p, level, "sync: %s", err.message);
    p->sites[level].least = last;
    if (last > 0 && p->seqs[level][last] != 0 && seq < p->seqs[level][last])
        return wrong(p, level, "sync: durable up to %llu, %llu was appended",
                     (unsigned long long)seq, (unsigned long long)p->seqs[level][last]);
    return true;
}


/* ---- one image ---- */

static bool stands(power *p, int level);

/* What the next disk has to have: of a killed writer all that it had acknowledged. */
static void promise(power *p, int level, bool killed)
{
    const site *from = &p->sites[level];
    site *to = &p->sites[level + 1];
    to->least = from->least;
    to->most = from->most;
    to->shown = killed ? from->shown : from->least;
    to->inode = from->inode;
    to->killed = killed;
    to->units = p->disks[level + 1].n_units;
    memcpy(p->seqs[level + 1], p->seqs[level], sizeof p->seqs[level]);
}

/* The writer is killed, the machine goes on: another one recovers in the same boot, and
 * then the power is cut. */
static bool kills(power *p, int level)
{
    sim_kill(&p->disks[level], &p->disks[level + 1]);
    promise(p, level, true);
    snprintf(p->cuts[level].text, sizeof p->cuts[level].text, "a kill");
    p->kills++;
    return stands(p, level + 1);
}

/* Cuts the power of a disk, in all ways that are asked for. */
static bool cut(power *p, int level, size_t all, size_t some, size_t random)
{
    sim_cuts *c = &p->cuts[level];
    bool fine = p->fault[0] == '\0';
    if (level + 1 == LEVELS) return fine;
    if (fine && test_one_in(&p->rng, 6)) fine = kills(p, level);
    sim_cuts_begin(c, &p->disks[level], all, some, random, test_random(&p->rng));
    bool recovering = level > 0 && p->disks[level].syncs == 0 &&
                      p->disks[level].n_units > p->sites[level].units;
    while (fine && sim_cuts_next(c)) {
        sim_cut(c, &p->disks[level + 1]);
        promise(p, level, false);
        sim_note(&p->images, &p->disks[level + 1]);
        p->deep[level + 1]++;
        p->during[level + 1] += recovering;
        p->recoveries += recovering;
        fine = stands(p, level + 1);
    }
    return fine;
}

/* Called before a call changes the disk of a site. */
static void at_moment(void *ctx, sim_disk *d, sim_call call)
{
    site *s = (site *)ctx;
    power *p = s->p;
    uint64_t one_in = call == SIM_AT_WRITE && s->level == 0 ? 4 * s->one_in : s->one_in;
    (void)d;
    if (one_in == 0 || p->fault[0] != '\0' || !test_one_in(&p->rng, one_in)) return;
    if (s->level == 0) cut(p, 0, p->all, p->some, p->random);
    else cut(p, s->level, 4, 1, 1);
}

static void watch(power *p, int level, uint64_t one_in)
{
    p->sites[level].one_in = one_in;
    p->disks[level].moment = at_moment;
    p->disks[level].ctx = &p->sites[level];
}

/* A reader opens the image, reads it and changes nothing. NULL: there is no log yet, and
 * none was promised. */
static bool read_only(power *p, int level, ms_store **reader, uint64_t *last)
{
    ms_error err;
    sim_disk *d = &p->disks[level];
    ms_log_desc desc = desc_of(p, level, MS_LOG_READ);
    if (sim_at(d, LOG) != NULL && sim_at(d, LOG)->inode < p->sites[level].inode)
        return wrong(p, level, "the file from before a compaction is back");
    ms_result result = ms_log_open(reader, &desc, &err);
    *last = 0;
    if (result == MS_E_NOT_FOUND && p->sites[level].shown == 0) return true;
    if (result != MS_OK) return wrong(p, level, "reading: %s", err.message);
    if (!reads(p, level, *reader, last, "reading")) return false;
    if (d->changes != 0 || d->n_units != p->sites[level].units)
        return wrong(p, level, "a reader has changed the disk");
    return true;
}

static bool verifies(power *p, int level)
{
    ms_error err;
    ms_log_report report;
    ms_log_desc desc = desc_of(p, level, MS_LOG_READ);
    if (ms_log_verify(&desc, &report, &err) != MS_OK)
        return wrong(p, level, "verify: %s", err.message);
    p->torn += report.torn_bytes != 0;
    return true;
}

/* Opening for writing writes nothing but words of the head. */
static bool only_the_head(power *p, int level)
{
    sim_disk *d = &p->disks[level];
    sim_look(d);
    for (int i = p->sites[level].units; i < d->n_units; i++)
        if (d->units[i].kind != SIM_DATA || d->units[i].page != 0)
            return wrong(p, level, "opening has changed more than the head");
    return true;
}

/* Compacts in place. Once that has returned all of it is durable, in the new file; the
 * store goes on with the old one. */
static bool compacts(power *p, int level, ms_store *store, uint64_t last)
{
    ms_error err;
    site *s = &p->sites[level];
    ms_log_desc desc = desc_of(p, level, MS_LOG_CREATE);
    uint64_t before = s->one_in;
    s->one_in = before > 0 ? 3 : 0;
    p->disks[level].folder_lies = p->lie_rewritten;
    ms_result result = ms_log_rewrite(store, &desc, true, NULL, NULL, &err);
    p->disks[level].folder_lies = false;
    s->one_in = before;
    if (result != MS_OK) return wrong(p, level, "rewriting: %s", err.message);
    s->least = last;
    s->inode = sim_at(&p->disks[level], LOG)->inode;
    if (level > 0) return cut(p, level, 6, 2, 1);
    return cut(p, 0, p->all, p->some, p->random);
}

/* The recovered log goes on: the first append, which is what recovery writes, is cut,
 * too; then more appends and a sync, and it is cut again. */
static bool goes_on(power *p, int level, ms_store *store, uint64_t last)
{
    bool deep = level + 1 < LEVELS;
    if (test_one_in(&p->rng, 4)) { /* what is durable of what was found? */
        if (!syncs(p, level, store, last)) return false;
        if (deep && !cut(p, level, 4, 2, 1)) return false;
    }
    if (!appends(p, level, store, &last)) return false;
    if (deep && !cut(p, level, 6, 2, 1)) return false;
    if (!p->shared && test_one_in(&p->rng, 30)) return compacts(p, level, store, last);
    if (test_one_in(&p->rng, 2)) return true;
    uint64_t groups = 1 + test_below(&p->rng, 4);
    for (uint64_t i = 0; i < groups; i++)
        if (!appends(p, level, store, &last)) return false;
    if (!syncs(p, level, store, last)) return false;
    if (!appends(p, level, store, &last)) return false;
    if (p->ticked && ms_tick(store, 1000, NULL) != MS_OK)
        return wrong(p, level, "tick");
    if (!claims(p, level, store, last)) return false;
    return !deep || cut(p, level, 4, 1, 1);
}

static bool recovers(power *p, int level, ms_store *reader, uint64_t seen)
{
    ms_error err;
    ms_store *store = NULL;
    site *s = &p->sites[level];
    uint64_t last = 0, seq = 0;
    ms_log_desc desc = desc_of(p, level, MS_LOG_CREATE);
    bool there = sim_at(&p->disks[level], LOG) != NULL &&
                 sim_at(&p->disks[level], LOG)->size > SIM_PAGE && seen > 0;
    if (ms_log_open(&store, &desc, &err) != MS_OK)
        return wrong(p, level, "recovering: %s", err.message);
    bool fine = reads(p, level, store, &last, "recovering");
    if (fine && reader != NULL && last != seen)
        fine = wrong(p, level, "a reader saw %llu messages, the writer sees %llu",
                     (unsigned long long)seen, (unsigned long long)last);
    if (fine && there) fine = only_the_head(p, level);
    s->shown = last;
    if (!s->killed) s->least = last; /* what was read once stays */
    if (fine && test_one_in(&p->rng, 8) && ms_selfcheck(store, &err) != MS_OK)
        fine = wrong(p, level, "selfcheck: %s", err.message);
    fine = fine && claims(p, level, store, last);
    if (fine && last > 0 && test_one_in(&p->rng, 6)) fine = finds(p, level, store, last);
    if (fine && test_one_in(&p->rng, 10)) {
        const char *fault = scribe_keys(&p->s, store, last, p->seqs[level], 6, &p->rng);
        if (fault != NULL) fine = wrong(p, level, "%s", fault);
    }
    if (fine && test_one_in(&p->rng, level == 1 ? 4 : 12))
        fine = goes_on(p, level, store, last);
    if (fine && reader != NULL && test_one_in(&p->rng, 4))
        fine = test_refresh(reader, &seq, &err) == MS_OK
                   ? reads(p, level, reader, &last, "reading on")
                   : wrong(p, level, "refresh: %s", err.message);
    p->sites[level].one_in = 0;
    ms_close(store);
    return fine && p->fault[0] == '\0';
}

/* What holds of every image. */
static bool stands(power *p, int level)
{
    ms_store *reader = NULL;
    uint64_t seen = 0;
    site *s = &p->sites[level];
    s->p = p;
    s->level = level;
    p->damage = 0;
    bool fine = read_only(p, level, &reader, &seen);
    p->empty += seen == 0;
    if (fine && reader != NULL && test_one_in(&p->rng, 8)) fine = verifies(p, level);
    watch(p, level, level + 1 < LEVELS ? 6 : 0);
    if (fine) fine = recovers(p, level, reader, seen);
    ms_close(reader);
    if (fine && !sim_idle(&p->disks[level]))
        return wrong(p, level, "something was left open");
    return fine;
}


/* ---- one life of a file ---- */

typedef struct life {
    power *p;
    ms_store *store, *reader;
    ms_store *other;          /* shared: a second writer, now and then */
    ms_rewrite rewrite;       /* of the store, while it goes on */
    bool wrote;               /* the first one, since it was opened */
    uint64_t last;
    uint64_t pace;            /* of so many moments at one the power is cut */
    uint64_t compactions;     /* so many in 64 steps */
} life;

static bool life_open(life *l)
{
    power *p = l->p;
    l->wrote = false;
    ms_error err;
    ms_log_desc desc = desc_of(p, 0, MS_LOG_CREATE);
    if (ms_log_open(&l->store, &desc, &err) != MS_OK)
        return wrong(p, 0, "opening: %s", err.message);
    return p->fault[0] == '\0' && claims(p, 0, l->store, l->last);
}

/* Closes and opens again; it may lose nothing. */
static bool life_reopen(life *l, bool poisoned)
{
    power *p = l->p;
    uint64_t last = 0;
    if (l->other != NULL && !poisoned && test_one_in(&p->rng, 2)) {
        ms_close(l->other);
        l->other = NULL;
    }
    (void)ms_rewrite_end(&l->rewrite, NULL, NULL);
    ms_close(l->store);
    l->store = NULL;
    if (!poisoned && l->wrote && l->other == NULL) { /* now it is durable */
        p->sites[0].least = l->last;
        if (!cut(p, 0, 4, 2, 1)) return false;
    }
    if (!life_open(l)) return false;
    if (!reads(p, 0, l->store, &last, "opened again")) return false;
    return last == l->last || wrong(p, 0, "opened again: messages are gone");
}

static bool life_rewrite(life *l)
{
    l->p->rewrites++;
    return compacts(l->p, 0, l->store, l->last) && life_reopen(l, false);
}

/* The next portion of a rewrite beside appends. The new store goes on; its name is durable
 * with the next sync, and until then either file may be back. */
static bool life_rewrite_on(life *l)
{
    power *p = l->p;
    ms_error err;
    ms_store *fresh;
    bool more = true;
    ms_log_desc desc = desc_of(p, 0, MS_LOG_CREATE);
    site *s = &p->sites[0];
    uint64_t before = s->one_in;
    s->one_in = before > 0 && test_one_in(&p->rng, 2) ? 6 : before;
    ms_result result = MS_OK;
    if (l->rewrite.state == NULL) {
        l->rewrite.source = l->store;
        l->rewrite.to = &desc;
        l->rewrite.replace = true;
        result = ms_rewrite_run(&l->rewrite, 1, &more, &err);
    } else if (test_one_in(&p->rng, 2)) {
        result = ms_rewrite_run(&l->rewrite, test_one_in(&p->rng, 2) ? 0 : 20, &more, &err);
    } else {
        result = ms_rewrite_end(&l->rewrite, &fresh, &err);
        if (result == MS_OK) {
            p->lives++;
            ms_close(l->reader); /* it reads the old file */
            l->reader = NULL;
            if (test_one_in(&p->rng, 2) && !cut(p, 0, p->all, p->some, p->random))
                return false;
            ms_close(l->store);
            l->store = fresh;
            l->wrote = true;
        }
        if (result == MS_E_BUSY) result = MS_OK;
    }
    s->one_in = before;
    if (result != MS_OK) return wrong(p, 0, "rewriting beside: %s", err.message);
    return claims(p, 0, l->store, l->last);
}

/* A second handle sees what is visible, always. */
static bool life_look(life *l)
{
    power *p = l->p;
    uint64_t last = 0;
    ms_error err;
    ms_log_desc desc = desc_of(p, 0, MS_LOG_READ);
    if (l->reader == NULL && ms_log_open(&l->reader, &desc, &err) != MS_OK)
        return wrong(p, 0, "a reader beside: %s", err.message);
    if (!claims(p, 0, l->reader, l->last)) return false;
    bool fine = reads(p, 0, l->reader, &last, "a reader beside");
    if (test_one_in(&p->rng, 2)) {
        ms_close(l->reader);
        l->reader = NULL;
    }
    return fine;
}

/* Two shared writers take turns. */
static bool life_append(life *l)
{
    power *p = l->p;
    ms_error err;
    ms_log_desc desc = desc_of(p, 0, MS_LOG_WRITE);
    if (p->shared && l->other == NULL && test_one_in(&p->rng, 10) &&
        ms_log_open(&l->other, &desc, &err) != MS_OK)
        return wrong(p, 0, "a second writer: %s", err.message);
    bool turn = l->other != NULL && test_one_in(&p->rng, 2);
    if (!turn) l->wrote = true;
    return appends(p, 0, turn ? l->other : l->store, &l->last);
}

/* The handle is given up, and another one goes on. */
static bool life_sync_fails(life *l)
{
    power *p = l->p;
    ms_error err;
    if (l->other != NULL) return true; /* it would go on as if nothing was */
    p->disks[0].fails = true;
    ms_result result = ms_sync(l->store, NULL, &err);
    bool failed = !p->disks[0].fails;
    p->disks[0].fails = false;
    p->failed += failed;
    if (failed != (result == MS_E_POISONED))
        return wrong(p, 0, "a sync failed, and the store says: %s", err.message);
    return !failed || life_reopen(l, true);
}

static bool life_step(life *l)
{
    power *p = l->p;
    uint64_t what = test_below(&p->rng, 64);
    if (what < 4 && !p->never) return syncs(p, 0, l->store, l->last);
    if (what < 8 && p->ticked)
        return ms_tick(l->store, 2000, NULL) == MS_OK || wrong(p, 0, "tick");
    if (what == 8) return life_reopen(l, false);
    if (what == 9) return life_sync_fails(l);
    if (what < 12) return life_look(l);
    if (!p->shared && (what == 40 || ((l->rewrite.state != NULL || p->beside) && what > 50)))
        return life_rewrite_on(l);
    if (what < 12 + l->compactions && !p->shared && l->reader == NULL && !l->rewrite.state)
        return life_rewrite(l);
    return life_append(l);
}

static void life_config(power *p)
{
    static const ms_sync_mode modes[] = {MS_SYNC_NONE, MS_SYNC_NONE, MS_SYNC_EVERY,
                                         MS_SYNC_EACH};
    p->sync = modes[test_below(&p->rng, 4)];
    p->segment = (size_t)MS_LOG_SEGMENT_MIN << test_below(&p->rng, 2);
    p->shared = test_one_in(&p->rng, 4);
    p->ticked = test_one_in(&p->rng, 3);
    p->never = p->sync == MS_SYNC_NONE && test_one_in(&p->rng, 5);
    p->s.salt = test_random(&p->rng);
    p->s.longest = test_one_in(&p->rng, 4) ? 5000 : 300;
    p->papered = 0;
    p->damage = 0;
    memset(p->seqs[0], 0, sizeof p->seqs[0]);
    memset(&p->sites[0], 0, sizeof p->sites[0]);
    p->sites[0].p = p;
}

/* The blocks of this file may turn up in the next one. */
static void life_leave_stale(power *p)
{
    const sim_file *f = sim_at(&p->disks[0], LOG);
    if (f == NULL || f->size < 8 * SIM_PAGE) return;
    memcpy(p->stale, f->ro, SIM_ROOM);
}

static bool life_begin(life *l)
{
    power *p = l->p;
    sim_clear(&p->disks[0]);
    p->disks[0].stale = p->stale;
    life_config(p);
    l->pace = UINT64_C(2) << test_below(&p->rng, 6);
    l->compactions = test_one_in(&p->rng, 4) ? 10 : 1;
    p->disks[0].folder_lies = p->lie_created;
    watch(p, 0, 4); /* its creation is looked at closely */
    bool fine = life_open(l);
    watch(p, 0, 3 * l->pace);
    p->disks[0].folder_lies = false;
    p->disks[0].lies = p->lie_synced;
    return fine;
}

static bool one_life(power *p, uint64_t wanted)
{
    life l;
    memset(&l, 0, sizeof l);
    l.p = p;
    uint64_t until = p->images.all + 200 < wanted ? p->images.all + 200 : wanted;
    bool fine = life_begin(&l);
    while (fine && p->images.all < until && l.last + 2 * SCRIBE_BATCH < MOST) {
        const sim_file *f = sim_at(&p->disks[0], LOG);
        if (f != NULL && f->high > FULL) break; /* not its size: room is made ahead */
        fine = life_step(&l) && p->fault[0] == '\0';
        bool closely = p->closely && test_one_in(&p->rng, 500);
        size_t all = closely ? 4096 : p->all, random = closely ? 1000 : p->random;
        if (fine && (closely || test_one_in(&p->rng, l.pace)))
            fine = claims(p, 0, l.store, l.last) && cut(p, 0, all, p->some, random);
    }
    p->sites[0].one_in = 0;
    (void)ms_rewrite_end(&l.rewrite, NULL, NULL);
    ms_close(l.reader);
    ms_close(l.other);
    ms_close(l.store);
    life_leave_stale(p);
    return fine && p->fault[0] == '\0';
}

static power *power_new(ms_log_engine engine)
{
    power *p = (power *)calloc(1, sizeof *p);
    if (p == NULL) abort();
    p->engine = engine;
    p->rng = test_seed() + (uint64_t)engine;
    p->entropy = test_seed() + 1000;
    p->stale = (unsigned char *)calloc(1, SIM_ROOM);
    if (p->stale == NULL) abort();
    for (int i = 0; i < LEVELS; i++) sim_init(&p->disks[i]);
    p->closely = test_scale() >= 1000;
    p->all = p->closely ? 64 : 16;
    p->some = 12;
    p->random = 5;
    return p;
}

static void power_free(power *p)
{
    for (int i = 0; i < LEVELS; i++) {
        sim_deinit(&p->disks[i]);
        sim_cuts_free(&p->cuts[i]);
    }
    sim_images_free(&p->images);
    free(p->stale);
    free(p);
}

static void say_counts(const power *p, uint64_t lives)
{
    printf("%llu images (%llu, %llu, %llu by depth; %llu different) of %llu files with "
           "%llu compactions, %llu beside appends, %llu kills, %llu failed syncs: %llu "
           "without a message, %llu with index "
           "records; of those verified %llu had a torn end; %llu and %llu were of a "
           "recovery, and of the recovery of that\n",
           (unsigned long long)p->images.all, (unsigned long long)p->deep[1],
           (unsigned long long)p->deep[2], (unsigned long long)p->deep[3],
           (unsigned long long)p->images.count, (unsigned long long)lives,
           (unsigned long long)p->rewrites, (unsigned long long)p->lives,
           (unsigned long long)p->kills,
           (unsigned long long)p->failed, (unsigned long long)p->empty,
           (unsigned long long)p->indexed, (unsigned long long)p->torn,
           (unsigned long long)p->during[2],
           (unsigned long long)p->during[3]);
    sim_say_planned(p->cuts, LEVELS);
    printf("tally: power-cut images %llu\n", (unsigned long long)p->images.all);
    printf("tally: power-cut images, no two the same %llu\n",
           (unsigned long long)p->images.count);
    printf("tally: crashes during recovery %llu\n", (unsigned long long)p->recoveries);
    printf("tally: simulated kills %llu\n", (unsigned long long)p->kills);
}

/* Were there enough of each kind of moment? A life may pass without any cut of a recovery,
 * which writes only where something is dead, and then once. */
static bool every_kind_came(const power *p, uint64_t wanted)
{
    return p->recoveries > wanted / 40 && p->during[2] > wanted / 60 &&
           p->during[3] > wanted / 120 && p->kills > wanted / 100 &&
           p->images.count > wanted / 2 && p->indexed > wanted / 5 && p->torn > 0 &&
           p->rewrites > 0;
}

static void nothing_durable_is_lost_when_power_is_lost(void **state)
{
    power *p = power_new(*(const ms_log_engine *)*state);
    uint64_t wanted = test_times(6000), lives = 0;
    bool all = wanted <= 1000; /* else every kind of moment has to come */
    for (; p->images.all < wanted || (!all && lives < 100); lives++) {
        if (!one_life(p, all ? wanted : UINT64_MAX)) fail_msg("%s", p->fault);
        all = wanted <= 1000 || every_kind_came(p, wanted);
    }
    say_counts(p, lives);
    assert_true(all);
    power_free(p);
}

static void nothing_durable_is_lost_when_power_is_lost_in_a_rewrite(void **state)
{
    power *p = power_new(*(const ms_log_engine *)*state);
    uint64_t wanted = test_times(6000), lives = 0;
    p->beside = true;
    for (; p->images.all < wanted || p->lives < wanted / 400; lives++)
        if (!one_life(p, UINT64_MAX)) fail_msg("%s", p->fault);
    say_counts(p, lives);
    power_free(p);
}


/* ---- syncs that do nothing ---- */

/* Runs until something is found wrong, which has to be soon. */
static void must_be_found_out(power *p, const char *lie)
{
    while (p->images.all < 60000 && one_life(p, 60000)) continue;
    if (p->fault[0] == '\0')
        fail_msg("%s: nothing was found in %llu images", lie,
                 (unsigned long long)p->images.all);
    printf("%s: found at image %llu: %s\n", lie, (unsigned long long)p->images.all, p->fault);
    power_free(p);
}

static void a_sync_that_does_nothing_is_found_out(void **state)
{
    power *p = power_new(*(const ms_log_engine *)*state);
    p->lie_synced = true;
    must_be_found_out(p, "syncs that do nothing");
}

static void a_name_that_was_not_synced_is_found_out(void **state)
{
    power *p = power_new(MS_ENGINE_AUTO);
    (void)state;
    p->lie_created = true;
    must_be_found_out(p, "a folder that is not synced at creation");
    p = power_new(MS_ENGINE_AUTO);
    p->lie_rewritten = true;
    must_be_found_out(p, "a folder that is not synced after a compaction");
}


/* ---- changes of every kind, from a diary ---- */

typedef struct changes {
    sim_disk disks[LEVELS];
    sim_cuts cuts[LEVELS];
    diary d[LEVELS];          /* of each disk: what was done there */
    ms_log_engine engine;
    uint64_t rng, recoveries, lost, damage;
    sim_images images;
    unsigned char *bytes;     /* of a file */
    bool armed, taken;        /* the step that runs is to be cut, or was */
} changes;

static void on_change_event(void *ctx, const ms_log_event *event)
{
    changes *c = (changes *)ctx;
    if (event->kind == MS_LOG_DAMAGE || event->kind == MS_LOG_INDEX_DAMAGE) c->damage++;
}

static ms_store *changes_open(changes *c, int level, bool writing, bool may_miss)
{
    ms_log_desc desc;
    ms_store *store;
    ms_error err;
    memset(&desc, 0, sizeof desc);
    desc.path = LOG;
    desc.mode = writing ? MS_LOG_CREATE : MS_LOG_READ;
    desc.engine = writing ? c->engine : MS_ENGINE_AUTO;
    desc.segment_size = MS_LOG_SEGMENT_MIN;
    desc.os = &c->disks[level].os;
    desc.events.event = on_change_event;
    desc.events.ctx = c;
    ms_result result = ms_log_open(&store, &desc, &err);
    if (result == MS_E_NOT_FOUND && may_miss) return NULL;
    if (result != MS_OK)
        fail_msg("changes, cut %d (%s): %s", level,
                 level > 0 ? c->cuts[level - 1].text : "", err.message);
    return store;
}

static void changes_fail(const changes *c, int level, int least, int most,
                         const char *what)
{
    fail_msg("changes, cut %d (%s): of %d steps, %d durable: %s", level,
             c->cuts[level - 1].text, most, least, what);
}

/* A redaction that had not returned is shown, but its bytes may be there: once more. */
static void redact_again(changes *c, int level, ms_store *store)
{
    ms_error err;
    diary *d = &c->d[level];
    if (diary_learn(d, store) != MS_OK) return;
    if (ms_redact(store, d->items[d->redacted].seq, &err) != MS_OK)
        fail_msg("redacting again: %s", err.message);
    const char *what = diary_differs(d, store);
    if (what != NULL) fail_msg("redacted again: %s", what);
}

/* Does the file hold what was erased? */
static bool changes_leak(changes *c, int level)
{
    const sim_file *f = sim_at(&c->disks[level], LOG);
    if (f == NULL) return false;
    memcpy(c->bytes, f->ro, (size_t)f->size);
    diary_forget_dead(c->bytes, (size_t)f->size);
    return diary_leaks(&c->d[level], c->bytes, (size_t)f->size);
}

/* Has the store all the diary's messages, hidden ones too, and the same unfinished? */
static bool changes_fit(diary *d, ms_store *store)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    bool fit = true;
    int i = 0, n = 0;
    memset(&q, 0, sizeof q);
    if (ms_query_open(store, &q, &it, NULL) != MS_OK) return false;
    for (; fit && (msg = ms_next(&it)) != NULL; i++) {
        while (i < d->count && !d->items[i].visible) i++;
        uint32_t flags = ms_flags(msg) & (MS_FLAG_UNFINISHED | MS_FLAG_AMENDED);
        fit = i < d->count && d->items[i].open == (flags == MS_FLAG_UNFINISHED);
    }
    if (ms_cursor_close(&it, NULL) != MS_OK) return false;
    q.raw = MS_RAW_MESSAGES;
    if (!fit || ms_query_open(store, &q, &it, NULL) != MS_OK) return false;
    while (ms_next(&it) != NULL) n++;
    return ms_cursor_close(&it, NULL) == MS_OK && n == d->count;
}

/* Some steps cannot be told from others by what is visible (a message that was appended
 * and hidden was perhaps never there). Finds the one that fits in everything. */
static bool changes_sure(changes *c, int level, int least, ms_store *store)
{
    diary *d = &c->d[level];
    for (int n = d->steps; n >= least; n--) {
        diary_replay(&c->d[level - 1], n, d);
        if (diary_differs(d, store) == NULL && changes_fit(d, store)) return true;
    }
    return false;
}

static void changes_cut(changes *c, int level, int least, size_t some);

/* More steps on what was recovered; then it is cut again. */
static void changes_go_on(changes *c, int level, ms_store *store)
{
    diary *d = &c->d[level];
    int durable = d->steps; /* what was read once stays */
    ms_error err;
    if (d->n_lost + 2 >= DIARY_LOST || d->count + 200 > DIARY_MOST) return;
    diary_writer_gone(d);
    for (uint64_t i = 1 + test_below(&c->rng, 5); i > 0; i--) {
        if (diary_step(d, store, &err) != MS_OK)
            fail_msg("a change after a cut: %s", err.message);
        bool sync = test_one_in(&c->rng, 8);
        if (sync) assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
        if (sync || d->redacting) durable = d->steps;
    }
    changes_cut(c, level, durable, 3);
}

/* One image: a reader and a writer find the same steps in force, all that were durable
 * among them. redacting: the last step had not returned, and was a redaction. */
static void changes_stand(changes *c, int level, int least, bool redacting)
{
    const diary *before = &c->d[level - 1];
    diary *d = &c->d[level];
    int most = before->steps;
    for (int writing = 0; writing < 2; writing++) {
        const char *what = "";
        c->damage = 0;
        ms_store *store = changes_open(c, level, writing != 0, least == 0);
        if (store == NULL) continue;
        int found = diary_find(before, store, least, most, d, &what);
        bool half = redacting && (found < 0 || found == most);
        if (found < 0 && !half) changes_fail(c, level, least, most, what);
        if (half) diary_replay(before, most, d);
        if (half && writing) redact_again(c, level, store);
        if ((!half || writing) && changes_leak(c, level))
            changes_fail(c, level, least, most, "what was erased is there");
        if (c->damage != 0) changes_fail(c, level, least, most, "damage is reported");
        c->lost += writing && found >= 0 && found < most;
        if (writing && !half && level + 1 < LEVELS && test_one_in(&c->rng, 4) &&
            changes_sure(c, level, least, store))
            changes_go_on(c, level, store);
        ms_close(store);
    }
    assert_true(sim_idle(&c->disks[level]));
}

static void changes_cut(changes *c, int level, int least, size_t some)
{
    sim_cuts *cuts = &c->cuts[level];
    sim_cuts_begin(cuts, &c->disks[level], 2 * some, some, 2, test_random(&c->rng));
    bool recovering = level > 0 && c->disks[level].syncs == 0 && c->disks[level].n_units > 0;
    while (sim_cuts_next(cuts)) {
        sim_cut(cuts, &c->disks[level + 1]);
        sim_note(&c->images, &c->disks[level + 1]);
        c->recoveries += recovering;
        changes_stand(c, level + 1, least, false);
    }
}

/* In the middle of a step one image is made; it is looked at when the step is through. */
static void at_change(void *ctx, sim_disk *d, sim_call call)
{
    changes *c = (changes *)ctx;
    sim_cuts *cuts = &c->cuts[0];
    (void)call;
    if (!c->armed || c->taken || !test_one_in(&c->rng, 3)) return;
    sim_cuts_begin(cuts, d, 0, 6, 4, test_random(&c->rng));
    while (sim_cuts_next(cuts))
        if (test_one_in(&c->rng, 8)) break;
    sim_cut(cuts, &c->disks[1]);
    c->taken = true;
}

static void changes_life(changes *c, uint64_t wanted)
{
    ms_error err;
    diary *d = &c->d[0];
    int durable = 0;
    sim_clear(&c->disks[0]);
    c->disks[0].moment = at_change;
    c->disks[0].ctx = c;
    c->armed = c->taken = false;
    ms_store *store = changes_open(c, 0, true, false);
    diary_begin(d, test_random(&c->rng));
    for (int i = 0; i < 120 && c->images.all < wanted; i++) {
        c->taken = false;
        c->armed = test_one_in(&c->rng, 4);
        if (diary_step(d, store, &err) != MS_OK)
            fail_msg("changes, step %d: %s", i, err.message);
        c->armed = false;
        if (c->taken) sim_note(&c->images, &c->disks[1]);
        if (c->taken) changes_stand(c, 1, durable, d->redacting);
        bool sync = test_one_in(&c->rng, 20);
        if (sync) assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
        if (sync || d->redacting) durable = d->steps;
        if (test_one_in(&c->rng, 8)) changes_cut(c, 0, durable, 4);
    }
    ms_close(store);
}

static void a_prefix_of_the_changes_stays_when_power_is_lost(void **state)
{
    changes *c = (changes *)calloc(1, sizeof *c);
    uint64_t wanted = test_times(1000);
    if (c == NULL) abort();
    c->engine = *(const ms_log_engine *)*state;
    c->rng = test_seed() + 13;
    c->bytes = (unsigned char *)malloc(SIM_ROOM);
    if (c->bytes == NULL) abort();
    for (int i = 0; i < LEVELS; i++) sim_init(&c->disks[i]);
    while (c->images.all < wanted) changes_life(c, wanted);
    printf("%llu images among changes, %llu of them lost steps\n",
           (unsigned long long)c->images.all, (unsigned long long)c->lost);
    printf("tally: power-cut images %llu\n", (unsigned long long)c->images.all);
    printf("tally: power-cut images, no two the same %llu\n",
           (unsigned long long)c->images.count);
    printf("tally: crashes during recovery %llu\n", (unsigned long long)c->recoveries);
    if (wanted > 500) assert_true(c->lost > wanted / 20);
    for (int i = 0; i < LEVELS; i++) {
        sim_deinit(&c->disks[i]);
        sim_cuts_free(&c->cuts[i]);
    }
    sim_images_free(&c->images);
    free(c->bytes);
    free(c);
}

static ms_log_engine engines[] = {MS_ENGINE_MAP, MS_ENGINE_WRITE};

#define WITH_EACH_ENGINE(test)                                    \
    {#test " (map)", test, NULL, NULL, &engines[0]},              \
    {#test " (write)", test, NULL, NULL, &engines[1]}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_disk_mixes_what_was_not_synced),
        cmocka_unit_test(the_disk_loses_names_until_the_folder_is_synced),
        WITH_EACH_ENGINE(nothing_durable_is_lost_when_power_is_lost),
        WITH_EACH_ENGINE(nothing_durable_is_lost_when_power_is_lost_in_a_rewrite),
        WITH_EACH_ENGINE(a_prefix_of_the_changes_stays_when_power_is_lost),
        WITH_EACH_ENGINE(a_sync_that_does_nothing_is_found_out),
        cmocka_unit_test(a_name_that_was_not_synced_is_found_out),
    };
    scribe_page();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
