/* The store over PostgreSQL beside statements by hand, on one server, in one run:
 *
 *   append   one message at a time by n clients, locations spread, against a prepared
 *            INSERT of the same rows into a table with the same columns and indexes; once
 *            also against the store's own statement by hand, to show what the counter costs
 *   batch    1,000 messages at a time, against COPY of the same rows into that table
 *   ship     ms_pg_ship of 1,000 messages of 100 locations, against the same COPY
 *   newest   the newest 20 of a location's conversation, against a prepared query
 *
 *     build/bench_postgres URL [SECONDS [ROWS]]
 *
 * Both tables hold ROWS messages (0) before the first measurement, and the same ones before
 * the newest 20 are asked for.
 * Each pair runs in turns, five times; the table has the median of the ratios (more than
 * 1: the store is faster) and the smallest and largest one. bench/postgres.sh starts a
 * server for it.
 */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#define MSGSTORE_NO_FORMATS
#define MSGSTORE_POSTGRES_IMPLEMENTATION
#include "../msgstore.h"
#include "../backends/msgstore_postgres.h"

enum { LOCATIONS = 5000, TURNS = 5, BATCH = 1000, CLIENTS_MAX = 64 };

static const char *url;
static double seconds = 2;
static char body_text[600];

static double now_s(void)
{
    return (double)ms__pg_system_time() / 1e9;
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static PGconn *connect_plain(void)
{
    PGconn *c = PQconnectdb(url);
    if (PQstatus(c) != CONNECTION_OK) die("connect", PQerrorMessage(c));
    return c;
}

static void sql(PGconn *c, const char *text)
{
    PGresult *r = PQexec(c, text);
    ExecStatusType s = PQresultStatus(r);
    if (s != PGRES_COMMAND_OK && s != PGRES_TUPLES_OK) die(text, PQerrorMessage(c));
    PQclear(r);
}

static ms_store *open_store(unsigned connections)
{
    ms_pg_desc desc;
    ms_store *store;
    ms_error err;
    memset(&desc, 0, sizeof desc);
    desc.url = url;
    desc.connections = connections;
    if (ms_pg_open(&store, &desc, &err) != MS_OK) die("open", err.message);
    return store;
}

static ms_str name_of(unsigned i, char out[32])
{
    snprintf(out, 32, "location %u", i % LOCATIONS);
    return ms_str_of(out);
}

static ms_envelope message_of(unsigned i)
{
    ms_envelope m = ms_user_message(ms_text_n(ms_str_n(body_text, 400 + i % 200)));
    if (i % 2) m.agent_key = MS_STR("worker");
    return m;
}

/* ---- One message at a time. */

typedef struct client {
    pthread_t thread;
    unsigned id;
    ms_store *store;          /* NULL: by hand */
    bool counted;             /* by hand: with the update of the bucket's counter */
    PGconn *conn;
    size_t done;
} client;

static pthread_barrier_t ready;
static double end_of_run;

static const char by_hand[] =
    "insert into by_hand (seq, place, time, bucket, kind, type, location, agent, turn,"
    " key, body) values ($1::bigint, $1::bigint, $2::bigint, $3::int, 1, 1, $4::text,"
    " $5::text, null, $6::bytea, $7::bytea)";

/* Does what the store does for an append: the insert, and the number from the counter. */
static PGresult *put_counted(PGconn *conn, unsigned i, ms_str location, const ms_msg *msg,
                             const char *key)
{
    ms__pg_stmt p;
    p.n = 0;
    ms__pg_number(&p, MS__PG_INT4, ms_pg_bucket(location));
    ms__pg_number(&p, MS__PG_INT8, ms__pg_system_time() / 1000);
    ms__pg_number(&p, MS__PG_INT8, (int64_t)ms_size(msg));
    ms__pg_number(&p, MS__PG_INT8, ms__pg_system_time());
    ms__pg_number(&p, MS__PG_INT2, 1);
    ms__pg_text(&p, location);
    ms__pg_text(&p, i % 2 ? MS_STR("worker") : ms_str_n(NULL, 0));
    ms__pg_text(&p, ms_str_n(NULL, 0));
    ms__pg_bytea(&p, ms_str_n(key, 21));
    ms__pg_bytea(&p, ms_str_n((const char *)(const void *)msg, ms_size(msg)));
    return PQexecPrepared(conn, "counted", p.n, p.values, p.lengths, p.formats, 1);
}

static void hand_row(ms__pg_stmt *p, uint64_t seq, unsigned i, ms_str location,
                     const ms_msg *msg, char key[24])
{
    p->n = 0;
    ms__pg_number(p, MS__PG_INT8, (int64_t)seq);
    ms__pg_number(p, MS__PG_INT8, ms__pg_system_time());
    ms__pg_number(p, MS__PG_INT4, ms_pg_bucket(location));
    ms__pg_text(p, location);
    ms__pg_text(p, i % 2 ? MS_STR("worker") : ms_str_n(NULL, 0));
    snprintf(key, 24, "t%020llu", (unsigned long long)seq);
    ms__pg_bytea(p, ms_str_n(key, 21));
    ms__pg_bytea(p, ms_str_n((const char *)(const void *)msg, ms_size(msg)));
}

/* Appends or inserts one message. */
static void client_put(client *c, unsigned i, ms_arena *arena)
{
    char name[32], key[24];
    ms__pg_stmt p;
    ms_error err;
    const ms_msg *msg;
    ms_envelope m = message_of(i);
    m.location = name_of(i, name);
    if (c->store) {
        if (ms_append(c->store, m.location, &m, NULL, &err) != MS_OK)
            die("append", err.message);
        return;
    }
    ms_arena_reset(arena);
    ms_encode(&m, arena, &msg, NULL);
    hand_row(&p, ((uint64_t)ms__pg_system_time() / 1000) << 6 | c->id, i, m.location, msg,
             key);
    PGresult *r = c->counted ? put_counted(c->conn, i, m.location, msg, key)
                             : PQexecPrepared(c->conn, "hand", p.n, p.values, p.lengths,
                                              p.formats, 1);
    if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK)
        die("insert", PQerrorMessage(c->conn));
    PQclear(r);
}

