/* Calls that fail: operations of a store, and loops that let each of their calls fail.
 *
 * A table lists the operations. The script performs them in order, on a new log or arena
 * store, from opening to closing. Beside it, each operation runs alone on a handle that
 * has just opened an image: a log of one of six shapes, opened in one of five ways.
 * Everything runs once without trouble; what the store shows after each operation is
 * what it has to show in all other runs. In those the n-th call, or the n-th allocation, of
 * each operation fails, alone or with all after it (a row of `modes`):
 *
 *   - an operation that fails returns a code that fits, a sentence, errno and the path;
 *   - the store then shows what it showed before that operation, to this handle and to
 *     another process, and no record is damaged. After a failed sync it shows what was
 *     there before or after. Operations of several appends show those that were made;
 *   - when the trouble is over the operation works, on the same handle or a new one;
 *   - an interrupted read, write, allocation, sync or lock is called again, a short
 *     write is completed;
 *   - only a failed sync poisons the handle, which then refuses appends and syncs;
 *   - at the end no file, map or block is left, and no file in the folder.
 *
 * Define _GNU_SOURCE and MSGSTORE_IMPLEMENTATION, and include msgstore.h, before it.
 */

#ifndef FAULT_H
#define FAULT_H

#include "fault_steps.h"

static const int errors[] = {EIO,    ENOSPC, EDQUOT, EROFS, EAGAIN, EMFILE,    ENFILE,
                             ENOMEM, EACCES, EFBIG,  EBADF, EINVAL, EOPNOTSUPP, EINTR};
enum { ERRORS = (int)(sizeof errors / sizeof errors[0]), LASTING = ERRORS - 1 };

/* Calls that are made again when they were interrupted. The others fail with EINTR. */
enum {
    REPEATED = OS_FAULT_BIT(READ) | OS_FAULT_BIT(WRITE) | OS_FAULT_BIT(ALLOCATE) |
               OS_FAULT_BIT(SYNC) | OS_FAULT_BIT(LOCK) | OS_FAULT_BIT(SYNC_FOLDER)
};

static uint64_t file_faults, memory_faults;


/* ---- after trouble ---- */

/* Opens a handle as another process would, without faults. NULL: there is no file. */
static ms_store *open_beside(world *w, ms_log_mode mode)
{
    ms_log_desc desc = desc_of(w, w->path);
    ms_store *store;
    ms_error err;
    memset(&desc.alloc, 0, sizeof desc.alloc);
    desc.os = &w->base;
    desc.mode = mode;
    desc.opening = MS_OPEN_NORMAL;
    desc.shared = mode != MS_LOG_READ;
    if (ms_log_open(&store, &desc, &err) == MS_E_NOT_FOUND) return NULL;
    if (store == NULL) fail_msg("%s, then a handle beside: %s", w->when, err.message);
    return store;
}

static void text_must_be(world *w, ms_store *store, text *out, const char *of)
{
    ms_error err;
    if (text_of(out, store, NULL, &err) != MS_OK)
        fail_msg("%s, then %s reads: %s", w->when, of, err.message);
}

/* Reads the file as another process does; an arena store by this handle. */
static void text_at_path(world *w, text *out)
{
    ms_store *reader = w->how.mem ? w->log : open_beside(w, MS_LOG_READ);
    if (reader == NULL) text_of_none(out);
    else text_must_be(w, reader, out, "a reader");
    if (!w->how.mem) ms_close(reader);
}

static void describe(world *w, const struct step *s)
{
    snprintf(w->when, sizeof w->when,
             "%s (%zu) with errno %d at call %llu%s (%s), or allocation %zu%s, or an "
             "arena of %zu", s->name, w->repeat, w->t.code, (unsigned long long)w->t.at,
             w->t.from ? " on" : "", os_fault_word((int)w->t.last_hit), w->heap.fail_at,
             w->heap.fail_from ? " on" : "", w->arena_size);
}

/* Returns whether the handle still has the lock because unlocking failed. */
static bool is_locked_in(const world *w)
{
    return (w->t.all_hit & OS_FAULT_BIT(UNLOCK)) != 0;
}

/* Checks that the code fits the fault, and that the error has the operation, the place
 * and errno. */
