/* SQLite in the frame of driver.h: one table, in three variants of its indexes.
 *
 *     bench_sqlite, see driver.c
 *
 * "sqlite seed": the table and the two indexes of the store in the agent framework guide.
 * A view has to be sorted. "sqlite tuned": three partial indexes, one a stored view, on
 * (location [, agent_key], timestamp), with the view's list of types in their WHERE:
 * nothing is sorted. "sqlite covering": the same with all columns after them, so that a
 * view is read from its index alone and most of the data is stored twice. The last two do
 * without AUTOINCREMENT, which keeps a table of its own up to date.
 *
 * WAL, prepared statements, 64 MiB of page cache, as much of the file mapped as this
 * SQLite can (16 GiB asked for). With sync: synchronous = FULL, as in WAL only FULL syncs
 * every commit. Without: OFF. A commit is in the page cache then, where other processes
 * see it and a kill of this one leaves it; NORMAL would add nothing to that but syncs of
 * checkpoints.
 *
 * Rows are in the order of time, then of their number. A team is eight statements of one
 * agent each, merged, which needs no sorting either; they see one state of the store, as
 * they are open at the same time. The newest 20 are read backwards and copied, since a
 * statement holds one row at a time. The file is compacted by VACUUM. Left out: other
 * page sizes, other intervals between checkpoints, exclusive locking (a reader could not
 * come beside it).
 */
#define _GNU_SOURCE
#include <sqlite3.h>

#include "driver.h"

enum { TAIL = 20 };

#define CONVERSATION "type IN ('user_message', 'assistant_message')"
#define AGENT                                                                          \
    "type IN ('task', 'action', 'observation', 'error', 'final', 'delegation')"
#define GLOBAL "type IN ('global_observation', 'synthesis')"

#define TABLE(key)                                                                     \
    "CREATE TABLE messages (id " key ", location TEXT NOT NULL, agent_key TEXT,"       \
    " type TEXT NOT NULL, content TEXT NOT NULL, timestamp INTEGER, turn_id TEXT,"     \
    " tool TEXT, args TEXT, from_worker TEXT, from_manager TEXT, summary TEXT);"

/* The columns in the order of driver.h, then the time, then the number. */
#define SELECT                                                                         \
    "SELECT type, location, agent_key, turn_id, content, args, tool, summary,"         \
    " from_worker, from_manager, timestamp, id FROM messages "
#define ASCENDING " ORDER BY timestamp, id"
#define DESCENDING " ORDER BY timestamp DESC, id DESC LIMIT 20"

#define INDEXES(rest, rest_agent)                                                      \
    "CREATE INDEX of_conversation ON messages(location, timestamp" rest                \
    ") WHERE " CONVERSATION ";"                                                        \
    "CREATE INDEX of_agent ON messages(location, agent_key, timestamp" rest_agent      \
    ") WHERE " AGENT ";"                                                               \
    "CREATE INDEX of_global ON messages(location, timestamp" rest ") WHERE " GLOBAL ";"

#define REST ", turn_id, content, args, tool, summary, from_worker, from_manager"

static const char seed_schema[] =
    TABLE("INTEGER PRIMARY KEY AUTOINCREMENT")
    "CREATE INDEX idx_location_type ON messages(location, type);"
    "CREATE INDEX idx_location_agent ON messages(location, agent_key);";
static const char tuned_schema[] = TABLE("INTEGER PRIMARY KEY") INDEXES("", "");
static const char covering_schema[] = TABLE("INTEGER PRIMARY KEY")
    INDEXES(", id, type, agent_key" REST, ", id, type" REST);

static struct lite {
    sqlite3 *db;
    sqlite3_stmt *begin, *commit, *insert;                /* of a writer */
    sqlite3_stmt *tail, *conversation, *global, *scan;
    sqlite3_stmt *agent[BENCH_AGENTS];
    char *copy;                                           /* of the newest 20 */
    size_t copy_size;
} lite;

static inline void check(bool well, const char *what)
{
    if (!well) bench_die(what, lite.db ? sqlite3_errmsg(lite.db) : "no memory");
}


/* ---- opening and closing ---- */

static void run(const char *sql)
{
    check(sqlite3_exec(lite.db, sql, NULL, NULL, NULL) == SQLITE_OK, sql);
}

static sqlite3_stmt *prepare(const char *sql)
{
    sqlite3_stmt *statement = NULL;
    check(sqlite3_prepare_v3(lite.db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement,
                             NULL) == SQLITE_OK, sql);
    return statement;
}

/* Prepares a statement at its first use: opening should not wait for all of them. */
static inline sqlite3_stmt *ready(sqlite3_stmt **statement, const char *sql)
{
    if (!*statement) *statement = prepare(sql);
    return *statement;
}

static void prepare_writes(void)
{
    lite.begin = prepare("BEGIN IMMEDIATE");
    lite.commit = prepare("COMMIT");
    lite.insert = prepare(
        "INSERT INTO messages (type, location, agent_key, turn_id, content, args, tool,"
        " summary, from_worker, from_manager, timestamp)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)");
}