/* Runs a client. Its first message connects and prepares, and is not counted. */
static void *client_run(void *arg)
{
    client *c = (client *)arg;
    uint64_t rng = c->id * 7919u + 1;
    ms_arena arena;
    memset(&arena, 0, sizeof arena);
    client_put(c, c->id, &arena);
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&ready);
    for (; now_s() < end_of_run; c->done++) {
        rng = rng * 6364136223846793005u + 1442695040888963407u;
        client_put(c, (unsigned)(rng >> 33), &arena);
    }
    ms_arena_deinit(&arena);
    return NULL;
}

/* Returns messages a second of n clients. */
static double appends(unsigned n, bool hand, bool counted)
{
    static client c[CLIENTS_MAX];
    ms_store *store = hand ? NULL : open_store(n);
    size_t total = 0;
    memset(c, 0, sizeof c);
    for (unsigned i = 0; i < n; i++) {
        Oid types[] = {20, 20, 23, 25, 25, 17, 17};
        Oid with_counter[] = {23, 20, 20, 20, 21, 25, 25, 25, 17, 17};
        c[i].id = i;
        c[i].store = store;
        if (!hand) continue;
        c[i].conn = connect_plain();
        PQclear(PQprepare(c[i].conn, "hand", by_hand, 7, types));
        PQclear(PQprepare(c[i].conn, "counted", MS__PG_APPEND(""), 10, with_counter));
        c[i].counted = counted;
    }
    pthread_barrier_init(&ready, NULL, n + 1);
    for (unsigned i = 0; i < n; i++)
        pthread_create(&c[i].thread, NULL, client_run, &c[i]);
    pthread_barrier_wait(&ready);
    double start = now_s();
    end_of_run = start + seconds;
    pthread_barrier_wait(&ready);
    for (unsigned i = 0; i < n; i++) {
        pthread_join(c[i].thread, NULL);
        if (hand) PQfinish(c[i].conn);
        total += c[i].done;
    }
    double rate = (double)total / (now_s() - start);
    pthread_barrier_destroy(&ready);
    ms_close(store);
    return rate;
}

/* ---- A thousand messages at a time. */

static void put(char **at, const void *bytes, size_t n, bool null)
{
    ms__pg_put((unsigned char *)*at, null ? UINT64_MAX : (uint64_t)n, 4);
    if (!null) memcpy(*at + 4, bytes, n);
    *at += 4 + (null ? 0 : n);
}

