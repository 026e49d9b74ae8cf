/* PostgreSQL as a kind of store for the tests of stores.h: compiled with TEST_POSTGRES,
 * a test that is written for every kind runs over this one. MS_TEST_PG names the server;
 * with MS_TEST_PG_2 and _3 a store is spread over three; with MS_TEST_CITUS it is the
 * coordinator of a Citus cluster, and the tables are distributed; with MS_TEST_PG_REPLICA,
 * a standby of MS_TEST_PG, readers use that.
 *
 * A store is a schema of the database. Schemas are used again, after their rows are
 * deleted, and so are the handles: connecting costs more than a short test.
 */

#ifndef POSTGRES_KIND_H
#define POSTGRES_KIND_H

#define MSGSTORE_POSTGRES_IMPLEMENTATION
#include "backends/msgstore_postgres.h"
#include "locations.h"
#include "tests/platform/citus/distribute.h"

/* Tests look messages up without an arena; what they get lives until the end. */
static inline ms_result pg_get_by_seq(ms_store *store, uint64_t seq, ms_arena *arena,
                                      const ms_msg **msg, ms_error *err)
{
    static ms_arena kept;
    if (arena != NULL || store->backend->get != ms__pg_get)
        return ms_get_by_seq(store, seq, arena, msg, err);
    ms_result code = ms__pg_get(store, seq, &kept, msg, err);
    if (code != MS_OK) *msg = NULL;
    return code == MS_E_HIDDEN ? ms_error_set(err, MS_E_NOT_FOUND, "hidden") : code;
}
#define ms_get_by_seq pg_get_by_seq

enum { PG_PLACES = 12, PG_SERVERS = 3 };

typedef struct pg_place {
    ms_store *store;          /* a handle that is kept; NULL: none yet */
    bool used;
    void (*close)(ms_store *store);
    ms_backend backend;       /* close only gives the place back */
} pg_place;

static pg_place pg_places[PG_PLACES];

static inline const char *pg_server(unsigned i)
{
    static const char *const names[PG_SERVERS] = {"MS_TEST_PG", "MS_TEST_PG_2",
                                                  "MS_TEST_PG_3"};
    return getenv(names[i]);
}

/* The connection string of a schema; and the schema is made. */
static inline void pg_url(unsigned server, unsigned place, char *out, size_t size)
{
    char sql[100];
    const char *url = pg_server(server);
    PGconn *conn = PQconnectdb(url);
    snprintf(sql, sizeof sql, "create schema if not exists t%u_%u", server, place);
    PQclear(PQexec(conn, "set client_min_messages = error"));
    PGresult *r = PQexec(conn, sql);
    if (PQresultStatus(r) != PGRES_COMMAND_OK) {
        fprintf(stderr, "%s\n", PQerrorMessage(conn));
        abort();
    }
    PQclear(r);
    PQfinish(conn);
    snprintf(out, size, "%s options='-csearch_path=t%u_%u'", url, server, place);
}

/* After a test the table of locations must be what the records amount to. */
static inline ms_result pg_compare(ms__pg *s, ms__pg_line *line, void *ctx, ms_error *err)
{
    static const char *const sql[] = {PG_WRONG_LOCATIONS, PG_WRONG_BUCKETS};
    (void)s;
    (void)ctx;
    for (unsigned i = 0; i < 2; i++) {
        ms__pg_stmt q;
        PGresult *r;
        ms__pg_start(&q, sql[i]);
        MS__PG_TRY(ms__pg_exec(line, &q, &r, err));
        if (ms__pg_int(r, 0, 0) != 0) {
            fprintf(stderr, "ERROR: the table of %s is wrong\n",
                    i ? "buckets" : "locations");
            abort();
        }
        PQclear(r);
    }
    return MS_OK;
}

static inline void pg_give_back(ms_store *store)
{
    static unsigned times;
    ms__pg *pg = ms__pg_of(store);
    bool look = times++ < 300 || times % 10 == 0; /* of many tests a part */
    for (size_t i = 0; i < pg->n_servers && look; i++)
        (void)ms__pg_call(pg, i, pg_compare, NULL, NULL);
    for (unsigned i = 0; i < PG_PLACES; i++)
        if (pg_places[i].store == store) pg_places[i].used = false;
    store->open = 0;
}

