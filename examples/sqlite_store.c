/* A store of your own: messages in an SQLite table, over struct ms_backend, so that all
 * queries and the histories of [api-memory] work on it. A row has the complete message as
 * ms_encode wrote it, beside the columns that queries need. Left out: it is for one
 * thread at a time, stamps no times, and stat walks the table. The argument is a database
 * file; without one it is in memory. Build by hand, in the folder of msgstore.h:
 *
 *     cc -std=c99 -pthread -I/usr/include/stb -o sqlite examples/sqlite_store.c -lsqlite3
 */
#ifndef MSGSTORE_EXAMPLE_NO_MAIN    /* defined by a program that includes this file */
#define MSGSTORE_IMPLEMENTATION
#endif
#include "../msgstore.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct sqlite_store {
    ms_store base;    /* first: a pointer to it is a pointer to the whole */
    sqlite3 *db;
} sqlite_store;

typedef struct sqlite_cursor {
    sqlite3_stmt *rows;
    ms_arena arena;   /* holds the message that was returned last */
} sqlite_cursor;

/* Arguments for %.*Q, which quotes; an absent string is the 4 letters NULL. */
#define SQ_TEXT(s) (s).ptr != NULL ? (int)(s).len : 4, (s).ptr
#define SQ_NUMBER(n) (unsigned long long)(n)      /* for %llu */

/* Sets an error; text NULL: SQLite's own message. */
static ms_result sq_fail(ms_store *store, ms_result code, const char *text, ms_error *err)
{
    if (err == NULL) return code;
    memset(err, 0, sizeof *err);
    err->code = code;
    err->offset = MS_NO_OFFSET;
    if (text == NULL) text = sqlite3_errmsg(((sqlite_store *)store)->db);
    snprintf(err->message, sizeof err->message, "%s", text);
    return code;
}

/* Prepares a statement from a text of sqlite3_mprintf, which is freed. NULL: an error;
 * all SQLite calls accept a NULL statement. */
static sqlite3_stmt *sq_rows(ms_store *store, char *sql)
{
    sqlite3 *db = ((sqlite_store *)store)->db;
    sqlite3_stmt *rows = NULL;
    if (sql != NULL) sqlite3_prepare_v2(db, sql, -1, &rows, NULL);
    sqlite3_free(sql);
    return rows;
}

/* Runs such a text; stores the integers of its first row, if any, in numbers. */
static ms_result sq_run(ms_store *store, char *sql, uint64_t *numbers, ms_error *err)
{
    sqlite3_stmt *rows = sq_rows(store, sql);
    int got = sqlite3_step(rows);
    for (int i = 0; got == SQLITE_ROW && i < sqlite3_column_count(rows); i++)
        numbers[i] = (uint64_t)sqlite3_column_int64(rows, i);
    sqlite3_finalize(rows);
    if (got == SQLITE_ROW || got == SQLITE_DONE) return MS_OK;
    return sq_fail(store, MS_E_IO, NULL, err);
}

/* Reads the message of the next row's first column; MS_E_NOT_FOUND after the last row. */
static ms_result sq_step(ms_store *store, sqlite3_stmt *rows, ms_arena *arena,
                         const ms_msg **msg, ms_error *err)
{
    int got = sqlite3_step(rows);
    if (got == SQLITE_DONE) return sq_fail(store, MS_E_NOT_FOUND, "no such message", err);
    if (got != SQLITE_ROW) return sq_fail(store, MS_E_IO, NULL, err);
    size_t size = (size_t)sqlite3_column_bytes(rows, 0);
    void *bytes = ms_arena_alloc(arena, size);
    if (bytes == NULL) return sq_fail(store, MS_E_NO_MEMORY, "no memory", err);
    if (size != 0) memcpy(bytes, sqlite3_column_blob(rows, 0), size);
    return ms_decode(bytes, size, msg, err);
}

