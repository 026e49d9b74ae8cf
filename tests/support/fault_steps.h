/* What the tests of failing calls do with a store: a world with a log file or an arena
 * store, the text of everything that a store shows, and a table of operations.
 *
 * An operation is a line of a script (script.h), or a function. The table says where it
 * runs, see fault.h: in the script of a log or of an arena store, on the image of a handle
 * that writes or of one that reads.
 */

#ifndef FAULT_STEPS_H
#define FAULT_STEPS_H

#include "numbered_messages.h"
#include "file_format.h"
#include "script.h"

static uint64_t boot_now = 500;

static uint64_t boot_of(void *ctx)
{
    (void)ctx;
    return boot_now;
}



/* ---- everything that a store shows, as text ---- */

/* In the order in which operations of several appends make them: a redaction amends,
 * then erases notes; a deletion hides, then removes facts. */
enum { MESSAGES, NOTES, FACTS, PARTS };
enum { TEXT_MOST = 1 << 18, LONG_TEXT = 100 };

typedef struct text {
    char bytes[TEXT_MOST];
    size_t len;
    size_t part[PARTS + 1];   /* where each begins, and the end */
} text;

static void text_copy(text *to, const text *from)
{
    memcpy(to->bytes, from->bytes, from->len);
    memcpy(to->part, from->part, sizeof to->part);
    to->len = from->len;
}

static void text_put(text *t, const char *bytes, size_t len)
{
    if (len + 1 > TEXT_MOST - t->len) fail_msg("the store shows too much");
    if (len > 0) memcpy(t->bytes + t->len, bytes, len);
    t->len += len;
    t->bytes[t->len++] = '|';
}

static void text_number(text *t, uint64_t n)
{
    char digits[24], *first = digits + sizeof digits;
    do *--first = (char)('0' + n % 10);
    while ((n /= 10) != 0);
    text_put(t, first, (size_t)(digits + sizeof digits - first));
}

/* Long ones are shown by their beginning, length and checksum. */
static void text_add(text *t, ms_str s)
{
    text_put(t, s.ptr, s.len < LONG_TEXT ? s.len : LONG_TEXT);
    if (s.len <= LONG_TEXT) return;
    text_number(t, s.len);
    text_number(t, ms__crc32c(0, (const unsigned char *)s.ptr, s.len));
}

/* Returns whether the parts from one on, before another, are equal. */
static bool text_alike(const text *a, const text *b, int from, int to)
{
    size_t x = a->part[from], y = b->part[from], len = a->part[to] - x;
    return b->part[to] - y == len && memcmp(a->bytes + x, b->bytes + y, len) == 0;
}

static bool text_equal(const text *a, const text *b)
{
    return text_alike(a, b, 0, PARTS);
}

/* A part of which each byte is as before, or as after: erasing changes no size. */
static bool text_mixed(const text *t, const text *before, const text *after, int part)
{
    const char *now = t->bytes + t->part[part], *old = before->bytes + before->part[part],
               *new = after->bytes + after->part[part];
    size_t len = t->part[part + 1] - t->part[part];
    if (before->part[part + 1] - before->part[part] != len ||
        after->part[part + 1] - after->part[part] != len)
        return false;
    for (size_t i = 0; i < len; i++)
        if (now[i] != old[i] && now[i] != new[i]) return false;
    return true;
}

/* Some parts, from the first one on, as they are after a step; then some of the items of
 * one; the others as before. */
static bool text_between(const text *t, const text *before, const text *after)
{
    for (int i = 0; i < PARTS; i++)
        if (text_alike(t, after, 0, i) && text_mixed(t, before, after, i) &&
            text_alike(t, before, i + 1, PARTS))
            return true;
    return false;
}

/* Fails with the places where three texts begin to differ. */
static void text_fail(const char *when, const char *what, const text *now,
                      const text *before, const text *after)
{
    size_t at = 0;
    while (at < now->len && at < before->len && now->bytes[at] == before->bytes[at]) at++;
    at = at > 60 ? at - 60 : 0;
    const text *all[] = {now, before, after};
    static const char *const names[] = {"shown", "before", "after"};
    for (int i = 0; i < 3; i++) {
        size_t left = all[i]->len > at ? all[i]->len - at : 0;
        print_error("%8s ..%.*s\n", names[i], (int)(left < 300 ? left : 300),
                    all[i]->bytes + at);
    }
    fail_msg("%s: %s", when, what);
}