static inline void pg_close_all(void)
{
    ms_pg_counts all = {0}, one;
    for (unsigned i = 0; i < PG_PLACES; i++) {
        if (pg_places[i].store == NULL) continue;
        pg_places[i].store->open = MS_STORE_OPEN;
        ms__pg_counts_of(ms__pg_of(pg_places[i].store), &one);
        all.replica_reads += one.replica_reads;
        all.replica_behind += one.replica_behind;
        all.replica_away += one.replica_away + one.replica_foreign;
        pg_places[i].close(pg_places[i].store);
    }
    if (getenv("MS_TEST_PG_REPLICA") == NULL) return;
    printf("reads: %llu of the replica, %llu while it was behind, %llu while away\n",
           (unsigned long long)all.replica_reads, (unsigned long long)all.replica_behind,
           (unsigned long long)all.replica_away);
}

static inline ms_result pg_make(pg_place *p, unsigned place, ms_error *err)
{
    static bool registered;
    char urls[PG_SERVERS][300], replica[300];
    const char *list[PG_SERVERS], *replicas[PG_SERVERS] = {NULL, NULL, NULL};
    ms_pg_desc desc;
    memset(&desc, 0, sizeof desc);
    if (pg_server(0) == NULL) abort();
    for (unsigned i = 0; i < PG_SERVERS && pg_server(i) != NULL; i++) {
        pg_url(i, place, urls[i], sizeof urls[i]);
        list[desc.n_urls++] = urls[i];
    }
    desc.urls = list;
    if (getenv("MS_TEST_PG_REPLICA") != NULL) {
        snprintf(replica, sizeof replica, "%s options='-csearch_path=t0_%u'",
                 getenv("MS_TEST_PG_REPLICA"), place);
        replicas[0] = replica;
        desc.replica_urls = replicas;
        desc.replica_lag_ms = 60000; /* no other handle writes */
    }
    bool citus = getenv("MS_TEST_CITUS") != NULL;
    desc.partitions = desc.n_urls > 1 || citus ? 1 : 2; /* planning is quicker without */
    desc.one_bucket = desc.n_urls > 1;
    MS__PG_TRY(ms_pg_open(&p->store, &desc, err));
    if (citus) citus_distribute(list[0]);
    if (!registered) atexit(pg_close_all);
    registered = true;
    p->backend = *p->store->backend;
    p->close = p->backend.close;
    p->backend.close = pg_give_back;
    p->store->backend = &p->backend;
    return MS_OK;
}

static inline ms_result pg_empty(ms__pg *s, ms__pg_line *line, void *ctx, ms_error *err)
{
    static unsigned times;
    (void)s;
    (void)ctx;
    MS__PG_TRY(ms__pg_simple(line, "delete from msgstore_record; delete from"
                             " msgstore_location", err));
    if (++times % 50 == 0) /* what is deleted slows everything down */
        MS__PG_TRY(ms__pg_simple(line, "vacuum msgstore_record, msgstore_bucket,"
                                 " msgstore_location", err));
    return ms__pg_simple(line, "update msgstore_bucket set last = 0,"
                         " stored = 0, hidden = 0, changes = 0, bytes = 0, newest = 0"
                         " where last > 0", err);
}

static inline ms_result open_postgres(test_store *s, const store_options *options,
                                      ms_error *err)
{
    unsigned place = 0;
    while (place < PG_PLACES && pg_places[place].used) place++;
    if (place == PG_PLACES) abort();
    pg_place *p = &pg_places[place];
    if (p->store == NULL) MS__PG_TRY(pg_make(p, place, err));
    p->used = true;
    p->store->open = MS_STORE_OPEN;
    ms__pg *pg = ms__pg_of(p->store);
    for (size_t i = 0; i < pg->n_servers; i++)
        MS__PG_TRY(ms__pg_call(pg, i, pg_empty, NULL, err));
    pg->seen = 0;
    pg->desc.max_message = options->max_message ? options->max_message : 64u << 20;
    pg->desc.keep_unset_times = options->keep_unset_times;
    pg->desc.clock = options->clock;
    s->store = p->store;
    return MS_OK;
}

#endif /* POSTGRES_KIND_H */