static double copies(void)
{
    static char room[2000];
    static uint64_t seq = 1;
    PGconn *c = connect_plain();
    ms_arena arena;
    size_t done = 0;
    double start = now_s();
    memset(&arena, 0, sizeof arena);
    while (now_s() < start + seconds) {
        PQclear(PQexec(c, "copy by_hand (seq, place, time, bucket, kind, type, location,"
                          " agent, key, body) from stdin (format binary)"));
        PQputCopyData(c, "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\0", 19);
        for (unsigned i = 0; i < BATCH; i++, seq++, done++) {
            char name[32], key[24], *at = room + 2;
            const ms_msg *msg;
            ms_envelope m = message_of(i);
            unsigned char n[24];
            ms_arena_reset(&arena);
            m.location = name_of((unsigned)(seq / BATCH), name);
            ms_encode(&m, &arena, &msg, NULL);
            ms__pg_put((unsigned char *)room, 10, 2);
            ms__pg_put(n, seq, 8);
            put(&at, n, 8, false);
            put(&at, n, 8, false);
            ms__pg_put(n, (uint64_t)ms__pg_system_time(), 8);
            put(&at, n, 8, false);
            ms__pg_put(n, ms_pg_bucket(m.location), 4);
            put(&at, n, 4, false);
            ms__pg_put(n, 1, 2);
            put(&at, n, 2, false);
            put(&at, n, 2, false);
            put(&at, name, m.location.len, false);
            put(&at, "worker", 6, i % 2 == 0);
            snprintf(key, sizeof key, "t%020llu", (unsigned long long)seq);
            put(&at, key, 21, i > 0);
            put(&at, msg, ms_size(msg), false);
            PQputCopyData(c, room, (int)(at - room));
        }
        PQputCopyEnd(c, NULL);
        PGresult *r;
        while ((r = PQgetResult(c)) != NULL) {
            if (PQresultStatus(r) != PGRES_COMMAND_OK) die("copy", PQerrorMessage(c));
            PQclear(r);
        }
    }
    double rate = (double)done / (now_s() - start);
    ms_arena_deinit(&arena);
    PQfinish(c);
    return rate;
}

static double batches(bool ship)
{
    static ms_envelope m[BATCH];
    static char names[BATCH][32];
    static uint64_t next = 1;
    ms_store *store = open_store(1);
    size_t done = 0;
    ms_error err;
    double start = now_s();
    for (unsigned k = 0; now_s() < start + seconds; k++, done += BATCH) {
        ms_append_opts opts;
        memset(&opts, 0, sizeof opts);
        for (unsigned i = 0; i < BATCH; i++) {
            m[i] = message_of(i);
            m[i].location = name_of(ship ? i % 100 : k, names[i]);
            m[i].seq = next++;
        }
        opts.location = m[0].location;
        uint64_t retired = 0;
        ms_result code = ship ? ms_pg_ship(store, MS_STR("bench"), NULL, m, BATCH, &retired,
                                           &err)
                              : ms_append_batch(store, m, BATCH, &opts, &err);
        if (code != MS_OK) die("batch", err.message);
    }
    double rate = (double)done / (now_s() - start);
    ms_close(store);
    return rate;
}

/* ---- Equal tables. */

/* Appends messages until the store has as many as asked for. */
static void fill(size_t rows)
{
    static ms_envelope m[BATCH];
    static char name[32];
    ms_store *store = open_store(1);
    ms_error err;
    for (size_t done = 0; done < rows; done += BATCH) {
        ms_append_opts opts;
        memset(&opts, 0, sizeof opts);
        opts.location = name_of((unsigned)(done / BATCH), name);
        for (unsigned i = 0; i < BATCH; i++) {
            m[i] = message_of(i);
            m[i].location = opts.location;
        }
        if (ms_append_batch(store, m, BATCH, &opts, &err) != MS_OK)
            die("fill", err.message);
    }
    ms_close(store);
}

/* Gives the table by hand the store's rows, and both the planner's statistics. */
static void equalise(PGconn *c)
{
    sql(c, "truncate by_hand");
    sql(c, "insert into by_hand select * from msgstore_record");
    sql(c, "vacuum analyze msgstore_record");
    sql(c, "vacuum analyze by_hand");
    sql(c, "checkpoint");
}

/* ---- The newest 20. */

static double newest(bool hand)
{
    ms_store *store = hand ? NULL : open_store(1);
    PGconn *conn = hand ? connect_plain() : NULL;
    Oid types[] = {23, 25};
    size_t done = 0, seen = 0;
    if (hand) sql(conn, "set plan_cache_mode = force_generic_plan"); /* as the store does */
    if (hand)
        PQclear(PQprepare(conn, "newest", "select seq, body from msgstore_record where"
                          " bucket = $1 and location = $2 and kind in (1, 3) and until is"
                          " null and type in (1, 2) order by seq desc limit 20", 2, types));
    double start = now_s();
    for (unsigned i = 0; now_s() < start + seconds; i += 7, done++) {
        char name[32];
        ms_str location = name_of(i, name);
        if (hand) {
            ms__pg_stmt p;
            p.n = 0;
            ms__pg_number(&p, MS__PG_INT4, ms_pg_bucket(location));
            ms__pg_text(&p, location);
            PGresult *r = PQexecPrepared(conn, "newest", 2, p.values, p.lengths, p.formats,
                                         1);
            seen += (size_t)PQntuples(r);
            PQclear(r);
        } else {
            ms_cursor it;
            ms_get_conversation_messages(store, location, 20, &it, NULL);
            while (ms_next(&it)) seen++;
            ms_cursor_close(&it, NULL);
        }
    }
    double rate = (double)done / (now_s() - start);
    if (seen == 0) die("newest", "nothing found");
    ms_close(store);
    if (conn) PQfinish(conn);
    return rate;
}

