/* A fault at every place: each call of the table of file operations, each allocation.
 *
 * One script uses everything that a log is used for: open, append, keys, compare and
 * append, batches, streams, changes of every kind, forks, queries, search, histories,
 * unions, sessions, tasks, a reader beside, copies, a rewrite to another place and onto
 * itself, verify. It runs once without a fault; what the store shows after each step is
 * kept, and is what it has to show after that step in all other runs. Then it runs once
 * for each call k, and that call fails, alone or with all after it.
 *
 *   - A step that fails says so: a code that fits, a sentence, the errno value, the path.
 *   - Then the store shows what it showed before that step, to this handle and to another
 *     process, and no record is damaged; after a failed sync (and where a step has an
 *     effect before its end) what it showed before or after it; of several appends those
 *     that were done. When the trouble is over the step works, on the same handle or a
 *     new one.
 *   - An interrupted read, write, allocation, sync or lock is made again; another
 *     interrupted call fails like that, if at all.
 *   - After a failed sync the handle is poisoned: appends and syncs are refused.
 *   - At the end no file, map or block is left, and no file in the folder.
 *
 * The functions that need memory and no store (dialects, ms_project, shortening, JSON)
 * have each allocation fail in turn. Compound faults: a crash has left a torn end, or
 * has lost what was not synced, or has left half of a rewritten log; while that is put
 * right a call or an allocation fails; then all that was durable is there. Left out:
 * full disks and short writes (test_full), arena stores (test_oom), crashes at each call
 * (test_crash).
 *
 * At MS_TEST_SCALE=100 one error in turn for each call, and each allocation; of those that
 * fail with all after them, and of EINTR, every third; over 600 compound faults. From 1000
 * on every error for every call, 10,000 compound faults.
 */

#define _GNU_SOURCE
#include "logs.h"
#include "projection.h"

static uint64_t file_faults, memory_faults, compound_faults;

static const int errors[] = {EIO,    ENOSPC, EDQUOT, EROFS, EAGAIN, EMFILE,    ENFILE,
                             ENOMEM, EACCES, EFBIG,  EBADF, EINVAL, EOPNOTSUPP, EINTR};
enum { ERRORS = (int)(sizeof errors / sizeof errors[0]), LASTING = ERRORS - 1 };

/* Calls that are made again when they were interrupted. The others fail with EINTR. */
enum {
    REPEATED = TRIP_BIT(READ) | TRIP_BIT(WRITE) | TRIP_BIT(ALLOCATE) | TRIP_BIT(SYNC) |
               TRIP_BIT(LOCK) | TRIP_BIT(SYNC_FOLDER)
};

/* Error number n; no interrupt where it stays, or the call would be made for ever. */
static int error_of(uint64_t n, bool from)
{
    return errors[n % (from ? LASTING : ERRORS)];
}

static uint64_t boot_now = 500;

static uint64_t boot_of(void *ctx)
{
    (void)ctx;
    return boot_now;
}

static int64_t clock_stands(void *ctx)
{
    (void)ctx;
    return SECONDS(1700000000);
}


/* ---- text of everything that a store shows ---- */

/* In the order in which what is done in several appends comes: a redaction amends, then
 * erases notes; a deletion hides, then forgets facts. */
enum { MESSAGES, NOTES, FACTS, PARTS };
enum { TEXT_MOST = 1 << 16 };

typedef struct text {
    char bytes[TEXT_MOST];
    size_t len;
    size_t part[PARTS + 1];   /* where each begins, and the end */
} text;

static void text_add(text *t, ms_str s)
{
    if (s.len > TEXT_MOST - t->len - 2) fail_msg("the store shows too much");
    if (s.len > 0) memcpy(t->bytes + t->len, s.ptr, s.len);
    t->len += s.len;
    t->bytes[t->len++] = '|';
}

static void text_number(text *t, uint64_t n)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    text_add(t, ms_str_of(digits));
}

