/* msgstore_postgres.h - a store over PostgreSQL, for msgstore.h - MIT or public domain
 *
 *     #define MSGSTORE_POSTGRES_IMPLEMENTATION      in exactly one C or C++ source file,
 *     #include "msgstore.h"
 *     #include "msgstore_postgres.h"                everywhere else only the includes.
 *
 * One history across machines: agents on many hosts append to PostgreSQL and read from
 * it through the functions of [api-store], [api-change], [api-memory] and [api-find].
 * Needs libpq (-lpq) and POSIX threads, or Windows.
 *
 * ---- A COMPLETE PROGRAM -------------------------------------------------------------
 *
 *     #define MSGSTORE_IMPLEMENTATION
 *     #define MSGSTORE_POSTGRES_IMPLEMENTATION
 *     #include "msgstore.h"
 *     #include "msgstore_postgres.h"
 *     #include <stdio.h>
 *
 *     int main(void)
 *     {
 *         ms_store *store;
 *         ms_error err;
 *         static ms_pg_desc desc; // zero: all defaults
 *         desc.url = "postgresql://agent@db.example/agents?sslmode=verify-full";
 *         if (ms_pg_open(&store, &desc, &err) != MS_OK) return puts(err.message), 1;
 *         ms_envelope ask = ms_user_message(ms_text("List all tables"));
 *         if (ms_append(store, MS_STR("job_123"), &ask, NULL, &err) != MS_OK)
 *             return puts(err.message), 1;
 *         ms_close(store);
 *         return 0;
 *     }
 *
 * ---- GUARANTEES AND LIMITS -----------------------------------------------------------
 *
 *   - An append that returned MS_OK is committed. It is durable as the server's
 *     synchronous_commit makes it.
 *   - A connection that is lost before the answer leaves the result of an append unknown.
 *     The append is repeated under a key that was made for it, so it is stored once.
 *   - If the server cannot be reached within desc.timeout_ms, the call returns
 *     MS_E_UNREACHABLE. Whether an append that was sent is stored is then unknown: give
 *     it a key of your own, and append it again later.
 *   - Numbers of messages are unique in the store and increase in a location. They are
 *     not dense: a number is a tick (milliseconds since 1970, or more) times 1,024, plus
 *     the bucket of the location. Each is larger than all numbers that this handle has
 *     seen before, and below 2^53 until the year 2248. A union (see [api-union]) takes
 *     numbers below 2^40, so it cannot read this store; copy the locations into a log.
 *   - A cursor over one location shows it as of its opening. A cursor over all locations
 *     may in addition show messages whose commit was under way then.
 *   - Any thread may use a store. Each call takes a connection of the pool. A child
 *     process of fork gets MS_E_FORKED.
 *   - Lookup by number (ms_get_by_seq) needs an arena.
 *   - ms_redact overwrites rows. PostgreSQL keeps old versions until VACUUM, and in its
 *     write-ahead log, archives and backups.
 *   - Texts travel as parameters: no location, key or content is ever part of a SQL text.
 *
 * ---- CONTENTS (search for the tag) ---------------------------------------------------
 *
 *   interface         [api-pg]
 *   implementation    [pg-base] [pg-sql] [pg-line] [pg-call] [pg-row] [pg-append]
 *                     [pg-change] [pg-ship] [pg-cursor] [pg-list] [pg-wait] [pg-open]
 */

#ifndef MSGSTORE_POSTGRES_H
#define MSGSTORE_POSTGRES_H

#ifndef MSGSTORE_H
#error "include msgstore.h before msgstore_postgres.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ==== [api-pg] ===================================================================== */

typedef struct ms_pg_desc {
    const char *url;          /* a connection string of libpq: "postgresql://...", or
                                 "host=... dbname=..."; NULL: from the environment, as
                                 libpq does. TLS, several hosts for failover,
                                 search_path and all else is in it */
    const char *const *urls;  /* or several servers without a common engine: each holds
                                 a part of the locations. Always the same ones, in the
                                 same order */
    size_t n_urls;
    bool read_only;           /* appends and changes return MS_E_READ_ONLY; a standby
                                 suffices */
    bool no_create;           /* the tables must be there, MS_E_NOT_FOUND if not; else
                                 they are created */
    unsigned partitions;      /* of the table of records when it is created; 0: 8;
                                 1: none, for engines that distribute rows themselves */
    unsigned connections;     /* to each server, at most; 0: 8 */
    uint32_t timeout_ms;      /* of a call, with all its repetitions; 0: 30,000 */
    uint32_t statement_ms;    /* of one statement on the server; 0: timeout_ms */
    bool no_notify;           /* appends wake nobody: ms_wait asks every 50 ms */
    size_t max_message;       /* bytes of one record; 0: 64 MiB */
    bool keep_unset_times;    /* false: a message without time is stamped from clock */
    ms_clock clock;           /* {0}: the system's */
    ms_entropy entropy;       /* for the keys of appends; {0}: a mix of clock, process
                                 and addresses */
    ms_alloc alloc;           /* {0}: malloc */
} ms_pg_desc;

/* Opens a store; ms_close closes it. desc NULL: all defaults. Connects to each server
 * once, and creates the tables if they are missing: in one transaction, under a lock.
 * MS_E_UNREACHABLE; MS_E_NOT_FOUND: no tables; MS_E_FOREIGN: tables of another version,
 * or servers that do not belong together; MS_E_READ_ONLY: a privilege is missing. */
MS_API ms_result ms_pg_open(ms_store **store, const ms_pg_desc *desc, ms_error *err);

#define MS_PG_BUCKETS 1024

/* The bucket of a location, 0 to 1023: rows with one bucket are on one server. */
MS_API unsigned ms_pg_bucket(ms_str location);

typedef struct ms_pg_stat {
    uint64_t appends;         /* calls of this handle, batches count as one */
    uint64_t repeats;         /* attempts after the first one */
    uint64_t resolved;        /* appends found stored after their answer was lost */
    uint64_t connects;        /* connections made */
} ms_pg_stat;

/* What this handle went through. MS_E_ARGUMENT: a store of another kind. */
MS_API ms_result ms_pg_stat_of(ms_store *store, ms_pg_stat *out, ms_error *err);

/* ---- Shipping: the records of another store (a log), copied exactly once. A source has
 * a name, such as the id of a log file. Each record has a key made of that name and its
 * position: the number of the newest message before or at it, and how many changes come
 * between. A record that was shipped before is left out, so a shipper that was killed
 * begins again anywhere at or before its last position. */

typedef struct ms_pg_position {
    uint64_t message;         /* everything up to this message */
    uint64_t changes;         /* and so many changes after it */
} ms_pg_position;

/* Reads the position that was noted last; zeros: none. source: 1 to 64 bytes. */
MS_API ms_result ms_pg_ship_begin(ms_store *store, ms_str source,
                                  ms_pg_position *position, ms_error *err);
/* Appends messages as they are, with times, flags and keys: each has its location, and
 * its number in the source as seq. On one server all or none. */
MS_API ms_result ms_pg_ship(ms_store *store, ms_str source, const ms_envelope *messages,
                            size_t n, ms_error *err);
/* Makes a change that the source has at this position: an AMEND, NOTE, PIECE or LOCATION,
 * or (first: a message that a HIDE hides) a HIDE. message: the one that it is about, as
 * it was appended, for its number and key; NULL for a LOCATION. */
MS_API ms_result ms_pg_ship_change(ms_store *store, ms_str source, const ms_msg *change,
                                   const ms_msg *message, ms_pg_position at,
                                   ms_error *err);
/* Notes a position. */
MS_API ms_result ms_pg_ship_end(ms_store *store, ms_str source, ms_pg_position position,
                                ms_error *err);

#ifdef __cplusplus
}
#endif

#endif /* MSGSTORE_POSTGRES_H */

#ifdef MSGSTORE_POSTGRES_IMPLEMENTATION
#ifndef MSGSTORE_POSTGRES_IMPLEMENTED
#define MSGSTORE_POSTGRES_IMPLEMENTED

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
#include <winsock2.h>
#include <windows.h>
#else
#include <poll.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ==== [pg-base] the system, errors, bytes =========================================== */

#define MS__PG_TRY(call)                              \
    do {                                              \
        ms_result ms__pg_code = (call);               \
        if (ms__pg_code != MS_OK) return ms__pg_code; \
    } while (0)

#ifdef _WIN32
typedef SRWLOCK ms__pg_lock;
typedef CONDITION_VARIABLE ms__pg_cond;
#define ms__pg_lock_init(l) InitializeSRWLock(l)
#define ms__pg_lock_take(l) AcquireSRWLockExclusive(l)
#define ms__pg_lock_give(l) ReleaseSRWLockExclusive(l)
#define ms__pg_lock_free(l) ((void)(l))
#define ms__pg_cond_init(c) InitializeConditionVariable(c)
#define ms__pg_cond_wake(c) WakeAllConditionVariable(c)
#define ms__pg_cond_free(c) ((void)(c))
#define ms__pg_poll WSAPoll
typedef WSAPOLLFD ms__pg_pollfd;
#else
typedef pthread_mutex_t ms__pg_lock;
typedef pthread_cond_t ms__pg_cond;
#define ms__pg_lock_init(l) (void)pthread_mutex_init(l, NULL)
#define ms__pg_lock_take(l) (void)pthread_mutex_lock(l)
#define ms__pg_lock_give(l) (void)pthread_mutex_unlock(l)
#define ms__pg_lock_free(l) (void)pthread_mutex_destroy(l)
#define ms__pg_cond_init(c) (void)pthread_cond_init(c, NULL)
#define ms__pg_cond_wake(c) (void)pthread_cond_broadcast(c)
#define ms__pg_cond_free(c) (void)pthread_cond_destroy(c)
#define ms__pg_poll poll
typedef struct pollfd ms__pg_pollfd;
#endif

/* Milliseconds of a clock that is never set. */
static int64_t ms__pg_now(void)
{
#ifdef _WIN32
    return (int64_t)GetTickCount64();
#else
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
#endif
}

static int64_t ms__pg_system_time(void)
{
#ifdef _WIN32
    FILETIME f;
    GetSystemTimeAsFileTime(&f);
    uint64_t ticks = (uint64_t)f.dwHighDateTime << 32 | f.dwLowDateTime;
    return (int64_t)(ticks / 10 - UINT64_C(11644473600000000)) * 1000;
#else
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return ((int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000) * 1000;
#endif
}

static void ms__pg_nap(int64_t ms)
{
#ifdef _WIN32
    Sleep((DWORD)ms);
#else
    struct timespec t;
    t.tv_sec = (time_t)(ms / 1000);
    t.tv_nsec = (long)(ms % 1000) * 1000000;
    nanosleep(&t, NULL);
#endif
}

/* Waits under a lock for at most ms milliseconds. */
static void ms__pg_cond_wait(ms__pg_cond *c, ms__pg_lock *l, int64_t ms)
{
#ifdef _WIN32
    SleepConditionVariableSRW(c, l, (DWORD)ms, 0);
#else
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    int64_t ns = (int64_t)t.tv_nsec + ms % 1000 * 1000000;
    t.tv_sec += (time_t)(ms / 1000 + ns / 1000000000);
    t.tv_nsec = (long)(ns % 1000000000);
    pthread_cond_timedwait(c, l, &t);
#endif
}

static long ms__pg_process(void)
{
#ifdef _WIN32
    return (long)GetCurrentProcessId();
#else
    return (long)getpid();
#endif
}

static ms_result ms__pg_no_memory(ms_error *err)
{
    return ms_error_set(err, MS_E_NO_MEMORY, "out of memory");
}

/* The message is "what: detail", without the line break at the end of libpq's texts. */
static ms_result ms__pg_fail(ms_error *err, ms_result code, const char *what,
                             const char *detail)
{
    char text[512];
    int n = snprintf(text, sizeof text, "%s%s%s", what, detail ? ": " : "",
                     detail ? detail : "");
    if (n < 0) n = 0;
    if ((size_t)n >= sizeof text) n = (int)sizeof text - 1;
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' ')) text[--n] = '\0';
    for (int i = 0; i < n; i++)
        if (text[i] == '\n') text[i] = ' ';
    return ms_error_set(err, code, text);
}

static void ms__pg_put(unsigned char *p, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        p[i] = (unsigned char)(value >> 8 * (bytes - 1 - i));
}

static int64_t ms__pg_read(const char *p, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) value = value << 8 | (unsigned char)p[i];
    if (bytes == 4) return (int32_t)(uint32_t)value;
    if (bytes == 2) return (int16_t)(uint16_t)value;
    return (int64_t)value;
}

/* FNV-1a, then mixed, since its low bits alone are weak. */
static uint64_t ms__pg_hash(ms_str s)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < s.len; i++)
        h = (h ^ (unsigned char)s.ptr[i]) * UINT64_C(0x100000001b3);
    h ^= h >> 32;
    h *= UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 29;
}

MS_API unsigned ms_pg_bucket(ms_str location)
{
    return (unsigned)(ms__pg_hash(location) % MS_PG_BUCKETS);
}

/* ==== [pg-sql] tables and statements =================================================
 * Two tables, found through the search_path of the connection.
 *
 * msgstore_record has a row for each record: a message, or a change. `seq` is the number
 * of the message that the record is (MESSAGE, AMEND) or is about; `place` is the number
 * of the record itself, in the order of appending. Of a message the two are equal, except
 * in a copy, which keeps its seq. Rows of kind 1 and 3 are versions of a message: one
 * stands from `place` on until `until`, the place of the AMEND or HIDE that ended it. A
 * view as of place p has the versions with place < p and (until is null or until >= p),
 * so a cursor reads the store as of its opening in any number of statements, over any
 * number of connections. `body` is the record as ms_encode writes it; the other
 * columns repeat what queries need. `key` is the caller's idempotency key after a 'k', a
 * key made for the append after a 't', or the source and position of a record that was
 * shipped after an 's'. msgstore_source has the position of each source.
 *
 * msgstore_bucket has a row for each of 1,024 buckets, the counter: an append updates it,
 * which orders the appends of a bucket, as their commits are ordered. A tick is
 *      greatest(last + 1, the largest that this client has seen + 1, the server's clock
 *               as the client has read it when it connected, and counted on)
 * so numbers of a bucket increase, a client's numbers increase over all buckets and
 * servers, and numbers of different clients are in order of time to a few milliseconds.
 * The number is tick * 1024 + bucket: unique in the store, and it tells the server.
 *
 * Counters are of buckets, not of locations: they exist from the start, one update gives
 * number and totals, and the number leads to the row. Two locations of one bucket wait
 * for each other's commits; with n clients that is one append in 1024 / n. max(seq) + 1,
 * an upsert and advisory locks were tried for the number: they retry or wait more.
 *
 * Each statement for a location names its bucket, the column by which a distributed
 * engine spreads the rows: unique keys contain it, counter and records of a bucket are
 * on one shard, there are no triggers and no sequences.
 *
 * (G1) Rows of a bucket are inserted and changed only under the lock of its counter row.
 * (G2) A made key is written with the append and never used again.
 * ================================================================================== */

#define MS__PG_VERSION 1

#define MS__PG_NOW "(extract(epoch from clock_timestamp()) * 1000)::bigint"
#define MS__PG_TICK "greatest(last + 1, $2::bigint)"
#define MS__PG_SHOWN "kind in (1, 3) and until is null"

static const char *const ms__pg_create[] = {
    "create table if not exists msgstore_schema (version int primary key)",
    "create table if not exists msgstore_bucket (last bigint not null,"
    " newest bigint not null default 0, messages bigint not null default 0,"
    " hidden bigint not null default 0, changes bigint not null default 0,"
    " bytes bigint not null default 0, bucket int primary key)"
    " with (fillfactor = 10)", /* updates stay in their page */
    NULL, /* the table of records */
    "create table if not exists msgstore_source (source bytea, bucket int,"
    " message bigint not null, changes bigint not null, primary key (source, bucket))",
    "create index if not exists msgstore_timeline on msgstore_record (location, seq)"
    " where kind in (1, 3)",
    "create index if not exists msgstore_talk on msgstore_record (location, seq)"
    " where kind in (1, 3) and type in (1, 2)",
    "create index if not exists msgstore_global on msgstore_record (location, seq)"
    " where kind in (1, 3) and type in (9, 15)",
    "create index if not exists msgstore_agent on msgstore_record (location, agent, seq)"
    " where kind in (1, 3) and agent is not null",
    "create index if not exists msgstore_change on msgstore_record (location, place)"
    " where kind > 1",
    "create unique index if not exists msgstore_key on msgstore_record"
    " (location, key, bucket) where key is not null",
    "insert into msgstore_schema values (1) on conflict do nothing",
};

static const char ms__pg_create_record[] =
    "create table if not exists msgstore_record (seq bigint not null,"
    " place bigint not null, time bigint, until bigint, upto bigint,"
    " bucket int not null, kind smallint not null, type smallint not null,"
    " location text not null, agent text, turn text, key bytea, body bytea not null,"
    " primary key (seq, kind, place, bucket))";

/* One message. No row: its key is known. */
#define MS__PG_APPEND(where)                                                          \
    "with c as (update msgstore_bucket set last = " MS__PG_TICK ","                   \
    " newest = " MS__PG_TICK " * 1024 + $1::int, messages = messages + 1,"            \
    " bytes = bytes + $3::bigint where bucket = $1::int" where " returning last)"     \
    " insert into msgstore_record (seq, place, time, bucket, kind, type, location,"   \
    " agent, turn, key, body) select last * 1024 + $1::int, last * 1024 + $1::int,"   \
    " $4::bigint, $1::int, 1, $5::smallint, $6::text, $7::text, $8::text, $9::bytea," \
    " $10::bytea from c returning seq"

static const char ms__pg_append_one[] = MS__PG_APPEND("");
static const char ms__pg_append_keyed[] =
    MS__PG_APPEND(" and not exists (select 1 from msgstore_record where"
                  " bucket = $1::int and location = $6::text and key = $9::bytea)");

/* $4 messages of one location. The last tick comes back. */
static const char ms__pg_append_many[] =
    "with c as (update msgstore_bucket set last = " MS__PG_TICK " + $4::bigint - 1,"
    " newest = (" MS__PG_TICK " + $4::bigint - 1) * 1024 + $1::int,"
    " messages = messages + $4::bigint, bytes = bytes + $3::bigint"
    " where bucket = $1::int returning last), r as ("
    " insert into msgstore_record (seq, place, time, bucket, kind, type, location,"
    " agent, turn, key, body) select (c.last - $4::bigint + i) * 1024 + $1::int,"
    " (c.last - $4::bigint + i) * 1024 + $1::int, u.time, $1::int, 1, u.type, $5::text,"
    " u.agent, u.turn, u.key, u.body from c, unnest($6::bigint[], $7::bigint[],"
    " $8::smallint[], $9::text[], $10::text[], $11::bytea[], $12::bytea[])"
    " as u (i, time, type, agent, turn, key, body) returning 1)"
    " select last from c";

