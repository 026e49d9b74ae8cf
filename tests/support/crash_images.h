/* Crash images: the simulated disk of a writer, images of what a power loss or a kill
 * leaves of it, and images of the images. A sequence (change_sequence.h) of each disk
 * says what must be there: a reader and a writer of an image show what the first k steps
 * make. After a power loss k is at least the number of steps known to be durable; after a
 * kill, of the steps that have returned. It is at most the number of steps that had
 * begun.
 *
 *     images_begin(&t->l, images_stands);
 *     images_empty(&t->l, NULL);
 *     ms_store *store = images_open(&t->l, 0, MS_LOG_CREATE, "opening");
 *     images_step(&t->l, 0, store);
 *     images_lose(&t->l, 0);       checks images, or a choice of them, on disk 1
 *     images_end(&t->l);
 *
 * A test is a struct whose first member is crash_images. Its function `goes_on` uses a
 * recovered log, of which the power is lost again.
 */

#ifndef CRASH_IMAGES_H
#define CRASH_IMAGES_H

#define MODEL_MOST 1200
#include "change_sequence.h"
#include "file_format.h"
#include "simdisk.h"

#define IMAGES_LOG "log.msl"

enum { IMAGES_LEVELS = 4, IMAGES_FOUND = 42, IMAGES_STEPS = 400 };

typedef struct crash_images crash_images;

struct crash_images {
    sim_disk disks[IMAGES_LEVELS]; /* 0: the writer's; others: images of the one before */
    sim_cuts cuts[IMAGES_LEVELS];
    int units[IMAGES_LEVELS];    /* unsynced writes of an image when it was made */
    change_sequence d[IMAGES_LEVELS];      /* of each disk: what was done there */
    int begun[IMAGES_LEVELS], durable[IMAGES_LEVELS]; /* steps */
    bool redacting[IMAGES_LEVELS]; /* the step that runs is a redaction */
    uint64_t ends[IMAGES_LEVELS][IMAGES_STEPS]; /* most bytes after so many steps */
    uint64_t inode[IMAGES_LEVELS]; /* the least that the log may have */
    uint64_t one_in[IMAGES_LEVELS]; /* before so many changing calls one loss; 0: none */
    uint64_t within;          /* one_in while an image is recovered */
    void (*stands)(crash_images *l, int level);
    void (*goes_on)(crash_images *l, int level, ms_store *store); /* NULL: it does not */
    ms_log_engine engine;
    ms_sync_mode sync;
    size_t segment;
    bool shared, ticked;
    size_t all, some, random; /* images of a loss at level 0; see sim_cuts_begin */
    uint64_t rng, entropy, now;
    unsigned char lineage[IMAGES_LEVELS][16]; /* of the log; zeros: it is not there yet */
    uint64_t damage;          /* events that must not come, but for torn sectors of garbage, */
    uint64_t damage_at;       /* and the least offset that they had */
    uint64_t garbage;         /* images of which a torn sector of garbage was reported */
    unsigned char *stale;     /* an older log, whose blocks may turn up */
    unsigned char *bytes;     /* of a file */
    sim_images images;
    uint64_t recoveries;      /* images of a recovery that had synced nothing */
    uint64_t deep[IMAGES_LEVELS]; /* images, by level */
    uint64_t during[IMAGES_LEVELS]; /* recoveries, by level */
    uint64_t kills;
    uint64_t lost, torn, indexed; /* images that lack a step, with dead bytes, an index */
    char name[200];           /* of the workload */
    bool killed;              /* the image to look at is of a kill, not of a power loss */
    bool lying;               /* the disk is broken on purpose: a failure has to come */
};

static inline bool images_one_in(crash_images *l, uint64_t n)
{
    return test_one_in(&l->rng, n);
}

/* Fails the test, and prints the crashes that led to this image. */
__attribute__((format(printf, 3, 4), noreturn))
static inline void images_fails(crash_images *l, int level, const char *format, ...)
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
        _exit(IMAGES_FOUND);
    }
    fail_msg("%s: %s%s\n  after %llu images, engine %d, sync %d, shared %d, ticked %d",
             l->name, what, way, (unsigned long long)l->images.all, (int)l->engine,
             (int)l->sync, (int)l->shared, (int)l->ticked);
    abort();
}