/* Adds a message to the text; the mark of a note that is being erased is left out. */
static void text_message(text *t, const ms_msg *msg, int part)
{
    uint32_t shown = MS_FLAG_AMENDED | MS_FLAG_UNFINISHED;
    if (part == MESSAGES) shown |= MS_FLAG_REDACTED;
    text_number(t, ms_seq(msg));
    text_number(t, (uint64_t)ms_type_of(msg));
    text_number(t, ms_flags(msg) & shown);
    text_add(t, test_location(msg));
    text_add(t, test_agent_key(msg));
    text_add(t, ms_get(msg, MS_F_KEY).text);
    text_add(t, ms_content(msg).text);
    text_add(t, ms_get(msg, MS_F_ARGS).text);
}

static ms_result text_query(text *t, ms_store *store, int part, ms_arena *arena,
                            ms_error *err)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    memset(&q, 0, sizeof q);
    if (part == MESSAGES) q.arena = arena;
    else q.raw = MS_RAW_NOTES;
    t->part[part] = t->len;
    ms_result result = ms_query_open(store, &q, &it, err);
    if (result != MS_OK) return result;
    while ((msg = ms_next(&it)) != NULL) text_message(t, msg, part);
    return ms_cursor_close(&it, err);
}

static const char *const places[] = {"job", "branch", "task", "4:user/s"};
enum { PLACES = (int)(sizeof places / sizeof places[0]) };

/* Messages as they are now, notes, facts. */
static ms_result text_of(text *t, ms_store *store, const ms_alloc *alloc, ms_error *err)
{
    ms_arena arena;
    ms_str facts;
    test_arena_init(&arena, alloc);
    t->len = 0;
    ms_result result = MS_OK;
    for (int i = MESSAGES; i < FACTS && result == MS_OK; i++)
        result = text_query(t, store, i, &arena, err);
    t->part[FACTS] = t->len;
    for (int i = 0; result == MS_OK && i < PLACES; i++) {
        result = ms_location_get(store, ms_str_of(places[i]), &arena, &facts, err);
        if (result == MS_OK) text_add(t, facts);
    }
    t->part[PARTS] = t->len;
    ms_arena_deinit(&arena);
    return result;
}

/* Makes the text of an empty or absent store. */
static void text_of_none(text *t)
{
    memset(t->part, 0, sizeof t->part);
    t->len = 0;
    for (int i = 0; i < PLACES; i++) text_add(t, MS_STR("{}"));
    t->part[PARTS] = t->len;
}


/* ---- the world of a script ---- */

enum { STEPS_MOST = 200, NO_ARENA = 1 };

/* A way to use a store. */
typedef struct config {
    const char *name;
    bool mem;                 /* an arena store, no log */
    ms_log_mode mode;
    ms_log_opening opening;
    ms_log_engine engine;
    ms_sync_mode sync;
    bool shared;
} config;

typedef struct world {
    char *folder, *path, *other;
    ms_os base;
    os_faults t;
    test_alloc heap;
    ms_store *log;
    script calls;             /* names of messages, and the stream "w" */
    config how;
    bool ticked;
    size_t segment;
    ms_arena room, *arena;    /* of the operation */
    size_t arena_size;        /* 0: without limit; NO_ARENA: none is given */
    bool image;               /* a single operation on an image */
    bool damaged;             /* whose index is damaged */
    bool learning;            /* the run without faults */
    bool leftover;            /* a file may be left that could not be removed */
    ino_t inode;              /* of the file, before the step */
    uint64_t seq[SCRIPT_NAMES]; /* of the names, as that run has learned them */
    uint64_t seen[STEPS_MOST]; /* messages that the step has read */
    text *after[STEPS_MOST];  /* what is shown after each step */
    size_t step, repeat;
    const char *line;         /* of the operation */
    int arg;
    char when[240];
} world;

/* Returns the number of a message; 0: it is not made. */
static uint64_t seq_of(world *w, const char *name)
{
    const script_name *e = script_find(&w->calls, ms_str_of(name));
    return e != NULL ? e->seq : 0;
}

static ms_stream *stream_of(world *w)
{
    return &script_entry(&w->calls, MS_STR("w"))->stream;
}

/* Runs an operation with an arena of its own, or with NULL. */
static ms_result call(world *w, ms_result (*run)(world *w, ms_error *err), ms_error *err)
{
    static uint64_t buffer[1 << 16];
    if (w->arena_size == 0) test_arena_init(&w->room, &w->heap.alloc);
    else test_arena_init_fixed(&w->room, buffer, w->arena_size);
    w->arena = w->arena_size == NO_ARENA ? NULL : &w->room;
    ms_result result = run(w, err);
    ms_arena_deinit(w->arena);
    return result;
}

static void world_quiet(world *w)
{
    w->t.at = 0;
    w->heap.fail_at = 0;
    w->arena_size = 0;
}