static const char ms__pg_lock_buckets[] =
    "select bucket, last from msgstore_bucket where bucket = any($1::int[])"
    " order by bucket for update";

static const char ms__pg_known_keys[] =
    "select k.i, r.seq, r.place, r.kind, r.body from unnest($1::int[], $2::bigint[],"
    " $3::text[], $4::bytea[]) as k (bucket, i, location, key) join msgstore_record r"
    " on r.bucket = k.bucket and r.location = k.location and r.key = k.key";

static const char ms__pg_last_shown[] =
    "select max(seq) from msgstore_record where bucket = $1::int and location = $2::text"
    " and " MS__PG_SHOWN;

static const char ms__pg_insert[] =
    "insert into msgstore_record (bucket, seq, place, time, upto, kind, type, location,"
    " agent, turn, key, body) select * from unnest($1::int[], $2::bigint[],"
    " $3::bigint[], $4::bigint[], $5::bigint[], $6::smallint[], $7::smallint[],"
    " $8::text[], $9::text[], $10::text[], $11::bytea[], $12::bytea[])";

static const char ms__pg_count[] =
    "update msgstore_bucket b set last = greatest(b.last, $2::bigint),"
    " newest = greatest(b.newest, u.newest), messages = b.messages + u.messages,"
    " bytes = b.bytes + u.bytes, changes = b.changes + $6::bigint,"
    " hidden = b.hidden + $7::bigint"
    " from unnest($1::int[], $3::bigint[], $4::bigint[], $5::bigint[])"
    " as u (bucket, newest, messages, bytes) where b.bucket = u.bucket";

/* The first version of a message, and the last AMEND: what stands is the later one, if
 * it has not ended. */
#define MS__PG_VERSIONS(where)                                                          \
    "(select kind, type, location, until, body, place from msgstore_record where seq"   \
    " = $1::bigint and kind = 1" where " order by place limit 1) union all"             \
    " (select kind, type, location, until, body, place from msgstore_record where seq"  \
    " = $1::bigint and kind = 3" where " order by place desc limit 1) order by kind"

static const char ms__pg_versions[] = MS__PG_VERSIONS("");
static const char ms__pg_versions_routed[] = MS__PG_VERSIONS(" and bucket = $2::int");

static const char ms__pg_end_version[] =
    "update msgstore_record set until = $5::bigint where bucket = $1::int"
    " and seq = $2::bigint and kind = $3::smallint and place = $4::bigint";

static const char ms__pg_hide_range[] =
    "update msgstore_record set until = $5::bigint where bucket = $1::int and"
    " location = $2::text and seq >= $3::bigint and seq <= $4::bigint and " MS__PG_SHOWN;

static const char ms__pg_erase_row[] =
    "update msgstore_record set body = $4::bytea where bucket = $1::int"
    " and seq = $2::bigint and place = $3::bigint";

static const char ms__pg_totals[] =
    "select coalesce(sum(messages), 0)::bigint, coalesce(sum(hidden), 0)::bigint,"
    " coalesce(sum(changes), 0)::bigint, coalesce(sum(bytes), 0)::bigint,"
    " coalesce(max(newest), 0), coalesce(max(last), 0) from msgstore_bucket";

/* ---- Parameters, in binary. */

enum {
    MS__PG_INT2 = 21, MS__PG_INT4 = 23, MS__PG_INT8 = 20, MS__PG_TEXT = 25,
    MS__PG_BYTEA = 17, MS__PG_INT2S = 1005, MS__PG_INT4S = 1007, MS__PG_INT8S = 1016,
    MS__PG_TEXTS = 1009, MS__PG_BYTEAS = 1001
};

#define MS__PG_PARAMS 32

typedef struct ms__pg_params {
    int n;
    Oid types[MS__PG_PARAMS];
    const char *values[MS__PG_PARAMS];
    int lengths[MS__PG_PARAMS];
    int formats[MS__PG_PARAMS]; /* 1: binary */
    unsigned char room[MS__PG_PARAMS][8];
} ms__pg_params;

static void ms__pg_param(ms__pg_params *p, Oid type, const void *value, size_t len)
{
    p->types[p->n] = type;
    p->values[p->n] = (const char *)value;
    p->lengths[p->n] = (int)len;
    p->formats[p->n] = 1;
    p->n++;
}

static void ms__pg_number(ms__pg_params *p, Oid type, int64_t value)
{
    unsigned bytes = type == MS__PG_INT8 ? 8 : type == MS__PG_INT4 ? 4 : 2;
    ms__pg_put(p->room[p->n], (uint64_t)value, bytes);
    ms__pg_param(p, type, p->room[p->n], bytes);
}

/* Absent is NULL. */
static void ms__pg_text(ms__pg_params *p, ms_str s)
{
    ms__pg_param(p, MS__PG_TEXT, s.ptr, s.len);
}

static void ms__pg_bytea(ms__pg_params *p, ms_str s)
{
    ms__pg_param(p, MS__PG_BYTEA, s.ptr, s.len);
}

/* Numbers of messages are unsigned, columns are not: what is larger than all is the
 * largest. */
static int64_t ms__pg_signed(uint64_t seq)
{
    return seq > (uint64_t)INT64_MAX ? INT64_MAX : (int64_t)seq;
}

/* An array on its way: the header (dimensions, NULLs, type, count, lower bound), then
 * for each element its size, -1 for NULL, and its bytes. `bad`: no memory. */
typedef struct ms__pg_array {
    ms_arena *arena;
    unsigned char *bytes;
    size_t len, cap;
    uint32_t n;
    Oid type;                 /* of an element */
    bool bad;
} ms__pg_array;

#define MS__PG_ARRAY_HEAD 20

static unsigned char *ms__pg_array_room(ms__pg_array *a, size_t n)
{
    size_t need = (a->len ? a->len : MS__PG_ARRAY_HEAD) + n;
    if (a->len == 0) a->len = MS__PG_ARRAY_HEAD;
    if (need > a->cap && !a->bad) {
        size_t cap = 2 * need + 256;
        unsigned char *bytes = (unsigned char *)ms_arena_alloc(a->arena, cap);
        if (bytes && a->cap) memcpy(bytes, a->bytes, a->len);
        if (bytes) a->bytes = bytes;
        else a->bad = true;
        a->cap = cap;
    }
    if (a->bad) return NULL;
    a->len = need;
    return a->bytes + need - n;
}

static void ms__pg_push(ms__pg_array *a, ms_str s)
{
    if (!s.ptr) s.len = 0;
    unsigned char *p = ms__pg_array_room(a, 4 + s.len);
    a->n++;
    if (!p) return;
    ms__pg_put(p, s.ptr ? (uint64_t)s.len : UINT64_MAX, 4);
    if (s.ptr && s.len) memcpy(p + 4, s.ptr, s.len);
}

static void ms__pg_push_number(ms__pg_array *a, int64_t value)
{
    unsigned bytes = a->type == MS__PG_INT8 ? 8 : a->type == MS__PG_INT4 ? 4 : 2;
    unsigned char *p = ms__pg_array_room(a, 4 + bytes);
    a->n++;
    if (!p) return;
    ms__pg_put(p, bytes, 4);
    ms__pg_put(p + 4, (uint64_t)value, bytes);
}

static ms__pg_array ms__pg_array_of(ms_arena *arena, Oid type)
{
    ms__pg_array a;
    memset(&a, 0, sizeof a);
    a.arena = arena;
    a.type = type;
    return a;
}

/* Adds an array to the parameters. False: no memory, or over a gigabyte. */
static bool ms__pg_array_param(ms__pg_params *p, ms__pg_array *a)
{
    Oid type = a->type == MS__PG_INT8   ? MS__PG_INT8S
               : a->type == MS__PG_INT4 ? MS__PG_INT4S
               : a->type == MS__PG_INT2 ? MS__PG_INT2S
               : a->type == MS__PG_TEXT ? MS__PG_TEXTS
                                        : MS__PG_BYTEAS;
    (void)ms__pg_array_room(a, 0);
    if (a->bad || a->len > (size_t)1 << 30) return false;
    ms__pg_put(a->bytes, a->n ? 1 : 0, 4);
    ms__pg_put(a->bytes + 4, 1, 4);
    ms__pg_put(a->bytes + 8, a->type, 4);
    ms__pg_put(a->bytes + 12, a->n, 4);
    ms__pg_put(a->bytes + 16, 1, 4);
    ms__pg_param(p, type, a->bytes, a->n ? a->len : 12);
    return true;
}

/* ---- Columns of a result. */

static int64_t ms__pg_int(const PGresult *r, int row, int column)
{
    if (PQgetisnull(r, row, column)) return 0;
    return ms__pg_read(PQgetvalue(r, row, column),
                       (unsigned)PQgetlength(r, row, column));
}

static ms_str ms__pg_str(const PGresult *r, int row, int column)
{
    if (PQgetisnull(r, row, column)) return ms_str_n(NULL, 0);
    return ms_str_n(PQgetvalue(r, row, column), (size_t)PQgetlength(r, row, column));
}

/* ==== [pg-line] one connection =======================================================
 * A line is a connection with the statements that were prepared on it. Sending, waiting
 * and connecting have the deadline of the call. After a failure the line tells what the
 * caller may do:
 *
 *      lost    the connection is gone or in an unknown state; it is closed later
 *      again   another attempt may succeed: the connection was lost, the transaction was
 *              aborted in favour of another one, the server is starting or read-only
 * ================================================================================== */

#define MS__PG_PREPARED 96

typedef struct ms__pg_line {
    PGconn *conn;             /* NULL: not connected */
    bool busy;                /* a call has it */
    int64_t deadline;         /* of that call */
    bool lost, again;
    bool sent;                /* the call has sent a statement */
    bool noisy;               /* results that nobody waits for are on their way */
    unsigned n_prepared;
    uint64_t prepared[MS__PG_PREPARED]; /* hashes of statements */
} ms__pg_line;

static void ms__pg_line_drop(ms__pg_line *line)
{
    if (line->conn) PQfinish(line->conn);
    line->conn = NULL;
    line->n_prepared = 0;
    line->noisy = false;
}

/* The connection cannot be used any more. */
static ms_result ms__pg_lost(ms__pg_line *line, const char *what, ms_error *err)
{
    line->lost = line->again = true;
    return ms__pg_fail(err, MS_E_UNREACHABLE, what, PQerrorMessage(line->conn));
}

/* Waits until the socket can be read (or written), at most until the deadline. */
static ms_result ms__pg_ready(ms__pg_line *line, bool write, ms_error *err)
{
    for (;;) {
        ms__pg_pollfd fd;
        int64_t left = line->deadline - ms__pg_now();
        fd.fd = PQsocket(line->conn);
        fd.events = (short)(POLLIN | (write ? POLLOUT : 0));
        fd.revents = 0;
        if (left <= 0) {
            line->lost = line->again = true;
            return ms__pg_fail(err, MS_E_UNREACHABLE, "the server did not answer in time",
                               NULL);
        }
        if (ms__pg_poll(&fd, 1, left > 1000 ? 1000 : (int)left) > 0) return MS_OK;
    }
}

/* Waits for the next result; *out NULL: there are no more. */
static ms_result ms__pg_result(ms__pg_line *line, PGresult **out, ms_error *err)
{
    int left = PQflush(line->conn);
    *out = NULL;
    while (left == 1 || PQisBusy(line->conn)) {
        MS__PG_TRY(ms__pg_ready(line, left == 1, err));
        if (!PQconsumeInput(line->conn))
            return ms__pg_lost(line, "the connection was lost", err);
        if (left == 1) left = PQflush(line->conn);
    }
    if (left < 0) return ms__pg_lost(line, "the connection was lost", err);
    *out = PQgetResult(line->conn);
    return MS_OK;
}

typedef struct ms__pg_state {
    const char *state;        /* SQLSTATE, or the beginning of it */
    ms_result code;
    bool again;
} ms__pg_state;

/* What the caller gets for an error of the server; the first row that fits. */
static const ms__pg_state ms__pg_states[] = {
    {"08P01", MS_E_IO, false},         /* the two sides do not understand each other */
    {"08", MS_E_UNREACHABLE, true},    /* connection trouble */
    {"25006", MS_E_UNREACHABLE, true}, /* read-only: a standby that may be promoted */
    {"25001", MS_E_UNREACHABLE, true}, {"25P01", MS_E_UNREACHABLE, true},
    {"25P02", MS_E_UNREACHABLE, true},
    {"26", MS_E_UNREACHABLE, true},    /* the prepared statement is gone: a pooler */
    {"0A000", MS_E_UNSUPPORTED, false},
    {"40", MS_E_BUSY, true},           /* serialization failure, deadlock */
    {"55P03", MS_E_BUSY, true},        /* a lock */
    {"57014", MS_E_BUSY, false},       /* statement timeout */
    {"57", MS_E_UNREACHABLE, true},    /* shutting down, starting */
    {"53100", MS_E_FULL, false},       /* disk full */
    {"53200", MS_E_NO_MEMORY, false},
    {"53", MS_E_UNREACHABLE, true},    /* too many connections */
    {"42501", MS_E_READ_ONLY, false},  /* no privilege */
    {"42P01", MS_E_NOT_FOUND, false},  /* no table */
    {"3F", MS_E_NOT_FOUND, false},     /* no schema */
    {"3D", MS_E_NOT_FOUND, false},     /* no database */
    {"42", MS_E_FOREIGN, false},       /* other columns */
    {"23505", MS_E_CONFLICT, true},    /* a key, or a number: see [pg-append] */
    {"22", MS_E_ARGUMENT, false},      /* a value that the server refuses */
    {"28", MS_E_UNREACHABLE, false},   /* password */
    {"XX001", MS_E_DAMAGED, false}, {"XX002", MS_E_DAMAGED, false},
};

/* Fills err from a failed result. */
static ms_result ms__pg_refused(ms__pg_line *line, const PGresult *r, ms_error *err)
{
    const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
    if (!state || PQstatus(line->conn) == CONNECTION_BAD)
        return ms__pg_lost(line, "the connection was lost", err);
    for (size_t i = 0; i < sizeof ms__pg_states / sizeof ms__pg_states[0]; i++) {
        const ms__pg_state *s = &ms__pg_states[i];
        if (strncmp(state, s->state, strlen(s->state)) != 0) continue;
        line->again = s->again;
        line->lost = s->again && s->code == MS_E_UNREACHABLE;
        return ms__pg_fail(err, s->code, "the server refused", text);
    }
    return ms__pg_fail(err, MS_E_IO, "the server failed", text);
}

/* Reads the answer to what was sent: its first result to *out (which may be NULL). */
static ms_result ms__pg_answer(ms__pg_line *line, PGresult **out, ms_error *err)
{
    PGresult *r, *first = NULL;
    ms_result code = MS_OK;
    for (;;) {
        ms_result got = ms__pg_result(line, &r, code == MS_OK ? err : NULL);
        if (got != MS_OK) code = got;
        if (!r) break;
        ExecStatusType status = PQresultStatus(r);
        if (code == MS_OK && status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
            code = ms__pg_refused(line, r, err);
        if (first) PQclear(r);
        else first = r;
        if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT) break; /* never sent */
    }
    if (code == MS_OK && !first) code = ms__pg_lost(line, "there was no answer", err);
    if (code == MS_OK && out) *out = first;
    else PQclear(first);
    return code;
}

/* Results that nobody waited for (a notification's) are read away. */
static ms_result ms__pg_quiet(ms__pg_line *line, ms_error *err)
{
    PGresult *r;
    if (!line->noisy) return MS_OK;
    do {
        MS__PG_TRY(ms__pg_result(line, &r, err));
        PQclear(r);
    } while (r);
    line->noisy = false;
    return MS_OK;
}

static ms_result ms__pg_simple(ms__pg_line *line, const char *sql, ms_error *err)
{
    MS__PG_TRY(ms__pg_quiet(line, err));
    if (!PQsendQuery(line->conn, sql))
        return ms__pg_lost(line, "the connection was lost", err);
    return ms__pg_answer(line, NULL, err);
}

/* Prepares a statement under a name made of its hash, once on each connection. */
static ms_result ms__pg_prepare(ms__pg_line *line, const char *sql, const char *name,
                                uint64_t hash, const ms__pg_params *p, ms_error *err)
{
    for (unsigned i = 0; i < line->n_prepared; i++)
        if (line->prepared[i] == hash) return MS_OK;
    if (line->n_prepared == MS__PG_PREPARED) {
        MS__PG_TRY(ms__pg_simple(line, "deallocate all", err));
        line->n_prepared = 0;
    }
    if (!PQsendPrepare(line->conn, name, sql, p->n, p->types))
        return ms__pg_lost(line, "the connection was lost", err);
    MS__PG_TRY(ms__pg_answer(line, NULL, err));
    line->prepared[line->n_prepared++] = hash;
    return MS_OK;
}

/* Runs a statement. *out (may be NULL) receives the rows, to be cleared. */
static ms_result ms__pg_exec(ms__pg_line *line, const char *sql, const ms__pg_params *p,
                             PGresult **out, ms_error *err)
{
    char name[24];
    uint64_t hash = ms__pg_hash(ms_str_n(sql, strlen(sql)));
    if (out) *out = NULL;
    snprintf(name, sizeof name, "ms%08lx%08lx", (unsigned long)(hash >> 32),
             (unsigned long)(hash & 0xFFFFFFFF));
    MS__PG_TRY(ms__pg_quiet(line, err));
    MS__PG_TRY(ms__pg_prepare(line, sql, name, hash, p, err));
    line->sent = true;
    if (!PQsendQueryPrepared(line->conn, name, p->n, p->values, p->lengths, p->formats,
                             1))
        return ms__pg_lost(line, "the connection was lost", err);
    return ms__pg_answer(line, out, err);
}

/* Notices of the server are not for the program's stderr. */
static void ms__pg_hush(void *ctx, const PGresult *r)
{
    (void)ctx;
    (void)r;
}

/* Connects before the deadline, without blocking longer. */
static ms_result ms__pg_connect_poll(ms__pg_line *line, ms_error *err)
{
    PostgresPollingStatusType want = PGRES_POLLING_WRITING;
    while (want != PGRES_POLLING_OK) {
        if (want == PGRES_POLLING_FAILED)
            return ms__pg_lost(line, "cannot connect", err);
        MS__PG_TRY(ms__pg_ready(line, want == PGRES_POLLING_WRITING, err));
        want = PQconnectPoll(line->conn);
    }
    return MS_OK;
}

/* What the connection string says comes after what it may change. With time enough,
 * libpq itself goes on to the next host when one does not answer. */