static void must_explain(world *w, ms_result result, const ms_error *err)
{
    int code = w->t.code;
    bool memory = w->heap.failed != 0 || w->arena_size != 0, fits = false;
    if (err->code != result || err->message[0] == '\0')
        fail_msg("%s: %s without a sentence", w->when, ms_result_text(result));
    if (result == MS_E_NO_MEMORY || result == MS_E_ARENA) fits = memory || code == ENOMEM;
    if (result == MS_E_ARGUMENT) fits = w->arena_size == NO_ARENA;
    if (result == MS_E_FULL)
        fits = code == ENOSPC || code == EDQUOT || code == EFBIG || code == ENOMEM;
    if (result == MS_E_BUSY) fits = code == EAGAIN || is_locked_in(w);
    if (result == MS_E_UNSUPPORTED) fits = w->t.hits != 0;
    if (result == MS_E_READ_ONLY) fits = code == EROFS || code == EACCES;
    if (result == MS_E_IO || result == MS_E_POISONED)
        fits = err->sys_errno == code || err->sys_errno == EIO;
    if (!fits) fail_msg("%s: %s: %s", w->when, ms_result_text(result), err->message);
    bool named = strstr(err->message, "log.msl") != NULL ||
                 strstr(err->message, "other.msl") != NULL;
    if (result == MS_E_IO && !named) fail_msg("%s: no path: %s", w->when, err->message);
}

static bool is_poisoned(world *w)
{
    ms_log_info info;
    return !w->how.mem && w->log != NULL && ms_log_stat(w->log, &info, NULL) == MS_OK &&
           info.poisoned;
}

/* Checks that appends and syncs are refused, and reading works. A sync must have failed,
 * or the write of a checkpoint. */
static void must_be_poisoned(world *w, ms_result result)
{
    static text now;
    ms_envelope m = ms_user_message(ms_text("refused"));
    unsigned of_sync = OS_FAULT_BIT(SYNC) | OS_FAULT_BIT(SYNC_FOLDER);
    bool checkpoint = w->t.last_hit == CALL_WRITE && result == MS_E_POISONED;
    if (!w->t.from && !checkpoint && !(w->t.all_hit & of_sync))
        fail_msg("%s: it is poisoned, and no sync has failed", w->when);
    if (ms_append(w->log, MS_STR("job"), &m, NULL, NULL) != MS_E_POISONED)
        fail_msg("%s, then an append is not refused", w->when);
    if (ms_sync(w->log, NULL, NULL) != MS_E_POISONED)
        fail_msg("%s, then a sync is not refused", w->when);
    text_must_be(w, w->log, &now, "the poisoned handle");
}

static void reopen(world *w)
{
    ms_error err;
    if (w->log != NULL) do_close(w, NULL);
    if (do_open(w, &err) != MS_OK) fail_msg("%s, then open: %s", w->when, err.message);
}

/* What is shown now: before the step, after it, or (by parts) in between. Returns whether
 * the step has been done. */
static bool must_look(world *w, const text *now, const text *before, const text *after,
                      failing leaves)
{
    bool same = text_equal(now, before), done = text_equal(now, after);
    if (same) return false;
    if (done && leaves != NOTHING) return true;
    if (leaves == BY_PARTS && text_between(now, before, after)) return false;
    text_fail(w->when, done ? "what failed is done" : "something else is shown", now,
              before, after);
    return false;
}

static ino_t inode_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_ino : 0;
}

/* Has the step put a new file in the place of a shared writer's? */
static bool is_stale(const world *w, const struct step *s)
{
    return s->run == do_compact && w->how.shared && inode_of(w->path) != w->inode;
}

/* This handle shows the same as a reader that has just come; a file that another one was
 * put in the place of stays as it was. A shared writer is told of that, once. */
static void handle_must_show(world *w, const struct step *s, const text *at_path,
                             const text *before)
{
    static text now;
    if (w->log == NULL) return;
    if (is_stale(w, s) && text_of(&now, w->log, NULL, NULL) != MS_E_CONFLICT)
        fail_msg("%s, then this handle is not told that its file was replaced", w->when);
    text_must_be(w, w->log, &now, "this handle");
    const text *want = s->run == do_compact ? before : at_path;
    if (!text_equal(&now, want))
        text_fail(w->when, "this handle shows something else", &now, want, want);
}

/* Whatever failed, no record is damaged. */
static void must_be_whole(world *w)
{
    ms_log_desc desc = desc_of(w, w->path);
    ms_log_report report;
    ms_error err;
    ms_result result = w->how.mem ? ms_selfcheck(w->log, &err)
                              : ms_log_verify(&desc, &report, &err);
    bool was = result == MS_E_DAMAGED && w->damaged;
    if (result != MS_OK && result != MS_E_NOT_FOUND && !was)
        fail_msg("%s, then verify: %s", w->when, err.message);
}