static ms_log_desc desc_of(world *w, const char *path)
{
    ms_log_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.path = path;
    desc.mode = w->how.mode;
    desc.opening = w->how.opening;
    desc.os = &w->t.os;
    desc.alloc = w->heap.alloc;
    desc.engine = w->how.engine;
    desc.sync = w->how.sync;
    desc.shared = w->how.shared && w->how.mode != MS_LOG_READ;
    desc.ticked = w->ticked;
    desc.lock_wait_ms = 1;
    desc.segment_size = w->segment;
    desc.keep_unset_times = true;
    desc.clock = clock_at(&test_now);
    return desc;
}

/* A message gets the number that it has without faults. On an image names stay with the
 * first messages. */
static void learn(world *w)
{
    for (size_t i = 0; i < w->calls.n_names; i++) {
        script_name *e = &w->calls.names[i];
        if (w->image) e->seq = w->seq[i];
        else if (w->learning) w->seq[i] = e->seq;
        else if (w->seq[i] != e->seq)
            fail_msg("%s: %s has number %llu, should be %llu", w->when, e->name,
                     (unsigned long long)e->seq, (unsigned long long)w->seq[i]);
    }
}

/* Checks that a successful operation reads as many messages as without a fault. */
static ms_result read_all(world *w, size_t seen, ms_result result)
{
    if (result != MS_OK) return result;
    if (w->learning) w->seen[w->step] = seen;
    if (w->seen[w->step] != seen)
        fail_msg("%s: it reads %zu messages, should read %llu", w->when, seen,
                 (unsigned long long)w->seen[w->step]);
    return result;
}


/* ---- operations: each is done once, or fails and has done nothing ---- */

static ms_result open_mem(world *w, ms_error *err)
{
    ms_mem_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.alloc = w->heap.alloc;
    desc.chunk_size = 4096;
    desc.keep_unset_times = true;
    desc.clock = clock_at(&test_now);
    return ms_mem_open(&w->log, &desc, err);
}

static ms_result do_open(world *w, ms_error *err)
{
    ms_log_desc desc = desc_of(w, w->path);
    ms_result result = w->how.mem ? open_mem(w, err) : ms_log_open(&w->log, &desc, err);
    if (result != MS_OK && w->log != NULL) fail_msg("%s: a store is left", w->when);
    if (result == MS_OK) stream_of(w)->store = stream_of(w)->seq != 0 ? w->log : NULL;
    return result;
}

static ms_result do_close(world *w, ms_error *err)
{
    (void)err;
    ms_close(w->log);
    w->log = NULL;
    w->t.all_hit = 0;
    return MS_OK;
}

/* Makes the call of a line. A repeated call may find done what it was to do. */
static ms_result do_line(world *w, ms_error *err)
{
    w->calls.test = w->when;
    w->calls.place = MS_STR("job");
    w->calls.s.store = w->log;
    w->calls.arena = w->arena;
    ms_result result = script_try(&w->calls, w->line);
    if (err != NULL) *err = w->calls.err;
    if (result == MS_E_HIDDEN) return MS_OK;
    if (result == MS_OK) learn(w);
    if (result == MS_OK && strncmp(w->line, "end", 3) == 0)
        memset(stream_of(w), 0, sizeof(ms_stream));
    return result;
}

/* Appends with a new location, agent and key, so that every table of names grows. */
static ms_result do_new_names(world *w, ms_error *err)
{
    char name[16];
    ms_envelope m = ms_user_message(ms_text("new"));
    snprintf(name, sizeof name, "new_%zu", w->repeat);
    m.agent_key = m.key = ms_str_of(name);
    return ms_append(w->log, ms_str_of(name), &m, NULL, err);
}

static ms_result append_batch(world *w, ms_envelope *batch, size_t n, ms_error *err)
{
    ms_append_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.location = MS_STR("job");
    return ms_append_batch(w->log, batch, n, &opts, err);
}

static ms_result do_batch(world *w, ms_error *err)
{
    ms_envelope batch[4];
    char keys[4][8];
    for (int i = 0; i < 4; i++) {
        batch[i] = ms_observation(ms_text("one of a batch"), ms_str_of(NULL));
        snprintf(keys[i], sizeof keys[i], "b%d", i);
        batch[i].key = ms_str_of(keys[i]);
    }
    batch[3].agent_key = MS_STR("other");
    return append_batch(w, batch, 4, err);
}

/* `arg` messages of so many bytes that segments end, or the file has to grow. */
static ms_result do_large(world *w, ms_error *err)
{
    static char page[1 << 18];
    ms_envelope batch[40];
    size_t n = (size_t)w->arg, size = sizeof page / (n * n);
    memset(page, 'x', sizeof page);
    for (size_t i = 0; i < n; i++) {
        batch[i] = ms_user_message(ms_text_n(ms_str_n(page, size)));
        batch[i].agent_key = i % 2 ? MS_STR("worker") : MS_STR("helper");
    }
    return append_batch(w, batch, n, err);
}

