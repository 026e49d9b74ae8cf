/* A lab: the disk of a writer, images of what a power loss or a kill leaves of it, and
 * images of the images. What each of them must show is up to the test: a struct whose
 * first member is a lab, and its function `stands`.
 *
 *     lab_begin(&t->l, stands);
 *     ... a writer works on disk 0, with lab_desc(&t->l, 0, MS_LOG_CREATE) ...
 *     lab_cut(&t->l, 0, 64, 30, 20);      stands(&t->l, 1) looks at each image, on disk 1
 *     lab_end(&t->l);
 */

#ifndef LAB_H
#define LAB_H

#include "simdisk.h"

#define LAB_LOG "log.msl"

enum { LAB_LEVELS = 4, LAB_FOUND = 42 };

typedef struct lab lab;

struct lab {
    sim_disk disks[LAB_LEVELS]; /* 0: the writer's; others: images of the one before */
    sim_cuts cuts[LAB_LEVELS];
    int units[LAB_LEVELS];    /* of an image when it was made: more than 0 after a kill */
    void (*stands)(lab *l, int level);
    ms_log_engine engine;
    ms_sync_mode sync;
    size_t segment;
    bool shared, ticked;
    uint64_t rng, entropy, now;
    uint64_t damage;          /* events that must not come */
    unsigned char *stale;     /* an older log, whose blocks may turn up */
    sim_images images;
    uint64_t recoveries;      /* images of a recovery that had synced nothing */
    uint64_t deep[LAB_LEVELS], during[LAB_LEVELS]; /* images, and those, by level */
    char name[200];           /* of the workload */
    bool killed;              /* the image to look at is of a kill, not of a power loss */
    bool lying;               /* a failure has to come: it ends the process */
};

/* Fails the test, with the way to where it happened. */
__attribute__((format(printf, 3, 4), noreturn))
static inline void lab_fails(lab *l, int level, const char *format, ...)
{
    char what[400], way[400] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    size_t n = 0;
    for (int i = 0; i < level && n < sizeof way; i++)
        n += (size_t)snprintf(way + n, sizeof way - n, "\n  cut %d: %s", i + 1,
                              l->cuts[i].text);
    if (l->lying) {
        printf("image %llu: %s%s\n", (unsigned long long)l->images.all, what, way);
        fflush(stdout);
        _exit(LAB_FOUND);
    }
    fail_msg("%s: %s%s\n  image %llu, engine %d, sync %d, shared %d, ticked %d", l->name,
             what, way, (unsigned long long)l->images.all, (int)l->engine, (int)l->sync,
             (int)l->shared, (int)l->ticked);
    abort();
}

static inline void lab_must(lab *l, int level, ms_result result, const ms_error *err,
                            const char *what)
{
    if (result != MS_OK) lab_fails(l, level, "%s: %s", what, err->message);
}

static inline int64_t lab_clock(void *ctx) { return SECONDS(++((lab *)ctx)->now); }

static inline void lab_entropy(void *ctx, void *out, size_t len)
{
    test_fill(&((lab *)ctx)->entropy, out, len);
}

static inline void lab_event(void *ctx, const ms_log_event *event)
{
    lab *l = (lab *)ctx;
    if (event->kind == MS_LOG_DAMAGE || event->kind == MS_LOG_INDEX_DAMAGE) l->damage++;
}

static inline ms_log_desc lab_desc(lab *l, int level, ms_log_mode mode)
{
    ms_log_desc desc = {.path = LAB_LOG,
                        .mode = mode,
                        .os = &l->disks[level].os,
                        .segment_size = l->segment,
                        .keep_unset_times = true,
                        .events = {.event = lab_event, .ctx = l},
                        .clock = {.now = lab_clock, .ctx = l},
                        .entropy = {.fill = lab_entropy, .ctx = l}};
    if (mode == MS_LOG_READ) return desc;
    desc.engine = l->engine;
    desc.sync = l->sync;
    desc.sync_bytes = 1500;
    desc.shared = l->shared;
    desc.ticked = l->ticked;
    return desc;
}