/* Checks the store after a failed step. True: the step's effect is visible all the
 * same. */
static bool after_failure(world *w, const struct step *s, ms_result result,
                          const text *before, const text *after)
{
    static text now;
    bool poisoned = is_poisoned(w);
    failing leaves = poisoned && s->leaves == NOTHING ? ALL_OR_NOTHING : s->leaves;
    if (w->how.mem && w->log == NULL) return false;
    if (poisoned) must_be_poisoned(w, result);
    text_at_path(w, &now);
    bool done = must_look(w, &now, before, after, leaves);
    handle_must_show(w, s, &now, before);
    must_be_whole(w);
    bool stale = w->log != NULL && is_stale(w, s);
    if (stale && step_call(w, s, NULL) != MS_E_CONFLICT)
        fail_msg("%s, then the old file is written over the new one", w->when);
    bool anew = poisoned || stale || is_locked_in(w) || w->t.calls % 2 == 0;
    if (!anew || w->how.mem || w->log == NULL) return done;
    reopen(w);
    text_must_be(w, w->log, &now, "a new handle");
    return must_look(w, &now, before, after, leaves);
}

/* The stream writes the message of that name; opened again if its writer is gone. */
static void stream_goes_on(world *w)
{
    ms_stream *stream = stream_of(w);
    memset(stream, 0, sizeof *stream);
    stream->store = w->log;
    stream->seq = seq_of(w, "w");
    stream->most = UINT64_MAX;
    stream->opts.every_part = true;
    stream->opts.clock = clock_at(&test_now);
}

/* Corrects the stream after a step that failed and is visible all the same. */
static void stream_follows(world *w, const struct step *s)
{
    if (step_says(s, "begin")) stream_goes_on(w);
    if (step_says(s, "end")) memset(stream_of(w), 0, sizeof(ms_stream));
}

static uint64_t faults_of(const world *w)
{
    return w->t.hits + w->heap.failed + (w->arena_size != 0);
}

static void run_step(world *w, const struct step *s, const text *before,
                     const text *after)
{
    ms_error err;
    memset(&err, 0, sizeof err);
    uint64_t faults = w->t.hits + w->heap.failed;
    w->inode = inode_of(w->path);
    ms_result result = step_call(w, s, &err);
    if (w->learning && result != MS_OK)
        fail_msg("%s (%s): %s", s->name, w->when, err.message);
    if (result == MS_OK) return;
    describe(w, s);
    if (faults_of(w) == faults && !is_locked_in(w))
        fail_msg("%s: without a fault: %s", w->when, err.message);
    bool again = w->t.code == EINTR && (REPEATED >> (unsigned)w->t.last_hit & 1);
    if (w->t.hits != 0 && (again || w->t.how == OS_FAULT_SHORT))
        fail_msg("%s: the call is not repeated: %s", w->when, err.message);
    must_explain(w, result, &err);
    if (w->t.from || w->heap.fail_from) /* it stays as it is */
        for (int i = 0; i < 2 && result != MS_OK; i++) result = step_call(w, s, &err);
    world_quiet(w);
    if (result == MS_OK && !is_poisoned(w)) return;
    bool done = after_failure(w, s, result, before, after);
    if (done) stream_follows(w, s);
    for (int i = 0; !done && i < 2 && result != MS_OK; i++)
        result = step_call(w, s, &err);
    if (!done && result != MS_OK) fail_msg("%s, then again: %s", w->when, err.message);
}


/* ---- the script ---- */

static text *text_for(world *w, size_t i)
{
    if (i >= STEPS_MOST) abort();
    if (w->after[i] == NULL) w->after[i] = (text *)calloc(1, sizeof(text));
    if (w->after[i] == NULL) abort();
    return w->after[i];
}

/* Checks that all files, maps and blocks are freed. */
static void must_be_idle(world *w)
{
    if (w->t.files != 0 || w->t.maps != 0)
        fail_msg("%s: %d files and %d maps are left open", w->when, w->t.files,
                 w->t.maps);
    test_alloc_done(&w->heap);
}

static void world_end(world *w)
{
    static text now;
    world_quiet(w);
    if (!w->learning && !w->how.mem) {
        text_at_path(w, &now);
        const text *want = w->after[w->step];
        if (!text_equal(&now, want))
            text_fail(w->when, "at the end it shows something else", &now, want, want);
    }
    must_be_idle(w);
    size_t files = w->how.mem ? 1 : 2;
    char torn[600];
    struct stat there;
    snprintf(torn, sizeof torn, "%s.torn", w->path); /* whole messages that were dead */
    if (!w->how.mem && stat(torn, &there) == 0) files++;
    if (!w->leftover && files_in(w->folder) != files)
        fail_msg("%s: %zu files are in the folder", w->when, files_in(w->folder));
    scratch_empty(w->folder);
}

