/* SQLite databases of agent programs, beside a program that writes them: opened read
 * only, in one transaction, which has what stands in the write-ahead log, too. libsqlite3
 * is loaded when the first one is met; the tool starts without it. */

#ifndef DATABASE_H
#define DATABASE_H

#include "files.h"

bool is_database(ms_str text);
/* Returns whether a path is named as programs name their databases. */
bool is_database_name(const char *path);
/* Replaces the text of a file that is a database by the rows of its tables, as
 * `sqlite3 -json` prints them (see read_opencode_rows.c, read_agents.c, read_crush.c); of
 * one session, or NULL: of all. A database with other tables, or one that SQLite does not
 * take, stays as it is. FAILED: there is no libsqlite3, or the rows cannot be read. */
int database_load(file_text *f, const char *path, const char *session);

/* A session of a database: what changes when it does. */
typedef struct database_session {
    char *id;
    uint64_t rows;
    int64_t changed;          /* nanoseconds since 1970 */
} database_session;

/* Returns the sessions of a database in an stb_ds array; NULL if it is none, or cannot be
 * read: then database_load says why. *lost: its rows of no session. */
database_session *database_sessions(const char *path, database_session *lost);

#endif /* DATABASE_H */
