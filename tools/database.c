/* See database.h. */

#define _GNU_SOURCE
#include "database.h"
#include "json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef _WIN32
#include <dlfcn.h>
#endif

bool is_database(ms_str text)
{
    return text_begins(text, ms_str_n("SQLite format 3\0", 16));
}

bool is_database_name(const char *path)
{
    return ends_with(path, ".db") || ends_with(path, ".vscdb");
}

/* What is used of SQLite's interface, with its numbers. */
enum { SQLITE_OK = 0, SQLITE_NOTADB = 26, SQLITE_ROW = 100, SQLITE_DONE = 101,
       SQLITE_INTEGER = 1, SQLITE_FLOAT = 2, SQLITE_NULL = 5, SQLITE_OPEN_READONLY = 1,
       BUSY_MS = 10000 };

typedef struct sqlite_library {
    int (*open_v2)(const char *, void **, int, const char *);
    int (*close)(void *);
    int (*busy_timeout)(void *, int);
    int (*exec)(void *, const char *, void *, void *, char **);
    int (*prepare_v2)(void *, const char *, int, void **, const char **);
    int (*bind_text)(void *, int, const char *, int, void (*)(void *));
    int (*step)(void *);
    int (*finalize)(void *);
    int (*column_count)(void *);
    const char *(*column_name)(void *, int);
    int (*column_type)(void *, int);
    const unsigned char *(*column_text)(void *, int);
    int (*column_bytes)(void *, int);
    const char *(*errmsg)(void *);
} sqlite_library;

#ifndef _WIN32
static bool find_function(void *library, const char *name, void *to)
{
    void *found = dlsym(library, name);
    memcpy(to, &found, sizeof found); /* C has no cast from an object to a function */
    return found != NULL;
}
#endif