/* Finds the number of the newest message of the job. */
static ms_result newest(world *w, uint64_t *seq, ms_error *err)
{
    ms_query q;
    ms_cursor it;
    memset(&q, 0, sizeof q);
    q.location = MS_STR("job");
    q.raw = MS_RAW_MESSAGES;
    *seq = 0;
    ms_result result = ms_query_open(w->log, &q, &it, err);
    for (const ms_msg *msg; (msg = ms_next(&it)) != NULL;) *seq = ms_seq(msg);
    ms_result closed = ms_cursor_close(&it, result == MS_OK ? err : NULL);
    return result != MS_OK ? result : closed;
}

/* Appends if the first message is the last one: it is not, that is a conflict; then if
 * what is really the last one is. */
static ms_result do_compare(world *w, ms_error *err)
{
    ms_envelope m = ms_user_message(ms_text("compared"));
    ms_append_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.location = MS_STR("job");
    opts.expect = true;
    opts.expect_seq = seq_of(w, "first");
    ms_result result = ms_append_batch(w->log, &m, 1, &opts, err);
    if (result != MS_E_CONFLICT) return result == MS_OK ? MS_E_CONFLICT : result;
    result = newest(w, &opts.expect_seq, err);
    return result == MS_OK ? ms_append_batch(w->log, &m, 1, &opts, err) : result;
}

static ms_result do_fill(world *w, ms_error *err)
{
    static char page[700];
    char location[16];
    memset(page, 'a' + (int)(w->repeat % 20), sizeof page - 1);
    ms_envelope m = ms_observation(
        ms_text_n(ms_str_n(page, 100 + 40 * (w->repeat % 15))), ms_str_of(NULL));
    snprintf(location, sizeof location, "place_%d", (int)(w->repeat % 5));
    if (w->repeat % 2) m.agent_key = MS_STR("worker");
    return ms_append(w->log, ms_str_of(location), &m, NULL, err);
}

static ms_result do_recover(world *w, ms_error *err)
{
    ms_stream_text out;
    uint64_t seq = seq_of(w, "w");
    ms_result result = ms_stream_read(w->log, seq, 2, w->arena, &out, err);
    return result == MS_OK ? ms_stream_recover(w->log, seq, w->arena, err) : result;
}

static ms_result do_usage(world *w, ms_error *err)
{
    ms_usage usage;
    memset(&usage, 0, sizeof usage);
    usage.input_tokens = 7;
    return ms_note_usage(w->log, seq_of(w, "second"), &usage, err);
}

/* A message that is shown, or (arg 1) hidden; then its text is nowhere in the file. */
static ms_result do_redact(world *w, ms_error *err)
{
    const char *secret = w->arg == 1 ? "a hidden message" : "the first message";
    ms_result result =
        ms_redact(w->log, seq_of(w, w->arg == 1 ? "hidden" : "first"), err);
    size_t size;
    if (result != MS_OK || w->how.mem || w->learning) return result;
    char *bytes = read_file(w->path, &size);
    if (bytes == NULL || memmem(bytes, size, secret, strlen(secret)) != NULL)
        fail_msg("%s: the text is not erased", w->when);
    free(bytes);
    return MS_OK;
}

/* Numbers that a copy leaves out: the next message gets a later one. */
static ms_result do_leave_out(world *w, ms_error *err)
{
    ms_stat stat;
    ms_result result = ms_store_stat(w->log, &stat, err);
    if (result != MS_OK) return result;
    return w->log->backend->leave_out(w->log, stat.last_seq + 9, err);
}

static ms_result do_sync(world *w, ms_error *err) { return ms_sync(w->log, NULL, err); }
static ms_result do_tick(world *w, ms_error *err) { return ms_tick(w->log, 500, err); }

static ms_result do_refresh(world *w, ms_error *err)
{
    return test_refresh(w->log, NULL, err);
}

/* Ticks until no work is left; then a due summary is written. */
static ms_result do_all_ticks(world *w, ms_error *err)
{
    ms_log_info info;
    ms_result result = MS_OK;
    for (int i = 0; i < 50 && result == MS_OK; i++) result = ms_tick(w->log, 100000, err);
    if (result == MS_OK && w->t.hits + w->heap.failed != 0) { /* left for later */
        world_quiet(w);
        for (int i = 0; i < 50; i++)
            assert_int_equal(ms_tick(w->log, 100000, err), MS_OK);
    }
    if (result == MS_OK) result = ms_log_stat(w->log, &info, err);
    if (result == MS_OK && info.summaries != info.segments / 32)
        fail_msg("%s: %llu summaries of %llu segments", w->when,
                 (unsigned long long)info.summaries, (unsigned long long)info.segments);
    return result;
}