static ms_result sq_get(ms_store *store, uint64_t seq, ms_arena *arena,
                        const ms_msg **msg, ms_error *err)
{
    if (arena == NULL) return sq_fail(store, MS_E_ARENA, "get needs an arena", err);
    sqlite3_stmt *rows = sq_rows(store, sqlite3_mprintf(
        "SELECT body FROM messages WHERE seq = %llu", SQ_NUMBER(seq)));
    ms_result result = sq_step(store, rows, arena, msg, err);
    sqlite3_finalize(rows);
    return result;
}

/* ---- append ---- */

static ms_result sq_insert(ms_store *store, const ms_envelope *m, const ms_msg *msg,
                           ms_error *err)
{
    sqlite3_stmt *row = sq_rows(store, sqlite3_mprintf(
        "INSERT INTO messages VALUES (%llu, %.*Q, %.*Q, %d, %.*Q, ?1, %.*Q, ?2)",
        SQ_NUMBER(m->seq), SQ_TEXT(m->location), SQ_TEXT(m->agent_key), (int)m->type,
        SQ_TEXT(m->turn_id), SQ_TEXT(m->key)));
    if (m->has_time) sqlite3_bind_int64(row, 1, m->time_ns);
    sqlite3_bind_blob(row, 2, msg, (int)ms_size(msg), SQLITE_STATIC);
    int done = sqlite3_step(row);
    sqlite3_finalize(row);
    return done == SQLITE_DONE ? MS_OK : sq_fail(store, MS_E_IO, NULL, err);
}

/* Compares type, role and all fields, but not the time. */
static bool sq_same(const ms_msg *a, const ms_msg *b)
{
    bool same = ms_type_of(a) == ms_type_of(b) && ms_role_of(a) == ms_role_of(b);
    for (int f = 1; same && f < MS_FIELD_COUNT; f++) {
        ms_value x = ms_get(a, (ms_field)f), y = ms_get(b, (ms_field)f);
        same = ms_str_equal(x.text, y.text) && x.json == y.json;
    }
    return same;
}

/* Appends one message of a batch; *seq is its number, or that of the message with its
 * key. */
static ms_result sq_append_one(ms_store *store, ms_envelope m, bool keep_seq,
                               uint64_t *seq, ms_arena *arena, ms_error *err)
{
    const ms_msg *msg, *earlier;
    uint64_t last = 0, known = 0;
    ms_result result = sq_run(store, sqlite3_mprintf("SELECT max(seq) FROM messages"),
                              &last, err);
    if (result == MS_OK && m.key.ptr != NULL)
        result = sq_run(store, sqlite3_mprintf("SELECT seq FROM messages WHERE"
            " location = %.*Q AND key = %.*Q", SQ_TEXT(m.location), SQ_TEXT(m.key)),
            &known, err);
    if (!keep_seq) m.seq = last + 1;
    *seq = known != 0 ? known : m.seq;
    if (result == MS_OK) result = ms_encode(&m, arena, &msg, err);
    if (result != MS_OK) return result;
    if (known == 0 && m.seq > last) return sq_insert(store, &m, msg, err);
    if (known == 0)
        return sq_fail(store, MS_E_ARGUMENT, "the sequence number is not larger", err);
    result = sq_get(store, known, arena, &earlier, err);
    if (result == MS_OK && !sq_same(msg, earlier))
        result = sq_fail(store, MS_E_KEY_REUSED, "the key has other content", err);
    return result;
}

static ms_result sq_append(ms_store *store, ms_str location, const ms_envelope *messages,
                           size_t n, const ms_append_opts *opts, ms_error *err)
{
    ms_arena arena = {0};
    uint64_t last = 0;
    ms_result result = sq_run(store, sqlite3_mprintf("BEGIN IMMEDIATE"), NULL, err);
    if (result != MS_OK) return result;
    if (opts->expect)
        result = sq_run(store, sqlite3_mprintf("SELECT max(seq) FROM messages"
            " WHERE location = %.*Q", SQ_TEXT(location)), &last, err);
    if (result == MS_OK && opts->expect && last != opts->expect_seq)
        result = sq_fail(store, MS_E_CONFLICT, "another append came first", err);
    for (size_t i = 0; i < n && result == MS_OK; i++) {
        ms_envelope m = messages[i];
        if (location.len != 0) m.location = location;
        result = sq_append_one(store, m, opts->keep_seq, &last, &arena, err);
        if (opts->seqs != NULL) opts->seqs[i] = last;
        ms_arena_reset(&arena);
    }
    if (result == MS_OK) result = sq_run(store, sqlite3_mprintf("COMMIT"), NULL, err);
    if (result != MS_OK) sq_run(store, sqlite3_mprintf("ROLLBACK"), NULL, NULL);
    ms_arena_deinit(&arena);
    return result;
}