static inline void images_must(crash_images *l, int level, ms_result result,
                               const ms_error *err, const char *what)
{
    if (result != MS_OK)
        images_fails(l, level, "%s: %s: %s", what, ms_result_text(result),
                     err != NULL ? err->message : "");
}

static inline int64_t images_clock(void *ctx)
{
    return SECONDS(++((crash_images *)ctx)->now);
}

static inline void images_entropy(void *ctx, void *out, size_t len)
{
    test_fill(&((crash_images *)ctx)->entropy, out, len);
}

static inline void images_event(void *ctx, const ms_log_event *event)
{
    crash_images *l = (crash_images *)ctx;
    if (event->kind != MS_LOG_DAMAGE && event->kind != MS_LOG_INDEX_DAMAGE) return;
    if (l->damage++ == 0 || event->offset < l->damage_at) l->damage_at = event->offset;
}

static inline ms_log_desc images_desc(crash_images *l, int level, ms_log_mode mode)
{
    ms_log_desc desc = {.path = IMAGES_LOG,
                        .mode = mode,
                        .os = &l->disks[level].os,
                        .segment_size = l->segment,
                        .keep_unset_times = true,
                        .events = {.event = images_event, .ctx = l},
                        .clock = {.now = images_clock, .ctx = l},
                        .entropy = {.fill = images_entropy, .ctx = l}};
    if (mode == MS_LOG_READ) return desc;
    desc.engine = l->engine;
    desc.sync = l->sync;
    desc.sync_bytes = 1500;
    desc.shared = l->shared;
    desc.ticked = l->ticked;
    return desc;
}

static inline ms_store *images_open(crash_images *l, int level, ms_log_mode mode,
                                    const char *when)
{
    ms_store *store;
    ms_error err;
    ms_log_desc desc = images_desc(l, level, mode);
    images_must(l, level, ms_log_open(&store, &desc, &err), &err, when);
    return store;
}

/* Opens a reader. NULL: there is no log, which is allowed while nothing is promised. */
static inline ms_store *images_read(crash_images *l, int level, bool promised)
{
    ms_store *store;
    ms_error err;
    ms_log_desc desc = images_desc(l, level, MS_LOG_READ);
    ms_result result = ms_log_open(&store, &desc, &err);
    if (result == MS_E_NOT_FOUND && !promised) return NULL;
    images_must(l, level, result, &err, "reading");
    return store;
}

/* Checks that a reader has changed nothing. */
static inline void images_is_unchanged(crash_images *l, int level)
{
    const sim_disk *d = &l->disks[level];
    if (d->changes != 0 || d->n_units != l->units[level])
        images_fails(l, level, "a reader has changed the disk");
}

static inline sim_file *images_file(crash_images *l, int level)
{
    return sim_at(&l->disks[level], IMAGES_LOG);
}

/* Is the power lost in a recovery that has synced nothing? */
static inline bool images_recovers(const crash_images *l, int level)
{
    const sim_disk *d = &l->disks[level];
    return level > 0 && d->syncs == 0 && d->n_units > l->units[level];
}

static inline void images_is_idle(crash_images *l, int level)
{
    if (!sim_idle(&l->disks[level])) images_fails(l, level, "something was left open");
}


/* ---- crashes ---- */

/* The power of a disk is lost: looks at images of all states, or, where these are more
 * than `all`, at about `some` and at `random` ones. See sim_cuts_begin. */
static inline void images_cut(crash_images *l, int level, size_t all, size_t some,
                              size_t random)
{
    sim_cuts *c = &l->cuts[level];
    if (level + 1 == IMAGES_LEVELS) return;
    sim_cuts_begin(c, &l->disks[level], all, some, random, test_random(&l->rng));
    bool recovering = images_recovers(l, level);
    while (sim_cuts_next(c, &l->disks[level + 1])) {
        sim_note(&l->images, &l->disks[level + 1]);
        l->units[level + 1] = 0;
        l->deep[level + 1]++;
        l->during[level + 1] += recovering;
        l->recoveries += recovering;
        l->killed = false;
        memcpy(l->lineage[level + 1], l->lineage[level], 16);
        l->stands(l, level + 1);
    }
}

