/* Fuzzes stores: the input is a program of operations, with faults among them.
 *
 *   byte 0    bits: the store (arena store on the heap, in a fixed buffer, log with
 *             WRITE, log with MAP); exact maps; two bits of sync mode; a reader beside a
 *   log the rest  operations: what, and bytes of arguments (tables `steps`, `later`)
 *
 * A naive twin, an array of what every message should be, is asked after each step what
 * the store should show: every message in order, every place, the conversations and one
 * agent of it, notes, facts, totals, the reader beside. The twin is copied at each step,
 * so that after a fault or a crash it can be told which state it is:
 *
 *   - the k-th allocation or file operation fails (all from it on, perhaps): the step is
 *     in force or nothing is, and without memory nothing is;
 *   - the process dies: the file stays, all that returned is in force;
 *   - power is cut: each page or sector that was not synced is old or new; what is left
 *     is the state after one of the steps, none older than the last sync.
 *
 * After each of these the log is opened again and the program goes on. FUZZ_TELL=1 in
 * the environment prints the steps of a replayed input.
 * Left out: copies and rewrites, shared writers, by-time queries: see test_rewrite.c,
 * test_twin.c, test_shared.c.
 */

#define _GNU_SOURCE
#define FUZZ_MOST 192
#include "disk.h"
#include "store.h"
#include "os_faults.h"

/* Rather fewer are appended; notes are more. */
#define MODEL_MOST 64
#include "store_model.h"

enum { HEAP, FIXED, LOG, LOG_MAPPED };
enum { MOST_ITEMS = 48, MOST_STEPS = 64, FORK = 100, MOST_SLOW = 2,
       FILE_ROOM = 48 << 10 };

static fuzz_room drive_room;
static disk drive;                   /* the log */
static os_faults trouble;                 /* with faults */
static unsigned char image[DISK_ROOM];
static fuzz_alloc heap, other_heap;   /* of the store; of the reader beside */
static ms_arena arena;
static uint64_t buffer[2048];
static unsigned kind, how;
static ms_store *store, *beside;
static store_model states[MOST_STEPS + 2]; /* after each step */
static unsigned now, durable;        /* of them; that is surely durable */
static store_model tried;                /* what the step that is under way would make */
static ms_stream stream;
static int writing;                  /* the item; -1: none */
static bool armed;                   /* a fault is to come */
static ms_error said;                /* by the last opening */
static unsigned slow_steps;          /* taken: few of them are as good as many */


/* With FUZZ_TELL in the environment each step is told: to look at a finding. */
static bool telling(void)
{
    static int known = -1;
    if (known < 0) known = getenv("FUZZ_TELL") != NULL;
    return known != 0;
}


/* An empty disk, whose calls can fail; those that undo never fail. */
static void disk_with_faults(bool exact_maps)
{
    fuzz_disk_begin(&drive, &drive_room);
    drive.os.exact_maps = exact_maps;
    drive.keep_synced = true;
    drive.room = FILE_ROOM;
    os_fault_init(&trouble, &drive.os);
    trouble.how = OS_FAULT_FAIL_MIDWAY;
    trouble.kinds &= ~(OS_FAULT_BIT(UNLOCK) | OS_FAULT_BIT(UNMAP) | OS_FAULT_BIT(REMOVE));
    trouble.code = EIO;
}


/* ---- opening ---- */

static bool is_log(void) { return kind >= LOG; }

static ms_log_desc log_desc(ms_log_mode mode)
{
    ms_log_desc desc = fuzz_log_desc(&trouble.os, kind == LOG_MAPPED);
    desc.mode = mode;
    desc.sync = (ms_sync_mode)((how >> 3 & 3) % 3);
    desc.sync_bytes = 2000;
    desc.alloc = heap.alloc;
    return desc;
}

static ms_result open_mem(bool again)
{
    ms_mem_desc desc = fuzz_mem_desc(buffer, sizeof buffer);
    if (kind == HEAP) {
        desc.buffer = NULL;
        desc.buffer_size = 0;
        desc.alloc = heap.alloc;
        desc.chunk_size = 4096;
    }
    return again ? ms_mem_attach(&store, &desc, NULL, &said)
                 : ms_mem_open(&store, &desc, &said);
}