/* Loads the library; false: there is none. */
static bool load_library(sqlite_library *s)
{
#ifdef _WIN32
    memset(s, 0, sizeof *s);
    return false;
#else
    static const char *const names[] = {"libsqlite3.so.0", "libsqlite3.so",
                                        "libsqlite3.dylib"};
    static void *library;
    for (size_t i = 0; i < COUNT_OF(names) && library == NULL; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    if (library == NULL) return false;
    bool all = true;
#define FIND(name) all = find_function(library, "sqlite3_" #name, &s->name) && all
    FIND(open_v2);
    FIND(close);
    FIND(busy_timeout);
    FIND(exec);
    FIND(prepare_v2);
    FIND(bind_text);
    FIND(step);
    FIND(finalize);
    FIND(column_count);
    FIND(column_name);
    FIND(column_type);
    FIND(column_text);
    FIND(column_bytes);
    FIND(errmsg);
#undef FIND
    return all;
#endif
}

/* Rows as text. */
typedef struct rows_text {
    char *buf;
    size_t len, cap;
    uint64_t most;
    uint64_t repaired;        /* values that were no UTF-8 */
    bool full;
} rows_text;

static ms_result put_bytes(void *ctx, const char *bytes, size_t len)
{
    rows_text *t = ctx;
    if (len > t->most || t->len > t->most - len) t->full = true;
    if (t->full) return MS_E_FULL;
    if (t->cap - t->len < len) {
        size_t cap = 2 * t->cap + len + 65536;
        char *buf = realloc(t->buf, cap);
        if (buf == NULL) exit(no_memory());
        t->buf = buf;
        t->cap = cap;
    }
    memcpy(t->buf + t->len, bytes, len);
    t->len += len;
    return MS_OK;
}

static void put_row(const sqlite_library *s, void *row, rows_text *to)
{
    ms_json_writer w;
    ms_json_init(&w, put_bytes, to, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    for (int i = 0; i < s->column_count(row); i++) {
        int type = s->column_type(row, i);
        if (type == SQLITE_NULL) continue;
        const char *text = (const char *)s->column_text(row, i);
        int len = s->column_bytes(row, i);
        ms_str value = ms_str_n(text != NULL ? text : "", text != NULL ? (size_t)len : 0);
        bool number = type == SQLITE_INTEGER || /* JSON has no infinity */
                      (type == SQLITE_FLOAT &&
                       ms_json_check(value, NULL, NULL, NULL) == MS_OK);
        ms_json_key(&w, ms_str_of(s->column_name(row, i)));
        if (number) ms_json_put_raw(&w, value);
        else ms_json_put_string(&w, value); /* with U+FFFD for what is no UTF-8 */
        to->repaired += !number && !ms_utf8_check(value, NULL);
    }
    ms_json_end(&w);
    ms_json_finish(&w);
}

/* Adds the rows of a query as an array, a row a line. Returns a code of SQLite. */
static int put_query(const sqlite_library *s, void *db, const char *query,
                     const char *session, rows_text *to)
{
    void *row = NULL;
    int got = s->prepare_v2(db, query, -1, &row, NULL);
    bool first = true;
    if (got == SQLITE_OK && session != NULL) {
        got = s->bind_text(row, 1, session, -1, NULL);
    }
    if (got != SQLITE_OK) {
        s->finalize(row);
        return got;
    }
    while ((got = s->step(row)) == SQLITE_ROW && !to->full) {
        put_bytes(to, first ? "[" : ",\n", first ? 1 : 2);
        put_row(s, row, to);
        first = false;
    }
    if (!first) put_bytes(to, "]\n", 2);
    s->finalize(row);
    return got == SQLITE_DONE ? SQLITE_OK : got;
}

/* A program's tables. */
typedef struct schema {
    const char *tables;       /* names of some that it has, with commas */
    /* What is read: a query, the column that has the session, the order of rows; or the
     * conditions of a session's rows, ?1, and of all rows. */
    const char *queries[3][4];
    const char *sessions;     /* id, rows and milliseconds since 1970 of each session */
} schema;

static const schema schemas[] = {
    {"'session', 'message', 'part'",
     {{"select * from session", "id", "id"},
      {"select id, session_id, data from message", "session_id",
       "session_id, time_created, id"},
      {"select id, message_id, data from part", "session_id", "message_id, id"}},
     "select id, sum(n), ifnull(max(t), 0) from (select id, 1 n, time_updated t from "
     "session "
     "union all select session_id, count(*), max(time_updated) from message "
     "group by 1 union all select session_id, count(*), max(time_updated) from part "
     "group by 1) group by 1 order by 1"},
    /* OpenAI's Agents SDK. Its times are seconds; the newest id says what follows. */
    {"'agent_sessions', 'agent_messages', 'sqlite_sequence'",
     {{"select session_id, message_data, created_at from agent_messages", "session_id",
       "session_id, id"}},
     "select session_id, count(*), ifnull(strftime('%s', max(created_at)), 0) * 1000 + "
     "max(id) % 1000 from agent_messages group by 1 order by 1"},
    /* Crush. Its times are seconds; the length of what is written says what follows. */
    {"'sessions', 'messages', 'goose_db_version'",
     {{"select m.*, s.title, s.parent_session_id, s.summary_message_id from messages m "
       "left join sessions s on s.id = m.session_id", "m.session_id",
       "m.session_id is null, m.session_id, m.created_at, m.rowid"}},
     "select m.session_id, count(*), cast(max(max(ifnull(m.updated_at, 0)), max(ifnull("
     "s.updated_at, 0))) * 1000 as integer) + ifnull(sum(length(m.parts)), 0) % 1000003 "
     "from messages m left join sessions s on s.id = m.session_id group by 1 order by 1"},
    /* Cursor. Of its keys only those of conversations are read: others have secrets. */
    {"'ItemTable', 'cursorDiskKV'",
     {{"select case when key < 'c' then substr(key, 10, instr(substr(key, 10), ':') - 1) "
       "else substr(key, 14) end session, key, value from cursorDiskKV",
       "value is not null and (key = 'composerData:' || ?1 or (key >= 'bubbleId:' || ?1 "
       "|| ':' and key < 'bubbleId:' || ?1 || ';'))", "session, key < 'c', rowid",
       "value is not null and ((key >= 'composerData:' and key < 'composerData;') or "
       "(key >= 'bubbleId:' and key < 'bubbleId;'))"}},
     "select substr(key, 14) id, (select count(*) from cursorDiskKV b where b.key >= "
     "'bubbleId:' || substr(c.key, 14) || ':' and b.key < 'bubbleId:' || "
     "substr(c.key, 14) || ';'), case when json_valid(cast(value as text)) then "
     "ifnull(json_extract(cast(value as text), '$.lastUpdatedAt'), 0) + "
     "length(value) % 1000003 + (select ifnull(sum(length(b.value)), 0) from "
     "cursorDiskKV b where b.key >= 'bubbleId:' || substr(c.key, 14) || ':' and "
     "b.key < 'bubbleId:' || substr(c.key, 14) || ';') % 1000003 else "
     "length(value) end from cursorDiskKV c where key >= 'composerData:' and key < "
     "'composerData;' and value is not null "
     /* bubbles without one: their reader counts them */
     "union all select b.id, count(*), sum(length(b.value)) from (select substr(key, 10, "
     "instr(substr(key, 10), ':') - 1) id, value from cursorDiskKV where key >= "
     "'bubbleId:' and key < 'bubbleId;' and value is not null) b where not exists "
     "(select 1 from cursorDiskKV c where c.key = 'composerData:' || b.id and c.value is "
     "not null) group by 1 order by 1"},
};

/* Returns the tables of the database; NULL: of no program that is known. */
static const schema *schema_of(const sqlite_library *s, void *db, int *got)
{
    const schema *found = NULL;
    char query[200], expected[4];
    *got = SQLITE_OK;
    for (size_t i = 0; i < COUNT_OF(schemas) && found == NULL; i++) {
        void *row = NULL;
        int n = 1;
        for (const char *c = schemas[i].tables; *c != '\0'; c++) n += *c == ',';
        snprintf(expected, sizeof expected, "%d", n % 100);
        snprintf(query, sizeof query, "select count(*) from sqlite_master where "
                 "type = 'table' and name in (%s)", schemas[i].tables);
        *got = s->prepare_v2(db, query, -1, &row, NULL);
        if (*got != SQLITE_OK) return NULL;
        *got = s->step(row);
        const unsigned char *text = *got == SQLITE_ROW ? s->column_text(row, 0) : NULL;
        bool all = text != NULL && strcmp((const char *)text, expected) == 0;
        if (all) found = &schemas[i];
        s->finalize(row);
    }
    return found;
}

static int read_rows(const sqlite_library *s, void *db, const schema *of,
                     const char *path, const char *session, file_text *f)
{
    char query[600];
    rows_text to = {NULL, 0, 0, files_most(), 0, false};
    int got = SQLITE_OK;
    for (size_t i = 0; i < COUNT_OF(of->queries) && got == SQLITE_OK; i++) {
        const char *const *q = of->queries[i];
        if (q[0] == NULL) break;
        const char *where = session != NULL ? q[1] : q[3];
        snprintf(query, sizeof query, "%s%s%s%s order by %s", q[0],
                 where != NULL ? " where " : "", where != NULL ? where : "",
                 where != NULL && q[3] == NULL ? " = ?1" : "", q[2]);
        got = put_query(s, db, query, session, &to);
    }
    if (got != SQLITE_OK || to.full) {
        if (to.full) complain("%s: too large; --max-input allows more", path);
        else complain("%s: SQLite: %s", path, s->errmsg(db));
        free(to.buf);
        return FAILED;
    }
    if (to.repaired > 0) {
        complain("%s: bad UTF-8 was replaced by U+FFFD in %" PRIu64 " value%s", path,
                 to.repaired, plural(to.repaired));
    }
    file_free(f);
    f->buf = to.buf;
    f->cap = to.cap;
    f->text = ms_str_n(to.buf, to.len);
    f->plain = true;
    return FINE;
}

/* Opens a database for one transaction. Returns a code of SQLite; *known: its tables;
 * NULL: of no program that is known. */
static int open_database(const sqlite_library *s, const char *path, void **db,
                         const schema **known)
{
    *db = NULL;
    int got = s->open_v2(path, db, SQLITE_OPEN_READONLY, NULL);
    if (got == SQLITE_OK) {
        s->busy_timeout(*db, BUSY_MS);
        got = s->exec(*db, "begin", NULL, NULL, NULL);
    }
    *known = got == SQLITE_OK ? schema_of(s, *db, &got) : NULL;
    return got;
}

/* Returns a time in nanoseconds for whole milliseconds, and some other number for what is
 * none: it changes when the text does. */
static int64_t changed_of(const char *text)
{
    char *end;
    uint64_t ms = strtoull(text, &end, 10);
    bool time = *text != '-' && ms < 9000000000000 && *end == '\0';
    return time ? (int64_t)ms * 1000000 : (int64_t)(hash_text(ms_str_of(text)) >> 1);
}

/* Reads the sessions, and in another pass what their messages and parts add. *lost: rows
 * of no session. */
static int read_sessions(const sqlite_library *s, void *db, const char *query,
                         database_session **out, database_session *lost)
{
    void *row = NULL;
    int got = s->prepare_v2(db, query, -1, &row, NULL);
    if (got != SQLITE_OK) return got;
    while ((got = s->step(row)) == SQLITE_ROW) {
        const char *v[3];
        for (int i = 0; i < 3; i++) v[i] = (const char *)s->column_text(row, i);
        if (v[0] == NULL) {
            lost->rows += v[1] != NULL ? strtoull(v[1], NULL, 10) : 1;
            lost->changed ^= v[2] != NULL ? changed_of(v[2]) : 0;
        }
        if (v[0] == NULL || v[1] == NULL || v[2] == NULL) continue;
        database_session one = {copy_chars(v[0], strlen(v[0])), strtoull(v[1], NULL, 10),
                                0};
        if (one.id == NULL) exit(no_memory());
        one.changed = changed_of(v[2]);
        arrput(*out, one);
    }
    s->finalize(row);
    return got == SQLITE_DONE ? SQLITE_OK : got;
}

database_session *database_sessions(const char *path, database_session *lost)
{
    sqlite_library s;
    void *db;
    const schema *known;
    database_session *out = NULL;
    file_text f = {{NULL, 0}, NULL, 0, NULL, 0, false, 0};
    bool all, whole = is_read(file_load_head(&f, path, &all)) && f.plain &&
                      is_database(f.text);
    file_free(&f);
    memset(lost, 0, sizeof *lost);
    if (!whole || !load_library(&s)) return NULL;
    int got = open_database(&s, path, &db, &known);
    if (known != NULL) got = read_sessions(&s, db, known->sessions, &out, lost);
    if (db != NULL) s.close(db);
    for (size_t i = 0; got != SQLITE_OK && i < arrlenu(out); i++) free(out[i].id);
    if (got != SQLITE_OK) arrfree(out);
    return out;
}

int database_load(file_text *f, const char *path, const char *session)
{
    sqlite_library s;
    void *db = NULL;
    const schema *known;
    int got, code = FINE;
    if (!is_database(f->text) || !f->plain) return FINE;
    if (!load_library(&s)) {
        complain("%s: an SQLite database, and there is no libsqlite3 on this machine to "
                 "read it (Debian: libsqlite3-0)", path);
        return FAILED;
    }
    got = open_database(&s, path, &db, &known);
    if (known != NULL) {
        code = read_rows(&s, db, known, path, session, f);
    } else if (got != SQLITE_OK && got != SQLITE_ROW && got != SQLITE_NOTADB) {
        complain("%s: SQLite: %s", path, db != NULL ? s.errmsg(db) : "no memory");
        code = FAILED;
    }
    if (db != NULL) s.close(db);
    return code;
}