static void world_reset(world *w)
{
    os_fault_init(&w->t, &w->base);
    test_alloc_init(&w->heap);
    snprintf(w->when, sizeof w->when, "without a fault");
}

static world *world_new(const config *c)
{
    world *w = (world *)calloc(1, sizeof *w);
    if (w == NULL) abort();
    w->base = os_without_sync();
    w->base.boot = boot_of;
    w->folder = scratch_folder();
    w->path = scratch_file(w->folder, "log.msl");
    w->other = scratch_file(w->folder, "other.msl");
    w->how = *c;
    w->segment = MS_LOG_SEGMENT_MIN;
    world_reset(w);
    return w;
}

static void world_free(world *w)
{
    for (size_t i = 0; i < STEPS_MOST; i++) free(w->after[i]);
    scratch_remove(w->folder);
    free(w->folder);
    free(w->path);
    free(w->other);
    free(w);
}


/* ---- kinds of trouble ---- */

typedef struct mode {
    const char *name;
    bool memory;
    os_fault_how how;
    unsigned kinds;
    bool from;                /* the n-th and all after it */
    int code;                 /* 0: one error after the other */
} mode;

enum { PARTLY = OS_FAULT_BIT(READ) | OS_FAULT_BIT(WRITE),
       SYNCS = OS_FAULT_BIT(SYNC) | OS_FAULT_BIT(SYNC_FOLDER),
       NOT_REPEATED = OS_FAULT_ALL & ~(unsigned)REPEATED };

static const mode modes[] = {
    {"an allocation fails", true, OS_FAULT_NONE, 0, false, 0},
    {"all allocations fail from one on", true, OS_FAULT_NONE, 0, true, 0},
    {"a call fails", false, OS_FAULT_FAIL, OS_FAULT_ALL, false, 0},
    {"all calls fail from one on", false, OS_FAULT_FAIL, OS_FAULT_ALL, true, 0},
    {"a call is interrupted", false, OS_FAULT_FAIL, OS_FAULT_ALL, false, EINTR},
    {"calls are interrupted from one on", false, OS_FAULT_FAIL, NOT_REPEATED, true,
     EINTR},
    {"a read or write is short", false, OS_FAULT_SHORT, PARTLY, false, 0},
    {"reads and writes are short from one on", false, OS_FAULT_SHORT, PARTLY, true, 0},
    {"a write stops midway", false, OS_FAULT_FAIL_HALF, OS_FAULT_BIT(WRITE), false, 0},
    {"writes stop midway from one on", false, OS_FAULT_FAIL_HALF, OS_FAULT_BIT(WRITE),
     true, 0},
    {"a sync fails", false, OS_FAULT_FAIL, SYNCS, false, EIO},
    {"all syncs fail from one on", false, OS_FAULT_FAIL, SYNCS, true, EIO},
};
enum { MODES = (int)(sizeof modes / sizeof modes[0]) };

/* The bytes that a short write or read transfers. */
static const size_t parts[] = {1, 7, 40, 100, 520, 4160};
enum { BYTES = (int)(sizeof parts / sizeof parts[0]) };

/* Arms a fault in the n-th call of that kind from now on; `pick` chooses the error. */
static void arm(world *w, const mode *m, size_t n, uint64_t pick)
{
    w->heap.calls = w->heap.failed = 0;
    w->heap.fail_at = m->memory ? n : 0;
    w->heap.fail_from = m->memory && m->from;
    w->t.calls = w->t.hits = 0;
    w->t.at = m->memory ? 0 : n;
    w->t.from = !m->memory && m->from;
    w->t.how = m->how;
    w->t.kinds = m->kinds;
    w->t.bytes = parts[pick % BYTES];
    w->t.code = m->code ? m->code : errors[pick % (uint64_t)(m->from ? LASTING : ERRORS)];
    if (m->how != OS_FAULT_FAIL_HALF) return;
    w->t.bytes = (w->t.bytes + 7) & ~(size_t)7; /* words are never torn */
    if (w->t.code == EINTR) w->t.code = EIO;
}

static uint64_t random_pick(size_t n)
{
    uint64_t rng = test_seed() + n;
    return test_random(&rng);
}