static void open_reader(void)
{
    ms_log_desc desc = log_desc(MS_LOG_READ);
    desc.alloc = other_heap.alloc;
    if (ms_log_open(&beside, &desc, NULL) != MS_OK) fuzz_fail("no reader beside");
}

static void open_beside(void)
{
    if (is_log() && (how & 32)) open_reader();
}

static ms_result open_store(bool again)
{
    if (!is_log()) return open_mem(again);
    ms_log_desc desc = log_desc(MS_LOG_CREATE);
    return ms_log_open(&store, &desc, &said);
}

static void disarm(void)
{
    trouble.at = heap.fail_at = other_heap.fail_at = 0;
    trouble.from = heap.fail_from = other_heap.fail_from = false;
    armed = false;
}


/* ---- after a step ---- */

static void must_be(const store_model *h, ms_store *of, const char *when)
{
    const char *what = model_differs(h, of, &arena);
    if (what != NULL) fuzz_fail("step %u, %s: %s differs", now, when, what);
}

static void took(void)
{
    if (now < MOST_STEPS) now++;
    states[now] = tried;
    if (model_learn(&states[now], store) != MS_OK)
        fuzz_fail("messages have no record");
}

static void set_durable(void)
{
    durable = now;
}

static void open_again(void)
{
    ms_result result = open_store(true);
    if (result != MS_OK) fuzz_fail("step %u: opening again: %s", now, said.message);
    writing = -1;
}

static void close_all(void)
{
    ms_close(beside);
    ms_close(store);
    store = beside = NULL;
}

/* The store was lost: which of the states from the last durable one on is it? */
static void find_state(unsigned oldest, bool also_tried)
{
    const char *what = "";
    if (also_tried && model_differs(&tried, store, &arena) == NULL) {
        took();
        return;
    }
    for (unsigned i = now + 1; i-- > oldest;) {
        what = model_differs(&states[i], store, &arena);
        if (what != NULL) continue;
        now = i;
        return;
    }
    fuzz_fail("it is none of the states %u to %u; of the oldest %s differs", oldest, now,
              what);
}

/* What may be said of a fault, and of nothing else. */
static void may_say(ms_result result, bool fault, const char *step)
{
    if (!fault) fuzz_fail("step %u: %s says %s", now, step, ms_result_text(result));
    if (result != MS_E_IO && result != MS_E_POISONED && result != MS_E_NO_MEMORY &&
        result != MS_E_ARENA && result != MS_E_BUSY && result != MS_E_FULL)
        fuzz_fail("step %u: after a fault %s says %s", now, step, ms_result_text(result));
}

/* What a step said, when it was to succeed. */
static void answered(ms_result result, const char *step)
{
    bool fault = armed && heap.failed + trouble.hits > 0, io;
    if (telling()) fprintf(stderr, "   %s: %s\n", step, ms_result_text(result));
    bool synced = is_log() && ((how >> 3 & 3) % 3) == MS_SYNC_EACH;
    disarm();
    if (result == MS_OK) {
        took();
        if (synced) set_durable();
        return;
    }
    if (result == MS_E_FULL && (kind == FIXED || drive.size > FILE_ROOM / 2)) return;
    may_say(result, fault, step);
    io = result == MS_E_IO || result == MS_E_POISONED;
    if (!is_log()) return;
    /* a handle whose sync failed must be opened again, others go on */
    ms_log_info info;
    bool poisoned = ms_log_stat(store, &info, NULL) != MS_OK || info.poisoned;
    if (poisoned) {
        close_all();
        open_again();
        open_beside();
    }
    find_state(now, io || poisoned);
}


/* ---- steps; each takes bytes from the program ---- */

/* Does a change that is to succeed. */
static void do_change(change c)
{
    model_do(&tried, &c);
    ms_result result = model_call(&tried, &c, store, &stream, NULL);
    if (result == MS_OK && c.told != c.hides)
        fuzz_fail("%s counts otherwise what it hides", model_word(c.what));
    answered(result, model_word(c.what));
}

/* about: NULL, or a message of `tried`. */
static change change_of(change_kind what, const item *about)
{
    change c;
    memset(&c, 0, sizeof c);
    c.what = what;
    c.at = about != NULL ? (int)(about - tried.items) : -1;
    if (about != NULL) c.place = about->place;
    return c;
}

