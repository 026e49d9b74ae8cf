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
 *     seen before, and below 2^53 until the year 2248. A record takes a tick, so a client
 *     that writes more than 1,000 records a second is ahead of the clock. Others then
 *     append messages with smaller numbers to other locations. A reader of new messages
 *     keeps the last number of each location, not of the store. A union (see [api-union])
 *     takes numbers below 2^40, so it cannot read this store; copy the locations into a
 *     log.
 *   - A cursor over one location shows it as of its opening. A cursor over all locations
 *     may in addition show messages whose commit was under way then, or whose numbers are
 *     smaller than the store's newest. A history opens such a cursor for each of its
 *     parts, when its reading comes to it.
 *   - Any thread may use a store. Each call takes a connection of the pool. A child
 *     process of fork gets MS_E_FORKED.
 *   - Lookup by number (ms_get_by_seq) needs an arena.
 *   - ms_redact overwrites rows. PostgreSQL keeps old versions until VACUUM, and in its
 *     write-ahead log, archives and backups.
 *   - Where row-level security hides rows from the user, totals are of the rows that are
 *     seen, and read all of them. That is found out when the store is opened, and a user
 *     without a policy is refused then (MS_E_READ_ONLY).
 *   - Texts travel as parameters: no location, key or content is ever part of a SQL text.
 *
 * ---- CONTENTS (search for the tag) ---------------------------------------------------
 *
 *   interface         [api-pg]
 *   implementation    [pg-base] [pg-sql] [pg-line] [pg-call] [pg-replica] [pg-row]
 *                     [pg-append] [pg-change] [pg-ship] [pg-cursor] [pg-list]
 *                     [pg-retire] [pg-wait] [pg-open]
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
    bool no_create;           /* the tables must exist, else MS_E_NOT_FOUND; without it
                               * they are created */
    unsigned partitions;      /* of the table of records when it is created; 0: 8;
                                 1: none, for engines that distribute rows themselves */
    unsigned connections;     /* to each server, at most; 0: 8 */
    uint32_t timeout_ms;      /* of a call, with all its attempts; 0: 30,000. Without a
                                 server ms_wait takes this long, too: it goes on when
                                 one is back */
    uint32_t statement_ms;    /* of one statement on the server; 0: timeout_ms */
    bool one_bucket;          /* a statement that writes, or locks, is for one bucket, so
                                 that a distributed engine sends it to one node; set by
                                 itself where the server has the extension citus */
    bool no_notify;           /* appends send no notification, and waiters do not listen:
                                 they ask every 50 to 400 ms, those of other handles down
                                 to once a second */
    bool no_prepare;          /* statements are not prepared: for a pooler that gives a
                                 session to each transaction (PgBouncer's transaction
                                 mode); no_notify, too, since nothing is heard there */
    bool release;             /* a connection is closed at the end of each call, for
                                 stores that are idle beside many others: a pooler then
                                 gives its session to another. A call connects first;
                                 a waiter does so each time that it asks, and listens
                                 as little as with no_notify */
    const char *replica_url;  /* a standby of url's server, which answers readers; of
                                 several hosts the first that is one. NULL: none */
    const char *const *replica_urls; /* with urls: one for each, or NULL */
    uint32_t replica_lag_ms;  /* what others stored longer ago than this is in what is
                                 read; 0: 1,000 */
    uint32_t idle_ms;         /* a connection that was not used for so long is closed by
                                 the next call of the handle; 0: 600,000, UINT32_MAX:
                                 never */
    size_t max_message;       /* bytes of one record; 0: 64 MiB */
    bool keep_unset_times;    /* false: the store sets missing times from clock */
    ms_clock clock;           /* {0}: the system's */
    ms_entropy entropy;       /* for the keys of appends; {0}: a mix of clock, process
                                 and addresses */
    ms_alloc alloc;           /* {0}: malloc */
} ms_pg_desc;

/* Opens a store; ms_close closes it. desc NULL: all defaults. Connects to each server
 * once, and creates the tables if they are missing: in one transaction, under a lock.
 * MS_E_ARGUMENT: the connection string; MS_E_UNREACHABLE: no server in time, or it
 * refuses the user (at once); MS_E_NOT_FOUND: no tables, no such database; MS_E_FOREIGN:
 * tables of another version, or servers that do not belong together; MS_E_READ_ONLY: a
 * privilege is missing. A replica is not connected to before the first reader. */
MS_API ms_result ms_pg_open(ms_store **store, const ms_pg_desc *desc, ms_error *err);

#define MS_PG_BUCKETS 1024

/* Returns the bucket of a location, 0 to 1023. Rows of one bucket are on one server. */
MS_API unsigned ms_pg_bucket(ms_str location);

/* Waits until a location has other records than the caller knows of, messages or changes,
 * for at most timeout_ms. *place: the place of the last one that is known, 0: none; it
 * receives that of the last one now (0: there is none). So no record is missed between
 * two calls. A message that was not copied has its number as its place. Appends to
 * locations of other buckets do not wake the caller. One thread of a handle is woken;
 * others look every 50 to 400 ms. */
MS_API ms_result ms_pg_wait(ms_store *store, ms_str location, uint64_t *place,
                            uint32_t timeout_ms, ms_error *err);

/* ---- Replicas, and connections. With a replica, queries, listings, search, histories,
 * facts and totals read it, and everything else asks the primary: appends, changes,
 * ms_wait, ms_sync, shipping, retention, and messages by number (changes begin with
 * these). What is read has
 *   - all that this handle has written, or read before, in any thread;
 *   - all that others had committed replica_lag_ms before the call.
 * Where the replica may lack some of it, cannot be reached, was promoted, or is no
 * standby of the primary (another timeline, other tables, another user under row-level
 * security), the primary answers. Without the primary nothing is read. */

typedef struct ms_pg_counts {
    uint64_t repeats;         /* attempts after the first one of a call */
    uint64_t resolved;        /* appends found stored after their answer was lost */
    uint64_t replica_reads;   /* statements of readers that a replica answered */
    uint64_t replica_behind;  /* that the primary did: the replica may lack a part, */
    uint64_t replica_away;    /* did not answer, or refused the statement, */
    uint64_t replica_foreign; /* or is no standby of the primary */
    uint64_t idle_closed;     /* connections closed after idle_ms */
    unsigned connections;     /* that are open or in use now, those of waiters too */
} ms_pg_counts;

/* Returns what the handle has counted since it was opened. */
MS_API ms_result ms_pg_count(ms_store *store, ms_pg_counts *out, ms_error *err);
/* What this handle reads from now on has all that is committed now. For readers that know
 * of a message from elsewhere. */
MS_API ms_result ms_pg_newest(ms_store *store, ms_error *err);
/* Closes the connections that were not used for idle_ms (0: all that no call uses), for
 * programs that make no calls for a while: the library has no thread of its own. The next
 * call connects. */
MS_API ms_result ms_pg_close_idle(ms_store *store, uint32_t idle_ms, ms_error *err);

/* ---- Shipping: the records of another store (a log), copied exactly once. A source has
 * a name, such as the lineage of a log. Each record has a key: the name and the number of
 * a message in the source, or of a change also what it changes to. A record that was
 * shipped before is left out, so a shipper that was killed begins again anywhere at or
 * before its last position. What was shipped before is compared: a number of the source
 * is not used again for another message. */

typedef struct ms_pg_position {
    uint64_t message;         /* all messages up to this one */
    uint64_t changes;         /* and that many changes after it */
    uint64_t mark;            /* of the caller, about that message; below 2^63 */
    uint64_t left_out;        /* of the caller: records that the server does not have */
    uint64_t retired;         /* of the caller: records that fall under a rule */
    unsigned char file[16];   /* of the caller: the file that has the position */
} ms_pg_position;

/* Reads the position that was noted last, or zeros. source: 1 to 64 bytes. */
MS_API ms_result ms_pg_ship_begin(ms_store *store, ms_str source,
                                  ms_pg_position *position, ms_error *err);
/* Appends messages as they are, with times, flags and keys. Each has its location, and
 * its number in the source as seq. They are stored in transactions of at most 64 buckets:
 * of a location all are stored, or none. at (NULL: any): the position of the source that
 * the server must have. *retired (not NULL) increases by the messages that were not
 * stored, nor compared, since they fall under a rule of ms_pg_retire; after an error it
 * is as before. MS_E_CONFLICT: the server has another position (it went back, or another
 * shipper was here), or the source has shipped another message with a number (or key) of
 * these. MS_E_KEY_REUSED: a message of another source has the key of one of these. */
MS_API ms_result ms_pg_ship(ms_store *store, ms_str source, const ms_pg_position *at,
                            const ms_envelope *messages, size_t n, uint64_t *retired,
                            ms_error *err);
/* Makes a change of the source: an AMEND, NOTE, PART or LOCATION, or (first: a message
 * that a HIDE hides) a HIDE. message: the one that the change is about, as it was
 * appended, for its number and key; NULL for a LOCATION. at: as of ms_pg_ship. A MESSAGE
 * as the change is the message as it is now: it replaces what is shown. MS_E_CONFLICT,
 * MS_E_HIDDEN: another client has changed the message, or the position is another one.
 * MS_E_KEY_REUSED: the message that has the key is not of this source. MS_E_NOT_FOUND:
 * the message was not shipped. *retired increases by one if it was not, and falls under a
 * rule, or if the facts do and the location is not there: nothing is stored then, and the
 * result is MS_OK. */
MS_API ms_result ms_pg_ship_change(ms_store *store, ms_str source,
                                   const ms_pg_position *at, const ms_msg *change,
                                   const ms_msg *message, uint64_t *retired,
                                   ms_error *err);
/* Looks whether a message of the source is stored as it is. MS_E_NOT_FOUND: no;
 * MS_E_CONFLICT, MS_E_KEY_REUSED as of ms_pg_ship. MS_OK also if it is not stored and
 * falls under a rule of ms_pg_retire. */
MS_API ms_result ms_pg_ship_look(ms_store *store, ms_str source, const ms_msg *message,
                                 ms_error *err);
/* For a message of a compacted log, whose key an earlier message has here that the
 * compaction has forgotten. *earlier 0: sets it to the number of that one in the source;
 * 0 if it is not known, or of another source. Else takes the key from that message, so
 * that ms_pg_ship stores this one. */
MS_API ms_result ms_pg_ship_free(ms_store *store, ms_str source, const ms_msg *message,
                                 uint64_t *earlier, ms_error *err);
/* Reads what the source has set at a location, in the order in which it was stored: a
 * text of facts for each record. (*texts)[*n] is in the arena. Damaged records are left
 * out. */
MS_API ms_result ms_pg_ship_facts(ms_store *store, ms_str source, ms_str location,
                                  ms_arena *arena, ms_str **texts, size_t *n,
                                  ms_error *err);
/* Notes a position, if the one that is noted has the numbers of `from`. MS_E_CONFLICT: it
 * has others. Another shipper was here, or the server went back to an earlier state:
 * ms_pg_ship_begin again. MS_E_READ_ONLY: the position is another role's, which this one
 * does not see. */
MS_API ms_result ms_pg_ship_end(ms_store *store, ms_str source,
                                const ms_pg_position *from, const ms_pg_position *to,
                                ms_error *err);

/* ---- Retention: messages older than a time are deleted, with all that was changed of
 * them. */

typedef struct ms_pg_retire_desc {
    ms_str prefix;            /* of locations; empty: all */
    int64_t before_ns;        /* messages with an earlier time; at most now */
    size_t portion;           /* messages that a transaction deletes, at most; 0: 1,000 */
    uint64_t limit;           /* messages that the call deletes, about; 0: no limit */
    bool dry_run;             /* only counts; no rule is kept */
} ms_pg_retire_desc;

typedef struct ms_pg_retire_report {
    uint64_t messages;        /* deleted, hidden ones too */
    uint64_t changes;         /* amendments, notes, parts, hides, facts deleted */
    uint64_t bytes;           /* of the messages, encoded as appended */
    uint64_t locations;       /* that are gone: they had no message left */
    uint64_t untimed;         /* messages without a time, which stay */
    bool more;                /* the limit was reached: call again */
} ms_pg_retire_report;

/* Keeps a rule, prefix and time, then deletes the messages that fall under it, in
 * transactions of one location each, under the lock of its bucket. A rule is of all
 * servers of the store; ms_pg_ship does not store what falls under one. Of a prefix the
 * latest time counts; rows of msgstore_retired are the rules, and deleting one there ends
 * it. The facts of a location stay as long as it has a message. Counts, listings and
 * totals fit what is left in each snapshot. Numbers are not given again; keys are, so an
 * append that is repeated after its message was deleted is stored again. Killed or failed
 * amid it, the rule is kept, and *report (zeroed first; may be NULL) has what was
 * deleted: call again. MS_E_ARGUMENT: a time that is to come, a prefix that is no UTF-8.
 * MS_E_READ_ONLY: the user may not delete. */
MS_API ms_result ms_pg_retire(ms_store *store, const ms_pg_retire_desc *desc,
                              ms_pg_retire_report *report, ms_error *err);

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

/* Returns milliseconds of a clock that is never set. */
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

/* Sets the message "what: detail", without the line break at the end of libpq's texts. */
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

/* Hashes with FNV-1a, then mixes, since the low bits alone are weak. */
static uint64_t ms__pg_hash(ms_str s)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < s.len; i++)
        h = (h ^ (unsigned char)s.ptr[i]) * UINT64_C(0x100000001b3);
    h ^= h >> 32;
    h *= UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 29;
}

/* Orders by bytes, a prefix first. */
static int ms__pg_str_order(ms_str a, ms_str b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = n ? memcmp(a.ptr, b.ptr, n) : 0;
    return order ? order : a.len < b.len ? -1 : a.len > b.len;
}

MS_API unsigned ms_pg_bucket(ms_str location)
{
    return (unsigned)(ms__pg_hash(location) % MS_PG_BUCKETS);
}

/* ==== [pg-sql] tables and statements =================================================
 * The tables are found through the search_path of the connection.
 *
 * msgstore_record has a row for each record: a message, or a change. `seq` is the number
 * of the message that the record is (MESSAGE, AMEND) or is about; `place` is the number
 * of the record itself, in the order of appending. Of a message the two are equal, except
 * in a copy, which keeps its seq. Rows of kind 1 and 3 are versions of a message: a
 * version is valid from its `place` to `until`, the place of the AMEND or HIDE that ended
 * it. A view as of place p has the versions with place < p and (until is null or
 * until >= p). So a cursor reads the store as of its opening in any number of statements,
 * over any number of connections. `body` is the record as ms_encode writes it; the
 * other columns repeat what queries need. `key` begins with a letter for what follows:
 *      k  the caller's idempotency key
 *      t  a key made for the append (ms__pg_tickets)
 *      s  the source of a shipped record, and its number there (ms__pg_ship_keys)
 *      x  the same, of a message whose own key a later one has taken (ms_pg_ship_free)
 * `upto` is the last number that a HIDE hides; of a shipped message with a 'k' or an
 * 'x', its number in the source. `source` is the source of a shipped record, also of one
 * that has a key of its own: changes of the source reach no other rows. msgstore_source
 * has the position of each source.
 *
 * msgstore_bucket has a row for each of 1,024 buckets, the counter. An append updates it,
 * which orders the appends of a bucket in the order of their commits. A tick is
 *      greatest(last + 1, the largest that this client has seen + 1, the server's clock
 *               as the client has read it when it connected, and counted on)
 * so numbers of a bucket increase, and a client's numbers increase over all buckets and
 * servers. Numbers of different clients are in order of time to a few milliseconds while
 * each writes less than a record a millisecond. A client that writes more is ahead of the
 * clock, and numbers that others assign later in other buckets are smaller than its own.
 * The number is tick * 1024 + bucket: unique in the store, and it names the server.
 *
 * Counters are of buckets, not of locations: they exist from the start, one update gives
 * number and totals, and the number leads to the row. Two locations of one bucket wait
 * for each other's commits; with n clients that is one append in 1024 / n. max(seq) + 1,
 * an upsert and advisory locks were tried for the number: they retry or wait more.
 *
 * msgstore_location has a row for each location that has a record: `n` messages that a
 * view shows, number and time of the first and the newest of them; `least` and `most`,
 * those of all that it has ever had; `place` of its last record. Listings, expected
 * numbers and waiters read it instead of messages. `era` is newest / 2^26, about a minute
 * of ticks: an index of it orders listings, and most appends do not change it, so they
 * change no index. An append enters its row after that of the counter, whose lock has
 * the location in it: no two clients change the row at once.
 *
 * `facts` of a row of facts is NULL, or a record with all facts of the location after
 * that row. A reader of facts begins with the newest one: it reads that, and the rows
 * after it. A client that has set facts, where many rows or bytes follow the newest one,
 * reads the facts and enters them at the last row that it read. That needs no lock: what
 * the rows up to one amount to does not change. Nothing depends on it but the time of
 * reading, so rows of clients that do not enter facts are read as all others.
 *
 * msgstore_retired has a row for each rule of ms_pg_retire: messages of locations with
 * the prefix, and with a time earlier than `before`, are not shipped. Each server has
 * all rules.
 *
 * Each statement for a location names its bucket, the column by which a distributed
 * engine spreads the rows: unique keys contain it, counter, location and records of a
 * bucket are on one shard, there are no triggers and no sequences. With desc.one_bucket a
 * statement that writes or locks is for one bucket; else those of a batch are together.
 *
 * (PG1) Rows of a bucket are inserted and changed only under the lock of its counter row,
 *       but for `facts`, and bodies that are erased.
 * (PG2) A made key is written with the append and never used again.
 * (PG3) The row of a location is what its records amount to, in each snapshot.
 * (PG4) `facts` of a row are what the rows of facts of its location up to it amount to.
 * ================================================================================== */

#define MS__PG_VERSION   4
#define MS__PG_KEPT_MOST ((uint64_t)1 << 52)

#define MS__PG_SHOWN "kind in (1, 3) and until is null"

static const char *const ms__pg_create[] = {
    "create table if not exists msgstore_schema (version int primary key)",
    "create table if not exists msgstore_bucket (last bigint not null,"
    " messages bigint not null default 0, hidden bigint not null default 0,"
    " changes bigint not null default 0, bytes bigint not null default 0,"
    " bucket int primary key) with (fillfactor = 10)", /* updates stay in their page */
    NULL, /* the table of records */
    "create table if not exists msgstore_source (source bytea, bucket int,"
    " message bigint not null, changes bigint not null, primary key (source, bucket))",
    "create index if not exists msgstore_timeline on msgstore_record (location, seq)"
    " where kind in (1, 3)",
    "create index if not exists msgstore_talk on msgstore_record (location, seq)"
    " where kind in (1, 3) and type in (1, 2, 25)",
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

/* What leads from one version of the tables to the next. New tables are made as those of
 * version 1, and go the same way: those that msgstore 0.2.0 filled have records that
 * cannot be read, so they are refused. A statement must stand on its own for what a
 * version before it may have left. */
typedef struct ms__pg_migration {
    int64_t version;          /* afterwards, if it is the last one of that version */
    const char *sql;
} ms__pg_migration;

static const ms__pg_migration ms__pg_migrations[] = {
    {2, "alter table msgstore_record add column source bytea"},
    {2, "alter table msgstore_source add column mark bigint, add column file bytea,"
        " add column left_out bigint"},
    {2, "insert into msgstore_schema values (2)"},
    {3, "set local statement_timeout = 0; set local lock_timeout = 0"},
    /* Clients of the version before may be connected. The name that their appends use is
     * gone, so they get MS_E_FOREIGN, and none writes past the table of locations. */
    {3, "alter table msgstore_bucket rename column messages to stored"},
    {3, "alter table msgstore_bucket add column newest bigint not null default 0"},
    {3, "create table msgstore_location (n bigint not null, first bigint not null,"
        " newest bigint not null, first_time bigint, last_time bigint,"
        " least bigint not null, most bigint not null, place bigint not null,"
        " era bigint not null, bucket int not null, location text collate \"C\" not null,"
        " primary key (bucket, location)) with (fillfactor = 50)"},
    {3, "create index msgstore_recent on msgstore_location (era)"},
    {3, "create index msgstore_name on msgstore_location (location)"},
    {3, "insert into msgstore_location select g.n, coalesce(g.first, 0),"
        " coalesce(g.newest, 0), a.time, z.time, coalesce(g.least, 0),"
        " coalesce(g.most, 0), g.place, coalesce(g.newest, 0) >> 26, g.bucket, g.location"
        " from (select bucket, location, count(*) filter (where " MS__PG_SHOWN ") as n,"
        " min(seq) filter (where " MS__PG_SHOWN ") as first,"
        " max(seq) filter (where " MS__PG_SHOWN ") as newest,"
        " min(seq) filter (where kind = 1) as least,"
        " max(seq) filter (where kind = 1) as most,"
        " max(place) as place from msgstore_record group by bucket, location) as g"
        " left join msgstore_record a on a.bucket = g.bucket and a.seq = g.first"
        " and a.kind in (1, 3) and a.until is null"
        " left join msgstore_record z on z.bucket = g.bucket and z.seq = g.newest"
        " and z.kind in (1, 3) and z.until is null"},
    {3, "update msgstore_bucket b set newest = g.newest from (select bucket, max(most)"
        " as newest from msgstore_location group by bucket) as g"
        " where b.bucket = g.bucket"},
    {3, "create table if not exists msgstore_retired (before bigint not null,"
        " prefix text collate \"C\" primary key)"},
    {3, "alter table msgstore_source add column if not exists retired bigint"},
    {3, "insert into msgstore_schema values (3)"},
    {4, "set local statement_timeout = 0; set local lock_timeout = 0"},
    /* Clients of version 3 that are connected go on: they enter no facts. */
    {4, "alter table msgstore_record add column facts bytea"},
    {4, "create index msgstore_facts on msgstore_record (location, place)"
        " where kind = 6"},
    {4, "insert into msgstore_schema values (4)"},
};

static const char ms__pg_create_record[] =
    "create table if not exists msgstore_record (seq bigint not null,"
    " place bigint not null, time bigint, until bigint, upto bigint,"
    " bucket int not null, kind smallint not null, type smallint not null,"
    " location text not null, agent text, turn text, key bytea, body bytea not null,"
    " primary key (seq, kind, place, bucket))";

/* Enters in the table of locations: n new messages, the number and time of the first and
 * of the last of them. Numbers of a location rise, so the last one is the newest. */
#define MS__PG_ENTER                                                                  \
    "insert into msgstore_location as l (n, first, newest, first_time, last_time,"    \
    " least, most, place, era, bucket, location) "
#define MS__PG_MERGE                                                                  \
    " on conflict (bucket, location) do update set n = l.n + excluded.n,"             \
    " newest = greatest(l.newest, excluded.newest),"                                  \
    " most = greatest(l.most, excluded.most), place = excluded.place,"                \
    " era = greatest(l.era, excluded.era), last_time = case when excluded.n > 0 then" \
    " excluded.last_time else l.last_time end,"                                       \
    " first = case when l.n = 0 then excluded.first else l.first end,"                \
    " first_time = case when l.n = 0 then excluded.first_time else l.first_time end," \
    " least = case when l.least = 0 then excluded.least else l.least end"

/* Appends one message. Where `where` does not hold, no row comes back. */
#define MS__PG_APPEND(where)                                                          \
    "with c as (update msgstore_bucket b set last = greatest(b.last + 1, $2::bigint),"\
    " newest = greatest(b.last + 1, $2::bigint) * 1024 + $1::int,"                    \
    " stored = stored + 1, bytes = bytes + $3::bigint where bucket = $1::int"         \
    where " returning b.last * 1024 + $1::int as seq), e as (" MS__PG_ENTER           \
    "select 1, seq, seq, $4::bigint, $4::bigint, seq, seq, seq, seq >> 26, $1::int,"  \
    " $6::text from c" MS__PG_MERGE ")"                                               \
    " insert into msgstore_record (seq, place, time, bucket, kind, type, location,"   \
    " agent, turn, key, body) select seq, seq, $4::bigint, $1::int, 1, $5::smallint," \
    " $6::text, $7::text, $8::text, $9::bytea, $10::bytea from c returning seq"

static const char ms__pg_append_one[] = MS__PG_APPEND("");
static const char ms__pg_append_keyed[] =
    MS__PG_APPEND(" and not exists (select 1 from msgstore_record where"
                  " bucket = $1::int and location = $6::text and key = $9::bytea)");

/* The snapshot has all of the bucket if `last` is the same in the snapshot and under
 * the lock. */
static const char ms__pg_append_expected[] =
    MS__PG_APPEND(" and last = (select last from msgstore_bucket where bucket = $1::int)"
                  " and $11::bigint = coalesce((select newest from msgstore_location"
                  " where bucket = $1::int and location = $6::text), 0)");

/* 1 if all facts of a location are to be entered: the rows after the newest one that has
 * them, with one that is being set and that one, fill a page (MS__PG_PAGE_FIRST), or they
 * have more bytes than it has, and than 4,096. */
#define MS__PG_FACTS_DUE(location)                                                    \
    "(select (count(*) > 61 or coalesce(sum(size), 0) > greatest(4096, max(most)))::int"\
    " as due from (select size, whole, max(whole) over () as most, place, max(place)" \
    " filter (where whole is not null) over () as newest from (select place,"         \
    " length(body) as size, length(facts) as whole from msgstore_record where"        \
    " bucket = $1::int and location = " location " and kind = 6 order by place desc" \
    " limit 64) as t) as f where place > coalesce(newest, 0))"

/* Sets facts. */
static const char ms__pg_set_facts[] =
    "with c as (update msgstore_bucket b set last = greatest(b.last + 1, $2::bigint),"
    " changes = changes + 1 where bucket = $1::int returning b.last * 1024 + $1::int as"
    " place), e as (" MS__PG_ENTER "select 0, 0, 0, null::bigint, null::bigint, 0, 0,"
    " place, 0, $1::int, $4::text from c" MS__PG_MERGE "), r as (insert into"
    " msgstore_record (seq, place, time, bucket, kind, type, location, key, body)"
    " select 0, place, $3::bigint, $1::int, 6, 0, $4::text, $5::bytea, $6::bytea from c"
    " returning place) select r.place, d.due from r, " MS__PG_FACTS_DUE("$4::text")
    " as d";

/* The lock of a transaction that sets facts, in one of 16 of them: the question takes a
 * tenth of its time. */
static const char ms__pg_lock_facts[] =
    "select last, " MS__PG_FACTS_DUE("$2::text") " from msgstore_bucket where bucket ="
    " $1::int for update";

/* Stores $2 records and updates the counters of their buckets. Records without a place
 * get the ticks of the counter (those of one bucket only). The last tick comes back.
 * route, bucket: of one bucket the condition that names it, and its number. */
#define MS__PG_MANY(route, bucket)                                                      \
    "with c as (update msgstore_bucket b set last = greatest(b.last + $2::bigint,"      \
    " $1::bigint + $2::bigint - 1, $3::bigint), stored = b.stored + u.stored,"          \
    " newest = greatest(b.newest, coalesce(u.newest, greatest(b.last + $2::bigint,"     \
    " $1::bigint + $2::bigint - 1) * 1024 + u.bucket)),"                                \
    " bytes = b.bytes + u.bytes, changes = b.changes + $4::bigint,"                     \
    " hidden = b.hidden + $5::bigint from unnest($6::int[], $7::bigint[], $8::bigint[],"\
    " $23::bigint[]) as u (bucket, stored, bytes, newest) where b.bucket = u.bucket"    \
    route " returning b.last),"                                                         \
    " r as (insert into msgstore_record (bucket, seq, place, time, upto, kind, type,"   \
    " location, agent, turn, key, body, source) select " bucket ","                     \
    " coalesce(u.seq, u.place, (m.last - $2::bigint + u.i) * 1024 + u.bucket),"         \
    " coalesce(u.place, (m.last - $2::bigint + u.i) * 1024 + u.bucket), u.time, u.upto,"\
    " u.kind, u.type, u.location, u.agent, u.turn, u.key, u.body, $22::bytea"           \
    " from (select max(last) as last from c)"                                           \
    " as m, unnest($9::bigint[], $10::int[], $11::bigint[], $12::bigint[],"             \
    " $13::bigint[], $14::bigint[], $15::smallint[], $16::smallint[], $17::text[],"     \
    " $18::text[], $19::text[], $20::bytea[], $21::bytea[]) as u (i, bucket, seq,"      \
    " place, time, upto, kind, type, location, agent, turn, key, body)"                 \
    " where m.last is not null), e as (" MS__PG_ENTER                                   \
    "select u.n, u.first, u.newest, u.first_time, u.last_time, u.first, u.newest,"      \
    " u.place, u.newest >> 26, " bucket ", u.location from (select v.n, v.first_time,"  \
    " coalesce(v.first, (m.last - $2::bigint + 1) * 1024 + v.bucket) as first,"         \
    " coalesce(v.newest, m.last * 1024 + v.bucket) as newest,"                          \
    " coalesce(v.place, m.last * 1024 + v.bucket) as place, v.last_time, v.bucket,"     \
    " v.location from (select max(last) as last from c) as m, unnest($24::int[],"       \
    " $25::text[], $26::bigint[], $27::bigint[], $28::bigint[], $29::bigint[],"         \
    " $30::bigint[], $31::bigint[]) as v (bucket, location, n, first, newest, place,"   \
    " first_time, last_time) where m.last is not null) as u" MS__PG_MERGE               \
    ") select max(last) from c"

static const char ms__pg_append_many[] =
    MS__PG_MANY(" and b.bucket = $32::int", "$32::int");
static const char ms__pg_append_spread[] = MS__PG_MANY("", "u.bucket");

/* Selects the rows that have the keys. */
#define MS__PG_OF_KEYS(r_bucket, a_bucket)                                              \
    "select k.i, r.seq, r.place, r.kind, r.body, r.source, (select a.body from"         \
    " msgstore_record a where a.bucket = " a_bucket " and a.seq = r.seq and a.kind = 3" \
    " order by a.place desc limit 1) from unnest($1::int[], $2::bigint[],"              \
    " $3::text[], $4::bytea[]) as k (bucket, i, location, key) join msgstore_record r"  \
    " on r.bucket = " r_bucket " and r.location = k.location and r.key = k.key"

static const char ms__pg_rows_of_keys[] = MS__PG_OF_KEYS("$5::int", "$5::int");
static const char ms__pg_rows_of_keys_spread[] = MS__PG_OF_KEYS("k.bucket", "r.bucket");

/* Selects the first version of a message, and the last AMEND. The later one is shown,
 * if it has not ended. */
#define MS__PG_VERSIONS(where)                                                          \
    "(select kind, type, location, until, body, place from msgstore_record where seq"   \
    " = $1::bigint and kind = 1" where " order by place limit 1) union all"             \
    " (select kind, type, location, until, body, place from msgstore_record where seq"  \
    " = $1::bigint and kind = 3" where " order by place desc limit 1) order by kind"

static const char ms__pg_versions[] = MS__PG_VERSIONS("");
static const char ms__pg_versions_routed[] = MS__PG_VERSIONS(" and bucket = $2::int");

static const char ms__pg_newest[] = "select max(newest) from msgstore_bucket";

static const char ms__pg_totals[] =
    "select coalesce(sum(stored), 0)::bigint, coalesce(sum(hidden), 0)::bigint,"
    " coalesce(sum(changes), 0)::bigint, coalesce(sum(bytes), 0)::bigint,"
    " coalesce(max(newest), 0), coalesce(max(last), 0) from msgstore_bucket";

/* The same of the rows that a user sees who is subject to row-level security. */
static const char ms__pg_totals_seen[] =
    "select r.n, r.n - coalesce(l.n, 0)::bigint, r.changes, r.bytes, coalesce(l.newest,"
    " 0), (select coalesce(max(last), 0) from msgstore_bucket) from (select count(*)"
    " filter (where kind = 1) as n, count(*) filter (where kind > 1) as changes,"
    " coalesce(sum(length(body)) filter (where kind = 1), 0)::bigint as bytes from"
    " msgstore_record) as r, (select sum(n) as n, max(most) as newest from"
    " msgstore_location) as l";

/* ---- A statement: its text, and its parameters in binary. */

enum {
    MS__PG_INT2 = 21, MS__PG_INT4 = 23, MS__PG_INT8 = 20, MS__PG_TEXT = 25,
    MS__PG_BYTEA = 17, MS__PG_INT2S = 1005, MS__PG_INT4S = 1007, MS__PG_INT8S = 1016,
    MS__PG_TEXTS = 1009, MS__PG_BYTEAS = 1001
};

#define MS__PG_PARAMS 40
#define MS__PG_SQL 2600

typedef struct ms__pg_stmt {
    const char *sql;          /* a constant, or `text` */
    size_t len;               /* of text */
    ms_result bad;            /* a parameter that cannot be sent */
    int n;
    Oid types[MS__PG_PARAMS];
    const char *values[MS__PG_PARAMS];
    int lengths[MS__PG_PARAMS];
    int formats[MS__PG_PARAMS]; /* 1: binary */
    unsigned char room[MS__PG_PARAMS][8];
    char text[MS__PG_SQL];    /* made of constants of this file */
} ms__pg_stmt;

/* Begins a statement. sql NULL: its text is made by ms__pg_say. */
static void ms__pg_start(ms__pg_stmt *q, const char *sql)
{
    q->sql = sql ? sql : q->text;
    q->text[0] = '\0';
    q->len = 0;
    q->bad = MS_OK;
    q->n = 0;
}

/* Adds a parameter. Like values of PostgreSQL, it has less than a gigabyte. */
static void ms__pg_param(ms__pg_stmt *q, Oid type, const void *value, size_t len)
{
    if (len >= (size_t)1 << 30) q->bad = MS_E_TOO_LARGE;
    q->types[q->n] = type;
    q->values[q->n] = (const char *)value;
    q->lengths[q->n] = (int)len;
    q->formats[q->n] = 1;
    q->n++;
}

static unsigned ms__pg_width(Oid type)
{
    return type == MS__PG_INT8 ? 8 : type == MS__PG_INT4 ? 4 : 2;
}

static void ms__pg_number(ms__pg_stmt *q, Oid type, int64_t value)
{
    unsigned bytes = ms__pg_width(type);
    ms__pg_put(q->room[q->n], (uint64_t)value, bytes);
    ms__pg_param(q, type, q->room[q->n], bytes);
}

/* Adds a text; an absent one as NULL. */
static void ms__pg_text(ms__pg_stmt *q, ms_str s)
{
    ms__pg_param(q, MS__PG_TEXT, s.ptr, s.len);
}

static void ms__pg_bytea(ms__pg_stmt *q, ms_str s)
{
    ms__pg_param(q, MS__PG_BYTEA, s.ptr, s.len);
}

static ms_str ms__pg_bytes(const ms_msg *msg)
{
    return ms_str_n((const char *)(const void *)msg, ms_size(msg));
}

/* Returns a message number as a signed column value. A larger number becomes the
 * largest. */
static int64_t ms__pg_signed(uint64_t seq)
{
    return seq > (uint64_t)INT64_MAX ? INT64_MAX : (int64_t)seq;
}

/* Adds to the text. */
static void ms__pg_say(ms__pg_stmt *q, const char *text)
{
    size_t n = strlen(text);
    if (q->len + n >= MS__PG_SQL) return; /* no query is that long */
    memcpy(q->text + q->len, text, n + 1);
    q->len += n;
}

/* Adds "before$n::type" for the next parameter. */
static void ms__pg_say_param(ms__pg_stmt *q, const char *before, const char *type)
{
    char text[24];
    snprintf(text, sizeof text, "$%d::%s", q->n + 1, type);
    ms__pg_say(q, before);
    ms__pg_say(q, text);
}

static void ms__pg_say_number(ms__pg_stmt *q, const char *before, int64_t value)
{
    ms__pg_say_param(q, before, "bigint");
    ms__pg_number(q, MS__PG_INT8, value);
}

static void ms__pg_say_text(ms__pg_stmt *q, const char *before, ms_str value)
{
    ms__pg_say_param(q, before, "text");
    ms__pg_text(q, value);
}

static void ms__pg_say_bucket(ms__pg_stmt *q, ms_str location)
{
    ms__pg_say_param(q, " and bucket = ", "int");
    ms__pg_number(q, MS__PG_INT4, ms_pg_bucket(location));
    ms__pg_say_text(q, " and location = ", location);
}

/* Returns whether a column can hold this name. If not, no row has it. */
static bool ms__pg_is_name(ms_str s)
{
    return ms_utf8_check(s, NULL) && (s.len == 0 || !memchr(s.ptr, 0, s.len));
}

/* An array as a parameter: the header (dimensions, NULLs, type, count, lower bound),
 * then for each element its size, -1 for NULL, and its bytes. */
typedef struct ms__pg_array {
    ms_arena *arena;
    unsigned char *bytes;     /* NULL with cap > 0: memory ran out */
    size_t len, cap;
    uint32_t n;
    Oid type;                 /* of an element */
} ms__pg_array;

#define MS__PG_ARRAY_HEAD 20

static ms__pg_array ms__pg_array_of(ms_arena *arena, Oid type)
{
    ms__pg_array a;
    memset(&a, 0, sizeof a);
    a.arena = arena;
    a.type = type;
    a.len = MS__PG_ARRAY_HEAD;
    return a;
}

static unsigned char *ms__pg_array_room(ms__pg_array *a, size_t n)
{
    size_t need = a->len + n;
    if (need > a->cap && (a->bytes || a->cap == 0)) {
        unsigned char *old = a->bytes;
        a->cap = 2 * need + 256;
        a->bytes = (unsigned char *)ms_arena_alloc(a->arena, a->cap);
        if (a->bytes && old) memcpy(a->bytes, old, a->len);
    }
    if (!a->bytes) return NULL;
    a->len = need;
    return a->bytes + need - n;
}

/* Adds a text; an absent one as NULL. */
static void ms__pg_push(ms__pg_array *a, ms_str s)
{
    size_t len = s.ptr ? s.len : 0;
    unsigned char *p = ms__pg_array_room(a, 4 + len);
    a->n++;
    if (!p) return;
    ms__pg_put(p, s.ptr ? (uint64_t)len : UINT64_MAX, 4);
    if (len) memcpy(p + 4, s.ptr, len);
}

static void ms__pg_push_number(ms__pg_array *a, int64_t value)
{
    unsigned char bytes[8];
    ms__pg_put(bytes, (uint64_t)value, ms__pg_width(a->type));
    ms__pg_push(a, ms_str_n((const char *)bytes, ms__pg_width(a->type)));
}

/* Adds an array to the parameters. */
static void ms__pg_array_param(ms__pg_stmt *q, ms__pg_array *a)
{
    Oid type = a->type == MS__PG_INT8   ? MS__PG_INT8S
               : a->type == MS__PG_INT4 ? MS__PG_INT4S
               : a->type == MS__PG_INT2 ? MS__PG_INT2S
               : a->type == MS__PG_TEXT ? MS__PG_TEXTS
                                        : MS__PG_BYTEAS;
    (void)ms__pg_array_room(a, 0);
    if (!a->bytes) q->bad = MS_E_NO_MEMORY;
    if (!a->bytes) return;
    ms__pg_put(a->bytes, a->n ? 1 : 0, 4);
    ms__pg_put(a->bytes + 4, 1, 4);
    ms__pg_put(a->bytes + 8, a->type, 4);
    ms__pg_put(a->bytes + 12, a->n, 4);
    ms__pg_put(a->bytes + 16, 1, 4);
    ms__pg_param(q, type, a->bytes, a->n ? a->len : 12);
}

/* ---- Columns of a result. NULL becomes 0, or absent. */

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
 * and connecting have the deadline of the call. After a failure two members of the line
 * steer the caller:
 *
 *      lost    the connection is gone or in an unknown state; it is closed later
 *      again   another attempt may succeed: the connection was lost, the transaction was
 *              aborted in favour of another one, the server is starting or read-only
 * ================================================================================== */

#define MS__PG_PREPARED 256
#define MS__PG_IDLE_MS  5000 /* amid a transaction, until the server ends it */
#define MS__PG_LOCK_MS  8000 /* for a lock, at most; a frozen client keeps it for less */

typedef struct ms__pg_line {
    PGconn *conn;             /* NULL: not connected */
    bool busy;                /* a call uses it */
    int64_t deadline;         /* of that call */
    bool lost, again;
    bool locked;              /* another client has kept a lock for too long */
    bool stale;               /* another connection of its age is dead */
    bool used;                /* it was connected before this call */
    bool sent;                /* the call has sent a statement */
    bool noisy;               /* results that no call waits for are to come */
    bool routed;              /* as of the store: the server has nodes of its own, */
    bool no_prepare;          /* statements are not prepared */
    bool standby;             /* it is to a replica */
    int64_t instance;         /* of a replica: number of its server's run */
    bool promoted;            /* of a replica: it was none when it was connected to */
    int64_t at;               /* when it was used last */
    unsigned n_prepared;
    uint64_t prepared[MS__PG_PREPARED]; /* hashes of statements */
} ms__pg_line;

static void ms__pg_line_drop(ms__pg_line *line)
{
    if (line->conn) PQfinish(line->conn);
    line->conn = NULL;
    line->stale = false;
    line->n_prepared = 0;
    line->noisy = false;
}

static const char ms__pg_was_lost[] = "the connection was lost";

/* Marks the connection as unusable. */
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
            return ms__pg_lost(line, ms__pg_was_lost, err);
        if (left == 1) left = PQflush(line->conn);
    }
    if (left < 0) return ms__pg_lost(line, ms__pg_was_lost, err);
    *out = PQgetResult(line->conn);
    return MS_OK;
}