/* ---- query ---- */

/* The views are a union, and the filters select from it; the limit applies to the inner
 * order, the cursor reads in the outer one. By time, a message without one is in the
 * run of the last message that has one. */
static char *sq_select(const ms_query *q, uint64_t last)
{
    const char *keep = q->oldest ? "" : "DESC", *read = q->reverse ? "DESC" : "";
    bool runs = q->by_time && !q->untimed_first;
    sqlite3_str *s = sqlite3_str_new(NULL);
    sqlite3_str_appendf(s, "SELECT body FROM (SELECT seq, body, %s AS at FROM (SELECT *%s"
        " FROM messages WHERE seq > %llu AND seq <= %llu AND (%d",
        runs ? "max(time) OVER (PARTITION BY run)" : q->by_time ? "time" : "seq",
        runs ? ", count(time) OVER (ORDER BY seq) AS run" : "", SQ_NUMBER(q->after_seq),
        SQ_NUMBER(last), (q->views & MS_VIEW_TIMELINE) != 0);
    if (q->views & MS_VIEW_CONVERSATION) sqlite3_str_appendall(s, " OR type IN (1, 2, 25)");
    if (q->views & MS_VIEW_GLOBAL) sqlite3_str_appendall(s, " OR type IN (9, 15)");
    if (q->views & MS_VIEW_AGENT)
        sqlite3_str_appendf(s, " OR agent_key = %.*Q AND %llu >> type & 1",
                            SQ_TEXT(q->agent_key), SQ_NUMBER(q->agent_types / MS_BIT(0)));
    for (size_t i = 0; (q->views & MS_VIEW_TEAM) && i < q->n_agent_keys; i++)
        sqlite3_str_appendf(s, " OR agent_key = %.*Q", SQ_TEXT(q->agent_keys[i]));
    sqlite3_str_appendall(s, ")");
    if (q->location.len != 0)
        sqlite3_str_appendf(s, " AND location = %.*Q", SQ_TEXT(q->location));
    if (q->turn_id.ptr != NULL)
        sqlite3_str_appendf(s, " AND turn_id = %.*Q", SQ_TEXT(q->turn_id));
    if (q->types != 0)
        sqlite3_str_appendf(s, " AND %llu >> type & 1", SQ_NUMBER(q->types / MS_BIT(0)));
    if (q->before_seq != 0)
        sqlite3_str_appendf(s, " AND seq < %llu", SQ_NUMBER(q->before_seq));
    if (q->has_since) sqlite3_str_appendall(s, " AND time >= ?1");
    if (q->has_until) sqlite3_str_appendall(s, " AND time < ?2");
    sqlite3_str_appendf(s, ") ORDER BY at %s, seq %s LIMIT %lld) ORDER BY at %s, seq %s",
        keep, keep, q->limit != 0 ? (long long)q->limit : -1LL, read, read);
    return sqlite3_str_finish(s);
}

static void sq_cursor_close(ms_store *store, ms_cursor *it)
{
    sqlite_cursor *cursor = (sqlite_cursor *)it->ctx;
    (void)store;
    if (cursor == NULL) return;
    sqlite3_finalize(cursor->rows);
    ms_arena_deinit(&cursor->arena);
    free(cursor);
    it->ctx = NULL;
}