/* A message and its place are added to the change. */
static item *fresh_item(fuzz_input *in, change *c)
{
    static const short sizes[] = {0, 30, 200, MODEL_LONGEST};
    unsigned bits = fuzz_u8(in);
    item *e = &c->fresh[c->n_fresh++];
    c->place = bits & 1;
    e->agent = bits >> 1 & 1;
    e->type = bits >> 2 & 3;
    e->size = sizes[bits >> 4 & 3];
    return e;
}

static bool has_room(int n) { return tried.count + n <= MOST_ITEMS; }

static void step_append(fuzz_input *in)
{
    change c = change_of(DO_APPEND, NULL);
    (void)fresh_item(in, &c);
    if (has_room(1)) do_change(c);
}

static void step_batch(fuzz_input *in)
{
    change c = change_of(DO_APPEND, NULL);
    int n = 2 + (int)fuzz_below(in, 3), place = fuzz_u8(in) & 1;
    if (!has_room(n)) return;
    while (c.n_fresh < n) (void)fresh_item(in, &c);
    c.place = place;
    do_change(c);
}

/* With a key: stored once, then told the first number, or refused with another text. */
static void step_keyed(fuzz_input *in)
{
    char text[MODEL_TEXT];
    change c = change_of(DO_APPEND, NULL);
    item *e = fresh_item(in, &c);
    bool same = fuzz_u8(in) & 1;
    uint64_t seq = 0;
    const item *old = tried.items, *end = old + tried.count;
    e->key = (unsigned char)(1 + e->agent);
    if (!has_room(1)) return;
    while (old < end && (old->key != e->key || old->place != c.place)) old++;
    if (old == end) {
        do_change(c);
        return;
    }
    if (armed || old->redacted || old->amended || old->parts > 0) return;
    *e = *old;
    if (!same) e->version = 200;
    ms_envelope m = model_message(e, text);
    ms_result got = ms_append(store, model_place(old->place), &m, &seq, NULL);
    if (got == MS_E_FULL && drive.size > FILE_ROOM / 2) return; /* zeros have no room */
    if (got != (same ? MS_OK : MS_E_KEY_REUSED) || (same && seq != old->seq))
        fuzz_fail("step %u: a key that is known: %s", now, ms_result_text(got));
}

/* A message that is there, perhaps hidden; NULL: there is none. */
static const item *any_item(fuzz_input *in)
{
    unsigned which = fuzz_u8(in);
    return tried.count > 0 ? &tried.items[which % (unsigned)tried.count] : NULL;
}

static void step_amend(fuzz_input *in)
{
    const item *e = any_item(in);
    if (e == NULL || e->unfinished || e->hidden || e->redacted) return;
    change c = change_of(DO_AMEND, e);
    c.size = e->size;
    do_change(c);
}

static void step_hide(fuzz_input *in)
{
    const item *e = any_item(in);
    if (e == NULL) return;
    if (!e->hidden) {
        do_change(change_of(DO_HIDE, e));
        return;
    }
    ms_result got = armed ? MS_E_HIDDEN : ms_hide(store, e->seq, NULL);
    if (got != MS_E_HIDDEN) fuzz_fail("hidden twice: %s", ms_result_text(got));
}

static void step_hide_range(fuzz_input *in)
{
    const item *a = any_item(in), *b = any_item(in);
    if (a == NULL) return;
    change c = change_of(DO_HIDE_RANGE, a < b ? a : b);
    c.to = (int)((a < b ? b : a) - tried.items);
    do_change(c);
}

static void step_note(fuzz_input *in)
{
    const item *e = any_item(in);
    if (e != NULL && !e->hidden && !e->redacted) do_change(change_of(DO_NOTE, e));
}

static void step_facts(fuzz_input *in)
{
    change c = change_of(DO_FACTS, NULL);
    c.place = fuzz_u8(in) & 1;
    c.to = 1 + (int)now;
    do_change(c);
}

static void step_redact(fuzz_input *in)
{
    const item *e = any_item(in);
    if (e == NULL || armed || e->unfinished || e->hidden) return;
    unsigned before = now;
    do_change(change_of(DO_REDACT, e));
    if (now > before) set_durable();
}