typedef struct ms__pg_sqlstate {
    const char *state;        /* SQLSTATE, or the beginning of it */
    ms_result code;
    bool again;
    const char *what;         /* NULL: "the server refused" */
} ms__pg_sqlstate;

/* The result for an error of the server; the first row that fits. */
static const ms__pg_sqlstate ms__pg_sqlstates[] = {
    {"08P01", MS_E_IO, false, NULL}, /* the two sides do not understand each other */
    {"08", MS_E_UNREACHABLE, true, NULL},    /* connection trouble */
    {"25006", MS_E_UNREACHABLE, true, NULL}, /* a standby, that may be promoted */
    {"25001", MS_E_UNREACHABLE, true, NULL}, {"25P01", MS_E_UNREACHABLE, true, NULL},
    {"25P02", MS_E_UNREACHABLE, true, NULL},
    {"25P03", MS_E_UNREACHABLE, true, NULL}, /* idle amid a transaction for too long */
    {"26", MS_E_UNREACHABLE, true, NULL}, /* the prepared statement is gone: a pooler */
    {"0A000", MS_E_UNSUPPORTED, false, NULL},
    {"40", MS_E_BUSY, true, NULL},           /* serialization failure, deadlock */
    {"55P03", MS_E_BUSY, true,
     "another client has held the lock of the location's bucket for too long"},
    {"57014", MS_E_BUSY, false, NULL},       /* statement timeout */
    {"57", MS_E_UNREACHABLE, true, NULL},    /* shutting down, starting */
    {"53100", MS_E_FULL, false, NULL},       /* disk full */
    {"53200", MS_E_NO_MEMORY, false, NULL},
    {"53", MS_E_UNREACHABLE, true, NULL},    /* too many connections */
    {"42501", MS_E_READ_ONLY, false, NULL},  /* no privilege */
    {"42P05", MS_E_UNSUPPORTED, false,
     "the statement was prepared by another client: a pooler without desc.no_prepare"},
    {"42P01", MS_E_NOT_FOUND, false, NULL},  /* no table */
    {"3F", MS_E_NOT_FOUND, false, NULL},     /* no schema */
    {"3D", MS_E_NOT_FOUND, false, NULL},     /* no database */
    {"42", MS_E_FOREIGN, false, NULL},       /* other columns */
    {"23505", MS_E_CONFLICT, true, NULL},    /* a key, or a number: see [pg-append] */
    {"22", MS_E_ARGUMENT, false, NULL},      /* a value that the server refuses */
    {"28", MS_E_UNREACHABLE, false, NULL},   /* password */
    {"XX001", MS_E_DAMAGED, false, NULL}, {"XX002", MS_E_DAMAGED, false, NULL},
};

/* Fills err from a failed result. */
static ms_result ms__pg_refused(ms__pg_line *line, const PGresult *r, ms_error *err)
{
    const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
    if (!state || PQstatus(line->conn) == CONNECTION_BAD)
        return ms__pg_lost(line, ms__pg_was_lost, err);
    for (size_t i = 0; i < sizeof ms__pg_sqlstates / sizeof ms__pg_sqlstates[0]; i++) {
        const ms__pg_sqlstate *s = &ms__pg_sqlstates[i];
        if (strncmp(state, s->state, strlen(s->state)) != 0) continue;
        line->again = s->again;
        line->locked = s->what != NULL && s->code == MS_E_BUSY;
        line->lost = s->again && s->code == MS_E_UNREACHABLE;
        return ms__pg_fail(err, s->code, s->what ? s->what : "the server refused", text);
    }
    /* Citus passes an error of a node on without its state (XX000), also when the node is
     * gone or has the key; a broken COPY to it is 58030. What was sent may be stored. */
    if (line->routed && (strcmp(state, "XX000") == 0 || strcmp(state, "58030") == 0)) {
        line->again = line->lost = true;
        return ms__pg_fail(err, MS_E_UNREACHABLE, "a node failed", text);
    }
    return ms__pg_fail(err, MS_E_IO, "the server failed", text);
}

/* Reads the answer to a statement: its first result to *out (which may be NULL). */
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
/* Reads results that no call waited for (a notification's). */
static ms_result ms__pg_quiet(ms__pg_line *line, ms_error *err)
{
    PGresult *r = NULL;
    while (line->noisy) {
        MS__PG_TRY(ms__pg_result(line, &r, err));
        line->noisy = r != NULL;
        PQclear(r);
    }
    return MS_OK;
}

static ms_result ms__pg_simple(ms__pg_line *line, const char *sql, ms_error *err)
{
    MS__PG_TRY(ms__pg_quiet(line, err));
    if (!PQsendQuery(line->conn, sql)) return ms__pg_lost(line, ms__pg_was_lost, err);
    return ms__pg_answer(line, NULL, err);
}

/* Prepares a statement once on each connection, under a name made of its text. */
static ms_result ms__pg_prepare(ms__pg_line *line, const ms__pg_stmt *q, char name[24],
                                ms_error *err)
{
    uint64_t id = ms__pg_hash(ms_str_of(q->sql));
    snprintf(name, 24, "ms%08lx%08lx", (unsigned long)(id >> 32),
             (unsigned long)(id & 0xFFFFFFFF));
    for (unsigned i = 0; i < line->n_prepared; i++)
        if (line->prepared[i] == id) return MS_OK;
    if (line->n_prepared == MS__PG_PREPARED) {
        MS__PG_TRY(ms__pg_simple(line, "deallocate all", err));
        line->n_prepared = 0;
    }
    if (!PQsendPrepare(line->conn, name, q->sql, q->n, q->types))
        return ms__pg_lost(line, ms__pg_was_lost, err);
    MS__PG_TRY(ms__pg_answer(line, NULL, err));
    line->prepared[line->n_prepared++] = id;
    return MS_OK;
}

/* Runs a statement. *out (may be NULL) receives the rows, to be cleared. All statements
 * are prepared, and planned once where the server can. */
static ms_result ms__pg_exec(ms__pg_line *line, const ms__pg_stmt *q, PGresult **out,
                             ms_error *err)
{
    char name[24];
    if (out) *out = NULL;
    if (q->bad == MS_E_TOO_LARGE)
        return ms_error_set(err, q->bad, "a value has a gigabyte or more");
    if (q->bad != MS_OK) return ms__pg_no_memory(err);
    MS__PG_TRY(ms__pg_quiet(line, err));
    if (!line->no_prepare) MS__PG_TRY(ms__pg_prepare(line, q, name, err));
    line->sent = true;
    int sent = line->no_prepare
                   ? PQsendQueryParams(line->conn, q->sql, q->n, q->types, q->values,
                                       q->lengths, q->formats, 1)
                   : PQsendQueryPrepared(line->conn, name, q->n, q->values, q->lengths,
                                         q->formats, 1);
    if (!sent) return ms__pg_lost(line, ms__pg_was_lost, err);
    return ms__pg_answer(line, out, err);
}

/* Drops notices of the server, which do not belong on the program's stderr. */
static void ms__pg_hush(void *ctx, const PGresult *r)
{
    (void)ctx;
    (void)r;
}

/* Returns the error of a failed connection. Waiting does not help if a password is
 * missing, if the server refuses the user or an option, or has no such database. libpq
 * has the SQLSTATE only in its text: "FATAL:  28P01: ...". */
static ms_result ms__pg_connect_failed(ms__pg_line *line, ms_error *err)
{
    const char *text = PQerrorMessage(line->conn);
    bool absent = strstr(text, ":  3D000: ") != NULL;
    (void)ms__pg_lost(line, "cannot connect", err);
    line->again = !absent && !strstr(text, ":  28P01: ") && !strstr(text, ":  28000: ") &&
                  !strstr(text, ":  42") && !strstr(text, ":  22") &&
                  !PQconnectionNeedsPassword(line->conn);
    return ms__pg_fail(err, absent ? MS_E_NOT_FOUND : MS_E_UNREACHABLE, "cannot connect",
                       text);
}

/* Connects before the deadline of the line. */
static ms_result ms__pg_connect_poll(ms__pg_line *line, ms_error *err)
{
    PostgresPollingStatusType want = PGRES_POLLING_WRITING;
    (void)PQsetErrorVerbosity(line->conn, PQERRORS_VERBOSE);
    while (want != PGRES_POLLING_OK && PQstatus(line->conn) != CONNECTION_BAD) {
        MS__PG_TRY(ms__pg_ready(line, want == PGRES_POLLING_WRITING, err));
        want = PQconnectPoll(line->conn);
    }
    (void)PQsetErrorVerbosity(line->conn, PQERRORS_DEFAULT);
    return want == PGRES_POLLING_OK ? MS_OK : ms__pg_connect_failed(line, err);
}

/* Planning the newest 20 of a location for its values takes two to three times as long as
 * reading them, and the server would do it each time: it takes a plan for all partitions
 * to cost what they cost together. Citus cannot plan for all values. */
static const char ms__pg_plan_once[] =
    "select set_config('plan_cache_mode', 'force_generic_plan', false) where not exists"
    " (select 1 from pg_catalog.pg_extension where extname = 'citus')";

/* Returns for how long a statement waits for a lock: less than the time of an attempt. */
static int ms__pg_lock_ms(const ms_pg_desc *desc)
{
    uint32_t ms = desc->timeout_ms / 4 + 1;
    return ms < MS__PG_LOCK_MS ? (int)ms : MS__PG_LOCK_MS;
}

/* Connects. The connection string overrides the defaults before it. If a host does not
 * answer in three seconds, libpq tries the next one, if there is time. */
static ms_result ms__pg_connect(ms__pg_line *line, const char *url,
                                const ms_pg_desc *desc, ms_error *err)
{
    const char *names[16], *values[16];
    char seconds[24], dead[24], set[160];
    int n = 0;
    int64_t deadline = line->deadline, left = deadline - ms__pg_now();
    snprintf(seconds, sizeof seconds, "%ld", left > 6000 ? (long)(left / 3000) : 2L);
    names[n] = "target_session_attrs"; /* older versions of libpq know no "standby" */
    values[n++] = !line->standby ? desc->read_only ? "any" : "read-write"
                  : PQlibVersion() >= 140000 ? "standby" : "any";
    names[n] = "fallback_application_name", values[n++] = "msgstore";
    names[n] = "connect_timeout", values[n++] = seconds;
    /* a connection whose other side does not answer any more ends after a third */
    snprintf(dead, sizeof dead, "%ld", left > 6000 ? (long)(left / 3) : 2000L);
    names[n] = "tcp_user_timeout", values[n++] = dead;
    names[n] = "keepalives_idle", values[n++] = "4";
    names[n] = "keepalives_interval", values[n++] = "2";
    names[n] = "keepalives_count", values[n++] = "3";
    names[n] = "dbname", values[n++] = url;
    names[n] = "client_encoding", values[n++] = "UTF8";
    names[n] = NULL, values[n] = NULL;
    line->lost = false;
    line->conn = PQconnectStartParams(names, values, 1);
    if (!line->conn) return ms__pg_no_memory(err);
    PQsetNoticeReceiver(line->conn, ms__pg_hush, NULL); /* also while it connects */
    if (left > 6000) line->deadline = ms__pg_now() + 3000;
    ms_result code = ms__pg_connect_poll(line, err);
    bool late = code != MS_OK && ms__pg_now() >= line->deadline && left > 6000;
    line->deadline = deadline;
    if (late) {
        (void)PQsetErrorVerbosity(line->conn, PQERRORS_VERBOSE);
        PQreset(line->conn); /* keeps the receiver; another connection would have none */
        (void)PQsetErrorVerbosity(line->conn, PQERRORS_DEFAULT);
        line->lost = line->again = false;
        bool done = PQstatus(line->conn) == CONNECTION_OK;
        code = done ? MS_OK : ms__pg_connect_failed(line, err);
    }
    if (code != MS_OK) return code;
    if (PQsetnonblocking(line->conn, 1) != 0)
        return ms__pg_lost(line, "cannot connect", err);
    snprintf(set, sizeof set, "set statement_timeout = %lu",
             (unsigned long)desc->statement_ms);
    MS__PG_TRY(ms__pg_simple(line, set, err));
    /* Some engines lack these settings. A server that no longer hears from a client holds
     * its locks until it gives up; so it does if the client's machine answers, and the
     * client is stopped. Pages of a location are near each other in its index. */
    snprintf(set, sizeof set, "set idle_in_transaction_session_timeout = %d",
             MS__PG_IDLE_MS);
    (void)ms__pg_simple(line, set, NULL);
    snprintf(set, sizeof set, "set lock_timeout = %d", ms__pg_lock_ms(desc));
    (void)ms__pg_simple(line, set, NULL);
    (void)ms__pg_simple(line, "set random_page_cost = 1.1", NULL);
    (void)ms__pg_simple(line, ms__pg_plan_once, NULL);
    (void)ms__pg_simple(line, "set tcp_keepalives_idle = 4; set tcp_keepalives_interval ="
                        " 2; set tcp_keepalives_count = 3", NULL);
    line->again = line->lost;
    return line->lost ? ms__pg_lost(line, "cannot connect", err) : MS_OK;
}

/* ==== [pg-call] the pool, and repetition =============================================
 * A call takes a line to the server of its bucket, runs a step, and gives the line back.
 * On a connection that was there before, the first attempt has a third of the time: if
 * the connection is dead, no other one of its age is used again, and the next attempt
 * succeeds on a fresh one.
 * Where the line allows another attempt, the step runs again, on a fresh connection if
 * the old one is lost, after a pause that doubles up to a quarter of a second, until the
 * deadline. A step must be repeatable: queries are; appends are by their keys.
 * ================================================================================== */

/* Why a reader is answered by the primary. */
enum ms__pg_why { MS__PG_FITS, MS__PG_BEHIND, MS__PG_AWAY, MS__PG_FOREIGN };

/* What a replica must have replayed: the state of the primary when it was asked. */
typedef struct ms__pg_mark {
    int64_t lsn;              /* 0: none */
    int64_t timeline;
    uint64_t identity;        /* hash of cluster, database, table, user */
    int64_t at;               /* ms__pg_now before the primary was asked */
    uint64_t answers;         /* of ms__pg_replica, before the primary was asked */
} ms__pg_mark;

/* See [pg-replica]. */
typedef struct ms__pg_replica {
    bool has_url;             /* the store was opened with one */
    bool trying;              /* a reader asks the primary for a mark, and awaits it */
    uint64_t answers;         /* calls that the primary, or another replica, has
                                 answered: this one may lack what they read or wrote */
    ms__pg_mark asked;        /* by the reader that tries; not replayed yet */
    ms__pg_mark reached;      /* the newest one that the replica has replayed */
    int64_t instance;         /* of the replica that has */
    int64_t pause, away;      /* ms: of the last try that was behind, that failed */
    int64_t next;             /* no try before */
    enum ms__pg_why why;      /* the last reader that did not use it did not */
} ms__pg_replica;

typedef struct ms__pg_server {
    char *url;                /* NULL: from the environment */
    ms__pg_line *lines;
    ms__pg_replica replica;   /* of a primary */
} ms__pg_server;

typedef struct ms__pg {
    ms_store base;            /* first: a pointer to it is a pointer to the whole */
    ms_pg_desc desc;          /* defaults filled in; urls are not kept */
    ms_arena arena;           /* of this struct and all its members */
    ms__pg_server *servers;   /* the primaries, then the replica of each */
    size_t n_servers;         /* primaries */
    uint16_t owner[MS_PG_BUCKETS]; /* the server of a bucket */
    long process;
    ms__pg_lock lock;         /* of everything below */
    ms__pg_cond returned;     /* a line was */
    bool routed;              /* a statement that writes is for one bucket */
    bool secured;             /* row-level security hides rows from the user */
    bool reordered;           /* some server does not order texts as UTF-8 does */
    int64_t seen;             /* the largest tick known to this handle */
    int64_t ahead;            /* of the server's clock to ms__pg_now */
    uint64_t tickets;         /* keys made so far */
    unsigned char client[12]; /* random part of them */
    int64_t notified;         /* when, see [pg-wait] */
    uint32_t changed[MS_PG_BUCKETS / 32]; /* buckets, since then */
    ms__pg_line listener;
    int64_t swept;            /* when idle connections were closed last */
    uint64_t idle_closed;
    uint64_t readers[4];      /* statements of readers, by enum ms__pg_why */
    uint64_t repeats;         /* attempts after the first one */
    unsigned facts_rest;      /* times that facts which are due are not entered, */
    unsigned facts_pause;     /* since so many came after the last failure */
    uint64_t resolved;       /* appends that were stored although their answer was lost */
} ms__pg;

static ms__pg *ms__pg_of(ms_store *store) { return (ms__pg *)(void *)store; }

static ms_arena ms__pg_arena(const ms__pg *s)
{
    ms_arena arena;
    memset(&arena, 0, sizeof arena);
    arena.alloc = s->desc.alloc;
    return arena;
}

static void ms__pg_saw(ms__pg *s, int64_t tick)
{
    ms__pg_lock_take(&s->lock);
    if (tick > s->seen) s->seen = tick;
    ms__pg_lock_give(&s->lock);
}

/* Returns the least tick for an append now. */
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

/* Returns an idle line, if possible a connected one; NULL if all are busy. The caller
 * holds the lock. */
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
    ms__pg_stmt q;
    PGresult *r;
    ms__pg_start(&q, "select (extract(epoch from clock_timestamp()) * 1000)::bigint");
    MS__PG_TRY(ms__pg_exec(line, &q, &r, err));
    ms__pg_lock_take(&s->lock);
    s->ahead = ms__pg_int(r, 0, 0) - ms__pg_now();
    ms__pg_lock_give(&s->lock);
    PQclear(r);
    line->sent = false;
    return MS_OK;
}

/* Notes whether the server's encoding orders texts as UTF-8 does. */
static void ms__pg_encoding(ms__pg *s, const ms__pg_line *line)
{
    const char *name = PQparameterStatus(line->conn, "server_encoding");
    if (name && (strcmp(name, "UTF8") == 0 || strcmp(name, "SQL_ASCII") == 0)) return;
    ms__pg_lock_take(&s->lock);
    s->reordered = true;
    ms__pg_lock_give(&s->lock);
}

/* Returns the next line of the handle, the listener last; NULL: there are no more. *n: 0
 * first. */
static ms__pg_line *ms__pg_next_line(ms__pg *s, size_t *n)
{
    size_t each = s->desc.connections, all = 2 * s->n_servers * each;
    while (*n < all && !s->servers[*n / each].lines) *n += each; /* no replica */
    size_t at = (*n)++;
    if (at >= all) return at == all ? &s->listener : NULL;
    return &s->servers[at / each].lines[at % each];
}

/* Closes connections that no call uses, and that were not used for so long. */
static void ms__pg_sweep(ms__pg *s, int64_t idle_ms)
{
    ms__pg_line *line;
    int64_t now = ms__pg_now();
    for (size_t n = 0; (line = ms__pg_next_line(s, &n)) != NULL;) {
        ms__pg_lock_take(&s->lock);
        bool idle = !line->busy && line->conn && now - line->at >= idle_ms;
        if (idle) line->busy = true;
        if (idle) s->idle_closed++;
        ms__pg_lock_give(&s->lock);
        if (!idle) continue;
        ms__pg_line_drop(line);
        ms__pg_lock_take(&s->lock);
        line->busy = false;
        ms__pg_cond_wake(&s->returned);
        ms__pg_lock_give(&s->lock);
    }
}

/* Closes idle connections, if it is time to look for them: twice in desc.idle_ms. */
static void ms__pg_sweep_due(ms__pg *s)
{
    int64_t now = ms__pg_now();
    ms__pg_lock_take(&s->lock);
    bool due = s->desc.idle_ms != UINT32_MAX && now - s->swept > s->desc.idle_ms / 2;
    if (due) s->swept = now;
    ms__pg_lock_give(&s->lock);
    if (due) ms__pg_sweep(s, s->desc.idle_ms);
}

static ms_result ms__pg_instance(ms__pg_line *line, ms_error *err);

static ms_result ms__pg_take(ms__pg *s, size_t server, int64_t deadline,
                             ms__pg_line **out, ms_error *err)
{
    ms__pg_line *line;
    ms__pg_sweep_due(s);
    ms__pg_lock_take(&s->lock);
    while ((line = ms__pg_idle(s, &s->servers[server])) == NULL) {
        int64_t left = deadline - ms__pg_now();
        if (left <= 0) break;
        ms__pg_cond_wait(&s->returned, &s->lock, left > 1000 ? 1000 : left);
    }
    if (line) line->busy = true;
    ms__pg_lock_give(&s->lock);
    *out = line;
    if (!line)
        return ms_error_set(err, MS_E_UNREACHABLE, "all connections were busy for all of "
                                                   "the time");
    line->deadline = deadline;
    line->lost = line->again = line->sent = line->locked = false;
    line->routed = s->routed;
    line->no_prepare = s->desc.no_prepare;
    line->standby = server >= s->n_servers;
    line->used = line->conn && !line->stale;
    if (line->used) return MS_OK;
    ms__pg_line_drop(line);
    MS__PG_TRY(ms__pg_connect(line, s->servers[server].url, &s->desc, err));
    ms__pg_encoding(s, line);
    return line->standby ? ms__pg_instance(line, err) : ms__pg_clock(s, line, err);
}

/* Marks the connections to a server, after one of them has not answered. */
static void ms__pg_distrust(ms__pg *s, size_t server)
{
    ms__pg_lock_take(&s->lock);
    for (unsigned i = 0; i < s->desc.connections; i++) {
        ms__pg_line *line = &s->servers[server].lines[i];
        if (!line->busy && line->conn) line->stale = true;
    }
    ms__pg_lock_give(&s->lock);
}