static inline ms_store *lab_open(lab *l, int level, ms_log_mode mode, const char *when)
{
    ms_store *store;
    ms_error err;
    ms_log_desc desc = lab_desc(l, level, mode);
    lab_must(l, level, ms_log_open(&store, &desc, &err), &err, when);
    return store;
}

/* Opens a reader. NULL: there is no log, which is allowed while nothing is promised. */
static inline ms_store *lab_read(lab *l, int level, bool promised)
{
    ms_store *store;
    ms_error err;
    ms_log_desc desc = lab_desc(l, level, MS_LOG_READ);
    ms_result result = ms_log_open(&store, &desc, &err);
    if (result == MS_E_NOT_FOUND && !promised) return NULL;
    lab_must(l, level, result, &err, "reading");
    return store;
}

/* Checks that a reader has changed nothing. */
static inline void lab_is_unchanged(lab *l, int level)
{
    const sim_disk *d = &l->disks[level];
    if (d->changes != 0 || d->n_units != l->units[level])
        lab_fails(l, level, "a reader has changed the disk");
}

static inline sim_file *lab_file(lab *l, int level)
{
    return sim_at(&l->disks[level], LAB_LOG);
}

/* Is the power lost in a recovery that has synced nothing? */
static inline bool lab_recovers(const lab *l, int level)
{
    const sim_disk *d = &l->disks[level];
    return level > 0 && d->syncs == 0 && d->n_units > l->units[level];
}

/* The power of a disk is lost: looks at images of all states, or, where these are more
 * than `all`, at about `some` and at `random` ones. See sim_cuts_begin. */
static inline void lab_cut(lab *l, int level, size_t all, size_t some, size_t random)
{
    sim_cuts *c = &l->cuts[level];
    if (level + 1 == LAB_LEVELS) return;
    sim_cuts_begin(c, &l->disks[level], all, some, random, test_random(&l->rng));
    bool recovering = lab_recovers(l, level);
    while (sim_cuts_next(c, &l->disks[level + 1])) {
        sim_note(&l->images, &l->disks[level + 1]);
        l->units[level + 1] = 0;
        l->deep[level + 1]++;
        l->during[level + 1] += recovering;
        l->recoveries += recovering;
        l->killed = false;
        l->stands(l, level + 1);
    }
}

/* The writer is killed, and the machine goes on: looks at what the next one finds. */
static inline void lab_kill(lab *l, int level)
{
    sim_cuts *c = &l->cuts[level];
    sim_kill(&l->disks[level], &l->disks[level + 1]);
    l->units[level + 1] = l->disks[level + 1].n_units;
    snprintf(c->text, sizeof c->text, "a kill");
    l->killed = true;
    l->stands(l, level + 1);
}

static inline void lab_is_idle(lab *l, int level)
{
    if (!sim_idle(&l->disks[level])) lab_fails(l, level, "something was left open");
}

/* The blocks of this log may turn up in the next one. */
static inline void lab_leave_stale(lab *l)
{
    const sim_file *f = lab_file(l, 0);
    if (f != NULL && f->size >= 8 * SIM_PAGE) memcpy(l->stale, f->ro, SIM_ROOM);
}

static inline void lab_begin(lab *l, void (*stands)(lab *l, int level))
{
    for (int i = 0; i < LAB_LEVELS; i++) sim_init(&l->disks[i]);
    l->stands = stands;
    l->rng = test_seed();
    l->entropy = test_seed() + 1000;
    l->segment = MS_LOG_SEGMENT_MIN;
    l->stale = (unsigned char *)calloc(1, SIM_ROOM);
    if (l->stale == NULL) abort();
}

static inline void lab_end(lab *l)
{
    for (int i = 0; i < LAB_LEVELS; i++) {
        sim_deinit(&l->disks[i]);
        sim_cuts_free(&l->cuts[i]);
    }
    sim_images_free(&l->images);
    free(l->stale);
}

static inline void lab_tally(const lab *l)
{
    test_tally("power-cut images", l->images.all);
    test_tally("power-cut images, no two the same", l->images.count);
    test_tally("crashes during recovery", l->recoveries);
}

#endif /* LAB_H */