/* Sets WAL. The pragma does not fail if another journal stays in use: it returns the
 * name. */
static void use_wal(void)
{
    sqlite3_stmt *statement = prepare("PRAGMA journal_mode = WAL");
    check(sqlite3_step(statement) == SQLITE_ROW, "journal_mode");
    const void *mode = sqlite3_column_text(statement, 0);
    if (!mode || strcmp((const char *)mode, "wal") != 0) bench_die("sqlite", "no WAL");
    check(sqlite3_finalize(statement) == SQLITE_OK, "journal_mode");
}

static void open_db(const char *folder, int how, const char *schema)
{
    char path[4096];
    bool writes = how & (OPEN_NEW | OPEN_WRITE);
    int flags = writes ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
    memset(&lite, 0, sizeof lite);
    int len = snprintf(path, sizeof path, "%s/messages.db", folder);
    if (len < 0 || (size_t)len >= sizeof path) bench_die(folder, "name too long");
    if (how & OPEN_NEW) flags |= SQLITE_OPEN_CREATE;
    int code = sqlite3_open_v2(path, &lite.db, flags | SQLITE_OPEN_NOMUTEX, NULL);
    check(code == SQLITE_OK, path);
    sqlite3_busy_timeout(lite.db, 10000);
    if (how & OPEN_NEW) use_wal();
    run("PRAGMA cache_size = -65536; PRAGMA mmap_size = 17179869184;"
        "PRAGMA temp_store = MEMORY");
    run(how & OPEN_SYNC ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = OFF");
    if (how & OPEN_NEW) run(schema);
    if (writes) prepare_writes();
}

static void open_seed(const char *folder, int how) { open_db(folder, how, seed_schema); }
static void open_tuned(const char *folder, int how)
{
    open_db(folder, how, tuned_schema);
}
static void open_covering(const char *folder, int how)
{
    open_db(folder, how, covering_schema);
}

static void close_db(void)
{
    sqlite3_stmt *statement;
    while ((statement = sqlite3_next_stmt(lite.db, NULL)) != NULL)
        sqlite3_finalize(statement); /* returns the error of a step that was checked */
    check(sqlite3_close(lite.db) == SQLITE_OK, "close");
    free(lite.copy);
    memset(&lite, 0, sizeof lite);
}


/* ---- writing ---- */

static inline void step_once(sqlite3_stmt *statement)
{
    check(sqlite3_step(statement) == SQLITE_DONE, sqlite3_sql(statement));
    check(sqlite3_reset(statement) == SQLITE_OK, sqlite3_sql(statement));
}

static inline void bind_text(sqlite3_stmt *statement, int place, ms_str text)
{
    int code = sqlite3_bind_text(statement, place, text.ptr, (int)text.len,
                                 SQLITE_STATIC);
    check(code == SQLITE_OK, "bind");
}

static void insert(const bench_row *row)
{
    for (int i = 0; i < COLUMNS; i++) {
        ms_str text = row->column[i];
        if (text.len == 0) /* NULL; but the guide's table needs a content */
            text.ptr = i == COLUMN_CONTENT ? "" : NULL;
        bind_text(lite.insert, i + 1, text);
    }
    int code = sqlite3_bind_int64(lite.insert, COLUMNS + 1, row->time_ns);
    check(code == SQLITE_OK, "bind");
    step_once(lite.insert);
}

/* Commits messages. A single statement is a transaction of its own. */
static void commit(const bench_data *data, size_t first, size_t count)
{
    if (count > 1) step_once(lite.begin);
    for (size_t i = first; i < first + count; i++) {
        bench_row row = bench_row_of(data, i);
        insert(&row);
    }
    if (count > 1) step_once(lite.commit);
}


/* ---- reading ---- */

/* Goes to the next row; false at the end, where the statement can be used again. */
static inline bool next(sqlite3_stmt *statement)
{
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) return true;
    check(code == SQLITE_DONE, sqlite3_sql(statement));
    check(sqlite3_reset(statement) == SQLITE_OK, sqlite3_sql(statement));
    return false;
}

/* Returns the row that the statement is at. The texts belong to the statement until its
 * next step. */
static inline bench_row row_of(sqlite3_stmt *statement)
{
    bench_row row;
    for (int i = 0; i < COLUMNS; i++) {
        const void *text = sqlite3_column_text(statement, i);
        row.column[i] = ms_str_n((const char *)text,
                                 (size_t)sqlite3_column_bytes(statement, i));
    }
    row.time_ns = sqlite3_column_int64(statement, COLUMNS);
    return row;
}

static inline void take(sqlite3_stmt *statement, bench_reader *reader)
{
    bench_row row = row_of(statement);
    bench_take(reader, &row);
}

static void rows_of(sqlite3_stmt *statement, bench_reader *reader)
{
    while (next(statement)) take(statement, reader);
}

static void conversation(ms_str location, bench_reader *reader)
{
    bind_text(ready(&lite.conversation, SELECT "WHERE location = ?1 AND " CONVERSATION
                                        ASCENDING), 1, location);
    rows_of(lite.conversation, reader);
}