/* The writer is killed, and the machine goes on: looks at what the next one finds. */
static inline void images_kill(crash_images *l, int level)
{
    sim_cuts *c = &l->cuts[level];
    sim_kill(&l->disks[level], &l->disks[level + 1]);
    l->units[level + 1] = l->disks[level + 1].n_units;
    snprintf(c->text, sizeof c->text, "a kill");
    l->killed = true;
    memcpy(l->lineage[level + 1], l->lineage[level], 16);
    l->stands(l, level + 1);
}

/* The power of a disk is lost. One time in six a copy of it is checked before, as it is
 * after a kill: another writer recovers in the same boot, and the power is lost then. */
static inline void images_lose(crash_images *l, int level)
{
    if (level + 1 == IMAGES_LEVELS) return;
    if (images_one_in(l, 6)) {
        l->kills++;
        images_kill(l, level);
    }
    if (level == 0) images_cut(l, 0, l->all, l->some, l->random);
    else images_cut(l, level, 4, 2, 1);
}

/* Called before a call changes the disk. */
static inline void images_moment(void *ctx, sim_disk *d, sim_call call)
{
    crash_images *l = (crash_images *)ctx;
    int level = (int)(d - l->disks);
    uint64_t n = l->one_in[level];
    if (call == SIM_AT_WRITE && level == 0) n *= 4;
    if (n != 0 && images_one_in(l, n)) images_lose(l, level);
}

/* From now on the power is lost before one call of so many that change the disk; at
 * level 0 before a write four times as rarely. */
static inline void images_watch(crash_images *l, int level, uint64_t one_in)
{
    l->one_in[level] = one_in;
    l->disks[level].moment = images_moment;
    l->disks[level].ctx = l;
}


/* ---- a store beside its sequence ---- */

/* Every file has the lineage of the one before, unless it was created where nothing
 * durable was. */
static inline void images_lineage(crash_images *l, int level, const ms_log_info *info)
{
    static const unsigned char none[16];
    if (memcmp(info->id, none, 16) == 0) return; /* an empty file */
    unsigned char *lineage = l->lineage[level];
    if (memcmp(info->lineage, lineage, 16) == 0) return;
    if (l->durable[level] > 0 && memcmp(lineage, none, 16) != 0)
        images_fails(l, level, "another lineage");
    if (memcmp(info->lineage, info->id, 16) != 0)
        images_fails(l, level, "a new file has a lineage");
    memcpy(lineage, info->id, 16);
}

static inline ms_log_info images_info(crash_images *l, int level, ms_store *store)
{
    ms_log_info info;
    ms_error err;
    images_must(l, level, ms_log_stat(store, &info, &err), &err, "stat");
    images_lineage(l, level, &info);
    return info;
}

/* Does the next step of the sequence. */
static inline void images_step(crash_images *l, int level, ms_store *store)
{
    ms_error err;
    change_sequence *d = &l->d[level];
    if (d->steps + 1 >= IMAGES_STEPS) abort();
    l->begun[level] = d->steps + 1;
    l->redacting[level] = sequence_change(d).what == DO_REDACT;
    images_must(l, level, sequence_step(d, store, &err), &err, "a step");
    l->redacting[level] = false;
    if (l->sync == MS_SYNC_EACH || d->redacting) l->durable[level] = d->steps;
    if (store != NULL) l->ends[level][d->steps] = images_info(l, level, store).end;
}

static inline void images_sync(crash_images *l, int level, ms_store *store)
{
    ms_error err;
    uint64_t seq = 0;
    const store_model *h = &l->d[level].h;
    int i = h->count;
    images_must(l, level, ms_sync(store, &seq, &err), &err, "sync");
    while (i > 0 && h->items[i - 1].hidden) i--; /* those may be left out */
    if (i > 0 && seq < h->items[i - 1].seq)
        images_fails(l, level, "sync: durable up to %llu", (unsigned long long)seq);
    l->durable[level] = l->d[level].steps;
}

/* What the store reports as durable has to be. */
static inline void images_claims(crash_images *l, int level, ms_store *store)
{
    ms_log_info info = images_info(l, level, store);
    int n = l->d[level].steps;
    if (info.lost_end != 0 || info.damaged != 0)
        images_fails(l, level, "the handle counts damage");
    l->indexed += level > 0 && info.segments > 0;
    while (n > l->durable[level] && l->ends[level][n] > info.durable_end) n--;
    l->durable[level] = n;
}