static ms_result ms__pg_connect(ms__pg_line *line, const char *url, bool read_only,
                                uint32_t statement_ms, ms_error *err)
{
    const char *names[8], *values[8];
    char seconds[24], set[64];
    int n = 0;
    int64_t left = line->deadline - ms__pg_now();
    snprintf(seconds, sizeof seconds, "%ld", left > 6000 ? (long)(left / 3000) : 2L);
    names[n] = "target_session_attrs", values[n++] = read_only ? "any" : "read-write";
    names[n] = "fallback_application_name", values[n++] = "msgstore";
    names[n] = "connect_timeout", values[n++] = seconds;
    names[n] = "dbname", values[n++] = url;
    names[n] = "client_encoding", values[n++] = "UTF8";
    names[n] = NULL, values[n] = NULL;
    line->lost = false;
    if (left >= 3000) line->conn = PQconnectdbParams(names, values, 1);
    else line->conn = PQconnectStartParams(names, values, 1);
    if (!line->conn) return ms__pg_no_memory(err);
    if (PQstatus(line->conn) == CONNECTION_BAD)
        return ms__pg_lost(line, "cannot connect", err);
    if (left < 3000) MS__PG_TRY(ms__pg_connect_poll(line, err));
    PQsetNoticeReceiver(line->conn, ms__pg_hush, NULL);
    if (PQsetnonblocking(line->conn, 1) != 0)
        return ms__pg_lost(line, "cannot connect", err);
    snprintf(set, sizeof set, "set statement_timeout = %lu", (unsigned long)statement_ms);
    MS__PG_TRY(ms__pg_simple(line, set, err));
    /* A server that no longer hears from a client holds its locks until it gives up. Not
     * every engine knows these. */
    (void)ms__pg_simple(line, "set tcp_keepalives_idle = 4; set tcp_keepalives_interval ="
                        " 2; set tcp_keepalives_count = 3", NULL);
    line->again = line->lost;
    return line->lost ? ms__pg_lost(line, "cannot connect", err) : MS_OK;
}

/* ==== [pg-call] the pool, and repetition =============================================
 * A call takes a line to the server of its bucket, runs a step, and gives the line back.
 * Where the line allows another attempt, the step runs again, on a fresh connection if
 * the old one is lost, after a pause that doubles up to a quarter of a second, until the
 * deadline. A step must be repeatable: queries are; appends are by their keys.
 * ================================================================================== */

typedef struct ms__pg_server {
    char *url;                /* NULL: from the environment */
    ms__pg_line *lines;
} ms__pg_server;

typedef struct ms__pg {
    ms_store base;            /* first: a pointer to it is a pointer to the whole */
    ms_pg_desc desc;          /* defaults filled in; urls are not kept */
    ms_arena arena;           /* this struct and all that is in it */
    ms__pg_server *servers;
    size_t n_servers;
    uint16_t owner[MS_PG_BUCKETS]; /* the server of a bucket */
    long process;
    ms__pg_lock lock;         /* of everything below */
    ms__pg_cond given;        /* a line was given back */
    int64_t seen;             /* the largest tick known to this handle */
    int64_t ahead;            /* of the server's clock to ms__pg_now */
    uint64_t tickets;         /* keys made so far */
    unsigned char client[12]; /* random part of them */
    int64_t notified;         /* when, see [pg-wait] */
    ms__pg_line listener;
    ms_pg_stat stat;
} ms__pg;

static ms__pg *ms__pg_of(ms_store *store) { return (ms__pg *)(void *)store; }

static void ms__pg_saw(ms__pg *s, int64_t tick)
{
    ms__pg_lock_take(&s->lock);
    if (tick > s->seen) s->seen = tick;
    ms__pg_lock_give(&s->lock);
}

/* The least tick of what is appended now. */
static int64_t ms__pg_tick(ms__pg *s)
{
    ms__pg_lock_take(&s->lock);
    int64_t tick = s->seen + 1, now = ms__pg_now() + s->ahead;
    ms__pg_lock_give(&s->lock);
    return tick > now ? tick : now;
}

static ms_result ms__pg_check(const ms__pg *s, bool write, ms_error *err)
{
    if (ms__pg_process() != s->process)
        return ms_error_set(err, MS_E_FORKED, "the connections belong to the parent "
                                              "process");
    if (write && s->desc.read_only)
        return ms_error_set(err, MS_E_READ_ONLY, "the store was opened for reading");
    return MS_OK;
}

/* An idle line, a connected one if there is one; NULL: all are busy. Under the lock. */
static ms__pg_line *ms__pg_idle(ms__pg *s, ms__pg_server *server)
{
    ms__pg_line *found = NULL;
    for (unsigned i = 0; i < s->desc.connections; i++) {
        ms__pg_line *line = &server->lines[i];
        if (line->busy) continue;
        if (line->conn) return line;
        if (!found) found = line;
    }
    return found;
}

/* Reads the server's clock. */
static ms_result ms__pg_clock(ms__pg *s, ms__pg_line *line, ms_error *err)
{
    ms__pg_params p;
    PGresult *r;
    p.n = 0;
    MS__PG_TRY(ms__pg_exec(line, "select " MS__PG_NOW, &p, &r, err));
    ms__pg_lock_take(&s->lock);
    s->ahead = ms__pg_int(r, 0, 0) - ms__pg_now();
    s->stat.connects++;
    ms__pg_lock_give(&s->lock);
    PQclear(r);
    line->sent = false;
    return MS_OK;
}

static ms_result ms__pg_take(ms__pg *s, size_t server, int64_t deadline,
                             ms__pg_line **out, ms_error *err)
{
    ms__pg_line *line;
    ms__pg_lock_take(&s->lock);
    while ((line = ms__pg_idle(s, &s->servers[server])) == NULL) {
        int64_t left = deadline - ms__pg_now();
        if (left <= 0) break;
        ms__pg_cond_wait(&s->given, &s->lock, left > 1000 ? 1000 : left);
    }
    if (line) line->busy = true;
    ms__pg_lock_give(&s->lock);
    *out = line;
    if (!line)
        return ms_error_set(err, MS_E_UNREACHABLE, "all connections were busy for all of "
                                                   "the time");
    line->deadline = deadline;
    line->lost = line->again = line->sent = false;
    if (line->conn) return MS_OK;
    MS__PG_TRY(ms__pg_connect(line, s->servers[server].url, s->desc.read_only,
                              s->desc.statement_ms, err));
    return ms__pg_clock(s, line, err);
}

static void ms__pg_give(ms__pg *s, ms__pg_line *line)
{
    if (!line) return;
    if (line->lost || (line->conn && PQtransactionStatus(line->conn) != PQTRANS_IDLE &&
                       !line->noisy))
        ms__pg_line_drop(line);
    ms__pg_lock_take(&s->lock);
    line->busy = false;
    ms__pg_cond_wake(&s->given);
    ms__pg_lock_give(&s->lock);
}

static int64_t ms__pg_deadline(const ms__pg *s)
{
    return ms__pg_now() + s->desc.timeout_ms;
}

/* Pauses before attempt n + 1, up to twice as long as asked, so that clients part. */
static void ms__pg_back_off(ms__pg *s, unsigned n)
{
    int64_t ms = n < 7 ? (int64_t)2 << n : 250;
    ms__pg_lock_take(&s->lock);
    uint64_t mixed = (++s->tickets + (uint64_t)(uintptr_t)&ms) *
                     UINT64_C(0x9E3779B97F4A7C15);
    s->stat.repeats++;
    ms__pg_lock_give(&s->lock);
    ms__pg_nap(ms + (int64_t)(mixed >> 40) % ms);
}

typedef ms_result (*ms__pg_step)(ms__pg *s, ms__pg_line *line, void *ctx, ms_error *err);

/* Runs a step on a server, repeatedly until it succeeds or must fail. */
static ms_result ms__pg_call(ms__pg *s, size_t server, ms__pg_step step, void *ctx,
                             ms_error *err)
{
    int64_t deadline = ms__pg_deadline(s);
    for (unsigned attempt = 0;; attempt++) {
        ms__pg_line *line;
        ms_result code = ms__pg_take(s, server, deadline, &line, err);
        if (code == MS_OK) code = step(s, line, ctx, err);
        bool again = code != MS_OK && line && line->again;
        ms__pg_give(s, line);
        if (!again || ms__pg_now() >= deadline) return code;
        ms__pg_back_off(s, attempt);
    }
}

/* ==== [pg-row] records on their way ================================================= */

/* One record of an append or change. */
typedef struct ms__pg_row {
    const ms_envelope *m;
    ms_str location;
    unsigned bucket;
    unsigned kind;
    bool has_time;
    int64_t time;
    uint64_t seq, place;      /* as they will be stored */
    uint64_t known;           /* the message that it repeats; 0: it is a new one */
    uint64_t upto;            /* HIDE: the last number */
    ms_str key;               /* as in the column; absent: none */
    bool shipped;             /* the key is of a source */
    const ms_msg *msg;        /* encoded, without flag COMMIT */
} ms__pg_row;

/* An append or a change, through all of its attempts. */
typedef struct ms__pg_batch {
    ms__pg *s;
    const ms_append_opts *opts;
    ms__pg_row *rows;
    size_t n;
    ms_arena arena;           /* rows and their records */
    ms_arena scratch;         /* of one attempt */
    size_t server;
    int64_t now;              /* stamps; MS_TIME_NONE: none */
    bool change;              /* through ms_backend.change */
    bool keyed;               /* some message has a key of the caller's */
    bool spread;              /* several locations */
    bool stamps;              /* messages without a time get `now` */
    bool change_only;         /* shipping: a change, not messages */
    ms_str source;            /* shipping: the keys begin with it */
    ms_pg_position at;        /* of a change */
    bool uncertain;           /* an earlier attempt was sent */
    uint64_t hidden;          /* by a HIDE */
    unsigned char ticket[20];
} ms__pg_batch;

/* As ms__pg_fail, of message i; ms_append_batch names a single one itself. */
static ms_result ms__pg_fail_at(const ms__pg_batch *b, ms_error *err, ms_result code,
                                size_t i, const char *field, const char *what)
{
    ms__pg_fail(err, code, what, NULL);
    if (err && b->n == 1) snprintf(err->path, sizeof err->path, "%s", field);
    else if (err)
        snprintf(err->path, sizeof err->path, "messages[%lu]%s%s", (unsigned long)i,
                 field[0] ? "." : "", field);
    return code;
}

static ms_str ms__pg_copy(ms_arena *arena, const void *bytes, size_t len, char first)
{
    char *p = (char *)ms_arena_alloc(arena, len + 1);
    if (!p) return ms_str_n(NULL, 0);
    p[0] = first;
    if (len) memcpy(p + 1, bytes, len);
    return ms_str_n(p, len + 1);
}

/* The flags that are stored of an envelope: what a caller may set, or, of a copy or a
 * change, also what tells its state. */
static uint32_t ms__pg_flags(const ms__pg_batch *b, const ms_envelope *m)
{
    uint32_t flags = (uint32_t)(MS_FLAG_JOINED | MS_FLAG_STAMPED | MS_FLAG_REPAIRED);
    if (b->opts->keep_seq || b->change)
        flags |= (uint32_t)(MS_FLAG_AMENDED | MS_FLAG_REDACTED | MS_FLAG_UNFINISHED);
    return m->flags & flags;
}

/* Encodes a row. commit: it is the last one of the append. */
static ms_result ms__pg_encode(ms__pg_batch *b, ms__pg_row *row, bool commit,
                               ms_error *err)
{
    ms_envelope m = *row->m;
    m.location = row->location;
    m.flags = ms__pg_flags(b, row->m) | (uint32_t)row->kind << 16 |
              (commit ? (uint32_t)MS_FLAG_COMMIT : 0u);
    if (row->has_time && !row->m->has_time && row->kind == MS_KIND_MESSAGE)
        m.flags |= (uint32_t)MS_FLAG_STAMPED;
    m.has_time = row->has_time;
    m.time_ns = row->time;
    m.seq = row->seq;
    return ms_encode(&m, &b->arena, &row->msg, err);
}

/* Time, kind, key and bytes of a row. */
static ms_result ms__pg_row_fill(ms__pg_batch *b, size_t i, ms_str location,
                                 const ms_envelope *m, ms_error *err)
{
    ms__pg_row *row = &b->rows[i];
    bool stamp = b->stamps && !(m->flags & MS_CHANGE_AS_IS);
    row->m = m;
    row->location = location.len ? location : m->location;
    row->bucket = ms_pg_bucket(row->location);
    row->kind = m->flags >> 16 & 255u;
    if (!b->change || row->kind == 0) row->kind = MS_KIND_MESSAGE;
    row->seq = b->opts->keep_seq || row->kind != MS_KIND_MESSAGE ? m->seq : 0;
    row->has_time = m->has_time;
    row->time = m->has_time ? m->time_ns : MS_TIME_NONE;
    if (row->kind > MS_KIND_AMEND) stamp = true;
    if (row->kind == MS_KIND_AMEND) stamp = false;
    if (!row->has_time && stamp && b->now != MS_TIME_NONE) {
        row->has_time = true;
        row->time = b->now;
    }
    if (m->key.ptr && row->kind == MS_KIND_MESSAGE) {
        row->key = ms__pg_copy(&b->arena, m->key.ptr, m->key.len, 'k');
        if (!row->key.ptr) return ms__pg_no_memory(err);
        b->keyed = true;
    }
    MS__PG_TRY(ms__pg_encode(b, row, false, err));
    if (ms_size(row->msg) > b->s->desc.max_message)
        return ms__pg_fail_at(b, err, MS_E_TOO_LARGE, i, "",
                              "the message is larger than the limit");
    return MS_OK;
}

/* The keys of shipped rows without one of their own: source, position, and of a HIDE the
 * message that it hides. */
static ms_result ms__pg_ship_keys(ms__pg_batch *b, ms_error *err)
{
    for (size_t i = 0; i < b->n; i++) {
        ms__pg_row *row = &b->rows[i];
        unsigned char key[96];
        size_t n = b->source.len;
        bool message = row->kind == MS_KIND_MESSAGE;
        if (row->key.ptr) continue;
        memcpy(key, b->source.ptr, n);
        ms__pg_put(key + n, message ? row->m->seq : b->at.message, 8);
        ms__pg_put(key + n + 8, message ? 0 : b->at.changes + 1, 8);
        ms__pg_put(key + n + 16, row->kind == MS_KIND_HIDE ? row->m->seq : 0, 8);
        row->key = ms__pg_copy(&b->arena, key, n + (message ? 8 : 24), 's');
        row->shipped = true;
        if (!row->key.ptr) return ms__pg_no_memory(err);
    }
    b->keyed = true;
    return MS_OK;
}

/* Makes the keys of rows without one: the first row's, or each one's when callers' keys
 * decide which rows are stored. */
static ms_result ms__pg_tickets(ms__pg_batch *b, ms_error *err)
{
    ms__pg *s = b->s;
    if (b->source.len) return ms__pg_ship_keys(b, err);
    ms__pg_lock_take(&s->lock);
    memcpy(b->ticket, s->client, 12);
    ms__pg_put(b->ticket + 12, ++s->tickets, 8);
    s->stat.appends++;
    ms__pg_lock_give(&s->lock);
    for (size_t i = 0; i < b->n && (i == 0 || b->keyed); i++) {
        ms__pg_row *row = &b->rows[i];
        unsigned char key[24];
        if (row->key.ptr) continue;
        memcpy(key, b->ticket, 20);
        ms__pg_put(key + 20, i, 4);
        row->key = ms__pg_copy(&b->arena, key, i == 0 ? 20 : 24, 't');
        if (!row->key.ptr) return ms__pg_no_memory(err);
    }
    return MS_OK;
}

/* Type, role and all fields; time and flags are not compared. */
static bool ms__pg_same(const ms_msg *a, const ms_msg *b)
{
    ms_value x[MS_FIELD_COUNT], y[MS_FIELD_COUNT];
    memset(x, 0, sizeof x);
    memset(y, 0, sizeof y);
    if (ms_type_of(a) != ms_type_of(b)) return false;
    if (ms_envelope_of(a).role != ms_envelope_of(b).role) return false;
    if (ms_fields(a, x) != ms_fields(b, y)) return false;
    for (int f = 1; f < MS_FIELD_COUNT; f++)
        if (!ms_str_equal(x[f].text, y[f].text) || x[f].json != y[f].json) return false;
    return true;
}

static ms_result ms__pg_reused(const ms__pg_batch *b, size_t i, ms_error *err)
{
    return ms__pg_fail_at(b, err, MS_E_KEY_REUSED, i, "key",
                          "the key stands for a message of other content");
}

/* The row before row i with its key and location; NULL: there is none. */
static ms__pg_row *ms__pg_earlier(ms__pg_batch *b, size_t i)
{
    if (!b->rows[i].key.ptr || b->rows[i].key.ptr[0] != 'k') return NULL;
    for (size_t k = 0; k < i; k++)
        if (ms_str_equal(b->rows[k].key, b->rows[i].key) &&
            ms_str_equal(b->rows[k].location, b->rows[i].location))
            return &b->rows[k];
    return NULL;
}

/* Keys that occur twice in the batch: the later one must repeat the earlier one. */
static ms_result ms__pg_twice(ms__pg_batch *b, ms_error *err)
{
    for (size_t i = 0; b->keyed && i < b->n; i++) {
        ms__pg_row *row = &b->rows[i];
        const ms__pg_row *first = ms__pg_earlier(b, i);
        if (first && !ms__pg_same(first->msg, row->msg)) return ms__pg_reused(b, i, err);
    }
    return MS_OK;
}

static void ms__pg_batch_free(ms__pg_batch *b)
{
    ms_arena_deinit(&b->arena);
    ms_arena_deinit(&b->scratch);
}

static ms_result ms__pg_batch_fill(ms__pg_batch *b, ms_str location,
                                   const ms_envelope *messages, size_t n, ms_error *err)
{
    ms__pg *s = b->s;
    b->arena.alloc = b->scratch.alloc = s->desc.alloc;
    b->n = n;
    b->rows = (ms__pg_row *)ms_arena_alloc(&b->arena, n * sizeof *b->rows);
    if (!b->rows) return ms__pg_no_memory(err);
    memset(b->rows, 0, n * sizeof *b->rows);
    b->stamps = !s->desc.keep_unset_times && !b->opts->keep_seq;
    b->now = MS_TIME_NONE;
    for (size_t i = 0; i < n && b->now == MS_TIME_NONE; i++)
        if (!messages[i].has_time && (b->stamps || b->change))
            b->now = s->desc.clock.now ? s->desc.clock.now(s->desc.clock.ctx)
                                       : ms__pg_system_time();
    for (size_t i = 0; i < n; i++) {
        MS__PG_TRY(ms__pg_row_fill(b, i, location, &messages[i], err));
        if (s->owner[b->rows[i].bucket] != s->owner[b->rows[0].bucket])
            return ms__pg_fail_at(b, err, MS_E_UNSUPPORTED, i, "location",
                                  "the locations of the batch are on different servers");
        if (!ms_str_equal(b->rows[i].location, b->rows[0].location)) b->spread = true;
    }
    b->server = s->owner[b->rows[0].bucket];
    MS__PG_TRY(ms__pg_tickets(b, err));
    return ms__pg_twice(b, err);
}