static void ms__pg_give(ms__pg *s, ms__pg_line *line)
{
    if (!line) return;
    if (s->desc.release && !line->lost) (void)ms__pg_quiet(line, NULL);
    if (line->lost || s->desc.release ||
        (line->conn && PQtransactionStatus(line->conn) != PQTRANS_IDLE && !line->noisy))
        ms__pg_line_drop(line);
    ms__pg_lock_take(&s->lock);
    line->busy = false;
    line->at = ms__pg_now();
    ms__pg_cond_wake(&s->returned);
    ms__pg_lock_give(&s->lock);
}

/* Pauses before attempt n + 1, up to twice as long as asked, so that clients part. */
static void ms__pg_back_off(ms__pg *s, unsigned n)
{
    int64_t ms = n < 7 ? (int64_t)2 << n : 250;
    ms__pg_lock_take(&s->lock);
    uint64_t mixed = (++s->tickets + (uint64_t)(uintptr_t)&ms) *
                     UINT64_C(0x9E3779B97F4A7C15);
    s->repeats++;
    ms__pg_lock_give(&s->lock);
    ms__pg_nap(ms + (int64_t)(mixed >> 40) % ms);
}

/* Counts a call that a primary has answered: its replica may lack what it read or
 * wrote. */
static void ms__pg_answered(ms__pg *s, size_t server)
{
    if (!s->servers[server].replica.has_url) return;
    ms__pg_lock_take(&s->lock);
    s->servers[server].replica.answers++;
    ms__pg_lock_give(&s->lock);
}

typedef ms_result (*ms__pg_step)(ms__pg *s, ms__pg_line *line, void *ctx, ms_error *err);

/* Runs a step on a server, repeatedly until it succeeds or must fail, or the deadline. If
 * the time ends amid an attempt, the error is that of the one before. */
static ms_result ms__pg_call_by(ms__pg *s, size_t server, ms__pg_step step, void *ctx,
                                int64_t deadline, ms_error *err)
{
    ms_error before, unused;
    if (!err) err = &unused;
    MS__PG_TRY(ms__pg_check(s, false, err));
    for (unsigned attempt = 0;; attempt++) {
        ms__pg_line *line;
        ms_result code = ms__pg_take(s, server, deadline, &line, err);
        if (code == MS_OK && attempt == 0 && line->used)
            line->deadline = ms__pg_now() + s->desc.timeout_ms / 3;
        if (line && line->deadline > deadline) line->deadline = deadline;
        if (code == MS_OK) code = step(s, line, ctx, err);
        if (line && line->used && line->lost) ms__pg_distrust(s, server);
        bool again = code != MS_OK && line && line->again;
        bool locked = line && line->locked;
        ms__pg_give(s, line);
        ms__pg_answered(s, server);
        bool late = ms__pg_now() + (locked ? ms__pg_lock_ms(&s->desc) : 0) >= deadline;
        if (late && attempt && code == MS_E_UNREACHABLE) *err = before, err->code = code;
        if (!again || late) return code;
        before = *err;
        ms__pg_back_off(s, attempt);
    }
}

static ms_result ms__pg_call(ms__pg *s, size_t server, ms__pg_step step, void *ctx,
                             ms_error *err)
{
    int64_t deadline = ms__pg_now() + s->desc.timeout_ms;
    return ms__pg_call_by(s, server, step, ctx, deadline, err);
}

typedef struct ms__pg_asking {
    const ms__pg_stmt *q;
    PGresult **out;
} ms__pg_asking;

static ms_result ms__pg_ask_step(ms__pg *s, ms__pg_line *line, void *ctx, ms_error *err)
{
    const ms__pg_asking *a = (const ms__pg_asking *)ctx;
    (void)s;
    return ms__pg_exec(line, a->q, a->out, err);
}

/* Runs a repeatable statement on a server. *out (may be NULL) receives the rows. */
static ms_result ms__pg_ask_by(ms__pg *s, size_t server, const ms__pg_stmt *q,
                               int64_t deadline, PGresult **out, ms_error *err)
{
    ms__pg_asking a;
    a.q = q;
    a.out = out;
    return ms__pg_call_by(s, server, ms__pg_ask_step, &a, deadline, err);
}

static ms_result ms__pg_ask(ms__pg *s, size_t server, const ms__pg_stmt *q,
                            PGresult **out, ms_error *err)
{
    int64_t deadline = ms__pg_now() + s->desc.timeout_ms;
    return ms__pg_ask_by(s, server, q, deadline, out, err);
}

/* ==== [pg-replica] reading from a standby ============================================
 * A standby replays the log of its primary, later. A mark is a position in that log, and
 * the moment at which the handle asked the primary for it. A reader uses the replica if
 * the replica has replayed a mark that
 *   - was asked for after all answers that the handle had when the reader began. Each may
 *     be of a record that the replica lacks. `answers` counts them: the calls that the
 *     primary has answered, and what another replica has;
 *   - is not older than replica_lag_ms, by the handle's own clock.
 * An append asks for no mark. It is an answer, so the next reader needs a newer mark.
 *
 * A replica only moves forward while its server runs. Once it has replayed a mark,
 * readers send their statement alone. When the mark has half of the age that it may have,
 * one reader tries for a newer one: it asks the primary, then the replica.
 *
 * If the replica has not replayed the mark, the reader asks the primary. That is an
 * answer, too: the replica must replay it before it is read again. The reader that tries
 * waits for the replica: twice as long after each wait in vain, and for an eighth of the
 * time.
 *
 * With each answer the server says whether it is still a standby (in_hot_standby). A
 * promoted one may have what the primary never had: its answer is dropped. A position
 * means something in one history alone, so the mark has the timeline, the cluster and the
 * tables, too. Two servers that were promoted apart to the same timeline look alike.
 *
 * (PP1) What a reader gets has all that the handle had written, or got, when the reader
 *       began.
 * (PP2) What a reader gets is from a server that was a standby of the primary then, or
 *       from the primary.
 * ================================================================================== */

#define MS__PG_REPLICA_MS 3000  /* to connect, or to ask for a position, at most */
#define MS__PG_AWAY_MS    16000 /* between two tries to reach a replica, at most */
#define MS__PG_BEHIND_MS  250   /* that one waits for a replica, at most */

/* Selects whether a server is a standby, its position, its timeline (0: not known), a
 * number of its run, and what it holds. The end of the log may be after the header of a
 * page that has no record yet, where no replica gets; a file of the log begins with a
 * longer one. When one of its processes crashes, a server begins again, at an earlier
 * position: its counts are reset then. */
static const char ms__pg_state_of[] =
    "select r.r::int, case when r.r then (pg_last_wal_replay_lsn() - '0/0')::bigint else"
    " (select case when (f - '0/0') % current_setting('wal_block_size')::int = 0 and"
    " i - f = case when (f - '0/0') % pg_size_bytes(current_setting('wal_segment_size'))"
    " = 0 then 40 else 24 end then (f - '0/0')::bigint else (i - '0/0')::bigint end from"
    " (select pg_current_wal_flush_lsn() as f, pg_current_wal_insert_lsn() as i) as w)"
    " end, case when r.r then (select greatest(c.timeline_id,"
    " m.min_recovery_end_timeline, (select max(received_tli) from pg_stat_wal_receiver))"
    " from pg_control_checkpoint()"
    " as c, pg_control_recovery() as m)::bigint else ('x' || left(pg_walfile_name("
    "pg_current_wal_insert_lsn()), 8))::bit(32)::bigint end,"
    " (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint +"
    " coalesce((extract(epoch from pg_stat_get_bgwriter_stat_reset_time()) * 1000000)"
    "::bigint, 0),"
    " concat_ws(' ', (select system_identifier from pg_control_system()), (select oid"
    " from pg_database where datname = current_database()),"
    " coalesce(to_regclass('msgstore_record')::oid, 0), case when row_security_active("
    "to_regclass('msgstore_record')::oid) then current_user::text end)"
    " from (select pg_is_in_recovery() as r) as r";

typedef struct ms__pg_state_now {
    bool standby;
    int64_t lsn, timeline, instance;
    uint64_t identity;
} ms__pg_state_now;

static ms_result ms__pg_state_ask(ms__pg_line *line, ms__pg_state_now *out, ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    memset(out, 0, sizeof *out);
    ms__pg_start(&q, ms__pg_state_of);
    MS__PG_TRY(ms__pg_exec(line, &q, &r, err));
    out->standby = ms__pg_int(r, 0, 0) != 0;
    out->lsn = ms__pg_int(r, 0, 1);
    out->timeline = ms__pg_int(r, 0, 2);
    out->instance = ms__pg_int(r, 0, 3);
    out->identity = ms__pg_hash(ms__pg_str(r, 0, 4));
    PQclear(r);
    return MS_OK;
}

/* Finds which replica a new connection leads to. */
static ms_result ms__pg_instance(ms__pg_line *line, ms_error *err)
{
    ms__pg_state_now now;
    ms_result code = ms__pg_state_ask(line, &now, err);
    line->instance = now.instance;
    line->promoted = !now.standby;
    if (code != MS_OK) line->lost = true; /* it has no number */
    return code;
}

/* Asks the primary for a mark, once. */
static bool ms__pg_ask_mark(ms__pg *s, size_t server, int64_t deadline, ms__pg_mark *mark)
{
    ms__pg_line *line;
    ms__pg_state_now now;
    memset(mark, 0, sizeof *mark);
    ms__pg_lock_take(&s->lock);
    mark->answers = s->servers[server].replica.answers;
    ms__pg_lock_give(&s->lock);
    mark->at = ms__pg_now();
    if (deadline > mark->at + MS__PG_REPLICA_MS) deadline = mark->at + MS__PG_REPLICA_MS;
    ms_result code = ms__pg_take(s, server, deadline, &line, NULL);
    if (code == MS_OK) code = ms__pg_state_ask(line, &now, NULL);
    if (line && line->used && line->lost) ms__pg_distrust(s, server);
    ms__pg_give(s, line);
    if (code != MS_OK || now.standby) return false;
    mark->lsn = now.lsn;
    mark->timeline = now.timeline;
    mark->identity = now.identity;
    return true;
}

/* A reader, and what it needs. */
typedef struct ms__pg_reader {
    uint64_t need;            /* answers that came before it began: the replica must
                                 have replayed what they read or wrote */
    bool usable;              /* the replica has replayed what is needed */
    bool trying;              /* this reader asks for a newer mark */
    int64_t instance;         /* of the replica that has */
    int64_t deadline;         /* for the replica */
    enum ms__pg_why why;      /* it may not be asked */
} ms__pg_reader;

/* Waits until the replica has replayed a mark, for at most `wait` ms. The mark is the one
 * that was asked for last, or, if the reader needs a newer one, one that is asked for. */
static enum ms__pg_why ms__pg_await_mark(ms__pg *s, size_t server, ms__pg_line *line,
                                         const ms__pg_reader *reader, int64_t wait)
{
    ms__pg_replica *rep = &s->servers[server].replica;
    ms__pg_state_now now;
    int64_t end = ms__pg_now() + wait;
    ms__pg_lock_take(&s->lock);
    ms__pg_mark mark = rep->asked;
    ms__pg_lock_give(&s->lock);
    if (mark.lsn == 0 || mark.answers < reader->need ||
        ms__pg_now() - mark.at > (int64_t)s->desc.replica_lag_ms) {
        if (!ms__pg_ask_mark(s, server, reader->deadline, &mark)) return MS__PG_AWAY;
        ms__pg_lock_take(&s->lock);
        rep->asked = mark;
        ms__pg_lock_give(&s->lock);
    }
    for (int64_t nap = 1;; nap *= 2) {
        if (ms__pg_state_ask(line, &now, NULL) != MS_OK) return MS__PG_AWAY;
        if (!now.standby || now.timeline != mark.timeline ||
            now.identity != mark.identity || now.instance != line->instance) {
            line->lost = true; /* another host of the connection string may be one */
            return MS__PG_FOREIGN;
        }
        if (now.lsn >= mark.lsn) break;
        int64_t left = end - ms__pg_now();
        if (left <= 0) return MS__PG_BEHIND;
        ms__pg_nap(nap < left ? nap : left);
    }
    ms__pg_lock_take(&s->lock);
    rep->reached = mark;
    rep->asked.lsn = 0;
    ms__pg_lock_give(&s->lock);
    return MS__PG_FITS;
}

/* Returns whether the replica has replayed a mark that was asked for after `need` answers
 * and is not too old. The caller holds the lock. */
static bool ms__pg_is_usable(const ms__pg *s, const ms__pg_replica *rep, uint64_t need)
{
    return rep->reached.lsn && rep->reached.answers >= need &&
           ms__pg_now() - rep->reached.at <= (int64_t)s->desc.replica_lag_ms;
}

/* Begins a reader. Returns whether it may ask the replica, now (`usable`) or once it has
 * tried. Waits up to 50 ms for another reader that tries. */
static bool ms__pg_reader_begin(ms__pg *s, ms__pg_replica *rep, ms__pg_reader *reader)
{
    memset(reader, 0, sizeof *reader);
    reader->deadline = ms__pg_now() + s->desc.timeout_ms / 3;
    ms__pg_lock_take(&s->lock);
    reader->need = rep->answers;
    int64_t end = ms__pg_now() + 50;
    while (!(reader->usable = ms__pg_is_usable(s, rep, reader->need)) && rep->trying) {
        int64_t left = end - ms__pg_now();
        if (left <= 0) break;
        ms__pg_cond_wait(&s->returned, &s->lock, left);
    }
    int64_t now = ms__pg_now();
    bool due = !reader->usable ||
               now - rep->reached.at > (int64_t)s->desc.replica_lag_ms / 2;
    reader->trying = due && !rep->trying && now >= rep->next;
    if (reader->trying) rep->trying = true;
    reader->instance = rep->instance;
    reader->why = rep->why;
    ms__pg_lock_give(&s->lock);
    return reader->usable || reader->trying;
}

/* Ends a reader, and sets when the next one may try. tried: how its try ended; why: how
 * its reading did. */
static void ms__pg_reader_end(ms__pg *s, ms__pg_replica *rep, const ms__pg_reader *reader,
                              enum ms__pg_why tried, enum ms__pg_why why)
{
    int64_t now = ms__pg_now(), most = (int64_t)s->desc.replica_lag_ms / 4;
    if (most > MS__PG_BEHIND_MS) most = MS__PG_BEHIND_MS;
    ms__pg_lock_take(&s->lock);
    if (reader->trying) {
        rep->trying = false;
        if (tried == MS__PG_FITS && why == MS__PG_FITS) rep->pause = rep->away = 0;
        if (tried == MS__PG_BEHIND) {
            rep->pause = rep->pause ? 2 * rep->pause : 2;
            if (rep->pause > most) rep->pause = most;
            rep->next = now + 8 * rep->pause;
        }
        ms__pg_cond_wake(&s->returned);
    }
    if (why == MS__PG_AWAY || why == MS__PG_FOREIGN) {
        if (now >= rep->next) rep->away = rep->away ? 2 * rep->away : 100;
        if (rep->away > MS__PG_AWAY_MS) rep->away = MS__PG_AWAY_MS;
        if (now >= rep->next) rep->next = now + rep->away;
        rep->reached.lsn = rep->asked.lsn = 0;
    }
    if (why != MS__PG_FITS) rep->why = why;
    ms__pg_lock_give(&s->lock);
}

/* Returns whether a reader may use a line: the line leads to the replica that `reached`
 * is about, and did when the reader began; or the reader tries, and compares the line's
 * replica next. A line may lead to another replica: a second host, or one whose server
 * was started again. Then `reached` is dropped, since it is not about that one, and what
 * the former one has answered counts. The reader that tries makes it the handle's
 * replica. */
static bool ms__pg_may_use_line(ms__pg *s, ms__pg_replica *rep, const ms__pg_line *line,
                                ms__pg_reader *reader)
{
    ms__pg_lock_take(&s->lock);
    bool same = rep->instance == line->instance;
    if (!same) {
        rep->answers++;
        rep->reached.lsn = 0;
        if (reader->trying) rep->instance = line->instance;
    }
    if (!same || reader->instance != line->instance) {
        reader->need = rep->answers;
        reader->usable = false;
    }
    ms__pg_lock_give(&s->lock);
    return reader->usable || reader->trying;
}

/* Returns whether the server was a standby when it answered. It reports that with the
 * answer (in_hot_standby); an older server, or one after a pooler, is asked. */
static bool ms__pg_is_standby(ms__pg_line *line)
{
    ms__pg_state_now now;
    const char *says = PQparameterStatus(line->conn, "in_hot_standby");
    if (line->promoted) return false; /* a pooler reports what was so before */
    if (says && !line->no_prepare) return strcmp(says, "on") == 0;
    return ms__pg_state_ask(line, &now, NULL) == MS_OK && now.standby &&
           now.instance == line->instance;
}

/* Asks on a line to the replica. */
static enum ms__pg_why ms__pg_ask_line(ms__pg *s, size_t server, ms__pg_line *line,
                                       const ms__pg_stmt *q, ms__pg_reader *reader,
                                       PGresult **out, enum ms__pg_why *tried)
{
    ms__pg_replica *rep = &s->servers[server].replica;
    if (!ms__pg_may_use_line(s, rep, line, reader)) return MS__PG_BEHIND;
    if (reader->trying) {
        int64_t wait = reader->usable ? 0 : rep->pause;
        *tried = ms__pg_await_mark(s, server, line, reader, wait);
        if (*tried != MS__PG_FITS && !(*tried == MS__PG_BEHIND && reader->usable))
            return *tried;
    }
    line->deadline = reader->deadline;
    if (ms__pg_exec(line, q, out, NULL) != MS_OK) return MS__PG_AWAY;
    if (ms__pg_is_standby(line)) return MS__PG_FITS;
    PQclear(*out);
    *out = NULL;
    line->lost = true;
    return MS__PG_FOREIGN;
}

/* Asks the replica of a server, once. */
static enum ms__pg_why ms__pg_ask_replica(ms__pg *s, size_t server, const ms__pg_stmt *q,
                                          PGresult **out)
{
    ms__pg_replica *rep = &s->servers[server].replica;
    size_t at = s->n_servers + server;
    ms__pg_reader reader;
    ms__pg_line *line;
    enum ms__pg_why tried = MS__PG_FITS, why = MS__PG_AWAY;
    if (!ms__pg_reader_begin(s, rep, &reader)) return reader.why;
    int64_t deadline = ms__pg_now() + MS__PG_REPLICA_MS;
    if (deadline > reader.deadline) deadline = reader.deadline;
    if (ms__pg_take(s, at, deadline, &line, NULL) == MS_OK)
        why = ms__pg_ask_line(s, server, line, q, &reader, out, &tried);
    if (line && line->used && line->lost) ms__pg_distrust(s, at);
    if (line && why == MS__PG_FITS) {
        ms__pg_lock_take(&s->lock);
        if (line->instance != rep->instance) rep->answers++;
        ms__pg_lock_give(&s->lock);
    }
    ms__pg_give(s, line);
    ms__pg_reader_end(s, rep, &reader, tried, why);
    return why;
}

/* Runs a query for a reader, on the replica of a server if there is one, else on the
 * server. */
static ms_result ms__pg_ask_any(ms__pg *s, size_t server, const ms__pg_stmt *q,
                                PGresult **out, ms_error *err)
{
    if (!s->servers[server].replica.has_url) return ms__pg_ask(s, server, q, out, err);
    MS__PG_TRY(ms__pg_check(s, false, err));
    *out = NULL;
    int64_t deadline = ms__pg_now() + s->desc.timeout_ms;
    enum ms__pg_why why = ms__pg_ask_replica(s, server, q, out);
    ms__pg_lock_take(&s->lock);
    s->readers[why]++;
    ms__pg_lock_give(&s->lock);
    return why == MS__PG_FITS ? MS_OK : ms__pg_ask_by(s, server, q, deadline, out, err);
}

/* ==== [pg-row] records on their way ================================================= */

/* One record of an append or change. */
typedef struct ms__pg_row {
    const ms_envelope *m;
    ms_str location;
    unsigned bucket;
    unsigned kind;
    bool must_be_open;        /* an AMEND: its message is an open stream */
    bool has_time;
    int64_t time;
    uint64_t seq, place;      /* as stored */
    uint64_t repeats;         /* number of the stored record that it is; 0: it is new */
    uint64_t upto;            /* HIDE: the last number */
    bool retired;             /* shipping: it falls under a rule, and is not stored */
    const struct ms__pg_row *earlier; /* the one before it with its key; NULL: none */
    ms_str key;               /* as in the column; absent: none */
    uint64_t number;          /* of a shipped record: what it is about in the source */
    const ms_msg *msg;        /* encoded */
} ms__pg_row;

/* An append or a change, through all of its attempts. */
typedef struct ms__pg_batch {
    ms__pg *s;
    const ms_append_opts *opts;
    const ms_envelope *messages; /* of ms_backend.append, */
    const ms_record *records;    /* or of ms_backend.change, else NULL */
    ms__pg_row *rows;
    size_t n;
    ms_arena arena;           /* rows and their records */
    ms_arena scratch;         /* of one attempt */
    size_t server;
    int64_t now;              /* stamps; MS_TIME_NONE: none */
    bool keyed;               /* some message has a key of the caller */
    bool spread;              /* several locations */
    bool stamps;              /* messages without a time get `now` */
    bool change_only;         /* shipping: a change, not messages */
    uint64_t retired;         /* shipping: rows that were not stored under a rule */
    ms_str source;            /* shipping: made keys begin with it */
    const ms_pg_position *at; /* shipping: what the server must have; NULL: any */
    uint64_t about;           /* shipping a change: the message's number in the source, */
    uint64_t replaces;        /* and the place of the version that it replaces; 0: any */
    bool uncertain;           /* an earlier attempt was sent */
    bool unanswered;          /* an earlier attempt was sent, and its answer was lost */
    uint64_t hidden;          /* by a HIDE */
    bool facts_due;           /* all facts of its location are to be entered */
    uint64_t newest;      /* with the caller's numbers: the newest on the other servers */
    unsigned char ticket[20];
} ms__pg_batch;

/* Does what ms__pg_fail does, for message i. ms_append_batch names a single one
 * itself. */
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

/* Returns the flags to store of an envelope: those that a caller may set. Of a copy or
 * a change also those of its state. */
static uint32_t ms__pg_flags(const ms__pg_batch *b, const ms_envelope *m)
{
    uint32_t flags = (uint32_t)(MS_FLAG_JOINED | MS_FLAG_STAMPED | MS_FLAG_REPAIRED);
    if (b->opts->keep_seq || b->records)
        flags |= (uint32_t)(MS_FLAG_AMENDED | MS_FLAG_REDACTED | MS_FLAG_UNFINISHED);
    return m->flags & flags;
}

/* Encodes a row. commit: it is the last one of the append. */
static ms_result ms__pg_encode(ms__pg_batch *b, ms__pg_row *row, bool commit,
                               ms_error *err)
{
    ms_record record;
    ms_envelope *m = &record.envelope;
    memset(&record, 0, sizeof record);
    record.kind = (ms_kind)row->kind;
    *m = *row->m;
    m->location = row->location;
    m->flags = ms__pg_flags(b, row->m) | (commit ? (uint32_t)MS_FLAG_COMMIT : 0u);
    if (row->has_time && !row->m->has_time && row->kind == MS_KIND_MESSAGE)
        m->flags |= (uint32_t)MS_FLAG_STAMPED;
    m->has_time = row->has_time;
    m->time_ns = row->time;
    m->seq = row->seq;
    return ms_record_encode(&record, &b->arena, &row->msg, err);
}

static const ms_envelope *ms__pg_envelope(const ms__pg_batch *b, size_t i)
{
    return b->records ? &b->records[i].envelope : &b->messages[i];
}

/* Sets time, kind, key and bytes of a row. */
static ms_result ms__pg_row_fill(ms__pg_batch *b, size_t i, ms_str location,
                                 ms_error *err)
{
    ms__pg_row *row = &b->rows[i];
    const ms_record *record = b->records ? &b->records[i] : NULL;
    const ms_envelope *m = ms__pg_envelope(b, i);
    bool stamp = b->stamps && !(record && record->keep_unset_time);
    row->m = m;
    row->location = location.len ? location : m->location;
    row->bucket = ms_pg_bucket(row->location);
    row->kind = record ? (unsigned)record->kind : (unsigned)MS_KIND_MESSAGE;
    row->must_be_open = record && record->must_be_open;
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
    MS__PG_TRY(ms__pg_encode(b, row, i + 1 == b->n, err));
    if (ms_size(row->msg) > b->s->desc.max_message)
        return ms__pg_fail_at(b, err, MS_E_TOO_LARGE, i, "",
                              "the message is larger than the limit");
    return MS_OK;
}

/* Hashes what a record is: its kind, type, time, and all fields but the location. */
static uint64_t ms__pg_digest(const ms_msg *msg, uint64_t seed)
{
    ms_value v[MS_FIELD_COUNT];
    unsigned char head[24];
    int64_t time = 0;
    memset(v, 0, sizeof v);
    (void)ms_fields(msg, v);
    (void)ms_time(msg, &time);
    ms__pg_put(head, seed, 8);
    ms__pg_put(head + 8, (uint64_t)time, 8);
    ms__pg_put(head + 16, (uint64_t)ms_kind_of(msg) << 32 | (uint64_t)ms_type_of(msg), 8);
    uint64_t h = ms__pg_hash(ms_str_n((const char *)head, sizeof head));
    for (int f = 1; f < MS_FIELD_COUNT; f++)
        if (f != MS_F_LOCATION && v[f].text.ptr)
            h = (h + (uint64_t)f) * UINT64_C(0x9E3779B97F4A7C15) ^
                ms__pg_hash(v[f].text);
    return h;
}

/* Makes keys for shipped rows without one: of a message its number in the source; of a
 * change the number of the message that it is about, and two digests. So a change is the
 * same one wherever the source has it: a compaction moves changes. What a message is now
 * may have been there before: the place of what it replaces is in its key, too. */