/* The steps so far are in a file that ends there. */
static inline void images_ends_at(crash_images *l, int level, uint64_t end)
{
    for (int i = 0; i <= l->d[level].steps; i++) l->ends[level][i] = end;
}

/* A handle from before sees everything that has returned. */
static inline void images_refresh(crash_images *l, int level, ms_store *store)
{
    ms_error err;
    images_must(l, level, test_refresh(store, NULL, &err), &err, "refresh");
    const char *what = sequence_differs(&l->d[level], store);
    if (what != NULL) images_fails(l, level, "another handle does not see all: %s", what);
}

/* A message with a key is known: appended again it has its number, and another content is
 * refused. */
static inline void images_key(crash_images *l, int level, ms_store *store, const item *e)
{
    char text[MODEL_TEXT];
    uint64_t seq = 0;
    ms_error err;
    ms_envelope m = model_message(e, text);
    ms_str place = model_place(e->place);
    images_must(l, level, ms_append(store, place, &m, &seq, &err), &err, "a key again");
    if (seq != e->seq) images_fails(l, level, "a key has another sequence number");
    m.content = ms_text("other");
    if (ms_append(store, place, &m, NULL, NULL) != MS_E_KEY_REUSED)
        images_fails(l, level, "a key was forgotten");
}

/* The keys of the newest messages, and of others. */
static inline void images_keys(crash_images *l, int level, ms_store *store)
{
    store_model *h = &l->d[level].h;
    images_must(l, level, model_learn(h, store), NULL, "learning the numbers");
    for (int i = 0; i < 12 && i < h->count; i++) {
        int any = (int)test_below(&l->rng, (uint64_t)h->count);
        const item *e = &h->items[i < 6 ? h->count - 1 - i : any];
        bool plain = !e->hidden && !e->redacted && !e->amended && !e->unfinished;
        if (plain && e->key == 3 && e->place < MODEL_PLACES)
            images_key(l, level, store, e);
    }
}

/* Begins a sequence with an empty disk; plan: its steps, given one by one, or NULL. */
static inline void images_empty(crash_images *l, const change *plan)
{
    sim_clear(&l->disks[0]);
    l->disks[0].stale = l->stale;
    l->damage = 0;
    l->begun[0] = l->durable[0] = 0;
    l->redacting[0] = false;
    l->inode[0] = 0;
    sequence_begin(&l->d[0], test_random(&l->rng));
    l->d[0].plan = plan;
}


/* ---- one image ---- */

/* Does the file hold what was erased? */
static inline bool images_leaks(crash_images *l, int level)
{
    const sim_file *f = images_file(l, level);
    if (f == NULL) return false;
    memcpy(l->bytes, f->ro, (size_t)f->size);
    return sequence_leaks_in(&l->d[level], l->bytes, (size_t)f->size);
}

/* Finds the steps that a handle of an image shows; they are its disk's sequence then. */
static inline void images_find(crash_images *l, int level, ms_store *store, bool writing,
                               sequence_crash *is)
{
    const char *who = writing ? "recovering" : "reading";
    sequence_find(&l->d[level - 1], store, writing, is, &l->d[level]);
    if (is->wrong != NULL)
        images_fails(l, level, "%s, %d to %d steps: %s", who, is->least, is->most,
                     is->wrong);
    if (!is->leaky && images_leaks(l, level))
        images_fails(l, level, "%s: what was erased is there", who);
    if (l->damage != 0) images_fails(l, level, "%s: damage was reported", who);
}

static inline void images_verify(crash_images *l, int level)
{
    ms_error err;
    ms_log_report report;
    ms_log_desc desc = images_desc(l, level, MS_LOG_READ);
    images_must(l, level, ms_log_verify(&desc, &report, &err), &err, "verify");
    l->torn += report.torn_bytes != 0;
}

/* Returns whether a unit is the second page, to which the fixed part of the first one was
 * written again. */
static inline bool images_is_copy(const sim_disk *d, const sim_unit *u)
{
    const unsigned char *first = d->files[u->file].ro, *copy = d->bytes + u->bytes;
    return u->page == 1 && u->changed == 1 && memcmp(first, copy, FILE_FIXED) == 0;
}

/* Returns whether a unit is room of a shared log: its opening may store the watermark, and
 * make room zero before that. What is before the end has not changed. */