/* Returns whether a fault that began in an earlier step lasts. */
static bool trouble_lasts(const world *w)
{
    return (w->t.from && w->t.at != 0 && w->t.hits != 0) ||
           (w->heap.fail_from && w->heap.fail_at != 0 && w->heap.failed != 0);
}

/* Runs the script with a fault in the n-th call of each step; m NULL: without faults.
 * Returns the number of steps in which a call failed. */
static size_t run_script(world *w, const mode *m, size_t n, uint64_t pick)
{
    size_t count = 0, failed = 0;
    memset(stream_of(w), 0, sizeof(ms_stream));
    w->log = NULL;
    text *before = text_for(w, count++);
    text_of_none(before);
    for (size_t i = 0; i < n_steps; i++)
        for (w->repeat = 0; w->repeat < steps[i].times; w->repeat++) {
            if (!(steps[i].on & (w->how.mem ? ON_MEM : ON_LOG))) continue;
            text *after = text_for(w, count);
            w->step = count++;
            if (m != NULL && !trouble_lasts(w)) arm(w, m, n, pick + count);
            run_step(w, &steps[i], before, after);
            failed += w->t.hits + w->heap.failed != 0;
            if (w->t.hits != 0 && (w->t.from || w->t.last_hit == CALL_REMOVE))
                w->leftover = true;
            if (w->learning && w->log == NULL && w->how.mem) text_copy(after, before);
            else if (w->learning) text_at_path(w, after);
            before = after;
        }
    world_end(w);
    return failed;
}

static void count_faults(const mode *m, size_t n)
{
    if (m->memory) memory_faults += n;
    else file_faults += n;
}

/* Runs the script for n = 1, 2, ... until no step has n calls. From MS_TEST_SCALE=1000 on
 * with every error, below 100 with one call in eleven. */
static void script_fails(world *w, const mode *m)
{
    size_t stride = test_scale() >= 100 ? 1 : 11, each = 1, failed;
    bool all = test_scale() >= 1000 && !m->memory && m->code == 0;
    if (all) each = m->how != OS_FAULT_FAIL ? BYTES : m->from ? LASTING : ERRORS;
    for (size_t i = 0; i < each; i++) {
        size_t n = 1 + test_seed() % stride;
        do {
            world_reset(w);
            failed = run_script(w, m, n, all ? i : random_pick(n));
            count_faults(m, failed);
            n += stride;
        } while (failed != 0);
    }
}


/* ---- images ---- */

/* Few records; changes of every kind; two summaries, and a tail without what is asked
 * for; with a damaged segment index; with a damaged summary; a summary is due. */
typedef enum shape { SMALL, RICH, TALL, NO_SEGMENT, NO_SUMMARY, DUE, SHAPES } shape;

static struct image {
    unsigned char *bytes;
    size_t size;
    script_name names[SCRIPT_NAMES];
    size_t n_names;
} images[SHAPES];

static void must_do(world *w, ms_result (*run)(world *w, ms_error *err), size_t times)
{
    ms_error err;
    for (w->repeat = 0; w->repeat < times; w->repeat++)
        if (call(w, run, &err) != MS_OK) fail_msg("an image: %s", err.message);
}

/* Makes the call of a line of the table. */
static void must_say(world *w, const char *line, size_t times)
{
    const struct step *s = steps;
    while (s < steps + n_steps && !step_says(s, line)) s++;
    if (s == steps + n_steps) abort();
    w->line = s->name;
    must_do(w, do_line, times);
}

/* Changes of every kind, gaps, keys, agents. */
static void make_rich(world *w)
{
    ms_envelope batch[12];
    ms_append_opts opts;
    uint64_t seq = seq_of(w, "second");
    for (int i = 0; i < 12; i++) {
        batch[i] = ms_message(MS_T_REASONING, ms_text("a thought"));
        batch[i].agent_key = MS_STR("worker");
    }
    memset(&opts, 0, sizeof opts);
    opts.location = MS_STR("place_3");
    for (int round = 0; round < 10; round++) {
        w->image = false;
        must_say(w, "append second", 2);
        must_say(w, "amend", 1);
        must_do(w, do_usage, 1);
        assert_int_equal(ms_hide(w->log, seq_of(w, "second") - 1, NULL), MS_OK);
        script_entry(&w->calls, MS_STR("second"))->seq = seq;
        must_say(w, "facts", 1);
        must_do(w, do_new_names, 3);
        assert_int_equal(ms_append_batch(w->log, batch, 12, &opts, NULL), MS_OK);
        if (round == 5) must_say(w, "in place_1 range", 1);
        must_do(w, do_leave_out, 1);
        must_do(w, do_fill, 10);
    }
}