static void step_stream(fuzz_input *in)
{
    unsigned what = fuzz_u8(in), before = now;
    const item *e = writing >= 0 && writing < tried.count ? &tried.items[writing] : NULL;
    if (e == NULL || e->hidden || !e->open) {
        change c = change_of(DO_BEGIN, NULL);
        if (!has_room(1)) return;
        item *fresh = fresh_item(in, &c);
        if (fresh->type == 0) fresh->type = 1;
        writing = tried.count;
        do_change(c);
        if (now == before || stream.store == NULL) writing = -1;
    } else if (what & 3) {
        if (e->parts < 20) do_change(change_of(DO_FEED, e));
    } else {
        do_change(change_of(DO_END, e));
        if (stream.store == NULL) writing = -1;
    }
}

static void step_sync(fuzz_input *in)
{
    (void)in;
    ms_result result = ms_sync(store, NULL, NULL);
    bool fault = armed && trouble.hits + heap.failed > 0;
    disarm();
    if (result == MS_OK) {
        if (is_log()) set_durable();
        return;
    }
    if (!fault) fuzz_fail("sync: %s", ms_result_text(result));
    close_all();
    open_again();
    open_beside();
    find_state(now, false);
}

static void step_reopen(fuzz_input *in)
{
    (void)in;
    if (kind == HEAP) return;
    size_t allocs = heap.calls, calls = trouble.calls;
    close_all();
    bool fault = armed;
    ms_result result = open_store(true);
    fault = fault && (heap.calls > allocs || trouble.calls > calls);
    disarm();
    if (result != MS_OK && !fault) fuzz_fail("opening again: %s", said.message);
    if (result != MS_OK) open_again();
    writing = -1;
    open_beside();
}

/* The process dies (bit 0: the power is cut); what is left is on the disk. */
static void die(unsigned bits, unsigned seed)
{
    size_t size = (size_t)drive.size;
    if (bits & 1) {
        size = fuzz_disk_cut(&drive, seed, (bits & 2) != 0, image);
        drive.boot++;
    } else {
        memcpy(image, drive.ro, size);
    }
    drive.keep_synced = false; /* what the dead would write and sync did not happen */
    close_all();
    drive.keep_synced = true;
    disk_load(&drive, image, size);
    if (bits & 1) disk_keep(&drive);
}

static void step_crash(fuzz_input *in)
{
    unsigned bits = fuzz_u8(in), seed = fuzz_u8(in);
    if (!is_log()) return;
    disarm();
    die(bits, seed);
    open_again();
    find_state(bits & 1 ? durable : now, false);
    if (bits & 1) set_durable();
    open_beside();
}

static void step_tick(fuzz_input *in)
{
    (void)ms_tick(store, 100 * fuzz_u8(in), NULL);
    bool fault = armed;
    disarm();
    if (fault && is_log()) { /* what failed there is found when it matters */
        close_all();
        open_again();
        open_beside();
        find_state(now, false);
    }
}

/* The next step has a fault. */
static void step_fault(fuzz_input *in)
{
    unsigned bits = fuzz_u8(in), k = 1 + (bits >> 2) % 24;
    static const int codes[] = {EIO, ENOSPC};
    disarm();
    armed = true;
    heap.failed = trouble.hits = 0;
    if ((bits & 1) && is_log()) {
        trouble.at = trouble.calls + k;
        trouble.from = (bits & 2) != 0;
        trouble.code = codes[bits >> 7];
    } else {
        heap.fail_at = heap.calls + k;
        heap.fail_from = (bits & 2) != 0;
    }
}

/* The reader looks; first with a fault of its own, perhaps. */
static void step_refresh(fuzz_input *in)
{
    unsigned bits = fuzz_u8(in), k = 1 + (bits >> 3) % 8;
    uint64_t seq = 0, newest = 0;
    disarm();
    if (!is_log()) return;
    if (beside == NULL) open_reader();
    if (bits & 1) {
        other_heap.failed = trouble.hits = 0;
        if (bits & 2) trouble.at = trouble.calls + k;
        else other_heap.fail_at = other_heap.calls + k;
        trouble.from = other_heap.fail_from = (bits & 4) != 0;
        ms_result result = test_refresh(beside, &seq, NULL);
        bool fault = trouble.hits + other_heap.failed > 0;
        if (result != MS_OK) may_say(result, fault, "refresh");
        disarm();
    }
    if (test_refresh(store, &newest, NULL) != MS_OK) fuzz_fail("the writer's refresh");
    if (test_refresh(beside, &seq, NULL) != MS_OK) fuzz_fail("a refresh");
    if (seq != newest) fuzz_fail("step %u: the reader is behind", now);
    if (tried.count > 0 && seq < tried.items[tried.count - 1].seq)
        fuzz_fail("step %u: a refresh misses the newest", now);
    must_be(&states[now], beside, "refreshed");
}