static inline bool images_is_room(const sim_disk *d, const sim_unit *u)
{
    const sim_file *f = &d->files[u->file];
    uint64_t end = file_get64(f->ro + FILE_AT_WATERMARK);
    size_t at = (size_t)u->page * SIM_PAGE, i = 0;
    if (u->kind != SIM_DATA) return u->kind == SIM_SIZE;
    for (; i < SIM_PAGE && at + i < end; i++)
        if (d->bytes[u->bytes + i] != f->base[at + i]) return false;
    for (; i < SIM_PAGE; i++)
        if (d->bytes[u->bytes + i] != 0) return false;
    return true;
}

/* Opening for writing has changed nothing but the first page, and mended its copy. */
static inline void images_wrote_no_record(crash_images *l, int level)
{
    sim_disk *d = &l->disks[level];
    sim_look(d);
    for (int i = l->units[level]; i < d->n_units; i++) {
        const sim_unit *u = &d->units[i];
        bool first = u->kind == SIM_DATA && (u->page == 0 || images_is_copy(d, u));
        if (!first && !(l->shared && images_is_room(d, u)))
            images_fails(l, level, "opening has changed page %d (unit of kind %d)",
                         u->page, (int)u->kind);
    }
}

/* Sets up what the image must show. */
static inline void images_promise(crash_images *l, int level, const sequence_crash *is,
                                  bool killed)
{
    const sim_file *f = images_file(l, level);
    if (f != NULL && f->inode < l->inode[level - 1])
        images_fails(l, level, "the file from before a rewrite is back");
    l->inode[level] = l->inode[level - 1];
    l->d[level - 1].file = f != NULL ? f->inode : 1;
    l->begun[level] = is->most;
    l->durable[level] = killed ? l->durable[level - 1] : is->least;
    sequence_replay(&l->d[level - 1], is->least, &l->d[level]);
}

/* Refreshes a reader, which learns once that its file was replaced. */
static inline void images_refresh_reader(crash_images *l, int level, ms_store *reader,
                                         bool *told)
{
    bool learns = !*told && images_info(l, level, reader).replaced;
    *told = *told || learns;
    if (learns && test_refresh(reader, NULL, NULL) != MS_E_CONFLICT)
        images_fails(l, level, "a reader does not learn that its file was replaced");
    images_refresh(l, level, reader);
}

/* Finds the steps that a reader shows. Returns it; NULL: there is no log. */
static inline ms_store *images_look(crash_images *l, int level, sequence_crash *is)
{
    ms_store *reader = images_read(l, level, is->least > 0);
    if (reader != NULL) images_find(l, level, reader, false, is);
    images_is_unchanged(l, level);
    if (reader == NULL) return NULL;
    l->lost += is->found < is->most;
    if (!is->redacting) is->least = is->most = is->found; /* they agree */
    if (images_one_in(l, 8)) images_verify(l, level);
    return reader;
}

/* A disk that leaves garbage in a sector has damaged it: the log cannot know that what was
 * there had never been synced, and valid messages may follow. Then the damage is reported,
 * nothing durable is part of it, and a writer goes on. Returns whether that is so here. */
static inline bool images_garbage(crash_images *l, int level, bool promised)
{
    ms_error err;
    ms_log_desc desc = images_desc(l, level, MS_LOG_READ);
    if (l->killed || l->cuts[level - 1].garbage < 0) return false;
    ms_store *reader = images_read(l, level, promised);
    bool reported = reader != NULL && l->damage != 0;
    if (reported && l->damage_at < images_info(l, level, reader).durable_end)
        images_fails(l, level, "garbage hides durable bytes");
    ms_close(reader);
    images_is_unchanged(l, level);
    l->damage = 0;
    if (!reported) return false;
    if (ms_log_verify(&desc, NULL, &err) != MS_E_DAMAGED)
        images_fails(l, level, "verify: garbage is not reported");
    ms_store *writer = images_open(l, level, MS_LOG_WRITE, "a writer after garbage");
    ms_envelope m = ms_user_message(ms_text("on"));
    images_must(l, level, ms_append(writer, MS_STR("on"), &m, NULL, &err), &err,
                "an append");
    ms_close(writer);
    l->garbage++;
    return true;
}

/* Checks an image. After a redaction that had not returned it does not go on, since the
 * sequence of the next disk does not know what that has erased. */