static ms_log_info info_of(const world *w)
{
    ms_log_info info;
    assert_int_equal(ms_log_stat(w->log, &info, NULL), MS_OK);
    return info;
}

static void make_tall(world *w)
{
    ms_envelope m = ms_user_message(ms_text("in the hall"));
    while (info_of(w).summaries < 2) must_do(w, do_fill, 4);
    for (uint64_t had = info_of(w).segments; info_of(w).segments == had;)
        must_do(w, do_fill, 1);
    assert_int_equal(ms_append(w->log, MS_STR("hall"), &m, NULL, NULL), MS_OK);
}

/* Damages the first index record of that type. */
static void damage_index(struct image *image, unsigned char type)
{
    unsigned char *r = image->bytes + FILE_SUPERBLOCK;
    while (r[4] != FILE_KIND_INDEX || r[5] != type) {
        r += file_padded(file_get32(r));
        assert_true(r < image->bytes + image->size);
    }
    r[file_get32(r) - 1] ^= 1;
}

/* Makes an image of the file while its writer lives, as a kill would leave it. */
static void make_image(shape which)
{
    static const config plain = {"", false, MS_LOG_CREATE, MS_OPEN_NORMAL,
                                 MS_ENGINE_AUTO, MS_SYNC_NONE, false};
    world *w = world_new(&plain);
    w->learning = true;
    w->ticked = which == DUE;
    if (which == SMALL) w->segment = 0;
    must_do(w, do_open, 1);
    must_say(w, "append first", 1);
    must_say(w, "append second", 1);
    must_say(w, "append keyed", 1);
    must_do(w, do_batch, 1);
    must_say(w, "begin", 1);
    must_say(w, "feed", 2);
    must_say(w, "note", 1);
    must_say(w, "in task append", 1);
    must_do(w, do_session_store, 1);
    w->line = "in elsewhere append hidden 'a hidden message'";
    must_do(w, do_line, 1);
    w->line = "hide hidden";
    must_do(w, do_line, 1);
    if (which == TALL || which == NO_SUMMARY) make_tall(w);
    if (which == RICH || which == NO_SEGMENT) make_rich(w);
    while (which == DUE && info_of(w).segments < 32) must_do(w, do_fill, 1);
    must_do(w, do_sync, 1);
    struct image *image = &images[which];
    memcpy(image->names, w->calls.names, sizeof image->names);
    image->n_names = w->calls.n_names;
    image->bytes = (unsigned char *)read_file(w->path, &image->size);
    if (image->bytes == NULL) abort();
    if (which == NO_SEGMENT) damage_index(image, FILE_INDEX_SEGMENT);
    if (which == NO_SUMMARY) damage_index(image, FILE_INDEX_SUMMARY);
    ms_close(w->log);
    world_free(w);
}

static int images_make(void **state)
{
    (void)state;
    steps_make();
    for (int which = SMALL; which < SHAPES; which++) make_image((shape)which);
    return 0;
}

static int images_free(void **state)
{
    (void)state;
    for (int which = SMALL; which < SHAPES; which++) free(images[which].bytes);
    return 0;
}

/* The names of an image; its writer is gone. */
static void image_names(world *w, shape which)
{
    const struct image *image = &images[which];
    memcpy(w->calls.names, image->names, sizeof image->names);
    w->calls.n_names = image->n_names;
    for (size_t i = 0; i < image->n_names; i++) w->seq[i] = image->names[i].seq;
    memset(stream_of(w), 0, sizeof(ms_stream));
}

/* Makes the image the log: closed, written in this boot of the machine. */
static void image_load(world *w, shape which)
{
    const struct image *image = &images[which];
    ms_os_stat stat;
    ms_file file;
    if (!write_file(w->path, image->bytes, image->size)) abort();
    if (w->base.open(w->base.ctx, w->path, MS_OS_WRITE, &file) != 0) abort();
    if (w->base.stat(w->base.ctx, file, &stat) != 0) abort();
    unsigned char line[40];
    memcpy(line, image->bytes + FILE_AT_WRITER, sizeof line);
    file_put64(line + 8, stat.device);
    file_put64(line + 16, stat.inode);
    file_put32(line + 36, file_crc(0, line, 36));
    size_t done;
    if (w->base.write(w->base.ctx, file, FILE_AT_WRITER, line, sizeof line, &done) != 0)
        abort();
    w->base.close(w->base.ctx, file);
    image_names(w, which);
    w->damaged = which == NO_SEGMENT || which == NO_SUMMARY;
    w->ticked = which == DUE;
    w->image = true;
    w->log = NULL;
    w->step = 1;
    w->repeat = 0;
}

