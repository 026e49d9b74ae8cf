/* msgstore.h for `make bench`: a log file, used with the defaults of the header. It
 * runs as described in driver.c.
 *
 * Without sync the log uses the engine that suits the file system (stores into a map
 * where it can), with sync one write a commit. Readers open the file read-only. It is
 * compacted by ms_log_rewrite. Left out: the formats (MSGSTORE_NO_FORMATS), which no mode
 * needs. */
#define _GNU_SOURCE
#include "driver.h"

enum { BATCH = 1000 };

static ms_store *store;
static ms_envelope *batch;  /* room for BATCH */

static void must(ms_result result, const ms_error *err)
{
    if (result != MS_OK) bench_die("msgstore", err->message);
}

/* Returns the options of the log of a folder. */
static ms_log_desc desc_of(const char *folder)
{
    static char path[4200];
    ms_log_desc desc;
    memset(&desc, 0, sizeof desc);
    snprintf(path, sizeof path, "%s/bench.msl", folder);
    desc.path = path;
    return desc;
}

static void log_open(const char *folder, int how)
{
    ms_log_desc desc = desc_of(folder);
    ms_error err;
    desc.mode = how & OPEN_NEW     ? MS_LOG_NEW
                : how & OPEN_WRITE ? MS_LOG_WRITE
                                   : MS_LOG_READ;
    desc.sync = how & OPEN_SYNC ? MS_SYNC_EACH : MS_SYNC_NONE;
    must(ms_log_open(&store, &desc, &err), &err);
    if (desc.mode != MS_LOG_READ && batch == NULL)
        batch = (ms_envelope *)bench_memory(BATCH * sizeof *batch);
}

static void log_commit(const bench_data *d, size_t first, size_t count)
{
    ms_error err;
    ms_result result;
    if (count == 1) {
        ms_envelope m = bench_message(d, first);
        result = ms_append(store, m.location, &m, NULL, &err);
        if (result != MS_OK) must(result, &err);
        return;
    }
    if (count > BATCH) bench_die("msgstore", "the batch is too large");
    for (size_t i = 0; i < count; i++) batch[i] = bench_message(d, first + i);
    must(ms_append_batch(store, batch, count, NULL, &err), &err);
}

/* The column of each field, and the fields that have one. */
static const unsigned char column_of[MS_FIELD_COUNT] = {
    COLUMNS,          COLUMN_LOCATION,    COLUMN_AGENT,       COLUMN_TURN,
    COLUMN_CONTENT,   COLUMN_TOOL,        COLUMN_ARGS,        COLUMNS,
    COLUMN_FROM_WORKER, COLUMN_CONTENT,   COLUMN_FROM_MANAGER, COLUMN_FROM_WORKER,
    COLUMNS,          COLUMN_SUMMARY,     COLUMN_TOOL};
enum { FIELDS_READ = 0x7FFF & ~(1 << 0 | 1 << 7 | 1 << 12) };

static inline void take(const ms_msg *msg, bench_reader *reader)
{
    ms_value fields[MS_FIELD_COUNT];
    bench_row row;
    row.time_ns = 0; /* memset of so few bytes takes as long as 15 of their stores */
    for (int i = 1; i < COLUMNS; i++) row.column[i].len = 0;
    for (uint32_t set = ms_fields(msg, fields) & FIELDS_READ; set != 0; set &= set - 1) {
        unsigned field = (unsigned)__builtin_ctz(set);
        row.column[column_of[field]] = fields[field].text;
    }
    row.column[COLUMN_TYPE] = ms_type_name(msg);
    ms_time(msg, &row.time_ns);
    bench_take(reader, &row);
}

static void read_all(ms_cursor *it, bench_reader *reader)
{
    const ms_msg *msg;
    ms_error err;
    while ((msg = ms_next(it)) != NULL) take(msg, reader);
    must(ms_cursor_close(it, &err), &err);
}

/* Opens the view of a team: the types of the agent view, of all agents of a location. */
static ms_result open_team(const bench_data *d, ms_str location, ms_cursor *it,
                           ms_error *err)
{
    ms_str agents[BENCH_AGENTS];
    ms_query query;
    for (size_t i = 0; i < BENCH_AGENTS; i++) agents[i] = bench_name(d->agents[i]);
    memset(&query, 0, sizeof query);
    query.location = location;
    query.views = MS_VIEW_TEAM;
    query.types = MS_TYPES_AGENT;
    query.agent_keys = agents;
    query.n_agent_keys = BENCH_AGENTS;
    return ms_query_open(store, &query, it, err);
}

static ms_result open_view(const bench_data *d, int view, ms_str location, ms_str agent,
                           ms_cursor *it, ms_error *err)
{
    switch (view) {
    case VIEW_TAIL: return ms_get_conversation_messages(store, location, 20, it, err);
    case VIEW_CONVERSATION:
        return ms_get_conversation_messages(store, location, 0, it, err);
    case VIEW_AGENT: return ms_get_agent_messages(store, location, agent, 0, it, err);
    case VIEW_TEAM: return open_team(d, location, it, err);
    default: return ms_get_global_messages(store, location, 0, it, err);
    }
}

static void log_read(const bench_data *d, int view, size_t location, size_t agent,
                     bench_reader *reader)
{
    ms_str where = bench_name(d->locations[location]), who = bench_name(d->agents[agent]);
    ms_memory memory;
    ms_cursor it;
    ms_error err;
    ms_result result;
    if (view == VIEW_HISTORY) {
        ms_memory_init(&memory, store, where, who);
        result = ms_get_history(&memory, &it, &err);
    } else result = open_view(d, view, where, who, &it, &err);
    if (result != MS_OK) must(result, &err);
    read_all(&it, reader);
}

static void log_scan(bench_reader *reader)
{
    ms_query everything;
    ms_cursor it;
    ms_error err;
    memset(&everything, 0, sizeof everything);
    must(ms_query_open(store, &everything, &it, &err), &err);
    read_all(&it, reader);
}

static void log_close(void) { ms_close(store); }

static void log_compact(const char *folder)
{
    ms_log_desc to = desc_of(folder);
    ms_error err;
    log_open(folder, OPEN_WRITE);
    must(ms_log_rewrite(store, &to, true, NULL, NULL, &err), &err);
    log_close();
}

const bench_store bench_stores[] = {
    {"msgstore", "log; no sync: engine as chosen; sync: MS_SYNC_EACH", log_open,
     log_commit, log_read, log_close, log_scan, log_compact}};
const size_t bench_n_stores = sizeof bench_stores / sizeof bench_stores[0];