static ms_result ms__pg_ship_keys(ms__pg_batch *b, ms_error *err)
{
    for (size_t i = 0; i < b->n; i++) {
        ms__pg_row *row = &b->rows[i];
        unsigned char key[96];
        size_t n = b->source.len;
        bool message = row->kind == MS_KIND_MESSAGE;
        row->number = message ? row->m->seq : b->about;
        if (row->key.ptr) continue;
        memcpy(key, b->source.ptr, n);
        ms__pg_put(key + n, row->number, 8);
        ms__pg_put(key + n + 8, message ? 0 : ms__pg_digest(row->msg, 1), 8);
        ms__pg_put(key + n + 16, message ? 0 : ms__pg_digest(row->msg, 2), 8);
        ms__pg_put(key + n + 24, b->replaces, 8);
        n += message ? 8 : b->replaces ? 32 : 24;
        row->key = ms__pg_copy(&b->arena, key, n, 's');
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
    ms__pg_lock_give(&s->lock);
    for (size_t i = 0; i < b->n && (i == 0 || b->keyed); i++) {
        ms__pg_row *row = &b->rows[i];
        unsigned char key[24];
        if (row->key.ptr && row->key.ptr[0] == 'k') continue;
        memcpy(key, b->ticket, 20);
        ms__pg_put(key + 20, i, 4);
        row->key = ms__pg_copy(&b->arena, key, i == 0 ? 20 : 24, 't');
        if (!row->key.ptr) return ms__pg_no_memory(err);
    }
    return MS_OK;
}

/* Makes another random part of this handle's keys, since another client has the same one:
 * a copy of this process, or one whose entropy is no better. The moment, and where that
 * is the same, the server's process parts them. */
static void ms__pg_client_renew(ms__pg *s, int server_process)
{
    uint64_t mixed = (uint64_t)ms__pg_system_time();
    ms__pg_lock_take(&s->lock);
    for (unsigned i = 0; i < sizeof s->client; i++) {
        mixed = (mixed + (unsigned)server_process + s->client[i]) *
                UINT64_C(0x9E3779B97F4A7C15);
        mixed ^= mixed >> 29;
        s->client[i] = (unsigned char)(mixed >> 56);
    }
    ms__pg_lock_give(&s->lock);
}

/* Returns whether type, role and all fields are equal; time and flags are not
 * compared. */
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

/* Orders pointers to rows by key, then location, then place in the batch. */
static int ms__pg_key_order(const void *a, const void *b)
{
    const ms__pg_row *x = *(const ms__pg_row *const *)a;
    const ms__pg_row *y = *(const ms__pg_row *const *)b;
    int order = ms__pg_str_order(x->key, y->key);
    if (order == 0) order = ms__pg_str_order(x->location, y->location);
    return order ? order : x < y ? -1 : x > y;
}

/* Finds rows with the key and location of an earlier one: the same message twice. */
static ms_result ms__pg_duplicates(ms__pg_batch *b, ms_error *err)
{
    size_t n = 0;
    ms__pg_row **keyed =
        (ms__pg_row **)ms_arena_alloc(&b->scratch, b->n * sizeof *keyed);
    if (!keyed) return ms__pg_no_memory(err);
    for (size_t i = 0; i < b->n; i++)
        if (b->rows[i].key.ptr && b->rows[i].key.ptr[0] == 'k') keyed[n++] = &b->rows[i];
    qsort(keyed, n, sizeof *keyed, ms__pg_key_order);
    for (size_t i = 1; i < n; i++)
        if (ms_str_equal(keyed[i]->key, keyed[i - 1]->key) &&
            ms_str_equal(keyed[i]->location, keyed[i - 1]->location))
            keyed[i]->earlier = keyed[i - 1];
    for (size_t i = 0; i < b->n; i++)
        if (b->rows[i].earlier && !ms__pg_same(b->rows[i].earlier->msg, b->rows[i].msg))
            return ms__pg_reused(b, i, err);
    return MS_OK;
}

static ms_result ms__pg_batch_fill(ms__pg_batch *b, ms_str location, size_t n,
                                   ms_error *err)
{
    ms__pg *s = b->s;
    b->arena = b->scratch = ms__pg_arena(s);
    b->n = n;
    b->rows = (ms__pg_row *)ms_arena_alloc(&b->arena, n * sizeof *b->rows);
    if (!b->rows) return ms__pg_no_memory(err);
    memset(b->rows, 0, n * sizeof *b->rows);
    b->stamps = !s->desc.keep_unset_times && !b->opts->keep_seq;
    b->now = MS_TIME_NONE;
    for (size_t i = 0; i < n && b->now == MS_TIME_NONE; i++)
        if (!ms__pg_envelope(b, i)->has_time && (b->stamps || b->records))
            b->now = s->desc.clock.now ? s->desc.clock.now(s->desc.clock.ctx)
                                       : ms__pg_system_time();
    for (size_t i = 0; i < n; i++) {
        MS__PG_TRY(ms__pg_row_fill(b, i, location, err));
        if (s->owner[b->rows[i].bucket] != s->owner[b->rows[0].bucket])
            return ms__pg_fail_at(b, err, MS_E_UNSUPPORTED, i, "location",
                                  "the locations of the batch are on different servers");
        if (!ms_str_equal(b->rows[i].location, b->rows[0].location)) b->spread = true;
    }
    b->server = s->owner[b->rows[0].bucket];
    MS__PG_TRY(ms__pg_tickets(b, err));
    return b->keyed ? ms__pg_duplicates(b, err) : MS_OK;
}

/* ==== [pg-append] ====================================================================
 * The frequent appends are one statement: a message, also with a key or an expected
 * number, or messages of one location. All others are a transaction under the lock of
 * the counter rows (PG1): lock, look for keys, compare, store, commit.
 *
 * Every append has a key (PG2). An attempt that was sent and not answered is followed by
 * the transaction, which looks for the keys first. It cannot miss the earlier attempt:
 * that one either holds the lock, and is waited for; or it has committed, and is found;
 * or it comes after, and fails, since its key exists.
 *
 * (PA1) MS_OK is returned only after the server has answered the commit.
 * (PA2) A repeated attempt stores nothing that an earlier one has stored.
 * (PA3) What is found to be stored is as durable as what is stored now. A commit may be
 *       seen that no synchronous standby has: the server ended while it waited for one.
 *       The transaction that finds it commits, too, and its row lock makes the server
 *       wait for all commits before it.
 * ================================================================================== */

/* Sends one statement. *stored false: the key is known, or another append may have been
 * first. */
static ms_result ms__pg_send_one(ms__pg_batch *b, ms__pg_line *line, bool *stored,
                                 ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    ms__pg_row *row = &b->rows[0];
    ms__pg_start(&q, b->opts->expect ? ms__pg_append_expected
                     : b->keyed      ? ms__pg_append_keyed
                                     : ms__pg_append_one);
    ms__pg_number(&q, MS__PG_INT4, row->bucket);
    ms__pg_number(&q, MS__PG_INT8, ms__pg_tick(b->s));
    ms__pg_number(&q, MS__PG_INT8, (int64_t)ms_size(row->msg));
    ms__pg_number(&q, MS__PG_INT8, row->time);
    if (!row->has_time) q.values[q.n - 1] = NULL;
    ms__pg_number(&q, MS__PG_INT2, (int64_t)row->m->type);
    ms__pg_text(&q, row->location);
    ms__pg_text(&q, row->m->agent_key);
    ms__pg_text(&q, row->m->turn_id);
    ms__pg_bytea(&q, row->key);
    ms__pg_bytea(&q, ms__pg_bytes(row->msg));
    if (b->opts->expect)
        ms__pg_number(&q, MS__PG_INT8, ms__pg_signed(b->opts->expect_seq));
    MS__PG_TRY(ms__pg_exec(line, &q, &r, err));
    *stored = PQntuples(r) > 0;
    if (*stored) row->place = (uint64_t)ms__pg_int(r, 0, 0);
    PQclear(r);
    return MS_OK;
}

/* Returns whether a batch sets the facts of a location, and does nothing else. */
static bool ms__pg_is_facts(const ms__pg_batch *b)
{
    return b->records && b->n == 1 && b->rows[0].kind == MS_KIND_LOCATION;
}

/* Sets facts in one statement. */
static ms_result ms__pg_send_facts(ms__pg_batch *b, ms__pg_line *line, bool *stored,
                                   ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    ms__pg_row *row = &b->rows[0];
    ms__pg_start(&q, ms__pg_set_facts);
    ms__pg_number(&q, MS__PG_INT4, row->bucket);
    ms__pg_number(&q, MS__PG_INT8, ms__pg_tick(b->s));
    ms__pg_number(&q, MS__PG_INT8, row->time);
    if (!row->has_time) q.values[q.n - 1] = NULL;
    ms__pg_text(&q, row->location);
    ms__pg_bytea(&q, row->key);
    ms__pg_bytea(&q, ms__pg_bytes(row->msg));
    MS__PG_TRY(ms__pg_exec(line, &q, &r, err));
    *stored = PQntuples(r) > 0;
    if (*stored) row->place = (uint64_t)ms__pg_int(r, 0, 0);
    if (*stored) b->facts_due = ms__pg_int(r, 0, 1) != 0;
    PQclear(r);
    return MS_OK;
}

/* State of an attempt that is a transaction; zeros for a single statement. */
typedef struct ms__pg_locked {
    int64_t tick;             /* of the first record */
    int64_t end;              /* the counter is at least this afterwards */
    bool was_stored;          /* an earlier attempt has stored the batch */
    int64_t shown_kind, shown_place; /* the shown version of the message that a change
                                      * is about */
    int64_t changes;
    int64_t ticks;            /* new records of all buckets, a tick each */
} ms__pg_locked;

typedef struct ms__pg_total {
    bool here;                /* the batch has rows of this bucket */
    int64_t messages, bytes;
    int64_t newest;           /* of its new messages; 0: none, or not known yet */
} ms__pg_total;

/* Returns the totals of each bucket; NULL: no memory. */
static ms__pg_total *ms__pg_totals_of(ms__pg_batch *b)
{
    size_t size = MS_PG_BUCKETS * sizeof(ms__pg_total);
    ms__pg_total *t = (ms__pg_total *)ms_arena_alloc(&b->scratch, size);
    if (!t) return NULL;
    memset(t, 0, size);
    for (size_t i = 0; i < b->n; i++) {
        const ms__pg_row *row = &b->rows[i];
        t[row->bucket].here = true;
        if (row->repeats || row->kind != MS_KIND_MESSAGE) continue;
        t[row->bucket].messages++;
        if (row->seq) t[row->bucket].newest = ms__pg_signed(row->seq);
        t[row->bucket].bytes += (int64_t)ms_size(row->msg);
    }
    return t;
}

static void ms__pg_push_some(ms__pg_array *a, bool some, int64_t value)
{
    if (some) ms__pg_push_number(a, value);
    else ms__pg_push(a, ms_str_n(NULL, 0));
}

enum { MS__PG_COLUMNS = 13 };

static void ms__pg_push_row(ms__pg_array *a, const ms__pg_row *row, size_t i)
{
    bool message = row->kind == MS_KIND_MESSAGE || row->kind == MS_KIND_AMEND;
    ms_str none = ms_str_n(NULL, 0);
    ms__pg_push_number(&a[0], (int64_t)i);
    ms__pg_push_number(&a[1], row->bucket);
    ms__pg_push_some(&a[2], row->kind != MS_KIND_MESSAGE || row->seq,
                     ms__pg_signed(row->seq));
    ms__pg_push_some(&a[3], row->place != 0, (int64_t)row->place);
    ms__pg_push_some(&a[4], row->has_time, row->time);
    bool numbered = row->kind == MS_KIND_MESSAGE && row->number && row->key.ptr[0] == 'k';
    ms__pg_push_some(&a[5], row->kind == MS_KIND_HIDE || numbered,
                     ms__pg_signed(numbered ? row->number : row->upto));
    ms__pg_push_number(&a[6], row->kind);
    ms__pg_push_number(&a[7], message ? (int64_t)row->m->type : 0);
    ms__pg_push(&a[8], row->location);
    ms__pg_push(&a[9], message ? row->m->agent_key : none);
    ms__pg_push(&a[10], message ? row->m->turn_id : none);
    ms__pg_push(&a[11], row->key);
    ms__pg_push(&a[12], ms__pg_bytes(row->msg));
}

/* Orders pointers to rows by location, then place in the batch. */
static int ms__pg_location_order(const void *a, const void *b)
{
    const ms__pg_row *x = *(const ms__pg_row *const *)a;
    const ms__pg_row *y = *(const ms__pg_row *const *)b;
    int order = ms__pg_str_order(x->location, y->location);
    return order ? order : x < y ? -1 : x > y;
}

enum { MS__PG_ENTRY = 8 };

/* Adds the entry of a location: of its n new rows. Without a place their numbers are not
 * known yet, and they are all rows of the batch. */
static void ms__pg_push_entry(ms__pg_array a[MS__PG_ENTRY], ms__pg_row *const *rows,
                              size_t n)
{
    const ms__pg_row *first = NULL, *last = NULL;
    bool placed = rows[0]->place != 0;
    int64_t messages = 0;
    for (size_t i = 0; i < n; i++) {
        if (rows[i]->kind != MS_KIND_MESSAGE) continue;
        if (!first) first = rows[i];
        last = rows[i];
        messages++;
    }
    ms__pg_push_number(&a[0], rows[0]->bucket);
    ms__pg_push(&a[1], rows[0]->location);
    ms__pg_push_number(&a[2], messages);
    ms__pg_push_some(&a[3], placed || !first, first ? ms__pg_signed(first->seq) : 0);
    ms__pg_push_some(&a[4], placed || !last, last ? ms__pg_signed(last->seq) : 0);
    ms__pg_push_some(&a[5], placed, (int64_t)rows[n - 1]->place);
    ms__pg_push_some(&a[6], first && first->has_time, first ? first->time : 0);
    ms__pg_push_some(&a[7], last && last->has_time, last ? last->time : 0);
}

/* Adds the entries of the locations of new rows, of one bucket or (bucket < 0) all, as
 * parameters. */
static ms_result ms__pg_entries(ms__pg_batch *b, int bucket, ms__pg_stmt *q,
                                ms_error *err)
{
    ms__pg_array a[MS__PG_ENTRY];
    size_t n = 0;
    ms__pg_row **rows = (ms__pg_row **)ms_arena_alloc(&b->scratch, b->n * sizeof *rows);
    if (!rows) return ms__pg_no_memory(err);
    for (size_t i = 0; i < MS__PG_ENTRY; i++)
        a[i] = ms__pg_array_of(&b->scratch, i == 0   ? MS__PG_INT4
                                            : i == 1 ? MS__PG_TEXT
                                                     : MS__PG_INT8);
    for (size_t i = 0; i < b->n; i++)
        if (!b->rows[i].repeats && (bucket < 0 || (int)b->rows[i].bucket == bucket))
            rows[n++] = &b->rows[i];
    if (b->spread) qsort(rows, n, sizeof *rows, ms__pg_location_order);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n; end++)
            if (b->spread && !ms_str_equal(rows[end]->location, rows[i]->location)) break;
        ms__pg_push_entry(a, rows + i, end - i);
    }
    for (size_t i = 0; i < MS__PG_ENTRY; i++) ms__pg_array_param(q, &a[i]);
    return MS_OK;
}

/* Adds the totals of a bucket, or (bucket < 0) all of them, as parameters. */
static void ms__pg_push_totals(ms__pg_batch *b, const ms__pg_total *t, int bucket,
                               ms__pg_array total[4])
{
    for (size_t i = 0; i < 4; i++)
        total[i] = ms__pg_array_of(&b->scratch, i ? MS__PG_INT8 : MS__PG_INT4);
    for (int k = 0; k < MS_PG_BUCKETS; k++) {
        if (!t[k].here || (bucket >= 0 && k != bucket)) continue;
        ms__pg_push_number(&total[0], k);
        ms__pg_push_number(&total[1], t[k].messages);
        ms__pg_push_number(&total[2], t[k].bytes);
        ms__pg_push_some(&total[3], t[k].newest || !t[k].messages, t[k].newest);
    }
}

/* Returns the only bucket of a batch, or -1. */
static int ms__pg_only_bucket(const ms__pg_total *t)
{
    int found = -1;
    for (int k = 0; k < MS_PG_BUCKETS; k++) {
        if (!t[k].here) continue;
        if (found >= 0) return -1;
        found = k;
    }
    return found;
}

/* Stores the new rows of a bucket, or (bucket < 0) all. *last: the tick of the last one;
 * 0: the bucket is missing. */
static ms_result ms__pg_send_rows(ms__pg_batch *b, ms__pg_line *line,
                                  const ms__pg_locked *l, const ms__pg_total *t,
                                  int bucket, int64_t *last, ms_error *err)
{
    static const Oid types[MS__PG_COLUMNS] = {
        MS__PG_INT8, MS__PG_INT4, MS__PG_INT8, MS__PG_INT8, MS__PG_INT8,
        MS__PG_INT8, MS__PG_INT2, MS__PG_INT2, MS__PG_TEXT, MS__PG_TEXT,
        MS__PG_TEXT, MS__PG_BYTEA, MS__PG_BYTEA};
    ms__pg_array a[MS__PG_COLUMNS], total[4];
    ms__pg_stmt q;
    PGresult *r;
    ms__pg_push_totals(b, t, bucket, total);
    for (size_t i = 0; i < MS__PG_COLUMNS; i++)
        a[i] = ms__pg_array_of(&b->scratch, types[i]);
    for (size_t i = 0; i < b->n; i++)
        if (!b->rows[i].repeats && (bucket < 0 || (int)b->rows[i].bucket == bucket))
            ms__pg_push_row(a, &b->rows[i], a[0].n + 1);
    ms__pg_start(&q, bucket < 0 ? ms__pg_append_spread : ms__pg_append_many);
    ms__pg_number(&q, MS__PG_INT8, l->tick ? l->tick : ms__pg_tick(b->s));
    ms__pg_number(&q, MS__PG_INT8, l->tick ? l->ticks : (int64_t)a[0].n);
    ms__pg_number(&q, MS__PG_INT8, l->end);
    ms__pg_number(&q, MS__PG_INT8, l->changes);
    ms__pg_number(&q, MS__PG_INT8, (int64_t)b->hidden);
    for (size_t i = 0; i < 3; i++) ms__pg_array_param(&q, &total[i]);
    for (size_t i = 0; i < MS__PG_COLUMNS; i++) ms__pg_array_param(&q, &a[i]);
    ms__pg_bytea(&q, b->source);
    ms__pg_array_param(&q, &total[3]);
    MS__PG_TRY(ms__pg_entries(b, bucket, &q, err));
    if (bucket >= 0) ms__pg_number(&q, MS__PG_INT4, bucket);
    MS__PG_TRY(ms__pg_exec(line, &q, &r, err));
    *last = ms__pg_int(r, 0, 0);
    PQclear(r);
    return MS_OK;
}

/* Stores the new rows. A statement is for one bucket where the engine is distributed. */
static ms_result ms__pg_send_many(ms__pg_batch *b, ms__pg_line *line,
                                  const ms__pg_locked *l, int64_t *last, ms_error *err)
{
    const ms__pg_total *t = ms__pg_totals_of(b);
    if (!t) return ms__pg_no_memory(err);
    int only = ms__pg_only_bucket(t);
    if (only >= 0 || !b->s->routed)
        return ms__pg_send_rows(b, line, l, t, only, last, err);
    for (int k = 0; k < MS_PG_BUCKETS; k++)
        if (t[k].here) MS__PG_TRY(ms__pg_send_rows(b, line, l, t, k, last, err));
    return MS_OK;
}

/* ---- The transaction. */

/* Locks counter rows of a bucket, or (bucket < 0) of all in t, in order of the buckets.
 * l->tick is larger than each of them. */
static ms_result ms__pg_lock_some(ms__pg_batch *b, ms__pg_line *line,
                                  const ms__pg_total *t, int bucket, ms__pg_locked *l,
                                  ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    ms__pg_array buckets = ms__pg_array_of(&b->scratch, MS__PG_INT4);
    bool facts = ms__pg_is_facts(b) && ms__pg_hash(b->rows[0].key) % 16 == 0;
    ms__pg_start(&q, facts        ? ms__pg_lock_facts
                     : bucket < 0 ? "select last from msgstore_bucket where bucket ="
                                    " any($1::int[]) order by bucket for update"
                                  : "select last from msgstore_bucket where bucket ="
                                    " $1::int for update");
    for (int k = 0; k < MS_PG_BUCKETS; k++)
        if (t[k].here && (bucket < 0 || k == bucket)) ms__pg_push_number(&buckets, k);
    if (bucket < 0) ms__pg_array_param(&q, &buckets);
    else ms__pg_number(&q, MS__PG_INT4, bucket);
    if (facts) ms__pg_text(&q, b->rows[0].location);
    MS__PG_TRY(ms__pg_exec(line, &q, &r, err));
    int n = PQntuples(r);
    if (facts && n > 0) b->facts_due = ms__pg_int(r, 0, 1) != 0;
    for (int i = 0; i < n; i++)
        if (ms__pg_int(r, i, 0) >= l->tick) l->tick = ms__pg_int(r, i, 0) + 1;
    PQclear(r);
    if (n == (int)buckets.n) return MS_OK;
    return ms_error_set(err, MS_E_FOREIGN, "a bucket is not on this server");
}

/* Locks the counter rows and finds the first tick. */
static ms_result ms__pg_lock_rows(ms__pg_batch *b, ms__pg_line *line, ms__pg_locked *l,
                                  ms_error *err)
{
    const ms__pg_total *t = ms__pg_totals_of(b);
    if (!t) return ms__pg_no_memory(err);
    l->tick = ms__pg_tick(b->s);
    int only = ms__pg_only_bucket(t);
    if (only >= 0 || !b->s->routed)
        return ms__pg_lock_some(b, line, t, only, l, err);
    for (int k = 0; k < MS_PG_BUCKETS; k++)
        if (t[k].here) MS__PG_TRY(ms__pg_lock_some(b, line, t, k, l, err));
    return MS_OK;
}

/* Copies a row's body as a record into the arena. */
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

/* Returns whether the two are the same record, but that one may be erased. */
static bool ms__pg_same_erased(ms__pg_batch *b, const ms_msg *x, const ms_msg *y)
{
    if (ms__pg_same(x, y)) return true;
    for (int i = 0; i < 2; i++) {
        const ms_msg *whole = i ? x : y, *other = i ? y : x;
        void *copy = ms_arena_alloc(&b->scratch, ms_size(whole));
        if (!copy) return false;
        memcpy(copy, whole, ms_size(whole));
        ms_record_erase(copy);
        if (ms__pg_same((const ms_msg *)copy, other)) return true;
    }
    return false;
}

/* Compares a shipped message with the stored one that has its key: as it was appended, or
 * as it is shown, since a compacted log has only that. */
static ms_result ms__pg_found_shipped(ms__pg_batch *b, const PGresult *r, int at,
                                      size_t i, const ms_msg *stored, ms_error *err)
{
    const ms_msg *shown = NULL;
    const ms__pg_row *row = &b->rows[i];
    bool own = row->key.ptr[0] == 's' || ms_str_equal(ms__pg_str(r, at, 5), b->source);
    bool changed = (row->m->flags & (MS_FLAG_AMENDED | MS_FLAG_REDACTED)) != 0;
    bool open = (row->m->flags & MS_FLAG_UNFINISHED) != 0;
    if (!PQgetisnull(r, at, 6))
        MS__PG_TRY(ms__pg_record(r, at, 6, row->repeats, &b->scratch, &shown, err));
    if (!own || changed ? ms__pg_same(changed && shown ? shown : stored, row->msg)
                        : ms__pg_same_erased(b, stored, row->msg) ||
                              (open && shown && ms__pg_same(shown, row->msg)))
        return MS_OK;
    if (!own) return ms__pg_reused(b, i, err);
    if (row->key.ptr[0] == 'k')
        return ms__pg_fail_at(b, err, MS_E_CONFLICT, i, "key",
                              "the source has shipped another message with this key");
    return ms__pg_fail_at(b, err, MS_E_CONFLICT, i, "seq",
                          "the source has shipped another message with this number");
}

/* Returns whether a stored record is the one that an attempt of this batch has sent: it
 * has its kind, time, and content (of a HIDE that is only known when it is stored). */
static bool ms__pg_is_mine(const ms__pg_row *row, const ms_msg *stored)
{
    int64_t time = 0;
    bool timed = ms_time(stored, &time);
    if (timed != row->has_time || (timed && time != row->time)) return false;
    if ((unsigned)ms_kind_of(stored) != row->kind) return false;
    if (row->kind == MS_KIND_HIDE)
        return ms_str_equal(ms_get(stored, MS_F_LOCATION).text, row->location);
    return ms__pg_same(stored, row->msg);
}

/* Takes a stored row with the key of row i. A made key shows that the batch is stored, if
 * an attempt of it may have stored anything: rows without keys of their own follow the
 * first one, a tick each. Else another client has the random part of this one: the batch
 * gets other keys, and is tried again. */
static ms_result ms__pg_found(ms__pg_batch *b, ms__pg_line *line, const PGresult *r,
                              int at, size_t i, ms__pg_locked *l, ms_error *err)
{
    ms__pg_row *row = &b->rows[i];
    const ms_msg *stored;
    uint64_t seq = (uint64_t)ms__pg_int(r, at, 1), place = (uint64_t)ms__pg_int(r, at, 2);
    MS__PG_TRY(ms__pg_record(r, at, 4, seq, &b->scratch, &stored, err));
    row->repeats = seq ? seq : place; /* facts of a location are about no message */
    if (b->source.len && row->kind == MS_KIND_MESSAGE)
        return ms__pg_found_shipped(b, r, at, i, stored, err);
    if (row->key.ptr[0] == 's') return MS_OK;
    if (row->key.ptr[0] == 'k')
        return ms__pg_same(stored, row->msg) ? MS_OK : ms__pg_reused(b, i, err);
    if (!b->unanswered || !ms__pg_is_mine(row, stored)) {
        ms__pg_client_renew(b->s, PQbackendPID(line->conn));
        MS__PG_TRY(ms__pg_tickets(b, err));
        line->again = true;
        return ms_error_set(err, MS_E_CONFLICT, "another client makes the same keys");
    }
    l->was_stored = true;
    if (row->kind == MS_KIND_HIDE) {
        ms_str value;
        if (ms_json_member(ms_content(stored).text, MS_STR("messages"), &value))
            (void)ms_json_u64(value, &b->hidden);
    }
    for (size_t k = 1; k < b->n && !b->keyed; k++)
        b->rows[k].repeats = b->opts->keep_seq
                               ? b->rows[k].m->seq
                               : (place / MS_PG_BUCKETS + k) * MS_PG_BUCKETS +
                                     b->rows[k].bucket;
    return MS_OK;
}

/* Looks for the keys of the rows of a bucket, or (bucket < 0) of all. */
static ms_result ms__pg_look_some(ms__pg_batch *b, ms__pg_line *line, int bucket,
                                  ms__pg_locked *l, ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    ms__pg_array buckets = ms__pg_array_of(&b->scratch, MS__PG_INT4);
    ms__pg_array at = ms__pg_array_of(&b->scratch, MS__PG_INT8);
    ms__pg_array locations = ms__pg_array_of(&b->scratch, MS__PG_TEXT);
    ms__pg_array keys = ms__pg_array_of(&b->scratch, MS__PG_BYTEA);
    ms_result code = MS_OK;
    for (size_t i = 0; i < b->n; i++) {
        if (!b->rows[i].key.ptr || (bucket >= 0 && (int)b->rows[i].bucket != bucket))
            continue;
        ms__pg_push_number(&buckets, b->rows[i].bucket);
        ms__pg_push_number(&at, (int64_t)i);
        ms__pg_push(&locations, b->rows[i].location);
        ms__pg_push(&keys, b->rows[i].key);
    }
    if (at.n == 0) return MS_OK;
    ms__pg_start(&q, bucket < 0 ? ms__pg_rows_of_keys_spread : ms__pg_rows_of_keys);
    ms__pg_array_param(&q, &buckets);
    ms__pg_array_param(&q, &at);
    ms__pg_array_param(&q, &locations);
    ms__pg_array_param(&q, &keys);
    if (bucket >= 0) ms__pg_number(&q, MS__PG_INT4, bucket);
    MS__PG_TRY(ms__pg_exec(line, &q, &r, err));
    for (int k = 0; k < PQntuples(r) && code == MS_OK; k++)
        code = ms__pg_found(b, line, r, k, (size_t)ms__pg_int(r, k, 0), l, err);
    PQclear(r);
    return code;
}

/* Looks for all keys of the batch. */
static ms_result ms__pg_look(ms__pg_batch *b, ms__pg_line *line, ms__pg_locked *l,
                             ms_error *err)
{
    for (size_t i = 0; i < b->n; i++) b->rows[i].repeats = 0;
    const ms__pg_total *t = ms__pg_totals_of(b);
    if (!t) return ms__pg_no_memory(err);
    int only = ms__pg_only_bucket(t);
    if (only >= 0 || !b->s->routed) return ms__pg_look_some(b, line, only, l, err);
    for (int k = 0; k < MS_PG_BUCKETS; k++)
        if (t[k].here) MS__PG_TRY(ms__pg_look_some(b, line, k, l, err));
    return MS_OK;
}

/* Compares the last visible message of the location with the expected one. */
static ms_result ms__pg_expect(ms__pg_batch *b, ms__pg_line *line, ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    char text[128];
    ms__pg_start(&q, NULL);
    ms__pg_say(&q, "select newest from msgstore_location where true");
    ms__pg_say_bucket(&q, b->opts->location);
    MS__PG_TRY(ms__pg_exec(line, &q, &r, err));
    uint64_t last = PQntuples(r) > 0 ? (uint64_t)ms__pg_int(r, 0, 0) : 0;
    PQclear(r);
    if (last == b->opts->expect_seq) return MS_OK;
    snprintf(text, sizeof text, "the last message is %llu, %llu was expected",
             (unsigned long long)last, (unsigned long long)b->opts->expect_seq);
    return ms_error_set(err, MS_E_CONFLICT, text);
}

/* Finds the newest number on the servers, each by itself. */
static ms_result ms__pg_newest_of_all(ms__pg *s, uint64_t *newest, ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    ms__pg_start(&q, ms__pg_newest);
    for (size_t i = 0; i < s->n_servers; i++) {
        MS__PG_TRY(ms__pg_ask(s, i, &q, &r, err));
        uint64_t seq = (uint64_t)ms__pg_int(r, 0, 0);
        if (seq > *newest) *newest = seq;
        PQclear(r);
    }
    return MS_OK;
}

/* Checks the caller's numbers: they must rise, and be larger than all in the store. */
static ms_result ms__pg_kept_check(ms__pg_batch *b, ms__pg_line *line, ms__pg_locked *l,
                                   ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    ms__pg_start(&q, ms__pg_newest);
    MS__PG_TRY(ms__pg_exec(line, &q, &r, err));
    uint64_t last = (uint64_t)ms__pg_int(r, 0, 0);
    PQclear(r);
    if (b->newest > last) last = b->newest;
    for (size_t i = 0; i < b->n; i++) {
        uint64_t seq = b->rows[i].m->seq;
        if (b->rows[i].repeats) continue;
        if (seq <= last)
            return ms__pg_fail_at(b, err, MS_E_ARGUMENT, i, "seq",
                                  "the number does not follow the last one");
        if (seq > MS__PG_KEPT_MOST) /* others would run out of numbers */
            return ms__pg_fail_at(b, err, MS_E_ARGUMENT, i, "seq",
                                  "the number is above 2^52");
        last = seq;
    }
    l->end = (int64_t)(last / MS_PG_BUCKETS);
    return MS_OK;
}

/* Sets places and numbers; the last new row has the flag COMMIT. */
static ms_result ms__pg_place(ms__pg_batch *b, ms__pg_line *line, ms__pg_locked *l,
                              ms_error *err)
{
    ms__pg_row *last = NULL;
    int64_t tick = l->tick;
    for (size_t i = 0; i < b->n; i++) {
        ms__pg_row *row = &b->rows[i];
        const ms__pg_row *first = row->earlier;
        if (first && !row->repeats) row->retired = first->retired;
        if (first && !row->repeats)
            row->repeats = first->repeats ? first->repeats : first->seq;
        if (row->repeats) continue;
        row->place = (uint64_t)tick++ * MS_PG_BUCKETS + row->bucket;
        if (row->kind == MS_KIND_MESSAGE)
            row->seq = b->opts->keep_seq ? row->m->seq : row->place;
        last = row;
    }
    if (b->opts->keep_seq) MS__PG_TRY(ms__pg_kept_check(b, line, l, err));
    if (!last || last == &b->rows[b->n - 1]) return MS_OK;
    return ms__pg_encode(b, last, true, err);
}

/* Returns whether a time at a location falls under a rule: rows of prefix and time. */
static bool ms__pg_is_under(const PGresult *rules, ms_str location, int64_t time)
{
    for (int i = 0; i < PQntuples(rules); i++) {
        ms_str prefix = ms__pg_str(rules, i, 0);
        if (time < ms__pg_int(rules, i, 1) && location.len >= prefix.len &&
            (prefix.len == 0 || memcmp(location.ptr, prefix.ptr, prefix.len) == 0))
            return true;
    }
    return false;
}

static const char ms__pg_rules[] = "select prefix, before from msgstore_retired";

/* Returns whether the location of a row has any record. */
static ms_result ms__pg_is_there(ms__pg_line *line, const ms__pg_row *row, bool *there,
                                 ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    ms__pg_start(&q, NULL);
    ms__pg_say(&q, "select 1 from msgstore_location where true");
    ms__pg_say_bucket(&q, row->location);
    MS__PG_TRY(ms__pg_exec(line, &q, &r, err));
    *there = PQntuples(r) > 0;
    PQclear(r);
    return MS_OK;
}

/* Marks the new rows of a shipped batch that fall under a rule: messages, and facts of a
 * location that is not there. A rule is committed before ms_pg_retire takes the lock of
 * the bucket, so either it is seen here, or the row is seen there (PT1). */
static ms_result ms__pg_mark_retired(ms__pg_batch *b, ms__pg_line *line, ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    ms_result code = MS_OK;
    ms__pg_start(&q, ms__pg_rules);
    MS__PG_TRY(ms__pg_exec(line, &q, &r, err));
    for (size_t i = 0; i < b->n && code == MS_OK; i++) {
        ms__pg_row *row = &b->rows[i];
        bool there = row->kind != MS_KIND_MESSAGE && row->kind != MS_KIND_LOCATION;
        if (row->retired) row->repeats = 0; /* in an earlier attempt */
        row->retired = false;
        if (there || row->repeats || !row->has_time) continue;
        if (!ms__pg_is_under(r, row->location, row->time)) continue;
        if (row->kind == MS_KIND_LOCATION) code = ms__pg_is_there(line, row, &there, err);
        row->retired = !there;
        if (row->retired) row->repeats = 1; /* no message of the store has this number */
    }
    PQclear(r);
    return code;
}

/* Checks that the server has the position that the shipper goes on from. A call that is
 * repeated may have come to another server, which went back. */
static ms_result ms__pg_position_check(ms__pg_batch *b, ms__pg_line *line, ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    unsigned bucket = ms_pg_bucket(b->source);
    if (!b->at || b->s->owner[bucket] != b->server) return MS_OK;
    ms__pg_start(&q, "select message, changes from msgstore_source where"
                     " source = $1::bytea and bucket = $2::int");
    ms__pg_bytea(&q, b->source);
    ms__pg_number(&q, MS__PG_INT4, bucket);
    MS__PG_TRY(ms__pg_exec(line, &q, &r, err));
    bool some = PQntuples(r) > 0;
    bool here = b->at->message == (some ? (uint64_t)ms__pg_int(r, 0, 0) : 0) &&
                b->at->changes == (some ? (uint64_t)ms__pg_int(r, 0, 1) : 0);
    PQclear(r);
    if (here) return MS_OK;
    return ms_error_set(err, MS_E_CONFLICT, "the position on the server is another one");
}

static ms_result ms__pg_change_apply(ms__pg_batch *b, ms__pg_line *line, ms__pg_locked *l,
                                     bool *some, ms_error *err);

/* Does everything between begin and commit. *some: there is something to commit. */
static ms_result ms__pg_under_lock(ms__pg_batch *b, ms__pg_line *line, ms__pg_locked *l,
                                   bool *some, ms_error *err)
{
    size_t fresh = 0;
    int64_t last;
    MS__PG_TRY(ms__pg_lock_rows(b, line, l, err));
    MS__PG_TRY(ms__pg_position_check(b, line, err));
    if (!b->source.len || b->change_only || b->uncertain)
        MS__PG_TRY(ms__pg_look(b, line, l, err));
    if (l->was_stored) return MS_OK;
    if (b->source.len) MS__PG_TRY(ms__pg_mark_retired(b, line, err));
    for (size_t i = 0; i < b->n; i++) fresh += b->rows[i].repeats == 0;
    if (fresh == 0) return MS_OK;
    l->ticks = (int64_t)fresh;
    if (b->opts->expect) MS__PG_TRY(ms__pg_expect(b, line, err));
    MS__PG_TRY(ms__pg_place(b, line, l, err));
    *some = true;
    if (b->records) MS__PG_TRY(ms__pg_change_apply(b, line, l, some, err));
    return *some ? ms__pg_send_many(b, line, l, &last, err) : MS_OK;
}

