/* Distributes the tables of a store over the workers of a Citus cluster, by bucket. All
 * of them are colocated: the rows of a bucket are on one worker.
 */

#ifndef CITUS_DISTRIBUTE_H
#define CITUS_DISTRIBUTE_H

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>

/* Those that the schema has. msgstore_schema stays on the coordinator. */
static const char *const citus_tables[] = {"msgstore_bucket", "msgstore_record",
                                           "msgstore_location", "msgstore_source"};

/* url names the schema of the store. Tables that are distributed already stay so. */
static inline void citus_distribute(const char *url)
{
    PGconn *conn = PQconnectdb(url);
    PQclear(PQexec(conn, "set client_min_messages = error"));
    for (size_t i = 0; i < sizeof citus_tables / sizeof citus_tables[0]; i++) {
        char sql[400];
        snprintf(sql, sizeof sql,
                 "select create_distributed_table(oid, 'bucket', colocate_with => '%s')"
                 " from pg_class where oid = to_regclass('%s') and not exists"
                 " (select 1 from pg_dist_partition where logicalrelid = oid)",
                 i ? "msgstore_bucket" : "none", citus_tables[i]);
        PGresult *r = PQexec(conn, sql);
        if (PQresultStatus(r) != PGRES_TUPLES_OK) {
            fprintf(stderr, "%s: %s\n", citus_tables[i], PQerrorMessage(conn));
            abort();
        }
        PQclear(r);
    }
    PQfinish(conn);
}

#endif /* CITUS_DISTRIBUTE_H */