static void global(ms_str location, bench_reader *reader)
{
    bind_text(ready(&lite.global, SELECT "WHERE location = ?1 AND " GLOBAL ASCENDING), 1,
              location);
    rows_of(lite.global, reader);
}

/* Returns the statement for one agent, ready to step; each agent has its own. */
static sqlite3_stmt *agent_rows(const bench_data *data, ms_str location, size_t agent)
{
    sqlite3_stmt *statement = ready(&lite.agent[agent], SELECT
        "WHERE location = ?1 AND agent_key = ?2 AND " AGENT ASCENDING);
    bind_text(statement, 1, location);
    bind_text(statement, 2, bench_name(data->agents[agent]));
    return statement;
}

/* One agent's rows in a merge, at the current one. */
typedef struct head {
    sqlite3_stmt *statement;
    sqlite3_int64 time, id;
} head;

static inline bool next_head(head *h)
{
    if (!next(h->statement)) return false;
    h->time = sqlite3_column_int64(h->statement, COLUMNS);
    h->id = sqlite3_column_int64(h->statement, COLUMNS + 1);
    return true;
}

static inline bool before(const head *a, const head *b)
{
    return a->time < b->time || (a->time == b->time && a->id < b->id);
}

static void team(const bench_data *data, ms_str location, bench_reader *reader)
{
    head heads[BENCH_AGENTS];
    int count = 0;
    for (size_t i = 0; i < BENCH_AGENTS; i++) {
        heads[count].statement = agent_rows(data, location, i);
        if (next_head(&heads[count])) count++;
    }
    while (count > 0) {
        head *first = &heads[0];
        for (int i = 1; i < count; i++)
            if (before(&heads[i], first)) first = &heads[i];
        take(first->statement, reader);
        if (!next_head(first)) *first = heads[--count];
    }
}

/* Copies the texts of a row after the first `used` bytes; returns how many are used. */
static size_t keep(const bench_row *row, size_t used)
{
    size_t size = used;
    for (int i = 0; i < COLUMNS; i++) size += row->column[i].len;
    if (size > lite.copy_size) {
        lite.copy_size = size * 2;
        lite.copy = (char *)realloc(lite.copy, lite.copy_size);
        if (!lite.copy) bench_die("sqlite", "no memory");
    }
    for (int i = 0; i < COLUMNS; i++) {
        if (row->column[i].len == 0) continue;
        memcpy(lite.copy + used, row->column[i].ptr, row->column[i].len);
        used += row->column[i].len;
    }
    return used;
}

/* Reads the newest 20. The store returns newest first, the reader needs oldest first. */
static void tail(ms_str location, bench_reader *reader)
{
    bench_row rows[TAIL];
    size_t starts[TAIL], count = 0, used = 0;
    bind_text(ready(&lite.tail, SELECT "WHERE location = ?1 AND " CONVERSATION
                                DESCENDING), 1, location);
    for (; next(lite.tail); count++) {
        rows[count] = row_of(lite.tail);
        starts[count] = used;
        used = keep(&rows[count], used);
    }
    while (count-- > 0) {
        const char *text = lite.copy + starts[count];
        for (int i = 0; i < COLUMNS; i++) {
            rows[count].column[i].ptr = text;
            text += rows[count].column[i].len;
        }
        bench_take(reader, &rows[count]);
    }
}

static void read_view(const bench_data *data, int view, size_t location, size_t agent,
                      bench_reader *reader)
{
    ms_str name = bench_name(data->locations[location]);
    if (view == VIEW_TAIL) tail(name, reader);
    if (view == VIEW_CONVERSATION || view == VIEW_HISTORY) conversation(name, reader);
    if (view == VIEW_AGENT || view == VIEW_HISTORY)
        rows_of(agent_rows(data, name, agent), reader);
    if (view == VIEW_GLOBAL || view == VIEW_HISTORY) global(name, reader);
    if (view == VIEW_TEAM) team(data, name, reader);
}

static void scan(bench_reader *reader) { rows_of(ready(&lite.scan, SELECT), reader); }

/* Compacts the file, and moves what the WAL has into it. */
static void compact(const char *folder)
{
    open_db(folder, OPEN_WRITE, NULL);
    run("PRAGMA temp_store = FILE; VACUUM; PRAGMA wal_checkpoint(TRUNCATE)");
    close_db();
}


#define SETTINGS                                                                       \
    "WAL, prepared, 64 MiB cache, mmap; sync: FULL, else OFF (commits are in the "     \
    "page cache)"

const bench_store bench_stores[] = {
    {"sqlite seed", "the guide's table and two indexes; " SETTINGS, open_seed, commit,
     read_view, close_db, scan, compact},
    {"sqlite tuned", "three partial indexes, no view is sorted; " SETTINGS, open_tuned,
     commit, read_view, close_db, scan, compact},
    {"sqlite covering", "as tuned, all columns in the indexes; " SETTINGS, open_covering,
     commit, read_view, close_db, scan, compact},
};
const size_t bench_n_stores = sizeof bench_stores / sizeof bench_stores[0];