static ms_result ms__pg_transaction(ms__pg_batch *b, ms__pg_line *line, ms_error *err)
{
    ms__pg_locked l;
    bool some = false, again = b->uncertain;
    memset(&l, 0, sizeof l);
    b->hidden = 0;
    MS__PG_TRY(ms__pg_simple(line, "begin isolation level read committed", err));
    ms_result code = ms__pg_under_lock(b, line, &l, &some, err);
    if (code != MS_OK || some) b->uncertain = true; /* a key may be stored */
    if (code == MS_OK) { /* also of what was found: see (PA3) */
        MS__PG_TRY(ms__pg_simple(line, "commit", err));
        ms__pg_lock_take(&b->s->lock);
        b->s->resolved += l.was_stored && again;
        ms__pg_lock_give(&b->s->lock);
        return MS_OK;
    }
    if (line->lost) return code;
    bool repeat = line->again;
    (void)ms__pg_simple(line, "rollback", NULL);
    line->again = repeat;
    return code;
}

/* ---- One attempt. */

static void ms__pg_notify(ms__pg *s, ms__pg_line *line, const ms__pg_batch *b);

static ms_result ms__pg_append_step(ms__pg *s, ms__pg_line *line, void *ctx,
                                    ms_error *err)
{
    ms__pg_batch *b = (ms__pg_batch *)ctx;
    ms_result code = MS_OK;
    bool stored = false;
    bool one = b->n == 1, expect = b->opts->expect;
    bool facts = ms__pg_is_facts(b) && !b->source.len && !b->uncertain && !expect;
    bool quick = !b->opts->keep_seq && !b->spread && !b->records && !b->uncertain &&
                 (expect ? one && !b->keyed : one || !b->keyed) &&
                 (!expect || ms_str_equal(b->opts->location, b->rows[0].location));
    ms_arena_reset(&b->scratch);
    if (facts) {
        code = ms__pg_send_facts(b, line, &stored, err);
    } else if (quick && one) {
        code = ms__pg_send_one(b, line, &stored, err);
    } else if (quick) {
        ms__pg_locked none;
        int64_t last = 0;
        memset(&none, 0, sizeof none);
        code = ms__pg_send_many(b, line, &none, &last, err);
        stored = last != 0;
        for (size_t i = 0; i < b->n && stored; i++)
            b->rows[i].place = ((uint64_t)last - b->n + i + 1) * MS_PG_BUCKETS +
                               b->rows[i].bucket;
    }
    if (line->sent) b->uncertain = true;
    if (code == MS_OK && !stored) code = ms__pg_transaction(b, line, err);
    if (line->sent && line->lost) b->unanswered = true;
    if (code == MS_OK) ms__pg_notify(s, line, b);
    return code;
}

/* Returns the result of an append that failed. After an attempt without an answer, codes
 * of a later one that may not have looked for its keys would promise too much. */
static ms_result ms__pg_failed(const ms__pg_batch *b, ms_result code, ms_error *err)
{
    char text[sizeof err->message];
    if (!b->unanswered || (code != MS_E_BUSY && code != MS_E_FULL && code != MS_E_IO &&
                           code != MS_E_READ_ONLY && code != MS_E_NO_MEMORY))
        return code;
    if (err) memcpy(text, err->message, sizeof text);
    return ms__pg_fail(err, MS_E_UNREACHABLE, "the append may be stored",
                       err ? text : NULL);
}

static void ms__pg_facts_enter(ms__pg *s, ms_str location);

/* Stores a batch and reports the numbers. b has the store, the options, the n messages or
 * records, and all other members that are not zero. */
static ms_result ms__pg_store_batch(ms__pg_batch *b, ms_str location, size_t n,
                                    ms_error *err)
{
    uint64_t newest = 0;
    MS__PG_TRY(ms__pg_check(b->s, true, err));
    ms_result code = ms__pg_batch_fill(b, location, n, err);
    if (code == MS_OK && b->opts->keep_seq && b->s->n_servers > 1)
        code = ms__pg_newest_of_all(b->s, &b->newest, err);
    if (code == MS_OK) {
        code = ms__pg_call(b->s, b->server, ms__pg_append_step, b, err);
        code = ms__pg_failed(b, code, err);
    }
    for (size_t i = 0; i < n && code == MS_OK; i++) {
        const ms__pg_row *row = &b->rows[i];
        uint64_t seq = row->repeats ? row->repeats : row->seq ? row->seq : row->place;
        if (b->opts->seqs) b->opts->seqs[i] = row->kind == MS_KIND_HIDE ? b->hidden : seq;
        if (seq > newest && row->kind == MS_KIND_MESSAGE) newest = seq;
        if (row->place > newest) newest = row->place;
        b->retired += row->retired;
    }
    ms__pg_saw(b->s, (int64_t)(newest / MS_PG_BUCKETS));
    if (code == MS_OK && b->facts_due && b->retired == 0)
        ms__pg_facts_enter(b->s, b->rows[0].location);
    ms_arena_deinit(&b->arena);
    ms_arena_deinit(&b->scratch);
    return code;
}

static ms_result ms__pg_append(ms_store *store, ms_str location,
                               const ms_envelope *messages, size_t n,
                               const ms_append_opts *opts, ms_error *err)
{
    ms__pg_batch b;
    memset(&b, 0, sizeof b);
    b.s = ms__pg_of(store);
    b.opts = opts;
    b.messages = messages;
    return ms__pg_store_batch(&b, location, n, err);
}

/* ==== [pg-change] ====================================================================
 * A change is checked against the versions of its message under the lock, as the message
 * is now, then entered: a row for the record, and the end of the version or versions that
 * it replaces.
 * ================================================================================== */

/* Checks whether the change may be made. r: the first and the last version of its
 * message. */
static ms_result ms__pg_change_check(ms__pg_batch *b, const ms__pg_row *row,
                                     const PGresult *r, ms__pg_locked *l, ms_error *err)
{
    const ms_msg *shown;
    int last = PQntuples(r) - 1;
    if (last < 0) return ms_error_set(err, MS_E_NOT_FOUND, "no message with this number");
    if (!ms_str_equal(ms__pg_str(r, 0, 2), row->location))
        return ms_error_set(err, MS_E_ARGUMENT, "the message is of another location");
    if (!PQgetisnull(r, last, 3))
        return ms_error_set(err, MS_E_HIDDEN, "the message is hidden");
    MS__PG_TRY(ms__pg_record(r, last, 4, row->seq, &b->scratch, &shown, err));
    l->shown_kind = ms__pg_int(r, last, 0);
    l->shown_place = ms__pg_int(r, last, 5);
    uint32_t flags = ms_flags(shown);
    bool open = ms_kind_of(shown) == MS_KIND_MESSAGE && (flags & MS_FLAG_UNFINISHED) &&
                !(flags & MS_FLAG_AMENDED); /* a copy of a recovered stream */
    if ((row->kind == MS_KIND_PART || row->must_be_open) && !open)
        return ms_error_set(err, MS_E_CLOSED, "the message is not an open stream");
    if (row->kind != MS_KIND_AMEND) return MS_OK;
    if (ms__pg_int(r, 0, 1) != (int64_t)row->m->type)
        return ms_error_set(err, MS_E_TYPE, "the message is of another type");
    if ((flags & MS_FLAG_REDACTED) && !(row->m->flags & MS_FLAG_REDACTED))
        return ms_error_set(err, MS_E_CONFLICT, "the message is redacted");
    return MS_OK;
}

static ms_result ms__pg_change_target(ms__pg_batch *b, ms__pg_line *line,
                                      const ms__pg_row *row, ms__pg_locked *l,
                                      ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    ms__pg_start(&q, ms__pg_versions_routed);
    ms__pg_number(&q, MS__PG_INT8, ms__pg_signed(row->seq));
    ms__pg_number(&q, MS__PG_INT4, row->bucket);
    MS__PG_TRY(ms__pg_exec(line, &q, &r, err));
    if (PQntuples(r) == 0) { /* of another location, perhaps */
        PQclear(r);
        q.sql = ms__pg_versions;
        q.n = 1;
        MS__PG_TRY(ms__pg_exec(line, &q, &r, err));
    }
    ms_result code = ms__pg_change_check(b, row, r, l, err);
    PQclear(r);
    return code;
}

/* Ends the version that an AMEND replaces. */
static ms_result ms__pg_amend(ms__pg_line *line, const ms__pg_row *row,
                              const ms__pg_locked *l, ms_error *err)
{
    ms__pg_stmt q;
    ms__pg_start(&q, "update msgstore_record set until = $5::bigint where bucket ="
                     " $1::int and seq = $2::bigint and kind = $3::smallint and place ="
                     " $4::bigint");
    ms__pg_number(&q, MS__PG_INT4, row->bucket);
    ms__pg_number(&q, MS__PG_INT8, ms__pg_signed(row->seq));
    ms__pg_number(&q, MS__PG_INT2, l->shown_kind);
    ms__pg_number(&q, MS__PG_INT8, l->shown_place);
    ms__pg_number(&q, MS__PG_INT8, (int64_t)row->place);
    MS__PG_TRY(ms__pg_exec(line, &q, NULL, err));
    ms__pg_start(&q, "update msgstore_location set last_time = case when newest ="
                     " $3::bigint then $4::bigint else last_time end, first_time = case"
                     " when first = $3::bigint then $4::bigint else first_time end where"
                     " bucket = $1::int and location = $2::text and (newest = $3::bigint"
                     " or first = $3::bigint)");
    ms__pg_number(&q, MS__PG_INT4, row->bucket);
    ms__pg_text(&q, row->location);
    ms__pg_number(&q, MS__PG_INT8, ms__pg_signed(row->seq));
    ms__pg_number(&q, MS__PG_INT8, row->time);
    if (!row->has_time) q.values[q.n - 1] = NULL;
    return ms__pg_exec(line, &q, NULL, err);
}

/* Enters in the table of locations that messages of a location were hidden. */
static ms_result ms__pg_hide_enter(ms__pg_line *line, const ms__pg_row *row,
                                   uint64_t hidden, ms_error *err)
{
    ms__pg_stmt q;
    ms__pg_start(&q, "with a as (select seq, time from msgstore_record where bucket ="
                     " $1::int and location = $2::text and " MS__PG_SHOWN " and seq >="
                     " (select first from msgstore_location where bucket = $1::int and"
                     " location = $2::text) order by seq limit 1), z as (select seq, time"
                     " from msgstore_record where bucket = $1::int and location ="
                     " $2::text and " MS__PG_SHOWN " and seq <= (select newest from"
                     " msgstore_location where bucket = $1::int and location = $2::text)"
                     " order by seq desc limit 1) update msgstore_location set n = n -"
                     " $3::bigint, first = coalesce((select seq from a), 0), first_time ="
                     " (select time from a), newest = coalesce((select seq from z), 0),"
                     " last_time = (select time from z), era = coalesce((select seq from"
                     " z), 0) >> 26 where bucket = $1::int and location = $2::text");
    ms__pg_number(&q, MS__PG_INT4, row->bucket);
    ms__pg_text(&q, row->location);
    ms__pg_number(&q, MS__PG_INT8, (int64_t)hidden);
    return ms__pg_exec(line, &q, NULL, err);
}

/* Ends the versions of a range, and writes their number into the record. *some false:
 * the range has none, and nothing is written. */
static ms_result ms__pg_hide(ms__pg_batch *b, ms__pg_line *line, ms__pg_row *row,
                             bool *some, ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    ms_envelope m = *row->m;
    char text[128];
    uint64_t newest = row->place - 1;
    row->upto = b->opts->expect_seq < newest ? b->opts->expect_seq : newest;
    ms__pg_start(&q, NULL);
    ms__pg_say_number(&q, "update msgstore_record set until = ", (int64_t)row->place);
    ms__pg_say_number(&q, " where seq >= ", ms__pg_signed(row->seq));
    ms__pg_say_number(&q, " and seq <= ", ms__pg_signed(row->upto));
    ms__pg_say_bucket(&q, row->location);
    ms__pg_say(&q, " and " MS__PG_SHOWN);
    MS__PG_TRY(ms__pg_exec(line, &q, &r, err));
    b->hidden = strtoull(PQcmdTuples(r), NULL, 10);
    PQclear(r);
    *some = b->hidden > 0;
    if (!*some) return MS_OK;
    MS__PG_TRY(ms__pg_hide_enter(line, row, b->hidden, err));
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

/* Applies the change of a batch, which is its last record. */
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
                               const ms_record *records, size_t n,
                               const ms_append_opts *opts, ms_error *err)
{
    ms__pg_batch b;
    memset(&b, 0, sizeof b);
    b.s = ms__pg_of(store);
    b.opts = opts;
    b.records = records;
    return ms__pg_store_batch(&b, location, n, err);
}

/* Overwrites a row in one statement, so one of the three steps does it all. The
 * record's place is before it in the cursor's memory. */
static ms_result ms__pg_erase(ms_store *store, const ms_msg *record, unsigned step,
                              ms_error *err)
{
    ms__pg *s = ms__pg_of(store);
    ms__pg_stmt q;
    uint64_t place;
    ms_arena arena = ms__pg_arena(s);
    MS__PG_TRY(ms__pg_check(s, true, err));
    if (step != 0) return MS_OK;
    void *bytes = ms_arena_alloc(&arena, ms_size(record));
    if (!bytes) return ms__pg_no_memory(err);
    memcpy(bytes, record, ms_size(record));
    ms_record_erase(bytes);
    memcpy(&place, (const char *)(const void *)record - 8, 8);
    unsigned bucket = ms_pg_bucket(ms_get(record, MS_F_LOCATION).text);
    ms__pg_start(&q, "update msgstore_record set body = $4::bytea where bucket = $1::int"
                     " and seq = $2::bigint and place = $3::bigint");
    ms__pg_number(&q, MS__PG_INT4, bucket);
    ms__pg_number(&q, MS__PG_INT8, ms__pg_signed(ms_seq(record)));
    ms__pg_number(&q, MS__PG_INT8, (int64_t)place);
    ms__pg_bytea(&q, ms_str_n((const char *)bytes, ms_size(record)));
    ms_result code = ms__pg_ask(s, s->owner[bucket], &q, NULL, err);
    ms_arena_deinit(&arena);
    return code;
}

/* ==== [pg-ship] ======================================================================
 * A shipped record has a key, so shipping it again stores nothing: the server refuses a
 * batch with a key that is there, and the next attempt looks for all keys first, and
 * compares. That is rare, since the position is noted after each batch. A message with a
 * key of its own has that one alone. A change is about a message whose number here is not
 * its number in the source: the key of the message leads to it, if its row is of this
 * source. (One that was appended here has none: then the content decides.)
 *
 * Positions move by compare and set. A server that went back to an earlier state (a
 * replica that had not received everything took over, a backup was restored) has an
 * earlier position, in the same state as its rows: the shipper reads it, and ships what
 * is missing.
 *
 * (PS1) A row is compared wherever its key is found; what differs is never left out
 *       without a code.
 * (PS2) A change reaches only rows of its own source.
 * (PS3) The position on a server is never ahead of its rows.
 * (PS4) Rows are stored only after the position that their shipper goes on from. So the
 *       messages of a location stay in their order where the server went back.
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

MS_API ms_result ms_pg_ship_begin(ms_store *store, ms_str source,
                                  ms_pg_position *position, ms_error *err)
{
    ms__pg *s = ms__pg_of(store);
    ms__pg_stmt q;
    PGresult *r;
    unsigned bucket = ms_pg_bucket(source);
    memset(position, 0, sizeof *position);
    MS__PG_TRY(ms__pg_ship_check(store, source, err));
    ms__pg_start(&q, "select message, changes, mark, file, left_out, retired from"
                     " msgstore_source where source = $1::bytea and bucket = $2::int");
    ms__pg_bytea(&q, source);
    ms__pg_number(&q, MS__PG_INT4, bucket);
    MS__PG_TRY(ms__pg_ask(s, s->owner[bucket], &q, &r, err));
    if (PQntuples(r) > 0) {
        ms_str file = ms__pg_str(r, 0, 3);
        position->message = (uint64_t)ms__pg_int(r, 0, 0);
        position->changes = (uint64_t)ms__pg_int(r, 0, 1);
        position->mark = (uint64_t)ms__pg_int(r, 0, 2);
        position->left_out = (uint64_t)ms__pg_int(r, 0, 4);
        position->retired = (uint64_t)ms__pg_int(r, 0, 5);
        if (file.len == sizeof position->file)
            memcpy(position->file, file.ptr, file.len);
    }
    PQclear(r);
    return MS_OK;
}

MS_API ms_result ms_pg_ship_end(ms_store *store, ms_str source,
                                const ms_pg_position *from, const ms_pg_position *to,
                                ms_error *err)
{
    ms__pg *s = ms__pg_of(store);
    ms__pg_stmt q;
    PGresult *r;
    unsigned bucket = ms_pg_bucket(source);
    MS__PG_TRY(ms__pg_ship_check(store, source, err));
    MS__PG_TRY(ms__pg_check(s, true, err));
    ms__pg_start(&q, "with old as (update msgstore_source set message = $3::bigint,"
                     " changes = $4::bigint, mark = $5::bigint, file = $6::bytea,"
                     " left_out = $9::bigint, retired = $10::bigint where"
                     " source = $1::bytea and bucket = $2::int and message = $7::bigint"
                     " and changes = $8::bigint returning 1), new as (insert into"
                     " msgstore_source (source, bucket, message, changes, mark, file,"
                     " left_out, retired) select $1::bytea, $2::int, $3::bigint,"
                     " $4::bigint, $5::bigint, $6::bytea, $9::bigint, $10::bigint where"
                     " $7::bigint = 0"
                     " and $8::bigint = 0 and not exists"
                     " (select 1 from old) on conflict do nothing returning 1)"
                     " select 1 from old union all select 1 from new");
    ms__pg_bytea(&q, source);
    ms__pg_number(&q, MS__PG_INT4, bucket);
    ms__pg_number(&q, MS__PG_INT8, ms__pg_signed(to->message));
    ms__pg_number(&q, MS__PG_INT8, ms__pg_signed(to->changes));
    ms__pg_number(&q, MS__PG_INT8, ms__pg_signed(to->mark));
    ms__pg_bytea(&q, ms_str_n((const char *)to->file, sizeof to->file));
    ms__pg_number(&q, MS__PG_INT8, ms__pg_signed(from->message));
    ms__pg_number(&q, MS__PG_INT8, ms__pg_signed(from->changes));
    ms__pg_number(&q, MS__PG_INT8, ms__pg_signed(to->left_out));
    ms__pg_number(&q, MS__PG_INT8, ms__pg_signed(to->retired));
    MS__PG_TRY(ms__pg_ask(s, s->owner[bucket], &q, &r, err));
    bool moved = PQntuples(r) > 0;
    PQclear(r);
    if (moved) return MS_OK;
    ms_pg_position now;
    MS__PG_TRY(ms_pg_ship_begin(store, source, &now, err));
    if (from->message == 0 && from->changes == 0 && now.message == 0 && now.changes == 0)
        return ms_error_set(err, MS_E_READ_ONLY, "this log was shipped by another role");
    return ms_error_set(err, MS_E_CONFLICT, "the position on the server is another one");
}

/* Stores rows as a change does, so that all flags are kept. No time is set. about: of a
 * change the number in the source; replaces: the place of the version that it does. */
static ms_result ms__pg_ship_rows(ms__pg *s, ms_str source, const ms_pg_position *at,
                                  const ms_record *rows, size_t n, uint64_t about,
                                  uint64_t replaces, uint64_t *retired, ms_error *err)
{
    ms__pg_batch b;
    ms_append_opts opts;
    memset(&b, 0, sizeof b);
    memset(&opts, 0, sizeof opts);
    b.change_only = rows[0].kind != MS_KIND_MESSAGE;
    if (b.change_only) /* a HIDE: of one message */
        opts.expect_seq = rows[0].envelope.seq;
    b.s = s;
    b.opts = &opts;
    b.records = rows;
    b.source = source;
    b.at = at;
    b.about = about;
    b.replaces = replaces;
    ms_result code = ms__pg_store_batch(&b, ms_str_n(NULL, 0), n, err);
    if (code == MS_OK) *retired += b.retired;
    return code;
}

#define MS__PG_SHIP_BUCKETS 64 /* that a transaction locks, at most */

/* Divides the buckets of messages into groups of MS__PG_SHIP_BUCKETS, each of one server.
 * group[bucket]: 1 and up. Returns their number. */
static unsigned ms__pg_ship_groups(const ms__pg *s, const ms_envelope *messages, size_t n,
                                   uint16_t group[MS_PG_BUCKETS])
{
    unsigned groups = 0, in_group = 0;
    size_t server = 0;
    memset(group, 0, MS_PG_BUCKETS * sizeof *group);
    for (size_t i = 0; i < n; i++) group[ms_pg_bucket(messages[i].location)] = 1;
    for (unsigned k = 0; k < MS_PG_BUCKETS; k++) {
        if (!group[k]) continue;
        if (groups == 0 || in_group == MS__PG_SHIP_BUCKETS || s->owner[k] != server) {
            groups++;
            in_group = 0;
            server = s->owner[k];
        }
        group[k] = (uint16_t)groups;
        in_group++;
    }
    return groups;
}

MS_API ms_result ms_pg_ship(ms_store *store, ms_str source, const ms_pg_position *at,
                            const ms_envelope *messages, size_t n, uint64_t *retired,
                            ms_error *err)
{
    uint16_t group[MS_PG_BUCKETS];
    uint64_t under = 0;
    ms_result code = MS_OK;
    MS__PG_TRY(ms__pg_ship_check(store, source, err));
    ms__pg *s = ms__pg_of(store);
    ms_arena arena = ms__pg_arena(s);
    ms_record *rows = (ms_record *)ms_arena_alloc(&arena, n * sizeof *rows);
    if (!rows) return ms__pg_no_memory(err);
    unsigned groups = ms__pg_ship_groups(s, messages, n, group);
    for (unsigned g = 1; g <= groups && code == MS_OK; g++) {
        size_t count = 0;
        for (size_t i = 0; i < n; i++) {
            if (group[ms_pg_bucket(messages[i].location)] != g) continue;
            rows[count].envelope = messages[i];
            rows[count].kind = MS_KIND_MESSAGE;
            rows[count].must_be_open = false;
            rows[count].keep_unset_time = true;
            count++;
        }
        code = ms__pg_ship_rows(s, source, at, rows, count, 0, 0, &under, err);
    }
    ms_arena_deinit(&arena);
    if (code == MS_OK) *retired += under;
    return code;
}

/* Finds the row that has the key of a message of the source: its number here, or an
 * error. */
static ms_result ms__pg_ship_find(ms__pg *s, ms_str source, const ms_msg *message,
                                  PGresult **out, ms_error *err)
{
    ms__pg_stmt q;
    unsigned char key[MS_KEY_MAX + 96];
    ms_str own = ms_get(message, MS_F_KEY).text;
    ms_str location = ms_get(message, MS_F_LOCATION).text;
    ms_str name = own.ptr ? own : source;
    key[0] = own.ptr ? 'k' : 's';
    memcpy(key + 1, name.ptr, name.len);
    if (!own.ptr) ms__pg_put(key + 1 + name.len, ms_seq(message), 8);
    ms__pg_start(&q, NULL);
    ms__pg_say(&q, "select 0::bigint, r.seq, r.place, r.kind, r.body, r.source,"
                   " (select a.body from msgstore_record a where a.bucket = $2::int and"
                   " a.seq = r.seq and a.kind = 3 order by a.place desc limit 1),"
                   " r.upto");
    ms__pg_say_param(&q, " from msgstore_record r where key = ", "bytea"); /* $1 */
    ms__pg_bytea(&q, ms_str_n((const char *)key, 1 + name.len + (own.ptr ? 0u : 8u)));
    ms__pg_say_bucket(&q, location);
    MS__PG_TRY(ms__pg_ask(s, s->owner[ms_pg_bucket(location)], &q, out, err));
    if (PQntuples(*out) > 0) return MS_OK;
    PQclear(*out);
    *out = NULL;
    return ms_error_set(err, MS_E_NOT_FOUND, "the message was not shipped");
}

/* Compares a found row with the message. A row whose source is not known must have the
 * same content, erased or not. */
static ms_result ms__pg_ship_compare(ms__pg *s, ms_str source, const ms_msg *message,
                                     const PGresult *r, bool content, ms_error *err)
{
    ms__pg_batch b;
    ms__pg_row row;
    const ms_msg *stored;
    ms_envelope m = ms_envelope_of(message);
    char made = 's';
    memset(&b, 0, sizeof b);
    memset(&row, 0, sizeof row);
    b.s = s;
    b.source = source;
    b.rows = &row;
    b.n = 1;
    b.scratch = ms__pg_arena(s);
    row.m = &m;
    row.msg = message;
    row.repeats = (uint64_t)ms__pg_int(r, 0, 1);
    row.key = ms_str_n(m.key.ptr ? "k" : &made, 1);
    bool own = !m.key.ptr || ms_str_equal(ms__pg_str(r, 0, 5), source);
    ms_result code = MS_OK;
    if (!own && !PQgetisnull(r, 0, 5)) code = ms__pg_reused(&b, 0, err);
    if (code == MS_OK && (content || !own)) {
        code = ms__pg_record(r, 0, 4, row.repeats, &b.scratch, &stored, err);
        if (code == MS_OK) code = ms__pg_found_shipped(&b, r, 0, 0, stored, err);
    }
    ms_arena_deinit(&b.scratch);
    return code;
}

/* Returns `absent`, the result for a message that is not stored, or MS_OK if it falls
 * under a rule. */
static ms_result ms__pg_ship_absent(ms__pg *s, const ms_msg *message, ms_result absent,
                                    bool *under, ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    int64_t time;
    ms_str location = ms_get(message, MS_F_LOCATION).text;
    *under = false;
    if (absent != MS_E_NOT_FOUND || !ms_time(message, &time)) return absent;
    ms__pg_start(&q, ms__pg_rules);
    MS__PG_TRY(ms__pg_ask(s, s->owner[ms_pg_bucket(location)], &q, &r, err));
    *under = ms__pg_is_under(r, location, time);
    PQclear(r);
    if (*under) return MS_OK;
    return ms_error_set(err, MS_E_NOT_FOUND, "the message was not shipped");
}

MS_API ms_result ms_pg_ship_look(ms_store *store, ms_str source, const ms_msg *message,
                                 ms_error *err)
{
    PGresult *r;
    bool under;
    MS__PG_TRY(ms__pg_ship_check(store, source, err));
    ms__pg *s = ms__pg_of(store);
    ms_result code = ms__pg_ship_find(s, source, message, &r, err);
    if (code != MS_OK) return ms__pg_ship_absent(s, message, code, &under, err);
    code = ms__pg_ship_compare(s, source, message, r, true, err);
    PQclear(r);
    return code;
}

/* Returns the number in the source of a row that ms__pg_ship_find has found; 0: it is not
 * known. */
static uint64_t ms__pg_ship_number(const PGresult *r, ms_str source)
{
    if (!ms_str_equal(ms__pg_str(r, 0, 5), source) || PQgetisnull(r, 0, 7)) return 0;
    return (uint64_t)ms__pg_int(r, 0, 7);
}

MS_API ms_result ms_pg_ship_free(ms_store *store, ms_str source, const ms_msg *message,
                                 uint64_t *earlier, ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    unsigned char key[73];
    MS__PG_TRY(ms__pg_ship_check(store, source, err));
    ms__pg *s = ms__pg_of(store);
    ms_str location = ms_get(message, MS_F_LOCATION).text;
    MS__PG_TRY(ms__pg_ship_find(s, source, message, &r, err));
    uint64_t number = ms__pg_ship_number(r, source);
    int64_t seq = ms__pg_int(r, 0, 1);
    PQclear(r);
    if (*earlier == 0) {
        *earlier = number;
        return MS_OK;
    }
    if (*earlier != number) return ms_error_set(err, MS_E_CONFLICT, "it has no such key");
    key[0] = 'x';
    memcpy(key + 1, source.ptr, source.len);
    ms__pg_put(key + 1 + source.len, number, 8);
    ms__pg_start(&q, NULL);
    ms__pg_say_param(&q, "update msgstore_record set key = ", "bytea");
    ms__pg_bytea(&q, ms_str_n((const char *)key, source.len + 9));
    ms__pg_say_number(&q, " where kind = 1 and seq = ", seq);
    ms__pg_say_bucket(&q, location);
    return ms__pg_ask(s, s->owner[ms_pg_bucket(location)], &q, NULL, err);
}

MS_API ms_result ms_pg_ship_facts(ms_store *store, ms_str source, ms_str location,
                                  ms_arena *arena, ms_str **texts, size_t *n,
                                  ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    ms_result code = MS_OK;
    *n = 0;
    MS__PG_TRY(ms__pg_ship_check(store, source, err));
    ms__pg *s = ms__pg_of(store);
    ms__pg_start(&q, NULL);
    ms__pg_say(&q, "select body from msgstore_record where kind = 6");
    ms__pg_say_bucket(&q, location);
    ms__pg_say_param(&q, " and source = ", "bytea");
    ms__pg_bytea(&q, source);
    ms__pg_say(&q, " order by place");
    MS__PG_TRY(ms__pg_ask(s, s->owner[ms_pg_bucket(location)], &q, &r, err));
    size_t rows = (size_t)PQntuples(r);
    *texts = (ms_str *)ms_arena_alloc(arena, (rows + 1) * sizeof **texts);
    if (!*texts) code = ms__pg_no_memory(err);
    for (size_t i = 0; i < rows && code == MS_OK; i++) {
        const ms_msg *msg;
        code = ms__pg_record(r, (int)i, 0, 0, arena, &msg, err);
        if (code == MS_OK) (*texts)[(*n)++] = ms_content(msg).text;
        if (code == MS_E_DAMAGED) code = MS_OK;
    }
    PQclear(r);
    return code;
}

/* Sets *replaces to the place of the version of a message that views show, or to 0: it is
 * hidden. The message has row 0. *same: the version is `now`. */
static ms_result ms__pg_ship_replaced(ms__pg *s, const ms_msg *now, const PGresult *row,
                                      uint64_t *replaces, bool *same, ms_error *err)
{
    PGresult *r;
    ms__pg_stmt q;
    const ms_msg *shown;
    ms_arena arena = ms__pg_arena(s);
    ms_str location = ms_get(now, MS_F_LOCATION).text;
    ms__pg_start(&q, NULL);
    ms__pg_say(&q, "select place, body from msgstore_record where " MS__PG_SHOWN);
    ms__pg_say_bucket(&q, location);
    ms__pg_say_number(&q, " and seq = ", ms__pg_int(row, 0, 1));
    MS__PG_TRY(ms__pg_ask(s, s->owner[ms_pg_bucket(location)], &q, &r, err));
    ms_result code = MS_OK;
    *replaces = PQntuples(r) > 0 ? (uint64_t)ms__pg_int(r, 0, 0) : 0;
    *same = false;
    if (*replaces) code = ms__pg_record(r, 0, 1, ms_seq(now), &arena, &shown, err);
    if (*replaces && code == MS_OK) *same = ms__pg_same(shown, now);
    PQclear(r);
    ms_arena_deinit(&arena);
    return code;
}

/* Looks whether a note of message seq is stored already, before it was erased: a key is
 * made of the content. */