/* Appends by another handle, which a reading or sharing handle has to take in. */
static void write_beside(world *w)
{
    ms_store *mine = w->log, *other = open_beside(w, MS_LOG_WRITE);
    w->log = other;
    must_do(w, do_fill, 45);
    must_say(w, "in place_1 range", 1);
    must_say(w, "note", 1);
    ms_close(other);
    w->log = mine;
    w->repeat = 0;
}

/* Opens the handle on an image, without faults. */
static void image_begin(world *w, shape which, const struct step *s)
{
    ms_error err;
    world_reset(w);
    image_load(w, which);
    if (s->run == do_open || s->run == do_verify) return;
    if (do_open(w, &err) != MS_OK) fail_msg("image %d: %s", (int)which, err.message);
    if (w->how.mode == MS_LOG_READ || w->how.shared) write_beside(w);
    if (s->run == do_all_ticks) must_do(w, do_fill, 1); /* it has begun to write */
    if (step_says(s, "feed") || step_says(s, "end")) stream_goes_on(w);
}

/* The handle is closed, the file is whole. */
static void image_close(world *w)
{
    ms_envelope m = ms_user_message(ms_text("afterwards"));
    bool writes = w->log != NULL && w->how.mode != MS_LOG_READ;
    if (writes && !is_poisoned(w) && !is_locked_in(w) &&
        ms_append(w->log, MS_STR("job"), &m, NULL, NULL) != MS_OK)
        fail_msg("%s, then an append fails", w->when);
    ms_close(w->log);
    w->log = NULL;
    must_be_whole(w);
    must_be_idle(w);
}

/* After the operation the file is as it should be. */
static void image_end(world *w, const text *after)
{
    static text now;
    world_quiet(w);
    text_at_path(w, &now);
    if (!text_equal(&now, after))
        text_fail(w->when, "at last it shows something else", &now, after, after);
    image_close(w);
}

/* Once without trouble. Returns how many calls the operation makes in which there could
 * be some; m NULL: any. */
static size_t image_learn(world *w, shape which, const struct step *s, const mode *m)
{
    text *before = text_for(w, 0), *after = text_for(w, 1);
    w->learning = true;
    image_begin(w, which, s);
    text_at_path(w, before);
    if (w->how.mode == MS_LOG_READ) text_copy(after, before);
    snprintf(w->when, sizeof w->when, "image %d", (int)which);
    if (m != NULL) arm(w, m, 0, 0);
    run_step(w, s, before, after);
    size_t calls = m != NULL && m->memory ? w->heap.calls : (size_t)w->t.calls;
    text_at_path(w, after);
    image_close(w);
    w->learning = false;
    return calls;
}

/* Each call of the operation in turn, or one in so many. */
static void image_fails(world *w, shape which, const struct step *s, const mode *m)
{
    size_t stride = test_scale() >= 1000 ? 1 : m->memory ? 3 : 11, tried = 0;
    if (test_scale() < 100) stride = 41;
    size_t calls = image_learn(w, which, s, m);
    for (size_t k = 1 + test_seed() % 3; k <= calls; k += stride, tried++) {
        image_begin(w, which, s);
        arm(w, m, k, random_pick(k));
        run_step(w, s, text_for(w, 0), text_for(w, 1));
        image_end(w, text_for(w, 1));
    }
    count_faults(m, tried);
}

static const config ways[] = {
    {"alone", false, MS_LOG_WRITE, MS_OPEN_NORMAL, MS_ENGINE_AUTO, MS_SYNC_NONE, false},
    {"reads", false, MS_LOG_READ, MS_OPEN_NORMAL, MS_ENGINE_AUTO, MS_SYNC_NONE, false},
    {"writes", false, MS_LOG_WRITE, MS_OPEN_NORMAL, MS_ENGINE_WRITE, MS_SYNC_NONE, false},
    {"shared", false, MS_LOG_WRITE, MS_OPEN_NORMAL, MS_ENGINE_AUTO, MS_SYNC_NONE, true},
    {"syncs", false, MS_LOG_WRITE, MS_OPEN_NORMAL, MS_ENGINE_AUTO, MS_SYNC_EACH, false},
    {"strict", false, MS_LOG_READ, MS_OPEN_STRICT, MS_ENGINE_AUTO, MS_SYNC_NONE, false},
    {"salvage", false, MS_LOG_READ, MS_OPEN_SALVAGE, MS_ENGINE_AUTO, MS_SYNC_NONE, false},
};
enum { WAYS = (int)(sizeof ways / sizeof ways[0]), ALONE = 0, READING = 1, STRICT = 5 };