/* ==== [pg-append] ====================================================================
 * The frequent appends are one statement: a message, or messages of one location. All
 * others are a transaction under the lock of the counter rows (G1): lock, look for keys,
 * compare, insert, count, commit.
 *
 * Every append has a key (G2). An attempt that was sent and not answered is followed by
 * the transaction, which looks for the keys first. It cannot miss the earlier attempt:
 * that one either holds the lock, and is waited for; or it has committed, and is found;
 * or it comes after, and fails, since its key exists.
 *
 * (P1) MS_OK is returned only after the server has answered the commit.
 * (P2) A repeated attempt stores nothing that an earlier one has stored.
 * ================================================================================== */

static void ms__pg_row_params(ms__pg_params *p, const ms__pg_row *row)
{
    ms__pg_number(p, MS__PG_INT2, (int64_t)row->m->type);
    ms__pg_text(p, row->location);
    ms__pg_text(p, row->m->agent_key);
    ms__pg_text(p, row->m->turn_id);
    ms__pg_bytea(p, row->key);
    ms__pg_bytea(p, ms_str_n((const char *)(const void *)row->msg, ms_size(row->msg)));
}

static void ms__pg_time_param(ms__pg_params *p, const ms__pg_row *row)
{
    ms__pg_number(p, MS__PG_INT8, row->time);
    if (!row->has_time) p->values[p->n - 1] = NULL;
}

static ms_str ms__pg_time_text(const ms__pg_row *row, unsigned char room[8])
{
    ms__pg_put(room, (uint64_t)row->time, 8);
    return ms_str_n(row->has_time ? (const char *)room : NULL, 8);
}

/* *rows 0: nothing was stored, since the key is known. */
static ms_result ms__pg_send_one(ms__pg_batch *b, ms__pg_line *line, int *rows,
                                 ms_error *err)
{
    ms__pg_params p;
    PGresult *r;
    ms__pg_row *row = &b->rows[0];
    p.n = 0;
    MS__PG_TRY(ms__pg_encode(b, row, true, err));
    ms__pg_number(&p, MS__PG_INT4, row->bucket);
    ms__pg_number(&p, MS__PG_INT8, ms__pg_tick(b->s));
    ms__pg_number(&p, MS__PG_INT8, (int64_t)ms_size(row->msg));
    ms__pg_time_param(&p, row);
    ms__pg_row_params(&p, row);
    MS__PG_TRY(ms__pg_exec(line, b->keyed ? ms__pg_append_keyed : ms__pg_append_one, &p,
                           &r, err));
    *rows = PQntuples(r);
    if (*rows > 0) row->place = (uint64_t)ms__pg_int(r, 0, 0);
    PQclear(r);
    return MS_OK;
}

/* The same for n messages of one location, none of which has a key of the caller's. */
static ms_result ms__pg_send_many(ms__pg_batch *b, ms__pg_line *line, int *rows,
                                  ms_error *err)
{
    static const Oid types[] = {MS__PG_INT8, MS__PG_INT8, MS__PG_INT2, MS__PG_TEXT,
                                MS__PG_TEXT, MS__PG_BYTEA, MS__PG_BYTEA};
    enum { COLUMNS = sizeof types / sizeof types[0] };
    ms__pg_array a[COLUMNS];
    ms__pg_params p;
    PGresult *r;
    unsigned char room[8];
    uint64_t bytes = 0;
    bool fits = true;
    MS__PG_TRY(ms__pg_encode(b, &b->rows[b->n - 1], true, err));
    for (size_t i = 0; i < COLUMNS; i++) a[i] = ms__pg_array_of(&b->scratch, types[i]);
    for (size_t i = 0; i < b->n; i++) {
        const ms__pg_row *row = &b->rows[i];
        ms__pg_push_number(&a[0], (int64_t)i + 1);
        ms__pg_push(&a[1], ms__pg_time_text(row, room));
        ms__pg_push_number(&a[2], (int64_t)row->m->type);
        ms__pg_push(&a[3], row->m->agent_key);
        ms__pg_push(&a[4], row->m->turn_id);
        ms__pg_push(&a[5], row->key);
        ms__pg_push(&a[6], ms_str_n((const char *)(const void *)row->msg,
                                    ms_size(row->msg)));
        bytes += ms_size(row->msg);
    }
    p.n = 0;
    ms__pg_number(&p, MS__PG_INT4, b->rows[0].bucket);
    ms__pg_number(&p, MS__PG_INT8, ms__pg_tick(b->s));
    ms__pg_number(&p, MS__PG_INT8, (int64_t)bytes);
    ms__pg_number(&p, MS__PG_INT8, (int64_t)b->n);
    ms__pg_text(&p, b->rows[0].location);
    for (size_t i = 0; i < COLUMNS; i++) fits = fits && ms__pg_array_param(&p, &a[i]);
    if (!fits) return ms_error_set(err, MS_E_TOO_LARGE, "the batch is too large");
    MS__PG_TRY(ms__pg_exec(line, ms__pg_append_many, &p, &r, err));
    *rows = PQntuples(r);
    uint64_t last = *rows > 0 ? (uint64_t)ms__pg_int(r, 0, 0) : 0;
    for (size_t i = 0; i < b->n && *rows > 0; i++)
        b->rows[i].place = (last - b->n + i + 1) * MS_PG_BUCKETS + b->rows[i].bucket;
    PQclear(r);
    return MS_OK;
}

/* ---- The transaction. */

/* State of one attempt under the lock. */
typedef struct ms__pg_locked {
    int64_t tick;             /* of the first record */
    int64_t end;              /* the last tick given */
    bool made;                /* an earlier attempt has stored the batch */
    ms__pg_array buckets;     /* distinct */
    int64_t shown_kind, shown_place; /* of what stands for the message of a change */
    uint64_t changes;
} ms__pg_locked;

/* Locks the counter rows and finds the first tick. */
static ms_result ms__pg_lock_rows(ms__pg_batch *b, ms__pg_line *line, ms__pg_locked *l,
                                  ms_error *err)
{
    ms__pg_params p;
    PGresult *r;
    unsigned char set[MS_PG_BUCKETS / 8];
    l->buckets = ms__pg_array_of(&b->scratch, MS__PG_INT4);
    memset(set, 0, sizeof set);
    for (size_t i = 0; i < b->n; i++) {
        unsigned bucket = b->rows[i].bucket;
        if (set[bucket / 8] >> bucket % 8 & 1) continue;
        set[bucket / 8] = (unsigned char)(set[bucket / 8] | 1u << bucket % 8);
        ms__pg_push_number(&l->buckets, bucket);
    }
    p.n = 0;
    if (!ms__pg_array_param(&p, &l->buckets)) return ms__pg_no_memory(err);
    MS__PG_TRY(ms__pg_exec(line, ms__pg_lock_buckets, &p, &r, err));
    int n = PQntuples(r);
    l->tick = ms__pg_tick(b->s);
    for (int i = 0; i < n; i++)
        if (ms__pg_int(r, i, 1) >= l->tick) l->tick = ms__pg_int(r, i, 1) + 1;
    PQclear(r);
    if (n == (int)l->buckets.n) return MS_OK;
    return ms_error_set(err, MS_E_FOREIGN, "a bucket is not on this server");
}

/* A row's body as a record in the arena. */
static ms_result ms__pg_record(const PGresult *r, int row, int column, uint64_t seq,
                               ms_arena *arena, const ms_msg **out, ms_error *err)
{
    ms_str body = ms__pg_str(r, row, column);
    void *bytes = arena ? ms_arena_alloc(arena, body.len) : NULL;
    if (!arena) return ms_error_set(err, MS_E_ARENA, "the message needs an arena");
    if (!bytes) return ms__pg_no_memory(err);
    if (body.len) memcpy(bytes, body.ptr, body.len);
    return ms_record_decode(bytes, body.len, seq, out, err);
}

/* A stored row with the key of row i. A key that was made shows that the batch is stored:
 * rows without keys of their own follow the first one, a tick each. */
static ms_result ms__pg_found(ms__pg_batch *b, const PGresult *r, int at, size_t i,
                              ms__pg_locked *l, ms_error *err)
{
    ms__pg_row *row = &b->rows[i];
    const ms_msg *stored;
    uint64_t seq = (uint64_t)ms__pg_int(r, at, 1), place = (uint64_t)ms__pg_int(r, at, 2);
    MS__PG_TRY(ms__pg_record(r, at, 4, seq, &b->scratch, &stored, err));
    row->known = seq;
    if (row->shipped) return MS_OK;
    if (row->key.ptr[0] == 'k')
        return ms__pg_same(stored, row->msg) ? MS_OK : ms__pg_reused(b, i, err);
    l->made = true;
    if (row->kind == MS_KIND_HIDE) {
        ms_str value;
        if (ms_json_member(ms_content(stored).text, MS_STR("messages"), &value))
            (void)ms_json_u64(value, &b->hidden);
    }
    for (size_t k = 1; k < b->n && !b->keyed; k++)
        b->rows[k].known = b->opts->keep_seq
                               ? b->rows[k].m->seq
                               : (place / MS_PG_BUCKETS + k) * MS_PG_BUCKETS +
                                     b->rows[k].bucket;
    return MS_OK;
}

/* Looks for all keys of the batch. */
static ms_result ms__pg_look(ms__pg_batch *b, ms__pg_line *line, ms__pg_locked *l,
                             ms_error *err)
{
    ms__pg_params p;
    PGresult *r;
    ms__pg_array buckets = ms__pg_array_of(&b->scratch, MS__PG_INT4);
    ms__pg_array at = ms__pg_array_of(&b->scratch, MS__PG_INT8);
    ms__pg_array locations = ms__pg_array_of(&b->scratch, MS__PG_TEXT);
    ms__pg_array keys = ms__pg_array_of(&b->scratch, MS__PG_BYTEA);
    ms_result code = MS_OK;
    for (size_t i = 0; i < b->n; i++) {
        b->rows[i].known = 0;
        if (!b->rows[i].key.ptr) continue;
        ms__pg_push_number(&buckets, b->rows[i].bucket);
        ms__pg_push_number(&at, (int64_t)i);
        ms__pg_push(&locations, b->rows[i].location);
        ms__pg_push(&keys, b->rows[i].key);
    }
    p.n = 0;
    if (!ms__pg_array_param(&p, &buckets) || !ms__pg_array_param(&p, &at) ||
        !ms__pg_array_param(&p, &locations) || !ms__pg_array_param(&p, &keys))
        return ms__pg_no_memory(err);
    MS__PG_TRY(ms__pg_exec(line, ms__pg_known_keys, &p, &r, err));
    for (int k = 0; k < PQntuples(r) && code == MS_OK; k++)
        code = ms__pg_found(b, r, k, (size_t)ms__pg_int(r, k, 0), l, err);
    PQclear(r);
    return code;
}

/* Compares the last visible message of the location with the one expected. */
static ms_result ms__pg_expect(ms__pg_batch *b, ms__pg_line *line, ms_error *err)
{
    ms__pg_params p;
    PGresult *r;
    char text[128];
    p.n = 0;
    ms__pg_number(&p, MS__PG_INT4, b->rows[0].bucket);
    ms__pg_text(&p, b->opts->location);
    MS__PG_TRY(ms__pg_exec(line, ms__pg_last_shown, &p, &r, err));
    uint64_t last = (uint64_t)ms__pg_int(r, 0, 0);
    PQclear(r);
    if (last == b->opts->expect_seq) return MS_OK;
    snprintf(text, sizeof text, "the last message is %llu, %llu was expected",
             (unsigned long long)last, (unsigned long long)b->opts->expect_seq);
    return ms_error_set(err, MS_E_CONFLICT, text);
}

/* Numbers that the caller brings rise, and are larger than all on the server. */
static ms_result ms__pg_kept(ms__pg_batch *b, ms__pg_line *line, ms__pg_locked *l,
                             ms_error *err)
{
    ms__pg_params p;
    PGresult *r;
    p.n = 0;
    MS__PG_TRY(ms__pg_exec(line, ms__pg_totals, &p, &r, err));
    uint64_t last = (uint64_t)ms__pg_int(r, 0, 4);
    PQclear(r);
    for (size_t i = 0; i < b->n; i++) {
        uint64_t seq = b->rows[i].m->seq;
        if (b->rows[i].known) continue;
        if (seq <= last || seq >= (uint64_t)INT64_MAX)
            return ms__pg_fail_at(b, err, MS_E_ARGUMENT, i, "seq",
                                  "the number does not follow the last one");
        last = seq;
    }
    int64_t tick = (int64_t)(last / MS_PG_BUCKETS);
    if (tick > l->end) l->end = tick;
    return MS_OK;
}

/* Gives places and numbers, and encodes the last new row. */
static ms_result ms__pg_place(ms__pg_batch *b, ms__pg_line *line, ms__pg_locked *l,
                              ms_error *err)
{
    ms__pg_row *last = NULL;
    int64_t tick = l->tick;
    for (size_t i = 0; i < b->n; i++) {
        ms__pg_row *row = &b->rows[i];
        const ms__pg_row *first = b->keyed ? ms__pg_earlier(b, i) : NULL;
        if (first && !row->known) row->known = first->known ? first->known : first->seq;
        if (row->known) continue;
        row->place = (uint64_t)tick++ * MS_PG_BUCKETS + row->bucket;
        if (row->kind == MS_KIND_MESSAGE)
            row->seq = b->opts->keep_seq ? row->m->seq : row->place;
        last = row;
    }
    l->end = tick - 1;
    if (b->opts->keep_seq) MS__PG_TRY(ms__pg_kept(b, line, l, err));
    return last ? ms__pg_encode(b, last, true, err) : MS_OK;
}

/* Inserts all new rows. */
static ms_result ms__pg_insert_rows(ms__pg_batch *b, ms__pg_line *line, ms_error *err)
{
    static const Oid types[] = {MS__PG_INT4, MS__PG_INT8, MS__PG_INT8, MS__PG_INT8,
                                MS__PG_INT8, MS__PG_INT2, MS__PG_INT2, MS__PG_TEXT,
                                MS__PG_TEXT, MS__PG_TEXT, MS__PG_BYTEA, MS__PG_BYTEA};
    enum { COLUMNS = sizeof types / sizeof types[0] };
    ms__pg_array a[COLUMNS];
    ms__pg_params p;
    unsigned char room[8];
    bool fits = true;
    for (size_t i = 0; i < COLUMNS; i++) a[i] = ms__pg_array_of(&b->scratch, types[i]);
    for (size_t i = 0; i < b->n; i++) {
        const ms__pg_row *row = &b->rows[i];
        bool message = row->kind == MS_KIND_MESSAGE || row->kind == MS_KIND_AMEND;
        ms_str none = ms_str_n(NULL, 0);
        if (row->known) continue;
        ms__pg_push_number(&a[0], row->bucket);
        ms__pg_push_number(&a[1], ms__pg_signed(row->seq));
        ms__pg_push_number(&a[2], (int64_t)row->place);
        ms__pg_push(&a[3], ms__pg_time_text(row, room));
        if (row->kind != MS_KIND_HIDE) ms__pg_push(&a[4], none);
        else ms__pg_push_number(&a[4], ms__pg_signed(row->upto));
        ms__pg_push_number(&a[5], row->kind);
        ms__pg_push_number(&a[6], message ? (int64_t)row->m->type : 0);
        ms__pg_push(&a[7], row->location);
        ms__pg_push(&a[8], message ? row->m->agent_key : none);
        ms__pg_push(&a[9], message ? row->m->turn_id : none);
        ms__pg_push(&a[10], row->key);
        ms__pg_push(&a[11], ms_str_n((const char *)(const void *)row->msg,
                                     ms_size(row->msg)));
    }
    if (a[0].n == 0) return MS_OK;
    p.n = 0;
    for (size_t i = 0; i < COLUMNS; i++) fits = fits && ms__pg_array_param(&p, &a[i]);
    if (!fits) return ms_error_set(err, MS_E_TOO_LARGE, "the batch is too large");
    return ms__pg_exec(line, ms__pg_insert, &p, NULL, err);
}

/* Brings the counter rows up to date. */
static ms_result ms__pg_count_rows(ms__pg_batch *b, ms__pg_line *line, ms__pg_locked *l,
                                   ms_error *err)
{
    ms__pg_array buckets = ms__pg_array_of(&b->scratch, MS__PG_INT4);
    ms__pg_array newest = ms__pg_array_of(&b->scratch, MS__PG_INT8);
    ms__pg_array count = ms__pg_array_of(&b->scratch, MS__PG_INT8);
    ms__pg_array bytes = ms__pg_array_of(&b->scratch, MS__PG_INT8);
    ms__pg_params p;
    for (uint32_t k = 0; k < l->buckets.n; k++) {
        const unsigned char *at = l->buckets.bytes + MS__PG_ARRAY_HEAD + 8 * k + 4;
        int64_t bucket = ms__pg_read((const char *)at, 4), largest = 0, n = 0, size = 0;
        for (size_t i = 0; i < b->n; i++) {
            const ms__pg_row *row = &b->rows[i];
            if (row->known || row->bucket != bucket || row->kind != MS_KIND_MESSAGE)
                continue;
            if ((int64_t)row->seq > largest) largest = (int64_t)row->seq;
            n++;
            size += (int64_t)ms_size(row->msg);
        }
        ms__pg_push_number(&buckets, bucket);
        ms__pg_push_number(&newest, largest);
        ms__pg_push_number(&count, n);
        ms__pg_push_number(&bytes, size);
    }
    p.n = 0;
    bool fits = ms__pg_array_param(&p, &buckets);
    ms__pg_number(&p, MS__PG_INT8, l->end);
    fits = fits && ms__pg_array_param(&p, &newest) && ms__pg_array_param(&p, &count) &&
           ms__pg_array_param(&p, &bytes);
    ms__pg_number(&p, MS__PG_INT8, (int64_t)l->changes);
    ms__pg_number(&p, MS__PG_INT8, (int64_t)b->hidden);
    if (!fits) return ms__pg_no_memory(err);
    return ms__pg_exec(line, ms__pg_count, &p, NULL, err);
}

static ms_result ms__pg_change_apply(ms__pg_batch *b, ms__pg_line *line, ms__pg_locked *l,
                                     bool *some, ms_error *err);