static ms_result ms__pg_ship_noted(ms__pg *s, const ms_msg *note, uint64_t seq,
                                   bool *there, ms_error *err)
{
    PGresult *r;
    ms__pg_stmt q;
    ms__pg_batch b;
    const ms_msg *stored;
    int64_t time = 0, other = 0;
    ms_str location = ms_get(note, MS_F_LOCATION).text;
    memset(&b, 0, sizeof b);
    b.scratch = ms__pg_arena(s);
    ms__pg_start(&q, NULL);
    ms__pg_say(&q, "select body from msgstore_record where kind = 5");
    ms__pg_say_bucket(&q, location);
    ms__pg_say_number(&q, " and seq = ", ms__pg_signed(seq));
    MS__PG_TRY(ms__pg_ask(s, s->owner[ms_pg_bucket(location)], &q, &r, err));
    ms_result code = MS_OK;
    (void)ms_time(note, &time);
    for (int i = 0; i < PQntuples(r) && code == MS_OK && !*there; i++) {
        code = ms__pg_record(r, i, 0, seq, &b.scratch, &stored, err);
        if (code == MS_OK && ms_time(stored, &other) && other == time)
            *there = ms__pg_same_erased(&b, stored, note);
    }
    PQclear(r);
    ms_arena_deinit(&b.scratch);
    return code;
}

/* Returns whether a change of a message has nothing that a redaction removes. */
static bool ms__pg_is_erased(ms__pg *s, const ms_msg *change)
{
    ms_arena arena = ms__pg_arena(s);
    void *copy = ms_arena_alloc(&arena, ms_size(change));
    bool same = false;
    if (copy) {
        memcpy(copy, change, ms_size(change));
        ms_record_erase(copy);
        same = ms__pg_same((const ms_msg *)copy, change);
    }
    ms_arena_deinit(&arena);
    return same;
}

/* Makes a change of a message that is stored. */
static ms_result ms__pg_ship_about(ms__pg *s, ms_str source, const ms_pg_position *at,
                                   ms_record *record, const ms_msg *message,
                                   const ms_msg *change, ms_error *err)
{
    PGresult *r;
    uint64_t none = 0, replaces = 0;
    bool same = false, now = ms_kind_of(change) == MS_KIND_MESSAGE;
    ms_envelope *e = &record->envelope;
    MS__PG_TRY(ms__pg_ship_find(s, source, message, &r, err));
    e->seq = (uint64_t)ms__pg_int(r, 0, 1);
    ms_result code = ms__pg_ship_compare(s, source, message, r, false, err);
    if (code == MS_OK && now)
        code = ms__pg_ship_replaced(s, change, r, &replaces, &same, err);
    PQclear(r);
    if (code == MS_OK && record->kind == MS_KIND_NOTE && ms__pg_is_erased(s, change))
        code = ms__pg_ship_noted(s, change, e->seq, &same, err);
    if (code != MS_OK || same) return code;
    if (record->kind == MS_KIND_AMEND && (e->flags & MS_FLAG_REDACTED))
        return ms_redact(&s->base, e->seq, err);
    return ms__pg_ship_rows(s, source, at, record, 1, ms_seq(message), replaces, &none,
                            err);
}

MS_API ms_result ms_pg_ship_change(ms_store *store, ms_str source,
                                   const ms_pg_position *at, const ms_msg *change,
                                   const ms_msg *message, uint64_t *retired,
                                   ms_error *err)
{
    MS__PG_TRY(ms__pg_ship_check(store, source, err));
    ms__pg *s = ms__pg_of(store);
    ms_record record;
    bool under;
    memset(&record, 0, sizeof record);
    record.kind = ms_kind_of(change);
    record.envelope = ms_envelope_of(change);
    record.envelope.seq = 0;
    if (record.kind == MS_KIND_MESSAGE) /* as a compacted log has it */
        record.kind = MS_KIND_AMEND;
    if (record.kind == MS_KIND_LOCATION)
        return ms__pg_ship_rows(s, source, at, &record, 1,
                                message ? ms_seq(message) : 0, 0, retired, err);
    ms_result code = ms__pg_ship_about(s, source, at, &record, message, change, err);
    if (code != MS_E_NOT_FOUND) return code;
    code = ms__pg_ship_absent(s, message, code, &under, err);
    *retired += under;
    return code;
}

/* ==== [pg-cursor] ====================================================================
 * A view is read in pages, each a statement that begins after the last row of the page
 * before, as of the place at which the first page was read. So a cursor holds no
 * connection between its pages, and a lost connection only repeats a page. Pages grow
 * from 64 rows to about a megabyte. Messages are in order of their numbers, raw records
 * in order of their places. A window that is counted from the end where reading stops
 * (the newest 1,000, oldest first) is a subquery of its first page.
 *
 * Of several servers the pages are merged. Their windows together are too large: as many
 * rows are passed over first.
 *
 * A query for what the facts of a location amount to (see ms_backend.query) begins with
 * the newest row that has all facts, and returns these instead of that row. If they are
 * damaged, it reads all rows.
 *
 * Order by time is the exception: which messages are returned (`keys`: number, place and
 * time, 24 bytes each) is collected first and sorted here, then they are read by number.
 * ================================================================================== */

#define MS__PG_PAGE_FIRST 64
#define MS__PG_PAGE_BYTES 1000000

typedef struct ms__pg_key {
    int64_t seq, place, time;
    uint32_t part;
} ms__pg_key;

/* What a cursor reads from one server. */
typedef struct ms__pg_part {
    size_t server;
    int64_t after, before;    /* of the rows that are still to be read */
    uint64_t as_of;
    bool ended;               /* as_of is not beyond the end of what is read */
    PGresult *rows;           /* a page: seq, place, body */
    int row, step;            /* the next row; +1 or -1 */
    bool begun, last;         /* the first page was read; there are no more */
} ms__pg_part;

typedef struct ms__pg_cursor {
    ms__pg *s;
    const ms_query *query;    /* the cursor's, set in each call */
    ms_arena arena;           /* this, parts, keys */
    ms_arena scratch;         /* parameters of a statement */
    ms__pg_part *parts;
    size_t n_parts;
    ms__pg_key *keys;         /* in order of time */
    size_t n_keys, at;
    uint64_t skip;            /* rows before the window */
    uint64_t left;            /* rows of the window; UINT64_MAX: no limit */
    int64_t page;             /* rows */
    bool from_facts;          /* it begins with the newest row that has all facts */
    unsigned char *record;    /* 8 bytes: its place; then the record returned last */
    size_t room;
    ms_arena records;
    ms__pg_stmt q;
} ms__pg_cursor;

static bool ms__pg_has_row(const ms__pg_part *part)
{
    return part->rows && part->row >= 0 && part->row < PQntuples(part->rows);
}

/* Adds the views of a query, joined by "or". */
static void ms__pg_say_views(ms__pg_stmt *q, const ms_query *of, ms_arena *arena)
{
    ms__pg_array team = ms__pg_array_of(arena, MS__PG_TEXT);
    if (of->views & MS_VIEW_TIMELINE) return;
    ms__pg_say(q, " and (false");
    if (of->views & MS_VIEW_CONVERSATION) ms__pg_say(q, " or type in (1, 2, 25)");
    if (of->views & MS_VIEW_GLOBAL) ms__pg_say(q, " or type in (9, 15)");
    if ((of->views & MS_VIEW_AGENT) && ms__pg_is_name(of->agent_key)) {
        ms__pg_say_text(q, " or agent = ", of->agent_key);
        ms__pg_say_number(q, " and (", (int64_t)(of->agent_types / MS_BIT(0)));
        ms__pg_say(q, " >> type::int) & 1 = 1");
    }
    if (of->views & MS_VIEW_TEAM) {
        for (size_t i = 0; i < of->n_agent_keys; i++)
            if (of->agent_keys[i].ptr && ms__pg_is_name(of->agent_keys[i]))
                ms__pg_push(&team, of->agent_keys[i]);
        ms__pg_say_param(q, " or agent = any(", "text[])");
        ms__pg_array_param(q, &team);
    }
    ms__pg_say(q, ")");
}

/* Adds the filters of messages: types, turn, times. */
static void ms__pg_say_filters(ms__pg_stmt *q, const ms_query *of)
{
    if (of->types && of->types != MS_TYPES_ALL) {
        ms__pg_say_number(q, " and (", (int64_t)(of->types / MS_BIT(0)));
        ms__pg_say(q, " >> type::int) & 1 = 1");
    }
    if (of->turn_id.ptr && ms__pg_is_name(of->turn_id))
        ms__pg_say_text(q, " and turn = ", of->turn_id);
    else if (of->turn_id.ptr) ms__pg_say(q, " and false");
    if (of->has_since) ms__pg_say_number(q, " and time >= ", of->since_ns);
    if (of->has_until) ms__pg_say_number(q, " and time < ", of->until_ns);
}

/* Adds the conditions of raw records. */
static void ms__pg_say_raw(ms__pg_stmt *q, const ms_query *of)
{
    static const char *const kinds[] = {"1", "3", "4", "5", "6", "10"};
    bool both = (of->raw & 1) && (of->raw & 62);
    const char *before = both ? " and (kind = 1 or kind > 1 and kind in ("
                              : " and kind in (";
    for (unsigned i = both ? 1 : 0; i < 6; i++) {
        if (!(of->raw >> i & 1)) continue;
        ms__pg_say(q, before);
        ms__pg_say(q, kinds[i]);
        before = ", ";
    }
    ms__pg_say(q, both ? "))" : ")");
    if (of->about_seq && !(of->raw & MS_RAW_HIDES)) {
        ms__pg_say_number(q, " and seq = ", ms__pg_signed(of->about_seq));
    } else if (of->about_seq) {
        ms__pg_say_number(q, " and (seq = ", ms__pg_signed(of->about_seq));
        ms__pg_say_number(q, " or kind = 4 and seq <= ", ms__pg_signed(of->about_seq));
        ms__pg_say_number(q, " and upto >= ", ms__pg_signed(of->about_seq));
        ms__pg_say(q, ")");
    }
    ms__pg_say(q, " and (kind <> 1 or (true");
    ms__pg_say_filters(q, of);
    ms__pg_say(q, "))");
}

/* Adds the number of the first or (down) the last message that a location has ever had.
 * The planner may choose the order of the primary key for a location that has many of the
 * rows: then reading begins where the location does. */
static void ms__pg_say_bound(ms__pg_stmt *q, ms_str location, bool down)
{
    ms__pg_say(q, down ? " and seq <= (select most from msgstore_location where true"
                       : " and seq >= (select least from msgstore_location where true");
    ms__pg_say_bucket(q, location);
    ms__pg_say(q, ")");
}

/* Adds the unread rows of a part, in that direction: raw records, or filtered versions of
 * messages in the views that were valid at its place. A bound that bounds nothing is left
 * out: for two of them the planner would expect few rows. */
static void ms__pg_say_rows(ms__pg_cursor *c, const ms__pg_part *part, bool down)
{
    ms__pg_stmt *q = &c->q;
    const ms_query *of = c->query;
    bool after = part->after > 0, before = part->before < INT64_MAX;
    ms__pg_say(q, " from msgstore_record where true");
    if (part->as_of < (uint64_t)INT64_MAX)
        ms__pg_say_number(q, " and place < ", ms__pg_signed(part->as_of));
    if (after)
        ms__pg_say_number(q, of->raw ? " and place > " : " and seq > ", part->after);
    if (before)
        ms__pg_say_number(q, of->raw ? " and place < " : " and seq < ", part->before);
    if (of->location.len) ms__pg_say_bucket(q, of->location);
    if (of->raw) {
        ms__pg_say_raw(q, of);
        return;
    }
    if (of->location.len && !(down ? before : after))
        ms__pg_say_bound(q, of->location, down);
    ms__pg_say(q, " and kind in (1, 3) and (until is null");
    if (part->as_of < (uint64_t)INT64_MAX)
        ms__pg_say_number(q, " or until >= ", ms__pg_signed(part->as_of));
    ms__pg_say(q, ")");
    ms__pg_say_filters(q, of);
    ms__pg_say_views(q, of, &c->scratch);
}

/* Adds order and limit. Limits are part of the text: with a parameter the planner does
 * not know that few rows are needed. Pages have few sizes, so that few texts are
 * prepared. */
static void ms__pg_say_order(ms__pg_cursor *c, bool down, uint64_t limit)
{
    char text[64];
    snprintf(text, sizeof text, " order by %s%s limit %llu",
             c->query->raw ? "place" : "seq", down ? " desc" : "",
             (unsigned long long)ms__pg_signed(limit));
    ms__pg_say(&c->q, text);
}

/* Adds that reading begins with the newest row that has all facts, if there is one. */
static void ms__pg_say_facts(ms__pg_cursor *c)
{
    ms__pg_say(&c->q, " and place >= coalesce((select place from msgstore_record where"
                      " true");
    ms__pg_say_bucket(&c->q, c->query->location);
    ms__pg_say(&c->q, " and kind = 6 and facts is not null order by place desc"
                      " limit 1), 0)");
}

static void ms__pg_begin(ms__pg_cursor *c, const char *text)
{
    ms_arena_reset(&c->scratch);
    ms__pg_start(&c->q, NULL);
    ms__pg_say(&c->q, text);
}

/* Adds the last tick, of the location's bucket or of all. */
static void ms__pg_say_end(ms__pg_cursor *c)
{
    ms__pg_say(&c->q, "(select max(last) from msgstore_bucket");
    if (c->query->location.len) {
        ms__pg_say_param(&c->q, " where bucket = ", "int");
        ms__pg_number(&c->q, MS__PG_INT4, ms_pg_bucket(c->query->location));
    }
    ms__pg_say(&c->q, ")");
}

/* Ends a part after the last tick. The place in a query of one location may come from the
 * totals of all buckets, and be ahead of the location's own. */
static void ms__pg_set_end(ms__pg_cursor *c, ms__pg_part *part, int64_t last)
{
    uint64_t end = (uint64_t)(last + 1) * MS_PG_BUCKETS;
    ms__pg_saw(c->s, last);
    if (end < part->as_of) part->as_of = end;
    part->ended = true;
}

/* Returns whether the window is counted from the end where reading stops. */
static bool ms__pg_against(const ms_query *of)
{
    return of->limit && of->oldest == of->reverse;
}

/* ---- Pages. */

/* Reads the next page of a part. A window that fits a page is read against the direction
 * of reading, and its rows are returned from the last one on. */
static ms_result ms__pg_page(ms__pg_cursor *c, ms__pg_part *part, ms_error *err)
{
    const ms_query *of = c->query;
    bool window = ms__pg_against(of) && !part->begun;
    bool small = window && of->limit <= (size_t)c->page;
    bool down = of->reverse != small, ended = part->ended;
    bool whole = !part->begun && of->limit && of->limit <= (size_t)c->page;
    int64_t most = whole ? (int64_t)of->limit : c->page;
    bool facts = c->from_facts && !part->begun;
    ms__pg_begin(c, facts ? "select seq, place, coalesce(facts, body)"
                          : "select seq, place, body");
    if (!ended) ms__pg_say(&c->q, ", ");
    if (!ended) ms__pg_say_end(c);
    if (window && !small) ms__pg_say(&c->q, " from (select seq, place, body");
    ms__pg_say_rows(c, part, window && !small ? !of->reverse : down);
    if (facts) ms__pg_say_facts(c);
    if (window && !small) {
        ms__pg_say_order(c, !of->reverse, of->limit);
        ms__pg_say(&c->q, ") as w");
    }
    ms__pg_say_order(c, down, (uint64_t)most);
    PQclear(part->rows);
    part->rows = NULL;
    MS__PG_TRY(ms__pg_ask_any(c->s, part->server, &c->q, &part->rows, err));
    int n = PQntuples(part->rows);
    part->row = small ? n - 1 : 0;
    part->step = small ? -1 : 1;
    part->last = small || n < most;
    part->begun = true;
    if (n == 0) return MS_OK;
    if (!ended) ms__pg_set_end(c, part, ms__pg_int(part->rows, 0, 3));
    int64_t end = ms__pg_int(part->rows, n - 1, of->raw ? 1 : 0);
    if (down) part->before = end;
    else part->after = end;
    uint64_t bytes = 0;
    for (int i = 0; i < n; i++) bytes += (uint64_t)PQgetlength(part->rows, i, 2);
    int64_t want = 1 + (int64_t)(MS__PG_PAGE_BYTES / (bytes / (uint64_t)n + 1));
    if (n >= MS__PG_PAGE_FIRST && 4 * c->page <= want) c->page *= 4;
    while (c->page > want) c->page /= 2;
    return MS_OK;
}

/* Returns the part whose row comes next, or NULL at the end. */
static ms__pg_part *ms__pg_part_next(ms__pg_cursor *c, ms_result *code, ms_error *err)
{
    ms__pg_part *best = NULL;
    int column = c->query->raw ? 1 : 0;
    int64_t best_at = 0;
    for (size_t i = 0; i < c->n_parts; i++) {
        ms__pg_part *part = &c->parts[i];
        while (!ms__pg_has_row(part) && !part->last) {
            *code = ms__pg_page(c, part, err);
            if (*code != MS_OK) return NULL;
        }
        if (!ms__pg_has_row(part)) continue;
        int64_t at = ms__pg_int(part->rows, part->row, column);
        if (best && (c->query->reverse ? at < best_at : at > best_at)) continue;
        best = part;
        best_at = at;
    }
    return best;
}

/* Counts the rows of the servers' windows that are not in the window of all. */
static ms_result ms__pg_count_skip(ms__pg_cursor *c, ms_error *err)
{
    uint64_t n = 0;
    for (size_t i = 0; i < c->n_parts; i++) {
        PGresult *r;
        ms__pg_begin(c, "select count(*) from (select 1");
        ms__pg_say_rows(c, &c->parts[i], !c->query->reverse);
        ms__pg_say_order(c, !c->query->reverse, c->query->limit);
        ms__pg_say(&c->q, ") as w");
        MS__PG_TRY(ms__pg_ask_any(c->s, c->parts[i].server, &c->q, &r, err));
        n += (uint64_t)ms__pg_int(r, 0, 0);
        PQclear(r);
    }
    c->skip = n > c->query->limit ? n - c->query->limit : 0;
    return MS_OK;
}

/* ---- Order by time. */