/* The rich log in each way, the others alone and read; openings for strictness and
 * salvage. Below MS_TEST_SCALE=1000 one in three, below 100 one in seven. */
static bool is_tried(shape which, int way, const struct step *s, size_t number)
{
    bool damaged = which == NO_SEGMENT || which == NO_SUMMARY;
    if (!(s->on & (ways[way].mode == MS_LOG_READ ? ON_READER : ON_WRITER))) return false;
    if (way >= STRICT && (s->run != do_open || (way == STRICT && damaged))) return false;
    if (which != RICH && way != ALONE && way < READING) return false;
    if (which != RICH && way > READING && way < STRICT) return false;
    size_t one_in = test_scale() >= 1000 ? 1 : test_scale() >= 100 ? 3 : 7;
    return (number + (size_t)which + (size_t)way) % one_in == 0;
}

static void images_fail(const mode *m)
{
    for (int way = 0; way < WAYS; way++) {
        world *w = world_new(&ways[way]);
        for (int which = SMALL; which < SHAPES; which++)
            for (size_t i = 0; i < n_steps; i++)
                if (is_tried((shape)which, way, &steps[i], i))
                    image_fails(w, (shape)which, &steps[i], m);
        world_free(w);
    }
}


/* ---- tests by the rows of these tables ---- */

static const config configs[] = {
    {"map", false, MS_LOG_CREATE, MS_OPEN_NORMAL, MS_ENGINE_MAP, MS_SYNC_NONE, false},
    {"write, synced", false, MS_LOG_CREATE, MS_OPEN_NORMAL, MS_ENGINE_WRITE, MS_SYNC_EACH,
     false},
    {"shared", false, MS_LOG_CREATE, MS_OPEN_NORMAL, MS_ENGINE_WRITE, MS_SYNC_NONE, true},
    {"arena store", true, MS_LOG_CREATE, MS_OPEN_NORMAL, MS_ENGINE_AUTO, MS_SYNC_NONE,
     false},
};
enum { CONFIGS = (int)(sizeof configs / sizeof configs[0]) };

enum { ROWS_MOST = MODES * (CONFIGS + 1) };

typedef struct row {
    const mode *m;
    const config *c;          /* NULL: images */
    char name[120];
} row;

static void row_fails(void **state)
{
    const row *r = (const row *)*state;
    if (r->c == NULL) {
        images_fail(r->m);
        return;
    }
    world *w = world_new(r->c);
    w->learning = true;
    assert_int_equal(run_script(w, NULL, 0, 0), 0);
    w->learning = false;
    script_fails(w, r->m);
    world_free(w);
}

/* Runs a test for each kind of fault and config, then the others. */
static inline int run_faults(const char *name, bool memory,
                             const struct CMUnitTest *others, size_t n_others)
{
    struct CMUnitTest tests[ROWS_MOST + 20];
    static row rows[ROWS_MOST];
    size_t n = 0;
    memset(tests, 0, sizeof tests);
    for (int i = 0; i < MODES; i++)
        for (int k = 0; k <= CONFIGS; k++) {
            bool is_mem = k < CONFIGS && configs[k].mem;
            bool once = modes[i].how == OS_FAULT_NONE || modes[i].how == OS_FAULT_FAIL;
            if (modes[i].memory != memory || (is_mem && !memory)) continue;
            if (k == CONFIGS && (!once || modes[i].code != 0)) continue;
            row *r = &rows[n];
            r->m = &modes[i];
            r->c = k < CONFIGS ? &configs[k] : NULL;
            snprintf(r->name, sizeof r->name, "%s_stays_whole_when_%s (%s)",
                     r->c != NULL ? "script" : "operation", modes[i].name,
                     r->c != NULL ? r->c->name : "images");
            for (char *p = r->name; *p != '(' && *p != '\0'; p++)
                if (*p == ' ' && p[1] != '(') *p = '_';
            tests[n].name = r->name;
            tests[n].test_func = row_fails;
            tests[n].initial_state = r;
            n++;
        }
    assert_true(n_others <= 20);
    memcpy(tests + n, others, n_others * sizeof tests[0]);
    return _cmocka_run_group_tests(name, tests, n + n_others, images_make, images_free);
}

#endif /* FAULT_H */