/* Everything between begin and commit. *some: there is something to commit. */
static ms_result ms__pg_under_lock(ms__pg_batch *b, ms__pg_line *line, ms__pg_locked *l,
                                   bool *some, ms_error *err)
{
    size_t fresh = 0;
    *some = false;
    MS__PG_TRY(ms__pg_lock_rows(b, line, l, err));
    if (!b->source.len || b->change_only || b->uncertain)
        MS__PG_TRY(ms__pg_look(b, line, l, err));
    if (l->made) return MS_OK;
    for (size_t i = 0; i < b->n; i++) fresh += b->rows[i].known == 0;
    if (fresh == 0) return MS_OK;
    if (b->opts->expect) MS__PG_TRY(ms__pg_expect(b, line, err));
    MS__PG_TRY(ms__pg_place(b, line, l, err));
    *some = true;
    if (b->change) MS__PG_TRY(ms__pg_change_apply(b, line, l, some, err));
    if (!*some) return MS_OK;
    MS__PG_TRY(ms__pg_insert_rows(b, line, err));
    return ms__pg_count_rows(b, line, l, err);
}

static ms_result ms__pg_transaction(ms__pg_batch *b, ms__pg_line *line, ms_error *err)
{
    ms__pg_locked l;
    bool some = false, again = b->uncertain;
    memset(&l, 0, sizeof l);
    b->hidden = 0;
    MS__PG_TRY(ms__pg_simple(line, "begin isolation level read committed", err));
    ms_result code = ms__pg_under_lock(b, line, &l, &some, err);
    bool failed = code != MS_OK;
    if (failed) b->uncertain = true; /* perhaps a key is there */
    if (!line->lost && (failed || !some)) {
        bool repeat = line->again;
        ms_result undone = ms__pg_simple(line, "rollback", failed ? NULL : err);
        if (!failed) code = undone;
        if (failed) line->again = repeat;
        else if (l.made && again) {
            ms__pg_lock_take(&b->s->lock);
            b->s->stat.resolved++;
            ms__pg_lock_give(&b->s->lock);
        }
        return code;
    }
    if (failed) return code;
    b->uncertain = true;
    line->sent = true;
    return ms__pg_simple(line, "commit", err);
}

/* ---- One attempt. */

static void ms__pg_notify(ms__pg *s, ms__pg_line *line);

/* Not repeated as it is: without keys of the caller's a duplicate number can only be the
 * collision of an attempt that came late, or a copy's. */
static ms_result ms__pg_append_step(ms__pg *s, ms__pg_line *line, void *ctx,
                                    ms_error *err)
{
    ms__pg_batch *b = (ms__pg_batch *)ctx;
    ms_result code = MS_OK;
    int rows = 0;
    bool quick = !b->opts->keep_seq && !b->opts->expect && !b->spread && !b->change &&
                 !b->uncertain && (b->n == 1 || !b->keyed);
    ms_arena_reset(&b->scratch);
    if (quick) {
        code = b->n == 1 ? ms__pg_send_one(b, line, &rows, err)
                         : ms__pg_send_many(b, line, &rows, err);
        if (line->sent) b->uncertain = true;
        if (code != MS_OK) return code;
    }
    if (rows == 0) code = ms__pg_transaction(b, line, err);
    if (code == MS_OK) ms__pg_notify(s, line);
    return code;
}

static ms_result ms__pg_run(ms__pg_batch *b, ms_error *err)
{
    int64_t tick = 0;
    ms_result code = ms__pg_call(b->s, b->server, ms__pg_append_step, b, err);
    if (code != MS_OK) return code;
    for (size_t i = 0; i < b->n; i++) {
        const ms__pg_row *row = &b->rows[i];
        uint64_t seq = row->known ? row->known : row->seq ? row->seq : row->place;
        if (b->opts->seqs) b->opts->seqs[i] = seq;
        if (b->opts->seqs && row->kind == MS_KIND_HIDE) b->opts->seqs[i] = b->hidden;
        if ((int64_t)(seq / MS_PG_BUCKETS) > tick && row->kind == MS_KIND_MESSAGE)
            tick = (int64_t)(seq / MS_PG_BUCKETS);
        if ((int64_t)(row->place / MS_PG_BUCKETS) > tick)
            tick = (int64_t)(row->place / MS_PG_BUCKETS);
    }
    ms__pg_saw(b->s, tick);
    return MS_OK;
}

/* b has the store, the options and what else is not zero. */
static ms_result ms__pg_store_batch(ms__pg_batch *b, ms_str location,
                                    const ms_envelope *messages, size_t n, ms_error *err)
{
    MS__PG_TRY(ms__pg_check(b->s, true, err));
    ms_result code = ms__pg_batch_fill(b, location, messages, n, err);
    if (code == MS_OK) code = ms__pg_run(b, err);
    ms__pg_batch_free(b);
    return code;
}

static ms_result ms__pg_store(ms_store *store, ms_str location,
                              const ms_envelope *messages, size_t n,
                              const ms_append_opts *opts, bool change, ms_error *err)
{
    ms__pg_batch b;
    memset(&b, 0, sizeof b);
    b.s = ms__pg_of(store);
    b.opts = opts;
    b.change = change;
    return ms__pg_store_batch(&b, location, messages, n, err);
}

static ms_result ms__pg_append(ms_store *store, ms_str location,
                               const ms_envelope *messages, size_t n,
                               const ms_append_opts *opts, ms_error *err)
{
    return ms__pg_store(store, location, messages, n, opts, false, err);
}

/* ==== [pg-change] ====================================================================
 * A change is checked against the versions of its message under the lock, as the message
 * is now, then entered: a row for the record, and the end of the version or versions that
 * it replaces.
 * ================================================================================== */

/* May the change be made? r: the first and the last version of its message. */
static ms_result ms__pg_change_check(ms__pg_batch *b, const ms__pg_row *row,
                                     const PGresult *r, ms__pg_locked *l, ms_error *err)
{
    const ms_msg *shown;
    int last = PQntuples(r) - 1;
    if (last < 0)
        return ms__pg_fail(err, MS_E_NOT_FOUND, "there is no such message", NULL);
    if (!ms_str_equal(ms__pg_str(r, 0, 2), row->location))
        return ms__pg_fail(err, MS_E_ARGUMENT, "the message is of another location",
                           NULL);
    if (!PQgetisnull(r, last, 3))
        return ms__pg_fail(err, MS_E_HIDDEN, "the message is hidden", NULL);
    MS__PG_TRY(ms__pg_record(r, last, 4, row->seq, &b->scratch, &shown, err));
    l->shown_kind = ms__pg_int(r, last, 0);
    l->shown_place = ms__pg_int(r, last, 5);
    uint32_t flags = ms_flags(shown);
    bool open = ms_kind_of(shown) == MS_KIND_MESSAGE && (flags & MS_FLAG_UNFINISHED);
    if ((row->kind == MS_KIND_PIECE || (row->m->flags & MS_CHANGE_OPEN)) && !open)
        return ms__pg_fail(err, MS_E_CLOSED, "the message is not an open stream", NULL);
    if (row->kind != MS_KIND_AMEND) return MS_OK;
    if (ms__pg_int(r, 0, 1) != (int64_t)row->m->type)
        return ms__pg_fail(err, MS_E_TYPE, "the message is of another type", NULL);
    if ((flags & MS_FLAG_REDACTED) && !(row->m->flags & MS_FLAG_REDACTED))
        return ms__pg_fail(err, MS_E_CONFLICT, "the message is redacted", NULL);
    return MS_OK;
}

static ms_result ms__pg_change_target(ms__pg_batch *b, ms__pg_line *line,
                                      const ms__pg_row *row, ms__pg_locked *l,
                                      ms_error *err)
{
    ms__pg_params p;
    PGresult *r;
    p.n = 0;
    ms__pg_number(&p, MS__PG_INT8, ms__pg_signed(row->seq));
    ms__pg_number(&p, MS__PG_INT4, row->bucket);
    MS__PG_TRY(ms__pg_exec(line, ms__pg_versions_routed, &p, &r, err));
    if (PQntuples(r) == 0) { /* of another location, perhaps */
        PQclear(r);
        p.n = 1;
        MS__PG_TRY(ms__pg_exec(line, ms__pg_versions, &p, &r, err));
    }
    ms_result code = ms__pg_change_check(b, row, r, l, err);
    PQclear(r);
    return code;
}

/* Ends the version that an AMEND replaces. */
static ms_result ms__pg_amend(ms__pg_line *line, const ms__pg_row *row,
                              const ms__pg_locked *l, ms_error *err)
{
    ms__pg_params p;
    p.n = 0;
    ms__pg_number(&p, MS__PG_INT4, row->bucket);
    ms__pg_number(&p, MS__PG_INT8, ms__pg_signed(row->seq));
    ms__pg_number(&p, MS__PG_INT2, l->shown_kind);
    ms__pg_number(&p, MS__PG_INT8, l->shown_place);
    ms__pg_number(&p, MS__PG_INT8, (int64_t)row->place);
    return ms__pg_exec(line, ms__pg_end_version, &p, NULL, err);
}

/* Ends the versions of a range, and puts their number into the record. *some false: there
 * are none, and nothing is written. */
static ms_result ms__pg_hide(ms__pg_batch *b, ms__pg_line *line, ms__pg_row *row,
                             bool *some, ms_error *err)
{
    ms__pg_params p;
    PGresult *r;
    ms_envelope m = *row->m;
    char text[128];
    uint64_t newest = row->place - 1;
    row->upto = b->opts->expect_seq < newest ? b->opts->expect_seq : newest;
    p.n = 0;
    ms__pg_number(&p, MS__PG_INT4, row->bucket);
    ms__pg_text(&p, row->location);
    ms__pg_number(&p, MS__PG_INT8, ms__pg_signed(row->seq));
    ms__pg_number(&p, MS__PG_INT8, ms__pg_signed(row->upto));
    ms__pg_number(&p, MS__PG_INT8, (int64_t)row->place);
    MS__PG_TRY(ms__pg_exec(line, ms__pg_hide_range, &p, &r, err));
    b->hidden = strtoull(PQcmdTuples(r), NULL, 10);
    PQclear(r);
    *some = b->hidden > 0;
    if (!*some) return MS_OK;
    snprintf(text, sizeof text, "{\"first\":%llu,\"last\":%llu,\"messages\":%llu}",
             (unsigned long long)row->seq, (unsigned long long)row->upto,
             (unsigned long long)b->hidden);
    m.content = ms_json(ms_str_of(text));
    const ms_envelope *given = row->m;
    row->m = &m;
    ms_result code = ms__pg_encode(b, row, true, err);
    row->m = given;
    return code;
}

/* The change of a batch is its last record. */
static ms_result ms__pg_change_apply(ms__pg_batch *b, ms__pg_line *line, ms__pg_locked *l,
                                     bool *some, ms_error *err)
{
    ms__pg_row *row = &b->rows[b->n - 1];
    if (row->kind == MS_KIND_MESSAGE) return MS_OK;
    l->changes = 1;
    if (row->kind == MS_KIND_LOCATION) return MS_OK;
    if (row->kind == MS_KIND_HIDE) return ms__pg_hide(b, line, row, some, err);
    MS__PG_TRY(ms__pg_change_target(b, line, row, l, err));
    return row->kind == MS_KIND_AMEND ? ms__pg_amend(line, row, l, err) : MS_OK;
}

static ms_result ms__pg_change(ms_store *store, ms_str location,
                               const ms_envelope *records, size_t n,
                               const ms_append_opts *opts, ms_error *err)
{
    return ms__pg_store(store, location, records, n, opts, true, err);
}

typedef struct ms__pg_erasing {
    unsigned bucket;
    uint64_t seq, place;
    ms_str body;
} ms__pg_erasing;

static ms_result ms__pg_erase_step(ms__pg *s, ms__pg_line *line, void *ctx, ms_error *err)
{
    const ms__pg_erasing *e = (const ms__pg_erasing *)ctx;
    ms__pg_params p;
    (void)s;
    p.n = 0;
    ms__pg_number(&p, MS__PG_INT4, e->bucket);
    ms__pg_number(&p, MS__PG_INT8, ms__pg_signed(e->seq));
    ms__pg_number(&p, MS__PG_INT8, (int64_t)e->place);
    ms__pg_bytea(&p, e->body);
    return ms__pg_exec(line, ms__pg_erase_row, &p, NULL, err);
}

/* The row is replaced in one statement, so one of the three steps does it all. The
 * record's place is before it in the cursor's memory. */
static ms_result ms__pg_erase(ms_store *store, const ms_msg *record, unsigned step,
                              ms_error *err)
{
    ms__pg *s = ms__pg_of(store);
    ms__pg_erasing e;
    ms_arena arena;
    MS__PG_TRY(ms__pg_check(s, true, err));
    if (step != 0) return MS_OK;
    memset(&arena, 0, sizeof arena);
    arena.alloc = s->desc.alloc;
    size_t size = ms_size(record);
    void *bytes = ms_arena_alloc(&arena, size);
    if (!bytes) return ms__pg_no_memory(err);
    memcpy(bytes, record, size);
    ms_record_erase(bytes);
    e.bucket = ms_pg_bucket(ms_get(record, MS_F_LOCATION).text);
    e.seq = ms_seq(record);
    memcpy(&e.place, (const char *)(const void *)record - 8, 8);
    e.body = ms_str_n((const char *)bytes, size);
    ms_result code = ms__pg_call(s, s->owner[e.bucket], ms__pg_erase_step, &e, err);
    ms_arena_deinit(&arena);
    return code;
}

/* ==== [pg-ship] ======================================================================
 * A shipped record has a key, so shipping it again stores nothing: the server refuses a
 * batch with a key that is there, and the next attempt looks for all keys first. That is
 * rare, since the position is noted after each batch. A message with a key of its own has
 * that one alone. A change is about a message whose number here is not its number in the
 * source: the key of the message leads to it.
 * ================================================================================== */

static bool ms__pg_is_store(const ms_store *store)
{
    return store && store->open == MS_STORE_OPEN &&
           store->backend->append == ms__pg_append;
}

static ms_result ms__pg_ship_check(ms_store *store, ms_str source, ms_error *err)
{
    if (!ms__pg_is_store(store))
        return ms_error_set(err, MS_E_ARGUMENT, "the store is not on PostgreSQL");
    if (source.len >= 1 && source.len <= 64) return MS_OK;
    return ms_error_set(err, MS_E_ARGUMENT, "the name of a source has 1 to 64 bytes");
}

typedef struct ms__pg_shipping {
    ms_str source;
    ms_pg_position position;
    bool note;                /* else it is read */
} ms__pg_shipping;

static ms_result ms__pg_position_step(ms__pg *s, ms__pg_line *line, void *ctx,
                                      ms_error *err)
{
    ms__pg_shipping *g = (ms__pg_shipping *)ctx;
    ms__pg_params p;
    PGresult *r;
    (void)s;
    p.n = 0;
    ms__pg_bytea(&p, g->source);
    ms__pg_number(&p, MS__PG_INT4, ms_pg_bucket(g->source));
    if (g->note) {
        ms__pg_number(&p, MS__PG_INT8, ms__pg_signed(g->position.message));
        ms__pg_number(&p, MS__PG_INT8, ms__pg_signed(g->position.changes));
        return ms__pg_exec(line, "insert into msgstore_source values ($1::bytea, $2::int,"
                           " $3::bigint, $4::bigint) on conflict (source, bucket) do"
                           " update set message = excluded.message, changes ="
                           " excluded.changes", &p, NULL, err);
    }
    MS__PG_TRY(ms__pg_exec(line, "select message, changes from msgstore_source where"
                           " source = $1::bytea and bucket = $2::int", &p, &r, err));
    memset(&g->position, 0, sizeof g->position);
    if (PQntuples(r) > 0) {
        g->position.message = (uint64_t)ms__pg_int(r, 0, 0);
        g->position.changes = (uint64_t)ms__pg_int(r, 0, 1);
    }
    PQclear(r);
    return MS_OK;
}

static ms_result ms__pg_position(ms_store *store, ms__pg_shipping *g, ms_error *err)
{
    MS__PG_TRY(ms__pg_ship_check(store, g->source, err));
    ms__pg *s = ms__pg_of(store);
    MS__PG_TRY(ms__pg_check(s, g->note, err));
    size_t server = s->owner[ms_pg_bucket(g->source)];
    return ms__pg_call(s, server, ms__pg_position_step, g, err);
}

MS_API ms_result ms_pg_ship_begin(ms_store *store, ms_str source,
                                  ms_pg_position *position, ms_error *err)
{
    ms__pg_shipping g;
    memset(&g, 0, sizeof g);
    g.source = source;
    ms_result code = ms__pg_position(store, &g, err);
    *position = g.position;
    return code;
}

MS_API ms_result ms_pg_ship_end(ms_store *store, ms_str source, ms_pg_position position,
                                ms_error *err)
{
    ms__pg_shipping g;
    g.source = source;
    g.position = position;
    g.note = true;
    return ms__pg_position(store, &g, err);
}

/* As a change, so that all flags are kept; nothing is stamped. */
static ms_result ms__pg_ship_rows(ms__pg *s, ms_str source, const ms_envelope *rows,
                                  size_t n, ms_pg_position at, ms_error *err)
{
    ms__pg_batch b;
    ms_append_opts opts;
    memset(&b, 0, sizeof b);
    memset(&opts, 0, sizeof opts);
    b.change_only = (rows[0].flags >> 16 & 255u) != MS_KIND_MESSAGE;
    if (b.change_only) opts.expect_seq = rows[0].seq; /* a HIDE: of one message */
    b.s = s;
    b.opts = &opts;
    b.change = true;
    b.source = source;
    b.at = at;
    return ms__pg_store_batch(&b, ms_str_n(NULL, 0), rows, n, err);
}

MS_API ms_result ms_pg_ship(ms_store *store, ms_str source, const ms_envelope *messages,
                            size_t n, ms_error *err)
{
    ms_arena arena;
    ms_pg_position none;
    ms_result code = MS_OK;
    MS__PG_TRY(ms__pg_ship_check(store, source, err));
    ms__pg *s = ms__pg_of(store);
    memset(&arena, 0, sizeof arena);
    memset(&none, 0, sizeof none);
    arena.alloc = s->desc.alloc;
    ms_envelope *rows = (ms_envelope *)ms_arena_alloc(&arena, n * sizeof *rows);
    if (!rows) return ms__pg_no_memory(err);
    for (size_t server = 0; server < s->n_servers && code == MS_OK; server++) {
        size_t count = 0;
        for (size_t i = 0; i < n; i++) {
            if (s->owner[ms_pg_bucket(messages[i].location)] != server) continue;
            rows[count] = messages[i];
            rows[count].flags |= (uint32_t)MS_KIND_MESSAGE << 16 | MS_CHANGE_AS_IS;
            count++;
        }
        if (count > 0) code = ms__pg_ship_rows(s, source, rows, count, none, err);
    }
    ms_arena_deinit(&arena);
    return code;
}

typedef struct ms__pg_finding {
    ms_str location, key;
    uint64_t seq;             /* 0: not found */
} ms__pg_finding;