static inline void images_stands(crash_images *l, int level)
{
    ms_error err;
    bool killed = l->killed;
    sequence_crash is = {killed ? l->d[level - 1].steps : l->durable[level - 1],
                         l->begun[level - 1], l->redacting[level - 1], 0, false, NULL};
    bool fit = !is.redacting && level + 1 < IMAGES_LEVELS;
    uint64_t file = l->d[level - 1].file;
    bool told = false;
    l->damage = 0;
    images_promise(l, level, &is, killed);
    if (images_garbage(l, level, is.least > 0)) {
        l->d[level - 1].file = file;
        return;
    }
    ms_store *reader = images_look(l, level, &is);
    images_watch(l, level, fit ? l->within : 0);
    ms_store *store = images_open(l, level, MS_LOG_CREATE, "recovering");
    if (reader != NULL && is.found > 0) images_wrote_no_record(l, level);
    images_find(l, level, store, true, &is);
    if (!killed) l->durable[level] = l->d[level].steps; /* what was read once stays */
    images_ends_at(l, level, images_info(l, level, store).end);
    images_claims(l, level, store);
    if (images_one_in(l, 4)) images_must(l, level, ms_selfcheck(store, &err), &err,
                                         "selfcheck");
    if (!is.redacting && images_one_in(l, 10)) images_keys(l, level, store);
    if (fit && l->goes_on != NULL) l->goes_on(l, level, store);
    l->one_in[level] = 0;
    if (fit && reader != NULL) images_refresh_reader(l, level, reader, &told);
    ms_close(reader);
    ms_close(store);
    images_is_idle(l, level);
    l->d[level - 1].file = file;
}

/* The log is rewritten now, to a file of that inode or a later one. */
static inline void images_rewritten(crash_images *l, int level, uint64_t inode)
{
    l->d[level].file = 0;
    sequence_rewritten(&l->d[level], inode);
}

/* Returns whether a recovered log may go on, and makes its sequence ready for that. The
 * bytes of a step that had not returned may come back until they are zeroed: then the log goes
 * on only with a step of the same kind. */
static inline bool images_may_go_on(crash_images *l, int level)
{
    change_sequence *d = &l->d[level];
    if (d->n_lost + 2 >= SEQUENCE_LOST || d->n_rewrites + 2 >= SEQUENCE_LOST)
        return false;
    if (d->h.count + 200 > SEQUENCE_MOST || d->steps + 10 >= IMAGES_STEPS) return false;
    change_kind next = sequence_change(d).what;
    sequence_writer_gone(d);
    return l->begun[level] == d->steps || sequence_change(d).what == next;
}


/* ---- all of it ---- */

/* The blocks of this log may turn up in the next one. */
static inline void images_leave_stale(crash_images *l)
{
    const sim_file *f = images_file(l, 0);
    if (f != NULL && f->size >= 8 * SIM_PAGE) memcpy(l->stale, f->ro, SIM_ROOM);
}

static inline void images_begin(crash_images *l,
                                void (*stands)(crash_images *l, int level))
{
    for (int i = 0; i < IMAGES_LEVELS; i++) sim_init(&l->disks[i]);
    l->stands = stands;
    l->rng = test_seed();
    l->entropy = test_seed() + 1000;
    l->segment = MS_LOG_SEGMENT_MIN;
    l->stale = (unsigned char *)calloc(1, SIM_ROOM);
    l->bytes = (unsigned char *)malloc(SIM_ROOM);
    if (l->stale == NULL || l->bytes == NULL) abort();
    if (images_one_in(l, 2)) /* then the whole file is synced instead */
        for (int i = 0; i < IMAGES_LEVELS; i++) l->disks[i].os.write_synced = NULL;
}

static inline void images_end(crash_images *l)
{
    for (int i = 0; i < IMAGES_LEVELS; i++) {
        sim_deinit(&l->disks[i]);
        sim_cuts_free(&l->cuts[i]);
    }
    sim_images_free(&l->images);
    free(l->stale);
    free(l->bytes);
}

static inline void images_tally(const crash_images *l)
{
    test_tally("power-cut images", l->images.all);
    test_tally("of them with a torn sector of garbage, reported", l->garbage);
    test_tally("power-cut images, no two the same", l->images.count);
    test_tally("crashes during recovery", l->recoveries);
    test_tally("simulated kills", l->kills);
}

#endif /* CRASH_IMAGES_H */