static int ms__pg_number_order(const void *a, const void *b)
{
    const ms__pg_key *x = (const ms__pg_key *)a, *y = (const ms__pg_key *)b;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static int ms__pg_time_order(const void *a, const void *b)
{
    const ms__pg_key *x = (const ms__pg_key *)a, *y = (const ms__pg_key *)b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    return ms__pg_number_order(a, b);
}

/* Adds the keys of a part. */
static ms_result ms__pg_keys(ms__pg_cursor *c, size_t part, ms_error *err)
{
    PGresult *r;
    ms__pg_begin(c, "select seq, place, time");
    ms__pg_say_rows(c, &c->parts[part], true);
    MS__PG_TRY(ms__pg_ask_any(c->s, c->parts[part].server, &c->q, &r, err));
    size_t n = (size_t)PQntuples(r), size = (c->n_keys + n) * sizeof *c->keys;
    ms__pg_key *keys = (ms__pg_key *)ms_arena_alloc(&c->arena, size);
    if (keys && c->n_keys) memcpy(keys, c->keys, c->n_keys * sizeof *keys);
    for (size_t i = 0; i < n && keys; i++) {
        ms__pg_key *k = &keys[c->n_keys + i];
        k->seq = ms__pg_int(r, (int)i, 0);
        k->place = ms__pg_int(r, (int)i, 1);
        k->time = PQgetisnull(r, (int)i, 2) ? INT64_MIN : ms__pg_int(r, (int)i, 2);
        k->part = (uint32_t)part;
    }
    PQclear(r);
    if (!keys) return ms__pg_no_memory(err);
    c->keys = keys;
    c->n_keys += n;
    return MS_OK;
}

/* Collects all keys. A message without time takes the time of the one before it. */
static ms_result ms__pg_collect(ms__pg_cursor *c, ms_error *err)
{
    const ms_query *of = c->query;
    int64_t before = INT64_MIN;
    for (size_t i = 0; i < c->n_parts; i++) MS__PG_TRY(ms__pg_keys(c, i, err));
    if (c->n_keys == 0) return MS_OK;
    qsort(c->keys, c->n_keys, sizeof *c->keys, ms__pg_number_order);
    for (size_t i = 0; i < c->n_keys; i++) {
        ms__pg_key *k = &c->keys[i];
        if (k->time != INT64_MIN) before = k->time;
        else if (!of->untimed_first) k->time = before;
    }
    qsort(c->keys, c->n_keys, sizeof *c->keys, ms__pg_time_order);
    size_t n = of->limit && of->limit < c->n_keys ? of->limit : c->n_keys;
    if (!of->oldest) c->keys += c->n_keys - n;
    c->n_keys = n;
    for (size_t i = 0; of->reverse && i < n / 2; i++) {
        ms__pg_key swap = c->keys[i];
        c->keys[i] = c->keys[n - 1 - i];
        c->keys[n - 1 - i] = swap;
    }
    c->page = 256;
    return MS_OK;
}

/* Returns the part whose row is the next key's, or NULL at the end. Reads the records
 * of a run of keys of one server at a time. Keys whose rows are gone are skipped. */
static ms__pg_part *ms__pg_key_next(ms__pg_cursor *c, ms_result *code, ms_error *err)
{
    ms__pg_part *part = c->at ? &c->parts[c->keys[c->at - 1].part] : NULL;
    while (c->at < c->n_keys && !(part && ms__pg_has_row(part))) {
        uint32_t at = c->keys[c->at].part;
        ms__pg_begin(c, "select r.seq, r.place, r.body from unnest($1::bigint[],"
                        " $2::bigint[], $3::bigint[], $4::int[]) as k (i, seq, place,"
                        " bucket) join msgstore_record r on r.bucket = k.bucket and"
                        " r.seq = k.seq and r.place = k.place where true");
        ms__pg_array buckets = ms__pg_array_of(&c->scratch, MS__PG_INT4);
        ms__pg_array seqs = ms__pg_array_of(&c->scratch, MS__PG_INT8);
        ms__pg_array places = ms__pg_array_of(&c->scratch, MS__PG_INT8);
        ms__pg_array numbers = ms__pg_array_of(&c->scratch, MS__PG_INT8);
        for (; c->at < c->n_keys && numbers.n < (uint32_t)c->page; c->at++) {
            if (c->keys[c->at].part != at) break;
            ms__pg_push_number(&numbers, (int64_t)c->at);
            ms__pg_push_number(&seqs, c->keys[c->at].seq);
            ms__pg_push_number(&places, c->keys[c->at].place);
            ms__pg_push_number(&buckets, c->keys[c->at].place % MS_PG_BUCKETS);
        }
        part = &c->parts[at];
        ms__pg_array_param(&c->q, &numbers);
        ms__pg_array_param(&c->q, &seqs);
        ms__pg_array_param(&c->q, &places);
        ms__pg_array_param(&c->q, &buckets);
        if (c->query->location.len) {
            ms__pg_say_param(&c->q, " and r.bucket = ", "int");
            ms__pg_number(&c->q, MS__PG_INT4, ms_pg_bucket(c->query->location));
        }
        ms__pg_say(&c->q, " order by k.i");
        PQclear(part->rows);
        part->rows = NULL;
        part->row = 0;
        part->step = 1;
        *code = ms__pg_ask_any(c->s, part->server, &c->q, &part->rows, err);
        if (*code != MS_OK) return NULL;
    }
    return part && ms__pg_has_row(part) ? part : NULL;
}

/* ---- The cursor. */

static ms__pg_cursor *ms__pg_cursor_new(ms__pg *s, const ms_query *of)
{
    ms_arena arena = ms__pg_arena(s);
    size_t n = of->location.len ? 1 : s->n_servers;
    ms__pg_cursor *c = (ms__pg_cursor *)ms_arena_alloc(&arena, sizeof *c);
    size_t size = n * sizeof *c->parts;
    ms__pg_part *parts = (ms__pg_part *)(c ? ms_arena_alloc(&arena, size) : NULL);
    if (!parts) ms_arena_deinit(&arena);
    if (!parts) return NULL;
    memset(c, 0, sizeof *c);
    memset(parts, 0, size);
    c->parts = parts;
    c->arena = arena;
    c->s = s;
    c->query = of;
    c->n_parts = n;
    c->scratch = c->records = ms__pg_arena(s);
    c->left = of->limit ? of->limit : UINT64_MAX;
    c->page = MS__PG_PAGE_FIRST;
    for (size_t i = 0; i < n; i++) {
        parts[i].server = of->location.len ? s->owner[ms_pg_bucket(of->location)] : i;
        parts[i].after = ms__pg_signed(of->after_seq);
        parts[i].before = of->before_seq ? ms__pg_signed(of->before_seq) : INT64_MAX;
        parts[i].as_of = of->as_of ? of->as_of : (uint64_t)INT64_MAX;
        parts[i].ended = of->as_of && !of->location.len;
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
    ms_arena own = c->arena; /* the arena holds c */
    ms_arena_deinit(&own);
    it->ctx = NULL;
}

/* Finds the place of the first message with this number or a larger one, on any server;
 * INT64_MAX without one. *exact: its number is this one. */
static ms_result ms__pg_find_place(ms__pg_cursor *c, uint64_t seq, int64_t *place,
                                   bool *exact, ms_error *err)
{
    int64_t least = INT64_MAX;
    PGresult *r;
    *place = INT64_MAX;
    unsigned bucket = (unsigned)(seq % MS_PG_BUCKETS);
    ms__pg_begin(c, "select place from msgstore_record where kind = 1");
    ms__pg_say_number(&c->q, " and seq = ", ms__pg_signed(seq));
    ms__pg_say_param(&c->q, " and bucket = ", "int");
    ms__pg_number(&c->q, MS__PG_INT4, bucket);
    MS__PG_TRY(ms__pg_ask_any(c->s, c->s->owner[bucket], &c->q, &r, err));
    *exact = PQntuples(r) > 0;
    if (*exact) *place = ms__pg_int(r, 0, 0);
    PQclear(r);
    if (*exact) return MS_OK;
    for (size_t i = 0; i < c->s->n_servers; i++) {
        ms__pg_begin(c, "select seq, place from msgstore_record where kind = 1");
        ms__pg_say_number(&c->q, " and seq >= ", ms__pg_signed(seq));
        ms__pg_say(&c->q, " order by seq limit 1");
        MS__PG_TRY(ms__pg_ask_any(c->s, i, &c->q, &r, err));
        int64_t found = PQntuples(r) > 0 ? ms__pg_int(r, 0, 0) : INT64_MAX;
        if (found < least) *place = ms__pg_int(r, 0, 1);
        if (found < least) least = found;
        PQclear(r);
    }
    *exact = least == ms__pg_signed(seq);
    return MS_OK;
}

/* Turns the numbers that bound a raw query into places. A place between two messages
 * belongs to records that may be on any server, so all servers are asked. */
static ms_result ms__pg_set_places(ms__pg_cursor *c, ms_error *err)
{
    const ms_query *of = c->query;
    int64_t after = -1, before = INT64_MAX;
    bool exact = true;
    if (of->after_seq)
        MS__PG_TRY(ms__pg_find_place(c, of->after_seq, &after, &exact, err));
    if (!exact && after < INT64_MAX) after--;
    if (of->before_seq)
        MS__PG_TRY(ms__pg_find_place(c, of->before_seq, &before, &exact, err));
    for (size_t i = 0; i < c->n_parts; i++) {
        c->parts[i].after = after;
        c->parts[i].before = before;
    }
    return MS_OK;
}

/* Goes back to the beginning if the facts that a page begins with are damaged. */
static ms_result ms__pg_facts_check(ms__pg_cursor *c, ms_error *err)
{
    ms__pg_part *part = &c->parts[0];
    const ms_msg *unused;
    ms_result code = MS_OK;
    if (part->row < PQntuples(part->rows))
        code = ms__pg_record(part->rows, part->row, 2, 0, &c->scratch, &unused, NULL);
    if (code == MS_OK || code == MS_E_NO_MEMORY) return code;
    c->from_facts = false;
    part->begun = part->last = false;
    part->after = -1;
    return ms__pg_page(c, part, err);
}

/* Reads where the store ends, if several statements need it; then the first rows. */
static ms_result ms__pg_cursor_begin(ms__pg_cursor *c, ms_error *err)
{
    ms_result code = MS_OK;
    if (c->query->raw) MS__PG_TRY(ms__pg_set_places(c, err));
    for (size_t i = 0; i < c->n_parts; i++) {
        ms__pg_part *part = &c->parts[i];
        PGresult *r;
        if (part->ended || (c->query->location.len && !c->query->by_time)) continue;
        ms__pg_begin(c, "select ");
        ms__pg_say_end(c);
        MS__PG_TRY(ms__pg_ask_any(c->s, part->server, &c->q, &r, err));
        ms__pg_set_end(c, part, ms__pg_int(r, 0, 0));
        PQclear(r);
    }
    if (c->query->by_time) return ms__pg_collect(c, err);
    if (c->n_parts > 1 && ms__pg_against(c->query))
        MS__PG_TRY(ms__pg_count_skip(c, err));
    (void)ms__pg_part_next(c, &code, err);
    if (code == MS_OK && c->from_facts) code = ms__pg_facts_check(c, err);
    return code;
}

/* Returns whether a query is for what the facts of a location amount to. */
static bool ms__pg_is_of_facts(const ms_query *of)
{
    return of->as_from == 1 && of->raw == MS_RAW_LOCATIONS && of->location.len &&
           !of->about_seq && !of->after_seq && !of->before_seq && !of->as_of &&
           !of->limit && !of->reverse;
}

static ms_result ms__pg_query(ms_store *store, ms_cursor *it, ms_error *err)
{
    ms__pg *s = ms__pg_of(store);
    const ms_query *of = &it->query;
    bool from_facts = ms__pg_is_of_facts(of);
    it->ctx = NULL;
    it->query.as_from = 0; /* records of a stream are read from its beginning */
    MS__PG_TRY(ms__pg_check(s, false, err));
    ms__pg_cursor *c = ms__pg_cursor_new(s, of);
    if (!c) return ms__pg_no_memory(err);
    it->ctx = c;
    c->from_facts = from_facts;
    ms_result code = MS_OK;
    if (!of->location.len || ms__pg_is_name(of->location))
        code = ms__pg_cursor_begin(c, err);
    else c->n_parts = 0;
    it->now = c->n_parts ? 0 : 1;
    for (size_t i = 0; i < c->n_parts; i++)
        if (c->parts[i].as_of > it->now) it->now = c->parts[i].as_of;
    if (code != MS_OK) ms__pg_cursor_close(store, it);
    return code;
}

/* Copies the row's record into the cursor's memory. */
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
    (void)store;
    while (c && c->left > 0) {
        ms_result code = MS_OK;
        c->query = &it->query;
        ms__pg_part *part = it->query.by_time ? ms__pg_key_next(c, &code, NULL)
                                              : ms__pg_part_next(c, &code, NULL);
        if (code != MS_OK) it->result = code;
        if (!part) return NULL;
        int row = part->row;
        part->row += part->step;
        if (c->skip > 0) {
            c->skip--;
            continue;
        }
        code = ms__pg_cursor_record(c, part->rows, row, &msg);
        if (c->left != UINT64_MAX) c->left--;
        if (code == MS_OK) return msg;
        if (code == MS_E_NO_MEMORY) it->result = code;
        if (code == MS_E_NO_MEMORY) return NULL;
        it->damaged++;
    }
    return NULL;
}

/* ---- All facts of a location. */

/* A store that reads what another one has, and notes up to which place. */
typedef struct ms__pg_facts_reader {
    ms_store base;
    ms__pg *s;
    uint64_t upto;            /* of the last query; 0: it has found nothing */
} ms__pg_facts_reader;

static ms_result ms__pg_reader_query(ms_store *store, ms_cursor *it, ms_error *err)
{
    ms__pg_facts_reader *reader = (ms__pg_facts_reader *)(void *)store;
    ms_result code = ms__pg_query(&reader->s->base, it, err);
    reader->upto = code == MS_OK && it->now < (uint64_t)INT64_MAX ? it->now : 0;
    return code;
}

static const ms_backend ms__pg_reader_backend = {
    NULL, ms__pg_reader_query, ms__pg_next, ms__pg_cursor_close, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, ms__pg_change, NULL, NULL, NULL};

/* Reads all facts of a location as a record, and up to which place they are those. */
static ms_result ms__pg_facts_read(ms__pg *s, ms_str location, ms_arena *arena,
                                   const ms_msg **msg, uint64_t *upto)
{
    ms__pg_facts_reader reader;
    ms_record record;
    ms_str text;
    memset(&reader, 0, sizeof reader);
    memset(&record, 0, sizeof record);
    reader.base.backend = &ms__pg_reader_backend;
    reader.base.open = MS_STORE_OPEN;
    reader.s = s;
    MS__PG_TRY(ms_location_get(&reader.base, location, arena, &text, NULL));
    record.kind = MS_KIND_LOCATION;
    record.envelope.location = location;
    record.envelope.content = ms_json(text);
    MS__PG_TRY(ms_record_encode(&record, arena, msg, NULL));
    *upto = reader.upto;
    return ms_size(*msg) <= s->desc.max_message ? MS_OK : MS_E_TOO_LARGE;
}

/* Enters all facts of a location at the last row of facts that was read for them. */
static ms_result ms__pg_facts_write(ms__pg *s, ms_str location, const ms_msg *msg,
                                    uint64_t upto)
{
    ms__pg_stmt q;
    PGresult *r;
    unsigned bucket = ms_pg_bucket(location);
    ms__pg_start(&q, "update msgstore_record set facts = $3::bytea where bucket ="
                     " $1::int and location = $2::text and kind = 6 and place ="
                     " (select place from msgstore_record where bucket = $1::int and"
                     " location = $2::text and kind = 6 and place < $4::bigint order by"
                     " place desc limit 1)");
    ms__pg_number(&q, MS__PG_INT4, bucket);
    ms__pg_text(&q, location);
    ms__pg_bytea(&q, ms__pg_bytes(msg));
    ms__pg_number(&q, MS__PG_INT8, ms__pg_signed(upto));
    MS__PG_TRY(ms__pg_ask(s, s->owner[bucket], &q, &r, NULL));
    bool one = strtoull(PQcmdTuples(r), NULL, 10) == 1;
    PQclear(r);
    return one ? MS_OK : MS_E_NOT_FOUND;
}

/* Enters all facts of a location that are due. What fails here takes time of readers
 * alone: it is tried again, less and less often. */
static void ms__pg_facts_enter(ms__pg *s, ms_str location)
{
    const ms_msg *msg;
    uint64_t upto = 0;
    ms_arena arena = ms__pg_arena(s);
    ms__pg_lock_take(&s->lock);
    bool rest = s->facts_rest > 0;
    s->facts_rest -= rest;
    ms__pg_lock_give(&s->lock);
    if (rest) return;
    ms_result code = ms__pg_facts_read(s, location, &arena, &msg, &upto);
    if (code == MS_OK && upto > 0) code = ms__pg_facts_write(s, location, msg, upto);
    ms_arena_deinit(&arena);
    ms__pg_lock_take(&s->lock);
    s->facts_pause = code == MS_OK ? 0 : s->facts_pause ? 2 * s->facts_pause : 16;
    if (s->facts_pause > 1024) s->facts_pause = 1024;
    s->facts_rest = s->facts_pause;
    ms__pg_lock_give(&s->lock);
}

/* ==== [pg-list] lookups, listings, totals =========================================== */

/* Looks for a message on a server: the shown version; of a hidden message the first.
 * routed: the number has the bucket. *found: MS_OK, MS_E_HIDDEN or MS_E_NOT_FOUND. */
static ms_result ms__pg_get_at(ms__pg *s, size_t server, uint64_t seq, bool routed,
                               ms_arena *arena, const ms_msg **msg, ms_result *found,
                               ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    ms__pg_start(&q, routed ? ms__pg_versions_routed : ms__pg_versions);
    ms__pg_number(&q, MS__PG_INT8, ms__pg_signed(seq));
    if (routed) ms__pg_number(&q, MS__PG_INT4, (int64_t)(seq % MS_PG_BUCKETS));
    MS__PG_TRY(ms__pg_ask(s, server, &q, &r, err));
    int n = PQntuples(r);
    bool shown = n > 0 && PQgetisnull(r, n - 1, 3);
    ms_result code = MS_OK;
    *found = shown ? MS_OK : n > 0 ? MS_E_HIDDEN : MS_E_NOT_FOUND;
    if (n > 0) code = ms__pg_record(r, shown ? n - 1 : 0, 4, seq, arena, msg, err);
    PQclear(r);
    return code;
}

static ms_result ms__pg_get(ms_store *store, uint64_t seq, ms_arena *arena,
                            const ms_msg **msg, ms_error *err)
{
    ms__pg *s = ms__pg_of(store);
    ms_result found = MS_E_NOT_FOUND;
    bool can_be = seq > 0 && seq < (uint64_t)INT64_MAX;
    *msg = NULL;
    MS__PG_TRY(ms__pg_check(s, false, err));
    if (can_be)
        MS__PG_TRY(ms__pg_get_at(s, s->owner[seq % MS_PG_BUCKETS], seq, true, arena, msg,
                                 &found, err));
    /* The number of a copy does not have the bucket. */
    for (size_t i = 0; can_be && i < s->n_servers && found == MS_E_NOT_FOUND; i++)
        MS__PG_TRY(ms__pg_get_at(s, i, seq, false, arena, msg, &found, err));
    if (found != MS_E_NOT_FOUND) ms__pg_saw(s, (int64_t)(seq / MS_PG_BUCKETS));
    if (found == MS_OK) return MS_OK;
    return ms_error_set(err, found, found == MS_E_HIDDEN ? "the message is hidden"
                                                         : "no message with this number");
}

/* ---- Listings. */

/* Returns the text after all that begin with a prefix, in the arena; absent: there is
 * none, or no memory. UTF-8 is in the order of its code points. */
static ms_str ms__pg_after_prefix(ms_str prefix, ms_arena *arena)
{
    unsigned char *p = (unsigned char *)ms_arena_alloc(arena, prefix.len + 4);
    size_t n = prefix.len;
    if (!p) return ms_str_n(NULL, 0);
    memcpy(p, prefix.ptr, n);
    while (n > 0) {
        size_t end = n;
        uint32_t c;
        do n--;
        while (n > 0 && (p[n] & 0xC0) == 0x80);
        c = p[n] < 0x80 ? p[n] : p[n] & (0x3Fu >> (end - n - 1));
        for (size_t i = n + 1; i < end; i++) c = c << 6 | (p[i] & 0x3Fu);
        c = c == 0xD7FF ? 0xE000 : c + 1;
        if (c > 0x10FFFF) continue;
        unsigned more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        static const unsigned char marks[] = {0, 0xC0, 0xE0, 0xF0};
        for (unsigned i = more; i > 0; i--, c >>= 6)
            p[n + i] = (unsigned char)(0x80 | (c & 0x3F));
        p[n] = (unsigned char)(marks[more] | c);
        return ms_str_n((const char *)p, n + more + 1);
    }
    return ms_str_n(NULL, 0);
}

/* Adds the condition that a location has a prefix. */
static void ms__pg_say_prefix(const ms__pg *s, ms__pg_stmt *q, ms_str prefix,
                              ms_arena *arena)
{
    if (!prefix.len) return;
    ms_str end = ms_str_n(NULL, 0);
    if (!s->reordered) end = ms__pg_after_prefix(prefix, arena);
    ms__pg_say_text(q, " and location >= ", prefix);
    if (end.ptr) ms__pg_say_text(q, " and location < ", end);
    ms__pg_say_text(q, " and left(location, length(", prefix);
    ms__pg_say_text(q, ")) = ", prefix);
}

/* A listing of locations reads their table. */
static void ms__pg_list_locations(const ms__pg *s, ms__pg_stmt *q,
                                  const ms_list_query *of, ms_arena *arena)
{
    ms__pg_say(q, "select location, null::text, n, first, newest, first_time, last_time"
                  " from msgstore_location where n > 0");
    ms__pg_say_prefix(s, q, of->prefix, arena);
    ms__pg_say(q, " order by era desc, newest desc");
}

/* A listing of agents reads their rows: of a location, or all. */
static void ms__pg_list_agents(ms__pg_stmt *q, const ms_list_query *of)
{
    ms__pg_say(q, "select g.location, g.agent, g.n, g.first, g.last, a.time, z.time from"
                  " (select bucket, location, agent, count(*) as n, min(seq) as first,"
                  " max(seq) as last from msgstore_record where " MS__PG_SHOWN
                  " and agent is not null");
    if (of->location.len) ms__pg_say_bucket(q, of->location);
    if (of->prefix.len) {
        ms__pg_say_text(q, " and left(agent, length(", of->prefix);
        ms__pg_say_text(q, ")) = ", of->prefix);
    }
    ms__pg_say(q, " group by bucket, location, agent) as g join msgstore_record a on"
                  " a.bucket = g.bucket and a.seq = g.first and a.kind in (1, 3) and"
                  " a.until is null join msgstore_record z on z.bucket = g.bucket and"
                  " z.seq = g.last and z.kind in (1, 3) and z.until is null");
    if (of->location.len) {
        ms__pg_say_param(q, " where a.bucket = ", "int");
        ms__pg_number(q, MS__PG_INT4, ms_pg_bucket(of->location));
        ms__pg_say_param(q, " and z.bucket = ", "int");
        ms__pg_number(q, MS__PG_INT4, ms_pg_bucket(of->location));
    }
    ms__pg_say(q, " order by g.last desc");
}

static void ms__pg_list_text(const ms__pg *s, ms__pg_stmt *q, const ms_list_query *of,
                             ms_arena *arena)
{
    char text[40];
    ms__pg_start(q, NULL);
    if (of->agents) ms__pg_list_agents(q, of);
    else ms__pg_list_locations(s, q, of, arena);
    if (!of->limit) return;
    snprintf(text, sizeof text, " limit %lld", (long long)ms__pg_signed(of->limit));
    ms__pg_say(q, text);
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

static bool ms__pg_info(const PGresult *r, int row, bool names_only, ms_arena *arena,
                        ms_info *info)
{
    bool fits = true;
    memset(info, 0, sizeof *info);
    info->location = ms__pg_kept_text(r, row, 0, arena, &fits);
    info->agent_key = ms__pg_kept_text(r, row, 1, arena, &fits);
    info->last_seq = (uint64_t)ms__pg_int(r, row, 4);
    info->last_time_ns = ms__pg_time_at(r, row, 6);
    info->first_time_ns = names_only ? MS_TIME_NONE : ms__pg_time_at(r, row, 5);
    info->messages = names_only ? 0 : (uint64_t)ms__pg_int(r, row, 2);
    info->first_seq = names_only ? 0 : (uint64_t)ms__pg_int(r, row, 3);
    return fits;
}

static int ms__pg_newer(const void *a, const void *b)
{
    const ms_info *x = (const ms_info *)a, *y = (const ms_info *)b;
    return x->last_seq > y->last_seq ? -1 : x->last_seq < y->last_seq;
}

/* Adds the entries of one server. */
static ms_result ms__pg_list_add(const PGresult *r, const ms_list_query *of,
                                 ms_arena *arena, ms_listing *out, ms_error *err)
{
    size_t n = (size_t)PQntuples(r);
    size_t size = (out->count + n) * sizeof *out->items;
    ms_info *items = (ms_info *)ms_arena_alloc(arena, size);
    bool fits = items != NULL;
    if (items && out->count) memcpy(items, out->items, out->count * sizeof *items);
    for (size_t i = 0; i < n && fits; i++)
        fits = ms__pg_info(r, (int)i, of->names_only, arena, &items[out->count + i]);
    if (!fits) return ms_error_set(err, MS_E_ARENA, "the listing does not fit the arena");
    out->items = items;
    out->count += n;
    return MS_OK;
}

static ms_result ms__pg_list(ms_store *store, const ms_list_query *of, ms_arena *arena,
                             ms_listing *out, ms_error *err)
{
    ms__pg *s = ms__pg_of(store);
    ms__pg_stmt q;
    MS__PG_TRY(ms__pg_check(s, false, err));
    if (!ms__pg_is_name(of->prefix) || !ms__pg_is_name(of->location)) return MS_OK;
    bool one = of->agents && of->location.len;
    size_t first = one ? s->owner[ms_pg_bucket(of->location)] : 0;
    size_t end = one ? first + 1 : s->n_servers;
    ms_arena scratch = ms__pg_arena(s);
    ms_result code = MS_OK;
    ms__pg_list_text(s, &q, of, &scratch);
    for (size_t i = first; i < end && code == MS_OK; i++) {
        PGresult *r;
        code = ms__pg_ask_any(s, i, &q, &r, err);
        if (code != MS_OK) break;
        code = ms__pg_list_add(r, of, arena, out, err);
        PQclear(r);
    }
    ms_arena_deinit(&scratch);
    MS__PG_TRY(code);
    if (end - first > 1) qsort(out->items, out->count, sizeof *out->items, ms__pg_newer);
    if (of->limit && out->count > of->limit) out->count = of->limit;
    if (out->count) ms__pg_saw(s, (int64_t)(out->items[0].last_seq / MS_PG_BUCKETS));
    return MS_OK;
}

/* ---- Totals. */

/* primary: no replica is asked. */
static ms_result ms__pg_sum(ms__pg *s, bool primary, ms_stat *out, ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    memset(out, 0, sizeof *out);
    MS__PG_TRY(ms__pg_check(s, false, err));
    ms__pg_start(&q, s->secured ? ms__pg_totals_seen : ms__pg_totals);
    for (size_t i = 0; i < s->n_servers; i++) {
        MS__PG_TRY(primary ? ms__pg_ask(s, i, &q, &r, err)
                           : ms__pg_ask_any(s, i, &q, &r, err));
        uint64_t hidden = (uint64_t)ms__pg_int(r, 0, 1);
        uint64_t newest = (uint64_t)ms__pg_int(r, 0, 4);
        uint64_t last = (uint64_t)ms__pg_int(r, 0, 5), end = (last + 1) * MS_PG_BUCKETS;
        out->messages += (uint64_t)ms__pg_int(r, 0, 0) - hidden;
        out->hidden += hidden;
        out->changes += (uint64_t)ms__pg_int(r, 0, 2);
        out->bytes += (uint64_t)ms__pg_int(r, 0, 3);
        if (newest > out->last_seq) out->last_seq = newest;
        if (end > out->as_of) out->as_of = end;
        PQclear(r);
        ms__pg_saw(s, (int64_t)last);
    }
    out->given_seq = out->as_of - 1;
    return MS_OK;
}

static ms_result ms__pg_stat(ms_store *store, ms_stat *out, ms_error *err)
{
    return ms__pg_sum(ms__pg_of(store), false, out, err);
}

static ms_result ms__pg_leave_out(ms_store *store, uint64_t seq, ms_error *err)
{
    ms__pg *s = ms__pg_of(store);
    ms__pg_stmt q;
    MS__PG_TRY(ms__pg_check(s, true, err));
    if (seq > MS__PG_KEPT_MOST) /* as of ms__pg_kept_check */
        return ms_error_set(err, MS_E_ARGUMENT, "the source has a number above 2^52");
    ms__pg_start(&q, "update msgstore_bucket set last = greatest(last, $1::bigint)");
    ms__pg_number(&q, MS__PG_INT8, ms__pg_signed(seq) / MS_PG_BUCKETS + 1);
    for (size_t i = 0; i < s->n_servers; i++)
        MS__PG_TRY(ms__pg_ask(s, i, &q, NULL, err));
    return MS_OK;
}

/* ==== [pg-retire] ====================================================================
 * First the rule is committed on every server. Then each bucket: its lock is taken once
 * and given back, after which no shipper that has not seen the rule is under way. Then
 * its locations are read in pages, and the messages of each in pieces, without a lock, so
 * that appends wait for deletions alone. What is old is deleted by its numbers, in a
 * transaction under the lock of the bucket (PG1): records, then the row of the location,
 * then the totals.
 *
 * A HIDE stays as long as a message of its range does. A location without messages is
 * gone, with its facts. Of the counter `last` and `newest` stay, so no number is given
 * again.
 *
 * (PT1) A message under a rule is not stored by a shipper after the call has returned.
 * (PT2) A transaction deletes a message with all of its changes, or not at all, and (PG3)
 *       holds before and after it.
 * ================================================================================== */

enum { MS__PG_PIECE = 8, MS__PG_NAMES = 500 }; /* portions read at once; locations */

typedef struct ms__pg_retiring {
    ms__pg *s;
    ms_pg_retire_desc desc;
    ms_pg_retire_report *report;
    ms_arena arena;           /* of a page of locations */
    ms_arena scratch;         /* of a piece */
    unsigned bucket;
    ms_str location;
    uint64_t after;           /* messages of the location up to here were read */
    bool read;                /* all of it was */
    ms__pg_array old;         /* numbers of a portion */
    ms_pg_retire_report made; /* by the transaction */
    bool sent;                /* its commit was, in an earlier attempt */
} ms__pg_retiring;

static bool ms__pg_is_full(const ms__pg_retiring *t)
{
    return t->desc.limit > 0 && t->report->messages >= t->desc.limit;
}

static const char ms__pg_retire_lock[] =
    "select last from msgstore_bucket where bucket = $1::int for update";

/* Keeps the rule on a server. */
static ms_result ms__pg_keep_rule(ms__pg_retiring *t, size_t server, ms_error *err)
{
    ms__pg_stmt q;
    ms__pg_start(&q, "insert into msgstore_retired as r (prefix, before) values"
                     " ($1::text, $2::bigint) on conflict (prefix) do update set before ="
                     " greatest(r.before, excluded.before)");
    ms__pg_text(&q, t->desc.prefix);
    ms__pg_number(&q, MS__PG_INT8, t->desc.before_ns);
    return ms__pg_ask(t->s, server, &q, NULL, err);
}

/* Begins a statement about the location: $1 is the bucket, $2 the location. */
static void ms__pg_retire_start(ms__pg_stmt *q, const ms__pg_retiring *t, const char *sql)
{
    ms__pg_start(q, sql);
    ms__pg_number(q, MS__PG_INT4, t->bucket);
    ms__pg_text(q, t->location);
}

#define MS__PG_HERE "bucket = $1::int and location = $2::text"

/* The parts of the transaction. $3: numbers; dry runs: $3 a time. */
static const char ms__pg_retire_records[] =
    "with d as (delete from msgstore_record where " MS__PG_HERE " and seq ="
    " any($3::bigint[]) and kind not in (4, 6) returning kind, until, place,"
    " length(body) as size) select count(*) filter (where kind = 1), count(*) filter"
    " (where kind in (1, 3) and until is null), count(*) filter (where kind > 1),"
    " coalesce(sum(size) filter (where kind = 1), 0)::bigint, coalesce(max(place), 0)"
    " from d";
static const char ms__pg_retire_hides[] =
    "with d as (delete from msgstore_record h where h.bucket = $1::int and h.location ="
    " $2::text and kind = 4 and not exists (select 1 from msgstore_record m where"
    " m.bucket = $1::int and m.location = $2::text and m.kind = 1 and m.seq >= h.seq and"
    " m.seq <= h.upto) returning place) select count(*), coalesce(max(place), 0) from d";
static const char ms__pg_retire_facts[] =
    "with d as (delete from msgstore_record where " MS__PG_HERE " and not exists (select"
    " 1 from msgstore_record where " MS__PG_HERE " and kind = 1) returning 1)"
    " select count(*) from d";
static const char ms__pg_retire_gone[] =
    "delete from msgstore_location where " MS__PG_HERE " and not exists (select 1 from"
    " msgstore_record where " MS__PG_HERE ")";
/* The bounds are those of hiding: reading begins where the location does. */
#define MS__PG_BOUND(column) \
    "(select " column " from msgstore_location where " MS__PG_HERE ")"
static const char ms__pg_retire_enter[] =
    "with a as (select seq, time from msgstore_record where " MS__PG_HERE " and "
    MS__PG_SHOWN " and seq >= " MS__PG_BOUND("first") " order by seq limit 1), z as"
    " (select seq, time from msgstore_record where " MS__PG_HERE " and " MS__PG_SHOWN
    " and seq <= " MS__PG_BOUND("newest") " order by seq desc limit 1), b as (select seq"
    " from msgstore_record where " MS__PG_HERE " and kind = 1 and seq >= "
    MS__PG_BOUND("least") " order by seq limit 1), y as (select seq from msgstore_record"
    " where " MS__PG_HERE " and kind = 1 and seq <= " MS__PG_BOUND("most") " order by"
    " seq desc limit 1) update msgstore_location set n = n - $3::bigint, first ="
    " coalesce((select seq from a), 0), first_time = (select time from a), newest ="
    " coalesce((select seq from z), 0), last_time = (select time from z), era ="
    " coalesce((select seq from z), 0) >> 26, least = (select seq from b), most ="
    " (select seq from y), place = case when place > $4::bigint then place else (select"
    " max(place) from msgstore_record where " MS__PG_HERE ") end where " MS__PG_HERE;
static const char ms__pg_retire_totals[] =
    "update msgstore_bucket set stored = stored - $2::bigint, hidden = hidden -"
    " $3::bigint, changes = changes - $4::bigint, bytes = bytes - $5::bigint where"
    " bucket = $1::int";

/* Deletes the records of the portion, and hides of which no message is left. *shown:
 * messages that views showed; *place: the largest place deleted. */
static ms_result ms__pg_retire_delete(ms__pg_retiring *t, ms__pg_line *line,
                                      int64_t *shown, int64_t *place, ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    ms__pg_retire_start(&q, t, ms__pg_retire_records);
    ms__pg_array_param(&q, &t->old);
    MS__PG_TRY(ms__pg_exec(line, &q, &r, err));
    t->made.messages = (uint64_t)ms__pg_int(r, 0, 0);
    *shown = ms__pg_int(r, 0, 1);
    t->made.changes = (uint64_t)ms__pg_int(r, 0, 2);
    t->made.bytes = (uint64_t)ms__pg_int(r, 0, 3);
    *place = ms__pg_int(r, 0, 4);
    PQclear(r);
    if (t->made.messages == 0) return MS_OK;
    ms__pg_retire_start(&q, t, ms__pg_retire_hides);
    MS__PG_TRY(ms__pg_exec(line, &q, &r, err));
    t->made.changes += (uint64_t)ms__pg_int(r, 0, 0);
    if (ms__pg_int(r, 0, 1) > *place) *place = ms__pg_int(r, 0, 1);
    PQclear(r);
    ms__pg_retire_start(&q, t, ms__pg_retire_facts);
    MS__PG_TRY(ms__pg_exec(line, &q, &r, err));
    t->made.changes += (uint64_t)ms__pg_int(r, 0, 0);
    PQclear(r);
    return MS_OK;
}

/* Does everything between begin and commit. */
static ms_result ms__pg_retire_locked(ms__pg_retiring *t, ms__pg_line *line,
                                      ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    int64_t shown, place;
    ms__pg_start(&q, ms__pg_retire_lock);
    ms__pg_number(&q, MS__PG_INT4, t->bucket);
    MS__PG_TRY(ms__pg_exec(line, &q, NULL, err));
    MS__PG_TRY(ms__pg_retire_delete(t, line, &shown, &place, err));
    if (t->made.messages == 0) return MS_OK;
    ms__pg_retire_start(&q, t, ms__pg_retire_gone);
    MS__PG_TRY(ms__pg_exec(line, &q, &r, err));
    t->made.locations = strtoull(PQcmdTuples(r), NULL, 10);
    PQclear(r);
    if (t->made.locations == 0) {
        ms__pg_retire_start(&q, t, ms__pg_retire_enter);
        ms__pg_number(&q, MS__PG_INT8, shown);
        ms__pg_number(&q, MS__PG_INT8, place);
        MS__PG_TRY(ms__pg_exec(line, &q, NULL, err));
    }
    ms__pg_start(&q, ms__pg_retire_totals);
    ms__pg_number(&q, MS__PG_INT4, t->bucket);
    ms__pg_number(&q, MS__PG_INT8, (int64_t)t->made.messages);
    ms__pg_number(&q, MS__PG_INT8, (int64_t)t->made.messages - shown);
    ms__pg_number(&q, MS__PG_INT8, (int64_t)t->made.changes);
    ms__pg_number(&q, MS__PG_INT8, (int64_t)t->made.bytes);
    return ms__pg_exec(line, &q, NULL, err);
}

/* Deletes the portion. If an earlier attempt did, and its answer was lost, its counts
 * count. */
static ms_result ms__pg_retire_step(ms__pg *s, ms__pg_line *line, void *ctx,
                                    ms_error *err)
{
    ms__pg_retiring *t = (ms__pg_retiring *)ctx;
    ms_pg_retire_report before = t->made;
    (void)s;
    memset(&t->made, 0, sizeof t->made);
    MS__PG_TRY(ms__pg_simple(line, "begin isolation level read committed", err));
    ms_result code = ms__pg_retire_locked(t, line, err);
    if (code == MS_OK && t->made.messages == 0 && t->sent) t->made = before;
    else if (code == MS_OK) t->sent = true;
    if (code == MS_OK) return ms__pg_simple(line, "commit", err);
    if (t->sent) t->made = before;
    bool again = line->again;
    if (!line->lost) (void)ms__pg_simple(line, "rollback", NULL);
    line->again = again;
    return code;
}

static void ms__pg_retire_count(ms_pg_retire_report *to, const ms_pg_retire_report *add)
{
    to->messages += add->messages;
    to->changes += add->changes;
    to->bytes += add->bytes;
    to->locations += add->locations;
    to->untimed += add->untimed;
}

/* Reads the next messages of the location, and collects what is old of them: at most a
 * portion. */
static ms_result ms__pg_retire_read(ms__pg_retiring *t, ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    size_t i, n, most = t->desc.portion;
    ms_arena_reset(&t->scratch);
    t->old = ms__pg_array_of(&t->scratch, MS__PG_INT8);
    ms__pg_retire_start(&q, t, "select seq, time from msgstore_record where " MS__PG_HERE
                               " and kind = 1 and seq > $3::bigint and seq >= "
                               MS__PG_BOUND("least") " order by seq limit $4::bigint");
    ms__pg_number(&q, MS__PG_INT8, ms__pg_signed(t->after));
    ms__pg_number(&q, MS__PG_INT8, (int64_t)most * MS__PG_PIECE);
    MS__PG_TRY(ms__pg_ask(t->s, t->s->owner[t->bucket], &q, &r, err));
    n = (size_t)PQntuples(r);
    for (i = 0; i < n && t->old.n < most; i++) {
        t->after = (uint64_t)ms__pg_int(r, (int)i, 0);
        if (PQgetisnull(r, (int)i, 1)) t->report->untimed++;
        else if (ms__pg_int(r, (int)i, 1) < t->desc.before_ns)
            ms__pg_push_number(&t->old, ms__pg_int(r, (int)i, 0));
    }
    t->read = i == n && n < most * MS__PG_PIECE;
    PQclear(r);
    return MS_OK;
}

/* Counts what a location would lose. */
static ms_result ms__pg_retire_dry(ms__pg_retiring *t, ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    ms_pg_retire_report add;
    memset(&add, 0, sizeof add);
    ms__pg_retire_start(
        &q, t, "with g as (select seq, length(body) as size from msgstore_record where "
        MS__PG_HERE " and kind = 1 and time < $3::bigint), k as (select kind, seq, upto"
        " from msgstore_record where " MS__PG_HERE " and kind > 1), y as not materialized"
        " (select seq from msgstore_record where " MS__PG_HERE " and kind = 1 and (time"
        " is null or time >= $3::bigint)) select (select count(*) from g), (select"
        " coalesce(sum(size), 0)::bigint from g), (select count(*) from k where kind not"
        " in (4, 6) and seq in (select seq from g)) + (select count(*) from k where kind"
        " = 4 and not exists (select 1 from y where y.seq >= k.seq and y.seq <= k.upto))"
        " + (select count(*) from k where kind = 6 and not exists (select 1 from y)),"
        " exists (select 1 from y), (select count(*) from msgstore_record where "
        MS__PG_HERE " and kind = 1 and time is null)");
    ms__pg_number(&q, MS__PG_INT8, t->desc.before_ns);
    MS__PG_TRY(ms__pg_ask(t->s, t->s->owner[t->bucket], &q, &r, err));
    add.untimed = (uint64_t)ms__pg_int(r, 0, 4);
    add.messages = (uint64_t)ms__pg_int(r, 0, 0);
    if (add.messages > 0) {
        add.bytes = (uint64_t)ms__pg_int(r, 0, 1);
        add.changes = (uint64_t)ms__pg_int(r, 0, 2);
        add.locations = PQgetvalue(r, 0, 3)[0] == 0;
    }
    PQclear(r);
    ms__pg_retire_count(t->report, &add);
    return MS_OK;
}

/* Deletes what is old of the location. */
static ms_result ms__pg_retire_location(ms__pg_retiring *t, ms_error *err)
{
    t->after = 0;
    t->read = false;
    if (t->desc.dry_run) return ms__pg_retire_dry(t, err);
    while (!t->read && !ms__pg_is_full(t)) {
        MS__PG_TRY(ms__pg_retire_read(t, err));
        if (t->old.n == 0) continue;
        memset(&t->made, 0, sizeof t->made);
        t->sent = false;
        MS__PG_TRY(ms__pg_call(t->s, t->s->owner[t->bucket], ms__pg_retire_step, t, err));
        ms__pg_retire_count(t->report, &t->made);
    }
    return MS_OK;
}

/* Waits until no shipper is under way that has not seen the rule. */
static ms_result ms__pg_retire_fence(ms__pg_retiring *t, ms_error *err)
{
    ms__pg_stmt q;
    ms__pg_start(&q, ms__pg_retire_lock);
    ms__pg_number(&q, MS__PG_INT4, t->bucket);
    return ms__pg_ask(t->s, t->s->owner[t->bucket], &q, NULL, err);
}

/* Reads a page of the bucket's locations after `last`. */
static ms_result ms__pg_retire_page(ms__pg_retiring *t, ms_str last, PGresult **r,
                                    ms_error *err)
{
    ms__pg_stmt q;
    char text[64];
    ms__pg_start(&q, NULL);
    ms__pg_say(&q, "select location from msgstore_location where true");
    ms__pg_say_param(&q, " and bucket = ", "int");
    ms__pg_number(&q, MS__PG_INT4, t->bucket);
    if (last.ptr) ms__pg_say_text(&q, " and location > ", last);
    ms__pg_say_prefix(t->s, &q, t->desc.prefix, &t->arena);
    snprintf(text, sizeof text, " order by location limit %d", MS__PG_NAMES);
    ms__pg_say(&q, text);
    return ms__pg_ask(t->s, t->s->owner[t->bucket], &q, r, err);
}

static ms_result ms__pg_retire_bucket(ms__pg_retiring *t, ms_error *err)
{
    ms_result code = t->desc.dry_run ? MS_OK : ms__pg_retire_fence(t, err);
    PGresult *r = NULL, *page;
    ms_str last = ms_str_n(NULL, 0);
    int n = MS__PG_NAMES;
    while (code == MS_OK && n == MS__PG_NAMES && !ms__pg_is_full(t)) {
        ms_arena_reset(&t->arena);
        code = ms__pg_retire_page(t, last, &page, err);
        if (code != MS_OK) break;
        PQclear(r);
        r = page; /* it has the last name */
        n = PQntuples(r);
        for (int i = 0; i < n && code == MS_OK && !ms__pg_is_full(t); i++) {
            t->location = last = ms__pg_str(r, i, 0);
            code = ms__pg_retire_location(t, err);
        }
    }
    PQclear(r);
    return code;
}

static ms_result ms__pg_retire_check(const ms__pg *s, const ms_pg_retire_desc *desc,
                                     ms_error *err)
{
    int64_t now = s->desc.clock.now ? s->desc.clock.now(s->desc.clock.ctx)
                                    : ms__pg_system_time();
    if (!ms__pg_is_name(desc->prefix))
        return ms_error_set(err, MS_E_ARGUMENT, "the prefix is no text of a location");
    if (desc->before_ns > now)
        return ms_error_set(err, MS_E_ARGUMENT, "the time of a rule is not to come");
    return ms__pg_check(s, !desc->dry_run, err);
}

MS_API ms_result ms_pg_retire(ms_store *store, const ms_pg_retire_desc *desc,
                              ms_pg_retire_report *report, ms_error *err)
{
    ms__pg_retiring t;
    ms_pg_retire_report own;
    if (!report) report = &own;
    memset(report, 0, sizeof *report);
    if (!ms__pg_is_store(store))
        return ms_error_set(err, MS_E_ARGUMENT, "the store is not on PostgreSQL");
    ms__pg *s = ms__pg_of(store);
    MS__PG_TRY(ms__pg_retire_check(s, desc, err));
    memset(&t, 0, sizeof t);
    t.s = s;
    t.desc = *desc;
    if (!t.desc.prefix.ptr) t.desc.prefix = MS_STR("");
    if (t.desc.portion == 0) t.desc.portion = 1000;
    if (t.desc.portion > 100000) t.desc.portion = 100000;
    t.report = report;
    t.arena = t.scratch = ms__pg_arena(s);
    ms_result code = MS_OK;
    for (size_t i = 0; i < s->n_servers && code == MS_OK && !desc->dry_run; i++)
        code = ms__pg_keep_rule(&t, i, err);
    for (t.bucket = 0; t.bucket < MS_PG_BUCKETS && code == MS_OK; t.bucket++) {
        code = ms__pg_retire_bucket(&t, err);
        if (ms__pg_is_full(&t)) break;
    }
    report->more = code == MS_OK && ms__pg_is_full(&t) && !desc->dry_run;
    ms_arena_deinit(&t.arena);
    ms_arena_deinit(&t.scratch);
    return code;
}

/* ==== [pg-wait] ======================================================================
 * A waiter asks at once after a notification, then 50 ms after it, and then ever more
 * seldom. For a location it asks for one row of the table of locations, down to twice a
 * second; for the store it asks for the totals, down to once a second. It
 * listens on a connection of its own, to the channel of its location's bucket
 * ("msgstore_7"), or to that of all ("msgstore"). Where it cannot listen it only asks.
 *
 * The notification is a statement after the append's own, whose answer is not waited for:
 * NOTIFY inside of the append would make all commits wait for each other (0.26 of the
 * throughput with eight clients). A handle sends one every MS__PG_NOTIFY_MS at most. It
 * names all buckets that have changed since the one before; those of the last changes
 * before a pause of the handle are not named, and the waiter asks by itself.
 *
 * The server wakes all sessions that listen, whatever they listen to, for each
 * notification. So none is sent where nobody waits: a session that listens shares an
 * advisory lock of its channel, and a notification is sent if that lock cannot be had
 * alone. The waiter takes it before it looks, the appender tries after its commit.
 *
 * A new message may have a smaller number than the newest of the store, so a waiter of
 * the store compares the numbers of messages, too.
 * ================================================================================== */

#define MS__PG_NOTIFY_MS   10
#define MS__PG_NOTIFY_MOST 32 /* buckets that one notification names */
#define MS__PG_LISTENED    "621783612" /* advisory locks; 1024: who waits for all */

/* Takes buckets that have changed, for a notification that is due. Returns how many. */
static unsigned ms__pg_changed(ms__pg *s, const ms__pg_batch *b,
                               unsigned changed[MS__PG_NOTIFY_MOST])
{
    unsigned n = 0;
    int64_t now = ms__pg_now();
    ms__pg_lock_take(&s->lock);
    for (size_t i = 0; i < b->n; i++) {
        unsigned k = b->rows[i].bucket;
        s->changed[k / 32] |= (uint32_t)1 << k % 32;
    }
    bool due = !s->desc.no_notify && now - s->notified >= MS__PG_NOTIFY_MS;
    if (due) s->notified = now;
    for (unsigned k = 0; k < MS_PG_BUCKETS && due && n < MS__PG_NOTIFY_MOST; k++) {
        if (!s->changed[k / 32]) k += 31 - k % 32;
        else if (s->changed[k / 32] >> k % 32 & 1) {
            s->changed[k / 32] &= ~((uint32_t)1 << k % 32);
            changed[n++] = k;
        }
    }
    ms__pg_lock_give(&s->lock);
    return n;
}

static void ms__pg_notify(ms__pg *s, ms__pg_line *line, const ms__pg_batch *b)
{
    unsigned changed[MS__PG_NOTIFY_MOST];
    char sql[320 + 6 * MS__PG_NOTIFY_MOST];
    if (line->lost || PQtransactionStatus(line->conn) != PQTRANS_IDLE) return;
    unsigned n = ms__pg_changed(s, b, changed);
    if (n == 0) return;
    /* The append does not wait for this commit, which stores nothing. */
    int len = snprintf(sql, sizeof sql, "begin; set local synchronous_commit = off;"
                       " select pg_notify(case when b < 1024 then 'msgstore_' || b else"
                       " 'msgstore' end, '') from unnest(array[1024");
    for (unsigned i = 0; i < n; i++)
        len += snprintf(sql + len, sizeof sql - (size_t)len, ",%u", changed[i]);
    snprintf(sql + len, sizeof sql - (size_t)len, "]) as b where not"
             " pg_try_advisory_xact_lock(" MS__PG_LISTENED ", b); commit");
    if (PQsendQuery(line->conn, sql)) line->noisy = true;
    else line->lost = true;
    if (line->noisy) (void)PQflush(line->conn);
}

/* Ends listening. */
static void ms__pg_unlisten(ms__pg *s)
{
    ms__pg_line *line = &s->listener;
    line->deadline = ms__pg_now() + 1000;
    if (!line->conn || line->lost ||
        ms__pg_simple(line, "unlisten *; select pg_advisory_unlock_all()", NULL) != MS_OK)
        ms__pg_line_drop(line);
    ms__pg_lock_take(&s->lock);
    line->busy = false;
    line->at = ms__pg_now();
    ms__pg_lock_give(&s->lock);
}

/* Returns whether this thread listens: one thread of the handle does, others ask. A
 * listener would keep a session that desc.release promises to others. bucket < 0: to
 * all. */
static bool ms__pg_listen(ms__pg *s, int bucket, int64_t deadline)
{
    char sql[120];
    ms__pg_line *line = &s->listener;
    ms__pg_lock_take(&s->lock);
    bool mine = !line->busy && !s->desc.no_notify && !s->desc.release;
    if (mine) line->busy = true;
    ms__pg_lock_give(&s->lock);
    if (!mine) return false;
    if (bucket >= 0) snprintf(sql, sizeof sql, "listen msgstore_%d", bucket);
    else snprintf(sql, sizeof sql, "listen msgstore");
    line->deadline = deadline;
    line->lost = false;
    if ((line->conn ||
         ms__pg_connect(line, s->servers[0].url, &s->desc, NULL) == MS_OK) &&
        ms__pg_simple(line, sql, NULL) == MS_OK) {
        snprintf(sql, sizeof sql, "select pg_advisory_lock_shared(" MS__PG_LISTENED
                 ", %d)", bucket >= 0 ? bucket : MS_PG_BUCKETS);
        if (ms__pg_simple(line, sql, NULL) == MS_OK) return true;
    }
    line->lost = true;
    ms__pg_unlisten(s);
    return false;
}

/* Sleeps for at most ms milliseconds, or until a notification comes: then it returns
 * true. */
static bool ms__pg_doze(ms__pg *s, bool listens, int64_t ms)
{
    ms__pg_line *line = &s->listener;
    PGnotify *note;
    ms__pg_pollfd fd;
    if (!listens || line->lost) {
        ms__pg_nap(ms);
        return false;
    }
    fd.fd = PQsocket(line->conn);
    fd.events = POLLIN;
    fd.revents = 0;
    if (ms__pg_poll(&fd, 1, (int)ms) <= 0) return false;
    if (!PQconsumeInput(line->conn)) line->lost = true;
    while ((note = PQnotifies(line->conn)) != NULL) PQfreemem(note);
    return true;
}

/* What a waiter knows. */
typedef struct ms__pg_waiter {
    ms_store *store;
    ms_str location;          /* empty: the store */
    uint64_t after_seq;       /* of the store */
    uint64_t place;           /* of the location */
    ms_stat first;            /* of the store, when the call began */
    bool begun;
    uint64_t newest;          /* of the store */
} ms__pg_waiter;

/* Looks; *ended: there is something new. */
static ms_result ms__pg_wait_look(ms__pg_waiter *w, bool *ended, ms_error *err)
{
    ms_stat now;
    ms__pg_stmt q;
    PGresult *r;
    ms__pg *s = ms__pg_of(w->store);
    if (!w->location.len) {
        MS__PG_TRY(ms__pg_sum(s, true, &now, err));
        if (!w->begun) w->first = now;
        w->begun = true;
        w->newest = now.last_seq;
        *ended = !(now.last_seq <= w->after_seq && now.changes == w->first.changes &&
                   now.messages + now.hidden == w->first.messages + w->first.hidden);
        return MS_OK;
    }
    MS__PG_TRY(ms__pg_check(s, false, err));
    ms__pg_start(&q, NULL);
    ms__pg_say(&q, "select place from msgstore_location where true");
    ms__pg_say_bucket(&q, w->location);
    MS__PG_TRY(ms__pg_ask(s, s->owner[ms_pg_bucket(w->location)], &q, &r, err));
    uint64_t place = PQntuples(r) > 0 ? (uint64_t)ms__pg_int(r, 0, 0) : 0;
    PQclear(r);
    *ended = place != w->place;
    w->place = place;
    return MS_OK;
}

static ms_result ms__pg_wait_for(ms__pg_waiter *w, uint32_t timeout_ms, ms_error *err)
{
    ms__pg *s = ms__pg_of(w->store);
    int bucket = w->location.len ? (int)ms_pg_bucket(w->location) : -1;
    int64_t end = ms__pg_now() + timeout_ms, pause = 50;
    const int64_t longest = w->location.len ? 500 : 1000;
    bool listens = false, tried = false, ended;
    ms_result code = ms__pg_wait_look(w, &ended, err);
    while (code == MS_OK && !ended) {
        int64_t left = end - ms__pg_now();
        if (left <= 0) break;
        if (!tried && s->n_servers == 1) {
            /* A pooler loses the session of a client that leaves amid a statement. */
            listens = ms__pg_listen(s, bucket, end + 1000);
            if (listens) left = 0; /* ask once more: there may be new messages */
        }
        tried = true;
        if (left > 0 && ms__pg_doze(s, listens, left < pause ? left : pause)) pause = 50;
        else if (left > 0 && pause < (listens ? longest : 250))
            pause = 2 * pause < longest ? 2 * pause : longest;
        code = ms__pg_wait_look(w, &ended, err);
    }
    if (listens) ms__pg_unlisten(s);
    return code;
}

static ms_result ms__pg_wait(ms_store *store, uint64_t after_seq, uint32_t timeout_ms,
                             uint64_t *last_seq, ms_error *err)
{
    ms__pg_waiter w;
    memset(&w, 0, sizeof w);
    w.store = store;
    w.after_seq = after_seq;
    ms_result code = ms__pg_wait_for(&w, timeout_ms, err);
    if (code == MS_OK && last_seq) *last_seq = w.newest;
    return code;
}

MS_API ms_result ms_pg_wait(ms_store *store, ms_str location, uint64_t *place,
                            uint32_t timeout_ms, ms_error *err)
{
    ms__pg_waiter w;
    memset(&w, 0, sizeof w);
    if (!ms__pg_is_store(store))
        return ms_error_set(err, MS_E_ARGUMENT, "the store is not on PostgreSQL");
    if (!location.len || !ms__pg_is_name(location))
        return ms_error_set(err, MS_E_ARGUMENT, "no location has this name");
    w.store = store;
    w.location = location;
    w.place = *place;
    ms_result code = ms__pg_wait_for(&w, timeout_ms, err);
    if (code == MS_OK) *place = w.place;
    return code;
}

/* Has a server write its log to the disk: a commit that locked a row, and does not leave
 * that for later as those of other clients, or of this role, may. */
static ms_result ms__pg_flush_step(ms__pg *s, ms__pg_line *line, void *ctx, ms_error *err)
{
    char sql[160];
    (void)s;
    snprintf(sql, sizeof sql, "begin; set local synchronous_commit = local; select last"
             " from msgstore_bucket where bucket = %u for update; commit",
             *(const unsigned *)ctx);
    return ms__pg_simple(line, sql, err);
}

/* Returns the durable number: all messages that are committed now. A client that only
 * reads may not lock: its number is of what is committed. So is that of a distributed
 * server, whose nodes have a log each and their own settings. */
static ms_result ms__pg_sync(ms_store *store, uint64_t *durable_seq, ms_error *err)
{
    ms__pg *s = ms__pg_of(store);
    ms_stat stat;
    MS__PG_TRY(ms__pg_sum(s, true, &stat, err));
    bool flushes = !s->desc.read_only && !s->routed;
    for (unsigned k = 0; k < MS_PG_BUCKETS && flushes; k++) {
        if (k > 0 && s->owner[k] == s->owner[k - 1]) continue;
        MS__PG_TRY(ms__pg_call(s, s->owner[k], ms__pg_flush_step, &k, err));
    }
    *durable_seq = stat.last_seq;
    return MS_OK;
}

/* ---- Counts. */

static void ms__pg_counts_of(ms__pg *s, ms_pg_counts *out)
{
    ms__pg_line *line;
    memset(out, 0, sizeof *out);
    ms__pg_lock_take(&s->lock);
    out->repeats = s->repeats;
    out->resolved = s->resolved;
    out->replica_reads = s->readers[MS__PG_FITS];
    out->replica_behind = s->readers[MS__PG_BEHIND];
    out->replica_away = s->readers[MS__PG_AWAY];
    out->replica_foreign = s->readers[MS__PG_FOREIGN];
    out->idle_closed = s->idle_closed;
    for (size_t n = 0; (line = ms__pg_next_line(s, &n)) != NULL;)
        out->connections += line->busy || line->conn;
    ms__pg_lock_give(&s->lock);
}

MS_API ms_result ms_pg_count(ms_store *store, ms_pg_counts *out, ms_error *err)
{
    if (!ms__pg_is_store(store)) {
        memset(out, 0, sizeof *out);
        return ms_error_set(err, MS_E_ARGUMENT, "the store is not on PostgreSQL");
    }
    ms__pg_counts_of(ms__pg_of(store), out);
    return MS_OK;
}

MS_API ms_result ms_pg_newest(ms_store *store, ms_error *err)
{
    if (!ms__pg_is_store(store))
        return ms_error_set(err, MS_E_ARGUMENT, "the store is not on PostgreSQL");
    ms__pg *s = ms__pg_of(store);
    for (size_t i = 0; i < s->n_servers; i++) ms__pg_answered(s, i);
    return MS_OK;
}

MS_API ms_result ms_pg_close_idle(ms_store *store, uint32_t idle_ms, ms_error *err)
{
    if (!ms__pg_is_store(store))
        return ms_error_set(err, MS_E_ARGUMENT, "the store is not on PostgreSQL");
    ms__pg *s = ms__pg_of(store);
    MS__PG_TRY(ms__pg_check(s, false, err));
    ms__pg_sweep(s, idle_ms);
    return MS_OK;
}

/* ==== [pg-open] ===================================================================== */

static void ms__pg_close(ms_store *store)
{
    ms__pg *s = ms__pg_of(store);
    bool own = ms__pg_process() == s->process; /* a child must not end the sessions */
    ms__pg_line *line;
    for (size_t n = 0; own && (line = ms__pg_next_line(s, &n)) != NULL;)
        ms__pg_line_drop(line);
    ms__pg_lock_free(&s->lock);
    ms__pg_cond_free(&s->returned);
    s->base.open = 0;
    ms_arena arena = s->arena; /* the arena holds s */
    ms_arena_deinit(&arena);
}

static const ms_backend ms__pg_backend = {
    ms__pg_append, ms__pg_query,   ms__pg_next,      ms__pg_cursor_close,
    ms__pg_get,    ms__pg_list,    ms__pg_stat,      ms__pg_sync,
    ms__pg_close,  NULL,           ms__pg_leave_out, ms__pg_change,
    ms__pg_erase,  NULL,           ms__pg_wait};

/* Reads the version of the tables. MS_E_NOT_FOUND: there are none. */
static ms_result ms__pg_version(ms__pg_line *line, int64_t *version, ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    *version = 0;
    ms__pg_start(&q, "select max(version) from msgstore_schema");
    MS__PG_TRY(ms__pg_exec(line, &q, &r, err));
    *version = ms__pg_int(r, 0, 0);
    PQclear(r);
    return MS_OK;
}

static ms_result ms__pg_version_check(int64_t version, ms_error *err)
{
    char text[160];
    if (version == MS__PG_VERSION) return MS_OK;
    if (version == 1)
        return ms_error_set(err, MS_E_FOREIGN,
                            "the tables have version 1, of msgstore 0.2.0: use msgstore"
                            " export of that version, then msgstore import of this one"
                            " into another database");
    snprintf(text, sizeof text, "the tables have version %lld, this program needs %d%s",
             (long long)version, MS__PG_VERSION,
             version > MS__PG_VERSION
                 ? ": use the msgstore that made them, or a newer one"
                 : ": a client that may create tables brings them to it");
    return ms_error_set(err, MS_E_FOREIGN, text);
}

static ms_result ms__pg_create_tables(ms__pg *s, ms__pg_line *line, ms_error *err)
{
    char sql[640];
    for (size_t i = 0; i < sizeof ms__pg_create / sizeof ms__pg_create[0]; i++) {
        bool whole = s->desc.partitions == 1;
        if (ms__pg_create[i]) {
            MS__PG_TRY(ms__pg_simple(line, ms__pg_create[i], err));
            continue;
        }
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

#define MS__PG_MIGRATE_MS 3600000

/* Brings tables of an earlier version to this one. */
static ms_result ms__pg_migrate(ms__pg_line *line, ms_error *err)
{
    int64_t version;
    MS__PG_TRY(ms__pg_version(line, &version, err));
    int64_t deadline = line->deadline;
    if (version > 0 && version < MS__PG_VERSION) /* rows of a large store are counted */
        line->deadline = ms__pg_now() + MS__PG_MIGRATE_MS;
    for (size_t i = 0; i < sizeof ms__pg_migrations / sizeof ms__pg_migrations[0]; i++)
        if (ms__pg_migrations[i].version > version)
            MS__PG_TRY(ms__pg_simple(line, ms__pg_migrations[i].sql, err));
    line->deadline = deadline;
    return MS_OK;
}

/* Looks again under the lock, where there were no tables before: version 0.2.0 can have
 * made its own since. *version 0: there are still none. */
static ms_result ms__pg_version_now(ms__pg_line *line, int64_t *version, ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    *version = 0;
    ms__pg_start(&q, "select count(*) from pg_catalog.pg_class where oid ="
                     " to_regclass('msgstore_schema')");
    MS__PG_TRY(ms__pg_exec(line, &q, &r, err));
    bool none = ms__pg_int(r, 0, 0) == 0;
    PQclear(r);
    if (none) return MS_OK;
    MS__PG_TRY(ms__pg_version(line, version, err));
    return *version < 2 ? ms__pg_version_check(*version, err) : MS_OK;
}

/* Creates or migrates the tables, all or none. Clients that do so at the same time take
 * turns. */
static ms_result ms__pg_create_step(ms__pg *s, ms__pg_line *line, void *ctx,
                                    ms_error *err)
{
    int64_t version;
    (void)ctx;
    ms_result code = ms__pg_version(line, &version, err);
    bool create = !s->desc.no_create && !s->desc.read_only;
    if (code == MS_OK && (version >= MS__PG_VERSION || version < 2 || !create))
        return ms__pg_version_check(version, err);
    if ((code != MS_OK && code != MS_E_NOT_FOUND) || !create) return code;
    /* Each statement sees what was stored before the turn came, also where the role's
     * transactions have one snapshot. */
    MS__PG_TRY(ms__pg_simple(line, "begin isolation level read committed", err));
    code = ms__pg_simple(line, "select pg_advisory_xact_lock(6217836124188)", err);
    if (code == MS_OK && version == 0) code = ms__pg_version_now(line, &version, err);
    if (code == MS_OK && version == 0) code = ms__pg_create_tables(s, line, err);
    if (code == MS_OK) code = ms__pg_migrate(line, err);
    if (code == MS_OK) return ms__pg_simple(line, "commit", err);
    bool again = line->again;
    if (!line->lost) (void)ms__pg_simple(line, "rollback", NULL);
    line->again = again;
    return code;
}

/* The buckets found on all servers. */
typedef struct ms__pg_found_buckets {
    unsigned n, clashes;      /* on two servers */
    bool foreign;             /* on another server than this handle would choose */
} ms__pg_found_buckets;

static ms_result ms__pg_find_buckets(ms__pg *s, ms__pg_found_buckets *f, ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    memset(f, 0, sizeof *f);
    if (s->n_servers == 1) { /* numbers are not listed: it has all, or some */
        ms__pg_start(&q, "select count(*), coalesce(max(last), 0) from msgstore_bucket"
                         " where bucket between 0 and 1023");
        MS__PG_TRY(ms__pg_ask(s, 0, &q, &r, err));
        f->n = (unsigned)ms__pg_int(r, 0, 0);
        f->foreign = f->n > 0 && f->n < MS_PG_BUCKETS;
        ms__pg_saw(s, ms__pg_int(r, 0, 1));
        PQclear(r);
        memset(s->owner, 0, sizeof s->owner);
        return MS_OK;
    }
    for (size_t i = 0; i < MS_PG_BUCKETS; i++) s->owner[i] = UINT16_MAX;
    ms__pg_start(&q, "select bucket, last from msgstore_bucket");
    for (size_t server = 0; server < s->n_servers; server++) {
        MS__PG_TRY(ms__pg_ask(s, server, &q, &r, err));
        for (int i = 0; i < PQntuples(r); i++) {
            size_t bucket = (size_t)ms__pg_int(r, i, 0) % MS_PG_BUCKETS;
            if (s->owner[bucket] == UINT16_MAX) f->n++;
            else f->clashes++;
            if (bucket * s->n_servers / MS_PG_BUCKETS != server) f->foreign = true;
            s->owner[bucket] = (uint16_t)server;
            ms__pg_saw(s, ms__pg_int(r, i, 1));
        }
        PQclear(r);
    }
    return MS_OK;
}

/* Finds whether a server is distributed itself. Engines without that table are not. */
static ms_result ms__pg_find_engine(ms__pg *s, ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    s->routed = s->desc.one_bucket;
    ms__pg_start(&q, "select count(*) from pg_catalog.pg_extension where extname ="
                     " 'citus'");
    for (size_t i = 0; i < s->n_servers && !s->routed; i++) {
        MS__PG_TRY(ms__pg_ask(s, i, &q, &r, err));
        s->routed = ms__pg_int(r, 0, 0) > 0;
        PQclear(r);
        if (s->routed && s->servers[i].replica.has_url) /* each node has its own log */
            return ms_error_set(err, MS_E_UNSUPPORTED, "a replica of Citus is not read");
    }
    return MS_OK;
}

/* Fails where row-level security shows the user no row of a table, since no policy is of
 * that role: the store would look empty. */
static ms_result ms__pg_need_policy(ms__pg *s, size_t server, ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    char text[256];
    ms__pg_start(&q, "select c.relname::text, current_user::text from pg_catalog.pg_class"
                     " c where c.oid in (to_regclass('msgstore_record')::oid,"
                     " to_regclass('msgstore_location')::oid) and"
                     " row_security_active(c.oid) and not exists (select 1 from"
                     " pg_catalog.pg_policy p, unnest(p.polroles) as role where"
                     " p.polrelid = c.oid and p.polpermissive and p.polcmd in ('r', '*')"
                     " and case when role = 0 then true else pg_has_role(role, 'USAGE')"
                     " end) order by 1 desc limit 1");
    MS__PG_TRY(ms__pg_ask(s, server, &q, &r, err));
    bool none = PQntuples(r) > 0;
    if (none) {
        ms_str table = ms__pg_str(r, 0, 0), role = ms__pg_str(r, 0, 1);
        snprintf(text, sizeof text, "row-level security hides all rows of %.*s from role"
                 " '%.*s', which has no policy", (int)table.len, table.ptr,
                 (int)role.len, role.ptr);
    }
    PQclear(r);
    return none ? ms_error_set(err, MS_E_READ_ONLY, text) : MS_OK;
}

/* Finds whether policies hide rows from the user. Engines without the function have no
 * policies. */
static ms_result ms__pg_find_policies(ms__pg *s, ms_error *err)
{
    ms__pg_stmt q;
    PGresult *r;
    bool active;
    for (size_t i = 0; i < s->n_servers; i++) {
        ms__pg_start(&q, "select count(*) from pg_catalog.pg_class where oid ="
                         " to_regclass('msgstore_record') and relrowsecurity");
        MS__PG_TRY(ms__pg_ask(s, i, &q, &r, err));
        bool some = ms__pg_int(r, 0, 0) > 0;
        PQclear(r);
        if (!some) continue;
        ms__pg_start(&q, "select row_security_active('msgstore_record')::int");
        MS__PG_TRY(ms__pg_ask(s, i, &q, &r, err));
        active = ms__pg_int(r, 0, 0) > 0;
        PQclear(r);
        if (active) MS__PG_TRY(ms__pg_need_policy(s, i, err));
        if (active) s->secured = true;
    }
    return MS_OK;
}

/* Finds the server of each bucket. Missing buckets are distributed, unless the existing
 * ones were distributed among other servers. */
static ms_result ms__pg_buckets(ms__pg *s, ms_error *err)
{
    ms__pg_stmt q;
    ms__pg_found_buckets f;
    char text[128];
    MS__PG_TRY(ms__pg_find_engine(s, err));
    MS__PG_TRY(ms__pg_find_policies(s, err));
    MS__PG_TRY(ms__pg_find_buckets(s, &f, err));
    bool make = !s->desc.no_create && !s->desc.read_only;
    if (f.n == 0 && !make)
        return ms_error_set(err, MS_E_NOT_FOUND, "the tables have no buckets yet");
    if (f.n < MS_PG_BUCKETS && !f.foreign && make) {
        ms__pg_start(&q, "insert into msgstore_bucket (bucket, last)"
                         " select b, 0 from generate_series(0, 1023) as b"
                         " where b * $1::int / 1024 = $2::int on conflict do nothing");
        ms__pg_number(&q, MS__PG_INT4, (int64_t)s->n_servers);
        for (size_t i = 0; i < s->n_servers; i++, q.n = 1) {
            ms__pg_number(&q, MS__PG_INT4, (int64_t)i);
            MS__PG_TRY(ms__pg_ask(s, i, &q, NULL, err));
        }
        MS__PG_TRY(ms__pg_find_buckets(s, &f, err));
    }
    if (f.n == MS_PG_BUCKETS && f.clashes == 0) return MS_OK;
    if (s->n_servers == 1)
        snprintf(text, sizeof text, "the server has %u of 1024 buckets: it is one of"
                 " several, and desc.urls has to name all", f.n);
    else
        snprintf(text, sizeof text, "the servers do not belong together: they have %u of"
                 " 1024 buckets, %u of them twice", f.n, f.clashes);
    return ms_error_set(err, MS_E_FOREIGN, text);
}

static void ms__pg_defaults(ms_pg_desc *d)
{
    if (d->partitions == 0) d->partitions = 8;
    if (d->connections == 0) d->connections = 8;
    if (d->timeout_ms == 0) d->timeout_ms = 30000;
    if (d->statement_ms == 0) d->statement_ms = d->timeout_ms;
    if (d->replica_lag_ms == 0) d->replica_lag_ms = 1000;
    if (d->idle_ms == 0) d->idle_ms = 600000;
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

/* Sets the random part of this handle's keys. */
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

/* Returns the connection string of the replica of server i; NULL: it has none. */
static const char *ms__pg_replica_url(const ms_pg_desc *desc, size_t i)
{
    if (desc->n_urls == 0) return desc->replica_url;
    return desc->replica_urls ? desc->replica_urls[i] : NULL;
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
    ms__pg_cond_init(&s->returned);
    ms__pg_client(s);
    size_t n = desc->n_urls ? desc->n_urls : 1;
    s->servers = (ms__pg_server *)ms_arena_alloc(&s->arena, 2 * n * sizeof *s->servers);
    bool fits = s->servers != NULL;
    if (fits) memset(s->servers, 0, 2 * n * sizeof *s->servers);
    for (size_t i = 0; i < n && fits; i++) {
        const char *replica = ms__pg_replica_url(desc, i);
        fits = ms__pg_server_init(s, i, desc->n_urls ? desc->urls[i] : desc->url);
        if (fits && replica) fits = ms__pg_server_init(s, n + i, replica);
        s->servers[i].replica.has_url = replica != NULL;
        s->servers[i].replica.why = MS__PG_BEHIND;
    }
    if (fits) s->n_servers = n;
    if (fits) return s;
    ms__pg_close(&s->base);
    return NULL;
}

static ms_result ms__pg_url_check(const char *url, ms_error *err)
{
    char *why = NULL;
    ms_result code = MS_OK;
    if (!url || (!strchr(url, '=') && !strstr(url, "://"))) return MS_OK; /* a name */
    PQconninfoOption *options = PQconninfoParse(url, &why);
    if (!options) code = ms__pg_fail(err, MS_E_ARGUMENT, "the connection string", why);
    PQconninfoFree(options);
    PQfreemem(why);
    return code;
}

MS_API ms_result ms_pg_open(ms_store **store, const ms_pg_desc *desc, ms_error *err)
{
    ms_pg_desc none;
    memset(&none, 0, sizeof none);
    if (!desc) desc = &none;
    *store = NULL;
    if (desc->n_urls > MS_PG_BUCKETS || (desc->n_urls && !desc->urls))
        return ms_error_set(err, MS_E_ARGUMENT, "1 to 1024 servers have a url each");
    if (desc->n_urls ? desc->replica_url != NULL : desc->replica_urls != NULL)
        return ms_error_set(err, MS_E_ARGUMENT, "replica_url goes with url, replica_urls "
                                                "with urls");
    MS__PG_TRY(ms__pg_url_check(desc->url, err));
    for (size_t i = 0; i < desc->n_urls; i++)
        MS__PG_TRY(ms__pg_url_check(desc->urls[i], err));
    for (size_t i = 0; i < (desc->n_urls ? desc->n_urls : 1); i++)
        MS__PG_TRY(ms__pg_url_check(ms__pg_replica_url(desc, i), err));
    ms__pg *s = ms__pg_new(desc);
    if (!s) return ms__pg_no_memory(err);
    ms_result code = MS_OK;
    for (size_t i = 0; i < s->n_servers && code == MS_OK; i++)
        code = ms__pg_call(s, i, ms__pg_create_step, NULL, err);
    if (code == MS_OK) code = ms__pg_buckets(s, err);
    if (code != MS_OK) ms__pg_close(&s->base);
    else *store = &s->base;
    return code;
}

#ifdef __cplusplus
}
#endif

#endif /* MSGSTORE_POSTGRES_IMPLEMENTED */
#endif /* MSGSTORE_POSTGRES_IMPLEMENTATION */