/* Compares all that a handle reads with the contents read without faults. */
static ms_result read_as(world *w, ms_store *store, ms_error *err)
{
    static text now;
    ms_result result = text_of(&now, store, &w->heap.alloc, err);
    if (result != MS_OK || w->learning) return result;
    const text *want = w->after[w->step];
    if (!text_equal(&now, want))
        text_fail(w->when, "it reads otherwise", &now, want, want);
    return MS_OK;
}

static ms_result do_read(world *w, ms_error *err) { return read_as(w, w->log, err); }

/* Counts what a cursor returns, whose opening had that result. */
static ms_result drain(ms_cursor *it, ms_result result, size_t *seen, ms_error *err)
{
    while (ms_next(it) != NULL) ++*seen;
    ms_result closed = ms_cursor_close(it, result == MS_OK ? err : NULL);
    return result != MS_OK ? result : closed;
}

static ms_result query_all(ms_store *store, const ms_query *q, size_t *seen,
                           ms_error *err)
{
    ms_cursor it;
    return drain(&it, ms_query_open(store, q, &it, err), seen, err);
}

enum { ALL_VIEWS = MS_VIEW_CONVERSATION | MS_VIEW_AGENT | MS_VIEW_TEAM | MS_VIEW_GLOBAL };

#define ASKS_JOB .location = {"job", 3}
#define ASKS_PLACE .location = {"place_1", 7}

static const struct asked {
    ms_query q;
    bool about;               /* records of the second message */
} asked[] = {
    {.q = {.views = 0}},
    {.q = {ASKS_PLACE, .reverse = true}},
    {.q = {ASKS_JOB, .views = MS_VIEW_CONVERSATION, .limit = 20}},
    {.q = {ASKS_JOB, .views = MS_VIEW_AGENT}},
    {.q = {ASKS_JOB, .views = MS_VIEW_GLOBAL}},
    {.q = {ASKS_JOB, .views = MS_VIEW_TEAM}},
    {.q = {ASKS_JOB, .views = ALL_VIEWS, .by_time = true}},
    {.q = {ASKS_PLACE, .views = ALL_VIEWS, .limit = 3, .reverse = true}},
    {.q = {ASKS_PLACE, .after_seq = 20, .before_seq = 150}},
    {.q = {ASKS_JOB, .raw = MS_RAW_ALL}, .about = true},
    {.q = {ASKS_PLACE, .raw = MS_RAW_ALL, .after_seq = 20, .before_seq = 150}},
    {.q = {ASKS_JOB, .raw = MS_RAW_NOTES | MS_RAW_LOCATIONS}},
    {.q = {.raw = MS_RAW_ALL}},
};
enum { ASKED = (int)(sizeof asked / sizeof asked[0]) };

static ms_result ask(world *w, const struct asked *a, size_t *seen, ms_error *err)
{
    static ms_str team[40];
    ms_query q = a->q;
    for (int i = 0; i < 40; i++) team[i] = i % 2 ? MS_STR("worker") : MS_STR("other");
    q.arena = w->arena;
    if (q.views == 0) q.views = MS_VIEW_TIMELINE;
    q.agent_key = team[1];
    q.agent_types = MS_TYPES_ALL;
    q.agent_keys = team;
    q.n_agent_keys = q.by_time ? 40 : 2;
    if (a->about) q.about_seq = seq_of(w, "second");
    return query_all(w->log, &q, seen, err);
}

static ms_result do_query(world *w, ms_error *err)
{
    size_t seen = 0;
    ms_result result = ask(w, &asked[w->arg], &seen, err);
    return read_all(w, seen, result);
}

static ms_result do_queries(world *w, ms_error *err)
{
    size_t seen = 0;
    ms_result result = MS_OK;
    for (int i = 0; i < ASKED && result == MS_OK; i++)
        result = ask(w, &asked[i], &seen, err);
    return read_all(w, seen, result);
}

static ms_result do_list(world *w, ms_error *err)
{
    ms_list_query q;
    ms_listing listing;
    memset(&q, 0, sizeof q);
    q.agents = w->arg == 1;
    ms_result result = ms_list(w->log, &q, w->arena, &listing, err);
    bool some = result == MS_OK || result == MS_E_DAMAGED; /* all that can be read */
    if (!some && listing.count != 0) fail_msg("%s: it lists some", w->when);
    return read_all(w, listing.count, result);
}