static bool text_equal(const text *a, const text *b)
{
    return a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

/* Are the parts from one on, before another, the same? */
static bool text_alike(const text *a, const text *b, int from, int to)
{
    size_t x = a->part[from], y = b->part[from], len = a->part[to] - x;
    return b->part[to] - y == len && memcmp(a->bytes + x, b->bytes + y, len) == 0;
}

/* Some parts, from the first one on, as they are after a step; the others as before. */
static bool text_between(const text *t, const text *before, const text *after)
{
    for (int i = 0; i <= PARTS; i++)
        if (text_alike(t, after, 0, i) && text_alike(t, before, i, PARTS)) return true;
    return false;
}

/* A note that is being erased is marked for a while. */
static void text_message(text *t, const ms_msg *msg, int part)
{
    uint32_t told = MS_FLAG_AMENDED | MS_FLAG_UNFINISHED;
    if (part == MESSAGES) told |= MS_FLAG_REDACTED;
    text_number(t, ms_seq(msg));
    text_number(t, (uint64_t)ms_type_of(msg));
    text_number(t, ms_flags(msg) & told);
    text_add(t, test_location(msg));
    text_add(t, test_agent_key(msg));
    text_add(t, ms_get(msg, MS_F_KEY).text);
    text_add(t, ms_get(msg, MS_F_TYPE_NAME).text);
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

/* Of a store that has nothing, or is not there. */
static void text_of_none(text *t)
{
    memset(t->part, 0, sizeof t->part);
    t->len = 0;
    for (int i = 0; i < PLACES; i++) text_add(t, MS_STR("{}"));
    t->part[PARTS] = t->len;
}


/* ---- the world of a script ---- */

enum { STEPS_MOST = 200, NAMES = 16 };

typedef struct world {
    char folder[300], path[340], other[340];
    ms_os base;
    trip t;
    test_alloc heap;
    ms_store *log;
    ms_stream stream;
    ms_log_engine engine;
    ms_sync_mode sync;
    bool shared;
    bool learning;            /* the run without faults */
    uint64_t seq[NAMES];      /* numbers, as that run has learned them */
    text *after[STEPS_MOST];  /* what is shown after each step */
    size_t step, repeat;
    char when[240];
} world;

enum { FIRST, SECOND, KEYED, STREAMED, NOTED, TASKED };

static ms_arena arena_of(world *w)
{
    ms_arena arena;
    test_arena_init(&arena, &w->heap.alloc);
    return arena;
}

static ms_log_desc desc_of(world *w, const char *path)
{
    ms_log_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.path = path;
    desc.os = &w->t.os;
    desc.alloc = w->heap.alloc;
    desc.engine = w->engine;
    desc.sync = w->sync;
    desc.shared = w->shared;
    desc.lock_wait_ms = 1;
    desc.segment_size = MS_LOG_SEGMENT_MIN;
    desc.keep_unset_times = true;
    desc.clock.now = clock_stands;
    return desc;
}

static ms_result learn(world *w, int name, uint64_t seq, ms_result result)
{
    if (result == MS_OK && w->learning) w->seq[name] = seq;
    if (result == MS_OK && w->seq[name] != seq)
        fail_msg("%s: number %llu, should be %llu", w->when, (unsigned long long)seq,
                 (unsigned long long)w->seq[name]);
    return result;
}

/* ---- steps: each is done once, or fails and has done nothing */

static ms_result do_open(world *w, ms_error *err)
{
    ms_log_desc desc = desc_of(w, w->path);
    ms_result result = ms_log_open(&w->log, &desc, err);
    if (result != MS_OK && w->log != NULL) fail_msg("%s: a store is left", w->when);
    if (result == MS_OK) w->stream.store = w->stream.seq != 0 ? w->log : NULL;
    return result;
}

static ms_result do_close(world *w, ms_error *err)
{
    (void)err;
    ms_close(w->log);
    w->log = NULL;
    return MS_OK;
}

static ms_result append_as(world *w, int name, ms_envelope m, ms_error *err)
{
    uint64_t seq = 0;
    ms_result result = ms_append(w->log, MS_STR("job"), &m, &seq, err);
    return name < 0 ? result : learn(w, name, seq, result);
}

static ms_result do_append(world *w, ms_error *err)
{
    ms_envelope m = ms_user_message(ms_text("the first message"));
    return append_as(w, FIRST, m, err);
}

static ms_result do_second(world *w, ms_error *err)
{
    ms_envelope m = ms_assistant_message(ms_text("the second message"));
    m.agent_key = MS_STR("worker");
    return append_as(w, SECOND, m, err);
}

static ms_result do_keyed(world *w, ms_error *err)
{
    ms_envelope m = ms_action(MS_STR("tool"), ms_json(MS_STR("{\"a\":[1,2]}")),
                              ms_str_of(NULL));
    m.key = MS_STR("a key");
    m.agent_key = MS_STR("worker");
    return append_as(w, KEYED, m, err);
}

static ms_result do_batch(world *w, ms_error *err)
{
    ms_envelope batch[4];
    ms_append_opts opts;
    char keys[4][8];
    memset(&opts, 0, sizeof opts);
    opts.location = MS_STR("job");
    for (int i = 0; i < 4; i++) {
        batch[i] = ms_observation(ms_text("one of a batch"), ms_str_of(NULL));
        snprintf(keys[i], sizeof keys[i], "b%d", i);
        batch[i].key = ms_str_of(keys[i]);
    }
    batch[3].agent_key = MS_STR("other");
    return ms_append_batch(w->log, batch, 4, &opts, err);
}

/* Appends when the keyed message is the last one: it is not, that is a conflict; then
 * when what is really the last one is. */
static ms_result do_compare(world *w, ms_error *err)
{
    ms_envelope m = ms_user_message(ms_text("compared"));
    ms_append_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.location = MS_STR("job");
    opts.expect = true;
    opts.expect_seq = w->seq[FIRST];
    ms_result result = ms_append_batch(w->log, &m, 1, &opts, err);
    if (result != MS_E_CONFLICT) return result == MS_OK ? MS_E_CONFLICT : result;
    opts.expect_seq = w->seq[KEYED] + 4;
    return ms_append_batch(w->log, &m, 1, &opts, err);
}

static ms_result do_fill(world *w, ms_error *err)
{
    static char page[700];
    char location[16];
    memset(page, 'a' + (int)(w->repeat % 20), sizeof page - 1);
    ms_envelope m = ms_observation(ms_text_n(ms_str_n(page, 100 + 40 * w->repeat)),
                                   ms_str_of(NULL));
    snprintf(location, sizeof location, "place_%d", (int)(w->repeat % 5));
    return ms_append(w->log, ms_str_of(location), &m, NULL, err);
}

static ms_result do_begin(world *w, ms_error *err)
{
    ms_stream_opts opts;
    ms_envelope m = ms_assistant_message(ms_text("so far: "));
    memset(&opts, 0, sizeof opts);
    opts.every_part = true;
    opts.clock.now = clock_stands;
    ms_result result = ms_stream_begin(&w->stream, w->log, MS_STR("job"), &m, &opts, err);
    return learn(w, STREAMED, w->stream.seq, result);
}

static ms_result do_feed(world *w, ms_error *err)
{
    return ms_stream_feed(&w->stream, MS_STR("more "), err);
}

static ms_result do_flush(world *w, ms_error *err)
{
    return test_stream_flush(&w->stream, err);
}

static ms_result do_end(world *w, ms_error *err)
{
    ms_arena arena = arena_of(w);
    ms_result result = ms_stream_end(&w->stream, NULL, &arena, err);
    if (result == MS_OK) memset(&w->stream, 0, sizeof w->stream);
    ms_arena_deinit(&arena);
    return result;
}

static ms_result do_amend(world *w, ms_error *err)
{
    ms_envelope m = ms_assistant_message(ms_text("amended"));
    return ms_amend(w->log, w->seq[SECOND], &m, err);
}

static ms_result do_hide(world *w, ms_error *err)
{
    ms_result result = ms_hide(w->log, w->seq[KEYED] + 1 + w->repeat, err);
    return result == MS_E_HIDDEN ? MS_OK : result;
}

static ms_result do_hide_range(world *w, ms_error *err)
{
    return ms_hide_range(w->log, MS_STR("place_1"), 0, UINT64_MAX, NULL, err);
}

static ms_result do_rewind(world *w, ms_error *err)
{
    return ms_rewind(w->log, MS_STR("place_2"), 0, NULL, err);
}

static ms_result do_note(world *w, ms_error *err)
{
    return ms_note(w->log, w->seq[FIRST], MS_STR("rating"), ms_text("good"), err);
}

static ms_result do_usage(world *w, ms_error *err)
{
    ms_usage usage;
    memset(&usage, 0, sizeof usage);
    usage.input_tokens = 7;
    return ms_note_usage(w->log, w->seq[SECOND], &usage, err);
}

static ms_result do_facts(world *w, ms_error *err)
{
    return ms_location_set(w->log, MS_STR("job"), MS_STR("{\"title\":\"t\"}"), err);
}

static ms_result do_redact(world *w, ms_error *err)
{
    return ms_redact(w->log, w->seq[FIRST], err);
}

static ms_result do_fork(world *w, ms_error *err)
{
    ms_arena arena = arena_of(w);
    ms_result result = ms_fork(w->log, MS_STR("job"), w->seq[SECOND], MS_STR("branch"),
                               &arena, err);
    ms_arena_deinit(&arena);
    return result;
}

static ms_result do_sync(world *w, ms_error *err) { return ms_sync(w->log, NULL, err); }
static ms_result do_tick(world *w, ms_error *err) { return ms_tick(w->log, 500, err); }

static ms_result do_refresh(world *w, ms_error *err)
{
    return test_refresh(w->log, NULL, err);
}

/* What is read without trouble is what is there. */
static ms_result read_as(world *w, ms_store *store, ms_error *err)
{
    static text now;
    ms_result result = text_of(&now, store, &w->heap.alloc, err);
    if (result != MS_OK || w->learning) return result;
    if (!text_equal(&now, w->after[w->step])) fail_msg("%s: it reads otherwise", w->when);
    return MS_OK;
}

static ms_result do_read(world *w, ms_error *err) { return read_as(w, w->log, err); }

static ms_result query_all(ms_store *store, const ms_query *q, ms_error *err)
{
    ms_cursor it;
    ms_result result = ms_query_open(store, q, &it, err);
    while (ms_next(&it) != NULL) continue;
    ms_result closed = ms_cursor_close(&it, result == MS_OK ? err : NULL);
    return result != MS_OK ? result : closed;
}

static ms_result do_queries(world *w, ms_error *err)
{
    ms_arena arena = arena_of(w);
    ms_str team[] = {MS_STR("worker"), MS_STR("other")};
    ms_query q;
    memset(&q, 0, sizeof q);
    q.arena = &arena;
    q.location = MS_STR("job");
    q.views = MS_VIEW_CONVERSATION | MS_VIEW_AGENT | MS_VIEW_TEAM | MS_VIEW_GLOBAL;
    q.agent_key = team[0];
    q.agent_keys = team;
    q.n_agent_keys = 2;
    ms_result result = query_all(w->log, &q, err);
    q.by_time = true;
    if (result == MS_OK) result = query_all(w->log, &q, err);
    q.by_time = false;
    q.limit = 3;
    q.reverse = true;
    if (result == MS_OK) result = query_all(w->log, &q, err);
    q.views = 0;
    q.raw = MS_RAW_ALL;
    q.about_seq = w->seq[SECOND];
    if (result == MS_OK) result = query_all(w->log, &q, err);
    ms_arena_deinit(&arena);
    return result;
}

static ms_result do_look(world *w, ms_error *err)
{
    ms_arena arena = arena_of(w);
    ms_list_query q;
    ms_listing listing;
    ms_stat stat;
    ms_log_info info;
    const ms_msg *msg;
    memset(&q, 0, sizeof q);
    ms_result result = ms_list(w->log, &q, &arena, &listing, err);
    q.agents = true;
    if (result == MS_OK) result = ms_list(w->log, &q, &arena, &listing, err);
    if (result == MS_OK) result = ms_store_stat(w->log, &stat, err);
    if (result == MS_OK) result = ms_log_stat(w->log, &info, err);
    if (result == MS_OK)
        result = ms_get_by_seq(w->log, w->seq[SECOND], &arena, &msg, err);
    ms_arena_deinit(&arena);
    return result;
}

static ms_result do_find(world *w, ms_error *err)
{
    ms_find_query q;
    ms_finder finder;
    ms_found found;
    memset(&q, 0, sizeof q);
    q.text = MS_STR("AMEND");
    ms_result result = ms_find_open(w->log, &q, &finder, err);
    if (result != MS_OK) return result;
    while (ms_find_next(&finder, &found)) continue;
    return ms_find_close(&finder, err);
}

static ms_result do_history(world *w, ms_error *err)
{
    ms_arena arena = arena_of(w);
    ms_str team[] = {MS_STR("other")};
    ms_memory memory;
    ms_cursor it;
    ms_memory_init(&memory, w->log, MS_STR("job"), MS_STR("worker"));
    memory.subordinates = team;
    memory.n_subordinates = 1;
    memory.by_time = true;
    memory.arena = &arena;
    ms_result result = ms_get_history(&memory, &it, err);
    while (ms_next(&it) != NULL) continue;
    ms_result closed = ms_cursor_close(&it, result == MS_OK ? err : NULL);
    ms_arena_deinit(&arena);
    return result != MS_OK ? result : closed;
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

static ms_result do_copy(world *w, ms_error *err)
{
    ms_mem_desc desc;
    ms_store *to;
    ms_arena arena = arena_of(w);
    memset(&desc, 0, sizeof desc);
    desc.alloc = w->heap.alloc;
    ms_result result = ms_mem_open(&to, &desc, err);
    if (result == MS_OK) result = ms_copy(to, w->log, NULL, &arena, NULL, err);
    ms_close(to);
    ms_arena_deinit(&arena);
    return result;
}

static ms_result do_union(world *w, ms_error *err)
{
    ms_union_desc desc;
    ms_store *all;
    ms_query q;
    memset(&desc, 0, sizeof desc);
    memset(&q, 0, sizeof q);
    desc.stores = &w->log;
    desc.n_stores = 1;
    desc.alloc = w->heap.alloc;
    ms_result result = ms_union_open(&all, &desc, err);
    if (result != MS_OK) return result;
    result = query_all(all, &q, err);
    ms_close(all);
    return result;
}

/* To another place, where nothing or an older one stands; and onto itself. */
static ms_result do_export(world *w, ms_error *err)
{
    ms_log_desc desc = desc_of(w, w->other);
    desc.shared = false;
    return ms_log_rewrite(w->log, &desc, true, NULL, NULL, err);
}

static ms_result do_compact(world *w, ms_error *err)
{
    ms_log_desc desc = desc_of(w, w->path);
    desc.shared = false;
    return ms_log_rewrite(w->log, &desc, true, NULL, NULL, err);
}

static ms_result do_verify(world *w, ms_error *err)
{
    ms_log_desc desc = desc_of(w, w->path);
    ms_log_report report;
    return ms_log_verify(&desc, &report, err);
}

static ms_result do_session_store(world *w, ms_error *err)
{
    ms_session session;
    ms_envelopes rows;
    ms_arena arena = arena_of(w);
    ms_result result =
        ms_session_init(&session, w->log, MS_STR("user"), MS_STR("s"), &arena, err);
    if (result == MS_OK)
        result = ms_read_list(
            ms_dialect_find(MS_STR("session")),
            MS_STR("[{\"role\":\"system\",\"content\":\"x\"},{\"role\":\"user\","
                   "\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"a\"}]"),
            NULL, &arena, &rows, err);
    if (result == MS_OK)
        result = ms_session_store(&session, rows.items, rows.count, &arena, err);
    ms_arena_deinit(&arena);
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
    ms_arena arena = arena_of(w);
    memset(&opts, 0, sizeof opts);
    opts.compress_on_load = true;
    ms_result result =
        ms_session_init(&session, w->log, MS_STR("user"), MS_STR("s"), &arena, err);
    if (result == MS_OK) result = ms_session_load(&session, &opts, &arena, &rows, err);
    if (result == MS_OK) {
        size_t len = test_entity_key(MS_STR("s"), rows.items[1].seq, key);
        result = ms_session_lookup(w->log, MS_STR("user"), ms_str_n(key, len), &arena,
                                   &msg, err);
    }
    if (result == MS_OK)
        result = ms_session_list(w->log, MS_STR("user"), 0, &arena, &list, err);
    ms_arena_deinit(&arena);
    return result;
}

static ms_result do_task_create(world *w, ms_error *err)
{
    ms_envelope m = ms_user_message(ms_text("a task"));
    uint64_t seq = 0;
    m.id = MS_STR("task-id");
    m.has_time = true;
    m.time_ns = SECONDS(1700000000);
    ms_result result = ms_append(w->log, MS_STR("task"), &m, &seq, err);
    return learn(w, TASKED, seq, result);
}

static ms_result do_task_update(world *w, ms_error *err)
{
    ms_envelope m = ms_user_message(ms_text("another task"));
    ms_task_change change;
    const ms_msg *msg;
    ms_arena arena = arena_of(w);
    memset(&change, 0, sizeof change);
    change.content = &m;
    change.has_updated_at = true;
    change.updated_at_ns = SECONDS(1700000001);
    ms_result result = ms_task_update(w->log, MS_STR("task"), MS_STR("task-id"), &change,
                                      &arena, &msg, err);
    ms_arena_deinit(&arena);
    return result;
}

/* What may be shown when a step has failed: what was there before; or what is there when
 * it is done, of one with an effect before its end; or, of several appends, those that
 * were done. */
typedef enum failing { NOTHING, ALL_OR_NOTHING, BY_PARTS } failing;

static const struct step {
    const char *name;
    size_t times;
    failing leaves;
    ms_result (*run)(world *w, ms_error *err);
} steps[] = {
    {"open", 1, NOTHING, do_open},
    {"append", 1, NOTHING, do_append},
    {"second append", 1, NOTHING, do_second},
    {"keyed append", 2, NOTHING, do_keyed},
    {"batch", 2, NOTHING, do_batch},
    {"compare and append", 1, NOTHING, do_compare},
    {"sync", 1, NOTHING, do_sync},
    {"begin a stream", 1, NOTHING, do_begin},
    {"feed", 2, NOTHING, do_feed},
    {"flush", 1, NOTHING, do_flush},
    {"reader", 1, NOTHING, do_reader},
    {"end a stream", 1, NOTHING, do_end},
    {"amend", 1, NOTHING, do_amend},
    {"hide", 2, NOTHING, do_hide},
    {"note", 1, NOTHING, do_note},
    {"usage note", 1, NOTHING, do_usage},
    {"facts", 1, NOTHING, do_facts},
    {"fork", 1, NOTHING, do_fork},
    {"redact", 1, BY_PARTS, do_redact},
    {"fill", 14, NOTHING, do_fill},
    {"tick", 2, NOTHING, do_tick},
    {"hide a range", 1, NOTHING, do_hide_range},
    {"rewind", 1, NOTHING, do_rewind},
    {"read", 1, NOTHING, do_read},
    {"queries", 1, NOTHING, do_queries},
    {"look", 1, NOTHING, do_look},
    {"find", 1, NOTHING, do_find},
    {"history", 1, NOTHING, do_history},
    {"union", 1, NOTHING, do_union},
    {"store a session", 1, NOTHING, do_session_store},
    {"read a session", 1, NOTHING, do_session_read},
    {"create a task", 1, NOTHING, do_task_create},
    {"update a task", 1, NOTHING, do_task_update},
    {"copy", 1, NOTHING, do_copy},
    {"export", 2, NOTHING, do_export},
    {"close", 1, NOTHING, do_close},
    {"verify", 1, NOTHING, do_verify},
    {"open again", 1, NOTHING, do_open},
    {"read again", 1, NOTHING, do_read},
    {"refresh", 1, NOTHING, do_refresh},
    {"compact", 1, ALL_OR_NOTHING, do_compact},
    {"close the old one", 1, NOTHING, do_close},
    {"open the new one", 1, NOTHING, do_open},
    {"reader of the new one", 1, NOTHING, do_reader},
    {"fill the new one", 3, NOTHING, do_fill},
    {"sync the new one", 1, NOTHING, do_sync},
    {"look at the new one", 1, NOTHING, do_look},
    {"close at last", 1, NOTHING, do_close},
};

enum { STEPS = (int)(sizeof steps / sizeof steps[0]) };


/* ---- running it ---- */

static void world_quiet(world *w)
{
    w->t.at = 0;
    w->heap.fail_at = 0;
}

/* What another process reads from the file, without trouble. */
static void text_at_path(world *w, text *out)
{
    ms_log_desc desc = desc_of(w, w->path);
    ms_store *reader;
    ms_error err;
    desc.mode = MS_LOG_READ;
    desc.shared = false;
    if (ms_log_open(&reader, &desc, &err) == MS_E_NOT_FOUND) {
        text_of_none(out);
        return;
    }
    if (reader == NULL) fail_msg("%s, then a reader: %s", w->when, err.message);
    if (text_of(out, reader, NULL, &err) != MS_OK)
        fail_msg("%s, then a reader reads: %s", w->when, err.message);
    ms_close(reader);
}

static void describe(world *w, const struct step *s)
{
    snprintf(w->when, sizeof w->when,
             "%s (%zu) with errno %d at call %llu%s (%s), or allocation %zu%s", s->name,
             w->repeat, w->t.code, (unsigned long long)w->t.at, w->t.from ? " on" : "",
             trip_word((int)w->t.last_hit), w->heap.fail_at,
             w->heap.fail_from ? " on" : "");
}

/* A lock that could not be given back is kept until the handle is closed. */
static bool is_locked_in(const world *w)
{
    return w->t.hits != 0 && w->t.last_hit == CALL_UNLOCK;
}

/* The code fits the fault, the error says what was tried, where, and errno. */
static void must_explain(world *w, ms_result result, const ms_error *err, int code)
{
    bool memory = w->heap.failed != 0, fits = false;
    if (err->code != result || err->message[0] == '\0')
        fail_msg("%s: %s without a sentence", w->when, ms_result_text(result));
    if (result == MS_E_NO_MEMORY || result == MS_E_ARENA) fits = memory || code == ENOMEM;
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
    return w->log != NULL && ms_log_stat(w->log, &info, NULL) == MS_OK && info.poisoned;
}

/* Appends and syncs are refused, reading goes on. */
static void must_be_poisoned(world *w)
{
    static text now;
    ms_envelope m = ms_user_message(ms_text("refused"));
    ms_error err;
    if (ms_append(w->log, MS_STR("job"), &m, NULL, &err) != MS_E_POISONED)
        fail_msg("%s, then an append is not refused", w->when);
    if (ms_sync(w->log, NULL, &err) != MS_E_POISONED)
        fail_msg("%s, then a sync is not refused", w->when);
    if (text_of(&now, w->log, NULL, &err) != MS_OK)
        fail_msg("%s, poisoned, reading: %s", w->when, err.message);
}

static void reopen(world *w)
{
    ms_error err;
    uint64_t seq = w->stream.seq;
    if (w->log != NULL) do_close(w, NULL);
    w->stream.seq = seq;
    if (do_open(w, &err) != MS_OK) fail_msg("%s, then open: %s", w->when, err.message);
}

/* What is shown now: before the step, after it, or (by parts) in between. Returns whether
 * the step has been done. */
static bool must_show(world *w, const text *now, const text *before, const text *after,
                      failing leaves)
{
    bool same = text_equal(now, before), done = text_equal(now, after);
    if (same) return false;
    if (done && leaves != NOTHING) return true;
    if (leaves == BY_PARTS && text_between(now, before, after)) return false;
    fail_msg("%s: it shows %s\n  now    %.*s\n  before %.*s\n  after  %.*s", w->when,
             done ? "what failed" : "something else", (int)now->len, now->bytes,
             (int)before->len, before->bytes, (int)after->len, after->bytes);
    return false;
}

/* What this handle shows: the same as a reader that has just come; a file that another
 * one was put in the place of stays as it was. */
static void handle_must_show(world *w, const struct step *s, const text *at_path,
                             const text *before)
{
    static text now;
    ms_error err;
    if (w->log == NULL) return;
    if (text_of(&now, w->log, NULL, &err) != MS_OK)
        fail_msg("%s, then reading: %s", w->when, err.message);
    const text *want = s->run == do_compact ? before : at_path;
    if (!text_equal(&now, want))
        fail_msg("%s: this handle shows something else\n  now    %.*s\n  should %.*s",
                 w->when, (int)now.len, now.bytes, (int)want->len, want->bytes);
}

/* Whatever failed, no record is damaged. */
static void must_be_whole(world *w)
{
    ms_log_desc desc = desc_of(w, w->path);
    ms_log_report report;
    ms_error err;
    ms_result result = ms_log_verify(&desc, &report, &err);
    if (result != MS_OK && result != MS_E_NOT_FOUND)
        fail_msg("%s, then verify: %s", w->when, err.message);
}

/* A step has failed. True: what it was to do is there all the same. */
static bool after_failure(world *w, const struct step *s, const text *before,
                          const text *after)
{
    static text now;
    ms_error err;
    bool opens = s->run == do_open, poisoned = is_poisoned(w), done;
    failing leaves = poisoned && s->leaves == NOTHING ? ALL_OR_NOTHING : s->leaves;
    if (poisoned) must_be_poisoned(w);
    text_at_path(w, &now);
    done = must_show(w, &now, before, after, leaves);
    handle_must_show(w, s, &now, before);
    must_be_whole(w);
    bool kept = (w->t.all_hit >> CALL_UNLOCK & 1) != 0; /* perhaps since an earlier call */
    bool anew = poisoned || is_locked_in(w) ||
                (!opens && (kept || w->t.calls % 2 == 0) && w->log != NULL);
    if (!anew) return done;
    reopen(w);
    if (text_of(&now, w->log, NULL, &err) != MS_OK)
        fail_msg("%s, opened anew: %s", w->when, err.message);
    return must_show(w, &now, before, after, leaves);
}

/* A step that failed and is there all the same: the stream as it would be without. */
static void stream_follows(world *w, const struct step *s)
{
    if (s->run != do_begin && s->run != do_end) return;
    memset(&w->stream, 0, sizeof w->stream);
    if (s->run == do_end) return;
    w->stream.store = w->log;
    w->stream.seq = w->seq[STREAMED];
    w->stream.opts.every_part = true;
    w->stream.opts.clock.now = clock_stands;
}

static void run_step(world *w, const struct step *s, const text *before, text *after)
{
    ms_error err;
    memset(&err, 0, sizeof err);
    uint64_t faults = w->t.hits + w->heap.failed;
    ms_result result = s->run(w, &err);
    if (w->learning && result != MS_OK) fail_msg("%s: %s", s->name, err.message);
    if (result == MS_OK) return;
    int code = w->t.code;
    describe(w, s);
    if (w->t.hits + w->heap.failed == faults && !is_locked_in(w))
        fail_msg("%s: without a fault: %s", w->when, err.message);
    if (w->t.hits != 0 && code == EINTR && (REPEATED >> (unsigned)w->t.last_hit & 1))
        fail_msg("%s: it is not made again: %s", w->when, err.message);
    must_explain(w, result, &err, code);
    if (w->t.from || w->heap.fail_from) /* it stays as it is */
        for (int i = 0; i < 2 && result != MS_OK; i++) result = s->run(w, &err);
    world_quiet(w);
    if (result == MS_OK && !is_poisoned(w)) return;
    bool done = after_failure(w, s, before, after);
    if (done) stream_follows(w, s);
    for (int i = 0; !done && i < 2 && result != MS_OK; i++) result = s->run(w, &err);
    if (!done && result != MS_OK) fail_msg("%s, then again: %s", w->when, err.message);
}

static text *text_for(world *w, size_t i)
{
    if (i >= STEPS_MOST) abort();
    if (w->after[i] == NULL) w->after[i] = (text *)calloc(1, sizeof(text));
    if (w->after[i] == NULL) abort();
    return w->after[i];
}

static void world_end(world *w)
{
    static text now;
    world_quiet(w);
    if (!w->learning) text_at_path(w, &now);
    if (!w->learning && !text_equal(&now, w->after[w->step]))
        fail_msg("%s: at the end it shows something else", w->when);
    if (w->t.files != 0 || w->t.maps != 0)
        fail_msg("%s: %d files and %d maps are left open", w->when, w->t.files,
                 w->t.maps);
    bool kept = w->t.hits != 0 && (w->t.from || w->t.last_hit == CALL_REMOVE);
    if (!kept && folder_count(w->folder) != 2)
        fail_msg("%s: %zu files are in the folder", w->when, folder_count(w->folder));
    test_alloc_done(&w->heap);
    folder_empty(w->folder);
}

/* The whole script; the fault was set before. True when there was none. */
static bool run_script(world *w)
{
    size_t n = 0;
    memset(&w->stream, 0, sizeof w->stream);
    w->log = NULL;
    text *before = text_for(w, n++);
    text_of_none(before);
    for (size_t i = 0; i < STEPS; i++)
        for (w->repeat = 0; w->repeat < steps[i].times; w->repeat++) {
            text *after = text_for(w, n);
            w->step = n++;
            run_step(w, &steps[i], before, after);
            if (w->learning) text_at_path(w, after);
            before = after;
        }
    bool whole = w->t.hits + w->heap.failed == 0;
    world_end(w);
    return whole;
}

static void world_reset(world *w)
{
    trip_init(&w->t, &w->base);
    test_alloc_init(&w->heap);
    snprintf(w->when, sizeof w->when, "without a fault");
}

static world *world_new(ms_log_engine engine, ms_sync_mode sync, bool shared)
{
    world *w = (world *)calloc(1, sizeof *w);
    if (w == NULL) abort();
    w->base = os_without_sync();
    w->base.boot = boot_of;
    folder_make(w->folder, sizeof w->folder);
    snprintf(w->path, sizeof w->path, "%s/log.msl", w->folder);
    snprintf(w->other, sizeof w->other, "%s/other.msl", w->folder);
    w->engine = engine;
    w->sync = sync;
    w->shared = shared;
    world_reset(w);
    w->learning = true;
    assert_true(run_script(w));
    w->learning = false;
    return w;
}

static void world_free(world *w)
{
    for (size_t i = 0; i < STEPS_MOST; i++) free(w->after[i]);
    folder_remove(w->folder);
    free(w);
}

/* One in how many calls is tried: from scale 100 on one in `usual`, from 1000 on all. */
static size_t call_stride(size_t usual)
{
    return test_scale() >= 1000 ? 1 : test_scale() >= 100 ? usual : (100 / test_scale()) | 1;
}

static void fail_calls(world *w, bool from)
{
    size_t stride = call_stride(from ? 3 : 1), all = from ? LASTING : ERRORS;
    size_t each = test_scale() >= 1000 ? all : 1, runs = 0;
    bool done = false;
    for (size_t k = 1 + test_seed() % stride; !done; k += stride)
        for (size_t i = 0; i < each && !done; i++) {
            world_reset(w);
            w->t.how = TRIP_FAIL;
            w->t.at = k;
            w->t.from = from;
            w->t.code = error_of(k * 5 + i + test_seed() % all, from);
            done = run_script(w);
            runs += !done;
        }
    file_faults += runs;
}

static void fail_allocations(world *w, bool from)
{
    size_t stride = call_stride(from ? 3 : 1);
    bool done = false;
    for (size_t k = 1 + test_seed() % stride; !done; k += stride) {
        world_reset(w);
        w->heap.fail_at = k;
        w->heap.fail_from = from;
        done = run_script(w);
        memory_faults += !done;
    }
}

typedef struct config {
    ms_log_engine engine;
    ms_sync_mode sync;
    bool shared;
} config;

static config configs[] = {
    {MS_ENGINE_MAP, MS_SYNC_NONE, false},
    {MS_ENGINE_WRITE, MS_SYNC_EACH, false},
    {MS_ENGINE_WRITE, MS_SYNC_NONE, true},
};

static void each_file_operation_of_the_script_fails(void **state)
{
    const config *c = (const config *)*state;
    world *w = world_new(c->engine, c->sync, c->shared);
    fail_calls(w, false);
    fail_calls(w, true);
    world_free(w);
}

static void each_allocation_of_the_script_fails(void **state)
{
    const config *c = (const config *)*state;
    world *w = world_new(c->engine, c->sync, c->shared);
    fail_allocations(w, false);
    fail_allocations(w, true);
    world_free(w);
}

/* Each call in turn is interrupted, once; or all from one on, of those that are not made
 * again. */
static void interrupt_calls(world *w, bool from)
{
    size_t stride = call_stride(3);
    bool done = false;
    for (size_t k = 1 + test_seed() % stride; !done; k += stride) {
        world_reset(w);
        w->t.how = TRIP_FAIL;
        if (from) w->t.kinds = TRIP_ALL & ~(unsigned)REPEATED;
        w->t.at = k;
        w->t.from = from;
        w->t.code = EINTR;
        done = run_script(w);
        file_faults += !done;
    }
}

/* A call that was interrupted is made again, or fails as by another error. */
static void each_call_of_the_script_is_interrupted(void **state)
{
    const config *c = (const config *)*state;
    world *w = world_new(c->engine, c->sync, c->shared);
    interrupt_calls(w, false);
    interrupt_calls(w, true);
    world_free(w);
}

/* ---- functions that need memory and no store ---- */

enum { STORY = 8 };

/* Messages that every format has a form for, with a long text and escapes. */
static const ms_envelope *story(void)
{
    static ms_envelope m[STORY];
    static char page[1500];
    memset(page, 'l', sizeof page);
    memset(m, 0, sizeof m);
    m[0] = ms_user_message(ms_text("a \"question\"\n\xc3\xa9"));
    m[1] = ms_assistant_message(ms_text_n(ms_str_n(page, sizeof page)));
    m[2] = ms_action(MS_STR("a tool"), ms_json(MS_STR("{\"a\":[1,\"\\u00e9\\n\"]}")),
                     ms_str_of(NULL));
    m[2].call_id = MS_STR("call 1");
    m[3] = ms_observation(ms_json(MS_STR("{\"b\":\"\\\"\"}")), ms_str_of(NULL));
    m[3].call_id = MS_STR("call 1");
    m[3].tool = MS_STR("a tool");
    m[4] = ms_assistant_message(ms_text("an answer"));
    m[5] = ms_user_message(ms_text("once more"));
    m[6] = ms_user_message(ms_text("and more"));
    m[7] = ms_action(MS_STR("a tool"), ms_json(MS_STR("{}")), ms_str_of(NULL));
    for (int i = 0; i < STORY; i++) {
        m[i].has_time = true;
        m[i].time_ns = SECONDS(1700000000 + i);
        m[i].location = MS_STR("job");
        m[i].agent_key = i == 5 ? MS_STR("other") : MS_STR("worker");
    }
    return m;
}

typedef struct pure {
    ms_arena arena;           /* over the allocator that fails */
    ms_buf buf;               /* in it: what was written */
    size_t which;             /* dialect or profile */
    const ms_msg *messages[STORY]; /* the story, encoded without faults */
    size_t next;
} pure;

static const ms_msg *pure_next(void *ctx)
{
    pure *p = (pure *)ctx;
    return p->next < STORY ? p->messages[p->next++] : NULL;
}

/* Writes the story in a dialect, and reads that. */
static ms_result pure_dialect(pure *p, ms_error *err)
{
    const ms_dialect *dialect = ms_dialect_at(p->which);
    ms_writer_opts opts;
    ms_writer w;
    ms_envelopes read;
    ms_read_opts how;
    memset(&opts, 0, sizeof opts);
    memset(&how, 0, sizeof how);
    opts.array = opts.with_location = true;
    how.lenient = true;
    ms_writer_init(&w, dialect, &opts, &p->arena, ms_buf_write, &p->buf);
    ms_result result = MS_OK;
    for (int i = 0; i < STORY && result == MS_OK; i++)
        result = ms_writer_put(&w, &story()[i], err);
    if (result == MS_OK) result = ms_writer_finish(&w, err);
    if (result == MS_OK)
        result = ms_read_list(dialect, ms_buf_text(&p->buf), &how, &p->arena, &read, err);
    return result;
}

static ms_result pure_project(pure *p, ms_error *err)
{
    ms_project_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.agent_key = MS_STR("worker");
    opts.system = MS_STR("be kind");
    opts.shorten = true;
    opts.newest = 7;
    p->next = 0;
    return projection_write(ms_profile_at(p->which), &opts, pure_next, p, &p->arena,
                      ms_buf_write, &p->buf, NULL, err);
}

static ms_result pure_shorten(pure *p, ms_error *err)
{
    ms_envelope m = story()[1];
    ms_result result =
        ms_shorten_message(&m, NULL, MS_STR("session-s-msg-1"), &p->arena, err);
    if (result == MS_OK)
        result = ms_buf_write(&p->buf, m.content.text.ptr, m.content.text.len);
    return result;
}

static ms_result pure_small(pure *p, ms_error *err)
{
    ms_str out;
    ms_envelope copy;
    const ms_msg *msg;
    ms_result result =
        ms_json_string(MS_STR("\"a\\u00e9\\n and some more\""), &p->arena, &out);
    if (result == MS_OK) result = ms_envelope_copy(&story()[2], &p->arena, &copy);
    if (result == MS_OK) result = ms_encode(&copy, &p->arena, &msg, err);
    for (int i = 0; i < 100 && result == MS_OK; i++)
        result = ms_buf_write(&p->buf, "0123456789012345678901234567890123456789", 40);
    return result;
}

static const struct pure_step {
    const char *name;
    size_t variants;
    ms_result (*run)(pure *p, ms_error *err);
} pure_steps[] = {
    {"dialect", 10, pure_dialect},   {"project", 5, pure_project},
    {"shorten", 1, pure_shorten},    {"small ones", 1, pure_small},
};

/* Runs a function with the fault as it is set; what it wrote goes to out. */
static ms_result pure_run(const struct pure_step *s, pure *p, test_alloc *heap, text *out,
                          ms_error *err)
{
    memset(err, 0, sizeof *err);
    memset(&p->buf, 0, sizeof p->buf);
    test_arena_init(&p->arena, &heap->alloc);
    p->buf.arena = &p->arena;
    ms_result result = s->run(p, err);
    out->len = 0;
    if (result == MS_OK) text_add(out, ms_buf_text(&p->buf));
    ms_arena_deinit(&p->arena);
    test_alloc_done(heap);
    return result;
}

static void pure_fails(const struct pure_step *s, pure *p, bool from)
{
    static text want, got;
    test_alloc heap;
    ms_error err;
    test_alloc_init(&heap);
    ms_result expected = pure_run(s, p, &heap, &want, &err), result;
    for (size_t k = 1;; k++) {
        test_alloc_init(&heap);
        heap.fail_at = k;
        heap.fail_from = from;
        result = pure_run(s, p, &heap, &got, &err);
        if (heap.failed == 0) break;
        memory_faults++;
        bool memory = result == MS_E_NO_MEMORY || result == MS_E_ARENA;
        if (!memory && (result != expected || !text_equal(&want, &got)))
            fail_msg("%s %zu, allocation %zu%s: %s (%s)", s->name, p->which, k,
                     from ? " on" : "", ms_result_text(result), err.message);
    }
    if (result != expected || !text_equal(&want, &got))
        fail_msg("%s %zu: it gives something else the second time", s->name, p->which);
}

static void each_allocation_without_a_store_fails(void **state)
{
    pure p;
    ms_arena messages;
    (void)state;
    memset(&p, 0, sizeof p);
    test_arena_init(&messages, NULL);
    for (int i = 0; i < STORY; i++)
        assert_int_equal(ms_encode(&story()[i], &messages, &p.messages[i], NULL), MS_OK);
    for (size_t i = 0; i < sizeof pure_steps / sizeof pure_steps[0]; i++)
        for (p.which = 0; p.which < pure_steps[i].variants; p.which++) {
            pure_fails(&pure_steps[i], &p, false);
            pure_fails(&pure_steps[i], &p, true);
        }
    ms_arena_deinit(&messages);
}


/* ---- a fault while a crash is put right ---- */

enum { CRASHES = 4 };

typedef struct wreck {
    world *w;
    scribe s;
    uint64_t rng;
    uint64_t last, durable;   /* numbers: appended; known to be durable */
    uint64_t durable_end;
    unsigned char *bytes;
    size_t size;
    int crash;
} wreck;

static const char *const crash_names[CRASHES] = {
    "a torn end", "what was not synced is lost", "half of a rewritten log",
    "stale bytes"};

/* A log of some messages: some durable, some not. The file is kept as it stands while its
 * writer lives. */
static void wreck_write(wreck *k)
{
    world *w = k->w;
    ms_log_desc desc = desc_of(w, w->path);
    ms_store *store;
    ms_error err;
    ms_log_info info;
    size_t count, n = 10 + test_below(&k->rng, 30);
    desc.sync = MS_SYNC_NONE;
    k->last = k->durable = 0;
    k->s.salt = test_random(&k->rng);
    k->s.longest = 500;
    boot_now = 500;
    if (ms_log_open(&store, &desc, &err) != MS_OK) fail_msg("%s", err.message);
    for (size_t i = 0; i < n; i++) {
        if (scribe_append(&k->s, store, k->last + 1, NULL, &count, &err) != MS_OK)
            fail_msg("%s", err.message);
        k->last += count;
        if (!test_one_in(&k->rng, 8)) continue;
        assert_int_equal(ms_sync(store, NULL, NULL), MS_OK);
        k->durable = k->last;
    }
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    k->durable_end = info.durable_end;
    k->bytes = (unsigned char *)read_file(w->path, &k->size);
    if (k->bytes == NULL) abort();
    ms_close(store);
}

/* What the crash has left at the path. */
static void wreck_crash(wreck *k)
{
    world *w = k->w;
    size_t from = k->durable_end < 4096 ? 4096 : (size_t)k->durable_end;
    size_t at = from + (size_t)test_below(&k->rng, k->size - from + 1);
    char part[400];
    folder_empty(w->folder);
    boot_now++;
    if (k->crash == 0 && at < k->size) memset(k->bytes + at, 0, k->size - at);
    if (k->crash == 1) memset(k->bytes + from, 0, k->size - from);
    if (k->crash == 3 && at < k->size) test_fill(&k->rng, k->bytes + at, k->size - at);
    if (!write_file(w->path, k->bytes, k->size)) abort();
    snprintf(part, sizeof part, "%s.compacting", w->path);
    if (k->crash == 2 && !write_file(part, k->bytes, at)) abort();
}

/* Opened, appended to, synced, read; whatever fails, says so. */
static void wreck_recover(wreck *k)
{
    world *w = k->w;
    ms_log_desc desc = desc_of(w, w->path);
    ms_store *store;
    ms_error err;
    tally t;
    size_t count;
    if (ms_log_open(&store, &desc, &err) != MS_OK) {
        if (w->t.hits + w->heap.failed == 0) fail_msg("%s: %s", w->when, err.message);
        must_explain(w, err.code, &err, w->t.code);
        return;
    }
    if (!scribe_read(&k->s, store, false, NULL, &t) && t.result == MS_OK)
        fail_msg("%s: %s", w->when, t.wrong);
    if (t.result == MS_OK && t.last < k->durable)
        fail_msg("%s: %llu messages of %llu", w->when, (unsigned long long)t.last,
                 (unsigned long long)k->durable);
    for (int i = 0; i < 3 && t.result == MS_OK; i++) {
        if (scribe_append(&k->s, store, t.last + 1, NULL, &count, &err) != MS_OK)
            continue;
        t.last += count;
        k->durable = ms_sync(store, NULL, &err) == MS_OK ? t.last : k->durable;
    }
    ms_close(store);
}

/* Without a fault all that was durable is there, and the log takes appends. */
static void wreck_check(wreck *k)
{
    world *w = k->w;
    ms_log_desc desc = desc_of(w, w->path);
    ms_store *store;
    ms_error err;
    tally t;
    size_t count;
    world_quiet(w);
    for (int i = 0; i < 2; i++) {
        if (ms_log_open(&store, &desc, &err) != MS_OK)
            fail_msg("%s, then: %s", w->when, err.message);
        if (!scribe_read(&k->s, store, false, NULL, &t) || t.result != MS_OK)
            fail_msg("%s, then: %s", w->when, t.wrong);
        if (t.last < k->durable)
            fail_msg("%s, then: %llu messages of %llu", w->when,
                     (unsigned long long)t.last, (unsigned long long)k->durable);
        if (scribe_append(&k->s, store, t.last + 1, NULL, &count, &err) != MS_OK)
            fail_msg("%s, then append: %s", w->when, err.message);
        k->durable = t.last + count;
        ms_close(store);
    }
    if (w->t.files != 0 || w->t.maps != 0) fail_msg("%s: files are left open", w->when);
    test_alloc_done(&w->heap);
}

static void one_wreck(wreck *k, size_t i)
{
    world *w = k->w;
    world_reset(w);
    w->engine = test_one_in(&k->rng, 2) ? MS_ENGINE_MAP : MS_ENGINE_WRITE;
    w->shared = test_one_in(&k->rng, 4);
    wreck_write(k);
    k->crash = (int)(i % CRASHES);
    wreck_crash(k);
    w->t.how = TRIP_FAIL;
    w->t.calls = 0;
    w->heap.calls = 0;
    if (test_one_in(&k->rng, 3)) w->heap.fail_at = 1 + test_below(&k->rng, 12);
    else w->t.at = 1 + test_below(&k->rng, 24);
    w->t.from = w->heap.fail_from = test_one_in(&k->rng, 2);
    w->t.code = error_of(test_below(&k->rng, ERRORS), w->t.from);
    snprintf(w->when, sizeof w->when, "%s, number %zu, errno %d at call %llu%s, "
             "allocation %zu", crash_names[k->crash], i, w->t.code,
             (unsigned long long)w->t.at, w->t.from ? " on" : "", w->heap.fail_at);
    wreck_recover(k);
    compound_faults += w->t.hits + w->heap.failed != 0;
    wreck_check(k);
    free(k->bytes);
    folder_empty(w->folder);
}

static void faults_while_a_crash_is_put_right(void **state)
{
    wreck k;
    size_t times = test_times(700);
    (void)state;
    memset(&k, 0, sizeof k);
    k.w = world_new(MS_ENGINE_WRITE, MS_SYNC_NONE, false);
    k.rng = test_seed();
    if (test_scale() >= 1000) times = times * 12 / 7; /* some faults come too late */
    for (size_t i = 0; i < times; i++) one_wreck(&k, i);
    world_free(k.w);
}

#define WITH_CONFIGS(test)                                    \
    {#test " (map)", test, NULL, NULL, &configs[0]},          \
    {#test " (write, synced)", test, NULL, NULL, &configs[1]}, \
    {#test " (shared)", test, NULL, NULL, &configs[2]}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_CONFIGS(each_file_operation_of_the_script_fails),
        WITH_CONFIGS(each_allocation_of_the_script_fails),
        WITH_CONFIGS(each_call_of_the_script_is_interrupted),
        cmocka_unit_test(each_allocation_without_a_store_fails),
        cmocka_unit_test(faults_while_a_crash_is_put_right),
    };
    if (getenv("TMPDIR") == NULL && access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 1);
    scribe_page();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    printf("tally: fault points (file operations) %llu\n",
           (unsigned long long)file_faults);
    printf("tally: fault points (allocations) %llu\n", (unsigned long long)memory_faults);
    printf("tally: compound faults %llu\n", (unsigned long long)compound_faults);
    return failed;
}