static ms_result sq_query(ms_store *store, ms_cursor *it, ms_error *err)
{
    uint64_t last = 0;
    sqlite_cursor *cursor = (sqlite_cursor *)calloc(1, sizeof *cursor);
    if (cursor == NULL) return sq_fail(store, MS_E_NO_MEMORY, "no memory", err);
    it->ctx = cursor;
    ms_result result = sq_run(store, sqlite3_mprintf("SELECT max(seq) FROM messages"),
                              &last, err);
    if (result == MS_OK) {
        cursor->rows = sq_rows(store, sq_select(&it->query, last));
        if (cursor->rows == NULL) result = sq_fail(store, MS_E_IO, NULL, err);
    }
    if (it->query.has_since) sqlite3_bind_int64(cursor->rows, 1, it->query.since_ns);
    if (it->query.has_until) sqlite3_bind_int64(cursor->rows, 2, it->query.until_ns);
    if (result != MS_OK) sq_cursor_close(store, it);
    return result;
}

static const ms_msg *sq_next(ms_store *store, ms_cursor *it)
{
    sqlite_cursor *cursor = (sqlite_cursor *)it->ctx;
    const ms_msg *msg;
    ms_result result;
    do {
        ms_arena_reset(&cursor->arena);
        result = sq_step(store, cursor->rows, &cursor->arena, &msg, NULL);
        if (result == MS_OK) return msg;
        if (result == MS_E_DAMAGED) it->damaged++;
    } while (result == MS_E_DAMAGED);
    if (result != MS_E_NOT_FOUND) it->result = result;
    return NULL;
}

/* ---- the rest ---- */

static ms_str sq_column(sqlite3_stmt *rows, int column, ms_arena *arena)
{
    size_t len = (size_t)sqlite3_column_bytes(rows, column);
    const void *text = sqlite3_column_blob(rows, column);
    char *copy = text != NULL ? (char *)ms_arena_alloc(arena, len) : NULL;
    if (copy != NULL) memcpy(copy, text, len);
    return ms_str_n(copy, copy != NULL ? len : 0);
}

static void sq_info(sqlite3_stmt *rows, ms_arena *arena, ms_info *info)
{
    info->location = sq_column(rows, 0, arena);
    info->agent_key = sq_column(rows, 1, arena);
    info->messages = (uint64_t)sqlite3_column_int64(rows, 2);
    info->first_seq = (uint64_t)sqlite3_column_int64(rows, 3);
    info->last_seq = (uint64_t)sqlite3_column_int64(rows, 4);
    info->first_time_ns = info->last_time_ns = MS_TIME_NONE;
    if (sqlite3_column_type(rows, 5) != SQLITE_NULL)
        info->first_time_ns = sqlite3_column_int64(rows, 5);
    if (sqlite3_column_type(rows, 6) != SQLITE_NULL)
        info->last_time_ns = sqlite3_column_int64(rows, 6);
}

static ms_result sq_list(ms_store *store, const ms_list_query *q, ms_arena *arena,
                         ms_listing *out, ms_error *err)
{
    const char *what = q->agents ? "agent_key" : "location";
    ms_str prefix = q->prefix.ptr != NULL ? q->prefix : MS_STR("");
    size_t count = 0;
    sqlite3_stmt *rows = sq_rows(store, sqlite3_mprintf(
        "SELECT g.*, f.time, m.time FROM (SELECT location, %s, count(*),"
        " min(seq) AS first, max(seq) AS last FROM messages"
        " WHERE (%d OR location = %.*Q) AND substr(%s, 1, length(%.*Q)) = %.*Q"
        " GROUP BY 1, 2) AS g JOIN messages AS f ON f.seq = g.first"
        " JOIN messages AS m ON m.seq = g.last"
        " ORDER BY g.last DESC LIMIT %lld", q->agents ? what : "NULL",
        !q->agents || q->location.len == 0, SQ_TEXT(q->location), what, SQ_TEXT(prefix),
        SQ_TEXT(prefix), q->limit != 0 ? (long long)q->limit : -1LL));
    while (sqlite3_step(rows) == SQLITE_ROW) count++;
    sqlite3_reset(rows);
    out->count = 0;
    out->items = (ms_info *)ms_arena_alloc(arena, count * sizeof *out->items);
    while (out->items != NULL && out->count < count && sqlite3_step(rows) == SQLITE_ROW)
        sq_info(rows, arena, &out->items[out->count++]);
    sqlite3_finalize(rows);
    if (out->items == NULL) return sq_fail(store, MS_E_NO_MEMORY, "no memory", err);
    return out->count == count ? MS_OK : sq_fail(store, MS_E_IO, NULL, err);
}