static ms_result do_look(world *w, ms_error *err)
{
    ms_stat stat;
    ms_log_info info;
    const ms_msg *msg;
    ms_result result = ms_store_stat(w->log, &stat, err);
    if (result == MS_OK && !w->how.mem) result = ms_log_stat(w->log, &info, err);
    if (result == MS_OK && !w->how.mem && w->arena_size == 0 &&
        info.memory != w->heap.live_bytes)
        fail_msg("%s: it reports %llu bytes of memory, and has %zu", w->when,
                 (unsigned long long)info.memory, w->heap.live_bytes);
    if (result == MS_OK)
        result = ms_get_by_seq(w->log, seq_of(w, "second"), w->arena, &msg, err);
    if (result == MS_OK && seq_of(w, "w") != 0)
        result = ms_get_by_seq(w->log, seq_of(w, "w"), w->arena, &msg, err);
    return result;
}

static ms_result do_find(world *w, ms_error *err)
{
    size_t seen = 0;
    ms_find_query q = {.text = {"AMEND", 5}};
    ms_result result = test_find_all(w->log, &q, SIZE_MAX, &seen, err);
    return read_all(w, seen, result);
}

static ms_result read_history(world *w, size_t *seen, ms_error *err)
{
    ms_str team[] = {MS_STR("other"), MS_STR("helper")};
    ms_memory memory;
    ms_cursor it;
    ms_memory_init(&memory, w->log, MS_STR("job"), MS_STR("worker"));
    memory.subordinates = team;
    memory.n_subordinates = 2;
    memory.by_time = memory.team_by_agent = true;
    memory.team_limit = 2;
    memory.timeline = w->arg == 1;
    memory.scope.kind = w->arg == 1 ? MS_SCOPE_SINCE_TASK : MS_SCOPE_ALL;
    memory.arena = w->arena;
    return drain(&it, ms_get_history(&memory, &it, err), seen, err);
}

static ms_result do_history(world *w, ms_error *err)
{
    size_t seen = 0;
    ms_result result = read_history(w, &seen, err);
    return read_all(w, seen, result);
}

/* Another handle, that only reads. */
static ms_result do_reader(world *w, ms_error *err)
{
    ms_log_desc desc = desc_of(w, w->path);
    ms_store *reader;
    desc.mode = MS_LOG_READ;
    desc.shared = false;
    ms_result result = ms_log_open(&reader, &desc, err);
    if (result != MS_OK) return result;
    result = test_refresh(reader, NULL, err);
    if (result == MS_OK) result = read_as(w, reader, err);
    if (result == MS_OK) result = ms_selfcheck(reader, err);
    ms_close(reader);
    return result;
}

/* Everything, or (arg 1) the newest three, to an arena store. */
static ms_result do_copy(world *w, ms_error *err)
{
    ms_mem_desc desc;
    ms_store *to;
    ms_keep keep;
    ms_copy_report report;
    memset(&desc, 0, sizeof desc);
    memset(&report, 0, sizeof report);
    memset(&keep, 0, sizeof keep);
    desc.alloc = w->heap.alloc;
    keep.newest = 3;
    ms_result result = ms_mem_open(&to, &desc, err);
    if (result == MS_OK)
        result = ms_copy(to, w->log, w->arg == 1 ? &keep : NULL, w->arena, &report,
                         err);
    if (to != NULL) assert_int_equal(ms_selfcheck(to, NULL), MS_OK);
    ms_close(to);
    return read_all(w, (size_t)report.copied, result);
}

/* All that reads, in a union of this store alone. */
static ms_result do_union(world *w, ms_error *err)
{
    ms_union_desc desc;
    ms_store *all, *log = w->log;
    ms_listing listing;
    const ms_msg *msg;
    size_t seen = 0;
    memset(&desc, 0, sizeof desc);
    desc.stores = &log;
    desc.n_stores = 1;
    desc.alloc = w->heap.alloc;
    ms_result result = ms_union_open(&all, &desc, err);
    if (result != MS_OK) return result;
    w->log = all;
    for (int i = 0; i < ASKED && result == MS_OK; i++)
        result = ask(w, &asked[i], &seen, err);
    if (result == MS_OK) result = ms_list(all, NULL, w->arena, &listing, err);
    if (result == MS_OK) result = read_history(w, &seen, err);
    if (result == MS_OK)
        result = ms_get_by_seq(all, seq_of(w, "second"), w->arena, &msg, err);
    w->log = log;
    ms_close(all);
    return read_all(w, seen, result);
}

/* Rewrites the log to another path, which may have an older log, or to its own. */
static ms_result rewrite(world *w, const char *path, ms_error *err)
{
    ms_log_desc desc = desc_of(w, path);
    desc.shared = false;
    return ms_log_rewrite(w->log, &desc, true, NULL, NULL, err);
}