/* The writer goes, in order or not, and another one comes; the reader stays. */
static void step_writers(fuzz_input *in)
{
    unsigned bits = fuzz_u8(in);
    disarm();
    if (!is_log()) return;
    if (beside == NULL) open_reader();
    if (bits & 1) must_be(&states[now], beside, "before another writer");
    size_t size = (size_t)drive.size;
    memcpy(image, drive.ro, size);
    drive.keep_synced = (bits & 2) != 0;
    ms_close(store);
    drive.keep_synced = true;
    if (!(bits & 2)) disk_load(&drive, image, size);
    open_again();
    must_be(&states[now], store, "another writer");
    if (bits & 4) must_be(&states[now], beside, "beside another writer");
}

/* Back to a message of the place, or (bit 0) before its first. */
static void step_rewind(fuzz_input *in)
{
    unsigned bits = fuzz_u8(in);
    const item *e = any_item(in);
    if (e == NULL) return;
    change c = change_of(DO_REWIND, bits & 1 ? NULL : e);
    if (bits & 1) c.place = bits >> 1 & 1;
    if (c.at < 0 || !e->hidden) {
        do_change(c);
        return;
    }
    if (armed) return;
    ms_result got = ms_rewind(store, model_place(c.place), e->seq, NULL, NULL);
    if (got != MS_E_HIDDEN) fuzz_fail("back to a hidden: %s", ms_result_text(got));
}

/* How many messages a fork at this one has. */
static int fork_size(const item *last)
{
    int n = 0;
    for (const item *e = tried.items; e <= last; e++)
        n += e->place == last->place && !e->hidden;
    return n;
}

/* Branches off, once. */
static void step_fork(fuzz_input *in)
{
    unsigned bits = fuzz_u8(in);
    const item *e = any_item(in);
    if (e == NULL || e->place == FORK) return;
    change c = change_of(DO_FORK, e);
    bool full = false;
    c.place = FORK;
    c.empty = bits & 1;
    for (int k = 0; k < tried.count; k++) full |= tried.items[k].place == FORK;
    ms_result bad = !c.empty && e->hidden ? MS_E_HIDDEN : full ? MS_E_CONFLICT : MS_OK;
    if (bad == MS_OK) {
        if (tried.fork == 0 && has_room(c.empty ? 0 : fork_size(e))) do_change(c);
        return;
    }
    ms_result got = armed ? bad : ms_fork(store, model_place(e->place),
                                          c.empty ? 0 : e->seq, model_place(FORK), NULL,
                                          NULL);
    if (got != bad && !(full && got == MS_E_CONFLICT))
        fuzz_fail("step %u: a fork says %s", now, ms_result_text(got));
}

/* A fault that is one of many: where, which errno; for operations of the disk. EINTR
 * comes once: the library calls again. */
static void arm(unsigned bits, unsigned k)
{
    static const int codes[] = {EIO,    ENOSPC, EDQUOT, EMFILE,
                                EACCES, ENOMEM, EFBIG,  EINTR};
    disarm();
    armed = true;
    heap.failed = trouble.hits = 0;
    trouble.code = codes[bits & 7];
    trouble.from = (bits & 8) != 0 && trouble.code != EINTR;
    trouble.at = trouble.calls + 1 + k % 64;
}

static void step_refusal(fuzz_input *in)
{
    unsigned bits = fuzz_u8(in), k = fuzz_u8(in);
    if (is_log()) arm(bits, k);
}

/* Opens with a fault: nothing stays behind of an opening that fails. */
static bool opens(unsigned bits, unsigned k)
{
    arm(bits, k);
    if (bits & 16) {
        heap.fail_at = heap.calls + 1 + k % 16;
        heap.fail_from = (bits & 8) != 0;
        trouble.at = 0;
    }
    writing = -1;
    ms_result result = open_store(true);
    bool fault = trouble.hits + heap.failed > 0;
    disarm();
    if (result == MS_OK) return true;
    may_say(result, fault, "an opening");
    if (result == MS_E_IO && said.sys_errno != trouble.code)
        fuzz_fail("errno is %d, should be %d", said.sys_errno, trouble.code);
    bool left = store != NULL || heap.live != 0 || drive.locked;
    if (left || trouble.files != 0 || trouble.maps != 0)
        fuzz_fail("step %u: an opening that failed leaves something", now);
    return false;
}