static ms_result ms__pg_find_step(ms__pg *s, ms__pg_line *line, void *ctx, ms_error *err)
{
    ms__pg_finding *f = (ms__pg_finding *)ctx;
    ms__pg_params p;
    PGresult *r;
    (void)s;
    p.n = 0;
    ms__pg_number(&p, MS__PG_INT4, ms_pg_bucket(f->location));
    ms__pg_text(&p, f->location);
    ms__pg_bytea(&p, f->key);
    MS__PG_TRY(ms__pg_exec(line, "select seq from msgstore_record where bucket = $1::int"
                           " and location = $2::text and key = $3::bytea", &p, &r, err));
    f->seq = PQntuples(r) > 0 ? (uint64_t)ms__pg_int(r, 0, 0) : 0;
    PQclear(r);
    return MS_OK;
}

/* The number here of a message of the source. */
static ms_result ms__pg_ship_find(ms__pg *s, ms_str source, const ms_msg *message,
                                  uint64_t *seq, ms_error *err)
{
    ms__pg_finding f;
    unsigned char key[MS_KEY_MAX + 1];
    ms_str own = ms_get(message, MS_F_KEY).text;
    f.location = ms_get(message, MS_F_LOCATION).text;
    key[0] = own.ptr ? 'k' : 's';
    if (own.ptr) memcpy(key + 1, own.ptr, own.len);
    else memcpy(key + 1, source.ptr, source.len);
    if (!own.ptr) ms__pg_put(key + 1 + source.len, ms_seq(message), 8);
    f.key = ms_str_n((const char *)key, 1 + (own.ptr ? own.len : source.len + 8));
    MS__PG_TRY(ms__pg_call(s, s->owner[ms_pg_bucket(f.location)], ms__pg_find_step, &f,
                           err));
    *seq = f.seq;
    if (f.seq) return MS_OK;
    return ms_error_set(err, MS_E_NOT_FOUND, "the message of a change was not shipped");
}

MS_API ms_result ms_pg_ship_change(ms_store *store, ms_str source, const ms_msg *change,
                                   const ms_msg *message, ms_pg_position at,
                                   ms_error *err)
{
    MS__PG_TRY(ms__pg_ship_check(store, source, err));
    ms__pg *s = ms__pg_of(store);
    ms_envelope e = ms_envelope_of(change);
    ms_kind kind = ms_kind_of(change);
    e.seq = 0;
    if (kind != MS_KIND_LOCATION)
        MS__PG_TRY(ms__pg_ship_find(s, source, message, &e.seq, err));
    if (kind == MS_KIND_AMEND && (e.flags & MS_FLAG_REDACTED))
        return ms_redact(store, e.seq, err);
    e.flags |= (uint32_t)kind << 16;
    return ms__pg_ship_rows(s, source, &e, 1, at, err);
}

/* ==== [pg-cursor] ====================================================================
 * A view is read in pages, each a statement that begins after the last number of the
 * page before, as of the place at which the first page was read. So a cursor holds no
 * connection between its pages, and a lost connection only repeats a page. Pages grow
 * from 64 rows to about a megabyte.
 *
 * Three kinds of queries collect first which records they return (`keys`: number, place
 * and time, 24 bytes each), sort them here, and then read the records by number: order by
 * time, raw queries, and windows over several servers. A query over all locations of
 * several servers without a window merges the servers' pages.
 * ================================================================================== */

#define MS__PG_PAGE_FIRST 64
#define MS__PG_PAGE_BYTES 1000000
#define MS__PG_SQL 2600

typedef struct ms__pg_key {
    int64_t seq, place, time;
    uint32_t server;
} ms__pg_key;

/* What a cursor reads from one server. */
typedef struct ms__pg_part {
    size_t server;
    int64_t after, before;    /* numbers of the messages still to be read */
    uint64_t as_of;
    PGresult *rows;           /* a page: seq, place, body */
    int row, step;            /* the next row; +1 or -1 */
    bool last;                /* there are no more pages */
} ms__pg_part;

typedef struct ms__pg_cursor {
    ms__pg *s;
    const ms_query *query;    /* the cursor's, set in each call */
    ms_arena arena;           /* this, parts, keys */
    ms_arena scratch;         /* parameters of a statement */
    ms__pg_part *parts;
    size_t n_parts;
    bool collected;           /* in `keys` */
    ms__pg_key *keys;
    size_t n_keys, at;
    uint64_t left;            /* of a limit that pages count; UINT64_MAX: no limit */
    int64_t page;             /* rows */
    unsigned char *record;    /* 8 bytes: its place; then the record returned last */
    size_t room;
    ms_arena records;
    char sql[MS__PG_SQL];
} ms__pg_cursor;

/* A SQL text with its parameters. The text is made of the constants of this file. */
typedef struct ms__pg_text_of {
    char *sql;
    size_t len;
    ms__pg_params p;
} ms__pg_statement;

static void ms__pg_say(ms__pg_statement *t, const char *text)
{
    size_t n = strlen(text);
    if (t->len + n >= MS__PG_SQL) return; /* no query is that long */
    memcpy(t->sql + t->len, text, n + 1);
    t->len += n;
}

/* "$n" of the parameter that is added next. */
static void ms__pg_next_param(ms__pg_statement *t)
{
    char text[16];
    snprintf(text, sizeof text, "$%d", t->p.n + 1);
    ms__pg_say(t, text);
}

static void ms__pg_say_number(ms__pg_statement *t, const char *before, int64_t value)
{
    ms__pg_say(t, before);
    ms__pg_next_param(t);
    ms__pg_say(t, "::bigint");
    ms__pg_number(&t->p, MS__PG_INT8, value);
}

static void ms__pg_say_text(ms__pg_statement *t, const char *before, ms_str value)
{
    ms__pg_say(t, before);
    ms__pg_next_param(t);
    ms__pg_say(t, "::text");
    ms__pg_text(&t->p, value);
}

/* Can a column hold this name? If not, no row has it. */
static bool ms__pg_is_name(ms_str s)
{
    return ms_utf8_check(s, NULL) && (s.len == 0 || !memchr(s.ptr, 0, s.len));
}

static void ms__pg_say_bucket(ms__pg_statement *t, ms_str location)
{
    ms__pg_say(t, " and bucket = ");
    ms__pg_next_param(t);
    ms__pg_say(t, "::int");
    ms__pg_number(&t->p, MS__PG_INT4, ms_pg_bucket(location));
    ms__pg_say_text(t, " and location = ", location);
}

static bool ms__pg_say_team(ms__pg_statement *t, const ms_query *q, ms_arena *arena,
                            const char *before)
{
    ms__pg_array keys = ms__pg_array_of(arena, MS__PG_TEXT);
    for (size_t i = 0; i < q->n_agent_keys; i++)
        if (q->agent_keys[i].ptr && ms__pg_is_name(q->agent_keys[i]))
            ms__pg_push(&keys, q->agent_keys[i]);
    ms__pg_say(t, before);
    ms__pg_say(t, "agent = any(");
    ms__pg_next_param(t);
    ms__pg_say(t, "::text[])");
    return ms__pg_array_param(&t->p, &keys);
}

/* The views of a query, joined by "or". */
static bool ms__pg_say_views(ms__pg_statement *t, const ms_query *q, ms_arena *arena)
{
    const char *join = " and (";
    bool fits = true;
    if (q->views & MS_VIEW_TIMELINE) return true;
    if (q->views & MS_VIEW_CONVERSATION) {
        ms__pg_say(t, join);
        ms__pg_say(t, "type in (1, 2)");
        join = " or ";
    }
    if (q->views & MS_VIEW_GLOBAL) {
        ms__pg_say(t, join);
        ms__pg_say(t, "type in (9, 15)");
        join = " or ";
    }
    if ((q->views & MS_VIEW_AGENT) && ms__pg_is_name(q->agent_key)) {
        ms__pg_say(t, join);
        ms__pg_say_text(t, "agent = ", q->agent_key);
        ms__pg_say_number(t, " and (", (int64_t)q->agent_types);
        ms__pg_say(t, " >> type::int) & 1 = 1");
        join = " or ";
    }
    if (q->views & MS_VIEW_TEAM) {
        fits = ms__pg_say_team(t, q, arena, join);
        join = " or ";
    }
    ms__pg_say(t, join[1] == 'a' ? " and (false)" : ")");
    return fits;
}

/* The filters of messages: types, turn, times. */
static void ms__pg_say_filters(ms__pg_statement *t, const ms_query *q)
{
    if (q->types && q->types != MS_TYPES_ALL) {
        ms__pg_say_number(t, " and (", (int64_t)q->types);
        ms__pg_say(t, " >> type::int) & 1 = 1");
    }
    if (q->turn_id.ptr && ms__pg_is_name(q->turn_id))
        ms__pg_say_text(t, " and turn = ", q->turn_id);
    else if (q->turn_id.ptr) ms__pg_say(t, " and false");
    if (q->has_since) ms__pg_say_number(t, " and time >= ", q->since_ns);
    if (q->has_until) ms__pg_say_number(t, " and time < ", q->until_ns);
}

/* Versions of messages as of a place, of the views, filtered. */
static bool ms__pg_say_messages(ms__pg_statement *t, const ms_query *q, uint64_t as_of,
                                int64_t after, int64_t before, ms_arena *arena)
{
    ms__pg_say_number(t, " from msgstore_record where kind in (1, 3) and place < ",
                      ms__pg_signed(as_of));
    ms__pg_say_number(t, " and (until is null or until >= ", ms__pg_signed(as_of));
    ms__pg_say_number(t, ") and seq > ", after);
    ms__pg_say_number(t, " and seq < ", before);
    if (q->location.len) ms__pg_say_bucket(t, q->location);
    ms__pg_say_filters(t, q);
    return ms__pg_say_views(t, q, arena);
}

/* A message as a bound of a raw query: its place; where it is not, that of the next. */
static void ms__pg_say_place(ms__pg_statement *t, const char *before, uint64_t seq,
                             const char *after)
{
    ms__pg_say(t, before);
    ms__pg_say_number(t, " coalesce((select case when seq = ", ms__pg_signed(seq));
    ms__pg_say(t, after);
    ms__pg_say_number(t, " from msgstore_record where kind = 1 and seq >= ",
                      ms__pg_signed(seq));
    ms__pg_say(t, " order by seq limit 1), 9223372036854775807)");
}

/* Records as they stand. */
static void ms__pg_say_raw(ms__pg_statement *t, const ms_query *q, uint64_t as_of)
{
    static const char *const kinds[] = {"1", "3", "4", "5", "6", "10"};
    ms__pg_say_number(t, " from msgstore_record where place < ", ms__pg_signed(as_of));
    ms__pg_say(t, " and kind in (0");
    for (unsigned i = 0; i < 6; i++) {
        if (!(q->raw >> i & 1)) continue;
        ms__pg_say(t, ", ");
        ms__pg_say(t, kinds[i]);
    }
    ms__pg_say(t, ")");
    if (q->location.len) ms__pg_say_bucket(t, q->location);
    if (q->after_seq)
        ms__pg_say_place(t, " and place >", q->after_seq,
                         " then place else place - 1 end");
    if (q->before_seq)
        ms__pg_say_place(t, " and place <", q->before_seq, " then place else place end");
    if (q->about_seq && !(q->raw & MS_RAW_HIDES)) {
        ms__pg_say_number(t, " and seq = ", ms__pg_signed(q->about_seq));
    } else if (q->about_seq) {
        ms__pg_say_number(t, " and (kind <> 4 and seq = ", ms__pg_signed(q->about_seq));
        ms__pg_say_number(t, " or kind = 4 and seq <= ", ms__pg_signed(q->about_seq));
        ms__pg_say_number(t, " and upto >= ", ms__pg_signed(q->about_seq));
        ms__pg_say(t, ")");
    }
    ms__pg_say(t, " and (kind <> 1 or (true");
    ms__pg_say_filters(t, q);
    ms__pg_say(t, "))");
}

static ms__pg_statement ms__pg_begin(ms__pg_cursor *c)
{
    ms__pg_statement t;
    t.sql = c->sql;
    t.sql[0] = '\0';
    t.len = 0;
    t.p.n = 0;
    ms_arena_reset(&c->scratch);
    return t;
}

static void ms__pg_say_end(ms__pg_statement *t, const ms_query *q)
{
    if (q->location.len) {
        ms__pg_say(t, "(select last from msgstore_bucket where bucket = ");
        ms__pg_next_param(t);
        ms__pg_say(t, "::int)");
        ms__pg_number(&t->p, MS__PG_INT4, ms_pg_bucket(q->location));
    } else {
        ms__pg_say(t, "(select max(last) from msgstore_bucket)");
    }
}

/* ---- Where the store ends for a cursor. */

typedef struct ms__pg_reading {
    ms__pg_cursor *c;
    ms__pg_part *part;
} ms__pg_reading;

static ms_result ms__pg_end_step(ms__pg *s, ms__pg_line *line, void *ctx, ms_error *err)
{
    ms__pg_reading *g = (ms__pg_reading *)ctx;
    ms__pg_statement t = ms__pg_begin(g->c);
    PGresult *r;
    ms__pg_say(&t, "select ");
    ms__pg_say_end(&t, g->c->query);
    MS__PG_TRY(ms__pg_exec(line, t.sql, &t.p, &r, err));
    int64_t last = ms__pg_int(r, 0, 0);
    PQclear(r);
    ms__pg_saw(s, last);
    g->part->as_of = (uint64_t)(last + 1) * MS_PG_BUCKETS;
    return MS_OK;
}

/* ---- Pages. */

/* Reads the next page of a part, in the direction of the query; a window that is counted
 * from the other end, and fits a page, against it. */
static ms_result ms__pg_page_step(ms__pg *s, ms__pg_line *line, void *ctx, ms_error *err)
{
    ms__pg_reading *g = (ms__pg_reading *)ctx;
    ms__pg_cursor *c = g->c;
    ms__pg_part *part = g->part;
    const ms_query *q = c->query;
    ms__pg_statement t = ms__pg_begin(c);
    bool against = q->limit && q->oldest == q->reverse;
    bool down = against ? !q->reverse : q->reverse;
    int64_t most = c->left < (uint64_t)c->page ? (int64_t)c->left : c->page;
    if (against) most = (int64_t)c->left;
    ms__pg_say(&t, "select seq, place, body, ");
    ms__pg_say_end(&t, q);
    bool fits = ms__pg_say_messages(&t, q, part->as_of, part->after, part->before,
                                    &c->scratch);
    ms__pg_say_number(&t, down ? " order by seq desc limit " : " order by seq limit ",
                      most);
    if (!fits) return ms__pg_no_memory(err);
    PQclear(part->rows);
    part->rows = NULL;
    MS__PG_TRY(ms__pg_exec(line, t.sql, &t.p, &part->rows, err));
    int n = PQntuples(part->rows);
    part->row = against ? n - 1 : 0;
    part->step = against ? -1 : 1;
    part->last = against || n < most;
    if (n == 0) return MS_OK;
    if (part->as_of == (uint64_t)INT64_MAX) {
        int64_t end = ms__pg_int(part->rows, 0, 3);
        ms__pg_saw(s, end);
        part->as_of = (uint64_t)(end + 1) * MS_PG_BUCKETS;
    }
    if (down) part->before = ms__pg_int(part->rows, n - 1, 0);
    else part->after = ms__pg_int(part->rows, n - 1, 0);
    uint64_t bytes = 0;
    for (int i = 0; i < n; i++) bytes += (uint64_t)PQgetlength(part->rows, i, 2);
    c->page = 1 + (int64_t)(MS__PG_PAGE_BYTES / (bytes / (uint64_t)n + 1));
    if (c->page > 16 * (int64_t)n && n >= MS__PG_PAGE_FIRST) c->page = 16 * (int64_t)n;
    return MS_OK;
}

/* A row is left in the part's page, after reading the next one if need be. */
static bool ms__pg_part_ready(ms__pg_cursor *c, ms__pg_part *part, ms_result *code,
                              ms_error *err)
{
    while (!part->rows || part->row < 0 || part->row >= PQntuples(part->rows)) {
        ms__pg_reading g;
        if (part->last) return false;
        g.c = c;
        g.part = part;
        *code = ms__pg_call(c->s, part->server, ms__pg_page_step, &g, err);
        if (*code != MS_OK) return false;
    }
    return true;
}

/* The part whose row comes next; NULL: there are no more. */
static ms__pg_part *ms__pg_part_next(ms__pg_cursor *c, ms_result *code, ms_error *err)
{
    ms__pg_part *best = NULL;
    int64_t best_seq = 0;
    for (size_t i = 0; i < c->n_parts; i++) {
        ms__pg_part *part = &c->parts[i];
        if (!ms__pg_part_ready(c, part, code, err)) {
            if (*code != MS_OK) return NULL;
            continue;
        }
        int64_t seq = ms__pg_int(part->rows, part->row, 0);
        if (best && (c->query->reverse ? seq < best_seq : seq > best_seq)) continue;
        best = part;
        best_seq = seq;
    }
    return best;
}

/* ---- Collected queries. */

static ms_result ms__pg_keys_room(ms__pg_cursor *c, size_t n, size_t *cap, ms_error *err)
{
    if (c->n_keys + n <= *cap) return MS_OK;
    size_t want = 2 * (c->n_keys + n);
    ms__pg_key *keys = (ms__pg_key *)ms_arena_alloc(&c->arena, want * sizeof *keys);
    if (!keys) return ms__pg_no_memory(err);
    if (c->n_keys) memcpy(keys, c->keys, c->n_keys * sizeof *keys);
    c->keys = keys;
    *cap = want;
    return MS_OK;
}

static ms_result ms__pg_keys_step(ms__pg *s, ms__pg_line *line, void *ctx, ms_error *err)
{
    ms__pg_reading *g = (ms__pg_reading *)ctx;
    ms__pg_cursor *c = g->c;
    const ms_query *q = c->query;
    ms__pg_statement t = ms__pg_begin(c);
    bool fits = true;
    (void)s;
    ms__pg_say(&t, "select seq, place, time");
    if (q->raw) ms__pg_say_raw(&t, q, g->part->as_of);
    else fits = ms__pg_say_messages(&t, q, g->part->as_of, g->part->after,
                                    g->part->before, &c->scratch);
    if (!q->by_time && q->limit) {
        ms__pg_say(&t, q->raw ? " order by place" : " order by seq");
        ms__pg_say_number(&t, q->oldest ? " limit " : " desc limit ",
                          ms__pg_signed(q->limit));
    }
    if (!fits) return ms__pg_no_memory(err);
    return ms__pg_exec(line, t.sql, &t.p, &g->part->rows, err);
}