static ms_result do_export(world *w, ms_error *err) { return rewrite(w, w->other, err); }
static ms_result do_compact(world *w, ms_error *err) { return rewrite(w, w->path, err); }

static ms_result do_verify(world *w, ms_error *err)
{
    ms_log_desc desc = desc_of(w, w->path);
    ms_log_report report;
    ms_result result = ms_log_verify(&desc, &report, err);
    return result == MS_E_DAMAGED && w->damaged ? MS_OK : result;
}

static ms_result do_selfcheck(world *w, ms_error *err)
{
    ms_result result = ms_selfcheck(w->log, err);
    return result == MS_E_DAMAGED && w->damaged ? MS_OK : result;
}

static const char rows_json[] =
    "[{\"role\":\"system\",\"content\":\"x\"},{\"role\":\"user\",\"content\":\"q\"},"
    "{\"role\":\"assistant\",\"content\":\"a long answer, a long answer, a long one\"}]";

static ms_result do_session_store(world *w, ms_error *err)
{
    ms_session session;
    ms_envelopes rows;
    ms_result result =
        ms_session_init(&session, w->log, MS_STR("user"), MS_STR("s"), w->arena, err);
    if (result == MS_OK)
        result = ms_read_list(ms_format_find(MS_STR("session")), ms_str_of(rows_json),
                              NULL, w->arena, &rows, err);
    if (result == MS_OK)
        result = ms_session_store(&session, rows.items, rows.count, w->arena, err);
    return result;
}

static ms_result do_session_read(world *w, ms_error *err)
{
    ms_session session;
    ms_session_load_opts opts;
    ms_envelopes rows;
    ms_listing list;
    const ms_msg *msg;
    char key[MS_ENTITY_KEY_MAX];
    memset(&opts, 0, sizeof opts);
    opts.compress_on_load = true;
    opts.shorten.keep = 4;
    opts.newest = 2;
    ms_result result =
        ms_session_init(&session, w->log, MS_STR("user"), MS_STR("s"), w->arena, err);
    if (result == MS_OK) result = ms_session_load(&session, &opts, w->arena, &rows, err);
    if (result == MS_OK && rows.count > 1) {
        size_t len = test_entity_key(MS_STR("s"), rows.items[1].seq, key);
        result = ms_session_lookup(w->log, MS_STR("user"), ms_str_n(key, len), w->arena,
                                   &msg, err);
    }
    if (result == MS_OK)
        result = ms_session_list(w->log, MS_STR("user"), 0, w->arena, &list, err);
    return result;
}

static ms_result do_task_update(world *w, ms_error *err)
{
    ms_envelope m = ms_user_message(ms_text("another task"));
    ms_task_change change;
    const ms_msg *msg;
    memset(&change, 0, sizeof change);
    change.content = &m;
    change.has_updated_at = true;
    change.updated_at_ns = SECONDS(1700000001);
    return ms_task_update(w->log, MS_STR("task"), MS_STR("task-id"), &change, w->arena,
                          &msg, err);
}

static ms_result do_task_get(world *w, ms_error *err)
{
    const ms_msg *msg;
    return ms_task_get(w->log, MS_STR("task"), MS_STR("task-id"), w->arena, &msg, err);
}

/* ---- the table ---- */

/* What may be shown when an operation has failed: what was there before; or what is
 * there when it is done; or, of several appends, those that were done. */
typedef enum failing { NOTHING, ALL_OR_NOTHING, BY_PARTS } failing;

/* Where an operation runs: in the script of a log, of an arena store; on the image of a
 * handle that writes, and of one that reads. */
enum { ON_LOG = 1, ON_MEM = 2, ON_WRITER = 4, ON_READER = 8 };
enum { SCRIPTS = ON_LOG | ON_MEM, WRITES = ON_WRITER, IMAGES = ON_WRITER | ON_READER,
       ALTERS = SCRIPTS | WRITES, READS = SCRIPTS | IMAGES };

struct step {
    const char *name;         /* the line of a script, where `run` is do_line */
    size_t times;
    int on;
    ms_result (*run)(world *w, ms_error *err);
    int arg, args;            /* a row of the table is `args` steps, from `arg` on */
    failing leaves;
};

#define SAYS(line, times, on) {line, times, on, do_line, 0, 1, NOTHING}
#define DOES(name, on, run) {name, 1, on, run, 0, 1, NOTHING}