/* A crash, and faults when the log is opened behind it; perhaps another crash between. */
static void step_recover(fuzz_input *in)
{
    unsigned bits = fuzz_u8(in), seed = fuzz_u8(in), fault = fuzz_u8(in), k = fuzz_u8(in);
    if (!is_log()) return;
    disarm();
    die(bits, seed);
    bool open = opens(fault, k);
    if (!open && (bits & 4)) die(bits, seed + 1);
    if (!open && (bits & 8)) open = opens(fault, k + 1 + seed % 4);
    if (!open) open_again();
    find_state(bits & 1 ? durable : now, false);
    if (bits & 1) set_durable();
    open_beside();
}

#define STEPS(X)                                                                  \
    X(append) X(append) X(append) X(batch) X(keyed) X(amend) X(hide) X(hide_range) \
    X(note) X(facts) X(redact) X(stream) X(stream) X(sync) X(reopen) X(crash)       \
    X(tick) X(fault) X(fault)

/* These came later: bytes that no kept input had used for a step.
 * The first MOST_SLOW of an input count, others are old ones: they take long. */
#define LATER(X) \
    X(8, refresh) X(9, refresh) X(57, refresh) X(110, refresh) X(216, refresh) \
    X(13, writers) X(75, writers) X(221, writers) \
    X(120, recover) X(135, recover) X(142, recover) X(226, recover) \
    X(165, refusal) X(166, refusal) X(245, refusal) \
    X(168, rewind) X(179, rewind) X(192, fork) X(195, fork) X(247, fork)

typedef struct step {
    const char *name;
    void (*run)(fuzz_input *in);
} step;

static const step steps[] = {
#define X(name) {#name, step_##name},
    STEPS(X)
#undef X
};
static const step later[256] = {
#define X(byte, name) [byte] = {#name, step_##name},
    LATER(X)
#undef X
};

static const step *next_step(fuzz_input *in)
{
    unsigned byte = fuzz_u8(in);
    if (later[byte].run != NULL && slow_steps++ < MOST_SLOW) return &later[byte];
    return &steps[byte % (sizeof steps / sizeof steps[0])];
}

/* ---- one program ---- */

static void begin(void)
{
    disk_with_faults((how & 4) != 0);
    fuzz_alloc_init(&heap);
    fuzz_alloc_init(&other_heap);
    fuzz_drawn = 0;
    now = durable = 0;
    writing = -1;
    slow_steps = 0;
    armed = false;
    memset(&states[0], 0, sizeof states[0]);
    if (open_store(false) != MS_OK) fuzz_fail("no store");
    open_beside();
}

static void fuzz_one(const unsigned char *bytes, size_t size)
{
    fuzz_input in = {bytes, bytes + size};
    how = fuzz_u8(&in);
    kind = how & 3;
    begin();
    for (unsigned n = 0; fuzz_left(&in) > 0 && n < MOST_STEPS - 1; n++) {
        const step *chosen = next_step(&in);
        bool quiet = !armed;
        tried = states[now];
        if (telling()) fprintf(stderr, "%u: %s\n", now, chosen->name);
        chosen->run(&in);
        if (armed && quiet) continue; /* it was a fault for the next one */
        disarm();
        if (n % 4 == 3) must_be(&states[now], store, "the store");
    }
    disarm();
    must_be(&states[now], store, "at the end");
    ms_error err;
    if (ms_selfcheck(store, &err) != MS_OK) fuzz_fail("selfcheck: %s", err.message);
    if (beside != NULL) must_be(&states[now], beside, "beside");
    close_all();
    if (kind != HEAP) {
        open_again();
        must_be(&states[now], store, "opened again");
        close_all();
    }
    if (heap.live + other_heap.live != 0) fuzz_fail("memory was not given back");
    if (trouble.files != 0 || trouble.maps != 0 || drive.locked)
        fuzz_fail("files are left open");
}