static int ms__pg_number_order(const void *a, const void *b)
{
    const ms__pg_key *x = (const ms__pg_key *)a, *y = (const ms__pg_key *)b;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static int ms__pg_key_order(const void *a, const void *b)
{
    const ms__pg_key *x = (const ms__pg_key *)a, *y = (const ms__pg_key *)b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    return ms__pg_number_order(a, b);
}

/* Sets what is sorted by: place, number or time. By time the keys are in
 * order of number, so a message without time can take the one before it. */
static void ms__pg_keys_time(ms__pg_cursor *c)
{
    const ms_query *q = c->query;
    int64_t before = INT64_MIN;
    for (size_t i = 0; i < c->n_keys; i++) {
        ms__pg_key *k = &c->keys[i];
        if (!q->by_time) k->time = q->raw ? k->place : k->seq;
        else if (k->time != INT64_MIN) before = k->time;
        else if (!q->untimed_first) k->time = before;
    }
}

/* Cuts the window out, in the direction of reading. */
static void ms__pg_keys_window(ms__pg_cursor *c)
{
    const ms_query *q = c->query;
    size_t n = c->n_keys;
    if (q->limit && q->limit < n) {
        if (!q->oldest) c->keys += n - q->limit;
        n = q->limit;
    }
    for (size_t i = 0; q->reverse && i < n / 2; i++) {
        ms__pg_key swap = c->keys[i];
        c->keys[i] = c->keys[n - 1 - i];
        c->keys[n - 1 - i] = swap;
    }
    c->n_keys = n;
}

static ms_result ms__pg_collect(ms__pg_cursor *c, ms_error *err)
{
    size_t cap = 0;
    for (size_t i = 0; i < c->n_parts; i++) {
        ms__pg_part *part = &c->parts[i];
        ms__pg_reading g;
        g.c = c;
        g.part = part;
        MS__PG_TRY(ms__pg_call(c->s, part->server, ms__pg_keys_step, &g, err));
        int n = PQntuples(part->rows);
        MS__PG_TRY(ms__pg_keys_room(c, (size_t)n, &cap, err));
        for (int k = 0; k < n; k++) {
            ms__pg_key *key = &c->keys[c->n_keys++];
            key->seq = ms__pg_int(part->rows, k, 0);
            key->place = ms__pg_int(part->rows, k, 1);
            key->time = PQgetisnull(part->rows, k, 2) ? INT64_MIN
                                                      : ms__pg_int(part->rows, k, 2);
            key->server = (uint32_t)i;
        }
        PQclear(part->rows);
        part->rows = NULL;
    }
    if (c->query->by_time)
        qsort(c->keys, c->n_keys, sizeof *c->keys, ms__pg_number_order);
    ms__pg_keys_time(c);
    qsort(c->keys, c->n_keys, sizeof *c->keys, ms__pg_key_order);
    ms__pg_keys_window(c);
    return MS_OK;
}

/* Reads the records of a run of keys of one server, from c->at on. */
static ms_result ms__pg_fetch_step(ms__pg *s, ms__pg_line *line, void *ctx, ms_error *err)
{
    ms__pg_reading *g = (ms__pg_reading *)ctx;
    ms__pg_cursor *c = g->c;
    ms__pg_statement t = ms__pg_begin(c);
    ms__pg_array at = ms__pg_array_of(&c->scratch, MS__PG_INT8);
    ms__pg_array seqs = ms__pg_array_of(&c->scratch, MS__PG_INT8);
    ms__pg_array places = ms__pg_array_of(&c->scratch, MS__PG_INT8);
    (void)s;
    for (size_t i = c->at; i < c->n_keys && seqs.n < (uint32_t)c->page; i++) {
        if (&c->parts[c->keys[i].server] != g->part) break;
        ms__pg_push_number(&at, (int64_t)i);
        ms__pg_push_number(&seqs, c->keys[i].seq);
        ms__pg_push_number(&places, c->keys[i].place);
    }
    ms__pg_say(&t, "select r.seq, r.place, r.body from unnest($1::bigint[], $2::bigint[],"
                   " $3::bigint[]) as k (i, seq, place) join msgstore_record r"
                   " on r.seq = k.seq and r.place = k.place");
    if (!ms__pg_array_param(&t.p, &at) || !ms__pg_array_param(&t.p, &seqs) ||
        !ms__pg_array_param(&t.p, &places))
        return ms__pg_no_memory(err);
    if (c->query->location.len) {
        ms__pg_say(&t, " and r.bucket = $4::int");
        ms__pg_number(&t.p, MS__PG_INT4, ms_pg_bucket(c->query->location));
    }
    ms__pg_say(&t, " order by k.i");
    PQclear(g->part->rows);
    g->part->rows = NULL;
    MS__PG_TRY(ms__pg_exec(line, t.sql, &t.p, &g->part->rows, err));
    g->part->row = 0;
    g->part->step = 1;
    return MS_OK;
}

/* The part whose row is the next key's. A key whose row is gone is passed over. */
static ms__pg_part *ms__pg_key_next(ms__pg_cursor *c, ms_result *code, ms_error *err)
{
    while (c->at < c->n_keys) {
        const ms__pg_key *k = &c->keys[c->at];
        ms__pg_part *part = &c->parts[k->server];
        ms__pg_reading g;
        if (part->rows && part->row < PQntuples(part->rows)) {
            c->at++;
            if (ms__pg_int(part->rows, part->row, 0) == k->seq &&
                ms__pg_int(part->rows, part->row, 1) == k->place)
                return part;
            continue;
        }
        bool fresh = part->rows == NULL;
        g.c = c;
        g.part = part;
        *code = ms__pg_call(c->s, part->server, ms__pg_fetch_step, &g, err);
        if (*code != MS_OK) return NULL;
        if (PQntuples(part->rows) == 0) c->at++;
        if (fresh) c->page = 256;
    }
    return NULL;
}

/* ---- The cursor. */

static ms__pg_cursor *ms__pg_cursor_new(ms__pg *s, const ms_query *q)
{
    ms_arena arena;
    memset(&arena, 0, sizeof arena);
    arena.alloc = s->desc.alloc;
    ms__pg_cursor *c = (ms__pg_cursor *)ms_arena_alloc(&arena, sizeof *c);
    size_t n = q->location.len ? 1 : s->n_servers;
    if (!c) return NULL;
    memset(c, 0, sizeof *c);
    c->parts = (ms__pg_part *)ms_arena_alloc(&arena, n * sizeof *c->parts);
    c->arena = arena;
    c->s = s;
    c->query = q;
    c->n_parts = n;
    c->scratch.alloc = c->records.alloc = s->desc.alloc;
    c->left = q->limit ? q->limit : UINT64_MAX;
    c->page = MS__PG_PAGE_FIRST;
    c->collected = q->raw || q->by_time || (n > 1 && q->limit);
    if (!c->parts) ms_arena_deinit(&c->arena);
    if (!c->parts) return NULL;
    memset(c->parts, 0, n * sizeof *c->parts);
    for (size_t i = 0; i < n; i++) {
        ms__pg_part *part = &c->parts[i];
        part->server = q->location.len ? s->owner[ms_pg_bucket(q->location)] : i;
        part->after = ms__pg_signed(q->after_seq);
        part->before = q->before_seq ? ms__pg_signed(q->before_seq) : INT64_MAX;
        part->as_of = q->as_of ? q->as_of : (uint64_t)INT64_MAX;
    }
    return c;
}

static void ms__pg_cursor_close(ms_store *store, ms_cursor *it)
{
    ms__pg_cursor *c = (ms__pg_cursor *)it->ctx;
    (void)store;
    if (!c) return;
    for (size_t i = 0; i < c->n_parts; i++) PQclear(c->parts[i].rows);
    ms_arena_deinit(&c->scratch);
    ms_arena_deinit(&c->records);
    ms_arena own = c->arena; /* it holds c */
    ms_arena_deinit(&own);
    it->ctx = NULL;
}

/* Reads where the store ends, if several statements need it; then the first page. */
static ms_result ms__pg_cursor_begin(ms__pg_cursor *c, ms_error *err)
{
    ms_result code = MS_OK;
    for (size_t i = 0; i < c->n_parts; i++) {
        ms__pg_reading g;
        g.c = c;
        g.part = &c->parts[i];
        if (g.part->as_of != (uint64_t)INT64_MAX || (!c->collected && c->n_parts == 1))
            continue;
        MS__PG_TRY(ms__pg_call(c->s, g.part->server, ms__pg_end_step, &g, err));
    }
    if (c->collected) return ms__pg_collect(c, err);
    (void)ms__pg_part_ready(c, &c->parts[0], &code, err);
    return code;
}

static ms_result ms__pg_query(ms_store *store, ms_cursor *it, ms_error *err)
{
    ms__pg *s = ms__pg_of(store);
    const ms_query *q = &it->query;
    it->ctx = NULL;
    MS__PG_TRY(ms__pg_check(s, false, err));
    ms__pg_cursor *c = ms__pg_cursor_new(s, q);
    if (!c) return ms__pg_no_memory(err);
    it->ctx = c;
    ms_result code = MS_OK;
    bool named = !q->location.len || ms__pg_is_name(q->location);
    if (named) code = ms__pg_cursor_begin(c, err);
    else c->n_parts = 0;
    it->now = c->n_parts ? c->parts[0].as_of : 1;
    for (size_t i = 1; i < c->n_parts; i++)
        if (c->parts[i].as_of > it->now) it->now = c->parts[i].as_of;
    if (code != MS_OK) ms__pg_cursor_close(store, it);
    return code;
}

/* The row's record, in the cursor's memory. */
static ms_result ms__pg_cursor_record(ms__pg_cursor *c, const PGresult *r, int row,
                                      const ms_msg **out)
{
    ms_str body = ms__pg_str(r, row, 2);
    int64_t place = ms__pg_int(r, row, 1);
    if (body.len + 8 > c->room) {
        ms_arena_reset(&c->records);
        c->room = 2 * body.len + 1024;
        c->record = (unsigned char *)ms_arena_alloc(&c->records, c->room);
        if (!c->record) c->room = 0;
        if (!c->record) return MS_E_NO_MEMORY;
    }
    memcpy(c->record, &place, 8);
    if (body.len) memcpy(c->record + 8, body.ptr, body.len);
    return ms_record_decode(c->record + 8, body.len, (uint64_t)ms__pg_int(r, row, 0), out,
                            NULL);
}

static const ms_msg *ms__pg_next(ms_store *store, ms_cursor *it)
{
    ms__pg_cursor *c = (ms__pg_cursor *)it->ctx;
    const ms_msg *msg = NULL;
    ms_result code = MS_OK;
    (void)store;
    while (c && c->left > 0) {
        c->query = &it->query;
        ms__pg_part *part = c->collected ? ms__pg_key_next(c, &code, NULL)
                                         : ms__pg_part_next(c, &code, NULL);
        if (code != MS_OK) it->result = code;
        if (!part) return NULL;
        code = ms__pg_cursor_record(c, part->rows, part->row, &msg);
        part->row += part->step;
        if (c->left != UINT64_MAX) c->left--;
        if (code == MS_OK) return msg;
        if (code == MS_E_NO_MEMORY) {
            it->result = code;
            return NULL;
        }
        it->damaged++;
        code = MS_OK;
    }
    return NULL;
}

/* ==== [pg-list] lookups, listings, totals =========================================== */

typedef struct ms__pg_getting {
    uint64_t seq;
    bool routed;              /* by the bucket in the number */
    ms_arena *arena;
    const ms_msg *msg;
    ms_result found;
} ms__pg_getting;

/* The version that stands; or, of a hidden message, the first one. */
static ms_result ms__pg_get_step(ms__pg *s, ms__pg_line *line, void *ctx, ms_error *err)
{
    ms__pg_getting *g = (ms__pg_getting *)ctx;
    ms__pg_params p;
    PGresult *r;
    (void)s;
    p.n = 0;
    ms__pg_number(&p, MS__PG_INT8, ms__pg_signed(g->seq));
    if (g->routed) ms__pg_number(&p, MS__PG_INT4, (int64_t)(g->seq % MS_PG_BUCKETS));
    MS__PG_TRY(ms__pg_exec(line, g->routed ? ms__pg_versions_routed : ms__pg_versions, &p,
                           &r, err));
    int n = PQntuples(r);
    bool shown = n > 0 && PQgetisnull(r, n - 1, 3);
    ms_result code = MS_OK;
    g->found = shown ? MS_OK : n > 0 ? MS_E_HIDDEN : MS_E_NOT_FOUND;
    if (n > 0)
        code = ms__pg_record(r, shown ? n - 1 : 0, 4, g->seq, g->arena, &g->msg, err);
    PQclear(r);
    return code;
}

static ms_result ms__pg_get(ms_store *store, uint64_t seq, ms_arena *arena,
                            const ms_msg **msg, ms_error *err)
{
    ms__pg *s = ms__pg_of(store);
    ms__pg_getting g;
    memset(&g, 0, sizeof g);
    g.seq = seq;
    g.arena = arena;
    g.found = MS_E_NOT_FOUND;
    g.routed = true;
    *msg = NULL;
    MS__PG_TRY(ms__pg_check(s, false, err));
    if (seq > 0 && seq < (uint64_t)INT64_MAX)
        MS__PG_TRY(ms__pg_call(s, s->owner[seq % MS_PG_BUCKETS], ms__pg_get_step, &g,
                               err));
    g.routed = false; /* a number of a copy says nothing about its bucket */
    for (size_t i = 0; i < s->n_servers && g.found == MS_E_NOT_FOUND; i++)
        if (seq > 0 && seq < (uint64_t)INT64_MAX)
            MS__PG_TRY(ms__pg_call(s, i, ms__pg_get_step, &g, err));
    *msg = g.msg;
    if (g.found == MS_OK) return MS_OK;
    return ms__pg_fail(err, g.found, g.found == MS_E_HIDDEN ? "the message is hidden"
                                                            : "there is no such message",
                       NULL);
}

/* ---- Listings. */

typedef struct ms__pg_listed {
    const ms_list_query *query;
    ms_arena *arena;
    ms_arena scratch;
    PGresult *rows;
    char sql[MS__PG_SQL];
} ms__pg_listed;

static ms_result ms__pg_list_step(ms__pg *s, ms__pg_line *line, void *ctx, ms_error *err)
{
    ms__pg_listed *l = (ms__pg_listed *)ctx;
    const ms_list_query *q = l->query;
    const char *column = q->agents ? "agent" : "location";
    ms__pg_statement t;
    (void)s;
    t.sql = l->sql;
    t.len = 0;
    t.p.n = 0;
    ms__pg_say(&t, "select g.location, g.agent, g.n, g.first, g.last,"
                   " (select time from msgstore_record f where f.bucket = g.bucket and"
                   " f.seq = g.first and f.kind in (1, 3) and f.until is null),"
                   " (select time from msgstore_record f where f.bucket = g.bucket and"
                   " f.seq = g.last and f.kind in (1, 3) and f.until is null)"
                   " from (select bucket, location, ");
    ms__pg_say(&t, q->agents ? "agent" : "null::text");
    ms__pg_say(&t, " as agent, count(*) as n, min(seq) as first, max(seq) as last"
                   " from msgstore_record where " MS__PG_SHOWN);
    if (q->agents) ms__pg_say(&t, " and agent is not null");
    if (q->agents && q->location.len) ms__pg_say_bucket(&t, q->location);
    if (q->prefix.len) {
        ms__pg_say(&t, " and left(");
        ms__pg_say(&t, column);
        ms__pg_say_text(&t, ", length(", q->prefix);
        ms__pg_say_text(&t, ")) = ", q->prefix);
    }
    ms__pg_say(&t, " group by bucket, location");
    if (q->agents) ms__pg_say(&t, ", agent");
    ms__pg_say_number(&t, " order by max(seq) desc limit ",
                      q->limit ? ms__pg_signed(q->limit) : INT64_MAX);
    ms__pg_say(&t, ") as g order by g.last desc");
    return ms__pg_exec(line, t.sql, &t.p, &l->rows, err);
}

static ms_str ms__pg_kept_text(const PGresult *r, int row, int column, ms_arena *arena,
                               bool *fits)
{
    ms_str s = ms__pg_str(r, row, column);
    if (!s.ptr) return s;
    char *copy = (char *)ms_arena_alloc(arena, s.len);
    if (!copy) *fits = false;
    else if (s.len) memcpy(copy, s.ptr, s.len);
    return ms_str_n(copy, copy ? s.len : 0);
}

static int64_t ms__pg_time_at(const PGresult *r, int row, int column)
{
    return PQgetisnull(r, row, column) ? MS_TIME_NONE : ms__pg_int(r, row, column);
}

static bool ms__pg_info(const ms__pg_listed *l, int row, ms_info *info)
{
    bool fits = true;
    memset(info, 0, sizeof *info);
    info->location = ms__pg_kept_text(l->rows, row, 0, l->arena, &fits);
    info->agent_key = ms__pg_kept_text(l->rows, row, 1, l->arena, &fits);
    info->last_seq = (uint64_t)ms__pg_int(l->rows, row, 4);
    info->last_time_ns = ms__pg_time_at(l->rows, row, 6);
    info->first_time_ns = MS_TIME_NONE;
    if (l->query->names_only) return fits;
    info->messages = (uint64_t)ms__pg_int(l->rows, row, 2);
    info->first_seq = (uint64_t)ms__pg_int(l->rows, row, 3);
    info->first_time_ns = ms__pg_time_at(l->rows, row, 5);
    return fits;
}

static int ms__pg_newer(const void *a, const void *b)
{
    const ms_info *x = (const ms_info *)a, *y = (const ms_info *)b;
    return x->last_seq > y->last_seq ? -1 : x->last_seq < y->last_seq;
}

/* Adds the entries of one server. */
static ms_result ms__pg_list_server(ms__pg *s, size_t server, ms__pg_listed *l,
                                    ms_listing *out, ms_error *err)
{
    MS__PG_TRY(ms__pg_call(s, server, ms__pg_list_step, l, err));
    size_t n = (size_t)PQntuples(l->rows);
    size_t size = (out->count + n) * sizeof *out->items;
    ms_info *items = (ms_info *)ms_arena_alloc(l->arena, size);
    bool fits = items != NULL;
    if (items && out->count) memcpy(items, out->items, out->count * sizeof *items);
    for (size_t i = 0; i < n && fits; i++)
        fits = ms__pg_info(l, (int)i, &items[out->count + i]);
    PQclear(l->rows);
    l->rows = NULL;
    if (!fits) return ms_error_set(err, MS_E_ARENA, "the listing does not fit the arena");
    out->items = items;
    out->count += n;
    return MS_OK;
}

static ms_result ms__pg_list(ms_store *store, const ms_list_query *q, ms_arena *arena,
                             ms_listing *out, ms_error *err)
{
    ms__pg *s = ms__pg_of(store);
    ms__pg_listed l;
    memset(&l, 0, sizeof l);
    l.query = q;
    l.arena = arena;
    MS__PG_TRY(ms__pg_check(s, false, err));
    if (!ms__pg_is_name(q->prefix) || !ms__pg_is_name(q->location)) return MS_OK;
    bool one = q->agents && q->location.len;
    size_t first = one ? s->owner[ms_pg_bucket(q->location)] : 0;
    size_t end = one ? first + 1 : s->n_servers;
    for (size_t i = first; i < end; i++)
        MS__PG_TRY(ms__pg_list_server(s, i, &l, out, err));
    if (end - first > 1) qsort(out->items, out->count, sizeof *out->items, ms__pg_newer);
    if (q->limit && out->count > q->limit) out->count = q->limit;
    return MS_OK;
}

/* ---- Totals. */

static ms_result ms__pg_totals_step(ms__pg *s, ms__pg_line *line, void *ctx,
                                    ms_error *err)
{
    ms_stat *out = (ms_stat *)ctx;
    ms__pg_params p;
    PGresult *r;
    p.n = 0;
    MS__PG_TRY(ms__pg_exec(line, ms__pg_totals, &p, &r, err));
    uint64_t hidden = (uint64_t)ms__pg_int(r, 0, 1);
    uint64_t last = (uint64_t)ms__pg_int(r, 0, 5);
    out->messages += (uint64_t)ms__pg_int(r, 0, 0) - hidden;
    out->hidden += hidden;
    out->changes += (uint64_t)ms__pg_int(r, 0, 2);
    out->bytes += (uint64_t)ms__pg_int(r, 0, 3);
    if ((uint64_t)ms__pg_int(r, 0, 4) > out->last_seq)
        out->last_seq = (uint64_t)ms__pg_int(r, 0, 4);
    if ((last + 1) * MS_PG_BUCKETS > out->as_of) out->as_of = (last + 1) * MS_PG_BUCKETS;
    PQclear(r);
    ms__pg_saw(s, (int64_t)last);
    return MS_OK;
}

static ms_result ms__pg_stat(ms_store *store, ms_stat *out, ms_error *err)
{
    ms__pg *s = ms__pg_of(store);
    memset(out, 0, sizeof *out);
    MS__PG_TRY(ms__pg_check(s, false, err));
    for (size_t i = 0; i < s->n_servers; i++)
        MS__PG_TRY(ms__pg_call(s, i, ms__pg_totals_step, out, err));
    out->given_seq = out->as_of - 1;
    return MS_OK;
}

static ms_result ms__pg_leave_step(ms__pg *s, ms__pg_line *line, void *ctx, ms_error *err)
{
    ms__pg_params p;
    (void)s;
    p.n = 0;
    ms__pg_number(&p, MS__PG_INT8,
                  ms__pg_signed(*(const uint64_t *)ctx) / MS_PG_BUCKETS + 1);
    return ms__pg_exec(line, "update msgstore_bucket set last = greatest(last,"
                       " $1::bigint)", &p, NULL, err);
}

static ms_result ms__pg_leave_out(ms_store *store, uint64_t seq, ms_error *err)
{
    ms__pg *s = ms__pg_of(store);
    MS__PG_TRY(ms__pg_check(s, true, err));
    for (size_t i = 0; i < s->n_servers; i++)
        MS__PG_TRY(ms__pg_call(s, i, ms__pg_leave_step, &seq, err));
    return MS_OK;
}

/* ==== [pg-wait] ======================================================================
 * Waiting is asking for the totals: every 50 ms, and at once after a notification. A
 * waiter listens on a connection of its own. While it waits, it holds an advisory lock
 * that all waiters share; an appender that cannot have this lock alone knows that there
 * are waiters, and notifies them. The notification is a statement after the append's own,
 * at most one every 10 ms for each handle: NOTIFY inside of the append would make all
 * commits wait for each other (0.26 of the throughput with eight clients). A lost
 * notification costs 50 ms.
 * ================================================================================== */

#define MS__PG_WAIT_LOCK "6217836124187"

static void ms__pg_notify(ms__pg *s, ms__pg_line *line)
{
    int64_t now = ms__pg_now();
    ms__pg_lock_take(&s->lock);
    bool due = !s->desc.no_notify && now - s->notified >= 10;
    if (due) s->notified = now;
    ms__pg_lock_give(&s->lock);
    if (!due || line->lost || PQtransactionStatus(line->conn) != PQTRANS_IDLE) return;
    if (!PQsendQuery(line->conn,
                     "select pg_notify('msgstore', '') where not"
                     " pg_try_advisory_xact_lock(" MS__PG_WAIT_LOCK ")")) {
        line->lost = true;
        return;
    }
    (void)PQflush(line->conn);
    line->noisy = true;
}

/* One thread of the handle listens; others ask. */
static bool ms__pg_listen(ms__pg *s, int64_t deadline)
{
    ms__pg_line *line = &s->listener;
    ms__pg_lock_take(&s->lock);
    bool mine = !line->busy && !s->desc.no_notify;
    if (mine) line->busy = true;
    ms__pg_lock_give(&s->lock);
    if (!mine) return false;
    line->deadline = deadline;
    line->lost = false;
    bool ready = line->conn != NULL ||
                 (ms__pg_connect(line, s->servers[0].url, s->desc.read_only,
                                 s->desc.statement_ms, NULL) == MS_OK &&
                  ms__pg_simple(line, "listen msgstore", NULL) == MS_OK);
    if (ready)
        ready = ms__pg_simple(line, "select pg_advisory_lock_shared("
                              MS__PG_WAIT_LOCK ")", NULL) == MS_OK;
    if (ready) return true;
    ms__pg_line_drop(line);
    ms__pg_lock_take(&s->lock);
    line->busy = false;
    ms__pg_lock_give(&s->lock);
    return false;
}

static void ms__pg_unlisten(ms__pg *s)
{
    ms__pg_line *line = &s->listener;
    line->deadline = ms__pg_now() + 1000;
    if (line->lost || ms__pg_simple(line, "select pg_advisory_unlock_shared("
                                          MS__PG_WAIT_LOCK ")", NULL) != MS_OK)
        ms__pg_line_drop(line);
    ms__pg_lock_take(&s->lock);
    line->busy = false;
    ms__pg_lock_give(&s->lock);
}

/* Sleeps for at most ms milliseconds, or until a notification comes. */
static void ms__pg_doze(ms__pg *s, bool listens, int64_t ms)
{
    ms__pg_line *line = &s->listener;
    PGnotify *note;
    ms__pg_pollfd fd;
    if (!listens || line->lost) {
        ms__pg_nap(ms);
        return;
    }
    fd.fd = PQsocket(line->conn);
    fd.events = POLLIN;
    fd.revents = 0;
    if (ms__pg_poll(&fd, 1, (int)ms) <= 0) return;
    if (!PQconsumeInput(line->conn)) line->lost = true;
    while ((note = PQnotifies(line->conn)) != NULL) PQfreemem(note);
}

static ms_result ms__pg_wait(ms_store *store, uint64_t after_seq, uint32_t timeout_ms,
                             uint64_t *last_seq, ms_error *err)
{
    ms__pg *s = ms__pg_of(store);
    ms_stat first, now;
    int64_t end = ms__pg_now() + timeout_ms;
    bool listens = false;
    ms_result code = ms__pg_stat(store, &first, err);
    now = first;
    while (code == MS_OK && now.last_seq <= after_seq && now.changes == first.changes) {
        int64_t left = end - ms__pg_now();
        if (left <= 0) break;
        if (!listens && s->n_servers == 1) {
            listens = ms__pg_listen(s, end);
            if (listens) left = 0; /* ask once more: something may have come since */
        }
        if (left > 0) ms__pg_doze(s, listens, left < 50 ? left : 50);
        code = ms__pg_stat(store, &now, err);
    }
    if (listens) ms__pg_unlisten(s);
    if (code == MS_OK && last_seq) *last_seq = now.last_seq;
    return code;
}

/* What is committed is durable. */
static ms_result ms__pg_sync(ms_store *store, uint64_t *durable_seq, ms_error *err)
{
    ms_stat stat;
    MS__PG_TRY(ms__pg_stat(store, &stat, err));
    *durable_seq = stat.last_seq;
    return MS_OK;
}

/* ==== [pg-open] ===================================================================== */

static void ms__pg_close(ms_store *store)
{
    ms__pg *s = ms__pg_of(store);
    bool own = ms__pg_process() == s->process; /* a child's close must not say goodbye */
    for (size_t i = 0; i < s->n_servers; i++)
        for (unsigned k = 0; own && s->servers[i].lines && k < s->desc.connections; k++)
            ms__pg_line_drop(&s->servers[i].lines[k]);
    if (own) ms__pg_line_drop(&s->listener);
    ms__pg_lock_free(&s->lock);
    ms__pg_cond_free(&s->given);
    s->base.open = 0;
    ms_arena arena = s->arena; /* it holds s */
    ms_arena_deinit(&arena);
}

static const ms_backend ms__pg_backend = {
    ms__pg_append, ms__pg_query,   ms__pg_next,      ms__pg_cursor_close,
    ms__pg_get,    ms__pg_list,    ms__pg_stat,      ms__pg_sync,
    ms__pg_close,  NULL,           ms__pg_leave_out, ms__pg_change,
    ms__pg_erase,  NULL,           ms__pg_wait};

typedef struct ms__pg_opening {
    size_t server;
    bool fill;                /* insert the rows of this server's buckets */
    uint16_t *owner;
    size_t found;             /* buckets on this server */
    unsigned clashes;         /* of them also on another one */
} ms__pg_opening;

static ms_result ms__pg_version_check(ms__pg_line *line, ms_error *err)
{
    ms__pg_params p;
    PGresult *r;
    p.n = 0;
    MS__PG_TRY(ms__pg_exec(line, "select max(version) from msgstore_schema", &p, &r,
                           err));
    int64_t version = ms__pg_int(r, 0, 0);
    PQclear(r);
    if (version == MS__PG_VERSION) return MS_OK;
    return ms_error_set(err, MS_E_FOREIGN, "the tables are of another version");
}

static ms_result ms__pg_create_tables(ms__pg *s, ms__pg_line *line, ms_error *err)
{
    char sql[640];
    for (size_t i = 0; i < sizeof ms__pg_create / sizeof ms__pg_create[0]; i++) {
        if (ms__pg_create[i]) {
            MS__PG_TRY(ms__pg_simple(line, ms__pg_create[i], err));
            continue;
        }
        bool whole = s->desc.partitions == 1;
        snprintf(sql, sizeof sql, "%s%s", ms__pg_create_record,
                 whole ? "" : " partition by hash (bucket)");
        MS__PG_TRY(ms__pg_simple(line, sql, err));
        for (unsigned k = 0; k < s->desc.partitions && !whole; k++) {
            snprintf(sql, sizeof sql, "create table if not exists msgstore_record_%u"
                     " partition of msgstore_record for values with (modulus %u,"
                     " remainder %u)", k, s->desc.partitions, k);
            MS__PG_TRY(ms__pg_simple(line, sql, err));
        }
    }
    return MS_OK;
}

/* Creates the tables, all or none; of clients that do so at the same time, one after the
 * other. */
static ms_result ms__pg_create_step(ms__pg *s, ms__pg_line *line, void *ctx,
                                    ms_error *err)
{
    (void)ctx;
    ms_result code = ms__pg_version_check(line, err);
    if (code != MS_E_NOT_FOUND || s->desc.no_create || s->desc.read_only) return code;
    MS__PG_TRY(ms__pg_simple(line, "begin", err));
    code = ms__pg_simple(line, "select pg_advisory_xact_lock(6217836124188)", err);
    if (code == MS_OK) code = ms__pg_create_tables(s, line, err);
    if (code == MS_OK) return ms__pg_simple(line, "commit", err);
    if (!line->lost) {
        bool again = line->again;
        (void)ms__pg_simple(line, "rollback", NULL);
        line->again = again;
    }
    return code;
}

static ms_result ms__pg_buckets_step(ms__pg *s, ms__pg_line *line, void *ctx,
                                     ms_error *err)
{
    ms__pg_opening *o = (ms__pg_opening *)ctx;
    ms__pg_params p;
    PGresult *r;
    p.n = 0;
    if (o->fill) {
        ms__pg_number(&p, MS__PG_INT4, (int64_t)s->n_servers);
        ms__pg_number(&p, MS__PG_INT4, (int64_t)o->server);
        MS__PG_TRY(ms__pg_exec(line, "insert into msgstore_bucket (bucket, last)"
                               " select b, 0 from generate_series(0, 1023) as b"
                               " where b * $1::int / 1024 = $2::int"
                               " on conflict do nothing", &p, NULL, err));
        p.n = 0;
    }
    MS__PG_TRY(ms__pg_exec(line, "select bucket, last from msgstore_bucket", &p, &r,
                           err));
    o->found = (size_t)PQntuples(r);
    o->clashes = 0;
    for (int i = 0; i < PQntuples(r); i++) {
        uint64_t bucket = (uint64_t)ms__pg_int(r, i, 0) % MS_PG_BUCKETS;
        uint16_t *owner = &o->owner[bucket];
        if (*owner != UINT16_MAX && *owner != o->server) o->clashes++;
        *owner = (uint16_t)o->server;
        ms__pg_saw(s, ms__pg_int(r, i, 1));
    }
    PQclear(r);
    return MS_OK;
}

/* Finds the server of each bucket. On servers without any, they are shared out. */
static ms_result ms__pg_buckets(ms__pg *s, bool fill, size_t *found, ms_error *err)
{
    ms__pg_opening o;
    unsigned clashes = 0;
    char text[128];
    memset(&o, 0, sizeof o);
    o.owner = s->owner;
    o.fill = fill;
    *found = 0;
    for (size_t i = 0; i < MS_PG_BUCKETS; i++) s->owner[i] = UINT16_MAX;
    for (o.server = 0; o.server < s->n_servers; o.server++) {
        MS__PG_TRY(ms__pg_call(s, o.server, ms__pg_buckets_step, &o, err));
        *found += o.found;
        clashes += o.clashes;
    }
    if (*found == 0 || (*found == MS_PG_BUCKETS && clashes == 0)) return MS_OK;
    snprintf(text, sizeof text, "the servers do not belong together: they have %u of"
             " 1024 buckets, %u of them twice", (unsigned)(*found - clashes), clashes);
    return ms_error_set(err, MS_E_FOREIGN, text);
}

static ms_result ms__pg_ready_store(ms__pg *s, ms_error *err)
{
    size_t found;
    for (size_t i = 0; i < s->n_servers; i++)
        MS__PG_TRY(ms__pg_call(s, i, ms__pg_create_step, NULL, err));
    MS__PG_TRY(ms__pg_buckets(s, false, &found, err));
    if (found > 0) return MS_OK;
    if (s->desc.no_create || s->desc.read_only)
        return ms_error_set(err, MS_E_NOT_FOUND, "the tables have no buckets yet");
    return ms__pg_buckets(s, true, &found, err);
}

static void ms__pg_defaults(ms_pg_desc *d)
{
    if (d->partitions == 0) d->partitions = 8;
    if (d->connections == 0) d->connections = 8;
    if (d->timeout_ms == 0) d->timeout_ms = 30000;
    if (d->statement_ms == 0) d->statement_ms = d->timeout_ms;
    if (d->max_message == 0) d->max_message = (size_t)64 << 20;
}

static bool ms__pg_server_init(ms__pg *s, size_t i, const char *url)
{
    ms__pg_server *server = &s->servers[i];
    size_t size = s->desc.connections * sizeof *server->lines;
    server->lines = (ms__pg_line *)ms_arena_alloc(&s->arena, size);
    if (server->lines) memset(server->lines, 0, size);
    if (server->lines && url) {
        server->url = (char *)ms_arena_alloc(&s->arena, strlen(url) + 1);
        if (server->url) memcpy(server->url, url, strlen(url) + 1);
    }
    return server->lines && (server->url || !url);
}

/* What tells this handle's keys from all others. */
static void ms__pg_client(ms__pg *s)
{
    const ms_entropy *e = &s->desc.entropy;
    if (e->fill) {
        e->fill(e->ctx, s->client, sizeof s->client);
        return;
    }
    uint64_t mixed = (uint64_t)ms__pg_system_time() ^ (uint64_t)s->process << 40;
    for (unsigned i = 0; i < sizeof s->client; i++) {
        mixed = (mixed ^ (uint64_t)(uintptr_t)s) * UINT64_C(0x9E3779B97F4A7C15);
        mixed ^= mixed >> 29 ^ (uint64_t)(uintptr_t)&mixed;
        s->client[i] = (unsigned char)(mixed >> 56);
    }
}

static ms__pg *ms__pg_new(const ms_pg_desc *desc)
{
    ms_arena arena;
    memset(&arena, 0, sizeof arena);
    arena.alloc = desc->alloc;
    ms__pg *s = (ms__pg *)ms_arena_alloc(&arena, sizeof *s);
    if (!s) return NULL;
    memset(s, 0, sizeof *s);
    s->arena = arena;
    s->desc = *desc;
    ms__pg_defaults(&s->desc);
    s->base.backend = &ms__pg_backend;
    s->base.open = MS_STORE_OPEN;
    s->process = ms__pg_process();
    ms__pg_lock_init(&s->lock);
    ms__pg_cond_init(&s->given);
    ms__pg_client(s);
    size_t n = desc->n_urls ? desc->n_urls : 1;
    s->servers = (ms__pg_server *)ms_arena_alloc(&s->arena, n * sizeof *s->servers);
    bool fits = s->servers != NULL;
    if (fits) memset(s->servers, 0, n * sizeof *s->servers);
    for (size_t i = 0; i < n && fits; i++)
        fits = ms__pg_server_init(s, i, desc->n_urls ? desc->urls[i] : desc->url);
    if (fits) s->n_servers = n;
    if (fits) return s;
    ms__pg_close(&s->base);
    return NULL;
}

MS_API ms_result ms_pg_open(ms_store **store, const ms_pg_desc *desc, ms_error *err)
{
    ms_pg_desc none;
    memset(&none, 0, sizeof none);
    if (!desc) desc = &none;
    *store = NULL;
    if (desc->n_urls > MS_PG_BUCKETS || (desc->n_urls && !desc->urls))
        return ms_error_set(err, MS_E_ARGUMENT, "1 to 1024 servers have a url each");
    ms__pg *s = ms__pg_new(desc);
    if (!s) return ms__pg_no_memory(err);
    ms_result code = ms__pg_ready_store(s, err);
    if (code != MS_OK) ms__pg_close(&s->base);
    else *store = &s->base;
    return code;
}

MS_API ms_result ms_pg_stat_of(ms_store *store, ms_pg_stat *out, ms_error *err)
{
    memset(out, 0, sizeof *out);
    if (!ms__pg_is_store(store))
        return ms_error_set(err, MS_E_ARGUMENT, "the store is not on PostgreSQL");
    ms__pg *s = ms__pg_of(store);
    ms__pg_lock_take(&s->lock);
    *out = s->stat;
    ms__pg_lock_give(&s->lock);
    return MS_OK;
}

#ifdef __cplusplus
}
#endif

#endif /* MSGSTORE_POSTGRES_IMPLEMENTED */
#endif /* MSGSTORE_POSTGRES_IMPLEMENTATION */