/* Returns the bytes per message of a log with the same messages. */
static double log_bytes(void)
{
    enum { MESSAGES = 20000 };
    char path[] = "/tmp/bench_pg_XXXXXX";
    ms_store *store;
    ms_error err;
    ms_log_desc desc;
    ms_log_info info;
    memset(&desc, 0, sizeof desc);
    if (!mkdtemp(path)) die(path, "no folder");
    char file[64];
    snprintf(file, sizeof file, "%s/log.msl", path);
    desc.path = file;
    if (ms_log_open(&store, &desc, &err) != MS_OK) die("log", err.message);
    for (unsigned i = 0; i < MESSAGES; i++) {
        char name[32];
        ms_envelope m = message_of(i);
        if (ms_append(store, name_of(i, name), &m, NULL, &err) != MS_OK)
            die("log", err.message);
    }
    ms_log_stat(store, &info, NULL);
    ms_close(store);
    remove(file);
    rmdir(path);
    return (double)info.end / MESSAGES;
}

/* ---- The table. */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double run(int what, unsigned n, bool hand)
{
    if (what == 0 || what == 4) return appends(n, hand, what == 4);
    if (what == 3) return newest(hand);
    return hand ? copies() : batches(what == 2);
}

static void row(const char *name, int what, unsigned n)
{
    double ratio[TURNS], ours[TURNS], theirs[TURNS];
    for (int i = 0; i < TURNS; i++) {
        theirs[i] = run(what, n, true);
        ours[i] = run(what, n, false);
        ratio[i] = ours[i] / theirs[i];
    }
    qsort(ratio, TURNS, sizeof ratio[0], ascending);
    qsort(ours, TURNS, sizeof ours[0], ascending);
    qsort(theirs, TURNS, sizeof theirs[0], ascending);
    printf("| %s | %.0f | %.0f | %.2f | %.2f to %.2f |\n", name, ours[TURNS / 2],
           theirs[TURNS / 2], ratio[TURNS / 2], ratio[0], ratio[TURNS - 1]);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const unsigned clients[] = {1, 2, 4, 8, 16, 32, 64};
    char name[64];
    if (argc < 2) return fprintf(stderr, "usage: bench_postgres URL [SECONDS]\n"), 2;
    url = argv[1];
    if (argc > 2) seconds = atof(argv[2]);
    for (size_t i = 0; i < sizeof body_text; i++)
        body_text[i] = (char)('a' + (i * i * 7 + i) % 26);
    ms_close(open_store(1));
    PGconn *c = connect_plain();
    sql(c, "set client_min_messages = error");
    sql(c, "drop table if exists by_hand");
    sql(c, "create table by_hand (like msgstore_record including all) partition by hash"
           " (bucket)");
    for (unsigned i = 0; i < 8; i++) {
        char text[200];
        snprintf(text, sizeof text, "create table by_hand_%u partition of by_hand for values"
                 " with (modulus 8, remainder %u)", i, i);
        sql(c, text);
    }
    if (argc > 3) fill((size_t)atol(argv[3]));
    equalise(c);
    printf("| | the store /s | by hand /s | ratio | |\n| --- | ---: | ---: | ---: | --- |\n");
    for (size_t i = 0; i < sizeof clients / sizeof clients[0]; i++) {
        snprintf(name, sizeof name, "append, %u clients", clients[i]);
        row(name, 0, clients[i]);
    }
    row("append, 8 clients; by hand with the counter", 4, 8);
    row("batches of 1,000, messages", 1, 1);
    row("ship, messages", 2, 1);
    equalise(c);
    row("newest 20 of a conversation", 3, 1);
    PGresult *r = PQexec(c, "select sum(pg_total_relation_size(c.oid)) /"
                         " (select sum(stored) from msgstore_bucket) from pg_class c"
                         " where relname like 'msgstore\\_record\\__'");
    printf("\nbytes per message: %.0f in the table with its indexes, %.0f in a log\n",
           atof(PQgetvalue(r, 0, 0)), log_bytes());
    PQclear(r);
    PQfinish(c);
    return 0;
}