static ms_result sq_stat(ms_store *store, ms_stat *out, ms_error *err)
{
    uint64_t numbers[3] = {0, 0, 0};
    ms_result result = sq_run(store, sqlite3_mprintf(
        "SELECT count(*), max(seq), sum(length(body)) FROM messages"), numbers, err);
    memset(out, 0, sizeof *out);
    out->messages = numbers[0];
    out->last_seq = numbers[1];
    out->bytes = numbers[2];
    return result;
}

static void sq_close(ms_store *store)
{
    sqlite3_close(((sqlite_store *)store)->db);
    free(store);
}

static const ms_backend sq_backend = {
    sq_append, sq_query, sq_next, sq_cursor_close,
    sq_get, sq_list, sq_stat, NULL, sq_close,
    NULL, NULL, /* tick, leave_out */
    NULL, NULL, NULL, /* change, erase, and what unions need */
    NULL, /* wait */
};

static ms_result sqlite_store_open(ms_store **store, const char *path, ms_error *err)
{
    sqlite_store *s = (sqlite_store *)calloc(1, sizeof *s);
    *store = NULL;
    if (s == NULL) return sq_fail(NULL, MS_E_NO_MEMORY, "no memory for a store", err);
    s->base.backend = &sq_backend;
    s->base.open = MS_STORE_OPEN;
    if (sqlite3_open(path, &s->db) == SQLITE_OK && sqlite3_exec(s->db,
        "CREATE TABLE IF NOT EXISTS messages (seq INTEGER PRIMARY KEY,"
        " location TEXT NOT NULL, agent_key TEXT, type INTEGER NOT NULL, turn_id TEXT,"
        " time INTEGER, key TEXT, body BLOB NOT NULL, UNIQUE (location, key));"
        "CREATE INDEX IF NOT EXISTS by_location ON messages (location)", NULL, NULL,
        NULL) == SQLITE_OK) {
        *store = &s->base;
        return MS_OK;
    }
    sq_fail(&s->base, MS_E_IO, NULL, err);
    sq_close(&s->base);
    return MS_E_IO;
}

#ifndef MSGSTORE_EXAMPLE_NO_MAIN

static ms_result append_turn(ms_store *store, ms_str job, ms_error *err)
{
    ms_envelope turn[3];
    ms_append_opts opts = {0};
    turn[0] = ms_user_message(ms_text("List all tables"));
    turn[1] = ms_message(MS_T_DELEGATION, ms_text(NULL));
    turn[1].worker = MS_STR("worker");
    turn[1].task = MS_STR("Look into the schema");
    turn[1].agent_key = MS_STR("manager");
    turn[2] = ms_action(MS_STR("list_tables"), ms_json(MS_STR("{}")), MS_STR("c1"));
    turn[2].agent_key = MS_STR("worker");
    opts.location = job;
    return ms_append_batch(store, turn, 3, &opts, err);
}

int main(int argc, char **argv)
{
    ms_str worker = MS_STR("worker"), job = MS_STR("job_123");
    ms_store *store;
    ms_memory memory;
    ms_cursor it;
    ms_error err;
    const ms_msg *msg;
    ms_result result = sqlite_store_open(&store, argc > 1 ? argv[1] : ":memory:", &err);
    if (result == MS_OK) result = append_turn(store, job, &err);
    ms_memory_init(&memory, store, job, MS_STR("manager"));
    memory.subordinates = &worker;
    memory.n_subordinates = 1;
    if (result == MS_OK) result = ms_get_history(&memory, &it, &err);
    while (result == MS_OK && (msg = ms_next(&it)) != NULL)
        printf("%llu %s\n", SQ_NUMBER(ms_seq(msg)), ms_type_word(ms_type_of(msg)));
    if (result == MS_OK) result = ms_cursor_close(&it, &err);
    if (result != MS_OK) fprintf(stderr, "%s\n", err.message);
    ms_close(store);
    return result != MS_OK;
}

#endif /* MSGSTORE_EXAMPLE_NO_MAIN */