static const struct step step_rows[] = {
    DOES("open", READS, do_open),
    SAYS("append first 'the first message'", 1, ALTERS),
    SAYS("append second type=assistant_message agent_key=worker 'the second message'", 1,
         ALTERS),
    SAYS("append keyed type=action tool=tool args:={\"a\":[1,2]} key='a key' "
         "agent_key=worker", 2, ALTERS),
    {"batch", 2, ALTERS, do_batch, 0, 1, NOTHING},
    DOES("compare and append", ALTERS, do_compare),
    DOES("sync", ALTERS, do_sync),
    SAYS("begin w 'so far: '", 1, ALTERS),
    SAYS("feed w 'more '", 2, ALTERS),
    SAYS("feed w", 1, ALTERS),
    DOES("reader", ON_LOG | ON_WRITER, do_reader),
    DOES("recover a stream", WRITES, do_recover),
    SAYS("end w", 1, ALTERS),
    SAYS("amend second type=assistant_message amended", 1, ALTERS),
    SAYS("hide #4", 1, ALTERS),
    SAYS("hide #5", 1, ALTERS),
    SAYS("note first rating good", 1, ALTERS),
    DOES("usage note", ALTERS, do_usage),
    SAYS("facts {\"title\":\"t\"}", 1, ALTERS),
    {"redact", 1, ALTERS, do_redact, 0, 1, BY_PARTS},
    {"redact what is hidden", 1, WRITES, do_redact, 1, 1, BY_PARTS},
    SAYS("fork second branch", 1, ALTERS),
    {"fill", 14, ALTERS, do_fill, 0, 1, NOTHING},
    {"new names", 70, ON_MEM | WRITES, do_new_names, 0, 1, NOTHING},
    {"a large message", 1, ON_MEM | WRITES, do_large, 1, 1, NOTHING},
    {"a large batch", 1, WRITES, do_large, 9, 1, NOTHING},
    DOES("leave out", WRITES, do_leave_out),
    {"tick", 2, ALTERS, do_tick, 0, 1, NOTHING},
    DOES("all ticks", WRITES, do_all_ticks),
    SAYS("in place_1 range #0 #max", 1, ALTERS),
    SAYS("in place_2 rewind #0", 1, ALTERS),
    DOES("read", READS, do_read),
    DOES("queries", SCRIPTS, do_queries),
    {"query", 1, IMAGES, do_query, 0, ASKED, NOTHING},
    DOES("look", READS, do_look),
    {"list", 1, READS, do_list, 0, 2, NOTHING},
    DOES("find", READS, do_find),
    {"history", 1, READS, do_history, 0, 2, NOTHING},
    DOES("union", READS, do_union),
    DOES("store a session", ALTERS, do_session_store),
    DOES("read a session", READS, do_session_read),
    SAYS("in task append task id=task-id time=1700000000 'a task'", 1, SCRIPTS),
    {"update a task", 1, ALTERS, do_task_update, 0, 1, ALL_OR_NOTHING},
    DOES("get a task", READS, do_task_get),
    {"copy", 1, READS, do_copy, 0, 2, NOTHING},
    {"export", 2, SCRIPTS, do_export, 0, 1, NOTHING},
    DOES("selfcheck", ON_MEM | IMAGES, do_selfcheck),
    DOES("close", ON_LOG, do_close),
    DOES("verify", ON_LOG | IMAGES, do_verify),
    DOES("open again", ON_LOG, do_open),
    DOES("read again", ON_LOG, do_read),
    DOES("refresh", READS, do_refresh),
    {"compact", 1, ON_LOG, do_compact, 0, 1, ALL_OR_NOTHING},
    DOES("close the old one", ON_LOG, do_close),
    DOES("open the new one", ON_LOG, do_open),
    DOES("reader of the new one", ON_LOG, do_reader),
    {"fill the new one", 3, ON_LOG, do_fill, 0, 1, NOTHING},
    DOES("sync the new one", ON_LOG, do_sync),
    DOES("look at the new one", ON_LOG, do_look),
    DOES("close at last", SCRIPTS, do_close),
};

static struct step steps[STEPS_MOST];
static size_t n_steps;

static void steps_make(void)
{
    for (size_t i = 0; i < sizeof step_rows / sizeof step_rows[0]; i++)
        for (int k = 0; k < step_rows[i].args; k++) {
            struct step *s = &steps[n_steps++];
            if (n_steps == STEPS_MOST) abort();
            *s = step_rows[i];
            s->arg += k;
        }
}

/* Returns whether a step is a line that begins so. */
static bool step_says(const struct step *s, const char *words)
{
    return s->run == do_line && strncmp(s->name, words, strlen(words)) == 0;
}

/* Makes the call of a step. */
static ms_result step_call(world *w, const struct step *s, ms_error *err)
{
    w->line = s->name;
    w->arg = s->arg;
    return call(w, s->run, err);
}

#endif /* FAULT_STEPS_H */
